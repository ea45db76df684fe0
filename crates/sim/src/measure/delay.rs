//! Delays with exact quantiles.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::Nanos;

/// A collection of delays: sojourn times in a queue, one-way delays, completion times.
///
/// Every sample is kept (8 bytes each), so that a quantile is a sample and not an estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Delays {
    samples: Vec<Nanos>,
}

/// Summary of a [`Delays`]. Each value but the mean is the delay of an actual packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of samples, at least 1.
    pub count: usize,
    /// The minimum.
    pub min: Nanos,
    /// The arithmetic mean, rounded down.
    pub mean: Nanos,
    /// The median.
    pub p50: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The maximum.
    pub max: Nanos,
}

impl Delays {
    /// Creates an empty collection.
    #[must_use]
    pub const fn new() -> Self {
        Self { samples: Vec::new() }
    }

    /// Adds the delay of one packet.
    pub fn record(&mut self, delay: Nanos) {
        self.samples.push(delay);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the samples in the order in which they were recorded.
    #[must_use]
    pub fn samples(&self) -> &[Nanos] {
        &self.samples
    }

    /// Returns minimum, mean, median, 99th percentile and maximum; `None` without samples. Sorts a
    /// copy: O(n log n).
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let sorted = self.sorted();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let total: u128 = sorted.iter().map(|delay| u128::from(delay.0)).sum();
        Some(Summary {
            count: sorted.len(),
            min,
            // The mean of u64 values fits in u64.
            mean: Nanos((total / sorted.len() as u128) as u64),
            p50: nearest_rank(&sorted, 500)?,
            p99: nearest_rank(&sorted, 990)?,
            max,
        })
    }

    /// Returns the population standard deviation in nanoseconds; `None` without samples.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let count = self.samples.len() as f64;
        let sum: u128 = self.samples.iter().map(|delay| u128::from(delay.0)).sum();
        // Relative to the mean, to avoid cancellation.
        let mean = (count > 0.0).then(|| sum as f64 / count)?;
        let from_mean = self.samples.iter().map(|delay| delay.0 as f64 - mean);
        Some(libm::sqrt(from_mean.map(|by| by * by).sum::<f64>() / count))
    }

    /// Returns the `per_mille` quantile by nearest rank: 500 is the median, 0 the minimum, 1000 and
    /// above the maximum. `None` without samples.
    #[must_use]
    pub fn quantile(&self, per_mille: u32) -> Option<Nanos> {
        nearest_rank(&self.sorted(), per_mille)
    }

    /// Returns a quantile like [`Delays::quantile`] in milliseconds; infinity without samples.
    #[must_use]
    pub fn millis(&self, per_mille: u32) -> f64 {
        self.quantile(per_mille).map_or(f64::INFINITY, |delay| delay.0 as f64 / 1e6)
    }

    /// Returns the distribution in steps of half a percent, for a chart with a logarithmic axis:
    /// delays in milliseconds, at least 10 µs, and the percentage of samples that are no longer.
    #[must_use]
    pub fn log_distribution(&self) -> Vec<(f64, f64)> {
        let sorted = self.sorted();
        let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
        let at = |step: usize| (sorted[last * step / 200].0 as f64 / 1e6).max(0.01);
        (0..=200).map(|step| (at(step), step as f64 / 2.0)).collect()
    }

    /// Returns the distribution function for a chart, in steps of half a percent: pairs of a delay
    /// in milliseconds and the percentage of packets with at most this delay. It ends at `arrived`,
    /// the ratio of samples to packets sent. Empty without samples.
    #[must_use]
    pub fn distribution(&self, arrived: f64) -> Vec<(f64, f64)> {
        let sorted = self.sorted();
        let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
        let at = |step: usize| sorted[last * step / 200].0 as f64 / 1e6;
        let steps = (0..=200).map(|step| (at(step), step as f64 / 200.0 * (100.0 * arrived)));
        [(at(0), 0.0)].into_iter().chain(steps).collect()
    }

    fn sorted(&self) -> Vec<Nanos> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        sorted
    }
}

impl Extend<Nanos> for Delays {
    fn extend<I: IntoIterator<Item = Nanos>>(&mut self, delays: I) {
        self.samples.extend(delays);
    }
}

impl FromIterator<Nanos> for Delays {
    fn from_iter<I: IntoIterator<Item = Nanos>>(delays: I) -> Self {
        Self { samples: delays.into_iter().collect() }
    }
}

fn nearest_rank(sorted: &[Nanos], per_mille: u32) -> Option<Nanos> {
    // Rank ⌈q·n⌉ counts from 1; q = 0 also means the first.
    let rank = (sorted.len() as u128 * u128::from(per_mille.min(1_000))).div_ceil(1_000) as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let delays: Delays = (1..=200).rev().map(Nanos).collect();
        let at = |per_mille| delays.quantile(per_mille).unwrap().0;
        assert_eq!([at(0), at(5), at(6), at(500), at(501)], [1, 1, 2, 100, 101]);
        assert_eq!([at(990), at(991), at(999), at(1_000), at(5_000)], [198, 199, 200, 200, 200]);
    }

    #[test]
    fn a_summary_is_made_of_samples() {
        let delays: Delays = [5, 1, 9, 2].map(Nanos).into_iter().collect();
        let [min, mean, p50, p99, max] = [1, 4, 2, 9, 9].map(Nanos);
        assert_eq!(delays.summary(), Some(Summary { count: 4, min, mean, p50, p99, max }));
        assert_eq!(delays.samples()[0], Nanos(5), "the order of recording is kept");
    }

    #[test]
    fn a_distribution_ends_at_the_part_that_arrived() {
        let delays: Delays = [4_000_000, 2_000_000].map(Nanos).into_iter().collect();
        let points = delays.distribution(0.5);
        assert_eq!((points.len(), points[0], points[1]), (202, (2.0, 0.0), (2.0, 0.0)));
        assert_eq!((points[200], points[201]), ((2.0, 49.75), (4.0, 50.0)));
        assert_eq!(Delays::new().distribution(1.0), []);
    }

    #[test]
    fn the_deviation_is_the_root_of_the_mean_square() {
        let delays: Delays = [2, 4, 4, 4, 5, 5, 7, 9].map(Nanos).into_iter().collect();
        assert_eq!(delays.deviation(), Some(2.0));
        let far: Delays = [0, 2].map(|by| Nanos((1 << 60) + by)).into_iter().collect();
        assert!(far.deviation().is_some_and(|by| by < 129.0), "{:?}", far.deviation());
        assert_eq!(Delays::new().deviation(), None);
    }

    #[test]
    fn a_distribution_rises_from_the_shortest_to_the_longest() {
        let delays: Delays = (0..=200).map(Nanos::from_millis).collect();
        let steps = delays.log_distribution();
        assert_eq!((steps.len(), steps[0], steps[200]), (201, (0.01, 0.0), (200.0, 100.0)));
        assert!(steps.contains(&(50.0, 25.0)), "{steps:?}");
        assert_eq!(Delays::new().log_distribution(), []);
        assert_eq!((delays.millis(500), Delays::new().millis(500)), (100.0, f64::INFINITY));
    }

    #[test]
    fn one_sample_is_every_quantile_and_none_is_none() {
        let one: Delays = [Nanos::MAX].into_iter().collect();
        let summary = one.summary().unwrap();
        assert_eq!([summary.min, summary.mean, summary.p50, summary.p99], [Nanos::MAX; 4]);
        assert_eq!((Delays::new().summary(), Delays::new().quantile(500)), (None, None));
    }

    #[test]
    fn the_mean_of_the_largest_delays_does_not_overflow() {
        let delays: Delays = [Nanos::MAX; 3].into_iter().collect();
        assert_eq!(delays.summary().unwrap().mean, Nanos::MAX);
    }
}
