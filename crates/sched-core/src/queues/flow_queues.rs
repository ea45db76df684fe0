//! Queues under a flow scheduler: where scheduling and dropping meet.
//!
//! [`FlowQueues`] keeps the books and one queue per flow, and holds four parts side by side. Only the drop policy may ask
//! another part:
//!
//! | part | asked |
//! |---|---|
//! | [`FlowScheduler`] | which flow is next |
//! | [`DropPolicy`] | which flow gives way when there is no room; it may ask the flow scheduler |
//! | [`Aqm`] | what is to become of a packet that arrives, or is about to leave |
//! | [`FlowDirectory`] | nothing: it is told when a queue becomes empty |
//!
//! With any four parts it is a [`Scheduler`]. Cost: O(1) beside the parts. Memory: 16 bytes a packet and 16 a flow
//! beside the parts.

mod touch;

use crate::aqm::{Admission, Aqm, Head, Look, NoAqm, Offer, Verdict};
use crate::drops::drop_policy::{DropPolicy, OwnVictim};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::queues::counters::{Counters, FlowRecord, Ledger};
use crate::queues::flow_directory::{FlowDirectory, NoDirectory};
use crate::queues::queue::{Descriptor, NONE, Queue, is_acceptable, obstacle};
use crate::scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{Ecn, FlowId, Nanos, Packet};
use touch::CHUNK;

/// What an AQM does not hold against a packet that waited for a [ceiling](crate::Ceilings): the time of this
/// many rounds of the flows that share the ceiling, a packet each.
///
/// A flow below a ceiling sees a slower line. An AQM that is set for the real line would take the wait for a
/// standing queue. With two rounds taken off, four TCP flows fill a ceiling of 1 Mbit/s; without, they reach 0.82
/// of the ceiling (`crates/sim/tests/suite/host_rates.rs`).
pub const PACED_ROUNDS: u64 = 2;

/// Queues in the memory `Q`, of packets in the memory `S`, under the flow scheduler `O`, with the AQM `A`, the drop policy
/// `D` and the flow directory `T`. Statistics of single flows are in the memory `R`, for as many flows as it has room for.
///
/// ```
/// use sched_core::{
///     CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, FlowRecord, Limits, Nanos,
///     Packet, Queue, Scheduler,
/// };
///
/// // Two flows, eight packets, CoDel in each queue, and statistics of both flows.
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let codel = CoDel::new([CoDelState::EMPTY; 2], CoDelParams::INTERNET)?;
/// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 8]);
/// let records = [FlowRecord::EMPTY; 2];
/// let mut queues = FlowQueues::with_parts(drr, codel, queues, packets, records, Limits::packets(8));
///
/// let drops = &mut |_: Packet, _why| ();
/// queues.enqueue(Nanos(0), FlowId(1), Packet::new(5, 1_500), drops)?;
/// assert_eq!(queues.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(5));
/// let of_flow = queues.flow_counters(FlowId(1)).expect("there is a record of it");
/// assert_eq!((of_flow.delivered.packets, queues.counters().delivered.bytes), (1, 1_500));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlowQueues<O, Q, S, A = NoAqm, R = [FlowRecord; 0], D = OwnVictim, T = NoDirectory> {
    /// Which flow is next.
    scheduler: O,
    /// Which flow gives way. Told of packets as `scheduler` is, after it.
    policy: D,
    /// What is to become of a packet.
    aqm: A,
    /// Which flow has which queue. Told of queues that become empty, after `scheduler`.
    directory: T,
    /// `queues[flow]`: backlogged in `scheduler` and `policy` if and only if not empty.
    queues: Q,
    /// `descriptors[handle]`.
    descriptors: S,
    records: R,
    ledger: Ledger,
}

/// The four parts of [`FlowQueues`], for what is their own: a table, the rate of a class, parameters.
///
/// Telling them of packets is the engine's business: parts that are told twice no longer agree with the queues, and
/// [`Scheduler::recount`] says so.
#[derive(Debug)]
pub struct Siblings<'a, O, D, A, T> {
    /// The flow scheduler.
    pub scheduler: &'a mut O,
    /// The drop policy.
    pub policy: &'a mut D,
    /// The AQM.
    pub aqm: &'a mut A,
    /// The flow directory.
    pub directory: &'a mut T,
}

impl<O: FlowScheduler, Q: Table<Queue>, S: Table<Descriptor>> FlowQueues<O, Q, S> {
    /// Queues without an AQM and without statistics of single flows. The flow that `scheduler` names gives way
    /// ([`OwnVictim`]).
    ///
    /// There are as many flows as `scheduler` and `queues` both have room for, and as many handles as
    /// `descriptors` is long; in `scheduler` no flow is backlogged. Cost: O(flows + descriptors).
    #[must_use]
    pub fn new(scheduler: O, queues: Q, descriptors: S, limits: Limits) -> Self {
        Self::with_parts(scheduler, NoAqm, queues, descriptors, [], limits)
    }
}

impl<O, Q, S, A, R> FlowQueues<O, Q, S, A, R>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
{
    /// Queues with an AQM, and with statistics for the first `records.len()` flows. The flow that `scheduler` names gives
    /// way ([`OwnVictim`]).
    ///
    /// There are as many flows as `scheduler` and `queues` both have room for, and as many handles as
    /// `descriptors` is long; in `scheduler` no flow is backlogged. An AQM acts on standing queues: with room
    /// for only a packet or two for each active flow, overflow comes first and it never acts.
    /// Cost: O(flows + descriptors).
    #[must_use]
    pub fn with_parts(
        scheduler: O,
        aqm: A,
        mut queues: Q,
        mut descriptors: S,
        mut records: R,
        limits: Limits,
    ) -> Self {
        queues.as_mut().fill(Queue::EMPTY);
        descriptors.as_mut().fill(Descriptor::EMPTY);
        records.as_mut().fill(FlowRecord::EMPTY);
        let (policy, directory, ledger) = (OwnVictim, NoDirectory, Ledger::new(limits));
        Self { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }
}

impl<O, Q, S, A, R, D, T> FlowQueues<O, Q, S, A, R, D, T>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
    D: DropPolicy<O>,
    T: FlowDirectory<O>,
{
    /// The most packets that give way to one arrival. If these do not make room, the arrival is rejected, and
    /// they stay dropped. 256 packets of 256 bytes make room for the longest IP packet; an Ethernet frame of
    /// 1,514 bytes costs at most 24 packets of 64 bytes.
    pub const MAX_VICTIMS: u32 = 256;

    /// The same queues with another drop policy, in whose books no flow is backlogged. What is queued stays; a flow that
    /// `policy` has no room for takes no packets from now on. Cost: O(flows).
    #[must_use]
    pub fn with_drop_policy<P: DropPolicy<O>>(
        self,
        mut policy: P,
    ) -> FlowQueues<O, Q, S, A, R, P, T> {
        let Self { scheduler, aqm, directory, queues, descriptors, records, ledger, .. } = self;
        for (flow, queue) in (0..).map(FlowId).zip(queues.as_ref()) {
            if !queue.is_empty() {
                policy.backlogged(&scheduler, flow, queue.backlog().bytes);
            }
        }
        FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// The same queues, in which nothing is queued yet, with a flow directory that is told when one becomes empty.
    #[must_use]
    pub fn with_directory<U: FlowDirectory<O>>(
        self,
        directory: U,
    ) -> FlowQueues<O, Q, S, A, R, D, U> {
        let Self { scheduler, policy, aqm, queues, descriptors, records, ledger, .. } = self;
        FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// The flow scheduler.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// The flow scheduler, for what is its own: the rate of a class. As with [`Siblings`], telling it of packets is the
    /// engine's business.
    pub const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// The drop policy.
    #[must_use]
    pub const fn policy(&self) -> &D {
        &self.policy
    }

    /// The flow directory.
    #[must_use]
    pub const fn directory(&self) -> &T {
        &self.directory
    }

    /// All four parts, to be changed.
    pub const fn siblings(&mut self) -> Siblings<'_, O, D, A, T> {
        let Self { scheduler, policy, aqm, directory, .. } = self;
        Siblings { scheduler, policy, aqm, directory }
    }

    /// The AQM.
    #[must_use]
    pub const fn aqm(&self) -> &A {
        &self.aqm
    }

    /// The AQM, to be configured; judging packets is the engine's business.
    pub const fn aqm_mut(&mut self) -> &mut A {
        &mut self.aqm
    }

    /// What `flow` holds; nothing if there is no such flow.
    #[must_use]
    pub fn flow_backlog(&self, flow: FlowId) -> Backlog {
        self.queues.as_ref().get(flow.index()).map(Queue::backlog).unwrap_or_default()
    }

    /// Adds `flow`, or changes it, idle or backlogged; its packets stay.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure(&mut self, flow: FlowId, config: O::Config) -> Result<(), ConfigError> {
        let Some(queue) =
            self.queues.as_ref().get(flow.index()).filter(|_| self.has_room_for(flow))
        else {
            return Err(ConfigError::UnknownFlow { flow, flows: self.flows() });
        };
        let head_len = queue.head_len(self.descriptors.as_ref());
        self.scheduler.configure(flow, config, head_len)
    }

    /// Removes `flow`; its packets go to `drops`. Idempotent. Cost: O(packets of the flow).
    pub fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.drop_all(flow, DropReason::FlowRemoved, drops);
        self.scheduler.remove(flow);
        self.policy.removed(flow);
        self.aqm.forget(flow);
    }

    /// What is set for `flow`; `None` if it was not added.
    #[must_use]
    pub fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.scheduler.config(flow).filter(|_| self.has_room_for(flow))
    }

    /// Whether the drop policy has room for `flow`.
    #[inline]
    fn has_room_for(&self, flow: FlowId) -> bool {
        has_room(&self.policy, flow)
    }

    /// The longest packet that `flow` accepts, if it was added.
    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        longest(&self.scheduler, &self.policy, flow)
    }

    fn flows(&self) -> u32 {
        let queues = u32::try_from(self.queues.as_ref().len()).unwrap_or(u32::MAX);
        let most = |room: Option<u32>| room.unwrap_or(u32::MAX);
        let (policy, directory) = (most(self.policy.room()), most(self.directory.room()));
        self.scheduler.flows().min(queues).min(policy).min(directory)
    }

    /// The same queues under the flow scheduler that `make` makes of theirs, which knows of the same flows the same.
    #[expect(clippy::type_complexity, reason = "the parts are named one by one, as everywhere")]
    pub(crate) fn with_scheduler<P, E>(
        self,
        make: impl FnOnce(O) -> Result<P, E>,
    ) -> Result<FlowQueues<P, Q, S, A, R, D, T>, E> {
        let Self { scheduler, policy, aqm, directory, queues, descriptors, records, ledger } = self;
        let scheduler = make(scheduler)?;
        Ok(FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger })
    }

    /// Whether `packet` could be accepted, by a flow that takes any length, if nothing else were queued.
    pub(crate) fn could_accept(&self, packet: Packet) -> bool {
        is_acceptable(packet, self.descriptors.as_ref()) && self.ledger.could_fit(packet.len)
    }

    /// Puts what `from` holds behind what `to` holds, O(1). Statistics of single flows stay as they are.
    pub(crate) fn append_all(&mut self, from: FlowId, to: FlowId) {
        let (queues, descriptors) = (self.queues.as_mut(), self.descriptors.as_mut());
        if queues.get(to.index()).is_none() {
            return;
        }
        let Some(moved) = queues.get_mut(from.index()).map(core::mem::take) else { return };
        let Some(head_len) = moved.head_len(descriptors) else { return };
        let bytes = moved.backlog().bytes;
        let Some(queue) = queues.get_mut(to.index()) else { return };
        let was_idle = queue.is_empty();
        queue.append_all(descriptors, moved);
        self.tell_lost(from, bytes, None);
        let grown = if was_idle {
            self.tell_backlogged(to, head_len);
            bytes.wrapping_sub(head_len)
        } else {
            bytes
        };
        if grown > 0 {
            self.scheduler.grew(to, grown);
            self.policy.grew(to, grown);
        }
    }

    /// Books a packet that was not accepted; its flow may be unknown.
    pub(crate) const fn count_rejected(&mut self, packet: Packet) {
        self.ledger.totals.rejected.add(packet.len);
    }

    /// Books that the packet of `flow` that is accepted came with a mark.
    #[cold]
    fn count_marked_arrival(&mut self, flow: FlowId) {
        self.ledger.totals.mark_came();
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.mark_came();
        }
    }

    /// Books a mark that was set here on a packet of `flow`.
    #[cold]
    fn count_mark(&mut self, flow: FlowId) {
        self.ledger.totals.mark();
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.mark();
        }
    }

    /// Turns `packet` away, with the first reason that applies.
    #[cold]
    fn reject(&mut self, flow: FlowId, packet: Packet) -> Rejected {
        let known = self.queues.as_ref().get(flow.index()).and(self.max_len(flow));
        let Some(max) = known else {
            self.count_rejected(packet);
            let reason = RejectReason::UnknownFlow { flow, flows: self.flows() };
            return Rejected { packet, reason };
        };
        let reason = obstacle(packet, max.min(Packet::MAX_LEN), self.descriptors.as_ref());
        let full = RejectReason::Full { limits: self.ledger.limits() };
        self.turn_away(flow, packet, reason.unwrap_or(full))
    }

    /// Turns `packet`, which is acceptable, away for want of room.
    #[cold]
    fn reject_full(&mut self, flow: FlowId, packet: Packet) -> Rejected {
        self.aqm.overflowed(flow);
        self.turn_away(flow, packet, RejectReason::Full { limits: self.ledger.limits() })
    }

    /// Turns `packet` of `flow`, which was added, away.
    #[cold]
    fn turn_away(&mut self, flow: FlowId, packet: Packet, reason: RejectReason) -> Rejected {
        self.count_rejected(packet);
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.rejected.add(packet.len);
        }
        Rejected { packet, reason }
    }

    /// Tells the flow scheduler and the drop policy that `flow`, which was idle, holds `len` bytes.
    #[inline(always)]
    fn tell_backlogged(&mut self, flow: FlowId, len: u32) {
        self.scheduler.backlogged(flow, len);
        self.policy.backlogged(&self.scheduler, flow, len);
    }

    /// Appends `packet`, books it as accepted and tells the flow scheduler; `None` if there is no queue for it.
    fn admit(&mut self, now: Nanos, flow: FlowId, packet: Packet) -> Option<()> {
        let descriptors = self.descriptors.as_mut();
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let was_idle = queue.is_empty();
        queue.append(descriptors, packet, now);
        self.ledger.accept(packet.len);
        if was_idle {
            self.tell_backlogged(flow, packet.len);
        } else {
            self.scheduler.grew(flow, packet.len);
            self.policy.grew(flow, packet.len);
        }
        Some(())
    }

    /// The rest of [`Scheduler::enqueue`]: to a flow that holds nothing, or does not exist; where more is
    /// queued than ever before; where the packet does not simply fit.
    #[inline(never)]
    fn enqueue_to_idle_or_full(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let descriptors = self.descriptors.as_mut();
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else {
            return Err(self.reject(flow, packet));
        };
        if !is_acceptable(packet, descriptors)
            || !takes(longest(&self.scheduler, &self.policy, flow), packet.len)
        {
            return Err(self.reject(flow, packet));
        }
        let admission = self.aqm.admit(flow, Offer { now, packet, held: queue.backlog() });
        if admission != Admission::Accept {
            return self.enqueue_signalled(now, flow, packet, admission, drops);
        }
        if !self.ledger.make_ready(packet.len) {
            return self.enqueue_crowded(now, flow, packet, packet.ecn, drops);
        }
        let books = (&mut self.ledger, self.records.as_mut());
        let was_idle = append(queue, descriptors, books, flow, packet, now);
        self.tell_accepted(flow, packet, was_idle);
        Ok(())
    }

    /// The rest of [`Scheduler::enqueue`], where the AQM has spoken of an acceptable packet.
    #[cold]
    fn enqueue_signalled(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        admission: Admission,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if admission == Admission::Refuse || !packet.ecn.is_capable() {
            return Err(self.turn_away(flow, packet, RejectReason::Aqm));
        }
        self.enqueue_admitted(now, flow, packet, Ecn::Ce, drops)?;
        // A packet that came with a mark stays as it came.
        if packet.ecn != Ecn::Ce {
            self.count_mark(flow);
        }
        Ok(())
    }

    /// Queues an acceptable packet that the AQM lets in, with the codepoint `ecn`.
    fn enqueue_admitted(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        ecn: Ecn,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if !self.ledger.make_ready(packet.len) {
            return self.enqueue_crowded(now, flow, packet, ecn, drops);
        }
        let descriptors = self.descriptors.as_mut();
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else {
            return Err(self.reject(flow, packet));
        };
        let books = (&mut self.ledger, self.records.as_mut());
        let was_idle = append(queue, descriptors, books, flow, Packet { ecn, ..packet }, now);
        self.tell_accepted(flow, packet, was_idle);
        Ok(())
    }

    /// Tells of `packet`, as it came, that it has been queued.
    #[inline(always)]
    fn tell_accepted(&mut self, flow: FlowId, packet: Packet, was_idle: bool) {
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        if was_idle {
            self.tell_backlogged(flow, packet.len);
        } else {
            self.scheduler.grew(flow, packet.len);
            self.policy.grew(flow, packet.len);
        }
    }

    /// [`Self::enqueue_admitted`], where the packet does not simply fit.
    #[cold]
    fn enqueue_crowded(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        ecn: Ecn,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let can_make_room =
            self.ledger.could_fit(packet.len) && self.policy.victim(&self.scheduler).is_some();
        if !can_make_room || self.admit(now, flow, Packet { ecn, ..packet }).is_none() {
            return Err(self.reject_full(flow, packet));
        }
        self.make_room(flow, packet, drops)?;
        self.ledger.note_peak();
        let held = self.flow_backlog(flow);
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.accept(packet.len, held);
        }
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        Ok(())
    }

    /// Drops from the victims of the policy until the limits hold, or rejects the arrival: because it is
    /// itself the packet that has to go, or because it would cost too many others. A victim that the
    /// policy gives up loses all packets but the arrival, as far as [`Self::MAX_VICTIMS`] allows.
    fn make_room(
        &mut self,
        flow: FlowId,
        arrival: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let mut given_up = None;
        for _ in 0..Self::MAX_VICTIMS {
            crate::steps::step();
            let (victim, end, reason) =
                match given_up.filter(|&flow| self.holds_older_than(flow, arrival)) {
                    Some(flow) => (flow, DropFrom::Head, DropReason::Unserved),
                    None if !self.ledger.is_over() => return Ok(()),
                    None => {
                        let Some((victim, end)) = self.policy.victim(&self.scheduler) else {
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

    /// Whether `flow` holds packets that came before `arrival`, the latest of all.
    fn holds_older_than(&self, flow: FlowId, arrival: Packet) -> bool {
        self.after(flow, NONE).is_some_and(|head| head != arrival.handle)
    }

    /// Undoes the acceptance of an arrival that has been taken out of its queue again.
    fn take_back(&mut self, flow: FlowId, arrival: Packet) -> Rejected {
        self.ledger.unaccept(arrival.len);
        self.reject_full(flow, arrival)
    }

    /// Takes a packet out of the queue of `flow` and tells the four parts that it is lost.
    fn take(&mut self, flow: FlowId, end: DropFrom) -> Option<Packet> {
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

    /// Tells the four parts that `len` bytes left the queue of `flow` without service; `head` is the length
    /// of the first packet that is left.
    fn tell_lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.scheduler.lost(flow, len, head);
        self.policy.lost(flow, len, head.is_none());
        if head.is_none() {
            self.aqm.emptied(flow);
            self.directory.emptied(&self.scheduler, flow);
        }
    }

    /// Drops the victim of the policy, or the packet served next where it names none.
    fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let next = || self.first().map(|flow| (flow, DropFrom::Head));
        let Some((victim, end)) = self.policy.victim(&self.scheduler).or_else(next) else {
            return false;
        };
        let Some(packet) = self.take(victim, end) else { return false };
        self.book_drop(victim, packet, reason, drops);
        true
    }

    fn book_drop(
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
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.drop(packet.len, reason);
        }
        drops.dropped(packet, reason);
    }

    /// The handle of the packet behind `before` in the queue of `flow`, the oldest if that is
    /// [`NONE`](crate::queues::queue::NONE).
    pub(crate) fn after(&self, flow: FlowId, before: u32) -> Option<u32> {
        self.queues.as_ref().get(flow.index())?.after(self.descriptors.as_ref(), before)
    }

    /// The length of the packet with this handle, 0 if it is not queued.
    pub(crate) fn len_of(&self, handle: u32) -> u32 {
        self.descriptors.as_ref().get(handle as usize).map_or(0, Descriptor::len)
    }

    /// Drops the packet behind `before`, which is in the queue of `flow`, or the oldest.
    pub(crate) fn drop_after(
        &mut self,
        flow: FlowId,
        before: u32,
        reason: DropReason,
        drops: &mut dyn DropSink,
    ) {
        let Some(queue) = self.queues.as_mut().get_mut(flow.index()) else { return };
        let descriptors = self.descriptors.as_mut();
        let Some(packet) = queue.take_after(descriptors, before) else { return };
        let head = queue.head_len(descriptors);
        self.tell_lost(flow, packet.len, head);
        self.book_drop(flow, packet, reason, drops);
    }

    /// Drops what `flow` holds, and keeps the flow. Cost: O(packets of the flow).
    pub(crate) fn drop_all(&mut self, flow: FlowId, reason: DropReason, drops: &mut dyn DropSink) {
        while let Some(packet) = self.take(flow, DropFrom::Head) {
            self.book_drop(flow, packet, reason, drops);
        }
    }

    /// The rest of [`Scheduler::dequeue`], where the AQM has spoken.
    #[cold]
    fn deliver_signalled(
        &mut self,
        now: Nanos,
        flow: FlowId,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        let mark = self.signal(now, flow, drops);
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let descriptors = self.descriptors.as_mut();
        let mut packet = queue.pop_head(descriptors)?;
        let next_head = queue.head_len(descriptors);
        self.scheduler.served(flow, packet.len, next_head);
        self.policy.served(flow, packet.len, next_head.is_none());
        if next_head.is_none() {
            self.directory.emptied(&self.scheduler, flow);
        }
        self.ledger.deliver(packet.len);
        // A packet that came with a mark leaves as it came.
        if mark && packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.count_mark(flow);
        }
        Some(packet)
    }

    /// [`Self::tell_idle`], in a function of its own where there is enough to do.
    #[inline(always)]
    fn close(&mut self, flow: FlowId, len: u32) {
        // Where a directory and another part have books.
        if size_of::<T>() > 0 && (size_of::<D>() > 0 || size_of::<A>() > 0) {
            self.close_apart(flow, len);
        } else {
            self.tell_idle(flow, len);
        }
    }

    /// [`Self::close`], with registers of its own: packets that leave others behind do not pay for them.
    #[inline(never)]
    fn close_apart(&mut self, flow: FlowId, len: u32) {
        self.tell_idle(flow, len);
    }

    /// A service of `len` bytes has left nothing of `flow`.
    #[inline(always)]
    fn tell_idle(&mut self, flow: FlowId, len: u32) {
        self.scheduler.served(flow, len, None);
        self.policy.served(flow, len, true);
        self.directory.emptied(&self.scheduler, flow);
    }

    /// [`Scheduler::dequeue`] where no flow is selected: all that are backlogged wait, or none is.
    #[cold]
    #[inline(never)]
    fn dequeue_opened(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.scheduler.open();
        let flow = self.scheduler.select()?;
        self.deliver_judged(now, flow, Verdict::Unclear, drops)
    }

    /// The rest of [`Scheduler::dequeue`], where the packet did not pass at a glance.
    #[inline(never)]
    fn deliver_judged(
        &mut self,
        now: Nanos,
        flow: FlowId,
        glance: Verdict,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        let is_unclear = glance == Verdict::Unclear;
        let verdict = if is_unclear { self.judge(now, flow) } else { glance };
        if verdict == Verdict::Signal {
            return self.deliver_signalled(now, flow, drops);
        }
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let parts = (&mut self.scheduler, &mut self.policy);
        let descriptors = self.descriptors.as_mut();
        let (packet, is_last) = deliver(parts, &mut self.ledger, queue, descriptors, flow)?;
        let delivered = Some(packet);
        if is_last {
            self.close(flow, packet.len);
        }
        delivered
    }

    /// The flow that is served next, now or later.
    fn first(&self) -> Option<FlowId> {
        self.scheduler.select().or_else(|| self.scheduler.waiting())
    }

    /// What the AQM says of the packet at the head of the queue of `flow`, looking closely.
    fn judge(&mut self, now: Nanos, flow: FlowId) -> Verdict {
        let Some(queue) = self.queues.as_ref().get(flow.index()) else { return Verdict::Pass };
        let Some(descriptor) = self.descriptors.as_ref().get(queue.head() as usize) else {
            return Verdict::Pass;
        };
        let head = unpaced(&self.scheduler, flow, head_of(now, descriptor, queue.backlog()));
        self.aqm.judge(flow, head, Look::Close)
    }

    /// Tells the sender of the packet at the head of the queue of `flow`: marks it, or drops it and as
    /// many behind it as the AQM says, but never the last packet and at most [`Aqm::MAX_DROPS`].
    /// Returns whether the packet that is at the head then is to be marked.
    fn signal(&mut self, now: Nanos, flow: FlowId, drops: &mut dyn DropSink) -> bool {
        let mut dropped = 0;
        loop {
            crate::steps::step();
            let Some(queue) = self.queues.as_ref().get(flow.index()) else { return false };
            let Some(descriptor) = self.descriptors.as_ref().get(queue.head() as usize) else {
                return false;
            };
            if descriptor.packet(queue.head()).ecn.is_capable() {
                return true;
            }
            if queue.backlog().packets == 1 || dropped == A::MAX_DROPS {
                return false;
            }
            let Some(packet) = self.take(flow, DropFrom::Head) else { return false };
            self.book_drop(flow, packet, DropReason::Aqm, drops);
            dropped += 1;
            if self.judge(now, flow) != Verdict::Signal {
                return false;
            }
        }
    }

    /// What [`Self::signal`] would leave at the head of the queue of `flow`, and whether marked.
    fn foresee(&self, now: Nanos, flow: FlowId) -> Option<Packet> {
        let queue = self.queues.as_ref().get(flow.index())?;
        let descriptors = self.descriptors.as_ref();
        let mut here = queue.head();
        let mut descriptor = descriptors.get(here as usize)?;
        let mut judge = self.aqm.foresee(flow);
        let mut held = queue.backlog();
        for dropped in 0..=A::MAX_DROPS {
            let packet = descriptor.packet(here);
            let head = unpaced(&self.scheduler, flow, head_of(now, descriptor, held));
            if judge(head) != Verdict::Signal {
                break;
            }
            if packet.ecn.is_capable() {
                return Some(Packet { ecn: Ecn::Ce, ..packet });
            }
            if held.packets == 1 || dropped == A::MAX_DROPS {
                break;
            }
            held.packets = held.packets.wrapping_sub(1);
            held.bytes = held.bytes.wrapping_sub(packet.len);
            here = descriptor.next();
            descriptor = descriptors.get(here as usize)?;
        }
        Some(descriptor.packet(here))
    }
}

/// Whether the drop policy has room for `flow`.
#[inline]
fn has_room<O: FlowScheduler>(policy: &impl DropPolicy<O>, flow: FlowId) -> bool {
    policy.room().is_none_or(|room| flow.0 < room)
}

/// The longest packet that `flow` accepts, if it was added and the drop policy has room for it.
#[inline]
fn longest<O: FlowScheduler>(
    scheduler: &O,
    policy: &impl DropPolicy<O>,
    flow: FlowId,
) -> Option<u32> {
    scheduler.max_len(flow).filter(|_| has_room(policy, flow))
}

/// Whether a packet of `len` bytes is within the longest that its flow accepts, if it was added.
#[inline]
fn takes(max_len: Option<u32>, len: u32) -> bool {
    max_len.is_some_and(|max| len <= max)
}

/// Appends `packet`, which fits, to the queue of `flow` and books it. Returns whether the queue was empty.
#[inline(always)]
fn append(
    queue: &mut Queue,
    descriptors: &mut [Descriptor],
    (ledger, records): (&mut Ledger, &mut [FlowRecord]),
    flow: FlowId,
    packet: Packet,
    now: Nanos,
) -> bool {
    let was_idle = queue.is_empty();
    queue.append(descriptors, packet, now);
    ledger.accept(packet.len);
    if let Some(record) = records.get_mut(flow.index()) {
        record.accept(packet.len, queue.backlog());
    }
    was_idle
}

/// Tells the flow scheduler and the drop policy of a packet that was accepted.
#[inline(always)]
fn tell_grown<O: FlowScheduler>(
    scheduler: &mut O,
    policy: &mut impl DropPolicy<O>,
    flow: FlowId,
    len: u32,
) -> Result<(), Rejected> {
    // Read first, so that no register has to be kept across the calls of the parts.
    let accepted = Ok(());
    scheduler.grew(flow, len);
    policy.grew(flow, len);
    accepted
}

/// Takes the first packet out of `queue`, which is that of `flow`, books it as delivered, and tells flow scheduler and
/// drop policy unless nothing is left: that is the business of [`FlowQueues::close`], and the second value says so.
#[inline(always)]
fn deliver<O: FlowScheduler, D: DropPolicy<O>>(
    (scheduler, policy): (&mut O, &mut D),
    ledger: &mut Ledger,
    queue: &mut Queue,
    descriptors: &mut [Descriptor],
    flow: FlowId,
) -> Option<(Packet, bool)> {
    let packet = queue.take_head(descriptors)?;
    ledger.deliver(packet.len);
    // Apart, so that whether anything is left is asked once.
    let Some(next_head) = queue.head_len(descriptors) else {
        queue.close();
        return Some((packet, true));
    };
    let delivered = Some((packet, false));
    scheduler.served(flow, packet.len, Some(next_head));
    policy.served(flow, packet.len, false);
    delivered
}

/// `head` without what the packet waited for a ceiling.
#[inline]
fn unpaced(scheduler: &impl FlowScheduler, flow: FlowId, head: Head) -> Head {
    let waited = scheduler.pace(flow).0.saturating_mul(PACED_ROUNDS);
    Head { sojourn: Nanos(head.sojourn.0.saturating_sub(waited)), ..head }
}

/// What an AQM knows of the packet in `descriptor`, first of a queue that holds `held`.
fn head_of(now: Nanos, descriptor: &Descriptor, held: Backlog) -> Head {
    Head {
        now,
        sojourn: descriptor.sojourn(now),
        bytes_behind: held.bytes.wrapping_sub(descriptor.len()),
    }
}

impl<O, Q, S, A, R, D, T> Scheduler for FlowQueues<O, Q, S, A, R, D, T>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
    D: DropPolicy<O>,
    T: FlowDirectory<O>,
{
    #[inline(always)]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.scheduler.advance(now);
        // In line is what joins a queue that stands; the rest is in functions of their own.
        let (descriptors, len) = (self.descriptors.as_mut(), packet.len);
        let queue = self.queues.as_mut().get_mut(flow.index());
        let standing =
            queue.and_then(|queue| queue.tail_among(descriptors).map(|tail| (queue, tail)));
        let Some((queue, tail)) = standing else {
            return self.enqueue_to_idle_or_full(now, flow, packet, drops);
        };
        // A backlogged flow was added.
        if !is_acceptable(packet, descriptors)
            || !self.ledger.has_ready_place()
            || (len > self.scheduler.needs().common_max_len
                && !takes(self.scheduler.max_len(flow), len))
            || !self.ledger.has_ready_bytes(len)
        {
            return self.enqueue_to_idle_or_full(now, flow, packet, drops);
        }
        let admission = self.aqm.admit(flow, Offer { now, packet, held: queue.backlog() });
        if admission != Admission::Accept {
            return self.enqueue_signalled(now, flow, packet, admission, drops);
        }
        queue.append_behind(tail, descriptors, packet, now);
        self.ledger.accept(len);
        if let Some(record) = self.records.as_mut().get_mut(flow.index()) {
            record.accept(len, queue.backlog());
        }
        if packet.ecn == Ecn::Ce {
            self.count_marked_arrival(flow);
        }
        tell_grown(&mut self.scheduler, &mut self.policy, flow, len)
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.scheduler.advance(now);
        let Some(flow) = self.scheduler.select() else {
            return if self.scheduler.waits() { self.dequeue_opened(now, drops) } else { None };
        };
        let queue = self.queues.as_mut().get_mut(flow.index())?;
        let descriptors = self.descriptors.as_mut();
        let head = head_of(now, descriptors.get(queue.head() as usize)?, queue.backlog());
        let verdict = self.aqm.judge(flow, unpaced(&self.scheduler, flow, head), Look::Glance);
        if verdict != Verdict::Pass {
            return self.deliver_judged(now, flow, verdict, drops);
        }
        let parts = (&mut self.scheduler, &mut self.policy);
        let (packet, is_last) = deliver(parts, &mut self.ledger, queue, descriptors, flow)?;
        let delivered = Some(packet);
        if is_last {
            self.close(flow, packet.len);
        }
        delivered
    }

    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut accepted = 0;
        for chunk in burst.chunks(CHUNK) {
            if self.is_worth_touching() {
                self.touch_arrivals(chunk);
            }
            for &(flow, packet) in chunk {
                match self.enqueue(now, flow, packet, drops) {
                    Ok(()) => accepted += 1,
                    Err(rejected) => drops.dropped(rejected.packet, DropReason::Rejected),
                }
            }
        }
        accepted
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        let mut filled = 0;
        for chunk in out.chunks_mut(CHUNK) {
            if self.is_worth_touching() {
                self.touch_departures();
            }
            for place in chunk {
                let Some(packet) = self.dequeue(now, drops) else { return filled };
                *place = packet;
                filled += 1;
            }
        }
        filled
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        let due = || self.scheduler.waiting().filter(|_| self.scheduler.opens_at(now) == Some(now));
        self.foresee(now, self.scheduler.select().or_else(due)?)
    }

    /// Later than `now` if all backlogged flows wait because of their ceilings.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.ledger.backlog().packets == 0 {
            return None;
        }
        if self.scheduler.select().is_some() { Some(now) } else { self.scheduler.opens_at(now) }
    }

    fn backlog(&self) -> Backlog {
        self.ledger.backlog()
    }

    fn counters(&self) -> Counters {
        self.ledger.counters()
    }

    /// Recorded for the first `R` flows; kept while a flow is removed and added again.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let record = self.records.as_ref().get(flow.index())?;
        Some(record.counters(self.flow_backlog(flow)))
    }

    fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    /// Where the drop policy names no victim, the packet served next gives way.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        while self.ledger.is_over() && self.give_way(DropReason::LimitLowered, drops) {}
    }

    /// Where the drop policy names no victim, the packet served next gives way.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while let Some(flow) = self.first() {
            let before = self.flow_backlog(flow);
            self.drop_all(flow, DropReason::Drained, drops);
            if before.packets == 0 {
                break; // only a broken flow scheduler selects an idle flow; `recount` says so
            }
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let (queues, descriptors) = (self.queues.as_ref(), self.descriptors.as_ref());
        let (mut packets, mut bytes) = (0_u64, 0_u64);
        for (at, queue) in (0..).zip(queues) {
            packets += u64::from(queue.recount(at, descriptors)?);
            bytes += u64::from(queue.backlog().bytes);
            let known = self.max_len(FlowId(at)).is_some();
            Imbalance::check(
                "a flow that holds packets exists",
                at,
                1,
                (known || queue.is_empty()).into(),
            )?;
        }
        let used = descriptors.iter().filter(|descriptor| descriptor.is_used()).count();
        Imbalance::check("descriptors in use", 0, used as u64, packets)?;
        let held = self.ledger.backlog();
        Imbalance::check("packets queued", 0, held.packets.into(), packets)?;
        Imbalance::check("bytes queued", 0, held.bytes.into(), bytes)?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())?;
        let selects = self.first().is_some();
        Imbalance::check("backlog and selection", 0, (packets > 0).into(), selects.into())?;
        let flows = |flow: FlowId| {
            let queue = queues.get(flow.index()).copied().unwrap_or_default();
            FlowState { backlog: queue.backlog(), head_len: queue.head_len(descriptors) }
        };
        self.scheduler.recount(&flows)?;
        self.policy.recount(&self.scheduler, &flows)?;
        self.directory.recount(&self.scheduler, &flows)
    }
}
