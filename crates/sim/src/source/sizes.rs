//! Bounded Pareto distributions of flow sizes.

use conformance::rng::Stream;

/// A bounded Pareto distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    shape: f64,
    shortest: f64,
    /// Ratio of the longest to the shortest.
    range: f64,
}

impl Sizes {
    /// Creates the distribution with this index, shortest size, and ratio of the longest to the
    /// shortest.
    #[must_use]
    pub const fn new(shape: f64, shortest: f64, range: f64) -> Self {
        Self { shape, shortest, range }
    }

    /// Returns sizes of transfers in bytes: the longest is a thousand times the shortest, the mean
    /// is 100,000.
    #[must_use]
    pub fn transfers(shape: f64) -> Self {
        let of_one = Self { shape, shortest: 1.0, range: 1_000.0 };
        Self { shortest: 100_000.0 / of_one.mean(), ..of_one }
    }

    /// Returns the mean.
    #[must_use]
    pub fn mean(self) -> f64 {
        let Self { shape, shortest, range } = self;
        let below = |power: f64| 1.0 - libm::pow(range, power);
        shortest * shape / (shape - 1.0) * below(1.0 - shape) / below(-shape)
    }

    /// Returns the size at this quantile.
    #[must_use]
    pub fn quantile(self, quantile: f64) -> f64 {
        self.size(self.below_longest(), quantile)
    }

    /// Returns the part of the unbounded distribution that is below the longest size.
    fn below_longest(self) -> f64 {
        1.0 - libm::pow(self.range, -self.shape)
    }

    fn size(self, below_longest: f64, quantile: f64) -> f64 {
        self.shortest * libm::pow(1.0 - quantile * below_longest, -1.0 / self.shape)
    }

    /// Returns the sizes of `flows` flows, rounded: one from each of as many equal parts of the
    /// distribution, in random order. With independent draws, few runs would contain the expected
    /// share of the longest flows, and the load of a run would be off by a percent, which changes
    /// the mean time at a load of 0.9 by a tenth.
    #[must_use]
    pub fn draw(self, random: &mut Stream, flows: u32) -> Vec<u64> {
        let below = self.below_longest();
        let one = |part: u32, unit: f64| {
            libm::round(self.size(below, (f64::from(part) + unit) / f64::from(flows))) as u64
        };
        let mut sizes: Vec<u64> = (0..flows).map(|part| one(part, random.unit())).collect();
        for last in (1..sizes.len()).rev() {
            sizes.swap(last, random.below(last as u64 + 1) as usize);
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: transfers have a mean of 100,000 bytes. Method: the mean of the quantiles.
    #[test]
    fn transfers_have_their_mean() {
        for (shape, shortest) in [(1.1, 18_216.0), (1.3, 26_397.0), (1.5, 34_421.0)] {
            let transfers = Sizes::transfers(shape);
            let parts = 100_000;
            let of_part =
                |part: u32| transfers.quantile((f64::from(part) + 0.5) / f64::from(parts));
            let mean = (0..parts).map(of_part).sum::<f64>() / f64::from(parts);
            assert!((mean - 100_000.0).abs() < 50.0, "{mean}");
            assert!((transfers.shortest - shortest).abs() < 1.0, "{transfers:?}");
        }
    }
}
