//! Hosts with several addresses: lists, network cards and prefixes.

use core::time::Duration;
use std::thread;

use conformance::measurement::settles;

use crate::gateway::{Gateway, told};
use crate::host_rates::megabits;
use crate::raw::millis;
use crate::refusals::file;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk};

const LINE: &str = "up = \"20mbit\"\ndown = \"20mbit\"\n";
/// A third address of the LAN.
const THIRD: &str = "10.9.0.5";

/// Returns each address's share of the total.
fn share_of_third(bulks: &[Bulk]) -> Vec<f64> {
    let bytes = Bulk::received_in(bulks, Duration::from_millis(1_500));
    let all: u64 = bytes.iter().sum();
    vec![bytes[2] as f64 * 100.0 / all as f64]
}

/// Goal: addresses in a list are one host: another host gets half of the link beside two addresses
/// of one machine, and a third if each address is a host; by MAC address all of them are one. A
/// ceiling of a name applies to its addresses together, one of a prefix to each host in it. All of
/// it changes by a reload, and reports use the name. Method: three addresses with four TCP flows
/// each, in both directions.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn addresses_on_a_list_are_one_host() {
    let Some(row) = Row::new("named") else { return };
    row.c.ip(&format!("addr add {THIRD}/24 dev c0"));
    let socket = std::env::temp_dir().join(format!("freeboard-{}-named", std::process::id()));
    let pair = format!("[names]\npair = [\"{}\", \"{}\"]\n", HOSTS[0], HOSTS[1]);
    let file = file("named", LINE);
    let gateway =
        Gateway::start(&row.gw, &format!("--config {} --stats {}", file.path(), socket.display()));
    let start = |heading, flows: [usize; 3]| {
        let addresses = [HOSTS[0], HOSTS[1], THIRD];
        let bulks: Vec<Bulk> = addresses
            .iter()
            .zip(flows)
            .map(|(host, flows)| Bulk::start(&row, host, heading, flows))
            .collect();
        thread::sleep(millis(1_000));
        bulks
    };
    let shares = |what: &str, flows, accepted: core::ops::RangeInclusive<f64>| {
        for heading in BOTH {
            let bulks = start(heading, flows);
            let what = format!("{what}: {heading:?}, the third address, %");
            settles(&what, || share_of_third(&bulks), |share| accepted.contains(&share[0]));
        }
    };
    shares("by address", [4, 4, 4], 30.0..=37.0);
    file.write(&format!("{LINE}{pair}"));
    assert_eq!(
        gateway.reads_again(1),
        ["freeboard-gateway: names: pair none -> 2 addresses".to_owned()]
    );
    shares("two on a list", [4, 4, 4], 46.0..=54.0);
    let report = told(&socket);
    let seen = report["directions"][1]["hosts_seen"].as_array().unwrap();
    assert!(seen.iter().any(|host| host["name"] == "pair"), "{seen:?}");
    file.write(&format!("host-by = \"mac\"\n{LINE}"));
    assert_eq!(gateway.reads_again(2).len(), 2);
    shares("by card", [1, 1, 8], 60.0..=100.0);

    file.write(&format!("{LINE}{pair}[ceils]\npair = \"5mbit\"\n\"10.9.0.0/24\" = \"8mbit\"\n"));
    assert_eq!(gateway.reads_again(3).len(), 3);
    for heading in BOTH {
        let bulks = start(heading, [4, 4, 4]);
        let what = format!("{heading:?}, a ceiling of 5 for a list, of 8 for each host, Mbit/s");
        let right =
            |all: &[f64]| (4.2..=5.1).contains(&(all[0] + all[1])) && (6.8..=8.1).contains(&all[2]);
        settles(&what, || megabits(&bulks, 1), right);
    }
    gateway.end();
}
