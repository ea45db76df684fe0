//! Tins, each with rounds of its own.

use super::calendar::{Calendar, RoundList};
use super::flow::Place;
use super::{LoadDrr, LoadDrrFlow, LoadDrrHost};
use crate::disciplines::tins::{TinChoice, TinConfig, mask};
use crate::flow_scheduler::{ConfigError, FlowScheduler, Table};
use crate::hosts::token_bucket::WireLength;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// The rounds of one tin: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TinRounds {
    /// Which words of the calendar tell of lists of the tin that are not empty.
    pub(super) summary: u64,
    /// The first turns, before all others.
    pub(super) first_turns: RoundList,
    /// The round of the latest service that was not of a first turn. Wraps: rounds compare by the sign of
    /// their difference.
    pub(super) round: u32,
    /// The flow to be served next, as the lists have it; [`NONE`] if and only if none is listed.
    pub(super) front: u32,
}

impl TinRounds {
    pub(super) const IDLE: Self =
        Self { summary: 0, first_turns: RoundList::IDLE, round: 0, front: NONE };

    /// The flow to be served next in this tin, which is `tin`.
    #[inline]
    pub(super) fn first<W: Table<RoundList>>(&self, calendar: &Calendar<W>, tin: u32) -> u32 {
        if self.first_turns.is_empty() {
            calendar.first_from(self.summary, calendar.at(tin, self.round))
        } else {
            self.first_turns.head()
        }
    }
}

impl<N, S, D, W, L> LoadDrr<N, S, D, W, L>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
    L: WireLength,
{
    /// The fewest rounds in the memory of the calendar for a tin. A host with more flows than a tin has rounds, less one,
    /// has more than its share there.
    pub const ROUNDS_PER_TIN: u32 = 2;

    /// Other tins, as many as `tins` is long, chosen among by [`TinChoice`]. Each has a calendar as long as the largest power
    /// of two of which the rounds have room for as many. As many tins as before may be set while flows are backlogged. Flows
    /// of tins that there are no longer are of tin 0, as if they had just been added. Cost: O(flows).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::OutOfRange`] for what [`TinChoice::check`] refuses, and for fewer rounds than
    ///   [`Self::ROUNDS_PER_TIN`] a tin.
    /// - [`ConfigError::Backlogged`] if a flow is backlogged and another number of tins is set.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), ConfigError> {
        let count = TinChoice::<L>::check(tins)?;
        if count != self.tins() {
            let fewest = Self::ROUNDS_PER_TIN.wrapping_mul(count);
            let (fewest, most) = (fewest.into(), Self::MAX_ROUNDS.into());
            let rounds = self.calendar.count();
            ConfigError::check_range("rounds of the calendar", rounds.into(), fewest, most)?;
            let listed = self.nodes.as_ref().iter().position(LoadDrrFlow::is_listed);
            if let Some(flow) = listed.and_then(|flow| u32::try_from(flow).ok()) {
                return Err(ConfigError::Backlogged { flow: FlowId(flow) });
            }
            self.calendar.divide(count);
            self.tins.iter_mut().skip(tins.len()).for_each(|tin| *tin = TinRounds::IDLE);
            for flow in (0..self.flows()).map(FlowId) {
                if self.tin_of(flow).is_some_and(|tin| tin >= count) {
                    self.move_to(flow, 0);
                }
            }
        }
        self.choice.set_tins(tins, self.backlogged_tins())
    }

    /// How many tins there are: 1 unless [set](Self::set_tins).
    #[must_use]
    pub const fn tins(&self) -> u32 {
        self.choice.tins()
    }

    /// What is set for `tin`; `None` if there is no such tin.
    #[must_use]
    pub fn tin(&self, tin: u32) -> Option<TinConfig> {
        self.choice.tin(tin)
    }

    /// What packets are on the wire, from the next on that leaves.
    pub fn set_link(&mut self, link: L) {
        self.choice.set_link(link, self.backlogged_tins());
    }

    /// Another [floor](TinChoice::with_floor), in longest packets.
    #[must_use]
    pub fn with_floor(mut self, packets: u32) -> Self {
        self.choice = self.choice.with_floor(packets);
        self
    }

    /// Makes `flow`, added or not, one of `tin`. A flow that changes its tin is as if it had just been added: debt is
    /// forgotten. The same tin again changes nothing; [`FlowScheduler::remove`] makes it one of tin 0.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] and [`ConfigError::OutOfRange`] if there is no such flow or tin,
    /// [`ConfigError::Backlogged`] if the flow holds packets; nothing has changed then.
    pub fn assign_tin(&mut self, flow: FlowId, tin: u32) -> Result<(), ConfigError> {
        let (flows, last) = (self.flows(), self.tins().saturating_sub(1));
        let node = self.nodes.as_ref().get(flow.index()).filter(|_| flow.0 < flows);
        let Some(node) = node else { return Err(ConfigError::UnknownFlow { flow, flows }) };
        ConfigError::check_range("tin", tin.into(), 0, last.into())?;
        if node.is_listed() {
            return Err(ConfigError::Backlogged { flow });
        }
        if node.tin() != tin {
            self.move_to(flow, tin);
        }
        Ok(())
    }

    /// The tin of `flow`; `None` if there is no room for such a flow.
    #[must_use]
    pub fn tin_of(&self, flow: FlowId) -> Option<u32> {
        self.nodes.as_ref().get(flow.index()).map(LoadDrrFlow::tin)
    }

    /// How many rounds the memory of the calendar has, for all tins together.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.calendar.count()
    }

    /// The choice among tins, with what each owes and has to its credit.
    #[must_use]
    pub const fn choice(&self) -> &TinChoice<L> {
        &self.choice
    }

    /// Goes on with another choice among as many tins, for packets as long as here at most. Nothing changes if it is for another
    /// number or length, or while a flow is backlogged.
    pub fn go_on_with(&mut self, choice: &TinChoice<L>) {
        let fits = (choice.tins(), choice.max_len()) == (self.tins(), self.max_len);
        if fits && self.backlogged_tins() == 0 {
            self.choice = *choice;
        }
    }

    /// Puts `flow`, which is not listed, into `tin`, as if it had just been added.
    fn move_to(&mut self, flow: FlowId, tin: u32) {
        let due = self.tins.get(tin as usize).map_or(0, |tin| tin.round);
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            let (quantum, source) = (node.standing.quantum(), node.source());
            *node = LoadDrrFlow::idle(quantum, source, node.destination, tin, due);
        }
    }

    /// The tins in which a flow is listed, a bit each.
    fn backlogged_tins(&self) -> u32 {
        mask(self.tins.iter().map(|tin| tin.front != NONE))
    }

    fn is_idle(&self, tin: u32) -> bool {
        self.tins.get(tin as usize).is_none_or(|tin| tin.front == NONE)
    }

    /// [`FlowScheduler::backlogged`], with several tins.
    #[inline(never)]
    pub(super) fn backlogged_in_tin(&mut self, flow: FlowId, node: &LoadDrrFlow) {
        let tin = node.tin();
        let was_idle = self.is_idle(tin);
        self.become_backlogged(tin, flow, node);
        if was_idle {
            self.choice.backlogged(tin);
        }
    }

    /// [`FlowScheduler::select`], with several tins.
    #[inline(never)]
    pub(super) fn select_in_tin(&self) -> Option<FlowId> {
        let front = self.tins.get(self.choice.front() as usize)?.front;
        (front != NONE).then_some(FlowId(front))
    }

    /// [`FlowScheduler::served`], with several tins.
    #[inline(never)]
    pub(super) fn served_in_tin(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let tin = self.choice.front();
        if self.tins.get(tin as usize).is_none_or(|tin| tin.front != flow.0) || flow.0 == NONE {
            return;
        }
        self.serve::<false>(tin, flow, len, next_head);
        let is_idle = self.is_idle(tin);
        self.choice.served(len, is_idle);
    }

    /// [`FlowScheduler::lost`], with several tins, of the last packet.
    #[inline(never)]
    pub(super) fn lost_in_tin(&mut self, flow: FlowId) {
        let node = self.nodes.as_ref().get(flow.index());
        let Some(tin) = node.filter(|node| node.is_listed()).map(LoadDrrFlow::tin) else { return };
        self.become_idle::<false>(tin, flow, None);
        if self.is_idle(tin) {
            self.choice.emptied(tin);
        }
    }

    /// Walks the lists of all tins, and checks that they hold the listed flows, each where it belongs.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        for (at, node) in (0..).zip(nodes) {
            let has_tin = node.tin() < self.tins();
            Imbalance::check("a tin that there is", at, 1, has_tin.into())?;
        }
        for (tin, rounds) in (0_u32..).zip(&self.tins) {
            let TinRounds { summary, first_turns, round, front } = *rounds;
            if tin >= self.tins() {
                let is_idle = (summary, first_turns.is_empty(), front) == (0, true, NONE);
                Imbalance::check("no turns in a tin that there is not", tin, 1, is_idle.into())?;
                continue;
            }
            let is_here = |flow, node: &LoadDrrFlow| {
                Imbalance::check("the tin of a turn", flow, node.tin().into(), tin.into())
            };
            let of_tin = nodes.iter().filter(|node| node.is_listed() && node.tin() == tin);
            let first = first_turns.recount(nodes, &|flow, node| {
                let is_new = node.standing.place() == Place::New;
                Imbalance::check("a first turn", flow, 1, is_new.into())?;
                is_here(flow, node)?;
                // So that the flow that is served tells the round, first turn or not.
                Imbalance::check("the round of a first turn", flow, node.turn.into(), round.into())
            })?;
            let turns =
                self.calendar.recount(nodes, (tin, round, summary), &|flow, node, ahead| {
                    let is_turn = node.standing.place() == Place::Turn;
                    Imbalance::check("a turn", flow, 1, is_turn.into())?;
                    is_here(flow, node)?;
                    let booked = node.turn.wrapping_sub(round);
                    Imbalance::check("rounds until a turn", flow, booked.into(), ahead.into())
                })?;
            let (listed, found) = (of_tin.count(), first.wrapping_add(turns));
            Imbalance::check("listed flows", tin, listed as u64, found as u64)?;
            let expected = rounds.first(&self.calendar, tin);
            Imbalance::check("the flow served next", tin, front.into(), expected.into())?;
        }
        self.choice.recount(self.backlogged_tins())
    }
}
