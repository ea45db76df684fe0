//! Groups: flows of similar `L/φ`, bucket-sorted by their rounded start (QFQ §IV-2, Fig. 2).
//!
//! A slot is a FIFO list of the flows with one value of `⌊S⌋_σ`. The 32 slots form a circle and are
//! indexed by the low bits of `⌊S⌋/σ` itself. The group's own `S` gives the front slot, and a
//! flow's `S` the slot of the flow. So the circle never has to be rotated.
//!
//! # The bound on the slots
//! Let `d` be the distance of a flow's slot from the front slot. Then `d ≤ 30` (Theorem 3):
//! * A flow that was just served has `S = F ≤ S_old + σ` and was in the front slot: `d ≤ 1`.
//! * A flow that becomes backlogged has at most `S = V ≤ F_i + L/Σφ` (Theorem 2). One packet moves
//!   `V` by at most `L · inverse ≤ 28 · L_eff · inverse ≤ 28σ`, whichever weights count
//!   (`weights.rs`): `d ≤ 2 + 28`.
//! * The front slot moves back by one slot only, and only while no other slot is in use.
//!
//! Slot 31 is reserved for that step back. The second case relies on Theorem 2, which holds while
//! flows and weights do not change: a flow that is removed and added, or changed, while others are
//! backlogged can take more than its share. Then `d` is limited to 30, which moves a start back and
//! delays no flow.
//!
//! # Lingering flows
//! Idle flows whose weight still counts are on one list per group, in the order in which they
//! became idle. They enter it with an `F` between `V − L·m` and `V + 2σ`, so a flow behind another
//! with a later `F` counts longer by no more than that range.

use super::virtual_time::{SLOTS, Virtual, Width};
use crate::steps::look;

/// The largest distance of a slot in use from the front slot.
pub(super) const MAX_DISTANCE: u32 = u32::BITS - 2;

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not backlogged, or not added; no stored `F`.
    Idle,
    /// Idle, and its weight counts: on the list of its group.
    Lingering,
    /// In a slot.
    Backlogged,
}

/// State of one flow of QFQ: 32 bytes. Opaque; fill tables with [`QfqFlow::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct QfqFlow {
    /// Backlogged: `S`, the start of its first packet. Lingering: `F` of its last packet, the
    /// earliest start of the next (eq. 2). Idle: stale.
    ///
    /// One field suffices: `S` of the next packet is `F` of the packet sent, known when that is
    /// sent.
    pub(super) start: Virtual,
    /// `⌈2^60 / inverse⌉`: its term in the sum of shares.
    pub(super) share: u64,
    /// The next flow in its list; stale at the tail.
    pub(super) next: u32,
    /// The previous flow in its list; stale at the head.
    pub(super) prev: u32,
    /// `⌊2^30 / weight⌋`; zero if and only if the flow was not added.
    pub(super) inverse: u32,
    pub(super) max_len: u16,
    pub(super) group: u8,
    pub(super) state: State,
}

impl QfqFlow {
    /// A flow that has not been added.
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

/// The ends of a list of flows; stale while the list is empty, which the owner tracks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Ends {
    const EMPTY: Self = Self { head: 0, tail: 0 };

    /// Appends `flow`; `first` means that the list is empty.
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

    /// Removes `flow`, whose record is `k`, from any position. Returns true if the list is then
    /// empty.
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

/// A group of flows.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// `S_i`: the smallest rounded start of its flows (eq. 6); stale while the group is empty.
    pub(super) start: Virtual,
    /// Bit `s` is set if slot `s` of the circle is in use.
    pub(super) full: u32,
    pub(super) slots: [Ends; SLOTS],
    /// The idle flows that still count.
    pub(super) lingering: Ends,
}

impl Group {
    pub(super) const EMPTY: Self =
        Self { start: Virtual(0), full: 0, slots: [Ends::EMPTY; SLOTS], lingering: Ends::EMPTY };

    /// Returns `F_i = S_i + 2σ_i` (eq. 6).
    pub(super) const fn finish(&self, width: Width) -> Virtual {
        self.start.plus(width.interval())
    }

    /// Returns the front slot; stale while the group is empty.
    pub(super) fn front(&self, width: Width) -> Option<&Ends> {
        self.slots.get(width.slot_of(self.start) as usize % SLOTS)
    }

    /// Returns the first flow of the front slot; stale while the group is empty.
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

    /// Appends `flow` to the front slot, which must be in use.
    pub(super) fn append_to_front(&mut self, width: Width, flows: &mut [QfqFlow], flow: u32) {
        let slot = width.slot_of(self.start);
        if let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) {
            ends.append(flows, flow, false);
        }
    }

    /// Removes the first flow, followed by `next`, from the front slot. Returns true if the slot is
    /// then empty.
    pub(super) fn pop_first(&mut self, width: Width, next: u32) -> bool {
        let slot = width.slot_of(self.start);
        let Some(ends) = self.slots.get_mut(slot as usize % SLOTS) else { return false };
        look();
        let last = ends.head == ends.tail;
        ends.head = next; // stale if it was the last
        self.full &= !(u32::from(last) << slot);
        last
    }

    /// Removes the first flow, followed by `next`, from the front slot, unless it is the last one
    /// there. Returns true if removed.
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

    /// Removes `flow`, whose record is `k`, from its slot, at any position of the list. Returns
    /// true if the front slot is then empty.
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

    /// Appends the idle `flow` to the lingering flows; `first` means that there are none.
    pub(super) fn append_lingering(&mut self, flows: &mut [QfqFlow], flow: u32, first: bool) {
        look();
        self.lingering.append(flows, flow, first);
    }

    /// Removes `flow`, whose record is `k`, from the lingering flows. Returns true if none is left.
    pub(super) fn unlink_lingering(
        &mut self,
        flows: &mut [QfqFlow],
        flow: u32,
        k: QfqFlow,
    ) -> bool {
        look();
        self.lingering.unlink(flows, flow, k)
    }

    /// Advances `S_i` to the first slot in use. Returns false if there is none.
    pub(super) fn advance(&mut self, width: Width) -> bool {
        let ahead = self.full.rotate_right(width.slot_of(self.start)).trailing_zeros();
        if ahead >= u32::BITS {
            return false;
        }
        self.start = self.start.plus(width.slots(ahead));
        true
    }
}
