//! Statistics of a smart queue.

#[cfg(feature = "alloc")]
use alloc::string::ToString;

#[cfg(feature = "alloc")]
use sched_core::{DelayHistogram, Side};
use sched_core::{Nanos, Packet};

use super::{Descriptors, Frames, SmartQueue};
use crate::isolation::TinCounters;
#[cfg(feature = "alloc")]
use crate::settings::QueueSettings;
#[cfg(feature = "alloc")]
use crate::statistics::{HostStatistics, Snapshot};
use crate::statistics::{QueueStatistics, TinStatistics};
use crate::storage::Storage;

impl<S: Storage, P> SmartQueue<S, P> {
    /// Returns counters and backlog of the whole queue. For flows and hosts see
    /// [`Isolated::flow_statistics`](crate::Isolated::flow_statistics) and
    /// [`host_statistics`](crate::Isolated::host_statistics) of [`isolated`](Self::isolated). Cost:
    /// O(1); changes nothing.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::{DropReason, Nanos};
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// let statistics = queue.statistics();
    /// assert_eq!((statistics.queued.packets, statistics.source_hosts), (1, 1));
    /// assert_eq!(statistics.counters.dropped_for(DropReason::Aqm).packets, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> QueueStatistics {
        let (source_hosts, destination_hosts) = self.backlogged_hosts();
        QueueStatistics {
            rate_bits_per_second: self.line().rate().as_bits_per_second(),
            counters: self.counters(),
            queued: self.backlog(),
            limits: self.limits(),
            memory_held: self.memory_held(),
            memory_limit: self.memory_limit(),
            source_hosts,
            destination_hosts,
            activations: self.isolated().activations(),
            non_ip: self.outlet.non_ip,
        }
    }

    /// Returns the number of backlogged flows that have overflowed their queue and not reacted
    /// since, as COBALT sees it
    /// ([`ChosenAqm::is_unresponsive`](sched_core::ChosenAqm::is_unresponsive)); 0 with another
    /// AQM. Cost: O(queues); changes nothing.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::shaper::Rate;
    ///
    /// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// assert_eq!(queue.unresponsive_flows(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unresponsive_flows(&self) -> u32 {
        let held = self.isolated().backlogged_queues();
        let is_unresponsive = |flow| self.chosen().is_unresponsive(flow);
        held.fold(0, |sum: u32, (flow, _)| sum.saturating_add(is_unresponsive(flow).into()))
    }

    /// Returns counters and backlog of tin `number`; `None` if there is no such tin. Cost:
    /// O(queues); changes nothing.
    #[must_use]
    pub fn tin_statistics(&self, number: u8) -> Option<TinStatistics> {
        let TinCounters { counters, backlog: queued } = self.tin_counters(number)?;
        let name = *self.tins().tin(number)?.name();
        let rate = self.tins().rate(number, self.line().rate());
        let rate_bits_per_second = rate.as_bits_per_second();
        Some(TinStatistics { name, rate_bits_per_second, counters, queued })
    }

    #[cfg(feature = "alloc")]
    fn snapshot_with(
        &self,
        settings: QueueSettings,
        now: Nanos,
        delays: Option<&DelayHistogram>,
    ) -> Snapshot {
        let hosts = |side| {
            let mut place =
                alloc::vec![HostStatistics::EMPTY; self.isolated().host_entries() as usize];
            let count = self.isolated().host_statistics(side, now, &mut place);
            place.truncate(count);
            place
        };
        Snapshot {
            settings: settings.to_string(),
            queue: self.statistics(),
            totals: self.isolated().flow_totals(),
            unresponsive_flows: self.unresponsive_flows(),
            tins: (0..self.tins().count()).filter_map(|tin| self.tin_statistics(tin)).collect(),
            sources: hosts(Side::Source),
            destinations: hosts(Side::Destination),
            flows: self.isolated().flow_statistics(now).collect(),
            delays: delays.cloned(),
        }
    }
}

/// Statistics of a queue with descriptors.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Returns all statistics of the queue, with the waiting times that the caller has counted.
    /// Cost: O(queues · tins + hosts), and a few tables on the heap; changes nothing.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn snapshot(&self, now: Nanos, delays: Option<&DelayHistogram>) -> Snapshot {
        self.snapshot_with(self.settings(), now, delays)
    }
}

/// Statistics of a queue with frames.
impl<S: Storage, N, R, I> SmartQueue<S, Frames<S, N, R, I>> {
    /// Returns how long the frame that [`pop`](Self::pop) returned at `now` has waited, with a
    /// resolution of 1.024 µs: for your own [`DelayHistogram`](sched_core::DelayHistogram). `None`
    /// before the first frame, and after the next [`push`](Self::push). Cost: O(1).
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::{DelayHistogram, Nanos};
    /// use freeboard::shaper::Rate;
    ///
    /// let mut delays = DelayHistogram::new();
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// let now = Nanos::from_millis(1);
    /// if queue.pop(now).is_some() {
    ///     delays.add(queue.waited(now).expect("a frame has left"));
    /// }
    /// assert_eq!(delays.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waited(&self, now: Nanos) -> Option<Nanos> {
        let handle = self.packets.handed_out()?;
        Some(self.isolated().waited(Packet::new(handle, 1), now))
    }

    /// Returns all statistics of the queue, with the waiting times that the caller has counted.
    /// Cost: O(queues · tins + hosts), and a few tables on the heap; changes nothing.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
    /// queue.push(Nanos(0), &[0; 60])?;
    /// let snapshot = queue.snapshot(Nanos::from_millis(1), None);
    /// assert_eq!((snapshot.flows.len(), snapshot.sources.len()), (1, 1));
    /// assert!(snapshot.settings.starts_with("bandwidth 20mbit"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn snapshot(&self, now: Nanos, delays: Option<&DelayHistogram>) -> Snapshot {
        self.snapshot_with(self.settings(), now, delays)
    }
}
