use super::*;
use crate::Xorshift;
use crate::effort::effort;
use freeboard::sched_core::{
    Descriptor, DropFrom, Drr, DrrFlow, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos,
    Packet, Queue, Scheduler,
};
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

const FLOWS: usize = 3;

/// A packet that was sent.
struct Sent {
    flow: usize,
    came: usize,
    /// Backlog of its flow at the arrival, including this packet and the rest on the wire.
    work: i128,
    started: usize,
    ended: usize,
}

/// A backlog: its first and last time, and its first and last state of the service charged at the
/// dequeue.
#[derive(Clone, Copy)]
struct Spell {
    flow: usize,
    instants: (usize, usize),
    states: (usize, usize),
}

/// All data used by the definitions: bytes on the wire at every time, bytes charged in every state,
/// the backlogs and the packets.
#[derive(Default)]
struct Record {
    /// `wire[t]`: bytes sent until time `t`, in total and by each flow.
    wire: Vec<(i128, [i128; FLOWS])>,
    charged: Vec<(i128, [i128; FLOWS])>,
    spells: Vec<Spell>,
    sent: Vec<Sent>,
}

impl Record {
    /// Returns B-WFI times the denominator, over all pairs of times of all backlogs.
    fn lag(&self, flow: usize, share: Share) -> i128 {
        let spells = self.spells.iter().filter(|spell| spell.flow == flow);
        let pairs = spells.flat_map(|spell| {
            let (from, to) = spell.instants;
            (from..=to).flat_map(move |start| (start..=to).map(move |end| (start, end)))
        });
        pairs.map(|(start, end)| self.behind(flow, share, start, end)).max().unwrap_or(0)
    }

    /// Returns B-WFI over intervals that end with a packet that was begun in the backlog.
    fn lag_at_completion(&self, flow: usize, share: Share) -> i128 {
        let spells = self.spells.iter().filter(|spell| spell.flow == flow);
        let values = spells.flat_map(|spell| {
            let (from, to) = spell.instants;
            let mut sent = self.sent.iter().filter(|sent| sent.flow == flow).collect::<Vec<_>>();
            sent.retain(|sent| from <= sent.came && (from..=to).contains(&sent.started));
            sent.into_iter().flat_map(move |sent| {
                let starts = from..=sent.started;
                starts.map(move |start| self.behind(flow, share, start, sent.ended))
            })
        });
        values.max().unwrap_or(0).max(0)
    }

    fn behind(&self, flow: usize, share: Share, start: usize, end: usize) -> i128 {
        let link = self.wire[end].0 - self.wire[start].0;
        let own = self.wire[end].1[flow] - self.wire[start].1[flow];
        i128::from(share.numerator()) * link - i128::from(share.denominator()) * own
    }

    fn delay(&self, flow: usize, share: Share) -> i128 {
        let sent = self.sent.iter().filter(|sent| sent.flow == flow);
        let delays = sent.map(|sent| {
            let link = self.wire[sent.ended].0 - self.wire[sent.came].0;
            i128::from(share.numerator()) * link - i128::from(share.denominator()) * sent.work
        });
        delays.max().unwrap_or(0).max(0)
    }

    /// Returns the largest `W_k − φW`, times the denominator, over all pairs of states of all
    /// backlogs.
    fn lead(&self, flow: usize, share: Share) -> i128 {
        let spells = self.spells.iter().filter(|spell| spell.flow == flow);
        let pairs = spells.flat_map(|spell| {
            let (from, to) = spell.states;
            (from..=to).flat_map(move |start| (start..=to).map(move |end| (start, end)))
        });
        let ahead = pairs.map(|(start, end)| {
            let link = self.charged[end].0 - self.charged[start].0;
            let own = self.charged[end].1[flow] - self.charged[start].1[flow];
            i128::from(share.denominator()) * own - i128::from(share.numerator()) * link
        });
        ahead.max().unwrap_or(0)
    }

    /// Returns `|W_a/φ_a − W_b/φ_b|`, times both numerators, over all pairs of states of all joint
    /// backlogs.
    fn unfairness(&self, flows: [usize; 2], shares: [Share; 2]) -> u128 {
        let mut widest = 0;
        let of = |flow| self.spells.iter().filter(move |spell| spell.flow == flow);
        for (a, b) in of(flows[0]).flat_map(|a| of(flows[1]).map(move |b| (a, b))) {
            let from = a.states.0.max(b.states.0);
            let to = a.states.1.min(b.states.1);
            for start in from..=to {
                for end in start..=to {
                    let own = |at: usize| {
                        let flow = flows[at];
                        let bytes = self.charged[end].1[flow] - self.charged[start].1[flow];
                        let factor = shares[at].denominator() * shares[1 - at].numerator();
                        i128::from(factor) * bytes
                    };
                    widest = widest.max(own(0).abs_diff(own(1)));
                }
            }
        }
        widest
    }
}

type Waiting = (Arrival, Arrival, u32, usize, i128);

/// A random server: serves any flow, idles at any time, and drops any packet.
struct Chaos {
    meter: WfiMeter<[WfiFlow; FLOWS]>,
    /// A meter without information about the wire.
    blind: WfiMeter<[WfiFlow; FLOWS]>,
    pairs: [PairMeter; 2],
    record: Record,
    /// Arrivals of both meters, length, time, and backlog of the flow at that time.
    queues: [VecDeque<Waiting>; FLOWS],
    /// Beginning of the backlog: time and state.
    since: [(usize, usize); FLOWS],
    now: usize,
    /// Flow, start and end of the packet on the wire.
    wire: Option<(usize, usize, usize)>,
    served: [i128; FLOWS],
}

impl Chaos {
    fn new(shares: [Share; FLOWS]) -> Self {
        let mut meter = WfiMeter::new([WfiFlow::EMPTY; FLOWS]);
        for (flow, share) in (0..).zip(shares) {
            meter.add(FlowId(flow), share).unwrap();
        }
        let pair = |a: usize, b: usize| {
            PairMeter::new((FlowId(a as u32), shares[a]), (FlowId(b as u32), shares[b]))
        };
        let record = Record {
            wire: vec![(0, [0; FLOWS])],
            charged: vec![(0, [0; FLOWS])],
            ..Record::default()
        };
        Self {
            blind: meter.clone(),
            meter,
            pairs: [pair(0, 1), pair(2, 1)],
            record,
            queues: Default::default(),
            since: [(0, 0); FLOWS],
            now: 0,
            wire: None,
            served: [0; FLOWS],
        }
    }

    fn arrive(&mut self, flow: usize, len: u32) {
        let id = FlowId(flow as u32);
        self.tell_progress();
        if self.queues[flow].is_empty() {
            self.since[flow] = (self.now, self.record.charged.len() - 1);
            self.pairs.iter_mut().for_each(|pair| pair.backlogged(id));
        }
        let (arrival, blind) = (self.meter.arrived(id, len), self.blind.arrived(id, len));
        let rest = match self.wire {
            Some((of, _, end)) if of == flow => end - self.now,
            _ => 0,
        };
        let queued: u32 = self.queues[flow].iter().map(|packet| packet.2).sum();
        let work = i128::from(queued + len) + rest as i128;
        self.queues[flow].push_back((arrival, blind, len, self.now, work));
    }

    fn tell_progress(&mut self) {
        let gone = self.wire.map_or(usize::MAX, |(_, start, _)| self.now - start);
        self.meter.transmitted(gone.try_into().unwrap_or(u32::MAX));
    }

    fn end_spell(&mut self, flow: usize) {
        let (instant, state) = self.since[flow];
        let states = (state, self.record.charged.len() - 1);
        self.record.spells.push(Spell { flow, instants: (instant, self.now), states });
    }

    fn dequeue(&mut self, flow: usize) {
        let id = FlowId(flow as u32);
        let Some((arrival, blind, len, came, work)) = self.queues[flow].pop_front() else { return };
        self.meter.dequeued(arrival, len);
        self.blind.dequeued(blind, len);
        self.pairs.iter_mut().for_each(|pair| pair.dequeued(id, len));
        self.served[flow] += i128::from(len);
        self.record.charged.push((self.served.iter().sum(), self.served));
        let (started, ended) = (self.now, self.now + len as usize);
        self.record.sent.push(Sent { flow, came, work, started, ended });
        self.wire = Some((flow, started, ended));
        self.ended(flow);
    }

    fn lose(&mut self, flow: usize) {
        self.tell_progress();
        let Some(lost) = self.queues[flow].pop_back() else { return };
        self.meter.lost(FlowId(flow as u32), lost.2);
        self.blind.lost(FlowId(flow as u32), lost.2);
        self.ended(flow);
    }

    fn ended(&mut self, flow: usize) {
        if self.queues[flow].is_empty() {
            self.end_spell(flow);
            self.pairs.iter_mut().for_each(|pair| pair.emptied(FlowId(flow as u32)));
        }
    }

    /// Advances by the time of one byte.
    fn tick(&mut self) {
        let (mut link, mut own) = self.record.wire[self.now];
        if let Some((flow, _, end)) = self.wire {
            link += 1;
            own[flow] += 1;
            self.now += 1;
            if end == self.now {
                self.wire = None;
            }
        } else {
            self.now += 1;
        }
        self.record.wire.push((link, own));
    }
}

/// Goal: the few times that the meter evaluates are sufficient for any scheduler. Method: servers
/// that serve random flows; compare each definition, evaluated byte by byte over all pairs of
/// times, with the meter's exact values. A meter without information about the wire measures no
/// less. Lead and lag of two flows cover their fairness, except where packets are lost.
#[test]
fn the_meter_measures_what_all_pairs_of_instants_say() {
    let mut random = Xorshift::new(5);
    let mut seen = [0; 5];
    for trace in 0..effort(600, 6_000) {
        let denominator = 1 + random.below(12);
        let shares = [(); FLOWS].map(|()| {
            Share::new((1 + random.below(denominator)).into(), denominator.into()).unwrap()
        });
        let mut chaos = Chaos::new(shares);
        let (idleness, losses) = (random.below(3), random.below(3));
        let busy = 2 + random.below(6);
        while chaos.now < 60 {
            for before in [true, false] {
                while random.below(busy) == 0 {
                    chaos.arrive(random.below(3) as usize, 1 + random.below(7));
                }
                if random.below(40) < losses {
                    chaos.lose(random.below(3) as usize);
                }
                let flow = random.below(3) as usize;
                if before && chaos.wire.is_none() && random.below(3) >= idleness {
                    chaos.dequeue(flow);
                }
            }
            chaos.tick();
        }
        while chaos.wire.is_some() {
            chaos.tick();
        }
        chaos.tell_progress();
        for (flow, share) in shares.into_iter().enumerate() {
            if !chaos.queues[flow].is_empty() {
                chaos.end_spell(flow);
            }
            let k = chaos.meter.flows[flow];
            let standing = k.standing(chaos.meter.completed, chaos.meter.wire);
            let measured = [k.lag.max(standing), k.lag_at_completion, k.delay, k.lead];
            let record = &chaos.record;
            let defined = [
                record.lag(flow, share),
                record.lag_at_completion(flow, share),
                record.delay(flow, share),
                record.lead(flow, share),
            ];
            assert_eq!(measured, defined, "flow {flow} of trace {trace}");
            let blind = chaos.blind.flows[flow];
            let no_less = [blind.lag_at_completion, blind.delay, blind.lead];
            assert!(no_less.iter().zip(&defined[1..]).all(|(blind, exact)| blind >= exact));
            let reports = [&chaos.meter, &chaos.blind]
                .map(|meter| meter.report(FlowId(flow as u32)).unwrap());
            assert!(reports[1].b_wfi >= reports[0].b_wfi && reports[1].lag >= reports[0].lag);
            for (count, value) in seen.iter_mut().zip(defined) {
                *count += u32::from(value > 0);
            }
        }
        for (pair, flows) in chaos.pairs.iter().zip([[0, 1], [2, 1]]) {
            let defined = chaos.record.unfairness(flows, flows.map(|flow| shares[flow]));
            assert_eq!(pair.widest, defined, "{flows:?} of trace {trace}");
            let [a, b] = flows.map(|flow| chaos.meter.report(FlowId(flow as u32)).unwrap());
            let estimate = a.fairness_at_most(&b);
            assert!(
                losses > 0 || pair.measured() <= estimate,
                "{flows:?} of trace {trace}: {estimate}"
            );
            seen[4] += u32::from(defined > 0);
        }
    }
    assert!(seen.iter().all(|&count| count > effort(300, 3_000)), "{seen:?}");
}

/// Goal: a backlogged flow that is never served is measured as well.
#[test]
fn a_flow_that_starves_falls_behind_by_its_share_of_the_link() {
    let half = Share::new(1, 2).unwrap();
    let mut meter = WfiMeter::new([WfiFlow::EMPTY; 2]);
    meter.add(FlowId(1), half).unwrap();
    meter.arrived(FlowId(1), 100);
    for sent in 1..=10 {
        let arrival = meter.arrived(FlowId(0), 100);
        meter.dequeued(arrival, 100);
        assert_eq!(meter.report(FlowId(1)).unwrap().b_wfi, 50 * sent);
    }
    meter.add(FlowId(1), half).unwrap();
    meter.transmitted(100);
    let afresh = meter.report(FlowId(1)).unwrap().b_wfi;
    assert_eq!(afresh, 50, "of the packet on the wire, for all that the meter knows");
    assert_eq!(meter.report(FlowId(0)), None, "not measured");
    meter.remove(FlowId(1));
    assert_eq!(meter.report(FlowId(1)), None);
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(meter.add(FlowId(2), half), Err(unknown));
}

/// Goal: the adapter reports every arrival, dequeue and drop to the meter, including rejected
/// arrivals. Method: DRR with longest-queue drop in a buffer that is always too small; bytes queued
/// and sent must agree between meter and scheduler.
#[test]
fn a_metered_scheduler_keeps_the_books_of_the_one_inside() {
    let drr = Drr::new([DrrFlow::EMPTY; FLOWS], 1_500).unwrap();
    let limits = Limits { packets: 6, bytes: 5_000 };
    let queues =
        FlowQueues::with_own_victim(drr, [Queue::EMPTY; FLOWS], [Descriptor::EMPTY; 8], limits)
            .with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; FLOWS]));
    let meter = WfiMeter::new([WfiFlow::EMPTY; FLOWS]);
    let mut metered = Metered::new(queues, meter, [Arrival::EMPTY; 8]);
    let share = Share::new(1, 3).unwrap();
    let mut gone = 0;
    for flow in 0..3 {
        let configured = metered
            .change(&mut |_: Packet, _| (), |queues, _| queues.configure(FlowId(flow), 1_500));
        configured.unwrap();
        metered.meter_mut().add(FlowId(flow), share).unwrap();
    }
    let (mut random, mut rejected) = (Xorshift::new(3), 0);
    let mut victims = 0;
    for step in 0..20_000 {
        let flow = FlowId(random.below(3));
        let drops = &mut |_: Packet, _| gone += 1;
        match random.below(64) {
            0 => metered.drain(drops),
            1 => metered.change(drops, |queues, drops| {
                queues.remove_flow(flow, drops);
                queues.configure(flow, 1_500).unwrap();
            }),
            2 => metered.set_limits(Limits { packets: 3 + random.below(6), ..limits }, drops),
            3..30 => drop(metered.dequeue(Nanos(step), drops)),
            _ => {
                let packet = Packet::new(random.below(9), 1 + random.below(1_600));
                rejected += u32::from(metered.enqueue(Nanos(step), flow, packet, drops).is_err());
            }
        }
        for flow in (0..3).map(FlowId) {
            let held = metered.inner().flow_backlog(flow);
            let k = metered.meter().flows[flow.index()];
            assert_eq!(k.queued, u64::from(held.bytes), "{flow:?} at {step}");
        }
        assert_eq!(metered.recount(), Ok(()));
        let queues = metered.inner();
        if let Some((_, end)) = queues.victim() {
            assert_eq!(end, DropFrom::Head);
            victims += 1;
        }
    }
    let delivered = metered.counters().delivered;
    let served: u64 = metered.meter().flows.iter().map(|k| k.served).sum();
    assert_eq!(served, delivered.bytes);
    assert!(gone > 500 && rejected > 1_000, "{gone} {rejected}");
    assert!(victims > 1_000, "{victims}");
}

#[test]
fn a_measurement_is_compared_in_thousandths_rounded_up() {
    let compared = |measured, bound| Compared { what: "", measured, bound };
    assert!(compared(3, 3).holds() && !compared(4, 3).holds());
    assert_eq!((compared(1, 3).per_mille(), compared(0, 0).per_mille()), (334, 0));
    assert_eq!((compared(1, 0).per_mille(), compared(u64::MAX, 1).per_mille()), (1_000, u32::MAX));
}

#[test]
fn a_flow_takes_144_bytes_and_a_packet_16() {
    assert_eq!((size_of::<WfiFlow>(), size_of::<Arrival>()), (144, 16));
}
