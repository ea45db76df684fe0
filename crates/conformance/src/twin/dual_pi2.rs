//! Reference model of `DualPI2`: two deques and a controller in 128 bits.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Books, ConfigError, Counters, DropReason, DropSink, DualPi2Params, Ecn, FlowId, Imbalance,
    Limits, Nanos, Packet, RejectReason, Rejected, Scheduler,
};

use super::flow_scheduler::QueuedPacket;
use super::queues::{backlog_of, clamped, raise};
use crate::history::{Setting, nothing_to_set};

/// Probability 1, represented by the largest fraction; `WHOLE` is one more.
const ONE: i128 = (1 << 64) - 1;
const WHOLE: i128 = 1 << 64;
/// `2^72 / 10^12`, rounded: one millihertz times one nanosecond, in units of 2^-72.
const MILLIHERTZ: i128 = 4_722_366_483;
/// Maximum number of missed updates that one call catches up.
const MAX_UPDATES: u32 = 8;
const MAX_DROPS: u32 = 32;

/// A packet and its arrival in ticks of 1,024 ns.
type Waiting = (QueuedPacket, u32);

const fn ticks(now: Nanos) -> u32 {
    (now.0 >> 10) as u32
}

/// Returns the sojourn time in ns, in whole ticks; 0 after 9 minutes or if the clock stepped back.
const fn sojourn(arrival: u32, now: Nanos) -> i128 {
    let ticks = ticks(now).wrapping_sub(arrival);
    if ticks < 1 << 29 { (ticks as i128) << 10 } else { 0 }
}

fn limited(delay: i128) -> i128 {
    delay.min(u32::MAX.into())
}

/// `DualPI2`, written from RFC 9332, appendix A.
#[derive(Clone, Debug)]
pub struct NaiveDualPi2 {
    params: DualPi2Params,
    descriptors: u32,
    limits: Limits,
    total: Counters,
    /// Scalable and classic.
    queues: [VecDeque<Waiting>; 2],
    credit: i128,
    /// Controller: p', the delay at the last update, and the time of that update.
    p: i128,
    before: i128,
    updated: u64,
    /// Accumulated probabilities: marks of scalable packets, drops of scalable packets, signals to
    /// classic packets.
    sums: [i128; 3],
}

const SCALABLE: usize = 0;
const CLASSIC: usize = 1;

impl NaiveDualPi2 {
    /// Creates an empty model for `descriptors` packets.
    #[must_use]
    pub fn new(params: DualPi2Params, descriptors: u32, limits: Limits) -> Self {
        let mut twin = Self {
            params,
            descriptors,
            limits: clamped(limits),
            total: Counters::default(),
            queues: Default::default(),
            credit: 0,
            p: 0,
            before: 0,
            updated: 0,
            sums: [0; 3],
        };
        twin.credit = twin.full();
        twin
    }

    /// Returns the weights of the two queues.
    fn weights(&self) -> [i128; 2] {
        let classic = i128::from(self.params.classic_percent);
        [100 - classic, classic]
    }

    fn full(&self) -> i128 {
        self.weights()[SCALABLE] * i128::from(self.params.pi2.mtu)
    }

    fn everything(&self) -> impl Iterator<Item = &QueuedPacket> {
        self.queues.iter().flatten().map(|waiting| &waiting.0)
    }

    fn is_over(&self) -> bool {
        let held = backlog_of(self.everything());
        held.packets > self.limits.packets || held.bytes > self.limits.bytes
    }

    fn bytes(&self, kind: usize) -> u64 {
        self.queues[kind].iter().map(|waiting| u64::from(waiting.0.packet.len)).sum()
    }

    fn next(&self) -> Option<usize> {
        match [0, 1].map(|kind: usize| !self.queues[kind].is_empty()) {
            [false, false] => None,
            [true, true] if self.credit < 0 => Some(CLASSIC),
            [true, _] => Some(SCALABLE),
            [false, true] => Some(CLASSIC),
        }
    }

    /// Performs one update with this delay.
    fn update(&mut self, delay: i128) {
        let pi2 = self.params.pi2;
        let (alpha, beta) = (i128::from(pi2.alpha_millihertz), i128::from(pi2.beta_millihertz));
        let off = alpha * (delay - i128::from(pi2.target.0)) + beta * (delay - self.before);
        self.p = (self.p + (off * MILLIHERTZ).div_euclid(256)).clamp(0, ONE);
        self.before = delay;
    }

    /// Performs the updates that are due.
    fn until(&mut self, now: Nanos) {
        let is_empty = self.everything().next().is_none();
        let period = self.params.pi2.period.0;
        self.updated = self.updated.min(now.0);
        let mut done = 0;
        while now.0 - self.updated >= period {
            if is_empty && self.p == 0 {
                break;
            }
            if !is_empty && done == MAX_UPDATES {
                self.updated = now.0;
                break;
            }
            self.updated += period;
            done += 1;
            let late = i128::from(now.0 - self.updated);
            let heads = self.queues.iter().filter_map(|queue| queue.front());
            let longest = heads.map(|head| sojourn(head.1, now)).max().unwrap_or(0);
            self.update(if is_empty { 0 } else { limited((longest - late).max(0)) });
        }
        if is_empty && self.p == 0 {
            (self.updated, self.before) = (now.0, 0);
        }
    }

    fn recurs(&mut self, which: usize, p: i128) -> bool {
        self.sums[which] += p;
        let reached = self.sums[which] >= WHOLE;
        if reached {
            self.sums[which] -= WHOLE;
        }
        reached || p == ONE
    }

    fn ramp(&self, delay: i128) -> i128 {
        let above = delay - i128::from(self.params.threshold.0);
        let range = i128::from(self.params.range.0);
        if above < 0 {
            0
        } else if above >= range {
            ONE
        } else {
            ONE / range * above
        }
    }

    /// Decides whether to mark or drop the head of the queue; returns (mark, drop).
    fn judge(&mut self, kind: usize, now: Nanos) -> (bool, bool) {
        let (held, arrival) = *self.queues[kind].front().expect("not empty");
        let coupled = (self.p * i128::from(self.params.pi2.coupling)).min(ONE);
        // Each factor is below 2^64, so the product does not fit into `i128`.
        let square = (((self.p as u128) * (self.p as u128)) >> 64) as i128;
        let square = if self.p == ONE { ONE } else { square };
        let is_overload = coupled == ONE;
        if kind == CLASSIC {
            let told = self.recurs(2, square);
            let drops = told && (is_overload || held.packet.ecn == Ecn::NotEct);
            return (told && !drops, drops);
        }
        if is_overload && self.recurs(1, square) {
            return (false, true);
        }
        let stands = self.queues[kind].len() > 1;
        let native = if stands { self.ramp(limited(sojourn(arrival, now))) } else { 0 };
        (self.recurs(0, native.max(coupled)), false)
    }

    fn settle(&mut self) {
        if self.queues[CLASSIC].is_empty() {
            self.credit = self.full();
        }
    }

    fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let kind = usize::from(self.bytes(SCALABLE) <= self.bytes(CLASSIC));
        let Some((held, _)) = self.queues[kind].pop_back() else { return false };
        self.settle();
        self.total.count_dropped(reason, held.packet.len);
        drops.dropped(held.packet, reason);
        true
    }
}

impl Scheduler for NaiveDualPi2 {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Packet { handle, len, ecn } = packet;
        let after = self.everything().count() as u64 + 1;
        let bytes = self.bytes(SCALABLE) + self.bytes(CLASSIC) + u64::from(len);
        let reason = if !(1..=Packet::MAX_LEN).contains(&len) {
            Some(RejectReason::Length { len, max: Packet::MAX_LEN })
        } else if handle >= self.descriptors {
            Some(RejectReason::UnknownHandle { handle, descriptors: self.descriptors })
        } else if self.everything().any(|held| held.packet.handle == handle) {
            Some(RejectReason::HandleInUse { handle })
        } else if after > self.limits.packets.into() || bytes > self.limits.bytes.into() {
            Some(RejectReason::Full { limits: self.limits })
        } else {
            None
        };
        if let Some(reason) = reason {
            self.total.rejected.add(len);
            return Err(Rejected { packet, reason });
        }
        self.until(now);
        let kind = usize::from(!matches!(ecn, Ecn::Ect1 | Ecn::Ce));
        self.queues[kind].push_back((QueuedPacket { flow, packet }, ticks(now)));
        self.total.accepted.add(len);
        self.total.came_marked += u64::from(ecn == Ecn::Ce);
        let held = Scheduler::backlog(self);
        raise(&mut self.total.peak, held);
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let kind = self.next()?;
        self.until(now);
        let mut dropped = 0;
        let marks = loop {
            let (marks, drop) = self.judge(kind, now);
            if !drop || self.queues[kind].len() == 1 || dropped == MAX_DROPS {
                break marks;
            }
            let (held, _) = self.queues[kind].pop_front()?;
            self.total.count_dropped(DropReason::Aqm, held.packet.len);
            drops.dropped(held.packet, DropReason::Aqm);
            dropped += 1;
        };
        let (QueuedPacket { mut packet, .. }, _) = self.queues[kind].pop_front()?;
        let (len, [scalable, classic]) = (i128::from(packet.len), self.weights());
        if kind == SCALABLE {
            self.credit -= len * classic;
        } else if self.queues[SCALABLE].is_empty() {
            let full = self.full();
            self.credit = self.credit.max((self.credit + len * scalable).min(full));
        } else {
            self.credit += len * scalable;
        }
        self.settle();
        self.total.delivered.add(packet.len);
        if marks && packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.total.marked += 1;
        }
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.clone().dequeue(now, &mut |_: Packet, _| {})
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.everything().next().map(|_| now)
    }

    fn books(&self) -> Books {
        let backlog = backlog_of(self.everything());
        Books { backlog, counters: self.total, limits: self.limits }
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.limits = clamped(limits);
        while self.is_over() {
            self.give_way(DropReason::LimitLowered, drops);
        }
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        for kind in [SCALABLE, CLASSIC] {
            while let Some((held, _)) = self.queues[kind].pop_front() {
                self.total.count_dropped(DropReason::Drained, held.packet.len);
                drops.dropped(held.packet, DropReason::Drained);
            }
        }
        self.settle();
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Ok(()) // nothing is counted twice
    }
}

nothing_to_set!(OfFlowAndKind: <> NaiveDualPi2);
