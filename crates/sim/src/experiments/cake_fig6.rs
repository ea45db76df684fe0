//! CAKE Fig. 6: what a filter of acknowledgements gives on a line that is thirty times slower upwards.
//!
//! The scenario is [`crate::experiments::cake_fig6::scenario`].

pub mod scenario;

use std::thread;

use freeboard::AckFilter;
use freeboard::sched_core::Nanos;

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

/// All runs with one mode.
struct Measured {
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
    progress.expect(3 * u64::from(seeds));
    let measured: Vec<Measured> = thread::scope(|scope| {
        let runs: Vec<_> = AckFilter::ALL
            .into_iter()
            .map(|filter| scope.spawn(move || measure(filter, seeds, progress)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(seeds), table(&measured));
    let picture = Picture { file: "cake-fig6.svg".to_owned(), svg: picture(&measured) };
    Report { text, pictures: vec![picture], sentences: sentences(&measured) }
}

fn measure(filter: AckFilter, seeds: u32, progress: &Progress) -> Measured {
    let one = |seed| {
        let outcome = scenario::run(&Setup { filter, measured: MEASURED, seed });
        progress.done();
        outcome
    };
    Measured { filter, outcomes: (1..=u64::from(seeds)).map(one).collect() }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 6: four uploads and four downloads of CUBIC on 30/1 Mbit/s, 50 ms there and back, with and without the filter
SmartQueue both ways with COBALT, as CAKE, 14 bytes a packet on the line, one host at home
goodput in Mbit/s of payload; added: what a probe of 160 bytes waits, up and down together, mean
an acknowledgement for each second segment; acknowledgements a second that left and that were filtered
{} s after a warm-up of 10 s, {seeds} seeds
",
        MEASURED.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = plot::TextTable::new([
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
    table.to_string()
}

/// By how much of a hundred this mode is above none.
fn gain(measured: &[Measured], of: &Measured, value: impl Fn(&Measured) -> f64) -> f64 {
    (value(of) / value(&measured[0]) - 1.0) * 100.0
}

fn sentences(measured: &[Measured]) -> Vec<Sentence> {
    let [_, conservative, aggressive] = measured else { unreachable!("three modes") };
    let down = [conservative, aggressive].map(|of| gain(measured, of, Measured::down));
    let up = [conservative, aggressive].map(|of| gain(measured, of, Measured::up));
    let both = |gains: [f64; 2]| gains.map(|gain| fixed(gain, 1)).join(" % and ") + " %";
    let mut sentences = vec![
        Sentence {
            claim: "both modes raise the downloads by 8 % or more".to_owned(),
            measured: both(down),
            holds: down.into_iter().all(|gain| gain >= 8.0),
        },
        Sentence {
            claim: "the conservative mode raises the uploads by 4 % or more, the aggressive one by twice as much"
                .to_owned(),
            measured: both(up),
            holds: up[0] >= 4.0 && up[1] >= 2.0 * up[0],
        },
    ];
    let values = [("downloads", Measured::down as fn(&Measured) -> f64), ("uploads", Measured::up)];
    for ((name, value), (from, to)) in values.into_iter().zip(RANGES) {
        let goodputs: Vec<f64> = measured.iter().map(value).collect();
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
    let rises = [conservative, aggressive].map(|of| of.latency() - measured[0].latency());
    sentences.push(Sentence {
        claim: "the filter raises what a probe waits by 8 ms at most".to_owned(),
        measured: rises.map(|rise| fixed(rise, 2)).join(" ms and ") + " ms",
        holds: rises.into_iter().all(|rise| rise <= 8.0),
    });
    let mut outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    sentences.push(Sentence {
        claim: "every packet is accounted for in every run".to_owned(),
        measured: format!("{} runs", outcomes.clone().count()),
        holds: outcomes.all(|outcome| outcome.recount.is_ok()),
    });
    sentences
}

fn picture(measured: &[Measured]) -> String {
    let panel = |title: &str, value: fn(&Outcome) -> f64| {
        let chart = Chart::new(title).y("Mbit/s").height(220);
        let chart = measured.iter().zip(1..).fold(chart, |chart, (of, place)| {
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
