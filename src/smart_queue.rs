//! The complete queue for one link direction: host and flow isolation, AQM, shaper and buffers.

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
mod static_descriptors;
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
pub use static_descriptors::StaticDescriptors;
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

/// A complete queue for one direction of a link: isolates hosts and flows, sends sparse flows first
/// (those that send less than their share, such as calls), runs an AQM and shapes to a rate.
///
/// Only the rate is required ([`upload`](SmartQueue::upload), [`download`](SmartQueue::download)).
/// The defaults of [`SmartQueueBuilder`]:
///
/// - **Isolation**: the local hosts share the link, and the flows of a host divide its share. The
///   mode is `dual-srchost` for uploads and `dual-dsthost` for downloads ([`Isolation`]).
/// - **AQM**: COBALT ([`AqmKind`]) for a round-trip time of 100 ms ([`Rtt::INTERNET`]), with a
///   longer target on slow links ([`Rtt::aqm`]). ECT(1) packets, those of L4S senders, are also
///   marked if they have waited longer than a short threshold ([`Rtt::l4s`]).
/// - **Limits**: the bytes that the link carries in four round-trip times. With frames, also the
///   number of buffers.
/// - **Overhead**: none is added to packet lengths. [`SmartQueueBuilder::framing`] sets it from
///   keywords for the type of link, such as `"pppoe-ptm"`.
///
/// A queue works with frames or with descriptors, depending on its type parameter `P`:
///
/// | queue | `P` | in | out | bytes of a packet |
/// |---|---|---|---|---|
/// | with frames | [`Frames`] | [`push`](SmartQueue::push) | [`pop`](SmartQueue::pop) | copied into buffers of the queue |
/// | with descriptors | [`Descriptors`] | [`enqueue`](SmartQueue::enqueue) | [`dequeue`](SmartQueue::dequeue) | stay in your own buffers |
///
/// With frames, the queue parses the headers, identifies flow and hosts by a keyed hash, and writes
/// congestion marks into IPv4 and IPv6 headers. When all buffers are in use, a packet of the host
/// with (approximately) the longest backlog is dropped instead of the arriving one.
///
/// Options of a queue with frames:
///
/// - [`push_with`](SmartQueue::push_with): a driver reads a frame from its device directly into a
///   buffer of the queue.
/// - [`with_nat`](SmartQueue::with_nat): hosts behind address translation.
/// - [`with_host_rules`](SmartQueue::with_host_rules): weights, committed rates and ceilings of
///   single hosts.
/// - [`with_host_identity`](SmartQueue::with_host_identity): hosts with several addresses.
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
/// **Time.** You pass the current time to each call. [`poll_at`](SmartQueue::poll_at) returns when
/// to call `pop` or `dequeue` next. A timestamp up to a second earlier than the last one counts as
/// no time passing; after a larger step back, time continues from the new timestamp
/// ([`Shaped`](shaper::Shaped)).
/// [`TickClock`](sched_core::TickClock) turns a 32-bit counter into a clock.
///
/// **Back-pressure.** With [`set_device`](SmartQueue::set_device) a driver reports how many bytes
/// its device accepts. This limit applies in addition to the rate, or alone if the rate is
/// [`Rate::UNLIMITED`]. While the device is busy, packets wait in this queue, each flow in its own,
/// and the AQM counts the wait as sojourn time. Afterwards the shaper catches up at most 10 ms of
/// the lost time, as after a late call ([`Shaped`](shaper::Shaped)).
///
/// Some devices cannot report how much they accept: they accept or refuse each frame when it is
/// offered. For these, use [`pop_if`](SmartQueue::pop_if): a refused frame stays in the queue. With
/// an asynchronous device, call `try_send` inside `pop_if` and await outside of it:
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
///     // Now await the device, the next arrival, or the time `queue.poll_at(now)`.
/// }
/// # let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames([42; 16])?;
/// # for _ in 0..3 { queue.push(Nanos(0), &[0; 60])?; }
/// # send_all(&mut queue, &mut Device(2), Nanos(0));
/// # assert_eq!(queue.backlog().packets, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Memory.** Tables and buffers are on the heap ([`SmartQueueBuilder::frames`]), in a `static`
/// ([`StaticFrames`]), or in memory that you pass ([`SmartQueueBuilder::descriptors_in`]). After
/// construction only `snapshot` allocates. The `SmartQueue` value itself takes up to 1.6 kB.
///
/// **Threads.** A queue is `Send` and `Sync` if all its type parameters are, including those of a
/// [NAT](SmartQueue::with_nat) and of [host rules](SmartQueue::with_host_rules). Packets go in and
/// out through `&mut self`, so threads that share a queue need a lock.
///
/// **Cost.** With descriptors, `enqueue` and `dequeue` cost as much as those of a
/// [`Shaped`](shaper::Shaped) around an [`Isolated`]. With frames, each arriving frame is also
/// copied, parsed and hashed.
pub struct SmartQueue<S: Storage, P = Descriptors> {
    outlet: Outlet<S>,
    packets: P,
}

/// Prints a summary without tables and buffers.
impl<S: Storage, P> fmt::Debug for SmartQueue<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SmartQueue");
        debug.field("rate", &format_args!("{}", self.line().rate()));
        debug.field("isolation", &self.isolation()).field("aqm", &self.aqm());
        debug.field("tins", &self.tins().count()).field("limits", &self.limits());
        debug.field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}

/// Marker type of a [`SmartQueue`] with descriptors: packet bytes stay in the caller's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors;

impl Buffered for Descriptors {
    fn own_buffer_len(&self) -> Option<u32> {
        None
    }
}

/// `Slices` is a placeholder: the method that builds the queue, such as
/// [`frames`](SmartQueueBuilder::frames), determines its storage.
impl SmartQueue<Slices<'static>> {
    /// Creates a builder for the upload direction: local hosts are the sources of packets.
    #[must_use]
    pub const fn upload(rate: Rate) -> SmartQueueBuilder {
        SmartQueueBuilder::new(rate, Isolation::DualSrcHost, sched_core::Side::Source)
    }

    /// Creates a builder for the download direction: local hosts are the destinations of packets.
    #[must_use]
    pub const fn download(rate: Rate) -> SmartQueueBuilder {
        SmartQueueBuilder::new(rate, Isolation::DualDstHost, sched_core::Side::Destination)
    }
}

impl<S: Storage, P> SmartQueue<S, P> {
    /// Returns when to call `pop` or `dequeue` next: `now` if a packet may leave at `now`,
    /// otherwise the time at which the next one may leave.
    ///
    /// Returns `None` if nothing is queued, if the link is [stopped](Rate::STOPPED), or if the
    /// device does not accept the next packet. An arrival, a change of the rate and a call of
    /// [`set_device`](Self::set_device) or [`add_room`](Self::add_room) may change the result.
    /// After each of these, call `poll_at` again.
    ///
    /// If the clock has stepped back by more than a second, the result is `now`. Calling `pop` or
    /// `dequeue` then resynchronizes the shaper. If that call returns no packet, the next `poll_at`
    /// returns when one may leave.
    #[must_use]
    pub fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.outlet.poll_at(now)
    }

    /// Sets the rate from `now` on. It also applies to bytes sent earlier that still occupy the
    /// link ([`Shaper::set_rate`]). The AQM's target changes with the rate.
    ///
    /// Unless the caller has set limits, a higher rate raises the limit in bytes. A lower rate does
    /// not lower the limit, so nothing is dropped. The number of buffers does not change: if the
    /// rate may later be much higher, reserve enough buffers with [`SmartQueueBuilder::buffers`].
    ///
    /// Cost: O(tins), with divisions. If the limit in bytes rises so far that the drop policy
    /// compares hosts more coarsely ([`grain`](sched_core::LongestHostDrop::grain)), also O(hosts).
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.outlet.line.set_rate(now, rate);
        self.follow();
    }

    /// Sets the round-trip time that the AQM assumes. A longer time raises the limit in bytes, as a
    /// higher rate does ([`set_rate`](Self::set_rate)).
    pub fn set_rtt(&mut self, rtt: Rtt) {
        self.outlet.rtt = rtt;
        self.follow();
    }

    /// Replaces the shaper, including its rate, its [catch-up](Shaper::with_catch_up) (how much
    /// lost time it makes up for) and the time until which the link is busy. The rate of
    /// the new shaper changes AQM and limits as [`set_rate`](Self::set_rate) does, at the same
    /// cost.
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

    /// Adapts AQM and limits to the current rate and round-trip time.
    fn follow(&mut self) {
        self.follow_rate_in_tins();
        self.follow_in_tins(self.aqm(), self.is_l4s());
        self.follow_in_limits();
    }

    /// Raises the limits with the current rate and round-trip time.
    #[inline(never)] // its stack frame does not add to those of the calls before it
    fn follow_in_limits(&mut self) {
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
            // Limits are never lowered here, so nothing is dropped.
            self.outlet.line.set_limits(limits, &mut |_: Packet, _: DropReason| {});
        }
    }

    /// Returns `limits` reduced to the memory limit.
    fn within_memory(&mut self, limits: Limits) -> Limits {
        let Some(memory) = &mut self.outlet.memory else { return limits };
        memory.asked = limits;
        memory.limits()
    }

    /// Sets the memory limit; returns the limits reduced to it.
    fn limit_memory(&mut self, limit: Option<MemoryLimit>) -> Result<Limits, MemoryLimitError> {
        let asked = self.outlet.memory.map_or(self.limits(), |memory| memory.asked);
        let line = (self.outlet.line.line().rate(), self.outlet.rtt);
        let sizes = (self.outlet.buffer, self.outlet.max_len);
        let limited = |setting| Memory::new(setting, line, sizes, asked);
        self.outlet.memory = limit.map(limited).transpose()?;
        Ok(self.within_memory(asked))
    }

    /// Returns the [memory limit](SmartQueueBuilder::memory_limit), if there is one: how many bytes
    /// of buffers the queued packets may occupy.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u32> {
        self.outlet.memory.map(|memory| memory.bytes)
    }

    /// Returns the bytes of buffers that queued packets occupy.
    #[must_use]
    pub fn memory_held(&self) -> u64 {
        let Backlog { packets, bytes } = self.backlog();
        let in_buffers = |buffer: u32| u64::from(packets).saturating_mul(buffer.into());
        self.outlet.buffer.map_or(bytes.into(), in_buffers)
    }

    /// Sets the AQM and its parameters in all tins. A later change of rate, shaper, tins or
    /// round-trip time replaces the parameters. Cost: O(queues) if the AQM changes.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]; then nothing has changed.
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

    /// Sets the AQM, with parameters for the current rate and round-trip time. A different AQM
    /// starts with empty state in every queue. If `kind` is the current AQM, its state is kept, but
    /// parameters set by [`set_aqm_params`](Self::set_aqm_params) are lost. Cost: O(queues).
    pub fn set_aqm(&mut self, kind: AqmKind) {
        self.follow_in_tins(kind, self.is_l4s());
    }

    /// Returns the AQM in use.
    #[must_use]
    pub fn aqm(&self) -> AqmKind {
        AqmKind::of(self.chosen().choice())
    }

    /// Turns the marking threshold for ECT(1) packets on or off, from the next packet on
    /// ([`SmartQueueBuilder::l4s`]).
    pub fn set_l4s(&mut self, on: bool) {
        let (plan, rate) = (*self.tins(), self.outlet.line.line().rate());
        let (rtt, max_len) = (self.outlet.rtt, self.outlet.max_len);
        for tin in 0..self.chosen().tins() {
            let l4s = on.then(|| rtt.l4s(plan.rate(tin, rate), max_len));
            let _in_range = self.chosen_mut().set_l4s_in(tin, l4s);
            debug_assert_eq!(_in_range, Ok(()), "round-trip times are in range");
        }
    }

    /// Returns true if ECT(1) packets have a marking threshold of their own
    /// ([`SmartQueueBuilder::l4s`]).
    #[must_use]
    pub fn is_l4s(&self) -> bool {
        self.chosen().l4s().is_some()
    }

    /// Sets the filter for TCP acknowledgements, from the next packet on
    /// ([`SmartQueueBuilder::ack_filter`]).
    pub const fn set_ack_filter(&mut self, filter: AckFilter) {
        self.outlet.ack_filter = filter;
    }

    /// Returns the current filter for TCP acknowledgements. [`Counters::dropped_for`] with
    /// [`DropReason::Filtered`] returns how many packets were dropped by it.
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

    /// Resets the shaper as if nothing had been sent, so that the next packet may leave at once.
    /// This helps, for example, after the clock has stepped back by up to a second; after a longer
    /// step the shaper resynchronizes by itself.
    pub fn reset_line(&mut self) {
        self.outlet.line.reset_line();
    }

    /// Sets the framing of the link, for packets that leave from now on.
    pub fn set_overhead(&mut self, link: Overhead) {
        self.outlet.line.set_overhead(link);
        self.outlet.line.inner_mut().set_overhead(link);
    }

    /// Sets whether dropped packets are charged to the link ([`SmartQueueBuilder::ingress`]).
    pub fn set_ingress(&mut self, on: bool) {
        self.outlet.line.set_ingress(on);
    }

    /// Returns true if dropped packets are charged to the link.
    #[must_use]
    pub const fn is_ingress(&self) -> bool {
        self.outlet.line.is_ingress()
    }

    /// Returns the header with which the queue expects a frame to begin:
    /// [`raw_ip`](SmartQueueBuilder::raw_ip).
    #[must_use]
    pub const fn link_layer(&self) -> LinkLayer {
        self.outlet.layer
    }

    /// Sets how many bytes the device behind the queue accepts from now on; the rate applies too.
    /// After [`DeviceRoom::Busy`] nothing leaves until the driver calls this method again or
    /// [`add_room`](Self::add_room).
    pub const fn set_device(&mut self, device: DeviceRoom) {
        self.outlet.device = device;
    }

    /// Adds `bytes` to what the device accepts. Call it when the device has sent that many bytes.
    /// No effect while the device is [`DeviceRoom::Ready`].
    pub const fn add_room(&mut self, bytes: u32) {
        self.outlet.device = self.outlet.device.with_more(bytes);
    }

    /// Returns what the device still accepts: its last report minus the bytes dequeued since.
    #[must_use]
    pub const fn device(&self) -> DeviceRoom {
        self.outlet.device
    }

    /// Returns the number of handles of the queue. Valid handles are below it. With frames, it
    /// is at least the number of buffers.
    #[must_use]
    pub fn handles(&self) -> u32 {
        self.isolated().handles()
    }

    /// Returns the packets and bytes currently queued.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.outlet.line.backlog()
    }

    /// Returns the counters since construction.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.outlet.line.counters()
    }

    /// Returns the current limits of the queue in packets and bytes.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.outlet.line.limits()
    }

    /// Returns the shaper of the link: its rate, and when the link is free.
    pub const fn line(&self) -> &Shaper {
        self.outlet.line.line()
    }

    /// Returns the framing of the link.
    pub const fn overhead(&self) -> Overhead {
        self.outlet.line.overhead()
    }

    /// Returns the round-trip time that the AQM assumes.
    #[must_use]
    pub const fn rtt(&self) -> Rtt {
        self.outlet.rtt
    }

    /// Returns the current isolation mode.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.outlet.line.inner().isolation()
    }

    /// Returns the numbers of backlogged source hosts and destination hosts; 0 for a side that is
    /// not isolated ([`Isolated::backlogged_hosts`]).
    #[must_use]
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        self.outlet.line.inner().backlogged_hosts()
    }

    /// Returns the inner queue without shaper, which isolates hosts and flows.
    #[must_use]
    pub const fn isolated(&self) -> &Isolated<S, SmartAqm<S>> {
        self.outlet.line.inner()
    }
}

/// Methods of a queue with descriptors. [`enqueue`](Self::enqueue) isolates hosts;
/// [`Scheduler::enqueue`] takes only a flow label and treats each flow as a host of its own.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Enqueues `packet` for the flow and hosts in `labels`. Packets dropped to make space go to
    /// `drops`.
    ///
    /// # Errors
    /// [`Rejected`], with the packet, if it is not accepted.
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

    /// Enqueues a packet like [`enqueue`](Self::enqueue), and applies the
    /// [filter](Self::set_ack_filter) for TCP acknowledgements. The filter calls `acks` to read
    /// this packet and up to [`AckFilter::REACH`] queued ones in the caller's buffers. Packets that
    /// it drops go to `drops`.
    ///
    /// # Errors
    /// [`Rejected`], with the packet; then nothing is filtered.
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

    /// Enqueues a packet like [`enqueue_with_acks`](Self::enqueue_with_acks). One value is both the
    /// drop sink and the source of acknowledgements, such as a set of buffers.
    ///
    /// # Errors
    /// [`Rejected`], with the packet; then nothing is filtered.
    pub fn enqueue_from<B: DropSink + Acks>(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        buffers: &mut B,
    ) -> Result<(), Rejected> {
        let filter = self.outlet.ack_filter;
        let ack = if filter == AckFilter::Off { None } else { buffers.ack(packet) };
        let Some(ack) = ack else { return self.enqueue(now, labels, packet, buffers) };
        let acks = |buffers: &B, packet: Packet| buffers.ack(packet);
        self.outlet.enqueue_ack(now, labels, (packet, &ack), (filter, acks), buffers)
    }

    /// Returns the next packet if one may leave at `now`. If the AQM has marked the packet, its
    /// field `ecn` is [`Ecn::Ce`](sched_core::Ecn::Ce), and the caller must write the mark into the
    /// IP header ([`mark_congestion`]). Packets that the AQM drops go to `drops`.
    #[inline(always)] // like `Isolated::dequeue`
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.outlet.dequeue(now, drops)
    }

    /// Sets the limits of the queue. Queued packets above them are dropped. From then on, changes
    /// of the rate do not change the limits.
    pub fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.outlet.is_by_rate = false;
        let limits = self.within_memory(limits);
        self.outlet.line.set_limits(limits, drops);
    }

    /// Sets or removes the [memory limit](SmartQueueBuilder::memory_limit). Queued packets above
    /// it are dropped.
    ///
    /// # Errors
    /// [`MemoryLimitError`] if the limit is below the longest packet; then nothing has changed.
    pub fn set_memory_limit(
        &mut self,
        limit: Option<MemoryLimit>,
        drops: &mut dyn DropSink,
    ) -> Result<(), MemoryLimitError> {
        let limits = self.limit_memory(limit)?;
        self.outlet.line.set_limits(limits, drops);
        Ok(())
    }

    /// Changes the isolation mode; all packets stay queued. `labels_of` returns the labels of a
    /// queued packet, including its tin. No effect if `isolation` is the current mode. See
    /// [`Isolated::rebuild`] for packet order, counters and cost.
    ///
    /// # Errors
    /// See [`Isolated::rebuild`].
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

    /// Assigns new labels to all queued packets, for example after a change of the hash key
    /// ([`Isolated::relabel`]).
    pub fn relabel<L: Labelled>(&mut self, labels_of: impl FnMut(Packet) -> L) {
        self.outlet.line.inner_mut().relabel(labels_of);
    }

    /// Updates the host that `labels` names. Its quantum, committed rate and ceiling become what
    /// [`Labelled::host_terms`] returns for `labels`, with immediate effect. Returns true if the
    /// host is backlogged ([`Isolated::update_host`]).
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        self.outlet.line.inner_mut().update_host(now, labels)
    }
}

impl<S: Storage> Scheduler for SmartQueue<S, Descriptors> {
    /// Enqueues a packet with the flow label `flow`. Each flow counts as a host of its own.
    #[inline(always)] // like `Isolated::dequeue`
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

    fn limits(&self) -> Limits {
        self.outlet.line.limits()
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
