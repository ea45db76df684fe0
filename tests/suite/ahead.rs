//! Prefetching in assembled queues: bursts touch the memory of the next flows first.

use freeboard::sched_core::{Descriptor, LongestFlow, LongestQueueDrop, Scheduler};
use freeboard::sched_core::{Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos, Packet, Queue};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{
    Hashed, Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation, Labelled, LabelledScheduler,
};

/// One of `flows` flows of each of eight hosts.
#[derive(Clone, Copy)]
struct Of {
    flow: u32,
    host: u32,
}

impl Labelled for Of {
    fn flow(&self) -> u32 {
        freeboard::flowhash::mix(self.host << 16 | self.flow)
    }

    fn source(&self) -> u32 {
        freeboard::flowhash::mix(self.host)
    }

    fn destination(&self) -> u32 {
        freeboard::flowhash::mix(!self.flow)
    }
}

const LEN: u32 = 1_500;

fn none(packet: Packet, why: freeboard::sched_core::DropReason) {
    panic!("{packet:?} dropped: {why:?}");
}

/// Creates an isolated queue with five packets of a whole quantum in each of 64 flows.
fn isolated(isolation: Isolation) -> Isolated<Heap> {
    let memory = IsolatedMemory::<Heap>::allocate(128, 16, 1, 1 << 15).with_triple(64);
    let config = IsolatedConfig::new(LEN, Limits::NONE).isolated_by(isolation);
    let mut queue = Isolated::new(memory, config).unwrap();
    for handle in 0..320 {
        let of = Of { flow: handle / 8 % 8, host: handle % 8 };
        queue.enqueue_labelled(Nanos(0), &of, Packet::new(handle, LEN), &mut none).unwrap();
    }
    queue
}

/// Goal: prefetching has no observable effect, with isolation as well. Method: with enough
/// descriptors to enable prefetching, bursts equal the packets one by one.
#[test]
fn bursts_of_isolated_queues_are_their_packets_one_by_one() {
    for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate] {
        let (mut bursts, mut single) = (isolated(isolation), isolated(isolation));
        let mut out = [Packet::new(0, 0); 33];
        loop {
            let filled = bursts.dequeue_burst(Nanos(0), &mut out, &mut none);
            for &packet in &out[..filled] {
                assert_eq!(single.dequeue(Nanos(0), &mut none), Some(packet));
            }
            if filled < out.len() {
                break;
            }
        }
        assert_eq!(single.backlog().packets, 0);
    }
}

/// Goal: with labels, hosts stay isolated behind a shaper, and idle time earns no burst. Method:
/// after an idle second host 1 has one flow and host 0 nine. By labels host 1 gets half of the
/// link; by a bare label, where each flow is its own host, a tenth.
#[test]
fn behind_a_line_labels_isolate_hosts_and_bare_labels_do_not() {
    let served = |by_labels: bool| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 256);
        let config = IsolatedConfig::new(LEN, Limits::packets(256));
        let queue = Isolated::new(memory, config).unwrap();
        let line = Shaper::new(Rate::megabits_per_second(12).unwrap());
        let mut uplink = Shaped::new(queue, line, Overhead::RAW);
        let mut now = Nanos::from_secs(1);
        for handle in 0..200 {
            let of = Of { flow: handle % 10, host: u32::from(handle % 10 == 0) };
            let packet = Packet::new(handle, LEN);
            if by_labels {
                uplink.enqueue_labelled(now, &of, packet, &mut none).unwrap();
            } else {
                uplink.enqueue(now, FlowId(of.flow()), packet, &mut none).unwrap();
            }
        }
        let mut out = [Packet::new(0, 0); 20];
        assert_eq!(uplink.dequeue_burst(now, &mut out, &mut none), 1, "no burst of idle time");
        let mut of_host_1 = u32::from(out[0].handle % 10 == 0);
        for _ in 1..20 {
            now = uplink.poll_at(now).unwrap();
            let packet = uplink.dequeue(now, &mut none).unwrap();
            of_host_1 += u32::from(packet.handle.is_multiple_of(10));
        }
        of_host_1
    };
    assert_eq!((served(true), served(false)), (10, 2));
}

/// Goal: everything that accepts labels also does so behind a shaper and behind a reference.
#[test]
fn every_queue_has_one_way_in_for_labels() {
    let line = || Shaper::new(Rate::megabits_per_second(12).unwrap());
    let fifo = || freeboard::sched_core::Fifo::tail_drop([Descriptor::EMPTY; 8], Limits::NONE);
    let hashed = || {
        let mut drr = Drr::new([DrrFlow::EMPTY; 16], LEN).unwrap();
        drr.add_all(LEN).unwrap();
        let lines = [freeboard::flowhash::TagLine::EMPTY; 2];
        let table = freeboard::flowhash::FlowTable::new(lines, 16, 8).unwrap();
        let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 8]);
        let queues = FlowQueues::with_own_victim(drr, queues, descriptors, Limits::NONE);
        let longest = LongestQueueDrop::new([LongestFlow::EMPTY; 16]);
        Hashed::over(queues.with_drop_policy(longest), table)
    };
    let isolated = || {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 8);
        Isolated::new(memory, IsolatedConfig::new(LEN, Limits::NONE)).unwrap()
    };
    let mut queues: [Box<dyn LabelledScheduler>; 6] = [
        Box::new(fifo()),
        Box::new(hashed()),
        Box::new(isolated()),
        Box::new(Shaped::new(fifo(), line(), Overhead::RAW)),
        Box::new(Shaped::new(hashed(), line(), Overhead::RAW)),
        Box::new(Shaped::new(isolated(), line(), Overhead::RAW)),
    ];
    for queue in &mut queues {
        let mut queue: &mut dyn LabelledScheduler = &mut **queue;
        let of = Of { flow: 3, host: 2 };
        for handle in 0..2 {
            let packet = Packet::new(handle, LEN);
            LabelledScheduler::enqueue_labelled(&mut queue, Nanos(5), &of, packet, &mut none)
                .unwrap();
        }
        assert_eq!(queue.backlog().packets, 2);
        assert_eq!(queue.dequeue(Nanos(5), &mut none), Some(Packet::new(0, LEN)));
        let mut evicted = 0;
        assert!(queue.evict(&mut |_, _| evicted += 1));
        assert!(!queue.evict(&mut none));
        assert_eq!((evicted, queue.backlog().packets), (1, 0));
        assert_eq!(queue.recount(), Ok(()));
    }
}
