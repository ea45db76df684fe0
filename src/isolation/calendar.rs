//! The calendar of `triple-isolate`: a list of flows for each round of each tin, and a bitmap of
//! the rounds that have any.

use flowhash::TagLine;
use sched_core::{FlowId, Imbalance};

use super::memory::RoundTables;
use super::records::Flow;
use super::rounds::{Due, Share};
use super::serve::NONE;
use crate::storage::Storage;

/// The minimum number of rounds of a tin.
pub(super) const FEWEST: usize = 2;
/// The maximum number of rounds that two levels of words can index.
pub(super) const MOST: usize = 64 * 64;

/// A FIFO of flows, linked through their places: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    /// [`NONE`] if and only if the list is empty.
    head: u32,
    /// Stale while the list is empty. Links that point out of a list are stale too.
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// Appends `flow`, which is on no list. Returns true if it is the first.
    #[inline(always)]
    fn push(&mut self, flows: &mut [Flow], flow: u32) -> bool {
        let last = core::mem::replace(&mut self.tail, flow);
        if self.head == NONE {
            self.head = flow;
            return true;
        }
        if let Some(last) = flows.get_mut(last as usize) {
            last.place.set_next(flow);
        }
        if let Some(flow) = flows.get_mut(flow as usize) {
            flow.place.set_prev(last);
        }
        false
    }

    /// Removes the first flow; `next` is the one behind it, unless it is the last. Returns true if
    /// it is.
    #[inline(always)]
    const fn pop(&mut self, next: u32) -> bool {
        let is_last = self.head == self.tail;
        self.head = if is_last { NONE } else { next };
        is_last
    }

    /// Removes `flow`, which is on the list. Returns true if the list is empty then.
    #[inline(always)]
    fn unlink(&mut self, flows: &mut [Flow], flow: u32) -> bool {
        let Some(&Flow { place, .. }) = flows.get(flow as usize) else { return false };
        if flow == self.head {
            return self.pop(place.next());
        }
        if flow == self.tail {
            self.tail = place.prev();
            return false;
        }
        if let Some(before) = flows.get_mut(place.prev() as usize) {
            before.place.set_next(place.next());
        }
        if let Some(behind) = flows.get_mut(place.next() as usize) {
            behind.place.set_prev(place.prev());
        }
        false
    }

    /// Returns the flows, at most as many as there are, even if the list is damaged.
    pub(super) fn walk<'a>(
        &self,
        flows: &'a [Flow],
    ) -> impl Iterator<Item = (u32, &'a Flow)> + use<'a> {
        let tail = self.tail;
        let at = |flow: u32| flows.get(flow as usize).map(|record| (flow, record));
        let behind =
            move |&(flow, of): &(u32, &Flow)| if flow == tail { None } else { at(of.place.next()) };
        core::iter::successors(at(self.head), behind).take(flows.len())
    }

    /// Walks the list, checks its links, passes each flow to `check`, and returns their number.
    fn recount(
        &self,
        flows: &[Flow],
        check: &dyn Fn(u32, &Flow) -> Result<(), Imbalance>,
    ) -> Result<usize, Imbalance> {
        let (mut found, mut last) = (0_usize, NONE);
        for (here, flow) in self.walk(flows) {
            check(here, flow)?;
            if last != NONE {
                let prev = flow.place.prev();
                Imbalance::check("links point both ways", here, last.into(), prev.into())?;
            }
            (found, last) = (found.wrapping_add(1), here);
        }
        if self.head != NONE {
            Imbalance::check("the last of a list", last, self.tail.into(), last.into())?;
        }
        Ok(found)
    }
}

/// The rounds of one tin: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TinRounds {
    /// Bit `w` is set if and only if word `w` of the tin is not zero.
    summary: u64,
    /// The flows that are served before all others, those at a [new](sched_core::RingFlow::is_new)
    /// place.
    first: List,
    /// The round of the latest service. Wraps: rounds compare by the sign of their difference.
    pub(super) round: u32,
    /// The flow served next; [`NONE`] if and only if none is listed.
    pub(super) front: u32,
}

impl TinRounds {
    pub(super) const EMPTY: Self = Self { summary: 0, first: List::EMPTY, round: 0, front: NONE };
}

/// The calendars of all tins, and the mode's state of flows and hosts.
pub(super) struct Rounds<S: Storage> {
    /// The list of round `r` of tin `t` is `lists[t << shift | r & mask]`: rounds are distinct as
    /// long as they are less than a calendar apart.
    lists: S::Rounds<List>,
    /// A bit for each list, set if and only if it is not empty; each tin begins a word.
    words: S::Rounds<u64>,
    pub(super) tins: S::Rounds<TinRounds>,
    /// One for each flow.
    pub(super) dues: S::Rounds<Due>,
    /// One for each host in each tin.
    pub(super) shares: S::Rounds<Share>,
    /// The flow served next of all tins; [`NONE`] in other modes.
    pub(super) front: u32,
    shift: u32,
    /// The number of rounds after a given one that are distinct from it and from each other.
    pub(super) mask: u32,
}

impl<S: Storage> Rounds<S> {
    /// Creates the calendars in these tables, to be [set up](Self::begin), and returns the tag
    /// lines of far hosts.
    pub(super) fn new(tables: RoundTables<S>) -> (S::Rounds<TagLine>, Self) {
        let RoundTables { lists, words, tins, dues, shares, lines } = tables;
        (lines, Self { lists, words, tins, dues, shares, front: NONE, shift: 0, mask: 0 })
    }

    /// Returns the number of rounds, in all tins together.
    pub(super) fn count(&self) -> usize {
        self.lists.as_ref().len()
    }

    /// Sets up the rounds of this number of tins, without flows. Cost: O(tables).
    pub(super) fn begin(&mut self, tins: u32) {
        self.lists.as_mut().fill(List::EMPTY);
        self.words.as_mut().fill(0);
        self.tins.as_mut().fill(TinRounds::EMPTY);
        self.dues.as_mut().fill(Due::EMPTY);
        self.shares.as_mut().fill(Share::EMPTY);
        self.shift =
            self.count().checked_div(tins as usize).and_then(usize::checked_ilog2).unwrap_or(0);
        self.mask = 1_u32.unbounded_shl(self.shift).wrapping_sub(1);
        self.front = NONE;
    }

    /// Returns the index of the list of `round` in `tin`.
    #[inline(always)]
    const fn at(&self, tin: u32, round: u32) -> u32 {
        (tin << (self.shift & 31)) | round & self.mask
    }

    #[inline(always)]
    const fn first_word(&self, tin: u32) -> u32 {
        tin << (self.shift.saturating_sub(6) & 31)
    }

    #[inline(always)]
    pub(super) fn round(&self, tin: u32) -> u32 {
        self.tins.as_ref().get(tin as usize).map_or(0, |of| of.round)
    }

    #[inline(always)]
    pub(super) fn front_of(&self, tin: u32) -> u32 {
        self.tins.as_ref().get(tin as usize).map_or(NONE, |of| of.front)
    }

    /// Appends `flow`, which is on no list, to the list of `round` in `tin`, or, if `first`, to the
    /// list of flows served before all others.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        flows: &mut [Flow],
        tin: u32,
        round: u32,
        flow: u32,
        first: bool,
    ) {
        let at = self.at(tin, round);
        let Some(of) = self.tins.as_mut().get_mut(tin as usize) else { return };
        if first {
            of.first.push(flows, flow);
            return;
        }
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        if list.push(flows, flow) {
            self.mark(tin, round, true);
        }
    }

    /// Moves the front of `tin`, whose turn is over, from its list (that of `round`, or the `first`
    /// one), where `next` is behind it, to the list of the round `to`.
    #[inline(always)]
    pub(super) fn move_front(
        &mut self,
        flows: &mut [Flow],
        tin: u32,
        (round, first, next): (u32, bool, u32),
        to: u32,
    ) {
        let at = self.at(tin, round);
        let Some(of) = self.tins.as_mut().get_mut(tin as usize) else { return };
        let flow = of.front;
        of.round = round;
        let was_last = if first {
            of.first.pop(next)
        } else {
            self.lists.as_mut().get_mut(at as usize).is_none_or(|list| list.pop(next))
        };
        if was_last && !first {
            self.mark(tin, round, false);
        }
        self.push(flows, tin, to, flow, false);
        let front = if was_last { self.first(tin) } else { next };
        if let Some(of) = self.tins.as_mut().get_mut(tin as usize) {
            of.front = front;
        }
        self.front = front;
    }

    /// Removes `flow` from its list: that of `round` in `tin`, or the `first` one.
    #[inline(always)]
    pub(super) fn unlink(
        &mut self,
        flows: &mut [Flow],
        tin: u32,
        round: u32,
        flow: u32,
        first: bool,
    ) {
        let at = self.at(tin, round);
        let Some(of) = self.tins.as_mut().get_mut(tin as usize) else { return };
        if first {
            of.first.unlink(flows, flow);
            return;
        }
        let Some(list) = self.lists.as_mut().get_mut(at as usize) else { return };
        if list.unlink(flows, flow) {
            self.mark(tin, round, false);
        }
    }

    /// Sets whether `round` of `tin` has turns, after the first or the last of them.
    #[inline(always)]
    fn mark(&mut self, tin: u32, round: u32, has_turns: bool) {
        let at = round & self.mask;
        let word = self.first_word(tin) | at >> 6;
        let Some(word) = self.words.as_mut().get_mut(word as usize) else { return };
        let Some(of) = self.tins.as_mut().get_mut(tin as usize) else { return };
        if has_turns {
            *word |= 1 << (at & 63);
            of.summary |= 1 << (at >> 6 & 63);
        } else {
            *word &= !(1 << (at & 63));
            if *word == 0 {
                of.summary &= !(1 << (at >> 6 & 63));
            }
        }
    }

    /// Updates the flow of `tin` served next; called after any change of a list.
    #[inline(always)]
    pub(super) fn note_front(&mut self, tin: u32) {
        let front = self.first(tin);
        if let Some(of) = self.tins.as_mut().get_mut(tin as usize) {
            of.front = front;
        }
    }

    /// Returns the first of the flows served before all others, or else of the earliest round of
    /// `tin` that has turns.
    #[inline(always)]
    fn first(&self, tin: u32) -> u32 {
        let Some(&TinRounds { first, round, summary, .. }) = self.tins.as_ref().get(tin as usize)
        else {
            return NONE;
        };
        if first.head != NONE {
            return first.head;
        }
        match self.lists.as_ref().get(self.at(tin, round) as usize) {
            Some(list) if list.head != NONE => list.head,
            _ => self.first_after(tin, round, summary),
        }
    }

    /// Returns the first flow of the next round of `tin` that has turns, found with two words.
    fn first_after(&self, tin: u32, round: u32, summary: u64) -> u32 {
        if summary == 0 {
            return NONE;
        }
        let (at, first) = (round & self.mask, self.first_word(tin));
        let word = |word: u32| self.words.as_ref().get((first | word) as usize).copied();
        let own = word(at >> 6).unwrap_or(0) & (!1 << (at & 63));
        let next = if own == 0 {
            let later = summary & (!1 << (at >> 6 & 63));
            // The calendar wraps around after the last round, perhaps to the initial word: its bits
            // above `at` are zero.
            let at = if later == 0 { summary } else { later }.trailing_zeros();
            at << 6 | word(at).unwrap_or(0).trailing_zeros()
        } else {
            at & !63 | own.trailing_zeros()
        };
        self.lists.as_ref().get(self.at(tin, next) as usize).map_or(NONE, |list| list.head)
    }

    /// Fills `ahead` with the flows of `tin` on the list that is served next; returns their number.
    pub(super) fn upcoming(&self, flows: &[Flow], tin: u32, ahead: &mut [FlowId]) -> usize {
        let of = self.tins.as_ref().get(tin as usize).copied().unwrap_or(TinRounds::EMPTY);
        let round = self.dues.as_ref().get(of.front as usize).map_or(0, |due| due.round);
        let list = match of.first {
            List { head: NONE, .. } => self.lists.as_ref().get(self.at(tin, round) as usize),
            _ => Some(&of.first),
        };
        let turns = list.unwrap_or(&List::EMPTY).walk(flows);
        ahead.iter_mut().zip(turns).map(|(place, (flow, _))| *place = FlowId(flow)).count()
    }

    /// Walks the lists of `tin`, passes each flow with the rounds until its turn to `check`, and
    /// returns the number of flows.
    pub(super) fn recount(
        &self,
        flows: &[Flow],
        tin: u32,
        check: &dyn Fn(u32, &Flow, u32) -> Result<(), Imbalance>,
    ) -> Result<usize, Imbalance> {
        let Some(&TinRounds { summary, first, round, front }) =
            self.tins.as_ref().get(tin as usize)
        else {
            return Ok(0);
        };
        let mut found = first.recount(flows, &|flow, record| {
            let is_new = record.place.is_new();
            Imbalance::check("a first turn", flow, 1, is_new.into())?;
            check(flow, record, 0)
        })?;
        let mut marks = 0;
        for ahead in 0..=self.mask {
            let at = round.wrapping_add(ahead) & self.mask;
            let Some(list) = self.lists.as_ref().get(self.at(tin, at) as usize) else { break };
            let word = self.words.as_ref().get((self.first_word(tin) | at >> 6) as usize);
            let marked = word.is_some_and(|word| word >> (at & 63) & 1 == 1);
            let has_turns = list.head != NONE;
            Imbalance::check("a list with turns", at, marked.into(), has_turns.into())?;
            marks |= u64::from(has_turns) << (at >> 6 & 63);
            let listed = list.recount(flows, &|flow, record| {
                Imbalance::check("a turn that stands", flow, 0, record.place.is_new().into())?;
                check(flow, record, ahead)
            })?;
            found = found.wrapping_add(listed);
        }
        Imbalance::check("words of lists with turns", tin, summary, marks)?;
        Imbalance::check(
            "the flow of a tin served next",
            tin,
            front.into(),
            self.first(tin).into(),
        )?;
        Ok(found)
    }
}

#[cfg(all(test, feature = "alloc"))]
#[allow(
    clippy::indexing_slicing,
    clippy::integer_division,
    clippy::modulo_arithmetic,
    reason = "a test that panics fails"
)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::{Heap, IsolatedMemory};

    /// Goal: from every round on, the first turn is the one found by scanning all rounds of the tin
    /// in order, whatever other tins have. Method: random rounds with a flow each, in calendars of
    /// every length and for every number of tins, seen from every round.
    #[test]
    fn the_next_list_is_the_one_a_scan_finds() {
        let mut random = conformance::Xorshift::new(42);
        for (all, tins) in (1..=12).flat_map(|bits| [1, 2, 3, 8].map(|tins| (1_u32 << bits, tins)))
        {
            let each = all / u32::next_power_of_two(tins);
            for often in [1, 3, 17, 300, 5_000].into_iter().filter(|_| each > 1) {
                let memory = IsolatedMemory::<Heap>::allocate(8, 8, 8, 1);
                let (_, mut rounds) = Rounds::new(memory.with_triple(all as usize).rounds);
                rounds.begin(tins);
                assert_eq!(rounds.mask, each - 1);
                let mut flows = vec![Flow::EMPTY; all as usize];
                let has_turn: Vec<bool> = (0..all).map(|_| random.below(often) == 0).collect();
                let listed = || (0..tins * each).filter(|&at| has_turn[at as usize]);
                for at in listed() {
                    rounds.push(&mut flows, at / each, at.wrapping_sub(each), at, false);
                }
                for at in (0..tins * each).step_by(1 + all as usize / 97) {
                    let (tin, first) = (at / each, at / each * each);
                    rounds.tins[tin as usize].round = at;
                    let mut scanned = (at..at + each).map(|round| first + round % each);
                    let expected = scanned.find(|&list| has_turn[list as usize]);
                    assert_eq!(rounds.first(tin), expected.unwrap_or(NONE), "{each} {at}");
                }
                for tin in 0..tins {
                    rounds.note_front(tin);
                    let found = rounds.recount(&flows, tin, &|_, _, _| Ok(()));
                    assert_eq!(found, Ok(listed().filter(|at| at / each == tin).count()));
                }
                for at in listed() {
                    rounds.unlink(&mut flows, at / each, at, at, false);
                }
                assert!(rounds.words.iter().all(|word| *word == 0));
                assert!(rounds.tins.iter().all(|tin| tin.summary == 0));
            }
        }
    }
}
