//! Every discipline, once: how it is assembled, in whatever memory.
//!
//! A *recipe* is a discipline with its options, but without memory: [`FlowRecipe`] makes a flow
//! scheduler, [`QueuesRecipe`] a flow scheduler and the drop policy beside it, [`Recipe`] a scheduler with packets. Memory is made by a [`Memory`]: arrays, or boxes where there is a heap.
//!
//! Three lists name the recipes: [`flow_schedulers!`](crate::flow_schedulers),
//! [`schedulers!`](crate::schedulers) and [`compositions!`](crate::compositions). A list hands all
//! its entries to a macro of the caller. The comparisons with the twins, the fuzz target
//! `ops_catalog`, the pinned runs of the crate `golden` and of `firmware/trace`, the link check of
//! `firmware/panic-free` and the benches read them, so a discipline is added by one entry. It needs
//! a recipe here and a twin in [`sides`](crate::sides) if it is of a new type.

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

/// A flow scheduler without memory.
pub trait FlowRecipe: Copy + core::fmt::Debug {
    /// The flow scheduler with the tables of its flows in `F`.
    type Output<F: Memory>: FlowScheduler<Config: Dial> + Clone + core::fmt::Debug;

    /// The flow scheduler in this room, without flows; `None` if a size or an option is out of its
    /// range.
    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>>;
}

/// A flow scheduler and the drop policy beside it, without memory. Every [`FlowRecipe`] is one: the
/// flow that its flow scheduler names gives way ([`OwnVictim`]).
pub trait QueuesRecipe: Copy + core::fmt::Debug {
    /// The flow scheduler.
    type Of: FlowRecipe;
    /// The drop policy with the tables of its flows in `F`.
    type Policy<F: Memory>: DropPolicy<SchedulerOf<Self, F>> + Clone + core::fmt::Debug;

    /// The recipe of the flow scheduler.
    fn of(self) -> Self::Of;

    /// The drop policy in this room, beside the flow scheduler `made` in the same room; `None` if a
    /// size is out of its range.
    fn policy<F: Memory>(
        self,
        made: &SchedulerOf<Self, F>,
        room: Room<F>,
    ) -> Option<Self::Policy<F>>;
}

/// The flow scheduler of a recipe of queues.
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

/// A scheduler of packets without memory.
pub trait Recipe: Copy + core::fmt::Debug {
    /// The scheduler with the tables of its flows in `F` and those of its packets in `S`.
    type Output<F: Memory, S: Memory>: Scheduler;

    /// The empty scheduler in this room; `None` if a size or an option is out of its range.
    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>>;

    /// Adds every flow that a caller would have to add, configured as [`Room::setting`] says;
    /// `None` if the scheduler refuses one. Does nothing where no flow has to be added.
    fn add_flows<F: Memory, S: Memory>(
        _made: &mut Self::Output<F, S>,
        _room: Room<F>,
    ) -> Option<()> {
        Some(())
    }
}
