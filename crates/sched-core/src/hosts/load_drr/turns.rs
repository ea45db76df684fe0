//! A turn of a flow from its place in the calendar to its end, in one tin.

use super::flow::{Place, Standing};
use super::tins::TinRounds;
use super::{LoadDrr, LoadDrrFlow, LoadDrrHost, RoundList, Side, Sides, is_not_later};
use crate::FlowId;
use crate::disciplines::drr::ring::debt;
use crate::flow_scheduler::Table;
use crate::hosts::token_bucket::WireLength;

impl<N, S, D, W, L> LoadDrr<N, S, D, W, L>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
    L: WireLength,
{
    /// The turn of `flow`, which was selected, is over, overdrawn by `debt`. With `ONE` tin, `tin` is it.
    #[inline(never)]
    fn end_turn<const ONE: bool>(&mut self, tin: u32, flow: u32, debt: u32) {
        let tin = if ONE { 0 } else { tin };
        let Self { nodes, sources, destinations, calendar, tins, .. } = self;
        let nodes = nodes.as_mut();
        let Some(rounds) = tins.get_mut(tin as usize) else { return };
        let Some(node) = nodes.get_mut(flow as usize) else { return };
        rounds.round = node.turn;
        // The flow is the first of its list, and the flow behind it there is the next.
        let next = node.next;
        let was_last = if node.standing.place() == Place::New {
            rounds.first_turns.pop(next)
        } else {
            let at = calendar.at(tin, node.turn);
            calendar.pop(&mut rounds.summary, at, next)
        };
        let (source, destination) =
            (sources.load(node.source()), destinations.load(node.destination));
        // The rest of a turn counts as from its beginning, when the flow came to be due.
        let turn = calendar.next_turn(rounds.round, node.due, source, destination);
        (node.charged, node.turn, node.due) = (debt, turn, turn);
        node.standing = Standing::new(Place::Turn, node.standing.quantum());
        let at = calendar.at(tin, turn);
        calendar.push(nodes, &mut rounds.summary, at, flow);
        rounds.front = if was_last { rounds.first(calendar, tin) } else { next };
    }

    /// `flow`, if it is listed in `tin`, holds nothing any more, since it sent `sent` bytes or lost them.
    #[inline(never)]
    pub(super) fn become_idle<const ONE: bool>(
        &mut self,
        tin: u32,
        flow: FlowId,
        sent: Option<u32>,
    ) {
        let tin = if ONE { 0 } else { tin };
        let Self { nodes, sources, destinations, calendar, tins, max_len, .. } = self;
        let nodes = nodes.as_mut();
        let Some(rounds) = tins.get_mut(tin as usize) else { return };
        let Some(&node) = nodes.get(flow.index()) else { return };
        if !node.is_listed() {
            return;
        }
        if node.standing.place() == Place::New {
            rounds.first_turns.unlink(nodes, flow.0);
        } else {
            let at = calendar.at(tin, node.turn);
            calendar.unlink(nodes, &mut rounds.summary, at, flow.0);
        }
        let (source, destination) =
            (sources.leave(node.source()), destinations.leave(node.destination));
        let quantum = node.standing.quantum();
        let (mut standing, mut charged, mut due) =
            (Standing::new(Place::Idle, quantum), node.charged, node.due);
        // A loss is no service: a turn that has not begun is as if it had never been due, and one that has, as
        // if the flow had been emptied by service. Then it keeps the rest, or what it owes.
        if sent.is_some() || node.standing.has_begun() {
            rounds.round = node.turn;
            due = calendar.next_turn(rounds.round, due, source, destination);
            charged = charged.wrapping_add(sent.unwrap_or(0));
            if charged < quantum {
                standing = standing.begun();
            } else {
                charged = debt(charged, quantum, *max_len);
            }
        }
        if let Some(node) = nodes.get_mut(flow.index()) {
            node.standing = standing;
            (node.charged, node.due) = (charged, due);
        }
        rounds.front = rounds.first(calendar, tin);
        if self.has_siblings {
            self.tell_siblings(node.source(), node.destination, -1);
        }
    }

    /// `flow` of `tin`, which is not listed, is backlogged.
    #[inline(always)]
    pub(super) fn become_backlogged(&mut self, tin: u32, flow: FlowId, node: &LoadDrrFlow) {
        let (source_host, destination_host) = (node.source(), node.destination);
        let (source, destination) =
            (self.sources.join(source_host), self.destinations.join(destination_host));
        let Some(&TinRounds { round, .. }) = self.tins.get(tin as usize) else { return };
        let has_rest = node.standing.has_begun();
        let goes_on = self.sparse_first && has_rest && !is_not_later(node.due, round);
        let turn = if goes_on {
            round
        } else {
            // The turn that the flow would have, had it not emptied: to empty gains no turn and loses none.
            let by_load = self.calendar.next_turn(round, node.due, source, destination);
            self.early_turn(node, round, by_load).unwrap_or(by_load)
        };
        let place = if turn == round { Place::New } else { Place::Turn };
        let standing = Standing::new(place, node.standing.quantum());
        let Self { nodes, calendar, tins, .. } = self;
        let nodes = nodes.as_mut();
        if let Some(node) = nodes.get_mut(flow.index()) {
            node.turn = turn;
            node.standing = if goes_on { standing.begun() } else { standing };
            // Credit does not outlive the turn, nor debt what is left of one.
            if has_rest && !goes_on {
                node.charged = 0;
            }
        }
        let Some(rounds) = tins.get_mut(tin as usize) else { return };
        if place == Place::New {
            rounds.first_turns.push(nodes, flow.0);
            rounds.front = rounds.first_turns.head();
        } else {
            let at = calendar.at(tin, turn);
            calendar.push(nodes, &mut rounds.summary, at, flow.0);
            rounds.front = rounds.first(calendar, tin);
        }
        if self.has_siblings {
            self.tell_siblings(source_host, destination_host, 1);
        }
    }

    /// The siblings of these hosts have a flow more, or fewer. Called last, so that no register is kept across it.
    #[cold]
    #[inline(never)]
    fn tell_siblings(&mut self, source: u32, destination: u32, more: i32) {
        self.sources.tell_siblings(source, more);
        self.destinations.tell_siblings(destination, more);
    }

    /// The flow served next in `tin` is sent `len` bytes; its next packet is of `next_head` bytes.
    #[inline(always)]
    pub(super) fn serve<const ONE: bool>(
        &mut self,
        tin: u32,
        flow: FlowId,
        len: u32,
        next_head: Option<u32>,
    ) {
        if next_head.is_none() {
            return self.become_idle::<ONE>(tin, flow, Some(len));
        }
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        let (charged, quantum) = (node.charged.wrapping_add(len), node.standing.quantum());
        if charged < quantum {
            node.charged = charged;
            node.standing = node.standing.begun();
            if let Some(rounds) = self.tins.get_mut(tin as usize) {
                rounds.round = node.turn;
            }
            return;
        }
        self.end_turn::<ONE>(tin, flow.0, debt(charged, quantum, self.max_len));
    }

    /// The round of a turn that `node`, which has become backlogged in `round`, begins before the one `by_load`, if it may
    /// begin one: its last turn is over, and its host has one left. Books it.
    fn early_turn(&mut self, node: &LoadDrrFlow, round: u32, by_load: u32) -> Option<u32> {
        if !self.sparse_first || !is_not_later(node.due, round) {
            return None;
        }
        let horizon = self.calendar.horizon();
        let left = match self.limited_side() {
            None => round,
            Some(Side::Source) => self.sources.early_turn_left(node.source(), round, horizon),
            Some(Side::Destination) => {
                self.destinations.early_turn_left(node.destination, round, horizon)
            }
        };
        let early = if is_not_later(left, round) { round } else { left };
        if is_not_later(by_load, early) {
            return None;
        }
        match self.limited_side() {
            None => {}
            Some(Side::Source) => self.sources.use_early_turn(node.source(), left),
            Some(Side::Destination) => self.destinations.use_early_turn(node.destination, left),
        }
        Some(early)
    }

    /// The side whose hosts have a limit of early turns.
    const fn limited_side(&self) -> Option<Side> {
        match self.mode {
            Sides::Neither => None,
            Sides::Source => Some(Side::Source),
            Sides::Destination => Some(Side::Destination),
            Sides::Both => Some(self.hosts_of),
        }
    }
}
