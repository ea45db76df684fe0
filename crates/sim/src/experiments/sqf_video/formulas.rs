//! Model of §IV: a Poisson stream beside n flows that fill the buffer equally.
//!
//! The stream has priority while fewer than `B / (n + 1)` of its packets are in the buffer (1). The
//! paper estimates the probability `p(T)` that this ends within T by (2), and its mean time by
//! integration; the queue itself is M/D/1, whose mean first passage time [`first_passage`] returns.

use libm::{ceil, erfc, exp, expm1, lgamma, log, log1p, sqrt};

/// A link with a buffer, and the number of flows that fill it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Packets per second, C.
    pub capacity: f64,
    /// Packets that the buffer holds, B.
    pub buffer: f64,
    /// Number of flows, n.
    pub flows: f64,
}

/// Distribution of the number of arrivals in a time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Poisson.
    Poisson,
    /// The normal distribution with the same mean and variance.
    Normal,
}

/// Estimates of the probability to lose priority within a time, and of the mean time with priority
/// in minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// By (2) with the normal distribution.
    pub normal: (f64, f64),
    /// By (2) with the Poisson distribution.
    pub poisson: (f64, f64),
    /// By the first passage of the M/D/1 queue, whose time is exponential.
    pub queue: (f64, f64),
}

/// Ratio of neighbouring time spans in the search for the maximum over k, beyond the first
/// hundred.
const STEP: f64 = 1.01;
/// Largest exponent: e^-50 of the probability is left.
const CERTAIN: f64 = 50.0;

impl Link {
    /// Returns the number of packets at which the stream loses priority: `B / (n + 1)`.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.buffer / (self.flows + 1.0)
    }

    /// Returns q(t): the probability that in `t` seconds at least `C·t + B / (n + 1)` packets
    /// arrive of a stream with `rate` packets per second.
    #[must_use]
    pub fn exceeds(&self, arrivals: Arrivals, rate: f64, t: f64) -> f64 {
        let (mean, limit) = (rate * t, self.capacity * t + self.threshold());
        match arrivals {
            Arrivals::Normal => erfc((limit - mean) / sqrt(2.0 * mean)) / 2.0,
            // A sum that is a whole number but for rounding is that number.
            Arrivals::Poisson => at_least(ceil(limit - 1e-9), mean),
        }
    }

    /// Returns p(T) by (2): the maximum over k of `1 − (1 − q(T/k))^k`.
    #[must_use]
    pub fn loses_priority(&self, arrivals: Arrivals, rate: f64, within: f64) -> f64 {
        let exponents = self.spans(within).map(|span| {
            let parts = ceil(within / span);
            -parts * log1p(-self.exceeds(arrivals, rate, within / parts))
        });
        -expm1(-exponents.fold(0.0, f64::max))
    }

    /// Returns the mean time with priority in seconds: the integral of `1 − p(t)` over all t. The k
    /// of (2) is not rounded to whole numbers here, which matters only below a few T/k.
    #[must_use]
    pub fn mean_time(&self, arrivals: Arrivals, rate: f64) -> f64 {
        // Up to `from`, 1 − p(t) is e^(−hazard·t) with the hazard of the best span so far.
        let (mut total, mut hazard, mut from) = (0.0, 0.0_f64, 0.0);
        let until = |hazard: f64, t: f64| if hazard > 0.0 { exp(-hazard * t) / hazard } else { -t };
        for span in self.spans(LONGEST_SPAN) {
            total += until(hazard, from) - until(hazard, span);
            hazard = hazard.max(-log1p(-self.exceeds(arrivals, rate, span)) / span);
            from = span;
            if hazard * from > CERTAIN {
                return total;
            }
        }
        total + until(hazard, from)
    }

    /// Returns all estimates for `rate` packets per second within `seconds`.
    #[must_use]
    pub fn estimates(&self, rate: f64, seconds: f64) -> Estimates {
        let by = |arrivals| {
            let minutes = self.mean_time(arrivals, rate) / 60.0;
            (self.loses_priority(arrivals, rate, seconds), minutes)
        };
        let passage = first_passage(ceil(self.threshold()) as u32, rate, self.capacity);
        let queue = (-expm1(-seconds / passage), passage / 60.0);
        Estimates { normal: by(Arrivals::Normal), poisson: by(Arrivals::Poisson), queue }
    }

    /// Returns the time spans that (2) is evaluated for, up to `longest`: those in which a whole
    /// number of arrivals just reaches the limit.
    fn spans(&self, longest: f64) -> impl Iterator<Item = f64> + use<> {
        let Self { capacity, .. } = *self;
        let threshold = self.threshold();
        let first = ceil(threshold + 1e-9);
        let counts = core::iter::successors(Some(first), |&count| {
            Some((count * STEP).max(count + 1.0).round())
        });
        let spans = counts.map(move |count| (count - threshold) / capacity);
        spans.take_while(move |&span| span < longest).chain([longest])
    }
}

/// Longest time span in which the mean time looks for an excess of arrivals, in seconds.
const LONGEST_SPAN: f64 = 1_000.0;

/// Returns the probability that a Poisson number with this mean is at least `count`.
fn at_least(count: f64, mean: f64) -> f64 {
    let term = exp(count * log(mean) - mean - lgamma(count + 1.0));
    let negligible = 1e-17;
    if count > mean {
        let (mut sum, mut next, mut k) = (0.0, term, count);
        while next > sum * negligible {
            sum += next;
            k += 1.0;
            next *= mean / k;
        }
        sum
    } else {
        // Below the mean the lower tail is the shorter one.
        let (mut sum, mut next, mut k) = (0.0, term * count / mean, count - 1.0);
        while k >= 0.0 && next > sum * negligible {
            sum += next;
            next *= k / mean;
            k -= 1.0;
        }
        1.0 - sum
    }
}

/// Returns the mean time in seconds until an M/D/1 queue that is empty holds `level` packets,
/// including the one in service, for `rate` arrivals and `capacity` services per second.
///
/// By the chain of the numbers after each service. For each state i at the beginning of a service
/// it has the probability that the level is reached before state i − 1 and the mean time until
/// either, from the top down; no term is subtracted from a larger one, so the result is exact also
/// for very rare events. O(level²).
#[must_use]
pub fn first_passage(level: u32, rate: f64, capacity: f64) -> f64 {
    let load = rate / capacity;
    // Times in services. `arrivals[a]` is the probability of `a` arrivals in a service.
    let mut arrivals = vec![exp(-load)];
    for a in 1..=level {
        arrivals.push(arrivals[a as usize - 1] * load / f64::from(a));
    }
    let level = level.max(1) as usize;
    let (mut reaches, mut lasts) = (vec![1.0; level + 1], vec![0.0; level + 1]);
    for state in (1..level).rev() {
        let room = level - state;
        let overflow = at_least(room as f64, load);
        // Time of the service, or until the arrival that reaches the level.
        let mut time = (1..=room).map(|a| at_least(a as f64, load)).sum::<f64>() / load;
        // Beyond `state`: probability to reach the level on the way back to it, and the time.
        let (mut hit, mut stays, mut back) = (overflow, 0.0, arrivals[0]);
        let (mut lost, mut spent) = (0.0, 0.0);
        for (a, probability) in arrivals.iter().enumerate().take(room).skip(1) {
            if a > 1 {
                let above = state + a - 1;
                spent = lasts[above] + (1.0 - reaches[above]) * spent;
                lost += (1.0 - lost) * reaches[above];
            }
            hit += probability * lost;
            time += probability * spent;
            stays += probability * (1.0 - lost);
        }
        back += hit;
        debug_assert!((back + stays - 1.0).abs() < 1e-9, "the cases are complete");
        // It leaves the state for good with probability `back`.
        reaches[state] = hit / back;
        lasts[state] = time / back;
    }
    // Each busy period begins with state 1, after an idle time of 1/load.
    let cycle = 1.0 / load + if level > 1 { lasts[1] } else { 0.0 };
    cycle / reaches[1] / capacity
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrivals::{Normal, Poisson};

    fn link(flows: f64) -> Link {
        Link { capacity: 1_000.0, buffer: 200.0, flows }
    }

    fn assert_close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() <= tolerance, "{found} instead of {expected}");
    }

    /// p(600 s) for flows and Mbit/s, by an independent program that tries each k up to 100,000.
    /// The formula tries time spans that grow by 1 %, which costs a few tenths of a percent.
    #[test]
    fn probabilities_agree_with_an_independent_computation() {
        let p =
            |arrivals, flows, mbps: f64| link(flows).loses_priority(arrivals, mbps * 100.0, 600.0);
        for (flows, mbps, expected) in [
            (5.0, 8.0, 2.181_08e-4),
            (5.0, 9.0, 0.217_255),
            (10.0, 6.0, 5.838_02e-5),
            (10.0, 6.5, 6.496_48e-4),
            (10.0, 7.0, 0.006_217_31),
            (10.0, 7.5, 0.051_059_5),
            (20.0, 4.0, 0.001_659_21),
            (20.0, 5.0, 0.039_980_4),
            (20.0, 6.0, 0.452_994),
            (20.0, 6.5, 0.866_168),
        ] {
            assert_close(p(Poisson, flows, mbps), expected, 0.003);
        }
        for (flows, mbps, expected) in [
            (5.0, 8.0, 1.481_38e-5),
            (5.0, 9.0, 0.114_106),
            (10.0, 7.0, 1.245_91e-4),
            (10.0, 8.0, 0.070_911_1),
            (10.0, 8.5, 0.622_322),
            (20.0, 5.5, 3.567_41e-4),
            (20.0, 6.0, 0.006_323_34),
            (20.0, 6.5, 0.069_165_5),
            (20.0, 7.0, 0.431_95),
            (20.0, 7.5, 0.964_432),
        ] {
            assert_close(p(Normal, flows, mbps), expected, 0.003);
        }
    }

    /// Minutes, from an independent program that tries fewer k.
    #[test]
    fn mean_times_agree_with_an_independent_computation() {
        let minutes = |arrivals, mbps: f64| link(20.0).mean_time(arrivals, mbps * 100.0) / 60.0;
        for (mbps, expected) in
            [(5.0, 252.0), (5.25, 124.0), (5.5, 62.0), (6.0, 17.0), (6.5, 5.1), (7.0, 1.6)]
        {
            assert_close(minutes(Poisson, mbps), expected, 0.05);
        }
        for (mbps, expected) in
            [(5.5, 28_090.0), (6.0, 1_580.0), (6.25, 447.0), (6.5, 140.0), (7.0, 18.0)]
        {
            assert_close(minutes(Normal, mbps), expected, 0.05);
        }
    }

    /// Minutes, from an independent program.
    #[test]
    fn first_passages_agree_with_an_independent_computation() {
        for (level, mbps, expected) in [
            (10, 3.0, 2_640.0),
            (10, 4.0, 62.0),
            (10, 5.0, 3.3),
            (10, 6.0, 0.30),
            (19, 6.0, 1_530.0),
            (19, 7.0, 20.0),
            (34, 7.0, 4.9e5),
            (34, 8.0, 334.0),
            (34, 8.5, 13.5),
            (34, 9.0, 0.8),
        ] {
            assert_close(first_passage(level, mbps * 100.0, 1_000.0) / 60.0, expected, 0.035);
        }
    }

    /// The first packet makes the level one: after 1/λ. Two packets: another arrives within the
    /// service of the first with probability 1 − e^−ρ.
    #[test]
    fn low_levels_agree_with_a_manual_computation() {
        assert_close(first_passage(1, 0.5, 1.0), 2.0, 1e-12);
        let hit = 1.0 - exp(-0.5);
        assert_close(first_passage(2, 0.5, 1.0), (2.0 + hit / 0.5) / hit, 1e-12);
    }

    #[test]
    fn tails_of_poisson_numbers_are_exact() {
        assert_close(at_least(0.0, 3.0), 1.0, 1e-12);
        assert_close(at_least(1.0, 3.0), 1.0 - exp(-3.0), 1e-12);
        assert_close(at_least(5.0, 1.0), 0.003_659_846_827_343_712, 1e-9);
        // Both sums meet at the mean.
        let at_mean = exp(10.0 * log(10.0) - 10.0 - lgamma(11.0));
        assert_close(at_least(10.0, 10.0) - at_least(11.0, 10.0), at_mean, 1e-9);
    }
}
