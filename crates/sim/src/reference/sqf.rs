//! The shortest queue, the longest queue: by sorting.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Nanos, Packet};

use super::order::{NaiveOrder, QueuesView, queued_bytes, unknown};
use crate::history::{Housing, Setting};

/// When each flow was served last, counted in services; 0 if never since it was added.
#[derive(Clone, Debug, Default)]
struct Services {
    count: u64,
    last: BTreeMap<FlowId, u64>,
}

impl Services {
    fn served(&mut self, flow: FlowId) {
        self.count += 1;
        self.last.insert(flow, self.count);
    }

    fn last(&self, flow: FlowId) -> u64 {
        self.last.get(&flow).copied().unwrap_or(0)
    }

    /// The queue with the most bytes; of equals the one served least recently, then the lowest.
    fn longest(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        backlogged(queues)
            .min_by_key(|&flow| (Reverse(queued_bytes(queues, flow)), self.last(flow), flow))
    }

    /// The queue with the fewest bytes, ties alike.
    fn shortest(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        backlogged(queues).min_by_key(|&flow| (queued_bytes(queues, flow), self.last(flow), flow))
    }
}

fn backlogged(queues: QueuesView<'_>) -> impl Iterator<Item = FlowId> {
    (0..).map(FlowId).zip(queues).filter(|(_, queue)| !queue.is_empty()).map(|(flow, _)| flow)
}

/// Shortest queue first, with drops from the longest queue.
#[derive(Clone, Debug)]
pub struct NaiveShortestQueue {
    flows: Vec<bool>,
    services: Services,
    end: DropFrom,
    /// Every so many packets the one who has waited longest is served instead.
    floor: Option<u64>,
    /// By flow, the event with which it began to wait: its last service, or that it became backlogged.
    waits_since: BTreeMap<FlowId, u64>,
    events: u64,
}

impl NaiveShortestQueue {
    /// No flow added yet, of `flows` at most; packets give way at `end` of the longest queue.
    #[must_use]
    pub fn new(flows: u32, end: DropFrom) -> Self {
        Self {
            flows: vec![false; flows as usize],
            services: Services::default(),
            end,
            floor: None,
            waits_since: BTreeMap::new(),
            events: 0,
        }
    }

    /// The same, where the last of `every` packets goes to the flow that has waited longest.
    #[must_use]
    pub fn with_service_floor(self, every: u32) -> Self {
        Self { floor: Some(every.into()), ..self }
    }

    fn waits_anew(&mut self, flow: FlowId) {
        self.events += 1;
        self.waits_since.insert(flow, self.events);
    }
}

impl Housing for NaiveShortestQueue {}

impl NaiveOrder for NaiveShortestQueue {
    fn configure(
        &mut self,
        flow: FlowId,
        _setting: Setting,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        *self.flows.get_mut(flow.index()).ok_or_else(|| unknown(flow, flows))? = true;
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        if let Some(added) = self.flows.get_mut(flow.index()) {
            *added = false;
        }
        self.services.last.remove(&flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.max_len(flow).map(|_| [0; 2])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.then_some(Packet::MAX_LEN)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.waits_anew(flow);
    }

    fn served(&mut self, flow: FlowId, _len: u32, _next_head: Option<u32>) {
        self.services.served(flow);
        self.waits_anew(flow);
    }

    fn lost(&mut self, _flow: FlowId, _head: Option<u32>) {}

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        match self.floor {
            Some(every) if (self.services.count + 1).is_multiple_of(every) => {
                backlogged(queues).min_by_key(|flow| self.waits_since[flow])
            }
            _ => self.services.shortest(queues),
        }
    }

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        Some((self.services.longest(queues)?, self.end))
    }
}

/// Any order, with drops from the longest queue.
#[derive(Clone, Debug)]
pub struct NaiveLongestQueueDrop<O> {
    order: O,
    services: Services,
    end: DropFrom,
}

impl<O> NaiveLongestQueueDrop<O> {
    /// Packets give way at `end` of the longest queue.
    #[must_use]
    pub fn new(order: O, end: DropFrom) -> Self {
        Self { order, services: Services::default(), end }
    }
}

/// The hosts of an order are changed in it, not through this.
impl<O> Housing for NaiveLongestQueueDrop<O> {}

impl<O: NaiveOrder> NaiveOrder for NaiveLongestQueueDrop<O> {
    fn advance(&mut self, now: Nanos) {
        self.order.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.order.configure(flow, setting, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.services.last.remove(&flow);
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
        self.services.served(flow);
        self.order.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.order.lost(flow, head);
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.order.select(queues)
    }

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        Some((self.services.longest(queues)?, self.end))
    }
}
