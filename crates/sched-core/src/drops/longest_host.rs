//! Longest-queue drop by host: drops from a host with about the longest backlog in bytes, however
//! many flows it opens.
//!
//! [`LongestQueueDrop`](crate::LongestQueueDrop) protects a flow from longer flows;
//! [`LongestHostDrop`] protects a host from hosts with more backlog. So a thousand short queues of
//! one host do not displace a longer queue of another.
//!
//! Hosts are in classes by the bytes they hold, and so are the flows of a host. A host stays in its
//! class while it holds slightly less too, so most packets move nothing. A host that holds little
//! is in no class: on a link that is not full, most are not.
//!
//! **Promises.** With capacity for `n` hosts and a limit of `B` bytes, the *grain* is at most
//! `B/4n`, or 2 bytes if that is more, and at most 8 KiB ([`LongestHostDrop::grain`]). The queues
//! notify the policy of their limits ([`DropPolicy::limits_changed`]).
//!
//! - The victim is a flow of a host that holds more than `max` minus the larger of the grain and
//!   `2/9·max`, where `max` is the most that a host holds; and more than `max/8`, whatever the
//!   grain. Hosts of one class are dropped from in turn.
//! - Of this host's flows the victim is one in the highest class; classes are powers of four from
//!   512 bytes on. Within a class it is the flow that entered, or lost a packet there without
//!   service, least recently, so similar flows take turns. So the victim holds more than an eighth
//!   of what the host's longest flow holds. Flows below 512 bytes are not distinguished, nor are
//!   those from 1 MiB on.
//! - With `H` backlogged hosts, a host that loses a packet to another's overflow holds more than
//!   its share `B/H` minus the larger of the grain and `2/9·B/H`. So it holds more than three
//!   quarters of its share. Proof: all hosts together hold more than `B`, so one holds more than
//!   `B/H`; and the grain is at most a quarter of `B/H`.
//! - A host that stays below this minus `L`, with packets of at most `L` bytes, loses no arrival of
//!   its own either.
//! - The last two do not hold for a limit in packets. There is still a victim if as many packets as
//!   permitted are held, with a mean of at least 20 bytes. Without a victim an arriving packet is
//!   rejected.
//!
//! All flows without a host ([`Hosted::host_of`]) count as one group, from which packets are
//! dropped if no host is in a class. No host accounting is kept for them.
//!
//! **Cost.** O(1) per call, besides the flow scheduler. Memory: 8 bytes per flow, 32 per host, and
//! 512 for the classes of hosts. At most 65,535 flows and as many hosts.
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

/// A drop policy that drops from a host with about the longest backlog in bytes, with tables of
/// flows in the memory `F`, of hosts in `H`, and of classes of hosts in `C`.
///
/// A flow counts for the host that the flow scheduler returns when the flow becomes backlogged.
/// Ignores the flow scheduler's own victim.
///
/// ```
/// use sched_core::{
///     DropFrom, DropPolicy, FlowId, HeldFlow, HeldHost, HostClasses, Hosted, Limits,
///     LongestHostDrop,
/// };
///
/// /// Flows 0 to 2 belong to host 0, flow 3 to host 1.
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
/// let mut policy =
///     LongestHostDrop::new(Houses.hosts(), limits, [HeldFlow::EMPTY; 4], hosts, classes)?;
/// for (flow, bytes) in [(0, 20_000), (1, 20_000), (2, 25_000), (3, 40_000)] {
///     policy.backlogged(&Houses, FlowId(flow), bytes);
/// }
/// // Flow 3 has the longest queue, but the flows of host 0 hold 65,000 bytes together.
/// let held = |_| unreachable!("the policy counts bytes itself");
/// assert_eq!(policy.victim(&Houses, &held), Some((FlowId(0), DropFrom::Head)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)] // The flows are not first, as in `HostIndex`.
pub struct LongestHostDrop<F, H, C> {
    /// Holds the bytes of each host. Each backlogged flow is on the list of its class and host.
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
    /// Creates the policy for a flow scheduler of `known` hosts, for `flows.len()` flows, within
    /// `limits`. Packets are dropped at the head. Cost: O(flows + hosts).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for more than 65,535 flows or hosts, if `hosts` has fewer than
    /// `known` entries, or if `classes` is empty.
    pub fn new(
        known: u32,
        limits: Limits,
        mut flows: F,
        hosts: H,
        classes: C,
    ) -> Result<Self, ConfigError> {
        let room = hosts.as_ref().len() as u64;
        ConfigError::check_range("host entries", room, known.into(), HeldFlow::NO_HOST.into())?;
        let room = flows.as_ref().len() as u64;
        ConfigError::check_range("flow entries", room, 0, ring::MOST.into())?;
        let hosts = HostIndex::new(hosts, classes, limits)?;
        flows.as_mut().fill(HeldFlow::IDLE);
        Ok(Self { flows, hosts, drop_from: DropFrom::Head })
    }

    /// Returns the precision: the host that is dropped from may hold fewer bytes than the longest
    /// by this many, or by `2/9` of the longest if that is more. It is a quarter of a host's share,
    /// if all hosts in the table share the limit in bytes, rounded down to a power of two; at least
    /// 2 and at most 8,192.
    #[must_use]
    pub const fn grain(&self) -> u32 {
        self.hosts.grain()
    }

    /// Sets the end of the victim's queue at which packets are dropped.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// Accounts `len` more bytes of `flow`, `held` in total, if it is backlogged. Inlined, like
    /// [`Self::shrink`]: a packet that crosses no mark is little work.
    #[inline(always)]
    fn grow(&mut self, flow: FlowId, len: u32, held: u32) {
        let Some(entry) = self.flows.as_ref().get(flow.index()) else { return };
        if entry.is_above(held) {
            return self.grow_above(flow, len, held);
        }
        self.hosts.raise(entry.host(), len);
    }

    /// Accounts `len` fewer bytes of `flow`, `left` in total, if it is backlogged.
    #[inline(always)]
    fn shrink(&mut self, flow: FlowId, len: u32, left: u32) {
        let Some(entry) = self.flows.as_ref().get(flow.index()) else { return };
        if entry.is_below(left) {
            return self.shrink_below(flow, len, left);
        }
        self.hosts.lower(entry.host(), len);
    }

    /// [`Self::grow`] for a flow that reached the upper mark of its class, or is idle.
    #[inline(never)]
    fn grow_above(&mut self, flow: FlowId, len: u32, held: u32) {
        let host = self.reclass(flow, held);
        self.hosts.raise(host, len);
    }

    /// [`Self::shrink`] for a flow below the lower mark of its class. Usually the flow is idle.
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

    /// Moves `flow`, if it is backlogged, behind the others of its class and its host.
    fn turn(&mut self, flow: FlowId) {
        let flows = self.flows.as_mut();
        let Some(&held) = flows.get(flow.index()) else { return };
        if held.is_backlogged()
            && let Some(list) = self.hosts.list_of(held)
        {
            list.turn(flows, flow.0, held.links);
        }
    }

    /// Checks the flows in `lists`, which are those of `host`, and returns their backlog; `bytes`
    /// returns what a flow really holds.
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

    /// Adapts the grain to the limits. Backlogs stay, and the hosts of a new class keep their
    /// turns. Cost: O(hosts) if the grain changes.
    fn limits_changed(&mut self, limits: Limits) {
        self.hosts.set_limits(limits);
    }

    fn backlogged(&mut self, scheduler: &O, flow: FlowId, len: u32) {
        let host = scheduler.host_of(flow).unwrap_or(HeldFlow::NO_HOST);
        let Some(entry) = self.flows.as_mut().get_mut(flow.index()) else { return };
        // Ignores a flow that is already backlogged, or holds nothing.
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

    /// An idle flow is not accounted.
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
