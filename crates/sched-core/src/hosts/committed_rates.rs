//! Committed rates: what flows have of the link without borrowing. Any flow scheduler, twice.
//!
//! [`CommittedRates`] keeps two flow schedulers of the same flows. A flow is *conforming* while its [`CommittedRate`]
//! covers what it sends, and is served by the first flow scheduler. Above its rate it is in *excess*, and is served in
//! the second flow scheduler, while no conforming flow is backlogged: it borrows what is left. So the link never
//! idles while packets wait. In both flow schedulers flows share by weight, as they are configured. Put under
//! [`HostDrr`](crate::HostDrr), the flows here are hosts.
//!
//! A committed rate is no ceiling: alone on the link a flow has all of it.
//!
//! A rate has a bucket of at most `burst` bytes on the wire. Time fills it, and it is full when the rate is
//! first set. What a flow sends while it conforms is taken out of the bucket. A flow conforms while its
//! bucket is not overdrawn, whatever the length of its next packet, which may overdraw it. A flow without a
//! rate always conforms.
//!
//! **Borrowing is charged**: what a flow sends in excess is taken out of the bucket too, until it is
//! overdrawn by a burst. So beside busy rivals a flow gets its rate and not what it borrows in their
//! pauses on top; and when the rivals come back, a flow that borrowed conforms again after at most `b/r`. A rate may be set with [free
//! borrowing](CommittedRate::with_free_borrowing): nothing is taken out in excess, so that a flow has its
//! rate whatever it borrowed. Charged is the default because a rate then means what an operator reads: a TCP
//! beside flows under an AQM got 1.14 times its rate with free borrowing.
//!
//! **Promises.** A backlogged flow is in exactly one of the two flow schedulers. `r` is the rate of a flow, `b` its
//! burst, `L` the longest packet.
//!
//! - *Rate.* In any interval of length `t` a flow is sent at most `r·t + b + L` while it conforms. That is all
//!   that it is sent while another flow conforms: before a conforming service the bucket holds at most `b`,
//!   and after it the bucket is overdrawn by at most `L`.
//! - *No waste.* If a flow is backlogged, [`select`](FlowScheduler::select) names one.
//! - *Return.* A flow in excess that is due to conform again is moved back by the calls that follow,
//!   [`RETURNS_A_CALL`] of them a call, the one that is due longest first. A call is a departure, or an
//!   arrival to an idle flow. A call puts at most one flow into excess, and its siblings, so flows that are due do
//!   not pile up.
//! - *Others.* To the conforming flows, a flow that is moved is one that empties and comes back: it stands
//!   at the tail, its debt is kept and its credit is not. Bounds that hold while flows come and go hold
//!   for a flow without a rate, as if those in excess were idle.
//!
//! **Siblings.** Flows that are [joined](CommittedRates::join) have one rate and one bucket together, as the entries of a host in several
//! tins: they conform together, and are in excess together. The promise of the rate holds for what they are sent together. Which of
//! them has it is the one that the flow scheduler comes to first: one that is always later has what is left in excess.
//!
//! A flow gets its rate under two conditions. Its share of the link is at least the rate. And no
//! credit is lost while the flow waits for its turn: `b` is at least `r` times a round of the
//! conforming flows.
//!
//! Flows in excess share by weight up to a turn each time one of them is moved: it then loses what is
//! left of its turn.
//!
//! **Time.** From [`FlowScheduler::advance`]: the time for which the clock has gone on. A reading that is not
//! above all earlier ones adds no time, so a clock that runs to and fro fills no bucket. A step back of more
//! than a second says that the reading before the step was wrong. Time then goes on from the new reading at
//! once, and the wrong reading has filled the buckets once. Without `advance` nothing fills a bucket again.
//!
//! **Cost.** O(1) beside the flow schedulers for a flow without a rate; O(log flows) where a flow is moved, at most
//! three moves a call. Two multiplications for a packet, three to see whether the flow conforms still; no
//! division. Siblings cost a loop over them, at most eight, with a move each. Memory: 64 bytes a flow and a second flow scheduler.
//!
//! **Source.** Conforming and excess: Heinanen & Guerin, RFC 2697. A token bucket that may be overdrawn, as
//! turns are in [`Drr`](crate::Drr). Guaranteed and borrowed bandwidth: Floyd & Jacobson, *Link-sharing and
//! resource management models for packet networks*, 1995, in the plainest form: one level, and a flow in
//! excess borrows from all.

mod rate;
mod siblings;

pub use rate::{CommittedFlow, CommittedRate};

use crate::disciplines::tournament::{Ranked, Tournament, ranked};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::hosts::siblings::{self as rings, Sibling};
use crate::hosts::token_bucket::{AsBooked, Elapsed, WireLength};
use crate::{FlowId, Imbalance, Nanos};

ranked! {
    /// When a flow in excess conforms again, for [`CommittedRates`]: 16 bytes.
    CommittedReturn
}

/// Among the flows in excess the one that conforms again first: the stamp says when. The key is 1 if and only
/// if the flow is in excess, the one truth about it.
type Returning = Tournament<false>;

/// What a flow scheduler is told of the packets of a flow that is moved: it neither looks ahead nor counts bytes.
const ANY_LEN: u32 = 1;

/// The most flows that a call moves back to those that conform, or to those below their
/// [ceilings](crate::Ceilings). More than one, because a call moves at most one the other way: a flow that is
/// due gets back.
pub const RETURNS_A_CALL: u32 = 2;

/// The flow scheduler `O`, twice, with rates in the memory `C` and the times of return in `W`, on a link where packets
/// are as long as `L` says.
///
/// There may be room for rates of fewer flows than the flow schedulers have, or of none: the others have no rate,
/// and need no memory here. The second flow scheduler may be of another type, `B`, as where its tables are
/// elsewhere. Where `C` is an array of length 0, nothing of this is left in the code but the first flow scheduler.
/// `O` is not asked for a victim: put [`LongestQueueDrop`](crate::LongestQueueDrop) around it.
///
/// ```
/// use sched_core::{
///     CommittedRate, CommittedRates, CommittedFlow, CommittedReturn, Drr, DrrFlow, FlowId, FlowScheduler, Nanos,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let (rates, returns) = ([CommittedFlow::EMPTY; 2], [CommittedReturn::EMPTY; 2]);
/// let mut scheduler = CommittedRates::new(drr.clone(), drr, rates, returns)?;
///
/// // A link of 12 Mbit/s sends a packet a millisecond, and flow 0 may have a tenth of it.
/// scheduler.set_rate(FlowId(0), Some(CommittedRate::new(1_200_000, 1_500)?))?;
/// (0..2).for_each(|flow| scheduler.backlogged(FlowId(flow), 1_500));
/// let mut sent = [0; 2];
/// for millis in 0..1_000 {
///     let flow = scheduler.select().expect("both are backlogged");
///     scheduler.advance(Nanos::from_millis(millis));
///     scheduler.served(flow, 1_500, Some(1_500));
///     sent[flow.index()] += 1;
/// }
/// // A packet every 10 ms, and the burst at the beginning.
/// assert_eq!(sent, [101, 899]);
/// // Alone it has all.
/// scheduler.lost(FlowId(1), 1_500, None);
/// assert_eq!(scheduler.select(), Some(FlowId(0)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CommittedRates<O, C, W, B = O, L = AsBooked> {
    /// Flows that conform, or have no rate.
    conforming: O,
    excess: B,
    flows: C,
    returns: W,
    link: L,
    /// Not kept where there is no room for rates.
    clock: Elapsed,
}

crate::debug::short_debug!(CommittedRates < O, C, W, B, L > {});

impl<O, C, W, B> CommittedRates<O, C, W, B>
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
    B: FlowScheduler<Config = O::Config>,
{
    /// Committed rates over two flow schedulers that were made alike, in which no flow is backlogged; of as many flows
    /// as `excess`, `flows` and `returns` all have room for. No flow has a rate yet, and packets are as long
    /// as they are booked. What is set for the flows in `conforming` is set in `excess` too. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::LooksAhead`] and [`ConfigError::CountsBytes`] if one of the flow schedulers does: of a flow that
    /// is moved neither the length of the next packet nor what it holds is known. [`ConfigError::Waits`] if
    /// one of them has [ceilings](crate::Ceilings), which belong around this. What `excess` refuses of the
    /// settings of `conforming`; and [`ConfigError::OutOfRange`] if a flow then has not the same longest
    /// packet in both.
    pub fn new(conforming: O, excess: B, flows: C, returns: W) -> Result<Self, ConfigError> {
        Self::on_link(conforming, excess, flows, returns, AsBooked)
    }
}

impl<O, C, W, B, L> CommittedRates<O, C, W, B, L>
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
    B: FlowScheduler<Config = O::Config>,
    L: WireLength,
{
    /// Whether a flow can have a rate at all: not where the table of rates takes no memory. The compiler knows.
    const HAS_ROOM: bool = size_of::<C>() > 0;

    /// As [`CommittedRates::new`], where packets are as long as `link` says.
    ///
    /// # Errors
    /// As [`CommittedRates::new`].
    pub fn on_link(
        conforming: O,
        mut excess: B,
        mut flows: C,
        mut returns: W,
        link: L,
    ) -> Result<Self, ConfigError> {
        if conforming.needs().looks_ahead || excess.needs().looks_ahead {
            return Err(ConfigError::LooksAhead);
        }
        if conforming.needs().counts_bytes || excess.needs().counts_bytes {
            return Err(ConfigError::CountsBytes);
        }
        if conforming.waits() || excess.waits() {
            return Err(ConfigError::Waits);
        }
        flows.as_mut().fill(CommittedFlow::EMPTY);
        returns.as_mut().fill(CommittedReturn::EMPTY);
        Returning::play_all(returns.as_mut());
        let room = flows.as_ref().len().min(returns.as_ref().len());
        let room = u32::try_from(room).unwrap_or(u32::MAX).min(excess.flows());
        for flow in (0..room).map(FlowId) {
            match conforming.config(flow) {
                Some(config) => excess.configure(flow, config, None)?,
                None => excess.remove(flow),
            }
            let longest = |max_len: Option<u32>| u64::from(max_len.unwrap_or(0));
            let (value, accepted) =
                (longest(excess.max_len(flow)), longest(conforming.max_len(flow)));
            let what = "longest packet in bytes of a flow in excess";
            ConfigError::check_range(what, value, accepted, accepted)?;
        }
        Ok(Self { conforming, excess, flows, returns, link, clock: Elapsed::START })
    }

    /// What packets are on the wire, from the next on that leaves.
    pub fn set_link(&mut self, link: L) {
        self.link = link;
    }

    /// Gives `flow`, idle or backlogged, and its siblings a rate, or with `None` none. It acts at once. What the bucket lacks,
    /// in bytes, it lacks after the change, up to twice the new burst: to change a rate back and forth
    /// gives nothing away. The rate that a flow has already changes nothing; the first one has a full bucket.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::UnknownFlow`] if there is no room for a rate of this flow.
    /// - [`ConfigError::OutOfRange`] if the burst is below the longest packet on the wire: of this flow or a sibling, or of all
    ///   flows if this flow was not added.
    pub fn set_rate(
        &mut self,
        flow: FlowId,
        rate: Option<CommittedRate>,
    ) -> Result<(), ConfigError> {
        if !self.has_room_for(flow) {
            return Err(ConfigError::UnknownFlow { flow, flows: self.room() });
        }
        let of_others = rings::others(self.flows.as_ref(), flow).map(|other| self.longest(other));
        let longest = of_others.fold(self.longest(flow), u32::max);
        if let Some(rate) = rate {
            let (burst, most) = (rate.burst().into(), u32::MAX.into());
            ConfigError::check_range("burst in bytes", burst, longest.into(), most)?;
        }
        let state = self.flows.as_ref().get(flow.index()).copied();
        let Some(mut state) = state.filter(|state| state.rate() != rate) else { return Ok(()) };
        // While the rate that they had says which of them are in excess.
        self.conform(flow);
        state.set_rate(rate, &mut self.clock);
        self.share(flow, &state);
        self.settle(flow);
        Ok(())
    }

    /// The rate of `flow`, if it has one.
    #[must_use]
    pub fn rate(&self, flow: FlowId) -> Option<CommittedRate> {
        self.flows.as_ref().get(flow.index()).and_then(CommittedFlow::rate)
    }

    /// Returns true if `flow` has a rate and its bucket is not full.
    #[must_use]
    pub fn is_short(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index());
        state.is_some_and(|state| state.is_short(self.clock.now()))
    }

    /// Whether `flow` is backlogged and in excess.
    #[must_use]
    #[inline]
    pub fn is_excess(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index());
        state.is_some_and(|state| is_excess(state, self.returns.as_ref(), flow))
    }

    /// The flow scheduler of the flows that conform, or have no rate.
    #[must_use]
    pub const fn conforming(&self) -> &O {
        &self.conforming
    }

    /// The flow scheduler of the flows that conform, or have no rate, for what is its own. Telling it of packets is the
    /// business of [`CommittedRates`].
    pub const fn conforming_mut(&mut self) -> &mut O {
        &mut self.conforming
    }

    /// Flows that can have a rate are numbered below this.
    #[must_use]
    pub fn room(&self) -> u32 {
        if !Self::HAS_ROOM {
            return 0;
        }
        let tables = self.flows.as_ref().len().min(self.returns.as_ref().len());
        self.excess.flows().min(u32::try_from(tables).unwrap_or(u32::MAX))
    }

    fn has_room_for(&self, flow: FlowId) -> bool {
        flow.0 < self.room()
    }

    /// The most bytes on the wire that a packet of `flow` takes.
    #[inline]
    fn longest(&self, flow: FlowId) -> u32 {
        let longest =
            self.conforming.max_len(flow).unwrap_or(self.conforming.needs().common_max_len);
        self.link.wire_len(longest).max(1)
    }

    /// `flow`, backlogged and in neither flow scheduler, is in excess until it is due.
    #[inline(never)]
    fn become_excess(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        let (Some(state), Some(place)) =
            (self.flows.as_ref().get(flow.index()), returns.get_mut(flow.index()))
        else {
            return;
        };
        place.set_bytes(1);
        place.set_stamp(state.due());
        Returning::gained(returns, flow);
        self.excess.backlogged(flow, ANY_LEN);
    }

    /// `flow`, in excess, conforms again.
    #[inline(never)]
    fn come_back(&mut self, flow: FlowId) {
        self.leave_excess(flow);
        self.excess.lost(flow, ANY_LEN, None);
        self.conforming.backlogged(flow, ANY_LEN);
    }

    /// `flow` is in excess no more.
    fn leave_excess(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        let Some(place) = returns.get_mut(flow.index()) else { return };
        place.set_bytes(0);
        Returning::lost(returns, flow);
    }

    /// The rest of [`FlowScheduler::served`], of a flow with a rate.
    #[inline(never)]
    fn served_with_rate(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.select() != Some(flow) {
            return;
        }
        let wire_len = self.link.wire_len(len).max(1);
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return };
        if next_head.is_none() {
            state.set_backlogged(false);
        }
        if is_excess(state, self.returns.as_ref(), flow) {
            state.charge_excess(&mut self.clock, wire_len);
            self.excess.served(flow, len, next_head);
            if next_head.is_none() {
                self.leave_excess(flow);
            } else {
                self.put_off(flow);
            }
        } else {
            state.charge(&mut self.clock, wire_len);
            if next_head.is_none() || state.is_conforming(self.clock.now()) {
                self.conforming.served(flow, len, next_head);
            } else {
                self.conforming.served(flow, len, None);
                self.become_excess(flow);
            }
        }
        let state = self.flows.as_ref().get(flow.index()).copied();
        if let Some(state) = state.filter(|state| state.sibling().is_some()) {
            self.share(flow, &state);
            self.settle(flow);
        }
        self.recall();
    }

    /// `flow`, in excess, has been charged, and is due when that is paid.
    fn put_off(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        if let (Some(state), Some(place)) =
            (self.flows.as_ref().get(flow.index()), returns.get_mut(flow.index()))
            && place.stamp() != state.due()
        {
            place.set_stamp(state.due());
            Returning::lost(returns, flow);
        }
    }

    /// Moves flows back whose time has come.
    #[inline]
    fn recall(&mut self) {
        if Self::HAS_ROOM && self.excess.select().is_some() {
            self.recall_due();
        }
    }

    #[inline(never)]
    fn recall_due(&mut self) {
        for _ in 0..RETURNS_A_CALL {
            crate::steps::step();
            let Some(first) = Returning::first(self.returns.as_ref()) else { return };
            let state = self.flows.as_ref().get(first.index());
            if !state.is_some_and(|state| state.is_conforming(self.clock.now())) {
                return;
            }
            self.come_back(first);
            self.return_siblings(first);
        }
    }
}

/// Whether `flow` is backlogged and in excess. Of a flow without a rate that is not looked up.
#[inline]
fn is_excess(state: &CommittedFlow, returns: &[CommittedReturn], flow: FlowId) -> bool {
    state.has_rate() && returns.get(flow.index()).is_some_and(CommittedReturn::is_backlogged)
}

impl<O, C, W, B, L> FlowScheduler for CommittedRates<O, C, W, B, L>
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
    B: FlowScheduler<Config = O::Config>,
    L: WireLength,
{
    type Config = O::Config;

    fn flows(&self) -> u32 {
        self.conforming.flows()
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.conforming.advance(now);
        if Self::HAS_ROOM {
            self.clock.advance(now);
            self.excess.advance(now);
        }
    }

    fn configure(
        &mut self,
        flow: FlowId,
        config: O::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let (of_conforming, of_excess) =
            if self.is_excess(flow) { (None, head_len) } else { (head_len, None) };
        let before = self.conforming.config(flow);
        self.conforming.configure(flow, config, of_conforming)?;
        if !self.has_room_for(flow) {
            return Ok(());
        }
        let Err(refused) = self.excess.configure(flow, config, of_excess) else { return Ok(()) };
        // Flow schedulers made alike accept alike: this is for those that are not.
        match before {
            Some(before) => self.conforming.configure(flow, before, of_conforming)?,
            None => self.conforming.remove(flow),
        }
        Err(refused)
    }

    /// Its rate is forgotten too, and it has no siblings.
    fn remove(&mut self, flow: FlowId) {
        self.conforming.remove(flow);
        self.part(flow);
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            *state = CommittedFlow::EMPTY;
        }
        if self.has_room_for(flow) {
            self.excess.remove(flow);
            self.leave_excess(flow);
        }
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.conforming.config(flow)
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.conforming.max_len(flow)
    }

    #[inline]
    fn needs(&self) -> Needs {
        let inner = self.conforming.needs();
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: inner.common_max_len }
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if self.conforming.max_len(flow).is_none() {
            return;
        }
        match self.flows.as_mut().get_mut(flow.index()) {
            Some(state) if state.is_backlogged() => return,
            Some(state) => {
                state.set_backlogged(true);
                if state.is_conforming(self.clock.now()) {
                    self.conforming.backlogged(flow, head_len);
                } else {
                    self.become_excess(flow);
                }
            }
            None => self.conforming.backlogged(flow, head_len),
        }
        self.recall();
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        if self.is_excess(flow) {
            self.excess.grew(flow, len);
        } else {
            self.conforming.grew(flow, len);
        }
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        self.conforming
            .select()
            .or_else(|| if Self::HAS_ROOM { self.excess.select() } else { None })
    }

    #[inline]
    fn selected(&self) -> FlowId {
        if Self::HAS_ROOM {
            return self.select().unwrap_or(FlowId::NONE);
        }
        self.conforming.selected()
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let found = self.conforming.upcoming(ahead);
        let rest = ahead.get_mut(found..).unwrap_or_default();
        found.wrapping_add(self.excess.upcoming(rest))
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if Self::HAS_ROOM {
            let state = self.flows.as_mut().get_mut(flow.index());
            if state.as_ref().is_some_and(|state| state.has_rate()) {
                return self.served_with_rate(flow, len, next_head);
            }
            if self.conforming.select() != Some(flow) {
                return;
            }
            if let (Some(state), None) = (state, next_head) {
                state.set_backlogged(false);
            }
        }
        self.conforming.served(flow, len, next_head);
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.is_excess(flow) {
            self.excess.lost(flow, len, head);
        } else {
            self.conforming.lost(flow, len, head);
        }
        if head.is_some() {
            return;
        }
        if self.is_excess(flow) {
            self.leave_excess(flow);
        }
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            state.set_backlogged(false);
        }
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
        let returns = self.returns.as_ref();
        for (at, state) in (0_u32..).zip(self.flows.as_ref()) {
            let flow = FlowId(at);
            let is_backlogged = flows(flow).backlog.packets > 0;
            Imbalance::check("backlogged", at, state.is_backlogged().into(), is_backlogged.into())?;
            let key = returns.get(flow.index()).map_or(0, |place| place.bytes().into());
            let is_excess = self.is_excess(flow);
            Imbalance::check("in excess of a rate that exists", at, key, is_excess.into())?;
            if is_excess {
                let booked = returns.get(flow.index()).map_or(0, CommittedReturn::stamp);
                Imbalance::check("the time of return", at, booked, state.due())?;
            }
        }
        self.recount_siblings()?;
        Returning::recount(returns, &|flow| {
            let key = returns.get(flow.index()).map_or(0, CommittedReturn::bytes);
            FlowState { backlog: crate::Backlog { packets: key, bytes: key }, head_len: None }
        })?;
        // Each flow scheduler is told of its own flows only: so each flow is in one, and in no other.
        let in_order = |excess: bool| {
            move |flow: FlowId| {
                if self.is_excess(flow) == excess { flows(flow) } else { FlowState::default() }
            }
        };
        self.conforming.recount(&in_order(false))?;
        self.excess.recount(&in_order(true))
    }
}

#[cfg(test)]
mod tests;
