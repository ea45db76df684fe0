//! Metrics in the text format of Prometheus.

use core::fmt::Write as _;

use freeboard::sched_core::Nanos;

use crate::config::handling::{rtt_word, tins_word};
use crate::config::hosts::host_by_word;
use crate::config::keywords::{Switch, Words as _};
use crate::forward::direction::Direction;
use crate::forward::follow::Following;
use crate::stats::accounts::Account;
use crate::stats::report::{
    Followed, Reflected, Reloads, TinReport, TotalsReport, VERSION, drops, fwmark_word, tin_by_word,
};
use crate::stats::tin_delays::{TinDelays, Waits};

/// Writes a metric: its description, and its values after their labels.
fn metric(
    text: &mut String,
    (name, kind, help): (&str, &str, &str),
    values: impl IntoIterator<Item = (String, f64)>,
) {
    let _ = writeln!(text, "# HELP freeboard_{name} {help}.\n# TYPE freeboard_{name} {kind}");
    for (labels, value) in values {
        // In the format's notation; counts below 2^53 are written exactly.
        let value = if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() };
        let _ = writeln!(text, "freeboard_{name}{labels} {value}");
    }
}

/// Writes the metrics of the program itself.
fn of_program(text: &mut String, up_for: Nanos, reloads: &Reloads) {
    let labels = format!(
        "{{version=\"{}\",format=\"{VERSION}\",arch=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let about = ("build_info", "gauge", "Version of the program and of its JSON; always 1");
    metric(text, about, [(labels, 1.0)]);
    let about = ("uptime_seconds", "gauge", "Seconds since the start");
    metric(text, about, [(String::new(), up_for.0 as f64 / 1e9)]);
    let about = ("config_reloads_total", "counter", "Times the configuration was read again");
    let counts = [("accepted", reloads.accepted), ("refused", reloads.refused)];
    let count = |(result, count)| (format!("{{result=\"{result}\"}}"), count as f64);
    metric(text, about, counts.map(count));
    let about = (
        "config_last_reload_successful",
        "gauge",
        "1 if the last reading of the configuration succeeded",
    );
    let is_good = reloads.is_last_accepted != Some(false);
    metric(text, about, [(String::new(), f64::from(u8::from(is_good)))]);
    let about = (
        "config_last_success_timestamp_seconds",
        "gauge",
        "Unix time at which the current configuration was read",
    );
    metric(text, about, [(String::new(), reloads.read_at as f64)]);
}

/// Writes the numbers of backlogged flows and hosts and of their activations.
fn of_totals(text: &mut String, directions: &[(&Direction, u64)]) {
    let of = |(direction, _): &(&Direction, u64)| {
        Some((direction.heading().name(), TotalsReport::of(direction)?))
    };
    let totals: Vec<(&str, TotalsReport)> = directions.iter().filter_map(of).collect();
    let about = ("queued_hosts", "gauge", "Hosts on the LAN side with queued packets");
    let hosts = totals
        .iter()
        .map(|(heading, totals)| (format!("{{direction=\"{heading}\"}}"), totals.hosts.into()));
    metric(text, about, hosts);
    let about = ("queued_flows", "gauge", "Flows with queued packets, by kind");
    let flows = totals.iter().flat_map(|(heading, totals)| {
        [("sparse", totals.sparse_flows), ("bulk", totals.bulk_flows)].map(|(kind, count)| {
            (format!("{{direction=\"{heading}\",kind=\"{kind}\"}}"), count.into())
        })
    });
    metric(text, about, flows);
    type Value = fn(&TotalsReport) -> u64;
    let all: [(&str, &str, &str, Value); 5] = [
        (
            "unresponsive_flows",
            "gauge",
            "Flows with queued packets that do not react to drops",
            |of| of.unresponsive_flows.into(),
        ),
        ("flow_activations_total", "counter", "Times a flow became backlogged", |of| {
            of.flow_activations
        }),
        (
            "new_flows_total",
            "counter",
            "Times a flow became backlogged in a queue last used by another flow or by none",
            |of| of.new_flows,
        ),
        (
            "host_activations_total",
            "counter",
            "Times a host on the LAN side became backlogged",
            |of| of.host_activations,
        ),
        (
            "new_hosts_total",
            "counter",
            "Times a host on the LAN side became backlogged in an entry last used by another host or by none",
            |of| of.new_hosts,
        ),
    ];
    for (name, kind, help, value) in all {
        let counts = totals.iter().map(|(heading, totals)| {
            (format!("{{direction=\"{heading}\"}}"), value(totals) as f64)
        });
        metric(text, (name, kind, help), counts);
    }
}

/// Writes the metrics of tins.
fn of_tins(text: &mut String, directions: &[(&Direction, u64)]) {
    type Value = fn(&TinReport) -> u64;
    let all: [(&str, &str, &str, Value); 5] = [
        ("tin_sent_packets_total", "counter", "Frames sent, by tin", |tin| tin.sent),
        ("tin_sent_bytes_total", "counter", "Bytes sent, by tin", |tin| tin.sent_bytes),
        ("tin_marked_packets_total", "counter", "Packets marked by this queue, by tin", |tin| {
            tin.marked
        }),
        (
            "tin_dropped_packets_total",
            "counter",
            "Frames dropped on arrival or from the queue, by tin",
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
    of_tin_delays(text, directions);
}

/// Writes the thresholds, targets and delays of tins.
fn of_tin_delays(text: &mut String, directions: &[(&Direction, u64)]) {
    let tins = || {
        directions.iter().flat_map(|&(direction, _)| {
            direction.tins().map(move |(number, tin, _)| {
                let heading = direction.heading().name();
                (
                    format!("{{direction=\"{heading}\",tin=\"{}\"}}", tin.name().as_str()),
                    direction,
                    number,
                )
            })
        })
    };
    let about = (
        "tin_threshold_bytes_per_second",
        "gauge",
        "Rate up to which a tin is served before those below it",
    );
    let rate = |(labels, direction, number): (String, &Direction, u8)| {
        let bits = direction.tin_terms(number).0.as_bits_per_second();
        (labels, bits.map_or(f64::INFINITY, |bits| bits as f64 / 8.0))
    };
    metric(text, about, tins().map(rate));
    let about = ("tin_target_seconds", "gauge", "AQM target, by tin");
    let target = |(labels, direction, number): (String, &Direction, u8)| {
        Some((labels, direction.tin_terms(number).1?.0 as f64 / 1e9))
    };
    metric(text, about, tins().filter_map(target));
    let delays = || {
        tins().filter_map(|(labels, direction, number)| {
            Some((labels, direction.watch()?.tins().of(number)))
        })
    };
    let about = ("tin_peak_delay_seconds", "gauge", "Longest delay of the last 20 to 40 s, by tin");
    let peak =
        |(labels, delays): (String, TinDelays)| (labels, delays.lasting_peak().0 as f64 / 1e9);
    metric(text, about, delays().map(peak));
    type Value = fn(&TinDelays) -> Waits;
    let summaries: [(&str, &str, Value); 2] = [
        ("tin_delay_seconds", "Time from arrival to departure, by tin", |of| of.total),
        (
            "tin_sparse_delay_seconds",
            "Time from arrival to departure of packets that found the queue of their flow empty, by tin",
            |of| of.total_sparse,
        ),
    ];
    for (name, help, value) in summaries {
        metric(text, (name, "summary", help), []);
        for (labels, delays) in delays() {
            let Waits { packets, nanos } = value(&delays);
            let _ = writeln!(text, "freeboard_{name}_sum{labels} {}", nanos as f64 / 1e9);
            let _ = writeln!(text, "freeboard_{name}_count{labels} {packets}");
        }
    }
}

/// Writes the metrics of autorate.
fn of_following(text: &mut String, directions: &[(&Direction, u64)], following: &Following) {
    type Value = fn(&Followed) -> Option<f64>;
    let all: [(&str, &str, Value); 5] = [
        ("autorate_min_bytes_per_second", "Minimum rate of autorate", |of| {
            Some(of.min_bits_per_second as f64 / 8.0)
        }),
        ("autorate_max_bytes_per_second", "Maximum rate of autorate", |of| {
            Some(of.max_bits_per_second as f64 / 8.0)
        }),
        ("autorate_arrivals_bytes_per_second", "Rate of the link estimated from arrivals", |of| {
            of.arrivals_bits_per_second.map(|bits| bits as f64 / 8.0)
        }),
        ("autorate_baseline_seconds", "Delay of the path without a queue", |of| {
            of.baseline_ms.map(|millis| millis / 1e3)
        }),
        ("autorate_is_below_min", "1 if the link is slower than the minimum rate", |of| {
            Some(u8::from(of.is_below_min).into())
        }),
    ];
    let followed: Vec<(&str, Followed)> = directions
        .iter()
        .enumerate()
        .filter_map(|(at, (direction, _))| {
            Some((direction.heading().name(), following.report(at, direction)?))
        })
        .collect();
    let about = ("autorate_info", "gauge", "State of the last autorate decision; always 1");
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
    let about = ("autorate_requests_total", "counter", "ICMP echo and timestamp requests sent");
    metric(text, about, count(|of| of.requests));
    let about = ("autorate_answers_total", "counter", "ICMP requests answered");
    metric(text, about, count(|of| of.answers));
    let about = ("autorate_delay_seconds", "gauge", "Delay of the last answer");
    let delay = reflected.iter().filter_map(|of| {
        let labels = format!("{{reflector=\"{}\"}}", of.address);
        Some((labels, of.delay_ms? / 1e3))
    });
    metric(text, about, delay);
}

/// Writes the metrics of hosts on the LAN side.
fn of_hosts(text: &mut String, directions: &[(&Direction, u64)]) {
    type Value = fn(&Account) -> u64;
    let all: [(&str, &str, &str, Value); 4] = [
        ("host_sent_packets_total", "counter", "Frames sent, by host", |a| a.sent_packets),
        ("host_sent_bytes_total", "counter", "Bytes sent, by host", |a| a.sent_bytes),
        (
            "host_dropped_packets_total",
            "counter",
            "Frames dropped on arrival or from the queue, by host",
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

/// Returns the configuration of a direction as labels.
fn info(direction: &Direction) -> String {
    let (share, treatment) = (&direction.plan().share, &direction.plan().treatment);
    let switch = |is_on| Switch::of(is_on).word().to_owned();
    let labels = [
        ("direction", direction.heading().name().to_owned()),
        ("queue", share.kind.word().to_owned()),
        ("hosts", share.hosts.word().to_owned()),
        ("host_by", host_by_word(direction.host_by())),
        ("aqm", share.aqm.word().to_owned()),
        ("l4s", switch(share.l4s)),
        ("rtt", rtt_word(share.rtt)),
        ("tins", tins_word(treatment.tins)),
        ("tin_by", tin_by_word(*treatment)),
        ("fwmark", fwmark_word(*treatment)),
        ("ack_filter", treatment.ack_filter.name().to_owned()),
        ("wash", switch(treatment.is_washed)),
        ("split_gso", switch(treatment.splits_gso)),
        ("ingress", switch(treatment.is_ingress)),
        ("hosts_across_tins", switch(treatment.hosts_across_tins)),
        ("framing", direction.link().to_string()),
        ("catch_up", treatment.late.word()),
    ];
    let labels = labels.map(|(name, value)| format!("{name}=\"{value}\""));
    format!("{{{}}}", labels.join(","))
}

/// Returns the metrics of both directions, in the text format of Prometheus 0.0.4.
pub(crate) fn metrics(
    up_for: Nanos,
    reloads: &Reloads,
    directions: &[(&Direction, u64)],
    following: &Following,
    nat: Option<u64>,
) -> String {
    type Value = fn(&Direction, u64) -> u64;
    let simple: [(&str, &str, &str, Value); 14] = [
        ("received_packets_total", "counter", "Frames received", |d, _| d.outside().received),
        ("sent_packets_total", "counter", "Frames sent", |d, _| d.outside().sent),
        ("sent_bytes_total", "counter", "Bytes sent", |d, _| d.outside().sent_bytes),
        (
            "marked_packets_total",
            "counter",
            "Packets marked congestion experienced by this queue",
            |d, _| d.counters().marked + d.outside().marked_before,
        ),
        (
            "came_marked_packets_total",
            "counter",
            "Packets queued that were already marked congestion experienced",
            |d, _| d.counters().came_marked + d.outside().came_marked_before,
        ),
        ("washed_packets_total", "counter", "Frames whose code point was cleared", |d, _| {
            d.outside().washed
        }),
        (
            "segmented_frames_total",
            "counter",
            "Frames of several packets that were segmented on arrival",
            |d, _| d.outside().cut,
        ),
        (
            "overrun_packets_total",
            "counter",
            "Frames dropped by the kernel before they were received",
            |_, o| o,
        ),
        ("merged_bytes_total", "counter", "Bytes of frames dropped as merged", |d, _| {
            d.outside().merged_bytes
        }),
        ("queued_packets", "gauge", "Frames queued or waiting for the device", |d, _| d.held()),
        ("queued_bytes", "gauge", "Bytes queued", |d, _| d.queued_bytes()),
        ("limit_packets", "gauge", "Limit of queued frames", |d, _| d.limits().packets.into()),
        ("limit_bytes", "gauge", "Limit of queued bytes", |d, _| d.limits().bytes.into()),
        (
            "unaccounted_packets",
            "gauge",
            "Received frames minus frames sent, dropped or held; 0 unless there is a bug",
            |d, _| d.unaccounted().unsigned_abs(),
        ),
    ];
    let mut text = String::new();
    of_program(&mut text, up_for, reloads);
    let labels =
        |direction: &Direction| format!("{{direction=\"{}\"}}", direction.heading().name());
    let rates = directions.iter().map(|(direction, _)| {
        let bits = direction.plan().rate.as_bits_per_second();
        (labels(direction), bits.map_or(f64::INFINITY, |bits| bits as f64 / 8.0))
    });
    let about = ("rate_bytes_per_second", "gauge", "Current rate");
    metric(&mut text, about, rates);
    let about = ("queue_info", "gauge", "Configuration of the direction; always 1");
    metric(&mut text, about, directions.iter().map(|(direction, _)| (info(direction), 1.0)));
    for (name, kind, help, value) in simple {
        let value = |&(direction, overruns): &(&Direction, u64)| {
            (labels(direction), value(direction, overruns) as f64)
        };
        metric(&mut text, (name, kind, help), directions.iter().map(value));
    }
    of_totals(&mut text, directions);
    of_tins(&mut text, directions);
    of_following(&mut text, directions, following);
    let about = ("nat_connections", "gauge", "Translated connections whose host is known");
    metric(&mut text, about, nat.map(|count| (String::new(), count as f64)));
    of_hosts(&mut text, directions);
    let name = "freeboard_dropped_packets_total";
    let _ = writeln!(text, "# HELP {name} Frames dropped, by reason.\n# TYPE {name} counter");
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
