//! The four kinds of records and their links.
//!
//! ```text
//! Tin ──ring──▶ Turn ──ring──▶ Flow
//!               ▲  ▲            │
//!   Host ───────┘  └────────────┘
//!        turns[host << k | tin]
//! ```

use sched_core::{OnRing, Ring, RingFlow, SharedQuantum};

use super::serve::NONE;

/// A flow: 16 bytes. All have the same quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Its position on the ring of its turn. On the ring if and only if its queue holds packets.
    pub(super) place: RingFlow<SharedQuantum>,
    /// Its turn when it last became backlogged.
    pub(super) turn: u32,
}

/// One host in one tin: 44 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its position on the ring of its tin. On the ring if and only if a flow is on its own ring.
    pub(super) place: RingFlow,
    /// Its backlogged flows.
    pub(super) flows: Ring,
    /// The number of its backlogged flows.
    pub(super) count: u32,
    /// The next and the previous turn on the early list of its tin, which is circular; `next` is
    /// [`NONE`] if and only if the turn is not on it.
    pub(super) early: [u32; 2],
}

/// One host in all tins: a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Bit `t` is set if and only if its turn in tin `t` is on the ring there.
    pub(super) backlogged: u8,
}

/// One tin: 24 bytes. Its share is kept by the [choice](sched_core::TinChoice) among tins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tin {
    /// Its backlogged turns.
    pub(super) turns: Ring,
    /// The first turn that is served early; [`NONE`] if none is.
    pub(super) early: u32,
    /// True if turns may be on the early list, or used up in advance.
    pub(super) is_watched: bool,
    /// No used-up turn on the old list has a later ticket than this.
    pub(super) used_up: u32,
}

impl Flow {
    /// A flow without packets, not added.
    pub(super) const EMPTY: Self = Self { place: RingFlow::EMPTY, turn: 0 };
}

impl Turn {
    /// All zero, to initialize memory; no valid turn until its ring is idle.
    pub(super) const EMPTY: Self =
        Self { place: RingFlow::EMPTY, flows: Ring::EMPTY, count: 0, early: [0; 2] };

    /// A turn without packets, not added.
    pub(super) const IDLE: Self = Self { flows: Ring::IDLE, early: [NONE; 2], ..Self::EMPTY };
}

impl Host {
    /// A host without packets.
    pub(super) const EMPTY: Self = Self { backlogged: 0 };
}

impl Tin {
    /// A tin without packets.
    pub(super) const EMPTY: Self =
        Self { turns: Ring::IDLE, early: NONE, is_watched: false, used_up: 0 };
}

impl OnRing for Flow {
    type Quantum = SharedQuantum;

    #[inline]
    fn on_ring(&self) -> &RingFlow<SharedQuantum> {
        &self.place
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow<SharedQuantum> {
        &mut self.place
    }
}

impl OnRing for Turn {
    type Quantum = u32;

    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.place
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.place
    }
}
