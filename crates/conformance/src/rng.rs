//! All randomness of a run, derived from one seed.
//!
//! Every consumer draws from its own named stream. Adding a source to a scenario does not change
//! the draws of the others, so two runs differ only by what was changed.
//!
//! A stream is PCG XSL-RR 128/64 (MCG) whose state is SipHash-1-3-128 of the name, keyed with the
//! seed. Both are fixed by their published definitions, not by the version of a library. Logarithms
//! come from `libm`, in software, so that every platform draws the same bits.

use freeboard::sched_core::Nanos;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use siphasher::sip128::SipHasher13;

/// The seed of a run, from which streams are created by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Creates the source of all streams of the run with this `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the stream called `name`, from its beginning. Calls with equal names return equal
    /// streams.
    #[must_use]
    pub fn stream(&self, name: &str) -> Stream {
        // The second key word separates this use of the hash from all others.
        let hasher = SipHasher13::new_with_keys(self.seed, u64::from_le_bytes(*b"freebrd1"));
        Stream { pcg: Pcg64Mcg::new(hasher.hash(name.as_bytes()).as_u128()) }
    }
}

/// An endless sequence of random numbers, independent of every other stream.
#[derive(Clone, Debug)]
pub struct Stream {
    pcg: Pcg64Mcg,
}

impl Stream {
    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.pcg.next_u64()
    }

    /// Returns a uniform number in `0..limit`; 0 if `limit` is 0.
    ///
    /// Uses Lemire's multiplication with rejection ("Fast Random Integer Generation in an
    /// Interval", 2019), which is exact and, for limits far below 2^64, almost always needs one
    /// draw.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        // 2^64 mod limit values of the low half would occur once too often; they are redrawn.
        let surplus = limit.wrapping_neg() % limit;
        loop {
            let product = u128::from(self.bits()) * u128::from(limit);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns true with probability `favourable / possible`, exactly; always if that is 1 or more.
    pub fn chance(&mut self, favourable: u64, possible: u64) -> bool {
        self.below(possible) < favourable
    }

    /// Returns a number in (0, 1] in steps of 2^-53. Never 0, so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        // 2^53 is the largest integer up to which an f64 represents all integers.
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a normally distributed number with mean 0 and variance 1 (Box and Muller 1958).
    ///
    /// Uses two draws; the second normal number they give is discarded, so that a stream has no
    /// state but its position.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// Returns an exponentially distributed time span with the given mean, rounded down to
    /// nanoseconds.
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        nanos(-libm::log(self.unit()) * mean.0 as f64)
    }

    /// Returns a Pareto-distributed time span with the given mean, rounded down to nanoseconds.
    ///
    /// The smallest span is `mean · (shape − 1) / shape`, as in ns-2's Pareto on–off source. Below
    /// shape 2 the variance is infinite, and sample means converge slowly.
    pub fn pareto(&mut self, mean: Nanos, shape: ParetoShape) -> Nanos {
        let smallest = mean.0 as f64 * (shape.0 - 1.0) / shape.0;
        nanos(smallest * libm::pow(self.unit(), -1.0 / shape.0))
    }
}

/// The tail index of a Pareto distribution with a finite mean, hence above 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ParetoShape(f64);

impl ParetoShape {
    /// 1.5, the usual choice for on–off traffic (ns-2's default).
    pub const TRAFFIC: Self = Self(1.5);

    /// Returns `shape` if it is finite and above 1; otherwise the mean would be infinite.
    #[must_use]
    pub fn new(shape: f64) -> Option<Self> {
        (shape.is_finite() && shape > 1.0).then_some(Self(shape))
    }
}

/// Rounds down. `as` saturates, so that a very long span becomes the maximum time.
fn nanos(span: f64) -> Nanos {
    Nanos(span as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a recorded figure can be reproduced in ten years on any machine. Method: compare with
    /// the recorded first draws. `a_stream_is_the_published_generator` checks the state separately.
    #[test]
    fn the_first_draws_never_change() {
        let mut voip = Streams::new(1).stream("voip-1");
        assert_eq!(voip.bits(), 12_225_631_227_867_216_404);
        assert_eq!(voip.bits(), 15_830_214_655_220_824_958);
        let mean = Nanos::from_millis(100);
        let mut on = Streams::new(1).stream("on-off");
        assert_eq!(
            [on.exponential(mean), on.exponential(mean)],
            [Nanos(141_245_782), Nanos(485_385_521)]
        );
        assert_eq!(on.pareto(mean, ParetoShape::TRAFFIC), Nanos(38_704_921));
        assert_eq!([on.below(1000), on.below(1000), on.below(1000)], [246, 626, 149]);
    }

    /// Goal: fix the construction independently of this code. Method: compare PCG XSL-RR 128/64
    /// (MCG), written out from its definition (O'Neill 2014, §6.3.3), with the library's.
    #[test]
    fn a_stream_is_the_published_generator() {
        let mut state =
            SipHasher13::new_with_keys(42, 0x3164_7262_6565_7266).hash(b"x").as_u128() | 1;
        let mut stream = Streams::new(42).stream("x");
        for _ in 0..100 {
            state = state.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645);
            let folded = (state >> 64) as u64 ^ state as u64;
            assert_eq!(stream.bits(), folded.rotate_right((state >> 122) as u32));
        }
    }

    #[test]
    fn names_and_seeds_separate_streams() {
        let first = |seed, name| Streams::new(seed).stream(name).bits();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, ""), first(1, "\0"));
    }

    #[test]
    fn integer_probabilities_are_exact_at_their_ends() {
        let mut stream = Streams::new(3).stream("chance");
        for _ in 0..1_000 {
            assert!(stream.chance(5, 5) && !stream.chance(0, 5));
            assert_eq!((stream.below(1), stream.below(0)), (0, 0));
            assert!(stream.below(u64::MAX) < u64::MAX);
        }
    }

    /// Chi-square over 10 cells and 100,000 draws: one seed in a thousand exceeds 27.9, and this
    /// seed is fixed.
    #[test]
    fn below_is_uniform() {
        let mut stream = Streams::new(3).stream("uniform");
        let mut cells = [0_i64; 10];
        for _ in 0..100_000 {
            cells[stream.below(10) as usize] += 1;
        }
        let chi: i64 = cells.iter().map(|n| (n - 10_000) * (n - 10_000)).sum::<i64>() / 10_000;
        assert!(chi < 27, "{chi} from {cells:?}");
    }

    /// With a million draws the standard error of the mean is 0.1 % for the exponential and 0.06 %
    /// for the Pareto of shape 3 (finite variance). The smallest value of the latter is mean · 2/3.
    #[test]
    fn spans_have_the_mean_and_the_tail_asked_for() {
        let mean = Nanos(1_000_000);
        let mut stream = Streams::new(4).stream("spans");
        let shape = ParetoShape::new(3.0).unwrap();
        let (mut exponential, mut above, mut pareto, mut least) = (0, 0, 0, u64::MAX);
        for _ in 0..1_000_000 {
            let span = stream.exponential(mean).0;
            exponential += span;
            above += u32::from(span > 2_000_000);
            let span = stream.pareto(mean, shape).0;
            pareto += span;
            least = least.min(span);
        }
        assert!((996_000_000_000..1_004_000_000_000).contains(&exponential), "{exponential}");
        // e^-2 = 0.13534; one standard error is 342.
        assert!((134_300..136_400).contains(&above), "{above}");
        assert!((997_000_000_000..1_003_000_000_000).contains(&pareto), "{pareto}");
        assert!((666_666..666_700).contains(&least), "{least}");
    }

    /// Of a million draws the mean has a standard error of 0.001, the mean square of √2/1,000, and
    /// the share above 1.96 of 0.000,16. Consecutive draws are uncorrelated: their mean product
    /// has a standard error of 0.001,4.
    #[test]
    fn normal_numbers_have_their_moments_and_tail() {
        let mut stream = Streams::new(5).stream("normal");
        let count = 1_000_000;
        let numbers: Vec<f64> = (0..count).map(|_| stream.normal()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| {
            numbers.iter().map(|&number| of(number)).sum::<f64>() / f64::from(count)
        };
        assert!(mean(&|number| number).abs() < 0.004);
        assert!((mean(&|number| number * number) - 1.0).abs() < 0.006);
        let above = mean(&|number| f64::from(u8::from(number > 1.959_964)));
        assert!((above - 0.025).abs() < 0.000_64, "{above}");
        let pairs = numbers.as_chunks::<2>().0;
        let product = pairs.iter().map(|[a, b]| a * b).sum::<f64>() / pairs.len() as f64;
        assert!(product.abs() < 0.006, "{product}");
    }

    #[test]
    fn a_pareto_without_a_mean_is_refused() {
        for shape in [1.0, 0.0, -2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ParetoShape::new(shape), None);
        }
    }
}
