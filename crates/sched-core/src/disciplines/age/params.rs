//! Parameters of levels by age, and the learned threshold.

use crate::flow_scheduler::ConfigError;
use crate::{Nanos, Packet};

/// Parameters of an [`AgeDrr`](crate::AgeDrr).
///
/// ```
/// use sched_core::{AgeParams, Nanos, ThresholdRange};
///
/// let params = AgeParams::two_levels(100_000)
///     .with_floor(8)
///     .with_renewal(Nanos::from_millis(500))
///     .with_learned_threshold(ThresholdRange { least: 15_000, most: 1_000_000 });
/// assert_eq!((params.levels, params.floor), (2, Some(8)));
/// assert_eq!(AgeParams::least_attained(1_500).levels, 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AgeParams {
    /// The end of the first level in bytes of service, `1..=` [`AgeParams::MAX_THRESHOLD`]. Level
    /// `n` ends at `threshold · 2^n` bytes.
    pub threshold: u32,
    /// Number of levels, `2..=`[`AgeParams::MAX_LEVELS`]. The last one has no end.
    pub levels: u32,
    /// The service floor: one in `floor` bytes is reserved for the levels below the first while
    /// they hold packets, `2..=` [`AgeParams::MAX_FLOOR`]. `None` is strict priority.
    pub floor: Option<u32>,
    /// Idle time after which a flow is new, to within 1.05 ms. 1 ns to 1 h.
    pub renewed_after: Nanos,
    /// Range of a threshold learned from the traffic, which starts at `threshold`. `None` for a
    /// fixed threshold.
    pub learned: Option<ThresholdRange>,
}

/// The range of a [learned](AgeParams::with_learned_threshold) threshold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ThresholdRange {
    /// The lowest threshold, at least 1. Flows of one packet each, however many, do not push it
    /// lower.
    pub least: u32,
    /// The highest threshold, at most [`AgeParams::MAX_THRESHOLD`].
    pub most: u32,
}

/// A tick is 2^20 ns, 1.05 ms: a 32-bit idle time in ticks wraps after 52 days.
const TICK_SHIFT: u32 = 20;

/// Returns a span of time in ticks, modulo 2^32.
#[expect(clippy::cast_possible_truncation, reason = "spans are differences modulo 2^32 ticks")]
pub(super) const fn ticks_of(span: u64) -> u32 {
    (span >> TICK_SHIFT) as u32
}

impl AgeParams {
    /// The highest threshold: 1 GiB.
    pub const MAX_THRESHOLD: u32 = 1 << 30;
    /// The largest number of levels.
    pub const MAX_LEVELS: u32 = 16;
    /// The largest divisor of a floor: one in 1,024 bytes.
    pub const MAX_FLOOR: u32 = 1 << 10;
    /// Default of [`AgeParams::renewed_after`].
    ///
    /// A sender that was idle for longer than its retransmission timeout begins again with a small
    /// window (RFC 5681 §4.1), and that timeout is at least 1 s (RFC 6298 §2.4).
    pub const RENEWED_AFTER: Nanos = Nanos::from_secs(1);
    /// The longest accepted idle time after which a flow is new.
    const MAX_RENEWAL: Nanos = Nanos::from_secs(3_600);

    /// Creates parameters for two-level processor sharing with strict priority.
    ///
    /// Flows are young until they have been served `threshold` bytes.
    /// [`AgeDrr::new`](crate::AgeDrr::new) checks the parameters.
    #[must_use]
    pub const fn two_levels(threshold: u32) -> Self {
        let renewed_after = Self::RENEWED_AFTER;
        Self { threshold, levels: 2, floor: None, renewed_after, learned: None }
    }

    /// Creates parameters that approximate least attained service first, with strict priority.
    ///
    /// There are 16 levels: the first ends at `first` bytes, and each other ends at twice the bytes
    /// of the one before.
    #[must_use]
    pub const fn least_attained(first: u32) -> Self {
        Self { levels: Self::MAX_LEVELS, ..Self::two_levels(first) }
    }

    /// Sets the number of levels.
    #[must_use]
    pub const fn with_levels(self, levels: u32) -> Self {
        Self { levels, ..self }
    }

    /// Sets a floor: one in `one_in` bytes is reserved for the levels below the first.
    #[must_use]
    pub const fn with_floor(self, one_in: u32) -> Self {
        Self { floor: Some(one_in), ..self }
    }

    /// Sets the idle time after which a flow is new.
    #[must_use]
    pub const fn with_renewal(self, after: Nanos) -> Self {
        Self { renewed_after: after, ..self }
    }

    /// Makes the threshold follow the traffic, so that one flow in 16 reaches it.
    ///
    /// Each flow that begins lowers the threshold by 1/512, and each flow that reaches it raises it
    /// by 1/32, so that it is stable when one in 16 does.
    ///
    /// The rule is ours, in the form of Robbins and Monro (*A Stochastic Approximation Method*,
    /// 1951). It needs no flow sizes, which are unknown, and no sorted record of them. The mean
    /// completion time of flows hardly depends on the threshold near the best one; for figures see
    /// `docs/disciplines/age.md`.
    #[must_use]
    pub const fn with_learned_threshold(self, range: ThresholdRange) -> Self {
        Self { learned: Some(range), ..self }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let most = Self::MAX_THRESHOLD.into();
        ConfigError::check_range("threshold in bytes", self.threshold.into(), 1, most)?;
        ConfigError::check_range("levels", self.levels.into(), 2, Self::MAX_LEVELS.into())?;
        if let Some(floor) = self.floor {
            let most = Self::MAX_FLOOR.into();
            ConfigError::check_range(
                "one in how many bytes is the floor's",
                floor.into(),
                2,
                most,
            )?;
        }
        let (renewal, longest) = (self.renewed_after.0, Self::MAX_RENEWAL.0);
        ConfigError::check_range("nanoseconds until a flow is new", renewal, 1, longest)?;
        if let Some(ThresholdRange { least, most: highest }) = self.learned {
            ConfigError::check_range("highest threshold in bytes", highest.into(), 1, most)?;
            let highest = highest.into();
            ConfigError::check_range("lowest threshold in bytes", least.into(), 1, highest)?;
            ConfigError::check_range("threshold", self.threshold.into(), least.into(), highest)?;
        }
        Ok(())
    }

    /// Returns the ticks after which an idle flow is new, rounded up.
    pub(super) const fn renewed_ticks(&self) -> u32 {
        ticks_of(self.renewed_after.0.saturating_add((1 << TICK_SHIFT) - 1))
    }
}

/// Returns two levels, with a threshold of 100,000 bytes.
impl Default for AgeParams {
    fn default() -> Self {
        Self::two_levels(100_000)
    }
}

/// The threshold, fixed or learned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learner {
    /// 2^16 times the threshold in bytes.
    scaled: u64,
    /// Bounds of `scaled`; equal if the threshold is fixed.
    least: u64,
    most: u64,
}

/// Fraction bits of the threshold, so that small steps of a small threshold are not lost.
const FRACTION: u32 = 16;
/// A flow that reaches the threshold raises it by one part in `2^STEP`.
const STEP: u32 = 5;
/// Target: one in `2^RARE` flows reaches the threshold.
const RARE: u32 = 4;

impl Learner {
    pub(super) const fn new(params: AgeParams) -> Self {
        let scaled = (params.threshold as u64) << FRACTION;
        let (least, most) = match params.learned {
            Some(range) => ((range.least as u64) << FRACTION, (range.most as u64) << FRACTION),
            None => (scaled, scaled),
        };
        Self { scaled, least, most }
    }

    /// Returns the threshold in bytes, at least 1.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_THRESHOLD")]
    pub(super) const fn bytes(&self) -> u32 {
        (self.scaled >> FRACTION) as u32
    }

    /// Lowers the threshold when a flow is served its first bytes.
    #[inline]
    pub(super) fn began(&mut self) {
        let lower = self.scaled.wrapping_sub(self.scaled >> (STEP + RARE));
        self.scaled = lower.max(self.least);
    }

    /// Raises the threshold when a flow reaches it.
    #[inline]
    pub(super) fn grew_old(&mut self) {
        let higher = self.scaled.wrapping_add(self.scaled >> STEP);
        self.scaled = higher.min(self.most);
    }

    /// Returns the level of a flow that has been served `attained` bytes: 0 below the threshold
    /// `a`, `n` from `2^(n−1)·a` on, and at most the last of `levels`.
    #[inline]
    pub(super) fn level_of(&self, attained: u32, levels: u32) -> u32 {
        let threshold = self.bytes();
        if attained < threshold {
            return 0;
        }
        // With attained in [2^n·a, 2^(n+1)·a) the numbers differ in length by n or n + 1 bits.
        let longer = threshold.leading_zeros().wrapping_sub(attained.leading_zeros());
        let reached = u64::from(threshold) << longer <= u64::from(attained);
        longer.wrapping_add(reached.into()).min(levels.wrapping_sub(1))
    }
}

/// [`crate::AgeDrr`] charges a floor with lengths that fit into 20 bits, times 10 bits.
const _: () = assert!(Packet::MAX_LEN <= 1 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the level is the number of thresholds reached. Method: every boundary of each level
    /// and its neighbours, for thresholds that are powers of two and others, compared with a count.
    #[test]
    fn the_level_is_the_number_of_thresholds_reached() {
        for threshold in [1, 2, 3, 1_000, 1_024, 1_025, 99_999, AgeParams::MAX_THRESHOLD] {
            for levels in [2, 3, 16] {
                let learner = Learner::new(AgeParams::two_levels(threshold).with_levels(levels));
                let ends = (0..levels - 1).map(|n| u64::from(threshold) << n);
                for end in ends.clone().chain([0, 1, u32::MAX.into()]) {
                    for attained in [end.saturating_sub(1), end, end + 1] {
                        let Ok(attained) = u32::try_from(attained) else { continue };
                        let reached = ends.clone().filter(|&end| end <= attained.into()).count();
                        assert_eq!(
                            learner.level_of(attained, levels),
                            reached as u32,
                            "{attained}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let good = AgeParams::default().with_floor(2);
        assert_eq!(good.check(), Ok(()));
        let range = |least, most| good.with_learned_threshold(ThresholdRange { least, most });
        let bad = [
            (AgeParams { threshold: 0, ..good }, "threshold in bytes"),
            (AgeParams { threshold: (1 << 30) + 1, ..good }, "threshold in bytes"),
            (good.with_levels(1), "levels"),
            (good.with_levels(17), "levels"),
            (good.with_floor(0), "one in how many bytes is the floor's"),
            (good.with_floor(1), "one in how many bytes is the floor's"),
            (good.with_floor(1_025), "one in how many bytes is the floor's"),
            (good.with_renewal(Nanos(0)), "nanoseconds until a flow is new"),
            (good.with_renewal(Nanos(3_600_000_000_001)), "nanoseconds until a flow is new"),
            (range(0, 200_000), "lowest threshold in bytes"),
            (range(2, 1), "lowest threshold in bytes"),
            (range(1, (1 << 30) + 1), "highest threshold in bytes"),
            (range(1, 99_999), "threshold"),
            (range(100_001, 200_000), "threshold"),
        ];
        for (params, name) in bad {
            let error = params.check();
            assert!(
                matches!(error, Err(ConfigError::OutOfRange { what, .. }) if what == name),
                "{params:?}: {error:?}"
            );
        }
        assert_eq!(range(1, 1 << 30).check(), Ok(()));
    }
}
