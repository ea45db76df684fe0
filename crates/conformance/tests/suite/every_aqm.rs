//! Every AQM as one type, under every flow scheduler of the catalogue.
//!
//! A test written for [`AnyAqm`] is compiled once per flow scheduler and runs with all AQMs.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use crate::every_discipline::seed;
use conformance::Xorshift;
use conformance::catalog::entry::QUICK_COBALT;
use conformance::catalog::{self, AqmRecipe, Arrays, Memory, Queued, QueuesRecipe, Recipe, Room};
use conformance::effort::effort;
use conformance::history::{Dial, Match, Operation, Operations, Peeked, Setting, Shifted};
use conformance::sides::{self, DESCRIPTORS, FLOWS, MAX_LEN, OutputOf};
use freeboard::sched_core::{
    Admission, Aqm, AqmChoice, Backlog, BlueParams, CoDelParams, DropReason, Ecn, FlowId, Head,
    L4sParams, Limits, Look, Nanos, Offer, Packet, Pi2Params, PieParams, Probability, RedParams,
    Scheduler, Verdict,
};

/// Defines the recipes, and an AQM that is one of them.
macro_rules! every_aqm {
    ($($name:ident: $type:ty = $recipe:expr,)*) => {
        /// Selects an AQM.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Which { $($name),* }

        impl Which {
            const ALL: &[Self] = &[$(Self::$name),*];
        }

        /// One of the AQMs, with its table in `F`.
        enum Output<F: Memory> { $($name(<$type as AqmRecipe>::Output<F>)),* }

        impl AqmRecipe for Which {
            type Output<F: Memory> = AnyAqm<F>;

            fn aqm<F: Memory>(self, flows: F) -> Option<AnyAqm<F>> {
                let made = match self { $(Self::$name => Output::$name($recipe.aqm(flows)?)),* };
                Some(AnyAqm { made, told: 0 })
            }
        }

        /// An AQM with a count of its verdicts other than passing a packet.
        struct AnyAqm<F: Memory> {
            made: Output<F>,
            told: u64,
        }

        impl<F: Memory> Aqm for AnyAqm<F> {
            const MAX_DROPS: u32 = 32;

            fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission {
                let said = match &mut self.made { $(Output::$name(aqm) => aqm.admit(flow, offer, look)),* };
                self.told += u64::from(matches!(said, Admission::Signal | Admission::Refuse));
                said
            }

            fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
                let said = match &mut self.made {
                    $(Output::$name(aqm) => aqm.judge(flow, head, look)),*
                };
                self.told += u64::from(matches!(said, Verdict::Signal | Verdict::Drop));
                said
            }

            fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
                let foresee: Box<dyn FnMut(Head) -> Verdict + '_> = match &self.made {
                    $(Output::$name(aqm) => Box::new(aqm.foresee(flow))),*
                };
                foresee
            }

            fn overflowed(&mut self, flow: FlowId) {
                match &mut self.made { $(Output::$name(aqm) => aqm.overflowed(flow)),* }
            }

            fn emptied(&mut self, flow: FlowId) {
                match &mut self.made { $(Output::$name(aqm) => aqm.emptied(flow)),* }
            }

            fn forget(&mut self, flow: FlowId) {
                match &mut self.made { $(Output::$name(aqm) => aqm.forget(flow)),* }
            }

            fn assign(&mut self, flow: FlowId, tin: u8) {
                match &mut self.made { $(Output::$name(aqm) => aqm.assign(flow, tin)),* }
            }

            fn swap(&mut self, flow: FlowId, other: FlowId) {
                match &mut self.made { $(Output::$name(aqm) => aqm.swap(flow, other)),* }
            }
        }
    };
}

/// CoDel for short sequences of packets.
const CODEL: CoDelParams = CoDelParams::new(Nanos(1_024), Nanos(100_000)).with_mtu(100);

/// The other AQMs for short sequences of packets.
const RED: RedParams = RedParams::new(1_000, 3_000)
    .with_weight(1)
    .with_max_probability(Probability::from_raw(1 << 29))
    .gentle()
    .adaptive();
const BLUE: BlueParams = BlueParams::DEFAULT
    .with_steps(Probability::from_raw(1 << 29), Probability::from_raw(1 << 26))
    .with_freeze(Nanos::from_micros(100))
    .with_longest_wait(Nanos::from_micros(200));
const PIE: PieParams = PieParams::new(Nanos::from_micros(100))
    .with_period(Nanos::from_micros(200))
    .with_max_burst(Nanos::ZERO)
    .with_gains(1_000_000, 1_000_000)
    .with_mtu(100);
const PI2: Pi2Params = Pi2Params::new(Nanos::from_micros(100))
    .with_period(Nanos::from_micros(200))
    .with_gains(100_000, 300_000)
    .with_mtu(100);

every_aqm! {
    CoDel: catalog::CoDel = catalog::CoDel(CODEL),
    Red: catalog::Red = catalog::Red(RED),
    Blue: catalog::Blue = catalog::Blue(BLUE),
    Cobalt: catalog::Cobalt = QUICK_COBALT,
    CeThreshold: catalog::CeThreshold<catalog::Cobalt> = catalog::CeThreshold {
        of: QUICK_COBALT,
        threshold: Nanos::from_micros(50),
        ect1_only: false,
    },
    ChosenAqm: catalog::ChosenAqm = catalog::ChosenAqm(
        AqmChoice::CoDel(CODEL),
        Some(L4sParams::new(Nanos::from_micros(20)).with_mtu(100))
    ),
    Pie: catalog::Pie = catalog::Pie(PIE),
    Pi2: catalog::Pi2 = catalog::Pi2(PI2),
    ChosenRed: catalog::ChosenAqm = catalog::ChosenAqm(AqmChoice::Red(RED), None),
    ChosenBlue: catalog::ChosenAqm = catalog::ChosenAqm(AqmChoice::Blue(BLUE), None),
    ChosenPie: catalog::ChosenAqm = catalog::ChosenAqm(AqmChoice::Pie(PIE), None),
    ChosenPi2: catalog::ChosenAqm = catalog::ChosenAqm(AqmChoice::Pi2(PI2), None),
}

/// Goal: every AQM of the library is tested here. Method: search the library's sources for names
/// after `Aqm for` and in the macro that generates it.
#[test]
fn every_aqm_of_the_library_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sched-core/src/aqm");
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for before in [" Aqm for ", "\nsignals_arrivals!("] {
            for rest in text.split(before).skip(1).filter(|rest| !rest.starts_with('$')) {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap();
                let is_played = Which::ALL.iter().any(|of| format!("{of:?}") == rest[..end]);
                assert!(is_played, "{}", &rest[..end]);
                found += 1;
            }
        }
    }
    assert_eq!(found, 8);
}

/// Builds the recipe with this AQM in its queues.
fn subject<R: QueuesRecipe>(of: R, aqm: Which) -> OutputOf<Queued<R, Which>, FLOWS, DESCRIPTORS> {
    let recipe = Queued { of, aqm };
    sides::composition::<FLOWS, DESCRIPTORS, _>(recipe, MAX_LEN, Limits::NONE)
}

/// Returns a random sequence with standing queues: more arrivals of two flows, and fewer limits.
fn crowded(seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let history = Operations::new(seed).enumerate();
    let history = history.filter(|(step, operation)| {
        let is_limit = matches!(operation, Operation::SetLimits { .. });
        !is_limit || step % 4 == 0
    });
    history.flat_map(|(step, operation)| {
        let flow = (step as u32 / 64) % 2;
        let more = (step % 3 == 0).then_some(Operation::Enqueue { flow, len: 400 });
        let later = (step % 2 == 0).then_some(Operation::Forward { nanos: 20_000 });
        [Some(operation), more, later].into_iter().flatten()
    })
}

/// Goal: under every AQM a flow scheduler keeps the contract: handles, counters, peeks, and no
/// effect of shifted times. Method: random sequences, compared with a copy that receives additional
/// peeks and runs at times at which counters wrap; the AQM has to act.
fn keeps_the_contract<R: QueuesRecipe>(name: &str, of: R) {
    const SHIFTS: [u64; 4] = [1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)];
    for (at, &aqm) in Which::ALL.iter().enumerate() {
        let mut acted = 0;
        // A sequence may end in a long quiet period: repeat until the AQM has acted.
        for round in 0..effort(6, 24) {
            let by = SHIFTS[(at + round) % SHIFTS.len()];
            let twin = Peeked::new(Shifted::new(subject(of, aqm), by));
            let both = Match::new(subject(of, aqm), twin);
            let mut both = both.marking_arrivals();
            let history = crowded(seed(name) + round as u64);
            for (step, operation) in history.take(1_500).enumerate() {
                let judged = both.step(operation, step % 32 == 0);
                judged.unwrap_or_else(|difference| panic!("{aqm:?}, {by} ns later: {difference}"));
            }
            acted += both.subject.aqm().told;
            if acted > 0 && round >= effort(0, 23) {
                break;
            }
        }
        assert!(acted > 0, "{aqm:?} has not acted");
    }
}

macro_rules! contract {
    ([] $($name:ident: $recipe:expr,)*) => {$(
        #[test]
        fn $name() {
            super::keeps_the_contract(stringify!($name), $recipe);
        }
    )*};
}

mod the_contract_holds_under_every_aqm {
    conformance::flow_schedulers!(contract, []);
}

/// Goal: the state of an AQM for a flow is kept when the flow's weight changes. Method: a standing
/// queue with and without the change, under each flow scheduler: the packets that leave and their
/// marks are the same, and there are marks.
fn remembers_under_another_weight<R: QueuesRecipe>(name: &str, of: R) {
    let weight = |weight| Setting { weight, max_len: MAX_LEN };
    for &aqm in Which::ALL {
        let run = |changes: bool| {
            let mut made = subject(of, aqm);
            made.configure(FlowId(0), Dial::of(weight(3))).unwrap();
            let mut trace = Vec::new();
            let mut free: Vec<u32> = (0..DESCRIPTORS as u32).collect();
            for step in 0..600_u64 {
                let now = Nanos(step * 250_000);
                if changes && step == 300 {
                    made.configure(FlowId(0), Dial::of(weight(5))).unwrap();
                }
                for _ in 0..1 + step % 2 {
                    let Some(handle) = free.pop() else { break };
                    let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(handle, 500) };
                    let offered = made.enqueue(now, FlowId(0), packet, &mut |packet: Packet, _| {
                        free.push(packet.handle);
                    });
                    let told = offered.map_err(|rejected| {
                        free.push(rejected.packet.handle);
                        rejected.reason
                    });
                    trace.push((step, told.err(), None));
                }
                let mut gone = Vec::new();
                let left = made.dequeue(now, &mut |packet: Packet, why| gone.push((packet, why)));
                trace.push((step, None, left));
                free.extend(left.map(|packet| packet.handle));
                free.extend(gone.iter().map(|(packet, _)| packet.handle));
            }
            (trace, made.aqm().told)
        };
        let (unchanged, acted) = run(false);
        assert!(acted > 5, "{name}: {aqm:?} has acted {acted} times");
        let (changed, _) = run(true);
        assert!(changed == unchanged, "{name}: {aqm:?} is told of a weight");
    }
}

#[test]
fn another_weight_leaves_what_every_aqm_has_learned() {
    macro_rules! each {
        ([] $($name:ident: $recipe:expr,)*) => {
            $(remembers_under_another_weight(stringify!($name), $recipe);)*
        };
    }
    conformance::flow_schedulers!(each, []);
}

/// Returns the number of congestion signals of a standing queue in four seconds, from the eighth
/// on, if one timestamp after four seconds was wrong.
fn told_after(aqm: Which, wrong: Option<(u64, bool)>) -> u64 {
    let room = Room::of_flows(Arrays::<1>, MAX_LEN);
    let recipe = Queued { of: catalog::Drr { sparse_first: true }, aqm };
    let mut line = recipe.scheduler(room, Arrays::<64>, Limits::packets(60)).unwrap();
    line.configure(FlowId(0), MAX_LEN).unwrap();
    let (mut free, mut told_before) = ((0..64).collect::<Vec<u32>>(), 0);
    // One packet leaves per millisecond; 1.1 arrive.
    for tick in 0..12_000_u64 {
        let now = Nanos((1 << 50) + tick * 1_000_000);
        let read = |of_arrival: bool| match wrong {
            Some((reading, arrival)) if tick == 4_000 && arrival == of_arrival => Nanos(reading),
            _ => now,
        };
        let mut gone = Vec::new();
        for _ in 0..1 + u32::from(tick % 10 == 0) {
            let handle = free.pop().expect("four more than the limit");
            let ecn = if tick % 4 < 2 { Ecn::NotEct } else { Ecn::Ect0 };
            let packet = Packet { ecn, ..Packet::new(handle, 1_000) };
            let sink = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
            if let Err(rejected) = line.enqueue(read(true), FlowId(0), packet, sink) {
                gone.push(rejected.packet.handle);
            }
        }
        let sink = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
        let left = line.dequeue(read(false), sink);
        free.extend(gone.into_iter().chain(left.map(|packet| packet.handle)));
        if tick == 8_000 {
            told_before = line.aqm().told;
        }
    }
    assert_eq!(line.recount(), Ok(()));
    line.aqm().told - told_before
}

/// Goal: one wrong timestamp does no lasting harm: four seconds later each AQM signals about as
/// often as without it. Method: timestamps from 0.1 s to hundreds of years ahead and behind, at an
/// arrival and at a departure.
#[test]
fn one_wrong_reading_of_the_clock_does_no_lasting_harm() {
    let now = (1_u64 << 50) + 4_000 * 1_000_000;
    let spans = [100, 5_000, 500_000, 86_400_000].map(|ms| ms * 1_000_000);
    let ahead = spans.iter().map(|span| now + span).chain([1 << 63, u64::MAX]);
    let behind = spans.iter().map(|span| now - span).chain([0]);
    let readings: Vec<u64> = ahead.chain(behind).collect();
    for &aqm in Which::ALL {
        let usual = told_after(aqm, None);
        assert!(usual > 100, "{aqm:?}: {usual}");
        for &reading in &readings {
            for of_arrival in [false, true] {
                let told = told_after(aqm, Some((reading, of_arrival)));
                let is_near = told * 4 >= usual * 3 && told * 3 <= usual * 4;
                assert!(is_near, "{aqm:?}: {told}, not {usual}, after {reading} for {now}");
            }
        }
    }
}

/// Plays calls on two copies of an AQM. In the second one, queues occasionally swap positions, and
/// calls use the current position of a queue. Asserts that both agree; returns the number of
/// verdicts other than passing a packet.
fn play_swaps(aqm: Which, seed: u64) -> u64 {
    const QUEUES: usize = 4;
    let make = || aqm.aqm(Arrays::<QUEUES>).expect("in range");
    let (mut still, mut swapped) = (make(), make());
    let mut place = [0, 1, 2, 3].map(FlowId);
    let mut held: [VecDeque<(Nanos, Packet)>; QUEUES] = Default::default();
    let (mut random, mut now) = (Xorshift::new(seed), Nanos::from_secs(1));
    for step in 0..1_500 {
        now = now.plus(Nanos(u64::from(random.below(40_000))));
        // Mostly one queue, so that it becomes a standing queue.
        let at = if random.below(3) > 0 { 0 } else { random.below(QUEUES as u32) as usize };
        let flow = FlowId(at as u32);
        let bytes =
            |held: &VecDeque<(Nanos, Packet)>| held.iter().map(|(_, packet)| packet.len).sum();
        let packets = held[at].len() as u32;
        match random.below(32) {
            0..=15 if packets < 30 => {
                let ecn = if random.below(2) == 0 { Ecn::NotEct } else { Ecn::Ect1 };
                let packet = Packet { ecn, ..Packet::new(0, 1 + random.below(1_500)) };
                let offer =
                    Offer { now, packet, held: Backlog { packets, bytes: bytes(&held[at]) } };
                let said = still.admit(flow, offer, Look::Close);
                assert_eq!(
                    swapped.admit(place[at], offer, Look::Close),
                    said,
                    "{aqm:?}, {seed}, {step}"
                );
                if said != Admission::Refuse {
                    held[at].push_back((now, packet));
                }
            }
            0..=27 => {
                let Some((came, packet)) = held[at].pop_front() else { continue };
                let (sojourn, bytes_behind) = (now.since(came), bytes(&held[at]));
                let head = Head { now, sojourn, bytes_behind, packets, ecn: packet.ecn };
                for look in [Look::Glance, Look::Close] {
                    let said = still.judge(flow, head, look);
                    let other = swapped.judge(place[at], head, look);
                    assert_eq!(other, said, "{aqm:?}, {seed}, {step}");
                    if said != Verdict::Unclear {
                        break;
                    }
                }
            }
            28 => {
                still.overflowed(flow);
                swapped.overflowed(place[at]);
            }
            29 if random.below(8) == 0 => {
                held[at].clear();
                still.emptied(flow);
                swapped.emptied(place[at]);
            }
            30 if random.below(8) == 0 => {
                still.forget(flow);
                swapped.forget(place[at]);
            }
            _ => {
                let other = random.below(QUEUES as u32) as usize;
                swapped.swap(place[at], place[other]);
                place.swap(at, other);
            }
        }
    }
    still.told
}

/// Goal: two queues that swap positions keep their states, under every AQM. Method: random calls to
/// a queue that changes its position and to one that does not.
#[test]
fn queues_that_change_places_keep_their_states() {
    for &aqm in Which::ALL {
        let told: u64 = (1..=effort(4, 40) as u64).map(|seed| play_swaps(aqm, seed)).sum();
        assert!(told > 100, "{aqm:?}: {told}");
    }
}

/// Goal: a queue without state in an AQM has no past, and neither has one that swaps positions with
/// it. Method: an overflow and arrivals, compared with a queue whose state was removed.
#[test]
fn a_place_without_a_state_is_without_a_history() {
    for &aqm in Which::ALL {
        let run = |swaps: bool| {
            let mut aqm = aqm.aqm(Arrays::<1>).expect("in range");
            let (mut said, mut now) = (Vec::new(), Nanos::from_secs(1));
            for round in 0..400 {
                now = now.plus(Nanos::from_micros(300));
                let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(0, 1_000) };
                let held = Backlog { packets: 9, bytes: 9_000 };
                said.push(Ok(aqm.admit(FlowId(0), Offer { now, packet, held }, Look::Close)));
                aqm.overflowed(FlowId(0));
                let sojourn = Nanos::from_millis(3);
                let head = Head { now, sojourn, bytes_behind: 8_000, packets: 9, ecn: packet.ecn };
                said.push(Err(aqm.judge(FlowId(0), head, Look::Close)));
                match (round == 200, swaps) {
                    (false, _) => {}
                    (true, false) => aqm.forget(FlowId(0)),
                    (true, true) => aqm.swap(FlowId(7), FlowId(0)),
                }
            }
            said
        };
        assert_eq!(run(true), run(false), "{aqm:?}");
    }
}
