//! Tables, chart and checks of SQF in an ADSL gateway.

use super::scenario::{Call, Cell, PAGES, Part, Queueing, Run};
use super::{GROWING, MANY, VIRTUAL_QUEUES};
use crate::experiments::{self, Check, Report};
use crate::measure::estimate::{Estimate, mean};
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

const FIFO: Queueing = Queueing::Fifo;
const DRR: Queueing = Queueing::Drr(VIRTUAL_QUEUES);
const SQF: Queueing = Queueing::Sqf(VIRTUAL_QUEUES);
/// Lowest score of a good call, and highest of a bad one.
const GOOD: f64 = 4.0;
const BAD: f64 = 2.5;

type Row = experiments::Row<Cell, Run>;

/// The rows, by cell.
struct Results<'a>(&'a [Row]);

impl Results<'_> {
    fn of(&self, part: Part) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.part == part)
    }

    fn row(&self, part: Part, uploads: u16, queueing: Queueing) -> &Row {
        let wanted = Cell { part, uploads, queueing };
        self.0.iter().find(|row| row.cell == wanted).expect("a row of the cell")
    }

    /// Returns the numbers of uploads with which pages are measured.
    fn loads(&self, part: Part) -> Vec<u16> {
        let rows = self.of(part).filter(|row| row.queueing == SQF && shows_pages(row));
        rows.map(|row| row.uploads).collect()
    }

    /// Returns the mean time of a page over the runs, in seconds.
    fn time(&self, part: Part, uploads: u16, queueing: Queueing, page: usize) -> f64 {
        time(self.row(part, uploads, queueing), page).map_or(f64::INFINITY, |time| time.mean)
    }

    /// Returns FIFO's time divided by that of `queueing`, for each page.
    fn gains(&self, part: Part, uploads: u16, queueing: Queueing) -> [f64; PAGES.len()] {
        core::array::from_fn(|page| {
            self.time(part, uploads, FIFO, page) / self.time(part, uploads, queueing, page)
        })
    }

    /// Returns the extremes of a quantity over the numbers of uploads.
    fn over<const N: usize>(&self, part: Part, of: impl Fn(u16) -> [f64; N]) -> [f64; 2] {
        span(self.loads(part).into_iter().flat_map(of))
    }

    fn scores(&self, part: Part, uploads: u16, queueing: Queueing) -> Vec<f64> {
        sorted(calls(self.row(part, uploads, queueing)).map(|call| call.mos))
    }
}

/// Few pages load behind a FIFO with more uploads.
fn shows_pages(row: &Row) -> bool {
    matches!(row.part, Part::Full | Part::OnePacket) && row.uploads <= 60
}

fn time(row: &Row, page: usize) -> Option<Estimate> {
    let means: Vec<f64> = row.runs.iter().filter_map(|run| mean(&run.pages[page])).collect();
    Estimate::of(&means)
}

fn calls(row: &Row) -> impl Iterator<Item = &Call> {
    row.runs.iter().flat_map(|run| &run.calls)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the median of sorted values, by nearest rank.
fn median(values: &[f64]) -> f64 {
    values.get(values.len().div_ceil(2).saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn span(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, 0.0], |[least, most], value| [least.min(value), most.max(value)])
}

fn geometric_mean(values: &[f64]) -> f64 {
    libm::cbrt(values.iter().product())
}

fn name(queueing: Queueing) -> String {
    match queueing {
        Queueing::Fifo => "FIFO".to_owned(),
        Queueing::Drr(count) => format!("DRR, {count} queues"),
        Queueing::Sqf(count) => format!("SQF, {count} queues"),
        Queueing::Smart => "smart_queue".to_owned(),
    }
}

const fn kind(part: Part) -> &'static str {
    match part {
        Part::Full => "full",
        Part::OnePacket => "one packet",
        Part::Constant => "constant",
        Part::Growing => "growing",
    }
}

/// Builds the report.
pub(super) fn report(rows: &[Row], seeds: u32) -> Report {
    let results = Results(rows);
    let pages = format!(
        "\
SQF in an ADSL gateway: 12 Mbit/s down, 1 Mbit/s up, 20 ms one way; one browser, calls of 30 s (G.711)
uploads of one home host to many peers, without end
{VIRTUAL_QUEUES} virtual queues as in the paper, and a default queue for the flows beyond; {seeds} seeds
Table 1: buffer of {} packets; pages of 5, 50, 80 and 120 parts in turn for {} s; mean time over the runs, half
of its 95 % confidence interval, and (÷) FIFO's time divided by it
full: uploads with windows of 64 KiB; one packet: uploads with one packet in flight
paper: small page 3.7, big pages 3.1, 1.3 and 2.9

",
        Part::Full.buffer(),
        Part::Full.duration().0 / 1_000_000_000,
    );
    let scores = format!(
        "
Fig. 1: mean opinion score of calls by the E-model; constant and growing: buffer of {} packets
growing: uploads start one after the other, at random times in {} s
in default: packets of the calls that were in the default queue

",
        Part::Growing.buffer(),
        Part::Growing.duration().0 / 1_000_000_000,
    );
    let mut checks = checks_of_pages(&results);
    checks.extend(checks_of_calls(&results));
    let balanced = rows.iter().map(|row| row.runs.iter().all(|run| run.balanced));
    checks.push(Check::accounted_for("rows", balanced));
    Report::new(pages)
        .table("pages", &table_of_pages(&results))
        .with_text(&scores)
        .table("calls", &table_of_calls(rows))
        .picture("sqf-adsl", vec![chart(&results)])
        .checks(checks)
}

fn table_of_pages(results: &Results<'_>) -> TextTable<11> {
    let mut table = TextTable::new([
        Column::Left("windows"),
        Column::Right("uploads"),
        Column::Left("queue"),
        Column::Right(PAGES[0].name),
        Column::Right(PAGES[1].name),
        Column::Right(PAGES[2].name),
        Column::Right(PAGES[3].name),
        Column::Right("÷ 30 kB"),
        Column::Right("÷ 0.5 MB"),
        Column::Right("÷ 1 MB"),
        Column::Right("÷ 2 MB"),
    ]);
    for row in results.0.iter().filter(|row| shows_pages(row)) {
        let Cell { part, uploads, queueing } = row.cell;
        let times: [String; PAGES.len()] = core::array::from_fn(|page| {
            time(row, page).map_or_else(String::new, |Estimate { mean, margin }| {
                let margin = margin.map_or_else(String::new, |by| format!(" ±{}", fixed(by, 2)));
                fixed(mean, 2) + &margin
            })
        });
        let gains = results.gains(part, uploads, queueing).map(|gain| fixed(gain, 2));
        let ([a, b, c, d], [e, f, g, h]) = (&times, &gains);
        table.row([&kind(part), &uploads, &name(queueing), a, b, c, d, e, f, g, h]);
    }
    table
}

fn table_of_calls(rows: &[Row]) -> TextTable<8> {
    let mut table = TextTable::new([
        Column::Left("part"),
        Column::Right("uploads"),
        Column::Left("queue"),
        Column::Right("calls"),
        Column::Right("MOS: least"),
        Column::Right("median"),
        Column::Right("most"),
        Column::Right("in default, %"),
    ]);
    for row in rows.iter().filter(|row| row.part != Part::OnePacket) {
        let scores = sorted(calls(row).map(|call| call.mos));
        let [least, most] = span(scores.iter().copied());
        let in_default: Vec<f64> = calls(row).map(|call| call.in_default).collect();
        table.row([
            &kind(row.part),
            &row.uploads,
            &name(row.queueing),
            &scores.len(),
            &fixed(least, 2),
            &fixed(median(&scores), 2),
            &fixed(most, 2),
            &percent(mean(&in_default).unwrap_or_default(), 1),
        ]);
    }
    table
}

fn chart(results: &Results<'_>) -> Chart {
    let chart = Chart::new("Calls while uploads start one after the other")
        .subtitle(&format!("a dot for each call; {GROWING} uploads in the end, 1 Mbit/s up"))
        .x("start of the call (s)")
        .y("mean opinion score");
    let rows = [DRR, Queueing::Sqf(MANY), SQF].map(|of| results.row(Part::Growing, GROWING, of));
    let chart = rows.into_iter().fold(chart, |chart, row| {
        let points = calls(row).map(|call| (call.start, call.mos));
        chart.series(&name(row.queueing), Mark::Dots, points)
    });
    let full = f64::from(VIRTUAL_QUEUES) / f64::from(GROWING);
    let at = full * Part::Growing.duration().0 as f64 / 1e9;
    let step = [(at, 1.0), (at, 4.4)];
    chart.series(&format!("{VIRTUAL_QUEUES} uploads"), Mark::Line, step)
}

fn checks_of_pages(results: &Results<'_>) -> Vec<Check> {
    let sqf = |part| results.over(part, |n| results.gains(part, n, SQF));
    let drr = |part| results.over(part, |n| results.gains(part, n, DRR));
    let ordered = results.over(Part::Full, |n| {
        let (sqf, drr) = (results.gains(Part::Full, n, SQF), results.gains(Part::Full, n, DRR));
        core::array::from_fn::<_, { PAGES.len() }, _>(|page| sqf[page] / drr[page])
    });
    let small = results.over(Part::Full, |n| [results.gains(Part::Full, n, SQF)[0]]);
    let big = |part, n| geometric_mean(&results.gains(part, n, SQF)[1..]);
    let bigs = results.over(Part::Full, |n| [big(Part::Full, n)]);
    let drr_many = span(
        { results.loads(Part::Full).into_iter() }
            .filter(|&n| n >= 40)
            .flat_map(|n| results.gains(Part::Full, n, DRR).into_iter().skip(1)),
    );
    let alike = drr(Part::OnePacket);
    let few = [5, 20].map(|n| big(Part::OnePacket, n));
    let few_small = [5, 20].map(|n| results.gains(Part::OnePacket, n, SQF)[0]);
    let range = |[least, most]: [f64; 2]| format!("{} to {}", fixed(least, 2), fixed(most, 2));
    let near = |[least, most]: [f64; 2]| least >= 0.75 && most <= 1.25;
    let published = geometric_mean(&[3.1, 1.3, 2.9]);
    vec![
        Check::new(
            "every page is faster behind SQF than behind DRR, and not slower there than behind a FIFO",
            format!(
                "full: DRR's time by SQF's {}, FIFO's by DRR's {}",
                range(ordered),
                range(drr(Part::Full))
            ),
            ordered[0] > 1.0 && drr(Part::Full)[0] >= 1.0,
        ),
        Check::new(
            "the small page's gain by SQF is at least 2.5 (paper: 3.7)",
            format!("full: {}; one packet: {}", range(small), range(sqf(Part::OnePacket))),
            small[0] >= 2.5,
        ),
        Check::differs(
            "the geometric mean of the big pages' gains between 1.3 and 4 (paper: 2.3)",
            "uploads that fill the buffer delay each packet behind a FIFO by all of it, 1.2 s, and make it drop requests",
            format!("full: {}", range(bigs)),
            bigs[0] >= 1.3 && bigs[1] <= 4.0,
        ),
        Check::new(
            "the paper's gains are between those of 5 and of 20 uploads with one packet each, a queue of as many packets",
            format!("small page {}, big pages {}", range(few_small), range(few)),
            few_small[0] <= 3.7
                && few_small[1] >= 3.7
                && few[0] <= published
                && few[1] >= published,
        ),
        Check::differs(
            "big pages behind DRR within 25 % of FIFO with 40 uploads and more",
            "a FIFO that overflows drops requests and handshakes, DRR with longest-queue drop none of them",
            format!("full: FIFO's time by DRR's {}", range(drr_many)),
            near(drr_many),
        ),
        Check::new(
            "pages behind DRR are within 25 % of FIFO if nothing overflows: up to 40 uploads with one packet each",
            format!("FIFO's time by DRR's {}", range(alike)),
            near(alike),
        ),
    ]
}

fn checks_of_calls(results: &Results<'_>) -> Vec<Check> {
    let growing = results.row(Part::Growing, GROWING, SQF);
    let of = |is: fn(&Call) -> bool| sorted(calls(growing).filter(|c| is(c)).map(|c| c.mos));
    let (own, default) = (of(|call| call.in_default == 0.0), of(|call| call.in_default > 0.5));
    let all = of(|_| true);
    let between = all.iter().filter(|&&mos| mos > BAD && mos < GOOD).count();
    let extremes = |part, uploads: &[u16], queueing| {
        span(uploads.iter().flat_map(|&n| results.scores(part, n, queueing)))
    };
    let many = extremes(Part::Growing, &[GROWING], Queueing::Sqf(MANY));
    let many_constant = extremes(Part::Constant, &[200], Queueing::Sqf(MANY));
    let saturated = [
        (Part::Full, 60, FIFO),
        (Part::Full, 60, DRR),
        (Part::Full, 200, FIFO),
        (Part::Full, 200, DRR),
    ]
    .map(|(part, uploads, queueing)| median(&results.scores(part, uploads, queueing)));
    let few_drr = extremes(Part::Full, &[8], DRR);
    let many_drr = extremes(Part::Full, &[20, 40, 60, 200], DRR);
    let few_sqf = extremes(Part::Constant, &[60, 120], SQF);
    let full_sqf = [140, 200].map(|n| median(&results.scores(Part::Constant, n, SQF)));
    let short = extremes(Part::Full, &[8, 20, 40, 60, 200], SQF);
    let smart = extremes(Part::Full, &[8, 20, 40, 60, 200], Queueing::Smart);
    let range = |[least, most]: [f64; 2]| format!("{} to {}", fixed(least, 2), fixed(most, 2));
    vec![
        Check::new(
            "growing, SQF: calls without a packet in the default queue are excellent (median at least 4.0), those with most of them there bad (at most 2.5)",
            format!(
                "{} calls: {}; {} calls: {}",
                own.len(),
                fixed(median(&own), 2),
                default.len(),
                fixed(median(&default), 2)
            ),
            median(&own) >= GOOD && median(&default) <= BAD,
        ),
        Check::new(
            "growing, SQF: two clusters, at most one call in ten between 2.5 and 4.0",
            format!("{between} of {}", all.len()),
            between * 10 <= all.len(),
        ),
        Check::new(
            "with more virtual queues than flows no call is bad (all at least 4.0)",
            format!("growing: {}; 200 uploads: {}", range(many), range(many_constant)),
            many[0] >= GOOD && many_constant[0] >= GOOD,
        ),
        Check::new(
            "SQF: every call is excellent up to 120 uploads, and half of them are bad from 140 on",
            format!("up to 120: {}; medians of 140 and 200: {}", range(few_sqf), range(full_sqf)),
            few_sqf[0] >= GOOD && full_sqf[0].max(full_sqf[1]) <= BAD,
        ),
        Check::new(
            "with a buffer of fewer packets than virtual queues no call is in the default queue: excellent up to 200 uploads",
            range(short),
            short[0] >= GOOD,
        ),
        Check::new(
            "smart_queue, which isolates hosts: every call is excellent up to 200 uploads of another host",
            range(smart),
            smart[0] >= GOOD,
        ),
        Check::new(
            "behind FIFO and DRR the median call is bad with 60 uploads and more (at most 3.0)",
            format!(
                "FIFO and DRR at 60: {}, {}; at 200: {}, {}",
                fixed(saturated[0], 2),
                fixed(saturated[1], 2),
                fixed(saturated[2], 2),
                fixed(saturated[3], 2)
            ),
            saturated.iter().all(|&mos| mos <= 3.0),
        ),
        Check::new(
            "DRR: calls are good while an equal share is more than they send, with 8 uploads, and bad from 20 on",
            format!("8: {}; 20 and more: {}", range(few_drr), range(many_drr)),
            few_drr[0] >= GOOD && many_drr[1] <= BAD,
        ),
    ]
}
