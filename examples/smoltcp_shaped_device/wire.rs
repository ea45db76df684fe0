//! The simulated device: a ring of slots for frames, in front of a link.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::{Duration, Instant};

/// Longest Ethernet frame in bytes.
pub(crate) const MAX_FRAME: usize = 1_514;
/// Propagation delay after the link.
const PROPAGATION: Duration = Duration::from_millis(10);

/// A device with a transmit ring. A frame keeps its slot until the link has sent all of it.
#[derive(Debug)]
pub(crate) struct Wire {
    places: usize,
    bits_per_second: u64,
    /// Frames in the ring and in transit, each with the time at which the link has sent it.
    frames: VecDeque<(Instant, Vec<u8>)>,
    /// Frames that have arrived here.
    pub(crate) inbox: VecDeque<Vec<u8>>,
    /// Frames passed to the link.
    pub(crate) carried: u64,
}

impl Wire {
    pub(crate) fn new(places: usize, bits_per_second: u64) -> Self {
        let (frames, inbox) = (VecDeque::new(), VecDeque::new());
        Self { places, bits_per_second, frames, inbox, carried: 0 }
    }

    /// Returns the transmission time of a frame.
    pub(crate) fn time_of(&self, bytes: usize) -> Duration {
        Duration::from_micros((bytes as u64 * 8_000_000).div_ceil(self.bits_per_second))
    }

    fn send(&mut self, now: Instant, frame: Vec<u8>) {
        let begin = self.frames.back().map_or(now, |&(sent, _)| sent.max(now));
        self.carried += 1;
        self.frames.push_back((begin + self.time_of(frame.len()), frame));
    }

    /// Returns a frame that has reached the other end, with the time at which the link had sent it.
    pub(crate) fn arrival(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let (sent, _) = self.frames.front()?;
        if *sent + PROPAGATION > now { None } else { self.frames.pop_front() }
    }

    /// Returns the next time after `now` at which a slot becomes free or a frame arrives.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let sent = self.frames.iter().map(|&(sent, _)| sent).find(|&sent| sent > now);
        let arrives = self.frames.front().map(|&(sent, _)| sent + PROPAGATION);
        sent.into_iter().chain(arrives).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Place<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Received, Place<'_>)> {
        let frame = self.inbox.pop_front()?;
        Some((Received(frame), Place(self, now)))
    }

    fn transmit(&mut self, now: Instant) -> Option<Place<'_>> {
        let taken = self.frames.iter().rev().take_while(|&&(sent, _)| sent > now).count();
        (taken < self.places).then_some(Place(self, now))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME;
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
pub(crate) struct Place<'a>(&'a mut Wire, Instant);

impl TxToken for Place<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.send(self.1, frame);
        result
    }
}
