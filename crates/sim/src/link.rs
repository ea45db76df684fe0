//! One direction of a line: buffers, the queue under test, a rate and a delay.
//!
//! Packets come as bytes, which are parsed and hashed with a secret key, or with the number of
//! their flow. They lie in a [`Pool`] while a [`Scheduler`](freeboard::sched_core::Scheduler) holds
//! their handles, and leave when the shaper in front of the scheduler lets them. The shaper has the
//! rate of the line, so a packet that leaves at an instant has its last bit on the line when its
//! wire length is paid, and arrives a propagation delay later.

mod pool;

use core::fmt;

use freeboard::Dscp;
use freeboard::flowhash::{Ack, FlowKey, SipHash13, parse};
use freeboard::sched_core::{
    DropReason, DropSink, Ecn, FlowId, Imbalance, Nanos, Packet, Rejected,
};
use freeboard::shaper::{Overhead, Rate};

use crate::discipline::Bottleneck;

pub use pool::Pool;

/// One direction of a line, for packets that are bytes or, where no host reads them, something
/// shorter.
pub struct Link<P = Vec<u8>> {
    queue: Box<dyn Bottleneck>,
    pool: Pool<P>,
    /// Tells flows of bytes apart: their ids are the 32-bit hashes of flow keys.
    hasher: SipHash13,
    /// Names the flow of a packet instead, if there is one.
    naming: Option<fn(&[u8]) -> FlowId>,
    delay: Nanos,
    /// Bytes that a packet has before it in the books of the queue.
    header: u32,
    /// Reads acknowledgements, for a queue that filters them.
    acks: Option<fn(&P) -> Option<Ack>>,
    /// When the last packet arrives: a line whose rate or delay changes keeps the order.
    last: Nanos,
    /// Bytes that have left, on the line.
    sent: u64,
    /// Packets that each flow may have queued, by its number; flows beyond have no limit.
    flow_limits: Vec<u32>,
    books: Books,
}

/// What has happened to the packets of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Packets that came.
    pub entered: u64,
    /// Packets that left onto the line.
    pub left: u64,
    /// Packets the scheduler dropped after it had accepted them, in the order of
    /// [`DropReason::ALL`].
    pub dropped: [u64; DropReason::COUNT],
    /// Packets the scheduler or the limit of their flow did not accept.
    pub rejected: u64,
    /// Packets for which there was no buffer.
    pub no_buffer: u64,
}

impl Books {
    /// Packets that came and did not and will not leave.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum::<u64>() + self.rejected + self.no_buffer
    }
}

/// A packet on the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTheWay<P = Vec<u8>> {
    /// When its last bit is at the far end.
    pub arrives: Nanos,
    /// The codepoint it came with, or [`Ecn::Ce`] if it was marked in the queue.
    pub ecn: Ecn,
    /// The packet.
    pub packet: P,
}

/// Frees the buffers of dropped packets.
struct Free<'a, P> {
    pool: &'a mut Pool<P>,
    books: &'a mut Books,
}

impl<P> DropSink for Free<'_, P> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        // A handle that is not in the pool is not counted, and the recount finds the difference.
        if self.pool.take(packet.handle).is_some() {
            match self.books.dropped.get_mut(reason as usize) {
                Some(count) => *count += 1,
                None => self.books.rejected += 1,
            }
        }
    }
}

impl Link {
    /// A raw IP packet comes to the queue, which hashes its key, unless [`naming`](Self::naming)
    /// says its flow.
    pub fn enter(&mut self, now: Nanos, bytes: Vec<u8>) {
        if let Some(name) = self.naming {
            let (flow, len) = (name(&bytes), u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            self.enter_as(now, flow, len, bytes);
            return;
        }
        let key = parse::ip(&bytes).key;
        // No packet is longer than an IP packet can be.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.books.entered += 1;
        let hasher = self.hasher;
        self.put(len, Ecn::NotEct, bytes, |queue, packet, free| {
            queue.enqueue_key(now, &key, &hasher, packet, free)
        });
    }
}

impl<P> Link<P> {
    /// A link with the rate and framing of `queue`. `buffers` is how many handles the queue knows;
    /// `key` is the secret of the flow hash, of no effect on flows that are known; `delay` is how
    /// long a bit travels.
    #[must_use]
    pub fn new(queue: Box<dyn Bottleneck>, buffers: u32, key: [u8; 16], delay: Nanos) -> Self {
        let hasher = SipHash13::new(key);
        Self {
            queue,
            pool: Pool::new(buffers),
            hasher,
            naming: None,
            header: 0,
            acks: None,
            delay,
            last: Nanos::ZERO,
            sent: 0,
            flow_limits: Vec::new(),
            books: Books::default(),
        }
    }

    /// Flows are not told apart by hash: `name` says the flow of a raw IP packet.
    #[must_use]
    pub fn naming(self, name: fn(&[u8]) -> FlowId) -> Self {
        Self { naming: Some(name), ..self }
    }

    /// Packets are booked with a header of this many bytes, as Ethernet frames are: shares and
    /// limits count it, and the line has it.
    #[must_use]
    pub fn with_header(self, bytes: u32) -> Self {
        Self { header: bytes, ..self }
    }

    /// What the line makes of packets as they are booked, and the header with which they are
    /// booked.
    #[must_use]
    pub fn framing(&self) -> (Overhead, u32) {
        (self.queue.overhead(), self.header)
    }

    /// A queue that filters acknowledgements reads them by `acks`, of packets that come with their
    /// key.
    #[must_use]
    pub fn reading_acks(self, acks: fn(&P) -> Option<Ack>) -> Self {
        Self { acks: Some(acks), ..self }
    }

    /// Does not accept a packet of flow 0, 1, … that has as many queued as `packets` says, where
    /// flows are known by number and have queues. Flows beyond its end have no limit of their own.
    #[must_use]
    pub fn flow_limits(mut self, packets: Vec<u32>) -> Self {
        self.flow_limits = packets;
        self
    }

    /// A packet of `len` bytes of a flow that is known comes to the queue. Returns whether it was
    /// accepted.
    pub fn enter_as(&mut self, now: Nanos, flow: FlowId, len: u32, packet: P) -> bool {
        self.enter_with_ecn(now, flow, len, Ecn::NotEct, packet)
    }

    /// As [`Link::enter_as`], for a packet with this codepoint.
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
        self.put(len, ecn, packet, |queue, packet, free| queue.enqueue(now, flow, packet, free))
    }

    /// A packet of `len` bytes with these codepoints comes to the queue, which hashes its key.
    /// Returns whether it was accepted.
    pub fn enter_with_key(
        &mut self,
        now: Nanos,
        (key, mark): (&FlowKey, Dscp),
        len: u32,
        ecn: Ecn,
        packet: P,
    ) -> bool {
        self.books.entered += 1;
        let hasher = self.hasher;
        let read = self.acks.unwrap_or(|_| None);
        self.put_reading(now, (key, &hasher, mark), (len, ecn), packet, read)
    }

    /// As [`Self::put`], where the queue reads the packets that it holds.
    fn put_reading(
        &mut self,
        now: Nanos,
        by: (&FlowKey, &SipHash13, Dscp),
        (len, ecn): (u32, Ecn),
        packet: P,
        read: fn(&P) -> Option<Ack>,
    ) -> bool {
        let Ok(handle) = self.pool.put(packet) else {
            self.books.no_buffer += 1;
            return false;
        };
        let Self { queue, pool, books, .. } = self;
        // Buffers are freed when the queue has done with reading.
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, why: DropReason| gone.push((packet, why));
        let acks = |packet: Packet| pool.get(packet.handle).and_then(read);
        let packet = Packet { ecn, ..Packet::new(handle, len + self.header) };
        let outcome = queue.enqueue_marked(now, by, packet, &acks, drops);
        for (packet, why) in gone {
            Free { pool, books }.dropped(packet, why);
        }
        if let Err(rejected) = outcome {
            pool.take(rejected.packet.handle);
            books.rejected += 1;
            return false;
        }
        true
    }

    /// Gives the packet a buffer and enqueues it. Returns whether it was accepted.
    fn put(
        &mut self,
        len: u32,
        ecn: Ecn,
        packet: P,
        enqueue: impl FnOnce(&mut dyn Bottleneck, Packet, &mut dyn DropSink) -> Result<(), Rejected>,
    ) -> bool {
        let Ok(handle) = self.pool.put(packet) else {
            self.books.no_buffer += 1;
            return false;
        };
        let free = &mut Free { pool: &mut self.pool, books: &mut self.books };
        let packet = Packet { ecn, ..Packet::new(handle, len + self.header) };
        if let Err(rejected) = enqueue(&mut *self.queue, packet, free) {
            self.pool.take(rejected.packet.handle);
            self.books.rejected += 1;
            return false;
        }
        true
    }

    /// The packet that leaves at `now`, if the line is free and there is one.
    pub fn leave(&mut self, now: Nanos) -> Option<OnTheWay<P>> {
        let free = &mut Free { pool: &mut self.pool, books: &mut self.books };
        let leaving = self.queue.dequeue(now, free)?;
        let packet = self.pool.take(leaving.handle)?;
        self.books.left += 1;
        let wire_len = self.queue.overhead().wire_len(leaving.len);
        let arrives = now.plus(self.queue.line().rate().time_of(wire_len)).plus(self.delay);
        let arrives = arrives.max(self.last);
        self.last = arrives;
        self.sent += u64::from(wire_len);
        Some(OnTheWay { arrives, ecn: leaving.ecn, packet })
    }

    /// When [`Link::leave`] is worth repeating; `None`: not before a packet enters.
    #[must_use]
    pub fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.poll_at(now)
    }

    /// How long a bit travels.
    #[must_use]
    pub const fn delay(&self) -> Nanos {
        self.delay
    }

    /// Changes the rate of the line at `now`; [`poll_at`](Self::poll_at) may be another then.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.queue.set_rate(now, rate);
    }

    /// Changes how long a bit travels, for packets that leave from now on. None overtakes another.
    pub fn set_delay(&mut self, delay: Nanos) {
        self.delay = delay;
    }

    /// Bytes that have left, as they are on the line.
    #[must_use]
    pub const fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// The queue, with the line it is behind.
    #[must_use]
    pub fn queue(&self) -> &dyn Bottleneck {
        &*self.queue
    }

    /// What has happened to the packets.
    #[must_use]
    pub const fn books(&self) -> Books {
        self.books
    }

    /// Counts anew: every packet that came has left, was lost, or is in a buffer and in the queue.
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
