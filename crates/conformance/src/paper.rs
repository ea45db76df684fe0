//! The harness of QFQ Fig. 8: the controller that selects flows, and the workloads.

mod controller;
mod traffic;

pub use controller::{Controller, NONE, Passed, Subject};
pub use traffic::{Load, MTU, Pool, Sizes, Traffic, Weights};
