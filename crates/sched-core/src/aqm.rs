//! Active queue management: when to tell a flow that its queue stands too long.
//!
//! Scheduling and dropping are apart (RFC 7806 §2): any order of flows works with any AQM. They meet in
//! [`FlowQueues`](crate::FlowQueues), which asks the AQM about each packet that it is about to deliver,
//! after the order has chosen the flow. An AQM never takes the last packet of a queue, so its drops
//! cannot empty the flow that was chosen (`docs/decisions/0005-an-aqm-leaves-the-last-packet.md`).

mod codel;
mod control_law;

pub use codel::{CoDel, CoDelParams, CoDelState};

use crate::{FlowId, Nanos};

/// What is to become of a packet about to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// Deliver it.
    Pass,
    /// Tell the sender: mark the packet if it is ECN-capable, else drop it if another is behind it.
    Signal,
}

/// What an AQM knows of a packet and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Head {
    /// Now.
    pub now: Nanos,
    /// How long the packet was queued, to 1.024 µs: the difference of two instants in whole ticks of
    /// 1,024 ns. Zero if the clock stepped back, by up to an hour, or after more than 9 minutes.
    pub sojourn: Nanos,
    /// Bytes queued behind the packet; 0 if and only if it is the last of its queue.
    pub bytes_behind: u32,
}

/// An AQM: parameters, and a state for each queue.
pub trait Aqm {
    /// The state of one queue. Judging works on a copy, so that a peek can judge and forget.
    type State: Copy;

    /// At most so many packets are dropped in one call of `dequeue`; the next may stay.
    const MAX_DROPS: u32;

    /// The state of the queue of `flow`.
    fn state(&self, flow: FlowId) -> Option<Self::State>;

    /// Judges the packet at the head of a queue and moves the queue's state on.
    fn judge(&self, state: &mut Self::State, head: Head) -> Verdict;

    /// Judges the packet at the head of the queue of `flow` and keeps the state: the packet is about to
    /// be delivered.
    fn police(&mut self, flow: FlowId, head: Head) -> Verdict;

    /// Whether the packet at the head of the queue of `flow` passes at first sight, as most do. If so it
    /// has been judged, and [`Aqm::police`] is not asked; if not, nothing has changed. Never, unless
    /// implemented.
    #[inline]
    fn passes(&mut self, _flow: FlowId, _head: Head) -> bool {
        false
    }

    /// The queue of `flow` has lost its last packet by a drop, so that no packet of it was judged as
    /// the last one. Does nothing unless implemented.
    fn emptied(&mut self, _flow: FlowId) {}

    /// `flow` was removed: the next flow of that number is another one. Does nothing unless
    /// implemented.
    fn forget(&mut self, _flow: FlowId) {}
}

/// No AQM: every packet is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoAqm;

impl Aqm for NoAqm {
    type State = ();
    const MAX_DROPS: u32 = 0;

    fn state(&self, _flow: FlowId) -> Option<()> {
        None
    }

    fn judge(&self, _state: &mut (), _head: Head) -> Verdict {
        Verdict::Pass
    }

    fn police(&mut self, _flow: FlowId, _head: Head) -> Verdict {
        Verdict::Pass
    }

    #[inline]
    fn passes(&mut self, _flow: FlowId, _head: Head) -> bool {
        true
    }
}
