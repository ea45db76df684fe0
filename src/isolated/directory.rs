//! The tables of flows and hosts beside the flow scheduler: which flow has which queue, and which host which entry.

use core::fmt;
use core::iter;

use flowhash::{FlowTable, Lookup, Outcome, TagLine};
use sched_core::{FlowDirectory, FlowId, FlowScheduler, FlowState, Imbalance, Side, Table};

use super::flow_scheduler::{FlowHosts, IsolationScheduler, label_in};
use super::holders::Holders;
use super::host_table::{Claimed, ClaimedHosts, HostEntries, InTins};
use crate::isolation::Level;
use crate::labels::Labelled;
use crate::storage::Storage;

/// The label of the hosts of flows that were queued while hosts did not count. A host whose label is the same takes part in
/// their entry.
const UNNAMED: u32 = 0x6e6f_6e65;

/// The label of the host that has this level: of the source, where there is none.
fn label_at(level: Level, labels: &(impl Labelled + ?Sized)) -> u32 {
    match level {
        Level::None | Level::Source => labels.source(),
        Level::Destination => labels.destination(),
    }
}

/// The labels by which the host at this level is found in `tins`: during a key rotation, in each
/// tin first the label under the previous key.
pub(super) fn labels_in_tins<L: Table<TagLine>>(
    table: &FlowTable<L>,
    level: Level,
    labels: &(impl Labelled + ?Sized),
    tins: impl Iterator<Item = u8> + Clone,
) -> impl Iterator<Item = u32> + Clone {
    let now = label_at(level, labels);
    let before = labels.before().filter(|_| table.is_rotating());
    let before = before.map(|labels| label_at(level, labels));
    let of_tin = move |tin| before.into_iter().chain([now]).map(move |label| label_in(tin, label));
    tins.flat_map(of_tin)
}

/// The flow directory of an [`Isolated`](super::Isolated) queue: gives queues and entries of hosts
/// back in the moment they are idle.
///
/// **Without hosts** ([`Isolation::counts_hosts`](crate::Isolation)) no entry of a host is claimed. When hosts begin to
/// count, the flows that are queued are of one host a tin, without a name, until a packet of theirs names their hosts.
pub struct HostDirectory<S: Storage> {
    /// A queue is claimed if and only if it holds packets.
    pub(super) queues: FlowTable<S::Of<TagLine>>,
    /// Whether the spare queue of entry `e` of the hosts is claimed: if and only if it holds packets. This
    /// queue has the number `queues.queues() + e`. While it is claimed, `e` is the entry of its source or of
    /// its destination; or, if hosts did not count when it was claimed, the number that its tin had then.
    pub(super) spares: S::Of<bool>,
    pub(super) sources: HostEntries<S::Of<TagLine>, S::Of<u32>>,
    pub(super) destinations: HostEntries<S::Of<TagLine>, S::Of<u32>>,
    /// The hosts that give way, each with its entries in all tins; kept where there are several.
    pub(super) holders: Holders<S::Of<u32>>,
    /// The quantum of a host that is given no other.
    pub(super) host_quantum: u32,
    /// Set while a table is [in transition](flowhash::FlowTable::is_rotating) to a new key.
    pub(super) rotating: bool,
    /// How many queues hold packets whose hosts have no name.
    pub(super) unnamed: u32,
    /// Whether a packet is more than its label: set while `rotating`, or while there are queues in `unnamed`.
    pub(super) looks_closely: bool,
    /// Whether there have been several tins.
    pub(super) had_tins: bool,
}

/// Without the tables.
impl<S: Storage> fmt::Debug for HostDirectory<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostDirectory").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<S: Storage> HostDirectory<S> {
    /// The entries of hosts that have this level: of sources, where there is none.
    pub(super) const fn level(&self, level: Level) -> &HostEntries<S::Of<TagLine>, S::Of<u32>> {
        match level {
            Level::None | Level::Source => &self.sources,
            Level::Destination => &self.destinations,
        }
    }

    /// The queue of a packet with this label, if its flow has one. It holds packets.
    #[inline(always)]
    pub(super) fn find(&mut self, label: u32) -> Option<FlowId> {
        if self.looks_closely {
            return None;
        }
        self.queues.hit(label).map(FlowId)
    }

    /// To be told when `rotating` or `unnamed` is another.
    pub(super) const fn note_closeness(&mut self) {
        self.looks_closely = self.rotating || self.unnamed > 0;
    }

    /// Finds the queue of a packet; if it is free, for this flow from now on, with its hosts. `label` is that
    /// by which it finds its queue.
    #[inline]
    pub(super) fn claim<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        label: u32,
        labels: &(impl Labelled + ?Sized),
    ) -> Lookup {
        let lookup = if self.rotating {
            self.lookup_rotating(scheduler, label, labels)
        } else {
            self.queues.lookup(label)
        };
        match lookup.outcome {
            Outcome::Hit => lookup,
            outcome if scheduler.counts_hosts() => {
                Lookup { queue: self.claim_slow(scheduler, lookup, labels), outcome }
            }
            outcome => {
                let tin = scheduler.tin_of(labels);
                Lookup { queue: self.claim_without_hosts(scheduler, lookup, tin), outcome }
            }
        }
    }

    /// The queue for a packet whose flow has none yet, where hosts do not count: the queue just claimed for the flow; in a
    /// full set the queue that the table names, or where that is of another tin the spare queue with the number of this one.
    fn claim_without_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        lookup: Lookup,
        tin: u8,
    ) -> u32 {
        let mut queue = lookup.queue;
        if lookup.outcome == Outcome::Collision {
            let is_own = |queue| scheduler.tin_of_flow(FlowId(queue)) == tin;
            let spare = self.queues.queues().wrapping_add(tin.into());
            let is_free = self.spares.as_ref().get(usize::from(tin)) == Some(&false);
            if scheduler.tins() == 1 || is_own(queue) || !(is_free || is_own(spare)) {
                return queue;
            }
            if !self.claim_spare(spare) {
                return spare;
            }
            queue = spare;
        }
        scheduler.assign(FlowId(queue), FlowHosts::without(tin));
        queue
    }

    /// The queue for a packet whose flow has none yet: the queue just claimed for the flow, or one of
    /// its host.
    #[inline(never)]
    fn claim_slow<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        lookup: Lookup,
        labels: &(impl Labelled + ?Sized),
    ) -> u32 {
        let of = InTins { tin: scheduler.tin_of(labels), tins: scheduler.tins() };
        let is_spare = lookup.outcome == Outcome::Collision;
        let hosts = self.claim_hosts(scheduler, of, labels);
        let queue = if is_spare {
            self.among_its_own(scheduler, lookup.queue, hosts.entries())
        } else {
            lookup.queue
        };
        if is_spare && !self.claim_spare(queue) {
            self.leave(scheduler, hosts);
            return queue;
        }
        self.give(scheduler, FlowId(queue), hosts, of, labels);
        queue
    }

    /// The entries of the hosts of a packet, for one flow more.
    #[inline(always)]
    fn claim_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        of: InTins,
        labels: &(impl Labelled + ?Sized),
    ) -> ClaimedHosts {
        let in_tin =
            |(source, destination)| (label_in(of.tin, source), label_in(of.tin, destination));
        let (source, destination) = in_tin((labels.source(), labels.destination()));
        let before = self.rotating.then(|| {
            let old = labels.before().map(|old| in_tin((old.source(), old.destination())));
            old.unwrap_or((source, destination))
        });
        let (before_source, before_destination) =
            (before.map(|hosts| hosts.0), before.map(|hosts| hosts.1));
        // Buckets are those of the hosts that have a level.
        let spared = scheduler.has_room_for_rates().then_some(scheduler.isolation().level());
        let is_short = |entry| scheduler.is_short(entry);
        let source = match spared {
            Some(Level::Source) => self.sources.claim_sparing(source, before_source, of, is_short),
            _ => self.sources.claim(source, before_source, of),
        };
        let destination = match spared {
            Some(Level::Destination) => {
                self.destinations.claim_sparing(destination, before_destination, of, is_short)
            }
            _ => self.destinations.claim(destination, before_destination, of),
        };
        let hosts = ClaimedHosts { source, destination };
        let host = hosts.of(scheduler.isolation().level());
        if let Some(entry) = host.and_then(|host| host.passed_over) {
            scheduler.clear_host_rates(entry);
        }
        hosts
    }

    /// Makes `queue`, of which the flow scheduler knows nothing, one of `hosts`, which are those of `labels`.
    #[inline(always)]
    fn give<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        queue: FlowId,
        hosts: ClaimedHosts,
        of: InTins,
        labels: &(impl Labelled + ?Sized),
    ) {
        scheduler.assign(queue, FlowHosts::new(hosts.entries(), of));
        if of.tins > 1
            && let Some(Claimed { entry, is_new: true, .. }) = hosts.of(scheduler.spares_of())
        {
            self.note_holder(scheduler, entry, labels, of);
        }
        if of.tins > 1 && scheduler.hosts_across_tins() {
            for side in scheduler.isolation().sides_that_count() {
                self.join_entries(scheduler, *side, hosts.of_side(*side), labels, of);
            }
        }
        let Some(host) = hosts.of(scheduler.isolation().level()) else { return };
        if host.is_new {
            if of.tins > 1 {
                scheduler.set_tin_of_entry(host.entry, of.tin);
            }
            let quantum = labels.host_quantum().unwrap_or(self.host_quantum);
            scheduler.set_host_quantum(host.entry, quantum);
            self.set_rates(scheduler, host, labels, of);
        }
    }

    /// The host that gives way by `entry`, and claimed it just now, is one holder with the entries that it has in other tins.
    /// Cost: O(tins) lookups, where a host becomes backlogged in a tin.
    #[cold]
    #[inline(never)]
    fn note_holder<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        entry: u32,
        labels: &(impl Labelled + ?Sized),
        of: InTins,
    ) {
        let level = scheduler.spares_of();
        let table = &self.level(level).table;
        let other = if self.rotating {
            let others = labels_in_tins(table, level, labels, 0..of.tins);
            others.filter_map(|label| table.find(label)).find(|other| *other != entry)
        } else {
            let label = label_at(level, labels);
            let mut others = (0..of.tins).filter(|tin| *tin != of.tin);
            others.find_map(|tin| table.find(label_in(tin, label)))
        };
        self.begin_to_hold(scheduler, entry, other);
    }

    /// `entry`, just claimed, is of the holder of `other`, or, if there is none, of one of its own.
    fn begin_to_hold<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        entry: u32,
        other: Option<u32>,
    ) {
        let holder = match other.and_then(|other| scheduler.holder_of(other)) {
            Some(holder) => {
                self.holders.join(holder);
                holder
            }
            None => self.holders.take(),
        };
        scheduler.set_holder(entry, holder);
    }

    /// The entries that are claimed have holders by the labels of their hosts, after hosts of another side give way, or there are
    /// several tins where there was one. To be called while no flow is in the drop policy. Cost: O(hosts).
    pub(super) fn renew_holders<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
    ) {
        let (level, tins) = (scheduler.spares_of(), scheduler.tins());
        self.holders.clear();
        if level == Level::None || tins == 1 {
            return;
        }
        for entry in 0..self.level(level).entries() {
            let entries = self.level(level);
            let label = entries.table.hash_of(entry).filter(|_| entries.table.is_used(entry));
            let Some(label) = label.map(|label| label_in(entries.tin_of(entry), label)) else {
                continue;
            };
            let mut others = (0..tins).filter_map(|tin| entries.table.find(label_in(tin, label)));
            // Those behind have no holder yet.
            let other = others.find(|other| *other < entry);
            self.begin_to_hold(scheduler, entry, other);
        }
    }

    /// What a host has that claimed its entry just now: its rate and its ceiling, with the buckets that it left there, or has in other
    /// tins. Any other host begins with full buckets.
    fn set_rates<K: Storage, T: Storage>(
        &self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        host: Claimed,
        labels: &(impl Labelled + ?Sized),
        of: InTins,
    ) {
        if !scheduler.has_room_for_rates() {
            return;
        }
        if !host.is_back {
            scheduler.clear_host_rates(host.entry);
        }
        let (rate, ceiling) = (labels.host_committed_rate(), labels.host_ceiling());
        scheduler.set_host_rates(host.entry, rate, ceiling);
        if of.tins > 1 && (rate.is_some() || ceiling.is_some()) {
            self.join_rates(scheduler, host.entry, labels, of);
        }
    }

    /// The other entries that a host has have the rate and the ceiling of its entry in this one, and one bucket with it. So
    /// has one that it had last and has left, but only as far as that lacks more: it is found again when the host comes back
    /// there, and takes no room meanwhile. Cost: O(tins).
    #[cold]
    fn join_rates<K: Storage, T: Storage>(
        &self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        entry: u32,
        labels: &(impl Labelled + ?Sized),
        of: InTins,
    ) {
        let level = scheduler.isolation().level();
        let table = &self.level(level).table;
        let (rate, ceiling) = (labels.host_committed_rate(), labels.host_ceiling());
        // In its own tin there is the one that it had before the key was renewed.
        let others = labels_in_tins(table, level, labels, 0..of.tins)
            .filter_map(|label| table.remembered(label))
            .filter(|other| *other != entry);
        // Those that the host has left first, so that there is room for those that it has.
        for other in others.clone().filter(|other| !table.is_used(*other)) {
            scheduler.part_host_rates(other);
            // What it lacks is in bytes of the same rate.
            scheduler.set_host_rates(other, rate, ceiling);
            scheduler.join_host_rates(other, entry);
            scheduler.part_host_rates(other);
        }
        let mut is_first = true;
        for other in others.filter(|other| table.is_used(*other)) {
            scheduler.set_host_rates(other, rate, ceiling);
            // The entry comes to those that are joined already.
            let (joins, to) = if is_first { (entry, other) } else { (other, entry) };
            scheduler.join_host_rates(joins, to);
            is_first = false;
        }
    }

    /// The entries of a host in other tins are those of the same host as its entry in this one. Nothing for a host that shares
    /// an entry with others. Cost: O(tins).
    #[cold]
    fn join_entries<K: Storage, T: Storage>(
        &self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        side: Side,
        host: Claimed,
        labels: &(impl Labelled + ?Sized),
        of: InTins,
    ) {
        let level = Level::of_side(side);
        let table = &self.level(level).table;
        if host.is_new {
            // Those that it has are of the host that had the entry before.
            scheduler.part_entry(side, host.entry);
        } else {
            let mut here = labels_in_tins(table, level, labels, iter::once(of.tin));
            if !here.any(|label| table.find(label) == Some(host.entry)) {
                return;
            }
        }
        let other_tins = (0..of.tins).filter(|tin| *tin != of.tin);
        for label in labels_in_tins(table, level, labels, other_tins) {
            if let Some(other) = table.find(label) {
                scheduler.join_entries(side, other, host.entry);
            }
        }
    }

    /// The queue for a flow of these hosts that has none of its own: `shared`, which the table names, if
    /// `shared` is of the same host, or else the spare queue of its host.
    ///
    /// A spare queue that was claimed under another isolation can be another host's. Then the
    /// flow takes `shared`, until the spare queue has sent what it holds: only the host that claimed the spare
    /// queue joins it meanwhile.
    fn among_its_own<K: Storage, T: Storage>(
        &self,
        scheduler: &IsolationScheduler<S, K, T>,
        shared: u32,
        hosts: (u32, u32),
    ) -> u32 {
        let level = scheduler.spares_of();
        let side = |(source, destination)| match level {
            Level::Destination => destination,
            Level::None | Level::Source => source,
        };
        let entry = side(hosts);
        let is_own = |queue| scheduler.assigned(FlowId(queue)).map(side) == Some(entry);
        let spare = self.queues.queues().wrapping_add(entry);
        let is_free = self.spares.as_ref().get(entry as usize) == Some(&false);
        if !is_own(shared) && (is_free || is_own(spare)) { spare } else { shared }
    }

    /// Hosts do not count from now on: `queue`, which holds packets, counts in no entry.
    pub(super) fn forget_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        queue: FlowId,
    ) {
        self.release_hosts(scheduler, queue);
        scheduler.note_hosts(queue, FlowHosts::without(scheduler.tin_of_flow(queue)));
    }

    /// Hosts count from now on: `queue`, which holds packets, is of a host without a name.
    pub(super) fn begin_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        queue: FlowId,
    ) {
        let tin = scheduler.tin_of_flow(queue);
        let (label, of) = (label_in(tin, UNNAMED), InTins { tin, tins: scheduler.tins() });
        let source = self.sources.claim(label, None, of).entry;
        let destination = self.destinations.claim(label, None, of).entry;
        scheduler.note_hosts(queue, FlowHosts::new((source, destination), of).unnamed());
        self.unnamed = self.unnamed.saturating_add(1);
        self.note_closeness();
    }

    /// Makes `queue`, whose hosts have no name, and of which the flow scheduler knows nothing, one of the hosts of `labels`.
    pub(super) fn name_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        queue: FlowId,
        labels: &(impl Labelled + ?Sized),
    ) {
        let of = InTins { tin: scheduler.tin_of_flow(queue), tins: scheduler.tins() };
        self.release_hosts(scheduler, queue);
        let hosts = self.claim_hosts(scheduler, of, labels);
        self.give(scheduler, queue, hosts, of, labels);
    }

    /// What `labels` say of their host from now on, if it is backlogged; returns whether it is.
    pub(super) fn update_host<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        labels: &impl Labelled,
    ) -> bool {
        let level = scheduler.isolation().level();
        if level == Level::None {
            return false;
        }
        let table = &self.level(level).table;
        let quantum = labels.host_quantum().unwrap_or(self.host_quantum);
        let (rate, ceiling) = (labels.host_committed_rate(), labels.host_ceiling());
        let mut first = None;
        for label in labels_in_tins(table, level, labels, 0..scheduler.tins()) {
            let Some(entry) = table.find(label) else { continue };
            scheduler.set_host_quantum(entry, quantum);
            scheduler.set_host_rates(entry, rate, ceiling);
            match first {
                Some(first) if entry != first && (rate.is_some() || ceiling.is_some()) => {
                    scheduler.join_host_rates(entry, first);
                }
                _ => {}
            }
            first = first.or(Some(entry));
        }
        first.is_some()
    }

    /// Gives back the entries that were claimed for a packet which joins a queue that holds packets: the
    /// flow of this queue counts already.
    #[inline(never)]
    fn leave<K: Storage, T: Storage>(
        &mut self,
        scheduler: &mut IsolationScheduler<S, K, T>,
        hosts: ClaimedHosts,
    ) {
        self.sources.release(hosts.source.entry);
        self.destinations.release(hosts.destination.entry);
        let Some(host) = hosts.of(scheduler.isolation().level()) else { return };
        if host.is_new && !host.is_back {
            // The table already knows the entry as this host's, but its buckets are still those of the host
            // before. Without new buckets this host would come back to those.
            scheduler.clear_host_rates(host.entry);
        }
    }

    /// Claims `queue` if it is a spare one, and free.
    fn claim_spare(&mut self, queue: u32) -> bool {
        let claimed = self.spare_mut(queue).filter(|claimed| !**claimed);
        claimed.map(|claimed| *claimed = true).is_some()
    }

    fn spare_mut(&mut self, queue: u32) -> Option<&mut bool> {
        let entry = queue.checked_sub(self.queues.queues())?;
        self.spares.as_mut().get_mut(entry as usize)
    }

    /// `queue` holds nothing: it is free, and its flow counts no more in the entries of its hosts. A second call
    /// changes nothing.
    pub(super) fn let_go<K: Storage, T: Storage>(
        &mut self,
        scheduler: &IsolationScheduler<S, K, T>,
        queue: FlowId,
    ) {
        if !self.queues.release(queue.0) && !self.spare_mut(queue.0).is_some_and(core::mem::take) {
            return;
        }
        self.release_hosts(scheduler, queue);
    }

    /// The flow of `queue` counts no more in the entries of its hosts.
    #[inline(always)]
    fn release_hosts<K: Storage, T: Storage>(
        &mut self,
        scheduler: &IsolationScheduler<S, K, T>,
        queue: FlowId,
    ) {
        let Some(hosts) = scheduler.hosts_of(queue) else { return };
        if !hosts.is_plain() {
            return self.release_hosts_slow(scheduler, hosts);
        }
        let (source, destination) = hosts.numbers();
        self.sources.release(source);
        self.destinations.release(destination);
    }

    /// [`Self::release_hosts`], of a flow whose hosts have no name, or do not count, or may be in several tins.
    #[inline(never)]
    fn release_hosts_slow<K: Storage, T: Storage>(
        &mut self,
        scheduler: &IsolationScheduler<S, K, T>,
        hosts: FlowHosts,
    ) {
        let Some((source, destination)) = hosts.entries() else { return };
        if !hosts.has_names() {
            self.unnamed = self.unnamed.saturating_sub(1);
            self.note_closeness();
        }
        let of_source = (source, self.sources.release(source));
        let of_destination = (destination, self.destinations.release(destination));
        let (entry, is_free) = match scheduler.spares_of() {
            Level::Destination => of_destination,
            Level::None | Level::Source => of_source,
        };
        if hosts.is_in_tins()
            && is_free
            && let Some(holder) = scheduler.holder_of(entry)
        {
            self.holders.leave(holder);
        }
    }

    /// Checks that a spare queue is claimed if and only if it holds packets, and that its entry is
    /// then that of its source or of its destination, if there
    /// has been one tin only.
    fn recount_spares<K: Storage, T: Storage>(
        &self,
        scheduler: &IsolationScheduler<S, K, T>,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        for (entry, &claimed) in (0_u32..).zip(self.spares.as_ref()) {
            let queue = self.queues.queues().wrapping_add(entry);
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            let hosts = scheduler.hosts_of(FlowId(queue)).filter(FlowHosts::has_names);
            let is_of_entry = |hosts: FlowHosts| {
                let (source, destination) = hosts.numbers();
                source == entry || destination == entry
            };
            let by_entry = !claimed || hosts.is_none_or(is_of_entry) || self.had_tins;
            Imbalance::check("a spare queue of its entry", queue, 1, by_entry.into())?;
        }
        Ok(())
    }

    /// Counts the backlogged flows of each entry one by one, as the flow scheduler has assigned
    /// them, and compares.
    fn recount_hosts<K: Storage, T: Storage>(
        &self,
        scheduler: &IsolationScheduler<S, K, T>,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let of = |host: &dyn Fn((u32, u32)) -> u32, entry: u32| {
            let backlogged = |flow: &u32| flows(FlowId(*flow)).backlog.packets > 0;
            let here =
                |flow: &u32| scheduler.assigned(FlowId(*flow)).is_some_and(|h| host(h) == entry);
            (0..scheduler.flows()).filter(backlogged).filter(here).count() as u64
        };
        self.sources.recount(&|entry| of(&|(source, _)| source, entry))?;
        self.destinations.recount(&|entry| of(&|(_, destination)| destination, entry))?;
        let level = match scheduler.isolation().level() {
            Level::None => return Ok(()),
            Level::Source => &self.sources,
            Level::Destination => &self.destinations,
        };
        for entry in (0..level.table.queues()).filter(|entry| level.table.is_used(*entry)) {
            let served = scheduler.host_tins().tin_of(FlowId(entry)).unwrap_or(u32::MAX);
            Imbalance::check(
                "the tin of a host",
                entry,
                level.tin_of(entry).into(),
                served.into(),
            )?;
        }
        Ok(())
    }

    /// Counts the entries of each holder one by one, and compares.
    fn recount_holders<K: Storage, T: Storage>(
        &self,
        scheduler: &IsolationScheduler<S, K, T>,
    ) -> Result<(), Imbalance> {
        let (level, tins) = (scheduler.spares_of(), scheduler.tins());
        let is_kept = level != Level::None && tins > 1;
        let entries = self.level(level);
        let claimed = |entry: &u32| is_kept && entries.table.is_used(*entry);
        self.holders.recount(&|holder| {
            let of_holder = |entry: &u32| scheduler.holder_of(*entry) == Some(holder);
            (0..entries.entries()).filter(claimed).filter(of_holder).count() as u64
        })
    }
}

impl<S: Storage, K: Storage, T: Storage> FlowDirectory<IsolationScheduler<S, K, T>>
    for HostDirectory<S>
{
    fn room(&self) -> Option<u32> {
        let spares = u32::try_from(self.spares.as_ref().len()).unwrap_or(u32::MAX);
        Some(self.queues.queues().saturating_add(spares))
    }

    #[inline]
    fn emptied(&mut self, scheduler: &IsolationScheduler<S, K, T>, flow: FlowId) {
        self.let_go(scheduler, flow);
    }

    fn recount(
        &self,
        scheduler: &IsolationScheduler<S, K, T>,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for queue in 0..self.queues.queues() {
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.queues.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("claimed queues", 0, self.queues.occupied().into(), occupied)?;
        self.recount_spares(scheduler, flows)?;
        self.recount_hosts(scheduler, flows)?;
        self.recount_holders(scheduler)?;
        self.recount_rotation()
    }
}
