//! Back-pressure: what the device behind the queue takes.

/// What the device behind a [`SmartQueue`](crate::SmartQueue) takes: the second way to be slowed
/// down, beside the rate.
///
/// A rate says how fast the line is. A device says it without a figure: a ring of descriptors that
/// is full, a modem that raises a wait line, a socket that would block. While it takes nothing,
/// packets wait in the queue, where the longest waits longest, and not in the device, where they
/// would wait in one line.
///
/// **The driver says when the device is ready again.** Nothing but
/// [`set_device`](crate::SmartQueue::set_device) or [`add_room`](crate::SmartQueue::add_room) ends
/// [`Busy`](Self::Busy): [`poll_at`](crate::SmartQueue::poll_at) is `None` until then, so that a
/// timer set to it alone would sleep for ever. The interrupt or event that says the device has sent
/// is the place for the call; after it, look for a packet at once.
///
/// Bytes are those of the packets as they came in, without the overhead of the link.
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
/// queue.set_device(DeviceRoom::Ready); // it has sent
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
    /// The device takes nothing, until the driver says otherwise.
    Busy,
    /// The device takes `n` bytes more; a packet that is longer than what is left of them waits.
    /// `Takes(0)` is [`DeviceRoom::Busy`].
    Takes(u32),
}

impl DeviceRoom {
    /// Bytes that the device takes at least; a longer packet does not fit.
    pub(super) const fn room(self) -> u32 {
        match self {
            Self::Ready => u32::MAX,
            Self::Busy => 0,
            Self::Takes(bytes) => bytes,
        }
    }

    /// The device takes a packet of `len` bytes.
    pub(super) const fn take(&mut self, len: u32) {
        if let Self::Takes(bytes) = self {
            *bytes = bytes.saturating_sub(len);
        }
    }

    /// The device after it has room for `bytes` more.
    pub(super) const fn with_more(self, bytes: u32) -> Self {
        match self {
            Self::Ready => Self::Ready,
            Self::Busy => Self::Takes(bytes),
            Self::Takes(room) => Self::Takes(room.saturating_add(bytes)),
        }
    }
}
