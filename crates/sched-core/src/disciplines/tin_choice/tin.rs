//! One tin: its clock and its turn.

use super::TinConfig;
use crate::disciplines::drr::ring::RingFlow;
use crate::{FiniteRate, Nanos, Tick, Volume, Work};

/// Room for one tin of [`TinChoice`](super::TinChoice): 72 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinState {
    /// How many packets the tin has been sent, while there were several. Not beside their bytes:
    /// one addition each takes fewer instructions than both in one vector.
    served_packets: u64,
    /// What all tins had been sent together when this one was served last, or became backlogged.
    pub(super) served_at: u32,
    /// The instant from which the tin is within its share.
    clock: Tick,
    rate: Option<FiniteRate>,
    /// The most credit, in time.
    credit: Nanos,
    /// Bytes a turn, by weight.
    pub(super) quantum: u32,
    /// Bytes charged to the turn by weight that is under way, or before it begins those by which
    /// the last one was overdrawn.
    pub(super) charged: u32,
    weight: u32,
    /// The bytes of `served_packets`, as booked.
    served_bytes: u64,
}

impl TinState {
    /// Without packets and without a rate: all zero.
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

    /// The tin has been sent a packet of `len` bytes.
    #[inline(always)]
    pub(super) const fn count(&mut self, len: u32) {
        self.served_packets = self.served_packets.wrapping_add(1);
        self.served_bytes = self.served_bytes.wrapping_add(len as u64);
    }

    /// What the tin has been sent.
    pub(super) const fn served(&self) -> Volume {
        Volume { packets: self.served_packets, bytes: self.served_bytes }
    }

    /// The weight is that of `config`, where the least of all tins is `least`: a turn of `max_len`
    /// bytes.
    pub(super) fn set_config(&mut self, config: TinConfig, least: u32, max_len: u32) {
        self.weight = config.weight;
        let quantum = u64::from(max_len) * u64::from(config.weight);
        let quantum = quantum.checked_div(least.into()).unwrap_or(0);
        let most = RingFlow::MAX_QUANTUM;
        self.quantum = u32::try_from(quantum).unwrap_or(most).min(most).max(max_len);
    }

    /// Sets another rate, of a tin below `above` others. What it owes or has to its credit it owes
    /// or has after the change, up to what it can.
    pub(super) fn set_rate(&mut self, rate: Option<u64>, above: u32, longest: u32, now: Nanos) {
        let rate = rate.and_then(|bits| FiniteRate::new(bits).ok());
        let before = core::mem::replace(&mut self.rate, rate);
        // With less a tin would lose what the tins above delay it: the proof of its share. `above`
        // is below 8.
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

    /// Returns the instant from which the tin is within its share.
    #[inline(always)]
    pub(super) const fn clock(&self) -> Nanos {
        self.clock.ns
    }

    /// The tin, backlogged until now, is sent `wire_len` bytes.
    #[inline]
    pub(super) fn charge(&mut self, wire_len: u32, now: Nanos) {
        if self.clock.ns > now {
            return self.charge_beyond(wire_len, now);
        }
        let Some(rate) = self.rate else { return };
        // Time begins later than any credit.
        let least = Nanos(now.0.wrapping_sub(self.credit.0));
        let paid = rate.not_before(self.clock, least);
        self.clock = rate.after_packet(paid, wire_len.into());
    }

    /// [`Self::charge`] of a clock that is ahead of now: the tin stays beyond its share. What is
    /// borrowed is charged, to no more than this packet beyond now, in whole nanoseconds.
    #[inline(always)]
    pub(super) fn charge_beyond(&mut self, wire_len: u32, now: Nanos) {
        let Some(rate) = self.rate else { return };
        // No overflow: time is moved back long before.
        let end = Nanos(now.0.wrapping_add(rate.whole_time_of(wire_len).0));
        self.clock = rate.not_before(self.clock, end);
    }

    /// The tin, idle until now, is backlogged. It has no credit.
    #[inline]
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.clock.ns <= now {
            self.clock = self.at(now);
        }
    }

    /// All instants are `span` earlier.
    pub(super) fn move_back(&mut self, span: Nanos) {
        self.clock.ns = self.clock.ns.since(span);
    }
}

#[cfg(test)]
impl TinState {
    /// Makes the clock as old as one that has gone on for `span`.
    pub(super) const fn age_by(&mut self, span: u64) {
        self.clock.ns.0 += span;
    }
}

/// The bits that are set, the lowest first: at most as many as there are tins.
#[inline(always)]
pub(super) fn bits(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask & ((1 << TinConfig::MAX_TINS) - 1);
    core::iter::from_fn(move || {
        // The number is below that of tins, and is so for compilers, which then check no place of a
        // tin.
        let bit = left.trailing_zeros() & (TinConfig::MAX_TINS - 1);
        let is_set = left != 0;
        left &= left.wrapping_sub(1);
        crate::steps::step();
        is_set.then_some(bit)
    })
}
