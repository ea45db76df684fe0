//! The [`DropPolicy`] trait: selects the flow to drop from when full, independently of scheduling.

use crate::flow_scheduler::{DropFrom, FlowScheduler, FlowState};
use crate::{FlowId, Imbalance, Limits};

/// Selects the flow to drop from when the queue is full, next to a flow scheduler `O`.
///
/// [`FlowQueues`](crate::FlowQueues) holds both and notifies both of the same packets, the flow
/// scheduler first. A flow is *backlogged* from [`DropPolicy::backlogged`] until
/// [`DropPolicy::served`] or [`DropPolicy::lost`] reports that its queue is empty. Calls that
/// contradict this change nothing. The time of a call does not depend on the backlog. The provided
/// methods are those of a policy without tables of its own.
///
/// ```
/// use sched_core::{
///     Descriptor, DropFrom, DropPolicy, Drr, DrrFlow, FlowId, FlowQueues, FlowScheduler,
///     FlowState, Imbalance, Limits, Nanos, Packet, Queue, Scheduler,
/// };
///
/// /// Drops from flow 0 first. The field is true while flow 0 holds packets.
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
/// queues.recount().expect("the policy accounts correctly");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait DropPolicy<O: ?Sized> {
    /// Returns the number of flows for which the policy has table entries; flows beyond it accept
    /// no packets. `None`: as many as the scheduler has flows.
    #[inline]
    fn room(&self) -> Option<u32> {
        None
    }

    /// Notifies that the queues keep `limits` from now on, with at most as many packets as there
    /// are descriptors. [`FlowQueues`](crate::FlowQueues) calls this when it receives the policy,
    /// and in [`Scheduler::set_limits`](crate::Scheduler::set_limits) before it drops packets. A
    /// policy whose precision depends on the limits may take O(flows) or O(hosts) time here.
    /// [`Classes`](crate::Classes) sets other limits temporarily for a packet that exceeds the
    /// node's limits.
    #[inline]
    fn limits_changed(&mut self, limits: Limits) {
        let _ = limits;
    }

    /// Notifies that `flow` was idle and now holds one packet, of `len` bytes.
    fn backlogged(&mut self, scheduler: &O, flow: FlowId, len: u32);

    /// Notifies that `flow`, already backlogged, received `len` bytes in one or more packets and
    /// now holds `held`.
    fn grew(&mut self, flow: FlowId, len: u32, held: u32);

    /// Notifies that `flow` has sent `len` bytes and holds `left`: 0 if and only if the flow is
    /// idle.
    fn served(&mut self, flow: FlowId, len: u32, left: u32);

    /// Notifies that `flow` has lost `len` bytes without service and holds `left`: 0 if and only if
    /// the flow is idle.
    fn lost(&mut self, flow: FlowId, len: u32, left: u32);

    /// Notifies that `flow`, idle, was removed: a flow added later under this number is a different
    /// one. A second call changes nothing.
    #[inline]
    fn removed(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// Returns the flow to drop from, and the end to drop at; `None` rejects the arriving packet.
    /// `held` returns the bytes that a flow holds.
    fn victim(&self, scheduler: &O, held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)>;

    /// Returns true if `flow` should lose its whole queue and not only as much as the arriving
    /// packet needs. Called right after [`DropPolicy::victim`] has returned `flow` on an arrival.
    ///
    /// [`FlowQueues`](crate::FlowQueues) then drops the queue from the head, with
    /// [`DropReason::Unserved`](crate::DropReason::Unserved): all of it except the arriving packet,
    /// up to the number of packets that one call may drop. Not called when a limit is lowered.
    #[inline]
    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        let _ = (scheduler, flow);
        false
    }

    /// Compares the policy's accounting with `flows`, which returns what a flow really holds. For
    /// tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// Drops from the flow scheduler's own victim ([`FlowScheduler::victim`]), for a scheduler that
/// already knows the longest queue, such as [`ShortestQueue`](crate::ShortestQueue). Most have no
/// victim: then the arriving packet is dropped.
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
