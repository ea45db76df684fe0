//! The [`Scheduler`] implementation. Inlined is the fast path of every packet; the rest is in
//! functions of their own.

use super::dequeue::{deliver, is_told, verdict};
use super::enqueue::{parts_of, takes, tell_grown};
use super::touch::CHUNK;
use super::{FlowQueues, Tables};
use crate::aqm::{Admission, Aqm, Look, Offer};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{FlowScheduler, FlowState};
use crate::queues::counters::{Counters, FlowRecords};
use crate::queues::flow_directory::FlowDirectory;
use crate::queues::queue::{Queue, is_free, is_length};
use crate::scheduler::{
    Backlog, Books, DropReason, DropSink, Imbalance, Limits, Rejected, Scheduler,
};
use crate::{Ecn, FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> Scheduler
    for FlowQueues<O, M, A, D>
{
    #[inline(always)]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.scheduler.advance(now);
        // Inlined is the case that the packet fits at once.
        let (descriptors, len) = (self.descriptors.as_mut(), packet.len);
        let queue = self.queues.as_mut().get_mut(flow.index());
        let standing =
            queue.and_then(|queue| queue.tail_among(descriptors).map(|tail| (queue, tail)));
        let Some((queue, tail)) = standing else {
            return self.enqueue_to_idle(now, flow, packet, drops);
        };
        // A backlogged flow was added. Most lengths are within the common maximum, and then no
        // other limit is checked.
        let common = self.scheduler.needs().common_max_len;
        let is_long =
            || is_length(len, Packet::MAX_LEN) && takes(self.scheduler.max_len(flow), len);
        if !is_free(packet.handle, descriptors)
            || !self.ledger.has_ready_place()
            || !(is_length(len, common) || is_long())
            || !self.ledger.has_ready_bytes(len)
        {
            self.enqueue_slow(now, flow, parts_of(packet), drops)?;
            return Ok(());
        }
        let offer = Offer { now, packet, held: queue.backlog() };
        let admission = self.aqm.admit(flow, offer, Look::Glance);
        if admission != Admission::Accept {
            self.enqueue_asked(now, flow, parts_of(packet), admission, drops)?;
            return Ok(());
        }
        queue.append_behind(tail, descriptors, packet, now);
        let held = queue.backlog().bytes;
        self.ledger.accept(len);
        self.records.accept(&self.scheduler, flow, len, queue.backlog());
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        tell_grown(&mut self.scheduler, &mut self.policy, flow, (len, held))
    }

    #[inline(always)]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.scheduler.advance(now);
        let flow = match self.scheduler.select() {
            Some(flow) => flow,
            None => self.open()?,
        };
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let descriptors = self.descriptors.as_mut();
        let descriptor = descriptors.get_mut(queue.head() as usize)?;
        let parts = (&self.scheduler, &mut self.aqm);
        let verdict = verdict(parts, now, flow, descriptor, queue);
        if is_told(verdict) {
            // In parts: a packet returned as a whole would be spilled to memory on the inlined path
            // too.
            let Packet { handle, len, ecn } = self.deliver_signalled(now, flow, verdict, drops)?;
            return Some(Packet { handle, len, ecn });
        }
        let parts = (&mut self.scheduler, &mut self.policy);
        let packet = queue.take(descriptor);
        let is_last = deliver(parts, &mut self.ledger, queue, descriptors, (flow, packet.len));
        let delivered = Some(packet);
        if is_last {
            self.close(flow, packet.len);
        }
        delivered
    }

    #[inline(never)] // once per burst, with its own registers
    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut accepted = 0;
        for chunk in burst.chunks(CHUNK) {
            self.touch_arrivals(chunk, |_, flow| Some(flow));
            for &(flow, packet) in chunk {
                match self.enqueue(now, flow, packet, drops) {
                    Ok(()) => accepted += 1,
                    Err(rejected) => drops.dropped(rejected.packet, DropReason::Rejected),
                }
            }
        }
        accepted
    }

    #[inline(never)] // once per burst, with its own registers
    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        let mut filled = 0;
        for chunk in out.chunks_mut(CHUNK) {
            self.touch_departures();
            let left = self.dequeue_chunk(now, chunk, drops);
            filled += left;
            if left < chunk.len() {
                break;
            }
        }
        filled
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        let due = || self.scheduler.waiting().filter(|_| self.scheduler.opens_at(now) == Some(now));
        self.foresee(now, self.scheduler.select().or_else(due)?)
    }

    /// Later than `now` if all backlogged flows wait because of their ceilings.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.ledger.backlog().packets == 0 {
            return None;
        }
        if !self.scheduler.waits() || self.scheduler.select().is_some() {
            return Some(now);
        }
        self.scheduler.opens_at(now)
    }

    #[inline]
    fn waits(&self) -> bool {
        self.scheduler.waits()
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

    /// Available for the first flows that have a record; kept while a flow is removed and added
    /// again.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let record = self.records.record(flow)?;
        Some(record.counters(self.flow_backlog(flow)))
    }

    /// If the drop policy has no victim, the packet that would be served next is dropped.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        let limits = self.ledger.limits();
        self.policy.limits_changed(super::reachable(limits, self.descriptors.as_ref()));
        while self.ledger.is_over() && self.give_way(DropReason::LimitLowered, drops) {}
    }

    /// If the drop policy has no victim, the packet that would be served next is dropped.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while let Some(flow) = self.first() {
            let before = self.flow_backlog(flow);
            self.drop_all(flow, DropReason::Drained, drops);
            if before.packets == 0 {
                break; // only a faulty flow scheduler selects an idle flow; `recount` reports it
            }
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let (queues, descriptors) = (self.queues.as_ref(), self.descriptors.as_ref());
        let (mut packets, mut bytes) = (0_u64, 0_u64);
        for (at, queue) in (0..).zip(queues) {
            packets += u64::from(queue.recount(at, descriptors)?);
            bytes += u64::from(queue.backlog().bytes);
            let known = self.max_len(FlowId(at)).is_some();
            Imbalance::check(
                "a flow that holds packets exists",
                at,
                1,
                (known || queue.is_empty()).into(),
            )?;
        }
        let used = descriptors.iter().filter(|descriptor| descriptor.is_used()).count();
        Imbalance::check("descriptors in use", 0, used as u64, packets)?;
        let held = self.ledger.backlog();
        Imbalance::check("packets queued", 0, held.packets.into(), packets)?;
        Imbalance::check("bytes queued", 0, held.bytes.into(), bytes)?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())?;
        let selects = self.first().is_some();
        Imbalance::check("backlog and selection", 0, (packets > 0).into(), selects.into())?;
        let flows = |flow: FlowId| {
            let queue = queues.get(flow.index()).copied().unwrap_or(Queue::IDLE);
            FlowState { backlog: queue.backlog(), head_len: queue.head_len(descriptors) }
        };
        self.scheduler.recount(&flows)?;
        self.policy.recount(&self.scheduler, &flows)?;
        self.directory.recount(&self.scheduler, &flows)
    }
}
