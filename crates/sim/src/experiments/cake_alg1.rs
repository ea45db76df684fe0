//! CAKE Algorithm 1: precision of the shaper from 8 kbit/s to 10 Gbit/s, absence of bursts after
//! idle time, and framing.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};

use super::{Check, Experiment, Report, Row, Study};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use conformance::rng::Streams;

/// The experiment `sim reproduce cake-alg1`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-alg1",
    quick: 2,
    about: "CAKE Algorithm 1: precision of the shaper, 8 kbit/s to 10 Gbit/s, and no burst after idle time",
    runs: &Alg1 { after: AFTER },
};

const RATES: [u64; 8] =
    [8_000, 64_000, 1_000_000, 10_000_000, 100_000_000, 750_000_000, 1_000_000_000, 10_000_000_000];
const FRAMINGS: [(&str, Framing); 4] = [
    ("none", Framing::None),
    ("ATM", Framing::Atm),
    ("PTM", Framing::Ptm),
    ("PTM, paper", Framing::PtmPaper),
];
const MTU: u32 = 1_500;
/// Times after which the rate is checked, once there were [`PACKETS`].
const AFTER: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(60)];
const PACKETS: u64 = 100;
/// Rate in bits per second above which only the first seed runs for the longer time: 10 Gbit/s for
/// 60 s are 10^8 packets.
const SLOW: u64 = 10_000_000;
/// Maximum relative error of the rate after these times.
const ERRORS: [f64; 2] = [1e-3, 1e-4];
/// Keywords, length of an IP packet and its length on the link, calculated manually: ⌈x/48⌉ · 53
/// with ATM, x + ⌈x/64⌉ with PTM as in shapers, ⌈x/64⌉ · 65 with PTM as in Algorithm 1; x is the
/// length plus `overhead`, at least `mpu`.
const VECTORS: [(&str, u32, u32); 10] = [
    ("pppoe-llcsnap", 1_500, 1_749),
    ("pppoe-llcsnap", 40, 106),
    ("ipoa-vcmux", 40, 53),
    ("ipoa-vcmux", 41, 106),
    ("docsis", 40, 64),
    ("ethernet", 1_500, 1_538),
    ("ethernet", 40, 84),
    ("pppoe-ptm", 1_500, 1_554),
    ("overhead 30 ptm", 1_500, 1_554),
    ("overhead 30 ptm-paper", 1_500, 1_560),
];

/// Precision of the shaper, with the times after which the rate is checked.
struct Alg1 {
    after: [Nanos; 2],
}

/// Rate in bits per second, and a framing with its name.
type Cell = (u64, (&'static str, Framing));

#[derive(Serialize, Deserialize)]
struct Run {
    /// Back-to-back packets for the first time of [`Alg1::after`].
    short: Steady,
    /// For the second; above [`SLOW`] only with the first seed.
    long: Option<Steady>,
    /// Maximum burst after idle time, as in [`Steady::burst`].
    burst: f64,
}

/// Results for back-to-back packets.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Steady {
    packets: u64,
    /// Relative error of their time.
    error: f64,
    /// Maximum bytes beyond rate × span sent in any span, in longest packets.
    burst: f64,
}

impl Steady {
    fn worse(self, other: Self) -> Self {
        Self {
            packets: self.packets.min(other.packets),
            error: self.error.max(other.error),
            burst: self.burst.max(other.burst),
        }
    }
}

impl Row<Cell, Run> {
    /// Returns the worst of all runs, for each time.
    fn steady(&self) -> [Steady; 2] {
        let short = self.runs.iter().map(|run| run.short).reduce(Steady::worse);
        let long = self.runs.iter().filter_map(|run| run.long).reduce(Steady::worse);
        [short, long].map(|worst| worst.expect("the first run has both"))
    }

    fn steady_burst(&self) -> f64 {
        self.steady().map(|steady| steady.burst).into_iter().fold(0.0, f64::max)
    }

    fn burst_after_pauses(&self) -> f64 {
        self.runs.iter().map(|run| run.burst).fold(0.0, f64::max)
    }
}

impl Study for Alg1 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        RATES.into_iter().flat_map(|bps| FRAMINGS.map(|framing| (bps, framing))).collect()
    }

    fn run(&self, &(bps, (_, framing)): &Cell, seed: u64) -> Run {
        let line = Line {
            bps,
            rate: Rate::bits_per_second(bps).expect("a rate that lines have"),
            overhead: Overhead::new(framing, 0, 0).expect("in range"),
        };
        let [short, long] = self.after;
        Run {
            short: line.back_to_back(short, seed),
            long: (bps <= SLOW || seed == 1).then(|| line.back_to_back(long, seed)),
            burst: line.after_pauses(seed),
        }
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        Report::new(heading(self.after, seeds) + "\n")
            .table("rates", &table(rows))
            .with_text("\n")
            .table("lengths", &lengths())
            .picture("cake-alg1", charts(rows))
            .checks(checks(rows, self.after))
    }
}

fn heading(after: [Nanos; 2], seeds: u32) -> String {
    let [short, long] = after.map(|span| span.0 as f64 / 1e9);
    format!(
        "\
CAKE Algorithm 1: packets of 64 to {MTU} bytes, {seeds} seeds, the worst of them
error: of the time that packets take back to back, {PACKETS} or more, after {short} s (short) and {long} s (long); above {} Mbit/s {long} s
with one seed; burst: bytes beyond rate × span and 1 ns, back to back and after pauses, in longest packets
",
        SLOW / 1_000_000,
    )
}

fn table(rows: &[Row<Cell, Run>]) -> TextTable<8> {
    let packets = |row: &Row<Cell, Run>, time: usize| row.steady()[time].packets.to_string();
    let error = |row: &Row<Cell, Run>, time: usize| fixed(row.steady()[time].error * 1e6, 4);
    TextTable::of(
        rows,
        [
            (Column::Right("kbit/s"), &|row| (row.0 / 1_000).to_string()),
            (Column::Left("framing"), &|row| row.1.0.to_owned()),
            (Column::Right("packets"), &|row| packets(row, 0)),
            (Column::Right("short, ppm"), &|row| error(row, 0)),
            (Column::Right("packets"), &|row| packets(row, 1)),
            (Column::Right("long, ppm"), &|row| error(row, 1)),
            (Column::Right("burst"), &|row| fixed(row.steady_burst(), 3)),
            (Column::Right("after pauses"), &|row| fixed(row.burst_after_pauses(), 3)),
        ],
    )
}

/// Returns the length of a packet on a link with these keywords.
fn wire_len(words: &str, len: u32) -> Option<u32> {
    Overhead::from_keywords(words, 0).ok().map(|link| link.wire_len(len))
}

fn lengths() -> TextTable<4> {
    let here = |(words, len)| wire_len(words, len).map_or("none".to_owned(), |len| len.to_string());
    TextTable::of(
        &VECTORS,
        [
            (Column::Left("a packet on the link"), &|vector| vector.0.to_owned()),
            (Column::Right("IP bytes"), &|vector| vector.1.to_string()),
            (Column::Right("derived"), &|vector| vector.2.to_string()),
            (Column::Right("here"), &|vector| here((vector.0, vector.1))),
        ],
    )
}

fn checks(rows: &[Row<Cell, Run>], after: [Nanos; 2]) -> Vec<Check> {
    let most = |value: fn(&Row<Cell, Run>) -> f64| rows.iter().map(value).fold(0.0, f64::max);
    let exact = |at: usize| {
        let steady = || rows.iter().map(|row| row.steady()[at]);
        let fewest = steady().map(|steady| steady.packets).min().unwrap_or(0);
        let error = steady().map(|steady| steady.error).fold(0.0, f64::max);
        Check::new(
            format!(
                "the rate is right to {} % over {} s at every rate and framing, of {PACKETS} packets or more",
                fixed(ERRORS[at] * 100.0, 2),
                after[at].0 as f64 / 1e9
            ),
            format!("at most {} ppm, {fewest} packets or more", fixed(error * 1e6, 4)),
            error <= ERRORS[at] && fewest >= PACKETS,
        )
    };
    let bursts = [most(Row::steady_burst), most(Row::burst_after_pauses)];
    let wrong = VECTORS.iter().filter(|&&(words, len, wire)| wire_len(words, len) != Some(wire));
    let wrong = wrong.count();
    vec![
        exact(0),
        exact(1),
        Check::new(
            "in every span at most rate × span, one longest packet and the bits of 1 ns leave, back to back and after pauses",
            bursts.map(|burst| fixed(burst, 3)).join(" and ") + " packets",
            bursts.into_iter().all(|burst| burst <= 1.0),
        ),
        Check::new(
            "packets are as long on the link as derived, with either formula for PTM",
            format!("{} of {} lengths differ", wrong, VECTORS.len()),
            wrong == 0,
        ),
    ]
}

fn charts(rows: &[Row<Cell, Run>]) -> Vec<Chart> {
    let panel = |title: &str, y: &str, value: fn(&Row<Cell, Run>) -> f64| {
        let chart = Chart::new(title).x("rate (kbit/s)").y(y).log_x().height(250);
        FRAMINGS.into_iter().fold(chart, |chart, (name, _)| {
            let of = rows.iter().filter(|row| row.1.0 == name);
            let points = of.map(|row| (row.0 as f64 / 1e3, value(row)));
            chart.series(name, Mark::Dots, points)
        })
    };
    Vec::from([
        panel("Error of the rate after 60 s, back to back", "ppm", |row| {
            row.steady()[1].error * 1e6
        }),
        panel("Beyond the rate after pauses", "longest packets", Row::burst_after_pauses),
    ])
}

/// Maximum bytes beyond rate × span in any span that ends with a departure. The worst such span
/// begins where the bytes sent are least ahead of the rate, so one pass finds it.
struct Burst {
    /// Bytes per nanosecond.
    rate: f64,
    bytes: f64,
    least: f64,
    most: f64,
}

impl Burst {
    const fn new(bps: u64) -> Self {
        Self { rate: bps as f64 / 8e9, bytes: 0.0, least: f64::INFINITY, most: 0.0 }
    }

    /// Records a departure: evaluates just before and just after it.
    fn leaves(&mut self, now: Nanos, wire_len: u32) {
        let allowed = now.0 as f64 * self.rate;
        self.least = self.least.min(self.bytes - allowed);
        self.bytes += f64::from(wire_len);
        self.most = self.most.max(self.bytes - allowed - self.least);
    }

    /// Returns the burst in packets of this length. A packet leaves at a whole nanosecond, up to 1
    /// ns after the exact time, and the next one makes that up.
    fn packets(&self, longest: u32) -> f64 {
        (self.most - self.rate) / f64::from(longest)
    }
}

/// A link without a queue.
struct Line {
    bps: u64,
    rate: Rate,
    overhead: Overhead,
}

impl Line {
    fn back_to_back(&self, span: Nanos, seed: u64) -> Steady {
        let (mut line, mut len) = (Shaper::new(self.rate), random_lengths(seed));
        let (mut now, mut bytes, mut packets) = (Nanos::ZERO, 0_u64, 0);
        let mut burst = Burst::new(self.bps);
        while packets < PACKETS || line.due() < span {
            now = now.max(line.due());
            let wire_len = self.overhead.wire_len(len());
            line.charge(now, wire_len);
            burst.leaves(now, wire_len);
            bytes += u64::from(wire_len);
            packets += 1;
        }
        let exact = bytes as f64 * 8e9 / self.bps as f64;
        let error = (line.due().0 as f64 / exact - 1.0).abs();
        Steady { packets, error, burst: burst.packets(self.overhead.wire_len(MTU)) }
    }

    /// Returns the burst as in [`Steady::burst`], with eight packets at once after each pause.
    fn after_pauses(&self, seed: u64) -> f64 {
        let mut pauses = Streams::new(seed).stream("pauses");
        let (mut line, mut len) = (Shaper::new(self.rate), random_lengths(seed));
        let (mut now, mut burst) = (Nanos::ZERO, Burst::new(self.bps));
        for _ in 0..200 {
            now = now.max(line.due()).plus(Nanos(pauses.below(10 * self.rate.time_of(MTU).0)));
            line.wake(now);
            for _ in 0..8 {
                now = now.max(line.due());
                let wire_len = self.overhead.wire_len(len());
                line.charge(now, wire_len);
                burst.leaves(now, wire_len);
            }
        }
        burst.packets(self.overhead.wire_len(MTU))
    }
}

/// Returns random packet lengths.
fn random_lengths(seed: u64) -> impl FnMut() -> u32 {
    let mut draws = Streams::new(seed).stream("lengths");
    move || 64 + draws.below(u64::from(MTU) - 63) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::harness;
    use crate::progress::Progress;
    use conformance::effort::effort;

    /// Goal: the checks of the complete run also pass for a short one. Method: a tenth of a second
    /// and a second.
    #[test]
    fn every_check_holds_of_a_second() {
        let after = [Nanos::from_millis(100), Nanos::from_secs(1)];
        let report = harness::report(&Alg1 { after }, effort(1, 2), &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
