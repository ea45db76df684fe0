//! The backlogged flows, on one list for the single ones and on one for each class of length.

use crate::flow_scheduler::FlowState;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// Class `k` begins at `2^k` bytes. The last class, from 2^30 bytes on, has no end.
const CLASSES: usize = u32::BITS as usize - 1;

/// The last class.
const LAST: u32 = u32::BITS - 2;

/// Single flows that are looked at for a victim.
const SINGLES: usize = 8;

/// Room for one flow of [`LongestQueueDrop`](super::LongestQueueDrop): 16 bytes, all zero while the flow is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestFlow {
    /// What the flow holds; zero if and only if it is idle.
    bytes: u32,
    /// The bytes from which on the flow moves to a higher class: twice the least of its class. With less than a quarter
    /// of it the flow moves to a lower one. 0 while the flow is idle or single.
    high: u32,
    /// The flow that came to the list next before this one; [`NONE`] for the oldest of the list.
    older: u32,
    /// The flow that came to the list next after this one. For the newest of a class it is the oldest; for the newest single
    /// flow it is stale.
    newer: u32,
}

impl LongestFlow {
    /// What a table is filled with.
    pub const EMPTY: Self = Self { bytes: 0, high: 0, older: 0, newer: 0 };

    /// The flow holds `len` bytes more. Returns whether [`Lists::relist_grown`] is to be asked, as for every flow that was
    /// single or idle.
    #[inline(always)]
    pub(super) const fn grows(&mut self, len: u32) -> bool {
        self.bytes = self.bytes.wrapping_add(len);
        self.bytes >= self.high
    }

    /// The flow holds `len` bytes fewer, unless that were none. Returns whether it has to move.
    #[inline(always)]
    pub(super) const fn shrinks(&mut self, len: u32) -> bool {
        if !self.holds_more_than(len) {
            return false;
        }
        self.bytes = self.bytes.wrapping_sub(len);
        self.bytes < self.high >> 2
    }

    #[inline(always)]
    pub(super) const fn holds_more_than(&self, len: u32) -> bool {
        self.bytes > len
    }

    const fn is_backlogged(&self) -> bool {
        self.bytes != 0
    }

    /// The bytes from which on the flow moves to a higher class, 0 if it has none.
    #[cfg(test)]
    pub(super) const fn mark(&self) -> u32 {
        self.high
    }

    /// The class of the flow, which is neither idle nor single.
    #[inline(always)]
    const fn class(&self) -> u32 {
        self.high.trailing_zeros().wrapping_sub(1)
    }
}

/// Which flows are on which list; the links are in a table of [`LongestFlow`]s that every call is given.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// One more than the number of the single flow that came last; 0 if and only if no flow is single.
    newest_single: u32,
    /// One more than the number of the flow that entered each class last; 0 if and only if no flow is in it.
    newest: [u32; CLASSES],
    /// Bit `k` is set if and only if a flow is in class `k`.
    used: u32,
}

impl Lists {
    pub(super) const EMPTY: Self = Self { newest_single: 0, newest: [0; CLASSES], used: 0 };

    /// Lists `flow`, idle, as a single flow with `len` bytes, more than 0.
    #[inline]
    pub(super) fn list_single(&mut self, flows: &mut [LongestFlow], flow: FlowId, len: u32) {
        let Some(entry) = flows.get_mut(flow.index()).filter(|entry| !entry.is_backlogged()) else {
            return;
        };
        entry.bytes = len.max(1);
        let second = self.newest_single.wrapping_sub(1);
        self.newest_single = flow.0.wrapping_add(1);
        // Without another single flow, `second` is [`NONE`].
        entry.older = second;
        if let Some(second) = flows.get_mut(second as usize) {
            second.newer = flow.0;
        }
    }

    /// Takes `flow`, if it is backlogged, from its list: it is idle.
    #[inline]
    pub(super) fn unlist(&mut self, flows: &mut [LongestFlow], flow: FlowId) {
        let Some(entry) = flows.get_mut(flow.index()).filter(|entry| entry.is_backlogged()) else {
            return;
        };
        let before = *entry;
        (entry.bytes, entry.high) = (0, 0);
        self.leave(flows, flow, before);
    }

    /// [`Self::relist`] for a flow that has grown by `len` bytes. A flow that was idle stays idle.
    #[inline]
    pub(super) fn relist_grown(&mut self, flows: &mut [LongestFlow], flow: FlowId, len: u32) {
        match flows.get_mut(flow.index()) {
            Some(entry) if entry.bytes == len => entry.bytes = 0,
            _ => self.relist(flows, flow),
        }
    }

    /// Moves `flow`, which is backlogged, to the class of the bytes it holds now, as its newest.
    #[inline]
    pub(super) fn relist(&mut self, flows: &mut [LongestFlow], flow: FlowId) {
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        let before = *entry;
        let class = before.bytes.checked_ilog2().unwrap_or(0).min(LAST);
        entry.high = 2 << class;
        self.leave(flows, flow, before);
        self.enter(flows, flow, class);
    }

    /// Puts `flow`, on no list, into `class` as the newest.
    #[inline(always)]
    fn enter(&mut self, flows: &mut [LongestFlow], flow: FlowId, class: u32) {
        let Some(place) = self.newest.get_mut(class as usize) else { return };
        let second = place.wrapping_sub(1);
        *place = flow.0.wrapping_add(1);
        let newer = match flows.get_mut(second as usize) {
            Some(second) => core::mem::replace(&mut second.newer, flow.0),
            None => {
                self.used |= 1 << (class % u32::BITS);
                flow.0
            }
        };
        if let Some(entry) = flows.get_mut(flow.index()) {
            // Without another flow in the class, `second` is [`NONE`].
            (entry.older, entry.newer) = (second, newer);
        }
    }

    /// Takes `flow` from the list that `before` names, from between the neighbours that `before` names.
    #[inline(always)]
    fn leave(&mut self, flows: &mut [LongestFlow], flow: FlowId, before: LongestFlow) {
        let LongestFlow { older, newer, .. } = before;
        if before.high == 0 {
            if self.newest_single == flow.0.wrapping_add(1) {
                self.newest_single = older.wrapping_add(1);
            } else if let Some(other) = flows.get_mut(newer as usize) {
                other.older = older;
            }
            if let Some(other) = flows.get_mut(older as usize) {
                other.newer = newer;
            }
            return;
        }
        let class = before.class();
        let Some(place) = self.newest.get_mut(class as usize) else { return };
        let newest = place.wrapping_sub(1);
        if newest != flow.0 {
            if let Some(other) = flows.get_mut(newer as usize) {
                other.older = older;
            }
            // The oldest flow is named by the newest; every other flow is named by the one that is next older.
            let names_it = if older == NONE { newest } else { older };
            if let Some(other) = flows.get_mut(names_it as usize) {
                other.newer = newer;
            }
            return;
        }
        *place = older.wrapping_add(1);
        match flows.get_mut(older as usize) {
            Some(other) => other.newer = newer,
            None => self.used &= !(1 << (class % u32::BITS)),
        }
    }

    /// The first of these that holds the most: the oldest flow of the highest class in use, then the newest single flows.
    pub(super) fn longest(&self, flows: &[LongestFlow]) -> Option<FlowId> {
        let held = |flow: u32| Some((flow, flows.get(flow as usize)?.bytes));
        let highest = self.used.checked_ilog2();
        let mut longest = highest.and_then(|class| held(self.oldest(flows, class)?));
        let mut next = self.newest_single.wrapping_sub(1);
        for _ in 0..SINGLES {
            let Some(entry) = flows.get(next as usize) else { break };
            crate::steps::step();
            if longest.is_none_or(|(_, most)| entry.bytes > most) {
                longest = Some((next, entry.bytes));
            }
            next = entry.older;
        }
        longest.map(|(flow, _)| FlowId(flow))
    }

    /// The flow that came to `class` least recently.
    fn oldest(&self, flows: &[LongestFlow], class: u32) -> Option<u32> {
        let newest = self.newest.get(class as usize)?.wrapping_sub(1);
        flows.get(newest as usize).map(|newest| newest.newer)
    }

    /// Compares bytes with the truth about the flows, and walks all lists. O(flows).
    pub(super) fn recount(
        &self,
        flows: &[LongestFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut backlogged = 0_u64;
        for (at, entry) in (0_u32..).zip(flows) {
            let held = truth(FlowId(at)).backlog;
            Imbalance::check("bytes of a flow", at, entry.bytes.into(), held.bytes.into())?;
            backlogged = backlogged.wrapping_add(entry.is_backlogged().into());
        }
        let mut found = 0_u64;
        let newest = self.newest_single.wrapping_sub(1);
        walk(flows, newest, &mut found, backlogged, &|flow, entry| {
            let packets = truth(FlowId(flow)).backlog.packets;
            Imbalance::check("packets of a single flow", flow, 1, packets.into())?;
            Imbalance::check("the list of a flow", flow, entry.high.into(), 0)
        })?;
        for (class, &place) in (0_u32..).zip(&self.newest) {
            let used = self.used >> (class % u32::BITS) & 1;
            Imbalance::check("a class is used", class, used.into(), (place != 0).into())?;
            let newest = place.wrapping_sub(1);
            let oldest = walk(flows, newest, &mut found, backlogged, &|flow, entry| {
                let booked = u64::from(entry.class());
                Imbalance::check("the class of a flow", flow, booked, class.into())?;
                // From half of the least length of the class to twice of it; the last class has no end.
                let halves = (u64::from(entry.bytes) << 1) >> class;
                let most = if class == LAST { u64::MAX } else { 3 };
                let fits = (1..=most).contains(&halves);
                Imbalance::check("a flow fits its class", flow, 1, fits.into())
            })?;
            let known = flows.get(newest as usize).map_or(NONE, |newest| newest.newer);
            Imbalance::check("the oldest of a class", class, known.into(), oldest.into())?;
        }
        Imbalance::check("flows on lists", 0, found, backlogged)
    }
}

/// Walks from `newest` to the oldest flow of a list and asks `check` of each; counts them in `found`, up to one more than
/// `most`. Returns the oldest.
fn walk(
    flows: &[LongestFlow],
    newest: u32,
    found: &mut u64,
    most: u64,
    check: &dyn Fn(u32, &LongestFlow) -> Result<(), Imbalance>,
) -> Result<u32, Imbalance> {
    let (mut here, mut newer) = (newest, NONE);
    while let Some(entry) = flows.get(here as usize) {
        check(here, entry)?;
        if here != newest {
            Imbalance::check("links point both ways", here, entry.newer.into(), newer.into())?;
        }
        *found = found.wrapping_add(1);
        if *found > most {
            break; // a cycle, or a miscount: either way the count of all flows says so
        }
        newer = here;
        here = entry.older;
    }
    Ok(newer)
}
