//! Tins.

use core::time::Duration;
use std::net::UdpSocket;
use std::thread;

use conformance::measurement::attempts;

use crate::gateway::{Gateway, told};
use crate::handling::datagram;
use crate::nat::nft;
use crate::raw::{Raw, millis};
use crate::refusals::file;
use crate::topology::{FAR, HOSTS, Row, has, skip};
use crate::traffic::{BOTH, Bulk, Heading, Outcome, Paced};

/// Traffic class byte of EF.
const EF: u8 = 46 << 2;

/// Sends 1.4 Mbit/s with this traffic class for some seconds.
fn calls(row: &Row, heading: Heading, class: u8) -> Outcome {
    let (from, to, address) = match heading {
        Heading::Up => (&row.c, &row.s, FAR),
        Heading::Down => (&row.s, &row.c, HOSTS[0]),
    };
    let pace = (Duration::from_millis(4), &[700][..]);
    let paced = Paced::with_class(from, to, address.parse().unwrap(), pace, class);
    thread::sleep(millis(4_000));
    paced.stop()
}

/// Goal: beside a flood of TCP flows of the same host an EF flow above its fair share loses nothing
/// with tins, and is treated as the others without; its tin counts its packets, in the report too;
/// and tins change under load without loss in it. Method: 1.4 Mbit/s of EF beside 16 TCP flows at
/// 10 Mbit/s, in each direction; the voice tin of diffserv4 has 2.5.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn ef_loses_nothing_beside_a_flood() {
    let Some(row) = Row::new("tins") else { return };
    let socket = std::env::temp_dir().join(format!("freeboard-{}-tins", std::process::id()));
    let text = |tins: &str| format!("up = \"10mbit\"\ndown = \"10mbit\"\ntins = \"{tins}\"\n");
    attempts("tins", || {
        let file = file("tins", &text("besteffort"));
        let words = format!("--config {} --stats {}", file.path(), socket.display());
        let gateway = Gateway::start(&row.gw, &words);
        for (at, heading) in BOTH.into_iter().enumerate() {
            file.write(&text("besteffort"));
            gateway.reads_again(1);
            let bulk = Bulk::start(&row, HOSTS[0], heading, 16);
            thread::sleep(millis(1_000));
            let without = calls(&row, heading, EF);
            file.write(&text("diffserv4"));
            let said = gateway.reads_again(1);
            assert_eq!(said, ["freeboard-gateway: tins: besteffort -> diffserv4"]);
            let with = calls(&row, heading, EF);
            let report = told(&socket);
            let voice =
                report["directions"][at]["tins"].as_array().unwrap().last().unwrap().clone();
            assert_eq!(voice["name"], "voice", "{report}");
            // The new plan has a tin with this name too.
            file.write(&text("tin bulk tin voice share 1/2 map EF voice"));
            let said = gateway.reads_again(1);
            assert!(said[0].contains("tins: diffserv4 -> tin bulk"), "{said:?}");
            let own = calls(&row, heading, EF);
            drop(bulk);
            let lost = [&without, &with, &own]
                .map(|outcome| outcome.sent as usize - outcome.arrived.len());
            println!("{heading:?}: of {} lost {lost:?}; {voice}", with.sent);
            if lost[0] < 50 || lost[1] > 0 || lost[2] > 0 {
                return Err(format!("{lost:?}"));
            }
            if voice["sent"].as_u64() < Some(900) || voice["dropped"] != 0 {
                return Err(format!("{voice}"));
            }
        }
        gateway.end();
        Ok(())
    });
}

/// Goal: the configured header selects the tin, also after a reload. Method: a datagram with
/// priority 1 in its tag, AF41 in its IP header and EF in the inner one.
#[test]
fn a_tin_is_named_by_the_header_that_was_asked_for() {
    let Some(row) = Row::new("tinby") else { return };
    row.silence();
    let socket = std::env::temp_dir().join(format!("freeboard-{}-tinby", std::process::id()));
    let text = |by: &str| {
        format!("up = \"10mbit\"\ndown = \"10mbit\"\ntins = \"diffserv4\"\ntin-by = \"{by}\"\n")
    };
    let file = file("tinby", &text("dscp"));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    row.wait_for_carriers();
    let [near, mut far] = [Raw::open(&row.c, "c0"), Raw::open(&row.s, "s0")];
    let inside = datagram(46 << 2)[14..].to_vec();
    let mut outside = datagram(34 << 2)[14..34].to_vec();
    (outside[3], outside[9]) = (20 + inside.len() as u8, 4);
    let link = [vec![0xff; 6], vec![2, 0, 0, 0, 0, 9, 0x81, 0, 1 << 5, 7, 8, 0]].concat();
    let frame = [link, outside, inside].concat();
    let mut before = [0; 4];
    for (by, said, tin) in [
        ("dscp", None, "video"),
        ("inner-dscp", Some("tin-by: dscp -> inner-dscp"), "voice"),
        ("priority", Some("tin-by: inner-dscp -> priority"), "bulk"),
    ] {
        if let Some(said) = said {
            file.write(&text(by));
            assert_eq!(gateway.reads_again(1), [format!("freeboard-gateway: {said}")]);
        }
        assert!(near.send(&frame));
        assert!(far.receive().is_some());
        let report = told(&socket);
        let up = &report["directions"][0];
        assert_eq!(up["tin_by"], by);
        let tins = up["tins"].as_array().unwrap();
        for (tin_report, before) in tins.iter().zip(&mut before) {
            let sent = tin_report["sent"].as_u64().unwrap();
            let is_it = tin_report["name"] == tin;
            assert_eq!(sent - *before, u64::from(is_it), "{by}: {report}");
            *before = sent;
        }
    }
    gateway.end();
}

/// Goal: the configured bits of a firewall mark select the tin of what the machine's own stack
/// sends; without a mark the code point does; marks number the tins in the report's order; the bits
/// change on a reload; and a gateway that was started without marks does not start to use them.
/// Method: rules that mark by port, and the gateway between a veth pair of the stack and the link.
#[test]
fn a_mark_names_the_tin_of_what_the_own_stack_sends() {
    let Some(row) = Row::new("fwmark") else { return };
    if !has("fwmark", &["nft"]) {
        return;
    }
    row.gw.ip("link add out type veth peer name fb");
    for device in ["out", "fb"] {
        row.gw.ethtool(&format!("-K {device} gro off"));
        row.gw.ip(&format!("link set {device} up"));
    }
    row.gw.ip("link set wan arp off");
    row.gw.ip("addr add 10.9.0.254/24 dev out");
    // ARP has its own tin, so static neighbours avoid requests.
    row.gw.ip("link set out address 02:00:00:00:00:fe");
    row.s.ip("link set s0 address 02:00:00:00:00:02");
    row.gw.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev out nud permanent");
    row.s.ip("neigh add 10.9.0.254 lladdr 02:00:00:00:00:fe dev s0 nud permanent");
    let rules = "table ip t {\n chain out {\n  type filter hook output priority mangle;\n  \
                 udp dport 9 meta mark set 0x0104\n  udp dport 10 meta mark set 0x0300\n }\n}\n";
    if let Err(why) = nft(&row.gw, rules) {
        skip("fwmark", &format!("nft with marks ({})", why.trim()));
        return;
    }
    let socket = std::env::temp_dir().join(format!("freeboard-{}-fwmark", std::process::id()));
    let text = |mask: &str| {
        format!("up = \"10mbit\"\ndown = \"10mbit\"\ntins = \"diffserv4\"\nfwmark = \"{mask}\"\n")
    };
    let sending = row.gw.within(|| UdpSocket::bind(("10.9.0.254", 0)).unwrap());
    let sent_to = |port: u16| -> String {
        let sent = || -> Vec<(String, u64)> {
            let report = told(&socket);
            let tins = report["directions"][0]["tins"].as_array().unwrap().iter();
            let sent = |tin: &serde_json::Value| tin["sent"].as_u64().unwrap();
            tins.map(|tin| (tin["name"].as_str().unwrap().to_owned(), sent(tin))).collect()
        };
        let before = sent();
        sending.send_to(b"marked", (FAR, port)).unwrap();
        for _ in 0..100 {
            let after = sent().into_iter().zip(&before);
            if let Some(((name, _), _)) = after.into_iter().find(|(tin, before)| tin.1 > before.1) {
                return name;
            }
            thread::sleep(millis(10));
        }
        "nothing".to_owned()
    };
    let file = file("fwmark", &text("0xff"));
    let words = format!("--lan fb --wan wan --config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start_with(&row.gw, &words);
    assert_eq!([9, 10, 11].map(&sent_to), ["voice", "best-effort", "best-effort"]);
    let report = told(&socket);
    let tins = report["directions"][0]["tins"].as_array().unwrap();
    let names: Vec<&str> = tins.iter().map(|tin| tin["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bulk", "best-effort", "video", "voice"], "as marks 1, 2, 3 and 4");
    file.write(&text("0xff00"));
    assert_eq!(gateway.reads_again(1), ["freeboard-gateway: fwmark: 0xff -> 0xff00"]);
    assert_eq!([9, 10, 11].map(&sent_to), ["bulk", "video", "best-effort"]);
    assert_eq!(told(&socket)["directions"][0]["fwmark"], "0xff00");
    file.write(&text("0"));
    assert_eq!(gateway.reads_again(1), ["freeboard-gateway: fwmark: 0xff00 -> 0x0"]);
    assert_eq!([9, 10, 11].map(&sent_to), ["best-effort"; 3]);
    gateway.end();
    let gateway = Gateway::start_with(&row.gw, &words);
    file.write(&text("0xff"));
    let said = "freeboard-gateway: fwmark: receiving marks needs a restart; off until then";
    assert_eq!(gateway.reads_again(1), [said]);
    assert_eq!(sent_to(9), "best-effort");
    gateway.end();
}
