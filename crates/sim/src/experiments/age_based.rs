//! Scheduling flows by age: the gain of short flows and the loss of long ones if the least served
//! go first.
//!
//! The first part is one link without round-trip times, flows of bounded Pareto sizes, and the flow
//! schedulers of the library with packets that are small compared with a flow
//! ([`flow_level`](crate::flow_level)). It is compared with queueing theory for processor sharing,
//! two levels, and least attained service. The second part is transfers of model TCP over a link of
//! 1 or 10 Gbit/s ([`transfers`](crate::tcp::transfers)).
//!
//! The guarantees of these flow schedulers are in `docs/disciplines/age.md`.

use super::Experiment;
use super::age_flows::Flows;
use super::age_transfers::Transfers;
use super::harness::Joined;

/// The experiment `sim reproduce age-based`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "age-based",
    quick: 4,
    about: "flows by age: mean times under processor sharing, two levels and least attained service; TCP transfers",
    runs: &Joined(&[&Flows, &Transfers]),
};
