//! Shortest queue first: the flow that holds the fewest bytes is served.
//!
//! Smooth flows (voice, acknowledgements, requests) hold little and so come first, without being
//! identified; a flow that sends below its share waits for at most one packet of another. On overflow
//! the flow that holds the most bytes gives way (longest-queue drop), so that those flows lose nothing
//! either. What is promised is that preference and nothing more: the longest queue may starve, and who
//! splits his traffic over many flows is preferred (`docs/papers.md`, SQF).
//!
//! [`ShortestQueue`] is the order, one queue a flow; [`Sqf`] is the scheduler of the paper, with a fixed
//! number of virtual queues and a default queue.
//!
//! Cost: O(log flows) per call, whatever is queued. Memory: 20 bytes a flow, 36 with its
//! [`Queue`](crate::Queue). Source: SQF §2; SQF-VBR §III-B, Algorithm 1.

mod virtual_queues;

pub use virtual_queues::{Sqf, SqfArrays, SqfFlow, SqfMemory, VIRTUAL_QUEUES};

use crate::order::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::tournament::{RankedFlow, Tournament};
use crate::{FlowId, Imbalance, Packet};

/// Room for one flow of [`ShortestQueue`]: 20 bytes.
pub type ShortestFlow = RankedFlow<2>;

type Shortest = Tournament<0, false>;
type Longest = Tournament<1, true>;

/// The stamp of a flow that was not added. No service has this number: at one service a nanosecond
/// the count takes 584 years.
const ABSENT: u64 = u64::MAX;

/// The order of SQF with longest-queue drop, over the flows in the memory `N`.
///
/// Served is the flow with the fewest bytes; gives way the flow with the most. Ties go to the flow
/// served least recently (never served comes first), then to the lowest number: equal queues alternate.
#[derive(Clone, Debug)]
pub struct ShortestQueue<N> {
    /// Of more than zero bytes if and only if backlogged; `stamp` is [`ABSENT`] if and only if not
    /// added.
    flows: N,
    /// Services so far; the number of the latest is the newest stamp.
    served: u64,
    drop_from: DropFrom,
}

impl<N: Table<ShortestFlow>> ShortestQueue<N> {
    /// An order of as many flows as `flows` is long, none of them added; packets give way at the head.
    /// Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        for flow in flows.as_mut() {
            *flow = RankedFlow::EMPTY;
            flow.set_stamp(ABSENT);
        }
        Shortest::play_all(flows.as_mut());
        Longest::play_all(flows.as_mut());
        Self { flows, served: 0, drop_from: DropFrom::Head }
    }

    /// Which packet of the longest queue gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    fn added(&self, flow: FlowId) -> Option<&ShortestFlow> {
        self.flows.as_ref().get(flow.index()).filter(|entry| entry.stamp() != ABSENT)
    }

    /// What `flow` holds, if it is backlogged.
    fn ranked(&mut self, flow: FlowId) -> Option<&mut ShortestFlow> {
        let entry = self.flows.as_mut().get_mut(flow.index())?;
        entry.is_backlogged().then_some(entry)
    }

    /// `flow`, backlogged, holds fewer bytes, or none.
    fn shrunk(&mut self, flow: FlowId, idle: bool) {
        let flows = self.flows.as_mut();
        if idle {
            Shortest::lost(flows, flow);
        } else {
            Shortest::gained(flows, flow);
        }
        Longest::lost(flows, flow);
    }
}

impl<N: Table<ShortestFlow>> FlowScheduler for ShortestQueue<N> {
    type Config = ();

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    fn configure(
        &mut self,
        flow: FlowId,
        _config: (),
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        match self.flows.as_mut().get_mut(flow.index()) {
            None => Err(ConfigError::UnknownFlow { flow, flows }),
            Some(entry) => {
                if entry.stamp() == ABSENT {
                    entry.set_stamp(0);
                }
                Ok(())
            }
        }
    }

    fn remove(&mut self, flow: FlowId) {
        let flows = self.flows.as_mut();
        if let Some(entry) = flows.get_mut(flow.index()) {
            entry.set_bytes(0);
            entry.set_stamp(ABSENT);
            Shortest::lost(flows, flow);
            Longest::lost(flows, flow);
        }
    }

    fn config(&self, flow: FlowId) -> Option<()> {
        self.added(flow).map(|_| ())
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.added(flow).map(|_| Packet::MAX_LEN)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        Packet::MAX_LEN
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        if entry.stamp() == ABSENT || entry.is_backlogged() {
            return;
        }
        entry.set_bytes(head_len);
        Shortest::gained(flows, flow);
        Longest::gained(flows, flow);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_bytes(entry.bytes().saturating_add(len));
        let flows = self.flows.as_mut();
        Shortest::lost(flows, flow);
        Longest::gained(flows, flow);
    }

    fn select(&self) -> Option<FlowId> {
        Shortest::first(self.flows.as_ref())
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let stamp = self.served.wrapping_add(1);
        let Some(entry) = self.ranked(flow) else { return };
        let left = if next_head.is_some() { entry.bytes().saturating_sub(len) } else { 0 };
        entry.set_bytes(left);
        entry.set_stamp(stamp);
        self.served = stamp;
        self.shrunk(flow, next_head.is_none());
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        let Some(entry) = self.ranked(flow) else { return };
        let left = if head.is_some() { entry.bytes().saturating_sub(len) } else { 0 };
        entry.set_bytes(left);
        self.shrunk(flow, head.is_none());
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        Some((Longest::first(self.flows.as_ref())?, self.drop_from))
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, entry) in (0..).zip(self.flows.as_ref()) {
            let absent = entry.stamp() == ABSENT;
            let backlogged = entry.is_backlogged();
            Imbalance::check("a backlogged flow was added", at, 0, (absent && backlogged).into())?;
            let past = absent || entry.stamp() <= self.served;
            Imbalance::check("stamps lie in the past", at, 1, past.into())?;
        }
        Shortest::recount(self.flows.as_ref(), flows)?;
        Longest::recount(self.flows.as_ref(), flows)
    }
}

#[cfg(test)]
mod tests;
