//! Enqueue: everything that [`Scheduler::enqueue`](crate::Scheduler::enqueue) does beyond the fast
//! path into a backlogged queue.

use super::{FlowQueues, Tables, longest};
use crate::aqm::{Admission, Aqm, Look, Offer};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{FlowScheduler, Table};
use crate::queues::counters::{FlowRecord, FlowRecords, Ledger};
use crate::queues::queue::{Descriptor, Queue, is_acceptable, obstacle};
use crate::scheduler::{Backlog, DropSink, RejectReason, Rejected};
use crate::{Ecn, FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Counts a rejected packet; its flow may be unknown.
    fn count_rejected(&mut self, packet: Packet) {
        self.ledger.count(|all| all.rejected.add(packet.len));
    }

    /// Counts an accepted packet of `flow` that arrived with a mark.
    #[cold]
    pub(super) fn count_marked_arrival(&mut self, flow: FlowId) {
        self.ledger.count(FlowRecord::mark_came);
        if let Some(record) = self.records.record_mut(&self.scheduler, flow) {
            record.mark_came();
        }
    }

    /// Rejects `packet` with the first reason that applies.
    #[cold]
    fn reject(&mut self, flow: FlowId, packet: Packet) -> Rejected {
        let known = self.queues.as_ref().get(flow.index()).and(self.max_len(flow));
        let Some(max) = known else {
            self.count_rejected(packet);
            let reason = RejectReason::UnknownFlow { flow, flows: self.flows() };
            return Rejected { packet, reason };
        };
        let reason = obstacle(packet, max.min(Packet::MAX_LEN), self.descriptors.as_ref());
        let full = RejectReason::Full { limits: self.ledger.limits() };
        self.turn_away(flow, packet, reason.unwrap_or(full))
    }

    /// Rejects `packet`, which is acceptable, because the queue is full.
    #[cold]
    pub(super) fn reject_full(&mut self, flow: FlowId, packet: Packet) -> Rejected {
        self.aqm.overflowed(flow);
        self.turn_away(flow, packet, RejectReason::Full { limits: self.ledger.limits() })
    }

    /// Rejects `packet` of `flow`, which was added.
    #[cold]
    fn turn_away(&mut self, flow: FlowId, packet: Packet, reason: RejectReason) -> Rejected {
        self.count_rejected(packet);
        if let Some(record) = self.records.record_mut(&self.scheduler, flow) {
            record.rejected.add(packet.len);
        }
        Rejected { packet, reason }
    }

    /// Notifies the flow scheduler and the drop policy that `flow`, which was idle, holds `len`
    /// bytes. An outlined function for all callers but [`Self::enqueue_to_idle`].
    #[cold]
    #[inline(never)]
    pub(super) fn tell_backlogged(&mut self, flow: FlowId, len: u32) {
        self.scheduler.backlogged(flow, len);
        self.policy.backlogged(&self.scheduler, flow, len);
    }

    /// Appends `packet`, counts it as accepted and notifies the parts; `None` if there is no queue
    /// for it.
    pub(super) fn admit(&mut self, now: Nanos, flow: FlowId, packet: Packet) -> Option<()> {
        let descriptors = self.descriptors.as_mut();
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let was_idle = queue.is_empty();
        queue.append(descriptors, packet, now);
        let held = queue.backlog().bytes;
        self.ledger.accept(packet.len);
        if was_idle {
            self.tell_backlogged(flow, packet.len);
        } else {
            self.scheduler.grew(flow, packet.len);
            self.policy.grew(flow, packet.len, held);
        }
        Some(())
    }

    /// `Scheduler::enqueue` to a flow that is idle or does not exist. Inlined too, because every
    /// packet of intermittent traffic takes this path.
    #[inline(always)]
    pub(super) fn enqueue_to_idle(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let (descriptors, len) = (self.descriptors.as_mut(), packet.len);
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else {
            self.enqueue_slow(now, flow, parts_of(packet), drops)?;
            return Ok(());
        };
        if !is_acceptable(packet, descriptors)
            || !self.ledger.has_ready_place()
            || !takes(longest(&self.scheduler, &self.policy, flow), len)
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
        queue.append_first(descriptors, packet, now);
        self.ledger.accept(len);
        self.records.accept(&self.scheduler, flow, len, queue.backlog());
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        self.scheduler.backlogged(flow, len);
        self.policy.backlogged(&self.scheduler, flow, len);
        Ok(())
    }

    /// Slow path of `Scheduler::enqueue`: the flow does not exist, the backlog reaches a new
    /// peak, or the packet does not fit at once.
    #[inline(never)]
    pub(super) fn enqueue_slow(
        &mut self,
        now: Nanos,
        flow: FlowId,
        parts: Parts,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let packet = whole(parts);
        let descriptors = self.descriptors.as_mut();
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else {
            return Err(self.reject(flow, packet));
        };
        if !is_acceptable(packet, descriptors)
            || !takes(longest(&self.scheduler, &self.policy, flow), packet.len)
        {
            return Err(self.reject(flow, packet));
        }
        let offer = Offer { now, packet, held: queue.backlog() };
        let admission = self.aqm.admit(flow, offer, Look::Glance);
        if admission != Admission::Accept {
            return self.enqueue_asked(now, flow, parts_of(packet), admission, drops);
        }
        if !self.ledger.make_ready(packet.len) {
            return self.enqueue_crowded(now, flow, packet, packet.ecn, drops);
        }
        let held = append(queue, descriptors, &mut self.ledger, packet, now);
        self.tell_accepted(flow, packet, held);
        Ok(())
    }

    /// Slow path of `Scheduler::enqueue`, if the AQM's `glance` at an acceptable packet was not
    /// to accept it.
    #[cold]
    pub(super) fn enqueue_asked(
        &mut self,
        now: Nanos,
        flow: FlowId,
        parts: Parts,
        glance: Admission,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let (packet, mut admission) = (whole(parts), glance);
        if glance == Admission::Unclear {
            let offer = Offer { now, packet, held: self.flow_backlog(flow) };
            admission = self.aqm.admit(flow, offer, Look::Close);
        }
        let is_signalled = match admission {
            Admission::Accept | Admission::Unclear => false,
            Admission::Signal if packet.ecn.is_capable() => true,
            Admission::Signal | Admission::Refuse => {
                return Err(self.turn_away(flow, packet, RejectReason::Aqm));
            }
        };
        let ecn = if is_signalled { Ecn::Ce } else { packet.ecn };
        self.enqueue_admitted(now, flow, packet, ecn, drops)?;
        // A packet that arrived with a mark does not count as marked here.
        if packet.ecn != ecn {
            self.count_mark(flow);
        }
        Ok(())
    }

    /// Enqueues an acceptable packet that the AQM admitted, with the codepoint `ecn`.
    fn enqueue_admitted(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        ecn: Ecn,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if !self.ledger.make_ready(packet.len) {
            return self.enqueue_crowded(now, flow, packet, ecn, drops);
        }
        let descriptors = self.descriptors.as_mut();
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else {
            return Err(self.reject(flow, packet));
        };
        let held = append(queue, descriptors, &mut self.ledger, Packet { ecn, ..packet }, now);
        self.tell_accepted(flow, packet, held);
        Ok(())
    }

    /// Counts and notifies that `packet`, with its original codepoint, has been queued; `flow` now
    /// holds `queued`.
    #[inline(always)]
    fn tell_accepted(&mut self, flow: FlowId, packet: Packet, queued: Backlog) {
        self.records.accept(&self.scheduler, flow, packet.len, queued);
        let held = queued.bytes;
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        if held == packet.len {
            self.tell_backlogged(flow, packet.len);
        } else {
            self.scheduler.grew(flow, packet.len);
            self.policy.grew(flow, packet.len, held);
        }
    }

    /// [`Self::enqueue_admitted`] if the queue is full.
    #[cold]
    fn enqueue_crowded(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        ecn: Ecn,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let can_make_room = self.ledger.could_fit(packet.len) && self.victim().is_some();
        if !can_make_room || self.admit(now, flow, Packet { ecn, ..packet }).is_none() {
            return Err(self.reject_full(flow, packet));
        }
        self.make_room(flow, packet, drops)?;
        self.ledger.note_peak();
        let held = self.flow_backlog(flow);
        self.records.accept(&self.scheduler, flow, packet.len, held);
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        Ok(())
    }
}

/// A packet in parts: handle and length, and ECN. Passed to outlined functions in parts so that it
/// stays in registers; a whole `Packet` is spilled to memory even on the fast path (5 instructions
/// per packet).
pub(super) type Parts = ((u32, u32), Ecn);

#[inline(always)]
pub(super) const fn parts_of(Packet { handle, len, ecn }: Packet) -> Parts {
    ((handle, len), ecn)
}

const fn whole(((handle, len), ecn): Parts) -> Packet {
    Packet { handle, len, ecn }
}

/// Returns true if the flow was added and accepts a packet of `len` bytes.
#[inline]
pub(super) fn takes(max_len: Option<u32>, len: u32) -> bool {
    max_len.is_some_and(|max| len <= max)
}

/// Appends `packet`, which fits, to the queue of its flow and accounts it. Returns the new backlog
/// of the queue.
#[inline(always)]
fn append(
    queue: &mut Queue,
    descriptors: &mut [Descriptor],
    ledger: &mut Ledger<impl Table<FlowRecord>>,
    packet: Packet,
    now: Nanos,
) -> Backlog {
    queue.append(descriptors, packet, now);
    ledger.accept(packet.len);
    queue.backlog()
}

/// Notifies the flow scheduler and the drop policy of an accepted packet of `len` bytes, with which
/// `flow` holds `held`.
#[inline(always)]
pub(super) fn tell_grown<O: FlowScheduler>(
    scheduler: &mut O,
    policy: &mut impl DropPolicy<O>,
    flow: FlowId,
    (len, held): (u32, u32),
) -> Result<(), Rejected> {
    // Set first, so that no register has to be kept across the calls of the parts.
    let accepted = Ok(());
    scheduler.grew(flow, len);
    policy.grew(flow, len, held);
    accepted
}
