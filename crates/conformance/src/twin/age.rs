//! Reference model of levels by attained service: a queue of flows for each level, and every rule
//! as defined.

use std::collections::VecDeque;

use freeboard::sched_core::{AgeParams, ConfigError, FlowId, Nanos};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use crate::history::Setting;

/// Largest quantum in bytes.
const MAX_QUANTUM: u32 = 1 << 28;
/// Resolution of times in ns, 2^20.
const TICK: u64 = 1 << 20;

#[derive(Clone, Debug)]
struct NaiveAgeFlow {
    quantum: u32,
    /// Bytes sent beyond past turns.
    debt: i64,
    /// Bytes sent in the current turn, if there is one or its rest is kept.
    sent: Option<i64>,
    /// Bytes sent since the flow was new.
    attained: u64,
    level: usize,
    /// Time in ticks at which the flow became idle.
    idle_since: u64,
}

impl NaiveAgeFlow {
    fn has_used_up(&self) -> bool {
        self.sent.is_some_and(|sent| self.debt + sent >= self.quantum.into())
    }

    /// Ends the turn, used up or not.
    fn end_turn(&mut self, max_len: u32) {
        let overdraft = self.debt + self.sent.take().unwrap_or(0) - i64::from(self.quantum);
        self.debt = overdraft.clamp(0, i64::from(max_len) - 1);
    }
}

/// Levels by attained service, with DRR inside each level.
#[derive(Clone, Debug)]
pub struct NaiveAge {
    max_len: u32,
    params: AgeParams,
    flows: Vec<Option<NaiveAgeFlow>>,
    levels: Vec<VecDeque<FlowId>>,
    /// Threshold in units of 2^-16 bytes.
    threshold: u64,
    /// Bytes that the floor may still claim; negative if it has received more.
    claim: i64,
    floor_at: usize,
    now: Option<Nanos>,
    elapsed: u64,
}

impl NaiveAge {
    /// Creates the model without flows, for at most `flows` flows and packets of at most `max_len`
    /// bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32, params: AgeParams) -> Self {
        Self {
            max_len,
            params,
            flows: vec![None; flows as usize],
            levels: vec![VecDeque::new(); params.levels as usize],
            threshold: u64::from(params.threshold) << 16,
            claim: 0,
            floor_at: 0,
            now: None,
            elapsed: 0,
        }
    }

    fn flow_mut(&mut self, flow: FlowId) -> &mut NaiveAgeFlow {
        self.flows[flow.index()].as_mut().expect("added")
    }

    fn in_use(&self) -> Vec<usize> {
        (0..self.levels.len()).filter(|&level| !self.levels[level].is_empty()).collect()
    }

    fn unlist(&mut self, flow: FlowId) {
        for level in &mut self.levels {
            level.retain(|&other| other != flow);
        }
    }

    /// Handles a flow that has become empty.
    fn stop(&mut self, flow: FlowId) {
        self.unlist(flow);
        let (max_len, ticks) = (self.max_len, self.elapsed / TICK);
        let state = self.flow_mut(flow);
        state.idle_since = ticks;
        if state.has_used_up() {
            state.end_turn(max_len);
        }
    }

    /// Returns the number of thresholds reached.
    fn level_of(&self, attained: u64) -> usize {
        let first = self.threshold >> 16;
        (0..self.levels.len() - 1).filter(|&level| first << level <= attained).count()
    }

    /// Updates the claim of the floor after a level has sent `len` bytes.
    fn claim(&mut self, level: usize, len: u32) {
        let Some(one_in) = self.params.floor else { return };
        let had_claim = self.claim > 0;
        let is_alone = self.in_use().len() == 1;
        self.claim += i64::from(len);
        if had_claim || is_alone {
            let ahead = i64::from(self.max_len) * (i64::from(one_in) - 1);
            self.claim = (self.claim - i64::from(len) * i64::from(one_in)).max(-ahead);
        }
        if had_claim {
            self.floor_at = level;
        }
    }

    fn learn(&mut self, step: i64) {
        if let Some(range) = self.params.learned {
            let (least, most) = (u64::from(range.least) << 16, u64::from(range.most) << 16);
            let change = if step > 0 { self.threshold / 32 } else { self.threshold / 512 };
            let moved = if step > 0 { self.threshold + change } else { self.threshold - change };
            self.threshold = moved.clamp(least, most);
        }
    }
}

impl NaiveFlowScheduler for NaiveAge {
    fn advance(&mut self, now: Nanos) {
        self.elapsed += self.now.map_or(0, |before| now.since(before).0);
        self.now = Some(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        let place = self.flows.get_mut(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        let quantum = setting.quantum();
        in_range("quantum in bytes", quantum, self.max_len, MAX_QUANTUM)?;
        let state = place.get_or_insert(NaiveAgeFlow {
            quantum,
            debt: 0,
            sent: None,
            attained: 0,
            level: 0,
            idle_since: 0,
        });
        state.quantum = quantum;
        let is_listed = self.levels.iter().any(|level| level.contains(&flow));
        if !is_listed && state.has_used_up() {
            state.end_turn(self.max_len);
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.unlist(flow);
        if let Some(place) = self.flows.get_mut(flow.index()) {
            *place = None;
        }
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.flows.get(flow.index())?.as_ref().map(|flow| [flow.quantum, 0])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.as_ref().map(|_| self.max_len)
    }

    fn common_max_len(&self) -> u32 {
        self.max_len
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let (ticks, max_len) = (self.elapsed / TICK, self.max_len);
        let renewed_after = self.params.renewed_after.0.div_ceil(TICK);
        let state = self.flow_mut(flow);
        if state.sent.is_some() {
            state.end_turn(max_len);
        }
        if ticks - state.idle_since >= renewed_after {
            (state.attained, state.level) = (0, 0);
        }
        let level = state.level;
        self.levels[level].push_back(flow);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let max_len = self.max_len;
        if self.flow_mut(flow).attained == 0 {
            self.learn(-1);
        }
        let state = self.flow_mut(flow);
        let (from, attained) = (state.level, state.attained + u64::from(len));
        state.attained = attained;
        state.sent = Some(state.sent.unwrap_or(0) + i64::from(len));
        let to = from.max(self.level_of(attained));
        self.flow_mut(flow).level = to;
        if from == 0 && to > 0 {
            self.learn(1);
        }
        self.claim(from, len);
        if next_head.is_none() {
            return self.stop(flow);
        }
        let state = self.flow_mut(flow);
        if state.has_used_up() || to != from {
            state.end_turn(max_len);
            self.unlist(flow);
            self.levels[to].push_back(flow);
        }
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_none() {
            self.stop(flow);
        }
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        let in_use = self.in_use();
        let old = in_use.iter().copied().filter(|&level| level > 0);
        let mut level = in_use.first().copied()?;
        if self.claim > 0 {
            // Levels below the first take turns.
            let next = old.clone().find(|&level| level > self.floor_at).or_else(|| old.min());
            level = next.unwrap_or(level);
        }
        self.levels[level].front().copied()
    }
}
