//! Guarantees of hierarchies beyond those of every scheduler.
//!
//! `contract.rs` and `differential.rs` compare hierarchies with a naive one; this file does the
//! same with closed classes.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Operation, Operations, Setting};
use conformance::sides::hierarchy::node;
use conformance::sides::{self, DESCRIPTORS, MAX_LEN};
use conformance::twin::{NaiveClasses, NaiveDrr, NaiveFifo, NaiveQfq, NaiveShortestQueue};
use conformance::wfi::{Arrival, Metered, WfiFlow, WfiMeter};
use freeboard::sched_core::{
    ClassState, Classes, CoDel, CoDelParams, CoDelState, Descriptor, DropFrom, DropReason,
    DropSink, Drr, DrrFlow, Fifo, FlowId, FlowQueues, FlowScheduler, Guarantee, LengthFlow, Limits,
    LowBits, Nanos, Packet, Qfq, QfqConfig, QfqFlow, Queue, RejectReason, Rejected, Scheduler,
    ShortestQueue,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

fn no_drops(packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {}", reason.name());
}

/// Returns a shaper without catch-up, unless a test changes that.
fn line(kilobits: u64) -> Shaper {
    let rate = Rate::bits_per_second(kilobits * 1_000).unwrap();
    Shaper::new(rate).with_catch_up(Nanos::ZERO)
}

/// Returns a FIFO behind a shaper, and its reference model.
fn behind(line: &Shaper) -> (Shaped<Fifo<[Descriptor; DESCRIPTORS]>>, Shaped<NaiveFifo>) {
    let fifo = sides::fifo::<DESCRIPTORS>(DropFrom::Head, Limits::NONE);
    let link = Overhead::ETHERNET;
    (Shaped::new(fifo.0, line.clone(), link), Shaped::new(fifo.1, line.clone(), link))
}

/// Compares everything observable of two schedulers, at `now` and later.
fn compare<S: ConfigurableScheduler, T: ConfigurableScheduler>(subject: &S, twin: &T, now: Nanos) {
    for at in [now, Nanos(0), now.plus(Nanos::from_millis(1)), now.plus(Nanos::from_secs(1))] {
        assert_eq!(subject.peek(at), twin.peek(at), "peek at {at:?}");
        assert_eq!(subject.poll_at(at), twin.poll_at(at), "poll at {at:?}");
    }
    assert_eq!(subject.backlog(), twin.backlog());
    assert_eq!(subject.counters(), twin.counters());
}

/// Plays a random sequence on a hierarchy with shapers in it and on its reference model. Time
/// advances by a packet's length at about 10 Mbit/s after each operation, and occasionally steps
/// back.
fn agree<S: ConfigurableScheduler, T: ConfigurableScheduler>(
    (mut subject, mut twin): (S, T),
    seed: u64,
    steps: usize,
) {
    let mut free: Vec<u32> = (0..DESCRIPTORS as u32).collect();
    let mut random = Xorshift::new(seed);
    let (mut now, mut closed) = (Nanos(0), 0);
    for operation in Operations::new(seed).take(steps) {
        now = now.plus(Nanos(u64::from(random.below(1_000_000))));
        let mut lost = [Vec::new(), Vec::new()];
        let [here, there] = &mut lost;
        let here = &mut |packet: Packet, reason| here.push((packet, reason));
        let there = &mut |packet: Packet, reason| there.push((packet, reason));
        match operation {
            Operation::Enqueue { flow, len } | Operation::EnqueueBurst { flow, len, .. } => {
                let Some(&handle) = free.last() else { continue };
                let packet = Packet::new(handle, len);
                let outcome = subject.enqueue(now, FlowId(flow), packet, here);
                assert_eq!(outcome, twin.enqueue(now, FlowId(flow), packet, there));
                if outcome.is_ok() {
                    free.pop();
                }
            }
            Operation::Dequeue | Operation::DequeueBurst { .. } => {
                let (peeked, poll_at) = (subject.peek(now), subject.poll_at(now));
                let packet = subject.dequeue(now, here);
                assert_eq!(packet, twin.dequeue(now, there));
                assert_eq!(packet, peeked);
                closed += u32::from(packet.is_none() && poll_at.is_some());
                free.extend(packet.map(|packet| packet.handle));
            }
            Operation::Configure { flow, setting } => {
                let setting = Setting { max_len: MAX_LEN, ..setting };
                let outcome = subject.configure(FlowId(flow), setting).is_ok();
                assert_eq!(outcome, twin.configure(FlowId(flow), setting).is_ok());
            }
            Operation::Remove { flow } => {
                subject.remove_flow(FlowId(flow), here);
                twin.remove_flow(FlowId(flow), there);
            }
            Operation::SetLimits { packets, bytes } => {
                subject.set_limits(Limits { packets, bytes }, here);
                twin.set_limits(Limits { packets, bytes }, there);
            }
            Operation::Evict => assert_eq!(subject.evict(here), twin.evict(there)),
            Operation::Drain => {
                subject.drain(here);
                twin.drain(there);
            }
            Operation::Back { nanos } => now = Nanos(now.0.saturating_sub(nanos % (1 << 24))),
            Operation::Forward { nanos } => now = now.plus(Nanos(nanos % (1 << 30))),
            Operation::EnqueueAs { .. } => {}
            // Does not occur in these sequences.
            Operation::FilterOut { .. } => {}
        }
        assert_eq!(lost[0], lost[1], "drops");
        free.extend(lost[0].iter().map(|(packet, _)| packet.handle));
        compare(&subject, &twin, now);
        assert_eq!(subject.recount(), Ok(()));
        let queued = subject.backlog().packets as usize;
        assert_eq!(free.len() + queued, DESCRIPTORS, "every handle is at home or queued");
    }
    assert!(closed > 100, "the lines were closed only {closed} times");
}

/// Goal: classes that close and open are served exactly according to the rules. Method: random
/// sequences compared with the naive hierarchy, with shapers from 300 kbit/s to 8 Mbit/s, one of
/// them with catch-up, and one class without a shaper.
#[test]
fn closed_classes_leave_and_come_back_as_in_the_naive_hierarchy() {
    for seed in 0..effort(2, 20) {
        let lines = [
            line(300),
            line(8_000),
            line(2_000).with_catch_up(Nanos::from_millis(5)),
            Shaper::new(Rate::UNLIMITED),
        ];
        let subjects = || core::array::from_fn::<_, 4, _>(|class| behind(&lines[class]).0);
        let twins = || lines.iter().map(|line| behind(line).1).collect::<Vec<_>>();
        let none = Limits::NONE;
        let qfq = Qfq::new([QfqFlow::EMPTY; 4], MAX_LEN).unwrap();
        let naive = NaiveClasses::new(NaiveQfq::new(4, MAX_LEN), twins(), 2, none);
        agree((node(qfq, subjects(), 1, false, none), naive), seed, 4_000);
        let drr = sides::drr_scheduler::<4>(MAX_LEN, false);
        let naive = NaiveClasses::new(NaiveDrr::new(4, MAX_LEN, false), twins(), 2, none);
        let naive = naive.dropping_from_longest();
        agree((node(drr, subjects(), 1, true, none), naive), seed, 4_000);
        let sqf = ShortestQueue::new([LengthFlow::EMPTY; 4]);
        let naive = NaiveShortestQueue::new(4, DropFrom::Head);
        let naive = NaiveClasses::new(naive, twins(), 2, none).dropping_from_longest();
        agree((node(sqf, subjects(), 1, true, none), naive), seed, 4_000);
    }
}

/// Goal: the rules hold on two levels: a class of classes is closed while all of its classes are.
#[test]
fn a_class_of_closed_classes_is_closed() {
    for seed in 0..effort(2, 20) {
        let lines = [line(300), line(4_000)];
        let middle = || {
            let classes = core::array::from_fn::<_, 2, _>(|class| behind(&lines[class]).0);
            node(sides::drr_scheduler::<2>(MAX_LEN, false), classes, 1, true, Limits::packets(20))
        };
        let naive_middle = || {
            let classes = lines.iter().map(|line| behind(line).1).collect();
            let scheduler = NaiveDrr::new(2, MAX_LEN, false);
            NaiveClasses::new(scheduler, classes, 2, Limits::packets(20)).dropping_from_longest()
        };
        let qfq = Qfq::new([QfqFlow::EMPTY; 2], MAX_LEN).unwrap();
        let subject = node(qfq, [middle(), middle()], 2, true, Limits::NONE);
        let classes = vec![naive_middle(), naive_middle()];
        let twin = NaiveClasses::new(NaiveQfq::new(2, MAX_LEN), classes, 4, Limits::NONE);
        agree((subject, twin.dropping_from_longest()), seed, 4_000);
    }
}

/// Number of handles where no packet may be dropped.
const PLENTY: usize = 256;
/// Number of classes of a node and of flows of a class where guarantees are measured; each uses two
/// bits of a number.
const WIDTH: u32 = 4;

type Leaf<O> = FlowQueues<O, (Vec<Queue>, Vec<Descriptor>)>;
type Level<O, S> = Classes<O, S, LowBits, (Vec<S>, Vec<ClassState>)>;

/// A scheduler, and the guarantee of each of its flows by number.
type Promising<S> = (S, Vec<Guarantee>);

/// A flow scheduler of [`WIDTH`] flows with random weights and longest packets, and their
/// guarantees.
trait Draw: FlowScheduler + Sized {
    fn draw(random: &mut Xorshift) -> Promising<Self>;
}

impl Draw for Qfq<Vec<QfqFlow>> {
    fn draw(random: &mut Xorshift) -> Promising<Self> {
        let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; WIDTH as usize], MAX_LEN).unwrap();
        for flow in (0..WIDTH).map(FlowId) {
            let heaviest = 1 << random.below(10);
            let weight = 1 + random.below(heaviest);
            qfq.configure(flow, QfqConfig { weight, max_len: MAX_LEN }, None).unwrap();
        }
        let promised = (0..WIDTH).map(|flow| qfq.guarantee(FlowId(flow)).unwrap()).collect();
        (qfq, promised)
    }
}

impl Draw for Drr<Vec<DrrFlow>> {
    fn draw(random: &mut Xorshift) -> Promising<Self> {
        let mut drr = Drr::new(vec![DrrFlow::EMPTY; WIDTH as usize], MAX_LEN).unwrap();
        for flow in (0..WIDTH).map(FlowId) {
            drr.configure(flow, MAX_LEN + random.below(10_000), None).unwrap();
        }
        let promised = (0..WIDTH).map(|flow| drr.guarantee(FlowId(flow)).unwrap()).collect();
        (drr, promised)
    }
}

fn leaf<O: Draw>(random: &mut Xorshift) -> Promising<Leaf<O>> {
    let (scheduler, promised) = O::draw(random);
    let queues = vec![Queue::EMPTY; WIDTH as usize];
    (
        FlowQueues::with_own_victim(
            scheduler,
            queues,
            vec![Descriptor::EMPTY; PLENTY],
            Limits::NONE,
        ),
        promised,
    )
}

/// Builds a node of the flow scheduler `O` over [`WIDTH`] classes, with the guarantees of all
/// flows.
fn level<O: Draw, S: Scheduler>(
    random: &mut Xorshift,
    class: impl Fn(&mut Xorshift) -> Promising<S>,
) -> Promising<Level<O, S>> {
    let (scheduler, promised) = O::draw(random);
    let (mut classes, mut composed) = (Vec::new(), Vec::new());
    for promised in promised {
        let (scheduler, flows) = class(random);
        classes.push(scheduler);
        composed.extend(flows.iter().map(|flow| flow.in_class(&promised).unwrap()));
    }
    let bits = (composed.len() as u32 / WIDTH).ilog2();
    let states = vec![ClassState::EMPTY; WIDTH as usize];
    (Classes::new(scheduler, classes, states, LowBits::new(bits).unwrap(), Limits::NONE), composed)
}

/// Plays random arrivals, of few flows or of all in turn, with a random load around one; returns
/// the maximum ratio of a flow's B-WFI to its bound, in thousandths.
fn measure<S: Scheduler>((scheduler, promised): Promising<S>, random: &mut Xorshift) -> u32 {
    let mut meter = WfiMeter::new(vec![WfiFlow::EMPTY; promised.len()]);
    for (flow, promised) in (0..).zip(&promised) {
        meter.add(FlowId(flow), promised.share).unwrap();
    }
    let mut link = Metered::new(scheduler, meter, vec![Arrival::EMPTY; PLENTY]);
    let mut free: Vec<u32> = (0..PLENTY as u32).collect();
    let (mut few, mut load) = (1, 8);
    for step in 0..4_000 {
        if step % 100 == 0 {
            few = 1 + random.below(promised.len() as u32);
            load = 4 + random.below(8);
        }
        if random.below(16) < load {
            let Some(handle) = free.pop() else { continue };
            let len = [1, 40, 750, MAX_LEN - 1, MAX_LEN, MAX_LEN][random.below(6) as usize];
            let flow = FlowId(random.below(few));
            link.enqueue(Nanos(0), flow, Packet::new(handle, len), &mut no_drops).unwrap();
        } else if let Some(packet) = link.dequeue(Nanos(0), &mut no_drops) {
            free.push(packet.handle);
        }
    }
    let reports = (0..).zip(&promised).map(|(flow, promised)| {
        let compared = link.meter().report(FlowId(flow)).unwrap().against(promised);
        assert!(compared.iter().all(|compared| compared.holds()), "flow {flow}: {compared:?}");
        compared[0].per_mille()
    });
    reports.max().unwrap()
}

/// Goal: the guarantees of the levels add up as stated. Method: B-WFI, at any time and at
/// completion, and T-WFI of all flows of trees with random weights and two or three levels,
/// measured byte by byte and compared with the sum. The ratio of the worst flow shows that the
/// bounds are not merely large.
#[test]
fn the_guarantees_of_the_levels_add_up() {
    type AnyQfq = Qfq<Vec<QfqFlow>>;
    type AnyDrr = Drr<Vec<DrrFlow>>;
    let mut random = Xorshift::new(1);
    let random = &mut random;
    let mut worst = [0; 5];
    for _ in 0..effort(30, 100) {
        let qfq_qfq = level::<AnyQfq, _>(random, leaf::<AnyQfq>);
        let drr_qfq = level::<AnyDrr, _>(random, leaf::<AnyQfq>);
        let qfq_drr = level::<AnyQfq, _>(random, leaf::<AnyDrr>);
        let three = level::<AnyQfq, _>(random, |random| level::<AnyDrr, _>(random, leaf::<AnyQfq>));
        let qfqs = level::<AnyQfq, _>(random, |random| level::<AnyQfq, _>(random, leaf::<AnyQfq>));
        let measured = [
            measure(qfq_qfq, random),
            measure(drr_qfq, random),
            measure(qfq_drr, random),
            measure(three, random),
            measure(qfqs, random),
        ];
        worst = core::array::from_fn(|tree| worst[tree].max(measured[tree]));
    }
    assert!(worst.iter().all(|&worst| worst > 200), "per mille of the bounds: {worst:?}");
}

/// Goal: the check can fail. Method: a fifth of the guarantee is violated, so the sum is at most
/// five times the value that occurs at random.
#[test]
fn a_fifth_of_what_is_promised_is_not_kept() {
    type AnyQfq = Qfq<Vec<QfqFlow>>;
    let mut random = Xorshift::new(1);
    let broken = std::panic::catch_unwind(move || {
        for _ in 0..100 {
            let (tree, mut promised) = level::<AnyQfq, _>(&mut random, leaf::<AnyQfq>);
            promised.iter_mut().for_each(|promised| promised.latency /= 5);
            measure((tree, promised), &mut random);
        }
    });
    assert!(broken.is_err());
}

/// Returns the bytes of each class in the next `packets` packets. Every packet that leaves is
/// replaced by one of its flow, so that all flows stay backlogged. A handle belongs to flow `handle
/// % flows`.
fn shares<S: Scheduler>(link: &mut S, flows: &[FlowId], packets: u32) -> [u64; 2] {
    for (handle, flow) in (0..).zip(flows.iter().chain(flows)) {
        link.enqueue(Nanos(0), *flow, Packet::new(handle, 1_500), &mut no_drops).unwrap();
    }
    let mut bytes = [0; 2];
    for sent in 0..packets {
        let packet = link.dequeue(Nanos(0), &mut no_drops).unwrap();
        let flow = flows[packet.handle as usize % flows.len()];
        bytes[(flow.0 >> 7) as usize] += u64::from(packet.len);
        let next = Packet::new(packet.handle, if sent % 3 == 0 { 1_500 } else { 400 });
        link.enqueue(Nanos(0), flow, next, &mut no_drops).unwrap();
    }
    bytes
}

/// Goal: a user receives its share regardless of the number of flows of another user. Method: user
/// 0 with one flow and weight 1, user 1 with a hundred flows and weight 2, all backlogged.
#[test]
fn a_user_with_one_flow_has_its_share_beside_one_with_a_hundred() {
    let user = || {
        let mut flows = Drr::new(vec![DrrFlow::EMPTY; 128], MAX_LEN).unwrap();
        flows.add_all(MAX_LEN).unwrap();
        let queues = vec![Queue::EMPTY; 128];
        FlowQueues::with_own_victim(flows, queues, vec![Descriptor::EMPTY; PLENTY], Limits::NONE)
    };
    let scheduler = Qfq::new([QfqFlow::EMPTY; 2], MAX_LEN).unwrap();
    let mut link = node(scheduler, [user(), user()], 7, false, Limits::NONE);
    for (user, weight) in [(FlowId(0), 1), (FlowId(1), 2)] {
        link.configure(user, QfqConfig { weight, max_len: MAX_LEN }).unwrap();
    }
    let flows: Vec<FlowId> = core::iter::once(FlowId(0)).chain((128..228).map(FlowId)).collect();
    let bytes = shares(&mut link, &flows, 3_000);
    let total = bytes.iter().sum();
    for (user, bytes) in (0..).zip(bytes) {
        let promised = link.scheduler().guarantee(FlowId(user)).unwrap();
        let share = promised.share.of_link(total);
        assert!(
            bytes.abs_diff(share) <= promised.b_wfi(),
            "user {user} has {bytes} of {share} bytes"
        );
    }
}

/// Goal: SQF in the class of a user prefers that user's calls over that user's own transfer, and
/// over nothing else. Method: two users of equal weight, each with a transfer; the first also sends
/// an occasional small packet. The next packet of that user is the small one, and the other user
/// keeps its half.
#[test]
fn shortest_queue_first_inside_a_user_prefers_among_its_own_flows() {
    let user = || {
        let mut scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
        for flow in 0..2 {
            scheduler.configure(FlowId(flow), (), None).unwrap();
        }
        FlowQueues::with_own_victim(
            scheduler,
            [Queue::EMPTY; 2],
            vec![Descriptor::EMPTY; 1_024],
            Limits::NONE,
        )
    };
    let scheduler = Qfq::new([QfqFlow::EMPTY; 2], MAX_LEN).unwrap();
    let mut link = node(scheduler, [user(), user()], 1, false, Limits::NONE);
    for user in 0..2 {
        link.configure(FlowId(user), QfqConfig { weight: 1, max_len: MAX_LEN }).unwrap();
    }
    let mut handle = 0..;
    let mut send = |link: &mut dyn Scheduler, flow, len| {
        let packet = Packet::new(handle.next().unwrap(), len);
        link.enqueue(Nanos(0), FlowId(flow), packet, &mut no_drops).unwrap();
    };
    for _ in 0..300 {
        send(&mut link, 0b00, 1_500);
        send(&mut link, 0b10, 1_500);
    }
    let mut bytes = [0_u64; 2];
    for _ in 0..100 {
        send(&mut link, 0b01, 200);
        let mut first = None;
        for _ in 0..5 {
            let packet = link.dequeue(Nanos(0), &mut no_drops).unwrap();
            let call = packet.len == 200;
            let user = usize::from(!call && packet.handle % 2 == 1 && packet.handle < 600);
            bytes[user] += u64::from(packet.len);
            if user == 0 {
                first.get_or_insert(call);
            }
        }
        assert_eq!(first, Some(true), "the call leaves before the transfer of the same user");
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 6_000, "{bytes:?}");
}

/// Serves two classes of equal weight with DRR on a link that sends one packet per millisecond; the
/// first class has its own shaper. Returns the number of packets of the first class among 300.
fn of_the_limited_class(line: Shaper) -> usize {
    let class = |line| {
        let fifo = Fifo::tail_drop(vec![Descriptor::EMPTY; 1_024], Limits::NONE);
        Shaped::new(fifo, line, Overhead::RAW)
    };
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 2], MAX_LEN).unwrap();
    scheduler.add_all(MAX_LEN).unwrap();
    let classes = [class(line), class(Shaper::new(Rate::UNLIMITED))];
    let mut link = node(scheduler, classes, 0, false, Limits::NONE);
    for handle in 0..800 {
        let packet = Packet::new(handle, 1_500);
        link.enqueue(Nanos(0), FlowId(handle % 2), packet, &mut no_drops).unwrap();
    }
    let sent = (0..300).map(|at| link.dequeue(Nanos::from_millis(at), &mut no_drops).unwrap());
    sent.filter(|packet| packet.handle % 2 == 0).count()
}

/// The link carries 12 Mbit/s. A class that is due is put back after the next packet of the other
/// class, and DRR serves the other once more before it; a shaper with catch-up does not lose rate
/// by that.
#[test]
fn a_limited_class_has_its_rate_or_its_share() {
    let catching_up = |kilobits| line(kilobits).with_catch_up(Nanos::from_millis(5));
    let unlimited = of_the_limited_class(Shaper::new(Rate::UNLIMITED));
    let nearly_all = [line(11_900), catching_up(11_900)].map(of_the_limited_class);
    let a_tenth = [line(1_200), catching_up(1_200)].map(of_the_limited_class);
    assert_eq!((unlimited, nearly_all, a_tenth), (150, [75, 149], [25, 30]));
}

/// Goal: a duplicate handle is detected by the class that holds it and by no other; the counters
/// stay correct, and the handle leaves each class once. Method: enqueue one handle twice into both
/// classes.
#[test]
fn a_handle_that_is_queued_is_noticed_in_its_class_only() {
    let fifo = || Fifo::tail_drop([Descriptor::EMPTY; 4], Limits::NONE);
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 2], 1_500).unwrap();
    scheduler.add_all(1_500).unwrap();
    let (states, split) = ([ClassState::EMPTY; 2], LowBits::new(0).unwrap());
    let mut link = Classes::new(scheduler, [fifo(), fifo()], states, split, Limits::NONE);
    let packet = Packet::new(3, 1_500);
    let reason = RejectReason::HandleInUse { handle: 3 };
    for flow in [FlowId(0), FlowId(1)] {
        assert_eq!(link.enqueue(Nanos(0), flow, packet, &mut no_drops), Ok(()));
        let again = link.enqueue(Nanos(0), flow, packet, &mut no_drops);
        assert_eq!(again, Err(Rejected { packet, reason }));
        assert_eq!(link.recount(), Ok(()));
    }
    for left in [1, 0] {
        assert_eq!(link.dequeue(Nanos(0), &mut no_drops), Some(packet));
        assert_eq!((link.backlog().packets, link.recount()), (left, Ok(())));
    }
    assert_eq!(link.counters().rejected.packets, 2);
}

/// Goal: a class that fills the buffer behind a slow shaper does not lock out the others.
#[test]
fn a_closed_class_gives_way_like_any_other() {
    let scheduler = sides::drr_scheduler::<2>(MAX_LEN, false);
    let slow = line(100);
    let classes = [behind(&slow).0, behind(&Shaper::new(Rate::UNLIMITED)).0];
    let mut link = node(scheduler, classes, 0, true, Limits::packets(20));
    for class in 0..2 {
        link.configure(FlowId(class), MAX_LEN).unwrap();
    }
    let mut dropped = Vec::new();
    for handle in 0..20 {
        link.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 1_500), &mut no_drops).unwrap();
    }
    assert_eq!(link.dequeue(Nanos(0), &mut no_drops), Some(Packet::new(0, 1_500)));
    for handle in 20..25 {
        let sink = &mut |packet: Packet, reason| dropped.push((packet.handle, reason));
        link.enqueue(Nanos(0), FlowId(1), Packet::new(handle, 1_500), sink).unwrap();
    }
    let overflow = [1, 2, 3, 4].map(|handle| (handle, DropReason::Overflow));
    assert_eq!(dropped, overflow, "the head of the longest class, which is closed");
    let next = link.dequeue(Nanos(1), &mut no_drops);
    assert_eq!(next, Some(Packet::new(20, 1_500)));
    assert_eq!(link.recount(), Ok(()));
}

/// Claims to have a packet ready, but returns none in the first calls.
struct Miser(Fifo<Vec<Descriptor>>, u32);

impl Scheduler for Miser {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.0.enqueue(now, flow, packet, drops)
    }
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let Some(left) = self.1.checked_sub(1) else { return self.0.dequeue(now, drops) };
        self.1 = left;
        None
    }

    conformance::forward_all_but_packets!(0);
}

/// Goal: a class that claims to have a packet but returns none does not lock out the others.
/// Method: trait objects, one of which keeps every packet. The other class is empty after twice as
/// many calls as it has packets; nothing is lost, and `drain` returns the packets that were kept.
#[test]
fn a_class_that_keeps_its_packets_costs_the_others_every_second_call() {
    let fifo = || Fifo::tail_drop(vec![Descriptor::EMPTY; 64], Limits::NONE);
    let (mut miser, mut honest) = (Miser(fifo(), u32::MAX), fifo());
    let classes: [&mut dyn Scheduler; 2] = [&mut miser, &mut honest];
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 2], MAX_LEN).unwrap();
    scheduler.add_all(MAX_LEN).unwrap();
    let states = [ClassState::EMPTY; 2];
    let mut link = Classes::new(scheduler, classes, states, LowBits::new(0).unwrap(), Limits::NONE);
    for handle in 0..60 {
        let packet = Packet::new(handle, 1_500);
        link.enqueue(Nanos(0), FlowId(handle % 2), packet, &mut no_drops).unwrap();
    }
    let given = (0..61).filter_map(|_| link.dequeue(Nanos(0), &mut no_drops)).count();
    assert_eq!(given, 30);
    assert_eq!(link.recount(), Ok(()));
    let mut home = 0;
    link.drain(&mut |_, _| home += 1);
    assert_eq!((home, link.backlog().packets), (30, 0));
}

/// Goal: a class that was set aside is called again, even at the maximum time, where nothing is
/// later than now.
#[test]
fn a_class_that_gave_nothing_once_is_asked_again_at_any_time() {
    for now in [Nanos(0), Nanos(1), Nanos(u64::MAX - 1), Nanos::MAX] {
        let fifo = Fifo::tail_drop(vec![Descriptor::EMPTY; 4], Limits::NONE);
        let mut scheduler = Drr::new([DrrFlow::EMPTY; 1], MAX_LEN).unwrap();
        scheduler.add_all(MAX_LEN).unwrap();
        let (states, split) = ([ClassState::EMPTY; 1], LowBits::new(0).unwrap());
        let mut link = Classes::new(scheduler, [Miser(fifo, 1)], states, split, Limits::NONE);
        let packet = Packet::new(0, 1_500);
        link.enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
        assert_eq!(link.dequeue(now, &mut no_drops), None);
        assert_eq!(link.poll_at(now), Some(now), "{now:?}");
        assert_eq!(link.dequeue(now, &mut no_drops), Some(packet), "{now:?}");
        assert_eq!(link.recount(), Ok(()));
    }
}

/// Goal: a class may drop packets while it is called for one; order, counters and handles agree at
/// every step. Method: CoDel with a target of a microsecond in every class, DRR and SQF over them,
/// 40,000 steps.
#[test]
fn an_aqm_in_a_class_keeps_the_books_of_the_node() {
    fn run<O: FlowScheduler>(scheduler: O) {
        let class = || {
            let params = CoDelParams::new(Nanos(1_024), Nanos(100_000)).with_mtu(100);
            let codel = CoDel::new([CoDelState::EMPTY; 2], params).unwrap();
            let mut drr = Drr::new([DrrFlow::EMPTY; 2], MAX_LEN).unwrap();
            drr.add_all(MAX_LEN).unwrap();
            let (queues, descriptors) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; DESCRIPTORS]);
            FlowQueues::with_parts(drr, codel, queues, descriptors, [], Limits::NONE)
        };
        let mut link = node(scheduler, [class(), class()], 1, true, Limits::packets(12));
        let (mut random, mut now) = (Xorshift::new(9), Nanos(0));
        let mut home: Vec<u32> = (0..DESCRIPTORS as u32).collect();
        for _ in 0..20_000 {
            now = now.plus(Nanos(u64::from(random.below(20_000))));
            let mut back = Vec::new();
            let sink = &mut |packet: Packet, _| back.push(packet.handle);
            if random.below(2) == 0 {
                let Some(handle) = home.pop() else { continue };
                let packet = Packet::new(handle, 40 + random.below(1_400));
                let outcome = link.enqueue(now, FlowId(random.below(4)), packet, sink);
                back.extend(outcome.err().map(|rejected| rejected.packet.handle));
            } else {
                let promised = link.peek(now);
                let packet = link.dequeue(now, sink);
                assert_eq!(packet, promised);
                back.extend(packet.map(|packet| packet.handle));
            }
            home.extend(back);
            assert_eq!(home.len() + link.backlog().packets as usize, DESCRIPTORS);
            assert_eq!(link.recount(), Ok(()));
        }
        assert!(link.counters().dropped_for(DropReason::Aqm).packets > 100);
        assert!(link.counters().dropped_for(DropReason::Overflow).packets > 100);
    }
    let mut drr = Drr::new([DrrFlow::EMPTY; 2], MAX_LEN).unwrap();
    drr.add_all(MAX_LEN).unwrap();
    run(drr);
    let mut sqf = ShortestQueue::new([LengthFlow::EMPTY; 2]);
    for class in 0..2 {
        sqf.configure(FlowId(class), (), None).unwrap();
    }
    run(sqf);
}
