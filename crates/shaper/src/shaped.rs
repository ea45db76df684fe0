//! A scheduler with a shaper.

use sched_core::{
    Backlog, Books, Counters, DropReason, DropSink, FiniteRate, FlowId, Imbalance, Limits, Nanos,
    Packet, Rejected, Scheduler,
};

use crate::segments::Whole;
use crate::{Overhead, Rate, Segmentation, Shaper};

/// A scheduler whose packets leave through a [`Shaper`]; itself a [`Scheduler`].
///
/// [`dequeue`](Scheduler::dequeue) returns a packet only while the link is open, and
/// [`poll_at`](Scheduler::poll_at) returns when to call it next.
///
/// The inner scheduler chooses *which* packet is next and knows no rates; the [`Shaper`] decides
/// *when* and knows no flows. A packet is charged its length on the wire when it leaves, with the
/// [`Overhead`] set at that time. The inner scheduler's own counters use the length given at
/// enqueue, so a change of the overhead does not affect them. Packets that the scheduler drops are
/// not charged, since they never reach the link, except with [ingress](#ingress).
///
/// [`dequeue_segmented`](Shaped::dequeue_segmented) charges super-packets segment by segment.
///
/// # Ingress
/// Use [`set_ingress`](Shaped::set_ingress) if the bottleneck is *before* the queue, as for a
/// download behind a provider's queue: a packet dropped here has already crossed that bottleneck.
/// With ingress, packets that are rejected, or dropped by a full queue, an AQM or an ACK filter,
/// are charged too, as in CAKE with the keyword `ingress`. Then arrivals, not only departures, keep
/// to the rate once senders react, and the provider's queue stays empty.
///
/// - Dropped bytes become a debt. While there is a debt, each departing packet pays for up to half
///   its own length of it. So departures get at least two thirds of the rate, however much is
///   dropped: unresponsive senders cannot stop the link.
/// - A debt expires one second ([`Shaped::INGRESS_DEBT`]) after the first packet that paid for some
///   of it. The rest is forgiven. In addition, as many bytes as are queued at that time may be
///   dropped later without a charge.
/// - Hence, from one second after a flood on, departures and drops together use at least the rate
///   while packets are queued, even if the rate is lowered meanwhile. If the load is below the
///   rate, the queue left by the flood drains at the difference. Packets that an AQM drops from
///   that queue are charged: until it is empty, departures may get as little as two thirds of the
///   rate. From then on, the load is served as without ingress.
/// - Idle time cancels a debt if the link could have carried all of it in that time; no idle time
///   counts twice. Idle time before the drops counts too, since the arrivals from its start on
///   still fit the rate. It is valued at the current rate, even if another rate was set at the
///   time.
/// - Departures never exceed the rate: the guarantees of [`Shaper`] hold as without ingress.
/// - Packets dropped by [limits](Scheduler::set_limits),
///   [removal](sched_core::DropReason::FlowRemoved) and [`drain`](Scheduler::drain) are not
///   charged, since no sender caused their loss, and neither are drops while the rate is
///   [`Rate::STOPPED`] or [`Rate::UNLIMITED`].
///
/// # Late callers
/// A caller that is woken by a timer or an interrupt is always late. `Shaped` catches up at most 10
/// ms of the lost time ([`Shaped::CATCH_UP`]), unless its shaper was given another span with
/// [`Shaper::with_catch_up`]; [`Nanos::ZERO`] turns catch-up off. Late packets may then leave back
/// to back: a burst of one packet and the bytes that the rate carries in 10 ms, which are 12.5 kB
/// at 10 Mbit/s and 1.25 MB at 1 Gbit/s. There is no burst after idle time, and none for a caller
/// that comes at the time that [`poll_at`](Scheduler::poll_at) returned. Without catch-up, a caller
/// with a 1 ms timer that restarts after each call may send packets of 1,250 bytes at only 3,440 of
/// 5,000 kbit/s.
///
/// # Clock steps
/// After a step back by up to one second, the link opens when it would have without the step, so it
/// stops for at most that second. After a longer step, the earlier timestamps are considered wrong,
/// and time continues from the first [`dequeue`](Scheduler::dequeue) or
/// [`set_rate`](Self::set_rate) with the new timestamp: the next packet waits no longer than the
/// last one takes on the wire. So neither a clock that is set back, nor a timestamp far in the
/// future, nor a counter that wraps around stops the link. Rates and ceilings of hosts follow the
/// same rule.
///
/// # Idle time
/// Only time lost to a late caller is caught up, never idle time. Time is idle while the queue is
/// empty, and while none of its packets may leave because of a [ceiling](sched_core::TokenBucket)
/// or a shaper inside the inner scheduler. All methods that enqueue or dequeue follow this rule:
/// [`Scheduler::enqueue`], bursts, [`Shaped::arrival`] for queues that need more than a flow,
/// [`Scheduler::dequeue`] and [`Shaped::inner_mut`].
///
/// # Cost
/// Per packet, in addition to the inner scheduler's cost: a comparison, the wire length, a charge,
/// and a [`poll_at`](Scheduler::poll_at) of the inner scheduler if that is not work-conserving, or
/// with ingress. [`dequeue_burst`](Scheduler::dequeue_burst) dequeues and charges packets one by
/// one, without the prefetching that a scheduler's own burst may do, unless the link is unlimited.
///
/// # Examples
/// ```
/// use sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
/// use shaper::{Overhead, Rate, Shaped, Shaper};
///
/// let fifo = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
/// let link = Shaper::new(Rate::megabits_per_second(1)?);
/// let mut uplink = Shaped::new(fifo, link, Overhead::ETHERNET);
///
/// let drops = &mut |_, _| unreachable!("the queue is not full");
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
    /// Debt of departures for drops; `None` without ingress.
    debt: Option<Debt>,
    inner: S,
}

/// Bytes of drops that departures still have to pay for.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// Bytes on the wire that were dropped and are not yet paid. Negative: a credit of bytes that
    /// may be dropped without charge, at most the bytes queued.
    owed: i64,
    /// Time at which the debt is forgiven; [`Nanos::MAX`] until a packet pays for some of it.
    until: Nanos,
}

impl Debt {
    const NONE: Self = Self { owed: 0, until: Nanos::MAX };

    /// Adds dropped bytes; `queued` returns the bytes still queued. Needs no time, because a debt
    /// ages only from its first payment on.
    fn add(&mut self, lost: u64, queued: impl FnOnce() -> u32) {
        // `LONGEST` is below 2⁶³.
        let lost = lost.min(FiniteRate::LONGEST).cast_signed();
        if self.owed < 0 {
            self.bound_credit(lost.wrapping_add(queued().into()));
        }
        self.owed = self.owed.wrapping_add(lost).min(FiniteRate::LONGEST.cast_signed());
    }

    /// Limits the credit to the bytes queued.
    fn bound_credit(&mut self, queued: i64) {
        self.owed = self.owed.max(queued.wrapping_neg());
    }

    /// Returns the bytes that a packet of `wire_len` bytes leaving at `now` pays for drops.
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
            // Everything that has arrived is forgiven, so later drops among the packets still
            // queued create no new debt.
            *self = Self { owed: i64::from(queued()).wrapping_neg(), ..Self::NONE };
        }
        part
    }

    /// Pays the debt if `line` could carry all of it in the idle time until `now`. The time of a
    /// drop does not matter: bytes that the link can carry in this time do not exceed the rate.
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

/// A drop sink that counts dropped bytes and passes the packets on.
struct Charging<'a, G> {
    drops: &'a mut dyn DropSink,
    link: &'a Overhead,
    /// Identifies super-packets.
    of: &'a G,
    /// Bytes dropped, on the wire.
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

/// Returns the bytes on the wire of a dropped packet; 0 for a length that no packet can have.
fn wire_len_of_lost(link: &Overhead, packet: Packet, of: &impl Segmentation) -> u64 {
    if packet.len > Packet::MAX_LEN { 0 } else { wire_len(link, packet, of) }
}

/// Returns the bytes on the wire of a packet, or of the segments of a super-packet.
#[inline(always)]
fn wire_len(link: &Overhead, packet: Packet, of: &impl Segmentation) -> u64 {
    match of.segments(packet) {
        None => link.on_wire(packet.len),
        Some(segments) => link.wire_len_of(segments).min(FiniteRate::LONGEST),
    }
}

impl<S> Shaped<S> {
    /// Default catch-up: the maximum time lost to a late caller that is caught up, 10 ms.
    ///
    /// [`Shaper::with_catch_up`] sets another span. The resulting burst is one packet plus what the
    /// rate carries in this time.
    pub const CATCH_UP: Nanos = Nanos::from_millis(10);
    /// Lifetime of a debt for dropped packets, with [ingress](Self::set_ingress): 1 s.
    pub const INGRESS_DEBT: Nanos = Nanos::from_secs(1);

    /// Creates a shaped scheduler: `inner` behind `line`, with `link` as the overhead of packets.
    ///
    /// The catch-up is [`Shaped::CATCH_UP`], unless `line` has its own.
    pub const fn new(inner: S, line: Shaper, link: Overhead) -> Self {
        Self { line: line.or_catch_up(Self::CATCH_UP), link, debt: None, inner }
    }

    /// Turns [ingress](Self::set_ingress) on or off.
    #[must_use]
    pub const fn ingress(mut self, on: bool) -> Self {
        self.set_ingress(on);
        self
    }

    /// Returns the inner scheduler with everything that is queued.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: ?Sized> Shaped<S> {
    /// Returns the inner scheduler.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the link's shaper: its rate, and when it is open.
    pub const fn line(&self) -> &Shaper {
        &self.line
    }

    /// Replaces the link's shaper, including its rate and the time until which it is busy.
    ///
    /// The catch-up is [`Shaped::CATCH_UP`], unless `line` has its own. The debt for drops
    /// ([ingress](Self::set_ingress)) is kept.
    ///
    /// ```
    /// use sched_core::{Descriptor, Fifo, Limits, Nanos};
    /// use shaper::{Overhead, Rate, Shaped, Shaper};
    ///
    /// let link = Shaper::new(Rate::megabits_per_second(1)?);
    /// let fifo = || Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::NONE);
    /// let before = Shaped::new(fifo(), link, Overhead::ETHERNET);
    /// let mut after = Shaped::new(fifo(), Shaper::new(Rate::UNLIMITED), Overhead::ETHERNET);
    /// after.set_line(before.line().clone().with_catch_up(Nanos::ZERO));
    /// assert_eq!(after.line().rate(), Rate::megabits_per_second(1)?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn set_line(&mut self, line: Shaper) {
        self.line = line.or_catch_up(Shaped::<()>::CATCH_UP);
    }

    /// Resets the link ([`Shaper::reset`]) and forgets the debt for drops.
    pub fn reset_line(&mut self) {
        self.line.reset();
        self.debt = self.debt.map(|_| Debt::NONE);
    }

    /// Sets whether packets dropped from now on are charged to the link, for a queue behind the
    /// bottleneck.
    ///
    /// Off by default; [`Shaped`] describes the effect. Turning it off forgets the debt. Cost: an
    /// addition per drop and a comparison per packet.
    ///
    /// ```
    /// use sched_core::{CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowQueues};
    /// use sched_core::{Limits, Queue};
    /// use shaper::{Overhead, Rate, Shaped, Shaper};
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
    /// drr.add_all(1_500)?;
    /// let codel = CoDel::new([CoDelState::EMPTY; 2], CoDelParams::INTERNET)?;
    /// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 64]);
    /// let queues = FlowQueues::with_parts(drr, codel, queues, packets, [], Limits::NONE);
    /// // The provider's link carries 50 Mbit/s.
    /// let link = Shaper::new(Rate::megabits_per_second(47)?);
    /// let mut downlink = Shaped::new(queues, link, Overhead::ETHERNET).ingress(true);
    /// assert!(downlink.is_ingress());
    /// downlink.set_ingress(false);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn set_ingress(&mut self, on: bool) {
        if on != self.is_ingress() {
            self.debt = if on { Some(Debt::NONE) } else { None };
        }
    }

    /// Returns true if dropped packets are charged to the link.
    #[must_use]
    pub const fn is_ingress(&self) -> bool {
        self.debt.is_some()
    }

    /// Returns the overhead of packets on the link.
    pub const fn overhead(&self) -> Overhead {
        self.link
    }

    /// Changes the rate at `now`, also for bytes sent earlier that still occupy the link: see
    /// [`Shaper::set_rate`].
    ///
    /// Call [`poll_at`](Scheduler::poll_at) again afterwards: the time it returned before may be
    /// too late.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        if let Some(line) = self.line.after_step_back(now) {
            self.line = line;
        }
        self.line.set_rate(now, rate);
    }

    /// Changes the overhead of packets that leave from now on, including those queued.
    pub const fn set_overhead(&mut self, link: Overhead) {
        self.link = link;
    }
}

impl<S: Scheduler + ?Sized> Shaped<S> {
    /// Returns the inner scheduler, to enqueue a packet that arrives at `now`: for schedulers that
    /// need more than the packet's flow.
    ///
    /// Like [`enqueue`](Scheduler::enqueue), this counts time before `now` as idle if no queued
    /// packet may leave, whether or not the packet is then accepted.
    #[inline]
    pub fn arrival(&mut self, now: Nanos) -> &mut S {
        if self.is_ingress() {
            self.pay_in_idle_time(now);
        } else {
            self.forget_idle_time(now);
        }
        &mut self.inner
    }

    /// Returns the inner scheduler, to add flows or change weights.
    ///
    /// A packet that is dequeued with this reference is not charged. The link does not notice a
    /// packet that is enqueued with it into an empty queue, nor a change that allows a packet to
    /// leave: such a packet counts as having arrived when it leaves, so that idle time is not
    /// caught up. Use [`arrival`](Self::arrival) to enqueue.
    pub fn inner_mut(&mut self) -> &mut S {
        let due = self.line.due();
        if self.inner.poll_at(due) != Some(due) {
            self.line.wake(Nanos::MAX);
        }
        &mut self.inner
    }

    /// Enqueues a packet that arrives at `now` by calling `enter`: for schedulers that need more
    /// than the packet's flow, with or without [ingress](Self::set_ingress).
    ///
    /// `enter` must pass the sink that it receives to the scheduler. Idle time counts as in
    /// [`arrival`](Self::arrival).
    ///
    /// # Errors
    /// The error that `enter` returns.
    #[inline(always)]
    pub fn arrive<T>(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink,
        enter: impl FnOnce(&mut S, &mut dyn DropSink) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        self.arrive_segmented(now, &Whole, drops, enter)
    }

    /// [`arrive`](Self::arrive) for super-packets, which `of` identifies: with ingress, drops are
    /// charged segment by segment.
    ///
    /// # Errors
    /// The error that `enter` returns.
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

    /// [`dequeue`](Scheduler::dequeue) for super-packets, which `of` identifies: the link is
    /// charged the sum of the segments that leave ([`Overhead::wire_len_of`]).
    ///
    /// Flows, limits and host rates count a super-packet once, with its length at enqueue. Cost on
    /// top of `dequeue`: one call of `of`.
    ///
    /// ```
    /// use sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
    /// use shaper::{Overhead, Rate, Segments, Shaped, Shaper};
    ///
    /// let link = Shaper::new(Rate::megabits_per_second(1)?);
    /// let fifo = Fifo::tail_drop([Descriptor::EMPTY; 4], Limits::NONE);
    /// let mut uplink = Shaped::new(fifo, link, Overhead::ETHERNET.for_frames(14));
    ///
    /// // Buffer 1 holds three segments.
    /// let segments = [None, Segments::of_offload(3_066, 66, 1_448).ok(), None, None];
    /// let of = |packet: Packet| segments[packet.handle as usize];
    /// let drops = &mut |_, _| unreachable!("the queue is not full");
    /// uplink.enqueue(Nanos(0), FlowId(0), Packet::new(1, 3_066), drops)?;
    /// assert!(uplink.dequeue_segmented(Nanos(0), &of, drops).is_some());
    /// // 1,538 + 1,538 + 194 bytes at 8 µs.
    /// assert_eq!(uplink.line().due(), Nanos::from_micros(3_270 * 8));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)] // like `dequeue`, which calls this
    pub fn dequeue_segmented(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if self.is_ingress() {
            // Field by field: returning a whole `Packet` would place it in memory on the path
            // without ingress too.
            let Packet { handle, len, ecn } = self.dequeue_charged(now, of, drops)?;
            return Some(Packet { handle, len, ecn });
        }
        if !self.line.is_open(now) && !self.reopens(now) {
            return None;
        }
        self.forget_idle_time(now);
        let packet = self.inner.dequeue(now, drops)?;
        // An unlimited link charges nothing, so the wire length is not needed. A stopped link is
        // never open.
        if let Some(limited) = self.line.limited() {
            self.line.pay_open(limited, now, wire_len(&self.link, packet, of));
        }
        Some(packet)
    }

    /// [`Self::arrive`] with ingress. Out of line, so that the path without ingress stays
    /// unchanged.
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

    /// Ends idle time at `now` if the inner scheduler had no packet that may leave.
    #[inline]
    fn forget_idle_time(&mut self, now: Nanos) {
        if self.inner.waits() {
            self.forget_waiting_time(now);
        } else if self.inner.backlog().packets == 0 {
            self.line.wake(now);
        }
    }

    /// [`Self::forget_idle_time`] for a scheduler all of whose packets may have had to wait.
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

    /// [`Self::forget_idle_time`] with ingress: idle time may also cancel the debt.
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

    /// Returns true if the link was closed and opens because the clock has stepped back.
    #[cold]
    #[inline(never)]
    fn reopens(&mut self, now: Nanos) -> bool {
        let Some(line) = self.line.after_step_back(now) else { return false };
        self.line = line;
        self.line.is_open(now)
    }

    /// Adds `lost` bytes on the wire to the debt, if the rate is finite.
    fn charge_lost(&mut self, lost: u64) {
        if let Some(debt) = &mut self.debt
            && self.line.limited().is_some()
        {
            debt.add(lost, || self.inner.backlog().bytes);
        }
    }

    /// [`Scheduler::dequeue`] with ingress: charges the packet sent and part of earlier drops.
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
            // Field by field: a closure that captures a whole `Packet` would place it in memory on
            // the path without ingress too.
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

    /// Returns the later of the times of the link and of the inner scheduler. Also `None` if
    /// packets are queued and the link never opens: it is stopped, or would open after
    /// [`Nanos::MAX`].
    ///
    /// After a step back of the clock by more than a second it returns `now`: a
    /// [`dequeue`](Scheduler::dequeue) with this timestamp resynchronizes the link; if that returns
    /// no packet, the next call of `poll_at` returns the time at which one may leave.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        let (ready, open) = (self.inner.poll_at(now)?, self.line.opens_at(now)?);
        Some(ready.max(open))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
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

    /// Dropped packets are charged only with [ingress](Shaped::set_ingress).
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

    /// Passes every packet to `drops`; the state of the link does not change.
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

    /// 1 µs per byte, without catch-up.
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

    /// Goal: the overhead can change at any time without affecting the counters. Method: queue 200
    /// packets and drain them, with another overhead, minimum and framing before each one; recount
    /// after every step, and compare each charge with the overhead in force.
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
        // The first packet waited 50 µs for the caller. The link makes up for that, not for the
        // wait of the second.
        assert_eq!(shaped.poll_at(late), Some(idle.plus(Nanos(100_000))));
        assert!(shaped.dequeue(Nanos::from_secs(2), &mut no_drops).is_some());
        let idle = Nanos::from_secs(3);
        shaped.enqueue(idle, FlowId(0), Packet::new(2, 100), &mut no_drops).unwrap();
        assert!(shaped.dequeue(idle, &mut no_drops).is_some());
        assert_eq!(shaped.line().due(), idle.plus(Nanos(100_000)));
    }

    /// Returns the bytes that leave in ten seconds for a caller with a timer resolution of 1 ms,
    /// which sleeps until the link is due and wakes up to 1 ms later.
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
                // Replace each packet, so that the queue is never empty.
                shaped.enqueue(now, FlowId(0), packet, &mut no_drops).unwrap();
            }
            let due = shaped.poll_at(now).expect("packets are queued");
            now = due.plus(Nanos(906_000));
        }
        sent
    }

    /// Goal: a timer resolution of 1 ms costs no rate, unless catch-up is turned off. Method: 5,000
    /// kbit/s in packets of 1,250 bytes, 2 ms each, and a caller that is 0.906 ms late each time.
    /// Without catch-up a packet takes 2.906 ms: 3,441 kbit/s. By default it is the rate, to within
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

    /// Goal: the default burst is the documented one. Method: callers that are 10 ms and 1 s late
    /// get the packets of 10 ms and one more; a caller that finds an idle queue gets one.
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

    /// Goal: no way of enqueuing turns idle time into catch-up. Method: after a second without
    /// packets, 20 arrive at once, in each way; one leaves. Without the start of a busy period, a
    /// burst of 13 would leave.
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
