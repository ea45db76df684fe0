//! Debts of a flow or a host after its turn, when it loses packets in the meantime.

use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Setting};
use conformance::sides::{self, MAX_LEN};
use freeboard::flowhash::Labels;
use freeboard::sched_core::{
    DropFrom, DropReason, DropSink, FlowId, Limits, Nanos, Packet, Rejected, Scheduler,
};
use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation};

fn no_drops(packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {}", reason.name());
}

/// Enqueues a packet of the debtor (true) or of the other flow.
type Put<'a, Q> = &'a dyn Fn(&mut Q, bool, Packet, &mut dyn DropSink) -> Result<(), Rejected>;

/// One flow is always backlogged with packets of 20 bytes and a quantum of `MAX_LEN` bytes. The
/// debtor sends `MAX_LEN − 1` and then `MAX_LEN` bytes in each of its turns, which leaves it in
/// debt; before its next turn, its only packet is dropped for lack of space. Returns the share of
/// the link that the first flow receives.
fn share_beside_a_debtor<Q: Scheduler>(queue: &mut Q, put: Put<'_, Q>) -> f64 {
    let mut sent = [0_u64; 2];
    // The first flow uses as many handles as packets fit, and reuses its own.
    let mut get = |queue: &mut Q| {
        let packet = queue.dequeue(Nanos(0), &mut no_drops).unwrap();
        sent[usize::from(packet.handle >= 24)] += u64::from(packet.len);
        packet.handle
    };
    let fits = |queue: &mut Q, handle: u32, len: u32| {
        put(queue, handle >= 24, Packet::new(handle, len), &mut no_drops).unwrap();
    };
    queue.set_limits(Limits::packets(24), &mut no_drops);
    (0..24).for_each(|handle| fits(queue, handle, 20));
    for _ in 0..effort(300, 2_000) {
        let mut lost = Vec::new();
        let mut drops = |packet: Packet, _| lost.push(packet.handle);
        let outcome = put(queue, true, Packet::new(24, MAX_LEN), &mut drops);
        lost.extend(outcome.err().map(|rejected| rejected.packet.handle));
        assert_eq!(lost, [24], "its own");
        let gone = [get(queue), get(queue)];
        fits(queue, 24, MAX_LEN - 1);
        fits(queue, 25, MAX_LEN);
        for handle in gone {
            let mut next = get(queue);
            while next < 24 {
                fits(queue, next, 20);
                next = get(queue);
            }
            fits(queue, handle, 20);
        }
    }
    sent[0] as f64 / (sent[0] + sent[1]) as f64
}

fn assert_fair<Q: Scheduler>(what: &str, queue: &mut Q, put: Put<'_, Q>) {
    let share = share_beside_a_debtor(queue, put);
    assert!((share - 0.5).abs() < 0.001, "{what}: {share:.3} of the line");
}

fn flows_are_fair(what: &str, mut queues: impl ConfigurableScheduler) {
    for flow in [FlowId(0), FlowId(1)] {
        queues.configure(flow, Setting { weight: 3, max_len: MAX_LEN }).unwrap();
    }
    assert_fair(what, &mut queues, &|queues, debts, packet, drops| {
        queues.enqueue(Nanos(0), FlowId(debts.into()), packet, drops)
    });
}

/// Goal: a flow in debt after its turn has the same debt after a loss. Two flows, two hosts, or two
/// flows of one host receive equal shares whatever one of them loses.
#[test]
fn debts_outlive_a_loss() {
    let (end, limits) = (DropFrom::Tail, Limits::NONE);
    flows_are_fair("DRR", sides::drr_lqd::<2, 32>(MAX_LEN, false, end, limits).0);
    flows_are_fair("QFQ+", sides::qfq_plus_lqd::<2, 32>(MAX_LEN, 8, end, limits).0);
    for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate] {
        for of_one_host in [false, true] {
            let memory = IsolatedMemory::<Heap>::allocate(16, 8, 1, 32).with_triple(16);
            let config = IsolatedConfig::new(MAX_LEN, limits).isolated_by(isolation);
            let mut queue = Isolated::new(memory, config).unwrap();
            let what = format!("{isolation}, of one host: {of_one_host}");
            assert_fair(&what, &mut queue, &|queue, debts, packet, drops| {
                let (flow, host) = (u32::from(debts), u32::from(debts && !of_one_host));
                let labels = Labels { flow, src_host: host, dst_host: flow };
                queue.enqueue_labelled(Nanos(0), &labels, packet, drops).map(|_| ())
            });
        }
    }
}
