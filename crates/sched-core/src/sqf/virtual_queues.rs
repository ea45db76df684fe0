//! The scheduler of the paper: many flows share a fixed number of virtual queues.
//!
//! Flows carry labels from a range as large as the caller likes. A flow that becomes backlogged takes
//! a free virtual queue, or the default queue if none is free; it stays there until its last packet
//! has left, so that its packets are never reordered. All queues, the default one included, are served
//! shortest first, and the longest gives way on overflow.
//!
//! Flows that share the default queue share its length too: while more flows are backlogged than there
//! are virtual queues, the smooth flow among the late ones waits behind the bulk of the others.
//!
//! Cost: O(log queues) per packet; whether a flow gets a virtual queue is one look at a stack. Memory:
//! 40 bytes a queue, 12 a label, 20 a packet. Source: SQF §2.

use super::{ShortestFlow, ShortestQueue};
use crate::counters::{Counters, FlowRecord};
use crate::flow_queues::FlowQueues;
use crate::order::{ConfigError, DropFrom, FlowScheduler, Table};
use crate::queue::{NONE, Queue, Slot};
use crate::scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{FlowId, Nanos, Packet};

/// Virtual queues of the deployed scheduler (SQF §2). The default queue comes on top.
pub const VIRTUAL_QUEUES: usize = 128;

/// Room for one label: 12 bytes.
#[derive(Clone, Copy, Debug)]
pub struct SqfFlow {
    /// The queue that its packets are in, stale while it has none; [`NONE`] if and only if the flow
    /// was not added.
    queue: u32,
    held: Backlog,
}

impl SqfFlow {
    /// A flow that was not added.
    pub const EMPTY: Self = Self { queue: NONE, held: Backlog { packets: 0, bytes: 0 } };

    const fn is_added(&self) -> bool {
        self.queue != NONE
    }
}

impl Default for SqfFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The tables of an [`Sqf`]; what they contain does not matter.
#[derive(Clone, Debug)]
pub struct SqfMemory<N, Q, S, F, L, V, R> {
    /// One for each virtual queue, and one for the default queue.
    pub order: N,
    /// As long as `order`.
    pub queues: Q,
    /// One for each handle.
    pub slots: S,
    /// One for each label.
    pub flows: F,
    /// One for each handle: whose packet it is.
    pub labels: L,
    /// One for each virtual queue, or more.
    pub free: V,
    /// Statistics of the flows with the lowest labels, as many as there is room for.
    pub records: R,
}

/// [`SqfMemory`] in arrays: `FLOWS` labels, `PACKETS` handles, and `QUEUES` queues of which the last is
/// the default queue.
pub type SqfArrays<
    const FLOWS: usize,
    const PACKETS: usize,
    const QUEUES: usize = { VIRTUAL_QUEUES + 1 },
> = SqfMemory<
    [ShortestFlow; QUEUES],
    [Queue; QUEUES],
    [Slot; PACKETS],
    [SqfFlow; FLOWS],
    [u32; PACKETS],
    [u32; QUEUES],
    [FlowRecord; 0],
>;

impl<const FLOWS: usize, const PACKETS: usize, const QUEUES: usize>
    SqfArrays<FLOWS, PACKETS, QUEUES>
{
    /// Room without statistics of single flows.
    pub const EMPTY: Self = Self {
        order: [ShortestFlow::EMPTY; QUEUES],
        queues: [Queue::EMPTY; QUEUES],
        slots: [Slot::EMPTY; PACKETS],
        flows: [SqfFlow::EMPTY; FLOWS],
        labels: [0; PACKETS],
        free: [0; QUEUES],
        records: [],
    };
}

/// Shortest queue first over virtual queues and a default queue, with longest-queue drop.
///
/// ```
/// use sched_core::{DropFrom, FlowId, Limits, Nanos, Packet, Scheduler, Sqf, SqfArrays};
///
/// // 1,000 labels over the 128 virtual queues of the paper; at most 64 packets.
/// let memory = SqfArrays::<1_000, 64>::EMPTY;
/// let mut sqf = Sqf::new(memory, DropFrom::Head, Limits::packets(50))?;
/// let (bulk, call) = (FlowId(17), FlowId(801));
/// sqf.add_flow(bulk)?;
/// sqf.add_flow(call)?;
/// let drops = &mut |packet: Packet, reason| panic!("{packet:?}: {reason:?}");
/// for handle in 0..10 {
///     sqf.enqueue(Nanos(0), bulk, Packet::new(handle, 1_500), drops).unwrap();
/// }
/// sqf.enqueue(Nanos(0), call, Packet::new(10, 200), drops).unwrap();
/// assert_eq!(sqf.dequeue(Nanos(0), drops), Some(Packet::new(10, 200)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sqf<N, Q, S, F, L, V, R> {
    engine: FlowQueues<ShortestQueue<N>, Q, S>,
    labels: Labels<F, L, V, R>,
}

/// Whose packet is where.
#[derive(Clone, Debug)]
struct Labels<F, L, V, R> {
    flows: F,
    /// `of[handle]`: stale unless the handle is queued.
    of: L,
    /// Its first `free_len` elements are the virtual queues that are empty, the one taken next last.
    free: V,
    free_len: u32,
    records: R,
    /// The queue behind the virtual queues.
    default: u32,
}

impl<F: Table<SqfFlow>, L: Table<u32>, V: Table<u32>, R: Table<FlowRecord>> Labels<F, L, V, R> {
    fn flow(&self, flow: FlowId) -> Option<&SqfFlow> {
        self.flows.as_ref().get(flow.index()).filter(|entry| entry.is_added())
    }

    fn is_label(&self, handle: u32, flow: FlowId) -> bool {
        self.of.as_ref().get(handle as usize) == Some(&flow.0)
    }

    /// Books `len` bytes more for `flow` and says into which queue; `None` if it was not added.
    fn admit(&mut self, flow: FlowId, len: u32) -> Option<FlowId> {
        let entry = self.flows.as_mut().get_mut(flow.index()).filter(|entry| entry.is_added())?;
        if entry.held.packets == 0 {
            entry.queue = self.default;
            if let Some(top) = self.free_len.checked_sub(1)
                && let Some(&queue) = self.free.as_ref().get(top as usize)
            {
                entry.queue = queue;
                self.free_len = top;
            }
        }
        // A length that will be rejected can wrap the bytes; `release` wraps them back.
        entry.held.add(len);
        Some(FlowId(entry.queue))
    }

    /// Books `len` bytes less for `flow`; an emptied virtual queue is free.
    fn release(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.flows.as_mut().get_mut(flow.index()) else { return };
        entry.held.sub(len);
        if entry.held.packets == 0 && entry.queue != self.default {
            if let Some(place) = self.free.as_mut().get_mut(self.free_len as usize) {
                *place = entry.queue;
            }
            self.free_len = self.free_len.wrapping_add(1);
        }
    }

    /// A packet has left the engine.
    fn left(&mut self, packet: Packet) -> FlowId {
        let flow =
            self.of.as_ref().get(packet.handle as usize).copied().map_or(FlowId(NONE), FlowId);
        self.release(flow, packet.len);
        flow
    }
}

/// Sees every packet that the engine drops before the caller does.
struct Departures<'a, F, L, V, R> {
    labels: &'a mut Labels<F, L, V, R>,
    drops: &'a mut dyn DropSink,
}

impl<F: Table<SqfFlow>, L: Table<u32>, V: Table<u32>, R: Table<FlowRecord>> DropSink
    for Departures<'_, F, L, V, R>
{
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        let flow = self.labels.left(packet);
        if let Some(record) = self.labels.records.as_mut().get_mut(flow.index()) {
            record.drop(packet.len, reason);
        }
        self.drops.dropped(packet, reason);
    }
}

impl<N, Q, S, F, L, V, R> Sqf<N, Q, S, F, L, V, R>
where
    N: Table<ShortestFlow>,
    Q: Table<Queue>,
    S: Table<Slot>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
{
    /// A scheduler in `memory`, without flows; packets give way at the end `drop_from`.
    ///
    /// Cost: O(memory).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there is no queue, or if a table is too short for another.
    pub fn new(
        memory: SqfMemory<N, Q, S, F, L, V, R>,
        drop_from: DropFrom,
        limits: Limits,
    ) -> Result<Self, ConfigError> {
        let SqfMemory { order, queues, slots, mut flows, labels, mut free, mut records } = memory;
        let count = queues.as_ref().len() as u64;
        // Numbers of queues fit `u32`, and `NONE` is not one.
        check("queues", count, 1, u32::MAX.into())?;
        check("order of queues", order.as_ref().len() as u64, count, count)?;
        check("stack of free queues", free.as_ref().len() as u64, count.wrapping_sub(1), u64::MAX)?;
        check("labels", labels.as_ref().len() as u64, slots.as_ref().len() as u64, u64::MAX)?;
        flows.as_mut().fill(SqfFlow::EMPTY);
        records.as_mut().fill(FlowRecord::EMPTY);
        let order = ShortestQueue::new(order).drop_from(drop_from);
        let default = order.flows().wrapping_sub(1);
        for (queue, place) in (0..default).rev().zip(free.as_mut()) {
            *place = queue;
        }
        let mut engine = FlowQueues::new(order, queues, slots, limits);
        for queue in 0..=default {
            engine.configure(FlowId(queue), ())?;
        }
        let labels = Labels { flows, of: labels, free, free_len: default, records, default };
        Ok(Self { engine, labels })
    }

    /// Adds `flow`. Twice is once.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] if there is no room for that label.
    pub fn add_flow(&mut self, flow: FlowId) -> Result<(), ConfigError> {
        let flows = self.flows();
        match self.labels.flows.as_mut().get_mut(flow.index()) {
            None => Err(ConfigError::UnknownFlow { flow, flows }),
            Some(entry) => {
                if !entry.is_added() {
                    entry.queue = self.labels.default;
                }
                Ok(())
            }
        }
    }

    /// Removes `flow`; its packets go to `drops`. Twice is once. Cost: O(packets of its queue), which
    /// for the default queue are not all its own.
    pub fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        let Some(&SqfFlow { queue, held }) = self.labels.flow(flow) else { return };
        let (queue, mut before, mut left) = (FlowId(queue), NONE, held.packets);
        while left > 0
            && let Some(handle) = self.engine.after(queue, before)
        {
            if !self.labels.is_label(handle, flow) {
                before = handle;
                continue;
            }
            let sink = &mut Departures { labels: &mut self.labels, drops: &mut *drops };
            self.engine.drop_after(queue, before, DropReason::FlowRemoved, sink);
            left = left.wrapping_sub(1);
        }
        if let Some(entry) = self.labels.flows.as_mut().get_mut(flow.index()) {
            *entry = SqfFlow::EMPTY;
        }
    }

    /// Whether `flow` was added.
    #[must_use]
    pub fn has_flow(&self, flow: FlowId) -> bool {
        self.labels.flow(flow).is_some()
    }

    /// What `flow` holds; nothing if it was not added.
    #[must_use]
    pub fn flow_backlog(&self, flow: FlowId) -> Backlog {
        self.labels.flow(flow).map(|entry| entry.held).unwrap_or_default()
    }

    /// Where the packets of `flow` are, if it is backlogged: a virtual queue or the default queue.
    #[must_use]
    pub fn queue_of(&self, flow: FlowId) -> Option<FlowId> {
        let entry = self.labels.flow(flow).filter(|entry| entry.held.packets > 0)?;
        Some(FlowId(entry.queue))
    }

    /// The number of the default queue; the virtual queues are numbered below it.
    #[must_use]
    pub const fn default_queue(&self) -> FlowId {
        FlowId(self.labels.default)
    }

    fn flows(&self) -> u32 {
        u32::try_from(self.labels.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Counts the packets and bytes of `flow` in `queue`. O(packets of the queue).
    fn counted(&self, queue: FlowId, flow: FlowId) -> Backlog {
        let (mut before, mut found) = (NONE, Backlog::default());
        while let Some(handle) = self.engine.after(queue, before) {
            if self.labels.is_label(handle, flow) {
                found.add(self.engine.len_of(handle));
            }
            before = handle;
        }
        found
    }
}

fn check(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { what, value, min, max })
}

impl<N, Q, S, F, L, V, R> Scheduler for Sqf<N, Q, S, F, L, V, R>
where
    N: Table<ShortestFlow>,
    Q: Table<Queue>,
    S: Table<Slot>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
{
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        // Booked before the engine makes room, so that a flow whose older packets give way to its own
        // arrival keeps its queue.
        let Some(queue) = self.labels.admit(flow, packet.len) else {
            self.engine.count_rejected(packet);
            let reason = RejectReason::UnknownFlow { flow, flows: self.flows() };
            return Err(Rejected { packet, reason });
        };
        let sink = &mut Departures { labels: &mut self.labels, drops };
        let result = self.engine.enqueue(now, queue, packet, sink);
        if result.is_err() {
            self.labels.release(flow, packet.len);
        } else if let Some(label) = self.labels.of.as_mut().get_mut(packet.handle as usize) {
            *label = flow.0;
        }
        if let Some(record) = self.labels.records.as_mut().get_mut(flow.index()) {
            match result {
                Ok(()) => {
                    let held = self.labels.flows.as_ref().get(flow.index()).map(|entry| entry.held);
                    record.accept(packet.len, held.unwrap_or_default());
                }
                Err(_) => record.rejected.add(packet.len),
            }
        }
        result
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let sink = &mut Departures { labels: &mut self.labels, drops };
        let packet = self.engine.dequeue(now, sink)?;
        self.labels.left(packet);
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.engine.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.engine.poll_at(now)
    }

    fn backlog(&self) -> Backlog {
        self.engine.backlog()
    }

    fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// By label, recorded for as many as there is room for; kept while a flow is removed and added
    /// again.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let record = self.labels.records.as_ref().get(flow.index())?;
        Some(record.counters(self.flow_backlog(flow)))
    }

    fn limits(&self) -> Limits {
        self.engine.limits()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.engine.set_limits(limits, &mut Departures { labels: &mut self.labels, drops });
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.engine.drain(&mut Departures { labels: &mut self.labels, drops });
    }

    /// O(slots + queues² + labels + backlogged flows · packets of the default queue).
    fn recount(&self) -> Result<(), Imbalance> {
        self.engine.recount()?;
        let default = self.labels.default;
        let mut packets = 0_u64;
        for (at, entry) in (0..).zip(self.labels.flows.as_ref()) {
            packets = packets.wrapping_add(entry.held.packets.into());
            if entry.held == Backlog::default() {
                continue;
            }
            let flow = FlowId(at);
            Imbalance::check("a backlogged label was added", at, 1, entry.is_added().into())?;
            let found = self.counted(FlowId(entry.queue), flow);
            let (held, queue) = (entry.held, FlowId(entry.queue));
            Imbalance::check("packets of a label", at, held.packets.into(), found.packets.into())?;
            Imbalance::check("bytes of a label", at, held.bytes.into(), found.bytes.into())?;
            let alone = entry.queue == default || self.engine.flow_backlog(queue) == found;
            Imbalance::check("a virtual queue has one label", at, 1, alone.into())?;
        }
        // Every label's packets are in its queue, and there are no others: so each backlogged label is
        // in exactly one queue.
        Imbalance::check(
            "packets of all labels",
            0,
            packets,
            self.engine.backlog().packets.into(),
        )?;
        let free = self.labels.free.as_ref().get(..self.labels.free_len as usize);
        let free = free.unwrap_or_default();
        Imbalance::check("free virtual queues", 0, self.labels.free_len.into(), free.len() as u64)?;
        for queue in 0..default {
            let booked = free.iter().filter(|&&other| other == queue).count() as u64;
            let empty = self.engine.flow_backlog(FlowId(queue)) == Backlog::default();
            Imbalance::check("free once if and only if empty", queue, booked, empty.into())?;
        }
        let virtual_ones = free.iter().filter(|&&queue| queue < default).count() as u64;
        Imbalance::check("only virtual queues are free", 0, free.len() as u64, virtual_ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Volume;
    use std::collections::VecDeque;
    use std::vec::Vec;

    type Small = Sqf<
        [ShortestFlow; 3],
        [Queue; 3],
        [Slot; 16],
        [SqfFlow; 5],
        [u32; 16],
        [u32; 3],
        [FlowRecord; 5],
    >;

    /// Two virtual queues and the default queue, five labels.
    fn small(drop_from: DropFrom, limits: Limits) -> Small {
        let SqfMemory { order, queues, slots, flows, labels, free, .. } =
            SqfArrays::<5, 16, 3>::EMPTY;
        let records = [FlowRecord::EMPTY; 5];
        let memory = SqfMemory { order, queues, slots, flows, labels, free, records };
        let mut sqf = Sqf::new(memory, drop_from, limits).unwrap();
        for flow in 0..5 {
            sqf.add_flow(FlowId(flow)).unwrap();
        }
        sqf
    }

    /// Enqueues `(flow, length)` with handles from `first` on; returns the handles dropped meanwhile.
    fn fill(sqf: &mut Small, first: u32, packets: &[(u32, u32)]) -> Vec<u32> {
        let mut dropped = Vec::new();
        for (handle, &(flow, len)) in (first..).zip(packets) {
            let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
            sqf.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, len), sink).unwrap();
            assert_eq!(sqf.recount(), Ok(()));
        }
        dropped
    }

    fn next(sqf: &mut Small) -> Option<u32> {
        let foreseen = sqf.peek(Nanos(0));
        let packet = sqf.dequeue(Nanos(0), &mut |_, _| panic!("nothing is dropped here"));
        assert_eq!(packet, foreseen);
        assert_eq!(sqf.recount(), Ok(()));
        packet.map(|packet| packet.handle)
    }

    fn places(sqf: &Small) -> Vec<Option<u32>> {
        (0..5).map(|flow| sqf.queue_of(FlowId(flow)).map(|queue| queue.0)).collect()
    }

    /// Flows 3 and 0 take virtual queues 0 and 1, flows 1 and 2 meet in the default queue, which holds
    /// 300 + 100 bytes; flow 2 alone would have been first.
    #[test]
    fn a_flow_too_many_goes_to_the_default_queue_and_waits_behind_its_length() {
        let mut sqf = small(DropFrom::Head, Limits::NONE);
        fill(&mut sqf, 0, &[(3, 350), (0, 200), (1, 300), (2, 100)]);
        assert_eq!(places(&sqf), [Some(1), Some(2), Some(2), Some(0), None]);
        let order: Vec<_> = core::iter::from_fn(|| next(&mut sqf)).collect();
        assert_eq!(order, [1, 0, 2, 3]);
    }

    /// Flow 2 enters the default queue; then a virtual queue becomes free, and its next packets still
    /// go behind its first. Once empty, it takes the virtual queue that was freed last.
    #[test]
    fn a_flow_leaves_the_default_queue_with_its_last_packet() {
        let mut sqf = small(DropFrom::Head, Limits::NONE);
        fill(&mut sqf, 0, &[(0, 100), (1, 200), (2, 900)]);
        assert_eq!((next(&mut sqf), next(&mut sqf)), (Some(0), Some(1)));
        fill(&mut sqf, 3, &[(2, 50)]);
        assert_eq!(places(&sqf), [None, None, Some(2), None, None]);
        assert_eq!((next(&mut sqf), next(&mut sqf)), (Some(2), Some(3)));
        fill(&mut sqf, 4, &[(2, 50), (4, 50)]);
        assert_eq!(places(&sqf), [None, None, Some(1), None, Some(0)]);
    }

    /// Goal: a removed flow gives back its packets from among others', and only those.
    /// Method: the default queue holds flows 2, 3, 2, 4, 2, 3 in this order; flows 0 and 1 fill the
    /// virtual queues.
    #[test]
    fn a_flow_is_removed_out_of_the_middle_of_the_default_queue() {
        let mut sqf = small(DropFrom::Head, Limits::NONE);
        let arrivals = [(0, 1), (1, 1), (2, 10), (3, 10), (2, 20), (4, 10), (2, 30), (3, 20)];
        fill(&mut sqf, 0, &arrivals);
        let mut dropped = Vec::new();
        let sink = &mut |packet: Packet, reason| dropped.push((packet.handle, reason));
        sqf.remove_flow(FlowId(2), sink);
        sqf.remove_flow(FlowId(2), sink);
        assert_eq!(sqf.recount(), Ok(()));
        sqf.remove_flow(FlowId(0), sink);
        assert_eq!(sqf.recount(), Ok(()));
        let removed = DropReason::FlowRemoved;
        assert_eq!(dropped, [(2, removed), (4, removed), (6, removed), (0, removed)]);
        let packet = Packet::new(2, 10);
        let reason = RejectReason::UnknownFlow { flow: FlowId(2), flows: 5 };
        let rejected = sqf.enqueue(Nanos(0), FlowId(2), packet, &mut |_, _| {});
        assert_eq!(rejected, Err(Rejected { packet, reason }));
        sqf.add_flow(FlowId(2)).unwrap();
        fill(&mut sqf, 8, &[(2, 41), (3, 30)]);
        assert_eq!(places(&sqf), [None, Some(1), Some(0), Some(2), Some(2)]);
        let order: Vec<_> = core::iter::from_fn(|| next(&mut sqf)).collect();
        assert_eq!(order, [1, 8, 3, 5, 7, 9]);
    }

    /// Flow 0 holds 300 bytes in a virtual queue, the default queue 150 of flow 2 and 250 of flow 3.
    /// An arrival of 100 into room for 800 makes the default queue give way: at the head that is flow
    /// 2, which is idle then, at the tail flow 3's last packet.
    #[test]
    fn the_default_queue_gives_way_as_one() {
        let filled = [(0, 300), (1, 50), (2, 150), (3, 150), (3, 100)];
        for (end, dropped, left) in [(DropFrom::Head, 2, [0, 250]), (DropFrom::Tail, 4, [150, 150])]
        {
            let mut sqf = small(end, Limits::bytes(800));
            assert_eq!(fill(&mut sqf, 0, &filled), []);
            assert_eq!(fill(&mut sqf, 5, &[(1, 100)]), [dropped], "{end:?}");
            assert_eq!([2, 3].map(|flow| sqf.flow_backlog(FlowId(flow)).bytes), left);
        }
    }

    /// A flow whose only packet gives way to its own arrival keeps its virtual queue; a flow whose
    /// only packet is rejected gives it back.
    #[test]
    fn making_room_neither_loses_nor_doubles_a_virtual_queue() {
        let mut sqf = small(DropFrom::Head, Limits::bytes(1_000));
        fill(&mut sqf, 0, &[(0, 600)]);
        assert_eq!(fill(&mut sqf, 1, &[(0, 500)]), [0]);
        assert_eq!(places(&sqf), [Some(0), None, None, None, None]);
        let packet = Packet::new(2, 501);
        let rejected = sqf.enqueue(Nanos(0), FlowId(1), packet, &mut |_, _| panic!("no victim"));
        let reason = RejectReason::Full { limits: Limits::bytes(1_000) };
        assert_eq!(rejected, Err(Rejected { packet, reason }));
        assert_eq!(sqf.recount(), Ok(()));
        fill(&mut sqf, 3, &[(2, 10), (3, 10)]);
        assert_eq!(places(&sqf), [Some(0), None, Some(1), Some(2), None]);
    }

    #[test]
    fn statistics_are_kept_by_label() {
        let mut sqf = small(DropFrom::Head, Limits::packets(4));
        fill(&mut sqf, 0, &[(0, 10), (1, 20), (2, 30), (3, 40), (2, 50)]);
        // The default queue held 120 bytes of flows 2 and 3 when it gave way at its head.
        let counters = sqf.flow_counters(FlowId(2)).unwrap();
        assert_eq!(counters.accepted, Volume { packets: 2, bytes: 80 });
        assert_eq!(counters.dropped_for(DropReason::Overflow), Volume { packets: 1, bytes: 30 });
        assert_eq!(counters.peak, Backlog { packets: 1, bytes: 50 });
        assert_eq!(next(&mut sqf), Some(0));
        sqf.set_limits(Limits::packets(1), &mut |_, _| {});
        sqf.drain(&mut |_, _| {});
        assert_eq!(sqf.recount(), Ok(()));
        let sum = (0..5).map(|flow| sqf.flow_counters(FlowId(flow)).unwrap()).fold(
            Counters::default(),
            |mut sum, flow| {
                sum.accepted = sum.accepted.plus(flow.accepted);
                sum.delivered = sum.delivered.plus(flow.delivered);
                for (sum, volume) in sum.dropped.iter_mut().zip(flow.dropped) {
                    *sum = sum.plus(volume);
                }
                sum
            },
        );
        let peak = sqf.counters().peak;
        assert_eq!(Counters { peak, ..sum }, sqf.counters());
    }

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let fits = SqfArrays::<4, 8, 3>::EMPTY;
        let refused =
            |memory: SqfMemory<Vec<ShortestFlow>, Vec<Queue>, _, _, Vec<u32>, Vec<u32>, _>| {
                Sqf::new(memory, DropFrom::Head, Limits::NONE).err()
            };
        let memory = |order, queues, labels, free| SqfMemory {
            order: std::vec![ShortestFlow::EMPTY; order],
            queues: std::vec![Queue::EMPTY; queues],
            slots: fits.slots,
            flows: fits.flows,
            labels: std::vec![0; labels],
            free: std::vec![0; free],
            records: fits.records,
        };
        let error = |what, value, min, max| Some(ConfigError::OutOfRange { what, value, min, max });
        assert_eq!(refused(memory(3, 3, 8, 2)), None);
        assert_eq!(refused(memory(0, 0, 8, 2)), error("queues", 0, 1, u32::MAX.into()));
        assert_eq!(refused(memory(2, 3, 8, 2)), error("order of queues", 2, 3, 3));
        assert_eq!(refused(memory(3, 3, 7, 2)), error("labels", 7, 8, u64::MAX));
        assert_eq!(refused(memory(3, 3, 8, 1)), error("stack of free queues", 1, 2, u64::MAX));
    }

    /// Goal: no packet is lost, doubled or reordered within its flow, a backlogged flow stays where it
    /// is, and only a flow that finds no virtual queue free goes to the default queue.
    /// Method: 100,000 random operations, with a queue of handles for each label beside them. With head
    /// drop a packet leaves its flow in order whatever the reason.
    #[test]
    fn a_flow_keeps_its_queue_and_its_order_whatever_happens() {
        let mut sqf = small(DropFrom::Head, Limits { packets: 12, bytes: 4_000 });
        let mut held: [VecDeque<u32>; 5] = Default::default();
        let mut free: Vec<u32> = (0..16).collect();
        let mut seed = 1_u32;
        for step in 0..100_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let flow = FlowId((seed >> 8) % 5);
            let before = places(&sqf);
            let mut left = Vec::new();
            let mut arrival = None;
            let sink = &mut |packet: Packet, _| left.push(packet.handle);
            match seed >> 27 {
                0..16 => {
                    let packet = Packet::new(free.pop().unwrap(), 1 + (seed >> 13) % 6 * 99);
                    match sqf.enqueue(Nanos(0), flow, packet, sink) {
                        Ok(()) => arrival = Some(packet.handle),
                        Err(rejected) => free.push(rejected.packet.handle),
                    }
                }
                16..29 => {
                    let packet = sqf.dequeue(Nanos(0), sink);
                    left.extend(packet.map(|packet| packet.handle));
                }
                29 => sqf.add_flow(flow).unwrap(),
                30 => sqf.remove_flow(flow, sink),
                _ => {
                    let limits = sqf.limits();
                    sqf.set_limits(Limits::packets((seed >> 13) % 12), sink);
                    sqf.set_limits(limits, sink);
                }
            }
            held[flow.index()].extend(arrival);
            for handle in left {
                let owner = held.iter_mut().find(|queue| queue.front() == Some(&handle));
                owner.unwrap_or_else(|| panic!("{handle} out of order, step {step}")).pop_front();
                free.push(handle);
            }
            for (at, (&before, &after)) in before.iter().zip(&places(&sqf)).enumerate() {
                assert_eq!(after.is_some(), !held[at].is_empty(), "step {step}");
                assert!(before.is_none() || after.is_none() || before == after, "step {step}");
            }
            if arrival.is_some() && before[flow.index()].is_none() {
                let taken = before.iter().filter(|queue| queue.is_some_and(|q| q < 2)).count();
                assert_eq!(sqf.queue_of(flow) == Some(FlowId(2)), taken == 2, "step {step}");
            }
            assert_eq!(sqf.recount(), Ok(()), "step {step}");
        }
    }

    #[test]
    fn broken_books_are_noticed() {
        let broken = |break_it: fn(&mut Small)| {
            let mut sqf = small(DropFrom::Head, Limits::NONE);
            fill(&mut sqf, 0, &[(0, 10), (2, 20), (3, 30), (1, 40)]);
            next(&mut sqf);
            break_it(&mut sqf);
            sqf.recount().unwrap_err().what
        };
        assert_eq!(broken(|sqf| sqf.labels.flows[2].held.packets = 2), "packets of a label");
        assert_eq!(broken(|sqf| sqf.labels.flows[3].held.bytes = 31), "bytes of a label");
        assert_eq!(broken(|sqf| sqf.labels.flows[3].queue = 0), "packets of a label");
        assert_eq!(broken(|sqf| sqf.labels.of[3] = 3), "packets of a label");
        assert_eq!(broken(|sqf| sqf.labels.free_len = 0), "free once if and only if empty");
        assert_eq!(broken(|sqf| sqf.labels.free_len = 4), "free virtual queues");
        assert_eq!(broken(|sqf| sqf.labels.free[0] = 1), "free once if and only if empty");
        let twice: fn(&mut Small) = |sqf| {
            sqf.labels.free = [0, 0, 0];
            sqf.labels.free_len = 2;
        };
        assert_eq!(broken(twice), "free once if and only if empty");
    }
}
