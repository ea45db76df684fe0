//! A call or a ping beside four uploads and four downloads on 30/0.5 Mbit/s: its queueing delay,
//! and the effect of the ACK filter on the downloads.
//!
//! The scenario is [`crate::experiments::slow_uplink`], with half the uplink of CAKE Fig. 6. The
//! results are compared with those of kernel TCP through the gateway and through Linux's CAKE. The
//! goals are CAKE's figures; missed goals are listed with their causes.

use freeboard::AqmKind;

use super::slow_uplink::{Cell, MEASURED, Probe, Queueing, Run};
use super::{Check, Experiment, Report, Row, Study};
use crate::plot::{Column, TextTable, fixed};

/// The experiment `sim reproduce narrow-uplink`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "narrow-uplink",
    quick: 2,
    about: "a call and downloads on 30/0.5 Mbit/s, with and without the ACK filter",
    runs: &NarrowUplink,
};

/// Rate of the uplink, in kbit/s.
const UPLINK: u64 = 500;
/// Probes: a call that sends more than a ninth of the uplink, and a smaller call and a ping, which
/// send less.
const QUEUES: [(Queueing, Probe); 3] = [
    (Queueing::Smart(AqmKind::Cobalt), Probe::Call),
    (Queueing::Smart(AqmKind::Cobalt), Probe::SmallCall),
    (Queueing::Smart(AqmKind::Cobalt), Probe::Ping),
];
const QUANTILES: [u32; 3] = [500, 950, 990];

/// Measurements with kernel TCP: queueing delay of the call in ms (p50, p95, p99), and Mbit/s of
/// the downloads without the filter and with its conservative mode.
struct Kernel {
    name: &'static str,
    waits: [f64; 3],
    down: [f64; 2],
}

const GATEWAY: Kernel =
    Kernel { name: "gateway, kernel TCP", waits: [87.0, 185.0, 213.0], down: [21.6, 18.4] };
const CAKE: Kernel =
    Kernel { name: "Linux CAKE, kernel TCP", waits: [29.0, 76.0, 79.0], down: [20.6, 22.0] };
/// Maximum ratio of a delay to CAKE's.
const NEAR: f64 = 1.1;
/// Reason for the longer delay of the call.
const SHARE: &str = "it sends 70 kbit/s, and a ninth of the uplink is 56, so it waits for its turns; the small call sends 46, and is sparse";
/// Reason for the lower goodput of the downloads.
const TURNS: &str = "a flow that keeps two acknowledgements between its turns uses less than its share, which the uploads take";

struct NarrowUplink;

type Measured = Row<Cell, Run>;

impl Study for NarrowUplink {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        Cell::all(&QUEUES, UPLINK)
    }

    fn run(&self, cell: &Cell, seed: u64) -> Run {
        cell.run(seed)
    }

    fn report(&self, rows: &[Measured], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n").table("probes", &table(rows)).checks(checks(rows))
    }
}

/// Returns quantiles of the upload probe's queueing delay in ms, over the packets of all runs.
fn waits(row: &Measured) -> [f64; 3] {
    let all = row.delays(|run| &run.waits);
    QUANTILES.map(|of| all.millis(of))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
Four uploads and four downloads of CUBIC on 30/0.5 Mbit/s, 50 ms there and back, packets as Ethernet frames, SmartQueue both ways
beside them a call, 160 bytes every 20 ms, a small one, 100 bytes, or a ping, 84 bytes every 200 ms: what a packet of it waits on its
way up, in ms
goodput in Mbit/s of payload; acknowledgements a second that left and that were filtered; AQM: packets of the uplink that the
AQM dropped, a second; timeouts of the downloads in a run
{} s after a warm-up of 10 s, {seeds} seeds; rows with kernel TCP are quoted, and have a call
",
        MEASURED.0 / 1_000_000_000,
    )
}

fn table(rows: &[Measured]) -> TextTable<11> {
    let wait = |row: &Measured, quantile: usize| fixed(waits(row)[quantile], 1);
    let per_second = |row: &Measured, count: fn(&Run) -> u64| fixed(row.per_second(count), 0);
    let mut table = TextTable::of(
        rows,
        [
            (Column::Left("probe"), &|row| row.probe.name().to_owned()),
            (Column::Left("filter"), &|row| row.filter.name().to_owned()),
            (Column::Right("down"), &|row| fixed(row.down(), 2)),
            (Column::Right("up"), &|row| fixed(row.up(), 3)),
            (Column::Right("p50"), &|row| wait(row, 0)),
            (Column::Right("p95"), &|row| wait(row, 1)),
            (Column::Right("p99"), &|row| wait(row, 2)),
            (Column::Right("acks/s"), &|row| per_second(row, |run| run.acks)),
            (Column::Right("filtered/s"), &|row| per_second(row, |run| run.filtered)),
            (Column::Right("AQM/s"), &|row| per_second(row, |run| run.judged)),
            (Column::Right("timeouts"), &|row| fixed(row.mean(|run| run.timeouts as f64), 1)),
        ],
    );
    for Kernel { name, waits, down } in [GATEWAY, CAKE] {
        let [p50, p95, p99] = waits.map(|wait| fixed(wait, 0));
        let [off, on] = down.map(|down| fixed(down, 1));
        table.row([&name, &"off", &off, &"", &p50, &p95, &p99, &"", &"", &"", &""]);
        table.row([&name, &"conservative", &on, &"", &"", &"", &"", &"", &"", &"", &""]);
    }
    table
}

fn checks(rows: &[Measured]) -> Vec<Check> {
    let (by_probe, []) = rows.as_chunks::<3>() else { unreachable!("three modes") };
    let mut checks = Vec::new();
    for [off, conservative, aggressive] in by_probe {
        let probe = off.probe;
        let (waits, wanted) = (waits(off), CAKE.waits.map(|wait| wait * NEAR));
        let limits = wanted.map(|wait| fixed(wait, 0)).join(" / ");
        let claim =
            format!("the {} waits at most {limits} ms, a tenth above Linux's CAKE", probe.name());
        let shown = waits.map(|wait| fixed(wait, 1)).join(" / ") + " ms";
        let holds = waits.iter().zip(wanted).all(|(wait, limit)| *wait <= limit);
        checks.push(match probe {
            Probe::Call => Check::differs(&(claim + ","), SHARE, shown, holds),
            Probe::SmallCall | Probe::Ping => Check::new(claim, shown, holds),
        });
        let [before, one, other] = [off, conservative, aggressive].map(Measured::down);
        checks.push(Check::differs(
            &format!("beside the {} both modes of the filter raise the downloads", probe.name()),
            TURNS,
            [before, one, other].map(|down| fixed(down, 2)).join(", ") + " Mbit/s",
            one > before && other > before,
        ));
    }
    let runs = rows.iter().flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs", runs.map(|run| run.balanced)));
    checks
}
