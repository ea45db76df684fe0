//! Autorate: a second gateway with a FIFO is the modem, whose rate changes.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::thread;

use conformance::measurement::{attempts, settles};
use serde_json::Value;

use crate::gateway::{Gateway, told};
use crate::raw::millis;
use crate::refusals::{Written, file};
use crate::topology::{FAR, HOSTS, Row, call};
use crate::traffic::{Bulk, Heading, Paced, percentile};

/// The gateway's own address on the WAN side, and one that no machine has.
const OWN: &str = "10.9.0.9";
const SILENT: &str = "10.9.0.77";
const SILENT_TOO: &str = "10.9.0.78";

fn socket(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("freeboard-{}-{test}", std::process::id()))
}

/// Creates a row with a modem: lan, gateway, x, y, modem, wan. The machine's own address is on a
/// separate device, beside x at the switch y.
fn with_modem(test: &str) -> Option<(Row, Written)> {
    let row = Row::new(test)?;
    row.gw.ip("link add y type bridge");
    row.gw.ip("link set y up");
    for device in ["x", "own"] {
        row.gw.ip(&format!("link add {device} type veth peer {device}-y"));
        row.gw.ip(&format!("link set {device}-y master y"));
        for end in [device, &format!("{device}-y")] {
            row.gw.ip(&format!("link set {end} up"));
            row.gw.ethtool(&format!("-K {end} gro off"));
            row.gw.ip(&format!("link set {end} gso_max_segs 1"));
        }
    }
    row.gw.ethtool("-K y gro off");
    row.gw.ip(&format!("addr add {OWN}/24 dev own"));
    Some((row, file(&format!("{test}-modem"), "")))
}

fn modem_at(file: &Written, up: &str, down: &str) {
    file.write(&format!("up = \"{up}\"\ndown = \"{down}\"\nqueue = \"fifo\"\nlimit = \"400p\"\n"));
}

fn rate(socket: &Path, direction: usize) -> f64 {
    told(socket)["directions"][direction]["rate_bits_per_second"].as_f64().unwrap() / 1e6
}

fn reflector(socket: &Path) -> Value {
    told(socket)["reflector"].clone()
}

/// Goal: the rate follows a link that becomes slower and faster, the queue in the modem stays
/// short, the minimum is kept, a slower link is reported, and the direction without load keeps its
/// rate meanwhile. Method: four TCP uploads through a modem of 8, 4, 16 and 1 Mbit/s with a FIFO of
/// 400 packets, beside a probe; the minimum is 2 Mbit/s.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn the_rate_follows_a_line_that_changes() {
    let Some((row, modem_file)) = with_modem("autorate") else { return };
    let socket = socket("autorate");
    modem_at(&modem_file, "8mbit", "16mbit");
    let modem =
        Gateway::start_with(&row.gw, &format!("--lan y --wan wan --config {}", modem_file.path()));
    let gateway = Gateway::start_with(
        &row.gw,
        &format!(
            "--lan lan --wan x --up 12mbit --down 14mbit --autorate {FAR} --up-min 2mbit --up-max 24mbit \
             --down-min 3mbit --stats {}",
            socket.display()
        ),
    );
    row.wait_for_carriers();
    // The baseline is learned on an idle link.
    thread::sleep(millis(1_500));
    let bulk = Bulk::start(&row, HOSTS[0], Heading::Up, 4);
    let follows = |what: &str, accepted: RangeInclusive<f64>| {
        let measure = || {
            thread::sleep(millis(400));
            vec![rate(&socket, 0), rate(&socket, 1)]
        };
        settles(&format!("{what}: rates up and down, Mbit/s"), measure, |rates| {
            accepted.contains(&rates[0]) && rates[1] >= 7.0
        });
    };
    follows("8 Mbit/s", 5.6..=9.0);
    let mut worst = Duration::ZERO;
    attempts("what a probe waits", || {
        let probe = Paced::start(&row, Heading::Up, millis(20), &[100]);
        let begin = std::time::Instant::now();
        thread::sleep(millis(4_000));
        let outcome = probe.stop();
        let delays = outcome.delays(begin, std::time::Instant::now());
        worst = percentile(&delays, 50);
        println!("p50 {worst:?}, p95 {:?}", percentile(&delays, 95));
        // The FIFO of 400 packets would be 600 ms.
        if worst < millis(40) { Ok(()) } else { Err(format!("{worst:?}")) }
    });
    for (word, accepted) in [("4mbit", 2.8..=4.5), ("16mbit", 11.0..=18.0), ("1mbit", 2.0..=2.0)] {
        modem_at(&modem_file, word, "16mbit");
        assert_eq!(modem.reads_again(1).len(), 1);
        follows(word, accepted);
    }
    // The link has half of the minimum rate: reported once.
    let said = gateway.says_within(Duration::from_secs(60));
    assert!(said.contains(" up: the link is slower than --up-min 2mbit: "), "{said}");
    let report = told(&socket);
    assert_eq!(report["directions"][0]["autorate"]["is_below_min"], true, "{report}");
    assert_eq!(report["directions"][1]["autorate"]["is_below_min"], false, "{report}");
    assert_eq!(report["reflector"]["address"], FAR);
    let up = &report["directions"][0]["autorate"];
    assert_eq!(up["min_bits_per_second"], 2_000_000);
    assert!(up["baseline_ms"].as_f64().unwrap() < 2_000.0, "{report}");
    assert!(report["directions"][1]["autorate"]["state"].is_string(), "{report}");
    drop(bulk);
    gateway.end();
    modem.end();
}

/// Goal: with arrival-based autorate the download rate is a little below that of the link, and
/// within its bounds.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn the_rate_down_follows_arrivals() {
    let Some((row, modem_file)) = with_modem("arrivals") else { return };
    let socket = socket("arrivals");
    modem_at(&modem_file, "20mbit", "8mbit");
    let modem =
        Gateway::start_with(&row.gw, &format!("--lan y --wan wan --config {}", modem_file.path()));
    let words = format!(
        "--lan lan --wan x --up 18mbit --down 18mbit --autorate-ingress --down-min 6mbit --stats {}",
        socket.display()
    );
    let gateway = Gateway::start_with(&row.gw, &words);
    row.wait_for_carriers();
    let flood = Paced::start(&row, Heading::Down, Duration::from_micros(800), &[1_400]);
    let follows = |what: &str, accepted: RangeInclusive<f64>| {
        let measure = || {
            thread::sleep(millis(500));
            vec![rate(&socket, 1)]
        };
        settles(&format!("{what}, Mbit/s"), measure, |rates| accepted.contains(&rates[0]));
    };
    follows("8 Mbit/s", 6.8..=9.0);
    modem_at(&modem_file, "20mbit", "3mbit");
    assert_eq!(modem.reads_again(1).len(), 1);
    // The estimate falls by 1/128 of the difference per window, and by 1/16 while measurements stay
    // the same.
    let begin = std::time::Instant::now();
    let mut least = f64::INFINITY;
    while begin.elapsed() < Duration::from_secs(90) && least > 6.0 {
        thread::sleep(millis(500));
        least = least.min(rate(&socket, 1));
    }
    println!("{least} Mbit/s at least, after {:.1?}", begin.elapsed());
    thread::sleep(millis(2_000));
    assert_eq!((least, rate(&socket, 1)), (6.0, 6.0));
    assert_eq!(told(&socket)["directions"][1]["autorate"]["state"], "arrivals");
    drop(flood);
    gateway.end();
    modem.end();
}

/// Goal: a silent reflector is replaced by the next one; without any reply the rate is at most the
/// base rate, for any number of reflectors. A reload changes reflectors and bounds, or removes
/// them.
#[test]
fn a_silent_reflector_gives_way_to_the_next() {
    let Some((row, _)) = with_modem("reflectors") else { return };
    // No modem: the host replies from a device of its own.
    row.gw.ip("link del own");
    row.gw
        .within(|| call("ip", &format!("link add own type veth peer c9 netns {}", row.c.name())))
        .unwrap();
    row.gw.ip("link set own up");
    row.gw.ip(&format!("addr add {OWN}/24 dev own"));
    row.c.ip("link set c9 up");
    row.c.ip(&format!("route add {OWN}/32 dev c9"));
    let near = HOSTS[0];
    let socket = socket("reflectors");
    let text = |reflectors: &str, least: &str| {
        format!(
            "up = \"8mbit\"\ndown = \"8mbit\"\nautorate = \"{reflectors}\"\nup-min = \"{least}\"\n"
        )
    };
    let file = file("reflectors", &text(&format!("{SILENT},{near}"), "1mbit"));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    row.wait_for_carriers();
    let wait = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        let begin = std::time::Instant::now();
        loop {
            let report = told(&socket);
            if is_so(&report) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(15), "{what}: {report}");
            thread::sleep(millis(100));
        }
    };
    wait("the next one answers", &|report| {
        report["reflector"]["address"] == near
            && report["reflector"]["answers"].as_u64() > Some(20)
            && report["directions"][0]["autorate"]["baseline_ms"].as_f64() < Some(100.0)
    });
    assert!(reflector(&socket)["delay_ms"].as_f64().unwrap() < 1_000.0);
    let silent = format!("{SILENT},{SILENT_TOO}");
    file.write(&text(&silent, "2mbit"));
    assert_eq!(
        gateway.reads_again(1),
        [format!(
            "freeboard-gateway: autorate: {SILENT}, {near}, up 1mbit to 8mbit -> {SILENT}, {SILENT_TOO}, up 2mbit to 8mbit"
        )]
    );
    wait("silence", &|report| {
        let up = &report["directions"][0];
        up["autorate"]["state"] == "silent"
            && up["autorate"]["min_bits_per_second"] == 2_000_000
            && up["rate_bits_per_second"].as_u64() <= Some(8_000_000)
    });
    file.write("up = \"8mbit\"\ndown = \"8mbit\"\n");
    let said = gateway.reads_again(1);
    let asked = format!("{SILENT}, {SILENT_TOO}");
    assert_eq!(said, [format!("freeboard-gateway: autorate: {asked}, up 2mbit to 8mbit -> off")]);
    assert!(told(&socket)["reflector"].is_null());
    gateway.end();
    // If autorate is off at the start, there are no sockets for it.
    let gateway = Gateway::start(&row.gw, &words);
    file.write(&text(near, "2mbit"));
    let said = gateway.reads_again(1);
    assert!(said[0].contains("autorate: pinging reflectors needs a restart"), "{said:?}");
    gateway.end();
}
