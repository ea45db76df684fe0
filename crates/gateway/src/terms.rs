//! What single hosts of the LAN side get that others do not: a weight, a cap.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::CommittedRate;
use freeboard::shaper::Rate;

use crate::config::Config;

/// What a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) weight: u32,
    pub(crate) cap: Option<CommittedRate>,
}

impl Terms {
    /// Those of a host of which nothing is said.
    pub(crate) const USUAL: Self = Self { weight: 1, cap: None };
}

/// The terms of hosts that do not have the usual ones.
pub(crate) type ByHost = BTreeMap<IpAddr, Terms>;

/// What the configuration says of hosts, where the longest frame has `max_len` bytes.
pub(crate) fn by_host(config: &Config, max_len: u32) -> ByHost {
    let hosts: BTreeSet<&IpAddr> = config.weights.keys().chain(config.caps.keys()).collect();
    let terms = |host: &IpAddr| Terms {
        weight: config.weights.get(host).copied().unwrap_or(Terms::USUAL.weight),
        cap: config.caps.get(host).and_then(|&rate| cap(rate, max_len)),
    };
    hosts.into_iter().map(|host| (*host, terms(host))).collect()
}

/// A cap of this rate that lets 20 ms of it pass at once, or two of the longest frames. None for an unlimited
/// rate, which is no cap.
fn cap(rate: Rate, max_len: u32) -> Option<CommittedRate> {
    let bits = rate.as_bits_per_second()?;
    let burst = u32::try_from(bits / 8 / 50).unwrap_or(u32::MAX).max(2 * max_len);
    // Rates and caps have one range.
    CommittedRate::new(bits, burst).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_but_unlimited_is_a_cap_with_room_for_two_frames() {
        let [least, most] = [Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND]
            .map(|bits| cap(Rate::bits_per_second(bits).unwrap(), 1_522).unwrap());
        assert_eq!((least.bits_per_second(), least.burst()), (1_000, 3_044));
        assert_eq!((most.bits_per_second(), most.burst()), (400_000_000_000, 1_000_000_000));
        assert_eq!(cap(Rate::UNLIMITED, 1_522), None);
    }
}
