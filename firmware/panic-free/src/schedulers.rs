//! The operations of `Scheduler` and of the disciplines, for several sizes.

use core::hint::black_box;

use freeboard::sched_core::{Fifo, FlowId, Limits, Nanos, Packet, Scheduler, Slot};

/// Calls everything that `Scheduler` offers, on arguments the compiler knows nothing of.
fn every_operation(scheduler: &mut impl Scheduler) {
    let now = Nanos(black_box(0));
    let flow = FlowId(black_box(0));
    let packet = Packet::new(black_box(0), black_box(0));
    let drops = &mut |packet: Packet, reason| {
        black_box((packet, reason));
    };
    let _ = black_box(scheduler.enqueue(now, flow, packet, drops));
    black_box(scheduler.peek(now));
    black_box(scheduler.dequeue(now, drops));
    black_box(scheduler.enqueue_burst(now, black_box(&[(flow, packet); 4]), drops));
    black_box(scheduler.dequeue_burst(now, black_box(&mut [packet; 4]), drops));
    black_box(scheduler.poll_at(now));
    black_box((scheduler.backlog(), scheduler.limits()));
    black_box(scheduler.counters().offered());
    black_box(scheduler.counters().dropped_total());
    black_box(scheduler.flow_counters(flow));
    scheduler.set_limits(Limits { packets: black_box(0), bytes: black_box(0) }, drops);
    let _ = black_box(scheduler.recount());
    scheduler.drain(drops);
}

macro_rules! export {
    ($name:ident, $make:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            every_operation(black_box(&mut $make));
        }
    };
}

export!(fifo_1, Fifo::tail_drop([Slot::EMPTY; 1], Limits::packets(black_box(1))));
export!(fifo_4096, Fifo::head_drop([Slot::EMPTY; 4096], Limits::bytes(black_box(1))));
