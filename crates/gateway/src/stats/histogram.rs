//! Delays in buckets that grow by a quarter of a power of two: percentiles to within 19 %.

/// Buckets to a power of two.
const PARTS: u32 = 4;
/// The first bucket is below 2^10 ns, about a microsecond; the last is open: above 2^36 ns, a minute.
const FIRST_POWER: u32 = 10;
const POWERS: u32 = 26;
const BUCKETS: usize = (POWERS * PARTS) as usize + 1;

/// How many delays were how long.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    sum: u64,
}

impl Histogram {
    pub(crate) const EMPTY: Self = Self { buckets: [0; BUCKETS], count: 0, sum: 0 };

    /// Counts a delay of `nanos` nanoseconds.
    pub(crate) fn add(&mut self, nanos: u64) {
        let at = bucket(nanos);
        self.buckets[at] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All delays together, in nanoseconds.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The delay that `percent` of a hundred delays do not exceed, in nanoseconds, as the end of its
    /// bucket; `None` if none was counted.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count * percent).div_ceil(100).max(1);
        let mut passed = 0;
        (0..BUCKETS).find_map(|at| {
            passed += self.buckets[at];
            (self.count > 0 && passed >= wanted).then(|| end(at))
        })
    }

    /// How many delays end below or at each power of two, and that power in nanoseconds.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut passed = 0;
        // What is in the last one ends nowhere.
        (0..BUCKETS - 1).filter_map(move |at| {
            passed += self.buckets[at];
            (at as u32).is_multiple_of(PARTS).then(|| (end(at), passed))
        })
    }
}

/// The bucket of a delay.
fn bucket(nanos: u64) -> usize {
    let Some(power) = nanos.checked_ilog2().filter(|&power| power >= FIRST_POWER) else { return 0 };
    // The two bits behind the highest.
    let part = (nanos >> (power - PARTS.ilog2())) as u32 & (PARTS - 1);
    (((power - FIRST_POWER) * PARTS + part) as usize + 1).min(BUCKETS - 1)
}

/// The first delay behind bucket `at`; of the last, which is open, its beginning.
fn end(at: usize) -> u64 {
    let (power, part) = (at as u32 / PARTS + FIRST_POWER, at as u32 % PARTS);
    if at == BUCKETS - 1 {
        return end(at - 1);
    }
    u64::from(PARTS + part) << (power - PARTS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delay_is_below_the_end_of_its_bucket_and_not_below_the_last() {
        for shift in 0..36 {
            for offset in [0_u64, 1, 3, 77] {
                let nanos = (1_u64 << shift) + offset;
                let at = bucket(nanos);
                assert!(nanos < end(at), "{nanos}");
                assert!(at == 0 || nanos >= end(at - 1), "{nanos}");
                assert!(at == 0 || end(at) - nanos <= nanos / 4 + 1, "{nanos}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_delays() {
        let mut histogram = Histogram::EMPTY;
        assert_eq!(histogram.percentile(50), None);
        for millis in 1..=100 {
            histogram.add(millis * 1_000_000);
        }
        let near = |percent, millis: u64| {
            let found = histogram.percentile(percent).unwrap();
            assert!((millis * 1_000_000..=millis * 1_250_000).contains(&found), "{found}");
        };
        near(50, 50);
        near(99, 99);
        near(1, 1);
        assert_eq!(histogram.cumulative().last().map(|(_, count)| count), Some(100));
        assert_eq!((histogram.count(), histogram.sum()), (100, 5_050_000_000));
    }

    /// Goal: what is true after an hour is true after a year, and of delays that end in no bucket.
    #[test]
    fn buckets_go_on_and_the_open_one_has_no_end() {
        let mut histogram = Histogram::EMPTY;
        let at = bucket(1_000_000);
        histogram.buckets[at] = u32::MAX.into();
        histogram.count = u32::MAX.into();
        let last = |histogram: &Histogram| histogram.cumulative().last().map(|(_, count)| count);
        histogram.add(1_000_000);
        assert_eq!(last(&histogram), Some(1 << 32));
        histogram.add(u64::MAX);
        assert_eq!((last(&histogram), histogram.count()), (Some(1 << 32), (1 << 32) + 1));
    }
}
