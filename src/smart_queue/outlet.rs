//! Permission to send: the shaper and the device behind it.

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

/// An AQM chosen at run time.
pub(super) type SmartAqm<S> =
    ChosenAqm<<S as Storage>::Of<ChosenAqmState>, <S as Storage>::Tins<AqmSetting>>;

pub(super) type ShapedIsolated<S> = Shaped<Isolated<S, SmartAqm<S>>>;

/// The shaper, the device behind it, and the settings of a smart queue.
#[derive(Debug)]
pub(super) struct Outlet<S: Storage> {
    pub(super) line: ShapedIsolated<S>,
    pub(super) device: DeviceRoom,
    /// The longest packet in bytes: if the device takes this much, every packet fits.
    pub(super) max_len: u32,
    pub(super) rtt: Rtt,
    /// True if the limit in bytes follows the rate, because the caller has set none.
    pub(super) is_by_rate: bool,
    /// The memory limit, if any, and the length of the buffers.
    pub(super) memory: Option<Memory>,
    pub(super) buffer: Option<u32>,
    pub(super) ack_filter: AckFilter,
    pub(super) layer: LinkLayer,
    /// A table of one element.
    pub(super) tins: S::One<TinPlan>,
    pub(super) non_ip: NonIpFrames,
}

impl<S: Storage> Outlet<S> {
    /// Returns true if the device takes the packet that leaves next at `now`.
    #[inline]
    fn fits(&mut self, now: Nanos) -> bool {
        self.device == DeviceRoom::Ready || self.next_fits(now)
    }

    #[inline(never)]
    fn next_fits(&mut self, now: Nanos) -> bool {
        self.device.room() >= self.max_len || self.next(now).is_some()
    }

    /// Enqueues a packet with these labels; dropped packets go to `drops`.
    #[inline(always)] // like `FlowQueues::enqueue`
    pub(super) fn enqueue(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if self.line.is_ingress() {
            // Passed in parts so that it stays in registers: a closure's captures are in memory,
            // which would slow down the path without ingress too.
            let Packet { handle, len, ecn } = packet;
            self.line.arrive(now, drops, move |inside, drops| {
                let packet = Packet { handle, len, ecn };
                inside.enqueue_labelled(now, labels, packet, drops).map(|_| ())
            })?;
            return Ok(());
        }
        self.line.arrival(now).enqueue_by_labels(now, labels, packet, drops)
    }

    /// Enqueues an acknowledgement and applies the filter: `acks` reads a queued packet.
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

    /// Peeks at the next packet for a caller that will take it: like a dequeue, it resynchronizes a
    /// closed shaper whose clock has stepped back.
    #[inline(never)]
    pub(super) fn next(&mut self, now: Nanos) -> Option<Packet> {
        let (is_open, rate) = (self.line.line().is_open(now), self.line.line().rate());
        if !is_open {
            self.line.set_rate(now, rate);
        }
        self.peek(now)
    }

    /// Returns `None` also while the next packet does not fit into the device.
    pub(super) fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        if self.device == DeviceRoom::Ready && !self.line.inner().waits() {
            return self.line.poll_at(now);
        }
        self.poll_apart(now)
    }

    /// Returns [`Self::poll_at`] for hosts with rates or a device that does not take every packet.
    /// A tail call, so that the common path saves no registers.
    #[inline(never)]
    fn poll_apart(&self, now: Nanos) -> Option<Nanos> {
        let at = self.line.poll_at(now)?;
        if self.device == DeviceRoom::Ready {
            return Some(at);
        }
        // The shaper may still be closed at `now` if the clock has stepped back.
        let next = if at > now { None } else { self.line.peek(now) };
        let least = next.map_or(1, |packet| packet.len);
        (self.device.room() >= least).then_some(at)
    }
}
