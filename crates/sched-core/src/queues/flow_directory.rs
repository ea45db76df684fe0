//! Directories that map flows to queues, where idle flows have no queue.

use crate::flow_scheduler::{FlowScheduler, FlowState};
use crate::{FlowId, Imbalance};

/// Assigns queues to flows and is notified when a queue becomes empty, for example a hash table of
/// flows with tables of their hosts.
///
/// [`FlowQueues`](crate::FlowQueues) holds it next to its flow scheduler `O` and notifies it of
/// each queue that becomes empty, for whatever reason. Looking up the queue of a packet is left to
/// the code that contains both. No method has a default, so that a wrapper that forgets to forward
/// one does not compile.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowDirectory, FlowId, FlowQueues, FlowScheduler, FlowState,
///     Imbalance, Limits, Nanos, Packet, Queue, Scheduler,
/// };
///
/// /// The queues that were emptied, in order.
/// struct Emptied(Vec<FlowId>);
///
/// impl<O: FlowScheduler> FlowDirectory<O> for Emptied {
///     fn room(&self) -> Option<u32> {
///         None
///     }
///     fn emptied(&mut self, _: &O, flow: FlowId) {
///         self.0.push(flow);
///     }
///     fn recount(&self, _: &O, _: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
///         Ok(())
///     }
/// }
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let queues =
///     FlowQueues::with_own_victim(drr, [Queue::EMPTY; 2], [Descriptor::EMPTY; 8], Limits::NONE);
/// let mut queues = queues.with_directory(Emptied(Vec::new()));
/// let drops = &mut |_: Packet, _why| ();
/// for (handle, flow) in [(0, 0), (1, 1), (2, 0)] {
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// while queues.dequeue(Nanos(0), drops).is_some() {}
/// assert_eq!(queues.directory().0, [FlowId(1), FlowId(0)]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait FlowDirectory<O: FlowScheduler + ?Sized> {
    /// Returns the number of queues; valid numbers are below it. `None`: as many as the scheduler
    /// has flows.
    fn room(&self) -> Option<u32>;

    /// Notifies that the queue of `flow` has become empty. The scheduler has already been notified.
    /// A second call changes nothing.
    fn emptied(&mut self, scheduler: &O, flow: FlowId);

    /// Compares the directory's accounting with `flows`, which returns what a flow really holds.
    /// For tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// No directory: a flow and its queue have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoDirectory;

impl<O: FlowScheduler + ?Sized> FlowDirectory<O> for NoDirectory {
    #[inline]
    fn room(&self) -> Option<u32> {
        None
    }

    #[inline]
    fn emptied(&mut self, _scheduler: &O, _flow: FlowId) {}

    fn recount(
        &self,
        _scheduler: &O,
        _flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        Ok(())
    }
}
