//! The shaper without a burst parameter: a virtual clock that says when the next packet may leave.
//!
//! Every packet moves the clock by the exact time its bytes take at the rate (CAKE §III-A,
//! Algorithm 1); a packet may leave when real time has caught up. Nothing is saved while the line
//! is idle, so there is no burst to configure and none after a pause.
//!
//! Promises, for any sequence of times and any history of rates:
//! - A packet never leaves early: the line is open from the first whole nanosecond at or after the
//!   exact instant. If packets leave when [`Shaper::due`] says, the fraction of a nanosecond lost
//!   there is made up at the next, and no error adds up, ever.
//! - In any span the bytes charged, less one packet, are at most the integral of the rate over the
//!   span, and the bytes that the rate at its beginning carries in 1 ns +
//!   [`catch_up`](Shaper::catch_up). While the rate is [`Rate::UNLIMITED`] the integral has no
//!   bound.
//! - A clock that steps back buys nothing and costs nothing: the line opens at the instant it
//!   always would have. One that reads [`Nanos::MAX`] is at the end of time: what would leave after
//!   it never does.
//!
//! **Proof of the integral bound.** Let D be what is still owed, in bits: a packet adds its bits,
//! and D falls with time at the rate. A line is open if and only if D ≤ 0 at that nanosecond.
//! Where D < 0 the line is late, by −D / rate; each charge and each change of the rate first
//! forgets lateness beyond `catch_up` (below one nanosecond is none), which raises D. A change of
//! the rate leaves D as it is and has no remainder: an instant counts in 1/rate of a nanosecond,
//! in which D is an integer. Over a span (a, b] with charges C, integral R and lateness F
//! forgotten, D(b) = D(a) + C − R + F. The last packet left at D ≤ 0, so just after it D(b) is at
//! most that packet; D(a) is at least −(1 ns + `catch_up`) times the rate at a. Hence C less one
//! packet is at most R and that allowance. F is lost time. For a caller that comes when
//! [`Shaper::due`] says, F is zero but for one case. A cut of the rate in the very nanosecond in
//! which the line opens forgets the part of that nanosecond that a nanosecond of the new rate
//! cannot hold.
//!
//! We depart from the paper's line 9, which moves the clock *back* to the present when a packet
//! arrives at an empty queue: sparse packets would then leave as fast as they come. Here, as in
//! deployed shapers, the clock only moves forward while the rate stays.
//!
//! Cost: constant; three multiplications a packet, no division, no loop. A change of the rate
//! divides once, 128 bits by 64.

use sched_core::{FiniteRate, Nanos, Rate, Tick, Work};

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
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaper {
    rate: Rate,
    /// The instant from which the next packet may leave: at the end of time when the line is
    /// stopped, at its beginning when it is unlimited.
    next: Tick,
    /// The instant up to which a line without a finite rate has paid, but for what it owes;
    /// [`Nanos::ZERO`] at any other rate, where `next` says it.
    paid: Nanos,
    /// What a stopped line owes; nothing at any other rate, where `next` says it.
    owed: Work,
    /// The latest instant at which a packet left or the rate changed: a reading before it is of a
    /// clock that stepped back. A change later than `next` and `catch_up` counts as `next`, so
    /// that one wrong reading is soon forgotten.
    since: Nanos,
    catch_up: Nanos,
    /// The bytes that `catch_up` is to carry, if the caller chose bytes.
    burst: Option<u32>,
    /// Whether the caller chose `catch_up`.
    is_chosen: bool,
    /// Lateness reaches back to here: before it there was nothing to send. [`Nanos::MAX`] until
    /// something was.
    backlog_since: Nanos,
}

impl Shaper {
    /// Clocks of different processors are apart by less.
    const STEP_BACK: Nanos = Nanos::from_secs(1);

    /// A line of this rate on which nothing has been sent. It does not catch up.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            next: Self::first(rate),
            paid: Nanos::ZERO,
            owed: Work::NONE,
            since: Nanos::ZERO,
            catch_up: Nanos::ZERO,
            burst: None,
            is_chosen: false,
            backlog_since: Nanos::MAX,
        }
    }

    /// When a line of this rate is open that owes nothing.
    const fn first(rate: Rate) -> Tick {
        match rate.finite() {
            Some(limited) => limited.at(Nanos::ZERO),
            None if rate.is_unlimited() => Tick::without_rate(Nanos::ZERO),
            None => Tick::without_rate(Nanos::MAX),
        }
    }

    /// The same line for a caller that may come late by up to `span`.
    ///
    /// A caller whose timer ticks in milliseconds finds the line open up to 1 ms after the instant
    /// [`due`](Self::due) named. By default this lateness is lost to the rate: at 1 Mbit/s and
    /// 12 ms a packet, half a millisecond each is 4 %. With a `span` as long as the timer's grain
    /// the next packets make up for the lost time, and may follow each other at once. They are at
    /// most the bytes of `span` more than the rate allows. Idle time is not lateness if
    /// [`wake`](Self::wake) is called when a packet arrives at an empty queue.
    #[must_use]
    pub const fn with_catch_up(self, span: Nanos) -> Self {
        Self { catch_up: span, burst: None, is_chosen: true, ..self }
    }

    /// The same line for a caller that may come late, with a burst of up to `bytes` then:
    /// [`with_catch_up`](Self::with_catch_up) in bytes, which stay the same when the rate changes.
    ///
    /// **Bound.** In any span of time the bytes charged, less one packet, are at most what the rate
    /// carries in it and `bytes`; or, where the rate carries more in a nanosecond, as many as that.
    /// A caller whose timer comes every `t` wants what the rate carries in `t`, at least.
    ///
    /// ```
    /// use sched_core::Nanos;
    /// use shaper::{Rate, Shaper};
    ///
    /// // 8 Mbit/s is a byte a microsecond.
    /// let mut line = Shaper::new(Rate::megabits_per_second(8)?).with_burst(4_000);
    /// assert_eq!((line.burst(), line.catch_up()), (Some(4_000), Nanos(3_999_999)));
    /// line.set_rate(Nanos::ZERO, Rate::megabits_per_second(16)?);
    /// assert_eq!(line.catch_up(), Nanos(1_999_999));
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn with_burst(self, bytes: u32) -> Self {
        let catch_up = Self::span_of(self.rate, bytes, self.catch_up);
        Self { catch_up, burst: Some(bytes), is_chosen: true, ..self }
    }

    /// The catch-up that carries `bytes` at `rate`, with the nanosecond in which a line opens;
    /// `before`, if it has none.
    const fn span_of(rate: Rate, bytes: u32, before: Nanos) -> Nanos {
        if rate.finite().is_none() { before } else { rate.time_of(bytes).since(Nanos(1)) }
    }

    /// The same line, with this catch-up unless [`with_catch_up`](Self::with_catch_up) chose one.
    pub(crate) const fn or_catch_up(self, span: Nanos) -> Self {
        if self.is_chosen { self } else { Self { catch_up: span, ..self } }
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

    /// The burst in bytes, if it was [given in bytes](Self::with_burst).
    #[must_use]
    pub const fn burst(&self) -> Option<u32> {
        self.burst
    }

    /// The first instant at which the line is open: [`Nanos::MAX`] (never) when it is stopped or
    /// the end of time comes first, [`Nanos::ZERO`] when it is unlimited.
    #[must_use]
    #[inline]
    pub const fn due(&self) -> Nanos {
        self.next.ns
    }

    /// Whether a packet may leave at `now`.
    #[must_use]
    #[inline]
    pub const fn is_open(&self, now: Nanos) -> bool {
        let due = self.next.ns.0;
        due < now.0 || (due == now.0 && due < Nanos::MAX.0)
    }

    /// A packet of `wire_len` bytes leaves at `now`.
    ///
    /// Charging a closed line is legal and puts it off further: a caller may charge packets that it
    /// has dropped or sent past the shaper. On an unlimited line it has no effect. A `wire_len`
    /// above 2³⁰ counts as 2³⁰. On an open line, `now` before the last packet left, or before the
    /// last change of the rate, counts as that instant.
    #[inline]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) {
        self.pay(now, wire_len.into());
    }

    /// The rate, if it is finite.
    #[inline]
    pub(crate) const fn limited(&self) -> Option<FiniteRate> {
        self.rate.finite()
    }

    /// [`Self::charge`], of a length that no `u32` may hold.
    #[inline]
    pub(crate) fn pay(&mut self, now: Nanos, wire_len: u64) {
        match self.rate.finite() {
            Some(limited) => self.pay_at(limited, now, wire_len.min(FiniteRate::LONGEST)),
            None => self.owe(wire_len),
        }
    }

    /// [`Self::pay`], at this rate, which is finite, of no more bytes than [`FiniteRate::LONGEST`].
    #[inline]
    fn pay_at(&mut self, limited: FiniteRate, now: Nanos, wire_len: u64) {
        if now >= self.next.ns {
            self.pay_open(limited, now, wire_len);
        } else {
            self.next = limited.after_packet(self.next, wire_len);
        }
    }

    /// [`Self::pay_at`], of a line that is open.
    #[inline]
    pub(crate) fn pay_open(&mut self, limited: FiniteRate, now: Nanos, wire_len: u64) {
        let due = self.next.ns;
        // Most packets leave by a clock that goes on, while there has been something to send since
        // the line was free.
        if now >= self.since && self.backlog_since <= due {
            self.since = now;
            let late = now.0.wrapping_sub(due.0);
            if late > self.catch_up.0 {
                self.next = limited.at(Nanos(now.0.wrapping_sub(self.catch_up.0)));
            }
        } else {
            self.forget_lateness(limited, now);
        }
        self.next = limited.after_packet(self.next, wire_len);
    }

    /// A packet leaves at `now`, on an open line, and lateness that is not made up is lost.
    #[inline(never)]
    fn forget_lateness(&mut self, limited: FiniteRate, now: Nanos) {
        // A clock that stepped back stands: time before the last change is not time at this rate.
        let now = now.max(self.since);
        // Less than a nanosecond late is not late: the exact instant stays.
        self.backlog_since = self.backlog_since.min(now);
        let earliest = self.earliest(now);
        if earliest > self.next.ns {
            self.next = limited.at(earliest);
        }
        self.since = now;
    }

    /// The rest of [`Self::pay`], at a rate that is not finite.
    #[cold]
    fn owe(&mut self, wire_len: u64) {
        if !self.rate.is_unlimited() {
            self.owed = self.owed.plus(wire_len.min(FiniteRate::LONGEST));
        }
    }

    /// Returns the first instant from `now` on at which the line is open; `None` if it never is.
    #[inline]
    pub(crate) fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        if self.is_open(now) {
            return Some(now);
        }
        if self.has_stepped_back(now) {
            return self.opens_after_step_back(now);
        }
        Some(self.due()).filter(|&due| due < Nanos::MAX)
    }

    /// [`Self::opens_at`], where the clock has stepped back: a dequeue at `now` sets the line
    /// right, if that opens at another instant then.
    #[cold]
    #[inline(never)]
    fn opens_after_step_back(&self, now: Nanos) -> Option<Nanos> {
        let is_moved = self.rebased(now).due() != self.due();
        Some(if is_moved { now } else { self.due() }).filter(|&at| at < Nanos::MAX)
    }

    #[inline]
    const fn has_stepped_back(&self, now: Nanos) -> bool {
        now.0.saturating_add(Self::STEP_BACK.0) < self.since.0
    }

    /// Returns the line with which time goes on at `now`, if the clock has stepped back by more
    /// than [`Self::STEP_BACK`] since a packet left or the rate changed: the timestamps until then
    /// were wrong. It opens after the time that it had left at that departure or change, and
    /// catches up no lateness.
    #[inline]
    pub(crate) fn after_step_back(&self, now: Nanos) -> Option<Self> {
        self.has_stepped_back(now).then(|| self.rebased(now))
    }

    #[cold]
    #[inline(never)]
    fn rebased(&self, now: Nanos) -> Self {
        let mut line = Self { since: now, backlog_since: now, ..self.clone() };
        match self.rate.finite() {
            Some(_) => line.next.ns = now.plus(self.next.ns.since(self.since)),
            None => line.paid = now.plus(self.paid.since(self.since)),
        }
        line
    }

    /// The earliest instant for which a packet may count that leaves at `now`.
    #[inline]
    pub(crate) fn earliest(&self, now: Nanos) -> Nanos {
        now.since(self.catch_up).max(self.backlog_since.min(now))
    }

    /// A packet arrives at `now` and finds the queue empty: time before it was idle, not late.
    ///
    /// Without [`with_catch_up`](Self::with_catch_up) there is no difference between the two, and
    /// this has no effect. It never closes the line.
    #[inline]
    pub const fn wake(&mut self, now: Nanos) {
        self.backlog_since = now;
    }

    /// The line carries `wire_len` bytes in idle time, which lasts until `now`.
    pub(crate) fn carry_idle(&mut self, now: Nanos, wire_len: u64) {
        if let Some(limited) = self.rate.finite() {
            self.next = limited.after_packet(self.next, wire_len.min(FiniteRate::LONGEST));
            self.since = self.since.max(now);
        }
    }

    /// Changes the rate at `now`.
    ///
    /// Packets on the line are paid at the old rate up to `now`, and the bits left then at the new
    /// rate, to the last bit. So a line at 1 kbit/s that is raised opens soon, and a packet that
    /// left at 400 Gbit/s a nanosecond before a cut delays the next packet by the rest of its bits.
    /// Lateness that may be caught up is converted in the same way; lateness beyond
    /// [`catch_up`](Self::catch_up) is forgotten. A stopped line keeps what it owes until it has a
    /// rate again; an unlimited one owes nothing. A line whose next packet would leave after the
    /// end of time stays closed.
    ///
    /// `now` before the last packet left, or before the last change, counts as that instant.
    /// Setting the rate that is in force changes nothing. Cost: a division of 128 bits.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        if rate == self.rate {
            return;
        }
        let now = now.max(self.since);
        let (due, work) = (self.paid(), self.work_at(now));
        self.rate = rate;
        if let Some(bytes) = self.burst {
            self.catch_up = Self::span_of(rate, bytes, self.catch_up);
        }
        if due == Nanos::MAX && !rate.is_unlimited() {
            self.be_paid(due);
            return;
        }
        self.owed = Work::NONE;
        match (rate.finite(), work) {
            (Some(limited), Some(work)) => self.be_due(limited, due, limited.after(now, work), now),
            (_, work) => {
                // In whole nanoseconds, and open: what is owed is kept apart, or is no more.
                self.be_paid(due.min(now));
                self.backlog_since = self.backlog_since.max(now);
                if !rate.is_unlimited() {
                    self.owed = work.unwrap_or(Work::NONE).or_none();
                }
            }
        }
        let due = self.paid();
        self.since = if now <= due.plus(self.catch_up) { now } else { due };
    }

    /// The instant up to which all is paid, but for what is owed.
    fn paid(&self) -> Nanos {
        if self.rate.finite().is_some() { self.next.ns } else { self.paid }
    }

    /// All is paid up to `at`, in whole nanoseconds, at the rate that is now in force.
    fn be_paid(&mut self, at: Nanos) {
        (self.next, self.paid) = match self.rate.finite() {
            Some(limited) => (limited.at(at), Nanos::ZERO),
            None => (Self::first(self.rate), at),
        };
    }

    /// What is owed at `now`, or less than nothing for lateness that may be caught up; `None` on a
    /// line that owes nothing and has nothing to catch up.
    fn work_at(&self, now: Nanos) -> Option<Work> {
        match self.rate.finite() {
            Some(limited) => {
                let is_in_time = self.earliest(now) <= self.next.ns;
                is_in_time.then(|| limited.work_between(now, self.next))
            }
            None => (self.owed != Work::NONE).then_some(self.owed),
        }
    }

    /// The next packet may leave from `next` on, as it turns out at `now`; so far it was `before`.
    fn be_due(&mut self, limited: FiniteRate, before: Nanos, next: Tick, now: Nanos) {
        let floor = now.since(self.catch_up);
        self.paid = Nanos::ZERO;
        self.next = if next.ns < floor { limited.at(floor) } else { next };
        if self.backlog_since <= before && before <= now {
            // Late, and busy all the while: lateness reaches as far back as it now counts.
            self.backlog_since = self.backlog_since.min(self.next.ns);
        }
    }

    /// Forgets every packet charged, as on a new line; rate and settings stay.
    ///
    /// For a caller whose clock was replaced by one that reads less: without it the line stays
    /// closed until the new clock reaches the instant that the old one had set.
    pub fn reset(&mut self) {
        let Self { rate, catch_up, burst, is_chosen, .. } = *self;
        *self = Self { catch_up, burst, is_chosen, ..Self::new(rate) };
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
    fn a_cut_governs_what_is_left_of_the_packet_on_the_line() {
        let mut line = line(8_000);
        line.charge(Nanos(0), 10);
        line.set_rate(Nanos(2_000_000), Rate::bits_per_second(4_000).unwrap());
        assert_eq!(line.due(), Nanos(18_000_000));
        line.charge(line.due(), 1);
        assert_eq!(line.due(), Nanos(20_000_000));
    }

    #[test]
    fn a_cut_never_opens_a_line_earlier_however_much_is_owed() {
        for packets in [2_047, 2_048, 2_049, 4_096, 9_000] {
            let mut line = line(10_000_000_000);
            for _ in 0..packets {
                line.charge(Nanos(0), 1 << 20);
            }
            let before = line.due();
            line.set_rate(Nanos(5), Rate::bits_per_second(9_900_000_000).unwrap());
            let left: u64 = (packets << 20) * 8 - 50; // bits
            assert_eq!(line.due(), Nanos(5 + (left * 10).div_ceil(99)), "{packets} MiB");
            assert!(line.due() > before);
        }
    }

    #[test]
    fn a_raise_frees_the_line_of_a_slow_packet_and_forgives_no_bit_of_it() {
        let start = Nanos::from_secs(9);
        for (from, to) in [(1_000, 1_000_000_000), (1_000, 1_001)] {
            let mut line = line(from);
            line.charge(start, 1_000);
            line.charge(start, 500);
            let fast = Rate::bits_per_second(to).unwrap();
            line.set_rate(start.plus(Nanos::from_secs(4)), fast);
            assert_eq!(line.due(), start.plus(Nanos::from_secs(4)).plus(fast.time_of(1_000)));
            assert_eq!(line.rate(), fast);
        }
        let mut line = line(1_000);
        line.charge(start, 1_500);
        line.set_rate(start, Rate::UNLIMITED);
        assert!(line.is_open(start));
        line.set_rate(start, Rate::bits_per_second(1_000).unwrap());
        assert!(line.is_open(start), "without a limit everything is paid at once");
    }

    #[test]
    fn stopping_and_starting_again_forgives_nothing_and_no_time_passes_between() {
        let rate = Rate::bits_per_second(1_000_000_007).unwrap();
        let mut line = Shaper::new(rate);
        line.charge(Nanos(77), 1_500);
        let due = line.due();
        line.set_rate(Nanos(1_077), Rate::STOPPED);
        line.set_rate(Nanos(2_000), Rate::STOPPED);
        line.set_rate(Nanos(3_077), rate);
        assert_eq!(line.due(), due.plus(Nanos(2_000)));
        line.set_rate(Nanos(3_077), Rate::STOPPED);
        line.charge(Nanos(3_077), 125);
        line.set_rate(Nanos(3_077), rate);
        assert_eq!(line.due(), due.plus(Nanos(3_000)), "charged while stopped: 1 µs more");
    }

    #[test]
    fn a_change_keeps_an_open_line_open_whatever_the_clock_reads() {
        for catch_up in [Nanos::ZERO, Nanos(1_000_000)] {
            let mut line = line(8_000).with_catch_up(catch_up);
            for (rate, now) in [(8_000, 5), (16_000, u64::MAX), (8_000, 0), (1_000, 1 << 60)] {
                line.set_rate(Nanos(now), Rate::bits_per_second(rate).unwrap());
                assert!(line.is_open(Nanos(9)), "{rate} at {now}: {:?}", line.due());
            }
        }
    }

    #[test]
    fn lateness_keeps_its_bits_over_a_change_up_to_the_catch_up() {
        let late = |from, to| {
            let mut line = line(from).with_catch_up(Nanos(1_000_000));
            line.charge(Nanos(0), 1_000);
            let due = line.due();
            line.set_rate(due.plus(Nanos(500_000)), Rate::bits_per_second(to).unwrap());
            line.charge(due.plus(Nanos(500_000)), 1_000);
            let whole = Rate::bits_per_second(to).unwrap().time_of(1_000);
            due.plus(Nanos(500_000)).plus(whole).since(line.due())
        };
        assert_eq!(late(8_000_000, 16_000_000), Nanos(250_000), "500 bytes at twice the rate");
        assert_eq!(late(8_000_000, 5_000_000), Nanos(800_000));
        assert_eq!(late(8_000_000, 1_000_000), Nanos(1_000_000), "no more than the catch-up");
    }

    #[test]
    fn setting_the_rate_in_force_changes_nothing() {
        let mut line = line(7_000_003);
        line.charge(Nanos(77), 1_499);
        let before = line.clone();
        line.set_rate(Nanos(78), line.rate());
        assert_eq!(line, before);
    }
}
