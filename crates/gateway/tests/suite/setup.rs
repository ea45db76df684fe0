//! Devices in use by the machine itself: rejected, then prepared by `setup`, which `teardown`
//! undoes.

use std::process::{Command, Output};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::gateway::{Gateway, run};
use crate::raw::millis;
use crate::topology::{Namespace, Row, call};
use crate::traffic::{BOTH, Bulk};

const HOST: &str = "192.168.1.10";
const FAR: &str = "203.0.113.2";
const RATES: &str = "--up 9500kbit --down 45mbit";
const ROUTER: &str = "--lan lan --wan wan";

/// Turns the machine in the middle into a router for IPv4 and IPv6, with the most permissive source
/// check. `lan` is its device towards the hosts, which may be a bridge.
fn router(test: &str, lan: &str) -> Option<Row> {
    let row = Row::new(test)?;
    row.silence();
    if lan != "lan" {
        row.gw.ip(&format!("link add {lan} type bridge"));
        row.gw.ip(&format!("link set lan master {lan}"));
        row.gw.ip(&format!("link set {lan} up"));
    }
    for (inside, device) in [(&row.c, "c0"), (&row.gw, lan), (&row.gw, "wan"), (&row.s, "s0")] {
        inside.ip(&format!("link set {device} arp on"));
        inside.set(&format!("ipv6/conf/{device}/disable_ipv6"), "0");
        inside.set(&format!("ipv4/conf/{device}/rp_filter"), "0");
    }
    row.gw.set("ipv4/conf/all/rp_filter", "0");
    row.gw.set("ipv4/ip_forward", "1");
    row.gw.set("ipv6/conf/all/forwarding", "1");
    for (inside, words) in [
        (&row.c, "addr add 192.168.1.10/24 dev c0"),
        (&row.c, "addr add fd00:1::10/64 dev c0 nodad"),
        (&row.s, "addr add 203.0.113.2/24 dev s0"),
        (&row.s, "addr add fd00:2::2/64 dev s0 nodad"),
        (&row.gw, "addr add 203.0.113.1/24 dev wan"),
        (&row.gw, "addr add fd00:2::1/64 dev wan nodad"),
        (&row.gw, "route add default via 203.0.113.2 metric 50"),
        (&row.c, "route add default via 192.168.1.1"),
        (&row.s, "route add 192.168.1.0/24 via 203.0.113.1"),
    ] {
        inside.ip(words);
    }
    for words in [
        "addr add 192.168.1.1/24 brd +",
        "addr add 192.168.1.2/24",
        "addr add 192.168.9.1/24 noprefixroute metric 9",
        "addr add fd00:1::1/64 nodad",
        "addr add fd00:1::2/64 nodad noprefixroute",
        "addr add fe80::1/64 nodad",
    ] {
        row.gw.ip(&format!("{words} dev {lan}"));
    }
    for words in [
        "route add 10.7.0.0/16 via 192.168.1.10 metric 7 src 192.168.1.2",
        &format!("route add 10.8.0.0/16 via 10.7.0.1 onlink mtu 1400 table 100 dev {lan}"),
        &format!("route add 10.6.0.0/16 dev {lan} scope link"),
        "route add fd07::/32 via fd00:1::10 metric 77",
        // Through another device, from one of the addresses: it moves with them.
        "route add 10.5.0.0/16 via 203.0.113.2 dev wan src 192.168.1.1",
        "route add fd05::/32 via fd00:2::2 dev wan src fd00:1::1",
        &format!("neigh add 192.168.1.77 lladdr 02:00:00:00:00:77 dev {lan} nud permanent"),
    ] {
        row.gw.ip(words);
    }
    row.c.ip("route add default via fd00:1::1");
    row.s.ip("route add fd00:1::/64 via fd00:2::1");
    row.wait_for_carriers();
    Some(row)
}

/// Returns all that `setup` changes: links, addresses, routes, permanent neighbours and two
/// settings.
fn state(inside: &Namespace) -> Vec<String> {
    // Duplicate address detection and the carrier of a new pair take a second or two.
    let waits = |words: &str, part: &str| inside.try_ip(words).unwrap().contains(part);
    while waits("-6 addr show tentative", "inet6") || waits("link show up", "NO-CARRIER") {
        thread::sleep(millis(50));
    }
    let mut all = Vec::new();
    for words in ["link show", "addr show", "neigh show nud permanent"] {
        all.push(inside.try_ip(words).unwrap());
    }
    for family in ["-4", "-6"] {
        let text = inside.try_ip(&format!("{family} route show table all")).unwrap();
        let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.sort_unstable();
        all.push(lines.join("\n"));
    }
    let settings = "cd /proc/sys/net; grep . ipv[46]/conf/*/forwarding ipv6/conf/*/disable_ipv6";
    let text = inside.within(|| Command::new("sh").args(["-c", settings]).output()).unwrap();
    all.push(String::from_utf8(text.stdout).unwrap());
    all
}

fn assert_same(before: &[String], after: &[String]) {
    for (before, after) in before.iter().zip(after) {
        assert_eq!(before, after);
    }
}

fn said(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

/// Runs a command that succeeds; returns its output.
fn done(inside: &Namespace, words: &str) -> String {
    let output = run(inside, words);
    assert!(output.status.success(), "{words}: {output:?}");
    said(&output)
}

/// Returns the message for a device that is rejected.
fn refused(inside: &Namespace, words: &str) -> String {
    let before = state(inside);
    let output = run(inside, &format!("{words} {RATES}"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_same(&before, &state(inside));
    said(&output)
}

/// Checks that each of a few packets is answered once.
fn answers(from: &Namespace, address: &str) -> bool {
    let words = format!("-c 3 -i 0.2 -W 2 {address}");
    let said = from.within(|| call("ping", &words));
    said.is_ok_and(|said| said.contains(" 3 received") && !said.contains("DUP"))
}

/// Goal: a device with an address is rejected with commands, and these make a router whose hosts
/// pass the gateway with all of their traffic, each packet once; `teardown` restores the router.
/// Both commands may be repeated.
#[test]
fn the_commands_of_a_refusal_make_a_router_fit_and_are_taken_back() {
    let Some(row) = router("setup", "lan") else { return };
    assert!(answers(&row.c, FAR) && answers(&row.c, "fd00:2::2"));
    let before = state(&row.gw);
    let why = refused(&row.gw, ROUTER);
    assert!(why.contains("--lan lan: has the address 192.168.1.1/24"), "{why}");
    let (_, commands) = why.split_once("on a router run: freeboard-gateway ").unwrap();
    let (setup, rest) = commands.split_once(", then start the gateway with ").unwrap();
    let (options, elsewhere) = rest.split_once("; elsewhere run: ").unwrap();
    assert_eq!((setup, options), ("setup --lan lan --wan wan", "--lan lan --wan lan-fb"));
    assert_eq!(elsewhere, "ip addr del 192.168.1.1/24 dev lan");
    let moved = done(&row.gw, setup);
    assert!(
        moved.contains("lan: 6 addresses, 1 neighbour and 4 routes moved to lan-in"),
        "{moved}"
    );
    let meanwhile = state(&row.gw);
    let again = done(&row.gw, setup);
    assert!(
        again.contains(&format!("already exists; start the gateway with {options}")),
        "{again}"
    );
    assert_same(&meanwhile, &state(&row.gw));
    // Nothing passes while no gateway runs.
    assert!(!answers(&row.c, FAR));
    let gateway = Gateway::start_with(&row.gw, &format!("{options} {RATES}"));
    for address in [FAR, "fd00:2::2", "192.168.1.1", "192.168.1.2", "fd00:1::1"] {
        assert!(answers(&row.c, address), "{address}");
    }
    let received = BOTH.map(|heading| {
        let bulk = Bulk::start(&row, HOST, heading, 4);
        assert!(bulk.receives(300_000), "{heading:?}");
        bulk.received()
    });
    let report = gateway.end();
    for (direction, received) in received.into_iter().enumerate() {
        let passed = report["directions"][direction]["sent_bytes"].as_u64().unwrap();
        assert!(passed >= received, "{received} of {passed}: {report}");
    }
    let back = done(&row.gw, &setup.replace("setup", "teardown"));
    assert!(back.contains("lan: 6 addresses, 1 neighbour and 4 routes moved back"), "{back}");
    assert_same(&before, &state(&row.gw));
    assert!(answers(&row.c, FAR) && answers(&row.c, "fd00:2::2"));
    let again = done(&row.gw, &setup.replace("setup", "teardown"));
    assert!(again.ends_with("lan: nothing to remove"), "{again}");
    assert_same(&before, &state(&row.gw));
}

/// Goal: on the outer side the default route and the address of the link move, and come back; the
/// router's own packets pass the gateway too.
#[test]
fn the_outer_side_moves_with_its_default_route() {
    let Some(row) = router("setupnat", "lan") else { return };
    let before = state(&row.gw);
    let moved = done(&row.gw, "setup --lan lan --wan wan --nat");
    assert!(moved.contains("start the gateway with --lan wan-fb --wan wan --nat"), "{moved}");
    let route = row.gw.try_ip("route show default").unwrap();
    assert!(route.contains("via 203.0.113.2 dev wan-out metric 50"), "{route}");
    let gateway = Gateway::start_with(&row.gw, &format!("--lan wan-fb --wan wan {RATES}"));
    assert!(answers(&row.gw, FAR) && answers(&row.c, FAR) && answers(&row.c, "fd00:2::2"));
    let report = gateway.end();
    assert!(report["directions"][0]["sent"].as_u64() >= Some(9), "{report}");
    done(&row.gw, "teardown --lan lan --wan wan --nat");
    assert_same(&before, &state(&row.gw));
}

/// Goal: with a bridge the gateway becomes a port, so that frames between hosts do not pass it;
/// after a failure on the way everything is restored.
#[test]
fn a_bridge_gets_a_port_and_a_failure_changes_nothing() {
    let Some(row) = router("setupbr", "br0") else { return };
    let port = refused(&row.gw, ROUTER);
    assert!(port.contains("--lan lan: is a port of br0 (bridge)"), "{port}");
    assert!(port.ends_with("run: ip link set lan nomaster, or use br0"), "{port}");
    let why = refused(&row.gw, "--lan br0 --wan wan");
    assert!(why.contains("start the gateway with --lan br0-lan --wan br0-fb; "), "{why}");
    // The name of the port is taken, which is discovered after the first pair is created.
    row.gw.ip("link add br0-pt type veth peer br0-other");
    let before = state(&row.gw);
    let output = run(&row.gw, "setup --lan br0 --wan wan");
    let failed = said(&output);
    assert_eq!(output.status.code(), Some(3), "{failed}");
    assert!(failed.contains("br0-pt, br0-lan: a pair (veth): File exists"), "{failed}");
    assert!(failed.ends_with("; all changes were undone"), "{failed}");
    assert_same(&before, &state(&row.gw));
    row.gw.ip("link del br0-pt");
    let before = state(&row.gw);
    done(&row.gw, "setup --lan br0 --wan wan");
    let gateway = Gateway::start_with(&row.gw, &format!("--lan br0-lan --wan br0-fb {RATES}"));
    row.c.ip("neigh flush all");
    assert!(answers(&row.c, FAR) && answers(&row.c, "192.168.1.1"));
    gateway.end();
    done(&row.gw, "teardown --lan br0 --wan wan");
    assert_same(&before, &state(&row.gw));
}

/// Goal: an unused pair left by a killed `setup` is removed; one that is in use stays.
#[test]
fn what_a_killed_setup_has_left_goes() {
    let Some(row) = router("setupkill", "br0") else { return };
    row.gw.ip("link add br0-in type veth peer name br0-fb");
    row.gw.ip("link set br0-fb up");
    let output = run(&row.gw, "setup --lan br0 --wan wan");
    assert!(said(&output).contains("br0-in, br0-fb: a pair (veth): File exists"), "{output:?}");
    row.gw.ip("link set br0-fb down");
    row.gw.ip("link add br0-pt type veth peer name br0-lan");
    done(&row.gw, "setup --lan br0 --wan wan");
    let gateway = Gateway::start_with(&row.gw, &format!("--lan br0-lan --wan br0-fb {RATES}"));
    row.c.ip("neigh flush all");
    assert!(answers(&row.c, FAR));
    gateway.end();
}

/// Goal: a rejected command changes nothing, also where everything was set up before; without the
/// privilege, one line names it.
#[test]
fn a_device_that_became_a_port_stays_set_up() {
    let Some(row) = router("setupport", "lan") else { return };
    let before = state(&row.gw);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_admin", env!("CARGO_BIN_EXE_freeboard-gateway"), "setup"]);
    command.args(ROUTER.split_whitespace());
    let output = row.gw.within(move || command.output().unwrap());
    let missing = "not permitted: CAP_NET_ADMIN is missing; run as root, or grant it; all changes were undone";
    assert!(said(&output).ends_with(missing), "{output:?}");
    assert_same(&before, &state(&row.gw));
    done(&row.gw, "setup --lan lan --wan wan");
    row.gw.ip("link add br0 type bridge");
    row.gw.ip("link set lan master br0");
    let before = state(&row.gw);
    let output = run(&row.gw, "setup --lan lan --wan wan");
    assert!(said(&output).contains("--lan lan: lan is a port of br0 (bridge)"), "{output:?}");
    assert_same(&before, &state(&row.gw));
}

/// Goal: other uses of a device are detected and reported with the command that ends them; a
/// link-local address is not a use. An address added later is logged.
#[test]
fn other_uses_of_a_device_are_refused_and_said() {
    let Some(row) = Row::new("uses") else { return };
    let line = "--lan lan --wan wan";
    row.gw.set("ipv6/conf/wan/disable_ipv6", "0");
    row.gw.ip("addr add fe80::7/64 dev wan nodad");
    Gateway::start_with(&row.gw, &format!("{line} {RATES}")).end();
    row.gw.ip("addr add fd00::7/64 dev wan nodad");
    let why = refused(&row.gw, line);
    assert!(why.contains("--wan wan: has the address fd00::7/64"), "{why}");
    assert!(why.ends_with("elsewhere run: sysctl -w net/ipv6/conf/wan/disable_ipv6=1"), "{why}");
    row.gw.ip("addr del fd00::7/64 dev wan");
    if row.gw.try_ip("link add link lan name lan.7 type vlan id 7").is_ok() {
        row.gw.ip("addr add 10.7.0.1/24 dev lan.7");
        let why = refused(&row.gw, line);
        assert!(why.contains("--lan lan: lan.7 on top of it has the address 10.7.0.1/24"), "{why}");
        let output = run(&row.gw, "setup --lan lan --wan wan");
        assert!(said(&output).ends_with("ip addr del 10.7.0.1/24 dev lan.7, or use lan.7"));
        row.gw.ip("link del lan.7");
    }
    let gateway = Gateway::start_with(&row.gw, &format!("{line} {RATES}"));
    let why = refused(&row.gw, line);
    let (_, process) = why.split_once("to stop that one run: kill ").unwrap();
    assert_eq!(process, gateway.pid().to_string());
    row.gw.ip("addr add 10.9.0.5/24 dev lan");
    let said = gateway.says();
    assert!(said.contains(" lan now has the address 10.9.0.5/24, so frames bypass the"), "{said}");
    assert!(said.ends_with("run: ip addr del 10.9.0.5/24 dev lan"), "{said}");
    row.gw.ip("addr del 10.9.0.5/24 dev lan");
    kill(Pid::from_raw(process.parse().unwrap()), Signal::SIGTERM).unwrap();
    let ended = gateway.ends();
    assert!(ended.status.success() && ended.said.is_empty(), "{ended:?}");
    Gateway::start_with(&row.gw, &format!("{line} {RATES}")).end();
}
