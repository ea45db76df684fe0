//! Autorate options: ranges of rates, reflectors, and the estimate from arrivals.

use core::net::IpAddr;

use freeboard::sched_core::Nanos;
use freeboard::shaper::{AutorateParams, Rate};

use crate::config::RawOptions;
use crate::config::keywords::{LEAST_RATE, MOST_RATE, Switch, Words as _, finite_rate, rate_word};
use crate::forward::queue::Heading;

/// Autorate settings. The base rate of a direction is its configured rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Follow {
    /// Addresses to ping, one at a time; the next one is used if the current one is silent.
    pub(crate) reflectors: Vec<IpAddr>,
    /// Delay-based autorate for upload and download.
    pub(crate) by_delay: [Option<AutorateParams>; 2],
    /// Arrival-based autorate of the download: minimum and maximum rate.
    pub(crate) by_arrivals: Option<(Rate, Rate)>,
}

impl Follow {
    /// Returns the highest rate that autorate may set for a direction.
    pub(crate) fn most(&self, heading: Heading) -> Option<Rate> {
        let by_delay = self.by_delay[heading as usize];
        let most = by_delay.and_then(|of| Rate::bits_per_second(of.ceiling_bps()).ok());
        let by_arrivals = self.by_arrivals.filter(|_| heading == Heading::Down);
        most.or(by_arrivals.map(|(_, most)| most))
    }

    /// Returns the text for the log of changes.
    pub(crate) fn word(&self) -> String {
        let mut words: Vec<String> = self.reflectors.iter().map(IpAddr::to_string).collect();
        for (name, params) in ["up", "down"].into_iter().zip(self.by_delay) {
            words.extend(params.map(|of| {
                let [least, most] = [of.floor_bps(), of.ceiling_bps()]
                    .map(|bits| Rate::bits_per_second(bits).map_or(String::new(), rate_word));
                format!("{name} {least} to {most}")
            }));
        }
        words.extend(
            self.by_arrivals.map(|(least, most)| {
                format!("arrivals {} to {}", rate_word(least), rate_word(most))
            }),
        );
        if words.is_empty() { "off".to_owned() } else { words.join(", ") }
    }
}

/// Maximum number of reflectors.
const MOST_REFLECTORS: usize = 16;

impl RawOptions {
    pub(super) fn follow(&self, up: Rate, down: Rate) -> Result<Follow, String> {
        let reflectors = self.read("--autorate", &self.autorate, reflectors)?.unwrap_or_default();
        let by_arrivals = self.read("--autorate-ingress", &self.autorate_ingress, Switch::parse)?;
        let by_arrivals = by_arrivals == Some(Switch::On);
        let delay = self.in_range("--autorate-delay", &self.autorate_delay, 1..=1_000)?;
        let is_on = !reflectors.is_empty();
        let directions = [
            (Heading::Up, up, &self.up_min, &self.up_max),
            (Heading::Down, down, &self.down_min, &self.down_max),
        ];
        let mut follow = Follow { reflectors, ..Follow::default() };
        for (heading, base, least_word, most_word) in directions {
            let options = [("min", least_word), ("max", most_word)]
                .map(|(end, word)| (format!("--{}-{end}", heading.name()), word));
            let [(least_option, _), (most_option, _)] = &options;
            let is_by_arrivals = by_arrivals && heading == Heading::Down;
            let given = options.iter().find(|(_, word)| word.is_some());
            if let Some((option, word)) = given
                && !is_on
                && !is_by_arrivals
            {
                let why = match heading {
                    Heading::Up => "not available without --autorate",
                    Heading::Down => "not available without --autorate or --autorate-ingress",
                };
                return Err(self.not_with(option, word, why));
            }
            let least = self.read(least_option, least_word, finite_rate)?;
            let most = self.read(most_option, most_word, finite_rate)?;
            if let Some((beside, _)) = given
                && base == Rate::UNLIMITED
            {
                let word = if heading == Heading::Up { &self.up } else { &self.down };
                let why = format!(
                    "not available with {beside} (expected {LEAST_RATE} to {MOST_RATE}, such as 10mbit)"
                );
                return Err(self.not_with(&format!("--{}", heading.name()), word, &why));
            }
            let Some(least) = least else {
                if let Some(word) = most_word {
                    let why = format!("not available without {least_option}");
                    return Err(self.not_with(most_option, &Some(word.clone()), &why));
                }
                continue;
            };
            let most = most.unwrap_or(base);
            let bits = |rate: Rate| rate.as_bits_per_second().unwrap_or(0);
            if bits(least) > bits(base) {
                let base = rate_word(base);
                let name = heading.name();
                let why = format!("above --{name} (expected {LEAST_RATE} to {base})");
                return Err(self.not_with(least_option, least_word, &why));
            }
            if bits(most) < bits(base) {
                let base = rate_word(base);
                let name = heading.name();
                let why = format!("below --{name} (expected {base} to {MOST_RATE})");
                return Err(self.not_with(most_option, most_word, &why));
            }
            if is_by_arrivals {
                follow.by_arrivals = Some((least, most));
            }
            if is_on {
                let params =
                    AutorateParams::new(least, base, most).and_then(|params| match delay {
                        Some(millis) => {
                            params.with_threshold(Nanos::from_millis(millis.unsigned_abs()))
                        }
                        None => Ok(params),
                    });
                let params = params
                    .map_err(|why| self.not_with(least_option, least_word, &why.to_string()))?;
                follow.by_delay[heading as usize] = Some(params);
            }
        }
        if is_on && follow.by_delay == [None, None] {
            return Err(self.not_with(
                "--autorate",
                &self.autorate,
                "not available without --up-min or --down-min",
            ));
        }
        if by_arrivals && follow.by_arrivals.is_none() {
            let why = "not available without --down-min";
            return Err(self.not_with("--autorate-ingress", &self.autorate_ingress, why));
        }
        if !is_on && let Some(word) = &self.autorate_delay {
            return Err(self.not_with(
                "--autorate-delay",
                &Some(word.clone()),
                "not available without --autorate",
            ));
        }
        Ok(follow)
    }
}

/// Parses comma-separated addresses.
fn reflectors(option: &str, word: &str) -> Result<Vec<IpAddr>, String> {
    let refused = || {
        format!(
            "{option} {word:?}: invalid value (expected 1 to {MOST_REFLECTORS} comma-separated \
             addresses that answer ping, or off; no link-local ones such as fe80::1)"
        )
    };
    if word == "off" {
        return Ok(Vec::new());
    }
    let parse = |text: &str| {
        text.trim().parse::<IpAddr>().ok().filter(|address| {
            !address.is_unspecified() && !address.is_multicast() && !is_of_a_link(*address)
        })
    };
    let all: Option<Vec<IpAddr>> = word.split(',').map(parse).collect();
    let all = all.filter(|all| all.len() <= MOST_REFLECTORS).ok_or_else(refused)?;
    // The next address to ping must differ from the current one.
    let is_seen =
        |(at, address): &(usize, &IpAddr)| all.iter().take(*at).any(|seen| seen == *address);
    match all.iter().enumerate().find(is_seen) {
        Some((_, address)) => {
            Err(format!("{option} {word:?}: {address} is given twice (expected each address once)"))
        }
        None => Ok(all),
    }
}

/// Returns true for an address that is valid on one link only, so that an interface would be needed
/// to reach it, or that is broadcast.
const fn is_of_a_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
