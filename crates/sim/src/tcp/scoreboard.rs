//! Scoreboard of the segments sent and not cumulatively acknowledged.
//!
//! **Source.** RFC 6675 §3 and §4, with segments instead of octets: `IsLost` is true for a segment
//! if [`THRESHOLD`] segments above it are known to have arrived; `pipe` estimates the number of
//! segments in the network. A retransmission counts as lost if a segment that was sent later has
//! arrived (RFC 8985 §6.2, with no allowance for reordering during recovery); RFC 6675 leaves it to
//! the timeout.
//!
//! **Cost.** One step for each acknowledged segment, and one for each segment of a SACK block.

use std::collections::VecDeque;

use core::ops::Range;

use freeboard::sched_core::Nanos;

/// Threshold of `IsLost`, `DupThresh`.
pub(super) const THRESHOLD: u32 = 3;

/// A segment in the scoreboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Time of the last transmission.
    pub at: Nanos,
    /// Number of segments delivered at that time, for the delivery rate.
    pub delivered: u32,
    pub delivered_at: Nanos,
    /// Sending time of the segment that had been delivered last by then.
    pub first_at: Nanos,
    /// True if the sender had less to send than the window allowed.
    pub starved: bool,
    /// True if known to have arrived, by SACK.
    sacked: bool,
    /// True if considered lost. A sacked segment is not lost.
    lost: bool,
    /// True if lost and retransmitted since.
    again: bool,
    /// True if sent more than once.
    pub repeated: bool,
}

impl Sent {
    pub(super) const fn new(
        at: Nanos,
        delivered: u32,
        delivered_at: Nanos,
        first_at: Nanos,
    ) -> Self {
        let (sacked, lost, again, repeated, starved) = (false, false, false, false, false);
        Self { at, delivered, delivered_at, first_at, starved, sacked, lost, again, repeated }
    }
}

/// The segments in flight, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// Number of the first segment: everything below is acknowledged.
    first: u32,
    sent: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    /// Number of lost segments whose retransmissions are considered in transit.
    again: u32,
    /// One more than the highest sacked number; at most `first` if none is.
    sacked_below: u32,
    /// All segments below are sacked or have been declared lost once.
    judged_below: u32,
    /// No segment below is lost and needs a retransmission.
    search_from: u32,
    /// Retransmissions in the order in which they were sent; some are out of date.
    repeats: VecDeque<(u32, Nanos)>,
}

impl Scoreboard {
    /// Returns the first unacknowledged segment.
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    /// Returns the next segment that was never sent.
    pub(super) fn next(&self) -> u32 {
        self.first + self.outstanding()
    }

    /// Returns the number of segments sent and not cumulatively acknowledged.
    pub(super) fn outstanding(&self) -> u32 {
        // Segments have 32-bit numbers, so fewer than 2^32 are in flight.
        self.sent.len() as u32
    }

    /// Returns the estimated number of segments in the network (RFC 6675 §4, `SetPipe`).
    pub(super) fn pipe(&self) -> u32 {
        self.outstanding() - self.sacked - self.lost + self.again
    }

    /// Returns true if a segment above the first has arrived.
    pub(super) const fn has_sacked(&self) -> bool {
        self.sacked > 0
    }

    /// Returns the segment with this number, if it is in flight.
    pub(super) fn get(&self, number: u32) -> Option<&Sent> {
        self.sent.get(number.checked_sub(self.first)? as usize)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Sent> {
        self.sent.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Adds a segment that is sent for the first time.
    pub(super) fn push(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    /// Acknowledges everything below `next`. `each` is called for segments not known to have
    /// arrived.
    pub(super) fn acknowledge(&mut self, next: u32, mut each: impl FnMut(u32, &Sent)) {
        let next = next.min(self.next());
        while self.first < next
            && let Some(sent) = self.sent.pop_front()
        {
            let number = self.first;
            self.first += 1;
            self.sacked -= u32::from(sent.sacked);
            self.lost -= u32::from(sent.lost);
            self.again -= u32::from(sent.again);
            if !sent.sacked {
                each(number, &sent);
            }
        }
        self.judged_below = self.judged_below.max(self.first);
        self.search_from = self.search_from.max(self.first);
    }

    /// Marks the segments of `block` as arrived. `each` is called for those not known to have
    /// arrived.
    pub(super) fn sack(&mut self, block: Range<u32>, mut each: impl FnMut(u32, &Sent)) {
        let block = block.start.max(self.first)..block.end.min(self.next());
        if block.is_empty() {
            return;
        }
        self.sacked_below = self.sacked_below.max(block.end);
        let range = (block.start - self.first) as usize..(block.end - self.first) as usize;
        let news = (block.start..).zip(self.sent.range_mut(range)).filter(|(_, sent)| !sent.sacked);
        for (number, sent) in news {
            each(number, sent);
            self.sacked += 1;
            self.lost -= u32::from(sent.lost);
            self.again -= u32::from(sent.again);
            (sent.sacked, sent.lost, sent.again) = (true, false, false);
        }
    }

    /// Declares segments lost by `IsLost`. Returns true if there were any.
    pub(super) fn judge(&mut self) -> bool {
        if self.sacked < THRESHOLD {
            return false;
        }
        let (mut edge, mut above) = (self.sacked_below, 0);
        while edge > self.judged_below && above < THRESHOLD {
            edge -= 1;
            above += u32::from(self.get(edge).is_some_and(|sent| sent.sacked));
        }
        above == THRESHOLD && self.lose(edge, |_| true)
    }

    /// Declares segments lost that are below the highest sacked one and were sent at `limit` or
    /// before (RFC 8985 §6.2).
    pub(super) fn judge_by_time(&mut self, limit: Nanos) -> bool {
        self.lose(self.sacked_below, |sent| sent.at <= limit)
    }

    /// Declares the segments below `edge` lost if `is` holds, except those sacked or judged before.
    fn lose(&mut self, edge: u32, is: impl Fn(&Sent) -> bool) -> bool {
        let before = self.lost;
        while self.judged_below < edge {
            let number = self.judged_below;
            let Some(sent) = self.get_mut(number) else { break };
            if !sent.sacked && !sent.lost {
                if !is(sent) {
                    break;
                }
                sent.lost = true;
                self.lost += 1;
                self.search_from = self.search_from.min(number);
            }
            self.judged_below += 1;
        }
        self.lost > before
    }

    /// Declares retransmissions lost that were sent before a segment that has arrived: at an
    /// earlier time, or at an equal time with a lower number (RFC 8985 §6.2, step 2). Returns the
    /// sending time of the last of them, if there were any.
    pub(super) fn judge_repeats(&mut self, arrived: (Nanos, u32)) -> Option<Nanos> {
        let mut latest = None;
        while let Some(&(number, at)) = self.repeats.front()
            && (at, number) < arrived
        {
            self.repeats.pop_front();
            if let Some(sent) = self.get_mut(number)
                && sent.again
                && sent.at == at
            {
                sent.again = false;
                self.again -= 1;
                self.search_from = self.search_from.min(number);
                latest = Some(at);
            }
        }
        latest
    }

    /// Declares everything lost that has not arrived, including retransmissions, after a timeout.
    pub(super) fn lose_all(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| !sent.sacked) {
            (sent.lost, sent.again) = (true, false);
        }
        (self.lost, self.again) = (self.outstanding() - self.sacked, 0);
        self.judged_below = self.next();
        self.search_from = self.first;
        self.repeats.clear();
    }

    /// Returns the first lost segment that was not retransmitted since.
    pub(super) fn next_lost(&mut self) -> Option<u32> {
        if self.lost == self.again {
            return None;
        }
        while self.search_from < self.judged_below {
            if self.get(self.search_from).is_some_and(|sent| sent.lost && !sent.again) {
                return Some(self.search_from);
            }
            self.search_from += 1;
        }
        None
    }

    /// Retransmits a segment.
    pub(super) fn repeat(&mut self, number: u32, sent: Sent) {
        let Some(old) = self.get_mut(number) else { return };
        let again = old.lost && !old.again;
        let (sacked, lost, was_again) = (old.sacked, old.lost, old.again);
        *old = Sent { sacked, lost, again: was_again || again, repeated: true, ..sent };
        self.again += u32::from(again);
        self.repeats.push_back((number, sent.at));
    }

    /// Computes `SetPipe` as written in RFC 6675, by visiting every segment, and recounts the
    /// counters.
    #[cfg(test)]
    fn pipe_by_definition(&self) -> u32 {
        let sacked_above = |index: usize| self.sent.range(index + 1..).filter(|s| s.sacked).count();
        let mut pipe = 0;
        for (index, sent) in self.sent.iter().enumerate().filter(|(_, sent)| !sent.sacked) {
            let is_lost = sacked_above(index) >= THRESHOLD as usize;
            pipe += u32::from(!is_lost) + u32::from(sent.again);
        }
        let count = |is: fn(&Sent) -> bool| self.sent.iter().filter(|sent| is(sent)).count() as u32;
        let counts = (count(|s| s.sacked), count(|s| s.lost), count(|s| s.again));
        assert_eq!(counts, (self.sacked, self.lost, self.again));
        pipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::rng::Streams;

    fn sent(at: u64) -> Sent {
        Sent::new(Nanos(at), 0, Nanos::ZERO, Nanos::ZERO)
    }

    fn board(segments: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segments).for_each(|number| board.push(sent(number.into())));
        board
    }

    fn lost(board: &mut Scoreboard, now: u64) -> Vec<u32> {
        let mut found = Vec::new();
        while let Some(number) = board.next_lost() {
            found.push(number);
            board.repeat(number, sent(now));
        }
        found
    }

    /// Calculated manually from RFC 6675 §4 and §5: ten segments, of which 0 and 4 are lost.
    ///
    /// | arrives | sacked | lost | pipe |
    /// |---|---|---|---|
    /// | 1 | 1 | – | 9 |
    /// | 2 | 1–2 | – | 8 |
    /// | 3 | 1–3 | 0 | 6 |
    /// | (0 again) | 1–3 | 0 | 7 |
    /// | 5, 6 | 1–3, 5–6 | 0 | 5 |
    /// | 7 | 1–3, 5–7 | 0, 4 | 3 |
    /// | (4 again) | | | 4 |
    /// | 0 | below 4 | 4 | 3: 4, 8 and 9 |
    #[test]
    fn the_pipe_is_that_of_the_rfc() {
        let mut board = board(10);
        for (block, pipe) in [(1..2, 9), (1..3, 8)] {
            board.sack(block, |_, _| ());
            assert!(!board.judge());
            assert_eq!((board.pipe(), board.next_lost()), (pipe, None));
        }
        board.sack(1..4, |_, _| ());
        assert!(board.judge());
        assert_eq!((board.pipe(), board.next_lost()), (6, Some(0)));
        assert_eq!((lost(&mut board, 100), board.pipe()), (vec![0], 7));
        board.sack(5..7, |_, _| ());
        assert!(!board.judge());
        assert_eq!((board.pipe(), board.next_lost()), (5, None));
        board.sack(5..8, |_, _| ());
        assert!(board.judge());
        assert_eq!((board.pipe(), board.next_lost()), (3, Some(4)));
        assert_eq!((lost(&mut board, 101), board.pipe()), (vec![4], 4));
        board.acknowledge(4, |_, _| ());
        assert_eq!((board.pipe(), board.first(), board.outstanding()), (3, 4, 6));
        board.acknowledge(10, |_, _| ());
        assert_eq!((board.pipe(), board.outstanding(), board.next()), (0, 0, 10));
    }

    /// Each arrival is reported once, by SACK or by number.
    #[test]
    fn each_segment_is_news_once() {
        let mut board = board(6);
        let mut news = Vec::new();
        board.sack(2..4, |_, sent| news.push(sent.at.0));
        board.sack(2..5, |_, sent| news.push(sent.at.0));
        board.acknowledge(6, |_, sent| news.push(sent.at.0));
        assert_eq!(news, [2, 3, 4, 0, 1, 5]);
    }

    /// A retransmission overtaken by a later segment is sent once more.
    #[test]
    fn a_lost_retransmission_is_found() {
        let mut board = board(8);
        board.sack(2..5, |_, _| ());
        assert!(board.judge());
        assert_eq!(lost(&mut board, 100), [0, 1]);
        assert_eq!(board.judge_repeats((Nanos(100), 0)), None, "sent at the same time");
        board.sack(1..2, |_, _| ());
        assert_eq!(board.judge_repeats((Nanos(100), 1)), Some(Nanos(100)));
        assert_eq!((board.pipe(), lost(&mut board, 200)), (3, vec![0]));
        assert_eq!(board.judge_repeats((Nanos(101), 0)), None);
    }

    #[test]
    fn a_timeout_loses_all_that_is_not_sacked() {
        let mut board = board(5);
        board.sack(1..2, |_, _| ());
        board.lose_all();
        assert_eq!((board.pipe(), lost(&mut board, 100)), (0, vec![0, 2, 3, 4]));
        assert_eq!(board.pipe(), 4);
    }

    /// The counters agree with the definition, over random losses. RFC 6675 applies to every
    /// segment whose retransmission was not overtaken.
    #[test]
    fn the_counters_are_what_a_count_finds() {
        let mut rng = Streams::new(1).stream("scoreboard");
        for _ in 0..300 {
            let mut board = board(40);
            let mut arrived = [false; 40];
            for step in 0..60 {
                let number = rng.below(40);
                arrived[number as usize] |= !rng.chance(1, 4);
                let next = arrived.iter().position(|&is| !is).unwrap_or(40) as u32;
                board.acknowledge(next, |_, _| ());
                for (at, _) in arrived.iter().enumerate().filter(|(_, is)| **is) {
                    board.sack(at as u32..at as u32 + 1, |_, _| ());
                }
                board.judge();
                assert_eq!(board.pipe(), board.pipe_by_definition());
                if rng.chance(1, 3)
                    && let Some(number) = board.next_lost()
                {
                    board.repeat(number, sent(100 + step));
                    assert_eq!(board.pipe(), board.pipe_by_definition());
                }
            }
        }
    }
}
