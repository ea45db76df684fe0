//! QFQ+: QFQ over aggregates of equal flows, with deficit round robin within each aggregate.
//!
//! Flows of one *class*, with equal weight and equal longest packet, share *aggregates* of at most
//! `M` members. QFQ orders the aggregates, not the flows. The aggregate that QFQ selects is *in
//! service* until it has sent its *budget*, the sum of its members' longest packets, or is empty.
//! Only then is it charged and re-sorted. Within an aggregate the backlogged members take turns. So
//! groups, slots and sets are touched once in about `2M` packets of mean length, and a flow that
//! comes or goes does not touch them as long as its aggregate stays backlogged. Source: QFQ+ of
//! Valente, *Providing near-optimal fair-queueing guarantees at round-robin amortized cost* (`QFQ+`
//! in `docs/disciplines/qfq_plus.md`).
//!
//! QFQ+ pays off if many flows are alike. A flow that is the only one of its class is an aggregate
//! of its own, and is then served as by QFQ, but at a higher cost.
//!
//! Cost per call: O(1), without division; the only loop, over the at most eight members of an
//! aggregate, is for a flow that leaves without service. Configuring a flow divides. Memory: 16
//! bytes per flow, 48 per aggregate, and 9.6 KB. A caller that follows the contract of
//! [`FlowScheduler`] preserves the invariants that [`FlowScheduler::recount`] checks; one that does
//! not loses only the guarantees.
//!
//! # The aggregate in service
//! The aggregate in service stays first in the front slot of its group, with the start it had when
//! it was selected. So to all arrivals its service is one packet in transmission, of at most the
//! longest budget. What holds for flows of QFQ holds for aggregates, with the longest budget in
//! place of the longest packet. `V` advances with every packet. The sets of groups are updated to
//! `V` when an aggregate becomes backlogged or leaves, and when the service ends.
//!
//! # The exact order
//! The order is that of QFQ (`qfq.rs`), with aggregates in place of flows, except:
//! * A configured flow joins the *open* aggregate of its class if that has a free member slot, else
//!   a new aggregate, which is then open. There are 64 entries for open aggregates; the entry of a
//!   class is the top six bits of `(inverse XOR (max_len rotated left by 16)) · 0x9E3779B9 mod
//!   2^32`. An aggregate that a member leaves also becomes open, unless it was the last member. A
//!   flow whose configuration does not change stays.
//! * `inverse = ⌊⌊2^30 / weight⌋ / n⌋` for an aggregate with `n` members; its group is the one a
//!   member alone would have. `L` is `M` times the longest packet of the scheduler, also in
//!   `⌈L/28⌉`.
//! * An aggregate is backlogged if a member is. Its backlogged members are on a ring; the first is
//!   served. A member that becomes backlogged goes to the tail of the ring.
//! * A flow may send `max_len` bytes per turn. After a packet that uses them up the flow gets
//!   `max_len` more, and goes to the tail if it is still backlogged. So a turn is overdrawn by less
//!   than a packet. The next turn of the flow is shorter by as much, even if the flow was idle
//!   meanwhile. A flow that empties loses the rest of its turn. If it lost its last packet while
//!   first on its ring, it has given up its turn and has no debt; elsewhere on the ring it keeps
//!   its debt.
//! * With no aggregate in service, the next flow is the first of the aggregate that QFQ selects.
//!   The service of this aggregate begins when the packet of this flow is sent. In a service the
//!   aggregate may send `n · max_len` bytes. The service ends after a packet that leaves less than
//!   `max_len` of these bytes, or leaves no member backlogged, or when the last backlogged member
//!   leaves. Then the aggregate is charged what it has sent, at most `n · max_len` for its members
//!   at that time. A packet is charged at most as `max_len` bytes to its flow and to its aggregate.

mod guarantee;
mod members;
mod recount;
#[cfg(test)]
mod tests;

use core::hint::select_unpredictable;

use super::{Core, GROUPS, Qfq, QfqConfig, QfqFlow, Virtual, Width, in_range};
use crate::flow_scheduler::{ConfigError, FlowScheduler, FlowState, Needs, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// State of one flow of QFQ+: 16 bytes. Opaque; fill tables with [`PlusFlow::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct PlusFlow {
    /// The next member on the ring of its aggregate; stale unless backlogged.
    next: u32,
    /// [`NONE`] if and only if the flow was not added.
    aggregate: u32,
    /// Bytes left in its current or next turn: `1..=max_len`.
    deficit: u32,
    /// Zero if and only if the flow was not added.
    max_len: u16,
    /// True if the flow is on the ring.
    backlogged: bool,
}

impl PlusFlow {
    /// Memory for a flow: all zero.
    pub const EMPTY: Self =
        Self { next: 0, aggregate: 0, deficit: 0, max_len: 0, backlogged: false };

    /// A flow that has not been added.
    const ABSENT: Self = Self { aggregate: NONE, ..Self::EMPTY };
}

/// The backlogged members of an aggregate: each links to the next, the last to the first.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// The member whose turn it is; [`NONE`] if none is backlogged.
    first: u32,
    /// The last member; [`NONE`] like `first`.
    last: u32,
}

impl Ring {
    const IDLE: Self = Self { first: NONE, last: NONE };
}

/// State of an aggregate beyond its [`QfqFlow`]: 16 bytes. Opaque; fill tables with
/// [`Aggregate::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    /// Stale while the aggregate is in service. In an aggregate without members, `first` is the
    /// next free aggregate.
    ring: Ring,
    /// `⌊2^30 / weight⌋` of a member.
    inverse: u32,
    /// Number of flows, including idle ones.
    members: u8,
}

impl Aggregate {
    /// Memory for an aggregate: all zero.
    pub const EMPTY: Self = Self { ring: Ring { first: 0, last: 0 }, inverse: 0, members: 0 };

    /// An aggregate without members.
    const FREE: Self = Self { ring: Ring::IDLE, ..Self::EMPTY };
}

/// The aggregate in service. Before its first packet is sent, `left` equals `budget`, and the
/// aggregate is only selected by QFQ.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// [`NONE`] if and only if nothing is backlogged.
    aggregate: u32,
    ring: Ring,
    /// The longest packet of its members.
    max_len: u32,
    /// Bytes the aggregate may send in this service. `left` is the rest: at least `max_len` during
    /// the service.
    budget: u32,
    left: u32,
    /// `V` at the last update of the sets.
    told: Virtual,
}

impl Service {
    const NONE: Self = Self {
        aggregate: NONE,
        ring: Ring::IDLE,
        max_len: 0,
        budget: 0,
        left: 0,
        told: Virtual(0),
    };
}

/// Number of entries for open aggregates. A class whose entry another class overwrites only makes
/// more aggregates than it needs.
const OPEN: usize = 64;

/// A QFQ+ scheduler over flows in the memory `N` and aggregates in the memories `A` and `Q`.
///
/// ```
/// use sched_core::{Aggregate, FlowId, FlowScheduler, PlusFlow, QfqConfig, QfqFlow, QfqPlus};
/// // As many aggregates as flows: enough even if no two are alike.
/// let (flows, aggregates) = ([PlusFlow::EMPTY; 16], [Aggregate::EMPTY; 16]);
/// let mut plus = QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; 16], 1_500, 8)?;
/// for flow in (0..16).map(FlowId) {
///     let weight = if flow.0 < 8 { 1 } else { 3 };
///     plus.configure(flow, QfqConfig { weight, max_len: 1_500 }, None)?;
///     plus.backlogged(flow, 1_500);
/// }
/// let mut packets = [0; 16];
/// for _ in 0..3_200 {
///     let flow = plus.select().expect("all stay backlogged");
///     packets[flow.index()] += 1;
///     plus.served(flow, 1_500, Some(1_500));
/// }
/// assert_eq!((packets[0], packets[15]), (100, 300));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct QfqPlus<N, A, Q> {
    flows: N,
    aggregates: A,
    /// The aggregates as QFQ sees them; `max_len` is that of one member.
    nodes: Q,
    core: Core,
    service: Service,
    /// The aggregates that joining flows try first.
    open: [u32; OPEN],
    /// The first aggregate without members.
    free: u32,
    /// `M`, the most members of an aggregate.
    most_members: u8,
    max_len: u32,
    /// Sum of the weights of all flows added.
    weight_sum: u32,
}

crate::debug::short_debug!(QfqPlus<N, A, Q> { max_len, weight_sum });

impl Core {
    /// Charges the aggregate `at`, first of its group, the bytes sent since `V` was `before`;
    /// `more` means that members of it are backlogged.
    fn charge(&mut self, nodes: &mut [QfqFlow], at: u32, sent: u32, more: bool, before: Virtual) {
        let Some(k) = nodes.get_mut(at as usize) else { return };
        let width = Width::of_group(k.group.into());
        let Some(group) = self.groups.get(usize::from(k.group) % GROUPS) else { return };
        k.start = k.start.plus(u64::from(sent) * u64::from(k.inverse));
        if !more || k.start.since(group.start) >= width.span() {
            self.move_on(nodes, at, more);
        }
        self.keep_eligible(nodes, before);
        self.next = self.first();
        if !more {
            self.retire(nodes, at);
        }
        self.assert_order();
    }
}

impl<N: Table<PlusFlow>, A: Table<Aggregate>, Q: Table<QfqFlow>> QfqPlus<N, A, Q> {
    /// The most members an aggregate can have.
    pub const MAX_MEMBERS: u32 = 8;
    /// The largest accepted `max_len` of a scheduler, in bytes.
    pub const MAX_LEN: u32 = Qfq::<[QfqFlow; 0]>::MAX_LEN;
    /// The largest sum of the weights of all flows.
    pub const MAX_WEIGHT_SUM: u32 = Qfq::<[QfqFlow; 0]>::MAX_WEIGHT_SUM;

    /// Creates a scheduler without flows, for packets of at most `max_len` bytes and at most
    /// `most_members` flows per aggregate.
    ///
    /// It holds `flows.len()` flows in as many aggregates as `aggregates` and `nodes` both have
    /// entries; as many as flows always suffice. Flows whose own longest packet is below
    /// `most_members · max_len / 28` are sorted as if it had that length. Cost: O(flows +
    /// aggregates).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `max_len` is outside `1..=`[`QfqPlus::MAX_LEN`] or
    /// `most_members` outside `1..=`[`QfqPlus::MAX_MEMBERS`].
    pub fn new(
        mut flows: N,
        mut aggregates: A,
        mut nodes: Q,
        max_len: u32,
        most_members: u32,
    ) -> Result<Self, ConfigError> {
        in_range("longest packet in bytes", max_len, Self::MAX_LEN)?;
        in_range("members of an aggregate", most_members, Self::MAX_MEMBERS)?;
        flows.as_mut().fill(PlusFlow::ABSENT);
        nodes.as_mut().fill(QfqFlow::EMPTY);
        aggregates.as_mut().fill(Aggregate::FREE);
        let mut free = NONE;
        for ((at, aggregate), _) in (0..).zip(aggregates.as_mut()).zip(nodes.as_ref()) {
            aggregate.ring.first = free;
            free = at;
        }
        let most = u8::try_from(most_members).unwrap_or(1);
        Ok(Self {
            flows,
            aggregates,
            nodes,
            core: Core::new(max_len.wrapping_mul(most_members)),
            service: Service::NONE,
            open: [NONE; OPEN],
            free,
            most_members: most,
            max_len,
            weight_sum: 0,
        })
    }

    /// Updates the sets to `V`. If `V` has moved since the last update, an aggregate is in service;
    /// it is eligible, so `V` does not jump.
    fn tell(&mut self) {
        let now = self.core.now;
        if now != self.service.told {
            self.core.keep_eligible(self.nodes.as_mut(), self.service.told);
            self.service.told = now;
        }
    }

    /// Ends the service: charges the aggregate, re-sorts it if members are backlogged, and selects.
    #[inline(never)]
    fn end(&mut self) {
        let Service { aggregate: at, ring, budget, left, told, .. } = self.service;
        let nodes = self.nodes.as_mut();
        if let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize)
            && let Some(node) = nodes.get(at as usize)
        {
            aggregate.ring = ring;
            let most = u32::from(aggregate.members).wrapping_mul(node.max_len.into());
            let sent = budget.wrapping_sub(left).min(most);
            self.core.charge(nodes, at, sent, ring.first != NONE, told);
        }
        self.select_next();
    }

    /// Puts the aggregate that QFQ selects in service.
    #[inline(always)]
    fn select_next(&mut self) {
        let told = self.core.now;
        self.service = Service { told, ..Service::NONE };
        let Some(at) = self.core.select() else { return };
        let Some(aggregate) = self.aggregates.as_ref().get(at as usize) else { return };
        let max_len = self.nodes.as_ref().get(at as usize).map_or(0, |node| node.max_len.into());
        let budget = u32::from(aggregate.members).wrapping_mul(max_len);
        let ring = aggregate.ring;
        self.service = Service { aggregate: at, ring, max_len, budget, left: budget, told };
    }

    /// Selects again after a change, unless the service has begun.
    fn reselect(&mut self) {
        let Service { aggregate: at, ring, budget, left, .. } = self.service;
        if left != budget {
            return;
        }
        if let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) {
            aggregate.ring = ring;
        }
        self.select_next();
    }

    /// Handles `flow`, in service, which is empty after a packet charged as `charged` bytes.
    #[inline(never)]
    fn emptied(&mut self, flow: u32, charged: u32) {
        let flows = self.flows.as_mut();
        let Some(k) = flows.get_mut(flow as usize) else { return };
        let service = &mut self.service;
        k.deficit = service.max_len.wrapping_sub(charged.saturating_sub(k.deficit));
        k.backlogged = false;
        let next = k.next;
        if service.ring.last == flow {
            service.ring = Ring::IDLE;
            return self.end();
        }
        service.ring.first = next;
        if let Some(last) = flows.get_mut(service.ring.last as usize) {
            last.next = next;
        }
        if service.left < service.max_len {
            self.end();
        }
    }

    /// Puts the idle `flow` on the ring of its aggregate.
    #[inline(never)] // seldom called; inlined it would cost every enqueue registers
    fn list(&mut self, flow: u32) {
        let flows = self.flows.as_mut();
        let Some(k) = flows.get_mut(flow as usize) else { return };
        if k.backlogged {
            return;
        }
        let at = k.aggregate;
        let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) else { return };
        let in_service = at == self.service.aggregate;
        let ring = if in_service { &mut self.service.ring } else { &mut aggregate.ring };
        k.backlogged = true;
        if ring.first == NONE {
            *ring = Ring { first: flow, last: flow };
            k.next = flow;
            return self.activate(at);
        }
        k.next = ring.first;
        if let Some(last) = flows.get_mut(ring.last as usize) {
            last.next = flow;
        }
        ring.last = flow;
    }

    /// Enters the aggregate `at`, not in service, which has become backlogged.
    #[inline(never)]
    fn activate(&mut self, at: u32) {
        self.tell();
        self.core.enter(self.nodes.as_mut(), at);
        self.core.assert_order();
        self.reselect();
    }

    /// Removes `flow` from the ring of its aggregate, without service, if it is listed.
    fn unlist(&mut self, flow: u32) {
        let flows = self.flows.as_mut();
        let Some(k) = flows.get_mut(flow as usize) else { return };
        if !k.backlogged {
            return;
        }
        k.backlogged = false;
        let (at, next) = (k.aggregate, k.next);
        let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) else { return };
        let in_service = at == self.service.aggregate;
        let ring = if in_service { &mut self.service.ring } else { &mut aggregate.ring };
        if ring.first == flow {
            // The flow may be in the middle of its turn, which ends here: if it returns, it is
            // behind the others.
            k.deficit = k.max_len.into();
        }
        if next == flow {
            *ring = Ring::IDLE;
            if in_service {
                return self.end();
            }
            self.tell();
            self.core.leave(self.nodes.as_mut(), at);
            self.core.assert_order();
            return self.reselect();
        }
        let mut before = ring.last;
        for _ in 0..Self::MAX_MEMBERS {
            let Some(k) = flows.get_mut(before as usize) else { return };
            if k.next == flow {
                k.next = next;
                break;
            }
            before = k.next;
        }
        if ring.first == flow {
            ring.first = next;
        }
        if ring.last == flow {
            ring.last = before;
        }
    }
}

impl<N: Table<PlusFlow>, A: Table<Aggregate>, Q: Table<QfqFlow>> FlowScheduler
    for QfqPlus<N, A, Q>
{
    type Config = QfqConfig;

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// A flow whose configuration does not change keeps its position. One that changes its class
    /// leaves its aggregate as if removed, and, if backlogged, joins the other at the tail and
    /// loses any credit. Packets already queued may be longer than a lowered `max_len`; each is
    /// charged as one of `max_len`.
    fn configure(
        &mut self,
        flow: FlowId,
        config: QfqConfig,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        let Some(&k) = self.flows.as_ref().get(flow.index()) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        let class = self.check(flow, config)?;
        if self.class_of(flow) == Some(class) {
            return Ok(());
        }
        self.unlist(flow.0);
        self.quit(flow.0);
        self.join(flow.0, class);
        if k.backlogged {
            self.list(flow.0);
        }
        self.reselect();
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.unlist(flow.0);
        self.quit(flow.0);
        self.reselect();
    }

    fn config(&self, flow: FlowId) -> Option<QfqConfig> {
        self.class_of(flow).map(members::Class::config)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        let k = self.flows.as_ref().get(flow.index())?;
        (k.max_len != 0).then_some(k.max_len.into())
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.list(flow.0);
    }

    /// Does nothing: the selection does not depend on the lengths of queued packets.
    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let first = self.service.ring.first;
        (first != NONE).then_some(FlowId(first))
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let service = &mut self.service;
        if service.ring.first != flow.0 {
            return;
        }
        let Some(k) = self.flows.as_mut().get_mut(flow.index()) else { return };
        let core = &mut self.core;
        core.now = core.now.plus(u64::from(len) * u64::from(core.weights.per_byte));
        let max_len = service.max_len;
        let charged = len.min(max_len);
        service.left = service.left.wrapping_sub(charged);
        if next_head.is_none() {
            return self.emptied(flow.0, charged);
        }
        // A branch would be mispredicted: whether a packet ends a turn is practically random.
        let ends = charged >= k.deficit;
        let turn = select_unpredictable(ends, max_len, 0);
        k.deficit = k.deficit.wrapping_sub(charged).wrapping_add(turn);
        service.ring.first = select_unpredictable(ends, k.next, flow.0);
        service.ring.last = select_unpredictable(ends, flow.0, service.ring.last);
        if service.left < max_len {
            self.end();
        }
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_none() {
            self.unlist(flow.0);
        }
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: 0 }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        self.recount_all(flows)
    }
}
