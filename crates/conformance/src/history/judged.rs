//! Tests of AQMs alone, with arbitrary times, sojourn times and parameters.
//!
//! Three queues behave as in [`FlowQueues`](freeboard::sched_core::FlowQueues); the sojourn time of
//! a packet is drawn independently of the clock. Each AQM is compared with a copy of itself that
//! runs at shifted times and receives no peeks.

use core::fmt::Debug;
use core::slice::Iter;
use std::collections::VecDeque;

use super::{Match, Operation, Peeked, Shifted};
use crate::catalog::entry::{QUICK_PI2, QUICK_PIE};
use crate::twin::NaiveDualPi2;
use freeboard::sched_core::{
    Admission, Aqm, AqmChoice, AqmSetting, Backlog, Blue, BlueParams, BlueState, CeThreshold,
    ChosenAqm, ChosenAqmState, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState,
    Descriptor, DropReason, DualPi2, DualPi2Params, Ecn, FlowId, Head, L4sParams, Limits, Look,
    Nanos, Offer, Packet, Pi2, Pi2Params, Pi2State, Pie, PieParams, PieState, Probability, Red,
    RedParams, RedState, Scheduler, Table, Verdict,
};

/// Number of AQMs; the first byte of a sequence, modulo this, selects one.
pub const AQMS: u8 = 11;

/// Number of queues. The last one has no state in the AQM.
const QUEUES: u8 = 3;
const STATES: usize = QUEUES as usize - 1;
/// Queue length in packets from which arrivals are rejected.
const LONGEST: usize = 64;
/// Maximum number of loop iterations in one call of an AQM.
#[cfg(feature = "steps")]
const MOST_STEPS: u64 = 8;
/// Latest time in any sequence, wherever it begins.
const LAST: u64 = 1 << 62;
/// Clock offsets of the copy: whole ticks of 1,024 ns at which counters of 31, 32, 53 and 63 bits
/// wrap.
const SHIFTS: [u64; 4] = [1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)];

/// An AQM whose probabilities can be inspected.
trait Judge: Aqm + Clone + Debug {
    /// Returns the probability of a queue.
    fn chance(&self, _flow: FlowId) -> Probability {
        Probability::NEVER
    }

    /// Returns the probability above which arrivals are dropped instead of marked.
    fn marks_up_to(&self) -> Option<Probability> {
        None
    }
}

impl<T: Table<CoDelState> + Clone + Debug> Judge for CoDel<T> {}

impl<T: Table<RedState> + Clone + Debug> Judge for Red<T> {}

impl<T: Table<ChosenAqmState> + Clone + Debug> Judge for ChosenAqm<T, [AqmSetting; 8]> {}

impl<T: Table<BlueState> + Clone + Debug> Judge for Blue<T> {
    fn chance(&self, flow: FlowId) -> Probability {
        self.probability(flow)
    }

    fn marks_up_to(&self) -> Option<Probability> {
        Some(self.params().mark_up_to)
    }
}

impl<T: Table<CobaltState> + Clone + Debug> Judge for Cobalt<T> {
    fn chance(&self, flow: FlowId) -> Probability {
        self.probability(flow)
    }
}

impl<T: Table<PieState> + Clone + Debug> Judge for Pie<T> {
    fn chance(&self, flow: FlowId) -> Probability {
        self.probability(flow)
    }

    fn marks_up_to(&self) -> Option<Probability> {
        Some(self.params().mark_up_to)
    }
}

impl<T: Table<Pi2State> + Clone + Debug> Judge for Pi2<T> {
    fn chance(&self, flow: FlowId) -> Probability {
        self.probability(flow)
    }
}

impl<A: Judge> Judge for CeThreshold<A> {
    fn chance(&self, flow: FlowId) -> Probability {
        self.inner().chance(flow)
    }

    fn marks_up_to(&self) -> Option<Probability> {
        self.inner().marks_up_to()
    }
}

/// An event on a queue or on the clock.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet of `len` bytes arrives.
    Arrival { len: u32, ecn: Ecn },
    /// The head is about to leave; `sojourn` applies to it and those behind it.
    Departure { sojourn: Nanos },
    /// The last packet is dropped for lack of space, or the arriving one if the queue is empty.
    Overflow,
    /// Every packet is dropped; the flow is removed if `forgets`.
    Drain { forgets: bool },
}

/// Number of congestion signals in a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Arrivals that were dropped or marked.
    pub at_arrival: u64,
    /// Heads that were dropped or marked, and the marks and drops of `DualPI2`.
    pub at_departure: u64,
}

/// The remaining bytes of the input.
struct Bytes<'a>(Iter<'a, u8>);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    /// Reads a number below `2^bits` of any magnitude.
    fn number(&mut self, bits: u32) -> Option<u64> {
        let (scale, digits) = (u32::from(self.byte()?) % bits, u64::from(self.byte()?));
        Some((1 << scale) + ((digits << scale) >> 8))
    }

    fn nanos(&mut self, bits: u32) -> Option<Nanos> {
        self.number(bits).map(Nanos)
    }

    /// Reads a probability of any magnitude, often 0 or 1.
    fn probability(&mut self) -> Option<Probability> {
        Some(match self.number(36)? {
            number if number < 1 << 32 => Probability::from_raw(number as u32),
            number if number < 1 << 34 => Probability::ALWAYS,
            _ => Probability::NEVER,
        })
    }

    /// Returns the time of the next event in ns: mostly less than three milliseconds later, so that
    /// one side stays near time 0 for a while.
    fn pass(&mut self, now: u64) -> Option<u64> {
        Some(match self.byte()? {
            short @ 0..=239 => now + u64::from(short) * 9_973,
            240..=247 => now + self.number(46)?,
            248.. => now.saturating_sub(self.number(46)?),
        })
        .map(|then| then.min(LAST))
    }

    fn next(&mut self, now: u64) -> Option<(u64, usize, Event)> {
        Some((self.pass(now)?, usize::from(self.byte()? % QUEUES), self.event()?))
    }

    fn event(&mut self) -> Option<Event> {
        Some(match self.byte()? {
            0..=119 => {
                let (len, ecn) = (self.byte()?, self.byte()?);
                Event::Arrival { len: 1 + 6 * u32::from(len), ecn: Ecn::from_bits(ecn) }
            }
            120..=223 => Event::Departure { sojourn: Nanos(self.number(46)? & !1023) },
            224..=247 => Event::Overflow,
            byte => Event::Drain { forgets: byte > 251 },
        })
    }
}

/// An AQM, its copy at shifted times, and the queues for both.
struct Trial<A> {
    subject: A,
    /// Copy of `subject` whose clock is ahead by `late`; `foresee` is not called on it.
    other: A,
    late: u64,
    queues: [VecDeque<(u32, Ecn)>; QUEUES as usize],
    told: Signals,
}

impl<A: Judge> Trial<A> {
    fn play(aqm: A, late: u64, bytes: &mut Bytes<'_>) -> Signals {
        let (queues, told) = (Default::default(), Signals::default());
        let mut trial = Self { subject: aqm.clone(), other: aqm, late, queues, told };
        let mut now = 0;
        while let Some((at, place, event)) = bytes.next(now) {
            now = at;
            trial.does(Nanos(now), place, event);
        }
        trial.told
    }

    fn does(&mut self, now: Nanos, place: usize, event: Event) {
        let flow = FlowId(place as u32);
        let others = self.chances(flow);
        match event {
            Event::Arrival { len, ecn } => self.arrives(now, place, len, ecn),
            Event::Departure { sojourn } => self.leaves(now, place, sojourn),
            Event::Overflow => {
                let was_empty = self.queues[place].is_empty();
                if was_empty {
                    self.arrives(now, place, 1_000, Ecn::NotEct);
                }
                // An arrival that was rejected for lack of space was never queued, so no queue
                // becomes empty.
                if self.queues[place].pop_back().is_some() {
                    if self.queues[place].is_empty() && !was_empty {
                        self.tell(|aqm| aqm.emptied(flow));
                    }
                    self.tell(|aqm| aqm.overflowed(flow));
                }
            }
            Event::Drain { forgets } => {
                let held = self.queues[place].len();
                self.queues[place].clear();
                if held > 0 {
                    self.tell(|aqm| aqm.emptied(flow));
                }
                if forgets {
                    self.tell(|aqm| aqm.forget(flow));
                    assert_eq!(self.subject.chance(flow), Probability::NEVER, "forgotten");
                }
            }
        }
        assert_eq!(self.chances(flow), others, "what other queues have learned");
        assert_eq!(self.subject.chance(flow), self.other.chance(flow), "{} ns later", self.late);
    }

    /// Returns the probabilities of all queues except one.
    fn chances(&self, but: FlowId) -> Vec<Probability> {
        let others = (0..u32::from(QUEUES)).map(FlowId).filter(|&flow| flow != but);
        others.map(|flow| self.subject.chance(flow)).collect()
    }

    fn tell(&mut self, tell: impl Fn(&mut A)) {
        tell(&mut self.subject);
        tell(&mut self.other);
    }

    fn shifted(&self, now: Nanos) -> Nanos {
        Nanos(now.0 + self.late)
    }

    fn arrives(&mut self, now: Nanos, place: usize, len: u32, ecn: Ecn) {
        let (flow, queue) = (FlowId(place as u32), &self.queues[place]);
        if queue.len() == LONGEST {
            return;
        }
        let held = Backlog {
            packets: queue.len() as u32,
            bytes: queue.iter().map(|packet| packet.0).sum(),
        };
        let offer = Offer { now, packet: Packet { ecn, ..Packet::new(0, len) }, held };
        let admission = counted(|| self.subject.admit(flow, offer, Look::Close));
        let other = self.other.admit(flow, Offer { now: self.shifted(now), ..offer }, Look::Close);
        assert_eq!(admission, other, "{offer:?}, {} ns later", self.late);
        if place >= STATES {
            assert_eq!(admission, Admission::Accept, "a queue without a state");
        }
        if let Some(most) = self.subject.marks_up_to() {
            let chance = self.subject.chance(flow);
            match admission {
                Admission::Signal => assert!(chance <= most, "{chance:?} marks up to {most:?}"),
                Admission::Refuse => assert!(chance >= most, "{chance:?} marks up to {most:?}"),
                _ => {}
            }
        }
        self.told.at_arrival += u64::from(admission != Admission::Accept);
        match admission {
            Admission::Accept => self.queues[place].push_back((len, ecn)),
            Admission::Signal if ecn.is_capable() => self.queues[place].push_back((len, Ecn::Ce)),
            _ => {}
        }
    }

    /// Removes the head, or drops packets up to the one that passes.
    fn leaves(&mut self, now: Nanos, place: usize, sojourn: Nanos) {
        let flow = FlowId(place as u32);
        let before = self.subject.clone();
        let mut foresee = before.foresee(flow);
        for dropped in 0..=A::MAX_DROPS {
            let Some(&(_, ecn)) = self.queues[place].front() else { return };
            let behind = self.queues[place].iter().skip(1);
            let bytes_behind = behind.map(|packet| packet.0).sum();
            let packets = self.queues[place].len() as u32;
            let head = Head { now, sojourn, bytes_behind, packets, ecn };
            let verdict = self.judged(flow, head);
            assert_eq!(foresee(head), verdict, "foreseen: {head:?}");
            if place >= STATES {
                assert_ne!(verdict, Verdict::Drop, "a queue without a state");
            }
            self.told.at_departure += u64::from(verdict != Verdict::Pass);
            let is_dropped = match verdict {
                Verdict::Signal => !ecn.is_capable(),
                Verdict::Drop => true,
                _ => false,
            };
            self.queues[place].pop_front();
            if !is_dropped || bytes_behind == 0 || dropped == A::MAX_DROPS {
                return;
            }
        }
    }

    /// Returns the verdict of both on a head, at a glance or after a full look.
    fn judged(&mut self, flow: FlowId, head: Head) -> Verdict {
        let before = self.subject.clone();
        let glance = counted(|| self.subject.judge(flow, head, Look::Glance));
        let after = outlook(&self.subject, flow, head);
        let verdict = if glance == Verdict::Unclear {
            assert_eq!(
                after,
                outlook(&before, flow, head),
                "a glance that is not enough: {head:?}"
            );
            counted(|| self.subject.judge(flow, head, Look::Close))
        } else {
            let mut close = before;
            assert_eq!(close.judge(flow, head, Look::Close), glance, "a close look: {head:?}");
            assert_eq!(after, outlook(&close, flow, head), "a glance that is enough: {head:?}");
            glance
        };
        assert_ne!(verdict, Verdict::Unclear, "a close look: {head:?}");
        let later = Head { now: self.shifted(head.now), ..head };
        let other = self.other.judge(flow, later, Look::Close);
        assert_eq!(verdict, other, "{head:?}, {} ns later", self.late);
        verdict
    }
}

/// Returns the verdicts of an AQM on arrivals at a standing queue of `flow` and on its heads, at
/// increasing times after `head`: a caller cannot distinguish states with equal verdicts.
fn outlook<A: Judge>(aqm: &A, flow: FlowId, head: Head) -> Vec<(Admission, Verdict)> {
    let (mut arrivals, mut foresee) = (aqm.clone(), aqm.foresee(flow));
    let held = Backlog { packets: 64, bytes: 1 << 24 };
    let long = Head { bytes_behind: held.bytes, packets: 64, sojourn: Nanos(1 << 33), ..head };
    let mut now = head.now;
    (14..34)
        .map(|wait| {
            now = now.plus(Nanos(1 << wait));
            let offer = Offer { now, packet: Packet::new(0, 1_000), held };
            (arrivals.admit(flow, offer, Look::Close), foresee(Head { now, ..long }))
        })
        .collect()
}

/// Runs a call and checks its number of loop iterations.
fn counted<T>(call: impl FnOnce() -> T) -> T {
    #[cfg(feature = "steps")]
    let _before = sched_core::take_steps();
    let done = call();
    #[cfg(feature = "steps")]
    {
        let steps = sched_core::take_steps();
        assert!(steps <= MOST_STEPS, "{steps} turns in one call");
    }
    done
}

/// Plays the sequence encoded in `bytes` on an AQM and on a copy at shifted times. The first bytes
/// select the AQM and its parameters. An incomplete last event is ignored; rejected parameters end
/// the sequence.
pub fn play_aqm(bytes: &[u8]) -> Signals {
    play(&mut Bytes(bytes.iter())).unwrap_or_default()
}

fn play(bytes: &mut Bytes<'_>) -> Option<Signals> {
    let (kind, shape) = (bytes.byte()?, bytes.byte()?);
    let late = SHIFTS[usize::from(shape % 4)];
    let is_usual = shape >= 64;
    let seed = shape.into();
    Some(match kind % AQMS {
        0 => {
            let codel = CoDel::new([CoDelState::EMPTY; STATES], codel(bytes, is_usual)?).ok()?;
            Trial::play(codel, late, bytes)
        }
        1 => {
            let params = blue(bytes, is_usual)?;
            let blue = Blue::new([BlueState::EMPTY; STATES], params, seed).ok()?;
            Trial::play(blue, late, bytes)
        }
        2 => {
            let params = cobalt(bytes, is_usual)?;
            let cobalt = Cobalt::new([CobaltState::EMPTY; STATES], params, seed).ok()?;
            Trial::play(cobalt, late, bytes)
        }
        3 => {
            let params = cobalt(bytes, is_usual)?;
            let cobalt = Cobalt::new([CobaltState::EMPTY; STATES], params, seed).ok()?;
            let threshold = CeThreshold::new(cobalt, bytes.nanos(34)?).ok()?;
            Trial::play(threshold.for_ect1_only(), late, bytes)
        }
        4 => {
            let pie = Pie::new([PieState::EMPTY; STATES], pie(bytes, is_usual)?, seed).ok()?;
            let threshold = CeThreshold::new(pie, bytes.nanos(34)?).ok()?;
            Trial::play(threshold, late, bytes)
        }
        5 => {
            let pie = Pie::new([PieState::EMPTY; STATES], pie(bytes, is_usual)?, seed).ok()?;
            Trial::play(pie, late, bytes)
        }
        6 => {
            let pi2 = Pi2::new([Pi2State::EMPTY; STATES], pi2(bytes, is_usual)?, seed).ok()?;
            Trial::play(pi2, late, bytes)
        }
        7 | 8 => {
            let mut params = red(bytes, is_usual)?;
            (params.gentle, params.adaptive) = (shape & 4 > 0, kind % AQMS == 8);
            let red = Red::new([RedState::EMPTY; STATES], params, seed).ok()?;
            Trial::play(red, late, bytes)
        }
        9 => {
            let choice = match shape >> 2 & 7 {
                0 | 2 => AqmChoice::Cobalt(cobalt(bytes, is_usual)?),
                1 | 3 => AqmChoice::CoDel(codel(bytes, is_usual)?),
                4 => AqmChoice::Red(red(bytes, is_usual)?),
                5 => AqmChoice::Blue(blue(bytes, is_usual)?),
                6 => AqmChoice::Pie(pie(bytes, is_usual)?),
                _ => AqmChoice::Pi2(pi2(bytes, is_usual)?),
            };
            let l4s = L4sParams::new(bytes.nanos(34)?).with_mtu(bytes.number(21)? as u32);
            let mut chosen = ChosenAqm::new(
                [ChosenAqmState::EMPTY; STATES],
                [AqmSetting::EMPTY; 8],
                choice,
                seed,
            )
            .ok()?;
            chosen.set_l4s(Some(l4s)).ok()?;
            Trial::play(chosen, late, bytes)
        }
        _ => dual_pi2(bytes, is_usual, late)?,
    })
}

fn codel(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<CoDelParams> {
    if is_usual {
        return Some(CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100));
    }
    let params = CoDelParams::new(bytes.nanos(34)?, bytes.nanos(34)?);
    Some(params.with_mtu(bytes.number(21)? as u32))
}

fn blue(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<BlueParams> {
    let params = BlueParams::DEFAULT;
    if is_usual {
        let (up, down) = (Probability::from_raw(1 << 29), Probability::from_raw(1 << 26));
        let often = params.with_steps(up, down).with_freeze(Nanos::from_millis(1));
        return Some(often.with_longest_wait(Nanos::from_millis(4)));
    }
    let params = params.with_steps(bytes.probability()?, bytes.probability()?);
    let params = params.with_freeze(bytes.nanos(34)?).with_longest_wait(bytes.nanos(64)?);
    Some(params.with_mark_up_to(bytes.probability()?))
}

fn cobalt(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<CobaltParams> {
    if is_usual {
        let params = CobaltParams::new(Nanos::from_millis(1), Nanos::from_millis(5));
        let (up, down) = (Probability::from_raw(1 << 28), Probability::from_raw(1 << 26));
        return Some(params.with_steps(up, down));
    }
    let params = CobaltParams::new(bytes.nanos(34)?, bytes.nanos(34)?);
    let params = params.with_mtu_time(bytes.nanos(34)?);
    Some(params.with_steps(bytes.probability()?, bytes.probability()?))
}

fn pie(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<PieParams> {
    if is_usual {
        return Some(QUICK_PIE);
    }
    let mut params = PieParams::new(bytes.nanos(31)?).with_period(bytes.nanos(31)?);
    params = params.with_max_burst(bytes.nanos(32)?).with_mtu(bytes.number(21)? as u32);
    params = params.with_gains(bytes.number(20)? as u32, bytes.number(20)? as u32);
    params.mark_up_to = bytes.probability()?;
    Some(params)
}

fn pi2(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<Pi2Params> {
    if is_usual {
        return Some(QUICK_PI2);
    }
    let mut params = Pi2Params::new(bytes.nanos(31)?).with_period(bytes.nanos(31)?);
    params = params.with_gains(bytes.number(20)? as u32, bytes.number(20)? as u32);
    params.coupling = bytes.byte()? % 18;
    Some(params.with_mtu(bytes.number(21)? as u32))
}

fn red(bytes: &mut Bytes<'_>, is_usual: bool) -> Option<RedParams> {
    if is_usual {
        let params = RedParams::new(1_500, 4_500).with_weight(1);
        let params = params.with_max_probability(Probability::from_raw(1 << 29));
        return Some(params.with_packet_time(Nanos::from_micros(100)));
    }
    let params = RedParams::new(bytes.number(31)? as u32, bytes.number(31)? as u32);
    let params = params.with_weight(u32::from(bytes.byte()? % 18));
    Some(params.with_max_probability(bytes.probability()?).with_packet_time(bytes.nanos(31)?))
}

/// Compares `DualPI2` with its reference model and with a copy at shifted times; the clock also
/// steps back by hours.
fn dual_pi2(bytes: &mut Bytes<'_>, is_usual: bool, late: u64) -> Option<Signals> {
    let mut params = DualPi2Params::new(pi2(bytes, is_usual)?);
    if !is_usual {
        (params.threshold, params.range) = (bytes.nanos(31)?, bytes.nanos(31)?);
        params.classic_percent = bytes.byte()? % 101;
    }
    let new = || {
        let descriptors = [Descriptor::EMPTY; super::DESCRIPTORS as usize];
        DualPi2::new(descriptors, params, Limits::NONE)
    };
    let subject = new().ok()?;
    let twin = NaiveDualPi2::new(params, super::DESCRIPTORS, Limits::NONE);
    let late = Peeked::new(Shifted::new(new().ok()?, late));
    let (mut by_twin, mut by_time) = (Match::new(subject.clone(), twin), Match::new(subject, late));
    let mut now = 0;
    while let Some(then) = bytes.pass(now) {
        let clock = if then >= now {
            Operation::Forward { nanos: then - now }
        } else {
            Operation::Back { nanos: now - then }
        };
        now = then;
        let Some(operation) = queue_operation(bytes) else { break };
        for operation in [clock, operation] {
            by_twin.step(operation, true).unwrap_or_else(|what| panic!("beside its twin: {what}"));
            by_time.step(operation, true).unwrap_or_else(|what| panic!("at another time: {what}"));
        }
    }
    let counters = by_twin.subject.counters();
    let dropped = counters.dropped_for(DropReason::Aqm).packets;
    Some(Signals { at_departure: counters.marked + dropped, at_arrival: 0 })
}

fn queue_operation(bytes: &mut Bytes<'_>) -> Option<Operation> {
    Some(match bytes.byte()? {
        0..=99 => Operation::Enqueue { flow: 0, len: 1 + 6 * u32::from(bytes.byte()?) },
        100..=139 => {
            let (packets, len) = (bytes.byte()? % 9, 1 + 6 * u32::from(bytes.byte()?));
            Operation::EnqueueBurst { flow: 0, len, packets }
        }
        140..=239 => Operation::Dequeue,
        240..=247 => Operation::Evict,
        _ => Operation::Drain,
    })
}
