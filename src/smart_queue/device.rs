//! Back-pressure: what the device behind the queue takes.

/// What the device behind a [`SmartQueue`](crate::SmartQueue) takes: the second way to be slowed down, beside the rate.
///
/// A rate says how fast the line is. A device says it without a figure: a ring of descriptors that is full, a modem
/// that raises a wait line, a socket that would block. While it takes nothing, packets wait in the queue, where
/// the longest waits longest, and not in the device, where they would wait in one line.
///
/// Bytes are those of the packets as they came in, without the overhead of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Device {
    /// It takes every packet.
    #[default]
    Ready,
    /// It takes nothing.
    Busy,
    /// It takes `n` bytes more; a packet that is longer than what is left of them waits. `Takes(0)` is
    /// [`Device::Busy`].
    Takes(u32),
}

impl Device {
    /// Bytes that the device takes at least; a longer packet does not fit.
    pub(super) const fn room(self) -> u32 {
        match self {
            Self::Ready => u32::MAX,
            Self::Busy => 0,
            Self::Takes(bytes) => bytes,
        }
    }

    /// The device after it has taken a packet of `len` bytes.
    pub(super) const fn took(self, len: u32) -> Self {
        match self {
            Self::Ready => Self::Ready,
            Self::Busy => Self::Busy,
            Self::Takes(bytes) => Self::Takes(bytes.saturating_sub(len)),
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
