//! Table and chart of the home gateway.

use core::fmt::Display;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

use freeboard::sched_core::{DropReason, Nanos};
use freeboard::shaper::{Overhead, Rate};

use super::{BUFFER_BYTES, DELAY, DOWNLINK, Outcome, PAGES, Setup};
use crate::discipline::Discipline;
use crate::measure::goodput::jain;
use crate::plot::{Chart, Column, Mark, TextTable, decimal, fixed, millis, percent};

/// Returns the description of the run above the table.
#[must_use]
pub fn heading(setup: &Setup) -> String {
    let Setup { duration, seed, uplink, framing } = setup;
    let framing = match *framing {
        Overhead::RAW => "IP bytes".to_owned(),
        other => format!("{other:?}"),
    };
    format!(
        "home gateway: {} up ({framing}), {} down, {} ms one way, uplink buffer {} kB\n\
         eight uploads, pages one after the other, two G.711 calls, video of 400 kbit/s\n\
         {} s from second {} on, seed {seed}; calls and video as received on the Internet\n",
        rate(*uplink),
        rate(DOWNLINK),
        DELAY.0 / 1_000_000,
        BUFFER_BYTES / 1_000,
        duration.since(Setup::WARM_UP).0 / SECOND,
        Setup::WARM_UP.0 / SECOND,
    )
}

/// Number of columns of the table: a label, and one for each discipline.
const COLUMNS: usize = 1 + Discipline::ALL.len();

/// Returns the discipline of each column: those of [`Discipline::ALL`], but if plain SQF was not
/// run, its column is used for a variant that was.
fn compared(outcomes: &[Outcome]) -> [Discipline; Discipline::ALL.len()] {
    let ran = |discipline| outcomes.iter().any(|outcome| outcome.discipline == discipline);
    Discipline::ALL.map(|column| match column {
        Discipline::Sqf if !ran(column) => {
            let others = [Discipline::SqfFlush, Discipline::SqfFloorFlush];
            others.into_iter().find(|&other| ran(other)).unwrap_or(column)
        }
        _ => column,
    })
}

/// Returns the table, with a column for each of `outcomes` in the order of [`Discipline::ALL`]; the
/// columns of disciplines that were not run are blank.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> String {
    let mut columns = [Column::Left("uplink queue"); COLUMNS];
    for (column, discipline) in columns.iter_mut().skip(1).zip(compared(outcomes)) {
        *column = Column::Right(discipline.name());
    }
    let mut table = TextTable::new(columns);
    let mut row = |name: &str, cell: &dyn Fn(&Outcome) -> String| {
        let cells = compared(outcomes).map(|discipline| {
            let outcome = outcomes.iter().find(|outcome| outcome.discipline == discipline);
            outcome.map(cell).unwrap_or_default()
        });
        let mut displays: [&dyn Display; COLUMNS] = [&name; COLUMNS];
        for (place, cell) in displays.iter_mut().skip(1).zip(&cells) {
            *place = cell;
        }
        table.row(displays);
    };
    let fifo = outcomes.iter().find(|outcome| outcome.discipline == Discipline::Fifo);
    for (kind, page) in PAGES.iter().enumerate() {
        row(&format!("{}: median, s", page.name), &|outcome| {
            let loads = &outcome.pages[kind];
            match loads.median() {
                None if loads.unfinished > 0 => "unfinished".to_owned(),
                median => seconds(median),
            }
        });
        row("  FIFO's time divided by it", &|outcome| {
            ratio(fifo.and_then(|fifo| fifo.pages[kind].median()), outcome.pages[kind].median())
        });
        row("  pages loaded", &|outcome| outcome.pages[kind].complete.len().to_string());
    }
    row("calls: delay p50, ms", &|outcome| millis(outcome.call_delays().quantile(500)));
    row("  delay p99, ms", &|outcome| millis(outcome.call_delays().quantile(990)));
    row("  loss, %", &|outcome| percent(outcome.call_loss().ratio(), 2));
    row("  MOS of the worse call", &|outcome| {
        outcome.worst_mos().map_or("–".into(), |mos| fixed(mos, 2))
    });
    row("video: delay p99, ms", &|outcome| millis(outcome.video.delays().quantile(990)));
    row("  loss, %", &|outcome| percent(outcome.video.loss().ratio(), 2));
    row("uploads: goodput in all, kbit/s", &|outcome| {
        decimal(outcome.uploads.iter().sum(), KILO, 1)
    });
    row("  Jain's fairness index", &|outcome| {
        jain(&outcome.uploads).map_or("–".into(), |index| fixed(index, 3))
    });
    row("packets offered to the uplink", &|outcome| outcome.uplink.entered.to_string());
    row("  not accepted: full", &|outcome| outcome.uplink.rejected.to_string());
    row("  dropped: overflow", &|outcome| dropped(outcome, DropReason::Overflow));
    if outcomes.iter().any(|outcome| outcome.discipline == Discipline::Smart) {
        row("  dropped: by the AQM", &|outcome| dropped(outcome, DropReason::Aqm));
    }
    if outcomes.iter().any(|outcome| outcome.discipline.flushes()) {
        row("  dropped: unserved", &|outcome| dropped(outcome, DropReason::Unserved));
    }
    table.to_string()
}

const KILO: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
const SECOND: u64 = 1_000_000_000;

fn seconds(time: Option<Nanos>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| decimal(time.0 / 1_000_000, KILO, 2))
}

fn ratio(of: Option<Nanos>, to: Option<Nanos>) -> String {
    match (of, to) {
        (Some(of), Some(to)) => fixed(of.0 as f64 / to.0 as f64, 2),
        _ => "–".to_owned(),
    }
}

fn dropped(outcome: &Outcome, reason: DropReason) -> String {
    outcome.uplink.dropped.get(reason as usize).unwrap_or(&0).to_string()
}

/// Draws the delay of the calls over time: the slowest of the packets sent in each second.
#[must_use]
pub fn chart(setup: &Setup, outcomes: &[Outcome]) -> String {
    let chart = Chart::new("Delay of two calls from a home whose uplink is full")
        .subtitle(&format!(
            "one way, slowest packet of each second; uplink {}, seed {}",
            rate(setup.uplink),
            setup.seed
        ))
        .x("time (s)")
        .y("delay of the slowest packet (ms)")
        .log_y();
    let chart = outcomes.iter().fold(chart, |chart, outcome| {
        let slowest = slowest_by_second(outcome);
        let points =
            slowest.into_iter().map(|(second, delay)| (second as f64, delay.0 as f64 / 1e6));
        chart.series(outcome.discipline.name(), Mark::Line, points)
    });
    chart.guide(150.0, "150 ms: good for talking (ITU-T G.114)").to_svg()
}

fn slowest_by_second(outcome: &Outcome) -> BTreeMap<u64, Nanos> {
    let mut slowest = BTreeMap::new();
    for &(sent, delay) in outcome.calls.iter().flat_map(|call| &call.packets) {
        if let Some(delay) = delay {
            let place = slowest.entry(sent.0 / SECOND).or_insert(delay);
            *place = delay.max(*place);
        }
    }
    slowest
}

/// Formats a rate in the largest unit that gives a whole number.
fn rate(rate: Rate) -> String {
    match rate.as_bits_per_second() {
        Some(bits) if bits % 1_000_000 == 0 => format!("{} Mbit/s", bits / 1_000_000),
        Some(bits) if bits % 1_000 == 0 => format!("{} kbit/s", bits / 1_000),
        _ => rate.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::home_gateway::{MediaStream, PageLoads};

    /// An outcome in which every page took `seconds` and two packets of a call were sent, 1.2 and
    /// 1.9 s after the start.
    fn outcome(discipline: Discipline, seconds: u64, delays: [Option<Nanos>; 2]) -> Outcome {
        let complete = [Nanos::from_secs(seconds)].into_iter().collect();
        let pages = PageLoads { complete, unfinished: 0 };
        let [first, second] = delays;
        let packets = vec![(Nanos::from_millis(1_200), first), (Nanos::from_millis(1_900), second)];
        Outcome {
            discipline,
            pages: [pages.clone(), pages],
            calls: vec![MediaStream { packets }],
            video: MediaStream::default(),
            uploads: Vec::new(),
            uplink: Default::default(),
            counters: Default::default(),
            downlink: Default::default(),
            recount: Ok(()),
        }
    }

    #[test]
    fn pages_are_compared_with_those_of_a_fifo_whatever_else_was_run() {
        let (fifo, sqf) =
            (outcome(Discipline::Fifo, 6, [None; 2]), outcome(Discipline::Sqf, 2, [None; 2]));
        let factors = |outcomes: &[Outcome]| {
            let table = table(outcomes);
            let line = table.lines().find(|line| line.contains("divided")).unwrap();
            line.split_whitespace().skip(5).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(factors(&[sqf.clone(), fifo]), ["1.00", "3.00"]);
        assert_eq!(factors(&[sqf]), ["–"]);
    }

    #[test]
    fn the_chart_shows_the_slowest_packet_of_each_second() {
        let ms = |ms| Some(Nanos::from_millis(ms));
        for delays in [[ms(30), ms(90)], [ms(90), ms(30)], [ms(90), None]] {
            let slowest = slowest_by_second(&outcome(Discipline::Sqf, 1, delays));
            assert_eq!(slowest, [(1, Nanos::from_millis(90))].into());
        }
    }
}
