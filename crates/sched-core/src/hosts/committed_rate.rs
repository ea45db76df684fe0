//! A committed rate: what a host is sent without borrowing.

use crate::ConfigError;
use crate::hosts::token_bucket::{MAX_BITS_PER_SECOND, MIN_BITS_PER_SECOND, TokenRate};

/// What a host is sent without borrowing: a rate, and the burst that it may be sent at once after it was
/// sent less.
///
/// ```
/// use sched_core::{CommittedRate, ConfigError};
///
/// let rate = CommittedRate::new(20_000_000, 30_000)?;
/// assert_eq!((rate.bits_per_second(), rate.burst()), (20_000_000, 30_000));
/// assert!(CommittedRate::new(0, 30_000).is_err());
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CommittedRate {
    rate: TokenRate,
    burst: u32,
    borrows_free: bool,
}

impl CommittedRate {
    /// The slowest rate that can be set, in bits per second.
    pub const MIN_BITS_PER_SECOND: u64 = MIN_BITS_PER_SECOND;
    /// The fastest rate that can be set, in bits per second.
    pub const MAX_BITS_PER_SECOND: u64 = MAX_BITS_PER_SECOND;

    /// `bits_per_second` on the wire, and a burst of `burst` bytes; what is borrowed is charged. The one
    /// division is here.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `bits_per_second` is in
    /// [`MIN_BITS_PER_SECOND`](Self::MIN_BITS_PER_SECOND)`..=`[`MAX_BITS_PER_SECOND`](Self::MAX_BITS_PER_SECOND)
    /// and `burst` is not 0.
    pub fn new(bits_per_second: u64, burst: u32) -> Result<Self, ConfigError> {
        let rate = TokenRate::new("committed rate in bits per second", bits_per_second)?;
        ConfigError::check_range("burst in bytes", burst.into(), 1, u32::MAX.into())?;
        Ok(Self { rate, burst, borrows_free: false })
    }

    /// The same rate, of which nothing is taken for what a host is sent in excess.
    ///
    /// The host then has its rate on top of what it borrowed. Beside rivals that pause now and then,
    /// such as TCP under an AQM, it gets more than its rate.
    #[must_use]
    pub const fn with_free_borrowing(self) -> Self {
        Self { borrows_free: true, ..self }
    }

    /// The rate.
    #[must_use]
    pub const fn bits_per_second(&self) -> u64 {
        self.rate.bits_per_second()
    }

    /// The burst in bytes.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Whether nothing is taken for what a host is sent in excess.
    #[must_use]
    pub const fn borrows_free(&self) -> bool {
        self.borrows_free
    }

    /// The same rate, with a burst of at least `bytes` bytes.
    #[must_use]
    pub fn with_burst_of_at_least(self, bytes: u32) -> Self {
        Self { burst: self.burst.max(bytes), ..self }
    }

    /// How fast the bucket fills.
    #[doc(hidden)]
    #[must_use]
    pub const fn token_rate(&self) -> TokenRate {
        self.rate
    }

    /// What the bucket may lack of a host that conforms, in nanoseconds; rounded down.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn allowed(&self) -> u64 {
        self.rate.time_of(self.burst, 0).0
    }

    /// The most that a bucket lacks for what was borrowed, in nanoseconds: it is overdrawn by a burst.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn most(&self) -> u64 {
        self.allowed().wrapping_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::token_bucket::{Bucket, Elapsed};
    use std::string::ToString;
    use std::vec::Vec;

    const RATES: [u64; 9] = [
        1_000,
        1_001,
        65_537,
        999_983,
        20_000_000,
        750_000_000,
        3_999_999_979,
        399_999_999_959,
        400_000_000_000,
    ];

    /// A rate, and the bucket that keeps it.
    struct Kept {
        rate: CommittedRate,
        bucket: Bucket,
    }

    impl Kept {
        const fn full(rate: CommittedRate) -> Self {
            Self { rate, bucket: Bucket::full(0) }
        }

        const fn conforms(&self, now: u64) -> bool {
            self.bucket.lacks_at_most(now, self.rate.allowed())
        }

        const fn charge(&mut self, now: u64, bytes: u32) {
            self.bucket.take(&mut Elapsed::reading(now), &self.rate.rate, bytes);
        }

        const fn due(&self) -> u64 {
            self.bucket.due(self.rate.allowed())
        }

        fn set_rate(&mut self, rate: CommittedRate) {
            let (clock, most) = (&mut Elapsed::reading(0), rate.most());
            self.bucket = self.bucket.at_rate(clock, &self.rate.rate, &rate.rate, most);
            self.rate = rate;
        }
    }

    #[test]
    fn only_what_is_in_range_is_a_committed_rate() {
        for bits_per_second in RATES {
            let rate = CommittedRate::new(bits_per_second, 1).unwrap();
            assert_eq!((rate.bits_per_second(), rate.burst()), (bits_per_second, 1));
            assert_eq!(rate.with_burst_of_at_least(1_500).burst(), 1_500);
            assert_eq!(rate.with_burst_of_at_least(0), rate);
        }
        for value in [0, 999, 400_000_000_001, u64::MAX] {
            let what = "committed rate in bits per second";
            let (min, max) = (1_000, 400_000_000_000);
            let refused = ConfigError::OutOfRange { what, value, min, max };
            assert_eq!(CommittedRate::new(value, 1_500), Err(refused));
        }
        let refused = CommittedRate::new(1_000, 0).unwrap_err().to_string();
        assert_eq!(refused, "burst in bytes 0 is outside 1..=4294967295");
    }

    /// Goal: the time of a packet is never too short, and too long by less than 12 in 10^9 and a unit.
    /// Method: 128-bit arithmetic, for lengths at both ends.
    #[test]
    fn the_time_of_bytes_is_that_of_the_rate_up_to_its_error() {
        for bits_per_second in RATES {
            let rate = CommittedRate::new(bits_per_second, 1).unwrap();
            for bytes in [1, 64, 1_500, 1 << 20, u32::MAX] {
                for fraction in [0, 1, u32::MAX] {
                    let (nanos, left) = rate.rate.time_of(bytes, fraction);
                    let units = (u128::from(nanos) << 32) + u128::from(left) - u128::from(fraction);
                    // In units of 2^-32 ns / rate.
                    let exact = (u128::from(bytes) * 8_000_000_000) << 32;
                    let found = units * u128::from(bits_per_second);
                    assert!(found >= exact, "{bytes} bytes at {bits_per_second}");
                    let error = found - exact;
                    assert!(error * 1_000_000_000 < exact * 12, "{bytes} at {bits_per_second}");
                }
            }
        }
    }

    /// Goal: in any interval what is charged while there is credit is at most `rate·t + burst + L`.
    /// Method: a sender that takes whatever it gets, at random instants, and every interval of them.
    #[test]
    fn no_interval_sends_more_than_rate_burst_and_a_packet() {
        let mut seed = 7_u64;
        let mut random = |bound: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for bits_per_second in RATES {
            let rate = CommittedRate::new(bits_per_second, 3_000).unwrap();
            let mut kept = Kept::full(rate);
            // Steps of up to the time of two packets.
            let step = 2 * 1_500 * 8_000_000_000 / bits_per_second + 2;
            let (mut now, mut sent) = (0, Vec::new());
            for _ in 0..400 {
                now += random(step);
                while kept.conforms(now) {
                    let len = 1 + random(1_500) as u32;
                    kept.charge(now, len);
                    sent.push((now, u128::from(len)));
                }
            }
            for (first, &(from, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for &(until, len) in &sent[first..] {
                    bytes += len;
                    let span = u128::from(until - from) * u128::from(bits_per_second);
                    let most = span + (3_000 + 1_500) * 8_000_000_000;
                    assert!(bytes * 8_000_000_000 <= most, "{from} to {until}");
                }
            }
            // And no less, but for the burst at the end and the error.
            let all: u128 = sent.iter().map(|&(_, len)| len).sum();
            let least = u128::from(now) * u128::from(bits_per_second) / 8_000_000_000;
            assert!(all + 3_000 >= least, "{all} of {least} at {bits_per_second}");
        }
    }

    /// What is sent at this rate in `nanos` nanoseconds in packets of 64 bytes, at most `each` in a
    /// nanosecond, which is less than a packet lasts.
    fn sent_in_small_steps(rate: CommittedRate, nanos: u64, each: u32) -> u128 {
        let (mut kept, mut sent) = (Kept::full(rate), 0);
        for now in 0..nanos {
            for _ in 0..each {
                if kept.conforms(now) {
                    kept.charge(now, 64);
                    sent += 64;
                }
            }
        }
        sent
    }

    /// Goal: parts of a nanosecond are neither lost nor won, however often a bucket is charged, whether it is
    /// empty or lacks less than a nanosecond. Method: packets that take 1.28 ns to 128 ns; as many as there is
    /// credit for, and one each nanosecond.
    #[test]
    fn many_small_steps_add_up_to_the_rate() {
        const NANOS: u64 = 40_000;
        for bits_per_second in
            [4_000_000_000, 123_456_789_012, 350_000_000_000, 399_999_999_959, 400_000_000_000]
        {
            let rate = CommittedRate::new(bits_per_second, 1_500).unwrap();
            let earned = u128::from(NANOS - 1) * u128::from(bits_per_second) / 8_000_000_000;
            for each in [1, 64] {
                let sent = sent_in_small_steps(rate, NANOS, each);
                // The burst is sent too, and overdrawn; an instant is a nanosecond, in which 50 bytes come.
                let expected = earned + 1_500 - 50..=earned + 1_500 + 64;
                assert!(expected.contains(&sent), "{sent} of {expected:?} at {bits_per_second}");
            }
        }
    }

    /// A bucket of 750 ns, full again after a packet that left it lacking half of one: it holds what it can, and
    /// a packet of that does not overdraw it.
    #[test]
    fn a_bucket_that_is_full_lacks_no_part_of_a_nanosecond() {
        let mut kept = Kept::full(CommittedRate::new(16_000_000_000, 1_500).unwrap());
        kept.charge(0, 1);
        kept.charge(10, 1_500);
        assert_eq!(kept.due(), 10);
        kept.charge(10, 1);
        assert_eq!(kept.due(), 11);
    }

    /// Goal: a change gives nothing away: what the bucket lacks in bytes it lacks after it, up to what the new
    /// one can lack.
    #[test]
    fn another_rate_finds_the_bucket_as_it_was() {
        let rate = |mbit: u64, burst| CommittedRate::new(mbit * 1_000_000, burst).unwrap();
        let mut kept = Kept::full(rate(8, 3_000));
        kept.charge(0, 4_000);
        // The bucket is overdrawn by 1,000 bytes, at each rate.
        assert_eq!(kept.due(), 1_000_000);
        kept.set_rate(rate(16, 3_000));
        assert_eq!(kept.due(), 500_000);
        kept.set_rate(rate(8, 3_000));
        assert_eq!(kept.due(), 1_000_000);
        // No bucket is overdrawn by more than a burst.
        kept.charge(0, 1_000);
        kept.set_rate(rate(8, 1_500));
        assert_eq!(kept.due(), 1_500_000);
    }
}
