//! The backlogged flows of a host, in classes by powers of two of the bytes they hold.

use crate::Imbalance;
use crate::queues::queue::NONE;

/// Powers of two that a number of bytes can have.
const CLASSES: usize = u32::BITS as usize;

/// Room for one flow of [`LongestHostDrop`](super::LongestHostDrop): 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFlow {
    /// Zero if and only if the flow is idle.
    pub(super) bytes: u32,
    /// The host for which the flow counts while it is backlogged.
    pub(super) host: u32,
    /// Neighbours on the list of the class, which is a ring; stale while idle.
    next: u32,
    prev: u32,
}

impl HeldFlow {
    /// An idle flow.
    pub const EMPTY: Self = Self { bytes: 0, host: 0, next: 0, prev: 0 };

    /// A flow of `host` that holds `bytes` bytes, on no list.
    pub(super) const fn of(host: u32, bytes: u32) -> Self {
        Self { bytes, host, ..Self::EMPTY }
    }
}

impl Default for HeldFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The backlogged flows of a host of [`LongestHostDrop`](super::LongestHostDrop), a list for each class:
/// 132 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClasses {
    /// Bit `c` is set if and only if a flow is in class `c`.
    used: u32,
    /// The flow that has been in each class longest; stale unless the class is used.
    heads: [u32; CLASSES],
}

impl HostClasses {
    /// A host without backlogged flows.
    pub const EMPTY: Self = Self { used: 0, heads: [0; CLASSES] };

    /// Of the flows in the highest class, the one that has been there longest.
    #[inline]
    pub(super) fn first_of_highest(&self) -> Option<u32> {
        self.heads.get(self.used.checked_ilog2()? as usize).copied()
    }

    /// Moves `flow` from the class of `before` bytes to the tail of the class of `held.bytes`, which must be another
    /// one. 0 bytes have no class.
    #[inline]
    pub(super) fn reclass(
        &mut self,
        flows: &mut [HeldFlow],
        flow: u32,
        before: u32,
        held: HeldFlow,
    ) {
        let (mut used, is_alone) = (self.used, held.next == flow);
        if let Some(class) = before.checked_ilog2() {
            if is_alone {
                used &= !(1 << class);
            } else {
                self.unlink(flows, flow, held, class);
            }
        }
        if let Some(class) = held.bytes.checked_ilog2() {
            if used >> class & 1 != 0 {
                self.append(flows, flow, class);
            } else {
                used |= 1 << class;
                if let Some(head) = self.heads.get_mut(class as usize) {
                    *head = flow;
                }
                if !is_alone && let Some(place) = flows.get_mut(flow as usize) {
                    (place.next, place.prev) = (flow, flow);
                }
            }
        }
        self.used = used;
    }

    /// Puts `flow` behind the others of `class`, of which there are some.
    #[inline]
    fn append(&self, flows: &mut [HeldFlow], flow: u32, class: u32) {
        let next = self.heads.get(class as usize).copied().unwrap_or(NONE);
        let Some(first) = flows.get_mut(next as usize) else { return };
        let prev = core::mem::replace(&mut first.prev, flow);
        if let Some(last) = flows.get_mut(prev as usize) {
            last.next = flow;
        }
        if let Some(place) = flows.get_mut(flow as usize) {
            (place.next, place.prev) = (next, prev);
        }
    }

    /// Takes `flow` off the list of `class`, on which there are others; `held` names its neighbours.
    #[inline]
    fn unlink(&mut self, flows: &mut [HeldFlow], flow: u32, held: HeldFlow, class: u32) {
        let HeldFlow { next, prev, .. } = held;
        if let Some(head) = self.heads.get_mut(class as usize)
            && *head == flow
        {
            *head = next;
        }
        if let Some(before) = flows.get_mut(prev as usize) {
            before.next = next;
        }
        if let Some(behind) = flows.get_mut(next as usize) {
            behind.prev = prev;
        }
    }

    /// Walks the lists of `host`, checks links and classes, and hands each flow to `check`.
    pub(super) fn recount(
        &self,
        flows: &[HeldFlow],
        host: u32,
        check: &mut dyn FnMut(u32, &HeldFlow) -> Result<(), Imbalance>,
    ) -> Result<(), Imbalance> {
        for (class, &head) in (0_u32..).zip(&self.heads) {
            if self.used >> class & 1 == 0 {
                continue;
            }
            let (mut here, mut found) = (head, 0_usize);
            loop {
                let Some(held) = flows.get(here as usize) else {
                    return Imbalance::check("a class with a flow", host, 1, 0);
                };
                let booked = held.bytes.checked_ilog2().map_or(u64::MAX, u64::from);
                Imbalance::check("the class of a flow", here, booked, class.into())?;
                let back = flows.get(held.next as usize).map_or(NONE, |behind| behind.prev);
                Imbalance::check("links point both ways", here, here.into(), back.into())?;
                check(here, held)?;
                found = found.wrapping_add(1);
                here = held.next;
                if here == head || found > flows.len() {
                    break; // round, or a ring that misses its head: the count of flows says so
                }
            }
        }
        Ok(())
    }
}

impl Default for HostClasses {
    fn default() -> Self {
        Self::EMPTY
    }
}
