//! Differentiated services code points, by number and by name.

use core::fmt;
use core::str::FromStr;

use crate::UnknownKeyword;

/// A differentiated services code point (RFC 2474), 0 to 63: the upper six bits of a packet's
/// traffic class.
///
/// Names are those of IANA's registry: `CS0` to `CS7`, `AF11` to `AF43`, `EF`, `VA` (RFC 5865),
/// `LE` (RFC 8622) and `NQB` (RFC 9956), in upper or lower case; `DF` and `BE` are `CS0`. Numbers
/// are also parsed: `46` or `0x2e`.
///
/// ```
/// use freeboard::Dscp;
///
/// assert_eq!("ef".parse(), Ok(Dscp::EF));
/// assert_eq!("0x2e".parse(), Ok(Dscp::EF));
/// assert_eq!(Dscp::EF.get(), 46);
/// assert_eq!(
///     (Dscp::EF.to_string(), Dscp::new(43).map(|dscp| dscp.to_string())),
///     ("EF".into(), Some("43".into()))
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dscp(u8);

impl Dscp {
    /// The default: best effort.
    pub const CS0: Self = Self(0);
    /// Lower effort (RFC 8622): yields to all other traffic.
    pub const LE: Self = Self(1);
    /// Class selector 1, which older equipment treats as lower effort.
    pub const CS1: Self = Self(8);
    /// Class selector 2: operation and management (RFC 4594).
    pub const CS2: Self = Self(16);
    /// Class selector 3: broadcast video.
    pub const CS3: Self = Self(24);
    /// Class selector 4: interactive games and conferences.
    pub const CS4: Self = Self(32);
    /// Class selector 5: signalling.
    pub const CS5: Self = Self(40);
    /// Admitted voice (RFC 5865).
    pub const VA: Self = Self(44);
    /// Non-queue-building (RFC 9956): declared sparse by its sender, with the priority of the
    /// default.
    pub const NQB: Self = Self(45);
    /// Expedited forwarding (RFC 3246): voice.
    pub const EF: Self = Self(46);
    /// Class selector 6: network control.
    pub const CS6: Self = Self(48);
    /// Class selector 7: network control, of the link.
    pub const CS7: Self = Self(56);

    /// The code point for each 802.1Q priority, 0 to 7. The traffic types are named in 802.1Q,
    /// their code points in RFC 4594.
    ///
    /// | priority | traffic | code point |
    /// |--:|---|---|
    /// | 0 | best effort | CS0 |
    /// | 1 | background | CS1 |
    /// | 2 | excellent effort | AF21 |
    /// | 3 | critical applications | AF31 |
    /// | 4 | video | AF41 |
    /// | 5 | voice | EF |
    /// | 6 | control between networks | CS6 |
    /// | 7 | network control | CS7 |
    pub const OF_PRIORITIES: [Self; 8] =
        [Self::CS0, Self::CS1, Self(18), Self(26), Self(34), Self::EF, Self::CS6, Self::CS7];

    /// Returns the code point for an 802.1Q [priority](Self::OF_PRIORITIES). A number above 7
    /// counts as 0.
    #[inline]
    #[must_use]
    pub fn of_priority(priority: u8) -> Self {
        Self::OF_PRIORITIES.get(usize::from(priority)).copied().unwrap_or(Self::CS0)
    }

    /// Names with their code points. If a code point has two names, the first is printed.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("CS0", Self::CS0),
        ("DF", Self::CS0),
        ("BE", Self::CS0),
        ("LE", Self::LE),
        ("CS1", Self::CS1),
        ("AF11", Self(10)),
        ("AF12", Self(12)),
        ("AF13", Self(14)),
        ("CS2", Self::CS2),
        ("AF21", Self(18)),
        ("AF22", Self(20)),
        ("AF23", Self(22)),
        ("CS3", Self::CS3),
        ("AF31", Self(26)),
        ("AF32", Self(28)),
        ("AF33", Self(30)),
        ("CS4", Self::CS4),
        ("AF41", Self(34)),
        ("AF42", Self(36)),
        ("AF43", Self(38)),
        ("CS5", Self::CS5),
        ("VA", Self::VA),
        ("NQB", Self::NQB),
        ("EF", Self::EF),
        ("CS6", Self::CS6),
        ("CS7", Self::CS7),
    ];

    /// The number of code points.
    pub const COUNT: usize = 64;

    /// Creates the code point of this number; `None` above 63.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Self(number)) } else { None }
    }

    /// Returns its number, 0 to 63.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns all code points, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..64).map(Self)
    }

    /// Returns its bit in a set of code points.
    pub(super) const fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, dscp)| dscp == self) {
            Some((name, _)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

const UNKNOWN: UnknownKeyword = UnknownKeyword::expecting(
    "a code point must be 0 to 63, CS0 to CS7, AF11 to AF43, EF, VA, LE, NQB, DF or \
     BE",
);

impl FromStr for Dscp {
    type Err = UnknownKeyword;

    fn from_str(word: &str) -> Result<Self, UnknownKeyword> {
        let named = Self::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        if let Some(&(_, dscp)) = named {
            return Ok(dscp);
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
        let number = match word.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16),
            None => word.parse(),
        };
        number.ok().filter(|_| is_number).and_then(Self::new).ok_or(UNKNOWN)
    }
}
