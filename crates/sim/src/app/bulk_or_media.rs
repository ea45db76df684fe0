//! One end of a transfer without end or of a media stream.

use freeboard::sched_core::Nanos;

use super::{BulkReceiver, BulkSender, Media};
use crate::experiments::home_gateway::MediaStream;
use crate::host::Host;
use crate::network::{Application, Network, NodeId};

/// Application for scenarios that have only transfers and streams.
#[derive(Debug)]
pub enum BulkOrMedia {
    /// Sender of a transfer.
    Sender(BulkSender),
    /// Receiver of a transfer.
    Receiver(BulkReceiver),
    /// One end of a stream.
    Media(Media),
}

impl Application for BulkOrMedia {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        match self {
            Self::Sender(app) => app.act(now, host),
            Self::Receiver(app) => app.act(now, host),
            Self::Media(app) => app.act(now, host),
        }
    }
}

impl Network<BulkOrMedia> {
    /// Returns the goodput at receiver `id` in bits per second; 0 for a host that receives no
    /// transfer.
    pub(crate) fn goodput(&self, id: NodeId) -> u64 {
        match self.application(id) {
            BulkOrMedia::Receiver(receiver) => receiver.goodput().bits_per_second(),
            _ => 0,
        }
    }

    /// Returns the stream between two hosts from `since` on; empty if one of them has no stream.
    pub(crate) fn stream(&self, (from, to): (NodeId, NodeId), since: Nanos) -> MediaStream {
        match (self.application(from), self.application(to)) {
            (BulkOrMedia::Media(from), BulkOrMedia::Media(to)) => {
                MediaStream::between(from, to, since)
            }
            _ => MediaStream::default(),
        }
    }
}
