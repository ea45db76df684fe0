//! Committed rates: every bucket filled at every look at the clock, every flow looked at.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{CommittedRate, ConfigError, FlowId, Nanos, RETURNS_A_CALL};
use freeboard::shaper::Overhead;

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use super::siblings::NaiveSiblings;
use super::token_bucket::{Bucket, Forward, wire_len};
use crate::history::{HostBooks, Housing, Setting};

/// The flow scheduler `O` of the flows that conform and of those in excess.
#[derive(Clone, Debug)]
pub struct NaiveCommittedRates<O> {
    conforming: O,
    excess: O,
    buckets: BTreeMap<FlowId, (CommittedRate, Bucket)>,
    backlogged: BTreeSet<FlowId>,
    /// Of those backlogged, with the time at which they conform again.
    borrowing: BTreeMap<FlowId, i128>,
    siblings: NaiveSiblings,
    flows: u32,
    link: Overhead,
    clock: Forward,
}

impl<O: NaiveFlowScheduler> NaiveCommittedRates<O> {
    /// Without rates, over `scheduler` of `flows` flows, none of them backlogged.
    #[must_use]
    pub fn new(scheduler: O, flows: u32) -> Self {
        Self {
            conforming: scheduler.clone(),
            excess: scheduler,
            buckets: BTreeMap::new(),
            backlogged: BTreeSet::new(),
            borrowing: BTreeMap::new(),
            siblings: NaiveSiblings::default(),
            flows,
            link: Overhead::RAW,
            clock: Forward::default(),
        }
    }

    /// The flow scheduler of those that conform, for what is its own.
    pub(super) const fn conforming_mut(&mut self) -> &mut O {
        &mut self.conforming
    }

    /// As [`CommittedRates::is_short`](freeboard::sched_core::CommittedRates::is_short).
    pub(super) fn is_short(&self, flow: FlowId) -> bool {
        self.buckets.get(&flow).is_some_and(|(_, bucket)| bucket.wait(0) > 0)
    }

    /// As [`CommittedRates::set_link`](freeboard::sched_core::CommittedRates::set_link).
    pub(super) const fn set_link(&mut self, link: Overhead) {
        self.link = link;
    }

    /// As [`CommittedRates::join`](freeboard::sched_core::CommittedRates::join).
    pub(super) fn join(&mut self, flow: FlowId, other: FlowId) {
        if !self.siblings.may_join(flow, other) {
            return;
        }
        self.come_back(flow);
        let (before, mut after) = (self.buckets.remove(&flow), self.buckets.get(&other).copied());
        if let (Some((of_flow, before)), Some((rate, bucket))) = (before, &mut after)
            && of_flow == *rate
        {
            *bucket = bucket.lacking_more(before);
        }
        self.siblings.join(flow, other);
        self.set_all(flow, after);
        self.settle(flow);
    }

    /// As [`CommittedRates::part`](freeboard::sched_core::CommittedRates::part).
    pub(super) fn part(&mut self, flow: FlowId) {
        let _before = self.siblings.part(flow);
    }

    fn set_all(&mut self, flow: FlowId, bucket: Option<(CommittedRate, Bucket)>) {
        for sibling in self.siblings.of(flow) {
            match bucket {
                Some(bucket) => self.buckets.insert(sibling, bucket),
                None => self.buckets.remove(&sibling),
            };
        }
    }

    /// A flow that does not conform is in excess, until the bucket says.
    fn settle(&mut self, flow: FlowId) {
        for sibling in self.siblings.of(flow) {
            let due = self.clock.sum + self.wait(sibling);
            if let Some(until) = self.borrowing.get_mut(&sibling) {
                *until = due;
            } else if self.backlogged.contains(&sibling) && !self.is_conforming(sibling) {
                self.conforming.lost(sibling, None);
                self.borrow(sibling);
            }
        }
    }

    /// The time until `flow` conforms; not above zero if it does.
    fn wait(&self, flow: FlowId) -> i128 {
        self.buckets
            .get(&flow)
            .map_or(0, |(rate, bucket)| bucket.wait(bucket.time_of(rate.burst())))
    }

    fn is_conforming(&self, flow: FlowId) -> bool {
        self.wait(flow) <= 0
    }

    fn borrow(&mut self, flow: FlowId) {
        self.borrowing.insert(flow, self.clock.sum + self.wait(flow));
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
            self.siblings.of(first).into_iter().for_each(|sibling| self.come_back(sibling));
        }
    }

    fn scheduler_of(&mut self, flow: FlowId) -> &mut O {
        if self.borrowing.contains_key(&flow) { &mut self.excess } else { &mut self.conforming }
    }

    fn empties(&mut self, flow: FlowId) {
        self.backlogged.remove(&flow);
        self.borrowing.remove(&flow);
    }
}

/// A flow with a rate counts as a host.
impl<O: NaiveFlowScheduler> Housing for NaiveCommittedRates<O> {
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
            let longest = wire_len(self.link, longest);
            in_range("burst in bytes", rate.burst(), longest, u32::MAX)?;
        }
        let before = self.buckets.get(&flow).copied();
        if before.map(|(rate, _)| rate) == rate {
            return Ok(());
        }
        let after = rate.map(|rate| {
            let mut bucket = Bucket::full(rate.bits_per_second(), rate.burst());
            if let Some((_, before)) = before {
                bucket = bucket.lacking_as(&before);
                self.clock.look_ahead(&bucket);
                bucket.clamp(2 * bucket.time_of(rate.burst()));
            }
            (rate, bucket)
        });
        self.siblings.of(flow).into_iter().for_each(|sibling| self.come_back(sibling));
        self.set_all(flow, after);
        self.settle(flow);
        Ok(())
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let rate = self.buckets.get(&flow).map(|(rate, _)| *rate);
        HostBooks { rate, borrows: self.borrowing.contains_key(&flow), ..HostBooks::default() }
    }
}

impl<O: NaiveFlowScheduler> NaiveFlowScheduler for NaiveCommittedRates<O> {
    fn advance(&mut self, now: Nanos) {
        self.conforming.advance(now);
        self.excess.advance(now);
        let step = self.clock.advance(now);
        for (_, bucket) in self.buckets.values_mut() {
            bucket.pass(step);
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
        self.part(flow);
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
        let borrows = self.borrowing.contains_key(&flow);
        if let Some((rate, mut bucket)) = self.buckets.get(&flow).copied()
            && !(borrows && rate.borrows_free())
        {
            bucket.take(wire_len(self.link, len));
            self.clock.look_ahead(&bucket);
            if borrows {
                bucket.clamp(2 * bucket.time_of(rate.burst()));
            }
            self.set_all(flow, Some((rate, bucket)));
        }
        if borrows {
            self.excess.served(flow, len, next_head);
            self.borrowing.insert(flow, self.clock.sum + self.wait(flow));
        } else {
            let stays = next_head.filter(|_| self.is_conforming(flow));
            self.conforming.served(flow, len, stays);
            if next_head.is_some() && stays.is_none() {
                self.borrow(flow);
            }
        }
        if next_head.is_none() {
            self.empties(flow);
        }
        self.settle(flow);
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.scheduler_of(flow).lost(flow, head);
        if head.is_none() {
            self.empties(flow);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let conforming = self.backlogged.len() > self.borrowing.len();
        if conforming { self.conforming.select(queues) } else { self.excess.select(queues) }
    }
}
