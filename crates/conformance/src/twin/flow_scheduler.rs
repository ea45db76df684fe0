//! Which flow is next, by looking at everything.

use std::collections::VecDeque;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Limits, Nanos, Packet};

use crate::history::Setting;

/// A queued packet and the flow it was offered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket {
    /// The flow.
    pub flow: FlowId,
    /// The packet.
    pub packet: Packet,
}

/// All queues, by the number the flow scheduler knows them by.
pub type QueuesView<'a> = &'a [VecDeque<QueuedPacket>];

/// The bytes of one queue, counted.
#[must_use]
pub fn queued_bytes(queues: QueuesView<'_>, flow: FlowId) -> u64 {
    queues[flow.index()].iter().map(|held| u64::from(held.packet.len)).sum()
}

/// A flow scheduler. It is told what happens as
/// [`FlowScheduler`](freeboard::sched_core::FlowScheduler) is, and may look at the queues to
/// decide.
pub trait NaiveFlowScheduler: Clone {
    /// Tells the scheduler the time. Called first in every enqueue and dequeue; must not change
    /// what `select` returns.
    fn advance(&mut self, _now: Nanos) {}

    /// Adds or changes `flow`; `head_len` is its first packet's length if it is backlogged.
    ///
    /// # Errors
    /// The kind of error that the discipline must give; the numbers in it are the discipline's.
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError>;

    /// Forgets `flow`, which is idle.
    fn remove(&mut self, flow: FlowId);

    /// What governs `flow`, as the discipline reads it back; `None` if it was not added.
    fn setting(&self, flow: FlowId) -> Option<[u32; 2]>;

    /// The longest packet `flow` accepts; `None` if it was not added.
    fn max_len(&self, flow: FlowId) -> Option<u32>;

    /// The longest packet of flows that were not added.
    fn common_max_len(&self) -> u32 {
        0
    }

    /// `flow` was idle and holds a packet.
    fn backlogged(&mut self, flow: FlowId, head_len: u32);

    /// `flow`, selected, has sent `len` bytes.
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>);

    /// `flow` has lost a packet at either end.
    fn lost(&mut self, flow: FlowId, head: Option<u32>);

    /// The queues are now as they are, for a packet that came or left; what it was told is told.
    fn settle(&mut self, _queues: QueuesView<'_>) {}

    /// The queues keep `limits` from now on, before packets give way to them.
    fn limits_changed(&mut self, _limits: Limits, _queues: QueuesView<'_>) {}

    /// The flow to serve next.
    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId>;

    /// If none is selected although flows are backlogged: the first that may be served.
    fn waiting(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        None
    }

    /// When that may be served.
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// If none is selected: lets the first that may be served be selected.
    fn open(&mut self) {}

    /// Which flow gives way for an arrival.
    fn victim(&self, _queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// Whether the flow that gives way for an arrival loses all it holds.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }
}

/// The error that every discipline gives for a number no flow can have.
#[must_use]
pub(super) fn unknown(flow: FlowId, flows: usize) -> ConfigError {
    ConfigError::UnknownFlow { flow, flows: u32::try_from(flows).unwrap_or(u32::MAX) }
}

/// An error for a value outside its range, if it is.
///
/// # Errors
/// [`ConfigError::OutOfRange`] if it is not.
pub(super) fn in_range(
    what: &'static str,
    value: u32,
    min: u32,
    max: u32,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { what, value: value.into(), min: min.into(), max: max.into() })
}
