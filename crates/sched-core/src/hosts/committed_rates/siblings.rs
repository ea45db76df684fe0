//! Flows that have one rate together.
//!
//! Each sibling keeps the rate and the bucket, so that an idle one can leave at any time, and what one is sent is taken out of all.

use super::{CommittedFlow, CommittedRates, CommittedReturn, WireLength};
use crate::flow_scheduler::{ConfigError, FlowScheduler, Table};
use crate::hosts::siblings::{self as rings, MOST};
use crate::{FlowId, Imbalance};

impl<O, C, W, B, L> CommittedRates<O, C, W, B, L>
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
    B: FlowScheduler<Config = O::Config>,
    L: WireLength,
{
    /// Makes `flow` a sibling of `other`, and of all siblings of that: from now on they have one rate and one bucket together,
    /// those of `other`. If both have the same rate, the bucket is the one that lacks more. `flow` leaves the siblings it has.
    /// Flows may be idle or backlogged. Flows that are siblings already stay as they are, and so does a flow that is to join itself.
    /// Cost: O(siblings), at most eight, times O(log flows).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::UnknownFlow`] if there is no room for a rate of one of them, and for flows from 2³⁰ − 1 on.
    /// - [`ConfigError::OutOfRange`] if `other` has seven siblings, and if its burst is below the longest packet of `flow` on the wire.
    pub fn join(&mut self, flow: FlowId, other: FlowId) -> Result<(), ConfigError> {
        let (flows, room) = (self.flows.as_ref(), self.room().min(CommittedFlow::SIBLINGS));
        if !rings::check_join(flows, flow, other, room)? {
            return Ok(());
        }
        let Some(after) = flows.get(other.index()).copied() else { return Ok(()) };
        if let Some(rate) = after.rate() {
            let (burst, least) = (rate.burst().into(), self.longest(flow).into());
            ConfigError::check_range("burst in bytes", burst, least, u32::MAX.into())?;
        }
        if self.is_excess(flow) {
            self.come_back(flow);
        }
        rings::join(self.flows.as_mut(), flow, other);
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return Ok(()) };
        state.share(&after, true);
        let state = *state;
        self.share(flow, &state);
        self.settle(flow);
        Ok(())
    }

    /// `flow` has no siblings from now on: it keeps the rate, and the bucket as it is. Cost: O(siblings), at most eight.
    pub fn part(&mut self, flow: FlowId) {
        let _before = rings::part(self.flows.as_mut(), flow);
    }

    /// `flow` and its siblings have the rate and the bucket of `state`.
    pub(super) fn share(&mut self, flow: FlowId, state: &CommittedFlow) {
        let mut at = flow;
        for _ in 0..MOST {
            if let Some(sibling) = self.flows.as_mut().get_mut(at.index()) {
                sibling.share(state, false);
            }
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                return;
            }
        }
    }

    /// `flow` and its siblings, of whom the bucket lacks more, or the rate is another one: those that conform no longer are in
    /// excess, and what is in excess is due when the bucket says.
    pub(super) fn settle(&mut self, flow: FlowId) {
        let mut at = flow;
        for _ in 0..MOST {
            if self.is_excess(at) {
                self.put_off(at);
            } else {
                self.exceed(at);
            }
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                return;
            }
        }
    }

    /// `flow`, if it is backlogged and its bucket overdrawn, goes from those that conform to those in excess.
    fn exceed(&mut self, flow: FlowId) {
        let now = self.clock.now();
        let state = self.flows.as_ref().get(flow.index());
        if state.is_some_and(|state| state.is_backlogged() && !state.is_conforming(now)) {
            self.conforming.lost(flow, super::ANY_LEN, None);
            self.become_excess(flow);
        }
    }

    /// `flow` and its siblings conform.
    pub(super) fn conform(&mut self, flow: FlowId) {
        if self.is_excess(flow) {
            self.come_back(flow);
        }
        self.return_siblings(flow);
    }

    /// The siblings of `flow`, which conforms again, conform again.
    pub(super) fn return_siblings(&mut self, flow: FlowId) {
        let mut at = flow;
        for _ in 1..MOST {
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                return;
            }
            if self.is_excess(at) {
                crate::steps::step();
                self.come_back(at);
            }
        }
    }

    /// Checks that siblings are rings, with one rate and one bucket.
    pub(super) fn recount_siblings(&self) -> Result<(), Imbalance> {
        let flows = self.flows.as_ref();
        rings::recount(flows)?;
        for (at, state) in (0..).map(FlowId).zip(flows) {
            let is_alike = |other: FlowId| {
                flows.get(other.index()).is_some_and(|other| other.is_shared(state))
            };
            let alike = rings::others(flows, at).all(is_alike);
            Imbalance::check("one bucket of siblings", at.0, 1, alike.into())?;
        }
        Ok(())
    }
}
