//! Which flow holds the fewest bytes, and which the most.
//!
//! A 4-ary heap of the backlogged flows, from the shortest queue or from the longest. Both heaps of an
//! order lie in one table, beside the key that they share, so that a flow costs 28 bytes with two
//! heaps and 20 with one. Ties go to the flow served least recently, then to the lowest number, in
//! either heap: the two orders are not each other's reverse, and one double-ended heap cannot serve
//! both. Exact: the key is the byte count itself.
//!
//! Cost: O(log backlogged flows), at most 16 levels; a queue that grows or shrinks stays where
//! it is unless it passes a neighbour, so most updates end at the first comparison. Four children
//! to a parent: half the levels of a binary heap, and as many comparisons on the way down.

use crate::order::FlowState;
use crate::{FlowId, Imbalance};

/// No place in a heap.
const NONE: u32 = u32::MAX;

/// Children of a place `p`: `4p + 1 ..= 4p + 4`.
const ARITY_SHIFT: u32 = 2;
const ARITY: u32 = 1 << ARITY_SHIFT;

/// No path from the root is longer: levels 0 to 15 hold (4^16 − 1) / 3 places, level 16 alone would
/// hold 2^32.
const HEIGHT: u32 = 16;

/// A flow's backlog as the order books it, and its part of `HEAPS` heaps: 12 + 8 · `HEAPS` bytes.
#[derive(Clone, Copy, Debug)]
pub struct RankedFlow<const HEAPS: usize> {
    bytes: u32,
    /// When the flow was served last, low half first: 64 bits without padding to eight bytes.
    stamp: [u32; 2],
    heaps: [Node; HEAPS],
}

/// Two unrelated facts that share an index: `member` belongs to the place, `place` to the flow.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The flow that stands at the place with this index; stale from the heap's length on.
    member: u32,
    /// Where the flow with this index stands; [`NONE`] if and only if it is not in the heap.
    place: u32,
}

impl<const HEAPS: usize> RankedFlow<HEAPS> {
    /// An idle flow, never served.
    pub const EMPTY: Self =
        Self { bytes: 0, stamp: [0; 2], heaps: [Node { member: NONE, place: NONE }; HEAPS] };

    pub(crate) const fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(crate) const fn set_bytes(&mut self, bytes: u32) {
        self.bytes = bytes;
    }

    pub(crate) const fn stamp(&self) -> u64 {
        let [low, high] = self.stamp;
        (high as u64) << 32 | low as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub(crate) const fn set_stamp(&mut self, stamp: u64) {
        self.stamp = [stamp as u32, (stamp >> 32) as u32];
    }

    const fn key(&self, flow: u32) -> Key {
        Key { bytes: self.bytes, stamp: self.stamp(), flow }
    }
}

impl<const HEAPS: usize> Default for RankedFlow<HEAPS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// What flows are ranked by.
#[derive(Clone, Copy)]
struct Key {
    bytes: u32,
    stamp: u64,
    flow: u32,
}

impl Key {
    /// Whether `self` is to stand nearer to the root than `other`. A total order: no two flows have
    /// the same number.
    const fn before<const LONGEST: bool>(self, other: Self) -> bool {
        if self.bytes != other.bytes {
            return (self.bytes > other.bytes) == LONGEST;
        }
        self.stamp < other.stamp || self.stamp == other.stamp && self.flow < other.flow
    }
}

/// The flows that were inserted, the one with the most bytes first (`LONGEST`) or the one with the
/// fewest; its places are the `AT`-th heap of a table of [`RankedFlow`]s that every call is given.
///
/// Whoever changes a key tells every heap before the next call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BacklogHeap<const AT: usize, const LONGEST: bool> {
    len: u32,
}

impl<const AT: usize, const LONGEST: bool> BacklogHeap<AT, LONGEST> {
    pub(crate) const EMPTY: Self = Self { len: 0 };

    /// The flow at the root: shortest or longest.
    pub(crate) fn first<const H: usize>(self, flows: &[RankedFlow<H>]) -> Option<FlowId> {
        if self.len == 0 {
            return None;
        }
        flows.first().and_then(|entry| entry.heaps.get(AT)).map(|node| FlowId(node.member))
    }

    pub(crate) fn holds<const H: usize>(entry: &RankedFlow<H>) -> bool {
        entry.heaps.get(AT).is_some_and(|node| node.place != NONE)
    }

    /// Inserts `flow`, which is not in the heap.
    pub(crate) fn insert<const H: usize>(&mut self, flows: &mut [RankedFlow<H>], flow: FlowId) {
        let Some(entry) = flows.get(flow.index()) else { return };
        let key = entry.key(flow.0);
        let end = self.len;
        self.len = end.wrapping_add(1);
        let place = Self::risen(flows, key, end);
        Self::put(flows, place, flow.0);
    }

    /// Takes `flow` out, wherever it stands; nothing happens if it is not in the heap.
    pub(crate) fn remove<const H: usize>(&mut self, flows: &mut [RankedFlow<H>], flow: FlowId) {
        let Some(place) = Self::place_of(flows, flow.0) else { return };
        if let Some(node) = flows.get_mut(flow.index()).and_then(|entry| entry.heaps.get_mut(AT)) {
            node.place = NONE;
        }
        let Some(end) = self.len.checked_sub(1) else { return };
        self.len = end;
        if place == end {
            return;
        }
        // The last flow fills the gap; it may have to go either way, because the gap need not be on
        // its own path to the root.
        let Some(last) = Self::member(flows, end).and_then(|last| Self::key_of(flows, last)) else {
            return;
        };
        let mut to = Self::risen(flows, last, place);
        if to == place {
            to = self.sunk(flows, last, place);
        }
        Self::put(flows, to, last.flow);
    }

    /// `flow` may have to move towards the root: longer in a heap of the longest, shorter in one of
    /// the shortest.
    pub(crate) fn rise<const H: usize>(self, flows: &mut [RankedFlow<H>], flow: FlowId) {
        let Some(place) = Self::place_of(flows, flow.0) else { return };
        let Some(key) = Self::key_of(flows, flow.0) else { return };
        let to = Self::risen(flows, key, place);
        if to != place {
            Self::put(flows, to, flow.0);
        }
    }

    /// `flow` may have to move away from the root.
    pub(crate) fn sink<const H: usize>(self, flows: &mut [RankedFlow<H>], flow: FlowId) {
        let Some(place) = Self::place_of(flows, flow.0) else { return };
        let Some(key) = Self::key_of(flows, flow.0) else { return };
        let to = self.sunk(flows, key, place);
        if to != place {
            Self::put(flows, to, flow.0);
        }
    }

    /// Where `key` belongs on the way from `place` to the root; those it passes have moved down.
    fn risen<const H: usize>(flows: &mut [RankedFlow<H>], key: Key, mut place: u32) -> u32 {
        for _ in 0..HEIGHT {
            let Some(left) = place.checked_sub(1) else { break };
            let above = left >> ARITY_SHIFT;
            let Some(parent) = Self::member(flows, above) else { break };
            let Some(parent_key) = Self::key_of(flows, parent) else { break };
            if !key.before::<LONGEST>(parent_key) {
                break;
            }
            Self::put(flows, place, parent);
            place = above;
        }
        place
    }

    /// Where `key` belongs below `place`; those that pass it have moved up.
    fn sunk<const H: usize>(self, flows: &mut [RankedFlow<H>], key: Key, mut place: u32) -> u32 {
        for _ in 0..HEIGHT {
            // A place of 2^30 or more has no children below 2^32.
            let Some(first) = place.checked_mul(ARITY).and_then(|p| p.checked_add(1)) else {
                break;
            };
            let (mut best, mut best_place) = (key, place);
            for child in first..first.saturating_add(ARITY).min(self.len) {
                let Some(member) = Self::member(flows, child) else { break };
                let Some(child_key) = Self::key_of(flows, member) else { break };
                if child_key.before::<LONGEST>(best) {
                    (best, best_place) = (child_key, child);
                }
            }
            if best_place == place {
                break;
            }
            Self::put(flows, place, best.flow);
            place = best_place;
        }
        place
    }

    fn put<const H: usize>(flows: &mut [RankedFlow<H>], place: u32, flow: u32) {
        if let Some(node) = flows.get_mut(place as usize).and_then(|entry| entry.heaps.get_mut(AT))
        {
            node.member = flow;
        }
        if let Some(node) = flows.get_mut(flow as usize).and_then(|entry| entry.heaps.get_mut(AT)) {
            node.place = place;
        }
    }

    fn member<const H: usize>(flows: &[RankedFlow<H>], place: u32) -> Option<u32> {
        Some(flows.get(place as usize)?.heaps.get(AT)?.member)
    }

    fn place_of<const H: usize>(flows: &[RankedFlow<H>], flow: u32) -> Option<u32> {
        let place = flows.get(flow as usize)?.heaps.get(AT)?.place;
        (place != NONE).then_some(place)
    }

    fn key_of<const H: usize>(flows: &[RankedFlow<H>], flow: u32) -> Option<Key> {
        Some(flows.get(flow as usize)?.key(flow))
    }

    /// Compares the heap with the truth about the flows. O(flows).
    pub(crate) fn recount<const H: usize>(
        self,
        flows: &[RankedFlow<H>],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut members = 0_u32;
        for (at, entry) in (0_u32..).zip(flows) {
            let state = truth(FlowId(at)).backlog;
            let place = Self::place_of(flows, at);
            let backlogged = state.packets > 0;
            Imbalance::check(
                "a flow is ranked if and only if backlogged",
                at,
                place.is_some().into(),
                backlogged.into(),
            )?;
            Imbalance::check("bytes of a flow", at, entry.bytes.into(), state.bytes.into())?;
            let Some(place) = place else { continue };
            members = members.wrapping_add(1);
            Imbalance::check("places are used", at, 1, (place < self.len).into())?;
            let stands = Self::member(flows, place).unwrap_or(NONE);
            Imbalance::check("a flow stands at its place", at, stands.into(), at.into())?;
            let Some(left) = place.checked_sub(1) else { continue };
            let parent = Self::member(flows, left >> ARITY_SHIFT);
            let parent = parent.and_then(|parent| Self::key_of(flows, parent));
            let ordered = parent.is_some_and(|parent| parent.before::<LONGEST>(entry.key(at)));
            Imbalance::check("a parent stands before its child", at, 1, ordered.into())?;
        }
        Imbalance::check("flows ranked", 0, self.len.into(), members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backlog;
    use std::vec::Vec;

    type Shortest = BacklogHeap<0, false>;
    type Longest = BacklogHeap<1, true>;

    struct Both {
        flows: Vec<RankedFlow<2>>,
        shortest: Shortest,
        longest: Longest,
    }

    impl Both {
        fn new(flows: usize) -> Self {
            let flows = std::vec![RankedFlow::EMPTY; flows];
            Self { flows, shortest: Shortest::EMPTY, longest: Longest::EMPTY }
        }

        /// The answers of the two heaps.
        fn ends(&self) -> (Option<u32>, Option<u32>) {
            let (shortest, longest) =
                (self.shortest.first(&self.flows), self.longest.first(&self.flows));
            (shortest.map(|flow| flow.0), longest.map(|flow| flow.0))
        }

        /// The same by definition.
        fn scanned(&self) -> (Option<u32>, Option<u32>) {
            let ranked = || (0_u32..).zip(&self.flows).filter(|(_, flow)| Shortest::holds(flow));
            let shortest = ranked().min_by_key(|(at, flow)| (flow.bytes, flow.stamp(), *at));
            let longest = ranked().min_by_key(|(at, flow)| (!flow.bytes, flow.stamp(), *at));
            (shortest.map(|(at, _)| at), longest.map(|(at, _)| at))
        }

        fn set(&mut self, flow: u32, bytes: u32) {
            let entry = &mut self.flows[flow as usize];
            let before = entry.bytes;
            entry.bytes = bytes;
            let flow = FlowId(flow);
            if !Shortest::holds(&self.flows[flow.index()]) {
                self.shortest.insert(&mut self.flows, flow);
                self.longest.insert(&mut self.flows, flow);
            } else if bytes > before {
                self.shortest.sink(&mut self.flows, flow);
                self.longest.rise(&mut self.flows, flow);
            } else {
                self.shortest.rise(&mut self.flows, flow);
                self.longest.sink(&mut self.flows, flow);
            }
        }

        fn remove(&mut self, flow: u32) {
            self.flows[flow as usize].bytes = 0;
            self.shortest.remove(&mut self.flows, FlowId(flow));
            self.longest.remove(&mut self.flows, FlowId(flow));
        }

        fn recount(&self) -> Result<(), Imbalance> {
            let truth = |flow: FlowId| {
                let entry = &self.flows[flow.index()];
                let packets = Shortest::holds(entry).into();
                FlowState { backlog: Backlog { packets, bytes: entry.bytes }, head_len: None }
            };
            self.shortest.recount(&self.flows, &truth)?;
            self.longest.recount(&self.flows, &truth)
        }
    }

    fn splitmix(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Goal: after every operation both heaps name what a scan over all flows names.
    /// Method: 200,000 random insertions, changes, services and removals on each of five sizes, with
    /// byte counts from a range so small that most comparisons are ties, or from all 32 bits.
    #[test]
    fn both_ends_equal_a_full_scan_after_every_operation() {
        for (flows, range) in [(1, 4), (2, 3), (7, 5), (85, 1 << 32), (257, 8)] {
            let (mut heaps, mut seed, mut clock) = (Both::new(flows), flows as u64, 0);
            for step in 0..200_000 {
                let random = splitmix(&mut seed);
                let flow = (random >> 32) as u32 % flows as u32;
                let bytes = (splitmix(&mut seed) % range) as u32;
                match random % 8 {
                    0..4 => heaps.set(flow, bytes),
                    4..6 => heaps.remove(flow),
                    // A service: fewer bytes and the newest stamp, or gone.
                    _ => {
                        clock += 1;
                        let held = heaps.flows[flow as usize].bytes;
                        if !Shortest::holds(&heaps.flows[flow as usize]) {
                            heaps.flows[flow as usize].set_stamp(clock);
                        } else if held == 0 {
                            heaps.remove(flow);
                            heaps.flows[flow as usize].set_stamp(clock);
                        } else {
                            heaps.flows[flow as usize].set_stamp(clock);
                            heaps.set(flow, held - 1);
                        }
                    }
                }
                assert_eq!(heaps.ends(), heaps.scanned(), "{flows} flows, step {step}");
                if step % 1_000 == 0 {
                    assert_eq!(heaps.recount(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn a_misplaced_flow_is_noticed() {
        let mut heaps = Both::new(6);
        for flow in 0..6 {
            heaps.set(flow, 100 + flow);
        }
        assert_eq!(heaps.recount(), Ok(()));
        heaps.flows[5].bytes = 1;
        let broken =
            Imbalance { what: "a parent stands before its child", at: 5, booked: 1, counted: 0 };
        assert_eq!(heaps.recount(), Err(broken));
        heaps.flows[5].bytes = 105;
        heaps.longest.len = 5;
        assert_eq!(heaps.recount().unwrap_err().what, "places are used");
    }

    #[test]
    fn two_heaps_and_their_key_take_28_bytes_and_one_takes_20() {
        assert_eq!((size_of::<RankedFlow<2>>(), size_of::<RankedFlow<1>>()), (28, 20));
    }

    /// Goal: the named bound on levels is the height of the largest heap there can be.
    /// Method: walk from the last possible place to the root.
    #[test]
    fn the_largest_heap_has_as_many_levels_as_named() {
        let (mut place, mut levels) = (NONE - 1, 0);
        while let Some(left) = place.checked_sub(1) {
            place = left >> ARITY_SHIFT;
            levels += 1;
        }
        assert_eq!(levels, HEIGHT);
    }
}
