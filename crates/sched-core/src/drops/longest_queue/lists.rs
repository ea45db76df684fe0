//! Lists of the backlogged flows: one for single flows, and one per length class.

use super::class::{CLASSES, Class};
use crate::flow_scheduler::FlowState;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// Words that hold a bit per class.
const WORDS: u32 = CLASSES.div_ceil(u32::BITS);

/// Returns the index of the word with the bit of `class`.
#[inline(always)]
const fn word_of(class: u32) -> u32 {
    class >> u32::BITS.ilog2()
}

/// Number of single flows that are examined for a victim.
const SINGLES: usize = 8;

/// The entry of one flow in [`LongestQueueDrop`](super::LongestQueueDrop): 16 bytes, all zero
/// before the flow is backlogged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestFlow {
    /// Below this many bytes the flow moves to a lower class. The length of its packet while the
    /// flow is single. Zero if and only if the flow is idle.
    low: u32,
    /// From this many bytes on the flow moves to a higher class. Zero if and only if the flow is
    /// idle or single.
    high: u32,
    /// The flow that entered the list just before this one; [`NONE`] for the oldest of the list.
    /// Stale while the flow is idle.
    older: u32,
    /// The flow that entered the list just after this one. For the newest of a class it is the
    /// oldest; for the newest single flow, and for an idle one, it is stale.
    newer: u32,
}

impl LongestFlow {
    /// The initial value of table entries.
    pub const EMPTY: Self = Self { low: 0, high: 0, older: 0, newer: 0 };

    /// Returns true if [`Lists::relist`] must be called after the flow has grown to `held` bytes;
    /// always true for a flow that was single or idle.
    #[inline(always)]
    pub(super) const fn is_reached_by(&self, held: u32) -> bool {
        held >= self.high
    }

    /// Returns true if [`Lists::relist`] must be called after the flow was served and holds `left`
    /// bytes.
    #[inline(always)]
    pub(super) const fn is_above(&self, left: u32) -> bool {
        left < self.low
    }

    const fn is_backlogged(&self) -> bool {
        self.low != 0
    }

    /// Returns true if the flow is backlogged and in no class.
    #[inline(always)]
    pub(super) const fn is_single(&self) -> bool {
        self.low != 0 && self.high == 0
    }

    #[cfg(test)]
    pub(super) const fn marks(&self) -> (u32, u32) {
        (self.low, self.high)
    }
}

/// The heads of all lists; the links are in a table of [`LongestFlow`]s that is passed to every
/// call.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// The newest single flow; [`NONE`] if and only if no flow is single.
    newest_single: u32,
    /// Bit `w` is set if and only if word `w` of `used` is not zero.
    used_words: u32,
    /// Bit `c` of word `w` is set if and only if a flow is in class `32·w + c`.
    used: [u32; WORDS as usize],
    /// The newest flow of each class, plus one; 0 if and only if the class is empty.
    newest: [u32; CLASSES as usize],
}

impl Lists {
    pub(super) const EMPTY: Self = Self {
        newest_single: NONE,
        used_words: 0,
        used: [0; WORDS as usize],
        newest: [0; CLASSES as usize],
    };

    /// Lists `flow`, idle, as a single flow with `len` bytes, more than 0.
    #[inline(always)]
    pub(super) fn list_single(&mut self, flows: &mut [LongestFlow], flow: FlowId, len: u32) {
        let Some(entry) = flows.get_mut(flow.index()).filter(|entry| !entry.is_backlogged()) else {
            return;
        };
        entry.low = len.max(1);
        let second = core::mem::replace(&mut self.newest_single, flow.0);
        // Without another single flow, `second` is [`NONE`].
        entry.older = second;
        if let Some(second) = flows.get_mut(second as usize) {
            second.newer = flow.0;
        }
    }

    /// Removes `flow`, which is single, from the list of single flows.
    #[inline(always)]
    pub(super) fn unlist_single(&mut self, flows: &mut [LongestFlow], flow: FlowId) {
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        let LongestFlow { older, newer, .. } = *entry;
        entry.low = 0;
        if self.newest_single == flow.0 {
            self.newest_single = older;
        } else if let Some(other) = flows.get_mut(newer as usize) {
            other.older = older;
        }
        if let Some(other) = flows.get_mut(older as usize) {
            other.newer = newer;
        }
    }

    /// Moves `flow`, if it is backlogged, to the class of the `held` bytes that it holds now, as
    /// the newest there; off all lists if `held` is 0.
    #[inline(always)]
    pub(super) fn relist(&mut self, flows: &mut [LongestFlow], flow: FlowId, held: u32) {
        let Some(entry) = flows.get_mut(flow.index()).filter(|entry| entry.is_backlogged()) else {
            return;
        };
        let before = *entry;
        (entry.low, entry.high) = (0, 0);
        if before.high == 0 {
            self.unlist_single(flows, flow);
        } else {
            self.leave(flows, flow, before);
        }
        if held != 0 {
            self.enter(flows, flow, Class::of(held));
        }
    }

    /// Adds `flow`, on no list, to `class` as the newest.
    #[inline(always)]
    fn enter(&mut self, flows: &mut [LongestFlow], flow: FlowId, class: Class) {
        let Some(place) = self.newest.get_mut(class.number as usize) else { return };
        let second = place.wrapping_sub(1);
        *place = flow.0.wrapping_add(1);
        let newer = match flows.get_mut(second as usize) {
            Some(second) => core::mem::replace(&mut second.newer, flow.0),
            None => {
                self.note_used(class.number);
                flow.0
            }
        };
        if let Some(entry) = flows.get_mut(flow.index()) {
            // Without another flow in the class, `second` is [`NONE`].
            *entry = LongestFlow { low: class.low, high: class.high, older: second, newer };
        }
    }

    /// Removes `flow` from the class with the upper mark in `before`, from between the neighbours
    /// in `before`.
    #[inline(always)]
    fn leave(&mut self, flows: &mut [LongestFlow], flow: FlowId, before: LongestFlow) {
        let LongestFlow { high, older, newer, .. } = before;
        let class = Class::number_below(high);
        let Some(place) = self.newest.get_mut(class as usize) else { return };
        let newest = place.wrapping_sub(1);
        if newest != flow.0 {
            if let Some(other) = flows.get_mut(newer as usize) {
                other.older = older;
            }
            // The oldest flow is linked from the newest; every other flow is linked from the next
            // older one.
            let names_it = if older == NONE { newest } else { older };
            if let Some(other) = flows.get_mut(names_it as usize) {
                other.newer = newer;
            }
            return;
        }
        *place = older.wrapping_add(1);
        match flows.get_mut(older as usize) {
            Some(other) => other.newer = newer,
            None => self.note_unused(class),
        }
    }

    #[inline(always)]
    fn note_used(&mut self, class: u32) {
        let word = word_of(class);
        if let Some(used) = self.used.get_mut(word as usize) {
            *used |= 1 << (class % u32::BITS);
            self.used_words |= 1 << (word % u32::BITS);
        }
    }

    #[inline(always)]
    fn note_unused(&mut self, class: u32) {
        let word = word_of(class);
        let Some(used) = self.used.get_mut(word as usize) else { return };
        *used &= !(1 << (class % u32::BITS));
        if *used == 0 {
            self.used_words &= !(1 << (word % u32::BITS));
        }
    }

    /// Returns the longest of the candidates: the oldest flow of the highest class in use, then the
    /// newest single flows.
    pub(super) fn longest(
        &self,
        flows: &[LongestFlow],
        held: &dyn Fn(FlowId) -> u32,
    ) -> Option<FlowId> {
        let mut longest = self.highest().and_then(|class| self.oldest(flows, class));
        let mut most = longest.map_or(0, |flow| held(FlowId(flow)));
        let mut next = self.newest_single;
        for _ in 0..SINGLES {
            let Some(entry) = flows.get(next as usize) else { break };
            crate::steps::step();
            // For a single flow, `low` is what it holds.
            if entry.low > most {
                (longest, most) = (Some(next), entry.low);
            }
            next = entry.older;
        }
        longest.map(FlowId)
    }

    /// Returns the highest class in use.
    fn highest(&self) -> Option<u32> {
        let word = self.used_words.checked_ilog2()?;
        let used = self.used.get(word as usize)?;
        Some((word * u32::BITS).wrapping_add(used.checked_ilog2()?))
    }

    /// Returns the flow that entered `class` least recently.
    fn oldest(&self, flows: &[LongestFlow], class: u32) -> Option<u32> {
        let newest = self.newest.get(class as usize)?.wrapping_sub(1);
        flows.get(newest as usize).map(|newest| newest.newer)
    }

    /// Compares with the real backlogs, and walks all lists. O(flows + classes).
    pub(super) fn recount(
        &self,
        flows: &[LongestFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut backlogged = 0_u64;
        for (at, entry) in (0_u32..).zip(flows) {
            let held = truth(FlowId(at)).backlog;
            let (booked, holds) = (entry.is_backlogged(), held.packets > 0);
            Imbalance::check("a flow is backlogged", at, booked.into(), holds.into())?;
            backlogged = backlogged.wrapping_add(booked.into());
            if entry.high == 0 {
                Imbalance::check(
                    "bytes of a single flow",
                    at,
                    entry.low.into(),
                    held.bytes.into(),
                )?;
                let more = held.packets.saturating_sub(1);
                Imbalance::check("packets of a single flow beside the first", at, 0, more.into())?;
                continue;
            }
            let fits = (entry.low..entry.high).contains(&held.bytes);
            Imbalance::check("bytes between the marks", at, fits.into(), 1)?;
            let class = Class::of(entry.low.wrapping_add(entry.high.wrapping_sub(entry.low) >> 1));
            let is_known = (class.low, class.high) == (entry.low, entry.high);
            Imbalance::check("the marks of a class", at, is_known.into(), 1)?;
        }
        for (word, used) in (0_u32..).zip(&self.used) {
            let bit = self.used_words >> (word % u32::BITS) & 1;
            Imbalance::check("a word of classes is used", word, bit.into(), (*used != 0).into())?;
        }
        let mut found = 0_u64;
        walk(flows, self.newest_single, &mut found, backlogged, &|flow, entry| {
            Imbalance::check("a flow on the list of single ones", flow, entry.is_single().into(), 1)
        })?;
        for (class, &place) in (0_u32..).zip(&self.newest) {
            let used = self.used.get(word_of(class) as usize).copied().unwrap_or(0);
            let bit = used >> (class % u32::BITS) & 1;
            Imbalance::check("a class is used", class, bit.into(), (place != 0).into())?;
            let newest = place.wrapping_sub(1);
            let oldest = walk(flows, newest, &mut found, backlogged, &|flow, entry| {
                let booked = Class::number_below(entry.high);
                Imbalance::check("the class of a flow", flow, booked.into(), class.into())
            })?;
            let known = flows.get(newest as usize).map_or(NONE, |newest| newest.newer);
            Imbalance::check("the oldest of a class", class, known.into(), oldest.into())?;
        }
        Imbalance::check("flows on lists", 0, found, backlogged)
    }
}

/// Walks from `newest` to the oldest flow of a list and applies `check` to each; counts them in
/// `found`, up to one more than `most`. Returns the oldest.
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
            break; // a cycle or a wrong count: the check of the number of flows reports both
        }
        newer = here;
        here = entry.older;
    }
    Ok(newer)
}

#[cfg(test)]
impl Lists {
    /// Faults of one field each, for a state where flows 0 and 1 are single, 2 to 4 in one class, 5
    /// in a higher one and 6 idle.
    pub(super) fn damages() -> [fn(&mut Self, &mut [LongestFlow]); 14] {
        [
            |_, flows| flows[0].low = 0,
            |_, flows| flows[6].low = 1,
            |_, flows| flows[0].low = 41,
            |_, flows| (flows[5].low, flows[5].high) = (70_000, 0),
            |_, flows| (flows[2].low, flows[2].high) = (4_096, 8_192),
            |_, flows| flows[2].low -= 1,
            |lists, _| lists.used_words = 0,
            |lists, _| lists.used[0] |= 1,
            |lists, _| lists.newest_single = 2,
            |_, flows| flows[2].newer = 4,
            |lists, flows| {
                let lower = Class::of(3_000).number as usize;
                (flows[4].low, flows[4].high) = (2_048, 6_144);
                lists.newest[lower] = 5;
            },
            |_, flows| flows[4].newer = 3,
            |lists, _| lists.newest_single = 0,
            |_, flows| flows[3].older = NONE,
        ]
    }
}
