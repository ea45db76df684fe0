//! Which hosts are backlogged, and in which entry each of them is.

use flowhash::{FlowTable, Outcome, TagLine};
use sched_core::{Imbalance, Table};

/// The entry of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) entry: u32,
    /// The host claimed the entry just now: what is kept for the entry is that of the host that
    /// held it last.
    pub(super) is_new: bool,
    /// This host held the entry last. False unless `check_return` was asked for.
    pub(super) is_back: bool,
}

/// Entries of hosts by label. An entry is claimed if and only if a backlogged flow counts there.
#[derive(Clone, Debug)]
pub(super) struct HostEntries<L, C> {
    pub(super) table: FlowTable<L>,
    /// Backlogged flows of each entry.
    flows: C,
}

impl<L: Table<TagLine>, C: Table<u32>> HostEntries<L, C> {
    /// `flows` is as long as `table` has entries.
    pub(super) fn new(table: FlowTable<L>, mut flows: C) -> Self {
        flows.as_mut().fill(0);
        Self { table, flows }
    }

    /// The entry of the host with this label, for one flow more. A host whose set is full shares the entry of
    /// another host. While a new key takes over, `before` is the host's label under the previous key: a host
    /// keeps its entry as long as flows of the host count there. With `check_return`, also reports whether this
    /// host held the entry last.
    pub(super) fn claim(&mut self, label: u32, before: Option<u32>, check_return: bool) -> Claimed {
        let returns = self.table.returns();
        let lookup = match before {
            Some(before) => self.table.lookup_rotating(before, label),
            None => self.table.lookup(label),
        };
        if let Some(flows) = self.flows.as_mut().get_mut(lookup.queue as usize) {
            *flows = flows.wrapping_add(1);
        }
        let is_new = lookup.outcome == Outcome::Claimed;
        let is_back = check_return && self.table.returns() != returns;
        Claimed { entry: lookup.queue, is_new, is_back }
    }

    /// One flow fewer counts in `entry`. When no flow is left there, the entry is free.
    pub(super) fn release(&mut self, entry: u32) {
        let Some(flows) = self.flows.as_mut().get_mut(entry as usize) else { return };
        *flows = flows.saturating_sub(1);
        if *flows == 0 {
            self.table.release(entry);
        }
    }

    /// Backlogged hosts; those that share an entry count as one.
    pub(super) fn occupied(&self) -> u32 {
        self.table.occupied()
    }

    /// Compares the books with `flows_of`, which counts the backlogged flows of an entry anew.
    pub(super) fn recount(&self, flows_of: &dyn Fn(u32) -> u64) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for (entry, &flows) in (0..self.table.queues()).zip(self.flows.as_ref()) {
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
