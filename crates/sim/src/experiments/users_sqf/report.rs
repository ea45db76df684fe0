//! Tables, picture and checks of SQF inside users.

use freeboard::sched_core::{FloorShare, Nanos};

use super::scenario::{BULK_OF_A, Cell, DELAY, MTU, Run};
use super::{BULK_OF_B, CALL, FLOOR, Of, VIDEO};
use crate::discipline::UserFlows;
use crate::experiments::{Check, Report, Row};
use crate::plot::{Chart, Column, Mark, TextTable, fixed, millis, percent};

/// Maximum difference of a user's share from one half of the link.
const FAIR: f64 = 0.03;
/// Number of flows of both users if B has one: A's transfers, video and call, and B's transfer.
const FLOWS: u32 = BULK_OF_A + 3;
/// Maximum loss of a protected video.
const PROTECTED: f64 = 0.001;
/// Minimum loss of an unprotected video.
const CUT: f64 = 0.2;

pub(super) fn report(rows: &[Row<Cell, Run>], seeds: u32) -> Report {
    Report::new(heading(seeds) + "\n")
        .table("queues", &table(rows))
        .with_text("\n")
        .table("bounds", &bounds(rows))
        .picture("users-sqf", charts(rows, seeds))
        .checks(checks(rows))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
SQF inside users: two users on a line of 10 Mbit/s and 10 ms, buffer 600,000 bytes
A: four TCP transfers, a video of 2 Mbit/s that does not slow down, a call (G.711)
B: one TCP transfer, or the same traffic split over eight
What is sent from second 5 to 35 counts; delays are end to end, 10 ms of them on the line
The floor gives one byte of {FLOOR} to the queue that has waited longest
{seeds} seeds; shares and rates: mean over the runs and half of its 95 % confidence interval
"
    )
}

fn table(rows: &[Row<Cell, Run>]) -> TextTable<10> {
    let lost = |row: &Row<Cell, Run>, of: Of| percent(row.all(of).loss.ratio(), 2);
    let summary = |row: &Row<Cell, Run>, of: Of| row.all(of).delays.summary();
    let mean = |row: &Row<Cell, Run>, of| millis(summary(row, of).map(|delays| delays.mean));
    let max = |row: &Row<Cell, Run>, of| millis(summary(row, of).map(|delays| delays.max));
    let bulk = |row: &Row<Cell, Run>| row.estimate(|run| run.bulk_of_a as f64 / 1e6);
    TextTable::of(
        rows,
        [
            (Column::Left("queue"), &|row| row.name.to_owned()),
            (Column::Right("B's flows"), &|row| row.bulk_of_b.to_string()),
            (Column::Right("A's share, %"), &|row| row.share().text(|share| percent(share, 1))),
            (Column::Right("A's transfers, Mbit/s"), &|row| bulk(row).text(|rate| fixed(rate, 2))),
            (Column::Right("video lost, %"), &|row| lost(row, VIDEO)),
            (Column::Right("avg, ms"), &|row| mean(row, VIDEO)),
            (Column::Right("max"), &|row| max(row, VIDEO)),
            (Column::Right("call lost, %"), &|row| lost(row, CALL)),
            (Column::Right("avg, ms"), &|row| mean(row, CALL)),
            (Column::Right("max"), &|row| max(row, CALL)),
        ],
    )
}

/// Maximum delay of the call behind a queue, over both loads, and its bound.
struct Bounded {
    name: &'static str,
    most: Nanos,
    bound: Nanos,
}

impl Bounded {
    fn all(rows: &[Row<Cell, Run>]) -> Vec<Self> {
        let of = |pair: &[Row<Cell, Run>]| {
            let most = pair.iter().filter_map(|row| row.all(CALL).delays.quantile(1_000)).max()?;
            Some(Self { name: pair[0].name, most, bound: pair[0].bound()? })
        };
        rows.chunks(BULK_OF_B.len()).filter_map(of).collect()
    }

    /// Returns the used part of the bound, without propagation.
    fn part(&self) -> f64 {
        self.most.since(DELAY).0 as f64 / self.bound.since(DELAY).0 as f64
    }
}

fn bounds(rows: &[Row<Cell, Run>]) -> TextTable<4> {
    let beyond = |time: Nanos| millis(Some(time.since(DELAY)));
    TextTable::of(
        &Bounded::all(rows),
        [
            (Column::Left("call beyond propagation, ms"), &|of| of.name.to_owned()),
            (Column::Right("most"), &|of| beyond(of.most)),
            (Column::Right("bound"), &|of| beyond(of.bound)),
            (Column::Right("% of it"), &|of| percent(of.part(), 1)),
        ],
    )
}

fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let over_users = || rows.iter().filter(|row| row.has_users());
    let sqf_inside = || over_users().filter(|row| row.prefers_short());
    let drr_inside = || over_users().filter(|row| !row.prefers_short());
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let plain_inside = || sqf_inside().filter(|row| row.inside == UserFlows::Sqf);
    let video = most(&mut plain_inside().map(|row| row.worst_loss(VIDEO)));
    let call = most(&mut sqf_inside().map(|row| row.worst_loss(CALL)));
    let cut = least(&mut drr_inside().map(|row| row.all(VIDEO).loss.ratio()));
    let off = most(&mut over_users().map(|row| row.off_half()));
    // Loss of A's share when B splits its traffic.
    let loses = |name: &str| {
        let mut shares = rows.iter().filter(|row| row.name == name).map(|row| row.share().mean);
        shares.next().unwrap_or(0.0) - shares.next().unwrap_or(0.0)
    };
    let flat = ["FIFO", "DRR over flows", "SQF over flows"].map(loses);
    let users: Vec<&str> = over_users().map(|row| row.name).collect();
    let split = most(&mut users.iter().map(|name| loses(name).abs()));
    let of_b = |name: &str| {
        let found = rows.iter().find(|row| row.name == name && row.bulk_of_b == 1);
        found.map_or([f64::NAN; 2], |row| row.of_b())
    };
    let [least_of_b, most_of_b] = of_b("SQF over flows");
    let [floor, _] = of_b("SQF over flows with floor");
    // One packet before `D + (k·F + 1)·L` bytes: docs/guarantees.md.
    let promised = f64::from(MTU) / f64::from(FloorShare::AFTER + (FLOOR * FLOWS + 1) * MTU);
    let bounds = Bounded::all(rows);
    let balanced = || rows.iter().filter(|row| row.runs.iter().all(|run| run.balanced));
    let nearest = bounds.iter().max_by(|a, b| a.part().total_cmp(&b.part()));
    vec![
        Check::new(
            format!(
                "with SQF inside users, without a floor, A's video loses at most {} % in any run beside \
                 its own transfers; its call loses nothing, with a floor or without",
                percent(PROTECTED, 1)
            ),
            format!("at most {} % and {} %", percent(video, 3), percent(call, 3)),
            video <= PROTECTED && call <= 0.0,
        ),
        Check::new(
            format!("with DRR inside users the same video loses at least {} %", percent(CUT, 0)),
            format!("at least {} %", percent(cut, 1)),
            cut >= CUT,
        ),
        Check::new(
            format!(
                "over users, A has half of the line to ±{} % of it in every run, whether B has one flow \
                 or eight",
                percent(FAIR, 0)
            ),
            format!("at most {} % off", percent(off, 2)),
            off <= FAIR,
        ),
        Check::new(
            format!(
                "over users it does not help B to split: A loses at most {} % of the line by it; over \
                 flows A loses more, first come first served or in turn",
                percent(FAIR, 0)
            ),
            format!(
                "at most {} %; FIFO {} %, DRR {} %, SQF {} %",
                percent(split, 2),
                percent(flat[0], 1),
                percent(flat[1], 1),
                percent(flat[2], 1)
            ),
            split <= FAIR && flat[0] > FAIR && flat[1] > FAIR,
        ),
        Check::new(
            format!(
                "SQF over flows leaves the users' shares to chance: B's one transfer has less than 1 % of \
                 the line in one run, more than half in another; a floor gives it one packet \
                 of its bound at least, {} % of the line",
                percent(promised, 1)
            ),
            format!(
                "{} to {} %; with a floor from {} %",
                percent(least_of_b, 2),
                percent(most_of_b, 1),
                percent(floor, 2)
            ),
            least_of_b < 0.01 && most_of_b > 0.5 && floor >= promised,
        ),
        Check::new(
            "no packet of the call takes longer than the bound of its queue",
            nearest.map_or_else(String::new, |of| {
                format!("at most {} % of it ({})", percent(of.part(), 1), of.name)
            }),
            bounds.iter().all(|of| of.most <= of.bound) && !bounds.is_empty(),
        ),
        Check::new(
            "every packet of every run is accounted for",
            format!("{} of {} rows", balanced().count(), rows.len()),
            balanced().count() == rows.len(),
        ),
    ]
}

/// Draws the distribution of the video's delays; a curve that ends below 100 % shows loss.
fn charts(rows: &[Row<Cell, Run>], seeds: u32) -> Vec<Chart> {
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
            let video = row.all(VIDEO);
            let points = video.delays.distribution(1.0 - video.loss.ratio());
            chart.series(row.name, Mark::Line, points)
        })
    };
    Vec::from([panel(1, "one transfer"), panel(8, "eight transfers")])
}
