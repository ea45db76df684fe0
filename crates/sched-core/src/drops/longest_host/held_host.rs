//! Classes of the backlogged hosts, by the bytes they hold.
//!
//! **Classes.** From one *unit* on, which is a power of two, a class is one unit wide, or an eighth
//! of a power of two if that is more. Below one unit, each class extends four times as far as the
//! one before it.
//!
//! **Short hosts.** A host enters a class when it holds the *least* bytes: two units, or less if
//! the number of packets is limited. While it holds less it is in no class, so that a short queue
//! costs an addition and a comparison.
//!
//! **Marks.** A host enters the class of the bytes it holds. It stays there while it holds at least
//! its lower mark and less than its upper mark. The upper mark is the end of the class. The lower
//! mark is below the beginning `b` of the class, so that a few packets more or less do not move the
//! host. It is the larger of `b/4` and `b` minus the width of the class; below one unit it is
//! `b/2`.
//!
//! **Promises.** Let the host `v` be in the highest class in use, and `max` be the most bytes that
//! a host holds. Then `max` is below the upper mark of `v`, because no host is in a higher class,
//! or below two units. So `v` holds
//!
//! - more than `max` minus the larger of two units and `2/9·max`: a lower mark is at most two
//!   widths below the upper one, and a width above one unit is at most a ninth of the upper mark;
//! - more than `max/8`: a short host holds less than the least, and every lower mark is more than
//!   an eighth of that.
//!
//! **Order within a class.** The first host is the one that entered the class, or lost a packet
//! there without service, least recently. So similar hosts are dropped from in turn.
//!
//! Cost: constant. A packet that leaves its host between its marks costs an addition and a
//! comparison.

use super::held_flow::{FLOW_CLASSES, HeldFlow};
use super::ring::{Head, Linked, Links};
use crate::disciplines::length_index::class_of;
use crate::flow_scheduler::{ConfigError, Table};
use crate::{Imbalance, Limits};

/// A power of two is divided into `2^3` classes, unless they would be narrower than a unit.
const SUB_CLASS_BITS: u32 = 3;

/// A unit is at most `2^12` bytes.
const MOST_UNIT_BITS: u32 = 12;

/// The header of an IPv4 packet, the shortest IP packet. So some host is in a class whenever as
/// many packets are held as permitted, however short they are.
const SHORTEST: u32 = 20;
const CLASSES: u32 = (33 - SUB_CLASS_BITS) << SUB_CLASS_BITS;

/// Words that hold a bit per class.
const WORDS: u32 = CLASSES.div_ceil(u32::BITS);

/// The entry of one host in [`LongestHostDrop`](super::LongestHostDrop): 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldHost {
    /// Bytes that the flows of the host hold together.
    pub(super) bytes: u32,
    /// The marks: the host stays in its class while it holds `low..high` bytes. For a host in no
    /// class, `low` is 0 and `high` the least.
    low: u32,
    high: u32,
    links: Links,
    /// The lists of backlogged flows, by class of flows.
    pub(super) flows: [Head; FLOW_CLASSES],
}

impl HeldHost {
    /// Memory for a host: all zero. [`LongestHostDrop`](super::LongestHostDrop) initialises it.
    pub const EMPTY: Self =
        Self { bytes: 0, low: 0, high: 0, links: Links::EMPTY, flows: [Head::EMPTY; FLOW_CLASSES] };
}

impl HeldHost {
    /// Returns true if the host is in a class.
    const fn is_listed(&self) -> bool {
        self.low != 0
    }
}

impl Linked for HeldHost {
    #[inline]
    fn links(&self) -> Links {
        self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The classes of hosts of [`LongestHostDrop`](super::LongestHostDrop): 512 bytes, all zero while
/// no host is in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClasses {
    /// Bit `c` of word `w` is set if and only if a host is in class `32·w + c`.
    used: [u32; WORDS as usize],
    lists: [Head; CLASSES as usize],
}

impl HostClasses {
    /// Classes without hosts.
    pub const EMPTY: Self =
        Self { used: [0; WORDS as usize], lists: [Head::EMPTY; CLASSES as usize] };

    /// Returns the list of `class`, and the word with its bit.
    #[inline]
    fn of(&mut self, class: u32) -> Option<(&mut Head, &mut u32)> {
        self.lists.get_mut(class as usize).zip(self.used.get_mut(word_of(class)))
    }

    /// Returns the first host of the highest class in use: the one that entered it, or lost a
    /// packet there, least recently.
    fn first(&self) -> Option<u32> {
        let mut words = (0..WORDS).zip(&self.used).rev();
        let (word, used) = words.find(|(_, used)| **used != 0)?;
        let class = (word * u32::BITS).wrapping_add(used.checked_ilog2()?);
        self.lists.get(class as usize)?.first()
    }
}

/// Returns the marks of the class that a host of `bytes` bytes, more than 0, enters, with a unit of
/// `2^unit_bits` bytes.
#[inline]
const fn marks_of(bytes: u32, unit_bits: u32) -> (u32, u32) {
    // 0 counts as 1, although no caller passes it.
    let bits = (bytes | 1).ilog2();
    if bits < unit_bits {
        let odd = (bits ^ unit_bits) & 1;
        let half = (1_u32 << bits) >> (odd + 1);
        // Not 0: a host that holds nothing is below it.
        return (if half == 0 { 1 } else { half }, 1 << ((bits + 2 - odd) % u32::BITS));
    }
    let eighth = bits.saturating_sub(SUB_CLASS_BITS);
    let width = if eighth > unit_bits { eighth } else { unit_bits } % u32::BITS;
    let from = bytes >> width << width;
    let (near, far) = (from.wrapping_sub(1 << width), from >> 2);
    let low = if near > far { near } else { far };
    (if low == 0 { 1 } else { low }, from.saturating_add(1 << width))
}

/// Returns the number of the class that ends at the mark `high`. Classes of different units have
/// different numbers.
#[inline]
const fn class_at(high: u32) -> u32 {
    class_of::<SUB_CLASS_BITS>(high.wrapping_sub(1))
}

/// Returns the index of the word with the bit of `class`.
#[inline]
const fn word_of(class: u32) -> usize {
    (class >> u32::BITS.ilog2()) as usize
}

/// Hosts in the memory `H`, with the classes of backlogged hosts in the memory `C`.
///
/// In this order, so that neither table has the address of the whole: compilers keep an address
/// that they also pass to a call, and then read its contents in two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct HostIndex<H, C> {
    /// The backlogged flows without a host, by class.
    hostless: [Head; FLOW_CLASSES],
    hosts: H,
    /// One element.
    classes: C,
    unit_bits: u32,
    /// A host enters a class when it holds this many bytes.
    pub(super) least: u32,
}

impl<H: Table<HeldHost>, C: Table<HostClasses>> HostIndex<H, C> {
    /// Creates an index of `hosts.len()` empty hosts, with a unit that fits `limits`
    /// ([`Self::set_limits`]).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `classes` is empty.
    pub(super) fn new(mut hosts: H, mut classes: C, limits: Limits) -> Result<Self, ConfigError> {
        let room = classes.as_ref().len() as u64;
        ConfigError::check_range("host class tables", room, 1, u64::MAX)?;
        classes.as_mut().fill(HostClasses::EMPTY);
        let (unit_bits, least) = unit_and_least(limits, hosts.as_ref().len());
        hosts.as_mut().fill(HeldHost { high: least, ..HeldHost::EMPTY });
        let hostless = [Head::EMPTY; FLOW_CLASSES];
        Ok(Self { hostless, hosts, classes, unit_bits, least })
    }

    /// Sets unit and least for the limits. The unit is an eighth of a host's share, if all hosts in
    /// the table share the limit in bytes, rounded down to a power of two; at least one byte and at
    /// most `2^12`. The least is two units, or the host's share of the limit in bytes, or of the
    /// limit in packets with [`SHORTEST`] bytes each, if that is less; at least one byte. If they
    /// change, hosts enter their new classes in the order in which they would be dropped from, and
    /// those in no class follow. The cost is then O(hosts + classes).
    pub(super) fn set_limits(&mut self, limits: Limits) {
        let (unit_bits, least) = unit_and_least(limits, self.hosts.as_ref().len());
        // A host keeps its turn in its class if nothing changes.
        if (unit_bits, least) == (self.unit_bits, self.least) {
            return;
        }
        (self.unit_bits, self.least) = (unit_bits, least);
        let mut all = Head::EMPTY;
        while let Some(at) = self.first_number() {
            self.unlist(at);
            all.append(self.hosts.as_mut(), at);
        }
        while let Some(at) = all.first() {
            let Some(&HeldHost { links, .. }) = self.get(at) else { return };
            all.unlink(self.hosts.as_mut(), at, links);
            self.list(at);
        }
        for at in (0..).take(self.hosts.as_ref().len()) {
            if !self.get(at).is_some_and(HeldHost::is_listed) {
                self.list(at);
            }
        }
    }

    /// Returns the grain, two units.
    pub(super) const fn grain(&self) -> u32 {
        2 << (self.unit_bits % (u32::BITS - 1))
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&HeldHost> {
        self.hosts.as_ref().get(at as usize)
    }

    pub(super) fn hosts(&self) -> &[HeldHost] {
        self.hosts.as_ref()
    }

    /// Returns the lists of the flows without a host.
    pub(super) const fn hostless(&self) -> &[Head; FLOW_CLASSES] {
        &self.hostless
    }

    /// Returns the lists of the flows of host `at`, or of those without a host, by class.
    #[inline]
    pub(super) fn lists_of(&mut self, at: u32) -> &mut [Head; FLOW_CLASSES] {
        let host = self.hosts.as_mut().get_mut(at as usize);
        host.map_or(&mut self.hostless, |host| &mut host.flows)
    }

    /// Returns the list of the class of `flow`, of its host or of flows without a host.
    #[inline]
    pub(super) fn list_of(&mut self, flow: HeldFlow) -> Option<&mut Head> {
        self.lists_of(flow.host()).get_mut(flow.class() as usize)
    }

    /// Accounts `len` more bytes of host `at`, if it exists. No sum overflows: all hosts together
    /// hold at most `Limits::MAX_BYTES` plus a packet.
    #[inline]
    pub(super) fn raise(&mut self, at: u32, len: u32) {
        let Some(host) = self.hosts.as_mut().get_mut(at as usize) else { return };
        host.bytes = host.bytes.wrapping_add(len);
        if host.bytes >= host.high {
            self.relist(at);
        }
    }

    /// Accounts `len` fewer bytes of host `at`, if it exists.
    #[inline]
    pub(super) fn lower(&mut self, at: u32, len: u32) {
        let Some(host) = self.hosts.as_mut().get_mut(at as usize) else { return };
        host.bytes = host.bytes.wrapping_sub(len);
        if host.bytes < host.low {
            self.relist(at);
        }
    }

    /// Moves host `at` to the class of the bytes it holds.
    #[inline(never)]
    fn relist(&mut self, at: u32) {
        if self.get(at).is_some_and(HeldHost::is_listed) {
            self.unlist(at);
        }
        self.list(at);
    }

    /// Appends host `at`, in no class, to the class of the bytes it holds, unless these are below
    /// the least.
    fn list(&mut self, at: u32) {
        let hosts = self.hosts.as_mut();
        let Some(host) = hosts.get_mut(at as usize) else { return };
        if host.bytes < self.least {
            (host.low, host.high) = (0, self.least);
            return;
        }
        (host.low, host.high) = marks_of(host.bytes, self.unit_bits);
        let class = class_at(host.high);
        let classes = self.classes.as_mut().first_mut();
        if let Some((list, used)) = classes.and_then(|classes| classes.of(class)) {
            list.append(hosts, at);
            *used |= 1 << (class % u32::BITS);
        }
    }

    /// Removes host `at` from its class; its marks are left to the caller.
    fn unlist(&mut self, at: u32) {
        let hosts = self.hosts.as_mut();
        let Some(host) = hosts.get_mut(at as usize) else { return };
        let (links, class) = (host.links, class_at(host.high));
        host.low = 0;
        let classes = self.classes.as_mut().first_mut();
        if let Some((list, used)) = classes.and_then(|classes| classes.of(class)) {
            list.unlink(hosts, at, links);
            if list.is_empty() {
                *used &= !(1 << (class % u32::BITS));
            }
        }
    }

    /// Moves host `at`, if it is in a class, to the end of that class.
    pub(super) fn turn(&mut self, at: u32) {
        let Some(host) = self.get(at) else { return };
        let (is_listed, HeldHost { high, links, .. }) = (host.is_listed(), *host);
        let classes = self.classes.as_mut().first_mut();
        if is_listed && let Some((list, _)) = classes.and_then(|classes| classes.of(class_at(high)))
        {
            list.turn(self.hosts.as_mut(), at, links);
        }
    }

    /// Returns the first host of the highest class in use: the one that entered it, or lost a
    /// packet there, least recently.
    pub(super) fn first(&self) -> Option<&HeldHost> {
        self.get(self.first_number()?)
    }

    /// Returns the number of [`Self::first`].
    fn first_number(&self) -> Option<u32> {
        self.classes.as_ref().first()?.first()
    }

    /// Walks all classes, and checks that the marks of each host are those of its class, with the
    /// bytes of the host between them. O(hosts + classes).
    pub(super) fn recount(&self) -> Result<(), Imbalance> {
        let mut found = 0_u64;
        let Some(classes) = self.classes.as_ref().first() else { return Ok(()) };
        for (class, list) in (0_u32..).zip(&classes.lists) {
            let used = classes.used.get(word_of(class)).copied().unwrap_or(0);
            let bit = used >> (class % u32::BITS) & 1;
            Imbalance::check("a class is used", class, bit.into(), (!list.is_empty()).into())?;
            list.recount(self.hosts.as_ref(), &mut |at, host| {
                let ends = class_at(host.high);
                Imbalance::check("the class of a host", at, ends.into(), class.into())?;
                let is_inside = (host.low..host.high).contains(&host.bytes);
                Imbalance::check("bytes between the marks", at, is_inside.into(), 1)?;
                let (low, _) = marks_of(host.high.wrapping_sub(1), self.unit_bits);
                Imbalance::check("the lower mark", at, host.low.into(), low.into())?;
                found = found.wrapping_add(1);
                Ok(())
            })?;
        }
        for (at, host) in (0_u32..).zip(self.hosts.as_ref()).filter(|(_, host)| !host.is_listed()) {
            let (mark, least) = (host.high.into(), self.least.into());
            Imbalance::check("the mark of a host in no class", at, mark, least)?;
            let is_below = host.bytes < host.high;
            Imbalance::check("a host in no class", at, is_below.into(), 1)?;
            found = found.wrapping_add(1);
        }
        Imbalance::check("hosts in classes or in none", 0, found, self.hosts.as_ref().len() as u64)
    }
}

/// Returns the base-2 logarithm of the unit, and the least, for `hosts` hosts that share `limits`.
fn unit_and_least(limits: Limits, hosts: usize) -> (u32, u32) {
    let part = |limit: u32| u64::from(limit).checked_div(hosts as u64).unwrap_or(limit.into());
    let unit_bits = (part(limits.bytes) >> 3).checked_ilog2().unwrap_or(0).min(MOST_UNIT_BITS);
    let grain = 2 << unit_bits;
    let held = part(limits.packets.saturating_mul(SHORTEST).min(limits.bytes));
    (unit_bits, u32::try_from(held).map_or(grain, |bytes| bytes.clamp(1, grain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Lengths up to `2^16`, and those around every power of two and every eighth between.
    fn lengths() -> Vec<u32> {
        let mut lengths: Vec<u32> = (1..1 << 16).collect();
        for bits in 16..32 {
            for eighth in 8_u32..16 {
                let from = (u64::from(eighth) << bits >> 3) as u32;
                lengths.extend([from - 1, from, from + 1]);
            }
        }
        lengths.push(u32::MAX - 1);
        lengths
    }

    /// Goal: the marks of every class, with every unit, satisfy the documented bounds. Method:
    /// check the definition for all short lengths and the corners of the long ones.
    #[test]
    fn the_marks_of_every_class_are_what_the_promise_needs() {
        for bits in 0..=MOST_UNIT_BITS {
            let unit = 1_u64 << bits;
            let mut before = (0_u32, 0_u32);
            for bytes in lengths() {
                let (low, high) = marks_of(bytes, bits);
                assert!((low..high).contains(&bytes) && low > 0, "{bytes}: {low}..{high}");
                let (wide_low, wide_high) = (u64::from(low), u64::from(high));
                let slack = (2 * unit).max(2 * wide_high / 9);
                assert!(wide_high - wide_low <= slack, "{bytes}: {low}..{high}, unit {unit}");
                assert!(8 * wide_low >= wide_high, "{bytes}: {low}..{high}, unit {unit}");
                let class = class_at(high);
                assert!(class < CLASSES);
                assert!((class == before.0) == (high == before.1), "{bytes}: class {class}");
                assert!(class >= before.0 && high >= before.1, "{bytes}: {low}..{high}");
                before = (class, high);
            }
        }
    }

    #[test]
    fn unit_and_least_are_parts_of_the_limits() {
        let index = |limits, hosts: usize| {
            let classes = [HostClasses::EMPTY];
            HostIndex::new(vec![HeldHost::EMPTY; hosts], classes, limits).unwrap()
        };
        let grain = |bytes, hosts| {
            let index = index(Limits::bytes(bytes), hosts);
            // With at most this many bytes each, all hosts are within the limit.
            assert!(
                index.least == index.grain() || index.least == 1 && bytes < 2 * hosts.max(1) as u32
            );
            index.grain()
        };
        assert_eq!([grain(0, 0), grain(0, 1), grain(63, 4), grain(64, 4)], [2, 2, 2, 4]);
        assert_eq!([grain(4_000_000, 1_024), grain(1 << 18, 8)], [512, 8_192]);
        assert_eq!([grain(u32::MAX, 1), grain(u32::MAX, 65_536)], [8_192, 8_192]);
        let least = |packets, hosts| index(Limits::packets(packets), hosts).least;
        assert_eq!([least(0, 16), least(60, 16), least(u32::MAX, 16)], [1, 75, 8_192]);
    }

    /// Goal: `recount` detects every fault in what it compares: classes in use, marks, links,
    /// heads, and hosts in no class. Method: three hosts, two of them in one class; one field
    /// broken at a time.
    #[test]
    fn a_recount_sees_damage() {
        type Index = HostIndex<Vec<HeldHost>, [HostClasses; 1]>;
        let classes = [HostClasses::EMPTY];
        let mut index =
            HostIndex::new(vec![HeldHost::EMPTY; 4], classes, Limits::bytes(64)).unwrap();
        for (host, bytes) in [(0, 1_000), (1, 5), (2, 1_010)] {
            index.raise(host, bytes);
        }
        assert_eq!(index.recount(), Ok(()));
        let damages: [fn(&mut Index); 14] = [
            |index| index.classes[0].used[0] ^= 1,
            |index| *index.classes[0].used.iter_mut().find(|word| **word != 0).unwrap() = 0,
            |index| index.unit_bits += 2,
            |index| index.hosts[0].bytes = 0,
            |index| index.hosts[0].bytes = 5,
            |index| index.hosts[3].bytes = 4,
            |index| index.hosts[3].high = 5,
            |index| index.hosts[0].low += 1,
            |index| index.hosts[0].low = 0,
            |index| index.hosts[0].high = index.hosts[1].high,
            |index| index.hosts[1].high += 1,
            |index| index.hosts[0].links = Links::EMPTY,
            |index| index.hosts[2].links = index.hosts[1].links,
            |index| {
                let class = class_at(index.hosts[1].high) as usize;
                index.classes[0].lists[class] = Head::EMPTY;
            },
        ];
        for (at, damage) in damages.iter().enumerate() {
            let mut bad = index.clone();
            damage(&mut bad);
            assert_ne!(bad, index, "damage {at} is none");
            assert!(bad.recount().is_err(), "damage {at}");
        }
    }
}
