//! One share over several tins: flows of one owner, in tins that differ, share what the owner is sent.
//!
//! Each packet of a flow is charged to the turns of its siblings as well: to the turn under way, or to the next. Of every turn
//! one packet is left: no flow is passed over, and no turn has to be looked for. A quantum of as many of the longest packets as
//! there are tins lets an owner that floods all of them have the share of one.
//!
//! A packet that a tin is sent by the floor ends the turn: where a tin has nothing else, turns of
//! several packets would last for thousands of packets of the link.
//!
//! A flow that is idle is not charged. Siblings are a ring, over at most as many flows as there are tins.

use super::{TinDrr, TinFlow};
use crate::disciplines::tins::choice::TINS;
use crate::flow_scheduler::Table;
use crate::hosts::siblings::{self, MOST, Sibling};
use crate::hosts::token_bucket::WireLength;
use crate::{FlowId, Imbalance};

const _: () = assert!(MOST == TINS, "a flow has a sibling in each other tin");

impl<N: Table<TinFlow>, L: WireLength> TinDrr<N, L> {
    /// Makes `flow` a sibling of `other`, and of all siblings of that: what one of them is sent counts for the turns of the
    /// others as well, while these are backlogged. `flow` leaves the siblings it has. Nothing changes for flows that
    /// there are not, for the same flow, and if `other` has as many siblings as there may be tins. Cost: O(tins).
    pub fn join(&mut self, flow: FlowId, other: FlowId) {
        self.has_siblings |= siblings::join(self.nodes.as_mut(), flow, other);
        self.note_plainness();
    }

    /// `flow` has no siblings from now on. Cost: O(tins).
    pub fn part(&mut self, flow: FlowId) {
        let _before = siblings::part(self.nodes.as_mut(), flow);
    }

    /// No flow has siblings from now on. Cost: O(flows).
    pub fn part_all(&mut self) {
        self.nodes.as_mut().iter_mut().for_each(|node| node.set_sibling(None));
    }

    /// `flow` was sent `len` bytes: its siblings have as much less of their turns.
    #[inline(always)]
    pub(super) fn charge_siblings(&mut self, flow: FlowId, len: u32) {
        let sibling = self.nodes.as_ref().get(flow.index()).and_then(Sibling::sibling);
        if let Some(first) = sibling {
            self.charge_from(first, flow, len);
        }
    }

    /// The rest of [`Self::charge_siblings`], from `first` around to `flow`.
    #[inline(never)]
    fn charge_from(&mut self, first: u32, flow: FlowId, len: u32) {
        let mut at = first;
        for _ in 1..TINS {
            let node = self.nodes.as_mut().get_mut(at as usize).filter(|_| at != flow.0);
            let Some(node) = node else { return };
            node.flow.charge_elsewhere(len);
            let Some(next) = node.sibling() else { return };
            at = next;
        }
    }

    /// Checks that siblings are rings of two flows at least and as many as tins at most.
    pub(super) fn recount_siblings(&self) -> Result<(), Imbalance> {
        if !self.has_siblings {
            return Ok(());
        }
        siblings::recount(self.nodes.as_ref())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::{FlowScheduler, TinConfig};

    const LEN: u32 = 1_000;

    /// Tins of these weights. `owners` lists the flows of each owner, as the tins that they are in; with `across`, the flows
    /// of an owner are siblings. All flood. Returns what each owner was sent, in thousandths of all.
    fn shares(weights: &[u32], owners: &[&[u32]], across: bool) -> Vec<u32> {
        let flows = owners.iter().map(|tins| tins.len()).sum();
        let quantum = LEN * if across { weights.len() as u32 } else { 1 };
        let mut tins = TinDrr::new(vec![TinFlow::EMPTY; flows], LEN).expect("in range");
        tins.add_all(quantum).expect("in range");
        let configs: Vec<_> = weights.iter().map(|weight| TinConfig::by_weight(*weight)).collect();
        tins.set_tins(&configs).expect("in range");
        let mut owner_of = Vec::new();
        for (owner, of_owner) in owners.iter().enumerate() {
            let first = FlowId(owner_of.len() as u32);
            for tin in *of_owner {
                let flow = FlowId(owner_of.len() as u32);
                tins.assign(flow, *tin).expect("a tin that there is");
                if across {
                    tins.join(flow, first);
                }
                tins.backlogged(flow, LEN);
                owner_of.push(owner);
            }
        }
        let mut sent = vec![0; owners.len()];
        for _ in 0..100_000 {
            let flow = tins.select().expect("all are backlogged");
            tins.served(flow, LEN, Some(LEN));
            sent[owner_of[flow.index()]] += 1;
        }
        let listed = |_| crate::FlowState {
            backlog: crate::Backlog { packets: 1, bytes: LEN },
            head_len: Some(LEN),
        };
        assert_eq!(tins.recount(&listed), Ok(()));
        sent.iter().map(|packets| (packets + 50) / 100).collect()
    }

    /// Goal: an owner in several tins is sent as much in all as one in a single tin, where the tins allow it, and twice
    /// as much without the option.
    #[test]
    fn an_owner_has_one_share_in_all_tins_together() {
        // Two tins alike; one owner in both.
        let owners: [&[u32]; 3] = [&[0, 1], &[0], &[1]];
        assert_eq!(shares(&[1, 1], &owners, false), [500, 250, 250]);
        assert_eq!(shares(&[1, 1], &owners, true), [333, 333, 333]);
        // In a small tin alone, its owner makes up for it in the large one.
        let owners: [&[u32]; 2] = [&[0, 1], &[1]];
        assert_eq!(shares(&[1, 15], &owners, false), [531, 469]);
        assert_eq!(shares(&[1, 15], &owners, true), [500, 500]);
        // Four tins, one owner in all.
        let owners: [&[u32]; 5] = [&[0, 1, 2, 3], &[0], &[1], &[2], &[3]];
        assert_eq!(shares(&[1, 1, 1, 1], &owners, false), [500, 125, 125, 125, 125]);
        assert_eq!(shares(&[1, 1, 1, 1], &owners, true), [200, 200, 200, 200, 200]);
    }

    /// Goal: an owner that is sent more than its share in one tin is not starved in another: it has a packet a round.
    #[test]
    fn no_flow_is_passed_over() {
        let owners: [&[u32]; 3] = [&[0, 1], &[0], &[0]];
        // Half the line for tin 1, where the owner is alone: more than a third.
        let sent = shares(&[1, 1], &owners, true);
        assert_eq!(sent, [600, 200, 200]);
    }

    /// Goal: joining and parting in any order leave rings, which `recount` checks, and a flow is a sibling of those that it
    /// was put with and has not parted from. Method: a naive list of groups.
    #[test]
    fn siblings_are_those_that_were_joined() {
        let mut tins = TinDrr::new([TinFlow::EMPTY; 12], LEN).expect("in range");
        let mut groups: Vec<Vec<u32>> = (0..12).map(|flow| vec![flow]).collect();
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % end) as u32
        };
        for _ in 0..20_000 {
            let (flow, other) = (below(13), below(13));
            let of =
                |groups: &[Vec<u32>], flow| groups.iter().position(|group| group.contains(&flow));
            let part = below(4) == 0;
            if part {
                tins.part(FlowId(flow));
            } else {
                tins.join(FlowId(flow), FlowId(other));
            }
            if let (Some(from), Some(to)) = (of(&groups, flow), of(&groups, other)) {
                let joins = !part && from != to && groups[to].len() < MOST;
                if joins || part {
                    groups[from].retain(|member| *member != flow);
                    if joins {
                        groups[to].push(flow);
                    } else {
                        groups.push(vec![flow]);
                    }
                }
            } else if part && let Some(from) = of(&groups, flow) {
                groups[from].retain(|member| *member != flow);
                groups.push(vec![flow]);
            }
            assert_eq!(tins.recount_siblings(), Ok(()));
            for group in &groups {
                for member in group {
                    let others = siblings::others(&tins.nodes, FlowId(*member));
                    let mut found: Vec<u32> = others.map(|flow| flow.0).collect();
                    found.push(*member);
                    found.sort_unstable();
                    let mut expected = group.clone();
                    expected.sort_unstable();
                    assert_eq!(found, expected);
                }
            }
        }
        tins.part_all();
        assert!((0..12).all(|flow| siblings::others(&tins.nodes, FlowId(flow)).next().is_none()));
    }
}
