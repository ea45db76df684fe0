//! Interface of the reference flow schedulers, which may scan all queues.

use std::collections::VecDeque;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Limits, Nanos, Packet};

use crate::history::Setting;

/// A queued packet and the flow it was enqueued for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket {
    /// Flow of the packet.
    pub flow: FlowId,
    /// The packet.
    pub packet: Packet,
}

/// All queues, indexed by flow.
pub type QueuesView<'a> = &'a [VecDeque<QueuedPacket>];

/// Returns the bytes in the queue of `flow`.
#[must_use]
pub fn queued_bytes(queues: QueuesView<'_>, flow: FlowId) -> u64 {
    queues[flow.index()].iter().map(|held| u64::from(held.packet.len)).sum()
}

/// A reference flow scheduler. It receives the events of a
/// [`FlowScheduler`](freeboard::sched_core::FlowScheduler) and may also inspect the queues.
pub trait NaiveFlowScheduler: Clone {
    /// Passes the time. Called first in every enqueue and dequeue; must not change the result of
    /// `select`.
    fn advance(&mut self, _now: Nanos) {}

    /// Adds or changes `flow`; `head_len` is the length of its first packet if it is backlogged.
    ///
    /// # Errors
    /// Returns the kind of error that the discipline must return; the numbers in it are those of
    /// the discipline.
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError>;

    /// Removes `flow`, which is idle.
    fn remove(&mut self, flow: FlowId);

    /// Returns the configuration of `flow` in effect; `None` if it was not added.
    fn setting(&self, flow: FlowId) -> Option<[u32; 2]>;

    /// Returns the longest packet that `flow` accepts; `None` if it was not added.
    fn max_len(&self, flow: FlowId) -> Option<u32>;

    /// Returns the longest packet of flows that were not added.
    fn common_max_len(&self) -> u32 {
        0
    }

    /// Handles a packet that arrived at `flow`, which was idle.
    fn backlogged(&mut self, flow: FlowId, head_len: u32);

    /// Handles the service of `len` bytes to the selected `flow`.
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>);

    /// Handles the loss of a packet at either end of `flow`.
    fn lost(&mut self, flow: FlowId, head: Option<u32>);

    /// Passes the queues after a packet was added or removed and the corresponding event was
    /// reported.
    fn settle(&mut self, _queues: QueuesView<'_>) {}

    /// Passes new limits, before packets are dropped to meet them.
    fn limits_changed(&mut self, _limits: Limits, _queues: QueuesView<'_>) {}

    /// Selects the flow to serve next.
    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId>;

    /// Returns the first flow that becomes eligible, if flows are backlogged but none is selected.
    fn waiting(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        None
    }

    /// Returns the time at which [`waiting`](Self::waiting) becomes eligible.
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Makes the flow of [`waiting`](Self::waiting) eligible.
    fn open(&mut self) {}

    /// Selects the flow and the end of its queue to drop from for an arrival.
    fn victim(&self, _queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// Returns true if the victim of an arrival loses its whole queue.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }
}

/// Returns the common error for a flow number out of range.
#[must_use]
pub(super) fn unknown(flow: FlowId, flows: usize) -> ConfigError {
    ConfigError::UnknownFlow { flow, flows: u32::try_from(flows).unwrap_or(u32::MAX) }
}

/// Checks that a value is in its range.
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
