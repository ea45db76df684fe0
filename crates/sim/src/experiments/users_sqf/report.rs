//! Tables, picture and checks of SQF inside users.

use freeboard::sched_core::{FloorShare, Nanos};

use super::BULK_OF_B;
use super::scenario::{BULK_OF_A, Cell, DELAY, MEGABITS, MTU, Run, USERS, VOICE};
use crate::discipline::{PerUser, UserFlows};
use crate::experiments::home_gateway::MediaSummary;
use crate::experiments::{self, Check, Report};
use crate::measure::delay::Delays;
use crate::measure::estimate::Spread;
use crate::plot::Column::{Left, Right};
use crate::plot::{Chart, Mark, TextTable, fixed, millis, percent};

/// Number of flows of both users if B has one: A's transfers, video and call, and B's transfer.
const FLOWS: u32 = BULK_OF_A + 3;

type Row = experiments::Row<Cell, Run>;

/// Selects a stream of a run.
type Of = fn(&Run) -> &MediaSummary;

const VIDEO: Of = |run| &run.video;
const CALL: Of = |run| &run.call;

pub(super) fn report(rows: &[Row], seeds: u32) -> Report {
    let heading = format!(
        "\
SQF inside users: two users on a line of 10 Mbit/s and 10 ms, buffer 600,000 bytes
A: four TCP transfers, a video of 2 Mbit/s that does not slow down, a call (G.711)
B: one TCP transfer, or the same traffic split over eight
What is sent from second 5 to 35 counts; delays are end to end, 10 ms of them on the line
The floor gives one byte of {} to the queue that has waited longest
{seeds} seeds; shares and rates: mean over the runs and half of its 95 % confidence interval

",
        UserFlows::FLOOR
    );
    let bounds: Vec<Bounded> = rows.chunks(BULK_OF_B.len()).filter_map(Bounded::of).collect();
    let balanced = rows.iter().filter(|row| row.runs.iter().all(|run| run.balanced)).count();
    Report::new(heading)
        .table("queues", &table(rows))
        .with_text("\n")
        .table("bounds", &table_of_bounds(&bounds))
        .picture("users-sqf", charts(rows, seeds))
        .checks(checks_of_streams(rows))
        .checks(checks_of_shares(rows))
        .checks([check_of_bounds(&bounds)])
        .checks([Check::new(
            "every packet of every run is accounted for",
            format!("{balanced} of {} rows", rows.len()),
            balanced == rows.len(),
        )])
}

/// Returns the ratio of a stream's packets in all runs that are lost.
fn lost(row: &Row, of: Of) -> f64 {
    row.total_loss(|run| of(run).loss).ratio()
}

fn delays(row: &Row, of: Of) -> Delays {
    row.delays(|run| &of(run).delays)
}

fn table(rows: &[Row]) -> TextTable<10> {
    let share = |row: &Row| row.estimate_of(|run| run.share_of_a);
    let bulk = |row: &Row| row.estimate_of(|run| run.bulk_of_a as f64 / 1e6);
    let mean = |row: &Row, of| millis(delays(row, of).summary().map(|delays| delays.mean));
    let max = |row: &Row, of| millis(delays(row, of).quantile(1_000));
    TextTable::of(
        rows,
        [
            (Left("queue"), &|row| row.name.to_owned()),
            (Right("B's flows"), &|row| row.bulk_of_b.to_string()),
            (Right("A's share, %"), &|row| share(row).text(|share| percent(share, 1))),
            (Right("A's transfers, Mbit/s"), &|row| bulk(row).text(|rate| fixed(rate, 2))),
            (Right("video lost, %"), &|row| percent(lost(row, VIDEO), 2)),
            (Right("avg, ms"), &|row| mean(row, VIDEO)),
            (Right("max"), &|row| max(row, VIDEO)),
            (Right("call lost, %"), &|row| percent(lost(row, CALL), 2)),
            (Right("avg, ms"), &|row| mean(row, CALL)),
            (Right("max"), &|row| max(row, CALL)),
        ],
    )
}

/// Maximum delay of the call behind a queue, over both loads, and its bound: both without
/// propagation.
struct Bounded {
    name: &'static str,
    most: Nanos,
    bound: Nanos,
}

impl Bounded {
    /// Returns the delay in the rows of one queue; `None` if it has no bound.
    fn of(rows: &[Row]) -> Option<Self> {
        let Cell { name, above, inside, .. } = rows[0].cell;
        let bound = Nanos(above.bound(inside, USERS, MTU, VOICE)? * 8_000 / MEGABITS);
        let most = rows.iter().filter_map(|row| delays(row, CALL).quantile(1_000)).max()?;
        Some(Self { name, most: most.since(DELAY), bound })
    }

    /// Returns the used part of the bound.
    fn part(&self) -> f64 {
        self.most.0 as f64 / self.bound.0 as f64
    }
}

fn table_of_bounds(bounds: &[Bounded]) -> TextTable<4> {
    TextTable::of(
        bounds,
        [
            (Left("call beyond propagation, ms"), &|of| of.name.to_owned()),
            (Right("most"), &|of| millis(Some(of.most))),
            (Right("bound"), &|of| millis(Some(of.bound))),
            (Right("% of it"), &|of| percent(of.part(), 1)),
        ],
    )
}

fn check_of_bounds(bounds: &[Bounded]) -> Check {
    let nearest = bounds.iter().max_by(|a, b| a.part().total_cmp(&b.part()));
    let nearest = nearest.expect("some queues have a bound");
    Check::new(
        "no packet of the call takes longer than the bound of its queue",
        format!("at most {} % of it ({})", percent(nearest.part(), 1), nearest.name),
        nearest.most <= nearest.bound,
    )
}

/// Returns the rows of queues that schedule users.
fn over_users(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.above != PerUser::Flows)
}

fn checks_of_streams(rows: &[Row]) -> Vec<Check> {
    // Maximum loss in any run.
    let worst = |inside: &[UserFlows], of: Of| {
        let rows = over_users(rows).filter(|row| inside.contains(&row.inside));
        Spread::of(rows.map(|row| row.most(|run| of(run).loss.ratio()))).most
    };
    let mut checks = Vec::new();

    let claim = "with SQF inside users, without a floor, A's video loses at most 0.1 % in any run beside its own transfers; its call loses nothing, with a floor or without";
    let video = worst(&[UserFlows::Sqf], VIDEO);
    let call = worst(&[UserFlows::Sqf, UserFlows::SqfWithFloor], CALL);
    let measured = format!("at most {} % and {} %", percent(video, 3), percent(call, 3));
    checks.push(Check::new(claim, measured, video <= 0.001 && call <= 0.0));

    let claim = "with DRR inside users the same video loses at least 20 %";
    let drr_inside = over_users(rows).filter(|row| row.inside == UserFlows::Drr);
    let cut = Spread::of(drr_inside.map(|row| lost(row, VIDEO))).least;
    checks.push(Check::new(claim, format!("at least {} %", percent(cut, 1)), cut >= 0.2));
    checks
}

fn checks_of_shares(rows: &[Row]) -> Vec<Check> {
    let find = |name: &str, bulk_of_b| {
        let found = rows.iter().find(|row| row.name == name && row.bulk_of_b == bulk_of_b);
        found.expect("a row of every queue")
    };
    let mut checks = Vec::new();

    let claim = "over users, A has half of the line to ±3 % of it in every run, whether B has one flow or eight";
    let off_half = |row: &Row| row.most(|run| (run.share_of_a - 0.5).abs());
    let off = Spread::of(over_users(rows).map(off_half)).most;
    checks.push(Check::new(claim, format!("at most {} % off", percent(off, 2)), off <= 0.03));

    let claim = "over users it does not help B to split: A loses at most 3 % of the line by it; over flows A loses more, first come first served or in turn";
    let loses = |name: &str| {
        let [whole, split] = BULK_OF_B.map(|bulk| find(name, bulk).mean_of(|run| run.share_of_a));
        100.0 * (whole - split)
    };
    let most = Spread::of(over_users(rows).map(|row| loses(row.name).abs())).most;
    let [fifo, drr, sqf] = ["FIFO", "DRR over flows", "SQF over flows"].map(loses);
    let measured = format!("at most {most:.2} %; FIFO {fifo:.1} %, DRR {drr:.1} %, SQF {sqf:.1} %");
    checks.push(Check::new(claim, measured, most <= 3.0 && fifo > 3.0 && drr > 3.0));

    // A flow waits for less than `D + (k·F + 1)·L` bytes before its packet: docs/guarantees.md.
    let before = FloorShare::AFTER + (UserFlows::FLOOR * FLOWS + 1) * MTU;
    let promised = 100.0 * f64::from(MTU) / f64::from(before);
    let claim = format!(
        "SQF over flows leaves the users' shares to chance: B's one transfer has less than 1 % of the line in one run, more than half in another; a floor gives it one packet of its bound at least, {promised:.1} % of the line"
    );
    let of_b = |name| {
        let runs = find(name, 1).runs.iter();
        Spread::of(runs.map(|run| 100.0 * (1.0 - run.share_of_a)))
    };
    let Spread { least, most, .. } = of_b("SQF over flows");
    let floor = of_b("SQF over flows with floor").least;
    let measured = format!("{least:.2} to {most:.1} %; with a floor from {floor:.2} %");
    let holds = least < 1.0 && most > 50.0 && floor >= promised;
    checks.push(Check::new(claim, measured, holds));
    checks
}

/// Draws the distribution of the video's delays; a curve that ends below 100 % shows loss.
fn charts(rows: &[Row], seeds: u32) -> Vec<Chart> {
    let panel = |bulk_of_b: u32, words: &str| {
        let chart =
            Chart::new(&format!("A's video beside its own transfers, and {words} of user B"))
                .subtitle(&format!(
                    "part of all packets sent that arrive within so long, {seeds} seeds"
                ))
                .x("end-to-end delay (ms)")
                .y("packets (%)")
                .log_x()
                .height(380);
        rows.iter().filter(|row| row.bulk_of_b == bulk_of_b).fold(chart, |chart, row| {
            let points = delays(row, VIDEO).distribution(1.0 - lost(row, VIDEO));
            chart.series(row.name, Mark::Line, points)
        })
    };
    Vec::from([panel(1, "one transfer"), panel(8, "eight transfers")])
}
