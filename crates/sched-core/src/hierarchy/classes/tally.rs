//! Forwards the drops of a class to the node's accounting and to the caller.

use crate::Packet;
use crate::queues::counters::Ledger;
use crate::scheduler::{DropReason, DropSink};

/// The drop sink of one call of a class.
pub(super) struct Tally<'a> {
    ledger: &'a mut Ledger,
    drops: &'a mut dyn DropSink,
    /// The reason why the node makes the class drop; `None` to keep the reason of the class.
    reason: Option<DropReason>,
    /// Bytes dropped in this call; zero if and only if nothing was: no packet has length 0.
    pub(super) lost: u32,
}

impl<'a> Tally<'a> {
    pub(super) fn new(
        ledger: &'a mut Ledger,
        drops: &'a mut dyn DropSink,
        reason: Option<DropReason>,
    ) -> Self {
        Self { ledger, drops, reason, lost: 0 }
    }
}

impl DropSink for Tally<'_> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        let reason = self.reason.unwrap_or(reason);
        // A packet that was never accepted is not accounted.
        if reason != DropReason::Rejected {
            self.lost = self.lost.wrapping_add(packet.len);
            self.ledger.drop(packet.len, reason);
        }
        self.drops.dropped(packet, reason);
    }
}
