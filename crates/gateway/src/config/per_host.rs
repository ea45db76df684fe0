//! What single hosts of the LAN side get that others do not: a weight, a rate, a ceiling.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{Ceiling, CommittedRate};
use freeboard::shaper::Rate;

use crate::config::Config;

/// What a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) weight: u32,
    pub(crate) rate: Option<CommittedRate>,
    pub(crate) ceiling: Option<Ceiling>,
}

impl Terms {
    /// The terms of a host of which nothing is said.
    pub(crate) const USUAL: Self = Self { weight: 1, rate: None, ceiling: None };
}

/// The terms of hosts that do not have the usual ones.
pub(crate) type ByHost = BTreeMap<IpAddr, Terms>;

/// What the configuration says of hosts, where the longest frame has `max_len` bytes.
pub(crate) fn by_host(config: &Config, max_len: u32) -> ByHost {
    let Config { weights, rates, ceils, .. } = config;
    let hosts: BTreeSet<&IpAddr> = weights.keys().chain(rates.keys()).chain(ceils.keys()).collect();
    let terms = |host: &IpAddr| Terms {
        weight: weights.get(host).copied().unwrap_or(Terms::USUAL.weight),
        rate: rates.get(host).and_then(|&rate| committed(rate, max_len)),
        ceiling: ceils.get(host).and_then(|&rate| ceiling(rate, max_len)),
    };
    hosts.into_iter().map(|host| (*host, terms(host))).collect()
}

/// A committed rate with a burst of 100 ms; what the host borrows is charged. None for an unlimited rate.
///
/// A burst must be longer than the pauses of a TCP rival under an AQM, because what is borrowed is charged up to a
/// burst only. Beside one such rival a host of 4 Mbit/s had 1.07 of its rate with 20 ms, and 1.00 with 100 ms (`crates/sim/tests/suite/host_rates.rs`).
fn committed(rate: Rate, max_len: u32) -> Option<CommittedRate> {
    let (bits, burst) = bucket(rate, 10, max_len)?;
    CommittedRate::new(bits, burst).ok()
}

/// A ceiling with a burst of 20 ms. `None` for an unlimited rate, which is no ceiling.
fn ceiling(rate: Rate, max_len: u32) -> Option<Ceiling> {
    let (bits, burst) = bucket(rate, 50, max_len)?;
    Ceiling::new(bits, burst).ok()
}

/// Bits per second, whose range is the same for lines, rates and ceilings, and a burst in bytes: what the rate carries
/// in one `part`-th of a second, or two of the longest frames if these are more.
fn bucket(rate: Rate, part: u64, max_len: u32) -> Option<(u64, u32)> {
    let bits = rate.as_bits_per_second()?;
    Some((bits, u32::try_from(bits / 8 / part).unwrap_or(u32::MAX).max(2 * max_len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_but_unlimited_has_room_for_two_frames() {
        let [least, most] = [Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND];
        for (bits, of_rate, of_ceiling) in
            [(least, 3_044, 3_044), (5_000_000, 62_500, 12_500), (most, u32::MAX, 1_000_000_000)]
        {
            let rate = Rate::bits_per_second(bits).unwrap();
            let committed = committed(rate, 1_522).unwrap();
            assert_eq!((committed.bits_per_second(), committed.burst()), (bits, of_rate));
            let ceiling = ceiling(rate, 1_522).unwrap();
            assert_eq!((ceiling.bits_per_second(), ceiling.burst()), (bits, of_ceiling));
        }
        assert_eq!(committed(Rate::UNLIMITED, 1_522), None);
        assert_eq!(ceiling(Rate::UNLIMITED, 1_522), None);
    }
}
