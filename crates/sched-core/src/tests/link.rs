//! Test helpers for flow schedulers: a flow scheduler with queues of lengths, and random loads.

use crate::{
    Backlog, ConfigError, DropFrom, DropPolicy, FlowId, FlowScheduler, FlowState, Imbalance,
    QfqConfig,
};
use conformance::Xorshift;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

pub(crate) struct Link<O> {
    pub(crate) scheduler: O,
    pub(crate) queues: Vec<VecDeque<u32>>,
}

impl<O: FlowScheduler> Link<O> {
    /// Creates queues for `flows` flows, none of which is added.
    pub(crate) fn over(scheduler: O, flows: usize) -> Self {
        Self { scheduler, queues: vec![VecDeque::new(); flows] }
    }

    pub(crate) fn remove(&mut self, flow: u32) {
        self.queues[flow as usize].clear();
        self.scheduler.remove(FlowId(flow));
    }

    pub(crate) fn enqueue(&mut self, flow: u32, len: u32) {
        let queue = &mut self.queues[flow as usize];
        queue.push_back(len);
        if queue.len() == 1 {
            self.scheduler.backlogged(FlowId(flow), len);
        } else {
            self.scheduler.grew(FlowId(flow), len);
        }
    }

    pub(crate) fn dequeue(&mut self) -> Option<(u32, u32)> {
        let flow = self.scheduler.select()?;
        let queue = &mut self.queues[flow.index()];
        let len = queue.pop_front().expect("a selected flow holds packets");
        self.scheduler.served(flow, len, queue.front().copied());
        Some((flow.0, len))
    }

    pub(crate) fn lose(&mut self, flow: u32, from_head: bool) {
        let queue = &mut self.queues[flow as usize];
        let lost = if from_head { queue.pop_front() } else { queue.pop_back() };
        if let Some(len) = lost {
            self.scheduler.lost(FlowId(flow), len, queue.front().copied());
        }
    }

    pub(crate) fn recount(&self) -> Result<(), Imbalance> {
        self.scheduler.recount(&|flow| {
            let queue = &self.queues[flow.index()];
            let backlog = Backlog { packets: queue.len() as u32, bytes: queue.iter().sum() };
            FlowState { backlog, head_len: queue.front().copied() }
        })
    }
}

impl<O: FlowScheduler<Config = QfqConfig>> Link<O> {
    /// Creates queues with flows of these weights and longest packets.
    pub(crate) fn with(scheduler: O, configs: &[(u32, u32)]) -> Self {
        let mut link = Self::over(scheduler, configs.len());
        for (flow, &(weight, max_len)) in (0..).zip(configs) {
            link.configure(flow, weight, max_len).unwrap();
        }
        link
    }

    pub(crate) fn configure(
        &mut self,
        flow: u32,
        weight: u32,
        max_len: u32,
    ) -> Result<(), ConfigError> {
        let head = self.queues[flow as usize].front().copied();
        self.scheduler.configure(FlowId(flow), QfqConfig { weight, max_len }, head)
    }
}

/// A flow scheduler and a drop policy that receive the same notifications.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Beside<O, D> {
    pub(crate) scheduler: O,
    pub(crate) policy: D,
    /// The bytes that each flow holds.
    held: BTreeMap<FlowId, u32>,
}

impl<O: FlowScheduler, D: DropPolicy<O>> Beside<O, D> {
    /// Creates the pair; no flow holds anything.
    pub(crate) const fn new(scheduler: O, policy: D) -> Self {
        Self { scheduler, policy, held: BTreeMap::new() }
    }

    pub(crate) fn backlogged(&mut self, flow: FlowId, len: u32) {
        self.held.insert(flow, len);
        self.scheduler.backlogged(flow, len);
        self.policy.backlogged(&self.scheduler, flow, len);
    }

    pub(crate) fn grew(&mut self, flow: FlowId, len: u32) {
        let held = self.held.entry(flow).or_default();
        *held += len;
        self.scheduler.grew(flow, len);
        self.policy.grew(flow, len, *held);
    }

    pub(crate) fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let left = self.left(flow, len, next_head);
        self.scheduler.served(flow, len, next_head);
        self.policy.served(flow, len, left);
    }

    pub(crate) fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        let left = self.left(flow, len, head);
        self.scheduler.lost(flow, len, head);
        self.policy.lost(flow, len, left);
    }

    /// Returns what `flow` holds after losing `len` bytes; 0 if it has no head.
    fn left(&mut self, flow: FlowId, len: u32, head: Option<u32>) -> u32 {
        let held = self.held.entry(flow).or_default();
        *held = head.map_or(0, |_| *held - len);
        *held
    }

    pub(crate) fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.policy.victim(&self.scheduler, &|flow| self.held.get(&flow).copied().unwrap_or(0))
    }

    pub(crate) fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        self.scheduler.recount(flows)?;
        self.policy.recount(&self.scheduler, flows)
    }
}

/// A random load of `operations` operations: lengths, arrivals, losses; with `churn` also flows
/// that are added, removed and changed.
pub(crate) struct Load<'a> {
    pub(crate) operations: u32,
    pub(crate) churn: bool,
    /// Initial weight and longest packet of each flow.
    pub(crate) configs: Vec<(u32, u32)>,
    /// Draws the new configuration of a flow.
    pub(crate) draw: &'a dyn Fn(&mut Xorshift) -> (u32, u32),
}

impl Load<'_> {
    /// Runs this load with a recount from time to time. Unless there is `churn`, `steady` is
    /// checked after every operation too.
    pub(crate) fn play<O: FlowScheduler<Config = QfqConfig>>(
        mut self,
        link: &mut Link<O>,
        random: &mut Xorshift,
        steady: &dyn Fn(&mut O) -> Result<(), Imbalance>,
    ) -> Result<(), Imbalance> {
        for operation in 0..self.operations {
            let flow = random.below(self.configs.len() as u32);
            let at = flow as usize;
            // Bursts and pauses: backlogs build up, and the system is idle from time to time.
            let filling = operation >> 9 & 1 == 0;
            match random.below(64) {
                0 => link.lose(flow, operation & 1 == 0),
                choice @ 1..=2 if self.churn => {
                    if choice == 2 {
                        link.remove(flow);
                    }
                    if choice == 1 || operation & 1 == 0 {
                        self.configs[at] = (self.draw)(random);
                    }
                    link.configure(flow, self.configs[at].0, self.configs[at].1).unwrap();
                }
                choice if (choice < 36) == filling => {
                    let len = 1 + random.magnitude(16);
                    link.enqueue(flow, len.min(self.configs[at].1));
                }
                _ => drop(link.dequeue()),
            }
            if operation % 64 == 0 {
                link.recount()?;
            }
            if !self.churn {
                steady(&mut link.scheduler)?;
            }
        }
        Ok(())
    }
}
