//! Measurements and their units.
//!
//! - [`delay`]: sojourn times and one-way delays; exact quantiles
//! - [`jitter`]: RFC 3550 interarrival jitter, RFC 3393 delay variation
//! - [`goodput`]: bytes over a window; loss; Jain's fairness index
//! - [`fair_shares`]: shares of a link by the rule of an isolation mode
//! - [`estimate`]: means over runs and their confidence intervals
//! - [`emodel`]: call quality as an R factor and a mean opinion score

pub mod delay;
pub mod emodel;
pub mod estimate;
pub mod fair_shares;
pub mod goodput;
pub mod jitter;
