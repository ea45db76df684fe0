//! Moving queued packets to other queues, after a change of the flow key.

use super::{FlowQueues, Tables};
use crate::aqm::Aqm;
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::FlowScheduler;
use crate::queues::queue::Queue;
use crate::{FlowId, Packet};

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Assigns all queued packets to queues again. Every packet stays, with its arrival time, and
    /// nothing is counted.
    ///
    /// 1. Flow scheduler and drop policy lose all flows. Then `begin` resets the flow scheduler and
    ///    the directory, so that no queue is claimed.
    /// 2. `home` is called with the oldest packet of each of the first `owned` queues, in order. If
    ///    it claims a queue for the packet, the AQM state moves there. A state for which no queue
    ///    is claimed is reset.
    /// 3. `home` is called with every packet: first those of the queues from `owned` on, then those
    ///    of the queues of step 2 that were not claimed, then the others. The packets of a queue
    ///    keep their order.
    ///
    /// `home` returns the queue for a packet, and true if this call claimed it. It may claim each
    /// queue at most once, and only the first `owned`. Called again with a packet for which it
    /// claimed a queue, it must return that queue. A queue number out of range counts as 0.
    ///
    /// Cost: O(flows + packets), with one call of `home` per packet and at most two more per queue.
    pub fn regroup(
        &mut self,
        owned: u32,
        begin: impl FnOnce(&mut O, &mut M::Directory),
        mut home: impl FnMut(&mut O, &mut M::Directory, Packet) -> (FlowId, bool),
    ) {
        let flows = self.flows();
        let owned = owned.min(flows);
        for flow in (0..flows).map(FlowId) {
            let held = self.flow_backlog(flow);
            if held.packets > 0 {
                self.scheduler.lost(flow, held.bytes, None);
                self.policy.lost(flow, held.bytes, 0);
            }
        }
        begin(&mut self.scheduler, &mut self.directory);
        let mut loose = Queue::IDLE;
        for flow in (owned..flows).map(FlowId) {
            self.loosen(flow, &mut loose);
            self.aqm.forget(flow);
        }
        for flow in (0..owned).map(FlowId) {
            // At most as many queues are claimed.
            for _ in 0..owned {
                let Some(packet) = self.head(flow) else { break };
                let (to, is_claimed) = home(&mut self.scheduler, &mut self.directory, packet);
                if is_claimed && to.0 < owned {
                    self.swap(flow, to);
                } else if to != flow {
                    self.loosen(flow, &mut loose);
                }
                if to == flow {
                    break;
                }
            }
        }
        for flow in (0..owned).map(FlowId) {
            if self.flow_backlog(flow).packets == 0 {
                self.aqm.forget(flow);
            }
            self.loosen(flow, &mut loose);
        }
        while let Some(packet) = self.first_of(loose) {
            let (to, _) = home(&mut self.scheduler, &mut self.directory, packet);
            self.settle(&mut loose, if to.0 < flows { to } else { FlowId(0) });
        }
    }

    fn head(&self, flow: FlowId) -> Option<Packet> {
        self.first_of(*self.queues.as_ref().get(flow.index())?)
    }

    fn first_of(&self, queue: Queue) -> Option<Packet> {
        let handle = queue.head();
        self.descriptors.as_ref().get(handle as usize).map(|descriptor| descriptor.packet(handle))
    }

    /// Swaps the contents of two queues, and their AQM states.
    fn swap(&mut self, flow: FlowId, other: FlowId) {
        let queues = self.queues.as_mut();
        let (Some(&of_flow), Some(&of_other)) =
            (queues.get(flow.index()), queues.get(other.index()))
        else {
            return;
        };
        for (to, queue) in [(flow, of_other), (other, of_flow)] {
            if let Some(place) = queues.get_mut(to.index()) {
                *place = queue;
            }
        }
        self.aqm.swap(flow, other);
    }

    /// Moves the packets of `flow` to the tail of `loose`.
    fn loosen(&mut self, flow: FlowId, loose: &mut Queue) {
        if let Some(queue) = self.queues.as_mut().get_mut(flow.index()) {
            let taken = core::mem::replace(queue, Queue::IDLE);
            loose.append_all(self.descriptors.as_mut(), taken);
        }
    }

    /// Moves the oldest packet of `loose` to the tail of `flow`'s queue.
    fn settle(&mut self, loose: &mut Queue, flow: FlowId) {
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else { return };
        let Some(len) = loose.move_head(self.descriptors.as_mut(), queue) else { return };
        let held = queue.backlog().bytes;
        if held == len {
            self.tell_backlogged(flow, len);
        } else {
            self.scheduler.grew(flow, len);
            self.policy.grew(flow, len, held);
        }
    }
}

#[cfg(test)]
mod tests;
