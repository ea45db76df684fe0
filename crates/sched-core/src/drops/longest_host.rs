//! Longest-queue drop by host: a host that holds about the most bytes gives way, whatever flows it
//! opens.
//!
//! As [`LongestQueueDrop`](crate::LongestQueueDrop) protects a flow from longer ones,
//! [`LongestHostDrop`] protects a host from those that hold more, so that a thousand short queues
//! of one host do not push out the longer one of another.
//!
//! Hosts are in classes by the bytes they hold, and the flows of a host likewise. A host
//! stays in its class while it holds a little less too, so that most packets move nothing. A host
//! that holds little is in no class: on a link that is not full most are not.
//!
//! **Promises.** With room for `n` hosts and a limit of `B` bytes, the *grain* is at most `B/4n`,
//! or 2 bytes if that is more, and at most 8 KiB ([`LongestHostDrop::grain`]). The queues tell the
//! policy of their limits ([`DropPolicy::limits_changed`]).
//!
//! - The victim is a flow of a host that holds more than `max` less the larger of the grain and
//!   `2/9·max`, where `max` is the most that a host holds; and more than `max/8`, whatever the
//!   grain. Hosts of one class give way in turn.
//! - Of this host's flows the victim is one in the highest class: powers of four from 512 bytes on.
//!   In a class the flow gives way that came there, or lost a packet without service there, least
//!   recently: alike flows in turn. So the victim holds more than an eighth of what the host's
//!   longest flow holds. Flows below 512 bytes are not told apart, nor are those from 1 MiB on.
//! - With `H` hosts that hold packets, a host that loses a packet to another's overflow holds more
//!   than its part `B/H`, less the larger of the grain and `2/9·B/H`. So it holds more than three
//!   quarters of its part. For all hosts together hold more than `B`, so that one holds more than
//!   `B/H`; and the grain is at most a quarter of `B/H`.
//! - A host that keeps below this, less `L`, with packets of at most `L` bytes, loses no arrival of
//!   its own either.
//! - A limit in packets promises nothing of the two last. There is a victim all the same where as
//!   many packets are held as it permits, of 20 bytes or more in the mean. Without one an arrival
//!   is rejected.
//!
//! A flow without a host ([`Hosted::host_of`]) counts among all such flows, from which
//! packets are dropped where no host is in a class. No books of hosts are kept for them.
//!
//! **Cost.** O(1) a call, beside what the flow scheduler costs. Memory: 8 bytes a flow, 32 a host,
//! and 512 for the classes of hosts. There is room for 65,535 flows and as many hosts.
//!
//! **Source.** Longest-queue drop by flow: SQF §2. Hosts before flows: the isolation of CAKE §III.
//! Longest-queue drop with a bounded error: Hahne et al., SPAA 2001; Antoniadis et al., ICALP 2021.
//! The classes and their marks are this library's.

mod held_flow;
mod held_host;
mod ring;

pub use held_flow::HeldFlow;
pub use held_host::{HeldHost, HostClasses};

use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{ConfigError, DropFrom, FlowState, Table};
use crate::hosts::hosted::Hosted;
use crate::{Backlog, FlowId, Imbalance, Limits};
use held_flow::FLOW_CLASSES;
use held_host::HostIndex;
use ring::Head;

/// A flow of a host that holds about the most bytes is the victim; books of flows in the memory
/// `F`, of hosts in `H`, of classes of hosts in `C`.
///
/// A flow counts for the host that the flow scheduler names when it becomes backlogged. A victim
/// that the flow scheduler would name is not asked for.
///
/// ```
/// use sched_core::{
///     DropFrom, DropPolicy, FlowId, HeldFlow, HeldHost, HostClasses, Hosted, Limits, LongestHostDrop,
/// };
///
/// /// Flows 0 to 2 are of host 0, flow 3 is of host 1.
/// struct Houses;
///
/// impl Hosted for Houses {
///     fn host_of(&self, flow: FlowId) -> Option<u32> {
///         Some(u32::from(flow.0 == 3))
///     }
///     fn hosts(&self) -> u32 {
///         2
///     }
/// }
///
/// let (hosts, classes) = ([HeldHost::EMPTY; 2], [HostClasses::EMPTY]);
/// let limits = Limits { packets: 8, bytes: 100_000 };
/// let mut policy = LongestHostDrop::new(Houses.hosts(), limits, [HeldFlow::EMPTY; 4], hosts, classes)?;
/// for (flow, bytes) in [(0, 20_000), (1, 20_000), (2, 25_000), (3, 40_000)] {
///     policy.backlogged(&Houses, FlowId(flow), bytes);
/// }
/// // Flow 3 has the longest queue, but the flows of host 0 hold 65,000 bytes together.
/// let held = |_| unreachable!("the policy has books of its own");
/// assert_eq!(policy.victim(&Houses, &held), Some((FlowId(0), DropFrom::Head)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)] // The flows not first, as in `HostIndex`.
pub struct LongestHostDrop<F, H, C> {
    /// Of each host as many bytes as its flows hold. Each backlogged flow is on the list of its
    /// class, of its host.
    hosts: HostIndex<H, C>,
    flows: F,
    drop_from: DropFrom,
}

crate::debug::short_debug!(LongestHostDrop < F, H, C > { drop_from });

impl<F, H, C> LongestHostDrop<F, H, C>
where
    F: Table<HeldFlow>,
    H: Table<HeldHost>,
    C: Table<HostClasses>,
{
    /// Longest-queue drop by host beside a flow scheduler of so many `known` hosts, for as many
    /// flows as `flows` is long, within `limits`. Packets give way at the head. Cost: O(flows +
    /// hosts).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for more than 65,535 flows or hosts, if `hosts` are fewer than
    /// `known`, or if there is no room for classes.
    pub fn new(
        known: u32,
        limits: Limits,
        mut flows: F,
        hosts: H,
        classes: C,
    ) -> Result<Self, ConfigError> {
        let room = hosts.as_ref().len() as u64;
        ConfigError::check_range("room for hosts", room, known.into(), HeldFlow::NO_HOST.into())?;
        let room = flows.as_ref().len() as u64;
        ConfigError::check_range("room for flows", room, 0, ring::MOST.into())?;
        let hosts = HostIndex::new(hosts, classes, limits)?;
        flows.as_mut().fill(HeldFlow::IDLE);
        Ok(Self { flows, hosts, drop_from: DropFrom::Head })
    }

    /// How much less than the most the host that gives way may hold, in bytes, where that is more
    /// than `2/9` of the most. A quarter of the part of a host, where all hosts there is room for
    /// share the limit in bytes, or the next power of two below; at least 2 and at most 8,192.
    #[must_use]
    pub const fn grain(&self) -> u32 {
        self.hosts.grain()
    }

    /// Which packet of the victim gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// `flow` holds `len` bytes more, `held` in all, if it is backlogged. In line, like
    /// [`Self::shrink`]: what crosses no mark is little work.
    #[inline(always)]
    fn grow(&mut self, flow: FlowId, len: u32, held: u32) {
        let Some(entry) = self.flows.as_ref().get(flow.index()) else { return };
        if entry.is_above(held) {
            return self.grow_above(flow, len, held);
        }
        self.hosts.raise(entry.host(), len);
    }

    /// `flow` holds `len` bytes less, `left` in all, if it is backlogged.
    #[inline(always)]
    fn shrink(&mut self, flow: FlowId, len: u32, left: u32) {
        let Some(entry) = self.flows.as_ref().get(flow.index()) else { return };
        if entry.is_below(left) {
            return self.shrink_below(flow, len, left);
        }
        self.hosts.lower(entry.host(), len);
    }

    /// [`Self::grow`], where the flow reached the upper mark of its class, or is idle.
    #[inline(never)]
    fn grow_above(&mut self, flow: FlowId, len: u32, held: u32) {
        let host = self.reclass(flow, held);
        self.hosts.raise(host, len);
    }

    /// [`Self::shrink`], where the flow is below the lower mark of its class. Idle is the frequent
    /// case.
    #[inline(never)]
    fn shrink_below(&mut self, flow: FlowId, len: u32, left: u32) {
        if left != 0 {
            return self.shrink_and_reclass(flow, len, left);
        }
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        let before = core::mem::replace(entry, HeldFlow::IDLE);
        if let Some(list) = self.hosts.list_of(before) {
            list.unlink(flows, flow.0, before.links);
        }
        self.hosts.lower(before.host(), len);
    }

    #[inline(never)]
    fn shrink_and_reclass(&mut self, flow: FlowId, len: u32, left: u32) {
        let host = self.reclass(flow, left);
        self.hosts.lower(host, len);
    }

    /// Moves `flow`, if it is backlogged, to the class of the `bytes` it holds now; returns its
    /// host.
    #[inline(always)]
    fn reclass(&mut self, flow: FlowId, bytes: u32) -> u32 {
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get_mut(flow.index()) else { return HeldFlow::NO_HOST };
        let (before, host) = (*entry, entry.host());
        let after = HeldFlow::of(host, bytes);
        if before.is_backlogged() && before.class() != after.class() {
            *entry = after;
            let lists = self.hosts.lists_of(host);
            if let Some(list) = lists.get_mut(before.class() as usize) {
                list.unlink(flows, flow.0, before.links);
            }
            if let Some(list) = lists.get_mut(after.class() as usize) {
                list.append(flows, flow.0);
            }
        }
        host
    }

    /// Puts `flow`, if it is backlogged, behind the others of its class and its host.
    fn turn(&mut self, flow: FlowId) {
        let flows = self.flows.as_mut();
        let Some(&held) = flows.get(flow.index()) else { return };
        if held.is_backlogged()
            && let Some(list) = self.hosts.list_of(held)
        {
            list.turn(flows, flow.0, held.links);
        }
    }

    /// What the flows in `lists` hold, which are those of `host`, each checked; `bytes` says what a
    /// flow really holds.
    fn recount_host(
        &self,
        scheduler: &(impl Hosted + ?Sized),
        bytes: &dyn Fn(FlowId) -> u32,
        host: Option<u32>,
        lists: &[Head; FLOW_CLASSES],
    ) -> Result<Backlog, Imbalance> {
        let mut held = Backlog::default();
        let number = host.unwrap_or(HeldFlow::NO_HOST);
        for (class, list) in (0_u32..).zip(lists) {
            list.recount(self.flows.as_ref(), &mut |flow, found| {
                let bytes = bytes(FlowId(flow));
                let booked = found.host().into();
                Imbalance::check("the host of a flow", flow, booked, number.into())?;
                Imbalance::check("the class of a flow", flow, found.class().into(), class.into())?;
                let moves = found.moves(bytes);
                Imbalance::check("a flow beyond its marks", flow, moves.into(), 0)?;
                let known = u64::from(scheduler.host_of(FlowId(flow)) == host);
                Imbalance::check("the host that the scheduler names", flow, 1, known)?;
                held.packets = held.packets.wrapping_add(1);
                held.bytes = held.bytes.wrapping_add(bytes);
                Ok(())
            })?;
        }
        Ok(held)
    }
}

impl<O, F, H, C> DropPolicy<O> for LongestHostDrop<F, H, C>
where
    O: Hosted + ?Sized,
    F: Table<HeldFlow>,
    H: Table<HeldHost>,
    C: Table<HostClasses>,
{
    fn room(&self) -> Option<u32> {
        Some(u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX))
    }

    /// Fits the grain to the limits. What is booked stays, and the hosts of a new class keep their
    /// turns. Cost: O(hosts) where the grain changes.
    fn limits_changed(&mut self, limits: Limits) {
        self.hosts.set_limits(limits);
    }

    fn backlogged(&mut self, scheduler: &O, flow: FlowId, len: u32) {
        let host = scheduler.host_of(flow).unwrap_or(HeldFlow::NO_HOST);
        let Some(entry) = self.flows.as_mut().get_mut(flow.index()) else { return };
        // A flow that is backlogged already, or with nothing, is none that became backlogged.
        if entry.is_backlogged() || len == 0 {
            return;
        }
        let now = entry.begin(host, len);
        if let Some(list) = self.hosts.list_of(now) {
            list.append(self.flows.as_mut(), flow.0);
        }
        self.hosts.raise(host, len);
    }

    #[inline(always)]
    fn grew(&mut self, flow: FlowId, len: u32, held: u32) {
        self.grow(flow, len, held);
    }

    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, left: u32) {
        self.shrink(flow, len, left);
    }

    fn lost(&mut self, flow: FlowId, len: u32, left: u32) {
        let Some(&before) = self.flows.as_ref().get(flow.index()) else { return };
        if before.is_backlogged() {
            self.shrink(flow, len, left);
            self.turn(flow);
            self.hosts.turn(before.host());
        }
    }

    /// An idle flow is in no books.
    fn removed(&mut self, _flow: FlowId) {}

    fn victim(&self, _scheduler: &O, _held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)> {
        let lists = self.hosts.first().map_or(self.hosts.hostless(), |host| &host.flows);
        let flow = lists.iter().rev().find_map(|list| list.first())?;
        Some((FlowId(flow), self.drop_from))
    }

    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let bytes = |flow: FlowId| flows(flow).backlog.bytes;
        let mut backlogged = 0_u64;
        for (at, held) in (0_u32..).zip(self.flows.as_ref()) {
            let (booked, holds) = (held.is_backlogged(), bytes(FlowId(at)) != 0);
            Imbalance::check("a flow that holds packets", at, booked.into(), holds.into())?;
            let is_hostless = held.host() == HeldFlow::NO_HOST;
            Imbalance::check("an idle flow of no host", at, 1, (booked || is_hostless).into())?;
            backlogged = backlogged.wrapping_add(booked.into());
        }
        let hostless = self.recount_host(scheduler, &bytes, None, self.hosts.hostless())?;
        let mut listed = u64::from(hostless.packets);
        for (at, host) in (0_u32..).zip(self.hosts.hosts()) {
            let held = self.recount_host(scheduler, &bytes, Some(at), &host.flows)?;
            Imbalance::check("bytes of a host", at, host.bytes.into(), held.bytes.into())?;
            listed = listed.wrapping_add(held.packets.into());
        }
        Imbalance::check("flows in a class", 0, backlogged, listed)?;
        self.hosts.recount()
    }
}

#[cfg(test)]
mod tests;
