//! CAKE's queue as published, simple and slow: a reference model to measure how far the assembled
//! queue departs from it.
//!
//! **Source.** *Piece of CAKE* (IEEE LANMAN 2018) §III: quanta divided by the load of the hosts
//! (Algorithm 2), COBALT, the ACK filter. The lists of new and old flows are from RFC 8290 §4. As
//! in Linux, the quantum of a flow is 1/4096 of the bytes per second, between 300 bytes and a
//! frame, and flows that repeatedly become empty do not count as load.
//!
//! **Simplifications.** One tin, one host on either side, a queue for each key without collisions.
//! BLUE is omitted because nothing overflows here. A divided quantum is rounded down, where CAKE
//! rounds randomly.

use std::collections::{HashMap, VecDeque};

use freeboard::flowhash::{Ack, FlowKey, SipHash13};
use freeboard::sched_core::{
    Backlog, Books, CobaltParams, Counters, DropReason, DropSink, Ecn, FlowId, Imbalance, Limits,
    Nanos, Packet, RejectReason, Rejected, Scheduler,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{AckFilter, Dscp, supersedes};

use super::{Bottleneck, line_and_overhead};

#[cfg(test)]
mod tests;

/// CAKE's flow lists with COBALT and the ACK filter, over flows by key.
#[derive(Debug)]
pub struct FlowLists {
    law: Law,
    filter: AckFilter,
    quantum: u32,
    limits: Limits,
    numbers: HashMap<FlowKey, usize>,
    flows: Vec<Flow>,
    /// Flows that have just begun to send, those that keep sending, and empty ones whose COBALT
    /// state is not yet reset.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    decaying: VecDeque<usize>,
    held: Backlog,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    /// New, and within its quantum so far.
    Sparse,
    /// Became empty when its quantum was used up: among the old flows, but no load until a packet
    /// arrives.
    SparseWait,
    Bulk,
    Decaying,
}

#[derive(Debug, Default)]
struct Flow {
    queue: VecDeque<(Packet, Nanos)>,
    place: Place,
    deficit: i64,
    cobalt: State,
}

/// COBALT's parameters for the rate.
#[derive(Debug)]
struct Law {
    acceptable: Nanos,
    interval: Nanos,
}

#[derive(Debug, Default)]
struct State {
    count: u32,
    next: Nanos,
    stands: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Mark,
    Drop,
}

impl Law {
    fn spacing(&self, count: u32) -> Nanos {
        Nanos((self.interval.0 as f64 / libm::sqrt(f64::from(count.max(1)))) as u64)
    }

    /// Decides on a packet that is about to leave.
    fn judge(&self, state: &mut State, now: Nanos, sojourn: Nanos, ecn: Ecn) -> Verdict {
        let mut is_due = state.count > 0 && now >= state.next;
        let above = sojourn > self.acceptable;
        if above && !state.stands {
            state.next = now.plus(self.spacing(state.count));
            state.count = state.count.max(1);
        }
        state.stands = above;
        let mut verdict = Verdict::Pass;
        if is_due && above {
            verdict = if ecn.is_capable() { Verdict::Mark } else { Verdict::Drop };
            state.count += 1;
            state.next = state.next.plus(self.spacing(state.count));
        }
        while is_due && !above {
            state.count -= 1;
            state.next = state.next.plus(self.spacing(state.count));
            is_due = state.count > 0 && now >= state.next;
        }
        if state.count == 0 {
            state.next = now.plus(self.interval);
        } else if now >= state.next && verdict != Verdict::Drop {
            state.next = now;
        }
        verdict
    }

    /// Handles an empty queue. Returns true if COBALT state must be kept.
    fn empty(&self, state: &mut State, now: Nanos) -> bool {
        state.stands = false;
        if state.count > 0 && now >= state.next {
            state.count -= 1;
            state.next = state.next.plus(self.spacing(state.count));
        }
        state.count > 0 || now < state.next
    }
}

impl FlowLists {
    /// Creates an empty queue in front of `line`. Handles are numbered up to `limits.packets`,
    /// inclusively; COBALT is configured for packets of `max_len` bytes.
    #[must_use]
    pub fn behind(
        line: Shaper,
        link: Overhead,
        limits: Limits,
        max_len: u32,
        filter: AckFilter,
    ) -> Box<dyn Bottleneck> {
        let lists = Self::new(line.rate(), link, limits, max_len, filter);
        Box::new(Shaped::new(lists, line, link))
    }

    fn new(rate: Rate, link: Overhead, limits: Limits, max_len: u32, filter: AckFilter) -> Self {
        let mtu_time = rate.time_of(link.wire_len(max_len));
        let params = CobaltParams::INTERNET.with_mtu_time(mtu_time);
        let acceptable = params.target_on_line().max(Nanos(4 * mtu_time.0));
        let law = Law { acceptable, interval: params.interval_on_line() };
        let bytes = rate.as_bits_per_second().unwrap_or(u64::MAX) / 8;
        let quantum = u32::try_from(bytes >> 12).unwrap_or(u32::MAX).clamp(300, max_len.max(300));
        Self {
            law,
            filter,
            quantum,
            limits,
            numbers: HashMap::new(),
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            held: Backlog::default(),
            counters: Counters::default(),
        }
    }

    fn arrive(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        packet: Packet,
        acks: &dyn Fn(Packet) -> Option<Ack>,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.held.packets >= self.limits.packets
            || packet.len > self.limits.bytes.saturating_sub(self.held.bytes)
        {
            self.counters.count_dropped(DropReason::Rejected, packet.len);
            return Err(Rejected { packet, reason: RejectReason::Full { limits: self.limits } });
        }
        let count = self.numbers.len();
        let number = *self.numbers.entry(*key).or_insert(count);
        if number == self.flows.len() {
            self.flows.push(Flow::default());
        }
        self.counters.accepted.add(packet.len);
        self.hold(packet.len);
        self.flows[number].queue.push_back((packet, now));
        self.thin(number, packet, acks, drops);
        self.enlist(number);
        Ok(())
    }

    /// Drops the oldest acknowledgement that the new one makes redundant.
    fn thin(
        &mut self,
        number: usize,
        packet: Packet,
        acks: &dyn Fn(Packet) -> Option<Ack>,
        drops: &mut dyn DropSink,
    ) {
        if self.filter == AckFilter::Off {
            return;
        }
        let Some(newest) = acks(packet) else { return };
        let queue = &mut self.flows[number].queue;
        let before = queue.len() - 1;
        let is_superseded =
            |&at: &usize| acks(queue[at].0).is_some_and(|ack| supersedes(&newest, &ack));
        let mut found = (0..before).filter(is_superseded);
        let (first, second) = (found.next(), found.next());
        let is_last = |at: usize| at + 1 == before && self.filter == AckFilter::Aggressive;
        let gone = first.filter(|&at| second.is_some() || is_last(at));
        if let Some((packet, _)) = gone.and_then(|at| queue.remove(at)) {
            self.lose(packet, DropReason::Filtered, drops);
        }
    }

    /// Puts a flow on a list when a packet arrives.
    fn enlist(&mut self, number: usize) {
        match self.flows[number].place {
            Place::None | Place::Decaying => {
                self.decaying.retain(|&other| other != number);
                self.new.push_back(number);
                let quantum = self.turn();
                let flow = &mut self.flows[number];
                (flow.place, flow.deficit) = (Place::Sparse, quantum);
            }
            Place::SparseWait => self.flows[number].place = Place::Bulk,
            Place::Sparse | Place::Bulk => (),
        }
    }

    /// Returns the quantum divided by the load, which is equal on both sides.
    fn turn(&self) -> i64 {
        let load = self.flows.iter().filter(|flow| flow.place == Place::Bulk).count();
        i64::from(self.quantum) / i64::try_from(load.max(1)).unwrap_or(1)
    }

    /// Returns the first flow that may send. A flow whose quantum is used up moves to the old list.
    fn choose(&mut self, is_first: bool) -> Option<usize> {
        let mut number = self.front(is_first)?;
        while self.flows[number].deficit <= 0 {
            let flow = &mut self.flows[number];
            if flow.place == Place::Sparse {
                flow.place = if flow.queue.is_empty() { Place::SparseWait } else { Place::Bulk };
            }
            let turn = self.turn();
            self.flows[number].deficit += turn.max(1);
            self.unlink(number);
            self.old.push_back(number);
            number = self.front(false)?;
        }
        Some(number)
    }

    fn front(&self, is_first: bool) -> Option<usize> {
        let decaying = self.decaying.front();
        let others = self.new.front().or(self.old.front()).or(decaying);
        decaying.filter(|_| is_first).or(others).copied()
    }

    fn unlink(&mut self, number: usize) {
        for list in [&mut self.new, &mut self.old, &mut self.decaying] {
            list.retain(|&other| other != number);
        }
    }

    fn hold(&mut self, len: u32) {
        self.held.packets += 1;
        self.held.bytes += len;
        self.counters.peak.packets = self.counters.peak.packets.max(self.held.packets);
        self.counters.peak.bytes = self.counters.peak.bytes.max(self.held.bytes);
    }

    fn release(&mut self, len: u32) {
        self.held.packets -= 1;
        self.held.bytes -= len;
    }

    fn lose(&mut self, packet: Packet, reason: DropReason, drops: &mut dyn DropSink) {
        self.release(packet.len);
        self.counters.count_dropped(reason, packet.len);
        drops.dropped(packet, reason);
    }
}

impl Scheduler for FlowLists {
    fn enqueue(
        &mut self,
        _now: Nanos,
        flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let reason = RejectReason::UnknownFlow { flow, flows: 0 };
        self.counters.count_dropped(DropReason::Rejected, packet.len);
        Err(Rejected { packet, reason })
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let mut is_first = true;
        while self.held.packets > 0 {
            let number = self.choose(core::mem::take(&mut is_first))?;
            let flow = &mut self.flows[number];
            let Some((mut packet, came)) = flow.queue.pop_front() else {
                let remembers = self.law.empty(&mut flow.cobalt, now);
                flow.place = if remembers { Place::Decaying } else { Place::None };
                self.unlink(number);
                if remembers {
                    self.decaying.push_back(number);
                }
                continue;
            };
            let is_last = flow.queue.is_empty();
            match self.law.judge(&mut flow.cobalt, now, now.since(came), packet.ecn) {
                Verdict::Drop if !is_last => {
                    self.lose(packet, DropReason::Aqm, drops);
                    continue;
                }
                Verdict::Mark => {
                    packet.ecn = Ecn::Ce;
                    self.counters.marked += 1;
                }
                _ => (),
            }
            flow.deficit -= i64::from(packet.len);
            self.release(packet.len);
            self.counters.delivered.add(packet.len);
            return Some(packet);
        }
        None
    }

    fn peek(&self, _now: Nanos) -> Option<Packet> {
        None
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        (self.held.packets > 0).then_some(now)
    }

    fn books(&self) -> Books {
        Books { backlog: self.held, counters: self.counters, limits: self.limits }
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.limits = limits;
        while self.held.packets > limits.packets || self.held.bytes > limits.bytes {
            self.evict(drops);
        }
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let longest = self.flows.iter_mut().max_by_key(|flow| flow.queue.len());
        let Some((packet, _)) = longest.and_then(|flow| flow.queue.pop_front()) else {
            return false;
        };
        self.lose(packet, DropReason::Overflow, drops);
        true
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        while let Some((packet, _)) = self.flows.iter_mut().find_map(|flow| flow.queue.pop_front())
        {
            self.lose(packet, DropReason::Drained, drops);
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let queued: usize = self.flows.iter().map(|flow| flow.queue.len()).sum();
        Imbalance::check("packets queued", 0, queued as u64, self.held.packets.into())
    }
}

impl Bottleneck for Shaped<FlowLists> {
    line_and_overhead!();

    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        _hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        Shaped::arrive(self, now, drops, |lists, drops| {
            lists.arrive(now, key, packet, &|_| None, drops)
        })
    }

    fn enqueue_marked(
        &mut self,
        now: Nanos,
        (key, _hasher, _mark): (&FlowKey, &SipHash13, Dscp),
        packet: Packet,
        acks: &dyn Fn(Packet) -> Option<Ack>,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        Shaped::arrive(self, now, drops, |lists, drops| lists.arrive(now, key, packet, acks, drops))
    }
}
