//! What a lookup reads: lines of tags, and how sets lie in them.

use super::{Lookup, Outcome};

/// Queues of one line.
pub(super) const LANES: u32 = 8;

/// Tags and occupancy of eight neighbouring queues: what a lookup reads, in one cache line.
///
/// The storage of a [`Table`](super::Table) is made of these: 8 bytes a queue.
///
/// A set of 1, 2, 4 or 8 ways lies within a line. A set of 16 ways is two neighbouring lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The hash of the flow that claimed the lane, or last did.
    pub(super) tags: [u32; LANES as usize],
    /// Bit `i` is set if and only if lane `i` is claimed and not yet released.
    pub(super) used: u32,
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

/// How queues are numbered and grouped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Queues less one.
    pub(super) queue_mask: u32,
    /// The lanes of the set that begins at lane 0.
    pub(super) set: u32,
    /// The bits of a lane that say which of the line's sets it is in.
    pub(super) set_of_lane: u32,
    /// Whether a set goes on in the line's neighbour (16 ways).
    pub(super) neighbour: bool,
}

/// Those lanes of a line that are in the set searched, by what they are to a hash.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    /// In use, with its tag.
    pub(super) active: u32,
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
    pub(super) fn near(&self, lines: &[Line], hash: u32) -> Ways {
        let (line, lane) = place(hash & self.queue_mask);
        let set = self.set << (lane & self.set_of_lane);
        lines.get(line).map_or(Ways::NONE, |line| line.ways(hash, set))
    }

    /// The set's ways in the neighbour of the own line.
    #[inline]
    pub(super) fn far(&self, lines: &[Line], hash: u32) -> Ways {
        let (line, _) = place(hash & self.queue_mask);
        match self.neighbour {
            false => Ways::NONE,
            true => lines.get(line ^ 1).map_or(Ways::NONE, |line| line.ways(hash, self.set)),
        }
    }

    /// The queue of the only one of `ways`, which are not 0.
    #[inline]
    pub(super) fn only(&self, hash: u32, ways: u32, far: bool) -> u32 {
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

    /// What `Table::lookup` describes, when the own way does not have the tag.
    #[inline(never)]
    pub(super) fn search(&self, lines: &mut [Line], hash: u32) -> Lookup {
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
pub(super) fn place(queue: u32) -> (usize, u32) {
    (index(queue >> LANES.trailing_zeros()), queue & (LANES - 1))
}

/// Queue numbers are below 2^20: they fit every target's `usize` but 16-bit ones, which have no
/// storage of that length either.
#[inline]
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
