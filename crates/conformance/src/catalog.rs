//! Every discipline, once: how it is assembled, in whatever memory.
//!
//! A *recipe* is a discipline with its options, but without memory: [`FlowRecipe`] makes a flow scheduler, [`Recipe`] a
//! scheduler with packets. Memory is made by a [`Memory`]: arrays, or boxes where there is a heap.
//!
//! Three lists name the recipes: [`flow_schedulers!`](crate::flow_schedulers), [`schedulers!`](crate::schedulers) and
//! [`compositions!`](crate::compositions). A list hands all its entries to a macro of the caller. The comparisons with the
//! twins, the fuzz target `ops_catalog`, the pinned runs of the crate `golden` and of `firmware/trace`, the link check of
//! `firmware/panic-free` and the benches read them, so a discipline is added by one entry. It needs a recipe here and a
//! twin in [`sides`](crate::sides) if it is of a new type.

mod aqms;
mod flows;
mod hosts;
mod lists;
mod memory;
mod queues;
mod setting;

use freeboard::sched_core::{FlowId, FlowScheduler, Hosted, Limits, Scheduler};

pub use aqms::{AqmRecipe, CoDel, WithoutAqm};
pub use flows::{
    Drr, Floor, FlooredShortestQueue, LongestQueue, Qfq, QfqPlus, ShortestQueue, Wf2q,
};
pub use hosts::{ByHost, Ceilings, CommittedRates, HostDrr, LoadDrr, LongestHost};
pub use lists::entry;
pub use memory::{Arrays, Memory, Part, Parts, Room};
#[cfg(feature = "std")]
pub use memory::{Boxes, Vecs};
pub use queues::{
    ByHash, Fifo, FlooredVirtualQueues, IsolatedHosts, Measured, Queued, Shaped, Smart, Tree,
    VirtualQueues, queues,
};
pub use setting::{Dial, Setting};

/// A flow scheduler without memory.
pub trait FlowRecipe: Copy + core::fmt::Debug {
    /// The flow scheduler with the tables of its flows in `F` and those of its hosts in `H`.
    type Made<F: Memory, H: Memory>: FlowScheduler<Config: Dial> + Clone + core::fmt::Debug;

    /// The flow scheduler in this room, without flows; `None` if a size or an option is out of its range.
    fn flow_scheduler<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>>;

    /// Says the hosts of an idle flow; does nothing where the flow scheduler knows none.
    fn assign<F: Memory, H: Memory>(_made: &mut Self::Made<F, H>, _flow: FlowId, _hosts: [u32; 2]) {
    }
}

/// A flow scheduler that knows hosts, without memory.
pub trait HostRecipe: Copy + core::fmt::Debug {
    /// The flow scheduler with the tables of its flows in `F` and those of its hosts in `H`.
    type Made<F: Memory, H: Memory>: FlowScheduler<Config: Dial> + Hosted + Clone + core::fmt::Debug;

    /// The flow scheduler in this room, without flows, its hosts added as [`Room::host`] says; `None` if a size or an
    /// option is out of its range.
    fn over_hosts<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>>;

    /// Says the hosts of an idle flow, source and destination; does nothing if they are out of range.
    fn assign<F: Memory, H: Memory>(made: &mut Self::Made<F, H>, flow: FlowId, hosts: [u32; 2]);
}

/// A scheduler of packets without memory.
pub trait Recipe: Copy + core::fmt::Debug {
    /// The scheduler with the tables of its flows in `F`, those of its packets in `S` and those of its hosts in `H`.
    type Made<F: Memory, S: Memory, H: Memory>: Scheduler;

    /// The empty scheduler in this room; `None` if a size or an option is out of its range.
    fn scheduler<F: Memory, S: Memory, H: Memory>(
        self,
        room: Room<F, H>,
        slots: S,
        limits: Limits,
    ) -> Option<Self::Made<F, S, H>>;
}
