//! Guarantees of DRR with sparse flows first.

use freeboard::sched_core::{
    ConfigError, DropFrom, Drr, DrrFlow, FlowId, FlowScheduler, FlowState, Guarantee, Imbalance,
    Nanos, Needs,
};

use super::{Promising, Trial};

/// [`Drr`] with [sparse flows first](Drr::sparse_first).
#[derive(Clone, Debug)]
pub struct SparseFirst(Drr<Vec<DrrFlow>>);

/// The quanta are those of plain DRR.
impl Promising for SparseFirst {
    fn of(trial: &Trial) -> Self {
        Self(<Drr<Vec<DrrFlow>> as Promising>::of(trial).sparse_first())
    }

    fn promise(&self, flow: FlowId) -> Guarantee {
        Promising::promise(&self.0, flow)
    }
}

impl FlowScheduler for SparseFirst {
    type Config = u32;

    fn flows(&self) -> u32 {
        self.0.flows()
    }

    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.0.configure(flow, quantum, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.0.remove(flow);
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.0.config(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.0.max_len(flow)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.0.backlogged(flow, head_len);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        self.0.grew(flow, len);
    }

    fn select(&self) -> Option<FlowId> {
        self.0.select()
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.0.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.0.lost(flow, len, head);
    }

    fn advance(&mut self, now: Nanos) {
        self.0.advance(now);
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.0.upcoming(ahead)
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.0.victim()
    }

    fn gives_up(&self, flow: FlowId) -> bool {
        self.0.gives_up(flow)
    }

    fn waits(&self) -> bool {
        self.0.waits()
    }

    fn waiting(&self) -> Option<FlowId> {
        self.0.waiting()
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.0.opens_at(now)
    }

    fn open(&mut self) {
        self.0.open();
    }

    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        self.0.pace(flow)
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        self.0.recount(flows)
    }
}
