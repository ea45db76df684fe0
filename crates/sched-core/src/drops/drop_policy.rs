//! Which flow gives way when there is no room: apart from which flow is served next.

use crate::flow_scheduler::{DropFrom, FlowScheduler, FlowState};
use crate::{FlowId, Imbalance, Limits};

/// Names the flow that gives way, beside a flow scheduler `O` that names the flow that is served.
///
/// [`FlowQueues`](crate::FlowQueues) holds both and tells both of the same packets, the flow
/// scheduler first. A flow is *backlogged* from [`DropPolicy::backlogged`] until a
/// [`DropPolicy::served`] or [`DropPolicy::lost`] says that nothing is left. Calls that contradict
/// this change nothing. Every call takes time that does not depend on what is queued. The provided
/// methods are those of a policy without tables of its own.
///
/// ```
/// use sched_core::{
///     Descriptor, DropFrom, DropPolicy, Drr, DrrFlow, FlowId, FlowQueues, FlowScheduler, FlowState, Imbalance, Limits,
///     Nanos, Packet, Queue, Scheduler,
/// };
///
/// /// Flow 0 gives way to every other: it carries what can be sent again. The field: whether flow 0 holds packets.
/// struct FirstFlow(bool);
///
/// impl<O: FlowScheduler> DropPolicy<O> for FirstFlow {
///     fn backlogged(&mut self, _: &O, flow: FlowId, _len: u32) {
///         self.0 |= flow == FlowId(0);
///     }
///     fn grew(&mut self, _: FlowId, _len: u32, _held: u32) {}
///     fn served(&mut self, flow: FlowId, _len: u32, left: u32) {
///         self.0 &= flow != FlowId(0) || left > 0;
///     }
///     fn lost(&mut self, flow: FlowId, _len: u32, left: u32) {
///         self.0 &= flow != FlowId(0) || left > 0;
///     }
///     fn removed(&mut self, flow: FlowId) {
///         self.0 &= flow != FlowId(0);
///     }
///     fn victim(&self, _: &O, _held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)> {
///         self.0.then_some((FlowId(0), DropFrom::Head))
///     }
///     fn recount(&self, _: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
///         let holds = flows(FlowId(0)).backlog.packets > 0;
///         Imbalance::check("flow 0 holds packets", 0, self.0.into(), holds.into())
///     }
/// }
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let queues = FlowQueues::with_own_victim(
///     drr,
///     [Queue::EMPTY; 2],
///     [Descriptor::EMPTY; 8],
///     Limits::packets(2),
/// );
/// let mut queues = queues.with_drop_policy(FirstFlow(false));
/// let mut dropped = Vec::new();
/// for (handle, flow) in [(5, 0), (6, 1), (7, 1)] {
///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(dropped, [5]);
/// queues.recount().expect("the books of the policy are true");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait DropPolicy<O: ?Sized> {
    /// Flows are numbered below this where the policy has books of its own; a flow without room
    /// takes no packets. `None`: there is room for every flow of the scheduler.
    #[inline]
    fn room(&self) -> Option<u32> {
        None
    }

    /// The queues keep `limits` from now on, of which that in packets is the number of descriptors
    /// at most. [`FlowQueues`](crate::FlowQueues) says so when it is given the policy, and in
    /// [`Scheduler::set_limits`](crate::Scheduler::set_limits) before it drops packets to keep
    /// lower limits. A policy whose precision follows the limits may take time for each flow or
    /// host here. [`Classes`](crate::Classes) sets other limits for the moment of a packet for
    /// which the node has no room.
    #[inline]
    fn limits_changed(&mut self, limits: Limits) {
        let _ = limits;
    }

    /// `flow` was idle and now holds one packet, of `len` bytes.
    fn backlogged(&mut self, scheduler: &O, flow: FlowId, len: u32);

    /// `flow`, backlogged, holds `len` bytes more, in one packet or several: `held` in all.
    fn grew(&mut self, flow: FlowId, len: u32, held: u32);

    /// `flow` has sent `len` bytes, and `left` are left: 0 if and only if the flow is idle.
    fn served(&mut self, flow: FlowId, len: u32, left: u32);

    /// `flow` has lost `len` bytes without service, and `left` are left: 0 if and only if the flow
    /// is idle.
    fn lost(&mut self, flow: FlowId, len: u32, left: u32);

    /// `flow`, idle, was removed: the next flow of that number is another one. A second call
    /// changes nothing.
    #[inline]
    fn removed(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// The flow that gives way when there is no room, and at which end: `None` means the arrival.
    /// `held` says how many bytes a flow holds.
    fn victim(&self, scheduler: &O, held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)>;

    /// Whether `flow`, which [`DropPolicy::victim`] has just named because an arrival needs room,
    /// is to lose all that it holds, and not only what there is no room for.
    ///
    /// [`FlowQueues`](crate::FlowQueues) then drops its queue from the head, with
    /// [`DropReason::Unserved`](crate::DropReason::Unserved): all of it but the arrival, as far as
    /// one call may drop packets. It is not asked when a limit is lowered.
    #[inline]
    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        let _ = (scheduler, flow);
        false
    }

    /// Compares the policy's books with `flows`, which says what a flow really holds. For tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// The flow that the flow scheduler itself names ([`FlowScheduler::victim`]), for one that knows
/// the longest queue already, as [`ShortestQueue`](crate::ShortestQueue) does. Most name none: then
/// the arrival gives way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnVictim;

impl<O: FlowScheduler + ?Sized> DropPolicy<O> for OwnVictim {
    #[inline]
    fn backlogged(&mut self, _scheduler: &O, _flow: FlowId, _len: u32) {}

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32, _held: u32) {}

    #[inline]
    fn served(&mut self, _flow: FlowId, _len: u32, _left: u32) {}

    #[inline]
    fn lost(&mut self, _flow: FlowId, _len: u32, _left: u32) {}

    #[inline]
    fn victim(&self, scheduler: &O, _held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)> {
        scheduler.victim()
    }

    #[inline]
    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        scheduler.gives_up(flow)
    }

    fn recount(
        &self,
        _scheduler: &O,
        _flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        Ok(())
    }
}
