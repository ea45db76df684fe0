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
    used: u8,
}

impl Line {
    /// Eight queues nobody has claimed.
    pub const EMPTY: Self = Self { tags: [0; LANES as usize], used: 0 };

    /// Bit `i` is set if and only if lane `i` has tag `hash`, in use or not.
    #[inline]
    fn matches(&self, hash: u32) -> u8 {
        let mut lanes = 0;
        for (lane, tag) in self.tags.iter().enumerate() {
            lanes |= u8::from(*tag == hash) << lane;
        }
        lanes
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
/// `S` is an array, a `&mut` slice or a box of [`Line`]s.
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
    set: u8,
    /// The bits of a lane that say which of the line's sets it is in.
    set_of_lane: u32,
    /// 1 if a set goes on in the line's neighbour (16 ways), else 0.
    neighbour: u32,
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
            1 => (0b1, 7, 0),
            2 => (0b11, 6, 0),
            4 => (0b1111, 4, 0),
            8 => (0xff, 0, 0),
            16 => (0xff, 0, 1),
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
    /// 1. a way in use with this tag: [`Hit`](Outcome::Hit);
    /// 2. a free way that last had this tag: [`Claimed`](Outcome::Claimed);
    /// 3. a free way: [`Claimed`](Outcome::Claimed);
    /// 4. the own way, whose tag stays as it is: [`Collision`](Outcome::Collision).
    ///
    /// Cost: constant; one cache line read, two with 16 ways.
    #[inline]
    pub fn lookup(&mut self, hash: u32) -> Lookup {
        let queue = hash & self.shape.queue_mask;
        let (line, lane) = place(queue);
        if let Some(line) = self.lines.as_ref().get(line)
            && line.tags.get(index(lane)) == Some(&hash)
            && line.used >> lane & 1 == 1
        {
            self.counts.hits += 1;
            return Lookup { queue, outcome: Outcome::Hit };
        }
        let lookup = self.shape.search(self.lines.as_mut(), hash);
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
        let [used, _] = self.shape.ways(self.lines.as_ref(), hash).by_state();
        self.shape.first(hash, used)
    }

    /// Frees `queue` for other flows; call it when the queue has emptied.
    ///
    /// Tells whether it was in use. Free queues and numbers beyond the table are left alone.
    #[inline]
    pub fn release(&mut self, queue: u32) -> bool {
        let (line, lane) = place(queue);
        match self.lines.as_mut().get_mut(line) {
            Some(line) if line.used >> lane & 1 == 1 => {
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
        self.lines.as_ref().get(line).is_some_and(|line| line.used >> lane & 1 == 1)
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
        self.shape.set.count_ones() << self.shape.neighbour
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

/// The ways of one set, bit `i` for the `i`-th in search order: the low byte is the own line from
/// the own lane on, the high byte the neighbour from the same lane on.
struct Ways {
    matches: u16,
    used: u16,
    set: u16,
}

impl Ways {
    /// Ways with the tag: those in use, those free.
    fn by_state(&self) -> [u16; 2] {
        [self.matches & self.used, self.matches & !self.used]
    }
}

impl Shape {
    fn ways(self, lines: &[Line], hash: u32) -> Ways {
        let (own, lane) = place(hash & self.queue_mask);
        let set = (self.set << (lane & self.set_of_lane)).rotate_right(lane);
        let look = |line: usize| match lines.get(line) {
            None => (0, 0, 0),
            Some(line) => {
                (line.matches(hash).rotate_right(lane), line.used.rotate_right(lane), set)
            }
        };
        let near = look(own);
        let far = if self.neighbour == 0 { (0, 0, 0) } else { look(own ^ 1) };
        let set = u16::from_le_bytes([near.2, far.2]);
        Ways {
            matches: u16::from_le_bytes([near.0, far.0]) & set,
            used: u16::from_le_bytes([near.1, far.1]) & set,
            set,
        }
    }

    /// The queue of the first of `ways`, numbered as in [`Ways`].
    fn first(self, hash: u32, ways: u16) -> Option<u32> {
        let own = hash & self.queue_mask;
        let first = ways.trailing_zeros();
        // Bit 3 of `first` says neighbour, which is bit 3 of the queue's number flipped.
        let line = (own & !(LANES - 1)) ^ (first & LANES);
        (ways != 0).then_some(line | ((own + first) & (LANES - 1)))
    }

    fn search(self, lines: &mut [Line], hash: u32) -> Lookup {
        let ways = self.ways(lines, hash);
        let [active, former] = ways.by_state();
        if let Some(queue) = self.first(hash, active) {
            return Lookup { queue, outcome: Outcome::Hit };
        }
        let free = if former == 0 { ways.set & !ways.used } else { former };
        if let Some(queue) = self.first(hash, free) {
            let (line, lane) = place(queue);
            if let Some(line) = lines.get_mut(line)
                && let Some(tag) = line.tags.get_mut(index(lane))
            {
                *tag = hash;
                line.used |= 1 << lane;
                return Lookup { queue, outcome: Outcome::Claimed };
            }
        }
        Lookup { queue: hash & self.queue_mask, outcome: Outcome::Collision }
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
