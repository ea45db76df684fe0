//! A common way to enqueue packets by their labels.

use flowhash::TagLine;
use sched_core::{
    Aqm, Descriptor, DropPolicy, DropSink, Fifo, FlowId, FlowQueues, FlowScheduler, Nanos, Packet,
    Rejected, Scheduler, Table, Tables,
};
use shaper::Shaped;

use crate::{HashDirectory, Hashed, Isolated, Labelled, Storage};

/// A scheduler that enqueues packets by their labels: flow and hosts.
///
/// Implemented for a FIFO, for queues found by hash and for isolated queues, with or without a
/// [`Shaped`] link. A packet that arrives at an empty queue behind a shaper ends its idle time, as
/// described for [`Shaped`].
///
/// **A bare flow label identifies no hosts.** [`Isolated`] is a [`Scheduler`] too, also behind a
/// [`Shaped`] link, but [`Scheduler::enqueue`] takes only a flow label and treats each flow as a
/// host of its own: a host could then get a larger share by opening more flows. Require this trait
/// where hosts must be isolated, and a call with only a flow does not compile:
///
/// ```compile_fail,E0277
/// use freeboard::LabelledScheduler;
/// use freeboard::sched_core::{FlowId, Nanos, Packet};
///
/// fn offer(queue: &mut impl LabelledScheduler, packet: Packet) {
///     let drops = &mut |_: Packet, _| {};
///     let _ = queue.enqueue_labelled(Nanos(0), &FlowId(7), packet, drops);
/// }
/// ```
///
/// ```
/// use freeboard::LabelledScheduler;
/// use freeboard::flowhash::Labels;
/// use freeboard::sched_core::{Descriptor, Fifo, Limits, Nanos, Packet, Scheduler};
/// use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
///
/// let fifo = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::packets(60));
/// let line = Shaper::new(Rate::megabits_per_second(1)?);
/// let mut uplink = Shaped::new(fifo, line, Overhead::ETHERNET);
///
/// let drops = &mut |packet: Packet, _why| println!("buffer {} is free again", packet.handle);
/// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
/// uplink.enqueue_labelled(Nanos(0), &labels, Packet::new(3, 1_500), drops)?;
/// assert!(uplink.dequeue(Nanos(0), drops).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LabelledScheduler: Scheduler {
    /// Enqueues `packet` with these labels at time `now`. Otherwise like [`Scheduler::enqueue`].
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`].
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;
}

/// Ends the idle time of the shaper, then enqueues into the scheduler inside.
impl<S: LabelledScheduler + ?Sized> LabelledScheduler for Shaped<S> {
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.is_ingress() {
            return self.arrive(now, drops, |inner, drops| {
                inner.enqueue_labelled(now, labels, packet, drops)
            });
        }
        self.arrival(now).enqueue_labelled(now, labels, packet, drops)
    }
}

/// Uses flow and hosts, as the isolation requires.
impl<S: Storage, A: Aqm> LabelledScheduler for Isolated<S, A> {
    #[inline(always)] // like `Scheduler::enqueue`
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_by_labels(now, labels, packet, drops)
    }
}

/// Uses the flow.
impl<O, M, A, D, L> LabelledScheduler for Hashed<FlowQueues<O, M, A, D>>
where
    O: FlowScheduler,
    M: Tables<O, Directory = HashDirectory<L>>,
    A: Aqm,
    D: DropPolicy<O>,
    L: Table<TagLine>,
{
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_hashed(now, labels.flow(), packet, drops).map(|_| ())
    }
}

/// Uses no label.
impl<S: Table<Descriptor>> LabelledScheduler for Fifo<S> {
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        _labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue(now, FlowId(0), packet, drops)
    }
}

/// Forwards to the referenced scheduler.
impl<S: LabelledScheduler + ?Sized> LabelledScheduler for &mut S {
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        (**self).enqueue_labelled(now, labels, packet, drops)
    }
}
