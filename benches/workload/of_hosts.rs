//! An isolated queue whose flows share hosts.

use freeboard::flowhash::Labels;
use freeboard::sched_core::{
    Backlog, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, Rejected, Scheduler,
};
use freeboard::{Labelled, LabelledScheduler};

/// The queue `S`, where the low bits of a flow's hash say its hosts.
#[derive(Debug)]
pub(crate) struct OfHosts<S> {
    pub(crate) queue: S,
    /// A power of two, less one.
    pub(crate) mask: u32,
}

impl<S: LabelledScheduler + Scheduler> Scheduler for OfHosts<S> {
    #[inline]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        // Spread over all bits, as labels have to be.
        let host = (flow.0 & self.mask).wrapping_mul(0x9e37_79b9);
        let labels = Labels { flow: flow.0, src_host: host, dst_host: host };
        self.queue.enqueue_labelled(now, &labels as &dyn Labelled, packet, drops)
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.queue.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.poll_at(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }

    fn flow_counters(&self, _flow: FlowId) -> Option<Counters> {
        None
    }

    fn limits(&self) -> Limits {
        self.queue.limits()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.queue.set_limits(limits, drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.queue.evict(drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.queue.drain(drops);
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.queue.recount()
    }
}
