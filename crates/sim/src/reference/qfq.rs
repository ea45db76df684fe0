//! Quick fair queueing without groups' lists, slots or sets: the timestamps of the paper (QFQ §III,
//! eqs 2–7 and 17), and a scan over all flows. Where the library departs from the paper (`docs/papers.md`), so
//! does this.

use freeboard::sched_core::{ConfigError, FlowId};

use super::order::{NaiveOrder, QueuesView, in_range, unknown};
use crate::history::Setting;

/// 1 in fixed point.
const ONE: u64 = 1 << 30;
const MAX_WEIGHT: u32 = 1 << 16;
/// The largest sum of the weights of all flows added.
const MAX_WEIGHT_SUM: u64 = 1 << 24;
const GROUPS: usize = 32;
/// log2 of the slot of group 0.
const MIN_SLOT_SHIFT: u32 = 15;
/// The longest packet may be this many times the shortest maximum that a flow's group assumes.
const LENGTH_RATIO: u32 = 28;

#[derive(Clone, Debug)]
struct Flow {
    max_len: u32,
    inverse_weight: u64,
    group: usize,
    start: u64,
    /// Of the head packet, or while idle what is remembered of the last one; `None` if there was none.
    finish: Option<u64>,
    /// When it joined its slot, if it is backlogged.
    joined: Option<u64>,
}

impl Flow {
    fn weight(&self) -> u64 {
        ONE / self.inverse_weight
    }

    fn rounded_start(&self) -> u64 {
        round_down(self.start, self.group)
    }
}

/// Quick fair queueing.
#[derive(Clone, Debug)]
pub struct NaiveQfq {
    max_len: u32,
    /// V.
    virtual_time: u64,
    flows: Vec<Option<Flow>>,
    joins: u64,
}

fn slot(group: usize) -> u64 {
    1 << (MIN_SLOT_SHIFT as usize + group)
}

fn round_down(time: u64, group: usize) -> u64 {
    time & !(slot(group) - 1)
}

/// `a − b` of times that wrap.
fn after(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl NaiveQfq {
    /// No flow added yet, of `flows` at most; no packet is longer than `max_len` bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32) -> Self {
        Self { max_len, virtual_time: 0, flows: vec![None; flows as usize], joins: 0 }
    }

    fn flow(&mut self, flow: FlowId) -> &mut Flow {
        self.flows[flow.index()].as_mut().expect("added")
    }

    fn added(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().flatten()
    }

    fn backlogged_flows(&self) -> impl Iterator<Item = &Flow> {
        self.added().filter(|flow| flow.joined.is_some())
    }

    /// S of a group: the smallest rounded start of its backlogged flows.
    fn group_start(&self, group: usize) -> Option<u64> {
        self.backlogged_flows()
            .filter(|flow| flow.group == group)
            .map(Flow::rounded_start)
            .min_by_key(|&start| after(start, self.virtual_time))
    }

    fn group_finish(&self, group: usize) -> Option<u64> {
        Some(self.group_start(group)?.wrapping_add(2 * slot(group)))
    }

    fn is_eligible(&self, group: usize) -> bool {
        self.group_start(group).is_some_and(|start| after(start, self.virtual_time) <= 0)
    }

    /// Which groups are eligible and not blocked by a ready group above that finishes earlier.
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

    /// eq. 7: where nothing is eligible, V jumps to the earliest start.
    fn jump(&mut self) {
        let lead = |start| after(start, self.virtual_time);
        let starts = self.backlogged_flows().map(Flow::rounded_start);
        if let Some(start) = starts.min_by_key(|&start| lead(start))
            && lead(start) > 0
        {
            self.virtual_time = start;
        }
    }

    fn join(&mut self, flow: FlowId, head_len: u32) {
        let now = self.virtual_time;
        let Flow { group, finish, .. } = *self.flow(flow);
        let latest = round_down(now, group).wrapping_add(slot(group));
        let finish = finish.filter(|&finish| {
            after(finish, now) > 0 && after(round_down(finish, group), latest) <= 0
        });
        let mut start = finish.unwrap_or(now); // eq. 2
        let group_finish = round_down(start, group).wrapping_add(2 * slot(group));
        let ready = self.ready();
        // eq. 17, for every flow that becomes backlogged, its group idle or not.
        if let Some(above) = (group + 1..GROUPS).find(|&above| ready[above])
            && let Some(above) = self.group_finish(above)
            && after(above, group_finish) < 0
        {
            let earlier = if after(now, above) < 0 { now } else { above };
            start = match finish {
                Some(finish) if after(finish, earlier) > 0 => finish,
                _ => earlier,
            };
        }
        self.joins += 1;
        let joins = self.joins;
        let flow = self.flow(flow);
        flow.start = start;
        flow.finish = Some(start.wrapping_add(u64::from(head_len) * flow.inverse_weight));
        flow.joined = Some(joins);
        self.jump();
    }

    /// Leaves without having been served.
    fn leave(&mut self, flow: FlowId) {
        let flow = self.flow(flow);
        flow.finish = Some(flow.start);
        flow.joined = None;
        self.jump();
    }
}

impl NaiveOrder for NaiveQfq {
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        let old = self.flows.get(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        let Setting { weight, max_len } = setting;
        in_range("weight", weight, 1, MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, 1, self.max_len)?;
        let inverse_weight = ONE / u64::from(weight);
        let others: u64 =
            self.added().map(Flow::weight).sum::<u64>() - old.as_ref().map_or(0, Flow::weight);
        let sum = others + ONE / inverse_weight;
        if sum > MAX_WEIGHT_SUM {
            return Err(ConfigError::OutOfRange {
                what: "weight",
                value: weight.into(),
                min: 1,
                max: MAX_WEIGHT_SUM - others,
            });
        }
        let effective = max_len.max(self.max_len.div_ceil(LENGTH_RATIO));
        let longest = u64::from(effective) * inverse_weight;
        let group = (0..GROUPS).find(|&group| longest <= slot(group)).expect("65535 / 1 < 2^46");
        let moves = old.as_ref().is_some_and(|old| old.joined.is_some() && old.group != group);
        if moves {
            self.leave(flow);
        }
        let place = &mut self.flows[flow.index()];
        let state = place.get_or_insert(Flow {
            max_len,
            inverse_weight,
            group,
            start: 0,
            finish: None,
            joined: None,
        });
        (state.max_len, state.inverse_weight, state.group) = (max_len, inverse_weight, group);
        match head_len {
            Some(head_len) if moves => self.join(flow, head_len),
            // It keeps start and place; when it ends is told by the new weight.
            Some(head_len) => {
                state.finish = Some(state.start.wrapping_add(u64::from(head_len) * inverse_weight));
            }
            None => {}
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        if let Some(place) = self.flows.get_mut(flow.index()) {
            *place = None;
        }
        self.jump();
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        let flow = self.flows.get(flow.index())?.as_ref()?;
        Some([u32::try_from(flow.weight()).expect("at most 2^16"), flow.max_len])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.as_ref().map(|flow| flow.max_len)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.join(flow, head_len);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        // Of inverses rounded up and then down, so that the shares never add up to more than 1
        // (docs/papers.md, QFQ).
        let sum: u64 = self.added().map(|flow| (ONE * ONE).div_ceil(flow.inverse_weight)).sum();
        self.virtual_time = self.virtual_time.wrapping_add(u64::from(len) * (ONE * ONE / sum));
        self.joins += 1;
        let joins = self.joins;
        let flow = self.flow(flow);
        let rounded = flow.rounded_start();
        flow.start = flow.finish.expect("backlogged");
        match next_head {
            None => flow.joined = None,
            Some(len) => {
                flow.finish = Some(flow.start.wrapping_add(u64::from(len) * flow.inverse_weight));
                if flow.rounded_start() != rounded {
                    flow.joined = Some(joins);
                }
            }
        }
        self.jump();
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        match head {
            None => self.leave(flow),
            Some(len) => {
                let flow = self.flow(flow);
                flow.finish = Some(flow.start.wrapping_add(u64::from(len) * flow.inverse_weight));
            }
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
