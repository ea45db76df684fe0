//! Options of the parser: tunnels and flow labels.

/// A packet parser with options. By default it follows the tunnels of [`Tunnels::VISIBLE`].
///
/// Compute labels from its results with a [`Labeller`](crate::Labeller), which does not trust inner
/// addresses; [`Labels::new`](crate::Labels::new) on the key of a packet in a tunnel does.
///
/// # Examples
///
/// UDP in IPv6 in IPv4 (6in4): the flow is the inner one, and marks belong to the outer header.
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
    /// Tunnels that are followed.
    pub tunnels: Tunnels,
    /// Use of the IPv6 flow label.
    pub flow_labels: FlowLabels,
}

impl Parser {
    /// Reads only the outermost IP header, after PPPoE if present, like
    /// [`ethernet`](super::ethernet) and [`ip`](super::ip).
    pub const OUTER: Self = Self { tunnels: Tunnels::PPPOE, flow_labels: FlowLabels::WithoutPorts };

    /// Creates a parser that follows the tunnels of [`Tunnels::VISIBLE`].
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

/// A set of encapsulations that a [`Parser`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnels(u8);

impl Tunnels {
    /// No encapsulation; only VLAN tags and SNAP are skipped.
    pub const NONE: Self = Self(0);
    /// PPPoE sessions with IPv4 and IPv6.
    pub const PPPOE: Self = Self(1);
    /// IPv4 and IPv6 in either: protocols 4 and 41.
    pub const IP_IN_IP: Self = Self(2);
    /// GRE version 0 with IPv4, IPv6 or Ethernet, without sequence numbers.
    pub const GRE: Self = Self(4);
    /// GRE, also with sequence numbers, for tunnels whose receiver accepts reordered packets.
    pub const SEQUENCED_GRE: Self = Self(4 | 8);
    /// VXLAN with Ethernet with IP. Includes everything sent to UDP port 4789 with the flag of a
    /// valid network identifier.
    pub const VXLAN: Self = Self(16);
    /// The default: PPPoE, IP in IP, and GRE without sequence numbers.
    pub const VISIBLE: Self = Self::PPPOE.with(Self::IP_IN_IP).with(Self::GRE);
    /// All encapsulations above.
    pub const ALL: Self = Self::VISIBLE.with(Self::SEQUENCED_GRE).with(Self::VXLAN);

    /// Returns the union of both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if the set includes all of `other`.
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

/// Use of the IPv6 flow label in keys. A label of zero means none (RFC 6437 §2) and is never used;
/// any other label identifies, with the addresses, one flow of the sender.
///
/// In a key the 20 bits take the place of the ports: the upper four that of the source port, the
/// others that of the destination port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FlowLabels {
    /// Never used.
    Ignored,
    /// Used in place of ports if there are none to read: for fragments, protocols without ports,
    /// tunnels that are not followed (RFC 6438), and packets with too many headers.
    ///
    /// Fragments repeat the label of their packet (RFC 8200 §4.5), so fragments of one packet stay
    /// together while those of different flows are separated. Separating a flow's fragments from
    /// its whole packets loses nothing, since fragments have no ports anyway. If ports can be read
    /// they are better: senders may change the label within a connection, and many leave it zero.
    #[default]
    WithoutPorts,
    /// Used in place of protocol and ports for every packet with a label (RFC 6437 §2, the
    /// 3-tuple): whole packets and fragments of a flow have one key, with protocol 0. A sender that
    /// changes labels within a connection gets it reordered.
    Always,
}
