//! Packets that come with little: a flow alone, or in parts.

use sched_core::{Ecn, Packet};

use crate::labels::Labelled;

/// A packet of which only the flow is known: its own host.
pub(super) struct OwnHost(pub(super) u32);

impl Labelled for OwnHost {
    fn flow(&self) -> u32 {
        self.0
    }

    fn source(&self) -> u32 {
        self.0
    }

    fn destination(&self) -> u32 {
        self.0
    }
}

/// A packet in parts, for functions out of line: handle and length, and ECN. As a whole it would
/// have a place in memory, and be written there even where it goes to no such function.
pub(super) type Parts = ((u32, u32), Ecn);

#[inline(always)]
pub(super) const fn parts_of(Packet { handle, len, ecn }: Packet) -> Parts {
    ((handle, len), ecn)
}
