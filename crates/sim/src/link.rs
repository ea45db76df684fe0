//! One direction of a link: buffers, the queue under test, a rate and a delay.
//!
//! Packets arrive as bytes, which are parsed and hashed with a secret key, or with the number of
//! their flow. They are stored in a [`Pool`] while a
//! [`Scheduler`](freeboard::sched_core::Scheduler) holds their handles, and leave when the shaper
//! in front of the scheduler permits it. The shaper has the rate of the link: the last bit of a
//! departing packet is on the link when its wire length is paid for, and arrives a propagation
//! delay later.

mod log;
mod pool;
pub mod trace;

use core::fmt;

use freeboard::Dscp;
use freeboard::flowhash::{Ack, FlowKey, SipHash13, parse};
use freeboard::sched_core::{
    DropReason, DropSink, Ecn, FlowId, Imbalance, Nanos, Packet, Rejected,
};
use freeboard::shaper::{Overhead, Rate};

use crate::discipline::Bottleneck;

pub use log::{Logged, PacketEvent};
pub use pool::Pool;

use log::Log;

/// One direction of a link, for packets that are bytes or, if no host reads them, a shorter type.
pub struct Link<P = Vec<u8>> {
    queue: Box<dyn Bottleneck>,
    pool: Pool<P>,
    /// Hash function for packets that are bytes: flow ids are 32-bit hashes of flow keys.
    hasher: SipHash13,
    /// Function that identifies the flow of a packet instead of the hash.
    naming: Option<fn(&[u8]) -> FlowId>,
    /// True if packets are flow 0 whatever their key.
    is_one_flow: bool,
    delay: Nanos,
    /// Bytes of header that are added to each packet's length in the queue.
    header: u32,
    /// Reads acknowledgements, for a queue that filters them.
    acks: Option<fn(&P) -> Option<Ack>>,
    /// Arrival time of the last packet: packets stay in order if rate or delay change.
    last: Nanos,
    /// Bytes sent, as on the link.
    sent: u64,
    /// Maximum number of queued packets of each flow, by number; flows beyond the end have no
    /// limit.
    flow_limits: Vec<u32>,
    books: Books,
    log: Option<Log<P>>,
}

/// Packet counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Packets that arrived.
    pub entered: u64,
    /// Packets sent.
    pub left: u64,
    /// Packets dropped by the scheduler after it had accepted them, in the order of
    /// [`DropReason::ALL`].
    pub dropped: [u64; DropReason::COUNT],
    /// Packets not accepted by the scheduler or because of the limit of their flow.
    pub rejected: u64,
    /// Packets dropped because no buffer was free.
    pub no_buffer: u64,
}

impl Books {
    /// Returns the number of packets lost for any reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum::<u64>() + self.rejected + self.no_buffer
    }
}

/// A packet in transit on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTheWay<P = Vec<u8>> {
    /// Time at which its last bit arrives at the far end.
    pub arrives: Nanos,
    /// Code point of the packet: the original one, or [`Ecn::Ce`] if it was marked in the queue.
    pub ecn: Ecn,
    /// Contents of the packet.
    pub packet: P,
}

/// Frees the buffers of dropped packets.
struct Free<'a, P> {
    pool: &'a mut Pool<P>,
    books: &'a mut Books,
    log: &'a mut Option<Log<P>>,
}

impl<P> DropSink for Free<'_, P> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        // A handle that is not in the pool is not counted; the recount reports the difference.
        if let Some(contents) = self.pool.take(packet.handle) {
            if let Some(log) = self.log {
                log.dropped(packet, reason, contents);
            }
            match self.books.dropped.get_mut(reason as usize) {
                Some(count) => *count += 1,
                None => self.books.rejected += 1,
            }
        }
    }
}

impl Link {
    /// Enqueues a raw IP packet, whose flow is the hash of its key unless [`naming`](Self::naming)
    /// is set.
    pub fn enter(&mut self, now: Nanos, bytes: Vec<u8>) {
        if let Some(name) = self.naming {
            let (flow, len) = (name(&bytes), u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            self.enter_as(now, flow, len, bytes);
            return;
        }
        let key = parse::ip(&bytes).key;
        // No IP packet is longer.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.books.entered += 1;
        let hasher = self.hasher;
        self.put(now, (len, Ecn::NotEct), bytes, |queue, packet, free| {
            queue.enqueue_key(now, &key, &hasher, packet, free)
        });
    }
}

impl<P: Clone> Link<P> {
    /// Keeps a log of what happens to each packet from now on, for [`Link::take_log`].
    pub fn log(&mut self) {
        self.log = Some(Log::new(P::clone));
    }
}

impl<P> Link<P> {
    /// Creates a link with the rate and framing of `queue`. `buffers` is the number of handles the
    /// queue knows; `key` is the secret of the flow hash (unused for numbered flows); `delay` is
    /// the propagation delay.
    #[must_use]
    pub fn new(queue: Box<dyn Bottleneck>, buffers: u32, key: [u8; 16], delay: Nanos) -> Self {
        let hasher = SipHash13::new(key);
        Self {
            queue,
            pool: Pool::new(buffers),
            hasher,
            naming: None,
            is_one_flow: false,
            header: 0,
            acks: None,
            delay,
            last: Nanos::ZERO,
            sent: 0,
            flow_limits: Vec::new(),
            books: Books::default(),
            log: None,
        }
    }

    /// Identifies the flow of raw IP packets by `name` instead of by hash.
    #[must_use]
    pub fn naming(self, name: fn(&[u8]) -> FlowId) -> Self {
        Self { naming: Some(name), ..self }
    }

    /// Enqueues all packets as flow 0, for a queue without flows.
    #[must_use]
    pub fn as_one_flow(self) -> Self {
        Self { is_one_flow: true, ..self }
    }

    /// Adds a header of this many bytes to the length of each packet, as for Ethernet frames: it
    /// counts in shares, in limits and on the link.
    #[must_use]
    pub fn with_header(self, bytes: u32) -> Self {
        Self { header: bytes, ..self }
    }

    /// Returns the framing of the link, and the header bytes added to each packet's length.
    #[must_use]
    pub fn framing(&self) -> (Overhead, u32) {
        (self.queue.overhead(), self.header)
    }

    /// Sets how a queue with an ACK filter reads acknowledgements, for packets that are enqueued by
    /// key.
    #[must_use]
    pub fn reading_acks(self, acks: fn(&P) -> Option<Ack>) -> Self {
        Self { acks: Some(acks), ..self }
    }

    /// Sets the maximum number of queued packets of flows 0, 1, …; further packets are rejected.
    /// Flows beyond the end have no limit. Applies to numbered flows with queues of their own.
    #[must_use]
    pub fn flow_limits(mut self, packets: Vec<u32>) -> Self {
        self.flow_limits = packets;
        self
    }

    /// Enqueues a packet of `len` bytes of a numbered flow. Returns true if it was accepted.
    pub fn enter_as(&mut self, now: Nanos, flow: FlowId, len: u32, packet: P) -> bool {
        self.enter_with_ecn(now, flow, len, Ecn::NotEct, packet)
    }

    /// Enqueues a packet of a numbered flow with this code point. Returns true if it was accepted.
    pub fn enter_with_ecn(
        &mut self,
        now: Nanos,
        flow: FlowId,
        len: u32,
        ecn: Ecn,
        packet: P,
    ) -> bool {
        self.books.entered += 1;
        let limit = self.flow_limits.get(flow.index()).copied().unwrap_or(u32::MAX);
        if self.queue.flow_backlog(flow).is_some_and(|queued| queued.packets >= limit) {
            self.books.rejected += 1;
            return false;
        }
        self.put(now, (len, ecn), packet, |queue, packet, free| {
            queue.enqueue(now, flow, packet, free)
        })
    }

    /// Enqueues a packet of `len` bytes with these code points, whose flow is the hash of its key.
    /// Returns true if it was accepted.
    pub fn enter_with_key(
        &mut self,
        now: Nanos,
        (key, mark): (&FlowKey, Dscp),
        len: u32,
        ecn: Ecn,
        packet: P,
    ) -> bool {
        if self.is_one_flow {
            return self.enter_with_ecn(now, FlowId(0), len, ecn, packet);
        }
        self.books.entered += 1;
        let hasher = self.hasher;
        let read = self.acks.unwrap_or(|_| None);
        self.put_reading(now, (key, &hasher, mark), (len, ecn), packet, read)
    }

    /// Variant of [`Self::put`] for a queue that reads queued packets.
    fn put_reading(
        &mut self,
        now: Nanos,
        by: (&FlowKey, &SipHash13, Dscp),
        (len, ecn): (u32, Ecn),
        packet: P,
        read: fn(&P) -> Option<Ack>,
    ) -> bool {
        let entry = Log::entry(&mut self.log, now, &packet);
        let Ok(handle) = self.pool.put(packet) else {
            self.books.no_buffer += 1;
            Log::enqueued(&mut self.log, entry, ecn, false);
            return false;
        };
        let Self { queue, pool, books, log, .. } = self;
        // Buffers are freed after the queue has finished reading.
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, why: DropReason| gone.push((packet, why));
        let acks = |packet: Packet| pool.get(packet.handle).and_then(read);
        let packet = Packet { ecn, ..Packet::new(handle, len + self.header) };
        let outcome = queue.enqueue_marked(now, by, packet, &acks, drops);
        for (packet, why) in gone {
            Free { pool, books, log }.dropped(packet, why);
        }
        Log::enqueued(log, entry, ecn, outcome.is_ok());
        if let Err(rejected) = outcome {
            pool.take(rejected.packet.handle);
            books.rejected += 1;
            return false;
        }
        true
    }

    /// Stores the packet in a buffer and enqueues it. Returns true if it was accepted.
    fn put(
        &mut self,
        now: Nanos,
        (len, ecn): (u32, Ecn),
        packet: P,
        enqueue: impl FnOnce(&mut dyn Bottleneck, Packet, &mut dyn DropSink) -> Result<(), Rejected>,
    ) -> bool {
        let entry = Log::entry(&mut self.log, now, &packet);
        let Ok(handle) = self.pool.put(packet) else {
            self.books.no_buffer += 1;
            Log::enqueued(&mut self.log, entry, ecn, false);
            return false;
        };
        let Self { queue, pool, books, log, .. } = self;
        let packet = Packet { ecn, ..Packet::new(handle, len + self.header) };
        let outcome = enqueue(&mut **queue, packet, &mut Free { pool, books, log });
        Log::enqueued(log, entry, ecn, outcome.is_ok());
        if let Err(rejected) = outcome {
            pool.take(rejected.packet.handle);
            books.rejected += 1;
            return false;
        }
        true
    }

    /// Returns the packet that leaves at `now`, if the link is free and there is one.
    pub fn leave(&mut self, now: Nanos) -> Option<OnTheWay<P>> {
        let Self { queue, pool, books, log, .. } = self;
        if let Some(log) = log {
            log.now = now;
        }
        let leaving = queue.dequeue(now, &mut Free { pool, books, log })?;
        let packet = self.pool.take(leaving.handle)?;
        if let Some(log) = &mut self.log {
            log.sent(leaving.ecn, &packet);
        }
        self.books.left += 1;
        let wire_len = self.queue.overhead().wire_len(leaving.len);
        let arrives = now.plus(self.queue.line().rate().time_of(wire_len)).plus(self.delay);
        let arrives = arrives.max(self.last);
        self.last = arrives;
        self.sent += u64::from(wire_len);
        Some(OnTheWay { arrives, ecn: leaving.ecn, packet })
    }

    /// Returns the log since the last call; empty unless [`Link::log`] was called.
    pub fn take_log(&mut self) -> Vec<Logged<P>> {
        self.log.as_mut().map(|log| core::mem::take(&mut log.entries)).unwrap_or_default()
    }

    /// Returns the time at which to call [`Link::leave`] next; `None`: not before a packet is
    /// enqueued.
    #[must_use]
    pub fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.poll_at(now)
    }

    /// Returns the time that a packet of `len` bytes takes on the link if the queue is empty.
    #[must_use]
    pub fn delay_when_idle(&self, len: u32) -> Nanos {
        let wire_len = self.queue.overhead().wire_len(len + self.header);
        self.delay.plus(self.queue.line().rate().time_of(wire_len))
    }

    /// Returns the propagation delay.
    #[must_use]
    pub const fn delay(&self) -> Nanos {
        self.delay
    }

    /// Changes the rate of the link at `now`, which may change [`poll_at`](Self::poll_at).
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.queue.set_rate(now, rate);
    }

    /// Changes the propagation delay of packets that leave from now on. Packets never overtake each
    /// other.
    pub fn set_delay(&mut self, delay: Nanos) {
        self.delay = delay;
    }

    /// Returns the bytes sent, as on the link.
    #[must_use]
    pub const fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Returns the queue with its shaper.
    #[must_use]
    pub fn queue(&self) -> &dyn Bottleneck {
        &*self.queue
    }

    /// Returns the packet counters.
    #[must_use]
    pub const fn books(&self) -> Books {
        self.books
    }

    /// Recounts and compares with the counters: every packet that arrived has left, was lost, or is
    /// in a buffer and in the queue.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self) -> Result<(), Imbalance> {
        self.queue.recount()?;
        let held = self.pool.held() as u64;
        let queued = u64::from(self.queue.backlog().packets);
        Imbalance::check("packets in buffers", 0, queued, held)?;
        let Books { entered, left, .. } = self.books;
        Imbalance::check("packets that came", 0, entered, left + self.books.lost() + held)
    }
}

impl<P> fmt::Debug for Link<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("books", &self.books).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::{Weighted, WeightedFlow};
    use freeboard::sched_core::{Descriptor, Fifo, Limits};
    use freeboard::shaper::{Shaped, Shaper};

    fn link(limits: Limits) -> Link {
        let fifo = Fifo::head_drop([Descriptor::EMPTY; 4], limits);
        let line = Shaper::new(Rate::megabits_per_second(1).unwrap());
        let queue = Box::new(Shaped::new(fifo, line, Overhead::PPPOE_LLCSNAP));
        Link::new(queue, 4, [0; 16], Nanos::from_millis(20))
    }

    /// 1,500 + 40 bytes are 33 cells, 1,749 bytes or 13.992 ms; 40 + 40 are two cells, 0.848 ms.
    #[test]
    fn a_packet_arrives_when_its_last_cell_has_travelled() {
        let mut link = link(Limits::NONE);
        for len in [1_500, 40] {
            link.enter(Nanos::ZERO, vec![0; len]);
        }
        let first = link.leave(Nanos::ZERO).unwrap();
        assert_eq!((first.arrives, first.packet.len()), (Nanos::from_micros(33_992), 1_500));
        assert_eq!(link.leave(Nanos::ZERO), None);
        let free = link.poll_at(Nanos::ZERO).unwrap();
        assert_eq!(free, Nanos::from_micros(13_992));
        assert_eq!(link.leave(free).unwrap().arrives, Nanos::from_micros(13_992 + 20_848));
        assert_eq!(link.poll_at(free), None);
        assert_eq!(link.recount(), Ok(()));
    }

    #[test]
    fn a_flow_with_a_limit_keeps_to_it() {
        let line = Shaper::new(Rate::STOPPED);
        let shares = [WeightedFlow { weight: 1, max_len: 100 }; 2];
        let queue = Weighted::Qfq.behind(line, Overhead::RAW, Limits::packets(8), &shares).unwrap();
        let mut link = Link::new(queue, 9, [0; 16], Nanos::ZERO).flow_limits(vec![2]);
        let mut enter = |flow| link.enter_as(Nanos::ZERO, FlowId(flow), 100, ());
        assert_eq!([0, 0, 0, 1, 1, 1].map(&mut enter), [true, true, false, true, true, true]);
        assert_eq!((link.books().entered, link.books().rejected), (6, 1));
        assert_eq!(link.recount(), Ok(()));
    }

    #[test]
    fn buffers_of_lost_packets_are_free_again() {
        let mut link = link(Limits::bytes(1_000));
        for len in [600, 1_001, 600, 400, 1] {
            link.enter(Nanos::ZERO, vec![0; len]);
        }
        let books = link.books();
        assert_eq!((books.entered, books.rejected, books.lost()), (5, 1, 3));
        assert_eq!(books.dropped[DropReason::Overflow as usize], 2);
        assert_eq!(link.recount(), Ok(()));
    }
}
