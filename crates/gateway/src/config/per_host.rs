//! Settings of single hosts on the LAN side: weight, rate and ceiling.

use std::collections::BTreeSet;

use freeboard::sched_core::TokenBucket;
use freeboard::shaper::Rate;

use crate::config::Config;
use crate::config::hosts::{ByHost, Host};

/// Weight, rate and ceiling of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) weight: u32,
    pub(crate) rate: Option<TokenBucket>,
    pub(crate) ceiling: Option<TokenBucket>,
}

impl Terms {
    /// Terms of a host without settings.
    pub(crate) const DEFAULT: Self = Self { weight: 1, rate: None, ceiling: None };
}

/// Terms of the hosts with settings.
pub(crate) type TermsByHost = ByHost<Terms>;

/// Returns the terms of configured hosts, with frames of at most `max_len` bytes.
///
/// A setting missing for a host is taken from the longest prefix that contains the host and has
/// one.
pub(crate) fn by_host(config: &Config, max_len: u32) -> TermsByHost {
    let Config { names, weights, rates, ceils, .. } = config;
    let hosts: BTreeSet<&Host> = weights.keys().chain(rates.keys()).chain(ceils.keys()).collect();
    let said = |host: &Host| HostEntry {
        weight: weights.get(host).copied(),
        rate: rates.get(host).copied(),
        ceiling: ceils.get(host).copied(),
    };
    let all = hosts.iter().map(|&host| (host.clone(), said(host)));
    let said = ByHost::new(names, all);
    said.map(|within| {
        let mut whole = HostEntry::default();
        for one in within {
            whole.weight = whole.weight.or(one.weight);
            whole.rate = whole.rate.or(one.rate);
            whole.ceiling = whole.ceiling.or(one.ceiling);
        }
        Terms {
            weight: whole.weight.unwrap_or(Terms::DEFAULT.weight),
            rate: whole.rate.and_then(|rate| committed(rate, max_len)),
            ceiling: whole.ceiling.and_then(|rate| ceiling(rate, max_len)),
        }
    })
}

/// Settings of a host or a prefix in the tables.
#[derive(Clone, Copy, Debug, Default)]
struct HostEntry {
    weight: Option<u32>,
    rate: Option<Rate>,
    ceiling: Option<Rate>,
}

/// Returns a committed rate with a burst of 100 ms that also charges what the host borrows; `None`
/// for an unlimited rate.
///
/// The burst must be longer than the pauses of a competing TCP flow under an AQM, because borrowed
/// bytes are charged up to one burst only. Beside one such flow, a host with 4 Mbit/s got 1.07
/// times its rate with 20 ms, and 1.00 with 100 ms (`crates/sim/tests/suite/host_rates.rs`).
fn committed(rate: Rate, max_len: u32) -> Option<TokenBucket> {
    let (bits, burst) = bucket(rate, 10, max_len)?;
    TokenBucket::new(bits, burst).ok()
}

/// Returns a ceiling with a burst of 20 ms; `None` for an unlimited rate, which is no ceiling.
fn ceiling(rate: Rate, max_len: u32) -> Option<TokenBucket> {
    let (bits, burst) = bucket(rate, 50, max_len)?;
    TokenBucket::new(bits, burst).ok()
}

/// Returns bits per second, whose range is the same for links, rates and ceilings, and a burst in
/// bytes: what the rate carries in 1/`part` of a second, at least two frames of maximum length.
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
            [(least, 3_044, 3_044), (5_000_000, 62_500, 12_500), (most, 1 << 30, 1_000_000_000)]
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
