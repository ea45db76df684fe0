//! SQF inside users: fair queueing between users and shortest queue first among the flows of each.
//!
//! SQF-VBR leaves this to future work. SQF alone prefers a user that splits its traffic, and fair
//! queueing alone drops part of a video that requires more than an equal part of its user's share;
//! the two levels together do neither. The scenario is
//! [`crate::experiments::users_sqf::scenario`], the bound is derived in `docs/proofs/queues.md`.

mod report;
pub mod scenario;

use freeboard::sched_core::{FloorShare, Nanos};

use super::{Experiment, Report, Row, Study};
use crate::discipline::{PerUser, UserFlows};
use crate::measure::delay::Delays;
use crate::measure::estimate::Estimate;
use crate::measure::goodput::Loss;
use scenario::{Cell, DELAY, MTU, RATE, Run, Stream, USERS, VOICE};

/// The experiment `sim reproduce users-sqf`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "users-sqf",
    quick: 2,
    about: "SQF inside users: a user's video beside its own transfers, and users beside each other",
    runs: &UsersSqf,
};

struct UsersSqf;

/// `k`: the floor gets one of `k` bytes.
const FLOOR: u32 = 8;

const WITH_FLOOR: UserFlows = UserFlows::SqfWithFloor(FloorShare::EIGHTH);

const QUEUES: [(&str, PerUser, UserFlows); 8] = [
    ("FIFO", PerUser::Flows, UserFlows::Fifo),
    ("DRR over flows", PerUser::Flows, UserFlows::Drr),
    ("SQF over flows", PerUser::Flows, UserFlows::Sqf),
    ("SQF over flows with floor", PerUser::Flows, WITH_FLOOR),
    ("DRR over users, DRR inside", PerUser::Drr, UserFlows::Drr),
    ("DRR over users, SQF inside", PerUser::Drr, UserFlows::Sqf),
    ("QFQ over users, SQF inside", PerUser::Qfq, UserFlows::Sqf),
    ("DRR over users, SQF with floor", PerUser::Drr, WITH_FLOOR),
];

/// Number of transfers of user B: not split, and split.
const BULK_OF_B: [u32; 2] = [1, 8];

impl Cell {
    fn has_users(self) -> bool {
        self.above != PerUser::Flows
    }

    fn prefers_short(self) -> bool {
        matches!(self.inside, UserFlows::Sqf | UserFlows::SqfWithFloor(_))
    }

    /// Returns the maximum end-to-end delay of a packet of the call; `None` if there is no bound.
    /// The sum of
    ///
    /// - the maximum lag of the call's user behind its share;
    /// - a packet of this user on the wire;
    /// - with a floor, consecutive packets of the floor, less than `L + L/(k − 1)` bytes;
    /// - the transmission time of the packet itself.
    fn bound(self) -> Option<Nanos> {
        if !self.prefers_short() {
            return None;
        }
        let others = match self.inside {
            UserFlows::SqfWithFloor(_) => u64::from(2 * MTU + (MTU - 1) / (FLOOR - 1)),
            _ => MTU.into(),
        };
        let (latency, others) = match self.above.guarantee(USERS, MTU) {
            Some(user) => (user.latency, user.share.link_of(others)),
            None => (0, others),
        };
        let bytes = latency + others + u64::from(VOICE);
        Some(Nanos(bytes * (8_000_000_000 / RATE)).plus(DELAY))
    }
}

impl Row<Cell, Run> {
    fn estimate(&self, of: impl Fn(&Run) -> f64) -> Estimate {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        Estimate::of(&values).expect("there are runs")
    }

    /// Returns user A's share of the link.
    fn share(&self) -> Estimate {
        self.estimate(Run::share_of_a)
    }

    /// Returns the maximum difference of user A's share from one half in any run.
    fn off_half(&self) -> f64 {
        self.runs.iter().map(|run| (run.share_of_a() - 0.5).abs()).fold(0.0, f64::max)
    }

    /// Returns minimum and maximum share of user B in any run.
    fn of_b(&self) -> [f64; 2] {
        let of_b = || self.runs.iter().map(|run| 1.0 - run.share_of_a());
        [of_b().fold(1.0, f64::min), of_b().fold(0.0, f64::max)]
    }

    /// Returns a stream over all runs.
    fn all(&self, of: Of) -> Stream {
        let delays = self.runs.iter().flat_map(|run| of(run).delays.samples());
        let loss: Loss = self.runs.iter().map(|run| of(run).loss).sum();
        Stream { delays: delays.copied().collect::<Delays>(), loss }
    }

    /// Returns the maximum loss ratio of a stream in any run.
    fn worst_loss(&self, of: Of) -> f64 {
        self.runs.iter().map(|run| of(run).loss.ratio()).fold(0.0, f64::max)
    }
}

/// Selects a stream of a run.
type Of = fn(&Run) -> &Stream;

const VIDEO: Of = |run| &run.video;
const CALL: Of = |run| &run.call;

impl Study for UsersSqf {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let cell = |(name, above, inside)| {
            BULK_OF_B.map(|bulk_of_b| Cell { name, above, inside, bulk_of_b })
        };
        QUEUES.into_iter().flat_map(cell).collect()
    }

    fn run(&self, cell: &Cell, seed: u64) -> Run {
        scenario::run(cell, seed)
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        report::report(rows, seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated manually, in bytes of the link: the lag of DRR over two users with quanta of
    /// 1,500 is at most 2,999 + 1,499 + 1,500; a packet of 1,500 at half the rate counts as 3,000;
    /// the packet itself is
    /// 200. SQF over all flows waits for one packet; with a floor of an eighth for another and
    ///      1,499 / 7.
    #[test]
    fn the_bound_is_that_of_the_levels() {
        let bound = |name: &str| {
            let cell = UsersSqf.cells().into_iter().find(|cell| cell.name == name).unwrap();
            Some(cell.bound()?.since(DELAY).0 / 800)
        };
        assert_eq!(bound("FIFO"), None);
        assert_eq!(bound("DRR over users, DRR inside"), None);
        assert_eq!(bound("SQF over flows"), Some(1_700));
        assert_eq!(bound("SQF over flows with floor"), Some(3_414));
        assert_eq!(bound("DRR over users, SQF inside"), Some(5_998 + 3_000 + 200));
        assert_eq!(bound("DRR over users, SQF with floor"), Some(5_998 + 6_428 + 200));
    }
}
