//! Hosts on both sides of one access link.
//!
//! ```text
//! home hosts ─▶ uplink:   buffers, queue under test, shaper ─▶ delay ─▶ hosts on the Internet
//! home hosts ◀─ delay ◀─ shaper, queue, buffers  :downlink  ◀─ hosts on the Internet
//! ```
//!
//! Between a host and its end of the link there is neither delay nor loss. Only hosts that are due
//! are polled: for a timer of their stack, a time set by their application, or a packet.

use core::fmt;
use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use freeboard::sched_core::{Imbalance, Nanos};

use crate::host::Host;
use crate::link::Link;
use crate::links::{self, LinkId, Links};

/// An application on a host.
pub trait Application {
    /// Acts at `now`: reads and writes the sockets of `host`. Called at the start and whenever the
    /// host is polled. Returns the time of the next call that is needed even if no packet arrives.
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos>;
}

/// End of the access link at which a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Behind the home gateway: sends into the uplink.
    Home,
    /// On the Internet: sends into the downlink.
    Internet,
}

/// Identifies a host of a network by the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(usize);

#[derive(Debug)]
struct Node<A> {
    host: Host,
    application: A,
    side: Side,
    /// Time of the one valid timer event; others of this node are stale.
    due: Option<Nanos>,
}

#[derive(Debug)]
enum Event {
    Timer(NodeId),
    Arrival(NodeId, Vec<u8>),
}

const UP: LinkId = LinkId(0);
const DOWN: LinkId = LinkId(1);

/// Hosts, their applications `A`, and the link between them.
pub struct Network<A> {
    nodes: Vec<Node<A>>,
    routes: BTreeMap<Ipv4Addr, NodeId>,
    /// The uplink and the downlink.
    links: Links<Vec<u8>, Event>,
    /// Packets in transit on a link.
    on_the_way: u64,
    /// Packets that have arrived at a host.
    arrived: u64,
    /// Packets to unknown addresses.
    strays: u64,
}

/// Callback for every packet that leaves the uplink's queue, with its departure time.
pub type Tap<'a> = &'a mut dyn FnMut(Nanos, &[u8]);

impl<A: Application> Network<A> {
    /// Creates a network without hosts.
    #[must_use]
    pub fn new(up: Link, down: Link) -> Self {
        let mut links = Links::new();
        links.add(up);
        links.add(down);
        Self {
            nodes: Vec::new(),
            routes: BTreeMap::new(),
            links,
            on_the_way: 0,
            arrived: 0,
            strays: 0,
        }
    }

    /// Adds a host. Its application is called for the first time when the network runs next.
    pub fn add(&mut self, side: Side, host: Host, application: A) -> NodeId {
        let id = NodeId(self.nodes.len());
        let now = self.links.now();
        self.routes.insert(host.address(), id);
        self.nodes.push(Node { host, application, side, due: Some(now) });
        self.links.schedule(now, Event::Timer(id));
        id
    }

    /// Returns the application of a host.
    #[must_use]
    pub fn application(&self, node: NodeId) -> &A {
        &self.nodes[node.0].application
    }

    /// Returns the uplink.
    #[must_use]
    pub fn uplink(&self) -> &Link {
        self.links.link(UP)
    }

    /// Returns the downlink.
    #[must_use]
    pub fn downlink(&self) -> &Link {
        self.links.link(DOWN)
    }

    /// Processes all events due at `end` or before.
    pub fn run_until(&mut self, end: Nanos, tap: Tap<'_>) {
        while let Some((now, event)) = self.links.next_until(end) {
            match event {
                links::Event::LinkFree(line) => self.serve(now, line, tap),
                links::Event::Own(Event::Timer(id)) => {
                    if self.nodes[id.0].due == Some(now) {
                        self.nodes[id.0].due = None;
                        self.wake(now, id, tap);
                    }
                }
                links::Event::Own(Event::Arrival(id, packet)) => {
                    self.on_the_way -= 1;
                    self.arrived += 1;
                    self.nodes[id.0].host.receive(packet);
                    self.wake(now, id, tap);
                }
            }
        }
    }

    /// Recounts both queues, and checks that every packet that left a queue is in transit or has
    /// arrived.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self) -> Result<(), Imbalance> {
        let mut left = 0;
        for link in self.links.links() {
            link.recount()?;
            left += link.books().left;
        }
        let seen = self.on_the_way + self.arrived + self.strays;
        Imbalance::check("packets that left", 0, left, seen)?;
        Imbalance::check("packets to no host", 0, 0, self.strays)
    }

    /// Polls a host, calls its application, and sends the packets of both.
    fn wake(&mut self, now: Nanos, id: NodeId, tap: Tap<'_>) {
        let node = &mut self.nodes[id.0];
        node.host.poll(now);
        let wish = node.application.act(now, &mut node.host);
        node.host.poll(now);
        let timer = node.host.poll_at(now);
        // Later than now, so that no host can stop the clock: the host's own clock is in
        // microseconds.
        let next = wish.into_iter().chain(timer).min();
        let next = next.map(|at| at.max(now.plus(Nanos::from_micros(1))));
        if let Some(at) = next
            && node.due != Some(at)
        {
            node.due = Some(at);
            self.links.schedule(at, Event::Timer(id));
        } else if next.is_none() {
            node.due = None;
        }
        let (packets, line) = match node.side {
            Side::Home => (node.host.take_sent(), UP),
            Side::Internet => (node.host.take_sent(), DOWN),
        };
        for packet in packets {
            self.links.link_mut(line).enter(now, packet);
            self.serve(now, line, tap);
        }
    }

    /// Sends the packets that may leave a queue at `now` to their destination hosts.
    fn serve(&mut self, now: Nanos, line: LinkId, tap: Tap<'_>) {
        let Self { links, routes, on_the_way, strays, .. } = self;
        links.serve(now, line, |_, _, packet| {
            if line == UP {
                tap(now, &packet);
            }
            let Some(&id) = destination(&packet).and_then(|to| routes.get(&to)) else {
                *strays += 1;
                return None;
            };
            *on_the_way += 1;
            Some(Event::Arrival(id, packet))
        });
    }
}

impl<A> fmt::Debug for Network<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("hosts", &self.nodes.len())
            .field("now", &self.links.now())
            .field("up", self.links.link(UP))
            .field("down", self.links.link(DOWN))
            .finish_non_exhaustive()
    }
}

/// Returns the destination address of a raw IPv4 packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some(address.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddrV4;

    use crate::app::{Browser, Media, Packetised, Page, WebServer};
    use crate::discipline::Discipline;
    use crate::source::Cbr;
    use conformance::rng::Streams;
    use freeboard::sched_core::Limits;
    use freeboard::shaper::{Overhead, Rate, Shaper};

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const INTERNET: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

    /// A network with 1 Mbit/s up, 12 Mbit/s down, 20 ms each way, without hosts.
    fn idle<A: Application>() -> Network<A> {
        let link = |mbps| {
            let line = Shaper::new(Rate::megabits_per_second(mbps).unwrap());
            let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(100), 1_500);
            Link::new(queue, 101, [0; 16], Nanos::from_millis(20))
        };
        Network::new(link(1), link(12))
    }

    /// 200 bytes with headers take 1.6 ms at 1 Mbit/s; the propagation delay is 20 ms.
    #[test]
    fn a_datagram_takes_its_time_on_the_line_and_its_way() {
        let mut network = idle();
        let (near, far) = (SocketAddrV4::new(HOME, 5_004), SocketAddrV4::new(INTERNET, 5_004));
        let voice = Packetised {
            source: Cbr::g711(Nanos(12_345)),
            payload_type: 0,
            until: Nanos::from_secs(1),
        };
        let phone = Media::new(5_004, far, Some(voice));
        let from = network.add(Side::Home, Host::new(HOME, 1), phone);
        let to = network.add(Side::Internet, Host::new(INTERNET, 2), Media::new(5_004, near, None));
        let mut departures = Vec::new();
        network.run_until(Nanos::from_secs(2), &mut |at, packet| {
            departures.push((at, packet.len()));
        });
        assert_eq!(network.application(from).sent().len(), 50);
        assert_eq!(network.application(to).delays(), [Some(Nanos::from_micros(21_600)); 50]);
        assert_eq!(departures[1], (Nanos(20_012_345), 200));
        assert_eq!(network.recount(), Ok(()));
    }

    enum Web {
        Browser(Browser),
        Server(WebServer),
    }

    impl Application for Web {
        fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
            match self {
                Self::Browser(browser) => browser.act(now, host),
                Self::Server(server) => server.act(now, host),
            }
        }
    }

    /// Goal: the load time of a page follows from its packets. Method: a document of 1,000 bytes on
    /// an idle link, calculated manually. Four one-way delays of 20 ms; up, the SYN with its
    /// options (52 bytes, 416 µs), the ACK (40, 320 µs) and the request (440, 3,520 µs); down, the
    /// SYN-ACK (52, 34.7 µs) and the document (1,040, 693.3 µs). A second page after the first has
    /// closed takes equally long.
    #[test]
    fn a_page_takes_a_handshake_a_request_and_an_answer() {
        let mut network = idle();
        let server = SocketAddrV4::new(INTERNET, 80);
        let pages = vec![Page::uniform(1_000, 0, 0)];
        let pause = Nanos::from_secs(1);
        let stream = Streams::new(1).stream("pauses");
        let browser = Browser::new(server, pages, Nanos::ZERO, pause, stream);
        let id = network.add(Side::Home, Host::new(HOME, 1), Web::Browser(browser));
        network.add(Side::Internet, Host::new(INTERNET, 2), Web::Server(WebServer::new(80)));
        network.run_until(Nanos::from_secs(60), &mut |_, _| ());
        assert_eq!(network.recount(), Ok(()));
        let Web::Browser(browser) = network.application(id) else { panic!("a browser was added") };
        let complete = browser.loads().iter().filter_map(|load| Some((load.start, load.end?)));
        let times: Vec<u64> = complete.map(|(start, end)| end.since(start).0 / 1_000).collect();
        assert!(times.len() > 30, "{}", times.len());
        let expected = 80_000 + 416 + 320 + 3_520 + 34 + 694;
        assert!(times.iter().all(|time| time.abs_diff(expected) <= 2), "{expected}: {times:?}");
    }

    #[test]
    fn a_packet_without_a_receiver_is_noticed() {
        let mut network = idle();
        let nowhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
        let voice = Packetised { source: Cbr::g711(Nanos::ZERO), payload_type: 0, until: Nanos(1) };
        network.add(Side::Home, Host::new(HOME, 1), Media::new(9, nowhere, Some(voice)));
        network.run_until(Nanos::from_secs(1), &mut |_, _| ());
        assert_eq!(network.recount().unwrap_err().what, "packets to no host");
    }
}
