//! Caps on what flows have of the link without borrowing: any order, twice.
//!
//! [`Capped`] keeps two orders of the same flows. A flow is served in the first while it is *within* its
//! [`Cap`], and in the second, only when nobody is in the first, while it is *beyond*: it borrows what
//! nobody else wants. So the link never idles while packets wait. In both orders flows share as they are
//! configured, by weight. Put under [`Hosts`](crate::Hosts), the flows here are hosts.
//!
//! A cap is a bucket of at most `burst` bytes, which time fills at the rate of the cap and which is full
//! when the cap is set. What a flow sends in the first order is taken out of it. With a bucket that
//! lacks nothing but what it can hold a flow is within, whatever the length of its next packet, which
//! may overdraw it; a packet that leaves it overdrawn is the last before it is beyond. **Borrowing is
//! free**: nothing is taken out for what is sent in the second order, so a flow is back within its cap
//! when its rate says so, whatever it borrowed. A flow without a cap is always within.
//!
//! **Promises.** A backlogged flow is in exactly one of the two orders. `r` is the rate of a cap, `b` its
//! burst, `L` the longest packet.
//!
//! - *Cap.* In any interval of length `t` a flow is sent at most `r·t + b + L` within its cap. That is all
//!   it is sent while another flow is within its own, or has none: from any service within, the bucket
//!   holds at most `b` and is at last overdrawn by at most `L`.
//! - *No waste.* If a flow is backlogged, [`select`](FlowScheduler::select) names one.
//! - *Return.* A flow beyond its cap whose time has come is moved back by the calls that follow,
//!   [`RETURNS_A_CALL`] of them a call, the one that is due longest first. A call is a departure, or an
//!   arrival to an idle flow. A call sets at most one flow beyond its cap: more do not pile up.
//! - *Others.* To the flows within, one that is moved is one that empties and comes back: it stands at
//!   the tail, its debt is not forgotten and its credit is. Bounds that hold while flows come and go hold
//!   for a flow without a cap, as if those beyond theirs were idle.
//!
//! A flow gets the rate of its cap, while its share of the link is at least that, if no credit is lost
//! while it waits for its turn: if `b` is at least `r` times a round of the flows within.
//!
//! Those who borrow share by weight up to a turn each time one of them is moved: it then loses what is
//! left of its turn.
//!
//! **Not here.** A cap that is hard, beyond which a flow is not served even on an idle link: an order
//! cannot say "not now, ask again at t". That is a [`Classes`](crate::Classes) with a shaper in each leaf
//! (`shaper::Shaped`).
//!
//! **Time.** From [`FlowScheduler::advance`]; a clock that steps back stands still. Without it nothing
//! fills a bucket again. In the last span before [`Nanos::MAX`] nobody comes back.
//!
//! **Cost.** O(1) beside the orders for a flow without a cap; O(log flows) where a flow is moved, at most
//! three moves a call. Two multiplications for a packet within a cap, three to see whether it was the
//! last; no division. Memory: 56 bytes a flow and a second order.
//!
//! **Source.** A token bucket that may be overdrawn, as turns are in [`Drr`](crate::Drr). Guaranteed and
//! borrowed bandwidth: Floyd & Jacobson, *Link-sharing and resource management models for packet
//! networks*, 1995, in the plainest form: one level, whoever is beyond borrows from all.

mod cap;

pub use cap::{Cap, CappedFlow};

use crate::order::{ConfigError, FlowScheduler, FlowState, Table};
use crate::tournament::{RankedFlow, Tournament};
use crate::{FlowId, Imbalance, Nanos};

/// When a flow beyond its cap is back within, for [`Capped`]: 16 bytes.
pub type CapReturn = RankedFlow<1>;

/// Among the flows beyond their caps the one that is back first: the stamp says when. The key is 1 if
/// and only if the flow is beyond, the one truth about it.
type Returning = Tournament<0, false>;

/// What an order is told of the packets of a flow that is moved: it neither looks ahead nor counts bytes.
const ANY_LEN: u32 = 1;

/// At most so many flows are moved back within their caps in a call. More than one, because a call sets at
/// most one beyond its cap: whoever is due gets back.
pub const RETURNS_A_CALL: u32 = 2;

/// The order `O`, twice, with caps in the memory `C` and the times of return in `W`.
///
/// There may be room for caps of fewer flows than the orders have, or of none: the others have no cap,
/// and need no memory here. The second order may be of another type, `B`, as where its tables are
/// elsewhere. Where `C` is an array of length 0, nothing of this is left in the code but the first order.
/// Who gives way is not asked of `O`: put [`LongestQueueDrop`](crate::LongestQueueDrop) around it.
///
/// ```
/// use sched_core::{
///     Cap, Capped, CappedFlow, CapReturn, Drr, DrrFlow, FlowId, FlowScheduler, Nanos,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let (caps, returns) = ([CappedFlow::EMPTY; 2], [CapReturn::EMPTY; 2]);
/// let mut order = Capped::new(drr.clone(), drr, caps, returns)?;
///
/// // A link of 12 Mbit/s sends a packet a millisecond, and flow 0 may have a tenth of it.
/// order.set_cap(FlowId(0), Some(Cap::new(1_200_000, 1_500)?))?;
/// (0..2).for_each(|flow| order.backlogged(FlowId(flow), 1_500));
/// let mut sent = [0; 2];
/// for millis in 0..1_000 {
///     let flow = order.select().expect("both are backlogged");
///     order.advance(Nanos::from_millis(millis));
///     order.served(flow, 1_500, Some(1_500));
///     sent[flow.index()] += 1;
/// }
/// // A packet every 10 ms, and the burst at the beginning.
/// assert_eq!(sent, [101, 899]);
/// // Alone it has all.
/// order.lost(FlowId(1), 1_500, None);
/// assert_eq!(order.select(), Some(FlowId(0)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped<O, C, W, B = O> {
    /// Flows within their caps, or without.
    within: O,
    /// Flows beyond.
    beyond: B,
    flows: C,
    returns: W,
    /// The latest time that was told; not kept where there is no room for caps.
    now: Nanos,
}

impl<O, C, W, B> Capped<O, C, W, B>
where
    O: FlowScheduler,
    C: Table<CappedFlow>,
    W: Table<CapReturn>,
    B: FlowScheduler<Config = O::Config>,
{
    /// Whether a flow can have a cap at all: not where the table of caps takes no memory. The compiler knows.
    const HAS_ROOM: bool = size_of::<C>() > 0;

    /// Caps over two orders that were made alike, in which no flow is backlogged; of as many flows as
    /// `beyond`, `flows` and `returns` all have room for. No flow has a cap yet. What is set for the flows
    /// in `within` is set in `beyond` too. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::LooksAhead`] and [`ConfigError::CountsBytes`] if one of the orders does: of a flow that is
    /// moved neither the length of the next packet nor what it holds is known. What `beyond` refuses of the settings of `within`; and
    /// [`ConfigError::OutOfRange`] if a flow then has not the same longest packet in both.
    pub fn new(
        within: O,
        mut beyond: B,
        mut flows: C,
        mut returns: W,
    ) -> Result<Self, ConfigError> {
        if within.looks_ahead() || beyond.looks_ahead() {
            return Err(ConfigError::LooksAhead);
        }
        if within.counts_bytes() || beyond.counts_bytes() {
            return Err(ConfigError::CountsBytes);
        }
        flows.as_mut().fill(CappedFlow::EMPTY);
        returns.as_mut().fill(CapReturn::EMPTY);
        Returning::play_all(returns.as_mut());
        let room = flows.as_ref().len().min(returns.as_ref().len());
        let room = u32::try_from(room).unwrap_or(u32::MAX).min(beyond.flows());
        for flow in (0..room).map(FlowId) {
            match within.config(flow) {
                Some(config) => beyond.configure(flow, config, None)?,
                None => beyond.remove(flow),
            }
            let longest = |max_len: Option<u32>| u64::from(max_len.unwrap_or(0));
            let (value, accepted) = (longest(beyond.max_len(flow)), longest(within.max_len(flow)));
            let what = "longest packet in bytes of a flow beyond its cap";
            ConfigError::check_range(what, value, accepted, accepted)?;
        }
        Ok(Self { within, beyond, flows, returns, now: Nanos::ZERO })
    }

    /// Caps `flow`, idle or backlogged, or with `None` lets it have what it gets. With the cap that it has
    /// already nothing changes; with another its bucket is full. So who changes a cap back and forth gives
    /// bursts away.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] if there is no room for a cap of this flow, and
    /// [`ConfigError::OutOfRange`] if the burst is below the longest packet of the flow, or, if it was
    /// not added, of all flows; nothing has changed then.
    pub fn set_cap(&mut self, flow: FlowId, cap: Option<Cap>) -> Result<(), ConfigError> {
        if !self.has_room_for(flow) {
            return Err(ConfigError::UnknownFlow { flow, flows: self.room() });
        }
        if let Some(cap) = cap {
            let longest = self.within.max_len(flow).unwrap_or(self.within.common_max_len());
            let (burst, most) = (cap.burst().into(), u32::MAX.into());
            ConfigError::check_range("burst in bytes", burst, longest.into(), most)?;
        }
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return Ok(()) };
        if state.cap() == cap {
            return Ok(());
        }
        let was_beyond = is_beyond(state, self.returns.as_ref(), flow);
        state.set_cap(cap, self.now);
        if was_beyond {
            self.come_back(flow);
        }
        Ok(())
    }

    /// The cap of `flow`, if it has one.
    #[must_use]
    pub fn cap(&self, flow: FlowId) -> Option<Cap> {
        self.flows.as_ref().get(flow.index()).and_then(CappedFlow::cap)
    }

    /// Whether `flow` is backlogged and beyond its cap.
    #[must_use]
    #[inline]
    pub fn is_beyond(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index());
        state.is_some_and(|state| is_beyond(state, self.returns.as_ref(), flow))
    }

    /// The order of the flows that are within their caps, or have none.
    #[must_use]
    pub const fn within(&self) -> &O {
        &self.within
    }

    /// Flows that can have a cap are numbered below this.
    #[must_use]
    pub fn room(&self) -> u32 {
        if !Self::HAS_ROOM {
            return 0;
        }
        let tables = self.flows.as_ref().len().min(self.returns.as_ref().len());
        self.beyond.flows().min(u32::try_from(tables).unwrap_or(u32::MAX))
    }

    fn has_room_for(&self, flow: FlowId) -> bool {
        flow.0 < self.room()
    }

    /// `flow`, backlogged and in neither order, is beyond its cap until it is due.
    #[inline(never)]
    fn go_beyond(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        let (Some(state), Some(place)) =
            (self.flows.as_ref().get(flow.index()), returns.get_mut(flow.index()))
        else {
            return;
        };
        place.set_bytes(1);
        place.set_stamp(state.due().0);
        Returning::gained(returns, flow);
        self.beyond.backlogged(flow, ANY_LEN);
    }

    /// `flow`, beyond its cap, is within.
    #[inline(never)]
    fn come_back(&mut self, flow: FlowId) {
        self.leave_beyond(flow);
        self.beyond.lost(flow, ANY_LEN, None);
        self.within.backlogged(flow, ANY_LEN);
    }

    /// `flow` is beyond its cap no more.
    fn leave_beyond(&mut self, flow: FlowId) {
        let returns = self.returns.as_mut();
        let Some(place) = returns.get_mut(flow.index()) else { return };
        place.set_bytes(0);
        Returning::lost(returns, flow);
    }

    /// The rest of [`FlowScheduler::served`], of a flow with a cap.
    #[inline(never)]
    fn served_capped(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.select() != Some(flow) {
            return;
        }
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return };
        if next_head.is_none() {
            state.set_backlogged(false);
        }
        if is_beyond(state, self.returns.as_ref(), flow) {
            self.beyond.served(flow, len, next_head);
            if next_head.is_none() {
                self.leave_beyond(flow);
            }
        } else {
            state.charge(self.now, len);
            if next_head.is_none() || state.is_within(self.now) {
                self.within.served(flow, len, next_head);
            } else {
                self.within.served(flow, len, None);
                self.go_beyond(flow);
            }
        }
        self.recall();
    }

    /// Moves back whose time has come.
    #[inline]
    fn recall(&mut self) {
        if Self::HAS_ROOM && self.beyond.select().is_some() {
            self.recall_due();
        }
    }

    #[inline(never)]
    fn recall_due(&mut self) {
        for _ in 0..RETURNS_A_CALL {
            crate::steps::step();
            let Some(first) = Returning::first(self.returns.as_ref()) else { return };
            let state = self.flows.as_ref().get(first.index());
            if !state.is_some_and(|state| state.is_within(self.now)) {
                return;
            }
            self.come_back(first);
        }
    }
}

/// Whether `flow` is backlogged and beyond its cap. Who has none is not looked up.
#[inline]
fn is_beyond(state: &CappedFlow, returns: &[CapReturn], flow: FlowId) -> bool {
    state.is_capped() && returns.get(flow.index()).is_some_and(CapReturn::is_backlogged)
}

impl<O, C, W, B> FlowScheduler for Capped<O, C, W, B>
where
    O: FlowScheduler,
    C: Table<CappedFlow>,
    W: Table<CapReturn>,
    B: FlowScheduler<Config = O::Config>,
{
    type Config = O::Config;

    fn flows(&self) -> u32 {
        self.within.flows()
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.within.advance(now);
        if Self::HAS_ROOM {
            self.now = self.now.max(now);
            self.beyond.advance(now);
        }
    }

    fn configure(
        &mut self,
        flow: FlowId,
        config: O::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let (of_within, of_beyond) =
            if self.is_beyond(flow) { (None, head_len) } else { (head_len, None) };
        let before = self.within.config(flow);
        self.within.configure(flow, config, of_within)?;
        if !self.has_room_for(flow) {
            return Ok(());
        }
        let Err(refused) = self.beyond.configure(flow, config, of_beyond) else { return Ok(()) };
        // Orders made alike accept alike: this is for those that are not.
        match before {
            Some(before) => self.within.configure(flow, before, of_within)?,
            None => self.within.remove(flow),
        }
        Err(refused)
    }

    /// Its cap is forgotten too.
    fn remove(&mut self, flow: FlowId) {
        self.within.remove(flow);
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            *state = CappedFlow::EMPTY;
        }
        if self.has_room_for(flow) {
            self.beyond.remove(flow);
            self.leave_beyond(flow);
        }
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.within.config(flow)
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.within.max_len(flow)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.within.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if self.within.max_len(flow).is_none() {
            return;
        }
        match self.flows.as_mut().get_mut(flow.index()) {
            Some(state) if state.is_backlogged() => return,
            Some(state) => {
                state.set_backlogged(true);
                if state.is_within(self.now) {
                    self.within.backlogged(flow, head_len);
                } else {
                    self.go_beyond(flow);
                }
            }
            None => self.within.backlogged(flow, head_len),
        }
        self.recall();
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        if self.is_beyond(flow) {
            self.beyond.grew(flow, len);
        } else {
            self.within.grew(flow, len);
        }
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        self.within.select().or_else(|| if Self::HAS_ROOM { self.beyond.select() } else { None })
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let found = self.within.upcoming(ahead);
        let rest = ahead.get_mut(found..).unwrap_or_default();
        found.wrapping_add(self.beyond.upcoming(rest))
    }

    /// Of a flow that was not selected it changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if Self::HAS_ROOM {
            let state = self.flows.as_mut().get_mut(flow.index());
            if state.as_ref().is_some_and(|state| state.is_capped()) {
                return self.served_capped(flow, len, next_head);
            }
            if self.within.select() != Some(flow) {
                return;
            }
            if let (Some(state), None) = (state, next_head) {
                state.set_backlogged(false);
            }
        }
        self.within.served(flow, len, next_head);
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.is_beyond(flow) {
            self.beyond.lost(flow, len, head);
        } else {
            self.within.lost(flow, len, head);
        }
        if head.is_some() {
            return;
        }
        if self.is_beyond(flow) {
            self.leave_beyond(flow);
        }
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            state.set_backlogged(false);
        }
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn counts_bytes(&self) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let returns = self.returns.as_ref();
        for (at, state) in (0_u32..).zip(self.flows.as_ref()) {
            let flow = FlowId(at);
            let is_backlogged = flows(flow).backlog.packets > 0;
            Imbalance::check("backlogged", at, state.is_backlogged().into(), is_backlogged.into())?;
            let key = returns.get(flow.index()).map_or(0, |place| place.bytes().into());
            let is_beyond = self.is_beyond(flow);
            Imbalance::check("beyond a cap that exists", at, key, is_beyond.into())?;
            if is_beyond {
                let booked = returns.get(flow.index()).map_or(0, CapReturn::stamp);
                Imbalance::check("the time of return", at, booked, state.due().0)?;
            }
        }
        Returning::recount(returns, &|flow| {
            let key = returns.get(flow.index()).map_or(0, CapReturn::bytes);
            FlowState { backlog: crate::Backlog { packets: key, bytes: key }, head_len: None }
        })?;
        // Each order is told of its own flows only: so each flow is in one, and in no other.
        let in_order = |beyond: bool| {
            move |flow: FlowId| {
                if self.is_beyond(flow) == beyond { flows(flow) } else { FlowState::default() }
            }
        };
        self.within.recount(&in_order(false))?;
        self.beyond.recount(&in_order(true))
    }
}

#[cfg(test)]
mod tests;
