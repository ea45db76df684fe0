//! Burst dequeue: packets that the AQM passes leave in *runs*.
//!
//! A run does inline what [`Scheduler::dequeue`](crate::Scheduler::dequeue) does, packet by packet
//! and in the same order, but counts the departures once at its end. A packet that the AQM marks or
//! drops ends the run; the next run begins behind the packet that leaves in its place.

use super::dequeue::{is_told, verdict};
use super::{FlowQueues, Tables};
use crate::aqm::{Aqm, Verdict};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::scheduler::DropSink;
use crate::{FlowId, Nanos, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// [`Scheduler::dequeue_burst`](crate::Scheduler::dequeue_burst) of one chunk.
    #[inline(always)]
    pub(super) fn dequeue_chunk(
        &mut self,
        now: Nanos,
        out: &mut [Packet],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut filled = 0_usize;
        loop {
            let places = out.get_mut(filled..).unwrap_or_default();
            let (left, told) = self.leave(now, places);
            filled = filled.wrapping_add(left);
            let Some((flow, verdict)) = told else { break };
            let Some(packet) = self.deliver_signalled(now, flow, verdict, drops) else { break };
            let Some(place) = out.get_mut(filled) else { break };
            *place = packet;
            filled = filled.wrapping_add(1);
        }
        filled
    }

    /// Dequeues a run of packets that the AQM passes. Returns their number in `out`, and the
    /// verdict on the next packet if the AQM marks or drops it.
    #[inline(always)]
    fn leave(&mut self, now: Nanos, out: &mut [Packet]) -> (usize, Option<(FlowId, Verdict)>) {
        let count = out.len();
        let mut places = out.iter_mut();
        let told = loop {
            if places.as_slice().is_empty() {
                break None;
            }
            self.scheduler.advance(now);
            let Some(flow) = self.scheduler.select().or_else(|| self.open()) else { break None };
            // Borrowed in every iteration, so that no register has to hold the tables during the
            // run.
            let (queues, descriptors) = (self.queues.as_mut(), self.descriptors.as_mut());
            let Some(queue) = queues.get_mut(flow.index()) else { break None };
            let Some(first) = descriptors.get_mut(queue.head() as usize) else { break None };
            let parts = (&self.scheduler, &mut self.aqm);
            let verdict = verdict(parts, now, flow, first, queue);
            if is_told(verdict) {
                break Some((flow, verdict));
            }
            let packet = queue.take(first);
            if let Some(place) = places.next() {
                // Field by field, so that the padding of a packet is not copied.
                (place.handle, place.len, place.ecn) = (packet.handle, packet.len, packet.ecn);
            }
            self.ledger.deliver_bytes(packet.len);
            let Some(next_head) = queue.head_len(descriptors) else {
                queue.close();
                self.close(flow, packet.len);
                continue;
            };
            self.scheduler.served(flow, packet.len, Some(next_head));
            self.policy.served(flow, packet.len, queue.backlog().bytes);
        };
        let left = count.wrapping_sub(places.len());
        #[expect(clippy::cast_possible_truncation, reason = "no more than descriptors")]
        self.ledger.deliver_packets(left as u32);
        (left, told)
    }
}
