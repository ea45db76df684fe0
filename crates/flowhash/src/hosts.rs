//! Which host a packet counts for: by its address, by a prefix, by MAC, by VLAN, or by a list of
//! the operator's.
//!
//! One machine has an IPv4 address and several IPv6 addresses, and a subscriber has a prefix. If
//! each address were a host, a machine would have as many shares as it has addresses. A [`HostMap`]
//! says which addresses are one host:
//!
//! - **Lists.** Addresses, prefixes, ranges and MACs with one number are one host,
//!   [`HostKey::Named`].
//! - **The rest** is identified as [`HostBy`] says. [`HostBy::Auto`] counts a machine by its card,
//!   whatever addresses it takes, and is the default where frames have an Ethernet header.
//!
//! The identity is that of hosts on the local side. A far host stays what it is, an address: its
//! MAC is that of a router.

use core::fmt;

use crate::{HostKey, LinkEnd};

/// The most members of all lists of a [`HostMap`].
pub const MAX_MEMBERS: usize = 1 << 16;

/// The most members that one search looks at: `log2` of [`MAX_MEMBERS`], and one.
pub const MAX_SEARCH: u32 = MAX_MEMBERS.ilog2() + 1;

/// Says which host a packet counts for: [`ByAddress`], a [`HostMap`], or a table of the caller's.
///
/// The answer decides the share of a flow, not its queue: packets of a flow stay in order whatever
/// it is. A flow keeps the host that it was given until its queue is empty.
pub trait HostIdentity {
    /// Whether [`host`](Self::host) looks at the link. `false` saves reading it.
    fn reads_link(&self) -> bool;

    /// Learns from a frame of an IP packet, before [`host`](Self::host) is called for it. `link` is
    /// the local side of its Ethernet header. Returns true if hosts are identified differently from
    /// this frame on, so that no flow should keep the host that it was given before: the caller
    /// labels flows under [another key](crate::SipHash13::derived) then. Learns nothing unless
    /// implemented.
    fn learn(&mut self, _link: LinkEnd) -> bool {
        false
    }

    /// Returns the identity for a caller that has rules for single hosts: one that tells hosts
    /// apart now in one way and now in another stays with one. Nothing changes unless implemented.
    #[must_use]
    fn settled(self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// The host of a packet whose address on the local side is `address`, after a translation
    /// ([`Nat`](crate::Nat)), [`HostKey::NotIp`] if it has none. `link` is that side of its
    /// Ethernet header.
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

/// Each address is a host.
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

/// What tells hosts apart that are on no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HostBy {
    /// The address.
    #[default]
    Address,
    /// The first bits of the address: all hosts of a prefix are one.
    Prefix(PrefixLengths),
    /// The MAC address. It is what a sender writes, and behind another router all hosts have that
    /// router's. The address where a packet has no Ethernet header.
    Mac,
    /// The VLAN, by its tags. Frames without a tag are of one host. The address where a packet has
    /// no Ethernet header.
    Vlan,
    /// The MAC address if frames of IP packets come from several cards, and the address while all
    /// come from one, as behind a router that stands between: see [`ALONE_AFTER`]. The address
    /// where a packet has no Ethernet header.
    ///
    /// A machine takes as many IPv6 addresses of its subnet as it likes. By address each of them is
    /// a host with a share of its own; by card they are one. Where one card is all there is,
    /// addresses take nothing from anybody else. Behind a router beside other cards all hosts are
    /// one: [`Address`](Self::Address) tells these apart. What is not IP stays one host: forging
    /// its address costs a sender nothing.
    Auto,
}

/// Number of frames in a row from one card after which [`HostBy::Auto`] takes it for the only one.
pub const ALONE_AFTER: u32 = 1 << 20;

/// The card that the last frame came from, and for how long it counts as one of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cards {
    last: Option<[u8; 6]>,
    /// Frames of `last` after which it counts as the only card; 0 if it does.
    several_for: u32,
}

impl Cards {
    const NONE: Self = Self { last: None, several_for: 0 };

    /// Returns true if one card was all there was until this frame. Group addresses are no card.
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

/// How many bits of an address tell hosts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PrefixLengths {
    v4: u8,
    v6: u8,
}

impl PrefixLengths {
    /// An IPv4 address, and a subnet of IPv6: what one machine behind a router has.
    pub const SUBNETS: Self = Self { v4: 32, v6: 64 };

    /// The first `v4` bits of IPv4 addresses, 0 to 32, and the first `v6` of IPv6 addresses, 0 to
    /// 128.
    ///
    /// # Errors
    /// [`HostError::PrefixLength`].
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

    /// Of IPv4 addresses, 0 to 32.
    #[must_use]
    pub const fn v4(self) -> u8 {
        self.v4
    }

    /// Of IPv6 addresses, 0 to 128.
    #[must_use]
    pub const fn v6(self) -> u8 {
        self.v6
    }

    /// The address with the bits behind the prefix at zero; [`HostKey::NotIp`] and hosts that are
    /// no address are as they were.
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

/// The bits behind the first `len`.
const fn low_bits_4(len: u8) -> u32 {
    match u32::MAX.checked_shr(len as u32) {
        Some(bits) => bits,
        None => 0,
    }
}

/// The bits behind the first `len`.
const fn low_bits_6(len: u8) -> u128 {
    match u128::MAX.checked_shr(len as u32) {
        Some(bits) => bits,
        None => 0,
    }
}

/// What a member is: members of two kinds never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Kind {
    Mac,
    V4,
    V6,
}

/// A member of a list: an address, a prefix, a range of addresses or a MAC, and the number of the
/// host.
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

    /// The address of a network card: six bytes of an Ethernet header.
    #[must_use]
    pub const fn mac(mac: [u8; 6], host: u16) -> Self {
        let number = mac_number(mac);
        Self::new(Kind::Mac, number, number, host)
    }

    /// An IPv4 address.
    #[must_use]
    pub const fn v4(address: [u8; 4], host: u16) -> Self {
        let number = u32::from_be_bytes(address) as u128;
        Self::new(Kind::V4, number, number, host)
    }

    /// An IPv6 address.
    #[must_use]
    pub const fn v6(address: [u8; 16], host: u16) -> Self {
        let number = u128::from_be_bytes(address);
        Self::new(Kind::V6, number, number, host)
    }

    /// The IPv4 addresses whose first `len` bits, 0 to 32, are those of `address`.
    ///
    /// # Errors
    /// [`HostError::PrefixLength`]; [`HostError::BitsBehind`] if `address` has others.
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

    /// The IPv6 addresses whose first `len` bits, 0 to 128, are those of `address`.
    ///
    /// # Errors
    /// As for [`v4_prefix`](Self::v4_prefix).
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

    /// The IPv4 addresses from `first` to `last`, both included.
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

    /// The IPv6 addresses from `first` to `last`, both included.
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

    /// The number of the host.
    #[must_use]
    pub const fn host(&self) -> u16 {
        self.host
    }

    /// The same member of another host.
    #[must_use]
    pub const fn of_host(self, host: u16) -> Self {
        Self { host, ..self }
    }

    const fn is_mac(&self) -> bool {
        matches!(self.kind, Kind::Mac)
    }

    /// Where it stands in a sorted table.
    const fn place(&self) -> (Kind, u128) {
        (self.kind, self.first)
    }
}

const fn mac_number(mac: [u8; 6]) -> u128 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f]) as u128
}

/// Lists of hosts, and what tells the other hosts apart.
///
/// The table is the caller's: an array, a slice, a vector. It is sorted once. A search looks at no
/// more than [`MAX_SEARCH`] members, whatever the packet; a host is searched for when its flow
/// becomes backlogged. A MAC on a list comes before an address on one.
///
/// ```
/// use flowhash::{HostBy, HostIdentity, HostKey, HostMap, HostMember, LinkEnd, PrefixLengths};
///
/// const TELEVISION: u16 = 0;
/// let members = [
///     HostMember::v4([192, 168, 1, 20], TELEVISION),
///     HostMember::mac([2, 0, 0, 0, 0, 7], TELEVISION),
/// ];
/// // Other hosts are told apart by their addresses, in IPv6 by the first 64 bits.
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
    /// The members with a MAC, which are the first.
    macs: usize,
    /// For [`HostBy::Auto`].
    cards: Cards,
}

/// Without the members.
impl<E> fmt::Debug for HostMap<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMap").field("by", &self.by).finish_non_exhaustive()
    }
}

impl HostMap {
    /// Without lists.
    #[must_use]
    pub const fn unlisted(by: HostBy) -> Self {
        Self { by, members: [], macs: 0, cards: Cards::NONE }
    }
}

impl<E: AsRef<[HostMember]> + AsMut<[HostMember]>> HostMap<E> {
    /// With the members of all lists, in any order, which are sorted in place.
    /// Cost: O(n log n), without allocation.
    ///
    /// # Errors
    /// [`HostError::Overlap`] if two members have an address in common, of one list too;
    /// [`HostError::Members`].
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
    /// What tells hosts apart that are on no list.
    #[must_use]
    pub const fn by(&self) -> HostBy {
        self.by
    }

    /// Takes over which cards `before` has seen, for [`HostBy::Auto`]: a map that replaces another
    /// one knows them from its first frame on.
    #[must_use]
    pub fn with_cards_of<F>(self, before: &HostMap<F>) -> Self {
        Self { cards: before.cards, ..self }
    }

    /// Returns true if [`HostBy::Auto`] identifies hosts by card, because frames from several have
    /// come.
    #[must_use]
    pub const fn has_several_cards(&self) -> bool {
        self.cards.several_for > 0
    }

    /// The members of all lists, sorted.
    #[must_use]
    pub fn members(&self) -> &[HostMember] {
        self.members.as_ref()
    }

    /// The number of the list that `host` is on: an address, or a [`HostKey::Mac`].
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

    /// The number of the list that the first address of `wanted` is on, if each of its addresses is
    /// on a list: then nothing that is said of hosts by address holds for any of them.
    ///
    /// Cost: a search, and a step for each member within `wanted`; for set-up, not for packets.
    ///
    /// ```
    /// use flowhash::{HostBy, HostMap, HostMember};
    ///
    /// let members = [HostMember::v4_range([10, 0, 0, 0], [10, 0, 0, 2], 7)?, HostMember::v4([10, 0, 0, 3], 8)];
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

    /// The host of the member at `wanted`.
    fn find(&self, wanted: (Kind, u128)) -> Option<u16> {
        let members = self.members.as_ref();
        // Members before `from` begin at `wanted` or before it, and those from `from + len` on
        // behind it.
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

    /// [`HostBy::Auto`] becomes [`HostBy::Address`].
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

/// Sorts by place: a heap, so that no order of members costs more than another, and none panics.
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

/// Moves the member at `at` down until none of the first `len` below it comes after it: at most
/// `log2(len)` steps.
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

/// What is wrong with lists of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HostError {
    /// A prefix is longer than an address.
    PrefixLength {
        /// Its length in bits.
        given: u8,
        /// The most bits.
        max: u8,
    },
    /// The address of a prefix has bits behind the prefix.
    BitsBehind {
        /// The length of the prefix in bits.
        len: u8,
    },
    /// The last address of a range is below the first.
    Backwards,
    /// Two members have an address in common.
    Overlap {
        /// The one that begins first.
        one: HostMember,
        /// The other.
        other: HostMember,
    },
    /// More members than [`MAX_MEMBERS`].
    Members {
        /// How many.
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
                write!(f, "the address has bits behind its first {len} (expected zeros there)")
            }
            Self::Backwards => {
                write!(f, "the range ends before it begins (expected first to last)")
            }
            Self::Overlap { one, other } => {
                let (one, other) = (one.host, other.host);
                write!(
                    f,
                    "members of hosts {one} and {other} have an address in common (expected one host for each)"
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
