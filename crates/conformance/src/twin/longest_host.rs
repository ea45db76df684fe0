//! Reference model of the drop victim by host: selects a host with about the longest backlog, from
//! the sums of all queues after every packet.

use std::collections::BTreeMap;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Limits, Nanos};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, queued_bytes};
use crate::history::Setting;

/// Position of a flow or a host: its class, identified by its first number of bytes, the range of
/// bytes in which it stays there, and the order of its arrival.
#[derive(Clone, Copy, Debug)]
struct Place {
    class: u64,
    low: u64,
    high: u64,
    since: u64,
}

/// Positions of flows or hosts, by number.
#[derive(Clone, Debug, Default)]
struct Places {
    of: BTreeMap<u32, Place>,
    changes: u64,
}

impl Places {
    /// Updates the position of `number`, which holds `bytes`. Classes begin at `edges`, in
    /// ascending order; `low` gives the bytes down to which it stays in the class that begins at
    /// `edges[at]`. From `least` bytes on it is listed.
    fn settle(
        &mut self,
        number: u32,
        bytes: u64,
        least: u64,
        edges: &[u64],
        low: impl Fn(usize) -> u64,
    ) {
        let stays = |place: &Place| (place.low..place.high).contains(&bytes);
        if bytes > 0 && self.of.get(&number).is_some_and(stays) {
            return;
        }
        if bytes < least {
            self.of.remove(&number);
            return;
        }
        let at = edges.iter().rposition(|&edge| edge <= bytes).expect("the first edge is low");
        self.changes += 1;
        let (class, high) = (edges[at], edges.get(at + 1).copied().unwrap_or(u64::MAX));
        self.of.insert(number, Place { class, low: low(at), high, since: self.changes });
    }

    /// Moves `number`, if it is listed, behind the others of its class.
    fn turn(&mut self, number: u32) {
        if let Some(place) = self.of.get_mut(&number) {
            self.changes += 1;
            place.since = self.changes;
        }
    }

    /// Returns the first in the highest class, among the numbers for which `counts` returns true.
    fn first(&self, counts: impl Fn(u32) -> bool) -> Option<u32> {
        let highest = self.of.iter().filter(|(number, _)| counts(**number));
        let first =
            highest.min_by_key(|(_, place)| (core::cmp::Reverse(place.class), place.since))?;
        Some(*first.0)
    }
}

/// A mapping of flows to hosts.
pub(super) trait NaiveHosted {
    /// Returns the number of hosts.
    fn hosts(&self) -> u32;

    /// Returns the host of `flow`; `None` while flows have no hosts.
    fn host_of(&self, flow: u32) -> Option<u32>;
}

/// A flow scheduler with hosts that drops from a host in the highest class of hosts, and there from
/// a flow in the highest class of flows. Within a class, it selects the host that entered the class
/// or lost a packet least recently, and likewise the flow.
#[derive(Clone, Debug)]
pub(super) struct NaiveLongestHostDrop<O> {
    scheduler: O,
    end: DropFrom,
    /// Minimum width of a class of hosts that begins here or above.
    unit: u64,
    /// Minimum number of bytes of a listed host.
    least: u64,
    /// Maximum number of queued packets.
    packets: u32,
    hosts: Places,
    flows: Places,
}

impl<O: NaiveFlowScheduler + NaiveHosted> NaiveLongestHostDrop<O> {
    /// Creates the model: packets are dropped at `end` of the queue; the hosts of `scheduler` share
    /// `limits` and `packets` buffers.
    pub(super) fn new(scheduler: O, limits: Limits, packets: u32, end: DropFrom) -> Self {
        let (hosts, flows) = (Places::default(), Places::default());
        let (unit, least) = unit_and_least(limits, packets, scheduler.hosts());
        Self { scheduler, end, unit, least, packets, hosts, flows }
    }

    /// Returns the flow scheduler.
    pub(super) const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// Returns the flow scheduler, for its own operations.
    pub(super) const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// Returns the host of a flow; `None` while flows have no hosts.
    fn host_of(&self, flow: u32) -> Option<u32> {
        self.scheduler.host_of(flow)
    }

    /// Moves hosts, one after another, to the classes of their backlogs.
    fn settle_hosts(&mut self, hosts: impl IntoIterator<Item = u32>, queues: QueuesView<'_>) {
        let mut held = vec![0; self.scheduler.hosts() as usize];
        for (flow, _) in (0..).zip(queues) {
            let bytes = queued_bytes(queues, FlowId(flow));
            if bytes > 0
                && let Some(host) = self.host_of(flow)
            {
                held[host as usize] += bytes;
            }
        }
        let (edges, unit) = (self.edges_of_hosts(), self.unit);
        let low = |at: usize| {
            let (from, to) = (edges[at], edges[at + 1]);
            let low = if from < unit { from / 2 } else { (2 * from - to).max(from / 4) };
            low.max(1)
        };
        for host in hosts {
            self.hosts.settle(host, held[host as usize], self.least, &edges, low);
        }
    }

    /// Returns the lower limits of the classes of hosts.
    fn edges_of_hosts(&self) -> Vec<u64> {
        let mut edges = vec![self.unit];
        // Below one unit: a quarter of it, a quarter of that, and so on down to one byte.
        while edges[0] > 1 {
            edges.insert(0, edges[0] / 4);
        }
        while let Some(&last) = edges.last()
            && last <= u32::MAX.into()
        {
            let power_of_two = 1 << last.ilog2();
            edges.push(last + self.unit.max(power_of_two / 8));
        }
        edges
    }
}

/// Returns `unit` and `least`. `unit` is an eighth of a host's part of the bytes, rounded down to a
/// power of two in 1 to 4,096. `least` is the minimum of twice `unit`, a host's part of the bytes,
/// and 20 bytes for each packet of its part.
fn unit_and_least(limits: Limits, packets: u32, hosts: u32) -> (u64, u64) {
    let hosts = u64::from(hosts);
    let eighth = u64::from(limits.bytes) / hosts / 8;
    let powers = (0..=12).map(|bits| 1 << bits);
    let unit: u64 =
        powers.filter(|power| *power <= eighth.max(1)).max().expect("1 is not too large");
    let shortest = limits.packets.min(packets).saturating_mul(20);
    (unit, (u64::from(shortest.min(limits.bytes)) / hosts).clamp(1, 2 * unit))
}

impl<O: NaiveFlowScheduler + NaiveHosted> NaiveFlowScheduler for NaiveLongestHostDrop<O> {
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.scheduler.configure(flow, setting, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.scheduler.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.max_len(flow)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.scheduler.backlogged(flow, head_len);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.scheduler.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.scheduler.lost(flow, head);
        self.flows.turn(flow.0);
        if let Some(host) = self.host_of(flow.0) {
            self.hosts.turn(host);
        }
    }

    fn settle(&mut self, queues: QueuesView<'_>) {
        self.scheduler.settle(queues);
        let edges: Vec<u64> =
            core::iter::once(0).chain((0..7).map(|class| 512 << (2 * class))).collect();
        for (flow, _) in (0..).zip(queues) {
            let bytes = queued_bytes(queues, FlowId(flow));
            self.flows.settle(flow, bytes, 1, &edges, |at| edges[at] / 2);
        }
        self.settle_hosts(0..self.scheduler.hosts(), queues);
    }

    /// If new limits change the classes, lists the hosts again in the order in which they would be
    /// dropped from, followed by those not listed before.
    fn limits_changed(&mut self, limits: Limits, queues: QueuesView<'_>) {
        let (unit, least) = unit_and_least(limits, self.packets, self.scheduler.hosts());
        if (unit, least) == (self.unit, self.least) {
            return;
        }
        (self.unit, self.least) = (unit, least);
        let mut before: Vec<_> = core::mem::take(&mut self.hosts).of.into_iter().collect();
        before.sort_by_key(|(_, place)| (core::cmp::Reverse(place.class), place.since));
        let before = before.into_iter().map(|(host, _)| host);
        self.settle_hosts(before.chain(0..self.scheduler.hosts()), queues);
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.scheduler.select(queues)
    }

    fn waiting(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.scheduler.waiting(queues)
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.scheduler.opens_at(now)
    }

    fn open(&mut self) {
        self.scheduler.open();
    }

    fn victim(&self, _queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        let host = self.hosts.first(|_| true);
        let flow = self.flows.first(|flow| self.host_of(flow) == host)?;
        Some((FlowId(flow), self.end))
    }
}
