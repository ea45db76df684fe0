//! Any scheduler behind a line of a given rate.
//!
//! The scheduler inside decides *who* is next and knows nothing of rates; the [`Shaper`] decides
//! *when* and knows nothing of flows. A packet is charged its length on the wire when it leaves,
//! with the [`Overhead`] in force then. The scheduler's own books count the length that was given
//! at enqueue, so that no change of the link can unbalance them.
//!
//! Packets that the scheduler drops are not charged: they never reach the line.
//!
//! Cost: a comparison, the wire length and a charge on top of the scheduler's own.

use sched_core::{
    Backlog, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, Rejected, Scheduler,
};

use crate::{Overhead, Rate, Shaper};

/// The scheduler `S` in front of a line.
///
/// It is a [`Scheduler`] itself: [`dequeue`](Scheduler::dequeue) gives a packet only when the line
/// is open, and [`poll_at`](Scheduler::poll_at) says when it will be.
///
/// ```
/// use sched_core::{Fifo, FlowId, Limits, Nanos, Packet, Scheduler, Slot};
/// use shaper::{Overhead, Rate, Shaped, Shaper};
///
/// let fifo = Fifo::tail_drop([Slot::EMPTY; 64], Limits::NONE);
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
    inner: S,
}

impl<S> Shaped<S> {
    /// `inner` in front of `line`; `link` says what a packet is on the wire.
    pub const fn new(inner: S, line: Shaper, link: Overhead) -> Self {
        Self { line, link, inner }
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

    /// The scheduler inside, to add flows or change weights. A packet dequeued here leaves without
    /// being charged.
    pub const fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The line: its rate, and when it is free.
    pub const fn line(&self) -> &Shaper {
        &self.line
    }

    /// The line, to charge it for what leaves elsewhere.
    pub const fn line_mut(&mut self) -> &mut Shaper {
        &mut self.line
    }

    /// What a packet is on the wire.
    pub const fn overhead(&self) -> Overhead {
        self.link
    }

    /// Changes the rate from the next packet on: see [`Shaper::set_rate`]. What
    /// [`poll_at`](Scheduler::poll_at) said before may be too late afterwards.
    pub fn set_rate(&mut self, rate: Rate) {
        self.line.set_rate(rate);
    }

    /// Changes what a packet is on the wire, from the next that leaves on, queued ones included.
    pub const fn set_overhead(&mut self, link: Overhead) {
        self.link = link;
    }
}

impl<S: Scheduler + ?Sized> Shaped<S> {
    fn wake_if_idle(&mut self, now: Nanos) {
        if self.inner.backlog().packets == 0 {
            self.line.wake(now);
        }
    }
}

impl<S: Scheduler + ?Sized> Scheduler for Shaped<S> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.wake_if_idle(now);
        self.inner.enqueue(now, flow, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        if !self.line.is_open(now) {
            return None;
        }
        let packet = self.inner.dequeue(now, drops)?;
        self.line.charge(now, self.link.wire_len(packet.len));
        Some(packet)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        if self.line.is_open(now) { self.inner.peek(now) } else { None }
    }

    /// The later of what the line and the scheduler inside say. `None` also when packets are
    /// queued and the line never opens: it is stopped, or the end of time comes first.
    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        let ready = self.inner.poll_at(now)?;
        if self.line.is_open(now) {
            return Some(ready);
        }
        let open = self.line.due();
        (open < Nanos::MAX).then(|| ready.max(open))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        self.inner.flow_counters(flow)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.inner.set_limits(limits, drops);
    }

    /// What gives way is not charged.
    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.inner.evict(drops)
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
        self.wake_if_idle(now);
        self.inner.enqueue_burst(now, burst, drops)
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.inner.recount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framing;
    use sched_core::{DropReason, Fifo, Slot};
    use std::boxed::Box;

    fn no_drops(packet: Packet, reason: DropReason) {
        panic!("{packet:?} dropped: {}", reason.name());
    }

    /// 1 µs a byte.
    fn shaped() -> Shaped<Fifo<[Slot; 256]>> {
        let fifo = Fifo::tail_drop([Slot::EMPTY; 256], Limits::NONE);
        let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
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
        let slow = Shaper::new(Rate::megabits_per_second(4).unwrap());
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
        shaped.set_rate(Rate::STOPPED);
        fill(&mut shaped, 2);
        assert_eq!(shaped.dequeue(Nanos::MAX, &mut no_drops), None);
        assert_eq!(shaped.peek(Nanos(9)), None);
        assert_eq!(shaped.poll_at(Nanos(9)), None);
        assert_eq!(shaped.backlog().packets, 2);
        shaped.set_rate(Rate::UNLIMITED);
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
        shaped.line_mut().charge(Nanos::ZERO, 1_000);
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
