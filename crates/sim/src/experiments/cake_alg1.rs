//! CAKE Algorithm 1: precision of the shaper from 8 kbit/s to 10 Gbit/s, absence of bursts after
//! idle time, and framing.

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};

use super::{Check, Experiment, Report};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::progress::Progress;
use conformance::rng::Streams;

/// The experiment `sim reproduce cake-alg1`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-alg1",
    quick: 2,
    about: "CAKE Algorithm 1: precision of the shaper, 8 kbit/s to 10 Gbit/s, and no burst after idle time",
    runs: super::Runs::Whole(run),
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

/// Results for one rate and one framing, the worst of all seeds.
struct Line {
    bps: u64,
    framing: &'static str,
    /// Back-to-back packets, for each time of [`AFTER`].
    steady: [Steady; 2],
    /// Maximum burst after idle time, as in [`Steady::burst`].
    burst: f64,
}

/// Results for back-to-back packets.
#[derive(Clone, Copy)]
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

fn run(seeds: u32, progress: &Progress) -> Report {
    run_for(AFTER, seeds, progress)
}

fn run_for(after: [Nanos; 2], seeds: u32, progress: &Progress) -> Report {
    progress.expect((RATES.len() * FRAMINGS.len()) as u64);
    let mut lines = Vec::new();
    for bps in RATES {
        for framing in FRAMINGS {
            lines.push(measure(bps, framing, after, seeds.into()));
            progress.done();
        }
    }
    let [short, long] = after.map(|span| span.0 as f64 / 1e9);
    let text = format!(
        "\
CAKE Algorithm 1: packets of 64 to {MTU} bytes, {seeds} seeds, the worst of them
error: of the time that packets take back to back, {PACKETS} or more, after {short} s (short) and {long} s (long); above {} Mbit/s {long} s
with one seed; burst: bytes beyond rate × span and 1 ns, back to back and after pauses, in longest packets
\n{}\n{}",
        SLOW / 1_000_000,
        table(&lines),
        vectors()
    );
    let charts = picture(&lines);
    Report::new(text).picture("cake-alg1", charts).checks(checks(&lines, after))
}

fn table(lines: &[Line]) -> TextTable<8> {
    let mut table = TextTable::new([
        Column::Right("kbit/s"),
        Column::Left("framing"),
        Column::Right("packets"),
        Column::Right("short, ppm"),
        Column::Right("packets"),
        Column::Right("long, ppm"),
        Column::Right("burst"),
        Column::Right("after pauses"),
    ]);
    for line in lines {
        let rate = (line.bps / 1_000).to_string();
        let [short, long] = line.steady.map(|steady| steady.packets);
        let [first, last] = line.steady.map(|steady| fixed(steady.error * 1e6, 4));
        let [burst, pauses] = [line.steady_burst(), line.burst].map(|burst| fixed(burst, 3));
        table.row([&rate, &line.framing, &short, &first, &long, &last, &burst, &pauses]);
    }
    table
}

/// Returns the length of a packet on a link with these keywords.
fn wire_len(words: &str, len: u32) -> Option<u32> {
    Overhead::from_keywords(words, 0).ok().map(|link| link.wire_len(len))
}

fn vectors() -> TextTable<4> {
    let mut table = TextTable::new([
        Column::Left("a packet on the link"),
        Column::Right("IP bytes"),
        Column::Right("derived"),
        Column::Right("here"),
    ]);
    for (words, len, expected) in VECTORS {
        let here = wire_len(words, len).map_or("none".to_owned(), |len| len.to_string());
        table.row([&words, &len, &expected, &here]);
    }
    table
}

fn checks(lines: &[Line], after: [Nanos; 2]) -> Vec<Check> {
    let most = |value: &dyn Fn(&Line) -> f64| lines.iter().map(value).fold(0.0, f64::max);
    let exact = |at: usize| {
        let fewest = lines.iter().map(|line| line.steady[at].packets).min().unwrap_or(0);
        let error = most(&|line| line.steady[at].error);
        Check {
            claim: format!(
                "the rate is right to {} % over {} s at every rate and framing, of {PACKETS} packets or more",
                fixed(ERRORS[at] * 100.0, 2),
                after[at].0 as f64 / 1e9
            ),
            measured: format!("at most {} ppm, {fewest} packets or more", fixed(error * 1e6, 4)),
            holds: error <= ERRORS[at] && fewest >= PACKETS,
        }
    };
    let bursts = [most(&Line::steady_burst), most(&|line| line.burst)];
    let wrong = VECTORS.iter().filter(|&&(words, len, wire)| wire_len(words, len) != Some(wire));
    let wrong = wrong.count();
    vec![
        exact(0),
        exact(1),
        Check {
            claim: "in every span at most rate × span, one longest packet and the bits of 1 ns leave, back to back and after pauses"
                .to_owned(),
            measured: bursts.map(|burst| fixed(burst, 3)).join(" and ") + " packets",
            holds: bursts.into_iter().all(|burst| burst <= 1.0),
        },
        Check {
            claim: "packets are as long on the link as derived, with either formula for PTM".to_owned(),
            measured: format!("{} of {} lengths differ", wrong, VECTORS.len()),
            holds: wrong == 0,
        },
    ]
}

fn picture(lines: &[Line]) -> Vec<Chart> {
    let panel = |title: &str, y: &str, value: fn(&Line) -> f64| {
        let chart = Chart::new(title).x("rate (kbit/s)").y(y).log_x().height(250);
        FRAMINGS.into_iter().fold(chart, |chart, (name, _)| {
            let of = lines.iter().filter(|line| line.framing == name);
            let points = of.map(|line| (line.bps as f64 / 1e3, value(line)));
            chart.series(name, Mark::Dots, points)
        })
    };
    Vec::from([
        panel("Error of the rate after 60 s, back to back", "ppm", |line| {
            line.steady[1].error * 1e6
        }),
        panel("Beyond the rate after pauses", "longest packets", |line| line.burst),
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

impl Line {
    fn steady_burst(&self) -> f64 {
        self.steady.map(|steady| steady.burst).into_iter().fold(0.0, f64::max)
    }
}

fn measure(
    bps: u64,
    (name, framing): (&'static str, Framing),
    after: [Nanos; 2],
    seeds: u64,
) -> Line {
    let rate = Rate::bits_per_second(bps).expect("a rate that lines have");
    let link = Overhead::new(framing, 0, 0).expect("in range");
    let [short, long] = after;
    let worst = |span, seeds| {
        let runs = (1..=seeds).map(|seed| back_to_back(rate, bps, link, span, seed));
        runs.reduce(Steady::worse).expect("there are seeds")
    };
    let steady = [worst(short, seeds), worst(long, if bps <= SLOW { seeds } else { 1 })];
    let bursts = (1..=seeds).map(|seed| after_pauses(rate, bps, link, seed));
    Line { bps, framing: name, steady, burst: bursts.fold(0.0, f64::max) }
}

/// Returns random packet lengths.
fn lengths(seed: u64) -> impl FnMut() -> u32 {
    let mut draws = Streams::new(seed).stream("lengths");
    move || 64 + draws.below(u64::from(MTU) - 63) as u32
}

fn back_to_back(rate: Rate, bps: u64, link: Overhead, span: Nanos, seed: u64) -> Steady {
    let (mut line, mut len) = (Shaper::new(rate), lengths(seed));
    let (mut now, mut bytes, mut packets) = (Nanos::ZERO, 0_u64, 0);
    let mut burst = Burst::new(bps);
    while packets < PACKETS || line.due() < span {
        now = now.max(line.due());
        let wire_len = link.wire_len(len());
        line.charge(now, wire_len);
        burst.leaves(now, wire_len);
        bytes += u64::from(wire_len);
        packets += 1;
    }
    let exact = bytes as f64 * 8e9 / bps as f64;
    let error = (line.due().0 as f64 / exact - 1.0).abs();
    Steady { packets, error, burst: burst.packets(link.wire_len(MTU)) }
}

/// Returns the burst as in [`Steady::burst`], with eight packets at once after each pause.
fn after_pauses(rate: Rate, bps: u64, link: Overhead, seed: u64) -> f64 {
    let mut pauses = Streams::new(seed).stream("pauses");
    let (mut line, mut len) = (Shaper::new(rate), lengths(seed));
    let (mut now, mut burst) = (Nanos::ZERO, Burst::new(bps));
    for _ in 0..200 {
        now = now.max(line.due()).plus(Nanos(pauses.below(10 * rate.time_of(MTU).0)));
        line.wake(now);
        for _ in 0..8 {
            now = now.max(line.due());
            let wire_len = link.wire_len(len());
            line.charge(now, wire_len);
            burst.leaves(now, wire_len);
        }
    }
    burst.packets(link.wire_len(MTU))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::effort::effort;

    /// Goal: the checks of the complete run also pass for a short one. Method: a tenth of a second
    /// and a second.
    #[test]
    fn every_check_holds_of_a_second() {
        let after = [Nanos::from_millis(100), Nanos::from_secs(1)];
        let report = run_for(after, effort(1, 2), &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
