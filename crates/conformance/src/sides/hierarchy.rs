//! Hierarchies of eight flows with their reference models.

use crate::history::ConfigurableScheduler;
use crate::twin::{NaiveClasses, NaiveDrr, NaiveQfq, NaiveShortestQueue};
use freeboard::sched_core::{
    ClassState, Classes, DropFrom, FlowScheduler, LengthFlow, Limits, LongestClass, LowBits, Qfq,
    QfqFlow, Scheduler, ShortestQueue,
};

use super::{DESCRIPTORS, MAX_LEN};

/// Number of classes in four of the hierarchies, each with two flows.
const CLASSES: usize = 4;

/// Classes `S` under the flow scheduler `O`.
pub type Node<O, S, const N: usize> =
    Classes<O, S, LowBits, ([S; N], [ClassState; N], Vec<LongestClass>)>;

/// Creates `N` classes of `2^bits` flows; with `drops_from_longest`, packets are dropped from the
/// class with the most bytes.
pub fn node<O, S, const N: usize>(
    scheduler: O,
    classes: [S; N],
    bits: u32,
    drops_from_longest: bool,
    limits: Limits,
) -> Node<O, S, N>
where
    O: FlowScheduler,
    S: Scheduler,
{
    let split = LowBits::new(bits).unwrap();
    let ranks = vec![LongestClass::EMPTY; if drops_from_longest { N } else { 0 }];
    Classes::new(scheduler, classes, [ClassState::EMPTY; N], split, limits)
        .dropping_from_longest(ranks)
}

fn many<T, const N: usize>(make: impl Fn() -> T) -> [T; N] {
    core::array::from_fn(|_| make())
}

fn qfq_scheduler<const N: usize>() -> Qfq<[QfqFlow; N]> {
    Qfq::new([QfqFlow::EMPTY; N], MAX_LEN).unwrap()
}

/// Builds four FIFO classes under QFQ.
pub fn qfq_over_fifos(limits: Limits) -> (impl ConfigurableScheduler, impl ConfigurableScheduler) {
    let fifo = || super::fifo::<DESCRIPTORS>(DropFrom::Head, Limits::packets(20));
    let scheduler = qfq_scheduler::<CLASSES>();
    let naive = NaiveQfq::new(CLASSES as u32, MAX_LEN);
    (
        node(scheduler, many::<_, CLASSES>(|| fifo().0), 1, false, limits),
        NaiveClasses::new(naive, many::<_, CLASSES>(|| fifo().1).into(), 2, limits),
    )
}

/// Builds QFQ classes under DRR.
pub fn drr_over_qfq(limits: Limits) -> (impl ConfigurableScheduler, impl ConfigurableScheduler) {
    let leaf = || super::qfq::<2, DESCRIPTORS>(MAX_LEN, Limits::packets(20));
    let scheduler = super::drr_scheduler::<CLASSES>(MAX_LEN, false);
    let naive = NaiveDrr::new(CLASSES as u32, MAX_LEN, false);
    (
        node(scheduler, many::<_, CLASSES>(|| leaf().0), 1, false, limits),
        NaiveClasses::new(naive, many::<_, CLASSES>(|| leaf().1).into(), 2, limits),
    )
}

/// Builds DRR classes under SQF.
pub fn sqf_over_drr(limits: Limits) -> (impl ConfigurableScheduler, impl ConfigurableScheduler) {
    let leaf = || super::drr::<2, DESCRIPTORS>(MAX_LEN, false, Limits::NONE);
    let scheduler = ShortestQueue::new([LengthFlow::EMPTY; CLASSES]);
    let naive = NaiveShortestQueue::new(CLASSES as u32, DropFrom::Head);
    let twin = NaiveClasses::new(naive, many::<_, CLASSES>(|| leaf().1).into(), 2, limits);
    (
        node(scheduler, many::<_, CLASSES>(|| leaf().0), 1, true, limits),
        twin.dropping_from_longest(),
    )
}

/// Builds a FIFO, DRR, QFQ and SQF as trait objects under DRR; the three flow schedulers drop from
/// their longest queue.
pub fn drr_over_everything(
    limits: Limits,
) -> (impl ConfigurableScheduler, impl ConfigurableScheduler) {
    let fifo = super::fifo::<DESCRIPTORS>(DropFrom::Tail, Limits::NONE);
    let drr = super::drr_lqd::<2, DESCRIPTORS>(MAX_LEN, true, DropFrom::Tail, Limits::packets(10));
    let qfq = super::qfq_lqd::<2, DESCRIPTORS>(MAX_LEN, DropFrom::Head, Limits::bytes(8_000));
    let sqf = super::sqf::<2, DESCRIPTORS>(DropFrom::Head, Limits::NONE);
    let classes: [Box<dyn ConfigurableScheduler + Send>; 4] =
        [Box::new(fifo.0), Box::new(drr.0), Box::new(qfq.0), Box::new(sqf.0)];
    let naive: Vec<Box<dyn ConfigurableScheduler + Send>> =
        vec![Box::new(fifo.1), Box::new(drr.1), Box::new(qfq.1), Box::new(sqf.1)];
    let scheduler = NaiveDrr::new(CLASSES as u32, MAX_LEN, true);
    let twin = NaiveClasses::new(scheduler, naive, 2, limits).dropping_from_longest();
    (node(super::drr_scheduler::<CLASSES>(MAX_LEN, true), classes, 1, true, limits), twin)
}

/// Builds two classes of two classes of two flows.
pub fn three_levels(limits: Limits) -> (impl ConfigurableScheduler, impl ConfigurableScheduler) {
    let leaf = || super::sqf::<2, DESCRIPTORS>(DropFrom::Head, Limits::packets(12));
    let middle = || {
        let scheduler = super::drr_scheduler::<2>(MAX_LEN, false);
        node(scheduler, many::<_, 2>(|| leaf().0), 1, true, Limits::packets(20))
    };
    let naive_middle = || {
        let scheduler = NaiveDrr::new(2, MAX_LEN, false);
        NaiveClasses::new(scheduler, many::<_, 2>(|| leaf().1).into(), 2, Limits::packets(20))
            .dropping_from_longest()
    };
    let scheduler = NaiveQfq::new(2, MAX_LEN);
    let twin = NaiveClasses::new(scheduler, many::<_, 2>(naive_middle).into(), 4, limits);
    (
        node(qfq_scheduler::<2>(), many::<_, 2>(middle), 2, true, limits),
        twin.dropping_from_longest(),
    )
}
