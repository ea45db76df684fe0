//! What the link adds to a packet: headers, a minimum size, cells and code words.
//!
//! A shaper that counts fewer bytes than the modem sends fills the modem's buffer and loses
//! control of the delay; on ATM a packet one byte longer can cost 53. The length on the wire is
//! the packet's length, plus [`overhead`](Overhead::overhead), at least [`mpu`](Overhead::mpu),
//! in the [`Framing`] of the link, in this order (CAKE §III-A.1).
//!
//! Cost: a few additions and one division by a constant a packet, which is a multiplication on every
//! processor with a 32 × 32 → 64 bit multiplier.

use core::fmt;

/// How the link packs a packet into its units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Framing {
    /// As it is: Ethernet, DOCSIS, radio.
    #[default]
    None,
    /// ATM cells of AAL5 (ADSL): every 48 bytes begun cost a cell of 53.
    Atm,
    /// PTM with 64b/65b coding (VDSL2) as deployed shapers charge it: one byte for every 64
    /// begun, `x + ⌈x/64⌉`.
    Ptm,
    /// PTM as CAKE's Algorithm 1 (line 7) writes it, `⌈x/64⌉ · 65`: the last code word is charged
    /// whole, up to 63 bytes more than [`Framing::Ptm`].
    PtmPaper,
}

impl Framing {
    /// Bytes on the wire for `len` bytes after overhead; saturates at `u32::MAX`.
    #[must_use]
    pub const fn wire_len(self, len: u32) -> u32 {
        match self {
            Self::None => len,
            Self::Atm => len.div_ceil(48).saturating_mul(53),
            Self::Ptm => len.saturating_add(len.div_ceil(64)),
            Self::PtmPaper => len.div_ceil(64).saturating_mul(65),
        }
    }

    /// [`Self::wire_len`] of more than `u32::MAX` bytes too. In a function of its own: most links pack nothing.
    #[inline(never)]
    const fn packed(self, len: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "below it")]
        let len = if len < u32::MAX as u64 { len as u32 } else { u32::MAX };
        self.wire_len(len) as u64
    }
}

/// What one packet costs on the link beyond its own length. Validated: a value that exists is in
/// range.
///
/// The constants are the links that `tc` names; their lengths are network-layer (IP) lengths. A
/// caller whose lengths contain the Ethernet header says so once with
/// [`for_frames`](Self::for_frames).
///
/// ```
/// use shaper::{Framing, Overhead};
///
/// // A TCP acknowledgement on an ADSL line with PPPoE: 40 + 40 bytes are two cells.
/// assert_eq!(Overhead::PPPOE_LLCSNAP.wire_len(40), 106);
/// // The same packet measured as an Ethernet frame.
/// assert_eq!(Overhead::PPPOE_LLCSNAP.for_frames(14).wire_len(54), 106);
///
/// let fibre = Overhead::new(Framing::None, 38, 84)?;
/// assert_eq!((fibre.wire_len(40), fibre.wire_len(1_500)), (84, 1_538));
/// assert!(Overhead::new(Framing::None, 300, 0).is_err());
/// # Ok::<(), shaper::OverheadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overhead {
    framing: Framing,
    header: u8,
    /// The overhead, `MIN_OVERHEAD..=MAX_OVERHEAD`, less `header`.
    added: i16,
    /// `0..=MAX_MPU`.
    mpu: u16,
    /// The larger of `mpu` and 1.
    least: u16,
}

impl Default for Overhead {
    /// [`Overhead::RAW`].
    fn default() -> Self {
        Self::RAW
    }
}

/// So that rates and ceilings of hosts count what the line does.
impl sched_core::WireLength for Overhead {
    #[inline]
    fn wire_len(&self, len: u32) -> u32 {
        Self::wire_len(*self, len)
    }
}

impl Overhead {
    /// The smallest overhead, in bytes; below zero where lengths contain what the link removes.
    pub const MIN_OVERHEAD: i32 = -64;
    /// The largest overhead, in bytes.
    pub const MAX_OVERHEAD: i32 = 256;
    /// The largest minimum packet unit, in bytes.
    pub const MAX_MPU: u32 = 256;
    /// The Ethernet header that a length reported by a device contains: two addresses and a type.
    pub const ETHERNET_HEADER: u8 = 14;
    /// What a VLAN tag adds (IEEE 802.1Q).
    pub const VLAN_TAG: i32 = 4;

    /// Lengths count as the caller gives them.
    pub const RAW: Self = Self::of(Framing::None, 0, 0);
    /// More than any ADSL link adds: 48 bytes and cells.
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
    /// VDSL2, PPPoE: PPP 2, PPPoE 6, addresses 12, type 2, FCS 4, start 1, end 1, CRC 2.
    pub const PPPOE_PTM: Self = Self::of(Framing::Ptm, 30, 0);
    /// VDSL2, bridged Ethernet: as [`Overhead::PPPOE_PTM`] without PPP and PPPoE.
    pub const BRIDGED_PTM: Self = Self::of(Framing::Ptm, 22, 0);
    /// Cable modem: Ethernet header and FCS, at least 64 bytes.
    pub const DOCSIS: Self = Self::of(Framing::None, 18, 64);
    /// Ethernet itself: header 14, FCS 4, preamble and gap 20, at least 84 bytes.
    pub const ETHERNET: Self = Self::of(Framing::None, 38, 84);

    /// A link with these figures, in bytes, for network-layer lengths.
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
        let least = if mpu == 0 { 1 } else { mpu };
        Self { framing, header: 0, added: overhead, mpu, least }
    }

    /// The same link for lengths that contain `header` bytes below the network layer (14 on
    /// Ethernet), which do not count. It is not for [`Overhead::RAW`], which counts what it gets.
    #[must_use]
    pub const fn for_frames(self, header: u8) -> Self {
        let added = self.added + self.header as i16 - header as i16;
        Self { header, added, ..self }
    }

    /// Bytes on the wire for a packet of `len` bytes. Monotone in `len`; saturates at both ends,
    /// so that no negative overhead wraps a short packet into a long one. Never 0: before framing a
    /// packet counts one byte at least, so that no packet passes a shaper for nothing.
    #[must_use]
    #[inline]
    pub const fn wire_len(self, len: u32) -> u32 {
        let exact = self.on_wire(len);
        #[allow(clippy::cast_possible_truncation, reason = "below it")]
        if exact < u32::MAX as u64 { exact as u32 } else { u32::MAX }
    }

    /// [`Self::wire_len`], without a bound above where the link packs nothing.
    #[inline]
    pub(crate) const fn on_wire(&self, len: u32) -> u64 {
        // −64 − 255 ≤ what is added ≤ 256.
        let (net, least) = (len as i64 + self.added as i64, self.least as i64);
        #[allow(clippy::cast_sign_loss, reason = "at least 1")]
        let padded = (if net < least { least } else { net }) as u64;
        match self.framing {
            Framing::None => padded,
            framing => framing.packed(padded),
        }
    }

    /// How the link packs packets.
    #[must_use]
    pub const fn framing(self) -> Framing {
        self.framing
    }

    /// Bytes added to each network-layer packet.
    #[must_use]
    pub const fn overhead(self) -> i32 {
        self.added as i32 + self.header as i32
    }

    /// The fewest bytes a packet counts, before framing.
    #[must_use]
    pub const fn mpu(self) -> u32 {
        self.mpu as u32
    }

    /// Bytes of the caller's lengths that do not count.
    #[must_use]
    pub const fn header(self) -> u8 {
        self.header
    }
}

/// A figure that no link here can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OverheadError {
    /// The overhead is outside [`Overhead::MIN_OVERHEAD`]`..=`[`Overhead::MAX_OVERHEAD`].
    Overhead(i32),
    /// The minimum packet unit is above [`Overhead::MAX_MPU`].
    Mpu(u32),
}

impl fmt::Display for OverheadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overhead(value) => write!(
                f,
                "overhead {value} is outside {}..={}",
                Overhead::MIN_OVERHEAD,
                Overhead::MAX_OVERHEAD
            ),
            Self::Mpu(value) => write!(f, "mpu {value} is outside 0..={}", Overhead::MAX_MPU),
        }
    }
}

impl core::error::Error for OverheadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const FRAMINGS: [Framing; 4] = [Framing::None, Framing::Atm, Framing::Ptm, Framing::PtmPaper];

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
    }

    /// Goal: no setting wraps, shrinks a longer packet, or leaves the bounds.
    /// Method: every overhead, every minimum, every length to 300, every framing (10⁸ cases),
    /// against the definition in 64-bit signed arithmetic.
    #[test]
    fn every_setting_in_range_is_monotone_and_bounded() {
        for framing in FRAMINGS {
            for overhead in Overhead::MIN_OVERHEAD..=Overhead::MAX_OVERHEAD {
                for mpu in 0..=Overhead::MAX_MPU {
                    let link = Overhead::new(framing, overhead, mpu).unwrap();
                    let mut previous = 0;
                    for len in 0..=300 {
                        let wire = link.wire_len(len);
                        let net = i64::from(len) + i64::from(overhead);
                        let net = net.max(i64::from(mpu)).max(1);
                        let exact = match framing {
                            Framing::None => net,
                            Framing::Atm => (net + 47) / 48 * 53,
                            Framing::Ptm => net + (net + 63) / 64,
                            Framing::PtmPaper => (net + 63) / 64 * 65,
                        };
                        assert_eq!(i64::from(wire), exact, "{link:?} {len}");
                        assert!(wire >= previous && wire >= mpu && wire < 700, "{link:?} {len}");
                        previous = wire;
                    }
                }
            }
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
        assert_eq!(new(257, 0).unwrap_err().to_string(), "overhead 257 is outside -64..=256");
        assert_eq!(new(0, 300).unwrap_err().to_string(), "mpu 300 is outside 0..=256");
        for (overhead, mpu) in [(-64, 0), (256, 256)] {
            let link = new(overhead, mpu).unwrap().for_frames(14);
            assert_eq!((link.overhead(), link.mpu(), link.header()), (overhead, mpu, 14));
            assert_eq!(link.framing(), Framing::Atm);
        }
    }
}
