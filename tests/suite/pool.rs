//! A pool of buffers and a queue: the limits of the queue must be reached before the pool is empty.

use conformance::effort::effort;
use freeboard::Hashed;
use freeboard::flowhash::{FlowTable, TagLine};
use freeboard::sched_core::{
    Descriptor, DropReason, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow,
    LongestQueueDrop, Nanos, Packet, Queue, Scheduler,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

/// Number of buffers in the example in `docs/guide/library.md`.
const BUFFERS: u32 = 256;

fn packets() -> u64 {
    effort(1_000, 4_000)
}

/// Creates the queue of that example with these limits.
fn uplink(limits: Limits) -> impl Scheduler {
    let mut drr = Drr::new([DrrFlow::EMPTY; 64], 1_514).unwrap().sparse_first();
    drr.add_all(1_514).unwrap();
    let longest = LongestQueueDrop::new([LongestFlow::EMPTY; 64]);
    let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8).unwrap();
    let descriptors = [Descriptor::EMPTY; BUFFERS as usize];
    let queues = FlowQueues::with_own_victim(drr, [Queue::EMPTY; 64], descriptors, limits);
    let queues = Hashed::over(queues.with_drop_policy(longest), table);
    let line = Shaper::new(Rate::megabits_per_second(1).unwrap());
    Shaped::new(queues, line, Overhead::PPPOE_LLCSNAP)
}

/// Returns the number of packets of a light flow, out of [`packets`], that are delivered during a
/// flood, all of 200 bytes.
///
/// The light flow sends one packet every 5 ms, less than half of the link; the flood sends one
/// every 20 µs. Every packet needs a buffer on reception; if none is free it is lost, unless the
/// caller `evicts`.
fn light_packets(limits: Limits, evicts: bool) -> u32 {
    let mut uplink = uplink(limits);
    let mut free: Vec<u32> = (0..BUFFERS).collect();
    let mut is_light = [false; BUFFERS as usize];
    let mut through = 0;
    for step in 0..packets() * 250 {
        let now = Nanos::from_micros(step * 20);
        let mut home = Vec::new();
        while let Some(packet) = uplink.dequeue(now, &mut |packet: Packet, _| home.push(packet)) {
            through += u32::from(is_light[packet.handle as usize]);
            home.push(packet);
        }
        for flow in [2 * u32::from(step % 250 != 125) + 1, 3] {
            // The light flow is sometimes first, and sometimes the flood.
            free.extend(home.drain(..).map(|packet| packet.handle));
            if free.is_empty() && evicts {
                let sink = &mut |packet: Packet, why| {
                    assert_eq!(why, DropReason::Overflow);
                    home.push(packet);
                };
                assert!(uplink.evict(sink));
                free.extend(home.drain(..).map(|packet| packet.handle));
            }
            let Some(handle) = free.pop() else { continue };
            is_light[handle as usize] = flow == 1;
            let packet = Packet::new(handle, 200);
            let outcome = uplink
                .enqueue(now, FlowId(flow), packet, &mut |packet: Packet, _| home.push(packet));
            free.extend(outcome.err().map(|rejected| rejected.packet.handle));
        }
        free.extend(home.drain(..).map(|packet| packet.handle));
    }
    assert_eq!(uplink.recount(), Ok(()));
    through
}

/// Goal: a light flow loses nothing to a flood, for any packet length. Method: the example's sizes
/// and packets of 200 bytes, of which 256 buffers hold 51 kB, while the limit is 150 kB. With a
/// limit in bytes alone the pool is empty before the limit takes effect, and the device accepts
/// packets in order of arrival.
#[test]
fn a_light_flow_gets_its_packets_whatever_the_length() {
    let in_bytes = Limits::bytes(150_000);
    let without = light_packets(in_bytes, false);
    let packets = packets() as u32;
    assert!(
        without < packets / 10,
        "{without}: the pool does not run empty, and this shows nothing"
    );
    let within = light_packets(in_bytes.within_pool(BUFFERS), false);
    assert!(within >= packets - packets / 400, "{within} of {packets} within the pool");
    let evicting = light_packets(in_bytes, true);
    assert!(evicting >= packets - packets / 400, "{evicting} of {packets} with evictions");
}

#[test]
fn a_pool_of_one_buffer_queues_nothing() {
    assert_eq!(Limits::NONE.within_pool(256), Limits::packets(255));
    assert_eq!(Limits::packets(12).within_pool(256), Limits::packets(12));
    for buffers in [0, 1] {
        assert_eq!(Limits::bytes(9_000).within_pool(buffers), Limits { packets: 0, bytes: 9_000 });
    }
}
