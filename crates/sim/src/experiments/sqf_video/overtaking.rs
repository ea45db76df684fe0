//! Packets with independent delays, which may overtake each other.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use freeboard::sched_core::Nanos;

use crate::source::Sent;
use conformance::rng::Stream;

/// A source whose packets are delayed by Gaussian times with mean zero; a negative one counts as
/// none. Packets leave when their own time has come, regardless of those before, as in Linux's
/// netem. [`Jittered`](crate::source::Jittered) keeps the order instead.
#[derive(Clone, Debug)]
pub(super) struct Overtaking<S: Iterator<Item = Sent>> {
    source: S,
    deviation: Nanos,
    stream: Stream,
    /// Next packet of the source: none leaves earlier than it from now on.
    next: Option<Sent>,
    /// Delayed packets: time and length.
    waiting: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl<S: Iterator<Item = Sent>> Overtaking<S> {
    /// Delays the packets of `source` by Gaussian times of this standard deviation.
    pub(super) fn new(mut source: S, deviation: Nanos, stream: Stream) -> Self {
        let next = source.next();
        Self { source, deviation, stream, next, waiting: BinaryHeap::new() }
    }
}

impl<S: Iterator<Item = Sent>> Iterator for Overtaking<S> {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        while let Some(packet) = self.next
            && self.waiting.peek().is_none_or(|Reverse((at, _))| *at > packet.at)
        {
            // `as` turns negative numbers into 0.
            let delay = Nanos((self.stream.normal() * self.deviation.0 as f64) as u64);
            self.waiting.push(Reverse((packet.at.plus(delay), packet.payload)));
            self.next = self.source.next();
        }
        self.waiting.pop().map(|Reverse((at, payload))| Sent { at, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Cbr;
    use conformance::rng::Streams;

    /// Half of the packets have no delay. The others have a mean of √(2/π) deviations, so that all
    /// have √(1/(2π)) = 0.399: 4.0 ms of 10, with a standard error of 0.02 ms over 100,000. A
    /// packet never waits for another: the last of all are those with the largest delays.
    #[test]
    fn packets_are_delayed_independently_and_leave_in_order_of_time() {
        let count = 100_000;
        let source = Cbr::new(Nanos::ZERO, Nanos::from_millis(1), 100).take(count);
        let sent: u64 = source.clone().map(|packet| packet.at.0).sum();
        let stream = Streams::new(1).stream("late");
        let late = Overtaking::new(source, Nanos::from_millis(10), stream);
        let times: Vec<u64> = late.map(|packet| packet.at.0).collect();
        assert_eq!(times.len(), count);
        assert!(times.is_sorted());
        let mean = (times.iter().sum::<u64>() - sent) as f64 / count as f64 / 1e6;
        assert!((mean - 3.99).abs() < 0.1, "{mean}");
    }
}
