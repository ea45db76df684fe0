//! The retransmission timeout of RFC 6298.
//!
//! **Source.** RFC 6298 §2, in nanoseconds. The minimum timeout is 200 ms instead of 1 s, as in
//! Linux. Linux keeps the *variance term* above that, not the sum (Sarolahti and Kuznetsov,
//! "Congestion Control in Linux TCP", 2002, §3.3): in the formula of the RFC, `SRTT + max(G, 4 ·
//! RTTVAR)`, the granularity `G` is 200 ms. Without it a queue whose delay grows while an
//! acknowledgement is delayed would cause timeouts without a loss.
//!
//! A sample comes with every acknowledgement: from a segment that was sent once, or else from the
//! timestamp (§3). The gain of the variance, 1/4, is meant for one sample per round trip. With more
//! samples it is divided by the expected number (RFC 7323, appendix G), so that the variance
//! averages over as many round trips. SRTT follows with 1/8 of each sample, as in Linux.

use freeboard::sched_core::Nanos;

/// Estimator of the round-trip time and of the resulting timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    granularity: Nanos,
    least: Nanos,
    /// SRTT and RTTVAR; `None` before the first sample.
    smoothed: Option<(Nanos, Nanos)>,
    /// Timeouts since the last sample: each doubles the next.
    backoff: u32,
}

impl Rto {
    /// The timeout without a sample (§2.1).
    pub const INITIAL: Nanos = Nanos::from_secs(1);
    /// Maximum timeout (§2.5).
    pub const MOST: Nanos = Nanos::from_secs(60);
    /// Minimum timeout, and minimum variance term.
    pub const LEAST: Nanos = Nanos::from_millis(200);

    /// Creates an estimator without samples. `granularity` is the RFC's G.
    #[must_use]
    pub const fn new(granularity: Nanos, least: Nanos) -> Self {
        Self { granularity, least, smoothed: None, backoff: 0 }
    }

    /// Adds a round-trip time sample (§2.2, §2.3), one of `expected` per round trip.
    pub fn sample(&mut self, rtt: Nanos, expected: u32) {
        self.backoff = 0;
        let by = 4 * u64::from(expected.max(1));
        self.smoothed = Some(match self.smoothed {
            None => (rtt, Nanos(rtt.0 / 2)),
            Some((smoothed, variation)) => {
                let error = smoothed.0.abs_diff(rtt.0);
                let variation = Nanos(((by - 1) * variation.0 + error) / by);
                (Nanos((7 * smoothed.0 + rtt.0) / 8), variation)
            }
        });
    }

    /// Returns SRTT.
    #[must_use]
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed.map(|(smoothed, _)| smoothed)
    }

    /// Returns RTTVAR.
    #[must_use]
    pub fn variation(&self) -> Option<Nanos> {
        self.smoothed.map(|(_, variation)| variation)
    }

    /// Returns the current timeout.
    #[must_use]
    pub fn timeout(&self) -> Nanos {
        let base = self.smoothed.map_or(Self::INITIAL, |(smoothed, variation)| {
            smoothed.plus(Nanos((4 * variation.0).max(self.granularity.0)))
        });
        let doubled = base.max(self.least).0.saturating_mul(1 << self.backoff.min(20));
        Nanos(doubled).min(Self::MOST)
    }

    /// Doubles the timeout after an expiry of the timer (§5.5).
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
}

impl Default for Rto {
    fn default() -> Self {
        Self::new(Self::LEAST, Self::LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Calculated manually, with G of 1 ms and the RFC's minimum of 1 s replaced by 200 ms:
    ///
    /// - 100 ms: SRTT 100, RTTVAR 50, timeout 300.
    /// - 100 ms: SRTT 100, RTTVAR 37.5, timeout 250.
    /// - 180 ms: RTTVAR 0.75 · 37.5 + 0.25 · 80 = 48.125, SRTT 110, timeout 302.5.
    /// - 110 ms: RTTVAR 36.09375, SRTT 110, timeout 254.375.
    #[test]
    fn the_timeout_is_that_of_the_rfc() {
        let mut rto = Rto::new(ms(1), ms(200));
        assert_eq!(rto.timeout(), ms(1_000));
        for (sample, smoothed, timeout) in [
            (100, ms(100), ms(300)),
            (100, ms(100), ms(250)),
            (180, ms(110), Nanos(302_500_000)),
            (110, ms(110), Nanos(254_375_000)),
        ] {
            rto.sample(ms(sample), 1);
            assert_eq!((rto.smoothed(), rto.timeout()), (Some(smoothed), timeout), "{sample}");
        }
        assert_eq!(rto.variation(), Some(Nanos(36_093_750)));
    }

    /// Calculated manually, four samples per round trip: RTTVAR 50 + (80 − 50) / 16 = 51.875, SRTT
    /// 100 + 80 / 8 = 110.
    #[test]
    fn more_samples_a_round_trip_weigh_less() {
        let mut rto = Rto::new(ms(1), ms(200));
        rto.sample(ms(100), 4);
        rto.sample(ms(180), 4);
        assert_eq!(rto.smoothed(), Some(ms(110)));
        assert_eq!(rto.variation(), Some(Nanos(51_875_000)));
    }

    #[test]
    fn a_steady_round_trip_has_the_least_variance_term() {
        let (mut rto, mut of_the_rfc) = (Rto::default(), Rto::new(ms(1), ms(200)));
        for _ in 0..100 {
            rto.sample(ms(500), 1);
            of_the_rfc.sample(ms(500), 1);
        }
        assert_eq!((rto.timeout(), of_the_rfc.timeout()), (ms(700), ms(501)));
        let mut short = Rto::new(ms(1), ms(200));
        short.sample(ms(10), 1);
        assert_eq!(short.timeout(), ms(200), "10 + 4 · 5 is below the least");
    }

    #[test]
    fn each_timeout_doubles_the_next_up_to_a_minute_until_there_is_a_sample() {
        let mut rto = Rto::new(ms(1), ms(200));
        rto.sample(ms(100), 1);
        let mut timeouts = Vec::new();
        for _ in 0..9 {
            timeouts.push(rto.timeout().0 / 1_000_000);
            rto.back_off();
        }
        assert_eq!(timeouts, [300, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 60_000]);
        rto.sample(ms(100), 1);
        assert_eq!(rto.timeout(), ms(250));
    }
}
