//! Tables, chart and checks of SQF in an ADSL gateway.

use core::ops::Range;

use super::scenario::{CONSTANT, Cell, FULL, GROWING, ONE_PACKET, PAGES, Part, Run};
use super::{DRR, LOADS, MOST, ONE_PACKET_LOADS, SQF, SQF_MANY, VIRTUAL_QUEUES};
use crate::discipline::UplinkQueue::{self, Fifo, Smart};
use crate::experiments::harness::find;
use crate::experiments::home_gateway::calls::Call;
use crate::experiments::{self, Check, Report};
use crate::measure::estimate::{Estimate, Spread, geometric_mean, mean};
use crate::plot::Column::{Left, Right};
use crate::plot::{Chart, Mark, TextTable, fixed, percent};

/// Lowest score of a good call, and highest of a bad one.
const GOOD: f64 = 4.0;
const BAD: f64 = 2.5;
/// Positions of the pages with 50 parts and more.
const BIG: Range<usize> = 1..PAGES.len();

type Row = experiments::Row<Cell, Run>;

/// Builds the report.
pub(super) fn report(rows: &[Row], seeds: u32) -> Report {
    let Part { buffer, seconds, .. } = FULL;
    let pages = format!(
        "\
SQF in an ADSL gateway: 12 Mbit/s down, 1 Mbit/s up, 20 ms one way; one browser, calls of 30 s (G.711)
uploads of one home host to many peers, without end
{VIRTUAL_QUEUES} virtual queues as in the paper, and a default queue for the flows beyond; {seeds} seeds
Table 1: buffer of {buffer} packets; pages of 5, 50, 80 and 120 parts in turn for {seconds} s; mean time over the runs, half
of its 95 % confidence interval, and (÷) FIFO's time divided by it
full: uploads with windows of 64 KiB; one packet: uploads with one packet in flight
paper: small page 3.7, big pages 3.1, 1.3 and 2.9

"
    );
    let Part { buffer, seconds, .. } = GROWING;
    let calls = format!(
        "
Fig. 1: mean opinion score of calls by the E-model; constant and growing: buffer of {buffer} packets
growing: uploads start one after the other, at random times in {seconds} s
in default: packets of the calls that were in the default queue

"
    );
    let balanced = rows.iter().map(|row| row.runs.iter().all(|run| run.balanced));
    Report::new(pages)
        .table("pages", &table_of_pages(rows))
        .with_text(&calls)
        .table("calls", &table_of_calls(rows))
        .picture("sqf-adsl", chart(rows))
        .checks(checks_of_pages(rows))
        .checks(checks_of_calls(rows))
        .checks([Check::accounted_for("rows", balanced)])
}

/// Returns the mean load time of a page in seconds.
fn load_time(row: &Row, page: usize) -> Option<Estimate> {
    let means: Vec<f64> = row.runs.iter().filter_map(|run| mean(&run.pages[page])).collect();
    Estimate::of(&means)
}

/// Returns the load time of each page behind the first queue divided by that behind the second.
fn gains(rows: &[Row], part: Part, uploads: u16, queues: [UplinkQueue; 2]) -> [f64; PAGES.len()] {
    let time = |row, page| load_time(row, page).map_or(f64::INFINITY, |time| time.mean);
    let [slow, fast] = queues.map(|queue| find(rows, &Cell { part, uploads, queue }));
    core::array::from_fn(|page| time(slow, page) / time(fast, page))
}

fn calls(row: &Row) -> impl Iterator<Item = &Call> {
    row.runs.iter().flat_map(|run| &run.calls)
}

fn table_of_pages(rows: &[Row]) -> TextTable<11> {
    // Few pages load behind a FIFO with more uploads.
    let is_shown = |row: &&Row| [FULL, ONE_PACKET].contains(&row.part) && row.uploads < MOST;
    let shown: Vec<&Row> = rows.iter().filter(is_shown).collect();
    let time = |row: &Row, page| {
        load_time(row, page).map_or_else(String::new, |time| time.text(|mean| fixed(mean, 2)))
    };
    let gains = |row: &Row| gains(rows, row.part, row.uploads, [Fifo, row.queue]);
    TextTable::of(
        &shown,
        [
            (Left("windows"), &|row| row.part.name.to_owned()),
            (Right("uploads"), &|row| row.uploads.to_string()),
            (Left("queue"), &|row| row.queue.to_string()),
            (Right(PAGES[0].name), &|row| time(row, 0)),
            (Right(PAGES[1].name), &|row| time(row, 1)),
            (Right(PAGES[2].name), &|row| time(row, 2)),
            (Right(PAGES[3].name), &|row| time(row, 3)),
            (Right("÷ 30 kB"), &|row| fixed(gains(row)[0], 2)),
            (Right("÷ 0.5 MB"), &|row| fixed(gains(row)[1], 2)),
            (Right("÷ 1 MB"), &|row| fixed(gains(row)[2], 2)),
            (Right("÷ 2 MB"), &|row| fixed(gains(row)[3], 2)),
        ],
    )
}

fn table_of_calls(rows: &[Row]) -> TextTable<8> {
    let shown: Vec<&Row> = rows.iter().filter(|row| row.part != ONE_PACKET).collect();
    let scores = |row: &Row| Spread::of(calls(row).map(|call| call.mos));
    let in_default = |row: &Row| Spread::of(calls(row).map(|call| call.in_default)).mean;
    TextTable::of(
        &shown,
        [
            (Left("part"), &|row| row.part.name.to_owned()),
            (Right("uploads"), &|row| row.uploads.to_string()),
            (Left("queue"), &|row| row.queue.to_string()),
            (Right("calls"), &|row| scores(row).count.to_string()),
            (Right("MOS: least"), &|row| fixed(scores(row).least, 2)),
            (Right("median"), &|row| fixed(scores(row).median, 2)),
            (Right("most"), &|row| fixed(scores(row).most, 2)),
            (Right("in default, %"), &|row| percent(in_default(row), 1)),
        ],
    )
}

fn chart(rows: &[Row]) -> Chart {
    let chart = Chart::new("Calls while uploads start one after the other")
        .subtitle(&format!("a dot for each call; {MOST} uploads in the end, 1 Mbit/s up"))
        .x("start of the call (s)")
        .y("mean opinion score");
    let chart = [DRR, SQF_MANY, SQF].into_iter().fold(chart, |chart, queue| {
        let row = find(rows, &Cell { part: GROWING, uploads: MOST, queue });
        chart.series(&queue.to_string(), Mark::Dots, calls(row).map(|call| (call.start, call.mos)))
    });
    let at = f64::from(VIRTUAL_QUEUES) / f64::from(MOST) * GROWING.seconds as f64;
    chart.series(&format!("{VIRTUAL_QUEUES} uploads"), Mark::Line, [(at, 1.0), (at, 4.4)])
}

fn checks_of_pages(rows: &[Row]) -> Vec<Check> {
    let over = |part, loads: &[u16], queues, pages: Range<usize>| {
        let gains = |&uploads| gains(rows, part, uploads, queues)[pages.clone()].to_vec();
        Spread::of(loads.iter().flat_map(gains))
    };
    let full = |queues, pages| over(FULL, &LOADS[..4], queues, pages);
    let single = |queue| over(ONE_PACKET, &ONE_PACKET_LOADS, [Fifo, queue], 0..4);
    let big = |gains: [f64; 4]| geometric_mean(&gains[BIG]).unwrap_or(f64::NAN);
    let bigs = |part, loads: &[u16]| {
        Spread::of(loads.iter().map(|&uploads| big(gains(rows, part, uploads, [Fifo, SQF]))))
    };
    let mut checks = Vec::new();

    let claim =
        "every page is faster behind SQF than behind DRR, and not slower there than behind a FIFO";
    let (sqf, drr) = (full([DRR, SQF], 0..4), full([Fifo, DRR], 0..4));
    let measured = format!("full: DRR's time by SQF's {sqf}, FIFO's by DRR's {drr}");
    checks.push(Check::new(claim, measured, sqf.least > 1.0 && drr.least >= 1.0));

    let claim = "the small page's gain by SQF is at least 2.5 (paper: 3.7)";
    let small = full([Fifo, SQF], 0..1);
    let measured = format!("full: {small}; one packet: {}", single(SQF));
    checks.push(Check::new(claim, measured, small.least >= 2.5));

    let claim = "the geometric mean of the big pages' gains between 1.3 and 4 (paper: 2.3)";
    let why = "uploads that fill the buffer delay each packet behind a FIFO by all of it, 1.2 s, and make it drop requests";
    let gains = bigs(FULL, &LOADS[..4]);
    checks.push(Check::differs(claim, why, format!("full: {gains}"), gains.is_within(1.3, 4.0)));

    let claim = "the paper's gains are between those of 5 and of 20 uploads with one packet each, a queue of as many packets";
    let few = over(ONE_PACKET, &[5, 20], [Fifo, SQF], 0..1);
    let few_big = bigs(ONE_PACKET, &[5, 20]);
    let measured = format!("small page {few}, big pages {few_big}");
    let holds = few.contains(3.7) && few_big.contains(big([3.7, 3.1, 1.3, 2.9]));
    checks.push(Check::new(claim, measured, holds));

    let claim = "big pages behind DRR within 25 % of FIFO with 40 uploads and more";
    let why = "a FIFO that overflows drops requests and handshakes, DRR with longest-queue drop none of them";
    let many = over(FULL, &[40, 60], [Fifo, DRR], BIG);
    let measured = format!("full: FIFO's time by DRR's {many}");
    checks.push(Check::differs(claim, why, measured, many.is_within(0.75, 1.25)));

    let claim = "pages behind DRR are within 25 % of FIFO if nothing overflows: up to 40 uploads with one packet each";
    let drr = single(DRR);
    let measured = format!("FIFO's time by DRR's {drr}");
    checks.push(Check::new(claim, measured, drr.is_within(0.75, 1.25)));
    checks
}

fn checks_of_calls(rows: &[Row]) -> Vec<Check> {
    let scores = |part, uploads: &[u16], queue| {
        let rows = uploads.iter().map(|&uploads| find(rows, &Cell { part, uploads, queue }));
        Spread::of(rows.flat_map(calls).map(|call| call.mos))
    };
    let median = |part, uploads, queue| scores(part, &[uploads], queue).median;
    let growing = find(rows, &Cell { part: GROWING, uploads: MOST, queue: SQF });
    let mut checks = Vec::new();

    let claim = "growing, SQF: calls without a packet in the default queue are excellent (median at least 4.0), those with most of them there bad (at most 2.5)";
    let of = |is: fn(&&Call) -> bool| Spread::of(calls(growing).filter(is).map(|call| call.mos));
    let own = of(|call| call.in_default == 0.0);
    let default = of(|call| call.in_default > 0.5);
    let told = |calls: Spread| format!("{} calls: {:.2}", calls.count, calls.median);
    let measured = format!("{}; {}", told(own), told(default));
    checks.push(Check::new(claim, measured, own.median >= GOOD && default.median <= BAD));

    let claim = "growing, SQF: two clusters, at most one call in ten between 2.5 and 4.0";
    let between = of(|call| call.mos > BAD && call.mos < GOOD).count;
    let count = of(|_| true).count;
    checks.push(Check::new(claim, format!("{between} of {count}"), between * 10 <= count));

    let claim = "with more virtual queues than flows no call is bad (all at least 4.0)";
    let [growing, constant] = [GROWING, CONSTANT].map(|part| scores(part, &[MOST], SQF_MANY));
    let measured = format!("growing: {growing}; 200 uploads: {constant}");
    checks.push(Check::new(claim, measured, growing.least.min(constant.least) >= GOOD));

    let claim =
        "SQF: every call is excellent up to 120 uploads, and half of them are bad from 140 on";
    let few = scores(CONSTANT, &[60, 120], SQF);
    let [many, most] = [140, MOST].map(|uploads| median(CONSTANT, uploads, SQF));
    let measured = format!("up to 120: {few}; medians of 140 and 200: {many:.2} to {most:.2}");
    checks.push(Check::new(claim, measured, few.least >= GOOD && many.max(most) <= BAD));

    let claim = "with a buffer of fewer packets than virtual queues no call is in the default queue: excellent up to 200 uploads";
    let short = scores(FULL, &LOADS, SQF);
    checks.push(Check::new(claim, short.to_string(), short.least >= GOOD));

    let claim = "smart_queue, which isolates hosts: every call is excellent up to 200 uploads of another host";
    let smart = scores(FULL, &LOADS, Smart);
    checks.push(Check::new(claim, smart.to_string(), smart.least >= GOOD));

    let claim = "behind FIFO and DRR the median call is bad with 60 uploads and more (at most 3.0)";
    let at = |uploads| [Fifo, DRR].map(|queue| median(FULL, uploads, queue));
    let ([a, b], [c, d]) = (at(60), at(MOST));
    let measured = format!("FIFO and DRR at 60: {a:.2}, {b:.2}; at 200: {c:.2}, {d:.2}");
    checks.push(Check::new(claim, measured, [a, b, c, d].iter().all(|&mos| mos <= 3.0)));

    let claim = "DRR: calls are good while an equal share is more than they send, with 8 uploads, and bad from 20 on";
    let [few, many] = [&LOADS[..1], &LOADS[1..]].map(|loads| scores(FULL, loads, DRR));
    let measured = format!("8: {few}; 20 and more: {many}");
    checks.push(Check::new(claim, measured, few.least >= GOOD && many.most <= BAD));
    checks
}
