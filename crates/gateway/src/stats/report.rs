//! What the gateway says of itself: as JSON to each client and at the end, as metrics for Prometheus.

use core::fmt::Write as _;

use freeboard::sched_core::{DropReason, Nanos};
use freeboard::{AckFilter, Tin, TinCounters};
use serde::{Deserialize, Serialize};

use crate::config::handling::{Treatment, rtt_word, tins_word};
use crate::config::keywords::{Switch, Words as _, rate_word};
use crate::forward::direction::Direction;
use crate::forward::follow::Following;
use crate::stats::accounts::Account;
use crate::stats::flow_stats::{DEVICE, Tally, reasons};
use crate::stats::histogram::Histogram;

/// Of the format of reports, which `docs/guide/statistics.md` describes.
const VERSION: u32 = 1;

/// What has become of changes of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reloads {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// None before the first.
    pub(crate) is_last_accepted: Option<bool>,
    /// When the configuration in force was read, in seconds of Unix time.
    #[serde(skip)]
    read_at: u64,
}

impl Default for Reloads {
    fn default() -> Self {
        Self::new()
    }
}

impl Reloads {
    /// None yet: the configuration in force is that of the start, which is now.
    pub(crate) fn new() -> Self {
        Self { accepted: 0, refused: 0, is_last_accepted: None, read_at: unix_time() }
    }

    /// Counts one.
    pub(crate) fn count(&mut self, is_accepted: bool) {
        self.is_last_accepted = Some(is_accepted);
        if is_accepted {
            self.accepted += 1;
            self.read_at = unix_time();
        } else {
            self.refused += 1;
        }
    }
}

fn unix_time() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_secs())
}

/// The state of both directions at one instant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Of this format.
    #[serde(default)]
    pub(crate) version: u32,
    /// The version of the program.
    #[serde(default)]
    pub(crate) program: String,
    /// Seconds since the gateway was started.
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) reloads: Reloads,
    /// Of the answers that rates follow; null if none do.
    #[serde(default)]
    pub(crate) reflector: Option<Reflected>,
    /// Connections that are known to be translated; null if hosts behind a translation are not looked for.
    #[serde(default)]
    pub(crate) nat: Option<u64>,
    pub(crate) directions: Vec<DirectionReport>,
}

/// The one that answers echo requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reflected {
    pub(crate) address: String,
    /// Of the last answer.
    pub(crate) delay_ms: Option<f64>,
    pub(crate) requests: u64,
    pub(crate) answers: u64,
}

/// How the rate of a direction follows the line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Followed {
    /// What the last decision was.
    pub(crate) state: String,
    pub(crate) min_bits_per_second: u64,
    pub(crate) max_bits_per_second: u64,
    /// What arrivals tell of the line, if they are followed.
    pub(crate) arrivals_bits_per_second: Option<u64>,
    /// The delay of the path without a queue, as far as it is known.
    pub(crate) baseline_ms: Option<f64>,
}

/// The state of one direction. Packets and bytes are counted since the start, delays since the last report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DirectionReport {
    pub(crate) name: String,
    pub(crate) rate: String,
    #[serde(default)]
    pub(crate) rate_bits_per_second: Option<u64>,
    /// How the rate follows the line; null if it does not.
    #[serde(default)]
    pub(crate) autorate: Option<Followed>,
    pub(crate) queue: String,
    pub(crate) hosts: String,
    #[serde(default)]
    pub(crate) aqm: String,
    /// Whether packets with ECT(1) are marked above a shallow threshold.
    #[serde(default)]
    pub(crate) l4s: bool,
    /// The round-trip time that the AQM is set for, as it is configured.
    #[serde(default)]
    pub(crate) rtt: String,
    /// Which header names the tin, where there are several.
    #[serde(default)]
    pub(crate) tin_by: String,
    /// How much of waiting acknowledgements is dropped; empty if nothing is.
    #[serde(default)]
    pub(crate) ack_filter: String,
    /// Whether frames leave without their code points.
    #[serde(default)]
    pub(crate) wash: bool,
    /// Whether the line is charged what is dropped.
    #[serde(default)]
    pub(crate) ingress: bool,
    /// What a packet is on the wire.
    #[serde(default)]
    pub(crate) link: String,
    /// The most frames that may be queued.
    #[serde(default)]
    pub(crate) limit_packets: u32,
    /// Their bytes.
    #[serde(default)]
    pub(crate) limit_bytes: u32,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    /// Marked here: those that came with a mark are not in it.
    pub(crate) marked: u64,
    /// Accepted with a mark that was set before.
    #[serde(default)]
    pub(crate) came_marked: u64,
    /// Came with a code point that was cleared.
    #[serde(default)]
    pub(crate) washed: u64,
    /// By reason, those that are not zero.
    pub(crate) drops: Vec<(String, u64)>,
    /// Of frames that were dropped as merged.
    #[serde(default)]
    pub(crate) merged_bytes: u64,
    /// Received less all that is known: zero.
    pub(crate) unaccounted: i64,
    /// Thrown away by the kernel before they were received.
    pub(crate) overruns: u64,
    pub(crate) delay: Delay,
    /// Where there are several, the lowest first.
    #[serde(default)]
    pub(crate) tins: Vec<TinReport>,
    /// The hosts that hold or send most come first.
    pub(crate) hosts_seen: Vec<HostOrFlow>,
    pub(crate) flows_seen: Vec<HostOrFlow>,
}

/// A class of a direction. Counts are those of the present queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TinReport {
    pub(crate) name: String,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
}

impl TinReport {
    fn all(direction: &Direction) -> Vec<Self> {
        let of = |(tin, TinCounters { counters, backlog }): (&Tin, _)| Self {
            name: tin.name().as_str().to_owned(),
            sent: counters.delivered.packets,
            sent_bytes: counters.delivered.bytes,
            queued: backlog.packets.into(),
            queued_bytes: backlog.bytes.into(),
            marked: counters.marked,
            dropped: counters.rejected.packets + counters.dropped_total().packets,
        };
        direction.tins().map(of).collect()
    }
}

/// A host or a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostOrFlow {
    pub(crate) name: String,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) drops: Vec<(String, u64)>,
    pub(crate) delay: Delay,
}

/// How long packets waited, in milliseconds; nothing if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delay {
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Delay {
    fn of(histogram: &Histogram) -> Self {
        let millis = |percent| histogram.percentile(percent).map(|nanos| nanos as f64 / 1e6);
        Self { p50_ms: millis(50), p99_ms: millis(99) }
    }
}

impl Report {
    pub(crate) fn new(
        since_start: Nanos,
        reloads: &Reloads,
        directions: &[(&Direction, u64)],
        following: &Following,
        nat: Option<u64>,
    ) -> Self {
        let seconds = since_start.0 as f64 / 1e9;
        let directions = directions
            .iter()
            .enumerate()
            .map(|(at, &(direction, overruns))| {
                let autorate = following.report(at, direction);
                DirectionReport { autorate, ..DirectionReport::new(direction, overruns) }
            })
            .collect();
        Self {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            seconds,
            reloads: reloads.clone(),
            reflector: following.reflected(),
            nat,
            directions,
        }
    }

    /// A line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl DirectionReport {
    fn new(direction: &Direction, overruns: u64) -> Self {
        let (plan, outside) = (direction.plan(), direction.outside());
        let watch = direction.watch();
        Self {
            name: direction.heading().name().to_owned(),
            rate: rate_word(plan.rate),
            rate_bits_per_second: plan.rate.as_bits_per_second(),
            autorate: None,
            queue: plan.share.kind.word().to_owned(),
            hosts: plan.share.hosts.word().to_owned(),
            aqm: plan.share.aqm.word().to_owned(),
            l4s: plan.share.l4s,
            rtt: rtt_word(plan.share.rtt),
            tin_by: tin_by_word(plan.treatment),
            ack_filter: match plan.treatment.ack_filter {
                AckFilter::Off => String::new(),
                filter => filter.name().to_owned(),
            },
            wash: plan.treatment.is_washed,
            ingress: plan.treatment.is_ingress,
            link: direction.link().to_string(),
            limit_packets: direction.limits().packets,
            limit_bytes: direction.limits().bytes,
            received: outside.received,
            sent: outside.sent,
            sent_bytes: outside.sent_bytes,
            queued: direction.held(),
            queued_bytes: direction.queued_bytes(),
            marked: direction.counters().marked + outside.marked_before,
            came_marked: direction.counters().came_marked + outside.came_marked_before,
            washed: outside.washed,
            drops: drops(direction).into_iter().filter(|(_, count)| *count > 0).collect(),
            merged_bytes: outside.merged_bytes,
            unaccounted: direction.unaccounted(),
            overruns,
            delay: watch.map_or(Delay::default(), |watch| Delay::of(watch.recent())),
            tins: TinReport::all(direction),
            hosts_seen: watch.map_or(Vec::new(), |watch| hosts_or_flows(watch.hosts())),
            flows_seen: watch.map_or(Vec::new(), |watch| hosts_or_flows(watch.flows())),
        }
    }
}

/// All reasons for which frames of a direction did not leave, and how many.
fn drops(direction: &Direction) -> Vec<(String, u64)> {
    let (counters, outside) = (direction.counters(), direction.outside());
    let queue = DropReason::ALL.into_iter().filter(|&why| why != DropReason::Drained);
    let mut drops: Vec<(String, u64)> =
        queue.map(|why| (why.name().to_owned(), counters.dropped_for(why).packets)).collect();
    // What was drained into another queue was not lost, and is part of the sum of those before.
    let drained = counters.dropped_for(DropReason::Drained).packets;
    for (name, count) in [
        ("rejected", counters.rejected.packets + drained),
        ("earlier queue", outside.lost_before),
        ("too long", outside.too_long),
        ("merged", outside.merged),
        ("too short", outside.too_short),
        ("no frame free", outside.no_room),
        (DEVICE, outside.undeliverable),
    ] {
        drops.push((name.to_owned(), count));
    }
    drops
}

/// The most that are listed.
const LISTED: usize = 64;

fn hosts_or_flows<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Vec<HostOrFlow> {
    let mut all: Vec<&Tally> = tallies.collect();
    all.sort_by_key(|tally| core::cmp::Reverse((tally.queued_bytes, tally.sent_bytes)));
    let shown = |tally: &Tally| HostOrFlow {
        name: tally.name.clone(),
        sent: tally.sent_packets,
        sent_bytes: tally.sent_bytes,
        queued: tally.queued_packets,
        queued_bytes: tally.queued_bytes,
        drops: reasons()
            .zip(tally.drops)
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        delay: Delay::of(&tally.delays),
    };
    all.into_iter().take(LISTED).map(shown).collect()
}

/// A metric in the text format of Prometheus: what it is, and its values behind their labels.
fn metric(
    text: &mut String,
    (name, kind, help): (&str, &str, &str),
    values: impl IntoIterator<Item = (String, f64)>,
) {
    let _ = writeln!(text, "# HELP freeboard_{name} {help}.\n# TYPE freeboard_{name} {kind}");
    for (labels, value) in values {
        // As a word of the format: counts below 2^53 are written as they are.
        let value = if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() };
        let _ = writeln!(text, "freeboard_{name}{labels} {value}");
    }
}

/// The metrics of the program itself.
fn of_program(text: &mut String, up_for: Nanos, reloads: &Reloads) {
    let labels = format!(
        "{{version=\"{}\",format=\"{VERSION}\",arch=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let about = ("build_info", "gauge", "Version of the program and of its JSON; always 1");
    metric(text, about, [(labels, 1.0)]);
    let about = ("uptime_seconds", "gauge", "Time since the start");
    metric(text, about, [(String::new(), up_for.0 as f64 / 1e9)]);
    let about = ("config_reloads_total", "counter", "Times the configuration was read again");
    let counts = [("accepted", reloads.accepted), ("refused", reloads.refused)];
    let count = |(result, count)| (format!("{{result=\"{result}\"}}"), count as f64);
    metric(text, about, counts.map(count));
    let about = (
        "config_last_reload_successful",
        "gauge",
        "Whether the configuration was accepted when it was last read",
    );
    let is_good = reloads.is_last_accepted != Some(false);
    metric(text, about, [(String::new(), f64::from(u8::from(is_good)))]);
    let about = (
        "config_last_success_timestamp_seconds",
        "gauge",
        "When the configuration in force was read",
    );
    metric(text, about, [(String::new(), reloads.read_at as f64)]);
}

/// The metrics of tins.
fn of_tins(text: &mut String, directions: &[(&Direction, u64)]) {
    type Value = fn(&TinReport) -> u64;
    let all: [(&str, &str, &str, Value); 5] = [
        ("tin_sent_packets_total", "counter", "Frames sent, by tin", |tin| tin.sent),
        ("tin_sent_bytes_total", "counter", "Bytes sent, by tin", |tin| tin.sent_bytes),
        ("tin_marked_packets_total", "counter", "Packets marked here, by tin", |tin| tin.marked),
        (
            "tin_dropped_packets_total",
            "counter",
            "Frames that came to the queue and were not sent, by tin",
            |tin| tin.dropped,
        ),
        ("tin_queued_bytes", "gauge", "Bytes queued, by tin", |tin| tin.queued_bytes),
    ];
    let tins: Vec<(&str, Vec<TinReport>)> = directions
        .iter()
        .map(|(direction, _)| (direction.heading().name(), TinReport::all(direction)))
        .collect();
    for (name, kind, help, value) in all {
        let values = tins.iter().flat_map(|(heading, tins)| {
            tins.iter().map(move |tin| {
                let labels = format!("{{direction=\"{heading}\",tin=\"{}\"}}", tin.name);
                (labels, value(tin) as f64)
            })
        });
        metric(text, (name, kind, help), values);
    }
}

/// The metrics of rates that follow the line.
fn of_following(text: &mut String, directions: &[(&Direction, u64)], following: &Following) {
    type Value = fn(&Followed) -> Option<f64>;
    let all: [(&str, &str, Value); 4] = [
        ("autorate_min_bytes_per_second", "The least rate that follows the line", |of| {
            Some(of.min_bits_per_second as f64 / 8.0)
        }),
        ("autorate_max_bytes_per_second", "The greatest rate that follows the line", |of| {
            Some(of.max_bits_per_second as f64 / 8.0)
        }),
        ("autorate_arrivals_bytes_per_second", "What arrivals tell of the line", |of| {
            of.arrivals_bits_per_second.map(|bits| bits as f64 / 8.0)
        }),
        ("autorate_baseline_seconds", "Delay of the path without a queue", |of| {
            of.baseline_ms.map(|millis| millis / 1e3)
        }),
    ];
    let followed: Vec<(&str, Followed)> = directions
        .iter()
        .enumerate()
        .filter_map(|(at, (direction, _))| {
            Some((direction.heading().name(), following.report(at, direction)?))
        })
        .collect();
    let about = ("autorate_info", "gauge", "What the last decision about the rate was; always 1");
    let info = |(name, of): &(&str, Followed)| {
        (format!("{{direction=\"{name}\",state=\"{}\"}}", of.state), 1.0)
    };
    metric(text, about, followed.iter().map(info));
    for (name, help, value) in all {
        let value =
            |(name, of): &(&str, Followed)| Some((format!("{{direction=\"{name}\"}}"), value(of)?));
        metric(text, (name, "gauge", help), followed.iter().filter_map(value));
    }
    let reflected = following.reflected();
    let count = |of: fn(&Reflected) -> u64| {
        reflected.iter().map(move |all| (String::new(), of(all) as f64))
    };
    let about = ("autorate_requests_total", "counter", "Echo requests sent");
    metric(text, about, count(|of| of.requests));
    let about = ("autorate_answers_total", "counter", "Echo requests answered in time");
    metric(text, about, count(|of| of.answers));
    let about = ("autorate_delay_seconds", "gauge", "How long the last answer took");
    let delay = reflected.iter().filter_map(|of| {
        let labels = format!("{{reflector=\"{}\"}}", of.address);
        Some((labels, of.delay_ms? / 1e3))
    });
    metric(text, about, delay);
}

/// The metrics of hosts on the LAN side.
fn of_hosts(text: &mut String, directions: &[(&Direction, u64)]) {
    type Value = fn(&Account) -> u64;
    let all: [(&str, &str, &str, Value); 4] = [
        ("host_sent_packets_total", "counter", "Frames sent, by host", |a| a.sent_packets),
        ("host_sent_bytes_total", "counter", "Bytes sent, by host", |a| a.sent_bytes),
        (
            "host_dropped_packets_total",
            "counter",
            "Frames that came to the queue and were not sent, by host",
            |a| a.dropped_packets,
        ),
        ("host_queued_bytes", "gauge", "Bytes queued, by host", |a| a.queued_bytes),
    ];
    for (name, kind, help, value) in all {
        let hosts = directions.iter().flat_map(|(direction, _)| {
            let heading = direction.heading().name();
            let accounts = direction.watch().map_or(&[][..], |watch| watch.accounts());
            accounts.iter().map(move |account| {
                let labels = format!("{{direction=\"{heading}\",host=\"{}\"}}", account.name);
                (labels, value(account) as f64)
            })
        });
        metric(text, (name, kind, help), hosts);
    }
}

/// Which header names the tin; empty where there is one tin.
fn tin_by_word(treatment: Treatment) -> String {
    treatment.tins.map_or("", |_| treatment.tin_by.word()).to_owned()
}

/// How a direction is configured, as labels.
fn info(direction: &Direction) -> String {
    let (share, treatment) = (&direction.plan().share, &direction.plan().treatment);
    let switch = |is_on| Switch::of(is_on).word().to_owned();
    let labels = [
        ("direction", direction.heading().name().to_owned()),
        ("queue", share.kind.word().to_owned()),
        ("hosts", share.hosts.word().to_owned()),
        ("aqm", share.aqm.word().to_owned()),
        ("l4s", switch(share.l4s)),
        ("rtt", rtt_word(share.rtt)),
        ("tins", tins_word(treatment.tins)),
        ("tin_by", tin_by_word(*treatment)),
        ("ack_filter", treatment.ack_filter.name().to_owned()),
        ("wash", switch(treatment.is_washed)),
        ("ingress", switch(treatment.is_ingress)),
        ("link", direction.link().to_string()),
    ];
    let labels = labels.map(|(name, value)| format!("{name}=\"{value}\""));
    format!("{{{}}}", labels.join(","))
}

/// The metrics of both directions, in the text format of Prometheus 0.0.4.
pub(crate) fn metrics(
    up_for: Nanos,
    reloads: &Reloads,
    directions: &[(&Direction, u64)],
    following: &Following,
    nat: Option<u64>,
) -> String {
    type Value = fn(&Direction, u64) -> u64;
    let simple: [(&str, &str, &str, Value); 13] = [
        ("received_packets_total", "counter", "Frames received", |d, _| d.outside().received),
        ("sent_packets_total", "counter", "Frames sent", |d, _| d.outside().sent),
        ("sent_bytes_total", "counter", "Bytes sent", |d, _| d.outside().sent_bytes),
        (
            "marked_packets_total",
            "counter",
            "Packets marked with congestion experienced here",
            |d, _| d.counters().marked + d.outside().marked_before,
        ),
        (
            "came_marked_packets_total",
            "counter",
            "Packets queued that came marked with congestion experienced",
            |d, _| d.counters().came_marked + d.outside().came_marked_before,
        ),
        (
            "washed_packets_total",
            "counter",
            "Frames that came with a code point that was cleared",
            |d, _| d.outside().washed,
        ),
        (
            "overrun_packets_total",
            "counter",
            "Frames lost in the kernel before they were received",
            |_, o| o,
        ),
        ("merged_bytes_total", "counter", "Bytes of frames dropped as merged", |d, _| {
            d.outside().merged_bytes
        }),
        ("queued_packets", "gauge", "Frames held", |d, _| d.held()),
        ("queued_bytes", "gauge", "Bytes queued", |d, _| d.queued_bytes()),
        ("limit_packets", "gauge", "The most frames that may be queued", |d, _| {
            d.limits().packets.into()
        }),
        ("limit_bytes", "gauge", "The most bytes that may be queued", |d, _| {
            d.limits().bytes.into()
        }),
        ("unaccounted_packets", "gauge", "Frames of which nothing is known: zero", |d, _| {
            d.unaccounted().unsigned_abs()
        }),
    ];
    let mut text = String::new();
    of_program(&mut text, up_for, reloads);
    let labels =
        |direction: &Direction| format!("{{direction=\"{}\"}}", direction.heading().name());
    let rates = directions.iter().map(|(direction, _)| {
        let bits = direction.plan().rate.as_bits_per_second();
        (labels(direction), bits.map_or(f64::INFINITY, |bits| bits as f64 / 8.0))
    });
    let about = ("rate_bytes_per_second", "gauge", "The rate in force");
    metric(&mut text, about, rates);
    let about = ("queue_info", "gauge", "How the direction is configured; always 1");
    metric(&mut text, about, directions.iter().map(|(direction, _)| (info(direction), 1.0)));
    for (name, kind, help, value) in simple {
        let value = |&(direction, overruns): &(&Direction, u64)| {
            (labels(direction), value(direction, overruns) as f64)
        };
        metric(&mut text, (name, kind, help), directions.iter().map(value));
    }
    of_tins(&mut text, directions);
    of_following(&mut text, directions, following);
    let about = ("nat_connections", "gauge", "Translated connections whose host is known");
    metric(&mut text, about, nat.map(|count| (String::new(), count as f64)));
    of_hosts(&mut text, directions);
    let name = "freeboard_dropped_packets_total";
    let _ = writeln!(
        text,
        "# HELP {name} Frames that were not sent, by reason.\n# TYPE {name} counter"
    );
    for &(direction, _) in directions {
        for (why, count) in drops(direction) {
            let heading = direction.heading().name();
            let _ = writeln!(text, "{name}{{direction=\"{heading}\",reason=\"{why}\"}} {count}");
        }
    }
    let name = "freeboard_delay_seconds";
    let _ =
        writeln!(text, "# HELP {name} Time from arrival to departure.\n# TYPE {name} histogram");
    for &(direction, _) in directions {
        let heading = direction.heading().name();
        let Some(watch) = direction.watch() else { continue };
        for (end, count) in watch.total().cumulative() {
            let end = end as f64 / 1e9;
            let _ = writeln!(text, "{name}_bucket{{direction=\"{heading}\",le=\"{end}\"}} {count}");
        }
        let (count, sum) = (watch.total().count(), watch.total().sum() as f64 / 1e9);
        let _ = writeln!(text, "{name}_bucket{{direction=\"{heading}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{direction=\"{heading}\"}} {sum}");
        let _ = writeln!(text, "{name}_count{{direction=\"{heading}\"}} {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawOptions;
    use crate::forward::direction::Hosts;
    use crate::forward::queue::Heading;
    use crate::stats::flow_stats::Watched;
    use std::collections::BTreeSet;
    use std::path::Path;

    const PAGE: &str = include_str!("../../../../docs/guide/statistics.md");

    /// Both directions, with a host that has sent and lost a packet.
    fn directions(rate: &str) -> [Direction; 2] {
        let line = "lan = \"a\"\nwan = \"b\"\ntins = \"diffserv4\"";
        let text = format!("{line}\nup = \"{rate}\"\ndown = \"8mbit\"");
        let config = RawOptions::from_text(Path::new("x"), text).unwrap().check().unwrap();
        [Heading::Up, Heading::Down].map(|heading| {
            let plan = crate::forward::run::plan(&config, heading, 64, 1_522);
            let hosts = Hosts::new(&config, plan.max_len).unwrap();
            let watched = Some(Watched::Each);
            let mut direction = Direction::new(plan, config.link, hosts, [0; 16], watched).unwrap();
            let key = freeboard::flowhash::FlowKey::Unknown;
            let watch = direction.watch_mut().unwrap();
            let place = watch.arrived(Nanos(0), key, key.src_host(), 100);
            watch.sent(place, 100, Nanos(5));
            let place = watch.arrived(Nanos(0), key, key.src_host(), 60);
            watch.dropped(place, 60, DropReason::Rejected);
            direction
        })
    }

    /// Both directions follow the line, and the one down arrivals as well.
    fn following() -> Following {
        let text = "lan = \"a\"\nwan = \"b\"\nup = \"4mbit\"\ndown = \"8mbit\"\nautorate = \"192.0.2.1\"\n\
                    autorate-ingress = true\nup-min = \"1mbit\"\ndown-min = \"2mbit\"";
        let config =
            RawOptions::from_text(Path::new("x"), text.to_owned()).unwrap().check().unwrap();
        Following::new(config.follow, None, Nanos::ZERO)
    }

    /// The code between backticks in the tables and the text of the page, where it is about the gateway.
    fn on_page() -> BTreeSet<&'static str> {
        let (of_gateway, _) = PAGE.split_once("\n## Of the library\n").expect("both are there");
        of_gateway.split('`').skip(1).step_by(2).collect()
    }

    fn keys(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    found.insert(name.clone());
                    keys(value, found);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    /// Goal: the page names every field, every reason and every metric, and none that does not exist.
    #[test]
    fn the_page_names_what_there_is() {
        let [up, down] = directions("8mbit");
        let directions = [(&up, 0), (&down, 0)];
        let following = following();
        let report =
            Report::new(Nanos::from_secs(3), &Reloads::new(), &directions, &following, None);
        let mut fields = BTreeSet::new();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["version"], 1);
        keys(&json, &mut fields);
        let page = on_page();
        for field in &fields {
            assert!(page.contains(field.as_str()), "{field} is not on the page");
        }
        for (reason, _) in &drops(&up) {
            assert!(page.contains(reason.as_str()), "{reason} is not on the page");
        }
        let text = metrics(Nanos::from_secs(3), &Reloads::new(), &directions, &following, Some(1));
        let named: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let written: BTreeSet<&str> =
            page.into_iter().filter(|word| word.starts_with("freeboard_")).collect();
        assert_eq!(named, written);
    }

    /// Goal: the text is one that a collector reads: each metric once, counters with their ending, every value behind
    /// its type.
    #[test]
    fn metrics_are_well_formed() {
        let [up, down] = directions("unlimited");
        let mut reloads = Reloads::new();
        reloads.count(true);
        reloads.count(false);
        let directions = [(&up, 3), (&down, 0)];
        let text = metrics(Nanos::from_millis(1_500), &reloads, &directions, &following(), Some(7));
        let mut kinds = std::collections::BTreeMap::new();
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# TYPE ") {
                let (name, kind) = about.split_once(' ').unwrap();
                assert!(kinds.insert(name, kind).is_none(), "{name} twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            } else if !line.starts_with("# HELP ") {
                let name = line.split(['{', ' ']).next().unwrap();
                let of = ["_bucket", "_sum", "_count"]
                    .into_iter()
                    .find_map(|end| name.strip_suffix(end));
                assert!(
                    kinds.contains_key(name) || of.is_some_and(|of| kinds[of] == "histogram"),
                    "{line}"
                );
                let value = line.rsplit_once(' ').unwrap().1;
                assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
            }
        }
        for line in [
            "freeboard_rate_bytes_per_second{direction=\"up\"} +Inf",
            "freeboard_rate_bytes_per_second{direction=\"down\"} 1000000",
            "freeboard_uptime_seconds 1.5",
            "freeboard_config_reloads_total{result=\"accepted\"} 1",
            "freeboard_config_reloads_total{result=\"refused\"} 1",
            "freeboard_config_last_reload_successful 0",
            "freeboard_overrun_packets_total{direction=\"up\"} 3",
            "freeboard_autorate_min_bytes_per_second{direction=\"up\"} 125000",
            "freeboard_autorate_max_bytes_per_second{direction=\"down\"} 1000000",
            "freeboard_tin_sent_packets_total{direction=\"up\",tin=\"voice\"} 0",
            "freeboard_autorate_info{direction=\"down\",state=\"steady\"} 1",
            "freeboard_host_sent_bytes_total{direction=\"up\",host=\"not IP\"} 100",
            "freeboard_host_dropped_packets_total{direction=\"down\",host=\"not IP\"} 1",
            "freeboard_host_queued_bytes{direction=\"up\",host=\"other\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
