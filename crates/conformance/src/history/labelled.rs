//! Sequences of operations on the isolated queue with labelled packets, compared with its reference
//! model.

mod step;

use core::fmt::Debug;

use freeboard::sched_core::{
    Backlog, Counters, DropReason, FlowId, Limits, Nanos, Packet, Scheduler, Side, TinConfig,
};
use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation};

use crate::twin::{NaiveIsolated, Sizes};
pub use step::WithTerms;
use step::{HANDLES, MAX_LEN, Step, tins};

/// Configuration of tins and tables; the tables fill up quickly except in the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One tin.
    OneTin,
    /// Several tins.
    Tins,
    /// Several tins; isolation, number of tins and key change while packets are queued.
    Rebuilds,
    /// Several tins, with an entry for each host.
    OwnEntries,
    /// [`Self::Rebuilds`] with hosts that send in advance of their turns, without host rates and
    /// with a separate share in every tin.
    InAdvance,
}

impl Shape {
    /// All variants.
    pub const ALL: [Self; 5] =
        [Self::OneTin, Self::Tins, Self::Rebuilds, Self::OwnEntries, Self::InAdvance];

    /// Returns true if a sequence of this shape has rebuilds.
    const fn rebuilds(self) -> bool {
        matches!(self, Self::Rebuilds | Self::InAdvance)
    }
}

/// Number of events of each kind during the sequences played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Packets accepted, by the outcome of their lookup.
    pub outcomes: [u64; 3],
    /// Packets in spare queues, summed over all steps.
    pub in_spares: u64,
    /// Packets dropped to make space for others.
    pub overflows: u64,
    /// Packets accepted while there were several tins.
    pub in_tins: u64,
    /// Packets accepted while hosts had one share across several tins.
    pub across: u64,
    /// Packets accepted under `triple-isolate`.
    pub in_rounds: u64,
    /// Packets accepted that are longer than `MAX_LEN`.
    pub long: u64,
    /// Changes of the number of tins, accepted and rejected.
    pub set_tins: [u64; 2],
    /// Rebuilds with packets queued, done and rejected.
    pub rebuilds: [u64; 2],
    /// Packets that a rebuild moved to another queue.
    pub moved: u64,
    /// Hosts in excess of their rates, and hosts waiting for their ceilings, summed over all
    /// steps.
    pub places: [u64; 2],
    /// Turns on the early list, and turns used up in advance, summed over all steps.
    pub early: [u64; 2],
}

/// Host terms used in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terms {
    /// No tables for rates.
    None,
    Rates,
    Ceilings,
    Both,
}

impl Terms {
    fn of(self, mut of: WithTerms) -> WithTerms {
        if self == Self::Rates {
            of.terms.ceiling = None;
        } else if self == Self::Ceilings {
            of.terms.committed_rate = None;
        }
        of
    }
}

/// The queue under test and its reference model.
struct Both {
    subject: Isolated<Heap>,
    twin: NaiveIsolated,
    tables: Shape,
    sizes: Sizes,
    terms: Terms,
    across: bool,
    link: freeboard::shaper::Overhead,
    now: Nanos,
    /// Number of the current key.
    key: u32,
    inside: [bool; HANDLES as usize],
    /// Labels and terms of the last packet of each handle, before the key is applied.
    labels: [Option<WithTerms>; HANDLES as usize],
    seen: Coverage,
}

fn same<A: PartialEq + Debug>(what: &str, subject: A, twin: A) -> Result<(), String> {
    if subject == twin {
        return Ok(());
    }
    Err(format!("{what}: {subject:?}, but the twin says {twin:?}"))
}

type Drops = [Vec<(Packet, DropReason)>; 2];

impl Both {
    fn new(tables: Shape, shape: u8, start: u8) -> Self {
        let isolation = match (tables, start % 8) {
            (Shape::InAdvance, at) if at > 3 => {
                [Isolation::DualSrcHost, Isolation::DualDstHost][usize::from(at % 2)]
            }
            (_, 0 | 1) => Isolation::DualSrcHost,
            (_, 2 | 3) => Isolation::DualDstHost,
            (_, 4 | 5) | (Shape::OwnEntries, _) => Isolation::TripleIsolate,
            (_, 6) => Isolation::Flows,
            _ => Isolation::Hosts,
        };
        let terms = [Terms::None, Terms::Rates, Terms::Ceilings, Terms::Both];
        let terms = match tables {
            Shape::InAdvance => Terms::None,
            _ => terms[usize::from(shape / 32 % 4)],
        };
        let hosts = [2, 4, 8, 16][usize::from(shape % 4)];
        let ways = [1, 4, 8, 16][usize::from(shape / 4 % 4)].min(hosts);
        let small = [8, 16][usize::from(shape / 16 % 2)].max(ways);
        let (queues, hosts, ways) = match tables {
            Shape::OwnEntries => (256, 256, 16),
            _ => (small, hosts, ways),
        };
        // Most packets are much shorter than the maximum.
        let max_len = [MAX_LEN, 40 * MAX_LEN][usize::from(start / 8 % 2)];
        let sizes = Sizes {
            queues,
            hosts,
            ways,
            packets: HANDLES,
            rounds: match tables {
                Shape::OneTin => [2, 3, 8, 100][usize::from(shape / 32 % 4)],
                Shape::Tins | Shape::Rebuilds | Shape::InAdvance => {
                    [2, 9, 24, 100][usize::from(shape / 32 % 4)]
                }
                Shape::OwnEntries => [16, 600][usize::from(shape / 32 % 2)],
            },
            max_len,
            quantum: [max_len, 2 * max_len + 500][usize::from(shape / 128)],
            host_quantum: [max_len, 2 * max_len - 500, 3 * max_len][usize::from(start / 32 % 3)],
            rates: terms != Terms::None,
            local_side: [Side::Source, Side::Destination][usize::from(shape / 64 % 2)],
        };
        let limits =
            [Limits::NONE, Limits { packets: 20, bytes: 12_000 }][usize::from(start / 128)];
        let mut config = IsolatedConfig::new(max_len, limits).isolated_by(isolation);
        config.quantum = sizes.quantum;
        config.host_quantum = sizes.host_quantum;
        config.ways = sizes.ways;
        config.local_side = sizes.local_side;
        let count = |count: u32| count as usize;
        let memory = IsolatedMemory::allocate(count(queues), count(hosts), 8, count(sizes.packets));
        let memory = memory.with_triple(count(sizes.rounds));
        let memory = if sizes.rates { memory.with_rates() } else { memory };
        Self {
            subject: Isolated::new(memory, config).expect("powers of two"),
            twin: NaiveIsolated::new(sizes, 8, isolation, limits),
            tables,
            sizes,
            terms,
            across: false,
            link: freeboard::shaper::Overhead::RAW,
            now: Nanos::from_secs(1),
            key: 0,
            inside: [false; HANDLES as usize],
            labels: [None; HANDLES as usize],
            seen: Coverage::default(),
        }
    }

    fn enqueue(
        &mut self,
        mut of: WithTerms,
        packet: Packet,
        [ours, theirs]: &mut Drops,
    ) -> Result<(), String> {
        of = self.terms.of(of);
        let push = |drops: &mut Vec<_>, packet, why| drops.push((packet, why));
        let now = self.now;
        if self.tables == Shape::OwnEntries {
            // In every tin, labels below 8 use separate ways of a table with 256 entries.
            let flow = of.labels.flow;
            (of.labels.flow, of.labels.src_host, of.labels.dst_host) =
                (flow % 8, flow % 3, flow % 5);
        }
        let labels = of.under(self.key);
        let subject =
            self.subject.enqueue_labelled(now, &labels, packet, &mut |p, why| push(ours, p, why));
        let twin =
            self.twin.enqueue_labelled(now, &labels, packet, &mut |p, why| push(theirs, p, why));
        same("arrival", subject, twin)?;
        if let Ok(outcome) = subject {
            self.seen.outcomes[outcome as usize] += 1;
            let in_tins = u64::from(self.subject.tins() > 1);
            self.seen.in_tins += in_tins;
            self.seen.across += in_tins * u64::from(self.across);
            self.seen.long += u64::from(packet.len > MAX_LEN);
            self.seen.in_rounds += u64::from(self.subject.isolation() == Isolation::TripleIsolate);
            let inside = self.inside.get_mut(packet.handle as usize).ok_or("no such handle")?;
            if core::mem::replace(inside, true) {
                return Err(format!("{packet:?} accepted while its handle is queued"));
            }
            self.labels[packet.handle as usize] = Some(of);
        }
        Ok(())
    }

    fn set_tins(&mut self, count: u8, plan: u8) -> Result<(), String> {
        let tins = tins(count, plan);
        match self.tables {
            Shape::OneTin => return Ok(()),
            _ if self.tables.rebuilds() && plan.is_multiple_of(2) => {
                return self.rebuild(self.subject.isolation(), Some(&tins), self.key);
            }
            _ => {}
        }
        let is_set = self.subject.set_tins(&tins).is_ok();
        same("other tins", is_set, self.twin.set_tins(&tins))?;
        self.seen.set_tins[usize::from(!is_set)] += 1;
        Ok(())
    }

    fn rebuild(
        &mut self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
        key: u32,
    ) -> Result<(), String> {
        if !self.tables.rebuilds() {
            return Ok(());
        }
        let labels = self.labels;
        let labels_of = |packet: Packet| {
            labels[packet.handle as usize].expect("it came with labels").under(key)
        };
        let before = self.held();
        let is_done = self.subject.rebuild(isolation, tins, labels_of).is_ok();
        let twin = self.twin.rebuild(isolation, tins, labels_of);
        same("a rebuild", is_done, twin)?;
        let is_loaded = self.subject.backlog().packets > 0;
        self.seen.rebuilds[usize::from(!is_done)] += u64::from(is_loaded);
        if !is_done {
            return Ok(());
        }
        self.key = key;
        let moved = before.iter().zip(self.held()).map(|(then, now)| then.abs_diff(now) / 2);
        self.seen.moved += u64::from(moved.sum::<u32>());
        Ok(())
    }

    /// Returns the number of packets in each queue.
    fn held(&self) -> Vec<u32> {
        let Sizes { queues, hosts, .. } = self.sizes;
        (0..queues + hosts).map(|queue| self.subject.queue_backlog(queue).packets).collect()
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
                    // The link is busy until this packet is sent.
                    self.now = now.plus(Nanos(self.link.wire_len(packet.len).into()));
                    self.home(packet)?;
                }
            }
            Step::Update(of) => {
                let of = self.terms.of(of).under(self.key);
                let known = self.subject.update_host(now, &of);
                same("a host updated", known, self.twin.update_host(now, &of))?;
            }
            Step::SetTins(count, plan) => self.set_tins(count, plan)?,
            Step::SetAcross(_) if self.tables == Shape::InAdvance => {}
            Step::SetAcross(on) => {
                self.subject.set_hosts_across_tins(on);
                self.twin.set_across(on);
                self.across = on;
            }
            Step::SetOverhead(link) => {
                self.subject.set_overhead(link);
                self.twin.set_overhead(link);
                self.link = link;
            }
            Step::SetLimits(limits) => {
                self.subject.set_limits(limits, ours);
                self.twin.set_limits(limits, theirs);
            }
            Step::Evict => {
                let found = self.subject.evict(ours);
                same("a victim", found, self.twin.evict(theirs))?;
            }
            Step::Drain => {
                self.subject.drain(ours);
                self.twin.drain(theirs);
            }
            Step::Wait(span) => self.now = now.plus(span),
            Step::Back(span) => self.now = Nanos(now.0.saturating_sub(span.0)),
            Step::SetIsolation(isolation) => self.rebuild(isolation, None, self.key)?,
            Step::Rotate => self.rebuild(self.subject.isolation(), None, self.key + 1)?,
            Step::Rebuild => self.rebuild(self.subject.isolation(), None, self.key)?,
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

    /// Compares everything observable.
    fn compare(&mut self) -> Result<(), String> {
        let (subject, twin) = (&self.subject, self.twin.queues());
        same::<Backlog>("backlog", subject.backlog(), twin.backlog())?;
        same::<Counters>("counters", subject.counters(), twin.counters())?;
        same("limits", subject.limits(), twin.limits())?;
        same("next", subject.peek(self.now), twin.peek(self.now))?;
        same("poll_at", subject.poll_at(self.now), twin.poll_at(self.now))?;
        same("hosts", subject.backlogged_hosts(), self.twin.backlogged_hosts())?;
        let Sizes { queues, hosts, .. } = self.sizes;
        for queue in (0..queues + hosts).filter(|queue| *queue < 64) {
            let held = subject.queue_backlog(queue);
            let of_twin = self.twin.queue_backlog(FlowId(queue));
            same("what a queue holds", (queue, held), (queue, of_twin))?;
            self.seen.in_spares += u64::from(if queue < queues { 0 } else { held.packets });
        }
        let places = self.twin.places();
        self.seen.places.iter_mut().zip(places).for_each(|(sum, count)| *sum += count);
        let early = self.twin.in_advance();
        self.seen.early.iter_mut().zip(early).for_each(|(sum, count)| *sum += count);
        let held = self.inside.iter().filter(|inside| **inside).count();
        same("handles out", subject.backlog().packets as usize, held)?;
        subject.recount().map_err(|imbalance| imbalance.to_string())
    }
}

/// Plays the sequence encoded in `bytes` on an isolated queue and its reference model, and compares
/// everything observable after each step. The first two bytes select the configuration.
///
/// # Errors
/// Returns a description of the difference and the steps that led to it.
pub fn play_labelled(tables: Shape, bytes: &[u8]) -> Result<Coverage, String> {
    let mut rest = bytes.iter().copied();
    let (shape, start) = (rest.next().unwrap_or(0), rest.next().unwrap_or(0));
    let mut both = Both::new(tables, shape, start);
    if tables != Shape::OneTin {
        both.step(Step::SetTins(shape.rotate_left(3), start))?;
        both.step(Step::SetAcross(start % 32 >= 16))?;
    }
    let mut steps = Vec::new();
    while let Some(step) = Step::decode(&mut || rest.next()) {
        steps.push(step);
        let at = steps.len();
        both.step(step).map_err(|what| {
            let last = &steps[at.saturating_sub(30)..];
            format!("{what}, of {:?} after {at} steps: {last:#?}", both.sizes)
        })?;
    }
    Ok(both.seen)
}
