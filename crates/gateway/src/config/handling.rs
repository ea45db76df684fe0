//! Frame handling other than scheduling: acknowledgements, code points, drops, memory, late timers.

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

/// A set of directions.
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

/// Catch-up allowed to the shaper after a late wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// Limited in time.
    CatchUp(Nanos),
    /// Limited in bytes, whatever the rate.
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

    /// Returns the text for the log of changes.
    pub(crate) fn word(self) -> String {
        match self {
            Self::CatchUp(span) => format!("{} ms", span.0 / 1_000_000),
            Self::Burst(bytes) => format!("{bytes} bytes"),
        }
    }
}

/// Frame handling as configured, for both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handling {
    /// Applies to uploads only.
    pub(crate) ack_filter: AckFilter,
    pub(crate) wash: Ways,
    /// True if frames of several packets are segmented on arrival.
    pub(crate) splits_gso: bool,
    /// Applies to downloads only, where the link is before the gateway.
    pub(crate) is_ingress: bool,
    /// True if a host has one share across all tins.
    pub(crate) hosts_across_tins: bool,
    pub(crate) memory_limit: Option<MemoryLimit>,
    pub(crate) late: Late,
    /// `None` for a single tin.
    pub(crate) tins: Option<TinPlan>,
    pub(crate) tin_by: TinBy,
    /// Bits of the firewall mark that select the tin.
    pub(crate) fwmark: Fwmark,
}

impl Handling {
    /// Returns the frame handling of one direction with this maximum rate and round-trip time.
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

/// Frame handling of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Treatment {
    pub(crate) ack_filter: AckFilter,
    pub(crate) is_washed: bool,
    /// True if frames of several packets are segmented on arrival.
    pub(crate) splits_gso: bool,
    pub(crate) is_ingress: bool,
    /// True if a host has one share across all tins.
    pub(crate) hosts_across_tins: bool,
    /// Highest rate that the direction may have, for limits derived from the rate.
    pub(crate) greatest_rate: Rate,
    /// Limit of the buffers of queued frames in bytes.
    pub(crate) memory_limit: Option<u32>,
    pub(crate) late: Late,
    /// `None` for a single tin.
    pub(crate) tins: Option<TinPlan>,
    /// Header field that selects the tin.
    pub(crate) tin_by: TinBy,
    /// Bits of the firewall mark that select the tin.
    pub(crate) fwmark: Fwmark,
}

#[cfg(test)]
impl Default for Treatment {
    fn default() -> Self {
        Handling::default().of(Heading::Up, Rate::UNLIMITED, Rtt::default())
    }
}

impl Treatment {
    /// Returns the tins, possibly a single one.
    pub(crate) fn tins(&self) -> TinPlan {
        self.tins.unwrap_or(TinMode::BestEffort.plan())
    }
}

/// Formats tins as the keywords that they are parsed from.
pub(crate) fn tins_word(tins: Option<TinPlan>) -> String {
    let Some(plan) = tins else { return TinMode::BestEffort.word().to_owned() };
    let mut settings = QueueSettings::NONE;
    settings.tins = Some(plan);
    settings.to_string()
}

/// Formats a round-trip time as parsed: `regional`, or `20ms`.
pub(crate) fn rtt_word(rtt: Rtt) -> String {
    rtt.to_string()
}

/// Parses a round-trip time: a keyword, or a time with its unit. The unit is required because `tc`
/// reads microseconds where users mean milliseconds.
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

/// Formats a memory limit for the log of changes.
pub(crate) fn memory_word(limit: Option<MemoryLimit>) -> String {
    match limit {
        None => "off".to_owned(),
        Some(MemoryLimit::ByRate) => BY_RATE.to_owned(),
        Some(MemoryLimit::Bytes(bytes)) => format!("{bytes} bytes"),
        Some(other) => format!("{other:?}"),
    }
}

/// Default of `--catch-up` in milliseconds: how long a busy home router keeps a process waiting.
const DEFAULT_CATCH_UP: i64 = 10;
/// Maximum of `--burst` in bytes.
const MOST_BURST: i64 = 1 << 30;
/// Keyword for a memory limit derived from the rate.
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

    /// Returns the tins if there are several.
    fn tins(&self, kind: QueueKind) -> Result<Option<TinPlan>, String> {
        let plan = self.read("--tins", &self.tins, tins)?.filter(|plan| plan.count() > 1);
        if plan.is_none() || kind == QueueKind::Drr {
            return Ok(plan);
        }
        let why = format!("not available with --queue {} (expected besteffort)", kind.word());
        Err(self.not_with("--tins", &self.tins, &why))
    }

    /// Returns true if a host has one share across all tins. Requires several tins and host
    /// isolation above flows.
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

    /// Returns the header field that selects a tin.
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

    /// Returns the bits of the firewall mark that select a tin. TAP devices have no marks.
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

    /// Returns the framing of the link. Without options for it, frames count with their own length.
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

    /// Formats an error about an option that conflicts with others.
    pub(super) fn not_with(&self, option: &str, word: &Option<Word>, why: &str) -> String {
        let text = word.as_ref().map_or("", Word::text);
        format!("{}{option} {text:?}: {why}", self.place(word.as_ref()))
    }
}

/// Parses keywords for tins, and no other keywords of a queue's settings.
fn tins(option: &str, words: &str) -> Result<TinPlan, String> {
    let expected = "(expected besteffort, precedence, diffserv3, diffserv4, diffserv8, \
                    or tins of your own such as \"tin rest tin calls share 1/4 map EF calls\")";
    let why = match (QueueSettings::from_words(words), other_than_tins(words)) {
        // The library suggests keywords of a whole queue; here only those for tins are accepted.
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

/// Returns true if the error concerns all tins together and no single keyword.
const fn is_of_the_sum(error: &SettingsError) -> bool {
    matches!(error.problem, SettingsProblem::Tins(TinPlanError::Crowded { .. }))
}

/// Returns the first of `words`, keywords of a queue's settings, that is not about tins.
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

/// Parses a bit mask as `tc` writes it.
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

/// Formats the bits of a mark that select a tin; empty if there are none.
pub(crate) fn fwmark_word(fwmark: Fwmark) -> String {
    if fwmark == Fwmark::NONE { String::new() } else { format!("{:#x}", fwmark.mask()) }
}

/// Parses a size as `tc` writes it, or `by-rate`.
pub(super) fn size(word: &str) -> Option<MemoryLimit> {
    let words = format!("memlimit {word}");
    let settings =
        QueueSettings::from_words(&words).ok().filter(|_| !word.contains(char::is_whitespace));
    settings?.memory_limit
}

/// Parses a memory limit: `by-rate`, or a size as `tc` writes it.
fn memory_limit(option: &str, word: &str) -> Result<MemoryLimit, String> {
    size(word).ok_or_else(|| {
        format!(
            "{option} {word:?}: invalid value (expected {BY_RATE}, or 1 to {} bytes, such as 4mb, 512kb, \
             300000)",
            u32::MAX
        )
    })
}
