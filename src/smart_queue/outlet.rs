//! What may leave when: the line and the device behind it.

use flowhash::Ack;
use sched_core::{
    AqmSetting, ChosenAqm, ChosenAqmState, DropSink, Nanos, Packet, Rejected, Scheduler,
};
use shaper::{Rate, Segmentation, Shaped};

use super::device::DeviceRoom;
use super::memory_limit::Memory;
use super::{LinkLayer, Rtt};
use crate::ack_filter::AckFilter;
use crate::isolation::Isolated;
use crate::labels::Labelled;
use crate::statistics::NonIpFrames;
use crate::storage::Storage;
use crate::tins::TinPlan;

/// Any AQM, chosen while the program runs.
pub(super) type SmartAqm<S> =
    ChosenAqm<<S as Storage>::Of<ChosenAqmState>, <S as Storage>::Tins<AqmSetting>>;

/// Isolated queues with an AQM behind a line.
pub(super) type ShapedIsolated<S> = Shaped<Isolated<S, SmartAqm<S>>>;

/// A line and the device that it ends at, and what a smart queue is set to.
#[derive(Debug)]
pub(super) struct Outlet<S: Storage> {
    pub(super) line: ShapedIsolated<S>,
    pub(super) device: DeviceRoom,
    /// The longest packet in bytes: where the device has room for this much, every packet fits.
    pub(super) max_len: u32,
    pub(super) rtt: Rtt,
    /// True if the limit in bytes follows the rate: the caller has set none.
    pub(super) is_by_rate: bool,
    /// The memory that packets may take, if it is limited, and the buffers in which they lie.
    pub(super) memory: Option<Memory>,
    pub(super) buffer: Option<u32>,
    pub(super) ack_filter: AckFilter,
    /// The header that packets begin with.
    pub(super) layer: LinkLayer,
    /// One.
    pub(super) tins: S::One<TinPlan>,
    pub(super) non_ip: NonIpFrames,
}

impl<S: Storage> Outlet<S> {
    /// Returns true if the device has room for what leaves next at `now`.
    #[inline]
    fn fits(&mut self, now: Nanos) -> bool {
        self.device == DeviceRoom::Ready || self.next_fits(now)
    }

    #[inline(never)]
    fn next_fits(&mut self, now: Nanos) -> bool {
        self.device.room() >= self.max_len || self.next(now).is_some()
    }

    /// Takes a packet with these labels; what gives way goes to `drops`.
    #[inline(always)] // as that of the queues by number
    pub(super) fn enqueue(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.line.is_ingress() {
            // In parts: what a closure refers to has a place in memory, on the way without ingress
            // too.
            let Packet { handle, len, ecn } = packet;
            self.line.arrive(now, drops, move |inside, drops| {
                let packet = Packet { handle, len, ecn };
                inside.enqueue_labelled(now, labels, packet, drops).map(|_| ())
            })?;
            return Ok(());
        }
        self.line.arrival(now).enqueue_by_labels(now, labels, packet, drops)
    }

    /// As [`Self::enqueue`], of an acknowledgement where there is a filter: `acks` reads a packet
    /// that is queued. In a function of its own: acknowledgements that are read take 0.6 kB of the
    /// stack.
    #[inline(never)]
    pub(super) fn enqueue_ack<D: DropSink>(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        (packet, ack): (Packet, &Ack),
        (filter, acks): (AckFilter, impl Fn(&D, Packet) -> Option<Ack>),
        drops: &mut D,
    ) -> Result<(), Rejected> {
        let queue = self.line.arrive(now, drops, |inside, drops| {
            inside.enqueue_and_name(now, labels, packet, drops)
        })?;
        let acks = |packet: Packet| acks(drops, packet);
        let newest = (packet, ack);
        let Some(younger) = self.line.inner().superseded_in(queue, newest, (filter, &acks)) else {
            return Ok(());
        };
        self.line.arrive(now, drops, |inside, drops| {
            inside.filter_out(queue, younger, drops);
            Ok(())
        })
    }

    #[inline(always)] // as above
    pub(super) fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        if !self.fits(now) {
            return None;
        }
        let packet = self.line.dequeue(now, drops)?;
        self.device.take(packet.len);
        Some(packet)
    }

    pub(super) fn dequeue_segmented(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if !self.fits(now) {
            return None;
        }
        let packet = self.line.dequeue_segmented(now, of, drops)?;
        self.device.take(packet.len);
        Some(packet)
    }

    pub(super) fn dequeue_burst(
        &mut self,
        now: Nanos,
        out: &mut [Packet],
        drops: &mut dyn DropSink,
    ) -> usize {
        if self.device == DeviceRoom::Ready && self.line.line().rate() == Rate::UNLIMITED {
            return self.line.dequeue_burst(now, out, drops);
        }
        let mut filled = 0_usize;
        for place in out {
            let Some(packet) = self.dequeue(now, drops) else { break };
            *place = packet;
            filled = filled.saturating_add(1);
        }
        filled
    }

    pub(super) fn peek(&self, now: Nanos) -> Option<Packet> {
        self.line.peek(now).filter(|packet| packet.len <= self.device.room())
    }

    /// As [`Self::peek`], for a caller that takes the packet: as in a dequeue, a closed line that
    /// waits for a clock that has stepped back goes on.
    #[inline(never)]
    pub(super) fn next(&mut self, now: Nanos) -> Option<Packet> {
        let (is_open, rate) = (self.line.line().is_open(now), self.line.line().rate());
        if !is_open {
            self.line.set_rate(now, rate);
        }
        self.peek(now)
    }

    /// `None` also while the device has no room for what is next.
    pub(super) fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.device == DeviceRoom::Ready && !self.line.inner().waits() {
            return self.line.poll_at(now);
        }
        self.poll_apart(now)
    }

    /// [`Self::poll_at`], where hosts wait or the device does not take every packet. Called last,
    /// so that the frequent way saves no registers.
    #[inline(never)]
    fn poll_apart(&self, now: Nanos) -> Option<Nanos> {
        let at = self.line.poll_at(now)?;
        if self.device == DeviceRoom::Ready {
            return Some(at);
        }
        // The line may be closed at `now` all the same, where the clock has stepped back.
        let next = if at > now { None } else { self.line.peek(now) };
        let least = next.map_or(1, |packet| packet.len);
        (self.device.room() >= least).then_some(at)
    }
}
