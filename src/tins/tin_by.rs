//! Selection of the header that determines a packet's class.

use flowhash::Parsed;

use super::Dscp;
use crate::keyword::by_word;

/// The header that determines the class of a packet, and so its tin.
///
/// | keyword | header | otherwise |
/// |---|---|---|
/// | `dscp`, the default and CAKE's | the code point of the outermost IP header | ARP is CS7, other packets are CS0 |
/// | `inner-dscp` | the code point of the innermost IP header that the parser read ([`Parsed::inner`]) | same as `dscp` |
/// | `priority` | the priority bits of the outermost VLAN tag (802.1Q), by [`Dscp::of_priority`] | same as `dscp` without a tag |
///
/// ```
/// use freeboard::flowhash::parse;
/// use freeboard::{Dscp, TinBy};
///
/// // A frame with priority 5 in its tag, and CS1 in its IP header.
/// let mut frame = [0; 60];
/// frame[12..20].copy_from_slice(&[0x81, 0, 5 << 5, 7, 0x08, 0, 0x45, 8 << 2]);
/// let parsed = parse::ethernet(&frame);
/// let by = |tin_by: TinBy| tin_by.dscp(&parsed, || parse::vlan_priority(&frame));
/// assert_eq!(
///     [TinBy::Dscp, TinBy::InnerDscp, TinBy::Priority].map(by),
///     [Dscp::CS1, Dscp::CS1, Dscp::EF]
/// );
/// assert_eq!("priority".parse(), Ok(TinBy::Priority));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TinBy {
    /// The outermost IP header.
    #[default]
    Dscp,
    /// The innermost IP header.
    InnerDscp,
    /// The outermost VLAN tag.
    Priority,
}

impl TinBy {
    /// All choices.
    pub const ALL: &'static [Self] = &[Self::Dscp, Self::InnerDscp, Self::Priority];

    /// Returns its keyword.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dscp => "dscp",
            Self::InnerDscp => "inner-dscp",
            Self::Priority => "priority",
        }
    }

    /// Returns the code point that determines the class of a packet. `priority` reads the bits of
    /// its tag ([`vlan_priority`](flowhash::parse::vlan_priority)) and is called only if they
    /// matter.
    #[inline]
    #[must_use]
    pub fn dscp(self, parsed: &Parsed, priority: impl FnOnce() -> Option<u8>) -> Dscp {
        let of_tag = match self {
            Self::Priority => priority(),
            Self::Dscp | Self::InnerDscp => None,
        };
        if let Some(priority) = of_tag {
            return Dscp::of_priority(priority);
        }
        let code = match (self, &parsed.inner) {
            (Self::InnerDscp, Some(inner)) => inner.ip.dscp(),
            _ => parsed.dscp(),
        };
        Dscp::new(code).unwrap_or(Dscp::CS0)
    }
}

by_word! {
    TinBy, word, Self::ALL.iter().copied(),
    "tins must be by one of dscp inner-dscp priority"
}
