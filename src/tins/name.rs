//! Names of tins.

use core::fmt;
use core::str::FromStr;

use super::TinPlanError;

/// The name of a tin: 1 to 15 ASCII letters, digits, `-` and `_`, beginning with a letter.
///
/// ```
/// use freeboard::TinName;
///
/// let name = TinName::new("voice")?;
/// assert_eq!(name.as_str(), "voice");
/// assert!(TinName::new("no spaces").is_err() && TinName::new("").is_err());
/// # Ok::<(), freeboard::TinPlanError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TinName {
    /// Padded with zeros.
    bytes: [u8; Self::MAX_LEN],
    len: u8,
}

impl TinName {
    /// The maximum length in bytes.
    pub const MAX_LEN: usize = 15;
    /// No name.
    pub(crate) const NONE: Self = Self { bytes: [0; Self::MAX_LEN], len: 0 };

    /// Creates a name.
    ///
    /// # Errors
    /// [`TinPlanError::Name`] for another length, or another byte.
    #[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "below MAX_LEN")]
    pub const fn new(name: &str) -> Result<Self, TinPlanError> {
        let mut rest = name.as_bytes();
        let (mut bytes, mut len) = ([0; Self::MAX_LEN], 0);
        while let [byte, behind @ ..] = rest {
            let is_fit = byte.is_ascii_alphabetic()
                || (len > 0 && (byte.is_ascii_digit() || *byte == b'-' || *byte == b'_'));
            if !is_fit || len >= Self::MAX_LEN {
                return Err(TinPlanError::Name);
            }
            bytes[len] = *byte;
            (len, rest) = (len + 1, behind);
        }
        if len == 0 { Err(TinPlanError::Name) } else { Ok(Self { bytes, len: len as u8 }) }
    }

    /// Creates a name known at compile time.
    pub(super) const fn known(name: &str) -> Self {
        match Self::new(name) {
            Ok(name) => name,
            Err(_) => Self::NONE,
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(name).unwrap_or_default()
    }
}

impl fmt::Debug for TinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for TinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for TinName {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}

impl FromStr for TinName {
    type Err = TinPlanError;

    fn from_str(name: &str) -> Result<Self, TinPlanError> {
        Self::new(name)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for TinName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
