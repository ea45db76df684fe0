//! What a lookup reads: lines of tags, and how sets lie in them.

/// Queues of one line.
pub(super) const LANES: u32 = 8;

/// All lanes, in the states of a line: those in use.
pub(super) const USED: u32 = 0xff;
/// Distance to the bits of lanes in use whose claim is older than the rotation under way.
pub(super) const OLD: u32 = 8;
/// Distance to the bits of lanes in use that a flow of a full set has joined since they were claimed.
pub(super) const SHARED: u32 = 16;
/// Distance to the bits of lanes in use that were both shared and in use when the rotation began.
pub(super) const OLD_SHARED: u32 = 24;
/// All that is known of lane 0.
const STATE: u32 = 1 | 1 << OLD | 1 << SHARED | 1 << OLD_SHARED;

/// Tags and occupancy of eight neighbouring queues: what a lookup reads, in one cache line.
///
/// The storage of a [`Table`](super::Table) is made of these: 8 bytes a queue.
///
/// A set of 1, 2, 4 or 8 ways lies within a line. A set of 16 ways is two neighbouring lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The hash of the flow that claimed the lane, or last did; no two lanes of a set have the same.
    tags: [u32; LANES as usize],
    /// Bit `i` is set if and only if lane `i` is claimed and not yet released; those at the distances
    /// named above only if it is.
    pub(super) states: u32,
}

impl Line {
    /// Eight queues nobody has claimed.
    pub const EMPTY: Self = Self { tags: [0; LANES as usize], states: 0 };

    /// Eight queues nobody has claimed, the first of them with this number.
    ///
    /// Each has its own number for a tag: the one hash that takes it for its former queue would
    /// get it as its own way anyhow, and tags differ from the first lookup on.
    pub(super) fn unclaimed(first: u32) -> Self {
        const LANE: [u32; LANES as usize] = [0, 1, 2, 3, 4, 5, 6, 7];
        Self { tags: LANE.map(|lane| first | lane), states: 0 }
    }

    /// Whether the tag of `lane` is `hash`.
    #[inline]
    pub(super) fn has(&self, lane: u32, hash: u32) -> bool {
        self.tags.get(index(lane)) == Some(&hash)
    }

    /// Bit `i` is set if and only if lane `i` has tag `hash`, in use or not.
    #[inline]
    pub(super) fn matches(&self, hash: u32) -> u32 {
        const OTHERS: [u32; LANES as usize] = [!1, !2, !4, !8, !16, !32, !64, !128];
        // The complement of a conjunction, because compilers turn this form, and not a disjunction
        // or a sum, into whole vectors: 15 instructions instead of 28 on x86-64.
        let tags = self.tags.iter().zip(OTHERS);
        !tags.fold(!0, |rest, (tag, others)| rest & if *tag == hash { others } else { !0 })
    }

    /// Gives `lane` to the flow with this hash.
    #[inline]
    pub(super) fn claim(&mut self, lane: u32, hash: u32) {
        if let Some(tag) = self.tags.get_mut(index(lane)) {
            *tag = hash;
        }
        self.states |= 1 << lane;
    }

    /// Forgets all that is known of `lane` but its tag.
    #[inline]
    pub(super) fn free(&mut self, lane: u32) {
        self.states &= !(STATE << lane);
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
    /// The lanes of the set that each lane is in; none with 16 ways, whose sets are two lines.
    pub(super) sets: [u8; LANES as usize],
    /// Whether a set goes on in the line's neighbour (16 ways).
    pub(super) neighbour: bool,
}

impl Shape {
    /// The lanes of the set that `lane` is in; none with 16 ways.
    #[inline]
    pub(super) fn set(&self, lane: u32) -> u32 {
        self.sets.get(index(lane & (LANES - 1))).copied().map_or(0, u32::from)
    }
}

/// [`Shape::sets`] of so many ways, if there may be so many.
pub(super) fn sets(ways: u32) -> Option<[u8; LANES as usize]> {
    Some(match ways {
        1 => [1, 2, 4, 8, 16, 32, 64, 128],
        2 => [0x03, 0x03, 0x0c, 0x0c, 0x30, 0x30, 0xc0, 0xc0],
        4 => [0x0f, 0x0f, 0x0f, 0x0f, 0xf0, 0xf0, 0xf0, 0xf0],
        8 => [0xff; LANES as usize],
        16 => [0; LANES as usize],
        _ => return None,
    })
}

/// The first of `lanes`, which are not 0, cyclically from `lane` on.
#[inline]
pub(super) fn first_from(lane: u32, lanes: u32) -> u32 {
    // Written twice in a row, so that they need not be turned.
    let twice = lanes | lanes << LANES;
    ((twice >> lane).trailing_zeros() + lane) & (LANES - 1)
}

/// The first of `lanes`, which are not 0.
#[inline]
pub(super) fn lane_of(lanes: u32) -> u32 {
    lanes.trailing_zeros() & (LANES - 1)
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
