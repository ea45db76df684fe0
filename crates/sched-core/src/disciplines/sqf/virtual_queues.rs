//! The scheduler of the paper: many flows share a fixed number of virtual queues.
//!
//! Flows carry labels from a range as large as the caller likes. A flow that becomes backlogged takes
//! a free virtual queue, or the default queue if none is free; it stays there until its last packet
//! has left, so that its packets are never reordered. All queues, the default one included, are served
//! shortest first, and the longest gives way on overflow.
//!
//! Flows that share the default queue share its length too: while more flows are backlogged than there
//! are virtual queues, the smooth flow among the late ones waits behind the bulk of the others. With
//! [`Sqf::default_takes_longest`] it is the longest flow that goes there instead of the latest.
//!
//! Cost: O(1) per packet; whether a flow gets a virtual queue is one look at a stack. Memory: 36 bytes a queue, 52 with
//! an option, 12 a label, 20 a packet, and 3.7 KB of classes of length. Source: SQF §2; the options are ours.

mod labels;

use super::{FloorShare, ShortestQueue, WaitingFlow};
use crate::disciplines::length_index::LengthFlow;
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, Table};
use crate::queues::counters::{Counters, FlowRecord};
use crate::queues::flow_queues::FlowQueues;
use crate::queues::queue::{Descriptor, NONE, Queue};
use crate::scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{Ecn, FlowId, Nanos, Packet};
use labels::{Departures, Labels};

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
    /// Room for a label: all zero.
    pub const EMPTY: Self = Self { queue: 0, held: Backlog { packets: 0, bytes: 0 } };

    /// A flow that was not added.
    const ABSENT: Self = Self { queue: NONE, ..Self::EMPTY };

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
#[derive(Clone)]
pub struct SqfMemory<N, Q, S, F, L, V, R> {
    /// One for each virtual queue, and one for the default queue.
    pub scheduler: N,
    /// As long as `scheduler`.
    pub queues: Q,
    /// One for each handle.
    pub descriptors: S,
    /// One for each label.
    pub flows: F,
    /// One for each handle: whose packet it is.
    pub labels: L,
    /// One for each virtual queue, or more.
    pub free: V,
    /// Statistics of the flows with the lowest labels, as many as there is room for.
    pub records: R,
}

crate::debug::short_debug!(SqfMemory < N, Q, S, F, L, V, R > {});

/// [`SqfMemory`] in arrays: `FLOWS` labels, `PACKETS` handles, and `QUEUES` queues of which the last is
/// the default queue.
pub type SqfArrays<
    const FLOWS: usize,
    const PACKETS: usize,
    const QUEUES: usize = { VIRTUAL_QUEUES + 1 },
> = SqfMemory<
    [LengthFlow; QUEUES],
    [Queue; QUEUES],
    [Descriptor; PACKETS],
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
        scheduler: [LengthFlow::EMPTY; QUEUES],
        queues: [Queue::EMPTY; QUEUES],
        descriptors: [Descriptor::EMPTY; PACKETS],
        flows: [SqfFlow::EMPTY; FLOWS],
        labels: [0; PACKETS],
        free: [0; QUEUES],
        records: [],
    };
}

/// Shortest queue first over virtual queues and a default queue, with longest-queue drop; `W` is the memory
/// of the [service floor](Self::service_floor), if there is one.
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
#[derive(Clone)]
pub struct Sqf<N, Q, S, F, L, V, R, W = [WaitingFlow; 0]> {
    engine: FlowQueues<ShortestQueue<N, W>, Q, S>,
    labels: Labels<F, L, V, R>,
    /// Whether the default queue takes the longest flow, and not the latest.
    takes_longest: bool,
}

crate::debug::short_debug!(Sqf < N, Q, S, F, L, V, R, W > { engine });

impl<N, Q, S, F, L, V, R> Sqf<N, Q, S, F, L, V, R>
where
    N: Table<LengthFlow>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
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
        let SqfMemory { scheduler, queues, descriptors, mut flows, labels, mut free, mut records } =
            memory;
        let count = queues.as_ref().len() as u64;
        // Numbers of queues fit `u32`, and `NONE` is not one.
        check("queues", count, 1, u32::MAX.into())?;
        check("scheduler of queues", scheduler.as_ref().len() as u64, count, count)?;
        check("stack of free queues", free.as_ref().len() as u64, count.wrapping_sub(1), u64::MAX)?;
        check("labels", labels.as_ref().len() as u64, descriptors.as_ref().len() as u64, u64::MAX)?;
        flows.as_mut().fill(SqfFlow::ABSENT);
        records.as_mut().fill(FlowRecord::EMPTY);
        let scheduler = ShortestQueue::new(scheduler).drop_from(drop_from);
        let default = scheduler.flows().wrapping_sub(1);
        for (queue, place) in (0..default).rev().zip(free.as_mut()) {
            *place = queue;
        }
        let mut engine = FlowQueues::with_own_victim(scheduler, queues, descriptors, limits);
        for queue in 0..=default {
            engine.configure(FlowId(queue), ())?;
        }
        let labels = Labels { flows, of: labels, free, free_len: default, records, default };
        Ok(Self { engine, labels, takes_longest: false })
    }
}

impl<N, Q, S, F, L, V, R, W> Sqf<N, Q, S, F, L, V, R, W>
where
    N: Table<LengthFlow>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
    W: Table<WaitingFlow>,
{
    /// The same scheduler with [a floor under the service](ShortestQueue::service_floor) of each queue, the
    /// default queue included: `share` of all bytes is that of the queue that has waited longest.
    /// `waiting` has room for every queue. The bound is of queues: in the default queue a packet has those
    /// ahead of it to wait for too.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there is not room for every queue.
    #[expect(clippy::type_complexity, reason = "the memory is named part by part, as everywhere")]
    pub fn service_floor<X: Table<WaitingFlow>>(
        self,
        share: FloorShare,
        waiting: X,
    ) -> Result<Sqf<N, Q, S, F, L, V, R, X>, ConfigError> {
        let Self { engine, labels, takes_longest } = self;
        let engine = engine.with_scheduler(|scheduler| scheduler.service_floor(share, waiting))?;
        Ok(Sqf { engine, labels, takes_longest })
    }

    /// The same scheduler, in which a queue that has to give way for an arrival and has not been served for
    /// `after` loses all it holds: [`ShortestQueue::flush_unserved`]. The default queue too, and with it the
    /// packets of all flows that are there.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] without the memory of a [floor](Self::service_floor), whose share may be
    /// [`FloorShare::NONE`], or unless `after` is in 1 ns to 1 h.
    pub fn flush_unserved(self, after: Nanos) -> Result<Self, ConfigError> {
        let Self { engine, labels, takes_longest } = self;
        let engine = engine.with_scheduler(|scheduler| scheduler.flush_unserved(after))?;
        Ok(Self { engine, labels, takes_longest })
    }

    /// This scheduler, in which a new flow always gets a virtual queue. If none is free, the new flow gets the virtual
    /// queue that holds the most bytes, told apart as for drops. The packets of the flow that had this queue move behind the
    /// packets in the default queue, in their order. That flow stays in the default queue until its last packet has
    /// left.
    ///
    /// So a call that starts while more flows are busy than there are virtual queues has the shortest queue, and waits
    /// for the packet on the wire. It does not help in a crowd of calls: the call that has just sent holds the most, and
    /// goes to the default queue with the bulk.
    ///
    /// An arrival that is rejected for its label, length or handle, or because it does not fit into an
    /// empty buffer, moves no flow. An arrival that is rejected because it would itself have to give way undoes
    /// nothing: a packet that gave way stays dropped, a flow that was moved stays moved.
    ///
    /// Cost: O(1) for such an arrival, however much is moved; others pay nothing.
    #[must_use]
    pub fn default_takes_longest(self) -> Self {
        Self { takes_longest: true, ..self }
    }

    /// Makes a virtual queue free for `packet`, the first of `flow`, if none is.
    #[cold]
    fn make_way(&mut self, flow: FlowId, packet: Packet) {
        if !self.labels.finds_none(flow) || !self.engine.could_accept(packet) {
            return;
        }
        let default = self.default_queue();
        // The default queue itself may be the longest of all.
        let Some(longest) = self.engine.scheduler().longest_beside(default) else { return };
        let Some(head) = self.engine.after(longest, NONE) else { return };
        self.labels.moved(head);
        self.engine.append_all(longest, default);
        self.labels.give_back(longest.0);
    }

    /// Adds `flow`. A second call changes nothing.
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

    /// Removes `flow`; its packets go to `drops`. A second call changes nothing. Cost: O(packets of
    /// its queue), which for the default queue are not all its own.
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
            *entry = SqfFlow::ABSENT;
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

impl<N, Q, S, F, L, V, R, W> Scheduler for Sqf<N, Q, S, F, L, V, R, W>
where
    N: Table<LengthFlow>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
    W: Table<WaitingFlow>,
{
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.takes_longest {
            // A flow that moves begins to wait at `now`, and not when the engine was last told the time.
            self.engine.scheduler_mut().advance(now);
            self.make_way(flow, packet);
        }
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
                    if packet.ecn == Ecn::Ce {
                        record.mark_came();
                    }
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

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.engine.evict(&mut Departures { labels: &mut self.labels, drops })
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.engine.drain(&mut Departures { labels: &mut self.labels, drops });
    }

    /// O(descriptors + queues² + labels + backlogged flows · packets of the default queue).
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
mod tests;
