//! The first part of [`age_based`](super::age_based): flows without round-trip times, compared with
//! queueing theory.

use super::{Check, Report, Row, Study};
use crate::flow_level::{self, Outcome, Sharing};
use crate::measure::estimate::Estimate;
use crate::plot::{Column, TextTable, fixed, percent};

/// Number of flows in a run.
const FLOWS: u32 = 400_000;

const SHARINGS: [Sharing; 8] = [
    Sharing::Equal,
    Sharing::TwoLevels(3),
    Sharing::TwoLevels(5),
    Sharing::TwoLevels(10),
    Sharing::TwoLevels(20),
    Sharing::TwoLevels(50),
    Sharing::Least,
    Sharing::Learned,
];

/// Loads of the reference table, and the relative excess of its sample's mean size over the
/// distribution's. Under processor sharing the table has 6.08, 15.8 and 33.8 where `E[S]/(1 − ρ)`
/// is 5.94, 14.85 and 29.70. With sizes 1.2 % longer, and a load higher by as much, the formula
/// gives 6.08, 15.8 and 33.7.
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];
const EXCESS: f64 = 0.012;

/// Maximum relative difference of a mean from the value it is compared with.
const NEAR: f64 = 0.05;

/// Mean times of a flow-level simulation of one sample of 400,000 flows, for the first seven of
/// [`SHARINGS`], by load.
const REFERENCE: [[f64; 7]; 3] = [
    [6.08, 5.32, 5.29, 5.36, 5.47, 5.65, 5.19],
    [15.8, 11.0, 10.6, 10.6, 11.1, 12.1, 9.62],
    [33.8, 19.7, 18.2, 17.4, 17.9, 20.0, 14.4],
];

pub(super) struct Flows;

/// A scheduler at a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    sharing: Sharing,
    /// Index in [`LOADS`].
    load: usize,
    /// Mean time of the reference table if the load is that of the table's sample.
    reference: Option<f64>,
}

type Measured = Row<Cell, Outcome>;

impl Study for Flows {
    type Cell = Cell;
    type Run = Outcome;

    /// Returns the cells of both tables, each in order of loads.
    fn cells(&self) -> Vec<Cell> {
        let exact = |load| SHARINGS.map(|sharing| Cell { sharing, load, reference: None });
        let referred = |load: usize| {
            let pairs = SHARINGS.into_iter().zip(REFERENCE[load]);
            pairs.map(move |(sharing, mean)| Cell { sharing, load, reference: Some(mean) })
        };
        (0..LOADS.len()).flat_map(exact).chain((0..LOADS.len()).flat_map(referred)).collect()
    }

    fn run(&self, cell: &Cell, seed: u64) -> Outcome {
        let excess = if cell.reference.is_some() { 1.0 + EXCESS } else { 1.0 };
        flow_level::run(cell.sharing, LOADS[cell.load] * excess, FLOWS, seed)
    }

    fn report(&self, rows: &[Measured], seeds: u32) -> Report {
        let (exact, referred) = rows.split_at(LOADS.len() * SHARINGS.len());
        Report::new(heading(seeds) + "\n")
            .table("flows", &table(exact))
            .with_text(&format!(
                "
Beside one sample of 400,000 flows whose sizes are {} % above their mean, at the loads that this sample carries:
times are longer by as much
",
                percent(EXCESS, 1)
            ))
            .table("reference", &beside(referred))
            .checks(checks(exact, referred))
    }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
Flows by age: one line, Poisson arrivals, bounded Pareto sizes (index 1.5, 1 to 10,000 units)
A flow's bytes are all there when it begins; packets of a tenth of a unit, quantum one packet
PS is DRR; 2LPS(a) and LAS are AgeDrr with two levels and with 16 that end at 1, 2, 4, … units
Learned: two levels, the threshold where one flow in 16 arrives, from 100 units on
{seeds} seeds of {FLOWS} flows, a size of each {FLOWS}th part of the distribution, in random order; a tenth for warming up\n\
Means over the seeds and half of their 95 % confidence intervals
Times are in those of a unit on the line; long flows have more than 100 units
"
    )
}

fn name(sharing: Sharing) -> String {
    match sharing {
        Sharing::Equal => "PS".to_owned(),
        Sharing::TwoLevels(threshold) => format!("2LPS({threshold})"),
        Sharing::Least => "LAS".to_owned(),
        Sharing::Learned => "learned".to_owned(),
    }
}

fn with_margin(of: Estimate, decimals: usize) -> String {
    let mean = fixed(of.mean, decimals);
    of.margin.map_or(mean.clone(), |margin| format!("{mean} ±{}", fixed(margin, decimals)))
}

/// Returns the mean time of a scheduler at a load.
fn mean(exact: &[Measured], sharing: Sharing, load: usize) -> f64 {
    find(exact, sharing, load).mean_of(|run| run.mean)
}

fn find(exact: &[Measured], sharing: Sharing, load: usize) -> &Measured {
    let is_it = |row: &&Measured| row.sharing == sharing && row.load == load;
    exact.iter().find(is_it).expect("every cell was measured")
}

/// Returns the mean time predicted by theory.
fn theory(sharing: Sharing, load: f64) -> Option<f64> {
    match sharing {
        Sharing::Equal => Some(flow_level::equal(load)),
        Sharing::Least => Some(flow_level::least(load)),
        Sharing::TwoLevels(_) | Sharing::Learned => None,
    }
}

fn table(exact: &[Measured]) -> TextTable<8> {
    let theory = |row: &Measured| theory(row.sharing, LOADS[row.load]);
    let equal = |row: &Measured| mean(exact, Sharing::Equal, row.load);
    let threshold = |row: &Measured| match row.sharing {
        Sharing::Equal => "–".to_owned(),
        _ => fixed(row.mean_of(|run| run.threshold), 1),
    };
    let estimate = |row: &Measured, of: fn(&Outcome) -> f64| with_margin(row.estimate_of(of), 2);
    TextTable::of(
        exact,
        [
            (Column::Right("load"), &|row| fixed(LOADS[row.load], 1)),
            (Column::Left("sharing"), &|row| name(row.sharing)),
            (Column::Right("mean time"), &|row| estimate(row, |run| run.mean)),
            (Column::Right("theory"), &|row| fixed(theory(row).unwrap_or(f64::NAN), 2)),
            (Column::Right("of PS, %"), &|row| {
                percent(row.mean_of(|run| run.mean) / equal(row), 1)
            }),
            (Column::Right("slowdown"), &|row| estimate(row, |run| run.slowdown)),
            (Column::Right("of long flows"), &|row| estimate(row, |run| run.of_long)),
            (Column::Right("threshold"), &threshold),
        ],
    )
}

/// Returns the comparison with the reference table, at the loads of its sample.
fn beside(referred: &[Measured]) -> TextTable<5> {
    TextTable::of(
        referred,
        [
            (Column::Right("load"), &|row| fixed(LOADS[row.load] * (1.0 + EXCESS), 3)),
            (Column::Left("sharing"), &|row| name(row.sharing)),
            (Column::Right("mean time"), &|row| with_margin(of_reference(row), 2)),
            (Column::Right("reference"), &|row| fixed(row.reference.unwrap_or(f64::NAN), 2)),
            (Column::Right("off by, %"), &|row| percent(off_reference(row), 1)),
        ],
    )
}

/// Returns a mean scaled to the sizes of the reference sample.
fn of_reference(row: &Measured) -> Estimate {
    let longer = 1.0 + EXCESS;
    let Estimate { mean, margin } = row.estimate_of(|run| run.mean);
    Estimate { mean: mean * longer, margin: margin.map(|margin| margin * longer) }
}

fn off_reference(row: &Measured) -> f64 {
    of_reference(row).mean / row.reference.unwrap_or(f64::NAN) - 1.0
}

fn checks(exact: &[Measured], referred: &[Measured]) -> Vec<Check> {
    let off_theory = |sharing| {
        let off = LOADS.iter().enumerate().map(|(at, &load)| {
            let theory = theory(sharing, load).unwrap_or(f64::NAN);
            (mean(exact, sharing, at) / theory - 1.0).abs()
        });
        off.fold(0.0, f64::max)
    };
    let (of_equal, of_least) = (off_theory(Sharing::Equal), off_theory(Sharing::Least));
    let off = referred.iter().map(|row| off_reference(row).abs()).fold(0.0, f64::max);
    let part = |sharing, at| mean(exact, sharing, at) / mean(exact, Sharing::Equal, at);
    let best = |at| {
        let thresholds = SHARINGS.into_iter().filter(|s| matches!(s, Sharing::TwoLevels(_)));
        thresholds.map(|sharing| part(sharing, at)).fold(f64::INFINITY, f64::min)
    };
    let learned = [0, 1, 2].map(|at| part(Sharing::Learned, at) / best(at) - 1.0);
    let learned = learned.into_iter().fold(0.0, f64::max);
    let long = [0, 1, 2].map(|at| {
        let of = |sharing| find(exact, sharing, at).mean_of(|run| run.of_long);
        of(Sharing::TwoLevels(5)) / of(Sharing::Equal) - 1.0
    });
    let longest = long.into_iter().fold(f64::MIN, f64::max);
    vec![
        Check::new(
            format!(
                "mean times under processor sharing and least attained service are within {} % of \
                 theory at every load",
                percent(NEAR, 0)
            ),
            format!("off by {} % and {} %", percent(of_equal, 1), percent(of_least, 1)),
            of_equal <= NEAR && of_least <= NEAR,
        ),
        Check::new(
            format!(
                "all 21 mean times are within {} % of the table of reference, at the loads that its \
                 sample carries",
                percent(NEAR, 0)
            ),
            format!("off by {} % at most", percent(off, 1)),
            off <= NEAR,
        ),
        Check::new(
            "two levels take at least 10, 25 and 40 % off the mean time at loads of 0.5, 0.8 and 0.9",
            format!(
                "{} %, {} % and {} %",
                percent(1.0 - best(0), 1),
                percent(1.0 - best(1), 1),
                percent(1.0 - best(2), 1)
            ),
            best(0) <= 0.9 && best(1) <= 0.75 && best(2) <= 0.6,
        ),
        Check::new(
            "a learned threshold costs at most 5 % over the best of 3, 5, 10, 20 and 50 units",
            format!("{} % at most", percent(learned, 1)),
            learned <= 0.05,
        ),
        Check::new(
            "with two levels from 5 units on, flows of more than 100 units take at most 10 % longer",
            format!("{} % at most", percent(longest, 1)),
            longest <= 0.1,
        ),
    ]
}
