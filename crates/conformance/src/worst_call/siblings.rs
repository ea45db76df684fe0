//! Flows that belong together: a call may move all of them.

use freeboard::sched_core::{
    Ceiling, CommittedRate, DropSink, FlowId, Nanos, Packet, Rejected, Scheduler, TinConfig,
};
use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Labelled};

use super::{Ceilings, CommittedRates, DRR, LIMITS, MAX_LEN, PACKETS, Played, scheduler, under};
use crate::scramble;

/// The most siblings, which is how many tins there may be.
const SIBLINGS: u32 = 8;

/// Each flow, and the one of the same siblings behind which it stands.
fn pairs(flows: u32) -> impl Iterator<Item = (FlowId, FlowId)> {
    let joins = (0..flows).filter(|flow| flow % SIBLINGS > 0);
    joins.map(|flow| (FlowId(flow), FlowId(flow - 1)))
}

const fn bits(number: u32) -> u64 {
    100_000 << (number / SIBLINGS % 8)
}

pub(super) fn ceilings(flows: u32) -> Box<dyn Played> {
    let mut scheduler = scheduler(Ceilings(DRR), flows);
    for flow in 0..flows {
        let ceiling = Ceiling::new(bits(flow), MAX_LEN).expect("in range");
        scheduler.set_ceiling(FlowId(flow), Some(ceiling)).expect("room for all");
    }
    for (flow, other) in pairs(flows) {
        scheduler.join(flow, other).expect("eight siblings at most");
    }
    under(scheduler, flows)
}

pub(super) fn committed(flows: u32) -> Box<dyn Played> {
    let mut scheduler = scheduler(CommittedRates(DRR), flows);
    for flow in 0..flows {
        let rate = CommittedRate::new(bits(flow), MAX_LEN).expect("in range");
        scheduler.set_rate(FlowId(flow), Some(rate)).expect("room for all");
    }
    for (flow, other) in pairs(flows) {
        scheduler.join(flow, other).expect("eight siblings at most");
    }
    under(scheduler, flows)
}

/// The isolated queue in eight tins, where each host has a flow in each of them, a rate, a ceiling, and one share in all.
struct InTins {
    queue: Isolated<Heap>,
}

/// A flow by its number.
struct OfHost(u32);

impl OfHost {
    const fn host(&self) -> u32 {
        self.0 / SIBLINGS
    }
}

impl Labelled for OfHost {
    fn flow(&self) -> u32 {
        scramble(self.0.into()) as u32
    }

    fn source(&self) -> u32 {
        scramble(self.host().into()) as u32
    }

    fn destination(&self) -> u32 {
        1
    }

    fn tin(&self) -> u8 {
        (self.0 % SIBLINGS) as u8
    }

    fn host_committed_rate(&self) -> Option<CommittedRate> {
        CommittedRate::new(bits(self.0), MAX_LEN).ok()
    }

    fn host_ceiling(&self) -> Option<Ceiling> {
        Ceiling::new(4 * bits(self.0), MAX_LEN).ok()
    }
}

pub(super) fn in_tins(flows: u32) -> Box<dyn Played> {
    let entries = flows as usize;
    let memory = IsolatedMemory::<Heap>::allocate(entries, entries, PACKETS as usize).with_rates();
    let mut queue = Isolated::new(memory, IsolatedConfig::new(MAX_LEN, LIMITS)).expect("in range");
    queue.set_tins(&[TinConfig::by_weight(1); SIBLINGS as usize]).expect("as many ways");
    queue.set_hosts_across_tins(true);
    Box::new(InTins { queue })
}

impl Played for InTins {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.queue.enqueue_labelled(now, &OfHost(flow.0), packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(&mut self.queue, now, drops)
    }
}
