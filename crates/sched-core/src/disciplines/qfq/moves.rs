//! What moves when a group's front slot empties and when `V` goes on: groups from set to set (QFQ
//! Figs. 4 and 5).

use super::eligibility::bit;
use super::virtual_time::{GROUPS, Virtual, Width, entered};
use super::{Core, QfqFlow};
use crate::steps::look;

/// What `V` steps on by when the last flow has become idle: no stored `F` is as far ahead. A flow
/// is served with `S < ⌊V⌋ + σ` and leaves otherwise with `S < ⌊V⌋ + 2σ` (Theorem 1), so its `F` is
/// less than `V + 2σ ≤ V + 2^47`.
const IDLE_STEP: u64 = 1 << 48;

/// How far ahead of `V` the alarm is set while no flow waits: beyond every slot, and not behind `V`
/// modulo 2^64.
const FAR: u64 = 1 << 62;

impl Core {
    /// The front slot of group `i` has become empty: its `S` moves to its next slot, or it is idle,
    /// and the groups it blocked may be ready (Fig. 4, lines 21-36).
    #[inline(never)] // once in many packets: it would cost the others registers
    pub(super) fn regroup(&mut self, i: u32) {
        let width = Width::of_group(i);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        look();
        let was_blocking = self.sets.ready & bit(i) != 0;
        let old_finish = group.finish(width);
        let is_backlogged = group.advance(width);
        self.sets.remove(i);
        // A group as early as the old F_i blocks what that blocked.
        let blocker = self.sets.first_ready_above(i);
        let later = blocker.is_none_or(|b| self.finish(b).is_after(old_finish));
        if is_backlogged {
            self.sort_in(i);
        }
        if was_blocking && later {
            self.sets.unblock_below(i);
        }
    }

    /// Puts group `i`, in no set, where it belongs (`compute_group_state()`, Fig. 5).
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

    /// `F_i`.
    pub(super) fn finish(&self, i: u32) -> Virtual {
        look();
        let group = self.groups.get(i as usize % GROUPS);
        group.map_or(Virtual(0), |group| group.finish(Width::of_group(i)))
    }

    /// `V` was `before`. If nothing is eligible it jumps to the smallest `S_i` (eq. 7); then the
    /// groups whose slots it has entered are eligible (Fig. 4, lines 38-45), and their idle flows
    /// are due.
    #[inline] // little is left to do for most packets
    pub(super) fn keep_eligible(&mut self, flows: &mut [QfqFlow], before: Virtual) {
        if self.sets.first_ready().is_none() {
            self.jump();
        }
        if self.is_awaited() {
            self.enter_slots(flows, before);
        }
    }

    /// Whether `V` may have entered a slot that a group waits for, or a group has waited long
    /// enough.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        !self.alarm.is_after(self.now)
    }

    /// Group `i` waits for the next slot of its width.
    pub(super) fn wait(&mut self, i: u32) {
        let width = Width::of_group(i);
        let next_slot = self.now.floor(width).plus(width.span());
        if self.alarm.is_after(next_slot) {
            self.alarm = next_slot;
        }
    }

    /// `V` was `before`, and may have entered slots since.
    #[inline(never)] // seldom
    pub(super) fn enter_slots(&mut self, flows: &mut [QfqFlow], before: Virtual) {
        let entered = entered(before, self.now);
        self.sets.make_eligible(entered);
        self.due |= self.lingering & entered;
        if self.due != 0 {
            self.let_go(flows);
        }
        self.next = self.first();
        // Groups that are due are looked at again in the next call; else the narrowest comes first.
        self.alarm = self.now;
        if self.due == 0 {
            self.alarm = self.now.plus(FAR);
            let waiting = self.sets.ineligible() | self.lingering;
            if waiting != 0 {
                self.wait(waiting.trailing_zeros());
            }
        }
    }

    /// Nothing is eligible: `V` goes on to where something is, or, with nothing backlogged, past
    /// everything that is stored.
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
