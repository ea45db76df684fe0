//! Router-grade packet scheduling as a library.
#![no_std]
pub use {flowhash, sched_core, shaper};
