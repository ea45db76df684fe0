//! Schedulers under an order: a hierarchy.
//!
//! [`Classes`] is to schedulers what [`FlowQueues`](crate::FlowQueues) is to queues: an order decides
//! which class is served, and the class, any [`Scheduler`], which of its packets. It is a `Scheduler`
//! itself, so classes nest: users above flows, operators above users.
//!
//! **Promises.** A class is served as a flow of that order is, whatever its own scheduler does and
//! however many flows it has. For a flow that stays backlogged, below classes that may always send, the
//! guarantees of the levels add up: if `α_0` is its B-WFI in its class, `α_1` that of the class in the
//! node above, and so on, and `ψ_0`, `ψ_1`, … are the shares on the way up, then with `φ = ψ_0·ψ_1·…`
//!
//! > `φ·W − W_flow ≤ α_0 + ψ_0·α_1 + ψ_0·ψ_1·α_2 + …`
//!
//! `docs/papers.md`, section Hierarchy, has the derivation.
//!
//! **Which orders.** What a class sends next may change with every arrival. So an order is right here
//! if it charges a class what it has sent when it has sent it: [`Qfq`](crate::Qfq), [`Drr`](crate::Drr)
//! and [`ShortestQueue`](crate::ShortestQueue). One that
//! [looks ahead](FlowScheduler::looks_ahead) is told the length that the class would send next, after
//! each departure; it is exact only while an arrival does not change that.
//!
//! **Closed classes.** To the order a class is backlogged while [`Scheduler::poll_at`] says that it may
//! send. A class with packets of which none may leave yet, behind a shaper, is *closed*: its siblings
//! are served, and it is put back once it is due, at the end of an `enqueue` or `dequeue`, at most
//! [`OPENED_A_CALL`] of them a call. So the packet of a class that is due
//! may have to wait for one packet of a sibling more. A shaper that does not
//! make up for lateness loses that time: give it some catch-up.
//! If no class is open, the one that is due first is asked at once.
//!
//! **Cost.** A call costs that of the order, that of the class, and O(1); while classes are closed, and
//! where the longest class gives way, O(log classes). Depth adds: a packet passes each level once.
//! Memory: 16 bytes a class, 32 if the longest gives way; and each class has slots of its own.

mod classify;
mod tally;

use core::marker::PhantomData;

use crate::counters::{Counters, Ledger};
use crate::lqd::LongestFlow;
use crate::order::{ConfigError, FlowScheduler, FlowState, Table};
use crate::scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::tournament::{RankedFlow, Tournament};
use crate::{FlowId, Nanos, Packet};
use tally::Tally;

pub use classify::{Classify, LowBits, Member};

/// What a node remembers of a class: 16 bytes.
pub type ClassState = RankedFlow<1>;

/// Among the closed classes the one that opens first. Of a [`ClassState`] the key says whether the class
/// is closed, and the stamp when it opens; of the others the stamp is [`IDLE`] or [`OPEN`].
type Opening = Tournament<0, false>;
/// The class that holds the most bytes, open or closed.
type Longest = Tournament<0, true>;

const IDLE: u64 = 0;
const OPEN: u64 = 1;

/// What a class can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// It holds nothing.
    Idle,
    /// It may send: it is backlogged in the order.
    Open,
    /// It holds packets and may not send before this instant.
    Closed(Nanos),
}

impl Status {
    /// What `class` says of itself.
    #[inline]
    fn of<S: Scheduler>(class: &S, held: Backlog, now: Nanos) -> Self {
        if held.packets == 0 {
            return Self::Idle;
        }
        match class.poll_at(now) {
            Some(at) if at <= now => Self::Open,
            at => Self::Closed(at.unwrap_or(Nanos::MAX)),
        }
    }
}

/// At most so many closed classes are put back in a call. More than one, because a call closes at
/// most one: whatever is due gets its turn.
pub const OPENED_A_CALL: u32 = 2;

/// Classes of the type `S` in the memory `C`, under the order `O`; `R` says to which class a flow
/// belongs. The node's own memory is `W`, and `B` where the longest class gives way.
///
/// `S` may be any scheduler, a reference to one, or a box: `&mut dyn Scheduler` and
/// `Box<dyn Scheduler>` are schedulers.
///
/// Two users share by weight 1 to 3, and the flows of each by deficit round robin:
///
/// ```
/// use sched_core::{
///     ClassState, Classes, Drr, DrrFlow, FlowId, FlowQueues, Limits, LowBits, Nanos, Packet, Qfq,
///     QfqConfig, QfqFlow, Queue, Scheduler, Slot,
/// };
///
/// let mut flows = Drr::new([DrrFlow::EMPTY; 4], 1_500)?;
/// flows.add_all(1_500)?;
/// let user = FlowQueues::new(flows, [Queue::EMPTY; 4], [Slot::EMPTY; 64], Limits::NONE);
/// let users = Qfq::new([QfqFlow::EMPTY; 2], 1_500)?;
/// let states = [ClassState::EMPTY; 2];
/// let mut link = Classes::new(users, [user.clone(), user], states, LowBits::new(2)?, Limits::NONE);
/// for (user, weight) in [(FlowId(0), 1), (FlowId(1), 3)] {
///     link.configure(user, QfqConfig { weight, max_len: 1_500 })?;
/// }
///
/// // Flow 2 of user 0; flows 1 and 3 of user 1.
/// let drops = &mut |_: Packet, _| unreachable!("there is room");
/// for handle in 0..60 {
///     let flow = [0b0_10, 0b1_01, 0b1_11][handle as usize % 3];
///     link.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// let mut sent = [0; 2];
/// for _ in 0..40 {
///     let packet = link.dequeue(Nanos(0), drops).expect("60 packets are queued");
///     sent[usize::from(packet.handle % 3 != 0)] += 1;
/// }
/// assert_eq!(sent, [10, 30]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Classes<O, S, C, R, W, B = [LongestFlow; 0]> {
    /// A class is backlogged here if and only if it is [`Status::Open`], with the bytes it holds.
    order: O,
    classes: C,
    classify: R,
    states: W,
    /// What each class holds; of those beyond it nobody keeps the length.
    ranks: B,
    ledger: Ledger,
    /// The time that was told last.
    now: Nanos,
    /// Packets delivered: the stamp of the class that was served last.
    served: u64,
    of: PhantomData<fn() -> S>,
}

impl<O, S, C, R, W> Classes<O, S, C, R, W>
where
    O: FlowScheduler,
    S: Scheduler,
    C: Table<S>,
    R: Classify,
    W: Table<ClassState>,
{
    /// A node of empty `classes` under `order`, in which no class is backlogged. An arrival that does
    /// not fit into `limits`, which count all classes together, is rejected.
    ///
    /// There are as many classes as `order`, `classes` and `states` all have room for. Cost:
    /// O(classes).
    #[must_use]
    pub fn new(order: O, classes: C, mut states: W, classify: R, limits: Limits) -> Self {
        states.as_mut().fill(ClassState::EMPTY);
        Opening::play_all(states.as_mut());
        let ledger = Ledger::new(limits);
        let (now, served, of) = (Nanos::ZERO, 0, PhantomData);
        Self { order, classes, classify, states, ranks: [], ledger, now, served, of }
    }

    /// The same node, with room made for an arrival: the class that holds the most bytes gives way,
    /// and which of its packets is its own affair. `ranks` has room for every class; those beyond it
    /// never give way. A victim that the order would name is not asked for. Cost: O(classes).
    ///
    /// The arrival itself does not count: if its own class holds the most, that class has to make room
    /// in itself, or to reject it.
    #[must_use]
    pub fn dropping_from_longest<B: Table<LongestFlow>>(
        self,
        mut ranks: B,
    ) -> Classes<O, S, C, R, W, B> {
        ranks.as_mut().fill(LongestFlow::EMPTY);
        Longest::play_all(ranks.as_mut());
        let Self { order, classes, classify, states, ledger, now, served, of, .. } = self;
        Classes { order, classes, classify, states, ranks, ledger, now, served, of }
    }
}

impl<O, S, C, R, W, B> Classes<O, S, C, R, W, B>
where
    O: FlowScheduler,
    S: Scheduler,
    C: Table<S>,
    R: Classify,
    W: Table<ClassState>,
    B: Table<LongestFlow>,
{
    /// An arrival that would cost other classes more packets than this is rejected.
    pub const MAX_VICTIMS: u32 = 256;

    /// The order of classes.
    #[must_use]
    pub const fn order(&self) -> &O {
        &self.order
    }

    /// What says to which class a flow belongs.
    #[must_use]
    pub const fn classifier(&self) -> &R {
        &self.classify
    }

    /// The scheduler of `class`.
    #[must_use]
    pub fn class(&self, class: FlowId) -> Option<&S> {
        self.classes.as_ref().get(class.index())
    }

    /// Lets `change` do something to the scheduler of `class` at `now`: add a flow or remove it, set a
    /// rate or a limit. Packets that it drops must go to the sink it is given, and it may neither
    /// enqueue nor dequeue: the node's books would not have it, and [`Scheduler::recount`] would say
    /// so. `None` if there is no such class.
    pub fn with_class<T>(
        &mut self,
        now: Nanos,
        class: FlowId,
        drops: &mut dyn DropSink,
        change: impl FnOnce(&mut S, &mut dyn DropSink) -> T,
    ) -> Option<T> {
        self.class(class)?;
        self.now = now;
        self.touch(class, drops, None, change)
    }

    /// Adds `class` to the order, or changes it, idle or backlogged; its packets stay.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure(&mut self, class: FlowId, config: O::Config) -> Result<(), ConfigError> {
        let flows = self.count();
        if class.0 >= flows {
            return Err(ConfigError::UnknownFlow { flow: class, flows });
        }
        let head_len = (self.status(class) == Status::Open).then(|| self.next_len(class));
        self.order.configure(class, config, head_len)
    }

    /// What is set for `class`; `None` if it was not added.
    #[must_use]
    pub fn config(&self, class: FlowId) -> Option<O::Config> {
        self.order.config(class).filter(|_| class.0 < self.count())
    }

    /// Removes `class` from the order; its packets go to `drops`, its scheduler stays, empty. Twice is
    /// once. Cost: O(its packets).
    pub fn remove_class(&mut self, class: FlowId, drops: &mut dyn DropSink) {
        let removed = Some(DropReason::FlowRemoved);
        self.touch(class, drops, removed, |scheduler, drops| scheduler.drain(drops));
        self.order.remove(class);
        self.set_status(class, Status::Idle);
    }

    /// Classes are numbered below this.
    #[must_use]
    pub fn count(&self) -> u32 {
        let tables = self.classes.as_ref().len().min(self.states.as_ref().len());
        self.order.flows().min(u32::try_from(tables).unwrap_or(u32::MAX))
    }

    #[inline]
    fn max_len(&self, class: FlowId) -> Option<u32> {
        self.states.as_ref().get(class.index())?;
        Some(self.order.max_len(class)?.min(Packet::MAX_LEN))
    }

    #[inline]
    fn status(&self, class: FlowId) -> Status {
        match self.states.as_ref().get(class.index()) {
            Some(state) if state.is_backlogged() => Status::Closed(Nanos(state.stamp())),
            Some(state) if state.stamp() == OPEN => Status::Open,
            _ => Status::Idle,
        }
    }

    fn set_status(&mut self, class: FlowId, status: Status) {
        let before = self.status(class);
        let states = self.states.as_mut();
        let Some(state) = states.get_mut(class.index()) else { return };
        let (key, stamp) = match status {
            Status::Idle => (0, IDLE),
            Status::Open => (0, OPEN),
            Status::Closed(until) => (1, until.0),
        };
        state.set_bytes(key);
        state.set_stamp(stamp);
        match (before, status) {
            (Status::Closed(before), Status::Closed(until)) if before < until => {
                Opening::lost(states, class);
            }
            (_, Status::Closed(_)) => Opening::gained(states, class),
            (Status::Closed(_), _) => Opening::lost(states, class),
            _ => {}
        }
    }

    /// The closed class that is due, the one due longest.
    #[inline]
    fn first_due(&self, now: Nanos) -> Option<FlowId> {
        let class = Opening::first(self.states.as_ref())?;
        match self.status(class) {
            Status::Closed(until) if until <= now && until < Nanos::MAX => Some(class),
            _ => None,
        }
    }

    /// Puts closed classes that are due back into the order.
    #[inline]
    fn open_due(&mut self, now: Nanos) {
        for _ in 0..OPENED_A_CALL {
            let Some(class) = self.first_due(now) else { return };
            self.settle(class, 0, 0);
        }
    }

    /// The length that `class`, open, is taken to send next.
    fn next_len(&self, class: FlowId) -> u32 {
        let Some(scheduler) = self.class(class) else { return 0 };
        // Nobody will look at the length: not worth a look at the packet.
        let next = if self.order.looks_ahead() { scheduler.peek(self.now) } else { None };
        next.map_or(scheduler.backlog().bytes, |packet| packet.len)
    }

    /// Brings order and class together after a call in which `arrived` bytes came to `class` and
    /// `lost` bytes were dropped there; either may be 0.
    fn settle(&mut self, class: FlowId, arrived: u32, lost: u32) {
        let Some(scheduler) = self.class(class) else { return };
        let status = Status::of(scheduler, scheduler.backlog(), self.now);
        self.settle_as(class, status, arrived, lost);
    }

    fn settle_as(&mut self, class: FlowId, status: Status, arrived: u32, lost: u32) {
        let Some(held) = self.class(class).map(Scheduler::backlog) else { return };
        let before = self.status(class);
        if before == Status::Open {
            // Arrivals come first: a class whose only packet gave way to a new one stays in its place.
            if arrived != 0 {
                self.order.grew(class, arrived);
            }
            if status != Status::Open {
                self.order.lost(class, lost, None);
            } else if lost != 0 {
                let next = self.next_len(class);
                self.order.lost(class, lost, Some(next));
            }
        } else if status == Status::Open {
            let next = self.next_len(class);
            self.order.backlogged(class, next);
            if held.bytes > next {
                self.order.grew(class, held.bytes.wrapping_sub(next));
            }
        }
        if status != before {
            self.set_status(class, status);
        }
        self.rank(class, held.bytes);
    }

    /// Books that `class` holds so many bytes.
    #[inline]
    fn rank(&mut self, class: FlowId, bytes: u32) {
        let ranks = self.ranks.as_mut();
        let Some(rank) = ranks.get_mut(class.index()) else { return };
        let before = rank.bytes();
        rank.set_bytes(bytes);
        if bytes > before {
            Longest::gained(ranks, class);
        } else {
            Longest::lost(ranks, class);
        }
    }

    /// Lets `change` do something to the scheduler of `class`; what it drops is booked, with `reason` if
    /// there is one.
    fn touch<T>(
        &mut self,
        class: FlowId,
        drops: &mut dyn DropSink,
        reason: Option<DropReason>,
        change: impl FnOnce(&mut S, &mut dyn DropSink) -> T,
    ) -> Option<T> {
        let scheduler = self.classes.as_mut().get_mut(class.index())?;
        let mut tally = Tally::new(&mut self.ledger, drops, reason);
        let result = change(scheduler, &mut tally);
        let lost = tally.lost;
        self.settle(class, 0, lost);
        Some(result)
    }

    /// Makes `class` drop one packet, of its choice: its limit is one packet less for a moment.
    fn shed(&mut self, class: FlowId, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let before = self.ledger.backlog().packets;
        self.touch(class, drops, Some(reason), |scheduler, drops| {
            let limits = scheduler.limits();
            let packets = scheduler.backlog().packets.saturating_sub(1);
            scheduler.set_limits(Limits { packets, ..limits }, drops);
            scheduler.set_limits(limits, drops);
        });
        self.ledger.backlog().packets < before
    }

    #[cold]
    fn reject(&mut self, packet: Packet, reason: RejectReason) -> Rejected {
        self.ledger.totals.rejected.add(packet.len);
        Rejected { packet, reason }
    }

    /// Offers `packet`, for which the node has room, to `class`, as flow `flow` of that class.
    #[inline]
    fn offer(
        &mut self,
        now: Nanos,
        Member { class, flow }: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Some(scheduler) = self.classes.as_mut().get_mut(class.index()) else {
            return Err(self.unknown(class, packet));
        };
        let mut tally = Tally::new(&mut self.ledger, drops, None);
        let outcome = scheduler.enqueue(now, flow, packet, &mut tally);
        let lost = tally.lost;
        if let Err(rejected) = outcome {
            if lost != 0 {
                self.settle(class, 0, lost);
            }
            return Err(self.reject(rejected.packet, rejected.reason));
        }
        self.ledger.accept(packet.len);
        self.ledger.note_peak();
        if lost == 0 && self.status(class) == Status::Open {
            self.order.grew(class, packet.len);
            let held = self.class(class).map(Scheduler::backlog).unwrap_or_default();
            self.rank(class, held.bytes);
        } else {
            self.settle(class, packet.len, lost);
        }
        Ok(())
    }

    /// The numbers are those of the class: [`Scheduler::enqueue`] puts the caller's in their place.
    fn unknown(&mut self, class: FlowId, packet: Packet) -> Rejected {
        let reason = RejectReason::UnknownFlow { flow: class, flows: self.count() };
        self.reject(packet, reason)
    }

    /// The rest of [`Scheduler::enqueue`], where the packet does not simply fit.
    #[cold]
    fn offer_crowded(
        &mut self,
        now: Nanos,
        member: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Some(max) = self.max_len(member.class).filter(|_| member.class.0 < self.count()) else {
            return Err(self.unknown(member.class, packet));
        };
        let len = packet.len;
        if len == 0 || len > max {
            return Err(self.reject(packet, RejectReason::Length { len, max }));
        }
        if self.ledger.could_fit(len) {
            for _ in 0..Self::MAX_VICTIMS {
                if self.ledger.has_room(len) {
                    break;
                }
                let Some(victim) = Longest::first(self.ranks.as_ref()) else { break };
                if victim == member.class {
                    return self.offer_within(now, member, packet, drops);
                }
                if !self.shed(victim, DropReason::Overflow, drops) {
                    break;
                }
            }
        }
        if self.ledger.has_room(len) {
            return self.offer(now, member, packet, drops);
        }
        Err(self.reject(packet, RejectReason::Full { limits: self.ledger.limits() }))
    }

    /// Offers `packet`, for which the node has no room, to its class, which may for the moment hold no
    /// more than it does and what room the node has left.
    fn offer_within(
        &mut self,
        now: Nanos,
        member: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let (limits, held) = (self.ledger.limits(), self.ledger.backlog());
        let Some(scheduler) = self.classes.as_mut().get_mut(member.class.index()) else {
            return Err(self.unknown(member.class, packet));
        };
        let (own, holds) = (scheduler.limits(), scheduler.backlog());
        // What the class holds is part of what the node holds, which is within the limits: no overflow.
        let packets = holds.packets.wrapping_add(limits.packets.saturating_sub(held.packets));
        let bytes = holds.bytes.wrapping_add(limits.bytes.saturating_sub(held.bytes));
        let within = Limits { packets: own.packets.min(packets), bytes: own.bytes.min(bytes) };
        // Nothing is dropped by this: the class holds no more than it may.
        scheduler.set_limits(within, drops);
        let outcome = self.offer(now, member, packet, drops);
        if let Some(scheduler) = self.classes.as_mut().get_mut(member.class.index()) {
            scheduler.set_limits(own, drops);
        }
        outcome.map_err(|Rejected { packet, reason }| match reason {
            RejectReason::Full { .. } => Rejected { packet, reason: RejectReason::Full { limits } },
            _ => Rejected { packet, reason },
        })
    }

    /// `class`, selected, has given nothing. It is set aside, so that it cannot hold up the others.
    #[cold]
    fn pass_over(&mut self, now: Nanos, class: FlowId, lost: u32) {
        let Some(scheduler) = self.class(class) else { return };
        let status = match Status::of(scheduler, scheduler.backlog(), now) {
            Status::Open => Status::Closed(now),
            status => status,
        };
        self.settle_as(class, status, 0, lost);
    }

    /// Who is asked next, if anybody may send.
    #[inline]
    fn next_class(&self, now: Nanos) -> Option<FlowId> {
        self.order.select().or_else(|| self.first_due(now))
    }
}

impl<O, S, C, R, W, B> Scheduler for Classes<O, S, C, R, W, B>
where
    O: FlowScheduler,
    S: Scheduler,
    C: Table<S>,
    R: Classify,
    W: Table<ClassState>,
    B: Table<LongestFlow>,
{
    /// A rejection by a class is handed on as it is; but an unknown flow is called by the number it has
    /// here.
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let outcome = match self.classify.classify(flow) {
            None => Err(self.unknown(flow, packet)),
            Some(member) => {
                self.now = now;
                let max = self.max_len(member.class).unwrap_or(0);
                // Zero wraps to the largest number.
                if packet.len.wrapping_sub(1) < max && self.ledger.has_room(packet.len) {
                    self.offer(now, member, packet, drops)
                } else {
                    self.offer_crowded(now, member, packet, drops)
                }
            }
        };
        if let Err(Rejected { packet, reason }) = outcome {
            let reason = match reason {
                RejectReason::UnknownFlow { .. } => {
                    RejectReason::UnknownFlow { flow, flows: self.classify.flows(self.count()) }
                }
                _ => reason,
            };
            return Err(Rejected { packet, reason });
        }
        self.open_due(now);
        Ok(())
    }

    /// `None` although a class is open only if that class, untouched since it said so, has closed: the
    /// clock has stepped back. It is set aside then, and the next call asks another.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.now = now;
        let class = self.next_class(now)?;
        if self.status(class) != Status::Open {
            self.settle(class, 0, 0);
        }
        let scheduler = self.classes.as_mut().get_mut(class.index())?;
        let mut tally = Tally::new(&mut self.ledger, drops, None);
        let packet = scheduler.dequeue(now, &mut tally);
        let lost = tally.lost;
        let Some(packet) = packet else {
            self.pass_over(now, class, lost);
            return None;
        };
        let held = scheduler.backlog();
        let status = Status::of(scheduler, held, now);
        self.ledger.deliver(packet.len);
        if lost != 0 {
            self.order.lost(class, lost, Some(packet.len));
        }
        let next = (status == Status::Open).then(|| self.next_len(class));
        self.order.served(class, packet.len, next);
        if status != Status::Open {
            self.set_status(class, status);
        }
        self.served = self.served.wrapping_add(1);
        if let Some(rank) = self.ranks.as_mut().get_mut(class.index()) {
            rank.set_stamp(self.served);
            self.rank(class, held.bytes);
        }
        self.open_due(now);
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.class(self.next_class(now)?)?.peek(now)
    }

    /// The instant at which the first class opens, if none is open.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.order.select().is_some() {
            return Some(now);
        }
        match self.status(Opening::first(self.states.as_ref())?) {
            Status::Closed(until) if until < Nanos::MAX => Some(until.max(now)),
            _ => None,
        }
    }

    fn backlog(&self) -> Backlog {
        self.ledger.backlog()
    }

    /// Cost: O(classes), for the marks.
    fn counters(&self) -> Counters {
        let classes = self.classes.as_ref().iter();
        let marked = classes.fold(0, |sum, class| class.counters().marked.wrapping_add(sum));
        Counters { marked, ..self.ledger.counters() }
    }

    /// Those that its class has of it. A packet that the node rejected itself is not in them, and what
    /// the node made the class drop is there for a lowered limit.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let Member { class, flow } = self.classify.classify(flow)?;
        self.class(class)?.flow_counters(flow)
    }

    fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    /// The longest class gives way; without ranks the class that is served next.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        while self.ledger.is_over() {
            let longest = Longest::first(self.ranks.as_ref());
            let next = || self.order.select().or_else(|| Opening::first(self.states.as_ref()));
            let Some(victim) = longest.or_else(next) else { break };
            if !self.shed(victim, DropReason::LimitLowered, drops) {
                break; // a class that keeps what it is told to drop is broken; recount says so
            }
        }
    }

    /// In the order of the classes. Cost: O(packets + classes).
    fn drain(&mut self, drops: &mut dyn DropSink) {
        for class in (0..self.count()).map(FlowId) {
            self.touch(class, drops, None, |scheduler, drops| scheduler.drain(drops));
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let classes = self.classes.as_ref();
        let (mut packets, mut bytes, mut open) = (0_u64, 0_u64, false);
        for (at, class) in (0..).zip(classes) {
            class.recount()?;
            let held = class.backlog();
            packets += u64::from(held.packets);
            bytes += u64::from(held.bytes);
            let status = self.status(FlowId(at));
            let idle = status == Status::Idle;
            Imbalance::check("idle and empty", at, idle.into(), (held.packets == 0).into())?;
            open |= status == Status::Open;
        }
        let held = self.ledger.backlog();
        Imbalance::check("packets in the classes", 0, held.packets.into(), packets)?;
        Imbalance::check("bytes in the classes", 0, held.bytes.into(), bytes)?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())?;
        let selects = self.order.select().is_some();
        Imbalance::check("an open class and selection", 0, open.into(), selects.into())?;
        let closed = |class| matches!(self.status(class), Status::Closed(_));
        Opening::recount(self.states.as_ref(), &|class| {
            let closed = u32::from(closed(class));
            FlowState { backlog: Backlog { packets: closed, bytes: closed }, head_len: None }
        })?;
        let holds = |class: FlowId| self.class(class).map(Scheduler::backlog).unwrap_or_default();
        Longest::recount(self.ranks.as_ref(), &|class| FlowState {
            backlog: holds(class),
            head_len: None,
        })?;
        self.order.recount(&|class| match self.status(class) {
            Status::Open => {
                FlowState { backlog: holds(class), head_len: Some(self.next_len(class)) }
            }
            _ => FlowState::default(),
        })
    }
}
