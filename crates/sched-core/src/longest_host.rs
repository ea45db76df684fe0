//! Longest-queue drop by host: the host that holds the most bytes gives way, whatever flows it opens.
//!
//! As [`LongestQueueDrop`](crate::LongestQueueDrop) protects a flow from longer ones,
//! [`LongestHostDrop`] protects a host from those that hold more, so that a thousand short queues of
//! one host do not push out the longer one of another.
//!
//! **Promises.**
//!
//! - The victim is of the host that holds the most bytes, exactly. Ties go to the host served least
//!   recently (never served comes first), then to the lowest number.
//! - Of that host's flows it is one of the highest power of two: with `b` bytes a flow is in class
//!   `⌊log2 b⌋`, and of the flows in the highest class that which has been there longest gives way. So it
//!   holds more than half of what the longest holds.
//! - With a limit of `B` bytes and `H` hosts that hold packets, a host that loses a packet to another's
//!   overflow holds more than `B/H`: together they hold more than `B` then, and none more than it. A host
//!   that keeps below `B/H − L` has not even a packet of its own, of at most `L` bytes, dropped. A limit
//!   in packets promises nothing of the kind.
//!
//! **Cost.** O(1) a call for the flows, and O(log hosts) for the hosts, mostly one or two steps, beside
//! what the order costs. Memory: 16 bytes a flow and 148 a host.
//!
//! **Source.** The discipline by flow is that of SQF §2; hosts before flows follow the isolation of
//! CAKE §III. Classes of powers of two in place of the longest flow are of this library: exact is the
//! level that isolates.

mod classes;

pub use classes::{HeldFlow, HostClasses};

use crate::hosted::Hosted;
use crate::order::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::tournament::{RankedFlow, Tournament};
use crate::{Backlog, FlowId, Imbalance};

/// Room for what one host holds, of [`LongestHostDrop`]: 16 bytes.
pub type LongestHost = RankedFlow<1>;

type Longest = Tournament<0, true>;

/// The order `O`, with a flow of the host that holds the most bytes as the victim; books of flows in the
/// memory `F`, of hosts in `H` and `C`.
///
/// A flow counts for the host that `O` names when it becomes backlogged. A victim that `O` would name is
/// not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestHostDrop<O, F, H, C> {
    order: O,
    /// Of more than zero bytes if and only if backlogged in `order`; whether a flow was added only
    /// `order` knows.
    flows: F,
    /// What each host's flows hold together.
    hosts: H,
    /// Each backlogged flow is on the list of its class, of its host.
    classes: C,
    /// Services so far; the number of the latest is the newest stamp.
    served: u64,
    drop_from: DropFrom,
}

impl<O, F, H, C> LongestHostDrop<O, F, H, C>
where
    O: FlowScheduler + Hosted,
    F: Table<HeldFlow>,
    H: Table<LongestHost>,
    C: Table<HostClasses>,
{
    /// Longest-queue drop by host over `order`, in which no flow is backlogged; for as many flows as both
    /// have room for. Packets give way at the head. Cost: O(flows + hosts).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `hosts` or `classes` are fewer than the hosts of `order`.
    pub fn new(order: O, mut flows: F, mut hosts: H, mut classes: C) -> Result<Self, ConfigError> {
        let (min, max) = (order.hosts().into(), u32::MAX.into());
        let (ranks, lists) = (hosts.as_ref().len() as u64, classes.as_ref().len() as u64);
        ConfigError::check_range("room for hosts", ranks, min, max)?;
        ConfigError::check_range("room for classes of hosts", lists, min, max)?;
        flows.as_mut().fill(HeldFlow::EMPTY);
        hosts.as_mut().fill(LongestHost::EMPTY);
        classes.as_mut().fill(HostClasses::EMPTY);
        Longest::play_all(hosts.as_mut());
        Ok(Self { order, flows, hosts, classes, served: 0, drop_from: DropFrom::Head })
    }

    /// Which packet of the victim gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// The order of flows.
    #[must_use]
    pub const fn order(&self) -> &O {
        &self.order
    }

    /// The order of flows, for what is its own: the hosts of idle flows, the mode. Telling it of packets
    /// is the business of this: an order that is told elsewhere no longer agrees with these books.
    pub const fn order_mut(&mut self) -> &mut O {
        &mut self.order
    }

    /// What the flows of `host` hold together, in bytes; 0 if there is no such host.
    #[must_use]
    pub fn bytes_of(&self, host: u32) -> u32 {
        self.hosts.as_ref().get(host as usize).map_or(0, LongestHost::bytes)
    }

    fn has_room_for(&self, flow: FlowId) -> bool {
        flow.index() < self.flows.as_ref().len()
    }

    /// What `flow` holds, if it is backlogged.
    #[inline]
    fn held(&self, flow: FlowId) -> Option<HeldFlow> {
        self.flows.as_ref().get(flow.index()).copied().filter(|held| held.bytes != 0)
    }

    /// `flow` held `before` and holds `bytes` from now on: it moves to the class for them, and its host
    /// plays anew.
    #[inline]
    fn resize(&mut self, flow: FlowId, before: HeldFlow, bytes: u32) {
        let flows = self.flows.as_mut();
        if let Some(held) = flows.get_mut(flow.index()) {
            (held.bytes, held.host) = (bytes, before.host);
        }
        if before.bytes.leading_zeros() != bytes.leading_zeros()
            && let Some(classes) = self.classes.as_mut().get_mut(before.host as usize)
        {
            classes.reclass(flows, flow.0, before.bytes, bytes);
        }
        let hosts = self.hosts.as_mut();
        let Some(host) = hosts.get_mut(before.host as usize) else { return };
        // All together hold at most `Limits::MAX_BYTES` and a packet: the sum of some fits.
        host.set_bytes(host.bytes().wrapping_sub(before.bytes).wrapping_add(bytes));
        let host = FlowId(before.host);
        if bytes > before.bytes {
            Longest::gained(hosts, host);
        } else {
            Longest::lost(hosts, host);
        }
    }

    /// What the lists of `host` hold, each flow checked against them.
    fn recount_host(&self, host: u32, classes: &HostClasses) -> Result<Backlog, Imbalance> {
        let mut held = Backlog::default();
        let flows = self.flows.as_ref();
        classes.recount(flows, host, &mut |flow, found| {
            Imbalance::check("the host of a flow", flow, found.host.into(), host.into())?;
            let named = self.order.host_of(FlowId(flow)).map_or(u64::MAX, u64::from);
            Imbalance::check("the host that the order names", flow, host.into(), named)?;
            held.packets = held.packets.wrapping_add(1);
            held.bytes = held.bytes.wrapping_add(found.bytes);
            Ok(())
        })?;
        Ok(held)
    }
}

impl<O, F, H, C> FlowScheduler for LongestHostDrop<O, F, H, C>
where
    O: FlowScheduler + Hosted,
    F: Table<HeldFlow>,
    H: Table<LongestHost>,
    C: Table<HostClasses>,
{
    type Config = O::Config;

    fn flows(&self) -> u32 {
        let flows = u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX);
        self.order.flows().min(flows)
    }

    fn configure(
        &mut self,
        flow: FlowId,
        config: O::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        if !self.has_room_for(flow) {
            return Err(ConfigError::UnknownFlow { flow, flows: self.flows() });
        }
        self.order.configure(flow, config, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.order.remove(flow);
        if let Some(held) = self.held(flow) {
            self.resize(flow, held, 0);
        }
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.order.config(flow).filter(|_| self.has_room_for(flow))
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow).filter(|_| self.has_room_for(flow))
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.order.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if self.max_len(flow).is_none() || self.held(flow).is_some() {
            return;
        }
        let Some(host) = self.order.host_of(flow) else { return };
        self.order.backlogged(flow, head_len);
        self.resize(flow, HeldFlow::of(host), head_len);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        let Some(held) = self.held(flow) else { return };
        self.order.grew(flow, len);
        self.resize(flow, held, held.bytes.saturating_add(len));
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        self.order.select()
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.order.upcoming(ahead)
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let Some(held) = self.held(flow) else { return };
        self.served = self.served.wrapping_add(1);
        if let Some(host) = self.hosts.as_mut().get_mut(held.host as usize) {
            host.set_stamp(self.served);
        }
        let left = next_head.map_or(0, |_| held.bytes.saturating_sub(len));
        self.resize(flow, held, left);
        self.order.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        let Some(held) = self.held(flow) else { return };
        let left = head.map_or(0, |_| held.bytes.saturating_sub(len));
        self.resize(flow, held, left);
        self.order.lost(flow, len, head);
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        let host = Longest::first(self.hosts.as_ref())?;
        let flow = self.classes.as_ref().get(host.index())?.first_of_highest()?;
        Some((FlowId(flow), self.drop_from))
    }

    fn looks_ahead(&self) -> bool {
        self.order.looks_ahead()
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut backlogged = 0_u64;
        for (at, held) in (0_u32..).zip(self.flows.as_ref()) {
            let counted = flows(FlowId(at)).backlog.bytes;
            Imbalance::check("bytes of a flow", at, held.bytes.into(), counted.into())?;
            backlogged = backlogged.wrapping_add(u64::from(held.bytes != 0));
        }
        let mut listed = 0_u64;
        for (at, classes) in (0_u32..).zip(self.classes.as_ref()) {
            listed = listed.wrapping_add(self.recount_host(at, classes)?.packets.into());
        }
        Imbalance::check("flows in a class", 0, backlogged, listed)?;
        for (at, host) in (0_u32..).zip(self.hosts.as_ref()) {
            let past = host.stamp() <= self.served;
            Imbalance::check("stamps lie in the past", at, 1, past.into())?;
        }
        Longest::recount(self.hosts.as_ref(), &|host| {
            let classes = self.classes.as_ref().get(host.index());
            let backlog = classes.and_then(|classes| self.recount_host(host.0, classes).ok());
            FlowState { backlog: backlog.unwrap_or_default(), head_len: None }
        })?;
        self.order.recount(flows)
    }
}

impl<O: Hosted, F, H, C> Hosted for LongestHostDrop<O, F, H, C> {
    #[inline]
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        self.order.host_of(flow)
    }

    fn hosts(&self) -> u32 {
        self.order.hosts()
    }

    fn flows_of(&self, host: u32) -> u32 {
        self.order.flows_of(host)
    }
}

#[cfg(test)]
mod tests;
