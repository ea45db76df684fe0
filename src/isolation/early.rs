//! Sparse flows of hosts that await their turns: served early, at the expense of those turns.
//!
//! A new flow of a host on the old list of its tin puts the host on the *early list*, as long as
//! the turn that it awaits is not used up. The early list is served after the new one and before
//! the old one, one packet of each host in rotation. Each packet is charged to the turn that its
//! host awaits, and the host keeps its position. A turn that comes to the front used up is *passed
//! over*: at most one when a turn ends. One that is not passed over sends a packet, and owes it.
//!
//! **Invariant.** Before it begins, a turn has been charged less than its quantum and a longest
//! packet. So a host is ahead of plain deficit round robin by less than that, and by nothing in the
//! long run.
//!
//! **Exceptions.** No host is served early once any host has had a rate or a ceiling, or once hosts
//! have had one share in all tins, until a rebuild without these. `triple-isolate` has early turns
//! of its own.

use sched_core::{FlowId, Imbalance};

use super::records::Turn;
use super::serve::{Charged, NONE, Serving};
use crate::storage::Storage;

impl<S: Storage> Serving<S> {
    /// Returns true if `turn` may be on the early list of its tin.
    fn may_be_early(&self, turn: &Turn) -> bool {
        turn.flows.has_new() && turn.place.awaits_its_turn() && !turn.place.is_used_up()
    }

    /// Serves `turn` early, if permitted, when a new flow joins others there.
    #[inline]
    pub(super) fn come_early(&mut self, turn: u32, flow: FlowId) {
        let Some(of) = self.turn(turn).filter(|_| self.serves_early) else { return };
        if of.early == [NONE; 2] && self.is_sparse(flow) && self.may_be_early(of) {
            self.list_early(turn, [NONE; 2]);
            self.note_selected();
        }
    }

    /// Takes `turn`, which has changed, off the early list if it may not stay there.
    #[inline]
    pub(super) fn note_early(&mut self, turn: u32) {
        let at = self.tin_of_turn(turn);
        let Some(of) = self.turn(turn).filter(|_| self.serves_early) else { return };
        let (early, may_stay) = (of.early, self.may_be_early(of));
        if of.place.is_used_up()
            && let Some(tin) = self.tins.get_mut(at as usize)
        {
            (tin.is_watched, tin.used_up) = (true, tin.turns.mark());
        }
        if !may_stay && early != [NONE; 2] {
            self.list_early(turn, early);
        }
    }

    /// Appends `turn` to the early list; or, if it is there, between these two, takes it off.
    #[inline(never)]
    fn list_early(&mut self, turn: u32, [next, prev]: [u32; 2]) {
        let at = self.tin_of_turn(turn);
        let Some(tin) = self.tins.get_mut(at as usize) else { return };
        let turns = self.turns.as_mut();
        if next == NONE {
            tin.is_watched = true;
            if tin.early == NONE {
                tin.early = turn;
                return link(turns, turn, turn);
            }
            let last = turns.get(tin.early as usize).map_or(NONE, |first| first.early[1]);
            link(turns, last, turn);
            link(turns, turn, tin.early);
        } else {
            if tin.early == turn {
                tin.early = if next == turn { NONE } else { next };
            }
            link(turns, prev, next);
            if let Some(of) = turns.get_mut(turn as usize) {
                of.early = [NONE; 2];
            }
        }
    }

    /// Continues [`Self::note_selected`] if the tin at the front has `early` first on its early
    /// list, or the previously selected turn was on one.
    #[inline(never)]
    pub(super) fn note_selected_early(&mut self, early: u32) {
        self.note_charged();
        if early != NONE && !self.turn(self.selected).is_some_and(|turn| turn.place.is_new()) {
            (self.selected, self.charged) = (early, Charged::Early);
        }
        if self.selected == NONE {
            self.selected = self.rates.front();
        }
    }

    /// Charges the selected turn `len` bytes sent in advance. The turn is idle if its flows are
    /// gone.
    #[inline(never)]
    pub(super) fn charge_early(&mut self, len: u32) {
        let (selected, at) = (self.selected, self.choice.front());
        let (cost, max_len, most_debt) = (self.quanta.cost(len), self.max_len, self.most_debt());
        let Some(turn) = self.turns.as_mut().get_mut(selected as usize) else { return };
        let Some(tin) = self.tins.get_mut(at as usize) else { return };
        turn.place.charge_in_advance(cost, max_len);
        [tin.early, _] = turn.early;
        if turn.count == 0 {
            tin.turns.lose(self.turns.as_mut(), selected, most_debt);
            self.note_idle(selected);
        }
        self.note_early(selected);
        if !self.choice.is_one() {
            let is_idle = self.tins.get(at as usize).is_none_or(|tin| tin.turns.front() == NONE);
            let wire_len = self.choice.wire_len(len);
            if is_idle || !self.choice.borrowed(at, len, wire_len) {
                self.choice.served_in_full(len, wire_len, is_idle);
            }
        }
        self.note_selected();
    }

    /// Ends `turn`, which was selected in the only tin.
    #[inline(never)]
    pub(super) fn turn_over(&mut self, turn: u32) {
        self.pass_over(0, turn);
        self.note_selected();
    }

    /// Passes over the turn that came to the front of tin `at`, if it was used up in advance, after
    /// the turn before it, `turn`, has ended.
    pub(super) fn pass_over(&mut self, at: u32, turn: u32) {
        self.note_early(turn);
        let most_debt = self.most_debt();
        let Some(tin) = self.tins.get_mut(at as usize).filter(|tin| tin.is_watched) else { return };
        let front = tin.turns.front();
        let Some(of) = self.turns.as_mut().get_mut(front as usize) else { return };
        if of.place.awaits_its_turn() && of.place.is_used_up() {
            let _is_over = tin.turns.charge_front(of, front, 0, most_debt);
            self.note_early(front);
        } else if tin.early == NONE && tin.turns.stands_behind(of, tin.used_up) {
            tin.is_watched = false;
        }
    }

    /// Stops serving hosts early. Cost: O(tins).
    pub(super) fn serve_no_more_early(&mut self) {
        self.serves_early = false;
        for tin in &mut self.tins {
            (tin.early, tin.is_watched) = (NONE, false);
        }
    }

    /// Checks the early lists. Returns the turn served next, if it is not served early `front`.
    pub(super) fn recount_early(&self, front: u32) -> Result<u32, Imbalance> {
        let (turns, mut listed) = (self.turns.as_ref(), 0_u64);
        for (at, turn) in (0..).zip(turns) {
            let is_listed = self.serves_early && turn.early != [NONE; 2];
            let is_wrong = is_listed && !self.may_be_early(turn);
            Imbalance::check("no turn that may not be served early", at, 0, is_wrong.into())?;
            listed = listed.wrapping_add(is_listed.into());
        }
        for (at, tin) in (0_u32..).zip(&self.tins) {
            let mut here = tin.early;
            while let Some(turn) = turns.get(here as usize)
                && listed > 0
            {
                let [next, _] = turn.early;
                let back = turns.get(next as usize).map_or(NONE, |next| next.early[1]);
                Imbalance::check("early turns point both ways", here, here.into(), back.into())?;
                Imbalance::check("the tin of it", here, at.into(), self.tin_of_turn(here).into())?;
                listed = listed.wrapping_sub(1);
                here = if next == tin.early { NONE } else { next };
            }
            Imbalance::check("the end of an early list", at, NONE.into(), here.into())?;
        }
        Imbalance::check("turns on early lists", 0, 0, listed)?;
        let [first, ..] = &self.tins;
        let early = self.tins.get(self.choice.front() as usize).unwrap_or(first).early;
        let is_new = self.turn(front).is_some_and(|turn| turn.place.is_new());
        let is_early = early != NONE && !is_new;
        let charged = (self.charged == Charged::Early).into();
        Imbalance::check("a packet charged early", 0, is_early.into(), charged)?;
        Ok(if is_early { early } else { front })
    }
}

/// Links `behind` after `before` on an early list.
fn link(turns: &mut [Turn], before: u32, behind: u32) {
    if let Some(Turn { early: [next, _], .. }) = turns.get_mut(before as usize) {
        *next = behind;
    }
    if let Some(Turn { early: [_, prev], .. }) = turns.get_mut(behind as usize) {
        *prev = before;
    }
}
