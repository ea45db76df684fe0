//! The five columns of the figure, as in the paper: CUBIC, and CAKE with COBALT compared with
//! FQ-CoDel.
//!
//! ```text
//! a ─▶ A, a ─▶ B, a ─▶ C twice, b ─▶ C, b ─▶ D     10 Mbit/s in both directions, round trip 50 ms, equal queues in both directions
//! ```

use std::thread;

use freeboard::sched_core::{CoDel, CoDelParams, CoDelState, Ecn, Limits, Nanos};
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};
use freeboard::{AqmKind, Isolation};

use super::scenario::{ENDS, FLOWS};
use super::{MEASURED, Mode, PerFlow, TOLERANCE, means, shares, worst};
use crate::discipline::{Bottleneck, QUEUES, fair_queues, isolated_smart};
use crate::experiments::Check;
use crate::link::Link;
use crate::measure::goodput::jain;
use crate::plot::{Column, TextTable, fixed, percent};
use crate::progress::Progress;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, TcpNetwork, Way};
use crate::tcp::{Config, Data};
use conformance::rng::Streams;

/// FQ-CoDel, and CAKE without host isolation, by sources, by destinations and by both.
const COLUMNS: [Mode; 5] = [
    Mode(None),
    Mode(Some(Isolation::Flows)),
    Mode(Some(Isolation::DualSrcHost)),
    Mode(Some(Isolation::DualDstHost)),
    Mode(Some(Isolation::TripleIsolate)),
];
const WARM_UP: Nanos = Nanos::from_secs(10);
const MEGABITS: u64 = 10;
/// One-way delay.
const DELAY: Nanos = Nanos::from_millis(25);
/// Length of an Ethernet header.
const HEADER: u32 = 14;
/// CAKE's memory limit at this rate, and FQ-CoDel's limit in packets.
const LIMITS: Limits = Limits { packets: 10_240, bytes: 4 << 20 };

/// All runs of a column.
pub(super) struct Measured {
    mode: Mode,
    runs: Vec<Run>,
}

struct Run {
    bytes: [u64; FLOWS],
    balanced: bool,
}

impl Measured {
    const fn name(&self) -> &'static str {
        match self.mode.0 {
            None => "FQ-CoDel",
            Some(isolation) => isolation.name(),
        }
    }

    fn each(&self) -> Vec<PerFlow> {
        self.runs.iter().map(|run| shares(run.bytes.map(|bytes| bytes as f64))).collect()
    }

    /// Returns the maximum error of a flow: of the mean of its runs, and in any one.
    fn off(&self) -> [f64; 2] {
        let (each, expected) = (self.each(), self.mode.expected());
        let in_a_run = each.iter().map(|&run| worst(run, expected)).fold(0.0, f64::max);
        [worst(means(&each), expected), in_a_run]
    }

    /// Returns Jain's index of the least fair run.
    fn jain(&self) -> f64 {
        let each = self.runs.iter().filter_map(|run| jain(&run.bytes));
        each.fold(f64::INFINITY, f64::min)
    }

    /// Returns the goodput of all flows in Mbit/s, as the mean of all runs.
    fn goodput(&self) -> f64 {
        let all: u64 = self.runs.iter().flat_map(|run| run.bytes).sum();
        all as f64 * 8e3 / MEASURED.0 as f64 / self.runs.len() as f64
    }
}

/// Returns the number of runs.
pub(super) fn runs(seeds: u32) -> u64 {
    COLUMNS.len() as u64 * u64::from(seeds)
}

/// Runs every column.
pub(super) fn measure(seeds: u32, progress: &Progress) -> Vec<Measured> {
    // Runs are independent of each other.
    thread::scope(|scope| {
        let begin = |mode: Mode| {
            scope.spawn(move || {
                let one = |seed| {
                    let run = run(mode.0, seed);
                    progress.done();
                    run
                };
                Measured { mode, runs: (1..=u64::from(seeds)).map(one).collect() }
            })
        };
        let runs: Vec<_> = COLUMNS.into_iter().map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    })
}

fn run(isolation: Option<Isolation>, seed: u64) -> Run {
    let end = WARM_UP.plus(MEASURED);
    let streams = Streams::new(seed);
    let mut keys = streams.stream("flow-hash");
    let mut link = || {
        let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        Link::new(queue(isolation), LIMITS.packets + 1, key, DELAY)
    };
    let mut network = TcpNetwork::new(link(), link(), Naming::Key, (WARM_UP, end));
    let mut starts = streams.stream("starts");
    let flows = ENDS.map(|(source, destination)| {
        let begins = Nanos(starts.below(1_000_000_000));
        let control = Box::new(Cubic::new(Ecn::NotEct));
        network.connect(Way::Up, [1 + source, 1 + destination], begins, Config::new(control))
    });
    network.run_until(end);
    let bytes = flows.map(|id| network.goodput(id).bytes());
    Run { bytes, balanced: network.recount().is_ok() }
}

fn queue(isolation: Option<Isolation>) -> Box<dyn Bottleneck> {
    let line = Shaper::new(Rate::megabits_per_second(MEGABITS).expect("a rate that lines have"));
    let link = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
    match isolation {
        Some(isolation) => {
            isolated_smart(isolation, AqmKind::Cobalt, false, line, link, LIMITS, Data::LEN)
        }
        None => {
            let states = vec![CoDelState::EMPTY; QUEUES as usize];
            let codel = CoDel::new(states, CoDelParams::INTERNET);
            let queue = codel.and_then(|codel| fair_queues(codel, line, link, LIMITS, Data::LEN));
            queue.expect("lengths and parameters are within their ranges")
        }
    }
}

/// Returns the table of shares.
pub(super) fn table(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("CUBIC, COBALT"),
        Column::Right("a>A"),
        Column::Right("a>B"),
        Column::Right("a>C"),
        Column::Right("a>C"),
        Column::Right("b>C"),
        Column::Right("b>D"),
        Column::Right("off %"),
        Column::Right("a run"),
        Column::Right("Mbit/s"),
    ]);
    for of in measured {
        let [aa, ab, ac, ac2, bc, bd] = means(&of.each()).map(|share| fixed(share, 4));
        let [mean, run] = of.off().map(|off| percent(off, 1));
        let sum = fixed(of.goodput(), 2);
        table.row([&of.name(), &aa, &ab, &ac, &ac2, &bc, &bd, &mean, &run, &sum]);
    }
    table.to_string()
}

/// Returns a check for each column, one more for the column without host isolation, and one for the
/// counters.
pub(super) fn checks(measured: &[Measured]) -> Vec<Check> {
    let mut checks: Vec<Check> = measured
        .iter()
        .map(|of| {
            let [off, _] = of.off();
            Check {
                claim: format!(
                    "CUBIC behind {} with its own AQM: every share within 10 %",
                    of.name()
                ),
                measured: format!("at most {} % off", percent(off, 1)),
                holds: off <= TOLERANCE,
            }
        })
        .collect();
    for of in measured.iter().filter(|of| matches!(of.mode.0, None | Some(Isolation::Flows))) {
        checks.push(Check {
            claim: format!(
                "CUBIC behind {}: Jain's index is at least 0.99 in every run",
                of.name()
            ),
            measured: format!("at least {}", fixed(of.jain(), 4)),
            holds: of.jain() >= 0.99,
        });
    }
    let runs = measured.iter().flat_map(|of| &of.runs);
    checks.push(Check::accounted_for("runs of CUBIC", runs.map(|run| run.balanced)));
    checks
}
