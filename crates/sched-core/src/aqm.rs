//! Active queue management: when to tell a flow that its queue stands too long.
//!
//! Scheduling and dropping are apart (RFC 7806 §2): any flow scheduler works with any AQM. They
//! meet in [`FlowQueues`](crate::FlowQueues), which asks the AQM twice about each packet:
//!
//! 1. [`Aqm::admit`] when the packet arrives: accept it, mark it, or turn it away;
//! 2. [`Aqm::judge`] when the packet is about to be delivered, after the flow scheduler has chosen
//!    its flow.
//!
//! The AQM is told of what it cannot see: that a packet gave way for want of room
//! ([`Aqm::overflowed`]), that a queue was emptied by drops ([`Aqm::emptied`]), that a flow was
//! removed ([`Aqm::forget`]), and that queues have changed places ([`Aqm::swap`]).
//!
//! An AQM never takes the last packet of a queue at delivery, so its drops cannot empty the flow
//! that was chosen (`docs/decisions/0005-an-aqm-leaves-the-last-packet.md`). At arrival no flow has
//! been chosen, and the AQM may turn away the only packet of a flow
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

/// The shortest time that a parameter may be, in ns: the resolution of sojourn times.
const SHORTEST: u64 = 1_024;

/// What is to become of a packet about to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Verdict {
    /// Deliver it.
    Pass,
    /// Tell the sender: mark the packet if it is ECN-capable, else drop it if another is behind it.
    Signal,
    /// Drop the packet if another is behind it, ECN-capable or not.
    Drop,
    /// Not known at a [glance](Look::Glance): look again. After that it counts as
    /// [`Verdict::Pass`].
    Unclear,
}

/// The effort that an AQM spends on an arrival or on a packet about to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In the middle of the enqueue or dequeue, where most packets pass. An AQM that would need
    /// more than a few comparisons may say [`Admission::Unclear`] or [`Verdict::Unclear`], having
    /// learned nothing but the time, and is asked again.
    Glance,
    /// Out of the way of the packets that pass.
    Close,
}

/// What is to become of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Queue it.
    Accept,
    /// Tell the sender: queue the packet with a mark if it is ECN-capable, else turn it away.
    Signal,
    /// Turn it away, ECN-capable or not.
    Refuse,
    /// Not known at a [glance](Look::Glance): look again. After that it counts as
    /// [`Admission::Accept`].
    Unclear,
}

/// What an AQM knows of a packet about to be delivered and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Head {
    /// Now.
    pub now: Nanos,
    /// How long the packet was queued, to 1.024 µs: the difference of two instants in whole ticks
    /// of 1,024 ns. Zero if the clock stepped back, by up to an hour, or after more than 9
    /// minutes.
    pub sojourn: Nanos,
    /// Bytes queued behind the packet; 0 if and only if it is the last of its queue.
    pub bytes_behind: u32,
    /// Packets queued, this one included.
    pub packets: u32,
    /// The codepoint of the packet: what came, or [`Ecn::Ce`] if it was marked at arrival.
    pub ecn: Ecn,
}

/// What an AQM knows of an arrival and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Now.
    pub now: Nanos,
    /// The packet, as it came.
    pub packet: Packet,
    /// What its queue holds without it.
    pub held: Backlog,
}

/// An AQM: parameters, and a state for each queue.
///
/// No method has a default: an AQM around another that forgot to forward a method would compile,
/// and the inner AQM would not be told. A constant answer, such as that of [`NoAqm`] or of
/// [`CoDel`] to arrivals, costs no code.
///
/// ```
/// use sched_core::{
///     Admission, Aqm, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Head, Limits, Look, Nanos, Offer, Packet, Queue,
///     Scheduler, Verdict,
/// };
///
/// /// Two packets a queue: the third is turned away.
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
    /// The most packets that are dropped in one call of `dequeue`; the next may stay.
    const MAX_DROPS: u32;

    /// Says what is to become of an arrival of `flow`, and moves the queue's state on.
    ///
    /// Asked for each packet that has a flow, a length and a handle which are accepted, before room
    /// is made for it, until the answer is clear. An arrival that was accepted here may still be
    /// turned away for want of room. An AQM that always decides at once need not care how it
    /// `looks`.
    fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission;

    /// Judges the packet at the head of the queue of `flow`, which is about to be delivered, and
    /// moves the queue's state on. An AQM that always decides at once need not care how it `looks`.
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict;

    /// Judges successive packets of `flow` as [`Aqm::judge`] would, looking closely, on a copy of
    /// the state: for a peek, which changes nothing.
    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict;

    /// A packet of `flow` gave way because there was no room: it was queued, or it was the arrival.
    /// Told once for each such packet; the time is that of the last arrival or head.
    ///
    /// Not told of what a lower limit drops: the caller has changed the room, and no sender is too
    /// fast.
    fn overflowed(&mut self, flow: FlowId);

    /// The queue of `flow` has lost its last packet by a drop, so that no packet of it was judged
    /// as the last one.
    fn emptied(&mut self, flow: FlowId);

    /// `flow` was removed: the next flow of that number is another one. `flow` may never have been
    /// added.
    fn forget(&mut self, flow: FlowId);

    /// The packets of `flow` are of this tin from the next one on: for an AQM with parameters for
    /// each tin ([`ChosenAqm`]). A queue without tins never says so, and every flow is of tin 0.
    fn assign(&mut self, flow: FlowId, tin: u8);

    /// Exchanges the states of the two queues, tins included: their packets have changed places. A
    /// queue that the AQM has no state for is without a history.
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
