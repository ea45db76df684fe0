//! CAKE Fig. 3: shares of six TCP flows from two hosts to four, under every isolation mode.
//!
//! ```text
//! a ─▶ A, a ─▶ B, a ─▶ C twice, b ─▶ C, b ─▶ D     10 Mbit/s, round trip 50 ms
//! ```
//!
//! The scenario of CAKE §IV-B: whether flows, source hosts, destination hosts or both share the
//! link is visible in their goodputs. The results are compared with the rule of each isolation mode
//! and with the shares of Linux 6.1, which has another TCP and CAKE's AQM.
//!
//! It is run with real packets, [Reno](BulkPairs) and a queue that identifies flows and hosts from
//! the bytes. The five columns of the figure are also run as in the paper: CUBIC of the model TCP,
//! and CAKE with COBALT compared with FQ-CoDel, in both directions.
//!
//! Not specified by the source and assumed here:
//!
//! - The link carries IP packets without framing, in both directions at equal rates;
//!   acknowledgements wait in a FIFO.
//! - Flows start within a second, and arrivals in the first ten seconds are not counted.
//! - The queue holds 300,000 bytes, nearly five times the bandwidth-delay product. Windows do not
//!   limit the flows.
//!
//! A scheduler divides the link among backlogged queues. A TCP that halves a window no larger than
//! the bandwidth-delay product leaves its queue empty for a while, and the other flows use the
//! remainder. So the shares also depend on TCP where [`Drops::CoDel`] keeps queues much shorter
//! than a round trip, and where several flows share a queue.

use serde::{Deserialize, Serialize};

use freeboard::AqmKind;
use freeboard::Isolation::{
    self, DstHost, DualDstHost, DualSrcHost, Flows, Hosts, SrcHost, TripleIsolate,
};
use freeboard::sched_core::{CoDelParams, Limits, Nanos};
use freeboard::shaper::{Overhead, Shaper};

use super::dumbbell::{self, DELAY, Dumbbell, FIRST_SECOND, LIMITS, MEGABITS};
use super::{Check, Experiment, Report, Row, Study};
use crate::app::BulkPairs;
use crate::discipline::{Discipline, Drops, fq_codel, isolated, isolated_smart};
use crate::host::Buffers;
use crate::measure::fair_shares::{FairShares, farthest, means, parts_of_the_whole};
use crate::measure::goodput::jain;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};
use crate::tcp::Data;
use crate::tcp::network::{Naming, Way};
use conformance::rng::Streams;

/// The experiment `sim reproduce cake-fig3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig3",
    quick: 2,
    about: "CAKE Fig. 3: shares of TCP flows under every isolation mode",
    runs: &Fig3,
};

/// Source and destination of each flow, by number.
const ENDS: [(u8, u8); 6] = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];
/// Duration of the measurement in seconds.
const MEASURED: u64 = 60;
/// Begin and end of the measurement.
const WINDOW: (Nanos, Nanos) = (Nanos::from_secs(10), Nanos::from_secs(10 + MEASURED));
/// The limit in packets is never reached before the limit in bytes: no packet here is shorter than
/// 40 bytes.
const BUFFER: Limits = Limits { packets: 300_000 / 40, bytes: 300_000 };
/// More than link and queue hold together.
const SOCKET: Buffers = Buffers { send: 1 << 19, receive: 1 << 19 };
/// Target equal to the round-trip time: a halved window still fills its share of the link.
const LAX: CoDelParams = CoDelParams::new(Nanos::from_millis(50), Nanos::from_millis(500));
/// Factor for the number of seeds of a mode in which flows share a queue. In one run such a flow
/// carries up to 1.5 times the mean, so that ten runs are few for a mean.
const SEEDS_OF_SHARED_QUEUES: u32 = 6;
/// Maximum relative error of each flow's mean share.
const TOLERANCE: f64 = 0.1;
/// Recorded by another tool, which is described in the first line.
const LINUX: &str = include_str!("../../tests/golden/host_isolation.tsv");

/// One value for each flow.
type PerFlow = [f64; ENDS.len()];
/// Isolation mode; `None` is fair queueing of flows, without hosts.
type Mode = Option<Isolation>;

/// A mode, and the drop policy of a queue behind which TCP is Reno; `None` is COBALT, and CUBIC.
/// Without isolation the queue is deficit round robin, or FQ-CoDel with CUBIC.
type Cell = (Mode, Option<Drops>);

/// One run.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Bytes that each flow's receiver got during the measurement.
    bytes: [u64; ENDS.len()],
    balanced: bool,
}

struct Fig3;

type Measured = Row<Cell, Run>;

/// Drop policies with Reno.
const DROPS: [Drops; 3] = [Drops::Longest, Drops::CoDel(CoDelParams::INTERNET), Drops::CoDel(LAX)];
/// The columns of the figure.
const COLUMNS: [Mode; 5] =
    [None, Some(Flows), Some(DualSrcHost), Some(DualDstHost), Some(TripleIsolate)];

fn modes() -> impl Iterator<Item = Mode> {
    core::iter::once(None).chain(Isolation::ALL.iter().copied().map(Some))
}

/// Returns the number of drop policies with which a mode is run, of [`DROPS`].
const fn policies(mode: Mode) -> usize {
    match mode {
        None => 1,
        Some(DualSrcHost | DualDstHost | TripleIsolate) => 3,
        Some(_) => 2,
    }
}

const fn rule(mode: Mode) -> FairShares<6> {
    FairShares::new(mode, ENDS)
}

impl Study for Fig3 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let reno = |mode| DROPS.iter().take(policies(mode)).map(move |&drops| (mode, Some(drops)));
        modes().flat_map(reno).chain(COLUMNS.map(|mode| (mode, None))).collect()
    }

    fn seeds(&self, &(mode, drops): &Cell, seeds: u32) -> u32 {
        let is_noisy = drops.is_some() && rule(mode).has_shared_queues();
        if is_noisy { seeds * SEEDS_OF_SHARED_QUEUES } else { seeds }
    }

    fn run(&self, &(mode, drops): &Cell, seed: u64) -> Run {
        match drops {
            Some(drops) => reno(mode, drops, seed),
            None => cubic(mode, seed),
        }
    }

    fn report(&self, rows: &[Measured], seeds: u32) -> Report {
        let (reno, cubic) = rows.split_at(rows.len() - COLUMNS.len());
        Report::new(heading(seeds) + "\n")
            .table("shares", &table(reno))
            .with_text("\n")
            .table("columns", &columns(cubic))
            .picture("cake-fig3", picture(reno))
            .checks(checks(reno, cubic))
    }
}

fn line() -> Shaper {
    Shaper::new(dumbbell::megabits_per_second(MEGABITS))
}

fn reno(mode: Mode, drops: Drops, seed: u64) -> Run {
    let streams = Streams::new(seed);
    let by_discipline = |of: Discipline| of.behind(line(), Overhead::RAW, BUFFER, Data::LEN);
    let tested = match mode {
        None => by_discipline(Discipline::Drr),
        Some(mode) => isolated(mode, drops, line(), Overhead::RAW, BUFFER, Data::LEN)
            .expect("the parameters of CoDel are within their ranges"),
    };
    let mut keys = streams.stream("flow-hash");
    let links = [tested, by_discipline(Discipline::Fifo)]
        .map(|queue| dumbbell::link(queue, BUFFER, &mut keys, DELAY));
    let transfers = BulkPairs::run(links, &streams, ENDS, SOCKET, WINDOW);
    Run { bytes: transfers.bytes(), balanced: transfers.is_balanced() }
}

fn cubic(mode: Mode, seed: u64) -> Run {
    let ethernet = dumbbell::ethernet();
    let mut site = Dumbbell::new(seed, Naming::Key, WINDOW, |_, keys| {
        let queue = match mode {
            None => fq_codel(line(), ethernet, LIMITS, Data::LEN).expect("lengths are in range"),
            Some(mode) => {
                isolated_smart(mode, AqmKind::Cobalt, false, line(), ethernet, LIMITS, Data::LEN)
            }
        };
        dumbbell::link(queue, LIMITS, keys, DELAY)
    });
    let flows = ENDS.map(|(from, to)| {
        site.connect_within(FIRST_SECOND, Way::Up, [1 + from, 1 + to], dumbbell::cubic())
    });
    site.run_until(WINDOW.1);
    Run { bytes: flows.map(|id| site.goodput(id).bytes()), balanced: site.is_balanced() }
}

/// Returns the name of a mode in the golden file.
fn name_in_linux(mode: Mode) -> &'static str {
    mode.map_or("fq_codel", Isolation::name)
}

/// Returns the mean shares of Linux.
fn linux(mode: Mode) -> PerFlow {
    let rows = LINUX.lines().filter_map(|line| line.strip_prefix(name_in_linux(mode)));
    let shares = |row: &str| {
        let cells = row.split('\t').skip(2);
        let rates: Vec<f64> = cells.map(|cell| cell.parse().expect("a rate in Mbit/s")).collect();
        parts_of_the_whole(rates.try_into().expect("a rate for each flow"))
    };
    means(&rows.map(shares).collect::<Vec<_>>())
}

impl Measured {
    fn name(&self) -> &'static str {
        match self.cell {
            (Some(isolation), _) => isolation.name(),
            (None, Some(_)) => "none (DRR)",
            (None, None) => "FQ-CoDel",
        }
    }

    fn each(&self) -> Vec<PerFlow> {
        let shares = |run: &Run| parts_of_the_whole(run.bytes.map(|bytes| bytes as f64));
        self.runs.iter().map(shares).collect()
    }

    fn shares(&self) -> PerFlow {
        means(&self.each())
    }

    /// Returns the maximum relative error of a flow's mean share.
    fn off(&self) -> f64 {
        farthest(self.shares(), rule(self.0).expected())
    }

    /// See [`FairShares::off_in_a_run`].
    fn off_in_a_run(&self) -> [f64; 2] {
        rule(self.0).off_in_a_run(&self.each())
    }

    /// Returns the goodput of all flows together in Mbit/s, as the mean of all runs.
    fn goodput(&self) -> f64 {
        self.mean(|run| run.bytes.iter().sum::<u64>() as f64 * 8.0 / 1e6) / MEASURED as f64
    }
}

fn heading(seeds: u32) -> String {
    let many = seeds * SEEDS_OF_SHARED_QUEUES;
    format!(
        "\
CAKE Fig. 3: shares of six TCP flows from hosts a and b to hosts A, B, C and D
10 Mbit/s of IP packets both ways, 50 ms there and back; Reno; a queue of 300,000 bytes
labels by SipHash-1-3 of what the parser finds in the packets; {MEASURED} s after a warm-up of 10 s, {seeds} seeds
({many} where flows share a queue)
drops: from the longest queue of the host that holds most; in further lines also by CoDel in each queue,
with the target that is named and an interval of 100 or 500 ms
off: the farthest that a flow is from the rule, % of its share: its mean over the seeds; in any one run;
and the flows of a queue together in any one run
Linux 6.1: CUBIC, sch_cake with the same isolation and its own AQM, 3 seeds; fq_codel for none
",
    )
}

fn table(rows: &[Measured]) -> TextTable<12> {
    let mut table = TextTable::new([
        Column::Left("isolation"),
        Column::Left("shares"),
        Column::Right("a>A"),
        Column::Right("a>B"),
        Column::Right("a>C"),
        Column::Right("a>C"),
        Column::Right("b>C"),
        Column::Right("b>D"),
        Column::Right("off %"),
        Column::Right("a run"),
        Column::Right("a queue"),
        Column::Right("Mbit/s"),
    ]);
    let mut line = |name: &str, what: &str, shares: PerFlow, [mean, run, queue, sum]: [&str; 4]| {
        let [aa, ab, ac, ac2, bc, bd] = shares.map(|share| fixed(share, 4));
        table.row([&name, &what, &aa, &ab, &ac, &ac2, &bc, &bd, &mean, &run, &queue, &sum]);
    };
    for mode in modes() {
        let of = || rows.iter().filter(|row| row.0 == mode);
        let expected = rule(mode).expected();
        line(of().next().map_or("", |row| row.name()), "by the rule", expected, [""; 4]);
        for row in of() {
            let what = match row.1 {
                Some(Drops::CoDel(LAX)) => "CoDel 50 ms",
                Some(Drops::CoDel(_)) => "CoDel 5 ms",
                _ => "measured",
            };
            let off = percent(row.off(), 1);
            let [run, queue] = row.off_in_a_run().map(|off| percent(off, 1));
            line("", what, row.shares(), [&off, &run, &queue, &fixed(row.goodput(), 2)]);
        }
        let linux = linux(mode);
        line("", "Linux 6.1", linux, [&percent(farthest(linux, expected), 1), "", "", ""]);
    }
    table
}

fn columns(rows: &[Measured]) -> TextTable<10> {
    let share = |row: &Measured, flow: usize| fixed(row.shares()[flow], 4);
    TextTable::of(
        rows,
        [
            (Column::Left("CUBIC, COBALT"), &|row| row.name().to_owned()),
            (Column::Right("a>A"), &|row| share(row, 0)),
            (Column::Right("a>B"), &|row| share(row, 1)),
            (Column::Right("a>C"), &|row| share(row, 2)),
            (Column::Right("a>C"), &|row| share(row, 3)),
            (Column::Right("b>C"), &|row| share(row, 4)),
            (Column::Right("b>D"), &|row| share(row, 5)),
            (Column::Right("off %"), &|row| percent(row.off(), 1)),
            (Column::Right("a run"), &|row| percent(row.off_in_a_run()[0], 1)),
            (Column::Right("Mbit/s"), &|row| fixed(row.goodput(), 2)),
        ],
    )
}

fn checks(reno: &[Measured], cubic: &[Measured]) -> Vec<Check> {
    let plain = || reno.iter().filter(|row| row.1 == Some(Drops::Longest));
    let joined = |shares: PerFlow| shares.map(|share| fixed(share, 3)).join(" ");
    let mut checks: Vec<Check> = plain()
        .map(|row| {
            let rule = joined(rule(row.0).expected());
            let claim = format!("{}: every share within 10 % of {rule}", row.name());
            within(claim, &(joined(row.shares()) + ": "), row.off(), "")
        })
        .collect();
    let without_hosts = |row: &&Measured| matches!(row.0, None | Some(Flows));
    checks.extend(plain().filter(without_hosts).map(|row| fair(row, "")));
    let queue = |row: &Measured| row.off_in_a_run()[1];
    let worst = plain().max_by(|a, b| queue(a).total_cmp(&queue(b))).expect("there are modes");
    let claim = "every queue's share, that of its flows together, is within 10 % in every run";
    checks.push(within(claim.to_owned(), "", queue(worst), &format!(", {}", worst.name())));
    let lax = reno.iter().filter(|row| row.1 == Some(Drops::CoDel(LAX)));
    let off = lax.map(|row| row.off_in_a_run()[0]).fold(0.0, f64::max);
    let claim = "with CoDel whose target is the round trip, every share of dual-srchost, \
                 dual-dsthost and triple-isolate is within 10 % in every run";
    checks.push(within(claim.to_owned(), "", off, ""));
    let runs = reno.iter().flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs", runs.map(|run| run.balanced)));
    checks.extend(cubic.iter().map(|row| {
        let what = "with its own AQM: every share within 10 %";
        within(format!("CUBIC behind {} {what}", row.name()), "", row.off(), "")
    }));
    checks.extend(cubic.iter().filter(without_hosts).map(|row| fair(row, "CUBIC behind ")));
    let runs = cubic.iter().flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs of CUBIC", runs.map(|run| run.balanced)));
    checks
}

/// Checks that a relative error is within the tolerance.
fn within(claim: String, before: &str, off: f64, after: &str) -> Check {
    let measured = format!("{before}at most {} % off{after}", percent(off, 1));
    Check::new(claim, measured, off <= TOLERANCE)
}

/// Checks that flows have equal shares in each run.
fn fair(row: &Measured, prefix: &str) -> Check {
    let least = row.runs.iter().filter_map(|run| jain(&run.bytes)).fold(f64::INFINITY, f64::min);
    Check::new(
        format!("{prefix}{}: Jain's index is at least 0.99 in every run", row.name()),
        format!("at least {}", fixed(least, 4)),
        least >= 0.99,
    )
}

fn picture(rows: &[Measured]) -> Vec<Chart> {
    let points = |shares: PerFlow| (1..).map(f64::from).zip(shares);
    let panel = |title: &str, modes: &[Mode]| {
        let chart = Chart::new(title).y("share").height(270);
        let chart = chart.series("by the rule", Mark::Line, points(rule(modes[0]).expected()));
        let is_shown = |row: &&Measured| row.1 == Some(Drops::Longest) && modes.contains(&row.0);
        let chart = rows.iter().filter(is_shown).fold(chart, |chart, row| {
            let chart = chart.series(row.name(), Mark::Dots, points(row.shares()));
            let name = format!("Linux {}", name_in_linux(row.0));
            chart.series(&name, Mark::Dots, points(linux(row.0)))
        });
        chart.x("flow: 1 a>A, 2 a>B, 3 and 4 a>C, 5 b>C, 6 b>D")
    };
    Vec::from([
        panel("Flows share the line", &[None, Some(Flows)]),
        panel("Sources share the line", &[Some(SrcHost), Some(DualSrcHost)]),
        panel("Destinations share the line", &[Some(DstHost), Some(DualDstHost)]),
        panel("Pairs of hosts share the line", &[Some(Hosts)]),
        panel("Triple isolation", &[Some(TripleIsolate)]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_file_has_every_mode() {
        let rows = LINUX.lines().filter(|line| !line.starts_with(['#', 'm'])).count();
        assert_eq!(rows, 8 * 3);
        for mode in modes() {
            assert!((linux(mode).iter().sum::<f64>() - 1.0).abs() < 1e-9, "{mode:?}");
        }
        let triple = linux(Some(Isolation::TripleIsolate));
        assert!((triple[5] - 0.2609).abs() < 0.000_1, "{triple:?}");
    }
}
