//! ACK filter, cleared code points, charged drops, memory limit and framing keywords.

use core::time::Duration;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use conformance::measurement::settles;

use crate::gateway::{Gateway, dropped, told};
use crate::host_rates::{megabits, sent_megabits};
use crate::raw::{Raw, millis};
use crate::refusals::file;
use crate::topology::{FAR, HOSTS, Row};
use crate::traffic::{Bulk, Heading, Paced};

fn socket(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("freeboard-{}-{test}", std::process::id()))
}

/// Goal: if acknowledgements exceed the upload rate, a download is faster with the filter, and more
/// so with the aggressive one; none is dropped without it. This holds for every queue with a
/// filter. Method: four downloads at 40 Mbit/s over 300 kbit/s up, whose acknowledgements would be
/// about 900 kbit/s; reloads change the filter and the queues.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_download_over_a_thin_line_up_is_faster_with_the_filter() {
    let Some(row) = Row::new("acks") else { return };
    let socket = socket("acks");
    let text = |queue: &str, more: &str| {
        format!("up = \"300kbit\"\ndown = \"40mbit\"\nqueue = \"{queue}\"\n{more}")
    };
    let file = file("acks", &text("drr", ""));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    let bulks = [Bulk::start(&row, HOSTS[0], Heading::Down, 4)];
    let median = |what: &str, accepted: core::ops::RangeInclusive<f64>| {
        thread::sleep(millis(3_000));
        let found = core::cell::Cell::new(0.0);
        let what = format!("{what}, Mbit/s down");
        settles(
            &what,
            || megabits(&bulks, 2),
            |all| {
                found.set(all[0]);
                accepted.contains(&all[0])
            },
        );
        found.get()
    };
    for queue in ["drr", "sqf", "qfq"] {
        if queue != "drr" {
            file.write(&text(queue, ""));
            let said = gateway.reads_again(if queue == "sqf" { 3 } else { 2 });
            let last = "freeboard-gateway: ack-filter: aggressive -> off";
            assert_eq!(said.last().map(String::as_str), Some(last), "{said:?}");
        }
        let before = dropped(&told(&socket), 0, "filtered");
        let without = median(&format!("{queue} without a filter"), 3.0..=25.0);
        assert_eq!(dropped(&told(&socket), 0, "filtered"), before, "{queue}");
        file.write(&text(queue, "ack-filter = true"));
        assert_eq!(gateway.reads_again(1), ["freeboard-gateway: ack-filter: off -> conservative"]);
        let conservative = median(&format!("{queue} conservative"), 1.5 * without..=40.0);
        file.write(&text(queue, "ack-filter = \"aggressive\""));
        assert_eq!(
            gateway.reads_again(1),
            ["freeboard-gateway: ack-filter: conservative -> aggressive"]
        );
        let aggressive = median(&format!("{queue} aggressive"), 0.9 * conservative..=40.0);
        println!("{queue}: {without:.1}, {conservative:.1}, {aggressive:.1} Mbit/s");
        let report = told(&socket);
        assert!(dropped(&report, 0, "filtered") > before + 1_000, "{report}");
        assert_eq!(report["directions"][0]["ack_filter"], "aggressive");
        assert_eq!(report["directions"][1]["ack_filter"], "");
    }
    gateway.end();
}

/// Returns a UDP datagram over IPv4 with this traffic class and a correct checksum.
pub(crate) fn datagram(class: u8) -> Vec<u8> {
    let mut frame = [vec![0xff; 6], vec![2, 0, 0, 0, 0, 9, 8, 0]].concat();
    let mut ip = vec![0x45, class, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let checksum = !sum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    frame.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Returns the checksum's sum, which is all ones if it is correct.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Goal: frames leave without code points in the configured directions, with their ECN bits and a
/// correct checksum; they are counted, and those in the other direction are unchanged.
#[test]
fn code_points_are_cleared_one_way_or_both() {
    let Some(row) = Row::new("wash") else { return };
    row.silence();
    let socket = socket("wash");
    for (word, washes) in
        [("", [false, false]), ("--wash", [true, true]), ("--wash=down", [false, true])]
    {
        let words = format!("--up 10mbit --down 10mbit --stats {} {word}", socket.display());
        let gateway = Gateway::start(&row.gw, &words);
        row.wait_for_carriers();
        let mut ends = [Raw::open(&row.c, "c0"), Raw::open(&row.s, "s0")];
        for (at, washes) in washes.into_iter().enumerate() {
            for class in [0xba_u8, 0x22, 0x02] {
                assert!(ends[at].send(&datagram(class)));
                let arrived = ends[1 - at].receive().expect("a frame");
                let kept = if washes { class & 3 } else { class };
                assert_eq!(
                    (arrived[15], sum(&arrived[14..34])),
                    (kept, 0xffff),
                    "{word} {class:#x}"
                );
            }
            let direction = &told(&socket)["directions"][at];
            assert_eq!(
                (&direction["wash"], &direction["washed"]),
                (&washes.into(), &(if washes { 2 } else { 0 }).into())
            );
        }
        gateway.end();
    }
}

/// Goal: with `--ingress` drops are charged: beside an unresponsive sender at least two thirds of
/// the rate leave, and responsive TCP does not send more than the rate. Method: a flood at twice
/// the download rate, with and without `--ingress`, by a reload; then TCP alone: arrivals at the
/// gateway are at most the rate.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn with_ingress_arrivals_keep_to_the_rate() {
    let Some(row) = Row::new("ingress") else { return };
    let socket = socket("ingress");
    let text = |more: &str| format!("up = \"10mbit\"\ndown = \"10mbit\"\n{more}");
    let file = file("ingress", &text(""));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    let flood = Paced::start(&row, Heading::Down, Duration::from_micros(560), &[1_400]);
    let sent = |what: &str, accepted: core::ops::RangeInclusive<f64>| {
        thread::sleep(millis(1_500));
        let measure = || vec![sent_megabits(&socket, Heading::Down, 1)];
        settles(&format!("{what}, Mbit/s sent"), measure, |all| accepted.contains(&all[0]));
    };
    sent("a flood, egress", 9.5..=10.2);
    file.write(&text("ingress = true"));
    assert_eq!(gateway.reads_again(1), ["freeboard-gateway: ingress: off -> on"]);
    sent("a flood, ingress", 6.3..=9.0);
    drop(flood);
    let _bulk = Bulk::start(&row, HOSTS[0], Heading::Down, 24);
    thread::sleep(millis(4_000));
    let arrives = || {
        let counts = || {
            let report = told(&socket);
            let down = &report["directions"][1];
            let dropped = dropped(&report, 1, "aqm") + dropped(&report, 1, "overflow");
            (down["sent_bytes"].as_f64().unwrap(), dropped as f64 * 1_514.0)
        };
        let (before, begin) = (counts(), std::time::Instant::now());
        thread::sleep(millis(2_000));
        let (after, seconds) = (counts(), begin.elapsed().as_secs_f64());
        let megabits = |bytes: f64| bytes * 8e-6 / seconds;
        let (sent, lost) = (megabits(after.0 - before.0), megabits(after.1 - before.1));
        vec![sent + lost, sent]
    };
    settles("24 flows, ingress, Mbit/s that arrive and that are sent", arrives, |all| {
        (9.0..=10.1).contains(&all[0])
    });
    assert_eq!(told(&socket)["directions"][1]["ingress"], true);
    gateway.end();
}

/// Goal: no more frames are queued than buffers of the memory limit hold, and errors name the
/// option.
#[test]
fn a_memory_limit_counts_buffers() {
    let Some(row) = Row::new("memlimit") else { return };
    let socket = socket("memlimit");
    let text = |limit: &str| {
        format!("up = \"1mbit\"\ndown = \"200mbit\"\naqm = \"none\"\nmemory-limit = \"{limit}\"\n")
    };
    let file = file("memlimit", &text("64kb"));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    let limit = |direction: usize| {
        told(&socket)["directions"][direction]["limit_packets"].as_u64().unwrap()
    };
    let (up, down) = (limit(0), limit(1));
    // A buffer holds 1,522 bytes, with some overhead.
    assert!((36..=43).contains(&up) && up == down, "{up} and {down}");
    let flood = Paced::start(&row, Heading::Up, Duration::from_millis(1), &[400]);
    for _ in 0..20 {
        thread::sleep(millis(20));
        let queued = told(&socket)["directions"][0]["queued"].as_u64().unwrap();
        // Frames that wait for the device are not queued any more.
        assert!(queued <= up + 32, "{queued} of {up}");
    }
    assert!(dropped(&told(&socket), 0, "overflow") > 0);
    // By the rate: the minimum, and what 200 Mbit/s carry in 400 ms.
    file.write(&text("by-rate"));
    let said = "freeboard-gateway: memory-limit: 65536 bytes -> by-rate";
    assert_eq!(gateway.reads_again(1), [said]);
    let (up, down) = (limit(0), limit(1));
    assert!((2_400..=2_760).contains(&up) && (5_800..=6_600).contains(&down), "{up} and {down}");
    for (limit, part) in [
        (
            "1kb",
            ": line 4: --memory-limit 1024: less than one frame with an MTU of 1500 (expected at least 16",
        ),
        (
            "by-rate 5",
            "--memory-limit \"by-rate 5\": invalid value \
             (expected by-rate, or 1 to 4294967295 bytes",
        ),
    ] {
        file.write(&text(limit));
        let said = gateway.reads_again(1).remove(0);
        assert!(
            said.contains("configuration not changed: --config") && said.contains(part),
            "{said}"
        );
    }
    drop(flood);
    gateway.end();
}

/// Goal: framing keywords are equivalent to the single options, and change by a reload.
#[test]
fn a_link_has_words() {
    let Some(row) = Row::new("linkwords") else { return };
    let line = "up = \"10mbit\"\ndown = \"10mbit\"\n";
    let file = file("linkwords", &format!("{line}framing = \"pppoe-ptm ether-vlan\""));
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    for (text, said) in [
        ("encoding = \"ptm\"\noverhead = 34", "configuration read again, no changes"),
        (
            "framing = \"wireguard pppoe-ptm\"\nburst = 15000",
            "framing: overhead 34 ptm -> pad 16 overhead 90 ptm",
        ),
    ] {
        file.write(&format!("{line}{text}"));
        assert_eq!(gateway.reads_again(1), [format!("freeboard-gateway: {said}")]);
    }
    assert_eq!(gateway.says(), "freeboard-gateway: catch-up: 10 ms -> 15000 bytes");
    file.write(&format!("{line}framing = \"pppoe-ptn\""));
    let said = gateway.reads_again(1).remove(0);
    assert!(
        said.contains(": line 3: --framing \"pppoe-ptn\": unknown link option `pppoe-ptn`"),
        "{said}"
    );
    gateway.end();
}

/// Goal: host identity, memory limit and catch-up are reported as configured, at the start and
/// after a reload.
#[test]
fn what_is_set_is_read_back() {
    let Some(row) = Row::new("readback") else { return };
    let socket = socket("readback");
    let line = "up = \"10mbit\"\ndown = \"10mbit\"\n";
    let file = file("readback", line);
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    let read = || {
        let up = told(&socket)["directions"][0].clone();
        ["host_by", "memory_limit_bytes", "catch_up"].map(|field| up[field].to_string())
    };
    assert_eq!(read(), ["\"auto\"", "null", "\"10 ms\""]);
    let more = "host-by = \"prefix/24/56\"\nmemory-limit = \"1mb\"\nburst = 9000\n";
    file.write(&format!("{line}{more}"));
    assert_eq!(gateway.reads_again(3).len(), 3);
    assert_eq!(read(), ["\"prefix/24/56\"", "1048576", "\"9000 bytes\""]);
    // A host that is a prefix is reported as written in a table.
    let (prefix, deadline) = ("10.9.0.0/24", Instant::now() + Duration::from_secs(10));
    let is_seen = || {
        row.c.within(|| {
            UdpSocket::bind((HOSTS[0], 0)).unwrap().send_to(b"seen?", (FAR, 9)).unwrap()
        });
        let seen = told(&socket)["directions"][0]["hosts_seen"].clone();
        seen.as_array().unwrap().iter().any(|host| host["name"] == prefix)
    };
    while !is_seen() {
        assert!(Instant::now() < deadline, "{prefix} is not in the report");
        thread::sleep(millis(100));
    }
    file.write(&format!("{line}{more}[ceils]\n\"{prefix}\" = \"9mbit\"\n"));
    let said = gateway.reads_again(1);
    assert!(said[0].contains(prefix), "{said:?}");
    file.write(&format!("{line}host-by = \"vlan\"\nmemory-limit = \"by-rate\"\ncatch-up = 3\n"));
    assert_eq!(gateway.reads_again(4).len(), 4);
    assert_eq!(read(), ["\"vlan\"", "4194304", "\"3 ms\""]);
    assert_eq!(told(&socket)["host_terms"], serde_json::json!([]));
    let lists =
        "[names]\ntv = [\"10.9.0.8-10.9.0.11\", \"02:00:00:00:00:01\"]\nspare = [\"::9\"]\n";
    let terms = "[weights]\ntv = 3\n[rates]\n\"fd00::/64\" = \"2mbit\"\n[ceils]\ntv = \"5mbit\"\n";
    file.write(&format!("{line}{lists}{terms}"));
    assert_eq!(gateway.reads_again(7).len(), 7);
    let host = |host, members: &[&str], weight: Option<u32>, rates: [Option<u32>; 2]| {
        serde_json::json!({
            "host": host, "members": members, "weight": weight,
            "committed_bits_per_second": rates[0], "ceil_bits_per_second": rates[1],
        })
    };
    let expected = [
        host("fd00::/64", &[], None, [Some(2_000_000), None]),
        host("spare", &["::9"], None, [None, None]),
        host("tv", &["10.9.0.8-10.9.0.11", "02:00:00:00:00:01"], Some(3), [None, Some(5_000_000)]),
    ];
    assert_eq!(told(&socket)["host_terms"], serde_json::json!(expected));
    gateway.end();
}
