//! AQMs that act when a packet arrives, and AQMs that react to overflows.
//!
//! [`CoDel`](freeboard::sched_core::CoDel) does neither, so this file defines two small AQMs that
//! do.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Dial, Match, Operations, Peeked, Shifted};
use conformance::rng::Streams;
use conformance::sides::{self, DESCRIPTORS, FLOWS, MAX_LEN};
use freeboard::sched_core as library;
use freeboard::sched_core::{
    Admission, Aqm, BlueParams, BlueState, CoDel, CoDelParams, CoDelState, Descriptor, DropFrom,
    DropPolicy, DropReason, DropSink, Ecn, FlowId, FlowQueues, FlowRecord, FlowScheduler, Head,
    LengthFlow, Limits, Look, Nanos, Offer, OwnVictim, Packet, Probability, Qfq, QfqFlow, Queue,
    Red, RedParams, RedState, RejectReason, Scheduler, ShortestQueue, Verdict, Volume,
};

/// Random early detection per queue, with a counter in place of a random number.
///
/// From `LOW` bytes on, every eighth arrival is marked or dropped, and more often the more bytes
/// are queued; from `HIGH` bytes on, all arrivals are dropped.
#[derive(Clone, Debug, Default)]
struct EarlyDetection {
    /// Arrivals of each queue since the last congestion signal.
    since: [u32; FLOWS],
}

const LOW: u32 = 2_000;
const HIGH: u32 = 8_000;

impl Aqm for EarlyDetection {
    const MAX_DROPS: u32 = 0;

    fn admit(&mut self, flow: FlowId, offer: Offer, _look: Look) -> Admission {
        let since = &mut self.since[flow.index()];
        match offer.held.bytes {
            HIGH.. => Admission::Refuse,
            LOW.. => {
                *since += 1;
                let every = 8 - 7 * (offer.held.bytes - LOW) / (HIGH - LOW);
                if *since < every {
                    return Admission::Accept;
                }
                *since = 0;
                Admission::Signal
            }
            _ => Admission::Accept,
        }
    }

    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        Verdict::Pass
    }

    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, _flow: FlowId) {}

    fn forget(&mut self, flow: FlowId) {
        self.since.get_mut(flow.index()).into_iter().for_each(|since| *since = 0);
    }

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.since.swap(flow.index(), other.index());
    }
}

/// BLUE per queue: overflows raise the probability that an arrival is marked or dropped, and an
/// idle queue lowers it.
#[derive(Clone, Debug)]
struct Blue([BlueFlow; FLOWS]);

#[derive(Clone, Copy, Debug)]
struct BlueFlow {
    /// Congestion signals per 256 arrivals.
    chance: u32,
    random: Xorshift,
    /// Time of the last arrival; the next field is the time of the last change.
    now: Nanos,
    changed: Option<Nanos>,
    overflows: u64,
}

/// Minimum time between two changes.
const FREEZE: Nanos = Nanos(1_000_000);

impl Blue {
    const NEW: Self = Self([BlueFlow::NEW; FLOWS]);
}

impl BlueFlow {
    const NEW: Self =
        Self { chance: 0, random: Xorshift::new(1), now: Nanos(0), changed: None, overflows: 0 };

    fn change(&mut self, chance: u32) {
        if self.changed.is_none_or(|changed| self.now.since(changed) >= FREEZE) {
            self.chance = chance.min(255);
            self.changed = Some(self.now);
        }
    }
}

impl Aqm for Blue {
    const MAX_DROPS: u32 = 0;

    fn admit(&mut self, flow: FlowId, offer: Offer, _look: Look) -> Admission {
        let state = &mut self.0[flow.index()];
        state.now = offer.now;
        if offer.held.packets == 0 {
            state.change(state.chance.saturating_sub(1));
        }
        if u32::from(state.random.byte()) < state.chance {
            Admission::Signal
        } else {
            Admission::Accept
        }
    }

    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        Verdict::Pass
    }

    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    fn overflowed(&mut self, flow: FlowId) {
        let state = &mut self.0[flow.index()];
        state.overflows += 1;
        // A large step: there are few overflows in a sequence, and some arrivals have to be marked.
        state.change(state.chance + 64);
    }

    fn emptied(&mut self, _flow: FlowId) {}

    /// Keeps the overflow count, which the tests read.
    fn forget(&mut self, flow: FlowId) {
        let Some(state) = self.0.get_mut(flow.index()) else { return };
        *state = BlueFlow { overflows: state.overflows, ..BlueFlow::NEW };
    }

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.0.swap(flow.index(), other.index());
    }
}

pub(crate) type Queues<O, A, D = OwnVictim> =
    FlowQueues<O, ([Queue; FLOWS], [Descriptor; DESCRIPTORS], [FlowRecord; FLOWS]), A, D>;

pub(crate) fn queues<O: FlowScheduler, A: Aqm>(scheduler: O, aqm: A) -> Queues<O, A> {
    FlowQueues::with_parts(
        scheduler,
        aqm,
        [Queue::EMPTY; FLOWS],
        [Descriptor::EMPTY; DESCRIPTORS],
        [FlowRecord::EMPTY; FLOWS],
        Limits::NONE,
    )
}

/// A test that runs on the queues of every flow scheduler with its own AQM.
pub(crate) trait Play {
    fn play<O, D>(&self, seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone;
}

pub(crate) fn with_every_flow_scheduler(test: &impl Play) {
    let drr = sides::drr_scheduler::<FLOWS>(MAX_LEN, true);
    test.play(1, drr, OwnVictim);
    let qfq = Qfq::new([QfqFlow::EMPTY; FLOWS], MAX_LEN).unwrap();
    test.play(2, qfq.clone(), OwnVictim);
    for (seed, end) in [(3, DropFrom::Head), (4, DropFrom::Tail)] {
        test.play(seed, drr, sides::longest::<FLOWS>(end));
        test.play(2 + seed, qfq.clone(), sides::longest::<FLOWS>(end));
        let sqf = ShortestQueue::new([LengthFlow::EMPTY; FLOWS]).drop_from(end);
        test.play(4 + seed, sqf, OwnVictim);
    }
}

/// Checks handles, counters, peeks and the effect of shifted times on random sequences.
struct Contract<A>(A);

impl<A: Aqm + Clone> Play for Contract<A> {
    fn play<O, D>(&self, seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone,
    {
        let subject = || queues(scheduler.clone(), self.0.clone()).with_drop_policy(policy.clone());
        let play = |twin: &mut dyn FnMut() -> Box<dyn ConfigurableScheduler>| {
            let mut both = Match::new(subject(), twin()).marking_arrivals();
            for (step, operation) in Operations::new(seed).take(effort(10_000, 100_000)).enumerate()
            {
                both.step(operation, step % 16 == 0).unwrap();
            }
            both.subject.counters()
        };
        let counters = play(&mut || Box::new(Peeked::new(subject())));
        assert!(counters.marked > 0 && counters.rejected.packets > 0, "{counters:?}");
        assert_eq!(counters.dropped_for(DropReason::Aqm), Volume::ZERO);
        play(&mut || Box::new(Shifted::new(subject(), 1 << 53)));
    }
}

/// Goal: with an AQM that marks and drops arrivals, every handle is returned once, the counters are
/// correct, and `peek` predicts the next packet. Method: random sequences, compared with queues
/// that receive additional peeks and run at shifted times.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_an_aqm_that_speaks_at_arrival() {
    with_every_flow_scheduler(&Contract(EarlyDetection::default()));
}

/// Goal: the contract holds with RED, plain as well as gentle and adaptive.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_red() {
    let plain = RedParams::new(1_500, 4_500)
        .with_weight(1)
        .with_max_probability(Probability::ratio(1, 4).unwrap());
    for params in [plain, plain.gentle().adaptive()] {
        with_every_flow_scheduler(&Contract(
            Red::new([RedState::EMPTY; FLOWS], params, 0).unwrap(),
        ));
    }
}

/// Goal: the contract holds with an AQM that reacts to overflows.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_an_aqm_that_listens_to_overflows() {
    with_every_flow_scheduler(&Contract(Blue::NEW));
}

/// Goal: the contract holds with BLUE, whose probability rises with overflows and with long waits.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_blue() {
    let params = BlueParams::DEFAULT
        .with_steps(Probability::from_raw(1 << 27), Probability::from_raw(1 << 26))
        .with_freeze(Nanos(50_000))
        .with_longest_wait(Nanos(100_000));
    let blue = library::Blue::new([BlueState::EMPTY; FLOWS], params, 1).unwrap();
    with_every_flow_scheduler(&Contract(blue));
}

/// Congestion signals of one flow, counted by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Signals {
    full: u64,
    pub(crate) refused: u64,
    pub(crate) marked: u64,
}

/// A pool of handles, and the packets in use.
pub(crate) struct Pool {
    free: Vec<u32>,
    /// The packet as it was passed in, and its flow.
    out: Vec<Option<(FlowId, Packet)>>,
    pub(crate) told: [Signals; FLOWS],
}

impl DropSink for Pool {
    fn dropped(&mut self, packet: Packet, _reason: DropReason) {
        self.home(packet);
    }
}

impl Pool {
    fn new() -> Self {
        let descriptors = DESCRIPTORS as u32;
        Self {
            free: (0..descriptors).collect(),
            out: vec![None; DESCRIPTORS],
            told: Default::default(),
        }
    }

    fn home(&mut self, packet: Packet) {
        let (flow, before) = self.out[packet.handle as usize].take().expect("it was out");
        assert_eq!(Packet { ecn: before.ecn, ..packet }, before);
        if packet.ecn != before.ecn {
            assert!(before.ecn.is_capable() && packet.ecn == Ecn::Ce, "{before:?} as {packet:?}");
            self.told[flow.index()].marked += 1;
        }
        self.free.push(packet.handle);
    }

    fn offer(&mut self, queues: &mut impl Scheduler, now: Nanos, flow: FlowId, len: u32, ecn: Ecn) {
        let Some(handle) = self.free.pop() else { return };
        let packet = Packet { handle, len, ecn };
        self.out[handle as usize] = Some((flow, packet));
        let Err(rejected) = queues.enqueue(now, flow, packet, self) else { return };
        assert_eq!(rejected.packet, packet, "as it came");
        match rejected.reason {
            RejectReason::Full { .. } => self.told[flow.index()].full += 1,
            RejectReason::Aqm => self.told[flow.index()].refused += 1,
            reason => panic!("{reason}"),
        }
        self.home(packet);
    }
}

/// Plays random operations on all flows: arrivals of all codepoints, departures, evictions and
/// limits; drains at the end.
pub(crate) fn live<O, A, D>(seed: u64, queues: &mut Queues<O, A, D>) -> Pool
where
    O: FlowScheduler<Config: Dial>,
    A: Aqm,
    D: DropPolicy<O>,
{
    for flow in 0..FLOWS as u32 {
        let setting = conformance::history::Setting { weight: 3, max_len: MAX_LEN };
        queues.configure(FlowId(flow), Dial::of(setting)).unwrap();
    }
    let (mut random, mut pool) = (Streams::new(seed).stream("life"), Pool::new());
    queues.set_limits(Limits { packets: 20, bytes: 20_000 }, &mut pool);
    let mut now = Nanos(0);
    for step in 0..50_000 {
        now = Nanos(now.0 + random.below(200_000));
        match random.below(64) {
            0 => drop(queues.evict(&mut pool)),
            1 if step % 8 == 0 => {
                let (packets, bytes) = (random.below(30) as u32, random.below(30_000) as u32);
                queues.set_limits(Limits { packets, bytes }, &mut pool);
            }
            2..28 => {
                let packet = queues.dequeue(now, &mut pool);
                packet.into_iter().for_each(|packet| pool.home(packet));
            }
            _ => {
                let flow = FlowId(random.below(FLOWS as u64) as u32);
                let len = 1 + random.below(MAX_LEN.into()) as u32;
                let ecn = Ecn::from_bits(random.below(4) as u8);
                pool.offer(queues, now, flow, len, ecn);
            }
        }
        if step % 64 == 0 {
            assert_eq!(queues.recount(), Ok(()));
        }
    }
    queues.drain(&mut pool);
    assert_eq!(pool.free.len(), DESCRIPTORS, "every handle came home");
    assert_eq!(queues.recount(), Ok(()));
    pool
}

/// Compares the flow's records with the signals counted by the caller.
pub(crate) fn booked<O, A, D>(queues: &Queues<O, A, D>, flow: usize, told: Signals)
where
    O: FlowScheduler,
    A: Aqm,
    D: DropPolicy<O>,
{
    let counters = queues.flow_counters(FlowId(flow as u32)).unwrap();
    assert_eq!(counters.marked, told.marked, "flow {flow}");
    assert_eq!(counters.rejected.packets, told.full + told.refused, "flow {flow}");
}

struct Overflows;

impl Play for Overflows {
    fn play<O, D>(&self, seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone,
    {
        let mut queues = queues(scheduler, Blue::NEW).with_drop_policy(policy);
        let pool = live(seed, &mut queues);
        for (flow, told) in pool.told.into_iter().enumerate() {
            booked(&queues, flow, told);
            let counters = queues.flow_counters(FlowId(flow as u32)).unwrap();
            let gave_way = [DropReason::Overflow, DropReason::Unserved]
                .map(|why| counters.dropped_for(why).packets);
            let overflows = queues.aqm().0[flow].overflows;
            assert_eq!(overflows, told.full + gave_way.iter().sum::<u64>(), "flow {flow}");
            assert!(overflows > 100 && told.refused > 10 && told.marked > 10, "{told:?}");
        }
    }
}

/// Goal: an AQM is informed of every packet dropped for lack of space, with its flow, and of no
/// other; every handle is returned once. Method: random operations, compared with the counts of the
/// caller.
#[test]
fn an_aqm_hears_of_every_overflow_once() {
    with_every_flow_scheduler(&Overflows);
}

struct Reweighted;

impl Play for Reweighted {
    fn play<O, D>(&self, _seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone,
    {
        let codel = CoDelParams::new(Nanos(1_000_000), Nanos(20_000_000)).with_mtu(100);
        let codel = CoDel::new([CoDelState::EMPTY; FLOWS], codel).unwrap();
        let weighted =
            |weight| Dial::of(conformance::history::Setting { weight, max_len: MAX_LEN });
        // Packets that leave while the flow is backlogged, marked or not; its weight may change
        // halfway.
        let run = |weight: Option<u32>| {
            let queues = queues(scheduler.clone(), codel.clone());
            let mut queues = queues.with_drop_policy(policy.clone());
            queues.configure(FlowId(0), weighted(3)).unwrap();
            let mut trace = Vec::new();
            for step in 0..400_u32 {
                if let (200, Some(weight)) = (step, weight) {
                    queues.configure(FlowId(0), weighted(weight)).unwrap();
                }
                let now = Nanos(1_000_000 * u64::from(step));
                let handle = step % DESCRIPTORS as u32;
                let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(handle, 100) };
                queues.enqueue(now, FlowId(0), packet, &mut |_: Packet, _| ()).unwrap();
                if step >= 8 {
                    trace.extend(queues.dequeue(now, &mut |_: Packet, _| ()));
                }
            }
            trace
        };
        let unchanged = run(None);
        let marks = |trace: &[Packet]| trace.iter().filter(|packet| packet.ecn == Ecn::Ce).count();
        assert!(marks(&unchanged[192..]) > 2 * marks(&unchanged[..192]), "marks come closer");
        assert_eq!(run(Some(5)), unchanged);
    }
}

/// Goal: the state of an AQM is kept when the weight of a flow changes. Method: the marks of a
/// standing queue, which become more frequent, equal those of a flow with a constant weight.
#[test]
fn another_weight_leaves_what_was_learned() {
    with_every_flow_scheduler(&Reweighted);
}

struct Books;

impl Play for Books {
    fn play<O, D>(&self, seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone,
    {
        let mut queues = queues(scheduler, EarlyDetection::default()).with_drop_policy(policy);
        let pool = live(seed, &mut queues);
        for (flow, told) in pool.told.into_iter().enumerate() {
            booked(&queues, flow, told);
            assert!(told.refused >= 5 && told.marked >= 5, "{told:?}");
        }
    }
}

/// Goal: a packet that an AQM drops on arrival is returned unchanged and counted as rejected; a
/// packet that it marks leaves marked and is counted once. Method: random operations, compared with
/// the counts of the caller.
#[test]
fn what_an_aqm_says_at_arrival_is_in_the_books() {
    with_every_flow_scheduler(&Books);
}

/// Goal: from the lowest threshold on an ECN-capable packet is marked, another one is dropped, and
/// one that arrived with a mark is unchanged. From the highest threshold on, all are dropped and
/// the scheduler is unchanged.
#[test]
fn an_arrival_is_marked_or_turned_away() {
    let drr = sides::drr_scheduler::<FLOWS>(MAX_LEN, false);
    let mut queues = queues(drr, EarlyDetection { since: [7; FLOWS] });
    queues.configure(FlowId(0), 1_500).unwrap();
    let mut pool = Pool::new();
    for len in [1_500, 500] {
        pool.offer(&mut queues, Nanos(0), FlowId(0), len, Ecn::NotEct);
    }
    pool.offer(&mut queues, Nanos(0), FlowId(0), 100, Ecn::Ect0);
    for ecn in [Ecn::Ce, Ecn::NotEct] {
        queues.aqm_mut().since = [7; FLOWS];
        pool.offer(&mut queues, Nanos(0), FlowId(0), 100, ecn);
    }
    assert_eq!(pool.told[0], Signals { full: 0, refused: 1, marked: 0 });
    assert_eq!((queues.counters().marked, queues.counters().came_marked), (1, 1));
    for _ in 0..4 {
        queues.aqm_mut().since = [0; FLOWS];
        pool.offer(&mut queues, Nanos(0), FlowId(0), 1_500, Ecn::NotEct);
    }
    let before = queues.backlog();
    assert_eq!(before.bytes, 8_200);
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
        pool.offer(&mut queues, Nanos(0), FlowId(0), 64, ecn);
    }
    assert_eq!(pool.told[0].refused, 5);
    assert_eq!((queues.backlog(), queues.recount()), (before, Ok(())));
    let mut left = Vec::new();
    while let Some(packet) = queues.dequeue(Nanos(0), &mut pool) {
        left.push(packet.ecn);
        pool.home(packet);
    }
    assert_eq!(left[..4], [Ecn::NotEct, Ecn::NotEct, Ecn::Ce, Ecn::Ce]);
    assert_eq!(pool.told[0].marked, 1);
}

/// Returns a given list of verdicts on departures, then passes all packets.
#[derive(Clone, Debug)]
struct Script(Vec<Verdict>);

impl Aqm for Script {
    const MAX_DROPS: u32 = 2;

    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Accept
    }

    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        if self.0.is_empty() { Verdict::Pass } else { self.0.remove(0) }
    }

    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let mut rest = self.0.clone().into_iter();
        move |_| rest.next().unwrap_or(Verdict::Pass)
    }

    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, _flow: FlowId) {}

    fn forget(&mut self, _flow: FlowId) {}

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    #[inline]
    fn swap(&mut self, _flow: FlowId, _other: FlowId) {}
}

/// Goal: `Drop` drops an ECN-capable packet as `Signal` drops one that is not, up to the limit of a
/// call; the last packet of a queue is delivered without a mark. Method: every script of three
/// verdicts on every queue of up to four packets with two codepoints, compared with the definition
/// of the two verdicts.
#[test]
fn a_drop_takes_what_could_be_marked_but_not_the_last() {
    let verdicts = [Verdict::Pass, Verdict::Signal, Verdict::Drop];
    let (mut dropped_capable, mut spared) = (0, 0);
    for script in 0..27 {
        let script = [script % 3, script / 3 % 3, script / 9].map(|which: usize| verdicts[which]);
        for (packets, kinds) in
            (1..=4).flat_map(|packets| (0..1 << packets).map(move |k| (packets, k)))
        {
            let ecn = |handle: u32| if kinds >> handle & 1 == 1 { Ecn::Ect0 } else { Ecn::NotEct };
            let drr = sides::drr_scheduler::<FLOWS>(MAX_LEN, false);
            let mut queues = queues(drr, Script(script.to_vec()));
            queues.configure(FlowId(0), 1_500).unwrap();
            let mut gone: Vec<(u32, DropReason)> = Vec::new();
            for handle in 0..packets {
                let packet = Packet { handle, len: 100, ecn: ecn(handle) };
                queues.enqueue(Nanos(0), FlowId(0), packet, &mut |_: Packet, _| ()).unwrap();
            }
            let (mut first, mut marked) = (0, false);
            for verdict in script {
                marked = verdict == Verdict::Signal && ecn(first).is_capable();
                if verdict == Verdict::Pass || marked || first + 1 == packets || first == 2 {
                    spared += u32::from(verdict == Verdict::Drop);
                    break;
                }
                dropped_capable += u32::from(ecn(first).is_capable());
                first += 1;
            }
            let expected =
                Packet { handle: first, len: 100, ecn: if marked { Ecn::Ce } else { ecn(first) } };
            assert_eq!(queues.peek(Nanos(0)), Some(expected), "{script:?} {packets} {kinds:b}");
            let sink = &mut |packet: Packet, why| gone.push((packet.handle, why));
            assert_eq!(
                queues.dequeue(Nanos(0), sink),
                Some(expected),
                "{script:?} {packets} {kinds:b}"
            );
            let all: Vec<_> = (0..first).map(|handle| (handle, DropReason::Aqm)).collect();
            assert_eq!(gone, all);
            assert_eq!(queues.counters().marked, u64::from(marked));
            assert_eq!(queues.recount(), Ok(()));
        }
    }
    assert!(dropped_capable > 50 && spared > 50, "{dropped_capable} {spared}");
}
