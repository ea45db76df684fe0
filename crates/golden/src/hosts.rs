//! Hosts with four flows each, some backlogged and some new, whose packets are sent ahead of their
//! host's turn.

use conformance::catalog::Parts;
use freeboard::flowhash::Labels;
use freeboard::{Isolated, IsolatedConfig, IsolatedMemory};
use sched_core::{DropSink, FlowId, Limits, Nanos, NoAqm, Packet, Rejected, Scheduler};

use crate::disciplines::OPERATIONS;
use crate::{MAX_LEN, run};

/// Number of handles, of which about half are queued.
const PACKETS: u32 = 32;

/// A queue whose flows are numbered: flow `f` belongs to host `f mod 4`. Every second call of
/// `dequeue` finds the link busy.
struct ByNumber {
    queue: Isolated<Parts<{ PACKETS as usize }>, NoAqm>,
    is_busy: bool,
}

pub(crate) fn busy() -> u64 {
    let memory = IsolatedMemory::allocate(16, 4, 1, PACKETS as usize);
    let mut config = IsolatedConfig::new(MAX_LEN, Limits::NONE);
    config.ways = 4;
    let Ok(queue) = Isolated::new(memory, config) else { return 0 };
    let mut queue = ByNumber { queue, is_busy: false };
    run(&mut queue, OPERATIONS, 43, |_, _, _, _| {})
}

impl Scheduler for ByNumber {
    fn enqueue(
        &mut self,
        now: Nanos,
        FlowId(flow): FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let labels = Labels { flow, src_host: flow & 3, dst_host: 0 };
        let packet = Packet { handle: packet.handle & (PACKETS - 1), ..packet };
        self.queue.enqueue_labelled(now, &labels, packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.is_busy = !self.is_busy;
        if self.is_busy { None } else { self.queue.dequeue(now, drops) }
    }

    conformance::forward_all_but_packets!(queue);
}
