//! The turns to come: a list of flows for each round, and which rounds have any.

use super::{LoadDrrFlow, is_not_later};
use crate::flow_scheduler::Table;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// The flows whose turn is in one round, first come first served: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundList {
    /// [`NONE`] if and only if the list is empty.
    head: u32,
    /// Stale while the list is empty.
    tail: u32,
}

impl RoundList {
    /// Room for the turns of a round: all zero.
    pub const EMPTY: Self = Self { head: 0, tail: 0 };

    /// No flow's turn.
    pub(super) const IDLE: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Fills `ahead` with the flows of this list, the first of them first; returns how many.
    pub(super) fn upcoming(&self, nodes: &[LoadDrrFlow], ahead: &mut [FlowId]) -> usize {
        let mut next = self.head;
        for (found, place) in ahead.iter_mut().enumerate() {
            let Some(node) = nodes.get(next as usize) else { return found };
            *place = FlowId(next);
            // Links that point out of the list are stale.
            next = if next == self.tail { NONE } else { node.next };
        }
        ahead.len()
    }

    /// Puts `flow`, on no list, at the tail. Tells whether it is the first.
    #[inline]
    pub(super) fn push(&mut self, nodes: &mut [LoadDrrFlow], flow: u32) -> bool {
        let last = core::mem::replace(&mut self.tail, flow);
        if self.head == NONE {
            self.head = flow;
            return true;
        }
        if let Some(node) = nodes.get_mut(last as usize) {
            node.next = flow;
        }
        if let Some(node) = nodes.get_mut(flow as usize) {
            node.prev = last;
        }
        false
    }

    /// Takes out `flow`, which is on this list. Where it is the first or the last, only the list is
    /// written: the links that point out of a list are stale.
    #[inline]
    pub(super) fn unlink(&mut self, nodes: &mut [LoadDrrFlow], flow: u32) {
        let Some(&LoadDrrFlow { next, prev, .. }) = nodes.get(flow as usize) else { return };
        match (flow == self.head, flow == self.tail) {
            (true, true) => self.head = NONE,
            (true, false) => self.head = next,
            (false, true) => self.tail = prev,
            (false, false) => {
                if let Some(before) = nodes.get_mut(prev as usize) {
                    before.next = next;
                }
                if let Some(behind) = nodes.get_mut(next as usize) {
                    behind.prev = prev;
                }
            }
        }
    }

    /// Takes out the first, behind which is `next` if it is not the last. Tells whether it is the last.
    #[inline]
    pub(super) const fn pop(&mut self, next: u32) -> bool {
        let is_last = self.head == self.tail;
        self.head = if is_last { NONE } else { next };
        is_last
    }

    /// Walks the list, checks its links, hands each flow to `check`, and returns how many there are.
    pub(super) fn recount(
        &self,
        nodes: &[LoadDrrFlow],
        check: &dyn Fn(u32, &LoadDrrFlow) -> Result<(), Imbalance>,
    ) -> Result<usize, Imbalance> {
        let (mut found, mut here, mut last) = (0_usize, self.head, NONE);
        while let Some(node) = nodes.get(here as usize) {
            check(here, node)?;
            if last != NONE {
                Imbalance::check("links point both ways", here, last.into(), node.prev.into())?;
            }
            found = found.wrapping_add(1);
            last = here;
            if here == self.tail || found > nodes.len() {
                break;
            }
            here = node.next;
        }
        if !self.is_empty() {
            Imbalance::check("the last of a list", last, self.tail.into(), last.into())?;
        }
        Ok(found)
    }
}

impl Default for RoundList {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The bits of a word, which is as many lists as one word tells of: `2^WORD_SHIFT`.
const WORD: u32 = u64::BITS;
const WORD_SHIFT: u32 = WORD.trailing_zeros();

/// Which word tells of list `at`.
const fn word_of(at: u32) -> u32 {
    at >> WORD_SHIFT
}

/// The bit at `at`, counted modulo the bits of a word.
const fn bit(at: u32) -> u64 {
    1 << (at % WORD)
}

/// The bits above [`bit`]`(at)`.
const fn above(at: u32) -> u64 {
    !1 << (at % WORD)
}

/// The lists of all tins: each tin has as many, the largest power of two of which there is room for all. In those of a tin
/// the list of a round is found by the low bits of its number. Rounds are told apart as long as they lie less than that
/// many apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar<W> {
    lists: W,
    /// Bit `i % 64` of word `i / 64` is set if and only if list `i` is not empty.
    words: [u64; WORD as usize],
    /// One less than a tin has lists.
    mask: u32,
    /// A tin has `2^shift` lists.
    shift: u32,
    /// The bits of the first word that are of tin 0: all if it has that many lists.
    own: u64,
}

impl<W: Table<RoundList>> Calendar<W> {
    /// The most lists that two levels of words tell of.
    pub(super) const MOST: u32 = WORD * WORD;

    /// Empties `lists`, which are `2..=MOST`, or none; they are of one tin.
    pub(super) fn new(mut lists: W) -> Self {
        lists.as_mut().fill(RoundList::IDLE);
        let words = [0; WORD as usize];
        let mut calendar = Self { lists, words, mask: 0, shift: 0, own: 0 };
        calendar.divide(1);
        calendar
    }

    /// Gives each of `tins` tins, of which there is one or more, as many lists. All are empty.
    pub(super) fn divide(&mut self, tins: u32) {
        let count = self.count().checked_div(tins).unwrap_or(0).max(1);
        // 0, 1, 2, 3 ... for 1, 2 or 3, 4 to 7, 8 to 15 ...
        self.shift = count.ilog2();
        self.mask = (1_u32 << self.shift).wrapping_sub(1);
        self.own = u64::MAX.unbounded_shr(WORD.saturating_sub(1_u32 << self.shift));
    }

    /// How many lists there are.
    #[expect(clippy::cast_possible_truncation, reason = "at most MOST")]
    pub(super) fn count(&self) -> u32 {
        self.lists.as_ref().len() as u32
    }

    #[cfg(test)]
    pub(super) const fn memory(&self) -> &W {
        &self.lists
    }

    /// The rounds after one that can be told from it and from each other.
    #[inline]
    pub(super) const fn horizon(&self) -> u32 {
        self.mask
    }

    /// The list of `round` in tin `tin`.
    #[inline(always)]
    pub(super) const fn at(&self, tin: u32, round: u32) -> u32 {
        (tin << (self.shift & 31)) | round & self.mask
    }

    /// Puts `flow`, on no list, behind the others on list `at`, of a tin with this `summary`: bit `w` is set if and only
    /// if a list of the tin that word `w` tells of is not empty.
    #[inline]
    pub(super) fn push(
        &mut self,
        nodes: &mut [LoadDrrFlow],
        summary: &mut u64,
        at: u32,
        flow: u32,
    ) {
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        if !list.push(nodes, flow) {
            return;
        }
        *summary |= bit(word_of(at));
        if let Some(word) = self.words.get_mut(word_of(at) as usize) {
            *word |= bit(at);
        }
    }

    /// Takes out `flow`, which is on list `at` of a tin with this `summary`.
    #[inline]
    pub(super) fn unlink(
        &mut self,
        nodes: &mut [LoadDrrFlow],
        summary: &mut u64,
        at: u32,
        flow: u32,
    ) {
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        list.unlink(nodes, flow);
        if list.is_empty() {
            self.clear(summary, at);
        }
    }

    /// How many rounds lie between two turns of a flow whose hosts have `source` and `destination`
    /// backlogged flows.
    #[inline]
    fn rounds_between(&self, source: u32, destination: u32) -> u32 {
        // A calendar of two rounds or more has a horizon of at least 1.
        source.max(destination).max(1).min(self.horizon())
    }

    /// The round of the next turn of a flow whose hosts have `source` and `destination` backlogged flows: `due` if
    /// that is after `round`, else as many rounds after `round` as the larger of the two numbers.
    #[inline]
    pub(super) fn next_turn(&self, round: u32, due: u32, source: u32, destination: u32) -> u32 {
        let ahead = if is_not_later(due, round) {
            self.rounds_between(source, destination)
        } else {
            due.wrapping_sub(round).min(self.horizon())
        };
        round.wrapping_add(ahead)
    }

    /// Takes out the first flow of list `at`, of a tin with this `summary`; behind the flow is `next` if it is not the last
    /// there. Tells whether it is.
    #[inline]
    pub(super) fn pop(&mut self, summary: &mut u64, at: u32, next: u32) -> bool {
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return true };
        let is_last = list.pop(next);
        if is_last {
            self.clear(summary, at);
        }
        is_last
    }

    /// The bits of the word of list `at` that are of the same tin.
    #[inline(always)]
    const fn own(&self, at: u32) -> u64 {
        self.own << ((at & !self.mask) % WORD)
    }

    fn clear(&mut self, summary: &mut u64, at: u32) {
        let own = self.own(at);
        let Some(word) = self.words.get_mut(word_of(at) as usize) else { return };
        *word &= !bit(at);
        if *word & own == 0 {
            *summary &= !bit(word_of(at));
        }
    }

    /// The flow whose turn is first if list `at`, of a tin with this `summary`, is of the earliest round that has turns;
    /// [`NONE`] if there is none.
    #[inline]
    pub(super) fn first_from(&self, summary: u64, at: u32) -> u32 {
        match self.lists.as_ref().get(at as usize) {
            Some(list) if !list.is_empty() => list.head,
            _ => self.first_after(summary, at),
        }
    }

    /// The flows of list `at`, as [`RoundList::upcoming`].
    pub(super) fn upcoming(&self, nodes: &[LoadDrrFlow], at: u32, ahead: &mut [FlowId]) -> usize {
        let list = self.lists.as_ref().get(at as usize);
        list.map_or(0, |list| list.upcoming(nodes, ahead))
    }

    /// The first flow of the next list of the tin after `at`, going round, that is not empty: two words tell.
    fn first_after(&self, summary: u64, at: u32) -> u32 {
        let Some(word) = self.words.get(word_of(at) as usize) else { return NONE };
        let of_tin = self.own(at);
        let own = word & of_tin & above(at);
        let next = if own == 0 {
            let later = summary & above(word_of(at));
            // Beyond the last list comes the first one, and with it perhaps the own word once more:
            // of its bits, those above `at` are zero.
            let word = if later == 0 { summary } else { later }.trailing_zeros();
            let Some(bits) = self.words.get(word as usize) else { return NONE };
            // A tin with more than a word of lists has all bits of each.
            let bits = bits & of_tin;
            word.wrapping_mul(WORD).wrapping_add(bits.trailing_zeros())
        } else {
            (at & !(WORD - 1)).wrapping_add(own.trailing_zeros())
        };
        self.lists.as_ref().get(next as usize).map_or(NONE, RoundList::head)
    }

    /// Walks the lists of tin `tin`, whose round is `round`, compares them with the words and with its `summary`, hands each
    /// flow with its list's distance from `round` to `check`, and returns how many flows there are.
    pub(super) fn recount(
        &self,
        nodes: &[LoadDrrFlow],
        (tin, round, summary): (u32, u32, u64),
        check: &dyn Fn(u32, &LoadDrrFlow, u32) -> Result<(), Imbalance>,
    ) -> Result<usize, Imbalance> {
        let (mut found, mut marks) = (0_usize, 0);
        let first = self.at(tin, 0);
        for at in first..=first | self.mask {
            let Some(list) = self.lists.as_ref().get(at as usize) else { break };
            let word = self.words.get(word_of(at) as usize).copied().unwrap_or(0);
            let marked = word & bit(at) != 0;
            let turns = !list.is_empty();
            Imbalance::check("a list with turns", at, marked.into(), turns.into())?;
            marks |= u64::from(turns) << (word_of(at) % WORD);
            let ahead = at.wrapping_sub(round) & self.mask;
            let listed = list.recount(nodes, &|flow, node| check(flow, node, ahead))?;
            found = found.wrapping_add(listed);
        }
        Imbalance::check("words of lists with turns", tin, summary, marks)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Goal: the first turn from every round on is that which a look at all rounds of the tin in order finds, whatever the other
    /// tins have. Method: random sets of lists of one flow each, in calendars of every length and for every number of tins, seen
    /// from every list.
    #[test]
    fn the_next_list_is_the_one_a_scan_finds() {
        let mut random = conformance::Xorshift::new(42);
        for (bits, tins) in (1..=12).flat_map(|bits| [(bits, 1), (bits, 2), (bits, 3), (bits, 8)]) {
            let (all, lists) = (1_u32 << bits, (1 << bits) / u32::max(tins, 1).next_power_of_two());
            if lists < 2 {
                continue;
            }
            for often in [1, 3, 17, 300, 5_000] {
                let mut nodes = vec![LoadDrrFlow::EMPTY; all as usize];
                let mut calendar = Calendar::new(vec![RoundList::EMPTY; all as usize]);
                calendar.divide(tins);
                assert_eq!(calendar.horizon(), lists - 1);
                let turns: Vec<bool> = (0..all).map(|_| random.below(often) == 0).collect();
                let mut summaries = [0; 8];
                for at in (0..tins * lists).filter(|&at| turns[at as usize]) {
                    let (tin, round) = (at / lists, at.wrapping_sub(lists));
                    assert_eq!(calendar.at(tin, round), at);
                    calendar.push(&mut nodes, &mut summaries[tin as usize], at, at);
                }
                for at in (0..tins * lists).step_by(1 + all as usize / 97) {
                    let (tin, base) = (at / lists, at / lists * lists);
                    let mut scanned = (at..at + lists).map(|round| base + round % lists);
                    let first = scanned.find(|&list| turns[list as usize]);
                    let found = calendar.first_from(summaries[tin as usize], at);
                    assert_eq!(found, first.unwrap_or(NONE), "{lists} {at}");
                }
                for tin in 0..tins {
                    let of_tin = (tin, 0, summaries[tin as usize]);
                    let found = calendar.recount(&nodes, of_tin, &|_, _, _| Ok(())).unwrap();
                    let (first, last) = ((tin * lists) as usize, ((tin + 1) * lists) as usize);
                    assert_eq!(found, turns[first..last].iter().filter(|&&turn| turn).count());
                }
                for at in (0..tins * lists).filter(|&at| turns[at as usize]) {
                    calendar.unlink(&mut nodes, &mut summaries[(at / lists) as usize], at, at);
                }
                assert_eq!((calendar.words, summaries), ([0; 64], [0; 8]));
            }
        }
    }

    /// Goal: a list behaves as the obvious deque. Method: every history of six operations over three
    /// flows, each of which is appended if it is not listed and taken out if it is; the first in either way.
    #[test]
    fn a_list_agrees_with_a_deque_on_every_short_history() {
        for history in 0..3_u32.pow(6) {
            let (mut nodes, mut list) = ([LoadDrrFlow::EMPTY; 3], RoundList::IDLE);
            let (mut model, mut rest) = (Vec::new(), history);
            for _ in 0..6 {
                let flow = rest % 3;
                rest /= 3;
                if let Some(at) = model.iter().position(|&listed| listed == flow) {
                    model.remove(at);
                    if at == 0 {
                        let mut popped = list;
                        popped.pop(nodes[flow as usize].next);
                        list.unlink(&mut nodes, flow);
                        assert_eq!(popped, list, "{history}");
                    } else {
                        list.unlink(&mut nodes, flow);
                    }
                } else {
                    model.push(flow);
                    list.push(&mut nodes, flow);
                }
                assert_eq!(list.head(), model.first().copied().unwrap_or(NONE), "{history}");
                assert_eq!(list.recount(&nodes, &|_, _| Ok(())), Ok(model.len()), "{history}");
            }
            for flow in model {
                assert_eq!(list.head(), flow, "{history}");
                list.unlink(&mut nodes, flow);
            }
            assert!(list.is_empty());
        }
    }
}
