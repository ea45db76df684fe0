//! The words in which people know their link: `pppoe-ptm ether-vlan`, `overhead 44 mpu 96 atm`.
//!
//! The vocabulary is that of `tc` for CAKE, so that a setting that works there can be pasted here.

use core::fmt;

use crate::{Framing, Overhead, OverheadError};

impl Overhead {
    /// The link that `options`, words separated by white space, describe.
    ///
    /// `header` is what the caller's lengths contain below the network layer (14 for Ethernet
    /// frames, 0 for IP packets). Until a word gives an overhead, lengths count as they are,
    /// header included (`raw`); from then on the header does not count.
    ///
    /// Words act from left to right. `overhead N`, `ether-vlan` and the names of links add to the
    /// overhead; `raw` and `conservative` assign it. `mpu N` assigns; a link's name brings its own
    /// framing and, if it has one, its minimum. `atm`, `ptm`, `noatm` choose the framing,
    /// `ptm-paper` the paper's formula ([`Framing::PtmPaper`]). `via-ethernet` is accepted and
    /// changes nothing.
    ///
    /// Cost: linear in the words; for set-up, not for packets.
    ///
    /// # Errors
    /// [`KeywordError`] names the word that is not known, lacks its number, or leads out of range.
    ///
    /// ```
    /// use shaper::Overhead;
    ///
    /// let vdsl = Overhead::from_keywords("pppoe-ptm ether-vlan", 14)?;
    /// assert_eq!((vdsl.overhead(), vdsl.wire_len(1_514)), (34, 1_558));
    /// assert!(Overhead::from_keywords("pppoe-ptn", 14).is_err());
    /// # Ok::<(), shaper::KeywordError<'_>>(())
    /// ```
    pub fn from_keywords(options: &str, header: u8) -> Result<Self, KeywordError<'_>> {
        Self::from_words(options.split_ascii_whitespace(), header)
    }

    /// As [`from_keywords`](Self::from_keywords), of words that stand one by one: those of a link among others.
    ///
    /// # Errors
    /// As [`from_keywords`](Self::from_keywords).
    ///
    /// ```
    /// use shaper::Overhead;
    ///
    /// let words = "bandwidth 20mbit pppoe-ptm".split(' ').skip(2);
    /// assert_eq!(Overhead::from_words(words, 0), Ok(Overhead::PPPOE_PTM));
    /// ```
    pub fn from_words<'a>(
        mut words: impl Iterator<Item = &'a str>,
        header: u8,
    ) -> Result<Self, KeywordError<'a>> {
        let mut link = Self::RAW;
        let mut raw = true;
        while let Some(word) = words.next() {
            let number = |text: Option<&str>| text.and_then(|text| text.parse::<i32>().ok());
            let (framing, overhead, mpu) = match word {
                "via-ethernet" => continue,
                "noatm" => (Framing::None, 0, link.mpu()),
                "atm" => (Framing::Atm, 0, link.mpu()),
                "ptm" => (Framing::Ptm, 0, link.mpu()),
                "ptm-paper" => (Framing::PtmPaper, 0, link.mpu()),
                "mpu" => {
                    let value = number(words.next()).ok_or(KeywordError::Number(word))?;
                    let mpu = u32::try_from(value).map_err(|_| KeywordError::Number(word))?;
                    (link.framing(), 0, mpu)
                }
                "overhead" => {
                    raw = false;
                    let value = number(words.next()).ok_or(KeywordError::Number(word))?;
                    (link.framing(), value, link.mpu())
                }
                "ether-vlan" => {
                    raw = false;
                    (link.framing(), Self::VLAN_TAG, link.mpu())
                }
                "raw" => {
                    raw = true;
                    (Framing::None, -link.overhead(), link.mpu())
                }
                _ => {
                    let named = Self::named(word).ok_or(KeywordError::Unknown(word))?;
                    raw = false;
                    let mpu = if named.mpu() > 0 { named.mpu() } else { link.mpu() };
                    let assigned = if word == "conservative" { link.overhead() } else { 0 };
                    (named.framing(), named.overhead() - assigned, mpu)
                }
            };
            let sum = link.overhead().saturating_add(overhead);
            link = Self::new(framing, sum, mpu).map_err(|e| KeywordError::Range(word, e))?;
        }
        Ok(if raw { link } else { link.for_frames(header) })
    }

    /// The link that one word names.
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "conservative" => Self::CONSERVATIVE,
            "pppoa-vcmux" => Self::PPPOA_VCMUX,
            "pppoa-llc" => Self::PPPOA_LLC,
            "pppoe-vcmux" => Self::PPPOE_VCMUX,
            "pppoe-llcsnap" => Self::PPPOE_LLCSNAP,
            "bridged-vcmux" => Self::BRIDGED_VCMUX,
            "bridged-llcsnap" => Self::BRIDGED_LLCSNAP,
            "ipoa-vcmux" => Self::IPOA_VCMUX,
            "ipoa-llcsnap" => Self::IPOA_LLCSNAP,
            "pppoe-ptm" => Self::PPPOE_PTM,
            "bridged-ptm" => Self::BRIDGED_PTM,
            "docsis" => Self::DOCSIS,
            "ethernet" => Self::ETHERNET,
            _ => return None,
        })
    }
}

/// A word that does not describe a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KeywordError<'a> {
    /// No such word.
    Unknown(&'a str),
    /// The word needs a whole number after it (`mpu`: not negative).
    Number(&'a str),
    /// At this word, a figure left its range.
    Range(&'a str, OverheadError),
}

impl fmt::Display for KeywordError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(
                f,
                "unknown link option `{word}` (raw, conservative, overhead N, mpu N, atm, ptm, \
                 ptm-paper, noatm, pppoa-vcmux, pppoa-llc, pppoe-vcmux, pppoe-llcsnap, \
                 bridged-vcmux, bridged-llcsnap, ipoa-vcmux, ipoa-llcsnap, pppoe-ptm, bridged-ptm, \
                 docsis, ethernet, ether-vlan, via-ethernet)"
            ),
            Self::Number(word) => write!(f, "`{word}` needs a whole number after it"),
            Self::Range(word, error) => write!(f, "at `{word}`: {error}"),
        }
    }
}

impl core::error::Error for KeywordError<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn link(options: &str) -> Result<Overhead, KeywordError<'_>> {
        Overhead::from_keywords(options, 14)
    }

    #[test]
    fn a_word_that_is_wrong_is_named() {
        assert_eq!(link("docsis adsl"), Err(KeywordError::Unknown("adsl")));
        assert_eq!(link("overhead"), Err(KeywordError::Number("overhead")));
        assert_eq!(link("mpu -1"), Err(KeywordError::Number("mpu")));
        assert_eq!(link("overhead 1.5"), Err(KeywordError::Number("overhead")));
        let far = KeywordError::Range("overhead", OverheadError::Overhead(257));
        assert_eq!(link("overhead 257"), Err(far));
        assert_eq!(far.to_string(), "at `overhead`: overhead 257 is outside -64..=256");
        let mpu = KeywordError::Range("mpu", OverheadError::Mpu(300));
        assert_eq!(link("mpu 300"), Err(mpu));
        assert!(link("adsl").unwrap_err().to_string().starts_with("unknown link option `adsl`"));
        let sum = OverheadError::Overhead(i32::MAX);
        assert_eq!(link("ethernet overhead 2147483647"), Err(KeywordError::Range("overhead", sum)));
    }

    #[test]
    fn words_add_up_and_two_assign() {
        assert_eq!(link("overhead 10 overhead 8").unwrap().overhead(), 18);
        assert_eq!(link("ethernet ether-vlan ether-vlan").unwrap().overhead(), 46);
        // An assignment of overhead and cells; the minimum stays.
        let safe = Overhead::new(Framing::Atm, 48, 84).unwrap().for_frames(14);
        assert_eq!(link("ethernet conservative"), Ok(safe));
        assert_eq!(link("pppoe-ptm raw"), Ok(Overhead::RAW));
        assert_eq!(link("via-ethernet"), Ok(Overhead::RAW));
        assert_eq!(link(""), Ok(Overhead::RAW));
        assert_eq!(link("docsis via-ethernet"), Ok(Overhead::DOCSIS.for_frames(14)));
        assert_eq!(link("overhead 22 ptm-paper").unwrap().framing(), Framing::PtmPaper);
        assert_eq!(link("atm noatm"), Ok(Overhead::RAW));
        let tag = Overhead::new(Framing::None, 4, 0).unwrap().for_frames(14);
        assert_eq!(link("ether-vlan"), Ok(tag));
    }
}
