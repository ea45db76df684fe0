//! A log of a link: which packet was enqueued, sent, marked or dropped, and when.

use freeboard::sched_core::{DropReason, Ecn, Nanos, Packet};

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// Accepted by the queue.
    Enqueued,
    /// Sent.
    Sent,
    /// Sent with the code point CE: marked in this queue, or in one before.
    Marked,
    /// Dropped by the queue after it was accepted.
    Dropped(DropReason),
    /// Not accepted: no capacity.
    Rejected,
}

/// An entry of a link's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged<P> {
    /// Time of the event; for sent packets that at which they left the queue.
    pub at: Nanos,
    /// Fate of the packet.
    pub event: PacketEvent,
    /// Code point at that time.
    pub ecn: Ecn,
    /// Contents of the packet.
    pub packet: P,
}

/// The log, and the time of the current call.
#[derive(Debug)]
pub(super) struct Log<P> {
    pub(super) entries: Vec<Logged<P>>,
    pub(super) now: Nanos,
    copy: fn(&P) -> P,
}

impl<P> Log<P> {
    pub(super) const fn new(copy: fn(&P) -> P) -> Self {
        Self { entries: Vec::new(), now: Nanos::ZERO, copy }
    }

    /// Returns a copy of a packet that arrives at `now`, and the place of its entry, which is
    /// before those of packets dropped in its favour.
    pub(super) fn entry(log: &mut Option<Self>, now: Nanos, packet: &P) -> Option<(usize, P)> {
        let log = log.as_mut()?;
        log.now = now;
        Some((log.entries.len(), (log.copy)(packet)))
    }

    /// Logs the arrival of [`Log::entry`].
    pub(super) fn enqueued(
        log: &mut Option<Self>,
        entry: Option<(usize, P)>,
        ecn: Ecn,
        is_accepted: bool,
    ) {
        if let (Some(log), Some((place, packet))) = (log, entry) {
            let event = if is_accepted { PacketEvent::Enqueued } else { PacketEvent::Rejected };
            log.entries.insert(place, Logged { at: log.now, event, ecn, packet });
        }
    }

    pub(super) fn sent(&mut self, ecn: Ecn, packet: &P) {
        let event = if ecn == Ecn::Ce { PacketEvent::Marked } else { PacketEvent::Sent };
        let packet = (self.copy)(packet);
        self.entries.push(Logged { at: self.now, event, ecn, packet });
    }

    pub(super) fn dropped(&mut self, packet: Packet, reason: DropReason, contents: P) {
        let event = PacketEvent::Dropped(reason);
        self.entries.push(Logged { at: self.now, event, ecn: packet.ecn, packet: contents });
    }
}
