//! Rings of flows that take turns: [`Drr`](super::Drr) has one, an isolated queue one for each host
//! and each tin.
//!
//! A [`Ring`] is only the list head. The flows are in a table of the caller's, which may contain
//! the flows of other rings too: a flow is on at most one ring, and only the caller knows on which.
//!
//! **One turn per round, in pieces.** With sparse flows first, a flow that empties keeps its turn:
//! the bytes charged to it, and a ticket. Tickets number the appends to the old list. The flow's
//! ticket is the last one drawn when the turn came on the new list, or, for a turn on the old list,
//! when the flow emptied. The round of the turn lasts until every flow that was on the old list at
//! that instant has left it or had its turn. A flow that returns within the round
//!
//! - goes to the new list, if part of its turn is left;
//! - goes to the tail of the old list with its debt, if not.
//!
//! A flow that returns after the round has a whole turn again.
//!
//! **Invariant.** While a flow k stays backlogged, it ends a turn between the times at which
//! another flow is given two turns in which that flow is served. For the proof and the bounds see
//! `docs/proofs/drr.md`.

use core::fmt;

use crate::flow_scheduler::ConfigError;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// State of a flow. It alone determines membership: links are valid only if it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not added.
    Absent,
    /// Empty; a turn may start at once.
    Idle,
    /// Empty. The flow has had or begun a turn, and gets no other until the ticket at the front of
    /// the old list is later than its own.
    Spent,
    /// On the new list.
    New,
    /// On the old list.
    Old,
}

/// A [`Place`] in the low three bits, the bit [`BEGUN`], and a ticket above, so that one store
/// changes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing(u32);

const PLACES: u32 = 0b0111;
/// Set if and only if the flow has been served in its turn and part of the turn is left.
const BEGUN: u32 = 0b1000;
/// Number of low bits of a [`Standing`] below the ticket.
pub(super) const TICKET_SHIFT: u32 = 4;
/// Difference of two consecutive tickets.
pub(super) const TICKET: u32 = 1 << TICKET_SHIFT;

impl Standing {
    /// The state of a flow whose turn has not begun.
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

    /// Returns true if the flow is on the old list with this ticket.
    pub(super) const fn is_old_since(self, ticket: u32) -> bool {
        self.0 & !BEGUN == Self::new(Place::Old, ticket).0
    }

    /// Returns true if the flow emptied in a turn that it had begun.
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

/// The quantum of a [`RingFlow`], stored per flow or shared by all, and the width of its links.
pub trait Quantum: Copy + fmt::Debug {
    /// Type in which a flow number is stored.
    type Link: Copy + fmt::Debug + Into<u32>;
    /// Parameters that are not stored per flow: the longest packet in bytes, and a shared quantum.
    type Terms: Copy;
    /// The quantum of a flow that has not been added.
    const NONE: Self;
    /// The flow number 0.
    const FIRST: Self::Link;

    /// Converts the number of `flow`, which is below the length of a table, for storage.
    fn link(flow: u32) -> Self::Link;
    /// Returns the quantum in bytes, if it is stored per flow.
    fn kept(self) -> Option<u32>;
    /// Returns the quantum in bytes.
    fn of(self, terms: Self::Terms) -> u32;
    /// Returns the longest packet in bytes.
    fn max_len(terms: Self::Terms) -> u32;
}

/// A quantum per flow, and links of 32 bits.
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

/// One quantum shared by all flows of a table, not stored per flow, and links of 16 bits: at most
/// 65,536 flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedQuantum;

/// The quantum and the longest packet of flows with a [`SharedQuantum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTerms {
    /// Bytes per turn: `max_len..=`[`RingFlow::MAX_QUANTUM`].
    pub quantum: u32,
    /// The longest packet in bytes.
    pub max_len: u32,
}

/// Converts `number`, which is below 65,536, to 16 bits.
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

/// State of a flow on a [`Ring`], with its quantum and charged bytes: 20 bytes, or 12 with a
/// [`SharedQuantum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFlow<Q: Quantum = u32> {
    /// The next flow on the ring, or on a [list](Self::enlist) of the owner's; stale unless
    /// listed.
    pub(super) next: Q::Link,
    /// The previous flow; stale unless listed.
    pub(super) prev: Q::Link,
    /// Bytes per turn: the flow scheduler's `max_len..=MAX_QUANTUM`, zero if and only if `Absent`.
    pub(super) quantum: Q,
    /// Bytes charged to the current turn, or to the next one: those sent in it, and before it
    /// begins the overdraft of earlier turns.
    ///
    /// Below `MAX_QUANTUM`, and below the quantum in a turn that was interrupted. Before the turn
    /// begins it is below `max_len` and changed only by service, except for bytes [charged in
    /// advance](RingFlow::charge_in_advance) or [elsewhere](RingFlow::charge_elsewhere).
    pub(super) charged: u32,
    /// Place and ticket. On the old list the ticket is the one drawn on entry. Otherwise no flow
    /// that was on the old list when this flow's turn began has a later one.
    pub(super) standing: Standing,
}

impl RingFlow {
    /// The largest quantum, in bytes. It keeps the charged bytes below 2^29.
    pub const MAX_QUANTUM: u32 = MAX_QUANTUM;

    /// Checks that a turn is worth at least the longest packet, so that no turn is worth nothing.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `quantum` is in `max_len..=`[`RingFlow::MAX_QUANTUM`].
    pub(crate) fn check_quantum(quantum: u32, max_len: u32) -> Result<(), ConfigError> {
        let (min, max) = (max_len.into(), Self::MAX_QUANTUM.into());
        ConfigError::check_range("quantum in bytes", quantum.into(), min, max)
    }

    /// Returns the bytes per turn; 0 if the flow was not added.
    #[inline]
    #[must_use]
    pub const fn quantum(&self) -> u32 {
        self.quantum
    }

    /// Adds the flow, or changes its quantum.
    ///
    /// The caller checks that `quantum` is in `max_len..=`[`RingFlow::MAX_QUANTUM`]. Bytes already
    /// sent in the current turn count against the new quantum.
    pub fn set_quantum(&mut self, quantum: u32, max_len: u32) {
        self.quantum = quantum;
        if !self.is_added() {
            self.add();
        } else if !self.is_listed() && self.standing.has_begun() && self.charged >= quantum {
            self.standing = Standing::new(Place::Spent, self.standing.ticket());
            self.charged = debt(self.charged, quantum, max_len);
        }
    }

    /// Charges `len` bytes that were sent for the flow elsewhere to its current or next turn, but
    /// leaves at least one packet of that turn. Does nothing if the flow is not listed.
    pub fn charge_elsewhere(&mut self, len: u32) {
        let most = self.quantum.saturating_sub(1);
        let charged = self.charged.saturating_add(len).min(most);
        if self.is_listed() && charged > self.charged {
            self.charged = charged;
        }
    }

    /// Returns true if nothing is left of the current turn or, before it begins, of the next one.
    #[inline]
    #[must_use]
    pub const fn is_used_up(&self) -> bool {
        self.charged >= self.quantum
    }

    /// Charges `len` bytes that the flow, which [awaits its turn](Self::awaits_its_turn), has sent
    /// in advance of that turn. Its debt stays below a quantum plus `max_len`.
    #[inline]
    pub fn charge_in_advance(&mut self, len: u32, max_len: u32) {
        let most = self.quantum.saturating_add(max_len).saturating_sub(1);
        self.charged = self.charged.saturating_add(len).min(most);
    }
}

/// The largest quantum, in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

impl<Q: Quantum> RingFlow<Q> {
    /// A flow that has not been added: all zero.
    pub const EMPTY: Self = Self {
        next: Q::FIRST,
        prev: Q::FIRST,
        quantum: Q::NONE,
        charged: 0,
        standing: Standing::new(Place::Absent, 0),
    };

    /// Adds a flow that was not added and stores no quantum.
    pub const fn add(&mut self) {
        self.standing = Standing::new(Place::Idle, 0);
    }

    /// Returns the next flow on the list; stale unless listed.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next.into()
    }

    /// Returns the previous flow on the list; stale unless listed.
    #[inline]
    #[must_use]
    pub fn prev(&self) -> u32 {
        self.prev.into()
    }

    /// Sets the next flow.
    #[inline]
    pub fn set_next(&mut self, flow: u32) {
        self.next = Q::link(flow);
    }

    /// Sets the previous flow.
    #[inline]
    pub fn set_prev(&mut self, flow: u32) {
        self.prev = Q::link(flow);
    }

    #[inline]
    pub(super) const fn place(&self) -> Place {
        self.standing.place()
    }

    /// Returns true if the flow is on a ring.
    #[inline]
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        matches!(self.place(), Place::New | Place::Old)
    }

    /// Returns true if the flow is on the new list, whose sparse flows are served first.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        matches!(self.place(), Place::New)
    }

    /// Returns true if the flow has been served in its turn and part of the turn is left, even if
    /// it is on no ring.
    #[inline]
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.standing.has_begun()
    }

    /// Returns true if the flow was added.
    #[inline]
    #[must_use]
    pub const fn is_added(&self) -> bool {
        !matches!(self.place(), Place::Absent)
    }

    /// Returns true if the flow was added and is on no list.
    #[inline]
    const fn may_enter(&self) -> bool {
        matches!(self.place(), Place::Idle | Place::Spent)
    }

    /// Returns the debt of an empty flow from earlier turns. Credit does not outlive the round, and
    /// a begun turn that has something left is no debt.
    #[inline]
    const fn owed(&self) -> u32 {
        if self.standing.has_begun() { 0 } else { self.charged }
    }

    /// Records that the flow, listed until now, has sent `len` bytes and is empty. `ticket` was the
    /// last one drawn when its turn came.
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

    /// Lists the flow, which is added and not listed, on a list of the owner's that is no ring.
    ///
    /// The flow is new or old, and continues its begun turn if it `goes_on`, else starts one. The
    /// owner maintains the links.
    #[inline]
    pub fn enlist(&mut self, is_new: bool, goes_on: bool) {
        let standing = Standing::new(if is_new { Place::New } else { Place::Old }, 0);
        if goes_on {
            self.standing = standing.begun();
        } else {
            (self.charged, self.standing) = (self.owed(), standing);
        }
    }

    /// Charges the flow, which is on a [list](Self::enlist) of the owner's, `len` bytes that it has
    /// sent.
    ///
    /// Returns true if the turn is over: then the flow is old, and its next turn has not begun.
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

    /// Records that the flow has left its owner's [list](Self::enlist): it has `sent` that many
    /// bytes and is empty, or it lost what it held. A turn that has not begun is kept for later.
    #[inline]
    pub fn unlist(&mut self, sent: Option<u32>, terms: Q::Terms) {
        if sent.is_some() || self.has_begun() {
            self.stop(0, sent.unwrap_or(0), terms);
        } else {
            self.standing = Standing::new(Place::Idle, 0);
        }
    }

    /// Returns a copy of the idle flow as if it had just been added, or not added if it was not.
    #[must_use]
    pub const fn renewed(&self) -> Self {
        let place = if self.is_added() { Place::Idle } else { Place::Absent };
        Self { quantum: self.quantum, standing: Standing::new(place, 0), ..Self::EMPTY }
    }

    /// Limits the debt of a flow whose turn has not begun to less than `most` bytes, when the turn
    /// charged elsewhere does not come or is worth less.
    pub fn forgive(&mut self, most: u32) {
        if !self.standing.has_begun() {
            self.charged = self.charged.min(most.saturating_sub(1));
        }
    }

    /// Returns true if the flow is on the old list and has not begun its turn there.
    #[inline]
    #[must_use]
    pub const fn awaits_its_turn(&self) -> bool {
        matches!(self.place(), Place::Old) && !self.standing.has_begun()
    }

    /// Checks the state of flow `at`, to which nothing is charged elsewhere.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self, at: u32, is_backlogged: bool, terms: Q::Terms) -> Result<(), Imbalance> {
        self.recount_charged(at, is_backlogged, terms, [Q::max_len(terms); 2])
    }

    /// Checks the state of flow `at`, where less than `most` bytes are charged before a turn
    /// begins: first while the flow is listed, second while it is not.
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

/// An element of a table of flows that contains a [`RingFlow`].
pub trait OnRing {
    /// The kind of quantum: per flow, or shared by all.
    type Quantum: Quantum;

    /// Returns the ring state of the flow.
    fn on_ring(&self) -> &RingFlow<Self::Quantum>;
    /// Returns the ring state of the flow, mutably.
    fn on_ring_mut(&mut self) -> &mut RingFlow<Self::Quantum>;
}

/// The [terms](Quantum::Terms) of the flows of a table.
type Terms<F> = <<F as OnRing>::Quantum as Quantum>::Terms;

/// Adds every flow of `nodes`, or changes it, with the same quantum.
///
/// # Errors
/// See [`RingFlow::check_quantum`]; nothing has changed then.
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

/// Adds `flow`, or changes its quantum.
///
/// # Errors
/// See [`RingFlow::check_quantum`], and [`ConfigError::UnknownFlow`]; nothing has changed then.
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

/// Returns element `flow` of `nodes`.
#[inline]
fn node<F: OnRing>(nodes: &[F], flow: u32) -> Option<&RingFlow<F::Quantum>> {
    nodes.get(flow as usize).map(F::on_ring)
}

#[inline]
fn node_mut<F: OnRing>(nodes: &mut [F], flow: u32) -> Option<&mut RingFlow<F::Quantum>> {
    nodes.get_mut(flow as usize).map(F::on_ring_mut)
}

/// The head of a ring that consists of the new list followed by the old list.
///
/// A flow whose turn is over, on either list, goes to the tail of the old list: on a ring this
/// advances the front by one, without touching a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The flow served next; [`NONE`] if and only if no flow is listed.
    pub(super) front: u32,
    /// The last flow of the new list; [`NONE`] if and only if the new list is empty.
    pub(super) last_new: u32,
    /// State of the next flow appended to the old list: [`Place::Old`] with the next ticket,
    /// stored as is.
    ///
    /// Tickets wrap and are compared by the sign of their difference, which is correct unless 2^27
    /// turns lie between them; a flow idle for that long may once count as not sparse.
    pub(super) next_old: Standing,
}

impl Ring {
    /// Memory for a ring: all zero, and not a ring until set to [`Ring::IDLE`].
    pub const EMPTY: Self = Self { front: 0, last_new: 0, next_old: Standing(0) };

    /// A ring without flows.
    pub const IDLE: Self =
        Self { front: NONE, last_new: NONE, next_old: Standing::new(Place::Old, 0) };

    /// Returns the flow served next, or the number of [`FlowId::NONE`](crate::FlowId::NONE) if no
    /// flow is listed.
    #[inline]
    #[must_use]
    pub const fn front(&self) -> u32 {
        self.front
    }

    /// Returns the ticket drawn last, for [`Self::stands_behind`].
    #[inline]
    #[must_use]
    pub const fn mark(&self) -> u32 {
        self.last_drawn()
    }

    /// Returns true if the front is on the old list and was appended after `mark` was the ticket
    /// drawn last.
    #[inline]
    #[must_use]
    pub fn stands_behind<F: OnRing>(&self, front: &F, mark: u32) -> bool {
        let standing = front.on_ring().standing;
        standing.place() == Place::Old && is_later(standing.ticket(), mark)
    }

    /// Returns true if the new list contains a flow.
    #[inline]
    #[must_use]
    pub const fn has_new(&self) -> bool {
        self.last_new != NONE
    }

    /// Returns the first flow of the old list; if that is empty, a flow of the new list, or
    /// [`NONE`].
    #[inline]
    pub(super) fn old_front<F: OnRing>(&self, nodes: &[F]) -> u32 {
        node(nodes, self.last_new).map_or(self.front, RingFlow::next)
    }

    /// Returns the next ticket.
    #[inline]
    pub(super) const fn ticket(&self) -> u32 {
        self.next_old.ticket()
    }

    /// Draws a ticket for a flow that is appended to the old list.
    #[inline]
    const fn draw(&mut self) -> Standing {
        let drawn = self.next_old;
        self.next_old = Standing(drawn.0.wrapping_add(TICKET));
        drawn
    }

    /// Returns the ticket drawn last: no flow on the old list has a later one.
    #[inline]
    const fn last_drawn(&self) -> u32 {
        // Subtracting the place as well clears the low bits.
        self.next_old.0.wrapping_sub(Standing::new(Place::Old, TICKET).0)
    }

    /// Lists `flow`, if it is added and not listed. With `sparse_first` the flow goes to the new
    /// list if it may; otherwise it is appended to the old list, and `drawn` is called.
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

    /// Lists `flow` on the new list, if it is added, not listed, and has a turn or the rest of one.
    /// Returns true if so.
    #[inline]
    fn enter_early<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) -> bool {
        self.come_back(nodes, flow) || self.enter_early_slow(nodes, flow)
    }

    /// Fast path of [`Self::enter_early`] for a flow that comes and goes: it had begun a turn whose
    /// round is over, and the new list is not empty. Returns false, with nothing changed, in other
    /// cases.
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

    /// [`Self::enter_early`] for all other cases.
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

    /// Appends `flow` to the old list, if it is added and not listed, and then calls `drawn`.
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

    /// Inserts `flow`, which is on no ring, before `at`, or as the only one.
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

    /// Inserts `flow` into an empty ring.
    #[cold]
    #[inline(never)]
    fn begin<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) {
        self.front = flow;
        if let Some(node) = node_mut(nodes, flow) {
            node.set_next(flow);
            node.set_prev(flow);
        }
    }

    /// Charges the front, which stays backlogged, `len` bytes that it has sent. If its turn is over
    /// it draws a ticket, and `drawn` is called. No `len`, even an invalid one, makes a debt above
    /// `max_len − 1`.
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

    /// Charges `node`, the entry of the `front`, `len` bytes like [`Self::charge`]. Returns true if
    /// the turn is over.
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

    /// Removes `flow`, which has sent `len` bytes and is empty, from the ring, if it is listed. It
    /// keeps the rest of its turn, or its debt: emptying a queue must neither cancel a debt nor
    /// accumulate turns.
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

    /// Removes the front, which has sent `len` bytes and is empty, from the ring. It keeps the rest
    /// of its turn, or its debt.
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

    /// Removes `flow`, which has lost its last packet, from the ring, if it is listed.
    ///
    /// A loss is not service. A flow that loses a turn that has not begun keeps its debt and stays
    /// as sparse as before. In a begun turn a loss has the effect of service that empties the flow.
    pub fn lose<F: OnRing>(&mut self, nodes: &mut [F], flow: u32, terms: Terms<F>) {
        let Some(node) = node_mut(nodes, flow) else { return };
        if node.standing.has_begun() {
            return self.leave(nodes, flow, 0, terms);
        }
        node.standing = match node.place() {
            Place::New => Standing::new(Place::Idle, 0),
            // The flow keeps its ticket: the flows before it on the old list still come before it.
            Place::Old => Standing::new(Place::Spent, node.standing.ticket()),
            _ => return,
        };
        self.unlist(nodes, flow);
    }

    /// Removes `flow`, which is listed, from the ring; its own state does not change.
    pub(crate) fn unlist<F: OnRing>(&mut self, nodes: &mut [F], flow: u32) {
        let Some(node) = node(nodes, flow) else { return };
        let (next, prev) = (node.next(), node.prev());
        if flow == self.last_new {
            // The new list is at the front of the ring, so the flow before its last one is new too,
            // if any.
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

    /// Returns the flows on the ring from the front, at most `most + 1` even if the ring is
    /// corrupt.
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

    /// Checks that the ring contains `listed` listed flows, each once, the new ones first.
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

/// Returns true if every flow that was on the old list when `ticket` was the last one drawn has had
/// a turn since, or has left.
#[inline]
fn has_passed<F: OnRing>(nodes: &[F], old_front: u32, ticket: u32) -> bool {
    match node(nodes, old_front) {
        Some(front) if front.place() == Place::Old => is_later(front.standing.ticket(), ticket),
        _ => true,
    }
}

/// Returns the debt of a flow that was `charged` all of its turn: the overdraft, at most `max_len −
/// 1`. It exceeds that only if the quantum was lowered during the turn, and the excess is forgiven.
#[inline]
pub(crate) const fn debt(charged: u32, quantum: u32, max_len: u32) -> u32 {
    let (debt, most) = (charged.saturating_sub(quantum), max_len.wrapping_sub(1));
    if debt < most { debt } else { most }
}

/// Returns true if ticket `a` was drawn after ticket `b`.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
