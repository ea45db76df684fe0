//! Per-packet overhead of a link: headers, minimum size, ATM cells and PTM code words.
//!
//! A shaper that counts fewer bytes than the modem sends fills the modem's buffer and loses control
//! of the delay; on ATM one more byte can cost a cell of 53. The length on the wire is computed in
//! this order (CAKE §III-A.1): the [layers](Overhead::carrying) inside the link, such as a tunnel
//! that pads; the link's [`overhead`](Overhead::overhead); the minimum [`mpu`](Overhead::mpu); the
//! link's [`Framing`].
//!
//! Cost: a few additions per packet if the link has no framing. Cells and code words cost one
//! division by a constant, which is a multiplication on every processor with a 32 × 32 → 64 bit
//! multiplier. A layer that pads costs an addition, a comparison and a mask.

use core::fmt;

use crate::Layer;
use crate::layer::Step;

/// Framing of packets on the link, such as ATM cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Framing {
    /// No framing: Ethernet, DOCSIS, radio.
    #[default]
    None,
    /// ATM cells with AAL5 (ADSL): a cell of 53 bytes for every 48 bytes or part of it.
    Atm,
    /// PTM with 64b/65b coding (VDSL2) as deployed shapers count it: one byte for every 64 bytes or
    /// part of it, `x + ⌈x/64⌉`.
    Ptm,
    /// PTM as in CAKE's Algorithm 1 (line 7), `⌈x/64⌉ · 65`: the last code word counts in full, up
    /// to 63 bytes more than [`Framing::Ptm`].
    PtmPaper,
    /// GEM of GPON (ITU-T G.984.3): a header of 5 bytes. The second header of a frame that is split
    /// at the end of a burst does not count.
    Gem,
    /// XGEM of XG-PON and XGS-PON (ITU-T G.987.3, G.9807.1): length rounded up to a multiple of 4
    /// bytes, and a header of 8.
    Xgem,
}

impl Framing {
    /// Returns the bytes on the wire for `len` bytes after overhead; saturates at `u32::MAX`.
    #[must_use]
    pub const fn wire_len(self, len: u32) -> u32 {
        match self {
            Self::None => len,
            Self::Atm => len.div_ceil(48).saturating_mul(53),
            Self::Ptm => len.saturating_add(len.div_ceil(64)),
            Self::PtmPaper => len.div_ceil(64).saturating_mul(65),
            Self::Gem => len.saturating_add(5),
            Self::Xgem => (len.saturating_add(3) & !3).saturating_add(8),
        }
    }

    /// Like [`Self::wire_len`], for lengths above `u32::MAX` too.
    const fn packed(self, len: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "below it")]
        let len = if len < u32::MAX as u64 { len as u32 } else { u32::MAX };
        self.wire_len(len) as u64
    }
}

/// Overhead of a link: the bytes that a packet takes on the wire beyond its own length.
///
/// Every value is validated. The constants are the links that `tc` names, for network-layer (IP)
/// lengths. If your lengths include the Ethernet header, call [`for_frames`](Self::for_frames)
/// once.
///
/// ```
/// use shaper::{Framing, Layer, Overhead};
///
/// // A TCP acknowledgement on an ADSL link with PPPoE: 40 + 40 bytes are two cells.
/// assert_eq!(Overhead::PPPOE_LLCSNAP.wire_len(40), 106);
/// // The same packet measured as an Ethernet frame.
/// assert_eq!(Overhead::PPPOE_LLCSNAP.for_frames(14).wire_len(54), 106);
///
/// let fibre = Overhead::new(Framing::None, 38, 84)?;
/// assert_eq!((fibre.wire_len(40), fibre.wire_len(1_500)), (84, 1_538));
/// assert!(Overhead::new(Framing::None, 300, 0).is_err());
///
/// // WireGuard inside PPPoE inside a VLAN on VDSL2: 100 bytes become 112 + 60 + 8 + 4 + 22, and
/// // 4 for code words.
/// let link = Overhead::BRIDGED_PTM.carrying(Layer::VLAN)?.carrying(Layer::PPPOE)?;
/// assert_eq!(link.carrying(Layer::WIREGUARD)?.wire_len(100), 210);
/// # Ok::<(), shaper::OverheadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overhead {
    framing: Framing,
    header: u8,
    /// Overhead (`MIN_OVERHEAD..=MAX_OVERHEAD`) minus `header`. An `i64`, like the sum per packet,
    /// so that no packet needs a widening.
    added: i64,
    /// `0..=MAX_MPU`.
    mpu: u16,
    /// Maximum of `mpu` and 1.
    least: i64,
    /// Steps of the layers inside the link, innermost first; unused ones last.
    steps: [Step; Overhead::MAX_PADDINGS],
    /// True if and only if there is no framing and no step in use.
    is_plain: bool,
}

impl Default for Overhead {
    /// Returns [`Overhead::RAW`].
    fn default() -> Self {
        Self::RAW
    }
}

/// Makes rates and ceilings of hosts count bytes on the wire, like the link.
impl sched_core::WireLength for Overhead {
    /// Returns the wire length of a packet of at most
    /// [`Packet::MAX_LEN`](sched_core::Packet::MAX_LEN) bytes, the longest that a queue accepts; it
    /// fits a `u32`.
    #[inline]
    fn wire_len(&self, len: u32) -> u32 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a packet is less than 2^23 bytes on any wire"
        )]
        let wire_len = self.on_wire(len) as u32;
        wire_len
    }
}

impl Overhead {
    /// Minimum overhead, in bytes; negative for lengths that include bytes which the link removes.
    pub const MIN_OVERHEAD: i32 = -64;
    /// Maximum overhead, in bytes.
    pub const MAX_OVERHEAD: i32 = 256;
    /// Maximum of the minimum packet unit, in bytes.
    pub const MAX_MPU: u32 = 256;
    /// Ethernet header in the lengths that a device reports, in bytes: two addresses and a type.
    pub const ETHERNET_HEADER: u8 = 14;
    /// Length of a VLAN tag (IEEE 802.1Q), in bytes.
    pub const VLAN_TAG: i32 = 4;
    /// Maximum number of layers inside a link that pad or have a minimum.
    pub const MAX_PADDINGS: usize = 3;

    /// No overhead: lengths count as given.
    pub const RAW: Self = Self::of(Framing::None, 0, 0);
    /// More than any ADSL link adds: 48 bytes, and ATM cells.
    pub const CONSERVATIVE: Self = Self::of(Framing::Atm, 48, 0);
    /// ADSL, PPPoA, VC multiplexing.
    pub const PPPOA_VCMUX: Self = Self::of(Framing::Atm, 10, 0);
    /// ADSL, PPPoA, LLC.
    pub const PPPOA_LLC: Self = Self::of(Framing::Atm, 14, 0);
    /// ADSL, PPPoE, VC multiplexing.
    pub const PPPOE_VCMUX: Self = Self::of(Framing::Atm, 32, 0);
    /// ADSL, PPPoE, LLC/SNAP.
    pub const PPPOE_LLCSNAP: Self = Self::of(Framing::Atm, 40, 0);
    /// ADSL, bridged Ethernet, VC multiplexing.
    pub const BRIDGED_VCMUX: Self = Self::of(Framing::Atm, 24, 0);
    /// ADSL, bridged Ethernet, LLC/SNAP.
    pub const BRIDGED_LLCSNAP: Self = Self::of(Framing::Atm, 32, 0);
    /// ADSL, IP over ATM, VC multiplexing.
    pub const IPOA_VCMUX: Self = Self::of(Framing::Atm, 8, 0);
    /// ADSL, IP over ATM, LLC/SNAP.
    pub const IPOA_LLCSNAP: Self = Self::of(Framing::Atm, 16, 0);
    /// VDSL2, PPPoE: PPP 2 bytes, PPPoE 6, addresses 12, type 2, FCS 4, start 1, end 1, CRC 2.
    pub const PPPOE_PTM: Self = Self::of(Framing::Ptm, 30, 0);
    /// VDSL2, bridged Ethernet: [`Overhead::PPPOE_PTM`] without PPP and PPPoE.
    pub const BRIDGED_PTM: Self = Self::of(Framing::Ptm, 22, 0);
    /// Cable modem (DOCSIS): Ethernet header and FCS, at least 64 bytes. A DOCSIS rate counts bytes
    /// from the destination address to the FCS (MULPI, annex C), without DOCSIS headers.
    pub const DOCSIS: Self = Self::of(Framing::None, 18, 64);
    /// Ethernet: header 14 bytes, FCS 4, preamble and gap 20, at least 84.
    pub const ETHERNET: Self = Self::of(Framing::None, 38, 84);
    /// GPON: Ethernet header and FCS, at least 64 bytes, in GEM. Use [`Overhead::DOCSIS`] if the
    /// operator's rate counts Ethernet frames.
    pub const GPON: Self = Self::of(Framing::Gem, 18, 64);
    /// XG-PON and XGS-PON: like [`Overhead::GPON`], in XGEM.
    pub const XGS_PON: Self = Self::of(Framing::Xgem, 18, 64);

    /// Creates a link with this framing, overhead and minimum, in bytes, for network-layer lengths.
    ///
    /// # Errors
    /// [`OverheadError`] names the value that is out of range: `overhead` outside −64..=256,
    /// `mpu` above 256.
    pub const fn new(framing: Framing, overhead: i32, mpu: u32) -> Result<Self, OverheadError> {
        if overhead < Self::MIN_OVERHEAD || overhead > Self::MAX_OVERHEAD {
            return Err(OverheadError::Overhead(overhead));
        }
        if mpu > Self::MAX_MPU {
            return Err(OverheadError::Mpu(mpu));
        }
        #[allow(clippy::cast_possible_truncation, reason = "both were found within 0..=256")]
        Ok(Self::of(framing, overhead as i16, mpu as u16))
    }

    const fn of(framing: Framing, overhead: i16, mpu: u16) -> Self {
        let least = if mpu == 0 { 1 } else { mpu as i64 };
        let (header, steps) = (0, [Step::UNUSED; Self::MAX_PADDINGS]);
        let is_plain = matches!(framing, Framing::None);
        Self { framing, header, added: overhead as i64, mpu, least, steps, is_plain }
    }

    /// Returns the link with these steps; each must be within the limits of a [`Layer`].
    pub(crate) const fn behind(self, steps: [Step; Self::MAX_PADDINGS]) -> Self {
        let [first, ..] = steps;
        let is_plain = matches!(self.framing, Framing::None) && !first.is_used();
        Self { steps, is_plain, ..self }
    }

    /// Returns the link for lengths that include `header` bytes below the network layer (14 on
    /// Ethernet), which then do not count. Not for [`Overhead::RAW`], which counts lengths as
    /// given.
    #[must_use]
    pub const fn for_frames(self, header: u8) -> Self {
        let added = self.added + self.header as i64 - header as i64;
        Self { header, added, ..self }
    }

    /// Adds a layer inside the link and all layers added before; the first layer added is
    /// outermost.
    ///
    /// A layer that neither pads nor has a minimum is added to the overhead of what is around it.
    ///
    /// # Errors
    /// [`OverheadError`] if a field of `layer` is out of range, if the resulting overhead is, or if
    /// more than [`MAX_PADDINGS`](Self::MAX_PADDINGS) layers pad.
    ///
    /// ```
    /// use shaper::{Layer, Overhead};
    ///
    /// assert_eq!(Overhead::BRIDGED_PTM.carrying(Layer::PPPOE), Ok(Overhead::PPPOE_PTM));
    /// // 80 bytes in WireGuard are 140 of IP; with 40 for PPPoE and ATM, four cells.
    /// let tunnel = Overhead::PPPOE_LLCSNAP.carrying(Layer::WIREGUARD)?;
    /// assert_eq!(tunnel.wire_len(80), 4 * 53);
    /// # Ok::<(), shaper::OverheadError>(())
    /// ```
    pub const fn carrying(self, layer: Layer) -> Result<Self, OverheadError> {
        if let Some(error) = layer.error() {
            return Err(error);
        }
        let [first, second, third] = self.steps;
        let outside = if layer.pads() { layer.outside } else { layer.outside + layer.inside };
        let outer = if first.is_used() {
            match first.with_more(outside) {
                Ok(first) => Self { steps: [first, second, third], ..self },
                Err(error) => return Err(error),
            }
        } else {
            match self.with_more(outside.cast_signed()) {
                Ok(outer) => outer,
                Err(error) => return Err(error),
            }
        };
        if !layer.pads() {
            return Ok(outer);
        }
        if third.is_used() {
            return Err(OverheadError::Paddings);
        }
        let [first, second, _] = outer.steps;
        Ok(outer.behind([Step::of(layer), first, second]))
    }

    /// Returns the link with `bytes` added to the overhead.
    pub(crate) const fn with_more(self, bytes: i32) -> Result<Self, OverheadError> {
        let overhead = self.overhead().saturating_add(bytes);
        if overhead < Self::MIN_OVERHEAD || overhead > Self::MAX_OVERHEAD {
            return Err(OverheadError::Overhead(overhead));
        }
        let added = (overhead - self.header as i32) as i64;
        Ok(Self { added, ..self })
    }

    /// Returns the bytes on the wire for a packet of `len` bytes.
    ///
    /// Monotone in `len`, and saturating at both ends, so that a negative overhead cannot wrap a
    /// short packet into a long one. Never 0: a packet counts at least one byte before framing, so
    /// that no packet passes a shaper for free.
    #[must_use]
    #[inline]
    pub const fn wire_len(self, len: u32) -> u32 {
        saturated(self.on_wire(len))
    }

    /// Like [`Self::wire_len`], but without an upper bound if the link has no framing.
    #[inline]
    pub(crate) const fn on_wire(&self, len: u32) -> u64 {
        if self.is_plain {
            // −64 − 255 ≤ `added` ≤ 256.
            self.at_least(len as i64 + self.added)
        } else {
            self.composed(len)
        }
    }

    /// Slow path of [`Self::on_wire`], for links with framing or layers. Kept out of line because
    /// most links have neither.
    #[cold]
    #[inline(never)]
    const fn composed(&self, len: u32) -> u64 {
        let [first, second, third] = &self.steps;
        let inside = len as i64 - self.header as i64;
        let carried = third.padded(second.padded(first.padded(inside)));
        self.framing.packed(self.at_least(carried + self.added + self.header as i64))
    }

    /// Returns the larger of `net` and the minimum.
    #[inline]
    const fn at_least(&self, net: i64) -> u64 {
        #[allow(clippy::cast_sign_loss, reason = "at least 1")]
        let padded = (if net < self.least { self.least } else { net }) as u64;
        padded
    }

    /// Returns true if lengths count as given, before minimum and framing: the keyword `raw`.
    #[must_use]
    pub const fn is_raw(self) -> bool {
        let [first, ..] = self.steps;
        self.header == 0 && self.added == 0 && !first.is_used()
    }

    /// Returns the framing.
    #[must_use]
    pub const fn framing(self) -> Framing {
        self.framing
    }

    /// Returns the bytes added to each network-layer packet, outside the layers that pad.
    #[must_use]
    pub const fn overhead(self) -> i32 {
        #[allow(clippy::cast_possible_truncation, reason = "−64 − 255 ≤ what is added ≤ 256")]
        let added = self.added as i32;
        added + self.header as i32
    }

    /// Returns the minimum packet unit: the bytes that a packet counts at least, before framing.
    #[must_use]
    pub const fn mpu(self) -> u32 {
        self.mpu as u32
    }

    /// Returns the bytes of the caller's lengths that do not count.
    #[must_use]
    pub const fn header(self) -> u8 {
        self.header
    }

    /// Steps of the layers inside, unused ones last.
    pub(crate) const fn steps(&self) -> &[Step; Self::MAX_PADDINGS] {
        &self.steps
    }
}

/// Returns `len`, at most `u32::MAX`.
#[inline]
const fn saturated(len: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "below it")]
    if len < u32::MAX as u64 { len as u32 } else { u32::MAX }
}

/// An overhead or a layer that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OverheadError {
    /// Overhead outside [`Overhead::MIN_OVERHEAD`]`..=`[`Overhead::MAX_OVERHEAD`].
    Overhead(i32),
    /// Minimum packet unit above [`Overhead::MAX_MPU`].
    Mpu(u32),
    /// Bytes of a layer, or between two layers that pad, above [`Layer::MAX_BYTES`].
    Layer(u32),
    /// Minimum of a layer above [`Layer::MAX_BYTES`].
    Least(u32),
    /// Block size of a layer that is not a power of two from 1 to [`Layer::MAX_MULTIPLE`].
    Multiple(u32),
    /// More than [`Overhead::MAX_PADDINGS`] layers that pad or have a minimum.
    Paddings,
}

impl fmt::Display for OverheadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overhead(value) => write!(
                f,
                "overhead {value} is out of range (expected {} to {})",
                Overhead::MIN_OVERHEAD,
                Overhead::MAX_OVERHEAD
            ),
            Self::Mpu(value) => {
                write!(f, "mpu {value} is out of range (expected 0 to {})", Overhead::MAX_MPU)
            }
            Self::Layer(value) => {
                let most = Layer::MAX_BYTES;
                write!(f, "layer of {value} bytes is out of range (expected 0 to {most})")
            }
            Self::Least(value) => {
                let most = Layer::MAX_BYTES;
                write!(f, "least {value} of a layer is out of range (expected 0 to {most})")
            }
            Self::Multiple(value) => {
                let most = Layer::MAX_MULTIPLE;
                write!(f, "pad {value} is out of range (expected a power of two from 1 to {most})")
            }
            Self::Paddings => {
                write!(f, "too many layers that pad (expected at most {})", Overhead::MAX_PADDINGS)
            }
        }
    }
}

impl core::error::Error for OverheadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const FRAMINGS: [Framing; 6] =
        [Framing::None, Framing::Atm, Framing::Ptm, Framing::PtmPaper, Framing::Gem, Framing::Xgem];

    #[test]
    fn cells_and_code_words_cost_what_the_standards_say() {
        let atm = [(0, 0), (1, 53), (48, 53), (49, 106), (96, 106), (97, 159), (1_540, 1_749)];
        for (len, wire) in atm.into_iter().chain([(65_535, 72_398)]) {
            assert_eq!(Framing::Atm.wire_len(len), wire);
        }
        let ptm = [(0, 0), (1, 2), (64, 65), (65, 67), (1_530, 1_554), (1_540, 1_565)];
        for (len, wire) in ptm.into_iter().chain([(65_535, 66_559)]) {
            assert_eq!(Framing::Ptm.wire_len(len), wire);
        }
        for (len, wire) in [(0, 0), (1, 65), (64, 65), (65, 130), (1_530, 1_560)] {
            assert_eq!(Framing::PtmPaper.wire_len(len), wire);
        }
        for (len, wire) in [(0, 5), (64, 69), (1_518, 1_523)] {
            assert_eq!(Framing::Gem.wire_len(len), wire);
        }
        for (len, wire) in [(0, 8), (1, 12), (64, 72), (65, 76), (1_518, 1_528)] {
            assert_eq!(Framing::Xgem.wire_len(len), wire);
        }
    }

    #[test]
    fn an_absurd_length_saturates() {
        for framing in FRAMINGS {
            for overhead in [-64, 0, 256] {
                let link = Overhead::new(framing, overhead, 0).unwrap().for_frames(14);
                let mut previous = 0;
                for len in [0, 1, 14, 78, 79, 1 << 20, u32::MAX - 300, u32::MAX - 1, u32::MAX] {
                    assert!(link.wire_len(len) >= previous, "{link:?} {len}");
                    previous = link.wire_len(len);
                }
                assert!(previous >= u32::MAX - 78, "{link:?}");
            }
        }
    }

    #[test]
    fn a_figure_out_of_range_is_named_with_the_range() {
        let new = |overhead, mpu| Overhead::new(Framing::Atm, overhead, mpu);
        assert_eq!(new(-65, 0), Err(OverheadError::Overhead(-65)));
        assert_eq!(new(257, 0), Err(OverheadError::Overhead(257)));
        assert_eq!(new(0, 257), Err(OverheadError::Mpu(257)));
        assert_eq!(new(i32::MIN, u32::MAX), Err(OverheadError::Overhead(i32::MIN)));
        let text = "overhead 257 is out of range (expected -64 to 256)";
        assert_eq!(new(257, 0).unwrap_err().to_string(), text);
        let text = "mpu 300 is out of range (expected 0 to 256)";
        assert_eq!(new(0, 300).unwrap_err().to_string(), text);
        for (overhead, mpu) in [(-64, 0), (256, 256)] {
            let link = new(overhead, mpu).unwrap().for_frames(14);
            assert_eq!((link.overhead(), link.mpu(), link.header()), (overhead, mpu, 14));
            assert_eq!(link.framing(), Framing::Atm);
        }
    }

    #[test]
    fn layers_add_up_from_the_outside_in() {
        let dsl = Overhead::BRIDGED_LLCSNAP;
        assert_eq!(dsl.carrying(Layer::PPPOE), Ok(Overhead::PPPOE_LLCSNAP));
        let vcmux = Overhead::BRIDGED_VCMUX;
        assert_eq!(vcmux.carrying(Layer::PPPOE), Ok(Overhead::PPPOE_VCMUX));
        // IP in WireGuard in PPPoE in a VLAN in ATM, computed manually: 1,420 is padded to 1,424,
        // and 1,424 + 60 + 8 + 4 + 32 = 1,528 bytes are 32 cells.
        let tunnel = dsl.carrying(Layer::VLAN).and_then(|link| link.carrying(Layer::PPPOE));
        let tunnel = tunnel.and_then(|link| link.carrying(Layer::WIREGUARD)).unwrap();
        assert_eq!(tunnel.wire_len(1_420), 32 * 53);
        assert_eq!(tunnel.for_frames(14).wire_len(1_434), 32 * 53);
        // With GRE inside this tunnel: 1,396 + 24 = 1,420.
        assert_eq!(tunnel.carrying(Layer::GRE).unwrap().wire_len(1_396), 32 * 53);
        // A length below the header counts as 0 before padding.
        assert_eq!(tunnel.for_frames(14).wire_len(3), tunnel.wire_len(0));
        assert_eq!(tunnel.wire_len(0), 3 * 53);
    }

    #[test]
    fn a_layer_out_of_range_is_named_and_so_are_too_many() {
        let carry = |link: Overhead, layer| link.carrying(layer);
        let padded = Layer { multiple: 16, ..Layer::NONE };
        let twelve = Layer { multiple: 12, ..Layer::NONE };
        assert_eq!(carry(Overhead::RAW, twelve), Err(OverheadError::Multiple(12)));
        assert_eq!(
            OverheadError::Multiple(12).to_string(),
            "pad 12 is out of range (expected a power of two from 1 to 128)"
        );
        let zero = Layer { multiple: 0, ..Layer::NONE };
        assert_eq!(carry(Overhead::RAW, zero), Err(OverheadError::Multiple(0)));
        assert_eq!(carry(Overhead::RAW, Layer::header(257)), Err(OverheadError::Layer(257)));
        let high = Layer { least: 300, ..Layer::NONE };
        assert_eq!(carry(Overhead::RAW, high), Err(OverheadError::Least(300)));
        let full = Overhead::new(Framing::None, 250, 0).unwrap();
        assert_eq!(carry(full, Layer::PPPOE), Err(OverheadError::Overhead(258)));
        let one = carry(Overhead::RAW, padded).unwrap();
        let near = carry(one, Layer::header(250)).unwrap();
        assert_eq!(carry(near, Layer::PPPOE), Err(OverheadError::Layer(258)));
        let three = carry(carry(one, padded).unwrap(), padded).unwrap();
        assert_eq!(carry(three, padded), Err(OverheadError::Paddings));
        let text = "too many layers that pad (expected at most 3)";
        assert_eq!(OverheadError::Paddings.to_string(), text);
        assert_eq!(carry(three, Layer::PPPOE).unwrap().wire_len(8), 16);
    }
}
