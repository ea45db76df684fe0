//! What flows and hosts hold, for a reader.

use core::iter;

use sched_core::{Aqm, FlowId, FlowScheduler, Nanos, Packet, Side};

use super::Isolated;
use super::directory::labels_in_tins;
use crate::isolation::Level;
use crate::labels::Labelled;
use crate::statistics::{Activations, FlowStatistics, FlowTotals, HostStatistics};
use crate::storage::Storage;

impl<S: Storage, A: Aqm, K: Storage, T: Storage> Isolated<S, A, K, T> {
    /// How long `packet`, which was just dequeued at `now` or is still queued, has waited, to 1.024 µs: for a
    /// [`DelayHistogram`](sched_core::DelayHistogram) of the caller's. Cost: O(1).
    #[must_use]
    #[inline]
    pub fn waited(&self, packet: Packet, now: Nanos) -> Nanos {
        self.queues.waited(packet.handle, now)
    }

    /// The flows that hold packets, in the order of their queues. Cost: O(queues), for all of them.
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::SmartQueue;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// queue.enqueue(Nanos(0), &labels, Packet::new(3, 1_500), &mut |_: Packet, _| {})?;
    ///
    /// let now = Nanos::from_millis(20);
    /// let flow = queue.isolated().flow_statistics(now).next().expect("there is one");
    /// assert_eq!(flow.queued.bytes, 1_500);
    /// assert!(flow.waited > Nanos::from_millis(19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flow_statistics(&self, now: Nanos) -> impl Iterator<Item = FlowStatistics> + '_ {
        (0..self.queues.scheduler().flows()).filter_map(move |queue| {
            let (oldest, waited) = self.queues.oldest(FlowId(queue), now)?;
            let queued = self.queues.flow_backlog(FlowId(queue));
            let hosts = self.queues.scheduler().assigned(FlowId(queue));
            let (source, destination) = hosts.unzip();
            let tin = self.queues.scheduler().tin_of_flow(FlowId(queue));
            let oldest = oldest.handle;
            Some(FlowStatistics { queue, tin, source, destination, queued, oldest, waited })
        })
    }

    /// How many flows hold packets, and how many of them are sparse. Flows that share a queue are one. Cost: O(queues); nothing
    /// is kept for it.
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::SmartQueue;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// queue.enqueue(Nanos(0), &labels, Packet::new(3, 1_500), &mut |_: Packet, _| {})?;
    /// let totals = queue.isolated().flow_totals();
    /// assert_eq!((totals.all(), totals.sparse, totals.bulk), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn flow_totals(&self) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for queue in 0..self.queues.scheduler().flows() {
            if self.queues.flow_backlog(FlowId(queue)).packets == 0 {
                continue;
            }
            let is_sparse = self.queues.scheduler().is_sparse(FlowId(queue));
            let count = if is_sparse { &mut totals.sparse } else { &mut totals.bulk };
            *count = count.saturating_add(1);
        }
        totals
    }

    /// How often flows and hosts have become backlogged since construction. The tables count that anyway. Cost: O(1).
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::SmartQueue;
    ///
    /// let mut queue = SmartQueue::upload(Rate::UNLIMITED).descriptors()?;
    /// let drops = &mut |_: Packet, _| {};
    /// // A host has sent all that it had, and comes back; a second flow of it comes with it.
    /// for flow in [70_001, 70_001, 70_002] {
    ///     let labels = Labels { flow, src_host: 90_001, dst_host: 90_002 };
    ///     queue.enqueue(Nanos(0), &labels, Packet::new(0, 1_500), drops)?;
    ///     assert!(queue.dequeue(Nanos(0), drops).is_some());
    /// }
    /// let activations = queue.isolated().activations();
    /// assert_eq!((activations.flows, activations.new_flows), (3, 2));
    /// assert_eq!((activations.source_hosts, activations.new_source_hosts), (3, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn activations(&self) -> Activations {
        let directory = self.queues.directory();
        let (queues, sources) = (&directory.queues, directory.sources.activations());
        let destinations = directory.destinations.activations();
        let flows = queues.counts().claims;
        Activations {
            flows,
            new_flows: flows.saturating_sub(queues.returns()),
            source_hosts: sources.0,
            new_source_hosts: sources.1,
            destination_hosts: destinations.0,
            new_destination_hosts: destinations.1,
        }
    }

    /// The hosts of this side that hold packets, in the order of their entries, into `place`; returns how many: none where hosts
    /// do not count. The flows that were queued when hosts began to count are of one host a tin, until they are known by a packet.
    /// Hosts whose entry is `place.len()` or above are left out: [`host_entries`](Self::host_entries) places are enough. What
    /// stood in `place` is overwritten, behind the hosts too. Cost: O(queues + places).
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet, Side};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{HostStatistics, SmartQueue};
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// for (flow, handle) in [(7, 0), (8, 1), (8, 2)] {
    ///     let labels = Labels { flow, src_host: 1, dst_host: flow };
    ///     queue.enqueue(Nanos(0), &labels, Packet::new(handle, 1_500), &mut |_: Packet, _| {})?;
    /// }
    ///
    /// let mut hosts = [HostStatistics::EMPTY; 256];
    /// let isolated = queue.isolated();
    /// assert_eq!(isolated.host_statistics(Side::Source, Nanos(0), &mut hosts), 1);
    /// assert_eq!((hosts[0].flows, hosts[0].queued.packets), (2, 3));
    /// let of_host = Labels { src_host: 1, ..Labels::default() };
    /// assert_eq!(isolated.entries_of(&of_host).0, Some(hosts[0].entry));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host_statistics(&self, side: Side, now: Nanos, place: &mut [HostStatistics]) -> usize {
        for (entry, host) in (0..).zip(place.iter_mut()) {
            *host = HostStatistics { entry, ..HostStatistics::EMPTY };
        }
        for flow in self.flow_statistics(now) {
            let entry = match side {
                Side::Source => flow.source,
                Side::Destination => flow.destination,
            };
            let host = entry.and_then(|entry| place.get_mut(entry as usize));
            let Some(host) = host else { continue };
            host.tins |= 1 << (flow.tin & 7);
            host.flows = host.flows.saturating_add(1);
            host.queued.packets = host.queued.packets.saturating_add(flow.queued.packets);
            host.queued.bytes = host.queued.bytes.saturating_add(flow.queued.bytes);
            host.waited = host.waited.max(flow.waited);
        }
        let mut kept = 0_usize;
        for from in 0..place.len() {
            let found = place.get(from).copied().filter(|host| host.flows > 0);
            if let (Some(host), Some(to)) = (found, place.get_mut(kept)) {
                *to = host;
                kept = kept.saturating_add(1);
            }
        }
        kept
    }

    /// How many entries there are for hosts of either side.
    #[must_use]
    pub fn host_entries(&self) -> u32 {
        self.queues.directory().sources.entries()
    }

    /// The entries of the hosts of a packet with these `labels` in its tin, source and destination;
    /// `None` for one that holds no packets there. During a [rotation](Self::rotate) the labels
    /// under the previous key ([`Labelled::before`]) are looked up as well. Cost: two lookups, four
    /// during a rotation.
    #[must_use]
    pub fn entries_of(&self, labels: &impl Labelled) -> (Option<u32>, Option<u32>) {
        let directory = self.queues.directory();
        let tin = self.queues.scheduler().tin_of(labels);
        let find = |level| {
            let table = &directory.level(level).table;
            let mut labels = labels_in_tins(table, level, labels, iter::once(tin));
            labels.find_map(|label| table.find(label))
        };
        (find(Level::Source), find(Level::Destination))
    }

    /// The quantum in force of the host in `entry`, in bytes: what [`Labelled::host_quantum`] said,
    /// or the nearest value in range. `None` for an entry that there is not. Cost: O(1).
    ///
    /// ```
    /// use freeboard::flowhash::HostKey;
    /// use freeboard::sched_core::{Nanos, Side};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{HostStatistics, HostTerms, SmartQueue};
    ///
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// // Every host asks for less than its longest frame takes.
    /// let terms = |_: HostKey| HostTerms { quantum: Some(500), ..HostTerms::default() };
    /// let mut queue = queue.with_host_rules(terms);
    /// queue.push(Nanos(0), &[0; 60])?;
    ///
    /// let mut hosts = [HostStatistics::EMPTY; 256];
    /// let isolated = queue.isolated();
    /// assert_eq!(isolated.host_statistics(Side::Source, Nanos(0), &mut hosts), 1);
    /// assert_eq!(isolated.host_quantum(hosts[0].entry), Some(1_522));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn host_quantum(&self, entry: u32) -> Option<u32> {
        self.queues.scheduler().host_quantum(entry)
    }

    /// The queue of the flow of a packet with these `labels`, by its number in
    /// [`FlowStatistics::queue`]; `None` for a flow without a queue of its own: it holds no
    /// packets, or shares a queue since its set is full. A flow that stands under the key before a
    /// [rotation](Self::rotate) is not found. Cost: a lookup.
    #[must_use]
    pub fn queue_of(&self, labels: &impl Labelled) -> Option<u32> {
        let label = self.queues.scheduler().queue_label(labels);
        self.queues.directory().queues.find(label)
    }
}
