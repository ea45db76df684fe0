//! Deficit round robin as two lists of flows (RFC 8290 §4.2), where an emptied new flow really is
//! moved to the end of the old list.

use std::collections::VecDeque;

use freeboard::sched_core::{ConfigError, FlowId};

use super::order::{NaiveOrder, QueuesView, in_range, unknown};
use crate::history::{Housing, Setting};

/// The largest quantum, in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

#[derive(Clone, Debug)]
struct Flow {
    quantum: u32,
    /// What it has been sent beyond the turns it has had, in bytes.
    debt: i64,
    /// What it has been sent in the turn under way, if one is.
    sent: Option<i64>,
}

/// A place on the old list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Of(FlowId),
    /// Kept for a flow that emptied on the new list, or that stood here and lost what it had: while a flow
    /// stands before it, the flow it is kept for is not new.
    KeptFor(FlowId),
}

/// Deficit round robin, with or without a list of new flows that go first.
#[derive(Clone, Debug)]
pub struct NaiveDrr {
    max_len: u32,
    sparse_first: bool,
    flows: Vec<Option<Flow>>,
    new: VecDeque<FlowId>,
    old: VecDeque<Place>,
}

impl NaiveDrr {
    /// No flow added yet, of `flows` at most; no packet is longer than `max_len` bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32, sparse_first: bool) -> Self {
        Self {
            max_len,
            sparse_first,
            flows: vec![None; flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    fn unlist(&mut self, flow: FlowId) {
        self.new.retain(|&other| other != flow);
        self.old.retain(|&place| place != Place::Of(flow));
    }

    /// `flow` holds nothing any more, and its turn is over.
    fn finish(&mut self, flow: FlowId) {
        if self.new.contains(&flow) {
            self.old.push_back(Place::KeptFor(flow));
        }
        self.unlist(flow);
    }

    fn may_be_new(&self, flow: FlowId) -> bool {
        let kept = self.old.iter().position(|&place| place == Place::KeptFor(flow));
        let before = self.old.iter().take(kept.unwrap_or(0));
        before.filter(|place| matches!(place, Place::Of(_))).count() == 0
    }
}

impl Housing for NaiveDrr {}

impl NaiveOrder for NaiveDrr {
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
        place.get_or_insert(Flow { quantum, debt: 0, sent: None }).quantum = quantum;
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.unlist(flow);
        self.old.retain(|&place| place != Place::KeptFor(flow));
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
        let is_new = self.sparse_first && self.may_be_new(flow);
        self.old.retain(|&place| place != Place::KeptFor(flow));
        if is_new {
            self.new.push_back(flow);
        } else {
            self.old.push_back(Place::Of(flow));
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let state = self.flows[flow.index()].as_mut().expect("added");
        let sent = state.sent.unwrap_or(0) + i64::from(len);
        let overdraft = state.debt + sent - i64::from(state.quantum);
        let is_over = overdraft >= 0 || next_head.is_none();
        if is_over {
            // More than a packet only if the quantum was lowered in the turn.
            state.debt = overdraft.clamp(0, i64::from(self.max_len) - 1);
        }
        state.sent = (!is_over).then_some(sent);
        if next_head.is_none() {
            self.finish(flow);
        } else if is_over {
            self.unlist(flow);
            self.old.push_back(Place::Of(flow));
        }
    }

    /// The rest of a turn that has begun counts as sent. One that has not is as if it had never been due.
    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_some() {
            return;
        }
        let state = self.flows[flow.index()].as_mut().expect("added");
        if let Some(sent) = state.sent.take() {
            let overdraft = state.debt + sent - i64::from(state.quantum);
            state.debt = overdraft.clamp(0, i64::from(self.max_len) - 1);
            return self.finish(flow);
        }
        self.new.retain(|&other| other != flow);
        for place in &mut self.old {
            if *place == Place::Of(flow) {
                *place = Place::KeptFor(flow);
            }
        }
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        let oldest = self.old.iter().find_map(|&place| match place {
            Place::Of(flow) => Some(flow),
            Place::KeptFor(_) => None,
        });
        self.new.front().copied().or(oldest)
    }
}
