//! How much memory packets may take while they are queued.

use core::fmt;

use sched_core::Limits;
use shaper::Rate;

use super::Rtt;

/// A limit in bytes of buffers, beside [`Limits`]: it holds after every call.
///
/// What a packet takes is its buffer: with frames, a buffer of the queue's, whatever the frame; by
/// descriptor the buffer that
/// [`SmartQueueBuilder::buffer_len`](super::SmartQueueBuilder::buffer_len) names, or the packet's
/// length.
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{MemoryLimit, Rtt, SmartQueue};
///
/// let rate = Rate::megabits_per_second(100)?;
/// assert_eq!(MemoryLimit::ByRate.bytes(rate, Rtt::INTERNET), 5_000_000);
/// let queue = SmartQueue::upload(rate).memory_limit(MemoryLimit::Bytes(150_000)).frames([42; 16])?;
/// assert_eq!(queue.memory_limit(), Some(150_000));
/// // Buffers of 1,522 bytes.
/// assert_eq!(queue.limits().packets, 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MemoryLimit {
    /// CAKE's rule: what the rate of the whole line carries in four round-trip times,
    /// [`MemoryLimit::LEAST`] at least and [`MemoryLimit::MOST`] at most. It follows rate and
    /// round-trip time upwards, so that nothing is dropped for them.
    ByRate,
    /// So many bytes.
    Bytes(u32),
}

impl MemoryLimit {
    /// The least of [`MemoryLimit::ByRate`]: 4 MiB.
    pub const LEAST: u32 = 4 << 20;
    /// The most of [`MemoryLimit::ByRate`]: 10,240 packets of 1,514 bytes.
    pub const MOST: u32 = 10_240 * 1_514;

    /// The limit in bytes for a line of this rate. [`Rate::UNLIMITED`] has [`MemoryLimit::MOST`].
    #[must_use]
    pub fn bytes(self, rate: Rate, rtt: Rtt) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::ByRate => rtt.carried(rate).clamp(Self::LEAST, Self::MOST),
        }
    }
}

/// A memory limit that the longest packet does not fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemoryLimitError {
    /// The limit in bytes.
    pub given: u32,
    /// The least that is accepted: what the longest packet takes.
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

/// What buffers packets lie in.
pub(super) trait Buffered {
    /// The bytes of each buffer of the queue's own; `None` if it has none.
    fn own_buffer_len(&self) -> Option<u32>;
}

/// A memory limit in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) setting: MemoryLimit,
    pub(super) bytes: u32,
    /// What each packet takes; its length, if `None`.
    buffer: Option<u32>,
    /// The limits without it.
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

    /// The limits that keep it.
    #[expect(clippy::integer_division, reason = "when a limit is set; by what is not zero")]
    pub(super) fn limits(&self) -> Limits {
        let Limits { packets, bytes } = self.asked;
        match self.buffer.and_then(core::num::NonZeroU32::new) {
            Some(buffer) => Limits { packets: packets.min(self.bytes / buffer), bytes },
            None => Limits { packets, bytes: bytes.min(self.bytes) },
        }
    }

    /// For another rate or round-trip time: raised, not lowered.
    pub(super) fn follow(&mut self, rate: Rate, rtt: Rtt) {
        self.bytes = self.bytes.max(self.setting.bytes(rate, rtt));
    }
}
