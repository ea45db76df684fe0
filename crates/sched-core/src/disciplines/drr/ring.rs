//! Flows that take turns on one ring: what [`Drr`](super::Drr) has one of, and an isolated queue
//! one for each host and each tin.
//!
//! A [`Ring`] is the head only. The flows lie in a table of the caller's, which may hold the flows
//! of other rings too: a flow is on one ring at most, and only the caller knows on which.
//!
//! **One turn a round, in pieces.** With sparse flows first, a flow that empties keeps its turn:
//! the bytes it was charged, and a ticket. The ticket is the last one drawn when the turn came on
//! the new list, or, for a turn on the old list, when the flow emptied. The round of the turn lasts
//! while a flow that was on the old list at that instant has not left it. A flow that returns
//! within the round
//!
//! - goes to the new list, if something of its turn is left;
//! - goes to the tail of the old list with its debt, if not.
//!
//! After the round a flow that returns has a whole turn again.
//!
//! **Invariant.** While a flow k stays backlogged, it ends a turn between the beginnings of any two
//! turns of another flow in which that one is served. `docs/proofs/drr.md` has the proof and
//! the bounds.

use core::fmt;

use crate::flow_scheduler::ConfigError;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// Where a flow is. The one truth about membership: links mean nothing unless this says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not added.
    Absent,
    /// Holds nothing.
    Idle,
    /// Holds nothing. The flow has had a turn, or begun one, and gets no other while the ticket at
    /// the front of the old list is not later than its own.
    Spent,
    /// On the new list.
    New,
    /// On the old list.
    Old,
}

/// A [`Place`] in the low three bits, whether a turn has begun in the next, and a ticket above, so
/// that they change with one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing(u32);

const PLACES: u32 = 0b0111;
/// Set if and only if the flow has been served in its turn and something of that is left.
const BEGUN: u32 = 0b1000;
/// The low bits of a [`Standing`], which are no ticket's.
pub(super) const TICKET_SHIFT: u32 = 4;
/// What one ticket has more than the last.
pub(super) const TICKET: u32 = 1 << TICKET_SHIFT;

impl Standing {
    /// Of a flow whose turn has not begun.
    pub(super) const fn new(place: Place, ticket: u32) -> Self {
        Self(ticket | place as u32)
    }

    pub(super) const fn place(self) -> Place {
        match self.0 & PLACES {
            0 => Place::Absent,
            1 => Place::Idle,
            2 => Place::Spent,
            3 => Place::New,
            _ => Place::Old,
        }
    }

    pub(super) const fn ticket(self) -> u32 {
        self.0 & !(TICKET - 1)
    }

    /// Whether the flow is on the old list, with this ticket.
    pub(super) const fn is_old_since(self, ticket: u32) -> bool {
        self.0 & !BEGUN == Self::new(Place::Old, ticket).0
    }

    /// Whether the flow emptied in a turn that it had begun.
    const fn is_broken_off(self) -> bool {
        self.0 & (TICKET - 1) == Self::new(Place::Spent, 0).begun().0
    }

    pub(super) const fn begun(self) -> Self {
        Self(self.0 | BEGUN)
    }

    const fn has_begun(self) -> bool {
        self.0 & BEGUN != 0
    }
}

/// The quantum of a [`RingFlow`], kept there or shared by all, and the width of its links.
pub trait Quantum: Copy + fmt::Debug {
    /// The number of a flow, as it is kept.
    type Link: Copy + fmt::Debug + Into<u32>;
    /// The longest packet in bytes, and the quantum where it is shared.
    type Terms: Copy;
    /// The quantum of a flow that was not added.
    const NONE: Self;
    /// The number 0.
    const FIRST: Self::Link;

    /// Returns the number of `flow`, which is below the length of a table, as it is kept.
    fn link(flow: u32) -> Self::Link;
    /// Returns the quantum in bytes, if it is kept.
    fn kept(self) -> Option<u32>;
    /// Returns the quantum in bytes.
    fn of(self, terms: Self::Terms) -> u32;
    /// Returns the longest packet in bytes.
    fn max_len(terms: Self::Terms) -> u32;
}

/// A quantum of each flow's own, and links of 32 bits.
impl Quantum for u32 {
    type Link = u32;
    type Terms = u32;
    const NONE: Self = 0;
    const FIRST: u32 = 0;

    #[inline(always)]
    fn link(flow: u32) -> u32 {
        flow
    }

    #[inline(always)]
    fn kept(self) -> Option<u32> {
        Some(self)
    }

    #[inline(always)]
    fn of(self, _max_len: u32) -> u32 {
        self
    }

    #[inline(always)]
    fn max_len(terms: u32) -> u32 {
        terms
    }
}

/// One quantum for all flows of a table, which none of them keeps, and links of 16 bits: there are
/// 65,536 flows at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedQuantum;

/// The quantum of flows with a [`SharedQuantum`], and their longest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTerms {
    /// Bytes a turn: `max_len..=`[`RingFlow::MAX_QUANTUM`].
    pub quantum: u32,
    /// The longest packet in bytes.
    pub max_len: u32,
}

/// Returns `number`, which is below 65,536, in 16 bits.
#[inline(always)]
pub(crate) const fn short(number: u32) -> u16 {
    debug_assert!(number <= u16::MAX as u32, "the caller limits its table");
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}

impl Quantum for SharedQuantum {
    type Link = u16;
    type Terms = SharedTerms;
    const NONE: Self = Self;
    const FIRST: u16 = 0;

    #[inline(always)]
    fn link(flow: u32) -> u16 {
        short(flow)
    }

    #[inline(always)]
    fn kept(self) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn of(self, terms: SharedTerms) -> u32 {
        terms.quantum
    }

    #[inline(always)]
    fn max_len(terms: SharedTerms) -> u32 {
        terms.max_len
    }
}

/// A flow's place on a [`Ring`], its quantum and what it was charged: 20 bytes, and 12 with a
/// [`SharedQuantum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFlow<Q: Quantum = u32> {
    /// The flow behind this one on its list, which is a ring, unless the flow is on a
    /// [list](Self::enlist) of its owner's; stale unless listed.
    pub(super) next: Q::Link,
    /// The flow before this one; stale unless listed.
    pub(super) prev: Q::Link,
    /// Bytes a turn: the flow scheduler's `max_len..=MAX_QUANTUM`, zero if and only if `Absent`.
    pub(super) quantum: Q,
    /// Bytes charged to the turn under way, or to the next one: those sent in it, and before it
    /// begins those by which the turns before were overdrawn. Below `MAX_QUANTUM`, and below the
    /// quantum in a turn that was broken off. Before the turn begins below `max_len`, and then
    /// only service has made it what it is, unless something was [charged in
    /// advance](RingFlow::charge_in_advance) or [elsewhere](RingFlow::charge_elsewhere).
    pub(super) charged: u32,
    /// Where the flow is. On the old list the ticket is the one drawn there. Otherwise no flow
    /// that was on the old list when the flow's turn began has a later one.
    pub(super) standing: Standing,
}

impl RingFlow {
    /// The largest quantum, in bytes. With it what is charged stays below 2^29.
    pub const MAX_QUANTUM: u32 = MAX_QUANTUM;

    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `quantum` is in `max_len..=`[`RingFlow::MAX_QUANTUM`]: a turn is worth
    /// the longest packet, so that it is never worth nothing.
    pub(crate) fn check_quantum(quantum: u32, max_len: u32) -> Result<(), ConfigError> {
        let (min, max) = (max_len.into(), Self::MAX_QUANTUM.into());
        ConfigError::check_range("quantum in bytes", quantum.into(), min, max)
    }

    /// Returns the bytes a turn is worth; 0 if the flow was not added.
    #[inline]
    #[must_use]
    pub const fn quantum(&self) -> u32 {
        self.quantum
    }

    /// Adds the flow, or changes its quantum, from `max_len` to [`RingFlow::MAX_QUANTUM`], which
    /// the caller checks. What was sent in a turn under way counts.
    pub fn set_quantum(&mut self, quantum: u32, max_len: u32) {
        self.quantum = quantum;
        if !self.is_added() {
            self.add();
        } else if !self.is_listed() && self.standing.has_begun() && self.charged >= quantum {
            self.standing = Standing::new(Place::Spent, self.standing.ticket());
            self.charged = debt(self.charged, quantum, max_len);
        }
    }

    /// Charges `len` bytes that were sent for the flow elsewhere to its turn under way or its next
    /// one, but leaves it one packet of that turn. Nothing if it is not listed.
    pub fn charge_elsewhere(&mut self, len: u32) {
        let most = self.quantum.saturating_sub(1);
        let charged = self.charged.saturating_add(len).min(most);
        if self.is_listed() && charged > self.charged {
            self.charged = charged;
        }
    }

    /// Returns whether nothing is left of the turn under way or, before that begins, of the next
    /// one.
    #[inline]
    #[must_use]
    pub const fn is_used_up(&self) -> bool {
        self.charged >= self.quantum
    }

    /// Charges `len` bytes that the flow, which [awaits its turn](Self::awaits_its_turn), has sent
    /// in advance of that turn. It owes less than a turn and `max_len` bytes then.
    #[inline]
    pub fn charge_in_advance(&mut self, len: u32, max_len: u32) {
        let most = self.quantum.saturating_add(max_len).saturating_sub(1);
        self.charged = self.charged.saturating_add(len).min(most);
    }
}

/// The largest quantum, in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

impl<Q: Quantum> RingFlow<Q> {
    /// A flow that was not added: all zero.
    pub const EMPTY: Self = Self {
        next: Q::FIRST,
        prev: Q::FIRST,
        quantum: Q::NONE,
        charged: 0,
        standing: Standing::new(Place::Absent, 0),
    };

    /// Adds the flow, which was not, where it keeps no quantum.
    pub const fn add(&mut self) {
        self.standing = Standing::new(Place::Idle, 0);
    }

    /// Returns the flow behind this one on its list; stale unless listed.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next.into()
    }

    /// Returns the flow before this one; stale unless listed.
    #[inline]
    #[must_use]
    pub fn prev(&self) -> u32 {
        self.prev.into()
    }

    /// Sets the flow behind this one.
    #[inline]
    pub fn set_next(&mut self, flow: u32) {
        self.next = Q::link(flow);
    }

    /// Sets the flow before this one.
    #[inline]
    pub fn set_prev(&mut self, flow: u32) {
        self.prev = Q::link(flow);
    }

    #[inline]
    pub(super) const fn place(&self) -> Place {
        self.standing.place()
    }

    /// Returns whether the flow is on a ring.
    #[inline]
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        matches!(self.place(), Place::New | Place::Old)
    }

    /// Returns whether the flow is among the sparse ones, which are served first.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        matches!(self.place(), Place::New)
    }

    /// Returns whether the flow has been served in its turn and something of that is left, also if
    /// the flow is on no ring.
    #[inline]
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.standing.has_begun()
    }

    /// Returns whether the flow was added.
    #[inline]
    #[must_use]
    pub const fn is_added(&self) -> bool {
        !matches!(self.place(), Place::Absent)
    }

    /// Whether the flow was added and is on no list.
    #[inline]
    const fn may_enter(&self) -> bool {
        matches!(self.place(), Place::Idle | Place::Spent)
    }

    /// What the flow, which holds nothing, owes of its turns before: credit does not outlive the
    /// round, nor debt what is left of a turn.
    #[inline]
    const fn owed(&self) -> u32 {
        if self.standing.has_begun() { 0 } else { self.charged }
    }

    /// The flow, listed till now, has sent `len` bytes and has nothing left. Its turn came when
    /// `ticket` was the last one drawn.
    #[inline]
    fn stop(&mut self, ticket: u32, len: u32, terms: Q::Terms) {
        let standing = Standing::new(Place::Spent, ticket);
        let charged = self.charged.wrapping_add(len);
        let quantum = self.quantum.of(terms);
        if charged < quantum {
            self.standing = standing.begun();
            self.charged = charged;
        } else {
            self.standing = standing;
            self.charged = debt(charged, quantum, Q::max_len(terms));
        }
    }

    /// Lists the flow, which is added and not listed, on a list of its owner's that is no ring: as
    /// a new one or one that stands, with the rest of the turn that it has begun if it `goes_on`,
    /// or else with a turn of its own. The links are the owner's.
    #[inline]
    pub fn enlist(&mut self, is_new: bool, goes_on: bool) {
        let standing = Standing::new(if is_new { Place::New } else { Place::Old }, 0);
        if goes_on {
            self.standing = standing.begun();
        } else {
            (self.charged, self.standing) = (self.owed(), standing);
        }
    }

    /// Charges the flow, which is on a [list](Self::enlist) of its owner's, `len` bytes that it has
    /// sent. Returns whether the turn is over: then the flow stands, with a turn of its own.
    #[inline]
    pub fn charge(&mut self, len: u32, terms: Q::Terms) -> bool {
        let charged = self.charged.wrapping_add(len);
        let quantum = self.quantum.of(terms);
        let is_over = charged >= quantum;
        if is_over {
            self.charged = debt(charged, quantum, Q::max_len(terms));
            self.standing = Standing::new(Place::Old, 0);
        } else {
            self.charged = charged;
            self.standing = self.standing.begun();
        }
        is_over
    }

    /// Notes that the flow is on its owner's [list](Self::enlist) no more: it has `sent` so many
    /// bytes and has nothing left, or lost what it held. A turn that has not begun is as if it had
    /// not come then.
    #[inline]
    pub fn unlist(&mut self, sent: Option<u32>, terms: Q::Terms) {
        if sent.is_some() || self.has_begun() {
            self.stop(0, sent.unwrap_or(0), terms);
        } else {
            self.standing = Standing::new(Place::Idle, 0);
        }
    }

    /// Returns the flow, which is idle, as if it had just been added; or not added, if it was not.
    #[must_use]
    pub const fn renewed(&self) -> Self {
        let place = if self.is_added() { Place::Idle } else { Place::Absent };
        Self { quantum: self.quantum, standing: Standing::new(place, 0), ..Self::EMPTY }
    }

    /// Limits the debt of a flow whose turn has not begun to less than `most` bytes: the turn that
    /// was charged elsewhere does not come, or is worth less.
    pub fn forgive(&mut self, most: u32) {
        if !self.standing.has_begun() {
            self.charged = self.charged.min(most.saturating_sub(1));
        }
    }

    /// Returns whether the flow is on the old list and has yet to begin the turn that it has there.
    #[inline]
    #[must_use]
    pub const fn awaits_its_turn(&self) -> bool {
        matches!(self.place(), Place::Old) && !self.standing.has_begun()
    }

    /// Checks the place of flow `at`, to which nothing is charged elsewhere.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self, at: u32, is_backlogged: bool, terms: Q::Terms) -> Result<(), Imbalance> {
        self.recount_charged(at, is_backlogged, terms, [Q::max_len(terms); 2])
    }

    /// Checks the place of flow `at`, where less than `most` bytes are charged to a turn before it
    /// begins: while the flow is listed, and while it is not.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount_charged(
        &self,
        at: u32,
        is_backlogged: bool,
        terms: Q::Terms,
        most: [u32; 2],
    ) -> Result<(), Imbalance> {
        let max_len = Q::max_len(terms);
        let listed = self.is_listed();
        Imbalance::check("listed and backlogged", at, listed.into(), is_backlogged.into())?;
        if let Some(quantum) = self.quantum.kept() {
            let has_quantum = (max_len..=MAX_QUANTUM).contains(&quantum);
            Imbalance::check("a quantum in range", at, self.is_added().into(), has_quantum.into())?;
        }
        let begun = self.standing.has_begun();
        let may_have_begun = listed || self.place() == Place::Spent;
        Imbalance::check("no turn of a new flow", at, 0, (begun && !may_have_begun).into())?;
        let limit = match begun {
            false if listed => most[0],
            false => most[1],
            true if listed => MAX_QUANTUM,
            true => self.quantum.of(terms),
        };
        let in_range = self.charged < limit;
        Imbalance::check("bytes charged in range", at, 1, in_range.into())
    }
}

/// An element of a table of flows: a [`RingFlow`], and what its owner keeps beside it.
pub trait OnRing {
    /// The kind of quantum: each flow's own, or one shared by all.
    type Quantum: Quantum;

    /// Returns the place of the flow.
    fn on_ring(&self) -> &RingFlow<Self::Quantum>;
    /// Returns the place of the flow, to be changed.
    fn on_ring_mut(&mut self) -> &mut RingFlow<Self::Quantum>;
}

/// The [terms](Quantum::Terms) of the flows of a table.
type Terms<F> = <<F as OnRing>::Quantum as Quantum>::Terms;

/// Adds every flow of `nodes`, or changes it, with the same quantum.
///
/// # Errors
/// As [`RingFlow::check_quantum`]; nothing has changed then.
pub(crate) fn add_all<F: OnRing<Quantum = u32>>(
    nodes: &mut [F],
    quantum: u32,
    max_len: u32,
) -> Result<(), ConfigError> {
    RingFlow::check_quantum(quantum, max_len)?;
    for node in nodes {
        node.on_ring_mut().set_quantum(quantum, max_len);
    }
    Ok(())
}

/// Adds `flow`, or changes it.
///
/// # Errors
/// As [`RingFlow::check_quantum`], and [`ConfigError::UnknownFlow`]; nothing has changed then.
pub(crate) fn configure<F: OnRing<Quantum = u32>>(
    nodes: &mut [F],
    flow: FlowId,
    quantum: u32,
    max_len: u32,
) -> Result<(), ConfigError> {
    RingFlow::check_quantum(quantum, max_len)?;
    let flows = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    match nodes.get_mut(flow.index()) {
        Some(node) if flow.0 < flows => node.on_ring_mut().set_quantum(quantum, max_len),
        _ => return Err(ConfigError::UnknownFlow { flow, flows }),
    }
    Ok(())
}

/// The element `flow` of `nodes`.
#[inline]
fn node<F: OnRing>(nodes: &[F], flow: u32) -> Option<&RingFlow<F::Quantum>> {
    nodes.get(flow as usize).map(F::on_ring)
}

#[inline]
fn node_mut<F: OnRing>(nodes: &mut [F], flow: u32) -> Option<&mut RingFlow<F::Quantum>> {
    nodes.get_mut(flow as usize).map(F::on_ring_mut)
}

/// The head of a ring, which is the new list and behind it the old one.
///
/// A flow whose turn is over goes to the tail of the old list, from whichever list: on a ring that
/// is one step of the front, without touching a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The flow served next. [`NONE`] if and only if none is listed.
    pub(super) front: u32,
    /// The last flow of the new list; [`NONE`] if and only if that is empty.
    pub(super) last_new: u32,
    /// What the next flow that comes to the tail of the old list stands as: [`Place::Old`] with
    /// the next ticket, so that it is stored as it is. Tickets wrap: two compare by the sign of
    /// their difference, which is right unless 2^27 turns lie between them; a flow idle for that
    /// long may once count as not sparse.
    pub(super) next_old: Standing,
}

impl Ring {
    /// Room for a ring: all zero, and no ring until it is [`Ring::IDLE`].
    pub const EMPTY: Self = Self { front: 0, last_new: 0, next_old: Standing(0) };

    /// A ring without flows.
    pub const IDLE: Self =
        Self { front: NONE, last_new: NONE, next_old: Standing::new(Place::Old, 0) };

    /// Returns the flow served next, the number of [`FlowId::NONE`](crate::FlowId::NONE) if none is
    /// listed.
    #[inline]
    #[must_use]
    pub const fn front(&self) -> u32 {
        self.front
    }

    /// Returns the ticket that was drawn last, for [`Self::stands_behind`].
    #[inline]
    #[must_use]
    pub const fn mark(&self) -> u32 {
        self.last_drawn()
    }

    /// Returns whether the front is on the old list, and came there after `mark` was the ticket
    /// drawn last.
    #[inline]
    #[must_use]
    pub fn stands_behind<F: OnRing>(&self, front: &F, mark: u32) -> bool {
        let standing = front.on_ring().standing;
        standing.place() == Place::Old && is_later(standing.ticket(), mark)
    }

    /// Returns whether a flow is on the new list.
    #[inline]
    #[must_use]
    pub const fn has_new(&self) -> bool {
        self.last_new != NONE
    }

    /// The flow served next of those at [`Place::Old`], as far as the ring says: with none there,
    /// one at [`Place::New`], or [`NONE`].
    #[inline]
    pub(super) fn old_front<F: OnRing>(&self, nodes: &[F]) -> u32 {
        node(nodes, self.last_new).map_or(self.front, RingFlow::next)
    }

    /// The next ticket.
    #[inline]
    pub(super) const fn ticket(&self) -> u32 {
        self.next_old.ticket()
    }

    /// Draws a ticket for a flow that comes to the tail of the old list.
    #[inline]
    const fn draw(&mut self) -> Standing {
        let drawn = self.next_old;
        self.next_old = Standing(drawn.0.wrapping_add(TICKET));
        drawn
    }

    /// The ticket that was drawn last: no flow on the old list has a later one.
    #[inline]
    const fn last_drawn(&self) -> u32 {
        // The place goes with the step back.
        self.next_old.0.wrapping_sub(Standing::new(Place::Old, TICKET).0)
    }

    /// Lists `flow`, if it is added and not listed. With sparse flows first the flow comes
    /// to the new list if it may; otherwise it comes last, and `drawn` is called.
    #[inline]
    pub fn enter<F: OnRing>(
        &mut self,
        nodes: &mut [F],
        flow: u32,
        sparse_first: bool,
        drawn: impl FnOnce(&mut [F]),
    ) {
        if !sparse_first || !self.enter_early(nodes, flow) {
            self.enter_last(nodes, flow, drawn);
        }
    }

    /// Lists `flow` on the new list, if it is added, not listed, and has a turn of its own or the
    /// rest of one that it has begun. Returns whether it has.
    #[inline]
    fn enter_early<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) -> bool {
        self.come_back(nodes, flow) || self.enter_early_slow(nodes, flow)
    }

    /// [`Self::enter_early`] of a flow that comes and goes: it had begun a turn, the round of that
    /// turn is over, and the new list is not empty. Returns whether it is so; nothing has changed
    /// if not.
    #[inline(always)]
    pub(super) fn come_back<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) -> bool {
        let (last_new, standing) = (self.last_new, Standing::new(Place::New, self.last_drawn()));
        let Some(old_front) = node(nodes, last_new).map(RingFlow::next) else { return false };
        let Some(entering) = node(nodes, flow).filter(|flow| flow.standing.is_broken_off()) else {
            return false;
        };
        let ticket = entering.standing.ticket();
        let Some(behind) = node_mut(nodes, old_front) else { return false };
        if behind.place() == Place::Old && !is_later(behind.standing.ticket(), ticket) {
            return false;
        }
        behind.set_prev(flow);
        if let Some(node) = node_mut(nodes, flow) {
            (node.standing, node.charged) = (standing, 0);
            node.set_next(old_front);
            node.set_prev(last_new);
        }
        if let Some(before) = node_mut(nodes, last_new) {
            before.set_next(flow);
        }
        self.last_new = flow;
        true
    }

    /// [`Self::enter_early`], wherever flows are.
    #[inline]
    pub(super) fn enter_early_slow<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) -> bool {
        let old_front = self.old_front(nodes);
        let Some(entering) = node(nodes, flow).filter(|flow| flow.may_enter()) else {
            return false;
        };
        let ticket = entering.standing.ticket();
        let (standing, charged) =
            if entering.place() == Place::Idle || has_passed(nodes, old_front, ticket) {
                (Standing::new(Place::New, self.last_drawn()), entering.owed())
            } else if entering.standing.has_begun() {
                (Standing::new(Place::New, ticket).begun(), entering.charged)
            } else {
                return false;
            };
        if let Some(node) = node_mut(nodes, flow) {
            (node.standing, node.charged) = (standing, charged);
        }
        if !self.has_new() {
            self.front = flow;
        }
        self.last_new = flow;
        self.insert_before(nodes, old_front, flow);
        true
    }

    /// Lists `flow` at the tail of the old list, if it is added and not listed; then `drawn` is
    /// told that it has drawn a ticket.
    #[inline(always)]
    pub(crate) fn enter_last<F: OnRing>(
        &mut self,
        nodes: &mut [F],
        flow: u32,
        drawn: impl FnOnce(&mut [F]),
    ) {
        let Some(node) = node_mut(nodes, flow).filter(|flow| flow.may_enter()) else { return };
        node.charged = node.owed();
        node.standing = self.draw();
        drawn(nodes);
        self.insert_before(nodes, self.front, flow);
    }

    /// Puts `flow`, on no ring, before `at`, or on the ring alone.
    #[inline(always)]
    fn insert_before<F: OnRing>(&mut self, nodes: &mut [F], at: u32, flow: u32) {
        let Some(behind) = node_mut(nodes, at) else { return self.begin(nodes, flow) };
        let prev = behind.prev();
        behind.set_prev(flow);
        if let Some(node) = node_mut(nodes, flow) {
            node.set_next(at);
            node.set_prev(prev);
        }
        if let Some(before) = node_mut(nodes, prev) {
            before.set_next(flow);
        }
    }

    /// Puts `flow` on the ring, which has no other.
    #[cold]
    #[inline(never)]
    fn begin<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) {
        self.front = flow;
        if let Some(node) = node_mut(nodes, flow) {
            node.set_next(flow);
            node.set_prev(flow);
        }
    }

    /// Charges the front, which has more, `len` bytes that it has sent. If its turn is over it
    /// draws a ticket, and `drawn` is called. No length, however wrong, makes a debt of more than
    /// `max_len` less a byte.
    #[inline]
    pub fn charge<F: OnRing>(
        &mut self,
        nodes: &mut [F],
        len: u32,
        terms: Terms<F>,
        drawn: impl FnOnce(&mut [F]),
    ) {
        let front = self.front;
        let Some(node) = nodes.get_mut(front as usize) else { return };
        if self.charge_front(node, front, len, terms) {
            drawn(nodes);
        }
    }

    /// Charges `node`, which is that of the `front` and has more, `len` bytes, as [`Self::charge`]
    /// does. Returns whether the turn is over.
    #[inline(always)]
    pub fn charge_front<F: OnRing>(
        &mut self,
        node: &mut F,
        front: u32,
        len: u32,
        terms: Terms<F>,
    ) -> bool {
        let node = node.on_ring_mut();
        let charged = node.charged.wrapping_add(len);
        let quantum = node.quantum.of(terms);
        if charged < quantum {
            node.charged = charged;
            node.standing = node.standing.begun();
            return false;
        }
        node.charged = debt(charged, quantum, F::Quantum::max_len(terms));
        node.standing = self.draw();
        self.front = node.next();
        if front == self.last_new {
            self.last_new = NONE;
        }
        true
    }

    /// Takes `flow`, which has nothing left since it sent `len` bytes, off the ring, if it is on
    /// it. It keeps the rest of its turn, or what it owes: emptying a queue must neither wash a
    /// debt away nor let turns pile up.
    #[inline]
    pub(crate) fn leave<F: OnRing>(
        &mut self,
        nodes: &mut [F],
        flow: u32,
        len: u32,
        terms: Terms<F>,
    ) {
        let last_drawn = self.last_drawn();
        let Some(node) = node_mut(nodes, flow) else { return };
        let ticket = match node.place() {
            Place::New => node.standing.ticket(),
            Place::Old => last_drawn,
            _ => return,
        };
        node.stop(ticket, len, terms);
        self.unlist(nodes, flow);
    }

    /// Takes the front, which has sent `len` bytes and has nothing left, off the ring. It keeps the
    /// rest of its turn, or what it owes.
    #[inline]
    pub fn leave_front<F: OnRing>(&mut self, nodes: &mut [F], len: u32, terms: Terms<F>) {
        let (front, last_drawn) = (self.front, self.last_drawn());
        let Some(node) = node_mut(nodes, front) else { return };
        let mut ticket = last_drawn;
        if node.place() == Place::New {
            ticket = node.standing.ticket();
            if front == self.last_new {
                self.last_new = NONE;
            }
        }
        node.stop(ticket, len, terms);
        let (next, prev) = (node.next(), node.prev());
        if next == front {
            self.front = NONE;
            return;
        }
        self.front = next;
        if let Some(before) = node_mut(nodes, prev) {
            before.set_next(next);
        }
        if let Some(behind) = node_mut(nodes, next) {
            behind.set_prev(prev);
        }
    }

    /// Takes `flow`, which has nothing left since it lost what it had, off the ring, if it is on
    /// it.
    ///
    /// A loss is no service. A flow that loses a turn that has not begun owes what it owed and is
    /// as sparse as it was. In a turn that has begun a loss is as if the flow had been emptied by
    /// service.
    pub fn lose<F: OnRing>(&mut self, nodes: &mut [F], flow: u32, terms: Terms<F>) {
        let Some(node) = node_mut(nodes, flow) else { return };
        if node.standing.has_begun() {
            return self.leave(nodes, flow, 0, terms);
        }
        node.standing = match node.place() {
            Place::New => Standing::new(Place::Idle, 0),
            // The flow keeps its ticket: the flows before it on the old list still go before it.
            Place::Old => Standing::new(Place::Spent, node.standing.ticket()),
            _ => return,
        };
        self.unlist(nodes, flow);
    }

    /// Takes `flow`, which is listed, off the ring; what it says of itself stays.
    pub(crate) fn unlist<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) {
        let Some(node) = node(nodes, flow) else { return };
        let (next, prev) = (node.next(), node.prev());
        if flow == self.last_new {
            // The new list is at the front of the ring: the flow before its last one is on it too,
            // if any is.
            self.last_new = if flow == self.front { NONE } else { prev };
        }
        if flow == self.front {
            self.front = if next == flow { NONE } else { next };
        }
        if let Some(before) = node_mut(nodes, prev) {
            before.set_next(next);
        }
        if let Some(behind) = node_mut(nodes, next) {
            behind.set_prev(prev);
        }
    }

    /// Returns the flows on the ring from the front on, and no more than `most + 1`, however
    /// damaged it is.
    pub fn walk<'a, F: OnRing>(
        &self,
        nodes: &'a [F],
        most: usize,
    ) -> impl Iterator<Item = (u32, &'a F)> + use<'a, F> {
        let front = self.front;
        let at = |flow: u32| nodes.get(flow as usize).map(|node| (flow, node));
        let behind = move |&(_, node): &(u32, &F)| {
            let next = node.on_ring().next();
            if next == front { None } else { at(next) }
        };
        core::iter::successors(at(front), behind).take(most.saturating_add(1))
    }

    /// Walks the ring and checks that it holds `listed` listed flows, each once, the new ones
    /// first.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount<F: OnRing>(&self, nodes: &[F], listed: usize) -> Result<(), Imbalance> {
        let (mut found, mut last) = (0_usize, None::<(u32, RingFlow<F::Quantum>)>);
        let mut last_new = NONE;
        for (here, flow) in self.walk(nodes, listed) {
            let flow = *flow.on_ring();
            Imbalance::check("a flow on the ring is listed", here, 1, flow.is_listed().into())?;
            let next = node(nodes, flow.next()).copied().unwrap_or(RingFlow::EMPTY);
            Imbalance::check("links point both ways", here, here.into(), next.prev().into())?;
            if flow.place() == Place::New {
                last_new = here;
            }
            if let Some((before, last)) = last
                && last.place() == Place::Old
            {
                let is_old = flow.place() == Place::Old;
                Imbalance::check("old flows stand last", before, 1, is_old.into())?;
                let in_order = is_later(flow.standing.ticket(), last.standing.ticket());
                Imbalance::check("tickets of old flows ascend", before, 1, in_order.into())?;
            }
            last = Some((here, flow));
            found = found.wrapping_add(1);
        }
        Imbalance::check("the last new flow", 0, self.last_new.into(), last_new.into())?;
        Imbalance::check("flows on the ring", 0, listed as u64, found as u64)
    }
}

/// Whether every flow that was on the old list when `ticket` was the last one drawn has had a turn
/// since, or is gone.
#[inline]
fn has_passed<F: OnRing>(nodes: &[F], old_front: u32, ticket: u32) -> bool {
    match node(nodes, old_front) {
        Some(front) if front.place() == Place::Old => is_later(front.standing.ticket(), ticket),
        _ => true,
    }
}

/// What a flow owes that was `charged` all of its turn: by how much that is overdrawn. More than a
/// packet only if the quantum was lowered in the turn, and then that counts no further.
#[inline]
pub(crate) const fn debt(charged: u32, quantum: u32, max_len: u32) -> u32 {
    let (debt, most) = (charged.saturating_sub(quantum), max_len.wrapping_sub(1));
    if debt < most { debt } else { most }
}

/// Whether ticket `a` was drawn after ticket `b`.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
