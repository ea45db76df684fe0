//! Back-pressure: what the device behind the queue takes.

/// The capacity of the device behind a [`SmartQueue`](crate::SmartQueue): back-pressure, beside the
/// rate.
///
/// A rate says how fast the link is; a device can only say that it is full: a full ring of
/// descriptors, a modem that raises its wait signal, a socket that would block. While it is full,
/// packets wait here, where flows are isolated and the AQM acts, instead of in the device's FIFO.
///
/// **The driver must report when the device is ready again.** Only
/// [`set_device`](crate::SmartQueue::set_device) and [`add_room`](crate::SmartQueue::add_room) end
/// [`Busy`](Self::Busy): until then [`poll_at`](crate::SmartQueue::poll_at) is `None`, so a timer
/// set to it alone would sleep forever. Call one of them from the interrupt or event that reports
/// completed transmission, and then dequeue at once.
///
/// Bytes are those of the packets as enqueued, without the overhead of the link.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
/// use freeboard::{DeviceRoom, SmartQueue};
///
/// let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames([42; 16])?;
/// queue.push(Nanos(0), &[0; 60])?;
/// queue.set_device(DeviceRoom::Busy); // its ring is full
/// assert_eq!((queue.poll_at(Nanos(0)), queue.pop(Nanos(0))), (None, None));
/// queue.set_device(DeviceRoom::Ready); // transmission completed
/// assert!(queue.pop(Nanos(0)).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DeviceRoom {
    /// The device takes every packet.
    #[default]
    Ready,
    /// The device takes nothing, until the driver reports otherwise.
    Busy,
    /// The device takes `n` bytes more; a packet longer than the rest waits. `Takes(0)` is
    /// [`DeviceRoom::Busy`].
    Takes(u32),
}

impl DeviceRoom {
    /// Returns the bytes that the device takes at least; a longer packet does not fit.
    pub(super) const fn room(self) -> u32 {
        match self {
            Self::Ready => u32::MAX,
            Self::Busy => 0,
            Self::Takes(bytes) => bytes,
        }
    }

    /// Subtracts a packet of `len` bytes.
    pub(super) const fn take(&mut self, len: u32) {
        if let Self::Takes(bytes) = self {
            *bytes = bytes.saturating_sub(len);
        }
    }

    /// Returns the state with `bytes` more of capacity.
    pub(super) const fn with_more(self, bytes: u32) -> Self {
        match self {
            Self::Ready => Self::Ready,
            Self::Busy => Self::Takes(bytes),
            Self::Takes(room) => Self::Takes(room.saturating_add(bytes)),
        }
    }
}
