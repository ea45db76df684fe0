//! What is around a packet inside the link: tunnels and tags.

use crate::OverheadError;

/// A layer around a packet: [`Overhead::carrying`](crate::Overhead::carrying) puts it inside a
/// link.
///
/// `inside` bytes are added to the packet; the sum is raised to `least`, and to a multiple of
/// `multiple`; `outside` bytes follow. A length below zero counts as zero.
///
/// The constants are tunnels over IPv4 unless the name says otherwise. What a tunnel adds depends
/// on its options: the comment says what is counted.
///
/// ```
/// use shaper::{Layer, Overhead, OverheadError};
///
/// // A tunnel that pads to 8 bytes behind a trailer of 2, with 40 bytes of headers.
/// let tunnel = Layer { inside: 2, multiple: 8, ..Layer::header(40) };
/// assert_eq!(Overhead::RAW.carrying(tunnel)?.wire_len(100), 104 + 40);
/// let wrong = Layer { multiple: 12, ..tunnel };
/// assert_eq!(Overhead::RAW.carrying(wrong), Err(OverheadError::Multiple(12)));
/// # Ok::<(), OverheadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layer {
    /// Bytes that are padded with the packet: `0..=`[`Layer::MAX_BYTES`].
    pub inside: u32,
    /// The fewest bytes, before padding: `0..=`[`Layer::MAX_BYTES`].
    pub least: u32,
    /// What the length is padded to a multiple of: a power of two, `1..=`[`Layer::MAX_MULTIPLE`].
    pub multiple: u32,
    /// Bytes outside of what is padded: `0..=`[`Layer::MAX_BYTES`].
    pub outside: u32,
}

impl Layer {
    /// The most bytes that a layer adds inside or outside, and the largest minimum.
    pub const MAX_BYTES: u32 = 256;
    /// The largest block that a layer pads to.
    pub const MAX_MULTIPLE: u32 = 128;

    /// Nothing.
    pub const NONE: Self = Self { inside: 0, least: 0, multiple: 1, outside: 0 };
    /// A VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self::header(4);
    /// PPPoE and PPP (RFC 2516): 6 and 2.
    pub const PPPOE: Self = Self::header(8);
    /// An MPLS label (RFC 3032).
    pub const MPLS: Self = Self::header(4);
    /// IPv4 in IPv4 (RFC 2003), or IPv6 in IPv4 (RFC 4213): 20.
    pub const IN_IPV4: Self = Self::header(20);
    /// IPv4 in IPv6 (RFC 2473), as in DS-Lite and MAP-E: 40.
    pub const IN_IPV6: Self = Self::header(40);
    /// GRE (RFC 2784) without key and checksum: 4, and IPv4 20.
    pub const GRE: Self = Self::header(24);
    /// As [`Layer::GRE`], over IPv6.
    pub const GRE6: Self = Self::header(44);
    /// VXLAN (RFC 7348): the Ethernet header inside 14, VXLAN 8, UDP 8, IPv4 20.
    pub const VXLAN: Self = Self::header(50);
    /// As [`Layer::VXLAN`], over IPv6.
    pub const VXLAN6: Self = Self::header(70);
    /// GTP-U without extensions (3GPP TS 29.281): 8, UDP 8, IPv4 20.
    pub const GTP: Self = Self::header(36);
    /// WireGuard (its paper, §5.4.6): padded to 16; 16 of header and 16 of tag, UDP 8, IPv4 20. A
    /// packet that fills the tunnel's MTU is charged up to 15 bytes of padding that an
    /// implementation may leave out.
    pub const WIREGUARD: Self = Self { multiple: 16, ..Self::header(60) };
    /// As [`Layer::WIREGUARD`], over IPv6.
    pub const WIREGUARD6: Self = Self { multiple: 16, ..Self::header(80) };
    /// ESP in tunnel mode with AES-GCM (RFC 4303, RFC 4106): a trailer of 2, padded to 4; header 8,
    /// vector 8, tag 16, IPv4 20.
    pub const ESP: Self = Self { inside: 2, multiple: 4, ..Self::header(52) };
    /// As [`Layer::ESP`], over IPv6.
    pub const ESP6: Self = Self { inside: 2, multiple: 4, ..Self::header(72) };
    /// As [`Layer::ESP`], in UDP (RFC 3948).
    pub const ESP_UDP: Self = Self { inside: 2, multiple: 4, ..Self::header(60) };

    /// A layer that adds `bytes`, and neither pads nor has a minimum.
    #[must_use]
    pub const fn header(bytes: u32) -> Self {
        Self { outside: bytes, ..Self::NONE }
    }

    /// The layer that one word names.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Some(match word {
            "pppoe" => Self::PPPOE,
            "mpls" => Self::MPLS,
            "ipip" | "6in4" => Self::IN_IPV4,
            "4in6" | "ds-lite" => Self::IN_IPV6,
            "gre" => Self::GRE,
            "gre6" => Self::GRE6,
            "vxlan" => Self::VXLAN,
            "vxlan6" => Self::VXLAN6,
            "gtp" => Self::GTP,
            "wireguard" => Self::WIREGUARD,
            "wireguard6" => Self::WIREGUARD6,
            "esp" => Self::ESP,
            "esp6" => Self::ESP6,
            "esp-udp" => Self::ESP_UDP,
            _ => return None,
        })
    }

    /// Whether the layer does more than to add bytes.
    pub(crate) const fn pads(self) -> bool {
        self.multiple > 1 || self.least > 0
    }

    /// Which figure is out of range.
    pub(crate) const fn error(self) -> Option<OverheadError> {
        if self.inside > Self::MAX_BYTES {
            return Some(OverheadError::Layer(self.inside));
        }
        if self.outside > Self::MAX_BYTES {
            return Some(OverheadError::Layer(self.outside));
        }
        if self.least > Self::MAX_BYTES {
            return Some(OverheadError::Least(self.least));
        }
        if !self.multiple.is_power_of_two() || self.multiple > Self::MAX_MULTIPLE {
            return Some(OverheadError::Multiple(self.multiple));
        }
        None
    }
}

/// What is done to a length before it comes to the link, or to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Step {
    /// `0..=`[`Layer::MAX_BYTES`].
    add: u16,
    least: u16,
    /// One less than what is padded to a multiple of.
    mask: u8,
    is_used: bool,
}

impl Step {
    pub(crate) const UNUSED: Self = Self { add: 0, least: 0, mask: 0, is_used: false };

    /// What is inside of `layer`, which is in range.
    #[allow(clippy::cast_possible_truncation, reason = "up to 256, and below 128")]
    pub(crate) const fn of(layer: Layer) -> Self {
        let mask = layer.multiple.saturating_sub(1) as u8;
        Self { add: layer.inside as u16, least: layer.least as u16, mask, is_used: true }
    }

    pub(crate) const fn is_used(self) -> bool {
        self.is_used
    }

    /// What it does, as a layer.
    pub(crate) const fn layer(self) -> Layer {
        let multiple = (self.mask as u32).saturating_add(1);
        Layer { inside: self.add as u32, least: self.least as u32, multiple, outside: 0 }
    }

    /// This step, with `bytes` more, up to 512, before it.
    pub(crate) const fn with_more(self, bytes: u32) -> Result<Self, OverheadError> {
        let add = (self.add as u32).saturating_add(bytes);
        if add > Layer::MAX_BYTES {
            return Err(OverheadError::Layer(add));
        }
        #[allow(clippy::cast_possible_truncation, reason = "up to 256")]
        Ok(Self { add: add as u16, ..self })
    }

    /// The length behind this step.
    #[inline]
    pub(crate) const fn padded(&self, len: i64) -> i64 {
        if !self.is_used {
            return len;
        }
        let (sum, least, mask) = (len + self.add as i64, self.least as i64, self.mask as i64);
        ((if sum < least { least } else { sum }) + mask) & !mask
    }
}
