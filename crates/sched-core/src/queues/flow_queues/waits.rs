//! Sojourn times, for statistics.

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::{FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Returns how long the packet with this handle has been queued at `now`, to 1.024 µs. For a
    /// packet that has left, returns the time since its arrival, until the handle is queued again.
    /// So to fill a [`DelayHistogram`](crate::DelayHistogram), call this right after a dequeue,
    /// with the same `now`. Zero for a handle without a descriptor, after a step back of the clock,
    /// and above 9 minutes; meaningless for a handle that was never queued. Cost: O(1).
    ///
    /// ```
    /// use sched_core::{
    ///     DelayHistogram, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos, Packet, Queue,
    ///     Scheduler,
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
    /// assert!(
    ///     delays.longest() > Nanos::from_micros(4_998)
    ///         && delays.longest() < Nanos::from_micros(5_002)
    /// );
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn waited(&self, handle: u32, now: Nanos) -> Nanos {
        let descriptor = self.descriptors.as_ref().get(handle as usize);
        descriptor.map_or(Nanos::ZERO, |descriptor| descriptor.sojourn(now))
    }

    /// Returns the oldest packet of `flow` and its sojourn time at `now`; `None` if none is queued.
    /// Cost: O(1).
    #[must_use]
    pub fn oldest(&self, flow: FlowId, now: Nanos) -> Option<(Packet, Nanos)> {
        let handle = self.queues.as_ref().get(flow.index())?.head();
        let descriptor = self.descriptors.as_ref().get(handle as usize)?;
        Some((descriptor.packet(handle), descriptor.sojourn(now)))
    }
}
