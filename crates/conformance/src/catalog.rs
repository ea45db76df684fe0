//! A catalogue of every discipline, independent of the memory it is built in.
//!
//! A *recipe* is a discipline with its options, but without memory: [`FlowRecipe`] builds a flow
//! scheduler, [`QueuesRecipe`] a flow scheduler with its drop policy, [`Recipe`] a packet
//! scheduler. Tables come from a [`Memory`]: arrays, or boxes where there is a heap.
//!
//! Three lists name the recipes: [`flow_schedulers!`](crate::flow_schedulers),
//! [`schedulers!`](crate::schedulers) and [`compositions!`](crate::compositions). A list passes all
//! its entries to a macro of the caller. The comparisons with reference models, the fuzz target
//! `ops_catalog`, the recorded runs of the crate `golden` and of `firmware/trace`, the link check
//! of `firmware/panic-free` and the benches use these lists, so one entry adds a discipline
//! everywhere. A discipline of a new type also needs a recipe here and a reference model in
//! [`sides`](crate::sides).

mod aqms;
mod flows;
mod lists;
mod memory;
mod queues;
mod setting;
mod tins;

use freeboard::sched_core::{DropPolicy, FlowScheduler, Limits, OwnVictim, Scheduler};

pub use aqms::{AqmRecipe, Blue, CeThreshold, ChosenAqm, CoDel, Cobalt, Pi2, Pie, Red, WithoutAqm};
pub use flows::{
    Age, CoarseShortestQueue, Drr, Floor, FlooredShortestQueue, LongestQueue, Qfq, QfqPlus,
    ShortestQueue, Wf2q,
};
pub use lists::entry;
pub use memory::{Arrays, Memory, Part, Parts, Room};
#[cfg(feature = "std")]
pub use memory::{Boxes, Vecs};
pub use queues::{
    ByHash, DualPi2, Fifo, IsolatedHosts, Measured, OneQueue, Queued, Shaped, Smart, Tree, queues,
};
pub use setting::{Dial, Setting};
pub use tins::{ByNumber, IsolatedTins, SmartTins};

/// A recipe for a flow scheduler.
pub trait FlowRecipe: Copy + core::fmt::Debug {
    /// The flow scheduler with its flow tables in `F`.
    type Output<F: Memory>: FlowScheduler<Config: Dial> + Clone + core::fmt::Debug;

    /// Builds the flow scheduler without flows; `None` if a size or an option is out of range.
    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>>;
}

/// A recipe for a flow scheduler with a drop policy. Every [`FlowRecipe`] is one: the flow
/// scheduler itself selects the drop victim ([`OwnVictim`]).
pub trait QueuesRecipe: Copy + core::fmt::Debug {
    /// Recipe of the flow scheduler.
    type Of: FlowRecipe;
    /// The drop policy with its flow tables in `F`.
    type Policy<F: Memory>: DropPolicy<SchedulerOf<Self, F>> + Clone + core::fmt::Debug;

    /// Returns the recipe of the flow scheduler.
    fn of(self) -> Self::Of;

    /// Builds the drop policy for the flow scheduler `made`, which was built from the same `room`;
    /// `None` if a size is out of range.
    fn policy<F: Memory>(
        self,
        made: &SchedulerOf<Self, F>,
        room: Room<F>,
    ) -> Option<Self::Policy<F>>;
}

/// The flow scheduler of a [`QueuesRecipe`].
pub type SchedulerOf<R, F> = <<R as QueuesRecipe>::Of as FlowRecipe>::Output<F>;

impl<R: FlowRecipe> QueuesRecipe for R {
    type Of = R;
    type Policy<F: Memory> = OwnVictim;

    fn of(self) -> R {
        self
    }

    fn policy<F: Memory>(self, _made: &R::Output<F>, _room: Room<F>) -> Option<OwnVictim> {
        Some(OwnVictim)
    }
}

/// A recipe for a packet scheduler.
pub trait Recipe: Copy + core::fmt::Debug {
    /// The scheduler with its flow tables in `F` and its packet tables in `S`.
    type Output<F: Memory, S: Memory>: Scheduler;

    /// Builds the empty scheduler; `None` if a size or an option is out of range.
    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>>;

    /// Adds every flow that a caller has to add, configured as in [`Room::setting`]; `None` if the
    /// scheduler rejects one. Does nothing for schedulers without explicit flows.
    fn add_flows<F: Memory, S: Memory>(
        _made: &mut Self::Output<F, S>,
        _room: Room<F>,
    ) -> Option<()> {
        Some(())
    }
}
