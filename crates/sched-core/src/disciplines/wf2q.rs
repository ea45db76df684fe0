//! Worst-case fair weighted fair queueing (WF²Q+): the exact order that QFQ approximates.
//!
//! Each backlogged flow gets its share `φ = weight / sum of weights` of the link, to within about
//! one packet of its own and its share of two packets of another flow. Of the flows that the ideal
//! fluid system would have begun to serve, the one that it would finish first is served. Source:
//! Bennett and Zhang, *Hierarchical packet fair queueing algorithms*, 1996 and 1997; in the form of
//! QFQ §III, eqs 1–3 (`docs/disciplines/wf2q.md`, with design choices and bounds).
//!
//! Cost per call: O(log flows), independent of queue lengths and of the advance of virtual time;
//! configuring or removing a flow divides. Memory: 64 bytes per flow, one cache line. For many
//! flows [`Qfq`] has nearly the same guarantees at constant cost.
//!
//! # The exact order
//! Virtual times are integers of 128 bits. A byte of a flow of weight 1 is `U = 2^17 · 3^6 · 5^3 ·
//! 7 · 11 · 13 · 17`, slightly below 2^48. A packet advances them by less than 2^65, so they would
//! wrap after 2^63 packets: 292 years at one packet per nanosecond. `V` starts at 2^96, so that no
//! time is negative.
//! * `inverse = ⌈U / weight⌉` for a flow; `inverse_sum = ⌊U / Σ weight⌋` over all flows added,
//!   including idle ones.
//! * A flow becomes backlogged with a packet of `len` bytes: `S = max(V, F)`, `F = S + len ·
//!   inverse`. A flow just added has `F = V`.
//! * A flow is served `len` bytes: `V += len · inverse_sum`, `S = F`, and with a next packet `F = S
//!   + next · inverse`.
//! * Whenever another packet becomes its first, `F = S + len · inverse`. A flow that loses its last
//!   packet without service has `F = S`.
//! * A new weight preserves lead and lag in bytes: the distance of `S` from `V`, or of `F` if the
//!   flow is idle, is multiplied by the new `inverse` over the old one, rounded up. An `F` of an
//!   idle flow that `V` has passed does not change.
//! * A flow may be removed while it is ahead: its `F`, without its packets, is later than `V`. The
//!   bytes that it received in advance are then subtracted from `V`: with the new `inverse_sum`, `V
//!   -= ⌈(F - V) · inverse_sum / inverse⌉`. No flow starts before a `V` that was once reached: in
//!   `S = max(V, F)` of a flow that becomes backlogged, `V` is the highest so far.
//! * Whenever no backlogged flow has `S ≤ V`, `V = min S`. Whenever no flow is backlogged, `V` is
//!   the latest of all `V` and `F` so far: no debt or credit remains between idle flows.
//! * The next flow is, of the backlogged flows with `S ≤ V`, the one with the smallest `(F, S,
//!   number)`.
//!
//! # Exactness
//! This is WF²Q+ to the last bit for the shares `φ^k = inverse_sum / inverse^k`. Their sum is at
//! most 1 because both are rounded in that direction: `Σ 1/inverse^k ≤ Σ weight / U`. Each is below
//! `weight / Σ weight` by at most 2^-23 of itself: `inverse_sum` is at least `U / 2^24 - 1 > 1.2 ·
//! 10^7`, and `inverse` is larger. If the weights and their sum divide `U`, as powers of two and
//! round decimal numbers do, the shares are exact. For other weights, a start that equals `V` in
//! exact arithmetic may be later than `V` here, and the flow is then eligible one packet later.
//! While all flows are backlogged, no flow deviates by more than `2L_k + φL + 2^-22 φW` bytes from
//! its service in exact arithmetic, after `W` bytes sent.
//!
//! [`Qfq`]: crate::Qfq

mod guarantee;
#[cfg(test)]
mod tests;
mod tree;

use core::num::NonZeroU64;

use crate::flow_scheduler::{ConfigError, FlowScheduler, FlowState, Needs, Table};
use crate::guarantee::{ceil_wide, floor_wide};
use crate::{FlowId, Imbalance};
use tree::{NIL, Tree};

/// `U`, a byte of a flow of weight 1 in virtual time: a number divisible by many weights and sums
/// of weights.
const UNIT: u64 = (1 << 17) * 3_u64.pow(6) * 5_u64.pow(3) * 7 * 11 * 13 * 17;
/// The longest possible packet, in bytes. `MAX_LEN · UNIT` is below 2^64.
const MAX_LEN: u32 = 65_535;
/// The initial `V`: a flow's lag may exceed the growth of `V`.
const BEGINNING: u128 = 1 << 96;

/// Configuration of a flow of [`Wf2q`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Wf2qConfig {
    /// The weight, `1..=`[`Wf2qConfig::MAX_WEIGHT`]. The flow's share of the link is `weight`
    /// divided by the sum of the weights of all flows added, including idle ones.
    pub weight: u32,
    /// The longest packet the flow accepts, in bytes, `1..=` the scheduler's.
    pub max_len: u32,
}

impl Wf2qConfig {
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 1 << 16;
}

/// State of one flow of WF²Q+: 64 bytes. Opaque; fill tables with [`Wf2qFlow::EMPTY`].
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Wf2qFlow {
    /// `S` of its first packet; stale while idle.
    start: u128,
    /// `F` of its first packet; while idle the earliest start of the next.
    finish: u128,
    /// `⌈U / weight⌉`.
    inverse: u64,
    /// Zero if and only if the flow was not added.
    weight: u32,
    left: u32,
    right: u32,
    parent: u32,
    /// The flow of its subtree that finishes first.
    earliest: u32,
    max_len: u16,
    /// Height of its subtree; zero if and only if the flow is idle.
    height: u8,
}

impl Wf2qFlow {
    /// Memory for a flow: all zero.
    pub const EMPTY: Self = Self {
        start: 0,
        finish: 0,
        inverse: 0,
        weight: 0,
        left: 0,
        right: 0,
        parent: 0,
        earliest: 0,
        max_len: 0,
        height: 0,
    };

    /// A flow that has not been added.
    const ABSENT: Self = Self {
        start: 0,
        finish: 0,
        inverse: 0,
        weight: 0,
        left: NIL,
        right: NIL,
        parent: NIL,
        earliest: NIL,
        max_len: 0,
        height: 0,
    };

    const fn is_backlogged(&self) -> bool {
        self.height != 0
    }

    /// Returns `len / φ`. A length above [`MAX_LEN`], which no accepted packet has, counts as
    /// [`MAX_LEN`].
    fn span(&self, len: u32) -> u128 {
        u128::from(u64::from(len.min(MAX_LEN)) * self.inverse)
    }

    /// Converts `time` from the flow's own inverse to `inverse`, keeping its distance from `now` in
    /// bytes of the flow; rounded up.
    fn rescaled(&self, time: u128, now: u128, inverse: u64) -> u128 {
        let Some(own) = NonZeroU64::new(self.inverse) else { return now };
        // Distances are below 2^80 unless thousands of flows are removed while they are far ahead.
        let scaled = |distance: u128| distance.saturating_mul(inverse.into());
        if time > now {
            now.wrapping_add(ceil_wide(scaled(time.wrapping_sub(now)), own))
        } else {
            now.wrapping_sub(floor_wide(scaled(now.wrapping_sub(time)), own))
        }
    }

    /// Returns the finish of a packet of `len` bytes that starts at the flow's start.
    fn finish_of(&self, len: u32) -> u128 {
        self.start.wrapping_add(self.span(len))
    }
}

/// A WF²Q+ scheduler over the flows in the memory `N`.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, Wf2q, Wf2qConfig, Wf2qFlow};
/// let mut wf2q = Wf2q::new([Wf2qFlow::EMPTY; 3], 1_500)?;
/// for (flow, weight) in [(FlowId(0), 1), (FlowId(1), 1), (FlowId(2), 2)] {
///     wf2q.configure(flow, Wf2qConfig { weight, max_len: 1_500 }, None)?;
///     wf2q.backlogged(flow, 1_500);
/// }
/// let mut order = [0; 8];
/// for sent in &mut order {
///     let flow = wf2q.select().expect("all stay backlogged");
///     *sent = flow.0;
///     wf2q.served(flow, 1_500, Some(1_500));
/// }
/// assert_eq!(order, [2, 0, 1, 2, 2, 0, 1, 2]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Wf2q<N> {
    flows: N,
    core: Core,
}

crate::debug::short_debug!(Wf2q<N> {});

/// Everything but the table of flows, so that it is compiled once for all kinds of tables.
#[derive(Clone, Debug)]
struct Core {
    /// The virtual time `V`.
    now: u128,
    /// The latest `V` at a removal: later than `V` until the bytes subtracted for the removed flow
    /// are made up.
    reached: u128,
    /// Upper bound of every `F`.
    horizon: u128,
    /// Advance of `V` per byte served; 0 while there are no flows.
    inverse_sum: u64,
    /// The backlogged flows.
    tree: Tree,
    /// The flow to serve; [`NIL`] if and only if no flow is backlogged.
    next: u32,
    /// Sum of the weights of all flows added.
    weight_sum: u32,
    /// The scheduler's longest packet.
    max_len: u32,
}

impl<N: Table<Wf2qFlow>> Wf2q<N> {
    /// The largest accepted `max_len` of a scheduler, in bytes: any IP packet except an IPv6
    /// jumbogram.
    pub const MAX_LEN: u32 = MAX_LEN;
    /// The largest sum of the weights of all flows.
    pub const MAX_WEIGHT_SUM: u32 = 1 << 24;

    /// Creates a scheduler for `flows.len()` flows, none added, and packets of at most `max_len`
    /// bytes. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `max_len` is outside `1..=`[`Wf2q::MAX_LEN`].
    pub fn new(mut flows: N, max_len: u32) -> Result<Self, ConfigError> {
        in_range("longest packet in bytes", max_len, Self::MAX_LEN)?;
        flows.as_mut().fill(Wf2qFlow::ABSENT);
        let core = Core {
            now: BEGINNING,
            reached: BEGINNING,
            horizon: BEGINNING,
            inverse_sum: 0,
            tree: Tree::EMPTY,
            next: NIL,
            weight_sum: 0,
            max_len,
        };
        Ok(Self { flows, core })
    }
}

fn in_range(what: &'static str, value: u32, max: u32) -> Result<(), ConfigError> {
    ConfigError::check_range(what, value.into(), 1, max.into())
}

/// Returns `⌈U / weight⌉`.
#[expect(clippy::integer_division, reason = "by type never by zero; rounded up")]
fn inverse(weight: u32) -> u64 {
    NonZeroU64::new(weight.into()).map_or(0, |weight| (UNIT + (weight.get() - 1)) / weight)
}

/// Returns `⌊U / sum⌋`.
#[expect(clippy::integer_division, reason = "by type never by zero; rounded down")]
fn inverse_sum(sum: u32) -> u64 {
    NonZeroU64::new(sum.into()).map_or(0, |sum| UNIT / sum)
}

impl Core {
    fn set_weight_sum(&mut self, sum: u32) {
        self.weight_sum = sum;
        self.inverse_sum = inverse_sum(sum);
    }

    /// Finds the next flow to serve, after `V` or a flow has changed; applies eq. 3 if none is
    /// eligible.
    fn settle(&mut self, flows: &[Wf2qFlow]) {
        self.next = self.tree.earliest_until(flows, self.now);
        if self.next != NIL {
            return;
        }
        match flows.get(self.tree.first(flows) as usize) {
            Some(first) => {
                self.now = first.start;
                self.next = self.tree.earliest_until(flows, self.now);
            }
            None => self.now = self.now.max(self.reached).max(self.horizon),
        }
    }

    fn enter(&mut self, flows: &mut [Wf2qFlow], flow: u32, head_len: u32) {
        let Some(k) = flows.get_mut(flow as usize) else { return };
        if k.weight == 0 || k.is_backlogged() {
            return;
        }
        k.start = k.finish.max(self.now).max(self.reached); // eq. 2
        k.finish = k.finish_of(head_len);
        let (start, finish) = (k.start, k.finish);
        self.horizon = self.horizon.max(finish);
        debug_assert!(!self.tree.is_empty() || start == self.now, "an idle system owes nothing");
        self.tree.insert(flows, flow);
        if start <= self.now {
            self.next = tree::earlier(flows, self.next, flow);
        }
    }

    fn serve(&mut self, flows: &mut [Wf2qFlow], flow: u32, len: u32, next_head: Option<u32>) {
        let Some(k) = flows.get(flow as usize).filter(|k| k.is_backlogged()) else { return };
        let finish = k.finish_of(len);
        self.tree.remove(flows, flow);
        if let Some(k) = flows.get_mut(flow as usize) {
            (k.start, k.finish) = (finish, finish);
            if let Some(len) = next_head {
                k.finish = k.finish_of(len);
            }
            self.horizon = self.horizon.max(k.finish);
        }
        if next_head.is_some() {
            self.tree.insert(flows, flow);
        }
        // The whole packet at once: V is the service handed out.
        let sent = u64::from(len.min(MAX_LEN)) * self.inverse_sum;
        self.now = self.now.wrapping_add(u128::from(sent));
        self.settle(flows);
    }

    /// Updates a backlogged flow whose first packet now has `head` bytes, or which is empty.
    fn rehead(&mut self, flows: &mut [Wf2qFlow], flow: u32, head: Option<u32>) {
        if !flows.get(flow as usize).is_some_and(Wf2qFlow::is_backlogged) {
            return;
        }
        self.tree.remove(flows, flow);
        if let Some(k) = flows.get_mut(flow as usize) {
            k.finish = head.map_or(k.start, |len| k.finish_of(len));
            self.horizon = self.horizon.max(k.finish);
        }
        if head.is_some() {
            self.tree.insert(flows, flow);
        }
        self.settle(flows);
    }

    /// Changes the weight of `flow`, with `sum` as the new sum of all, and preserves its lead or
    /// lag in bytes.
    fn reweigh(
        &mut self,
        flows: &mut [Wf2qFlow],
        flow: u32,
        weight: u32,
        sum: u32,
        head: Option<u32>,
    ) {
        let is_backlogged = flows.get(flow as usize).is_some_and(Wf2qFlow::is_backlogged);
        if is_backlogged {
            self.tree.remove(flows, flow);
        }
        let Some(k) = flows.get_mut(flow as usize) else { return };
        let inverse = inverse(weight);
        let rescaled = |time| k.rescaled(time, self.now, inverse);
        let (start, finish) = (rescaled(k.start), rescaled(k.finish));
        if is_backlogged {
            (k.start, k.finish) = (start, finish);
        } else if k.weight == 0 {
            k.finish = self.now;
        } else if k.finish > self.now {
            k.finish = finish;
        }
        (k.weight, k.inverse) = (weight, inverse);
        if let Some(len) = head.filter(|_| is_backlogged) {
            k.finish = k.finish_of(len);
        }
        self.horizon = self.horizon.max(k.finish);
        if is_backlogged {
            self.tree.insert(flows, flow);
        }
        self.set_weight_sum(sum);
        self.settle(flows);
    }

    /// Removes `flow`. The other flows lag by what it received in advance; if that stayed in `V`,
    /// they would never make it up while all of them stay backlogged.
    fn forget(&mut self, flows: &mut [Wf2qFlow], flow: u32) {
        let Some(&k) = flows.get(flow as usize).filter(|k| k.weight != 0) else { return };
        let finish = if k.is_backlogged() { k.start } else { k.finish };
        if k.is_backlogged() {
            self.tree.remove(flows, flow);
        }
        if let Some(k) = flows.get_mut(flow as usize) {
            *k = Wf2qFlow::ABSENT;
        }
        self.set_weight_sum(self.weight_sum.wrapping_sub(k.weight));
        if let Some(inverse) = NonZeroU64::new(k.inverse).filter(|_| !self.tree.is_empty()) {
            let ahead = finish.saturating_sub(self.now);
            let taken = ceil_wide(ahead.saturating_mul(self.inverse_sum.into()), inverse);
            self.reached = self.reached.max(self.now);
            self.now = self.now.saturating_sub(taken);
        }
        self.settle(flows);
    }

    fn recount(
        &self,
        flows: &[Wf2qFlow],
        truth: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let (mut weights, mut backlogged, mut next) = (0, 0_u32, NIL);
        for (at, k) in (0..).zip(flows) {
            weights += u64::from(k.weight);
            let head = truth(FlowId(at)).head_len;
            holds(
                "a flow is in the tree iff it holds packets",
                at,
                k.is_backlogged() == head.is_some(),
            )?;
            let Some(head) = head else { continue };
            holds("a flow that holds packets was added", at, k.weight != 0)?;
            Imbalance::check("inverse weight", at, k.inverse, inverse(k.weight))?;
            holds("F = S + l / φ", at, k.finish == k.finish_of(head))?;
            holds("no F is beyond the horizon", at, k.finish <= self.horizon)?;
            // L / φ is below 2^64, plus the amounts subtracted from V for removed flows.
            holds("S <= V + 2^80", at, k.start.saturating_sub(self.now) < 1 << 80)?;
            let books = tree::books(flows, at);
            holds(
                "a node knows height and first of its subtree",
                at,
                (k.height, k.earliest) == books,
            )?;
            holds("the tree is balanced and linked", at, tree::is_sound(flows, at))?;
            backlogged += 1;
            if k.start <= self.now {
                next = tree::earlier(flows, next, at);
            }
        }
        Imbalance::check("sum of the weights", 0, self.weight_sum.into(), weights)?;
        Imbalance::check("next", 0, self.next.into(), next.into())?;
        holds("a flow is eligible iff one is backlogged", 0, (next != NIL) == (backlogged > 0))?;

        let (mut at, mut before, mut listed) = (self.tree.first(flows), None, 0);
        while let Some(k) = flows.get(at as usize).filter(|_| listed <= backlogged) {
            let key = Some((k.start, at));
            holds("the tree is sorted by S", at, before < key)?;
            (before, at, listed) = (key, Tree::after(flows, at), listed + 1);
        }
        Imbalance::check("flows in the tree", 0, listed.into(), backlogged.into())
    }
}

fn holds(what: &'static str, at: u32, truth: bool) -> Result<(), Imbalance> {
    Imbalance::check(what, at, 1, truth.into())
}

impl<N: Table<Wf2qFlow>> FlowScheduler for Wf2q<N> {
    type Config = Wf2qConfig;

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// The flow's lead or lag in bytes does not change, so that repeated re-configuration neither
    /// gains nor loses service.
    fn configure(
        &mut self,
        flow: FlowId,
        config: Wf2qConfig,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        let (core, table) = (&mut self.core, self.flows.as_mut());
        let Some(k) = table.get_mut(flow.index()).filter(|_| flow.0 < flows) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        let Wf2qConfig { weight, max_len } = config;
        in_range("weight", weight, Wf2qConfig::MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, core.max_len)?;
        // Both are at most 2^24.
        let sum = core.weight_sum.wrapping_sub(k.weight).wrapping_add(weight);
        in_range("sum of the weights", sum, Self::MAX_WEIGHT_SUM)?;
        k.max_len = u16::try_from(max_len).unwrap_or(u16::MAX);
        core.reweigh(table, flow.0, weight, sum, head_len);
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.core.forget(self.flows.as_mut(), flow.0);
    }

    fn config(&self, flow: FlowId) -> Option<Wf2qConfig> {
        let k = self.flows.as_ref().get(flow.index()).filter(|k| k.weight != 0)?;
        Some(Wf2qConfig { weight: k.weight, max_len: k.max_len.into() })
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        let k = self.flows.as_ref().get(flow.index())?;
        (k.weight != 0).then_some(k.max_len.into())
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.core.enter(self.flows.as_mut(), flow.0, head_len);
    }

    /// Does nothing: only the head of a queue counts.
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    fn select(&self) -> Option<FlowId> {
        (self.core.next != NIL).then_some(FlowId(self.core.next))
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.core.serve(self.flows.as_mut(), flow.0, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        self.core.rehead(self.flows.as_mut(), flow.0, head);
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: true, counts_bytes: true, common_max_len: 0 }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        self.core.recount(self.flows.as_ref(), flows)
    }
}
