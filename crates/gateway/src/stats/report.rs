//! Reports as JSON, sent to each client and printed at the end.

use freeboard::sched_core::{DropReason, Nanos};
use freeboard::{AckFilter, FlowTotals, Tin, TinCounters};
use serde::{Deserialize, Serialize};

use crate::config::handling::{self, Treatment, rtt_word};
use crate::config::hosts::host_by_word;
use crate::config::keywords::{Words as _, rate_word};
use crate::forward::direction::Direction;
use crate::forward::follow::Following;
use crate::stats::flow_stats::{DEVICE, Tally, reasons};
use crate::stats::histogram::Histogram;
use crate::stats::host_terms::HostTerms;
use crate::stats::tin_delays::TinDelays;

/// Of the format of reports, which `docs/guide/statistics.md` describes.
pub(super) const VERSION: u32 = 1;

/// Outcome of configuration reloads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reloads {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// `None` before the first.
    pub(crate) is_last_accepted: Option<bool>,
    /// Unix time in seconds at which the current configuration was read.
    #[serde(skip)]
    pub(super) read_at: u64,
}

impl Default for Reloads {
    fn default() -> Self {
        Self::new()
    }
}

impl Reloads {
    /// Creates the counters at the start of the gateway, which counts as the time of reading.
    pub(crate) fn new() -> Self {
        Self { accepted: 0, refused: 0, is_last_accepted: None, read_at: unix_time() }
    }

    /// Counts a reload.
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

/// State of both directions at one time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Version of the format.
    #[serde(default)]
    pub(crate) version: u32,
    /// Version of the program.
    #[serde(default)]
    pub(crate) program: String,
    /// Seconds since the start of the gateway.
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) reloads: Reloads,
    /// Replies that autorate uses; null without autorate by delay.
    #[serde(default)]
    pub(crate) reflector: Option<Reflected>,
    /// Number of known translated connections; null without `--nat`.
    #[serde(default)]
    pub(crate) nat: Option<u64>,
    /// Settings of lists and single hosts, in both directions.
    #[serde(default)]
    pub(crate) host_terms: Vec<HostTerms>,
    pub(crate) directions: Vec<DirectionReport>,
}

/// The current reflector.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reflected {
    pub(crate) address: String,
    /// Delay of the last reply.
    pub(crate) delay_ms: Option<f64>,
    pub(crate) requests: u64,
    pub(crate) answers: u64,
}

/// Autorate state of a direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Followed {
    /// State after the last decision.
    pub(crate) state: String,
    pub(crate) min_bits_per_second: u64,
    pub(crate) max_bits_per_second: u64,
    /// Estimate of the link's rate from arrivals, if enabled.
    pub(crate) arrivals_bits_per_second: Option<u64>,
    /// Delay of the path without a queue, if known.
    pub(crate) baseline_ms: Option<f64>,
    /// True if the link is slower than the minimum rate.
    #[serde(default)]
    pub(crate) is_below_min: bool,
}

/// State of one direction. Packets and bytes are counted since the start, delays since the last
/// report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DirectionReport {
    pub(crate) name: String,
    pub(crate) rate: String,
    #[serde(default)]
    pub(crate) rate_bits_per_second: Option<u64>,
    /// Autorate state; null without autorate.
    #[serde(default)]
    pub(crate) autorate: Option<Followed>,
    pub(crate) queue: String,
    pub(crate) hosts: String,
    /// Host identity.
    #[serde(default)]
    pub(crate) host_by: String,
    #[serde(default)]
    pub(crate) aqm: String,
    /// True if packets with ECT(1) are marked above a shallow threshold.
    #[serde(default)]
    pub(crate) l4s: bool,
    /// Round-trip time that the AQM is set for, as configured.
    #[serde(default)]
    pub(crate) rtt: String,
    /// Header field that selects the tin, if there are several.
    #[serde(default)]
    pub(crate) tin_by: String,
    /// Bits of the firewall mark that select the tin; empty if there are none.
    #[serde(default)]
    pub(crate) fwmark: String,
    /// Mode of the ACK filter; empty if off.
    #[serde(default)]
    pub(crate) ack_filter: String,
    /// True if code points are cleared.
    #[serde(default)]
    pub(crate) wash: bool,
    /// True if the shaper is charged for drops.
    #[serde(default)]
    pub(crate) ingress: bool,
    /// True if frames of several packets are segmented on arrival.
    #[serde(default)]
    pub(crate) split_gso: bool,
    /// True if a host has one share across all tins.
    #[serde(default)]
    pub(crate) hosts_across_tins: bool,
    /// Framing of the link.
    #[serde(default)]
    pub(crate) framing: String,
    /// Limit of queued frames.
    #[serde(default)]
    pub(crate) limit_packets: u32,
    /// Limit of queued bytes.
    #[serde(default)]
    pub(crate) limit_bytes: u32,
    /// Limit of the buffers of queued frames; null without `--memory-limit`.
    #[serde(default)]
    pub(crate) memory_limit_bytes: Option<u32>,
    /// Catch-up after a late timer.
    #[serde(default)]
    pub(crate) catch_up: String,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    /// Packets marked by this queue, without those that arrived with a mark.
    pub(crate) marked: u64,
    /// Packets accepted that arrived with a mark.
    #[serde(default)]
    pub(crate) came_marked: u64,
    /// Frames whose code point was cleared.
    #[serde(default)]
    pub(crate) washed: u64,
    /// Frames of several packets that were segmented; each packet counts as received.
    #[serde(default)]
    pub(crate) segmented: u64,
    /// By reason, without zeros.
    pub(crate) drops: Vec<(String, u64)>,
    /// Bytes of frames dropped as merged.
    #[serde(default)]
    pub(crate) merged_bytes: u64,
    /// Received frames minus all that are accounted for: zero.
    pub(crate) unaccounted: i64,
    /// Frames dropped by the kernel before they were received.
    pub(crate) overruns: u64,
    pub(crate) delay: Delay,
    /// If the queue knows flows and hosts.
    #[serde(default)]
    pub(crate) totals: Option<TotalsReport>,
    /// If there are several tins, in mark order.
    #[serde(default)]
    pub(crate) tins: Vec<TinReport>,
    /// Hosts in descending order of queued and sent bytes.
    pub(crate) hosts_seen: Vec<HostOrFlow>,
    pub(crate) flows_seen: Vec<HostOrFlow>,
}

/// Numbers of flows and hosts with queued packets, and of activations in the current queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TotalsReport {
    pub(crate) hosts: u32,
    pub(crate) flows: u32,
    pub(crate) sparse_flows: u32,
    pub(crate) bulk_flows: u32,
    #[serde(default)]
    pub(crate) unresponsive_flows: u32,
    #[serde(default)]
    pub(crate) flow_activations: u64,
    #[serde(default)]
    pub(crate) new_flows: u64,
    #[serde(default)]
    pub(crate) host_activations: u64,
    #[serde(default)]
    pub(crate) new_hosts: u64,
}

impl TotalsReport {
    pub(super) fn of(direction: &Direction) -> Option<Self> {
        let (flows, hosts) = direction.totals()?;
        let FlowTotals { sparse, bulk, .. } = flows;
        let ([of_flows, of_hosts], unresponsive_flows) = direction.activity()?;
        let ([flow_activations, new_flows], [host_activations, new_hosts]) = (of_flows, of_hosts);
        Some(Self {
            hosts,
            flows: flows.all(),
            sparse_flows: sparse,
            bulk_flows: bulk,
            unresponsive_flows,
            flow_activations,
            new_flows,
            host_activations,
            new_hosts,
        })
    }
}

/// State of a tin. Counters are those of the current queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TinReport {
    pub(crate) name: String,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
    /// Rate up to which it is served before the tins below it; null for a link without a rate.
    #[serde(default)]
    pub(crate) threshold_bits_per_second: Option<u64>,
    /// Target of the AQM; null without one.
    #[serde(default)]
    pub(crate) target_ms: Option<f64>,
    /// Delays since the last report.
    #[serde(default)]
    pub(crate) delay: TinDelay,
}

/// Delays of a tin's packets in milliseconds; null without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TinDelay {
    pub(crate) peak_ms: Option<f64>,
    pub(crate) average_ms: Option<f64>,
    /// Average for packets that found the queue of their flow empty.
    pub(crate) sparse_ms: Option<f64>,
}

impl TinDelay {
    fn of(delays: &TinDelays) -> Self {
        let millis = |nanos: f64| nanos / 1e6;
        let TinDelays { recent, sparse, peak, .. } = delays;
        let peak = (recent.packets > 0).then(|| millis(peak.0 as f64));
        let [average_ms, sparse_ms] = [recent, sparse].map(|waits| waits.mean().map(millis));
        Self { peak_ms: peak, average_ms, sparse_ms }
    }
}

impl TinReport {
    pub(super) fn all(direction: &Direction) -> Vec<Self> {
        let of = |(number, tin, TinCounters { counters, backlog, .. }): (u8, &Tin, _)| {
            let (threshold, target) = direction.tin_terms(number);
            let delays = direction.watch().map(|watch| watch.tins().of(number));
            Self {
                name: tin.name().as_str().to_owned(),
                sent: counters.delivered.packets,
                sent_bytes: counters.delivered.bytes,
                queued: backlog.packets.into(),
                queued_bytes: backlog.bytes.into(),
                marked: counters.marked,
                dropped: counters.rejected.packets + counters.dropped_total().packets,
                threshold_bits_per_second: threshold.as_bits_per_second(),
                target_ms: target.map(|target| target.0 as f64 / 1e6),
                delay: delays.map_or(TinDelay::default(), |delays| TinDelay::of(&delays)),
            }
        };
        direction.tins().map(of).collect()
    }
}

/// State of a host or a flow.
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

/// Delays in milliseconds; null without packets.
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
            host_terms: Vec::new(),
            directions,
        }
    }

    /// Returns the report as one line of JSON.
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
            host_by: host_by_word(direction.host_by()),
            aqm: plan.share.aqm.word().to_owned(),
            l4s: plan.share.l4s,
            rtt: rtt_word(plan.share.rtt),
            tin_by: tin_by_word(plan.treatment),
            fwmark: fwmark_word(plan.treatment),
            ack_filter: match plan.treatment.ack_filter {
                AckFilter::Off => String::new(),
                filter => filter.name().to_owned(),
            },
            wash: plan.treatment.is_washed,
            ingress: plan.treatment.is_ingress,
            split_gso: plan.treatment.splits_gso,
            hosts_across_tins: plan.treatment.hosts_across_tins,
            framing: direction.link().to_string(),
            limit_packets: direction.limits().packets,
            limit_bytes: direction.limits().bytes,
            memory_limit_bytes: plan.treatment.memory_limit,
            catch_up: plan.treatment.late.word(),
            received: outside.received,
            sent: outside.sent,
            sent_bytes: outside.sent_bytes,
            queued: direction.held(),
            queued_bytes: direction.queued_bytes(),
            marked: direction.counters().marked + outside.marked_before,
            came_marked: direction.counters().came_marked + outside.came_marked_before,
            washed: outside.washed,
            segmented: outside.cut,
            drops: drops(direction).into_iter().filter(|(_, count)| *count > 0).collect(),
            merged_bytes: outside.merged_bytes,
            unaccounted: direction.unaccounted(),
            overruns,
            delay: watch.map_or(Delay::default(), |watch| Delay::of(watch.recent())),
            totals: TotalsReport::of(direction),
            tins: TinReport::all(direction),
            hosts_seen: watch.map_or(Vec::new(), |watch| hosts_or_flows(watch.hosts())),
            flows_seen: watch.map_or(Vec::new(), |watch| hosts_or_flows(watch.flows())),
        }
    }
}

/// Returns the drops of a direction by reason.
pub(crate) fn drops(direction: &Direction) -> Vec<(String, u64)> {
    let (counters, outside) = (direction.counters(), direction.outside());
    let before = outside.lost_before;
    let queue = DropReason::ALL.iter().copied().zip(before.dropped);
    let mut drops: Vec<(String, u64)> = queue
        .filter(|(why, _)| *why != DropReason::Drained)
        .map(|(why, before)| (why.name().to_owned(), counters.dropped_for(why).packets + before))
        .collect();
    // Drained packets are those that did not fit into the queue that replaced theirs.
    let drained = counters.dropped_for(DropReason::Drained).packets;
    for (name, count) in [
        ("rejected", counters.rejected.packets + drained + before.rejected),
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

/// Maximum number of hosts and of flows listed.
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

/// Formats the bits of the mark that select the tin; empty without such bits or with a single tin.
pub(super) fn fwmark_word(treatment: Treatment) -> String {
    treatment.tins.map_or(String::new(), |_| handling::fwmark_word(treatment.fwmark))
}

/// Formats the header field that selects the tin; empty with a single tin.
pub(super) fn tin_by_word(treatment: Treatment) -> String {
    treatment.tins.map_or("", |_| treatment.tin_by.word()).to_owned()
}

#[cfg(test)]
mod tests;
