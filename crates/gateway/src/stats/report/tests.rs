use super::*;
use crate::config::RawOptions;
use crate::forward::direction::Hosts;
use crate::forward::queue::Heading;
use crate::stats::flow_stats::Watched;
use crate::stats::metrics::metrics;
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../../../../docs/guide/metrics.md");

/// Creates both directions, with a host that has sent and lost a packet.
fn directions(rate: &str) -> [Direction; 2] {
    let line = "lan = \"a\"\nwan = \"b\"\ntins = \"diffserv4\"";
    let text = format!("{line}\nup = \"{rate}\"\ndown = \"8mbit\"");
    let config = RawOptions::from_text(Path::new("x"), text).unwrap().check().unwrap();
    [Heading::Up, Heading::Down].map(|heading| {
        let plan = crate::forward::run::plan(&config, heading, 64, 1_522);
        let hosts = Hosts::new(&config, plan.max_len).unwrap();
        let watched = Some(Watched::Each);
        let mut direction = Direction::new(plan, config.framing, hosts, [0; 16], watched).unwrap();
        let key = freeboard::flowhash::FlowKey::Unknown;
        let watch = direction.watch_mut().unwrap();
        let place = watch.arrived(Nanos(0), (key, None), key.src_host(), 100);
        watch.sent(Nanos(5), place, 3, 100, Nanos(5_000_000));
        let place = watch.arrived(Nanos(0), (key, None), key.src_host(), 60);
        watch.dropped(place, 60, DropReason::Rejected);
        direction
    })
}

/// Creates autorate for both directions, and by arrivals for the download.
fn following() -> Following {
    let text = "lan = \"a\"\nwan = \"b\"\nup = \"4mbit\"\ndown = \"8mbit\"\nautorate = \"192.0.2.1\"\n\
                autorate-ingress = true\nup-min = \"1mbit\"\ndown-min = \"2mbit\"";
    let config = RawOptions::from_text(Path::new("x"), text.to_owned()).unwrap().check().unwrap();
    Following::new(config.follow, None, Nanos::ZERO)
}

/// Returns the code between backticks on the page, in tables and in text about the gateway.
fn on_page() -> BTreeSet<&'static str> {
    let (of_gateway, _) = PAGE.split_once("\n## Library: snapshot\n").expect("both are there");
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

/// Goal: the page names every field, reason and metric, and none that does not exist.
#[test]
fn the_page_names_what_there_is() {
    let [up, down] = directions("8mbit");
    let directions = [(&up, 0), (&down, 0)];
    let following = following();
    let report = Report::new(Nanos::from_secs(3), &Reloads::new(), &directions, &following, None);
    let terms = HostTerms {
        host: "tv".to_owned(),
        members: Vec::new(),
        weight: None,
        committed_bits_per_second: None,
        ceil_bits_per_second: None,
    };
    let report = Report { host_terms: vec![terms], ..report };
    let mut fields = BTreeSet::new();
    let json = serde_json::to_value(&report).unwrap();
    let voice = &json["directions"][1]["tins"][3];
    let delay = serde_json::json!({ "peak_ms": 5.0, "average_ms": 5.0, "sparse_ms": 5.0 });
    assert_eq!((&voice["name"], &voice["delay"]), (&"voice".into(), &delay));
    assert_eq!(voice["threshold_bits_per_second"], 2_000_000);
    // One and a half frames of 1,522 bytes at 2 Mbit/s.
    assert_eq!(voice["target_ms"], 9.132);
    assert_eq!(json["directions"][1]["tins"][0]["delay"]["peak_ms"], serde_json::Value::Null);
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
    let named: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let written: BTreeSet<&str> =
        page.into_iter().filter(|word| word.starts_with("freeboard_")).collect();
    assert_eq!(named, written);
}

/// Goal: a collector can parse the text: each metric once, counters with their suffix, every value
/// after its type.
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
            let of =
                ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
            assert!(
                kinds.contains_key(name)
                    || of.is_some_and(|of| ["histogram", "summary"].contains(&kinds[of])),
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
        "freeboard_tin_threshold_bytes_per_second{direction=\"down\",tin=\"voice\"} 250000",
        "freeboard_tin_threshold_bytes_per_second{direction=\"up\",tin=\"voice\"} +Inf",
        "freeboard_tin_target_seconds{direction=\"down\",tin=\"best-effort\"} 0.005",
        "freeboard_tin_peak_delay_seconds{direction=\"up\",tin=\"voice\"} 0.005",
        "freeboard_tin_delay_seconds_sum{direction=\"up\",tin=\"voice\"} 0.005",
        "freeboard_tin_delay_seconds_count{direction=\"up\",tin=\"bulk\"} 0",
        "freeboard_tin_sparse_delay_seconds_count{direction=\"up\",tin=\"voice\"} 1",
        "freeboard_autorate_info{direction=\"down\",state=\"steady\"} 1",
        "freeboard_host_sent_bytes_total{direction=\"up\",host=\"not IP\"} 100",
        "freeboard_host_dropped_packets_total{direction=\"down\",host=\"not IP\"} 1",
        "freeboard_host_queued_bytes{direction=\"up\",host=\"other\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}
