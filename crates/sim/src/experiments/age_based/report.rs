//! Tables and checks of the flow-level model.

use super::flow_level::{self, Sharing};
use super::{Cell, EXCESS, FLOWS, LOADS, SHARINGS};
use crate::experiments::{Check, Report};
use crate::measure::estimate::Estimate;
use crate::plot::{Column, TextTable, fixed, percent};

/// Maximum relative difference of a mean from the value it is compared with.
const NEAR: f64 = 0.05;

/// Mean times of a flow-level simulation of one sample of 400,000 flows, for the first seven of
/// [`SHARINGS`], by load.
const REFERENCE: [[f64; 7]; 3] = [
    [6.08, 5.32, 5.29, 5.36, 5.47, 5.65, 5.19],
    [15.8, 11.0, 10.6, 10.6, 11.1, 12.1, 9.62],
    [33.8, 19.7, 18.2, 17.4, 17.9, 20.0, 14.4],
];

pub(super) fn report(measured: &[Cell], seeds: u32) -> Report {
    let text = format!("{}\n{}\n{}", heading(seeds), table(measured), beside(measured));
    Report::new(text).checks(checks(measured))
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

fn find(measured: &[Cell], sharing: Sharing, load: usize, carried: bool) -> &Cell {
    let is_it =
        |cell: &&Cell| cell.sharing == sharing && cell.load == load && cell.carried == carried;
    measured.iter().find(is_it).expect("every cell was measured")
}

/// Returns the mean time predicted by theory.
fn theory(sharing: Sharing, load: f64) -> Option<f64> {
    match sharing {
        Sharing::Equal => Some(flow_level::equal(load)),
        Sharing::Least => Some(flow_level::least(load)),
        Sharing::TwoLevels(_) | Sharing::Learned => None,
    }
}

fn table(measured: &[Cell]) -> String {
    let mut table = TextTable::new([
        Column::Right("load"),
        Column::Left("sharing"),
        Column::Right("mean time"),
        Column::Right("theory"),
        Column::Right("of PS, %"),
        Column::Right("slowdown"),
        Column::Right("of long flows"),
        Column::Right("threshold"),
    ]);
    for (at, &load) in LOADS.iter().enumerate() {
        let equal = find(measured, Sharing::Equal, at, false);
        for sharing in SHARINGS {
            let cell = find(measured, sharing, at, false);
            let theory = theory(sharing, load).map_or("–".to_owned(), |mean| fixed(mean, 2));
            let threshold = match sharing {
                Sharing::Equal => "–".to_owned(),
                _ => fixed(cell.threshold.mean, 1),
            };
            table.row([
                &fixed(load, 1),
                &name(sharing),
                &cell.mean,
                &theory,
                &percent(cell.mean.mean / equal.mean.mean, 1),
                &cell.slowdown,
                &cell.of_long,
                &threshold,
            ]);
        }
    }
    table.to_string()
}

/// Returns the comparison with the reference table, at the loads of its sample.
fn beside(measured: &[Cell]) -> String {
    let mut table = TextTable::new([
        Column::Right("load"),
        Column::Left("sharing"),
        Column::Right("mean time"),
        Column::Right("reference"),
        Column::Right("off by, %"),
    ]);
    for (at, sharing, cell, reference) in referred(measured) {
        table.row([
            &fixed(LOADS[at] * (1.0 + EXCESS), 3),
            &name(sharing),
            &of_reference(cell),
            &fixed(reference, 2),
            &percent(of_reference(cell).mean / reference - 1.0, 1),
        ]);
    }
    format!(
        "\
Beside one sample of 400,000 flows whose sizes are {} % above their mean, at the loads that this sample carries:
times are longer by as much
{table}",
        percent(EXCESS, 1)
    )
}

/// Returns a mean scaled to the sizes of the reference sample.
fn of_reference(cell: &Cell) -> Estimate {
    let longer = 1.0 + EXCESS;
    Estimate {
        mean: cell.mean.mean * longer,
        margin: cell.mean.margin.map(|margin| margin * longer),
    }
}

fn referred(measured: &[Cell]) -> impl Iterator<Item = (usize, Sharing, &Cell, f64)> {
    REFERENCE.iter().enumerate().flat_map(move |(at, row)| {
        SHARINGS.into_iter().zip(row).map(move |(sharing, &reference)| {
            (at, sharing, find(measured, sharing, at, true), reference)
        })
    })
}

fn checks(measured: &[Cell]) -> Vec<Check> {
    let off_theory = |sharing| {
        let off = LOADS.iter().enumerate().map(|(at, &load)| {
            let theory = theory(sharing, load).unwrap_or(f64::NAN);
            (find(measured, sharing, at, false).mean.mean / theory - 1.0).abs()
        });
        off.fold(0.0, f64::max)
    };
    let (of_equal, of_least) = (off_theory(Sharing::Equal), off_theory(Sharing::Least));
    let off = referred(measured)
        .map(|(_, _, cell, reference)| (of_reference(cell).mean / reference - 1.0).abs());
    let off = off.fold(0.0, f64::max);
    let part = |sharing, at| {
        let mean = |sharing| find(measured, sharing, at, false).mean.mean;
        mean(sharing) / mean(Sharing::Equal)
    };
    let best = |at| {
        let thresholds = SHARINGS.into_iter().filter(|s| matches!(s, Sharing::TwoLevels(_)));
        thresholds.map(|sharing| part(sharing, at)).fold(f64::INFINITY, f64::min)
    };
    let learned = [0, 1, 2].map(|at| part(Sharing::Learned, at) / best(at) - 1.0);
    let learned = learned.into_iter().fold(0.0, f64::max);
    let long = [0, 1, 2].map(|at| {
        let of = |sharing| find(measured, sharing, at, false).of_long.mean;
        of(Sharing::TwoLevels(5)) / of(Sharing::Equal) - 1.0
    });
    let longest = long.into_iter().fold(f64::MIN, f64::max);
    vec![
        Check {
            claim: format!(
                "mean times under processor sharing and least attained service are within {} % of \
                 theory at every load",
                percent(NEAR, 0)
            ),
            measured: format!("off by {} % and {} %", percent(of_equal, 1), percent(of_least, 1)),
            holds: of_equal <= NEAR && of_least <= NEAR,
        },
        Check {
            claim: format!(
                "all 21 mean times are within {} % of the table of reference, at the loads that its \
                 sample carries",
                percent(NEAR, 0)
            ),
            measured: format!("off by {} % at most", percent(off, 1)),
            holds: off <= NEAR,
        },
        Check {
            claim: "two levels take at least 10, 25 and 40 % off the mean time at loads of 0.5, 0.8 and 0.9"
                .to_owned(),
            measured: format!(
                "{} %, {} % and {} %",
                percent(1.0 - best(0), 1),
                percent(1.0 - best(1), 1),
                percent(1.0 - best(2), 1)
            ),
            holds: best(0) <= 0.9 && best(1) <= 0.75 && best(2) <= 0.6,
        },
        Check {
            claim: "a learned threshold costs at most 5 % over the best of 3, 5, 10, 20 and 50 units"
                .to_owned(),
            measured: format!("{} % at most", percent(learned, 1)),
            holds: learned <= 0.05,
        },
        Check {
            claim: "with two levels from 5 units on, flows of more than 100 units take at most 10 % longer"
                .to_owned(),
            measured: format!("{} % at most", percent(longest, 1)),
            holds: longest <= 0.1,
        },
    ]
}
