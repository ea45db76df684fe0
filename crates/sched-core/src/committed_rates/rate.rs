//! A rate, and the bucket that keeps it.

use core::num::NonZeroU64;

use crate::guarantee::ceil;
use crate::{ConfigError, Nanos};

/// Bits in a byte × nanoseconds in a second.
const BIT_NANOS_PER_BYTE_SECOND: u128 = 8_000_000_000;

/// How much of the link is a flow's without borrowing: a rate, and the burst that it may send at once
/// after it sent less.
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
pub struct CommittedRate {
    bits_per_second: u64,
    /// The time of a byte in 2⁻³² ns, rounded up: the rate that is kept is the one set or lower, by less
    /// than 12 in 10⁹, because a byte takes at least 0.02 ns, which are 85,899,345 of these.
    per_byte: NonZeroU64,
    burst: u32,
}

impl CommittedRate {
    /// The slowest rate that can be set, in bits per second.
    pub const MIN_BITS_PER_SECOND: u64 = 1_000;
    /// The fastest rate that can be set, in bits per second.
    pub const MAX_BITS_PER_SECOND: u64 = 400_000_000_000;

    /// So many bits per second, and a burst of so many bytes. The one division is here.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `bits_per_second` is in
    /// [`MIN_BITS_PER_SECOND`](Self::MIN_BITS_PER_SECOND)`..=`[`MAX_BITS_PER_SECOND`](Self::MAX_BITS_PER_SECOND)
    /// and `burst` is not 0.
    pub fn new(bits_per_second: u64, burst: u32) -> Result<Self, ConfigError> {
        let (min, max) = (Self::MIN_BITS_PER_SECOND, Self::MAX_BITS_PER_SECOND);
        ConfigError::check_range("rate in bits per second", bits_per_second, min, max)?;
        ConfigError::check_range("burst in bytes", burst.into(), 1, u32::MAX.into())?;
        let rate = NonZeroU64::new(bits_per_second).unwrap_or(NonZeroU64::MAX);
        let per_byte = ceil(BIT_NANOS_PER_BYTE_SECOND << 32, rate);
        let per_byte = NonZeroU64::new(per_byte).unwrap_or(NonZeroU64::MIN);
        Ok(Self { bits_per_second, per_byte, burst })
    }

    /// The rate.
    #[must_use]
    pub const fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// The burst in bytes.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The same rate, with a burst of at least so many bytes.
    #[must_use]
    pub fn with_burst_of_at_least(self, bytes: u32) -> Self {
        Self { burst: self.burst.max(bytes), ..self }
    }

    /// The time of so many bytes at the rate, after so many 2⁻³² ns: nanoseconds, and 2⁻³² ns beyond
    /// them. A byte takes at most 8·10⁶ ns, so that 2³² bytes take less than 2⁵⁵ ns.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    const fn time_of(&self, bytes: u32, fraction: u32) -> (u64, u32) {
        let (bytes, per_byte) = (bytes as u64, self.per_byte.get());
        let low = bytes.wrapping_mul(per_byte & u32::MAX as u64).wrapping_add(fraction as u64);
        (bytes.wrapping_mul(per_byte >> 32).wrapping_add(low >> 32), low as u32)
    }
}

/// What [`CommittedRates`](super::CommittedRates) knows of one flow: 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedFlow {
    rate: Option<CommittedRate>,
    /// The bucket is full from this instant on, and what it lacks before is the time until then: whole
    /// nanoseconds here, 2⁻³² ns in `fraction`. At the end of time it stays as it is.
    full_at: u64,
    fraction: u32,
    /// Whether it is in one of the orders.
    is_backlogged: bool,
}

impl CommittedFlow {
    /// An idle flow without a rate.
    pub const EMPTY: Self = Self { rate: None, full_at: 0, fraction: 0, is_backlogged: false };

    #[inline]
    pub(super) const fn rate(&self) -> Option<CommittedRate> {
        self.rate
    }

    #[inline]
    pub(super) const fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Another rate, or none, whose bucket is full at `now`.
    pub(super) const fn set_rate(&mut self, rate: Option<CommittedRate>, now: Nanos) {
        self.rate = rate;
        (self.full_at, self.fraction) = (now.0, 0);
    }

    #[inline]
    pub(super) const fn is_backlogged(&self) -> bool {
        self.is_backlogged
    }

    #[inline]
    pub(super) const fn set_backlogged(&mut self, is_backlogged: bool) {
        self.is_backlogged = is_backlogged;
    }

    /// It sends so many bytes at `now` on its own account.
    #[inline]
    pub(super) const fn charge(&mut self, now: Nanos, len: u32) {
        let Some(rate) = self.rate else { return };
        if self.full_at < now.0 {
            (self.full_at, self.fraction) = (now.0, 0);
        }
        let (span, fraction) = rate.time_of(len, self.fraction);
        (self.full_at, self.fraction) = (self.full_at.saturating_add(span), fraction);
    }

    /// From when on the bucket lacks no more than it holds when full; [`Nanos::MAX`] is never.
    #[inline]
    pub(super) const fn due(&self) -> Nanos {
        let (Some(rate), true) = (self.rate, self.full_at < u64::MAX) else {
            return Nanos(if self.rate.is_some() { u64::MAX } else { 0 });
        };
        // The instant is rounded up and the burst down: never early.
        let (burst, _) = rate.time_of(rate.burst, 0);
        Nanos(self.full_at.wrapping_add((self.fraction != 0) as u64).saturating_sub(burst))
    }

    /// Whether the flow has a credit, or none to keep.
    #[inline]
    pub(super) const fn is_conforming(&self, now: Nanos) -> bool {
        let due = self.due();
        due.0 <= now.0 && due.0 < Nanos::MAX.0
    }
}

impl Default for CommittedFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn only_what_is_in_range_is_a_cap() {
        for bits_per_second in RATES {
            let rate = CommittedRate::new(bits_per_second, 1).unwrap();
            assert_eq!((rate.bits_per_second(), rate.burst()), (bits_per_second, 1));
            assert_eq!(rate.with_burst_of_at_least(1_500).burst(), 1_500);
            assert_eq!(rate.with_burst_of_at_least(0), rate);
        }
        for value in [0, 999, 400_000_000_001, u64::MAX] {
            let what = "rate in bits per second";
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
                    let (nanos, left) = rate.time_of(bytes, fraction);
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

    #[test]
    fn a_flow_takes_40_bytes() {
        assert_eq!((size_of::<CommittedRate>(), size_of::<CommittedFlow>()), (24, 40));
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
            let mut flow = CommittedFlow::EMPTY;
            flow.set_rate(Some(rate), Nanos(0));
            // Steps of up to the time of two packets.
            let step = 2 * 1_500 * 8_000_000_000 / bits_per_second + 2;
            let (mut now, mut sent) = (0, Vec::new());
            for _ in 0..400 {
                now += random(step);
                while flow.is_conforming(Nanos(now)) {
                    let len = 1 + random(1_500) as u32;
                    flow.charge(Nanos(now), len);
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

    /// What a flow of this rate sends in packets of 64 bytes, at most so many each nanosecond, which is less than
    /// the time of one.
    fn sent_in_small_steps(rate: CommittedRate, nanos: u64, each: u32) -> u128 {
        let (mut flow, mut sent) = (CommittedFlow::EMPTY, 0);
        flow.set_rate(Some(rate), Nanos(0));
        for now in (0..nanos).map(Nanos) {
            for _ in 0..each {
                if flow.is_conforming(now) {
                    flow.charge(now, 64);
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
        let mut flow = CommittedFlow::EMPTY;
        flow.set_rate(Some(CommittedRate::new(16_000_000_000, 1_500).unwrap()), Nanos(0));
        flow.charge(Nanos(0), 1);
        flow.charge(Nanos(10), 1_500);
        assert_eq!(flow.due(), Nanos(10));
        flow.charge(Nanos(10), 1);
        assert_eq!(flow.due(), Nanos(11));
    }

    #[test]
    fn at_the_end_of_time_nobody_is_back() {
        let mut flow = CommittedFlow::EMPTY;
        flow.set_rate(Some(CommittedRate::new(1_000, 1_500).unwrap()), Nanos(u64::MAX - 5));
        assert!(flow.is_conforming(Nanos(u64::MAX - 5)));
        flow.charge(Nanos(u64::MAX - 5), 1);
        assert_eq!(flow.due(), Nanos::MAX);
        assert!(!flow.is_conforming(Nanos::MAX));
        flow.set_rate(None, Nanos::MAX);
        assert!(flow.is_conforming(Nanos::ZERO) && flow.is_conforming(Nanos::MAX));
    }
}
