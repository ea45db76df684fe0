//! Classes of the line.

use core::time::Duration;
use std::thread;

use conformance::measurement::attempts;

use crate::gateway::{Gateway, told};
use crate::handling::datagram;
use crate::raw::{Raw, millis};
use crate::refusals::file;
use crate::topology::{FAR, HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Heading, Outcome, Paced};

/// The byte of class of EF.
const EF: u8 = 46 << 2;

/// 1.4 Mbit/s with this class for some seconds.
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

/// Goal: beside a flood of TCP flows of the same host a flow of EF above its fair share loses nothing with tins, and is what
/// the others are without; its tin has its packets, in the report too; and other tins come and go under load with nothing
/// of it lost.
/// Method: 1.4 Mbit/s of EF beside 16 TCP flows at 10 Mbit/s, each way; the voice of diffserv4 has 2.5.
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
            // Another plan has a tin of this name too.
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

/// Goal: the tin is named by the header that was asked for, also after a reload.
/// Method: a datagram with priority 1 in its tag, AF41 in its IP header and EF in the one inside.
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
