//! SQF inside users: fair queueing between users and shortest queue first among the flows of each.
//!
//! SQF-VBR leaves this to future work. SQF alone prefers a user that splits its traffic, and fair
//! queueing alone drops part of a video that requires more than an equal part of its user's share;
//! the two levels together do neither. The scenario is
//! [`crate::experiments::users_sqf::scenario`], the bound is derived in `docs/proofs/queues.md`.

mod report;
pub mod scenario;

use std::thread;

use freeboard::sched_core::{FloorShare, Nanos};

use super::{Experiment, Report};
use crate::discipline::{PerUser, UserFlows};
use crate::experiments::home_gateway::MediaStream;
use crate::measure::delay::Delays;
use crate::measure::estimate::Estimate;
use crate::measure::goodput::Loss;
use crate::progress::Progress;
use scenario::{DELAY, MTU, Outcome, RATE, Setup, USERS, VOICE};

/// The experiment `sim reproduce users-sqf`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "users-sqf",
    quick: 2,
    about: "SQF inside users: a user's video beside its own transfers, and users beside each other",
    runs: super::Runs::Whole(run),
};

/// A queue of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    above: PerUser,
    inside: UserFlows,
}

/// `k`: the floor gets one of `k` bytes.
const FLOOR: u32 = 8;

const ROWS: [Row; 8] = [
    Row { name: "FIFO", above: PerUser::Flows, inside: UserFlows::Fifo },
    Row { name: "DRR over flows", above: PerUser::Flows, inside: UserFlows::Drr },
    Row { name: "SQF over flows", above: PerUser::Flows, inside: UserFlows::Sqf },
    Row {
        name: "SQF over flows with floor",
        above: PerUser::Flows,
        inside: UserFlows::SqfWithFloor(FloorShare::EIGHTH),
    },
    Row { name: "DRR over users, DRR inside", above: PerUser::Drr, inside: UserFlows::Drr },
    Row { name: "DRR over users, SQF inside", above: PerUser::Drr, inside: UserFlows::Sqf },
    Row { name: "QFQ over users, SQF inside", above: PerUser::Qfq, inside: UserFlows::Sqf },
    Row {
        name: "DRR over users, SQF with floor",
        above: PerUser::Drr,
        inside: UserFlows::SqfWithFloor(FloorShare::EIGHTH),
    },
];

/// Number of transfers of user B: not split, and split.
const BULK_OF_B: [u32; 2] = [1, 8];

impl Row {
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

/// Results of one row with a number of transfers of user B.
#[derive(Clone, Debug)]
struct Measured {
    row: Row,
    bulk_of_b: u32,
    /// User A's share of the link, over the runs; and its maximum difference from one half in any
    /// run.
    share: Estimate,
    off_half: f64,
    /// Minimum and maximum share of user B in any run.
    of_b: [f64; 2],
    video: Stream,
    call: Stream,
    /// Goodput of user A's transfers in Mbit/s, over the runs.
    bulk: Estimate,
    balanced: bool,
}

/// A stream over all runs.
#[derive(Clone, Debug, Default)]
struct Stream {
    delays: Delays,
    loss: Loss,
    /// Maximum loss ratio in any run.
    worst_loss: f64,
}

impl Stream {
    fn of<'a>(runs: impl Iterator<Item = &'a MediaStream>) -> Self {
        runs.fold(Self::default(), |mut sum, run| {
            let loss = run.loss();
            sum.worst_loss = sum.worst_loss.max(loss.ratio());
            sum.loss = Loss { sent: sum.loss.sent + loss.sent, lost: sum.loss.lost + loss.lost };
            for &delay in run.delays().samples() {
                sum.delays.record(delay);
            }
            sum
        })
    }

    fn max(&self) -> Option<Nanos> {
        Some(self.delays.summary()?.max)
    }
}

fn run(seeds: u32, progress: &Progress) -> Report {
    progress.expect((ROWS.len() * BULK_OF_B.len()) as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let runs: Vec<_> = ROWS
            .into_iter()
            .flat_map(|row| BULK_OF_B.map(|bulk_of_b| (row, bulk_of_b)))
            .map(|(row, bulk_of_b)| scope.spawn(move || measure(row, bulk_of_b, seeds, progress)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    report::report(&measured, seeds)
}

fn measure(row: Row, bulk_of_b: u32, seeds: u32, progress: &Progress) -> Measured {
    let Row { above, inside, .. } = row;
    let one = |seed| {
        let setup = Setup { above, inside, bulk_of_b, seed };
        let outcome = scenario::run(&setup);
        progress.done();
        outcome.expect("lengths and the floor are within their ranges")
    };
    let outcomes: Vec<Outcome> = (1..=u64::from(seeds)).map(one).collect();
    let each = |of: &dyn Fn(&Outcome) -> f64| {
        let values: Vec<f64> = outcomes.iter().map(of).collect();
        Estimate::of(&values).expect("there are runs")
    };
    let off = outcomes.iter().map(|outcome| (outcome.share_of_a() - 0.5).abs());
    let of_b = || outcomes.iter().map(|outcome| 1.0 - outcome.share_of_a());
    Measured {
        row,
        bulk_of_b,
        share: each(&Outcome::share_of_a),
        off_half: off.fold(0.0, f64::max),
        of_b: [of_b().fold(1.0, f64::min), of_b().fold(0.0, f64::max)],
        video: Stream::of(outcomes.iter().map(|outcome| &outcome.video)),
        call: Stream::of(outcomes.iter().map(|outcome| &outcome.call)),
        bulk: each(&|outcome| outcome.bulk_of_a as f64 / 1e6),
        balanced: outcomes.iter().all(|outcome| outcome.recount.is_ok()),
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
            let row = ROWS.into_iter().find(|row| row.name == name).unwrap();
            Some(row.bound()?.since(DELAY).0 / 800)
        };
        assert_eq!(bound("FIFO"), None);
        assert_eq!(bound("DRR over users, DRR inside"), None);
        assert_eq!(bound("SQF over flows"), Some(1_700));
        assert_eq!(bound("SQF over flows with floor"), Some(3_414));
        assert_eq!(bound("DRR over users, SQF inside"), Some(5_998 + 3_000 + 200));
        assert_eq!(bound("DRR over users, SQF with floor"), Some(5_998 + 6_428 + 200));
    }
}
