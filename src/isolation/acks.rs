//! Acknowledgements that come to an isolated queue with a filter.

use flowhash::Ack;
use sched_core::{Aqm, DropSink, FlowId, Nanos, Packet, Rejected, Scheduler};

use super::queue::Isolated;
use crate::ack_filter::{AckFilter, Acks};
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// As [`Self::enqueue_labelled`], of a packet that is the acknowledgement `ack`: then `filter`
    /// may drop one that waits in the same queue. `acks` reads packets that are queued.
    ///
    /// Cost beside that of the enqueue: up to [`AckFilter::REACH`] packets are read.
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`]; nothing is filtered then.
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

    /// Enqueues a packet by its labels, and says which queue it is in.
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

    /// [`AckFilter::superseded_in`], in the queue with this number.
    pub(crate) fn superseded_in(
        &self,
        queue: FlowId,
        newest: (Packet, &Ack),
        (filter, acks): (AckFilter, &(impl Acks + ?Sized)),
    ) -> Option<u32> {
        filter.superseded_in(&self.queues, queue, newest, acks)
    }

    /// Drops the packet that `younger` others came after, in the queue with this number.
    #[inline(never)]
    pub(crate) fn filter_out(&mut self, queue: FlowId, younger: u32, drops: &mut dyn DropSink) {
        self.queues.filter_out(queue, younger, drops);
    }
}
