//! Rate rates with borrowing: every bucket filled at every look at the clock, every flow looked at.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{CommittedRate, ConfigError, FlowId, Nanos, RETURNS_A_CALL};

use super::order::{NaiveOrder, QueuesView, in_range, unknown};
use crate::history::{HostBooks, Housing, Setting};

/// A rate and what its bucket lacks. Time is counted in 2⁻³² ns, in which a byte takes a whole number,
/// rounded up.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: CommittedRate,
    per_byte: i128,
    lacks: i128,
}

impl Bucket {
    fn full(rate: CommittedRate) -> Self {
        let bits = i128::from(rate.bits_per_second());
        let byte = 8_000_000_000 << 32;
        let per_byte = byte / bits + i128::from(byte % bits != 0);
        Self { rate, per_byte, lacks: 0 }
    }

    /// The nanoseconds until it lacks no more than it holds when full, both of them whole.
    fn wait(&self) -> i128 {
        let nano = 1 << 32;
        let lacks = self.lacks / nano + i128::from(self.lacks % nano != 0);
        lacks - i128::from(self.rate.burst()) * self.per_byte / nano
    }
}

/// The order `O` of those within their committed rate and of those beyond.
#[derive(Clone, Debug)]
pub struct NaiveCommittedRates<O> {
    conforming: O,
    excess: O,
    buckets: BTreeMap<FlowId, Bucket>,
    backlogged: BTreeSet<FlowId>,
    /// Of those backlogged, with the instant at which they are within their committed rate again.
    borrowing: BTreeMap<FlowId, i128>,
    flows: u32,
    now: Nanos,
}

impl<O: NaiveOrder> NaiveCommittedRates<O> {
    /// Without rates, over `order` of `flows` flows, none of them backlogged.
    #[must_use]
    pub fn new(order: O, flows: u32) -> Self {
        Self {
            conforming: order.clone(),
            excess: order,
            buckets: BTreeMap::new(),
            backlogged: BTreeSet::new(),
            borrowing: BTreeMap::new(),
            flows,
            now: Nanos(0),
        }
    }

    fn is_conforming(&self, flow: FlowId) -> bool {
        self.buckets.get(&flow).is_none_or(|bucket| bucket.wait() <= 0)
    }

    fn borrow(&mut self, flow: FlowId) {
        let due = i128::from(self.now.0) + self.buckets[&flow].wait();
        self.borrowing.insert(flow, due);
        self.excess.backlogged(flow, 1);
    }

    fn come_back(&mut self, flow: FlowId) {
        if self.borrowing.remove(&flow).is_some() {
            self.excess.lost(flow, None);
            self.conforming.backlogged(flow, 1);
        }
    }

    fn recall(&mut self) {
        for _ in 0..RETURNS_A_CALL {
            let first = self.borrowing.iter().min_by_key(|&(&flow, &due)| (due, flow));
            let Some((&first, _)) = first else { return };
            if !self.is_conforming(first) {
                return;
            }
            self.come_back(first);
        }
    }

    fn order_of(&mut self, flow: FlowId) -> &mut O {
        if self.borrowing.contains_key(&flow) { &mut self.excess } else { &mut self.conforming }
    }

    fn empties(&mut self, flow: FlowId) {
        self.backlogged.remove(&flow);
        self.borrowing.remove(&flow);
    }
}

/// A flow that can have a committed rate counts as a host.
impl<O: NaiveOrder> Housing for NaiveCommittedRates<O> {
    fn hosts(&self) -> u32 {
        self.flows
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        let flow = FlowId(host);
        if host >= self.flows {
            return Err(unknown(flow, self.flows as usize));
        }
        if let Some(rate) = rate {
            let longest = self.conforming.max_len(flow).unwrap_or(self.conforming.common_max_len());
            in_range("burst in bytes", rate.burst(), longest, u32::MAX)?;
        }
        if self.buckets.get(&flow).map(|bucket| bucket.rate) == rate {
            return Ok(());
        }
        self.buckets.remove(&flow);
        if let Some(rate) = rate {
            self.buckets.insert(flow, Bucket::full(rate));
        }
        self.come_back(flow);
        Ok(())
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let rate = self.buckets.get(&flow).map(|bucket| bucket.rate);
        HostBooks { rate, borrows: self.borrowing.contains_key(&flow), ..HostBooks::default() }
    }
}

impl<O: NaiveOrder> NaiveOrder for NaiveCommittedRates<O> {
    fn advance(&mut self, now: Nanos) {
        let elapsed = i128::from(now.since(self.now).0) << 32;
        self.now = self.now.max(now);
        for bucket in self.buckets.values_mut() {
            bucket.lacks = (bucket.lacks - elapsed).max(0);
        }
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let borrows = self.borrowing.contains_key(&flow);
        self.conforming.configure(flow, setting, head_len.filter(|_| !borrows))?;
        self.excess.configure(flow, setting, head_len.filter(|_| borrows))
    }

    fn remove(&mut self, flow: FlowId) {
        self.conforming.remove(flow);
        self.excess.remove(flow);
        self.buckets.remove(&flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.conforming.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.conforming.max_len(flow)
    }

    fn common_max_len(&self) -> u32 {
        self.conforming.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.backlogged.insert(flow);
        if self.is_conforming(flow) {
            self.conforming.backlogged(flow, head_len);
        } else {
            self.borrow(flow);
        }
        self.recall();
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.borrowing.contains_key(&flow) {
            self.excess.served(flow, len, next_head);
        } else {
            if let Some(bucket) = self.buckets.get_mut(&flow) {
                bucket.lacks += i128::from(len) * bucket.per_byte;
            }
            let stays = next_head.filter(|_| self.is_conforming(flow));
            self.conforming.served(flow, len, stays);
            if next_head.is_some() && stays.is_none() {
                self.borrow(flow);
            }
        }
        if next_head.is_none() {
            self.empties(flow);
        }
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.order_of(flow).lost(flow, head);
        if head.is_none() {
            self.empties(flow);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let somebody_within = self.backlogged.len() > self.borrowing.len();
        if somebody_within { self.conforming.select(queues) } else { self.excess.select(queues) }
    }
}
