//! Construction of a smart queue: its settings and their defaults.

use core::fmt;

use flowhash::Parser;
#[cfg(feature = "alloc")]
use flowhash::{DEFAULT_WAYS, MAX_QUEUES, TableError};
use sched_core::{AqmChoice, ChosenAqm, ConfigError, Limits, Nanos, Packet, Side};
use shaper::{KeywordError, Overhead, Rate, Shaped, Shaper};

use super::frames::Frames;
use super::memory_limit::{Buffered, Memory, MemoryLimit, MemoryLimitError};
use super::outlet::{Outlet, ShapedIsolated};
use super::pool::Pool;
use super::reader::LinkLayer;
use super::tins::{configs_of, follow_in_tins};
use super::{AqmKind, BufferState, Descriptors, DeviceRoom, Rtt, SmartQueue};
use crate::ack_filter::AckFilter;
use crate::isolation::{
    AqmMemory, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, Isolation, is_long_enough,
};
use crate::statistics::NonIpFrames;
use crate::storage::Storage;
use crate::tins::{Fwmark, TinBy, TinMode, TinPlan};

/// Settings of a [`SmartQueue`]; all but the rate have a default. The last call builds the queue:
///
/// | | with frames | with descriptors |
/// |---|---|---|
/// | on the heap (feature `alloc`) | `frames` | `descriptors` |
/// | in your own memory | [`frames_in`](Self::frames_in), [`frames_over`](Self::frames_over) | [`descriptors_in`](Self::descriptors_in) |
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{Isolation, Rtt, SmartQueue};
///
/// let key = [42; 16]; // 16 random bytes
/// let builder = SmartQueue::upload(Rate::megabits_per_second(10)?).rtt(Rtt::REGIONAL);
/// let queue = builder.framing("pppoe-ptm ether-vlan")?.frames(key)?;
/// assert_eq!(queue.isolation(), Isolation::DualSrcHost);
/// assert_eq!(queue.overhead().wire_len(1_514), 1_558);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SmartQueueBuilder {
    pub(super) rate: Rate,
    pub(super) isolation: Isolation,
    pub(super) local_side: Side,
    pub(super) rtt: Rtt,
    aqm: AqmKind,
    l4s: bool,
    pub(super) wash: bool,
    tins: TinPlan,
    pub(super) tin_by: TinBy,
    pub(super) fwmark: Fwmark,
    ack_filter: AckFilter,
    /// The framing for Ethernet frames and the one for IP packets.
    pub(super) framing: (Overhead, Overhead),
    pub(super) layer: LinkLayer,
    pub(super) parser: Parser,
    pub(super) max_len: Option<u32>,
    pub(super) limits: Option<Limits>,
    catch_up: Option<Nanos>,
    burst: Option<u32>,
    memory_limit: Option<MemoryLimit>,
    buffer_len: Option<u32>,
    hosts_across_tins: bool,
    ingress: bool,
    #[cfg(feature = "alloc")]
    pub(super) buffers: Option<u32>,
    #[cfg(feature = "alloc")]
    pub(super) queues: usize,
    #[cfg(feature = "alloc")]
    pub(super) hosts: usize,
    #[cfg(feature = "alloc")]
    max_tins: u8,
}

/// Seed of the AQMs that draw random numbers. It need not be secret: a draw only selects among
/// packets of one flow.
const SEED: u64 = 0x6672_6565_626f_6172;
/// Fewest and most buffers allocated unless the caller sets a number.
#[cfg(feature = "alloc")]
const BUFFERS: (u32, u32) = (256, 8_192);

impl SmartQueueBuilder {
    /// Default length of the longest Ethernet frame: header, two VLAN tags (802.1ad) and 1,500
    /// bytes. This also fits a frame with one tag (802.1Q) and the frame check sequence, on devices
    /// that include it.
    pub const MAX_FRAME: u32 = 1_522;
    /// Default length of the longest IP packet.
    pub const MAX_PACKET: u32 = 1_500;

    pub(super) const fn new(rate: Rate, isolation: Isolation, local_side: Side) -> Self {
        Self {
            rate,
            isolation,
            local_side,
            rtt: Rtt::INTERNET,
            aqm: AqmKind::Cobalt,
            l4s: true,
            wash: false,
            tins: TinMode::BestEffort.plan(),
            tin_by: TinBy::Dscp,
            fwmark: Fwmark::ALL,
            ack_filter: AckFilter::Off,
            framing: (Overhead::RAW, Overhead::RAW),
            layer: LinkLayer::Ethernet,
            parser: Parser::new(),
            max_len: None,
            limits: None,
            catch_up: None,
            burst: None,
            memory_limit: None,
            buffer_len: None,
            hosts_across_tins: false,
            ingress: false,
            #[cfg(feature = "alloc")]
            buffers: None,
            #[cfg(feature = "alloc")]
            queues: 1_024,
            #[cfg(feature = "alloc")]
            hosts: 256,
            #[cfg(feature = "alloc")]
            max_tins: 1,
        }
    }

    /// Sets the isolation. `triple-isolate` needs additional tables; on the heap they are allocated
    /// only if it is set here.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// Sets the round-trip time of a typical flow, from which the parameters of the AQM and the
    /// default limits are derived.
    #[must_use]
    pub const fn rtt(self, rtt: Rtt) -> Self {
        Self { rtt, ..self }
    }

    /// Sets the AQM of each queue. Default: [`AqmKind::Cobalt`].
    #[must_use]
    pub const fn aqm(self, kind: AqmKind) -> Self {
        Self { aqm: kind, ..self }
    }

    /// Turns on or off the shallow marking threshold for packets with ECT(1), which scalable
    /// senders set (RFC 9331). Such a packet is marked if it has waited for longer than the
    /// threshold ([`Rtt::l4s`]), in addition to the AQM; other packets are not affected. Default:
    /// on.
    #[must_use]
    pub const fn l4s(self, on: bool) -> Self {
        Self { l4s: on, ..self }
    }

    /// Sets whether the DSCP of frames is cleared when they leave
    /// ([`clear_dscp`](super::clear_dscp)); the ECN bits stay. Use this if the network behind the
    /// link does not use the DSCP or uses it differently. No effect on a queue with descriptors,
    /// which has no access to the bytes. Default: off.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::parse;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::download(Rate::UNLIMITED).wash(true).raw_ip().frames([42; 16])?;
    /// queue.push(
    ///     Nanos(0),
    ///     &[0x45, 0xba, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0x1d, 10, 0, 0, 1, 10, 0, 0, 2],
    /// )?;
    /// let ip = queue.pop(Nanos(0)).and_then(|frame| parse::ip(frame).ip);
    /// assert_eq!(ip.map(|ip| (ip.dscp(), ip.ecn())), Some((0, 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn wash(self, on: bool) -> Self {
        Self { wash: on, ..self }
    }

    /// Sets the tins (traffic classes): a [`TinMode`] or your own [`TinPlan`]. Default: one tin.
    /// Within its share of the rate a tin is served before the tins below it. Hosts and flows of
    /// each tin are isolated as set by [`isolation`](Self::isolation), and the AQM of each tin is
    /// set for its share of the rate.
    ///
    /// With frames, the tin is selected by the DSCP (or the header set by
    /// [`tin_by`](Self::tin_by)), or by a mark that the caller passes
    /// ([`SmartQueue::push_marked`]); with descriptors, by the labels ([`InTin`](crate::InTin)).
    ///
    /// ```
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let ip = |dscp: u8, last| {
    ///     [0x45, dscp << 2, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, last]
    /// };
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
    /// let mut queue = builder.raw_ip().frames([42; 16])?;
    /// queue.push(Nanos(0), &ip(0, 2))?;
    /// queue.push(Nanos(0), &ip(46, 3))?;
    /// assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&ip(46, 3)[..]), "voice goes first");
    /// assert_eq!(queue.tin_counters(0).map(|best_effort| best_effort.backlog.packets), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tins(self, plan: impl Into<TinPlan>) -> Self {
        Self { tins: plan.into(), ..self }
    }

    /// Sets the header that selects the tin of a frame. No effect on a queue with descriptors,
    /// whose caller reads the headers ([`TinBy::dscp`]). Default: [`TinBy::Dscp`].
    ///
    /// ```
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinBy, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
    /// let mut queue = builder.tin_by(TinBy::Priority).frames([42; 16])?;
    /// let mut frame = [0; 60];
    /// frame[12..16].copy_from_slice(&[0x81, 0, 5 << 5, 7]);
    /// queue.push(Nanos(0), &frame)?;
    /// assert_eq!(queue.tin_counters(3).map(|voice| voice.backlog.packets), Some(1));
    /// queue.set_tin_by(TinBy::Dscp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn tin_by(self, tin_by: TinBy) -> Self {
        Self { tin_by, ..self }
    }

    /// Sets the bits of a [mark](SmartQueue::push_marked) that select a tin. No effect on a queue
    /// with descriptors, whose caller evaluates the marks ([`Fwmark::value`]). Default: all bits.
    ///
    /// ```
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{Fwmark, SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
    /// let mut queue = builder.fwmark(Fwmark::new(0xf0)).frames([42; 16])?;
    /// queue.push_marked(Nanos(0), 0x1234_5640, &[0; 60])?;
    /// assert_eq!(queue.tin_counters(3).map(|voice| voice.backlog.packets), Some(1));
    /// queue.set_fwmark(Fwmark::NONE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn fwmark(self, fwmark: Fwmark) -> Self {
        Self { fwmark, ..self }
    }

    /// Sets whether a host has one share in all tins together instead of one in each tin. See
    /// [`Isolated::set_hosts_across_tins`](crate::Isolated::set_hosts_across_tins) for effect and
    /// cost. Default: off.
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
    /// let queue = builder.hosts_across_tins(true).descriptors()?;
    /// assert!(queue.hosts_across_tins());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn hosts_across_tins(self, on: bool) -> Self {
        Self { hosts_across_tins: on, ..self }
    }

    /// Sets the filter for TCP acknowledgements, which drops a queued acknowledgement once a later
    /// one carries all of its information. It helps on uploads of links whose download is at least
    /// ten times faster. With frames, the queue reads the headers; with descriptors, the caller
    /// does ([`SmartQueue::enqueue_with_acks`]). Default: off.
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{AckFilter, SmartQueue};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(1)?);
    /// let mut queue = builder.ack_filter("aggressive".parse()?).frames([42; 16])?;
    /// assert_eq!(queue.ack_filter(), AckFilter::Aggressive);
    /// queue.set_ack_filter(AckFilter::Off);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn ack_filter(self, filter: AckFilter) -> Self {
        Self { ack_filter: filter, ..self }
    }

    /// Sets the framing of the link from keywords: `"docsis"`, `"pppoe-ptm ether-vlan"`, `"overhead
    /// 44 mpu 96 atm"` ([`Overhead::from_keywords`]).
    ///
    /// # Errors
    /// [`KeywordError`] names the first wrong keyword.
    pub fn framing(self, words: &str) -> Result<Self, KeywordError> {
        let of_frames = Overhead::from_keywords(words, 14)?;
        let of_packets = Overhead::from_keywords(words, 0)?;
        Ok(Self { framing: (of_frames, of_packets), ..self })
    }

    /// Sets the framing of the link. Its overhead is added to the length that a packet has when it
    /// is enqueued, including any Ethernet header.
    #[must_use]
    pub const fn overhead(self, link: Overhead) -> Self {
        Self { framing: (link, link), ..self }
    }

    /// Declares that packets begin with an IP header, as on a TUN device, instead of an Ethernet
    /// header. Ethernet frames pushed into such a queue are all treated as one flow of one host;
    /// [`NonIpFrames::wrong_layer`](crate::NonIpFrames::wrong_layer) counts them.
    #[must_use]
    pub const fn raw_ip(self) -> Self {
        Self { layer: LinkLayer::RawIp, ..self }
    }

    /// Sets which tunnels are parsed and when IPv6 flow labels are used. No effect on a queue with
    /// descriptors, whose caller parses the headers. Default: [`Parser::new`].
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::{FlowLabels, Parser, Tunnels};
    /// use freeboard::shaper::Rate;
    ///
    /// // Finds the flows inside a VXLAN tunnel, whose packets all have the same outer addresses.
    /// let parser = Parser { tunnels: Tunnels::ALL, flow_labels: FlowLabels::WithoutPorts };
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).parser(parser);
    /// let queue = builder.frames([42; 16])?; // 16 random bytes
    ///
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn parser(self, parser: Parser) -> Self {
        Self { parser, ..self }
    }

    /// Sets the length of the longest packet in bytes, including all headers: up to
    /// [`Packet::MAX_LEN`]. Default: [`MAX_FRAME`](Self::MAX_FRAME), or
    /// [`MAX_PACKET`](Self::MAX_PACKET) for packets that begin with an IP header. In
    /// [`StaticFrames`](super::StaticFrames) it is always the length of a buffer.
    #[must_use]
    pub const fn max_len(self, bytes: u32) -> Self {
        Self { max_len: Some(bytes), ..self }
    }

    /// Sets the limits of the queue. Default on the heap: what the rate carries in four round-trip
    /// times, at least 32 of the longest packets and at most 16 MiB; it is raised with the rate,
    /// but never lowered. Default in your own memory: only the number of buffers or descriptors.
    #[must_use]
    pub const fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Sets a limit on the bytes of buffers that queued packets occupy, in addition to the
    /// [limits](Self::limits): [`MemoryLimit`]. Default: none.
    #[must_use]
    pub const fn memory_limit(self, limit: MemoryLimit) -> Self {
        Self { memory_limit: Some(limit), ..self }
    }

    /// Sets the bytes of memory that each packet occupies in a queue with descriptors: the length
    /// of your buffers. Default: the length of the packet. With frames it is always the length of
    /// the queue's buffers. Building fails if a buffer is shorter than the
    /// [longest packet](Self::max_len).
    #[must_use]
    pub const fn buffer_len(self, bytes: u32) -> Self {
        Self { buffer_len: Some(bytes), ..self }
    }

    /// Sets how much lost time the shaper makes up for when the caller is late ([`Shaped`]).
    /// [`Nanos::ZERO`] turns catch-up off, for a caller that is never later than
    /// [`poll_at`](SmartQueue::poll_at). Default: 10 ms.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(10)?).catch_up(Nanos::ZERO);
    /// assert_eq!(builder.descriptors()?.line().catch_up(), Nanos::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn catch_up(self, span: Nanos) -> Self {
        Self { catch_up: Some(span), burst: None, ..self }
    }

    /// Sets the burst in bytes for a caller with a coarse timer, in place of
    /// [`catch_up`](Self::catch_up); it does not change with the rate ([`Shaper::with_burst`]). The
    /// bytes that leave in any interval are at most the sum of what the rate carries in it, one
    /// packet, and the burst (or what the rate carries in a nanosecond, if that is more).
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::shaper::Rate;
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(10)?).burst(15_000);
    /// assert_eq!(builder.descriptors()?.line().burst(), Some(15_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn burst(self, bytes: u32) -> Self {
        Self { burst: Some(bytes), catch_up: None, ..self }
    }

    /// Sets whether packets dropped or rejected here are charged to the link: for a queue *behind*
    /// the bottleneck, as for downloads. See [`Shaped`](Shaped#ingress) for the guarantee. Default:
    /// off.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::shaper::Rate;
    ///
    /// let builder = SmartQueue::download(Rate::megabits_per_second(47)?).ingress(true);
    /// let mut queue = builder.descriptors()?;
    /// assert!(queue.is_ingress());
    /// queue.set_ingress(false);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn ingress(self, on: bool) -> Self {
        Self { ingress: on, ..self }
    }

    /// Maximum number of frames, or descriptors, on the heap: 2^20.
    #[cfg(feature = "alloc")]
    pub const MAX_BUFFERS: u32 = 1 << 20;

    /// Sets the number of frames, or descriptors, on the heap: 1 to
    /// [`MAX_BUFFERS`](Self::MAX_BUFFERS). Each frame takes [`max_len`](Self::max_len) bytes.
    /// Default: enough for the limit in bytes, at least 256 and at most 8,192.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::shaper::Rate;
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).buffers(u32::MAX);
    /// let error = builder.frames([42; 16]).unwrap_err();
    /// assert_eq!(error.to_string(), "buffers 4294967295 is out of range (expected 1 to 1048576)");
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[cfg(feature = "alloc")]
    #[must_use]
    pub const fn buffers(self, count: u32) -> Self {
        Self { buffers: Some(count), ..self }
    }

    /// Sets the numbers of queues and of host entries on the heap: powers of two, at least 8,
    /// together [at most 65,535](IsolatedMemory::MAX_QUEUES). Hosts rarely share an entry if there
    /// are twice as many entries as hosts. Default: 1,024 and 256.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub const fn tables(self, queues: usize, hosts: usize) -> Self {
        Self { queues, hosts, ..self }
    }

    /// Sets the number of tins to allocate on the heap, up to eight, for a queue that starts with
    /// one tin and gets more later ([`SmartQueue::set_tins`]). A tin takes 44 bytes per host.
    /// Default: eight if the queue is built with [several tins](Self::tins), else one. Without the
    /// feature `tins` there is always one.
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let mut queue = builder.max_tins(4).frames([42; 16])?; // 16 random bytes
    /// queue.set_tins(TinMode::Diffserv4)?;
    ///
    /// let mut queue = builder.frames([42; 16])?;
    /// let error = queue.set_tins(TinMode::Diffserv4).unwrap_err();
    /// assert_eq!(error.to_string(), "turns: 256 elements (expected 1024 or more)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "alloc")]
    #[must_use]
    pub const fn max_tins(self, tins: u8) -> Self {
        Self { max_tins: tins, ..self }
    }

    /// Returns the number of tins for which to allocate turns.
    #[cfg(feature = "alloc")]
    pub(super) fn room_for_tins(&self) -> usize {
        let planned = if self.tins.count() > 1 { TinPlan::MAX_TINS } else { 1 };
        planned.max(self.max_tins.into())
    }

    /// Builds a queue with descriptors in your own tables, including
    /// [those of its AQM](IsolatedMemory::aqm). Handles must be less than the number of packets for
    /// which `memory` has space. Unless limits are set, only the number of descriptors limits the
    /// queue.
    ///
    /// # Errors
    /// [`SmartQueueError`], with the given and the expected value.
    pub fn descriptors_in<S: Storage>(
        self,
        memory: IsolatedMemory<S>,
        aqm: AqmMemory<S>,
    ) -> Result<SmartQueue<S, Descriptors>, SmartQueueError> {
        let limits = self.limits.unwrap_or(Limits::NONE);
        self.build(memory, aqm, limits, false, self.longest(), Descriptors)
    }

    /// Builds a queue with frames in your own tables and buffers, which may include tables for
    /// [rates](IsolatedMemory::with_rates) and for `triple-isolate`. `states` has one element for
    /// each buffer, and `bytes` at least [`max_len`](Self::max_len) bytes for each. For `aqm` and
    /// limits see [`descriptors_in`](Self::descriptors_in), for `key`
    /// [`frames_in`](Self::frames_in).
    ///
    /// # Errors
    /// [`SmartQueueError`], with the given and the expected value.
    ///
    /// ```
    /// use freeboard::sched_core::TokenBucket;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{BufferState, Heap, HostTerms, IsolatedMemory, SmartQueue};
    ///
    /// // 512 frames of up to 1,522 bytes, 1,024 queues, 256 hosts, one tin, with rates.
    /// let memory = IsolatedMemory::<Heap>::allocate(1_024, 256, 1, 512).with_rates();
    /// let aqm = memory.aqm();
    /// let (bytes, states) = (vec![0; 512 * 1_522].into(), [BufferState::EMPTY; 512].into());
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let queue = builder.frames_over(memory, aqm, bytes, states, [42; 16])?;
    /// // No host gets more than 5 Mbit/s.
    /// let ceiling = Some(TokenBucket::new(5_000_000, 15_000)?);
    /// let queue = queue.with_host_rules(move |_| HostTerms { ceiling, ..HostTerms::default() });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn frames_over<S: Storage>(
        self,
        memory: IsolatedMemory<S>,
        aqm: AqmMemory<S>,
        bytes: S::Of<u8>,
        states: S::Of<BufferState>,
        key: [u8; 16],
    ) -> Result<SmartQueue<S, Frames<S>>, SmartQueueError> {
        let (buffers, max_len) = (states.as_ref().len(), self.longest());
        if buffers == 0 {
            return Err(SmartQueueError::NoBuffers);
        }
        is_long_enough(("packets", memory.packets(), buffers))?;
        is_long_enough(("bytes", bytes.as_ref().len(), buffers.saturating_mul(max_len as usize)))?;
        let pool = Pool::new(bytes, states, max_len as usize);
        let frames = Frames::new(pool, self.wash, self.reader(key));
        let limits = self.limits.unwrap_or(Limits::NONE);
        self.build(memory, aqm, limits, false, max_len, frames)
    }

    /// Returns the length of the longest packet in bytes.
    pub(super) const fn longest(&self) -> u32 {
        match (self.max_len, self.layer) {
            (Some(bytes), _) => bytes,
            (None, LinkLayer::Ethernet) => Self::MAX_FRAME,
            (None, LinkLayer::RawIp) => Self::MAX_PACKET,
        }
    }

    /// Returns the number of buffers or descriptors to allocate, and their limits.
    #[cfg(feature = "alloc")]
    #[expect(clippy::integer_division, reason = "by what is not zero, at construction")]
    pub(super) fn sized(&self) -> Result<(u32, Limits), SmartQueueError> {
        let max_len = self.longest();
        let in_range = (1..=Packet::MAX_LEN).contains(&max_len);
        if !in_range {
            let (what, value) = ("longest packet in bytes", max_len.into());
            let (min, max) = (1, Packet::MAX_LEN.into());
            return Err(ConfigError::OutOfRange { what, value, min, max }.into());
        }
        // Checked before anything is allocated.
        for size in [self.queues, self.hosts] {
            let (queues, ways) = (u32::try_from(size).unwrap_or(u32::MAX), DEFAULT_WAYS);
            if !queues.is_power_of_two() || !(ways..=MAX_QUEUES).contains(&queues) {
                return Err(IsolatedError::Table(TableError::Queues { queues, ways }).into());
            }
        }
        let (value, max) = (
            self.queues as u64 + self.hosts as u64,
            IsolatedMemory::<crate::Heap>::MAX_QUEUES.into(),
        );
        if value > max {
            let what = "queues and hosts";
            return Err(ConfigError::OutOfRange { what, value, min: 16, max }.into());
        }
        let wanted = self.rtt.limit_bytes(self.rate, max_len);
        let (fewest, most) = BUFFERS;
        let count = self.buffers.unwrap_or((wanted / max_len).max(fewest).min(most));
        if count == 0 {
            return Err(SmartQueueError::NoBuffers);
        }
        // The largest possible allocation, which matters on small targets: a larger one would
        // panic.
        let most = u32::try_from(isize::MAX.unsigned_abs() / (max_len as usize));
        let most = most.unwrap_or(u32::MAX).min(Self::MAX_BUFFERS);
        if count > most {
            let (what, value) = ("buffers", count.into());
            return Err(ConfigError::OutOfRange { what, value, min: 1, max: most.into() }.into());
        }
        let by_rate = Limits { packets: count, bytes: wanted };
        Ok((count, self.limits.unwrap_or(by_rate)))
    }

    /// Builds the queue directly in the caller's result, to save stack: all calls that may fail
    /// come first.
    pub(super) fn build<S: Storage, P: Buffered>(
        &self,
        memory: IsolatedMemory<S>,
        aqm: AqmMemory<S>,
        limits: Limits,
        is_by_rate: bool,
        max_len: u32,
        packets: P,
    ) -> Result<SmartQueue<S, P>, SmartQueueError> {
        let &Self { rate, isolation, local_side, rtt, ack_filter, layer, ref tins, .. } = self;
        let buffer = packets.own_buffer_len().or(self.buffer_len);
        if let Some(buffer) = buffer.filter(|&buffer| buffer < max_len) {
            let (what, value) = ("buffer of a packet in bytes", buffer.into());
            let (min, max) = (max_len.into(), u32::MAX.into());
            return Err(ConfigError::OutOfRange { what, value, min, max }.into());
        }
        let held = self
            .memory_limit
            .map(|limit| Memory::new(limit, (rate, rtt), (buffer, max_len), limits));
        let held = held.transpose().map_err(SmartQueueError::MemoryLimit)?;
        let limits = held.map_or(limits, |held| held.limits());
        let AqmMemory { states, settings, mut plan } = aqm;
        is_long_enough(("AQM states", states.as_ref().len(), memory.queues()))?;
        is_long_enough(("AQM settings", settings.as_ref().len(), memory.tins()))?;
        is_long_enough(("plans of tins", plan.as_ref().len(), 1))?;
        plan.as_mut().fill(*tins);
        let config = IsolatedConfig::new(max_len, limits);
        let config = config.isolated_by(isolation).with_local_side(local_side);
        let link = match layer {
            LinkLayer::Ethernet => self.framing.0,
            LinkLayer::RawIp => self.framing.1,
        };
        // Clamped before the AQM is built, so that a length out of range gets its own error later.
        let within = max_len.clamp(1, Packet::MAX_LEN);
        let mut aqm = ChosenAqm::new(states, settings, AqmChoice::None, SEED)?;
        follow_in_tins::<S>(&mut aqm, tins, (rate, rtt, within), self.aqm, self.l4s)?;
        let configs = configs_of(tins, rate);
        let several = configs.get(..tins.count().into());
        let several = several.filter(|_| tins.mode() != Some(TinMode::BestEffort));
        let across = self.hosts_across_tins;
        let queues = Isolated::with_tins(memory, aqm, config, (several, across), link)?;
        let line: ShapedIsolated<S> = Shaped::new(queues, self.line(), link).ingress(self.ingress);
        let outlet = Outlet {
            line,
            device: DeviceRoom::Ready,
            max_len,
            rtt,
            is_by_rate,
            memory: held,
            buffer,
            ack_filter,
            layer,
            tins: plan,
            non_ip: NonIpFrames::default(),
        };
        Ok(SmartQueue { outlet, packets })
    }

    #[inline(never)]
    const fn line(&self) -> Shaper {
        let line = Shaper::new(self.rate);
        match (self.catch_up, self.burst) {
            (Some(span), _) => line.with_catch_up(span),
            (None, Some(bytes)) => line.with_burst(bytes),
            (None, None) => line,
        }
    }
}

/// Error returned if a [`SmartQueue`] cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SmartQueueError {
    /// The tables, the isolation or the longest packet are out of range.
    Isolated(IsolatedError),
    /// There are no buffers, or no descriptors; at least one is needed.
    NoBuffers,
    /// The memory limit is smaller than the longest packet.
    MemoryLimit(MemoryLimitError),
}

impl From<IsolatedError> for SmartQueueError {
    fn from(error: IsolatedError) -> Self {
        Self::Isolated(error)
    }
}

impl From<ConfigError> for SmartQueueError {
    fn from(error: ConfigError) -> Self {
        Self::Isolated(error.into())
    }
}

impl fmt::Display for SmartQueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolated(error) => error.fmt(f),
            Self::MemoryLimit(error) => error.fmt(f),
            Self::NoBuffers => f.write_str("0 buffers (expected 1 or more)"),
        }
    }
}

impl core::error::Error for SmartQueueError {}
