//! Which flow has which queue, where flows have no queue while they hold nothing.

use crate::flow_scheduler::{FlowScheduler, FlowState};
use crate::{FlowId, Imbalance};

/// Gives queues to flows, and is told when a queue is free again: a hash table of flows, tables of
/// their hosts.
///
/// [`FlowQueues`](crate::FlowQueues) holds it beside its flow scheduler `O` and tells it of each
/// queue that becomes empty, however it does. To find the queue of a packet is the business of the
/// assembled queue around both. No method has a default: a directory around another that forgot to
/// pass one on would compile.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowDirectory, FlowId, FlowQueues, FlowScheduler, FlowState, Imbalance, Limits,
///     Nanos, Packet, Queue, Scheduler,
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
/// let queues = FlowQueues::with_own_victim(
///     drr,
///     [Queue::EMPTY; 2],
///     [Descriptor::EMPTY; 8],
///     Limits::NONE,
/// );
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
    /// Queues are numbered below this; `None`: there are as many as the scheduler has flows.
    fn room(&self) -> Option<u32>;

    /// The queue of `flow` holds nothing any more, and the scheduler has been told. A second call
    /// changes nothing.
    fn emptied(&mut self, scheduler: &O, flow: FlowId);

    /// Compares the directory's books with `flows`, which says what a flow really holds. For tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, scheduler: &O, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// No directory: the number of a flow is that of its queue.
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
