//! Measurements and their units.
//!
//! - [`delay`]: sojourn times and one-way delays; exact quantiles
//! - [`jitter`]: RFC 3550 interarrival jitter, RFC 3393 delay variation
//! - [`goodput`]: bytes over a window; loss; Jain's fairness index
//! - [`fair_shares`]: shares of a link by the rule of an isolation mode
//! - [`estimate`]: means over runs and their confidence intervals; spreads
//! - [`emodel`]: call quality as an R factor and a mean opinion score

pub mod delay;
pub mod emodel;
pub mod estimate;
pub mod fair_shares;
pub mod goodput;
pub mod jitter;

use freeboard::sched_core::Nanos;

/// Returns a time in seconds.
#[must_use]
pub const fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
