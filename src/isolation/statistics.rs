//! Statistics of flows and hosts.

use flowhash::FlowTable;
use sched_core::{Aqm, Backlog, FlowId, FlowScheduler, Nanos, Packet, Side};

use super::directory::{far_label, host_label};
use super::mode::Level;
use super::queue::Isolated;
use crate::labels::Labelled;
use crate::statistics::{Activations, FlowStatistics, FlowTotals, HostStatistics};
use crate::storage::Storage;

/// Statistics. Hosts are known only on an isolated side: the sources in `dual-srchost`, the
/// destinations in `dual-dsthost`, both in `triple-isolate`; none in the other modes.
impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Returns the numbers of backlogged source hosts and destination hosts, each counted once in
    /// however many tins: the `H` of the guarantees. Hosts that share an entry count as one; a side
    /// that is not isolated has none.
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        let directory = self.queues.directory();
        let far = directory.far_hosts.as_ref().map(FlowTable::occupied);
        let (sources, destinations) = self.on_both_sides(directory.hosts.occupied(), far);
        (sources.unwrap_or(0), destinations.unwrap_or(0))
    }

    /// Returns how long `packet`, which was just dequeued at `now` or is still queued, has waited,
    /// with a resolution of 1.024 µs: for your own [`DelayHistogram`](sched_core::DelayHistogram).
    /// Cost: O(1).
    #[must_use]
    #[inline]
    pub fn waited(&self, packet: Packet, now: Nanos) -> Nanos {
        self.queues.waited(packet.handle, now)
    }

    /// Returns the backlogged flows, in the order of their queues. Cost: O(queues), for all of
    /// them.
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

    /// Returns the numbers of backlogged sparse and bulk flows. Flows that share a queue are one.
    /// Cost: O(queues); no state is kept for it.
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

    /// Returns the activations of flows and hosts since construction, which the tables count
    /// anyway. Cost: O(1).
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

    /// Writes the backlogged hosts of this side into `place`, in the order of their entries;
    /// returns their number, which is 0 for a side that is not isolated. Hosts whose entry is
    /// `place.len()` or above are left out; a length of [`host_entries`](Self::host_entries) is
    /// enough for all. All of `place` is overwritten, also after the hosts. Cost: O(queues +
    /// `place.len()`).
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
    /// // The isolation is `dual-srchost`: destinations are not isolated.
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

    /// Returns the number of handles. Valid handles are below it.
    #[must_use]
    pub fn handles(&self) -> u32 {
        self.queues.handles()
    }

    /// Returns the number of entries for hosts.
    #[must_use]
    pub fn host_entries(&self) -> u32 {
        self.queues.directory().hosts.queues()
    }

    /// Returns the entries of the source and destination host of a packet with these `labels`;
    /// `None` for a host that is not backlogged or on a side that is not isolated. Cost: a lookup.
    #[must_use]
    pub fn entries_of(&self, labels: &impl Labelled) -> (Option<u32>, Option<u32>) {
        let (level, directory) = (self.queues.scheduler().level, self.queues.directory());
        let far = directory.far_hosts.as_ref().map(|hosts| hosts.find(far_label(level, labels)));
        let near = directory.hosts.find(host_label(level, labels));
        let (source, destination) = self.on_both_sides(near, far);
        (source.flatten(), destination.flatten())
    }

    /// Returns the quantum in force of the host in `entry`, in bytes: the one of
    /// [`Labelled::host_terms`], or the nearest value in range. `None` for an entry out of range.
    /// Cost: O(1).
    #[must_use]
    pub fn host_quantum(&self, entry: u32) -> Option<u32> {
        let serving = self.queues.scheduler();
        // The quantum in a tin in which the host is backlogged, or else in the lowest.
        let tin = serving.hosts.as_ref().get(entry as usize)?.backlogged.trailing_zeros() & 7;
        let turn = serving.turn(serving.turn_of(entry, u8::try_from(tin).ok()?))?;
        turn.place.quantum().checked_div(serving.quanta_of_a_turn())
    }

    /// Returns the number of the queue of the flow of a packet with these `labels`, as in
    /// [`FlowStatistics::queue`]; `None` for a flow without a queue of its own, which holds no
    /// packets or shares a queue because its set is full. Cost: a lookup.
    #[must_use]
    pub fn queue_of(&self, labels: &impl Labelled) -> Option<u32> {
        let label = self.queues.scheduler().queue_label(labels);
        self.queues.directory().queues.find(label)
    }

    /// Returns the backlogged queues with their backlogs.
    pub(crate) fn backlogged_queues(&self) -> impl Iterator<Item = (FlowId, Backlog)> + '_ {
        let queues = (0..self.queues.scheduler().flows()).map(FlowId);
        let held = queues.map(|queue| (queue, self.queues.flow_backlog(queue)));
        held.filter(|(_, held)| held.packets > 0)
    }

    /// Returns the oldest packet in this queue.
    pub(crate) fn oldest(&self, queue: FlowId) -> Option<Packet> {
        self.queues.oldest(queue, Nanos::ZERO).map(|(oldest, _)| oldest)
    }

    /// Returns the tin of the packets in this queue.
    pub(crate) fn tin_of(&self, queue: FlowId) -> u8 {
        self.queues.scheduler().tin_of_flow(queue)
    }

    /// Returns `near` for the side of the hosts that have turns, and `far` for the other side if
    /// its hosts count too, as source and destination.
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
