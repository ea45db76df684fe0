//! Quick Fair Queueing: weighted fair queueing in constant time.
//!
//! Each backlogged flow gets at least its share `φ = weight / sum of weights` of what is sent, to
//! within a few of its own packets, whatever the other flows do and however many they are. These
//! are the bounds of WF²Q+ but for small factors, at a cost that does not grow with the number of
//! flows. Checconi, Rizzo and Valente, *QFQ: Efficient Packet Scheduling With Tight Guarantees*,
//! IEEE/ACM ToN 2013 (`QFQ` in `docs/disciplines/qfq.md`, where the departures from it are listed
//! with their reasons).
//!
//! Flows are sorted by virtual time, rounded: into 32 *groups* by the virtual length `L/φ` of their
//! longest packet, in a group into slots by their rounded start, and the groups into four sets of
//! one word each. The next flow is found, and flows and groups are moved, with operations on single
//! words.
//!
//! Cost per call: O(1), no loop over flows or groups, no division: at most 8 flows, slots and
//! groups are looked at for an enqueue and 20 for a dequeue. Configuring a flow divides. Memory: 32
//! bytes a flow and 9.2 KB. A caller that keeps the contract of [`FlowScheduler`]
//! keeps the invariants that [`FlowScheduler::recount`] checks; one that does not loses only the
//! guarantees.
//!
//! # Whose weights count
//! `V` runs at the rate of the link over the sum of the weights that *count* (QFQ §IV-B). A flow
//! counts from when it becomes backlogged. One that has become idle *lingers*: it counts until `V`
//! is a longest packet past its `F`, and a little longer, because only [`LET_GO`] of those that
//! linger are looked at in a call.
//!
//! - If its weight left sooner, `V` would outrun the other flows, and a flow that comes and goes
//!   would take more than its share from the flows that stay.
//! - If its weight never left, `V` would crawl behind a backlog of few flows among many, and flows
//!   that start late would be ahead of `V`.
//!
//! `V` never runs faster than if the heaviest flow of all were alone, to a power of two. So one
//! packet takes `V` no further from any flow than `L/φ` of this flow, and a flow that is shifted
//! back with `V` (eq. 17) can claim no more than `L/φ`.
//!
//! # The exact order
//! Virtual times are integers modulo 2^64, compared by signed difference. `L` is the scheduler's
//! longest packet.
//! * `inverse = ⌊2^30 / weight⌋` for a flow; `inverse_sum = ⌊2^60 / Σ⌈2^60 / inverse⌉⌋` over the
//!   flows that count, but at most `m`. `m` is the larger one of two: the same formula over all
//!   flows added, and the largest power of two that no `inverse` of a flow added is below. `P = V −
//!   L·m`.
//! * `σ_i = 2^(15+i)`; the group of a flow is the smallest `i` in `0..=31` with `max(max_len,
//!   ⌈L/28⌉) · inverse ≤ σ_i`. `⌊x⌋_i` is `x` rounded down to a multiple of `σ_i`.
//! * A flow becomes backlogged and counts: if it lingered, its stored `F` is *fresh* if `F > V` and
//!   `⌊F⌋_i ≤ ⌊V⌋_i + σ_i`, and then `S = F`; else `S = V`. If `b` is the lowest group above `i` in
//!   `ER` and `F_b < ⌊S⌋_i + 2σ_i`: a fresh `S` becomes `F_b` if `⌊S⌋_i > F_b` (which takes a
//!   re-configuration); an `S` that is not fresh becomes `min(S, F_b)`. If its group is backlogged
//!   and `⌊S⌋_i > S_i + 30σ_i`, which takes a re-configuration too, `S = S_i + 30σ_i`.
//! * A flow is served `len` bytes: `V += len · inverse_sum`; `F = S + min(len, max_len) · inverse`
//!   (`len` is longer only if `max_len` was lowered under queued packets); if it has more, `S = F`.
//!   It stays at the head of its slot if `⌊S⌋_i` is unchanged, else goes to the tail of its new
//!   one.
//! * A flow that loses its last packet without service stores its `S` as `F`; losing others changes
//!   nothing.
//! * After a service, and after a flow has left without one, in this order:
//!   1. If no backlogged group is eligible, `V = min S_i`; if no flow is backlogged any more, `V +=
//!      2^48`, past every stored `F`: nothing is owed from one busy period to the next.
//!   2. A group with lingering flows is *due* if in this call `V` has entered a slot of its width,
//!      or if it was due before.
//!   3. Up to [`LET_GO`] times: in the highest due group, if `F ≤ P` for the flow at the head of
//!      its list of lingering flows, that flow stops counting and leaves the list; else the group
//!      is due no more. A group whose list is empty is not due either, whatever took the last flow
//!      out of the list.
//!   4. The flow that was served or has left, if it is idle now, goes to the tail of the list of
//!      its group if `F > P`; else it stops counting.
//! * A flow that is re-configured keeps `S` or `F`. A lingering flow whose group changes goes to
//!   the tail of the list of its new group. A backlogged flow keeps its place if its group stays
//!   the same; else it leaves without service, as above, and becomes backlogged in its new group. A
//!   flow that is added has nothing stored. A flow that is removed leaves without service if it is
//!   backlogged; then it counts no more.
//! * Next is the first flow of the front slot of the lowest group of `ER`: of the groups with `S_i
//!   ≤ V` one with the smallest `F_i`, the lowest of them.

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

/// What can be set for a flow of [`Qfq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QfqConfig {
    /// Its share of the link is `weight` over the sum of the weights of the flows that are
    /// backlogged or were a moment ago; `1..=`[`QfqConfig::MAX_WEIGHT`]. Up to 2^15 it is exact;
    /// above it is rounded up to `⌊2^30 / ⌊2^30 / weight⌋⌋`, at most 2^-14 more, which is what is
    /// read back.
    pub weight: u32,
    /// The longest packet it accepts, in bytes, `1..=` the scheduler's. Delay and burstiness of
    /// the flow grow with `max_len / weight`, rounded up to a power of two.
    pub max_len: u32,
}

impl QfqConfig {
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 1 << 16;
}

/// The flow scheduler of Quick Fair Queueing, over flows in the memory `N`.
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

/// How many lingering flows one service or departure looks at, at most. A service makes one flow
/// linger at most. As many groups as `V` enters slots of are looked at in vain until `V` is `L·m`
/// past the `F` of their first; with more than this at once the lower ones wait. A flow that waits
/// counts longer, which is safe.
pub(crate) const LET_GO: u32 = 4;

/// What becomes of a flow that was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The flow's next start is in the slot that it is in.
    Stays,
    /// The flow's next start is in the next slot.
    MovesOn,
    /// The flow holds nothing any more.
    Idle,
}

/// The flow to serve next: kept, as most packets change nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    /// The first flow of the front slot of the lowest group of `ER`; [`NONE`] while `ER` is empty.
    flow: u32,
    /// Where that slot ends, `S_i + σ_i`; stale while `ER` is empty.
    end: Virtual,
}

/// Everything but the table of flows, so that it is compiled once for all kinds of tables.
#[derive(Clone, Debug)]
struct Core {
    /// `V`.
    now: Virtual,
    next: Next,
    /// Until `V` has come here it enters no slot that a group waits for; at most 2^62 ahead of
    /// `V`.
    alarm: Virtual,
    sets: Sets,
    weights: Weights,
    /// The groups in which idle flows linger.
    lingering: u32,
    /// Of these groups, those in which `V` has entered a slot since the group was looked at.
    due: u32,
    /// `L`: the most that is sent between two selections.
    max_len: u32,
    /// `⌈L/28⌉`: a flow whose longest packet is shorter is sorted as if it were this long. With
    /// slots no narrower than for this length, 32 slots suffice (`group.rs`).
    shortest: u32,
    /// No flow was ever configured with a smaller `max_len`.
    least_max_len: u32,
    groups: [Group; GROUPS],
}

impl<N: Table<QfqFlow>> Qfq<N> {
    /// The longest packet that a QFQ can be made for, in bytes: any IP packet but an IPv6
    /// jumbogram.
    pub const MAX_LEN: u32 = 65_535;
    /// The largest sum of the weights of all flows.
    pub const MAX_WEIGHT_SUM: u32 = 1 << 24;

    /// A QFQ without flows, with room for `flows.len()`, for packets of at most `max_len` bytes.
    ///
    /// Flows whose own longest packet is below `max_len / 28` are sorted as if it were that.
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

    /// The length by which a flow is sorted.
    fn effective_len(&self, max_len: u32) -> u32 {
        max_len.max(self.shortest)
    }

    /// Enqueue to an idle flow (Fig. 3).
    #[inline]
    fn enter(&mut self, flows: &mut [QfqFlow], flow: u32) {
        if !self.enter_front(flows, flow) {
            self.enter_slow(flows, flow);
        }
    }

    /// [`Self::enter`] for a flow that comes and goes: it lingers, its start lies in the front slot
    /// of its group, and no group shifts it back. Returns whether; nothing has changed if not.
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

    /// `F_b`, of the group that may shift the start of a flow of group `i` back (eq. 17).
    #[inline]
    fn latest_start(&self, i: u32) -> Option<Virtual> {
        let b = self.sets.first_ready_above(i)?;
        self.groups.get(b as usize % GROUPS).map(|blocker| blocker.finish(Width::of_group(b)))
    }

    /// [`Self::enter`], wherever the flow is and belongs.
    #[inline(never)]
    fn enter_slow(&mut self, flows: &mut [QfqFlow], flow: u32) {
        let Some(&k) = flows.get(flow as usize) else { return };
        // The weight of a new flow counts at once (§IV-B); the weight of a lingering flow still
        // counts.
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
    #[inline(always)] // into `enter`; besides, only a re-configuration calls it
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
            // Lines 13-17. Earlier than all: the group is ineligible, its start is ⌊V⌋ + σ, and all
            // its flows have that start (Theorem 1), while this one's is ⌊V⌋: one slot back.
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

    /// Puts group `i`, in no set, where it belongs.
    #[inline(never)] // once for many flows: it would cost the others registers
    fn settle(&mut self, i: u32) {
        self.sort_in(i);
        self.next = self.first();
    }

    /// `S` of a flow of group `i` that becomes backlogged, with its stored finish if it lingered.
    fn start_of(&self, i: u32, finish: Option<Virtual>) -> Virtual {
        let width = Width::of_group(i);
        // Eq. 2, S = max(V, F). By Theorem 1 no F is beyond the slot behind V's, unless the flow
        // was re-configured since or virtual time has wrapped around.
        let next_slot = self.now.floor(width).plus(width.span());
        let fresh = finish
            .filter(|finish| finish.is_after(self.now) && !finish.floor(width).is_after(next_slot));
        let start = fresh.unwrap_or(self.now);
        // Eq. 17, for every flow that becomes backlogged: as if it had come when V was F_b.
        let Some(b) = self.sets.first_ready_above(i) else { return start };
        let Some(blocker) = self.groups.get(b as usize % GROUPS) else { return start };
        look();
        let latest = blocker.finish(Width::of_group(b));
        // F_b < F' = ⌊S⌋ + 2σ need not be asked for: it follows from what is asked.
        let too_late = fresh.map_or(start, |start| start.floor(width)).is_after(latest);
        if too_late { latest } else { start }
    }

    /// The flow to serve next, by the sets.
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

    /// The flows of the slot that is served, first to last, as many as there is room for.
    #[inline(never)] // once a burst
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

    /// The packet that `flow`, the one selected, has sent (Fig. 4).
    #[inline(always)]
    fn serve(&mut self, flows: &mut [QfqFlow], flow: u32, len: u32, more: bool) {
        // Lines 2-8.
        // Asked in this way, both questions are one comparison.
        let selected = if flow == self.next.flow { flow } else { NONE };
        let Some(k) = flows.get_mut(selected as usize) else { return };
        look();

        // Lines 10-16: the flow. S = F (eq. 2) goes for an idle flow too: it is its stored F then.
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
        // A flow that stays leaves its group in ER: but for line 19, nothing is left to do for it.
        if after != After::Stays || self.is_awaited() {
            self.serve_changing(flows, flow, before, after);
        }
    }

    /// The rest of [`Self::serve`], where more changes than `V` and the start of `flow`. What it
    /// calls is called last, so that a flow that moves on behind others, as most do, needs no
    /// stack.
    #[inline(never)] // so that a flow that stays pays nothing for it
    fn serve_changing(&mut self, flows: &mut [QfqFlow], flow: u32, before: Virtual, after: After) {
        if after == After::MovesOn && self.move_behind(flows, flow) {
            // Others are left in the front slot: the group is in ER as before.
            if self.is_awaited() {
                self.enter_slots(flows, before);
            }
        } else {
            self.serve_slow(flows, flow, before, after);
        }
    }

    /// The rest of [`Self::serve`], where nothing of `flow` is left. As in
    /// [`Self::serve_changing`], what it calls is called last.
    #[inline(never)]
    fn serve_last(&mut self, flows: &mut [QfqFlow], flow: u32, before: Virtual) {
        if self.is_awaited() || !self.leave_front(flows, flow) {
            self.serve_slow(flows, flow, before, After::Idle);
        } else {
            // Others are left in the front slot: the group is in ER as before.
            self.retire(flows, flow);
        }
    }

    /// The rest of [`Self::serve_changing`], where the group may change as well.
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

    /// `flow`, the one selected, leaves the front slot of its group for the next one (Fig. 4, lines
    /// 12-15), if it is not the last one there; returns whether.
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

    /// `flow`, the one selected, leaves the front slot of its group, if it is not the last one
    /// there; returns whether.
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

    /// `flow`, the one selected, leaves the front slot of its group, for its next one if it has
    /// `more` (Fig. 4, lines 12-15); if it was the last one there, the group moves on as well
    /// (lines 21-36).
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

    /// Takes a backlogged flow out without service; its start is kept as its stored finish.
    fn leave(&mut self, flows: &mut [QfqFlow], flow: u32) {
        if flows.get(flow as usize).is_some_and(|k| k.state == State::Backlogged) {
            self.take_out(flows, flow);
            self.retire(flows, flow);
        }
    }

    /// Takes `flow`, which is backlogged, out of its slot. What becomes of it is up to the caller.
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

    /// A backlogged flow that stays in its group keeps its start and its place. One that changes to
    /// another group enters there anew, behind the others of its slot, with the start it has, but
    /// not before `V`: what it was owed is forgotten. Packets that are queued already may be longer
    /// than a lowered `max_len`; each is charged as one of `max_len`.
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
        // Start and slot do not depend on the weight. Entering anew would cost the flow what it is
        // owed: one that is configured before every packet would never be served.
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

    /// The flows of the slot that is served; a group that becomes eligible meanwhile may come
    /// first.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.core.upcoming(self.flows.as_ref(), ahead)
    }

    /// Does nothing: only the head of a queue counts.
    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        // No flow has the number of an idle scheduler.
        let next = FlowId(self.core.next.flow);
        (next.index() < self.flows.as_ref().len()).then_some(next)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline(always)] // once, into the dequeue: the group and slot that `select` found are at hand
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
