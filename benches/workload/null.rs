//! The empty harness: a scheduler that schedules nothing.

use core::hint::black_box;

use freeboard::flowhash::{FlowTable, TagLine};
use freeboard::sched_core::{
    Backlog, Books, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, RejectReason,
    Rejected, Scheduler,
};

/// No lookups: the baseline that net figures subtract.
pub(crate) const NOTHING: u8 = 0;
/// Looks up each packet's flow by hash; the excess over [`NOTHING`] is the cost of the lookup.
pub(crate) const LOOKUP: u8 = 1;
/// Looks up a flow never seen before for each packet.
pub(crate) const STRANGER: u8 = 2;
/// Looks up a flow never seen before for each packet, and releases the queue that it claims.
pub(crate) const STRANGER_RELEASED: u8 = 3;

/// Rejects packets beyond its limit in packets: the baseline for OVERLOAD.
pub(crate) const LIMITED: u8 = 4;

/// A stack of packets: returns the packet that arrived last.
#[derive(Debug)]
pub(crate) struct Null<const WORK: u8> {
    packets: Vec<Packet>,
    limits: Limits,
    table: FlowTable<Box<[TagLine]>>,
    stranger: u32,
}

impl<const WORK: u8> Null<WORK> {
    pub(crate) fn new(packets: usize, table: FlowTable<Box<[TagLine]>>) -> Self {
        let packets = Vec::with_capacity(packets);
        Self { packets, limits: Limits::NONE, table, stranger: 0 }
    }
}

impl<const WORK: u8> Scheduler for Null<WORK> {
    #[inline]
    fn enqueue(
        &mut self,
        _now: Nanos,
        flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        match WORK {
            LOOKUP => {
                black_box(self.table.lookup(flow.0).queue);
            }
            STRANGER | STRANGER_RELEASED => {
                // Successive flows of one way are far apart, and none repeats within 2^32 packets.
                self.stranger = self.stranger.wrapping_add(0x9e37_79b9);
                let queue = black_box(self.table.lookup(self.stranger).queue);
                if WORK == STRANGER_RELEASED {
                    self.table.release(queue);
                }
            }
            _ => {}
        }
        if WORK == LIMITED && self.packets.len() as u32 >= self.limits.packets {
            return Err(Rejected { packet, reason: RejectReason::Full { limits: self.limits } });
        }
        self.packets.push(packet);
        Ok(())
    }

    #[inline]
    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Option<Packet> {
        self.packets.pop()
    }

    fn peek(&self, _now: Nanos) -> Option<Packet> {
        self.packets.last().copied()
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        (!self.packets.is_empty()).then_some(now)
    }

    fn books(&self) -> Books {
        let backlog = Backlog {
            packets: self.packets.len() as u32,
            bytes: self.packets.iter().map(|p| p.len).sum(),
        };
        Books { backlog, counters: Counters::default(), limits: self.limits }
    }

    fn set_limits(&mut self, limits: Limits, _drops: &mut dyn DropSink) {
        self.limits = limits;
    }

    fn evict(&mut self, _drops: &mut dyn DropSink) -> bool {
        false
    }

    fn drain(&mut self, _drops: &mut dyn DropSink) {
        self.packets.clear();
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Ok(())
    }
}
