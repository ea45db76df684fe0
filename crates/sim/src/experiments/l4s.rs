//! L4S inside flow and host isolation: ECT(1) in queues of its own with a shallow threshold, a
//! Prague-like sender beside CUBIC, NQB traffic beside both, and `DualPI2` for comparison.
//!
//! ```text
//! hosts A, B, C, D ─▶ queue under test ─▶ 40 Mbit/s, 10 ms ─▶ servers
//!                  ◀─ FIFO ◀─ 1 Gbit/s, 10 ms, for acknowledgements ◀─
//! ```
//!
//! The call is NQB traffic (RFC 9956, DSCP 45): 160 bytes every 20 ms, headers included, from host
//! A. Queues without tins ignore its code point, and a queue that isolates flows does not need it.
//! RFC 9956 lets it share the L4S queue if there are two queues; `DualPi2` classifies by ECN, so
//! the call has ECT(1) there.
//!
//! No figures of other systems are compared: the checks follow from the guarantees of each queue.

use core::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{Ecn, Nanos};
use freeboard::shaper::{Overhead, Shaper};
use freeboard::{AqmKind, Dscp};

use super::dumbbell::{self, CALL, Dumbbell, ETHERNET, FIRST_SECOND, Summary, Traffic};
use super::{Check, Experiment, Report, Row, Study};
use crate::discipline::Managed;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};
use crate::source::Cbr;
use crate::tcp::congestion::Prague;
use crate::tcp::network::{Naming, Way};
use crate::tcp::{Config, Data};

/// The experiment `sim reproduce l4s`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "l4s",
    quick: 2,
    about: "a Prague-like sender, CUBIC, a call and unresponsive ECT(1) traffic: isolated queues and DualPI2",
    runs: &L4s { measured: Nanos::from_secs(20) },
};

/// Rate of the link in Mbit/s, and of the acknowledgements' link.
const MEGABITS: u32 = 40;
const MEGABITS_BACK: u32 = 1_000;
/// Round-trip time without queueing.
const ROUND_TRIP: Nanos = Nanos::from_millis(20);
/// Start of the measurement.
const WARM_UP: Nanos = Nanos::from_secs(5);
/// Time to send the packets that are queued when the measurement ends.
const DRAIN: Nanos = Nanos::from_secs(2);
/// Last bytes of the home addresses.
const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
/// UDP payload of the unresponsive source, and its rate.
const DEAF_PAYLOAD: u32 = 1_472;
const DEAF_RATE: NonZeroU64 = NonZeroU64::new(MEGABITS as u64 * 1_500_000).unwrap();

/// Maximum relative difference between shares of hosts, and between those of flows.
const FAIR: f64 = 0.05;
/// Maximum relative loss of goodput by the threshold, for a single sender.
const COST: f64 = 0.03;
/// Maximum queueing delay of the call behind isolated queues, in ms: a packet of each other flow
/// and one on the link.
const SHORT: f64 = 3.0;

/// Traffic beside the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    /// Name in tables.
    name: &'static str,
    /// Number of Prague-like senders of host A.
    prague: u8,
    /// Number of CUBIC senders, and their host.
    cubic: u8,
    cubic_host: u8,
    /// True if host C sends unresponsive ECT(1) traffic at 1.5 times the rate of the link.
    deaf: bool,
}

const fn load(name: &'static str, prague: u8, cubic: u8) -> Load {
    Load { name, prague, cubic, cubic_host: B, deaf: false }
}

const ALONE: Load = load("1 Prague", 1, 0);
const SAME_HOST: Load = Load { cubic_host: A, ..load("1 Prague and 1 CUBIC of a host", 1, 1) };
const MANY_CLASSIC: Load = load("1 Prague; a host of 4 CUBIC", 1, 4);
const MANY_SCALABLE: Load = load("4 Prague; a host of 1 CUBIC", 4, 1);
const DEAF: Load = Load { deaf: true, ..load("1 Prague; 1 CUBIC; 60 Mbit/s deaf", 1, 1) };
/// Isolated queues, and two coupled queues.
const COBALT: Managed = Managed::Hosts(AqmKind::Cobalt);
const COBALT_L4S: Managed = Managed::HostsL4s(AqmKind::Cobalt);
const CODEL_L4S: Managed = Managed::HostsL4s(AqmKind::CoDel);
const DUAL: Managed = Managed::DualPi2;

struct L4s {
    /// Duration of the measurement.
    measured: Nanos,
}

type Cell = (Load, Managed);

/// One run.
#[derive(Serialize, Deserialize)]
struct Run {
    prague: Traffic,
    cubic: Traffic,
    call: Traffic,
    deaf: Traffic,
    /// Segments of Prague-like senders that arrived, and those with a mark.
    marks: [u64; 2],
    balanced: bool,
}

impl Study for L4s {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let queues = [COBALT, COBALT_L4S, CODEL_L4S, DUAL];
        let loads = [ALONE, SAME_HOST, MANY_CLASSIC, MANY_SCALABLE, DEAF];
        loads.iter().flat_map(|&load| queues.map(|queueing| (load, queueing))).collect()
    }

    fn run(&self, &(load, queueing): &Cell, seed: u64) -> Run {
        let end = WARM_UP.plus(self.measured);
        let mut site = Dumbbell::new(seed, Naming::Key, (WARM_UP, end), |way, keys| {
            let (queueing, megabits, link) = match way {
                Way::Up => (queueing, MEGABITS, dumbbell::ethernet()),
                Way::Down => (Managed::Fifo(1_000), MEGABITS_BACK, Overhead::RAW),
            };
            let line = Shaper::new(dumbbell::megabits_per_second(megabits));
            // No AQM here draws random numbers, so there is no seed.
            let queue = queueing.behind(line, link, Data::LEN, 0).expect("parameters in range");
            dumbbell::link(queue, queueing.limits(), keys, Nanos(ROUND_TRIP.0 / 2))
        });
        let mut connect = |host, count: u8, config: fn() -> Config| {
            let one = |number| site.connect_within(FIRST_SECOND, Way::Up, [host, number], config());
            (0..count).map(one).collect::<Vec<_>>()
        };
        let prague = connect(A, load.prague, || Config::new(Box::new(Prague::new())));
        let cubic = connect(load.cubic_host, load.cubic, dumbbell::cubic);
        for &id in prague.iter().chain(&cubic) {
            site.measure_delays(id);
        }
        let mut phases = site.stream("phases");
        let source = Cbr::new(Nanos(phases.below(CALL.1.0)), CALL.1, CALL.0);
        let ecn = if queueing == DUAL { Ecn::Ect1 } else { Ecn::NotEct };
        let call = site.send(Way::Up, [A, 201], ecn, source);
        site.mark_probe(call, Dscp::NQB);
        let deaf = load.deaf.then(|| {
            let phase = Nanos(phases.below(2_000_000));
            let source = Cbr::at_rate(phase, DEAF_RATE, DEAF_PAYLOAD);
            site.send(Way::Up, [C, 202], Ecn::Ect1, source)
        });
        site.run_until(end.plus(DRAIN));
        let arrived = prague.iter().map(|&id| u64::from(site.receiver(id).in_order())).sum();
        let marked = prague.iter().map(|&id| u64::from(site.receiver(id).marks())).sum();
        Run {
            prague: site.transfers(Way::Up, &prague),
            cubic: site.transfers(Way::Up, &cubic),
            call: site.report(call),
            deaf: deaf.map(|deaf| site.report(deaf)).unwrap_or_default(),
            marks: [arrived, marked],
            balanced: site.is_balanced(),
        }
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        let all: Vec<Measured> = rows.iter().map(|row| Measured::of(row, self.measured)).collect();
        Report::new(heading(self.measured, seeds) + "\n")
            .table("queues", &table(&all))
            .picture("l4s", picture(rows, seeds))
            .checks(checks(&all))
    }
}

/// All runs of one queue with one load.
struct Measured {
    load: Load,
    queueing: Managed,
    prague: Summary,
    cubic: Summary,
    call: Summary,
    deaf: Summary,
    /// Fraction of segments with a mark.
    marked: f64,
    balanced: bool,
}

impl Measured {
    fn of(row: &Row<Cell, Run>, measured: Nanos) -> Self {
        let kind = |of: fn(&Run) -> &Traffic| Traffic::summary(row.runs.iter().map(of), measured);
        let count = |of: usize| row.runs.iter().map(|run| run.marks[of]).sum::<u64>() as f64;
        Self {
            load: row.0,
            queueing: row.1,
            prague: kind(|run| &run.prague),
            cubic: kind(|run| &run.cubic),
            call: kind(|run| &run.call),
            deaf: kind(|run| &run.deaf),
            marked: count(1) / count(0),
            balanced: row.runs.iter().all(|run| run.balanced),
        }
    }
}

fn heading(measured: Nanos, seeds: u32) -> String {
    format!(
        "\
A Prague-like sender and a call of host A, CUBIC of host A or B, and a source of ECT(1) of host C that does not react
{MEGABITS} Mbit/s, {} ms there and back, {ETHERNET} bytes more a packet on the line, room for {} packets; {} s after a warm-up of {} s,
{seeds} seeds. Isolated: by source host and flow. L4S: ECT(1) is marked above 1 ms in its own queue. Behind DualPI2 the call has ECT(1)
goodput of all senders of a kind, Mbit/s; added: what a packet waits, p50/p99 in ms; marked, lost: of its packets, in %
",
        ROUND_TRIP.0 / 1_000_000,
        DUAL.limits().packets,
        measured.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

fn table(rows: &[Measured]) -> TextTable<15> {
    let two = |value| fixed(value, 2);
    let cubic = |row: &Measured, value| if row.load.cubic > 0 { two(value) } else { String::new() };
    let deaf = |row: &Measured, value| if row.load.deaf { two(value) } else { String::new() };
    let load = |row: &Measured| if row.queueing == COBALT { row.load.name } else { "" };
    TextTable::of(
        rows,
        [
            (Column::Left("load"), &|row| load(row).to_owned()),
            (Column::Left("queue"), &|row| row.queueing.to_string()),
            (Column::Right("Prague"), &|row| two(row.prague.rate)),
            (Column::Right("p50"), &|row| two(row.prague.p50)),
            (Column::Right("p99"), &|row| two(row.prague.p99)),
            (Column::Right("marked"), &|row| percent(row.marked, 2)),
            (Column::Right("CUBIC"), &|row| cubic(row, row.cubic.rate)),
            (Column::Right("p50"), &|row| cubic(row, row.cubic.p50)),
            (Column::Right("p99"), &|row| cubic(row, row.cubic.p99)),
            (Column::Right("call p50"), &|row| two(row.call.p50)),
            (Column::Right("p99"), &|row| two(row.call.p99)),
            (Column::Right("lost"), &|row| percent(row.call.lost, 2)),
            (Column::Right("deaf"), &|row| deaf(row, row.deaf.rate)),
            (Column::Right("p50"), &|row| deaf(row, row.deaf.p50)),
            (Column::Right("p99"), &|row| deaf(row, row.deaf.p99)),
        ],
    )
}

fn checks(rows: &[Measured]) -> Vec<Check> {
    let of = |queueing, load| {
        rows.iter().find(|row| (row.load, row.queueing) == (load, queueing)).expect("each was run")
    };
    let [alone, plain] = [COBALT_L4S, COBALT].map(|queue| &of(queue, ALONE).prague);
    let cost = 1.0 - alone.rate / plain.rate;
    let ratio = |row: &Measured| row.prague.rate / row.cubic.rate;
    let apart = |row: &Measured| 1.0 - ratio(row).min(1.0 / ratio(row));
    let same = of(COBALT_L4S, SAME_HOST);
    let [prague, cubic] = [same.prague.p50, same.cubic.p50];
    let uneven = [MANY_CLASSIC, MANY_SCALABLE].map(|load| apart(of(COBALT_L4S, load)));
    let times = [1.0 / ratio(of(DUAL, MANY_CLASSIC)), ratio(of(DUAL, MANY_SCALABLE))];
    let isolated = || rows.iter().filter(|row| row.queueing != DUAL);
    let call = isolated().map(|row| row.call.p99).fold(0.0, f64::max);
    let lost = isolated().map(|row| row.call.lost).fold(0.0, f64::max);
    let [deaf, codel, dual] = [COBALT_L4S, CODEL_L4S, DUAL].map(|queue| of(queue, DEAF));
    let third = (deaf.prague.rate + deaf.cubic.rate + deaf.deaf.rate) / 3.0;
    let parts = [deaf.prague.rate / third, deaf.cubic.rate / third];
    let balanced = rows.iter().filter(|row| row.balanced).count();
    let [fair, most] = [FAIR, COST].map(|part| percent(part, 0));
    let off = percent(apart(same), 1);
    let [one, two] = [1, 2].map(|digits| move |value| fixed(value, digits));
    vec![
        Check::new(
            format!(
                "with the threshold a Prague-like sender alone waits for a fifth of what it waits without, or less, and \
                 less than 1 ms in the median, for at most {most} % of its goodput"
            ),
            format!("{} ms and {} ms; {} %", two(alone.p50), two(plain.p50), percent(cost, 1)),
            alone.p50 < 1.0 && alone.p50 * 5.0 <= plain.p50 && cost <= COST,
        ),
        Check::new(
            format!(
                "beside CUBIC of its own host it has as much, to {fair} %, and waits less than 1 ms in the median, whatever \
                 CUBIC's queue holds"
            ),
            format!("{off} % apart; {} ms, CUBIC {} ms", two(prague), two(cubic)),
            apart(same) <= FAIR && prague < cubic.min(1.0),
        ),
        Check::new(
            format!(
                "two hosts have as much each, to {fair} %, if either has four senders and the other has one of the other \
                 kind; behind DualPI2 the host of four has at least three times as much"
            ),
            format!(
                "{} % apart; {} times",
                uneven.map(|part| percent(part, 1)).join(" % and "),
                times.map(one).join(" and ")
            ),
            uneven.iter().all(|&part| part <= FAIR) && times.iter().all(|&times| times >= 3.0),
        ),
        Check::new(
            format!(
                "behind isolated queues the call, without a codepoint and whatever its DSCP, loses nothing and waits at \
                 most {} ms at the 99th percentile under every load",
                fixed(SHORT, 0)
            ),
            format!("at most {} ms; {} %", two(call), percent(lost, 2)),
            call <= SHORT && lost <= 0.0,
        ),
        Check::new(
            format!(
                "ECT(1) traffic that does not react takes nothing of the third of each other host, to {fair} %; \
                 COBALT keeps its queue, in the median, below half of what CoDel leaves"
            ),
            format!(
                "{} of a third; {} ms, with CoDel {} ms",
                parts.map(|part| fixed(part, 3)).join(" and "),
                one(deaf.deaf.p50),
                one(codel.deaf.p50)
            ),
            parts.iter().all(|part| (part - 1.0).abs() <= FAIR)
                && deaf.deaf.p50 * 2.0 < codel.deaf.p50,
        ),
        Check::new(
            "behind DualPI2, which leaves it to others to hold such traffic back (RFC 9332 §8.2), it takes nine \
                    tenths of the line, and the call in its queue loses more than a tenth",
            format!(
                "Prague {} and CUBIC {} Mbit/s are left; the call loses {} %",
                two(dual.prague.rate),
                two(dual.cubic.rate),
                percent(dual.call.lost, 1)
            ),
            dual.deaf.rate >= 9.0 * (dual.prague.rate + dual.cubic.rate) && dual.call.lost > 0.1,
        ),
        Check::new(
            "every packet of every run is accounted for",
            format!("{} of {} rows", balanced, rows.len()),
            balanced == rows.len(),
        ),
    ]
}

/// Draws the distribution of the queueing delay of the packets that arrived.
fn picture(rows: &[Row<Cell, Run>], seeds: u32) -> Vec<Chart> {
    let about =
        format!("part of the packets that waited no longer, {MEGABITS} Mbit/s, {seeds} seeds");
    let panel = |load, title: &str, of: fn(&Run) -> &Traffic| {
        let chart = Chart::new(title).subtitle(&about).x("time in the queue (ms)");
        let chart = chart.y("packets (%)").log_x().height(380);
        rows.iter().filter(|row| row.0 == load).fold(chart, |chart, row| {
            let points = row.delays(|run| &of(run).added).log_distribution();
            chart.series(&row.1.to_string(), Mark::Line, points)
        })
    };
    Vec::from([
        panel(SAME_HOST, "Prague-like sender beside CUBIC of its host", |run| &run.prague),
        panel(DEAF, "A call beside ECT(1) traffic that does not react", |run| &run.call),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::harness;
    use crate::progress::Progress;
    use conformance::effort::effort;

    /// Goal: the results of the complete run also hold for a short one. Method: all loads, 4 s, two
    /// seeds or one.
    #[test]
    fn short_runs_show_what_long_ones_do() {
        let short = L4s { measured: Nanos::from_secs(4) };
        let report = harness::report(&short, effort(1, 2), &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
