//! Open-loop sources: they send at predetermined times and receive no feedback.
//!
//! Each is an endless iterator over [`Sent`], in order of time. Sizes are payload bytes; headers
//! are added when the payload becomes a packet.

pub mod sizes;

use core::num::NonZeroU64;

use freeboard::sched_core::Nanos;

use conformance::rng::{ParetoShape, Stream};

/// A payload and its sending time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Sending time.
    pub at: Nanos,
    /// Payload length in bytes.
    pub payload: u32,
}

/// The times 0, s, 2s, … for a spacing s that need not be a whole number of nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// s = `span / parts` nanoseconds.
    span: u64,
    parts: NonZeroU64,
    count: u64,
}

impl Pace {
    fn every(period: Nanos) -> Self {
        Self { span: period.0, parts: NonZeroU64::MIN, count: 0 }
    }

    fn at_rate(bits_per_second: NonZeroU64, payload: u32) -> Self {
        // The largest payload, 2^32 bytes, is 2^35 bits: times 10^9 exceeds a u64 by a few bits. No
        // IP payload exceeds 2^16 bytes, so saturation never affects a packet.
        let span = (u64::from(payload) * 8).saturating_mul(1_000_000_000);
        Self { span, parts: bits_per_second, count: 0 }
    }

    /// Returns the next time, rounded down. Computed from the start each time, so that errors do
    /// not accumulate.
    fn peek(&self) -> Nanos {
        let exact = u128::from(self.span) * u128::from(self.count) / u128::from(self.parts.get());
        Nanos(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    fn advance(&mut self) {
        self.count += 1;
    }
}

/// Source with constant bit rate: equal payloads, equally spaced.
///
/// ```
/// # use sim::source::{Cbr, Sent};
/// # use freeboard::sched_core::Nanos;
/// let mut call = Cbr::g711(Nanos::from_millis(5));
/// assert_eq!(call.next(), Some(Sent { at: Nanos::from_millis(5), payload: 160 }));
/// assert_eq!(call.next(), Some(Sent { at: Nanos::from_millis(25), payload: 160 }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cbr {
    start: Nanos,
    payload: u32,
    pace: Pace,
}

impl Cbr {
    /// Creates a source of `payload` bytes every `period`, first at `start`. A zero period sends
    /// all payloads at once.
    #[must_use]
    pub fn new(start: Nanos, period: Nanos, payload: u32) -> Self {
        Self { start, payload, pace: Pace::every(period) }
    }

    /// Creates a source of `bits_per_second` in payloads of `payload` bytes, first at `start`. The
    /// k-th leaves at `k · payload · 8 / rate`, rounded down to nanoseconds, for every k: the rate
    /// is exact.
    #[must_use]
    pub fn at_rate(start: Nanos, bits_per_second: NonZeroU64, payload: u32) -> Self {
        Self { start, payload, pace: Pace::at_rate(bits_per_second, payload) }
    }

    /// Creates one direction of a G.711 call: 64 kbit/s in 160 bytes every 20 ms (RFC 3551
    /// §4.5.14).
    #[must_use]
    pub fn g711(start: Nanos) -> Self {
        Self::new(start, Nanos::from_millis(20), 160)
    }
}

impl Iterator for Cbr {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let at = self.start.plus(self.pace.peek());
        self.pace.advance();
        Some(Sent { at, payload: self.payload })
    }
}

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

    #[test]
    fn a_call_is_64_kbit_per_second() {
        let second: Vec<Sent> =
            Cbr::g711(Nanos(7)).take_while(|s| s.at < Nanos(1_000_000_007)).collect();
        assert_eq!(second.len(), 50);
        assert_eq!(second.iter().map(|s| s.payload * 8).sum::<u32>(), 64_000);
        assert_eq!(second[49], Sent { at: Nanos(980_000_007), payload: 160 });
    }

    /// 1,000 bytes at 30 Mbit/s are 266,666.6… ns apart: the third packet is on a whole number
    /// again, and so is the three-millionth.
    #[test]
    fn a_rate_that_does_not_divide_drifts_by_nothing() {
        let rate = NonZeroU64::new(30_000_000).unwrap();
        let mut source = Cbr::at_rate(Nanos::ZERO, rate, 1_000);
        let first: Vec<u64> = source.by_ref().take(4).map(|s| s.at.0).collect();
        assert_eq!(first, [0, 266_666, 533_333, 800_000]);
        assert_eq!(source.nth(3_000_000 - 4).unwrap().at, Nanos::from_secs(800));
    }

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
