//! CAKE Algorithm 1: how exact the shaper is, from 8 kbit/s to 10 Gbit/s, and that idle time makes no burst.

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};

use super::{Experiment, Picture, Report, Sentence};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::progress::Progress;
use conformance::rng::Streams;

/// What `sim reproduce cake-alg1` runs.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-alg1",
    about: "CAKE Algorithm 1: exactness of the shaper, 8 kbit/s to 10 Gbit/s, and no burst after idle time",
    run,
};

const RATES: [u64; 8] =
    [8_000, 64_000, 1_000_000, 10_000_000, 100_000_000, 750_000_000, 1_000_000_000, 10_000_000_000];
const FRAMINGS: [(&str, Framing); 3] =
    [("none", Framing::None), ("ATM", Framing::Atm), ("PTM", Framing::Ptm)];
const MTU: u32 = 1_500;
/// The most packets of a run; a slow line sends for [`LASTS`], and 100 packets or more.
const PACKETS: u64 = 100_000;
const LASTS: Nanos = Nanos::from_secs(60);

/// One rate and one framing.
struct Line {
    bps: u64,
    framing: &'static str,
    packets: u64,
    /// How far the time of all packets is from what their bytes take, as a part of it.
    error: f64,
    /// The most bytes beyond rate × span that left in any span of arrivals after idle time, in longest packets.
    burst: f64,
}

fn run(seeds: u32, progress: &Progress) -> Report {
    progress.expect((RATES.len() * FRAMINGS.len()) as u64);
    let mut lines = Vec::new();
    for bps in RATES {
        for (name, framing) in FRAMINGS {
            let runs = (1..=u64::from(seeds)).map(|seed| measure(bps, name, framing, seed));
            let worst = |one: Line, other: Line| Line {
                packets: one.packets.min(other.packets),
                error: one.error.max(other.error),
                burst: one.burst.max(other.burst),
                ..one
            };
            lines.extend(runs.reduce(worst));
            progress.done();
        }
    }
    let mut table = TextTable::new([
        Column::Right("kbit/s"),
        Column::Left("framing"),
        Column::Right("packets"),
        Column::Right("error, ppm"),
        Column::Right("burst, packets"),
    ]);
    for line in &lines {
        let (rate, packets) = ((line.bps / 1_000).to_string(), line.packets.to_string());
        let (error, burst) = (fixed(line.error * 1e6, 3), fixed(line.burst, 3));
        table.row([&rate, &line.framing, &packets, &error, &burst]);
    }
    let text = format!(
        "\
CAKE Algorithm 1: packets of 64 to {MTU} bytes, {} s or {PACKETS} packets a run, {seeds} seeds, the worst of them
error: of the time that packets take back to back; burst: bytes beyond rate × span and 1 ns after pauses, in longest packets
\n{table}",
        LASTS.0 / 1_000_000_000
    );
    let error = lines.iter().map(|line| line.error).fold(0.0, f64::max);
    let burst = lines.iter().map(|line| line.burst).fold(0.0, f64::max);
    let fewest = lines.iter().map(|line| line.packets).min().unwrap_or(0);
    let sentences = vec![
        Sentence {
            claim: "the rate is right to 0.01 % at every rate and framing, of 100 packets or more"
                .to_owned(),
            measured: format!("at most {} ppm, {fewest} packets or more", fixed(error * 1e6, 3)),
            holds: error <= 1e-4 && fewest >= 100,
        },
        Sentence {
            claim:
                "in every span, after pauses too, at most rate × span, one longest packet and the bits of 1 ns leave"
                    .to_owned(),
            measured: format!("at most {} packets", fixed(burst, 3)),
            holds: burst <= 1.0,
        },
    ];
    let picture = Picture { file: "cake-alg1.svg".to_owned(), svg: picture(&lines) };
    Report { text, pictures: vec![picture], sentences }
}

fn picture(lines: &[Line]) -> String {
    let panel = |title: &str, y: &str, value: fn(&Line) -> f64| {
        let chart = Chart::new(title).x("rate (kbit/s)").y(y).log_x().height(250);
        FRAMINGS.into_iter().fold(chart, |chart, (name, _)| {
            let of = lines.iter().filter(|line| line.framing == name);
            let points = of.map(|line| (line.bps as f64 / 1e3, value(line)));
            chart.series(name, Mark::Dots, points)
        })
    };
    Chart::stacked(&[
        panel("Error of the rate, back to back", "ppm", |line| line.error * 1e6),
        panel("Beyond the rate after pauses", "longest packets", |line| line.burst),
    ])
}

fn measure(bps: u64, name: &'static str, framing: Framing, seed: u64) -> Line {
    let rate = Rate::bits_per_second(bps).expect("a rate that lines have");
    let link = Overhead::new(framing, 0, 0).expect("in range");
    let longest = u64::from(link.wire_len(MTU));
    let mut draws = Streams::new(seed).stream("lengths");
    let mut len = move || 64 + draws.below(u64::from(MTU) - 63) as u32;

    let mut line = Shaper::new(rate);
    let (mut now, mut bytes, mut packets) = (Nanos::ZERO, 0_u64, 0);
    while packets < 100 || now < LASTS && packets < PACKETS {
        now = now.max(line.due());
        let wire_len = link.wire_len(len());
        line.charge(now, wire_len);
        bytes += u64::from(wire_len);
        packets += 1;
    }
    let exact = bytes as f64 * 8e9 / bps as f64;
    let error = (line.due().0 as f64 / exact - 1.0).abs();

    // Eight packets come at once after each pause. Of all spans that end with a departure, the one with most beyond
    // the rate begins where what has left is least ahead: one pass finds it.
    let mut pauses = Streams::new(seed).stream("pauses");
    let mut line = Shaper::new(rate);
    let (mut now, mut bytes, mut least, mut burst) = (Nanos::ZERO, 0.0, f64::INFINITY, 0.0_f64);
    for _ in 0..200 {
        now = now.max(line.due()).plus(Nanos(pauses.below(10 * rate.time_of(MTU).0)));
        line.wake(now);
        for _ in 0..8 {
            now = now.max(line.due());
            let wire_len = link.wire_len(len());
            line.charge(now, wire_len);
            // Just before this packet, and just after it.
            let allowed = now.0 as f64 * bps as f64 / 8e9;
            least = least.min(bytes - allowed);
            bytes += f64::from(wire_len);
            burst = burst.max(bytes - allowed - least);
        }
    }
    // A packet leaves in a whole nanosecond, up to 1 ns after the exact instant, and the next one makes that up.
    let grain = bps as f64 / 8e9;
    Line { bps, framing: name, packets, error, burst: (burst - grain) / longest as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::effort::effort;

    #[test]
    fn every_sentence_holds_of_few_seeds() {
        let report = run(effort(1, 2), &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
