//! Devices, frames and system calls.

pub(crate) mod conntrack;
pub(crate) mod device;
pub(crate) mod frame;
pub(crate) mod offloads;
pub(crate) mod ping;
pub(crate) mod privileges;
pub(crate) mod stack;
#[allow(unsafe_code)]
pub(crate) mod sys;
pub(crate) mod uncut;
