//! Hierarchies: schedulers under a flow scheduler.

pub(crate) mod classes;
