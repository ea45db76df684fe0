//! Which hosts are backlogged, and in which entry each of them is.

use flowhash::{FlowTable, Lookup, Outcome, TagLine};
use sched_core::{Imbalance, Side, Table};

use crate::isolation::Level;

/// The entry of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) entry: u32,
    /// The host claimed the entry just now: what is kept for the entry is that of the host that
    /// held it last.
    pub(super) is_new: bool,
    /// This host held the entry last. Known after [`HostEntries::claim_sparing`], else false.
    pub(super) is_back: bool,
    /// An entry that remembers this host, which did not get it, while its buckets are those of another host.
    pub(super) passed_over: Option<u32>,
}

/// The entries of both hosts of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedHosts {
    pub(super) source: Claimed,
    pub(super) destination: Claimed,
}

impl ClaimedHosts {
    pub(super) const fn entries(&self) -> (u32, u32) {
        (self.source.entry, self.destination.entry)
    }

    /// The host of this side.
    pub(super) const fn of_side(&self, side: Side) -> Claimed {
        match side {
            Side::Source => self.source,
            Side::Destination => self.destination,
        }
    }

    /// The host that has this level.
    pub(super) const fn of(&self, level: Level) -> Option<Claimed> {
        match level {
            Level::None => None,
            Level::Source => Some(self.source),
            Level::Destination => Some(self.destination),
        }
    }
}

/// Which tin a host is in, of how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTins {
    pub(super) tin: u8,
    pub(super) tins: u8,
}

/// Above these bits of an element of [`HostEntries::flows`] is the tin. Flows are below 2^21.
const TIN_SHIFT: u32 = 24;

/// Entries of hosts by label. An entry is claimed if and only if a backlogged flow counts there.
///
/// **Tins.** A host has an entry for each tin in which it is backlogged, and only hosts of one tin share an entry. So a
/// set keeps a way for each tin that has none there: where it has no more free ways than that, a host takes part in an
/// entry of its tin, as in a full set. The number of ways is no less than that of tins.
#[derive(Clone, Debug)]
pub(super) struct HostEntries<L, C> {
    pub(super) table: FlowTable<L>,
    /// Backlogged flows of each entry, and above them its tin.
    flows: C,
    ways: u32,
}

impl<L: Table<TagLine>, C: Table<u32>> HostEntries<L, C> {
    /// `flows` is as long as `table` has entries, in sets of `ways`.
    pub(super) fn new(table: FlowTable<L>, mut flows: C, ways: u32) -> Self {
        flows.as_mut().fill(0);
        Self { table, flows, ways }
    }

    pub(super) const fn ways(&self) -> u32 {
        self.ways
    }

    /// How many flows count in `entry`.
    fn flows_in(&self, entry: u32) -> u32 {
        let packed = self.flows.as_ref().get(entry as usize).copied().unwrap_or(0);
        packed & ((1 << TIN_SHIFT) - 1)
    }

    /// The tin of `entry`, as of the last time that the entry was claimed.
    pub(super) fn tin_of(&self, entry: u32) -> u8 {
        let packed = self.flows.as_ref().get(entry as usize).copied().unwrap_or(0);
        let [_, _, _, tin] = packed.to_le_bytes();
        tin
    }

    fn set_tin(&mut self, entry: u32, tin: u8) {
        if let Some(packed) = self.flows.as_mut().get_mut(entry as usize) {
            *packed = *packed & ((1 << TIN_SHIFT) - 1) | u32::from(tin) << TIN_SHIFT;
        }
    }

    /// Entries of tin `t` are of tin `to(t)` from now on. The label of a host in a tin of another number is another one, and
    /// the one it had is a label in the tin that has the number now: a host of this tin must not find the entry. Cost:
    /// O(entries).
    pub(super) fn move_tins(&mut self, to: impl Fn(u8) -> u8) {
        for entry in 0..self.table.queues() {
            let (before, after) = (self.tin_of(entry), to(self.tin_of(entry)));
            if before != after {
                self.set_tin(entry, after);
                self.table.disown(entry);
            }
        }
    }

    /// The entries of the set of `entry`, from the one behind it on, and `entry` last. At most 16.
    fn set_behind(&self, entry: u32) -> impl Iterator<Item = u32> + use<L, C> {
        let within = self.ways.wrapping_sub(1);
        (1..=self.ways).map(move |step| entry & !within | entry.wrapping_add(step) & within)
    }

    /// Whether `entry`, just claimed, leaves its set a free way for each tin that has none there, where `free` ways are free with it.
    fn leaves_ways(&self, entry: u32, of: InTins, free: u32) -> bool {
        let first = entry & !self.ways.wrapping_sub(1);
        let ways = first as usize..first.wrapping_add(self.ways) as usize;
        let set = self.flows.as_ref().get(ways).unwrap_or_default();
        let tins = set.iter().filter(|packed| *packed & ((1 << TIN_SHIFT) - 1) != 0);
        let present = tins.fold(0_u32, |present, packed| present | 1 << (packed >> TIN_SHIFT & 7));
        let absent = u32::from(of.tins).saturating_sub(present.count_ones());
        present >> (of.tin & 7) & 1 == 0 || free > absent
    }

    /// The entry for a host of this tin, where the table has named `entry`, and whether the host claims it.
    #[cold]
    fn in_tin(&mut self, entry: u32, outcome: Outcome, of: InTins) -> (u32, bool) {
        match outcome {
            Outcome::Hit => (entry, false),
            Outcome::Claimed => {
                // Nothing counts in `entry` so far: it is among the free ones.
                let free = self.table.free_in_set(entry).saturating_add(1);
                // Most sets have more free ways than there are tins: which tins have none there need not be known.
                if free <= of.tins.into() {
                    return self.in_crowded_set(entry, of, free);
                }
                self.set_tin(entry, of.tin);
                (entry, true)
            }
            Outcome::Collision => (self.own_way(entry, of), false),
        }
    }

    /// [`Self::in_tin`], where `entry` is claimed and as many ways are free as there are tins at most.
    #[inline(never)]
    fn in_crowded_set(&mut self, entry: u32, of: InTins, free: u32) -> (u32, bool) {
        if self.leaves_ways(entry, of, free) {
            self.set_tin(entry, of.tin);
            return (entry, true);
        }
        self.table.release(entry);
        (self.own_way(entry, of), false)
    }

    /// An entry of this tin in the set of `entry`. There is one, unless other tins were set while hosts were backlogged.
    #[inline(never)]
    fn own_way(&self, entry: u32, of: InTins) -> u32 {
        self.find_own_way(entry, of).unwrap_or(entry)
    }

    /// The first claimed entry of this tin in the set of `entry`, from `entry` on.
    fn find_own_way(&self, entry: u32, of: InTins) -> Option<u32> {
        let is_own = |other: &u32| self.flows_in(*other) > 0 && self.tin_of(*other) == of.tin;
        [entry].into_iter().chain(self.set_behind(entry)).find(is_own)
    }

    /// The lookup of `label` where an idle host may have left a bucket that is not full, which
    /// `is_short` tells of an entry. Such an entry counts as taken for other hosts, unless they
    /// would have no entry of their tin to share.
    #[inline(always)]
    fn lookup_sparing(&mut self, label: u32, of: InTins, is_short: impl Fn(u32) -> bool) -> Lookup {
        match self.table.lookup_sparing(label, is_short) {
            Some(lookup) => lookup,
            None => self.lookup_among_spared(label, of),
        }
    }

    /// The lookup of `label` in a set whose free entries are all spared.
    #[cold]
    fn lookup_among_spared(&mut self, label: u32, of: InTins) -> Lookup {
        let own = label & self.table.queues().wrapping_sub(1);
        match self.find_own_way(own, of) {
            Some(queue) => Lookup { queue, outcome: Outcome::Collision },
            None => self.table.lookup(label),
        }
    }

    /// The entry of the host with this label, for one flow more. A host whose set is full shares
    /// the entry of another host. While a new key takes over, `before` is the host's label under
    /// the previous key: a host keeps its entry as long as flows of the host count there. `of` says
    /// which tin the host is in; the labels are those in this tin.
    #[inline(always)] // 110 instructions of a pair whose flow and host are idle
    pub(super) fn claim(&mut self, label: u32, before: Option<u32>, of: InTins) -> Claimed {
        let lookup = match before {
            Some(before) => self.table.lookup_rotating(before, label),
            None => self.table.lookup(label),
        };
        self.count_in(lookup, None, of)
    }

    /// [`Self::claim`] that also reports whether this host held the entry last, and
    /// [spares](Self::lookup_sparing) entries of idle hosts that `is_short` tells of.
    #[inline(always)] // as `claim`
    pub(super) fn claim_sparing(
        &mut self,
        label: u32,
        before: Option<u32>,
        of: InTins,
        is_short: impl Fn(u32) -> bool,
    ) -> Claimed {
        let returns = self.table.returns();
        let old = before.and_then(|before| self.table.lookup_old(before));
        let lookup = old.unwrap_or_else(|| self.lookup_sparing(label, of, is_short));
        self.count_in(lookup, Some(returns), of)
    }

    /// The rest of [`Self::claim`], after the lookup. `returns` are those of the table before it,
    /// if they count.
    #[inline(always)]
    fn count_in(&mut self, lookup: Lookup, returns: Option<u64>, of: InTins) -> Claimed {
        let has_claimed = lookup.outcome == Outcome::Claimed;
        let (entry, is_new) = match of.tins {
            1 => (lookup.queue, has_claimed),
            _ => self.in_tin(lookup.queue, lookup.outcome, of),
        };
        if let Some(flows) = self.flows.as_mut().get_mut(entry as usize) {
            *flows = flows.wrapping_add(1);
        }
        let has_returned = returns.is_some_and(|returns| self.table.returns() != returns);
        let passed_over = (has_claimed && !is_new && !has_returned).then_some(lookup.queue);
        Claimed { entry, is_new, is_back: is_new && has_returned, passed_over }
    }

    /// One flow fewer counts in `entry`. When no flow is left there, the entry is free; returns whether it is.
    pub(super) fn release(&mut self, entry: u32) -> bool {
        let Some(flows) = self.flows.as_mut().get_mut(entry as usize) else { return false };
        let left = (*flows & ((1 << TIN_SHIFT) - 1)).saturating_sub(1);
        *flows = *flows >> TIN_SHIFT << TIN_SHIFT | left;
        if left == 0 {
            self.table.release(entry);
        }
        left == 0
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> u32 {
        self.table.queues()
    }

    /// Backlogged hosts; those that share an entry count as one.
    pub(super) fn occupied(&self) -> u32 {
        self.table.occupied()
    }

    /// How often a host has claimed an entry, and how often one that was another's, or no one's, before.
    pub(super) fn activations(&self) -> (u64, u64) {
        let claims = self.table.counts().claims;
        (claims, claims.saturating_sub(self.table.returns()))
    }

    /// Compares the books with `flows_of`, which counts the backlogged flows of an entry anew.
    pub(super) fn recount(&self, flows_of: &dyn Fn(u32) -> u64) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for entry in 0..self.table.queues() {
            let flows = self.flows_in(entry);
            Imbalance::check("backlogged flows of a host", entry, flows.into(), flows_of(entry))?;
            let claimed = self.table.is_used(entry);
            Imbalance::check(
                "an entry of a host is used",
                entry,
                claimed.into(),
                (flows > 0).into(),
            )?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("entries of hosts", 0, self.table.occupied().into(), occupied)
    }
}
