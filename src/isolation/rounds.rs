//! `triple-isolate`: a flow has a turn every n-th round, n being the number of flows of its host.
//!
//! CAKE divides the quantum of a flow by the load of its hosts, and visits the flow repeatedly
//! until the small quanta suffice for a packet. Here the quantum stays whole and the turns become
//! rare. Each tin has a [calendar](super::calendar): for each round, a list of the flows whose turn
//! is in that round. At the end of its turn a flow moves to the list that is as many rounds later
//! as its load: the number of backlogged flows of its source host or of its destination host,
//! whichever is larger, in its tin, or in all tins if hosts have one share in all of them. No flow
//! is visited without being served.
//!
//! The *near* host of a flow is that of the local side, to which its [turn](super::records)
//! belongs; the *far* host is that of the other side.
//!
//! **Guarantees.**
//!
//! - While loads are constant, a backlogged flow of load n sends `Q/n` bytes per round, to within
//!   the `Q` and the longest packet of a turn under way.
//! - A scheduled turn keeps its round: a load that changes counts from the next turn.
//! - Sparse flows go first: a flow that becomes backlogged has its turn before bulk flows if its
//!   own turn would have come by now. At most `m + 15` flows of a near host begin a turn early in
//!   `m` rounds of a tin: one per round, and [15 saved up](SAVED_UP). A flow whose host has used up
//!   its early turns has one in the first round that has one left, if that is before its turn by
//!   load.
//! - A flow that empties before its turn is used up gets the remainder before the bulk flows, until
//!   its next turn is due. Lost packets are no service: a turn that has not begun is as if it had
//!   never been due.
//!
//! **Limits.** The load is at most the length of a tin's calendar less one, however many flows a
//! host has beyond that. Rounds are counted in 32 bits: a flow or host that was idle for 2^31
//! rounds may once count as not yet due, and then waits for at most one length of the calendar.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, 2018, §III-A and
//! Algorithm 2. For departures and their reasons see `docs/disciplines/hosts.md`.

use sched_core::{FlowId, Imbalance};

use super::mode::Isolation;
use super::records::Flow;
use super::serve::{NONE, Serving};
use crate::storage::Storage;

/// Maximum number of early turns that a host may save up: this many of its flows may go at once
/// before bulk flows. A smaller number delays the sparse flows of a host whose other flows empty
/// often: `docs/disciplines/sparse.md`.
const SAVED_UP: u32 = 15;

/// State of a flow beside its record: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The round of its turn; for a flow served before all others, the round in which it was
    /// listed. Stale unless listed.
    pub(super) round: u32,
    /// The first round in which it may have another turn: the round of its next turn as of the
    /// beginning of its last one, as if it had not emptied. Later than `round` if and only if the
    /// turn may go on.
    again: u32,
    /// `host << tin_bits | tin` of its far host.
    far: u32,
}

impl Due {
    pub(super) const EMPTY: Self = Self { round: 0, again: 0, far: 0 };
}

/// Per-tin state of hosts of both sides, beside the turn of the near one: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The latest round whose early turn the near host of this number has used.
    early: u32,
    /// The number of backlogged flows of the far host of this number.
    far_flows: u32,
}

impl Share {
    /// No flows, and all early turns saved up.
    pub(super) const EMPTY: Self = Self { early: u32::MAX.wrapping_sub(SAVED_UP), far_flows: 0 };

    /// Takes an early turn for a flow of the near host that may have one in `round`, if the host
    /// has one left before the round `by_load`; returns its round. No early turn is more than
    /// `horizon` rounds ahead.
    #[inline(always)]
    fn early_turn(&mut self, round: u32, by_load: u32, horizon: u32) -> Option<u32> {
        let (oldest, next) = (round.wrapping_sub(SAVED_UP), self.early.wrapping_add(1));
        // Relative to the oldest round that is left, rounds before it appear far ahead.
        let is_past = next.wrapping_sub(oldest) > horizon.wrapping_add(SAVED_UP);
        let left = if is_past { oldest } else { next };
        let early = if is_not_later(left, round) { round } else { left };
        if is_not_later(by_load, early) {
            return None;
        }
        self.early = left;
        Some(early)
    }
}

impl<S: Storage> Serving<S> {
    /// True if the storage supports the mode; otherwise its code is not compiled.
    const MAY_HAVE_ROUNDS: bool = size_of::<S::Rounds<Due>>() > 0;

    /// Returns true if flows are served in rounds.
    #[inline(always)]
    pub(super) fn is_in_rounds(&self) -> bool {
        Self::MAY_HAVE_ROUNDS && self.isolation == Isolation::TripleIsolate
    }

    /// Assigns `flow`, which is idle, to `turn` and to `far` on the other side. If its hosts or its
    /// tin change, it is reset as if newly added.
    #[inline(always)]
    pub(super) fn assign_in_rounds(&mut self, flow: FlowId, turn: u32, far: u32) {
        let again = self.rounds.round(self.tin_of_turn(turn));
        let Some(due) = self.rounds.dues.as_mut().get_mut(flow.index()) else { return };
        let Some(of) = self.flows.as_mut().get_mut(flow.index()) else { return };
        if (of.turn, due.far) != (turn, far) {
            *of = Flow { place: of.place.renewed(), turn };
            *due = Due { round: again, again, far };
        }
    }

    /// Returns the far host of `flow`, as of the last time that the flow became backlogged.
    pub(super) fn far_host_of(&self, flow: FlowId) -> u32 {
        let due = self.rounds.dues.as_ref().get(flow.index());
        self.host_of_turn(due.map_or(0, |due| due.far))
    }

    /// Returns the number of backlogged flows of the far host `host`, in all tins. Cost: O(tins).
    #[inline]
    pub(super) fn flows_of_far(&self, host: u32) -> u32 {
        let shares = self.rounds.shares.as_ref().get(self.turns_of(host)).unwrap_or_default();
        shares.iter().fold(0, |sum, share| {
            sched_core::step();
            sum.saturating_add(share.far_flows)
        })
    }

    /// Returns the backlogged tins, one bit each.
    pub(super) fn tins_in_rounds(&self) -> u32 {
        let tins = (0..).zip(self.rounds.tins.as_ref());
        tins.fold(0, |mask, (tin, of)| mask | u32::from(of.front != NONE) << (tin & 31))
    }

    /// Updates the flow served next; called after any change of a tin or of the choice.
    #[inline(always)]
    pub(super) fn note_front(&mut self) {
        if self.is_in_rounds() {
            self.rounds.front = self.rounds.front_of(self.choice.front());
        }
    }

    /// Returns the number of rounds between two turns of a flow of `turn`, and of `far` on the
    /// other side.
    #[inline(always)]
    fn load(&self, turn: u32, far: u32) -> u32 {
        let (near, far) = if self.is_across {
            let far = self.flows_of_far(self.host_of_turn(far));
            (self.flows_of(self.host_of_turn(turn)), far)
        } else {
            let far = self.rounds.shares.as_ref().get(far as usize);
            (self.turn(turn).map_or(0, |turn| turn.count), far.map_or(0, |far| far.far_flows))
        };
        near.max(far).max(1)
    }

    /// Returns the round of the turn after one in `round`, for a flow with this `load` that may
    /// have another one from round `again` on.
    #[inline(always)]
    const fn next_turn(&self, round: u32, again: u32, load: u32) -> u32 {
        let ahead = if is_not_later(again, round) { load } else { again.wrapping_sub(round) };
        round.wrapping_add(if ahead < self.rounds.mask { ahead } else { self.rounds.mask })
    }

    /// Counts one flow more for the hosts of a flow.
    #[inline(always)]
    fn count_flow(&mut self, turn: u32, far: u32) {
        let (host, tin) = (self.host_of_turn(turn), self.tin_of_turn(turn));
        if let Some(turn) = self.turns.as_mut().get_mut(turn as usize) {
            turn.count = turn.count.wrapping_add(1);
        }
        if let Some(host) = self.hosts.as_mut().get_mut(host as usize) {
            host.backlogged |= 1 << (tin & 7);
        }
        if let Some(far) = self.rounds.shares.as_mut().get_mut(far as usize) {
            far.far_flows = far.far_flows.wrapping_add(1);
        }
    }

    /// Counts one flow less for the hosts of a flow.
    #[inline(always)]
    fn discount_flow(&mut self, turn: u32, far: u32) {
        if let Some(far) = self.rounds.shares.as_mut().get_mut(far as usize) {
            far.far_flows = far.far_flows.wrapping_sub(1);
        }
        let Some(of) = self.turns.as_mut().get_mut(turn as usize) else { return };
        of.count = of.count.wrapping_sub(1);
        if of.count == 0 {
            self.note_idle(turn);
        }
    }

    /// Lists `flow`, which is added and not listed, when it becomes backlogged.
    #[inline(never)]
    pub(super) fn enter_rounds(&mut self, flow: FlowId) {
        let Some(&Flow { place, turn }) = self.flow(flow) else { return };
        let Some(&Due { again, far, .. }) = self.rounds.dues.as_ref().get(flow.index()) else {
            return;
        };
        let tin = self.tin_of_turn(turn);
        let (round, was_idle) = (self.rounds.round(tin), self.rounds.front_of(tin) == NONE);
        self.count_flow(turn, far);
        let may_begin = is_not_later(again, round);
        let goes_on = place.has_begun() && !may_begin;
        let mut at = round;
        if !goes_on {
            // The turn that the flow would have if it had not emptied: emptying neither gains nor
            // loses a turn.
            at = self.next_turn(round, again, self.load(turn, far));
            let horizon = self.rounds.mask;
            if may_begin && let Some(share) = self.rounds.shares.as_mut().get_mut(turn as usize) {
                at = share.early_turn(round, at, horizon).unwrap_or(at);
            }
        }
        let is_first = at == round;
        if let Some(due) = self.rounds.dues.as_mut().get_mut(flow.index()) {
            due.round = at;
        }
        let flows = self.flows.as_mut();
        if let Some(flow) = flows.get_mut(flow.index()) {
            flow.place.enlist(is_first, goes_on);
        }
        self.rounds.push(flows, tin, at, flow.0, is_first);
        self.rounds.note_front(tin);
        if was_idle && !self.choice.is_one() {
            self.choice.backlogged(tin);
        }
        self.note_front();
    }

    /// Implements [`FlowScheduler::served`](sched_core::FlowScheduler::served) while no turn is
    /// selected.
    #[inline(never)]
    pub(super) fn serve_in_rounds(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let (tin, terms) = (self.choice.front(), self.terms());
        if flow.0 != self.rounds.front || flow == FlowId::NONE {
            return;
        }
        if next_head.is_none() {
            self.leave_rounds(tin, flow, Some(len));
            self.note_front();
        } else {
            let Some(of) = self.flows.as_mut().get_mut(flow.index()) else { return };
            let (turn, was_first, next) = (of.turn, of.place.is_new(), of.place.next());
            if of.place.charge(self.quanta.cost(len), terms) {
                self.end_turn(tin, flow, turn, (was_first, next));
            } else {
                let due = self.rounds.dues.as_ref().get(flow.index());
                let of = self.rounds.tins.as_mut().get_mut(tin as usize);
                if let (Some(due), Some(of)) = (due, of) {
                    of.round = due.round;
                }
            }
        }
        if !self.choice.is_one() {
            self.choice.served(len, self.rounds.front_of(tin) == NONE);
            self.note_front();
        }
    }

    /// Ends the turn of `flow`, the front of `tin`, and moves it to the list of its next turn.
    /// `was_first` says whether it was on the first list; `next` is the flow behind it, unless it
    /// was the last there.
    #[inline(always)]
    fn end_turn(&mut self, tin: u32, flow: FlowId, turn: u32, (was_first, next): (bool, u32)) {
        let Some(&Due { round, again, far }) = self.rounds.dues.as_ref().get(flow.index()) else {
            return;
        };
        // The remainder of a turn counts from its beginning, when the flow became due.
        let to = self.next_turn(round, again, self.load(turn, far));
        if let Some(due) = self.rounds.dues.as_mut().get_mut(flow.index()) {
            (due.round, due.again) = (to, to);
        }
        self.rounds.move_front(self.flows.as_mut(), tin, (round, was_first, next), to);
    }

    /// Takes `flow`, which has become idle in `tin`, off its list: at the front it has sent `sent`
    /// bytes, or else it lost its packets.
    #[inline(always)]
    fn leave_rounds(&mut self, tin: u32, flow: FlowId, sent: Option<u32>) {
        let Some(&Flow { place, turn }) = self.flow(flow) else { return };
        let Some(&Due { round, again, far }) = self.rounds.dues.as_ref().get(flow.index()) else {
            return;
        };
        let next = self.next_turn(round, again, self.load(turn, far));
        let terms = self.terms();
        let (rounds, flows) = (&mut self.rounds, self.flows.as_mut());
        rounds.unlink(flows, tin, round, flow.0, place.is_new());
        if let Some(flow) = flows.get_mut(flow.index()) {
            flow.place.unlist(sent.map(|len| self.quanta.cost(len)), terms);
        }
        // A turn that has begun is treated as if the flow had been emptied by service: it keeps the
        // remainder, or its debt.
        if sent.is_some() || place.has_begun() {
            if let Some(of) = rounds.tins.as_mut().get_mut(tin as usize) {
                of.round = round;
            }
            if let Some(due) = rounds.dues.as_mut().get_mut(flow.index()) {
                due.again = next;
            }
        }
        rounds.note_front(tin);
        self.discount_flow(turn, far);
    }

    /// Takes off `flow`, which was backlogged and lost all of its packets.
    #[inline(never)]
    pub(super) fn lose_in_rounds(&mut self, flow: FlowId) {
        let tin = self.tin_of_turn(self.turn_of_flow(flow));
        self.leave_rounds(tin, flow, None);
        if self.rounds.front_of(tin) == NONE {
            self.choice.emptied(tin);
        }
        self.note_front();
    }

    /// Walks the lists of all tins and counts the flows of hosts, if flows are served in rounds.
    pub(super) fn recount_rounds(&self) -> Result<(), Imbalance> {
        let (flows, rounds) = (self.flows.as_ref(), &self.rounds);
        let dues = || flows.iter().zip(rounds.dues.as_ref());
        let listed = || dues().filter(|(flow, _)| flow.place.is_listed());
        let (mut of_turns, mut of_shares) = (0_u64, 0_u64);
        for (at, turn) in (0..).zip(self.turns.as_ref()) {
            let is_idle = !turn.place.is_listed() && turn.flows.front() == NONE;
            Imbalance::check("a turn is on no ring", at, 1, is_idle.into())?;
            let host = self.hosts.as_ref().get(self.host_of_turn(at) as usize);
            let tin = self.tin_of_turn(at) & 7;
            let noted = host.is_some_and(|host| host.backlogged >> tin & 1 == 1);
            Imbalance::check("a tin of a host", at, (turn.count > 0).into(), noted.into())?;
            if turn.count > 0 {
                let of_turn = listed().filter(|(flow, _)| flow.turn == at).count();
                Imbalance::check("flows of a turn", at, turn.count.into(), of_turn as u64)?;
                of_turns = of_turns.wrapping_add(turn.count.into());
            }
        }
        for (at, share) in (0..).zip(rounds.shares.as_ref()).filter(|(_, of)| of.far_flows > 0) {
            let of_far = listed().filter(|(_, due)| due.far == at).count();
            Imbalance::check("flows of a far host", at, share.far_flows.into(), of_far as u64)?;
            of_shares = of_shares.wrapping_add(share.far_flows.into());
        }
        let all = listed().count() as u64;
        Imbalance::check("flows of all turns", 0, all, of_turns)?;
        Imbalance::check("flows of all far hosts", 0, all, of_shares)?;
        for (at, (flow, due)) in (0..).zip(dues()) {
            let tins = [flow.turn, due.far].map(|of| self.tin_of_turn(of));
            let is_there = tins[0] == tins[1] && tins[0] < self.choice.tins();
            Imbalance::check("one tin of both hosts", at, 1, is_there.into())?;
        }
        let mut found = 0_usize;
        for tin in 0..self.choice.tins() {
            let of_tin = rounds.recount(flows, tin, &|flow, record, ahead| {
                let of = self.tin_of_turn(record.turn);
                Imbalance::check("the tin of a flow", flow, of.into(), tin.into())?;
                let due = rounds.dues.as_ref().get(flow as usize).map_or(0, |due| due.round);
                let booked = due.wrapping_sub(rounds.round(tin));
                Imbalance::check("rounds until a turn", flow, booked.into(), ahead.into())
            })?;
            found = found.wrapping_add(of_tin);
        }
        Imbalance::check("flows of all rounds", 0, all, found as u64)?;
        let front = rounds.front_of(self.choice.front());
        Imbalance::check("the flow served next", 0, front.into(), rounds.front.into())
    }
}

/// Returns true if round `a` is `b` or before it.
const fn is_not_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() <= 0
}
