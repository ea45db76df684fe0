//! A live view of a running gateway in the terminal.

use core::fmt::{self, Write as _};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::termios::tcgetwinsize;

use crate::report::{Delay, Report, Way, Who};
use crate::run::Failure;

/// Hosts, and flows, shown of each direction at most.
const ROWS: usize = 8;
/// Columns for a name where there is room, and those of what stands beside it.
const NAME: usize = 58;
const BESIDE: usize = 53;
/// Lines that are no hosts and no flows: the first, and of each direction an empty one, two of its own and two
/// titles.
const OTHERS: usize = 1 + 2 * 5;

/// Shows every report until the gateway ends. Without a terminal one after the other.
pub(crate) fn run(socket: &Path) -> Result<(), Failure> {
    let socket_name = socket.display();
    let stream = UnixStream::connect(socket).map_err(|error| {
        let accepted = "accepted is the socket of a running gateway";
        Failure::Refused(format!("--stats {socket_name}: {error}; {accepted}"))
    })?;
    let broken = |why: &dyn fmt::Display| Failure::Broken(format!("--stats {socket_name}: {why}"));
    let is_terminal = io::stdout().is_terminal();
    // Its lines and columns, which may change; at the last one a terminal does as it likes.
    let size = || {
        let size = is_terminal.then(|| tcgetwinsize(io::stdout()).ok()).flatten();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map(|size| (usize::from(size.ws_row), usize::from(size.ws_col) - 1))
    };
    let mut last: Option<Report> = None;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(|error| broken(&error))?;
        let report: Report = serde_json::from_str(&line).map_err(|error| broken(&error))?;
        // Home, what is there, and nothing below.
        let (before, after) = if is_terminal { ("\x1b[H", "\x1b[J") } else { ("", "\n") };
        let size = size();
        let room = size.map_or(Room::WHOLE, |(lines, columns)| Room::within(lines, columns));
        let text = view(&report, last.as_ref(), room);
        let text = size.map_or(text.clone(), |(lines, columns)| fitted(&text, lines, columns));
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

/// What the tables have of a terminal.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Of each table.
    rows: usize,
    /// Characters of a name at most.
    name: usize,
}

impl Room {
    const WHOLE: Self = Self { rows: ROWS, name: usize::MAX };

    /// So that all of it is seen in so many lines, one of which the cursor has, and columns.
    fn within(lines: usize, columns: usize) -> Self {
        let rows = (lines.saturating_sub(1 + OTHERS) / 4).clamp(1, ROWS);
        Self { rows, name: columns.saturating_sub(BESIDE).max(15) }
    }
}

/// What of the text is seen in so many lines and columns.
fn fitted(text: &str, lines: usize, columns: usize) -> String {
    let seen = text.lines().take(lines.saturating_sub(1));
    seen.flat_map(|line| line.chars().take(columns).chain(['\n'])).collect()
}

/// A report as text; rates are those since the last one.
fn view(report: &Report, last: Option<&Report>, room: Room) -> String {
    let mut text = format!("freeboard-gateway, up for {:.0} s\n", report.seconds);
    for way in &report.directions {
        let last_way =
            last.and_then(|last| last.directions.iter().find(|other| other.name == way.name));
        let span = last.map_or(report.seconds, |last| report.seconds - last.seconds);
        direction(&mut text, way, last_way, span, room);
    }
    text
}

fn direction(text: &mut String, way: &Way, last: Option<&Way>, span: f64, room: Room) {
    let sent = way.sent_bytes - last.map_or(0, |last| last.sent_bytes.min(way.sent_bytes));
    let _ = writeln!(
        text,
        "\n{:<5} {} of {}   {} {}   queued {} packets, {} bytes",
        way.name,
        rate(sent, span),
        way.rate,
        way.queue,
        way.hosts,
        way.queued,
        way.queued_bytes,
    );
    let (delay, drops) = (delay(way.delay), drops(&way.drops));
    let _ = write!(text, "      delay {delay}   marked {}   dropped {drops}", way.marked);
    if way.unaccounted != 0 || way.overruns != 0 {
        let _ = write!(text, "   unaccounted {}, overruns {}", way.unaccounted, way.overruns);
    }
    text.push('\n');
    table(text, "host", &way.hosts_seen, last.map(|last| &last.hosts_seen[..]), span, room);
    table(text, "flow", &way.flows_seen, last.map(|last| &last.flows_seen[..]), span, room);
}

/// Those of these hosts or flows that there is room for.
fn table(text: &mut String, what: &str, rows: &[Who], last: Option<&[Who]>, span: f64, room: Room) {
    if rows.is_empty() {
        return;
    }
    let since = |row: &Who| {
        let before = last.and_then(|last| last.iter().find(|other| other.name == row.name));
        row.sent_bytes - before.map_or(0, |before| before.sent_bytes.min(row.sent_bytes))
    };
    let mut rows: Vec<(&Who, u64)> = rows.iter().map(|row| (row, since(row))).collect();
    rows.sort_by_key(|(row, sent)| core::cmp::Reverse((*sent, row.queued_bytes)));
    let (title, width) = (format!("{what} ({})", rows.len()), room.name.min(NAME));
    let _ = writeln!(
        text,
        "  {title:<width$} {:>12} {:>9} {:>18}  dropped",
        "rate", "queued", "delay p50/p99 ms"
    );
    for (row, sent) in rows.into_iter().take(room.rows) {
        let _ = writeln!(
            text,
            "  {:<width$} {:>12} {:>9} {:>18}  {}",
            shortened(&row.name, room.name),
            rate(sent, span),
            row.queued,
            delay(row.delay),
            drops(&row.drops)
        );
    }
}

/// A name in so many characters: of one that is longer the middle is left out, as both ends tell flows apart.
fn shortened(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let kept = most.saturating_sub(1);
    let end = name.chars().skip(count - kept.div_ceil(2));
    name.chars().take(kept / 2).chain(['…']).chain(end).collect()
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
        let text = view(&first, None, Room::WHOLE);
        assert!(
            text.contains("up    1.00 Mbit/s of 10mbit   drr lan   queued 4 packets, 6000 bytes"),
            "{text}"
        );
        assert!(text.contains("delay 1.50/-") && text.contains("dropped aqm 2"), "{text}");
        let text = view(&second, Some(&first), Room::WHOLE);
        assert!(text.contains("up    10.00 Mbit/s"), "{text}");
        let host = text.lines().find(|line| line.contains("10.0.0.1")).unwrap();
        assert!(host.contains("10.00 Mbit/s") && host.contains("1.50/12.25"), "{host}");
        // A gateway that was started again counts from zero.
        assert!(view(&first, Some(&second), Room::WHOLE).contains("0 bit/s"));
    }

    /// Goal: names are whole where there is room, in a pipe always, and where not, flows are told apart.
    #[test]
    fn names_are_whole_or_lack_their_middle() {
        let host = "2001:db8:1111:2222:3333:4444:5555:6666";
        let name = format!("[{host}]:50000 > [{host}]:443 tcp");
        let mut report = report(1.0, 125_000);
        report.directions[0].hosts_seen[0].name.clone_from(&name);
        let seen = |room| view(&report, None, room).contains(&name);
        assert!(seen(Room::WHOLE) && seen(Room::within(50, 200)) && !seen(Room::within(24, 79)));
        let flow = "192.168.1.10:50000 > 142.250.180.14:443 tcp";
        assert_eq!(shortened(flow, 26), "192.168.1.10…80.14:443 tcp");
        assert_eq!(shortened(flow, flow.len()), flow);
        assert_eq!((shortened("ab", 1), shortened("", 0)), ("…".to_owned(), String::new()));
    }

    /// Goal: on a terminal of usual size both directions are seen, whoever sends.
    #[test]
    fn all_tables_fit_into_a_terminal() {
        let mut report = report(1.0, 125_000);
        let way = &mut report.directions[0];
        (way.unaccounted, way.overruns) = (1, 1);
        let who = way.hosts_seen[0].clone();
        (way.hosts_seen, way.flows_seen) = (vec![who.clone(); 20], vec![who; 20]);
        report.directions.push(report.directions[0].clone());
        for (lines, columns, rows) in [(24, 80, 3), (40, 100, 7), (44, 111, 8), (200, 300, 8)] {
            let whole = view(&report, None, Room::within(lines, columns));
            assert_eq!(whole.lines().count(), OTHERS + 4 * rows, "{lines}");
            // Nothing is cut off but what was dropped and is long.
            let seen = fitted(&whole, lines, columns);
            assert_eq!(seen, whole, "{lines} {columns}");
        }
        let seen = fitted(&view(&report, None, Room::within(5, 10)), 5, 10);
        assert_eq!(seen.lines().map(str::len).max(), Some(10));
        assert_eq!(seen.lines().count(), 4);
    }
}
