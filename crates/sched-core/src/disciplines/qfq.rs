//! Quick Fair Queueing (QFQ): weighted fair queueing in constant time.
//!
//! Each backlogged flow gets at least its share `φ = weight / sum of weights` of the link, to
//! within a few of its own packets, whatever the other flows do and however many there are. These
//! are the bounds of WF²Q+ up to small factors, at a cost that does not grow with the number of
//! flows. Source: Checconi, Rizzo and Valente, *QFQ: Efficient Packet Scheduling With Tight
//! Guarantees*, IEEE/ACM ToN 2013 (`QFQ` in `docs/disciplines/qfq.md`, which lists departures from
//! it and their reasons).
//!
//! Flows are sorted by rounded virtual time. The virtual length `L/φ` of its longest packet puts a
//! flow into one of 32 *groups*; within a group, its rounded start puts it into a slot; and the
//! groups are in four sets of one word each. Finding the next flow and moving flows and groups
//! takes operations on single words.
//!
//! Cost per call: O(1), without loops over flows or groups and without division: an enqueue touches
//! at most 8 flows, slots and groups, and a dequeue at most 20. Configuring a flow divides. Memory:
//! 32 bytes per flow and 9.2 KB. A caller that follows the contract of [`FlowScheduler`] preserves
//! the invariants that [`FlowScheduler::recount`] checks; one that does not loses only the
//! guarantees.
//!
//! # Which weights count
//! The virtual time `V` runs at the rate of the link divided by the sum of the weights that *count*
//! (QFQ §IV-B). A flow counts from when it becomes backlogged. A flow that has become idle
//! *lingers*: it counts until `V` has passed its `F` by a longest packet, and a little longer,
//! because a call examines only [`LET_GO`] lingering flows.
//!
//! - If its weight were removed sooner, `V` would outrun the other flows, and a flow that comes and
//!   goes would take more than its share from the flows that stay.
//! - If its weight were never removed, `V` would run too slowly behind a backlog of few flows among
//!   many, and flows that start late would be ahead of `V`.
//!
//! `V` never runs faster than if the heaviest flow of all were alone, up to a power of two. So one
//! packet moves `V` by at most `L/φ` of any flow, and a flow whose start is shifted back (eq. 17)
//! gains at most `L/φ`.
//!
//! # The exact order
//! Virtual times are integers modulo 2^64, compared by signed difference. `L` is the scheduler's
//! longest packet.
//! * `inverse = ⌊2^30 / weight⌋` for a flow; `inverse_sum = ⌊2^60 / Σ⌈2^60 / inverse⌉⌋` over the
//!   flows that count, but at most `m`. `m` is the larger of two values: the same formula over all
//!   flows added, and the largest power of two that is at most the `inverse` of every flow added.
//!   `P = V − L·m`.
//! * `σ_i = 2^(15+i)`; the group of a flow is the smallest `i` in `0..=31` with `max(max_len,
//!   ⌈L/28⌉) · inverse ≤ σ_i`. `⌊x⌋_i` is `x` rounded down to a multiple of `σ_i`.
//! * A flow becomes backlogged and counts: if it lingered, its stored `F` is *fresh* if `F > V` and
//!   `⌊F⌋_i ≤ ⌊V⌋_i + σ_i`, and then `S = F`; otherwise `S = V`. If `b` is the lowest group above
//!   `i` in `ER` and `F_b < ⌊S⌋_i + 2σ_i`: a fresh `S` becomes `F_b` if `⌊S⌋_i > F_b` (possible
//!   only after a re-configuration); an `S` that is not fresh becomes `min(S, F_b)`. If the flow's
//!   group is backlogged and `⌊S⌋_i > S_i + 30σ_i`, also possible only after a re-configuration, `S
//!   = S_i + 30σ_i`.
//! * A flow is served `len` bytes: `V += len · inverse_sum`; `F = S + min(len, max_len) · inverse`
//!   (`len` exceeds `max_len` only if that was lowered while packets were queued); if the flow
//!   stays backlogged, `S = F`. It stays at the head of its slot if `⌊S⌋_i` is unchanged; otherwise
//!   it moves to the tail of its new slot.
//! * A flow that loses its last packet without service stores its `S` as `F`; losing other packets
//!   changes nothing.
//! * After a service, and after a flow has left without one, in this order:
//!   1. If no backlogged group is eligible, `V = min S_i`; if no flow is backlogged, `V += 2^48`,
//!      past every stored `F`: no debt or credit carries over from one busy period to the next.
//!   2. A group with lingering flows is *due* if `V` has entered a slot of its width in this call,
//!      or if it was due before.
//!   3. Up to [`LET_GO`] times: in the highest due group, if `F ≤ P` for the flow at the head of
//!      its list of lingering flows, that flow stops counting and leaves the list; otherwise the
//!      group is no longer due. A group is not due either once its list is empty, for whatever
//!      reason.
//!   4. The flow that was served or has left, if it is now idle, goes to the tail of the list of
//!      its group if `F > P`; otherwise it stops counting.
//! * A flow that is re-configured keeps `S` or `F`. A lingering flow whose group changes goes to
//!   the tail of the list of its new group. A backlogged flow keeps its position if its group is
//!   unchanged; otherwise it leaves without service, as above, and becomes backlogged in its new
//!   group. An added flow has no stored `F`. A removed flow leaves without service if it is
//!   backlogged, and then stops counting.
//! * The next flow is the first of the front slot of the lowest group of `ER`: of the groups with
//!   `S_i ≤ V`, the lowest with the smallest `F_i`.

mod eligibility;
mod group;
mod guarantee;
mod lingering;
mod moves;
mod plus;
mod recount;
#[cfg(test)]
mod tests;
mod virtual_time;
mod weights;

use core::num::NonZeroU32;

use crate::flow_scheduler::{ConfigError, FlowScheduler, FlowState, Needs, Table};
use crate::queues::queue::NONE;
use crate::steps::look;
use crate::{FlowId, Imbalance};
use eligibility::{Sets, bit};
use group::{Group, MAX_DISTANCE, State};
use virtual_time::{GROUPS, Virtual, Width, group_of, inverse, weight_of};
use weights::Weights;

pub use group::QfqFlow;
pub use plus::{Aggregate, PlusFlow, QfqPlus};

/// Configuration of a flow of [`Qfq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QfqConfig {
    /// The weight, `1..=`[`QfqConfig::MAX_WEIGHT`].
    ///
    /// The flow's share of the link is `weight` divided by the sum of the weights of the flows
    /// that are backlogged or were recently. Weights up to 2^15 are exact; larger ones are rounded
    /// up to `⌊2^30 / ⌊2^30 / weight⌋⌋`, by at most 2^-14, which is the value read back.
    pub weight: u32,
    /// The longest packet the flow accepts, in bytes, `1..=` the scheduler's. Delay and burstiness
    /// of the flow grow with `max_len / weight`, rounded up to a power of two.
    pub max_len: u32,
}

impl QfqConfig {
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 1 << 16;
}

/// A Quick Fair Queueing scheduler over the flows in the memory `N`.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, Qfq, QfqConfig, QfqFlow};
/// let mut qfq = Qfq::new([QfqFlow::EMPTY; 2], 1_500)?;
/// for (flow, weight) in [(FlowId(0), 1), (FlowId(1), 3)] {
///     qfq.configure(flow, QfqConfig { weight, max_len: 1_500 }, None)?;
///     qfq.backlogged(flow, 1_500);
/// }
/// let mut packets = [0; 2];
/// for _ in 0..400 {
///     let flow = qfq.select().expect("both stay backlogged");
///     packets[flow.index()] += 1;
///     qfq.served(flow, 1_500, Some(1_500));
/// }
/// assert_eq!(packets, [100, 300]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Qfq<N> {
    flows: N,
    core: Core,
}

crate::debug::short_debug!(Qfq<N> {});

/// Maximum number of lingering flows examined per service or departure.
///
/// A service makes at most one flow linger. Each group in which `V` enters a slot is examined, in
/// vain until `V` is `L·m` past the `F` of its first flow; if more groups are due at once, the
/// lower ones wait. Flows that wait count longer, which is safe.
pub(crate) const LET_GO: u32 = 4;

/// Effect of a service on the served flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The flow's next start is in its current slot.
    Stays,
    /// The flow's next start is in the next slot.
    MovesOn,
    /// The flow is empty.
    Idle,
}

/// The flow to serve next, cached because most packets do not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    /// The first flow of the front slot of the lowest group of `ER`; [`NONE`] while `ER` is empty.
    flow: u32,
    /// End of that slot, `S_i + σ_i`; stale while `ER` is empty.
    end: Virtual,
}

/// Everything but the table of flows, so that it is compiled once for all kinds of tables.
#[derive(Clone, Debug)]
struct Core {
    /// The virtual time `V`.
    now: Virtual,
    next: Next,
    /// Until `V` reaches this value, it enters no slot that a group waits for; at most 2^62 ahead
    /// of `V`.
    alarm: Virtual,
    sets: Sets,
    weights: Weights,
    /// The groups with lingering flows.
    lingering: u32,
    /// Those groups of `lingering` in which `V` has entered a slot since they were last examined.
    due: u32,
    /// `L`: the most bytes sent between two selections.
    max_len: u32,
    /// `⌈L/28⌉`: flows whose longest packet is shorter are sorted as if it had this length. With
    /// slots no narrower than for this length, 32 slots suffice (`group.rs`).
    shortest: u32,
    /// Lower bound of the `max_len` of all flows ever configured.
    least_max_len: u32,
    groups: [Group; GROUPS],
}

impl<N: Table<QfqFlow>> Qfq<N> {
    /// The largest accepted `max_len` of a scheduler, in bytes: any IP packet except an IPv6
    /// jumbogram.
    pub const MAX_LEN: u32 = 65_535;
    /// The largest sum of the weights of all flows.
    pub const MAX_WEIGHT_SUM: u32 = 1 << 24;

    /// Creates a scheduler for `flows.len()` flows, none added, and packets of at most `max_len`
    /// bytes.
    ///
    /// Flows whose own longest packet is below `max_len / 28` are sorted as if it had that length.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `max_len` is outside `1..=`[`Qfq::MAX_LEN`].
    pub fn new(mut flows: N, max_len: u32) -> Result<Self, ConfigError> {
        in_range("longest packet in bytes", max_len, Self::MAX_LEN)?;
        flows.as_mut().fill(QfqFlow::EMPTY);
        Ok(Self { flows, core: Core::new(max_len) })
    }
}

fn in_range(what: &'static str, value: u32, max: u32) -> Result<(), ConfigError> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { what, value: value.into(), min: 1, max: max.into() })
}

impl Core {
    fn new(max_len: u32) -> Self {
        Self {
            now: Virtual(0),
            next: Next { flow: NONE, end: Virtual(0) },
            alarm: Virtual(0),
            sets: Sets::default(),
            weights: Weights::new(),
            lingering: 0,
            due: 0,
            max_len,
            shortest: max_len.div_ceil(28),
            least_max_len: max_len,
            groups: [const { Group::EMPTY }; GROUPS],
        }
    }

    /// Returns the length used to sort a flow into a group.
    fn effective_len(&self, max_len: u32) -> u32 {
        max_len.max(self.shortest)
    }

    /// Enqueues to an idle flow (Fig. 3).
    #[inline]
    fn enter(&mut self, flows: &mut [QfqFlow], flow: u32) {
        if !self.enter_front(flows, flow) {
            self.enter_slow(flows, flow);
        }
    }

    /// Fast path of [`Self::enter`] for a flow that comes and goes: it lingers, its start is in the
    /// front slot of its group, and no group reduces its start. Returns false, with nothing
    /// changed, in other cases.
    #[inline(always)]
    fn enter_front(&mut self, flows: &mut [QfqFlow], flow: u32) -> bool {
        let Some(k) = flows.get_mut(flow as usize) else { return false };
        let i = u32::from(k.group);
        let width = Width::of_group(i);
        // S = max(V, F), if F is fresh and F_b is later.
        let start = if k.start.is_after(self.now) { k.start } else { self.now };
        let latest = self.latest_start(i);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return false };
        if k.state != State::Lingering
            || group.full == 0
            || group.start != start.floor(width)
            || latest.is_some_and(|latest| start.is_after(latest))
        {
            return false;
        }
        let before = *k;
        (k.start, k.state) = (start, State::Backlogged);
        if group.unlink_lingering(flows, flow, before) {
            self.lingering &= !bit(i);
            self.due &= !bit(i);
        }
        group.append_to_front(width, flows, flow);
        true
    }

    /// Returns `F_b` of the group that may reduce the start of a flow of group `i` (eq. 17).
    #[inline]
    fn latest_start(&self, i: u32) -> Option<Virtual> {
        let b = self.sets.first_ready_above(i)?;
        self.groups.get(b as usize % GROUPS).map(|blocker| blocker.finish(Width::of_group(b)))
    }

    /// [`Self::enter`] for all cases.
    #[inline(never)]
    fn enter_slow(&mut self, flows: &mut [QfqFlow], flow: u32) {
        let Some(&k) = flows.get(flow as usize) else { return };
        // The weight of a new flow counts at once (§IV-B); that of a lingering flow still counts.
        let finish = match k.state {
            State::Backlogged => return,
            State::Idle if k.inverse == 0 => return,
            State::Idle => {
                self.weights.count(k.share);
                None
            }
            State::Lingering => {
                self.unlist(flows, flow, k);
                Some(k.start)
            }
        };
        self.sort_flow(flows, flow, finish);
    }

    /// Puts `flow`, which counts and is on no list, into the slot of its start (Fig. 3). `finish`
    /// is its stored finish.
    #[inline(always)] // into `enter`; the only other caller is a re-configuration
    fn sort_flow(&mut self, flows: &mut [QfqFlow], flow: u32, finish: Option<Virtual>) {
        let Some(k) = flows.get(flow as usize) else { return };
        let i = u32::from(k.group);
        let width = Width::of_group(i);
        let start = self.start_of(i, finish);
        let rounded = start.floor(width);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        look();

        // Fig. 3, line 10: does the state of the group change?
        let mut place = rounded;
        let mut changes = true;
        if group.full == 0 {
            group.start = rounded;
        } else if rounded.is_after(group.start) || rounded == group.start {
            changes = false;
            let limit = group.start.plus(width.slots(MAX_DISTANCE));
            // Never in a steady set of flows (Theorem 3); Theorem 2 does not survive every change.
            if rounded.is_after(limit) {
                place = limit;
            }
        } else {
            // Lines 13-17. Earlier than all others: the group is ineligible, its start is ⌊V⌋ + σ,
            // and all its flows have that start (Theorem 1), while this flow's is ⌊V⌋, one slot
            // earlier.
            group.start = group.start.minus(width.span());
            debug_assert_eq!(group.start, rounded, "one slot back");
            place = group.start;
            self.sets.remove(i);
        }
        if let Some(k) = flows.get_mut(flow as usize) {
            k.start = if place == rounded { start } else { place };
            k.state = State::Backlogged;
        }
        group.append(width, flows, flow, place); // line 18
        if changes {
            self.settle(i);
        }
    }

    /// Inserts group `i`, which is in no set, into its set.
    #[inline(never)] // seldom called: inlined it would cost the other paths registers
    fn settle(&mut self, i: u32) {
        self.sort_in(i);
        self.next = self.first();
    }

    /// Returns `S` of a flow of group `i` that becomes backlogged, given its stored finish if it
    /// lingered.
    fn start_of(&self, i: u32, finish: Option<Virtual>) -> Virtual {
        let width = Width::of_group(i);
        // Eq. 2, S = max(V, F). By Theorem 1 no F is beyond the slot after V's, unless the flow was
        // re-configured since or virtual time has wrapped around.
        let next_slot = self.now.floor(width).plus(width.span());
        let fresh = finish
            .filter(|finish| finish.is_after(self.now) && !finish.floor(width).is_after(next_slot));
        let start = fresh.unwrap_or(self.now);
        // Eq. 17, for every flow that becomes backlogged: as if it had arrived when V was F_b.
        let Some(b) = self.sets.first_ready_above(i) else { return start };
        let Some(blocker) = self.groups.get(b as usize % GROUPS) else { return start };
        look();
        let latest = blocker.finish(Width::of_group(b));
        // F_b < F' = ⌊S⌋ + 2σ need not be checked: it follows from this condition.
        let too_late = fresh.map_or(start, |start| start.floor(width)).is_after(latest);
        if too_late { latest } else { start }
    }

    /// Returns the flow to serve next, computed from the sets.
    fn first(&self) -> Next {
        let first = self.sets.first_ready();
        let found =
            first.and_then(|i| Some((Width::of_group(i), self.groups.get(i as usize % GROUPS)?)));
        found.map_or(Next { flow: NONE, end: Virtual(0) }, |(width, group)| Next {
            flow: group.first(width),
            end: group.start.plus(width.span()),
        })
    }

    #[inline]
    fn select(&self) -> Option<u32> {
        (self.next.flow != NONE).then_some(self.next.flow)
    }

    /// Fills `ahead` with the flows of the slot being served, first to last; returns their number.
    #[inline(never)] // called once per burst
    fn upcoming(&self, flows: &[QfqFlow], ahead: &mut [FlowId]) -> usize {
        let Some(i) = self.sets.first_ready() else { return 0 };
        let Some(group) = self.groups.get(i as usize % GROUPS) else { return 0 };
        let Some(ends) = group.front(Width::of_group(i)) else { return 0 };
        let (mut here, mut found) = (ends.head, 0_usize);
        for place in ahead {
            *place = FlowId(here);
            found = found.wrapping_add(1);
            if here == ends.tail {
                break;
            }
            let Some(k) = flows.get(here as usize) else { break };
            here = k.next;
        }
        found
    }

    /// Accounts the packet that `flow`, the selected one, has sent (Fig. 4).
    #[inline(always)]
    fn serve(&mut self, flows: &mut [QfqFlow], flow: u32, len: u32, more: bool) {
        // Lines 2-8. In this form, checking for the selected flow and bounds is one comparison.
        let selected = if flow == self.next.flow { flow } else { NONE };
        let Some(k) = flows.get_mut(selected as usize) else { return };
        look();

        // Lines 10-16: the flow. S = F (eq. 2) holds for an idle flow too: it is its stored F then.
        let charged = len.min(k.max_len.into());
        k.start = k.start.plus(u64::from(charged) * u64::from(k.inverse));
        let after = match more {
            false => After::Idle,
            true if self.next.end.is_after(k.start) => After::Stays,
            true => After::MovesOn,
        };

        // Line 19, with the sum of the weights (§IV-B).
        let before = self.now;
        self.now = before.plus(u64::from(len) * u64::from(self.weights.per_byte));

        if after == After::Idle {
            return self.serve_last(flows, flow, before);
        }
        // If the flow stays, its group stays in ER: only line 19 applies.
        if after != After::Stays || self.is_awaited() {
            self.serve_changing(flows, flow, before, after);
        }
    }

    /// Continues [`Self::serve`] if more changes than `V` and the start of `flow`. Calls are in
    /// tail position, so that the usual case, a flow that moves on behind others, needs no stack.
    #[inline(never)] // so that a flow that stays pays nothing for it
    fn serve_changing(&mut self, flows: &mut [QfqFlow], flow: u32, before: Virtual, after: After) {
        if after == After::MovesOn && self.move_behind(flows, flow) {
            // Other flows are left in the front slot: the group stays in ER.
            if self.is_awaited() {
                self.enter_slots(flows, before);
            }
        } else {
            self.serve_slow(flows, flow, before, after);
        }
    }

    /// Continues [`Self::serve`] if `flow` is empty. As in [`Self::serve_changing`], calls are in
    /// tail position.
    #[inline(never)]
    fn serve_last(&mut self, flows: &mut [QfqFlow], flow: u32, before: Virtual) {
        if self.is_awaited() || !self.leave_front(flows, flow) {
            self.serve_slow(flows, flow, before, After::Idle);
        } else {
            // Other flows are left in the front slot: the group stays in ER.
            self.retire(flows, flow);
        }
    }

    /// Continues [`Self::serve_changing`] if the group may change as well.
    #[inline(never)]
    fn serve_slow(&mut self, flows: &mut [QfqFlow], flow: u32, before: Virtual, after: After) {
        if after != After::Stays {
            self.move_on(flows, flow, after == After::MovesOn);
        }
        // Lines 38-45.
        self.keep_eligible(flows, before);
        self.next = self.first();
        if after == After::Idle {
            self.retire(flows, flow);
        }
    }

    /// Moves `flow`, the selected one, from the front slot of its group to the next (Fig. 4, lines
    /// 12-15), unless it is the last flow there. Returns true if moved.
    fn move_behind(&mut self, flows: &mut [QfqFlow], flow: u32) -> bool {
        let Some(k) = flows.get(flow as usize) else { return false };
        let (next, start) = (k.next, k.start);
        let width = Width::of_group(k.group.into());
        let Some(group) = self.groups.get_mut(usize::from(k.group) % GROUPS) else { return false };
        let others = group.pop_first_of_many(width, next);
        if others {
            self.next.flow = next;
            group.append(width, flows, flow, start);
        }
        others
    }

    /// Removes `flow`, the selected one, from the front slot of its group, unless it is the last
    /// flow there. Returns true if removed.
    #[inline(always)]
    fn leave_front(&mut self, flows: &[QfqFlow], flow: u32) -> bool {
        let Some(&QfqFlow { next, group, .. }) = flows.get(flow as usize) else { return false };
        let Some(list) = self.groups.get_mut(usize::from(group) % GROUPS) else { return false };
        let others = list.pop_first_of_many(Width::of_group(group.into()), next);
        if others {
            self.next.flow = next;
        }
        others
    }

    /// Removes `flow`, the selected one, from the front slot of its group, and appends it to the
    /// next slot if it has `more` (Fig. 4, lines 12-15). If the front slot is then empty, the group
    /// moves on as well (lines 21-36).
    fn move_on(&mut self, flows: &mut [QfqFlow], flow: u32, more: bool) {
        let Some(&k) = flows.get(flow as usize) else { return };
        let i = u32::from(k.group);
        let width = Width::of_group(i);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        let front_is_empty = group.pop_first(width, k.next);
        if more {
            let next_slot = group.start.plus(width.span());
            debug_assert_eq!(k.start.floor(width), next_slot, "Theorem 3, group {i}");
            group.append(width, flows, flow, k.start);
        }
        if front_is_empty {
            self.regroup(i);
        }
    }

    /// Removes a backlogged flow without service; its start is kept as its stored finish.
    fn leave(&mut self, flows: &mut [QfqFlow], flow: u32) {
        if flows.get(flow as usize).is_some_and(|k| k.state == State::Backlogged) {
            self.take_out(flows, flow);
            self.retire(flows, flow);
        }
    }

    /// Removes `flow`, which is backlogged, from its slot. The caller sets its new state.
    fn take_out(&mut self, flows: &mut [QfqFlow], flow: u32) {
        let Some(&k) = flows.get(flow as usize) else { return };
        look();
        let i = u32::from(k.group);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        if group.unlink(Width::of_group(i), flows, flow, k) {
            self.regroup(i);
        }
        self.keep_eligible(flows, self.now);
        self.next = self.first();
    }
}

impl<N: Table<QfqFlow>> FlowScheduler for Qfq<N> {
    type Config = QfqConfig;

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// A backlogged flow that stays in its group keeps its start and its position. One that changes
    /// to another group enters it behind the others of its slot, with its current start, but not
    /// before `V`: it loses any credit. Packets already queued may be longer than a lowered
    /// `max_len`; each is charged as one of `max_len`.
    fn configure(
        &mut self,
        flow: FlowId,
        config: QfqConfig,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        let core = &mut self.core;
        let table = self.flows.as_mut();
        let Some(k) = table.get_mut(flow.index()) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        let QfqConfig { weight, max_len } = config;
        in_range("weight", weight, QfqConfig::MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, core.max_len)?;
        let new = inverse(NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN));
        let old = NonZeroU32::new(k.inverse);
        let sum = core.weights.added_with(old, Some(new));
        in_range("sum of the weights", sum, Self::MAX_WEIGHT_SUM)?;

        core.least_max_len = core.least_max_len.min(max_len);
        let group = group_of(core.effective_len(max_len), new.get());
        // Start and slot do not depend on the weight. Re-entering would cost the flow its credit: a
        // flow configured before every packet would never be served.
        let moves = k.state == State::Backlogged && k.group != group;
        if moves {
            core.take_out(table, flow.0);
        }
        core.reweigh(table, flow.0, new, group);
        if let Some(k) = table.get_mut(flow.index()) {
            k.max_len = u16::try_from(max_len).unwrap_or(u16::MAX);
        }
        if moves {
            let start = table.get(flow.index()).map(|k| k.start);
            core.sort_flow(table, flow.0, start);
            core.assert_order();
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        let table = self.flows.as_mut();
        self.core.leave(table, flow.0);
        self.core.forget(table, flow.0);
        self.core.assert_order();
    }

    fn config(&self, flow: FlowId) -> Option<QfqConfig> {
        let k = self.flows.as_ref().get(flow.index())?;
        let inverse = NonZeroU32::new(k.inverse)?;
        Some(QfqConfig { weight: weight_of(inverse), max_len: k.max_len.into() })
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        let k = self.flows.as_ref().get(flow.index())?;
        (k.inverse != 0).then_some(k.max_len.into())
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.core.least_max_len }
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.core.enter(self.flows.as_mut(), flow.0);
        self.core.assert_order();
    }

    /// Returns the flows of the slot being served; a group that becomes eligible meanwhile may come
    /// first.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.core.upcoming(self.flows.as_ref(), ahead)
    }

    /// Does nothing: only the head of a queue counts.
    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        // The number of an idle scheduler is out of range.
        let next = FlowId(self.core.next.flow);
        (next.index() < self.flows.as_ref().len()).then_some(next)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline(always)] // once, into the dequeue, which still has the group and slot from `select`
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.core.serve(self.flows.as_mut(), flow.0, len, next_head.is_some());
        self.core.assert_order();
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.core.leave(self.flows.as_mut(), flow.0);
            self.core.assert_order();
        }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let group = |_, k: &QfqFlow| group_of(self.core.effective_len(k.max_len.into()), k.inverse);
        self.core.recount(self.core.now, self.flows.as_ref(), flows, &group)
    }
}
