//! A smart queue with frames: it owns the buffers, reads the headers and writes the marks.

use core::fmt;

use flowhash::{Labeller, Labels, Parsed, Parser, SipHash13};
use sched_core::{Ecn, Imbalance, Nanos, Packet, RejectReason, Scheduler};

use super::SmartQueue;
use super::ecn::mark_congestion;
use super::pool::Pool;
use crate::labelled::ByLabeller;
use crate::storage::Storage;

/// Buffers of a [`SmartQueue`], and how it finds the flow of a frame.
#[derive(Debug)]
pub struct Frames<S: Storage> {
    pool: Pool<S>,
    /// The buffer whose frame the caller was given last: free when the caller comes again.
    out: Option<u32>,
    link: LinkLayer,
    parser: Parser,
    labeller: Labeller<SipHash13>,
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LinkLayer {
    /// An Ethernet II header, with VLAN tags and PPPoE or without.
    #[default]
    Ethernet,
    /// An IP header, as TUN devices give it.
    RawIp,
}

/// A frame that was not queued. It is counted among [`Counters::rejected`](sched_core::Counters::rejected).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PushError {
    /// The frame is empty, or longer than a buffer.
    Length {
        /// Its length in bytes.
        len: usize,
        /// The longest frame in bytes.
        max: usize,
    },
    /// The queue refused it: its limits have no room for a frame of this length.
    Rejected(RejectReason),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len, max } => write!(f, "frame of {len} bytes; accepted are 1..={max}"),
            Self::Rejected(reason) => write!(f, "frame rejected: {reason}"),
        }
    }
}

impl core::error::Error for PushError {}

impl<S: Storage> Frames<S> {
    pub(super) fn new(pool: Pool<S>, link: LinkLayer, key: [u8; 16]) -> Self {
        let labeller = Labeller::new(SipHash13::new(key));
        Self { pool, out: None, link, parser: Parser::default(), labeller }
    }

    fn parse(&self, frame: &[u8]) -> Parsed {
        match self.link {
            LinkLayer::Ethernet => self.parser.ethernet(frame),
            LinkLayer::RawIp => self.parser.ip(frame),
        }
    }

    /// Writes the mark into the header of the frame in buffer `handle`.
    #[cold]
    fn mark(&mut self, handle: u32) {
        let parsed = self.parse(self.pool.frame(handle));
        if let Some(ip) = parsed.ip {
            mark_congestion(self.pool.frame_mut(handle), &ip);
        }
    }

    /// The caller has done with the frame it was given last.
    fn take_back(&mut self) {
        if let Some(handle) = self.out.take() {
            self.pool.give_back(handle);
        }
    }
}

/// With frames.
impl<S: Storage, K: Storage, T: Storage> SmartQueue<S, Frames<S>, K, T> {
    /// Takes a copy of `frame` at instant `now`: reads its headers, finds its flow and its hosts, and queues it.
    ///
    /// `Ok` says that this frame is queued. If no buffer was free, or a limit was reached, frames of the host that
    /// holds the most have given way; [`counters`](Self::counters) has them. What is no IP packet is queued by its
    /// Ethernet source, or with others of its kind.
    ///
    /// Cost: a copy, a parse and a hash; two hashes more if the flow was idle.
    ///
    /// # Errors
    /// [`PushError`] for a frame that cannot be queued at all; it is counted as rejected.
    pub fn push(&mut self, now: Nanos, frame: &[u8]) -> Result<(), PushError> {
        self.packets.take_back();
        let max = self.packets.pool.buffer_len();
        if frame.is_empty() || frame.len() > max {
            let _counted = self.turn_away(now, frame.len());
            return Err(PushError::Length { len: frame.len(), max });
        }
        let handle = match self.packets.pool.store(frame) {
            Some(handle) => Some(handle),
            None => {
                let limits = self.outlet.line.limits();
                // A frame that an empty queue would refuse takes the buffer of no other.
                if length(frame.len()) > limits.bytes {
                    let _counted = self.turn_away(now, frame.len());
                    return Err(PushError::Rejected(RejectReason::Full { limits }));
                }
                self.outlet.line.evict(&mut self.packets.pool);
                self.packets.pool.store(frame)
            }
        };
        // Every buffer was free, or was queued and has given way: there is one.
        let Some(handle) = handle else { return Err(self.turn_away(now, frame.len())) };
        let parsed = self.packets.parse(frame);
        let ecn = parsed.ip.map_or(Ecn::NotEct, |ip| Ecn::from_bits(ip.ecn()));
        let packet = Packet { handle, len: length(frame.len()), ecn };
        let labels = ByLabeller { parsed: &parsed, labeller: &self.packets.labeller };
        let inside = self.outlet.line.arrival(now);
        match inside.enqueue_labelled(now, &labels, packet, &mut self.packets.pool) {
            Ok(_) => Ok(()),
            Err(rejected) => {
                self.packets.pool.give_back(handle);
                Err(PushError::Rejected(rejected.reason))
            }
        }
    }

    /// Books a frame that is in no buffer as rejected.
    #[cold]
    fn turn_away(&mut self, now: Nanos, len: usize) -> PushError {
        // No buffer has this handle: the queue refuses it, and counts it.
        let packet = Packet::new(u32::MAX, length(len));
        let inside = self.outlet.line.arrival(now);
        let limits = inside.limits();
        let refused =
            inside.enqueue_labelled(now, &Labels::default(), packet, &mut self.packets.pool);
        debug_assert!(refused.is_err(), "there is no such buffer");
        let full = RejectReason::Full { limits };
        PushError::Rejected(refused.err().map_or(full, |rejected| rejected.reason))
    }

    /// The frame that leaves next, if one may leave at `now`: with the mark of congestion written into its IP header
    /// where the AQM set one. It is the caller's until the next [`push`](Self::push) or `pop`, which frees its buffer.
    ///
    /// Cost: that of a dequeue; a parse more for a frame that is marked.
    pub fn pop(&mut self, now: Nanos) -> Option<&[u8]> {
        self.packets.take_back();
        let packet = self.outlet.dequeue(now, &mut self.packets.pool)?;
        self.packets.out = Some(packet.handle);
        if packet.ecn == Ecn::Ce {
            self.packets.mark(packet.handle);
        }
        Some(self.packets.pool.frame(packet.handle))
    }

    /// Drops all that is queued; buffers, tables and settings stay. Cost: O(frames).
    pub fn clear(&mut self) {
        self.packets.take_back();
        self.outlet.line.drain(&mut self.packets.pool);
    }

    /// How many frames there are buffers for, and how long each may be in bytes.
    #[must_use]
    pub fn buffers(&self) -> (u32, usize) {
        (self.packets.pool.count(), self.packets.pool.buffer_len())
    }

    /// Counts everything anew and compares it with the books. For tests: O(frames + flows).
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self) -> Result<(), Imbalance> {
        self.outlet.line.recount()?;
        let pool = &self.packets.pool;
        let out = u64::from(self.packets.out.is_some());
        let held = u64::from(self.backlog().packets).saturating_add(out);
        Imbalance::check("buffers in use", 0, pool.in_use().into(), pool.recounted())?;
        Imbalance::check("buffers of frames", 0, pool.in_use().into(), held)
    }
}

/// Bytes as the queue counts them.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
