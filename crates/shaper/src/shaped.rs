//! Any scheduler behind a line of a given rate.

use sched_core::{
    Backlog, Books, Counters, DropReason, DropSink, FiniteRate, FlowId, Imbalance, Limits, Nanos,
    Packet, Rejected, Scheduler,
};

use crate::segments::Whole;
use crate::{Overhead, Rate, Segmentation, Shaper};

/// The scheduler `S` in front of a line.
///
/// `Shaped` is a [`Scheduler`] itself: [`dequeue`](Scheduler::dequeue) gives a packet only when the
/// line is open, and [`poll_at`](Scheduler::poll_at) says when it will be.
///
/// The scheduler inside decides *which* packet is next and knows nothing of rates; the [`Shaper`]
/// decides *when* and knows nothing of flows. A packet is charged its length on the wire when it
/// leaves, with the [`Overhead`] in force then. The scheduler's own books count the length that was
/// given at enqueue, so that no change of the link can unbalance them.
///
/// Packets that the scheduler drops are not charged: they never reach the line.
///
/// A super-packet, several packets in one, is charged segment by segment by
/// [`dequeue_segmented`](Shaped::dequeue_segmented).
///
/// **Ingress.** With a bottleneck *before* the queue, as on a download behind a provider's queue, a
/// packet dropped here has already passed it. [`Shaped::set_ingress`] makes the link pay for
/// packets that are rejected or dropped by a full queue, an AQM or an ACK filter, as CAKE does with
/// the keyword `ingress`. So arrivals keep to the rate, not departures, and the provider's queue
/// stays empty as soon as senders react.
///
/// - Dropped bytes are a debt. While there is one, each packet that leaves pays for up to half of
///   its own length of it. So at least two thirds of the rate leave, whatever is dropped: senders
///   that do not react cannot stop the link.
/// - A debt lasts [`Shaped::INGRESS_DEBT`], one second: what is not paid a second after the first
///   packet that paid for it is forgiven, and with it later drops of as many bytes as are queued
///   then.
/// - So from a second after a flood on, also if the rate is cut meanwhile, departures and drops
///   together take at least the rate while packets are queued. Under a load that fits, the queue
///   that the flood has left shrinks by what the load leaves of the rate. Packets that an AQM drops
///   from that queue are charged: until it is empty, as little as two thirds of the rate may leave.
///   From then on the load is served as without ingress.
/// - Idle time in which the link can carry the whole debt pays it, once. That may be idle time
///   before the drops: what has arrived since then still fits the rate. All of it counts at the
///   present rate, time at another one too.
/// - Departures never exceed the rate: the promises of [`Shaper`] hold as without ingress.
/// - Packets dropped by [limits](Scheduler::set_limits),
///   [removal](sched_core::DropReason::FlowRemoved) and [`drain`](Scheduler::drain) are not
///   charged, as no sender caused their loss; nor are any while the rate is [`Rate::STOPPED`] or
///   [`Rate::UNLIMITED`].
///
/// **Late callers.** A caller that a timer or an interrupt wakes comes late. [`Shaped`] makes up
/// for up to [`Shaped::CATCH_UP`] of that, 10 ms, unless its line was given another span with
/// [`Shaper::with_catch_up`]; [`Nanos::ZERO`] makes it exact. Packets that were late may then
/// follow at once: a burst of the bytes that the rate carries in 10 ms, beside one packet: 12.5 kB
/// at 10 Mbit/s, 1.25 MB at 1 Gbit/s. There is no burst after idle time, and none for a caller that
/// comes when [`poll_at`](Scheduler::poll_at) says. Without catching up, packets of 1,250 bytes at
/// 5,000 kbit/s and a timer of 1 ms that begins anew after each look give 3,440 kbit/s.
///
/// **A clock that steps back** by up to a second stops the link for as long at most: it opens when
/// it would have without the step. After a longer step the readings before it were wrong, and time
/// goes on with the first [`dequeue`](Scheduler::dequeue) or [`set_rate`](Self::set_rate) that gets
/// the new timestamp: the next packet waits no longer than the last one takes on the wire. So
/// neither a clock that was set back, nor one reading far ahead, nor a counter that wrapped around
/// stops the link. Rates and ceilings of hosts have the same rule.
///
/// **The rule of idle time** stands here and nowhere else. Time is idle, and not late, while the
/// queue is empty, and while none of its packets may leave: above a
/// [ceiling](sched_core::TokenBucket), or behind a line of their own. Every way in and out keeps
/// the rule: [`Scheduler::enqueue`], bursts, [`Shaped::arrival`] for queues that take more than a
/// flow, [`Scheduler::dequeue`] and [`Shaped::inner_mut`].
///
/// A burst out is its packets one by one, each charged: it touches no memory ahead, as a burst of
/// the scheduler's own may, unless the line is unlimited.
///
/// Cost: a comparison, the wire length, a charge and a [`poll_at`](Scheduler::poll_at) on top of
/// the scheduler's own.
///
/// ```
/// use sched_core::{Fifo, FlowId, Limits, Nanos, Packet, Scheduler, Descriptor};
/// use shaper::{Overhead, Rate, Shaped, Shaper};
///
/// let fifo = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
/// let line = Shaper::new(Rate::megabits_per_second(1)?);
/// let mut uplink = Shaped::new(fifo, line, Overhead::ETHERNET);
///
/// let drops = &mut |_, _| unreachable!("there is room");
/// let now = Nanos::from_secs(1);
/// for handle in 0..2 {
///     uplink.enqueue(now, FlowId(0), Packet::new(handle, 1_462), drops)?;
/// }
/// assert!(uplink.dequeue(now, drops).is_some());
/// // 1,500 bytes with overhead take 12 ms.
/// let next = now.plus(Nanos::from_millis(12));
/// assert_eq!(uplink.dequeue(now, drops), None);
/// assert_eq!(uplink.poll_at(now), Some(next));
/// assert!(uplink.dequeue(next, drops).is_some());
/// assert_eq!(uplink.poll_at(next), None, "nothing is queued");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shaped<S: ?Sized> {
    line: Shaper,
    link: Overhead,
    /// What was dropped and not paid yet, with ingress.
    debt: Option<Debt>,
    inner: S,
}

/// What departures pay for drops.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// Bytes on the wire that were dropped and are not paid yet. Less than zero: as many may be
    /// dropped for nothing, but no more than are queued.
    owed: i64,
    /// When it is forgiven; [`Nanos::MAX`] until a packet pays for some of it.
    until: Nanos,
}

impl Debt {
    const NONE: Self = Self { owed: 0, until: Nanos::MAX };

    /// Adds bytes that were dropped, with so many still queued. No time is needed: it runs from the
    /// first payment on.
    fn add(&mut self, lost: u64, queued: impl FnOnce() -> u32) {
        // Bytes of a counter: below 2⁶³.
        let lost = lost.min(FiniteRate::LONGEST).cast_signed();
        if self.owed < 0 {
            self.bound_credit(lost.wrapping_add(queued().into()));
        }
        self.owed = self.owed.wrapping_add(lost).min(FiniteRate::LONGEST.cast_signed());
    }

    /// No more than what is queued may be dropped for nothing.
    fn bound_credit(&mut self, queued: i64) {
        self.owed = self.owed.max(queued.wrapping_neg());
    }

    /// What a packet of `wire_len` bytes that leaves at `now` pays for, beside itself.
    fn payment(&mut self, now: Nanos, wire_len: u64, queued: impl FnOnce() -> u32) -> u64 {
        if self.owed <= 0 {
            if self.owed < 0 {
                self.bound_credit(queued().into());
            }
            return 0;
        }
        let part = wire_len.wrapping_shr(1).min(self.owed.unsigned_abs());
        self.owed = self.owed.wrapping_sub_unsigned(part);
        self.until = self.until.min(now.plus(Shaped::<()>::INGRESS_DEBT));
        if self.owed == 0 {
            *self = Self::NONE;
        } else if now >= self.until {
            // All that has arrived is forgiven, so that drops among what is still queued are no new
            // debt.
            *self = Self { owed: i64::from(queued()).wrapping_neg(), ..Self::NONE };
        }
        part
    }

    /// `line` is idle until `now`, when there is no packet that may leave. Drops need no time of
    /// their own: what the line can carry in this time has kept to the rate.
    fn idle(&mut self, line: &mut Shaper, now: Nanos, queued: impl FnOnce() -> u32) {
        let owed = u32::try_from(self.owed).unwrap_or(u32::MAX);
        if self.owed < 0 {
            self.bound_credit(queued().into());
        } else if owed > 0 && line.due().plus(line.rate().time_of(owed)) <= now {
            line.carry_idle(now, owed.into());
            *self = Self::NONE;
        }
    }
}

/// Counts what is dropped on its way to another sink.
struct Charging<'a, G> {
    drops: &'a mut dyn DropSink,
    link: &'a Overhead,
    /// Which packets are super-packets.
    of: &'a G,
    /// Bytes on the wire.
    lost: &'a mut u64,
}

impl<G: Segmentation> DropSink for Charging<'_, G> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        use DropReason::{Aqm, Filtered, Overflow, Rejected};
        if matches!(reason, Overflow | Aqm | Filtered | Rejected) {
            *self.lost = self.lost.saturating_add(wire_len_of_lost(self.link, packet, self.of));
        }
        self.drops.dropped(packet, reason);
    }
}

/// What a packet that is lost here took on the way; nothing for a length that no packet has.
fn wire_len_of_lost(link: &Overhead, packet: Packet, of: &impl Segmentation) -> u64 {
    if packet.len > Packet::MAX_LEN { 0 } else { wire_len(link, packet, of) }
}

/// What a packet is on the wire, or the segments of a super-packet.
#[inline(always)]
fn wire_len(link: &Overhead, packet: Packet, of: &impl Segmentation) -> u64 {
    match of.segments(packet) {
        None => link.on_wire(packet.len),
        Some(segments) => link.wire_len_of(segments).min(FiniteRate::LONGEST),
    }
}

impl<S> Shaped<S> {
    /// The lateness of its caller that a line makes good, unless it was given another span with
    /// [`Shaper::with_catch_up`]: 10 ms. The burst that this allows is what the rate carries in it, beside
    /// one packet.
    pub const CATCH_UP: Nanos = Nanos::from_millis(10);
    /// How long packets that leave pay for what was dropped, with [ingress](Self::set_ingress): 1
    /// s.
    pub const INGRESS_DEBT: Nanos = Nanos::from_secs(1);

    /// `inner` in front of `line`; `link` says what a packet is on the wire. The line catches up
    /// [`Shaped::CATCH_UP`], or what it was given.
    pub const fn new(inner: S, line: Shaper, link: Overhead) -> Self {
        Self { line: line.or_catch_up(Self::CATCH_UP), link, debt: None, inner }
    }

    /// Turns [ingress](Self::set_ingress) on or off.
    #[must_use]
    pub const fn ingress(mut self, on: bool) -> Self {
        self.set_ingress(on);
        self
    }

    /// The scheduler, with everything that is queued.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: ?Sized> Shaped<S> {
    /// The scheduler inside.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// The line: its rate, and when it is free.
    pub const fn line(&self) -> &Shaper {
        &self.line
    }

    /// Another line, with its rate and what it still owes. It catches up [`Shaped::CATCH_UP`], or
    /// what it was given. What departures still pay for drops ([ingress](Self::set_ingress)) stays
    /// as it is.
    ///
    /// ```
    /// use sched_core::{Descriptor, Fifo, Limits, Nanos};
    /// use shaper::{Overhead, Rate, Shaped, Shaper};
    ///
    /// let line = Shaper::new(Rate::megabits_per_second(1)?);
    /// let fifo = || Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
    /// let before = Shaped::new(fifo(), line, Overhead::ETHERNET);
    /// let mut after = Shaped::new(fifo(), Shaper::new(Rate::UNLIMITED), Overhead::ETHERNET);
    /// after.set_line(before.line().clone().with_catch_up(Nanos::ZERO));
    /// assert_eq!(after.line().rate(), Rate::megabits_per_second(1)?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn set_line(&mut self, line: Shaper) {
        self.line = line.or_catch_up(Shaped::<()>::CATCH_UP);
    }

    /// Forgets what the line still carries, and drops that are not paid for: [`Shaper::reset`].
    pub fn reset_line(&mut self) {
        self.line.reset();
        self.debt = self.debt.map(|_| Debt::NONE);
    }

    /// Sets whether departures pay for packets that are dropped from now on: for a queue behind the
    /// bottleneck. [`Shaped`] says what holds then. Off unless set; turned off, it forgets what is
    /// not paid yet. Cost: an addition a drop and a comparison a packet.
    ///
    /// ```
    /// use sched_core::{CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowQueues, Limits, Queue};
    /// use shaper::{Overhead, Rate, Shaped, Shaper};
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
    /// drr.add_all(1_500)?;
    /// let codel = CoDel::new([CoDelState::EMPTY; 2], CoDelParams::INTERNET)?;
    /// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 64]);
    /// let queues = FlowQueues::with_parts(drr, codel, queues, packets, [], Limits::NONE);
    /// // The provider's line carries 50 Mbit/s.
    /// let line = Shaper::new(Rate::megabits_per_second(47)?);
    /// let mut downlink = Shaped::new(queues, line, Overhead::ETHERNET).ingress(true);
    /// assert!(downlink.is_ingress());
    /// downlink.set_ingress(false);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn set_ingress(&mut self, on: bool) {
        if on != self.is_ingress() {
            self.debt = if on { Some(Debt::NONE) } else { None };
        }
    }

    /// Returns true if departures pay for packets that are dropped.
    #[must_use]
    pub const fn is_ingress(&self) -> bool {
        self.debt.is_some()
    }

    /// What a packet is on the wire.
    pub const fn overhead(&self) -> Overhead {
        self.link
    }

    /// Changes the rate at `now`, for what is still owed too: see [`Shaper::set_rate`]. What
    /// [`poll_at`](Scheduler::poll_at) said before may be too late afterwards.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        if let Some(line) = self.line.after_step_back(now) {
            self.line = line;
        }
        self.line.set_rate(now, rate);
    }

    /// Changes what a packet is on the wire, from the next that leaves on, queued ones included.
    pub const fn set_overhead(&mut self, link: Overhead) {
        self.link = link;
    }
}

impl<S: Scheduler + ?Sized> Shaped<S> {
    /// The scheduler inside, for a packet that arrives at `now`: the way in for queues that are
    /// told more of a packet than its flow.
    ///
    /// If nothing is queued that may leave, the line is told that time before `now` was idle, as
    /// [`enqueue`](Scheduler::enqueue) tells it. That is so whether or not a packet is then
    /// accepted.
    #[inline]
    pub fn arrival(&mut self, now: Nanos) -> &mut S {
        if self.is_ingress() {
            self.pay_in_idle_time(now);
        } else {
            self.forget_idle_time(now);
        }
        &mut self.inner
    }

    /// The scheduler inside, to add flows or change weights.
    ///
    /// A packet dequeued here leaves without being charged. The line is not told when a packet is
    /// enqueued here into an empty queue, nor when a change made here lets a packet leave. Such a
    /// packet counts as having come at the instant at which it leaves, so that idle time is no
    /// lateness. [`arrival`](Self::arrival) tells the line.
    pub fn inner_mut(&mut self) -> &mut S {
        let due = self.line.due();
        if self.inner.poll_at(due) != Some(due) {
            self.line.wake(Nanos::MAX);
        }
        &mut self.inner
    }

    /// A packet arrives at `now` by `enter`, which hands it to the scheduler inside: the way in for
    /// queues that are told more of a packet than its flow, and that may [charge
    /// drops](Self::set_ingress). `enter` gives the scheduler the sink that it is given. The rest
    /// as for [`arrival`](Self::arrival).
    ///
    /// # Errors
    /// Those of `enter`.
    #[inline(always)]
    pub fn arrive<T>(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink,
        enter: impl FnOnce(&mut S, &mut dyn DropSink) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        self.arrive_segmented(now, &Whole, drops, enter)
    }

    /// As [`arrive`](Self::arrive), where `of` says which packets are super-packets: their drops
    /// are charged segment by segment, where drops are charged.
    ///
    /// # Errors
    /// Those of `enter`.
    #[inline(always)]
    pub fn arrive_segmented<T>(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
        enter: impl FnOnce(&mut S, &mut dyn DropSink) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        if self.is_ingress() {
            return self.arrive_charged(now, of, drops, enter);
        }
        self.forget_idle_time(now);
        enter(&mut self.inner, drops)
    }

    /// As [`dequeue`](Scheduler::dequeue), where `of` says which packets are super-packets: the
    /// line is charged the sum over the segments of what leaves ([`Overhead::wire_len_of`]). Flows,
    /// limits and rates of hosts count the length that a super-packet was enqueued with, once. Cost
    /// beside that of a dequeue: a question to `of`.
    ///
    /// ```
    /// use sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
    /// use shaper::{Overhead, Rate, Segments, Shaped, Shaper};
    ///
    /// let line = Shaper::new(Rate::megabits_per_second(1)?);
    /// let fifo = Fifo::tail_drop([Descriptor::EMPTY; 4], Limits::NONE);
    /// let mut uplink = Shaped::new(fifo, line, Overhead::ETHERNET.for_frames(14));
    ///
    /// // In buffer 1 there are three segments.
    /// let segments = [None, Segments::of_offload(3_066, 66, 1_448).ok(), None, None];
    /// let of = |packet: Packet| segments[packet.handle as usize];
    /// let drops = &mut |_, _| unreachable!("there is room");
    /// uplink.enqueue(Nanos(0), FlowId(0), Packet::new(1, 3_066), drops)?;
    /// assert!(uplink.dequeue_segmented(Nanos(0), &of, drops).is_some());
    /// // 1,538 + 1,538 + 194 bytes at 8 µs.
    /// assert_eq!(uplink.line().due(), Nanos::from_micros(3_270 * 8));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)] // as `dequeue`, which it is without super-packets
    pub fn dequeue_segmented(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if self.is_ingress() {
            // In parts: a packet that is returned as a whole has a place in memory, on the way
            // without ingress too.
            let Packet { handle, len, ecn } = self.dequeue_charged(now, of, drops)?;
            return Some(Packet { handle, len, ecn });
        }
        if !self.line.is_open(now) && !self.reopens(now) {
            return None;
        }
        self.forget_idle_time(now);
        let packet = self.inner.dequeue(now, drops)?;
        // An unlimited line is paid nothing: what a packet is on the wire need not be known. A line
        // that is stopped is never open.
        if let Some(limited) = self.line.limited() {
            self.line.pay_open(limited, now, wire_len(&self.link, packet, of));
        }
        Some(packet)
    }

    /// [`Self::arrive`], with ingress. In a function of its own: the way without it is kept as it
    /// is.
    #[inline(never)]
    fn arrive_charged<T>(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
        enter: impl FnOnce(&mut S, &mut dyn DropSink) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        self.pay_in_idle_time(now);
        let mut lost = 0;
        let mut charging = Charging { drops, link: &self.link, of, lost: &mut lost };
        let taken = enter(&mut self.inner, &mut charging);
        let rejected = taken.as_ref().err().map(|rejected| rejected.packet);
        let rejected = rejected.map_or(0, |packet| wire_len_of_lost(&self.link, packet, of));
        self.charge_lost(lost.saturating_add(rejected));
        taken
    }

    /// Tells the line that time up to `now` was idle in which the scheduler inside had nothing that
    /// may leave.
    #[inline]
    fn forget_idle_time(&mut self, now: Nanos) {
        if self.inner.waits() {
            self.forget_waiting_time(now);
        } else if self.inner.backlog().packets == 0 {
            self.line.wake(now);
        }
    }

    /// [`Self::forget_idle_time`], where all that is queued may have had to wait.
    #[cold]
    #[inline(never)]
    fn forget_waiting_time(&mut self, now: Nanos) {
        let late_since = self.line.earliest(now);
        match self.inner.poll_at(late_since) {
            Some(ready) if ready <= late_since => {}
            Some(ready) => self.line.wake(ready.min(now)),
            None => self.line.wake(now),
        }
    }

    /// [`Self::forget_idle_time`], which may also have been enough to carry the debt.
    fn pay_in_idle_time(&mut self, now: Nanos) {
        let late_since = self.line.earliest(now);
        let idle_until = match self.inner.poll_at(late_since) {
            Some(ready) if ready <= late_since => return,
            ready => ready.map_or(now, |ready| ready.min(now)),
        };
        let Self { line, debt, inner, .. } = self;
        line.wake(idle_until);
        if let Some(debt) = debt {
            debt.idle(line, idle_until, || inner.backlog().bytes);
        }
    }

    /// Returns true if the line, closed so far, is open because the clock has stepped back.
    #[cold]
    #[inline(never)]
    fn reopens(&mut self, now: Nanos) -> bool {
        let Some(line) = self.line.after_step_back(now) else { return false };
        self.line = line;
        self.line.is_open(now)
    }

    /// Departures at a finite rate pay for `lost` bytes on the wire.
    fn charge_lost(&mut self, lost: u64) {
        if let Some(debt) = &mut self.debt
            && self.line.limited().is_some()
        {
            debt.add(lost, || self.inner.backlog().bytes);
        }
    }

    /// [`Scheduler::dequeue`], with ingress: the line is charged what is sent and a part of what
    /// was dropped before.
    #[inline(never)]
    fn dequeue_charged(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if !self.line.is_open(now) && !self.reopens(now) {
            return None;
        }
        self.pay_in_idle_time(now);
        let mut lost = 0;
        let mut charging = Charging { drops, link: &self.link, of, lost: &mut lost };
        let sent = self.inner.dequeue(now, &mut charging);
        self.charge_lost(lost);
        let packet = sent?;
        if let Some(limited) = self.line.limited() {
            let wire_len = wire_len(&self.link, packet, of);
            let Self { debt, inner, .. } = self;
            let pay = |debt: &mut Debt| debt.payment(now, wire_len, || inner.backlog().bytes);
            let paid = debt.as_mut().map_or(0, pay);
            self.line.pay_open(
                limited,
                now,
                wire_len.saturating_add(paid).min(FiniteRate::LONGEST),
            );
        }
        Some(packet)
    }
}

impl<S: Scheduler + ?Sized> Scheduler for Shaped<S> {
    #[inline(always)]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.is_ingress() {
            // In parts: what a closure refers to has a place in memory, on the way without ingress
            // too.
            let Packet { handle, len, ecn } = packet;
            self.arrive_charged(now, &Whole, drops, move |inner, drops| {
                inner.enqueue(now, flow, Packet { handle, len, ecn }, drops)
            })?;
            return Ok(());
        }
        self.forget_idle_time(now);
        self.inner.enqueue(now, flow, packet, drops)
    }

    #[inline(always)]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.dequeue_segmented(now, &Whole, drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        let reopens = || self.line.after_step_back(now).is_some_and(|line| line.is_open(now));
        if self.line.is_open(now) || reopens() { self.inner.peek(now) } else { None }
    }

    /// The later of what the line and the scheduler inside say. `None` also when packets are
    /// queued and the line never opens: it is stopped, or the end of time comes first.
    ///
    /// After a clock that has stepped back by more than a second it is `now`: the
    /// [`dequeue`](Scheduler::dequeue) with this timestamp sets the link right; if it returns
    /// nothing, the next answer is the instant at which a packet leaves.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        let (ready, open) = (self.inner.poll_at(now)?, self.line.opens_at(now)?);
        Some(ready.max(open))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn books(&self) -> Books {
        self.inner.books()
    }

    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        self.inner.flow_counters(flow)
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.inner.set_limits(limits, drops);
    }

    /// What gives way is charged with [ingress](Shaped::set_ingress) only.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        if !self.is_ingress() {
            return self.inner.evict(drops);
        }
        let mut lost = 0;
        let mut charging = Charging { drops, link: &self.link, of: &Whole, lost: &mut lost };
        let has_dropped = self.inner.evict(&mut charging);
        self.charge_lost(lost);
        has_dropped
    }

    /// Gives every packet back; the line stays as it is.
    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.inner.drain(drops);
    }

    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        if !self.is_ingress() {
            self.forget_idle_time(now);
            return self.inner.enqueue_burst(now, burst, drops);
        }
        self.pay_in_idle_time(now);
        let mut lost = 0;
        let mut charging = Charging { drops, link: &self.link, of: &Whole, lost: &mut lost };
        let accepted = self.inner.enqueue_burst(now, burst, &mut charging);
        self.charge_lost(lost);
        accepted
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        if self.line.rate() == Rate::UNLIMITED {
            return self.inner.dequeue_burst(now, out, drops);
        }
        let mut filled = 0;
        for place in out {
            let Some(packet) = self.dequeue(now, drops) else { break };
            *place = packet;
            filled += 1;
        }
        filled
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.inner.recount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framing;
    use sched_core::{Descriptor, DropReason, Fifo};
    use std::boxed::Box;

    fn no_drops(packet: Packet, reason: DropReason) {
        panic!("{packet:?} dropped: {}", reason.name());
    }

    /// 1 µs a byte, without catching up.
    fn shaped() -> Shaped<Fifo<[Descriptor; 256]>> {
        let fifo = Fifo::tail_drop([Descriptor::EMPTY; 256], Limits::NONE);
        let line = Shaper::new(Rate::megabits_per_second(8).unwrap()).with_catch_up(Nanos::ZERO);
        Shaped::new(fifo, line, Overhead::RAW)
    }

    fn fill(scheduler: &mut dyn Scheduler, packets: u32) {
        for handle in 0..packets {
            let packet = Packet::new(handle, 100);
            scheduler.enqueue(Nanos::ZERO, FlowId(0), packet, &mut no_drops).unwrap();
        }
    }

    /// Goal: what the link adds can change at any time without touching the books.
    /// Method: 200 packets are queued and drained while overhead, minimum and framing change
    /// before every packet; the books are recounted after every step, and each packet's charge is
    /// compared with the link in force when it left.
    #[test]
    fn changing_the_link_while_packets_are_queued_keeps_the_books() {
        let mut shaped = shaped();
        fill(&mut shaped, 200);
        let links = [
            Overhead::ETHERNET,
            Overhead::CONSERVATIVE,
            Overhead::new(Framing::None, -64, 0).unwrap(),
            Overhead::new(Framing::PtmPaper, 256, 256).unwrap(),
            Overhead::PPPOE_PTM,
        ];
        let mut now = Nanos::ZERO;
        for (sent, link) in (0..200).zip(links.into_iter().cycle()) {
            shaped.set_overhead(link);
            assert_eq!(shaped.overhead(), link);
            assert_eq!(shaped.dequeue(now, &mut no_drops), Some(Packet::new(sent, 100)));
            let wire = u64::from(link.wire_len(100));
            assert_eq!(shaped.line().due(), now.plus(Nanos::from_micros(wire)));
            let left = 199 - sent;
            assert_eq!(shaped.backlog(), Backlog { packets: left, bytes: left * 100 });
            assert_eq!(shaped.recount(), Ok(()));
            now = shaped.line().due();
        }
        assert_eq!(shaped.counters().delivered.bytes, 20_000);
    }

    #[test]
    fn poll_at_names_the_first_instant_at_which_a_packet_leaves() {
        let mut shaped = shaped();
        assert_eq!(shaped.poll_at(Nanos(3)), None);
        fill(&mut shaped, 3);
        assert_eq!(shaped.poll_at(Nanos(3)), Some(Nanos(3)));
        assert!(shaped.dequeue(Nanos(3), &mut no_drops).is_some());
        let due = Nanos(100_003);
        for now in [Nanos::ZERO, Nanos(3), Nanos(100_002)] {
            assert_eq!(shaped.poll_at(now), Some(due));
            assert_eq!(shaped.peek(now), None);
            assert_eq!(shaped.dequeue(now, &mut no_drops), None);
        }
        assert_eq!(shaped.poll_at(due), Some(due));
        assert_eq!(shaped.peek(due), Some(Packet::new(1, 100)));
        assert_eq!(shaped.dequeue(due, &mut no_drops), Some(Packet::new(1, 100)));
    }

    #[test]
    fn behind_two_lines_the_slower_says_when() {
        let slow = Shaper::new(Rate::megabits_per_second(4).unwrap()).with_catch_up(Nanos::ZERO);
        for (inner, outer) in [(shaped().line, slow.clone()), (slow, shaped().line)] {
            let inner = Shaped::new(shaped().inner, inner, Overhead::RAW);
            let mut both = Shaped::new(inner, outer, Overhead::RAW);
            fill(&mut both, 2);
            assert!(both.dequeue(Nanos(7), &mut no_drops).is_some());
            assert_eq!(both.poll_at(Nanos(7)), Some(Nanos(200_007)));
            assert_eq!(both.dequeue(Nanos(200_006), &mut no_drops), None);
            assert!(both.dequeue(Nanos(200_007), &mut no_drops).is_some());
        }
    }

    #[test]
    fn a_stopped_line_holds_packets_until_it_is_given_a_rate() {
        let mut shaped = shaped();
        shaped.set_rate(Nanos::ZERO, Rate::STOPPED);
        fill(&mut shaped, 2);
        assert_eq!(shaped.dequeue(Nanos::MAX, &mut no_drops), None);
        assert_eq!(shaped.peek(Nanos(9)), None);
        assert_eq!(shaped.poll_at(Nanos(9)), None);
        assert_eq!(shaped.backlog().packets, 2);
        shaped.set_rate(Nanos(9), Rate::UNLIMITED);
        assert_eq!(shaped.poll_at(Nanos(9)), Some(Nanos(9)));
        let mut out = [Packet::new(0, 0); 4];
        assert_eq!(shaped.dequeue_burst(Nanos(9), &mut out, &mut no_drops), 2);
    }

    #[test]
    fn a_burst_out_is_what_the_line_lets_through() {
        let mut shaped = shaped();
        fill(&mut shaped, 4);
        let untouched = Packet::new(9, 9);
        let mut out = [untouched; 3];
        assert_eq!(shaped.dequeue_burst(Nanos(0), &mut out, &mut no_drops), 1);
        assert_eq!(out, [Packet::new(0, 100), untouched, untouched]);
    }

    #[test]
    fn only_a_packet_that_finds_the_queue_empty_ends_idle_time() {
        let mut shaped = shaped();
        shaped.line = shaped.line.with_catch_up(Nanos::from_millis(1));
        let burst = [(FlowId(0), Packet::new(0, 100))];
        let idle = Nanos::from_secs(1);
        let late = idle.plus(Nanos(50_000));
        assert_eq!(shaped.enqueue_burst(idle, &burst, &mut no_drops), 1);
        shaped.enqueue(late, FlowId(0), Packet::new(1, 100), &mut no_drops).unwrap();
        assert!(shaped.dequeue(late, &mut no_drops).is_some());
        // The first packet waited 50 µs for the caller; the line makes that up, not the second.
        assert_eq!(shaped.poll_at(late), Some(idle.plus(Nanos(100_000))));
        assert!(shaped.dequeue(Nanos::from_secs(2), &mut no_drops).is_some());
        let idle = Nanos::from_secs(3);
        shaped.enqueue(idle, FlowId(0), Packet::new(2, 100), &mut no_drops).unwrap();
        assert!(shaped.dequeue(idle, &mut no_drops).is_some());
        assert_eq!(shaped.line().due(), idle.plus(Nanos(100_000)));
    }

    /// What leaves in ten seconds for a caller whose timer has a grain of 1 ms, in bytes: after
    /// each look it sleeps until the line is due, and wakes up to 1 ms later.
    fn with_a_slack_of_a_millisecond(line: Shaper) -> u32 {
        let fifo = Fifo::tail_drop([Descriptor::EMPTY; 256], Limits::NONE);
        let mut shaped = Shaped::new(fifo, line, Overhead::RAW);
        let (mut now, mut sent) = (Nanos::ZERO, 0);
        for handle in 0..8 {
            shaped.enqueue(now, FlowId(0), Packet::new(handle, 1_250), &mut no_drops).unwrap();
        }
        while now < Nanos::from_secs(10) {
            while let Some(packet) = shaped.dequeue(now, &mut no_drops) {
                sent += packet.len;
                // One for one, so that the queue is never empty.
                shaped.enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
            }
            let due = shaped.poll_at(now).expect("packets are queued");
            now = due.plus(Nanos(906_000));
        }
        sent
    }

    /// Goal: a timer with a grain of 1 ms costs no rate unless the caller wants it exact.
    /// Method: 5,000 kbit/s in packets of 1,250 bytes, 2 ms each, to a caller that comes 0.906 ms
    /// late each time. Exact, a packet takes 2.906 ms: 3,441 kbit/s. By default it is the rate, to
    /// a packet and 10 ms.
    #[test]
    fn a_timer_with_slack_costs_no_rate_by_default() {
        let line = || Shaper::new(Rate::kilobits_per_second(5_000).unwrap());
        let exact = with_a_slack_of_a_millisecond(line().with_catch_up(Nanos::ZERO));
        assert!((3_430..3_450).contains(&(exact / 1_250)), "{exact} bytes in 10 s");
        let by_default = with_a_slack_of_a_millisecond(line());
        let most = 6_250_000 + 1_250 + 6_250;
        assert!((6_250_000 - 1_250..=most).contains(&by_default), "{by_default} bytes in 10 s");
    }

    /// Goal: the burst that the default allows is what is said.
    /// Method: a caller that comes 10 ms late, and one that comes a second late, find packets for
    /// 10 ms and one more; one that finds an idle queue finds one.
    #[test]
    fn the_burst_of_the_default_is_ten_milliseconds_and_a_packet() {
        let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
        for (late, burst) in [(9_950_000, 100), (10_000_000, 101), (1_000_000_000, 101)] {
            let mut shaped = Shaped::new(shaped().inner, line.clone(), Overhead::RAW);
            assert_eq!(shaped.line().catch_up(), Nanos::from_millis(10));
            fill(&mut shaped, 250);
            assert!(shaped.dequeue(Nanos(0), &mut no_drops).is_some());
            let mut out = [Packet::new(0, 0); 250];
            let due = shaped.line().due();
            let left = shaped.dequeue_burst(due.plus(Nanos(late)), &mut out, &mut no_drops);
            assert_eq!(left, burst, "{late} ns late");
        }
    }

    /// Goal: no way in makes idle time lateness.
    /// Method: after a second without packets 20 of them come at once, each way; one leaves. An
    /// arrival that did not begin a busy period would let a burst of 13 leave.
    #[test]
    fn no_way_in_makes_a_burst_of_idle_time() {
        type WayIn = fn(&mut Shaped<Fifo<[Descriptor; 256]>>, Nanos, Packet);
        let ways: [WayIn; 4] = [
            |shaped, now, packet| {
                shaped.enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
            },
            |shaped, now, packet| {
                shaped.enqueue_burst(now, &[(FlowId(0), packet)], &mut no_drops);
            },
            |shaped, now, packet| {
                shaped.arrival(now).enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
            },
            |shaped, now, packet| {
                shaped.inner_mut().enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
            },
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
            let mut shaped = Shaped::new(shaped().inner, line, Overhead::RAW);
            for second in 1..4 {
                let now = Nanos::from_secs(second);
                for handle in 0..20 {
                    way(&mut shaped, now, Packet::new(handle, 800));
                }
                let mut out = [Packet::new(0, 0); 20];
                let left = shaped.dequeue_burst(now, &mut out, &mut no_drops);
                assert_eq!(left, 1, "way {number}, second {second}");
                let mut now = now;
                while let Some(at) = shaped.poll_at(now) {
                    now = at;
                    assert!(shaped.dequeue(now, &mut no_drops).is_some());
                }
            }
        }
    }

    #[test]
    fn what_is_not_about_time_is_passed_on() {
        let mut shaped: Box<Shaped<dyn Scheduler>> = Box::new(shaped());
        fill(shaped.inner_mut(), 5);
        assert_eq!(shaped.limits(), Limits::NONE);
        let mut lowered = 0;
        shaped.set_limits(Limits::packets(3), &mut |_, _| lowered += 1);
        assert_eq!((lowered, shaped.limits()), (2, Limits::packets(3)));
        assert_eq!(shaped.flow_counters(FlowId(0)), None);
        assert_eq!(shaped.inner().backlog(), shaped.backlog());
        let mut line = shaped.line().clone();
        line.charge(Nanos::ZERO, 1_000);
        shaped.set_line(line);
        assert_eq!(shaped.poll_at(Nanos::ZERO), Some(Nanos::from_millis(1)));
        let mut drained = 0;
        shaped.drain(&mut |_, _| drained += 1);
        assert_eq!((drained, shaped.backlog().packets), (3, 0));
        assert_eq!(shaped.recount(), Ok(()));
    }

    #[test]
    fn the_scheduler_comes_back_with_its_packets() {
        let mut shaped = shaped();
        fill(&mut shaped, 5);
        assert_eq!(shaped.into_inner().backlog().packets, 5);
    }
}
