//! The contract between packets, queues and drops.
//!
//! After every call, for packets and for bytes (the length stored at enqueue):
//!
//! > offered = rejected + delivered + dropped after acceptance + queued
//!
//! and every handle given in comes out exactly once: delivered by [`Scheduler::dequeue`], given to
//! the [`DropSink`], or handed back in [`Rejected`]. [`Scheduler::recount`] checks the books
//! against the queues themselves.

use core::fmt;
use core::ops::DerefMut;

use crate::{FlowId, Nanos, Packet};

/// Why an accepted packet left without being delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DropReason {
    /// Room was needed for an arrival: longest-queue drop, or head drop of a FIFO.
    Overflow,
    /// The AQM signalled congestion at delivery. An arrival that the AQM turns away was never
    /// accepted: [`RejectReason::Aqm`].
    Aqm,
    /// A limit was lowered below what was queued.
    LimitLowered,
    /// The packet's flow was removed.
    FlowRemoved,
    /// The scheduler was emptied by [`Scheduler::drain`].
    Drained,
    /// Room was needed, and the queue that had to make it had not been served for so long that all
    /// it held was dropped
    /// ([`ShortestQueue::flush_unserved`](crate::ShortestQueue::flush_unserved)).
    Unserved,
    /// Packets of its flow that are queued behind it say all that it says: an acknowledgement that
    /// a filter took out ([`FlowQueues::filter_out`](crate::FlowQueues::filter_out)). No sign of
    /// congestion.
    Filtered,
    /// Never accepted: an element of a burst that [`Scheduler::enqueue`] would have rejected.
    Rejected,
}

impl DropReason {
    /// How many reasons count as drops after acceptance (all but [`DropReason::Rejected`]).
    pub const COUNT: usize = 7;
    /// The reasons that count as drops after acceptance, each once.
    pub const ALL: &'static [Self] = &[
        Self::Overflow,
        Self::Aqm,
        Self::LimitLowered,
        Self::FlowRemoved,
        Self::Drained,
        Self::Unserved,
        Self::Filtered,
    ];

    /// Two or three words for tables.
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

/// Where packets go that are dropped after they were accepted.
///
/// Called inside the operation that drops, at most once per handle. Any `FnMut(Packet, DropReason)`
/// is one.
///
/// ```
/// use sched_core::{
///     Descriptor, DropReason, DropSink, Fifo, FlowId, Limits, Nanos, Packet, Scheduler,
/// };
///
/// /// Buffers that are free, and how many packets went for want of room.
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
    /// Takes `packet` back: its handle is the caller's again.
    fn dropped(&mut self, packet: Packet, reason: DropReason);
}

impl<F: FnMut(Packet, DropReason)> DropSink for F {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self(packet, reason);
    }
}

/// Why a packet was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RejectReason {
    /// There is no such flow: it was never added, or has been removed.
    UnknownFlow {
        /// The flow named.
        flow: FlowId,
        /// Flows are numbered below this.
        flows: u32,
    },
    /// The length is outside `1..=max`.
    Length {
        /// The length given, in bytes.
        len: u32,
        /// The longest packet this flow accepts, in bytes.
        max: u32,
    },
    /// There is no descriptor for this handle.
    UnknownHandle {
        /// The handle given.
        handle: u32,
        /// Handles are numbered below this.
        descriptors: u32,
    },
    /// A packet with this handle is queued already, in the same class of a hierarchy.
    HandleInUse {
        /// The handle given.
        handle: u32,
    },
    /// The packet does not fit into the limits, and nothing else is dropped for it.
    Full {
        /// The limits in force.
        limits: Limits,
    },
    /// The AQM turned the packet away: its flow sends too fast.
    Aqm,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownFlow { flow, flows } => {
                write!(f, "flow {} is not one of the flows added below {flows}", flow.0)
            }
            Self::Length { len, max } => write!(f, "length {len} is outside 1..={max} bytes"),
            Self::UnknownHandle { handle, descriptors } => {
                write!(f, "handle {handle} is not below the {descriptors} descriptors")
            }
            Self::HandleInUse { handle } => write!(f, "handle {handle} is queued already"),
            Self::Full { limits } => write!(
                f,
                "the packet does not fit into {} packets and {} bytes",
                limits.packets, limits.bytes
            ),
            Self::Aqm => write!(f, "the AQM turned the packet away; its sender is to slow down"),
        }
    }
}

/// A packet that was not accepted, handed back with the reason.
///
/// The scheduler is as it was, but for the count of rejections. Only where longest-queue drop found
/// the arrival itself to be a victim, others may have given way before it, and to the flow
/// scheduler it was a packet that came and was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rejected {
    /// The packet, the caller's again.
    pub packet: Packet,
    /// Why.
    pub reason: RejectReason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} rejected: {}", self.packet.handle, self.reason)
    }
}

impl core::error::Error for Rejected {}

/// What may be queued at once. Both hold after every call.
///
/// ```
/// use sched_core::Limits;
///
/// // 150,000 bytes, and never more packets than 255: one buffer of 256 stays free for the next arrival.
/// let limits = Limits::bytes(150_000).within_pool(256);
/// assert_eq!((limits.packets, limits.bytes), (255, 150_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Limits {
    /// Packets. 0 rejects everything.
    pub packets: u32,
    /// Bytes. 0 rejects everything; a limit above [`Limits::MAX_BYTES`] counts as
    /// [`Limits::MAX_BYTES`].
    pub bytes: u32,
}

impl Limits {
    /// The highest byte limit: one longest packet below 2^32, so that the arrival that overflows
    /// the limit still fits into the counters.
    pub const MAX_BYTES: u32 = u32::MAX - Packet::MAX_LEN;
    /// As many packets as there are descriptors, and [`Limits::MAX_BYTES`].
    pub const NONE: Self = Self { packets: u32::MAX, bytes: Self::MAX_BYTES };

    /// At most `packets` packets, whatever their length.
    #[must_use]
    pub const fn packets(packets: u32) -> Self {
        Self { packets, ..Self::NONE }
    }

    /// At most `bytes` bytes, however many packets.
    #[must_use]
    pub const fn bytes(bytes: u32) -> Self {
        Self { bytes, ..Self::NONE }
    }

    /// The same limits, and no more packets than a pool of `buffers` has, less one for the packet
    /// that arrives.
    ///
    /// **A queue must be full before its pool is empty.** Limits choose which packet gives way: one
    /// of the longest queue, of the longest host. A pool that is empty leaves nothing to receive
    /// the next packet in, and then the device drops whatever arrives, of a light flow as of a
    /// heavy one. A limit in bytes alone does not prevent that: 256 buffers of 200-byte packets are
    /// 51,200 bytes. Buffers that are elsewhere, in the hands of a device for instance, are not
    /// `buffers` of this pool: subtract them. Where the pool is shared with others,
    /// [`Scheduler::evict`] frees a buffer when one is wanted.
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

    /// The bytes of memory that a packet of `len` bytes takes where memory is given out in
    /// granules: 2,048 for 64 bytes in buffers of 2,048, and 4,096 for 3,000 in two of them. A
    /// granule of 0 counts as 1; saturates at `u32::MAX`.
    #[must_use]
    pub const fn footprint(len: u32, granule: u32) -> u32 {
        match len.checked_next_multiple_of(if granule > 1 { granule } else { 1 }) {
            Some(bytes) => bytes,
            None => u32::MAX,
        }
    }

    /// The same limits, and no more packets than fit into `memory` bytes of buffers as they are:
    /// given out in granules of `granule` bytes, to packets of which none is longer than `longest`.
    /// Memory is then within the limit after every call, whatever packets are queued: each has room
    /// for the longest. Where that is one buffer a packet, it is exact. No packet at all where not
    /// even one fits. Cost: two divisions, when a limit is set.
    ///
    /// ```
    /// use sched_core::Limits;
    ///
    /// // 1 MiB of buffers of 2,048 bytes: 512 packets, of 64 bytes or of 1,514.
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

/// Packets and bytes held.
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

    /// Raises both to at least those of `other`.
    pub(crate) const fn raise(&mut self, other: Self) {
        if self.packets < other.packets {
            self.packets = other.packets;
        }
        if self.bytes < other.bytes {
            self.bytes = other.bytes;
        }
    }
}

/// The books of a [`Scheduler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Books {
    /// Packets and bytes currently queued.
    pub backlog: Backlog,
    /// What has happened since construction, over all flows.
    pub counters: crate::Counters,
    /// The limits in force.
    pub limits: Limits,
}

/// A queue of packets that decides which packet is next and which is dropped.
///
/// Object-safe. Nothing allocates, nothing blocks, and the work of a call does not depend on how
/// much is queued, except where a method says so.
///
/// A loop that serves any of them, shaped or not:
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
    /// Takes `packet` into the queue of `flow` at instant `now`.
    ///
    /// `Ok` says that this packet is queued; packets that had to give way went to `drops`.
    ///
    /// # Errors
    /// [`Rejected`] hands the packet back; it was not given to `drops`.
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    /// Takes out the packet that leaves next, if one may leave at `now`.
    ///
    /// Packets that an AQM drops on the way go to `drops`.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet>;

    /// What [`Scheduler::dequeue`] would return at `now`; changes nothing.
    fn peek(&self, now: Nanos) -> Option<Packet>;

    /// When a [`Scheduler::dequeue`] that returns `None` at `now` is worth repeating.
    ///
    /// `None`: not before something is enqueued. `Some(now)`: a packet is ready. Later than `now`:
    /// a shaper is closed until then.
    ///
    /// A clock that steps back by up to a second puts the instant off by as much. After a longer
    /// step it is counted from the new time on.
    fn poll_at(&self, now: Nanos) -> Option<Nanos>;

    /// Returns true if all that is queued may have to wait: if not, a packet may leave whenever one
    /// is queued, at any time, and [`Scheduler::poll_at`] says no more than that.
    #[inline]
    fn waits(&self) -> bool {
        true
    }

    /// Returns what is queued, what has happened since construction, and the limits in force.
    fn books(&self) -> Books;

    /// Returns what is queued: [`Books::backlog`]. Overridden where the counters take time to sum
    /// up.
    fn backlog(&self) -> Backlog {
        self.books().backlog
    }

    /// Returns what has happened since construction, over all flows: [`Books::counters`].
    fn counters(&self) -> crate::Counters {
        self.books().counters
    }

    /// Returns the limits in force: [`Books::limits`].
    fn limits(&self) -> Limits {
        self.books().limits
    }

    /// Returns what has happened to `flow`; `None` where a scheduler keeps no counters of single
    /// flows, as by default.
    fn flow_counters(&self, _flow: FlowId) -> Option<crate::Counters> {
        None
    }

    /// Changes the limits. What exceeds them is dropped at once, in the order and with the victims
    /// that an overflow would choose; the rest stays as it is. Cost: O(packets dropped).
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink);

    /// Drops one packet, so that its buffer is free: the one that gives way to an arrival that
    /// finds no room, with [`DropReason::Overflow`]. Returns false if nothing is queued.
    ///
    /// For a caller whose pool of buffers is empty before the limits bind. Without a free buffer
    /// nothing can arrive, the drop policy is never asked, and the device drops instead, whatever
    /// the flow. A limit within the pool ([`Limits::within_pool`]) makes this call unnecessary.
    /// Where an arrival itself is rejected for want of room, the packet gives way that a lower
    /// limit would drop. Cost: that of one packet in [`Scheduler::set_limits`].
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool;

    /// Gives every packet back to `drops`; the configuration stays. Cost: O(packets).
    fn drain(&mut self, drops: &mut dyn DropSink);

    /// Enqueues a burst in order, at one instant; returns how many were accepted. Rejected packets
    /// go to `drops` with [`DropReason::Rejected`].
    ///
    /// The packets are queued, dropped and booked as by [`Scheduler::enqueue`] one by one: a packet
    /// that is rejected changes nothing for those behind it. A burst of 32 packets or more costs
    /// least, because a queue with large tables loads the memory of 32 packets at once.
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

    /// Fills `out` from the front with what leaves next at `now`; returns how many. The rest of
    /// `out` is untouched.
    ///
    /// The packets are those that [`Scheduler::dequeue`] gives one by one, up to its first `None`.
    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        let mut filled = 0;
        for place in out {
            let Some(packet) = self.dequeue(now, drops) else { break };
            *place = packet;
            filled += 1;
        }
        filled
    }

    /// Counts everything anew and compares it with the books. For tests: O(descriptors + flows).
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn recount(&self) -> Result<(), Imbalance>;
}

/// The methods of a scheduler that another one inside, `$inner`, has as they are: all but those by
/// which packets come, `flow_counters` and `recount`.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_to_scheduler {
    ($self:ident => $inner:expr) => {
        #[inline(always)] // as the enqueue of a scheduler
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

/// Whatever leads to a scheduler is one, so that wrappers need not own what they wrap and classes
/// may be of different types: a `&mut` reference, a box, a guard.
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

/// A place where the books and the queues disagree: always a bug of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Imbalance {
    /// The identity that is broken.
    pub what: &'static str,
    /// Where: a flow, a handle or a group, as `what` says.
    pub at: u32,
    /// What the books say.
    pub booked: u64,
    /// What was counted.
    pub counted: u64,
}

impl Imbalance {
    /// `Ok` if the two agree.
    ///
    /// # Errors
    /// The imbalance, if they do not.
    pub const fn check(what: &'static str, at: u32, booked: u64, counted: u64) -> Result<(), Self> {
        if booked == counted { Ok(()) } else { Err(Self { what, at, booked, counted }) }
    }
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at, booked, counted } = self;
        write!(f, "{what} at {at}: booked {booked}, counted {counted}")
    }
}

impl core::error::Error for Imbalance {}
