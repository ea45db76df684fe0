//! Enqueuing acknowledgements with a filter into an isolated queue.

use flowhash::Ack;
use sched_core::{Aqm, DropSink, FlowId, Nanos, Packet, Rejected, Scheduler};

use super::queue::Isolated;
use crate::ack_filter::{AckFilter, Acks};
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Enqueues a packet with the acknowledgement `ack` and applies `filter`, which may drop a
    /// queued one in its queue. `acks` reads queued packets. Otherwise like
    /// [`Self::enqueue_labelled`].
    ///
    /// Cost in addition to the enqueue: reading up to [`AckFilter::REACH`] packets.
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`]; nothing is filtered then.
    pub fn enqueue_ack(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        (packet, ack): (Packet, &Ack),
        (filter, acks): (AckFilter, &(impl Acks + ?Sized)),
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let queue = self.enqueue_and_name(now, labels, packet, drops)?;
        if let Some(younger) = self.superseded_in(queue, (packet, ack), (filter, acks)) {
            self.filter_out(queue, younger, drops);
        }
        Ok(())
    }

    /// Enqueues a packet by its labels; returns its queue.
    #[inline(never)]
    pub(crate) fn enqueue_and_name(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<FlowId, Rejected> {
        let label = self.queues.scheduler().queue_label(labels);
        if let Some(queue) = self.queues.siblings().directory.queues.hit(label) {
            let queue = FlowId(queue);
            return self.queues.enqueue(now, queue, packet, drops).map(|()| queue);
        }
        let lookup = self.enqueue_claimed(now, label, labels, packet, drops)?;
        Ok(FlowId(lookup.queue))
    }

    /// Applies [`AckFilter::superseded_in`] to the queue with this number. Not inlined, so that its
    /// stack frame does not add to that of the enqueue.
    #[inline(never)]
    pub(crate) fn superseded_in(
        &self,
        queue: FlowId,
        newest: (Packet, &Ack),
        (filter, acks): (AckFilter, &(impl Acks + ?Sized)),
    ) -> Option<u32> {
        filter.superseded_in(&self.queues, queue, newest, acks)
    }

    /// Drops the packet behind which `younger` others are queued, in the queue with this number.
    #[inline(never)]
    pub(crate) fn filter_out(&mut self, queue: FlowId, younger: u32, drops: &mut dyn DropSink) {
        self.queues.filter_out(queue, younger, drops);
    }
}
