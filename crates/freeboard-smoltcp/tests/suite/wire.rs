//! A simulated device: a ring of slots for frames, in front of a link.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::{Duration, Instant};

/// A device with a transmit ring. A frame keeps its slot until the link has sent all of it.
#[derive(Debug)]
pub(crate) struct Wire {
    medium: Medium,
    /// Longest frame in bytes.
    pub(crate) mtu: usize,
    /// Longest frame in bytes that does not fail the test.
    most: usize,
    slots: usize,
    bits_per_second: u64,
    /// Propagation delay after the link.
    delay: Duration,
    /// Frames in the ring and in transit, each with the time at which the link has sent it.
    frames: VecDeque<(Instant, Vec<u8>)>,
    /// Frames that have arrived here.
    pub(crate) inbox: VecDeque<Vec<u8>>,
    /// Number and bytes of the frames passed to the link.
    pub(crate) carried: (u64, u64),
}

impl Wire {
    pub(crate) fn new(medium: Medium, slots: usize, bits_per_second: u64, delay: Duration) -> Self {
        let mtu = if medium == Medium::Ethernet { 1_514 } else { 1_500 };
        let (frames, inbox) = (VecDeque::new(), VecDeque::new());
        let (most, carried) = (mtu, (0, 0));
        Self { medium, mtu, most, slots, bits_per_second, delay, frames, inbox, carried }
    }

    /// Sets the longest frame in bytes.
    pub(crate) fn with_mtu(self, mtu: usize) -> Self {
        Self { mtu, ..self }
    }

    /// Fails the test for frames longer than `most`, although the device can send them.
    pub(crate) fn sending_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    fn send(&mut self, now: Instant, frame: Vec<u8>) {
        assert!(frame.len() <= self.most, "{} bytes", frame.len());
        let begin = self.frames.back().map_or(now, |&(sent, _)| sent.max(now));
        let time = (frame.len() as u64 * 8_000_000).div_ceil(self.bits_per_second);
        self.carried = (self.carried.0 + 1, self.carried.1 + frame.len() as u64);
        self.frames.push_back((begin + Duration::from_micros(time), frame));
    }

    /// Returns a frame that has reached the other end.
    pub(crate) fn arrival(&mut self, now: Instant) -> Option<Vec<u8>> {
        let &(sent, _) = self.frames.front()?;
        if sent + self.delay > now { None } else { self.frames.pop_front().map(|(_, frame)| frame) }
    }

    /// Returns the next time after `now` at which a slot becomes free or a frame arrives.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let sent = self.frames.iter().map(|&(sent, _)| sent).find(|&sent| sent > now);
        let arrives = self.frames.front().map(|&(sent, _)| sent + self.delay);
        sent.into_iter().chain(arrives).min()
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Received, Slot<'_>)> {
        let frame = self.inbox.pop_front()?;
        Some((Received(frame), Slot(self, now)))
    }

    fn transmit(&mut self, now: Instant) -> Option<Slot<'_>> {
        let taken = self.frames.iter().rev().take_while(|&&(sent, _)| sent > now).count();
        (taken < self.slots).then_some(Slot(self, now))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.max_burst_size = Some(45);
        capabilities
    }
}

#[derive(Debug)]
pub(crate) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a mut Wire, Instant);

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.send(self.1, frame);
        result
    }
}
