//! Reference model of deficit round robin with two lists of flows (RFC 8290 §4.2). A turn leaves an
//! explicit marker on the old list; while other flows precede the marker, the turn has not ended.

use std::collections::{BTreeSet, VecDeque};

use freeboard::sched_core::{ConfigError, FlowId};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use super::quanta::NaiveQuanta;
use crate::history::Setting;

/// Largest quantum in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

#[derive(Clone, Debug)]
struct NaiveDrrFlow {
    quantum: u32,
    /// Bytes sent beyond past turns.
    debt: i64,
    /// Bytes sent in the current turn, if any. A turn can continue while the flow is empty.
    sent: Option<i64>,
}

impl NaiveDrrFlow {
    /// Ends the turn, used up or not.
    fn end_turn(&mut self, most_debt: i64) {
        let overdraft = self.debt + self.sent.take().unwrap_or(0) - i64::from(self.quantum);
        // Exceeded only if the quantum was lowered during the turn.
        self.debt = overdraft.clamp(0, most_debt - 1);
    }

    fn is_spent_in_advance(&self) -> bool {
        self.sent.is_none() && self.debt >= self.quantum.into()
    }

    fn has_used_up(&self) -> bool {
        self.sent.is_some_and(|sent| self.debt + sent >= self.quantum.into())
    }
}

/// An element of the old list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Of(FlowId),
    /// Marker of a flow's turn: of a flow on the new list, from the time the turn began; of a flow
    /// that became empty on the old list; or the former position of a flow that lost its packets
    /// before its turn. While other flows precede it, the flow gets no other turn.
    KeptFor(FlowId),
}

/// Deficit round robin, with or without a list of new flows that are served first.
#[derive(Clone, Debug)]
pub struct NaiveDrr {
    max_len: u32,
    sparse_first: bool,
    quanta: NaiveQuanta,
    flows: Vec<Option<NaiveDrrFlow>>,
    new: VecDeque<FlowId>,
    old: VecDeque<Place>,
    /// Flows that may be served in advance of a turn they wait for; the next field enables this.
    sparse: BTreeSet<FlowId>,
    serves_early: bool,
    early: VecDeque<FlowId>,
    /// Upper limit (exclusive) of a flow's debt after a turn.
    most_debt: i64,
}

impl NaiveDrr {
    /// Creates the model without flows, for at most `flows` flows and packets of at most `max_len`
    /// bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32, sparse_first: bool) -> Self {
        Self {
            max_len,
            sparse_first,
            quanta: NaiveQuanta::default(),
            flows: vec![None; flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            sparse: BTreeSet::new(),
            serves_early: false,
            early: VecDeque::new(),
            most_debt: max_len.into(),
        }
    }

    /// Allows flows to be overdrawn in advance as well.
    pub(super) const fn with_debts_in_advance(&mut self) {
        self.most_debt = 2 * self.max_len as i64;
    }

    /// Enables or disables service in advance of turns.
    pub(super) fn serve_early(&mut self, on: bool) {
        self.serves_early = on;
        self.early.clear();
    }

    /// Sets whether `flow` holds packets that may be sent in advance of its turn.
    pub(super) fn set_sparse(&mut self, flow: FlowId, is_sparse: bool) {
        match is_sparse {
            true => self.sparse.insert(flow),
            false => self.sparse.remove(&flow),
        };
    }

    fn may_be_early(&self, flow: FlowId) -> bool {
        let waits = self.serves_early && self.old.contains(&Place::Of(flow));
        let state = self.flows[flow.index()].as_ref().filter(|_| waits);
        let may = |state: &NaiveDrrFlow| state.sent.is_none() && !state.is_spent_in_advance();
        self.sparse.contains(&flow) && state.is_some_and(may)
    }

    /// Adds `flow`, which was already backlogged, to the early list if it may be served in advance.
    pub(super) fn come_early(&mut self, flow: FlowId) {
        if self.may_be_early(flow) && !self.early.contains(&flow) {
            self.early.push_back(flow);
        }
    }

    /// Removes `flow` from the early list if it may not be served in advance.
    pub(super) fn note_early(&mut self, flow: FlowId) {
        if !self.may_be_early(flow) {
            self.early.retain(|&other| other != flow);
        }
    }

    /// Counts the flows on the early list, and those that have used up their turns in advance.
    pub(super) fn in_advance(&self) -> [u64; 2] {
        let added = self.flows.iter().flatten();
        let spent = added.filter(|state| self.serves_early && state.is_spent_in_advance());
        [self.early.len() as u64, spent.count() as u64]
    }

    /// Returns true if `flow` is on the new list.
    pub(super) fn is_new(&self, flow: FlowId) -> bool {
        self.new.contains(&flow)
    }

    /// Returns true if the new list is not empty.
    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Moves the next flow to the end of the old list if it has spent its turn in advance.
    fn pass_over(&mut self) {
        let Some(flow) = self.oldest().filter(|_| self.serves_early && self.new.is_empty()) else {
            return;
        };
        let most_debt = self.most_debt;
        if self.flow_mut(flow).is_spent_in_advance() {
            self.flow_mut(flow).end_turn(most_debt);
            self.unlist(flow);
            self.old.push_back(Place::Of(flow));
            self.note_early(flow);
        }
    }

    fn oldest(&self) -> Option<FlowId> {
        self.old.iter().find_map(|&place| match place {
            Place::Of(flow) => Some(flow),
            Place::KeptFor(_) => None,
        })
    }

    /// Caps the debt of `flow` from advance service at `most - 1`; does nothing if its turn has
    /// begun.
    pub(super) fn forgive(&mut self, flow: FlowId, most: i64) {
        let state = self.flow_mut(flow);
        if state.sent.is_none() {
            state.debt = state.debt.min(most - 1);
        }
    }

    /// Sets the cost of packets.
    pub(super) fn with_quanta(self, quanta: &NaiveQuanta) -> Self {
        Self { quanta: quanta.clone(), ..self }
    }

    fn unlist(&mut self, flow: FlowId) {
        self.new.retain(|&other| other != flow);
        self.old.retain(|&place| place != Place::Of(flow));
    }

    /// Handles a flow that became empty during its turn.
    fn finish(&mut self, flow: FlowId) {
        if !self.new.contains(&flow) {
            self.mark(flow);
        }
        self.unlist(flow);
        let most_debt = self.most_debt;
        let state = self.flow_mut(flow);
        if state.has_used_up() {
            state.end_turn(most_debt);
        }
    }

    /// Handles a flow that became empty before its turn began.
    fn give_up_turn(&mut self, flow: FlowId) {
        if self.new.contains(&flow) {
            self.old.retain(|&place| place != Place::KeptFor(flow));
            self.new.retain(|&other| other != flow);
        }
        for place in &mut self.old {
            if *place == Place::Of(flow) {
                *place = Place::KeptFor(flow);
            }
        }
    }

    /// Puts the marker of `flow` at the end of the old list, and removes it elsewhere.
    fn mark(&mut self, flow: FlowId) {
        self.old.retain(|&place| place != Place::KeptFor(flow));
        self.old.push_back(Place::KeptFor(flow));
    }

    /// Returns true if no flow precedes the marker of `flow`.
    fn has_gone_round(&self, flow: FlowId) -> bool {
        let kept = self.old.iter().position(|&place| place == Place::KeptFor(flow));
        let before = self.old.iter().take(kept.unwrap_or(0));
        before.filter(|place| matches!(place, Place::Of(_))).count() == 0
    }

    /// Charges service of `flow` in another tin to its current or next turn, if it is listed;
    /// leaves at least one byte of the turn.
    pub(super) fn charge_elsewhere(&mut self, flow: FlowId, len: u32) {
        if !self.new.contains(&flow) && !self.old.contains(&Place::Of(flow)) {
            return;
        }
        let cost = self.quanta.cost(len);
        let state = self.flow_mut(flow);
        let left = i64::from(state.quantum) - 1 - state.debt - state.sent.unwrap_or(0);
        state.debt += left.clamp(0, cost);
    }

    fn flow_mut(&mut self, flow: FlowId) -> &mut NaiveDrrFlow {
        self.flows[flow.index()].as_mut().expect("added")
    }
}

impl NaiveFlowScheduler for NaiveDrr {
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
        let state = place.get_or_insert(NaiveDrrFlow { quantum, debt: 0, sent: None });
        state.quantum = quantum;
        let is_listed = self.new.contains(&flow) || self.old.contains(&Place::Of(flow));
        if !is_listed && state.has_used_up() {
            state.end_turn(self.most_debt);
        }
        if self.most_debt > self.max_len.into() {
            self.forgive(flow, i64::from(quantum) + i64::from(self.max_len));
        }
        self.note_early(flow);
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.unlist(flow);
        self.early.retain(|&other| other != flow);
        self.sparse.remove(&flow);
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
        let (sparse_first, most_debt) = (self.sparse_first, self.most_debt);
        let may_have_turn = self.has_gone_round(flow);
        let state = self.flow_mut(flow);
        let has_rest = state.sent.is_some();
        if sparse_first && has_rest && !may_have_turn {
            return self.new.push_back(flow);
        }
        if has_rest {
            state.end_turn(most_debt);
        }
        if sparse_first && may_have_turn {
            self.mark(flow);
            self.new.push_back(flow);
        } else {
            self.old.retain(|&place| place != Place::KeptFor(flow));
            self.old.push_back(Place::Of(flow));
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.quanta.note(len);
        let (most_debt, cost) = (self.most_debt, self.quanta.cost(len));
        if self.new.is_empty() && self.early.front() == Some(&flow) {
            self.early.rotate_left(1);
            self.flow_mut(flow).debt += cost;
            if next_head.is_none() {
                self.give_up_turn(flow);
            }
            self.note_early(flow);
        } else {
            let state = self.flow_mut(flow);
            state.sent = Some(state.sent.unwrap_or(0) + cost);
            let is_over = state.has_used_up();
            if next_head.is_none() {
                self.finish(flow);
            } else if is_over {
                state.end_turn(most_debt);
                self.unlist(flow);
                self.old.retain(|&place| place != Place::KeptFor(flow));
                self.old.push_back(Place::Of(flow));
            }
            self.pass_over();
        }
    }

    /// The rest of a turn that has begun is kept. A turn that has not begun is treated as if it had
    /// never been due.
    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_none() {
            match self.flow_mut(flow).sent {
                Some(_) => self.finish(flow),
                None => self.give_up_turn(flow),
            }
        }
        self.note_early(flow);
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        self.new.front().or(self.early.front()).copied().or_else(|| self.oldest())
    }
}
