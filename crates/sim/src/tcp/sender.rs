//! The sending end: transmission, loss recovery and timers.
//!
//! **Source.**
//!
//! - RFC 6675 §5: recovery by SACK; losses are detected by [`scoreboard`](super).
//! - RFC 6937 §3: the window during its reduction.
//! - RFC 6298 §5: the timer.
//! - RFC 3168 §6.1.2: one reduction per window for marks.
//! - RFC 5681 §4.3: a lost retransmission reduces the window once more.
//! - RFC 8985: a retransmission is lost if a later segment has arrived. A gap below fewer than
//!   three segments is lost after a quarter of the minimum round-trip time (§6.2). A tail is probed
//!   after two round trips (§7.3).
//!
//! **Simplifications.** Rules 3 and 4 of `NextSeg` in RFC 6675 are omitted: the tail probe replaces
//! them. A probe that itself repairs the only loss does not reduce the window (RFC 8985 §7.4). A
//! spurious timeout is not undone.
//!
//! The sender has no clock and no events: call [`Sender::on_ack`] and [`Sender::on_timer`] for
//! events, then [`Sender::poll`] until it returns no segment; [`Sender::due`] returns the time of
//! the next timer.

use freeboard::sched_core::{Ecn, Nanos};

use super::congestion::{Cause, Controller, Feedback, Window};
use super::rto::Rto;
use super::scoreboard::{Scoreboard, Sent};
use super::{Ack, Data};

/// Reduction of the window during loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// In proportion to arrivals (RFC 6937), as in Linux.
    #[default]
    Proportional,
    /// At once: after the first retransmission nothing is sent before enough segments have left the
    /// network (RFC 6675).
    AtOnce,
}

/// Configuration of a connection.
#[derive(Debug)]
pub struct Config {
    /// Congestion control algorithm.
    pub control: Box<dyn Controller>,
    /// Number of segments to send; [`u32::MAX`] for a transfer without end.
    pub segments: u32,
    /// Receiver's window in segments.
    pub window: u32,
    /// Initial congestion window in segments. A window below 2 delays the second segment until the
    /// receiver's timer has expired.
    pub initial_window: u32,
    /// Loss recovery algorithm.
    pub recovery: Recovery,
    /// Paces segments even if the congestion control does not: at twice the window per round trip
    /// in slow start, 1.2 times later, the defaults of Linux (`tcp_pacing_ss_ratio` and
    /// `tcp_pacing_ca_ratio` in its `ip-sysctl` document).
    pub paced: bool,
}

impl Config {
    /// Creates the configuration of a transfer without end and without a window limit, with an
    /// initial window of ten segments (RFC 6928).
    #[must_use]
    pub fn new(control: Box<dyn Controller>) -> Self {
        let (segments, window) = (u32::MAX, u32::MAX);
        Self {
            control,
            segments,
            window,
            initial_window: Window::INITIAL.size as u32,
            recovery: Recovery::default(),
            paced: false,
        }
    }
}

/// Congestion state.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    /// After a loss or a mark, until everything below `end` is acknowledged.
    Reducing {
        end: u32,
        cause: Cause,
        /// `RecoverFS`, `prr_delivered` and `prr_out`.
        flight: u32,
        delivered: u32,
        out: u32,
    },
    /// After a timeout, until everything below `end` is acknowledged.
    TimedOut {
        end: u32,
    },
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Segments sent, including retransmissions.
    pub sent: u64,
    /// Retransmissions.
    pub repeated: u64,
    /// Window reductions caused by losses.
    pub losses: u64,
    /// Window reductions caused by marks of RFC 3168.
    pub marks: u64,
    /// Timeouts.
    pub timeouts: u64,
}

/// The sender of one connection.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    board: Scoreboard,
    rto: Rto,
    window: Window,
    state: State,
    /// Expiry of the retransmission timer; `None` while nothing is in flight.
    expires: Option<Nanos>,
    /// Time of the tail probe.
    probe: Option<Nanos>,
    /// True if a probe must be sent regardless of the window.
    probes: bool,
    /// No other probe is sent before everything below is acknowledged.
    probed_below: u32,
    /// Time at which a gap counts as lost.
    gap: Option<Nanos>,
    least: Option<Nanos>,
    /// Sending time and number of the arrived segment that was sent last.
    arrived: (Nanos, u32),
    /// Round-trip time of that segment.
    arrived_after: Nanos,
    delivered: u32,
    delivered_at: Nanos,
    first_at: Nanos,
    /// A round ends when a segment arrives that was sent after this count had been delivered.
    round_end: u32,
    marks: u32,
    /// Marks are ignored until a segment above this number is acknowledged: the first new segment
    /// informs the receiver of the last reduction.
    answered_below: u32,
    /// Time of the last window reduction for a loss or a mark.
    reduced_at: Nanos,
    /// True if the next new segment must report a window reduction.
    says_reduced: bool,
    /// True if the window delayed a segment since the last acknowledgement.
    limited: bool,
    /// Earliest time of the next segment, when paced.
    paced_until: Nanos,
    /// Segments in flight before the acknowledgement that is being processed.
    flight: u32,
    events: Events,
}

impl Sender {
    /// Creates an established connection with nothing sent.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let window = Window { size: config.initial_window.into(), ..Window::INITIAL };
        Self {
            config,
            board: Scoreboard::default(),
            rto: Rto::default(),
            window,
            state: State::Open,
            expires: None,
            probe: None,
            probes: false,
            probed_below: 0,
            gap: None,
            least: None,
            arrived: (Nanos::ZERO, 0),
            arrived_after: Nanos::ZERO,
            delivered: 0,
            delivered_at: Nanos::ZERO,
            first_at: Nanos::ZERO,
            round_end: 0,
            marks: 0,
            answered_below: 0,
            reduced_at: Nanos::ZERO,
            says_reduced: false,
            limited: false,
            paced_until: Nanos::ZERO,
            flight: 0,
            events: Events::default(),
        }
    }

    /// Returns the code point of new segments; retransmissions are [`Ecn::NotEct`] (RFC 3168
    /// §6.1.5).
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        self.config.control.ecn()
    }

    /// Returns the window.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Returns the estimated number of segments in the network.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.pipe()
    }

    /// Returns SRTT.
    #[must_use]
    pub fn smoothed(&self) -> Option<Nanos> {
        self.rto.smoothed()
    }

    /// Returns the counters.
    #[must_use]
    pub const fn events(&self) -> Events {
        self.events
    }

    /// Returns true if everything is acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.board.first() >= self.config.segments
    }

    /// Returns the time at which to call [`Sender::on_timer`].
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        [self.expires, self.probe, self.gap].into_iter().flatten().min()
    }

    /// Returns the time at which to call [`Sender::poll`] again because pacing delays a segment.
    #[must_use]
    pub fn paced_until(&mut self, now: Nanos) -> Option<Nanos> {
        let waits = self.paced_until > now && self.allows() && self.wants().is_some();
        waits.then_some(self.paced_until)
    }

    /// Processes an acknowledgement.
    pub fn on_ack(&mut self, now: Nanos, ack: &Ack) {
        if ack.next > self.board.next() {
            return;
        }
        let before = self.board.first();
        self.flight = self.board.outstanding();
        let (feedback, latest) = self.take_in(now, ack);
        let is_new = self.board.first() > before;
        if let Some(latest) = latest
            && latest >= self.arrived
        {
            (self.arrived, self.arrived_after) = (latest, now.since(latest.0));
        }
        let lost_again = self.board.judge_repeats(self.arrived);
        let news = self.board.judge() || lost_again.is_some();
        self.look_for_gap(now, news);
        let mut feedback = feedback;
        feedback.in_flight = self.board.pipe();
        self.config.control.hear(&mut self.window, &feedback);
        let repaired = self.leave_states();
        if lost_again.is_some_and(|sent| sent >= self.reduced_at) {
            self.reduce_again(now);
        }
        self.react(now, ack.echo);
        self.set_window(&feedback, is_new && !repaired);
        if is_new {
            self.restart_timer(now);
        }
        self.limited = false;
    }

    /// Records arrivals. The second value is sending time and number of the arrived segment that
    /// was sent last.
    fn take_in(&mut self, now: Nanos, ack: &Ack) -> (Feedback, Option<(Nanos, u32)>) {
        let before = self.board.first();
        let (mut delivered, mut rtt, mut newest) = (0, None, None::<Sent>);
        let least = self.least;
        let mut latest = None;
        let mut each = |number: u32, sent: &Sent| {
            delivered += 1;
            let since = now.since(sent.at);
            if !sent.repeated {
                rtt = Some(since);
            }
            // An earlier arrival may belong to a previous transmission (RFC 8985 §6.2, step 2).
            if !sent.repeated || least.is_some_and(|least| since >= least) {
                latest = latest.max(Some((sent.at, number)));
            }
            if newest
                .is_none_or(|newest| (newest.delivered, newest.at) <= (sent.delivered, sent.at))
            {
                newest = Some(*sent);
            }
        };
        self.board.acknowledge(ack.next, &mut each);
        ack.blocks().for_each(|block| self.board.sack(block, &mut each));
        if ack.next > before && rtt.is_none() {
            // Everything was sent more than once: the timestamp identifies the transmission.
            rtt = Some(now.since(ack.at));
        }
        if let Some(rtt) = rtt {
            // Each second segment is acknowledged.
            self.rto.sample(rtt, self.board.outstanding().div_ceil(2));
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        self.delivered += delivered;
        let (mut rate, mut round_begins) = (None, false);
        if let Some(newest) = newest {
            self.delivered_at = now;
            round_begins = newest.delivered >= self.round_end;
            if round_begins {
                self.round_end = self.delivered;
            }
            rate = self.rate(now, &newest);
            self.first_at = newest.at;
        }
        let marks = ack.marks.saturating_sub(self.marks);
        self.marks += marks;
        let smoothed = self.rto.smoothed().unwrap_or_default();
        let least = self.least.unwrap_or_default();
        let feedback = Feedback {
            now,
            rtt,
            smoothed,
            least,
            delivered,
            marks,
            in_flight: 0,
            round_begins,
            rate,
        };
        (feedback, latest)
    }

    /// Returns the delivery rate of an arrived segment
    /// (draft-cheng-iccrg-delivery-rate-estimation-00 §3.3).
    fn rate(&self, now: Nanos, sent: &Sent) -> Option<(f64, bool)> {
        let interval = sent.at.since(sent.first_at).max(now.since(sent.delivered_at));
        let is_long = self.least.is_some_and(|least| interval >= least) && interval > Nanos::ZERO;
        let segments = f64::from(self.delivered - sent.delivered);
        is_long.then(|| (segments / (interval.0 as f64 / 1e9), sent.starved))
    }

    /// Handles a gap below fewer segments than the threshold: a timer decides, except during
    /// recovery.
    fn look_for_gap(&mut self, now: Nanos, found: bool) {
        self.gap = None;
        let is_open =
            matches!(self.state, State::Open | State::Reducing { cause: Cause::Mark, .. });
        if found || !is_open || !self.board.has_sacked() {
            return;
        }
        if let Some(first) = self.board.get(self.board.first())
            && first.at <= self.arrived.0
        {
            let allowance = self.allowance();
            self.gap = Some(first.at.plus(self.arrived_after).plus(allowance).max(now));
        }
    }

    /// Returns the allowance for reordering (RFC 8985 §6.2, step 4).
    fn allowance(&self) -> Nanos {
        Nanos(self.least.unwrap_or_default().0 / 4)
    }

    /// Ends recovery when the segments in flight at its start are acknowledged. Returns true if it
    /// has ended.
    fn leave_states(&mut self) -> bool {
        let first = self.board.first();
        match self.state {
            State::Reducing { end, .. } if first >= end => {
                if !self.config.control.owns_window() {
                    self.window.size = self.window.threshold;
                }
            }
            State::TimedOut { end } if first >= end => (),
            _ => return false,
        }
        self.state = State::Open;
        true
    }

    /// Reduces the window for a loss or a mark, once per window in flight.
    fn react(&mut self, now: Nanos, echo: bool) {
        let has_loss = self.board.next_lost().is_some();
        let answers = echo
            && self.config.control.ecn() == Ecn::Ect0
            && self.board.first() > self.answered_below;
        match &mut self.state {
            State::Open if has_loss => self.begin_to_reduce(now, Cause::Loss),
            State::Open if answers => self.begin_to_reduce(now, Cause::Mark),
            // The window is already reduced: the losses are repaired within it.
            State::Reducing { cause: cause @ Cause::Mark, .. } if has_loss => {
                *cause = Cause::Loss;
                self.events.losses += 1;
            }
            _ => (),
        }
    }

    /// Reduces the window for the loss of a retransmission that was sent after the last reduction:
    /// two indications of congestion lower it twice (RFC 5681 §4.3). After a timeout the window is
    /// already one segment.
    fn reduce_again(&mut self, now: Nanos) {
        if matches!(self.state, State::Reducing { .. }) {
            self.begin_to_reduce(now, Cause::Loss);
        }
    }

    fn begin_to_reduce(&mut self, now: Nanos, cause: Cause) {
        let flight = self.window.size.min(self.flight.into());
        let threshold = self.config.control.reduce(now, flight, cause);
        if !self.config.control.owns_window() {
            self.window.threshold = threshold;
        }
        let (end, flight) = (self.board.next(), self.board.outstanding().max(1));
        self.state = State::Reducing { end, cause, flight, delivered: 0, out: 0 };
        (self.answered_below, self.reduced_at) = (end, now);
        match cause {
            Cause::Loss => self.events.losses += 1,
            Cause::Mark => {
                self.events.marks += 1;
                self.says_reduced = true;
            }
            Cause::Timeout => (),
        }
    }

    /// Sets the window after an acknowledgement.
    fn set_window(&mut self, feedback: &Feedback, grows: bool) {
        if self.config.control.owns_window() {
            return;
        }
        let pipe = self.board.pipe();
        let threshold = self.window.threshold;
        match &mut self.state {
            State::Reducing { flight, delivered, out, .. } => {
                *delivered += feedback.delivered;
                let least = u32::from(*out == 0);
                let more = match self.config.recovery {
                    Recovery::AtOnce => (threshold as u32).saturating_sub(pipe).max(least),
                    Recovery::Proportional => {
                        proportional(pipe, threshold, *flight, *delivered, *out, feedback)
                            .max(least)
                    }
                };
                self.window.size = f64::from(pipe + more);
            }
            State::Open | State::TimedOut { .. } => {
                if grows && self.limited {
                    self.config.control.grow(&mut self.window, feedback);
                }
            }
        }
    }

    /// Processes the timers that have expired at `now`.
    pub fn on_timer(&mut self, now: Nanos) {
        let is_due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        self.flight = self.board.outstanding();
        if is_due(self.gap) {
            self.gap = None;
            let limit = now.since(self.arrived_after.plus(self.allowance()));
            if self.board.judge_by_time(Nanos(limit.0)) {
                self.react(now, false);
                self.window.size = self.window.size.max(f64::from(self.board.pipe() + 1));
            }
        }
        if is_due(self.expires) {
            self.time_out(now);
        } else if is_due(self.probe) {
            self.probe = None;
            self.probes = true;
            self.probed_below = self.board.next();
        }
    }

    fn time_out(&mut self, now: Nanos) {
        let is_first = !matches!(self.state, State::TimedOut { .. });
        if is_first {
            let flight = self.window.size.min(self.board.outstanding().into());
            let threshold = self.config.control.reduce(now, flight, Cause::Timeout);
            if !self.config.control.owns_window() {
                self.window.threshold = threshold;
            }
        }
        self.events.timeouts += 1;
        self.window.size = 1.0;
        self.state = State::TimedOut { end: self.board.next() };
        self.answered_below = self.board.next();
        self.board.lose_all();
        self.rto.back_off();
        (self.probe, self.probes, self.gap) = (None, false, None);
        self.expires = Some(now.plus(self.rto.timeout()));
    }

    fn restart_timer(&mut self, now: Nanos) {
        let has_any = self.board.outstanding() > 0;
        self.expires = has_any.then(|| now.plus(self.rto.timeout()));
        self.arm_probe(now);
    }

    /// Sets the tail probe after two round trips, or later if the receiver may delay the
    /// acknowledgement of a single segment (RFC 8985 §7.2).
    fn arm_probe(&mut self, now: Nanos) {
        self.probe = None;
        let Some(smoothed) = self.rto.smoothed() else { return };
        let is_quiet = self.state == State::Open && !self.board.has_sacked();
        if is_quiet && self.board.outstanding() > 0 && self.board.first() >= self.probed_below {
            let alone = if self.board.outstanding() == 1 { 200 } else { 0 };
            let at = now.plus(Nanos(2 * smoothed.0)).plus(Nanos::from_millis(alone));
            self.probe = Some(at).filter(|at| self.expires.is_none_or(|expires| *at < expires));
        }
    }

    fn allows(&self) -> bool {
        self.probes || f64::from(self.board.pipe() + 1) <= self.window.size.max(1.0)
    }

    /// Returns the next segment to send if the window allows it.
    fn wants(&mut self) -> Option<u32> {
        if let Some(number) = self.board.next_lost() {
            return Some(number);
        }
        let next = self.board.next();
        if next < self.config.segments && self.board.outstanding() < self.config.window {
            return Some(next);
        }
        // A probe repeats the last segment if there is no new one.
        (self.probes && self.board.outstanding() > 0).then(|| next - 1)
    }

    /// Returns a segment to send at `now` and its code point. Call repeatedly until it returns
    /// `None`.
    pub fn poll(&mut self, now: Nanos) -> Option<(Data, Ecn)> {
        if !self.allows() {
            self.limited = true;
            return None;
        }
        let Some(number) = self.wants() else {
            self.probes = false;
            return None;
        };
        if self.paced_until > now {
            self.limited = true;
            return None;
        }
        Some(self.send(now, number))
    }

    fn send(&mut self, now: Nanos, number: u32) -> (Data, Ecn) {
        self.pace(now);
        if self.board.pipe() == 0 {
            // The network is empty: the delivery rate must not include the time before.
            (self.first_at, self.delivered_at) = (now, now);
        }
        let mut sent = Sent::new(now, self.delivered, self.delivered_at, self.first_at);
        let is_new = number == self.board.next();
        let is_last = is_new && number + 1 >= self.config.segments.min(u32::MAX - 1);
        sent.starved = is_last;
        let had_none = self.board.outstanding() == 0;
        self.events.sent += 1;
        if is_new {
            self.board.push(sent);
        } else {
            self.events.repeated += 1;
            self.board.repeat(number, sent);
        }
        if let State::Reducing { out, .. } = &mut self.state {
            *out += 1;
        }
        // Each retransmission restarts the timer (RFC 6675 §6); otherwise it would expire during a
        // long recovery.
        if had_none || self.probes || !is_new {
            self.expires = Some(now.plus(self.rto.timeout()));
        }
        if core::mem::take(&mut self.probes) {
            self.probe = None;
        } else if is_new {
            self.arm_probe(now);
        }
        let reduced = is_new && core::mem::take(&mut self.says_reduced);
        let ecn = if is_new { self.config.control.ecn() } else { Ecn::NotEct };
        (Data { number, reduced, at: now }, ecn)
    }

    /// Delays the next segment by the duration of this one at the pacing rate.
    fn pace(&mut self, now: Nanos) {
        let rate = self.config.control.pace().or_else(|| {
            let smoothed = self.rto.smoothed().filter(|_| self.config.paced)?;
            let ahead = if self.window.size < self.window.threshold / 2.0 { 2.0 } else { 1.2 };
            Some(ahead * self.window.size / (smoothed.0 as f64 / 1e9))
        });
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            self.paced_until = self.paced_until.max(now).plus(Nanos((1e9 / rate) as u64));
        }
    }
}

/// RFC 6937 §3.1: number of segments that may be sent for this acknowledgement.
fn proportional(
    pipe: u32,
    threshold: f64,
    flight: u32,
    delivered: u32,
    out: u32,
    feedback: &Feedback,
) -> u32 {
    if f64::from(pipe) > threshold {
        let part = libm::ceil(f64::from(delivered) * threshold / f64::from(flight));
        (part as u32).saturating_sub(out)
    } else {
        let limit = delivered.saturating_sub(out).max(feedback.delivered) + 1;
        (threshold as u32).saturating_sub(pipe).min(limit)
    }
}
