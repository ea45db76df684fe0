//! A smoltcp device whose frames pass through a [`SmartQueue`](freeboard::SmartQueue).
//!
//! [`ShapedDevice`] stands between an [`Interface`](smoltcp::iface::Interface) and its device. The
//! queue may be on the heap or in your own memory, and the medium Ethernet or IP. A frame is
//! written by smoltcp directly into a buffer of the queue, and copied from there to the device.
//!
//! With the feature `alloc` of `freeboard` the queue can be a `FrameQueue`, which is on the heap.

#![no_std]

mod error;
mod shaped_device;

pub use error::ShapedDeviceError;
pub use shaped_device::{QueueToken, ShapedDevice};
