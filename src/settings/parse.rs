//! Parsing settings from keywords.

use core::str::SplitAsciiWhitespace;

use sched_core::Nanos;
use shaper::{KeywordProblem, Overhead, QuotedWord, Rate};

use super::QueueSettings;
use super::error::{SettingsError, SettingsProblem};
use super::units::{memory_limit, time};
use super::vocabulary::{nearest, needs_number, not_offered, values};
use crate::ack_filter::AckFilter;
use crate::isolation::Isolation;
use crate::smart_queue::{AqmKind, Rtt};
use crate::tins::{Dscp, Tin, TinMode, TinName, TinPlan, TinPlanError, TinShare};

/// The expected values after keywords.
const RATE: &str = "a rate from 1kbit to 400gbit, `unlimited` or `stopped`";
const TIME: &str = "a time from 20480ns to 8589934591ns, as 30ms";
const SIZE: &str = "a size from 1b to 4294967295b, as 4mb, or `by-rate`";
const BY: &str = "`dscp`, `inner-dscp` or `priority`";
const MASK: &str = "a mask of bits, as 255 or 0xff";
const NAME: &str = "the name of a tin";
const WEIGHT: &str = "a weight from 1 to 65535";
const SHARE: &str = "a share above 0 and up to 1, as 1/4, 25% or 12.5%";
const CODES: &str = "code points and the name of a tin, as `EF,VA,40 voice`";
/// The problem of a keyword whose feature is off.
const LEFT_OUT: &str = "it needs a feature of `freeboard` that is off";

/// The words of a text, with their positions.
#[derive(Clone)]
struct Words<'a> {
    text: &'a str,
    rest: SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, rest: settings_in(text) }
    }

    /// Returns the error for `word`, a part of the text.
    fn error(&self, word: &str, problem: SettingsProblem) -> SettingsError {
        let offset = word.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        SettingsError { offset, word: QuotedWord::new(word), problem }
    }

    /// Reads the value after `word` with `read`.
    fn value<V>(
        &mut self,
        word: &'a str,
        expected: &'static str,
        read: impl FnOnce(&'a str) -> Option<V>,
    ) -> Result<V, SettingsError> {
        let value = self.raw_value(word, expected)?;
        read(value).ok_or_else(|| self.error(value, SettingsProblem::Value { expected }))
    }

    /// Returns the value after `word`.
    fn raw_value(
        &mut self,
        word: &'a str,
        expected: &'static str,
    ) -> Result<&'a str, SettingsError> {
        self.rest.next().ok_or_else(|| self.error(word, SettingsProblem::Missing { expected }))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }
}

/// Returns the words of the text, or those after `qdisc cake 8001: dev eth0 root refcnt 2` in a
/// line printed by `tc`.
fn settings_in(text: &str) -> SplitAsciiWhitespace<'_> {
    let all = text.split_ascii_whitespace();
    let mut words = all.clone();
    if words.next() != Some("qdisc") || words.next() != Some("cake") {
        return all;
    }
    let _handle = words.next();
    loop {
        let mut behind = words.clone();
        match behind.next() {
            Some("root") => {}
            Some("dev" | "parent" | "refcnt") => {
                behind.next();
            }
            _ => return words,
        }
        words = behind;
    }
}

/// Returns the words of the text that are no keywords of ours, each followed by the next word if it
/// needs a number.
fn others(text: &str) -> impl Iterator<Item = &str> {
    let mut words = settings_in(text);
    let mut is_number_next = false;
    core::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            if core::mem::take(&mut is_number_next) {
                return Some(word);
            }
            let Some(count) = values(word) else {
                is_number_next = needs_number(word);
                return Some(word);
            };
            for _ in 0..count {
                words.next();
            }
        }
    })
}

/// The caller's own tins, as far as they have been parsed.
struct Named<'a> {
    tins: [Tin; TinPlan::MAX_TINS],
    count: usize,
    /// The last weight given for the tin parsed last.
    weight: Option<u16>,
    /// The word of the last of them.
    at: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn add(&mut self, word: &'a str, name: TinName) -> Result<(), TinPlanError> {
        let given = self.count.saturating_add(1);
        if self.tins.iter().take(self.count).any(|tin| *tin.name() == name) {
            return Err(TinPlanError::SameName(name));
        }
        let place = self.tins.get_mut(self.count).ok_or(TinPlanError::Tins { given })?;
        *place = Tin::new(name, TinShare::ALL);
        (self.count, self.weight, self.at) = (given, None, Some(word));
        Ok(())
    }

    fn last(&mut self) -> Option<&mut Tin> {
        self.tins.get_mut(self.count.checked_sub(1)?)
    }

    fn set_share(&mut self, share: TinShare) -> Option<()> {
        let weight = self.weight;
        let tin = self.last()?;
        let with_share = Tin::new(*tin.name(), share);
        *tin = weight.and_then(|weight| with_share.with_weight(weight).ok()).unwrap_or(with_share);
        Some(())
    }

    fn set_weight(&mut self, weight: u16) -> Option<()> {
        let tin = self.last()?;
        *tin = tin.with_weight(weight).unwrap_or(*tin);
        self.weight = Some(weight);
        Some(())
    }
}

pub(super) fn parse(text: &str) -> Result<QueueSettings, SettingsError> {
    let mut settings = QueueSettings::NONE;
    let (mut mode, mut names_points) = (None, false);
    let nameless = Tin::new(TinName::NONE, TinShare::ALL);
    let mut named = Named { tins: [nameless; TinPlan::MAX_TINS], count: 0, weight: None, at: None };
    let (mut link_at, mut words) = (None, Words::of(text));
    while let Some(word) = words.next() {
        let s = &mut settings;
        match word {
            "bandwidth" => s.rate = Some(words.value(word, RATE, |word| word.parse().ok())?),
            "unlimited" => s.rate = Some(Rate::UNLIMITED),
            "nat" | "nonat" => s.nat = Some(word == "nat"),
            "wash" | "nowash" => s.wash = Some(word == "wash"),
            #[cfg(feature = "ack-filter")]
            "ack-filter" => s.ack_filter = Some(AckFilter::Conservative),
            #[cfg(feature = "ack-filter")]
            "ack-filter-aggressive" => s.ack_filter = Some(AckFilter::Aggressive),
            "no-ack-filter" => s.ack_filter = Some(AckFilter::Off),
            "hosts-across-tins" => s.hosts_across_tins = Some(true),
            "hosts-in-each-tin" => s.hosts_across_tins = Some(false),
            "ingress" | "egress" => s.ingress = Some(word == "ingress"),
            "autorate-ingress" => s.autorate = Some(true),
            "no-autorate-ingress" => s.autorate = Some(false),
            "rtt" => s.rtt = Some(words.value(word, TIME, rtt)?),
            "codel" | "cobalt" => s.aqm = word.parse().ok(),
            #[cfg(feature = "aqms")]
            "pie" | "pi2" | "red" | "blue" => s.aqm = word.parse().ok(),
            "no-aqm" => s.aqm = Some(AqmKind::None),
            "l4s" | "no-l4s" => s.l4s = Some(word == "l4s"),
            "memlimit" => s.memory_limit = Some(words.value(word, SIZE, memory_limit)?),
            "split-gso" | "no-split-gso" => s.split_gso = Some(word == "split-gso"),
            "tin-by" => s.tin_by = Some(words.value(word, BY, |word| word.parse().ok())?),
            "fwmark" => s.fwmark = Some(words.value(word, MASK, mask)?),
            "tin" => {
                let name = words.value(word, NAME, |name| TinName::new(name).ok())?;
                let added = named.add(word, name);
                added.map_err(|error| words.error(word, SettingsProblem::Tins(error)))?;
                if mode.is_some() {
                    return Err(words.error(word, SettingsProblem::TwoPlans));
                }
            }
            "share" => {
                let value = words.raw_value(word, SHARE)?;
                let share = value.parse();
                let share =
                    share.map_err(|error| words.error(value, SettingsProblem::Tins(error)))?;
                let set = named.set_share(share);
                set.ok_or_else(|| words.error(word, SettingsProblem::NoTin))?;
            }
            "weight" => {
                let weight = words.value(word, WEIGHT, weight)?;
                let set = named.set_weight(weight);
                set.ok_or_else(|| words.error(word, SettingsProblem::NoTin))?;
            }
            "map" => {
                words.raw_value(word, CODES)?;
                words.raw_value(word, CODES)?;
                names_points = true;
            }
            "default-tin" => {
                words.raw_value(word, NAME)?;
                names_points = true;
            }
            _ => {
                let is_mode = word.parse::<TinMode>();
                if let (Ok(_), Some(_)) = (is_mode, named.at) {
                    return Err(words.error(word, SettingsProblem::TwoPlans));
                }
                if let Ok(found) = is_mode {
                    mode = Some(found);
                } else if let Ok(isolation) = word.parse::<Isolation>() {
                    s.isolation = Some(isolation);
                } else if let Some(&(_, rtt)) = Rtt::PRESETS.iter().find(|(name, _)| *name == word)
                {
                    s.rtt = Some(rtt);
                } else if values(word).is_some() {
                    // A keyword of ours that was not handled above: its feature is off.
                    let problem = SettingsProblem::NotOffered { instead: LEFT_OUT };
                    return Err(words.error(word, problem));
                } else {
                    link_at = Some(word);
                    if needs_number(word) {
                        words.next();
                    }
                }
            }
        }
    }
    if link_at.is_some() {
        settings.framing = Some(link(text, &words)?);
    }
    let at_tin = |at, error| words.error(at, SettingsProblem::Tins(error));
    settings.tins = match (mode, named.at) {
        (Some(mode), _) => Some(with_points(text, mode.plan())?),
        (None, Some(at)) => {
            let tins = named.tins.get(..named.count).unwrap_or_default();
            let plan = TinPlan::of_any_sum(tins).map_err(|error| at_tin(at, error))?;
            let plan = with_points(text, plan)?;
            // Checked last, since no single word is at fault for the sum.
            plan.check_sum().map_err(|error| at_tin(at, error))?;
            Some(plan)
        }
        (None, None) if names_points => Some(with_points(text, TinPlan::default())?),
        (None, None) => None,
    };
    Ok(settings)
}

/// Parses the framing of the link from the words that are no keywords of ours.
fn link<'a>(text: &'a str, words: &Words<'a>) -> Result<(Overhead, Overhead), SettingsError> {
    let of = |header| {
        Overhead::from_words(others(text), header).map_err(|error| {
            let word = others(text).nth(error.index).unwrap_or_default();
            let problem = match (error.problem, not_offered(word)) {
                (KeywordProblem::Unknown, Some(instead)) => SettingsProblem::NotOffered { instead },
                (KeywordProblem::Unknown, None) => {
                    SettingsProblem::Unknown { nearest: nearest(word) }
                }
                (problem, _) => SettingsProblem::Link(problem),
            };
            words.error(word, problem)
        })
    };
    Ok((of(Overhead::ETHERNET_HEADER)?, of(0)?))
}

/// Adds the default tin and the code points of the text to the plan.
fn with_points(text: &str, mut plan: TinPlan) -> Result<TinPlan, SettingsError> {
    let mut words = Words::of(text);
    while let Some(word) = words.next() {
        match word {
            "default-tin" => {
                let name = words.raw_value(word, NAME)?;
                plan = plan
                    .with_default(name)
                    .map_err(|error| words.error(name, SettingsProblem::Tins(error)))?;
            }
            "map" => {
                let codes = words.raw_value(word, CODES)?;
                let name = words.raw_value(word, CODES)?;
                // A slice of one `char` as pattern, as in `units::micros`: no index that can panic.
                for code in codes.split([',']) {
                    let expected = CODES;
                    let dscp = code.parse::<Dscp>().map_err(|_| {
                        let at = if code.is_empty() { codes } else { code };
                        words.error(at, SettingsProblem::Value { expected })
                    })?;
                    plan = plan.with(dscp, name).map_err(|error| {
                        let at = if matches!(error, TinPlanError::Twice(_)) { code } else { name };
                        words.error(at, SettingsProblem::Tins(error))
                    })?;
                }
            }
            _ => {
                for _ in 0..values(word).unwrap_or(0) {
                    words.next();
                }
            }
        }
    }
    Ok(plan)
}

fn rtt(word: &str) -> Option<Rtt> {
    time(word).and_then(|span: Nanos| Rtt::new(span).ok())
}

/// Parses digits without a sign.
fn digits(word: &str, radix: u32) -> Option<u32> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(word, radix).ok()).flatten()
}

fn mask(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(hex) => digits(hex, 16),
        None => digits(word, 10),
    }
}

fn weight(word: &str) -> Option<u16> {
    digits(word, 10).and_then(|weight| u16::try_from(weight).ok()).filter(|&weight| weight > 0)
}
