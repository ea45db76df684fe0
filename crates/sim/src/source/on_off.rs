//! On–off sources.

use core::num::NonZeroU64;

use conformance::rng::{ParetoShape, Stream};
use freeboard::sched_core::Nanos;

use super::{Pace, Sent};

/// Distribution of the lengths of on and off periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Periods {
    /// Exponential: memoryless.
    Exponential,
    /// Pareto: many short periods and a few very long ones. Sums of such sources are self-similar
    /// (Willinger et al. 1997).
    Pareto(ParetoShape),
}

impl Periods {
    fn draw(self, stream: &mut Stream, mean: Nanos) -> Nanos {
        match self {
            Self::Exponential => stream.exponential(mean),
            Self::Pareto(shape) => stream.pareto(mean, shape),
        }
    }
}

/// Parameters of an on–off source.
#[derive(Clone, Copy, Debug)]
pub struct OnOff {
    /// Start of the first on period.
    pub start: Nanos,
    /// Distribution of both kinds of period.
    pub periods: Periods,
    /// Mean length of an on period.
    pub mean_on: Nanos,
    /// Mean length of an off period.
    pub mean_off: Nanos,
    /// Rate of payload while on, in bits per second.
    pub rate: NonZeroU64,
    /// Payload bytes of each packet.
    pub payload: u32,
}

impl OnOff {
    /// Creates the source, which draws its periods from `stream`.
    #[must_use]
    pub fn with(self, mut stream: Stream) -> OnOffSource {
        let on = self.periods.draw(&mut stream, self.mean_on);
        let pace = Pace::at_rate(self.rate, self.payload);
        OnOffSource { plan: self, stream, pace, on_total: on, off_total: Nanos::ZERO }
    }
}

/// A source that sends at a constant rate while on, and nothing while off.
///
/// The packet clock runs only while the source is on and is not reset in between: over a long run
/// the rate is exactly `rate · on / (on + off)`. (A clock that restarts with each on period sends
/// half a packet too many per period.)
///
/// If both means are zero the source never sends: its first packet is at the end of time.
#[derive(Clone, Debug)]
pub struct OnOffSource {
    plan: OnOff,
    stream: Stream,
    /// Clock in on time: on periods laid end to end.
    pace: Pace,
    /// Length of all on periods so far, including the current one.
    on_total: Nanos,
    /// Length of all off periods so far. A packet is sent at its on time plus this.
    off_total: Nanos,
}

/// Periods drawn for one packet before the source counts as silent forever. With a mean on period
/// of at least a nanosecond, 2^16 periods in a row do not all round down to zero.
const MOST_PERIODS: u32 = 1 << 16;

impl Iterator for OnOffSource {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let OnOff { start, periods, mean_on, mean_off, payload, .. } = self.plan;
        let on_time = self.pace.peek();
        let mut drawn = 0;
        // At equality the period has ended: on periods are half open, [begin, end).
        while self.on_total <= on_time {
            if drawn == MOST_PERIODS && self.on_total == Nanos::ZERO {
                return Some(Sent { at: Nanos::MAX, payload });
            }
            drawn += 1;
            self.off_total = self.off_total.plus(periods.draw(&mut self.stream, mean_off));
            self.on_total = self.on_total.plus(periods.draw(&mut self.stream, mean_on));
            if self.on_total == Nanos::MAX {
                break;
            }
        }
        self.pace.advance();
        Some(Sent { at: start.plus(self.off_total).plus(on_time), payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::rng::Streams;

    const KBIT_100: NonZeroU64 = NonZeroU64::new(100_000).unwrap();

    fn on_off(periods: Periods) -> OnOff {
        let ms = Nanos::from_millis;
        let (mean_on, mean_off) = (ms(100), ms(300));
        OnOff { start: ms(10), periods, mean_on, mean_off, rate: KBIT_100, payload: 125 }
    }

    /// 125 bytes at 100 kbit/s are 10 ms. Goal: gaps are either 10 ms (same period) or longer (an
    /// off period came between), and 1 in 4 of the time is on. Method: 200,000 packets should take
    /// 200,000 · 10 ms · 4 = 8,000 s; 20,000 periods give the exponential a standard error of 1 %.
    #[test]
    fn sends_at_its_rate_while_on_and_its_share_over_all() {
        let mut source = on_off(Periods::Exponential).with(Streams::new(1).stream("on-off"));
        let mut last = source.next().unwrap().at;
        assert_eq!(last, Nanos::from_millis(10), "the first on period begins at the start");
        let mut together = 0;
        for _ in 1..200_000 {
            let gap = source.next().unwrap().at.since(last);
            assert!(gap >= Nanos::from_millis(10));
            together += u32::from(gap == Nanos::from_millis(10));
            last = last.plus(gap);
        }
        assert!((7_800_000_000_000..8_200_000_000_000).contains(&last.0), "{last:?}");
        // A packet follows in the same period with probability e^(-10/100) = 0.905.
        assert!((179_500..182_500).contains(&together), "{together}");
    }

    /// Heavy tails converge slowly, so the share is only bounded. The minimum off period is exact:
    /// 300 ms · (1.5 − 1) / 1.5 = 100 ms, so a gap is 10 ms or at least 110 ms.
    #[test]
    fn pareto_periods_have_a_shortest_length() {
        let periods = Periods::Pareto(ParetoShape::TRAFFIC);
        let times: Vec<u64> = on_off(periods)
            .with(Streams::new(1).stream("pareto"))
            .take(50_000)
            .map(|s| s.at.0)
            .collect();
        let gaps = times.windows(2).map(|w| w[1] - w[0]);
        assert!(gaps.clone().all(|gap| gap == 10_000_000 || gap >= 109_999_999));
        assert!(gaps.filter(|&gap| gap > 10_000_000).count() > 1_000);
        assert!((1_200_000_000_000..2_800_000_000_000).contains(times.last().unwrap()));
    }

    /// Goal: the tail of the off periods has the configured index. Method: Hill's estimator over
    /// the longest tenth of 40,000; its standard error is 1.5/√4,000 = 0.024. An on period is
    /// longer than the 10 ms between packets, so between two packets there is at most one off
    /// period.
    #[test]
    fn pareto_periods_have_the_tail_index_asked_for() {
        let periods = Periods::Pareto(ParetoShape::TRAFFIC);
        let mut source = on_off(periods).with(Streams::new(2).stream("pareto"));
        let (mut last, mut off) = (source.next().unwrap().at, Vec::new());
        while off.len() < 40_000 {
            let at = source.next().unwrap().at;
            let pause = at.since(last).0 - 10_000_000;
            last = at;
            if pause > 0 {
                off.push(pause as f64);
            }
        }
        off.sort_unstable_by(f64::total_cmp);
        let (threshold, tail) = off[35_999..].split_first().unwrap();
        let logs: f64 = tail.iter().map(|pause| libm::log(pause / threshold)).sum();
        let index = tail.len() as f64 / logs;
        assert!((index - 1.5).abs() < 0.07, "{index}");
    }

    #[test]
    fn the_same_stream_gives_the_same_packets() {
        for periods in [Periods::Exponential, Periods::Pareto(ParetoShape::TRAFFIC)] {
            let run = |seed| on_off(periods).with(Streams::new(seed).stream("x")).take(1_000);
            assert!(run(9).eq(run(9)));
            assert!(run(9).ne(run(8)));
        }
    }

    #[test]
    fn a_source_that_is_never_on_never_sends() {
        let never = OnOff { mean_on: Nanos::ZERO, ..on_off(Periods::Exponential) };
        let mut source = never.with(Streams::new(1).stream("never"));
        assert_eq!(source.next().map(|s| s.at), Some(Nanos::MAX));
        let both = OnOff { mean_off: Nanos::ZERO, ..never };
        assert_eq!(both.with(Streams::new(1).stream("never")).next().unwrap().at, Nanos::MAX);
    }
}
