//! The recipe of `docs/guide/gateway.md` for a router, as it is written there.

use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use conformance::measurement::attempts;

use crate::gateway::Gateway;
use crate::raw::millis;
use crate::topology::Row;
use crate::traffic::{BOTH, Bulk};

const PAGE: &str = include_str!("../../../../docs/guide/gateway.md");
const HOST: &str = "192.168.1.10";
/// What the page says.
const RATES: [u64; 2] = [9_500_000, 45_000_000];

/// The block of code with this in it: its commands, and the words of the last, which is the gateway.
fn recipe(part: &str) -> (String, &'static str) {
    let block = PAGE.split("```").skip(1).step_by(2).find(|block| block.contains(part)).unwrap();
    let (commands, gateway) = block.split_once("freeboard-gateway ").unwrap();
    (commands.trim_start_matches("sh\n").to_owned(), gateway.trim())
}

/// The address of a device.
fn mac(row: &Row, device: &str) -> String {
    let text = row.gw.try_ip(&format!("-j link show {device}")).unwrap();
    let devices: Value = serde_json::from_str(&text).unwrap();
    devices[0]["address"].as_str().unwrap().to_owned()
}

/// Goal: an operator who follows the page has a router whose hosts pass the gateway both ways, and nowhere else.
/// Method: a router that forwards, with the laxest check of sources, where the kernel answers for any of its
/// addresses at any device; hosts that ask anew for the router's address, several times.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn the_recipe_for_a_router_leaves_no_way_past_the_gateway() {
    let Some(row) = Row::new("router") else { return };
    row.silence();
    for words in ["lan down", "lan name eth1", "eth1 up"] {
        row.gw.ip(&format!("link set {words}"));
    }
    for device in ["all", "default", "eth1", "wan"] {
        row.gw.set(&format!("ipv4/conf/{device}/rp_filter"), "0");
    }
    row.gw.set("ipv4/ip_forward", "1");
    for (inside, device, address) in [
        (&row.c, "c0", "192.168.1.10"),
        (&row.gw, "eth1", "192.168.1.1"),
        (&row.gw, "wan", "203.0.113.1"),
        (&row.s, "s0", "203.0.113.2"),
    ] {
        inside.ip(&format!("addr add {address}/24 dev {device}"));
        inside.ip(&format!("link set {device} arp on"));
    }
    row.c.ip("route add default via 192.168.1.1");
    row.s.ip("route add 192.168.1.0/24 via 203.0.113.1");
    let (commands, words) = recipe("inside type veth");
    row.gw.within(|| {
        let status = std::process::Command::new("sh").args(["-euc", &commands]).status();
        assert!(status.unwrap().success(), "{commands}");
    });
    let gateway = Gateway::start_with(&row.gw, words);
    row.wait_for_carriers();
    for _ in 0..5 {
        row.c.ip("neigh flush all");
        // No program listens there, and the kernel there says so.
        row.c.within(|| TcpStream::connect("203.0.113.2:9").unwrap_err());
        let found = row.c.try_ip("neigh show 192.168.1.1").unwrap();
        assert!(found.contains(&mac(&row, "inside")), "{found}");
    }
    attempts("router", || {
        for (heading, rate) in BOTH.into_iter().zip(RATES) {
            let bulk = [Bulk::start(&row, HOST, heading, 4)];
            thread::sleep(millis(500));
            let begin = Instant::now();
            let bytes = Bulk::received_in(&bulk, millis(2_000))[0];
            let bits = (bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()) as u64;
            println!("{heading:?}: {bits} bit/s");
            // What past the gateway went would be many times as much.
            if !(rate / 2..=rate * 11 / 10).contains(&bits) {
                return Err(format!("{heading:?}: {bits} bit/s of {rate}"));
            }
        }
        Ok(())
    });
    gateway.end();
}
