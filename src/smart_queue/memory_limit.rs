//! Limit on the memory of queued packets.

use core::fmt;

use sched_core::Limits;
use shaper::Rate;

use super::Rtt;

/// A limit on the bytes of buffers that queued packets occupy, beside [`Limits`]; it holds after
/// every call.
///
/// A packet occupies its buffer: with frames, a whole buffer of the queue, whatever the length of
/// the frame; with descriptors,
/// [`SmartQueueBuilder::buffer_len`](super::SmartQueueBuilder::buffer_len) bytes, or else its
/// length.
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{MemoryLimit, Rtt, SmartQueue};
///
/// let rate = Rate::megabits_per_second(100)?;
/// assert_eq!(MemoryLimit::ByRate.bytes(rate, Rtt::INTERNET), 5_000_000);
/// let queue =
///     SmartQueue::upload(rate).memory_limit(MemoryLimit::Bytes(150_000)).frames([42; 16])?;
/// assert_eq!(queue.memory_limit(), Some(150_000));
/// // Buffers of 1,522 bytes.
/// assert_eq!(queue.limits().packets, 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MemoryLimit {
    /// CAKE's rule: what the rate of the whole link carries in four round-trip times, at least
    /// [`MemoryLimit::LEAST`] and at most [`MemoryLimit::MOST`]. It follows rate and round-trip
    /// time only upwards, so that a change drops nothing.
    ByRate,
    /// A fixed number of bytes.
    Bytes(u32),
}

impl MemoryLimit {
    /// Minimum of [`MemoryLimit::ByRate`]: 4 MiB.
    pub const LEAST: u32 = 4 << 20;
    /// Maximum of [`MemoryLimit::ByRate`]: 10,240 packets of 1,514 bytes.
    pub const MOST: u32 = 10_240 * 1_514;

    /// Returns the limit in bytes for a link of this rate; [`MemoryLimit::MOST`] for
    /// [`Rate::UNLIMITED`] by rate.
    #[must_use]
    pub fn bytes(self, rate: Rate, rtt: Rtt) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::ByRate => rtt.carried(rate).clamp(Self::LEAST, Self::MOST),
        }
    }
}

/// Error of a memory limit below the longest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemoryLimitError {
    /// The limit in bytes.
    pub given: u32,
    /// The smallest possible limit: the memory of the longest packet.
    pub needed: u32,
}

impl fmt::Display for MemoryLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, needed } = self;
        write!(
            f,
            "memory limit of {given} bytes is less than a packet takes (expected {needed} or more)"
        )
    }
}

impl core::error::Error for MemoryLimitError {}

/// Where packets are buffered.
pub(super) trait Buffered {
    /// Returns the bytes of each of the queue's own buffers; `None` if it has none.
    fn own_buffer_len(&self) -> Option<u32>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) setting: MemoryLimit,
    pub(super) bytes: u32,
    /// The memory of each packet; `None` if it is its length.
    buffer: Option<u32>,
    /// The limits without the memory limit.
    pub(super) asked: Limits,
}

impl Memory {
    pub(super) fn new(
        setting: MemoryLimit,
        (rate, rtt): (Rate, Rtt),
        (buffer, max_len): (Option<u32>, u32),
        asked: Limits,
    ) -> Result<Self, MemoryLimitError> {
        let (given, needed) = (setting.bytes(rate, rtt), buffer.unwrap_or(max_len).max(1));
        if given < needed {
            return Err(MemoryLimitError { given, needed });
        }
        Ok(Self { setting, bytes: given, buffer, asked })
    }

    /// Returns limits that keep within the memory limit.
    #[expect(clippy::integer_division, reason = "when a limit is set; by what is not zero")]
    pub(super) fn limits(&self) -> Limits {
        let Limits { packets, bytes } = self.asked;
        match self.buffer.and_then(core::num::NonZeroU32::new) {
            Some(buffer) => Limits { packets: packets.min(self.bytes / buffer), bytes },
            None => Limits { packets, bytes: bytes.min(self.bytes) },
        }
    }

    /// Follows another rate or round-trip time; only upwards.
    pub(super) fn follow(&mut self, rate: Rate, rtt: Rtt) {
        self.bytes = self.bytes.max(self.setting.bytes(rate, rtt));
    }
}
