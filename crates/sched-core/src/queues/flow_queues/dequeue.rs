//! Packets that leave: what the AQM says of the first of a queue, its delivery, and queues that
//! become empty.

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
    /// Books a mark that was set here on a packet of `flow`.
    #[cold]
    pub(super) fn count_mark(&mut self, flow: FlowId) {
        self.ledger.count(FlowRecord::mark);
        if let Some(record) = self.records.record_mut(&self.scheduler, flow) {
            record.mark();
        }
    }

    /// The rest of [`Scheduler::dequeue`], where the AQM has spoken.
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
        // A packet that came with a mark leaves as it came.
        if mark && packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.count_mark(flow);
        }
        Some(packet)
    }

    /// A service of `len` bytes has left nothing of `flow`.
    #[inline(always)]
    pub(super) fn close(&mut self, flow: FlowId, len: u32) {
        // A flow scheduler that counts bytes does for the last packet what it does for each: one
        // piece of code in line.
        if self.scheduler.needs().counts_bytes && size_of::<M::Directory>() == 0 {
            self.tell_idle(flow, len);
        } else {
            self.close_apart(flow, len);
        }
    }

    /// [`Self::close`], with registers of its own: packets that leave others behind do not pay for
    /// them.
    #[inline(never)]
    fn close_apart(&mut self, flow: FlowId, len: u32) {
        self.tell_idle(flow, len);
    }

    /// A service of `len` bytes has left nothing of `flow`.
    #[inline(always)]
    fn tell_idle(&mut self, flow: FlowId, len: u32) {
        self.scheduler.served(flow, len, None);
        self.directory.emptied(&self.scheduler, flow);
        // Last: what the drop policy has in a function of its own is jumped to then, and no
        // register is saved for what follows.
        self.policy.served(flow, len, 0);
    }

    /// The flow that is served where none is selected: all that are backlogged wait, or none is.
    #[cold]
    #[inline(never)]
    pub(super) fn open(&mut self) -> Option<FlowId> {
        if !self.scheduler.waits() {
            return None;
        }
        self.scheduler.open();
        self.scheduler.select()
    }

    /// The flow that is served next, now or later.
    pub(super) fn first(&self) -> Option<FlowId> {
        self.scheduler.select().or_else(|| self.scheduler.waiting())
    }

    /// What the AQM says of the packet at the head of the queue of `flow`, looking closely.
    fn judge(&mut self, now: Nanos, flow: FlowId) -> Verdict {
        let Some(queue) = self.queues.as_ref().get(flow.index()) else { return Verdict::Pass };
        let Some(descriptor) = self.descriptors.as_ref().get(queue.head() as usize) else {
            return Verdict::Pass;
        };
        let head = head_of(&self.scheduler, now, flow, descriptor, queue.backlog());
        look_closely(&mut self.aqm, flow, head)
    }

    /// Tells the sender of the packet at the head of the queue of `flow`, of which the AQM said
    /// `verdict`: marks the packet, or drops it and as many behind it as the AQM says, but never
    /// the last packet and at most [`Aqm::MAX_DROPS`]. Returns whether the packet that is at the
    /// head then is to be marked.
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

    /// What [`Self::signal`] would leave at the head of the queue of `flow`, and whether marked.
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

/// Books `len` bytes that were taken out of `queue`, which is that of `flow`, as delivered, and
/// tells flow scheduler and drop policy unless nothing is left: that is the business of
/// [`FlowQueues::close`], and then this returns true.
#[inline(always)]
pub(super) fn deliver<O: FlowScheduler, D: DropPolicy<O>>(
    (scheduler, policy): (&mut O, &mut D),
    ledger: &mut Ledger<impl Table<FlowRecord>>,
    queue: &mut Queue,
    descriptors: &[Descriptor],
    (flow, len): (FlowId, u32),
) -> bool {
    ledger.deliver(len);
    // Apart, so that whether anything is left is asked once.
    let Some(next_head) = queue.head_len(descriptors) else {
        queue.close();
        return true;
    };
    let left = queue.backlog().bytes;
    // The scheduler last: across what it has in functions of its own, fewer registers are kept.
    policy.served(flow, len, left);
    scheduler.served(flow, len, Some(next_head));
    false
}

/// Returns true if the AQM signals or drops the packet.
pub(super) const fn is_told(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Signal | Verdict::Drop)
}

/// Whether the sender of `packet` is told by a mark.
const fn is_marked(verdict: Verdict, packet: Packet) -> bool {
    matches!(verdict, Verdict::Signal) && packet.ecn.is_capable()
}

/// Returns the AQM's verdict on the packet in `descriptor`, first of `queue`, which is that of
/// `flow`: at a glance in line, and else in a function of its own.
#[inline(always)]
pub(super) fn verdict<A: Aqm>(
    (scheduler, aqm): (&impl FlowScheduler, &mut A),
    now: Nanos,
    flow: FlowId,
    descriptor: &Descriptor,
    queue: &Queue,
) -> Verdict {
    let head = || head_of(scheduler, now, flow, descriptor, queue.backlog());
    // A clock that stepped back is looked at closely: then a sojourn time is one here, and need not
    // be asked again.
    if size_of::<A>() == 0 || descriptor.has_sojourn(now) {
        let glance = aqm.judge(flow, head(), Look::Glance);
        if glance != Verdict::Unclear {
            return glance;
        }
    }
    // Made anew: a head that both looks share is written to memory for each packet.
    look_closely(aqm, flow, head())
}

/// Returns the AQM's verdict at a close look. A function of its own: its registers are saved only
/// here.
#[inline(never)]
fn look_closely(aqm: &mut impl Aqm, flow: FlowId, head: Head) -> Verdict {
    aqm.judge(flow, head, Look::Close)
}

/// Returns what the AQM is given of the packet in `descriptor`, first of the queue of `flow`, which
/// holds `held`. The time that it waited for a ceiling does not count.
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
