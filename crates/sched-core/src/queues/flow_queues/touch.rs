//! Touching memory before it is needed: what makes bursts cheaper than single calls.
//!
//! With many flows the lines of a packet, its queue and its flow are not in the cache, and a load
//! of one names the next: each waits for the one before. A burst knows its packets, and the flow
//! scheduler may know the next flows ([`FlowScheduler::upcoming`]), so their lines are loaded
//! first, level by level: the loads of one level are independent, and their waiting times overlap.
//! A load whose value is used is the only prefetch there is without `unsafe`. It changes nothing
//! that can be seen.

use core::hint::black_box;

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::queues::queue::{Descriptor, NONE, Queue};
use crate::{FlowId, Packet};

/// Packets of a burst that are worked on together. Two loads a packet, in a loop of 9 instructions,
/// are within what processors keep in flight: 48 loads or more, and 300 to 500 instructions. The
/// cache lines of a chunk, 64 bytes for each of packet, queue, tail and flow, are 8 kB and stay in
/// the first cache.
pub(super) const CHUNK: usize = 32;

/// Flows that are touched ahead of a chunk of departures: a flow sends one to three packets a turn.
/// Few are best where the flow scheduler follows a list, many where it knows all of them. With
/// 12 and 24 of them DRR took the same time to within the noise.
const AHEAD: usize = 16;

/// With fewer descriptors nothing is touched. 512 KiB of them, about 1 MiB with queues and flow
/// scheduler, are what the second cache of today's servers holds; below that touching was measured
/// to cost more than it saves.
const FROM_DESCRIPTORS: usize = 1 << 15;

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Packets of a burst that are worked on together.
    pub const CHUNK: usize = CHUNK;

    /// Whether the tables are so large that bursts touch their lines first.
    fn is_worth_touching(&self) -> bool {
        self.descriptors.as_ref().len() >= FROM_DESCRIPTORS
    }

    /// Loads what enqueueing `chunk` is going to load, if the tables are so large that it is worth
    /// it: of the first [`CHUNK`](Self::CHUNK) packets. `foresee` says in which queue the packets
    /// of a flow are, and changes nothing.
    ///
    /// For a queue around this one that finds the queues of packets itself. It changes nothing that
    /// can be seen.
    #[inline]
    pub fn touch_arrivals(
        &self,
        chunk: &[(FlowId, Packet)],
        foresee: impl Fn(&M::Directory, FlowId) -> Option<FlowId>,
    ) {
        if self.is_worth_touching() {
            self.touch_all_arrivals(chunk, foresee);
        }
    }

    /// [`Self::touch_arrivals`] of large tables. The loads of one loop do not wait for one another.
    #[inline(never)] // once a chunk, with registers of its own
    fn touch_all_arrivals(
        &self,
        chunk: &[(FlowId, Packet)],
        foresee: impl Fn(&M::Directory, FlowId) -> Option<FlowId>,
    ) {
        let (queues, descriptors) = (self.queues.as_ref(), self.descriptors.as_ref());
        let (mut flows, mut tails, mut touched) = ([NONE; CHUNK], [NONE; CHUNK], 0);
        for (flow, &(name, packet)) in flows.iter_mut().zip(chunk) {
            *flow = foresee(&self.directory, name).map_or(NONE, |flow| flow.0);
            touched |= descriptors.get(packet.handle as usize).map_or(0, Descriptor::next);
        }
        for (tail, flow) in tails.iter_mut().zip(flows) {
            *tail = queues.get(flow as usize).map_or(NONE, Queue::tail);
        }
        for tail in tails {
            touched |= descriptors.get(tail as usize).map_or(0, Descriptor::next);
        }
        black_box(touched);
    }

    /// Loads what the next calls of [`Scheduler::dequeue`] are likely to load, if the tables are
    /// large.
    #[inline]
    pub(super) fn touch_departures(&self) {
        if self.is_worth_touching() {
            self.touch_all_departures();
        }
    }

    #[inline(never)] // once a chunk, with registers of its own
    fn touch_all_departures(&self) {
        let mut ahead = [FlowId(0); AHEAD];
        let found = self.scheduler.upcoming(&mut ahead);
        let ahead = ahead.get(..found).unwrap_or_default();
        let (queues, descriptors) = (self.queues.as_ref(), self.descriptors.as_ref());
        let mut handles = [NONE; AHEAD];
        for (handle, flow) in handles.iter_mut().zip(ahead) {
            *handle = queues.get(flow.index()).map_or(NONE, Queue::head);
        }
        for _ in 0..2 {
            for handle in handles.iter_mut().take(found) {
                *handle = descriptors.get(*handle as usize).map_or(NONE, Descriptor::next);
            }
        }
        black_box(handles);
    }
}

#[cfg(test)]
mod tests;
