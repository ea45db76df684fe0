//! Connections and open-loop flows over the two directions of one link.
//!
//! ```text
//! senders, sources ─▶ uplink:   queue under test ─▶ delay ─▶ receivers
//! receivers        ◀─ delay ◀─ queue under test  :downlink ◀─ senders, sources
//! ```
//!
//! The uplink may have a modem behind it ([`TcpNetwork::modem`]), with a queue, a rate and a delay
//! of its own, all of which may change while the network runs.
//!
//! A connection has its data in one direction and its acknowledgements in the other. Hosts send
//! without delay into their end of the link: a faster link before it would space a burst by less
//! than the bottleneck's transmission time.

use core::fmt;

use freeboard::Dscp;
use freeboard::flowhash::{self, FlowKey, SackBlocks, Timestamps, Transport};
use freeboard::sched_core::{Ecn, FlowId, Imbalance, Nanos};
use freeboard::shaper::Rate;

use super::wire::{self, Segment};
use super::{Ack, Config, Data, Receiver, Sender};
use crate::link::{Link, Logged, PacketEvent};
use crate::links::{self, LinkId, Links};
use crate::measure::delay::Delays;
use crate::measure::goodput::{Goodput, Loss};
use crate::measure::jitter::DelayVariation;
use crate::source::Sent;

/// Direction of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the uplink.
    Up,
    /// Over the downlink.
    Down,
}

impl Way {
    /// Both directions; each is at the index that it has as a number.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    const fn link(self) -> LinkId {
        LinkId(match self {
            Self::Up => 0,
            Self::Down => 1,
        })
    }

    const fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Identification of flows in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By the key of each packet, for schedulers by hash and by hosts.
    Key,
    /// All packets belong to flow 0, for one queue with an AQM.
    One,
    /// By connection number, like a connection table. For networks without open-loop flows.
    Connection,
    /// By connection number; open-loop flows follow after this many connections.
    Number(u32),
    /// Data is flow 0 until its connection has sent this many bytes, and then flow 1: two bands,
    /// selected by a byte counter per connection. All else is flow 0.
    Sent(u64),
}

/// A packet in transit.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// Number of its connection or open-loop flow.
    of: u32,
    /// Length of the packet in bytes.
    len: u32,
    content: Content,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    Data(Data),
    Ack(Ack),
    /// An open-loop packet with its sending time and the number of packets sent before it.
    Datagram(Nanos, u64),
}

enum Event {
    /// A timer of a connection.
    Timer(u32, Timer),
    /// A connection starts.
    Begin(u32),
    /// Data reaches the queue after the delay of its access link.
    Enter(Parcel, Ecn),
    /// An open-loop flow sends this payload.
    Send(u32, u32),
    Arrive(Parcel, Ecn),
    /// A packet has passed the uplink and arrives at the modem.
    Modem(Parcel, Ecn),
}

/// Timers of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timer {
    Retransmit,
    Pace,
    Delayed,
}

struct Connection {
    sender: Sender,
    receiver: Receiver,
    way: Way,
    key: FlowKey,
    back: FlowKey,
    /// Code point of data and acknowledgements.
    mark: Dscp,
    /// Bytes of data that arrived at the queue, including retransmissions.
    sent: u64,
    /// Bytes of data and of acknowledgements that have left their queues, as on the link.
    left: [u64; 2],
    /// Times of the valid timer events.
    armed: [Option<Nanos>; 3],
    /// Payload of each segment in bytes.
    payload: u32,
    segments: u32,
    /// Delay of data between the sender and the queue.
    access: Nanos,
    /// Start; the end of time while it waits for others.
    begins: Nanos,
    /// Number of connections whose data must arrive before this one begins, and the pause then.
    waits_for: usize,
    pause: Nanos,
    /// Connections that wait for this one.
    followers: Vec<u32>,
    /// Time at which all data had arrived at the receiver.
    arrived: Option<Nanos>,
    /// Time at which the sender knew that everything had arrived.
    done: Option<Nanos>,
    goodput: Goodput,
    /// One-way delays of segments, if measured.
    delays: Option<Delays>,
}

struct Datagrams {
    source: Box<dyn Iterator<Item = Sent>>,
    way: Way,
    key: FlowKey,
    ecn: Ecn,
    mark: Dscp,
    from: Nanos,
    to: Nanos,
    delays: Delays,
    /// Variation of the delays, if measured.
    variation: Option<DelayVariation>,
    /// Number of packets sent at any time.
    number: u64,
    sent: u64,
    arrived: u64,
    /// Payload that arrived in the measured window.
    arrived_bytes: u64,
}

/// Identifies a connection by the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(u32);

/// Identifies an open-loop flow by the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramsId(u32);

/// An event of a packet at a queue, with the headers of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPacket {
    /// Time of the event.
    pub at: Nanos,
    /// Fate of the packet.
    pub event: PacketEvent,
    /// Headers of IPv4 and TCP or UDP, without payload.
    pub headers: Vec<u8>,
    /// Length of the packet in bytes.
    pub len: u32,
}

/// Headers of IPv4 and UDP, in bytes.
pub const DATAGRAM_HEADERS: u32 = 28;

/// Connections, open-loop flows, the link, and the clock.
pub struct TcpNetwork {
    links: Links<Parcel, Event>,
    naming: Naming,
    connections: Vec<Connection>,
    datagrams: Vec<Datagrams>,
    /// Window of time for goodput, delays and losses.
    measured: (Nanos, Nanos),
    modem: Option<LinkId>,
    /// Arrival times and bytes of packets at a gateway behind the uplink, since they were last
    /// taken.
    passed: Option<Vec<(Nanos, u32)>>,
    on_the_way: u64,
    arrived: u64,
    /// Number of packets that have arrived at the modem.
    at_modem: u64,
}

impl TcpNetwork {
    /// Creates a network without flows. Goodput, delays and losses are measured in `[from, to)`.
    #[must_use]
    pub fn new(
        up: Link<Parcel>,
        down: Link<Parcel>,
        naming: Naming,
        measured: (Nanos, Nanos),
    ) -> Self {
        let mut links = Links::new();
        links.add(up.reading_acks(read));
        links.add(down.reading_acks(read));
        let (connections, datagrams) = (Vec::new(), Vec::new());
        Self {
            links,
            naming,
            connections,
            datagrams,
            measured,
            modem: None,
            passed: None,
            on_the_way: 0,
            arrived: 0,
            at_modem: 0,
        }
    }

    /// Adds a modem behind the uplink: packets pass this link before they arrive. Its queue sees
    /// all packets as flow 0.
    #[must_use]
    pub fn modem(mut self, link: Link<Parcel>) -> Self {
        self.modem = Some(self.links.add(link));
        self
    }

    /// Adds a gateway behind the link: like [`TcpNetwork::modem`], but its queue identifies flows
    /// as the others do, and [`TcpNetwork::take_passed`] returns the packets that arrived at it.
    #[must_use]
    pub fn gateway(self, link: Link<Parcel>) -> Self {
        Self { passed: Some(Vec::new()), ..self.modem(link) }
    }

    /// Returns the modem or the gateway behind the uplink, if there is one.
    #[must_use]
    pub fn modem_link(&self) -> Option<&Link<Parcel>> {
        self.modem.map(|id| self.links.link(id))
    }

    /// Returns arrival times and bytes of the packets at the gateway since the last call; empty if
    /// there is none.
    pub fn take_passed(&mut self) -> Vec<(Nanos, u32)> {
        self.passed.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Changes the rate of a direction.
    pub fn set_rate(&mut self, now: Nanos, way: Way, rate: Rate) {
        self.links.link_mut(way.link()).set_rate(now, rate);
        self.serve(now, way.link());
    }

    /// Changes rate and delay of the modem, if there is one.
    pub fn set_modem(&mut self, now: Nanos, rate: Rate, delay: Nanos) {
        if let Some(id) = self.modem {
            let link = self.links.link_mut(id);
            link.set_rate(now, rate);
            link.set_delay(delay);
            self.serve(now, id);
        }
    }

    /// Adds a connection whose data flows in direction `way` from `begins` on. `hosts` are the last
    /// bytes of the addresses at home and on the Internet; each connection has a port of its own.
    ///
    /// # Panics
    /// If there are 2^32 connections.
    pub fn connect(
        &mut self,
        way: Way,
        hosts: [u8; 2],
        begins: Nanos,
        config: Config,
    ) -> ConnectionId {
        let id = self.add_connection(way, hosts, config);
        self.begin(id, begins);
        ConnectionId(id)
    }

    /// Adds a connection like [`TcpNetwork::connect`] that begins `pause` after all data of the
    /// connections `after` has arrived at their receivers: at once if there are none, and never if
    /// one of them has no end. A response follows its request this way.
    ///
    /// # Panics
    /// If there are 2^32 connections.
    pub fn connect_after(
        &mut self,
        way: Way,
        hosts: [u8; 2],
        after: &[ConnectionId],
        pause: Nanos,
        config: Config,
    ) -> ConnectionId {
        let id = self.add_connection(way, hosts, config);
        let mut latest = self.links.now();
        for before in after {
            let before = &mut self.connections[before.0 as usize];
            match before.arrived {
                Some(arrived) => latest = latest.max(arrived),
                None => {
                    before.followers.push(id);
                    self.connections[id as usize].waits_for += 1;
                }
            }
        }
        self.connections[id as usize].pause = pause;
        if self.connections[id as usize].waits_for == 0 {
            self.begin(id, latest.plus(pause));
        }
        ConnectionId(id)
    }

    fn begin(&mut self, id: u32, at: Nanos) {
        self.connections[id as usize].begins = at;
        self.links.schedule(at, Event::Begin(id));
    }

    fn add_connection(&mut self, way: Way, hosts: [u8; 2], config: Config) -> u32 {
        let id = u32::try_from(self.connections.len()).expect("fewer connections than numbers");
        let segments = config.segments;
        let key = key(way, hosts, 6, id);
        self.connections.push(Connection {
            sender: Sender::new(config),
            receiver: Receiver::new(),
            way,
            key,
            back: self::key(way.back(), hosts, 6, id),
            mark: Dscp::CS0,
            sent: 0,
            left: [0; 2],
            armed: [None; 3],
            payload: super::PAYLOAD,
            segments,
            access: Nanos::ZERO,
            begins: Nanos::MAX,
            waits_for: 0,
            pause: Nanos::ZERO,
            followers: Vec::new(),
            arrived: None,
            done: None,
            goodput: Goodput::over(self.measured.0, self.measured.1),
            delays: None,
        });
        id
    }

    /// Adds an open-loop flow: the payloads of `source`, one packet for each, with UDP headers.
    ///
    /// # Panics
    /// If there are 2^32 flows.
    pub fn add_source(
        &mut self,
        way: Way,
        hosts: [u8; 2],
        source: impl Iterator<Item = Sent> + 'static,
    ) -> DatagramsId {
        self.add_source_with_ecn(way, hosts, Ecn::NotEct, source)
    }

    /// Adds an open-loop flow whose packets have this ECN code point.
    ///
    /// # Panics
    /// If there are 2^32 flows.
    pub fn add_source_with_ecn(
        &mut self,
        way: Way,
        hosts: [u8; 2],
        ecn: Ecn,
        source: impl Iterator<Item = Sent> + 'static,
    ) -> DatagramsId {
        let id = u32::try_from(self.datagrams.len()).expect("fewer flows than numbers");
        let (from, to) = self.measured;
        self.datagrams.push(Datagrams {
            source: Box::new(source),
            way,
            key: key(way, hosts, 17, id),
            ecn,
            mark: Dscp::CS0,
            from,
            to,
            delays: Delays::new(),
            variation: None,
            number: 0,
            sent: 0,
            arrived: 0,
            arrived_bytes: 0,
        });
        self.schedule_next(id);
        DatagramsId(id)
    }

    /// Sets the DSCP of a connection's packets, including acknowledgements, from now on; initially
    /// CS0.
    pub fn mark_connection(&mut self, id: ConnectionId, mark: Dscp) {
        self.connections[id.0 as usize].mark = mark;
    }

    /// Sets the DSCP of an open-loop flow's packets from now on; initially CS0.
    pub fn mark_source(&mut self, id: DatagramsId, mark: Dscp) {
        self.datagrams[id.0 as usize].mark = mark;
    }

    /// Sets the payload of each segment of a connection in bytes, for transfers of less than a full
    /// segment; initially [`PAYLOAD`](super::PAYLOAD).
    pub fn set_payload(&mut self, id: ConnectionId, bytes: u32) {
        self.connections[id.0 as usize].payload = bytes;
    }

    /// Delays the data of a connection between its sender and the queue, like an access link of
    /// unlimited rate, from now on; initially not at all. Connections over one bottleneck get
    /// different round-trip times this way.
    pub fn set_access_delay(&mut self, id: ConnectionId, delay: Nanos) {
        self.connections[id.0 as usize].access = delay;
    }

    /// Gives a connection the addresses and ports of another one, so that queues see one flow in
    /// each direction. Each number keeps its segments: the two are transfers of one persistent
    /// connection.
    pub fn share_ports(&mut self, id: ConnectionId, with: ConnectionId) {
        let Connection { way, key, back, .. } = self.connections[with.0 as usize];
        let connection = &mut self.connections[id.0 as usize];
        (connection.key, connection.back) =
            if connection.way == way { (key, back) } else { (back, key) };
    }

    /// Returns the start of a connection; `None` if it waits for others.
    #[must_use]
    pub fn begins(&self, id: ConnectionId) -> Option<Nanos> {
        let begins = self.connections[id.0 as usize].begins;
        (begins != Nanos::MAX).then_some(begins)
    }

    /// Returns the time at which all data of a connection had arrived at the receiver; `None` if it
    /// has not.
    #[must_use]
    pub fn arrival(&self, id: ConnectionId) -> Option<Nanos> {
        self.connections[id.0 as usize].arrived
    }

    /// Returns the code point of a connection's packets.
    #[must_use]
    pub fn mark(&self, id: ConnectionId) -> Dscp {
        self.connections[id.0 as usize].mark
    }

    /// Returns the code point of an open-loop flow's packets.
    #[must_use]
    pub fn source_mark(&self, id: DatagramsId) -> Dscp {
        self.datagrams[id.0 as usize].mark
    }

    /// Returns the direction of a connection's data.
    #[must_use]
    pub fn way(&self, id: ConnectionId) -> Way {
        self.connections[id.0 as usize].way
    }

    /// Returns the bytes of a connection that arrived in order in the measured window.
    #[must_use]
    pub fn goodput(&self, id: ConnectionId) -> Goodput {
        self.connections[id.0 as usize].goodput
    }

    /// Returns the bytes of a connection's packets that have left the queue of a direction, as on
    /// the link: data in one direction, acknowledgements in the other.
    #[must_use]
    pub fn left(&self, id: ConnectionId, way: Way) -> u64 {
        let connection = &self.connections[id.0 as usize];
        let [data, acks] = connection.left;
        if way == connection.way { data } else { acks }
    }

    /// Records the delay of each segment of this connection that is sent from now on, in the
    /// measured window.
    pub fn measure_delays(&mut self, id: ConnectionId) {
        self.connections[id.0 as usize].delays = Some(Delays::new());
    }

    /// Returns the one-way delays of a connection's segments that arrived, including
    /// retransmissions.
    ///
    /// # Panics
    /// Unless [`TcpNetwork::measure_delays`] was called.
    #[must_use]
    pub fn segment_delays(&self, id: ConnectionId) -> &Delays {
        self.connections[id.0 as usize].delays.as_ref().expect("they are measured")
    }

    /// Returns the sender of a connection.
    #[must_use]
    pub fn sender(&self, id: ConnectionId) -> &Sender {
        &self.connections[id.0 as usize].sender
    }

    /// Returns the receiver of a connection.
    #[must_use]
    pub fn receiver(&self, id: ConnectionId) -> &Receiver {
        &self.connections[id.0 as usize].receiver
    }

    /// Returns the time until the sender knew that everything had arrived; `None` if it has not.
    #[must_use]
    pub fn completion(&self, id: ConnectionId) -> Option<Nanos> {
        let connection = &self.connections[id.0 as usize];
        connection.done.map(|done| done.since(connection.begins))
    }

    /// Returns the one-way delays of arrived datagrams that were sent in the measured window.
    #[must_use]
    pub fn delays(&self, id: DatagramsId) -> &Delays {
        &self.datagrams[id.0 as usize].delays
    }

    /// Records the delay variation (RFC 3393) of this flow's packets that are sent from now on, in
    /// the measured window.
    pub fn measure_variation(&mut self, id: DatagramsId) {
        self.datagrams[id.0 as usize].variation = Some(DelayVariation::default());
    }

    /// Returns the delay variation of consecutive packets of an open-loop flow that both arrived.
    ///
    /// # Panics
    /// Unless [`TcpNetwork::measure_variation`] was called.
    #[must_use]
    pub fn variation(&self, id: DatagramsId) -> &DelayVariation {
        self.datagrams[id.0 as usize].variation.as_ref().expect("it is measured")
    }

    /// Returns the loss of datagrams sent in the measured window; those that have not arrived count
    /// as lost.
    #[must_use]
    pub fn loss(&self, id: DatagramsId) -> Loss {
        let Datagrams { sent, arrived, .. } = self.datagrams[id.0 as usize];
        Loss { sent, lost: sent - arrived }
    }

    /// Returns a direction of the link.
    #[must_use]
    pub fn link(&self, way: Way) -> &Link<Parcel> {
        self.links.link(way.link())
    }

    /// Returns the bytes that have left the queue of a direction, as on the link.
    #[must_use]
    pub fn sent_bytes(&self, way: Way) -> u64 {
        self.links.link(way.link()).sent_bytes()
    }

    /// Returns the number of packets that have arrived at their destination.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the payload bytes of an open-loop flow that arrived in the measured window.
    #[must_use]
    pub fn arrived_bytes(&self, id: DatagramsId) -> u64 {
        self.datagrams[id.0 as usize].arrived_bytes
    }

    /// Keeps a log of all packets at the queues of both directions from now on, for
    /// [`TcpNetwork::take_log`].
    pub fn log_packets(&mut self) {
        for way in [Way::Up, Way::Down] {
            self.links.link_mut(way.link()).log();
        }
    }

    /// Returns what happened to packets at the queue of a direction since the last call, in order.
    pub fn take_log(&mut self, way: Way) -> Vec<LoggedPacket> {
        let log = self.links.link_mut(way.link()).take_log();
        log.into_iter().map(|logged| self.with_headers(logged)).collect()
    }

    fn with_headers(&self, Logged { at, event, ecn, packet }: Logged<Parcel>) -> LoggedPacket {
        let of = packet.of as usize;
        let (key, mark, segment) = match packet.content {
            Content::Data(data) => {
                let connection = &self.connections[of];
                (connection.key, connection.mark, Segment::Data(data))
            }
            Content::Ack(ack) => {
                let connection = &self.connections[of];
                (connection.back, connection.mark, Segment::Ack(ack))
            }
            Content::Datagram(..) => {
                (self.datagrams[of].key, self.datagrams[of].mark, Segment::Datagram)
            }
        };
        let headers = wire::headers(&key, mark, ecn, packet.len, &segment);
        LoggedPacket { at, event, headers, len: packet.len }
    }

    /// Processes all events due at `end` or before.
    pub fn run_until(&mut self, end: Nanos) {
        while let Some((now, event)) = self.links.next_until(end) {
            match event {
                links::Event::LinkFree(link) => self.serve(now, link),
                links::Event::Own(Event::Begin(id)) => self.after_sender(now, id),
                links::Event::Own(Event::Timer(id, timer)) => self.on_timer(now, id, timer),
                links::Event::Own(Event::Send(id, payload)) => self.send_datagram(now, id, payload),
                links::Event::Own(Event::Arrive(parcel, ecn)) => self.arrive(now, parcel, ecn),
                links::Event::Own(Event::Enter(parcel, ecn)) => {
                    let Connection { way, key, .. } = self.connections[parcel.of as usize];
                    self.enter(now, way.link(), &key, ecn, parcel);
                    self.serve(now, way.link());
                }
                links::Event::Own(Event::Modem(parcel, ecn)) => self.pass(now, parcel, ecn),
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
        Imbalance::check(
            "packets that left",
            0,
            left,
            self.on_the_way + self.arrived + self.at_modem,
        )
    }

    fn schedule_next(&mut self, id: u32) {
        if let Some(Sent { at, payload }) = self.datagrams[id as usize].source.next() {
            self.links.schedule(at, Event::Send(id, payload));
        }
    }

    fn send_datagram(&mut self, now: Nanos, id: u32, payload: u32) {
        self.schedule_next(id);
        let flow = &mut self.datagrams[id as usize];
        flow.sent += u64::from((flow.from..flow.to).contains(&now));
        let (way, key, ecn, number) = (flow.way, flow.key, flow.ecn, flow.number);
        flow.number += 1;
        let len = payload + DATAGRAM_HEADERS;
        let parcel = Parcel { of: id, len, content: Content::Datagram(now, number) };
        self.enter(now, way.link(), &key, ecn, parcel);
        self.serve(now, way.link());
    }

    fn pass(&mut self, now: Nanos, parcel: Parcel, ecn: Ecn) {
        self.on_the_way -= 1;
        self.at_modem += 1;
        let Some(id) = self.modem else { return };
        if let Some(passed) = &mut self.passed {
            passed.push((now, parcel.len));
            let connection = |id: u32| &self.connections[id as usize];
            let key = match parcel.content {
                Content::Data(_) => connection(parcel.of).key,
                Content::Ack(_) => connection(parcel.of).back,
                Content::Datagram(..) => self.datagrams[parcel.of as usize].key,
            };
            self.enter(now, id, &key, ecn, parcel);
        } else {
            self.links.link_mut(id).enter_with_ecn(now, FlowId(0), parcel.len, ecn, parcel);
        }
        self.serve(now, id);
    }

    fn arrive(&mut self, now: Nanos, parcel: Parcel, ecn: Ecn) {
        self.on_the_way -= 1;
        self.arrived += 1;
        let id = parcel.of;
        match parcel.content {
            Content::Data(data) => {
                let connection = &mut self.connections[id as usize];
                if let Some(delays) = &mut connection.delays
                    && (self.measured.0..self.measured.1).contains(&data.at)
                {
                    delays.record(now.since(data.at));
                }
                let before = connection.receiver.in_order();
                let ack = connection.receiver.receive(now, data, ecn == Ecn::Ce);
                let news = connection.receiver.in_order() - before;
                connection.goodput.record(now, u64::from(news) * u64::from(connection.payload));
                let is_complete = connection.receiver.in_order() >= connection.segments;
                let completes = is_complete && connection.arrived.is_none();
                self.after_receiver(now, id, ack);
                if completes {
                    self.release_followers(now, id);
                }
            }
            Content::Ack(ack) => {
                self.connections[id as usize].sender.on_ack(now, &ack);
                self.after_sender(now, id);
            }
            Content::Datagram(sent, number) => {
                let flow = &mut self.datagrams[id as usize];
                if (flow.from..flow.to).contains(&now) {
                    flow.arrived_bytes += u64::from(parcel.len - DATAGRAM_HEADERS);
                }
                if (flow.from..flow.to).contains(&sent) {
                    flow.arrived += 1;
                    flow.delays.record(now.since(sent));
                    if let Some(variation) = &mut flow.variation {
                        variation.record(number, sent, now);
                    }
                }
            }
        }
    }

    /// Begins the connections that waited only for this one.
    fn release_followers(&mut self, now: Nanos, id: u32) {
        let connection = &mut self.connections[id as usize];
        connection.arrived = Some(now);
        for follower in core::mem::take(&mut connection.followers) {
            let connection = &mut self.connections[follower as usize];
            connection.waits_for -= 1;
            if connection.waits_for == 0 {
                let at = now.plus(connection.pause);
                self.begin(follower, at);
            }
        }
    }

    fn on_timer(&mut self, now: Nanos, id: u32, timer: Timer) {
        let connection = &mut self.connections[id as usize];
        let armed = &mut connection.armed[timer as usize];
        if *armed != Some(now) {
            return;
        }
        *armed = None;
        if timer == Timer::Delayed {
            let ack = connection.receiver.on_timer(now);
            self.after_receiver(now, id, ack);
            return;
        }
        connection.sender.on_timer(now);
        self.after_sender(now, id);
    }

    /// Sends a receiver's acknowledgement and sets its timer.
    fn after_receiver(&mut self, now: Nanos, id: u32, ack: Option<Ack>) {
        let connection = &self.connections[id as usize];
        let (back, key, due) = (connection.way.back(), connection.back, connection.receiver.due());
        self.arm(id, Timer::Delayed, due);
        if let Some(ack) = ack {
            let parcel = Parcel { of: id, len: ack.packet_len(), content: Content::Ack(ack) };
            self.enter(now, back.link(), &key, Ecn::NotEct, parcel);
            self.serve(now, back.link());
        }
    }

    /// Sends a sender's permitted segments and sets its timers.
    fn after_sender(&mut self, now: Nanos, id: u32) {
        let (way, key, access, len) = {
            let connection = &mut self.connections[id as usize];
            if connection.sender.is_done() && connection.done.is_none() {
                connection.done = Some(now);
            }
            let Connection { way, key, access, payload, .. } = *connection;
            (way, key, access, payload + super::HEADERS)
        };
        let mut has_sent = false;
        while let Some((data, ecn)) = self.connections[id as usize].sender.poll(now) {
            let parcel = Parcel { of: id, len, content: Content::Data(data) };
            if access > Nanos::ZERO {
                self.links.schedule(now.plus(access), Event::Enter(parcel, ecn));
                continue;
            }
            has_sent = true;
            self.enter(now, way.link(), &key, ecn, parcel);
        }
        let sender = &mut self.connections[id as usize].sender;
        let (due, paced) = (sender.due(), sender.paced_until(now));
        self.arm(id, Timer::Retransmit, due);
        self.arm(id, Timer::Pace, paced);
        if has_sent {
            self.serve(now, way.link());
        }
    }

    /// Ensures that there is an event at `due` or before. A deadline that moves later keeps its old
    /// event.
    fn arm(&mut self, id: u32, timer: Timer, due: Option<Nanos>) {
        let armed = &mut self.connections[id as usize].armed[timer as usize];
        if let Some(due) = due
            && armed.is_none_or(|armed| due < armed)
        {
            *armed = Some(due);
            self.links.schedule(due, Event::Timer(id, timer));
        }
    }

    fn enter(&mut self, now: Nanos, id: LinkId, key: &FlowKey, ecn: Ecn, parcel: Parcel) {
        let len = parcel.len;
        let link = self.links.link_mut(id);
        match self.naming {
            Naming::Key => {
                let mark = match parcel.content {
                    Content::Datagram(..) => self.datagrams[parcel.of as usize].mark,
                    _ => self.connections[parcel.of as usize].mark,
                };
                link.enter_with_key(now, (key, mark), len, ecn, parcel)
            }
            Naming::One => link.enter_with_ecn(now, FlowId(0), len, ecn, parcel),
            Naming::Number(connections) => {
                let before = u32::from(matches!(parcel.content, Content::Datagram(..)));
                let flow = FlowId(parcel.of + before * connections);
                link.enter_with_ecn(now, flow, len, ecn, parcel)
            }
            Naming::Connection => link.enter_with_ecn(now, FlowId(parcel.of), len, ecn, parcel),
            Naming::Sent(young) => {
                let mut is_old = false;
                if let Content::Data(_) = parcel.content {
                    let sent = &mut self.connections[parcel.of as usize].sent;
                    is_old = *sent >= young;
                    *sent += u64::from(len);
                }
                link.enter_with_ecn(now, FlowId(is_old.into()), len, ecn, parcel)
            }
        };
    }

    /// Sends the packets that may leave a queue at `now`.
    fn serve(&mut self, now: Nanos, id: LinkId) {
        let Self { links, on_the_way, modem, connections, .. } = self;
        let is_before_modem = modem.is_some() && id == Way::Up.link();
        let is_modem = *modem == Some(id);
        let (overhead, header) = links.link(id).framing();
        links.serve(now, id, |_, ecn, parcel| {
            *on_the_way += 1;
            let kind = match parcel.content {
                Content::Data(_) if !is_modem => Some(0),
                Content::Ack(_) if !is_modem => Some(1),
                _ => None,
            };
            if let Some(kind) = kind {
                let left = &mut connections[parcel.of as usize].left[kind];
                *left += u64::from(overhead.wire_len(parcel.len + header));
            }
            let event = if is_before_modem { Event::Modem } else { Event::Arrive };
            Some(event(parcel, ecn))
        });
    }
}

impl fmt::Debug for TcpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpNetwork")
            .field("connections", &self.connections.len())
            .field("sources", &self.datagrams.len())
            .field("now", &self.links.now())
            .finish_non_exhaustive()
    }
}

/// Returns the acknowledgement of a parcel in TCP's format, for a queue with an ACK filter.
fn read(parcel: &Parcel) -> Option<flowhash::Ack> {
    let Content::Ack(ack) = parcel.content else { return None };
    // The connection number replaces the addresses. Each acknowledgement has a count of marks in
    // bits that no filter may lose: a different count counts as other data.
    let [port, rest] = [parcel.of & 0xffff, parcel.of >> 16].map(|half| half as u16);
    let transport = Transport { protocol: 6, src_port: port, dst_port: rest };
    let connection = FlowKey::V4 { src: [0; 4], dst: [0; 4], transport };
    let at = |segment: u32| segment.wrapping_mul(super::PAYLOAD);
    let mut told = flowhash::Ack::new(connection, ack.marks, at(ack.next));
    told.ece = ack.echo;
    let echo = (ack.at.0 / 1_000_000) as u32;
    told.timestamps = Some(Timestamps { value: 0, echo });
    let blocks = ack.blocks().map(|block| (at(block.start), at(block.end)));
    told.sack = SackBlocks::new(blocks);
    Some(told)
}

/// Returns the key of a flow between a host at home and one on the Internet (TEST-NET-3, RFC 5737).
fn key(way: Way, hosts: [u8; 2], protocol: u8, number: u32) -> FlowKey {
    let [home, internet] = [[192, 168, 1, hosts[0]], [203, 0, 113, hosts[1]]];
    // 2^28 flows: the home port has the low bits of the number, the other port the rest.
    let ports = [0x8000 | (number & 0x3fff) as u16, 0x4000 | (number >> 14 & 0x3fff) as u16];
    let [src_port, dst_port] = if way == Way::Up { ports } else { [ports[1], ports[0]] };
    let (src, dst) = if way == Way::Up { (home, internet) } else { (internet, home) };
    FlowKey::V4 { src, dst, transport: Transport { protocol, src_port, dst_port } }
}
