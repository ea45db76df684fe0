//! Longest-queue drop by host: the host that holds the most bytes gives way, whatever flows it opens.
//!
//! As [`LongestQueueDrop`](crate::LongestQueueDrop) protects a flow from longer ones,
//! [`LongestHostDrop`] protects a host from those that hold more, so that a thousand short queues of
//! one host do not push out the longer one of another.
//!
//! **Promises.**
//!
//! - The victim is a flow of the host that holds the most bytes, exactly. Ties go to the lowest host number. If the
//!   number of hosts there is room for, `n`, is no power of two, counting begins at host `2^⌈log2 n⌉ − n`
//!   and wraps around.
//! - Of this host's flows the victim is one in the highest class: a flow with `b` bytes is in class `⌊log2 b⌋`. In
//!   a class the flow that has been there longest gives way. So the victim holds more than half of what the host's
//!   longest flow holds.
//! - With a limit of `B` bytes and `H` hosts that hold packets, a host that loses a packet to another's overflow
//!   holds more than `B/H`. For all hosts together hold more than `B`, and no host holds more than this one.
//! - A host that keeps below `B/H − L`, with packets of at most `L` bytes, loses no arrival of its own either, if no
//!   packet is shorter than `L/256`. Otherwise room for one arrival might take more than
//!   [`MAX_VICTIMS`](crate::FlowQueues::MAX_VICTIMS) others.
//! - A limit in packets promises nothing of this.
//!
//! **Cost.** O(1) a call for the flows, and O(log hosts) for the hosts, mostly one or two steps, beside
//! what the flow scheduler costs. Memory: 16 bytes a flow and 140 a host.
//!
//! **Source.** Longest-queue drop by flow: SQF §2. Hosts before flows: the isolation of CAKE §III. Classes of powers
//! of two in place of the longest flow are this library's: only the level of hosts isolates, so only hosts are
//! compared exactly.

mod classes;
mod max_tree;

pub use classes::{HeldFlow, HostClasses};
pub use max_tree::LongestHost;

use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::hosts::hosted::Hosted;
use crate::{Backlog, FlowId, Imbalance};

/// A flow of the host that holds the most bytes is the victim; books of flows in the memory `F`, of hosts in `H`
/// and `C`.
///
/// A flow counts for the host that the flow scheduler names when it becomes backlogged. A victim that the flow
/// scheduler would name is not asked for.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, HeldFlow, HostClasses, HostDrr, HostDrrFlow, HostRing, Limits,
///     LongestHost, LongestHostDrop, Nanos, Packet, Queue, Scheduler,
/// };
///
/// // Flows 0 to 2 are of host 0, flow 3 is of host 1.
/// let mut of_hosts = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// of_hosts.add_all(1_500)?;
/// let mut scheduler = HostDrr::new(of_hosts, [HostDrrFlow::EMPTY; 4], [HostRing::EMPTY; 2], 1_500)?;
/// scheduler.add_all(1_500)?;
/// scheduler.assign(FlowId(3), 1)?;
/// let (hosts, classes) = ([LongestHost::EMPTY; 2], [HostClasses::EMPTY; 2]);
/// let policy = LongestHostDrop::new(&scheduler, [HeldFlow::EMPTY; 4], hosts, classes)?;
/// let packets = [Descriptor::EMPTY; 8];
/// let queues = FlowQueues::new(scheduler, [Queue::EMPTY; 4], packets, Limits::packets(5));
/// let mut queues = queues.with_drop_policy(policy);
///
/// let mut dropped = Vec::new();
/// for (handle, flow) in [3, 3, 0, 1, 2, 3].into_iter().enumerate() {
///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle as u32, 1_000), drops)?;
/// }
/// // Flow 3 has the longest queue, but each host holds 3,000 bytes with the arrival: ties go to host 0.
/// assert_eq!(dropped, [2]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestHostDrop<F, H, C> {
    /// Of more than zero bytes if and only if backlogged.
    flows: F,
    /// What each host's flows hold together.
    hosts: H,
    /// Each backlogged flow is on the list of its class, of its host.
    classes: C,
    drop_from: DropFrom,
}

impl<F, H, C> LongestHostDrop<F, H, C>
where
    F: Table<HeldFlow>,
    H: Table<LongestHost>,
    C: Table<HostClasses>,
{
    /// Longest-queue drop by host beside `scheduler`, for as many flows as `flows` is long. Packets give way at the
    /// head. Cost: O(flows + hosts).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `hosts` or `classes` are fewer than the hosts of `scheduler`.
    pub fn new(
        scheduler: &impl Hosted,
        mut flows: F,
        mut hosts: H,
        mut classes: C,
    ) -> Result<Self, ConfigError> {
        let (min, max) = (scheduler.hosts().into(), u32::MAX.into());
        let (ranks, lists) = (hosts.as_ref().len() as u64, classes.as_ref().len() as u64);
        ConfigError::check_range("room for hosts", ranks, min, max)?;
        ConfigError::check_range("room for classes of hosts", lists, min, max)?;
        flows.as_mut().fill(HeldFlow::EMPTY);
        LongestHost::clear(hosts.as_mut());
        classes.as_mut().fill(HostClasses::EMPTY);
        Ok(Self { flows, hosts, classes, drop_from: DropFrom::Head })
    }

    /// Which packet of the victim gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// What the flows of `host` hold together, in bytes; 0 if there is no such host.
    #[must_use]
    pub fn bytes_of(&self, host: u32) -> u32 {
        LongestHost::bytes(self.hosts.as_ref(), host)
    }

    /// What `flow` holds, 0 if it is idle.
    fn held(&self, flow: FlowId) -> u32 {
        self.flows.as_ref().get(flow.index()).map_or(0, |held| held.bytes)
    }

    /// `flow` holds `len` bytes more, if it is backlogged. [`Self::grow`] and [`Self::shrink`] are not inlined:
    /// with registers of their own both are cheaper.
    #[inline(never)]
    fn grow(&mut self, flow: FlowId, len: u32) {
        let Some(held) = self.flows.as_mut().get_mut(flow.index()) else { return };
        let (before, host) = (held.bytes, held.host);
        let after = before.wrapping_add(len);
        if after <= len {
            return; // it held nothing, or more than there can be
        }
        held.bytes = after;
        if changes_class(before, after) {
            return self.grow_and_reclass(flow, host, before, len);
        }
        LongestHost::raise(self.hosts.as_mut(), host, len);
    }

    /// `flow` holds `len` bytes less, if it is backlogged with as many.
    #[inline(never)]
    fn shrink(&mut self, flow: FlowId, len: u32) {
        let Some(held) = self.flows.as_mut().get_mut(flow.index()) else { return };
        let (before, host) = (held.bytes, held.host);
        if len > before {
            return;
        }
        let after = before.wrapping_sub(len);
        held.bytes = after;
        if changes_class(before, after) {
            return self.shrink_and_reclass(flow, host, before, len);
        }
        LongestHost::lower(self.hosts.as_mut(), host, len);
    }

    #[inline(never)]
    fn grow_and_reclass(&mut self, flow: FlowId, host: u32, before: u32, len: u32) {
        LongestHost::raise(self.hosts.as_mut(), host, len);
        self.reclass(flow, before);
    }

    #[inline(never)]
    fn shrink_and_reclass(&mut self, flow: FlowId, host: u32, before: u32, len: u32) {
        LongestHost::lower(self.hosts.as_mut(), host, len);
        self.reclass(flow, before);
    }

    /// Moves `flow`, which held `before` bytes, to the class of the bytes it holds now.
    #[inline(always)]
    fn reclass(&mut self, flow: FlowId, before: u32) {
        let flows = self.flows.as_mut();
        if let Some(&held) = flows.get(flow.index())
            && let Some(classes) = self.classes.as_mut().get_mut(held.host as usize)
        {
            classes.reclass(flows, flow.0, before, held);
        }
    }

    /// What the lists of `host` hold, each flow checked against them.
    fn recount_host(
        &self,
        scheduler: &(impl Hosted + ?Sized),
        host: u32,
        classes: &HostClasses,
    ) -> Result<Backlog, Imbalance> {
        let mut held = Backlog::default();
        let flows = self.flows.as_ref();
        classes.recount(flows, host, &mut |flow, found| {
            Imbalance::check("the host of a flow", flow, found.host.into(), host.into())?;
            let named = scheduler.host_of(FlowId(flow)).map_or(u64::MAX, u64::from);
            Imbalance::check("the host that the scheduler names", flow, host.into(), named)?;
            held.packets = held.packets.wrapping_add(1);
            held.bytes = held.bytes.wrapping_add(found.bytes);
            Ok(())
        })?;
        Ok(held)
    }
}

impl<O, F, H, C> DropPolicy<O> for LongestHostDrop<F, H, C>
where
    O: FlowScheduler + Hosted + ?Sized,
    F: Table<HeldFlow>,
    H: Table<LongestHost>,
    C: Table<HostClasses>,
{
    fn room(&self) -> Option<u32> {
        Some(u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX))
    }

    fn backlogged(&mut self, scheduler: &O, flow: FlowId, len: u32) {
        let Some(host) = scheduler.host_of(flow) else { return };
        let Some(held) = self.flows.as_mut().get_mut(flow.index()) else { return };
        if held.bytes != 0 {
            return;
        }
        *held = HeldFlow::of(host, len);
        self.grow_and_reclass(flow, host, 0, len);
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        self.grow(flow, len);
    }

    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, is_idle: bool) {
        self.shrink(flow, if is_idle { self.held(flow) } else { len });
    }

    fn lost(&mut self, flow: FlowId, len: u32, is_idle: bool) {
        self.shrink(flow, if is_idle { self.held(flow) } else { len });
    }

    fn removed(&mut self, flow: FlowId) {
        self.shrink(flow, self.held(flow));
    }

    fn victim(&self, _scheduler: &O) -> Option<(FlowId, DropFrom)> {
        let host = LongestHost::first(self.hosts.as_ref())?;
        let flow = self.classes.as_ref().get(host as usize)?.first_of_highest()?;
        Some((FlowId(flow), self.drop_from))
    }

    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        scheduler.gives_up(flow)
    }

    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut backlogged = 0_u64;
        for (at, held) in (0_u32..).zip(self.flows.as_ref()) {
            let counted = flows(FlowId(at)).backlog.bytes;
            Imbalance::check("bytes of a flow", at, held.bytes.into(), counted.into())?;
            backlogged = backlogged.wrapping_add(u64::from(held.bytes != 0));
        }
        let mut listed = 0_u64;
        for (at, classes) in (0_u32..).zip(self.classes.as_ref()) {
            listed = listed.wrapping_add(self.recount_host(scheduler, at, classes)?.packets.into());
        }
        Imbalance::check("flows in a class", 0, backlogged, listed)?;
        LongestHost::recount(self.hosts.as_ref(), &|host| {
            let classes = self.classes.as_ref().get(host as usize);
            let backlog =
                classes.and_then(|classes| self.recount_host(scheduler, host, classes).ok());
            backlog.unwrap_or_default().bytes
        })
    }
}

/// Whether a flow of `after` bytes is in another class than a flow of `before` bytes: two numbers have the same
/// highest bit if and only if their common bits are a larger number than their different bits.
#[inline]
const fn changes_class(before: u32, after: u32) -> bool {
    before ^ after > before & after
}

#[cfg(test)]
mod tests;
