//! Packets of a burst that simply leave their queues go in *runs*.
//!
//! A run does what [`Scheduler::dequeue`](crate::Scheduler::dequeue) does in line, packet by packet and in the same order. It
//! books how many have left once, at its end. A packet that does not pass the AQM at a glance ends the run and takes the way of
//! a single call, and the next run begins behind it.

use super::dequeue::{head_of, unpaced};
use super::{FlowQueues, Tables};
use crate::aqm::{Aqm, Look, Verdict};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::scheduler::DropSink;
use crate::{FlowId, Nanos, Packet};

/// Why a run of departures ended.
enum Departure {
    /// As many left as were asked for.
    Full,
    /// No flow is selected.
    Unselected,
    /// What the AQM said at a glance of the next packet.
    Judged(FlowId, Verdict),
    /// A flow is selected that holds nothing: only a broken flow scheduler does.
    Broken,
}

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
            let (left, end) = self.leave(now, places);
            filled = filled.wrapping_add(left);
            let delivered = match end {
                Departure::Full | Departure::Broken => break,
                Departure::Unselected if self.scheduler.waits() => self.dequeue_opened(now, drops),
                Departure::Unselected => None,
                Departure::Judged(flow, verdict) => self.deliver_judged(now, flow, verdict, drops),
            };
            let Some(packet) = delivered else { break };
            let Some(place) = out.get_mut(filled) else { break };
            *place = packet;
            filled = filled.wrapping_add(1);
        }
        filled
    }

    /// A run of packets that simply leave their queues: how many are in `out`, and why no more.
    #[inline(always)]
    fn leave(&mut self, now: Nanos, out: &mut [Packet]) -> (usize, Departure) {
        let count = out.len();
        let mut places = out.iter_mut();
        let end = loop {
            if places.as_slice().is_empty() {
                break Departure::Full;
            }
            self.scheduler.advance(now);
            let Some(flow) = self.scheduler.select() else { break Departure::Unselected };
            // The tables are taken anew, so that no register has to keep them over the run.
            let (queues, descriptors) = (self.queues.as_mut(), self.descriptors.as_mut());
            let Some(queue) = queues.get_mut(flow.index()) else { break Departure::Broken };
            let Some(first) = descriptors.get(queue.head() as usize) else {
                break Departure::Broken;
            };
            let head = head_of(now, first, queue.backlog());
            let verdict = self.aqm.judge(flow, unpaced(&self.scheduler, flow, head), Look::Glance);
            if verdict != Verdict::Pass {
                break Departure::Judged(flow, verdict);
            }
            let Some(packet) = queue.take_head(descriptors) else { break Departure::Broken };
            if let Some(place) = places.next() {
                // One by one, so that the padding of a packet is not copied.
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
        (left, end)
    }
}
