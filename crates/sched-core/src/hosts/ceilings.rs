//! Ceilings: what flows have of the link at most, even if it is idle otherwise.
//!
//! [`Ceilings`] wraps a flow scheduler. A flow above its [`Ceiling`] is taken out of the flow scheduler, as if it were idle,
//! and comes back when its time has come: it *waits*. All other flows are served meanwhile, as the flow scheduler
//! says. If all backlogged flows wait, [`select`](FlowScheduler::select) names none, and
//! [`waiting`](FlowScheduler::waiting) says which flow is first, [`opens_at`](FlowScheduler::opens_at) when. So a queue over such a flow scheduler may
//! hold packets and send nothing. Put under [`HostDrr`](crate::HostDrr), the flows here are hosts; around
//! [`CommittedRates`](crate::CommittedRates), a host has a rate and a ceiling (`rate` and `ceil` of HTB).
//!
//! **Promises.** `r` is the rate of a ceiling, `b` its burst, `L` the longest packet on the wire.
//!
//! - *Ceiling.* In any interval of length `t` a flow is sent at most `r·t + b` bytes on the wire. A bucket of
//!   `b` bytes is filled by time at `r`. A packet may leave while the bucket holds at least `L`, and takes
//!   its length on the wire out. So the bucket is never overdrawn.
//! - *Rate.* A flow that is backlogged and alone has `r`, up to 12 in 10⁹, if it is asked for no later than
//!   the time of `b − L` bytes after it may be served.
//! - *Never stuck.* If a flow is backlogged, `select` or `waiting` names one; and the first of those that wait
//!   may be served at the instant that `opens_at` says, not before.
//! - *Return.* A flow that is due is put back by the calls that follow, [`RETURNS_A_CALL`] of them a call,
//!   the one that is due longest first. A call is a departure, an arrival to an idle flow, or
//!   [`open`](FlowScheduler::open). A call makes at most one flow wait, and its siblings, so flows that are due do not
//!   pile up.
//! - *Others.* To the flow scheduler, a flow that waits has emptied, and one that returns comes anew: it stands at
//!   the tail, its debt is kept and its credit is not. For a flow without a ceiling, bounds that hold while
//!   flows come and go hold as if those that wait were idle.
//!
//! **Siblings.** Flows that are [joined](Ceilings::join) have one ceiling and one bucket together, as the entries of a host in several
//! tins. The promise of the ceiling holds for what they are sent together. When it is reached, all of them wait, and they return
//! together: which of them goes first then says the flow scheduler. Where nothing else is backlogged they return one by one, in turn:
//! one of them is booked, and `waiting` names it.
//!
//! **Drops.** A flow that waits holds its packets and counts as before for what gives way: with longest-host
//! drop ([`LongestHostDrop`](crate::LongestHostDrop)) a host that sends faster than its ceiling becomes the
//! longest, and loses its own packets.
//!
//! **Time.** From [`FlowScheduler::advance`], as in [`CommittedRates`](crate::CommittedRates). Without it nothing
//! fills a bucket again.
//!
//! **AQM.** Flows below a ceiling see a line of that rate. Two rounds of them
//! ([`PACED_ROUNDS`](crate::PACED_ROUNDS)) are not held against them.
//!
//! **Cost.** O(1) beside the flow scheduler for a flow without a ceiling; O(log flows) where a flow waits or returns,
//! at most four times a call: at most `4·⌈log2 flows⌉ + 4` steps. Three multiplications a packet of a flow
//! with a ceiling, no division. Siblings cost loops over them, at most eight, and a step more for each that returns. Memory: 64 bytes
//! a flow.
//!
//! **Source.** A token bucket, and a tree of winners for the first that returns (as in
//! [`Classes`](crate::Classes) for closed classes).

mod ceiling;
mod siblings;

pub use ceiling::{Ceiling, CeilingFlow};

use crate::disciplines::tournament::{Ranked, Tournament, ranked};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::hosts::committed_rates::RETURNS_A_CALL;
use crate::hosts::siblings as rings;
use crate::hosts::token_bucket::{AsBooked, Bucket, Elapsed, WireLength};
use crate::{FlowId, Imbalance, Nanos};
use ceiling::Place;

ranked! {
    /// When a flow that waits may be served, for [`Ceilings`]: 16 bytes.
    CeilingReturn
}

/// Among the flows that wait the one that may be served first: the stamp says when. The key is 1 if and only
/// if the flow waits.
type Returning = Tournament<false>;

/// What the flow scheduler is told of the packets of a flow that waits or returns: it neither looks ahead nor counts
/// bytes.
const ANY_LEN: u32 = 1;

/// The flow scheduler `O`, with ceilings in the memory `C` and the times of return in `W`, on a link where packets are
/// as long as `L` says.
///
/// There may be room for ceilings of fewer flows than the flow scheduler has, or of none: the others have none. Where
/// `C` is an array of length 0, nothing of this is left in the code but the flow scheduler.
/// Which flow gives way is not asked of `O`: put [`LongestQueueDrop`](crate::LongestQueueDrop) around it.
///
/// ```
/// use sched_core::{
///     Ceiling, CeilingFlow, CeilingReturn, Ceilings, Descriptor, Drr, DrrFlow, FlowId,
///     FlowQueues, FlowScheduler, Limits, Nanos, Packet, Queue, Scheduler,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let (ceilings, returns) = ([CeilingFlow::EMPTY; 2], [CeilingReturn::EMPTY; 2]);
/// let mut scheduler = Ceilings::new(drr, ceilings, returns)?;
/// scheduler.set_ceiling(FlowId(0), Some(Ceiling::new(1_000_000, 1_500)?))?;
///
/// let mut queue = FlowQueues::with_own_victim(
///     scheduler,
///     [Queue::EMPTY; 2],
///     [Descriptor::EMPTY; 8],
///     Limits::NONE,
/// );
/// let drops = &mut |_, _| unreachable!("there is room");
/// for handle in 0..2 {
///     queue.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 1_500), drops)?;
/// }
/// assert!(queue.dequeue(Nanos(0), drops).is_some());
/// // 1,500 bytes take 12 ms at 1 Mbit/s, though the link is idle.
/// assert_eq!(queue.dequeue(Nanos(0), drops), None);
/// assert_eq!(queue.poll_at(Nanos(0)), Some(Nanos::from_millis(12)));
/// assert!(queue.dequeue(Nanos::from_millis(12), drops).is_some());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ceilings<O, C, W, L = AsBooked> {
    scheduler: O,
    flows: C,
    returns: W,
    /// How many flows wait.
    waiting: u32,
    link: L,
    clock: Elapsed,
}

crate::debug::short_debug!(Ceilings < O, C, W, L > { waiting });

impl<O, C, W> Ceilings<O, C, W>
where
    O: FlowScheduler,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
{
    /// Ceilings over `scheduler`, in which no flow is backlogged; of as many flows as `flows` and `returns` both
    /// have room for. No flow has a ceiling yet, and packets are as long as they are booked. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::LooksAhead`] and [`ConfigError::CountsBytes`] if the flow scheduler does: of a flow that returns
    /// neither the length of the next packet nor what it holds is known. [`ConfigError::Waits`] if it has
    /// ceilings itself.
    pub fn new(scheduler: O, flows: C, returns: W) -> Result<Self, ConfigError> {
        Self::on_link(scheduler, flows, returns, AsBooked)
    }
}

impl<O, C, W, L> Ceilings<O, C, W, L>
where
    O: FlowScheduler,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
    L: WireLength,
{
    /// Whether a flow can have a ceiling at all: not where the table takes no memory. The compiler knows.
    const HAS_ROOM: bool = size_of::<C>() > 0;

    /// As [`Ceilings::new`], where packets are as long as `link` says.
    ///
    /// # Errors
    /// As [`Ceilings::new`].
    pub fn on_link(
        scheduler: O,
        mut flows: C,
        mut returns: W,
        link: L,
    ) -> Result<Self, ConfigError> {
        if scheduler.needs().looks_ahead {
            return Err(ConfigError::LooksAhead);
        }
        if scheduler.needs().counts_bytes {
            return Err(ConfigError::CountsBytes);
        }
        if scheduler.waits() {
            return Err(ConfigError::Waits);
        }
        flows.as_mut().fill(CeilingFlow::EMPTY);
        returns.as_mut().fill(CeilingReturn::EMPTY);
        Returning::play_all(returns.as_mut());
        Ok(Self { scheduler, flows, returns, waiting: 0, link, clock: Elapsed::START })
    }

    /// What packets are on the wire, from the next on that leaves. A burst below the longest packet then
    /// counts as one longest packet. A flow whose bucket holds less than that waits. Cost: O(flows · log flows).
    pub fn set_link(&mut self, link: L) {
        self.link = link;
        for flow in (0..self.room()).map(FlowId) {
            self.close(flow);
        }
    }

    /// Gives `flow`, idle or backlogged, and its siblings a ceiling, or with `None` none. The change acts at once. The bytes that the
    /// bucket lacks, it lacks after the change too, up to the new burst. To set the ceiling that a flow has already
    /// changes nothing; the first ceiling has a full bucket.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::UnknownFlow`] if there is no room for a ceiling of this flow.
    /// - [`ConfigError::OutOfRange`] if the burst is below the longest packet on the wire: of this flow or a sibling, or of all
    ///   flows if this flow was not added.
    pub fn set_ceiling(
        &mut self,
        flow: FlowId,
        ceiling: Option<Ceiling>,
    ) -> Result<(), ConfigError> {
        if flow.0 >= self.room() {
            return Err(ConfigError::UnknownFlow { flow, flows: self.room() });
        }
        let of_others = rings::others(self.flows.as_ref(), flow).map(|other| self.longest(other));
        let longest = of_others.fold(self.longest(flow), u32::max);
        if let Some(ceiling) = ceiling {
            let (burst, most) = (ceiling.burst.into(), u32::MAX.into());
            ConfigError::check_range("burst in bytes", burst, longest.into(), most)?;
        }
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return Ok(()) };
        if state.ceiling == ceiling {
            return Ok(());
        }
        state.bucket = match (state.ceiling, ceiling) {
            (Some(before), Some(after)) => {
                let (most, _) = after.rate.time_of(after.burst, 0);
                state.bucket.at_rate(&mut self.clock, &before.rate, &after.rate, most)
            }
            _ => Bucket::full(self.clock.now()),
        };
        state.ceiling = ceiling;
        self.share(flow);
        self.return_all(flow);
        self.close(flow);
        Ok(())
    }

    /// The ceiling of `flow`, if it has one.
    #[must_use]
    pub fn ceiling(&self, flow: FlowId) -> Option<Ceiling> {
        self.flows.as_ref().get(flow.index()).and_then(|state| state.ceiling)
    }

    /// Returns true if `flow` has a ceiling and its bucket is not full.
    #[must_use]
    pub fn is_short(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index()).filter(|state| state.ceiling.is_some());
        state.is_some_and(|state| !state.bucket.lacks_at_most(self.clock.now(), 0))
    }

    /// Whether `flow` is backlogged and waits because of its ceiling.
    #[must_use]
    pub fn is_waiting(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index());
        state.is_some_and(|state| state.place == Place::Waiting)
    }

    /// The flow scheduler of the flows that do not wait.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// The flow scheduler, for what is its own: committed rates. Telling it of packets is the business of [`Ceilings`].
    pub const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// Flows that can have a ceiling are numbered below this.
    #[must_use]
    pub fn room(&self) -> u32 {
        if !Self::HAS_ROOM {
            return 0;
        }
        let tables = self.flows.as_ref().len().min(self.returns.as_ref().len());
        self.scheduler.flows().min(u32::try_from(tables).unwrap_or(u32::MAX))
    }

    /// The most bytes on the wire that a packet of `flow` takes.
    #[inline]
    fn longest(&self, flow: FlowId) -> u32 {
        let longest = self.scheduler.max_len(flow).unwrap_or(self.scheduler.needs().common_max_len);
        self.link.wire_len(longest).max(1)
    }

    /// `flow`, backlogged and not in the flow scheduler, waits; it is not booked yet.
    fn wait(&mut self, flow: FlowId) {
        self.set_place(flow, Place::Waiting);
        self.waiting = self.waiting.wrapping_add(1);
    }

    fn set_place(&mut self, flow: FlowId, place: Place) {
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            state.place = place;
        }
    }

    /// `flow`, if it waits, does so for as long as its longest packet asks for now.
    fn wait_anew(&mut self, flow: FlowId) {
        if self.is_waiting(flow) {
            self.book(flow);
        }
    }

    /// `flow` waits no more; `place` is where it is.
    fn leave(&mut self, flow: FlowId, place: Place) {
        self.set_place(flow, place);
        self.waiting = self.waiting.wrapping_sub(1);
        self.book(flow);
    }

    /// `flow`, which waits, is in the flow scheduler again.
    fn come_back(&mut self, flow: FlowId) {
        self.leave(flow, Place::Served);
        self.scheduler.backlogged(flow, ANY_LEN);
    }

    /// Puts flows back whose time has come, with their siblings.
    #[inline]
    fn recall(&mut self) {
        if Self::HAS_ROOM && self.waiting > 0 {
            self.recall_due();
        }
    }

    #[inline(never)]
    fn recall_due(&mut self) {
        for _ in 0..RETURNS_A_CALL {
            crate::steps::step();
            let Some(first) = self.first_due() else { return };
            self.come_back(first);
            self.return_open(first);
        }
    }

    /// The flow that is due longest.
    fn first_due(&self) -> Option<FlowId> {
        Returning::first(self.returns.as_ref()).filter(|first| self.is_open(*first))
    }

    /// Whether a packet of `flow` may leave now.
    fn is_open(&self, flow: FlowId) -> bool {
        let state = self.flows.as_ref().get(flow.index());
        state.is_some_and(|state| state.is_open(self.clock.now(), self.longest(flow)))
    }

    /// The rest of [`FlowScheduler::served`], of a flow with a ceiling.
    #[inline(never)]
    fn served_below_ceiling(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.scheduler.select() != Some(flow) {
            return;
        }
        let longest = self.longest(flow);
        let wire_len = self.link.wire_len(len).max(1);
        let Some(state) = self.flows.as_mut().get_mut(flow.index()) else { return };
        if let Some(ceiling) = state.ceiling {
            state.bucket.take(&mut self.clock, &ceiling.rate, wire_len);
        }
        if next_head.is_none() {
            state.place = Place::Idle;
            self.scheduler.served(flow, len, None);
        } else if state.is_open(self.clock.now(), longest) {
            self.scheduler.served(flow, len, next_head);
        } else {
            self.scheduler.served(flow, len, None);
            self.wait(flow);
        }
        self.share(flow);
        self.close(flow);
        self.recall();
    }
}

impl<O, C, W, L> FlowScheduler for Ceilings<O, C, W, L>
where
    O: FlowScheduler,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
    L: WireLength,
{
    type Config = O::Config;

    fn flows(&self) -> u32 {
        self.scheduler.flows()
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
        if Self::HAS_ROOM {
            self.clock.advance(now);
        }
    }

    fn configure(
        &mut self,
        flow: FlowId,
        config: O::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let head_len = head_len.filter(|_| !self.is_waiting(flow));
        self.scheduler.configure(flow, config, head_len)?;
        self.wait_anew(flow);
        Ok(())
    }

    /// Its ceiling is forgotten too, and it has no siblings.
    fn remove(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
        self.part(flow);
        if self.is_waiting(flow) {
            self.leave(flow, Place::Idle);
        }
        if let Some(state) = self.flows.as_mut().get_mut(flow.index()) {
            *state = CeilingFlow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.scheduler.config(flow)
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.max_len(flow)
    }

    #[inline]
    fn needs(&self) -> Needs {
        let inner = self.scheduler.needs();
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: inner.common_max_len }
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if !Self::HAS_ROOM {
            return self.scheduler.backlogged(flow, head_len);
        }
        if self.scheduler.max_len(flow).is_none() {
            return;
        }
        let longest = self.longest(flow);
        match self.flows.as_mut().get_mut(flow.index()) {
            Some(state) if state.place != Place::Idle => return,
            Some(state) if !state.is_open(self.clock.now(), longest) => {
                self.wait(flow);
                self.book(flow);
            }
            Some(state) => {
                state.place = Place::Served;
                self.scheduler.backlogged(flow, head_len);
            }
            None => self.scheduler.backlogged(flow, head_len),
        }
        self.recall();
    }

    /// To the flow scheduler a flow that waits is idle, and it changes nothing.
    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        self.scheduler.grew(flow, len);
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        self.scheduler.select()
    }

    #[inline]
    fn selected(&self) -> FlowId {
        self.scheduler.selected()
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.scheduler.upcoming(ahead)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if Self::HAS_ROOM
            && let Some(state) = self.flows.as_mut().get_mut(flow.index())
        {
            if state.ceiling.is_some() {
                return self.served_below_ceiling(flow, len, next_head);
            }
            if next_head.is_none() && self.scheduler.select() == Some(flow) {
                state.place = Place::Idle;
            }
        }
        self.scheduler.served(flow, len, next_head);
        self.recall();
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.is_waiting(flow) {
            if head.is_none() {
                self.leave(flow, Place::Idle);
            }
            return;
        }
        self.scheduler.lost(flow, len, head);
        if head.is_none()
            && let Some(state) = self.flows.as_mut().get_mut(flow.index())
        {
            state.place = Place::Idle;
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    fn waits(&self) -> bool {
        Self::HAS_ROOM
    }

    fn waiting(&self) -> Option<FlowId> {
        if !Self::HAS_ROOM || self.scheduler.select().is_some() {
            return None;
        }
        Returning::first(self.returns.as_ref())
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.waiting()?;
        let stamp = self.returns.as_ref().get(first.index())?.stamp();
        self.clock.clock_at(stamp, now)
    }

    /// Lets one flow return and no more: it is then the flow that `waiting` named.
    fn open(&mut self) {
        if Self::HAS_ROOM
            && self.scheduler.select().is_none()
            && let Some(first) = self.first_due()
        {
            self.come_back(first);
        }
    }

    /// The time of the longest packet at the ceiling.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        if !Self::HAS_ROOM {
            return Nanos::ZERO;
        }
        let ceiling = self.ceiling(flow);
        ceiling.map_or(Nanos::ZERO, |ceiling| Nanos(ceiling.rate.time_of(self.longest(flow), 0).0))
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let (returns, mut waiting) = (self.returns.as_ref(), 0_u64);
        for (at, state) in (0_u32..).zip(self.flows.as_ref()) {
            let flow = FlowId(at);
            let is_backlogged = flows(flow).backlog.packets > 0;
            let booked = (state.place != Place::Idle).into();
            Imbalance::check("backlogged below a ceiling", at, booked, is_backlogged.into())?;
            let is_waiting = state.place == Place::Waiting;
            let is_booked = returns.get(flow.index()).is_some_and(CeilingReturn::is_backlogged);
            waiting = waiting.wrapping_add(is_waiting.into());
            Imbalance::check("booked without waiting", at, (is_booked && !is_waiting).into(), 0)?;
            if is_booked {
                let booked = returns.get(flow.index()).map_or(0, CeilingReturn::stamp);
                let due = state.due(self.longest(flow));
                Imbalance::check("the time of return", at, booked, due)?;
            }
            if is_waiting {
                self.recount_booked(flow)?;
            }
            let has_ceiling = state.ceiling.is_some();
            let without = is_waiting && !has_ceiling;
            Imbalance::check("waits without a ceiling", at, 0, without.into())?;
        }
        Imbalance::check("flows that wait", 0, self.waiting.into(), waiting)?;
        self.recount_siblings()?;
        Returning::recount(returns, &|flow| {
            let key = returns.get(flow.index()).map_or(0, CeilingReturn::bytes);
            FlowState { backlog: crate::Backlog { packets: key, bytes: key }, head_len: None }
        })?;
        self.scheduler.recount(&|flow| {
            if self.is_waiting(flow) { FlowState::default() } else { flows(flow) }
        })
    }
}

#[cfg(test)]
mod tests;
