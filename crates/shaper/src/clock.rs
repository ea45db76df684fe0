//! Virtual clock of a shaper without a burst parameter. [`Shaper`] documents its guarantees.
//!
//! **Proof of the bound on bytes.** Let D be the bits still owed: a packet adds its bits, and D
//! falls with time at the rate. The link is open if and only if D ≤ 0 at that nanosecond. D < 0
//! means that the caller is late, by −D / rate. Each charge and each rate change first discards
//! lateness beyond `catch_up` (less than 1 ns counts as none), which raises D. A rate change leaves
//! D unchanged and has no remainder: times are kept in units of 1/rate of a nanosecond, in which D
//! is an integer. Over an interval (a, b] with charges C, integral of the rate R and discarded bits
//! F, D(b) = D(a) + C − R + F. The last packet left at D ≤ 0, so right after it D(b) is at most
//! that packet; D(a) is at least −(1 ns + `catch_up`) times the rate at a. Hence C minus one packet
//! is at most R plus this allowance. F is lost transmission time. It is zero for a caller that
//! comes at [`Shaper::due`], with one exception: a rate cut in the very nanosecond in which the
//! link opens discards the part of that nanosecond that one nanosecond at the new rate cannot hold.
//!
//! **Departure from the paper.** Line 9 of CAKE's Algorithm 1 moves the clock *back* to the present
//! when a packet arrives at an empty queue, so sparse packets would leave as fast as they arrive.
//! Here, as in deployed shapers, the clock only moves forward while the rate is constant.
//!
//! Cost: constant; three multiplications per packet, no division, no loop. A rate change divides
//! once, 128 bits by 64.

use sched_core::{FiniteRate, Nanos, Rate, Tick, Work};

/// A virtual clock: computes when the next packet may leave a link of a given [`Rate`].
///
/// Every packet moves the clock forward by the exact time its bytes take at the rate (CAKE §III-A,
/// Algorithm 1). The link is *open*, and a packet may leave, once real time has reached the clock.
/// Idle time is not saved, so there is no burst to configure and no burst after a pause.
///
/// # Guarantees
/// For any sequence of timestamps and rate changes:
/// - No packet leaves early: the link opens at the first whole nanosecond at or after the exact
///   time. If packets leave at [`Shaper::due`], the fraction of a nanosecond lost to rounding is
///   recovered with the next packet, so rounding errors never accumulate.
/// - In any interval, the bytes charged minus one packet are at most the integral of the rate over
///   the interval, plus the bytes that the rate at its start carries in 1 ns +
///   [`catch_up`](Shaper::catch_up). While the rate is [`Rate::UNLIMITED`] there is no bound.
/// - A clock that steps back gains and costs nothing: the link opens at the same time as without
///   the step. [`Nanos::MAX`] is the end of time: a packet that would leave after it never leaves.
///
/// # Examples
/// ```
/// use sched_core::Nanos;
/// use shaper::{Rate, Shaper};
///
/// let mut link = Shaper::new(Rate::megabits_per_second(1)?);
/// let now = Nanos::from_secs(5);
/// assert!(link.is_open(now));
/// link.charge(now, 1_500);
/// assert_eq!(link.due(), now.plus(Nanos::from_millis(12)));
/// assert!(!link.is_open(now.plus(Nanos(11_999_999))));
/// assert!(link.is_open(link.due()));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaper {
    rate: Rate,
    /// Earliest time of the next packet; the end of time if stopped, its beginning if unlimited.
    next: Tick,
    /// For stopped and unlimited links: the time up to which everything except `owed` is paid.
    /// [`Nanos::ZERO`] at a finite rate, where `next` holds it.
    paid: Nanos,
    /// Work owed by a stopped link; none at any other rate, where `next` holds it.
    owed: Work,
    /// Latest time at which a packet left or the rate changed; an earlier timestamp means that the
    /// clock stepped back. A rate change after `next` plus `catch_up` is recorded as `next`, so
    /// that a single wrong timestamp is soon forgotten.
    since: Nanos,
    catch_up: Nanos,
    /// Bytes that `catch_up` must carry, if the caller set a burst.
    burst: Option<u32>,
    /// True if the caller set `catch_up` or a burst.
    is_chosen: bool,
    /// Start of the backlog: time before it was idle and is not caught up. [`Nanos::MAX`] until
    /// there is a backlog.
    backlog_since: Nanos,
}

impl Shaper {
    /// Steps back by at most this much are ignored: clocks of different CPUs differ by less.
    const STEP_BACK: Nanos = Nanos::from_secs(1);

    /// Creates a link of this rate on which nothing has been sent. It does not catch up.
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

    /// Returns when a link of this rate that owes nothing is open.
    const fn first(rate: Rate) -> Tick {
        match rate.finite() {
            Some(limited) => limited.at(Nanos::ZERO),
            None if rate.is_unlimited() => Tick::without_rate(Nanos::ZERO),
            None => Tick::without_rate(Nanos::MAX),
        }
    }

    /// Sets how much time lost to a late caller is caught up.
    ///
    /// A caller whose timer ticks in milliseconds finds the link open up to 1 ms after
    /// [`due`](Self::due). By default this time is lost: at 1 Mbit/s and 12 ms per packet, half a
    /// millisecond per packet is 4 % of the rate. With a `span` as long as the timer's resolution,
    /// the next packets make up for the lost time and may leave back to back; they exceed the rate
    /// by at most the bytes that it carries in `span`. Idle time is not caught up if
    /// [`wake`](Self::wake) is called when a packet arrives at an empty queue.
    #[must_use]
    pub const fn with_catch_up(self, span: Nanos) -> Self {
        Self { catch_up: span, burst: None, is_chosen: true, ..self }
    }

    /// Sets the catch-up as a burst in bytes, which stays constant when the rate changes.
    ///
    /// Otherwise like [`with_catch_up`](Self::with_catch_up).
    ///
    /// **Bound.** In any interval, the bytes charged minus one packet are at most what the rate
    /// carries in the interval plus `bytes`, or plus what it carries in one nanosecond if that is
    /// more. If your timer fires every `t`, set at least the bytes that the rate carries in `t`.
    ///
    /// ```
    /// use sched_core::Nanos;
    /// use shaper::{Rate, Shaper};
    ///
    /// // 8 Mbit/s is a byte a microsecond.
    /// let mut link = Shaper::new(Rate::megabits_per_second(8)?).with_burst(4_000);
    /// assert_eq!((link.burst(), link.catch_up()), (Some(4_000), Nanos(3_999_999)));
    /// link.set_rate(Nanos::ZERO, Rate::megabits_per_second(16)?);
    /// assert_eq!(link.catch_up(), Nanos(1_999_999));
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn with_burst(self, bytes: u32) -> Self {
        let catch_up = Self::span_of(self.rate, bytes, self.catch_up);
        Self { catch_up, burst: Some(bytes), is_chosen: true, ..self }
    }

    /// Returns the catch-up with which a link at `rate` has a burst of `bytes`, including the
    /// nanosecond in which it opens; `before` if the rate is not finite.
    const fn span_of(rate: Rate, bytes: u32, before: Nanos) -> Nanos {
        if rate.finite().is_none() { before } else { rate.time_of(bytes).since(Nanos(1)) }
    }

    /// Sets the catch-up, unless the caller has chosen one.
    pub(crate) const fn or_catch_up(self, span: Nanos) -> Self {
        if self.is_chosen { self } else { Self { catch_up: span, ..self } }
    }

    /// Returns the rate at which the next packet is charged.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the longest delay of the caller that is caught up: see
    /// [`with_catch_up`](Self::with_catch_up).
    #[must_use]
    pub const fn catch_up(&self) -> Nanos {
        self.catch_up
    }

    /// Returns the burst in bytes, if it was [set in bytes](Self::with_burst).
    #[must_use]
    pub const fn burst(&self) -> Option<u32> {
        self.burst
    }

    /// Returns the first time at which the link is open.
    ///
    /// [`Nanos::MAX`] (never) if it is stopped or the end of time comes first; [`Nanos::ZERO`] if
    /// it is unlimited.
    #[must_use]
    #[inline]
    pub const fn due(&self) -> Nanos {
        self.next.ns
    }

    /// Returns true if a packet may leave at `now`.
    #[must_use]
    #[inline]
    pub const fn is_open(&self, now: Nanos) -> bool {
        let due = self.next.ns.0;
        due < now.0 || (due == now.0 && due < Nanos::MAX.0)
    }

    /// Charges a packet of `wire_len` bytes that leaves at `now`.
    ///
    /// Charging a closed link is allowed and delays its opening further, so you can charge packets
    /// that you dropped or sent without the shaper. On an unlimited link it has no effect. A
    /// `wire_len` above 2³⁰ counts as 2³⁰. On an open link, a `now` earlier than the last departure
    /// or rate change counts as that time.
    #[inline]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) {
        self.pay(now, wire_len.into());
    }

    /// Returns the rate if it is finite.
    #[inline]
    pub(crate) const fn limited(&self) -> Option<FiniteRate> {
        self.rate.finite()
    }

    /// Like [`Self::charge`], for lengths above `u32::MAX` too.
    #[inline]
    pub(crate) fn pay(&mut self, now: Nanos, wire_len: u64) {
        match self.rate.finite() {
            Some(limited) => self.pay_at(limited, now, wire_len.min(FiniteRate::LONGEST)),
            None => self.owe(wire_len),
        }
    }

    /// Charges at most [`FiniteRate::LONGEST`] bytes at this finite rate.
    #[inline]
    fn pay_at(&mut self, limited: FiniteRate, now: Nanos, wire_len: u64) {
        if now >= self.next.ns {
            self.pay_open(limited, now, wire_len);
        } else {
            self.next = limited.after_packet(self.next, wire_len);
        }
    }

    /// [`Self::pay_at`] for a link that is open.
    #[inline]
    pub(crate) fn pay_open(&mut self, limited: FiniteRate, now: Nanos, wire_len: u64) {
        let due = self.next.ns;
        // Common case: the clock moved forward, and the queue has been backlogged since the link
        // opened.
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

    /// Discards lateness that is not caught up, for a packet that leaves an open link at `now`.
    #[inline(never)]
    fn forget_lateness(&mut self, limited: FiniteRate, now: Nanos) {
        // Clamp a clock that stepped back: time before the last change did not pass at this rate.
        let now = now.max(self.since);
        // Less than a nanosecond late counts as on time, which keeps the exact time.
        self.backlog_since = self.backlog_since.min(now);
        let earliest = self.earliest(now);
        if earliest > self.next.ns {
            self.next = limited.at(earliest);
        }
        self.since = now;
    }

    /// Slow path of [`Self::pay`], for a rate that is not finite.
    #[cold]
    fn owe(&mut self, wire_len: u64) {
        if !self.rate.is_unlimited() {
            self.owed = self.owed.plus(wire_len.min(FiniteRate::LONGEST));
        }
    }

    /// Returns the first time from `now` on at which the link is open; `None` if there is none.
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

    /// [`Self::opens_at`] after the clock stepped back. Returns `now` if the next dequeue, which
    /// rebases the link at `now`, changes the time at which it opens.
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

    /// Returns the link rebased to `now` if the clock has stepped back by more than
    /// [`Self::STEP_BACK`] since the last departure or rate change.
    ///
    /// Timestamps before the step count as wrong: the rebased link opens after the time that
    /// remained at that departure or change, and has nothing to catch up.
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

    /// Returns the earliest time that a packet which leaves at `now` may be charged from.
    #[inline]
    pub(crate) fn earliest(&self, now: Nanos) -> Nanos {
        now.since(self.catch_up).max(self.backlog_since.min(now))
    }

    /// Ends idle time: a packet arrives at an empty queue at `now`.
    ///
    /// Time before `now` was idle and is not caught up. Without
    /// [`with_catch_up`](Self::with_catch_up) this has no effect. It never closes the link.
    #[inline]
    pub const fn wake(&mut self, now: Nanos) {
        self.backlog_since = now;
    }

    /// Charges `wire_len` bytes to idle time that ends at `now`.
    pub(crate) fn carry_idle(&mut self, now: Nanos, wire_len: u64) {
        if let Some(limited) = self.rate.finite() {
            self.next = limited.after_packet(self.next, wire_len.min(FiniteRate::LONGEST));
            self.since = self.since.max(now);
        }
    }

    /// Changes the rate at `now`.
    ///
    /// Packets on the link are paid at the old rate up to `now`, and their remaining bits at the
    /// new rate, exactly. So a link raised from 1 kbit/s opens soon, and a packet that left at 400
    /// Gbit/s one nanosecond before a cut delays the next packet by its remaining bits. Time that
    /// may be caught up is converted in the same way; lateness beyond [`catch_up`](Self::catch_up)
    /// is discarded. A stopped link keeps what it owes until it has a rate again; an unlimited link
    /// owes nothing. A link whose next packet would leave after the end of time stays closed.
    ///
    /// A `now` earlier than the last departure or rate change counts as that time. Setting the
    /// current rate changes nothing. Cost: a 128-bit division.
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
                // `paid` is in whole nanoseconds and not in the future; the rest is kept in `owed`,
                // or cancelled by an unlimited rate.
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

    /// Returns the time up to which everything except `owed` is paid.
    fn paid(&self) -> Nanos {
        if self.rate.finite().is_some() { self.next.ns } else { self.paid }
    }

    /// Sets the time up to which everything is paid, in whole nanoseconds, at the current rate.
    fn be_paid(&mut self, at: Nanos) {
        (self.next, self.paid) = match self.rate.finite() {
            Some(limited) => (limited.at(at), Nanos::ZERO),
            None => (Self::first(self.rate), at),
        };
    }

    /// Returns the work owed at `now`, negative if there is time to catch up; `None` if there is
    /// neither.
    fn work_at(&self, now: Nanos) -> Option<Work> {
        match self.rate.finite() {
            Some(limited) => {
                let is_in_time = self.earliest(now) <= self.next.ns;
                is_in_time.then(|| limited.work_between(now, self.next))
            }
            None => (self.owed != Work::NONE).then_some(self.owed),
        }
    }

    /// Sets the time of the next packet to `next`, as of `now`; it was `before`.
    fn be_due(&mut self, limited: FiniteRate, before: Nanos, next: Tick, now: Nanos) {
        let floor = now.since(self.catch_up);
        self.paid = Nanos::ZERO;
        self.next = if next.ns < floor { limited.at(floor) } else { next };
        if self.backlog_since <= before && before <= now {
            // Late, and backlogged throughout: all of the converted time may be caught up.
            self.backlog_since = self.backlog_since.min(self.next.ns);
        }
    }

    /// Forgets all packets charged, like a new link; keeps the rate and the settings.
    ///
    /// For a caller whose clock was replaced by one that reads less: without a reset the link stays
    /// closed until the new clock reaches the time that the old one had set.
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
