//! The contract of every scheduler, for each discipline and every AQM.
//!
//! The ledger of a [`Match`] checks handles and counters in all of these tests; the reference is
//! the scheduler itself, used in a way that must not make a difference.

use crate::every_discipline::every_discipline;
use conformance::effort::effort;
use conformance::history::{
    ConfigurableScheduler, Dial, Match, Operation, Operations, Pair, Peeked, Setting, Shifted,
    pair, soak,
};
use conformance::sides::{self, DESCRIPTORS, FLOWS, MAX_LEN};
use freeboard::sched_core::{
    Admission, Aggregate, Aqm, AqmChoice, AqmSetting, CeThreshold, ChosenAqm, ChosenAqmState,
    CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, Counters, Descriptor,
    DropFrom, DropPolicy, DropReason, FlowId, FlowQueues, FlowRecord, FlowScheduler, Head,
    L4sParams, LengthFlow, Limits, Look, Nanos, Offer, OwnVictim, PlusFlow, Probability, Qfq,
    QfqFlow, QfqPlus, Queue, Scheduler, ShortestQueue, Verdict, Wf2q, Wf2qFlow,
};

const LENGTH: usize = 5_000;

/// Number of operations, in one sequence or in several of [`LENGTH`].
fn operations() -> u64 {
    effort(3_000, 20_000)
}

/// Times at which counters of 31, 32, 53 and 63 bits wrap; all but one are whole ticks of a
/// descriptor.
const SHIFTS: [u64; 5] = [1, 1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)];

fn is_not_disturbed_by_peeks(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    let sides = || pair((sides().0, Peeked::new(sides().0)));
    soak(&sides, seed, operations(), LENGTH).unwrap_or_else(|difference| panic!("{difference}"));
}

every_discipline!(peeks_change_nothing, super::is_not_disturbed_by_peeks);

fn does_not_depend_on_the_epoch(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    for by in SHIFTS {
        let sides = || pair((sides().0, Shifted::new(sides().0, by)));
        soak(&sides, seed, operations(), LENGTH)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
}

every_discipline!(the_epoch_changes_nothing, super::does_not_depend_on_the_epoch);

/// Goal: removing a flow, draining and setting limits are idempotent.
fn does_twice_as_once(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    let (subject, twin) = sides();
    let mut both = Match::new(subject, twin);
    for operation in Operations::new(seed).take(effort(1_000, 10_000)) {
        let again = match operation {
            Operation::Remove { .. } | Operation::Drain | Operation::SetLimits { .. } => 2,
            _ => 1,
        };
        for _ in 0..again {
            both.step(operation, true).unwrap();
        }
        if let Operation::Remove { flow } = operation {
            assert_eq!(both.subject.setting(FlowId(flow)), None);
        }
    }
}

every_discipline!(twice_is_once, super::does_twice_as_once);

/// Goal: extreme limits hold: zero, one and two packets or bytes.
fn holds_small_limits(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    for packets in 0..3 {
        for bytes in [0, 1, 1_499, 1_500, 3_000] {
            let (subject, twin) = sides();
            let mut both = Match::new(subject, twin);
            both.step(Operation::SetLimits { packets, bytes }, true).unwrap();
            let history = Operations::new(seed);
            let kept = |operation: &Operation| !matches!(operation, Operation::SetLimits { .. });
            for operation in history.filter(kept).take(effort(150, 300)) {
                both.step(operation, true).unwrap();
            }
        }
    }
}

every_discipline!(small_limits_hold, super::holds_small_limits);

/// Goal: `evict` drops a packet from every non-empty queue in any state, the same as in the
/// reference model, and none from an empty queue. Method: random sequences, followed by evictions
/// until nothing is left, and one more.
fn gives_a_packet_for_its_buffer(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    let mut evicted = 0;
    for seed in seed..seed + 30 {
        let (subject, twin) = sides();
        let mut both = Match::new(subject, twin);
        for operation in Operations::new(seed).take(200) {
            both.step(operation, false).unwrap();
        }
        for left in (0..=both.subject.backlog().packets).rev() {
            assert_eq!(both.subject.backlog().packets, left);
            both.step(Operation::Evict, true).unwrap();
            evicted += u32::from(left > 0);
        }
    }
    assert!(evicted > 30, "{evicted}");
}

every_discipline!(a_buffer_can_be_had, super::gives_a_packet_for_its_buffer);

/// Goal: a packet can be removed from any position in a queue; all parts agree with the reference
/// model, which only sees a loss, and the others stay in order. Method: random sequences in which
/// every second operation removes a packet, at positions that exist or do not, of flows that exist
/// or do not. Schedulers without their own queues do not support this operation.
fn lets_a_packet_leave_any_place(_: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    let (mut found, mut offered) = (0, 0);
    for seed in seed..seed + effort(4, 10) {
        let (subject, twin) = sides();
        let mut both = Match::new(subject, twin);
        let mut random = conformance::Xorshift::new(seed);
        for operation in Operations::new(seed).take(400) {
            both.step(operation, false).unwrap();
            let (flow, younger) = match random.below(32) {
                0 => (u32::MAX - random.below(2), 0),
                1 => (random.below(8), u32::MAX),
                _ => (random.below(8), random.below(6)),
            };
            let before = both.subject.backlog().packets;
            both.step(Operation::FilterOut { flow, younger }, true).unwrap();
            found += before - both.subject.backlog().packets;
            offered += 1;
        }
    }
    let (mut subject, _) = sides();
    let has_queues = subject.filter_out(FlowId(0), 0, &mut |_, _| ()).is_some();
    assert!(!has_queues || found > effort(20, 50), "{found} of {offered}");
}

every_discipline!(a_packet_leaves_any_place, super::lets_a_packet_leave_any_place);

/// Fills the limit in bytes with one-byte packets of flow 0; then `flow` sends one packet as long
/// as all of them. Returns the numbers of packets dropped and rejected.
fn victims_of_one_arrival<S, T>(sides: (S, T), flow: u32, queued: u32) -> (u64, u64)
where
    S: ConfigurableScheduler,
    T: ConfigurableScheduler,
{
    let mut both = Match::with_descriptors(sides.0, sides.1, 300);
    for flow in 0..2 {
        let setting = Setting { weight: 3, max_len: MAX_LEN };
        both.step(Operation::Configure { flow, setting }, true).unwrap();
    }
    both.step(Operation::SetLimits { packets: u32::MAX, bytes: queued }, true).unwrap();
    for _ in 0..queued {
        both.step(Operation::Enqueue { flow: 0, len: 1 }, true).unwrap();
    }
    both.step(Operation::Enqueue { flow, len: queued }, true).unwrap();
    let counters = both.subject.counters();
    (counters.dropped_total().packets, counters.rejected.packets)
}

/// Goal: an arrival that fits into an empty queue is accepted, no matter how many short packets
/// have to be dropped for it, at most one per byte. Method: one-byte packets fill the limit, and
/// the arrival needs all of it.
#[test]
fn short_packets_give_way_to_a_long_one() {
    let fifo = || sides::fifo::<300>(DropFrom::Head, Limits::NONE);
    let drr = || sides::drr_lqd::<FLOWS, 300>(MAX_LEN, true, DropFrom::Head, Limits::NONE);
    let sqf = || sides::sqf::<FLOWS, 300>(DropFrom::Head, Limits::NONE);
    for queued in [1, 255, 256, 257, 299] {
        assert_eq!(victims_of_one_arrival(fifo(), 0, queued), (queued.into(), 0));
        assert_eq!(victims_of_one_arrival(drr(), 0, queued), (queued.into(), 0));
        assert_eq!(victims_of_one_arrival(sqf(), 0, queued), (queued.into(), 0));
    }
    // An arrival of another flow is the longest queue once one byte of the other is dropped. SQF
    // treats the two as equal until a second byte is dropped: with 256 to 263 bytes, it drops first
    // from the flow that has been in this class longer.
    assert_eq!(victims_of_one_arrival(drr(), 1, 257), (1, 1));
    assert_eq!(victims_of_one_arrival(sqf(), 1, 257), (2, 1));
}

/// Signals for every third packet of a flow and drops some: acts often, regardless of the time.
#[derive(Clone, Debug)]
struct EveryThird([u32; FLOWS]);

impl EveryThird {
    fn next(state: &mut u32) -> Verdict {
        *state += 1;
        match *state % 16 {
            14.. => Verdict::Drop,
            11.. => Verdict::Signal,
            _ if state.is_multiple_of(3) => Verdict::Signal,
            _ => Verdict::Pass,
        }
    }
}

impl Aqm for EveryThird {
    const MAX_DROPS: u32 = 2;

    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Accept
    }

    fn judge(&mut self, flow: FlowId, _head: Head, _look: Look) -> Verdict {
        Self::next(&mut self.0[flow.index()])
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let mut state = self.0[flow.index()];
        move |_| Self::next(&mut state)
    }

    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, _flow: FlowId) {}

    fn forget(&mut self, _flow: FlowId) {}

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.0.swap(flow.index(), other.index());
    }
}

/// Checks handles, counters, peeks and shifted times for a flow scheduler with an AQM that acts.
fn keeps_the_contract<O>(seed: u64, aqm: impl Aqm + Clone + Send + 'static, scheduler: O)
where
    O: FlowScheduler + Clone + Send + 'static,
    O::Config: Dial,
{
    keeps_it_beside(seed, aqm, scheduler, OwnVictim);
}

/// Checks the contract with a drop policy.
fn keeps_it_beside<O, D>(seed: u64, aqm: impl Aqm + Clone + Send + 'static, scheduler: O, policy: D)
where
    O: FlowScheduler + Clone + Send + 'static,
    O::Config: Dial,
    D: DropPolicy<O> + Clone + Send + 'static,
{
    let subject = || -> Box<dyn ConfigurableScheduler + Send> {
        let queues = FlowQueues::with_parts(
            scheduler.clone(),
            aqm.clone(),
            [Queue::EMPTY; FLOWS],
            [Descriptor::EMPTY; DESCRIPTORS],
            [FlowRecord::EMPTY; FLOWS],
            Limits::NONE,
        );
        Box::new(queues.with_drop_policy(policy.clone()))
    };
    acts_and_keeps_the_contract(seed, &subject, core::any::type_name::<O>());
}

fn acts_and_keeps_the_contract(
    seed: u64,
    subject: &dyn Fn() -> Box<dyn ConfigurableScheduler + Send>,
    name: &str,
) {
    let mut both = Match::new(subject(), Peeked::new(subject()));
    let mut history = Operations::new(seed).take(200_000);
    let has_acted = |counters: Counters| {
        counters.dropped_for(DropReason::Aqm).packets > 0 && counters.marked > 0
    };
    // A full run continues after the AQM has acted. Otherwise this is checked at short intervals,
    // since most act early.
    while effort(!has_acted(both.subject.counters()), true) {
        let spell: Vec<_> = history.by_ref().take(effort(1_000, 10_000)).collect();
        if spell.is_empty() {
            break;
        }
        for operation in spell {
            both.step(operation, false).unwrap();
        }
    }
    let counters = both.subject.counters();
    let marked = |flow| both.subject.flow_counters(FlowId(flow)).unwrap().marked;
    assert_eq!((0..FLOWS as u32).map(marked).sum::<u64>(), counters.marked);
    let acted = (counters.dropped_for(DropReason::Aqm).packets, counters.marked);
    assert!(has_acted(counters), "the AQM does not act: {acted:?} {name}");
    let operations = effort(2_000, 200_000);
    soak(&|| pair((subject(), Peeked::new(subject()))), seed, operations, LENGTH)
        .unwrap_or_else(|difference| panic!("{difference}"));
    // Up to the maximum time and past it, where the clock wraps.
    let late = || Shifted::new(subject(), u64::MAX - (1 << 39));
    soak(&|| pair((late(), Peeked::new(late()))), seed, operations / 2, LENGTH)
        .unwrap_or_else(|difference| panic!("{difference}"));
    for by in SHIFTS.into_iter().filter(|by| by % 1024 == 0) {
        soak(&|| pair((subject(), Shifted::new(subject(), by))), seed, operations / 2, LENGTH)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
}

fn with_every_flow_scheduler(aqm: impl Aqm + Clone + Send + 'static) {
    for (seed, sparse_first) in [(1, false), (2, true)] {
        let drr = sides::drr_scheduler::<FLOWS>(MAX_LEN, sparse_first);
        keeps_the_contract(seed, aqm.clone(), drr);
        for end in [DropFrom::Head, DropFrom::Tail] {
            keeps_it_beside(seed, aqm.clone(), drr, sides::longest::<FLOWS>(end));
        }
    }
    let qfq = Qfq::new([QfqFlow::EMPTY; FLOWS], MAX_LEN).unwrap();
    keeps_the_contract(4, aqm.clone(), qfq.clone());
    for end in [DropFrom::Head, DropFrom::Tail] {
        keeps_it_beside(5, aqm.clone(), qfq.clone(), sides::longest::<FLOWS>(end));
        let sqf = ShortestQueue::new([LengthFlow::EMPTY; FLOWS]).drop_from(end);
        keeps_the_contract(3, aqm.clone(), sqf);
    }
    let (flows, aggregates) = ([PlusFlow::EMPTY; FLOWS], [Aggregate::EMPTY; FLOWS]);
    let plus = QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; FLOWS], MAX_LEN, 3).unwrap();
    keeps_the_contract(8, aqm.clone(), plus);

    let wf2q = Wf2q::new([Wf2qFlow::EMPTY; FLOWS], MAX_LEN).unwrap();
    keeps_the_contract(6, aqm.clone(), wf2q.clone());
    for end in [DropFrom::Head, DropFrom::Tail] {
        keeps_it_beside(7, aqm.clone(), wf2q.clone(), sides::longest::<FLOWS>(end));
    }
}

#[test]
fn every_flow_scheduler_keeps_the_contract_under_an_aqm_that_acts_often() {
    with_every_flow_scheduler(EveryThird([0; FLOWS]));
    let qfq = Qfq::new([QfqFlow::EMPTY; FLOWS], MAX_LEN).unwrap();
    keeps_the_contract(4, EveryThird([0; FLOWS]), qfq.clone());
    for end in [DropFrom::Head, DropFrom::Tail] {
        let policy = sides::longest::<FLOWS>(end);
        keeps_it_beside(5, EveryThird([0; FLOWS]), qfq.clone(), policy);
    }
}

#[test]
fn every_flow_scheduler_keeps_the_contract_under_codel() {
    for (target, interval) in [(1_024, 100_000), (50_000, 1_000_000)] {
        let params = CoDelParams::new(Nanos(target), Nanos(interval)).with_mtu(100);
        with_every_flow_scheduler(CoDel::new([CoDelState::EMPTY; FLOWS], params).unwrap());
    }
}

/// Returns COBALT with a probability that rises so fast that every sequence contains drops by BLUE.
fn cobalt(target: u64, interval: u64) -> Cobalt<[CobaltState; FLOWS]> {
    let params = CobaltParams::new(Nanos(target), Nanos(interval));
    let params = params.with_steps(Probability::from_raw(1 << 30), Probability::from_raw(1 << 28));
    Cobalt::new([CobaltState::EMPTY; FLOWS], params, 1).unwrap()
}

#[test]
fn every_flow_scheduler_keeps_the_contract_under_cobalt() {
    for (target, interval) in [(1_024, 100_000), (50_000, 1_000_000)] {
        with_every_flow_scheduler(cobalt(target, interval));
    }
}

#[test]
fn every_flow_scheduler_keeps_the_contract_under_cobalt_with_a_ce_threshold() {
    let marking = CeThreshold::new(cobalt(50_000, 1_000_000), Nanos(20_000)).unwrap();
    with_every_flow_scheduler(marking.clone());
    with_every_flow_scheduler(marking.for_ect1_only());
}

#[test]
fn every_flow_scheduler_keeps_the_contract_under_an_aqm_that_is_chosen() {
    let codel = CoDelParams::new(Nanos(1_024), Nanos(100_000)).with_mtu(100);
    let cobalt = cobalt(50_000, 1_000_000).params();
    for choice in [AqmChoice::CoDel(codel), AqmChoice::Cobalt(cobalt)] {
        let mut aqm =
            ChosenAqm::new([ChosenAqmState::EMPTY; FLOWS], [AqmSetting::EMPTY], choice, 1).unwrap();
        aqm.set_l4s(Some(L4sParams::new(Nanos(20_000)).with_mtu(100))).unwrap();
        with_every_flow_scheduler(aqm);
    }
}
