//! The [`FlowScheduler`] trait: selects the next flow without holding packets.
//!
//! A [`FlowScheduler`] is notified when flows become backlogged, grow, are served and shrink, and
//! selects the flow to serve next. It holds no packets and calls nothing, so it can be used alone:
//! in hierarchies, proofs, reference models, and by callers with queues of their own.
//! [`FlowQueues`](crate::FlowQueues) adds the queues.

use core::fmt;

use crate::{Backlog, FlowId, Imbalance, Nanos};

/// Memory for a table of `T`, provided by the caller: an array, a `&'static mut [T]`, a `Box<[T]>`,
/// a `Vec<T>` or a `heapless::Vec`. Its length is the capacity; it never grows.
pub trait Table<T>: AsRef<[T]> + AsMut<[T]> {}

impl<T, M: AsRef<[T]> + AsMut<[T]>> Table<T> for M {}

/// The end of a flow's queue at which to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DropFrom {
    /// Drops the oldest packet: a sender that reacts to loss notices soonest.
    #[default]
    Head,
    /// Drops the newest packet.
    Tail,
}

/// Selects the flow to serve next.
///
/// A flow is *backlogged* from [`FlowScheduler::backlogged`] until [`FlowScheduler::served`] or
/// [`FlowScheduler::lost`] reports that its queue is empty. Calls that contradict this (an unknown
/// flow, a flow that is not backlogged) change nothing. Object-safe. The time of a call does not
/// depend on the backlog.
///
/// The provided methods fit most flow schedulers: work-conserving, independent of time, without a
/// victim of their own and without a prediction of upcoming flows.
///
/// Example: strict priority among 32 flows, the lowest number first.
///
/// ```
/// use sched_core::{
///     ConfigError, Descriptor, DropFrom, FlowId, FlowQueues, FlowScheduler, FlowState, Imbalance,
///     Limits, LongestFlow, Nanos, Needs, Packet, Queue, Scheduler,
/// };
///
/// /// Bit `n` is set while flow `n` is backlogged.
/// struct Priority(u32);
///
/// fn bit(flow: FlowId) -> u32 {
///     1_u32.checked_shl(flow.0).unwrap_or(0)
/// }
///
/// impl FlowScheduler for Priority {
///     type Config = ();
///
///     fn flows(&self) -> u32 {
///         32
///     }
///     fn configure(
///         &mut self,
///         flow: FlowId,
///         (): (),
///         _head_len: Option<u32>,
///     ) -> Result<(), ConfigError> {
///         let unknown = ConfigError::UnknownFlow { flow, flows: 32 };
///         if flow.0 < 32 { Ok(()) } else { Err(unknown) }
///     }
///     fn remove(&mut self, flow: FlowId) {
///         self.0 &= !bit(flow);
///     }
///     fn config(&self, flow: FlowId) -> Option<()> {
///         (flow.0 < 32).then_some(())
///     }
///     fn max_len(&self, flow: FlowId) -> Option<u32> {
///         (flow.0 < 32).then_some(1_500)
///     }
///     fn needs(&self) -> Needs {
///         Needs { looks_ahead: false, counts_bytes: false, common_max_len: 1_500 }
///     }
///     fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
///         self.0 |= bit(flow);
///     }
///     fn grew(&mut self, _: FlowId, _len: u32) {}
///     fn select(&self) -> Option<FlowId> {
///         (self.0 > 0).then(|| FlowId(self.0.trailing_zeros()))
///     }
///     fn served(&mut self, flow: FlowId, _len: u32, next_head: Option<u32>) {
///         if next_head.is_none() {
///             self.0 &= !bit(flow);
///         }
///     }
///     fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
///         self.served(flow, len, head);
///     }
///     fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
///         (0..32).try_for_each(|flow| {
///             let is_listed = self.0 & bit(FlowId(flow)) > 0;
///             let holds = flows(FlowId(flow)).head_len.is_some();
///             Imbalance::check("backlogged", flow, is_listed.into(), holds.into())
///         })
///     }
/// }
///
/// let (queues, lengths) = ([Queue::EMPTY; 32], [LongestFlow::EMPTY; 32]);
/// let (packets, limits) = ([Descriptor::EMPTY; 8], Limits::packets(8));
/// let mut queues = FlowQueues::new(Priority(0), queues, lengths, packets, limits);
/// let drops = &mut |_: Packet, _why| ();
/// for (flow, handle) in [(7, 0), (7, 1), (0, 2)] {
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// queues.recount().expect("the scheduler accounts correctly");
/// let sent = std::iter::from_fn(|| queues.dequeue(Nanos(0), drops));
/// let order: Vec<u32> = sent.map(|packet| packet.handle).collect();
/// assert_eq!(order, [2, 0, 1]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait FlowScheduler {
    /// Configuration of one flow.
    type Config: Copy + fmt::Debug;

    /// Returns the number of flows; valid numbers are below it.
    fn flows(&self) -> u32;

    /// Sets the current time. [`FlowQueues`](crate::FlowQueues) and [`Classes`](crate::Classes)
    /// call this first in every enqueue and dequeue.
    ///
    /// Must not change the result of [`FlowScheduler::select`]: the next flow changes only when
    /// packets come and go, so that a peek stays valid. Any sequence of times is legal; a timestamp
    /// earlier than the last one counts as no time passing.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Adds `flow`, or changes its configuration while it is idle or backlogged. `head_len` is the
    /// length of its first packet if it is backlogged.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    fn configure(
        &mut self,
        flow: FlowId,
        config: Self::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError>;

    /// Removes `flow`, idle or backlogged. Idempotent.
    fn remove(&mut self, flow: FlowId);

    /// Returns the configuration of `flow`; `None` if it was not added.
    fn config(&self, flow: FlowId) -> Option<Self::Config>;

    /// Returns the longest packet that `flow` accepts, in bytes; `None` if it was not added.
    fn max_len(&self, flow: FlowId) -> Option<u32>;

    /// Returns what this scheduler needs to know about flows, so that a caller can skip the rest.
    /// Constant over time.
    fn needs(&self) -> Needs;

    /// Notifies that `flow` was idle and now holds one packet, of `head_len` bytes.
    fn backlogged(&mut self, flow: FlowId, head_len: u32);

    /// Notifies that `flow`, already backlogged, received one more packet of `len` bytes at its
    /// tail. A class of a hierarchy may have received several packets of `len` bytes in total.
    fn grew(&mut self, flow: FlowId, len: u32);

    /// Returns the flow to serve next: `Some` if and only if a flow is backlogged. A scheduler that
    /// is [not work-conserving](FlowScheduler::waits) returns only a flow that is eligible now.
    fn select(&self) -> Option<FlowId>;

    /// Returns the flow to serve next, or [`FlowId::NONE`]. Saves a bounds check where the flow is
    /// looked up in a table.
    #[inline]
    fn selected(&self) -> FlowId {
        self.select().unwrap_or(FlowId::NONE)
    }

    /// Returns true if this scheduler is not work-conserving, for instance because of a
    /// [ceiling](crate::TokenBucket): `select` may then return `None` while flows are backlogged.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// Returns the flow that becomes eligible first, if `select` returns `None` although flows are
    /// backlogged.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// Returns the time from which [`FlowScheduler::waiting`] may be served, not before `now`, if
    /// `select` returns `None` although flows are backlogged; `None` if that time is beyond the end
    /// of the clock.
    #[inline]
    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        let _ = now;
        None
    }

    /// Makes [`FlowScheduler::waiting`] the selected flow, if `select` returns `None` and that flow
    /// is eligible at the time of the last [`FlowScheduler::advance`].
    #[inline]
    fn open(&mut self) {}

    /// Returns the duration of one round of the flows that share the [ceiling](crate::TokenBucket)
    /// of `flow`, with one longest packet each; zero without a ceiling. Waiting below a ceiling is
    /// not a standing queue: [`FlowQueues`](crate::FlowQueues) subtracts
    /// [`PACED_ROUNDS`](crate::PACED_ROUNDS) of these rounds from the sojourn time that it passes
    /// to the AQM.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        let _ = flow;
        Nanos::ZERO
    }

    /// Fills `ahead` from the front with flows that will probably be served soon, the next one
    /// first, and returns their number. The caller prefetches their memory, so a wrong guess is
    /// harmless. Looks at `ahead.len()` flows at most; a scheduler that would have to search
    /// returns none.
    #[inline]
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let _ = ahead;
        0
    }

    /// Notifies that `flow`, which was selected, has sent its first packet, of `len` bytes.
    /// `next_head` is the length of the packet behind it; `None` if the flow is now idle.
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>);

    /// Notifies that `flow` has lost a packet of `len` bytes, from any position, without being
    /// served. `head` is the length of its first packet afterwards; `None` if the flow is now idle.
    /// A class of a hierarchy may have lost several packets of `len` bytes in total.
    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>);

    /// Returns the flow to drop from when the queue is full, and the end to drop at. `None` rejects
    /// the arriving packet.
    #[inline]
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// Returns true if `flow` should lose its whole queue and not only as much as the arriving
    /// packet needs. Called right after [`FlowScheduler::victim`] has returned `flow` on an
    /// arrival, but not when a limit is lowered. [`FlowQueues`](crate::FlowQueues) then drops the
    /// queue from the head with [`DropReason::Unserved`](crate::DropReason::Unserved): all of it
    /// except the arriving packet, up to the number of packets that one call may drop.
    #[inline]
    fn gives_up(&self, flow: FlowId) -> bool {
        let _ = flow;
        false
    }

    /// Compares the scheduler's own accounting with `flows`, which counts what a flow really holds.
    /// For tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// The information that a flow scheduler needs. Where a length is not needed, the caller may pass
/// any number.
///
/// ```
/// use sched_core::{Drr, DrrFlow, FlowScheduler, LengthFlow, Needs, ShortestQueue};
///
/// let drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// let needs = Needs { looks_ahead: false, counts_bytes: false, common_max_len: 1_500 };
/// assert_eq!(drr.needs(), needs);
/// let sqf = ShortestQueue::new([LengthFlow::EMPTY; 2]);
/// assert!(sqf.needs().counts_bytes, "it compares what flows hold");
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// True if decisions depend on lengths of packets not yet sent: `head_len`, `head` and
    /// `next_head`. If false, a hierarchy need not look at the next packet of a class.
    pub looks_ahead: bool,
    /// True if decisions depend on how much a flow holds: on the lengths in `backlogged`, `grew`
    /// and `lost`. If false, a caller that moves a flow from one scheduler to another need not
    /// know its backlog.
    pub counts_bytes: bool,
    /// A length in bytes that every added flow accepts, at most
    /// [`Packet::MAX_LEN`](crate::Packet::MAX_LEN); 0 if none is known. [`FlowScheduler::max_len`]
    /// is only called for longer packets, so an arrival to a backlogged flow reads no table of
    /// flows.
    pub common_max_len: u32,
}

/// The content of a flow's queue, for [`FlowScheduler::recount`] to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowState {
    /// Packets and bytes queued.
    pub backlog: Backlog,
    /// The length of its first packet; `None` if it is idle.
    pub head_len: Option<u32>,
}

/// A configuration error; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ConfigError {
    /// The flow's number is not below the number of flows.
    UnknownFlow {
        /// The flow passed to the call.
        flow: FlowId,
        /// Number of flows; valid numbers are below it.
        flows: u32,
    },
    /// The change is only possible while the flow is idle.
    Backlogged {
        /// The flow passed to the call.
        flow: FlowId,
    },
    /// A value is out of range.
    OutOfRange {
        /// Name of the value, with its unit.
        what: &'static str,
        /// The value passed to the call.
        value: u64,
        /// The lowest valid value.
        min: u64,
        /// The highest valid value.
        max: u64,
    },
}

impl ConfigError {
    /// Returns `Ok` if `value` is in `min..=max`.
    pub(crate) const fn check_range(
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<(), Self> {
        if min <= value && value <= max {
            Ok(())
        } else {
            Err(Self::OutOfRange { what, value, min, max })
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownFlow { flow, flows } => {
                write!(f, "flow {} is out of range (expected below {flows})", flow.0)
            }
            Self::Backlogged { flow } => {
                write!(f, "flow {} is backlogged (expected an idle one)", flow.0)
            }
            Self::OutOfRange { what, value, min, max } => {
                write!(f, "{what} {value} is out of range (expected {min} to {max})")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
