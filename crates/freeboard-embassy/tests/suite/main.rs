//! The shaped driver between stacks of `embassy-net`, in simulated time.

mod construction;
mod line;
mod loopback;
mod tokens;
mod world;
