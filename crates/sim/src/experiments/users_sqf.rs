//! SQF inside users: fair queueing between users and shortest queue first among the flows of each.
//!
//! SQF-VBR leaves this to future work. SQF alone prefers a user that splits its traffic, and fair
//! queueing alone drops part of a video that requires more than an equal part of its user's share;
//! the two levels together do neither. The scenario is
//! [`crate::experiments::users_sqf::scenario`], the bound is derived in `docs/proofs/queues.md`.

mod report;
pub mod scenario;

use super::Experiment;
use super::harness::Functions;
use crate::discipline::{PerUser, UserFlows};
use report::report;
use scenario::{Cell, run};

/// The experiment `sim reproduce users-sqf`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "users-sqf",
    quick: 2,
    about: "SQF inside users: a user's video beside its own transfers, and users beside each other",
    runs: &Functions { cells, run, report },
};

const QUEUES: [(&str, PerUser, UserFlows); 8] = [
    ("FIFO", PerUser::Flows, UserFlows::Fifo),
    ("DRR over flows", PerUser::Flows, UserFlows::Drr),
    ("SQF over flows", PerUser::Flows, UserFlows::Sqf),
    ("SQF over flows with floor", PerUser::Flows, UserFlows::SqfWithFloor),
    ("DRR over users, DRR inside", PerUser::Drr, UserFlows::Drr),
    ("DRR over users, SQF inside", PerUser::Drr, UserFlows::Sqf),
    ("QFQ over users, SQF inside", PerUser::Qfq, UserFlows::Sqf),
    ("DRR over users, SQF with floor", PerUser::Drr, UserFlows::SqfWithFloor),
];

/// Number of transfers of user B: not split, and split.
const BULK_OF_B: [u32; 2] = [1, 8];

fn cells() -> Vec<Cell> {
    let cell =
        |(name, above, inside)| BULK_OF_B.map(|bulk_of_b| Cell { name, above, inside, bulk_of_b });
    QUEUES.into_iter().flat_map(cell).collect()
}
