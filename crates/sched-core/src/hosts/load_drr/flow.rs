//! What is known of one flow: its links, its quantum, its turn.

/// Where a flow that was added is. The one truth about membership: links mean nothing unless this says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Holds nothing.
    Idle,
    /// On the list of first turns.
    New,
    /// On the list of its round.
    Turn,
}

/// A quantum in bytes, with a [`Place`] in the two highest bits and below them whether a turn has begun and is
/// not used up, so that a flow is half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing(u32);

const PLACE_SHIFT: u32 = 30;
/// Set if and only if the flow has been served in its turn and something of that is left.
const BEGUN: u32 = 1 << 29;

impl Standing {
    pub(super) const ABSENT: Self = Self(0);

    pub(super) const fn new(place: Place, quantum: u32) -> Self {
        Self((place as u32) << PLACE_SHIFT | quantum)
    }

    pub(super) const fn place(self) -> Place {
        match self.0 >> PLACE_SHIFT {
            0 => Place::Idle,
            1 => Place::New,
            _ => Place::Turn,
        }
    }

    /// Zero if and only if the flow was not added.
    pub(super) const fn quantum(self) -> u32 {
        self.0 & (BEGUN - 1)
    }

    pub(super) const fn begun(self) -> Self {
        Self(self.0 | BEGUN)
    }

    pub(super) const fn has_begun(self) -> bool {
        self.0 & BEGUN != 0
    }

    pub(super) const fn with_quantum(self, quantum: u32) -> Self {
        Self(self.0 & !(BEGUN - 1) | quantum)
    }
}

/// Above these bits of the source is the tin.
const TIN_SHIFT: u32 = 29;
/// The highest number of a source host.
pub(super) const MOST_SOURCE: u32 = u32::MAX >> 3;

/// What [`LoadDrr`](super::LoadDrr) knows of one flow: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadDrrFlow {
    /// The flow behind this one on its list; stale for the last, and unless listed.
    pub(super) next: u32,
    /// The flow before this one; stale for the first, and unless listed.
    pub(super) prev: u32,
    pub(super) standing: Standing,
    /// Bytes charged to the turn under way, or to the next one: those sent in it, and before it begins those
    /// by which the turns before were overdrawn. Below `MAX_QUANTUM`, and below the quantum in a turn that was
    /// broken off; before the turn begins below `max_len`, and then only service has made it what it is.
    pub(super) charged: u32,
    /// The source host in whose table the flow counts while it is listed, and above [`TIN_SHIFT`] the tin.
    source_and_tin: u32,
    /// The destination host, likewise.
    pub(super) destination: u32,
    /// The round of the flow's turn; of a first turn and of the rest of a turn, the one in which it joined.
    /// Stale unless listed.
    pub(super) turn: u32,
    /// From which round on the flow may have another turn: when its next one is, or would be had it not
    /// emptied, as of the beginning of its last. Later than the round if and only if that turn may go on.
    pub(super) due: u32,
}

impl LoadDrrFlow {
    /// A flow that was not added: all zero.
    pub const EMPTY: Self = Self {
        next: 0,
        prev: 0,
        standing: Standing::ABSENT,
        charged: 0,
        source_and_tin: 0,
        destination: 0,
        turn: 0,
        due: 0,
    };

    /// Holds nothing, has never been served and belongs to these hosts and to this tin, whose round is `due`.
    pub(super) const fn idle(
        quantum: u32,
        source: u32,
        destination: u32,
        tin: u32,
        due: u32,
    ) -> Self {
        let standing = Standing::new(Place::Idle, quantum);
        let source_and_tin = source & MOST_SOURCE | tin << TIN_SHIFT;
        Self { standing, source_and_tin, destination, due, ..Self::EMPTY }
    }

    #[inline(always)]
    pub(super) const fn source(&self) -> u32 {
        self.source_and_tin & MOST_SOURCE
    }

    #[cfg(test)]
    pub(super) const fn set_source(&mut self, source: u32) {
        self.source_and_tin = source | self.tin() << TIN_SHIFT;
    }

    #[inline(always)]
    pub(super) const fn tin(&self) -> u32 {
        self.source_and_tin >> TIN_SHIFT
    }

    pub(super) const fn is_added(&self) -> bool {
        self.standing.quantum() != 0
    }

    pub(super) const fn is_listed(&self) -> bool {
        !matches!(self.standing.place(), Place::Idle)
    }
}

impl Default for LoadDrrFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}
