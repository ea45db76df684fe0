//! The four records, and where they point.
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
    /// Its place on the ring of its turn. On the ring if and only if its queue holds packets.
    pub(super) place: RingFlow<SharedQuantum>,
    /// The turn that it was of when it became backlogged last.
    pub(super) turn: u32,
}

/// One host in one tin: 44 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its place on the ring of its tin. On the ring if and only if a flow is on its own.
    pub(super) place: RingFlow,
    /// Its flows that hold packets.
    pub(super) flows: Ring,
    /// How many they are.
    pub(super) count: u32,
    /// The turns behind and before it on the early list of its tin, which is a ring; the former is
    /// [`NONE`] if and only if the turn is not on it.
    pub(super) early: [u32; 2],
}

/// One host in all tins: a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Bit `t` is set if and only if its turn in tin `t` is on the ring there.
    pub(super) backlogged: u8,
}

/// One tin: 24 bytes. Its share is kept by the [choice](sched_core::TinChoice) among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tin {
    /// The turns that hold packets.
    pub(super) turns: Ring,
    /// The first of those that are served early; [`NONE`] if none is.
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
    /// Room for a turn: all zero, and no turn until its ring is idle.
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
