//! What a lookup reads: lines of tags, and how sets lie in them.

/// Queues of one line.
pub(super) const LANES: u32 = 8;

/// The state of a lane that is claimed and not yet released. That of any other is 0.
const USED: u8 = 1;

/// All lanes as [`Shape::set`] has them: the bit of each state, in the states of a line as one
/// word.
pub(super) const EACH: u64 = 0x0101_0101_0101_0101;
/// What stands for the set of every lane with 16 ways: a bit that no state has. So this set seems
/// to have a free lane always, and lookups that find none, and lookups of fewer ways, need not ask
/// how many ways there are. The sign, which processors tell together with whether there is a free
/// lane.
pub(super) const ELSEWHERE: u64 = 1 << 63;

/// Tags and occupancy of eight neighbouring queues: what a lookup reads, in one cache line.
///
/// The storage of a [`FlowTable`](super::FlowTable) is made of these: 8 bytes a queue.
///
/// A set of 1, 2, 4 or 8 ways lies within a line. A set of 16 ways is two neighbouring lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TagLine {
    /// The hash of the flow that claimed the lane, or last did; no two lanes of a set have the
    /// same.
    tags: [u32; LANES as usize],
    /// [`USED`] or 0, of each lane.
    states: [u8; LANES as usize],
}

impl TagLine {
    /// Eight queues that no flow has claimed.
    pub const EMPTY: Self = Self { tags: [0; LANES as usize], states: [0; LANES as usize] };

    /// Eight queues that no flow has claimed, the first of them with this number.
    ///
    /// Each has its own number for a tag: the one hash that takes it for its former queue would
    /// get it as its own way anyhow, and tags differ from the first lookup on.
    pub(super) fn unclaimed(first: u32) -> Self {
        const LANE: [u32; LANES as usize] = [0, 1, 2, 3, 4, 5, 6, 7];
        Self { tags: LANE.map(|lane| first | lane), states: [0; LANES as usize] }
    }

    /// Gives `lane` this tag, in use or not.
    #[inline]
    pub(super) fn set_tag(&mut self, lane: u32, hash: u32) {
        if let Some(tag) = self.tags.get_mut(index(lane)) {
            *tag = hash;
        }
    }

    /// Whether the tag of `lane` is `hash`.
    #[inline]
    pub(super) fn has(&self, lane: u32, hash: u32) -> bool {
        self.tags.get(index(lane)) == Some(&hash)
    }

    /// The first lane with tag `hash`, in use or not.
    ///
    /// If a lane of the hash's set has it, that is the first: lanes of other sets have tags of
    /// other sets, but for those behind the last queue of a table smaller than a line.
    #[inline]
    pub(super) fn lane_of(&self, hash: u32) -> Option<u32> {
        const BITS: [u8; LANES as usize] = [1, 2, 4, 8, 16, 32, 64, 128];
        // In this form, whether before which and bits as a sum of bytes, compilers turn both loops
        // into whole vectors: 8 instructions on x86-64 for whether, and 2 more for the bits,
        // against 21 for bits alone. A copy, because a line is aligned and the elements of its
        // array are not known to be.
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

    /// Takes `lane` into use.
    #[inline]
    pub(super) fn take(&mut self, lane: u32) {
        if let Some(state) = self.states.get_mut(index(lane)) {
            *state = USED;
        }
    }

    /// Gives `lane`, which is free, to the flow with this hash.
    #[inline]
    pub(super) fn claim(&mut self, lane: u32, hash: u32) {
        self.set_tag(lane, hash);
        self.take(lane);
    }

    /// Forgets all that is known of `lane` but its tag.
    #[inline]
    pub(super) fn free(&mut self, lane: u32) {
        if let Some(state) = self.states.get_mut(index(lane)) {
            *state = 0;
        }
    }

    /// All states as one word, lane 0 lowest.
    #[inline]
    fn word(&self) -> u64 {
        u64::from_le_bytes(self.states)
    }

    /// The free ones of `set`, as [`Shape::set`] has them.
    #[inline]
    pub(super) fn free_of(&self, set: u64) -> u64 {
        !self.word() & set
    }

    /// How many of `lanes`, as [`Shape::set`] has them, are free.
    #[inline]
    pub(super) fn count_free(&self, lanes: u64) -> u32 {
        // The sum of all bytes, each of them 0 or 1, is the highest byte of the product.
        let [.., sum] = self.free_of(lanes).wrapping_mul(EACH).to_le_bytes();
        sum.into()
    }
}

/// How queues are numbered and grouped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Queues less one.
    pub(super) queue_mask: u32,
    /// The ways of a set.
    pub(super) ways: u32,
    /// The lanes of the set that each lane is in: of each its lowest bit. [`ELSEWHERE`] with 16
    /// ways, whose sets are two lines.
    sets: &'static Sets,
}

type Sets = [u64; LANES as usize];

/// The sets of `ways` ways that the lanes of a line are in.
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
    /// `queues` queues in sets of `ways` ways; `None` if sets cannot have as many.
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

    /// The lanes of the set that `lane` is in.
    #[inline]
    pub(super) fn set(&self, lane: u32) -> u64 {
        self.sets.get(index(lane & (LANES - 1))).copied().unwrap_or(0)
    }

    /// Whether two lanes of a line are in the same set.
    #[inline]
    pub(super) fn is_one_set(&self, lane: u32, other: u32) -> bool {
        (lane ^ other) < self.ways
    }

    /// Whether a set goes on in the line's neighbour.
    #[inline]
    pub(super) fn neighbour(&self) -> bool {
        self.ways > LANES
    }
}

/// The first of `lanes`, which are not 0, cyclically from `lane` on.
#[inline]
pub(super) fn first_from(lane: u32, lanes: u64) -> u32 {
    ((lanes.rotate_right(8 * lane).trailing_zeros() >> 3) + lane) & (LANES - 1)
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
