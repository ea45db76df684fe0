//! The shaped device between smoltcp's own stacks, in simulated time.

mod construction;
mod loopback;
mod wire;
