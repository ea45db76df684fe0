//! Random delay at a sender.

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::Sent;

/// A source whose packets a sender delays at random, in order.
///
/// The delay of a packet is Gaussian with mean zero and a given standard deviation; a negative one
/// counts as none, since a packet cannot be sent before it exists. A packet that would overtake the
/// one before it is sent with it, which makes bursts.
///
/// Source: SQF-VBR §V, Fig. 8 ("packets are delayed according to a Gaussian random variable with
/// different values of the standard deviation δ"). The paper does not state what becomes of
/// negative delays and of packets that would overtake others.
///
/// ```
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::Nanos;
/// # use sim::source::{Cbr, Jittered};
/// let call = Cbr::g711(Nanos::ZERO);
/// let late = Jittered::new(call, Nanos::from_millis(5), Streams::new(1).stream("jitter"));
/// assert!(call.zip(late).take(100).all(|(sent, late)| late.at >= sent.at));
/// ```
#[derive(Clone, Debug)]
pub struct Jittered<S> {
    source: S,
    deviation: Nanos,
    stream: Stream,
    /// Time of the last packet.
    last: Nanos,
}

impl<S: Iterator<Item = Sent>> Jittered<S> {
    /// Delays the packets of `source` by Gaussian times of this standard deviation.
    #[must_use]
    pub fn new(source: S, deviation: Nanos, stream: Stream) -> Self {
        Self { source, deviation, stream, last: Nanos::ZERO }
    }
}

impl<S: Iterator<Item = Sent>> Iterator for Jittered<S> {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let packet = self.source.next()?;
        // `as` turns negative numbers into 0.
        let delay = Nanos((self.stream.normal() * self.deviation.0 as f64) as u64);
        self.last = self.last.max(packet.at.plus(delay));
        Some(Sent { at: self.last, ..packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Cbr;
    use crate::source::statistics::{assert_near, distance};
    use conformance::rng::Streams;

    fn delays(period: Nanos, deviation: Nanos) -> Vec<f64> {
        let source = Cbr::new(Nanos::from_millis(1), period, 100);
        let late = Jittered::new(source, deviation, Streams::new(1).stream("jitter"));
        source.zip(late).take(50_000).map(|(sent, late)| late.at.since(sent.at).0 as f64).collect()
    }

    /// Packets a second apart never overtake at a deviation of 5 ms. Half of the delays are none;
    /// the mean is δ/√(2π), and the others are the upper half of a Gaussian.
    #[test]
    fn delays_are_the_upper_half_of_a_gaussian() {
        let delays = delays(Nanos::from_secs(1), Nanos::from_millis(5));
        let mut delays: Vec<f64> = delays.iter().map(|delay| delay / 5e6).collect();
        assert_near(&delays, 1.0 / libm::sqrt(core::f64::consts::TAU));
        let cdf = |x: f64| if x < 0.0 { 0.0 } else { 1.0 - 0.5 * libm::erfc(x / libm::sqrt(2.0)) };
        let furthest = distance(&mut delays, cdf);
        assert!(furthest < 1.95 / libm::sqrt(50_000.0), "{furthest}");
    }

    /// A packet waits for the one before if its delay d is at most the largest of those before it
    /// less 2 ms for each packet between: with probability 1 − Π Φ((d + 2j)/5) over j = 1, 2, …,
    /// which is 0.419,09 in the mean over d (integrated numerically). Waits are correlated over
    /// about ten packets, so that the standard error is at most √10 times that of independent
    /// ones.
    #[test]
    fn packets_keep_their_order_and_form_bursts() {
        let source = Cbr::new(Nanos::ZERO, Nanos::from_millis(2), 100);
        let late = Jittered::new(source, Nanos::from_millis(5), Streams::new(1).stream("jitter"));
        let times: Vec<Nanos> = late.take(100_001).map(|packet| packet.at).collect();
        assert!(times.is_sorted());
        let together = times.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / 1e5;
        assert!((together - 0.419_09).abs() < 4.0 * libm::sqrt(10.0 * 0.25 / 1e5), "{together}");
        let none = Jittered::new(source, Nanos::ZERO, Streams::new(1).stream("jitter"));
        assert!(none.take(100).eq(source.take(100)));
    }
}
