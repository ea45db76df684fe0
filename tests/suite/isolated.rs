//! The isolated queue: its guarantees and its counters.

mod counters;
mod gives_way;
mod memory;
mod rates;
mod rebuild;
mod sets;
mod shares;
mod turns;

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{Labels, Outcome, mix};
use freeboard::sched_core::{
    Aqm, Backlog, Cobalt, CobaltParams, CobaltState, Counters, DropReason, Ecn, Limits, Nanos,
    Packet, RejectReason, Scheduler, Side, TinConfig, Volume,
};
use freeboard::{
    Heap, HostStatistics, InTin, Isolated, IsolatedConfig, IsolatedMemory, Isolation, Labelled,
};

const HANDLES: u32 = 60;
const MTU: u32 = 1_500;

fn no_drops(packet: Packet, why: DropReason) {
    panic!("{packet:?}: {why:?}");
}

fn queue(isolation: Isolation, limits: Limits) -> Isolated<Heap> {
    let memory = IsolatedMemory::allocate(64, 16, 1, 1_024).with_triple(64);
    let config = IsolatedConfig::new(MTU, limits).isolated_by(isolation);
    Isolated::new(memory, config).expect("powers of two")
}

/// Enqueues one of the longest packets, which must be accepted.
fn put(queue: &mut Isolated<Heap>, labels: &impl Labelled, handle: u32) {
    let packet = Packet::new(handle, MTU);
    queue.enqueue_labelled(Nanos(0), labels, packet, &mut no_drops).expect("there is room");
}

/// Returns the handle of the next packet; there must be one.
fn take(queue: &mut Isolated<Heap>) -> u32 {
    queue.dequeue(Nanos(0), &mut no_drops).expect("more are queued").handle
}

fn labels(flow: u32, source: u32, destination: u32) -> Labels {
    Labels { flow: mix(flow + 1), src_host: mix(source + 1), dst_host: mix(destination + 1) }
}

#[test]
fn names_are_those_of_cake() {
    let names: Vec<String> = Isolation::ALL.iter().map(ToString::to_string).collect();
    let expected =
        "flows srchost dsthost hosts dual-srchost dual-dsthost triple-isolate".split_whitespace();
    assert!(names.iter().map(String::as_str).eq(expected));
    for &isolation in Isolation::ALL {
        assert_eq!(isolation.name().parse(), Ok(isolation));
    }
    let error = "dual".parse::<Isolation>().expect_err("no such mode");
    assert!(error.to_string().ends_with("dual-srchost dual-dsthost triple-isolate"), "{error}");
}
