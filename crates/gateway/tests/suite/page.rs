//! The recipes of `docs/guide/gateway.md` as written there: for a router, and for traffic to pass
//! while no gateway runs.

use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;

use conformance::measurement::attempts;

use crate::gateway::{Gateway, run};
use crate::raw::millis;
use crate::topology::{FAR as FAR_OF_BOX, Row, call};
use crate::traffic::{BOTH, Bulk};

const PAGE: &str = include_str!("../../../../docs/guide/gateway.md");
const HOST: &str = "192.168.1.10";
const FAR: &str = "203.0.113.2";
/// Rates on the page.
const RATES: [u64; 2] = [9_500_000, 45_000_000];

/// Returns the arguments in each line of the code block that contains `part`.
fn recipe(part: &str) -> Vec<&'static str> {
    let block = PAGE.split("```").skip(1).step_by(2).find(|block| block.contains(part)).unwrap();
    let words = |line: &'static str| Some(line.split_once("freeboard-gateway ")?.1.trim());
    block.lines().filter_map(words).collect()
}

/// Returns what systemd runs before the start and after the end, from the code block of a unit that
/// contains `part`, with the program under test.
fn unit(part: &str) -> [String; 2] {
    let block = PAGE.split("```").skip(1).step_by(2).find(|block| block.contains(part)).unwrap();
    ["ExecStartPre=+", "ExecStopPost=+"].map(|key| {
        let value = block.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        value.replace("/usr/sbin/freeboard-gateway", env!("CARGO_BIN_EXE_freeboard-gateway"))
    })
}

/// Runs a command of a unit inside; with a leading dash it may fail.
fn exec(row: &Row, command: &str) {
    let is_free = command.starts_with('-');
    let command = command.trim_start_matches('-');
    let status = row.gw.within(|| Command::new("sh").args(["-ec", command]).status());
    assert!(status.unwrap().success() || is_free, "{command}");
}

/// Turns the machine in the middle into a router with `eth1` towards a host and `eth0` towards the
/// link, with the most permissive source check.
fn router(test: &str) -> Option<Row> {
    let row = Row::new(test)?;
    row.silence();
    for (device, name) in [("lan", "eth1"), ("wan", "eth0")] {
        row.gw.ip(&format!("link set {device} down"));
        row.gw.ip(&format!("link set {device} name {name} up"));
    }
    for device in ["all", "default", "eth1", "eth0"] {
        row.gw.set(&format!("ipv4/conf/{device}/rp_filter"), "0");
    }
    row.gw.set("ipv4/ip_forward", "1");
    for (inside, device, address) in [
        (&row.c, "c0", HOST),
        (&row.gw, "eth1", "192.168.1.1"),
        (&row.gw, "eth0", "203.0.113.1"),
        (&row.s, "s0", FAR),
    ] {
        inside.ip(&format!("addr add {address}/24 dev {device}"));
        inside.ip(&format!("link set {device} arp on"));
    }
    row.c.ip("route add default via 192.168.1.1");
    row.s.ip("route add 192.168.1.0/24 via 203.0.113.1");
    row.wait_for_carriers();
    Some(row)
}

/// Returns the number of replies to ten packets.
fn answered(row: &Row, address: &str) -> usize {
    let words = format!("-c 10 -i 0.1 -W 1 {address}");
    let said = row.c.within(|| call("ping", &words));
    let said = said.unwrap_or_else(|said| said);
    said.matches(" bytes from ").count()
}

/// Returns the number of replies to ten packets, from the first reply on or after ten seconds: a
/// neighbour that did not answer is asked again only after a second.
fn answered_at_last(row: &Row, address: &str) -> usize {
    let words = format!("-c 1 -W 1 {address}");
    (0..10).find(|_| row.c.within(|| call("ping", &words)).is_ok());
    answered(row, address)
}

/// Returns the MAC address of a device.
fn mac(row: &Row, device: &str) -> String {
    let text = row.gw.try_ip(&format!("-j link show {device}")).unwrap();
    let devices: Value = serde_json::from_str(&text).unwrap();
    devices[0]["address"].as_str().unwrap().to_owned()
}

/// Goal: by following the page an operator gets a router whose hosts pass the gateway in both
/// directions, with no way around it. Method: a router that forwards, with the most permissive
/// source check, where the kernel answers for any of its addresses on any device; hosts resolve the
/// router's address again several times.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn the_recipe_for_a_router_leaves_no_way_past_the_gateway() {
    let Some(row) = router("router") else { return };
    let mac_of_router = mac(&row, "eth1");
    let recipe = recipe("setup --lan eth1");
    let [setup, words] = *recipe else { panic!("{recipe:?}") };
    assert!(run(&row.gw, setup).status.success());
    let gateway = Gateway::start_with(&row.gw, words);
    row.wait_for_carriers();
    for _ in 0..5 {
        row.c.ip("neigh flush all");
        // No program listens there, and the kernel answers that.
        row.c.within(|| TcpStream::connect((FAR, 9)).unwrap_err());
        let found = row.c.try_ip("neigh show 192.168.1.1").unwrap();
        assert!(found.contains(&mac_of_router), "{found}");
        assert_ne!(mac(&row, "eth1"), mac_of_router);
    }
    attempts("router", || {
        for (heading, rate) in BOTH.into_iter().zip(RATES) {
            let bulk = [Bulk::start(&row, HOST, heading, 4)];
            thread::sleep(millis(500));
            let begin = Instant::now();
            let bytes = Bulk::received_in(&bulk, millis(2_000))[0];
            let bits = (bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()) as u64;
            println!("{heading:?}: {bits} bit/s");
            // What bypassed the gateway would be many times as much.
            if !(rate / 2..=rate * 11 / 10).contains(&bits) {
                return Err(format!("{heading:?}: {bits} bit/s of {rate}"));
            }
        }
        Ok(())
    });
    gateway.end();
}

/// Goal: with the recipes of the page traffic passes while no gateway runs, however it ended, and
/// only through the gateway while one runs; without them nothing passes. Method: what the unit runs
/// before the start and after the end, run manually, twice; the gateway is killed.
#[test]
fn with_the_recipes_traffic_passes_while_no_gateway_runs() {
    let Some(row) = router("open") else { return };
    let [before, behind] = unit("ExecStartPre=+/usr/sbin/freeboard-gateway setup");
    let words = recipe("setup --lan eth1")[1];
    for _ in 0..2 {
        exec(&row, &before);
        assert_eq!(answered(&row, FAR), 0, "before the start");
        let gateway = Gateway::start_with(&row.gw, words);
        assert_eq!(answered_at_last(&row, FAR), 10, "through the gateway");
        gateway.signal(Signal::SIGKILL);
        drop(gateway);
        assert_eq!(answered(&row, FAR), 0, "after its end");
        exec(&row, &behind);
        assert_eq!(answered_at_last(&row, FAR), 10, "without a gateway");
    }
    drop(row);
    // A box in between: here its devices are lan and wan.
    let Some(row) = Row::new("openbox") else { return };
    let [before, behind] =
        unit("fb-open").map(|command| command.replace("eth1", "lan").replace("eth0", "wan"));
    for _ in 0..2 {
        exec(&row, &before);
        assert_eq!(answered(&row, FAR_OF_BOX), 0, "before the start");
        let gateway = Gateway::start(&row.gw, "--up 10mbit --down 10mbit");
        assert_eq!(answered_at_last(&row, FAR_OF_BOX), 10, "through the gateway");
        gateway.signal(Signal::SIGKILL);
        drop(gateway);
        assert_eq!(answered(&row, FAR_OF_BOX), 0, "after its end");
        exec(&row, &behind);
        assert_eq!(answered_at_last(&row, FAR_OF_BOX), 10, "without a gateway");
    }
}
