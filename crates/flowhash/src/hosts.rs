//! Host identity: by address, prefix, MAC, VLAN, or lists of the operator.
//!
//! A machine has an IPv4 address and several IPv6 addresses, and a subscriber has a prefix. If each
//! address counted as a host, a machine would get as many shares as it has addresses. A [`HostMap`]
//! decides which addresses are one host:
//!
//! - **Lists.** Addresses, prefixes, ranges and MACs with the same number are one host,
//!   [`HostKey::Named`].
//! - **All others** are identified by [`HostBy`]. [`HostBy::Auto`] identifies a machine by its MAC,
//!   whatever addresses it uses; it is the default for frames with an Ethernet header.
//!
//! This applies to hosts on the local side. A remote host is identified by its address, since its
//! MAC is that of a router.

use core::fmt;

use crate::{HostKey, LinkEnd};

/// Maximum number of members of all lists of a [`HostMap`].
pub const MAX_MEMBERS: usize = 1 << 16;

/// Maximum number of members that one search reads: `log2` of [`MAX_MEMBERS`], plus one.
pub const MAX_SEARCH: u32 = MAX_MEMBERS.ilog2() + 1;

/// Identifies the host of a packet: [`ByAddress`], a [`HostMap`], or your own table.
///
/// The answer decides the share of a flow, not its queue, so packets of a flow stay in order. A
/// flow keeps its host until its queue is empty.
pub trait HostIdentity {
    /// Returns true if [`host`](Self::host) uses its `link`; `false` saves reading the Ethernet
    /// header.
    fn reads_link(&self) -> bool;

    /// Learns from the frame of an IP packet, before [`host`](Self::host) is called for it. `link`
    /// is the local side of its Ethernet header.
    ///
    /// Returns true if hosts are identified differently from this frame on, so that flows should
    /// not keep their hosts: the caller then labels flows under [another
    /// key](crate::SipHash13::derived). Does nothing by default.
    fn learn(&mut self, _link: LinkEnd) -> bool {
        false
    }

    /// Returns an identity that never changes the way in which it identifies hosts, for callers
    /// with rules for single hosts. Returns `self` by default.
    #[must_use]
    fn settled(self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Returns the host of a packet.
    ///
    /// `address` is its address on the local side, after translation ([`Nat`](crate::Nat)), or
    /// [`HostKey::NotIp`]. `link` is that side of its Ethernet header.
    fn host(&self, address: HostKey, link: LinkEnd) -> HostKey;
}

impl<I: HostIdentity + ?Sized> HostIdentity for &I {
    #[inline]
    fn reads_link(&self) -> bool {
        (**self).reads_link()
    }

    #[inline]
    fn host(&self, address: HostKey, link: LinkEnd) -> HostKey {
        (**self).host(address, link)
    }
}

/// Identifies hosts by address: each address is a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByAddress;

impl HostIdentity for ByAddress {
    #[inline(always)]
    fn reads_link(&self) -> bool {
        false
    }

    #[inline(always)]
    fn host(&self, address: HostKey, _link: LinkEnd) -> HostKey {
        address
    }
}

/// Identification of hosts that are on no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HostBy {
    /// By address.
    #[default]
    Address,
    /// By the first bits of the address: all hosts of a prefix are one.
    Prefix(PrefixLengths),
    /// By MAC address. The sender can choose it, and all hosts behind another router have that
    /// router's. By address for packets without an Ethernet header.
    Mac,
    /// By VLAN, from the tags. Frames without a tag belong to one host. By address for packets
    /// without an Ethernet header.
    Vlan,
    /// By MAC address if frames of IP packets come from several MACs, and by address while all come
    /// from one, as behind a router: see [`ALONE_AFTER`]. By address for packets without an
    /// Ethernet header.
    ///
    /// A machine may use any number of IPv6 addresses of its subnet. By address, each would be a
    /// host with its own share; by MAC they are one. If there is only one MAC, additional addresses
    /// take nothing from others. Behind a router among other MACs, all hosts are one; use
    /// [`Address`](Self::Address) to separate them. Packets other than IP remain one host, because
    /// forging their source address costs a sender nothing.
    Auto,
}

/// Number of consecutive frames from one MAC after which [`HostBy::Auto`] considers it the only
/// one.
pub const ALONE_AFTER: u32 = 1 << 20;

/// MAC of the last frame, and the number of frames for which it counts as one of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cards {
    last: Option<[u8; 6]>,
    /// Frames from `last` until it counts as the only MAC; 0 if it does.
    several_for: u32,
}

impl Cards {
    const NONE: Self = Self { last: None, several_for: 0 };

    /// Returns true if there was only one MAC until this frame. Ignores group addresses.
    #[inline]
    fn saw(&mut self, mac: [u8; 6]) -> bool {
        if self.last == Some(mac) {
            self.several_for = self.several_for.saturating_sub(1);
            return false;
        }
        self.saw_another(mac)
    }

    #[cold]
    fn saw_another(&mut self, mac: [u8; 6]) -> bool {
        let [first, ..] = mac;
        if first & 1 == 1 || self.last.replace(mac).is_none() {
            return false;
        }
        let were_several = self.several_for > 0;
        self.several_for = ALONE_AFTER;
        !were_several
    }
}

/// Number of leading bits of an address that identify a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PrefixLengths {
    v4: u8,
    v6: u8,
}

impl PrefixLengths {
    /// The whole IPv4 address, and the /64 of an IPv6 address: what one machine behind a router
    /// has.
    pub const SUBNETS: Self = Self { v4: 32, v6: 64 };

    /// Creates prefix lengths: the first `v4` bits of IPv4 addresses, 0 to 32, and the first `v6`
    /// bits of IPv6 addresses, 0 to 128.
    ///
    /// # Errors
    /// [`HostError::PrefixLength`] if a length is out of range.
    ///
    /// ```
    /// use flowhash::{HostError, PrefixLengths};
    ///
    /// assert_eq!(PrefixLengths::new(32, 56)?.v6(), 56);
    /// assert_eq!(PrefixLengths::new(33, 64), Err(HostError::PrefixLength { given: 33, max: 32 }));
    /// # Ok::<(), HostError>(())
    /// ```
    pub const fn new(v4: u8, v6: u8) -> Result<Self, HostError> {
        match (v4, v6) {
            (33.., _) => Err(HostError::PrefixLength { given: v4, max: 32 }),
            (_, 129..) => Err(HostError::PrefixLength { given: v6, max: 128 }),
            _ => Ok(Self { v4, v6 }),
        }
    }

    /// Returns the prefix length of IPv4 addresses, 0 to 32.
    #[must_use]
    pub const fn v4(self) -> u8 {
        self.v4
    }

    /// Returns the prefix length of IPv6 addresses, 0 to 128.
    #[must_use]
    pub const fn v6(self) -> u8 {
        self.v6
    }

    /// Returns the address with all bits after the prefix set to zero; [`HostKey::NotIp`] and hosts
    /// that are not addresses unchanged.
    #[inline]
    #[must_use]
    pub const fn of(self, host: HostKey) -> HostKey {
        match host {
            HostKey::V4(address) => {
                let kept = u32::from_be_bytes(address) & !low_bits_4(self.v4);
                HostKey::V4(kept.to_be_bytes())
            }
            HostKey::V6(address) => {
                let kept = u128::from_be_bytes(address) & !low_bits_6(self.v6);
                HostKey::V6(kept.to_be_bytes())
            }
            other => other,
        }
    }
}

/// Returns a mask of the bits after the first `len`.
const fn low_bits_4(len: u8) -> u32 {
    match u32::MAX.checked_shr(len as u32) {
        Some(bits) => bits,
        None => 0,
    }
}

/// Returns a mask of the bits after the first `len`.
const fn low_bits_6(len: u8) -> u128 {
    match u128::MAX.checked_shr(len as u32) {
        Some(bits) => bits,
        None => 0,
    }
}

/// Kind of a member; members of different kinds never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Kind {
    Mac,
    V4,
    V6,
}

/// A member of a list: an address, a prefix, a range of addresses or a MAC, with the host's number.
///
/// Memory: 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HostMember {
    kind: Kind,
    host: u16,
    first: u128,
    last: u128,
}

impl HostMember {
    const fn new(kind: Kind, first: u128, last: u128, host: u16) -> Self {
        Self { kind, host, first, last }
    }

    /// Creates a member for a MAC address, six bytes as in an Ethernet header.
    #[must_use]
    pub const fn mac(mac: [u8; 6], host: u16) -> Self {
        let number = mac_number(mac);
        Self::new(Kind::Mac, number, number, host)
    }

    /// Creates a member for an IPv4 address.
    #[must_use]
    pub const fn v4(address: [u8; 4], host: u16) -> Self {
        let number = u32::from_be_bytes(address) as u128;
        Self::new(Kind::V4, number, number, host)
    }

    /// Creates a member for an IPv6 address.
    #[must_use]
    pub const fn v6(address: [u8; 16], host: u16) -> Self {
        let number = u128::from_be_bytes(address);
        Self::new(Kind::V6, number, number, host)
    }

    /// Creates a member for an IPv4 prefix: addresses that share the first `len` bits, 0 to 32,
    /// with `address`.
    ///
    /// # Errors
    /// [`HostError::PrefixLength`] if `len` is out of range; [`HostError::BitsBehind`] if `address`
    /// has bits set after the prefix.
    pub const fn v4_prefix(address: [u8; 4], len: u8, host: u16) -> Result<Self, HostError> {
        if len > 32 {
            return Err(HostError::PrefixLength { given: len, max: 32 });
        }
        Self::prefix(
            Kind::V4,
            u32::from_be_bytes(address) as u128,
            low_bits_4(len) as u128,
            len,
            host,
        )
    }

    /// Creates a member for an IPv6 prefix: addresses that share the first `len` bits, 0 to 128,
    /// with `address`.
    ///
    /// # Errors
    /// [`HostError::PrefixLength`] if `len` is out of range; [`HostError::BitsBehind`] if `address`
    /// has bits set after the prefix.
    pub const fn v6_prefix(address: [u8; 16], len: u8, host: u16) -> Result<Self, HostError> {
        if len > 128 {
            return Err(HostError::PrefixLength { given: len, max: 128 });
        }
        Self::prefix(Kind::V6, u128::from_be_bytes(address), low_bits_6(len), len, host)
    }

    const fn prefix(
        kind: Kind,
        first: u128,
        low_bits: u128,
        len: u8,
        host: u16,
    ) -> Result<Self, HostError> {
        if first & low_bits != 0 {
            return Err(HostError::BitsBehind { len });
        }
        Ok(Self::new(kind, first, first | low_bits, host))
    }

    /// Creates a member for the IPv4 addresses from `first` to `last`, both included.
    ///
    /// # Errors
    /// [`HostError::Backwards`] if `last` is below `first`.
    pub const fn v4_range(first: [u8; 4], last: [u8; 4], host: u16) -> Result<Self, HostError> {
        let (first, last) = (u32::from_be_bytes(first), u32::from_be_bytes(last));
        if last < first {
            return Err(HostError::Backwards);
        }
        Ok(Self::new(Kind::V4, first as u128, last as u128, host))
    }

    /// Creates a member for the IPv6 addresses from `first` to `last`, both included.
    ///
    /// # Errors
    /// [`HostError::Backwards`] if `last` is below `first`.
    pub const fn v6_range(first: [u8; 16], last: [u8; 16], host: u16) -> Result<Self, HostError> {
        let (first, last) = (u128::from_be_bytes(first), u128::from_be_bytes(last));
        if last < first {
            return Err(HostError::Backwards);
        }
        Ok(Self::new(Kind::V6, first, last, host))
    }

    /// Returns the host's number.
    #[must_use]
    pub const fn host(&self) -> u16 {
        self.host
    }

    /// Returns the same member with another host's number.
    #[must_use]
    pub const fn of_host(self, host: u16) -> Self {
        Self { host, ..self }
    }

    const fn is_mac(&self) -> bool {
        matches!(self.kind, Kind::Mac)
    }

    /// Returns the sort key.
    const fn place(&self) -> (Kind, u128) {
        (self.kind, self.first)
    }
}

const fn mac_number(mac: [u8; 6]) -> u128 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f]) as u128
}

/// Lists of hosts, and the identification of hosts that are on no list.
///
/// The table of members is yours: an array, a slice or a vector. It is sorted once. A search reads
/// at most [`MAX_SEARCH`] members, for any packet; hosts are searched for when a flow becomes
/// backlogged. A MAC on a list takes precedence over an address on a list.
///
/// ```
/// use flowhash::{HostBy, HostIdentity, HostKey, HostMap, HostMember, LinkEnd, PrefixLengths};
///
/// const TELEVISION: u16 = 0;
/// let members = [
///     HostMember::v4([192, 168, 1, 20], TELEVISION),
///     HostMember::mac([2, 0, 0, 0, 0, 7], TELEVISION),
/// ];
/// // Other hosts are identified by address, IPv6 by the first 64 bits.
/// let hosts = HostMap::new(HostBy::Prefix(PrefixLengths::SUBNETS), members)?;
///
/// let by_address = hosts.host(HostKey::V4([192, 168, 1, 20]), LinkEnd::NONE);
/// let end = LinkEnd { mac: Some([2, 0, 0, 0, 0, 7]), vlans: [0, 0] };
/// let by_mac = hosts.host(HostKey::V6([0xfd; 16]), end);
/// assert_eq!((by_address, by_mac), (HostKey::Named(TELEVISION), HostKey::Named(TELEVISION)));
/// # Ok::<(), flowhash::HostError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostMap<E = [HostMember; 0]> {
    by: HostBy,
    members: E,
    /// Number of members with a MAC, which come first.
    macs: usize,
    /// State for [`HostBy::Auto`].
    cards: Cards,
}

/// Omits the members.
impl<E> fmt::Debug for HostMap<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMap").field("by", &self.by).finish_non_exhaustive()
    }
}

impl HostMap {
    /// Creates a map without lists.
    #[must_use]
    pub const fn unlisted(by: HostBy) -> Self {
        Self { by, members: [], macs: 0, cards: Cards::NONE }
    }
}

impl<E: AsRef<[HostMember]> + AsMut<[HostMember]>> HostMap<E> {
    /// Creates a map from the members of all lists, in any order, and sorts them in place.
    ///
    /// Cost: O(n log n), without allocation.
    ///
    /// # Errors
    /// [`HostError::Overlap`] if two members share an address, even in the same list;
    /// [`HostError::Members`] if there are more than [`MAX_MEMBERS`].
    pub fn new(by: HostBy, mut members: E) -> Result<Self, HostError> {
        let table = members.as_mut();
        if table.len() > MAX_MEMBERS {
            return Err(HostError::Members { given: table.len() });
        }
        sort(table);
        let behind = table.iter().skip(1);
        for (one, next) in table.iter().zip(behind) {
            if one.kind == next.kind && next.first <= one.last {
                return Err(HostError::Overlap { one: *one, other: *next });
            }
        }
        let macs = table.iter().filter(|member| member.is_mac()).count();
        Ok(Self { by, members, macs, cards: Cards::NONE })
    }
}

impl<E: AsRef<[HostMember]>> HostMap<E> {
    /// Returns how hosts are identified that are on no list.
    #[must_use]
    pub const fn by(&self) -> HostBy {
        self.by
    }

    /// Copies the MACs that `before` has seen, for [`HostBy::Auto`], so that a map which replaces
    /// another one knows them from the first frame on.
    #[must_use]
    pub fn with_cards_of<F>(self, before: &HostMap<F>) -> Self {
        Self { cards: before.cards, ..self }
    }

    /// Returns true if [`HostBy::Auto`] identifies hosts by MAC, because it has seen frames from
    /// several.
    #[must_use]
    pub const fn has_several_cards(&self) -> bool {
        self.cards.several_for > 0
    }

    /// Returns the members of all lists, sorted.
    #[must_use]
    pub fn members(&self) -> &[HostMember] {
        self.members.as_ref()
    }

    /// Returns the number of the list that `host`, an address or a [`HostKey::Mac`], is on.
    #[inline]
    #[must_use]
    pub fn listed(&self, host: HostKey) -> Option<u16> {
        self.find(match host {
            HostKey::V4(address) => (Kind::V4, u32::from_be_bytes(address).into()),
            HostKey::V6(address) => (Kind::V6, u128::from_be_bytes(address)),
            HostKey::Mac(mac) => (Kind::Mac, mac_number(mac)),
            HostKey::NotIp | HostKey::Vlan(_) | HostKey::Named(_) => return None,
        })
    }

    /// Returns the number of the list that the first address of `wanted` is on, if all its
    /// addresses are on lists.
    ///
    /// In that case, rules for hosts by address apply to none of them. Cost: a search, and a step
    /// per member within `wanted`. Meant for configuration, not for packets.
    ///
    /// ```
    /// use flowhash::{HostBy, HostMap, HostMember};
    ///
    /// let range = HostMember::v4_range([10, 0, 0, 0], [10, 0, 0, 2], 7)?;
    /// let members = [range, HostMember::v4([10, 0, 0, 3], 8)];
    /// let hosts = HostMap::new(HostBy::Address, members)?;
    /// assert_eq!(hosts.all_listed(&HostMember::v4_prefix([10, 0, 0, 0], 30, 0)?), Some(7));
    /// assert_eq!(hosts.all_listed(&HostMember::v4_prefix([10, 0, 0, 0], 29, 0)?), None);
    /// # Ok::<(), flowhash::HostError>(())
    /// ```
    #[must_use]
    pub fn all_listed(&self, wanted: &HostMember) -> Option<u16> {
        let members = self.members.as_ref();
        let behind = members.partition_point(|member| member.place() <= wanted.place());
        let from = members.get(behind.checked_sub(1)?..)?;
        let of_kind = from.iter().take_while(|member| member.kind == wanted.kind);
        let (mut next, mut host) = (wanted.first, None);
        for member in of_kind {
            if member.first > next || member.last < next {
                return None;
            }
            host = host.or(Some(member.host));
            if member.last >= wanted.last {
                return host;
            }
            next = member.last.saturating_add(1);
        }
        None
    }

    /// Returns the host of the member that contains `wanted`.
    fn find(&self, wanted: (Kind, u128)) -> Option<u16> {
        let members = self.members.as_ref();
        // Members before `from` start at or before `wanted`; those at or after `from + len` start
        // after it.
        let (mut from, mut len) = (0_usize, members.len());
        for _ in 0..MAX_SEARCH {
            if len == 0 {
                break;
            }
            let half = len >> 1;
            let at = from.saturating_add(half);
            if members.get(at).is_some_and(|member| member.place() <= wanted) {
                from = at.saturating_add(1);
                len = len.saturating_sub(half.saturating_add(1));
            } else {
                len = half;
            }
        }
        let member = members.get(from.checked_sub(1)?)?;
        (member.kind == wanted.0 && wanted.1 <= member.last).then_some(member.host)
    }
}

impl<E: AsRef<[HostMember]>> HostIdentity for HostMap<E> {
    #[inline]
    fn reads_link(&self) -> bool {
        self.macs > 0 || matches!(self.by, HostBy::Mac | HostBy::Vlan | HostBy::Auto)
    }

    /// Turns [`HostBy::Auto`] into [`HostBy::Address`].
    fn settled(self) -> Self {
        let by = if self.by == HostBy::Auto { HostBy::Address } else { self.by };
        Self { by, ..self }
    }

    #[inline]
    fn learn(&mut self, link: LinkEnd) -> bool {
        match (self.by, link.mac) {
            (HostBy::Auto, Some(mac)) => self.cards.saw(mac),
            _ => false,
        }
    }

    #[inline]
    fn host(&self, address: HostKey, link: LinkEnd) -> HostKey {
        let mac = link.mac.map(HostKey::Mac);
        let by_mac = mac.filter(|_| self.macs > 0).and_then(|mac| self.listed(mac));
        if let Some(host) = by_mac.or_else(|| self.listed(address)) {
            return HostKey::Named(host);
        }
        match (self.by, mac) {
            (HostBy::Prefix(lengths), _) => lengths.of(address),
            (HostBy::Mac, Some(mac)) => mac,
            (HostBy::Auto, Some(mac)) if self.has_several_cards() && address != HostKey::NotIp => {
                mac
            }
            (HostBy::Vlan, Some(_)) => HostKey::Vlan(link.vlans),
            (HostBy::Address | HostBy::Mac | HostBy::Vlan | HostBy::Auto, _) => address,
        }
    }
}

/// Sorts by kind and first address: a heapsort, with the same bound for any order and without
/// panics.
fn sort(members: &mut [HostMember]) {
    let len = members.len();
    for root in (0..len >> 1).rev() {
        sink(members, root, len);
    }
    for end in (1..len).rev() {
        swap(members, 0, end);
        sink(members, 0, end);
    }
}

/// Moves the member at `at` down the heap of the first `len` members: at most `log2(len)` steps.
fn sink(members: &mut [HostMember], mut at: usize, len: usize) {
    let place = |members: &[HostMember], at: usize| {
        members.get(at).filter(|_| at < len).map(HostMember::place)
    };
    for _ in 0..MAX_SEARCH {
        let left = at.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let child = if place(members, right) > place(members, left) { right } else { left };
        if place(members, child) <= place(members, at) {
            return;
        }
        swap(members, at, child);
        at = child;
    }
}

fn swap(members: &mut [HostMember], one: usize, other: usize) {
    if let (Some(&a), Some(&b)) = (members.get(one), members.get(other)) {
        for (at, member) in [(one, b), (other, a)] {
            if let Some(place) = members.get_mut(at) {
                *place = member;
            }
        }
    }
}

/// An invalid list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HostError {
    /// Prefix longer than an address.
    PrefixLength {
        /// The given length in bits.
        given: u8,
        /// The maximum length in bits.
        max: u8,
    },
    /// Prefix whose address has bits set after the prefix.
    BitsBehind {
        /// Length of the prefix in bits.
        len: u8,
    },
    /// Range whose last address is below the first.
    Backwards,
    /// Two members that share an address.
    Overlap {
        /// The member that starts first.
        one: HostMember,
        /// The other member.
        other: HostMember,
    },
    /// More members than [`MAX_MEMBERS`].
    Members {
        /// The given number of members.
        given: usize,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefixLength { given, max } => {
                write!(f, "prefix length {given} (expected 0 to {max})")
            }
            Self::BitsBehind { len } => {
                write!(f, "address has bits set after its first {len} (expected zeros there)")
            }
            Self::Backwards => {
                write!(f, "range ends before it starts (expected first address, then last)")
            }
            Self::Overlap { one, other } => {
                let (one, other) = (one.host, other.host);
                write!(
                    f,
                    "members of hosts {one} and {other} share an address (expected one host for each)"
                )
            }
            Self::Members { given } => {
                write!(f, "{given} members (expected up to {MAX_MEMBERS})")
            }
        }
    }
}

impl core::error::Error for HostError {}

#[cfg(test)]
mod tests;
