//! Reference model of a token bucket: a number updated at each timestamp.

use freeboard::sched_core::{Nanos, WireLength};
use freeboard::shaper::Overhead;

/// Returns the length on this wire of a packet of `len` bytes, at least 1.
pub(super) fn wire_len(link: Overhead, len: u32) -> u32 {
    WireLength::wire_len(&link, len).max(1)
}

/// A bucket that counts its deficit in units of 10⁻⁹ bit, so that its rate fills a whole number of
/// units per nanosecond.
///
/// A full bucket has no deficit, but remembers how long it has been full, because the flow that has
/// been due longest returns first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    bits_per_second: i128,
    /// Deficit; if negative, the time for which the bucket has been full.
    lacks: i128,
}

impl Bucket {
    pub(super) fn full(bits_per_second: u64) -> Self {
        Self { bits_per_second: bits_per_second.into(), lacks: 0 }
    }

    /// Returns the time of `bytes` bytes in whole nanoseconds.
    pub(super) fn time_of(&self, bytes: u32) -> i128 {
        i128::from(bytes) * 8_000_000_000 / self.bits_per_second
    }

    pub(super) fn pass(&mut self, nanos: i128) {
        self.lacks -= nanos * self.bits_per_second;
    }

    pub(super) fn take(&mut self, bytes: u32) {
        self.lacks = self.lacks.max(0) + i128::from(bytes) * 8_000_000_000;
    }

    /// Limits the deficit to `nanos` ns.
    pub(super) fn clamp(&mut self, nanos: i128) {
        self.lacks = self.lacks.min(nanos * self.bits_per_second);
    }

    /// Returns the time in nanoseconds until the deficit is at most `allowed` ns, both whole
    /// numbers; not positive if it is.
    pub(super) fn wait(&self, allowed: i128) -> i128 {
        -(-self.lacks).div_euclid(self.bits_per_second) - allowed
    }

    /// Sets the deficit to that of `before`, in bits.
    pub(super) fn lacking_as(self, before: &Self) -> Self {
        Self { lacks: before.lacks.max(0), ..self }
    }
}

/// Accumulated forward time of a clock. A timestamp earlier than the latest counts as no time
/// passing, unless it is earlier by more than a second: then the earlier timestamps were wrong.
/// Stops when every bucket is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forward {
    latest: Nanos,
    pub(super) sum: i128,
    /// Accumulated time at which every bucket is full.
    all_full: i128,
}

impl Forward {
    /// Advances to timestamp `now`; returns the time passed.
    pub(super) fn advance(&mut self, now: Nanos) -> i128 {
        let step = self.step(now);
        self.latest = if self.is_wrong(now) { now } else { self.latest.max(now) };
        self.sum += step;
        step
    }

    /// Accounts for a withdrawal from `bucket`.
    pub(super) fn look_ahead(&mut self, bucket: &Bucket) {
        self.all_full = self.all_full.max(self.sum + bucket.wait(0));
    }

    /// Returns the time that would pass.
    fn step(&self, now: Nanos) -> i128 {
        i128::from(now.0.saturating_sub(self.latest.0)).min(self.all_full - self.sum)
    }

    /// Returns true if timestamps before `now` were wrong.
    fn is_wrong(&self, now: Nanos) -> bool {
        now.0 < self.latest.0.saturating_sub(1_000_000_000)
    }

    /// Returns the timestamp at which `wait` has passed from `now`; `None` beyond the maximum time.
    pub(super) fn after(&self, wait: i128, now: Nanos) -> Option<Nanos> {
        let rest = wait - self.step(now);
        let from = if rest <= 0 || self.is_wrong(now) { now } else { self.latest.max(now) };
        u64::try_from(i128::from(from.0) + rest.max(0)).ok().map(Nanos)
    }
}
