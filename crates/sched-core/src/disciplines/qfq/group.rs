//! A group: flows of like `L/φ`, bucket-sorted by their rounded start (QFQ §IV-2, Fig. 2).
//!
//! A slot is a list of the flows with one value of `⌊S⌋_σ`, first come first served. Slots lie on a
//! circle of 32 and are named by the low bits of `⌊S⌋/σ` itself. The front slot is the one of the
//! group's own `S`, and a flow's slot the one of the flow's `S`. So the circle never has to be
//! turned.
//!
//! # The bound on the slots
//! With `d` the distance of a flow's slot from the front slot, `d ≤ 30` (Theorem 3):
//! * a flow that was just served has `S = F ≤ S_old + σ` and was in the front slot: `d ≤ 1`;
//! * a flow that becomes backlogged has at most `S = V ≤ F_i + L/Σφ` (Theorem 2). One packet moves
//!   `V` by at most `L · inverse ≤ 28 · L_eff · inverse ≤ 28σ`, whichever weights count
//!   (`weights.rs`): `d ≤ 2 + 28`;
//! * a front slot that steps back does so by one slot and only while no other slot is in use.
//!
//! Slot 31 is the spare one for the step back. The second case takes Theorem 2, which holds while
//! flows and weights stay: a flow that is removed and added, or changed, while others are
//! backlogged can take more than its share. Then `d` is cut to 30, which moves a start back and
//! delays no flow.
//!
//! # Flows that linger
//! Idle flows whose weight still counts are on one list a group, in the order they became idle.
//! They come with an `F` between `V − L·m` and `V + 2σ`: one that waits behind another with a later
//! `F` counts longer by no more than that.

use super::virtual_time::{SLOTS, Virtual, Width};
use crate::steps::look;

/// The largest distance of a slot in use from the front slot.
pub(super) const MAX_DISTANCE: u32 = u32::BITS - 2;

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not backlogged, or not added; nothing is remembered of it.
    Idle,
    /// Idle, and its weight counts: on the list of its group.
    Lingering,
    /// In a slot.
    Backlogged,
}

/// What QFQ keeps of a flow: 32 bytes. Opaque; make tables of [`QfqFlow::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct QfqFlow {
    /// Backlogged: `S`, the start of its first packet. Lingering: `F` of its last one, the
    /// earliest start of the next (eq. 2). The other one of the two is never needed: `S` of the
    /// packet behind is `F` of the packet sent, known when that is sent. Idle: stale.
    pub(super) start: Virtual,
    /// `⌈2^60 / inverse⌉`: what it is in the sum.
    pub(super) share: u64,
    /// The flow behind this one in its list; stale at the tail.
    pub(super) next: u32,
    /// The flow before this one in its list; stale at the head.
    pub(super) prev: u32,
    /// `⌊2^30 / weight⌋`; zero if and only if the flow was not added.
    pub(super) inverse: u32,
    pub(super) max_len: u16,
    pub(super) group: u8,
    pub(super) state: State,
}

impl QfqFlow {
    /// A flow that was not added.
    pub const EMPTY: Self = Self {
        start: Virtual(0),
        share: 0,
        next: 0,
        prev: 0,
        inverse: 0,
        max_len: 0,
        group: 0,
        state: State::Idle,
    };
}

/// The ends of a list of flows; stale while no flow is on it, which the owner knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Ends {
    const EMPTY: Self = Self { head: 0, tail: 0 };

    /// Appends `flow`; `first` says that no other is here.
    fn append(&mut self, flows: &mut [QfqFlow], flow: u32, first: bool) {
        if first {
            self.head = flow;
        } else {
            look();
            if let Some(tail) = flows.get_mut(self.tail as usize) {
                tail.next = flow;
            }
            if let Some(k) = flows.get_mut(flow as usize) {
                k.prev = self.tail;
            }
        }
        self.tail = flow;
    }

    /// Takes out `flow`, whose record is `k`, wherever it is; returns whether none is left.
    fn unlink(&mut self, flows: &mut [QfqFlow], flow: u32, k: QfqFlow) -> bool {
        let (first, last) = (self.head == flow, self.tail == flow);
        if first && last {
            return true;
        }
        if first {
            self.head = k.next;
        } else if let Some(prev) = flows.get_mut(k.prev as usize) {
            look();
            prev.next = k.next;
        }
        if last {
            self.tail = k.prev;
        } else if let Some(next) = flows.get_mut(k.next as usize) {
            look();
            next.prev = k.prev;
        }
        false
    }
}

/// One group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// `S_i`: the smallest rounded start of its flows (eq. 6); stale while it has none.
    pub(super) start: Virtual,
    /// Bit `s`: slot `s` of the circle is in use.
    pub(super) full: u32,
    pub(super) slots: [Ends; SLOTS],
    /// The idle flows that count.
    pub(super) lingering: Ends,
}

impl Group {
    pub(super) const EMPTY: Self =
        Self { start: Virtual(0), full: 0, slots: [Ends::EMPTY; SLOTS], lingering: Ends::EMPTY };

    /// `F_i = S_i + 2σ_i` (eq. 6).
    pub(super) const fn finish(&self, width: Width) -> Virtual {
        self.start.plus(width.interval())
    }

    /// The front slot; stale while the group has none.
    pub(super) fn front(&self, width: Width) -> Option<&Ends> {
        self.slots.get(width.slot_of(self.start) as usize % SLOTS)
    }

    /// The first flow of the front slot; stale while the group has none.
    pub(super) fn first(&self, width: Width) -> u32 {
        self.front(width).map_or(0, |ends| ends.head)
    }

    /// Appends `flow` to the slot of `time`.
    pub(super) fn append(&mut self, width: Width, flows: &mut [QfqFlow], flow: u32, time: Virtual) {
        let slot = width.slot_of(time);
        let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) else { return };
        look();
        ends.append(flows, flow, self.full & 1 << slot == 0);
        self.full |= 1 << slot;
    }

    /// Appends `flow` to the front slot of the group, which has one.
    pub(super) fn append_to_front(&mut self, width: Width, flows: &mut [QfqFlow], flow: u32) {
        let slot = width.slot_of(self.start);
        if let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) {
            ends.append(flows, flow, false);
        }
    }

    /// Takes the first flow, behind which is `next`, out of the front slot; returns whether that
    /// leaves the slot empty.
    pub(super) fn pop_first(&mut self, width: Width, next: u32) -> bool {
        let slot = width.slot_of(self.start);
        let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) else { return false };
        look();
        let last = ends.head == ends.tail;
        ends.head = next; // stale if it was the last
        self.full &= !(u32::from(last) << slot);
        last
    }

    /// Takes the first flow, behind which is `next`, out of the front slot, unless it is the last
    /// one there; returns whether.
    pub(super) fn pop_first_of_many(&mut self, width: Width, next: u32) -> bool {
        let slot = width.slot_of(self.start);
        let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) else { return false };
        let others = ends.head != ends.tail;
        if others {
            look();
            ends.head = next;
        }
        others
    }

    /// Takes `flow`, whose record is `k`, out of its slot, wherever in the list it is; returns
    /// whether that leaves the front slot empty.
    pub(super) fn unlink(
        &mut self,
        width: Width,
        flows: &mut [QfqFlow],
        flow: u32,
        k: QfqFlow,
    ) -> bool {
        let slot = width.slot_of(k.start);
        let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) else { return false };
        look();
        let empties = ends.unlink(flows, flow, k);
        self.full &= !(u32::from(empties) << slot);
        empties && slot == width.slot_of(self.start)
    }

    /// Appends `flow`, idle, to those that linger; `first` says that no other does.
    pub(super) fn append_lingering(&mut self, flows: &mut [QfqFlow], flow: u32, first: bool) {
        look();
        self.lingering.append(flows, flow, first);
    }

    /// Takes `flow`, whose record is `k`, out of those that linger; returns whether none is left.
    pub(super) fn unlink_lingering(
        &mut self,
        flows: &mut [QfqFlow],
        flow: u32,
        k: QfqFlow,
    ) -> bool {
        look();
        self.lingering.unlink(flows, flow, k)
    }

    /// Moves `S_i` on to the first slot in use; `false` if there is none.
    pub(super) fn advance(&mut self, width: Width) -> bool {
        let ahead = self.full.rotate_right(width.slot_of(self.start)).trailing_zeros();
        if ahead >= u32::BITS {
            return false;
        }
        self.start = self.start.plus(width.slots(ahead));
        true
    }
}
