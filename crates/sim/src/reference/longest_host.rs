//! The victim by host: who holds the most, by adding up all queues.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Sides};

use super::order::{NaiveOrder, QueuesView, queued_bytes};
use crate::history::{HostBooks, Housing, Setting};

/// The power of two that the bytes of a flow reach, and when the flow came to it.
#[derive(Clone, Copy, Debug)]
struct Class {
    class: u32,
    since: u64,
}

/// An order that knows hosts, with drops from the host that holds the most: there from a flow of the
/// highest class of bytes, which are the powers of two, the one that has been in it longest.
#[derive(Clone, Debug)]
pub struct NaiveLongestHostDrop<O> {
    order: O,
    end: DropFrom,
    classes: BTreeMap<FlowId, Class>,
    changes: u64,
    /// After how many services each host was served last; 0 if never.
    served: BTreeMap<u32, u64>,
    services: u64,
}

impl<O: NaiveOrder> NaiveLongestHostDrop<O> {
    /// Packets give way at `end` of the queue.
    #[must_use]
    pub fn new(order: O, end: DropFrom) -> Self {
        let (classes, served) = (BTreeMap::new(), BTreeMap::new());
        Self { order, end, classes, changes: 0, served, services: 0 }
    }

    fn host_of(&self, flow: FlowId) -> u32 {
        self.order.books(flow.0).of_flow[0].expect("a flow that holds packets has a host")
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

impl<O: NaiveOrder> Housing for NaiveLongestHostDrop<O> {
    fn hosts(&self) -> u32 {
        self.order.hosts()
    }

    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        self.order.assign(flow, source, destination)
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        self.order.configure_host(host, setting)
    }

    fn count(&mut self, sides: Sides) {
        self.order.count(sides);
    }

    fn books(&self, number: u32) -> HostBooks {
        self.order.books(number)
    }
}

impl<O: NaiveOrder> NaiveOrder for NaiveLongestHostDrop<O> {
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.order.configure(flow, setting, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.order.remove(flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.order.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.order.backlogged(flow, head_len);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.services += 1;
        self.served.insert(self.host_of(flow), self.services);
        self.order.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.order.lost(flow, head);
    }

    fn settle(&mut self, queues: QueuesView<'_>) {
        self.order.settle(queues);
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
        self.order.select(queues)
    }

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        let served = |host: &u32| self.served.get(host).copied().unwrap_or(0);
        let held = self.held(queues);
        let longest =
            held.iter().min_by_key(|&(host, &bytes)| (Reverse(bytes), served(host), *host));
        let &host = longest?.0;
        let of_host = self.classes.iter().filter(|&(&flow, _)| self.host_of(flow) == host);
        let (&flow, _) = of_host.min_by_key(|(_, place)| (Reverse(place.class), place.since))?;
        Some((flow, self.end))
    }
}
