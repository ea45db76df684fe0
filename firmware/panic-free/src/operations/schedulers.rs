//! The operations of `Scheduler` on all its implementations.

use core::hint::black_box;

use conformance::catalog::{self, AqmRecipe, Arrays, Memory, queues};
use freeboard::sched_core::{
    Aqm, CoDelParams, DropPolicy, DropReason, Ecn, FlowDirectory, FlowId, FlowQueues,
    FlowScheduler, Limits, Nanos, NoAqm, Packet, Scheduler, Tables,
};
use freeboard::shaper::{Overhead, Rate, Segments, Shaped, Shaper};

use super::{any, one_of, seen};

pub(crate) fn now() -> Nanos {
    Nanos(black_box(0))
}

pub(crate) fn limits() -> Limits {
    Limits { packets: any(), bytes: any() }
}

/// Receives dropped packets.
macro_rules! sink {
    () => {
        &mut |packet: Packet, reason: DropReason| {
            black_box((packet, reason));
        }
    };
}
pub(crate) use sink;

/// All operations of `Scheduler`.
pub(crate) fn scheduler(scheduler: &mut impl Scheduler) {
    let flow = FlowId(any());
    let packet = Packet { handle: any(), len: any(), ecn: Ecn::from_bits(black_box(0)) };
    one_of!(scheduler;
        scheduler.enqueue(now(), flow, packet, sink!());
        scheduler.dequeue(now(), sink!());
        scheduler.peek(now());
        scheduler.poll_at(now());
        scheduler.enqueue_burst(now(), black_box(&[(flow, packet); 4][..]), sink!());
        scheduler.dequeue_burst(now(), black_box(&mut [packet; 4][..]), sink!());
        (scheduler.backlog(), scheduler.limits().within_pool(any()));
        scheduler.limits().within_memory(any(), any(), any());
        (scheduler.counters().offered(), scheduler.counters().dropped_total());
        scheduler.counters().dropped_for(black_box(DropReason::Aqm));
        scheduler.counters().count_dropped(black_box(DropReason::Aqm), any());
        scheduler.flow_counters(flow);
        scheduler.set_limits(limits(), sink!());
        scheduler.evict(sink!());
        scheduler.recount();
        scheduler.drain(sink!());
    );
}

/// Returns the segments of a super-packet, or `None`.
pub(crate) fn segments() -> Option<Segments> {
    Segments::new(any(), any(), any()).ok()
}

/// Operations of a shaper in front of `S`.
fn shaped<S: Scheduler>(queue: &mut Shaped<S>) {
    scheduler(queue);
    one_of!(queue;
        queue.inner().backlog();
        queue.inner_mut().peek(now());
        queue.arrival(now()).peek(now());
        queue.arrive(now(), sink!(), |inner, drops| inner.enqueue(now(), FlowId(any()), Packet::new(any(), any()), drops));
        queue.dequeue_segmented(now(), &|_| segments(), sink!());
        queue.arrive_segmented(now(), &|_| segments(), sink!(), |inner, drops| inner.enqueue(now(), FlowId(any()), Packet::new(any(), any()), drops));
        queue.set_ingress(black_box(true));
        queue.is_ingress();
        queue.reset_line();
        queue.line().due();
        queue.set_rate(now(), black_box(Rate::STOPPED));
        queue.set_overhead(black_box(Overhead::RAW));
        queue.overhead();
    );
}

/// Operations of queues under a flow scheduler in addition to those of a scheduler.
fn flow_queues<O, M, A, D>(queues: &mut FlowQueues<O, M, A, D>, config: O::Config)
where
    O: FlowScheduler,
    M: Tables<O>,
    A: Aqm,
    D: DropPolicy<O>,
{
    scheduler(queues);
    let flow = FlowId(any());
    one_of!(queues;
        queues.configure(flow, black_box(config));
        queues.remove_flow(flow, sink!());
        queues.config(flow);
        queues.flow_backlog(flow);
        (queues.waited(any(), now()), queues.oldest(flow, now()));
        queues.scheduler().select();
        queues.scheduler_mut().select();
        queues.victim();
        seen(queues.newest_first(flow).last());
        queues.filter_out(flow, any(), sink!());
        queues.directory().room();
        queues.siblings().scheduler.select();
    );
}

/// Builds queues of packets with a flow scheduler and a drop policy, without an AQM.
pub(crate) fn bare<O: FlowScheduler, D: DropPolicy<O>, M: Memory>(
    scheduler: O,
    policy: D,
    memory: M,
    config: O::Config,
) {
    let room = (memory, memory, Arrays::<0>);
    let queues = queues(scheduler, NoAqm, room, limits());
    flow_queues(&mut queues.with_drop_policy(policy), config);
}

/// Builds queues of packets with everything, behind a shaper.
pub(crate) fn full<O: FlowScheduler, D: DropPolicy<O>, M: Memory>(
    scheduler: O,
    policy: D,
    memory: M,
    config: O::Config,
) {
    let Some(codel) = catalog::CoDel(black_box(CoDelParams::INTERNET)).aqm(memory) else { return };
    seen(codel.params());
    let queues = queues(scheduler, codel, (memory, memory, memory), limits());
    let mut queues = queues.with_drop_policy(policy);
    flow_queues(&mut queues, config);
    shaped(&mut Shaped::new(queues, Shaper::new(Rate::STOPPED), Overhead::RAW));
}
