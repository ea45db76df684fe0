//! Active queue management: decides when to send a flow a congestion signal.
//!
//! Scheduling and queue management are independent (RFC 7806 §2): any flow scheduler works with any
//! AQM. [`FlowQueues`](crate::FlowQueues) combines them and calls the AQM twice per packet:
//!
//! 1. [`Aqm::admit`] when the packet arrives: accept, mark or reject it;
//! 2. [`Aqm::judge`] when the packet is about to be delivered, after the flow scheduler has
//!    selected its flow.
//!
//! The AQM is notified of events that it cannot see: a drop on overflow ([`Aqm::overflowed`]), a
//! queue emptied by drops ([`Aqm::emptied`]), a removed flow ([`Aqm::forget`]), and swapped queues
//! ([`Aqm::swap`]).
//!
//! At delivery an AQM never takes the last packet of a queue, so its drops cannot empty the
//! selected flow (`docs/decisions/0005-an-aqm-leaves-the-last-packet.md`). At arrival no flow is
//! selected yet, and the AQM may reject the only packet of a flow
//! (`docs/decisions/0026-an-aqm-turns-arrivals-away.md`).

mod blue;
mod ce_threshold;
mod chosen;
mod cobalt;
mod codel;
mod control_law;
mod law;
pub(crate) mod pi;
mod pi2;
mod pie;
mod random;
mod red;

pub use blue::{Blue, BlueParams, BlueState};
pub use ce_threshold::CeThreshold;
pub use chosen::{AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, L4sParams};
pub use cobalt::{Cobalt, CobaltParams, CobaltState};
pub use codel::{CoDel, CoDelParams, CoDelState};
pub use pi2::{Pi2, Pi2Params, Pi2State};
pub use pie::{Pie, PieParams, PieState};
pub use random::{Probability, Random};
pub use red::{Red, RedParams, RedState};

use crate::{Backlog, Ecn, FlowId, Nanos, Packet};

/// The shortest time for a parameter, in ns: the resolution of sojourn times.
const SHORTEST: u64 = 1_024;

/// An AQM's decision about a packet that is about to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Verdict {
    /// Deliver the packet.
    Pass,
    /// Signal congestion: mark the packet if it is ECN-capable, else drop it if another is behind
    /// it.
    Signal,
    /// Drop the packet if another is behind it, ECN-capable or not.
    Drop,
    /// Undecided at a [glance](Look::Glance): call again with a close look, after which it counts
    /// as [`Verdict::Pass`].
    Unclear,
}

/// The effort that an AQM may spend on a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// On the fast path of enqueue or dequeue. An AQM that needs more than a few comparisons may
    /// return [`Admission::Unclear`] or [`Verdict::Unclear`] without changing any state but the
    /// time; it is then called again with a close look.
    Glance,
    /// Off the fast path.
    Close,
}

/// An AQM's decision about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Enqueue the packet.
    Accept,
    /// Signal congestion: enqueue the packet with a mark if it is ECN-capable, else reject it.
    Signal,
    /// Reject the packet, ECN-capable or not.
    Refuse,
    /// Undecided at a [glance](Look::Glance): call again with a close look, after which it counts
    /// as [`Admission::Accept`].
    Unclear,
}

/// An AQM's view of a packet that is about to be delivered, and of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Head {
    /// The current time.
    pub now: Nanos,
    /// Sojourn time of the packet, to 1.024 µs: the difference of two instants in whole ticks of
    /// 1,024 ns. Zero if the clock stepped back by up to an hour, or after more than 9 minutes.
    pub sojourn: Nanos,
    /// Bytes queued behind the packet; 0 if and only if it is the last of its queue.
    pub bytes_behind: u32,
    /// Packets queued, including this one.
    pub packets: u32,
    /// The codepoint of the packet: as it arrived, or [`Ecn::Ce`] if it was marked at arrival.
    pub ecn: Ecn,
}

/// An AQM's view of an arriving packet and of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The current time.
    pub now: Nanos,
    /// The packet as it arrived.
    pub packet: Packet,
    /// The backlog of its queue without it.
    pub held: Backlog,
}

/// An active queue management algorithm: parameters, and a state per queue.
///
/// No method has a default, so that a wrapper that forgets to forward one does not compile. A
/// constant result, such as that of [`NoAqm`] or of [`CoDel`] for arrivals, costs no code.
///
/// ```
/// use sched_core::{
///     Admission, Aqm, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Head, Limits, Look, Nanos,
///     Offer, Packet, Queue, Scheduler, Verdict,
/// };
///
/// /// Accepts two packets per queue and rejects the third.
/// struct TwoEach;
///
/// impl Aqm for TwoEach {
///     const MAX_DROPS: u32 = 0;
///
///     fn admit(&mut self, _: FlowId, offer: Offer, _: Look) -> Admission {
///         if offer.held.packets < 2 { Admission::Accept } else { Admission::Refuse }
///     }
///     fn judge(&mut self, _: FlowId, _: Head, _: Look) -> Verdict {
///         Verdict::Pass
///     }
///     fn foresee(&self, _: FlowId) -> impl FnMut(Head) -> Verdict {
///         |_| Verdict::Pass
///     }
///     fn overflowed(&mut self, _: FlowId) {}
///     fn emptied(&mut self, _: FlowId) {}
///     fn forget(&mut self, _: FlowId) {}
///     fn assign(&mut self, _: FlowId, _tin: u8) {}
///     fn swap(&mut self, _: FlowId, _other: FlowId) {}
/// }
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 8]);
/// let mut queues = FlowQueues::with_parts(drr, TwoEach, queues, packets, [], Limits::NONE);
/// let drops = &mut |_: Packet, _why| ();
/// let offered = [0, 1, 2].map(|handle| Packet::new(handle, 1_500));
/// let queued = offered.map(|packet| queues.enqueue(Nanos(0), FlowId(1), packet, drops).is_ok());
/// assert_eq!(queued, [true, true, false]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
pub trait Aqm {
    /// The most packets that one call of `dequeue` drops; the next one then stays.
    const MAX_DROPS: u32;

    /// Decides about an arriving packet of `flow`, and updates the queue's state.
    ///
    /// Called for each packet with a valid flow, length and handle, before any packet is dropped
    /// for it; called again with a close look if the result was unclear. A packet accepted here may
    /// still be rejected because the queue is full. An AQM that always decides at once can ignore
    /// `look`.
    fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission;

    /// Decides about the packet at the head of the queue of `flow`, which is about to be delivered,
    /// and updates the queue's state. An AQM that always decides at once can ignore `look`.
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict;

    /// Returns a function that decides about successive packets of `flow` like [`Aqm::judge`] with
    /// a close look, on a copy of the state: for a peek, which changes nothing.
    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict;

    /// Notifies that a packet of `flow`, queued or arriving, was lost because the queue was full.
    /// Called once per lost packet; the time is that of the last arrival or head.
    ///
    /// Not called for drops by a lowered limit: the caller has changed the capacity, and no sender
    /// is too fast.
    fn overflowed(&mut self, flow: FlowId);

    /// Notifies that the queue of `flow` has lost its last packet by a drop, so that no packet was
    /// judged as the last one.
    fn emptied(&mut self, flow: FlowId);

    /// Notifies that `flow` was removed: a flow added later under this number is a different one.
    /// `flow` may never have been added.
    fn forget(&mut self, flow: FlowId);

    /// Assigns `flow` to a tin from its next packet on, for an AQM with per-tin parameters
    /// ([`ChosenAqm`]). Never called by a queue without tins; every flow is then in tin 0.
    fn assign(&mut self, flow: FlowId, tin: u8);

    /// Swaps the states of two queues, including their tins, because their packets have been
    /// swapped. A queue for which the AQM has no state counts as unused.
    fn swap(&mut self, flow: FlowId, other: FlowId);
}

/// [`Aqm::swap`] in a table; a queue beyond it has the state `empty`.
fn swap_states<S: Copy>(states: &mut [S], flow: FlowId, other: FlowId, empty: S) {
    let state = |flow: FlowId| states.get(flow.index()).copied().unwrap_or(empty);
    for (to, state) in [(flow, state(other)), (other, state(flow))] {
        if let Some(place) = states.get_mut(to.index()) {
            *place = state;
        }
    }
}

/// No AQM: every packet is accepted and delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoAqm;

impl Aqm for NoAqm {
    const MAX_DROPS: u32 = 0;

    #[inline]
    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Accept
    }

    #[inline]
    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        Verdict::Pass
    }

    #[inline]
    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    #[inline]
    fn overflowed(&mut self, _flow: FlowId) {}

    #[inline]
    fn emptied(&mut self, _flow: FlowId) {}

    #[inline]
    fn forget(&mut self, _flow: FlowId) {}

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    #[inline]
    fn swap(&mut self, _flow: FlowId, _other: FlowId) {}
}
