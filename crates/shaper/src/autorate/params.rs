//! Validated parameters of an [`Autorate`](super::Autorate).

use core::fmt;

use sched_core::Nanos;

use crate::Rate;

/// Parameters of an [`Autorate`](super::Autorate): finite rates floor ≤ base ≤ ceiling, and a delay
/// threshold.
///
/// ```
/// use sched_core::Nanos;
/// use shaper::{AutorateError, AutorateParams, Rate};
///
/// let mbit = Rate::megabits_per_second;
/// let params = AutorateParams::new(mbit(5)?, mbit(20)?, mbit(60)?)?;
/// // LTE: the delay of probes varies by this much on an idle link.
/// let params = params.with_threshold(Nanos::from_millis(30))?;
/// assert_eq!(params.threshold(), Nanos::from_millis(30));
///
/// let error = AutorateParams::new(mbit(20)?, mbit(5)?, mbit(60)?).unwrap_err();
/// assert!(matches!(error, AutorateError::Order { .. }));
/// let error = AutorateParams::new(Rate::STOPPED, mbit(5)?, mbit(60)?).unwrap_err();
/// let text = "floor: stopped is not a finite rate (expected 1000 to 400000000000 bit/s)";
/// assert_eq!(error.to_string(), text);
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
    /// Time between decisions.
    pub const INTERVAL: Nanos = Nanos::from_millis(200);
    /// Time without a sample after which the rate is at most the base.
    pub const SILENCE: Nanos = Nanos::from_secs(2);
    /// Minimum threshold.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    /// Maximum threshold.
    pub const LONGEST: Nanos = Nanos::from_secs(60);

    /// Creates parameters from the rates of a link at its worst, usually, and at its best, with a
    /// threshold of 15 ms.
    ///
    /// Below the floor the queue moves to the modem, so set the floor to the link's worst rate.
    ///
    /// # Errors
    /// [`AutorateError::NoRate`] if a rate is stopped or unlimited, [`AutorateError::Order`] unless
    /// `floor ≤ base ≤ ceiling`.
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

    /// Sets the threshold: the excess of an interval's minimum delay over the baseline from which
    /// the rate is cut.
    ///
    /// It must exceed the variation of the delay on an idle link.
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

    /// Returns the minimum rate, in bits per second.
    #[must_use]
    pub const fn floor_bps(self) -> u64 {
        self.floor_bps
    }

    /// Returns the rate at the start and when little is sent.
    #[must_use]
    pub const fn base(self) -> Rate {
        self.base
    }

    /// Returns the [`base`](Self::base) rate in bits per second.
    #[must_use]
    pub const fn base_bps(self) -> u64 {
        self.base_bps
    }

    /// Returns the maximum rate, in bits per second.
    #[must_use]
    pub const fn ceiling_bps(self) -> u64 {
        self.ceiling_bps
    }

    /// Returns the delay threshold: see [`with_threshold`](Self::with_threshold).
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

/// Parameters that are not valid for an [`Autorate`](super::Autorate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutorateError {
    /// Rate that is stopped or unlimited; a finite rate is required.
    NoRate {
        /// Name of the parameter: `floor`, `base` or `ceiling`.
        name: &'static str,
        /// The given rate.
        rate: Rate,
    },
    /// Rates that are not `floor ≤ base ≤ ceiling`.
    Order {
        /// The given floor.
        floor: Rate,
        /// The given base.
        base: Rate,
        /// The given ceiling.
        ceiling: Rate,
    },
    /// Threshold outside [`AutorateParams::SHORTEST`] to [`AutorateParams::LONGEST`].
    Threshold(Nanos),
}

impl fmt::Display for AutorateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRate { name, rate } => write!(
                f,
                "{name}: {rate} is not a finite rate (expected {} to {} bit/s)",
                Rate::MIN_BITS_PER_SECOND,
                Rate::MAX_BITS_PER_SECOND
            ),
            Self::Order { floor, base, ceiling } => write!(
                f,
                "floor {floor}, base {base}, ceiling {ceiling}: out of order \
                 (expected floor ≤ base ≤ ceiling)"
            ),
            Self::Threshold(threshold) => write!(
                f,
                "threshold {} ns is out of range (expected {} to {} ns)",
                threshold.0,
                AutorateParams::SHORTEST.0,
                AutorateParams::LONGEST.0
            ),
        }
    }
}

impl core::error::Error for AutorateError {}
