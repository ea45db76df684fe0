//! The empty harness: a scheduler that schedules nothing.

use core::hint::black_box;

use freeboard::flowhash::{Line, Table};
use freeboard::sched_core::{
    Backlog, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, Rejected, Scheduler,
};

/// Gives back the packet that came last. Its cost is the floor that net figures subtract; with
/// `LOOKUP` it looks each flow up by hash besides, and what that costs more is the lookup.
#[derive(Debug)]
pub(crate) struct Null<const LOOKUP: bool>(Vec<Packet>, Table<Box<[Line]>>);

impl<const LOOKUP: bool> Null<LOOKUP> {
    pub(crate) fn new(packets: usize, table: Table<Box<[Line]>>) -> Self {
        Self(Vec::with_capacity(packets), table)
    }
}

impl<const LOOKUP: bool> Scheduler for Null<LOOKUP> {
    #[inline]
    fn enqueue(
        &mut self,
        _now: Nanos,
        flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        if LOOKUP {
            black_box(self.1.lookup(flow.0).queue);
        }
        self.0.push(packet);
        Ok(())
    }

    #[inline]
    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Option<Packet> {
        self.0.pop()
    }

    fn peek(&self, _now: Nanos) -> Option<Packet> {
        self.0.last().copied()
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        (!self.0.is_empty()).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.0.len() as u32, bytes: self.0.iter().map(|p| p.len).sum() }
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn flow_counters(&self, _flow: FlowId) -> Option<Counters> {
        None
    }

    fn limits(&self) -> Limits {
        Limits::NONE
    }

    fn set_limits(&mut self, _limits: Limits, _drops: &mut dyn DropSink) {}

    fn drain(&mut self, _drops: &mut dyn DropSink) {
        self.0.clear();
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Ok(())
    }
}
