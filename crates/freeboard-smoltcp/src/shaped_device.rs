//! The device and its transmit token.

use core::fmt;

use freeboard::flowhash::{HostIdentity, HostMap, Nat, NoNat};
use freeboard::sched_core::Nanos;
use freeboard::{
    AllAlike, DeviceRoom, Frames, HostRules, LinkLayer, PushError, SmartQueue, Storage,
};
use smoltcp::iface::{Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time::{Duration, Instant};

use crate::ShapedDeviceError;

/// Bytes of the longest IPv4 packet that every host must be able to send whole (RFC 791).
const LEAST_MTU: usize = 68;
const ETHERNET_HEADER: usize = 14;

/// A smoltcp device that queues and shapes what it sends: a [`SmartQueue`] in front of the device
/// `D`.
///
/// smoltcp may always transmit. Its frames go into the queue, which decides when each leaves and
/// which to drop. Received frames pass unchanged; responses to them are queued. Without the queue,
/// a full device refuses frames; when a slot becomes free, smoltcp asks its first socket first, so
/// that the others may never send.
///
/// The loop around it, as in the example: [`pump`](Self::pump), then [`Interface::poll`]. Repeat
/// both while the state of a socket changes; then sleep for [`poll_delay`](Self::poll_delay), or
/// until the device has received or sent. If your timer has a coarser resolution, round up: the
/// queue makes up for up to 10 ms. `smoltcp::phy::wait` rounds down to milliseconds.
///
/// **TCP of smoltcp.** After a loss, smoltcp detects duplicate acknowledgements only if they repeat
/// the window of the receiver. Linux raises its window while it receives, so a packet lost on the
/// way to Linux is sent again only after a timeout of at least a second. There are two ways to fill
/// the link with connections of the stack itself:
///
/// - Let each have at most four packets in flight, by the length of its transmit buffer. The
///   default AQM drops none of so few unless they wait longer than 50 ms.
/// - Build the queue with [`AqmKind::None`](freeboard::AqmKind::None), and with buffers for the
///   windows of all connections. Each has a queue of its own, so its window delays only itself.
///
/// Between stacks of smoltcp, congestion control (`socket-tcp-reno` or `socket-tcp-cubic`) fills
/// the link with the defaults.
///
/// `S` is the [storage](freeboard::Storage) of the queue; the other parameters are those of
/// [`Frames`].
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{SmartQueue, StaticFrames};
/// use freeboard_smoltcp::ShapedDevice;
/// use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
/// use smoltcp::phy::{Loopback, Medium};
/// use smoltcp::time::Instant;
/// use smoltcp::wire::{EthernetAddress, HardwareAddress};
///
/// // 32 buffers of 1,514 bytes; in a firmware, in a `static`.
/// let mut memory = StaticFrames::<32, 1_514, 1>::new();
/// let key = [42; 16]; // 16 random bytes
/// let queue = SmartQueue::upload(Rate::kilobits_per_second(500)?).frames_in(&mut memory, key)?;
/// let mut device = ShapedDevice::new(Loopback::new(Medium::Ethernet), queue)?;
///
/// let mut now = Instant::ZERO;
/// let address = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 1]));
/// let mut interface = Interface::new(Config::new(address), &mut device, now);
/// let mut sockets = SocketSet::new(vec![]);
/// for _ in 0..10 {
///     // Read from and write to your sockets here.
///     device.pump(now);
///     if interface.poll(now, &mut device, &mut sockets) != PollResult::None {
///         continue; // there may be frames to send
///     }
///     match device.poll_delay(now, &mut interface, &sockets) {
///         Some(delay) => now += delay, // sleep for `delay`, or until the device has received
///         None => break,               // sleep until the device has received or sent
///     }
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct ShapedDevice<D, S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    inner: D,
    queue: SmartQueue<S, Frames<S, N, R, I>>,
    /// Longest frame that both the device and a buffer of the queue can hold, in bytes.
    mtu: usize,
}

impl<D: fmt::Debug, S: Storage, N, R, I> fmt::Debug for ShapedDevice<D, S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, queue, mtu } = self;
        let mut debug = f.debug_struct("ShapedDevice");
        debug.field("inner", inner).field("queue", queue).field("mtu", mtu).finish()
    }
}

impl<D, S, N, R, I> ShapedDevice<D, S, N, R, I>
where
    D: Device,
    S: Storage,
    N: Nat,
    R: HostRules,
    I: HostIdentity,
{
    /// Puts `queue` in front of `inner`. On an IP medium, build the queue with
    /// [`raw_ip`](freeboard::SmartQueueBuilder::raw_ip).
    ///
    /// # Errors
    /// [`ShapedDeviceError`] if the medium of the device is neither Ethernet nor IP, if the queue
    /// was built for the other, if the device or a buffer of the queue cannot hold an IP packet of
    /// 68 bytes, or if the queue is not empty.
    pub fn new(
        inner: D,
        queue: SmartQueue<S, Frames<S, N, R, I>>,
    ) -> Result<Self, ShapedDeviceError> {
        let capabilities = inner.capabilities();
        let (medium, read) = (capabilities.medium, queue.link_layer());
        let (layer, least) = match medium {
            #[cfg(feature = "medium-ethernet")]
            Medium::Ethernet => (LinkLayer::Ethernet, ETHERNET_HEADER + LEAST_MTU),
            #[cfg(feature = "medium-ip")]
            Medium::Ip => (LinkLayer::RawIp, LEAST_MTU),
            #[allow(unreachable_patterns, reason = "another crate may enable other mediums")]
            _ => return Err(ShapedDeviceError::Medium(medium)),
        };
        if read != layer {
            return Err(ShapedDeviceError::LinkLayer { medium, queue: read });
        }
        let (_, buffer) = queue.buffers();
        let mtu = capabilities.max_transmission_unit.min(buffer);
        if mtu < least {
            return Err(ShapedDeviceError::Mtu { given: mtu, least });
        }
        let packets = queue.backlog().packets;
        if packets > 0 {
            return Err(ShapedDeviceError::NotEmpty { packets });
        }
        Ok(Self { inner, queue, mtu })
    }

    /// Enqueues a frame of another host, sent along with those of the interface.
    ///
    /// # Errors
    /// [`PushError`] for a frame that was not queued, such as one longer than the
    /// [MTU](DeviceCapabilities::max_transmission_unit) of this device. The queue counts it as
    /// rejected, without its bytes if it is above the MTU.
    pub fn forward(&mut self, now: Instant, frame: &[u8]) -> Result<(), PushError> {
        self.token(now).enqueue(frame.len(), |queue, now| queue.push(now, frame))
    }

    fn token(&mut self, now: Instant) -> QueueToken<'_, S, N, R, I> {
        QueueToken { now: nanos(now), queue: &mut self.queue, mtu: self.mtu }
    }

    /// Moves frames that may leave to the device, while the device returns tokens. A frame is taken
    /// from the queue only with a token, so frames that the device has no slot for stay isolated.
    /// Call it after [`Interface::poll`] if that has changed a socket, at the time that
    /// [`poll_delay`](Self::poll_delay) returned, and when the device can send again.
    pub fn pump(&mut self, now: Instant) {
        let at = nanos(now);
        self.queue.set_device(DeviceRoom::Ready);
        while self.queue.poll_at(at).is_some_and(|due| due <= at) {
            let Some(token) = self.inner.transmit(now) else {
                self.queue.set_device(DeviceRoom::Busy);
                return;
            };
            let Some(frame) = self.queue.pop(at) else { return };
            token.consume(frame.len(), |place| place.copy_from_slice(frame));
        }
    }

    /// Returns the time until `interface` or the queue has work to do; `None` if only an arrival,
    /// or a transmission completed by the device, can change that. Call it after
    /// [`pump`](Self::pump), when [`Interface::poll`] has changed no socket since.
    pub fn poll_delay(
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

    /// Returns the queue.
    pub const fn queue(&self) -> &SmartQueue<S, Frames<S, N, R, I>> {
        &self.queue
    }

    /// Returns a mutable reference to the queue, to change its settings. Do not replace the queue,
    /// and enqueue with [`forward`](Self::forward), which rejects a frame that the device cannot
    /// send. After a change of the rate, call [`poll_delay`](Self::poll_delay) again.
    pub const fn queue_mut(&mut self) -> &mut SmartQueue<S, Frames<S, N, R, I>> {
        &mut self.queue
    }

    /// Returns the device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns a mutable reference to the device.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }
}

/// Passes the capabilities of `D`, except that the longest frame is also limited by the buffers of
/// the queue, and that segmentation is not offered.
impl<D, S, N, R, I> Device for ShapedDevice<D, S, N, R, I>
where
    D: Device,
    S: Storage,
    N: Nat,
    R: HostRules,
    I: HostIdentity,
{
    type RxToken<'a>
        = D::RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = QueueToken<'a, S, N, R, I>
    where
        Self: 'a;

    /// Drops the device's own transmit token: the response goes into the queue.
    fn receive(&mut self, now: Instant) -> Option<(D::RxToken<'_>, Self::TxToken<'_>)> {
        let (received, _) = self.inner.receive(now)?;
        let token = QueueToken { now: nanos(now), queue: &mut self.queue, mtu: self.mtu };
        Some((received, token))
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        Some(self.token(now))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let inner = self.inner.capabilities();
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = inner.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.max_burst_size = inner.max_burst_size;
        capabilities.checksum = inner.checksum;
        capabilities
    }
}

/// The right to put one frame into the queue. The queue counts a frame that it rejects, or drops
/// later. The token ignores [`set_meta`](TxToken::set_meta): the device gets no `PacketMeta`.
pub struct QueueToken<'a, S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    now: Nanos,
    queue: &'a mut SmartQueue<S, Frames<S, N, R, I>>,
    /// Longest frame in bytes.
    mtu: usize,
}

impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> QueueToken<'_, S, N, R, I> {
    /// Calls `push` for a frame of `len` bytes that the device can send. Counts another as
    /// rejected.
    fn enqueue(
        self,
        len: usize,
        push: impl FnOnce(&mut SmartQueue<S, Frames<S, N, R, I>>, Nanos) -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        let Self { now, queue, mtu: max } = self;
        if len <= max {
            return push(queue, now);
        }
        // A buffer may be long enough for it. The queue rejects an empty frame always.
        let _rejected = queue.push(now, &[]);
        Err(PushError::Length { len, max })
    }
}

impl<S: Storage, N, R, I> fmt::Debug for QueueToken<'_, S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueToken").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> TxToken for QueueToken<'_, S, N, R, I> {
    /// Lets `write` write the frame into a buffer of the queue.
    ///
    /// # Panics
    /// If `len` is 0 or above the [MTU](DeviceCapabilities::max_transmission_unit) of the device.
    /// smoltcp never sends such a frame.
    fn consume<T, F: FnOnce(&mut [u8]) -> T>(self, len: usize, write: F) -> T {
        let mut result = None;
        let fill = |place: &mut [u8]| result = Some(write(place));
        let queued = self.enqueue(len, |queue, now| queue.push_with(now, len, fill));
        result.unwrap_or_else(|| panic!("frame above the MTU: {queued:?}"))
    }
}

fn nanos(at: Instant) -> Nanos {
    Nanos::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}
