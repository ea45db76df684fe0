//! Deficit round robin (DRR): flows take turns, and each turn is worth a quantum of bytes.
//!
//! In the form of FQ-CoDel, a flow may overdraw its deficit and pays the debt back in later turns,
//! so the scheduler need not know a packet's length before it is sent. With [sparse flows
//! first](Drr::sparse_first), a flow that becomes backlogged is served before the other backlogged
//! flows, for one turn in each of their rounds. It may use that turn in several pieces, none of
//! which waits for a round.
//!
//! **Guarantees.** A flow is on a list if and only if it is backlogged. In any interval two flows
//! that stay backlogged are served in the ratio of their quanta, up to a constant. Let `Q` be the
//! quantum and `L` the longest packet of a flow, `L̄ = L − 1`, `F` the sum of all quanta and `φ =
//! Q/F`. Without sparse flows first:
//!
//! - relative fairness: `|W_a/φ_a − W_b/φ_b| ≤ F·(1 + L̄_a/Q_a + L̄_b/Q_b)` bytes;
//! - B-WFI of flow k: `≤ (1 − φ)(Q + L̄) + φ·(Σ L̄_j + L)` over the other flows, so it grows with the
//!   number of flows, which is the price of O(1);
//! - latency of flow k at rate `R`: `((F − Q)(1 + L̄/Q) + Σ L̄_j + L)/R`.
//!
//! The last `L` is for a packet in transmission when the flow becomes backlogged; service charged
//! at the dequeue does not need it. [`Drr::guarantee`] returns the bounds of a flow in bytes.
//!
//! The bounds follow from the accounting of turns. In `n` turns of k every other flow has at most
//! `n + 1`. The bytes a flow sends in `n` turns differ from `n·Q` by the change of its debt, at
//! most `L̄`. For the derivation see `docs/proofs/drr.md`.
//!
//! A flow's packets may be dropped at any time, including the last one: only service changes a
//! flow's debt and whether it is sparse. A flow that loses its last packet within its turn is
//! treated as if it had sent it.
//!
//! **Cost.** O(1) per call without a loop: a quantum is at least the longest packet, so a turn is
//! always worth at least one byte, however much the last was overdrawn. Memory: 24 bytes per flow.
//!
//! **Source.** Shreedhar & Varghese, *Efficient fair queuing using deficit round robin*, 1996; RFC
//! 8290 §4 for debt and the two lists. For departures and their reasons see
//! `docs/disciplines/drr.md`.

pub(crate) mod guarantee;
pub(crate) mod ring;

use crate::flow_scheduler::{ConfigError, FlowScheduler, FlowState, Needs, Table};
use crate::{FlowId, Imbalance, Packet};
use ring::{OnRing, Place, Ring, RingFlow, TICKET, TICKET_SHIFT};

/// State of one flow of [`Drr`]: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrFlow {
    flow: RingFlow,
    /// The flow that drew the ticket noted in this table entry, which is unrelated to the entry's
    /// own flow.
    ///
    /// Together, the notes of all entries are a hint of the order of the old list that can be read
    /// without following links. A note may be stale.
    noted: u32,
}

impl DrrFlow {
    /// A flow that has not been added.
    pub const EMPTY: Self = Self { flow: RingFlow::EMPTY, noted: 0 };
}

impl OnRing for DrrFlow {
    type Quantum = u32;

    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.flow
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.flow
    }
}

/// A deficit round robin scheduler over the flows in the memory `N`.
///
/// [`FlowScheduler::Config`] is the quantum in bytes: how much a flow may send in its turn.
/// Bandwidth is shared in the ratio of the quanta.
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Drr<N> {
    nodes: N,
    ring: Ring,
    /// Index at which the next ticket is noted; `nodes.len()` means 0.
    note_at: u32,
    max_len: u32,
    sparse_first: bool,
}

crate::debug::short_debug!(Drr<N> { max_len, sparse_first });

impl<N: Table<DrrFlow>> Drr<N> {
    /// The largest quantum, in bytes. It keeps the bytes charged to a turn below 2^29.
    pub const MAX_QUANTUM: u32 = RingFlow::MAX_QUANTUM;

    /// Creates a flow scheduler for `nodes.len()` flows, none added, and packets of at most
    /// `max_len` bytes. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`].
    pub fn new(mut nodes: N, max_len: u32) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        nodes.as_mut().fill(DrrFlow::EMPTY);
        Ok(Self { nodes, ring: Ring::IDLE, note_at: 0, max_len, sparse_first: false })
    }

    /// Enables sparse flows first (RFC 8290 §4.2).
    ///
    /// A flow that becomes backlogged has its turn, or the rest of its turn, before the flows on
    /// the old list. A flow whose turn is used up has no other turn until all flows on the old list
    /// have had theirs.
    ///
    /// Take a flow that empties and returns in any pattern. In any interval in which a flow that
    /// stays backlogged has `n` whole turns, this flow gets at most `n + 2` quanta and a packet
    /// less one byte; one quantum more if drops empty a third flow, or one is removed. In the long
    /// run it gets its share.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// Adds every flow of the table, or changes it, with the same quantum in bytes. Cost: O(flows).
    ///
    /// # Errors
    /// See [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        ring::add_all(self.nodes.as_mut(), quantum, self.max_len)
    }

    fn node(&self, flow: FlowId) -> Option<&RingFlow> {
        self.nodes.as_ref().get(flow.index()).map(OnRing::on_ring).filter(|flow| flow.is_added())
    }

    /// Lists `flow`, which holds its first packet, with sparse flows first. Only the case of a flow
    /// that comes and goes is inlined; it is small enough that no register is saved.
    #[inline(never)]
    fn enter_early(&mut self, flow: FlowId) {
        if !self.ring.come_back(self.nodes.as_mut(), flow.0) {
            self.enter_early_apart(flow);
        }
    }

    /// Handles the other cases of [`Self::enter_early`].
    #[inline(never)]
    fn enter_early_apart(&mut self, flow: FlowId) {
        if !self.ring.enter_early_slow(self.nodes.as_mut(), flow.0) {
            self.enter_last_apart(flow);
        }
    }

    /// [`Self::enter_last`], out of line so that its registers are not saved in the callers.
    #[inline(never)]
    fn enter_last_apart(&mut self, flow: FlowId) {
        self.enter_last(flow);
    }

    /// Lists `flow`, which holds its first packet, behind all others.
    #[inline(always)]
    fn enter_last(&mut self, flow: FlowId) {
        let drawn = |nodes: &mut [_]| note(nodes, &mut self.note_at, flow.0);
        self.ring.enter_last(self.nodes.as_mut(), flow.0, drawn);
    }

    /// Removes the served flow, which has sent `len` bytes and is empty, from the ring.
    #[inline(always)]
    fn become_idle(&mut self, len: u32) {
        self.ring.leave_front(self.nodes.as_mut(), len, self.max_len);
    }

    /// Removes `flow`, which has lost its last packet, from the ring, if it is listed.
    #[inline(never)]
    fn lose_last(&mut self, flow: FlowId) {
        self.ring.lose(self.nodes.as_mut(), flow.0, self.max_len);
    }
}

impl<N: Table<DrrFlow>> FlowScheduler for Drr<N> {
    /// The quantum in bytes, from the longest packet to [`Drr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// The new quantum of a backlogged flow applies at once, including to a turn in progress.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        ring::configure(self.nodes.as_mut(), flow, quantum, self.max_len)
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(node) = self.node(flow) else { return };
        if node.is_listed() {
            self.ring.unlist(self.nodes.as_mut(), flow.0);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            // `noted` is kept: it belongs to another flow.
            node.flow = RingFlow::EMPTY;
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
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
    }

    #[inline(always)]
    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        if self.sparse_first { self.enter_early(flow) } else { self.enter_last(flow) }
    }

    /// Returns the old list as it was noted, without the flows that have left it since. Flows of
    /// the new list are left out: their packets have just arrived.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        upcoming(&self.ring, self.nodes.as_ref(), self.note_at, ahead)
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        // The number of an empty ring is out of range. With this comparison the compiler still
        // knows the bound when the flow is charged.
        let front = FlowId(self.ring.front());
        (front.index() < self.nodes.as_ref().len()).then_some(front)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if flow.0 != self.ring.front() {
            return;
        }
        if next_head.is_none() {
            return self.become_idle(len);
        }
        let drawn = |nodes: &mut [_]| note(nodes, &mut self.note_at, flow.0);
        self.ring.charge(self.nodes.as_mut(), len, self.max_len, drawn);
    }

    #[inline]
    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.lose_last(flow);
        }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        for (at, node) in (0..).zip(nodes) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            node.flow.recount(at, is_backlogged, self.max_len)?;
        }
        if !self.sparse_first {
            Imbalance::check("no new list", 0, 0, self.ring.has_new().into())?;
        }
        let listed = nodes.iter().filter(|node| node.flow.is_listed()).count();
        self.ring.recount(nodes, listed)
    }
}

/// Notes at `note_at` that `flow` has drawn a ticket.
#[inline]
fn note(nodes: &mut [DrrFlow], note_at: &mut u32, flow: u32) {
    if let Some(node) = nodes.get_mut(*note_at as usize) {
        node.noted = flow;
        *note_at = note_at.wrapping_add(1);
    } else if let Some(node) = nodes.first_mut() {
        node.noted = flow;
        *note_at = 1;
    }
}

/// Returns the old list of `ring` as it was noted up to `note_at`, without the flows that have left
/// it since.
fn upcoming(ring: &Ring, nodes: &[DrrFlow], note_at: u32, ahead: &mut [FlowId]) -> usize {
    let Some(front) = nodes.get(ring.old_front(nodes) as usize).map(OnRing::on_ring) else {
        return 0;
    };
    let (place, mut expected) = (front.place(), front.standing.ticket());
    let age = (ring.ticket().wrapping_sub(expected) >> TICKET_SHIFT) as usize;
    if place != Place::Old || age > nodes.len() {
        return 0; // not noted, or overwritten
    }
    let mut at = (note_at as usize).wrapping_sub(age);
    if at >= nodes.len() {
        at = at.wrapping_add(nodes.len());
    }
    let mut found = 0;
    for _ in 0..ahead.len().min(age) {
        let Some(noted) = nodes.get(at).map(|node| node.noted) else { break };
        let is_there = |node: &DrrFlow| node.flow.standing.is_old_since(expected);
        if nodes.get(noted as usize).is_some_and(is_there)
            && let Some(place) = ahead.get_mut(found)
        {
            *place = FlowId(noted);
            found = found.wrapping_add(1);
        }
        expected = expected.wrapping_add(TICKET);
        at = if at.wrapping_add(1) < nodes.len() { at.wrapping_add(1) } else { 0 };
    }
    found
}

#[cfg(test)]
mod tests;
