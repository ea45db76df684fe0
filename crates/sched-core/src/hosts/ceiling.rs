//! A ceiling: the most that a host is sent.

use crate::ConfigError;
use crate::hosts::token_bucket::{MAX_BITS_PER_SECOND, MIN_BITS_PER_SECOND, TokenRate};

/// The most that a host is sent: a rate, and the burst that it may be sent at once after it was sent less.
///
/// ```
/// use sched_core::{Ceiling, ConfigError};
///
/// let ceiling = Ceiling::new(20_000_000, 30_000)?;
/// assert_eq!((ceiling.bits_per_second(), ceiling.burst()), (20_000_000, 30_000));
/// assert!(Ceiling::new(0, 30_000).is_err());
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ceiling {
    rate: TokenRate,
    burst: u32,
}

impl Ceiling {
    /// The slowest rate that can be set, in bits per second.
    pub const MIN_BITS_PER_SECOND: u64 = MIN_BITS_PER_SECOND;
    /// The fastest rate that can be set, in bits per second.
    pub const MAX_BITS_PER_SECOND: u64 = MAX_BITS_PER_SECOND;

    /// At most `bits_per_second` on the wire, and `burst` bytes at once. The one division is here.
    ///
    /// A burst of the longest packet paces packets exactly, and every delay of the caller is lost. A caller
    /// that comes up to `t` late needs `t` times the rate more.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `bits_per_second` is in
    /// [`MIN_BITS_PER_SECOND`](Self::MIN_BITS_PER_SECOND)`..=`[`MAX_BITS_PER_SECOND`](Self::MAX_BITS_PER_SECOND)
    /// and `burst` is not 0.
    pub fn new(bits_per_second: u64, burst: u32) -> Result<Self, ConfigError> {
        let rate = TokenRate::new("ceiling in bits per second", bits_per_second)?;
        ConfigError::check_range("burst in bytes", burst.into(), 1, u32::MAX.into())?;
        Ok(Self { rate, burst })
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

    /// What the bucket may lack before a packet, if none takes more than `longest` bytes, in nanoseconds;
    /// rounded down.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn allowed(&self, longest: u32) -> u64 {
        self.rate.time_of(self.burst.saturating_sub(longest), 0).0
    }
}
