//! A tournament tree that finds the flow with the fewest bytes, or the one with the most.
//!
//! Flows play in pairs, winners play winners, and each inner node of the binary tree stores its
//! winner (Knuth, TAOCP vol. 3, §5.4.1, a tree of winners). Idle flows lose against backlogged
//! ones. Ties go to the flow served least recently, then to the lowest number, both for the
//! shortest and for the longest queue. Exact: the key is the byte count itself.
//!
//! Cost: at most one node per level, log2 of the table length. A flow that gets worse matters only
//! up to where it had won, one that gets better only up to where it still loses, so most changes
//! end one or two levels up. Memory: 16 bytes per flow, 12 for the key and 4 for the tree.

use crate::flow_scheduler::FlowState;
use crate::{FlowId, Imbalance};

/// A flow's backlog as counted by the flow scheduler, and its part of a tournament: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedFlow {
    /// Zero if and only if the flow is idle.
    bytes: u32,
    /// Stamp of the last service, low half first: 64 bits without padding to eight bytes.
    stamp: [u32; 2],
    /// The winner at the inner node with this index. Belongs to the tree, not to the flow.
    winner: u32,
}

impl RankedFlow {
    /// An idle flow, never served.
    pub const EMPTY: Self = Self { bytes: 0, stamp: [0; 2], winner: 0 };
}

/// An entry of a table in which tournaments are played: a [`RankedFlow`] under a name of its own.
pub trait Ranked {
    /// Returns the entry.
    fn row(&self) -> &RankedFlow;

    /// Returns the entry, mutably.
    fn row_mut(&mut self) -> &mut RankedFlow;

    /// Returns the key: 0 if the flow is idle.
    #[inline]
    fn bytes(&self) -> u32 {
        self.row().bytes
    }

    /// Returns true if the flow is not idle.
    #[inline]
    fn is_backlogged(&self) -> bool {
        self.row().bytes != 0
    }

    /// Sets the key. The caller then reports whether the flow gained or lost by it.
    #[inline]
    fn set_bytes(&mut self, bytes: u32) {
        self.row_mut().bytes = bytes;
    }

    /// Returns the stamp, which breaks ties: the lower one wins.
    #[inline]
    fn stamp(&self) -> u64 {
        let [low, high] = self.row().stamp;
        u64::from(high) << 32 | u64::from(low)
    }

    /// Sets the stamp.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    fn set_stamp(&mut self, stamp: u64) {
        self.row_mut().stamp = [stamp as u32, (stamp >> 32) as u32];
    }
}

/// Declares a table entry type that users allocate and only this crate accesses. Tables for
/// different purposes have different types.
macro_rules! ranked {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name($crate::disciplines::tournament::RankedFlow);

        impl $name {
            /// An idle entry, to fill a table with.
            pub const EMPTY: Self = Self($crate::disciplines::tournament::RankedFlow::EMPTY);
        }

        impl $crate::disciplines::tournament::Ranked for $name {
            #[inline]
            fn row(&self) -> &$crate::disciplines::tournament::RankedFlow {
                &self.0
            }

            #[inline]
            fn row_mut(&mut self) -> &mut $crate::disciplines::tournament::RankedFlow {
                &mut self.0
            }
        }
    };
}

pub(crate) use ranked;

/// A flow in a match. The lower rank wins; an idle flow has the highest possible rank.
#[derive(Clone, Copy)]
struct Player {
    rank: u32,
    flow: u32,
}

/// A tournament for the shortest queue, or for the longest (`LONGEST`); its winners are in a table
/// of [`RankedFlow`]s passed to every call.
///
/// Of `n` flows, flow `f` is at leaf `n + f`, and the parent of a node is half its number; the
/// inner nodes are `1..n`. A caller that changes a key must report at once whether the flow gained
/// or lost by it.
#[derive(Clone, Copy, Debug)]
pub struct Tournament<const LONGEST: bool>;

impl<const LONGEST: bool> Tournament<LONGEST> {
    /// Plays all matches. O(flows).
    pub fn play_all(flows: &mut [impl Ranked]) {
        for node in (1..flows.len()).rev() {
            let (left, right) = (Self::winner(flows, 2 * node), Self::winner(flows, 2 * node + 1));
            let winner = Self::match_of(flows, left, right);
            Self::set_winner(flows, node, winner);
        }
    }

    fn match_of(flows: &[impl Ranked], left: u32, right: u32) -> u32 {
        let right_wins = Self::beats(flows, Self::player(flows, right), Self::player(flows, left));
        if right_wins { right } else { left }
    }

    /// Returns the backlogged flow that wins: the shortest or longest.
    #[inline]
    pub fn first(flows: &[impl Ranked]) -> Option<FlowId> {
        // A single flow is its own root: node 1 is then its leaf.
        let winner = Self::winner(flows, 1);
        flows.get(winner as usize).is_some_and(Ranked::is_backlogged).then_some(FlowId(winner))
    }

    /// Updates the tree after the rank of `flow` has improved: it may win further up. At most 32
    /// steps: the node number halves.
    #[inline]
    pub fn gained(flows: &mut [impl Ranked], flow: FlowId) {
        let player = Self::player(flows, flow.0);
        let mut node = flows.len().wrapping_add(flow.index()) >> 1;
        while node != 0 {
            crate::steps::step();
            let winner = Self::winner(flows, node);
            if winner != flow.0 {
                if !Self::beats(flows, player, Self::player(flows, winner)) {
                    break;
                }
                Self::set_winner(flows, node, flow.0);
            }
            node >>= 1;
        }
    }

    /// Updates the tree after the rank of `flow` has worsened: matches that it had won are
    /// replayed. At most 32 steps: the node number halves.
    #[inline]
    pub fn lost(flows: &mut [impl Ranked], flow: FlowId) {
        let mut winner = Self::player(flows, flow.0);
        let mut node = flows.len().wrapping_add(flow.index());
        while node > 1 && Self::winner(flows, node >> 1) == flow.0 {
            crate::steps::step();
            let rival = Self::player(flows, Self::winner(flows, node ^ 1));
            if Self::beats(flows, rival, winner) {
                winner = rival;
            }
            node >>= 1;
            Self::set_winner(flows, node, winner.flow);
        }
    }

    /// Returns the winner at `node`, or the flow of a leaf.
    #[inline]
    fn winner(flows: &[impl Ranked], node: usize) -> u32 {
        match flows.get(node) {
            Some(inner) => inner.row().winner,
            #[expect(clippy::cast_possible_truncation, reason = "flows are numbered by `u32`")]
            None => node.wrapping_sub(flows.len()) as u32,
        }
    }

    #[inline]
    fn set_winner(flows: &mut [impl Ranked], node: usize, winner: u32) {
        if let Some(inner) = flows.get_mut(node) {
            inner.row_mut().winner = winner;
        }
    }

    #[inline]
    fn player(flows: &[impl Ranked], flow: u32) -> Player {
        let bytes = flows.get(flow as usize).map_or(0, Ranked::bytes);
        // For the shortest, 0 wraps to the largest rank: idle flows lose.
        let rank = if LONGEST { !bytes } else { bytes.wrapping_sub(1) };
        Player { rank, flow }
    }

    /// Returns true if `a` wins against `b`. A total order: no two flows have equal numbers.
    #[inline]
    fn beats(flows: &[impl Ranked], a: Player, b: Player) -> bool {
        if a.rank != b.rank {
            return a.rank < b.rank;
        }
        // Stamps of idle flows may change without a match: they must not decide one.
        if a.rank == u32::MAX {
            return a.flow < b.flow;
        }
        let stamp = |player: Player| flows.get(player.flow as usize).map(Ranked::stamp);
        (stamp(a), a.flow) < (stamp(b), b.flow)
    }

    /// Compares the keys with `truth`, and every match with its players. O(flows).
    pub fn recount(
        flows: &[impl Ranked],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        for (at, entry) in (0_u32..).zip(flows) {
            let state = truth(FlowId(at)).backlog;
            Imbalance::check("bytes of a flow", at, entry.bytes().into(), state.bytes.into())?;
        }
        for (at, node) in (1_u32..).zip(1..flows.len()) {
            let (left, right) = (Self::winner(flows, 2 * node), Self::winner(flows, 2 * node + 1));
            let winner = Self::match_of(flows, left, right);
            let booked = Self::winner(flows, node);
            Imbalance::check("the winner of a match", at, booked.into(), winner.into())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backlog;
    use conformance::Xorshift;
    use std::vec::Vec;

    type Shortest = Tournament<false>;
    type Longest = Tournament<true>;

    impl Ranked for RankedFlow {
        fn row(&self) -> &Self {
            self
        }

        fn row_mut(&mut self) -> &mut Self {
            self
        }
    }

    /// Equal flows in a table for each tournament.
    struct Both {
        flows: [Vec<RankedFlow>; 2],
    }

    impl Both {
        fn new(flows: usize) -> Self {
            let mut flows =
                [std::vec![RankedFlow::EMPTY; flows], std::vec![RankedFlow::EMPTY; flows]];
            Shortest::play_all(&mut flows[0]);
            Longest::play_all(&mut flows[1]);
            Self { flows }
        }

        /// Returns the results of the two tournaments.
        fn ends(&self) -> (Option<u32>, Option<u32>) {
            let (shortest, longest) =
                (Shortest::first(&self.flows[0]), Longest::first(&self.flows[1]));
            (shortest.map(|flow| flow.0), longest.map(|flow| flow.0))
        }

        /// Returns the results by definition, from a scan over all flows.
        fn scanned(&self) -> (Option<u32>, Option<u32>) {
            let ranked = || (0_u32..).zip(&self.flows[0]).filter(|(_, flow)| flow.is_backlogged());
            let shortest = ranked().min_by_key(|(at, flow)| (flow.bytes, flow.stamp(), *at));
            let longest = ranked().min_by_key(|(at, flow)| (!flow.bytes, flow.stamp(), *at));
            (shortest.map(|(at, _)| at), longest.map(|(at, _)| at))
        }

        fn set(&mut self, flow: u32, bytes: u32, stamp: Option<u64>) {
            let before = self.flows[0][flow as usize].bytes;
            if bytes == before {
                return;
            }
            for flows in &mut self.flows {
                let entry = &mut flows[flow as usize];
                entry.bytes = bytes;
                if let Some(stamp) = stamp {
                    entry.set_stamp(stamp);
                }
            }
            let flow = FlowId(flow);
            let [shortest, longest] = &mut self.flows;
            if bytes.wrapping_sub(1) < before.wrapping_sub(1) {
                Shortest::gained(shortest, flow);
            } else {
                Shortest::lost(shortest, flow);
            }
            if bytes > before {
                Longest::gained(longest, flow);
            } else {
                Longest::lost(longest, flow);
            }
        }

        fn recount(&self) -> Result<(), Imbalance> {
            let truth = |flow: FlowId| {
                let bytes = self.flows[0][flow.index()].bytes;
                FlowState { backlog: Backlog { packets: bytes, bytes }, head_len: None }
            };
            Shortest::recount(&self.flows[0], &truth)?;
            Longest::recount(&self.flows[1], &truth)
        }
    }

    /// Goal: after every change both tournaments equal a scan over all flows. Method: 200,000
    /// random arrivals, departures and services at full depth, else 20,000, for each of seven
    /// sizes, powers of two and others. Byte counts are from a range so small that most matches are
    /// ties, or from all 32 bits.
    #[test]
    fn both_ends_equal_a_full_scan_after_every_change() {
        for (flows, range) in [(1, 4), (2, 3), (3, 4), (7, 5), (64, 6), (85, 1 << 32), (257, 8)] {
            let (mut both, mut seed, mut clock) =
                (Both::new(flows), Xorshift::new(flows as u64), 0);
            for step in 0..conformance::effort::effort(20_000, 200_000) {
                let random = seed.next_u64();
                let flow = (random >> 32) as u32 % flows as u32;
                let bytes = (seed.next_u64() % range) as u32;
                match random % 8 {
                    0..4 => both.set(flow, bytes, None),
                    4..6 => both.set(flow, 0, None),
                    // A service: fewer bytes and the newest stamp.
                    _ => {
                        clock += 1;
                        let left = both.flows[0][flow as usize].bytes.saturating_sub(1);
                        both.set(flow, left, Some(clock));
                    }
                }
                assert_eq!(both.ends(), both.scanned(), "{flows} flows, step {step}");
                if step % 1_000 == 0 {
                    assert_eq!(both.recount(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn a_match_with_the_wrong_winner_is_noticed() {
        let mut both = Both::new(6);
        for flow in 0..6 {
            both.set(flow, 100 + flow, None);
        }
        assert_eq!(both.recount(), Ok(()));
        // Flow 5 plays against flow 4 at node 5.
        for flows in &mut both.flows {
            flows[5].bytes = 1;
        }
        let broken = Imbalance { what: "the winner of a match", at: 5, booked: 4, counted: 5 };
        assert_eq!(both.recount(), Err(broken));
    }

    #[test]
    fn a_flow_takes_16_bytes() {
        assert_eq!(size_of::<RankedFlow>(), 16);
    }
}
