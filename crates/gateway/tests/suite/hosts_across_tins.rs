//! One share of a host across all tins, with the kernel's TCP.

use core::cell::Cell;
use core::ops::RangeInclusive;
use std::thread;

use conformance::measurement::settles;

use crate::gateway::Gateway;
use crate::host_rates::megabits;
use crate::raw::millis;
use crate::refusals::file;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk};

/// Code points of the four tins of diffserv4 as traffic class bytes: CS1, CS0, AF41, EF.
const CLASSES: [u8; 4] = [8 << 2, 0, 34 << 2, 46 << 2];
const VIDEO: u8 = 34 << 2;

/// Goal: beside a host with a flow in each tin, a host in a single tin gets half of this tin if
/// each tin is shared separately, and much more if hosts share across tins: half of the link, less
/// the packet per round that the other host is left there. The bounds are wide because tins use
/// what others leave, and TCP leaves some capacity unused. Method: diffserv4 at 20 Mbit/s, in each
/// direction. The single tin is video, with half of the rate: 25 % of the link are half of the tin,
/// and half of the link is all of it.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_host_in_all_tins_has_one_share_or_four() {
    let Some(row) = Row::new("across") else { return };
    let text = |across: bool| {
        format!(
            "up = \"20mbit\"\ndown = \"20mbit\"\ntins = \"diffserv4\"\nhosts-across-tins = {across}\n"
        )
    };
    let file = file("across", &text(false));
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    for heading in BOTH {
        let all = CLASSES.map(|class| Bulk::start(&row, HOSTS[0], heading, 1).with_class(class));
        let one = [Bulk::start(&row, HOSTS[1], heading, 1).with_class(VIDEO)];
        let bulks: Vec<Bulk> = all.into_iter().chain(one).collect();
        let share = |what: &str, accepted: RangeInclusive<f64>| {
            thread::sleep(millis(2_000));
            let found = Cell::new(0.0);
            settles(
                &format!("{heading:?} {what}: the host in one tin, %"),
                || {
                    let rates = megabits(&bulks, 3);
                    vec![rates[4] * 100.0 / rates.iter().sum::<f64>()]
                },
                |share| {
                    found.set(share[0]);
                    accepted.contains(&share[0])
                },
            );
            found.get()
        };
        let each = share("a share in each tin", 15.0..=36.0);
        file.write(&text(true));
        assert_eq!(gateway.reads_again(1), ["freeboard-gateway: hosts-across-tins: off -> on"]);
        let across = share("hosts across tins", 33.0..=58.0);
        file.write(&text(false));
        assert_eq!(gateway.reads_again(1), ["freeboard-gateway: hosts-across-tins: on -> off"]);
        println!("{heading:?}: {each:.1} % and {across:.1} % for the host in one tin");
    }
    gateway.end();
}
