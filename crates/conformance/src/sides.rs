//! Every discipline beside its twin, at any size.

pub mod hierarchy;
pub mod hosts;

use crate::twin::{
    Exercised, NaiveDrr, NaiveFifo, NaiveLongestQueueDrop, NaiveQfq, NaiveQfqPlus, NaiveQueues,
    NaiveShortestQueue, NaiveWf2q,
};
use freeboard::sched_core::{
    Aggregate, Descriptor, DropFrom, Drr, DrrFlow, Fifo, FloorShare, FlowQueues, FlowRecord,
    FlowScheduler, Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, PlusFlow, Qfq, QfqFlow,
    QfqPlus, Queue, ShortestFlow, ShortestQueue, Sqf, SqfFlow, SqfMemory, WaitingFlow, Wf2q,
    Wf2qFlow,
};

/// Flows of a history are numbered below this.
pub const FLOWS: usize = crate::history::FLOWS as usize;
/// Hosts of a history are numbered below this.
pub const HOSTS: usize = crate::history::HOSTS as usize;
/// Handles of a history are numbered below this.
pub const SLOTS: usize = crate::history::SLOTS as usize;

/// The longest packet of the disciplines that have one.
pub const MAX_LEN: u32 = 1_500;
/// The bytes that are sent before the floor serves a flow: few, so that short histories get there.
const AFTER: u32 = 200;
/// How long a flow was not served that is flushed.
pub const MILLISECOND: Nanos = Nanos::from_millis(1);

type Engine<O, const F: usize, const S: usize> =
    FlowQueues<O, [Queue; F], [Descriptor; S], NoAqm, [FlowRecord; F]>;

/// `order` over `F` queues and `S` slots, with a record for each flow.
pub fn engine<O: FlowScheduler, const F: usize, const S: usize>(
    order: O,
    limits: Limits,
) -> Engine<O, F, S> {
    FlowQueues::with_parts(
        order,
        NoAqm,
        [Queue::EMPTY; F],
        [Descriptor::EMPTY; S],
        [FlowRecord::EMPTY; F],
        limits,
    )
}

fn twin<O: crate::twin::NaiveOrder, const F: usize, const S: usize>(
    order: O,
    limits: Limits,
) -> NaiveQueues<O> {
    NaiveQueues::new(order, F as u32, S as u32, F as u32, limits)
}

/// One queue.
pub fn fifo<const S: usize>(end: DropFrom, limits: Limits) -> (Fifo<[Descriptor; S]>, NaiveFifo) {
    let slots = [Descriptor::EMPTY; S];
    let fifo = match end {
        DropFrom::Tail => Fifo::tail_drop(slots, limits),
        DropFrom::Head => Fifo::head_drop(slots, limits),
    };
    (fifo, NaiveFifo::new(end, S as u32, limits))
}

/// Deficit round robin, every flow added with a quantum of the longest packet.
pub fn drr_order<const F: usize>(max_len: u32, sparse_first: bool) -> Drr<[DrrFlow; F]> {
    let order = Drr::new([DrrFlow::EMPTY; F], max_len).unwrap();
    if sparse_first { order.sparse_first() } else { order }
}

/// Deficit round robin.
pub fn drr<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    limits: Limits,
) -> (Engine<Drr<[DrrFlow; F]>, F, S>, NaiveQueues<NaiveDrr>) {
    let order = drr_order(max_len, sparse_first);
    let naive = NaiveDrr::new(F as u32, max_len, sparse_first);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type Lqd<O, const F: usize, const S: usize> = Engine<LongestQueueDrop<O, [LongestFlow; F]>, F, S>;

/// Deficit round robin, where the longest queue gives way at `end`.
pub fn drr_lqd<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    end: DropFrom,
    limits: Limits,
) -> (Lqd<Drr<[DrrFlow; F]>, F, S>, NaiveQueues<NaiveLongestQueueDrop<NaiveDrr>>) {
    let order = drr_order(max_len, sparse_first);
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveDrr::new(F as u32, max_len, sparse_first);
    let naive = NaiveLongestQueueDrop::new(naive, end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// Shortest queue first, where the longest queue gives way at `end`.
pub fn sqf<const F: usize, const S: usize>(
    end: DropFrom,
    limits: Limits,
) -> (Engine<ShortestQueue<[ShortestFlow; F]>, F, S>, NaiveQueues<NaiveShortestQueue>) {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveShortestQueue::new(F as u32, end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type Floored<const F: usize> = ShortestQueue<[ShortestFlow; F], [WaitingFlow; F]>;

/// One of `2^exponent` bytes is that of the flow that has waited longest.
pub fn sqf_with_floor<const F: usize, const S: usize>(
    end: DropFrom,
    exponent: u32,
    limits: Limits,
) -> (Engine<Floored<F>, F, S>, NaiveQueues<NaiveShortestQueue>) {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; F]).drop_from(end);
    let share = FloorShare::one_of_2_to(exponent).unwrap().after(AFTER);
    let order = order.service_floor(share, [WaitingFlow::EMPTY; F]).unwrap();
    let naive =
        NaiveShortestQueue::new(F as u32, end).with_service_floor(1 << exponent, AFTER.into());
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// A flow that gives way and has not been served for `after` loses all it holds.
pub fn sqf_flushing<const F: usize, const S: usize>(
    end: DropFrom,
    after: Nanos,
    limits: Limits,
) -> (Engine<Floored<F>, F, S>, NaiveQueues<NaiveShortestQueue>) {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; F]).drop_from(end);
    let order = order.service_floor(FloorShare::NONE, [WaitingFlow::EMPTY; F]).unwrap();
    let order = order.flush_unserved(after).unwrap();
    let naive = NaiveShortestQueue::new(F as u32, end).flushing(after);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type VirtualQueues<const F: usize, const S: usize, const Q: usize, const W: usize = 0> = Sqf<
    [ShortestFlow; Q],
    [Queue; Q],
    [Descriptor; S],
    [SqfFlow; F],
    [u32; S],
    [u32; Q],
    [FlowRecord; F],
    [WaitingFlow; W],
>;

/// `F` labels over `Q` queues, of which the last is the default queue.
pub fn virtual_queues<const F: usize, const S: usize, const Q: usize>(
    end: DropFrom,
    limits: Limits,
) -> (VirtualQueues<F, S, Q>, NaiveQueues<NaiveShortestQueue>) {
    let memory = SqfMemory {
        order: [ShortestFlow::EMPTY; Q],
        queues: [Queue::EMPTY; Q],
        slots: [Descriptor::EMPTY; S],
        flows: [SqfFlow::EMPTY; F],
        labels: [0; S],
        free: [0; Q],
        records: [FlowRecord::EMPTY; F],
    };
    let naive = NaiveShortestQueue::new(Q as u32, end);
    (Sqf::new(memory, end, limits).unwrap(), virtual_twin::<F, S, Q>(naive, limits))
}

fn virtual_twin<const F: usize, const S: usize, const Q: usize>(
    order: NaiveShortestQueue,
    limits: Limits,
) -> NaiveQueues<NaiveShortestQueue> {
    let (flows, slots) = (F as u32, S as u32);
    NaiveQueues::with_virtual_queues(order, Q as u32 - 1, flows, slots, flows, limits)
}

/// As [`virtual_queues`], where the default queue takes the longest flow instead of the latest.
pub fn takes_longest<const F: usize, const S: usize, const Q: usize>(
    end: DropFrom,
    limits: Limits,
) -> (VirtualQueues<F, S, Q>, NaiveQueues<NaiveShortestQueue>) {
    let (sqf, naive) = virtual_queues(end, limits);
    (sqf.default_takes_longest(), naive.default_takes_longest())
}

/// As [`takes_longest`], with a floor of one of `2^exponent` bytes and with flushes.
pub fn repaired<const F: usize, const S: usize, const Q: usize>(
    end: DropFrom,
    exponent: u32,
    after: Nanos,
    limits: Limits,
) -> (VirtualQueues<F, S, Q, Q>, NaiveQueues<NaiveShortestQueue>) {
    let (sqf, _) = takes_longest::<F, S, Q>(end, limits);
    let order =
        NaiveShortestQueue::new(Q as u32, end).with_service_floor(1 << exponent, AFTER.into());
    let naive = virtual_twin::<F, S, Q>(order.flushing(after), limits).default_takes_longest();
    let share = FloorShare::one_of_2_to(exponent).unwrap().after(AFTER);
    let sqf = sqf.service_floor(share, [WaitingFlow::EMPTY; Q]).unwrap();
    (sqf.flush_unserved(after).unwrap(), naive)
}

/// QFQ.
pub fn qfq<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
) -> (Engine<Qfq<[QfqFlow; F]>, F, S>, NaiveQueues<NaiveQfq>) {
    let order = Qfq::new([QfqFlow::EMPTY; F], max_len).unwrap();
    let naive = NaiveQfq::new(F as u32, max_len);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// QFQ, where the longest queue gives way at `end`.
pub fn qfq_lqd<const F: usize, const S: usize>(
    max_len: u32,
    end: DropFrom,
    limits: Limits,
) -> (Lqd<Qfq<[QfqFlow; F]>, F, S>, NaiveQueues<NaiveLongestQueueDrop<NaiveQfq>>) {
    let order = Qfq::new([QfqFlow::EMPTY; F], max_len).unwrap();
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveLongestQueueDrop::new(NaiveQfq::new(F as u32, max_len), end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// WF²Q+.
pub fn wf2q<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
) -> (Engine<Wf2q<[Wf2qFlow; F]>, F, S>, NaiveQueues<NaiveWf2q>) {
    let order = Wf2q::new([Wf2qFlow::EMPTY; F], max_len).unwrap();
    let naive = NaiveWf2q::new(F as u32, max_len);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// WF²Q+, where the longest queue gives way at `end`.
pub fn wf2q_lqd<const F: usize, const S: usize>(
    max_len: u32,
    end: DropFrom,
    limits: Limits,
) -> (Lqd<Wf2q<[Wf2qFlow; F]>, F, S>, NaiveQueues<NaiveLongestQueueDrop<NaiveWf2q>>) {
    let order = Wf2q::new([Wf2qFlow::EMPTY; F], max_len).unwrap();
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveLongestQueueDrop::new(NaiveWf2q::new(F as u32, max_len), end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

/// As [`qfq`], and the twin counts what it does.
pub fn qfq_counting<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
    exercised: &Exercised,
) -> (Engine<Qfq<[QfqFlow; F]>, F, S>, NaiveQueues<NaiveQfq>) {
    let order = Qfq::new([QfqFlow::EMPTY; F], max_len).unwrap();
    let naive = NaiveQfq::new(F as u32, max_len).counting(exercised);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type Plus<const F: usize> = QfqPlus<[PlusFlow; F], [Aggregate; F], [QfqFlow; F]>;

fn qfq_plus_order<const F: usize>(max_len: u32, members: u32) -> Plus<F> {
    let (flows, aggregates) = ([PlusFlow::EMPTY; F], [Aggregate::EMPTY; F]);
    QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; F], max_len, members).unwrap()
}

/// QFQ+ with up to `members` flows in an aggregate.
pub fn qfq_plus<const F: usize, const S: usize>(
    max_len: u32,
    members: u32,
    limits: Limits,
) -> (Engine<Plus<F>, F, S>, NaiveQueues<NaiveQfqPlus>) {
    let naive = NaiveQfqPlus::new(F as u32, max_len, members);
    (engine(qfq_plus_order(max_len, members), limits), twin::<_, F, S>(naive, limits))
}

/// QFQ+, where the longest queue gives way at `end`.
pub fn qfq_plus_lqd<const F: usize, const S: usize>(
    max_len: u32,
    members: u32,
    end: DropFrom,
    limits: Limits,
) -> (Lqd<Plus<F>, F, S>, NaiveQueues<NaiveLongestQueueDrop<NaiveQfqPlus>>) {
    let order = qfq_plus_order(max_len, members);
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveQfqPlus::new(F as u32, max_len, members);
    let naive = NaiveLongestQueueDrop::new(naive, end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}
