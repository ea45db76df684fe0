//! The set-associative table: from a hash to a queue, as a cache maps an address to a line.
//!
//! A hash points at one queue, its *own way*; the queues around it form a *set*, and a flow may
//! live in any queue of its set. With 8 ways and as many queues as flows this divides collisions
//! by little, with half as many flows by eight, with a quarter by two hundred ([`FlowTable`] has
//! the figures). Idea: CAKE §III-B; there the newcomer of a full set takes over the tag, here
//! it does not (below).
//!
//! # When a queue is in use
//!
//! The table knows which hash lives in which queue; only the scheduler knows whether that queue
//! holds packets. The rule that joins them: **a queue is in use from the lookup that claims it to
//! the [`release`](FlowTable::release) after it has emptied.** Release is idempotent, so the caller
//! needs no memory of earlier releases. After any operation that may have left the queue empty (its
//! last packet left, was dropped, or was refused on arrival): `if empty { table.release(queue) }`.
//!
//! # Collision
//!
//! When all ways of its set belong to others, a flow shares the queue of its own way, and the tag
//! stays with the flow that claimed it. So an established flow never changes its queue: it cannot
//! be displaced or reordered by whatever arrives, and what the caller keeps for a queue (hosts,
//! statistics) stays true of its claimant. The newcomer claims the first way of the set that is
//! released; only then, once, its packets may overtake those it left in the shared queue. Were the
//! tag overwritten, the two flows would take it from each other packet by packet, and the one that
//! came from another way would be reordered each time.
//!
//! A released way keeps its tag: a flow that comes back before others took it gets the same queue,
//! and with it what the caller's AQM learned about the flow.
//!
//! # A new key
//!
//! Under another key a flow has another hash and another set. Hash by the new key from some packet
//! on: what was claimed under the old key is released as the queues empty. A flow that has packets
//! queued then may overtake them, once. To prevent that, look up again the flow of each queued
//! packet and queue the packet there.

mod set;

use core::fmt;

use set::{EACH, ELSEWHERE, LANES, Shape, first_from, index, place};

pub use set::TagLine;

/// The most queues a table maps to.
pub const MAX_QUEUES: u32 = 1 << 20;

/// The ways of a set when nothing else is asked for.
pub const DEFAULT_WAYS: u32 = 8;

/// The answer of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lookup {
    /// The queue to use, below [`FlowTable::queues`].
    pub queue: u32,
    /// How the flow came by it.
    pub outcome: Outcome,
}

/// How a flow came by its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Outcome {
    /// The flow had claimed the queue before.
    Hit,
    /// The queue was free and is the flow's. What a caller keeps for the queue, an AQM's state say,
    /// is the last flow's until the caller begins it anew.
    Claimed,
    /// Every way of the set belongs to another flow; the queue is one of theirs.
    Collision,
}

/// How often lookups ended in each outcome since construction. Their sum is the number of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Lookups that ended in [`Outcome::Hit`].
    pub hits: u64,
    /// Lookups that ended in [`Outcome::Claimed`].
    pub claims: u64,
    /// Lookups that ended in [`Outcome::Collision`].
    pub collisions: u64,
}

/// A refused construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableError {
    /// The number of ways is not 1, 2, 4, 8 or 16.
    Ways {
        /// What was asked for.
        ways: u32,
    },
    /// The number of queues is not a power of two in `ways..=MAX_QUEUES`.
    Queues {
        /// What was asked for.
        queues: u32,
        /// The smallest number accepted.
        ways: u32,
    },
    /// The storage has fewer lines than the queues need.
    Storage {
        /// What was given.
        lines: usize,
        /// The smallest number accepted.
        needed: usize,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ways { ways } => write!(f, "{ways} ways: must be 1, 2, 4, 8 or 16"),
            Self::Queues { queues, ways } => {
                write!(f, "{queues} queues: must be a power of two from {ways} to {MAX_QUEUES}")
            }
            Self::Storage { lines, needed } => {
                write!(f, "storage of {lines} lines: must be at least {needed}")
            }
        }
    }
}

impl core::error::Error for TableError {}

/// Maps 32-bit hashes to queues, in sets of 1 to 16 ways, in storage of the caller's.
///
/// `S` is an array, a `&mut` slice or a box of [`TagLine`]s: whatever gives the same slice each
/// time.
///
/// Cost in instructions, 8 ways, from 32 to 65,536 flows alike (x86-64, callgrind, less the
/// caller's loop without the lookup). Of the instructions of a hit 5, and of the others 8, are the
/// call, the making of the hash and the use of the answer:
///
/// | a lookup that ends in | |
/// |---|--:|
/// | a hit, in the mean over flows that fill half of the queues: most live in their own way | 29 to 31 |
/// | a collision | 37 |
/// | a claim | 48 |
/// | and the release after it | 12 |
///
/// Probability that a new flow collides in a table of 1,024 queues, P\[Bin(n, k / N) ≥ k\] for n
/// active flows, N queues, k ways (measured within 0.005 of this value, `tests/suite/spread.rs`):
///
/// | active flows | 128 | 256 | 512 | 1,024 |
/// |---|---|---|---|---|
/// | 1 way | 0.118 | 0.221 | 0.394 | 0.632 |
/// | 8 ways | 0.000 009 | 0.001 | 0.050 | 0.548 |
///
/// # Examples
///
/// ```
/// use flowhash::{TagLine, Outcome, FlowTable};
///
/// let mut table = FlowTable::new([TagLine::EMPTY; 2], 16, 8)?;
/// let first = table.lookup(0xfeed_f00d);
/// assert_eq!(first.outcome, Outcome::Claimed);
/// assert_eq!(table.lookup(0xfeed_f00d).outcome, Outcome::Hit);
/// // … the packets of the flow have left its queue …
/// table.release(first.queue);
/// assert_eq!(table.occupied(), 0);
/// # Ok::<(), flowhash::TableError>(())
/// ```
#[derive(Clone)]
pub struct FlowTable<S> {
    lines: S,
    shape: Shape,
    counts: Counts,
    /// How many of them were of the flow that had the queue last.
    returns: u64,
    /// How many of the claims counted have ended: the others are the lanes in use in `lines`.
    ended: u64,
}

/// Without the lines.
impl<S> fmt::Debug for FlowTable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("FlowTable");
        debug.field("shape", &self.shape).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<S: AsRef<[TagLine]> + AsMut<[TagLine]>> FlowTable<S> {
    /// An empty table of `queues` queues in sets of `ways`; whatever `lines` held is cleared.
    ///
    /// Uses the first `queues / 8` lines, rounded up. Cost: all lines.
    ///
    /// # Errors
    ///
    /// [`TableError`] if `ways` is not 1, 2, 4, 8 or 16, if `queues` is not a power of two in
    /// `ways..=MAX_QUEUES`, or if `lines` is too short.
    pub fn new(lines: S, queues: u32, ways: u32) -> Result<Self, TableError> {
        let Some(shape) = Shape::new(queues, ways) else { return Err(TableError::Ways { ways }) };
        if !queues.is_power_of_two() || queues < ways || queues > MAX_QUEUES {
            return Err(TableError::Queues { queues, ways });
        }
        let needed = index(queues.div_ceil(LANES));
        let given = lines.as_ref().len();
        if given < needed {
            return Err(TableError::Storage { lines: given, needed });
        }
        let mut table = Self { lines, shape, counts: Counts::default(), returns: 0, ended: 0 };
        // All of them, also those beyond the table: no queue there is in use, which is never asked
        // again.
        table.lines.as_mut().fill(TagLine::EMPTY);
        table.clear();
        Ok(table)
    }

    /// Finds the queue of the flow with this hash, claiming one if it has none.
    ///
    /// In this order:
    /// 1. the way with this tag; there is one at most. In use it is a [`Hit`](Outcome::Hit), free
    ///    it was the flow's last queue and is again: [`Claimed`](Outcome::Claimed);
    /// 2. the first free way, which gets the tag: [`Claimed`](Outcome::Claimed);
    /// 3. the own way, whose tag stays as it is: [`Collision`](Outcome::Collision).
    ///
    /// The first way is the own one (`hash` modulo the queues), the next those behind it cyclically
    /// in its line, then, with 16 ways, those of the neighbour in the same sequence.
    ///
    /// Cost: constant; one cache line read, two with 16 ways. No loop: the tags of a line are
    /// compared at once, and its free ways are the bits of a word.
    #[inline]
    pub fn lookup(&mut self, hash: u32) -> Lookup {
        let queue = hash & self.shape.queue_mask;
        let (at, lane) = place(queue);
        let Some(line) = self.lines.as_mut().get_mut(at) else {
            // Never: `new` saw to it that there are lines for all queues.
            return Lookup { queue, outcome: Outcome::Collision };
        };
        // No other way has the tag then, and most flows live here.
        if line.has(lane, hash) {
            return Self::come_back(line, &mut self.counts, &mut self.returns, lane, queue);
        }
        self.lookup_beside(hash, queue)
    }

    /// [`Self::lookup`] of a hash that is not the tag of `queue`, its own way.
    #[inline(always)]
    fn lookup_beside(&mut self, hash: u32, queue: u32) -> Lookup {
        let (at, lane) = place(queue);
        let Some(line) = self.lines.as_mut().get_mut(at) else {
            // Never: `new` saw to it that there are lines for all queues.
            return Lookup { queue, outcome: Outcome::Collision };
        };
        if let Some(way) = line.lane_of(hash).filter(|way| self.shape.is_one_set(lane, *way)) {
            let queue = queue & !(LANES - 1) | way;
            return Self::come_back(line, &mut self.counts, &mut self.returns, way, queue);
        }
        let free = line.free_of(self.shape.set(lane));
        if free == 0 {
            self.counts.collisions += 1;
            return Lookup { queue, outcome: Outcome::Collision };
        }
        if free & ELSEWHERE != 0 {
            return self.lookup_in_both(hash);
        }
        let way = first_from(lane, free);
        line.claim(way, hash);
        self.counts.claims += 1;
        Lookup { queue: queue & !(LANES - 1) | way, outcome: Outcome::Claimed }
    }

    /// As [`lookup`](Self::lookup), with the answer to a flow that lives in its own way in line, as
    /// most do. This answer is cheaper where an enqueue follows, because none of the packet has to
    /// outlive a call. Every other answer costs 13 instructions more.
    #[inline(always)]
    pub fn lookup_in_line(&mut self, hash: u32) -> Lookup {
        let queue = hash & self.shape.queue_mask;
        let (at, lane) = place(queue);
        if let Some(line) = self.lines.as_mut().get_mut(at)
            && line.has(lane, hash)
        {
            return Self::come_back(line, &mut self.counts, &mut self.returns, lane, queue);
        }
        self.lookup_apart(hash, queue)
    }

    /// [`Self::lookup_beside`] in a function of its own.
    #[inline(never)]
    fn lookup_apart(&mut self, hash: u32, queue: u32) -> Lookup {
        self.lookup_beside(hash, queue)
    }

    /// The answer to the flow that has claimed this lane of `line`, or was the last that did.
    #[inline]
    fn come_back(
        line: &mut TagLine,
        counts: &mut Counts,
        returns: &mut u64,
        lane: u32,
        queue: u32,
    ) -> Lookup {
        if line.is_used(lane) {
            counts.hits += 1;
            return Lookup { queue, outcome: Outcome::Hit };
        }
        line.take(lane);
        counts.claims += 1;
        *returns = returns.wrapping_add(1);
        Lookup { queue, outcome: Outcome::Claimed }
    }

    /// The queue that the flow with this hash has claimed, counted as the [`Hit`](Outcome::Hit)
    /// that it is.
    ///
    /// `None` changes nothing, and a [`lookup`](Self::lookup) says what there is: of 16 ways this
    /// looks at the eight in the line of the own one only. It is small, to be had in line: where
    /// most packets are hits, what follows them need not outlive a call.
    #[must_use]
    #[inline(always)]
    pub fn hit(&mut self, hash: u32) -> Option<u32> {
        let queue = hash & self.shape.queue_mask;
        let (at, lane) = place(queue);
        let line = self.lines.as_ref().get(at)?;
        if line.has(lane, hash) {
            if !line.is_used(lane) {
                return None;
            }
            self.counts.hits += 1;
            return Some(queue);
        }
        let way = line.lane_of(hash).filter(|way| self.shape.is_one_set(lane, *way))?;
        if !line.is_used(way) {
            return None;
        }
        self.counts.hits += 1;
        Some(queue & !(LANES - 1) | way)
    }

    /// The lookup of 16 ways for a hash that is no tag of the line of its own way.
    #[inline(never)]
    fn lookup_in_both(&mut self, hash: u32) -> Lookup {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        let lines = self.lines.as_mut();
        let (near, far) = ((at, own & !(LANES - 1)), (at ^ 1, (own ^ LANES) & !(LANES - 1)));
        if let Some(line) = lines.get_mut(far.0)
            && let Some(way) = line.lane_of(hash)
        {
            let queue = far.1 | way;
            return Self::come_back(line, &mut self.counts, &mut self.returns, way, queue);
        }
        for (at, first) in [near, far] {
            let Some(line) = lines.get_mut(at) else { continue };
            let free = line.free_of(EACH);
            if free != 0 {
                let way = first_from(lane, free);
                line.claim(way, hash);
                self.counts.claims += 1;
                return Lookup { queue: first | way, outcome: Outcome::Claimed };
            }
        }
        self.counts.collisions += 1;
        Lookup { queue: own, outcome: Outcome::Collision }
    }

    /// Looks a flow up as [`lookup`](Self::lookup) does, but claims no free queue of another flow
    /// for which `is_spared` returns true. Returns `None`, and changes nothing, if every free queue
    /// of the set is spared.
    ///
    /// For a caller who keeps something of a flow that is idle, and knows of no other place for it.
    ///
    /// ```
    /// use flowhash::{FlowTable, Outcome, TagLine};
    ///
    /// let mut table = FlowTable::new([TagLine::EMPTY; 1], 8, 8)?;
    /// let first = table.lookup(0).queue;
    /// table.release(first);
    /// let second = table.lookup_sparing(8, |queue| queue == first).expect("seven are not spared");
    /// assert_eq!(second.outcome, Outcome::Claimed);
    /// assert_ne!(second.queue, first);
    /// assert_eq!(table.lookup_sparing(16, |_| true), None);
    /// assert_eq!(table.lookup_sparing(0, |_| true).map(|found| found.queue), Some(first));
    /// # Ok::<(), flowhash::TableError>(())
    /// ```
    #[inline(always)] // as `lookup_in_line`
    pub fn lookup_sparing(&mut self, hash: u32, is_spared: impl Fn(u32) -> bool) -> Option<Lookup> {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        if let Some(line) = self.lines.as_mut().get_mut(at)
            && line.has(lane, hash)
        {
            return Some(Self::come_back(line, &mut self.counts, &mut self.returns, lane, own));
        }
        self.lookup_sparing_beside(hash, is_spared)
    }

    /// [`Self::lookup_sparing`] of a hash that is not the tag of its own way.
    #[inline(never)]
    fn lookup_sparing_beside(
        &mut self,
        hash: u32,
        is_spared: impl Fn(u32) -> bool,
    ) -> Option<Lookup> {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        if self.remembers(hash) || self.free_in_set(own) == 0 {
            return Some(self.lookup(hash));
        }
        let near = (at, own & !(LANES - 1));
        let far = self.shape.neighbour().then_some((at ^ 1, near.1 ^ LANES));
        let lanes = if far.is_some() { EACH } else { self.shape.set(lane) };
        for (at, first) in [Some(near), far].into_iter().flatten() {
            let Some(line) = self.lines.as_mut().get_mut(at) else { continue };
            let mut free = line.free_of(lanes);
            while free != 0 {
                let way = first_from(lane, free);
                if !is_spared(first | way) {
                    line.claim(way, hash);
                    self.counts.claims += 1;
                    return Some(Lookup { queue: first | way, outcome: Outcome::Claimed });
                }
                free &= !(1 << (8 * way));
            }
        }
        None
    }

    /// The queue the flow with this hash has claimed, if it has. Changes nothing.
    #[must_use]
    pub fn find(&self, hash: u32) -> Option<u32> {
        self.tagged(hash).filter(|queue| self.is_used(*queue))
    }

    /// Whether a queue of the flow's set, in use or free, was claimed with this hash last: the next
    /// lookup comes back to it. A queue that no flow has claimed yet counts as claimed with its own
    /// number.
    #[must_use]
    #[inline]
    pub fn remembers(&self, hash: u32) -> bool {
        self.tagged(hash).is_some()
    }

    /// The queue of the flow's set with this tag, in use or free.
    #[inline]
    fn tagged(&self, hash: u32) -> Option<u32> {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        let lines = self.lines.as_ref();
        let lane_in = |at: usize| lines.get(at).and_then(|line| line.lane_of(hash));
        if let Some(way) = lane_in(at).filter(|way| self.shape.is_one_set(lane, *way)) {
            return Some(own & !(LANES - 1) | way);
        }
        if !self.shape.neighbour() {
            return None;
        }
        lane_in(at ^ 1).map(|way| (own ^ LANES) & !(LANES - 1) | way)
    }

    /// Frees `queue` for other flows; call it when the queue has emptied.
    ///
    /// Tells whether it was in use. Free queues and numbers beyond the table are left alone.
    #[inline]
    pub fn release(&mut self, queue: u32) -> bool {
        let (at, lane) = place(queue);
        match self.lines.as_mut().get_mut(at) {
            Some(line) if line.is_used(lane) => {
                line.free(lane);
                self.ended = self.ended.wrapping_add(1);
                true
            }
            _ => false,
        }
    }

    /// Returns true if `queue` is claimed; a queue beyond the table is not.
    #[must_use]
    pub fn is_used(&self, queue: u32) -> bool {
        let (at, lane) = place(queue);
        self.lines.as_ref().get(at).is_some_and(|line| line.is_used(lane))
    }

    /// How many queues of the set that `queue` is in are free. 0 beyond the table. Cost: O(1).
    #[must_use]
    #[inline]
    pub fn free_in_set(&self, queue: u32) -> u32 {
        let (at, lane) = place(queue);
        let is_two_lines = self.shape.neighbour();
        let lanes = if is_two_lines { EACH } else { self.shape.set(lane) };
        let free = |at: usize| self.lines.as_ref().get(at).map_or(0, |line| line.count_free(lanes));
        free(at) + if is_two_lines { free(at ^ 1) } else { 0 }
    }

    /// The number of claimed queues.
    #[must_use]
    pub fn occupied(&self) -> u32 {
        // Claims are at most the queues: 2^20.
        u32::try_from(self.counts.claims.wrapping_sub(self.ended)).unwrap_or(u32::MAX)
    }

    /// The number of queues.
    #[must_use]
    pub fn queues(&self) -> u32 {
        self.shape.queue_mask + 1
    }

    /// The ways of a set.
    #[must_use]
    pub fn ways(&self) -> u32 {
        self.shape.ways
    }

    /// How lookups have ended so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many of the [claims](Counts::claims) were of a flow that came back to its last queue, as
    /// [`remembers`](Self::remembers) says before. A claim is one if and only if it changes this.
    #[must_use]
    #[inline]
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// Frees every queue and forgets every tag; the counts stay. Cost: the whole table.
    pub fn clear(&mut self) {
        let queues = 0..=self.shape.queue_mask;
        for (line, first) in self.lines.as_mut().iter_mut().zip(queues.step_by(index(LANES))) {
            *line = TagLine::unclaimed(first);
        }
        self.ended = self.counts.claims;
    }
}
