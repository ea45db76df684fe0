//! Reading frames: from bytes to a flow, hosts and a tin.

use core::fmt;

use flowhash::parse::vlan_priority;
use flowhash::{
    HostBy, HostIdentity, HostMap, Labeller, LinkHeader, Nat, Parsed, Parser, SipHash13,
};
use sched_core::{Ecn, Side};

use super::builder::SmartQueueBuilder;
use crate::labels::Identified;
use crate::tins::{Fwmark, TinBy, TinPlan};

/// The header that a frame begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LinkLayer {
    /// An Ethernet II header, with or without VLAN tags and PPPoE.
    #[default]
    Ethernet,
    /// An IP header, as TUN devices deliver.
    RawIp,
}

/// Reads frames in your own buffers for a queue with descriptors, like a
/// [`SmartQueue`](crate::SmartQueue) with [`Frames`](crate::Frames) does for its own. Built by
/// [`SmartQueueBuilder::reader`]. `I` is the identity of hosts.
///
/// ```
/// use freeboard::SmartQueue;
/// use freeboard::flowhash::Labels;
/// use freeboard::sched_core::{Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{InTin, TinMode};
///
/// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).tins(TinMode::Diffserv4);
/// let mut reader = builder.reader([42; 16]); // 16 random bytes
/// let mut queue = builder.descriptors()?;
///
/// let mut frames = [[0; 60]; 4]; // buffers of a driver
/// for (handle, frame) in (0..).zip(&mut frames) {
///     frame[12..24].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
///     frame[29] = handle as u8 % 2; // of two hosts
///     let parsed = reader.parse(frame);
///     let read = reader.read(frame, &parsed, 0, queue.tins());
///     let labels = InTin { labels: reader.labels(&read, reader.labeller()), tin: read.tin };
///     let packet = Packet { ecn: read.ecn(), ..Packet::new(handle, 60) };
///     queue.enqueue(Nanos(0), &labels, packet, &mut |_: Packet, _| {})?;
/// }
/// assert_eq!(queue.backlogged_hosts().0, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FrameReader<I = HostMap> {
    link: LinkLayer,
    parser: Parser,
    /// The side whose hosts the identity distinguishes.
    local_side: Side,
    tin_by: TinBy,
    fwmark: Fwmark,
    labeller: Labeller<SipHash13>,
    identity: I,
}

/// Leaves out the key.
impl<I> fmt::Debug for FrameReader<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader").field("link", &self.link).finish_non_exhaustive()
    }
}

/// The headers and the tin of a frame: [`FrameReader::read`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FrameRead<'a> {
    /// Its headers.
    pub parsed: &'a Parsed,
    /// Its Ethernet header, if it has one and the identity of hosts [reads
    /// it](HostIdentity::reads_link).
    pub link: Option<LinkHeader>,
    /// Its tin.
    pub tin: u8,
}

impl FrameRead<'_> {
    /// Returns the ECN bits of its IP header.
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        self.parsed.ip.map_or(Ecn::NotEct, |ip| Ecn::from_bits(ip.ecn()))
    }
}

impl SmartQueueBuilder {
    /// Creates a reader of frames for a queue [with descriptors](Self::descriptors), with the link
    /// layer, [parser](Self::parser), local side and tin selection of this builder. `key` is 16
    /// random bytes, drawn at each start. Keep it secret: a sender who knows the key can force hash
    /// collisions with other flows.
    #[must_use]
    pub fn reader(&self, key: [u8; 16]) -> FrameReader {
        let Self { layer: link, parser, local_side, tin_by, fwmark, .. } = *self;
        let labeller = Labeller::new(SipHash13::new(key));
        let identity = HostMap::unlisted(HostBy::Auto);
        FrameReader { link, parser, local_side, tin_by, fwmark, labeller, identity }
    }
}

impl<I> FrameReader<I> {
    /// Sets the identity of hosts. Call it before the first frame.
    #[must_use]
    pub fn with_identity<J: HostIdentity>(self, identity: J) -> FrameReader<J> {
        self.map_identity(|_| identity)
    }

    pub(super) fn map_identity<J>(self, to: impl FnOnce(I) -> J) -> FrameReader<J> {
        let Self { link, parser, local_side, tin_by, fwmark, labeller, identity } = self;
        let identity = to(identity);
        FrameReader { link, parser, local_side, tin_by, fwmark, labeller, identity }
    }

    /// Returns the identity of hosts.
    pub const fn identity(&self) -> &I {
        &self.identity
    }

    /// Returns a mutable reference to the identity of hosts.
    pub const fn identity_mut(&mut self) -> &mut I {
        &mut self.identity
    }

    /// Sets the header that selects the tin of a frame, from the next frame on.
    pub const fn set_tin_by(&mut self, tin_by: TinBy) {
        self.tin_by = tin_by;
    }

    /// Sets the bits of a mark that select a tin, from the next frame on.
    pub const fn set_fwmark(&mut self, fwmark: Fwmark) {
        self.fwmark = fwmark;
    }

    pub(super) const fn link(&self) -> LinkLayer {
        self.link
    }

    pub(super) const fn tin_by(&self) -> TinBy {
        self.tin_by
    }

    pub(super) const fn fwmark(&self) -> Fwmark {
        self.fwmark
    }

    /// Switches to another secret key of 16 random bytes. Flows and hosts of packets that are
    /// queued have other labels from now on: call [`relabel`](crate::SmartQueue::relabel) too.
    pub fn rekey(&mut self, key: [u8; 16]) {
        self.labeller = Labeller::new(SipHash13::new(key));
    }

    /// Returns the keyed hash of the labels. It changes, and flows get other queues, when the
    /// identity learns from a frame that its hosts have changed.
    pub const fn labeller(&self) -> &Labeller<SipHash13> {
        &self.labeller
    }

    /// Parses the headers of a frame.
    #[inline(always)]
    #[must_use]
    pub fn parse(&self, frame: &[u8]) -> Parsed {
        match self.link {
            LinkLayer::Ethernet => self.parser.ethernet(frame),
            LinkLayer::RawIp => self.parser.ip(frame),
        }
    }
}

impl<I: HostIdentity> FrameReader<I> {
    /// Reads an arriving frame with the headers `parsed`. Its tin is selected from `tins` by the
    /// mark, or else by the [header](TinBy) set for it. The [identity](HostIdentity) of hosts
    /// learns from the frame.
    #[inline(always)]
    #[must_use]
    pub fn read<'a>(
        &mut self,
        frame: &[u8],
        parsed: &'a Parsed,
        mark: u32,
        tins: &TinPlan,
    ) -> FrameRead<'a> {
        let link = self.link_of(frame);
        if let Some(link) = link.filter(|_| parsed.ip.is_some()) {
            self.learn(link);
        }
        FrameRead { parsed, link, tin: self.tin(frame, parsed, mark, tins) }
    }

    /// Returns the Ethernet header of `frame`, if the identity of hosts reads it.
    #[inline(always)]
    pub(super) fn link_of(&self, frame: &[u8]) -> Option<LinkHeader> {
        let is_read = self.link == LinkLayer::Ethernet && self.identity.reads_link();
        if is_read { LinkHeader::of(frame) } else { None }
    }

    #[inline(always)]
    pub(super) fn tin(&self, frame: &[u8], parsed: &Parsed, mark: u32, tins: &TinPlan) -> u8 {
        if tins.count() == 1 {
            return 0;
        }
        let is_ethernet = self.link == LinkLayer::Ethernet;
        let dscp = self.tin_by.dscp(parsed, || vlan_priority(frame).filter(|_| is_ethernet));
        tins.of_marked(self.fwmark.value(mark), dscp)
    }

    /// Lets the identity learn from an IP packet. If hosts change by that, all labels change, so
    /// that no flow that stays backlogged keeps its old host. Queued packets leave under their old
    /// labels.
    #[inline]
    fn learn(&mut self, link: LinkHeader) {
        let end = match self.local_side {
            Side::Source => link.source(),
            Side::Destination => link.destination(),
        };
        if self.identity.learn(end) {
            self.labeller = Labeller::new(self.labeller.hasher().derived());
        }
    }

    /// Returns flow and hosts of a frame. `labeller` is [`labeller`](Self::labeller), or this with
    /// an [address translation](Labeller::with_nat).
    #[inline(always)]
    #[must_use]
    pub const fn labels<'a, H, N: Nat>(
        &'a self,
        read: &FrameRead<'a>,
        labeller: &'a Labeller<H, N>,
    ) -> Identified<'a, H, I, N> {
        let &FrameRead { parsed, link, .. } = read;
        Identified { parsed, link, labeller, identity: &self.identity, local_side: self.local_side }
    }
}
