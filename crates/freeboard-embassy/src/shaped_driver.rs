//! The driver and its transmit token.

use core::fmt;
use core::task::Context;

use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, TxToken};
use freeboard::flowhash::{HostIdentity, HostMap, Nat, NoNat};
use freeboard::{AllAlike, DeviceRoom, HostRules, LinkLayer, Storage};

use crate::{ShapedDriverError, SharedQueue, now};

/// Bytes of the longest IPv4 packet that every host must be able to send whole (RFC 791).
const LEAST_MTU: usize = 68;
const ETHERNET_HEADER: usize = 14;

/// An `embassy-net` driver that queues and shapes what it sends: a [`SharedQueue`] in front of the
/// driver `D`.
///
/// The stack may always transmit. Its frames go into the queue, which decides when each leaves and
/// which to drop. Received frames pass unchanged; responses to them are queued.
///
/// **Wake-ups.** Each poll of the stack sends the frames that may leave. After a frame is queued,
/// and while others wait, the driver sets a timer that wakes the task of the stack when the next
/// one may leave. A driver `D` that cannot send wakes it as usual.
///
/// **TCP of the stack.** After a loss, smoltcp detects duplicate acknowledgements only if they
/// repeat the window of the receiver. Linux raises its window while it receives, so a packet lost
/// on the way to Linux is sent again only after a timeout of at least a second. There are two ways
/// to fill the link with connections of the stack itself:
///
/// - Let each have at most four packets in flight, by the length of its transmit buffer. The
///   default AQM drops none of so few unless they wait longer than 50 ms.
/// - Build the queue with [`AqmKind::None`](freeboard::AqmKind::None), and with buffers for the
///   windows of all connections. Each has a queue of its own, so its window delays only itself.
///
/// ```
/// use embassy_net_driver::Driver;
/// use freeboard::shaper::Rate;
/// use freeboard::{SmartQueue, StaticFrames};
/// use freeboard_embassy::{ShapedDriver, ShapedDriverError, SharedQueue};
///
/// // 32 buffers of 1,514 bytes; in a firmware, memory and queue are in a `StaticCell`.
/// fn run(inner: impl Driver) -> Result<(), Box<dyn core::error::Error>> {
///     let mut memory = StaticFrames::<32, 1_514, 1>::new();
///     let key = [42; 16]; // 16 random bytes
///     let queue =
///         SmartQueue::upload(Rate::kilobits_per_second(500)?).frames_in(&mut memory, key)?;
///     let queue = SharedQueue::new(queue);
///     let driver = ShapedDriver::new(inner, &queue)?;
///     // `embassy_net::new(driver, …)`, and run the stack as without a queue.
///     # let _ = driver.capabilities();
///     Ok(())
/// }
/// ```
pub struct ShapedDriver<'q, D, S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    inner: D,
    queue: &'q SharedQueue<S, N, R, I>,
    /// Longest frame that both the driver and a buffer of the queue can hold, in bytes.
    mtu: usize,
}

impl<D: fmt::Debug, S: Storage, N, R, I> fmt::Debug for ShapedDriver<'_, D, S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, queue, mtu } = self;
        let mut debug = f.debug_struct("ShapedDriver");
        debug.field("inner", inner).field("queue", queue).field("mtu", mtu).finish()
    }
}

impl<'q, D, S, N, R, I> ShapedDriver<'q, D, S, N, R, I>
where
    D: Driver,
    S: Storage,
    N: Nat,
    R: HostRules,
    I: HostIdentity,
{
    /// Puts `queue` in front of `inner`. If the frames of `inner` begin with an IP header, build
    /// the queue with [`raw_ip`](freeboard::SmartQueueBuilder::raw_ip). Each driver needs a queue
    /// of its own.
    ///
    /// # Errors
    /// [`ShapedDriverError`] if the frames of `inner` begin neither with an Ethernet nor with an IP
    /// header, if the queue was built for the other, if `inner` or a buffer of the queue cannot
    /// hold an IP packet of 68 bytes, or if the queue is not empty or was given to a driver before.
    pub fn new(inner: D, queue: &'q SharedQueue<S, N, R, I>) -> Result<Self, ShapedDriverError> {
        let address = inner.hardware_address();
        let (driver, least) = match address {
            HardwareAddress::Ethernet(_) => (LinkLayer::Ethernet, ETHERNET_HEADER + LEAST_MTU),
            HardwareAddress::Ip => (LinkLayer::RawIp, LEAST_MTU),
            _ => return Err(ShapedDriverError::Medium(address)),
        };
        let (read, (_, buffer)) = queue.within(|queue| (queue.link_layer(), queue.buffers()));
        if read != driver {
            return Err(ShapedDriverError::LinkLayer { driver, queue: read });
        }
        let mtu = inner.capabilities().max_transmission_unit.min(buffer);
        if mtu < least {
            return Err(ShapedDriverError::Mtu { given: mtu, least });
        }
        queue.set_mtu(mtu)?;
        Ok(Self { inner, queue, mtu })
    }

    /// Returns the driver.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns a mutable reference to the driver.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Moves frames that may leave to the inner driver, and sets the timer for the next.
    fn pump(&mut self, cx: &mut Context<'_>) {
        let Self { inner, queue, .. } = self;
        let now = now();
        queue.register(cx);
        queue.within(|queue| {
            queue.set_device(DeviceRoom::Ready);
            while queue.poll_at(now).is_some_and(|due| due <= now) {
                let Some(token) = inner.transmit(cx) else {
                    queue.set_device(DeviceRoom::Busy);
                    return;
                };
                let Some(frame) = queue.pop(now) else { return };
                token.consume(frame.len(), |place| place.copy_from_slice(frame));
            }
        });
        queue.arm(now);
    }
}

/// Passes the capabilities of `D`, except that the longest frame is also limited by the buffers of
/// the queue.
impl<'q, D, S, N, R, I> Driver for ShapedDriver<'q, D, S, N, R, I>
where
    D: Driver,
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

    /// Drops the driver's own transmit token: the response goes into the queue.
    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(D::RxToken<'_>, Self::TxToken<'_>)> {
        self.pump(cx);
        let (received, _) = self.inner.receive(cx)?;
        Some((received, QueueToken { queue: self.queue }))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<Self::TxToken<'_>> {
        self.pump(cx);
        Some(QueueToken { queue: self.queue })
    }

    fn link_state(&mut self, cx: &mut Context<'_>) -> LinkState {
        self.inner.link_state(cx)
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        self.inner.hardware_address()
    }
}

/// The right to put one frame into the queue. The queue counts a frame that it rejects, or drops
/// later.
pub struct QueueToken<'a, S: Storage, N = NoNat, R = AllAlike, I = HostMap> {
    queue: &'a SharedQueue<S, N, R, I>,
}

impl<S: Storage, N, R, I> fmt::Debug for QueueToken<'_, S, N, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueToken").finish_non_exhaustive()
    }
}

impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> TxToken for QueueToken<'_, S, N, R, I> {
    /// Lets `write` write the frame into a buffer of the queue, and wakes the task of the stack
    /// when it may leave: the stack does not call the driver after its last frame.
    ///
    /// # Panics
    /// If `len` is 0 or above the [MTU](Capabilities::max_transmission_unit) of the driver. The
    /// stack never sends such a frame.
    fn consume<T, F: FnOnce(&mut [u8]) -> T>(self, len: usize, write: F) -> T {
        let mut result = None;
        let fill = |place: &mut [u8]| result = Some(write(place));
        let queued = self.queue.enqueue(len, |queue, now| queue.push_with(now, len, fill));
        result.unwrap_or_else(|| panic!("frame above the MTU: {queued:?}"))
    }
}
