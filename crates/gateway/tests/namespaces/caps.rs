//! Caps of hosts.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::attempts;
use crate::gateway::Gateway;
use crate::raw::millis;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk};
use crate::words::file;

/// Goal: a host with a cap has no more while another wants the rest, and the whole line when no other does.
/// Method: a host with a cap of 2 Mbit/s and one without, at 10 Mbit/s, each way; then the one with the cap
/// alone; and the cap is taken back while it sends.
#[test]
fn a_host_has_its_cap_and_what_others_leave() {
    let Some(row) = Row::new("caps") else { return };
    attempts("caps", || {
        let rates = "up = \"10mbit\"\ndown = \"10mbit\"\n";
        let file = file("caps", &format!("{rates}[caps]\n\"{}\" = \"2mbit\"\n", HOSTS[0]));
        let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
        let mut wrong = String::new();
        for way in BOTH {
            let [capped, other] = HOSTS.map(|host| Bulk::start(&row, host, way, 4));
            thread::sleep(millis(1_000));
            let bulks = [capped, other];
            let both = megabits(&bulks, 2);
            let [capped, other] = bulks;
            drop(other);
            // TCP remembers for a while how little it had.
            let capped = [capped];
            let alone = (0..8).map(|_| megabits(&capped, 1)[0]).find(|alone| *alone > 8.0);
            println!("{way:?}, Mbit/s: {both:.2?}, alone {alone:.2?}");
            if !(1.4..=2.6).contains(&both[0]) || both[1] < 6.5 || alone.is_none() {
                wrong += &format!("{way:?}: {both:.2?}, alone {alone:.2?}; ");
            }
        }
        file.write(rates);
        let said = gateway.reads_again(1);
        assert_eq!(said, [format!("freeboard-gateway: caps: {} 2mbit -> none", HOSTS[0])]);
        gateway.end();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    });
}

/// What was received in so many seconds, in Mbit/s.
fn megabits(bulks: &[Bulk], seconds: u32) -> Vec<f64> {
    let begin = Instant::now();
    let bytes = Bulk::received_in(bulks, Duration::from_secs(seconds.into()));
    let seconds = begin.elapsed().as_secs_f64();
    bytes.into_iter().map(|bytes| bytes as f64 * 8e-6 / seconds).collect()
}
