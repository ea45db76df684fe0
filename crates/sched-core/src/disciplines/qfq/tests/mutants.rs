//! Variants of QFQ with one rule replaced by a wrong or worse one, to show the purpose of the rule.
//!
//! The implementation does not know about mutants. A mutant changes the state of QFQ: once before
//! the first call, and again before or after each call.

use super::super::eligibility::bit;
use super::super::virtual_time::reciprocal;
use super::*;

/// The flows whose weights are summed for the rate of `V`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// The flows that count: the rule of QFQ.
    Counted,
    /// Every flow added.
    Added,
    /// Every flow added, each with its rounded weight: `⌊2^30 / sum of these⌋`.
    Rounded,
    /// A flow that becomes idle stops counting at once.
    Backlogged,
    /// A flow that becomes idle counts only until `V` has reached its `F`.
    Reached,
    /// Like `Reached`, and the rate of `V` has no upper limit.
    ReachedWithoutLimit,
}

/// The rules that differ from those of QFQ.
#[derive(Clone, Copy)]
pub(super) struct Mutant {
    pub(super) speed: Speed,
    /// Flows are sorted by their own longest packets, however short.
    pub(super) narrow_slots: bool,
    /// Eq. 17 applies only to a flow whose group was idle, as in the paper.
    pub(super) shifts_only_into_idle_groups: bool,
}

/// No rule differs.
pub(super) const HONEST: Mutant =
    Mutant { speed: Speed::Counted, narrow_slots: false, shifts_only_into_idle_groups: false };

impl Mutant {
    pub(super) const fn of_speed(speed: Speed) -> Self {
        Self { speed, ..HONEST }
    }

    /// Applies the changes before the first call.
    fn begin(self, qfq: &mut VecQfq) {
        if self.narrow_slots {
            qfq.core.shortest = 1;
        }
    }

    /// Makes `flow` backlogged, without the debug check of the order.
    fn enter(self, VecQfq { flows, core }: &mut VecQfq, flow: u32) {
        let i = u32::from(flows[flow as usize].group);
        let is_busy = core.groups[i as usize].full != 0;
        // A group that is not in ER shifts no flow.
        let above = !(bit(i) | bit(i).wrapping_sub(1));
        let hidden = core.sets.ready & above;
        if !self.shifts_only_into_idle_groups || !is_busy || hidden == 0 {
            return core.enter(flows, flow);
        }
        core.sets.ready &= !hidden;
        core.enter(flows, flow);
        core.sets.ready |= hidden;
        core.sets.remove(i);
        core.sort_in(i);
        core.next = core.first();
    }

    /// Sets, after each call, the advance of `V` per byte until the next call.
    pub(super) fn set_speed(self, VecQfq { flows, core }: &mut VecQfq) {
        let now = core.now;
        let weights = &mut core.weights;
        let sum = |counts: &dyn Fn(&QfqFlow) -> bool| {
            flows.iter().filter(|k| counts(k)).map(|k| k.share).sum()
        };
        let backlogged = |k: &QfqFlow| k.state == State::Backlogged;
        let reached =
            |k: &QfqFlow| backlogged(k) || (k.state == State::Lingering && k.start.is_after(now));
        weights.per_byte = match self.speed {
            Speed::Counted => return,
            Speed::Added => weights.least_per_byte(),
            Speed::Rounded => (1_u32 << 30).checked_div(weights.added).unwrap_or(0),
            Speed::Backlogged => reciprocal(sum(&backlogged)).min(weights.most_per_byte()),
            Speed::Reached => reciprocal(sum(&reached)).min(weights.most_per_byte()),
            Speed::ReachedWithoutLimit => reciprocal(sum(&reached)),
        };
    }
}

/// A mutant with queues of packet lengths.
pub(super) struct Mutated {
    pub(super) link: Link,
    pub(super) mutant: Mutant,
}

impl Mutated {
    pub(super) fn new(configs: &[(u32, u32)], max_len: u32, mutant: Mutant) -> Self {
        let mut qfq = VecQfq::new(vec![QfqFlow::EMPTY; configs.len()], max_len).unwrap();
        mutant.begin(&mut qfq);
        let mut link = Link::with(qfq, configs);
        mutant.set_speed(&mut link.scheduler);
        Self { link, mutant }
    }

    pub(super) fn enqueue(&mut self, flow: u32, len: u32) {
        let queue = &mut self.link.queues[flow as usize];
        queue.push_back(len);
        if queue.len() == 1 {
            self.mutant.enter(&mut self.link.scheduler, flow);
            self.mutant.set_speed(&mut self.link.scheduler);
        }
    }

    pub(super) fn dequeue(&mut self) -> Option<(u32, u32)> {
        let flow = self.link.scheduler.core.select()?;
        let queue = &mut self.link.queues[flow as usize];
        let len = queue.pop_front().expect("a selected flow holds packets");
        let more = !queue.is_empty();
        self.serve(flow, len, more);
        Some((flow, len))
    }

    /// Sends `len` bytes of `flow`, the selected one, without the debug check of the order.
    pub(super) fn serve(&mut self, flow: u32, len: u32, more: bool) {
        let VecQfq { flows, core } = &mut self.link.scheduler;
        core.serve(flows, flow, len, more);
        self.mutant.set_speed(&mut self.link.scheduler);
    }

    /// Sends at one byte per unit of time while `(time, flow, len)` arrive; arrivals at the instant
    /// of a dequeue come first. Stops after `packets`, or at the first imbalance.
    pub(super) fn play(
        &mut self,
        arrivals: &[(u64, u32, u32)],
        packets: usize,
    ) -> Result<(), Imbalance> {
        let check = |link: &Link| link.recount().and_then(|()| link.scheduler.check_lag());
        self.run(arrivals, packets, &check)
    }

    pub(super) fn play_unchecked(&mut self, arrivals: &[(u64, u32, u32)], packets: usize) {
        self.run(arrivals, packets, &|_| Ok(())).unwrap();
    }

    fn run(
        &mut self,
        arrivals: &[(u64, u32, u32)],
        packets: usize,
        check: &dyn Fn(&Link) -> Result<(), Imbalance>,
    ) -> Result<(), Imbalance> {
        let (mut now, mut arrivals) = (0, arrivals.iter().peekable());
        for _ in 0..packets {
            while let Some(&(_, flow, len)) = arrivals.next_if(|arrival| arrival.0 <= now) {
                self.enqueue(flow, len);
                check(&self.link)?;
            }
            let (_, len) = self.dequeue().expect("a packet is there");
            now += u64::from(len);
            check(&self.link)?;
        }
        Ok(())
    }
}
