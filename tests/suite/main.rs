//! The assembled queues from the outside: labels, hashes and isolation, frames and their buffers,
//! the smart queue.

mod ack_filter;
mod ahead;
mod buffers;
mod bursts;
mod debug;
mod error_texts;
mod filtered_tins;
mod hashed;
mod ingress;
mod isolated;
mod memory_limit;
mod other_tins;
mod pool;
mod public_types;
mod queue_tins;
mod segmenter;
mod segments;
mod settings;
mod smart_frames;
mod smart_queue;
mod statistics;
mod threads;
mod tins;
