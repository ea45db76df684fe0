//! Smart queues with frames: they own the buffers, read the headers and write the marks.

use core::fmt;

use flowhash::{
    Ack, Ending, FlowKey, HostIdentity, HostKey, HostMap, Ip, Labeller, Nat, NoNat, Parsed,
};
use sched_core::{Ecn, FlowId, Imbalance, Limits, Nanos, Packet, RejectReason, Scheduler};

use super::SmartQueue;
use super::ecn::mark_congestion;
use super::host_rules::{AllAlike, FrameLabels, HostRules, OneHost};
use super::memory_limit::{Buffered, MemoryLimit, MemoryLimitError};
use super::pool::Pool;
use super::reader::{FrameRead, FrameReader};
use super::tins::{Change, plan_of};
use super::wash::clear_dscp;
use crate::ack_filter::AckFilter;
use crate::isolation::{IsolatedError, Isolation};
use crate::labels::InTin;
use crate::statistics::FoundEntries;
use crate::storage::Storage;
use crate::tins::{Fwmark, TinBy, TinPlan};

/// Buffers of a [`SmartQueue`] and its rules to find the flow of a frame: the address translation
/// `N`, the rules for single hosts `R`, and the identity of hosts `I`.
pub struct Frames<S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    pool: Pool<S>,
    /// The buffer of the frame handed out last; free at the next call.
    out: Option<u32>,
    /// True if the DSCP of frames is cleared when they leave.
    wash: bool,
    reader: FrameReader<I>,
    nat: N,
    rules: R,
}

/// Leaves out the bytes, the keys and the rules.
impl<S: Storage, N, R, I> fmt::Debug for Frames<S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// Error for a frame that was not queued. [`Counters::rejected`](sched_core::Counters::rejected)
/// counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PushError {
    /// The frame is empty, or longer than a buffer.
    Length {
        /// Its length in bytes.
        len: usize,
        /// The longest frame in bytes.
        max: usize,
    },
    /// The queue rejected it: a frame of this length exceeds its limits, or the AQM dropped it.
    Rejected(RejectReason),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len, max } => write!(f, "frame of {len} bytes (expected 1 to {max})"),
            Self::Rejected(reason) => write!(f, "frame rejected: {reason}"),
        }
    }
}

impl core::error::Error for PushError {}

impl<S: Storage, N, R, I> Buffered for Frames<S, N, R, I> {
    fn own_buffer_len(&self) -> Option<u32> {
        Some(length(self.pool.buffer_len()))
    }
}

impl<S: Storage> Frames<S> {
    pub(super) fn new(pool: Pool<S>, wash: bool, reader: FrameReader) -> Self {
        Self { pool, out: None, wash, reader, nat: NoNat, rules: AllAlike }
    }
}

impl<S: Storage, N, R, I> Frames<S, N, R, I> {
    /// Returns the buffer of the frame handed out last.
    pub(super) const fn handed_out(&self) -> Option<u32> {
        self.out
    }

    pub(super) const fn is_washed(&self) -> bool {
        self.wash
    }

    /// Returns the header and the bits of a mark that select a tin.
    pub(super) const fn names_of_tins(&self) -> (TinBy, Fwmark) {
        (self.reader.tin_by(), self.reader.fwmark())
    }

    /// Writes the congestion mark into the header of the frame in buffer `handle`, unless it is
    /// already there.
    #[cold]
    fn mark(&mut self, handle: u32) {
        if let Some(offset) = self.pool.header(handle) {
            mark_congestion(self.pool.frame_mut(handle), &Ip::new(offset, 0, offset));
        }
    }

    /// Clears the DSCP in the header of the frame in buffer `handle`, if it is an IP packet.
    fn clear_dscp(&mut self, handle: u32) {
        if let Some(offset) = self.pool.header(handle) {
            clear_dscp(self.pool.frame_mut(handle), &Ip::new(offset, 0, offset));
        }
    }

    /// Prepares the frame of a departing `packet`: writes the congestion mark if the AQM set one,
    /// and clears the DSCP if `wash` is on.
    #[inline(always)]
    fn finish(&mut self, packet: Packet) {
        if packet.ecn == Ecn::Ce {
            self.mark(packet.handle);
        }
        if self.wash {
            self.clear_dscp(packet.handle);
        }
    }

    /// Returns the part of the IP header of the frame in buffer `handle` that
    /// [`finish`](Self::finish) may change.
    fn first_of_header(&self, handle: u32) -> Option<[u8; 12]> {
        let header = self.pool.frame(handle).get(self.pool.header(handle)?..)?;
        header.first_chunk().copied()
    }

    /// Undoes [`finish`](Self::finish); `came` is the first part of the header as it was before.
    fn restore(&mut self, handle: u32, came: Option<[u8; 12]>) {
        let (Some(came), Some(offset)) = (came, self.pool.header(handle)) else { return };
        let header = self.pool.frame_mut(handle).get_mut(offset..);
        if let Some(first) = header.and_then(<[u8]>::first_chunk_mut) {
            *first = came;
        }
    }

    /// Frees the buffer of the frame handed out last.
    fn take_back(&mut self) {
        if let Some(handle) = self.out.take() {
            self.pool.give_back(handle);
        }
    }
}

impl<S: Storage, N: Nat, R, I: HostIdentity> Frames<S, N, R, I> {
    /// Returns a function from a queued frame to its labels, read from its headers; frames of tin
    /// `t` are labelled with tin `to(t)`.
    fn labels_of<'a>(
        &'a self,
        isolation: Isolation,
        to: impl Fn(u8) -> u8,
    ) -> impl FnMut(Packet) -> FrameLabels<'a, Parsed, N, R, I> {
        let Self { pool, reader, nat, rules, .. } = self;
        move |Packet { handle, .. }| {
            let (frame, tin) = (pool.frame(handle), to(pool.tin(handle)));
            let (parsed, link) = (reader.parse(frame), reader.link_of(frame));
            let labeller = Labeller::new(reader.labeller().hasher()).with_nat(nat);
            FrameLabels { parsed, link, tin, labeller, reader, rules, isolation }
        }
    }
}

/// Rules to identify hosts and to set their shares. Call the `with_` methods before the first
/// frame.
impl<S: Storage, N, R, I> SmartQueue<S, Frames<S, N, R, I>> {
    /// Adds an address translation: flows and hosts are identified by the addresses inside the NAT,
    /// which `nat` returns. Call it before the first frame. Each frame takes one lookup in `nat`; a
    /// frame whose flow was idle takes more, for its hosts. Hosts are then distinguished by
    /// address, unless [`with_host_identity`](Self::with_host_identity) is used.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::{FlowKey, Nat};
    /// use freeboard::shaper::Rate;
    ///
    /// /// All packets of 192.0.2.33 come from 10.0.0.7.
    /// #[derive(Debug)]
    /// struct OneHost;
    ///
    /// impl Nat for OneHost {
    ///     fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
    ///         match *key {
    ///             FlowKey::V4 { src: [192, 0, 2, 33], dst, transport } => {
    ///                 Some(FlowKey::V4 { src: [10, 0, 0, 7], dst, transport })
    ///             }
    ///             _ => None,
    ///         }
    ///     }
    /// }
    ///
    /// let key = [42; 16]; // 16 random bytes
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(key)?.with_nat(OneHost);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_nat<M: Nat>(self, nat: M) -> SmartQueue<S, Frames<S, M, R, I>>
    where
        I: HostIdentity,
    {
        self.with_parts(|_, rules, reader| (nat, rules, reader.map_identity(I::settled)))
    }

    /// Adds weights, rates and ceilings for single hosts: [`HostRules`]. Call it before the first
    /// frame. Local hosts are then distinguished by address, unless
    /// [`with_host_identity`](Self::with_host_identity) is used.
    ///
    /// A [committed rate](crate::HostTerms::committed_rate) or a
    /// [ceiling](crate::HostTerms::ceiling) needs tables with
    /// [rates](crate::IsolatedMemory::with_rates), which only a queue built with
    /// [`frames_over`](super::SmartQueueBuilder::frames_over) can have. In a queue built with
    /// [`frames`](super::SmartQueueBuilder::frames) or
    /// [`frames_in`](super::SmartQueueBuilder::frames_in) it is ignored without an error: the host
    /// has its share without a limit.
    ///
    /// ```
    /// use freeboard::flowhash::HostKey;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{HostTerms, SmartQueue};
    ///
    /// let key = [42; 16]; // 16 random bytes
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(key)?;
    /// let queue = queue.with_host_rules(|host| match host {
    ///     // Three times the share of every other host.
    ///     HostKey::V4([192, 168, 1, 9]) => HostTerms { quantum: Some(4_566), ..HostTerms::default() },
    ///     _ => HostTerms::default(),
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_host_rules<Q: HostRules>(self, rules: Q) -> SmartQueue<S, Frames<S, N, Q, I>>
    where
        I: HostIdentity,
    {
        self.with_parts(|nat, _, reader| (nat, rules, reader.map_identity(I::settled)))
    }

    /// Replaces the identity of local hosts, by default [`HostBy::Auto`](flowhash::HostBy::Auto),
    /// which distinguishes hosts by MAC address if local frames carry more than one, and by IP
    /// address otherwise. Alternatives: by address ([`ByAddress`](flowhash::ByAddress)), or a
    /// [`HostMap`](flowhash::HostMap) of prefixes, MAC addresses, VLANs or lists. Local hosts are
    /// the sources of an [`upload`](SmartQueue::upload) and the destinations of a
    /// [`download`](SmartQueue::download). Call it before the first frame.
    ///
    /// Cost: `identity` is queried when a flow becomes backlogged, and in the modes with one queue
    /// per host for every frame. If the identity
    /// [reads Ethernet headers](HostIdentity::reads_link), the header of every frame is parsed.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::{HostBy, HostMap, PrefixLengths};
    /// use freeboard::shaper::Rate;
    ///
    /// let key = [42; 16]; // 16 random bytes
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(key)?;
    /// // All addresses of a /56 are one subscriber.
    /// let subscribers = HostBy::Prefix(PrefixLengths::new(32, 56)?);
    /// let queue = queue.with_host_identity(HostMap::unlisted(subscribers));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_host_identity<J: HostIdentity>(
        self,
        identity: J,
    ) -> SmartQueue<S, Frames<S, N, R, J>> {
        self.with_parts(|nat, rules, reader| (nat, rules, reader.with_identity(identity)))
    }

    /// Returns a mutable reference to the identity of hosts. A queued flow keeps its host until its
    /// queue is empty.
    pub const fn host_identity_mut(&mut self) -> &mut I {
        self.packets.reader.identity_mut()
    }

    /// Returns a mutable reference to the rules for single hosts. Changes apply to a host when it
    /// next becomes backlogged; to apply them to a backlogged host at once, call
    /// [`update_host`](Self::update_host).
    pub const fn host_rules_mut(&mut self) -> &mut R {
        &mut self.packets.rules
    }

    fn with_parts<M, Q, J>(
        self,
        other: impl FnOnce(N, R, FrameReader<I>) -> (M, Q, FrameReader<J>),
    ) -> SmartQueue<S, Frames<S, M, Q, J>> {
        let Self { outlet, packets } = self;
        let Frames { pool, out, wash, reader, nat, rules } = packets;
        let (nat, rules, reader) = other(nat, rules, reader);
        let packets = Frames { pool, out, wash, reader, nat, rules };
        SmartQueue { outlet, packets }
    }
}

/// Frames in and out.
impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> SmartQueue<S, Frames<S, N, R, I>> {
    /// Enqueues a copy of `frame` at time `now`: reads its headers and finds its flow and hosts.
    ///
    /// After `Ok` this frame is queued. If no buffer was free or a limit was reached, frames of a
    /// host with about the longest backlog were dropped instead; [`counters`](Self::counters)
    /// counts them. Frames without an IP header form one flow per source MAC address, or a single
    /// flow with [`raw_ip`](super::SmartQueueBuilder::raw_ip).
    ///
    /// Cost: a copy, a parse and a hash; up to two hashes more if the flow was idle.
    ///
    /// # Errors
    /// [`PushError`] for a frame that cannot be queued; it is counted as rejected.
    pub fn push(&mut self, now: Nanos, frame: &[u8]) -> Result<(), PushError> {
        self.push_marked(now, 0, frame)
    }

    /// Enqueues a frame of `len` bytes that `fill` writes into its buffer, without a copy: for a
    /// driver that reads from a device. The buffer contains bytes of an earlier frame, so `fill`
    /// must write all of it. Otherwise like [`push`](Self::push).
    ///
    /// `fill` is called exactly once if `len` is 1 to the length of a [buffer](Self::buffers), also
    /// for a frame that is then rejected. It is not called for other lengths
    /// ([`PushError::Length`]). If no buffer is free, a frame is dropped first, even if this one
    /// exceeds the limit in bytes and is rejected; `push` drops none for such a frame.
    ///
    /// # Errors
    /// See [`push`](Self::push).
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let key = [42; 16]; // 16 random bytes
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(key)?;
    /// // A driver would read from its device here.
    /// queue.push_with(Nanos(0), 60, |place| place.fill(7))?;
    /// assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&[7; 60][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_with(
        &mut self,
        now: Nanos,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PushError> {
        self.push_marked_with(now, 0, len, fill)
    }

    /// Enqueues a copy of `frame`; `mark` selects its tin by the bits set with
    /// [`set_fwmark`](Self::set_fwmark), as in [`TinPlan::of_marked`](crate::TinPlan::of_marked).
    /// If they select none, the tin is that of a frame without a mark ([`tin_by`](Self::tin_by)).
    /// Otherwise like [`push`](Self::push).
    ///
    /// # Errors
    /// See [`push`](Self::push).
    ///
    /// ```
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
    /// let mut queue = builder.frames([42; 16])?;
    /// // Mark 4 selects the fourth tin of bulk, best effort, video and voice.
    /// queue.push_marked(Nanos(0), 4, &[0; 60])?;
    /// assert_eq!(queue.tin_counters(3).map(|voice| voice.backlog.packets), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_marked(&mut self, now: Nanos, mark: u32, frame: &[u8]) -> Result<(), PushError> {
        let copy = |place: &mut [u8]| {
            // All of `place`; with the length, the compiler copies words instead of bytes.
            if let Some(place) = place.get_mut(..frame.len()) {
                place.copy_from_slice(frame);
            }
        };
        self.push_filled::<false>(now, mark, frame.len(), copy)
    }

    /// Enqueues a frame with a mark ([`push_marked`](Self::push_marked)) that `fill` writes into
    /// its buffer ([`push_with`](Self::push_with)).
    ///
    /// # Errors
    /// See [`push`](Self::push).
    pub fn push_marked_with(
        &mut self,
        now: Nanos,
        mark: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PushError> {
        self.push_filled::<true>(now, mark, len, fill)
    }

    /// Enqueues a frame that `fill` writes. With `ALWAYS`, `fill` is called for every length that a
    /// buffer can hold.
    fn push_filled<const ALWAYS: bool>(
        &mut self,
        now: Nanos,
        mark: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PushError> {
        self.packets.take_back();
        let max = self.packets.pool.buffer_len();
        if len == 0 || len > max {
            self.turn_away(now, len);
            return Err(PushError::Length { len, max });
        }
        if self.packets.pool.place(len).is_none() {
            // A frame that even an empty queue would reject must not cost another its buffer,
            // unless `fill` needs one.
            if !ALWAYS && length(len) > self.outlet.line.limits().bytes {
                return Err(self.turn_away(now, len));
            }
            self.outlet.line.evict(&mut self.packets.pool);
        }
        // Each buffer was free, or its frame was queued and could be dropped, so one is free now.
        let Some(place) = self.packets.pool.place(len) else {
            return Err(self.turn_away(now, len));
        };
        fill(place);
        let Some(handle) = self.packets.pool.take(len) else {
            return Err(self.turn_away(now, len));
        };
        let Frames { pool, reader, .. } = &mut self.packets;
        let parsed = &reader.parse(pool.frame(handle));
        let read = reader.read(pool.frame(handle), parsed, mark, plan_of(&self.outlet.tins));
        let packet = Packet { handle, len: length(len), ecn: read.ecn() };
        if let Some(ip) = parsed.ip {
            pool.set_header(handle, ip.offset);
        }
        if parsed.ending != Ending::Ports {
            self.outlet.non_ip.count(reader.link(), pool.frame(handle), parsed);
        }
        if read.tin > 0 {
            pool.set_tin(handle, read.tin);
        }
        let filter = self.outlet.ack_filter;
        let is_on = filter != AckFilter::Off;
        let ack = if is_on { Ack::read(pool.frame(handle), parsed) } else { None };
        let Frames { pool, reader, nat, rules, .. } = &mut self.packets;
        let (nat, rules, reader) = (&*nat, &*rules, &*reader);
        let isolation = self.outlet.line.inner().isolation();
        let labeller = Labeller::new(reader.labeller().hasher()).with_nat(nat);
        let FrameRead { link, tin, .. } = read;
        let labels = FrameLabels { parsed, link, tin, labeller, reader, rules, isolation };
        let outcome = match &ack {
            None => self.outlet.enqueue(now, &labels, packet, pool),
            Some(ack) => {
                let acks = |pool: &Pool<S>, packet: Packet| {
                    let frame = pool.frame(packet.handle);
                    Ack::read(frame, &reader.parse(frame))
                };
                self.outlet.enqueue_ack(now, &labels, (packet, ack), (filter, acks), pool)
            }
        };
        outcome.map_err(|rejected| {
            pool.give_back(handle);
            PushError::Rejected(rejected.reason)
        })
    }

    /// Applies the [rules](Self::host_rules_mut) to `host` at once, even while it stays backlogged.
    /// `host` is the key that the [identity](Self::with_host_identity) returns for it. Returns true
    /// if the host is backlogged. See [`Isolated::update_host`](crate::Isolated::update_host).
    ///
    /// ```
    /// use freeboard::flowhash::HostKey;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{HostRules, HostTerms, SmartQueue};
    ///
    /// /// A quantum for one host.
    /// struct Weighted(HostKey, u32);
    ///
    /// impl HostRules for Weighted {
    ///     fn terms(&self, host: HostKey) -> HostTerms {
    ///         HostTerms { quantum: Some(self.1).filter(|_| host == self.0), ..HostTerms::default() }
    ///     }
    /// }
    ///
    /// let host = HostKey::V4([192, 168, 1, 9]);
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// let mut queue = queue.with_host_rules(Weighted(host, 3_044));
    /// queue.host_rules_mut().1 = 4_566;
    /// assert!(!queue.update_host(Nanos(0), host), "nothing of it is queued");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update_host(&mut self, now: Nanos, host: HostKey) -> bool {
        let Frames { reader, rules, .. } = &self.packets;
        let labels = OneHost::new(host, reader.labeller().hasher(), rules);
        self.outlet.line.inner_mut().update_host(now, &labels)
    }

    /// Sets the header that selects the tin of a frame, from the next frame on:
    /// [`SmartQueueBuilder::tin_by`](super::SmartQueueBuilder::tin_by).
    pub const fn set_tin_by(&mut self, tin_by: TinBy) {
        self.packets.reader.set_tin_by(tin_by);
    }

    /// Returns the header that selects the tin of a frame.
    #[must_use]
    pub const fn tin_by(&self) -> TinBy {
        self.packets.reader.tin_by()
    }

    /// Sets the bits of a [mark](Self::push_marked) that select a tin, from the next frame on:
    /// [`SmartQueueBuilder::fwmark`](super::SmartQueueBuilder::fwmark).
    pub const fn set_fwmark(&mut self, fwmark: Fwmark) {
        self.packets.reader.set_fwmark(fwmark);
    }

    /// Returns the bits of a mark that select a tin.
    #[must_use]
    pub const fn fwmark(&self) -> Fwmark {
        self.packets.reader.fwmark()
    }

    /// Sets whether the DSCP is cleared in all frames that leave from now on, including queued
    /// ones: [`SmartQueueBuilder::wash`](super::SmartQueueBuilder::wash).
    pub const fn set_wash(&mut self, on: bool) {
        self.packets.wash = on;
    }

    /// Changes the isolation. All frames stay queued, and their headers are parsed again. No effect
    /// if it is the current isolation. See [`Isolated::rebuild`](crate::Isolated::rebuild) for
    /// order, counters and cost.
    ///
    /// # Errors
    /// See [`Isolated::rebuild`](crate::Isolated::rebuild).
    pub fn set_isolation(&mut self, isolation: Isolation) -> Result<(), IsolatedError> {
        if isolation == self.isolation() {
            return Ok(());
        }
        let labels_of = self.packets.labels_of(isolation, |tin| tin);
        self.outlet.line.inner_mut().rebuild(isolation, None, labels_of)
    }

    /// Switches to another secret key of 16 random bytes at once. All frames stay queued, and their
    /// headers are parsed again. The old key is overwritten. See
    /// [`Isolated::relabel`](crate::Isolated::relabel).
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// queue.rotate([43; 16]);
    /// queue.push(Nanos(0), &[0; 60])?;
    /// assert_eq!(queue.isolated().flow_totals().all(), 1, "both are of one flow");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rotate(&mut self, key: [u8; 16]) {
        self.packets.reader.rekey(key);
        let labels_of = self.packets.labels_of(self.isolation(), |tin| tin);
        self.outlet.line.inner_mut().relabel(labels_of);
    }

    /// Changes the tins; all frames stay queued. Frames and [counters](Self::tin_counters) of a tin
    /// go to the tin of the same name, or to the default tin if there is none. If the tins keep
    /// their number and names, only their shares change. See
    /// [`Isolated::rebuild`](crate::Isolated::rebuild).
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let mut queue = builder.tins(TinMode::Diffserv4).frames([42; 16])?;
    /// queue.set_tins(TinMode::Diffserv3)?;
    /// assert_eq!(queue.tins().count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IsolatedError::Memory`] for more tins than were
    /// [allocated](super::SmartQueueBuilder::max_tins); nothing has changed then.
    pub fn set_tins(&mut self, plan: impl Into<TinPlan>) -> Result<(), IsolatedError> {
        let change = Change::new(*self.tins(), plan.into(), self.line().rate());
        if change.keeps_all() {
            return self.begin_tins(change.to);
        }
        let (isolation, to) = (self.isolation(), |tin| change.tin(tin));
        let labels_of = self.packets.labels_of(isolation, to);
        let queues = self.outlet.line.inner_mut();
        queues.rebuild_and_move(isolation, (Some(change.configs()), to), labels_of)?;
        self.packets.pool.move_tins(to);
        self.follow_plan(change.to);
        Ok(())
    }

    /// Sets limits; later changes of the rate no longer change them. Frames above them are dropped
    /// and their buffers freed.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::{Limits, Nanos};
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// queue.set_limits(Limits::packets(1));
    /// assert_eq!(queue.backlog().packets, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.outlet.is_by_rate = false;
        let limits = self.within_memory(limits);
        self.outlet.line.set_limits(limits, &mut self.packets.pool);
    }

    /// Sets or removes the [memory limit](super::SmartQueueBuilder::memory_limit). Frames above it
    /// are dropped.
    ///
    /// # Errors
    /// [`MemoryLimitError`] if not even one buffer fits into it; nothing has changed then.
    pub fn set_memory_limit(&mut self, limit: Option<MemoryLimit>) -> Result<(), MemoryLimitError> {
        let limits = self.limit_memory(limit)?;
        self.outlet.line.set_limits(limits, &mut self.packets.pool);
        Ok(())
    }

    /// Counts a frame that is in no buffer as rejected.
    #[cold]
    fn turn_away(&mut self, now: Nanos, len: usize) -> PushError {
        let packet = Packet::new(u32::MAX, length(len));
        let turned_away = self.outlet.line.arrive(now, &mut self.packets.pool, |inside, drops| {
            inside.turn_away(now, packet, drops)
        });
        debug_assert!(turned_away.is_err(), "it counts as rejected");
        PushError::Rejected(RejectReason::Full { limits: self.outlet.line.limits() })
    }

    /// Returns the next frame if one may leave at `now`, with the congestion mark written into its
    /// IP header if the AQM set one. You may read and change it until the next [`push`](Self::push)
    /// or `pop`, which frees its buffer.
    ///
    /// Cost: that of a dequeue, and for a marked frame the write into its header.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// while let Some(frame) = queue.pop(Nanos(0)) {
    ///     // The MAC address of the sending network card.
    ///     frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop(&mut self, now: Nanos) -> Option<&mut [u8]> {
        self.packets.take_back();
        let packet = self.outlet.dequeue(now, &mut self.packets.pool)?;
        self.packets.out = Some(packet.handle);
        self.packets.finish(packet);
        Some(self.packets.pool.frame_mut(packet.handle))
    }

    /// Calls `leaves` with the frame that [`pop`](Self::pop) would return at `now`, including its
    /// congestion mark. If `leaves` returns true, the frame leaves; otherwise it stays unchanged
    /// and the link is not charged. Use this for a device that may refuse a frame. Returns true if
    /// a frame has left.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames([42; 16])?;
    /// for number in 0..3 {
    ///     queue.push(Nanos(0), &[number; 60])?;
    /// }
    /// // The device takes two frames.
    /// let mut sent = vec![];
    /// let mut send = |frame: &[u8]| {
    ///     let has_room = sent.len() < 2;
    ///     if has_room {
    ///         sent.push(frame.to_vec());
    ///     }
    ///     has_room
    /// };
    /// while queue.pop_if(Nanos(0), &mut send) {}
    /// assert_eq!((sent.len(), queue.backlog().packets), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop_if(&mut self, now: Nanos, leaves: impl FnOnce(&[u8]) -> bool) -> bool {
        self.packets.take_back();
        let Some(next) = self.outlet.next(now) else { return false };
        let came = self.packets.first_of_header(next.handle);
        self.packets.finish(next);
        if !leaves(self.packets.pool.frame(next.handle)) {
            self.packets.restore(next.handle, came);
            return false;
        }
        let left = self.outlet.dequeue(now, &mut self.packets.pool);
        debug_assert_eq!(left, Some(next), "what leaves is what was shown");
        self.packets.out = left.map(|packet| packet.handle);
        left.is_some()
    }

    /// Returns the flow key of the oldest frame in a queue, given its number
    /// ([`FlowStatistics::queue`]). Flows that share the queue may have other keys. `None` if the
    /// queue is empty. Cost: a parse.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::parse;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let rate = Rate::megabits_per_second(20)?;
    /// let mut queue = SmartQueue::upload(rate).raw_ip().frames([42; 16])?;
    /// let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    /// queue.push(Nanos(0), &packet)?;
    /// let flow = queue.isolated().flow_statistics(Nanos(0)).next().expect("there is one");
    /// assert_eq!(queue.flow_key(flow.queue), Some(parse::ip(&packet).key));
    /// let found = queue.find(&packet);
    /// assert_eq!((found.queue, found.source), (Some(flow.queue), flow.source));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`FlowStatistics::queue`]: crate::FlowStatistics::queue
    #[must_use]
    pub fn flow_key(&self, queue: u32) -> Option<FlowKey> {
        let oldest = self.isolated().oldest(FlowId(queue))?;
        Some(self.packets.reader.parse(self.packets.pool.frame(oldest.handle)).key)
    }

    /// Returns the queue of the flow of `frame` and the entries of its hosts, in the tin that the
    /// frame would have without a mark: [`Isolated::queue_of`](crate::Isolated::queue_of) and
    /// [`Isolated::entries_of`](crate::Isolated::entries_of). Cost: a parse, three hashes and
    /// lookups.
    #[must_use]
    pub fn find(&self, frame: &[u8]) -> FoundEntries {
        let Frames { reader, nat, .. } = &self.packets;
        let (parsed, link) = (&reader.parse(frame), reader.link_of(frame));
        let read = &FrameRead { parsed, link, tin: reader.tin(frame, parsed, 0, self.tins()) };
        let labeller = &reader.labeller().with_nat(nat);
        let labels = InTin { labels: reader.labels(read, labeller), tin: read.tin };
        let (source, destination) = self.isolated().entries_of(&labels);
        FoundEntries { queue: self.isolated().queue_of(&labels), source, destination }
    }

    /// Drops all queued frames; buffers, tables and settings stay. Cost: O(frames).
    pub fn clear(&mut self) {
        self.packets.take_back();
        self.outlet.line.drain(&mut self.packets.pool);
    }

    /// Returns the number of buffers and the length of each in bytes.
    #[must_use]
    pub fn buffers(&self) -> (u32, usize) {
        (self.packets.pool.count(), self.packets.pool.buffer_len())
    }

    /// Recounts everything and compares it with the counters kept. For tests: O(frames + flows).
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self) -> Result<(), Imbalance> {
        self.outlet.line.recount()?;
        self.recount_tins()?;
        let pool = &self.packets.pool;
        let out = u64::from(self.packets.out.is_some());
        let held = u64::from(self.backlog().packets).saturating_add(out);
        Imbalance::check("buffers in use", 0, pool.in_use().into(), pool.recounted())?;
        Imbalance::check("buffers of frames", 0, pool.in_use().into(), held)
    }
}

/// Converts a length to the type the queue counts in, saturating.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
