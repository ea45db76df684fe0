//! Rates and ceilings of hosts.

use core::time::Duration;
use std::path::Path;
use std::thread;
use std::time::Instant;

use conformance::measurement::settles;

use crate::gateway::{Gateway, told};
use crate::raw::millis;
use crate::refusals::file;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Heading};

const LINE: &str = "up = \"10mbit\"\ndown = \"10mbit\"\n";

/// Goal: a host with a rate gets it while another host wants the rest, and the whole link if no
/// other host sends; and the old name of the table is accepted with a hint. Method: a host with a
/// rate of 2 Mbit/s and one without, at 10 Mbit/s, in each direction; then the one with the rate
/// alone; and the rate is removed while it sends.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_host_has_its_rate_and_what_others_leave() {
    let Some(row) = Row::new("hostrates") else { return };
    let file = file("hostrates", &format!("{LINE}[caps]\n\"{}\" = \"2mbit\"\n", HOSTS[0]));
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    let hint = gateway.says();
    assert!(hint.starts_with("freeboard-gateway: [caps]: renamed"), "{hint}");
    for heading in BOTH {
        let bulks = HOSTS.map(|host| Bulk::start(&row, host, heading, 4));
        thread::sleep(millis(1_000));
        let what = format!("{heading:?}, with a rate and without, Mbit/s");
        let right = |both: &[f64]| (1.4..=2.3).contains(&both[0]) && both[1] >= 6.5;
        settles(&what, || megabits(&bulks, 1), right);
        let [rated, other] = bulks;
        drop(other);
        let rated = [rated];
        let what = format!("{heading:?}, alone, Mbit/s");
        settles(&what, || megabits(&rated, 1), |alone| alone[0] > 8.0);
    }
    file.write(LINE);
    let said = gateway.reads_again(2);
    let rates = format!("rates: {} 2mbit -> none", HOSTS[0]);
    let changes = ["host-by: address -> auto", &rates];
    assert_eq!(said, changes.map(|change| format!("freeboard-gateway: {change}")));
    gateway.end();
}

/// Goal: a host gets its ceiling on an idle link and no more, whatever it opens; a changed ceiling
/// takes effect at once, while the host stays backlogged; and another host gets the rest. Method:
/// ceilings of 5, 2 and 8 Mbit/s one after another at 10 Mbit/s, over endless flows, in each
/// direction. The ceiling applies to what leaves the gateway, so that is measured: a receiver gets
/// at once what waited for a lost segment. No second exceeds the ceiling plus its burst; the median
/// of five consecutive seconds reaches it, since TCP takes seconds to use a raised ceiling.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_host_has_its_ceiling_on_an_idle_line() {
    let Some(row) = Row::new("ceilings") else { return };
    let socket = std::env::temp_dir().join(format!("freeboard-{}-ceilings", std::process::id()));
    let table = |rate: &str| format!("{LINE}[ceils]\n\"{}\" = \"{rate}\"\n", HOSTS[0]);
    for (heading, flows) in
        [(Heading::Up, 1), (Heading::Up, 4), (Heading::Down, 1), (Heading::Down, 4)]
    {
        let file = file("ceilings", &table("5mbit"));
        let words = format!("--config {} --stats {}", file.path(), socket.display());
        let gateway = Gateway::start(&row.gw, &words);
        let mut bulks = vec![Bulk::start(&row, HOSTS[0], heading, flows)];
        thread::sleep(millis(1_000));
        for (rate, word) in [(5.0, "5mbit"), (2.0, "2mbit"), (8.0, "8mbit")] {
            if rate != 5.0 {
                file.write(&table(word));
                gateway.reads_again(1);
            }
            thread::sleep(millis(500));
            let what = format!("{heading:?}, {flows} flows, {word}, of the ceiling");
            let measure = || {
                let of_ceiling = sent_megabits(&socket, heading, 1) / rate;
                // The burst is 20 ms, a second is measured to 10 ms, and includes one packet more
                // or less.
                assert!(of_ceiling <= 1.04, "{what}: {of_ceiling:.3}");
                vec![of_ceiling]
            };
            settles(&what, measure, |of_ceiling| (0.98..=1.01).contains(&of_ceiling[0]));
        }
        file.write(&table("2mbit"));
        gateway.reads_again(1);
        bulks.push(Bulk::start(&row, HOSTS[1], heading, 4));
        thread::sleep(millis(1_000));
        let what = format!("{heading:?}, {flows} flows, 2mbit, beside another host, Mbit/s");
        let right = |both: &[f64]| (1.6..=2.1).contains(&both[0]) && both[1] >= 7.0;
        settles(&what, || megabits(&bulks, 1), right);
        drop(bulks);
        gateway.end();
    }
}

/// Returns what the gateway sends in `seconds` seconds, in Mbit/s of frames.
pub(crate) fn sent_megabits(socket: &Path, heading: Heading, seconds: u64) -> f64 {
    let direction = match heading {
        Heading::Up => 0,
        Heading::Down => 1,
    };
    let sent = || told(socket)["directions"][direction]["sent_bytes"].as_u64().unwrap();
    let (begin, before) = (Instant::now(), sent());
    thread::sleep(Duration::from_secs(seconds));
    let bytes = sent() - before;
    bytes as f64 * 8e-6 / begin.elapsed().as_secs_f64()
}

/// Returns what was received in `seconds` seconds, in Mbit/s.
pub(crate) fn megabits(bulks: &[Bulk], seconds: u32) -> Vec<f64> {
    let begin = Instant::now();
    let bytes = Bulk::received_in(bulks, Duration::from_secs(seconds.into()));
    let seconds = begin.elapsed().as_secs_f64();
    bytes.into_iter().map(|bytes| bytes as f64 * 8e-6 / seconds).collect()
}
