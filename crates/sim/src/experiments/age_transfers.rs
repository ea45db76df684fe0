//! The second part of [`age_based`](super::age_based): transfers of model TCP over one link.

use super::{Check, Report, Study};
use crate::measure::estimate::Estimate;
use crate::plot::{Column, TextTable, fixed, percent};
use crate::tcp::transfers::{self, Form, Outcome, QueueAqm, ROOM, Setup};

/// Transfers of a run; the first tenth is not counted.
const TRANSFERS: u32 = 10_000;
/// Threshold in bytes: the mean size.
const YOUNG: u32 = 100_000;
/// Floor of the old level, if it has one: one byte in this many.
const FLOOR: u32 = 8;
const BANDS: Form = Form::Bands(YOUNG, None);
const LEVELS: Form = Form::Levels(YOUNG, None);

/// Queues compared in the first table. The learned threshold and 16 levels are compared with CoDel
/// only.
const FORMS: [Form; 6] = [
    Form::One,
    BANDS,
    Form::Bands(YOUNG, Some(FLOOR)),
    Form::Fair,
    LEVELS,
    Form::Levels(YOUNG, Some(FLOOR)),
];
const LINES: [u32; 2] = [1, 10];
const LOADS: [f64; 3] = [0.5, 0.7, 0.9];
const AQMS: [QueueAqm; 2] = [QueueAqm::CoDel, QueueAqm::Pie];
/// Baseline of the second table, which varies one parameter at a time.
const BASELINE: Setup = Setup {
    aqm: QueueAqm::CoDel,
    form: Form::One,
    gigabits: 1,
    load: 0.9,
    round_trip: 10,
    shape: 1.3,
    room: ROOM,
};

/// Returns the setups of the first table.
fn first() -> impl Iterator<Item = Setup> {
    let lines = LINES.into_iter().flat_map(|gigabits| LOADS.map(|load| (gigabits, load)));
    lines.flat_map(|(gigabits, load)| {
        let both = AQMS.into_iter().flat_map(|aqm| FORMS.map(|form| (aqm, form)));
        let more = [Form::Learned, Form::Least(15_000)].map(|form| (QueueAqm::CoDel, form));
        both.chain(more).map(move |(aqm, form)| Setup { aqm, form, gigabits, load, ..BASELINE })
    })
}

/// Returns the setups of the second table, with the name of the varied parameter and its value.
fn second() -> Vec<(String, Setup)> {
    let mut all = Vec::new();
    let mut vary = |name: &str, of: Setup, forms: &[Form]| {
        for aqm in AQMS {
            all.extend(forms.iter().map(|&form| (name.to_owned(), Setup { aqm, form, ..of })));
        }
    };
    let forms = [Form::One, BANDS, Form::Fair, LEVELS];
    vary("load 0.8", Setup { load: 0.8, ..BASELINE }, &forms);
    for round_trip in [1, 40] {
        vary(&format!("round trip {round_trip} ms"), Setup { round_trip, ..BASELINE }, &forms);
    }
    for shape in [1.1, 1.5] {
        vary(&format!("Pareto index {shape}"), Setup { shape, ..BASELINE }, &forms);
    }
    for gigabits in LINES {
        let setup = Setup { room: 1_000, gigabits, ..BASELINE };
        vary(&format!("1,000 packets, {gigabits} Gbit/s"), setup, &forms[..2]);
    }
    for young in [10_000, 30_000, 300_000, 1_000_000] {
        let forms = [Form::Bands(young, None), Form::Levels(young, None)];
        vary(&format!("threshold {} kB", young / 1_000), BASELINE, &forms);
    }
    all
}

pub(super) struct Transfers;

type Row = super::Row<Setup, Outcome>;

impl Study for Transfers {
    type Cell = Setup;
    type Run = Outcome;

    fn cells(&self) -> Vec<Setup> {
        first().chain(second().into_iter().map(|varied| varied.1)).collect()
    }

    fn run(&self, setup: &Setup, seed: u64) -> Outcome {
        transfers::run(setup, seed, TRANSFERS)
    }

    fn report(&self, rows: &[Row], seeds: u32) -> Report {
        let line = |setup: &Setup| format!("{} Gbit/s, {}", setup.gigabits, fixed(setup.load, 1));
        let usual: Vec<_> = first().map(|setup| (line(&setup), setup)).collect();
        let rows = Measured(rows);
        Report::new(heading(seeds))
            .table("transfers", &table("line, load", rows, &usual))
            .with_text("\nThe same on 1 Gbit/s at a load of 0.9, with one thing varied\n")
            .table("varied", &table("varied", rows, &second()))
            .checks(checks(rows))
    }
}

/// Returns the setup without levels that this one is compared with.
fn one_level(setup: Setup) -> Setup {
    let form = match setup.form {
        Form::One | Form::Bands(..) => Form::One,
        Form::Fair | Form::Levels(..) | Form::Learned | Form::Least(_) => Form::Fair,
    };
    Setup { form, ..setup }
}

/// All rows of both tables.
#[derive(Clone, Copy)]
struct Measured<'a>(&'a [Row]);

impl Measured<'_> {
    fn find(&self, setup: Setup) -> &Row {
        self.0.iter().find(|row| row.cell == setup).expect("every row was measured")
    }

    /// Returns the relative increase of transfer times over those of `other`, seed by seed.
    fn over(&self, setup: Setup, other: Setup, of: impl Fn(&Outcome) -> f64) -> Estimate {
        let pairs = self.find(setup).runs.iter().zip(&self.find(other).runs);
        let values: Vec<f64> = pairs.map(|(this, other)| of(this) / of(other) - 1.0).collect();
        Estimate::of(&values).expect("there are runs")
    }

    /// Returns the increase over the setup with one level.
    fn beside(&self, setup: Setup, of: impl Fn(&Outcome) -> f64) -> Estimate {
        self.over(setup, one_level(setup), of)
    }
}

fn name(setup: Setup) -> String {
    let aqm = match setup.aqm {
        QueueAqm::CoDel => "CoDel",
        QueueAqm::Pie => "PIE",
    };
    let floor =
        |floor: Option<u32>| floor.map_or(String::new(), |one_in| format!(", floor 1/{one_in}"));
    match setup.form {
        Form::One => aqm.to_owned(),
        Form::Bands(_, one_in) => format!("  two bands{}", floor(one_in)),
        Form::Fair => format!("FQ-{aqm}"),
        Form::Levels(_, one_in) => format!("  two levels{}", floor(one_in)),
        Form::Learned => "  two levels, learned".to_owned(),
        Form::Least(first) => format!("  16 levels from {} kB", first / 1_000),
    }
}

fn with_margin(of: Estimate, show: impl Fn(f64) -> String) -> String {
    of.margin.map_or(show(of.mean), |margin| format!("{} ±{}", show(of.mean), show(margin)))
}

const fn mean(outcome: &Outcome) -> f64 {
    outcome.all.time / outcome.all.count
}

fn long(outcome: &Outcome) -> f64 {
    outcome.classes[2].mean()
}

const fn fairness(outcome: &Outcome) -> f64 {
    outcome.fairness
}

const fn resent(outcome: &Outcome) -> f64 {
    outcome.resent
}

/// Creates a table of these setups, each with the text of its first column.
fn table(first: &'static str, rows: Measured<'_>, setups: &[(String, Setup)]) -> TextTable<11> {
    let millis = |setup: Setup, of: &dyn Fn(&Outcome) -> f64| {
        with_margin(rows.find(setup).estimate_of(of), |time| fixed(time * 1e3, 1))
    };
    let class = |setup, class: usize| millis(setup, &|run| run.classes[class].mean());
    let beside = |setup, of: fn(&Outcome) -> f64| match one_level(setup) == setup {
        true => "–".to_owned(),
        false => with_margin(rows.beside(setup, of), |part| percent(part, 1)),
    };
    let jain = |setup| with_margin(rows.find(setup).estimate_of(fairness), |of| fixed(of, 2));
    let part = |setup, of: fn(&Outcome) -> f64| percent(rows.find(setup).mean_of(of), 2);
    TextTable::of(
        setups,
        [
            (Column::Left(first), &|row| row.0.clone()),
            (Column::Left("queue"), &|row| name(row.1)),
            (Column::Right("mean, ms"), &|row| millis(row.1, &mean)),
            (Column::Right("short"), &|row| class(row.1, 0)),
            (Column::Right("middling"), &|row| class(row.1, 1)),
            (Column::Right("long"), &|row| class(row.1, 2)),
            (Column::Right("mean beside, %"), &|row| beside(row.1, mean)),
            (Column::Right("long beside, %"), &|row| beside(row.1, long)),
            (Column::Right("Jain, long"), &|row| jain(row.1)),
            (Column::Right("lost, %"), &|row| part(row.1, |run| run.lost)),
            (Column::Right("resent, %"), &|row| part(row.1, resent)),
        ],
    )
}

fn heading(seeds: u32) -> String {
    format!(
        "\
Transfers by age: CUBIC with ten segments to begin with and SACK, round trip 10 ms, Poisson arrivals
Sizes: bounded Pareto, index 1.3, 26.4 kB to 26.4 MB, mean 100 kB; short up to 100 kB, long from 1 MB on
CoDel: 5 ms, 100 ms. PIE: 15 ms. Room for {ROOM} packets. Bands: two queues, filled by a counter of bytes of
each transfer. FQ: a queue for each transfer. Levels: FQ by age. A transfer is old from 100 kB on. Floor: one byte in 8 is old
{seeds} seeds of {TRANSFERS} transfers, the same for all queues; means over the seeds and half of their 95 % confidence
intervals. Beside: how much longer than with one level of the same AQM, CoDel, PIE, FQ-CoDel or FQ-PIE, seed by seed
"
    )
}

fn checks(rows: Measured<'_>) -> Vec<Check> {
    let of = |aqm, form, gigabits, load| Setup { aqm, form, gigabits, load, ..BASELINE };
    let both = |form, gigabits| {
        AQMS.into_iter().flat_map(move |aqm| LOADS.map(|load| of(aqm, form, gigabits, load)))
    };
    let everywhere = |form| LINES.into_iter().flat_map(move |line| both(form, line));
    let gain = |setup| -rows.beside(setup, mean).mean;
    let list = |parts: &[f64]| {
        let parts: Vec<String> = parts.iter().map(|&part| percent(part, 1)).collect();
        format!("{} %", parts.join(", "))
    };
    let bands: Vec<f64> = both(BANDS, 1).map(gain).collect();
    let fast: Vec<f64> = both(BANDS, 10).map(gain).collect();
    let fair: Vec<Estimate> = both(LEVELS, 1).map(|setup| rows.beside(setup, mean)).collect();
    let fast_fair = both(LEVELS, 10).map(|setup| rows.beside(setup, mean).mean);
    let (least, most) = ends(fast_fair);
    let longer = ends(everywhere(LEVELS).map(|setup| rows.beside(setup, long).mean)).1;
    let longer_in_bands = ends(everywhere(BANDS).map(|setup| rows.beside(setup, long).mean)).1;
    let jain = |setup| rows.find(setup).mean_of(fairness);
    let falls = |setup| jain(one_level(setup)) - jain(setup);
    let (unfair, unfair_bands) =
        (ends(everywhere(LEVELS).map(falls)).1, ends(everywhere(BANDS).map(falls)).1);
    let floored = |form| rows.find(of(QueueAqm::CoDel, form, 10, 0.5)).mean_of(resent);
    let floors = [Form::Bands(YOUNG, Some(FLOOR)), Form::Levels(YOUNG, Some(FLOOR))].map(floored);
    let floor = Form::Levels(YOUNG, Some(FLOOR));
    let costs = |setup| rows.over(Setup { form: floor, ..setup }, setup, mean).mean;
    let costs = ends(everywhere(LEVELS).map(costs)).1;
    let instead = |form| {
        let levels = everywhere(LEVELS).filter(|setup| setup.aqm == QueueAqm::CoDel);
        ends(levels.map(|setup| rows.over(Setup { form, ..setup }, setup, mean).mean))
    };
    let (learned, least_attained) = (instead(Form::Learned), instead(Form::Least(15_000)));
    let left: u32 = rows.0.iter().flat_map(|row| &row.runs).map(|outcome| outcome.left).sum();
    let check = |claim: &str, measured, holds| Check::new(claim, measured, holds);
    vec![
        check(
            "at 1 Gbit/s and every load, two bands take at least 3 % off the mean time behind CoDel and behind PIE",
            list(&bands),
            bands.iter().all(|&gain| gain >= 0.03),
        ),
        check(
            "at 10 Gbit/s they take at least 3 % off at a load of 0.9, and less at 0.5 and 0.7",
            list(&fast),
            fast.chunks(3).all(|gains| {
                gains[2] >= 0.03 && gains[..2].iter().all(|gain| (0.0..0.03).contains(gain))
            }),
        ),
        check(
            "at 1 Gbit/s two levels take time off FQ-CoDel and FQ-PIE at every load, the more the higher it is",
            list(&fair.iter().map(|part| -part.mean).collect::<Vec<_>>()),
            fair.iter().all(|part| part.mean + part.margin.unwrap_or(0.0) < 0.0)
                && fair
                    .chunks(3)
                    .all(|parts| parts.windows(2).all(|two| two[1].mean < two[0].mean)),
        ),
        check(
            "at 10 Gbit/s they take no time off that matters: 2 % at most, and none is added",
            format!("{} to {} % longer", percent(least, 1), percent(most, 1)),
            least >= -0.02 && most <= 0.0005,
        ),
        check(
            "long transfers take at most 5 % longer with two levels than with FQ",
            format!("{} % at most", percent(longer, 1)),
            longer <= 0.05,
        ),
        check(
            "with two bands they may take more than 5 % longer than with one queue",
            format!("up to {} %", percent(longer_in_bands, 1)),
            longer_in_bands > 0.05,
        ),
        check(
            "long transfers share as evenly: Jain's index falls by at most 0.02 with levels, and by at most 0.05 with bands",
            format!("by {} and {} at most", fixed(unfair, 3), fixed(unfair_bands, 3)),
            unfair <= 0.02 && unfair_bands <= 0.05,
        ),
        check(
            "a floor between bands lets packets of a transfer overtake each other, and a floor between levels does \
             not: at 10 Gbit/s and 0.5, where nothing is lost, segments are sent again with bands only",
            format!("{} % and {} %", percent(floors[0], 2), percent(floors[1], 2)),
            floors[0] > 0.001 && floors[1] < 0.0001,
        ),
        check(
            "a floor of one byte in 8 between levels adds at most 1 % to the mean time",
            format!("{} % at most", percent(costs, 1)),
            costs <= 0.01,
        ),
        check(
            "a learned threshold adds at most 1 % to the mean time with 100 kB",
            format!("{} to {} %", percent(learned.0, 1), percent(learned.1, 1)),
            learned.1 <= 0.01,
        ),
        check(
            "with 16 levels transfers take no longer on average than with two",
            format!(
                "{} to {} % longer",
                percent(least_attained.0, 1),
                percent(least_attained.1, 1)
            ),
            least_attained.1 <= 0.0005,
        ),
        check("every transfer ends", format!("{left} do not"), left == 0),
    ]
}

/// Returns the minimum and the maximum.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |(least, most): (f64, f64), value| (least.min(value), most.max(value));
    values.fold((f64::MAX, f64::MIN), widen)
}
