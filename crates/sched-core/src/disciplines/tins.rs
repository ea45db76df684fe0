//! Tins: classes of traffic with a share of the line each, priority within the share, and borrowing beyond it.
//!
//! Every flow belongs to a *tin*, and tins are numbered from 0 to at most 7. Inside a tin flows take turns as under
//! [`Drr`](crate::Drr). Which tin is served next says [`TinChoice`]: a tin that keeps within its share goes first, one that
//! exceeds it loses its priority and not its packets, and the line never idles while packets wait.
//!
//! **Promises, time.** Those of `tins/choice.rs`, where a flow is selected whenever its tin is. `docs/disciplines/tins.md` has the proofs.
//!
//! **Cost.** O(1): a multiplication and a few comparisons a packet; a loop over the tins where one comes within its share,
//! and where none is within it. With one tin, that of [`Drr`](crate::Drr). A flow with [siblings](TinDrr::join) costs a loop
//! over them, at most seven. Memory: 32 bytes a flow, and 768 for the tins.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, 2018, §III-D, and RFC 8290 §4 for the flows of
//! a tin. The bound on credit and the floor are ours: `docs/disciplines/tins.md`.

mod choice;
mod config;
mod flow;
mod siblings;
mod tin;

pub use choice::TinChoice;
pub(crate) use choice::mask;
pub use config::TinConfig;
pub use flow::TinFlow;

use super::drr::ring::{self, Ring, RingFlow};
use super::drr::{note, upcoming};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::hosts::token_bucket::{AsBooked, WireLength};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos};
use choice::TINS;

/// Tins, and deficit round robin over the flows of each, in the memory `N`, on a link where packets are as long as `L` says.
///
/// [`FlowScheduler::Config`] is the quantum of a flow in bytes, as for [`Drr`](crate::Drr). A flow is of tin 0 until it is
/// [assigned](TinDrr::assign) to another. Put under [`HostDrr`](crate::HostDrr), the flows here are hosts.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, Nanos, TinConfig, TinDrr, TinFlow};
///
/// let mut tins = TinDrr::new([TinFlow::EMPTY; 2], 1_500)?;
/// tins.add_all(1_500)?;
/// // On a line of 12 Mbit/s, which sends a packet a millisecond, tin 1 has priority up to a quarter.
/// let share = |bits| TinConfig::by_weight(1).with_rate(bits);
/// tins.set_tins(&[share(12_000_000), share(3_000_000)])?;
/// tins.assign(FlowId(1), 1)?;
///
/// let mut sent = [0; 2];
/// (0..2).for_each(|flow| tins.backlogged(FlowId(flow), 1_500));
/// for millis in 0..1_000 {
///     tins.advance(Nanos::from_millis(millis));
///     let flow = tins.select().expect("both are backlogged");
///     tins.served(flow, 1_500, Some(1_500));
///     sent[flow.index()] += 1;
/// }
/// assert_eq!(sent, [750, 250]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TinDrr<N, L = AsBooked> {
    nodes: N,
    /// The flows that are backlogged, by tin.
    rings: [Ring; TINS],
    choice: TinChoice<L>,
    /// The front of the ring of the tin served next.
    selected: u32,
    /// Where the next ticket of tin 0 is noted.
    note_at: u32,
    sparse_first: bool,
    /// Whether [`TinRings`](crate::TinRings) serve by the choice.
    is_lent: bool,
    /// Whether flows have had siblings: turns may have been charged before they began.
    has_siblings: bool,
    /// Whether there are several tins and no flow has had siblings: one question for most packets.
    is_plain: bool,
}

crate::debug::short_debug!(TinDrr < N, L > { sparse_first });

impl<N: Table<TinFlow>> TinDrr<N> {
    /// One tin with `nodes.len()` flows, none added, for packets of at most `max_len` bytes, which are as long on the wire
    /// as they are booked. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`](crate::Packet::MAX_LEN).
    pub fn new(nodes: N, max_len: u32) -> Result<Self, ConfigError> {
        Self::on_link(nodes, max_len, AsBooked)
    }
}

impl<N: Table<TinFlow>, L: WireLength> TinDrr<N, L> {
    /// The largest quantum, in bytes.
    pub const MAX_QUANTUM: u32 = RingFlow::MAX_QUANTUM;

    /// The floor unless another is [set](TinDrr::with_floor), in longest packets.
    pub const FLOOR: u32 = TinChoice::<L>::FLOOR;

    /// As [`TinDrr::new`], where packets are as long as `link` says. Rates count these lengths; weights and quanta count
    /// lengths as they are booked.
    ///
    /// # Errors
    /// As [`TinDrr::new`].
    pub fn on_link(mut nodes: N, max_len: u32, link: L) -> Result<Self, ConfigError> {
        let choice = TinChoice::new(max_len, link)?;
        nodes.as_mut().fill(TinFlow::EMPTY);
        let rings = [Ring::IDLE; TINS];
        let (selected, note_at, sparse_first) = (NONE, 0, false);
        let (is_lent, has_siblings, is_plain) = (false, false, false);
        Ok(Self {
            nodes,
            rings,
            choice,
            selected,
            note_at,
            sparse_first,
            is_lent,
            has_siblings,
            is_plain,
        })
    }

    /// With sparse flows first inside each tin, as [`Drr::sparse_first`](crate::Drr::sparse_first). They overtake flows of
    /// their own tin only.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// Another floor: a tin that is backlogged, and has been sent nothing while all together were sent `packets` of the longest
    /// packets, is served, at most once in as many bytes. 2 to 1,024 packets, any other number counts as the nearest of
    /// these; and at most 2^28 bytes, whatever the number.
    #[must_use]
    pub fn with_floor(mut self, packets: u32) -> Self {
        self.choice = self.choice.with_floor(packets);
        self
    }

    /// Adds every flow there is room for, or changes it, with the same quantum in bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// As [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        ring::add_all(self.nodes.as_mut(), quantum, self.choice.max_len())
    }

    /// Other tins, as many as `tins` is long, while flows are backlogged or not. What a tin owes or has to its credit it
    /// owes or has after the change, in bytes. With rates the tins share by them, without any by weight. Idle flows of
    /// tins that there are no longer are of tin 0, as if they had just been added. Cost: O(flows).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::OutOfRange`] unless the tins are in `1..=`[`TinConfig::MAX_TINS`], and for a rate or a weight outside
    ///   its range.
    /// - [`ConfigError::Backlogged`] if a flow is backlogged in a tin that would not be there.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), ConfigError> {
        let count = TinChoice::<L>::check(tins)?;
        for (at, node) in (0..).zip(self.nodes.as_ref()) {
            if node.tin() >= count && node.flow.is_listed() {
                return Err(ConfigError::Backlogged { flow: FlowId(at) });
            }
        }
        for node in self.nodes.as_mut() {
            if node.tin() >= count {
                node.renew(0);
            }
        }
        // A tin that is not there has drawn no ticket.
        self.rings.iter_mut().skip(tins.len()).for_each(|ring| *ring = Ring::IDLE);
        self.choice.set_tins(tins, self.backlogged_tins())?;
        self.note_selected();
        self.note_plainness();
        Ok(())
    }

    /// To be told when there are other tins, or siblings.
    const fn note_plainness(&mut self) {
        self.is_plain = !self.choice.is_one() && !self.has_siblings;
    }

    /// How many tins there are.
    #[must_use]
    pub const fn tins(&self) -> u32 {
        self.choice.tins()
    }

    /// What is set for `tin`; `None` if there is no such tin.
    #[must_use]
    pub fn tin(&self, tin: u32) -> Option<TinConfig> {
        self.choice.tin(tin)
    }

    /// What packets are on the wire, from the next on that leaves.
    pub fn set_link(&mut self, link: L) {
        self.choice.set_link(link, self.backlogged_tins());
        self.note_selected();
    }

    /// Makes `flow`, added or not, one of `tin`. A flow that changes its tin is as if it had just been added: debt is
    /// forgotten. The same tin again changes nothing; [`FlowScheduler::remove`] makes it one of tin 0.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] and [`ConfigError::OutOfRange`] if there is no such flow or tin,
    /// [`ConfigError::Backlogged`] if the flow holds packets; nothing has changed then.
    pub fn assign(&mut self, flow: FlowId, tin: u32) -> Result<(), ConfigError> {
        let (flows, last) = (self.flows(), self.tins().saturating_sub(1));
        let node = self.nodes.as_mut().get_mut(flow.index());
        let Some(node) = node.filter(|_| flow.0 < flows) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        ConfigError::check_range("tin", tin.into(), 0, last.into())?;
        if node.flow.is_listed() {
            return Err(ConfigError::Backlogged { flow });
        }
        if node.tin() != tin {
            node.renew(tin);
        }
        Ok(())
    }

    /// The tin of `flow`; `None` if there is no room for such a flow.
    #[must_use]
    pub fn tin_of(&self, flow: FlowId) -> Option<u32> {
        self.nodes.as_ref().get(flow.index()).map(TinFlow::tin)
    }

    /// Whether `tin` is backlogged, and within its share as far as that was last looked at.
    #[must_use]
    pub const fn is_within_share(&self, tin: u32) -> bool {
        self.choice.is_within_share(tin)
    }

    fn node(&self, flow: FlowId) -> Option<&TinFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.flow.is_added())
    }

    /// The ring of the tin served next.
    #[inline(always)]
    fn first(&self) -> &Ring {
        let [ring, ..] = &self.rings;
        self.rings.get(self.choice.front() as usize).unwrap_or(ring)
    }

    /// Lets others ([`TinRings`](crate::TinRings)) serve by the choice among these tins, or no longer, while no flow is backlogged
    /// here or there. No flow is to be backlogged here meanwhile.
    pub const fn lend(&mut self, is_lent: bool) {
        self.is_lent = is_lent;
    }

    /// The choice among tins.
    #[must_use]
    #[inline(always)]
    pub const fn choice(&self) -> &TinChoice<L> {
        &self.choice
    }

    /// The choice among tins, for those to whom it is [lent](TinDrr::lend). It is to stay one of as many tins.
    #[inline(always)]
    pub const fn choice_mut(&mut self) -> &mut TinChoice<L> {
        &mut self.choice
    }

    /// The tins that hold packets, a bit each: those whose rings are not empty, or of a choice that is lent those it knows.
    fn backlogged_tins(&self) -> u32 {
        if self.is_lent {
            return self.choice.kept();
        }
        mask(self.rings.iter().map(|ring| ring.front() != NONE))
    }

    /// [`FlowScheduler::backlogged`], with several tins.
    #[inline(never)]
    fn backlogged_in_tin(&mut self, flow: FlowId) {
        let Some(node) = self.nodes.as_ref().get(flow.index()) else { return };
        let at = node.tin();
        if !node.flow.is_added() || node.flow.is_listed() {
            return;
        }
        let Some(ring) = self.rings.get_mut(at as usize) else { return };
        let was_idle = ring.front() == NONE;
        ring.enter(self.nodes.as_mut(), flow.0, self.sparse_first, |_| ());
        if was_idle {
            self.choice.backlogged(at);
        }
        self.note_selected();
    }

    /// The flow served next, after any change of a ring or of the choice.
    #[inline(always)]
    fn note_selected(&mut self) {
        self.selected = self.first().front();
    }

    /// [`FlowScheduler::served`], with several tins, of a flow that holds more, where no flow has siblings.
    #[inline(never)]
    fn served_in_tin(&mut self, flow: FlowId, len: u32) {
        // Apart from what follows: on some links it takes a call, across which that would have to keep registers.
        let wire_len = self.choice.wire_len(len);
        self.charge_in_tin(flow, len, wire_len);
    }

    /// [`Self::served_in_tin`], where some flows have siblings.
    #[inline(never)]
    fn served_beside_siblings(&mut self, flow: FlowId, len: u32) {
        if flow.0 != self.selected {
            return;
        }
        self.charge_siblings(flow, len);
        if self.choice.serves_by_floor()
            && let Some(node) = self.nodes.as_mut().get_mut(flow.index())
        {
            // A turn of several packets of the floor would keep the other flows waiting for all of
            // them.
            node.flow.charge_elsewhere(u32::MAX);
        }
        let wire_len = self.choice.wire_len(len);
        self.charge_in_tin(flow, len, wire_len);
    }

    /// The rest of [`Self::served_in_tin`], where the packet took `wire_len` bytes on the wire. What is rare is in functions of its own,
    /// called last: few registers are kept.
    #[inline(never)]
    fn charge_in_tin(&mut self, flow: FlowId, len: u32, wire_len: u32) {
        if flow.0 != self.selected {
            return;
        }
        let (at, max_len) = (self.choice.front(), self.choice.max_len());
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else { return };
        let Some(ring) = self.rings.get_mut(at as usize) else { return };
        ring.charge_front(node, flow.0, len, max_len);
        if !self.choice.borrowed(at, len, wire_len) {
            return self.choose_anew(len, wire_len, false);
        }
        self.note_selected();
    }

    /// [`FlowScheduler::served`], with several tins, of a flow that holds nothing more.
    #[inline(never)]
    fn serve_last_in_tin(&mut self, flow: FlowId, len: u32) {
        let wire_len = self.choice.wire_len(len);
        let (at, max_len) = (self.choice.front(), self.choice.max_len());
        let Some(ring) = self.rings.get_mut(at as usize) else { return };
        if flow.0 != ring.front() || flow.index() >= self.nodes.as_ref().len() {
            return;
        }
        ring.leave_front(self.nodes.as_mut(), len, max_len);
        let is_idle = ring.front() == NONE;
        if self.has_siblings {
            self.charge_siblings(flow, len);
        }
        self.choose_anew(len, wire_len, is_idle);
    }

    /// The tin at the front has sent `len` bytes, and holds nothing more if it `is_idle`.
    #[inline(never)]
    fn choose_anew(&mut self, len: u32, wire_len: u32, is_idle: bool) {
        self.choice.served_in_full(len, wire_len, is_idle);
        self.note_selected();
    }

    /// `flow` of `tin` has left the ring without service.
    #[inline]
    fn settle(&mut self, tin: u32) {
        let is_idle = self.rings.get(tin as usize).is_some_and(|ring| ring.front() == NONE);
        if is_idle {
            self.choice.emptied(tin);
        }
        self.note_selected();
    }
}

impl<N: Table<TinFlow>, L: WireLength> FlowScheduler for TinDrr<N, L> {
    /// The quantum of a flow in bytes, from the longest packet to [`TinDrr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.choice.advance(now);
    }

    /// Of a backlogged flow the new quantum counts at once, for a turn under way as well.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        ring::configure(self.nodes.as_mut(), flow, quantum, self.choice.max_len())
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(&TinFlow { flow: on_ring, .. }) = self.node(flow) else {
            // What was not added may have a tin.
            if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
                node.renew(0);
            }
            return;
        };
        let tin = self.tin_of(flow).unwrap_or(0);
        if on_ring.is_listed()
            && let Some(ring) = self.rings.get_mut(tin as usize)
        {
            ring.unlist(self.nodes.as_mut(), flow.0);
            self.settle(tin);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            // The note in this row is of another flow. Siblings stay.
            node.flow = RingFlow::EMPTY;
            node.renew(0);
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.flow.quantum())
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|_| self.choice.max_len())
    }

    #[inline]
    fn needs(&self) -> Needs {
        let common_max_len = self.choice.max_len();
        Needs { looks_ahead: false, counts_bytes: false, common_max_len }
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        if !self.choice.is_one() {
            return self.backlogged_in_tin(flow);
        }
        let Self { nodes, rings: [ring, ..], selected, note_at, sparse_first, .. } = self;
        let nodes = nodes.as_mut();
        let is_idle = |node: &TinFlow| node.flow.is_added() && !node.flow.is_listed();
        if nodes.get(flow.index()).is_some_and(is_idle) {
            ring.enter(nodes, flow.0, *sparse_first, |nodes| note(nodes, note_at, flow.0));
            *selected = ring.front();
        }
    }

    /// The old list, where there is one tin: with several nothing is noted.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        if !self.choice.is_one() {
            return 0;
        }
        upcoming(self.first(), self.nodes.as_ref(), self.note_at, ahead)
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let front = FlowId(self.selected);
        (front.index() < self.nodes.as_ref().len()).then_some(front)
    }

    #[inline]
    fn selected(&self) -> FlowId {
        FlowId(self.selected)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.is_plain {
            return match next_head {
                Some(_) => self.served_in_tin(flow, len),
                None => self.serve_last_in_tin(flow, len),
            };
        }
        if !self.choice.is_one() {
            return match next_head {
                Some(_) => self.served_beside_siblings(flow, len),
                None => self.serve_last_in_tin(flow, len),
            };
        }
        let Self { nodes, rings: [ring, ..], choice, selected, note_at, .. } = self;
        let max_len = choice.max_len();
        let nodes = nodes.as_mut();
        if flow.0 != ring.front() || flow.index() >= nodes.len() {
            return;
        }
        if next_head.is_none() {
            ring.leave_front(nodes, len, max_len);
        } else {
            ring.charge(nodes, len, max_len, |nodes| note(nodes, note_at, flow.0));
        }
        *selected = ring.front();
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        let Some(node) = self.nodes.as_ref().get(flow.index()) else { return };
        let tin = node.tin();
        if head.is_some() || !node.flow.is_listed() {
            return;
        }
        if let Some(ring) = self.rings.get_mut(tin as usize) {
            ring.lose(self.nodes.as_mut(), flow.0, self.choice.max_len());
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            node.flow.forgive(self.choice.max_len());
        }
        self.settle(tin);
    }

    /// A backlogged flow is always selected: none waits.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// No flow waits.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// No flow waits.
    #[inline]
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// No flow waits.
    #[inline]
    fn open(&mut self) {}

    /// No flow has a ceiling.
    #[inline]
    fn pace(&self, _flow: FlowId) -> Nanos {
        Nanos::ZERO
    }

    /// The arrival gives way.
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        for (at, node) in (0..).zip(nodes) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            let max_len = self.choice.max_len();
            let most_early = if self.has_siblings { Self::MAX_QUANTUM } else { max_len };
            node.flow.recount_charged(at, is_backlogged, max_len, most_early)?;
            let has_tin = node.tin() < self.tins();
            Imbalance::check("a tin that there is", at, 1, has_tin.into())?;
        }
        for (at, ring) in (0..).zip(&self.rings) {
            let is_here = |node: &&TinFlow| node.flow.is_listed() && node.tin() == at;
            let listed = nodes.iter().filter(is_here).count();
            ring.recount(nodes, listed)?;
            if !self.sparse_first {
                Imbalance::check("no new list", at, 0, ring.has_new().into())?;
            }
            for (flow, node) in ring.walk(nodes, listed) {
                Imbalance::check("the tin of a flow", flow, node.tin().into(), at.into())?;
            }
        }
        if self.is_lent {
            let listed = nodes.iter().filter(|node| node.flow.is_listed()).count() as u64;
            return Imbalance::check("flows of tins that are lent", 0, listed, 0);
        }
        let front = self.first().front();
        Imbalance::check("the flow served next", 0, front.into(), self.selected.into())?;
        self.recount_siblings()?;
        let is_plain = !self.choice.is_one() && !self.has_siblings;
        Imbalance::check("tins without siblings", 0, is_plain.into(), self.is_plain.into())?;
        self.choice.recount(self.backlogged_tins())
    }
}

#[cfg(test)]
mod tests;
