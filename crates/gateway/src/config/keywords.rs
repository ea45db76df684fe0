//! Keywords and values of options, with their parsers and error messages.

use freeboard::sched_core::Limits;
use freeboard::shaper::{Framing, Rate};
use freeboard::{AqmKind, Isolation, MemoryLimit};

use crate::config::handling::size;

/// Access to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Io {
    /// The other end of a TAP device.
    Tap,
    /// A packet socket on an interface.
    #[default]
    Packet,
}

/// The flow scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// One queue with tail drop, for comparison.
    Fifo,
    /// Shortest queue first.
    Sqf,
    /// Deficit round robin, sparse flows first.
    #[default]
    Drr,
    /// Quick fair queueing.
    Qfq,
}

/// Host isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMode {
    /// CAKE's modes; hosts are the addresses in the packet, in both directions.
    By(Isolation),
    /// Isolates the hosts on the LAN side, then their flows: `dual-srchost` for uploads and
    /// `dual-dsthost` for downloads.
    Lan,
    /// Isolates the hosts on the LAN side, with SQF among the flows of each.
    UsersSqf,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Queue limit as written: bytes, or packets with the suffix `p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// No limit given: [`Rtt::limit_bytes`](freeboard::Rtt::limit_bytes), at most 4 MiB.
    ByRate,
    Bytes(u32),
    Packets(u32),
}

/// A type with a keyword for each value.
pub(crate) trait Words: Sized + Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }

    fn parse(option: &str, word: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(name, _)| *name == word);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = Self::WORDS.iter().map(|(name, _)| *name).collect();
            format!("{option} {word:?}: invalid value (expected {})", names.join(", "))
        })
    }
}

impl Words for Io {
    const WORDS: &'static [(&'static str, Self)] = &[("tap", Self::Tap), ("packet", Self::Packet)];
}

impl Words for QueueKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("fifo", Self::Fifo), ("sqf", Self::Sqf), ("drr", Self::Drr), ("qfq", Self::Qfq)];
}

impl Words for HostMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("flows", Self::By(Isolation::Flows)),
        ("srchost", Self::By(Isolation::SrcHost)),
        ("dsthost", Self::By(Isolation::DstHost)),
        ("hosts", Self::By(Isolation::Hosts)),
        ("dual-srchost", Self::By(Isolation::DualSrcHost)),
        ("dual-dsthost", Self::By(Isolation::DualDstHost)),
        ("triple-isolate", Self::By(Isolation::TripleIsolate)),
        ("lan", Self::Lan),
        ("users+sqf", Self::UsersSqf),
    ];
}

impl Words for AqmKind {
    const WORDS: &'static [(&'static str, Self)] = AqmKind::WORDS;
}

impl Words for Switch {
    const WORDS: &'static [(&'static str, Self)] = &[("on", Self::On), ("off", Self::Off)];
}

impl Switch {
    pub(crate) const fn of(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

impl Words for Framing {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("atm", Self::Atm),
        ("ptm", Self::Ptm),
        ("ptm-paper", Self::PtmPaper),
        ("gem", Self::Gem),
        ("xgem", Self::Xgem),
    ];
}

/// Parses a rate as `tc` writes it.
pub(crate) fn rate(option: &str, word: &str) -> Result<Rate, String> {
    let rate = word.parse().ok().filter(|rate| *rate != Rate::STOPPED);
    rate.ok_or_else(|| {
        format!(
            "{option} {word:?}: invalid value (expected unlimited, or {LEAST_RATE} to {MOST_RATE}, \
             such as 5mbit; without a unit: bits per second)"
        )
    })
}

/// Lowest and highest rate as written.
pub(crate) const LEAST_RATE: &str = "1kbit";
pub(crate) const MOST_RATE: &str = "400gbit";

/// Parses a rate that is not unlimited.
pub(crate) fn finite_rate(option: &str, word: &str) -> Result<Rate, String> {
    let rate = word.parse().ok();
    let rate = rate.filter(|rate| ![Rate::UNLIMITED, Rate::STOPPED].contains(rate));
    rate.ok_or_else(|| {
        format!(
            "{option} {word:?}: invalid value (expected {LEAST_RATE} to {MOST_RATE}, such as 5mbit)"
        )
    })
}

/// Formats a rate the way it is parsed.
pub(crate) fn rate_word(rate: Rate) -> String {
    rate.to_string()
}

impl Limit {
    /// Maximum of a queue limit in packets.
    pub(crate) const MAX_PACKETS: u32 = 500_000;
    /// Minimum of a queue limit in bytes: a few packets of maximum length.
    const MIN_BYTES: u32 = 10_000;

    pub(crate) fn parse(option: &str, word: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{option} {word:?}: invalid value (expected {} to {} bytes, such as 300kb or 4mb, \
                 or 1p to {}p packets)",
                Self::MIN_BYTES,
                Limits::MAX_BYTES,
                Self::MAX_PACKETS
            )
        };
        let limit = match (word.strip_suffix('p'), size(word)) {
            (Some(packets), _) => {
                digits(packets).and_then(|number| number.parse().ok()).map(Self::Packets)
            }
            (None, Some(MemoryLimit::Bytes(bytes))) => Some(Self::Bytes(bytes)),
            _ => None,
        };
        let limit = limit.ok_or_else(refused)?;
        let in_range = match limit {
            Self::ByRate => true,
            Self::Packets(packets) => (1..=Self::MAX_PACKETS).contains(&packets),
            Self::Bytes(bytes) => (Self::MIN_BYTES..=Limits::MAX_BYTES).contains(&bytes),
        };
        if in_range { Ok(limit) } else { Err(refused()) }
    }

    pub(crate) fn word(self) -> String {
        match self {
            Self::ByRate => "by the rate".to_owned(),
            Self::Bytes(bytes) => format!("{bytes} bytes"),
            Self::Packets(packets) => format!("{packets} packets"),
        }
    }
}

/// Returns `text` if it begins with a digit. Numbers take no plus sign.
pub(crate) fn digits(text: &str) -> Option<&str> {
    text.starts_with(|first: char| first.is_ascii_digit()).then_some(text)
}

/// Parses an integer within a range.
pub(crate) fn number(
    option: &str,
    word: &str,
    range: core::ops::RangeInclusive<i64>,
) -> Result<i64, String> {
    let is_signed = word.strip_prefix('-').unwrap_or(word);
    let why = match digits(is_signed).and_then(|_| word.parse().ok()) {
        Some(number) if range.contains(&number) => return Ok(number),
        Some(_) => "out of range",
        None => "not a whole number",
    };
    Err(format!("{option} {word:?}: {why} (expected {} to {})", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_and_another_is_named_with_those_accepted() {
        for (word, kind) in QueueKind::WORDS {
            assert_eq!(QueueKind::parse("--queue", word), Ok(*kind));
            assert_eq!(kind.word(), *word);
        }
        assert_eq!(
            QueueKind::parse("--queue", "cake").unwrap_err(),
            "--queue \"cake\": invalid value (expected fifo, sqf, drr, qfq)"
        );
        let hosts = HostMode::parse("--hosts", "Dual").unwrap_err();
        assert!(hosts.contains("dual-srchost") && hosts.contains("users+sqf"), "{hosts}");
    }

    #[test]
    fn a_rate_is_said_as_it_is_written() {
        for word in ["10mbit", "512kbit", "1gbit", "unlimited", "1234567bit"] {
            assert_eq!(rate_word(rate("--up", word).unwrap()), word);
        }
        for word in ["0", "fast", "500gbit", "stopped", ""] {
            let error = rate("--up", word).unwrap_err();
            assert!(
                error.starts_with(&format!("--up {word:?}: ")) && !error.contains('\n'),
                "{error}"
            );
        }
    }

    /// Goal: the range in the error message is the range that is accepted, at both ends.
    #[test]
    fn a_finite_rate_is_refused_with_the_range() {
        let (least, most) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
        for (word, bits) in [(LEAST_RATE, least), (MOST_RATE, most)] {
            assert_eq!(finite_rate("--up-min", word), Ok(Rate::bits_per_second(bits).unwrap()));
            assert_eq!(finite_rate("--up-min", word).map(rate_word), Ok(word.to_owned()));
        }
        for word in ["unlimited", "UNLIMITED", "fast", "999", "401gbit", "10mbps", "stopped", ""] {
            assert_eq!(
                finite_rate("--up-min", word).unwrap_err(),
                format!(
                    "--up-min {word:?}: invalid value (expected 1kbit to 400gbit, such as 5mbit)"
                )
            );
        }
    }

    #[test]
    fn limits_are_bytes_or_packets() {
        assert_eq!(Limit::parse("--limit", "1000p"), Ok(Limit::Packets(1_000)));
        for (word, bytes) in
            [("300000", 300_000), ("1mb", 1 << 20), ("4Mb", 4 << 20), ("64kb", 64 << 10)]
        {
            assert_eq!(Limit::parse("--limit", word), Ok(Limit::Bytes(bytes)), "{word}");
        }
        for word in [
            "",
            "p",
            "0p",
            "0",
            "9999",
            "500001p",
            "5000000000",
            "-1",
            "+9p",
            "1kb",
            "by-rate",
            "1mbit",
        ] {
            assert!(Limit::parse("--limit", word).unwrap_err().contains("1p to 500000p"), "{word}");
        }
    }

    #[test]
    fn numbers_outside_the_range_are_refused() {
        assert_eq!(number("--mpu", "64", 0..=256), Ok(64));
        for (word, why) in [
            ("257", "out of range"),
            ("-1", "out of range"),
            ("x", "not a whole number"),
            ("1.5", "not a whole number"),
            ("+4", "not a whole number"),
            ("-+4", "not a whole number"),
            ("", "not a whole number"),
        ] {
            assert_eq!(
                number("--mpu", word, 0..=256).unwrap_err(),
                format!("--mpu {word:?}: {why} (expected 0 to 256)")
            );
        }
    }
}
