//! The set-associative table: from a hash to a queue, as a cache maps an address to a line.
//!
//! A hash points at one queue, its *own way*; the queues around it form a *set*, and a flow may
//! live in any queue of its set. With 8 ways and as many queues as flows this divides collisions
//! by little, with half as many flows by eight, with a quarter by two hundred ([`Table`] has the
//! figures). Idea: CAKE §III-B; there the newcomer of a full set takes over the tag, here
//! it does not (below).
//!
//! # Who owns what
//!
//! The table knows which hash lives in which queue; only the scheduler knows whether that queue
//! holds packets. The rule that joins them: **a queue is in use from the lookup that claims it to
//! the [`release`](Table::release) after it has emptied.** Release is idempotent, so the caller
//! needs no memory of what it did: after any operation that may have left the queue empty (the
//! last packet left, was dropped, was refused on arrival), `if empty { table.release(queue) }`.
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
//! Under another key a flow has another label and another set, and would overtake the packets it has
//! queued. [`rotate`](Table::rotate) begins a transition in which the caller gives both labels
//! ([`lookup_rotating`](Table::lookup_rotating)): who holds packets under the old one stays, all
//! others are looked up by the new one. Without a transition none of this costs anything.

mod rotation;
mod set;

use core::fmt;

use set::{LANES, SHARED, Shape, USED, first_from, index, lane_of, place};

pub use rotation::Rotating;
pub use set::Line;

/// The most queues a table maps to.
pub const MAX_QUEUES: u32 = 1 << 20;

/// The ways of a set when nothing else is asked for.
pub const DEFAULT_WAYS: u32 = 8;

/// The answer of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The queue to use, below [`Table::queues`].
    pub queue: u32,
    /// How the flow came by it.
    pub outcome: Outcome,
}

/// How a flow came by its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The flow had claimed the queue before.
    Hit,
    /// The queue was free and is the flow's. What a caller keeps for the queue, an AQM's state say, is
    /// the last flow's until the caller begins it anew.
    Claimed,
    /// Every way of the set belongs to another flow; the queue is one of theirs.
    Collision,
}

/// How often lookups ended in each outcome since construction. Their sum is the number of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
/// `S` is an array, a `&mut` slice or a box of [`Line`]s: whatever gives the same slice each time.
///
/// Cost of a lookup in instructions, 8 ways, from 32 to 4,096 flows alike (x86-64, callgrind, the
/// caller's loop subtracted): 31 to 33 in the mean over flows that fill half of the queues, most of
/// which live in their own way; 56 for a collision; 89 for a claim and the release after it.
///
/// Probability that a new flow collides in a table of 1,024 queues, P\[Bin(n, k / N) ≥ k\] for n
/// active flows, N queues, k ways (measured within 0.005 of it, `tests/spread.rs`):
///
/// | active flows | 128 | 256 | 512 | 1,024 |
/// |---|---|---|---|---|
/// | 1 way | 0.118 | 0.221 | 0.394 | 0.632 |
/// | 8 ways | 0.000 009 | 0.001 | 0.050 | 0.548 |
///
/// # Examples
///
/// ```
/// use flowhash::{Line, Outcome, Table};
///
/// let mut table = Table::new([Line::EMPTY; 2], 16, 8)?;
/// let first = table.lookup(0xfeed_f00d);
/// assert_eq!(first.outcome, Outcome::Claimed);
/// assert_eq!(table.lookup(0xfeed_f00d).outcome, Outcome::Hit);
/// // … the packets of the flow have left its queue …
/// table.release(first.queue);
/// assert_eq!(table.occupied(), 0);
/// # Ok::<(), flowhash::TableError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table<S> {
    lines: S,
    shape: Shape,
    counts: Counts,
    /// The number of lanes in use in `lines`.
    occupied: u32,
    /// No line before this one has old claims; while this is a line of the table, a rotation is under way.
    swept: u32,
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> Table<S> {
    /// An empty table of `queues` queues in sets of `ways`; whatever `lines` held is cleared.
    ///
    /// Uses the first `queues / 8` lines, rounded up.
    ///
    /// # Errors
    ///
    /// [`TableError`] if `ways` is not 1, 2, 4, 8 or 16, if `queues` is not a power of two in
    /// `ways..=MAX_QUEUES`, or if `lines` is too short.
    pub fn new(lines: S, queues: u32, ways: u32) -> Result<Self, TableError> {
        let Some(sets) = set::sets(ways) else { return Err(TableError::Ways { ways }) };
        if !queues.is_power_of_two() || queues < ways || queues > MAX_QUEUES {
            return Err(TableError::Queues { queues, ways });
        }
        let needed = index(queues.div_ceil(LANES));
        let given = lines.as_ref().len();
        if given < needed {
            return Err(TableError::Storage { lines: given, needed });
        }
        let shape = Shape { queue_mask: queues - 1, sets, neighbour: ways > LANES };
        let mut table = Self { lines, shape, counts: Counts::default(), occupied: 0, swept: 0 };
        table.clear();
        Ok(table)
    }

    /// Finds the queue of the flow with this hash, claiming one if it has none.
    ///
    /// In this order:
    /// 1. the way with this tag; there is one at most. In use it is a [`Hit`](Outcome::Hit), free it
    ///    was the flow's last queue and is again: [`Claimed`](Outcome::Claimed);
    /// 2. the first free way, which gets the tag: [`Claimed`](Outcome::Claimed);
    /// 3. the own way, whose tag stays as it is: [`Collision`](Outcome::Collision).
    ///
    /// The first way is the own one (`hash` modulo the queues), the next those behind it cyclically
    /// in its line, then, with 16 ways, likewise those of the neighbour.
    ///
    /// Cost: constant; one cache line read, two with 16 ways.
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
            if line.states >> lane & 1 != 0 {
                self.counts.hits += 1;
                return Lookup { queue, outcome: Outcome::Hit };
            }
            line.states |= 1 << lane;
            self.counts.claims += 1;
            self.occupied += 1;
            return Lookup { queue, outcome: Outcome::Claimed };
        }
        let set = self.shape.set(lane);
        let matches = line.matches(hash) & set;
        if matches != 0 {
            let way = lane_of(matches);
            let queue = queue & !(LANES - 1) | way;
            if line.states >> way & 1 != 0 {
                self.counts.hits += 1;
                return Lookup { queue, outcome: Outcome::Hit };
            }
            line.states |= 1 << way;
            self.counts.claims += 1;
            self.occupied += 1;
            return Lookup { queue, outcome: Outcome::Claimed };
        }
        let free = !line.states & set;
        if free != 0 {
            let way = first_from(lane, free);
            line.claim(way, hash);
            self.counts.claims += 1;
            self.occupied += 1;
            return Lookup { queue: queue & !(LANES - 1) | way, outcome: Outcome::Claimed };
        }
        if self.shape.neighbour {
            return self.lookup_in_both(hash);
        }
        line.states |= 1 << (SHARED + lane);
        self.counts.collisions += 1;
        Lookup { queue, outcome: Outcome::Collision }
    }

    /// The lookup of 16 ways for a hash that is not the tag of the own way.
    #[inline(never)]
    fn lookup_in_both(&mut self, hash: u32) -> Lookup {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        let lines = self.lines.as_mut();
        let look = |at: usize| {
            lines.get(at).map_or((0, 0), |line| (line.matches(hash), !line.states & USED))
        };
        let ((near, near_free), (far, far_free)) = (look(at), look(at ^ 1));
        let (at, way, queue) = if near != 0 {
            (at, lane_of(near), own)
        } else if far != 0 {
            (at ^ 1, lane_of(far), own ^ LANES)
        } else if near_free != 0 {
            (at, first_from(lane, near_free), own)
        } else if far_free != 0 {
            (at ^ 1, first_from(lane, far_free), own ^ LANES)
        } else {
            if let Some(line) = lines.get_mut(at) {
                line.states |= 1 << (SHARED + lane);
            }
            self.counts.collisions += 1;
            return Lookup { queue: own, outcome: Outcome::Collision };
        };
        let queue = queue & !(LANES - 1) | way;
        match lines.get_mut(at) {
            Some(line) if line.states >> way & 1 == 0 => line.claim(way, hash),
            _ => {
                self.counts.hits += 1;
                return Lookup { queue, outcome: Outcome::Hit };
            }
        }
        self.counts.claims += 1;
        self.occupied += 1;
        Lookup { queue, outcome: Outcome::Claimed }
    }

    /// The queue the flow with this hash has claimed, if it has. Changes nothing.
    #[must_use]
    pub fn find(&self, hash: u32) -> Option<u32> {
        self.claimed(hash, 0)
    }

    /// The queue in use with this tag whose lane has the bit at this distance set: 0 for any.
    #[inline]
    fn claimed(&self, hash: u32, distance: u32) -> Option<u32> {
        let own = hash & self.shape.queue_mask;
        let (at, lane) = place(own);
        let set = if self.shape.neighbour { USED } else { self.shape.set(lane) };
        let lines = self.lines.as_ref();
        let claimed = |at: usize| {
            lines.get(at).map_or(0, |line| line.matches(hash) & (line.states >> distance) & set)
        };
        let near = claimed(at);
        if near != 0 {
            return Some(own & !(LANES - 1) | lane_of(near));
        }
        if !self.shape.neighbour {
            return None;
        }
        let far = claimed(at ^ 1);
        (far != 0).then(|| (own ^ LANES) & !(LANES - 1) | lane_of(far))
    }

    /// Frees `queue` for other flows; call it when the queue has emptied.
    ///
    /// Tells whether it was in use. Free queues and numbers beyond the table are left alone.
    #[inline]
    pub fn release(&mut self, queue: u32) -> bool {
        let (at, lane) = place(queue);
        match self.lines.as_mut().get_mut(at) {
            // Storage may be larger than the table and hold what others left there.
            Some(line) if line.states >> lane & 1 == 1 && queue <= self.shape.queue_mask => {
                line.free(lane);
                self.occupied = self.occupied.saturating_sub(1);
                true
            }
            _ => false,
        }
    }

    /// Whether `queue` is claimed.
    #[must_use]
    pub fn is_used(&self, queue: u32) -> bool {
        let (at, lane) = place(queue);
        let line = self.lines.as_ref().get(at).filter(|_| queue <= self.shape.queue_mask);
        line.is_some_and(|line| line.states >> lane & 1 == 1)
    }

    /// The number of claimed queues.
    #[must_use]
    pub fn occupied(&self) -> u32 {
        self.occupied
    }

    /// The number of queues.
    #[must_use]
    pub fn queues(&self) -> u32 {
        self.shape.queue_mask + 1
    }

    /// The ways of a set.
    #[must_use]
    pub fn ways(&self) -> u32 {
        if self.shape.neighbour { 2 * LANES } else { self.shape.set(0).count_ones() }
    }

    /// How lookups have ended so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Frees every queue, forgets every tag and ends a rotation; the counts stay. Cost: the whole table.
    pub fn clear(&mut self) {
        let queues = 0..=self.shape.queue_mask;
        for (line, first) in self.lines.as_mut().iter_mut().zip(queues.step_by(index(LANES))) {
            *line = Line::unclaimed(first);
        }
        self.occupied = 0;
        self.swept = self.used_lines();
    }
}
