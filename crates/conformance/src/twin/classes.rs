//! Reference model of a hierarchy: lists of the packets in each class, and the classes that may
//! send.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Backlog, Books, ConfigError, Counters, DropReason, DropSink, FlowId, Imbalance, Limits, Nanos,
    Packet, RejectReason, Rejected, Scheduler,
};

use super::flow_scheduler::{NaiveFlowScheduler, QueuedPacket};
use super::queues::{backlog_of, clamped, raise};
use crate::history::{ConfigurableScheduler, Setting};

/// Maximum number of classes reopened after one call.
const OPENED_A_CALL: usize = 2;

/// State of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Idle,
    Open,
    Closed(Nanos),
}

/// Classes under a flow scheduler. A flow's number is its class times `flows_a_class`, plus its
/// number within the class.
#[derive(Clone, Debug)]
pub struct NaiveClasses<O, T> {
    scheduler: O,
    classes: Vec<T>,
    flows_a_class: u32,
    /// If true, packets are dropped from the class with the most bytes.
    drops_from_longest: bool,
    /// Packets of each class, in order of arrival.
    held: Vec<VecDeque<QueuedPacket>>,
    status: Vec<Status>,
    /// Number of departures at the last service of each class.
    served: Vec<u64>,
    limits: Limits,
    total: Counters,
    now: Nanos,
}

impl<O: NaiveFlowScheduler, T: ConfigurableScheduler> NaiveClasses<O, T> {
    /// Creates a hierarchy of empty `classes` under `scheduler`, each with flows numbered below
    /// `flows_a_class`.
    #[must_use]
    pub fn new(scheduler: O, classes: Vec<T>, flows_a_class: u32, limits: Limits) -> Self {
        let count = classes.len();
        Self {
            scheduler,
            classes,
            flows_a_class,
            drops_from_longest: false,
            held: vec![VecDeque::new(); count],
            status: vec![Status::Idle; count],
            served: vec![0; count],
            limits: clamped(limits),
            total: Counters::default(),
            now: Nanos(0),
        }
    }

    /// Drops packets from the class with the most bytes to make space for arrivals of others.
    #[must_use]
    pub fn dropping_from_longest(self) -> Self {
        Self { drops_from_longest: true, ..self }
    }

    /// Splits `flow` into its class and the number within it.
    fn split(&self, flow: FlowId) -> (FlowId, FlowId) {
        (FlowId(flow.0 / self.flows_a_class), FlowId(flow.0 % self.flows_a_class))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.classes.len()).expect("as constructed")
    }

    fn flows(&self) -> u32 {
        self.count() * self.flows_a_class
    }

    /// Returns the packets visible to the flow scheduler, those of open classes.
    fn open(&self) -> Vec<VecDeque<QueuedPacket>> {
        let classes = self.held.iter().zip(&self.status);
        let seen = classes.map(|(held, &status)| match status {
            Status::Open => held.clone(),
            _ => VecDeque::new(),
        });
        seen.collect()
    }

    fn select(&self) -> Option<FlowId> {
        self.scheduler.select(&self.open())
    }

    /// Returns the closed class that opens first and its time, if any.
    fn first_to_open(&self) -> Option<(Nanos, FlowId)> {
        let closed = (0..).zip(&self.status).filter_map(|(at, &status)| match status {
            Status::Closed(until) if until < Nanos::MAX => Some((until, FlowId(at))),
            _ => None,
        });
        closed.min()
    }

    fn next_class(&self, now: Nanos) -> Option<FlowId> {
        let due = || self.first_to_open().filter(|&(until, _)| until <= now);
        self.select().or_else(|| due().map(|(_, class)| class))
    }

    fn longest(&self) -> Option<FlowId> {
        let bytes = |class: usize| backlog_of(self.held[class].iter()).bytes;
        let longest = (0..self.classes.len())
            .filter(|&class| bytes(class) > 0)
            .min_by_key(|&class| (!bytes(class), self.served[class], class))?;
        self.drops_from_longest.then_some(FlowId(u32::try_from(longest).expect("a class")))
    }

    fn fits(&self, beside: Backlog, len: u32) -> bool {
        beside.packets < self.limits.packets
            && u64::from(beside.bytes) + u64::from(len) <= self.limits.bytes.into()
    }

    fn is_over(&self) -> bool {
        let held = Scheduler::backlog(self);
        held.packets > self.limits.packets || held.bytes > self.limits.bytes
    }

    fn reject(&mut self, packet: Packet, reason: RejectReason) -> Rejected {
        self.total.rejected.add(packet.len);
        Rejected { packet, reason }
    }

    /// Runs `action` on a class and counts its drops, under `reason` if one is given.
    fn call<A>(
        &mut self,
        class: FlowId,
        reason: Option<DropReason>,
        drops: &mut dyn DropSink,
        action: impl FnOnce(&mut T, &mut dyn DropSink) -> A,
    ) -> (A, usize) {
        let mut dropped = Vec::new();
        let result = action(&mut self.classes[class.index()], &mut |packet, why| {
            dropped.push((packet, reason.unwrap_or(why)));
        });
        for &(packet, why) in &dropped {
            self.held[class.index()].retain(|held| held.packet.handle != packet.handle);
            self.total.count_dropped(why, packet.len);
            drops.dropped(packet, why);
        }
        (result, dropped.len())
    }

    fn status_now(&self, class: FlowId) -> Status {
        let scheduler = &self.classes[class.index()];
        match scheduler.poll_at(self.now) {
            _ if scheduler.backlog().packets == 0 => Status::Idle,
            Some(at) if at <= self.now => Status::Open,
            Some(at) => Status::Closed(at),
            None => Status::Closed(Nanos::MAX),
        }
    }

    /// Returns the length of the next packet of an open class; 1 if it is no longer open since the
    /// clock stepped back.
    fn next_len(&self, class: FlowId) -> u32 {
        self.classes[class.index()].peek(self.now).map_or(1, |packet| packet.len)
    }

    /// Informs the flow scheduler of a class that lost packets, received one, or opened.
    fn tell(&mut self, class: FlowId, status: Status, lost: usize) {
        let before = core::mem::replace(&mut self.status[class.index()], status);
        match (before, status) {
            (Status::Open, Status::Open) if lost > 0 => {
                self.scheduler.lost(class, Some(self.next_len(class)));
            }
            (Status::Open, Status::Idle | Status::Closed(_)) => self.scheduler.lost(class, None),
            (Status::Idle | Status::Closed(_), Status::Open) => {
                let len = self.next_len(class);
                self.scheduler.backlogged(class, len);
            }
            _ => {}
        }
        self.settle();
    }

    fn settle(&mut self) {
        let open = self.open();
        self.scheduler.settle(&open);
    }

    fn open_due(&mut self, now: Nanos) {
        for _ in 0..OPENED_A_CALL {
            let Some((_, class)) = self.first_to_open().filter(|&(until, _)| until <= now) else {
                return;
            };
            self.tell(class, self.status_now(class), 0);
        }
    }

    /// Selects the class to drop from: the longest, or without ranks the next one to be served or
    /// to open.
    fn gives_way(&self) -> Option<FlowId> {
        let opens_first = || {
            let closed = (0..).zip(&self.status).filter_map(|(at, &status)| match status {
                Status::Closed(until) => Some((until, FlowId(at))),
                _ => None,
            });
            closed.min().map(|(_, class)| class)
        };
        self.longest().or_else(|| self.select()).or_else(opens_first)
    }

    /// Makes a class drop one packet, of its own choice.
    fn shed(&mut self, class: FlowId, reason: DropReason, drops: &mut dyn DropSink) {
        let ((), lost) = self.call(class, Some(reason), drops, |scheduler, drops| {
            let limits = scheduler.limits();
            let packets = scheduler.backlog().packets - 1;
            scheduler.set_limits(Limits { packets, ..limits }, drops);
            scheduler.set_limits(limits, drops);
        });
        assert_eq!(lost, 1, "a limit one packet lower costs one packet");
        self.tell(class, self.status_now(class), lost);
    }

    fn offer(
        &mut self,
        class: FlowId,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let now = self.now;
        let before = self.status[class.index()];
        let (outcome, lost) = self.call(class, None, drops, |scheduler, drops| {
            scheduler.enqueue(now, flow, packet, drops)
        });
        match outcome {
            Ok(()) => {
                self.held[class.index()].push_back(QueuedPacket { flow, packet });
                self.total.accepted.add(packet.len);
                let held = Scheduler::backlog(self);
                raise(&mut self.total.peak, held);
                if before != Status::Open || lost > 0 {
                    self.tell(class, self.status_now(class), lost);
                }
                self.settle();
                Ok(())
            }
            Err(rejected) => {
                if lost > 0 {
                    self.tell(class, self.status_now(class), lost);
                }
                Err(self.reject(packet, rejected.reason))
            }
        }
    }

    fn make_room_and_offer(
        &mut self,
        class: FlowId,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let limits = self.limits;
        let full = RejectReason::Full { limits };
        if !self.fits(Backlog::default(), packet.len) {
            return Err(self.reject(packet, full));
        }
        loop {
            let all = Scheduler::backlog(self);
            match self.longest() {
                _ if self.fits(all, packet.len) => break,
                None => break,
                Some(victim) if victim != class => self.shed(victim, DropReason::Overflow, drops),
                Some(_) => {
                    // The class is limited by its own limits and by the free space of the node.
                    let own = self.classes[class.index()].limits();
                    let holds = self.classes[class.index()].backlog();
                    let within = Limits {
                        packets: own.packets.min(holds.packets + (limits.packets - all.packets)),
                        bytes: own.bytes.min(holds.bytes + (limits.bytes - all.bytes)),
                    };
                    self.classes[class.index()].set_limits(within, drops);
                    let outcome = self.offer(class, flow, packet, drops);
                    self.classes[class.index()].set_limits(own, drops);
                    return outcome.map_err(|rejected| match rejected.reason {
                        RejectReason::Full { .. } => Rejected { reason: full, ..rejected },
                        _ => rejected,
                    });
                }
            }
        }
        if self.fits(Scheduler::backlog(self), packet.len) {
            return self.offer(class, flow, packet, drops);
        }
        Err(self.reject(packet, full))
    }
}

impl<O: NaiveFlowScheduler, T: ConfigurableScheduler> Scheduler for NaiveClasses<O, T> {
    fn enqueue(
        &mut self,
        now: Nanos,
        named: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.now = now;
        self.scheduler.advance(now);
        let (class, flow) = self.split(named);
        let max = if class.0 < self.count() { self.scheduler.max_len(class) } else { None };
        let Some(max) = max else {
            let reason = RejectReason::UnknownFlow { flow: named, flows: self.flows() };
            return Err(self.reject(packet, reason));
        };
        let (len, max) = (packet.len, max.min(Packet::MAX_LEN));
        if !(1..=max).contains(&len) {
            return Err(self.reject(packet, RejectReason::Length { len, max }));
        }
        let unknown = RejectReason::UnknownFlow { flow: named, flows: self.flows() };
        self.make_room_and_offer(class, flow, packet, drops).map_err(|rejected| match rejected
            .reason
        {
            RejectReason::UnknownFlow { .. } => Rejected { reason: unknown, ..rejected },
            _ => rejected,
        })?;
        self.open_due(now);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.now = now;
        self.scheduler.advance(now);
        let class = self.next_class(now)?;
        if self.status[class.index()] != Status::Open {
            self.tell(class, self.status_now(class), 0);
        }
        let (packet, lost) =
            self.call(class, None, drops, |scheduler, drops| scheduler.dequeue(now, drops));
        let status = self.status_now(class);
        let Some(packet) = packet else {
            let at_once = Status::Closed(now.min(Nanos(u64::MAX - 1)));
            let aside = if status == Status::Open { at_once } else { status };
            self.tell(class, aside, lost);
            return None;
        };
        self.held[class.index()].retain(|held| held.packet.handle != packet.handle);
        self.total.delivered.add(packet.len);
        self.status[class.index()] = status;
        let next = (status == Status::Open).then(|| self.next_len(class));
        // The first packet of the class may have changed since the flow scheduler was informed.
        self.scheduler.lost(class, Some(packet.len));
        self.scheduler.served(class, packet.len, next);
        self.settle();
        self.served[class.index()] = self.total.delivered.packets;
        self.open_due(now);
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.classes[self.next_class(now)?.index()].peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.select().is_some() {
            return Some(now);
        }
        self.first_to_open().map(|(until, _)| until.max(now))
    }

    fn backlog(&self) -> Backlog {
        backlog_of(self.held.iter().flatten())
    }

    fn books(&self) -> Books {
        let marked = self.classes.iter().map(|class| class.counters().marked).sum();
        let came_marked = self.classes.iter().map(|class| class.counters().came_marked).sum();
        let mut counters = self.total;
        counters.marked = marked;
        counters.came_marked = came_marked;
        Books { backlog: self.backlog(), counters, limits: self.limits }
    }

    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let (class, flow) = self.split(flow);
        self.classes.get(class.index())?.flow_counters(flow)
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.limits = clamped(limits);
        while self.is_over() {
            let victim = self.gives_way().expect("packets are queued");
            self.shed(victim, DropReason::LimitLowered, drops);
        }
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let Some(victim) = self.gives_way() else { return false };
        self.shed(victim, DropReason::Overflow, drops);
        true
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        for class in (0..self.count()).map(FlowId) {
            let ((), lost) =
                self.call(class, None, drops, |scheduler, drops| scheduler.drain(drops));
            self.tell(class, self.status_now(class), lost);
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.classes.iter().try_for_each(Scheduler::recount)
    }
}

impl<O: NaiveFlowScheduler, T: ConfigurableScheduler> ConfigurableScheduler for NaiveClasses<O, T> {
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        let (class, number) = self.split(flow);
        if class.0 >= self.count() {
            return Err(ConfigError::UnknownFlow { flow, flows: self.flows() });
        }
        self.now = Nanos(0);
        let outcome = self.classes[class.index()].configure(number, setting);
        self.tell(class, self.status_now(class), 0);
        outcome?;
        let open = self.status[class.index()] == Status::Open;
        let head_len = open.then(|| self.next_len(class));
        self.scheduler.configure(class, setting, head_len)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        let (class, number) = self.split(flow);
        if class.0 >= self.count() {
            return;
        }
        self.now = Nanos(0);
        let ((), lost) = self.call(class, None, drops, |scheduler, drops| {
            scheduler.remove_flow(number, drops);
        });
        self.tell(class, self.status_now(class), lost);
        let removed = Some(DropReason::FlowRemoved);
        let ((), lost) =
            self.call(class, removed, drops, |scheduler, drops| scheduler.drain(drops));
        self.tell(class, Status::Idle, lost);
        self.scheduler.remove(class);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        let (class, _) = self.split(flow);
        if class.0 < self.count() { self.scheduler.setting(class) } else { None }
    }

    fn notices_used_handles(&self) -> bool {
        false
    }
}
