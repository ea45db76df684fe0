//! Age-based scheduling: the flows that have received the least service go first.
//!
//! Most flows are short, and most bytes belong to a few long ones. A flow's age is its attained
//! service: the number of bytes served since it began. Flows are on levels by their age, and take
//! turns within a level. A younger level is served before an older one. So short flows pass long
//! ones without being marked as short.
//!
//! - **Two levels** give two-level processor sharing: below the threshold a flow is young, from
//!   there on it is old.
//! - **More levels** approximate least attained service first: level `n` ends at `threshold · 2^n`
//!   bytes.
//!
//! **Renewal.** A flow is new after it was removed and added again, and after it has been idle for
//! [`AgeParams::renewed_after`]. Otherwise it keeps its age, whatever it loses, and never returns
//! to a younger level.
//!
//! **Guarantees.** A flow has one queue, so its packets are not reordered when the flow changes its
//! level. Without a floor an older level may starve while younger ones hold packets. With a floor
//! of one in `k` bytes, `m` levels below the first and packets of at most `L` bytes, take any
//! interval in which one of these `m` levels holds packets:
//!
//! - with two levels, the old level sends at least `W/k − L` of `W` bytes;
//! - the level sends its next packet after at most `k·m·L` bytes;
//! - a younger level waits for at most `W/k + L` bytes of the floor.
//!
//! Within a level two flows that stay backlogged there share as with [`Drr`](crate::Drr).
//!
//! **Cost.** O(1) per call without a loop. Memory: 32 bytes per flow, and 192 for the levels.
//!
//! **Source.** L. Kleinrock, *Queueing Systems* 2, 1976, §4.7, for levels by attained service; G.
//! Moschini, A. Marin, L. Maccari, *Age-Based CoDel*, with its friends, CNSM 2025, for two of them
//! above an AQM. The floor, the renewal of idle flows and the learned threshold are ours:
//! `docs/disciplines/age.md`.

mod params;

pub use params::{AgeParams, ThresholdRange};

use super::drr::ring::{self, OnRing, Ring, RingFlow};
use crate::flow_scheduler::{ConfigError, FlowScheduler, FlowState, Needs, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos, Packet};
use params::{Learner, ticks_of};

/// State of one flow of [`AgeDrr`]: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeFlow {
    flow: RingFlow,
    /// Bytes served since the flow began, saturating.
    attained: u32,
    /// Time at which the flow became idle, in ticks; stale while it is backlogged.
    idle_since: u32,
    /// The level of the flow while it is backlogged. It never decreases until the flow is new.
    level: u32,
}

impl AgeFlow {
    /// A flow that has not been added.
    pub const EMPTY: Self = Self { flow: RingFlow::EMPTY, attained: 0, idle_since: 0, level: 0 };
}

impl OnRing for AgeFlow {
    type Quantum = u32;

    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.flow
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.flow
    }
}

/// Maximum number of levels.
const LEVELS: usize = AgeParams::MAX_LEVELS as usize;

/// A scheduler with levels by attained service and deficit round robin within each, over the flows
/// in the memory `N`.
///
/// [`FlowScheduler::Config`] is the quantum in bytes, as for [`Drr`](crate::Drr).
///
/// ```
/// use sched_core::{AgeDrr, AgeFlow, AgeParams, FlowId, FlowScheduler};
///
/// let mut scheduler = AgeDrr::new([AgeFlow::EMPTY; 2], 1_500, AgeParams::two_levels(3_000))?;
/// scheduler.add_all(1_500)?;
/// let (long, short) = (FlowId(0), FlowId(1));
/// scheduler.backlogged(long, 1_500);
/// scheduler.served(long, 1_500, Some(1_500));
/// scheduler.served(long, 1_500, Some(1_500));
/// scheduler.backlogged(short, 1_500);
/// assert_eq!(scheduler.select(), Some(short), "the long flow has been served 3,000 bytes");
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct AgeDrr<N> {
    nodes: N,
    /// The backlogged flows of each level.
    rings: [Ring; LEVELS],
    /// Bit `n` is set if and only if a flow on level `n` is backlogged.
    in_use: u32,
    max_len: u32,
    params: AgeParams,
    threshold: Learner,
    /// Bytes sent, minus `k` for each byte sent by the floor: above 0 if and only if the floor is
    /// behind its share, and then by at most one packet. Bytes of the floor beyond its share count
    /// for at most `k − 1` packets. 0 without a floor.
    arrears: i32,
    /// The level that the floor served last.
    floor_at: u32,
    /// The latest timestamp. Initially [`Nanos::MAX`], so that the first call counts as no time
    /// passing.
    now: Nanos,
    /// Time that has passed: the sum of all forward steps of the clock.
    elapsed: u64,
}

crate::debug::short_debug!(AgeDrr<N> { max_len, params });

impl<N: Table<AgeFlow>> AgeDrr<N> {
    /// Creates a flow scheduler for `nodes.len()` flows, none added, and packets of at most
    /// `max_len` bytes. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`], or for the
    /// first parameter outside its range.
    pub fn new(mut nodes: N, max_len: u32, params: AgeParams) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        params.check()?;
        nodes.as_mut().fill(AgeFlow::EMPTY);
        Ok(Self {
            nodes,
            rings: [Ring::IDLE; LEVELS],
            in_use: 0,
            max_len,
            params,
            threshold: Learner::new(params),
            arrears: 0,
            floor_at: 0,
            now: Nanos::MAX,
            elapsed: 0,
        })
    }

    /// Adds every flow of the table, or changes it, with the same quantum in bytes. Cost: O(flows).
    ///
    /// # Errors
    /// See [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        ring::add_all(self.nodes.as_mut(), quantum, self.max_len)
    }

    /// Returns the current parameters.
    pub const fn params(&self) -> AgeParams {
        self.params
    }

    /// Changes the parameters, even while flows are backlogged.
    ///
    /// The threshold is set to that of `params`, even if another was learned. A flow keeps its age,
    /// and changes its level only when it is served, to an older one by its age, or when it is new,
    /// to the first.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter outside its range; nothing has changed
    /// then.
    pub fn set_params(&mut self, params: AgeParams) -> Result<(), ConfigError> {
        params.check()?;
        self.params = params;
        self.threshold = Learner::new(params);
        self.arrears = 0;
        Ok(())
    }

    /// Returns the bytes of service below which a flow is young: the configured or the learned
    /// threshold.
    pub const fn threshold(&self) -> u32 {
        self.threshold.bytes()
    }

    /// Returns the bytes served to `flow` since it began, saturating, or `None` if it was not
    /// added.
    pub fn attained(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.attained)
    }

    /// Returns the level of `flow`, current or when it was last backlogged, or `None` if it was not
    /// added.
    pub fn level(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.level)
    }

    fn node(&self, flow: FlowId) -> Option<&AgeFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.flow.is_added())
    }

    /// Returns the level served next, or 32 if none is in use.
    #[inline]
    const fn next_level(&self) -> u32 {
        let old = self.in_use & !1;
        if self.arrears <= 0 || old == 0 {
            return self.in_use.trailing_zeros();
        }
        // The levels below the first take turns: next is the one after the last that the floor
        // served, or the first of them.
        let behind = old & ((u32::MAX << 1) << (self.floor_at & 31));
        if behind == 0 { old.trailing_zeros() } else { behind.trailing_zeros() }
    }

    /// Updates the accounting of the floor for `len` bytes sent by `level`.
    #[inline]
    fn charge_floor(&mut self, level: u32, len: u32) {
        let Some(one_in) = self.params.floor else { return };
        let len = len.min(self.max_len).cast_signed();
        let is_of_floor = self.arrears > 0;
        if is_of_floor {
            self.floor_at = level;
        }
        // No overflow: a length is at most 2^20 and `one_in` at most 2^10.
        let sent = self.arrears.wrapping_add(len);
        // A level that alone holds packets is behind no other, and its service counts as its share.
        self.arrears = if is_of_floor || self.in_use.is_power_of_two() {
            let part = len.wrapping_mul(one_in.cast_signed());
            sent.wrapping_sub(part).max(self.least_arrears())
        } else {
            sent
        };
    }

    /// Returns the lowest value of `arrears`: the most that the floor may be ahead of its share.
    const fn least_arrears(&self) -> i32 {
        match self.params.floor {
            Some(one_in) => {
                0_i32.wrapping_sub(self.max_len.wrapping_mul(one_in.wrapping_sub(1)).cast_signed())
            }
            None => 0,
        }
    }

    /// Appends `flow`, added and on no ring, to its level.
    #[inline]
    fn enter(&mut self, flow: FlowId, level: u32) {
        let Some(ring) = self.rings.get_mut(level as usize) else { return };
        ring.enter_last(self.nodes.as_mut(), flow.0, |_| ());
        self.in_use |= 1_u32.wrapping_shl(level);
    }

    /// Updates `in_use` of `level`, which may have lost its last flow.
    #[inline]
    fn settle(&mut self, level: u32) {
        if self.rings.get(level as usize).is_none_or(|ring| ring.front() == NONE) {
            self.in_use &= !1_u32.wrapping_shl(level);
        }
    }

    fn ticks(&self) -> u32 {
        ticks_of(self.elapsed)
    }
}

impl<N: Table<AgeFlow>> FlowScheduler for AgeDrr<N> {
    /// The quantum in bytes, from the longest packet to
    /// [`Drr::MAX_QUANTUM`](crate::Drr::MAX_QUANTUM).
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.elapsed = self.elapsed.wrapping_add(now.since(self.now).0);
        self.now = now;
    }

    /// The new quantum of a backlogged flow applies at once, including to a turn in progress.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        ring::configure(self.nodes.as_mut(), flow, quantum, self.max_len)
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(&AgeFlow { flow: on_ring, level, .. }) = self.node(flow) else { return };
        if on_ring.is_listed()
            && let Some(ring) = self.rings.get_mut(level as usize)
        {
            ring.unlist(self.nodes.as_mut(), flow.0);
            self.settle(level);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            *node = AgeFlow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.flow.quantum())
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|_| self.max_len)
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let (ticks, renewed_after) = (self.ticks(), self.params.renewed_ticks());
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        if !node.flow.is_added() || node.flow.is_listed() {
            return;
        }
        if ticks.wrapping_sub(node.idle_since) >= renewed_after {
            (node.attained, node.level) = (0, 0);
        }
        let level = node.level;
        self.enter(flow, level);
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let front = self.rings.get(self.next_level() as usize)?.front();
        (front != NONE).then_some(FlowId(front))
    }

    /// A call for a flow that was not selected changes nothing.
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let (from, ticks, max_len) = (self.next_level(), self.ticks(), self.max_len);
        if self.rings.get(from as usize).is_none_or(|ring| ring.front() != flow.0) {
            return;
        }
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        let before = node.attained;
        (node.attained, node.idle_since) = (before.saturating_add(len), ticks);
        let mut to = from;
        // No level is older than the last one. A flow that has not been served is on the first.
        if from.wrapping_add(1) < self.params.levels {
            if before == 0 {
                self.threshold.began();
            }
            to = from.max(self.threshold.level_of(node.attained, self.params.levels));
            node.level = to;
            if from == 0 && to > 0 {
                self.threshold.grew_old();
            }
        }
        self.charge_floor(from, len);
        let Some(ring) = self.rings.get_mut(from as usize) else { return };
        let nodes = self.nodes.as_mut();
        if next_head.is_some() && to == from {
            return ring.charge(nodes, len, max_len, |_| ());
        }
        // A flow that changes its level ends its turn, and keeps its debt.
        ring.leave_front(nodes, len, max_len);
        self.settle(from);
        if next_head.is_some() {
            self.enter(flow, to);
        }
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_some() {
            return;
        }
        let (ticks, max_len) = (self.ticks(), self.max_len);
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        if !node.flow.is_listed() {
            return;
        }
        node.idle_since = ticks;
        let level = node.level;
        if let Some(ring) = self.rings.get_mut(level as usize) {
            ring.lose(self.nodes.as_mut(), flow.0, max_len);
        }
        self.settle(level);
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        for (at, node) in (0..).zip(nodes) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            node.flow.recount(at, is_backlogged, self.max_len)?;
            let has_level = (node.level as usize) < LEVELS;
            Imbalance::check("a level that there is", at, 1, has_level.into())?;
        }
        for (level, ring) in (0..).zip(&self.rings) {
            let is_here = |node: &&AgeFlow| node.flow.is_listed() && node.level == level;
            let listed = nodes.iter().filter(is_here).count();
            ring.recount(nodes, listed)?;
            for (flow, node) in ring.walk(nodes, listed) {
                Imbalance::check("the level of a flow", flow, node.level.into(), level.into())?;
            }
            let in_use = self.in_use >> level & 1;
            Imbalance::check("a level in use", level, u64::from(listed > 0), in_use.into())?;
        }
        let most = self.max_len.cast_signed();
        let in_range = (self.least_arrears()..=most).contains(&self.arrears);
        Imbalance::check("arrears of the floor", 0, 1, in_range.into())
    }
}

#[cfg(test)]
mod tests;
