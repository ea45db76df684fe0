//! The flow scheduler of flows under each isolation.

use sched_core::{
    Ceiling, CeilingFlow, CeilingReturn, Ceilings, CommittedFlow, CommittedRate, CommittedRates,
    CommittedReturn, ConfigError, DropFrom, Drr, DrrFlow, FlowId, FlowScheduler, FlowState,
    HostDrr, HostDrrFlow, HostRing, Hosted, Imbalance, LoadDrr, LoadDrrFlow, LoadDrrHost, Nanos,
    RoundList, Side,
};

use shaper::Overhead;

use super::Storage;
use crate::isolation::{Isolation, Level};

/// Hosts by deficit round robin, those that conform to their rates before those in excess.
type Rates<S, K> = CommittedRates<
    Drr<<S as Storage>::Of<DrrFlow>>,
    <K as Storage>::Of<CommittedFlow>,
    <K as Storage>::Of<CommittedReturn>,
    Drr<<K as Storage>::Of<DrrFlow>>,
    Overhead,
>;

/// Hosts below their ceilings.
type Turned<S, K> = Ceilings<
    Rates<S, K>,
    <K as Storage>::Of<CeilingFlow>,
    <K as Storage>::Of<CeilingReturn>,
    Overhead,
>;

/// Hosts by deficit round robin, and the flows of each likewise.
pub(super) type Levels<S, K> =
    HostDrr<Turned<S, K>, <S as Storage>::Of<HostDrrFlow>, <S as Storage>::Of<HostRing>>;

/// Flows by deficit round robin, thinned out by the loads of their hosts.
pub(super) type Turns<S> = LoadDrr<
    <S as Storage>::Of<LoadDrrFlow>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<RoundList>,
>;

/// Two levels of deficit round robin, or rounds: whichever the isolation asks for. The other is idle.
#[derive(Debug)]
pub(super) struct IsolationOrder<S: Storage, K: Storage> {
    isolation: Isolation,
    /// The side that decides what goes by one side, where the isolation names none.
    local: Side,
    levels: Levels<S, K>,
    /// Knows the hosts of every flow, whatever the isolation.
    rounds: Turns<S>,
    /// The longest packet, which is the least quantum.
    max_len: u32,
    /// What packets are on the wire, for rates and ceilings.
    link: Overhead,
}

impl<S: Storage, K: Storage> IsolationOrder<S, K> {
    pub(super) const fn new(
        isolation: Isolation,
        local: Side,
        levels: Levels<S, K>,
        rounds: Turns<S>,
        max_len: u32,
    ) -> Self {
        Self { isolation, local, levels, rounds, max_len, link: Overhead::RAW }
    }

    /// Sets the quantum of a host's level, or the nearest that is in range.
    pub(super) fn set_host_quantum(&mut self, host: u32, quantum: u32) {
        let most = Drr::<S::Of<DrrFlow>>::MAX_QUANTUM;
        // Not `clamp`, which could panic were `max_len` above `most`.
        let quantum = quantum.min(most).max(self.max_len);
        let _in_range = self.levels.configure_host(host, quantum);
        debug_assert_eq!(_in_range, Ok(()), "a quantum of {quantum} for host {host}");
    }

    pub(super) fn has_room_for_rates(&self) -> bool {
        self.levels.order().room() > 0
    }

    /// What packets are on the wire, from now on.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.link = link;
        let ceilings = self.levels.order_mut();
        ceilings.set_link(link);
        ceilings.order_mut().set_link(link);
    }

    /// The rate and the ceiling of the host in `slot`, if there is room for them. `is_back` says that
    /// the host was the last one there: it has the buckets that it left. Another has full ones.
    pub(super) fn set_host_rates(
        &mut self,
        slot: u32,
        is_back: bool,
        rate: Option<CommittedRate>,
        ceiling: Option<Ceiling>,
    ) {
        let (flow, ceilings) = (FlowId(slot), self.levels.order_mut());
        if flow.0 >= ceilings.room() {
            return;
        }
        let longest = self.link.wire_len(self.max_len).max(1);
        let rate = rate.map(|rate| rate.with_burst_of_at_least(longest));
        let ceiling = ceiling.map(|ceiling| ceiling.with_burst_of_at_least(longest));
        if !is_back {
            let _known = ceilings.set_ceiling(flow, None);
            let _known = ceilings.order_mut().set_rate(flow, None);
        }
        // The rate first: a host that comes back below its ceiling is looked at once.
        let _in_range = ceilings.order_mut().set_rate(flow, rate);
        debug_assert_eq!(_in_range, Ok(()), "{rate:?} for host {flow:?}");
        let _in_range = ceilings.set_ceiling(flow, ceiling);
        debug_assert_eq!(_in_range, Ok(()), "{ceiling:?} for host {flow:?}");
    }

    pub(super) const fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whose spare queue a flow goes to that finds its set full.
    pub(super) const fn spares_of(&self) -> Level {
        self.isolation.spares_of(self.local)
    }

    pub(super) const fn in_rounds(&self) -> bool {
        matches!(self.isolation, Isolation::TripleIsolate)
    }

    /// Another isolation, while no flow is backlogged; all hosts have this quantum again, no rate and no ceiling.
    pub(super) fn set_isolation(&mut self, isolation: Isolation, host_quantum: u32) {
        self.isolation = isolation;
        for host in 0..Hosted::hosts(&self.levels) {
            self.set_host_quantum(host, host_quantum);
            self.set_host_rates(host, false, None, None);
        }
    }

    /// Makes `flow`, which is idle, one of these hosts.
    pub(super) fn assign(&mut self, flow: FlowId, source: u32, destination: u32) {
        // Refused for hosts or flows without room: the tables have been measured at construction.
        let _known = self.rounds.assign(flow, source, destination);
        debug_assert_eq!(_known, Ok(()), "the tables have room for flow {flow:?} and its hosts");
        let host = match self.isolation.level() {
            Level::None => 0,
            Level::Source => source,
            Level::Destination => destination,
        };
        let _known = self.levels.assign(flow, host);
        debug_assert_eq!(_known, Ok(()), "flow {flow:?} is idle, and host {host} exists");
    }

    /// The slots of the source and destination host of `flow`.
    pub(super) fn assigned(&self, flow: FlowId) -> Option<(u32, u32)> {
        self.rounds.assigned(flow)
    }
}

impl<S: Storage, K: Storage> FlowScheduler for IsolationOrder<S, K> {
    /// The quantum in bytes.
    type Config = u32;

    fn flows(&self) -> u32 {
        self.levels.flows().min(self.rounds.flows())
    }

    /// Rounds know no time.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.levels.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        // Both have the same flows and the same range.
        self.levels.configure(flow, quantum, head_len)?;
        self.rounds.configure(flow, quantum, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.levels.remove(flow);
        self.rounds.remove(flow);
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.levels.config(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.levels.max_len(flow)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.max_len // what both were made for
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if self.in_rounds() {
            self.rounds.backlogged(flow, head_len);
        } else {
            self.levels.backlogged(flow, head_len);
        }
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        if self.in_rounds() {
            self.rounds.grew(flow, len);
        } else {
            self.levels.grew(flow, len);
        }
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        if self.in_rounds() { self.rounds.select() } else { self.levels.select() }
    }

    fn waits(&self) -> bool {
        self.levels.waits()
    }

    /// No flow waits in rounds.
    fn waiting(&self) -> Option<FlowId> {
        if self.in_rounds() { None } else { self.levels.waiting() }
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        if self.in_rounds() { None } else { self.levels.opens_at(now) }
    }

    fn open(&mut self) {
        self.levels.open();
    }

    /// Nothing in rounds.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        if self.in_rounds() { Nanos::ZERO } else { self.levels.pace(flow) }
    }

    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.in_rounds() {
            self.rounds.served(flow, len, next_head);
        } else {
            self.levels.served(flow, len, next_head);
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.in_rounds() {
            self.rounds.lost(flow, len, head);
        } else {
            self.levels.lost(flow, len, head);
        }
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        if self.in_rounds() { self.rounds.upcoming(ahead) } else { self.levels.upcoming(ahead) }
    }

    /// [`LongestHostDrop`](sched_core::LongestHostDrop) above says which flow gives way.
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    fn counts_bytes(&self) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let idle = |_| FlowState::default();
        let (levels, rounds): (&dyn Fn(FlowId) -> FlowState, &dyn Fn(FlowId) -> FlowState) =
            if self.in_rounds() { (&idle, flows) } else { (flows, &idle) };
        self.levels.recount(levels)?;
        self.rounds.recount(rounds)
    }
}

impl<S: Storage, K: Storage> Hosted for IsolationOrder<S, K> {
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        if self.in_rounds() { self.rounds.host_of(flow) } else { self.levels.host_of(flow) }
    }

    fn hosts(&self) -> u32 {
        self.levels.hosts().max(self.rounds.hosts())
    }

    fn flows_of(&self, host: u32) -> u32 {
        if self.in_rounds() { self.rounds.flows_of(host) } else { self.levels.flows_of(host) }
    }
}
