//! Flows that belong together, as lists.

use freeboard::sched_core::FlowId;

/// Rings of flows, at most eight each. A flow in none is alone.
#[derive(Clone, Debug, Default)]
pub(super) struct NaiveSiblings {
    rings: Vec<Vec<FlowId>>,
}

impl NaiveSiblings {
    /// `flow` and its siblings, in the order of the ring from `flow` on.
    pub(super) fn of(&self, flow: FlowId) -> Vec<FlowId> {
        let Some(ring) = self.rings.iter().find(|ring| ring.contains(&flow)) else {
            return vec![flow];
        };
        let mut ring = ring.clone();
        let at = ring.iter().position(|member| *member == flow).expect("it is there");
        ring.rotate_left(at);
        ring
    }

    /// The same, with `flow` last.
    pub(super) fn behind(&self, flow: FlowId) -> Vec<FlowId> {
        let mut ring = self.of(flow);
        ring.rotate_left(1);
        ring
    }

    /// Whether `flow` may join `other`.
    pub(super) fn may_join(&self, flow: FlowId, other: FlowId) -> bool {
        let ring = self.of(other);
        !ring.contains(&flow) && ring.len() < 8
    }

    /// Puts `flow` behind `other` in its ring, if it may join.
    pub(super) fn join(&mut self, flow: FlowId, other: FlowId) {
        if !self.may_join(flow, other) {
            return;
        }
        self.part(flow);
        if !self.rings.iter().any(|ring| ring.contains(&other)) {
            self.rings.push(vec![other]);
        }
        let ring = self.rings.iter_mut().find(|ring| ring.contains(&other)).expect("it is there");
        let at = ring.iter().position(|member| *member == other).expect("it is there");
        ring.insert(at + 1, flow);
    }

    /// `flow` is alone. Returns who stood before it.
    pub(super) fn part(&mut self, flow: FlowId) -> Option<FlowId> {
        let before = self.of(flow).last().copied().filter(|before| *before != flow);
        self.rings.iter_mut().for_each(|ring| ring.retain(|member| *member != flow));
        self.rings.retain(|ring| ring.len() > 1);
        before
    }
}
