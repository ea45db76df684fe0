//! Schedulers under a flow scheduler.

use core::hint::black_box;

use freeboard::sched_core::{
    ClassState, ClassTables, Classes, Classify, Descriptor, DropReason, Fifo, FlowId,
    FlowScheduler, LengthFlow, LongestClass, LowBits, Member, Packet, Qfq, QfqFlow, Scheduler,
    ShortestQueue,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

use super::schedulers::{limits, now, scheduler, sink};
use super::{any, one_of, sizes};

#[unsafe(no_mangle)]
static HIERARCHY: &[fn()] = sizes![classes];

fn classes<const N: usize>() {
    let Ok(split) = LowBits::new(any()) else { return };
    let fifo = || Fifo::head_drop([Descriptor::EMPTY; 4], limits());
    let states = || [ClassState::EMPTY; N];
    let shaped = || Shaped::new(fifo(), Shaper::new(Rate::STOPPED), Overhead::RAW);
    let shortest = || ShortestQueue::new([LengthFlow::EMPTY; N]);
    let inner = || {
        let few = [shaped(), shaped()];
        let node = Classes::new(shortest(), few, states(), split, limits());
        node.dropping_from_longest([LongestClass::EMPTY; N])
    };
    let Ok(qfq) = Qfq::new([QfqFlow::EMPTY; N], any()) else { return };
    node(&mut Classes::new(shortest(), [inner()], states(), split, limits()), ());
    let (mut one, mut other) = (inner(), fifo());
    let mixed: &mut [&mut dyn Scheduler] = &mut [&mut one, &mut other];
    let by_number = |flow: FlowId| Some(Member { class: flow, flow });
    let qfq = black_box(qfq);
    scheduler(&mut Classes::new(qfq, black_box(mixed), states(), by_number, limits()));
}

/// Operations of a node in addition to those of a scheduler.
fn node<O, S, R, M>(node: &mut Classes<O, S, R, M>, config: O::Config)
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    scheduler(node);
    let class = FlowId(any());
    one_of!(node;
        node.configure(class, black_box(config));
        node.remove_class(class, sink!());
        node.config(class);
        node.count();
        node.class(class).map(Scheduler::backlog);
        node.with_class(now(), class, sink!(), |class, drops| class.drain(drops));
        node.scheduler().select();
        node.classifier().classify(class);
    );
}
