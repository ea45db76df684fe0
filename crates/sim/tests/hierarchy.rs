//! What a hierarchy promises beside what every scheduler does.
//!
//! That packets leave, drop and are counted as in a naive hierarchy is tested with the disciplines, in
//! `contract.rs` and `differential.rs`; here the same is done with closed classes.

mod sides;

use freeboard::sched_core::{
    DropFrom, Fifo, FlowId, Limits, Nanos, Packet, Qfq, QfqFlow, ShortestFlow, ShortestQueue, Slot,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use sides::hierarchy::node;
use sides::{MAX_LEN, SLOTS};
use sim::history::{Contestant, Operation, Operations, Setting};
use sim::reference::{NaiveClasses, NaiveDrr, NaiveFifo, NaiveQfq, NaiveShortestQueue};
use trace::Xorshift;

fn line(kilobits: u64) -> Shaper {
    Shaper::new(Rate::bits_per_second(kilobits * 1_000).unwrap())
}

/// A FIFO behind a line, and its twin.
fn capped(line: &Shaper) -> (Shaped<Fifo<[Slot; SLOTS]>>, Shaped<NaiveFifo>) {
    let fifo = sides::fifo::<SLOTS>(DropFrom::Head, Limits::NONE);
    let link = Overhead::ETHERNET;
    (Shaped::new(fifo.0, line.clone(), link), Shaped::new(fifo.1, line.clone(), link))
}

/// Everything that can be seen of two schedulers, at `now` and later.
fn compare<S: Contestant, T: Contestant>(subject: &S, twin: &T, now: Nanos) {
    for at in [now, Nanos(0), now.plus(Nanos::from_millis(1)), now.plus(Nanos::from_secs(1))] {
        assert_eq!(subject.peek(at), twin.peek(at), "peek at {at:?}");
        assert_eq!(subject.poll_at(at), twin.poll_at(at), "poll at {at:?}");
    }
    assert_eq!(subject.backlog(), twin.backlog());
    assert_eq!(subject.counters(), twin.counters());
}

/// Plays a random history on a hierarchy with lines in it and on its twin. Time goes by a packet's
/// length at some 10 Mbit/s after each operation, and now and then steps back.
fn agree<S: Contestant, T: Contestant>((mut subject, mut twin): (S, T), seed: u64, steps: usize) {
    let mut free: Vec<u32> = (0..SLOTS as u32).collect();
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
            Operation::Drain => {
                subject.drain(here);
                twin.drain(there);
            }
            Operation::Back { nanos } => now = Nanos(now.0.saturating_sub(nanos % (1 << 24))),
            Operation::Forward { nanos } => now = now.plus(Nanos(nanos % (1 << 30))),
            Operation::EnqueueAs { .. } => {}
        }
        assert_eq!(lost[0], lost[1], "drops");
        free.extend(lost[0].iter().map(|(packet, _)| packet.handle));
        compare(&subject, &twin, now);
        assert_eq!(subject.recount(), Ok(()));
        let queued = subject.backlog().packets as usize;
        assert_eq!(free.len() + queued, SLOTS, "every handle is at home or queued");
    }
    assert!(closed > 100, "the lines were closed only {closed} times");
}

/// Goal: classes that close and open are served exactly as the rules say.
/// Method: random histories against the naive hierarchy, over lines from 300 kbit/s to 8 Mbit/s, one of
/// them making up for lateness and one class without a line.
#[test]
fn closed_classes_leave_and_come_back_as_in_the_naive_hierarchy() {
    for seed in 0..20 {
        let lines = [
            line(300),
            line(8_000),
            line(2_000).with_catch_up(Nanos::from_millis(5)),
            Shaper::new(Rate::UNLIMITED),
        ];
        let subjects = || core::array::from_fn::<_, 4, _>(|class| capped(&lines[class]).0);
        let twins = || lines.iter().map(|line| capped(line).1).collect::<Vec<_>>();
        let none = Limits::NONE;
        let qfq = Qfq::new([QfqFlow::EMPTY; 4], MAX_LEN).unwrap();
        let naive = NaiveClasses::new(NaiveQfq::new(4, MAX_LEN), twins(), 2, none);
        agree((node(qfq, subjects(), 1, false, none), naive), seed, 4_000);
        let drr = sides::drr_order::<4>(MAX_LEN, false);
        let naive = NaiveClasses::new(NaiveDrr::new(4, MAX_LEN, false), twins(), 2, none);
        let naive = naive.dropping_from_longest();
        agree((node(drr, subjects(), 1, true, none), naive), seed, 4_000);
        let sqf = ShortestQueue::new([ShortestFlow::EMPTY; 4]);
        let naive = NaiveShortestQueue::new(4, DropFrom::Head);
        let naive = NaiveClasses::new(naive, twins(), 2, none).dropping_from_longest();
        agree((node(sqf, subjects(), 1, true, none), naive), seed, 4_000);
    }
}

/// Goal: the same two levels down: a class of classes is closed while all of its classes are.
#[test]
fn a_class_of_closed_classes_is_closed() {
    for seed in 0..20 {
        let lines = [line(300), line(4_000)];
        let middle = || {
            let classes = core::array::from_fn::<_, 2, _>(|class| capped(&lines[class]).0);
            node(sides::drr_order::<2>(MAX_LEN, false), classes, 1, true, Limits::packets(20))
        };
        let naive_middle = || {
            let classes = lines.iter().map(|line| capped(line).1).collect();
            let order = NaiveDrr::new(2, MAX_LEN, false);
            NaiveClasses::new(order, classes, 2, Limits::packets(20)).dropping_from_longest()
        };
        let qfq = Qfq::new([QfqFlow::EMPTY; 2], MAX_LEN).unwrap();
        let subject = node(qfq, [middle(), middle()], 2, true, Limits::NONE);
        let classes = vec![naive_middle(), naive_middle()];
        let twin = NaiveClasses::new(NaiveQfq::new(2, MAX_LEN), classes, 4, Limits::NONE);
        agree((subject, twin.dropping_from_longest()), seed, 4_000);
    }
}
