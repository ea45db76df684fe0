//! Flows and hosts isolated, over boxed memory and behind a line.

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

/// Hosts that are told apart.
const HOSTS: usize = 256;
/// More than flows, and a power of two: no load is cut.
const ROUNDS: usize = 2 * QUEUES as usize;

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// When the limit is reached, from the longest queue of the host that holds the most.
    Longest,
    /// As with `Longest`, and what [`CoDel`](freeboard::sched_core::CoDel) chooses in each queue.
    CoDel(CoDelParams),
}

/// A packet comes in by its flow and its hosts.
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

/// The assembled queue, with its tins and its filter of acknowledgements.
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

/// An empty queue with this isolation in front of `line`: [`QUEUES`] queues in sets of eight and a
/// spare one for each entry of a host, quanta of the longest packet. With CoDel it is a
/// [`SmartQueue`]; without an AQM [`Isolated`] is alone before the line: that shows what the
/// isolation does by itself.
///
/// Handles are numbered up to `limits.packets`, inclusively. `max_len` is the longest packet in
/// bytes; outside `1..=`[`Packet::MAX_LEN`] it counts as the nearest within. Longer packets are
/// rejected.
///
/// # Errors
/// Parameters that [`CoDel`](freeboard::sched_core::CoDel) refuses.
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

/// A [`SmartQueue`] with this AQM as its builder sets it for the rate of `line`, and with or
/// without the threshold for ECT(1); otherwise as [`isolated`].
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

/// An empty queue with this isolation and any AQM in front of `line`, otherwise as [`isolated`].
/// `aqm` makes the AQM for as many queues as it is told.
///
/// # Errors
/// What `aqm` returns.
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
