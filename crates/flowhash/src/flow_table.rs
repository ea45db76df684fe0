//! Set-associative flow table: maps a hash to a queue, like a cache maps an address to a line.
//!
//! A hash selects one queue, its *own way*. The queues around it form a *set*, and a flow may use
//! any queue of its set. With 8 ways, collisions become slightly rarer with as many flows as
//! queues, eight times rarer with half as many flows, and two hundred times rarer with a quarter
//! ([`FlowTable`] has the figures). Source: CAKE §III-B; there the new flow takes over the tag in a
//! full set, here it does not (see *Collisions*).
//!
//! # When a queue is in use
//!
//! The table knows which hash has which queue; only the scheduler knows whether the queue holds
//! packets. **A queue is in use from the lookup that claims it until its
//! [`release`](FlowTable::release) after it has emptied.** Release is idempotent, so you need not
//! remember earlier ones. After any operation that may have left the queue empty (its last packet
//! left, was dropped, or was rejected on arrival): `if empty { table.release(queue) }`.
//!
//! # Collisions
//!
//! If all ways of its set belong to others, a flow shares the queue of its own way, and the tag
//! stays with the flow that claimed it. So an established flow never changes its queue: no arrival
//! can displace or reorder it, and per-queue state of the caller (hosts, statistics) stays that of
//! its claimant. The new flow claims the first way of the set that is released; only then, once,
//! its packets may overtake those it left in the shared queue. If the tag were overwritten instead,
//! the two flows would take it from each other with every packet, and the one that came from
//! another way would be reordered each time.
//!
//! A released way keeps its tag: a flow that returns before others took it gets the same queue, and
//! with it what the caller's AQM has learned about the flow.
//!
//! # Changing the key
//!
//! With another hash key, a flow has another hash and another set. Use the new key from any packet
//! on: queues claimed under the old key are released as they empty. A flow with packets queued at
//! that time may overtake them, once. To prevent this, look up the flow of each queued packet again
//! and move the packet to the queue returned.

mod set;

use core::fmt;

use set::{EACH, ELSEWHERE, LANES, Shape, first_from, index, place};

pub use set::TagLine;

/// Maximum number of queues of a table.
pub const MAX_QUEUES: u32 = 1 << 20;

/// Default number of ways per set.
pub const DEFAULT_WAYS: u32 = 8;

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lookup {
    /// The queue to use, below [`FlowTable::queues`].
    pub queue: u32,
    /// The way in which the flow got this queue.
    pub outcome: Outcome,
}

/// Reason why a flow has a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Outcome {
    /// The flow had claimed the queue before.
    Hit,
    /// The queue was free and is now the flow's. State that the caller keeps per queue, such as an
    /// AQM's, is still the last flow's until the caller resets it.
    Claimed,
    /// All ways of the set belong to other flows; the queue is one of theirs.
    Collision,
}

/// Number of lookups by outcome since construction. Their sum is the number of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Lookups with [`Outcome::Hit`].
    pub hits: u64,
    /// Lookups with [`Outcome::Claimed`].
    pub claims: u64,
    /// Lookups with [`Outcome::Collision`].
    pub collisions: u64,
}

/// Parameters that are not valid for a [`FlowTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableError {
    /// Number of ways that is not 1, 2, 4, 8 or 16.
    Ways {
        /// The given number of ways.
        ways: u32,
    },
    /// Number of queues that is not a power of two in `ways..=MAX_QUEUES`.
    Queues {
        /// The given number of queues.
        queues: u32,
        /// The minimum number of queues.
        ways: u32,
    },
    /// Storage with fewer lines than the queues need.
    Storage {
        /// The given number of lines.
        lines: usize,
        /// The minimum number of lines.
        needed: usize,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ways { ways } => write!(f, "{ways} ways (expected 1, 2, 4, 8 or 16)"),
            Self::Queues { queues, ways } => {
                write!(f, "{queues} queues (expected a power of two from {ways} to {MAX_QUEUES})")
            }
            Self::Storage { lines, needed } => {
                write!(f, "storage of {lines} lines (expected at least {needed})")
            }
        }
    }
}

impl core::error::Error for TableError {}

/// Maps 32-bit hashes to queues, in sets of 1 to 16 ways, in the caller's storage.
///
/// `S` is an array, a `&mut` slice or a box of [`TagLine`]s: any type that returns the same slice
/// each time.
///
/// Cost in instructions, with 8 ways, the same for 32 to 65,536 flows (x86-64, callgrind, minus the
/// caller's loop without the lookup). This includes the call, the computation of the hash and the
/// use of the result, which are 5 instructions of a hit and 8 of the others:
///
/// | lookup | instructions |
/// |---|--:|
/// | hit, mean over flows that fill half of the queues: most have their own way | 29 to 31 |
/// | collision | 37 |
/// | claim | 48 |
/// | release | 12 |
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
/// use flowhash::{FlowTable, Outcome, TagLine};
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
    /// Number of claims by the flow that had the queue last.
    returns: u64,
    /// Number of counted claims that have ended; the others are the lanes in use in `lines`.
    ended: u64,
}

/// Omits the lines.
impl<S> fmt::Debug for FlowTable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("FlowTable");
        debug.field("shape", &self.shape).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<S: AsRef<[TagLine]> + AsMut<[TagLine]>> FlowTable<S> {
    /// Creates an empty table of `queues` queues in sets of `ways`; clears `lines`.
    ///
    /// Uses the first `queues / 8` lines, rounded up. Cost: linear in `lines`.
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
        // Clears the lines beyond the table too: no queue there is ever in use, so they need no
        // check.
        table.lines.as_mut().fill(TagLine::EMPTY);
        table.clear();
        Ok(table)
    }

    /// Finds the queue of the flow with this hash; claims one if it has none.
    ///
    /// In this order:
    /// 1. The way with this tag, of which there is at most one. If it is in use, a
    ///    [`Hit`](Outcome::Hit); if it is free, it was the flow's last queue and is claimed again:
    ///    [`Claimed`](Outcome::Claimed).
    /// 2. The first free way, which gets the tag: [`Claimed`](Outcome::Claimed).
    /// 3. The own way, whose tag is kept: [`Collision`](Outcome::Collision).
    ///
    /// The first way is the own one (`hash` modulo the number of queues), followed by the next ones
    /// of its line, cyclically; with 16 ways, then those of the neighbouring line in the same
    /// order.
    ///
    /// Cost: constant; reads one cache line, two with 16 ways. No loop: all tags of a line are
    /// compared at once, and its free ways are the bits of a word.
    #[inline]
    pub fn lookup(&mut self, hash: u32) -> Lookup {
        let queue = hash & self.shape.queue_mask;
        let (at, lane) = place(queue);
        let Some(line) = self.lines.as_mut().get_mut(at) else {
            // Unreachable: `new` checked that there are lines for all queues.
            return Lookup { queue, outcome: Outcome::Collision };
        };
        // If so, no other way has the tag. Most flows are in their own way.
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
            // Unreachable: `new` checked that there are lines for all queues.
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

    /// [`lookup`](Self::lookup) with the most frequent case inlined: a flow in its own way.
    ///
    /// Cheaper if an enqueue follows, because none of the packet has to outlive a call. All other
    /// cases cost 13 instructions more.
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

    /// [`Self::lookup_beside`], out of line.
    #[inline(never)]
    fn lookup_apart(&mut self, hash: u32, queue: u32) -> Lookup {
        self.lookup_beside(hash, queue)
    }

    /// Returns the result for the flow that has claimed this lane of `line`, now or last.
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

    /// Returns the queue that the flow with this hash has claimed, and counts a
    /// [`Hit`](Outcome::Hit).
    ///
    /// Returns `None` without a change if there is none, or if it may be in the other line of a set
    /// of 16 ways, which is not read; call [`lookup`](Self::lookup) then. Small and always inlined:
    /// if most packets are hits, what follows need not outlive a call.
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

    /// Looks up a hash in both lines of a set of 16 ways; it is not a tag in the line of its own
    /// way.
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

    /// Looks up a flow like [`lookup`](Self::lookup), but claims no free queue of another flow for
    /// which `is_spared` returns true.
    ///
    /// Returns `None` without a change if every free queue of the set is spared. Use it to keep
    /// state of idle flows that is stored nowhere else.
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
    #[inline(always)] // like `lookup_in_line`
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

    /// Returns the queue that the flow with this hash has claimed, if any, without a change.
    #[must_use]
    pub fn find(&self, hash: u32) -> Option<u32> {
        self.tagged(hash).filter(|queue| self.is_used(*queue))
    }

    /// Returns true if a queue of the flow's set, in use or free, was last claimed with this hash,
    /// so that the next lookup returns it.
    ///
    /// A queue that was never claimed counts as claimed with its own number.
    #[must_use]
    #[inline]
    pub fn remembers(&self, hash: u32) -> bool {
        self.tagged(hash).is_some()
    }

    /// Returns the queue of the flow's set with this tag, in use or free.
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
    /// Returns true if it was in use. Free queues and numbers beyond the table are ignored.
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

    /// Returns true if `queue` is claimed; false for numbers beyond the table.
    #[must_use]
    pub fn is_used(&self, queue: u32) -> bool {
        let (at, lane) = place(queue);
        self.lines.as_ref().get(at).is_some_and(|line| line.is_used(lane))
    }

    /// Returns the number of free queues in the set of `queue`; 0 beyond the table. Cost: constant.
    #[must_use]
    #[inline]
    pub fn free_in_set(&self, queue: u32) -> u32 {
        let (at, lane) = place(queue);
        let is_two_lines = self.shape.neighbour();
        let lanes = if is_two_lines { EACH } else { self.shape.set(lane) };
        let free = |at: usize| self.lines.as_ref().get(at).map_or(0, |line| line.count_free(lanes));
        free(at) + if is_two_lines { free(at ^ 1) } else { 0 }
    }

    /// Returns the number of claimed queues.
    #[must_use]
    pub fn occupied(&self) -> u32 {
        // At most the number of queues, 2^20.
        u32::try_from(self.counts.claims.wrapping_sub(self.ended)).unwrap_or(u32::MAX)
    }

    /// Returns the number of queues.
    #[must_use]
    pub fn queues(&self) -> u32 {
        self.shape.queue_mask + 1
    }

    /// Returns the number of ways per set.
    #[must_use]
    pub fn ways(&self) -> u32 {
        self.shape.ways
    }

    /// Returns the number of lookups by outcome.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of [claims](Counts::claims) by a flow that returned to its last queue.
    ///
    /// A claim is one if and only if it changes this number; [`remembers`](Self::remembers)
    /// predicts it.
    #[must_use]
    #[inline]
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// Frees every queue and clears every tag; the counts are kept. Cost: linear in the table.
    pub fn clear(&mut self) {
        let queues = 0..=self.shape.queue_mask;
        for (line, first) in self.lines.as_mut().iter_mut().zip(queues.step_by(index(LANES))) {
            *line = TagLine::unclaimed(first);
        }
        self.ended = self.counts.claims;
    }
}
