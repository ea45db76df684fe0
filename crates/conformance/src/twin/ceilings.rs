//! Ceilings: every bucket filled at every look at the clock, every flow looked at.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{Ceiling, CommittedRate, ConfigError, FlowId, Nanos, RETURNS_A_CALL};
use freeboard::shaper::Overhead;

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use super::siblings::NaiveSiblings;
use super::token_bucket::{Bucket, Forward, wire_len};
use crate::history::{HostBooks, Housing, Setting};

/// The flow scheduler `O` of the flows that need not wait.
#[derive(Clone, Debug)]
pub struct NaiveCeilings<O> {
    scheduler: O,
    buckets: BTreeMap<FlowId, (Ceiling, Bucket)>,
    backlogged: BTreeSet<FlowId>,
    /// Of those backlogged.
    waiting: BTreeSet<FlowId>,
    /// Of those that wait one of each ring of siblings.
    booked: BTreeSet<FlowId>,
    siblings: NaiveSiblings,
    flows: u32,
    link: Overhead,
    clock: Forward,
}

impl<O: NaiveFlowScheduler> NaiveCeilings<O> {
    /// Without ceilings, over `scheduler` of `flows` flows, none of them backlogged.
    #[must_use]
    pub fn new(scheduler: O, flows: u32) -> Self {
        Self {
            scheduler,
            buckets: BTreeMap::new(),
            backlogged: BTreeSet::new(),
            waiting: BTreeSet::new(),
            booked: BTreeSet::new(),
            siblings: NaiveSiblings::default(),
            flows,
            link: Overhead::RAW,
            clock: Forward::default(),
        }
    }

    /// The flow scheduler of those that need not wait, for what is its own.
    pub(super) const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    pub(super) const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// As [`Ceilings::is_short`](freeboard::sched_core::Ceilings::is_short).
    pub(super) fn is_short(&self, flow: FlowId) -> bool {
        self.buckets.get(&flow).is_some_and(|(_, bucket)| bucket.wait(0) > 0)
    }

    /// As [`Ceilings::set_link`](freeboard::sched_core::Ceilings::set_link): a flow whose bucket does not hold the longest packet
    /// on the new wire waits.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.link = link;
        (0..self.flows).map(FlowId).for_each(|flow| self.close(flow));
    }

    fn longest(&self, flow: FlowId) -> u32 {
        let longest = self.scheduler.max_len(flow).unwrap_or(self.scheduler.common_max_len());
        wire_len(self.link, longest)
    }

    /// The time until the bucket of `flow` holds its longest packet; not above zero if it does.
    fn wait(&self, flow: FlowId) -> i128 {
        let longest = self.longest(flow);
        self.buckets.get(&flow).map_or(0, |(_, bucket)| {
            bucket.wait(bucket.time_of(bucket.burst().saturating_sub(longest)))
        })
    }

    /// As [`Ceilings::join`](freeboard::sched_core::Ceilings::join).
    pub(super) fn join(&mut self, flow: FlowId, other: FlowId) {
        if !self.siblings.may_join(flow, other) {
            return;
        }
        self.part(flow);
        self.booked.remove(&flow);
        let (before, after) = (self.buckets.remove(&flow), self.buckets.get(&other).copied());
        self.siblings.join(flow, other);
        if let Some((ceiling, mut bucket)) = after {
            if let Some((of_flow, before)) = before
                && of_flow == ceiling
            {
                bucket = bucket.lacking_more(before);
            }
            self.set_all(flow, Some((ceiling, bucket)));
        } else {
            self.return_all(flow);
        }
        self.close(flow);
    }

    /// As [`Ceilings::part`](freeboard::sched_core::Ceilings::part).
    pub(super) fn part(&mut self, flow: FlowId) {
        if let Some(before) = self.siblings.part(flow) {
            self.book(flow);
            self.book(before);
        }
    }

    fn set_all(&mut self, flow: FlowId, bucket: Option<(Ceiling, Bucket)>) {
        for sibling in self.siblings.of(flow) {
            match bucket {
                Some(bucket) => self.buckets.insert(sibling, bucket),
                None => self.buckets.remove(&sibling),
            };
        }
    }

    fn return_all(&mut self, flow: FlowId) {
        self.siblings.of(flow).into_iter().for_each(|sibling| self.come_back(sibling));
    }

    /// Those that may not be served wait.
    fn close(&mut self, flow: FlowId) {
        for sibling in self.siblings.of(flow) {
            let is_served = self.backlogged.contains(&sibling) && !self.waiting.contains(&sibling);
            if is_served && self.wait(sibling) > 0 {
                self.scheduler.lost(sibling, None);
                self.waiting.insert(sibling);
            }
        }
        self.book(flow);
    }

    /// One of those that wait is booked: the first that is due, and of several the one that was, or the next behind `flow`.
    fn book(&mut self, flow: FlowId) {
        let in_turn = self.siblings.behind(flow);
        let before = in_turn.iter().copied().find(|sibling| self.booked.contains(sibling));
        in_turn.iter().for_each(|sibling| {
            self.booked.remove(sibling);
        });
        let candidates = before.into_iter().chain(in_turn);
        let waiting = candidates.filter(|sibling| self.waiting.contains(sibling));
        self.booked.extend(waiting.min_by_key(|sibling| self.wait(*sibling)));
    }

    /// The flow that waits and may be served first, with the time until then.
    fn first(&self) -> Option<(i128, FlowId)> {
        self.booked.iter().map(|&flow| (self.wait(flow), flow)).min()
    }

    fn come_back(&mut self, flow: FlowId) {
        if self.waiting.remove(&flow) {
            self.book(flow);
            self.scheduler.backlogged(flow, 1);
        }
    }

    fn first_due(&self) -> Option<FlowId> {
        self.first().filter(|(wait, _)| *wait <= 0).map(|(_, flow)| flow)
    }

    fn recall(&mut self) {
        for _ in 0..RETURNS_A_CALL {
            let Some(first) = self.first_due() else { return };
            for sibling in self.siblings.of(first) {
                if self.wait(sibling) <= 0 {
                    self.come_back(sibling);
                }
            }
        }
    }

    fn empties(&mut self, flow: FlowId) {
        self.backlogged.remove(&flow);
        if self.waiting.remove(&flow) {
            self.book(flow);
        }
    }
}

/// A flow with a ceiling counts as a host.
impl<O: NaiveFlowScheduler> Housing for NaiveCeilings<O> {
    fn hosts(&self) -> u32 {
        self.flows
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.scheduler.rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        let flow = FlowId(host);
        if host >= self.flows {
            return Err(unknown(flow, self.flows as usize));
        }
        if let Some(ceiling) = ceiling {
            in_range("burst in bytes", ceiling.burst(), self.longest(flow), u32::MAX)?;
        }
        let before = self.buckets.get(&flow).copied();
        if before.map(|(ceiling, _)| ceiling) == ceiling {
            return Ok(());
        }
        let after = ceiling.map(|ceiling| {
            let mut bucket = Bucket::full(ceiling.bits_per_second(), ceiling.burst());
            if let Some((_, before)) = before {
                bucket = bucket.lacking_as(&before);
                self.clock.look_ahead(&bucket);
                bucket.clamp(bucket.time_of(ceiling.burst()));
            }
            (ceiling, bucket)
        });
        self.set_all(flow, after);
        self.return_all(flow);
        self.close(flow);
        Ok(())
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let ceiling = self.buckets.get(&flow).map(|(ceiling, _)| *ceiling);
        HostBooks { ceiling, waits: self.waiting.contains(&flow), ..self.scheduler.books(number) }
    }
}

impl<O: NaiveFlowScheduler> NaiveFlowScheduler for NaiveCeilings<O> {
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
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
        let waits = self.waiting.contains(&flow);
        self.scheduler.configure(flow, setting, head_len.filter(|_| !waits))?;
        self.book(flow);
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
        self.part(flow);
        self.buckets.remove(&flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.scheduler.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.max_len(flow)
    }

    fn common_max_len(&self) -> u32 {
        self.scheduler.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.backlogged.insert(flow);
        if self.wait(flow) <= 0 {
            self.scheduler.backlogged(flow, head_len);
        } else {
            self.waiting.insert(flow);
            self.book(flow);
        }
        self.recall();
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if let Some((ceiling, mut bucket)) = self.buckets.get(&flow).copied() {
            bucket.take(wire_len(self.link, len));
            self.clock.look_ahead(&bucket);
            self.set_all(flow, Some((ceiling, bucket)));
        }
        let stays = next_head.filter(|_| self.wait(flow) <= 0);
        self.scheduler.served(flow, len, stays);
        if next_head.is_none() {
            self.empties(flow);
        } else if stays.is_none() {
            self.waiting.insert(flow);
        }
        self.close(flow);
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if !self.waiting.contains(&flow) {
            self.scheduler.lost(flow, head);
        }
        if head.is_none() {
            self.empties(flow);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        (self.backlogged.len() > self.waiting.len())
            .then(|| self.scheduler.select(queues))
            .flatten()
    }

    fn waiting(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        self.first().map(|(_, flow)| flow).filter(|_| self.backlogged.len() == self.waiting.len())
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.clock.after(self.first()?.0, now)
    }

    fn open(&mut self) {
        if self.backlogged.len() == self.waiting.len() {
            self.first_due().into_iter().for_each(|first| self.come_back(first));
        }
    }
}
