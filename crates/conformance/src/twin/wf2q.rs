//! Reference models of worst-case fair weighted fair queueing without trees: the timestamps of QFQ
//! §III, eqs 2 and 3, and a scan over all flows. One in the fixed point of the library, one in
//! exact arithmetic.

use freeboard::sched_core::{ConfigError, FlowId};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use crate::history::Setting;

/// Virtual time of a byte of a flow with weight 1.
const UNIT: u128 = 203_249_958_912_000;
const MAX_WEIGHT: u32 = 1 << 16;
/// Largest sum of the weights of all added flows.
const MAX_WEIGHT_SUM: u128 = 1 << 24;

#[derive(Clone, Debug)]
struct NaiveWf2qFlow {
    weight: u32,
    max_len: u32,
    start: u128,
    finish: u128,
    is_backlogged: bool,
}

impl NaiveWf2qFlow {
    /// Returns `S + l/φ`.
    fn finish_of(&self, len: u32) -> u128 {
        self.start + u128::from(len) * UNIT.div_ceil(self.weight.into())
    }
}

/// WF²Q+ in the library's fixed point.
#[derive(Clone, Debug)]
pub struct NaiveWf2q {
    max_len: u32,
    flows: Vec<Option<NaiveWf2qFlow>>,
    /// V.
    virtual_time: u128,
    /// Latest V so far.
    highest: u128,
    /// Latest finish so far.
    latest: u128,
}

/// Initial V.
const BEGINNING: u128 = 1 << 96;

/// Returns `a/b`, rounded up, with the sign of `a`.
fn divide_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) > 0)
}

impl NaiveWf2q {
    /// Creates the model without flows, for at most `flows` flows and packets of at most `max_len`
    /// bytes.
    #[must_use]
    pub fn new(flows: u32, max_len: u32) -> Self {
        let (virtual_time, highest, latest) = (BEGINNING, BEGINNING, BEGINNING);
        Self { max_len, flows: vec![None; flows as usize], virtual_time, highest, latest }
    }

    fn flow(&mut self, flow: FlowId) -> &mut NaiveWf2qFlow {
        self.flows[flow.index()].as_mut().expect("added")
    }

    fn backlogged_flows(&self) -> impl Iterator<Item = (FlowId, &NaiveWf2qFlow)> {
        let numbered = (0..).map(FlowId).zip(&self.flows);
        numbered
            .filter_map(|(id, flow)| Some((id, flow.as_ref()?)))
            .filter(|(_, k)| k.is_backlogged)
    }

    /// eq. 3, and the new start of an idle system.
    fn jump(&mut self) {
        self.latest = self.flows.iter().flatten().map(|k| k.finish).fold(self.latest, u128::max);
        let earliest = self.backlogged_flows().map(|(_, flow)| flow.start).min();
        let idle = self.highest.max(self.latest);
        self.virtual_time = self.virtual_time.max(earliest.unwrap_or(idle));
        self.highest = self.highest.max(self.virtual_time);
    }

    /// Returns the advance of V per byte served.
    fn per_byte(&self) -> u128 {
        let sum: u128 = self.flows.iter().flatten().map(|k| u128::from(k.weight)).sum();
        UNIT / sum
    }

    /// Converts `time` from the old to the new weight, so that its distance from V in bytes of the
    /// flow is kept.
    fn rescale(&self, time: u128, [old, new]: [u32; 2]) -> u128 {
        let per_byte = |weight: u32| UNIT.div_ceil(weight.into()).cast_signed();
        let ahead = time.cast_signed() - self.virtual_time.cast_signed();
        self.virtual_time.strict_add_signed(divide_up(ahead * per_byte(new), per_byte(old)))
    }

    /// Sets the length of a flow's first packet, or that it has none, without service.
    fn change_head(&mut self, flow: FlowId, head: Option<u32>) {
        let k = self.flow(flow);
        k.finish = head.map_or(k.start, |len| k.finish_of(len));
        k.is_backlogged = head.is_some();
        self.jump();
    }
}

impl NaiveFlowScheduler for NaiveWf2q {
    fn configure(
        &mut self,
        flow: FlowId,
        Setting { weight, max_len }: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        let old = self.flows.get(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        in_range("weight", weight, 1, MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, 1, self.max_len)?;
        let all: u128 = self.flows.iter().flatten().map(|k| u128::from(k.weight)).sum();
        let others = all - old.as_ref().map_or(0, |k| k.weight.into());
        if others + u128::from(weight) > MAX_WEIGHT_SUM {
            return Err(ConfigError::OutOfRange {
                what: "sum of the weights",
                value: weight.into(),
                min: 1,
                max: MAX_WEIGHT.into(),
            });
        }
        let now = self.virtual_time;
        let state = match old.clone() {
            None => {
                NaiveWf2qFlow { weight, max_len, start: now, finish: now, is_backlogged: false }
            }
            Some(mut k) => {
                let weights = [k.weight, weight];
                if k.is_backlogged {
                    k.start = self.rescale(k.start, weights);
                } else if k.finish > now {
                    k.finish = self.rescale(k.finish, weights);
                }
                NaiveWf2qFlow { weight, max_len, ..k }
            }
        };
        self.flows[flow.index()] = Some(state);
        if head_len.is_some() {
            self.change_head(flow, head_len);
        }
        self.jump();
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(k) = self.flows.get_mut(flow.index()).and_then(Option::take) else { return };
        let ahead_from = if k.is_backlogged { k.start } else { k.finish };
        if self.backlogged_flows().next().is_some() && ahead_from > self.virtual_time {
            let ahead = (ahead_from - self.virtual_time) * self.per_byte();
            self.virtual_time -= ahead.div_ceil(UNIT.div_ceil(k.weight.into()));
        }
        self.jump();
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.flows.get(flow.index())?.as_ref().map(|flow| [flow.weight, flow.max_len])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.as_ref().map(|flow| flow.max_len)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let highest = self.highest;
        let k = self.flow(flow);
        k.start = k.finish.max(highest); // eq. 2, with the latest V
        self.change_head(flow, Some(head_len));
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.virtual_time += u128::from(len) * self.per_byte();
        self.highest = self.highest.max(self.virtual_time);
        let k = self.flow(flow);
        k.start = k.finish;
        self.change_head(flow, next_head);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.change_head(flow, head);
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        self.backlogged_flows()
            .filter(|(_, flow)| flow.start <= self.virtual_time)
            .min_by_key(|(id, flow)| (flow.finish, flow.start, *id))
            .map(|(id, _)| id)
    }
}

/// WF²Q+ in exact arithmetic, for a fixed set of flows. `S` and `F` have units in which a byte of
/// every flow and a byte of the link are whole numbers.
///
/// ```
/// use conformance::twin::ExactWf2q;
/// let mut scheduler = ExactWf2q::new(&[1, 2]).expect("small weights");
/// scheduler.backlogged(0, 300);
/// scheduler.backlogged(1, 300);
/// assert_eq!(scheduler.select(), Some(1), "finishes at 450, the other at 900");
/// scheduler.served(1, 300, Some(300));
/// assert_eq!(scheduler.select(), Some(0), "starts at 450, which is after 300");
/// ```
#[derive(Clone, Debug)]
pub struct ExactWf2q {
    /// Advance of each flow's times per byte.
    per_byte: Vec<u128>,
    /// Advance of V per byte served.
    per_byte_of_link: u128,
    /// S, F, backlogged.
    flows: Vec<(u128, u128, bool)>,
    virtual_time: u128,
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl ExactWf2q {
    /// Creates flows with shares in proportion to `weights`, which add up to 1. `None` if a weight
    /// is 0, if there are none, or if the least common multiple of the weights and their sum is
    /// above 2^64; up to that, 2^48 bytes can be served.
    #[must_use]
    pub fn new(weights: &[u32]) -> Option<Self> {
        let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let all = || weights.iter().map(|&weight| u128::from(weight));
        let unit = all().chain([sum]).try_fold(1_u128, |unit, number| {
            let multiple =
                if number == 0 { return None } else { unit / gcd(unit, number) * number };
            (multiple <= 1 << 64).then_some(multiple)
        })?;
        let flows = vec![(0, 0, false); weights.len()];
        let per_byte = all().map(|weight| unit / weight).collect();
        Some(Self { per_byte, per_byte_of_link: unit / sum, flows, virtual_time: 0 })
    }

    /// Handles a packet of `len` bytes that arrived at `flow`, which was idle.
    pub fn backlogged(&mut self, flow: usize, len: u32) {
        let (_, finish, _) = self.flows[flow];
        let start = finish.max(self.virtual_time); // eq. 2
        self.flows[flow] = (start, start + u128::from(len) * self.per_byte[flow], true);
        self.jump();
    }

    /// Handles the service of `len` bytes to `flow`; `next` is the length of its next packet, if
    /// any.
    pub fn served(&mut self, flow: usize, len: u32, next: Option<u32>) {
        let (_, start, _) = self.flows[flow];
        let span = u128::from(next.unwrap_or(0)) * self.per_byte[flow];
        self.flows[flow] = (start, start + span, next.is_some());
        self.virtual_time += u128::from(len) * self.per_byte_of_link;
        self.jump();
    }

    /// eq. 3, and the new start of an idle system.
    fn jump(&mut self) {
        let backlogged = self.flows.iter().filter(|flow| flow.2);
        let to = backlogged.map(|flow| flow.0).min();
        let to = to.or_else(|| self.flows.iter().map(|flow| flow.1).max());
        self.virtual_time = self.virtual_time.max(to.unwrap_or(0));
    }

    /// Selects the flow to serve next: the smallest `(F, S, number)` among those with `S ≤ V`.
    #[must_use]
    pub fn select(&self) -> Option<usize> {
        let flows = self.flows.iter().enumerate().filter(|(_, flow)| flow.2);
        let eligible = flows.filter(|(_, flow)| flow.0 <= self.virtual_time);
        eligible.min_by_key(|(number, flow)| (flow.1, flow.0, *number)).map(|(number, _)| number)
    }
}
