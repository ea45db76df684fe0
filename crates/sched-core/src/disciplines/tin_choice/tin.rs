//! State of one tin: its clock and its turn.

use super::TinConfig;
use crate::disciplines::drr::ring::RingFlow;
use crate::{FiniteRate, Nanos, Tick, Volume, Work};

/// Memory for one tin of [`TinChoice`](super::TinChoice): 72 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinState {
    /// Packets sent by the tin while there were several tins. Not next to their bytes: two
    /// separate additions take fewer instructions than one vector addition.
    served_packets: u64,
    /// Bytes that all tins together had sent when this one was last served or became backlogged.
    pub(super) served_at: u32,
    /// The time from which the tin is within its share.
    clock: Tick,
    rate: Option<FiniteRate>,
    /// The maximum credit, in time.
    credit: Nanos,
    /// Bytes per turn, by weight.
    pub(super) quantum: u32,
    /// Bytes charged to the current turn by weight; before it begins, the overdraft of the last
    /// one.
    pub(super) charged: u32,
    weight: u32,
    /// Bytes of `served_packets`, as accounted.
    served_bytes: u64,
}

impl TinState {
    /// A tin without packets and without a rate: all zero.
    pub const EMPTY: Self = Self {
        served_packets: 0,
        served_at: 0,
        clock: Tick::without_rate(Nanos::ZERO),
        rate: None,
        credit: Nanos::ZERO,
        quantum: 0,
        charged: 0,
        weight: 0,
        served_bytes: 0,
    };

    pub(super) fn config(&self) -> TinConfig {
        let bits_per_second = self.rate.map(FiniteRate::bits_per_second);
        TinConfig { bits_per_second, weight: self.weight }
    }

    /// Counts a packet of `len` bytes sent by the tin.
    #[inline(always)]
    pub(super) const fn count(&mut self, len: u32) {
        self.served_packets = self.served_packets.wrapping_add(1);
        self.served_bytes = self.served_bytes.wrapping_add(len as u64);
    }

    /// Returns the packets and bytes sent by the tin.
    pub(super) const fn served(&self) -> Volume {
        Volume { packets: self.served_packets, bytes: self.served_bytes }
    }

    /// Sets the weight of `config`; `least` is the smallest weight of all tins, for which a turn is
    /// `max_len` bytes.
    pub(super) fn set_config(&mut self, config: TinConfig, least: u32, max_len: u32) {
        self.weight = config.weight;
        let quantum = u64::from(max_len) * u64::from(config.weight);
        let quantum = quantum.checked_div(least.into()).unwrap_or(0);
        let most = RingFlow::MAX_QUANTUM;
        self.quantum = u32::try_from(quantum).unwrap_or(most).min(most).max(max_len);
    }

    /// Changes the rate of a tin below `above` others. Debt or credit is kept, up to the maximum.
    pub(super) fn set_rate(&mut self, rate: Option<u64>, above: u32, longest: u32, now: Nanos) {
        let rate = rate.and_then(|bits| FiniteRate::new(bits).ok());
        let before = core::mem::replace(&mut self.rate, rate);
        // Less credit would not cover the delay by the tins above, which the proof of the share
        // requires. `above` is below 8.
        let packets = (4_u64 << (above & 7)).wrapping_sub(1);
        let credit = Work::NONE.plus(packets.wrapping_mul(longest.into()));
        self.credit = rate.map_or(Nanos::ZERO, |rate| rate.after(Nanos::ZERO, credit).ns);
        self.clock = match (before, rate) {
            (Some(before), Some(rate)) => {
                let clock = rate.after(now, before.work_between(now, self.clock));
                let most = rate.after_packet(rate.at(now), longest.into());
                rate.not_before(clock, now.since(self.credit)).min(most)
            }
            _ => self.at(now),
        };
    }

    /// Returns the instant `now` at the rate.
    fn at(&self, now: Nanos) -> Tick {
        self.rate.map_or(Tick::without_rate(now), |rate| rate.at(now))
    }

    /// Returns the time from which the tin is within its share.
    #[inline(always)]
    pub(super) const fn clock(&self) -> Nanos {
        self.clock.ns
    }

    /// Charges the tin, which was backlogged until now, `wire_len` bytes.
    #[inline]
    pub(super) fn charge(&mut self, wire_len: u32, now: Nanos) {
        if self.clock.ns > now {
            return self.charge_beyond(wire_len, now);
        }
        let Some(rate) = self.rate else { return };
        // The origin of time is earlier than any credit.
        let least = Nanos(now.0.wrapping_sub(self.credit.0));
        let paid = rate.not_before(self.clock, least);
        self.clock = rate.after_packet(paid, wire_len.into());
    }

    /// [`Self::charge`] for a clock ahead of `now`: the tin stays beyond its share. Borrowed
    /// bandwidth is charged, but at most to this packet's time after `now`, in whole nanoseconds.
    #[inline(always)]
    pub(super) fn charge_beyond(&mut self, wire_len: u32, now: Nanos) {
        let Some(rate) = self.rate else { return };
        // No overflow: times are moved back long before.
        let end = Nanos(now.0.wrapping_add(rate.whole_time_of(wire_len).0));
        self.clock = rate.not_before(self.clock, end);
    }

    /// Starts a backlogged period of the tin, idle until now, without credit.
    #[inline]
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.clock.ns <= now {
            self.clock = self.at(now);
        }
    }

    /// Moves all times back by `span`.
    pub(super) fn move_back(&mut self, span: Nanos) {
        self.clock.ns = self.clock.ns.since(span);
    }
}

#[cfg(test)]
impl TinState {
    /// Advances the clock by `span`.
    pub(super) const fn age_by(&mut self, span: u64) {
        self.clock.ns.0 += span;
    }
}

/// Returns the indices of the set bits, lowest first: at most as many as there are tins.
#[inline(always)]
pub(super) fn bits(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask & ((1 << TinConfig::MAX_TINS) - 1);
    core::iter::from_fn(move || {
        // The index is below the number of tins. With the mask the compiler knows, and omits bounds
        // checks.
        let bit = left.trailing_zeros() & (TinConfig::MAX_TINS - 1);
        let is_set = left != 0;
        left &= left.wrapping_sub(1);
        crate::steps::step();
        is_set.then_some(bit)
    })
}
