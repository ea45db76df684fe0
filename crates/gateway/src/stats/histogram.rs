//! Histogram of delays with logarithmic buckets: percentiles accurate to a sixteenth.

use hdrhistogram::Histogram as Hdr;

/// Delays below this many nanoseconds, about a microsecond, share a bucket.
const FIRST: u64 = 1 << FIRST_POWER;
/// Delays from here on, above 2^36 ns or a minute, count as one.
const LAST: u64 = (1 << LAST_POWER) + FIRST;
const FIRST_POWER: u32 = 10;
const LAST_POWER: u32 = 36;

/// Histogram of delays.
///
/// A bucket of the underlying crate, with one significant digit, is at most a sixteenth as wide as
/// its delays, or 1,024 ns wide. So a percentile is at least the true value, and exceeds it by less
/// than that. It takes 3 kB, allocated once: counting allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    delays: Hdr<u64>,
    sum: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        let delays = Hdr::new_with_bounds(FIRST, LAST, 1).expect("bounds a power of two apart");
        Self { delays, sum: 0 }
    }

    /// Counts a delay of `nanos` nanoseconds.
    pub(crate) fn add(&mut self, nanos: u64) {
        self.delays.saturating_record(nanos);
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Removes all delays.
    pub(crate) fn clear(&mut self) {
        if !self.delays.is_empty() {
            self.delays.reset();
            self.sum = 0;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.delays.len()
    }

    /// Returns the sum of all delays in nanoseconds.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the delay that `percent` of a hundred delays do not exceed, in nanoseconds, as the
    /// end of its bucket; `None` if none was counted.
    pub(crate) fn percentile(&self, percent: u32) -> Option<u64> {
        let quantile = f64::from(percent) / 100.0;
        (!self.delays.is_empty()).then(|| self.delays.value_at_quantile(quantile))
    }

    /// Returns for each power of two, in nanoseconds, the number of delays below it. Delays above
    /// the last are in none of them.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (FIRST_POWER..=LAST_POWER).map(|power| {
            let end = 1 << power;
            (end, self.delays.count_between(0, end - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a percentile has the promised accuracy. Method: single delays of every magnitude, at
    /// and between powers of two.
    #[test]
    fn a_percentile_is_above_its_delay_by_less_than_a_sixteenth() {
        for shift in 0..36 {
            for offset in [0_u64, 1, 3, 77, (1 << shift) / 3, (1 << shift) - 1] {
                let nanos = (1_u64 << shift) + offset;
                let mut histogram = Histogram::new();
                histogram.add(nanos);
                let found = histogram.percentile(50).unwrap();
                assert!(found >= nanos, "{found} of {nanos}");
                assert!(found - nanos < (nanos / 16).max(FIRST), "{found} of {nanos}");
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_delays() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(50), None);
        for millis in 1..=100 {
            histogram.add(millis * 1_000_000);
        }
        let near = |percent, millis: u64| {
            let found = histogram.percentile(percent).unwrap();
            assert!((millis * 1_000_000..=millis * 1_062_500).contains(&found), "{found}");
        };
        near(50, 50);
        near(99, 99);
        near(1, 1);
        assert_eq!(histogram.cumulative().last().map(|(_, count)| count), Some(100));
        let below = histogram.cumulative().find(|&(end, _)| end == 1 << 26);
        assert_eq!(below, Some((1 << 26, 67)));
        assert_eq!((histogram.count(), histogram.sum()), (100, 5_050_000_000));
        histogram.clear();
        assert_eq!((histogram.count(), histogram.sum(), histogram.percentile(99)), (0, 0, None));
    }

    /// Goal: bounds hold for counts of a year as for those of an hour, and delays beyond the last
    /// bucket are counted in none.
    #[test]
    fn buckets_go_on_and_the_open_one_has_no_end() {
        let mut histogram = Histogram::new();
        histogram.delays.record_n(1_000_000, u32::MAX.into()).unwrap();
        let last = |histogram: &Histogram| histogram.cumulative().last().map(|(_, count)| count);
        histogram.add(1_000_000);
        assert_eq!(last(&histogram), Some(1 << 32));
        histogram.add(u64::MAX);
        assert_eq!((last(&histogram), histogram.count()), (Some(1 << 32), (1 << 32) + 1));
    }
}
