//! The event queue: what happens next, and in which order.
//!
//! Events leave by time; events of equal time leave in the order they were scheduled. That second
//! half is what makes a run a function of its seed: without it the order of ties would be whatever
//! the heap's last rotation left behind. Cost: O(log n) per event.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use freeboard::sched_core::Nanos;

/// A queue of events `E`, each due at an instant of simulated time.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// let mut events = sim::event::EventQueue::new();
/// events.schedule(Nanos(20), "late");
/// events.schedule(Nanos(10), "early");
/// assert_eq!(events.pop(), Some((Nanos(10), "early")));
/// assert_eq!(events.now(), Nanos(10));
/// ```
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Events scheduled so far, which numbers the next one. 2^64 events at one per nanosecond
    /// take 584 years.
    scheduled: u64,
    now: Nanos,
}

#[derive(Debug)]
struct Entry<E> {
    due: Nanos,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Nanos, u64) {
        (self.due, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> EventQueue<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, now: Nanos::ZERO }
    }

    /// Schedules `event` for `due`. An instant that has passed counts as the present one, so time
    /// never runs backwards for the caller that pops.
    pub fn schedule(&mut self, due: Nanos, event: E) {
        let due = due.max(self.now);
        self.heap.push(Reverse(Entry { due, number: self.scheduled, event }));
        self.scheduled += 1;
    }

    /// Takes the next event and moves the clock to its instant.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.due;
        Some((entry.due, entry.event))
    }

    /// Takes the next event if it is due at `limit` or before; otherwise leaves everything as it is.
    pub fn pop_until(&mut self, limit: Nanos) -> Option<(Nanos, E)> {
        if self.next_due()? <= limit { self.pop() } else { None }
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// The instant of the event popped last: the simulation's clock.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Events that are still to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is left to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::rng::Streams;

    /// Goal: order by time, ties by insertion, whatever the interleaving of pushes and pops.
    /// Method: a stable sort by time of a plain vector is the oracle; eight instants for 2,000
    /// events make most of them ties.
    #[test]
    fn leaves_like_a_stable_sort_by_time() {
        let mut rng = Streams::new(7).stream("event-queue");
        let mut queue = EventQueue::new();
        let mut model: Vec<(Nanos, u32)> = Vec::new();
        for event in 0..2_000 {
            let due = Nanos(queue.now().0 + rng.below(8));
            queue.schedule(due, event);
            model.push((due, event));
            if rng.chance(1, 3) {
                model.sort_by_key(|&(due, _)| due);
                assert_eq!(queue.pop(), Some(model.remove(0)));
            }
        }
        model.sort_by_key(|&(due, _)| due);
        assert_eq!(queue.len(), model.len());
        assert_eq!(core::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), model);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_instant_that_has_passed_counts_as_the_present_one() {
        let mut queue = EventQueue::new();
        queue.schedule(Nanos(9), 'a');
        assert_eq!(queue.pop(), Some((Nanos(9), 'a')));
        queue.schedule(Nanos(9), 'b');
        queue.schedule(Nanos(3), 'c');
        assert_eq!(queue.pop(), Some((Nanos(9), 'b')));
        assert_eq!(queue.pop(), Some((Nanos(9), 'c')));
        assert_eq!((queue.pop(), queue.now()), (None, Nanos(9)));
    }

    #[test]
    fn pop_until_leaves_what_is_due_later() {
        let mut queue = EventQueue::new();
        queue.schedule(Nanos(5), ());
        assert_eq!(queue.pop_until(Nanos(4)), None);
        assert_eq!((queue.len(), queue.now(), queue.next_due()), (1, Nanos(0), Some(Nanos(5))));
        assert_eq!(queue.pop_until(Nanos(5)), Some((Nanos(5), ())));
    }
}
