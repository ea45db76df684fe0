//! A histogram of sojourn times, with buckets that grow with the time.

use crate::Nanos;

/// Times below 2^10 ns, the tick of a queue's clock, share a bucket.
const FIRST_POWER: u32 = 10;
/// Times from 2^36 ns on (69 s) share a bucket.
const LAST_POWER: u32 = 36;
/// Base-2 logarithm of the number of buckets per power of two in between.
const PARTS: u32 = 4;
/// The number of buckets: one below the first power, those between, and one from the last power on.
const BUCKETS: usize = (((LAST_POWER - FIRST_POWER) << PARTS) + 2) as usize;

/// A histogram of sojourn times, with percentiles that exceed the true ones by less than a
/// sixteenth.
///
/// | sojourn time | bucket |
/// |---|---|
/// | below 1,024 ns | the first |
/// | up to 2^36 ns, 69 s | 16 for each power of two |
/// | longer | the last |
///
/// The caller keeps it, so a queue whose delays are not measured pays nothing. Pass it the sojourn
/// time of each packet that leaves: [`FlowQueues::waited`](crate::FlowQueues::waited).
///
/// Memory: 3,368 bytes. Cost per packet: O(1), without division.
///
/// ```
/// use sched_core::{DelayHistogram, Nanos};
///
/// let mut delays = DelayHistogram::new();
/// for millis in 1..=100 {
///     delays.add(Nanos::from_millis(millis));
/// }
/// let median = delays.quantile(500).expect("there are some");
/// assert!(median >= Nanos::from_millis(50) && median < Nanos::from_micros(53_125));
/// assert_eq!((delays.count(), delays.longest()), (100, Nanos::from_millis(100)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DelayHistogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: u64,
    longest: u64,
}

/// Omits the buckets.
impl core::fmt::Debug for DelayHistogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { count, sum, longest, .. } = self;
        let mut debug = f.debug_struct("DelayHistogram");
        debug.field("count", count).field("sum", sum).field("longest", longest);
        debug.finish_non_exhaustive()
    }
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl DelayHistogram {
    /// Creates an empty histogram: all zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: [0; BUCKETS], count: 0, sum: 0, longest: 0 }
    }

    /// Counts a packet that waited for `wait`.
    #[inline]
    pub fn add(&mut self, wait: Nanos) {
        if let Some(count) = self.counts.get_mut(bucket_of(wait.0)) {
            *count = count.wrapping_add(1);
        }
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.saturating_add(wait.0);
        self.longest = self.longest.max(wait.0);
    }

    /// Adds the counts of `other`, for example of another core or tin. Cost: O(buckets).
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.wrapping_add(*more);
        }
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.longest = self.longest.max(other.longest);
    }

    /// Clears all counts. Cost: O(buckets), or nothing if it is empty.
    pub const fn clear(&mut self) {
        if self.count > 0 {
            *self = Self::new();
        }
    }

    /// Returns true if nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of packets counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all sojourn times; saturates at 584 years.
    #[must_use]
    pub const fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// Returns the longest sojourn time.
    #[must_use]
    pub const fn longest(&self) -> Nanos {
        Nanos(self.longest)
    }

    /// Returns the mean sojourn time; zero if nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.checked_div(self.count).unwrap_or(0))
    }

    /// Returns the sojourn time that `per_mille` of a thousand packets did not exceed, 990 for the
    /// 99th percentile. The result is the end of the bucket, or the longest time if that is less.
    /// It is never below the true value, and above it by less than a sixteenth of it or by less
    /// than 1,024 ns. Returns `None` if nothing was counted; values above 1,000 count as 1,000.
    /// Cost: O(buckets).
    #[must_use]
    #[expect(clippy::integer_division, reason = "by a constant, for a reader")]
    pub fn quantile(&self, per_mille: u32) -> Option<Nanos> {
        let share = u128::from(self.count).saturating_mul(per_mille.min(1_000).into());
        let rank = u64::try_from(share.saturating_add(999) / 1_000).unwrap_or(u64::MAX).max(1);
        let mut below = 0_u64;
        for (end, count) in self.buckets() {
            below = below.saturating_add(count);
            if below >= rank {
                return Some(Nanos(end.0.min(self.longest)));
            }
        }
        None
    }

    /// Returns the buckets that are not empty: the longest time of each and its count. The end of
    /// the last bucket is [`Nanos::MAX`].
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let all = (0..).zip(&self.counts).map(|(bucket, &count)| (end_of(bucket), count));
        all.filter(|&(_, count)| count > 0)
    }

    /// Returns the powers of two from 2^10 to 2^36 ns, each with the number of times below it.
    /// Longer times are in none of them.
    pub fn cumulative(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let mut counts = self.counts.iter();
        let mut below = 0_u64;
        (FIRST_POWER..=LAST_POWER).map(move |power| {
            let buckets = if power == FIRST_POWER { 1 } else { 1 << PARTS };
            for count in counts.by_ref().take(buckets) {
                below = below.wrapping_add(*count);
            }
            (Nanos(1 << power), below)
        })
    }
}

/// Returns the bucket of a time of `nanos` nanoseconds.
#[inline]
const fn bucket_of(nanos: u64) -> usize {
    if nanos < 1 << FIRST_POWER {
        return 0;
    }
    let power = nanos.ilog2();
    if power >= LAST_POWER {
        return BUCKETS - 1;
    }
    // The power and the PARTS bits behind its leading one as one number, minus that of
    // 2^FIRST_POWER.
    let shift = power.saturating_sub(PARTS);
    let power = power.saturating_sub(FIRST_POWER);
    let [low, ..] = (nanos >> shift).to_le_bytes();
    let part = (low & ((1 << PARTS) - 1)) as usize;
    ((power as usize) << PARTS) + part + 1
}

/// Returns the longest time of a bucket.
const fn end_of(bucket: u32) -> Nanos {
    let Some(place) = bucket.checked_sub(1) else { return Nanos((1 << FIRST_POWER) - 1) };
    let (power, part) = (place >> PARTS, (place & ((1 << PARTS) - 1)) as u64);
    if power >= LAST_POWER - FIRST_POWER {
        return Nanos::MAX;
    }
    let shift = power.saturating_add(FIRST_POWER - PARTS);
    Nanos((((1 << PARTS) + part + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Goal: a quantile has the documented error. Method: single times of every size, between and
    /// next to powers of two, each counted with a longer one, so that the maximum does not hide the
    /// error.
    #[test]
    fn a_quantile_is_above_its_wait_by_less_than_a_sixteenth() {
        for power in 0..36_u32 {
            for offset in [0_u64, 1, 3, 77, (1 << power) / 3, (1 << power) - 1] {
                let nanos = (1_u64 << power) + offset;
                let mut delays = DelayHistogram::new();
                delays.add(Nanos(nanos));
                delays.add(Nanos::MAX);
                let found = delays.quantile(500).unwrap().0;
                assert!(found >= nanos, "{found} of {nanos}");
                // Times of 2^36 ns and more share one bucket.
                let is_last = nanos >= 1 << LAST_POWER;
                assert!(is_last || found - nanos < (nanos / 16).max(1_024), "{found} of {nanos}");
            }
        }
    }

    /// Goal: buckets are contiguous and ordered, and each end is in its own bucket. Method: check
    /// all of them.
    #[test]
    fn buckets_lie_end_to_end() {
        let mut begin = 0;
        for bucket in 0..BUCKETS {
            let end = end_of(bucket as u32).0;
            assert_eq!((bucket_of(begin), bucket_of(end)), (bucket, bucket));
            assert!(end >= begin);
            begin = end.wrapping_add(1);
        }
        assert_eq!(begin, 0, "the last one ends at the end of time");
        assert_eq!(size_of::<DelayHistogram>(), 3_368);
    }

    /// Goal: quantiles, sums and cumulative counts match the sorted times, within the width of a
    /// bucket. Method: a thousand times of all sizes, against a sorted list.
    #[test]
    fn it_says_what_a_sorted_list_says() {
        let mut random = conformance::Xorshift::new(7);
        let (mut delays, mut all) = (DelayHistogram::new(), Vec::new());
        let mut other = DelayHistogram::new();
        for turn in 0..1_000 {
            let nanos = random.next_u64() >> (28 + random.below(36));
            if turn % 2 == 0 { &mut delays } else { &mut other }.add(Nanos(nanos));
            all.push(nanos);
        }
        delays.merge(&other);
        all.sort_unstable();
        assert_eq!((delays.count(), delays.sum().0), (1_000, all.iter().sum()));
        assert_eq!(delays.longest().0, all[999]);
        assert_eq!(delays.mean().0, all.iter().sum::<u64>() / 1_000);
        for per_mille in 1..=1_000 {
            let (found, exact) =
                (delays.quantile(per_mille).unwrap().0, all[per_mille as usize - 1]);
            assert!(found >= exact && found - exact < (exact / 16).max(1_024), "{per_mille}");
        }
        assert_eq!(delays.quantile(0), delays.quantile(1));
        assert_eq!(delays.quantile(2_000), Some(delays.longest()));
        for (end, below) in delays.cumulative() {
            assert_eq!(below, all.iter().filter(|&&nanos| nanos < end.0).count() as u64, "{end:?}");
        }
        let sum: u64 = delays.buckets().map(|(_, count)| count).sum();
        assert_eq!(sum, 1_000);
        delays.clear();
        assert_eq!(delays, DelayHistogram::default());
        assert!(
            delays.is_empty() && delays.quantile(500).is_none() && delays.mean() == Nanos::ZERO
        );
    }
}
