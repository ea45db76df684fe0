//! Virtual queues as in the paper on SQF in an ADSL gateway, §2: one for each flow with packets in
//! the buffer, up to a number of them, and a default queue for all other flows.

use core::fmt;
use std::collections::HashMap;

use freeboard::flowhash::{FlowKey, SipHash13};
use freeboard::sched_core::{
    Books, ConfigError, DropReason, DropSink, FlowId, Imbalance, Limits, Nanos, Packet,
    RejectReason, Rejected, Scheduler,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

use super::{Bottleneck, UserFlows, line_and_overhead};

/// Queues for flows by key: `count` virtual queues, and a default queue after them.
///
/// A flow gets a free virtual queue when a packet of it arrives while none is queued. If all are
/// taken, the packet goes to the default queue, and so do its next ones until the flow has no
/// packet queued: a flow is never in two queues, which would reorder it. The paper leaves this
/// open.
pub struct VirtualQueues {
    queues: Box<dyn Scheduler>,
    flows: Flows,
    placements: HashMap<FlowKey, Placement>,
}

/// Numbers of packets of a flow that were accepted into each kind of queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Packets in a virtual queue of the flow's own.
    pub own: u64,
    /// Packets in the default queue.
    pub default: u64,
}

/// Flows with packets queued, and the queues that none has.
struct Flows {
    count: u32,
    free: Vec<FlowId>,
    active: HashMap<FlowKey, Active>,
    /// Flow of each queued packet, by handle.
    owners: Vec<Option<FlowKey>>,
}

#[derive(Clone, Copy)]
struct Active {
    queue: FlowId,
    packets: u32,
}

impl Flows {
    /// Counts an arriving packet, and returns its queue.
    fn arrive(&mut self, key: &FlowKey, packet: Packet) -> FlowId {
        let default = FlowId(self.count);
        let free = &mut self.free;
        let flow = self
            .active
            .entry(*key)
            .or_insert_with(|| Active { queue: free.pop().unwrap_or(default), packets: 0 });
        flow.packets += 1;
        if let Some(owner) = self.owners.get_mut(packet.handle as usize) {
            *owner = Some(*key);
        }
        flow.queue
    }

    /// Counts a packet that is no longer queued.
    fn leave(&mut self, packet: Packet) {
        let owner = self.owners.get_mut(packet.handle as usize).and_then(Option::take);
        let Some(key) = owner else { return };
        let Some(flow) = self.active.get_mut(&key) else { return };
        flow.packets -= 1;
        if flow.packets == 0 {
            let queue = flow.queue;
            self.active.remove(&key);
            if queue.0 < self.count {
                self.free.push(queue);
            }
        }
    }
}

/// Takes note of dropped packets.
struct Noted<'a> {
    flows: &'a mut Flows,
    drops: &'a mut dyn DropSink,
}

impl DropSink for Noted<'_> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self.flows.leave(packet);
        self.drops.dropped(packet, reason);
    }
}

impl fmt::Debug for VirtualQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualQueues")
            .field("count", &self.flows.count)
            .field("active", &self.flows.active.len())
            .finish_non_exhaustive()
    }
}

impl VirtualQueues {
    /// Creates `count` virtual queues and a default queue with this scheduling, in front of `line`.
    /// On overflow, packets are dropped from the longest queue.
    ///
    /// Handles are numbered up to `limits.packets`, inclusively.
    ///
    /// # Errors
    /// [`ConfigError`] if the scheduling does not accept packets of `max_len` bytes.
    pub fn behind(
        scheduling: UserFlows,
        count: u32,
        line: Shaper,
        limits: Limits,
        max_len: u32,
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let queues = Self::new(scheduling, count, limits, max_len)?;
        Ok(Box::new(Shaped::new(queues, line, Overhead::RAW)))
    }

    fn new(
        scheduling: UserFlows,
        count: u32,
        limits: Limits,
        max_len: u32,
    ) -> Result<Self, ConfigError> {
        let room = super::descriptors(limits);
        let owners = vec![None; room.len()];
        let free = (0..count).rev().map(FlowId).collect();
        Ok(Self {
            queues: scheduling.queues(count + 1, max_len, room, limits)?,
            flows: Flows { count, free, active: HashMap::new(), owners },
            placements: HashMap::new(),
        })
    }

    fn arrive(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Self { queues, flows, placements } = self;
        let queue = flows.arrive(key, packet);
        let entered = queues.enqueue(now, queue, packet, &mut Noted { flows, drops });
        match entered {
            Ok(()) if queue.0 < flows.count => placements.entry(*key).or_default().own += 1,
            Ok(()) => placements.entry(*key).or_default().default += 1,
            Err(_) => flows.leave(packet),
        }
        entered
    }
}

impl Scheduler for VirtualQueues {
    /// Rejects the packet: flows are identified by their keys.
    fn enqueue(
        &mut self,
        _now: Nanos,
        flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        Err(Rejected { packet, reason: RejectReason::UnknownFlow { flow, flows: 0 } })
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let Self { queues, flows, .. } = self;
        let packet = queues.dequeue(now, &mut Noted { flows, drops })?;
        flows.leave(packet);
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.queues.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queues.poll_at(now)
    }

    fn books(&self) -> Books {
        self.queues.books()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        let Self { queues, flows, .. } = self;
        queues.set_limits(limits, &mut Noted { flows, drops });
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let Self { queues, flows, .. } = self;
        queues.evict(&mut Noted { flows, drops })
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        let Self { queues, flows, .. } = self;
        queues.drain(&mut Noted { flows, drops });
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.queues.recount()?;
        let queued = self.flows.active.values().map(|flow| u64::from(flow.packets)).sum();
        Imbalance::check("packets of flows", 0, self.backlog().packets.into(), queued)?;
        let taken = self.flows.active.values().filter(|flow| flow.queue.0 < self.flows.count);
        let taken = taken.count() + self.flows.free.len();
        Imbalance::check("virtual queues", 0, self.flows.count.into(), taken as u64)
    }
}

impl Bottleneck for Shaped<VirtualQueues> {
    line_and_overhead!();

    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        _hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        Shaped::arrive(self, now, drops, |queues, drops| queues.arrive(now, key, packet, drops))
    }

    fn placement(&self, key: &FlowKey) -> Option<Placement> {
        Some(self.inner().placements.get(key).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::flowhash::Transport;

    fn key(number: u16) -> FlowKey {
        let transport = Transport { protocol: 17, src_port: number, dst_port: 9 };
        FlowKey::V4 { src: [0; 4], dst: [0; 4], transport }
    }

    /// A queue of so many virtual queues and packets under test, with what it dropped.
    struct Trial {
        queue: Box<dyn Bottleneck>,
        dropped: Vec<u32>,
    }

    impl Trial {
        fn of(scheduling: UserFlows, count: u32, packets: u32) -> Self {
            let (line, limits) = (Shaper::new(Rate::UNLIMITED), Limits::packets(packets));
            let queue = VirtualQueues::behind(scheduling, count, line, limits, 1_500).unwrap();
            Self { queue, dropped: Vec::new() }
        }

        /// Enqueues packets of a flow, a handle and a length.
        fn arrive<const N: usize>(&mut self, packets: [(u16, u32, u32); N]) {
            let hasher = SipHash13::new([0; 16]);
            let Self { queue, dropped } = self;
            for (flow, handle, len) in packets {
                let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
                let packet = Packet::new(handle, len);
                queue.enqueue_key(Nanos(0), &key(flow), &hasher, packet, sink).unwrap();
                assert_eq!(queue.recount(), Ok(()));
            }
        }

        fn send(&mut self, packets: usize) -> Vec<u32> {
            let Self { queue, dropped } = self;
            let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
            let sent = || queue.dequeue(Nanos(0), sink).map(|packet| packet.handle);
            let sent = core::iter::from_fn(sent).take(packets).collect();
            assert_eq!(queue.recount(), Ok(()));
            sent
        }

        fn placement(&self, flow: u16) -> (u64, u64) {
            let Placement { own, default } = self.queue.placement(&key(flow)).unwrap();
            (own, default)
        }
    }

    /// §2: the queue with the fewest bytes is served, not the one with the fewest packets.
    #[test]
    fn the_shortest_queue_counts_bytes() {
        let mut trial = Trial::of(UserFlows::Sqf, 4, 9);
        trial.arrive([(1, 0, 1_500), (2, 1, 100), (2, 2, 100), (2, 3, 100)]);
        assert_eq!(trial.send(9), [1, 2, 3, 0]);
    }

    /// §2: with N flows in the buffer, the next one is in the default queue, which is served by its
    /// length like the others. It stays there until it has no packet, also if a queue becomes free.
    #[test]
    fn the_flow_after_the_nth_is_in_the_default_queue() {
        let mut trial = Trial::of(UserFlows::Sqf, 2, 9);
        trial.arrive([(1, 0, 500), (2, 1, 600), (3, 2, 300), (4, 3, 400)]);
        assert_eq!(trial.send(1), [0], "the default queue has 700 bytes");
        trial.arrive([(3, 4, 100), (5, 5, 50)]);
        assert_eq!([3, 4, 5].map(|flow| trial.placement(flow)), [(0, 2), (0, 1), (1, 0)]);
        assert_eq!(trial.send(9), [5, 1, 2, 3, 4]);
        trial.arrive([(3, 6, 100)]);
        assert_eq!(trial.placement(3), (1, 2));
    }

    /// §2: an arrival to a full buffer removes packets from the longest queue, here the default
    /// queue, whose flows are then out of it.
    #[test]
    fn a_drop_from_the_longest_queue_makes_room() {
        let mut trial = Trial::of(UserFlows::Sqf, 1, 3);
        trial.arrive([(1, 0, 900), (2, 1, 500), (3, 2, 600), (1, 3, 100)]);
        assert_eq!(trial.dropped, [1]);
        assert_eq!(trial.send(9), [2, 0, 3]);
    }

    /// A round of DRR serves the default queue as one flow.
    #[test]
    fn in_turn_the_default_queue_is_one_flow() {
        let mut trial = Trial::of(UserFlows::Drr, 1, 9);
        trial.arrive([(1, 0, 1_500), (1, 1, 1_500), (2, 2, 1_500), (3, 3, 1_500)]);
        assert_eq!(trial.send(9), [0, 2, 1, 3]);
    }
}
