//! Maximum cost of one call, in loop iterations or in instructions, and a search for that call.
//!
//! Every loop that a packet can cause counts its iterations as steps; code outside loops is a
//! constant. The cost of a call is divided by the number of packets that it moves: its own packet
//! (counted twice if rejected) and those it drops. The bound of a discipline is thus one number for
//! a given number of flows: steps per packet moved.
//!
//! Steps are counted by the library (feature `steps`), instructions by a profiler around
//! `one_call`: `examples/search_instructions.rs`.

mod isolated;

use freeboard::Isolation;
use freeboard::sched_core::{
    ClassState, Classes, CoDelParams, DropFrom, DropSink, FlowId, FlowScheduler, Limits,
    LongestClass, LowBits, Nanos, NoAqm, Packet, Rejected, Scheduler,
};

use crate::catalog::{
    AqmRecipe, Arrays, CoDel, Dial, Drr, Fifo, Floor, FlooredShortestQueue, FlowRecipe,
    LongestQueue, Memory, Qfq, QfqPlus, QueuesRecipe, Recipe, Room, SchedulerOf, Setting,
    ShortestQueue, Vecs, Wf2q, queues,
};
use crate::rng::Streams;
use crate::sequence::MAX_LEN;
pub use crate::sequence::{Call, Climb, Worst};

/// Number of handles.
const PACKETS: u32 = 256;
/// Flows per host or class.
const FLOWS_PER_HOST: u32 = 4;

/// A discipline with a bound on the cost of a call.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name.
    pub name: &'static str,
    /// Builds an empty one for a number of flows, a power of two from 16 on.
    build: fn(u32) -> Box<dyn Played>,
    /// Steps per packet moved: a constant, plus the next field for each doubling of the flows.
    constant: u64,
    per_doubling: u64,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Self; 14] = [
        Self::new("FIFO, head drop", 2, 0, fifo),
        Self::new("DRR", 2, 0, |n| plain(DRR, n)),
        Self::new("DRR, CoDel", 2, 0, codel),
        // Eight single flows are examined to decide whether to drop, and again for each victim;
        // the FIFO of a queue takes one more step per victim. An arrival that drops n packets
        // moves n + 1.
        Self::new("DRR, longest-queue drop", 9, 0, |n| {
            plain(LongestQueue { of: DRR, end: DropFrom::Head }, n)
        }),
        Self::new("SQF", 2, 0, |n| plain(ShortestQueue { end: DropFrom::Head }, n)),
        Self::new("SQF with a floor", 2, 0, |n| plain(FLOORED, n)),
        Self::new("QFQ", 2, 0, |n| plain(Qfq, n)),
        Self::new("QFQ+", 2, 0, |n| plain(QfqPlus { members: 8 }, n)),
        // An AVL tree is at most 1.45 times as high as a perfect one; insertion, removal and
        // search walk it twice each.
        Self::new("WF2Q+", 12, 9, |n| plain(Wf2q, n)),
        Self::new("classes, the longest gives way", 5, 2, classes),
        Self::new("isolated hosts", 2, 0, |n| isolated::plain(n, Isolation::DualSrcHost)),
        Self::new("isolated hosts of both sides", 2, 0, |n| {
            isolated::plain(n, Isolation::TripleIsolate)
        }),
        // A dequeue resumes a host that returned with one turn, moves the host that it served, and
        // moves two hosts that are due: each in two loops over its turns in eight tins, with a
        // scan of all tins per turn, and two walks up the tree of due hosts.
        Self::new("isolated hosts with rates in eight tins", 570, 4, isolated::limited),
        // In addition, an arriving acknowledgement is compared with eight others.
        Self::new("SmartQueue with everything on", 580, 4, isolated::assembled),
    ];

    const fn new(
        name: &'static str,
        constant: u64,
        per_doubling: u64,
        build: fn(u32) -> Box<dyn Played>,
    ) -> Self {
        Self { name, build, constant, per_doubling }
    }

    /// Returns the maximum number of steps per packet that a call moves, with `flows` flows.
    #[must_use]
    pub const fn bound(&self, flows: u32) -> u64 {
        self.constant + self.per_doubling * flows.ilog2() as u64
    }
}

/// The operations of a sequence.
trait Played {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet>;
}

impl<S: Scheduler> Played for S {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        Scheduler::enqueue(self, now, flow, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(self, now, drops)
    }
}

/// Plays `history` on an empty `subject` for `flows` flows. Calls `after` with the position of each
/// call and the number of packets it moved.
pub fn play(subject: &Subject, flows: u32, history: &[Call], mut after: impl FnMut(usize, u64)) {
    let mut queue = (subject.build)(flows);
    let mut free: Vec<u32> = (0..PACKETS).collect();
    let mut now = Nanos::ZERO;
    for (at, &call) in history.iter().enumerate() {
        let mut moved = 1;
        let mut home = Vec::with_capacity(PACKETS as usize);
        let call = match call {
            Call::Wait(nanos) => {
                now = now.plus(Nanos(nanos));
                continue;
            }
            Call::Dequeue => None,
            Call::Enqueue { flow, len } => match free.pop() {
                Some(handle) => Some((FlowId(flow % flows), Packet::new(handle, len))),
                None => continue,
            },
        };
        // Discard steps of the construction and of code after the previous call.
        #[cfg(feature = "steps")]
        let _before = sched_core::take_steps();
        let (left, outcome) = one_call(&mut *queue, now, call, &mut home);
        // A packet that is its own victim was enqueued and dropped.
        moved += home.len() as u64 + u64::from(outcome.is_err());
        after(at, moved);
        home.extend(left.map(|packet| packet.handle));
        home.extend(outcome.err().map(|rejected| rejected.packet.handle));
        free.append(&mut home);
    }
}

/// Performs the measured call: an enqueue of `packet`, or a dequeue. Dropped packets go to `home`.
/// A separate function so that a profiler can identify it by name.
#[inline(never)]
fn one_call(
    queue: &mut dyn Played,
    now: Nanos,
    packet: Option<(FlowId, Packet)>,
    home: &mut Vec<u32>,
) -> (Option<Packet>, Result<(), Rejected>) {
    let mut drops = |packet: Packet, _| home.push(packet.handle);
    match packet {
        Some((flow, packet)) => (None, queue.enqueue(now, flow, packet, &mut drops)),
        None => (queue.dequeue(now, &mut drops), Ok(())),
    }
}

/// Returns the call of `history` with the most steps per packet moved.
#[cfg(feature = "steps")]
#[must_use]
pub fn steps(subject: &Subject, flows: u32, history: &[Call]) -> Worst {
    let mut worst = Worst::default();
    play(subject, flows, history, |at, moved| {
        worst = worst.or(Worst::new(at, sched_core::take_steps(), moved));
    });
    worst
}

/// Searches as [`crate::sequence::climb`] does for an expensive call of the discipline `name`.
pub fn climb(
    name: &str,
    seed: u64,
    measure: impl FnMut(&[Call]) -> Worst,
    go_on: impl FnMut() -> bool,
) -> Climb {
    let mut random = Streams::new(seed).stream(name);
    crate::sequence::climb(|bound| random.below(bound), measure, go_on)
}

/// Reached quickly: an arrival may then drop many packets.
const LIMITS: Limits = Limits { packets: 64, bytes: 24 * MAX_LEN };

const DRR: Drr = Drr { sparse_first: true };
const FLOORED: FlooredShortestQueue = FlooredShortestQueue {
    end: DropFrom::Head,
    floor: Some(Floor { exponent: 3, after: 30_000 }),
    flush: Some(Nanos::from_millis(1)),
};
/// Returns a room for `flows` flows.
const fn room(flows: u32) -> Room<Vecs> {
    Room::of_flows(Vecs(flows as usize), MAX_LEN)
}

/// Creates the flow scheduler with all flows added, with weights of all sizes from one quantum on.
fn scheduler<R: FlowRecipe>(recipe: R, flows: u32) -> R::Output<Vecs> {
    let mut scheduler = recipe.flow_scheduler(room(flows)).expect("in range");
    for flow in 0..flows {
        let setting = Setting { weight: 4 << (flow % 11), max_len: MAX_LEN };
        scheduler.configure(FlowId(flow), Dial::of(setting), None).expect("in range");
    }
    scheduler
}

fn plain<R: QueuesRecipe>(recipe: R, flows: u32) -> Box<dyn Played>
where
    SchedulerOf<R, Vecs>: 'static,
    R::Policy<Vecs>: 'static,
{
    let scheduler = scheduler(recipe.of(), flows);
    let policy = recipe.policy(&scheduler, room(flows)).expect("in range");
    let memory = (Vecs(flows as usize), Vecs(PACKETS as usize), Arrays::<0>);
    Box::new(queues(scheduler, NoAqm, memory, LIMITS).with_drop_policy(policy))
}

fn fifo(flows: u32) -> Box<dyn Played> {
    let fifo = Fifo { end: DropFrom::Head };
    Box::new(fifo.scheduler(room(flows), Vecs(PACKETS as usize), LIMITS).expect("in range"))
}

fn codel(flows: u32) -> Box<dyn Played> {
    let table = Vecs(flows as usize);
    let aqm = CoDel(CoDelParams::INTERNET).aqm(table).expect("in range");
    let memory = (table, Vecs(PACKETS as usize), Arrays::<0>);
    Box::new(queues(scheduler(DRR, flows), aqm, memory, LIMITS))
}

fn classes(flows: u32) -> Box<dyn Played> {
    let classes = flows / FLOWS_PER_HOST;
    let class = || {
        let memory = (Vecs(FLOWS_PER_HOST as usize), Vecs(PACKETS as usize), Arrays::<0>);
        queues(scheduler(DRR, FLOWS_PER_HOST), NoAqm, memory, Limits::NONE)
    };
    let all: Vec<_> = (0..classes).map(|_| class()).collect();
    let bits = LowBits::new(FLOWS_PER_HOST.ilog2()).expect("two bits");
    let states = Vecs(classes as usize).of(ClassState::EMPTY);
    let node = Classes::new(scheduler(DRR, classes), all, states, bits, LIMITS);
    Box::new(node.dropping_from_longest(Vecs(classes as usize).of(LongestClass::EMPTY)))
}
