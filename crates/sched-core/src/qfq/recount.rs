//! The invariants of QFQ, each counted anew from the flows. For tests.

use core::num::NonZeroU32;

use super::eligibility::bit;
use super::group::{MAX_DISTANCE, QfqFlow};
use super::virtual_time::{GROUPS, Width, group_of, share, weight_of};
use super::{Core, Qfq};
use crate::order::{FlowState, Table};
use crate::{FlowId, Imbalance};

const GROUP_COUNT: u32 = u32::BITS;

fn holds(what: &'static str, at: u32, truth: bool) -> Result<(), Imbalance> {
    Imbalance::check(what, at, 1, truth.into())
}

impl<N: Table<QfqFlow>> Qfq<N> {
    /// Checks `V ≤ F^k + L/Σφ` for every backlogged flow, with `F^k` rounded (QFQ Theorem 2, eq. 14).
    /// For tests: O(flows).
    ///
    /// It holds while no flow is added, removed or re-configured. A flow that is leaves or takes more
    /// service than its share was, so afterwards it holds again only once nothing has been backlogged.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn check_lag(&self) -> Result<(), Imbalance> {
        let core = &self.core;
        let longest = u64::from(core.max_len) * u64::from(core.inverse_sum);
        for (at, k) in (0..).zip(self.flows.as_ref()).filter(|(_, k)| k.backlogged) {
            let width = Width::of_group(k.group.into());
            let latest = k.start.floor(width).plus(width.interval()).plus(longest);
            holds("V <= F + L (Theorem 2)", at, !core.now.is_after(latest))?;
        }
        Ok(())
    }
}

impl Core {
    pub(super) fn recount(
        &self,
        table: &[QfqFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        self.recount_flows(table, truth)?;
        let mut listed = 0;
        for i in 0..GROUP_COUNT {
            listed += self.recount_group(i, table)?;
            self.recount_sets(i)?;
        }
        let backlogged = table.iter().filter(|k| k.backlogged).count();
        Imbalance::check("flows in slots", 0, listed, backlogged as u64)?;
        let is_open = self.sets.ready != 0;
        holds("a group is eligible and ready iff a flow is backlogged", 0, is_open == (listed > 0))
    }

    fn recount_flows(
        &self,
        table: &[QfqFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let (mut weights, mut shares) = (0, 0);
        for (at, k) in (0..).zip(table) {
            let packets = truth(FlowId(at)).backlog.packets;
            holds("a flow is in a slot iff it holds packets", at, k.backlogged == (packets > 0))?;
            let Some(inverse) = NonZeroU32::new(k.inverse) else {
                holds("a flow not added is idle", at, !k.backlogged)?;
                continue;
            };
            weights += u64::from(weight_of(inverse));
            shares += share(inverse);
            let group = group_of(self.effective_len(k.max_len.into()), k.inverse);
            Imbalance::check("group of a flow", at, k.group.into(), group.into())?;
            if k.backlogged {
                let width = Width::of_group(group.into());
                let latest = self.now.floor(width).plus(width.span());
                let rounded = k.start.floor(width);
                holds("S <= [V] + slot (Theorem 1)", at, !rounded.is_after(latest))?;
            }
        }
        Imbalance::check("sum of the weights", 0, self.weight_sum.into(), weights)?;
        Imbalance::check("sum of the shares", 0, self.share_sum, shares)
    }

    /// Returns how many flows are in the slots of group `i`.
    fn recount_group(&self, i: u32, table: &[QfqFlow]) -> Result<u64, Imbalance> {
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return Ok(0) };
        let width = Width::of_group(i);
        let front = width.slot_of(group.start);
        let mut listed = 0;
        for (slot, ends) in (0..).zip(&group.slots) {
            if group.full & bit(slot) == 0 {
                continue;
            }
            let distance = slot.wrapping_sub(front) % GROUP_COUNT;
            holds("distance of a slot (Theorem 3)", i, distance <= MAX_DISTANCE)?;
            let expected = group.start.plus(width.slots(distance));
            let (mut here, mut before) = (ends.head, ends.head);
            loop {
                let Some(k) = table.get(here as usize) else {
                    return holds("a listed flow exists", here, false).map(|()| 0);
                };
                holds("a listed flow is backlogged", here, k.backlogged)?;
                Imbalance::check("group of a listed flow", here, i.into(), k.group.into())?;
                let rounded = k.start.floor(width);
                Imbalance::check("slot of a flow", here, expected.0, rounded.0)?;
                holds("links agree", here, here == ends.head || k.prev == before)?;
                listed += 1;
                holds("lists end", here, listed <= table.len() as u64)?;
                if here == ends.tail {
                    break;
                }
                (before, here) = (here, k.next);
            }
        }
        let front_is_full = group.full & bit(front) != 0;
        holds("S is that of the first slot in use", i, group.full == 0 || front_is_full)?;
        Ok(listed)
    }

    fn recount_sets(&self, i: u32) -> Result<(), Imbalance> {
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return Ok(()) };
        let eligible = !group.start.is_after(self.now);
        let finish = self.finish(i);
        let ready_above = |j: &u32| *j > i && self.sets.ready & bit(*j) != 0;
        let blocks = |j: u32| finish.is_after(self.finish(j));
        let blocked = (0..GROUP_COUNT).filter(ready_above).any(blocks);
        let sets = &self.sets;
        let all = [sets.ready, sets.blocked, sets.ineligible_ready, sets.ineligible_blocked];
        let member = all.map(|set| set & bit(i) != 0);
        let right = [(true, false), (true, true), (false, false), (false, true)]
            .map(|state| group.full != 0 && state == (eligible, blocked));
        holds("a group is in the set for its state", i, member == right)?;
        for (set, member) in all.into_iter().zip(member) {
            let above = set & !(bit(i) | bit(i).wrapping_sub(1));
            if member && above != 0 {
                let j = above.trailing_zeros();
                holds("sets are ordered by F", i, !finish.is_after(self.finish(j)))?;
                let later = self.groups.get(j as usize % GROUPS).map(|group| group.start);
                let ordered = later.is_none_or(|later| !group.start.is_after(later));
                holds("ineligible groups are ordered by S", i, eligible || ordered)?;
            }
        }
        // For every group b in ER and every flow of a lower group: its rounded start is at most F_b.
        // This is what keeps ER and EB ordered; the last slot in use has the latest start.
        let width = Width::of_group(i);
        let ahead = group.full.rotate_right(width.slot_of(group.start)).checked_ilog2();
        for b in (0..GROUP_COUNT).filter(ready_above) {
            let late = ahead
                .is_some_and(|slots| group.start.plus(width.slots(slots)).is_after(self.finish(b)));
            holds("no flow starts after a ready group above finishes", i, !late)?;
        }
        Ok(())
    }
}
