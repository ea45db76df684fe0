//! A live view of a running gateway in the terminal.

use core::fmt::{self, Write as _};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::report::{Delay, Report, Way, Who};
use crate::run::Failure;

/// Hosts, and flows, shown of each direction.
const ROWS: usize = 8;

/// Shows every report until the gateway ends. Without a terminal one after the other.
pub(crate) fn run(socket: &Path) -> Result<(), Failure> {
    let socket_name = socket.display();
    let stream = UnixStream::connect(socket).map_err(|error| {
        let accepted = "accepted is the socket of a running gateway";
        Failure::Refused(format!("--stats {socket_name}: {error}; {accepted}"))
    })?;
    let broken = |why: &dyn fmt::Display| Failure::Broken(format!("--stats {socket_name}: {why}"));
    let is_terminal = io::stdout().is_terminal();
    let mut last: Option<Report> = None;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(|error| broken(&error))?;
        let report: Report = serde_json::from_str(&line).map_err(|error| broken(&error))?;
        // Home, what is there, and nothing below.
        let (before, after) = if is_terminal { ("\x1b[H", "\x1b[J") } else { ("", "\n") };
        let text = view(&report, last.as_ref());
        let text = if is_terminal { text.replace('\n', "\x1b[K\n") } else { text };
        let mut out = io::stdout().lock();
        if is_terminal && last.is_none() {
            let _ = out.write_all(b"\x1b[2J");
        }
        // Whoever reads has seen enough: `… top | head`.
        if write!(out, "{before}{text}{after}").and_then(|()| out.flush()).is_err() {
            break;
        }
        last = Some(report);
    }
    Ok(())
}

/// A report as text; rates are those since the last one.
fn view(report: &Report, last: Option<&Report>) -> String {
    let mut text = format!("freeboard-gateway, up for {:.0} s\n", report.seconds);
    for way in &report.directions {
        let last_way =
            last.and_then(|last| last.directions.iter().find(|other| other.name == way.name));
        let span = last.map_or(report.seconds, |last| report.seconds - last.seconds);
        direction(&mut text, way, last_way, span);
    }
    text
}

fn direction(text: &mut String, way: &Way, last: Option<&Way>, span: f64) {
    let sent = way.sent_bytes - last.map_or(0, |last| last.sent_bytes.min(way.sent_bytes));
    let _ = writeln!(
        text,
        "\n{:<5} {} of {}   {} {}   queued {} packets, {} bytes   delay {}   marked {}   dropped {}",
        way.name,
        rate(sent, span),
        way.rate,
        way.queue,
        way.hosts,
        way.queued,
        way.queued_bytes,
        delay(way.delay),
        way.marked,
        drops(&way.drops),
    );
    if way.unaccounted != 0 || way.overruns != 0 {
        let _ = writeln!(text, "      unaccounted {}, overruns {}", way.unaccounted, way.overruns);
    }
    table(text, "host", &way.hosts_seen, last.map(|last| &last.hosts_seen[..]), span);
    table(text, "flow", &way.flows_seen, last.map(|last| &last.flows_seen[..]), span);
}

fn table(text: &mut String, what: &str, rows: &[Who], last: Option<&[Who]>, span: f64) {
    if rows.is_empty() {
        return;
    }
    let since = |row: &Who| {
        let before = last.and_then(|last| last.iter().find(|other| other.name == row.name));
        row.sent_bytes - before.map_or(0, |before| before.sent_bytes.min(row.sent_bytes))
    };
    let mut rows: Vec<(&Who, u64)> = rows.iter().map(|row| (row, since(row))).collect();
    rows.sort_by_key(|(row, sent)| core::cmp::Reverse((*sent, row.queued_bytes)));
    let title = format!("{what} ({})", rows.len());
    let _ = writeln!(
        text,
        "  {title:<58} {:>12} {:>9} {:>18}  dropped",
        "rate", "queued", "delay p50/p99 ms"
    );
    for (row, sent) in rows.into_iter().take(ROWS) {
        let _ = writeln!(
            text,
            "  {:<58} {:>12} {:>9} {:>18}  {}",
            row.name,
            rate(sent, span),
            row.queued,
            delay(row.delay),
            drops(&row.drops)
        );
    }
}

/// Bytes in so many seconds as a rate.
fn rate(bytes: u64, seconds: f64) -> String {
    let bits = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let unit = units.into_iter().find(|(_, of)| bits >= *of);
    unit.map_or_else(|| format!("{bits:.0} bit/s"), |(name, of)| format!("{:.2} {name}", bits / of))
}

fn delay(delay: Delay) -> String {
    let millis = |value: Option<f64>| value.map_or("-".to_owned(), |millis| format!("{millis:.2}"));
    format!("{}/{}", millis(delay.p50_ms), millis(delay.p99_ms))
}

fn drops(drops: &[(String, u64)]) -> String {
    let words: Vec<String> = drops.iter().map(|(why, count)| format!("{why} {count}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: f64, sent_bytes: u64) -> Report {
        let json = format!(
            r#"{{"seconds":{seconds},"directions":[{{"name":"up","rate":"10mbit","queue":"drr","hosts":"lan",
            "received":9,"sent":5,"sent_bytes":{sent_bytes},"queued":4,"queued_bytes":6000,"marked":1,
            "drops":[["aqm",2]],"unaccounted":0,"overruns":0,"delay":{{"p50_ms":1.5,"p99_ms":null}},
            "hosts_seen":[{{"name":"10.0.0.1","sent":5,"sent_bytes":{sent_bytes},"queued":4,"queued_bytes":6000,
            "drops":[],"delay":{{"p50_ms":1.5,"p99_ms":12.25}}}}],"flows_seen":[]}}]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn rates_are_those_since_the_last_report() {
        let (first, second) = (report(1.0, 125_000), report(3.0, 2_625_000));
        let text = view(&first, None);
        assert!(
            text.contains("up    1.00 Mbit/s of 10mbit   drr lan   queued 4 packets, 6000 bytes"),
            "{text}"
        );
        assert!(text.contains("delay 1.50/-") && text.contains("dropped aqm 2"), "{text}");
        let text = view(&second, Some(&first));
        assert!(text.contains("up    10.00 Mbit/s"), "{text}");
        let host = text.lines().find(|line| line.contains("10.0.0.1")).unwrap();
        assert!(host.contains("10.00 Mbit/s") && host.contains("1.50/12.25"), "{host}");
        // A gateway that was started again counts from zero.
        assert!(view(&first, Some(&second)).contains("0 bit/s"));
    }
}
