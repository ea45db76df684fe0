//! CAKE Fig. 6: what a filter of acknowledgements gives on a line that is thirty times slower upwards.
//!
//! The scenario is [`crate::experiments::cake_fig6::scenario`].

pub mod scenario;

use std::thread;

use freeboard::sched_core::Nanos;
use freeboard::{AckFilter, AqmKind};

use super::{Experiment, Picture, Report, Sentence};
use crate::measure::estimate::mean;
use crate::plot::{self, Chart, Column, Mark, fixed};
use crate::progress::Progress;
use scenario::{Outcome, Setup};

/// What `sim reproduce cake-fig6` runs.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig6",
    about: "CAKE Fig. 6: downloads and uploads on 30/1 Mbit/s with a filter of acknowledgements",
    run,
};

const MEASURED: Nanos = Nanos::from_secs(60);
/// Mbit/s that the paper's figure spans, with a tenth on either side: downloads and uploads.
const RANGES: [(f64, f64); 2] = [(24.5 * 0.9, 27.5 * 1.1), (0.45 * 0.9, 0.7 * 1.1)];

/// Mbit/s of downloads and uploads in each mode behind Linux 6.1's CAKE, with its CUBIC and the same probe: means of three
/// runs of 60 s, from 10 s on.
const LINUX: [[f64; 2]; 3] = [[22.474, 0.456], [27.410, 0.565], [26.929, 0.647]];
/// How far downloads with the filter, and uploads in every mode, may be from those.
const NEAR: [f64; 2] = [0.03, 0.15];
/// The first is CAKE's.
const AQMS: [AqmKind; 2] = [AqmKind::Cobalt, AqmKind::CoDel];
const SHORT: &str = "acknowledgements do not react to drops, and COBALT keeps the queues of such flows short without the filter";
const EARLY: &str = "the conservative mode gives more than the paper's 10 %, as in Linux 6.1: 24 %, and 42 % the aggressive one";

/// All runs with one AQM and one mode.
struct Measured {
    aqm: AqmKind,
    filter: AckFilter,
    outcomes: Vec<Outcome>,
}

impl Measured {
    fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.outcomes.iter().map(value).collect::<Vec<_>>()).expect("there are runs")
    }

    fn down(&self) -> f64 {
        self.mean(|outcome| megabits(outcome.bytes[1]))
    }

    fn up(&self) -> f64 {
        self.mean(|outcome| megabits(outcome.bytes[0]))
    }

    /// What a probe waits both ways, in milliseconds.
    fn latency(&self) -> f64 {
        self.mean(|outcome| outcome.added.0 as f64 / 1e6)
    }

    /// Acknowledgements of downloads a second that reach the servers, and that are dropped by the filter.
    fn acks(&self, count: impl Fn(&Outcome) -> u64) -> f64 {
        self.mean(|outcome| count(outcome) as f64 / (outcome.lasted.0 as f64 / 1e9))
    }
}

fn megabits(bytes: u64) -> f64 {
    bytes as f64 * 8.0 / (MEASURED.0 as f64 / 1_000.0)
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let variants = AQMS.into_iter().flat_map(|aqm| AckFilter::ALL.map(|filter| (aqm, filter)));
    progress.expect(6 * u64::from(seeds));
    let measured: Vec<Measured> = thread::scope(|scope| {
        let begin = |(aqm, filter)| scope.spawn(move || measure(aqm, filter, seeds, progress));
        let runs: Vec<_> = variants.map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(seeds), table(&measured));
    let picture = Picture { file: "cake-fig6.svg".to_owned(), svg: picture(&measured) };
    Report { text, pictures: vec![picture], sentences: sentences(&measured) }
}

fn measure(aqm: AqmKind, filter: AckFilter, seeds: u32, progress: &Progress) -> Measured {
    let one = |seed| {
        let outcome = scenario::run(&Setup { aqm, filter, measured: MEASURED, seed });
        progress.done();
        outcome
    };
    Measured { aqm, filter, outcomes: (1..=u64::from(seeds)).map(one).collect() }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 6: four uploads and four downloads of CUBIC on 30/1 Mbit/s, 50 ms there and back, with and without the filter
SmartQueue both ways, with COBALT as CAKE, or with CoDel; packets as Ethernet frames, one host at home
goodput in Mbit/s of payload; added: what a probe of 160 bytes waits, up and down together, mean
an acknowledgement for each second segment; acknowledgements a second that left and that were filtered
{} s after a warm-up of 10 s, {seeds} seeds
",
        MEASURED.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = plot::TextTable::new([
        Column::Left("queues"),
        Column::Left("filter"),
        Column::Right("down"),
        Column::Right("gain %"),
        Column::Right("up"),
        Column::Right("gain %"),
        Column::Right("added ms"),
        Column::Right("acks/s"),
        Column::Right("filtered/s"),
    ]);
    for of in measured {
        table.row([
            &name(of.aqm),
            &of.filter.name(),
            &fixed(of.down(), 2),
            &fixed(gain(measured, of, Measured::down), 1),
            &fixed(of.up(), 3),
            &fixed(gain(measured, of, Measured::up), 1),
            &fixed(of.latency(), 2),
            &fixed(of.acks(|outcome| outcome.acks), 0),
            &fixed(of.acks(|outcome| outcome.filtered), 0),
        ]);
    }
    for (filter, linux) in AckFilter::ALL.into_iter().zip(LINUX) {
        let gains = [0, 1].map(|way| fixed((linux[way] / LINUX[0][way] - 1.0) * 100.0, 1));
        let [down, up] = [fixed(linux[0], 2), fixed(linux[1], 3)];
        let [of_down, of_up] = &gains;
        table.row([&"Linux 6.1 CAKE", &filter.name(), &down, of_down, &up, of_up, &"", &"", &""]);
    }
    table.to_string()
}

const fn name(aqm: AqmKind) -> &'static str {
    match aqm {
        AqmKind::Cobalt => "COBALT",
        _ => "CoDel",
    }
}

/// By how much of a hundred this mode is above none, with the same AQM.
fn gain(measured: &[Measured], of: &Measured, value: impl Fn(&Measured) -> f64) -> f64 {
    let off = measured.iter().find(|off| off.aqm == of.aqm && off.filter == AckFilter::Off);
    (value(of) / off.map_or(f64::NAN, &value) - 1.0) * 100.0
}

fn sentences(measured: &[Measured]) -> Vec<Sentence> {
    let [off, conservative, aggressive, _, with_codel @ ..] = measured else {
        unreachable!("two AQMs and three modes")
    };
    let gains = |modes: [&Measured; 2], value: fn(&Measured) -> f64| {
        modes.map(|of| gain(measured, of, value))
    };
    let down = gains([conservative, aggressive], Measured::down);
    let up = gains([conservative, aggressive], Measured::up);
    let codel = gains([&with_codel[0], &with_codel[1]], Measured::down);
    let both = |gains: [f64; 2]| gains.map(|gain| fixed(gain, 1)).join(" % and ") + " %";
    let all_above = |gains: [f64; 2], least: f64| gains.into_iter().all(|gain| gain >= least);
    let mut sentences = vec![
        Sentence::differs(
            "both modes raise the downloads by 8 % or more",
            SHORT,
            both(down),
            all_above(down, 8.0),
        ),
        Sentence {
            claim: "both modes raise the downloads by 3 % or more".to_owned(),
            measured: both(down),
            holds: all_above(down, 3.0),
        },
        Sentence {
            claim: "with CoDel for COBALT both modes raise the downloads by 8 % or more".to_owned(),
            measured: both(codel),
            holds: all_above(codel, 8.0),
        },
        Sentence {
            claim: "the conservative mode raises the uploads by 4 % or more, the aggressive one by half as much again"
                .to_owned(),
            measured: both(up),
            holds: up[0] >= 4.0 && up[1] >= 1.5 * up[0],
        },
        Sentence::differs(
            "the aggressive mode raises the uploads by twice as much as the conservative one",
            EARLY,
            both(up),
            up[1] >= 2.0 * up[0],
        ),
    ];
    let cake = [off, conservative, aggressive];
    let values = [("downloads", Measured::down as fn(&Measured) -> f64), ("uploads", Measured::up)];
    for ((name, value), (from, to)) in values.into_iter().zip(RANGES) {
        let goodputs = cake.map(value);
        sentences.push(Sentence {
            claim: format!("{name} are within {} to {} Mbit/s", fixed(from, 3), fixed(to, 3)),
            measured: goodputs
                .iter()
                .map(|&goodput| fixed(goodput, 3))
                .collect::<Vec<_>>()
                .join(" "),
            holds: goodputs.iter().all(|goodput| (from..to).contains(goodput)),
        });
    }
    let beside = |way: usize, value: fn(&Measured) -> f64| {
        let each = cake.into_iter().zip(LINUX);
        each.map(move |(of, linux)| value(of) / linux[way] - 1.0).collect::<Vec<f64>>()
    };
    let (downs, ups) = (beside(0, Measured::down), beside(1, Measured::up));
    let off_by = |parts: &[f64]| {
        parts.iter().map(|part| fixed(part * 100.0, 1) + " %").collect::<Vec<_>>().join(" ")
    };
    sentences.push(Sentence {
        claim: format!(
            "downloads with the filter are within {} % of those behind Linux 6.1's CAKE, uploads in all modes within {} %",
            fixed(NEAR[0] * 100.0, 0),
            fixed(NEAR[1] * 100.0, 0)
        ),
        measured: format!("{}; {}", off_by(&downs[1..]), off_by(&ups)),
        holds: downs[1..].iter().all(|part| part.abs() <= NEAR[0])
            && ups.iter().all(|part| part.abs() <= NEAR[1]),
    });
    let rises = [conservative, aggressive].map(|of| of.latency() - measured[0].latency());
    sentences.push(Sentence {
        claim: "the filter raises what a probe waits by 8 ms at most".to_owned(),
        measured: rises.map(|rise| fixed(rise, 2)).join(" ms and ") + " ms",
        holds: rises.into_iter().all(|rise| rise <= 8.0),
    });
    let outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    sentences
        .push(Sentence::accounted_for("runs", outcomes.map(|outcome| outcome.recount.is_ok())));
    sentences
}

fn picture(measured: &[Measured]) -> String {
    let panel = |title: &str, value: fn(&Outcome) -> f64| {
        let chart = Chart::new(title).y("Mbit/s").height(220);
        let cake = measured.iter().filter(|of| of.aqm == AqmKind::Cobalt);
        let chart = cake.zip(1..).fold(chart, |chart, (of, place)| {
            let points = of.outcomes.iter().map(|outcome| (f64::from(place), value(outcome)));
            chart.series(of.filter.name(), Mark::Dots, points)
        });
        chart.x("1 off, 2 conservative, 3 aggressive; a dot a run")
    };
    Chart::stacked(&[
        panel("Downloads", |outcome| megabits(outcome.bytes[1])),
        panel("Uploads", |outcome| megabits(outcome.bytes[0])),
    ])
}
