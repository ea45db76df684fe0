//! Ceilings: every bucket filled at every look at the clock, every flow looked at.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{Ceiling, CommittedRate, ConfigError, FlowId, Nanos, RETURNS_A_CALL};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use super::token_bucket::{Bucket, Forward};
use crate::history::{HostBooks, Housing, Setting};

/// The flow scheduler `O` of the flows that need not wait.
#[derive(Clone, Debug)]
pub struct NaiveCeilings<O> {
    scheduler: O,
    buckets: BTreeMap<FlowId, (Ceiling, Bucket)>,
    backlogged: BTreeSet<FlowId>,
    /// Of those backlogged.
    waiting: BTreeSet<FlowId>,
    flows: u32,
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
            flows,
            clock: Forward::default(),
        }
    }

    /// The flow scheduler of those that need not wait, for what is its own.
    pub(super) const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    fn longest(&self, flow: FlowId) -> u32 {
        self.scheduler.max_len(flow).unwrap_or(self.scheduler.common_max_len())
    }

    /// The time until the bucket of `flow` holds its longest packet; not above zero if it does.
    fn wait(&self, flow: FlowId) -> i128 {
        let longest = self.longest(flow);
        self.buckets.get(&flow).map_or(0, |(_, bucket)| {
            bucket.wait(bucket.time_of(bucket.burst().saturating_sub(longest)))
        })
    }

    /// The flow that waits and may be served first, with the time until then.
    fn first(&self) -> Option<(i128, FlowId)> {
        self.waiting.iter().map(|&flow| (self.wait(flow), flow)).min()
    }

    fn come_back(&mut self, flow: FlowId) {
        if self.waiting.remove(&flow) {
            self.scheduler.backlogged(flow, 1);
        }
    }

    fn recall(&mut self, most: u32) {
        for _ in 0..most {
            match self.first() {
                Some((wait, flow)) if wait <= 0 => self.come_back(flow),
                _ => return,
            }
        }
    }

    fn empties(&mut self, flow: FlowId) {
        self.backlogged.remove(&flow);
        self.waiting.remove(&flow);
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
        self.buckets.remove(&flow);
        if let Some(ceiling) = ceiling {
            let mut bucket = Bucket::full(ceiling.bits_per_second(), ceiling.burst());
            if let Some((_, before)) = before {
                bucket = bucket.lacking_as(&before);
                self.clock.look_ahead(&bucket);
                bucket.clamp(bucket.time_of(ceiling.burst()));
            }
            self.buckets.insert(flow, (ceiling, bucket));
        }
        self.come_back(flow);
        if self.backlogged.contains(&flow) && self.wait(flow) > 0 {
            self.scheduler.lost(flow, None);
            self.waiting.insert(flow);
        }
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
        self.scheduler.configure(flow, setting, head_len.filter(|_| !waits))
    }

    fn remove(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
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
        }
        self.recall(RETURNS_A_CALL);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if let Some((_, bucket)) = self.buckets.get_mut(&flow) {
            bucket.take(len);
            self.clock.look_ahead(bucket);
        }
        let stays = next_head.filter(|_| self.wait(flow) <= 0);
        self.scheduler.served(flow, len, stays);
        if next_head.is_none() {
            self.empties(flow);
        } else if stays.is_none() {
            self.waiting.insert(flow);
        }
        self.recall(RETURNS_A_CALL);
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
            self.recall(1);
        }
    }
}
