//! Shares of the uploads beside the call behind shortest queue first, with and without a floor.
//!
//! The longest queue is served last: with a short round trip one upload gets the whole link and the
//! others nothing. The floor gives an eighth of the bytes to the queue that has waited longest, so
//! each upload gets a share of that.

use freeboard::sched_core::{FloorShare, Nanos};

use super::report::quantiles;
use super::scenario::Run;
use super::{Cell, Load, Queue, Wanted, load, packet_millis};
use crate::discipline::GatewayQueue;
use crate::experiments::{Check, Row};
use crate::plot::fixed;

/// Text above the table.
pub(super) const HEADING: &str = "\
The same call behind shortest queue first, with CoDel in each queue: without a floor, as in the paper, and with
one byte of 8 for the queue that has waited longest, as in the gateway; users+sqf has DRR over hosts above;
50 ms there and back, or 1 ms where it is said
";

/// Maximum delay of the call at 10 Mbit/s: a packet of the floor beside the one on the link.
const WANTED: Wanted = Wanted::Packets(2);

pub(super) const LOADS: [Load; 3] = [
    load("4 uploads of its host, 1 ms", 10, 4, 0, WANTED).over(Nanos::from_millis(1)),
    load("4 uploads of its host", 10, 4, 0, WANTED),
    load("4 of its host, 3 other hosts, 1 ms", 10, 4, 3, WANTED).over(Nanos::from_millis(1)),
];

const SQF: &str = "sqf without a floor";
const SQF_FLOOR: &str = "sqf (gateway)";
const USERS: &str = "users+sqf, no floor";
const USERS_FLOOR: &str = "users+sqf (gateway)";

pub(super) const QUEUES: [Queue; 4] = [
    queue(SQF, GatewayQueue::Sqf(FloorShare::NONE)),
    queue(SQF_FLOOR, GatewayQueue::Sqf(FloorShare::EIGHTH)),
    queue(USERS, GatewayQueue::UsersSqf(FloorShare::NONE)),
    queue(USERS_FLOOR, GatewayQueue::UsersSqf(FloorShare::EIGHTH)),
];

const fn queue(name: &'static str, queueing: GatewayQueue) -> Queue {
    Queue {
        name,
        queueing,
        has_hosts: matches!(queueing, GatewayQueue::UsersSqf(_)),
        protects: false,
    }
}

/// Minimum of an upload relative to its share: a floor of an eighth only, shared by all that have a
/// share of the rest.
const FLOOR: f64 = 0.125;

pub(super) fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let of = |name: &'static str| rows.iter().filter(move |row| row.1.name == name);
    let least = |name| of(name).map(|row| row.evenness()[0]).fold(f64::INFINITY, f64::min);
    let mut checks = Vec::new();
    for (name, has_floor) in [(SQF, false), (USERS, false), (SQF_FLOOR, true), (USERS_FLOOR, true)]
    {
        let found = least(name);
        checks.push(Check::new(
            if has_floor {
                format!("{name}: every upload has at least {FLOOR} of its part in every run")
            } else {
                format!("{name}: an upload starves, with less than {FLOOR} of its part in some run")
            },
            fixed(found, 3),
            (found >= FLOOR) == has_floor,
        ));
    }
    for row in of(SQF_FLOOR) {
        let [p50, p95, p99] = quantiles(row.added());
        let Wanted::Packets(packets) = row.0.wanted else { continue };
        let most = fixed(f64::from(packets) * packet_millis(row.0.megabits), 1);
        checks.push(Check::new(
            format!("{}, {SQF_FLOOR}: p99 at most {packets} packets, {most} ms", row.0.name),
            format!("{p50} / {p95} / {p99} ms"),
            row.is_near(),
        ));
    }
    let lost = rows.iter().map(|row| row.loss().lost).sum::<u64>();
    checks.push(Check::new(
        "no packet of the call is lost behind shortest queue first",
        format!("{lost} packets"),
        lost == 0,
    ));
    checks
}
