//! What the gateway says of itself: as JSON to those who ask and at the end, as metrics for Prometheus.

use core::fmt::Write as _;

use freeboard::sched_core::{DropReason, Nanos};
use serde::{Deserialize, Serialize};

use crate::direction::Direction;
use crate::histogram::Histogram;
use crate::watch::Tally;
use crate::words::{Words as _, rate_word};

/// The state of both directions at one instant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Seconds since the gateway was started.
    pub(crate) seconds: f64,
    pub(crate) directions: Vec<Way>,
}

/// The state of one direction. Packets and bytes are counted since the start, delays since the last report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) rate: String,
    pub(crate) queue: String,
    pub(crate) hosts: String,
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
    /// By reason, those that are not zero.
    pub(crate) drops: Vec<(String, u64)>,
    /// Received less all that is known: zero.
    pub(crate) unaccounted: i64,
    /// Thrown away by the kernel before they were received.
    pub(crate) overruns: u64,
    pub(crate) delay: Delay,
    /// Those that hold or send most first.
    pub(crate) hosts_seen: Vec<Who>,
    pub(crate) flows_seen: Vec<Who>,
}

/// A host or a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Who {
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
    pub(crate) fn new(since_start: Nanos, directions: &[(&Direction, u64)]) -> Self {
        let seconds = since_start.0 as f64 / 1e9;
        let directions =
            directions.iter().map(|&(direction, overruns)| Way::new(direction, overruns)).collect();
        Self { seconds, directions }
    }

    /// A line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl Way {
    fn new(direction: &Direction, overruns: u64) -> Self {
        let (plan, outside) = (direction.plan(), direction.outside());
        let watch = direction.watch();
        Self {
            name: direction.way().name().to_owned(),
            rate: rate_word(plan.rate),
            queue: plan.share.order.word().to_owned(),
            hosts: plan.share.hosts.word().to_owned(),
            received: outside.received,
            sent: outside.sent,
            sent_bytes: outside.sent_bytes,
            queued: direction.held(),
            queued_bytes: direction.queued_bytes(),
            marked: direction.counters().marked + outside.marked_before,
            came_marked: direction.counters().came_marked + outside.came_marked_before,
            drops: drops(direction).into_iter().filter(|(_, count)| *count > 0).collect(),
            unaccounted: direction.unaccounted(),
            overruns,
            delay: watch.map_or(Delay::default(), |watch| Delay::of(watch.recent())),
            hosts_seen: watch.map_or(Vec::new(), |watch| whos(watch.hosts())),
            flows_seen: watch.map_or(Vec::new(), |watch| whos(watch.flows())),
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
        ("device", outside.undeliverable),
    ] {
        drops.push((name.to_owned(), count));
    }
    drops
}

/// The most that are listed.
const LISTED: usize = 64;

fn whos<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Vec<Who> {
    let mut all: Vec<&Tally> = tallies.collect();
    all.sort_by_key(|tally| core::cmp::Reverse((tally.queued_bytes, tally.sent_bytes)));
    let names =
        DropReason::ALL.map(DropReason::name).into_iter().chain([DropReason::Rejected.name()]);
    let who = |tally: &Tally| Who {
        name: tally.name.clone(),
        sent: tally.sent_packets,
        sent_bytes: tally.sent_bytes,
        queued: tally.queued_packets,
        queued_bytes: tally.queued_bytes,
        drops: names
            .clone()
            .zip(tally.drops)
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        delay: Delay::of(&tally.delays),
    };
    all.into_iter().take(LISTED).map(who).collect()
}

/// The metrics of both directions, in the text format of Prometheus 0.0.4.
pub(crate) fn metrics(directions: &[(&Direction, u64)]) -> String {
    type Value = fn(&Direction, u64) -> u64;
    let simple: [(&str, &str, &str, Value); 9] = [
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
            "overrun_packets_total",
            "counter",
            "Frames lost in the kernel before they were received",
            |_, o| o,
        ),
        ("queued_packets", "gauge", "Frames held", |d, _| d.held()),
        ("queued_bytes", "gauge", "Bytes queued", |d, _| d.queued_bytes()),
        ("unaccounted_packets", "gauge", "Frames of which nothing is known: zero", |d, _| {
            d.unaccounted().unsigned_abs()
        }),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in simple {
        let _ = writeln!(text, "# HELP freeboard_{name} {help}.\n# TYPE freeboard_{name} {kind}");
        for &(direction, overruns) in directions {
            let (way, value) = (direction.way().name(), value(direction, overruns));
            let _ = writeln!(text, "freeboard_{name}{{direction=\"{way}\"}} {value}");
        }
    }
    let name = "freeboard_dropped_packets_total";
    let _ = writeln!(
        text,
        "# HELP {name} Frames that were not sent, by reason.\n# TYPE {name} counter"
    );
    for &(direction, _) in directions {
        for (why, count) in drops(direction) {
            let way = direction.way().name();
            let _ = writeln!(text, "{name}{{direction=\"{way}\",reason=\"{why}\"}} {count}");
        }
    }
    let name = "freeboard_delay_seconds";
    let _ =
        writeln!(text, "# HELP {name} Time from arrival to departure.\n# TYPE {name} histogram");
    for &(direction, _) in directions {
        let way = direction.way().name();
        let Some(watch) = direction.watch() else { continue };
        for (end, count) in watch.total().cumulative() {
            let end = end as f64 / 1e9;
            let _ = writeln!(text, "{name}_bucket{{direction=\"{way}\",le=\"{end}\"}} {count}");
        }
        let (count, sum) = (watch.total().count(), watch.total().sum() as f64 / 1e9);
        let _ = writeln!(text, "{name}_bucket{{direction=\"{way}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{direction=\"{way}\"}} {sum}");
        let _ = writeln!(text, "{name}_count{{direction=\"{way}\"}} {count}");
    }
    text
}
