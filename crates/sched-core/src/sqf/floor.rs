//! Who has waited longest: the line behind the service floor.
//!
//! Backlogged flows stand in one line. A flow joins its end when it becomes backlogged and when it is
//! served, and leaves it when it is idle, so the front has waited longest. Cost: O(1). Memory: 8 bytes a
//! flow.

use crate::order::{ConfigError, Table};
use crate::queue::NONE;
use crate::{FlowId, Imbalance};

/// Room for one flow in the line of those that wait: 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct WaitingFlow {
    /// The flow behind this one; [`NONE`] at the end of the line. Stale unless the flow is backlogged,
    /// as is `ahead`.
    behind: u32,
    /// The flow ahead of this one; [`NONE`] at the front.
    ahead: u32,
}

impl WaitingFlow {
    /// A flow that does not wait.
    pub const EMPTY: Self = Self { behind: NONE, ahead: NONE };
}

impl Default for WaitingFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The line of backlogged flows, and whose turn it is; without memory nobody stands in it and it is never
/// the line's turn.
#[derive(Clone, Debug)]
pub(super) struct Floor<W> {
    waiting: W,
    /// [`NONE`] if and only if nobody is backlogged.
    front: u32,
    back: u32,
    /// One of so many packets is the line's.
    every: u32,
    /// Packets up to and including the next of the line, in `1..=every`.
    left: u32,
}

impl<W: Table<WaitingFlow>> Floor<W> {
    /// One packet in this many at least: with every packet there would be nothing left for the shortest.
    pub(super) const MIN_EVERY: u32 = 2;

    /// A line of nobody, with room for `flows`.
    pub(super) fn new(every: u32, waiting: W, flows: u32) -> Result<Self, ConfigError> {
        let (min, max) = (Self::MIN_EVERY.into(), u32::MAX.into());
        ConfigError::check_range("packets for one of the service floor", every.into(), min, max)?;
        let room = waiting.as_ref().len() as u64;
        ConfigError::check_range("line of waiting flows", room, flows.into(), u64::MAX)?;
        Ok(Self { waiting, front: NONE, back: NONE, every, left: every })
    }

    /// The flow that has waited longest, if the next packet is its.
    #[inline]
    pub(super) fn due(&self) -> Option<FlowId> {
        // Without memory, known when compiled, there is nothing to ask.
        let is_due = !self.waiting.as_ref().is_empty() && self.left == 1 && self.front != NONE;
        is_due.then_some(FlowId(self.front))
    }

    /// A packet was served.
    #[inline]
    pub(super) fn count(&mut self) {
        if !self.waiting.as_ref().is_empty() {
            self.left = if self.left > 1 { self.left.wrapping_sub(1) } else { self.every };
        }
    }

    /// `flow`, not in the line, joins its end.
    #[inline]
    pub(super) fn join(&mut self, flow: FlowId) {
        let back = self.back;
        let Some(entry) = self.waiting.as_mut().get_mut(flow.index()) else { return };
        *entry = WaitingFlow { behind: NONE, ahead: back };
        self.back = flow.0;
        match self.waiting.as_mut().get_mut(back as usize) {
            Some(last) => last.behind = flow.0,
            None => self.front = flow.0,
        }
    }

    /// `flow`, in the line, leaves it.
    #[inline]
    pub(super) fn leave(&mut self, flow: FlowId) {
        let Some(&WaitingFlow { behind, ahead }) = self.waiting.as_ref().get(flow.index()) else {
            return;
        };
        match self.waiting.as_mut().get_mut(ahead as usize) {
            Some(other) => other.behind = behind,
            None => self.front = behind,
        }
        match self.waiting.as_mut().get_mut(behind as usize) {
            Some(other) => other.ahead = ahead,
            None => self.back = ahead,
        }
    }

    /// Walks the line: in it are the flows that `is_backlogged` says, `backlogged` of them. O(flows).
    pub(super) fn recount(
        &self,
        is_backlogged: &dyn Fn(u32) -> bool,
        backlogged: u64,
    ) -> Result<(), Imbalance> {
        if self.waiting.as_ref().is_empty() {
            return Ok(());
        }
        let in_turn = (1..=self.every).contains(&self.left);
        Imbalance::check("packets to the next of the floor", 0, 1, in_turn.into())?;
        let (mut here, mut ahead, mut found) = (self.front, NONE, 0_u64);
        while let Some(entry) = self.waiting.as_ref().get(here as usize) {
            Imbalance::check("who waits is backlogged", here, 1, is_backlogged(here).into())?;
            Imbalance::check(
                "who waits knows who is ahead",
                here,
                entry.ahead.into(),
                ahead.into(),
            )?;
            found = found.wrapping_add(1);
            if found > backlogged {
                break; // a cycle, or a miscount: either way the next check says so
            }
            ahead = here;
            here = entry.behind;
        }
        Imbalance::check("flows that wait", 0, found, backlogged)?;
        Imbalance::check("the end of the line", 0, self.back.into(), ahead.into())
    }
}

/// Nobody waits: the order without a floor.
impl Floor<[WaitingFlow; 0]> {
    pub(super) const OFF: Self =
        Self { waiting: [], front: NONE, back: NONE, every: u32::MAX, left: u32::MAX };
}

#[cfg(test)]
mod tests;
