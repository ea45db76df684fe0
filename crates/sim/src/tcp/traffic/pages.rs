//! Web pages over model TCP.

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::{Config, TcpNetwork, sized};
use crate::sizes::FlowSizes;
use crate::tcp::network::{ConnectionId, Way};

/// A browser that loads pages one after another, with a pause after each.
///
/// The model is HTTP/1.1 like that of [`crate::app::Browser`]: a document over one connection, then
/// its objects over several. A connection begins with a handshake of two packets without payload,
/// one round trip; then each object is a request up and a response down. On an idle link a page of
/// `n` objects over `c` connections takes, if each part fits into the initial window,
///
/// ```text
/// 2 round trips                  handshake and document
/// 1 + ⌈(n − 1) / c⌉ round trips  handshake and objects of the second connection (n > 1, c > 1)
/// n round trips                  instead, if n = 1 or c = 1
/// ```
///
/// and the transmission times.
///
/// **Simplifications.** Objects are assigned to connections in turn, not to the connection that
/// becomes free first: all connections of [`TcpNetwork`] are declared before the run. Each object
/// begins with the initial window, since each request and response is a transfer of the model; its
/// queues see the persistent connection as one flow in each direction. Requests and responses are
/// acknowledged separately. DNS and TLS are not modelled.
///
/// ```
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::{Limits, Nanos};
/// # use freeboard::shaper::{Overhead, Rate, Shaper};
/// # use sim::{discipline::Discipline, link::Link, sizes::FlowSizes};
/// # use sim::tcp::network::{Naming, TcpNetwork};
/// # use sim::tcp::traffic::{Pages, cubic};
/// # let link = || {
/// #     let line = Shaper::new(Rate::megabits_per_second(1_000).unwrap());
/// #     let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(1_000), 1_500);
/// #     Link::new(queue, 1_001, [0; 16], Nanos::from_millis(10))
/// # };
/// # let measured = (Nanos::ZERO, Nanos::from_secs(10));
/// let mut network = TcpNetwork::new(link(), link(), Naming::Key, measured);
/// let pages = Pages {
///     document: FlowSizes::Fixed(10_000),
///     objects: 12,
///     object: FlowSizes::Fixed(5_000),
///     ..Pages::new(Nanos::ZERO, 1, cubic)
/// };
/// let loads = pages.add_to(&mut network, [1, 1], Streams::new(1).stream("pages"));
/// network.run_until(Nanos::from_secs(10));
/// // 2 + 1 + ⌈11/6⌉ round trips of 20 ms, and less than a millisecond of transmission.
/// let time = loads.loads(&network)[0].time().unwrap();
/// assert!((100..101).contains(&(time.0 / 1_000_000)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// Start of the first page.
    pub start: Nanos,
    /// Number of pages.
    pub pages: u32,
    /// Size of the document in bytes.
    pub document: FlowSizes,
    /// Number of objects of each page.
    pub objects: u32,
    /// Size of an object in bytes.
    pub object: FlowSizes,
    /// Bytes of each request.
    pub request: u32,
    /// Maximum number of connections; 0 counts as 1.
    pub connections: u32,
    /// Mean of the pause after a page, which is exponential.
    pub think: Nanos,
    /// Creates the configuration of each transfer; the number of segments is set.
    pub config: fn() -> Config,
}

impl Pages {
    /// Creates `pages` loads of a page of 700 kB, the size in RFC 7928 §9.1: a document of 28,000
    /// bytes and 42 objects of 16,000, requests of 400 bytes, six connections, and pauses of 5 s in
    /// the mean.
    #[must_use]
    pub fn new(start: Nanos, pages: u32, config: fn() -> Config) -> Self {
        Self {
            start,
            pages,
            document: FlowSizes::Fixed(28_000),
            objects: 42,
            object: FlowSizes::Fixed(16_000),
            request: 400,
            connections: 6,
            think: Nanos::from_secs(5),
            config,
        }
    }

    /// Adds the connections of all pages, between a browser at home and one server.
    ///
    /// # Panics
    /// If there are 2^32 connections.
    pub fn add_to(
        &self,
        network: &mut TcpNetwork,
        hosts: [u8; 2],
        mut stream: Stream,
    ) -> PageLoads {
        let mut pages: Vec<Page> = Vec::new();
        for number in 0..self.pages {
            let begins = match pages.last() {
                None => Begin::At(self.start),
                Some(page) => Begin::After(&page.responses, stream.exponential(self.think)),
            };
            let page = self.add_page(network, hosts, begins, &mut stream, number);
            pages.push(page);
        }
        PageLoads(pages)
    }

    fn add_page(
        &self,
        network: &mut TcpNetwork,
        hosts: [u8; 2],
        begins: Begin<'_>,
        stream: &mut Stream,
        number: u32,
    ) -> Page {
        let mut lane = Lane { network, hosts, config: self.config, ports: None };
        let first = lane.send(Way::Up, 0, begins);
        let opened = lane.send(Way::Down, 0, Begin::after(&[first]));
        let document = lane.exchange(self.request, self.document.draw(stream), opened);
        let ports = lane.ports;
        let sizes: Vec<u64> = (0..self.objects).map(|_| self.object.draw(stream)).collect();
        let mut responses = vec![document];
        let count = self.connections.clamp(1, self.objects.max(1));
        for at in 0..count {
            let mut lane = Lane { network, hosts, config: self.config, ports: None };
            let mut last = document;
            if at == 0 {
                lane.ports = ports;
            } else {
                last = lane.handshake(document);
            }
            for &bytes in sizes.iter().skip(at as usize).step_by(count as usize) {
                last = lane.exchange(self.request, bytes, last);
                responses.push(last);
            }
        }
        Page { number, first, responses }
    }
}

/// Start of a transfer.
#[derive(Clone, Copy)]
enum Begin<'a> {
    At(Nanos),
    After(&'a [ConnectionId], Nanos),
}

impl<'a> Begin<'a> {
    const fn after(ids: &'a [ConnectionId]) -> Self {
        Self::After(ids, Nanos::ZERO)
    }
}

/// A persistent connection of a browser.
struct Lane<'a> {
    network: &'a mut TcpNetwork,
    hosts: [u8; 2],
    config: fn() -> Config,
    /// The transfer whose ports all have.
    ports: Option<ConnectionId>,
}

impl Lane<'_> {
    fn send(&mut self, way: Way, bytes: u64, begins: Begin<'_>) -> ConnectionId {
        let (config, payload) = sized((self.config)(), bytes);
        let id = match begins {
            Begin::At(at) => self.network.connect(way, self.hosts, at, config),
            Begin::After(ids, pause) => {
                self.network.connect_after(way, self.hosts, ids, pause, config)
            }
        };
        self.network.set_payload(id, payload);
        let ports = *self.ports.get_or_insert(id);
        self.network.share_ports(id, ports);
        id
    }

    fn handshake(&mut self, after: ConnectionId) -> ConnectionId {
        self.exchange(0, 0, after)
    }

    /// Returns the response.
    fn exchange(&mut self, request: u32, response: u64, after: ConnectionId) -> ConnectionId {
        let asked = self.send(Way::Up, request.into(), Begin::after(&[after]));
        self.send(Way::Down, response, Begin::after(&[asked]))
    }
}

#[derive(Clone, Debug)]
struct Page {
    number: u32,
    first: ConnectionId,
    responses: Vec<ConnectionId>,
}

/// Pages that were added to a network.
#[derive(Clone, Debug)]
pub struct PageLoads(Vec<Page>);

/// One load of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLoad {
    /// Number of the page, from 0.
    pub number: u32,
    /// Time of the first packet of its handshake; `None` if the page before is not complete.
    pub start: Option<Nanos>,
    /// Time at which the last object had arrived; `None` if one has not.
    pub end: Option<Nanos>,
}

impl PageLoad {
    /// Returns the page load time; `None` if the page is not complete.
    #[must_use]
    pub fn time(&self) -> Option<Nanos> {
        Some(self.end?.since(self.start?))
    }
}

impl PageLoads {
    /// Returns all loads so far, in order.
    #[must_use]
    pub fn loads(&self, network: &TcpNetwork) -> Vec<PageLoad> {
        let load = |page: &Page| {
            let ends = page.responses.iter().map(|&id| network.arrival(id));
            let end = ends.collect::<Option<Vec<Nanos>>>().and_then(|ends| ends.into_iter().max());
            PageLoad { number: page.number, start: network.begins(page.first), end }
        };
        self.0.iter().map(load).collect()
    }
}
