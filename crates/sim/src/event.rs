//! Event queue and clock of the simulation.
//!
//! Events leave by time; simultaneous events leave in the order in which they were scheduled. The
//! second rule makes a run a function of its seed: without it the order of ties would depend on the
//! internal state of the heap.
//!
//! A source whose events are scheduled in chronological order, such as the packets on a link of
//! constant delay, has a FIFO list of its own. All other events are in a heap. Cost: O(lists) for
//! an event, plus O(log n) for one in the heap.

use core::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use freeboard::sched_core::Nanos;

/// A queue of events `E`, each due at a point of simulated time.
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
    /// FIFO lists, each in order, so the next event is the first of a list or of the heap.
    rows: Vec<VecDeque<Entry<E>>>,
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Number of events scheduled so far, used as the next sequence number. 2^64 events at one per
    /// nanosecond take 584 years.
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
    /// Creates an empty queue at time zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), heap: BinaryHeap::new(), scheduled: 0, now: Nanos::ZERO }
    }

    /// Schedules `event` for `due`. A past time counts as the present, so time never runs backwards
    /// for the caller.
    pub fn schedule(&mut self, due: Nanos, event: E) {
        let entry = self.entry(due, event);
        self.heap.push(Reverse(entry));
    }

    /// Schedules an event in this list, which is created if necessary. An event due before the last
    /// one of the list goes to the heap.
    pub(crate) fn schedule_in(&mut self, row: usize, due: Nanos, event: E) {
        let entry = self.entry(due, event);
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, VecDeque::new);
        }
        let row = &mut self.rows[row];
        if row.back().is_none_or(|last| last.due <= entry.due) {
            row.push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    fn entry(&mut self, due: Nanos, event: E) -> Entry<E> {
        let number = self.scheduled;
        self.scheduled += 1;
        Entry { due: due.max(self.now), number, event }
    }

    /// Returns the time of the next event and its list; `None` is the heap.
    fn next(&self) -> Option<(Nanos, Option<usize>)> {
        let rows = self.rows.iter().enumerate();
        let firsts = rows.filter_map(|(row, events)| Some((events.front()?.key(), Some(row))));
        let in_heap = self.heap.peek().map(|Reverse(entry)| (entry.key(), None));
        firsts.chain(in_heap).min().map(|((due, _), row)| (due, row))
    }

    /// Removes the next event, advances the clock to it and returns both.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        self.pop_until(Nanos::MAX)
    }

    /// Removes the next event if it is due at `limit` or before; otherwise changes nothing.
    pub fn pop_until(&mut self, limit: Nanos) -> Option<(Nanos, E)> {
        let (due, row) = self.next()?;
        if due > limit {
            return None;
        }
        let entry = match row {
            Some(row) => self.rows[row].pop_front(),
            None => self.heap.pop().map(|Reverse(entry)| entry),
        }?;
        self.now = entry.due;
        Some((entry.due, entry.event))
    }

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        self.next().map(|(due, _)| due)
    }

    /// Returns the time of the event removed last: the simulation's clock.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.iter().map(VecDeque::len).sum::<usize>() + self.heap.len()
    }

    /// Returns true if no event is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// Goal: order by time, ties by insertion, whatever the interleaving of pushes and pops, in
    /// lists and in the heap. Method: compare with a stable sort by time of a plain vector. Eight
    /// times for 2,000 events make most of them ties. One event of three is for no list, and with
    /// 1,000 times many are out of order in their list.
    #[test]
    fn leaves_like_a_stable_sort_by_time() {
        for instants in [8, 1_000] {
            let mut rng = Streams::new(7).stream("event-queue");
            let mut queue = EventQueue::new();
            let mut model: Vec<(Nanos, u32)> = Vec::new();
            let mut most = [0, 0];
            for event in 0..2_000 {
                let due = Nanos(queue.now().0 + rng.below(instants));
                match rng.below(3) {
                    2 => queue.schedule(due, event),
                    row => queue.schedule_in(row as usize, due, event),
                }
                model.push((due, event));
                if rng.chance(1, 3) {
                    model.sort_by_key(|&(due, _)| due);
                    assert_eq!(queue.pop(), Some(model.remove(0)));
                }
                let here = [queue.rows.iter().map(VecDeque::len).sum(), queue.heap.len()];
                most = [most[0].max(here[0]), most[1].max(here[1])];
            }
            assert!(most.into_iter().all(|most| most > 50), "{most:?}");
            model.sort_by_key(|&(due, _)| due);
            assert_eq!(queue.len(), model.len());
            assert_eq!(core::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), model);
            assert!(queue.is_empty());
        }
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
