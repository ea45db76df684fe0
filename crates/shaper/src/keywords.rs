//! Links from keywords: `pppoe-ptm ether-vlan`, `overhead 44 mpu 96 atm`.
//!
//! The keywords are those of `tc` for CAKE, so that a setting that works there can be pasted here.
//! Keywords for tunnels, layers and passive optical networks are additions.

use core::fmt;

use crate::layer::Step;
use crate::{Framing, Layer, Overhead, OverheadError, QuotedWord};

impl Overhead {
    /// Creates a link from keywords separated by white space.
    ///
    /// `header` is the number of bytes in the caller's lengths below the network layer: 14 for
    /// Ethernet frames, 0 for IP packets. Until a keyword sets an overhead, lengths count as given,
    /// header included (`raw`); from then on the header does not count.
    ///
    /// **Link keywords** apply from left to right.
    ///
    /// | keyword | effect |
    /// |---|---|
    /// | `overhead N`, `ether-vlan` | add to the overhead |
    /// | a link name (`pppoe-ptm`) | adds its overhead, sets its framing and its minimum, if any |
    /// | `conservative` | sets the overhead to 48 and the framing to ATM |
    /// | `raw` | removes overhead, framing and layers |
    /// | `mpu N` | sets the minimum |
    /// | `atm`, `ptm`, `gem`, `xgem`, `noatm` | set the framing |
    /// | `ptm-paper` | sets the framing to PTM by the formula of the CAKE paper |
    /// | `via-ethernet` | none |
    /// | `(docsis)` | none; `tc` prints a link's name like this: `overhead 18 mpu 64 (docsis)` |
    ///
    /// Link names are those of the constants of [`Overhead`], in lower case with hyphens, and
    /// `xg-pon`.
    ///
    /// **Layers inside the link** are listed from the inside out, anywhere among the link keywords:
    /// `gre wireguard pppoe-ptm` is GRE in WireGuard on a VDSL2 link with PPPoE. Names:
    /// `wireguard`, `wireguard6`, `esp`, `esp6`, `esp-udp`, `gre`, `gre6`, `vxlan`, `vxlan6`,
    /// `gtp`, `ipip`, `6in4`, `4in6`, `ds-lite`, `pppoe`, `mpls` ([`Layer`]). Spell out any other
    /// layer: `add N` adds bytes, `least N` sets a minimum, `pad N` pads to a power of two. For
    /// example, `wireguard` is `pad 16 add 60`.
    ///
    /// **Round trip.** [`Display`](fmt::Display) prints a link as keywords with numbers, such as
    /// `overhead 30 ptm`. Parsing this text with `header` set to [`Overhead::header`] returns an
    /// equal link.
    ///
    /// Cost: linear in the length of `options`. Meant for configuration, not for packets.
    ///
    /// # Errors
    /// [`KeywordError`] names the keyword that is unknown, has no valid number after it, or takes a
    /// value out of range.
    ///
    /// ```
    /// use shaper::Overhead;
    ///
    /// let vdsl = Overhead::from_keywords("pppoe-ptm ether-vlan", 14)?;
    /// assert_eq!((vdsl.overhead(), vdsl.wire_len(1_514)), (34, 1_558));
    /// assert_eq!(vdsl.to_string(), "overhead 34 ptm");
    ///
    /// let tunnel = Overhead::from_keywords("wireguard pppoe-ptm ether-vlan", 14)?;
    /// assert_eq!(tunnel.to_string(), "pad 16 overhead 94 ptm");
    ///
    /// let words = "ether-vlan pppoe-ptn";
    /// let error = Overhead::from_keywords(words, 14).unwrap_err();
    /// assert_eq!((error.word.as_str(), error.offset_in(words)), ("pppoe-ptn", Some(11)));
    /// # Ok::<(), shaper::KeywordError>(())
    /// ```
    pub fn from_keywords(options: &str, header: u8) -> Result<Self, KeywordError> {
        Self::from_words(options.split_ascii_whitespace(), header)
    }

    /// Creates a link from an iterator of keywords, for a link that is part of a longer
    /// configuration.
    ///
    /// Otherwise like [`from_keywords`](Self::from_keywords).
    ///
    /// # Errors
    /// [`KeywordError`], as for [`from_keywords`](Self::from_keywords).
    ///
    /// ```
    /// use shaper::Overhead;
    ///
    /// let words = "bandwidth 20mbit pppoe-ptm".split(' ').skip(2);
    /// assert_eq!(Overhead::from_words(words, 0), Ok(Overhead::PPPOE_PTM));
    /// ```
    pub fn from_words<'a>(
        words: impl Iterator<Item = &'a str>,
        header: u8,
    ) -> Result<Self, KeywordError> {
        let mut words = words.enumerate();
        let mut link = Self::RAW;
        let mut inside = Inside::NOTHING;
        let mut raw = true;
        while let Some((index, word)) = words.next() {
            let wrong = |problem| KeywordError { index, word: QuotedWord::new(word), problem };
            let range = |error| wrong(KeywordProblem::Range(error));
            let mut number = |least: i32| {
                let given = words.next().map(|(_, given)| given);
                let unsigned = given.filter(|text| !text.starts_with('+'));
                let value = unsigned.and_then(|text| text.parse::<i32>().ok());
                let value = value.filter(|&value| value >= least);
                let (expected, given) = (expected(word), given.map(QuotedWord::new));
                value.ok_or_else(|| wrong(KeywordProblem::Number { expected, given }))
            };
            let mut natural = || number(0).map(i32::unsigned_abs);
            let layer = match word {
                "add" => Some(Layer::header(natural()?)),
                "least" => Some(Layer { least: natural()?, ..Layer::NONE }),
                "pad" => Some(Layer { multiple: natural()?, ..Layer::NONE }),
                _ => Layer::named(word),
            };
            if let Some(layer) = layer {
                raw = false;
                inside = inside.within(layer).map_err(range)?;
                // Report a sum that is out of range at the keyword that causes it, not at the last
                // one.
                link.with_more(inside.pending()).map_err(range)?;
                continue;
            }
            let (framing, overhead, mpu) = match word {
                "via-ethernet" => continue,
                // Accepted only after numbers: a name in parentheses alone would be silently
                // ignored.
                _ if !raw && is_remark(word) => continue,
                "noatm" => (Framing::None, 0, link.mpu()),
                "atm" => (Framing::Atm, 0, link.mpu()),
                "ptm" => (Framing::Ptm, 0, link.mpu()),
                "ptm-paper" => (Framing::PtmPaper, 0, link.mpu()),
                "gem" => (Framing::Gem, 0, link.mpu()),
                "xgem" => (Framing::Xgem, 0, link.mpu()),
                "mpu" => (link.framing(), 0, natural()?),
                "overhead" => {
                    raw = false;
                    (link.framing(), number(i32::MIN)?, link.mpu())
                }
                "ether-vlan" => {
                    raw = false;
                    (link.framing(), Self::VLAN_TAG, link.mpu())
                }
                "raw" => {
                    raw = true;
                    inside = Inside::NOTHING;
                    (Framing::None, -link.overhead(), link.mpu())
                }
                _ => {
                    let named = Self::named(word).ok_or_else(|| wrong(KeywordProblem::Unknown))?;
                    raw = false;
                    let mpu = if named.mpu() > 0 { named.mpu() } else { link.mpu() };
                    let assigned = if word == "conservative" { link.overhead() } else { 0 };
                    (named.framing(), named.overhead() - assigned, mpu)
                }
            };
            let sum = link.overhead().saturating_add(overhead);
            link = Self::new(framing, sum, mpu).map_err(range)?;
            link.with_more(inside.pending()).map_err(range)?;
        }
        // In range: checked after each keyword.
        let link = link.with_more(inside.pending()).unwrap_or(link).behind(inside.steps);
        Ok(if raw { link } else { link.for_frames(header) })
    }

    /// Returns the link that a keyword names.
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
            "gpon" => Self::GPON,
            "xg-pon" | "xgs-pon" => Self::XGS_PON,
            _ => return None,
        })
    }
}

/// Returns true if `word` is the name of a link in parentheses.
fn is_remark(word: &str) -> bool {
    let name = word.strip_prefix('(').and_then(|word| word.strip_suffix(')'));
    name.is_some_and(|name| Overhead::named(name).is_some())
}

/// Layers inside a link, added from the inside out.
#[derive(Clone, Copy)]
struct Inside {
    /// Used steps before unused ones.
    steps: [Step; Overhead::MAX_PADDINGS],
    /// Bytes outside the steps; part of the next step, or of the link's overhead.
    outside: Layer,
}

impl Inside {
    const NOTHING: Self =
        Self { steps: [Step::UNUSED; Overhead::MAX_PADDINGS], outside: Layer::NONE };

    /// Adds `layer` around the layers so far.
    fn within(mut self, layer: Layer) -> Result<Self, OverheadError> {
        if let Some(error) = layer.error() {
            return Err(error);
        }
        let inside = self.outside.outside.saturating_add(layer.inside);
        if !layer.pads() {
            let outside = inside.saturating_add(layer.outside);
            // The limit of the link applies, checked by the caller. A later step checks its own.
            self.outside = Layer::header(outside);
            return Ok(self);
        }
        let step = Layer { inside, outside: 0, ..layer };
        if let Some(error) = step.error() {
            return Err(error);
        }
        let place = self.steps.iter_mut().find(|step| !step.is_used());
        *place.ok_or(OverheadError::Paddings)? = Step::of(step);
        self.outside = Layer::header(layer.outside);
        Ok(self)
    }

    /// Returns the bytes that belong to the link's overhead.
    fn pending(&self) -> i32 {
        i32::try_from(self.outside.outside).unwrap_or(i32::MAX)
    }
}

/// Prints the keywords of [`Overhead::from_keywords`], with numbers instead of names.
impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.steps().iter().filter(|step| step.is_used()) {
            let Layer { inside, least, multiple, .. } = step.layer();
            if inside > 0 {
                write!(f, "add {inside} ")?;
            }
            if least > 0 {
                write!(f, "least {least} ")?;
            }
            if multiple > 1 {
                write!(f, "pad {multiple} ")?;
            }
        }
        match self.is_raw() {
            true => f.write_str("raw")?,
            false => write!(f, "overhead {}", self.overhead())?,
        }
        if self.mpu() > 0 {
            write!(f, " mpu {}", self.mpu())?;
        }
        f.write_str(match self.framing() {
            Framing::None => "",
            Framing::Atm => " atm",
            Framing::Ptm => " ptm",
            Framing::PtmPaper => " ptm-paper",
            Framing::Gem => " gem",
            Framing::Xgem => " xgem",
        })
    }
}

/// A keyword that is not valid in the description of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct KeywordError {
    /// Index of the keyword among those that were read, from 0.
    pub index: usize,
    /// The keyword.
    pub word: QuotedWord,
    /// Reason why it is not valid.
    pub problem: KeywordProblem,
}

/// Reason why a keyword of a link is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KeywordProblem {
    /// Unknown keyword.
    Unknown,
    /// No valid whole number after the keyword (only `overhead` takes negative numbers).
    Number {
        /// Description of the expected numbers.
        expected: &'static str,
        /// Text found after the keyword; `None` if it is the last one.
        given: Option<QuotedWord>,
    },
    /// Value out of range once this keyword was applied.
    Range(OverheadError),
}

impl KeywordError {
    /// Returns the byte offset of the keyword in `text`, the text that was parsed.
    ///
    /// Returns `None` if `text` has another word at this index.
    #[must_use]
    pub fn offset_in(&self, text: &str) -> Option<usize> {
        let word = text.split_ascii_whitespace().nth(self.index)?;
        let offset = word.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        (QuotedWord::new(word) == self.word).then_some(offset)
    }
}

impl fmt::Display for KeywordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = &self.word;
        match &self.problem {
            KeywordProblem::Unknown => write!(
                f,
                "unknown link option `{word}` (expected raw, conservative, overhead N, mpu N, atm, ptm, \
                 ptm-paper, noatm, pppoa-vcmux, pppoa-llc, pppoe-vcmux, pppoe-llcsnap, \
                 bridged-vcmux, bridged-llcsnap, ipoa-vcmux, ipoa-llcsnap, pppoe-ptm, bridged-ptm, \
                 docsis, ethernet, gpon, xgs-pon, xg-pon, ether-vlan, via-ethernet, gem, xgem, pppoe, \
                 wireguard, wireguard6, esp, esp6, esp-udp, gre, gre6, vxlan, vxlan6, gtp, ipip, \
                 6in4, 4in6, ds-lite, mpls, add N, least N, pad N)"
            ),
            KeywordProblem::Number { .. } => write!(f, "`{word}`: {}", self.problem),
            KeywordProblem::Range(error) => write!(f, "at `{word}`: {error}"),
        }
    }
}

/// Omits the keyword; the caller prints it first.
impl fmt::Display for KeywordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown link option"),
            Self::Number { expected, given } => {
                write!(f, "expected a {expected} after it")?;
                given.map_or(Ok(()), |given| write!(f, ", found `{given}`"))
            }
            Self::Range(error) => error.fmt(f),
        }
    }
}

/// Returns a description of the numbers that are valid after `word`.
fn expected(word: &str) -> &'static str {
    match word {
        "overhead" => "whole number from -64 to 256",
        "pad" => "power of two from 1 to 128",
        _ => "whole number from 0 to 256",
    }
}

impl core::error::Error for KeywordError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn link(options: &str) -> Result<Overhead, KeywordError> {
        Overhead::from_keywords(options, 14)
    }

    fn wrong(index: usize, word: &str, problem: KeywordProblem) -> KeywordError {
        KeywordError { index, word: QuotedWord::new(word), problem }
    }

    fn number(word: &str, given: Option<&str>) -> KeywordError {
        let (expected, given) = (expected(word), given.map(QuotedWord::new));
        wrong(0, word, KeywordProblem::Number { expected, given })
    }

    #[test]
    fn a_word_that_is_wrong_is_named() {
        assert_eq!(link("docsis adsl"), Err(wrong(1, "adsl", KeywordProblem::Unknown)));
        assert_eq!(link("overhead"), Err(number("overhead", None)));
        assert_eq!(link("mpu -1"), Err(number("mpu", Some("-1"))));
        assert_eq!(link("overhead +4"), Err(number("overhead", Some("+4"))));
        assert_eq!(link("overhead 1.5"), Err(number("overhead", Some("1.5"))));
        let far = wrong(0, "overhead", KeywordProblem::Range(OverheadError::Overhead(257)));
        assert_eq!(link("overhead 257"), Err(far));
        let text = "at `overhead`: overhead 257 is out of range (expected -64 to 256)";
        assert_eq!(far.to_string(), text);
        let mpu = wrong(0, "mpu", KeywordProblem::Range(OverheadError::Mpu(300)));
        assert_eq!(link("mpu 300"), Err(mpu));
        assert!(link("adsl").unwrap_err().to_string().starts_with("unknown link option `adsl`"));
        let sum = KeywordProblem::Range(OverheadError::Overhead(i32::MAX));
        assert_eq!(link("ethernet overhead 2147483647"), Err(wrong(1, "overhead", sum)));
    }

    /// Goal: the range in the error text is the range that is accepted, for each keyword that takes
    /// a number. Method: both ends of the range and the values beyond them.
    #[test]
    fn a_number_that_is_none_is_named_with_its_range() {
        for (word, kind, least, most) in [
            ("overhead", "whole number", -64, 256),
            ("mpu", "whole number", 0, 256),
            ("add", "whole number", 0, 256),
            ("least", "whole number", 0, 256),
            ("pad", "power of two", 1, 128),
        ] {
            let needs = std::format!("`{word}`: expected a {kind} from {least} to {most} after it");
            assert_eq!(link(word).unwrap_err().to_string(), needs);
            for given in ["atm", "+1", "1.5", "4294967296"] {
                let words = std::format!("{word} {given}");
                let error = Overhead::from_keywords(&words, 14).unwrap_err();
                assert_eq!(error.to_string(), std::format!("{needs}, found `{given}`"));
            }
            let is_accepted = |number: i32| {
                let words = std::format!("{word} {number}");
                Overhead::from_keywords(&words, 14).is_ok()
            };
            assert!(is_accepted(least) && is_accepted(most), "{word}");
            let beyond = if word == "pad" { 2 * most } else { most + 1 };
            assert!(!is_accepted(least - 1) && !is_accepted(beyond), "{word}");
        }
    }

    #[test]
    fn words_add_up_and_two_assign() {
        assert_eq!(link("overhead 10 overhead 8").unwrap().overhead(), 18);
        assert_eq!(link("ethernet ether-vlan ether-vlan").unwrap().overhead(), 46);
        // `conservative` sets overhead and framing; the minimum stays.
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

    /// Goal: text that `tc` prints is accepted.
    #[test]
    fn a_name_in_parentheses_behind_numbers_changes_nothing() {
        assert_eq!(link("noatm overhead 18 mpu 64 (docsis)"), link("docsis"));
        assert_eq!(link("ptm overhead 34 (pppoe-ptm) ether-vlan"), link("overhead 38 ptm"));
        for wrong in ["(docsis)", "raw (docsis)", "overhead 18 (docsys)", "overhead 18 (docsis"] {
            assert_eq!(link(wrong).unwrap_err().problem, KeywordProblem::Unknown, "{wrong}");
        }
    }

    #[test]
    fn tunnels_are_told_from_the_inside_out_wherever_the_link_stands() {
        let gre_in_wireguard = Overhead::PPPOE_PTM
            .carrying(Layer::VLAN)
            .and_then(|link| link.carrying(Layer::WIREGUARD))
            .and_then(|link| link.carrying(Layer::GRE))
            .unwrap()
            .for_frames(14);
        for words in [
            "gre wireguard pppoe-ptm ether-vlan",
            "pppoe-ptm gre ether-vlan wireguard",
            "pppoe-ptm ether-vlan gre wireguard",
            "add 24 pad 16 add 60 pppoe bridged-ptm ether-vlan",
        ] {
            assert_eq!(link(words), Ok(gre_in_wireguard), "{words}");
        }
        assert_eq!(gre_in_wireguard.to_string(), "add 24 pad 16 overhead 94 ptm");
        assert_ne!(link("wireguard gre pppoe-ptm ether-vlan"), Ok(gre_in_wireguard));
        assert_eq!(link("wireguard raw"), Ok(Overhead::RAW));
        let minimum = Layer { least: 60, ..Layer::NONE };
        let in_vxlan = Overhead::ETHERNET.carrying(Layer::VXLAN).unwrap();
        let padded = in_vxlan.carrying(minimum).unwrap().for_frames(14);
        assert_eq!(link("least 60 vxlan ethernet"), Ok(padded));
        assert_eq!(link("gpon"), Ok(Overhead::GPON.for_frames(14)));
        assert_eq!(link("xgs-pon ether-vlan").unwrap().wire_len(54), 72);
    }

    #[test]
    fn a_layer_that_is_wrong_is_named_at_its_word() {
        let at = |words: &'static str| {
            let error = link(words).unwrap_err();
            (error.word, error.offset_in(words).unwrap(), error.problem)
        };
        let (word, offset, problem) = at("wireguard pad 12 wireguard");
        assert_eq!((word.as_str(), offset), ("pad", 10));
        assert_eq!(problem, KeywordProblem::Range(OverheadError::Multiple(12)));
        // The fourth `esp`, not the first.
        assert_eq!(at("esp esp esp esp").1, 12);
        assert_eq!(at("overhead 200 gre add 33 mpu 9").2, {
            KeywordProblem::Range(OverheadError::Overhead(257))
        });
        assert_eq!(at("gre wireguard gre overhead 173").1, 18);
        assert_eq!(at("add 200 add 57").1, 8);
        assert_eq!(at("add").2, number("add", None).problem);
        assert_eq!(at("least -1").2, number("least", Some("-1")).problem);
        assert_eq!(at("  mpu 300").1, 2);
        let error = link("docsis adsl").unwrap_err();
        assert_eq!(error.offset_in("another text"), None);
    }

    /// Goal: an error outlives the text that it quotes, which `?` into a boxed error requires.
    #[test]
    fn an_error_outlives_the_text() {
        fn read(
            words: std::string::String,
        ) -> Result<Overhead, std::boxed::Box<dyn core::error::Error>> {
            Ok(Overhead::from_keywords(&words, 14)?)
        }
        let error = read("docsis overhead atm".into()).unwrap_err();
        let text = "`overhead`: expected a whole number from -64 to 256 after it, found `atm`";
        assert_eq!(error.to_string(), text);
    }

    /// Goal: every link equals the link parsed from its printed text. Method: all combinations of
    /// framings, of overheads and minimums at the ends of their ranges and between, and of layers,
    /// for lengths with and without a header.
    #[test]
    fn a_link_is_read_back_from_its_words() {
        let framings = ["noatm", "atm", "ptm", "ptm-paper", "gem", "xgem"];
        let layers =
            ["", "wireguard", "esp gre wireguard", "least 60 add 7 pad 2", "add 9 pad 128"];
        let mut read = 0;
        for (framing, layer) in framings.into_iter().flat_map(|f| layers.map(|layer| (f, layer))) {
            for overhead in ["", "raw", "overhead -64", "overhead 0", "overhead 44", "overhead 170"]
            {
                for mpu in ["", "mpu 1", "mpu 64", "mpu 256"] {
                    let words = std::format!("{overhead} {layer} {mpu} {framing}");
                    for header in [0, 14, 255] {
                        let link = Overhead::from_keywords(&words, header).unwrap();
                        let printed = link.to_string();
                        let again = Overhead::from_keywords(&printed, link.header());
                        assert_eq!(again, Ok(link), "{words}: {printed}");
                        read += 1;
                    }
                }
            }
        }
        assert_eq!(read, 6 * 5 * 6 * 4 * 3);
        assert_eq!(Overhead::RAW.to_string(), "raw");
        assert_eq!(Overhead::ETHERNET.to_string(), "overhead 38 mpu 84");
        assert_eq!(link("overhead 44 mpu 96 atm").unwrap().to_string(), "overhead 44 mpu 96 atm");
    }
}
