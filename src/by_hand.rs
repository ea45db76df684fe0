//! Documentation only: assembling the parts yourself, for a flow scheduler, drop policy or AQM that
//! [`SmartQueue`](crate::SmartQueue) does not offer. This module has no items.
//!
//! A packet is the number of one of your buffers and a length; a dropped packet is handed back to
//! you. From the inside out: a flow scheduler, the queues, the policy that selects the flow to drop
//! from, the table that maps hashes to flows, and the shaper of the link:
//!
//! ```
//! use freeboard::Hashed;
//! use freeboard::flowhash::{FlowTable, TagLine};
//! use freeboard::sched_core::{
//!     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, Nanos, Packet, Queue,
//!     Scheduler,
//! };
//! use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
//!
//! let mut drr = Drr::new([DrrFlow::EMPTY; 64], 1_514)?.sparse_first();
//! drr.add_all(1_514)?;
//! let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
//! let limits = Limits::bytes(150_000).within_pool(256);
//! let (queues, lengths) = ([Queue::EMPTY; 64], [LongestFlow::EMPTY; 64]);
//! let queues = FlowQueues::new(drr, queues, lengths, [Descriptor::EMPTY; 256], limits);
//! let queues = Hashed::over(queues, table);
//! let line = Shaper::new(Rate::megabits_per_second(1)?);
//! let mut uplink = Shaped::new(queues, line, Overhead::PPPOE_LLCSNAP);
//!
//! let free =
//!     &mut |packet: Packet, why| println!("buffer {} is free again: {why:?}", packet.handle);
//! uplink.enqueue(Nanos(0), FlowId(42), Packet::new(3, 60), free)?; // 42: the label of its flow
//! while let Some(packet) = uplink.dequeue(Nanos(0), free) {
//!     println!("send buffer {}", packet.handle);
//! }
//! println!("call again at {:?}", uplink.poll_at(Nanos(0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
