//! Every discipline beside its twin, at any size.
#![allow(dead_code, reason = "each test file takes what it needs")]

pub(crate) mod hierarchy;
pub(crate) mod hosts;

use conformance::twin::{
    Exercised, NaiveDrr, NaiveFifo, NaiveLongestQueueDrop, NaiveQfq, NaiveQfqPlus, NaiveQueues,
    NaiveShortestQueue, NaiveWf2q,
};
use freeboard::sched_core::{
    Aggregate, Descriptor, DropFrom, Drr, DrrFlow, Fifo, FloorShare, FlowQueues, FlowRecord,
    FlowScheduler, Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, PlusFlow, Qfq, QfqFlow,
    QfqPlus, Queue, ShortestFlow, ShortestQueue, Sqf, SqfFlow, SqfMemory, WaitingFlow, Wf2q,
    Wf2qFlow,
};

pub(crate) const FLOWS: usize = conformance::history::FLOWS as usize;
pub(crate) const HOSTS: usize = conformance::history::HOSTS as usize;
pub(crate) const SLOTS: usize = conformance::history::SLOTS as usize;

/// A module of tests: `$play(variants, seed, sides)` for every variant of every discipline, where
/// `variants` says how many the discipline has and `sides` makes it and its twin.
#[allow(unused_macros, reason = "each test file takes what it needs")]
macro_rules! every_discipline {
    ($what:ident, $play:path) => {
        mod $what {
            use freeboard::sched_core::{DropFrom::*, Limits, Side::*};
            use $crate::sides::{self, FLOWS, HOSTS, MAX_LEN, SLOTS};

            #[test]
            fn fifo_with_tail_drop() {
                $play(2, 1, || sides::fifo::<SLOTS>(Tail, Limits::NONE));
            }

            #[test]
            fn fifo_with_head_drop() {
                $play(2, 2, || sides::fifo::<SLOTS>(Head, Limits::NONE));
            }

            #[test]
            fn drr() {
                $play(4, 3, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, false, Limits::NONE));
            }

            #[test]
            fn drr_with_sparse_flows_first() {
                $play(4, 4, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, true, Limits::NONE));
            }

            #[test]
            fn drr_with_tail_drop_from_the_longest() {
                $play(4, 5, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, false, Tail, Limits::NONE));
            }

            #[test]
            fn drr_with_sparse_flows_first_and_head_drop_from_the_longest() {
                $play(4, 6, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, true, Head, Limits::NONE));
            }

            #[test]
            fn qfq() {
                $play(3, 13, || sides::qfq::<FLOWS, SLOTS>(MAX_LEN, Limits::NONE));
            }

            #[test]
            fn qfq_with_head_drop_from_the_longest() {
                $play(3, 14, || sides::qfq_lqd::<FLOWS, SLOTS>(MAX_LEN, Head, Limits::NONE));
            }

            #[test]
            fn qfq_with_tail_drop_from_the_longest() {
                $play(3, 15, || sides::qfq_lqd::<FLOWS, SLOTS>(MAX_LEN, Tail, Limits::NONE));
            }

            #[test]
            fn wf2q() {
                $play(3, 16, || sides::wf2q::<FLOWS, SLOTS>(MAX_LEN, Limits::NONE));
            }

            #[test]
            fn wf2q_with_head_drop_from_the_longest() {
                $play(3, 17, || sides::wf2q_lqd::<FLOWS, SLOTS>(MAX_LEN, Head, Limits::NONE));
            }

            #[test]
            fn wf2q_with_tail_drop_from_the_longest() {
                $play(3, 18, || sides::wf2q_lqd::<FLOWS, SLOTS>(MAX_LEN, Tail, Limits::NONE));
            }

            #[test]
            fn qfq_plus() {
                $play(3, 19, || sides::qfq_plus::<FLOWS, SLOTS>(MAX_LEN, 2, Limits::NONE));
            }

            #[test]
            fn qfq_plus_with_head_drop_from_the_longest() {
                $play(3, 20, || {
                    sides::qfq_plus_lqd::<FLOWS, SLOTS>(MAX_LEN, 3, Head, Limits::NONE)
                });
            }

            #[test]
            fn qfq_plus_with_tail_drop_from_the_longest() {
                $play(3, 21, || {
                    sides::qfq_plus_lqd::<FLOWS, SLOTS>(MAX_LEN, 8, Tail, Limits::NONE)
                });
            }

            #[test]
            fn sqf_with_head_drop() {
                $play(6, 7, || sides::sqf::<FLOWS, SLOTS>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_tail_drop() {
                $play(6, 8, || sides::sqf::<FLOWS, SLOTS>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_with_one_virtual_queue() {
                $play(6, 9, || sides::virtual_queues::<FLOWS, SLOTS, 2>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_three_virtual_queues_and_head_drop() {
                $play(6, 10, || sides::virtual_queues::<FLOWS, SLOTS, 4>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_three_virtual_queues_and_tail_drop() {
                $play(6, 11, || sides::virtual_queues::<FLOWS, SLOTS, 4>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_with_a_virtual_queue_for_every_label() {
                $play(6, 12, || sides::virtual_queues::<FLOWS, SLOTS, 9>(Head, Limits::NONE));
            }

            #[test]
            fn hosts_under_drr() {
                $play(4, 22, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_under_drr_with_sparse_flows_first() {
                $play(4, 23, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_under_drr_with_sparse_hosts_first() {
                $play(4, 24, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(MAX_LEN, true, true, Limits::NONE)
                });
            }

            #[test]
            fn hosts_under_qfq() {
                $play(4, 25, || {
                    sides::hosts::over_qfq::<FLOWS, SLOTS, HOSTS>(MAX_LEN, true, Limits::NONE)
                });
            }

            #[test]
            fn rounds() {
                $play(4, 26, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_sparse_flows_first() {
                $play(4, 27, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_on_the_smallest_wheel() {
                $play(4, 28, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        2,
                        Source,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_on_a_wheel_with_room_for_less_than_the_load() {
                $play(4, 29, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        4,
                        Destination,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_tail_drop_from_the_longest_source() {
                $play(3, 32, || {
                    sides::hosts::rounds_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_tail_drop_from_the_longest_destination() {
                $play(3, 39, || {
                    sides::hosts::rounds_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Destination,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_head_drop_from_the_longest() {
                $play(3, 30, || {
                    sides::hosts::over_drr_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        Head,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_tail_drop_from_the_longest() {
                $play(3, 31, || {
                    sides::hosts::over_drr_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn sqf_with_a_service_floor() {
                $play(6, 33, || sides::sqf_with_floor::<FLOWS, SLOTS>(Head, 2, Limits::NONE));
            }

            #[test]
            fn sqf_whose_default_queue_takes_the_longest_from_one_virtual_queue() {
                $play(6, 34, || sides::takes_longest::<FLOWS, SLOTS, 2>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_whose_default_queue_takes_the_longest_from_three_virtual_queues() {
                $play(6, 35, || sides::takes_longest::<FLOWS, SLOTS, 4>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_both_options() {
                $play(6, 36, || {
                    sides::repaired::<FLOWS, SLOTS, 4>(Head, 1, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn sqf_that_flushes_what_is_not_served() {
                $play(6, 38, || {
                    sides::sqf_flushing::<FLOWS, SLOTS>(Head, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn sqf_that_flushes_and_else_drops_from_the_tail() {
                $play(6, 39, || {
                    sides::sqf_flushing::<FLOWS, SLOTS>(Tail, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn drr_with_caps() {
                $play(5, 37, || {
                    sides::hosts::committed_drr::<FLOWS, SLOTS>(MAX_LEN, false, Limits::NONE)
                });
            }

            #[test]
            fn drr_with_caps_and_sparse_flows_first() {
                $play(5, 38, || {
                    sides::hosts::committed_drr::<FLOWS, SLOTS>(MAX_LEN, true, Limits::NONE)
                });
            }

            #[test]
            fn hosts_with_caps_under_drr() {
                $play(5, 39, || {
                    sides::hosts::over_committed_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        Head,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_caps_under_drr_with_sparse_hosts_first() {
                $play(5, 40, || {
                    sides::hosts::over_committed_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_caps_under_qfq() {
                $play(5, 41, || {
                    sides::hosts::over_committed_qfq::<FLOWS, SLOTS, HOSTS>(MAX_LEN, Limits::NONE)
                });
            }

            #[test]
            fn qfq_over_fifos() {
                $play(25, 16, || sides::hierarchy::qfq_over_fifos(Limits::NONE));
            }

            #[test]
            fn drr_over_qfq() {
                $play(25, 17, || sides::hierarchy::drr_over_qfq(Limits::NONE));
            }

            #[test]
            fn sqf_over_drr_where_the_longest_class_gives_way() {
                $play(25, 18, || sides::hierarchy::sqf_over_drr(Limits::NONE));
            }

            #[test]
            fn drr_over_classes_of_every_kind() {
                $play(25, 19, || sides::hierarchy::drr_over_everything(Limits::NONE));
            }

            #[test]
            fn qfq_over_drr_over_sqf() {
                $play(25, 20, || sides::hierarchy::three_levels(Limits::NONE));
            }
        }
    };
}
#[allow(unused_imports, reason = "each test file takes what it needs")]
pub(crate) use every_discipline;

/// The longest packet of the disciplines that have one.
pub(crate) const MAX_LEN: u32 = 1_500;
/// The bytes that are sent before the floor serves a flow: few, so that short histories get there.
const AFTER: u32 = 200;
/// How long a flow was not served that is flushed.
pub(crate) const MILLISECOND: Nanos = Nanos::from_millis(1);

type Engine<O, const F: usize, const S: usize> =
    FlowQueues<O, [Queue; F], [Descriptor; S], NoAqm, [FlowRecord; F]>;

/// `order` over `F` queues and `S` slots, with a record for each flow.
pub(crate) fn engine<O: FlowScheduler, const F: usize, const S: usize>(
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

fn twin<O: conformance::twin::NaiveOrder, const F: usize, const S: usize>(
    order: O,
    limits: Limits,
) -> NaiveQueues<O> {
    NaiveQueues::new(order, F as u32, S as u32, F as u32, limits)
}

pub(crate) fn fifo<const S: usize>(
    end: DropFrom,
    limits: Limits,
) -> (Fifo<[Descriptor; S]>, NaiveFifo) {
    let slots = [Descriptor::EMPTY; S];
    let fifo = match end {
        DropFrom::Tail => Fifo::tail_drop(slots, limits),
        DropFrom::Head => Fifo::head_drop(slots, limits),
    };
    (fifo, NaiveFifo::new(end, S as u32, limits))
}

pub(crate) fn drr_order<const F: usize>(max_len: u32, sparse_first: bool) -> Drr<[DrrFlow; F]> {
    let order = Drr::new([DrrFlow::EMPTY; F], max_len).unwrap();
    if sparse_first { order.sparse_first() } else { order }
}

pub(crate) fn drr<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    limits: Limits,
) -> (Engine<Drr<[DrrFlow; F]>, F, S>, NaiveQueues<NaiveDrr>) {
    let order = drr_order(max_len, sparse_first);
    let naive = NaiveDrr::new(F as u32, max_len, sparse_first);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type Lqd<O, const F: usize, const S: usize> = Engine<LongestQueueDrop<O, [LongestFlow; F]>, F, S>;

pub(crate) fn drr_lqd<const F: usize, const S: usize>(
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

pub(crate) fn sqf<const F: usize, const S: usize>(
    end: DropFrom,
    limits: Limits,
) -> (Engine<ShortestQueue<[ShortestFlow; F]>, F, S>, NaiveQueues<NaiveShortestQueue>) {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveShortestQueue::new(F as u32, end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

type Floored<const F: usize> = ShortestQueue<[ShortestFlow; F], [WaitingFlow; F]>;

/// One of `2^exponent` bytes is that of the flow that has waited longest.
pub(crate) fn sqf_with_floor<const F: usize, const S: usize>(
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
pub(crate) fn sqf_flushing<const F: usize, const S: usize>(
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
pub(crate) fn virtual_queues<const F: usize, const S: usize, const Q: usize>(
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
pub(crate) fn takes_longest<const F: usize, const S: usize, const Q: usize>(
    end: DropFrom,
    limits: Limits,
) -> (VirtualQueues<F, S, Q>, NaiveQueues<NaiveShortestQueue>) {
    let (sqf, naive) = virtual_queues(end, limits);
    (sqf.default_takes_longest(), naive.default_takes_longest())
}

/// As [`takes_longest`], with a floor of one of `2^exponent` bytes and with flushes.
pub(crate) fn repaired<const F: usize, const S: usize, const Q: usize>(
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

pub(crate) fn qfq<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
) -> (Engine<Qfq<[QfqFlow; F]>, F, S>, NaiveQueues<NaiveQfq>) {
    let order = Qfq::new([QfqFlow::EMPTY; F], max_len).unwrap();
    let naive = NaiveQfq::new(F as u32, max_len);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

pub(crate) fn qfq_lqd<const F: usize, const S: usize>(
    max_len: u32,
    end: DropFrom,
    limits: Limits,
) -> (Lqd<Qfq<[QfqFlow; F]>, F, S>, NaiveQueues<NaiveLongestQueueDrop<NaiveQfq>>) {
    let order = Qfq::new([QfqFlow::EMPTY; F], max_len).unwrap();
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; F]).drop_from(end);
    let naive = NaiveLongestQueueDrop::new(NaiveQfq::new(F as u32, max_len), end);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

pub(crate) fn wf2q<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
) -> (Engine<Wf2q<[Wf2qFlow; F]>, F, S>, NaiveQueues<NaiveWf2q>) {
    let order = Wf2q::new([Wf2qFlow::EMPTY; F], max_len).unwrap();
    let naive = NaiveWf2q::new(F as u32, max_len);
    (engine(order, limits), twin::<_, F, S>(naive, limits))
}

pub(crate) fn wf2q_lqd<const F: usize, const S: usize>(
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
pub(crate) fn qfq_counting<const F: usize, const S: usize>(
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

pub(crate) fn qfq_plus<const F: usize, const S: usize>(
    max_len: u32,
    members: u32,
    limits: Limits,
) -> (Engine<Plus<F>, F, S>, NaiveQueues<NaiveQfqPlus>) {
    let naive = NaiveQfqPlus::new(F as u32, max_len, members);
    (engine(qfq_plus_order(max_len, members), limits), twin::<_, F, S>(naive, limits))
}

pub(crate) fn qfq_plus_lqd<const F: usize, const S: usize>(
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
