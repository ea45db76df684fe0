//! The gateway with the kernel of this machine: three network namespaces in a row, the gateway in the one in
//! the middle, TCP, UDP and raw frames through it.
//!
//! It takes root, `ip`, `tc` with tbf, `ethtool` and `setpriv`. Elsewhere every test says `skipped: needs
//! CAP_NET_ADMIN` and passes, unless the environment has `CI=true`: there a test that is skipped fails.
//!
//! Tests that take more than a few seconds are ignored unless `cargo xtask check` runs them.
//!
//! What is measured is said in ratios and medians. A measurement may be tried five times, since other work
//! on the machine takes time from a queue that never comes back; every attempt is printed.
#![cfg(target_os = "linux")]

mod changes;
mod delays;
mod edges;
mod floods;
mod frames;
mod gateway;
mod host_rates;
mod kinds;
mod page;
mod rates;
mod raw;
mod serving;
mod starving;
mod tap;
mod topology;
mod traffic;
mod words;

/// Tries a measurement up to five times; `try_once` prints what it has measured.
pub(crate) fn attempts(what: &str, mut try_once: impl FnMut() -> Result<(), String>) {
    let mut failed = String::new();
    for attempt in 1..=5 {
        match try_once() {
            Ok(()) => return,
            Err(why) => failed += &format!("\n  attempt {attempt}: {why}"),
        }
        println!("{what}:{failed}");
    }
    panic!("{what}:{failed}");
}
