//! Configuration of a tin.

use crate::{ConfigError, FiniteRate};

/// Share of a tin of the link: a rate up to which it has priority over the tins below, and a weight
/// for links where no tin has a rate.
///
/// ```
/// use sched_core::TinConfig;
///
/// let voice = TinConfig::by_weight(256).with_rate(5_000_000);
/// assert_eq!(voice.bits_per_second, Some(5_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TinConfig {
    /// The threshold rate on the wire, in the range of [`Rate`](crate::Rate::bits_per_second). A
    /// tin without one is always within its share, if other tins have a rate.
    pub bits_per_second: Option<u64>,
    /// The weight relative to other tins if no tin has a rate, from 1 to
    /// [`TinConfig::MAX_WEIGHT`]. No effect otherwise.
    pub weight: u32,
}

impl TinConfig {
    /// Maximum number of tins: 8, or 1 without the feature `tins`.
    pub const MAX_TINS: u32 = if cfg!(feature = "tins") { 8 } else { 1 };
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 65_535;

    /// Creates a configuration with a weight and no rate.
    #[must_use]
    pub const fn by_weight(weight: u32) -> Self {
        Self { bits_per_second: None, weight }
    }

    /// Sets the threshold rate in bits per second.
    #[must_use]
    pub const fn with_rate(self, bits_per_second: u64) -> Self {
        Self { bits_per_second: Some(bits_per_second), ..self }
    }

    /// Checks the configuration, as [`TinChoice::set_tins`](super::TinChoice::set_tins) does.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for a rate or a weight outside its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check_range(
            "weight of a tin",
            self.weight.into(),
            1,
            Self::MAX_WEIGHT.into(),
        )?;
        self.bits_per_second.map_or(Ok(()), |bits| FiniteRate::new(bits).map(|_| ()))
    }
}
