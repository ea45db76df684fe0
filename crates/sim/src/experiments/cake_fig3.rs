//! CAKE Fig. 3: shares of six TCP flows from two hosts to four, under every isolation mode.
//!
//! The scenario is [`crate::experiments::cake_fig3::scenario`]. The results are compared with the
//! rule of each isolation mode and with the shares of Linux 6.1, which has another TCP and CAKE's
//! AQM.

mod columns;
pub mod scenario;

use std::thread;

use freeboard::Isolation;
use freeboard::sched_core::{CoDelParams, Nanos};

use super::{Check, Experiment, Report};
use crate::measure::estimate::mean;
use crate::measure::goodput::jain;
use crate::plot::{self, Chart, Column, Mark, fixed, percent};
use crate::progress::Progress;
use scenario::{Drops, ENDS, FLOWS, Outcome, Setup};

/// The experiment `sim reproduce cake-fig3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig3",
    quick: 2,
    about: "CAKE Fig. 3: shares of TCP flows under every isolation mode",
    runs: super::Runs::Whole(run),
};

const MEASURED: Nanos = Nanos::from_secs(60);
/// Factor for the number of seeds of a mode in which flows share a queue. In one run such a flow
/// carries up to 1.5 times the mean, so that ten runs are few for a mean.
const SEEDS_OF_SHARED_QUEUES: u32 = 6;
/// Maximum relative error of each flow's mean share.
const TOLERANCE: f64 = 0.1;
/// Target equal to the round-trip time: a halved window still fills its share of the link.
const LAX: CoDelParams = CoDelParams::new(Nanos::from_millis(50), Nanos::from_millis(500));
/// Recorded by another tool, which is described in the first line.
const LINUX: &str = include_str!("../../tests/golden/host_isolation.tsv");

/// One value for each flow.
type PerFlow = [f64; FLOWS];

/// A mode: plain deficit round robin, or an isolation mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode(Option<Isolation>);

impl Mode {
    fn all() -> impl Iterator<Item = Self> {
        core::iter::once(Self(None))
            .chain(Isolation::ALL.iter().copied().map(|isolation| Self(Some(isolation))))
    }

    const fn name(self) -> &'static str {
        match self.0 {
            None => "none (DRR)",
            Some(isolation) => isolation.name(),
        }
    }

    /// Returns the name of the mode in the golden file.
    const fn of_linux(self) -> &'static str {
        match self.0 {
            None => "fq_codel",
            Some(isolation) => isolation.name(),
        }
    }

    /// Returns the number of flows by which the rule divides the quantum of such a flow.
    fn load(self, (source, destination): (u8, u8)) -> usize {
        let flows = |alike: &dyn Fn(u8, u8) -> bool| {
            ENDS.into_iter().filter(|&(from, to)| alike(from, to)).count()
        };
        let from = flows(&|other, _| other == source);
        let to = flows(&|_, other| other == destination);
        match self.0 {
            Some(Isolation::SrcHost | Isolation::DualSrcHost) => from,
            Some(Isolation::DstHost | Isolation::DualDstHost) => to,
            Some(Isolation::Hosts) => flows(&|a, b| (a, b) == (source, destination)),
            Some(Isolation::TripleIsolate) => from.max(to),
            _ => 1,
        }
    }

    /// Identifies the queue of a flow.
    fn queue(self, flow: usize) -> (usize, u8, u8) {
        let (source, destination) = ENDS[flow];
        match self.0 {
            Some(Isolation::SrcHost) => (0, source, 0),
            Some(Isolation::DstHost) => (0, 0, destination),
            Some(Isolation::Hosts) => (0, source, destination),
            _ => (flow, 0, 0),
        }
    }

    /// Returns, for each flow, the sum over all flows in its queue.
    fn of_queues(self, shares: PerFlow) -> PerFlow {
        core::array::from_fn(|flow| {
            let together = (0..FLOWS).filter(|&other| self.queue(other) == self.queue(flow));
            together.map(|other| shares[other]).sum()
        })
    }

    fn shares_queues(self) -> bool {
        (0..FLOWS).any(|flow| (0..flow).any(|other| self.queue(other) == self.queue(flow)))
    }

    /// Returns the number of seeds of this mode if others have `seeds`.
    fn seeds(self, seeds: u32) -> u32 {
        if self.shares_queues() { seeds * SEEDS_OF_SHARED_QUEUES } else { seeds }
    }

    /// Returns the drop policies used in this mode.
    fn drops(self) -> &'static [Drops] {
        const ALL: [Drops; 3] =
            [Drops::Longest, Drops::CoDel(CoDelParams::INTERNET), Drops::CoDel(LAX)];
        match self.0 {
            None => &ALL[..1],
            Some(Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate) => {
                &ALL
            }
            Some(_) => &ALL[..2],
        }
    }

    /// Returns the shares by the rule.
    fn expected(self) -> PerFlow {
        shares(ENDS.map(|ends| 1.0 / self.load(ends) as f64))
    }

    /// Returns the mean shares of Linux.
    fn linux(self) -> PerFlow {
        let rows = LINUX.lines().filter_map(|line| {
            let mut cells = line.split('\t');
            let row = cells.next() == Some(self.of_linux());
            let numbers = cells.skip(1).map(|cell| cell.parse().expect("a rate in Mbit/s"));
            row.then(|| shares(flows(numbers)))
        });
        means(&rows.collect::<Vec<_>>())
    }
}

fn flows(values: impl Iterator<Item = f64>) -> PerFlow {
    let values: Vec<f64> = values.collect();
    values.try_into().expect("a value for each flow")
}

fn shares(parts: PerFlow) -> PerFlow {
    let whole: f64 = parts.iter().sum();
    parts.map(|part| part / whole)
}

fn means(runs: &[PerFlow]) -> PerFlow {
    core::array::from_fn(|flow| {
        let values: Vec<f64> = runs.iter().map(|run| run[flow]).collect();
        mean(&values).expect("there are runs")
    })
}

/// Returns the maximum relative error of a flow.
fn worst(shares: PerFlow, expected: PerFlow) -> f64 {
    let off =
        shares.into_iter().zip(expected).map(|(share, expected)| (share / expected - 1.0).abs());
    off.fold(0.0, f64::max)
}

/// All runs of one mode.
struct Measured {
    mode: Mode,
    drops: Drops,
    outcomes: Vec<Outcome>,
}

impl Measured {
    fn runs(&self) -> Vec<PerFlow> {
        let shares = |outcome: &Outcome| shares(outcome.bytes.map(|bytes| bytes as f64));
        self.outcomes.iter().map(shares).collect()
    }

    fn shares(&self) -> PerFlow {
        means(&self.runs())
    }

    fn worst(&self) -> f64 {
        worst(self.shares(), self.mode.expected())
    }

    /// Returns the maximum relative error in any run: of a flow, and of the flows of a queue
    /// together.
    fn worst_run(&self) -> (f64, f64) {
        let expected = self.mode.expected();
        let queues = |shares| self.mode.of_queues(shares);
        self.runs().into_iter().fold((0.0, 0.0), |(flow, queue), run| {
            (worst(run, expected).max(flow), worst(queues(run), queues(expected)).max(queue))
        })
    }

    /// Returns Jain's index of the least fair run.
    fn jain(&self) -> f64 {
        let each = self.outcomes.iter().filter_map(|outcome| jain(&outcome.bytes));
        each.fold(f64::INFINITY, f64::min)
    }

    /// Returns the goodput of all flows together in Mbit/s, as the mean of all runs.
    fn goodput(&self) -> f64 {
        let bits = |outcome: &Outcome| outcome.bytes.iter().sum::<u64>() as f64 * 8.0;
        let all: Vec<f64> = self.outcomes.iter().map(bits).collect();
        mean(&all).expect("there are runs") / MEASURED.0 as f64 * 1_000.0
    }
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let variants =
        Mode::all().flat_map(|mode| mode.drops().iter().map(move |&drops| (mode, drops)));
    let variants: Vec<_> = variants.collect();
    let runs: u64 = variants.iter().map(|(mode, _)| u64::from(mode.seeds(seeds))).sum();
    progress.expect(runs + columns::runs(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let runs: Vec<_> = variants
            .into_iter()
            .map(|(mode, drops)| scope.spawn(move || measure(mode, drops, seeds, progress)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let columns = columns::measure(seeds, progress);
    let text = format!("{}\n{}\n{}", heading(seeds), table(&measured), columns::table(&columns));
    let checks = [checks(&measured), columns::checks(&columns)].concat();
    let charts = picture(&measured);
    Report::new(text).picture("cake-fig3", charts).checks(checks)
}

fn measure(mode: Mode, drops: Drops, seeds: u32, progress: &Progress) -> Measured {
    let one = |seed| {
        let setup = Setup { isolation: mode.0, drops, measured: MEASURED, seed };
        let outcome = scenario::run(&setup);
        progress.done();
        outcome.expect("the parameters of CoDel are within their ranges")
    };
    Measured { mode, drops, outcomes: (1..=u64::from(mode.seeds(seeds))).map(one).collect() }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 3: shares of six TCP flows from hosts a and b to hosts A, B, C and D
10 Mbit/s of IP packets both ways, 50 ms there and back; Reno; a queue of 300,000 bytes
labels by SipHash-1-3 of what the parser finds in the packets; {} s after a warm-up of 10 s, {seeds} seeds
({} where flows share a queue)
drops: from the longest queue of the host that holds most; in further lines also by CoDel in each queue,
with the target that is named and an interval of 100 or 500 ms
off: the farthest that a flow is from the rule, % of its share: its mean over the seeds; in any one run;
and the flows of a queue together in any one run
Linux 6.1: CUBIC, sch_cake with the same isolation and its own AQM, 3 seeds; fq_codel for none
",
        MEASURED.0 / 1_000_000_000,
        seeds * SEEDS_OF_SHARED_QUEUES,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = plot::TextTable::new([
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
    let mut row = |name: &str, what: &str, shares: PerFlow, off: [String; 4]| {
        let [aa, ab, ac, ac2, bc, bd] = shares.map(|share| fixed(share, 4));
        let [mean, run, queue, sum] = off;
        table.row([&name, &what, &aa, &ab, &ac, &ac2, &bc, &bd, &mean, &run, &queue, &sum]);
    };
    let blank = String::new;
    for mode in Mode::all() {
        let expected = mode.expected();
        row(mode.name(), "by the rule", expected, [blank(), blank(), blank(), blank()]);
        for of in measured.iter().filter(|measured| measured.mode == mode) {
            let what = match of.drops {
                Drops::Longest => "measured",
                Drops::CoDel(LAX) => "CoDel 50 ms",
                Drops::CoDel(_) => "CoDel 5 ms",
            };
            let (run, queue) = of.worst_run();
            let [mean, run, queue] = [of.worst(), run, queue].map(|off| percent(off, 1));
            row("", what, of.shares(), [mean, run, queue, fixed(of.goodput(), 2)]);
        }
        let linux = mode.linux();
        let mean = percent(worst(linux, expected), 1);
        row("", "Linux 6.1", linux, [mean, blank(), blank(), blank()]);
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let plain: Vec<&Measured> =
        measured.iter().filter(|measured| measured.drops == Drops::Longest).collect();
    let mut checks: Vec<Check> = plain
        .iter()
        .map(|of| {
            let rule = of.mode.expected().map(|share| fixed(share, 3)).join(" ");
            Check {
                claim: format!("{}: every share within 10 % of {rule}", of.mode.name()),
                measured: format!(
                    "{}: at most {} % off",
                    of.shares().map(|share| fixed(share, 3)).join(" "),
                    percent(of.worst(), 1)
                ),
                holds: of.worst() <= TOLERANCE,
            }
        })
        .collect();
    for of in plain.iter().filter(|of| matches!(of.mode.0, None | Some(Isolation::Flows))) {
        checks.push(Check {
            claim: format!("{}: Jain's index is at least 0.99 in every run", of.mode.name()),
            measured: format!("at least {}", fixed(of.jain(), 4)),
            holds: of.jain() >= 0.99,
        });
    }
    let queue = |of: &Measured| of.worst_run().1;
    let farthest = plain.iter().max_by(|a, b| queue(a).total_cmp(&queue(b)));
    let farthest = farthest.expect("there are modes");
    checks.push(Check {
        claim: "every queue's share, that of its flows together, is within 10 % in every run"
            .to_owned(),
        measured: format!(
            "at most {} % off, {}",
            percent(queue(farthest), 1),
            farthest.mode.name()
        ),
        holds: queue(farthest) <= TOLERANCE,
    });
    let lax = measured.iter().filter(|measured| measured.drops == Drops::CoDel(LAX));
    let off = lax.map(|of| of.worst_run().0).fold(0.0, f64::max);
    checks.push(Check {
        claim: "with CoDel whose target is the round trip, every share of dual-srchost, dual-dsthost and \
                triple-isolate is within 10 % in every run"
            .to_owned(),
        measured: format!("at most {} % off", percent(off, 1)),
        holds: off <= TOLERANCE,
    });
    let outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    checks.push(Check::accounted_for("runs", outcomes.map(|outcome| outcome.recount.is_ok())));
    checks
}

fn picture(measured: &[Measured]) -> Vec<Chart> {
    let points = |shares: PerFlow| (1..).map(f64::from).zip(shares);
    let panel = |title: &str, names: &[&str]| {
        let chart = Chart::new(title).y("share").height(270);
        let of: Vec<&Measured> = names
            .iter()
            .filter_map(|name| {
                let is = |of: &&Measured| of.drops == Drops::Longest && of.mode.name() == *name;
                measured.iter().find(is)
            })
            .collect();
        let Some(first) = of.first() else { return chart };
        let chart = chart.series("by the rule", Mark::Line, points(first.mode.expected()));
        let chart = of.iter().fold(chart, |chart, of| {
            let chart = chart.series(of.mode.name(), Mark::Dots, points(of.shares()));
            let name = format!("Linux {}", of.mode.of_linux());
            chart.series(&name, Mark::Dots, points(of.mode.linux()))
        });
        chart.x("flow: 1 a>A, 2 a>B, 3 and 4 a>C, 5 b>C, 6 b>D")
    };
    Vec::from([
        panel("Flows share the line", &["none (DRR)", "flows"]),
        panel("Sources share the line", &["srchost", "dual-srchost"]),
        panel("Destinations share the line", &["dsthost", "dual-dsthost"]),
        panel("Pairs of hosts share the line", &["hosts"]),
        panel("Triple isolation", &["triple-isolate"]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated manually from the flows of the figure.
    #[test]
    fn the_rule_gives_the_shares_of_the_figure() {
        for (isolation, expected) in [
            (None, [1.0 / 6.0; 6]),
            (Some(Isolation::DualDstHost), [0.25, 0.25, 1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0, 0.25]),
            (Some(Isolation::DualSrcHost), [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]),
            (Some(Isolation::Hosts), [0.2, 0.2, 0.1, 0.1, 0.2, 0.2]),
            // Quanta ¼ ¼ ¼ ¼ ⅓ ½ of a sum of 11/6
            (Some(Isolation::TripleIsolate), [0.1364, 0.1364, 0.1364, 0.1364, 0.1818, 0.2727]),
        ] {
            let off = worst(Mode(isolation).expected(), expected);
            assert!(off < 0.000_5, "{isolation:?}: {off}");
        }
    }

    #[test]
    fn the_golden_file_has_every_mode() {
        let rows = LINUX.lines().filter(|line| !line.starts_with(['#', 'm'])).count();
        assert_eq!(rows, 8 * 3);
        for mode in Mode::all() {
            assert!((mode.linux().iter().sum::<f64>() - 1.0).abs() < 1e-9, "{}", mode.name());
        }
        let triple = Mode(Some(Isolation::TripleIsolate)).linux();
        assert!((triple[5] - 0.2609).abs() < 0.000_1, "{triple:?}");
    }
}
