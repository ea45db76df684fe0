//! Committed rates and ceilings of hosts.
//!
//! A host *conforms* while the token bucket of its committed rate is not overdrawn; its turns are
//! on the rings of the tins. Above its rate it is in *excess*: its turns are on one ring with those
//! of all other hosts in excess, and are served only while no conforming host is backlogged. Above
//! its ceiling it *waits*: its turns are on no ring. A host is in one of these states with all of
//! its turns, so that rate and ceiling hold over all tins together. A host without a rate always
//! conforms, and one without a ceiling never waits.
//!
//! **Guarantees.** `r` is a rate, `b` its burst, `L` the longest packet on the wire, `t` any
//! interval.
//!
//! - *Rate.* While it conforms, at most `r·t + b + L` is sent for a host. Nothing more is sent for
//!   it while another host conforms.
//! - *Ceiling.* At most `r·t + b` is sent for a host; for a single backlogged host `r` is sent, if
//!   the caller dequeues no later than the time of `b − L` bytes after it may send.
//! - *Work conservation.* A packet leaves unless all backlogged hosts wait.
//! - *Return.* Hosts that are due leave excess or waiting in the following calls, [`RETURNS`] per
//!   call, the one due longest first. A call puts at most one host there, so that hosts that are
//!   due do not pile up.
//! - *Others.* For the conforming hosts, a host that leaves them looks like one that emptied, and
//!   one that returns like one that newly became backlogged: its debt is kept, the remainder of its
//!   turn is not.
//!
//! **Borrowing is charged**: bytes sent in excess are taken out of the host's bucket, until it is
//! overdrawn by a burst. With [free borrowing](TokenBucket::with_free_borrowing) they are not.
//!
//! **Time.** The time by which the clock has advanced. After a step back of more than a second,
//! time goes on from the new timestamp.
//!
//! **Cost.** O(1) for a packet of a host whose state does not change: three multiplications per
//! bucket. O(log hosts + tins) for each change, at most three changes per call. Nothing while no
//! host has a rate or a ceiling.
//!
//! **Source.** Conforming and excess: RFC 2697. Borrowing in one level: Floyd & Jacobson,
//! *Link-sharing and resource management models for packet networks*, 1995.

use sched_core::{
    Bucket, Elapsed, FlowId, FlowState, Imbalance, Nanos, OnRing, Ranked, RankedFlow, Ring,
    RingFlow, TokenBucket, Tournament,
};

use super::serve::Serving;
use crate::HostTerms;
use crate::labels::Labelled;
use crate::storage::Storage;

/// The maximum number of due hosts that return per call.
pub(super) const RETURNS: u32 = 2;

/// Selects the host that is due first.
type Due = Tournament<false>;

/// Marks a turn on no ring, or the absence of a host.
const NONE: u32 = FlowId::NONE.0;

/// The state of a backlogged host. An idle host conforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its turns are on the rings of its tins.
    Conforming,
    /// Its turns are on the ring of those in excess.
    Excess,
    /// Its turns are on no ring.
    Waiting,
}

/// The rate and ceiling of one host: 112 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostRate {
    committed: Bucket,
    ceiling: Bucket,
    /// The time of the longest packet at the ceiling.
    pace: Nanos,
    /// The time at which it is due, unless it conforms.
    due: RankedFlow,
    place: Place,
    /// The tin in which a packet was last sent for it.
    tin: u8,
}

/// The position of a turn among those in excess: 20 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExcessTurn(RingFlow);

pub(super) struct Rates<S: Storage> {
    /// One for each host, or none.
    hosts: S::Rates<HostRate>,
    /// One for each turn.
    turns: S::Rates<ExcessTurn>,
    /// The turns of the hosts in excess.
    excess: Ring,
    /// The number of hosts with a rate or a ceiling. While it is 0, the others cost nothing.
    limited: u32,
    /// A host that has returned with only one of its turns so far; [`NONE`] otherwise.
    returning: u32,
    clock: Elapsed,
    /// The time from which on all buckets are full; the clock stops there. Hosts that become due
    /// while it is stopped may return in another order.
    all_full_at: Nanos,
}

impl HostRate {
    /// A host without a rate and a ceiling.
    pub(super) const EMPTY: Self = Self {
        committed: Bucket::NONE,
        ceiling: Bucket::NONE,
        pace: Nanos::ZERO,
        due: RankedFlow::EMPTY,
        place: Place::Conforming,
        tin: 0,
    };

    const fn is_limited(&self) -> bool {
        self.committed.of().is_some() || self.ceiling.of().is_some()
    }

    fn full_at(&self) -> Nanos {
        self.committed.full_at().max(self.ceiling.full_at())
    }

    /// Returns the time at which the host is below its ceiling again, by a packet of the `longest`
    /// length.
    fn opens_at(&self, longest: u32) -> Nanos {
        self.ceiling.holds_at(longest)
    }

    fn conforms_at(&self) -> Nanos {
        self.committed.holds_at(0)
    }

    /// Returns the state that the host should be in.
    fn place_at(&self, now: Nanos, longest: u32) -> Place {
        if self.opens_at(longest) > now {
            Place::Waiting
        } else if self.conforms_at() > now {
            Place::Excess
        } else {
            Place::Conforming
        }
    }

    /// Charges `wire_len` bytes that were sent.
    fn take(&mut self, now: Nanos, wire_len: u32) {
        self.ceiling.take(now, wire_len);
        let borrows = self.place == Place::Excess;
        if !(borrows && self.committed.of().is_some_and(|rate| rate.borrows_free())) {
            self.committed.take(now, wire_len);
            if borrows {
                self.committed.clamp(now, 2);
            }
        }
    }

    /// Returns the time of a packet of the `longest` length at the ceiling.
    fn pace(&self, longest: u32) -> Nanos {
        self.ceiling.of().map_or(Nanos::ZERO, |ceiling| ceiling.time_of(longest))
    }
}

impl ExcessTurn {
    /// A turn that was not added.
    pub(super) const EMPTY: Self = Self(RingFlow::EMPTY);
}

impl Ranked for HostRate {
    #[inline]
    fn row(&self) -> &RankedFlow {
        &self.due
    }

    #[inline]
    fn row_mut(&mut self) -> &mut RankedFlow {
        &mut self.due
    }
}

impl OnRing for ExcessTurn {
    type Quantum = u32;

    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.0
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.0
    }
}

impl<S: Storage> Rates<S> {
    /// True if the storage supports rates; otherwise their code is not compiled.
    const MAY_HAVE_ROOM: bool = size_of::<S::Rates<HostRate>>() > 0;

    /// Creates rates over these tables, to be [set up](Self::begin).
    pub(super) const fn new(hosts: S::Rates<HostRate>, turns: S::Rates<ExcessTurn>) -> Self {
        let (excess, limited, returning) = (Ring::IDLE, 0, NONE);
        let (clock, all_full_at) = (Elapsed::START, Nanos::ZERO);
        Self { hosts, turns, excess, limited, returning, clock, all_full_at }
    }

    /// Returns true if there are tables for rates.
    pub(super) fn has_room(&self) -> bool {
        Self::MAY_HAVE_ROOM && !self.hosts.as_ref().is_empty()
    }

    /// Returns true if any host has a rate or a ceiling.
    #[inline(always)]
    pub(super) const fn are_set(&self) -> bool {
        Self::MAY_HAVE_ROOM && self.limited > 0
    }

    fn host(&self, host: u32) -> Option<&HostRate> {
        self.hosts.as_ref().get(host as usize)
    }

    fn host_mut(&mut self, host: u32) -> Option<&mut HostRate> {
        self.hosts.as_mut().get_mut(host as usize)
    }

    /// Returns the state of `host`, if it is backlogged.
    fn place(&self, host: u32) -> Place {
        self.host(host).map_or(Place::Conforming, |host| host.place)
    }

    /// Returns the turn that is served next while no host conforms.
    #[inline(always)]
    pub(super) fn front(&self) -> u32 {
        if self.are_set() { self.excess.front() } else { NONE }
    }

    /// Returns true if a bucket of the previous host of this entry is not full. New, full buckets
    /// would give it more than it is entitled to.
    pub(super) fn is_short(&self, host: u32) -> bool {
        self.host(host).is_some_and(|host| host.full_at() > self.clock.now())
    }

    /// Sets the quantum of `turn` in excess.
    pub(super) fn set_quantum(&mut self, turn: u32, quantum: u32, max_len: u32) {
        if let Some(turn) = self.turns.as_mut().get_mut(turn as usize) {
            turn.0.set_quantum(quantum, max_len);
        }
    }

    /// Resets all: no host has a rate, no turn has a debt, and each has `quantum`.
    pub(super) fn begin(&mut self, quantum: u32, max_len: u32) {
        self.hosts.as_mut().fill(HostRate::EMPTY);
        Due::play_all(self.hosts.as_mut());
        let mut turn = ExcessTurn::EMPTY;
        turn.0.set_quantum(quantum, max_len);
        self.turns.as_mut().fill(turn);
        (self.excess, self.limited, self.returning) = (Ring::IDLE, 0, NONE);
    }

    /// Records the time at which `host` is due, or that it conforms. `longest` is the longest
    /// packet on the wire.
    fn book(&mut self, host: u32, longest: u32) {
        let Some(of) = self.host_mut(host) else { return };
        let (booked, stamp) = (of.is_backlogged(), of.stamp());
        let due = match of.place {
            Place::Conforming => {
                of.set_bytes(0);
                return Due::lost(self.hosts.as_mut(), FlowId(host));
            }
            Place::Excess => of.conforms_at(),
            Place::Waiting => of.opens_at(longest),
        };
        of.set_bytes(1);
        of.set_stamp(due.0);
        if !booked || due.0 < stamp {
            Due::gained(self.hosts.as_mut(), FlowId(host));
        } else if due.0 > stamp {
            Due::lost(self.hosts.as_mut(), FlowId(host));
        }
    }

    /// Returns the host that is due first, if it is due now.
    fn first_due(&self) -> Option<u32> {
        let first = Due::first(self.hosts.as_ref())?;
        self.host(first.0).filter(|host| host.stamp() <= self.clock.now().0).map(|_| first.0)
    }
}

impl<S: Storage> Serving<S> {
    /// Returns the maximum bytes of a packet on the wire.
    fn longest(&self) -> u32 {
        self.choice.wire_len(self.max_len).max(1)
    }

    /// Advances the buckets to the time of the choice among tins.
    pub(super) fn tell_time(&mut self) {
        let Rates { clock, all_full_at, .. } = &mut self.rates;
        clock.advance(self.choice.told(), *all_full_at);
    }

    /// Returns the numbers of the turns of `host`, one for each tin.
    fn turn_numbers(&self, host: u32) -> impl Iterator<Item = u32> + use<S> {
        let first = self.turn_of(host, 0);
        (0..self.choice.tins()).map(move |tin| {
            sched_core::step();
            first.wrapping_add(tin)
        })
    }

    fn holds_flows(&self, turn: u32) -> bool {
        self.turn(turn).is_some_and(|turn| turn.count > 0)
    }

    /// Puts `turn`, which is backlogged, on the ring for its host's state.
    fn list(&mut self, turn: u32) {
        match self.place_of_turn(turn) {
            Place::Conforming => self.enter_tin(turn),
            Place::Excess => {
                let Rates { turns, excess, .. } = &mut self.rates;
                excess.enter(turns.as_mut(), turn, true, |_| ());
            }
            Place::Waiting => {}
        }
    }

    /// Takes `turn` off its ring, as if it had lost its packets.
    fn unlist(&mut self, turn: u32) {
        match self.place_of_turn(turn) {
            Place::Conforming => self.lose_in_tin(turn),
            Place::Excess => {
                let Rates { turns, excess, .. } = &mut self.rates;
                excess.lose(turns.as_mut(), turn, self.max_len);
            }
            Place::Waiting => {}
        }
    }

    #[inline]
    fn place_of_turn(&self, turn: u32) -> Place {
        if !self.rates.are_set() {
            return Place::Conforming;
        }
        self.rates.place(self.host_of_turn(turn))
    }

    /// Moves `host` to `place` with all of its turns, if it is backlogged, and records when it is
    /// due.
    fn move_host(&mut self, host: u32, place: Place) {
        if self.is_idle(host) {
            return;
        }
        for turn in self.turn_numbers(host) {
            self.unlist(turn);
        }
        if let Some(host) = self.rates.host_mut(host) {
            host.place = place;
        }
        for turn in self.turn_numbers(host) {
            if self.holds_flows(turn) {
                self.list(turn);
            }
        }
        self.rates.book(host, self.longest());
    }

    /// Lists `turn`, which became backlogged, if hosts have rates. `was_idle` is the state of its
    /// host before.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_limited(&mut self, turn: u32, was_idle: bool) {
        self.tell_time();
        if was_idle {
            self.begin_host(self.host_of_turn(turn));
        }
        self.list(turn);
        self.recall();
        self.note_selected();
    }

    /// Sets the state of a host whose first turn became backlogged.
    fn begin_host(&mut self, host: u32) {
        let (now, longest) = (self.rates.clock.now(), self.longest());
        let Some(of) = self.rates.host_mut(host) else { return };
        of.place = of.place_at(now, longest);
        self.rates.book(host, self.longest());
    }

    /// Takes `turn`, which lost all of its packets, off its ring; its host conforms if this was its
    /// last backlogged turn.
    pub(super) fn lose_turn(&mut self, turn: u32) {
        if self.rates.are_set() {
            self.finish_return();
        }
        self.unlist(turn);
        self.note_idle(turn);
        if self.rates.are_set() {
            self.end_host(self.host_of_turn(turn));
        }
    }

    /// Makes a host that is no longer backlogged conform, so that it is never due.
    fn end_host(&mut self, host: u32) {
        if self.is_idle(host)
            && let Some(of) = self.rates.host_mut(host)
            && of.place != Place::Conforming
        {
            of.place = Place::Conforming;
            self.rates.book(host, self.longest());
        }
    }

    /// Charges the selected turn `len` bytes that were sent, if hosts have rates. The turn is idle
    /// if its flows are gone.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_limited(&mut self, len: u32) {
        if !self.rates.are_set() {
            return; // without tables for rates, nothing below is compiled
        }
        self.tell_time();
        let (turn, cost, max_len) = (self.selected, self.quanta.cost(len), self.max_len);
        let (host, tin) = (self.host_of_turn(turn), self.tin_of_turn(turn));
        let wire_len = self.choice.wire_len(len).max(1);
        let (longest, stays_backlogged) = (self.longest(), self.holds_flows(turn));
        let Rates { hosts, clock, all_full_at, .. } = &mut self.rates;
        let (mut before, mut after) = (Place::Conforming, Place::Conforming);
        if let Some(of) = hosts.as_mut().get_mut(host as usize) {
            if of.is_limited() {
                of.take(clock.now(), wire_len);
                *all_full_at = of.full_at().max(*all_full_at);
                of.tin = u8::try_from(tin).unwrap_or(0);
            }
            before = of.place;
            after = of.place_at(clock.now(), longest);
            // A host in excess that conforms again returns like all that are due.
            if before == Place::Excess && after == Place::Conforming {
                after = Place::Excess;
            }
        }
        let stays = stays_backlogged && before == after;
        if before == Place::Excess {
            self.choice.count(tin, len);
            let Rates { turns, excess, .. } = &mut self.rates;
            if stays {
                excess.charge(turns.as_mut(), cost, max_len, |_| ());
            } else {
                excess.leave_front(turns.as_mut(), cost, max_len);
            }
        } else if self.choice.is_one() {
            let most_debt = self.most_debt();
            let ([of, ..], turns) = (&mut self.tins, self.turns.as_mut());
            if stays {
                of.turns.charge(turns, cost, most_debt, |_| ());
            } else {
                of.turns.leave_front(turns, cost, most_debt);
            }
        } else if stays {
            self.charge_in_tin(len);
        } else {
            self.leave_tin(len);
        }
        if !stays_backlogged {
            self.note_idle(turn);
        }
        self.end_host(host);
        if before != after {
            self.move_host(host, after);
        } else if before == Place::Excess && !self.is_idle(host) {
            self.rates.book(host, longest);
        }
        self.recall();
        self.note_selected();
    }

    /// Lists the other turns of a host that has returned with one.
    fn finish_return(&mut self) {
        let host = core::mem::replace(&mut self.rates.returning, NONE);
        if host == NONE {
            return;
        }
        for turn in self.turn_numbers(host) {
            if self.holds_flows(turn) {
                self.list(turn);
            }
        }
    }

    /// Returns due hosts to their new states.
    fn recall(&mut self) {
        self.finish_return();
        for _ in 0..RETURNS {
            sched_core::step();
            let Some(host) = self.rates.first_due() else { return };
            self.move_host(host, self.place_after(host));
        }
    }

    /// Returns the new state of a host that is due.
    fn place_after(&self, host: u32) -> Place {
        let of = self.rates.host(host);
        let conforms = of.is_none_or(|of| of.conforms_at() <= self.rates.clock.now());
        if conforms { Place::Conforming } else { Place::Excess }
    }

    /// Returns the turn to serve first of the waiting host that is due first, while nothing else
    /// can be served. Its turns are served in the order of their tins, one packet at a time.
    #[cold]
    #[inline(never)]
    pub(super) fn first_waiting(&self) -> Option<(u32, Nanos)> {
        if !self.rates.are_set() || self.selected != NONE {
            return None;
        }
        let host = Due::first(self.rates.hosts.as_ref())?.0;
        let of = self.rates.host(host)?;
        let behind = self.turn_numbers(host).filter(|turn| self.tin_of_turn(*turn) > of.tin.into());
        let turn = behind.chain(self.turn_numbers(host)).find(|turn| self.holds_flows(*turn))?;
        Some((turn, Nanos(of.stamp())))
    }

    /// Returns the time at which the first waiting host may send.
    #[cold]
    #[inline(never)]
    pub(super) fn rates_open_at(&self, now: Nanos) -> Option<Nanos> {
        let (_, due) = self.first_waiting()?;
        self.rates.clock.clock_at(due, now)
    }

    /// Returns only the turn selected by [`Self::first_waiting`] to its ring, if it is due.
    #[cold]
    #[inline(never)]
    pub(super) fn open_first(&mut self) {
        if self.rates.are_set() {
            self.tell_time();
        }
        let Some((turn, due)) = self.first_waiting() else { return };
        if due > self.rates.clock.now() {
            return;
        }
        let host = self.host_of_turn(turn);
        let place = self.place_after(host);
        if let Some(of) = self.rates.host_mut(host) {
            of.place = place;
        }
        self.rates.book(host, self.longest());
        self.list(turn);
        self.rates.returning = host;
        self.note_selected();
    }

    /// Returns the duration of a round of the flows of the host of `flow` at its ceiling, in all
    /// tins together. Cost: O(tins).
    #[cold]
    #[inline(never)]
    pub(super) fn limited_pace(&self, flow: FlowId) -> Nanos {
        let host = self.host_of_turn(self.turn_of_flow(flow));
        let pace = self.rates.host(host).map_or(0, |host| host.pace.0);
        Nanos(pace.saturating_mul(self.flows_of(host).into()))
    }

    /// Sets rate and ceiling of the host at this entry from `labels`. What is missing in its
    /// buckets stays missing; for a host that `is_new` here they are full.
    pub(super) fn set_rates(&mut self, host: u32, is_new: bool, labels: &(impl Labelled + ?Sized)) {
        if !self.rates.has_room() {
            return;
        }
        self.tell_time();
        let longest = self.longest();
        let HostTerms { committed_rate, ceiling, .. } = labels.host_terms();
        let rate = committed_rate.map(|rate| rate.with_burst_of_at_least(longest));
        let ceiling = ceiling.map(|ceiling| ceiling.with_burst_of_at_least(longest));
        let Some(of) = self.rates.host_mut(host) else { return };
        let (had, has) = (of.is_limited(), rate.is_some() || ceiling.is_some());
        if is_new {
            *of = HostRate { due: of.due, ..HostRate::EMPTY };
        }
        let (had_rate, had_ceiling) = (of.committed.of(), of.ceiling.of());
        // While no host has a rate, all conform.
        self.rates.limited = self.rates.limited.wrapping_add((!had).into());
        if had_rate != rate {
            self.set_committed(host, rate);
        }
        if had_ceiling != ceiling {
            self.set_ceiling(host, ceiling);
        }
        self.rates.limited = self.rates.limited.wrapping_sub((!has).into());
        if self.rates.are_set() && self.serves_early {
            self.serve_no_more_early();
        }
        self.note_charged();
        self.note_selected();
    }

    fn set_committed(&mut self, host: u32, rate: Option<TokenBucket>) {
        if self.rates.place(host) == Place::Excess {
            self.move_host(host, Place::Conforming);
        }
        let Rates { hosts, clock, all_full_at, .. } = &mut self.rates;
        let Some(of) = hosts.as_mut().get_mut(host as usize) else { return };
        of.committed.set(clock.now(), rate, 2);
        *all_full_at = of.full_at().max(*all_full_at);
        if of.place == Place::Conforming && of.conforms_at() > clock.now() {
            self.move_host(host, Place::Excess);
        }
    }

    fn set_ceiling(&mut self, host: u32, ceiling: Option<TokenBucket>) {
        let longest = self.longest();
        let Rates { hosts, clock, all_full_at, .. } = &mut self.rates;
        let Some(of) = hosts.as_mut().get_mut(host as usize) else { return };
        of.ceiling.set(clock.now(), ceiling, 1);
        *all_full_at = of.full_at().max(*all_full_at);
        of.pace = of.pace(longest);
        let is_closed = of.opens_at(longest) > clock.now();
        if of.place == Place::Waiting {
            self.move_host(host, self.place_after(host));
        }
        if is_closed {
            self.move_host(host, Place::Waiting);
        }
    }

    /// Follows another link of the choice among tins. A host whose ceiling does not allow the
    /// longest packet on it waits.
    pub(super) fn follow_link(&mut self) {
        if !self.rates.are_set() {
            return;
        }
        self.tell_time();
        let (now, longest) = (self.rates.clock.now(), self.longest());
        for host in 0..u32::try_from(self.rates.hosts.as_ref().len()).unwrap_or(u32::MAX) {
            let Some(of) = self.rates.host_mut(host) else { break };
            of.pace = of.pace(longest);
            let waits = of.opens_at(longest) > now;
            if self.is_idle(host) {
                continue;
            } else if waits && self.rates.place(host) != Place::Waiting {
                self.move_host(host, Place::Waiting);
            } else {
                self.rates.book(host, self.longest());
            }
        }
    }

    /// Checks the states of all hosts.
    pub(super) fn recount_rates(&self) -> Result<(), Imbalance> {
        let Rates { hosts, turns, excess, limited, .. } = &self.rates;
        let (longest, mut has_rates, mut listed) = (self.longest(), 0_u32, 0);
        for (at, of) in (0..).zip(hosts.as_ref()) {
            has_rates = has_rates.wrapping_add(of.is_limited().into());
            let is_booked = of.place != Place::Conforming;
            Imbalance::check("a host is due", at, is_booked.into(), of.bytes().into())?;
            let idle = self.is_idle(at) && is_booked;
            Imbalance::check("an idle host conforms", at, 0, idle.into())?;
            Imbalance::check("the pace of a host", at, of.pace(longest).0, of.pace.0)?;
            let due = match of.place {
                Place::Conforming => continue,
                Place::Excess => of.conforms_at(),
                Place::Waiting => of.opens_at(longest),
            };
            Imbalance::check("when a host is due", at, due.0, of.stamp())?;
        }
        Imbalance::check("hosts with rates", 0, has_rates.into(), (*limited).into())?;
        for (at, turn) in (0..).zip(turns.as_ref()) {
            let is_due = self.place_of_turn(at) == Place::Excess && self.holds_flows(at);
            let pending = self.rates.returning == self.host_of_turn(at);
            let holds = is_due && (!pending || turn.0.is_listed());
            turn.0.recount(at, holds, self.max_len)?;
            listed = usize::wrapping_add(listed, turn.0.is_listed().into());
        }
        excess.recount(turns.as_ref(), listed)?;
        Due::recount(hosts.as_ref(), &|host| {
            let bytes = hosts.as_ref().get(host.index()).map_or(0, Ranked::bytes);
            FlowState { backlog: sched_core::Backlog { packets: bytes, bytes }, head_len: None }
        })
    }

    /// Returns true if `turn` is on the ring of its tin whenever it is backlogged.
    pub(super) fn is_in_tin(&self, turn: u32) -> bool {
        let pending = self.rates.returning == self.host_of_turn(turn);
        let is_listed = self.turn(turn).is_some_and(|turn| turn.place.is_listed());
        self.place_of_turn(turn) == Place::Conforming && (!pending || is_listed)
    }
}
