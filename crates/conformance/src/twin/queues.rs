//! Reference model of queues of packets: deques, and counters as plain sums.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Backlog, Books, ConfigError, Counters, DropFrom, DropReason, DropSink, Ecn, FlowId, Imbalance,
    Limits, Nanos, Packet, RejectReason, Rejected, Scheduler,
};

use super::flow_scheduler::{NaiveFlowScheduler, QueuedPacket, QueuesView};
use crate::history::{ConfigurableScheduler, Setting};

/// Maximum number of packets that a flushed flow loses to one arrival, unless the arrival has more
/// bytes.
const MAX_VICTIMS: u32 = 256;

/// Queues under a flow scheduler. Counters are sums over events; backlogs are counted each time.
#[derive(Clone, Debug)]
pub struct NaiveQueues<O> {
    scheduler: O,
    queues: Vec<VecDeque<QueuedPacket>>,
    descriptors: u32,
    limits: Limits,
    total: Counters,
    records: Vec<Counters>,
}

impl<O: NaiveFlowScheduler> NaiveQueues<O> {
    /// Returns the queue to serve next, now or later.
    fn first(&self) -> Option<FlowId> {
        self.scheduler.select(&self.queues).or_else(|| self.scheduler.waiting(&self.queues))
    }

    /// Creates queues for `flows` flows, `descriptors` packets, and statistics of `records` flows.
    #[must_use]
    pub fn new(
        mut scheduler: O,
        flows: u32,
        descriptors: u32,
        records: u32,
        limits: Limits,
    ) -> Self {
        let (queues, limits) = (vec![VecDeque::new(); flows as usize], clamped(limits));
        scheduler.limits_changed(limits, &queues);
        Self {
            scheduler,
            queues,
            descriptors,
            limits,
            total: Counters::default(),
            records: vec![Counters::default(); records as usize],
        }
    }

    /// Returns the flow scheduler, for its own operations; the next method also returns the queues.
    pub(super) const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    pub(super) fn scheduler_and_queues(&mut self) -> (&mut O, QueuesView<'_>) {
        (&mut self.scheduler, &self.queues)
    }

    fn everything(&self) -> impl Iterator<Item = &QueuedPacket> {
        self.queues.iter().flatten()
    }

    pub(super) fn flow_backlog(&self, flow: FlowId) -> Backlog {
        backlog_of(self.everything().filter(|held| held.flow == flow))
    }

    fn is_over(&self) -> bool {
        let held = Scheduler::backlog(self);
        held.packets > self.limits.packets || held.bytes > self.limits.bytes
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.max_len(flow).filter(|_| flow.index() < self.queues.len())
    }

    fn flows(&self) -> u32 {
        u32::try_from(self.queues.len()).expect("as constructed")
    }

    fn obstacle(&self, flow: FlowId, packet: Packet) -> Option<RejectReason> {
        let Some(max) = self.max_len(flow) else {
            return Some(RejectReason::UnknownFlow { flow, flows: self.flows() });
        };
        let Packet { handle, len, .. } = packet;
        if !(1..=max.min(Packet::MAX_LEN)).contains(&len) {
            Some(RejectReason::Length { len, max })
        } else if handle >= self.descriptors {
            Some(RejectReason::UnknownHandle { handle, descriptors: self.descriptors })
        } else if self.everything().any(|held| held.packet.handle == handle) {
            Some(RejectReason::HandleInUse { handle })
        } else {
            None
        }
    }

    fn reject(&mut self, flow: FlowId, packet: Packet, reason: RejectReason) -> Rejected {
        self.total.rejected.add(packet.len);
        if self.max_len(flow).is_some()
            && let Some(record) = self.records.get_mut(flow.index())
        {
            record.rejected.add(packet.len);
        }
        Rejected { packet, reason }
    }

    /// Removes the packet at `place` from `queue` without service.
    fn take(&mut self, queue: FlowId, place: usize) -> Option<QueuedPacket> {
        let held = self.queues[queue.index()].remove(place)?;
        self.scheduler.lost(queue, self.head_len(queue));
        self.scheduler.settle(&self.queues);
        Some(held)
    }

    /// Removes all packets, to be [put back](Self::put_back); returns those of each queue.
    pub(super) fn take_all(&mut self) -> Vec<Vec<Packet>> {
        let held = self.queues.iter_mut().map(core::mem::take).collect::<Vec<_>>();
        for (queue, _) in (0..).map(FlowId).zip(&held).filter(|(_, held)| !held.is_empty()) {
            self.scheduler.lost(queue, None);
        }
        self.scheduler.settle(&self.queues);
        let packets =
            |held: VecDeque<QueuedPacket>| held.into_iter().map(|held| held.packet).collect();
        held.into_iter().map(packets).collect()
    }

    /// Appends `packet`, removed before, to the queue of `flow`.
    pub(super) fn put_back(&mut self, flow: FlowId, packet: Packet) {
        self.queues[flow.index()].push_back(QueuedPacket { flow, packet });
        if self.queues[flow.index()].len() == 1 {
            self.scheduler.backlogged(flow, packet.len);
        }
        self.scheduler.settle(&self.queues);
    }

    fn take_from(&mut self, queue: FlowId, end: DropFrom) -> Option<QueuedPacket> {
        let newest = self.queues.get(queue.index())?.len().checked_sub(1)?;
        self.take(queue, if end == DropFrom::Head { 0 } else { newest })
    }

    fn head_len(&self, queue: FlowId) -> Option<u32> {
        self.queues.get(queue.index())?.front().map(|held| held.packet.len)
    }

    fn drop(&mut self, held: QueuedPacket, reason: DropReason, drops: &mut dyn DropSink) {
        self.total.count_dropped(reason, held.packet.len);
        if let Some(record) = self.records.get_mut(held.flow.index()) {
            record.count_dropped(reason, held.packet.len);
        }
        drops.dropped(held.packet, reason);
    }

    fn accepted(&mut self, flow: FlowId, packet: Packet) {
        let held = Scheduler::backlog(self);
        let came_marked = u64::from(packet.ecn == Ecn::Ce);
        self.total.accepted.add(packet.len);
        self.total.came_marked += came_marked;
        raise(&mut self.total.peak, held);
        let held = self.flow_backlog(flow);
        if let Some(record) = self.records.get_mut(flow.index()) {
            record.accepted.add(packet.len);
            record.came_marked += came_marked;
            raise(&mut record.peak, held);
        }
    }
}

impl<O: NaiveFlowScheduler> Scheduler for NaiveQueues<O> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.scheduler.advance(now);
        if let Some(reason) = self.obstacle(flow, packet) {
            return Err(self.reject(flow, packet, reason));
        }
        let full = RejectReason::Full { limits: self.limits };
        let before = Scheduler::backlog(self);
        let fits = |held: Backlog| {
            u64::from(held.packets) < self.limits.packets.into()
                && u64::from(held.bytes) + u64::from(packet.len) <= self.limits.bytes.into()
        };
        let (fits_alone, fits) = (fits(Backlog::default()), fits(before));
        if !fits && (!fits_alone || self.scheduler.victim(&self.queues).is_none()) {
            return Err(self.reject(flow, packet, full));
        }
        self.queues[flow.index()].push_back(QueuedPacket { flow, packet });
        if self.queues[flow.index()].len() == 1 {
            self.scheduler.backlogged(flow, packet.len);
        }
        self.scheduler.settle(&self.queues);
        let mut victims = 0;
        while self.is_over() {
            let next = self.scheduler.victim(&self.queues);
            let next = next.expect("a scheduler with a victim had one before");
            if self.scheduler.gives_up(next.0) {
                let before = victims;
                while victims < MAX_VICTIMS.max(packet.len)
                    && let Some(first) = self.queues[next.0.index()].front()
                    && first.packet.handle != packet.handle
                {
                    let held = self.take(next.0, 0).expect("the first");
                    self.drop(held, DropReason::Unserved, drops);
                    victims += 1;
                }
                if victims > before {
                    continue;
                }
            }
            let held = self.take_from(next.0, next.1).expect("a victim holds packets");
            if held.packet.handle == packet.handle {
                return Err(self.reject(flow, packet, full));
            }
            self.drop(held, DropReason::Overflow, drops);
            victims += 1;
        }
        self.accepted(flow, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Option<Packet> {
        self.scheduler.advance(now);
        self.scheduler.open();
        let queue = self.scheduler.select(&self.queues)?;
        let held = self.queues[queue.index()].pop_front().expect("a selected flow holds packets");
        self.scheduler.served(queue, held.packet.len, self.head_len(queue));
        self.scheduler.settle(&self.queues);
        self.total.delivered.add(held.packet.len);
        if let Some(record) = self.records.get_mut(held.flow.index()) {
            record.delivered.add(held.packet.len);
        }
        Some(held.packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        let due = || self.first().filter(|_| self.scheduler.opens_at(now) == Some(now));
        let queue = self.scheduler.select(&self.queues).or_else(due)?;
        self.queues[queue.index()].front().map(|held| held.packet)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.everything().next()?;
        if self.scheduler.select(&self.queues).is_some() {
            Some(now)
        } else {
            self.scheduler.opens_at(now)
        }
    }

    fn books(&self) -> Books {
        let backlog = backlog_of(self.everything());
        Books { backlog, counters: self.total, limits: self.limits }
    }

    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        self.records.get(flow.index()).copied()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.limits = clamped(limits);
        self.scheduler.limits_changed(self.limits, &self.queues);
        while self.is_over() {
            let (queue, end) = match self.scheduler.victim(&self.queues) {
                Some(victim) => victim,
                None => (self.first().expect("backlogged"), DropFrom::Head),
            };
            let held = self.take_from(queue, end).expect("a victim holds packets");
            self.drop(held, DropReason::LimitLowered, drops);
        }
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        // Drops as on an overflow; where an arrival would be rejected, drops the next packet to be
        // sent.
        let next = self.first().map(|queue| (queue, DropFrom::Head));
        let Some((queue, end)) = self.scheduler.victim(&self.queues).or(next) else { return false };
        let held = self.take_from(queue, end).expect("a victim holds packets");
        self.drop(held, DropReason::Overflow, drops);
        true
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while let Some(queue) = self.first() {
            while let Some(held) = self.take(queue, 0) {
                self.drop(held, DropReason::Drained, drops);
            }
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Ok(()) // nothing is counted twice
    }
}

impl<O: NaiveFlowScheduler> ConfigurableScheduler for NaiveQueues<O> {
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        let flows = self.flows();
        if flow.0 >= flows {
            return Err(ConfigError::UnknownFlow { flow, flows });
        }
        let head_len = self.head_len(flow);
        self.scheduler.configure(flow, setting, head_len)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        while let Some(held) = self.take_from(flow, DropFrom::Head) {
            self.drop(held, DropReason::FlowRemoved, drops);
        }
        self.scheduler.remove(flow);
    }

    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        let place = self.queues.get(flow.index()).and_then(|queue| {
            usize::try_from(younger).ok().and_then(|younger| queue.len().checked_sub(younger + 1))
        });
        let held = place.and_then(|place| self.take(flow, place));
        let found = held.is_some();
        if let Some(held) = held {
            self.drop(held, DropReason::Filtered, drops);
        }
        Some(found)
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.scheduler.setting(flow)
    }
}

/// Returns limits in the form in which they are read back.
pub(super) fn clamped(limits: Limits) -> Limits {
    Limits { bytes: limits.bytes.min(Limits::MAX_BYTES), ..limits }
}

pub(super) fn backlog_of<'a>(packets: impl Iterator<Item = &'a QueuedPacket>) -> Backlog {
    packets.fold(Backlog::default(), |sum, held| Backlog {
        packets: sum.packets + 1,
        bytes: sum.bytes + held.packet.len,
    })
}

pub(super) fn raise(peak: &mut Backlog, held: Backlog) {
    peak.packets = peak.packets.max(held.packets);
    peak.bytes = peak.bytes.max(held.bytes);
}
