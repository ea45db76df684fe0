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

mod set;

use core::fmt;

use set::{LANES, Shape, index, place};

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
/// Cost of a lookup, in instructions (x86-64, callgrind, the caller's loop subtracted): a hit 24 with 32
/// flows and 34 on average with 1,024 flows in 2,048 queues, 8 ways; 77 where most lookups collide.
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
    /// The number of `used` bits set in `lines`.
    occupied: u32,
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
    pub fn new(mut lines: S, queues: u32, ways: u32) -> Result<Self, TableError> {
        let (set, set_of_lane, neighbour) = match ways {
            1 => (0b1, 7, false),
            2 => (0b11, 6, false),
            4 => (0b1111, 4, false),
            8 => (0xff, 0, false),
            16 => (0xff, 0, true),
            _ => return Err(TableError::Ways { ways }),
        };
        if !queues.is_power_of_two() || queues < ways || queues > MAX_QUEUES {
            return Err(TableError::Queues { queues, ways });
        }
        let needed = index(queues.div_ceil(LANES));
        let given = lines.as_ref().len();
        let Some(used) = lines.as_mut().get_mut(..needed) else {
            return Err(TableError::Storage { lines: given, needed });
        };
        used.fill(Line::EMPTY);
        let shape = Shape { queue_mask: queues - 1, set, set_of_lane, neighbour };
        Ok(Self { lines, shape, counts: Counts::default(), occupied: 0 })
    }

    /// Finds the queue of the flow with this hash, claiming one if it has none.
    ///
    /// In this order, each step from the own way (`hash` modulo the queues) cyclically through its
    /// line, then, with 16 ways, likewise through the neighbour:
    /// 1. the way in use with this tag (there is one at most): [`Hit`](Outcome::Hit);
    /// 2. a free way that last had this tag: [`Claimed`](Outcome::Claimed);
    /// 3. a free way: [`Claimed`](Outcome::Claimed);
    /// 4. the own way, whose tag stays as it is: [`Collision`](Outcome::Collision).
    ///
    /// Cost: constant; one cache line read, two with 16 ways.
    #[inline]
    pub fn lookup(&mut self, hash: u32) -> Lookup {
        let queue = hash & self.shape.queue_mask;
        let (line, lane) = place(queue);
        // Most packets end here, also those of a sparse flow, whose queue empties each time; the
        // rest stays out of the caller's loop.
        let lookup = match self.lines.as_mut().get_mut(line) {
            Some(line) if line.tags.get(index(lane)) == Some(&hash) => {
                // No other way has the tag: it was written only when its set did not have it.
                let free = line.used >> lane & 1 == 0;
                line.used |= 1 << lane;
                Lookup { queue, outcome: if free { Outcome::Claimed } else { Outcome::Hit } }
            }
            _ => self.shape.search(self.lines.as_mut(), hash),
        };
        match lookup.outcome {
            Outcome::Hit => self.counts.hits += 1,
            Outcome::Claimed => {
                self.counts.claims += 1;
                self.occupied += 1;
            }
            Outcome::Collision => self.counts.collisions += 1,
        }
        lookup
    }

    /// The queue the flow with this hash has claimed, if it has. Changes nothing.
    #[must_use]
    pub fn find(&self, hash: u32) -> Option<u32> {
        let lines = self.lines.as_ref();
        let near = self.shape.near(lines, hash).active;
        let far = self.shape.far(lines, hash).active;
        match (near, far) {
            (0, 0) => None,
            (0, far) => Some(self.shape.only(hash, far, true)),
            (near, _) => Some(self.shape.only(hash, near, false)),
        }
    }

    /// Frees `queue` for other flows; call it when the queue has emptied.
    ///
    /// Tells whether it was in use. Free queues and numbers beyond the table are left alone.
    #[inline]
    pub fn release(&mut self, queue: u32) -> bool {
        let (line, lane) = place(queue);
        match self.lines.as_mut().get_mut(line) {
            // Storage may be larger than the table and hold what others left there.
            Some(line) if line.used >> lane & 1 == 1 && queue <= self.shape.queue_mask => {
                line.used ^= 1 << lane;
                self.occupied = self.occupied.saturating_sub(1);
                true
            }
            _ => false,
        }
    }

    /// Whether `queue` is claimed.
    #[must_use]
    pub fn is_used(&self, queue: u32) -> bool {
        let (line, lane) = place(queue);
        let line = self.lines.as_ref().get(line).filter(|_| queue <= self.shape.queue_mask);
        line.is_some_and(|line| line.used >> lane & 1 == 1)
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
        self.shape.set.count_ones() << u32::from(self.shape.neighbour)
    }

    /// How lookups have ended so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Frees every queue and forgets every tag; the counts stay. Cost: the whole table.
    pub fn clear(&mut self) {
        self.lines.as_mut().fill(Line::EMPTY);
        self.occupied = 0;
    }
}
