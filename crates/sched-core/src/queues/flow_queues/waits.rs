//! How long packets have waited: for a reader, and to be counted as they leave.

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::{FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// How long the packet with this handle has waited at `now`, to 1.024 µs, if it is queued; if
    /// it left, how long it has been since it came, until the handle is queued again. So the wait
    /// of a packet that was just dequeued is asked with the `now` at which it was, for a
    /// [`DelayHistogram`](crate::DelayHistogram). Zero for a handle without a descriptor, for a
    /// clock that stepped back, and above 9 minutes; of a handle that was never queued it says
    /// nothing. Cost: O(1).
    ///
    /// ```
    /// use sched_core::{
    ///     DelayHistogram, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos, Packet, Queue, Scheduler,
    /// };
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 1], 1_500)?;
    /// drr.add_all(1_500)?;
    /// let (queues, packets) = ([Queue::EMPTY; 1], [Descriptor::EMPTY; 8]);
    /// let mut queues = FlowQueues::with_own_victim(drr, queues, packets, Limits::packets(8));
    /// let mut delays = DelayHistogram::new();
    ///
    /// let drops = &mut |_: Packet, _why| ();
    /// queues.enqueue(Nanos(0), FlowId(0), Packet::new(3, 1_500), drops)?;
    /// let now = Nanos::from_millis(5);
    /// if let Some(packet) = queues.dequeue(now, drops) {
    ///     delays.add(queues.waited(packet.handle, now));
    /// }
    /// assert_eq!(delays.count(), 1);
    /// assert!(delays.longest() > Nanos::from_micros(4_998) && delays.longest() < Nanos::from_micros(5_002));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn waited(&self, handle: u32, now: Nanos) -> Nanos {
        let descriptor = self.descriptors.as_ref().get(handle as usize);
        descriptor.map_or(Nanos::ZERO, |descriptor| descriptor.sojourn(now))
    }

    /// The oldest packet of `flow`, and how long it has waited at `now`; `None` if nothing of it is
    /// queued. Cost: O(1).
    #[must_use]
    pub fn oldest(&self, flow: FlowId, now: Nanos) -> Option<(Packet, Nanos)> {
        let handle = self.queues.as_ref().get(flow.index())?.head();
        let descriptor = self.descriptors.as_ref().get(handle as usize)?;
        Some((descriptor.packet(handle), descriptor.sojourn(now)))
    }
}
