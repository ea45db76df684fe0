//! One tin: its clock and its turn; and the time of all tins.

use core::num::NonZeroU64;

use super::TinConfig;
use crate::disciplines::drr::ring::RingFlow;
use crate::guarantee::ceil;
use crate::{Nanos, Volume};

/// Time is in units of 2⁻¹⁶ ns. It does not wrap: from [`LATEST`] on all instants are moved back together.
const UNIT_BITS: u32 = 16;
/// Bits in a byte × units in a second.
const BIT_UNITS_PER_BYTE_SECOND: u128 = 8_000_000_000 << UNIT_BITS;
/// The time of the first call, and to which time is moved back: no credit reaches below 0.
pub(super) const BEGIN: u64 = 1 << 62;
/// Time that is later than this is moved back. A step of time is at most 2⁶¹, and no clock is ahead of now by more than 2⁶²: none
/// reaches the end of the type.
pub(super) const LATEST: u64 = BEGIN + (1 << 61);
/// The longest time of a packet with which few tins leave by the short way: 67 ms. That way moves no time back. It ends when the floor
/// is due, after 1,024 of the longest packets at most. Those that take most are single bytes, of up to 566 on the wire: 2⁶²
/// together, so that time stays below the end of the type.
pub(super) const A_SHORT_PACKET: u64 = 1 << 42;
/// Stands for the clock of a tin that is idle: later than any.
pub(super) const NEVER: u64 = u64::MAX;
/// The most credit, ten hours in units.
const MOST_CREDIT: u64 = 1 << 61;

/// Room for one tin of [`TinChoice`](super::TinChoice): 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinState {
    /// How many packets the tin has been sent, while there were several. Not beside their bytes: one addition each takes fewer
    /// instructions than both in one vector.
    served_packets: u64,
    /// What all tins had been sent together when this one was served last, or became backlogged.
    pub(super) served_at: u32,
    /// The instant from which the tin is within its share, while it is idle: the choice keeps those of the others.
    pub(super) clock: u64,
    /// The time of a byte at the rate, rounded up: at most 2³⁹. 0 without a rate.
    per_byte: u64,
    /// The most credit, in time.
    credit: u64,
    /// Bytes a turn, by weight.
    pub(super) quantum: u32,
    /// Bytes charged to the turn by weight that is under way, or before it begins those by which the last one was overdrawn.
    pub(super) charged: u32,
    /// 0 without a rate.
    bits_per_second: u64,
    weight: u32,
    /// The bytes of `served_packets`, as booked.
    served_bytes: u64,
}

impl TinState {
    /// Without packets and without a rate: all zero.
    pub const EMPTY: Self = Self {
        served_packets: 0,
        served_at: 0,
        clock: 0,
        per_byte: 0,
        credit: 0,
        quantum: 0,
        charged: 0,
        bits_per_second: 0,
        weight: 0,
        served_bytes: 0,
    };

    pub(super) const fn config(&self) -> TinConfig {
        let bits_per_second = match self.bits_per_second {
            0 => None,
            rate => Some(rate),
        };
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

    /// The weight is that of `config`, where the least of all tins is `least`: a turn of `max_len` bytes.
    pub(super) fn set_config(&mut self, config: TinConfig, least: u32, max_len: u32) {
        self.weight = config.weight;
        let quantum = u64::from(max_len) * u64::from(config.weight);
        let quantum = quantum.checked_div(least.into()).unwrap_or(0);
        let most = RingFlow::MAX_QUANTUM;
        self.quantum = u32::try_from(quantum).unwrap_or(most).min(most).max(max_len);
    }

    /// Another rate, of a tin below `above` others. The one division is here.
    pub(super) fn set_rate(&mut self, rate: Option<u64>, above: u32, longest: u32, now: u64) {
        self.bits_per_second = rate.unwrap_or(0);
        let before = self.per_byte;
        self.per_byte =
            rate.and_then(NonZeroU64::new).map_or(0, |rate| ceil(BIT_UNITS_PER_BYTE_SECOND, rate));
        let packet = self.time_of(longest);
        // With less a tin would lose what the tins above delay it: the proof of its share. `above` is below 8.
        let packets = (4_u64 << (above & 7)).wrapping_sub(1);
        self.credit = packet.saturating_mul(packets).min(MOST_CREDIT);
        let scaled = |span: u64| {
            let span = u128::from(span).saturating_mul(self.per_byte.into());
            let scaled = span.checked_div(before.into()).unwrap_or(0);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        self.clock = match self.clock.checked_sub(now) {
            Some(ahead) => now.wrapping_add(scaled(ahead).min(packet)),
            None => now.wrapping_sub(scaled(now.wrapping_sub(self.clock)).min(self.credit)),
        };
    }

    /// At most 2³⁹ · 2²³: a packet of 2²⁰ bytes is less than 2²³ on any wire.
    #[inline]
    pub(super) const fn time_of(&self, wire_len: u32) -> u64 {
        self.per_byte.wrapping_mul(wire_len as u64)
    }

    /// The clock of the tin, backlogged until now, when it is sent `wire_len` bytes.
    #[inline]
    pub(super) fn charged(&self, clock: u64, wire_len: u32, now: u64) -> u64 {
        let paid = clock.min(now).max(now.wrapping_sub(self.credit));
        // What is borrowed is charged, to no more than this packet beyond now.
        clock.max(paid.wrapping_add(self.time_of(wire_len)))
    }

    /// [`Self::charged`] of a clock that is ahead of now: the tin stays beyond its share.
    #[inline(always)]
    pub(super) fn charged_beyond(&self, clock: u64, wire_len: u32, now: u64) -> u64 {
        clock.max(now.wrapping_add(self.time_of(wire_len)))
    }

    /// The tin, idle until now, is backlogged; returns whether it is beyond its share. It has no credit.
    #[inline]
    pub(super) fn begin(&mut self, now: u64) -> bool {
        let is_ahead = self.clock > now;
        if !is_ahead {
            self.clock = now;
        }
        is_ahead
    }

    /// All instants are `span` earlier.
    pub(super) const fn move_back(&mut self, span: u64) {
        self.clock = self.clock.saturating_sub(span);
    }
}

/// The bits that are set, the lowest first: at most as many as there are tins.
#[inline(always)]
pub(super) fn bits(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask & ((1 << TinConfig::MAX_TINS) - 1);
    core::iter::from_fn(move || {
        // The number is below that of tins, and is so for compilers, which then check no place of a tin.
        let bit = left.trailing_zeros() & (TinConfig::MAX_TINS - 1);
        let is_set = left != 0;
        left &= left.wrapping_sub(1);
        crate::steps::step();
        is_set.then_some(bit)
    })
}

/// The time of all tins: that for which the clock which is told has gone on, as of the calls in which a tin changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TinTime {
    told: Nanos,
    /// The latest reading that was counted.
    mark: Nanos,
    /// What the time is more than that reading. It stays while the clock goes on.
    pub(super) more: u64,
}

impl TinTime {
    /// Clocks of different processors are apart by less.
    const A_STEP_BACK: i64 = 1_000_000_000;
    /// A longer step forward counts as one of 2^45 ns, which is ten hours: no clock of a tin is left behind by more than
    /// can be told.
    const A_STEP_BITS: u32 = 45;

    pub(super) const START: Self = Self { told: Nanos::ZERO, mark: Nanos::ZERO, more: BEGIN };

    /// The time as of the latest reading that was counted.
    #[inline(always)]
    const fn now(&self) -> u64 {
        (self.mark.0 << UNIT_BITS).wrapping_add(self.more)
    }

    /// The reading that was told counts from now on, and the time is `now`.
    const fn set(&mut self, now: u64) {
        self.mark = self.told;
        self.more = now.wrapping_sub(self.told.0 << UNIT_BITS);
    }

    /// Moves time back to where it began; returns how far.
    pub(super) const fn move_back(&mut self) -> u64 {
        let span = self.now().saturating_sub(BEGIN);
        self.more = self.more.wrapping_sub(span);
        span
    }

    #[inline]
    pub(super) const fn tell(&mut self, now: Nanos) {
        self.told = now;
    }

    #[inline]
    pub(super) const fn told(&self) -> Nanos {
        self.told
    }

    /// The instant of the last reading that was told.
    #[inline]
    pub(super) fn tick(&mut self) -> u64 {
        if let Some(now) = self.tick_plainly() {
            return now;
        }
        let step = self.told.0.wrapping_sub(self.mark.0).cast_signed();
        let now = self.now();
        if step >= 0 {
            self.set(now.wrapping_add(1 << (Self::A_STEP_BITS + UNIT_BITS)));
        } else if step < -Self::A_STEP_BACK {
            self.set(now);
        }
        self.now()
    }

    /// [`Self::tick`]. `None`, and nothing has changed, if the clock has made a longer step than one that counts, or one back.
    #[inline(always)]
    pub(super) fn tick_plainly(&mut self) -> Option<u64> {
        let step = self.told.0.wrapping_sub(self.mark.0);
        if step >> Self::A_STEP_BITS != 0 {
            return None;
        }
        self.mark = self.told;
        Some(self.now())
    }
}
