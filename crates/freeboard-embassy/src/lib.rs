//! An `embassy-net` driver whose frames pass through a [`SmartQueue`](freeboard::SmartQueue).
//!
//! [`ShapedDriver`] stands between the network stack and its driver. The queue may be on the heap
//! or in your own memory, and the frames Ethernet or IP. The stack writes a frame directly into a
//! buffer of the queue, and it is copied from there to the driver. The queue is a [`SharedQueue`],
//! so that another task of the same executor can change its settings.
//!
//! Time is that of `embassy-time`.

#![no_std]

mod clock;
mod error;
mod shaped_driver;
mod shared_queue;

pub use clock::now;
pub use error::ShapedDriverError;
pub use shaped_driver::{QueueToken, ShapedDriver};
pub use shared_queue::SharedQueue;
