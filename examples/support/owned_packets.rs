//! A smart queue of packets that the program owns, and the program's clock.

use core::error::Error;
use core::fmt;
use core::future::pending;
use core::time::Duration;
use std::io;

use freeboard::flowhash::parse;
use freeboard::sched_core::{DropReason, Ecn, Nanos, Packet};
use freeboard::{
    CookieSlot, Cookies, DescriptorQueue, FrameReader, InTin, SmartQueueBuilder, mark_congestion,
};
use tokio::time::{Instant, sleep_until};

type Slots = Box<[CookieSlot<Vec<u8>>]>;

/// A queue that takes each packet as a `Vec` and returns the same `Vec`: nothing is copied, and the
/// queue holds as much memory as the packets take.
#[derive(Debug)]
pub(crate) struct OwnedPackets {
    queue: DescriptorQueue,
    packets: Cookies<Vec<u8>, Slots>,
    reader: FrameReader,
    /// The packet that the device refused when it was full, sent next. All others wait in the
    /// queue.
    waiting: Option<Vec<u8>>,
    /// Number of packets refused by a device that was not full.
    refused: u64,
}

impl OwnedPackets {
    /// Creates a queue for packets that begin with an IP header. `key` is 16 random bytes.
    pub(crate) fn new(builder: SmartQueueBuilder, key: [u8; 16]) -> Result<Self, Box<dyn Error>> {
        let builder = builder.raw_ip();
        let queue = builder.descriptors()?;
        let slots = (0..queue.handles()).map(|_| CookieSlot::EMPTY).collect();
        let (packets, reader) = (Cookies::new(slots), builder.reader(key));
        Ok(Self { queue, packets, reader, waiting: None, refused: 0 })
    }

    /// Returns the time to call [`send`](Self::send) next.
    pub(crate) fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.poll_at(now)
    }

    /// Takes a packet, which may be dropped at once; the queue counts it.
    pub(crate) fn push(&mut self, now: Nanos, packet: Vec<u8>) {
        let Self { queue, packets, reader, .. } = self;
        let parsed = reader.parse(&packet);
        let read = reader.read(&packet, &parsed, 0, queue.tins());
        let labels = InTin { labels: reader.labels(&read, reader.labeller()), tin: read.tin };
        let (len, ecn) = (u32::try_from(packet.len()).unwrap_or(u32::MAX), read.ecn());
        let _counted = packets.enqueue(queue, packet, &mut dropped, |queue, handle, drops| {
            queue.enqueue(now, &labels, Packet { ecn, ..Packet::new(handle, len) }, drops)
        });
    }

    /// Returns the next packet that may leave, with the mark of the AQM in its header.
    fn pop(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let Self { queue, packets, .. } = self;
        let (descriptor, mut packet) = packets.dequeue(queue, now, &mut dropped)?;
        if descriptor.ecn == Ecn::Ce
            && let Some(ip) = parse::ip(&packet).ip
        {
            mark_congestion(&mut packet, &ip);
        }
        Some(packet)
    }

    /// Sends packets that may leave by `try_send`; returns true if the device is full.
    pub(crate) fn send(
        &mut self,
        clock: Clock,
        try_send: impl Fn(&[u8]) -> io::Result<usize>,
    ) -> bool {
        while let Some(packet) = self.waiting.take().or_else(|| self.pop(clock.now())) {
            match try_send(&packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiting = Some(packet);
                    return true;
                }
                sent => self.refused += u64::from(sent.is_err()),
            }
        }
        false
    }
}

/// Frees a packet that the queue drops, which the queue counts.
fn dropped(packet: Vec<u8>, _: DropReason) {
    drop(packet);
}

/// Prints the counters.
impl fmt::Display for OwnedPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = self.queue.counters();
        write!(
            f,
            "{}: {} packets in, {} rejected, {} dropped, {} queued, {} out ({} bytes), {} marked; \
             at most {} bytes queued, {} refused by the device, {} not sent",
            self.queue.line().rate(),
            counters.offered().packets,
            counters.rejected.packets,
            counters.dropped_total().packets,
            self.queue.backlog().packets,
            counters.delivered.packets,
            counters.delivered.bytes,
            counters.marked,
            counters.peak.bytes,
            self.refused,
            u32::from(self.waiting.is_some()),
        )
    }
}

/// A clock that counts the time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until `due`, or forever if there is nothing to wait for. tokio's timer has a
    /// resolution of 1 ms, so a packet may leave 1 ms late. The queue catches up, and the rate is
    /// kept.
    pub(crate) async fn reaches(self, due: Option<Nanos>) {
        match due {
            Some(due) => sleep_until(self.0 + Duration::from_nanos(due.0)).await,
            None => pending().await,
        }
    }
}
