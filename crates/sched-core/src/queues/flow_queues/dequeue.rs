//! Dequeue: the AQM's verdict on the head of a queue, its delivery, and queues that become empty.

use super::{FlowQueues, PACED_ROUNDS, Tables};
use crate::aqm::{Aqm, Head, Look, Verdict};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{DropFrom, FlowScheduler, Table};
use crate::queues::counters::{FlowRecord, FlowRecords, Ledger};
use crate::queues::flow_directory::FlowDirectory;
use crate::queues::queue::{Descriptor, Queue};
use crate::scheduler::{Backlog, DropReason, DropSink};
use crate::{Ecn, FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Counts a mark that was set here on a packet of `flow`.
    #[cold]
    pub(super) fn count_mark(&mut self, flow: FlowId) {
        self.ledger.count(FlowRecord::mark);
        if let Some(record) = self.records.record_mut(&self.scheduler, flow) {
            record.mark();
        }
    }

    /// Slow path of `Scheduler::dequeue`, if the AQM marks or drops the packet.
    #[cold]
    pub(super) fn deliver_signalled(
        &mut self,
        now: Nanos,
        flow: FlowId,
        verdict: Verdict,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        let mark = self.signal(now, flow, verdict, drops);
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let descriptors = self.descriptors.as_mut();
        let mut packet = queue.pop_head(descriptors)?;
        let (next_head, left) = (queue.head_len(descriptors), queue.backlog().bytes);
        self.scheduler.served(flow, packet.len, next_head);
        self.policy.served(flow, packet.len, left);
        if next_head.is_none() {
            self.directory.emptied(&self.scheduler, flow);
        }
        self.ledger.deliver(packet.len);
        // A packet that arrived with a mark does not count as marked here.
        if mark && packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.count_mark(flow);
        }
        Some(packet)
    }

    /// Notifies the parts that `flow` is idle after a service of `len` bytes.
    #[inline(always)]
    pub(super) fn close(&mut self, flow: FlowId, len: u32) {
        // A flow scheduler that counts bytes handles the last packet like any other, so its code is
        // inlined once.
        if self.scheduler.needs().counts_bytes && size_of::<M::Directory>() == 0 {
            self.tell_idle(flow, len);
        } else {
            self.close_apart(flow, len);
        }
    }

    /// Out-of-line [`Self::close`], so that packets that leave others behind do not pay for its
    /// registers.
    #[inline(never)]
    fn close_apart(&mut self, flow: FlowId, len: u32) {
        self.tell_idle(flow, len);
    }

    /// Notifies the parts that `flow` is idle after a service of `len` bytes.
    #[inline(always)]
    fn tell_idle(&mut self, flow: FlowId, len: u32) {
        self.scheduler.served(flow, len, None);
        self.directory.emptied(&self.scheduler, flow);
        // Last, so that an outlined part of the drop policy becomes a tail call and no register has
        // to be saved.
        self.policy.served(flow, len, 0);
    }

    /// Makes a waiting flow eligible and returns it, where none is selected: all backlogged flows
    /// wait, or none is backlogged.
    #[cold]
    #[inline(never)]
    pub(super) fn open(&mut self) -> Option<FlowId> {
        if !self.scheduler.waits() {
            return None;
        }
        self.scheduler.open();
        self.scheduler.select()
    }

    /// Returns the flow that is served next, now or later.
    pub(super) fn first(&self) -> Option<FlowId> {
        self.scheduler.select().or_else(|| self.scheduler.waiting())
    }

    /// Returns the AQM's close verdict on the packet at the head of the queue of `flow`.
    fn judge(&mut self, now: Nanos, flow: FlowId) -> Verdict {
        let Some(queue) = self.queues.as_ref().get(flow.index()) else { return Verdict::Pass };
        let Some(descriptor) = self.descriptors.as_ref().get(queue.head() as usize) else {
            return Verdict::Pass;
        };
        let head = head_of(&self.scheduler, now, flow, descriptor, queue.backlog());
        look_closely(&mut self.aqm, flow, head)
    }

    /// Applies the AQM's `verdict` on the packet at the head of the queue of `flow`: marks the
    /// packet, or drops it and as many behind it as the AQM decides, but never the last packet and
    /// at most [`Aqm::MAX_DROPS`]. Returns true if the packet that is now at the head must be
    /// marked.
    fn signal(
        &mut self,
        now: Nanos,
        flow: FlowId,
        mut verdict: Verdict,
        drops: &mut dyn DropSink,
    ) -> bool {
        let mut dropped = 0;
        loop {
            crate::steps::step();
            let Some(queue) = self.queues.as_ref().get(flow.index()) else { return false };
            let Some(descriptor) = self.descriptors.as_ref().get(queue.head() as usize) else {
                return false;
            };
            if is_marked(verdict, descriptor.packet(queue.head())) {
                return true;
            }
            if queue.backlog().packets == 1 || dropped == A::MAX_DROPS {
                return false;
            }
            let Some(packet) = self.take(flow, DropFrom::Head) else { return false };
            self.book_drop(flow, packet, DropReason::Aqm, drops);
            dropped += 1;
            verdict = self.judge(now, flow);
            if !is_told(verdict) {
                return false;
            }
        }
    }

    /// Returns the packet that [`Self::signal`] would leave at the head of the queue of `flow`,
    /// with its mark.
    pub(super) fn foresee(&self, now: Nanos, flow: FlowId) -> Option<Packet> {
        let queue = self.queues.as_ref().get(flow.index())?;
        let descriptors = self.descriptors.as_ref();
        let mut here = queue.head();
        let mut descriptor = descriptors.get(here as usize)?;
        let mut judge = self.aqm.foresee(flow);
        let mut held = queue.backlog();
        for dropped in 0..=A::MAX_DROPS {
            let packet = descriptor.packet(here);
            let verdict = judge(head_of(&self.scheduler, now, flow, descriptor, held));
            if !is_told(verdict) {
                break;
            }
            if is_marked(verdict, packet) {
                return Some(Packet { ecn: Ecn::Ce, ..packet });
            }
            if held.packets == 1 || dropped == A::MAX_DROPS {
                break;
            }
            held.packets = held.packets.wrapping_sub(1);
            held.bytes = held.bytes.wrapping_sub(packet.len);
            here = descriptor.next();
            descriptor = descriptors.get(here as usize)?;
        }
        Some(descriptor.packet(here))
    }
}

/// Accounts `len` bytes taken out of `queue`, the queue of `flow`, as delivered, and notifies flow
/// scheduler and drop policy. Returns true, without notifying them, if the queue is now empty: then
/// [`FlowQueues::close`] must follow.
#[inline(always)]
pub(super) fn deliver<O: FlowScheduler, D: DropPolicy<O>>(
    (scheduler, policy): (&mut O, &mut D),
    ledger: &mut Ledger<impl Table<FlowRecord>>,
    queue: &mut Queue,
    descriptors: &[Descriptor],
    (flow, len): (FlowId, u32),
) -> bool {
    ledger.deliver(len);
    // An early return, so that emptiness is tested only once.
    let Some(next_head) = queue.head_len(descriptors) else {
        queue.close();
        return true;
    };
    let left = queue.backlog().bytes;
    // The scheduler last: fewer registers are kept across its outlined functions.
    policy.served(flow, len, left);
    scheduler.served(flow, len, Some(next_head));
    false
}

/// Returns true if the AQM signals or drops the packet.
pub(super) const fn is_told(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Signal | Verdict::Drop)
}

/// Returns true if congestion is signalled to the sender of `packet` by a mark.
const fn is_marked(verdict: Verdict, packet: Packet) -> bool {
    matches!(verdict, Verdict::Signal) && packet.ecn.is_capable()
}

/// Returns the AQM's verdict on the packet in `descriptor`, the first of `queue`, the queue of
/// `flow`. The glance is inlined; the close look is a function of its own.
#[inline(always)]
pub(super) fn verdict<A: Aqm>(
    (scheduler, aqm): (&impl FlowScheduler, &mut A),
    now: Nanos,
    flow: FlowId,
    descriptor: &Descriptor,
    queue: &Queue,
) -> Verdict {
    let head = || head_of(scheduler, now, flow, descriptor, queue.backlog());
    // After a step back of the clock the AQM looks closely, so at a glance the sojourn time is
    // valid and need not be checked again.
    if size_of::<A>() == 0 || descriptor.has_sojourn(now) {
        let glance = aqm.judge(flow, head(), Look::Glance);
        if glance != Verdict::Unclear {
            return glance;
        }
    }
    // Built again: a `Head` shared by both looks would be written to memory for each packet.
    look_closely(aqm, flow, head())
}

/// Returns the AQM's close verdict. A function of its own, so that registers are saved only here.
#[inline(never)]
fn look_closely(aqm: &mut impl Aqm, flow: FlowId, head: Head) -> Verdict {
    aqm.judge(flow, head, Look::Close)
}

/// Builds the AQM's view of the packet in `descriptor`, the first of the queue of `flow`, which
/// holds `held`. Time spent waiting for a ceiling does not count.
#[inline(always)]
fn head_of(
    scheduler: &impl FlowScheduler,
    now: Nanos,
    flow: FlowId,
    descriptor: &Descriptor,
    held: Backlog,
) -> Head {
    let waited = descriptor.sojourn(now);
    let sojourn = match scheduler.pace(flow) {
        Nanos::ZERO => waited,
        Nanos(pace) => Nanos(waited.0.saturating_sub(pace.saturating_mul(PACED_ROUNDS))),
    };
    Head {
        now,
        sojourn,
        bytes_behind: held.bytes.wrapping_sub(descriptor.len()),
        packets: held.packets,
        ecn: descriptor.ecn(),
    }
}
