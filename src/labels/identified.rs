//! Labels with hosts as defined by a host identity.

use flowhash::{
    FlowHasher, HostIdentity, HostKey, Labeller, LinkEnd, LinkHeader, Nat, NoNat, Parsed,
};
use sched_core::Side;

use super::Labelled;

/// A parsed packet whose labels a [`Labeller`] computes on demand, with its rules for tunnels and
/// translated addresses: one hash for most packets, three for one in a tunnel. Hosts on the local
/// side are those of a [`HostIdentity`]: an address, a machine with several addresses, a prefix, a
/// MAC address, a VLAN or a list. [`FrameReader`](crate::FrameReader) creates it from a frame.
///
/// ```
/// use freeboard::flowhash::{
///     HostBy, HostMap, HostMember, Labeller, LinkHeader, Parser, SipHash13,
/// };
/// use freeboard::sched_core::Side;
/// use freeboard::{Identified, Labelled};
///
/// let members = [HostMember::v4([10, 0, 0, 1], 0), HostMember::v4([10, 0, 0, 2], 0)];
/// let identity = HostMap::new(HostBy::Mac, members)?;
/// let (parser, labeller) = (Parser::default(), Labeller::new(SipHash13::new([42; 16])));
/// let source = |last: u8| {
///     let mut frame = [0; 60];
///     frame[12..24].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
///     frame[26..38].copy_from_slice(&[10, 0, 0, last, 192, 0, 2, 1, 0x13, 0x88, 0x01, 0xbb]);
///     let (parsed, link) = (parser.ethernet(&frame), LinkHeader::of(&frame));
///     let (labeller, identity) = (&labeller, &identity);
///     Identified { parsed: &parsed, link, labeller, identity, local_side: Side::Source }.source()
/// };
/// assert_eq!(source(1), source(2));
/// assert_ne!(source(1), source(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Identified<'a, H, I, N = NoNat> {
    /// The headers of the packet.
    pub parsed: &'a Parsed,
    /// Its Ethernet header, if it has one and the identity [reads it](HostIdentity::reads_link).
    pub link: Option<LinkHeader>,
    /// The keyed hash and its rules, equal for all packets of a queue.
    pub labeller: &'a Labeller<H, N>,
    /// The identity of hosts.
    pub identity: &'a I,
    /// The side to which the identity applies. Hosts of the other side are addresses.
    pub local_side: Side,
}

impl<H: FlowHasher, I: HostIdentity, N: Nat> Identified<'_, H, I, N> {
    /// Returns the host of this side.
    #[inline]
    #[must_use]
    pub fn host(&self, side: Side) -> HostKey {
        let (address, end): (HostKey, fn(LinkHeader) -> LinkEnd) = match side {
            Side::Source => (self.labeller.src_key(self.parsed), LinkHeader::source),
            Side::Destination => (self.labeller.dst_key(self.parsed), LinkHeader::destination),
        };
        if side != self.local_side {
            return address;
        }
        self.identity.host(address, self.link.map_or(LinkEnd::NONE, end))
    }
}

impl<H: FlowHasher, I: HostIdentity, N: Nat> Labelled for Identified<'_, H, I, N> {
    #[inline]
    fn flow(&self) -> u32 {
        self.labeller.flow(self.parsed)
    }

    #[inline]
    fn source(&self) -> u32 {
        self.host(Side::Source).label(self.labeller.hasher())
    }

    #[inline]
    fn destination(&self) -> u32 {
        self.host(Side::Destination).label(self.labeller.hasher())
    }
}
