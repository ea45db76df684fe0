//! Poisson arrivals of packets.

use core::num::NonZeroU64;

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::Sent;

/// Distribution of payload lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Each length in bytes with its weight.
    weighted: Vec<(u32, u32)>,
    weights: u64,
}

impl Lengths {
    /// Returns packets of one length, `payload` bytes.
    #[must_use]
    pub fn fixed(payload: u32) -> Self {
        Self { weighted: vec![(payload, 1)], weights: 1 }
    }

    /// Returns lengths in bytes that occur in proportion to their weights; `None` if all weights
    /// are zero.
    #[must_use]
    pub fn weighted(weighted: Vec<(u32, u32)>) -> Option<Self> {
        let weights = weighted.iter().map(|&(_, weight)| u64::from(weight)).sum();
        (weights > 0).then_some(Self { weighted, weights })
    }

    /// Returns the simple Internet mix: IP packets of 40, 576 and 1,500 bytes as 7 : 4 : 1, less
    /// 28 bytes of headers.
    #[must_use]
    pub fn internet_mix() -> Self {
        Self { weighted: vec![(12, 7), (548, 4), (1_472, 1)], weights: 12 }
    }

    /// Returns the mean length in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let bytes = |&(length, weight): &(u32, u32)| f64::from(length) * f64::from(weight);
        self.weighted.iter().map(bytes).sum::<f64>() / self.weights as f64
    }

    fn draw(&self, stream: &mut Stream) -> u32 {
        let [(only, _)] = self.weighted[..] else {
            let mut left = stream.below(self.weights);
            for &(length, weight) in &self.weighted {
                if left < u64::from(weight) {
                    return length;
                }
                left -= u64::from(weight);
            }
            unreachable!("the number is below the sum of the weights");
        };
        only
    }
}

/// A Poisson source: exponential gaps, independent of each other and of the lengths.
///
/// The sum of many independent sources of low rate tends to it. Times are rounded down to
/// nanoseconds, but rounding errors do not accumulate: the rate is exact in expectation.
///
/// ```
/// # use core::num::NonZeroU64;
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::Nanos;
/// # use sim::source::{Lengths, Poisson};
/// let rate = NonZeroU64::new(1_000_000).unwrap();
/// let stream = Streams::new(1).stream("poisson");
/// let source = Poisson::at_rate(Nanos::ZERO, rate, Lengths::fixed(125), stream);
/// // 1,000 packets a second.
/// let packets = source.take_while(|packet| packet.at < Nanos::from_secs(10)).count();
/// assert!((9_700..10_300).contains(&packets));
/// ```
#[derive(Clone, Debug)]
pub struct Poisson {
    start: Nanos,
    lengths: Lengths,
    /// Mean gap in nanoseconds.
    gap: f64,
    /// Nanoseconds since the start.
    elapsed: f64,
    stream: Stream,
}

impl Poisson {
    /// Creates a source with this mean gap between packets. The first is one gap after `start`.
    #[must_use]
    pub fn new(start: Nanos, mean_gap: Nanos, lengths: Lengths, stream: Stream) -> Self {
        Self { start, lengths, gap: mean_gap.0 as f64, elapsed: 0.0, stream }
    }

    /// Creates a source with a mean rate of payload in bits per second.
    #[must_use]
    pub fn at_rate(
        start: Nanos,
        bits_per_second: NonZeroU64,
        lengths: Lengths,
        stream: Stream,
    ) -> Self {
        let gap = lengths.mean() * 8e9 / bits_per_second.get() as f64;
        Self { start, lengths, gap, elapsed: 0.0, stream }
    }
}

impl Iterator for Poisson {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        self.elapsed -= libm::log(self.stream.unit()) * self.gap;
        let payload = self.lengths.draw(&mut self.stream);
        Some(Sent { at: self.start.plus(Nanos(self.elapsed as u64)), payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::statistics::{assert_near, distance};
    use conformance::rng::Streams;

    const RATE: NonZeroU64 = NonZeroU64::new(2_000_000).unwrap();
    const PACKETS: usize = 100_000;

    fn packets(lengths: Lengths) -> Vec<Sent> {
        let stream = Streams::new(1).stream("poisson");
        Poisson::at_rate(Nanos::from_millis(5), RATE, lengths, stream).take(PACKETS).collect()
    }

    /// 250 bytes at 2 Mbit/s are 1 ms. The critical distance of Kolmogorov and Smirnov at one in a
    /// thousand is 1.95/√n; that of gaps 1 % too long would be 0.0037 more, of uniform or constant
    /// gaps above 0.2.
    #[test]
    fn gaps_are_exponential_and_independent() {
        let mut last = Nanos::from_millis(5);
        let mut gaps: Vec<f64> = Vec::new();
        for packet in packets(Lengths::fixed(250)) {
            gaps.push(packet.at.since(last).0 as f64 / 1e6);
            last = packet.at;
        }
        // The standard deviation of an exponential is its mean.
        assert_near(&gaps, 1.0);
        // The product of two independent gaps of mean 1 has mean 1 and variance 2 · 2 − 1.
        let products: Vec<f64> = gaps.as_chunks::<2>().0.iter().map(|[a, b]| a * b).collect();
        assert_near(&products, 1.0);
        let furthest = distance(&mut gaps, |gap| 1.0 - libm::exp(-gap));
        assert!(furthest < 1.95 / libm::sqrt(PACKETS as f64), "{furthest}");
    }

    /// Counts in intervals of 10 ms have a variance equal to their mean, 10. The variance of the
    /// sample variance is (μ₄ − σ⁴)/n, with μ₄ = 3λ² + λ = 310: √(210/10,000) = 0.145.
    #[test]
    fn counts_vary_like_those_of_a_poisson_process() {
        let mut counts = vec![0.0; 10_000];
        for packet in packets(Lengths::fixed(250)) {
            if let Some(count) = counts.get_mut(((packet.at.0 - 5_000_000) / 10_000_000) as usize) {
                *count += 1.0;
            }
        }
        counts.truncate(9_900);
        assert_near(&counts, 10.0);
        let squares: Vec<f64> = counts.iter().map(|n| (n - 10.0) * (n - 10.0)).collect();
        assert_near(&squares, 10.0);
    }

    #[test]
    fn a_mix_has_its_weights_and_rate() {
        let packets = packets(Lengths::internet_mix());
        let lengths = packets.iter().map(|packet| f64::from(packet.payload)).collect::<Vec<_>>();
        // (7 · 12 + 4 · 548 + 1,472) / 12.
        assert_near(&lengths, 312.333_333);
        for (length, share) in [(12, 7.0), (548, 4.0), (1_472, 1.0)] {
            let hits: Vec<f64> =
                packets.iter().map(|p| f64::from(u8::from(p.payload == length))).collect();
            assert_near(&hits, share / 12.0);
        }
        let seconds = (packets[PACKETS - 1].at.0 - 5_000_000) as f64 / 1e9;
        let rate = lengths.iter().sum::<f64>() * 8.0 / seconds;
        // The count has a relative standard error of 1/√n, the mean length of 1.4/√n.
        assert!((rate / 2e6 - 1.0).abs() < 4.0 * 1.75 / libm::sqrt(PACKETS as f64), "{rate}");
    }

    #[test]
    fn weights_that_are_all_zero_are_refused() {
        assert_eq!(Lengths::weighted(vec![(100, 0)]), None);
        assert_eq!(Lengths::weighted(vec![]), None);
        let some = Lengths::weighted(vec![(100, 0), (300, 2)]).unwrap();
        assert_eq!(some.mean(), 300.0);
    }
}
