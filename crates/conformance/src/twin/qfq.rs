//! Reference model of quick fair queueing without slots or sets: the timestamps of the paper (QFQ
//! §III, eqs 2–7 and 17) with the departures of the library (`docs/disciplines/qfq.md`), and a scan
//! over all flows. Written from the section "The exact order" at the head of `sched-core`'s
//! `qfq.rs`.

mod plus;

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use freeboard::sched_core::{ConfigError, FlowId};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use crate::history::Setting;

pub use plus::NaiveQfqPlus;

/// 1 in fixed point.
const ONE: u64 = 1 << 30;
const MAX_WEIGHT: u32 = 1 << 16;
/// Largest sum of the weights of all added flows.
const MAX_WEIGHT_SUM: u64 = 1 << 24;
const GROUPS: usize = 32;
/// log2 of the slot of group 0.
const MIN_SLOT_SHIFT: u32 = 15;
/// Maximum ratio of the longest packet to the shortest maximum that a flow's group assumes.
const LENGTH_RATIO: u32 = 28;
/// Maximum number of lingering flows examined in one call.
const LET_GO: usize = 4;
/// Step of `V` when nothing is backlogged any more.
const IDLE_STEP: u64 = 1 << 48;
/// Maximum distance in slots of a start from the front of its group.
const MOST_SLOTS_BEHIND: u64 = 30;

/// The rules of the flow scheduler, counted for coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `inverse_sum` is capped by the heaviest flow.
    Capped,
    /// `inverse_sum` is capped by the sum over all added flows.
    CappedByAll,
    /// A packet longer than its flow's `max_len` is sent.
    LongerThanMaximum,
    /// A served flow stays at the head of its slot.
    StaysAtHead,
    /// `V` jumps to the smallest start.
    Jumps,
    /// Nothing is backlogged any more.
    Empties,
    /// A flow that becomes idle lingers.
    Lingers,
    /// A flow that becomes idle stops counting at once.
    StopsAtOnce,
    /// A lingering flow stops counting.
    LetGo,
    /// A group is no longer due because of the flow at the head of its list.
    NotYet,
    /// Several groups are due in one call.
    SeveralDue,
    /// A group stays due although the flow at the head of its list could be released.
    MoreThanLetGo,
    /// A flow that lingers in a due group becomes backlogged.
    BackFromDue,
    /// A flow takes its stored `F` as its start.
    Fresh,
    /// A flow lingers although `V` has passed its `F`, and becomes backlogged.
    PassedButCounts,
    /// A stored `F` is too far ahead.
    TooFarAhead,
    /// The start of a flow with a fresh `F` is kept although `F_b` is below the finish of its
    /// group.
    FreshKept,
    /// The kept start is beyond `F_b`, in the slot that begins there.
    FreshKeptWithinSlot,
    /// The start of a flow with a fresh `F` is shifted back to `F_b`.
    FreshShifted,
    /// The start of a flow without a fresh `F` is shifted from `V` back to `F_b`.
    Shifted,
    /// A start is shifted from `V` back to `F_b` within its slot.
    ShiftedWithinSlot,
    /// A start is moved to the last slot but one of its group.
    MovedToFront,
    /// A lingering flow moves to the list of another group.
    LingersElsewhere,
    /// A lingering flow is removed.
    RemovedLingering,
    /// A flow is configured for the first time while others linger.
    AddedAmongLingering,
    /// A backlogged flow moves to another group.
    ChangesGroup,
}

impl Rule {
    /// All variants.
    pub const ALL: [Self; 26] = [
        Self::Capped,
        Self::CappedByAll,
        Self::LongerThanMaximum,
        Self::StaysAtHead,
        Self::Jumps,
        Self::Empties,
        Self::Lingers,
        Self::StopsAtOnce,
        Self::LetGo,
        Self::NotYet,
        Self::SeveralDue,
        Self::MoreThanLetGo,
        Self::BackFromDue,
        Self::Fresh,
        Self::PassedButCounts,
        Self::TooFarAhead,
        Self::FreshKept,
        Self::FreshKeptWithinSlot,
        Self::FreshShifted,
        Self::Shifted,
        Self::ShiftedWithinSlot,
        Self::MovedToFront,
        Self::LingersElsewhere,
        Self::RemovedLingering,
        Self::AddedAmongLingering,
        Self::ChangesGroup,
    ];
}

/// Number of times each rule was applied, by a model and all its clones.
#[derive(Clone, Debug, Default)]
pub struct Exercised(Arc<[AtomicU64; Rule::ALL.len()]>);

impl Exercised {
    /// Creates counters at 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how often `rule` was applied.
    #[must_use]
    pub fn count(&self, rule: Rule) -> u64 {
        self.0[rule as usize].load(Ordering::Relaxed)
    }

    fn note(&self, rule: Rule) {
        self.0[rule as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct NaiveQfqFlow {
    max_len: u32,
    inverse: u64,
    group: usize,
    /// S while the flow is backlogged, F while it lingers, otherwise unused.
    stamp: u64,
    /// Order in which the flow joined its slot, if it is backlogged.
    joined: Option<u64>,
}

impl NaiveQfqFlow {
    fn weight(&self) -> u64 {
        ONE / self.inverse
    }

    fn rounded_start(&self) -> u64 {
        round_down(self.stamp, self.group)
    }
}

/// Quick fair queueing.
#[derive(Clone, Debug)]
pub struct NaiveQfq {
    max_len: u32,
    /// V.
    virtual_time: u64,
    flows: Vec<Option<NaiveQfqFlow>>,
    /// Lingering flows of all groups, in the order in which they joined their lists; those of one
    /// group form its list.
    lingering: Vec<FlowId>,
    due: [bool; GROUPS],
    joins: u64,
    exercised: Exercised,
}

fn slot(group: usize) -> u64 {
    1 << (MIN_SLOT_SHIFT as usize + group)
}

fn round_down(time: u64, group: usize) -> u64 {
    time & !(slot(group) - 1)
}

/// Returns `a − b` of times that wrap.
fn after(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl NaiveQfq {
    /// Creates the model without flows, for at most `flows` flows and packets of at most `max_len`
    /// bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32) -> Self {
        Self {
            max_len,
            virtual_time: 0,
            flows: vec![None; flows as usize],
            lingering: Vec::new(),
            due: [false; GROUPS],
            joins: 0,
            exercised: Exercised::new(),
        }
    }

    /// Counts applied rules in `exercised`.
    #[must_use]
    pub fn counting(self, exercised: &Exercised) -> Self {
        Self { exercised: exercised.clone(), ..self }
    }

    fn flow(&self, flow: FlowId) -> &NaiveQfqFlow {
        self.flows[flow.index()].as_ref().expect("added")
    }

    fn flow_mut(&mut self, flow: FlowId) -> &mut NaiveQfqFlow {
        self.flows[flow.index()].as_mut().expect("added")
    }

    fn added(&self) -> impl Iterator<Item = &NaiveQfqFlow> {
        self.flows.iter().flatten()
    }

    fn backlogged_flows(&self) -> impl Iterator<Item = &NaiveQfqFlow> {
        self.added().filter(|flow| flow.joined.is_some())
    }

    fn lingers(&self, flow: FlowId) -> bool {
        self.lingering.contains(&flow)
    }

    /// Returns the lingering flows of a group.
    fn list(&self, group: usize) -> impl Iterator<Item = FlowId> {
        self.lingering.iter().copied().filter(move |&flow| self.flow(flow).group == group)
    }

    /// Removes `flow` from its list; a group with an empty list is not due.
    fn unlist(&mut self, flow: FlowId) {
        self.lingering.retain(|&other| other != flow);
        self.empty_lists_are_not_due();
    }

    fn empty_lists_are_not_due(&mut self) {
        for group in 0..GROUPS {
            self.due[group] = self.due[group] && self.list(group).next().is_some();
        }
    }

    /// Returns S of a group: the smallest rounded start of its backlogged flows.
    fn group_start(&self, group: usize) -> Option<u64> {
        self.backlogged_flows()
            .filter(|flow| flow.group == group)
            .map(NaiveQfqFlow::rounded_start)
            .min_by_key(|&start| after(start, self.virtual_time))
    }

    fn group_finish(&self, group: usize) -> Option<u64> {
        Some(self.group_start(group)?.wrapping_add(2 * slot(group)))
    }

    fn is_eligible(&self, group: usize) -> bool {
        self.group_start(group).is_some_and(|start| after(start, self.virtual_time) <= 0)
    }

    /// Returns the groups that are eligible and not blocked by a ready group above with an earlier
    /// finish.
    fn ready(&self) -> [bool; GROUPS] {
        let mut ready = [false; GROUPS];
        for group in (0..GROUPS).rev().filter(|&group| self.is_eligible(group)) {
            let finish = self.group_finish(group).expect("backlogged");
            let blocked = (group + 1..GROUPS).any(|above| {
                ready[above]
                    && self.group_finish(above).is_some_and(|above| after(above, finish) < 0)
            });
            ready[group] = !blocked;
        }
        ready
    }

    /// Returns the inverse of the sum of the weights of `flows`, of which there is at least one.
    ///
    /// Sums inverses rounded up and rounds the result down, so that the shares never add up to more
    /// than 1 (docs/disciplines/qfq.md).
    fn inverse_sum_of<'a>(flows: impl Iterator<Item = &'a NaiveQfqFlow>) -> u64 {
        let one = u128::from(ONE) * u128::from(ONE);
        let sum: u128 = flows.map(|flow| one.div_ceil(u128::from(flow.inverse))).sum();
        u64::try_from(one / sum).expect("an inverse is at most 2^30")
    }

    /// Returns the two values whose maximum is the upper limit of `inverse_sum`: for all added
    /// flows, and for the heaviest one alone. At least one flow is added.
    fn most(&self) -> (u64, u64) {
        let smallest = self.added().map(|flow| flow.inverse).min().expect("one is added");
        let alone = (0..=30).map(|bits| 1 << bits).filter(|&power| power <= smallest).max();
        (Self::inverse_sum_of(self.added()), alone.expect("an inverse is at least 2^14"))
    }

    /// Returns the advance of `V` per byte.
    fn inverse_sum(&self) -> u64 {
        let counting = (0..).map(FlowId).zip(&self.flows).filter_map(|(id, flow)| {
            let flow = flow.as_ref()?;
            (flow.joined.is_some() || self.lingers(id)).then_some(flow)
        });
        let counting = Self::inverse_sum_of(counting);
        let (all, alone) = self.most();
        let cap = all.max(alone);
        if cap < counting {
            self.exercised.note(if all < alone { Rule::Capped } else { Rule::CappedByAll });
        }
        counting.min(cap)
    }

    /// Returns P.
    fn past(&self) -> u64 {
        let (all, alone) = self.most();
        self.virtual_time.wrapping_sub(u64::from(self.max_len) * all.max(alone))
    }

    fn join(&mut self, flow: FlowId) {
        let now = self.virtual_time;
        let NaiveQfqFlow { group, stamp, .. } = *self.flow(flow);
        let lingered = self.lingers(flow);
        if lingered && self.due[group] {
            self.exercised.note(Rule::BackFromDue);
        }
        self.unlist(flow);
        let latest = round_down(now, group).wrapping_add(slot(group));
        let fresh = lingered
            && if after(stamp, now) <= 0 {
                self.exercised.note(Rule::PassedButCounts);
                false
            } else if after(round_down(stamp, group), latest) > 0 {
                self.exercised.note(Rule::TooFarAhead);
                false
            } else {
                self.exercised.note(Rule::Fresh);
                true
            };
        let mut start = if fresh { stamp } else { now }; // eq. 2
        let group_finish = round_down(start, group).wrapping_add(2 * slot(group));
        let ready = self.ready();
        // eq. 17, for every flow that becomes backlogged, whether its group is idle or not.
        if let Some(above) = (group + 1..GROUPS).find(|&above| ready[above])
            && let Some(above) = self.group_finish(above)
            && after(above, group_finish) < 0
        {
            if fresh && after(round_down(start, group), above) <= 0 {
                self.exercised.note(Rule::FreshKept);
                if after(start, above) > 0 {
                    self.exercised.note(Rule::FreshKeptWithinSlot);
                }
            } else if fresh {
                self.exercised.note(Rule::FreshShifted);
                start = above;
            } else if after(start, above) > 0 {
                self.exercised.note(Rule::Shifted);
                if round_down(start, group) == above {
                    self.exercised.note(Rule::ShiftedWithinSlot);
                }
                start = above;
            }
        }
        if let Some(front) = self.group_start(group) {
            let last = front.wrapping_add(MOST_SLOTS_BEHIND * slot(group));
            if after(round_down(start, group), last) > 0 {
                self.exercised.note(Rule::MovedToFront);
                start = last;
            }
        }
        self.joins += 1;
        let joins = self.joins;
        let flow = self.flow_mut(flow);
        flow.stamp = start;
        flow.joined = Some(joins);
    }

    /// Handles a flow that leaves without service: its S is its F.
    fn leave(&mut self, flow: FlowId) {
        self.flow_mut(flow).joined = None;
        self.settle(flow, self.virtual_time);
    }

    /// Updates `V` and the lists after `flow` was served or left; `before` is `V` at the beginning
    /// of the call.
    fn settle(&mut self, flow: FlowId, before: u64) {
        let lead = |start| after(start, self.virtual_time);
        let starts = self.backlogged_flows().map(NaiveQfqFlow::rounded_start);
        match starts.min_by_key(|&start| lead(start)) {
            None => {
                self.exercised.note(Rule::Empties);
                self.virtual_time = self.virtual_time.wrapping_add(IDLE_STEP);
            }
            Some(start) if lead(start) > 0 => {
                self.exercised.note(Rule::Jumps);
                self.virtual_time = start; // eq. 7
            }
            Some(_) => {}
        }
        self.hear(before);

        if self.flow(flow).joined.is_none() {
            if after(self.flow(flow).stamp, self.past()) > 0 {
                self.exercised.note(Rule::Lingers);
                self.lingering.push(flow);
            } else {
                self.exercised.note(Rule::StopsAtOnce);
            }
        }
    }

    /// Updates the due groups; `before` is `V` at the last update.
    fn hear(&mut self, before: u64) {
        let (now, past) = (self.virtual_time, self.past());
        for group in 0..GROUPS {
            let entered = round_down(before, group) != round_down(now, group);
            self.due[group] |= entered && self.list(group).next().is_some();
        }
        if self.due.iter().filter(|&&due| due).count() > 1 {
            self.exercised.note(Rule::SeveralDue);
        }
        for _ in 0..LET_GO {
            let Some(group) = (0..GROUPS).rev().find(|&group| self.due[group]) else { break };
            let head = self.list(group).next().expect("a group whose list is empty is not due");
            if after(self.flow(head).stamp, past) <= 0 {
                self.exercised.note(Rule::LetGo);
                self.unlist(head);
            } else {
                self.exercised.note(Rule::NotYet);
                self.due[group] = false;
            }
        }
        if let Some(group) = (0..GROUPS).rev().find(|&group| self.due[group])
            && let Some(head) = self.list(group).next()
            && after(self.flow(head).stamp, past) <= 0
        {
            self.exercised.note(Rule::MoreThanLetGo);
        }
    }

    /// Charges `flow`, which is first in its slot, for the bytes sent since `V` was `before`.
    fn charge(&mut self, flow: FlowId, charged: u32, more: bool, before: u64) {
        self.joins += 1;
        let joins = self.joins;
        let state = self.flow_mut(flow);
        let rounded = state.rounded_start();
        state.stamp = state.stamp.wrapping_add(u64::from(charged) * state.inverse);
        if !more {
            state.joined = None;
        } else if state.rounded_start() != rounded {
            state.joined = Some(joins);
        } else {
            self.exercised.note(Rule::StaysAtHead);
        }
        self.settle(flow, before);
    }
}

impl NaiveFlowScheduler for NaiveQfq {
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        let old = self.flows.get(flow.index()).ok_or_else(|| unknown(flow, flows))?.clone();
        let Setting { weight, max_len } = setting;
        in_range("weight", weight, 1, MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, 1, self.max_len)?;
        let inverse = ONE / u64::from(weight);
        let others: u64 = self.added().map(NaiveQfqFlow::weight).sum::<u64>()
            - old.as_ref().map_or(0, NaiveQfqFlow::weight);
        if others + ONE / inverse > MAX_WEIGHT_SUM {
            return Err(ConfigError::OutOfRange {
                what: "weight",
                value: weight.into(),
                min: 1,
                max: MAX_WEIGHT_SUM - others,
            });
        }
        let effective = max_len.max(self.max_len.div_ceil(LENGTH_RATIO));
        let longest = u64::from(effective) * inverse;
        let group = (0..GROUPS).find(|&group| longest <= slot(group)).expect("65535 · 2^30 < 2^46");
        let Some(old) = old else {
            if !self.lingering.is_empty() {
                self.exercised.note(Rule::AddedAmongLingering);
            }
            let added = NaiveQfqFlow { max_len, inverse, group, stamp: 0, joined: None };
            self.flows[flow.index()] = Some(added);
            return Ok(());
        };
        let moves = head_len.is_some() && old.group != group;
        if moves {
            self.exercised.note(Rule::ChangesGroup);
            self.leave(flow);
        }
        let state = self.flow_mut(flow);
        (state.max_len, state.inverse, state.group) = (max_len, inverse, group);
        if self.lingers(flow) && old.group != group {
            self.lingering.retain(|&other| other != flow);
            self.lingering.push(flow);
            self.empty_lists_are_not_due();
        }
        if moves {
            self.join(flow);
        } else if self.lingers(flow) && old.group != group {
            self.exercised.note(Rule::LingersElsewhere);
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        if self.flows.get(flow.index()).is_none_or(Option::is_none) {
            return;
        }
        if self.flow(flow).joined.is_some() {
            self.leave(flow);
        }
        if self.lingers(flow) {
            self.exercised.note(Rule::RemovedLingering);
        }
        self.unlist(flow);
        self.flows[flow.index()] = None;
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        let flow = self.flows.get(flow.index())?.as_ref()?;
        Some([u32::try_from(flow.weight()).expect("at most 2^16"), flow.max_len])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.as_ref().map(|flow| flow.max_len)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.join(flow);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let before = self.virtual_time;
        self.virtual_time = before.wrapping_add(u64::from(len) * self.inverse_sum());
        if len > self.flow(flow).max_len {
            self.exercised.note(Rule::LongerThanMaximum);
        }
        let charged = len.min(self.flow(flow).max_len);
        self.charge(flow, charged, next_head.is_some(), before);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_none() {
            self.leave(flow);
        }
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        let finish = |group| after(self.group_finish(group).expect("eligible"), self.virtual_time);
        let group = self
            .backlogged_flows()
            .map(|flow| flow.group)
            .filter(|&group| self.is_eligible(group))
            .min_by_key(|&group| (finish(group), group))?;
        let front = self.group_start(group);
        (0..)
            .map(FlowId)
            .zip(&self.flows)
            .filter_map(|(id, flow)| Some((id, flow.as_ref()?)))
            .filter(|(_, flow)| flow.group == group && Some(flow.rounded_start()) == front)
            .filter_map(|(id, flow)| Some((flow.joined?, id)))
            .min()
            .map(|(_, id)| id)
    }
}
