//! The contract without packets: which flow is next.
//!
//! A [`FlowScheduler`] is told when flows become backlogged, grow, are served and shrink, and
//! answers which flow to serve next. A flow scheduler holds no packets and calls nothing, so
//! hierarchies, proofs, oracles and users with queues of their own can use it alone.
//! [`FlowQueues`](crate::FlowQueues) puts queues under one.

use core::fmt;

use crate::{Backlog, FlowId, Imbalance, Nanos};

/// Memory for a table of `T`: an array, a `&'static mut [T]`, a `Box<[T]>` or a `Vec<T>` of the
/// caller's, or a `heapless::Vec`. Its length is the capacity; nothing grows.
pub trait Table<T>: AsRef<[T]> + AsMut<[T]> {}

impl<T, M: AsRef<[T]> + AsMut<[T]>> Table<T> for M {}

/// Which packet of a flow gives way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DropFrom {
    /// The oldest: a sender that reacts to loss learns of it soonest.
    #[default]
    Head,
    /// The newest.
    Tail,
}

/// Says which flow is served next.
///
/// A flow is *backlogged* from [`FlowScheduler::backlogged`] until a [`FlowScheduler::served`] or
/// [`FlowScheduler::lost`] says that nothing is left of it. Calls that contradict this (an unknown
/// flow, a flow that is not backlogged) change nothing. Object-safe. The time of a call does not
/// depend on what is queued.
///
/// The provided methods say what most flow schedulers say: that they need no time, never wait, and
/// name neither a victim nor the flows to come.
///
/// Strict priority of 32 flows, the lowest number first:
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
/// queues.recount().expect("the scheduler's books are true");
/// let sent = std::iter::from_fn(|| queues.dequeue(Nanos(0), drops));
/// let order: Vec<u32> = sent.map(|packet| packet.handle).collect();
/// assert_eq!(order, [2, 0, 1]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait FlowScheduler {
    /// What can be set for each flow.
    type Config: Copy + fmt::Debug;

    /// Flows are numbered below this.
    fn flows(&self) -> u32;

    /// Tells the scheduler the time. [`FlowQueues`](crate::FlowQueues) and
    /// [`Classes`](crate::Classes) call this first in every enqueue and dequeue.
    ///
    /// Must not change what [`FlowScheduler::select`] returns: which flow is next changes only when
    /// packets come and go, so that a peek stays true. Any sequence of times is legal; a clock that
    /// steps back stands still.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Adds `flow`, or changes it, idle or backlogged. `head_len` is the length of its first packet
    /// if it is backlogged.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    fn configure(
        &mut self,
        flow: FlowId,
        config: Self::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError>;

    /// Forgets `flow`, idle or backlogged. Idempotent.
    fn remove(&mut self, flow: FlowId);

    /// What is set for `flow`; `None` if it was not added.
    fn config(&self, flow: FlowId) -> Option<Self::Config>;

    /// The longest packet that `flow` accepts, in bytes; `None` if it was not added.
    fn max_len(&self, flow: FlowId) -> Option<u32>;

    /// What it needs to know, and what its caller can save itself. The same at all times.
    fn needs(&self) -> Needs;

    /// `flow` was idle and now holds one packet, of `head_len` bytes.
    fn backlogged(&mut self, flow: FlowId, head_len: u32);

    /// `flow`, already backlogged, has got one more packet of `len` bytes, at its tail. A class of
    /// a hierarchy may have got several packets of `len` bytes together.
    fn grew(&mut self, flow: FlowId, len: u32);

    /// The flow to serve next: `Some` if and only if a flow is backlogged. A scheduler that
    /// [waits](FlowScheduler::waits) names only a flow that need not wait.
    fn select(&self) -> Option<FlowId>;

    /// The same, with [`FlowId::NONE`] for none: where the flow is looked up in a table, its bound
    /// is asked once.
    #[inline]
    fn selected(&self) -> FlowId {
        self.select().unwrap_or(FlowId::NONE)
    }

    /// Whether backlogged flows may have to wait although the link is idle, as above a
    /// [ceiling](crate::TokenBucket). If so, `select` may return `None` while flows are backlogged.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// If `select` returns `None` although flows are backlogged: the flow that may be served first.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// If `select` returns `None` although flows are backlogged: the instant from which
    /// [`FlowScheduler::waiting`] may be served, not before `now`; `None` if the clock ends before.
    #[inline]
    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        let _ = now;
        None
    }

    /// If `select` returns `None`, and [`FlowScheduler::waiting`] may be served at the time of the
    /// last [`FlowScheduler::advance`]: from here on `select` names that flow.
    #[inline]
    fn open(&mut self) {}

    /// How long a round of the flows that share the [ceiling](crate::TokenBucket) of `flow` takes,
    /// with one of the longest packets each; zero without a ceiling. A wait below a ceiling is no
    /// standing queue: [`FlowQueues`](crate::FlowQueues) takes
    /// [`PACED_ROUNDS`](crate::PACED_ROUNDS) of these rounds off the sojourn time that it tells the
    /// AQM.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        let _ = flow;
        Nanos::ZERO
    }

    /// Fills `ahead` from the front with flows that are likely to be served soon, the next first,
    /// and returns how many. A guess, which may be wrong: the caller touches the memory of these
    /// flows before it is needed. A scheduler that would have to search names none. Looks at
    /// `ahead.len()` flows at most.
    #[inline]
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let _ = ahead;
        0
    }

    /// `flow`, selected, has sent its first packet, of `len` bytes; `next_head` is the length of
    /// the one behind it, `None` if there is none and the flow is idle.
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>);

    /// `flow` has lost a packet of `len` bytes without service, from whichever place; `head` is the
    /// length of its first packet afterwards, `None` if there is none and the flow is idle. A class
    /// of a hierarchy may have lost several packets of `len` bytes together.
    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>);

    /// The flow that gives way when there is no room, and at which end: `None` means the arrival.
    #[inline]
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// Whether `flow`, which [`FlowScheduler::victim`] has just named because an arrival needs
    /// room, is to lose all that it holds, and not only what there is no room for.
    /// [`FlowQueues`](crate::FlowQueues) then drops its queue from the head, with
    /// [`DropReason::Unserved`](crate::DropReason::Unserved): all of it but the arrival, as far as
    /// one call may drop packets. It is not asked when a limit is lowered.
    #[inline]
    fn gives_up(&self, flow: FlowId) -> bool {
        let _ = flow;
        false
    }

    /// Compares the scheduler's own books with `flows`, which counts what a flow really holds. For
    /// tests.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance>;
}

/// What a flow scheduler needs to know. Where a length is not needed, the caller may pass any
/// number.
///
/// ```
/// use sched_core::{Drr, DrrFlow, FlowScheduler, Needs, LengthFlow, ShortestQueue};
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
    /// Whether it decides by the lengths of packets that have not been sent: `head_len`, `head`
    /// and `next_head`. If not, a hierarchy saves itself the look at a class's next packet.
    pub looks_ahead: bool,
    /// Whether it decides by how much a flow holds: by the lengths in `backlogged`, `grew` and
    /// `lost`. If not, a scheduler that moves a flow from one scheduler to another need not know
    /// what the flow holds.
    pub counts_bytes: bool,
    /// A length in bytes that every flow that was added accepts, at most
    /// [`Packet::MAX_LEN`](crate::Packet::MAX_LEN): only for longer packets must
    /// [`FlowScheduler::max_len`] be asked. An arrival to a backlogged flow then reads no table of
    /// flows. 0 if no such length is known.
    pub common_max_len: u32,
}

/// What the queue of a flow holds, for [`FlowScheduler::recount`] to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowState {
    /// What it holds.
    pub backlog: Backlog,
    /// The length of its first packet, if it holds one.
    pub head_len: Option<u32>,
}

/// A configuration that is not accepted; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ConfigError {
    /// The flow's number is not below the number of flows.
    UnknownFlow {
        /// The flow named.
        flow: FlowId,
        /// Flows are numbered below this.
        flows: u32,
    },
    /// Only a flow that is idle can be changed so.
    Backlogged {
        /// The flow named.
        flow: FlowId,
    },
    /// A value is outside its range.
    OutOfRange {
        /// What the value is, with its unit.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The lowest accepted.
        min: u64,
        /// The highest accepted.
        max: u64,
    },
}

impl ConfigError {
    /// `Ok` if `value` is in `min..=max`.
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
                write!(f, "flow {} is not below the {flows} flows there is room for", flow.0)
            }
            Self::Backlogged { flow } => {
                write!(f, "flow {} is backlogged (expected an idle one)", flow.0)
            }
            Self::OutOfRange { what, value, min, max } => {
                write!(f, "{what} {value} is outside {min}..={max}")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
