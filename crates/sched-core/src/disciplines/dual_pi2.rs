//! `DualPI2`: one queue for scalable senders, one for classic senders, and a coupled controller.
//!
//! Scalable senders (ECT(1), L4S) keep the queueing delay below a millisecond by reacting to many
//! marks; classic senders need 15 ms of queue to fill the link. In a single queue all packets would
//! see the classic delay. Here each kind has its own queue, and the marks of the scalable queue
//! follow the congestion of the classic one, so that their rates stay approximately equal.
//!
//! ```text
//!             ┌▶ L: ECT(1), CE ──▶ marks with max(ramp of its delay, k·p') ─┐
//!   arrivals ─┤                      ▲ k·p'                                 ├▶ 9 of 10 bytes to L
//!             │             p' updated every 16 ms by the longer delay      │  while both hold
//!             └▶ C: others ──────▶ drops or marks with p'² ─────────────────┘  packets
//! ```
//!
//! **Overload** is `k·p' ≥ 1`, when marks cannot signal more. Then packets of both queues are
//! dropped with `p'²`, ECN-capable or not: unresponsive ECT traffic cannot fill the buffer beyond
//! what the controller allows.
//!
//! **Guarantees.** A classic packet at the head waits for the scalable queue for at most the bytes
//! of its credit, `M·wL/wC + L` with the longest packet `L`, the usual one `M ≥ L` and the weights
//! `wL : wC`: 15,140 bytes at 90 : 10. A scalable packet waits for one classic packet and `L·wC/wL`
//! bytes more. While it is backlogged, the classic queue gets `wC/(wL + wC)` of the bytes, less a
//! constant ([`DualPi2`]). A call drops at most [`DualPi2::MAX_DROPS`] packets, and never the last
//! of a queue. Marks and drops are deterministic, not random: after `1/p` packets of a queue, one
//! is marked or dropped (`recur` of the source), so equal calls give equal verdicts everywhere.
//!
//! **Cost.** O(1): two queues independent of the number of flows, and one update per period.
//! Memory: 16 bytes per packet.
//!
//! **Source.** RFC 9332, appendix A; for departures see `docs/disciplines/dualpi2.md`.

use crate::aqm::pi::{Gains, ONE, Pi, delay_of, shortened, squared};
use crate::aqm::{Pi2Params, Verdict};
use crate::flow_scheduler::{ConfigError, Table};
use crate::queues::counters::{FlowRecord, Ledger};
use crate::queues::queue::{Descriptor, Queue, is_acceptable, obstacle};
use crate::scheduler::{
    Backlog, Books, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
use crate::{Ecn, FlowId, Nanos, Packet};

/// Parameters of a [`DualPi2`].
///
/// ```
/// use sched_core::{DualPi2Params, Nanos};
///
/// let params = DualPi2Params::default();
/// assert_eq!((params.pi2.target, params.pi2.coupling), (Nanos::from_millis(15), 2));
/// let ramp = (params.threshold, params.range);
/// assert_eq!(ramp, (Nanos::from_micros(800), Nanos::from_micros(400)));
/// let step = DualPi2Params::default().with_step(Nanos::from_millis(1));
/// assert_eq!((step.threshold, step.range), (Nanos::from_millis(1), Nanos::ZERO));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DualPi2Params {
    /// The controller of the classic queue, and the coupling. Its MTU is the longest usual packet:
    /// with full credit the scalable queue may send `mtu·wL/wC` bytes first.
    pub pi2: Pi2Params,
    /// The delay from which scalable packets are marked: 0 to 1 s.
    pub threshold: Nanos,
    /// Width of the ramp above `threshold`, over which the marked share of packets rises to 1: 0,
    /// a step, to 1 s.
    pub range: Nanos,
    /// Share of the link for the classic queue while both hold packets: 1 to 99 percent.
    pub classic_percent: u8,
}

impl DualPi2Params {
    /// Creates parameters with the controller `pi2` and otherwise the defaults of RFC 9332.
    ///
    /// These are a ramp from 0.8 to 1.2 ms, and one byte in ten for the classic queue.
    /// [`DualPi2::new`] and [`DualPi2::set_params`] check the parameters.
    #[must_use]
    pub const fn new(pi2: Pi2Params) -> Self {
        Self { pi2, threshold: Nanos(800_000), range: Nanos(400_000), classic_percent: 10 }
    }

    /// Replaces the ramp by a step: every scalable packet that waited for `threshold` is marked.
    #[must_use]
    pub const fn with_step(self, threshold: Nanos) -> Self {
        Self { threshold, range: Nanos::ZERO, ..self }
    }

    fn law(self) -> Result<Law, ConfigError> {
        let gains = self.pi2.check()?;
        ConfigError::check_range("DualPI2 threshold in ns", self.threshold.0, 0, LONGEST)?;
        ConfigError::check_range("DualPI2 range in ns", self.range.0, 0, LONGEST)?;
        let percent = self.classic_percent.into();
        ConfigError::check_range("DualPI2 classic share in percent", percent, 1, 99)?;
        // With a range of 0 there is no delay between no marks and all marks.
        let slope = ONE.checked_div(self.range.0).unwrap_or(ONE);
        let classic = i64::from(self.classic_percent);
        let scalable = i64::wrapping_sub(100, classic);
        let full = i64::from(self.pi2.mtu).wrapping_mul(scalable);
        let (threshold, range) = (delay_of(self.threshold), delay_of(self.range));
        Ok(Law { params: self, gains, threshold, range, slope, classic, scalable, full })
    }
}

impl Default for DualPi2Params {
    fn default() -> Self {
        Self::new(Pi2Params::new(Nanos(15_000_000)))
    }
}

/// Longest threshold and range, in ns.
const LONGEST: u64 = 1_000_000_000;

/// Checked parameters and derived constants.
#[derive(Clone, Copy, Debug)]
struct Law {
    params: DualPi2Params,
    gains: Gains,
    threshold: u32,
    range: u32,
    /// Increase of the probability per nanosecond above `threshold`, as a 64-bit fraction.
    slope: u64,
    /// The weights: 1 to 99, sum 100.
    classic: i64,
    scalable: i64,
    /// The most credit that is not earned: `mtu·scalable`.
    full: i64,
}

/// The queue of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Scalable,
    Classic,
}

const fn kind_of(ecn: Ecn) -> Kind {
    match ecn {
        Ecn::Ect1 | Ecn::Ce => Kind::Scalable,
        Ecn::NotEct | Ecn::Ect0 => Kind::Classic,
    }
}

/// All state that a verdict changes: a peek works on a copy.
#[derive(Clone, Copy, Debug)]
struct Judging {
    pi: Pi,
    /// The sums of probabilities of each kind of verdict, modulo 1: when a sum reaches 1, a
    /// verdict is due.
    marks: u64,
    drops: u64,
    classic: u64,
}

/// Properties of a packet that is about to leave.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    sojourn: Nanos,
    ecn: Ecn,
    is_last: bool,
}

/// Adds `p` to the sum, and returns true if the sum has reached 1.
const fn recurs(sum: &mut u64, p: u64) -> bool {
    let (rest, reached) = sum.overflowing_add(p);
    *sum = rest;
    reached || p == ONE
}

impl Judging {
    const NEW: Self = Self { pi: Pi::EMPTY, marks: 0, drops: 0, classic: 0 };

    fn judge(&mut self, law: &Law, kind: Kind, candidate: Candidate) -> Verdict {
        let coupled = self.pi.coupled(law.params.pi2.coupling);
        let is_overloaded = coupled == ONE;
        match kind {
            Kind::Scalable => {
                if is_overloaded && recurs(&mut self.drops, squared(self.pi.p)) {
                    return Verdict::Drop;
                }
                let native = if candidate.is_last { 0 } else { law.ramp(candidate.sojourn) };
                let told = recurs(&mut self.marks, native.max(coupled));
                if told { Verdict::Signal } else { Verdict::Pass }
            }
            Kind::Classic => {
                if !recurs(&mut self.classic, squared(self.pi.p)) {
                    return Verdict::Pass;
                }
                let drops = is_overloaded || candidate.ecn == Ecn::NotEct;
                if drops { Verdict::Drop } else { Verdict::Signal }
            }
        }
    }
}

impl Law {
    /// Returns the share of scalable packets that are marked at this delay: 0 below the threshold,
    /// then the ramp.
    fn ramp(&self, sojourn: Nanos) -> u64 {
        let delay = delay_of(sojourn);
        match delay.checked_sub(self.threshold) {
            None => 0,
            Some(above) if above >= self.range => ONE,
            Some(above) => self.slope.saturating_mul(above.into()),
        }
    }
}

/// A dual queue with coupled AQMs, of packets in the memory `S`.
///
/// It accepts packets of any flow and keeps no per-flow state. While the classic queue is
/// backlogged and `W` bytes are sent, at least `wC·W/100 − K` of them are its own, with `K =
/// (wL·max(M, L) + wC·L)/100`.
///
/// ```
/// use sched_core::{
///     Descriptor, DualPi2, DualPi2Params, Ecn, FlowId, Limits, Nanos, Packet, Scheduler,
/// };
///
/// let mut queues = DualPi2::new([Descriptor::EMPTY; 8], DualPi2Params::default(), Limits::NONE)?;
/// let drops = &mut |_: Packet, _why| ();
/// for (handle, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect0), (2, Ecn::Ect1)] {
///     let packet = Packet { ecn, ..Packet::new(handle, 1_500) };
///     queues.enqueue(Nanos(0), FlowId(0), packet, drops)?;
/// }
/// // The scalable packet came last and leaves first.
/// assert_eq!(queues.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(2));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DualPi2<S> {
    scalable: Queue,
    classic: Queue,
    /// Indexed by handle.
    descriptors: S,
    ledger: Ledger,
    law: Law,
    judging: Judging,
    /// Bytes times weights that the scalable queue may send before the classic one. Full if and
    /// only if the classic queue is empty, or has not been passed over since.
    credit: i64,
}

crate::debug::short_debug!(DualPi2<S> { ledger });

impl<S: Table<Descriptor>> DualPi2<S> {
    /// Maximum number of packets dropped in one call of `dequeue`; the next packet may stay.
    pub const MAX_DROPS: u32 = 32;

    /// Creates empty queues for `descriptors.len()` handles. An arrival that does not fit into
    /// `limits` is rejected.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the first parameter outside its range.
    pub fn new(
        mut descriptors: S,
        params: DualPi2Params,
        limits: Limits,
    ) -> Result<Self, ConfigError> {
        let law = params.law()?;
        descriptors.as_mut().fill(Descriptor::EMPTY);
        Ok(Self {
            scalable: Queue::IDLE,
            classic: Queue::IDLE,
            descriptors,
            ledger: Ledger::new(limits),
            law,
            judging: Judging::NEW,
            credit: law.full,
        })
    }

    /// Returns the current parameters.
    #[must_use]
    pub const fn params(&self) -> DualPi2Params {
        self.law.params
    }

    /// Changes the parameters, even while packets are queued.
    ///
    /// `p'` and the queues are kept, and the next packet is handled with the new parameters. The
    /// credit is reset to full.
    ///
    /// # Errors
    /// See [`DualPi2::new`]; nothing has changed then.
    pub fn set_params(&mut self, params: DualPi2Params) -> Result<(), ConfigError> {
        self.law = params.law()?;
        self.credit = self.law.full;
        Ok(())
    }

    /// Returns the backlogs of the scalable and of the classic queue.
    #[must_use]
    pub const fn backlogs(&self) -> [Backlog; 2] {
        [self.scalable.backlog(), self.classic.backlog()]
    }

    /// Returns `p'`, in steps of 2^-32, as of the last update.
    #[must_use]
    pub fn probability(&self) -> crate::Probability {
        shortened(self.judging.pi.p)
    }

    #[inline]
    const fn queue(&self, kind: Kind) -> &Queue {
        match kind {
            Kind::Scalable => &self.scalable,
            Kind::Classic => &self.classic,
        }
    }

    /// Returns the queue served next.
    const fn next(&self) -> Option<Kind> {
        match (self.scalable.is_empty(), self.classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Kind::Scalable),
            (true, false) => Some(Kind::Classic),
            (false, false) if self.credit >= 0 => Some(Kind::Scalable),
            (false, false) => Some(Kind::Classic),
        }
    }

    /// Performs the updates that are due.
    fn update(&mut self, now: Nanos) {
        if self.law.gains.is_due(self.judging.pi.updated, now) {
            self.judging = self.judging_at(now);
        }
    }

    /// Returns `judging`, updated to `now`.
    #[cold]
    fn judging_at(&self, now: Nanos) -> Judging {
        let mut judging = self.judging;
        if self.law.gains.is_due(judging.pi.updated, now) {
            let heads = [self.scalable, self.classic].map(|queue| {
                self.descriptors
                    .as_ref()
                    .get(queue.head() as usize)
                    .map_or(Nanos::ZERO, |head| head.sojourn(now))
            });
            let [scalable, classic] = heads;
            let longer = if scalable > classic { scalable } else { classic };
            judging.pi.catch_up(now, &self.law.gains, |late| delay_of(longer.since(late)));
        }
        judging
    }

    /// Returns the packet at `handle`, from which on its queue holds `packets`.
    #[inline]
    fn candidate(&self, handle: u32, packets: u32, now: Nanos) -> Option<(Packet, Candidate)> {
        let descriptor = self.descriptors.as_ref().get(handle as usize)?;
        let (sojourn, ecn) = (descriptor.sojourn(now), descriptor.ecn());
        Some((descriptor.packet(handle), Candidate { sojourn, ecn, is_last: packets == 1 }))
    }

    /// Removes the packet at `end` of the queue `kind`.
    #[inline]
    fn take(&mut self, kind: Kind, end: crate::DropFrom) -> Option<Packet> {
        let descriptors = self.descriptors.as_mut();
        let queue = match kind {
            Kind::Scalable => &mut self.scalable,
            Kind::Classic => &mut self.classic,
        };
        let packet = match end {
            crate::DropFrom::Head => queue.pop_head(descriptors),
            crate::DropFrom::Tail => queue.pop_tail(descriptors),
        }?;
        if self.classic.is_empty() {
            // An empty queue has no claims.
            self.credit = self.law.full;
        }
        Some(packet)
    }

    /// Charges a packet of `len` bytes of `kind` that leaves, before it is removed.
    fn charge(&mut self, kind: Kind, len: u32) {
        let Law { classic, scalable, full, .. } = self.law;
        let len = i64::from(len);
        match kind {
            Kind::Scalable => self.credit = self.credit.wrapping_sub(len.wrapping_mul(classic)),
            Kind::Classic => {
                let earned = self.credit.wrapping_add(len.wrapping_mul(scalable));
                // Bytes sent while the other queue is empty earn at most a full credit.
                let most = if self.scalable.is_empty() { full.max(self.credit) } else { earned };
                self.credit = earned.min(most);
            }
        }
    }

    /// Rejects `packet` with the first reason that applies.
    #[cold]
    fn reject(&mut self, packet: Packet) -> Rejected {
        self.ledger.count(|all| all.rejected.add(packet.len));
        let reason = obstacle(packet, Packet::MAX_LEN, self.descriptors.as_ref())
            .unwrap_or(RejectReason::Full { limits: self.ledger.limits() });
        Rejected { packet, reason }
    }

    /// Drops the newest packet of the queue that holds more bytes; of the classic one if they are
    /// equal.
    fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let [scalable, classic] = self.backlogs();
        let kind = if scalable.bytes > classic.bytes { Kind::Scalable } else { Kind::Classic };
        let Some(packet) = self.take(kind, crate::DropFrom::Tail) else { return false };
        self.ledger.drop(packet.len, reason);
        drops.dropped(packet, reason);
        true
    }
}

impl<S: Table<Descriptor>> Scheduler for DualPi2<S> {
    fn enqueue(
        &mut self,
        now: Nanos,
        _flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if !is_acceptable(packet, self.descriptors.as_ref()) || !self.ledger.make_ready(packet.len)
        {
            return Err(self.reject(packet));
        }
        if self.ledger.backlog().packets == 0 {
            self.judging.pi.begin(now, &self.law.gains);
        } else {
            self.update(now);
        }
        let descriptors = self.descriptors.as_mut();
        match kind_of(packet.ecn) {
            Kind::Scalable => self.scalable.append(descriptors, packet, now),
            Kind::Classic => self.classic.append(descriptors, packet, now),
        }
        self.ledger.accept(packet.len);
        if packet.ecn == Ecn::Ce {
            self.ledger.count(FlowRecord::mark_came);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let kind = self.next()?;
        self.update(now);
        let mut dropped = 0;
        let marks = loop {
            crate::steps::step();
            let queue = self.queue(kind);
            let packets = queue.backlog().packets;
            let (_, candidate) = self.candidate(queue.head(), packets, now)?;
            let verdict = self.judging.judge(&self.law, kind, candidate);
            if verdict != Verdict::Drop || candidate.is_last || dropped == Self::MAX_DROPS {
                break verdict == Verdict::Signal;
            }
            let packet = self.take(kind, crate::DropFrom::Head)?;
            self.ledger.drop(packet.len, DropReason::Aqm);
            drops.dropped(packet, DropReason::Aqm);
            dropped += 1;
        };
        let len = self.queue(kind).head_len(self.descriptors.as_ref())?;
        self.charge(kind, len);
        let mut packet = self.take(kind, crate::DropFrom::Head)?;
        self.ledger.deliver(packet.len);
        // A packet that arrived with a mark leaves unchanged.
        if marks && packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.ledger.count(FlowRecord::mark);
        }
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        let kind = self.next()?;
        let mut judging = self.judging_at(now);
        let queue = self.queue(kind);
        let (mut here, mut packets) = (queue.head(), queue.backlog().packets);
        for dropped in 0..=Self::MAX_DROPS {
            let (packet, candidate) = self.candidate(here, packets, now)?;
            match judging.judge(&self.law, kind, candidate) {
                Verdict::Drop if !candidate.is_last && dropped < Self::MAX_DROPS => {}
                Verdict::Signal => return Some(Packet { ecn: Ecn::Ce, ..packet }),
                _ => return Some(packet),
            }
            packets = packets.wrapping_sub(1);
            here = self.descriptors.as_ref().get(here as usize)?.next();
        }
        None
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        (self.ledger.backlog().packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.ledger.backlog()
    }

    fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    fn books(&self) -> Books {
        self.ledger.books()
    }

    /// Drops the newest packets of the queue that holds more bytes.
    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.ledger.set_limits(limits);
        while self.ledger.is_over() && self.give_way(DropReason::LimitLowered, drops) {}
    }

    /// Drops the newest packet of the queue that holds more bytes.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.give_way(DropReason::Overflow, drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        for kind in [Kind::Scalable, Kind::Classic] {
            while let Some(packet) = self.take(kind, crate::DropFrom::Head) {
                self.ledger.drop(packet.len, DropReason::Drained);
                drops.dropped(packet, DropReason::Drained);
            }
        }
    }

    fn recount(&self) -> Result<(), Imbalance> {
        let descriptors = self.descriptors.as_ref();
        let scalable = self.scalable.recount(0, descriptors)?;
        let packets = scalable.wrapping_add(self.classic.recount(1, descriptors)?);
        let used = descriptors.iter().filter(|descriptor| descriptor.is_used()).count();
        Imbalance::check("descriptors in use", 0, used as u64, packets.into())?;
        let (held, [scalable, classic]) = (self.ledger.backlog(), self.backlogs());
        Imbalance::check("packets queued", 0, held.packets.into(), packets.into())?;
        let bytes = u64::from(scalable.bytes).wrapping_add(classic.bytes.into());
        Imbalance::check("bytes queued", 0, held.bytes.into(), bytes)?;
        let settled = !self.classic.is_empty() || self.credit == self.law.full;
        Imbalance::check("nothing is owed to an empty queue", 1, 1, settled.into())?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())
    }
}

#[cfg(test)]
mod tests;
