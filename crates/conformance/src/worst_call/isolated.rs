//! Isolated queues, where a call may move a host with its turns in all tins.

use freeboard::flowhash::{Ack, FlowKey, Transport};
use freeboard::sched_core::{
    DropSink, Ecn, FlowId, Nanos, Packet, Rejected, Scheduler, TinConfig, TokenBucket,
};
use freeboard::shaper::Rate;
use freeboard::{
    AckFilter, DescriptorQueue, Heap, HostTerms, Isolated, IsolatedConfig, IsolatedMemory,
    Isolation, Labelled, SmartQueue, TinMode,
};

use super::{FLOWS_PER_HOST, LIMITS, MAX_LEN, PACKETS, Played};
use crate::scramble;

/// Maximum number of tins.
const TINS: usize = TinConfig::MAX_TINS as usize;

/// An isolated queue with a fixed number of flows per host.
struct ByLabels {
    queue: Isolated<Heap>,
    flows_per_host: u32,
}

/// Labels of a flow, derived from its number.
struct OfHost {
    flow: u32,
    host: u32,
}

impl Labelled for OfHost {
    fn flow(&self) -> u32 {
        scramble(self.flow.into()) as u32
    }

    fn source(&self) -> u32 {
        scramble(self.host.into()) as u32
    }

    fn destination(&self) -> u32 {
        self.flow % 3
    }

    fn tin(&self) -> u8 {
        (self.flow % TinConfig::MAX_TINS) as u8
    }

    fn host_terms(&self) -> HostTerms {
        let bucket = |rate: u64| TokenBucket::new(rate << (self.host % 8), MAX_LEN).ok();
        HostTerms { quantum: None, committed_rate: bucket(100_000), ceiling: bucket(400_000) }
    }
}

/// Builds an isolated queue for hosts of four flows each, without rates, in one tin.
pub(super) fn plain(flows: u32, isolation: Isolation) -> Box<dyn Played> {
    let (queues, packets) = (flows as usize, PACKETS as usize);
    let memory = IsolatedMemory::<Heap>::allocate(queues, queues, 1, packets).with_triple(64);
    let config = IsolatedConfig::new(MAX_LEN, LIMITS).isolated_by(isolation);
    let queue = Isolated::new(memory, config).expect("in range");
    Box::new(ByLabels { queue, flows_per_host: FLOWS_PER_HOST })
}

/// Builds an isolated queue for hosts with a flow in each of eight tins, a rate, a ceiling, and one
/// share across all tins.
pub(super) fn limited(flows: u32) -> Box<dyn Played> {
    let (queues, packets) = (flows as usize, PACKETS as usize);
    let memory = IsolatedMemory::<Heap>::allocate(queues, queues, TINS, packets).with_rates();
    let mut queue = Isolated::new(memory, IsolatedConfig::new(MAX_LEN, LIMITS)).expect("in range");
    let rate = |tin: usize| TinConfig::by_weight(1).with_rate(1_000_000 << tin);
    queue.set_tins(&core::array::from_fn::<_, TINS, _>(rate)).expect("there is room");
    queue.set_hosts_across_tins(true);
    Box::new(ByLabels { queue, flows_per_host: TinConfig::MAX_TINS })
}

impl Played for ByLabels {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let labels = OfHost { flow: flow.0, host: flow.0 / self.flows_per_host };
        self.queue.enqueue_labelled(now, &labels, packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(&mut self.queue, now, drops)
    }
}

/// A smart queue with every part in use, and the acknowledgements in it by handle.
struct Assembled {
    queue: DescriptorQueue,
    acks: Vec<Option<Ack>>,
    acked: u32,
}

/// Builds [`limited`] as a smart queue: 10 Mbit/s, COBALT, L4S, ingress and a filter of
/// acknowledgements. Packets of 40 bytes are acknowledgements of their flow.
pub(super) fn assembled(flows: u32) -> Box<dyn Played> {
    let (queues, packets) = (flows as usize, PACKETS as usize);
    let memory = IsolatedMemory::<Heap>::allocate(queues, queues, TINS, packets).with_rates();
    let aqm = memory.aqm();
    let builder = SmartQueue::upload(Rate::megabits_per_second(10).expect("in range"))
        .max_len(MAX_LEN)
        .limits(LIMITS)
        .tins(TinMode::Diffserv8)
        .hosts_across_tins(true)
        .l4s(true)
        .ingress(true)
        .ack_filter(AckFilter::Aggressive);
    let queue = builder.descriptors_in(memory, aqm).expect("in range");
    Box::new(Assembled { queue, acks: vec![None; packets], acked: 0 })
}

impl Played for Assembled {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let labels = OfHost { flow: flow.0, host: flow.0 / TinConfig::MAX_TINS };
        let transport = Transport { protocol: 6, src_port: 80, dst_port: 443 };
        let connection = FlowKey::V4 { src: flow.0.to_be_bytes(), dst: [192, 0, 2, 1], transport };
        self.acked = self.acked.wrapping_add(1_000);
        let ack = Ack::new(connection, 1, self.acked);
        self.acks[packet.handle as usize] = (packet.len == 40).then_some(ack);
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][flow.0 as usize % 3];
        let acks = |packet: Packet| self.acks[packet.handle as usize];
        self.queue.enqueue_with_acks(now, &labels, Packet { ecn, ..packet }, &acks, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }
}
