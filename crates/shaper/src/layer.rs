//! Encapsulation of a packet inside the link: tunnels and tags.

use crate::OverheadError;

/// A layer of encapsulation around a packet, such as a tunnel or a tag.
///
/// [`Overhead::carrying`](crate::Overhead::carrying) adds it to a link. The layer adds `inside`
/// bytes to the packet, raises the sum to at least `least`, rounds it up to a multiple of
/// `multiple`, and adds `outside` bytes. A length below zero counts as zero.
///
/// The constants are tunnels over IPv4 unless the name says otherwise. The size of a tunnel header
/// depends on its options; each constant lists the bytes it counts.
///
/// ```
/// use shaper::{Layer, Overhead, OverheadError};
///
/// // A tunnel that pads to 8 bytes after a trailer of 2, with 40 bytes of headers.
/// let tunnel = Layer { inside: 2, multiple: 8, ..Layer::header(40) };
/// assert_eq!(Overhead::RAW.carrying(tunnel)?.wire_len(100), 104 + 40);
/// let wrong = Layer { multiple: 12, ..tunnel };
/// assert_eq!(Overhead::RAW.carrying(wrong), Err(OverheadError::Multiple(12)));
/// # Ok::<(), OverheadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layer {
    /// Bytes added before padding: `0..=`[`Layer::MAX_BYTES`].
    pub inside: u32,
    /// Minimum length before padding: `0..=`[`Layer::MAX_BYTES`].
    pub least: u32,
    /// Block size that the length is padded to: a power of two, `1..=`[`Layer::MAX_MULTIPLE`].
    pub multiple: u32,
    /// Bytes added after padding: `0..=`[`Layer::MAX_BYTES`].
    pub outside: u32,
}

impl Layer {
    /// Maximum of `inside`, of `outside` and of `least`, in bytes.
    pub const MAX_BYTES: u32 = 256;
    /// Maximum block size for padding, in bytes.
    pub const MAX_MULTIPLE: u32 = 128;

    /// No encapsulation.
    pub const NONE: Self = Self { inside: 0, least: 0, multiple: 1, outside: 0 };
    /// VLAN tag (IEEE 802.1Q): 4 bytes.
    pub const VLAN: Self = Self::header(4);
    /// PPPoE and PPP (RFC 2516): 6 + 2 bytes.
    pub const PPPOE: Self = Self::header(8);
    /// MPLS label (RFC 3032): 4 bytes.
    pub const MPLS: Self = Self::header(4);
    /// IPv4 in IPv4 (RFC 2003), or IPv6 in IPv4 (RFC 4213): 20 bytes.
    pub const IN_IPV4: Self = Self::header(20);
    /// IPv4 in IPv6 (RFC 2473), used by DS-Lite and MAP-E: 40 bytes.
    pub const IN_IPV6: Self = Self::header(40);
    /// GRE (RFC 2784) without key and checksum: 4 bytes, and IPv4 20.
    pub const GRE: Self = Self::header(24);
    /// GRE over IPv6, otherwise like [`Layer::GRE`].
    pub const GRE6: Self = Self::header(44);
    /// VXLAN (RFC 7348): inner Ethernet header 14 bytes, VXLAN 8, UDP 8, IPv4 20.
    pub const VXLAN: Self = Self::header(50);
    /// VXLAN over IPv6, otherwise like [`Layer::VXLAN`].
    pub const VXLAN6: Self = Self::header(70);
    /// GTP-U without extensions (3GPP TS 29.281): 8 bytes, UDP 8, IPv4 20.
    pub const GTP: Self = Self::header(36);
    /// WireGuard (WireGuard paper, §5.4.6): padding to 16, header 16 bytes, tag 16, UDP 8, IPv4 20.
    ///
    /// For a packet that fills the tunnel's MTU this counts up to 15 bytes of padding that an
    /// implementation may omit.
    pub const WIREGUARD: Self = Self { multiple: 16, ..Self::header(60) };
    /// WireGuard over IPv6, otherwise like [`Layer::WIREGUARD`].
    pub const WIREGUARD6: Self = Self { multiple: 16, ..Self::header(80) };
    /// ESP in tunnel mode with AES-GCM (RFC 4303, RFC 4106): trailer 2 bytes, padding to 4, header
    /// 8, initialization vector 8, tag 16, IPv4 20.
    pub const ESP: Self = Self { inside: 2, multiple: 4, ..Self::header(52) };
    /// ESP over IPv6, otherwise like [`Layer::ESP`].
    pub const ESP6: Self = Self { inside: 2, multiple: 4, ..Self::header(72) };
    /// ESP in UDP (RFC 3948), otherwise like [`Layer::ESP`].
    pub const ESP_UDP: Self = Self { inside: 2, multiple: 4, ..Self::header(60) };

    /// Creates a layer that adds `bytes`, without padding or a minimum.
    #[must_use]
    pub const fn header(bytes: u32) -> Self {
        Self { outside: bytes, ..Self::NONE }
    }

    /// Returns the layer that a keyword names.
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

    /// Returns true if the layer pads or has a minimum.
    pub(crate) const fn pads(self) -> bool {
        self.multiple > 1 || self.least > 0
    }

    /// Returns the first field that is out of range, if any.
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

/// Change of a length by one layer, before the next step or the link's overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Step {
    /// `0..=`[`Layer::MAX_BYTES`].
    add: u16,
    least: u16,
    /// Block size − 1.
    mask: u8,
    is_used: bool,
}

impl Step {
    pub(crate) const UNUSED: Self = Self { add: 0, least: 0, mask: 0, is_used: false };

    /// Creates the step for `layer`, which must be in range; `outside` is not part of it.
    #[allow(clippy::cast_possible_truncation, reason = "up to 256, and below 128")]
    pub(crate) const fn of(layer: Layer) -> Self {
        let mask = layer.multiple.saturating_sub(1) as u8;
        Self { add: layer.inside as u16, least: layer.least as u16, mask, is_used: true }
    }

    pub(crate) const fn is_used(self) -> bool {
        self.is_used
    }

    /// Returns the layer that has this effect, with `outside` 0.
    pub(crate) const fn layer(self) -> Layer {
        let multiple = (self.mask as u32).saturating_add(1);
        Layer { inside: self.add as u32, least: self.least as u32, multiple, outside: 0 }
    }

    /// Returns the step with `bytes` (at most 512) added before it.
    pub(crate) const fn with_more(self, bytes: u32) -> Result<Self, OverheadError> {
        let add = (self.add as u32).saturating_add(bytes);
        if add > Layer::MAX_BYTES {
            return Err(OverheadError::Layer(add));
        }
        #[allow(clippy::cast_possible_truncation, reason = "up to 256")]
        Ok(Self { add: add as u16, ..self })
    }

    /// Returns the length after this step.
    #[inline]
    pub(crate) const fn padded(&self, len: i64) -> i64 {
        if !self.is_used {
            return len;
        }
        let (sum, least, mask) = (len + self.add as i64, self.least as i64, self.mask as i64);
        ((if sum < least { least } else { sum }) + mask) & !mask
    }
}
