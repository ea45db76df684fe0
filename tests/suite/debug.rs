//! `Debug` of types that hold tables and buffers prints a summary of the same length for large and
//! small tables.

use core::fmt::Debug;

use freeboard::flowhash::{FlowTable, HostBy, HostMap, HostMember, PrefixLengths, TagLine};
use freeboard::sched_core::{
    AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, Descriptor, Drr, DrrFlow, Fifo, FlowQueues,
    Limits, LongestFlow, LongestQueueDrop, Nanos, Qfq, QfqFlow, Queue,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{
    Buffers, Hashed, Heap, Isolated, IsolatedConfig, IsolatedMemory, SmartQueue, StaticFrames,
    StaticTables,
};

fn is_short(of: &impl Debug) {
    for (text, most) in [(format!("{of:?}"), 2_000), (format!("{of:#?}"), 6_000)] {
        assert!(text.len() < most, "{} bytes: {}", text.len(), &text[..200]);
    }
}

/// Goal: no `Debug` prints a table or the bytes of packets. Method: the containers with tables for
/// 1,024 flows.
#[test]
fn a_container_is_printed_in_short() {
    let builder = || SmartQueue::upload(Rate::megabits_per_second(20).unwrap());
    let mut frames = builder().frames([42; 16]).unwrap();
    for _ in 0..100 {
        frames.push(Nanos(0), &[7; 1_000]).unwrap();
    }
    is_short(&frames);
    let text = format!("{frames:?}");
    assert!(text.contains("rate: 20mbit") && text.contains("packets: 100"), "{text}");
    is_short(&builder().descriptors().unwrap());
    is_short(&frames.isolated());
    is_short(&frames.isolated().aqm());
    // The type of the caller's rules need not implement `Debug`.
    let host_rules = |_| freeboard::HostTerms::default();
    is_short(&builder().frames([42; 16]).unwrap().with_host_rules(host_rules));

    let memory = || IsolatedMemory::<Heap>::allocate(1_024, 256, 8, 512).with_rates();
    let memory = || memory().with_triple(256);
    is_short(&memory());
    is_short(&Isolated::new(memory(), IsolatedConfig::new(1_514, Limits::NONE)).unwrap());
    is_short(&StaticTables::<256, 2, 8>::new());
    is_short(&StaticFrames::<16, 1_514, 1>::new());
    is_short(&Buffers::<16, 1_514>::new());
    let aqm = vec![ChosenAqmState::EMPTY; 1_024];
    is_short(&ChosenAqm::new(aqm, [AqmSetting::EMPTY], AqmChoice::None, 1).unwrap());

    let table = || FlowTable::new(vec![TagLine::EMPTY; 128], 1_024, 8).unwrap();
    is_short(&table());
    let members: Vec<_> =
        (0..=255).map(|last| HostMember::v4([10, 0, 0, last], last.into())).collect();
    is_short(&HostMap::new(HostBy::Prefix(PrefixLengths::SUBNETS), members).unwrap());

    let drr = Drr::new(vec![DrrFlow::EMPTY; 1_024], 1_514).unwrap();
    is_short(&drr);
    is_short(&Qfq::new(vec![QfqFlow::EMPTY; 1_024], 1_514).unwrap());
    is_short(&LongestQueueDrop::new(vec![LongestFlow::EMPTY; 1_024]));
    is_short(&Fifo::tail_drop(vec![Descriptor::EMPTY; 1_024], Limits::NONE));
    let (queues, packets) = (vec![Queue::EMPTY; 1_024], vec![Descriptor::EMPTY; 1_024]);
    let queues =
        FlowQueues::new(drr, queues, vec![LongestFlow::EMPTY; 1_024], packets, Limits::NONE);
    is_short(&queues);
    let line = Shaper::new(Rate::UNLIMITED);
    is_short(&Shaped::new(Hashed::over(queues, table()), line, Overhead::RAW));
}
