//! A smoltcp device whose frames pass through a smart queue. Independent of the simulation: copy
//! this file.

use freeboard::sched_core::Nanos;
use freeboard::{DeviceRoom, FrameQueue};
use smoltcp::iface::{Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, TxToken};
use smoltcp::time::{Duration, Instant};

/// Puts a [`FrameQueue`] in front of the device `D`.
///
/// smoltcp may always transmit: its frames go into the queue, which decides which frame to drop.
/// Without the queue a full device refuses frames, and smoltcp offers the next free slot to its
/// first socket again.
///
/// The loop around it: [`Interface::poll`], then [`pump`](Self::pump), then sleep for
/// [`poll_delay`](Self::poll_delay), or until the device has received or sent.
#[derive(Debug)]
pub(crate) struct ShapedDevice<D> {
    inner: D,
    queue: FrameQueue,
    /// Buffer into which smoltcp writes a frame before the queue copies it.
    scratch: Vec<u8>,
}

impl<D: Device> ShapedDevice<D> {
    pub(crate) const fn new(inner: D, queue: FrameQueue) -> Self {
        Self { inner, queue, scratch: Vec::new() }
    }

    /// Enqueues a frame of another host, sent along with those of the interface. The queue counts a
    /// frame that is longer than its buffers as rejected.
    pub(crate) fn forward(&mut self, now: Instant, frame: &[u8]) {
        let _counted = self.queue.push(nanos(now), frame);
    }

    /// Moves frames that may leave to the device, while the device returns tokens. A frame is taken
    /// from the queue only with a token, so frames that the device has no slot for stay isolated.
    pub(crate) fn pump(&mut self, now: Instant) {
        loop {
            let token = self.inner.transmit(now);
            self.queue.set_device(if token.is_some() {
                DeviceRoom::Ready
            } else {
                DeviceRoom::Busy
            });
            let (Some(token), Some(frame)) = (token, self.queue.pop(nanos(now))) else { return };
            token.consume(frame.len(), |place| place.copy_from_slice(frame));
        }
    }

    /// Returns the time until `interface` or the queue has work to do; `None` if only an arrival,
    /// or a transmission completed by the device, can change that.
    pub(crate) fn poll_delay(
        &self,
        now: Instant,
        interface: &mut Interface,
        sockets: &SocketSet<'_>,
    ) -> Option<Duration> {
        let due = self.queue.poll_at(nanos(now));
        // smoltcp has a resolution of microseconds: rounded up, so that the frame may leave by
        // then.
        let queue = due.map(|at| Duration::from_micros(at.since(nanos(now)).0.div_ceil(1_000)));
        let interface = interface.poll_delay(now, sockets);
        queue.into_iter().chain(interface).min()
    }

    pub(crate) const fn queue(&self) -> &FrameQueue {
        &self.queue
    }

    pub(crate) const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }
}

impl<D: Device> Device for ShapedDevice<D> {
    type RxToken<'a>
        = D::RxToken<'a>
    where
        D: 'a;
    type TxToken<'a>
        = QueueToken<'a>
    where
        D: 'a;

    /// Drops the device's own transmit token: the response goes into the queue.
    fn receive(&mut self, now: Instant) -> Option<(D::RxToken<'_>, QueueToken<'_>)> {
        let Self { inner, queue, scratch } = self;
        let (received, _) = inner.receive(now)?;
        Some((received, QueueToken { now, queue, scratch }))
    }

    fn transmit(&mut self, now: Instant) -> Option<QueueToken<'_>> {
        let Self { queue, scratch, .. } = self;
        Some(QueueToken { now, queue, scratch })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.inner.capabilities()
    }
}

/// The right to put one frame into the queue.
#[derive(Debug)]
pub(crate) struct QueueToken<'a> {
    now: Instant,
    queue: &'a mut FrameQueue,
    scratch: &'a mut Vec<u8>,
}

impl TxToken for QueueToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        self.scratch.clear();
        self.scratch.resize(len, 0);
        let result = write(self.scratch);
        let _counted = self.queue.push(nanos(self.now), self.scratch);
        result
    }
}

fn nanos(at: Instant) -> Nanos {
    Nanos::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}
