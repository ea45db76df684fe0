//! The gateway with the kernel of this machine: three network namespaces in a row, the gateway in
//! the middle one, with TCP, UDP and raw frames through it.
//!
//! Only `top`, the live view on a terminal, needs no namespace. The others need root, `ip`, `tc`
//! with tbf, `ethtool`, `setpriv` and, for NAT, `nft`; those of the router in `firmware/router`
//! need `qemu-system-riscv64` and `ping`. Without them a test prints `skipped: needs` with what is
//! missing, and passes, unless the environment has `CI=true`, where a skipped test fails.
//!
//! Tests that take more than a few seconds are ignored unless `cargo xtask check` runs them.
//!
//! Measurements are checked as ratios and medians. A measurement may be tried five times, since
//! other load on the machine takes time from a queue that it cannot get back; every attempt is
//! printed. An attempt during which the host of a virtual machine took its processors does not
//! count (`conformance::measurement`).
#![cfg(target_os = "linux")]

mod autorate;
mod changes;
mod delays;
mod edges;
mod floods;
mod frames;
mod gateway;
mod handling;
mod host_rates;
mod hosts_across_tins;
mod kinds;
mod named_hosts;
mod nat;
mod page;
mod rates;
mod raw;
mod refusals;
mod router;
mod serving;
mod setup;
mod starving;
mod super_packets;
mod tap;
mod tins;
mod top;
mod topology;
mod traffic;
