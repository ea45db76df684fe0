//! Flows that have one ceiling together.
//!
//! Each sibling keeps the ceiling and the bucket, so that an idle one can leave at any time, and what one is sent is taken out of all.
//! One of those that wait is *booked* for all: the one that is due first, and of several the next behind the one that was
//! booked before.

use super::ceiling::{CeilingFlow, Place};
use super::{ANY_LEN, CeilingReturn, Ceilings, Returning, WireLength};
use crate::disciplines::tournament::Ranked;
use crate::flow_scheduler::{ConfigError, FlowScheduler, Table};
use crate::hosts::siblings::{self as rings, MOST};
use crate::{FlowId, Imbalance};

impl<O, C, W, L> Ceilings<O, C, W, L>
where
    O: FlowScheduler,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
    L: WireLength,
{
    /// Makes `flow` a sibling of `other`, and of all siblings of that: from now on they have one ceiling and one bucket together,
    /// those of `other`. If both have the same ceiling, the bucket is the one that lacks more. `flow` leaves the siblings it has.
    /// Flows may be idle or backlogged. Flows that are siblings already stay as they are, and so does a flow that is to join itself.
    /// Cost: O(siblings), at most eight, times O(log flows).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::UnknownFlow`] if there is no room for a ceiling of one of them.
    /// - [`ConfigError::OutOfRange`] if `other` has seven siblings, and if its burst is below the longest packet of `flow` on the wire.
    pub fn join(&mut self, flow: FlowId, other: FlowId) -> Result<(), ConfigError> {
        if !rings::check_join(self.flows.as_ref(), flow, other, self.room())? {
            return Ok(());
        }
        let (before, after) = (self.state(flow), self.state(other));
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        if let Some(ceiling) = after.ceiling {
            let (burst, least) = (ceiling.burst.into(), self.longest(flow).into());
            ConfigError::check_range("burst in bytes", burst, least, u32::MAX.into())?;
        }
        self.part(flow);
        // One of its siblings is booked, or will be.
        self.unbook(flow);
        rings::join(self.flows.as_mut(), flow, other);
        let bucket = if before.ceiling == after.ceiling {
            after.bucket.lacking_more(before.bucket)
        } else {
            after.bucket
        };
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            (state.ceiling, state.bucket) = (after.ceiling, bucket);
        }
        self.share(flow);
        if after.ceiling.is_none() {
            self.return_all(flow);
        }
        self.close(flow);
        Ok(())
    }

    /// `flow` has no siblings from now on: it keeps the ceiling, and the bucket as it is. Cost: as of [`Self::join`].
    pub fn part(&mut self, flow: FlowId) {
        let Some(before) = rings::part(self.flows.as_mut(), flow) else { return };
        self.book(flow);
        self.book(before);
    }

    fn state(&self, flow: FlowId) -> Option<CeilingFlow> {
        self.flows.as_ref().get(flow.index()).copied()
    }

    /// The siblings of `flow` have the ceiling and the bucket that it has.
    pub(super) fn share(&mut self, flow: FlowId) {
        let Some(CeilingFlow { ceiling, bucket, .. }) = self.state(flow) else { return };
        let mut at = flow;
        for _ in 1..MOST {
            at = rings::next(self.flows.as_ref(), at);
            let state = self.flows.as_mut().get_mut(at.index()).filter(|_| at != flow);
            let Some(state) = state else { return };
            (state.ceiling, state.bucket) = (ceiling, bucket);
        }
    }

    /// `flow` and its siblings, of whom the bucket is another: those that may not be served wait.
    pub(super) fn close(&mut self, flow: FlowId) {
        let mut at = flow;
        for _ in 0..MOST {
            let is_served = self.state(at).is_some_and(|state| state.place == Place::Served);
            if is_served && !self.is_open(at) {
                self.scheduler.lost(at, ANY_LEN, None);
                self.wait(at);
            }
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                break;
            }
        }
        self.book(flow);
    }

    /// `flow` and its siblings wait no longer.
    pub(super) fn return_all(&mut self, flow: FlowId) {
        let mut at = flow;
        for _ in 0..MOST {
            if self.is_waiting(at) {
                self.come_back(at);
            }
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                return;
            }
        }
    }

    /// The siblings of `flow` that are due are in the flow scheduler again, as it is.
    pub(super) fn return_open(&mut self, flow: FlowId) {
        let mut at = flow;
        for _ in 1..MOST {
            at = rings::next(self.flows.as_ref(), at);
            if at == flow {
                return;
            }
            if self.is_waiting(at) && self.is_open(at) {
                crate::steps::step();
                self.come_back(at);
            }
        }
    }

    /// Books the return of `flow` and its siblings, of which one has begun to wait, or ended, or is due at another time.
    pub(super) fn book(&mut self, flow: FlowId) {
        let before = self.booked(flow);
        let after = self.first_of(flow, before);
        if let Some(before) = before.filter(|before| Some(*before) != after) {
            self.unbook(before);
        }
        let Some(first) = after else { return };
        let due = self.due(first);
        let returns = self.returns.as_mut();
        let Some(place) = returns.get_mut(first.index()) else { return };
        let (was_booked, stamp) = (place.is_backlogged(), place.stamp());
        place.set_bytes(1);
        place.set_stamp(due);
        if !was_booked || due < stamp {
            Returning::gained(returns, first);
        } else if due > stamp {
            Returning::lost(returns, first);
        }
    }

    fn unbook(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        let Some(place) = returns.get_mut(flow.index()) else { return };
        place.set_bytes(0);
        Returning::lost(returns, flow);
    }

    /// The one of `flow` and its siblings that is booked.
    fn booked(&self, flow: FlowId) -> Option<FlowId> {
        let is_booked = |flow: &FlowId| {
            self.returns.as_ref().get(flow.index()).is_some_and(CeilingReturn::is_backlogged)
        };
        rings::others(self.flows.as_ref(), flow).chain([flow]).find(is_booked)
    }

    /// The one of `flow` and its siblings that waits and is due first: of several `booked`, or else the next behind `flow`.
    fn first_of(&self, flow: FlowId, booked: Option<FlowId>) -> Option<FlowId> {
        let in_turn = rings::others(self.flows.as_ref(), flow).chain([flow]);
        let waiting = booked.into_iter().chain(in_turn).filter(|flow| self.is_waiting(*flow));
        // The first of those that are alike.
        waiting.min_by_key(|flow| self.due(*flow))
    }

    /// When `flow` may be served.
    fn due(&self, flow: FlowId) -> u64 {
        let state = self.flows.as_ref().get(flow.index());
        state.map_or(0, |state| state.due(self.longest(flow)))
    }

    /// Checks that one is booked for `flow`, which waits, and its siblings, and none of them is due before.
    pub(super) fn recount_booked(&self, flow: FlowId) -> Result<(), Imbalance> {
        let of_all = rings::others(self.flows.as_ref(), flow).chain([flow]);
        let booked = of_all.filter(|flow| {
            self.returns.as_ref().get(flow.index()).is_some_and(CeilingReturn::is_backlogged)
        });
        Imbalance::check("booked for siblings", flow.0, 1, booked.count() as u64)?;
        let first = self.booked(flow).map_or(u64::MAX, |booked| self.due(booked));
        let is_late = (first > self.due(flow)).into();
        Imbalance::check("due before the one that is booked", flow.0, 0, is_late)
    }

    /// Checks that siblings are rings, with one ceiling and one bucket.
    pub(super) fn recount_siblings(&self) -> Result<(), Imbalance> {
        let flows = self.flows.as_ref();
        rings::recount(flows)?;
        for (at, state) in (0..).map(FlowId).zip(flows) {
            let is_alike = |other: FlowId| {
                let other = flows.get(other.index());
                other.is_some_and(|other| {
                    (other.ceiling, other.bucket) == (state.ceiling, state.bucket)
                })
            };
            let alike = rings::others(flows, at).all(is_alike);
            Imbalance::check("one bucket of siblings", at.0, 1, alike.into())?;
        }
        Ok(())
    }
}
