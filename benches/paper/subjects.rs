//! The subjects of the controller: nothing, a FIFO, and queues under a flow scheduler.

use core::fmt;
use core::hint::black_box;

use conformance::catalog::{
    Arrays, Boxes, Dial, Drr, FlowRecipe, Memory, Qfq, Room, Setting, Wf2q, queues,
};
use conformance::paper::{Controller, MTU, NONE, Passed, Subject, Traffic};
use freeboard::sched_core::{
    Descriptor, Fifo, FlowId, FlowQueues, FlowRecord, FlowScheduler, Limits, Nanos, NoAqm, Packet,
    Queue, Scheduler,
};

/// A scheduler, by its name in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The controller with a chain of packets in place of a scheduler: the baseline of the net
    /// figures.
    None,
    Fifo,
    Drr,
    Qfq,
    Wf2q,
}

impl Name {
    pub(crate) const ALL: &[Self] = &[Self::None, Self::Fifo, Self::Drr, Self::Qfq, Self::Wf2q];
    pub(crate) const SCHEDULERS: [Self; 4] = [Self::Fifo, Self::Drr, Self::Qfq, Self::Wf2q];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "NONE",
            Self::Fifo => "FIFO",
            Self::Drr => "DRR",
            Self::Qfq => "QFQ",
            Self::Wf2q => "WF2Q+",
        })
    }
}

/// Type of the controller's calls to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Through function pointers that the compiler cannot resolve, as in the paper's harness.
    Opaque,
    /// Direct, inlined at the compiler's discretion, as in a program with a fixed scheduler.
    Free,
}

impl Calls {
    pub(crate) const ALL: &[Self] = &[Self::Opaque, Self::Free];
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Opaque => "opaque",
            Self::Free => "free",
        })
    }
}

/// Time of all operations: the paper's environment has no clock.
const INSTANT: Nanos = Nanos::from_secs(1);

/// A scheduler with its controller.
pub(crate) type Run = Box<dyn FnMut(u64) -> Passed>;

/// Creates `name` with `traffic`, before its first packet. A run takes a number of iterations and
/// returns the totals since the beginning. NONE is always inlined.
pub(crate) fn run(name: Name, calls: Calls, traffic: &Traffic) -> Run {
    let (flows, packets) = (traffic.flows as usize, traffic.packets().len());
    match name {
        Name::None => under(Nothing { unmoved: Boxes(flows).of([0; 4]) }, traffic),
        Name::Fifo => {
            let fifo = Fifo::tail_drop(Boxes(packets).of(Descriptor::EMPTY), Limits::NONE);
            called(
                OneQueue { fifo, unmoved: Boxes(flows).of([0; 4]), now: black_box(INSTANT) },
                calls,
                traffic,
            )
        }
        // A quantum is a whole number of packets.
        Name::Drr => queued(Drr { sparse_first: false }, 3, calls, traffic),
        Name::Qfq => queued(Qfq, 1, calls, traffic),
        Name::Wf2q => queued(Wf2q, 1, calls, traffic),
    }
}

/// Creates a flow scheduler whose flows have the weights of the traffic times `unit`.
fn queued<R: FlowRecipe>(recipe: R, unit: u32, calls: Calls, traffic: &Traffic) -> Run
where
    R::Output<Boxes>: 'static,
{
    let flows = Boxes(traffic.flows as usize);
    let scheduler = recipe.flow_scheduler(Room::of_flows(flows, MTU));
    let mut scheduler = scheduler.expect("an MTU");
    let sets = traffic.sets();
    let weights = sets.iter().flat_map(|&(weight, count)| (0..count).map(move |_| weight));
    for (flow, weight) in (0..).zip(weights) {
        let config = Dial::of(Setting { weight: weight * unit, max_len: MTU });
        scheduler.configure(FlowId(flow), config, None).expect("a weight of the paper");
    }
    let room = (flows, Boxes(traffic.packets().len()), Arrays::<0>);
    let queues = queues(scheduler, NoAqm, room, Limits::NONE);
    called(Queues { queues, now: black_box(INSTANT) }, calls, traffic)
}

fn called<S: Subject + 'static>(subject: S, calls: Calls, traffic: &Traffic) -> Run {
    match calls {
        Calls::Opaque => under(Opaque::new(subject), traffic),
        Calls::Free => under(subject, traffic),
    }
}

fn under<S: Subject + 'static>(mut subject: S, traffic: &Traffic) -> Run {
    let mut controller = Controller::new(traffic);
    Box::new(move |iterations| controller.run(&mut subject, iterations))
}

/// No scheduler.
struct Nothing {
    unmoved: Box<[[u32; 4]]>,
}

impl Subject for Nothing {
    const IS_NONE: bool = true;

    fn enqueue(&mut self, _flow: u32, _handle: u32, _len: u32) {}

    fn dequeue(&mut self) -> u32 {
        NONE
    }

    /// Reads memory where the others do, but always returns 0: the packets of one chain belong to
    /// no flow.
    #[inline(always)]
    fn held(&self, flow: u32) -> u32 {
        self.unmoved[flow as usize][2]
    }
}

/// A FIFO, which has no flows either.
struct OneQueue {
    fifo: Fifo<Box<[Descriptor]>>,
    unmoved: Box<[[u32; 4]]>,
    now: Nanos,
}

impl Subject for OneQueue {
    #[inline]
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32) {
        enqueue(&mut self.fifo, self.now, flow, handle, len);
    }

    #[inline]
    fn dequeue(&mut self) -> u32 {
        dequeue(&mut self.fifo, self.now)
    }

    #[inline]
    fn held(&self, flow: u32) -> u32 {
        self.unmoved[flow as usize][2]
    }
}

type Tables = (Box<[Queue]>, Box<[Descriptor]>, [FlowRecord; 0]);

/// A queue per flow.
struct Queues<O: FlowScheduler> {
    queues: FlowQueues<O, Tables>,
    now: Nanos,
}

impl<O: FlowScheduler> Subject for Queues<O> {
    #[inline]
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32) {
        enqueue(&mut self.queues, self.now, flow, handle, len);
    }

    #[inline]
    fn dequeue(&mut self) -> u32 {
        dequeue(&mut self.queues, self.now)
    }

    #[inline]
    fn held(&self, flow: u32) -> u32 {
        self.queues.flow_backlog(FlowId(flow)).packets
    }
}

#[inline]
fn enqueue<S: Scheduler>(scheduler: &mut S, now: Nanos, flow: u32, handle: u32, len: u32) {
    let packet = Packet::new(handle, len);
    let accepted = scheduler.enqueue(now, FlowId(flow), packet, &mut lost);
    assert!(accepted.is_ok(), "a benchmark in which packets are rejected");
}

#[inline]
fn dequeue<S: Scheduler>(scheduler: &mut S, now: Nanos) -> u32 {
    scheduler.dequeue(now, &mut lost).map_or(NONE, |packet| packet.handle)
}

#[cold]
fn lost(_: Packet, _: freeboard::sched_core::DropReason) {
    panic!("a benchmark in which packets are dropped");
}

/// A subject behind two function pointers. The state of a flow is read directly, as in the paper's
/// harness.
struct Opaque<S> {
    subject: S,
    enqueue: Enqueue<S>,
    dequeue: Dequeue<S>,
}

type Enqueue<S> = fn(&mut S, u32, u32, u32);
type Dequeue<S> = fn(&mut S) -> u32;

impl<S: Subject> Opaque<S> {
    fn new(subject: S) -> Self {
        Self {
            subject,
            enqueue: black_box(S::enqueue as Enqueue<S>),
            dequeue: black_box(S::dequeue as Dequeue<S>),
        }
    }
}

impl<S: Subject> Subject for Opaque<S> {
    #[inline(always)]
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32) {
        (self.enqueue)(&mut self.subject, flow, handle, len);
    }

    #[inline(always)]
    fn dequeue(&mut self) -> u32 {
        (self.dequeue)(&mut self.subject)
    }

    #[inline(always)]
    fn held(&self, flow: u32) -> u32 {
        self.subject.held(flow)
    }
}
