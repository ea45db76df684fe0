//! Moves of groups from set to set, when a group's front slot empties and when `V` advances (QFQ
//! Figs. 4 and 5).

use super::eligibility::bit;
use super::virtual_time::{GROUPS, Virtual, Width, entered};
use super::{Core, QfqFlow};
use crate::steps::look;

/// Advance of `V` when the last flow has become idle: no stored `F` is as far ahead. A flow is
/// served with `S < ⌊V⌋ + σ` and leaves otherwise with `S < ⌊V⌋ + 2σ` (Theorem 1), so its `F` is
/// less than `V + 2σ ≤ V + 2^47`.
const IDLE_STEP: u64 = 1 << 48;

/// Distance of the alarm from `V` while no flow waits: beyond every slot, and not behind `V` modulo
/// 2^64.
const FAR: u64 = 1 << 62;

impl Core {
    /// Updates group `i`, whose front slot has become empty: its `S` moves to its next slot, or it
    /// becomes idle, and the groups it blocked may become ready (Fig. 4, lines 21-36).
    #[inline(never)] // seldom called: inlined it would cost the other paths registers
    pub(super) fn regroup(&mut self, i: u32) {
        let width = Width::of_group(i);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        look();
        let was_blocking = self.sets.ready & bit(i) != 0;
        let old_finish = group.finish(width);
        let is_backlogged = group.advance(width);
        self.sets.remove(i);
        // A group with an F as early as the old F_i blocks what group i blocked.
        let blocker = self.sets.first_ready_above(i);
        let later = blocker.is_none_or(|b| self.finish(b).is_after(old_finish));
        if is_backlogged {
            self.sort_in(i);
        }
        if was_blocking && later {
            self.sets.unblock_below(i);
        }
    }

    /// Inserts group `i`, which is in no set, into its set (`compute_group_state()`, Fig. 5).
    pub(super) fn sort_in(&mut self, i: u32) {
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return };
        look();
        let eligible = !group.start.is_after(self.now);
        let finish = group.finish(Width::of_group(i));
        let blocker = self.sets.first_ready_above(i);
        let blocked = blocker.is_some_and(|b| finish.is_after(self.finish(b)));
        self.sets.insert(i, eligible, blocked);
        if !eligible {
            self.wait(i);
        }
    }

    /// Returns `F_i`.
    pub(super) fn finish(&self, i: u32) -> Virtual {
        look();
        let group = self.groups.get(i as usize % GROUPS);
        group.map_or(Virtual(0), |group| group.finish(Width::of_group(i)))
    }

    /// Handles an advance of `V` from `before`. If no group is eligible, `V` jumps to the smallest
    /// `S_i` (eq. 7). Then the groups whose slots it has entered become eligible (Fig. 4, lines
    /// 38-45), and their idle flows are due.
    #[inline] // for most packets this does little
    pub(super) fn keep_eligible(&mut self, flows: &mut [QfqFlow], before: Virtual) {
        if self.sets.first_ready().is_none() {
            self.jump();
        }
        if self.is_awaited() {
            self.enter_slots(flows, before);
        }
    }

    /// Returns true if `V` may have entered a slot that a group waits for, or if a group is due.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        !self.alarm.is_after(self.now)
    }

    /// Sets the alarm for group `i`, which waits for the next slot of its width.
    pub(super) fn wait(&mut self, i: u32) {
        let width = Width::of_group(i);
        let next_slot = self.now.floor(width).plus(width.span());
        if self.alarm.is_after(next_slot) {
            self.alarm = next_slot;
        }
    }

    /// Processes the slots that `V` may have entered since `before`.
    #[inline(never)] // seldom called
    pub(super) fn enter_slots(&mut self, flows: &mut [QfqFlow], before: Virtual) {
        let entered = entered(before, self.now);
        self.sets.make_eligible(entered);
        self.due |= self.lingering & entered;
        if self.due != 0 {
            self.let_go(flows);
        }
        self.next = self.first();
        // Due groups are examined again in the next call; otherwise the narrowest group waits for
        // its slot.
        self.alarm = self.now;
        if self.due == 0 {
            self.alarm = self.now.plus(FAR);
            let waiting = self.sets.ineligible() | self.lingering;
            if waiting != 0 {
                self.wait(waiting.trailing_zeros());
            }
        }
    }

    /// Advances `V`, when no group is eligible, to where one is, or, if no flow is backlogged, past
    /// every stored `F`.
    #[cold]
    fn jump(&mut self) {
        let Some(first) = self.sets.first_ineligible() else {
            self.now = self.now.plus(IDLE_STEP);
            return;
        };
        look();
        if let Some(group) = self.groups.get(first as usize % GROUPS)
            && group.start.is_after(self.now)
        {
            self.now = group.start;
        }
    }
}
