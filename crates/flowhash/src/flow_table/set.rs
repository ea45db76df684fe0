//! Storage of a flow table: lines of tags, and the layout of sets in them.

/// Queues per line.
pub(super) const LANES: u32 = 8;

/// State of a lane that is claimed and not yet released; any other has state 0.
const USED: u8 = 1;

/// The bit of each state in [`TagLine::word`], for all lanes.
pub(super) const EACH: u64 = 0x0101_0101_0101_0101;
/// Set of every lane with 16 ways: a bit that no state uses. The set therefore always seems to have
/// a free lane, and only lookups that find none in their line need to ask for the number of ways.
/// It is the sign bit, which processors test together with the test for zero.
pub(super) const ELSEWHERE: u64 = 1 << 63;

/// Tags and states of eight neighbouring queues, in one cache line.
///
/// The storage of a [`FlowTable`](super::FlowTable) consists of these lines, 8 bytes per queue. A
/// set of 1, 2, 4 or 8 ways lies within a line; a set of 16 ways is two neighbouring lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TagLine {
    /// Hash of the flow that claimed the lane, now or last; unique within a set.
    tags: [u32; LANES as usize],
    /// [`USED`] or 0, for each lane.
    states: [u8; LANES as usize],
}

impl TagLine {
    /// Eight queues that no flow has claimed.
    pub const EMPTY: Self = Self { tags: [0; LANES as usize], states: [0; LANES as usize] };

    /// Creates eight queues that no flow has claimed, the first of them with this number.
    ///
    /// Each has its own number as a tag. The only hash that takes it for its former queue would get
    /// it as its own way anyway, and so tags are unique from the first lookup on.
    pub(super) fn unclaimed(first: u32) -> Self {
        const LANE: [u32; LANES as usize] = [0, 1, 2, 3, 4, 5, 6, 7];
        Self { tags: LANE.map(|lane| first | lane), states: [0; LANES as usize] }
    }

    /// Sets the tag of `lane`, in use or not.
    #[inline]
    pub(super) fn set_tag(&mut self, lane: u32, hash: u32) {
        if let Some(tag) = self.tags.get_mut(index(lane)) {
            *tag = hash;
        }
    }

    /// Returns true if the tag of `lane` is `hash`.
    #[inline]
    pub(super) fn has(&self, lane: u32, hash: u32) -> bool {
        self.tags.get(index(lane)) == Some(&hash)
    }

    /// Returns the first lane with tag `hash`, in use or not.
    ///
    /// If a lane of the hash's set has the tag, it is the first: lanes of other sets have tags of
    /// other sets, except for those after the last queue of a table smaller than a line.
    #[inline]
    pub(super) fn lane_of(&self, hash: u32) -> Option<u32> {
        const BITS: [u8; LANES as usize] = [1, 2, 4, 8, 16, 32, 64, 128];
        // Two loops (whether, then which, with bits as a sum of bytes) that compilers vectorize: 8
        // instructions on x86-64 for the first and 2 more for the second, against 21 for the bits
        // alone. The copy is needed because a line is aligned and elements of its array are not
        // known to be.
        let tags = self.tags;
        if !tags.iter().fold(false, |any, tag| any | (*tag == hash)) {
            return None;
        }
        let bits = tags.iter().zip(BITS);
        let equal =
            bits.fold(0_u8, |sum, (tag, bit)| sum.wrapping_add(if *tag == hash { bit } else { 0 }));
        Some(u32::from(equal).trailing_zeros() & (LANES - 1))
    }

    /// Returns true if `lane` is in use.
    #[inline]
    pub(super) fn is_used(&self, lane: u32) -> bool {
        self.states.get(index(lane)) == Some(&USED)
    }

    /// Marks `lane` as in use.
    #[inline]
    pub(super) fn take(&mut self, lane: u32) {
        if let Some(state) = self.states.get_mut(index(lane)) {
            *state = USED;
        }
    }

    /// Claims `lane`, which is free, for the flow with this hash.
    #[inline]
    pub(super) fn claim(&mut self, lane: u32, hash: u32) {
        self.set_tag(lane, hash);
        self.take(lane);
    }

    /// Marks `lane` as free; keeps its tag.
    #[inline]
    pub(super) fn free(&mut self, lane: u32) {
        if let Some(state) = self.states.get_mut(index(lane)) {
            *state = 0;
        }
    }

    /// Returns all states as one word, lane 0 lowest.
    #[inline]
    fn word(&self) -> u64 {
        u64::from_le_bytes(self.states)
    }

    /// Returns the free lanes of `set`, encoded as in [`Shape::set`].
    #[inline]
    pub(super) fn free_of(&self, set: u64) -> u64 {
        !self.word() & set
    }

    /// Returns the number of free lanes among `lanes`, encoded as in [`Shape::set`].
    #[inline]
    pub(super) fn count_free(&self, lanes: u64) -> u32 {
        // The sum of all bytes, each 0 or 1, is the highest byte of the product.
        let [.., sum] = self.free_of(lanes).wrapping_mul(EACH).to_le_bytes();
        sum.into()
    }
}

/// Numbering and grouping of queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Number of queues − 1.
    pub(super) queue_mask: u32,
    /// Ways per set.
    pub(super) ways: u32,
    /// The lanes of each lane's set, one bit per lane: its lowest. [`ELSEWHERE`] with 16 ways,
    /// whose sets are two lines.
    sets: &'static Sets,
}

type Sets = [u64; LANES as usize];

/// Returns the sets of `ways` ways for each lane of a line.
#[expect(clippy::indexing_slicing, reason = "evaluated when the program is compiled")]
const fn sets_of(ways: u32) -> Sets {
    let (mut sets, mut lane) = ([0; LANES as usize], 0);
    while lane < LANES {
        sets[lane as usize] = EACH >> (u64::BITS - 8 * ways) << (8 * (lane & !(ways - 1)));
        lane += 1;
    }
    sets
}

impl Shape {
    /// Creates `queues` queues in sets of `ways` ways; `None` for a number of ways that is not
    /// supported.
    pub(super) fn new(queues: u32, ways: u32) -> Option<Self> {
        let sets: &Sets = match ways {
            1 => const { &sets_of(1) },
            2 => const { &sets_of(2) },
            4 => const { &sets_of(4) },
            8 => const { &sets_of(8) },
            16 => const { &[ELSEWHERE; LANES as usize] },
            _ => return None,
        };
        Some(Self { queue_mask: queues.wrapping_sub(1), ways, sets })
    }

    /// Returns the lanes of the set of `lane`.
    #[inline]
    pub(super) fn set(&self, lane: u32) -> u64 {
        self.sets.get(index(lane & (LANES - 1))).copied().unwrap_or(0)
    }

    /// Returns true if two lanes of a line are in the same set.
    #[inline]
    pub(super) fn is_one_set(&self, lane: u32, other: u32) -> bool {
        (lane ^ other) < self.ways
    }

    /// Returns true if sets continue in the neighbouring line.
    #[inline]
    pub(super) fn neighbour(&self) -> bool {
        self.ways > LANES
    }
}

/// Returns the first of `lanes`, which is not 0, cyclically from `lane` on.
#[inline]
pub(super) fn first_from(lane: u32, lanes: u64) -> u32 {
    ((lanes.rotate_right(8 * lane).trailing_zeros() >> 3) + lane) & (LANES - 1)
}

/// Returns the line and the lane of a queue.
#[inline]
pub(super) fn place(queue: u32) -> (usize, u32) {
    (index(queue >> LANES.trailing_zeros()), queue & (LANES - 1))
}

/// Converts a number. Queue numbers are below 2^20 and fit every `usize` except on 16-bit targets,
/// which have no storage of that size either.
#[inline]
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
