//! Shares of tins.

use core::fmt;
use core::str::FromStr;

use super::TinPlanError;

/// A fraction of the link's rate, above 0 and up to 1.
///
/// Written as `1/4`, `25%`, `12.5%` or `1`. The shares of CAKE's modes `precedence` and `diffserv8`
/// are powers of 7/8, rounded down at each step: `7/8^2`, up to `7/8^7`.
///
/// ```
/// use freeboard::TinShare;
///
/// let share: TinShare = "12.5%".parse()?;
/// assert_eq!(Ok(share), TinShare::new(1, 8));
/// assert_eq!((share.to_string(), share.of(1_000_000)), ("1/8".into(), 125_000));
/// assert_eq!("7/8^2".parse::<TinShare>()?.fraction(), (49, 64));
/// assert!("1/+4".parse::<TinShare>().is_err() && "+1/4".parse::<TinShare>().is_err());
/// assert!("1.5".parse::<TinShare>().is_err() && "5/4".parse::<TinShare>().is_err());
/// # Ok::<(), freeboard::TinPlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TinShare {
    parts: u32,
    whole: u32,
    /// The exponent of a power of 7/8, used instead of the fraction where CAKE rounds down at each
    /// step.
    sevenths: u8,
}

impl TinShare {
    pub(super) const NONE: Self = Self { parts: 0, whole: 0, sevenths: 0 };
    /// The whole link.
    pub const ALL: Self = Self { parts: 1, whole: 1, sevenths: 0 };
    /// The largest denominator.
    pub const MAX_WHOLE: u32 = 1_000_000;

    /// Creates the share `parts / whole`, in lowest terms.
    ///
    /// # Errors
    /// [`TinPlanError::Share`] unless `1 ≤ parts ≤ whole ≤` [`MAX_WHOLE`](Self::MAX_WHOLE).
    #[expect(clippy::integer_division, reason = "by a divisor that is not zero, at construction")]
    pub const fn new(parts: u32, whole: u32) -> Result<Self, TinPlanError> {
        if parts == 0 || parts > whole || whole > Self::MAX_WHOLE {
            return Err(TinPlanError::Share { parts, whole });
        }
        let divisor = common_divisor(whole, parts);
        Ok(Self { parts: parts / divisor, whole: whole / divisor, sevenths: 0 })
    }

    /// Creates 7/8 to the power of `times`, up to [`MOST_TIMES`].
    pub(super) const fn sevenths(times: u8) -> Self {
        let (mut parts, mut whole, mut taken) = (1, 1, 0);
        while taken < times && taken < MOST_TIMES {
            (parts, whole, taken) = (parts * 7, whole * 8, taken + 1);
        }
        Self { parts, whole, sevenths: taken }
    }

    /// Returns numerator and denominator, in lowest terms.
    #[must_use]
    pub const fn fraction(self) -> (u32, u32) {
        (self.parts, self.whole)
    }

    /// Returns this share of `amount`, rounded down; an amount above 2^43 counts as 2^43.
    #[must_use]
    #[expect(clippy::integer_division, reason = "at construction, and when a rate is set")]
    pub const fn of(self, amount: u64) -> u64 {
        let mut amount = if amount < 1 << 43 { amount } else { 1 << 43 };
        let mut taken = 0;
        while taken < self.sevenths {
            (amount, taken) = (amount * 7 / 8, taken + 1);
        }
        if taken > 0 || self.whole == 0 {
            return amount;
        }
        // The product is below 2^43 · 10^6 < 2^63.
        amount * self.parts as u64 / self.whole as u64
    }

    /// Returns this share of 2^32, rounded up.
    pub(super) const fn of_2_32(self) -> u64 {
        let whole = if self.whole == 0 { 1 } else { self.whole };
        ((self.parts as u64) << 32).div_ceil(whole as u64)
    }
}

/// The highest power of 7/8: that of the last of eight tins.
const MOST_TIMES: u8 = 7;
/// The prefix of a power of 7/8.
const POWER: &str = "7/8^";

/// Returns the greatest common divisor (Euclid); 1 for a divisor of 0. At most 30 steps below 10^6.
const fn common_divisor(mut larger: u32, mut smaller: u32) -> u32 {
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    if larger == 0 { 1 } else { larger }
}

impl fmt::Display for TinShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.whole, self.sevenths) {
            (1, _) => write!(f, "{}", self.parts),
            (whole, 0) => write!(f, "{}/{whole}", self.parts),
            (_, times) => write!(f, "{POWER}{times}"),
        }
    }
}

impl FromStr for TinShare {
    type Err = TinPlanError;

    fn from_str(word: &str) -> Result<Self, TinPlanError> {
        if let Some(times) = word.strip_prefix(POWER) {
            let times = Some(times).filter(|digit| digit.len() == 1);
            let times = times.and_then(|digit| digit.parse().ok());
            let times = times.filter(|times| (1..=MOST_TIMES).contains(times));
            return times.map(Self::sevenths).ok_or(TinPlanError::NoShare);
        }
        // A slice of one `char` as pattern: the search for a single `char` indexes in a way that
        // can panic where it is not inlined.
        if let Some((parts, whole)) = word.split_once(['/']) {
            let number = |digits: &str| match digits.starts_with('+') {
                true => Err(TinPlanError::NoShare),
                false => digits.parse().map_err(|_| TinPlanError::NoShare),
            };
            return Self::new(number(parts)?, number(whole)?);
        }
        let (number, hundredfold) = match word.strip_suffix('%') {
            Some(number) => (number, 100),
            None => (word, 1),
        };
        let (whole, fraction) = number.split_once(['.']).unwrap_or((number, ""));
        if whole.is_empty() || number.ends_with('.') || fraction.len() > 6 {
            return Err(TinPlanError::NoShare);
        }
        let digits = whole.bytes().chain(fraction.bytes());
        let parts = digits.clone().try_fold(0_u32, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
            sum.checked_mul(10)?.checked_add(digit.into())
        });
        let parts = parts.ok_or(TinPlanError::NoShare)?;
        let of = fraction.bytes().try_fold(hundredfold, |sum: u32, _| sum.checked_mul(10));
        Self::reduced(parts, of.ok_or(TinPlanError::NoShare)?)
    }
}

impl TinShare {
    /// Creates a share whose denominator is in range once it is in lowest terms.
    #[expect(clippy::integer_division, reason = "by a divisor that is not zero, at construction")]
    fn reduced(parts: u32, whole: u32) -> Result<Self, TinPlanError> {
        let divisor = common_divisor(whole, parts);
        Self::new(parts / divisor, whole / divisor)
    }
}
