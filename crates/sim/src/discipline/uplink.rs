//! Queues of a home gateway as SQF §3 compares them, and the assembled queue.

use core::fmt;

use freeboard::sched_core::Limits;
use freeboard::shaper::{Overhead, Shaper};

use super::{Bottleneck, Discipline, UserFlows, VirtualQueues};

/// Queue of the uplink of a home gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkQueue {
    /// One queue, with tail drop.
    Fifo,
    /// Deficit round robin over this many virtual queues and a default queue.
    Drr(u32),
    /// Shortest queue first over this many virtual queues and a default queue.
    Sqf(u32),
    /// The gateway's queue.
    Smart,
}

impl UplinkQueue {
    /// Creates an empty queue in front of `line`, for packets of up to `max_len` bytes.
    ///
    /// # Panics
    /// If `max_len` is above [`Packet::MAX_LEN`](freeboard::sched_core::Packet::MAX_LEN).
    #[must_use]
    pub fn behind(self, line: Shaper, limits: Limits, max_len: u32) -> Box<dyn Bottleneck> {
        let virtual_queues = |scheduling, count, line| {
            VirtualQueues::behind(scheduling, count, line, limits, max_len)
                .expect("lengths are in range")
        };
        match self {
            Self::Fifo => Discipline::Fifo.behind(line, Overhead::RAW, limits, max_len),
            Self::Drr(count) => virtual_queues(UserFlows::Drr, count, line),
            Self::Sqf(count) => virtual_queues(UserFlows::Sqf, count, line),
            Self::Smart => Discipline::Smart.behind(line, Overhead::RAW, limits, max_len),
        }
    }
}

impl fmt::Display for UplinkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("FIFO"),
            Self::Drr(count) => write!(f, "DRR, {count} queues"),
            Self::Sqf(count) => write!(f, "SQF, {count} queues"),
            Self::Smart => f.write_str("smart_queue"),
        }
    }
}
