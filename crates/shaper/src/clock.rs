//! The shaper without a burst parameter: a virtual clock that says when the next packet may leave.
//!
//! Every packet moves the clock by the exact time its bytes take at the rate (CAKE §III-A,
//! Algorithm 1); a packet may leave when real time has caught up. Nothing is saved while the line
//! is idle, so there is no burst to configure and none after a pause.
//!
//! Promises, for any sequence of times:
//! - A packet never leaves early: the line is open from the first whole nanosecond at or after
//!   the exact instant. If packets leave when [`Shaper::due`] says, the fraction of a nanosecond
//!   lost there is made up at the next, and no error adds up, ever.
//! - In any span `t` the bytes charged, less one packet, take at most `t` + 1 ns +
//!   [`catch_up`](Shaper::catch_up) at the highest rate set in it.
//! - A clock that steps back buys nothing and costs nothing: the line opens at the instant it
//!   always would have. One that reads [`Nanos::MAX`] is at the end of time: what would leave
//!   after it never does.
//!
//! We depart from the paper's line 9, which moves the clock *back* to the present when a packet
//! arrives at an empty queue: sparse packets would then leave as fast as they come. Here, as in
//! deployed shapers, the clock only moves forward.
//!
//! Cost: constant; three multiplications a packet, no division, no loop.

use sched_core::Nanos;

use crate::Rate;
use crate::rate::{LONGEST, Tick};

/// When the next packet may leave a line of a given [`Rate`].
///
/// ```
/// use sched_core::Nanos;
/// use shaper::{Rate, Shaper};
///
/// let mut line = Shaper::new(Rate::megabits_per_second(1)?);
/// let now = Nanos::from_secs(5);
/// assert!(line.is_open(now));
/// line.charge(now, 1_500);
/// assert_eq!(line.due(), now.plus(Nanos::from_millis(12)));
/// assert!(!line.is_open(now.plus(Nanos(11_999_999))));
/// assert!(line.is_open(line.due()));
/// # Ok::<(), shaper::RateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaper {
    rate: Rate,
    /// The instant from which the next packet may leave. Its fraction counts in units of the
    /// present rate and is zero unless that rate is a finite one.
    next: Tick,
    /// Bytes charged since the line was last open, and the instant from which they are paid:
    /// what a raise of the rate prices anew.
    owed: u32,
    owed_from: Nanos,
    catch_up: Nanos,
    /// Lateness reaches back to here: before it there was nothing to send. [`Nanos::MAX`] until
    /// something was.
    backlog_since: Nanos,
}

impl Shaper {
    /// A line of this rate on which nothing has been sent.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            next: Tick::ZERO,
            owed: 0,
            owed_from: Nanos::ZERO,
            catch_up: Nanos::ZERO,
            backlog_since: Nanos::MAX,
        }
    }

    /// The same line for a caller that may come late by up to `span`.
    ///
    /// A caller whose timer ticks in milliseconds finds the line open up to 1 ms after the instant
    /// [`due`](Self::due) named. By default this lateness is lost to the rate: at 1 Mbit/s and
    /// 12 ms a packet, half a millisecond each is 4 %. With a `span` as long as the timer's grain
    /// the lost time is made up by the next packets, which may then follow one another at once:
    /// at most the bytes of `span` more than the rate allows. Idle time is not lateness if
    /// [`wake`](Self::wake) is called when a packet arrives at an empty queue.
    #[must_use]
    pub const fn with_catch_up(self, span: Nanos) -> Self {
        Self { catch_up: span, ..self }
    }

    /// The rate that the next packet is charged at.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The longest lateness that is made up: see [`with_catch_up`](Self::with_catch_up).
    #[must_use]
    pub const fn catch_up(&self) -> Nanos {
        self.catch_up
    }

    /// The first instant at which the line is open: [`Nanos::MAX`] (never) when it is stopped or
    /// the end of time comes first, [`Nanos::ZERO`] when it is unlimited.
    #[must_use]
    #[inline]
    pub const fn due(&self) -> Nanos {
        match self.rate.limited() {
            Some(_) => self.next.ceil(),
            None if self.rate.is_unlimited() => Nanos::ZERO,
            None => Nanos::MAX,
        }
    }

    /// Whether a packet may leave at `now`.
    #[must_use]
    #[inline]
    pub const fn is_open(&self, now: Nanos) -> bool {
        let due = self.due().0;
        due <= now.0 && due < Nanos::MAX.0
    }

    /// A packet of `wire_len` bytes leaves at `now`.
    ///
    /// Charging a closed line is legal and puts it off further: a caller may charge packets that
    /// it has dropped or sent past the shaper. On a stopped or unlimited line it has no effect.
    /// A `wire_len` above 2³¹ counts as 2³¹.
    #[inline]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) {
        let Some(limited) = self.rate.limited() else { return };
        let due = self.next.ceil();
        let wire_len = wire_len.min(LONGEST);
        if now < due {
            self.owed = self.owed.saturating_add(wire_len);
        } else {
            // Less than a nanosecond late is not late: the exact instant stays.
            self.backlog_since = self.backlog_since.min(now);
            let earliest = now.since(self.catch_up).max(self.backlog_since);
            if earliest > due {
                self.next = Tick::at(earliest);
            }
            self.owed = wire_len;
            self.owed_from = self.next.ceil();
        }
        self.next = limited.after(self.next, wire_len);
    }

    /// A packet arrives at `now` and finds the queue empty: time before it was idle, not late.
    ///
    /// Without [`with_catch_up`](Self::with_catch_up) there is no difference between the two, and
    /// this has no effect. It never closes the line.
    #[inline]
    pub const fn wake(&mut self, now: Nanos) {
        self.backlog_since = now;
    }

    /// Changes the rate from the next packet on.
    ///
    /// After a cut the packet on the line keeps the end it had. After a raise it is charged as if
    /// it had left at the new rate, so that a line that was slow opens in at most one packet's
    /// time at the new rate; without this a packet sent at 1 kbit/s would block its line for 12 s
    /// whatever the rate is set to. The fraction of a nanosecond that the old rate left is rounded
    /// up. What was charged to a closed line stays as it is if it is more than 2³¹ bytes. Setting the
    /// rate that is in force changes nothing.
    pub fn set_rate(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        let mut next = self.next.ceil();
        // More than that cannot be priced exactly: it keeps its end.
        if let Some(limited) = rate.limited()
            && self.owed <= LONGEST
        {
            next = next.min(limited.after(Tick::at(self.owed_from), self.owed).ceil());
        }
        self.next = Tick::at(next);
    }

    /// Forgets every packet charged, as on a new line; rate and settings stay.
    ///
    /// For a caller whose clock was replaced by one that reads less: without it the line stays
    /// closed until the new clock reaches the instant that the old one had set.
    pub fn reset(&mut self) {
        *self = Self::new(self.rate).with_catch_up(self.catch_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bps: u64) -> Shaper {
        Shaper::new(Rate::bits_per_second(bps).unwrap())
    }

    #[test]
    fn idle_time_earns_no_burst() {
        let mut line = line(8_000); // 1 ms a byte
        line.charge(Nanos(0), 1);
        let later = Nanos::from_secs(3_600);
        line.charge(later, 1);
        assert_eq!(line.due(), later.plus(Nanos::from_millis(1)));
    }

    #[test]
    fn a_fraction_of_a_nanosecond_is_not_lost_between_packets() {
        // 64 bytes at 400 Gbit/s take 1.28 ns: five packets take 6.4 ns, not ten.
        let mut line = line(400_000_000_000);
        for due in [2, 3, 4, 6, 7] {
            line.charge(line.due(), 64);
            assert_eq!(line.due(), Nanos(due));
        }
    }

    #[test]
    fn lateness_is_lost_by_default() {
        let mut line = line(8_000);
        line.charge(Nanos(0), 1);
        line.charge(Nanos(1_000_001), 1);
        assert_eq!(line.due(), Nanos(2_000_001));
    }

    #[test]
    fn lateness_up_to_the_catch_up_is_made_up_and_idle_time_is_not() {
        let mut line = line(8_000).with_catch_up(Nanos(500_000));
        assert_eq!(line.catch_up(), Nanos(500_000));
        line.charge(Nanos(600_000), 1);
        assert_eq!(line.due(), Nanos(1_600_000), "a new line is idle, not late");
        line.charge(Nanos(1_900_000), 1);
        assert_eq!(line.due(), Nanos(2_600_000), "0.3 ms late, all made up");
        line.charge(Nanos(3_400_000), 1);
        assert_eq!(line.due(), Nanos(3_900_000), "0.8 ms late, 0.5 made up");
        line.wake(Nanos(9_000_000));
        assert_eq!(line.due(), Nanos(3_900_000), "open, as it was");
        line.charge(Nanos(9_200_000), 1);
        assert_eq!(line.due(), Nanos(10_000_000), "idle to 9 ms, then 0.2 ms late");
        line.wake(Nanos(9_500_000));
        line.charge(Nanos(10_100_000), 1);
        assert_eq!(line.due(), Nanos(11_000_000), "a packet was on the line until 10 ms");
        line.wake(Nanos::MAX);
        line.charge(Nanos(12_000_000), 1);
        assert_eq!(line.due(), Nanos(13_000_000), "a clock gone mad for a moment harms nothing");
    }

    #[test]
    fn a_clock_that_steps_back_moves_nothing() {
        let mut line = line(8_000);
        line.charge(Nanos(5_000_000), 1);
        assert!(!line.is_open(Nanos(4_000_000)));
        assert_eq!(line.due(), Nanos(6_000_000));
        line.charge(Nanos(0), 1);
        assert_eq!(line.due(), Nanos(7_000_000), "charged while closed: after the other");
    }

    #[test]
    fn at_the_end_of_time_one_packet_leaves_and_no_more() {
        let mut line = line(1_000);
        assert!(line.is_open(Nanos::MAX));
        line.charge(Nanos::MAX, 1);
        assert!(!line.is_open(Nanos::MAX));
        assert_eq!(line.due(), Nanos::MAX);
        let mut other = line.clone().with_catch_up(Nanos(3));
        line.reset();
        other.reset();
        assert!(line.is_open(Nanos(0)));
        assert_eq!((other.rate(), other.catch_up()), (line.rate(), Nanos(3)));
    }

    #[test]
    fn a_stopped_line_never_opens_and_an_unlimited_one_never_closes() {
        for now in [Nanos::ZERO, Nanos(1), Nanos::MAX] {
            let mut stopped = Shaper::new(Rate::STOPPED);
            stopped.charge(now, 1);
            assert!(!stopped.is_open(now));
            assert_eq!(stopped.due(), Nanos::MAX);
            let mut unlimited = Shaper::new(Rate::UNLIMITED);
            unlimited.charge(now, u32::MAX);
            assert!(unlimited.is_open(now));
            assert_eq!(unlimited.due(), Nanos::ZERO);
        }
    }

    #[test]
    fn a_cut_leaves_the_packet_on_the_line_and_governs_the_next() {
        let mut line = line(8_000);
        line.charge(Nanos(0), 10);
        line.set_rate(Rate::bits_per_second(4_000).unwrap());
        assert_eq!(line.due(), Nanos(10_000_000));
        line.charge(line.due(), 1);
        assert_eq!(line.due(), Nanos(12_000_000));
    }

    #[test]
    fn a_cut_never_opens_a_line_earlier_however_much_is_owed() {
        for packets in [2_047, 2_048, 2_049, 4_096, 9_000] {
            let mut line = line(10_000_000_000);
            for _ in 0..packets {
                line.charge(Nanos(0), 1 << 20);
            }
            let due = line.due();
            line.set_rate(Rate::bits_per_second(9_900_000_000).unwrap());
            assert_eq!(line.due(), due, "{packets} MiB");
        }
    }

    #[test]
    fn a_raise_frees_the_line_of_a_slow_packet() {
        let start = Nanos::from_secs(9);
        for (from, to) in [(1_000, 1_000_000_000), (1_000, 1_001)] {
            let mut line = line(from);
            line.charge(start, 1_000);
            line.charge(start, 500);
            let fast = Rate::bits_per_second(to).unwrap();
            line.set_rate(fast);
            assert_eq!(line.due(), start.plus(fast.time_of(1_500)));
            assert_eq!(line.rate(), fast);
        }
        let mut line = line(1_000);
        line.charge(start, 1_500);
        line.set_rate(Rate::UNLIMITED);
        assert!(line.is_open(start));
    }

    #[test]
    fn stopping_and_starting_again_forgives_nothing() {
        let mut line = line(1_000_000_007);
        line.charge(Nanos(77), 1_500);
        let due = line.due();
        line.set_rate(Rate::STOPPED);
        line.set_rate(Rate::STOPPED);
        line.set_rate(Rate::bits_per_second(1_000_000_007).unwrap());
        assert_eq!(line.due(), due);
    }

    #[test]
    fn setting_the_rate_in_force_changes_nothing() {
        let mut line = line(7_000_003);
        line.charge(Nanos(77), 1_499);
        let before = line.clone();
        line.set_rate(line.rate());
        assert_eq!(line, before);
    }
}
