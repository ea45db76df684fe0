//! A scheduler that measures its own fairness.

use super::{Arrival, WfiFlow, WfiMeter};
use freeboard::sched_core::{
    DropReason, DropSink, FlowId, Limits, Nanos, Packet, Rejected, Scheduler, Table,
};

/// The scheduler `S` with a [`WfiMeter`] of its flows in the memory `N`. `P` stores the [`Arrival`]
/// of each packet by its handle and needs an entry for every handle. Flows beyond the table of the
/// meter are served but not measured.
///
/// The meter does not see the wire: a packet that arrives while another is sent is measured as if
/// it had arrived at the worst time ([`WfiMeter`]). A dequeue that returns nothing means that
/// everything is sent. Cost: O(1) per packet.
///
/// ```
/// use conformance::wfi::{Arrival, Metered, WfiFlow, WfiMeter};
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos, Packet, Queue, Scheduler,
/// };
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let queues =
///     FlowQueues::with_own_victim(drr, [Queue::EMPTY; 2], [Descriptor::EMPTY; 8], Limits::NONE);
/// let meter = WfiMeter::new([WfiFlow::EMPTY; 2]);
/// let mut metered = Metered::new(queues, meter, [Arrival::EMPTY; 8]);
/// for flow in [FlowId(0), FlowId(1)] {
///     let guarantee = metered.inner().scheduler().guarantee(flow).expect("was added");
///     metered.meter_mut().add(flow, guarantee.share)?;
/// }
/// let drops = &mut |_: Packet, _| unreachable!("nothing is dropped");
/// for handle in 0..8 {
///     metered.enqueue(Nanos(0), FlowId(handle % 2), Packet::new(handle, 1_500), drops)?;
/// }
/// while metered.dequeue(Nanos(0), drops).is_some() {}
/// for flow in [FlowId(0), FlowId(1)] {
///     let guarantee = metered.inner().scheduler().guarantee(flow).expect("was added");
///     let report = metered.meter().report(flow).expect("was added");
///     assert!(report.against(&guarantee).iter().all(|compared| compared.holds()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Metered<S, N, P> {
    inner: S,
    meter: WfiMeter<N>,
    arrivals: P,
}

impl<S, N: Table<WfiFlow>, P: Table<Arrival>> Metered<S, N, P> {
    /// Creates a measured scheduler from `inner`, which is empty, and `meter`, which has not
    /// recorded a packet.
    #[must_use]
    pub fn new(inner: S, meter: WfiMeter<N>, mut arrivals: P) -> Self {
        arrivals.as_mut().fill(Arrival::NONE);
        Self { inner, meter, arrivals }
    }

    /// Returns the scheduler.
    #[must_use]
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Changes the scheduler by its own methods, such as adding or removing flows. Packets dropped
    /// by this have to go to the sink passed to `change`.
    pub fn change<T>(
        &mut self,
        drops: &mut dyn DropSink,
        change: impl FnOnce(&mut S, &mut dyn DropSink) -> T,
    ) -> T {
        let (inner, mut watched) = self.watched(drops);
        change(inner, &mut watched)
    }

    /// Returns the scheduler, and a sink that informs the meter.
    fn watched<'a>(&'a mut self, drops: &'a mut dyn DropSink) -> (&'a mut S, Watched<'a, N>) {
        let Self { inner, meter, arrivals } = self;
        (inner, Watched { meter, arrivals: (*arrivals).as_ref(), drops })
    }

    /// Returns the meter.
    #[must_use]
    pub const fn meter(&self) -> &WfiMeter<N> {
        &self.meter
    }

    /// Returns the meter, to select the flows to measure and to report how much of a packet is
    /// sent. Packets are reported by this scheduler.
    pub const fn meter_mut(&mut self) -> &mut WfiMeter<N> {
        &mut self.meter
    }
}

/// A sink that reports drops to the meter and passes them on to the caller's sink.
struct Watched<'a, N> {
    meter: &'a mut WfiMeter<N>,
    arrivals: &'a [Arrival],
    drops: &'a mut dyn DropSink,
}

impl<N: Table<WfiFlow>> DropSink for Watched<'_, N> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        if let Some(arrival) = self.arrivals.get(packet.handle as usize) {
            self.meter.lost(arrival.flow(), packet.len);
        }
        self.drops.dropped(packet, reason);
    }
}

impl<S: Scheduler, N: Table<WfiFlow>, P: Table<Arrival>> Scheduler for Metered<S, N, P> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        // Reported before any packet is dropped for this one, in the order in which the flow
        // scheduler sees it.
        let arrival = self.meter.arrived(flow, packet.len);
        let (inner, mut watched) = self.watched(drops);
        let outcome = inner.enqueue(now, flow, packet, &mut watched);
        match outcome {
            Ok(()) => {
                if let Some(place) = self.arrivals.as_mut().get_mut(packet.handle as usize) {
                    *place = arrival;
                }
            }
            Err(_) => self.meter.lost(flow, packet.len),
        }
        outcome
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let (inner, mut watched) = self.watched(drops);
        let next = inner.dequeue(now, &mut watched);
        match next {
            Some(packet) => {
                let arrival = self.arrivals.as_ref().get(packet.handle as usize);
                self.meter.dequeued(arrival.copied().unwrap_or(Arrival::NONE), packet.len);
            }
            None => self.meter.transmitted(u32::MAX),
        }
        next
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.inner.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.inner.poll_at(now)
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        let (inner, mut watched) = self.watched(drops);
        inner.set_limits(limits, &mut watched);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let (inner, mut watched) = self.watched(drops);
        inner.evict(&mut watched)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        let (inner, mut watched) = self.watched(drops);
        inner.drain(&mut watched);
    }

    crate::forward_books!(inner);
}
