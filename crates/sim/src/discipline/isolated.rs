//! Isolation of flows and hosts, with boxed memory and behind a shaper.

use core::fmt::Debug;

use freeboard::flowhash::{Ack, FlowKey, SipHash13};
use freeboard::sched_core::{
    Aqm, AqmChoice, Backlog, CoDelParams, ConfigError, DropSink, Limits, Nanos, NoAqm, Packet,
    Rejected,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{
    AqmKind, DescriptorQueue, Dscp, Heap, InTin, Isolated, IsolatedConfig, IsolatedMemory,
    Isolation, LabelledScheduler as _, OnDemand, SmartQueue,
};

use super::{Bottleneck, QUEUES, line_and_overhead};

/// Capacity of the host table.
const HOSTS: usize = 256;
/// Power of two above the number of flows, so that no load is truncated.
const ROUNDS: usize = 2 * QUEUES as usize;

/// Drop policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// At the limit, drop from the longest queue of the host with the longest backlog.
    Longest,
    /// `Longest`, plus [`CoDel`](freeboard::sched_core::CoDel) in each queue.
    CoDel(CoDelParams),
}

/// A packet is enqueued by its flow and its hosts.
impl<A: Aqm> Bottleneck for Shaped<Isolated<Heap, A>> {
    line_and_overhead!();

    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_labelled(now, &OnDemand { key, hasher }, packet, drops)
    }
}

/// The assembled queue, with its tins and its ACK filter.
impl Bottleneck for DescriptorQueue {
    line_and_overhead!();

    fn tin_backlog(&self, tin: u8) -> Option<Backlog> {
        self.tin_counters(tin).map(|counters| counters.backlog)
    }

    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_labelled(now, &OnDemand { key, hasher }, packet, drops)
    }

    fn enqueue_marked(
        &mut self,
        now: Nanos,
        (key, hasher, mark): (&FlowKey, &SipHash13, Dscp),
        packet: Packet,
        acks: &dyn Fn(Packet) -> Option<Ack>,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let labels = InTin { labels: OnDemand { key, hasher }, tin: self.tins().of_dscp(mark) };
        DescriptorQueue::enqueue_with_acks(self, now, &labels, packet, &acks, drops)
    }
}

/// Creates an empty queue with this isolation in front of `line`: [`QUEUES`] queues in sets of
/// eight and a spare one for each host entry, quanta of the longest packet. With CoDel it is a
/// [`SmartQueue`]; without an AQM it is [`Isolated`] alone, which shows the effect of isolation by
/// itself.
///
/// Handles are numbered up to `limits.packets`, inclusively. `max_len` is the longest packet in
/// bytes, clamped to `1..=`[`Packet::MAX_LEN`]. Longer packets are rejected.
///
/// # Errors
/// Invalid parameters of [`CoDel`](freeboard::sched_core::CoDel).
pub fn isolated(
    isolation: Isolation,
    drops: Drops,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    match drops {
        Drops::Longest => isolated_with(isolation, |_| Ok(NoAqm), line, link, limits, max_len),
        Drops::CoDel(params) => {
            let aqm = (AqmKind::CoDel, false);
            let mut queue = smart_queue(isolation, aqm, line, link, limits, max_len);
            queue.set_aqm_params(AqmChoice::CoDel(params))?;
            Ok(Box::new(queue))
        }
    }
}

/// Creates a [`SmartQueue`] with this AQM, configured by its builder for the rate of `line`, and
/// with or without the threshold for ECT(1); otherwise like [`isolated`].
#[must_use]
pub fn isolated_smart(
    isolation: Isolation,
    aqm: AqmKind,
    l4s: bool,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Box<dyn Bottleneck> {
    Box::new(smart_queue(isolation, (aqm, l4s), line, link, limits, max_len))
}

const WITHIN: &str = "queues and hosts are powers of two and the length was clamped";

fn memory(limits: Limits) -> IsolatedMemory<Heap> {
    let packets = limits.packets as usize + 1;
    IsolatedMemory::<Heap>::allocate(QUEUES as usize, HOSTS, 1, packets).with_triple(ROUNDS)
}

fn smart_queue(
    isolation: Isolation,
    (aqm, l4s): (AqmKind, bool),
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> DescriptorQueue {
    let memory = memory(limits);
    let states = memory.aqm();
    let builder = SmartQueue::upload(line.rate());
    let builder = builder.isolation(isolation).overhead(link).limits(limits).aqm(aqm).l4s(l4s);
    let max_len = max_len.clamp(1, Packet::MAX_LEN);
    let mut queue = builder.max_len(max_len).descriptors_in(memory, states).expect(WITHIN);
    queue.set_line(line);
    queue
}

/// Creates an empty queue with this isolation and any AQM in front of `line`, otherwise like
/// [`isolated`]. `aqm` creates the AQM for the given number of queues.
///
/// # Errors
/// Errors of `aqm`.
pub fn isolated_with<A: Aqm + 'static>(
    isolation: Isolation,
    aqm: impl FnOnce(usize) -> Result<A, ConfigError>,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let max_len = max_len.clamp(1, Packet::MAX_LEN);
    let memory = memory(limits);
    let aqm = aqm(memory.queues())?;
    let config = IsolatedConfig::new(max_len, limits).isolated_by(isolation);
    let queue = Isolated::with_aqm(memory, aqm, config).expect(WITHIN);
    Ok(Box::new(Shaped::new(queue, line, link)))
}
