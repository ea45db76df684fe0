//! Hierarchies: schedulers under a flow scheduler.
//!
//! [`Classes`] is to schedulers what [`FlowQueues`](crate::FlowQueues) is to queues: a flow
//! scheduler selects the class to serve, and the class, any [`Scheduler`], the packet. It is a
//! `Scheduler` itself, so classes nest: users above flows, operators above users.
//!
//! **Promises.** A class is served like a flow of that flow scheduler, whatever its own scheduler
//! does and however many flows it has. For a flow that stays backlogged, below classes that may
//! always send, the guarantees of the levels add up. `α_0` is the B-WFI of the flow in its class,
//! `α_1` the B-WFI of the class in the node above, and so on; `ψ_0`, `ψ_1`, … are the shares from
//! the flow up, and `φ = ψ_0·ψ_1·…`:
//!
//! > `φ·W − W_flow ≤ α_0 + ψ_0·α_1 + ψ_0·ψ_1·α_2 + …`
//!
//! See `docs/proofs/hierarchy.md` for the derivation.
//!
//! **Suitable flow schedulers.** The next packet of a class may change with every arrival. So a
//! suitable flow scheduler charges a class for a packet when it is sent: [`Qfq`](crate::Qfq),
//! [`Drr`](crate::Drr) and [`ShortestQueue`](crate::ShortestQueue). One that [looks
//! ahead](crate::Needs::looks_ahead) receives, after each departure, the length that the class
//! would send next; it is exact only while no arrival changes this length. One that is [not
//! work-conserving](FlowScheduler::waits) is unsuitable: a class that may send must be selected.
//!
//! **Closed classes.** For the flow scheduler a class is backlogged while [`Scheduler::poll_at`]
//! returns that it may send. A class behind a shaper, with packets of which none may leave yet, is
//! *closed*: its siblings are served. Once the class is due, it is opened at the end of an
//! `enqueue` or `dequeue`, at most two classes per call. So a packet of a class that is due may
//! have to wait for one more packet of a sibling. A shaper without catch-up loses the time of this
//! packet: give it some catch-up. If no class is open, the class that is due first is served at
//! once.
//!
//! **Handles.** Each class has its own descriptors, so a handle that is queued in one class is
//! accepted by another: each class returns [`RejectReason::HandleInUse`] for its own descriptors
//! only. Accounting and flow scheduler stay correct, and the handle leaves once from each class. A
//! search in all classes would cost O(classes) per packet.
//!
//! **Cost.** A call costs that of the flow scheduler, that of the class, and O(1); O(log classes)
//! while classes are closed, and if the longest class is dropped from. Depth adds up: a packet
//! passes each level once. Memory: 16 bytes per class, 32 if the longest is dropped from, and the
//! descriptors of each class.

mod classify;
mod open_classes;
mod recount;
mod room;
mod tally;

use crate::disciplines::tournament::{Ranked, ranked};
use crate::flow_scheduler::{ConfigError, FlowScheduler, Table};
use crate::queues::counters::{Counters, Ledger};
use crate::scheduler::{
    Backlog, Books, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{FlowId, Nanos, Packet};
use open_classes::{Opening, Status};
use room::Longest;
use tally::Tally;

pub use classify::{Classify, LowBits, Member};

ranked! {
    /// The state of a class in its node: 16 bytes.
    ClassState
}

ranked! {
    /// The entry of one class for [`Classes::dropping_from_longest`]: 16 bytes.
    LongestClass
}

/// Classes of the type `S` under the flow scheduler `O`; `R` maps flows to classes. The tables are
/// `M`.
///
/// `S` may be any scheduler, a reference to one, or a box: `&mut dyn Scheduler` and `Box<dyn
/// Scheduler>` are schedulers.
///
/// Example: two users with weights 1 and 3, each with deficit round robin among its flows:
///
/// ```
/// use sched_core::{
///     ClassState, Classes, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LowBits, Nanos,
///     Packet, Qfq, QfqConfig, QfqFlow, Queue, Scheduler,
/// };
///
/// let mut flows = Drr::new([DrrFlow::EMPTY; 4], 1_500)?;
/// flows.add_all(1_500)?;
/// let user = FlowQueues::with_own_victim(
///     flows,
///     [Queue::EMPTY; 4],
///     [Descriptor::EMPTY; 64],
///     Limits::NONE,
/// );
/// let users = Qfq::new([QfqFlow::EMPTY; 2], 1_500)?;
/// let states = [ClassState::EMPTY; 2];
/// let mut link =
///     Classes::new(users, [user.clone(), user], states, LowBits::new(2)?, Limits::NONE);
/// for (user, weight) in [(FlowId(0), 1), (FlowId(1), 3)] {
///     link.configure(user, QfqConfig { weight, max_len: 1_500 })?;
/// }
///
/// // Flow 2 of user 0; flows 1 and 3 of user 1.
/// let drops = &mut |_: Packet, _| unreachable!("there is no limit");
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
///
/// A scheduler must be a class of only one node, because only that node is notified of its packets:
/// in two nodes (CVE-2025-21700) the accounting of both would be wrong. Whether it is owned or
/// borrowed, the compiler rejects the second use:
///
/// ```
/// # use sched_core::{
/// #     ClassState, Classes, Descriptor, Drr, DrrFlow, Fifo, Limits, LowBits, Nanos,
/// #     Scheduler,
/// # };
/// # let scheduler = Drr::new([DrrFlow::EMPTY; 1], 1_500).unwrap();
/// # let split = LowBits::new(0).unwrap();
/// # let states = [ClassState::EMPTY; 1];
/// let mut first = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
/// let mut second = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
/// let one = Classes::new(scheduler.clone(), [&mut first], states, split, Limits::NONE);
/// let other = Classes::new(scheduler, [&mut second], states, split, Limits::NONE);
/// assert_eq!(one.peek(Nanos(0)), other.peek(Nanos(0)));
/// ```
///
/// ```compile_fail,E0499
/// # use sched_core::{
/// #     ClassState, Classes, Descriptor, Drr, DrrFlow, Fifo, Limits, LowBits, Nanos,
/// #     Scheduler,
/// # };
/// # let scheduler = Drr::new([DrrFlow::EMPTY; 1], 1_500).unwrap();
/// # let split = LowBits::new(0).unwrap();
/// # let states = [ClassState::EMPTY; 1];
/// let mut first = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
/// let one = Classes::new(scheduler.clone(), [&mut first], states, split, Limits::NONE);
/// let other = Classes::new(scheduler, [&mut first], states, split, Limits::NONE);
/// assert_eq!(one.peek(Nanos(0)), other.peek(Nanos(0)));
/// ```
#[derive(Clone)]
pub struct Classes<O, S, R, M: ClassTables<S>> {
    /// A class is backlogged here if and only if it is [`Status::Open`], with the bytes it holds.
    scheduler: O,
    classes: M::Classes,
    classify: R,
    states: M::States,
    /// The backlog of each class; classes beyond the table are not ranked.
    ranks: M::Ranks,
    ledger: Ledger,
    /// The last timestamp.
    now: Nanos,
    /// Packets delivered: the stamp of the class that was served last.
    served: u64,
}

crate::debug::short_debug!(Classes < O, S, R, M: ClassTables<S> > { ledger });

/// The tables of [`Classes`] of type `S`, as a type: `(classes, states)`, optionally followed by
/// ranks.
pub trait ClassTables<S> {
    /// The schedulers.
    type Classes: Table<S>;
    /// One state per class.
    type States: Table<ClassState>;
    /// One rank per class, if [the longest](Classes::dropping_from_longest) is dropped from.
    type Ranks: Table<LongestClass>;
}

impl<S, C: Table<S>, W: Table<ClassState>> ClassTables<S> for (C, W) {
    type Classes = C;
    type States = W;
    type Ranks = [LongestClass; 0];
}

impl<S, C, W, B> ClassTables<S> for (C, W, B)
where
    C: Table<S>,
    W: Table<ClassState>,
    B: Table<LongestClass>,
{
    type Classes = C;
    type States = W;
    type Ranks = B;
}

impl<O, S, R, C, W> Classes<O, S, R, (C, W)>
where
    O: FlowScheduler,
    S: Scheduler,
    C: Table<S>,
    R: Classify,
    W: Table<ClassState>,
{
    /// Creates a node of empty `classes` under `scheduler`, in which no class is backlogged. A
    /// packet that exceeds `limits`, which apply to all classes together, is rejected.
    ///
    /// The number of classes is the smallest capacity of `scheduler`, `classes` and `states`. Cost:
    /// O(classes).
    #[must_use]
    pub fn new(scheduler: O, classes: C, mut states: W, classify: R, limits: Limits) -> Self {
        states.as_mut().fill(ClassState::EMPTY);
        Opening::play_all(states.as_mut());
        let ledger = Ledger::new(limits);
        let (now, served) = (Nanos::ZERO, 0);
        Self { scheduler, classes, classify, states, ranks: [], ledger, now, served }
    }

    /// Drops from the class with the longest backlog in bytes when the node is full; the class
    /// selects the packet. `ranks` needs an entry per class; classes beyond it are never dropped
    /// from. The flow scheduler's own victim is ignored. Cost: O(classes).
    ///
    /// The arriving packet itself does not count: if its own class has the longest backlog, that
    /// class must drop one of its packets, or reject the arriving one.
    #[must_use]
    pub fn dropping_from_longest<B: Table<LongestClass>>(
        self,
        mut ranks: B,
    ) -> Classes<O, S, R, (C, W, B)> {
        ranks.as_mut().fill(LongestClass::EMPTY);
        Longest::play_all(ranks.as_mut());
        let Self { scheduler, classes, classify, states, ledger, now, served, .. } = self;
        Classes { scheduler, classes, classify, states, ranks, ledger, now, served }
    }
}

impl<O, S, R, M> Classes<O, S, R, M>
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    /// Returns the flow scheduler of classes.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// Returns the mapping from flows to classes.
    #[must_use]
    pub const fn classifier(&self) -> &R {
        &self.classify
    }

    /// Returns the scheduler of `class`.
    #[must_use]
    pub fn class(&self, class: FlowId) -> Option<&S> {
        self.classes.as_ref().get(class.index())
    }

    /// Calls `change` with the scheduler of `class` at `now`, to add or remove a flow or to set a
    /// rate or a limit. Packets that it drops must go to the sink it receives, and it must neither
    /// enqueue nor dequeue: that would bypass the node's accounting, which [`Scheduler::recount`]
    /// reports. Returns `None` if there is no such class.
    pub fn with_class<T>(
        &mut self,
        now: Nanos,
        class: FlowId,
        drops: &mut dyn DropSink,
        change: impl FnOnce(&mut S, &mut dyn DropSink) -> T,
    ) -> Option<T> {
        self.class(class)?;
        self.now = now;
        self.scheduler.advance(now);
        self.touch(class, drops, None, change)
    }

    /// Adds `class` to the flow scheduler, or changes its configuration while it is idle or
    /// backlogged; its packets stay.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure(&mut self, class: FlowId, config: O::Config) -> Result<(), ConfigError> {
        let flows = self.count();
        if class.0 >= flows {
            return Err(ConfigError::UnknownFlow { flow: class, flows });
        }
        let head_len = (self.status(class) == Status::Open).then(|| self.next_len(class));
        self.scheduler.configure(class, config, head_len)
    }

    /// Returns the configuration of `class`; `None` if it was not added.
    #[must_use]
    pub fn config(&self, class: FlowId) -> Option<O::Config> {
        self.scheduler.config(class).filter(|_| class.0 < self.count())
    }

    /// Removes `class` from the flow scheduler; its packets go to `drops`, and its scheduler stays,
    /// empty. A second call changes nothing. Cost: O(packets of the class).
    pub fn remove_class(&mut self, class: FlowId, drops: &mut dyn DropSink) {
        let removed = Some(DropReason::FlowRemoved);
        self.touch(class, drops, removed, |scheduler, drops| scheduler.drain(drops));
        self.scheduler.remove(class);
        self.set_status(class, Status::Idle);
    }

    /// Returns the number of classes; valid numbers are below it.
    #[must_use]
    pub fn count(&self) -> u32 {
        let tables = self.classes.as_ref().len().min(self.states.as_ref().len());
        self.scheduler.flows().min(u32::try_from(tables).unwrap_or(u32::MAX))
    }

    /// Calls `change` with the scheduler of `class`, and accounts what it drops, with `reason` if
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
}

impl<O, S, R, M> Scheduler for Classes<O, S, R, M>
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    /// Forwards the rejection of a class, except that the flow number of an unknown flow becomes
    /// the one in this node.
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
                self.scheduler.advance(now);
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

    /// Returns `None` although a class is open only if this class has closed without a call since
    /// it last reported that it may send, because the clock has stepped back. The class is then set
    /// aside, and the next call tries another class.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.now = now;
        self.scheduler.advance(now);
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
            self.scheduler.lost(class, lost, Some(packet.len));
        }
        let next = (status == Status::Open).then(|| self.next_len(class));
        self.scheduler.served(class, packet.len, next);
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

    /// Returns the time at which the first class opens, if none is open.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.scheduler.select().is_some() {
            return Some(now);
        }
        match Opening::first(self.states.as_ref()).map(|class| self.status(class)) {
            Some(Status::Closed(until)) if until < Nanos::MAX => Some(until.max(now)),
            _ => None,
        }
    }

    fn backlog(&self) -> Backlog {
        self.ledger.backlog()
    }

    fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    /// Cost: O(classes), for the marks.
    fn books(&self) -> Books {
        let mut books = self.ledger.books();
        for class in self.classes.as_ref() {
            let Counters { marked, came_marked, .. } = class.counters();
            books.counters.marked = books.counters.marked.wrapping_add(marked);
            books.counters.came_marked = books.counters.came_marked.wrapping_add(came_marked);
        }
        books
    }

    /// Returns the counters that the class of `flow` keeps for it. They do not include packets that
    /// the node itself rejected. A packet that the node made the class drop counts as dropped
    /// because of a lowered limit.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let Member { class, flow } = self.classify.classify(flow)?;
        self.class(class)?.flow_counters(flow)
    }

    /// Drops from the longest class; without ranks, from the class that would be served next.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        while self.ledger.is_over() && self.give_way(DropReason::LimitLowered, drops) {}
    }

    /// Drops a packet of the longest class; without ranks, of the class that would be served next.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    /// Drops in the order of the classes. Cost: O(packets + classes).
    fn drain(&mut self, drops: &mut dyn DropSink) {
        for class in (0..self.count()).map(FlowId) {
            self.touch(class, drops, None, |scheduler, drops| scheduler.drain(drops));
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.recount_all()
    }
}
