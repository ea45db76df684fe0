//! Transfers without end and an end of a media stream on one host.

use freeboard::sched_core::Nanos;

use super::{BulkReceiver, BulkSender, Media};
use crate::experiments::home_gateway::MediaStream;
use crate::host::Host;
use crate::network::{Application, Network, NodeId};

/// Application for scenarios that have only transfers and streams.
#[derive(Debug, Default)]
pub struct Transfers {
    /// Senders of transfers.
    pub senders: Vec<BulkSender>,
    /// Receivers of transfers.
    pub receivers: Vec<BulkReceiver>,
    /// One end of a stream.
    pub media: Option<Media>,
}

impl Application for Transfers {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        // Folds, so that all of them act.
        let senders = self.senders.iter_mut().map(|flow| flow.act(now, host));
        let first = senders.fold(None, earlier);
        let receivers = self.receivers.iter_mut().map(|flow| flow.act(now, host));
        let first = receivers.fold(first, earlier);
        earlier(first, self.media.as_mut().and_then(|media| media.act(now, host)))
    }
}

fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    a.into_iter().chain(b).min()
}

impl Network<Transfers> {
    /// Returns the goodput of all transfers received by host `id`, in bits per second.
    pub(crate) fn goodput(&self, id: NodeId) -> u64 {
        let receivers = self.application(id).receivers.iter();
        receivers.map(|receiver| receiver.goodput().bits_per_second()).sum()
    }

    /// Returns the stream between two hosts from `since` on; empty if one of them has no stream.
    pub(crate) fn stream(&self, (from, to): (NodeId, NodeId), since: Nanos) -> MediaStream {
        match (&self.application(from).media, &self.application(to).media) {
            (Some(from), Some(to)) => MediaStream::between(from, to, since),
            _ => MediaStream::default(),
        }
    }

    /// Runs until `end`, and then on until the last packet of a stream has arrived, for at most
    /// this number of `seconds`.
    pub(crate) fn run_until_received(
        &mut self,
        end: Nanos,
        (from, to): (NodeId, NodeId),
        seconds: u64,
    ) {
        self.run_until(end, &mut |_, _| ());
        for second in 1..=seconds {
            let media = |id| self.application(id).media.as_ref();
            let sent = media(from).map_or(0, |media| media.sent().len());
            if sent == media(to).map_or(0, |media| media.delays().len()) {
                return;
            }
            self.run_until(end.plus(Nanos::from_secs(second)), &mut |_, _| ());
        }
    }
}
