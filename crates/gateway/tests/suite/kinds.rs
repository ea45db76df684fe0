//! Traffic other than plain IPv4 of ordinary length.

use std::thread;

use conformance::measurement::attempts;

use crate::gateway::{Gateway, dropped, run};
use crate::raw::{Raw, millis};
use crate::topology::{FAR, HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Heading, Paced, uncut_datagrams};

const RATES: &str = "--up 20mbit --down 20mbit";
/// Frames of several packets are dropped, and their sources are reported.
const UNCUT: &str = "--up 20mbit --down 20mbit --split-gso=off";

/// Checks that a UDP flow of these lengths arrives.
fn arrives(row: &Row, addresses: [&str; 2], lengths: &[usize]) {
    for (from, to, address) in [(&row.c, &row.s, addresses[1]), (&row.s, &row.c, addresses[0])] {
        // The ends have to resolve each other's address first, and their kernels keep only a few
        // packets until then.
        attempts("a flow arrives", || {
            let flow = Paced::between(from, to, address.parse().unwrap(), millis(10), lengths);
            thread::sleep(millis(400));
            let outcome = flow.stop();
            let is_whole = outcome.sent > 10 && outcome.is_complete();
            if is_whole { Ok(()) } else { Err(format!("to {address}: {outcome:?}")) }
        });
    }
}

/// Checks that TCP gets through at nearly the rate.
fn tcp_arrives(row: &Row, host: &str) {
    for heading in BOTH {
        attempts("TCP arrives", || {
            let bulk = [Bulk::start(row, host, heading, 1)];
            thread::sleep(millis(200));
            let received = Bulk::received_in(&bulk, millis(500));
            let is_fast = received[0] > 20_000_000 / 16 / 2;
            if is_fast { Ok(()) } else { Err(format!("{heading:?}: {received:?}")) }
        });
    }
}

/// Goal: protocols without special treatment get through: ARP, without which there is no IPv4 here,
/// IPv6 with its neighbour discovery, and frames with VLAN tags, which devices remove and insert.
#[test]
fn arp_and_ipv6_and_tagged_frames_get_through() {
    let Some(row) = Row::new("kinds") else { return };
    let gateway = Gateway::start(&row.gw, RATES);
    arrives(&row, [HOSTS[0], FAR], &[60, 576, 1_500]);
    row.with_ipv6();
    arrives(&row, ["fd00::1", "fd00::2"], &[80, 576, 1_500]);
    // The kernel's own tags, if it has them; the million frames include tagged ones too.
    if row.with_tags() {
        arrives(&row, ["10.7.0.1", "10.7.0.2"], &[60, 576, 1_500]);
        tcp_arrives(&row, "10.7.0.1");
    } else {
        println!("this kernel has no VLAN devices");
    }
    gateway.end();
}

#[test]
fn jumbo_frames_get_through() {
    let Some(row) = Row::new("jumbo") else { return };
    row.set_mtu(9_000);
    let gateway = Gateway::start(&row.gw, RATES);
    arrives(&row, [HOSTS[0], FAR], &[60, 9_000, 4_000]);
    tcp_arrives(&row, HOSTS[0]);
    gateway.end();
}

/// Returns the ones' complement sum of the words of `bytes`.
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Returns true if the TCP checksum in this Ethernet frame is correct; `None` without TCP over
/// IPv4.
fn is_checksum_right(frame: &[u8]) -> Option<bool> {
    let ip = frame.get(14..)?;
    if frame[12..14] != [8, 0] || ip[9] != 6 {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let segment = ip.get(20..len)?;
    let pseudo = ip[12..20].iter().chain(&[0, 6]);
    let length = (segment.len() as u16).to_be_bytes();
    let bytes: Vec<u8> = pseudo.chain(&length).chain(segment).copied().collect();
    Some(sum(&bytes) == 0xffff)
}

/// Goal: a checksum that the sender left to its device is completed by the device it leaves by.
/// Method: the sender's veth leaves it open; the gateway's WAN device has to complete it, since it
/// does not pass it on. Frames on the link are checked in full.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn open_checksums_are_closed_on_the_line() {
    let Some(row) = Row::new("checksum") else { return };
    row.c.ethtool("-K c0 tx on tso off");
    row.gw.ethtool("-K wan tx off");
    let gateway = Gateway::start(&row.gw, RATES);
    let mut line = Raw::open(&row.s, "s0");
    tcp_arrives(&row, HOSTS[0]);
    let mut checked = 0;
    while let Some(frame) = line.receive() {
        if let Some(is_right) = is_checksum_right(&frame) {
            assert!(is_right, "{frame:02x?}");
            checked += 1;
        }
        if checked == 500 {
            break;
        }
    }
    assert_eq!(checked, 500);
    gateway.end();
}

/// Goal: an open checksum has the right offset after VLAN tags, the first of which the kernel
/// removes, and with IPv6. Method: UDP from a socket that leaves checksums open, to a link whose
/// device has to complete them.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn open_checksums_behind_tags_and_ipv6_are_closed() {
    let Some(row) = Row::new("opentags") else { return };
    row.silence();
    row.gw.ethtool("-K wan tx off");
    let gateway = Gateway::start(&row.gw, RATES);
    let sending = Raw::open(&row.c, "c0").with_offloads();
    let mut line = Raw::open(&row.s, "s0");
    let udp = [&[0, 9, 0, 9, 0, 29, 0, 0][..], b"an odd number of them"].concat();
    let v4 = [69, 0, 0, 49, 0, 1, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let v6 = [&[0x60, 0, 0, 0, 0, 29, 17, 64][..], &[0xfd; 32]].concat();
    let (customer, service) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0, 9]);
    for tags in [&[][..], &customer, &service, &[service, customer].concat()] {
        for (kind, ip, addresses) in [([8, 0], &v4[..], 12), ([0x86, 0xdd], &v6, 8)] {
            let pseudo = sum(&[&ip[addresses..], &[0, 17, 0, 29]].concat());
            let mut frame = [&[2; 12], tags, &kind, ip, &udp].concat();
            let from = frame.len() - udp.len();
            frame[from + 6..from + 8].copy_from_slice(&pseudo.to_be_bytes());
            assert!(sending.send_open(&frame, from as u16, 6));
            let mut found = line.receive().unwrap();
            let closed = sum(&[&ip[addresses..], &[0, 17, 0, 29], &found[from..]].concat());
            assert_eq!(closed, 0xffff, "{found:02x?}");
            // Everything else is unchanged.
            found[from + 6..from + 8].copy_from_slice(&pseudo.to_be_bytes());
            assert_eq!(found, frame);
        }
    }
    gateway.end();
}

/// Goal: super-packets of a sender that leaves segmentation to its device are counted, the remedy
/// is logged at the start and then repeatedly with the loss, and nothing else suffers. The logged
/// command helps.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn merged_packets_are_counted_and_others_live_on() {
    let Some(row) = Row::new("merged") else { return };
    row.c.ip("link set c0 gso_max_segs 65535");
    let gateway = Gateway::start(&row.gw, UNCUT);
    let said = gateway.says();
    let command = "ip link set c0 gso_max_segs 1";
    assert!(
        said.contains(" lan: c0, the other end of the pair") && said.ends_with(command),
        "{said}"
    );
    attempts("beside merged packets", || {
        let probe = Paced::start(&row, Heading::Up, millis(10), &[200]);
        let bulk = Bulk::start(&row, HOSTS[0], Heading::Up, 2);
        thread::sleep(millis(1_000));
        drop(bulk);
        probe.stop().complete()
    });
    // The first loss is logged at once. Losses within the next ten seconds are logged afterwards,
    // in one line.
    let mut losses = 0;
    for _ in 0..2 {
        let said = gateway.says_within(millis(15_000));
        assert!(
            said.ends_with("where they come from run: ip link set DEV gso_max_segs 1"),
            "{said}"
        );
        let (_, dropped) = said.split_once(" lan: dropped ").unwrap();
        losses += dropped.split(' ').next().unwrap().parse::<i64>().unwrap();
    }
    row.c.ip(command.strip_prefix("ip ").unwrap());
    tcp_arrives(&row, HOSTS[0]);
    let report = gateway.end();
    assert!(dropped(&report, 0, "merged") >= losses && losses > 1, "{report}");
    assert_eq!(dropped(&report, 1, "merged"), 0, "{report}");
}

/// Goal: with the one command of the page and all offloads left on, packets are segmented by the
/// sender's last device and arrive as single packets for every protocol: TCP, UDP sent by the dozen
/// as by QUIC, IPv4 and IPv6. Without the command the same datagrams are dropped.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn one_command_is_enough_for_every_protocol() {
    let Some(row) = Row::new("uncut") else { return };
    row.with_ipv6();
    let gateway = Gateway::start(&row.gw, UNCUT);
    for (host, far) in [(HOSTS[0], FAR), ("fd00::1", "fd00::2")] {
        tcp_arrives(&row, host);
        let far: core::net::IpAddr = far.parse().unwrap();
        assert_eq!(uncut_datagrams(&row.c, &row.s, far, 20), 200, "{far}");
    }
    row.c.ip("link set c0 gso_max_segs 65535");
    assert_eq!(uncut_datagrams(&row.c, &row.s, FAR.parse().unwrap(), 20), 0);
    assert!(gateway.says().contains(" lan: dropped "));
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(gateway.ends().status.success());
}

/// Goal: a device that starts to coalesce packets while frames pass is reported with the remedy,
/// before a loss.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_device_that_begins_to_merge_is_reported() {
    let Some(row) = Row::new("later") else { return };
    let gateway = Gateway::start(&row.gw, UNCUT);
    row.gw.ethtool("-K lan gro on");
    let said = gateway.says();
    let (what, command) = said.split_once("; run: ethtool ").unwrap();
    assert!(what.contains(" lan coalesces received packets"), "{said}");
    row.gw.ethtool(command);
    arrives(&row, [HOSTS[0], FAR], &[60, 1_500]);
    gateway.end();
}

/// Goal: unequal and changed MTUs, and the frames lost by them, are logged once each.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn mtus_that_do_not_fit_are_said() {
    let Some(row) = Row::new("mtu") else { return };
    row.gw.ip("link set wan mtu 1400");
    let gateway = Gateway::start(&row.gw, RATES);
    let said = gateway.says();
    assert!(
        said.contains(
            " wan has an MTU of 1400 and lan of 1500: wan refuses frames longer than 1414 bytes"
        ),
        "{said}"
    );
    let lost = || {
        let flow = Paced::start(&row, Heading::Up, millis(10), &[1_500]);
        thread::sleep(millis(300));
        assert!(flow.stop().arrived.is_empty());
    };
    lost();
    assert!(
        gateway
            .says()
            .ends_with(" wan: refuses frames (counted as device): longer than its MTU of 1400")
    );
    lost();
    row.set_mtu(2_000);
    // Between the two changes they differ, which may be logged or not.
    for name in ["lan", "wan"] {
        let said = core::iter::from_fn(|| Some(gateway.says()));
        let said = said.take(2).find(|line| !line.contains(" has an MTU of ")).unwrap();
        let part = format!(" {name}: MTU changed from ");
        assert!(said.contains(&part) && said.contains(" to 2000; "), "{said}");
        assert!(said.ends_with("until a restart"), "{said}");
    }
    let flow = Paced::start(&row, Heading::Up, millis(10), &[2_000]);
    thread::sleep(millis(300));
    assert!(flow.stop().arrived.is_empty());
    let said = gateway.says();
    assert!(
        said.contains(" lan: dropped a frame longer than the MTU of 1500 at the start allows"),
        "{said}"
    );
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let ended = gateway.ends();
    assert!(ended.status.success() && ended.said.is_empty(), "{ended:?}");
}

#[test]
fn a_device_that_merges_is_refused_with_the_command_that_helps() {
    let Some(row) = Row::new("gro") else { return };
    let refused = |option: &str, device: &str, words: &str| {
        let before = row.gw.devices();
        let output = run(&row.gw, &format!("{words} {UNCUT}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
        assert!(said.contains(&format!("{option} {device}: ")), "{said}");
        let (_, command) = said.trim_end().split_once("ethtool ").unwrap();
        assert!(command.starts_with(&format!("-K {device} gro off")), "{said}");
        assert_eq!(row.gw.devices(), before);
        // The command can be pasted as logged.
        row.gw.ethtool(command);
    };
    for device in ["lan", "wan"] {
        row.gw.ethtool(&format!("-K {device} gro on"));
        refused(&format!("--{device}"), device, "--lan lan --wan wan");
    }
    // A bridge has its own flag, independent of its ports, and a new bridge has it on.
    row.gw.ip("link add name br0 type bridge");
    row.gw.ip("link set lan master br0");
    refused("--lan", "br0", "--lan br0 --wan wan");
    row.gw.ip("link del br0");
    Gateway::start(&row.gw, UNCUT).end();
}
