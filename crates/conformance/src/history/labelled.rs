//! Histories of the isolated queue, where packets have labels: the same for it and for its twin.

use core::fmt::Debug;

use freeboard::flowhash::{Labels, Outcome};
use freeboard::sched_core::{
    Backlog, Ceiling, CommittedRate, Counters, DropReason, FlowId, Limits, Nanos, NoAqm, Packet,
    Rejected, Scheduler, Side, TinConfig,
};
use freeboard::shaper::{Framing, Layer, Overhead, OverheadError};
use freeboard::{
    Heap, HostTerms, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, Isolation, Labelled,
    NoRoom, Rekeyed, Storage,
};

use super::operation::pick;
use crate::twin::{NaiveIsolated, Sizes};

/// Handles of a history are numbered below this.
pub(super) const HANDLES: u32 = 48;
pub(super) const MAX_LEN: u32 = 1_500;

/// A packet's labels, and the terms of its host.
#[derive(Clone, Copy, Debug)]
pub struct WithTerms {
    /// The labels, under the key in force.
    pub labels: Labels,
    /// What its host gets, on whichever side it is.
    pub terms: HostTerms,
    /// Its tin, which may not be there.
    pub tin: u8,
}

impl Labelled for WithTerms {
    fn flow(&self) -> u32 {
        self.labels.flow
    }

    fn source(&self) -> u32 {
        self.labels.src_host
    }

    fn destination(&self) -> u32 {
        self.labels.dst_host
    }

    fn tin(&self) -> u8 {
        self.tin
    }

    fn host_quantum(&self) -> Option<u32> {
        self.terms.quantum
    }

    fn host_committed_rate(&self) -> Option<CommittedRate> {
        self.terms.committed_rate
    }

    fn host_ceiling(&self) -> Option<Ceiling> {
        self.terms.ceiling
    }
}

impl WithTerms {
    /// Under the key of this number, of which number 0 leaves labels as they are, and under the key before. The labels
    /// that any key makes are few: flows and keys share tags.
    pub(super) fn under(self, key: u32) -> Rekeyed<Labels, Self> {
        let bits = |key: u32| key.wrapping_mul(0x9e37_79b1) >> 27;
        let of = |key: u32| Labels {
            flow: self.labels.flow ^ bits(key),
            src_host: self.labels.src_host ^ bits(key) & 7,
            dst_host: self.labels.dst_host ^ bits(key) & 7,
        };
        Rekeyed { before: of(key.saturating_sub(1)), after: Self { labels: of(key), ..self } }
    }
}

/// Something done to an isolated queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Enqueue {
        of: WithTerms,
        len: u32,
    },
    EnqueueAs {
        of: WithTerms,
        len: u32,
        handle: u32,
    },
    Dequeue,
    Update(WithTerms),
    SetIsolation(Isolation),
    /// How many tins and where those go that are there, and which of their plans.
    SetTins(u8, u8),
    /// Whether a host has one share in all tins.
    SetAcross(bool),
    SetLimits(Limits),
    /// What packets are on the wire.
    SetOverhead(Overhead),
    Evict,
    Rotate,
    FinishRotation,
    Drain,
    Wait(Nanos),
    Back(Nanos),
}

const LENGTHS: [u32; 8] = [1, 60, 64, 500, 700, 1_000, 1_500, 1_500];
const ODD_LENGTHS: [u32; 4] = [0, 1_501, 65_536, u32::MAX];
const QUANTA: [Option<u32>; 8] =
    [None, None, None, None, Some(0), Some(3_000), Some(7_500), Some(u32::MAX)];
/// Isolations; those with a level of hosts, which may have rates, as often as all others.
const ISOLATIONS: [Isolation; 10] = [
    Isolation::DualSrcHost,
    Isolation::DualDstHost,
    Isolation::Flows,
    Isolation::DualSrcHost,
    Isolation::SrcHost,
    Isolation::TripleIsolate,
    Isolation::DualDstHost,
    Isolation::DstHost,
    Isolation::DualSrcHost,
    Isolation::Hosts,
];
/// In Mbit/s and bytes. The line has 8 Gbit/s, a byte a nanosecond.
const RATES: [Option<(u64, u32)>; 8] = [
    None,
    None,
    None,
    Some((100, 1)),
    Some((800, 3_000)),
    Some((800, 3_000)),
    Some((2_999, 1_700)),
    Some((399_999, 20_000)),
];
const CEILINGS: [Option<(u64, u32)>; 8] =
    [None, Some((800, 3_000)), None, None, Some((1_500, 9_000)), None, Some((2_999, 1)), None];
const PACKETS: [u32; 8] = [u32::MAX, HANDLES, 40, 24, 12, 6, 2, 0];
const BYTES: [u32; 8] = [u32::MAX, 40_000, 20_000, 9_000, 6_000, 3_000, 1_500, 99];

/// What adds nothing, little and much, pads, has a minimum, and is less than what is booked.
const LINKS: [Overhead; 8] = [
    Overhead::RAW,
    Overhead::PPPOE_LLCSNAP,
    Overhead::ETHERNET,
    Overhead::RAW,
    Overhead::PPPOE_PTM.for_frames(14),
    Overhead::CONSERVATIVE,
    checked(Overhead::new(Framing::None, -64, 0)),
    checked(checked(Overhead::new(Framing::Xgem, 100, 256)).carrying(Layer::WIREGUARD)),
];

/// A link that there is.
const fn checked(link: Result<Overhead, OverheadError>) -> Overhead {
    match link {
        Ok(link) => link,
        Err(_) => panic!("out of range"),
    }
}

impl Step {
    /// Reads a step from bytes; any bytes are one. Half of the first bytes are arrivals, more than a third
    /// departures.
    pub(super) fn decode(next: &mut impl FnMut() -> Option<u8>) -> Option<Self> {
        Some(match next()? {
            0..=127 => Self::Enqueue { of: labels(next)?, len: pick(&LENGTHS, next()?) },
            128..=221 => Self::Dequeue,
            222..=229 => {
                let (of, byte, handle) = (labels(next)?, next()?, next()?);
                let len = if byte < 128 { pick(&ODD_LENGTHS, byte) } else { pick(&LENGTHS, byte) };
                Self::EnqueueAs { of, len, handle: u32::from(handle) % (HANDLES + 2) }
            }
            230..=232 => Self::SetIsolation(pick(&ISOLATIONS, next()?)),
            233..=234 => Self::SetTins(next()?, next()?),
            235..=240 => Self::SetLimits(limits(next()?, next()?)),
            241..=242 => Self::SetOverhead(pick(&LINKS, next()?)),
            243..=245 => Self::Evict,
            246..=248 => Self::Rotate,
            249 => Self::FinishRotation,
            250 => Self::Drain,
            251 => Self::Update(labels(next)?),
            252 => Self::SetLimits(Limits::NONE),
            253 => Self::SetAcross(next()? % 4 > 0),
            254 => Self::Wait(Nanos(1 << (next()? % 20))),
            255 => Self::Back(Nanos(1 << (next()? % 20))),
        })
    }
}

/// A flow of 32, mostly with the hosts that all of its packets have.
fn labels(next: &mut impl FnMut() -> Option<u8>) -> Option<WithTerms> {
    let (flow, hosts) = (next()?, next()?);
    let (source, destination) = match hosts {
        0..224 => (flow % 5, flow / 5 % 6),
        _ => (hosts % 11, hosts / 3 % 11),
    };
    let quantum = if hosts < 224 { flow / 32 } else { 0 };
    let labels =
        Labels { flow: (flow % 32).into(), src_host: source.into(), dst_host: destination.into() };
    // Mostly those of the source: a host that comes back mostly has the rates it had.
    let of_host = source.wrapping_add(hosts / 200);
    let bits = |mbit: u64| mbit * 1_000_000;
    let rate = pick(&RATES, of_host);
    let rate = rate.map(|(mbit, burst)| CommittedRate::new(bits(mbit), burst).expect("in range"));
    let rate = rate.map(|rate| if hosts % 4 == 3 { rate.with_free_borrowing() } else { rate });
    let ceiling = pick(&CEILINGS, of_host);
    let ceiling = ceiling.map(|(mbit, burst)| Ceiling::new(bits(mbit), burst).expect("in range"));
    let terms = HostTerms { quantum: pick(&QUANTA, quantum), committed_rate: rate, ceiling };
    // The tins of a flow are two, and one in eight packets is in another.
    let tin = if hosts % 8 < 7 { flow % 4 + hosts / 8 % 2 } else { hosts / 16 };
    Some(WithTerms { labels, terms, tin })
}

/// Where tin `tin` goes when tins change: mostly it stays. It need not be there.
const fn moved(count: u8, tin: u8) -> u8 {
    match count / 8 % 8 {
        5 => tin + 1,
        6 => tin / 2,
        7 => tin ^ 1,
        _ => tin,
    }
}

/// Between one tin and eight. The line has 8 Gbit/s.
pub(super) fn tins(count: u8, plan: u8) -> Vec<TinConfig> {
    let count = [1, 2, 3, 4, 4, 5, 8, 8][usize::from(count % 8)];
    let part = |tin: u64| 8_000_000_000 >> ((u64::from(plan / 4) % 5 + tin) % 7);
    let tin = |tin| match plan % 4 {
        0 => TinConfig::by_weight(1 + tin as u32 * u32::from(plan / 4)),
        1 if tin == 1 => TinConfig::by_weight(3),
        _ => TinConfig::by_weight(2).with_rate(part(tin)),
    };
    (0..count).map(tin).collect()
}

fn limits(packets: u8, bytes: u8) -> Limits {
    // Mostly one limit at a time.
    let packets = if packets < 128 { u32::MAX } else { pick(&PACKETS, packets) };
    let bytes = if bytes < 96 { u32::MAX } else { pick(&BYTES, bytes) };
    Limits { packets, bytes }
}

/// Counts of what happened while histories were played: a test that never collides tests nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets accepted, by the outcome of their lookup.
    pub outcomes: [u64; 3],
    /// Packets in spare queues, after each step.
    pub in_spares: u64,
    /// Packets dropped by others.
    pub overflows: u64,
    /// Packets that made a buffer free.
    pub evicted: u64,
    /// Changes of isolation while spare queues held packets.
    pub changes: u64,
    /// Hosts in excess of their committed rate, after each step.
    pub borrowing: u64,
    /// Hosts that wait below their ceilings, after each step.
    pub waiting: u64,
    /// Packets accepted while queues or entries were claimed under the key before.
    pub rotating: u64,
    /// Packets accepted while there were several tins.
    pub in_tins: u64,
    /// Changes of the tins while packets were queued.
    pub tin_changes: u64,
    /// One share over several tins, set.
    pub across: u64,
    /// Changes of what packets are on the wire while some were queued.
    pub link_changes: u64,
}

/// The isolated queue and its twin.
struct Both<K: Storage> {
    subject: Isolated<Heap, NoAqm, K, Heap>,
    twin: NaiveIsolated,
    sizes: Sizes,
    link: Overhead,
    now: Nanos,
    /// The number of the key in force.
    key: u32,
    /// Whether the packet of a handle is in the queue.
    inside: [bool; HANDLES as usize],
    seen: Seen,
}

fn same<A: PartialEq + Debug>(what: &str, subject: A, twin: A) -> Result<(), String> {
    if subject == twin {
        return Ok(());
    }
    Err(format!("{what}: {subject:?}, but the twin says {twin:?}"))
}

type Drops = [Vec<(Packet, DropReason)>; 2];

/// As two bytes say: two to sixteen entries for hosts, eight or sixteen queues, with room for rates or without.
fn sizes(shape: u8, start: u8) -> Sizes {
    let hosts = [2, 4, 8, 16][usize::from(shape % 4)];
    let ways = [1, 4, 8, 16][usize::from(shape / 4 % 4)].min(hosts);
    Sizes {
        queues: [8, 16][usize::from(shape / 16 % 2)].max(ways),
        hosts,
        ways,
        packets: HANDLES,
        rounds: [2, 4, 16, 64][usize::from(shape / 32 % 4)],
        max_len: MAX_LEN,
        quantum: [MAX_LEN, 3_500][usize::from(shape / 128)],
        host_quantum: [MAX_LEN, 2_500, 4_500][usize::from(start / 32 % 3)],
        rates: start / 16 % 2 == 1,
        local_side: [Side::Source, Side::Destination][(shape ^ start).count_ones() as usize % 2],
    }
}

fn memory(sizes: Sizes) -> IsolatedMemory<Heap, NoRoom, Heap> {
    let Sizes { queues, hosts, packets, rounds, .. } = sizes;
    let [queues, hosts, packets, rounds] =
        [queues, hosts, packets, rounds].map(|count| count as usize);
    IsolatedMemory::allocate(queues, hosts, packets).with_triple(rounds)
}

impl<K: Storage> Both<K> {
    fn new(memory: IsolatedMemory<Heap, K, Heap>, sizes: Sizes, start: u8) -> Self {
        let isolation = pick(&ISOLATIONS, start % 16);
        let limits =
            [Limits::NONE, Limits { packets: 20, bytes: 12_000 }][usize::from(start / 128)];
        let mut config = IsolatedConfig::new(MAX_LEN, limits)
            .isolated_by(isolation)
            .with_local_side(sizes.local_side);
        config.quantum = sizes.quantum;
        config.host_quantum = sizes.host_quantum;
        config.ways = sizes.ways;
        Self {
            subject: Isolated::new(memory, config).expect("powers of two"),
            twin: NaiveIsolated::new(sizes, isolation, limits),
            sizes,
            link: Overhead::RAW,
            now: Nanos::from_secs(1),
            key: 0,
            inside: [false; HANDLES as usize],
            seen: Seen::default(),
        }
    }

    fn enqueue(
        &mut self,
        of: WithTerms,
        packet: Packet,
        [ours, theirs]: &mut Drops,
    ) -> Result<(), String> {
        let push = |drops: &mut Vec<_>, packet, why| drops.push((packet, why));
        let (now, of) = (self.now, of.under(self.key));
        let tin = Some(of.tin()).filter(|tin| *tin < self.subject.tins()).unwrap_or(0);
        let accepted = |subject: &Isolated<Heap, NoAqm, K, Heap>| {
            subject.tin_counters(tin).map_or(0, |tin| tin.counters.accepted.packets)
        };
        let before = accepted(&self.subject);
        let subject: Result<Outcome, Rejected> =
            self.subject.enqueue_labelled(now, &of, packet, &mut |p, why| push(ours, p, why));
        let twin = self.twin.enqueue_labelled(now, &of, packet, &mut |p, why| push(theirs, p, why));
        same("arrival", subject, twin)?;
        if let Ok(outcome) = subject {
            if outcome != Outcome::Collision {
                same("accepted in the tin of the packet", accepted(&self.subject), before + 1)?;
            }
            self.seen.outcomes[outcome as usize] += 1;
            self.seen.rotating += u64::from(self.subject.old_claims() > 0);
            self.seen.in_tins += u64::from(self.subject.tins() > 1);
            let inside = self.inside.get_mut(packet.handle as usize).ok_or("no such handle")?;
            if core::mem::replace(inside, true) {
                return Err(format!("{packet:?} accepted while its handle is queued"));
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        self.now = self.now.plus(Nanos(1));
        let now = self.now;
        let mut drops = Drops::default();
        let [ours, theirs] = &mut drops;
        let ours = &mut |packet: Packet, why: DropReason| ours.push((packet, why));
        let theirs = &mut |packet: Packet, why: DropReason| theirs.push((packet, why));
        match step {
            Step::Enqueue { of, len } => {
                let handle = self.inside.iter().position(|inside| !inside).unwrap_or(0);
                let handle = u32::try_from(handle).expect("below the number of handles");
                self.enqueue(of, Packet::new(handle, len), &mut drops)?;
            }
            Step::EnqueueAs { of, len, handle } => {
                self.enqueue(of, Packet::new(handle, len), &mut drops)?;
            }
            Step::Dequeue => {
                let packet = self.subject.dequeue(now, ours);
                same("departure", packet, self.twin.dequeue(now, theirs))?;
                if let Some(packet) = packet {
                    // The next one is sent when this one is.
                    self.now = now.plus(Nanos(self.link.wire_len(packet.len).into()));
                    self.home(packet)?;
                }
            }
            Step::Update(of) => {
                let of = of.under(self.key);
                let known = self.subject.update_host(now, &of);
                same("a host updated", known, self.twin.update_host(now, &of))?;
            }
            Step::SetIsolation(isolation) => {
                self.seen.changes += u64::from(self.in_spares() > 0);
                let is_set = self.subject.set_isolation(isolation);
                let is_possible = self.twin.set_isolation(isolation);
                same("another isolation", is_set.is_ok(), is_possible)?;
                if let Err(error) = is_set {
                    let needed = 2 * usize::from(self.subject.tins());
                    let given = self.sizes.rounds as usize;
                    let what = "rounds of all tins";
                    let refused = IsolatedError::Memory { what, given, needed };
                    same("why no other isolation", error, refused)?;
                }
            }
            Step::SetTins(count, plan) => {
                let (tins, to) = (tins(count, plan), |tin| moved(count, tin));
                let is_set = self.subject.set_tins_and_move(&tins, to).is_ok();
                same("other tins", is_set, self.twin.set_tins(&tins, to))?;
                let is_loaded = self.subject.backlog().packets > 1;
                self.seen.tin_changes += u64::from(is_set && is_loaded);
            }
            Step::SetAcross(on) => {
                self.subject.set_hosts_across_tins(on);
                self.twin.set_hosts_across_tins(on);
                same("one share in all tins", self.subject.hosts_across_tins(), on)?;
                self.seen.across += u64::from(on && self.subject.tins() > 1);
            }
            Step::SetOverhead(link) => {
                self.subject.set_overhead(link);
                self.twin.set_overhead(link);
                self.link = link;
                let is_loaded = self.subject.backlog().packets > 1;
                self.seen.link_changes += u64::from(is_loaded);
            }
            Step::SetLimits(limits) => {
                self.subject.set_limits(limits, ours);
                self.twin.set_limits(limits, theirs);
            }
            Step::Evict => {
                let found = self.subject.evict(ours);
                same("a victim", found, self.twin.evict(theirs))?;
                self.seen.evicted += u64::from(found);
            }
            Step::Rotate => {
                let begun = self.subject.rotate();
                same("a new key", begun, self.twin.rotate())?;
                self.key += u32::from(begun.is_ok());
            }
            Step::FinishRotation => {
                let left = self.subject.finish_rotation();
                same("left of the key before", left, self.twin.finish_rotation())?;
            }
            Step::Drain => {
                self.subject.drain(ours);
                self.twin.drain(theirs);
            }
            Step::Wait(span) => self.now = now.plus(span),
            Step::Back(span) => self.now = Nanos(now.0.saturating_sub(span.0)),
        }
        let [ours, theirs] = drops;
        same("drops", &ours, &theirs)?;
        for (packet, why) in ours {
            self.seen.overflows += u64::from(why == DropReason::Overflow);
            self.home(packet)?;
        }
        self.compare()
    }

    fn home(&mut self, packet: Packet) -> Result<(), String> {
        let inside = self.inside.get_mut(packet.handle as usize);
        let was_inside = inside.is_some_and(core::mem::take);
        if was_inside { Ok(()) } else { Err(format!("{packet:?} came home but was not out")) }
    }

    fn in_spares(&self) -> u64 {
        let spares = self.sizes.queues..self.sizes.queues + self.sizes.hosts;
        spares.map(|queue| u64::from(self.twin.queue_backlog(FlowId(queue)).packets)).sum()
    }

    /// All that can be seen.
    fn compare(&mut self) -> Result<(), String> {
        let (subject, twin) = (&self.subject, self.twin.queues());
        same::<Backlog>("backlog", subject.backlog(), twin.backlog())?;
        same::<Counters>("counters", subject.counters(), twin.counters())?;
        same("limits", subject.limits(), twin.limits())?;
        same("next", subject.peek(self.now), twin.peek(self.now))?;
        same("poll_at", subject.poll_at(self.now), twin.poll_at(self.now))?;
        same("isolation", subject.isolation(), self.twin.isolation())?;
        same("old claims", subject.old_claims(), self.twin.old_claims())?;
        same("hosts", subject.backlogged_hosts(), self.twin.backlogged_hosts())?;
        let all = subject.activations();
        let flows = [all.flows, all.new_flows];
        let sources = [all.source_hosts, all.new_source_hosts];
        let destinations = [all.destination_hosts, all.new_destination_hosts];
        same("activations", [flows, sources, destinations], self.twin.activations())?;
        for queue in (0..self.sizes.queues + self.sizes.hosts).map(FlowId) {
            let held = subject.queues().flow_backlog(queue);
            same("what a queue holds", (queue, held), (queue, self.twin.queue_backlog(queue)))?;
        }
        let held = self.inside.iter().filter(|inside| **inside).count();
        same("handles out", subject.backlog().packets as usize, held)?;
        subject.recount().map_err(|imbalance| imbalance.to_string())?;
        self.seen.in_spares += self.in_spares();
        let (borrowing, waiting) = self.twin.borrowing_and_waiting_hosts();
        self.seen.borrowing += borrowing as u64;
        self.seen.waiting += waiting as u64;
        Ok(())
    }
}

/// Plays the history that `bytes` spell on an isolated queue and on its twin, and compares all that can be
/// seen after each step. Two bytes say how both are built; a last step that is cut off is left out.
///
/// # Errors
/// A text with the difference and the steps until then.
pub fn play_labelled(bytes: &[u8]) -> Result<Seen, String> {
    let mut rest = bytes.iter().copied();
    let (shape, start) = (rest.next().unwrap_or(0), rest.next().unwrap_or(0));
    let sizes = sizes(shape, start);
    if sizes.rates {
        play(Both::<Heap>::new(memory(sizes).with_rates(), sizes, start), rest)
    } else {
        play(Both::<NoRoom>::new(memory(sizes), sizes, start), rest)
    }
}

fn play<K: Storage>(mut both: Both<K>, mut rest: impl Iterator<Item = u8>) -> Result<Seen, String> {
    let (sizes, isolation) = (both.sizes, both.twin.isolation());
    let mut steps = Vec::new();
    while let Some(step) = Step::decode(&mut || rest.next()) {
        steps.push(step);
        both.step(step)
            .map_err(|what| format!("{what}, of {sizes:?} in {isolation}, after {steps:#?}"))?;
    }
    Ok(both.seen)
}
