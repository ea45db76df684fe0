//! Any AQM: in one queue, or in each queue of flows by hash with sparse flows first.

use freeboard::sched_core::{
    Aqm, ConfigError, Drr, DrrFlow, FlowQueues, Limits, OwnVictim, Packet, Queue,
};
use freeboard::shaper::{Overhead, Shaped, Shaper};

use super::{Bottleneck, QUEUES, by_hash, descriptors, longest};

/// One queue for all packets, which come as flow 0, with the state of that flow in `aqm`. A full queue drops its
/// oldest packet.
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
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; 1], max_len)?;
    drr.add_all(max_len)?;
    let queues = vec![Queue::EMPTY; 1];
    let queues = FlowQueues::with_parts(drr, aqm, queues, descriptors(limits), [], limits);
    Ok(Box::new(Shaped::new(queues.with_drop_policy(OwnVictim), line, link)))
}

/// Deficit round robin over [`QUEUES`] flows by hash, sparse flows first, with `aqm` in each queue: the form of
/// FQ-CoDel (RFC 8290). `aqm` has as many states. A full buffer drops from the longest queue.
///
/// # Errors
/// [`ConfigError`] if the scheduler refuses `max_len`.
pub fn fair_queues<A: Aqm + 'static>(
    aqm: A,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let max_len = max_len.clamp(1, Packet::MAX_LEN);
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; QUEUES as usize], max_len)?.sparse_first();
    drr.add_all(max_len)?;
    Ok(Box::new(Shaped::new(by_hash(drr, longest(), aqm, limits), line, link)))
}
