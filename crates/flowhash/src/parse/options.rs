//! What is read: `Parser`, `Tunnels`, `FlowLabels`.

/// Options of reading. The default follows the tunnels of [`Tunnels::VISIBLE`].
///
/// Make labels from its answers with a [`Labeller`](crate::Labeller), which knows whose word an
/// inner address is; [`Labels::new`](crate::Labels::new) of a followed packet's key takes the
/// sender's.
///
/// # Examples
///
/// UDP in IPv6 in IPv4 (6in4): the flow is the inner one, the mark belongs outside.
///
/// ```
/// use flowhash::{Ending, Parser, parse};
///
/// let mut packet = vec![0x45, 0x02, 0, 68, 0, 0, 0, 0, 64, 41, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
/// packet.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
/// packet.extend([[0x20; 16], [0x30; 16]].concat());
/// packet.extend([0x13, 0x8c, 0, 53, 0, 8, 0, 0]);
///
/// let outer = parse::ip(&packet);
/// assert_eq!((outer.ending, outer.inner), (Ending::NoPorts, None));
///
/// let parsed = Parser::new().ip(&packet);
/// assert_eq!(parsed.key.transport().map(|transport| transport.dst_port), Some(53));
/// assert_eq!(parsed.ip, outer.ip);
/// assert_eq!(parsed.ip.map(|ip| (ip.offset, ip.ecn())), Some((0, 2)));
/// assert_eq!(parsed.inner.map(|inner| inner.ip.offset), Some(20));
/// assert_eq!(parsed.outer_key(), &outer.key);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parser {
    /// Which tunnels are followed.
    pub tunnels: Tunnels,
    /// What the IPv6 flow label is taken for.
    pub flow_labels: FlowLabels,
}

impl Parser {
    /// The outermost IP header alone, PPPoE passed: what [`ethernet`](super::ethernet) and
    /// [`ip`](super::ip) read.
    pub const OUTER: Self = Self { tunnels: Tunnels::PPPOE, flow_labels: FlowLabels::WithoutPorts };

    /// Follows the tunnels of [`Tunnels::VISIBLE`].
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { tunnels: Tunnels::VISIBLE, flow_labels: FlowLabels::WithoutPorts }
    }
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

/// A set of encapsulations that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnels(u8);

impl Tunnels {
    /// None: tags are passed, nothing else.
    pub const NONE: Self = Self(0);
    /// PPPoE sessions, of IPv4 and IPv6.
    pub const PPPOE: Self = Self(1);
    /// Protocols 4 and 41: IPv4 and IPv6, in either.
    pub const IP_IN_IP: Self = Self(2);
    /// GRE version 0 of IPv4, IPv6 or Ethernet, without sequence numbers.
    pub const GRE: Self = Self(4);
    /// GRE, also with sequence numbers: for tunnels whose receiver takes packets in any order.
    pub const SEQUENCED_GRE: Self = Self(4 | 8);
    /// VXLAN of Ethernet of IP. Whatever is sent to UDP port 4789 and has the flag of a valid
    /// network identifier is taken for it.
    pub const VXLAN: Self = Self(16);
    /// What is followed by default: PPPoE, IP in IP, and GRE without sequence numbers.
    pub const VISIBLE: Self = Self::PPPOE.with(Self::IP_IN_IP).with(Self::GRE);
    /// Everything above.
    pub const ALL: Self = Self::VISIBLE.with(Self::SEQUENCED_GRE).with(Self::VXLAN);

    /// Both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are followed.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for Tunnels {
    fn default() -> Self {
        Self::VISIBLE
    }
}

/// What the IPv6 flow label is taken for. A label of zero says nothing (RFC 6437 §2) and is never
/// used; another stands, with the addresses, for one flow of the sender.
///
/// As an identity the 20 bits fill the place of the ports: the upper four the source port, the
/// others the destination port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FlowLabels {
    /// For nothing.
    Ignored,
    /// For ports where there are none to read: in fragments, in protocols without ports, in tunnels
    /// that are not followed (RFC 6438), behind too many headers.
    ///
    /// Fragments repeat the label of their packet (RFC 8200 §4.5), so the fragments of one packet
    /// stay together while those of different flows part. A flow's fragments are no more apart from
    /// its whole packets than they are by ports, of which they have none. Where ports can be read
    /// they are better: senders may change the label inside a connection, and many leave it zero.
    #[default]
    WithoutPorts,
    /// For protocol and ports of every packet that has one (RFC 6437 §2, the 3-tuple): whole
    /// packets and fragments of a flow have one key, with protocol 0. A sender that changes labels
    /// inside a connection reorders it.
    Always,
}
