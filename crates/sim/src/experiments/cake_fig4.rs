//! CAKE Fig. 4: shares of four flows with different code points, with and without tins.
//!
//! ```text
//! uploads BE, BK, CS5, EF   ─▶ tins ─▶ 10 Mbit/s, 25 ms ─▶ server
//! client                    ◀─ tins ◀─ 10 Mbit/s, 25 ms ◀─ downloads BE, BK, CS5, EF
//! ```
//!
//! Acknowledgements have the code point of their data. Connections begin within the first second,
//! at random.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::Nanos;
use freeboard::{Rtt, TinMode};

use super::dumbbell::{
    self, DELAY, Dumbbell, ETHERNET, LIMITS, LONGEST_FRAME, MARKS, MEGABITS, ROUND_TRIP,
};
use super::{Check, Experiment, Report, Row, Study};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::tcp::network::{ConnectionId, Naming, Way};

/// The experiment `sim reproduce cake-fig4`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig4",
    quick: 2,
    about: "CAKE Fig. 4: shares of TCP flows with different code points, with and without tins",
    runs: &Fig4,
};

/// Number of flows in each direction. Their code points are [`MARKS`], of three of the four tins of
/// `diffserv4`.
const FLOWS: usize = MARKS.len();
const WARM_UP: Nanos = Nanos::from_secs(10);
const MEASURED: Nanos = Nanos::from_secs(60);
/// Interval at which the queues are examined: less than the transmission time of a packet.
const LOOK: Nanos = Nanos::from_millis(1);
/// Number of the tin that gets the bandwidth the others leave.
const BEST_EFFORT_TIN: u8 = 0;
/// Flows of the tin with priority.
const VOICE: [usize; 2] = [2, 3];
/// Maximum difference of a mean share from the rule, in percentage points.
const POINTS: f64 = 3.0;
/// Maximum bytes of the priority tin beyond its rate in any span, in longest packets
/// (`docs/disciplines/tins.md`).
const BEYOND: f64 = 4.0;
/// Shares by the rule: best effort gets the rest beside a sixteenth and a quarter; two flows share
/// the quarter.
const RULE: [f64; FLOWS] = [68.75, 6.25, 12.5, 12.5];
/// Tin mode, RTT setting of COBALT, and shares by the rule. The last has a target of 50 ms, the
/// round-trip time: a halved window still fills the link.
const CELLS: [Cell; 3] = [
    (TinMode::BestEffort, Rtt::INTERNET, [25.0; FLOWS]),
    (TinMode::Diffserv4, Rtt::INTERNET, RULE),
    (TinMode::Diffserv4, Rtt::SATELLITE, RULE),
];
/// Reason why best effort gets less.
const NOT_FULL: &str =
    "one CUBIC sender alone leaves its queue empty after each drop, and the other tins borrow";
const WAYS: [&str; 2] = ["up", "down"];

type Cell = (TinMode, Rtt, [f64; FLOWS]);

struct Fig4;

/// One run.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Bytes of each upload and of each download that arrived in order.
    bytes: [Vec<u64>; 2],
    /// Maximum bytes, in longest packets, sent by EF and CS5 together beyond a quarter of the link
    /// in any span in which best effort was backlogged, up and down.
    beyond: [f64; 2],
    /// Fraction of time in which the best-effort tin was backlogged, including its
    /// acknowledgements.
    backlogged: [f64; 2],
    balanced: bool,
}

/// Maximum bytes sent beyond a rate, in any span since the last [`Beyond::pause`].
struct Beyond {
    /// Bytes per nanosecond.
    rate: f64,
    least: f64,
    most: f64,
}

impl Beyond {
    fn look(&mut self, now: Nanos, bytes: u64) {
        let ahead = bytes as f64 - self.rate * now.0 as f64;
        self.least = self.least.min(ahead);
        self.most = self.most.max(ahead - self.least);
    }

    fn pause(&mut self) {
        self.least = f64::INFINITY;
    }
}

impl Study for Fig4 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        CELLS.to_vec()
    }

    fn run(&self, &(mode, rtt, _): &Cell, seed: u64) -> Run {
        let end = WARM_UP.plus(MEASURED);
        let rate = dumbbell::megabits_per_second(MEGABITS);
        let mut site = Dumbbell::new(seed, Naming::Key, (WARM_UP, end), |_, keys| {
            let builder = dumbbell::smart_queue(rate, LIMITS).tins(mode).rtt(rtt);
            let queue = builder.descriptors().expect("settings in range");
            dumbbell::link(Box::new(queue), LIMITS, keys, DELAY).with_header(ETHERNET)
        });
        let connections = site.connect_both([4; 2], dumbbell::cubic);
        site.mark(&connections);
        let quarter = f64::from(MEGABITS) / 8e3 / 4.0;
        let mut voice = [(); 2].map(|()| Beyond { rate: quarter, least: f64::INFINITY, most: 0.0 });
        let (mut now, mut looks, mut backlogged) = (WARM_UP, 0_u32, [0_u32; 2]);
        while now < end {
            site.run_until(now);
            looks += 1;
            for (at, way) in Way::BOTH.into_iter().enumerate() {
                let queued = site.link(way).queue().tin_backlog(BEST_EFFORT_TIN);
                if queued.is_none_or(|queued| queued.packets == 0) {
                    voice[at].pause();
                    continue;
                }
                backlogged[at] += 1;
                voice[at].look(now, voice_bytes(&site, &connections, way));
            }
            now = now.plus(LOOK);
        }
        site.run_until(end);
        Run {
            bytes: connections.map(|ids| site.bytes(&ids)),
            beyond: voice.map(|voice| voice.most / f64::from(LONGEST_FRAME)),
            backlogged: backlogged.map(|times| f64::from(times) / f64::from(looks)),
            balanced: site.is_balanced(),
        }
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n")
            .table("shares", &table(rows))
            .picture("cake-fig4", picture(rows))
            .checks(checks(rows))
    }
}

/// Returns the bytes of EF and CS5 sent in a direction, data and acknowledgements.
fn voice_bytes(site: &Dumbbell, connections: &[Vec<ConnectionId>; 2], way: Way) -> u64 {
    let ids = connections.iter().flat_map(|ids| VOICE.map(|flow| ids[flow]));
    ids.map(|id| site.left(id, way)).sum()
}

impl Run {
    /// Returns the shares in a direction, in percent.
    fn shares(&self, way: usize) -> [f64; FLOWS] {
        let all = self.bytes[way].iter().sum::<u64>() as f64;
        core::array::from_fn(|flow| self.bytes[way][flow] as f64 / all * 100.0)
    }

    /// Returns the goodput of all flows of a direction, in Mbit/s.
    fn goodput(&self, way: usize) -> f64 {
        self.bytes[way].iter().sum::<u64>() as f64 * 8.0 / (MEASURED.0 as f64 / 1e3)
    }
}

fn name(&(mode, rtt, _): &Cell) -> String {
    if rtt == Rtt::INTERNET {
        return mode.word().to_owned();
    }
    format!("{}, rtt {} s", mode.word(), rtt.span().0 / 1_000_000_000)
}

/// Returns the mean shares in a direction, in percent.
fn shares(row: &Row<Cell, Run>, way: usize) -> [f64; FLOWS] {
    core::array::from_fn(|flow| row.mean(|run| run.shares(way)[flow]))
}

/// Returns the maximum difference of a mean share from the rule.
fn off(row: &Row<Cell, Run>) -> f64 {
    let shares = [0, 1].map(|way| shares(row, way)).into_iter().flatten();
    let off = shares.zip(row.2.into_iter().cycle()).map(|(a, b)| (a - b).abs());
    off.fold(0.0, f64::max)
}

fn beyond(row: &Row<Cell, Run>, way: usize) -> f64 {
    row.most(|run| run.beyond[way])
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 4: four uploads and four downloads of CUBIC with the code points BE, BK (CS1), CS5 and EF
{MEGABITS} Mbit/s both ways, {} ms there and back, packets as Ethernet frames; SmartQueue with COBALT both ways, set for
a round trip of 100 ms, or of 1 s, which is a target of 50 ms;
acknowledgements have the code point of their data
shares of the goodput of a direction, in %; beyond: the most that EF and CS5 together were sent above a quarter of the
line in any span in which best effort was backlogged, in longest packets; backlogged: that part of the time, in %, of
the tin of best effort with its acknowledgements
{} s after a warm-up of {} s, {seeds} seeds
",
        ROUND_TRIP.0 / 1_000_000,
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

fn table(rows: &[Row<Cell, Run>]) -> TextTable<9> {
    let [be, bk, cs5, ef] = MARKS.map(|(name, _)| Column::Right(name));
    let mut table = TextTable::new([
        Column::Left("tins"),
        Column::Left("way"),
        be,
        bk,
        cs5,
        ef,
        Column::Right("Mbit/s"),
        Column::Right("beyond"),
        Column::Right("backlogged"),
    ]);
    for row in rows {
        let [be, bk, cs5, ef] = row.2.map(|share| fixed(share, 2));
        table.row([&name(row), &"by the rule", &be, &bk, &cs5, &ef, &"", &"", &""]);
        for (way, name) in WAYS.into_iter().enumerate() {
            let [be, bk, cs5, ef] = shares(row, way).map(|share| fixed(share, 2));
            let goodput = fixed(row.mean(|run| run.goodput(way)), 3);
            let has_tins = row.0 != TinMode::BestEffort;
            let beyond = if has_tins { fixed(beyond(row, way), 2) } else { String::new() };
            let backlogged = fixed(row.mean(|run| run.backlogged[way] * 100.0), 1);
            table.row([&"", &name, &be, &bk, &cs5, &ef, &goodput, &beyond, &backlogged]);
        }
    }
    table
}

fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let mut checks: Vec<Check> = rows.iter().map(by_the_rule).collect();
    let tins = rows.iter().filter(|row| row.0 != TinMode::BestEffort);
    let beyond = tins.flat_map(|row| [0, 1].map(|way| beyond(row, way))).fold(0.0, f64::max);
    checks.push(Check::new(format!(
            "while best effort is backlogged, EF and CS5 together are sent no more than a quarter of the line and {} of \
             the longest packets, in any span",
            fixed(BEYOND, 0)
        ), format!("at most {} packets beyond a quarter", fixed(beyond, 2)), beyond <= BEYOND));
    let runs = rows.iter().flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs", runs.map(|run| run.balanced)));
    checks
}

fn by_the_rule(row: &Row<Cell, Run>) -> Check {
    let off = off(row);
    let claim = format!(
        "{}: BE, BK, CS5 and EF with {} % each way, to {} points",
        name(row),
        row.2.map(|share| fixed(share, 2)).join(", "),
        fixed(POINTS, 0)
    );
    let measured = format!("at most {} points off", fixed(off, 2));
    match (row.0, row.1) {
        (TinMode::Diffserv4, Rtt::INTERNET) => {
            Check::differs(&claim, NOT_FULL, measured, off <= POINTS)
        }
        _ => Check::new(claim, measured, off <= POINTS),
    }
}

fn picture(rows: &[Row<Cell, Run>]) -> Vec<Chart> {
    let numbers = || (1..).map(f64::from);
    let panel = |row: &Row<Cell, Run>| {
        let title = format!("Shares with SmartQueue, {}", name(row));
        let chart = Chart::new(&title).y("% of the goodput").height(250);
        let chart = chart.series("by the rule", Mark::Line, numbers().zip(row.2));
        let chart = WAYS.into_iter().enumerate().fold(chart, |chart, (way, name)| {
            let points = row.runs.iter().flat_map(|run| numbers().zip(run.shares(way)));
            chart.series(name, Mark::Dots, points)
        });
        chart.x("flow: 1 BE, 2 BK, 3 CS5, 4 EF; a dot a run")
    };
    rows.iter().map(panel).collect()
}
