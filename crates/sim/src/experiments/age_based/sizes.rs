//! Bounded Pareto distributions of flow sizes.

use conformance::rng::Stream;

/// A bounded Pareto distribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) shape: f64,
    pub(super) shortest: f64,
    /// Ratio of the longest to the shortest.
    pub(super) range: f64,
}

impl Sizes {
    /// Returns sizes of transfers in bytes: the longest is a thousand times the shortest, the mean
    /// is 100,000.
    pub(super) fn transfers(shape: f64) -> Self {
        let of_one = Self { shape, shortest: 1.0, range: 1_000.0 };
        Self { shortest: 100_000.0 / of_one.mean(), ..of_one }
    }

    /// Returns the mean.
    pub(super) fn mean(self) -> f64 {
        let Self { shape, shortest, range } = self;
        let below = |power: f64| 1.0 - libm::pow(range, power);
        shortest * shape / (shape - 1.0) * below(1.0 - shape) / below(-shape)
    }

    /// Returns the size at this quantile.
    pub(super) fn quantile(self, quantile: f64) -> f64 {
        let tail = 1.0 - quantile * (1.0 - libm::pow(self.range, -self.shape));
        self.shortest * libm::pow(tail, -1.0 / self.shape)
    }

    /// Returns the sizes of `flows` flows, rounded: one from each of as many equal parts of the
    /// distribution, in random order. With independent draws, few runs would contain the expected
    /// share of the longest flows, and the load of a run would be off by a percent, which changes
    /// the mean time at a load of 0.9 by a tenth.
    pub(super) fn draw(self, random: &mut Stream, flows: u32) -> Vec<u64> {
        let one = |part: u32, unit: f64| {
            libm::round(self.quantile((f64::from(part) + unit) / f64::from(flows))) as u64
        };
        let mut sizes: Vec<u64> = (0..flows).map(|part| one(part, random.unit())).collect();
        for last in (1..sizes.len()).rev() {
            sizes.swap(last, random.below(last as u64 + 1) as usize);
        }
        sizes
    }
}
