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

/// The first lists of `lists`, as many as the largest power of two; the list of a round is found by the
/// low bits of its number. Rounds are told apart as long as they lie less than that many apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar<W> {
    lists: W,
    /// Bit `i % 64` of word `i / 64` is set if and only if list `i` is not empty.
    words: [u64; WORD as usize],
    /// Bit `w` is set if and only if word `w` is not zero.
    summary: u64,
    /// One less than there are lists.
    mask: u32,
}

impl<W: Table<RoundList>> Calendar<W> {
    /// The most lists that two levels of words tell of.
    pub(super) const MOST: u32 = WORD * WORD;

    /// Empties `lists`, which are `2..=MOST`.
    pub(super) fn new(mut lists: W) -> Self {
        lists.as_mut().fill(RoundList::IDLE);
        #[expect(clippy::cast_possible_truncation, reason = "at most MOST")]
        let count = lists.as_ref().len() as u32;
        // 1, 3, 7 ... for 2 or 3, 4 to 7, 8 to 15 ...
        let mask = (u32::MAX >> 1).unbounded_shr(count.leading_zeros());
        Self { lists, words: [0; WORD as usize], summary: 0, mask }
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

    /// Puts `flow`, on no list, behind the others whose turn is in `round`.
    #[inline]
    pub(super) fn push(&mut self, nodes: &mut [LoadDrrFlow], round: u32, flow: u32) {
        let at = round & self.mask;
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        if !list.push(nodes, flow) {
            return;
        }
        self.summary |= bit(word_of(at));
        if let Some(word) = self.words.get_mut(word_of(at) as usize) {
            *word |= bit(at);
        }
    }

    /// Takes out `flow`, whose turn is in `round`.
    #[inline]
    pub(super) fn unlink(&mut self, nodes: &mut [LoadDrrFlow], round: u32, flow: u32) {
        let at = round & self.mask;
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        list.unlink(nodes, flow);
        if list.is_empty() {
            self.clear(at);
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

    /// Takes out the first flow whose turn is in `round`, behind which is `next` if it is not the last of that
    /// round. Tells whether it is.
    #[inline]
    pub(super) fn pop(&mut self, round: u32, next: u32) -> bool {
        let at = round & self.mask;
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return true };
        let is_last = list.pop(next);
        if is_last {
            self.clear(at);
        }
        is_last
    }

    fn clear(&mut self, at: u32) {
        let Some(word) = self.words.get_mut(word_of(at) as usize) else { return };
        *word &= !bit(at);
        if *word == 0 {
            self.summary &= !bit(word_of(at));
        }
    }

    /// The flow whose turn is first if `round` is the earliest that has turns; [`NONE`] if there is none.
    #[inline]
    pub(super) fn first_from(&self, round: u32) -> u32 {
        let at = round & self.mask;
        match self.lists.as_ref().get(at as usize) {
            Some(list) if !list.is_empty() => list.head,
            _ => self.first_after(at),
        }
    }

    /// The flows whose turn is in `round`, as [`RoundList::upcoming`].
    pub(super) fn upcoming(
        &self,
        nodes: &[LoadDrrFlow],
        round: u32,
        ahead: &mut [FlowId],
    ) -> usize {
        let list = self.lists.as_ref().get((round & self.mask) as usize);
        list.map_or(0, |list| list.upcoming(nodes, ahead))
    }

    /// The first flow of the next list after `at`, going round, that is not empty: two words tell.
    fn first_after(&self, at: u32) -> u32 {
        let Some(own) = self.words.get(word_of(at) as usize) else { return NONE };
        let own = own & above(at);
        let next = if own == 0 {
            let later = self.summary & above(word_of(at));
            // Beyond the last list comes the first one, and with it perhaps the own word once more:
            // of its bits, those above `at` are zero.
            let word = if later == 0 { self.summary } else { later }.trailing_zeros();
            let Some(bits) = self.words.get(word as usize) else { return NONE };
            word.wrapping_mul(WORD).wrapping_add(bits.trailing_zeros())
        } else {
            (at & !(WORD - 1)).wrapping_add(own.trailing_zeros())
        };
        self.lists.as_ref().get(next as usize).map_or(NONE, RoundList::head)
    }

    /// Walks all lists, compares them with the words, hands each flow with its list's distance from
    /// `round` to `check`, and returns how many flows there are.
    pub(super) fn recount(
        &self,
        nodes: &[LoadDrrFlow],
        round: u32,
        check: &dyn Fn(u32, &LoadDrrFlow, u32) -> Result<(), Imbalance>,
    ) -> Result<usize, Imbalance> {
        let mut found = 0_usize;
        for (at, list) in (0_u32..).zip(self.lists.as_ref()) {
            let word = self.words.get(word_of(at) as usize).copied().unwrap_or(0);
            let marked = word & bit(at) != 0;
            let turns = !list.is_empty();
            Imbalance::check("a list with turns", at, marked.into(), turns.into())?;
            let ahead = at.wrapping_sub(round) & self.mask;
            let listed = list.recount(nodes, &|flow, node| check(flow, node, ahead))?;
            found = found.wrapping_add(listed);
        }
        for (at, &word) in (0_u32..).zip(&self.words) {
            let (marked, turns) = (self.summary & bit(at) != 0, word != 0);
            Imbalance::check("a word of lists with turns", at, marked.into(), turns.into())?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Goal: the first turn from every round on is that which a look at all rounds in order finds.
    /// Method: random sets of lists of one flow each, in calendars of every length, seen from every
    /// list.
    #[test]
    fn the_next_list_is_the_one_a_scan_finds() {
        let mut random = conformance::Xorshift::new(42);
        for lists in (1..=12).map(|bits| 1_u32 << bits) {
            for often in [1, 3, 17, 300, 5_000] {
                let mut nodes = vec![LoadDrrFlow::EMPTY; lists as usize];
                let mut calendar = Calendar::new(vec![RoundList::EMPTY; lists as usize]);
                let turns: Vec<bool> = (0..lists).map(|_| random.below(often) == 0).collect();
                for at in (0..lists).filter(|&at| turns[at as usize]) {
                    calendar.push(&mut nodes, at.wrapping_sub(lists), at);
                }
                for at in (0..lists).step_by(1 + lists as usize / 97) {
                    let scanned = (at..at + lists).map(|round| round % lists);
                    let first = scanned.into_iter().find(|&list| turns[list as usize]);
                    assert_eq!(calendar.first_from(at), first.unwrap_or(NONE), "{lists} {at}");
                }
                let found = calendar.recount(&nodes, 0, &|_, _, _| Ok(())).unwrap();
                assert_eq!(found, turns.iter().filter(|&&turn| turn).count());
                for at in (0..lists).filter(|&at| turns[at as usize]) {
                    calendar.unlink(&mut nodes, at, at);
                }
                let none = Calendar::new(vec![RoundList::EMPTY; lists as usize]);
                assert_eq!((calendar.words, calendar.summary), (none.words, 0));
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
