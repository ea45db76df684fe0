//! The queue that most users want: isolated flows and hosts, an AQM, a rate and buffers, assembled.

mod aqm;
mod builder;
mod device;
mod ecn;
mod frames;
#[cfg(feature = "alloc")]
mod heap;
mod host_rules;
mod memory_limit;
mod non_ip;
mod outlet;
mod pool;
mod reader;
mod rtt;
mod segments;
mod settings;
mod static_frames;
mod statistics;
mod tins;
mod wash;
#[cfg(not(feature = "alloc"))]
mod without_heap;

use core::fmt;

use sched_core::{
    AqmChoice, Backlog, Books, ConfigError, Counters, DropReason, DropSink, FlowId, Imbalance,
    Limits, Nanos, Packet, Rejected, Scheduler,
};
use shaper::{Overhead, Rate, Shaper};

pub use aqm::AqmKind;
pub use builder::{SmartQueueBuilder, SmartQueueError};
pub use device::DeviceRoom;
pub use ecn::mark_congestion;
pub use frames::{Frames, PushError};
#[cfg(feature = "alloc")]
pub use heap::{DescriptorQueue, FrameQueue};
pub use host_rules::{AllAlike, HostRules, HostTerms};
pub use memory_limit::{MemoryLimit, MemoryLimitError};
pub use pool::BufferState;
pub use reader::{FrameRead, FrameReader, LinkLayer};
pub use rtt::Rtt;
pub use static_frames::{StaticFrameQueue, StaticFrames};
pub use wash::clear_dscp;
#[cfg(not(feature = "alloc"))]
#[doc(hidden)]
pub use without_heap::FeatureAlloc;

use crate::ack_filter::{AckFilter, Acks};
use crate::isolation::{Isolated, IsolatedError, Isolation};
use crate::labelled_scheduler::LabelledScheduler;
use crate::labels::Labelled;
use crate::storage::{Slices, Storage};
use memory_limit::{Buffered, Memory};
use outlet::{Outlet, SmartAqm};

/// Isolated flows and hosts, sparse flows first, an AQM, a rate, back-pressure, and buffers if
/// wanted.
///
/// The rate is all that must be said ([`upload`](SmartQueue::upload),
/// [`download`](SmartQueue::download)); what [`SmartQueueBuilder`] fills in:
///
/// - **Isolation**: hosts of the local side share the line, the flows of a host its share:
///   `dual-srchost` on the way up, `dual-dsthost` on the way down.
/// - **AQM**: COBALT ([`AqmKind`]) for round-trip times of 100 ms ([`Rtt::INTERNET`]), its target
///   raised on slow lines ([`Rtt::aqm`]); and for packets with ECT(1) a shallow threshold in the
///   queue of their flow ([`Rtt::l4s`]).
/// - **Limits**: what the rate carries in four round-trip times, and no more frames than there are
///   buffers.
/// - **Overhead**: none; [`SmartQueueBuilder::framing`] takes the words of the link, `"pppoe-ptm"`
///   for one.
///
/// There are two levels, and a queue is of one of them, the parameter `P`:
///
/// | level | `P` | in | out | the bytes |
/// |---|---|---|---|---|
/// | with frames | [`Frames`] | [`push`](SmartQueue::push) | [`pop`](SmartQueue::pop) | are copied into buffers of the queue |
/// | by descriptor | [`Descriptors`] | [`enqueue`](SmartQueue::enqueue) | [`dequeue`](SmartQueue::dequeue) | stay with the caller |
///
/// A frame that a driver reads from its device need not be copied:
/// [`push_with`](SmartQueue::push_with). Addresses that are translated, weights, rates and ceilings
/// of single hosts, and hosts of several addresses: [`with_nat`](SmartQueue::with_nat),
/// [`with_host_rules`](SmartQueue::with_host_rules),
/// [`with_host_identity`](SmartQueue::with_host_identity).
///
/// With frames, the queue reads the headers, finds flow and hosts by a keyed hash, and writes the
/// mark of congestion into IPv4 and IPv6 headers. When no buffer is free a host that holds about
/// the most gives way, not the arrival.
///
/// ```
/// use freeboard::SmartQueue;
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
///
/// fn main() -> Result<(), Box<dyn core::error::Error>> {
///     let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(rand::random())?;
///     queue.push(Nanos(0), &[0; 1_000])?;
///     while let Some(frame) = queue.pop(Nanos(0)) {
///         println!("{} bytes leave now", frame.len());
///     }
///     Ok(())
/// }
/// ```
///
/// **Time.** The caller passes it in, and [`poll_at`](SmartQueue::poll_at) says when to come again.
/// A clock that steps back by up to a second stands still until it is there again; after a longer
/// step time goes on from the new reading ([`Shaped`](shaper::Shaped)).
/// [`TickClock`](sched_core::TickClock) makes a clock of a counter of 32 bits.
///
/// **Back-pressure.** [`set_device`](SmartQueue::set_device) says what the device behind takes,
/// with a rate or [without one](Rate::UNLIMITED). Packets wait here meanwhile, each flow in its own
/// queue, and their waiting counts for the AQM. A line makes good the time that a device was busy
/// as it does for a caller that is late, up to 10 ms ([`Shaped`](shaper::Shaped)).
///
/// A device that says only when it is offered a frame whether it has room:
/// [`pop_if`](SmartQueue::pop_if) takes no frame out that the device refuses, so that no frame is
/// lost. With an asynchronous device, `try_send` inside `pop_if`, and await outside of it:
///
/// ```
/// # use freeboard::{FrameQueue, SmartQueue};
/// # use freeboard::sched_core::Nanos;
/// # use freeboard::shaper::Rate;
/// # struct Device(usize);
/// # impl Device {
/// #     fn try_send(&mut self, _: &[u8]) -> Result<(), ()> {
/// #         self.0 = self.0.checked_sub(1).ok_or(())?;
/// #         Ok(())
/// #     }
/// # }
/// fn send_all(queue: &mut FrameQueue, device: &mut Device, now: Nanos) {
///     while queue.pop_if(now, |frame| device.try_send(frame).is_ok()) {}
///     // Now await the device, the next arrival, or the instant `queue.poll_at(now)`.
/// }
/// # let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames([42; 16])?;
/// # for _ in 0..3 { queue.push(Nanos(0), &[0; 60])?; }
/// # send_all(&mut queue, &mut Device(2), Nanos(0));
/// # assert_eq!(queue.backlog().packets, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Memory.** On the heap ([`SmartQueueBuilder::frames`]), in a `static` ([`StaticFrames`]), or in
/// tables of the caller's ([`SmartQueueBuilder::descriptors_in`]). Nothing is allocated after
/// construction. The value itself takes up to 1.6 kB.
///
/// **Threads.** A queue is `Send` and `Sync`: it may be moved to another thread, and one that is
/// shared stands behind a lock, since it takes and gives packets by `&mut self`. The same holds for
/// [`Isolated`], [`Hashed`](crate::Hashed), [`Buffers`](crate::Buffers) and
/// [`Shaped`](shaper::Shaped), and for the types of `sched_core`, wherever their parameters are
/// `Send` and `Sync`: a [NAT](SmartQueue::with_nat), [rules](SmartQueue::with_host_rules) or an AQM
/// of the caller's.
///
/// **Cost.** By descriptor, that of [`Isolated`] behind a [`Shaped`](shaper::Shaped) line. With
/// frames, a copy, a parse and a hash on the way in.
pub struct SmartQueue<S: Storage, P = Descriptors> {
    outlet: Outlet<S>,
    packets: P,
}

/// A summary, without tables and buffers.
impl<S: Storage, P> fmt::Debug for SmartQueue<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SmartQueue");
        debug.field("rate", &format_args!("{}", self.line().rate()));
        debug.field("isolation", &self.isolation()).field("aqm", &self.aqm());
        debug.field("tins", &self.tins().count()).field("limits", &self.limits());
        debug.field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}

/// By descriptor: the bytes of packets stay in buffers of the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors;

impl Buffered for Descriptors {
    fn own_buffer_len(&self) -> Option<u32> {
        None
    }
}

/// Where tables lie is said at the end of the builder; here it is any place.
impl SmartQueue<Slices<'static>> {
    /// A queue for the way from the local hosts to the line: they are the sources.
    #[must_use]
    pub const fn upload(rate: Rate) -> SmartQueueBuilder {
        SmartQueueBuilder::new(rate, Isolation::DualSrcHost, sched_core::Side::Source)
    }

    /// A queue for the way from the line to the local hosts: they are the destinations.
    #[must_use]
    pub const fn download(rate: Rate) -> SmartQueueBuilder {
        SmartQueueBuilder::new(rate, Isolation::DualDstHost, sched_core::Side::Destination)
    }
}

impl<S: Storage, P> SmartQueue<S, P> {
    /// Returns when to call `pop` or `dequeue` next: `now` if a packet may leave, later if the link
    /// is busy until then. After the clock has stepped back by more than a second it is `now`: the
    /// call with this timestamp sets the link right, and if it returns nothing, the next answer is
    /// the instant at which a packet leaves.
    ///
    /// `None` if nothing is queued, if the link is [stopped](Rate::STOPPED), or while the device
    /// has no room for what is next: then after the next arrival, rate or
    /// [device](Self::set_device). A caller that sleeps until `poll_at` also wakes up for these.
    #[must_use]
    pub fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.outlet.poll_at(now)
    }

    /// Another rate from `now` on, for what is still owed too ([`Shaper::set_rate`]). The target of
    /// the AQM goes with it, and the limit in bytes is raised, unless the caller has set limits; it
    /// is not lowered, so that nothing is dropped. Buffers are as many as at construction: a rate
    /// that is to grow tenfold later wants [`SmartQueueBuilder::buffers`].
    ///
    /// Cost: O(tins), with divisions. Where the limit in bytes is raised so far that the grain of
    /// [`LongestHostDrop`](sched_core::LongestHostDrop::grain) changes, O(hosts) as well.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.outlet.line.set_rate(now, rate);
        self.follow();
    }

    /// Another round-trip time, for the AQM; the limit in bytes is raised as for a
    /// [rate](Self::set_rate).
    pub fn set_rtt(&mut self, rtt: Rtt) {
        self.outlet.rtt = rtt;
        self.follow();
    }

    /// Another line, with its rate, its catch-up and what it still owes: that of a queue which this
    /// queue replaces, or [this queue's](Self::line) with another
    /// [catch-up](Shaper::with_catch_up). The AQM and the limit in bytes go with the rate of the
    /// line, as for [`set_rate`](Self::set_rate), whose cost it has.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// let exact = queue.line().clone().with_catch_up(Nanos::ZERO);
    /// queue.set_line(exact);
    /// assert_eq!(queue.line().catch_up(), Nanos::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_line(&mut self, line: Shaper) {
        self.outlet.line.set_line(line);
        self.follow();
    }

    /// AQM and limits for the rate and the round-trip time in force.
    fn follow(&mut self) {
        self.follow_rate_in_tins();
        self.follow_in_tins(self.aqm(), self.is_l4s());
        let (rate, in_force) = (self.outlet.line.line().rate(), self.limits());
        let mut asked = self.outlet.memory.map_or(in_force, |memory| memory.asked);
        if self.outlet.is_by_rate {
            asked.bytes = asked.bytes.max(self.outlet.rtt.limit_bytes(rate, self.outlet.max_len));
        }
        if let Some(memory) = &mut self.outlet.memory {
            memory.asked = asked;
            memory.follow(rate, self.outlet.rtt);
        }
        let limits = self.within_memory(asked);
        if limits != in_force {
            // Not lower than they were.
            self.outlet.line.set_limits(limits, &mut |_: Packet, _: DropReason| {});
        }
    }

    /// `limits`, and those that keep to the memory limit.
    fn within_memory(&mut self, limits: Limits) -> Limits {
        let Some(memory) = &mut self.outlet.memory else { return limits };
        memory.asked = limits;
        memory.limits()
    }

    /// Takes note of another memory limit; returns the limits that keep to it.
    fn limit_memory(&mut self, limit: Option<MemoryLimit>) -> Result<Limits, MemoryLimitError> {
        let asked = self.outlet.memory.map_or(self.limits(), |memory| memory.asked);
        let line = (self.outlet.line.line().rate(), self.outlet.rtt);
        let sizes = (self.outlet.buffer, self.outlet.max_len);
        let limited = |setting| Memory::new(setting, line, sizes, asked);
        self.outlet.memory = limit.map(limited).transpose()?;
        Ok(self.within_memory(asked))
    }

    /// The most bytes of buffers that packets may take while they are queued, if that is limited:
    /// [`SmartQueueBuilder::memory_limit`].
    #[must_use]
    pub fn memory_limit(&self) -> Option<u32> {
        self.outlet.memory.map(|memory| memory.bytes)
    }

    /// The bytes of buffers that packets take which are queued.
    #[must_use]
    pub fn memory_held(&self) -> u64 {
        let Backlog { packets, bytes } = self.backlog();
        let in_buffers = |buffer: u32| u64::from(packets).saturating_mul(buffer.into());
        self.outlet.buffer.map_or(bytes.into(), in_buffers)
    }

    /// Another setting of the AQM, for all tins, until rate, line, tins or round-trip time change.
    /// Cost: O(queues) for another AQM than there is.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], and nothing has changed.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::{AqmChoice, CoDelParams};
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// queue.set_aqm_params(AqmChoice::CoDel(CoDelParams::INTERNET.with_mtu(9_000)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_aqm_params(&mut self, params: AqmChoice) -> Result<(), ConfigError> {
        self.chosen_mut().set_choice(params)
    }

    /// Another AQM, for the rate and the round-trip time in force. It begins with queues without a
    /// history. The same one keeps what it has learned, and loses [other
    /// parameters](Self::set_aqm_params). Cost: O(queues).
    pub fn set_aqm(&mut self, kind: AqmKind) {
        self.follow_in_tins(kind, self.is_l4s());
    }

    /// Which AQM is in the queues.
    #[must_use]
    pub fn aqm(&self) -> AqmKind {
        AqmKind::of(self.chosen().choice())
    }

    /// Whether packets with ECT(1) are marked above a shallow threshold, from the next packet on:
    /// [`SmartQueueBuilder::l4s`].
    pub fn set_l4s(&mut self, on: bool) {
        let (plan, rate) = (*self.tins(), self.outlet.line.line().rate());
        let (rtt, max_len) = (self.outlet.rtt, self.outlet.max_len);
        for tin in 0..self.chosen().tins() {
            let l4s = on.then(|| rtt.l4s(plan.rate(tin, rate), max_len));
            let _in_range = self.chosen_mut().set_l4s_in(tin, l4s);
            debug_assert_eq!(_in_range, Ok(()), "round-trip times are in range");
        }
    }

    /// Whether packets with ECT(1) are marked above a shallow threshold.
    #[must_use]
    pub fn is_l4s(&self) -> bool {
        self.chosen().l4s().is_some()
    }

    /// How much of acknowledgements that wait is dropped, from the next packet on:
    /// [`SmartQueueBuilder::ack_filter`].
    pub const fn set_ack_filter(&mut self, filter: AckFilter) {
        self.outlet.ack_filter = filter;
    }

    /// How much of acknowledgements that wait is dropped. [`Counters::dropped_for`] of
    /// [`DropReason::Filtered`] counts them.
    #[must_use]
    pub const fn ack_filter(&self) -> AckFilter {
        self.outlet.ack_filter
    }

    fn chosen(&self) -> &SmartAqm<S> {
        self.isolated().aqm()
    }

    fn chosen_mut(&mut self) -> &mut SmartAqm<S> {
        self.outlet.line.inner_mut().aqm_mut()
    }

    /// Forgets what the line still carries: the next packet may leave at once, also by a clock that
    /// reads up to a second less. After a longer step back the line goes on by itself.
    pub fn reset_line(&mut self) {
        self.outlet.line.reset_line();
    }

    /// What a packet is on the wire, from the next that leaves on.
    pub fn set_overhead(&mut self, link: Overhead) {
        self.outlet.line.set_overhead(link);
        self.outlet.line.inner_mut().set_overhead(link);
    }

    /// Whether the line is charged what is dropped, from now on: [`SmartQueueBuilder::ingress`].
    pub fn set_ingress(&mut self, on: bool) {
        self.outlet.line.set_ingress(on);
    }

    /// Whether the line is charged what is dropped.
    #[must_use]
    pub const fn is_ingress(&self) -> bool {
        self.outlet.line.is_ingress()
    }

    /// What the device behind the queue takes, from now on: back-pressure, beside the rate. See
    /// [`DeviceRoom`]. After [`DeviceRoom::Busy`] nothing leaves until the driver says
    /// [`DeviceRoom::Ready`], or [adds room](Self::add_room).
    pub const fn set_device(&mut self, device: DeviceRoom) {
        self.outlet.device = device;
    }

    /// The device has sent, and has room for `bytes` more. Without effect while it is
    /// [`DeviceRoom::Ready`].
    pub const fn add_room(&mut self, bytes: u32) {
        self.outlet.device = self.outlet.device.with_more(bytes);
    }

    /// What the device takes, less what it was given since that was said.
    #[must_use]
    pub const fn device(&self) -> DeviceRoom {
        self.outlet.device
    }

    /// What is queued.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.outlet.line.backlog()
    }

    /// What has happened since construction.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.outlet.line.counters()
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.outlet.line.limits()
    }

    /// The line: its rate, and when it is free.
    pub const fn line(&self) -> &Shaper {
        self.outlet.line.line()
    }

    /// What a packet is on the wire.
    pub const fn overhead(&self) -> Overhead {
        self.outlet.line.overhead()
    }

    /// The round-trip time that the AQM is set for.
    #[must_use]
    pub const fn rtt(&self) -> Rtt {
        self.outlet.rtt
    }

    /// What shares the line.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.outlet.line.inner().isolation()
    }

    /// How many source hosts, and how many destination hosts, have packets queued: 0 on a side that
    /// does not count ([`Isolated::backlogged_hosts`]).
    #[must_use]
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        self.outlet.line.inner().backlogged_hosts()
    }

    /// The isolated queues, to look at.
    #[must_use]
    pub const fn isolated(&self) -> &Isolated<S, SmartAqm<S>> {
        self.outlet.line.inner()
    }
}

/// By descriptor. The method [`enqueue`](Self::enqueue) isolates hosts; that of [`Scheduler`],
/// which knows a label for the flow only, makes each flow its own host.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Takes `packet`, which has these labels, at instant `now`. Packets that had to give way go to
    /// `drops`.
    ///
    /// # Errors
    /// [`Rejected`] hands the packet back.
    #[inline(always)] // as `dequeue`
    pub fn enqueue(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.outlet.enqueue(now, labels, packet, drops)
    }

    /// As [`enqueue`](Self::enqueue), with the [filter](Self::set_ack_filter) of acknowledgements:
    /// `acks` reads this packet and those that are queued, up to [`AckFilter::REACH`] of them, in
    /// the caller's buffers. What it drops goes to `drops`.
    ///
    /// # Errors
    /// [`Rejected`] hands the packet back; nothing is filtered then.
    ///
    /// ```
    /// use freeboard::flowhash::{Ack, Labels, parse};
    /// use freeboard::sched_core::{DropReason, Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{AckFilter, SmartQueue};
    ///
    /// // From 10.0.0.1 port 80 to 10.0.0.2 port 8080.
    /// let ack = |number: u8| {
    ///     let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ///     let tcp = [0, 80, 0x1f, 0x90, 0, 0, 0, 7, 0, 0, 0, number, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
    ///     [ip, tcp].concat()
    /// };
    /// let buffers = [1, 2, 3].map(ack);
    /// let acks = |packet: Packet| {
    ///     let bytes = &buffers[packet.handle as usize];
    ///     Ack::read(bytes, &parse::ip(bytes))
    /// };
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(1)?).raw_ip();
    /// let mut queue = builder.ack_filter(AckFilter::Aggressive).descriptors()?;
    /// let mut gone = Vec::new();
    /// let drops = &mut |packet: Packet, why: DropReason| gone.push((packet.handle, why));
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// for handle in 0..3 {
    ///     queue.enqueue_with_acks(Nanos(0), &labels, Packet::new(handle, 40), &acks, drops)?;
    /// }
    /// assert_eq!(gone, [(0, DropReason::Filtered), (1, DropReason::Filtered)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enqueue_with_acks(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        acks: &(impl Acks + ?Sized),
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let filter = self.outlet.ack_filter;
        let ack = if filter == AckFilter::Off { None } else { acks.ack(packet) };
        let Some(ack) = ack else { return self.enqueue(now, labels, packet, drops) };
        let drops = &mut |packet: Packet, why: DropReason| drops.dropped(packet, why);
        let acks = |_: &_, packet: Packet| acks.ack(packet);
        self.outlet.enqueue_ack(now, labels, (packet, &ack), (filter, acks), drops)
    }

    /// The packet that leaves next, if one may leave at `now`. Where the AQM has marked it its ECN
    /// bits say so, and the caller rewrites the header ([`mark_congestion`]). Packets that the AQM
    /// drops go to `drops`.
    #[inline(always)] // as that of the queues inside
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.outlet.dequeue(now, drops)
    }

    /// Other limits from now on, which no rate changes any more. What exceeds them is dropped.
    pub fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.outlet.is_by_rate = false;
        let limits = self.within_memory(limits);
        self.outlet.line.set_limits(limits, drops);
    }

    /// Another [memory limit](SmartQueueBuilder::memory_limit), or none. What exceeds it is
    /// dropped.
    ///
    /// # Errors
    /// [`MemoryLimitError`], and nothing has changed, if the longest packet does not fit into it.
    pub fn set_memory_limit(
        &mut self,
        limit: Option<MemoryLimit>,
        drops: &mut dyn DropSink,
    ) -> Result<(), MemoryLimitError> {
        let limits = self.limit_memory(limit)?;
        self.outlet.line.set_limits(limits, drops);
        Ok(())
    }

    /// Sets what shares the line, at any time: all packets stay. `labels_of` returns the labels of
    /// a queued packet, its tin included. Nothing happens under the isolation that is in force. The
    /// rest as for [`Isolated::rebuild`].
    ///
    /// # Errors
    /// As [`Isolated::rebuild`].
    pub fn set_isolation<L: Labelled>(
        &mut self,
        isolation: Isolation,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        if isolation == self.isolation() {
            return Ok(());
        }
        self.outlet.line.inner_mut().rebuild(isolation, None, labels_of)
    }

    /// Goes over to labels under another key, at any time: [`Isolated::relabel`].
    pub fn relabel<L: Labelled>(&mut self, labels_of: impl FnMut(Packet) -> L) {
        self.outlet.line.inner_mut().relabel(labels_of);
    }

    /// Sets the quantum, committed rate and ceiling of the host of a packet with these `labels` at
    /// once; returns whether the host is backlogged: [`Isolated::update_host`].
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        self.outlet.line.inner_mut().update_host(now, labels)
    }
}

impl<S: Storage> Scheduler for SmartQueue<S, Descriptors> {
    /// `flow` is the packet's label; the flow is its own host.
    #[inline(always)] // as that of the queues inside
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.outlet.line.enqueue(now, flow, packet, drops)
    }

    #[inline(always)] // as above
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.outlet.dequeue(now, drops)
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        self.outlet.dequeue_burst(now, out, drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.outlet.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.outlet.poll_at(now)
    }

    fn backlog(&self) -> Backlog {
        self.outlet.line.backlog()
    }

    fn books(&self) -> Books {
        self.outlet.line.books()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        SmartQueue::<S, Descriptors>::set_limits(self, limits, drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.outlet.line.evict(drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.outlet.line.drain(drops);
    }

    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        self.outlet.line.enqueue_burst(now, burst, drops)
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.outlet.line.recount()?;
        self.recount_tins()
    }
}

impl<S: Storage> LabelledScheduler for SmartQueue<S, Descriptors> {
    fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &dyn Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        SmartQueue::enqueue(self, now, labels, packet, drops)
    }
}
