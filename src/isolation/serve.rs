//! Selection of the next flow: the tin selected by the choice among tins, a turn of that tin, and a
//! flow of that turn.

use core::fmt;
use core::ops::Range;

use sched_core::{
    ConfigError, FlowId, FlowScheduler, FlowState, Hosted, Imbalance, Nanos, Needs, RingFlow,
    SharedTerms, Side, TinChoice, TinState,
};
use shaper::Overhead;

use super::calendar::Rounds;
use super::mode::{Isolation, Level};
use super::quanta::Quanta;
use super::rates::Rates;
use super::records::{Flow, Host, Tin, Turn};
use crate::storage::Storage;

/// The maximum number of tins.
pub(super) const TINS: usize = sched_core::TinConfig::MAX_TINS as usize;

/// Marks a flow or turn on no ring.
pub(super) const NONE: u32 = FlowId::NONE.0;

/// The records that a packet is charged to, beside its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// The turn of its host: there is one tin.
    Turn,
    /// Nothing: there is one turn.
    Nothing,
    /// The turn and the tin.
    Tin,
    /// The rate of its host, the turn and the tin: hosts have rates.
    Rate,
    /// The turn of its host, in advance, and the tin.
    Early,
}

pub(super) type Choice<S> = TinChoice<<S as Storage>::Tins<TinState>, Overhead>;

/// The records and the selection of the next flow: the flow scheduler of the queues of an
/// [`Isolated`](super::Isolated).
pub(super) struct Serving<S: Storage> {
    pub(super) isolation: Isolation,
    /// The side whose hosts have turns under `triple-isolate`.
    pub(super) local_side: Side,
    /// The side whose hosts have turns, in modes with hosts.
    pub(super) level: Level,
    pub(super) flows: S::Of<Flow>,
    /// `turns[host << tin_bits | tin]`.
    pub(super) turns: S::Of<Turn>,
    pub(super) hosts: S::Of<Host>,
    pub(super) tins: [Tin; TINS],
    /// Serves in place of turns and tins under `triple-isolate`; then no turn is selected.
    pub(super) rounds: Rounds<S>,
    /// The shares of the tins, and the next one.
    pub(super) choice: Choice<S>,
    /// The turn served next in the selected tin: its front, or the first of its early list;
    /// [`NONE`] if that tin is idle.
    pub(super) selected: u32,
    pub(super) tin_bits: u32,
    pub(super) charged: Charged,
    /// The longest packet, which is the minimum quantum.
    pub(super) max_len: u32,
    /// Bytes per turn of a flow.
    pub(super) quantum: u32,
    pub(super) quanta: Quanta,
    /// True if bytes sent for a host in one tin are charged to its turns in the others.
    pub(super) is_across: bool,
    /// True if `is_across` was ever set: turns may have been charged before they began.
    pub(super) was_across: bool,
    /// True if hosts that await their turns may send in advance of them.
    pub(super) serves_early: bool,
    pub(super) rates: Rates<S>,
}

/// Leaves out the tables.
impl<S: Storage> fmt::Debug for Serving<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("isolation", &self.isolation).finish_non_exhaustive()
    }
}

/// Returns the bound of a turn's debt at its end, for packets of up to `max_len` bytes: less than a
/// packet that exceeded it, plus less than one by which it had been overdrawn in advance.
#[inline(always)]
const fn most_debt(max_len: u32) -> u32 {
    max_len.wrapping_mul(2)
}

impl<S: Storage> Serving<S> {
    #[inline(always)]
    pub(super) fn flow(&self, flow: FlowId) -> Option<&Flow> {
        self.flows.as_ref().get(flow.index())
    }

    #[inline(always)]
    pub(super) fn turn(&self, turn: u32) -> Option<&Turn> {
        self.turns.as_ref().get(turn as usize)
    }

    #[inline(always)]
    pub(super) const fn turn_of(&self, host: u32, tin: u8) -> u32 {
        host.unbounded_shl(self.tin_bits) | tin as u32
    }

    /// Returns the quantum of flows and the longest packet.
    #[inline(always)]
    pub(super) const fn terms(&self) -> SharedTerms {
        SharedTerms { quantum: self.quantum, max_len: self.max_len }
    }

    /// Returns the turns of `host`, in all tins.
    #[inline(always)]
    pub(super) const fn turns_of(&self, host: u32) -> Range<usize> {
        let first = self.turn_of(host, 0) as usize;
        first..first.wrapping_add(1 << (self.tin_bits & 7))
    }

    #[inline(always)]
    pub(super) const fn host_of_turn(&self, turn: u32) -> u32 {
        turn.unbounded_shr(self.tin_bits)
    }

    #[inline(always)]
    pub(super) const fn tin_of_turn(&self, turn: u32) -> u32 {
        turn & !u32::MAX.unbounded_shl(self.tin_bits)
    }

    /// Returns the turn of `flow`, as of the last time that the flow became backlogged.
    #[inline(always)]
    pub(super) fn turn_of_flow(&self, flow: FlowId) -> u32 {
        self.flow(flow).map_or(0, |flow| flow.turn)
    }

    /// Returns the tin of `flow`, as of the last time that the flow became backlogged.
    pub(super) fn tin_of_flow(&self, flow: FlowId) -> u8 {
        u8::try_from(self.tin_of_turn(self.turn_of_flow(flow))).unwrap_or(0)
    }

    #[inline(always)]
    pub(super) fn is_backlogged(&self, flow: FlowId) -> bool {
        self.flow(flow).is_some_and(|flow| flow.place.is_listed())
    }

    /// Returns true if `flow` is sparse, that is, served before bulk flows.
    pub(super) fn is_sparse(&self, flow: FlowId) -> bool {
        self.flow(flow).is_some_and(|flow| flow.place.is_new())
    }

    /// Returns true if `host` is idle in all tins.
    #[inline(always)]
    pub(super) fn is_idle(&self, host: u32) -> bool {
        self.hosts.as_ref().get(host as usize).is_none_or(|host| host.backlogged == 0)
    }

    /// Returns the number of backlogged flows of `host`, in all tins together. Cost: O(tins).
    pub(super) fn flows_of(&self, host: u32) -> u32 {
        let turns = self.turns.as_ref().get(self.turns_of(host)).unwrap_or_default();
        turns.iter().fold(0, |sum, turn| {
            sched_core::step();
            sum.saturating_add(turn.count)
        })
    }

    /// Assigns `flow`, which is idle, to `turn`. If its turn changes, it is reset as if newly
    /// added.
    #[inline(always)]
    pub(super) fn assign(&mut self, flow: FlowId, turn: u32) {
        if let Some(flow) = self.flows.as_mut().get_mut(flow.index())
            && flow.turn != turn
        {
            *flow = Flow { place: flow.place.renewed(), turn };
        }
    }

    /// Sets the bytes of a turn: its number of quanta times `quantum`, or the nearest value in
    /// range.
    #[inline(always)]
    pub(super) fn set_quantum(&mut self, turn: u32, quantum: u32) {
        let (at, quantum) = (turn, self.bytes_of_turn(quantum));
        if let Some(turn) = self.turns.as_mut().get_mut(turn as usize)
            && turn.place.quantum() != quantum
        {
            turn.place.set_quantum(quantum, most_debt(self.max_len));
            turn.place.forgive(quantum.saturating_add(self.max_len));
            self.rates.set_quantum(at, quantum, self.max_len);
            self.note_early(at);
        }
    }

    /// Returns the bytes of a turn: its number of quanta times `quantum`, or the nearest value in
    /// range.
    #[inline(always)]
    pub(super) fn bytes_of_turn(&self, quantum: u32) -> u32 {
        let quanta = self.quanta_of_a_turn();
        let most = RingFlow::MAX_QUANTUM >> if quanta > 1 { 3 } else { 0 };
        quantum.min(most).max(self.max_len).wrapping_mul(quanta)
    }

    /// Returns the bound of a turn's debt when it begins, unless it was charged in advance.
    pub(super) const fn most_debt(&self) -> u32 {
        most_debt(self.max_len)
    }

    /// Returns the number of quanta in a turn. Bytes sent for a host in other tins are taken from
    /// its turn; with one share over tins, a quantum must remain even for a host that is backlogged
    /// in all of them.
    pub(super) const fn quanta_of_a_turn(&self) -> u32 {
        if self.is_across { self.choice.tins() } else { 1 }
    }

    /// Updates what packets are charged to; called after any change of the tins.
    pub(super) const fn note_charged(&mut self) {
        self.charged = match (self.choice.is_one(), self.isolation.counts_hosts()) {
            _ if self.rates.are_set() => Charged::Rate,
            (true, true) => Charged::Turn,
            (true, false) => Charged::Nothing,
            (false, _) => Charged::Tin,
        };
    }

    /// Updates the turn served next; called after any change of a ring or of the choice.
    #[inline(always)]
    pub(super) fn note_selected(&mut self) {
        let [first, ..] = &self.tins;
        let tin = self.tins.get(self.choice.front() as usize).unwrap_or(first);
        self.selected = tin.turns.front();
        if tin.early != NONE || self.charged == Charged::Early {
            return self.note_selected_early(tin.early);
        }
        if self.selected == NONE {
            self.selected = self.rates.front();
        }
    }

    /// Updates the turn served next, if the last packet was not sent early.
    #[inline(always)]
    fn note_front_turn(&mut self) {
        let Some(tin) = self.tins.get(self.choice.front() as usize) else { return };
        self.selected = tin.turns.front();
        if tin.early != NONE {
            self.note_selected_early(tin.early);
        }
    }

    /// Returns the backlogged tins, one bit each.
    pub(super) fn backlogged_tins(&self) -> u32 {
        if self.is_in_rounds() {
            return self.tins_in_rounds();
        }
        let tins = (0..).zip(&self.tins);
        tins.fold(0, |mask, (tin, of)| mask | u32::from(of.turns.front() != NONE) << tin)
    }

    /// Lists the turn of a flow that was idle, when the turn becomes backlogged.
    #[inline(never)]
    fn begin_turn(&mut self, turn: u32) {
        let (at, host) = (self.tin_of_turn(turn), self.host_of_turn(turn));
        let was_idle = self.is_idle(host);
        if let Some(host) = self.hosts.as_mut().get_mut(host as usize) {
            host.backlogged |= 1 << (at & 7);
        }
        if self.rates.are_set() {
            return self.begin_limited(turn, was_idle);
        }
        self.enter_tin(turn);
        if self.turn(turn).is_some_and(|turn| turn.place.is_used_up()) {
            self.note_early(turn);
        }
        self.note_selected();
    }

    /// Puts `turn` on the ring of its tin.
    #[inline(always)]
    pub(super) fn enter_tin(&mut self, turn: u32) {
        let at = self.tin_of_turn(turn);
        let Some(tin) = self.tins.get_mut(at as usize) else { return };
        let was_idle = tin.turns.front() == NONE;
        tin.turns.enter(self.turns.as_mut(), turn, true, |_| ());
        if was_idle {
            self.choice.backlogged(at);
        }
    }

    /// Takes `turn`, which has lost its packets, off the ring of its tin, if it is there.
    pub(super) fn lose_in_tin(&mut self, turn: u32) {
        let (at, max_len, most_debt) = (self.tin_of_turn(turn), self.max_len, self.most_debt());
        if !self.turn(turn).is_some_and(|turn| turn.place.is_listed()) {
            return;
        }
        let Some(tin) = self.tins.get_mut(at as usize) else { return };
        tin.turns.lose(self.turns.as_mut(), turn, most_debt);
        let is_idle = tin.turns.front() == NONE;
        if self.was_across
            && let Some(turn) = self.turns.as_mut().get_mut(turn as usize)
        {
            turn.place.forgive(max_len);
        }
        self.note_early(turn);
        if is_idle {
            self.choice.emptied(at);
        }
    }

    /// Records that the turn, just taken off the ring of its tin, is idle.
    #[inline(always)]
    pub(super) fn note_idle(&mut self, turn: u32) {
        let (at, host) = (self.tin_of_turn(turn), self.host_of_turn(turn));
        if let Some(host) = self.hosts.as_mut().get_mut(host as usize) {
            host.backlogged &= !(1 << (at & 7));
        }
    }

    /// Charges `len` bytes to the selected turn, which stays backlogged; there are several tins.
    /// Separate, because on some links this makes a call, for which packets of a single tin would
    /// have to save registers too.
    #[inline(never)]
    pub(super) fn charge_in_tin(&mut self, len: u32) {
        if TINS == 1 {
            return;
        }
        if self.was_across {
            return self.charge_across(len);
        }
        let wire_len = self.choice.wire_len(len);
        self.charge_on_wire(len, wire_len);
    }

    /// Continues [`Self::charge_in_tin`] for a packet of `wire_len` bytes on the wire. Rare cases
    /// are tail calls, so that few registers are saved.
    #[inline(never)]
    fn charge_on_wire(&mut self, len: u32, wire_len: u32) {
        let (selected, at, cost) = (self.selected, self.choice.front(), self.quanta.cost(len));
        let most_debt = self.most_debt();
        let Some(turn) = self.turns.as_mut().get_mut(selected as usize) else { return };
        let Some(tin) = self.tins.get_mut(at as usize) else { return };
        if tin.turns.charge_front(turn, selected, cost, most_debt) && tin.is_watched {
            return self.end_watched(len, wire_len);
        }
        self.go_on(at, len, wire_len);
    }

    /// Charges the tin at the front, `at`, which stays backlogged, for `len` bytes.
    #[inline(always)]
    fn go_on(&mut self, at: u32, len: u32, wire_len: u32) {
        if !self.choice.borrowed(at, len, wire_len) {
            return self.choose_anew(len, wire_len, false);
        }
        self.note_front_turn();
    }

    /// Does [`Self::go_on`] after the selected turn ended, while other turns may be used up.
    #[inline(never)]
    fn end_watched(&mut self, len: u32, wire_len: u32) {
        let at = self.choice.front();
        self.pass_over(at, self.selected);
        self.go_on(at, len, wire_len);
    }

    /// Charges the tin at the front for `len` bytes and selects a tin; `is_idle` says whether it
    /// became idle.
    #[inline(never)]
    fn choose_anew(&mut self, len: u32, wire_len: u32, is_idle: bool) {
        self.choice.served_in_full(len, wire_len, is_idle);
        self.note_front_turn();
        if self.selected == NONE {
            self.selected = self.rates.front();
        }
    }

    /// Does [`Self::charge_in_tin`] while hosts have, or have had, one share in all tins.
    #[cold]
    #[inline(never)]
    fn charge_across(&mut self, len: u32) {
        if self.is_across {
            self.charge_elsewhere(self.selected, len);
        }
        if self.choice.serves_by_floor()
            && let Some(turn) = self.turns.as_mut().get_mut(self.selected as usize)
        {
            // In a turn of several packets of the service floor, the other hosts would have to wait
            // for all of them.
            turn.place.charge_elsewhere(u32::MAX);
        }
        self.charge_on_wire(len, self.choice.wire_len(len));
    }

    /// Ends the flow at the front of the selected turn, which has emptied after `len` bytes were
    /// sent.
    #[inline(never)]
    fn end_flow(&mut self, len: u32) {
        let (selected, cost) = (self.selected, self.quanta.cost(len));
        let (terms, most_debt) = (self.terms(), self.most_debt());
        let Some(turn) = self.turns.as_mut().get_mut(selected as usize) else { return };
        turn.flows.leave_front(self.flows.as_mut(), cost, terms);
        turn.count = turn.count.wrapping_sub(1);
        match self.charged {
            Charged::Early => return self.charge_early(len),
            Charged::Rate => return self.charge_limited(len),
            Charged::Turn | Charged::Nothing | Charged::Tin => {}
        }
        let Some(tin) = self.tins.get_mut(self.choice.front() as usize) else { return };
        if turn.flows.front() != NONE {
            match self.charged {
                Charged::Turn => {
                    if tin.turns.charge_front(turn, selected, cost, most_debt) {
                        if tin.is_watched {
                            return self.turn_over(selected);
                        }
                        self.selected = tin.turns.front();
                    }
                }
                Charged::Tin => self.charge_in_tin(len),
                Charged::Nothing | Charged::Rate | Charged::Early => {}
            }
            return;
        }
        self.note_idle(selected);
        self.leave_tin(len);
    }

    /// Takes the selected turn, for which `len` bytes were sent, off the ring of its tin.
    #[inline(always)]
    pub(super) fn leave_tin(&mut self, len: u32) {
        let (selected, cost) = (self.selected, self.quanta.cost(len));
        let most_debt = self.most_debt();
        let Some(tin) = self.tins.get_mut(self.choice.front() as usize) else { return };
        tin.turns.leave_front(self.turns.as_mut(), cost, most_debt);
        let (front, is_watched) = (tin.turns.front(), tin.is_watched);
        if TINS == 1 || matches!(self.charged, Charged::Turn | Charged::Nothing) {
            self.selected = front;
            if is_watched {
                self.turn_over(selected);
            }
            return;
        }
        if is_watched {
            return self.leave_watched(len);
        }
        self.leave_on_wire(len);
    }

    /// Continues [`Self::leave_tin`] for several tins.
    #[inline(always)]
    fn leave_on_wire(&mut self, len: u32) {
        if self.is_across {
            self.charge_elsewhere(self.selected, len);
        }
        let (at, wire_len) = (self.choice.front(), self.choice.wire_len(len));
        let is_idle = self.tins.get(at as usize).is_none_or(|tin| tin.turns.front() == NONE);
        if !is_idle && self.choice.borrowed(at, len, wire_len) {
            return self.note_front_turn();
        }
        self.choose_anew(len, wire_len, is_idle);
    }

    /// Does [`Self::leave_on_wire`] while turns may be used up.
    #[inline(never)]
    fn leave_watched(&mut self, len: u32) {
        self.pass_over(self.choice.front(), self.selected);
        self.leave_on_wire(len);
    }

    /// Charges bytes sent for the host of `turn` in its tin to its turns in the others. Cost:
    /// O(tins).
    #[inline(never)]
    fn charge_elsewhere(&mut self, turn: u32, len: u32) {
        let (all, cost) = (self.turns_of(self.host_of_turn(turn)), self.quanta.cost(len));
        let Some(turns) = self.turns.as_mut().get_mut(all.clone()) else { return };
        for (other, at) in turns.iter_mut().zip(all) {
            sched_core::step();
            if at != turn as usize {
                other.place.charge_elsewhere(cost);
            }
        }
    }

    /// Takes off `flow`, if it was backlogged, after it lost all of its packets.
    #[inline(never)]
    fn lose_flow(&mut self, flow: FlowId) {
        if !self.is_backlogged(flow) {
            return;
        }
        if self.is_in_rounds() {
            return self.lose_in_rounds(flow);
        }
        let (at, terms) = (self.turn_of_flow(flow), self.terms());
        let Some(turn) = self.turns.as_mut().get_mut(at as usize) else { return };
        turn.flows.lose(self.flows.as_mut(), flow.0, terms);
        turn.count = turn.count.wrapping_sub(1);
        if turn.flows.front() == NONE {
            self.lose_turn(at);
        } else {
            self.note_early(at);
        }
        self.note_selected();
    }
}

impl<S: Storage> FlowScheduler for Serving<S> {
    /// All flows have the same quantum.
    type Config = ();

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.choice.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        (): (),
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        match self.flows.as_mut().get_mut(flow.index()) {
            Some(of) if !of.place.is_added() => of.place.add(),
            Some(_) => {}
            None => return Err(ConfigError::UnknownFlow { flow, flows }),
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.lose_flow(flow);
        if let Some(flow) = self.flows.as_mut().get_mut(flow.index()) {
            *flow = Flow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<()> {
        self.flow(flow).filter(|flow| flow.place.is_added()).map(|_| ())
    }

    /// All flows have the same maximum.
    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.config(flow).map(|_| self.max_len)
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let Some(&Flow { place, turn: at }) = self.flow(flow) else { return };
        if !place.is_added() || place.is_listed() {
            return;
        }
        if self.is_in_rounds() {
            return self.enter_rounds(flow);
        }
        let Some(turn) = self.turns.as_mut().get_mut(at as usize) else { return };
        let was_idle = turn.count == 0;
        turn.flows.enter(self.flows.as_mut(), flow.0, true, |_| ());
        turn.count = turn.count.wrapping_add(1);
        if was_idle {
            self.begin_turn(at);
        } else if turn.place.awaits_its_turn() {
            self.come_early(at, flow);
        }
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let FlowId(flow) = self.selected();
        (flow != NONE).then_some(FlowId(flow))
    }

    #[inline]
    fn selected(&self) -> FlowId {
        match self.turn(self.selected) {
            Some(turn) => FlowId(turn.flows.front()),
            None => FlowId(self.rounds.front),
        }
    }

    #[inline]
    fn waits(&self) -> bool {
        self.rates.are_set()
    }

    fn waiting(&self) -> Option<FlowId> {
        let (turn, _) = self.first_waiting()?;
        self.turn(turn).map(|turn| FlowId(turn.flows.front()))
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.rates_open_at(now)
    }

    fn open(&mut self) {
        self.open_first();
    }

    #[inline(always)]
    fn pace(&self, flow: FlowId) -> Nanos {
        if self.rates.are_set() { self.limited_pace(flow) } else { Nanos::ZERO }
    }

    /// Returns the flow at the front of each turn from the selected one on.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        if self.is_in_rounds() {
            return self.rounds.upcoming(self.flows.as_ref(), self.choice.front(), ahead);
        }
        let [first, ..] = &self.tins;
        if self.charged == Charged::Early {
            let first = ahead.iter_mut().take(1);
            return first.map(|first| *first = self.selected()).count();
        }
        let tin = self.tins.get(self.choice.front() as usize).unwrap_or(first);
        let turns = tin.turns.walk(self.turns.as_ref(), ahead.len());
        let found = ahead.iter_mut().zip(turns);
        found.map(|(place, (_, turn))| *place = FlowId(turn.flows.front())).count()
    }

    #[inline(always)] // for each packet, from one place
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let terms = self.terms();
        let Self { turns, flows, tins, selected, max_len, quanta, .. } = self;
        quanta.note(len, *max_len);
        let cost = quanta.cost(len);
        let Some(turn) = turns.as_mut().get_mut(*selected as usize) else {
            return self.serve_in_rounds(flow, len, next_head);
        };
        if flow.0 != turn.flows.front() {
            return;
        }
        if next_head.is_none() {
            return self.end_flow(len);
        }
        turn.flows.charge(flows.as_mut(), cost, terms, |_| ());
        match self.charged {
            Charged::Turn => {
                let [tin, ..] = tins;
                if tin.turns.charge_front(turn, *selected, cost, most_debt(*max_len)) {
                    if tin.is_watched {
                        let turn = *selected;
                        return self.turn_over(turn);
                    }
                    *selected = tin.turns.front();
                }
            }
            Charged::Nothing => {}
            Charged::Tin => self.charge_in_tin(len),
            Charged::Rate => self.charge_limited(len),
            Charged::Early => self.charge_early(len),
        }
    }

    #[inline]
    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.lose_flow(flow);
        }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let max_len = self.max_len;
        for (at, flow) in (0..).zip(self.flows.as_ref()) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            flow.place.recount(at, is_backlogged, self.terms())?;
            let has_turn =
                self.tin_of_turn(flow.turn) < self.choice.tins() && self.turn(flow.turn).is_some();
            Imbalance::check("a turn that there is", at, 1, has_turn.into())?;
        }
        if self.is_in_rounds() {
            self.recount_rounds()?;
            return self.choice.recount(self.backlogged_tins());
        }
        let (mut listed, mut of_tins) = (0_u64, [0_usize; TINS]);
        for (at, turn) in (0..).zip(self.turns.as_ref()) {
            let (holds, tin) = (turn.count > 0, self.tin_of_turn(at));
            let in_tin = holds && self.is_in_tin(at);
            let in_advance = turn.place.quantum().saturating_add(max_len);
            let elsewhere = if self.was_across { RingFlow::MAX_QUANTUM } else { in_advance };
            turn.place.recount_charged(at, in_tin, max_len, [elsewhere, in_advance])?;
            turn.flows.recount(self.flows.as_ref(), turn.count as usize)?;
            for (flow, record) in turn.flows.walk(self.flows.as_ref(), turn.count as usize) {
                Imbalance::check("the turn of a flow", flow, record.turn.into(), at.into())?;
            }
            listed = listed.wrapping_add(turn.count.into());
            if let Some(turns) = of_tins.get_mut(tin as usize) {
                *turns = turns.wrapping_add(in_tin.into());
            }
            let host = self.hosts.as_ref().get(self.host_of_turn(at) as usize);
            let noted = host.is_some_and(|host| host.backlogged >> (tin & 7) & 1 == 1);
            Imbalance::check("a tin of a host", at, holds.into(), noted.into())?;
        }
        let held = self.flows.as_ref().iter().filter(|flow| flow.place.is_listed()).count();
        Imbalance::check("flows of all turns", 0, held as u64, listed)?;
        for ((number, tin), turns) in (0_u32..).zip(&self.tins).zip(of_tins) {
            tin.turns.recount(self.turns.as_ref(), turns)?;
            for (at, _) in tin.turns.walk(self.turns.as_ref(), turns) {
                let of = self.tin_of_turn(at);
                Imbalance::check("the tin of a turn", at, of.into(), number.into())?;
            }
        }
        let [first, ..] = &self.tins;
        let front = self.tins.get(self.choice.front() as usize).unwrap_or(first).turns.front();
        let front = if front == NONE { self.rates.front() } else { front };
        let front = self.recount_early(front)?;
        Imbalance::check("the turn served next", 0, front.into(), self.selected.into())?;
        self.recount_rates()?;
        self.choice.recount(self.backlogged_tins())
    }
}

impl<S: Storage> Hosted for Serving<S> {
    /// Returns `None` in modes without hosts.
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        let turn = self.flow(flow)?.turn;
        self.isolation.counts_hosts().then(|| self.host_of_turn(turn))
    }

    fn hosts(&self) -> u32 {
        u32::try_from(self.hosts.as_ref().len()).unwrap_or(u32::MAX)
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::{Heap, Isolated, IsolatedConfig, IsolatedMemory};
    use flowhash::{Labels, mix};
    use sched_core::{Limits, Packet, Scheduler};

    /// Goal: bursts know the next flows, in every mode. Method: 64 flows of eight hosts hold five
    /// packets of a whole quantum each. The next calls serve the predicted flows, one packet each.
    /// In the first turn of hosts no flow is predicted, because their packets have just arrived;
    /// over the whole run at least a quarter of the services was predicted.
    #[test]
    fn the_flows_that_are_next_are_known() -> Result<(), crate::IsolatedError> {
        let none = &mut |_: Packet, _| {};
        let modes = Isolation::ALL.iter().filter(|mode| **mode != Isolation::TripleIsolate);
        for &isolation in modes {
            let memory = IsolatedMemory::<Heap>::allocate(128, 16, 1, 320);
            let config = IsolatedConfig::new(1_500, Limits::NONE).isolated_by(isolation);
            let mut queue = Isolated::new(memory, config)?;
            for handle in 0..320 {
                let (host, flow) = (mix(handle & 7), mix(!(handle >> 3 & 7)));
                let labels = Labels { flow: mix(host ^ flow), src_host: host, dst_host: flow };
                let packet = Packet::new(handle, 1_500);
                assert!(queue.enqueue_labelled(Nanos(0), &labels, packet, none).is_ok());
            }
            let (mut right, mut served) = (0, 0);
            while queue.backlog().packets > 100 {
                let mut ahead = [FlowId::NONE; 16];
                let found = queue.queues.scheduler().upcoming(&mut ahead);
                for flow in ahead.iter().take(found.max(1)) {
                    let before = queue.queue_backlog(flow.0).packets;
                    assert!(queue.dequeue(Nanos(0), none).is_some());
                    right += before - queue.queue_backlog(flow.0).packets;
                    served += 1;
                }
            }
            assert!(4 * right >= served, "{isolation}: {right} of {served} foretold");
        }
        Ok(())
    }
}
