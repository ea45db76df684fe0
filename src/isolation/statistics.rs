//! What flows and hosts hold, for a reader.

use flowhash::FlowTable;
use sched_core::{Aqm, Backlog, FlowId, FlowScheduler, Nanos, Packet, Side};

use super::directory::{far_label, host_label};
use super::mode::Level;
use super::queue::Isolated;
use crate::labels::Labelled;
use crate::statistics::{Activations, FlowStatistics, FlowTotals, HostStatistics};
use crate::storage::Storage;

/// Hosts are known on a side that counts: in `dual-srchost` the sources, in `dual-dsthost` the
/// destinations, in `triple-isolate` both. Nothing is known of hosts of the other side, and nothing
/// of any where hosts do not count.
impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Returns how many source hosts, and how many destination hosts, hold packets, each once, in
    /// however many tins: the `H` of the guarantees. Hosts that share an entry count as one. There
    /// are none on a side that does not count.
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        let directory = self.queues.directory();
        let far = directory.far_hosts.as_ref().map(FlowTable::occupied);
        let (sources, destinations) = self.on_both_sides(directory.hosts.occupied(), far);
        (sources.unwrap_or(0), destinations.unwrap_or(0))
    }

    /// Returns how long `packet`, which was just dequeued at `now` or is still queued, has waited,
    /// to 1.024 µs: for a [`DelayHistogram`](sched_core::DelayHistogram) of the caller's. Cost:
    /// O(1).
    #[must_use]
    #[inline]
    pub fn waited(&self, packet: Packet, now: Nanos) -> Nanos {
        self.queues.waited(packet.handle, now)
    }

    /// Returns the flows that hold packets, in the order of their queues. Cost: O(queues), for all
    /// of them.
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Limits, Nanos, Packet};
    /// use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::NONE))?;
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// queue.enqueue_labelled(Nanos(0), &labels, Packet::new(3, 1_500), &mut |_: Packet, _| {})?;
    ///
    /// let now = Nanos::from_millis(20);
    /// let flow = queue.flow_statistics(now).next().expect("there is one");
    /// assert_eq!((flow.oldest, flow.queued.bytes), (3, 1_500));
    /// assert!(flow.source.is_some() && flow.destination.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flow_statistics(&self, now: Nanos) -> impl Iterator<Item = FlowStatistics> + '_ {
        self.backlogged_queues().filter_map(move |(queue, queued)| {
            let (oldest, waited) = self.queues.oldest(queue, now)?;
            let serving = self.queues.scheduler();
            let host = serving.host_of_turn(serving.turn_of_flow(queue));
            let far = Some(serving.far_host_of(queue));
            let (source, destination) = self.on_both_sides(host, far);
            let (tin, queue, oldest) = (self.tin_of(queue), queue.0, oldest.handle);
            Some(FlowStatistics { queue, tin, source, destination, queued, oldest, waited })
        })
    }

    /// Returns how many flows hold packets, and how many of them are sparse. Flows that share a
    /// queue are one. Cost: O(queues); nothing is kept for it.
    #[must_use]
    pub fn flow_totals(&self) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for (queue, _) in self.backlogged_queues() {
            let is_sparse = self.queues.scheduler().is_sparse(queue);
            let count = if is_sparse { &mut totals.sparse } else { &mut totals.bulk };
            *count = count.saturating_add(1);
        }
        totals
    }

    /// Returns how often flows and hosts have become backlogged since construction. The tables
    /// count that anyway. Cost: O(1).
    #[must_use]
    pub fn activations(&self) -> Activations {
        let all = self.queues.directory().activated(self.queues.scheduler());
        let [
            flows,
            new_flows,
            source_hosts,
            new_source_hosts,
            destination_hosts,
            new_destination_hosts,
        ] = all;
        Activations {
            flows,
            new_flows,
            source_hosts,
            new_source_hosts,
            destination_hosts,
            new_destination_hosts,
        }
    }

    /// Writes the hosts of this side that hold packets, in the order of their entries, into
    /// `place`; returns how many: none on a side that does not count. Hosts whose entry is
    /// `place.len()` or above are left out: [`host_entries`](Self::host_entries) places are enough.
    /// What stood in `place` is overwritten, behind the hosts too. Cost: O(queues + places).
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Side};
    /// use freeboard::{Heap, HostStatistics, Isolated, IsolatedConfig, IsolatedMemory};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::NONE))?;
    /// let drops = &mut |_: Packet, _| {};
    /// for (flow, handle) in [(7, 0), (8, 1), (8, 2)] {
    ///     let labels = Labels { flow, src_host: 1, dst_host: flow };
    ///     queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 1_500), drops)?;
    /// }
    ///
    /// let mut hosts = [HostStatistics::EMPTY; 16];
    /// assert_eq!(queue.host_statistics(Side::Source, Nanos(0), &mut hosts), 1);
    /// assert_eq!((hosts[0].flows, hosts[0].queued.packets), (2, 3));
    /// let of_host = Labels { src_host: 1, ..Labels::default() };
    /// assert_eq!(queue.entries_of(&of_host), (Some(hosts[0].entry), None));
    /// // The isolation is `dual-srchost`: destinations do not count.
    /// assert_eq!(queue.host_statistics(Side::Destination, Nanos(0), &mut hosts), 0);
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

    /// Returns how many entries there are for hosts.
    #[must_use]
    pub fn host_entries(&self) -> u32 {
        self.queues.directory().hosts.queues()
    }

    /// Returns the entries of the hosts of a packet with these `labels`, source and destination;
    /// `None` for one that holds no packets, and on a side that does not count. Cost: a lookup.
    #[must_use]
    pub fn entries_of(&self, labels: &impl Labelled) -> (Option<u32>, Option<u32>) {
        let (level, directory) = (self.queues.scheduler().level, self.queues.directory());
        let far = directory.far_hosts.as_ref().map(|hosts| hosts.find(far_label(level, labels)));
        let near = directory.hosts.find(host_label(level, labels));
        let (source, destination) = self.on_both_sides(near, far);
        (source.flatten(), destination.flatten())
    }

    /// Returns the quantum in force of the host in `entry`, in bytes: what
    /// [`Labelled::host_terms`] said, or the nearest value in range. `None` for an entry that
    /// there is not. Cost: O(1).
    #[must_use]
    pub fn host_quantum(&self, entry: u32) -> Option<u32> {
        let serving = self.queues.scheduler();
        // That of a tin in which the host holds packets, or else of the lowest.
        let tin = serving.hosts.as_ref().get(entry as usize)?.backlogged.trailing_zeros() & 7;
        let turn = serving.turn(serving.turn_of(entry, u8::try_from(tin).ok()?))?;
        turn.place.quantum().checked_div(serving.quanta_of_a_turn())
    }

    /// Returns the queue of the flow of a packet with these `labels`, by its number in
    /// [`FlowStatistics::queue`]; `None` for a flow without a queue of its own: it holds no
    /// packets, or shares a queue since its set is full. Cost: a lookup.
    #[must_use]
    pub fn queue_of(&self, labels: &impl Labelled) -> Option<u32> {
        let label = self.queues.scheduler().queue_label(labels);
        self.queues.directory().queues.find(label)
    }

    /// The queues that hold packets, and what they hold.
    pub(crate) fn backlogged_queues(&self) -> impl Iterator<Item = (FlowId, Backlog)> + '_ {
        let queues = (0..self.queues.scheduler().flows()).map(FlowId);
        let held = queues.map(|queue| (queue, self.queues.flow_backlog(queue)));
        held.filter(|(_, held)| held.packets > 0)
    }

    /// The oldest packet in this queue.
    pub(crate) fn oldest(&self, queue: FlowId) -> Option<Packet> {
        self.queues.oldest(queue, Nanos::ZERO).map(|(oldest, _)| oldest)
    }

    /// The tin of what is in this queue.
    pub(crate) fn tin_of(&self, queue: FlowId) -> u8 {
        self.queues.scheduler().tin_of_flow(queue)
    }

    /// `near` on the side of the hosts that have turns, and `far` on the other, if its hosts count
    /// too; source and destination.
    fn on_both_sides<V>(&self, near: V, far: Option<V>) -> (Option<V>, Option<V>) {
        let serving = self.queues.scheduler();
        let far = far.filter(|_| serving.is_in_rounds());
        match serving.level {
            Level::None => (None, None),
            Level::Source => (Some(near), far),
            Level::Destination => (far, Some(near)),
        }
    }
}
