//! Eligibility of classes: each is idle, open or closed, and the flow scheduler holds the open
//! ones.

use super::{ClassTables, Classes, Classify};
use crate::disciplines::tournament::{Ranked, Tournament};
use crate::flow_scheduler::FlowScheduler;
use crate::scheduler::{Backlog, Scheduler};
use crate::{FlowId, Nanos};

/// Finds the closed class that opens first. The key of a `ClassState` is 1 if the class is
/// closed, and the stamp is the time at which it opens; otherwise the stamp is [`IDLE`] or
/// [`OPEN`].
pub(super) type Opening = Tournament<false>;

const IDLE: u64 = 0;
const OPEN: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The class holds nothing.
    Idle,
    /// The class may send: it is backlogged in the flow scheduler.
    Open,
    /// The class holds packets and may not send before this instant.
    Closed(Nanos),
}

impl Status {
    /// Determines the status of `class` from its backlog and [`Scheduler::poll_at`].
    #[inline]
    pub(super) fn of<S: Scheduler>(class: &S, held: Backlog, now: Nanos) -> Self {
        if held.packets == 0 {
            return Self::Idle;
        }
        match class.poll_at(now) {
            Some(at) if at <= now => Self::Open,
            at => Self::Closed(at.unwrap_or(Nanos::MAX)),
        }
    }
}

/// Maximum number of closed classes that a call opens. More than one, because a call closes at most
/// one: so every class that is due gets its turn.
const OPENED_A_CALL: u32 = 2;

impl<O, S, R, M> Classes<O, S, R, M>
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    #[inline]
    pub(super) fn status(&self, class: FlowId) -> Status {
        match self.states.as_ref().get(class.index()) {
            Some(state) if state.is_backlogged() => Status::Closed(Nanos(state.stamp())),
            Some(state) if state.stamp() == OPEN => Status::Open,
            _ => Status::Idle,
        }
    }

    pub(super) fn set_status(&mut self, class: FlowId, status: Status) {
        let before = self.status(class);
        let states = self.states.as_mut();
        let Some(state) = states.get_mut(class.index()) else { return };
        let (key, stamp) = match status {
            Status::Idle => (0, IDLE),
            Status::Open => (0, OPEN),
            Status::Closed(until) => (1, until.0),
        };
        state.set_bytes(key);
        state.set_stamp(stamp);
        match (before, status) {
            (Status::Closed(before), Status::Closed(until)) if before < until => {
                Opening::lost(states, class);
            }
            (_, Status::Closed(_)) => Opening::gained(states, class),
            (Status::Closed(_), _) => Opening::lost(states, class),
            _ => {}
        }
    }

    /// Returns the closed class that has been due longest.
    #[inline]
    pub(super) fn first_due(&self, now: Nanos) -> Option<FlowId> {
        let class = Opening::first(self.states.as_ref())?;
        match self.status(class) {
            Status::Closed(until) if until <= now && until < Nanos::MAX => Some(class),
            _ => None,
        }
    }

    /// Opens closed classes that are due in the flow scheduler.
    #[inline]
    pub(super) fn open_due(&mut self, now: Nanos) {
        for _ in 0..OPENED_A_CALL {
            crate::steps::step();
            let Some(class) = self.first_due(now) else { return };
            self.settle(class, 0, 0);
        }
    }

    /// Returns the length that `class`, open, is assumed to send next.
    pub(super) fn next_len(&self, class: FlowId) -> u32 {
        let Some(scheduler) = self.class(class) else { return 0 };
        // If the flow scheduler ignores this length, the packet is not looked up.
        let next = if self.scheduler.needs().looks_ahead { scheduler.peek(self.now) } else { None };
        next.map_or(scheduler.backlog().bytes, |packet| packet.len)
    }

    /// Updates the flow scheduler after a call in which `arrived` bytes arrived at `class` and
    /// `lost` bytes were dropped there; either may be 0.
    pub(super) fn settle(&mut self, class: FlowId, arrived: u32, lost: u32) {
        let Some(scheduler) = self.class(class) else { return };
        let status = Status::of(scheduler, scheduler.backlog(), self.now);
        self.settle_as(class, status, arrived, lost);
    }

    pub(super) fn settle_as(&mut self, class: FlowId, status: Status, arrived: u32, lost: u32) {
        let Some(held) = self.class(class).map(Scheduler::backlog) else { return };
        let before = self.status(class);
        if before == Status::Open {
            // Arrivals come first: a class whose only packet was dropped for a new one keeps its
            // position.
            if arrived != 0 {
                self.scheduler.grew(class, arrived);
            }
            if status != Status::Open {
                self.scheduler.lost(class, lost, None);
            } else if lost != 0 {
                let next = self.next_len(class);
                self.scheduler.lost(class, lost, Some(next));
            }
        } else if status == Status::Open {
            let next = self.next_len(class);
            self.scheduler.backlogged(class, next);
            if held.bytes > next {
                self.scheduler.grew(class, held.bytes.wrapping_sub(next));
            }
        }
        if status != before {
            self.set_status(class, status);
        }
        self.rank(class, held.bytes);
    }

    /// Sets `class` aside, which was selected and returned no packet, so that it cannot block the
    /// others.
    #[cold]
    pub(super) fn pass_over(&mut self, now: Nanos, class: FlowId, lost: u32) {
        let Some(scheduler) = self.class(class) else { return };
        let status = match Status::of(scheduler, scheduler.backlog(), now) {
            // The end of time means never, but this class is to be tried again at once.
            Status::Open => Status::Closed(now.min(Nanos(Nanos::MAX.0 - 1))),
            status => status,
        };
        self.settle_as(class, status, 0, lost);
    }

    /// Returns the class that is served next, if any may send.
    #[inline]
    pub(super) fn next_class(&self, now: Nanos) -> Option<FlowId> {
        self.scheduler.select().or_else(|| self.first_due(now))
    }
}
