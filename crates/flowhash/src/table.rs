//! The set-associative table: from a hash to a queue, as a cache maps an address to a line.
//!
//! A hash points at one queue, its *own way*; the queues around it form a *set*, and a flow may
//! live in any queue of its set. With 8 ways and as many queues as flows this divides collisions
//! by little, with half as many flows by eight, with a quarter by two hundred ([`Table`] has the
//! figures). Idea: S002 (CAKE) §IV-B; there the newcomer of a full set takes over the tag, here
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

use core::fmt;

/// The most queues a table maps to.
pub const MAX_QUEUES: u32 = 1 << 20;

/// The ways of a set when nothing else is asked for.
pub const DEFAULT_WAYS: u32 = 8;

const LANES: u32 = 8;

/// Tags and occupancy of eight neighbouring queues: what a lookup reads, in one cache line.
///
/// The storage of a [`Table`] is made of these: 8 bytes a queue.
///
/// A set of 1, 2, 4 or 8 ways lies within a line. A set of 16 ways is two neighbouring lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The hash of the flow that claimed the lane, or last did.
    tags: [u32; LANES as usize],
    /// Bit `i` is set if and only if lane `i` is claimed and not yet released.
    used: u32,
}

impl Line {
    /// Eight queues nobody has claimed.
    pub const EMPTY: Self = Self { tags: [0; LANES as usize], used: 0 };

    /// Bit `i` is set if and only if lane `i` has tag `hash`, in use or not.
    #[inline]
    fn matches(&self, hash: u32) -> u32 {
        const OTHERS: [u32; LANES as usize] = [!1, !2, !4, !8, !16, !32, !64, !128];
        // The complement of a conjunction, because compilers turn this form, and not the plain
        // disjunction, into whole vectors: 14 instructions instead of 28 on x86-64.
        let tags = self.tags.iter().zip(OTHERS);
        !tags.fold(!0, |rest, (tag, others)| rest & if *tag == hash { others } else { !0 })
    }

    /// The lanes of `set`, by what they are to `hash`.
    #[inline]
    fn ways(&self, hash: u32, set: u32) -> Ways {
        let (matches, free) = (self.matches(hash) & set, !self.used & set);
        Ways { active: matches & self.used, former: matches & free, free }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::EMPTY
    }
}

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
    /// The queue was free and is the flow's: what the caller keeps per queue begins anew.
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

/// How queues are numbered and grouped.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Queues less one.
    queue_mask: u32,
    /// The lanes of the set that begins at lane 0.
    set: u32,
    /// The bits of a lane that say which of the line's sets it is in.
    set_of_lane: u32,
    /// Whether a set goes on in the line's neighbour (16 ways).
    neighbour: bool,
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

/// Those lanes of a line that are in the set searched, by what they are to a hash.
#[derive(Clone, Copy)]
struct Ways {
    /// In use, with its tag.
    active: u32,
    /// Free, with its tag.
    former: u32,
    /// Free.
    free: u32,
}

impl Ways {
    const NONE: Self = Self { active: 0, former: 0, free: 0 };
}

impl Shape {
    /// The set's ways in the own line.
    #[inline]
    fn near(&self, lines: &[Line], hash: u32) -> Ways {
        let (line, lane) = place(hash & self.queue_mask);
        let set = self.set << (lane & self.set_of_lane);
        lines.get(line).map_or(Ways::NONE, |line| line.ways(hash, set))
    }

    /// The set's ways in the neighbour of the own line.
    #[inline]
    fn far(&self, lines: &[Line], hash: u32) -> Ways {
        let (line, _) = place(hash & self.queue_mask);
        match self.neighbour {
            false => Ways::NONE,
            true => lines.get(line ^ 1).map_or(Ways::NONE, |line| line.ways(hash, self.set)),
        }
    }

    /// The queue of the only one of `ways`, which are not 0.
    #[inline]
    fn only(&self, hash: u32, ways: u32, far: bool) -> u32 {
        let own = hash & self.queue_mask;
        // A neighbour's queues differ in the bit above the lane.
        ((own & !(LANES - 1)) | ways.trailing_zeros()) ^ (u32::from(far) * LANES)
    }

    /// The queue of the first of `ways`, which are not 0, cyclically from the own lane on.
    #[inline]
    fn first(&self, hash: u32, ways: u32, far: bool) -> u32 {
        let from_own = ways & (!0 << (hash & self.queue_mask & (LANES - 1)));
        self.only(hash, if from_own == 0 { ways } else { from_own }, far)
    }

    /// What [`Table::lookup`] describes, when the own way does not have the tag.
    #[inline(never)]
    fn search(&self, lines: &mut [Line], hash: u32) -> Lookup {
        let near = self.near(lines, hash);
        if near.active != 0 {
            let queue = self.only(hash, near.active, false);
            return Lookup { queue, outcome: Outcome::Hit };
        }
        self.search_far_and_claim(lines, hash, near)
    }

    #[inline(never)]
    fn search_far_and_claim(&self, lines: &mut [Line], hash: u32, near: Ways) -> Lookup {
        let far = self.far(lines, hash);
        let queue = if far.active != 0 {
            let queue = self.only(hash, far.active, true);
            return Lookup { queue, outcome: Outcome::Hit };
        } else if near.former != 0 {
            self.first(hash, near.former, false)
        } else if far.former != 0 {
            self.first(hash, far.former, true)
        } else if near.free != 0 {
            self.first(hash, near.free, false)
        } else if far.free != 0 {
            self.first(hash, far.free, true)
        } else {
            return Lookup { queue: hash & self.queue_mask, outcome: Outcome::Collision };
        };
        let (line, lane) = place(queue);
        if let Some(line) = lines.get_mut(line)
            && let Some(tag) = line.tags.get_mut(index(lane))
        {
            *tag = hash;
            line.used |= 1 << lane;
        }
        Lookup { queue, outcome: Outcome::Claimed }
    }
}

/// The line and the lane of a queue.
#[inline]
fn place(queue: u32) -> (usize, u32) {
    (index(queue >> LANES.trailing_zeros()), queue & (LANES - 1))
}

/// Queue numbers are below 2^20: they fit every target's `usize` but 16-bit ones, which have no
/// storage of that length either.
#[inline]
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
