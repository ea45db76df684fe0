//! One way in for queues that are told a packet's labels.

use flowhash::TagLine;
use sched_core::{
    Aqm, Descriptor, DropPolicy, DropSink, Fifo, FlowId, FlowQueues, FlowScheduler, Nanos, Packet,
    Rejected, Scheduler, Table, Tables,
};
use shaper::Shaped;

use crate::{HashDirectory, Hashed, Isolated, Labelled, Storage};

/// A scheduler that takes packets by their labels: flow and hosts.
///
/// This trait is the way into a FIFO, into queues found by hash and into isolated queues, each
/// behind a [`Shaped`] line or not. When a packet finds the queue empty, a line is told that the
/// time until then was idle, as [`Shaped`] says. Isolated queues are told the hosts.
///
/// **A bare label knows no hosts.** [`Isolated`] is a [`Scheduler`] as well, also behind a
/// [`Shaped`] line. Its [`Scheduler::enqueue`] takes a label of the flow only, and makes each flow
/// a host of its own: what a host gets then grows with the flows that it opens. Ask for this trait
/// where hosts are to be isolated, and a call that names a flow only does not compile:
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
/// use freeboard::sched_core::{Fifo, Limits, Nanos, Packet, Scheduler, Descriptor};
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
    /// Takes `packet`, which has these labels, at instant `now`; as [`Scheduler::enqueue`].
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`].
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;
}

/// The line is told of time that was idle; then the scheduler inside takes the packet.
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

/// By flow and hosts, as the isolation asks.
impl<S: Storage, A: Aqm> LabelledScheduler for Isolated<S, A> {
    #[inline(always)] // as the enqueue of a scheduler
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

/// By flow.
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

/// A FIFO looks at no label.
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

/// A reference is the way in to what it refers to.
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
