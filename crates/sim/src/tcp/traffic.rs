//! Traffic of several connections: each generator adds its connections to a [`TcpNetwork`] and
//! returns their numbers.
//!
//! | generator | traffic |
//! |---|---|
//! | [`Pages`] | a browser that loads pages one after another |
//! | [`PeerToPeer`] | uploads to many peers that come and go |
//! | [`Rrul`] | flent's test: four uploads, four downloads, probes |
//! | [`FlowArrivals`] | transfers that arrive at random, with sizes of a distribution |
//! | [`rfc7928::Profile`] | the traffic of the guidelines for evaluating AQMs |
//!
//! Open-loop traffic (calls, video, constant rate) is in [`crate::source`];
//! [`TcpNetwork::add_source`] adds it. All connections are declared before the run, and one that
//! depends on others is added with [`TcpNetwork::connect_after`].

mod arrivals;
mod pages;
mod peer_to_peer;
pub mod rfc7928;
mod rrul;

use freeboard::sched_core::Ecn;

use super::congestion::Cubic;
use super::network::TcpNetwork;
use super::{Config, PAYLOAD};

pub use arrivals::{Arrival, FlowArrivals};
pub use pages::{PageLoad, PageLoads, Pages};
pub use peer_to_peer::{Churn, PeerToPeer};
pub use rrul::{Rrul, RrulFlows};

/// Returns a configuration of CUBIC (RFC 9438) without ECN: the default of Linux.
#[must_use]
pub fn cubic() -> Config {
    Config::new(Box::new(Cubic::new(Ecn::NotEct)))
}

/// Returns the configuration of a transfer of this many bytes, and the payload of its segments: as
/// many segments as full ones would be, of one size, so that the sum is too large by less than a
/// byte for each segment. A transfer of nothing is one segment of headers.
fn sized(config: Config, bytes: u64) -> (Config, u32) {
    let segments = bytes.div_ceil(PAYLOAD.into()).max(1);
    let payload = u32::try_from(bytes.div_ceil(segments)).expect("at most a full segment");
    // The largest number stands for a transfer without end.
    let segments = u32::try_from(segments).unwrap_or(u32::MAX - 1);
    (Config { segments, ..config }, payload)
}

#[cfg(test)]
mod tests;
