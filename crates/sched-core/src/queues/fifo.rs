//! First in, first out: the baseline for every other scheduler.
//!
//! One queue for all flows, without isolation: the flow that sends most gets most of the buffer and
//! of the link. Cost: O(1) per operation. Memory: 16 bytes per packet.

use crate::flow_scheduler::{DropFrom, Table};
use crate::queues::counters::{FlowRecord, Ledger};
use crate::queues::queue::{Descriptor, Queue, is_acceptable, obstacle};
use crate::scheduler::{
    Backlog, Books, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{Ecn, FlowId, Nanos, Packet};

/// A FIFO of packets in the memory `S`. It accepts packets of any flow and keeps no per-flow state.
///
/// ```
/// use sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
///
/// let mut fifo = Fifo::head_drop([Descriptor::EMPTY; 4], Limits::packets(2));
/// let mut dropped = Vec::new();
/// for handle in 0..3 {
///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
///     fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(dropped, [0]); // the oldest was dropped
/// let drops = &mut |_: Packet, _why| ();
/// assert_eq!(fifo.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(1));
/// # Ok::<(), sched_core::Rejected>(())
/// ```
#[derive(Clone)]
pub struct Fifo<S> {
    queue: Queue,
    /// Indexed by handle.
    descriptors: S,
    ledger: Ledger,
    full: DropFrom,
}

crate::debug::short_debug!(Fifo<S> { ledger, full });

impl<S: Table<Descriptor>> Fifo<S> {
    /// Creates a FIFO that rejects the arriving packet when full, as most network devices do.
    #[must_use]
    pub fn tail_drop(descriptors: S, limits: Limits) -> Self {
        Self::new(descriptors, limits, DropFrom::Tail)
    }

    /// Creates a FIFO that drops the oldest packets when full until the arriving packet fits. Fresh
    /// packets matter more, and senders notice congestion earlier by the length of the queue.
    #[must_use]
    pub fn head_drop(descriptors: S, limits: Limits) -> Self {
        Self::new(descriptors, limits, DropFrom::Head)
    }

    fn new(mut descriptors: S, limits: Limits, full: DropFrom) -> Self {
        descriptors.as_mut().fill(Descriptor::EMPTY);
        Self { queue: Queue::IDLE, descriptors, ledger: Ledger::new(limits), full }
    }

    /// Rejects `packet` with the first reason that applies.
    #[cold]
    fn reject(&mut self, packet: Packet) -> Rejected {
        self.ledger.count(|all| all.rejected.add(packet.len));
        let reason = obstacle(packet, Packet::MAX_LEN, self.descriptors.as_ref())
            .unwrap_or(RejectReason::Full { limits: self.ledger.limits() });
        Rejected { packet, reason }
    }

    /// Drops the oldest packets until `len` bytes fit. Drops nothing if even an empty queue could
    /// not take them.
    #[cold]
    fn make_room(&mut self, len: u32, drops: &mut dyn DropSink) -> bool {
        if self.full == DropFrom::Tail || !self.ledger.could_fit(len) {
            return false;
        }
        // Every packet has at least one byte, so at most `len` iterations.
        while !self.ledger.has_room(len) && self.drop_head(DropReason::Overflow, drops) {
            crate::steps::step();
        }
        self.ledger.make_ready(len)
    }

    /// Drops one packet at the configured end.
    fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let descriptors = self.descriptors.as_mut();
        let packet = match self.full {
            DropFrom::Head => self.queue.pop_head(descriptors),
            DropFrom::Tail => self.queue.pop_tail(descriptors),
        };
        let Some(packet) = packet else { return false };
        self.ledger.drop(packet.len, reason);
        drops.dropped(packet, reason);
        true
    }

    fn drop_head(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let Some(packet) = self.queue.pop_head(self.descriptors.as_mut()) else { return false };
        self.ledger.drop(packet.len, reason);
        drops.dropped(packet, reason);
        true
    }
}

impl<S: Table<Descriptor>> Scheduler for Fifo<S> {
    fn enqueue(
        &mut self,
        now: Nanos,
        _flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if !is_acceptable(packet, self.descriptors.as_ref()) {
            return Err(self.reject(packet));
        }
        if !self.ledger.make_ready(packet.len) && !self.make_room(packet.len, drops) {
            return Err(self.reject(packet));
        }
        self.queue.append(self.descriptors.as_mut(), packet, now);
        self.ledger.accept(packet.len);
        if packet.ecn == Ecn::Ce {
            self.ledger.count(FlowRecord::mark_came);
        }
        Ok(())
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Option<Packet> {
        let packet = self.queue.pop_head(self.descriptors.as_mut())?;
        self.ledger.deliver(packet.len);
        Some(packet)
    }

    fn peek(&self, _now: Nanos) -> Option<Packet> {
        let handle = self.queue.head();
        self.descriptors.as_ref().get(handle as usize).map(|descriptor| descriptor.packet(handle))
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        (!self.queue.is_empty()).then_some(now)
    }

    #[inline]
    fn waits(&self) -> bool {
        false
    }

    fn backlog(&self) -> Backlog {
        self.ledger.backlog()
    }

    fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    fn books(&self) -> Books {
        self.ledger.books()
    }

    /// Drops the newest packets with tail drop, the oldest with head drop.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        while self.ledger.is_over() && self.give_way(DropReason::LimitLowered, drops) {}
    }

    /// Drops the newest packet with tail drop, the oldest with head drop.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while self.drop_head(DropReason::Drained, drops) {}
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let descriptors = self.descriptors.as_ref();
        let packets = self.queue.recount(0, descriptors)?;
        let used = descriptors.iter().filter(|descriptor| descriptor.is_used()).count();
        Imbalance::check("descriptors in use", 0, used as u64, packets.into())?;
        let (held, queued) = (self.ledger.backlog(), self.queue.backlog());
        Imbalance::check("packets queued", 0, held.packets.into(), queued.packets.into())?;
        Imbalance::check("bytes queued", 0, held.bytes.into(), queued.bytes.into())?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_limit_of_nothing_rejects_everything() {
        for limits in [Limits::packets(0), Limits::bytes(0)] {
            let mut fifo = Fifo::head_drop([Descriptor::EMPTY; 4], limits);
            for handle in 0..4 {
                let packet = Packet::new(handle, 100);
                let rejected = fifo
                    .enqueue(Nanos(0), FlowId(0), packet, &mut |_, _| panic!("nothing to drop"))
                    .unwrap_err();
                assert_eq!(rejected, Rejected { packet, reason: RejectReason::Full { limits } });
            }
            assert_eq!(fifo.counters().rejected.packets, 4);
            assert_eq!(fifo.recount(), Ok(()));
        }
    }

    #[test]
    fn head_drop_makes_room_with_the_oldest_and_only_if_that_suffices() {
        let mut fifo = Fifo::head_drop([Descriptor::EMPTY; 8], Limits::bytes(1_000));
        let mut dropped = Vec::new();
        for handle in 0..4 {
            let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
            assert!(fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 250), sink).is_ok());
        }
        let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
        assert!(fifo.enqueue(Nanos(0), FlowId(0), Packet::new(4, 1_001), sink).is_err());
        assert!(fifo.enqueue(Nanos(0), FlowId(0), Packet::new(5, 251), sink).is_ok());
        assert_eq!(dropped, [0, 1]);
        assert_eq!(fifo.backlog(), Backlog { packets: 3, bytes: 751 });
        assert_eq!(fifo.recount(), Ok(()));
    }
}
