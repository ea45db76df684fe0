//! Shortest queue first with the kernel's TCP: no flow may starve.

use core::time::Duration;
use std::thread;

use crate::gateway::Gateway;
use crate::topology::{HOSTS, Row};
use crate::traffic::{Bulk, Heading};
use conformance::measurement::attempts;

const FLOWS: usize = 4;

/// Goal: with SQF, alone and in each host, no upload starves. Method: four uploads of one host at
/// 10 Mbit/s for four seconds. The floor guarantees each a packet in 8·4, 0.3 Mbit/s; a third of
/// that is required, since TCP may wait for its timer. Without a floor, one to three of the four
/// got nothing at all.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn no_upload_is_at_zero_behind_sqf() {
    let Some(row) = Row::new("starve") else { return };
    for words in ["--queue sqf", "--hosts users+sqf"] {
        attempts(words, || {
            let gateway = Gateway::start(&row.gw, &format!("--up 10mbit --down 10mbit {words}"));
            let bulks: Vec<Bulk> =
                (0..FLOWS).map(|_| Bulk::start(&row, HOSTS[0], Heading::Up, 1)).collect();
            thread::sleep(Duration::from_millis(1_500));
            let span = Duration::from_secs(4);
            let received = Bulk::received_in(&bulks, span);
            gateway.end();
            drop(bulks);
            let mbit = |bytes: u64| bytes as f64 * 8e-6 / span.as_secs_f64();
            let each: Vec<f64> = received.into_iter().map(mbit).collect();
            println!("{words}: {each:.2?} Mbit/s");
            let least = each.iter().copied().fold(f64::INFINITY, f64::min);
            if least >= 0.1 { Ok(()) } else { Err(format!("{each:.3?} Mbit/s")) }
        });
    }
}
