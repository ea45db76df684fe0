//! Which entries of hosts are of one holder: a host, with what it holds in all tins.
//!
//! A host has an entry in each tin in which it is backlogged, and the host that gives way is chosen by what it holds in all of them.
//! So the books of the [drop policy](sched_core::LongestHostDrop) have a *holder* for each host, and all of its entries name it. The
//! flows of all tins are in the books of the holder: a packet changes nothing here.
//!
//! The side that counts is the one whose hosts give way. Where there is one tin, each entry is a holder by itself, and none of this is
//! kept.
//!
//! Memory: 8 bytes an entry, of which 4 are with the flow scheduler.

use sched_core::{Imbalance, Table};

/// Which holders are free, and how many entries the others have. There are as many as entries, so that there is a free one for every
/// entry that is claimed.
#[derive(Clone, Debug)]
pub(super) struct Holders<C> {
    /// Of a holder in use, how many entries it has. Of a free one [`Self::FREE`], and in the other bits the next free one, or
    /// [`Self::NONE`].
    holders: C,
    first_free: u32,
}

impl<C: Table<u32>> Holders<C> {
    const FREE: u32 = 1 << 31;
    /// No holder: there are at most 2^20.
    const NONE: u32 = Self::FREE - 1;

    /// As many holders as `holders` is long, all free.
    pub(super) fn new(holders: C) -> Self {
        let mut new = Self { holders, first_free: Self::NONE };
        new.clear();
        new
    }

    /// All holders are free. Cost: O(entries).
    pub(super) fn clear(&mut self) {
        self.first_free = Self::NONE;
        for (number, holder) in (0..).zip(self.holders.as_mut()) {
            *holder = Self::FREE | self.first_free;
            self.first_free = number;
        }
    }

    /// A holder that was free, for one entry.
    pub(super) fn take(&mut self) -> u32 {
        let taken = self.first_free;
        if let Some(holder) = self.holders.as_mut().get_mut(taken as usize) {
            self.first_free = *holder & !Self::FREE;
            *holder = 1;
        }
        taken
    }

    /// `holder`, which is in use, has one entry more.
    pub(super) fn join(&mut self, holder: u32) {
        if let Some(entries) = self.holders.as_mut().get_mut(holder as usize) {
            *entries = entries.wrapping_add(1);
        }
    }

    /// `holder`, which is in use, has one entry fewer. After the last one it is free.
    pub(super) fn leave(&mut self, holder: u32) {
        let Some(entries) = self.holders.as_mut().get_mut(holder as usize) else { return };
        *entries = entries.wrapping_sub(1);
        if *entries == 0 {
            *entries = Self::FREE | self.first_free;
            self.first_free = holder;
        }
    }

    /// Compares the books with `entries_of`, which counts the entries of a holder anew. O(entries).
    pub(super) fn recount(&self, entries_of: &dyn Fn(u32) -> u64) -> Result<(), Imbalance> {
        let mut free = 0_u64;
        for (number, holder) in (0..).zip(self.holders.as_ref()) {
            let is_free = holder & Self::FREE != 0;
            let entries = if is_free { 0 } else { *holder };
            Imbalance::check("entries of a holder", number, entries.into(), entries_of(number))?;
            Imbalance::check("a holder in use", number, 1, (is_free || entries > 0).into())?;
            free = free.wrapping_add(is_free.into());
        }
        let next =
            |number: &u32| self.holders.as_ref().get(*number as usize).map(|of| of & !Self::FREE);
        let chain = core::iter::successors(Some(self.first_free), next);
        // The last of the chain is none.
        let listed = chain.take(self.holders.as_ref().len().saturating_add(2)).skip(1).count();
        Imbalance::check("free holders", 0, free, listed as u64)
    }
}
