//! How frames are handled beside their order: acknowledgements, code points, drops, memory,
//! lateness.

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{
    AckFilter, Fwmark, Isolation, MemoryLimit, QueueSettings, Rtt, SettingsError, SettingsProblem,
    TinBy, TinMode, TinPlan, TinPlanError,
};

use crate::config::keywords::{HostMode, Io, QueueKind, Switch, Words, number};
use crate::config::{RawOptions, Word};
use crate::forward::queue::Heading;
use crate::io::frame::ETHERNET_HEADER;

/// Which directions something holds for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ways {
    #[default]
    Neither,
    Up,
    Down,
    Both,
}

impl Words for Ways {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Neither),
        ("up", Self::Up),
        ("down", Self::Down),
        ("both", Self::Both),
        ("on", Self::Both),
    ];
}

impl Ways {
    pub(crate) const fn has(self, heading: Heading) -> bool {
        matches!(
            (self, heading),
            (Self::Both, _) | (Self::Up, Heading::Up) | (Self::Down, Heading::Down)
        )
    }
}

impl Words for TinBy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("dscp", Self::Dscp), ("inner-dscp", Self::InnerDscp), ("priority", Self::Priority)];
}

impl Words for AckFilter {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("conservative", Self::Conservative),
        ("aggressive", Self::Aggressive),
        ("on", Self::Conservative),
    ];
}

/// What a line makes good when the gateway is woken late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// So much time.
    CatchUp(Nanos),
    /// So many bytes, whatever the rate.
    Burst(u32),
}

impl Default for Late {
    fn default() -> Self {
        Self::CatchUp(Nanos::from_millis(DEFAULT_CATCH_UP.unsigned_abs()))
    }
}

impl Late {
    pub(crate) const fn of(self, line: Shaper) -> Shaper {
        match self {
            Self::CatchUp(span) => line.with_catch_up(span),
            Self::Burst(bytes) => line.with_burst(bytes),
        }
    }

    /// As it is said when it changes.
    pub(crate) fn word(self) -> String {
        match self {
            Self::CatchUp(span) => format!("{} ms", span.0 / 1_000_000),
            Self::Burst(bytes) => format!("{bytes} bytes"),
        }
    }
}

/// How frames are handled in both directions, as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handling {
    /// Of what hosts send up the line.
    pub(crate) ack_filter: AckFilter,
    pub(crate) wash: Ways,
    /// Whether frames of several packets are cut when they come.
    pub(crate) splits_gso: bool,
    /// On the way down, where the line comes before the gateway.
    pub(crate) is_ingress: bool,
    /// Whether a host has one share in all tins together.
    pub(crate) hosts_across_tins: bool,
    pub(crate) memory_limit: Option<MemoryLimit>,
    pub(crate) late: Late,
    /// None where there is one tin.
    pub(crate) tins: Option<TinPlan>,
    pub(crate) tin_by: TinBy,
    /// Which bits of a mark name the tin.
    pub(crate) fwmark: Fwmark,
}

impl Handling {
    /// What this means for one direction, which has this rate at most, where the other ends are so
    /// far away.
    pub(crate) fn of(&self, heading: Heading, rate: Rate, rtt: Rtt) -> Treatment {
        let is_up = heading == Heading::Up;
        Treatment {
            ack_filter: if is_up { self.ack_filter } else { AckFilter::Off },
            is_washed: self.wash.has(heading),
            splits_gso: self.splits_gso,
            is_ingress: self.is_ingress && !is_up,
            hosts_across_tins: self.hosts_across_tins,
            greatest_rate: rate,
            memory_limit: self.memory_limit.map(|limit| limit.bytes(rate, rtt)),
            late: self.late,
            tins: self.tins,
            tin_by: self.tin_by,
            fwmark: self.fwmark,
        }
    }
}

/// How frames are handled in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Treatment {
    pub(crate) ack_filter: AckFilter,
    pub(crate) is_washed: bool,
    /// Whether frames of several packets are cut when they come.
    pub(crate) splits_gso: bool,
    pub(crate) is_ingress: bool,
    /// Whether a host has one share in all tins together.
    pub(crate) hosts_across_tins: bool,
    /// The greatest rate that the direction may have, for limits by the rate.
    pub(crate) greatest_rate: Rate,
    /// In bytes of the buffers that frames lie in.
    pub(crate) memory_limit: Option<u32>,
    pub(crate) late: Late,
    /// None where there is one tin.
    pub(crate) tins: Option<TinPlan>,
    /// Which header names the tin.
    pub(crate) tin_by: TinBy,
    /// Which bits of a mark name the tin.
    pub(crate) fwmark: Fwmark,
}

#[cfg(test)]
impl Default for Treatment {
    fn default() -> Self {
        Handling::default().of(Heading::Up, Rate::UNLIMITED, Rtt::default())
    }
}

impl Treatment {
    /// The tins, which may be one.
    pub(crate) fn tins(&self) -> TinPlan {
        self.tins.unwrap_or(TinMode::BestEffort.plan())
    }
}

/// Tins in the words that they are read from.
pub(crate) fn tins_word(tins: Option<TinPlan>) -> String {
    let Some(plan) = tins else { return TinMode::BestEffort.word().to_owned() };
    let mut settings = QueueSettings::NONE;
    settings.tins = Some(plan);
    settings.to_string()
}

/// A round-trip time in the words that it is read from: `regional`, or `20ms`.
pub(crate) fn rtt_word(rtt: Rtt) -> String {
    rtt.to_string()
}

/// A round-trip time: a word for it, or a time with its unit. Without a unit `tc` reads
/// microseconds, and milliseconds would be meant.
pub(super) fn rtt(option: &str, word: &str) -> Result<Rtt, String> {
    word.parse().map_err(|_| {
        if !word.is_empty() && word.bytes().all(|digit| digit.is_ascii_digit()) {
            return format!("{option} {word:?}: missing unit (expected for example {word}ms)");
        }
        let presets: Vec<&str> = Rtt::PRESETS.iter().map(|(word, _)| *word).collect();
        let presets = presets.join(", ");
        format!(
            "{option} {word:?}: invalid value (expected {presets}, or 20480ns to 8589934591ns, \
             such as 30ms); for longer round trips use --aqm none"
        )
    })
}

/// A memory limit as it is said when it changes.
pub(crate) fn memory_word(limit: Option<MemoryLimit>) -> String {
    match limit {
        None => "off".to_owned(),
        Some(MemoryLimit::ByRate) => BY_RATE.to_owned(),
        Some(MemoryLimit::Bytes(bytes)) => format!("{bytes} bytes"),
        Some(other) => format!("{other:?}"),
    }
}

/// How late a timer may be, in milliseconds, without the line losing time, if nothing is said: what
/// a busy home router keeps a process waiting.
const DEFAULT_CATCH_UP: i64 = 10;
/// The most bytes that may follow at once.
const MOST_BURST: i64 = 1 << 30;
/// The word for a memory limit by the rate.
const BY_RATE: &str = "by-rate";

impl RawOptions {
    pub(super) fn handling(&self, kind: QueueKind, hosts: HostMode) -> Result<Handling, String> {
        let ack_filter =
            self.read("--ack-filter", &self.ack_filter, <AckFilter as Words>::parse)?;
        let ack_filter = ack_filter.unwrap_or_default();
        if ack_filter != AckFilter::Off && kind == QueueKind::Fifo {
            return Err(self.not_with(
                "--ack-filter",
                &self.ack_filter,
                &format!(
                    "not available with --queue fifo (expected off); the filter only searches the \
                     last {} packets of a queue, which in a FIFO belong to all flows",
                    AckFilter::REACH
                ),
            ));
        }
        let ingress = self.read("--ingress", &self.ingress, Switch::parse)?;
        let splits_gso = self.read("--split-gso", &self.split_gso, Switch::parse)?;
        let tins = self.tins(kind)?;
        Ok(Handling {
            ack_filter,
            wash: self.read("--wash", &self.wash, Ways::parse)?.unwrap_or_default(),
            splits_gso: splits_gso != Some(Switch::Off),
            is_ingress: ingress == Some(Switch::On),
            hosts_across_tins: self.hosts_across_tins(tins, hosts)?,
            memory_limit: self.read("--memory-limit", &self.memory_limit, memory_limit)?,
            late: self.late()?,
            tins,
            tin_by: self.tin_by(tins)?,
            fwmark: self.fwmark(tins)?,
        })
    }

    /// The tins, if there are several.
    fn tins(&self, kind: QueueKind) -> Result<Option<TinPlan>, String> {
        let plan = self.read("--tins", &self.tins, tins)?.filter(|plan| plan.count() > 1);
        if plan.is_none() || kind == QueueKind::Drr {
            return Ok(plan);
        }
        let why = format!("not available with --queue {} (expected besteffort)", kind.word());
        Err(self.not_with("--tins", &self.tins, &why))
    }

    /// Whether a host has one share in all tins. There must be several, and hosts above flows.
    fn hosts_across_tins(&self, tins: Option<TinPlan>, hosts: HostMode) -> Result<bool, String> {
        let option = ("--hosts-across-tins", &self.hosts_across_tins);
        if self.read(option.0, option.1, Switch::parse)? != Some(Switch::On) {
            return Ok(false);
        }
        let by_hosts = [Isolation::DualSrcHost, Isolation::DualDstHost, Isolation::TripleIsolate];
        if tins.is_none() {
            return Err(self.not_with(
                option.0,
                option.1,
                "not available without several --tins (expected off)",
            ));
        }
        if hosts != HostMode::Lan && !by_hosts.map(HostMode::By).contains(&hosts) {
            let why = format!(
                "not available with --hosts {} (expected lan, dual-srchost, dual-dsthost or \
                 triple-isolate)",
                hosts.word()
            );
            return Err(self.not_with(option.0, option.1, &why));
        }
        Ok(true)
    }

    /// Which header names a tin.
    fn tin_by(&self, tins: Option<TinPlan>) -> Result<TinBy, String> {
        let tin_by = self.read("--tin-by", &self.tin_by, <TinBy as Words>::parse)?;
        match (tin_by.unwrap_or_default(), tins) {
            (TinBy::InnerDscp | TinBy::Priority, None) => {
                let why = "not available without several --tins (expected dscp)";
                Err(self.not_with("--tin-by", &self.tin_by, why))
            }
            (tin_by, _) => Ok(tin_by),
        }
    }

    /// Which bits of a mark name a tin. A TAP gives no marks.
    fn fwmark(&self, tins: Option<TinPlan>) -> Result<Fwmark, String> {
        let fwmark = self.read("--fwmark", &self.fwmark, fwmark)?.unwrap_or(Fwmark::NONE);
        let is_tap = self.io.as_ref().is_some_and(|io| io.text() == Io::Tap.word());
        match tins {
            _ if fwmark == Fwmark::NONE => Ok(fwmark),
            None => Err(self.not_with(
                "--fwmark",
                &self.fwmark,
                "not available without several --tins (expected 0)",
            )),
            Some(_) if is_tap => Err(self.not_with(
                "--fwmark",
                &self.fwmark,
                "not available with --io tap (expected 0); TAP devices have no marks",
            )),
            Some(_) => Ok(fwmark),
        }
    }

    fn late(&self) -> Result<Late, String> {
        let catch_up = self.in_range("--catch-up", &self.catch_up, 0..=1_000)?;
        let burst =
            self.read("--burst", &self.burst, |option, word| number(option, word, 1..=MOST_BURST))?;
        match (catch_up, burst) {
            (Some(_), Some(_)) => Err(self.not_with(
                "--burst",
                &self.burst,
                "not available with --catch-up (expected one of the two)",
            )),
            (None, Some(bytes)) => Ok(Late::Burst(u32::try_from(bytes).unwrap_or(0))),
            (Some(millis), None) => Ok(Late::CatchUp(Nanos::from_millis(millis.unsigned_abs()))),
            (None, None) => Ok(Late::default()),
        }
    }

    /// What a packet is on the wire. Frames are counted as they are unless something is said of the
    /// link.
    pub(super) fn framing(&self) -> Result<Overhead, String> {
        let parts = [&self.overhead, &self.mpu, &self.encoding];
        let framing = self.read("--framing", &self.framing, |option, words| {
            let framing = Overhead::from_keywords(words, ETHERNET_HEADER as u8);
            framing.map_err(|why| format!("{option} {words:?}: {why}"))
        })?;
        match framing {
            Some(_) if parts.iter().any(|part| part.is_some()) => Err(self.not_with(
                "--framing",
                &self.framing,
                "not available with --overhead, --mpu and --encoding (expected keywords for them in \
                 --framing, such as \"overhead 44 mpu 96 atm\")",
            )),
            Some(framing) => Ok(framing),
            None => self.framing_of_parts(),
        }
    }

    /// What is wrong with a word beside others.
    pub(super) fn not_with(&self, option: &str, word: &Option<Word>, why: &str) -> String {
        let text = word.as_ref().map_or("", Word::text);
        format!("{}{option} {text:?}: {why}", self.place(word.as_ref()))
    }
}

/// Tins in the words of a queue's settings, and no other words.
fn tins(option: &str, words: &str) -> Result<TinPlan, String> {
    let expected = "(expected besteffort, precedence, diffserv3, diffserv4, diffserv8, \
                    or tins of your own such as \"tin rest tin calls share 1/4 map EF calls\")";
    let why = match (QueueSettings::from_words(words), other_than_tins(words)) {
        // The words of a whole queue are known there, and no other ones here.
        (
            Err(SettingsError {
                offset, word, problem: SettingsProblem::Unknown { nearest }, ..
            }),
            _,
        ) => {
            let meant = nearest.map_or(String::new(), |word| format!("; did you mean `{word}`?"));
            format!("at byte {offset}, `{word}`: unknown keyword{meant} {expected}")
        }
        (Err(error), None) => error.to_string(),
        (Err(error), Some(_)) if !is_of_the_sum(&error) => error.to_string(),
        (_, Some(word)) => format!("`{word}` is not a keyword for tins {expected}"),
        (Ok(settings), None) => match settings.tins {
            Some(plan) => return Ok(plan),
            None => format!("invalid value {expected}"),
        },
    };
    Err(format!("{option} {words:?}: {why}"))
}

/// Whether it is the fault of all tins together, and of no single word.
const fn is_of_the_sum(error: &SettingsError) -> bool {
    matches!(error.problem, SettingsProblem::Tins(TinPlanError::Crowded { .. }))
}

/// The first of `words`, those of a queue's settings, that says something else than tins.
fn other_than_tins(words: &str) -> Option<&str> {
    let mut words = words.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let values = match word {
            "tin" | "share" | "weight" | "default-tin" => 1,
            "map" => 2,
            _ if word.parse::<TinMode>().is_ok() => 0,
            _ => return Some(word),
        };
        words.by_ref().take(values).for_each(drop);
    }
    None
}

/// A mask of bits, as `tc` writes it.
fn fwmark(option: &str, word: &str) -> Result<Fwmark, String> {
    let words = format!("fwmark {word}");
    let settings =
        QueueSettings::from_words(&words).ok().filter(|_| !word.contains(char::is_whitespace));
    let mask = settings.and_then(|settings| settings.fwmark);
    mask.map(Fwmark::new).ok_or_else(|| {
        format!(
            "{option} {word:?}: invalid value (expected a bit mask from 0 to 0xffffffff, \
             such as 255 or 0xff)"
        )
    })
}

/// The bits of a mark that name a tin, as they are said; empty if there are none.
pub(crate) fn fwmark_word(fwmark: Fwmark) -> String {
    if fwmark == Fwmark::NONE { String::new() } else { format!("{:#x}", fwmark.mask()) }
}

/// Reads a size as `tc` writes it, or `by-rate`.
pub(super) fn size(word: &str) -> Option<MemoryLimit> {
    let words = format!("memlimit {word}");
    let settings =
        QueueSettings::from_words(&words).ok().filter(|_| !word.contains(char::is_whitespace));
    settings?.memory_limit
}

/// A memory limit: `by-rate`, or a size as `tc` writes it.
fn memory_limit(option: &str, word: &str) -> Result<MemoryLimit, String> {
    size(word).ok_or_else(|| {
        format!(
            "{option} {word:?}: invalid value (expected {BY_RATE}, or 1 to {} bytes, such as 4mb, 512kb, \
             300000)",
            u32::MAX
        )
    })
}
