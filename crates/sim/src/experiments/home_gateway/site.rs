//! A home and the Internet hosts that it talks to: every flow has a host of its own on either side
//! of an access link.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::Nanos;

use super::MediaStream;
use crate::app::{Browser, BulkReceiver, BulkSender, Load, Media, Packetised, PageKind, WebServer};
use crate::discipline::Bottleneck;
use crate::host::{Buffers, Host};
use crate::link::Link;
use crate::measure::goodput::Goodput;
use crate::measure::seconds;
use crate::network::{Application, Network, NodeId, Side};
use crate::source::Cbr;
use conformance::rng::Streams;

/// More than an upload's share of the uplink's buffer, so that the buffer is the limit and not the
/// window.
pub(in crate::experiments) const WINDOW: usize = 1 << 16;
/// Bytes that the receiver of an upload buffers.
const RECEIVED: usize = 65_535;
const UPLOAD_PORT: u16 = 8_001;
const WEB_PORT: u16 = 80;
/// UDP port of both ends of a call.
pub(in crate::experiments) const CALL_PORT: u16 = 5_004;

/// Applications of a site.
pub(in crate::experiments) enum App {
    /// Senders of uploads.
    Uploads(Vec<BulkSender>),
    /// Receiver of an upload.
    Storage(BulkReceiver),
    /// One end of a call or a video.
    Media(Media),
    /// Browser at home.
    Browser(Browser),
    /// Web server on the Internet.
    Web(WebServer),
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        match self {
            // All of them act.
            Self::Uploads(apps) => apps
                .iter_mut()
                .filter_map(|app| app.act(now, host))
                .reduce(|first, next| first.min(next)),
            Self::Storage(app) => app.act(now, host),
            Self::Media(app) => app.act(now, host),
            Self::Browser(app) => app.act(now, host),
            Self::Web(app) => app.act(now, host),
        }
    }
}

impl Network<App> {
    /// Returns the loads of a browser; none for other hosts.
    pub(in crate::experiments) fn loads(&self, id: NodeId) -> &[Load] {
        match self.application(id) {
            App::Browser(browser) => browser.loads(),
            _ => &[],
        }
    }

    /// Returns the times in seconds of all completed loads of each of a browser's first `N` pages.
    pub(in crate::experiments) fn load_times<const N: usize>(&self, id: NodeId) -> [Vec<f64>; N] {
        core::array::from_fn(|page| {
            let loads = self.loads(id).iter().filter(|load| load.page == page);
            loads.filter_map(|load| Some(seconds(load.end?.since(load.start)))).collect()
        })
    }

    /// Returns the goodput at the receiver of an upload in bits per second; 0 for other hosts.
    pub(in crate::experiments) fn goodput(&self, id: NodeId) -> u64 {
        match self.application(id) {
            App::Storage(receiver) => receiver.goodput().bits_per_second(),
            _ => 0,
        }
    }

    /// Returns the packets sent along `path` at `since` or later; none if it has no stream.
    pub(in crate::experiments) fn stream(&self, path: Path, since: Nanos) -> MediaStream {
        match (self.application(path.from), self.application(path.to)) {
            (App::Media(from), App::Media(to)) => MediaStream::between(from, to, since),
            _ => MediaStream::default(),
        }
    }
}

/// A stream of packets from one end to the other.
#[derive(Clone, Copy)]
pub(in crate::experiments) struct Path {
    /// The sender.
    pub(in crate::experiments) from: NodeId,
    /// The receiver.
    pub(in crate::experiments) to: NodeId,
}

/// A network under construction. Hosts have numbers, one number for both ends of a flow.
pub(in crate::experiments) struct Site {
    streams: Streams,
    network: Network<App>,
}

impl Site {
    /// Creates a site without hosts. Each link holds `buffers` packets and has this propagation
    /// delay.
    pub(in crate::experiments) fn new(
        seed: u64,
        up: Box<dyn Bottleneck>,
        down: Box<dyn Bottleneck>,
        buffers: u32,
        delay: Nanos,
    ) -> Self {
        let streams = Streams::new(seed);
        let mut keys = streams.stream("flow-hash");
        let mut key = || (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        let mut link = |queue| Link::new(queue, buffers, key(), delay);
        let network = Network::new(link(up), link(down));
        Self { streams, network }
    }

    /// Returns the network, complete.
    pub(in crate::experiments) fn finish(self) -> Network<App> {
        self.network
    }

    /// Adds an end of flow `host`.
    pub(in crate::experiments) fn add(&mut self, side: Side, host: u16, app: App) -> NodeId {
        let address = address(side, host);
        let seed = self.streams.stream(&format!("host {address}")).bits();
        self.network.add(side, Host::new(address, seed), app)
    }

    /// Returns a random time within the first `span`, from the random stream with this name.
    pub(in crate::experiments) fn phase(&self, name: &str, span: Nanos) -> Nanos {
        Nanos(self.streams.stream(name).below(span.0))
    }

    /// Returns random times within the first `span`, from the random streams `name 0`, `name 1`, …
    pub(in crate::experiments) fn phases(&self, name: &str, count: u16, span: Nanos) -> Vec<Nanos> {
        (0..count).map(|n| self.phase(&format!("{name} {n}"), span)).collect()
    }

    /// Adds uploads of one home host that begin at `starts`, each to a host of its own from `host`
    /// on, with at most `in_flight` bytes unacknowledged. Returns their receivers.
    pub(in crate::experiments) fn add_uploads(
        &mut self,
        host: u16,
        starts: &[Nanos],
        in_flight: usize,
        goodput: Goodput,
    ) -> Vec<NodeId> {
        let buffers = Buffers { send: in_flight, receive: RECEIVED };
        let to = |peer| SocketAddrV4::new(address(Side::Internet, peer), UPLOAD_PORT);
        let peers = || (host..).zip(starts);
        let senders = peers().map(|(peer, &start)| BulkSender::new(to(peer), start, buffers));
        self.add(Side::Home, host, App::Uploads(senders.collect()));
        peers()
            .map(|(peer, _)| {
                let receiver = BulkReceiver::new(UPLOAD_PORT, buffers, goodput);
                self.add(Side::Internet, peer, App::Storage(receiver))
            })
            .collect()
    }

    /// Adds call `number`, G.711 in both directions, and returns its direction from home.
    pub(in crate::experiments) fn add_call(
        &mut self,
        host: u16,
        number: u16,
        start: Nanos,
        until: Nanos,
    ) -> Path {
        let mut phone = |side: Side, peer: Side| {
            let name = format!("call {number} from {side:?}");
            let phase = self.phase(&name, Nanos::from_millis(20));
            let source = Cbr::g711(start.plus(phase));
            let voice = Packetised { source, payload_type: 0, until };
            let peer = SocketAddrV4::new(address(peer, host), CALL_PORT);
            self.add(side, host, App::Media(Media::new(CALL_PORT, peer, Some(voice))))
        };
        let from = phone(Side::Home, Side::Internet);
        Path { from, to: phone(Side::Internet, Side::Home) }
    }

    /// Adds a browser and its server, and returns the browser. The first page begins at `start`;
    /// `pause` is the mean time between two.
    pub(in crate::experiments) fn add_browser(
        &mut self,
        host: u16,
        pages: &[PageKind],
        start: Nanos,
        pause: Nanos,
    ) -> NodeId {
        let server = SocketAddrV4::new(address(Side::Internet, host), WEB_PORT);
        self.add(Side::Internet, host, App::Web(WebServer::new(WEB_PORT)));
        let stream = self.streams.stream("browser");
        let pages = pages.iter().map(|kind| kind.page()).collect();
        let browser = Browser::new(server, pages, start, pause, stream);
        self.add(Side::Home, host, App::Browser(browser))
    }
}

/// Returns addresses of a private network (RFC 1918), and of TEST-NET-3 (RFC 5737) for the
/// Internet; numbers above 255 use the networks after these.
pub(in crate::experiments) const fn address(side: Side, host: u16) -> Ipv4Addr {
    let [high, low] = host.to_be_bytes();
    match side {
        Side::Home => Ipv4Addr::new(192, 168, 1 + high, low),
        Side::Internet => Ipv4Addr::new(203, 0, 113 + high, low),
    }
}
