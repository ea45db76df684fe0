//! Hosts with transfers and streams at both ends of a bottleneck, for several experiments.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::{FlowId, Nanos};

use crate::app::{BulkReceiver, BulkSender, Media, Packetised, Transfers};
use crate::discipline::Bottleneck;
use crate::host::{Buffers, Host};
use crate::link::Link;
use crate::measure::goodput::Goodput;
use crate::network::{Network, NodeId, Side};
use conformance::rng::Streams;

/// Port of transfers and streams that have a host of their own.
const PORT: u16 = 5_004;

/// A network under construction.
pub(super) struct Site {
    streams: Streams,
    network: Network<Transfers>,
    window: Buffers,
    goodput: Goodput,
}

impl Site {
    /// Creates a network without hosts. `links` are the queue and its maximum number of packets in
    /// the direction from home, and in the other; each has this propagation delay. `goodput` is the
    /// empty counter of each receiver.
    pub(super) fn new(
        seed: u64,
        links: [(Box<dyn Bottleneck>, u32); 2],
        delay: Nanos,
        naming: Option<fn(&[u8]) -> FlowId>,
        (window, goodput): (Buffers, Goodput),
    ) -> Self {
        let streams = Streams::new(seed);
        let mut keys = streams.stream("flow-hash");
        let mut key = || (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        let [up, down] = links.map(|(queue, packets)| Link::new(queue, packets + 1, key(), delay));
        let up = match naming {
            Some(name) => up.naming(name),
            None => up,
        };
        Self { streams, network: Network::new(up, down), window, goodput }
    }

    /// Returns the network, complete.
    pub(super) fn finish(self) -> Network<Transfers> {
        self.network
    }

    /// Returns a random time within the first `span`, from the random stream with this name.
    pub(super) fn phase(&self, name: &str, span: Nanos) -> Nanos {
        Nanos(self.streams.stream(name).below(span.0))
    }

    /// Adds a host.
    pub(super) fn add(&mut self, side: Side, address: Ipv4Addr, app: Transfers) -> NodeId {
        let seed = self.streams.stream(&format!("host {address}")).bits();
        self.network.add(side, Host::new(address, seed), app)
    }

    /// Returns a sender that starts within the first second, at a time from the random stream with
    /// this name.
    pub(super) fn sender(&self, name: &str, to: SocketAddrV4) -> BulkSender {
        BulkSender::new(to, self.phase(name, Nanos::from_secs(1)), self.window)
    }

    /// Returns a receiver of a transfer.
    pub(super) const fn receiver(&self, port: u16) -> BulkReceiver {
        BulkReceiver::new(port, self.window, self.goodput)
    }

    /// Adds a transfer between two hosts of its own, home and Internet, and returns its receiver.
    /// It starts like [`Site::sender`].
    pub(super) fn add_bulk(&mut self, name: &str, [home, internet]: [Ipv4Addr; 2]) -> NodeId {
        let sender = self.sender(name, SocketAddrV4::new(internet, PORT));
        self.add(Side::Home, home, Transfers { senders: vec![sender], ..Transfers::default() });
        let receivers = vec![self.receiver(PORT)];
        self.add(Side::Internet, internet, Transfers { receivers, ..Transfers::default() })
    }

    /// Adds a stream between two hosts of its own, home and Internet, and returns both.
    pub(super) fn add_media(
        &mut self,
        [home, internet]: [Ipv4Addr; 2],
        sent: Packetised,
    ) -> (NodeId, NodeId) {
        let end = |address| SocketAddrV4::new(address, PORT);
        let mut add = |side, address, peer, sent| {
            let media = Some(Media::new(PORT, end(peer), sent));
            self.add(side, address, Transfers { media, ..Transfers::default() })
        };
        let from = add(Side::Home, home, internet, Some(sent));
        (from, add(Side::Internet, internet, home, None))
    }
}
