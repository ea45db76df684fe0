//! The victim by host: the host that holds the most, by adding up all queues.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use freeboard::sched_core::{
    Ceiling, CommittedRate, ConfigError, DropFrom, FlowId, Nanos, Side, Sides,
};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, queued_bytes};
use crate::history::{HostBooks, Housing, Setting};

/// The power of two that the bytes of a flow reach, and when the flow came to it.
#[derive(Clone, Copy, Debug)]
struct Class {
    class: u32,
    since: u64,
}

/// A flow scheduler that knows hosts, with drops from the host that holds the most. There the flow that
/// gives way is of the highest class of bytes, which are the powers of two; of these flows it is the one
/// that has been in the class longest.
#[derive(Clone, Debug)]
pub struct NaiveLongestHostDrop<O> {
    scheduler: O,
    end: DropFrom,
    /// Which of the two hosts of a flow counts: that of the source unless said.
    local: Side,
    classes: BTreeMap<FlowId, Class>,
    changes: u64,
}

impl<O: NaiveFlowScheduler> NaiveLongestHostDrop<O> {
    /// Packets give way at `end` of the queue.
    #[must_use]
    pub fn new(scheduler: O, end: DropFrom) -> Self {
        Self { scheduler, end, local: Side::Source, classes: BTreeMap::new(), changes: 0 }
    }

    /// Hosts are those of this side, where flows have one on each.
    #[must_use]
    pub fn with_hosts_of(self, local: Side) -> Self {
        Self { local, ..self }
    }

    /// The flow scheduler, while no flow holds anything: the flow that comes to a class from now on is the first there.
    pub(super) fn begin_anew(&mut self) -> &mut O {
        self.classes.clear();
        &mut self.scheduler
    }

    fn host_of(&self, flow: FlowId) -> u32 {
        self.scheduler.books(flow.0).of_flow[self.local as usize]
            .expect("a flow that holds packets has a host")
    }

    /// The bytes of each host that holds packets.
    fn held(&self, queues: QueuesView<'_>) -> BTreeMap<u32, u64> {
        let mut held = BTreeMap::new();
        for (flow, queue) in (0..).map(FlowId).zip(queues) {
            if !queue.is_empty() {
                *held.entry(self.host_of(flow)).or_default() += queued_bytes(queues, flow);
            }
        }
        held
    }
}

impl<O: NaiveFlowScheduler> Housing for NaiveLongestHostDrop<O> {
    fn hosts(&self) -> u32 {
        self.scheduler.hosts()
    }

    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        self.scheduler.assign(flow, source, destination)
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        self.scheduler.configure_host(host, setting)
    }

    fn count(&mut self, sides: Sides) {
        self.scheduler.count(sides);
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.scheduler.rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        self.scheduler.ceiling(host, ceiling)
    }

    fn books(&self, number: u32) -> HostBooks {
        self.scheduler.books(number)
    }
}

impl<O: NaiveFlowScheduler> NaiveFlowScheduler for NaiveLongestHostDrop<O> {
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
    }

    fn settle(&mut self, queues: QueuesView<'_>) {
        self.scheduler.settle(queues);
        for (flow, _) in (0..).map(FlowId).zip(queues) {
            let class = queued_bytes(queues, flow).checked_ilog2();
            if class == self.classes.get(&flow).map(|before| before.class) {
                continue;
            }
            self.changes += 1;
            match class {
                Some(class) => self.classes.insert(flow, Class { class, since: self.changes }),
                None => self.classes.remove(&flow),
            };
        }
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

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        let held = self.held(queues);
        // Of hosts that hold as much, the one that is met first from a certain one on.
        let hosts = self.scheduler.hosts();
        let first = hosts.next_power_of_two() - hosts;
        let nth = |host: u32| (host + hosts - first) % hosts;
        let longest = held.iter().min_by_key(|&(&host, &bytes)| (Reverse(bytes), nth(host)));
        let &host = longest?.0;
        let of_host = self.classes.iter().filter(|&(&flow, _)| self.host_of(flow) == host);
        let (&flow, _) = of_host.min_by_key(|(_, place)| (Reverse(place.class), place.since))?;
        Some((flow, self.end))
    }
}
