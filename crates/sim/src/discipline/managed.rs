//! Any AQM: in one queue, or in each queue of flows by hash with sparse flows first.

use freeboard::sched_core::{Aqm, ConfigError, Limits, OwnVictim, Packet};
use freeboard::shaper::{Overhead, Shaped, Shaper};

use super::{Bottleneck, QUEUES, by_hash, by_number, descriptors, drr, longest};

/// Creates one queue for all packets. They arrive as flow 0, whose state in `aqm` is used. A full
/// queue drops its oldest packet.
///
/// # Errors
/// [`ConfigError`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`].
pub fn one_queue<A: Aqm + 'static>(
    aqm: A,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let queue = by_number(drr(1, max_len)?, OwnVictim, aqm, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Creates [`QUEUES`] queues for flows by hash under deficit round robin, sparse flows first, with
/// `aqm` in each queue: the structure of FQ-CoDel (RFC 8290). `aqm` must have as many states. A
/// full buffer drops from the longest queue.
///
/// # Errors
/// [`ConfigError`] if the scheduler rejects `max_len`.
pub fn fair_queues<A: Aqm + 'static>(
    aqm: A,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let drr = drr(QUEUES, max_len.clamp(1, Packet::MAX_LEN))?.sparse_first();
    let queue = by_hash(drr, longest(QUEUES), aqm, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}
