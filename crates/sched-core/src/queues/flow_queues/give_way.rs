//! Packets that leave without service: overflow, lowered limits, removed flows, the ACK filter.

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{DropFrom, FlowScheduler};
use crate::queues::counters::FlowRecords;
use crate::queues::flow_directory::FlowDirectory;
use crate::queues::queue::Queue;
use crate::scheduler::{DropReason, DropSink, Rejected};
use crate::{FlowId, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Drops from the victims of the policy until the limits hold, or rejects the arriving packet
    /// if it is itself a victim. A victim that the policy gives up loses all packets but the
    /// arriving one, up to [`Self::MAX_VICTIMS`].
    pub(super) fn make_room(
        &mut self,
        flow: FlowId,
        arrival: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let mut given_up = None;
        // The limits held before the arrival and every victim has at least one byte, so as many
        // victims as the arriving packet has bytes suffice.
        for _ in 0..Self::MAX_VICTIMS.max(arrival.len) {
            crate::steps::step();
            let (victim, end, reason) =
                match given_up.filter(|&flow| self.holds_older_than(flow, arrival)) {
                    Some(flow) => (flow, DropFrom::Head, DropReason::Unserved),
                    None if !self.ledger.is_over() => return Ok(()),
                    None => {
                        let Some((victim, end)) = self.victim() else {
                            break;
                        };
                        if self.policy.gives_up(&self.scheduler, victim)
                            && self.holds_older_than(victim, arrival)
                        {
                            given_up = Some(victim);
                            (victim, DropFrom::Head, DropReason::Unserved)
                        } else {
                            (victim, end, DropReason::Overflow)
                        }
                    }
                };
            let Some(packet) = self.take(victim, end) else { break };
            if packet.handle == arrival.handle {
                return Err(self.take_back(flow, arrival));
            }
            self.book_drop(victim, packet, reason, drops);
        }
        if !self.ledger.is_over() {
            return Ok(());
        }
        let _taken = self.take(flow, DropFrom::Tail);
        debug_assert_eq!(_taken.map(|packet| packet.handle), Some(arrival.handle));
        Err(self.take_back(flow, arrival))
    }

    /// Returns true if `flow` holds packets older than `arrival`, the newest of all.
    fn holds_older_than(&self, flow: FlowId, arrival: Packet) -> bool {
        let queue = self.queues.as_ref().get(flow.index());
        queue.is_some_and(|queue| !queue.is_empty() && queue.head() != arrival.handle)
    }

    /// Reverts the acceptance of an arriving packet that has been removed from its queue again.
    fn take_back(&mut self, flow: FlowId, arrival: Packet) -> Rejected {
        self.ledger.unaccept(arrival.len);
        self.reject_full(flow, arrival)
    }

    /// Removes a packet from the queue of `flow` and notifies the four parts of the loss.
    pub(super) fn take(&mut self, flow: FlowId, end: DropFrom) -> Option<Packet> {
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let descriptors = self.descriptors.as_mut();
        let packet = match end {
            DropFrom::Head => queue.pop_head(descriptors)?,
            DropFrom::Tail => queue.pop_tail(descriptors)?,
        };
        let head = queue.head_len(descriptors);
        self.tell_lost(flow, packet.len, head);
        Some(packet)
    }

    /// Notifies the four parts that `len` bytes left the queue of `flow` without service; `head` is
    /// the length of its first packet now.
    fn tell_lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.scheduler.lost(flow, len, head);
        self.policy.lost(flow, len, self.flow_backlog(flow).bytes);
        if head.is_none() {
            self.aqm.emptied(flow);
            self.directory.emptied(&self.scheduler, flow);
        }
    }

    /// Drops the victim of the policy, or the packet served next if it has none.
    pub(super) fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let next = || self.first().map(|flow| (flow, DropFrom::Head));
        let Some((victim, end)) = self.victim().or_else(next) else {
            return false;
        };
        let Some(packet) = self.take(victim, end) else { return false };
        self.book_drop(victim, packet, reason, drops);
        true
    }

    pub(super) fn book_drop(
        &mut self,
        flow: FlowId,
        packet: Packet,
        reason: DropReason,
        drops: &mut dyn DropSink,
    ) {
        if matches!(reason, DropReason::Overflow | DropReason::Unserved) {
            self.aqm.overflowed(flow);
        }
        self.ledger.drop(packet.len, reason);
        if let Some(record) = self.records.record_mut(&self.scheduler, flow) {
            record.drop(packet.len, reason);
        }
        drops.dropped(packet, reason);
    }

    /// Returns the packets of `flow`, the newest first; none if there is no such flow.
    ///
    /// ```
    /// use sched_core::{
    ///     Descriptor, DropReason, Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos, Packet, Queue,
    ///     Scheduler,
    /// };
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 1], 1_500)?;
    /// drr.add_all(1_500)?;
    /// let packets = [Descriptor::EMPTY; 8];
    /// let limits = Limits::packets(8);
    /// let mut queues = FlowQueues::with_own_victim(drr, [Queue::EMPTY; 1], packets, limits);
    /// let mut gone = Vec::new();
    /// let drops = &mut |packet: Packet, why: DropReason| gone.push((packet.handle, why));
    /// for handle in 0..3 {
    ///     queues.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 52), drops)?;
    /// }
    ///
    /// // The second from the newest says nothing that the newest does not say.
    /// assert_eq!(queues.newest_first(FlowId(0)).nth(1), Some(Packet::new(1, 52)));
    /// assert!(queues.filter_out(FlowId(0), 1, drops));
    /// let left: Vec<u32> = queues.newest_first(FlowId(0)).map(|packet| packet.handle).collect();
    /// assert_eq!(left, [2, 0]);
    /// assert_eq!(gone, [(1, DropReason::Filtered)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn newest_first(&self, flow: FlowId) -> impl Iterator<Item = Packet> + '_ {
        let queue = self.queues.as_ref().get(flow.index()).copied().unwrap_or(Queue::IDLE);
        let descriptors = self.descriptors.as_ref();
        let mut next = (!queue.is_empty()).then(|| queue.tail());
        core::iter::from_fn(move || {
            let handle = next?;
            let packet = descriptors.get(handle as usize)?.packet(handle);
            next = queue.before(descriptors, handle);
            Some(packet)
        })
    }

    /// Drops the packet of `flow` with `younger` packets behind it, 0 for the newest, with
    /// [`DropReason::Filtered`]; the others keep their order. Returns true if there was one. The
    /// flow scheduler and the drop policy are notified of the loss; the AQM is not notified of an
    /// overflow. Cost: O(`younger`) besides the parts.
    pub fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> bool {
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else { return false };
        let descriptors = self.descriptors.as_mut();
        let Some(packet) = queue.take_nth_newest(descriptors, younger) else { return false };
        let head = queue.head_len(descriptors);
        self.tell_lost(flow, packet.len, head);
        self.book_drop(flow, packet, DropReason::Filtered, drops);
        true
    }

    /// Drops all packets of `flow` but keeps the flow. Cost: O(packets of the flow).
    pub(crate) fn drop_all(&mut self, flow: FlowId, reason: DropReason, drops: &mut dyn DropSink) {
        while let Some(packet) = self.take(flow, DropFrom::Head) {
            self.book_drop(flow, packet, reason, drops);
        }
    }
}
