//! The empty harness: a scheduler that schedules nothing.

use freeboard::sched_core::{
    Backlog, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, Rejected, Scheduler,
};

/// Gives back the packet that came last. Its cost is the floor that net figures subtract.
#[derive(Debug)]
pub(crate) struct Null(Vec<Packet>);

impl Null {
    pub(crate) fn new(packets: usize) -> Self {
        Self(Vec::with_capacity(packets))
    }
}

impl Scheduler for Null {
    #[inline]
    fn enqueue(
        &mut self,
        _now: Nanos,
        _flow: FlowId,
        packet: Packet,
        _drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
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
