//! Deficit round robin in which a flow has a turn every n-th round, n being the flows it shares a host
//! with: CAKE's host isolation without its visits.
//!
//! CAKE divides the quantum of a flow by the load of its hosts, and visits a flow again and again until
//! the small quanta suffice for a packet. Here the quantum stays whole and the turns become rare: a flow
//! whose more loaded host has n backlogged flows has its next turn n rounds later. A calendar of rounds
//! finds it; no flow is visited in vain.
//!
//! **Promises.** The *load* of a flow is the number of backlogged flows, itself included, of its source
//! host or of its destination host, whichever [counts](Sides) and is more, and at least 1.
//!
//! - While loads stay as they are, a backlogged flow of load n sends `Q/n` bytes a round, up to the `Q` and
//!   the longest packet of a turn under way. Where one side counts, all its backlogged hosts therefore
//!   send the same; where both do, the shares are those of CAKE's triple isolation (CAKE §III, Fig. 3).
//! - A turn that is placed keeps its place: a load that changes counts from the next turn.
//! - A flow is on a list if and only if it is backlogged.
//! - As in [`Drr`](crate::Drr), only service changes what a flow owes and from when on it may have another turn;
//!   a flow that loses its last packet in a turn is like a flow that has sent it.
//! - With [sparse flows first](LoadDrr::sparse_first), at most `m + 15` flows of a host of the limited side begin a
//!   turn early in `m` rounds: one a round, and 15 saved up ([`LoadDrr::SAVED_UP`]). The limited side is the one
//!   that counts, and where both do, the one of [`LoadDrr::with_hosts_of`].
//! - A flow has one turn in as many rounds as its load, with sparse flows first in pieces if it empties. Take
//!   an interval in which another flow of the same load stays backlogged and has `n` turns. In it the flow
//!   sends at most `(n + 2)·Q + L − 1` bytes, and without sparse flows first `(n + 1)·Q + L − 1`
//!   (`docs/guarantees.md`).
//!
//! - With several [tins](LoadDrr::set_tins) each has rounds of its own, and all the above holds within a tin, of what the tin
//!   is sent. What that is [`TinChoice`] says.
//! - [Siblings](LoadDrr::join) are one host in loads: the flows of all of them count. So a host that has a number in each tin
//!   divides one share among its flows in all tins. Early turns are limited for each number.
//!
//! **Not promised.**
//!
//! - The load is at most the length of the calendar of a tin less one. A host with more flows than that has more than one host's
//!   share: its flows share as if they were only as many.
//! - With sparse flows first, a host of the limited side that always has a fresh flow ready has up to a turn a round
//!   beside the turns of its standing flows.
//! - Rounds are counted in 32 bits. A flow or host that was idle for 2^31 rounds may once count as not yet due, and
//!   then waits for at most one length of the calendar.
//!
//! **Cost.** O(1) per call without a loop: two counters of hosts, and two words of bits for the next round
//! that has turns; with several tins, that of [`TinChoice`] as well. Where hosts have siblings, a flow that becomes backlogged or
//! idle tells those of its hosts: at most seven of each side. Memory: 32 bytes a flow, 16 a host of either side and 8 a round of
//! the calendar, and 1.4 kilobytes.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, 2018, §III-A and Algorithm 2 (a
//! load counts all active flows; the quantum is divided by it); Shreedhar & Varghese 1996 and RFC 8290 §4
//! for the rest, as in [`Drr`](crate::Drr). Where and why this departs from them: `docs/disciplines/hosts.md`.

mod calendar;
mod flow;
mod hosts;
mod tins;
mod turns;

pub use calendar::RoundList;
pub use flow::LoadDrrFlow;
pub use hosts::{LoadDrrHost, Side, Sides};

use crate::disciplines::drr::ring::{RingFlow, debt};
use crate::disciplines::tins::{TinChoice, TinConfig};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::hosts::hosted::Hosted;
use crate::hosts::token_bucket::{AsBooked, WireLength};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos};
use calendar::Calendar;
use flow::{Place, Standing};
use hosts::Loads;
use tins::TinRounds;

/// Deficit round robin over the flows in the memory `N`, thinned out by the hosts in `S` (sources) and
/// `D` (destinations), with a calendar of rounds in `W`.
///
/// [`FlowScheduler::Config`] is the quantum in bytes: how much a flow may send in its turn. Every flow
/// belongs to host 0 of either side until it is [assigned](LoadDrr::assign), and to tin 0 until it is
/// [assigned](LoadDrr::assign_tin) to another. A host counts its flows in all tins together: a host that has a share in
/// each tin is one number in each, and where these are [siblings](LoadDrr::join) its flows in all tins have one share.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, RoundList, LoadDrr, LoadDrrFlow, LoadDrrHost};
///
/// let hosts = [LoadDrrHost::EMPTY; 2];
/// let mut rounds = LoadDrr::new([LoadDrrFlow::EMPTY; 3], hosts, hosts, [RoundList::EMPTY; 8], 1_500)?;
/// rounds.add_all(1_500)?;
/// // Flows 0 and 1 are of source host 0, flow 2 of host 1; they go to the same destination...
/// rounds.assign(FlowId(2), 1, 0)?;
/// // ... which does not count.
/// rounds.set_mode(sched_core::Sides::Source);
/// for flow in 0..3 {
///     rounds.backlogged(FlowId(flow), 1_500);
/// }
/// let mut sent = [0; 3];
/// for _ in 0..400 {
///     let flow = rounds.select().unwrap();
///     rounds.served(flow, 1_500, Some(1_500));
///     sent[flow.0 as usize] += 1;
/// }
/// assert_eq!(sent, [100, 100, 200]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoadDrr<N, S, D, W, L = AsBooked> {
    nodes: N,
    sources: Loads<S>,
    destinations: Loads<D>,
    /// The turns to come, tin by tin: those of its round and of the rounds after it, up to the calendar's horizon.
    calendar: Calendar<W>,
    tins: [TinRounds; TinConfig::MAX_TINS as usize],
    choice: TinChoice<L>,
    max_len: u32,
    mode: Sides,
    hosts_of: Side,
    sparse_first: bool,
    /// Whether there may be siblings.
    has_siblings: bool,
}

crate::debug::short_debug!(LoadDrr<N, S, D, W, L> { max_len, sparse_first });

impl<N, S, D, W> LoadDrr<N, S, D, W>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
{
    /// A flow scheduler of `nodes.len()` flows, none added, for packets of at most `max_len` bytes; both sides
    /// count, and there is one tin. The calendar is as long as the largest power of two that `rounds` has room for; if this
    /// length is more than the flows of any host, shares are exact. Packets are as long on the wire as they are booked. Cost:
    /// O(flows + hosts + rounds).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`](crate::Packet::MAX_LEN), each side has room
    /// for a host and for at most 2^29 − 1, and `rounds.len()` is in `2..=`[`Self::MAX_ROUNDS`]. Without room for a flow,
    /// hosts and rounds may be none as well.
    pub fn new(
        nodes: N,
        sources: S,
        destinations: D,
        rounds: W,
        max_len: u32,
    ) -> Result<Self, ConfigError> {
        Self::on_link(nodes, sources, destinations, rounds, max_len, AsBooked)
    }
}

impl<N, S, D, W, L> LoadDrr<N, S, D, W, L>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
    L: WireLength,
{
    /// The largest quantum, in bytes.
    pub const MAX_QUANTUM: u32 = RingFlow::MAX_QUANTUM;

    /// How many early turns a host has saved up at most.
    ///
    /// Early turns that a host may save up: as many of its flows may go at once before the flows that stand. Fewer delay the sparse flows of a host whose
    /// other flows empty often: `docs/disciplines/sparse.md`.
    pub const SAVED_UP: u32 = hosts::SAVED_UP;

    /// The longest calendar, in rounds.
    pub const MAX_ROUNDS: u32 = Calendar::<W>::MOST;

    /// As [`LoadDrr::new`], where packets are as long as `link` says: the rates of tins count these lengths.
    ///
    /// # Errors
    /// As [`LoadDrr::new`].
    pub fn on_link(
        mut nodes: N,
        sources: S,
        destinations: D,
        rounds: W,
        max_len: u32,
        link: L,
    ) -> Result<Self, ConfigError> {
        let choice = TinChoice::new(max_len, link)?;
        let length = rounds.as_ref().len() as u64;
        let (fewest_hosts, fewest_rounds) = if nodes.as_ref().is_empty() { (0, 0) } else { (1, 2) };
        let most = Self::MAX_ROUNDS.into();
        ConfigError::check_range("rounds of the calendar", length, fewest_rounds, most)?;
        nodes.as_mut().fill(LoadDrrFlow::EMPTY);
        Ok(Self {
            nodes,
            sources: Loads::new(sources, "source hosts", fewest_hosts)?,
            destinations: Loads::new(destinations, "destination hosts", fewest_hosts)?,
            calendar: Calendar::new(rounds),
            tins: [TinRounds::IDLE; TinConfig::MAX_TINS as usize],
            choice,
            max_len,
            mode: Sides::Both,
            hosts_of: Side::Source,
            sparse_first: false,
            has_siblings: false,
        })
    }

    /// With sparse flows first: a flow that becomes backlogged has its turn before those that stand, if its own turn
    /// would have come by now. A host has one such early turn for each round, and up to [`SAVED_UP`](Self::SAVED_UP)
    /// of them from rounds in which it had none. A flow whose host has used up its early turns has one in the first
    /// round that has one left, if this round is before that of the turn by its load. A flow that emptied before its
    /// turn was used up has the rest of the turn before the flows that stand, until its next turn is due.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// The side whose hosts [`Hosted`] names, and whose early turns are limited where both sides count: those of
    /// the source unless set. The other side has no limit then: all flows to one server are of one host
    /// there. To be set before a flow is backlogged.
    #[must_use]
    pub fn with_hosts_of(mut self, side: Side) -> Self {
        self.hosts_of = side;
        self
    }

    /// Adds every flow there is room for, or changes it, with the same quantum in bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// As [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        RingFlow::check_quantum(quantum, self.max_len)?;
        for node in self.nodes.as_mut() {
            let round = self.tins.get(node.tin() as usize).map_or(0, |tin| tin.round);
            set_quantum(node, quantum, self.max_len, round);
        }
        Ok(())
    }

    /// Makes `flow` one of the hosts `source` and `destination`. A flow that changes its host is as if it
    /// had just been added, debt forgotten; the same hosts again change nothing. Removal forgets them.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] and [`ConfigError::UnknownHost`] if there is no room for them,
    /// [`ConfigError::Backlogged`] if the flow holds packets; nothing has changed then.
    pub fn assign(
        &mut self,
        flow: FlowId,
        source: u32,
        destination: u32,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        let Some(node) = self.nodes.as_mut().get_mut(flow.index()) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        self.sources.check(source)?;
        self.destinations.check(destination)?;
        if node.is_listed() {
            return Err(ConfigError::Backlogged { flow });
        }
        if (node.source(), node.destination) != (source, destination) {
            let (quantum, tin) = (node.standing.quantum(), node.tin());
            let due = self.tins.get(tin as usize).map_or(0, |tin| tin.round);
            *node = LoadDrrFlow::idle(quantum, source, destination, tin, due);
        }
        Ok(())
    }

    /// The source and destination host of `flow`; `None` if there is no room for it.
    #[must_use]
    pub fn assigned(&self, flow: FlowId) -> Option<(u32, u32)> {
        let node = self.nodes.as_ref().get(flow.index())?;
        Some((node.source(), node.destination))
    }

    /// Whether `flow` holds packets and is sparse: it has the turn that comes before those of flows that stand. False unless
    /// [sparse flows come first](Self::sparse_first). Cost: O(1).
    #[must_use]
    pub fn is_sparse(&self, flow: FlowId) -> bool {
        self.node(flow).is_some_and(|node| node.standing.place() == Place::New)
    }

    /// Which sides count from now on. Turns that are placed keep their places.
    pub fn set_mode(&mut self, mode: Sides) {
        self.mode = mode;
        self.sources.set_counting(mode.has_source());
        self.destinations.set_counting(mode.has_destination());
    }

    /// Which sides count.
    #[must_use]
    pub const fn mode(&self) -> Sides {
        self.mode
    }

    /// Makes `host` of this side a sibling of `other`, and of all siblings of that: the load of a flow counts the flows of all
    /// of them. `host` leaves the siblings it has. A load that changes so counts from the next turn. Nothing changes for hosts
    /// that there are not, for the same host, and if `other` has seven siblings. Cost: O(siblings).
    ///
    /// ```
    /// use sched_core::{FlowId, FlowScheduler, LoadDrr, LoadDrrFlow, LoadDrrHost, RoundList, Side, Sides};
    ///
    /// let hosts = [LoadDrrHost::EMPTY; 3];
    /// let mut rounds = LoadDrr::new([LoadDrrFlow::EMPTY; 3], hosts, hosts, [RoundList::EMPTY; 8], 1_500)?;
    /// rounds.add_all(1_500)?;
    /// rounds.set_mode(Sides::Source);
    /// // Flow 0 is of host 0, flow 1 of host 1, flow 2 of host 2; the first two hosts are one.
    /// rounds.assign(FlowId(1), 1, 0)?;
    /// rounds.assign(FlowId(2), 2, 0)?;
    /// rounds.join(Side::Source, 1, 0);
    /// for flow in 0..3 {
    ///     rounds.backlogged(FlowId(flow), 1_500);
    /// }
    /// let mut sent = [0; 3];
    /// for _ in 0..400 {
    ///     let flow = rounds.select().unwrap();
    ///     rounds.served(flow, 1_500, Some(1_500));
    ///     sent[flow.0 as usize] += 1;
    /// }
    /// assert_eq!(sent, [100, 100, 200]);
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub fn join(&mut self, side: Side, host: u32, other: u32) {
        self.has_siblings = true;
        match side {
            Side::Source => self.sources.join_siblings(host, other),
            Side::Destination => self.destinations.join_siblings(host, other),
        }
    }

    /// `host` of this side has no siblings from now on. Cost: O(siblings).
    pub fn part(&mut self, side: Side, host: u32) {
        match side {
            Side::Source => self.sources.part(host),
            Side::Destination => self.destinations.part(host),
        }
    }

    /// No host has siblings from now on. Cost: O(hosts).
    pub fn part_all(&mut self) {
        self.has_siblings = false;
        self.sources.part_all();
        self.destinations.part_all();
    }

    /// How many flows of a source host are backlogged; 0 if there is no such host.
    #[must_use]
    pub fn flows_of_source(&self, host: u32) -> u32 {
        self.sources.flows_of(host)
    }

    /// How many flows of a destination host are backlogged; 0 if there is no such host.
    #[must_use]
    pub fn flows_of_destination(&self, host: u32) -> u32 {
        self.destinations.flows_of(host)
    }

    fn node(&self, flow: FlowId) -> Option<&LoadDrrFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.is_added())
    }
}

impl<N, S, D, W, L> FlowScheduler for LoadDrr<N, S, D, W, L>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
    L: WireLength,
{
    /// The quantum in bytes, from the longest packet to [`LoadDrr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Of a backlogged flow the new quantum counts at once, for a turn under way as well.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        RingFlow::check_quantum(quantum, self.max_len)?;
        let (flows, max_len) = (self.flows(), self.max_len);
        match self.nodes.as_mut().get_mut(flow.index()) {
            Some(node) if flow.0 < flows => {
                let round = self.tins.get(node.tin() as usize).map_or(0, |tin| tin.round);
                set_quantum(node, quantum, max_len, round);
            }
            _ => return Err(ConfigError::UnknownFlow { flow, flows }),
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.lost(flow, 0, None);
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            *node = LoadDrrFlow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.standing.quantum())
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
        let Some(&node) = self.node(flow) else { return };
        if node.is_listed() {
            return;
        }
        if self.choice.is_one() {
            return self.become_backlogged(0, flow, &node);
        }
        self.backlogged_in_tin(flow, &node);
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        if !self.choice.is_one() {
            return self.select_in_tin();
        }
        let [rounds, ..] = &self.tins;
        (rounds.front != NONE).then_some(FlowId(rounds.front))
    }

    /// A call for a flow that was not selected changes nothing. No length, however wrong, makes a debt of
    /// more than the longest packet less a byte.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if !self.choice.is_one() {
            return self.served_in_tin(flow, len, next_head);
        }
        let [rounds, ..] = &self.tins;
        if flow.0 == rounds.front {
            self.serve::<true>(0, flow, len, next_head);
        }
    }

    #[inline]
    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        if head.is_some() {
            return;
        }
        if self.choice.is_one() {
            self.become_idle::<true>(0, flow, None);
        } else {
            self.lost_in_tin(flow);
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

    /// For the choice among tins: rounds know no time.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.choice.advance(now);
    }

    /// The flows with a first turn, or with a turn in the round that is served, of the tin that is served.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let (nodes, tin) = (self.nodes.as_ref(), self.choice.front());
        let Some(rounds) = self.tins.get(tin as usize) else { return 0 };
        if !rounds.first_turns.is_empty() {
            return rounds.first_turns.upcoming(nodes, ahead);
        }
        let Some(front) = nodes.get(rounds.front as usize) else { return 0 };
        self.calendar.upcoming(nodes, self.calendar.at(tin, front.turn), ahead)
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
            let backlogged = flows(FlowId(at)).backlog.packets > 0;
            let listed = node.is_listed();
            Imbalance::check("listed and backlogged", at, listed.into(), backlogged.into())?;
            let quantum = node.standing.quantum();
            let in_range = (self.max_len..=Self::MAX_QUANTUM).contains(&quantum);
            let expected = node.is_added() || listed;
            Imbalance::check("a quantum in range", at, expected.into(), in_range.into())?;
            let limit = match node.standing.has_begun() {
                false => self.max_len,
                true if listed => Self::MAX_QUANTUM,
                true => quantum,
            };
            Imbalance::check("bytes charged in range", at, 1, (node.charged < limit).into())?;
        }
        let listed = nodes.iter().filter(|node| node.is_listed());
        let sources = listed.clone().map(LoadDrrFlow::source);
        self.sources.recount("flows of a source host", sources)?;
        let destinations = listed.map(|node| node.destination);
        self.destinations.recount("flows of a destination host", destinations)?;
        if !self.sparse_first {
            let none = self.tins.iter().all(|tin| tin.first_turns.is_empty());
            Imbalance::check("no first turns", 0, 1, none.into())?;
        }
        self.recount_tins()
    }
}

/// The hosts of one side: [`LoadDrr::with_hosts_of`].
impl<N, S, D, W, L> Hosted for LoadDrr<N, S, D, W, L>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
    L: WireLength,
{
    #[inline]
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        let node = self.nodes.as_ref().get(flow.index())?;
        Some(match self.hosts_of {
            Side::Source => node.source(),
            Side::Destination => node.destination,
        })
    }

    fn hosts(&self) -> u32 {
        match self.hosts_of {
            Side::Source => self.sources.count(),
            Side::Destination => self.destinations.count(),
        }
    }

    fn flows_of(&self, host: u32) -> u32 {
        match self.hosts_of {
            Side::Source => self.sources.flows_of(host),
            Side::Destination => self.destinations.flows_of(host),
        }
    }
}

fn set_quantum(node: &mut LoadDrrFlow, quantum: u32, max_len: u32, round: u32) {
    if !node.is_added() {
        node.due = round;
    }
    node.standing = node.standing.with_quantum(quantum);
    if !node.is_listed() && node.standing.has_begun() && node.charged >= quantum {
        node.standing = Standing::new(Place::Idle, quantum);
        node.charged = debt(node.charged, quantum, max_len);
    }
}

/// Whether round `a` is `b` or before it.
const fn is_not_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() <= 0
}

#[cfg(test)]
mod tests;
