//! Reduced packets: a bare flow, or a packet in parts.

use sched_core::{Ecn, Packet};

use crate::labels::Labelled;

/// Labels of a packet of which only the flow is known: its own host.
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

/// A packet in parts, for functions that are not inlined: handle and length, and ECN. Passed in
/// parts so that it stays in registers; a whole `Packet` is spilled to the stack even on the path
/// without a call.
pub(super) type Parts = ((u32, u32), Ecn);

#[inline(always)]
pub(super) const fn parts_of(Packet { handle, len, ecn }: Packet) -> Parts {
    ((handle, len), ecn)
}
