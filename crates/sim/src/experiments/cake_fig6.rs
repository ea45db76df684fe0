//! CAKE Fig. 6: effect of the ACK filter on a link whose uplink is thirty times slower than its
//! downlink.
//!
//! The scenario is [`crate::experiments::slow_uplink`]. The assembled queue is compared with [CAKE
//! as published](crate::discipline::FlowLists), to separate effects of the queue from effects of
//! the model's TCP.

use freeboard::{AckFilter, AqmKind};

use super::slow_uplink::{Cell, MEASURED, Probe, Queueing, Run};
use super::{Check, Experiment, Report, Row, Study};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::tcp::network::Way;

/// The experiment `sim reproduce cake-fig6`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig6",
    quick: 2,
    about: "CAKE Fig. 6: downloads and uploads on 30/1 Mbit/s with the ACK filter",
    runs: &Fig6,
};

/// Rate of the uplink, in kbit/s.
const KILOBITS_UP: u64 = 1_000;
/// Range of the paper's figure in Mbit/s, with a tenth on either side: downloads and uploads.
const RANGES: [(f64, f64); 2] = [(24.5 * 0.9, 27.5 * 1.1), (0.45 * 0.9, 0.7 * 1.1)];

/// Range of its added latency in milliseconds, with a tenth on either side.
const LATENCY: (f64, f64) = (2.6 * 0.9, 7.5 * 1.1);

/// Mbit/s of downloads and uploads in each mode behind Linux 6.1's CAKE, with its CUBIC and an
/// equal probe: means of three runs of 60 s, from 10 s on.
const LINUX: [[f64; 2]; 3] = [[22.474, 0.456], [27.410, 0.565], [26.929, 0.647]];
/// Maximum relative difference from those of downloads with the filter, and of uploads in every
/// mode.
const NEAR: [f64; 2] = [0.03, 0.15];
/// Maximum relative difference from those of uploads behind CAKE as published.
const NEARER: f64 = 0.08;
/// Queues and probes; the first is the default.
const QUEUES: [(Queueing, Probe); 6] = [
    (Queueing::Smart(AqmKind::Cobalt), Probe::Call),
    (Queueing::Smart(AqmKind::Cobalt), Probe::Ping),
    (Queueing::Smart(AqmKind::CoDel), Probe::Call),
    (Queueing::Marked(AqmKind::Cobalt), Probe::Call),
    (Queueing::Marked(AqmKind::CoDel), Probe::Call),
    (Queueing::Published, Probe::Call),
];
const SHORT: &str = "without the filter COBALT drops more than a quarter of the acknowledgements, and those that are left stand for more segments each";
const MOST: &str = "with tins the conservative mode filters two of three acknowledgements, which leaves the aggressive one less to gain";
const LOADED: &str = "the probe takes 7 % of the uplink; with a ping in its place it is so";
const UPLINK: &str = "all but 0.3 ms is waited at the uplink, where a segment takes 12 ms and uploads send half as much again with \
                      the filter";

struct Fig6;

type Measured = Row<Cell, Run>;

impl Study for Fig6 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        Cell::all(&QUEUES, KILOBITS_UP)
    }

    fn run(&self, cell: &Cell, seed: u64) -> Run {
        cell.run(seed)
    }

    fn report(&self, rows: &[Measured], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n")
            .table("queues", &table(rows))
            .picture("cake-fig6", picture(rows))
            .checks(checks(rows))
    }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 6: four uploads and four downloads of CUBIC on 30/1 Mbit/s, 50 ms there and back, with and without the filter
SmartQueue both ways, with COBALT or with CoDel, and CAKE as it is published with CUBIC of its time (RFC 8312)
with RRUL: CS0, CS1, CS5 and EF for the flows of a direction and their acknowledgements, in diffserv3; else CS0 and one tin
packets as Ethernet frames, one host at home
goodput in Mbit/s of payload; what a probe of 160 bytes every 20 ms waits up and down, mean; a ping is one of 84 bytes every 200 ms
an acknowledgement for each second segment; acknowledgements a second that left and that were filtered; AQM: packets of the
uplink that the AQM dropped, a second
{} s after a warm-up of 10 s, {seeds} seeds
",
        MEASURED.0 / 1_000_000_000,
    )
}

fn table(rows: &[Measured]) -> TextTable<11> {
    let gain = |row: &Measured, value| fixed(gain(rows, row, value), 1);
    let per_second = |row: &Measured, count: fn(&Run) -> u64| fixed(row.per_second(count), 0);
    let mut table = TextTable::of(
        rows,
        [
            (Column::Left("queues"), &|row| name(row).to_owned()),
            (Column::Left("filter"), &|row| row.filter.name().to_owned()),
            (Column::Right("down"), &|row| fixed(row.down(), 2)),
            (Column::Right("gain %"), &|row| gain(row, Measured::down)),
            (Column::Right("up"), &|row| fixed(row.up(), 3)),
            (Column::Right("gain %"), &|row| gain(row, Measured::up)),
            (Column::Right("up ms"), &|row| fixed(row.wait(Way::Up), 2)),
            (Column::Right("down ms"), &|row| fixed(row.wait(Way::Down), 2)),
            (Column::Right("acks/s"), &|row| per_second(row, |run| run.acks)),
            (Column::Right("filtered/s"), &|row| per_second(row, |run| run.filtered)),
            (Column::Right("AQM/s"), &|row| per_second(row, |run| run.judged)),
        ],
    );
    for (filter, [down, up]) in AckFilter::ALL.iter().zip(LINUX) {
        let gains = [down / LINUX[0][0], up / LINUX[0][1]];
        let [of_down, of_up] = gains.map(|gain| fixed((gain - 1.0) * 100.0, 1));
        let [down, up] = [fixed(down, 2), fixed(up, 3)];
        let name = filter.name();
        table.row([
            &"Linux 6.1 CAKE",
            &name,
            &down,
            &of_down,
            &up,
            &of_up,
            &"",
            &"",
            &"",
            &"",
            &"",
        ]);
    }
    table
}

const fn name(cell: &Cell) -> &'static str {
    match (cell.queueing, cell.probe) {
        (Queueing::Smart(AqmKind::Cobalt), Probe::Ping) => "COBALT, ping",
        (Queueing::Smart(AqmKind::Cobalt), _) => "COBALT",
        (Queueing::Smart(_), _) => "CoDel",
        (Queueing::Marked(AqmKind::Cobalt), _) => "COBALT, RRUL",
        (Queueing::Marked(_), _) => "CoDel, RRUL",
        (Queueing::Published, _) => "CAKE, published",
    }
}

/// Returns the gain of this mode over no filter in percent, with an equal queue.
fn gain(rows: &[Measured], of: &Measured, value: fn(&Measured) -> f64) -> f64 {
    let is_without = |row: &&Measured| row.cell == Cell { filter: AckFilter::Off, ..of.cell };
    let without = rows.iter().find(is_without).map_or(f64::NAN, value);
    (value(of) / without - 1.0) * 100.0
}

fn checks(rows: &[Measured]) -> Vec<Check> {
    let (by_queue, []) = rows.as_chunks::<3>() else { unreachable!("three modes") };
    let [cobalt, ping, codel, marked, marked_codel, published] = by_queue else {
        unreachable!("six queues")
    };
    let of_up = |queue: &[Measured; 3]| [1, 2].map(|of| gain(rows, &queue[of], Measured::up));
    let of_down = |queue: &[Measured; 3]| [1, 2].map(|of| gain(rows, &queue[of], Measured::down));
    let [up, ping_up, marked_up] = [cobalt, ping, marked].map(of_up);
    let [down, ping_down, codel, marked_down, marked_codel, of_paper] =
        [cobalt, ping, codel, marked, marked_codel, published].map(of_down);
    let both = |gains: [f64; 2]| gains.map(|gain| fixed(gain, 1)).join(" % and ") + " %";
    let all_above = |gains: [f64; 2], least: f64| gains.into_iter().all(|gain| gain >= least);
    let mut checks = vec![
        Check::differs(
            "both modes raise the downloads by 8 % or more",
            SHORT,
            both(down),
            all_above(down, 8.0),
        ),
        Check::differs(
            "with a ping for the probe both modes raise the downloads by 8 % or more",
            SHORT,
            both(ping_down),
            all_above(ping_down, 8.0),
        ),
        Check::new(
            "both modes raise the downloads by 3 % or more, with a ping too",
            format!("{}; {}", both(down), both(ping_down)),
            all_above(down, 3.0) && all_above(ping_down, 3.0),
        ),
        Check::new(
            "with CoDel for COBALT both modes raise the downloads by 8 % or more",
            both(codel),
            all_above(codel, 8.0),
        ),
        Check::new(
            "with the marks of RRUL both modes raise the downloads by 8 % or more, with COBALT and with CoDel",
            format!("{}; {}", both(marked_down), both(marked_codel)),
            all_above(marked_down, 8.0) && all_above(marked_codel, 8.0),
        ),
        Check::new(
            "behind CAKE as it is published both modes raise the downloads by 3 % or more",
            both(of_paper),
            all_above(of_paper, 3.0),
        ),
        Check::new(
            "the conservative mode raises the uploads by 4 % or more, the aggressive one by half as much again",
            both(up),
            up[0] >= 4.0 && up[1] >= 1.5 * up[0],
        ),
        Check::differs(
            "the aggressive mode raises the uploads by twice as much as the conservative one",
            LOADED,
            both(up),
            up[1] >= 2.0 * up[0],
        ),
        Check::new(
            "with a ping for the probe the conservative mode raises the uploads by 4 % or more, the aggressive one by \
                    twice as much",
            both(ping_up),
            ping_up[0] >= 4.0 && ping_up[1] >= 2.0 * ping_up[0],
        ),
        Check::new(
            "with the marks of RRUL the conservative mode raises the uploads by 4 % or more, the aggressive one by more",
            both(marked_up),
            marked_up[0] >= 4.0 && marked_up[1] > marked_up[0],
        ),
        Check::differs(
            "with the marks of RRUL the aggressive mode raises the uploads by twice as much as the conservative one",
            MOST,
            both(marked_up),
            marked_up[1] >= 2.0 * marked_up[0],
        ),
    ];
    let values = [("downloads", Measured::down as fn(&Measured) -> f64), ("uploads", Measured::up)];
    for ((name, value), (from, to)) in values.into_iter().zip(RANGES) {
        let goodputs = [cobalt, ping, marked].map(|queue| queue.each_ref().map(value));
        let shown = goodputs.map(|of| of.map(|goodput| fixed(goodput, 3)).join(" "));
        checks.push(Check::new(format!(
                "{name} are within {} to {} Mbit/s, with the probe, with a ping and with the marks of RRUL",
                fixed(from, 3),
                fixed(to, 3)
            ), shown.join("; "), goodputs.as_flattened().iter().all(|goodput| (from..to).contains(goodput))));
    }
    let beside = |way: usize, value: fn(&Measured) -> f64| {
        let each = cobalt.iter().zip(LINUX);
        each.map(move |(of, linux)| value(of) / linux[way] - 1.0).collect::<Vec<f64>>()
    };
    let (downs, ups) = (beside(0, Measured::down), beside(1, Measured::up));
    let off_by = |parts: &[f64]| {
        parts.iter().map(|part| fixed(part * 100.0, 1) + " %").collect::<Vec<_>>().join(" ")
    };
    checks.push(Check::new(format!(
            "downloads with the filter are within {} % of those behind Linux 6.1's CAKE, uploads in all modes within {} %",
            fixed(NEAR[0] * 100.0, 0),
            fixed(NEAR[1] * 100.0, 0)
        ), format!("{}; {}", off_by(&downs[1..]), off_by(&ups)), downs[1..].iter().all(|part| part.abs() <= NEAR[0])
            && ups.iter().all(|part| part.abs() <= NEAR[1])));
    let of_published = published.iter().zip(LINUX);
    let ups: Vec<f64> = of_published.map(|(of, linux)| of.up() / linux[1] - 1.0).collect();
    checks.push(Check::new(format!(
            "behind CAKE as it is published uploads are within {} % of those behind Linux 6.1's CAKE in all modes",
            fixed(NEARER * 100.0, 0)
        ), off_by(&ups), ups.iter().all(|part| part.abs() <= NEARER)));
    let within = |queue: &[Measured; 3]| {
        queue.iter().all(|of| (LATENCY.0..=LATENCY.1).contains(&of.latency()))
    };
    let shown =
        |queue: &[Measured; 3]| queue.each_ref().map(|of| fixed(of.latency(), 2)).join(" ") + " ms";
    let range = format!("{} to {} ms", fixed(LATENCY.0, 2), fixed(LATENCY.1, 2));
    checks.push(Check::new(
        format!("what a probe waits is within {range} in all modes, and what a ping waits"),
        [cobalt, ping].map(shown).join("; "),
        [cobalt, ping].into_iter().all(within),
    ));
    checks.push(Check::differs(
        &format!("with the marks of RRUL what a probe waits, within {range},"),
        UPLINK,
        shown(marked),
        within(marked),
    ));
    let rises = [cobalt, ping, marked].map(|[off, conservative, aggressive]| {
        [conservative, aggressive].map(|of| of.latency() - off.latency())
    });
    let shown = rises.map(|of| of.map(|rise| fixed(rise, 2)).join(" and "));
    checks.push(Check::new("the filter raises what a probe waits by 8 ms at most, what a ping waits, and what a probe waits with the marks of RRUL", shown.join("; ") + " ms", rises.as_flattened().iter().all(|&rise| rise <= 8.0)));
    let runs = rows.iter().flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs", runs.map(|run| run.balanced)));
    checks
}

fn picture(rows: &[Measured]) -> Vec<Chart> {
    let panel = |title: &str, way: Way| {
        let chart = Chart::new(title).y("Mbit/s").height(220);
        let default = rows.iter().filter(|row| (row.queueing, row.probe) == QUEUES[0]);
        let chart = default.zip(1..).fold(chart, |chart, (row, place)| {
            let points = row.runs.iter().map(|run| (f64::from(place), run.goodput(way)));
            chart.series(row.filter.name(), Mark::Dots, points)
        });
        chart.x("1 off, 2 conservative, 3 aggressive; a dot a run")
    };
    Vec::from([panel("Downloads", Way::Down), panel("Uploads", Way::Up)])
}
