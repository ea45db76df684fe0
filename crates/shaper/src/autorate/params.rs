//! The settings of an [`Autorate`](super::Autorate), checked.

use core::fmt;

use sched_core::Nanos;

use crate::Rate;

/// Settings of an [`Autorate`](super::Autorate): floor ≤ base ≤ ceiling, all finite; and a
/// threshold of delay.
///
/// ```
/// use sched_core::Nanos;
/// use shaper::{AutorateError, AutorateParams, Rate};
///
/// let mbit = Rate::megabits_per_second;
/// let params = AutorateParams::new(mbit(5)?, mbit(20)?, mbit(60)?)?;
/// // LTE: the delay of a probe varies by this much on an idle line.
/// let params = params.with_threshold(Nanos::from_millis(30))?;
/// assert_eq!(params.threshold(), Nanos::from_millis(30));
///
/// let error = AutorateParams::new(mbit(20)?, mbit(5)?, mbit(60)?).unwrap_err();
/// assert!(matches!(error, AutorateError::Order { .. }));
/// let error = AutorateParams::new(Rate::STOPPED, mbit(5)?, mbit(60)?).unwrap_err();
/// assert_eq!(error.to_string(), "floor of stopped is no finite rate: accepted: 1000 to 400000000000 bit/s");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AutorateParams {
    /// `floor_bps ≤ base_bps ≤ ceiling_bps`, each a finite rate.
    floor_bps: u64,
    base_bps: u64,
    ceiling_bps: u64,
    base: Rate,
    threshold: Nanos,
}

impl AutorateParams {
    /// The time between decisions.
    pub const INTERVAL: Nanos = Nanos::from_millis(200);
    /// The time without a sample after which the rate is at most the base.
    pub const SILENCE: Nanos = Nanos::from_secs(2);
    /// The shortest threshold.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    /// The longest threshold.
    pub const LONGEST: Nanos = Nanos::from_secs(60);

    /// Settings for a line of `floor` at the worst, `base` usually and `ceiling` at best, and a
    /// threshold of 15 ms.
    ///
    /// A line below the floor has its queue in the modem: the floor is to be what the line has at
    /// its worst.
    ///
    /// # Errors
    /// [`AutorateError::NoRate`] for a rate that is stopped or unlimited, [`AutorateError::Order`]
    /// unless `floor ≤ base ≤ ceiling`.
    pub const fn new(floor: Rate, base: Rate, ceiling: Rate) -> Result<Self, AutorateError> {
        let [Some(floor_bps), Some(base_bps), Some(ceiling_bps)] =
            [finite(floor), finite(base), finite(ceiling)]
        else {
            let (name, rate) = match (finite(floor), finite(base)) {
                (None, _) => ("floor", floor),
                (_, None) => ("base", base),
                _ => ("ceiling", ceiling),
            };
            return Err(AutorateError::NoRate { name, rate });
        };
        if floor_bps > base_bps || base_bps > ceiling_bps {
            return Err(AutorateError::Order { floor, base, ceiling });
        }
        Ok(Self { floor_bps, base_bps, ceiling_bps, base, threshold: Nanos::from_millis(15) })
    }

    /// The same with another threshold: how far above the baseline the least delay of an interval
    /// may be. It is to be more than what delays vary by on an idle line.
    ///
    /// # Errors
    /// [`AutorateError::Threshold`] outside [`SHORTEST`](Self::SHORTEST) to
    /// [`LONGEST`](Self::LONGEST).
    pub const fn with_threshold(self, threshold: Nanos) -> Result<Self, AutorateError> {
        if threshold.0 < Self::SHORTEST.0 || threshold.0 > Self::LONGEST.0 {
            return Err(AutorateError::Threshold(threshold));
        }
        Ok(Self { threshold, ..self })
    }

    /// The rate that is never undercut, in bits per second.
    #[must_use]
    pub const fn floor_bps(self) -> u64 {
        self.floor_bps
    }

    /// The rate at the beginning and when little is sent.
    #[must_use]
    pub const fn base(self) -> Rate {
        self.base
    }

    /// [`base`](Self::base) in bits per second.
    #[must_use]
    pub const fn base_bps(self) -> u64 {
        self.base_bps
    }

    /// The rate that is never exceeded, in bits per second.
    #[must_use]
    pub const fn ceiling_bps(self) -> u64 {
        self.ceiling_bps
    }

    /// See [`with_threshold`](Self::with_threshold).
    #[must_use]
    pub const fn threshold(self) -> Nanos {
        self.threshold
    }
}

const fn finite(rate: Rate) -> Option<u64> {
    match rate.as_bits_per_second() {
        None | Some(0) => None,
        bps => bps,
    }
}

/// Settings that no [`Autorate`](super::Autorate) can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutorateError {
    /// A rate that is stopped or unlimited: nothing could follow from it.
    NoRate {
        /// Which: `floor`, `base` or `ceiling`.
        name: &'static str,
        /// What was asked for.
        rate: Rate,
    },
    /// Not `floor ≤ base ≤ ceiling`.
    Order {
        /// What was asked for.
        floor: Rate,
        /// What was asked for.
        base: Rate,
        /// What was asked for.
        ceiling: Rate,
    },
    /// A threshold outside [`AutorateParams::SHORTEST`] to [`AutorateParams::LONGEST`].
    Threshold(Nanos),
}

impl fmt::Display for AutorateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRate { name, rate } => write!(
                f,
                "{name} of {rate} is no finite rate: accepted: {} to {} bit/s",
                Rate::MIN_BITS_PER_SECOND,
                Rate::MAX_BITS_PER_SECOND
            ),
            Self::Order { floor, base, ceiling } => write!(
                f,
                "floor of {floor}, base of {base}, ceiling of {ceiling}: accepted: floor ≤ base ≤ ceiling"
            ),
            Self::Threshold(threshold) => write!(
                f,
                "threshold of {} ns: accepted: {} to {} ns",
                threshold.0,
                AutorateParams::SHORTEST.0,
                AutorateParams::LONGEST.0
            ),
        }
    }
}

impl core::error::Error for AutorateError {}
