//! The receiving end: order, acknowledgements and echoes of marks.
//!
//! **Source.** RFC 5681 §4.2: an acknowledgement for each second segment, or 40 ms after the first,
//! and at once for a segment out of order, for one that fills a gap, and while a gap remains. RFC
//! 2018 §4: the first SACK block contains the segment that arrived last, the others are those that
//! changed last. RFC 3168 §6.1.3: a mark is echoed until the sender confirms that it has reduced
//! its window. RFC 8257 §3.2: an acknowledgement is not delayed if the mark differs from that of
//! the segment before.
//!
//! **Simplifications.** No quick acknowledgements at the start, no compressed ones later, no
//! duplicate SACK (RFC 2883). The window is unlimited: Linux lets its buffers grow to 6 MB.

use freeboard::sched_core::Nanos;

use super::{Ack, BLOCKS, Data};

/// The receiver of one connection.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Next expected segment: all below have arrived.
    next: u32,
    /// Segments that arrived above `next`, as ranges that do not touch, the one that changed last
    /// first.
    held: Vec<(u32, u32)>,
    /// Number of segments not yet acknowledged.
    unacknowledged: u32,
    /// Time of a delayed acknowledgement if no second segment arrives.
    due: Option<Nanos>,
    /// Value of `next` in the last acknowledgement, and the timestamp that the next one echoes
    /// (RFC 7323 §4.3).
    acknowledged: u32,
    stamp: Nanos,
    echo: bool,
    marks: u32,
    was_marked: bool,
    duplicates: u32,
}

impl Receiver {
    /// Maximum delay of an acknowledgement (Linux's minimum).
    pub const DELAY: Nanos = Nanos::from_millis(40);
    /// Number of segments per acknowledgement.
    const EACH: u32 = 2;

    /// Creates a receiver that has received nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of segments that have arrived in order.
    #[must_use]
    pub const fn in_order(&self) -> u32 {
        self.next
    }

    /// Returns the number of duplicate segments.
    #[must_use]
    pub const fn duplicates(&self) -> u32 {
        self.duplicates
    }

    /// Returns the number of marked segments.
    #[must_use]
    pub const fn marks(&self) -> u32 {
        self.marks
    }

    /// Returns the time at which to call [`Receiver::on_timer`].
    #[must_use]
    pub const fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Receives a segment and returns the acknowledgement to send at once, if any.
    pub fn receive(&mut self, now: Nanos, data: Data, marked: bool) -> Option<Ack> {
        if data.reduced {
            self.echo = false;
        }
        self.echo |= marked;
        self.marks += u32::from(marked);
        let mark_changed = core::mem::replace(&mut self.was_marked, marked) != marked;
        self.unacknowledged += 1;
        if data.number <= self.acknowledged && data.at >= self.stamp {
            self.stamp = data.at;
        }
        let in_order = self.take(data.number) && self.held.is_empty();
        if !in_order || mark_changed || self.unacknowledged >= Self::EACH {
            return Some(self.acknowledge());
        }
        self.due = Some(now.plus(Self::DELAY));
        None
    }

    /// Returns the acknowledgement that was delayed until `now`, if any.
    pub fn on_timer(&mut self, now: Nanos) -> Option<Ack> {
        let is_due = self.due.is_some_and(|due| due <= now);
        is_due.then(|| self.acknowledge())
    }

    fn acknowledge(&mut self) -> Ack {
        (self.unacknowledged, self.due, self.acknowledged) = (0, None, self.next);
        let mut blocks = [(0, 0); BLOCKS];
        for (block, &held) in blocks.iter_mut().zip(&self.held) {
            *block = held;
        }
        Ack { next: self.next, blocks, at: self.stamp, echo: self.echo, marks: self.marks }
    }

    /// Records a segment. Returns true if it was the next one and filled no gap.
    fn take(&mut self, number: u32) -> bool {
        if number == self.next {
            self.next += 1;
            // Ranges do not touch, so at most one begins here.
            let at = self.held.iter().position(|&(start, _)| start == self.next);
            if let Some(at) = at {
                self.next = self.held.remove(at).1;
            }
            return at.is_none();
        }
        let is_old = |&(start, end): &(u32, u32)| (start..end).contains(&number);
        if number < self.next || self.held.iter().any(is_old) {
            self.duplicates += 1;
            return false;
        }
        let (mut start, mut end) = (number, number + 1);
        self.held.retain(|&(from, to)| {
            let touches = to == start || from == end;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        self.held.insert(0, (start, end));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: u32) -> Data {
        Data { number, reduced: false, at: Nanos(number.into()) }
    }

    fn receive(receiver: &mut Receiver, number: u32) -> Option<(u32, Vec<(u32, u32)>)> {
        let ack = receiver.receive(Nanos(1), data(number), false)?;
        Some((ack.next, ack.blocks().map(|block| (block.start, block.end)).collect()))
    }

    #[test]
    fn each_second_segment_is_acknowledged_or_after_forty_milliseconds() {
        let mut receiver = Receiver::new();
        assert_eq!(receive(&mut receiver, 0), None);
        assert_eq!(receive(&mut receiver, 1), Some((2, vec![])));
        assert_eq!((receiver.due(), receive(&mut receiver, 2)), (None, None));
        let due = receiver.due().unwrap();
        assert_eq!(due, Nanos(40_000_001));
        assert_eq!(receiver.on_timer(Nanos(due.0 - 1)), None);
        assert_eq!(receiver.on_timer(due).map(|ack| ack.next), Some(3));
        assert_eq!(receiver.due(), None);
    }

    /// Calculated manually from RFC 7323 §4.3: of two segments the first is echoed; a gap holds the
    /// echo back until it is filled.
    #[test]
    fn the_timestamp_is_that_of_the_segment_that_is_answered() {
        let mut receiver = Receiver::new();
        let stamps = [0, 1, 3, 4, 2].map(|number| receiver.receive(Nanos(9), data(number), false));
        let stamps = stamps.map(|ack| ack.map(|ack| (ack.next, ack.at.0)));
        assert_eq!(stamps, [None, Some((2, 0)), Some((2, 0)), Some((2, 0)), Some((5, 2))]);
    }

    /// Calculated manually from RFC 2018 §4, with four blocks of which three fit.
    #[test]
    fn the_block_that_changed_last_is_first() {
        let mut receiver = Receiver::new();
        let seen: Vec<_> =
            [1, 3, 5, 7, 4, 0, 2].map(|number| receive(&mut receiver, number).unwrap()).into();
        let expected = [
            (0, vec![(1, 2)]),
            (0, vec![(3, 4), (1, 2)]),
            (0, vec![(5, 6), (3, 4), (1, 2)]),
            (0, vec![(7, 8), (5, 6), (3, 4)]),
            (0, vec![(3, 6), (7, 8), (1, 2)]),
            (2, vec![(3, 6), (7, 8)]),
            (6, vec![(7, 8)]),
        ];
        assert_eq!(seen, expected);
        assert_eq!(receive(&mut receiver, 6), Some((8, vec![])), "the last gap is filled");
        assert_eq!(receive(&mut receiver, 3), Some((8, vec![])));
        assert_eq!(receiver.duplicates(), 1);
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_has_reduced_its_window() {
        let mut receiver = Receiver::new();
        let mut echo = |number, reduced, marked| {
            let ack = receiver.receive(Nanos(1), Data { number, reduced, at: Nanos(1) }, marked);
            ack.map(|ack| (ack.echo, ack.marks))
        };
        assert_eq!(echo(0, false, false), None);
        assert_eq!(echo(1, false, true), Some((true, 1)));
        assert_eq!(echo(2, false, false), Some((true, 1)), "the mark has ended: at once");
        assert_eq!(echo(3, false, false), None);
        assert_eq!(echo(4, false, false), Some((true, 1)));
        assert_eq!(echo(5, true, false), None);
        assert_eq!(echo(6, false, false), Some((false, 1)));
        assert_eq!(echo(7, true, true), Some((true, 2)), "reduced for the last mark, not for this");
    }
}
