//! Interarrival jitter (RFC 3550) and one-way delay variation (RFC 3393).

use freeboard::sched_core::Nanos;

/// Interarrival jitter of RFC 3550 §6.4.1: a moving average, with gain 1/16, of the absolute
/// difference in transit time between packets in order of arrival.
///
/// Computed as in §A.8, in integers with four fraction bits, but in nanoseconds instead of units of
/// the media clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// 16 times the jitter.
    sixteenths: u64,
    last_transit: Option<i128>,
}

impl Jitter {
    /// Records a packet sent at `sent` that arrived at `received`. Call in order of arrival.
    pub fn record(&mut self, sent: Nanos, received: Nanos) {
        let transit = i128::from(received.0) - i128::from(sent.0);
        if let Some(last) = self.last_transit.replace(transit) {
            // Clamped so that sixteen of them fit: a jitter above 36 years counts as 36 years.
            let difference = u64::try_from((transit - last).unsigned_abs()).unwrap_or(u64::MAX);
            // J += (|D| − J) / 16, times 16, and rounded: 16J += |D| − (16J + 8) / 16.
            let forgotten = (self.sixteenths + 8) >> 4;
            self.sixteenths = self.sixteenths + difference.min(u64::MAX >> 5) - forgotten;
        }
    }

    /// Returns the jitter after the packets so far.
    #[must_use]
    pub const fn value(&self) -> Nanos {
        Nanos(self.sixteenths >> 4)
    }
}

/// One-way delay variation of RFC 3393, with its usual selection (§2.6): consecutive packets by the
/// sender's sequence number. A pair with a lost packet has no variation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayVariation {
    /// Sequence number and one-way delay of the last packet recorded.
    last: Option<(u64, i128)>,
    differences: Vec<i64>,
}

impl DelayVariation {
    /// Records packet number `sequence`, sent at `sent`, that arrived at `received`. Call in order
    /// of sequence numbers, without the lost ones.
    pub fn record(&mut self, sequence: u64, sent: Nanos, received: Nanos) {
        let delay = i128::from(received.0) - i128::from(sent.0);
        if let Some((before, last)) = self.last.replace((sequence, delay))
            && before.checked_add(1) == Some(sequence)
        {
            let saturated = (delay - last).clamp(i64::MIN.into(), i64::MAX.into());
            self.differences.push(saturated as i64);
        }
    }

    /// Returns each packet's delay minus that of the packet before it, in nanoseconds; negative if
    /// it was faster.
    #[must_use]
    pub fn differences(&self) -> &[i64] {
        &self.differences
    }

    /// Returns the absolute values of the differences, for quantiles.
    #[must_use]
    pub fn magnitudes(&self) -> super::delay::Delays {
        self.differences.iter().map(|difference| Nanos(difference.unsigned_abs())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the integer recurrence follows RFC 3550 §A.8, including its rounding. Method:
    /// calculated manually. Transits 0, 1544, 0: 16J is 1544, then 1544 + 1544 − (1544 + 8) / 16 =
    /// 2991, which is just below 187 · 16.
    #[test]
    fn jitter_follows_the_recurrence_of_rfc_3550() {
        let mut jitter = Jitter::default();
        jitter.record(Nanos(0), Nanos(0));
        assert_eq!(jitter.value(), Nanos(0));
        jitter.record(Nanos(20_000), Nanos(21_544));
        assert_eq!(jitter.value(), Nanos(96));
        jitter.record(Nanos(40_000), Nanos(40_000));
        assert_eq!(jitter.value(), Nanos(186));
    }

    /// A difference of D on every packet gives jitter D: the fixed point of the recurrence.
    #[test]
    fn jitter_settles_at_a_steady_difference() {
        let mut jitter = Jitter::default();
        for packet in 0..1_000 {
            jitter
                .record(Nanos(packet * 1_000_000), Nanos(packet * 1_000_000 + packet % 2 * 5_000));
        }
        assert!(jitter.value().0.abs_diff(5_000) <= 1, "{:?}", jitter.value());
    }

    #[test]
    fn neither_clock_can_make_them_overflow() {
        let (mut jitter, mut variation) = (Jitter::default(), DelayVariation::default());
        for packet in 0..1_000 {
            let [sent, received] = if packet % 2 == 0 { [0, u64::MAX] } else { [u64::MAX, 0] };
            jitter.record(Nanos(sent), Nanos(received));
            variation.record(packet, Nanos(sent), Nanos(received));
        }
        assert!(jitter.value() <= Nanos(u64::MAX >> 4));
        assert_eq!(variation.differences()[..2], [i64::MIN, i64::MAX]);
    }

    #[test]
    fn variation_skips_pairs_of_which_one_was_lost() {
        let mut variation = DelayVariation::default();
        for (sequence, sent, received) in [(1, 0, 10), (2, 20, 33), (4, 60, 61), (5, 80, 80)] {
            variation.record(sequence, Nanos(sent), Nanos(received));
        }
        assert_eq!(variation.differences(), [3, -1]);
        assert_eq!(variation.magnitudes().samples(), [Nanos(3), Nanos(1)]);
    }
}
