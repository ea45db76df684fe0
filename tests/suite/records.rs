//! The queue of records: what it promises, and what it says of itself.

mod counters;
mod gives_way;
mod memory;
mod rates;
mod rebuild;
mod sets;
mod shares;

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{Labels, Outcome, mix};
use freeboard::sched_core::{
    Aqm, Backlog, Cobalt, CobaltParams, CobaltState, Counters, DropReason, Ecn, Limits, Nanos,
    Packet, RejectReason, Scheduler, Side, TinConfig, Volume,
};
use freeboard::{
    Heap, HostStatistics, InTin, Isolated, IsolatedConfig, IsolatedMemory, IsolatedQueue,
    Isolation, IsolationMemory, Labelled,
};

const HANDLES: u32 = 60;
const MTU: u32 = 1_500;

/// All but `triple-isolate`.
const MODES: &[Isolation] = &[
    Isolation::Flows,
    Isolation::SrcHost,
    Isolation::DstHost,
    Isolation::Hosts,
    Isolation::DualSrcHost,
    Isolation::DualDstHost,
];

fn no_drops(packet: Packet, why: DropReason) {
    panic!("{packet:?}: {why:?}");
}

fn queue(isolation: Isolation, limits: Limits) -> IsolatedQueue<Heap> {
    let memory = IsolationMemory::allocate(64, 16, 1, 1_024);
    let config = IsolatedConfig::new(MTU, limits).isolated_by(isolation);
    IsolatedQueue::new(memory, config).expect("powers of two")
}

/// Enqueues one of the longest packets, for which there is room.
fn put(queue: &mut IsolatedQueue<Heap>, labels: &impl Labelled, handle: u32) {
    let packet = Packet::new(handle, MTU);
    queue.enqueue_labelled(Nanos(0), labels, packet, &mut no_drops).expect("there is room");
}

/// The handle of the packet that leaves next; there is one.
fn take(queue: &mut IsolatedQueue<Heap>) -> u32 {
    queue.dequeue(Nanos(0), &mut no_drops).expect("more are queued").handle
}

fn labels(flow: u32, source: u32, destination: u32) -> Labels {
    Labels { flow: mix(flow + 1), src_host: mix(source + 1), dst_host: mix(destination + 1) }
}

fn cobalt(queues: usize) -> impl Aqm {
    Cobalt::new(vec![CobaltState::EMPTY; queues], CobaltParams::INTERNET, 1).expect("in range")
}

/// Goal: an AQM forgets and keeps its flows as in `Isolated`: packets are marked and dropped as
/// there. Method: both queues, with one tin and tables that are soon full, get the same packets;
/// all that comes out of them is compared.
#[test]
fn an_aqm_of_records_marks_and_drops_as_that_of_isolated() {
    let (mut drops, mut marks, mut collided) = (0, 0, 0);
    let trials = effort(12, 200);
    for seed in 1..=trials {
        let mut random = Xorshift::new(seed);
        let all = [Isolation::Flows, Isolation::DualSrcHost, Isolation::DualDstHost];
        let isolation = all[random.below(3) as usize];
        let mut config = IsolatedConfig::new(1_500, Limits::packets(50)).isolated_by(isolation);
        config.ways = 4;
        let memory = IsolationMemory::<Heap>::allocate(8, 4, 1, HANDLES as usize);
        let aqm = cobalt(memory.queues());
        let mut records = IsolatedQueue::with_aqm(memory, aqm, config).expect("powers of two");
        let memory = IsolatedMemory::<Heap>::allocate(8, 4, HANDLES as usize);
        let aqm = cobalt(memory.queues());
        let mut isolated = Isolated::with_aqm(memory, aqm, config).expect("powers of two");
        let mut free: Vec<u32> = (0..HANDLES).collect();
        let mut now = Nanos::from_secs(1);
        for step in 0..2_000 {
            now = now.plus(Nanos(u64::from(random.below(20_000_000))));
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let (ours_at, theirs_at) = (
                &mut |packet: Packet, why| ours.push((packet, why)),
                &mut |packet: Packet, why| theirs.push((packet, why)),
            );
            if random.below(100) < [70, 40][step / 300 % 2] {
                let Some(handle) = free.pop() else { continue };
                let [flow, src_host, dst_host] = [12, 6, 6].map(|most| mix(random.below(most)));
                let ecn = if random.below(3) == 0 { Ecn::Ect0 } else { Ecn::NotEct };
                let packet = Packet { handle, len: 1 + random.below(1_500), ecn };
                let labels = Labels { flow, src_host, dst_host };
                let outcome = records.enqueue_labelled(now, &labels, packet, ours_at);
                let answer = isolated.enqueue_labelled(now, &labels, packet, theirs_at);
                assert_eq!(outcome, answer, "seed {seed}, step {step}");
                let outcome = outcome.expect("a free handle and a length in range");
                collided += u64::from(outcome == Outcome::Collision);
            } else {
                let packet = records.dequeue(now, ours_at);
                assert_eq!(packet, isolated.dequeue(now, theirs_at), "seed {seed}, step {step}");
                marks += u64::from(packet.is_some_and(|packet| packet.ecn == Ecn::Ce));
                free.extend(packet.map(|packet| packet.handle));
            }
            assert_eq!(ours, theirs, "seed {seed}, step {step}");
            drops += ours.len() as u64;
            free.extend(ours.iter().map(|(packet, _)| packet.handle));
            assert_eq!(records.counters(), isolated.counters());
            assert_eq!(records.recount(), Ok(()));
        }
    }
    println!("{drops} dropped, {marks} marked, {collided} collided");
    let least = 10 * trials;
    assert!(drops > least && marks > least && collided > least, "{drops} {marks} {collided}");
}
