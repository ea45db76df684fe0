//! The [`Scheduler`] trait: what goes in, what comes out, and what is dropped.
//!
//! After every call, for packets and for bytes (the length stored at enqueue):
//!
//! > offered = rejected + delivered + dropped after acceptance + queued
//!
//! and every handle given in comes out exactly once: returned by [`Scheduler::dequeue`], passed to
//! the [`DropSink`], or handed back in [`Rejected`]. [`Scheduler::recount`] checks the counters
//! against the queues themselves.

use core::fmt;
use core::ops::DerefMut;

use crate::{FlowId, Nanos, Packet};

/// The reason why a packet was dropped after it had been accepted.
///
/// The number of a reason, `reason as u8`, never changes: programs in other languages use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full when another packet arrived: longest-queue drop, or head drop of a FIFO.
    Overflow = 0,
    /// The AQM dropped the packet at dequeue. A packet that the AQM drops on arrival was never
    /// accepted: see [`RejectReason::Aqm`].
    Aqm = 1,
    /// A limit was set below the current backlog.
    LimitLowered = 2,
    /// The packet's flow was removed.
    FlowRemoved = 3,
    /// The scheduler was emptied by [`Scheduler::drain`].
    Drained = 4,
    /// The queue was full, and the victim's queue had not been served for so long that all of it
    /// was dropped ([`ShortestQueue::flush_unserved`](crate::ShortestQueue::flush_unserved)).
    Unserved = 5,
    /// An acknowledgement made redundant by later ones of its flow, removed by an ACK filter
    /// ([`FlowQueues::filter_out`](crate::FlowQueues::filter_out)). Not a congestion signal.
    Filtered = 6,
    /// Never accepted: a packet of a burst that [`Scheduler::enqueue`] would have rejected.
    Rejected = 7,
}

impl DropReason {
    /// Number of reasons that count as drops after acceptance (all but [`DropReason::Rejected`]).
    pub const COUNT: usize = 7;
    /// All reasons that count as drops after acceptance, each once.
    pub const ALL: &'static [Self] = &[
        Self::Overflow,
        Self::Aqm,
        Self::LimitLowered,
        Self::FlowRemoved,
        Self::Drained,
        Self::Unserved,
        Self::Filtered,
    ];

    /// Returns a short name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Aqm => "aqm",
            Self::LimitLowered => "limit lowered",
            Self::FlowRemoved => "flow removed",
            Self::Drained => "drained",
            Self::Unserved => "unserved",
            Self::Filtered => "filtered",
            Self::Rejected => "rejected",
        }
    }
}

/// Receives packets that are dropped after they were accepted.
///
/// Called inside the operation that drops, at most once per handle. Implemented for every
/// `FnMut(Packet, DropReason)`.
///
/// ```
/// use sched_core::{
///     Descriptor, DropReason, DropSink, Fifo, FlowId, Limits, Nanos, Packet, Scheduler,
/// };
///
/// /// Free buffers, and the number of packets dropped on overflow.
/// struct Pool {
///     free: Vec<u32>,
///     overflows: u64,
/// }
///
/// impl DropSink for Pool {
///     fn dropped(&mut self, packet: Packet, reason: DropReason) {
///         self.free.push(packet.handle);
///         self.overflows += u64::from(reason == DropReason::Overflow);
///     }
/// }
///
/// let mut pool = Pool { free: vec![0, 1, 2], overflows: 0 };
/// let mut fifo = Fifo::head_drop([Descriptor::EMPTY; 3], Limits::packets(1));
/// for _ in 0..2 {
///     let handle = pool.free.pop().expect("a free buffer");
///     fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 1_500), &mut pool)?;
/// }
/// assert_eq!((pool.free.len(), pool.overflows), (2, 1));
/// # Ok::<(), sched_core::Rejected>(())
/// ```
pub trait DropSink {
    /// Takes `packet` back. From now on the caller may reuse its handle.
    fn dropped(&mut self, packet: Packet, reason: DropReason);
}

impl<F: FnMut(Packet, DropReason)> DropSink for F {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self(packet, reason);
    }
}

/// The reason why a packet was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RejectReason {
    /// The flow was never added, or has been removed.
    UnknownFlow {
        /// The flow passed to the call.
        flow: FlowId,
        /// Number of flows; valid numbers are below it.
        flows: u32,
    },
    /// The length is outside `1..=max`.
    Length {
        /// The length of the packet, in bytes.
        len: u32,
        /// The longest packet that this flow accepts, in bytes.
        max: u32,
    },
    /// The handle has no descriptor.
    UnknownHandle {
        /// The handle of the packet.
        handle: u32,
        /// Number of descriptors; valid handles are below it.
        descriptors: u32,
    },
    /// A packet with this handle is already queued, in the same class of a hierarchy.
    HandleInUse {
        /// The handle of the packet.
        handle: u32,
    },
    /// The packet would exceed the limits, and no other packet is dropped for it.
    Full {
        /// The limits in force.
        limits: Limits,
    },
    /// The AQM dropped the packet on arrival because its flow sends too fast.
    Aqm,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownFlow { flow, flows } => {
                write!(f, "flow {} is unknown (expected an added flow below {flows})", flow.0)
            }
            Self::Length { len, max } => {
                write!(f, "length {len} is out of range (expected 1 to {max} bytes)")
            }
            Self::UnknownHandle { handle, descriptors } => {
                write!(f, "handle {handle} is out of range (expected below {descriptors})")
            }
            Self::HandleInUse { handle } => write!(f, "handle {handle} is already queued"),
            Self::Full { limits } => write!(
                f,
                "the packet does not fit (expected at most {} packets and {} bytes)",
                limits.packets, limits.bytes
            ),
            Self::Aqm => write!(f, "dropped by the AQM; the sender should slow down"),
        }
    }
}

/// A packet that was not accepted, handed back with the reason.
///
/// Apart from the count of rejections, the scheduler is unchanged. One exception: if longest-queue
/// drop selects the arriving packet itself as a victim, other packets may have been dropped before
/// it, and for the flow scheduler the packet arrived and was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rejected {
    /// The packet; the caller owns it again.
    pub packet: Packet,
    /// The reason.
    pub reason: RejectReason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} rejected: {}", self.packet.handle, self.reason)
    }
}

impl core::error::Error for Rejected {}

/// The most packets and bytes that may be queued. Both limits hold after every call.
///
/// ```
/// use sched_core::Limits;
///
/// // 150,000 bytes and at most 255 packets: one of 256 buffers stays free for the next arrival.
/// let limits = Limits::bytes(150_000).within_pool(256);
/// assert_eq!((limits.packets, limits.bytes), (255, 150_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Limits {
    /// Maximum number of packets. 0 rejects everything.
    pub packets: u32,
    /// Maximum number of bytes. 0 rejects everything; values above [`Limits::MAX_BYTES`] count as
    /// [`Limits::MAX_BYTES`].
    pub bytes: u32,
}

impl Limits {
    /// The highest byte limit: one longest packet below 2^32, so that counters do not overflow when
    /// the arriving packet exceeds the limit.
    pub const MAX_BYTES: u32 = u32::MAX - Packet::MAX_LEN;
    /// No limit but the number of descriptors and [`Limits::MAX_BYTES`].
    pub const NONE: Self = Self { packets: u32::MAX, bytes: Self::MAX_BYTES };

    /// Creates a limit of `packets` packets of any length.
    #[must_use]
    pub const fn packets(packets: u32) -> Self {
        Self { packets, ..Self::NONE }
    }

    /// Creates a limit of `bytes` bytes in any number of packets.
    #[must_use]
    pub const fn bytes(bytes: u32) -> Self {
        Self { bytes, ..Self::NONE }
    }

    /// Lowers the packet limit to one less than a pool of `buffers`, so that one buffer stays free
    /// for the next arrival.
    ///
    /// **The queue must be full before the pool is empty.** When limits are exceeded, the drop
    /// policy selects the victim, such as the longest queue or the host with the longest backlog.
    /// When the pool is empty, no buffer is left to receive the next packet and the device drops
    /// whatever arrives, from a light flow as well as from a heavy one. A limit in bytes alone does
    /// not prevent this: 256 buffers of 200-byte packets hold only 51,200 bytes. Subtract buffers
    /// that are elsewhere, for instance in the device's rings. If the pool is shared with other
    /// queues, [`Scheduler::evict`] frees a buffer on demand.
    ///
    /// ```
    /// use sched_core::Limits;
    ///
    /// assert_eq!(Limits::bytes(150_000).within_pool(256), Limits { packets: 255, bytes: 150_000 });
    /// ```
    #[must_use]
    pub const fn within_pool(self, buffers: u32) -> Self {
        let most = buffers.saturating_sub(1);
        Self { packets: if self.packets < most { self.packets } else { most }, ..self }
    }

    /// Returns the memory that a packet of `len` bytes takes if memory is allocated in units of
    /// `granule` bytes. With a granule of 2,048, a packet of 64 bytes takes 2,048 and one of 3,000
    /// takes 4,096. A granule of 0 counts as 1; saturates at `u32::MAX`.
    #[must_use]
    pub const fn footprint(len: u32, granule: u32) -> u32 {
        match len.checked_next_multiple_of(if granule > 1 { granule } else { 1 }) {
            Some(bytes) => bytes,
            None => u32::MAX,
        }
    }

    /// Lowers the packet limit to the number of packets that fit into `memory` bytes of buffers,
    /// allocated in units of `granule` bytes, if no packet is longer than `longest`. Memory then
    /// stays within the limit whatever is queued, because every packet is counted with the longest
    /// length. Exact if every packet takes one buffer. The limit is 0 packets if not even one fits.
    /// Cost: two divisions.
    ///
    /// ```
    /// use sched_core::Limits;
    ///
    /// // 1 MiB of buffers of 2,048 bytes: 512 packets of up to 1,514 bytes.
    /// assert_eq!(Limits::NONE.within_memory(1 << 20, 2_048, 1_514).packets, 512);
    /// // Frames of up to 9,014 bytes in chains of up to five such buffers.
    /// assert_eq!(Limits::NONE.within_memory(1 << 20, 2_048, 9_014).packets, 102);
    /// ```
    #[must_use]
    pub const fn within_memory(self, memory: u32, granule: u32, longest: u32) -> Self {
        let each = Self::footprint(if longest > 0 { longest } else { 1 }, granule);
        let most = match memory.checked_div(each) {
            Some(packets) => packets,
            None => 0,
        };
        Self { packets: if self.packets < most { self.packets } else { most }, ..self }
    }

    pub(crate) const fn clamped(self) -> Self {
        let bytes = if self.bytes < Self::MAX_BYTES { self.bytes } else { Self::MAX_BYTES };
        Self { bytes, ..self }
    }
}

/// A number of packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// Bytes, as given at enqueue.
    pub bytes: u32,
}

impl Backlog {
    pub(crate) const fn add(&mut self, len: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(len);
    }

    pub(crate) const fn sub(&mut self, len: u32) {
        self.packets = self.packets.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(len);
    }

    /// Raises both values to at least those of `other`.
    pub(crate) const fn raise(&mut self, other: Self) {
        if self.packets < other.packets {
            self.packets = other.packets;
        }
        if self.bytes < other.bytes {
            self.bytes = other.bytes;
        }
    }
}

/// Snapshot of a [`Scheduler`]: backlog, counters and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Books {
    /// Packets and bytes currently queued.
    pub backlog: Backlog,
    /// Packets and bytes by outcome since construction, over all flows.
    pub counters: crate::Counters,
    /// The limits in force.
    pub limits: Limits,
}

/// A queue of packets that decides which packet is next and which is dropped.
///
/// Object-safe. No call allocates or blocks. The work per call does not depend on the backlog
/// unless a method says so.
///
/// A loop that serves any scheduler, shaped or not:
///
/// ```
/// use sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
///
/// /// Sends what may leave at `now`; returns when to come again.
/// fn serve(queue: &mut dyn Scheduler, now: Nanos, send: &mut dyn FnMut(u32)) -> Option<Nanos> {
///     let drops =
///         &mut |packet: Packet, why| println!("buffer {} is free: {why:?}", packet.handle);
///     while let Some(packet) = queue.dequeue(now, drops) {
///         send(packet.handle);
///     }
///     queue.poll_at(now)
/// }
///
/// let mut fifo = Fifo::tail_drop([Descriptor::EMPTY; 8], Limits::packets(8));
/// let drops = &mut |_: Packet, _why| ();
/// for handle in 0..3 {
///     fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 1_500), drops)?;
/// }
/// let mut sent = Vec::new();
/// let next = serve(&mut fifo, Nanos(0), &mut |handle| sent.push(handle));
/// assert_eq!(next, None, "nothing is queued");
/// assert_eq!(sent, [0, 1, 2]);
/// # Ok::<(), sched_core::Rejected>(())
/// ```
pub trait Scheduler {
    /// Adds `packet` to the queue of `flow` at time `now`.
    ///
    /// `Ok` means that this packet is queued. Packets that were dropped for it went to `drops`.
    ///
    /// # Errors
    /// [`Rejected`] hands the packet back; `drops` does not receive it.
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    /// Removes and returns the next packet, if one may leave at `now`.
    ///
    /// Packets that an AQM drops in the process go to `drops`.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet>;

    /// Returns the packet that [`Scheduler::dequeue`] would return at `now`, without changing
    /// anything.
    fn peek(&self, now: Nanos) -> Option<Packet>;

    /// Returns the next eligible time after [`Scheduler::dequeue`] has returned `None` at `now`.
    ///
    /// `None`: not before something is enqueued. `Some(now)`: a packet is ready. A later time: a
    /// shaper is closed until then.
    ///
    /// If the clock steps back by up to a second, the returned time is off by as much. After a
    /// longer step it is counted from the new time.
    fn poll_at(&self, now: Nanos) -> Option<Nanos>;

    /// Returns true if this scheduler is not work-conserving, so that all queued packets may have
    /// to wait. If false, a packet may leave whenever one is queued, and [`Scheduler::poll_at`]
    /// adds no information.
    #[inline]
    fn waits(&self) -> bool {
        true
    }

    /// Returns the backlog, the counters since construction, and the limits in force.
    fn books(&self) -> Books;

    /// Returns the packets and bytes currently queued: [`Books::backlog`]. Overridden where summing
    /// up the counters takes time.
    fn backlog(&self) -> Backlog {
        self.books().backlog
    }

    /// Returns what happened to packets since construction, over all flows: [`Books::counters`].
    fn counters(&self) -> crate::Counters {
        self.books().counters
    }

    /// Returns the limits in force: [`Books::limits`]. Overridden where summing up the counters
    /// takes time.
    fn limits(&self) -> Limits {
        self.books().limits
    }

    /// Returns the counters of `flow`; `None` if the scheduler keeps no per-flow counters, which is
    /// the default.
    fn flow_counters(&self, _flow: FlowId) -> Option<crate::Counters> {
        None
    }

    /// Changes the limits. Packets that exceed them are dropped at once, with the order and the
    /// victims of an overflow. Cost: O(packets dropped).
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink);

    /// Drops one packet to free its buffer: the victim of an overflow, with
    /// [`DropReason::Overflow`]. Returns false if nothing is queued.
    ///
    /// For a caller whose buffer pool runs empty before the limits bind. Without a free buffer
    /// nothing can arrive, so the drop policy never decides and the device drops packets of any
    /// flow. A limit within the pool ([`Limits::within_pool`]) makes this call unnecessary. If an
    /// overflow would reject the arriving packet itself, this call drops the packet that a lower
    /// limit would drop. Cost: that of one packet in [`Scheduler::set_limits`].
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool;

    /// Drops every packet, into `drops`; the configuration stays. Cost: O(packets).
    fn drain(&mut self, drops: &mut dyn DropSink);

    /// Enqueues a burst in order, all at time `now`, and returns the number accepted. Rejected
    /// packets go to `drops` with [`DropReason::Rejected`].
    ///
    /// Equivalent to one [`Scheduler::enqueue`] per packet: a rejected packet does not affect those
    /// behind it. Bursts of 32 packets or more cost least, because a queue with large tables
    /// prefetches the memory of 32 packets at once.
    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut accepted = 0;
        for &(flow, packet) in burst {
            match self.enqueue(now, flow, packet, drops) {
                Ok(()) => accepted += 1,
                Err(rejected) => drops.dropped(rejected.packet, DropReason::Rejected),
            }
        }
        accepted
    }

    /// Fills `out` from the front with the packets that leave next at `now`, and returns their
    /// number. The rest of `out` is untouched.
    ///
    /// Equivalent to calling [`Scheduler::dequeue`] up to its first `None`.
    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        let mut filled = 0;
        for place in out {
            let Some(packet) = self.dequeue(now, drops) else { break };
            *place = packet;
            filled += 1;
        }
        filled
    }

    /// Recounts the queues and compares the result with the counters. For tests: O(descriptors +
    /// flows).
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self) -> Result<(), Imbalance>;
}

/// Forwards [`Scheduler`] methods to `$inner`: all but the enqueue methods, `flow_counters` and
/// `recount`.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_to_scheduler {
    ($self:ident => $inner:expr) => {
        #[inline(always)] // Inlined like the enqueue methods.
        fn dequeue(
            &mut $self,
            now: $crate::Nanos,
            drops: &mut dyn $crate::DropSink,
        ) -> Option<$crate::Packet> {
            $inner.dequeue(now, drops)
        }

        fn dequeue_burst(
            &mut $self,
            now: $crate::Nanos,
            out: &mut [$crate::Packet],
            drops: &mut dyn $crate::DropSink,
        ) -> usize {
            $inner.dequeue_burst(now, out, drops)
        }

        fn peek(&$self, now: $crate::Nanos) -> Option<$crate::Packet> {
            $inner.peek(now)
        }

        fn poll_at(&$self, now: $crate::Nanos) -> Option<$crate::Nanos> {
            $inner.poll_at(now)
        }

        #[inline]
        fn waits(&$self) -> bool {
            $inner.waits()
        }

        fn backlog(&$self) -> $crate::Backlog {
            $inner.backlog()
        }

        fn limits(&$self) -> $crate::Limits {
            $inner.limits()
        }

        fn books(&$self) -> $crate::Books {
            $inner.books()
        }

        fn set_limits(&mut $self, limits: $crate::Limits, drops: &mut dyn $crate::DropSink) {
            $inner.set_limits(limits, drops);
        }

        fn evict(&mut $self, drops: &mut dyn $crate::DropSink) -> bool {
            $inner.evict(drops)
        }

        fn drain(&mut $self, drops: &mut dyn $crate::DropSink) {
            $inner.drain(drops);
        }
    };
}

/// Implements [`Scheduler`] for every pointer to one (`&mut`, a box, a guard), so that wrappers can
/// borrow and the classes of a hierarchy can have different types.
impl<P> Scheduler for P
where
    P: DerefMut<Target: Scheduler>,
{
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        (**self).enqueue(now, flow, packet, drops)
    }

    crate::forward_to_scheduler!(self => (**self));

    fn flow_counters(&self, flow: FlowId) -> Option<crate::Counters> {
        (**self).flow_counters(flow)
    }

    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        (**self).enqueue_burst(now, burst, drops)
    }

    fn recount(&self) -> Result<(), Imbalance> {
        (**self).recount()
    }
}

/// A difference between the counters and the queues; always a bug of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Imbalance {
    /// The invariant that is violated.
    pub what: &'static str,
    /// Index of the flow, handle or group, depending on `what`.
    pub at: u32,
    /// The value that was accounted.
    pub booked: u64,
    /// The value that was counted.
    pub counted: u64,
}

impl Imbalance {
    /// Returns `Ok` if the two values agree.
    ///
    /// # Errors
    /// [`Imbalance`] if they do not.
    pub const fn check(what: &'static str, at: u32, booked: u64, counted: u64) -> Result<(), Self> {
        if booked == counted { Ok(()) } else { Err(Self { what, at, booked, counted }) }
    }
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at, booked, counted } = self;
        write!(f, "{what} at {at}: accounted {booked}, counted {counted}")
    }
}

impl core::error::Error for Imbalance {}
