//! A token bucket as a number that is looked at each time the clock is.

use freeboard::sched_core::{Nanos, WireLength};
use freeboard::shaper::Overhead;

/// Bytes on this wire of a packet of `len` bytes; none takes nothing.
pub(super) fn wire_len(link: Overhead, len: u32) -> u32 {
    WireLength::wire_len(&link, len).max(1)
}

/// What a bucket lacks. Time is counted in 2⁻³² ns, in which a byte takes a whole number, rounded up.
///
/// A full bucket lacks nothing. It remembers since when, because the flow that is due longest returns first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_byte: i128,
    /// Below zero: for how long it has been full.
    lacks: i128,
}

impl Bucket {
    pub(super) fn full(bits_per_second: u64) -> Self {
        let rate = i128::from(bits_per_second);
        let byte = 8_000_000_000 << 32;
        Self { per_byte: byte / rate + i128::from(byte % rate != 0), lacks: 0 }
    }

    /// The time that `bytes` bytes take, in whole nanoseconds.
    pub(super) fn time_of(&self, bytes: u32) -> i128 {
        (i128::from(bytes) * self.per_byte) >> 32
    }

    pub(super) fn pass(&mut self, nanos: i128) {
        self.lacks -= nanos << 32;
    }

    pub(super) fn take(&mut self, bytes: u32) {
        self.lacks = self.lacks.max(0) + i128::from(bytes) * self.per_byte;
    }

    /// The bucket lacks at most `nanos` ns.
    pub(super) fn clamp(&mut self, nanos: i128) {
        self.lacks = self.lacks.min(nanos << 32);
    }

    /// The nanoseconds until it lacks at most `allowed` ns, both of them whole; not above zero if it does.
    pub(super) fn wait(&self, allowed: i128) -> i128 {
        ((self.lacks + ((1 << 32) - 1)) >> 32) - allowed
    }

    /// Lacks as many bytes as `before` did, rounded up.
    pub(super) fn lacking_as(mut self, before: &Self) -> Self {
        let bytes = (before.lacks.max(0) + before.per_byte - 1) / before.per_byte;
        self.lacks = bytes.min(u32::MAX.into()) * self.per_byte;
        self
    }
}

/// The time for which a clock has gone on: a reading that was there before is no time, but after a step back of
/// more than a second the readings before it were wrong. It stops where every bucket is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forward {
    latest: Nanos,
    pub(super) sum: i128,
    /// Every bucket is full from here on, and from the nanosecond before.
    all_full: i128,
}

impl Forward {
    /// The clock says `now`; returns how far it went on.
    pub(super) fn advance(&mut self, now: Nanos) -> i128 {
        let step = self.step(now);
        self.latest = if self.is_wrong(now) { now } else { self.latest.max(now) };
        self.sum += step;
        step
    }

    /// Something was taken out of `bucket`.
    pub(super) fn look_ahead(&mut self, bucket: &Bucket) {
        self.all_full = self.all_full.max(self.sum + (bucket.lacks >> 32) + 1);
    }

    /// How far it would go on.
    fn step(&self, now: Nanos) -> i128 {
        i128::from(now.0.saturating_sub(self.latest.0)).min(self.all_full - self.sum)
    }

    /// Whether the clock, which says `now`, was wrong before.
    fn is_wrong(&self, now: Nanos) -> bool {
        now.0 < self.latest.0.saturating_sub(1_000_000_000)
    }

    /// What the clock says when it has gone on for `wait` from `now`; `None` if it ends before.
    pub(super) fn after(&self, wait: i128, now: Nanos) -> Option<Nanos> {
        let rest = wait - self.step(now);
        let from = if rest <= 0 || self.is_wrong(now) { now } else { self.latest.max(now) };
        u64::try_from(i128::from(from.0) + rest.max(0)).ok().map(Nanos)
    }
}
