//! A call beside an upload on a link of 10 Mbit/s, in virtual time: first in one queue for both,
//! then with a queue each.
//!
//! ```sh
//! cargo run -p sched-core --example call_beside_upload
//! ```

use sched_core::{
    Descriptor, Drr, DrrFlow, Fifo, FlowId, FlowQueues, Limits, LongestFlow, Nanos, Packet, Queue,
    Scheduler,
};

const CALL: FlowId = FlowId(0);
const UPLOAD: FlowId = FlowId(1);
/// Buffers for packets: a handle is the number of a buffer.
const BUFFERS: u32 = 64;
/// A byte lasts 800 ns at 10 Mbit/s.
const NANOS_PER_BYTE: u64 = 800;

fn main() {
    println!("one queue for both:    the call waits {:>6.3} ms", mean_wait(one_queue()));
    println!("a queue for each flow: the call waits {:>6.3} ms", mean_wait(queue_for_each_flow()));
}

fn one_queue() -> impl Scheduler {
    Fifo::tail_drop([Descriptor::EMPTY; BUFFERS as usize], Limits::packets(BUFFERS))
}

/// Deficit round robin, sparse flows first.
fn queue_for_each_flow() -> impl Scheduler {
    let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500).expect("1,500 bytes are a valid length");
    drr.add_all(1_500).expect("a quantum of the longest packet is long enough");
    FlowQueues::new(
        drr.sparse_first(),
        [Queue::EMPTY; 2],
        [LongestFlow::EMPTY; 2],
        [Descriptor::EMPTY; BUFFERS as usize],
        Limits::packets(BUFFERS),
    )
}

/// Returns how long packets of the call wait in the mean, in milliseconds, during ten seconds.
fn mean_wait(mut link: impl Scheduler) -> f64 {
    let mut free: Vec<u32> = (0..BUFFERS).collect();
    let mut arrived = [Nanos::ZERO; BUFFERS as usize];
    let (mut now, mut next_call) = (Nanos::ZERO, Nanos::ZERO);
    let (mut waited, mut packets) = (0, 0_u32);
    while now < Nanos::from_millis(10_000) {
        // The call sends 200 bytes every 20 ms; the upload fills the other buffers.
        if now >= next_call {
            // It has waited since then for the packet that was being sent.
            arrived[free[free.len() - 1] as usize] = next_call;
            send(&mut link, now, CALL, 200, &mut free);
            next_call = next_call.plus(Nanos::from_millis(20));
        }
        while free.len() > 1 {
            send(&mut link, now, UPLOAD, 1_500, &mut free);
        }
        let drops = &mut |packet: Packet, _| free.push(packet.handle);
        let Some(packet) = link.dequeue(now, drops) else { break };
        if packet.len == 200 {
            waited += now.since(arrived[packet.handle as usize]).0;
            packets += 1;
        }
        free.push(packet.handle);
        now = now.plus(Nanos(u64::from(packet.len) * NANOS_PER_BYTE));
    }
    waited as f64 / f64::from(packets) / 1e6
}

/// Offers a packet in a free buffer; a packet that is dropped gives its buffer back.
fn send(link: &mut impl Scheduler, now: Nanos, flow: FlowId, len: u32, free: &mut Vec<u32>) {
    let Some(handle) = free.pop() else { return };
    let drops = &mut |packet: Packet, _| free.push(packet.handle);
    if let Err(rejected) = link.enqueue(now, flow, Packet::new(handle, len), drops) {
        free.push(rejected.packet.handle);
    }
}

#[test]
fn a_call_with_its_own_queue_waits_for_less_than_a_packet() {
    let packet = 1_500.0 * NANOS_PER_BYTE as f64 / 1e6;
    assert!(mean_wait(queue_for_each_flow()) < packet);
    assert!(mean_wait(one_queue()) > 40.0 * packet);
}
