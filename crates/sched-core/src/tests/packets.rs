//! Arrivals and heads of queues for the tests of AQMs.

use crate::aqm::{Head, Offer};
use crate::{Backlog, Ecn, Nanos, Packet};

/// A millisecond in ns.
pub(crate) const MS: u64 = 1_000_000;

/// Returns an arrival at a queue of `packets` packets, all of 1,500 bytes and without ECN.
pub(crate) fn offer(now: u64, packets: u32) -> Offer {
    let held = Backlog { packets, bytes: packets * 1_500 };
    Offer { now: Nanos(now), packet: Packet::new(0, 1_500), held }
}

/// Returns a packet without ECN that has waited for `sojourn` ns, at the head of a long queue.
pub(crate) fn standing(now: u64, sojourn: u64) -> Head {
    let (now, sojourn) = (Nanos(now), Nanos(sojourn));
    Head { now, sojourn, bytes_behind: 1 << 20, packets: 1 << 10, ecn: Ecn::NotEct }
}

/// Converts a 64-bit fraction.
#[expect(clippy::float_arithmetic, reason = "to compare with the twin")]
pub(crate) fn as_float(p: u64) -> f64 {
    p as f64 / 2_f64.powi(64)
}
