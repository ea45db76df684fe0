//! A link driven by a flow scheduler, with meters.

use std::collections::VecDeque;

use crate::wfi::{Arrival, PairMeter, WfiFlow, WfiMeter};
use freeboard::sched_core::{Backlog, FlowId, FlowState, Guarantee, Imbalance};

use super::{Bound, Outcome, Promising, Trial, Worst};

/// A flow scheduler with queues and meters.
pub(super) struct MeteredLink<O> {
    pub(super) scheduler: O,
    queues: Vec<VecDeque<(Arrival, u32)>>,
    pub(super) meter: WfiMeter<Vec<WfiFlow>>,
    pairs: Vec<([u32; 2], PairMeter)>,
    /// The packet that was dequeued last.
    wire: Option<(FlowId, u32)>,
    packets: u64,
}

impl<O: Promising> MeteredLink<O> {
    pub(super) fn new(trial: &Trial) -> Self {
        let (scheduler, count) = (O::of(trial), trial.flows.len());
        let meter = WfiMeter::new(vec![WfiFlow::EMPTY; count]);
        let queues = vec![VecDeque::new(); count];
        let mut link = Self { scheduler, queues, meter, pairs: Vec::new(), wire: None, packets: 0 };
        link.restart(0);
        link
    }

    /// Returns the added flows with their current guarantees.
    fn promises(&self) -> Vec<(FlowId, Guarantee)> {
        let flows = (0..self.queues.len() as u32).map(FlowId);
        let added = flows.filter(|&flow| self.is_added(flow));
        added.map(|flow| (flow, self.scheduler.promise(flow))).collect()
    }

    pub(super) fn is_added(&self, flow: FlowId) -> bool {
        self.scheduler.max_len(flow).is_some()
    }

    /// Restarts the meters now, when `gone` bytes of the packet on the wire are sent. Queued
    /// packets count as arriving now.
    pub(super) fn restart(&mut self, gone: u32) {
        let mut meter = WfiMeter::new(vec![WfiFlow::EMPTY; self.queues.len()]);
        if let Some((flow, len)) = self.wire {
            let arrival = meter.arrived(flow, len);
            meter.dequeued(arrival, len);
            meter.transmitted(gone);
        }
        self.pairs.clear();
        let promises = self.promises();
        for (at, &(flow, promise)) in promises.iter().enumerate() {
            meter.add(flow, promise.share).expect("there is room for all");
            for &(other, to_other) in promises.iter().take(at) {
                let pair = PairMeter::new((flow, promise.share), (other, to_other.share));
                self.pairs.push(([flow.0, other.0], pair));
            }
        }
        for (flow, queue) in (0..).map(FlowId).zip(&mut self.queues) {
            for (arrival, len) in &mut *queue {
                *arrival = meter.arrived(flow, *len);
            }
            for (_, pair) in self.pairs.iter_mut().filter(|_| !queue.is_empty()) {
                pair.backlogged(flow);
            }
        }
        self.meter = meter;
    }

    /// Returns the length of the first packet of `flow`.
    pub(super) fn head(&self, flow: FlowId) -> Option<u32> {
        self.queues[flow.index()].front().map(|packet| packet.1)
    }

    /// Drops the first packet of `flow`, if any, and restarts its measurement; returns the length
    /// of the packet.
    pub(super) fn lose(&mut self, flow: FlowId) -> Option<u32> {
        let (_, len) = self.queues[flow.index()].pop_front()?;
        let head = self.head(flow);
        self.scheduler.lost(flow, len, head);
        self.meter.lost(flow, len);
        let share = self.scheduler.promise(flow).share;
        self.meter.add(flow, share).expect("there is room for all");
        for (_, pair) in &mut self.pairs {
            pair.emptied(flow);
            if head.is_some() {
                pair.backlogged(flow);
            }
        }
        Some(len)
    }

    pub(super) fn arrive(&mut self, flow: FlowId, len: u32) {
        let arrival = self.meter.arrived(flow, len);
        let queue = &mut self.queues[flow.index()];
        queue.push_back((arrival, len));
        if queue.len() > 1 {
            return self.scheduler.grew(flow, len);
        }
        self.scheduler.backlogged(flow, len);
        for (_, pair) in &mut self.pairs {
            pair.backlogged(flow);
        }
    }

    pub(super) fn dequeue(&mut self, flow: FlowId) -> u32 {
        let queue = &mut self.queues[flow.index()];
        let (arrival, len) = queue.pop_front().expect("a selected flow holds packets");
        let next = queue.front().map(|packet| packet.1);
        self.scheduler.served(flow, len, next);
        self.meter.dequeued(arrival, len);
        for (_, pair) in &mut self.pairs {
            pair.dequeued(flow, len);
            if next.is_none() {
                pair.emptied(flow);
            }
        }
        self.wire = Some((flow, len));
        self.packets += 1;
        len
    }

    pub(super) fn check(&self, wanted: bool) -> Result<(), Imbalance> {
        self.check_books(wanted)?;
        if wanted { self.scheduler.check_inside() } else { Ok(()) }
    }

    pub(super) fn check_books(&self, wanted: bool) -> Result<(), Imbalance> {
        if !wanted {
            return Ok(());
        }
        self.scheduler.recount(&|flow| {
            let queue = &self.queues[flow.index()];
            let bytes = queue.iter().map(|packet| packet.1).sum();
            let backlog = Backlog { packets: queue.len() as u32, bytes };
            FlowState { backlog, head_len: queue.front().map(|packet| packet.1) }
        })
    }

    /// Returns the outcome since the last restart, for guarantees whose latency is longer by
    /// `latency` (bytes of the link, bytes of the flow itself) and whose fairness is larger by
    /// `fairness` bytes of the link.
    pub(super) fn outcome(&self, trial: &Trial, latency: (u64, u64), fairness: u64) -> Outcome {
        let (of_link, own) = latency;
        let mut outcome = Outcome { packets: self.packets, ..Outcome::default() };
        let mut omegas = vec![0_u64; self.queues.len()];
        for (flow, promise) in self.promises() {
            omegas[flow.index()] = promise.fairness;
            let more = of_link.saturating_add(promise.share.link_of(own));
            let latency = promise.latency.saturating_add(more);
            let promise = Guarantee { latency, ..promise };
            let Some(report) = self.meter.report(flow) else { continue };
            for (worst, compared) in outcome.worst.iter_mut().zip(report.against(&promise)) {
                let flows = [flow.0; 2];
                worst.take(Worst { flows, measured: compared.measured, bound: compared.bound });
            }
            let Some(watched) = self.scheduler.watched(flow, trial) else { continue };
            let against = |measured, bound| Worst { flows: [flow.0; 2], measured, bound };
            outcome.any_length.take(against(report.b_wfi, watched.one_length));
            outcome.all_count.take(against(report.b_wfi, watched.all_count));
            if trial.has_one_length(flow.index()) {
                outcome.one_length.take(against(report.b_wfi_at_completion, watched.one_length));
            }
        }
        for (flows, pair) in &self.pairs {
            let [a, b] = flows.map(|flow| omegas[flow as usize]);
            let bound = a.saturating_add(b).saturating_add(fairness);
            let worst = Worst { flows: *flows, measured: pair.measured(), bound };
            outcome.worst[Bound::Fairness as usize].take(worst);
        }
        outcome
    }
}
