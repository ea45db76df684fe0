//! Invariants of QFQ, each recomputed from the flows. For tests.

use core::num::NonZeroU32;

use super::eligibility::bit;
use super::group::{MAX_DISTANCE, QfqFlow, State};
use super::virtual_time::{GROUPS, Virtual, Width, share};
use super::weights::Weights;
use super::{Core, Qfq};
use crate::flow_scheduler::{FlowState, Table};
use crate::{FlowId, Imbalance};

const GROUP_COUNT: u32 = u32::BITS;

pub(super) fn holds(what: &'static str, at: u32, truth: bool) -> Result<(), Imbalance> {
    Imbalance::check(what, at, 1, truth.into())
}

impl<N: Table<QfqFlow>> Qfq<N> {
    /// Checks invariants that hold while no flow is added, removed or re-configured.
    ///
    /// For tests: O(flows).
    ///
    /// * `V ≤ F^k + L · m` for every backlogged flow, with `F^k` rounded and `m` the most that a
    ///   byte ever adds to `V` (QFQ Theorem 2, eq. 14).
    /// * The stored `F` of an idle flow is not beyond the `F` of a ready group above its own.
    /// * No idle flow would have its start limited if it became backlogged now (Theorem 3).
    ///
    /// A flow that leaves, or takes more service than its new share was, can violate all three. All
    /// three hold again after a time at which no flow is backlogged.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn check_lag(&self) -> Result<(), Imbalance> {
        self.core.check_lag(self.flows.as_ref())?;
        self.core.check_starts(self.flows.as_ref())
    }
}

impl Core {
    pub(super) fn check_lag(&self, table: &[QfqFlow]) -> Result<(), Imbalance> {
        let core = self;
        let longest = u64::from(core.max_len) * u64::from(core.weights.most_per_byte());
        for (at, k) in (0..).zip(table) {
            let width = Width::of_group(k.group.into());
            if k.state == State::Backlogged {
                let latest = k.start.floor(width).plus(width.interval()).plus(longest);
                holds("V <= F + L (Theorem 2)", at, !core.now.is_after(latest))?;
            }
            if k.state == State::Lingering && k.start.is_after(core.now) {
                let blocker = core.sets.first_ready_above(k.group.into());
                let late = blocker.is_some_and(|b| k.start.is_after(core.finish(b)));
                holds("no idle flow finished after a ready group above", at, !late)?;
            }
        }
        Ok(())
    }

    pub(super) fn check_starts(&self, table: &[QfqFlow]) -> Result<(), Imbalance> {
        for (at, k) in (0..).zip(table) {
            let Some(group) = self.groups.get(usize::from(k.group)) else { continue };
            if k.inverse == 0 || k.state == State::Backlogged || group.full == 0 {
                continue;
            }
            let width = Width::of_group(k.group.into());
            let finish = (k.state == State::Lingering).then_some(k.start);
            let start = self.start_of(k.group.into(), finish).floor(width);
            let limit = group.start.plus(width.slots(MAX_DISTANCE));
            holds("no start is cut (Theorem 3)", at, !start.is_after(limit))?;
        }
        Ok(())
    }

    /// Compares all state with the flows in `table`. `now` is `V` at the last update of the sets.
    pub(super) fn recount(
        &self,
        now: Virtual,
        table: &[QfqFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
        group_of: &dyn Fn(u32, &QfqFlow) -> u8,
    ) -> Result<(), Imbalance> {
        self.recount_flows(now, table, truth, group_of)?;
        let mut listed = 0;
        for i in 0..GROUP_COUNT {
            listed += self.recount_group(i, table)?;
            self.recount_sets(now, i)?;
        }
        let in_state = |state| table.iter().filter(|k| k.state == state).count() as u64;
        Imbalance::check("flows in slots", 0, listed, in_state(State::Backlogged))?;
        let mut lingering = 0;
        for i in 0..GROUP_COUNT {
            lingering += self.recount_lingering(i, table)?;
        }
        Imbalance::check("flows that linger", 0, lingering, in_state(State::Lingering))?;
        holds("the flow that is next is known", 0, self.next == self.first())?;
        self.recount_alarm(now)?;
        let is_open = self.sets.ready != 0;
        holds("a group is eligible and ready iff a flow is backlogged", 0, is_open == (listed > 0))
    }

    fn recount_flows(
        &self,
        now: Virtual,
        table: &[QfqFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
        group_of: &dyn Fn(u32, &QfqFlow) -> u8,
    ) -> Result<(), Imbalance> {
        let mut weights = Weights::new();
        for (at, k) in (0..).zip(table) {
            let packets = truth(FlowId(at)).backlog.packets;
            let is_listed = k.state == State::Backlogged;
            holds("a flow is in a slot iff it holds packets", at, is_listed == (packets > 0))?;
            let Some(inverse) = NonZeroU32::new(k.inverse) else {
                holds("a flow not added is idle", at, k.state == State::Idle)?;
                continue;
            };
            Imbalance::check("share of a flow", at, k.share, share(inverse))?;
            weights.exchange(None, Some(inverse), k.state != State::Idle);
            let group = group_of(at, k);
            Imbalance::check("group of a flow", at, k.group.into(), group.into())?;
            if is_listed {
                let width = Width::of_group(group.into());
                let latest = now.floor(width).plus(width.span());
                let rounded = k.start.floor(width);
                holds("S <= [V] + slot (Theorem 1)", at, !rounded.is_after(latest))?;
            }
        }
        let ours = &self.weights;
        Imbalance::check("sum of the weights", 0, ours.added.into(), weights.added.into())?;
        Imbalance::check("sum of the shares", 0, ours.counted, weights.counted)?;
        Imbalance::check("sum of all shares", 0, ours.all, weights.all)?;
        let (booked, counted) = (ours.most_per_byte(), weights.most_per_byte());
        Imbalance::check("the most that a byte adds to V", 0, booked.into(), counted.into())
    }

    /// Returns the number of flows in the slots of group `i`.
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
                holds("a listed flow is backlogged", here, k.state == State::Backlogged)?;
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

    /// Checks that `V` enters no slot that a group waits for before it reaches the alarm.
    fn recount_alarm(&self, now: Virtual) -> Result<(), Imbalance> {
        let waiting = self.sets.ineligible() | self.lingering;
        for i in (0..GROUP_COUNT).filter(|&i| waiting & bit(i) != 0) {
            let width = Width::of_group(i);
            let next_slot = now.floor(width).plus(width.span());
            holds("the alarm is not late", i, !self.alarm.is_after(next_slot))?;
        }
        holds("the alarm is set if a flow is due", 0, self.due == 0 || !self.alarm.is_after(now))
    }

    /// Returns the number of lingering flows of group `i`.
    fn recount_lingering(&self, i: u32, table: &[QfqFlow]) -> Result<u64, Imbalance> {
        if self.lingering & bit(i) == 0 {
            return holds("a group that is due has flows", i, self.due & bit(i) == 0).map(|()| 0);
        }
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return Ok(0) };
        let (mut here, mut before, mut listed) = (group.lingering.head, None, 1);
        while let Some(k) = table.get(here as usize) {
            holds("a flow on the list lingers", here, k.state == State::Lingering)?;
            Imbalance::check("group of a lingering flow", here, i.into(), k.group.into())?;
            holds("links agree", here, before.is_none_or(|before| k.prev == before))?;
            if here == group.lingering.tail {
                return Ok(listed);
            }
            listed += 1;
            holds("lists end", here, listed <= table.len() as u64)?;
            (before, here) = (Some(here), k.next);
        }
        holds("a lingering flow exists", here, false).map(|()| 0)
    }

    /// Asserts, in debug builds and after every change, that no flow starts after a ready group
    /// above its own finishes.
    ///
    /// From this follow Lemma 4, the order of `ER` and `EB` by `F`, and Theorem 6. It holds for
    /// three reasons:
    ///
    /// - The flow served belongs to the group with the smallest `F` of `ER`.
    /// - A flow that becomes backlogged starts no later than `F_b` (eq. 17).
    /// - A group that becomes eligible has `F_b ≥ ⌊V⌋_b + 2σ_b`, while no rounded start of a lower
    ///   group `h` is beyond `⌊V⌋_h + σ_h` (Theorem 1).
    #[inline]
    pub(super) fn assert_order(&self) {
        #[cfg(debug_assertions)]
        {
            let mut earliest: Option<Virtual> = None;
            for (i, group) in (0..GROUP_COUNT).zip(&self.groups).rev() {
                let width = Width::of_group(i);
                let ahead = group.full.rotate_right(width.slot_of(group.start));
                let Some(slots) = ahead.checked_ilog2() else { continue };
                let latest = group.start.plus(width.slots(slots));
                let in_order = earliest.is_none_or(|finish| !latest.is_after(finish));
                debug_assert!(in_order, "group {i} starts after a ready group above finishes");
                if self.sets.ready & bit(i) != 0 {
                    let finish = group.finish(width);
                    let is_earlier = earliest.is_none_or(|found| found.is_after(finish));
                    earliest = if is_earlier { Some(finish) } else { earliest };
                }
            }
        }
    }

    fn recount_sets(&self, now: Virtual, i: u32) -> Result<(), Imbalance> {
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return Ok(()) };
        let eligible = !group.start.is_after(now);
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
        // For every group b in ER and every flow of a lower group, the rounded start is at most
        // F_b. This keeps ER and EB ordered; the last slot in use has the latest start.
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
