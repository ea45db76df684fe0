//! Isolated queues, where a call may move a host with its turns in all tins.

use freeboard::sched_core::{
    DropSink, FlowId, Nanos, Packet, Rejected, Scheduler, TinConfig, TokenBucket,
};
use freeboard::{Heap, HostTerms, Isolated, IsolatedConfig, IsolatedMemory, Isolation, Labelled};

use super::{FLOWS_PER_HOST, LIMITS, MAX_LEN, PACKETS, Played};
use crate::scramble;

/// The most tins.
const TINS: usize = TinConfig::MAX_TINS as usize;

/// An isolated queue, and how many flows a host has.
struct ByLabels {
    queue: Isolated<Heap>,
    flows_per_host: u32,
}

/// A flow by its number.
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

/// Hosts of four flows each, without rates, in one tin.
pub(super) fn plain(flows: u32, isolation: Isolation) -> Box<dyn Played> {
    let (queues, packets) = (flows as usize, PACKETS as usize);
    let memory = IsolatedMemory::<Heap>::allocate(queues, queues, 1, packets).with_triple(64);
    let config = IsolatedConfig::new(MAX_LEN, LIMITS).isolated_by(isolation);
    let queue = Isolated::new(memory, config).expect("in range");
    Box::new(ByLabels { queue, flows_per_host: FLOWS_PER_HOST })
}

/// Hosts with a flow in each of eight tins, a rate, a ceiling, and one share in all tins.
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
