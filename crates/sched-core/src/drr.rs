//! Deficit round robin: flows take turns, and each turn is worth a quantum of bytes.
//!
//! The form of FQ-CoDel: a flow may overdraw its deficit and pays the debt back in later turns, so a
//! turn never has to know the length of a packet before it is sent. With
//! [sparse flows first](Drr::sparse_first), a flow that becomes backlogged is served before those that
//! stand, once for each turn they all have had.
//!
//! **Promises.** A flow is on a list if and only if it is backlogged, and its deficit is positive then.
//! In any interval two flows that stay backlogged are served in the ratio of their quanta, up to a
//! constant: with quantum `Q` and longest packet `L` of a flow, `L̄ = L − 1`, `F` the sum of all quanta
//! and `φ = Q/F`, the plain order keeps
//!
//! - relative fairness: `|W_a/φ_a − W_b/φ_b| ≤ F·(1 + L̄_a/Q_a + L̄_b/Q_b)` bytes;
//! - B-WFI of flow k: `≤ (1 − φ)(Q + L̄) + φ·(Σ L̄_j + L)` over the others, so it grows with the number
//!   of flows, which is the price of O(1);
//! - latency of flow k at rate `R`: `((F − Q)(1 + L̄/Q) + Σ L̄_j + L)/R`.
//!
//! The last `L` is for a packet that is on the wire when the flow becomes backlogged; service charged
//! at the dequeue needs none. [`Drr::guarantee`] gives the bounds of a flow in bytes.
//!
//! They follow from the accounting of visits: in `n` turns of k everybody else has at most `n + 1`, and
//! what a flow sends in `n` turns differs from `n·Q` by what its debt changes, at most `L̄`.
//! `docs/papers.md`, section DRR, has the derivation.
//!
//! Not promised: a flow that loses its last packet to a drop starts anew, even if longest-queue drop
//! rejected that packet on arrival. Its debt, at most `L̄`, is forgotten, and so is, unless it was on the
//! new list, that it has used up a turn there.
//!
//! **Cost.** O(1) per call without a loop: a quantum is at least the longest packet, so one top-up
//! always makes the deficit positive. Memory: 24 bytes a flow.
//!
//! **Source.** Shreedhar & Varghese, *Efficient fair queuing using deficit round robin*, 1996; RFC 8290
//! §4 for debt and the two lists. Where and why this departs from them: `docs/papers.md`.

mod guarantee;

use crate::order::{ConfigError, FlowScheduler, FlowState, Table};
use crate::queue::NONE;
use crate::{FlowId, Imbalance, Packet};

/// Where a flow is. The one truth about membership: links mean nothing unless this says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Not added.
    Absent,
    /// Holds nothing.
    Idle,
    /// Holds nothing since it emptied on the new list; its ticket says when that was.
    Spent,
    /// On the new list.
    New,
    /// On the old list.
    Old,
}

/// A [`Place`] in the low three bits and a ticket above, so that both change with one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing(u32);

/// The low bits of a [`Standing`], which are the place's.
const PLACE_BITS: u32 = 3;
/// What one ticket has more than the last.
const TICKET: u32 = 1 << PLACE_BITS;

impl Standing {
    const fn new(place: Place, ticket: u32) -> Self {
        Self(ticket | place as u32)
    }

    const fn place(self) -> Place {
        match self.0 & (TICKET - 1) {
            0 => Place::Absent,
            1 => Place::Idle,
            2 => Place::Spent,
            3 => Place::New,
            _ => Place::Old,
        }
    }

    const fn ticket(self) -> u32 {
        self.0 & !(TICKET - 1)
    }
}

/// What [`Drr`] knows of one flow: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrFlow {
    /// The flow behind this one on its list, which is a ring; stale unless listed.
    next: u32,
    /// The flow before this one; stale unless listed.
    prev: u32,
    /// Bytes a turn: the scheduler's `max_len..=MAX_QUANTUM`, zero if and only if `Absent`.
    quantum: u32,
    /// Bytes the flow may still send in this turn. While listed `1..=MAX_QUANTUM`; while idle above
    /// `-max_len`, and positive values are forgotten.
    deficit: i32,
    /// Where the flow is, and when it last joined the old list or emptied on the new one: a count of
    /// such events.
    standing: Standing,
    /// Not of this flow: the one that drew the latest ticket whose turn it was to be noted here. A
    /// guess at who follows whom on the old list that is no chain of loads; may be out of date.
    noted: u32,
}

impl DrrFlow {
    /// A flow that was not added.
    pub const EMPTY: Self = Self {
        next: NONE,
        prev: NONE,
        quantum: 0,
        deficit: 0,
        standing: Standing::new(Place::Absent, 0),
        noted: NONE,
    };

    const fn place(&self) -> Place {
        self.standing.place()
    }

    const fn is_listed(&self) -> bool {
        matches!(self.place(), Place::New | Place::Old)
    }
}

impl Default for DrrFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Deficit round robin over the flows in the memory `N`.
///
/// [`FlowScheduler::Config`] is the quantum in bytes: how much a flow may send in its turn. Bandwidth
/// is shared in the ratio of the quanta.
///
/// ```
/// use sched_core::{Drr, DrrFlow, FlowId, FlowScheduler};
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// drr.backlogged(FlowId(0), 1_000);
/// drr.backlogged(FlowId(1), 1_000);
/// drr.served(FlowId(0), 1_000, Some(1_000));
/// assert_eq!(drr.select(), Some(FlowId(0)), "500 bytes of the turn are left");
/// drr.served(FlowId(0), 1_000, Some(1_000));
/// assert_eq!(drr.select(), Some(FlowId(1)), "flow 0 is 500 bytes in debt");
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drr<N> {
    nodes: N,
    /// The flow served next: the front of the ring, which is the new list and behind it the old one.
    /// A flow whose turn is over goes to the tail of the old list, from whichever list: on a ring that
    /// is one step of the front, without touching a neighbour. [`NONE`] if and only if none is listed.
    front: u32,
    /// The last flow of the new list; [`NONE`] if and only if that is empty.
    last_new: u32,
    /// The next ticket, a multiple of [`TICKET`]. Wraps: two tickets compare by the sign of their
    /// difference, which is right unless 2^28 turns lie between them; a flow idle for that long may once
    /// count as not sparse.
    ticket: u32,
    /// Where the next ticket is noted; the length of `nodes` stands for 0.
    note_at: u32,
    max_len: u32,
    sparse_first: bool,
}

impl<N: Table<DrrFlow>> Drr<N> {
    /// The largest quantum, in bytes. With it deficits stay below 2^29 in size.
    pub const MAX_QUANTUM: u32 = 1 << 28;

    /// An order of `nodes.len()` flows, none added, for packets of at most `max_len` bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`].
    pub fn new(mut nodes: N, max_len: u32) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        nodes.as_mut().fill(DrrFlow::EMPTY);
        Ok(Self {
            nodes,
            front: NONE,
            last_new: NONE,
            ticket: 0,
            note_at: 0,
            max_len,
            sparse_first: false,
        })
    }

    /// With sparse flows first (RFC 8290 §4.2): a flow that becomes backlogged has its first turn
    /// before the standing flows, unless it used such a turn up since they last all had theirs.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// Adds every flow there is room for, or changes it, with the same quantum in bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// As [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        self.check_quantum(quantum)?;
        for node in self.nodes.as_mut() {
            set_quantum(node, quantum);
        }
        Ok(())
    }

    fn check_quantum(&self, quantum: u32) -> Result<(), ConfigError> {
        let (min, max) = (self.max_len.into(), Self::MAX_QUANTUM.into());
        ConfigError::check_range("quantum in bytes", quantum.into(), min, max)
    }

    fn node(&self, flow: FlowId) -> Option<&DrrFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.place() != Place::Absent)
    }

    /// The flow served next of those at [`Place::Old`], as far as the ring says: with none there, one at
    /// [`Place::New`], or [`NONE`].
    fn old_front(&self) -> u32 {
        self.nodes.as_ref().get(self.last_new as usize).map_or(self.front, |last| last.next)
    }

    /// Whether a flow that is about to become backlogged belongs on the new list.
    fn may_be_new(&self, node: &DrrFlow) -> bool {
        if !self.sparse_first {
            return false;
        }
        match self.nodes.as_ref().get(self.old_front() as usize) {
            // The old list has gone round once whatever was on it when the flow emptied has been
            // appended anew since: its front then has a later ticket.
            Some(front) if front.place() == Place::Old && node.place() == Place::Spent => {
                is_later(front.standing.ticket(), node.standing.ticket())
            }
            _ => true,
        }
    }

    /// `flow` has drawn the ticket: the next one is another.
    #[inline]
    fn note(&mut self, flow: u32) {
        self.ticket = self.ticket.wrapping_add(TICKET);
        let nodes = self.nodes.as_mut();
        if let Some(node) = nodes.get_mut(self.note_at as usize) {
            node.noted = flow;
            self.note_at = self.note_at.wrapping_add(1);
        } else if let Some(node) = nodes.first_mut() {
            node.noted = flow;
            self.note_at = 1;
        }
    }

    /// Takes `flow`, which is listed, off the ring.
    fn unlist(&mut self, flow: u32) {
        let nodes = self.nodes.as_mut();
        let Some(&DrrFlow { next, prev, .. }) = nodes.get(flow as usize) else { return };
        if flow == self.last_new {
            // The new ones stand at the front: before the last of them is another, or nobody.
            self.last_new = if flow == self.front { NONE } else { prev };
        }
        if flow == self.front {
            self.front = if next == flow { NONE } else { next };
        }
        if let Some(before) = nodes.get_mut(prev as usize) {
            before.next = next;
        }
        if let Some(behind) = nodes.get_mut(next as usize) {
            behind.prev = prev;
        }
    }

    /// Takes `flow`, which has nothing left since it sent `len` bytes, off the ring, if it is on it.
    #[inline(never)]
    fn become_idle(&mut self, flow: FlowId, len: u32) {
        let (max_len, ticket) = (self.max_len, self.ticket);
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        if !node.is_listed() {
            return;
        }
        node.deficit = node.deficit.wrapping_sub(len.min(max_len).cast_signed());
        if node.place() == Place::Old {
            node.standing = Standing::new(Place::Idle, ticket);
        } else {
            node.standing = Standing::new(Place::Spent, ticket);
            self.note(flow.0);
        }
        self.unlist(flow.0);
    }

    /// Walks the ring and checks that it holds the listed flows, each once, the new ones first.
    fn recount_ring(&self) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        let listed = nodes.iter().filter(|node| node.is_listed()).count();
        let (mut found, mut here, mut last) = (0_usize, self.front, None::<(u32, DrrFlow)>);
        let mut last_new = NONE;
        while let Some(&node) = nodes.get(here as usize) {
            Imbalance::check("a flow on the ring is listed", here, 1, node.is_listed().into())?;
            let next = nodes.get(node.next as usize).copied().unwrap_or_default();
            Imbalance::check("links point both ways", here, here.into(), next.prev.into())?;
            if node.place() == Place::New {
                last_new = here;
            }
            if let Some((before, last)) = last
                && last.place() == Place::Old
            {
                let is_old = node.place() == Place::Old;
                Imbalance::check("old flows stand last", before, 1, is_old.into())?;
                let in_order = is_later(node.standing.ticket(), last.standing.ticket());
                Imbalance::check("tickets of old flows ascend", before, 1, in_order.into())?;
            }
            last = Some((here, node));
            found = found.wrapping_add(1);
            here = node.next;
            if here == self.front || found > listed {
                break; // round, or a ring that misses its front: the count says so
            }
        }
        Imbalance::check("the last new flow", 0, self.last_new.into(), last_new.into())?;
        Imbalance::check("flows on the ring", 0, listed as u64, found as u64)
    }
}

impl<N: Table<DrrFlow>> FlowScheduler for Drr<N> {
    /// The quantum in bytes, from the longest packet to [`Drr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Of a backlogged flow the new quantum counts from its next turn.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.check_quantum(quantum)?;
        let flows = self.flows();
        match self.nodes.as_mut().get_mut(flow.index()) {
            Some(node) if flow.0 < flows => set_quantum(node, quantum),
            _ => return Err(ConfigError::UnknownFlow { flow, flows }),
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(node) = self.node(flow) else { return };
        if node.is_listed() {
            self.unlist(flow.0);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            *node = DrrFlow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.quantum)
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|_| self.max_len)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.max_len
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let Some(&node) = self.node(flow) else { return };
        if node.is_listed() {
            return;
        }
        let place = if self.may_be_new(&node) { Place::New } else { Place::Old };
        let (ticket, first) = (self.ticket, self.last_new == NONE);
        if place == Place::New {
            let at = self.old_front();
            insert_before(self.nodes.as_mut(), at, flow.0);
            self.last_new = flow.0;
        } else {
            self.note(flow.0);
            insert_before(self.nodes.as_mut(), self.front, flow.0);
        }
        if self.front == NONE || (place == Place::New && first) {
            self.front = flow.0;
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            // Debt is carried, credit is not: emptying a queue must neither wash a debt away nor
            // let turns pile up.
            node.deficit = node.quantum.cast_signed().wrapping_add(node.deficit.min(0));
            node.standing = Standing::new(place, ticket);
        }
    }

    /// The old list as it was noted, without what has left it since. Flows of the new list are not
    /// named: their packets have just come.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let nodes = self.nodes.as_ref();
        let Some(front) = nodes.get(self.old_front() as usize) else { return 0 };
        let mut expected = front.standing;
        let age = (self.ticket.wrapping_sub(expected.ticket()) >> PLACE_BITS) as usize;
        if expected.place() != Place::Old || age > nodes.len() {
            return 0; // not noted, or no longer
        }
        let mut at = (self.note_at as usize).wrapping_sub(age);
        if at >= nodes.len() {
            at = at.wrapping_add(nodes.len());
        }
        let mut found = 0;
        for _ in 0..ahead.len().min(age) {
            let Some(&DrrFlow { noted, .. }) = nodes.get(at) else { break };
            if nodes.get(noted as usize).is_some_and(|node| node.standing == expected)
                && let Some(place) = ahead.get_mut(found)
            {
                *place = FlowId(noted);
                found = found.wrapping_add(1);
            }
            expected.0 = expected.0.wrapping_add(TICKET);
            at = if at.wrapping_add(1) < nodes.len() { at.wrapping_add(1) } else { 0 };
        }
        found
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        (self.front != NONE).then_some(FlowId(self.front))
    }

    /// Of a flow that was not selected it changes nothing. No length, however wrong, makes a debt of
    /// more than the longest packet less a byte.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if flow.0 != self.front {
            return;
        }
        if next_head.is_none() {
            return self.become_idle(flow, len);
        }
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        let deficit = node.deficit.cast_unsigned(); // listed: positive
        if len < deficit {
            node.deficit = deficit.wrapping_sub(len).cast_signed();
            return;
        }
        // The turn is over. The debt is below `max_len <= quantum`: one top-up covers it.
        let debt = len.wrapping_sub(deficit).min(self.max_len.wrapping_sub(1));
        node.deficit = node.quantum.wrapping_sub(debt).cast_signed();
        node.standing = Standing::new(Place::Old, self.ticket);
        self.front = node.next;
        self.note(flow.0);
        if flow.0 == self.last_new {
            self.last_new = NONE;
        }
    }

    #[inline]
    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.become_idle(flow, 0);
        }
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, node) in (0..).zip(self.nodes.as_ref()) {
            let backlogged = flows(FlowId(at)).backlog.packets > 0;
            let listed = node.is_listed();
            Imbalance::check("listed and backlogged", at, listed.into(), backlogged.into())?;
            let added = node.place() != Place::Absent;
            let has_quantum = (self.max_len..=Self::MAX_QUANTUM).contains(&node.quantum);
            Imbalance::check("a quantum in range", at, added.into(), has_quantum.into())?;
            let lowest = if listed { 1 } else { 1_i32.wrapping_sub_unsigned(self.max_len) };
            let highest = Self::MAX_QUANTUM.cast_signed();
            let in_range = (lowest..=highest).contains(&node.deficit);
            Imbalance::check("a deficit in range", at, 1, in_range.into())?;
        }
        if !self.sparse_first {
            Imbalance::check("no new list", 0, NONE.into(), self.last_new.into())?;
        }
        self.recount_ring()
    }
}

fn set_quantum(node: &mut DrrFlow, quantum: u32) {
    node.quantum = quantum;
    if node.place() == Place::Absent {
        node.standing = Standing::new(Place::Idle, 0);
    }
}

/// Whether ticket `a` was drawn after ticket `b`.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// Puts `flow`, on no ring, before `at`, or on a ring of its own.
#[inline]
fn insert_before(nodes: &mut [DrrFlow], at: u32, flow: u32) {
    let (next, prev) = match nodes.get_mut(at as usize) {
        Some(behind) => (at, core::mem::replace(&mut behind.prev, flow)),
        None => (flow, flow),
    };
    if let Some(node) = nodes.get_mut(flow as usize) {
        node.next = next;
        node.prev = prev;
    }
    if let Some(before) = nodes.get_mut(prev as usize) {
        before.next = flow;
    }
}

#[cfg(test)]
mod tests;
