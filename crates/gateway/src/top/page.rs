//! A page of text for a number of columns and lines. Numbers and names are complete, however narrow
//! the page is.
//!
//! If lines are few, each of the four tables shows as many of the hosts or flows that send most as
//! there are lines for. A name that does not fit beside its numbers has lines of its own.

use core::fmt;

use super::Reports;
use crate::stats::report::{
    Delay, DirectionReport, Followed, HostOrFlow, Reflected, TinDelay, TinReport, TotalsReport,
};

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Title,
    /// The gateway has disappeared.
    Alarm,
    /// State of a direction.
    Heading,
    /// Column titles of a table.
    Head,
    Row,
}

/// The lines of a page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) lines: Vec<(Kind, String)>,
}

/// Minimum number of columns; narrower pages are laid out for this many.
const NARROWEST: usize = 56;
/// Length of a name that fits beside the numbers: an IPv4 address.
const SHORT_NAME: usize = 15;

/// A table of hosts or flows: titles, and rows with as many cells. The first cell is a name.
struct Listing {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of rows shown.
    shown: usize,
}

impl Page {
    /// Lays out the last report, with rates since the one before; `lost` is the message about a
    /// gateway that has disappeared.
    pub(super) fn new(reports: &Reports, lost: Option<&str>, size: (usize, usize)) -> Self {
        let (columns, height) = (size.0.max(NARROWEST), size.1);
        let mut page = Self { lines: Vec::new() };
        let up = reports.last.as_ref().map(|last| format!(", up for {}", span(last.seconds)));
        let answers = reports.last.as_ref().and_then(|last| last.reflector.as_ref());
        let answers = answers.map(|Reflected { address, delay_ms, requests, answers }| {
            format!(", {address} {} ms, {answers} of {requests} answered", millis(*delay_ms))
        });
        let nat = reports.last.as_ref().and_then(|last| last.nat);
        let nat = nat.map(|count| format!(", nat: {count} connections"));
        let title = [up, answers, nat].map(Option::unwrap_or_default).concat();
        page.wrap(Kind::Title, &format!("freeboard-gateway{title}"), columns);
        if let Some(lost) = lost {
            page.wrap(Kind::Alarm, lost, columns);
        }
        let Some(last) = &reports.last else { return page };
        let mut parts: Vec<(Self, [Listing; 2])> = Vec::new();
        for direction in &last.directions {
            let before = reports.before.as_ref();
            let same = |other: &&DirectionReport| other.name == direction.name;
            let earlier = before.and_then(|before| before.directions.iter().find(same));
            let seconds = last.seconds - before.map_or(0.0, |before| before.seconds);
            let mut head = Self { lines: Vec::new() };
            let texts = [line_of(direction, earlier, seconds), state_of(direction)];
            for text in texts {
                head.wrap(Kind::Heading, &text, columns);
            }
            for tins in Listing::of_tins(direction, earlier, seconds, columns) {
                tins.write(&mut head.lines, columns);
            }
            let before_hosts = earlier.map(|direction| &direction.hosts_seen[..]);
            let before_flows = earlier.map(|direction| &direction.flows_seen[..]);
            let tables = [
                Listing::new("host", &direction.hosts_seen, before_hosts, seconds, columns),
                Listing::new("flow", &direction.flows_seen, before_flows, seconds, columns),
            ];
            parts.push((head, tables));
        }
        page.share_lines(&mut parts, columns, height);
        // An empty line before each direction, if there is space.
        let used: usize = parts.iter().map(|part| lines_of(part, columns)).sum();
        let is_loose = page.lines.len() + used + parts.len() <= height;
        for (head, tables) in parts {
            if is_loose {
                page.lines.push((Kind::Row, String::new()));
            }
            page.lines.extend(head.lines);
            for table in tables.iter().filter(|table| table.shown > 0) {
                table.write(&mut page.lines, columns);
            }
        }
        page.lines.truncate(height);
        page
    }

    /// Gives the tables rows in turn until all lines are used.
    fn share_lines(&self, parts: &mut [(Self, [Listing; 2])], columns: usize, height: usize) {
        let fixed: usize = parts.iter().map(|(head, _)| head.lines.len()).sum();
        let mut left = height.saturating_sub(self.lines.len() + fixed);
        loop {
            let mut is_given = false;
            for table in parts.iter_mut().flat_map(|(_, tables)| tables) {
                let Some(row) = table.rows.get(table.shown) else { continue };
                let title = usize::from(table.shown == 0);
                let needed = table.lines_of_row(row, columns) + title;
                if needed <= left {
                    left -= needed;
                    table.shown += 1;
                    is_given = true;
                }
            }
            if !is_given {
                return;
            }
        }
    }

    fn wrap(&mut self, kind: Kind, text: &str, columns: usize) {
        self.lines.extend(wrapped(text, columns, 6).into_iter().map(|line| (kind, line)));
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(_, line)| writeln!(f, "{}", line.trim_end()))
    }
}

/// Returns the number of lines that a direction has so far.
fn lines_of((head, tables): &(Page, [Listing; 2]), columns: usize) -> usize {
    let of_table = |table: &Listing| {
        let rows = table.rows.iter().take(table.shown);
        let rows: usize = rows.map(|row| table.lines_of_row(row, columns)).sum();
        rows + usize::from(table.shown > 0)
    };
    head.lines.len() + tables.iter().map(of_table).sum::<usize>()
}

impl Listing {
    /// Lays out a table with a column for each drop reason that occurs, if all fit beside a short
    /// name, and otherwise with one for all drops.
    fn new(
        what: &str,
        rows: &[HostOrFlow],
        before: Option<&[HostOrFlow]>,
        seconds: f64,
        columns: usize,
    ) -> Self {
        let since = |row: &HostOrFlow| {
            let before = before.and_then(|rows| rows.iter().find(|other| other.name == row.name));
            row.sent_bytes - before.map_or(0, |before| before.sent_bytes.min(row.sent_bytes))
        };
        let mut rows: Vec<(&HostOrFlow, u64)> = rows.iter().map(|row| (row, since(row))).collect();
        rows.sort_by_key(|(row, sent)| core::cmp::Reverse((*sent, row.queued_bytes)));
        let mut reasons: Vec<&str> = Vec::new();
        for (why, _) in rows.iter().flat_map(|(row, _)| &row.drops) {
            if !reasons.contains(&why.as_str()) {
                reasons.push(why);
            }
        }
        let title = format!("{what} ({})", rows.len());
        let with = |drops: &[&str], count: &dyn Fn(&HostOrFlow, &str) -> u64| {
            let mut titles = vec![title.clone()];
            titles.extend(["Mbit/s", "queued", "p50 ms", "p99 ms"].map(str::to_owned));
            titles.extend(drops.iter().map(|why| (*why).to_owned()));
            let cells = |(row, sent): &(&HostOrFlow, u64)| {
                let [p50, p99] = [row.delay.p50_ms, row.delay.p99_ms].map(millis);
                let mut cells =
                    vec![row.name.clone(), mbits(*sent, seconds), row.queued.to_string(), p50, p99];
                cells.extend(drops.iter().map(|why| count(row, why).to_string()));
                cells
            };
            Self { titles, rows: rows.iter().map(cells).collect(), shown: 0 }
        };
        let by_reason = with(&reasons, &|row, why| {
            row.drops.iter().find(|(reason, _)| reason == why).map_or(0, |(_, count)| *count)
        });
        if by_reason.beside() + SHORT_NAME <= columns {
            return by_reason;
        }
        with(&["dropped"], &|row, _| row.drops.iter().map(|(_, count)| count).sum())
    }

    /// Lays out the tins, if there are several: one table, or two if it does not fit, of traffic
    /// and of delays.
    fn of_tins(
        direction: &DirectionReport,
        before: Option<&DirectionReport>,
        seconds: f64,
        columns: usize,
    ) -> Vec<Self> {
        const LONG: [&str; 9] = [
            "of Mbit/s",
            "Mbit/s",
            "queued",
            "marked",
            "dropped",
            "target ms",
            "peak ms",
            "average ms",
            "sparse ms",
        ];
        const SHORT: [&str; 9] =
            ["of", "Mbit/s", "queued", "marked", "drops", "target", "peak", "avg", "sparse"];
        /// Number of columns about traffic.
        const TRAFFIC: usize = 5;
        if direction.tins.is_empty() {
            return Vec::new();
        }
        let cells = |(at, tin): (usize, &TinReport)| {
            let earlier = before.and_then(|before| before.tins.get(at));
            let earlier = earlier.filter(|earlier| earlier.name == tin.name);
            let sent = tin.sent_bytes - earlier.map_or(0, |of| of.sent_bytes.min(tin.sent_bytes));
            let threshold = tin.threshold_bits_per_second;
            let threshold = threshold.map_or("-".to_owned(), |bits| digits(bits as f64 / 1e6, 3));
            let counts = [tin.queued, tin.marked, tin.dropped].map(|count| count.to_string());
            let TinDelay { peak_ms, average_ms, sparse_ms } = tin.delay;
            let delays = [tin.target_ms, peak_ms, average_ms, sparse_ms].map(millis);
            let cells = [tin.name.clone(), threshold, mbits(sent, seconds)].into_iter();
            cells.chain(counts).chain(delays).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = direction.tins.iter().enumerate().map(cells).collect();
        let table = |titles: &[&str], from: usize| {
            let name = format!("tin ({})", rows.len());
            let titles: Vec<String> =
                [name.as_str()].iter().chain(titles).map(|title| (*title).to_owned()).collect();
            let columns = 1 + from..from + titles.len();
            let row = |row: &Vec<String>| [&row[..1], &row[columns.clone()]].concat();
            Self { titles, rows: rows.iter().map(row).collect(), shown: rows.len() }
        };
        let longest = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        let fits = |table: &Self| table.beside() + longest <= columns;
        match [LONG, SHORT].map(|titles| table(&titles, 0)).into_iter().find(fits) {
            Some(table) => vec![table],
            None => vec![table(&SHORT[..TRAFFIC], 0), table(&LONG[TRAFFIC..], TRAFFIC)],
        }
    }

    /// Returns the widths of all columns except the name's; each has two spaces before it.
    fn widths(&self) -> Vec<usize> {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].len());
            cells.chain([self.titles[at].len()]).max().unwrap_or(0)
        };
        (1..self.titles.len()).map(width).collect()
    }

    /// Returns the width of everything except the name.
    fn beside(&self) -> usize {
        2 + self.widths().iter().map(|width| width + 2).sum::<usize>()
    }

    /// Returns the width of the name's column: that of the longest name, or what is left.
    fn room(&self, columns: usize) -> usize {
        let names = self.rows.iter().map(|row| row[0].chars().count());
        let longest = names.chain([self.titles[0].len()]).max().unwrap_or(0);
        longest.min(columns.saturating_sub(self.beside()))
    }

    fn lines_of_row(&self, row: &[String], columns: usize) -> usize {
        if row[0].chars().count() <= self.room(columns) {
            1
        } else {
            wrapped(&row[0], columns - 2, 2).len() + 1
        }
    }

    fn write(&self, lines: &mut Vec<(Kind, String)>, columns: usize) {
        let (room, widths) = (self.room(columns), self.widths());
        let line = |cells: &[String], name: &str| {
            let mut line = format!("  {name:<room$}");
            for (cell, width) in cells[1..].iter().zip(&widths) {
                line += &format!("  {cell:>width$}");
            }
            line
        };
        lines.push((Kind::Head, line(&self.titles, &self.titles[0])));
        for row in self.rows.iter().take(self.shown) {
            if row[0].chars().count() <= room {
                lines.push((Kind::Row, line(row, &row[0])));
            } else {
                let name = wrapped(&row[0], columns - 2, 2).into_iter();
                lines.extend(name.map(|part| (Kind::Row, format!("  {part}"))));
                lines.push((Kind::Row, line(row, "")));
            }
        }
    }
}

/// Wraps text to `columns` columns, at spaces where possible; lines from the second on are indented
/// by `indent` spaces.
fn wrapped(text: &str, columns: usize, indent: usize) -> Vec<String> {
    let words = text.trim_start();
    let mut lines = vec![" ".repeat(text.len() - words.len())];
    for word in words.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let line = lines.last_mut().expect("there is one");
            let used = line.chars().count();
            let is_begin = line.trim().is_empty();
            let space = usize::from(!is_begin);
            if used + space + word.len() <= columns {
                line.push_str(&" ".repeat(space));
                line.extend(&word);
                break;
            }
            if is_begin {
                // Longer than a line.
                line.extend(word.drain(..columns - used));
            }
            lines.push(" ".repeat(indent));
        }
    }
    lines
}

/// Formats rate and configuration of a direction.
fn line_of(direction: &DirectionReport, before: Option<&DirectionReport>, seconds: f64) -> String {
    let sent = direction.sent_bytes
        - before.map_or(0, |before| before.sent_bytes.min(direction.sent_bytes));
    let DirectionReport { name, rate, queue, hosts, queued, queued_bytes, .. } = direction;
    let mut text = format!("{name:<5} {} Mbit/s of {rate}, {queue} {hosts}", mbits(sent, seconds));
    for word in words_of(direction) {
        text += " ";
        text += &word;
    }
    text += &format!("; {queued} packets, {queued_bytes} bytes queued");
    match direction.segmented {
        0 => text,
        cut => text + &format!(", {cut} frames segmented"),
    }
}

/// Returns the configuration of a direction other than its scheduler.
fn words_of(direction: &DirectionReport) -> Vec<String> {
    let DirectionReport { aqm, l4s, rtt, ack_filter, wash, ingress, framing, tin_by, .. } =
        direction;
    let mut words = Vec::new();
    let host_by = &direction.host_by;
    let is_usual = ["", "auto", "address"].contains(&host_by.as_str());
    words.extend((!is_usual).then(|| format!("host-by {host_by}")));
    words.extend((!aqm.is_empty()).then(|| aqm.clone()));
    // The default is not shown.
    words.extend((!rtt.is_empty() && rtt != "internet").then(|| format!("rtt {rtt}")));
    if let Some(Followed { state, min_bits_per_second, max_bits_per_second, .. }) =
        &direction.autorate
    {
        let [least, most] =
            [min_bits_per_second, max_bits_per_second].map(|bits| digits(*bits as f64 / 1e6, 3));
        words.push(format!("autorate {least} to {most} Mbit/s {state}"));
    }
    words.extend(l4s.then(|| "l4s".to_owned()));
    words.extend((!ack_filter.is_empty()).then(|| format!("ack-filter {ack_filter}")));
    let is_usual = tin_by.is_empty() || tin_by == "dscp";
    words.extend((!is_usual).then(|| format!("tin-by {tin_by}")));
    let fwmark = &direction.fwmark;
    words.extend((!fwmark.is_empty()).then(|| format!("fwmark {fwmark}")));
    words.extend(wash.then(|| "wash".to_owned()));
    words.extend(ingress.then(|| "ingress".to_owned()));
    words.extend(direction.hosts_across_tins.then(|| "hosts-across-tins".to_owned()));
    words.extend((!framing.is_empty() && framing != "raw").then(|| framing.clone()));
    words
}

/// Formats the outcome of a direction's packets.
fn state_of(direction: &DirectionReport) -> String {
    let Delay { p50_ms, p99_ms } = direction.delay;
    let mut text = format!(
        "      p50 {} ms, p99 {} ms; marked {}",
        millis(p50_ms),
        millis(p99_ms),
        direction.marked
    );
    if let Some(totals) = &direction.totals {
        let TotalsReport { hosts, sparse_flows, bulk_flows, unresponsive_flows, .. } = totals;
        text += &format!("; queued: hosts {hosts}, flows {sparse_flows} sparse, {bulk_flows} bulk");
        if *unresponsive_flows > 0 {
            text += &format!(", {unresponsive_flows} unresponsive");
        }
    }
    let mut drops: Vec<String> =
        direction.drops.iter().map(|(why, count)| format!("{why} {count}")).collect();
    if direction.overruns > 0 {
        drops.push(format!("overruns {}", direction.overruns));
    }
    text += "; dropped: ";
    text += &if drops.is_empty() { "none".to_owned() } else { drops.join(", ") };
    if direction.unaccounted != 0 {
        text += &format!("; unaccounted {}", direction.unaccounted);
    }
    text
}

/// Formats `bytes` in `seconds` as Mbit/s with three digits or more.
fn mbits(bytes: u64, seconds: f64) -> String {
    let mbits = if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 };
    digits(mbits, 3)
}

fn millis(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |millis| digits(millis, 2))
}

/// Formats with three significant digits and at most `most` decimals.
fn digits(value: f64, most: usize) -> String {
    let decimals = match value {
        ..9.9995 => most,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Formats a duration with the two largest of days, hours, minutes and seconds.
fn span(seconds: f64) -> String {
    let all = seconds as u64;
    let [days, hours, minutes, seconds] = [all / 86_400, all / 3_600 % 24, all / 60 % 60, all % 60];
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
pub(in crate::top) mod tests;
