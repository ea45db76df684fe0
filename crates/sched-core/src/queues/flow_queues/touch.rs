//! Memory prefetch, which makes bursts cheaper than single calls.
//!
//! With many flows, the cache lines of a packet, its queue and its flow are not cached, and the
//! address of each depends on the one before, so their latencies add up. A burst knows its packets,
//! and the flow scheduler may know the next flows ([`FlowScheduler::upcoming`]). So their lines are
//! loaded first, level by level: the loads of one level are independent, and their latencies
//! overlap. A load whose value is used is the only prefetch possible without `unsafe`. It has no
//! visible effect.

use core::hint::black_box;

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::queues::queue::{Descriptor, NONE, Queue};
use crate::{FlowId, Packet};

/// Packets of a burst that are processed together. Two loads per packet, in a loop of 9
/// instructions, are within what processors keep in flight: 48 loads or more, and 300 to 500
/// instructions. The cache lines of a chunk, 64 bytes each for packet, queue, tail and flow, are 8
/// kB and stay in the L1 cache.
pub(super) const CHUNK: usize = 32;

/// Flows that are prefetched ahead of a chunk of departures: a flow sends one to three packets per
/// turn. Fewer are better if the flow scheduler follows a list, more if it knows all of them. With
/// 12 and with 24, DRR took the same time to within the noise.
const AHEAD: usize = 16;

/// Minimum number of descriptors for prefetching. 512 KiB of them, about 1 MiB with queues and flow
/// scheduler, fit the L2 cache of today's servers; below that prefetching was measured to cost more
/// than it saves.
const FROM_DESCRIPTORS: usize = 1 << 15;

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Packets of a burst that are processed together.
    pub const CHUNK: usize = CHUNK;

    /// Returns true if the tables are so large that bursts prefetch.
    fn is_worth_touching(&self) -> bool {
        self.descriptors.as_ref().len() >= FROM_DESCRIPTORS
    }

    /// Prefetches the memory that enqueueing the first [`CHUNK`](Self::CHUNK) packets of `chunk`
    /// will access, if the tables are large. `foresee` returns the queue of a flow without changing
    /// anything.
    ///
    /// For a wrapper that maps packets to queues itself. It has no visible effect.
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

    /// [`Self::touch_arrivals`] for large tables. The loads of one loop are independent of each
    /// other.
    #[inline(never)] // once per chunk, with its own registers
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

    /// Prefetches the memory that the next calls of `Scheduler::dequeue` will probably access, if
    /// the tables are large.
    #[inline]
    pub(super) fn touch_departures(&self) {
        if self.is_worth_touching() {
            self.touch_all_departures();
        }
    }

    #[inline(never)] // once per chunk, with its own registers
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
