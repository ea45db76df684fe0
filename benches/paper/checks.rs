//! Acceptance checks on the table.

use core::fmt;

use crate::peer;
use crate::subjects::{Calls, Name};
use crate::table::Row;
use conformance::paper::{Load, Pool, Sizes, Weights};

/// A check on measured figures.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    calls: Calls,
    text: &'static str,
    holds: bool,
    figures: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "holds" } else { "MISSED" };
        write!(f, "{verdict:6} [{}] {}: {}", self.calls, self.text, self.figures)
    }
}

/// Evaluates the checks for which `rows` has the figures, for each call type.
pub(crate) fn check(rows: &[Row]) -> Vec<Check> {
    let ways = Calls::ALL.iter().copied();
    ways.flat_map(|calls| {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.calls == calls && row.traffic.load == Load::Full)
            .filter(|row| row.traffic.pool == Pool::Sequential)
            .collect();
        let verdicts = [
            flat(&rows),
            logarithmic(&rows),
            ratio(&rows),
            not_dearer(&rows),
            below(&rows),
            peer_512(&rows),
            peer_scattered(&rows),
        ];
        verdicts.into_iter().flatten().map(move |(text, holds, figures)| Check {
            calls,
            text,
            holds,
            figures,
        })
    })
    .collect()
}

type Verdict = Option<(&'static str, bool, String)>;

/// Returns the rows with equal weights and lengths, by number of flows.
fn line<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let equal =
        |row: &&&Row| row.traffic.sizes == Sizes::Equal && row.traffic.weights == Weights::Equal;
    rows.iter().filter(equal).copied().collect()
}

/// Number of flows up to which records and packets are in the caches: 4,096 flows with 30 packets
/// of 48 bytes are 6 MB.
const CACHED: u32 = 4_096;

/// Returns the points with more than one flow, since the group of a single flow changes with every
/// packet.
fn several(rows: &[&Row], name: Name) -> Vec<(f64, f64)> {
    let within = |row: &&&Row| (2..=CACHED).contains(&row.traffic.flows);
    let point = |row: &&Row| (f64::from(row.traffic.flows).log10(), row.net(name));
    rows.iter().filter(within).map(point).collect()
}

fn flat(rows: &[&Row]) -> Verdict {
    let points = several(&line(rows), Name::Qfq);
    let fit = Fit::of(&points)?;
    let percent = 100.0 * fit.slope / fit.mean;
    let figures = format!("{percent:+.1} % of {:.1} ns a decade, 8 to 4,096 flows", fit.mean);
    Some((
        "net QFQ grows by at most 10 % a decade of flows within the caches",
        percent <= 10.0,
        figures,
    ))
}

fn logarithmic(rows: &[&Row]) -> Verdict {
    let fit = Fit::of(&several(&line(rows), Name::Wf2q))?;
    let figures = format!(
        "R2 {:.3}, {:+.1} ns each time the flows double, 8 to 4,096 flows",
        fit.determination,
        fit.slope * 2_f64.log10()
    );
    let holds = fit.slope > 0.0 && fit.determination >= 0.9;
    Some(("net WF2Q+ grows with the logarithm of the flows, R2 at least 0.9", holds, figures))
}

fn not_dearer(rows: &[&Row]) -> Verdict {
    let many = rows.iter().filter(|row| row.traffic.flows >= 1_000);
    let ratio = Range::of(many.map(|row| row.gross(Name::Wf2q) / row.gross(Name::Qfq)))?;
    let text = "QFQ costs no more than WF2Q+ from 1,000 flows on, in all workloads";
    Some((text, ratio.low >= 1.0, format!("WF2Q+ takes {ratio:.2} times as long")))
}

fn ratio(rows: &[&Row]) -> Verdict {
    let rows = line(rows);
    let rows: Vec<&&Row> = rows.iter().filter(|row| row.traffic.flows > 1).collect();
    let gross = Range::of(rows.iter().map(|row| row.gross(Name::Qfq) / row.gross(Name::Drr)))?;
    let net = Range::of(rows.iter().map(|row| row.net(Name::Qfq) / row.net(Name::Drr)))?;
    let figures = format!("gross {gross:.2}, net {net:.2} (below 1.3 is better than asked)");
    Some(("net QFQ costs at most 3 times DRR", net.high <= 3.0, figures))
}

fn below(rows: &[&Row]) -> Verdict {
    let net = Range::of(line(rows).iter().map(|row| row.net(Name::Qfq)))?;
    Some(("net QFQ costs at most 60 ns", net.high <= 60.0, format!("{net:.1} ns")))
}

/// Returns the ratio of ours to the peer's, both net of NONE in its own run.
fn over_peer(row: &Row) -> Option<f64> {
    let theirs = |name| peer::gross(&row.traffic, name);
    Some((row.gross(Name::Qfq) - row.none) / (theirs(Name::Qfq)? - theirs(Name::None)?))
}

fn peer_512(rows: &[&Row]) -> Verdict {
    let rows = rows.iter().filter(|row| row.traffic.flows == 512);
    let range = Range::of(rows.filter_map(|row| over_peer(row)))?;
    let text = "net QFQ takes at most 0.8 of dummynet's with 512 flows";
    Some((text, range.high <= 0.8, format!("{range:.2}")))
}

/// Both sides are net of NONE with a sequential pool: the peer's NONE with a shuffled pool costs
/// more than its QFQ.
fn peer_scattered(rows: &[&Row]) -> Verdict {
    let scattered = |row: &&&Row| row.traffic.flows == 32_768 && row.traffic.sizes == Sizes::Imix;
    let range = Range::of(rows.iter().filter(scattered).filter_map(|row| over_peer(row)))?;
    let text = "net QFQ takes at most 0.5 of dummynet's with 32,768 flows and random lengths";
    Some((text, range.high <= 0.5, format!("{range:.2}")))
}

/// A straight line fitted by least squares.
struct Fit {
    slope: f64,
    mean: f64,
    /// R²: fraction of the variance that the line explains.
    determination: f64,
}

impl Fit {
    /// Returns `None` with fewer than three points.
    fn of(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let count = points.len() as f64;
        let (x, y) =
            points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (x, y) = (x / count, y / count);
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for point in points {
            xx += (point.0 - x) * (point.0 - x);
            xy += (point.0 - x) * (point.1 - y);
            yy += (point.1 - y) * (point.1 - y);
        }
        Some(Self { slope: xy / xx, mean: y, determination: xy * xy / (xx * yy) })
    }
}

/// Lowest and highest value.
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        values.fold(None, |range: Option<Self>, value| {
            let Self { low, high } = range.unwrap_or(Self { low: value, high: value });
            Some(Self { low: low.min(value), high: high.max(value) })
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        if format!("{:.decimals$}", self.low) == format!("{:.decimals$}", self.high) {
            return write!(f, "{:.decimals$}", self.high);
        }
        write!(f, "{:.decimals$} to {:.decimals$}", self.low, self.high)
    }
}
