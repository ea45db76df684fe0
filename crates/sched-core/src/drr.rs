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
//! - B-WFI of flow k: `≤ (1 − φ)(Q + L̄) + φ·Σ L̄_j` over the others, so it grows with the number of
//!   flows, which is the price of O(1);
//! - latency of flow k at rate `R`: `((F − Q)(1 + L̄/Q) + Σ L̄_j)/R`.
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
    /// When the flow last joined the old list, or emptied on the new one: a count of such events.
    ticket: u32,
    place: Place,
}

impl DrrFlow {
    /// A flow that was not added.
    pub const EMPTY: Self =
        Self { next: NONE, prev: NONE, quantum: 0, deficit: 0, ticket: 0, place: Place::Absent };

    const fn is_listed(&self) -> bool {
        matches!(self.place, Place::New | Place::Old)
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
    /// The flow served next of those on the new list; [`NONE`] if and only if that is empty.
    new: u32,
    /// The flow served next of those on the old list; [`NONE`] if and only if that is empty.
    old: u32,
    /// The next ticket. Wraps: two tickets compare by the sign of their difference, which is right
    /// unless 2^31 turns lie between them; a flow idle for that long may once count as not sparse.
    ticket: u32,
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
        Ok(Self { nodes, new: NONE, old: NONE, ticket: 0, max_len, sparse_first: false })
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
        self.nodes.as_ref().get(flow.index()).filter(|node| node.place != Place::Absent)
    }

    /// Whether a flow that is about to become backlogged belongs on the new list.
    fn may_be_new(&self, node: &DrrFlow) -> bool {
        if !self.sparse_first {
            return false;
        }
        match self.nodes.as_ref().get(self.old as usize) {
            // The old list has gone round once whatever was on it when the flow emptied has been
            // appended anew since: its front then has a later ticket.
            Some(front) if node.place == Place::Spent => is_later(front.ticket, node.ticket),
            _ => true,
        }
    }

    /// Takes `flow`, which is at `place`, off its list if that is one.
    fn unlist(&mut self, flow: FlowId, place: Place) {
        match place {
            Place::New => self.new = unlink(self.nodes.as_mut(), self.new, flow.0),
            Place::Old => self.old = unlink(self.nodes.as_mut(), self.old, flow.0),
            Place::Absent | Place::Idle | Place::Spent => {}
        }
    }

    /// Moves `flow`, listed, to the tail of the old list. Out of line, so that `served` needs no
    /// stack: a flow comes here at most once for each time that it becomes backlogged.
    #[inline(never)]
    fn move_to_old(&mut self, flow: FlowId) {
        let Some(node) = self.node(flow) else { return };
        let place = node.place;
        self.unlist(flow, place);
        let ticket = self.ticket;
        self.ticket = ticket.wrapping_add(1);
        let nodes = self.nodes.as_mut();
        self.old = append(nodes, self.old, flow.0);
        if let Some(node) = nodes.get_mut(flow.index()) {
            node.place = Place::Old;
            node.ticket = ticket;
        }
    }

    /// Takes `flow`, which has nothing left since it sent `len` bytes, off its list, if it is on one.
    #[inline(never)]
    fn become_idle(&mut self, flow: FlowId, len: u32) {
        let (max_len, ticket) = (self.max_len, self.ticket);
        let nodes = self.nodes.as_mut();
        let Some(node) = nodes.get_mut(flow.index()) else { return };
        if !node.is_listed() {
            return;
        }
        node.deficit = node.deficit.wrapping_sub(len.min(max_len).cast_signed());
        if node.place == Place::Old {
            node.place = Place::Idle;
            self.old = unlink(nodes, self.old, flow.0);
        } else {
            node.place = Place::Spent;
            node.ticket = ticket;
            self.ticket = ticket.wrapping_add(1);
            self.new = unlink(nodes, self.new, flow.0);
        }
    }

    /// Walks the list that starts at `front` and checks that it holds the flows at `place`, each once.
    fn recount_list(&self, front: u32, place: Place) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        let listed = nodes.iter().filter(|node| node.place == place).count();
        let (mut found, mut here, mut last) = (0_usize, front, None::<(u32, u32)>);
        while let Some(node) = nodes.get(here as usize) {
            Imbalance::check("place of a listed flow", here, place as u64, node.place as u64)?;
            let next = nodes.get(node.next as usize).copied().unwrap_or_default();
            Imbalance::check("links point both ways", here, here.into(), next.prev.into())?;
            if let Some((before, ticket)) = last
                && place == Place::Old
            {
                let in_order = is_later(node.ticket, ticket);
                Imbalance::check("tickets of the old list ascend", before, 1, in_order.into())?;
            }
            last = Some((here, node.ticket));
            found = found.wrapping_add(1);
            here = node.next;
            if here == front || found > listed {
                break; // round, or a ring that misses its front: the count says so
            }
        }
        Imbalance::check("flows on a list", place as u32, listed as u64, found as u64)
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
        let place = node.place;
        self.unlist(flow, place);
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

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let Some(&node) = self.node(flow) else { return };
        if node.is_listed() {
            return;
        }
        let place = if self.may_be_new(&node) { Place::New } else { Place::Old };
        let ticket = self.ticket;
        let nodes = self.nodes.as_mut();
        if place == Place::New {
            self.new = append(nodes, self.new, flow.0);
        } else {
            self.ticket = ticket.wrapping_add(1);
            self.old = append(nodes, self.old, flow.0);
        }
        if let Some(node) = nodes.get_mut(flow.index()) {
            // Debt is carried, credit is not: emptying a queue must neither wash a debt away nor
            // let turns pile up.
            node.deficit = node.quantum.cast_signed().wrapping_add(node.deficit.min(0));
            node.ticket = ticket;
            node.place = place;
        }
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let front = if self.new == NONE { self.old } else { self.new };
        (front != NONE).then_some(FlowId(front))
    }

    /// No length, however wrong, makes a debt of more than the longest packet less a byte.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if next_head.is_none() {
            return self.become_idle(flow, len);
        }
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        if !node.is_listed() {
            return;
        }
        let deficit = node.deficit.cast_unsigned(); // listed: positive
        if len < deficit {
            node.deficit = deficit.wrapping_sub(len).cast_signed();
            return;
        }
        // The turn is over. The debt is below `max_len <= quantum`: one top-up covers it.
        let debt = len.wrapping_sub(deficit).min(self.max_len.wrapping_sub(1));
        node.deficit = node.quantum.wrapping_sub(debt).cast_signed();
        if flow.0 != self.old {
            return self.move_to_old(flow);
        }
        // On a ring the front becomes the tail without touching a neighbour.
        node.ticket = self.ticket;
        self.ticket = self.ticket.wrapping_add(1);
        self.old = node.next;
    }

    #[inline]
    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.become_idle(flow, 0);
        }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, node) in (0..).zip(self.nodes.as_ref()) {
            let backlogged = flows(FlowId(at)).backlog.packets > 0;
            let listed = node.is_listed();
            Imbalance::check("listed and backlogged", at, listed.into(), backlogged.into())?;
            let added = node.place != Place::Absent;
            let has_quantum = (self.max_len..=Self::MAX_QUANTUM).contains(&node.quantum);
            Imbalance::check("a quantum in range", at, added.into(), has_quantum.into())?;
            let lowest = if listed { 1 } else { 1_i32.wrapping_sub_unsigned(self.max_len) };
            let highest = Self::MAX_QUANTUM.cast_signed();
            let in_range = (lowest..=highest).contains(&node.deficit);
            Imbalance::check("a deficit in range", at, 1, in_range.into())?;
        }
        if !self.sparse_first {
            Imbalance::check("no new list", 0, NONE.into(), self.new.into())?;
        }
        self.recount_list(self.new, Place::New)?;
        self.recount_list(self.old, Place::Old)
    }
}

fn set_quantum(node: &mut DrrFlow, quantum: u32) {
    node.quantum = quantum;
    if node.place == Place::Absent {
        node.place = Place::Idle;
    }
}

/// Whether ticket `a` was drawn after ticket `b`.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// Puts `flow`, on no ring, at the tail of the ring whose front is `front`; returns the front then.
#[inline]
fn append(nodes: &mut [DrrFlow], front: u32, flow: u32) -> u32 {
    let (front, tail) = match nodes.get_mut(front as usize) {
        Some(first) => (front, core::mem::replace(&mut first.prev, flow)),
        None => (flow, flow),
    };
    if let Some(node) = nodes.get_mut(flow as usize) {
        node.next = front;
        node.prev = tail;
    }
    if let Some(last) = nodes.get_mut(tail as usize) {
        last.next = flow;
    }
    front
}

/// Takes `flow` off its ring, whose front is `front`; returns the front then.
#[inline]
fn unlink(nodes: &mut [DrrFlow], front: u32, flow: u32) -> u32 {
    let Some(&DrrFlow { next, prev, .. }) = nodes.get(flow as usize) else { return front };
    if next == flow {
        return NONE;
    }
    if let Some(before) = nodes.get_mut(prev as usize) {
        before.next = next;
    }
    if let Some(behind) = nodes.get_mut(next as usize) {
        behind.prev = prev;
    }
    if front == flow { next } else { front }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DropReason, FlowQueues, Limits, Nanos, Queue, Scheduler, Slot};
    use std::vec::Vec;

    const NOW: Nanos = Nanos::ZERO;

    /// Four flows under queues, with a letter for each flow and the handles counted up.
    struct Line {
        queues: FlowQueues<Drr<[DrrFlow; 4]>, [Queue; 4], [Slot; 256]>,
        sent: u32,
        flow_of: Vec<u32>,
    }

    impl Line {
        fn of(order: Drr<[DrrFlow; 4]>) -> Self {
            let slots = [Slot::EMPTY; 256];
            let queues = FlowQueues::new(order, [Queue::EMPTY; 4], slots, Limits::NONE);
            Self { queues, sent: 0, flow_of: Vec::new() }
        }

        fn plain(quantum: u32) -> Self {
            let mut order = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap();
            order.add_all(quantum).unwrap();
            Self::of(order)
        }

        fn sparse_first(quantum: u32) -> Self {
            let mut order = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
            order.add_all(quantum).unwrap();
            Self::of(order)
        }

        /// Enqueues one packet of `len` bytes for each letter: `a` is flow 0.
        fn put(&mut self, letters: &str, len: u32) {
            for letter in letters.bytes() {
                let flow = u32::from(letter - b'a');
                let packet = Packet::new(self.sent, len);
                let drops = &mut |_: Packet, _| panic!("nothing is dropped");
                self.queues.enqueue(NOW, FlowId(flow), packet, drops).unwrap();
                self.queues.recount().unwrap();
                self.sent += 1;
                self.flow_of.push(flow);
            }
        }

        /// Dequeues `count` packets; returns the letters of their flows, `.` for none.
        fn get(&mut self, count: usize) -> std::string::String {
            let drops = &mut |_: Packet, _| panic!("nothing is dropped");
            (0..count)
                .map(|_| {
                    let packet = self.queues.dequeue(NOW, drops);
                    self.queues.recount().unwrap();
                    packet.map_or('.', |p| char::from(b'a' + self.flow_of[p.handle as usize] as u8))
                })
                .collect()
        }

        fn set(&mut self, letter: char, quantum: u32) {
            self.queues.configure(FlowId(letter as u32 - 'a' as u32), quantum).unwrap();
        }

        fn remove(&mut self, letter: char) -> Vec<u32> {
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, reason| {
                assert_eq!(reason, DropReason::FlowRemoved);
                gone.push(packet.handle);
            };
            self.queues.remove_flow(FlowId(letter as u32 - 'a' as u32), drops);
            self.queues.recount().unwrap();
            gone
        }
    }

    #[test]
    fn flows_of_equal_packets_alternate() {
        let mut line = Line::plain(100);
        line.put("aaabbbcc", 100);
        assert_eq!(line.get(9), "abcabcab.");
    }

    #[test]
    fn a_turn_is_worth_the_quantum_of_the_flow() {
        let mut line = Line::plain(100);
        line.set('a', 300);
        line.put("aaaaaaaabbb", 100);
        assert_eq!(line.get(12), "aaabaaabaab.");
    }

    /// Quantum 100; b sends 100 a turn and owes nothing. The turns of a, its deficit at their start:
    /// 100 (two packets of 70) | 60 (one) | 90 (two) | 50 (one) | 80 (two) | 40 (one).
    #[test]
    fn a_debt_is_paid_back_in_later_turns() {
        let mut line = Line::plain(100);
        line.put("aaaaaaaaaaaa", 70);
        line.put("bbbbbb", 100);
        assert_eq!(line.get(14), "aababaababaaba");
    }

    /// Goal: emptying the queue does not wash the debt away.
    /// Method: a has sent 10 + 100 of a quantum of 100 and is idle, 10 in debt. Its next turn is worth
    /// 90, and one packet of 90 ends it; a flow without debt sends a second.
    #[test]
    fn a_flow_that_empties_in_debt_comes_back_in_debt() {
        for (before, expected) in [(10, "abaab"), (0, "aabab")] {
            let mut line = Line::plain(100);
            if before > 0 {
                line.put("a", before);
            }
            line.put("a", 100);
            assert_eq!(line.get(if before > 0 { 2 } else { 1 }).trim_matches('a'), "");
            line.put("aa", 90);
            line.put("a", 10);
            line.put("bb", 100);
            // In debt: a 90 → 0+100 | b | a 100 → 10 → 0 | b.
            // Without: a 100 → 10 → −80+100 = 20 | b | a 20 → 10, idle | b.
            assert_eq!(line.get(5), expected, "debt {before}");
        }
    }

    #[test]
    fn credit_of_a_turn_is_lost_with_the_last_packet() {
        let mut line = Line::plain(100);
        line.put("a", 1);
        assert_eq!(line.get(1), "a");
        line.put("aaab", 50);
        // With the 99 bytes left over, a would send all three first.
        assert_eq!(line.get(4), "aaba");
    }

    #[test]
    fn a_sparse_flow_goes_first_and_then_joins_the_others() {
        let mut line = Line::sparse_first(100);
        line.put("aaaa", 100);
        assert_eq!(line.get(1), "a", "new, and now old");
        line.put("bbbb", 100);
        line.put("bbc", 100);
        // b and c are new and each has one turn; then b stands behind a, and c is gone.
        assert_eq!(line.get(6), "bcabab");
    }

    /// Goal: a flow that empties on the new list and comes back at once cannot starve the old ones.
    /// Method: b sends a packet whenever it holds none, while a and c stand. After the turn as a new
    /// flow it must wait in the old list; b empties there, so its next packet may be new again.
    #[test]
    fn a_flow_that_keeps_emptying_does_not_starve_the_old_ones() {
        let mut line = Line::sparse_first(100);
        line.put("aaaaaaaacccccccc", 100);
        assert_eq!(line.get(2), "ac", "both stand on the old list");
        let mut trace = std::string::String::new();
        for _ in 0..12 {
            if line.queues.flow_backlog(FlowId(1)).packets == 0 {
                line.put("b", 100);
            }
            trace += &line.get(1);
        }
        // b new (spent) | b joins old behind a, c: a c b (idle from old, unmarked) | b new …
        assert_eq!(trace, "bacbbacbbacb");
    }

    /// Goal: the mark of a flow that emptied on the new list lasts for one rotation of the old list.
    #[test]
    fn a_spent_flow_is_sparse_again_after_one_rotation() {
        for (turns, served_next) in [(0, 'a'), (1, 'c'), (2, 'b'), (3, 'b')] {
            let mut line = Line::sparse_first(100);
            line.put("aaaaaaaacccccccc", 100);
            assert_eq!(line.get(2), "ac");
            line.put("b", 100);
            assert_eq!(line.get(1), "b");
            let _standing = line.get(turns);
            line.put("b", 100);
            assert_eq!(line.get(1), std::format!("{served_next}"), "after {turns} turns");
        }
    }

    #[test]
    fn a_spent_flow_is_sparse_again_where_nobody_stands() {
        let mut line = Line::sparse_first(100);
        line.put("b", 100);
        assert_eq!(line.get(1), "b");
        line.put("bb", 100);
        line.put("a", 100);
        // b is new: its turn ends on the old list, so a, new, goes before its second packet.
        assert_eq!(line.get(3), "bab");
    }

    /// Goal: tickets compare right across their wrap-around.
    #[test]
    fn tickets_may_wrap() {
        let mut order = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
        order.add_all(100).unwrap();
        order.ticket = u32::MAX - 3;
        let mut line = Line::of(order);
        line.put("aaaaaaaacccccccc", 100);
        assert_eq!(line.get(2), "ac");
        let mut trace = std::string::String::new();
        for _ in 0..12 {
            if line.queues.flow_backlog(FlowId(1)).packets == 0 {
                line.put("b", 100);
            }
            trace += &line.get(1);
        }
        assert_eq!(trace, "bacbbacbbacb");
        assert!(line.queues.order().ticket < 100, "it has wrapped");
    }

    #[test]
    fn what_is_out_of_range_is_refused_and_changes_nothing() {
        for len in [0, Packet::MAX_LEN + 1] {
            let refused = Drr::new([DrrFlow::EMPTY; 4], len).map(|_| ());
            let (value, max) = (len.into(), Packet::MAX_LEN.into());
            let what = "longest packet in bytes";
            assert_eq!(refused, Err(ConfigError::OutOfRange { what, value, min: 1, max }));
        }
        let mut line = Line::plain(300);
        line.put("aaabbb", 100);
        let before = *line.queues.order();
        let flow = FlowId(4);
        let unknown = ConfigError::UnknownFlow { flow, flows: 4 };
        assert_eq!(line.queues.configure(flow, 300), Err(unknown));
        for quantum in [0, 99, (1 << 28) + 1] {
            let (value, what) = (u64::from(quantum), "quantum in bytes");
            let error = ConfigError::OutOfRange { what, value, min: 100, max: 1 << 28 };
            assert_eq!(line.queues.configure(FlowId(0), quantum), Err(error));
            let mut order = *line.queues.order();
            assert_eq!(order.add_all(quantum), Err(error));
            assert_eq!(order, before);
        }
        assert_eq!(*line.queues.order(), before);
        assert_eq!(line.get(6), "aaabbb");
        line.set('a', 100);
        line.set('a', 1 << 28);
        assert_eq!(line.queues.config(FlowId(0)), Some(1 << 28));
    }

    /// Goal: whichever place of a list a flow has, it can be removed and the rest keeps its order.
    /// Method: four flows on the old list, or on the new one; remove each in turn; twice is once.
    #[test]
    fn a_flow_can_be_removed_from_every_place_of_a_list() {
        for make in [Line::plain as fn(u32) -> Line, Line::sparse_first] {
            for (gone, rest) in [('a', "bcdbcd"), ('b', "acdacd"), ('c', "abdabd"), ('d', "abcabc")]
            {
                let mut line = make(100);
                line.put("abcdabcd", 100);
                let at = gone as u32 - 'a' as u32;
                assert_eq!(line.remove(gone), [at, at + 4]);
                assert_eq!(line.remove(gone), []);
                assert_eq!(line.queues.config(FlowId(at)), None);
                assert_eq!(line.get(7), std::format!("{rest}."));
            }
            let mut line = make(100);
            line.put("abcd", 100);
            for letter in ['c', 'a', 'd', 'b'] {
                assert_eq!(line.remove(letter).len(), 1);
            }
            assert_eq!(line.get(1), ".");
        }
    }

    #[test]
    fn a_removed_flow_comes_back_without_debt_or_mark() {
        let mut line = Line::sparse_first(100);
        line.put("aaaa", 100);
        assert_eq!(line.get(1), "a");
        line.put("b", 50);
        line.put("b", 100);
        assert_eq!(line.get(2), "bb", "spent, and 50 in debt");
        assert_eq!(line.remove('b'), []);
        line.set('b', 100);
        line.put("bbb", 60);
        assert_eq!(line.get(4), "bbab", "new, and with a whole quantum");
    }

    /// Goal: a new quantum of a backlogged flow counts from its next top-up; the turn under way ends
    /// as it began.
    #[test]
    fn a_new_quantum_counts_from_the_next_turn() {
        let mut line = Line::plain(100);
        line.set('a', 300);
        line.put("aaaaaaaabbbb", 100);
        assert_eq!(line.get(1), "a");
        line.set('a', 200);
        assert_eq!(line.get(8), "aabaabaa");
        line.set('a', 100);
        assert_eq!(line.get(3), "bab", "the top-up of 200 was spent");
    }

    #[test]
    fn calls_that_contradict_the_books_change_nothing() {
        let mut order = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
        for flow in 0..3 {
            order.configure(FlowId(flow), 100, None).unwrap();
        }
        order.backlogged(FlowId(0), 100);
        order.backlogged(FlowId(1), 100);
        order.served(FlowId(1), 100, Some(100));
        let before = order;
        order.backlogged(FlowId(0), 100);
        order.backlogged(FlowId(3), 100);
        order.backlogged(FlowId(4), 100);
        order.backlogged(FlowId(u32::MAX), 100);
        for flow in [2, 3, 4, u32::MAX] {
            order.served(FlowId(flow), 100, Some(100));
            order.served(FlowId(flow), 100, None);
            order.lost(FlowId(flow), 100, Some(100));
            order.lost(FlowId(flow), 100, None);
        }
        order.lost(FlowId(0), 100, Some(100));
        order.grew(FlowId(0), 100);
        order.remove(FlowId(3));
        order.remove(FlowId(4));
        assert_eq!(order, before);
        order.served(FlowId(0), u32::MAX, Some(1));
        let backlog = crate::Backlog { packets: 1, bytes: 100 };
        let truth = |flow: FlowId| FlowState {
            backlog: if flow.0 < 2 { backlog } else { crate::Backlog::default() },
            head_len: None,
        };
        assert_eq!(order.recount(&truth), Ok(()));
    }

    /// Goal: `recount` sees every kind of damage. Method: break one field at a time.
    #[test]
    fn a_recount_sees_damage() {
        let mut line = Line::sparse_first(100);
        line.put("aabbcc", 100);
        assert_eq!(line.get(2), "ab");
        let good = *line.queues.order();
        let truth = |flow: FlowId| line.queues_state(flow);
        assert_eq!(good.recount(&truth), Ok(()));
        let damages: [fn(&mut Drr<[DrrFlow; 4]>); 12] = [
            |d| d.nodes[0].next = 3,
            |d| d.nodes[0].prev = 3,
            |d| d.nodes[0].next = 0,
            |d| d.nodes[0].deficit = 0,
            |d| d.nodes[0].deficit = (1 << 28) + 1,
            |d| d.nodes[0].quantum = 99,
            |d| d.nodes[0].place = Place::New,
            |d| d.nodes[2].place = Place::Spent,
            |d| d.nodes[0].ticket = d.nodes[1].ticket,
            |d| d.nodes[3].deficit = -100,
            |d| d.old = NONE,
            |d| d.new = d.old,
        ];
        for (at, damage) in damages.iter().enumerate() {
            let mut bad = good;
            damage(&mut bad);
            assert!(bad.recount(&truth).is_err(), "damage {at}");
        }
    }

    impl Line {
        fn queues_state(&self, flow: FlowId) -> FlowState {
            FlowState { backlog: self.queues.flow_backlog(flow), head_len: None }
        }
    }

    #[test]
    fn a_flow_is_twenty_four_bytes() {
        assert_eq!(size_of::<DrrFlow>(), 24);
    }
}
