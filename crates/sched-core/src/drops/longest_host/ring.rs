//! Circular lists of table entries, linked in both directions.
//!
//! Links are 16-bit numbers, so a table has at most [`MOST`] entries.

use crate::Imbalance;
use crate::disciplines::drr::ring::short;

/// Maximum number of entries of a table.
pub(super) const MOST: u32 = u16::MAX as u32;

/// The neighbours of an entry on its circular list; stale while the entry is on none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    next: u16,
    prev: u16,
}

impl Links {
    /// The links of an entry on no list.
    pub(super) const EMPTY: Self = Self { next: 0, prev: 0 };
}

/// A table entry that is on at most one list.
pub(super) trait Linked {
    fn links(&self) -> Links;

    fn links_mut(&mut self) -> &mut Links;
}

/// The first entry of a list: its number plus one, so that zero is an empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head(u16);

impl Head {
    pub(super) const EMPTY: Self = Self(0);

    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the entry that has been on the list longest.
    #[inline]
    pub(super) const fn first(self) -> Option<u32> {
        match self.0 {
            0 => None,
            number => Some(number as u32 - 1),
        }
    }

    /// Appends entry `at`, on no list.
    #[inline]
    pub(super) fn append(&mut self, entries: &mut [impl Linked], at: u32) {
        let (mut next, mut prev) = (u32::from(self.0).wrapping_sub(1), at);
        match entries.get_mut(next as usize) {
            None => {
                self.0 = short(at.wrapping_add(1));
                next = at;
            }
            Some(first) => {
                prev = first.links().prev.into();
                first.links_mut().prev = short(at);
                if let Some(last) = entries.get_mut(prev as usize) {
                    last.links_mut().next = short(at);
                }
            }
        }
        if let Some(entry) = entries.get_mut(at as usize) {
            *entry.links_mut() = Links { next: short(next), prev: short(prev) };
        }
    }

    /// Removes entry `at`, whose neighbours on the list are `links`.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut [impl Linked], at: u32, links: Links) {
        let (next, prev) = (u32::from(links.next), u32::from(links.prev));
        if next == at {
            self.0 = 0;
            return;
        }
        if u32::from(self.0) == at.wrapping_add(1) {
            self.0 = short(next.wrapping_add(1));
        }
        if let Some(before) = entries.get_mut(prev as usize) {
            before.links_mut().next = short(next);
        }
        if let Some(behind) = entries.get_mut(next as usize) {
            behind.links_mut().prev = short(prev);
        }
    }

    /// Moves entry `at`, which is on the list, to its end.
    #[inline]
    pub(super) fn turn(&mut self, entries: &mut [impl Linked], at: u32, links: Links) {
        if self.first() == Some(at) {
            self.0 = links.next.wrapping_add(1);
        } else {
            self.unlink(entries, at, links);
            self.append(entries, at);
        }
    }

    /// Passes each entry of the list to `check`, and checks the links.
    pub(super) fn recount<E: Linked>(
        self,
        entries: &[E],
        check: &mut dyn FnMut(u32, &E) -> Result<(), Imbalance>,
    ) -> Result<(), Imbalance> {
        let Some(first) = self.first() else { return Ok(()) };
        let (mut here, mut found) = (first, 0_usize);
        loop {
            let Some(entry) = entries.get(here as usize) else {
                return Imbalance::check("an entry of a list", here, 1, 0);
            };
            let next = u32::from(entry.links().next);
            let back = entries.get(next as usize).map(|behind| behind.links().prev);
            let back = back.map_or(u64::MAX, u64::from);
            Imbalance::check("links point both ways", here, here.into(), back)?;
            check(here, entry)?;
            found = found.wrapping_add(1);
            here = next;
            if here == first || found > entries.len() {
                return Ok(()); // complete, or a ring that misses its first entry: the count of entries reports that
            }
        }
    }
}
