//! AQMs driven directly, packet by packet, without sources and links, to compare them with
//! published numbers.
//!
//! - [`standing`]: times of the signals to a standing queue
//! - [`pie`]: PIE's probability at a constant delay, and its effect on traffic
//! - [`red`]: RED's average after a burst, and distances between its signals
//! - [`ns3`]: the traffic of ns-3's tests

pub mod ns3;
pub mod pie;
pub mod red;
pub mod standing;
