//! Reference model of a FIFO: one deque.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Books, ConfigError, Counters, DropFrom, DropReason, DropSink, Ecn, FlowId, Imbalance, Limits,
    Nanos, Packet, RejectReason, Rejected, Scheduler,
};

use super::flow_scheduler::QueuedPacket;
use super::queues::{backlog_of, clamped, raise};
use crate::history::{Setting, nothing_to_set};

/// First in, first out, with tail or head drop.
#[derive(Clone, Debug)]
pub struct NaiveFifo {
    queue: VecDeque<QueuedPacket>,
    end: DropFrom,
    descriptors: u32,
    limits: Limits,
    total: Counters,
}

impl NaiveFifo {
    /// Creates an empty FIFO for `descriptors` packets that drops at `end` when the limits are
    /// reached.
    #[must_use]
    pub fn new(end: DropFrom, descriptors: u32, limits: Limits) -> Self {
        Self {
            queue: VecDeque::new(),
            end,
            descriptors,
            limits: clamped(limits),
            total: Counters::default(),
        }
    }

    fn within(&self, queue: &VecDeque<QueuedPacket>) -> bool {
        let held = backlog_of(queue.iter());
        held.packets <= self.limits.packets && held.bytes <= self.limits.bytes
    }

    fn drop(&mut self, end: DropFrom, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let held = match end {
            DropFrom::Head => self.queue.pop_front(),
            DropFrom::Tail => self.queue.pop_back(),
        };
        let Some(held) = held else { return false };
        self.total.count_dropped(reason, held.packet.len);
        drops.dropped(held.packet, reason);
        true
    }

    /// Returns the number of oldest packets to drop for `arrival`; `None` if it has to be rejected.
    fn price(&self, arrival: QueuedPacket) -> Option<usize> {
        let most = match self.end {
            DropFrom::Tail => 0,
            DropFrom::Head => self.queue.len(),
        };
        (0..=most).find(|&victims| {
            let mut after: VecDeque<QueuedPacket> =
                self.queue.iter().skip(victims).copied().collect();
            after.push_back(arrival);
            self.within(&after)
        })
    }
}

impl Scheduler for NaiveFifo {
    fn enqueue(
        &mut self,
        _now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Packet { handle, len, .. } = packet;
        let outcome = if !(1..=Packet::MAX_LEN).contains(&len) {
            Err(RejectReason::Length { len, max: Packet::MAX_LEN })
        } else if handle >= self.descriptors {
            Err(RejectReason::UnknownHandle { handle, descriptors: self.descriptors })
        } else if self.queue.iter().any(|held| held.packet.handle == handle) {
            Err(RejectReason::HandleInUse { handle })
        } else {
            self.price(QueuedPacket { flow, packet })
                .ok_or(RejectReason::Full { limits: self.limits })
        };
        let victims = match outcome {
            Ok(victims) => victims,
            Err(reason) => {
                self.total.rejected.add(len);
                return Err(Rejected { packet, reason });
            }
        };
        for _ in 0..victims {
            self.drop(DropFrom::Head, DropReason::Overflow, drops);
        }
        self.queue.push_back(QueuedPacket { flow, packet });
        self.total.accepted.add(len);
        self.total.came_marked += u64::from(packet.ecn == Ecn::Ce);
        let held = Scheduler::backlog(self);
        raise(&mut self.total.peak, held);
        Ok(())
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Option<Packet> {
        let held = self.queue.pop_front()?;
        self.total.delivered.add(held.packet.len);
        Some(held.packet)
    }

    fn peek(&self, _now: Nanos) -> Option<Packet> {
        self.queue.front().map(|held| held.packet)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }

    fn books(&self) -> Books {
        let backlog = backlog_of(self.queue.iter());
        Books { backlog, counters: self.total, limits: self.limits }
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.limits = clamped(limits);
        while !self.within(&self.queue) {
            self.drop(self.end, DropReason::LimitLowered, drops);
        }
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.drop(self.end, DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while self.drop(DropFrom::Head, DropReason::Drained, drops) {}
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Ok(()) // nothing is counted twice
    }
}

nothing_to_set!(OfFlow: <> NaiveFifo);
