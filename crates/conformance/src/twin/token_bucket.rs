//! A token bucket as a number that is looked at each time the clock is.

use freeboard::sched_core::{Nanos, WireLength};
use freeboard::shaper::Overhead;

/// Bytes on this wire of a packet of `len` bytes; none takes nothing.
pub(super) fn wire_len(link: Overhead, len: u32) -> u32 {
    WireLength::wire_len(&link, len).max(1)
}

/// A bucket that counts its deficit in units of 10⁻⁹ bit, of which its rate fills a whole number in
/// a nanosecond.
///
/// A full bucket lacks nothing. It remembers since when, because the flow that is due longest
/// returns first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    bits_per_second: i128,
    /// Below zero: for how long it has been full.
    lacks: i128,
}

impl Bucket {
    pub(super) fn full(bits_per_second: u64) -> Self {
        Self { bits_per_second: bits_per_second.into(), lacks: 0 }
    }

    /// The time that `bytes` bytes take, in whole nanoseconds.
    pub(super) fn time_of(&self, bytes: u32) -> i128 {
        i128::from(bytes) * 8_000_000_000 / self.bits_per_second
    }

    pub(super) fn pass(&mut self, nanos: i128) {
        self.lacks -= nanos * self.bits_per_second;
    }

    pub(super) fn take(&mut self, bytes: u32) {
        self.lacks = self.lacks.max(0) + i128::from(bytes) * 8_000_000_000;
    }

    /// The bucket lacks at most `nanos` ns.
    pub(super) fn clamp(&mut self, nanos: i128) {
        self.lacks = self.lacks.min(nanos * self.bits_per_second);
    }

    /// The nanoseconds until it lacks at most `allowed` ns, both of them whole; not above zero if
    /// it does.
    pub(super) fn wait(&self, allowed: i128) -> i128 {
        -(-self.lacks).div_euclid(self.bits_per_second) - allowed
    }

    /// Lacks as many bits as `before` did.
    pub(super) fn lacking_as(self, before: &Self) -> Self {
        Self { lacks: before.lacks.max(0), ..self }
    }
}

/// The time for which a clock has gone on: a reading that was there before is no time, but after a
/// step back of more than a second the readings before it were wrong. It stops where every bucket
/// is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forward {
    latest: Nanos,
    pub(super) sum: i128,
    /// Every bucket is full from here on.
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
        self.all_full = self.all_full.max(self.sum + bucket.wait(0));
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
