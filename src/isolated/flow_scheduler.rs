//! The flow scheduler under each isolation.

use sched_core::{
    Ceiling, CeilingFlow, CeilingReturn, Ceilings, CommittedFlow, CommittedRate, CommittedRates,
    CommittedReturn, ConfigError, DropFrom, Drr, DrrFlow, FlowId, FlowScheduler, FlowState,
    HostDrr, HostDrrFlow, HostRing, Hosted, Imbalance, LoadDrr, LoadDrrFlow, LoadDrrHost, Nanos,
    Needs, RoundList, Side, TinConfig, TinDrr, TinFlow,
};

use shaper::Overhead;

use crate::isolation::{Isolation, Level};
use crate::labels::Labelled;
use crate::storage::Storage;

/// Tins, and the hosts of each by deficit round robin. In modes without a level of hosts, the host with the number of a
/// tin stands for all flows of this tin.
pub(super) type HostTins<S> = TinDrr<<S as Storage>::Of<TinFlow>, Overhead>;

/// Hosts that conform to their rates, tin by tin, before those in excess.
type Rates<S, K> = CommittedRates<
    HostTins<S>,
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

/// What the label of a flow or of a host is XORed with in a tin, for each step of its number: 2^32 divided by the golden
/// ratio. Tin 0 has the labels as they are.
const SPREAD: u32 = 0x9e37_79b9;

/// The label of a flow or of a host in a tin, where each has an entry of its own.
#[inline(always)]
pub(super) const fn label_in(tin: u8, label: u32) -> u32 {
    label ^ (tin as u32).wrapping_mul(SPREAD)
}

/// Flows by deficit round robin, thinned out by the loads of their hosts.
pub(super) type Turns<S> = LoadDrr<
    <S as Storage>::Of<LoadDrrFlow>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<RoundList>,
>;

/// The tin of a flow and the entries of its hosts, as of the last time that the flow became backlogged.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowHosts {
    /// The entry of the source, and above [`Self::TIN_SHIFT`] the tin.
    source_and_tin: u32,
    destination: u32,
}

impl FlowHosts {
    /// A flow that has not been backlogged.
    pub(super) const NONE: Self = Self { source_and_tin: 0, destination: 0 };
    /// Entries are below 2^20.
    const TIN_SHIFT: u32 = 24;

    const fn new(source: u32, destination: u32, tin: u8) -> Self {
        Self { source_and_tin: source | (tin as u32) << Self::TIN_SHIFT, destination }
    }

    const fn entries(&self) -> (u32, u32) {
        (self.source_and_tin & ((1 << Self::TIN_SHIFT) - 1), self.destination)
    }

    #[inline]
    const fn tin(&self) -> u8 {
        let [_, _, _, tin] = self.source_and_tin.to_le_bytes();
        tin
    }
}

/// The flow scheduler of an [`Isolated`](super::Isolated) queue.
///
/// Two flow schedulers: [`HostDrr`] in two levels, and [`LoadDrr`] for `triple-isolate`. The
/// isolation says which one serves, and the other is idle.
#[derive(Debug)]
pub struct IsolationScheduler<S: Storage, K: Storage, T: Storage> {
    isolation: Isolation,
    /// The side that decides what goes by one side, where the isolation names none.
    local: Side,
    levels: Levels<S, K>,
    /// The hosts of every flow, whatever the isolation.
    hosts: S::Of<FlowHosts>,
    /// Without flows, unless there is room for `triple-isolate`.
    rounds: Turns<T>,
    /// The longest packet, which is the least quantum.
    max_len: u32,
    /// What packets are on the wire, for rates and ceilings.
    link: Overhead,
    /// How many tins there are.
    tins: u8,
}

impl<S: Storage, K: Storage, T: Storage> IsolationScheduler<S, K, T> {
    pub(super) fn new(
        isolation: Isolation,
        local: Side,
        levels: Levels<S, K>,
        mut hosts: S::Of<FlowHosts>,
        rounds: Turns<T>,
        max_len: u32,
    ) -> Self {
        hosts.as_mut().fill(FlowHosts::NONE);
        Self { isolation, local, levels, hosts, rounds, max_len, link: Overhead::RAW, tins: 1 }
    }

    /// Whether the storage may hold tables of `triple-isolate`: nothing of the mode is compiled if not.
    const MAY_HAVE_TRIPLE: bool = size_of::<T::Of<LoadDrrFlow>>() > 0;

    /// Whether there is room for `triple-isolate`.
    pub(super) fn has_triple(&self) -> bool {
        Self::MAY_HAVE_TRIPLE && self.rounds.flows() > 0
    }

    /// Sets the quantum of a host's level, or the nearest that is in range.
    pub(super) fn set_host_quantum(&mut self, host: u32, quantum: u32) {
        let most = HostTins::<S>::MAX_QUANTUM;
        // Not `clamp`, which could panic were `max_len` above `most`.
        let quantum = quantum.min(most).max(self.max_len);
        // Most hosts come with the quantum that their entry has. With room for rates there are two that have to know of it.
        if !self.has_room_for_rates() && self.levels.host_config(host) == Some(quantum) {
            return;
        }
        let _in_range = self.levels.configure_host(host, quantum);
        debug_assert_eq!(_in_range, Ok(()), "a quantum of {quantum} for host {host}");
    }

    pub(super) fn has_room_for_rates(&self) -> bool {
        self.levels.scheduler().room() > 0
    }

    /// What packets are on the wire, from now on.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.link = link;
        let ceilings = self.levels.scheduler_mut();
        ceilings.set_link(link);
        let rates = ceilings.scheduler_mut();
        rates.set_link(link);
        rates.conforming_mut().set_link(link);
    }

    /// The tins and their hosts.
    pub(super) const fn host_tins(&self) -> &HostTins<S> {
        self.levels.scheduler().scheduler().conforming()
    }

    const fn host_tins_mut(&mut self) -> &mut HostTins<S> {
        self.levels.scheduler_mut().scheduler_mut().conforming_mut()
    }

    /// How many tins there are.
    pub(super) const fn tins(&self) -> u8 {
        self.tins
    }

    /// The tin of a packet with these labels. One that there is not counts as tin 0.
    #[inline(always)]
    pub(super) fn tin_of(&self, labels: &(impl Labelled + ?Sized)) -> u8 {
        if self.tins == 1 {
            return 0;
        }
        let tin = labels.tin();
        if tin < self.tins { tin } else { 0 }
    }

    /// The label by which a packet finds its queue.
    #[inline(always)]
    pub(super) fn queue_label(&self, labels: &(impl Labelled + ?Sized)) -> u32 {
        let label = self.isolation.queue_label(labels);
        if self.tins == 1 { label } else { label_in(self.tin_of(labels), label) }
    }

    /// The tin of `flow`, as of the last time that the flow became backlogged.
    #[inline]
    pub(crate) fn tin_of_flow(&self, flow: FlowId) -> u8 {
        self.hosts.as_ref().get(flow.index()).map_or(0, FlowHosts::tin)
    }

    /// Makes `entry`, which is idle, one of `tin`.
    pub(super) fn set_tin_of_entry(&mut self, entry: u32, tin: u8) {
        let _known = self.host_tins_mut().assign(FlowId(entry), tin.into());
        debug_assert_eq!(_known, Ok(()), "host {entry} is idle, and tin {tin} exists");
    }

    /// Other settings for the tins that there are.
    ///
    /// # Errors
    /// As [`TinDrr::set_tins`].
    pub(super) fn change_tins(&mut self, tins: &[TinConfig]) -> Result<(), ConfigError> {
        self.host_tins_mut().set_tins(tins)
    }

    /// Other tins, while no flow is backlogged. Flows of tin `t` are of tin `to(t)` from now on, and `tin_of_entry` says
    /// which tin the hosts are of that have a level now.
    ///
    /// # Errors
    /// As [`TinDrr::set_tins`]; nothing has changed then.
    pub(super) fn set_tins(
        &mut self,
        tins: &[TinConfig],
        to: impl Fn(u8) -> u8,
        tin_of_entry: impl Fn(u32) -> u8,
    ) -> Result<(), ConfigError> {
        self.change_tins(tins)?;
        self.tins = u8::try_from(tins.len()).unwrap_or(1);
        for hosts in self.hosts.as_mut() {
            let (source, destination) = hosts.entries();
            *hosts = FlowHosts::new(source, destination, to(hosts.tin()));
        }
        self.set_tins_of_entries(tin_of_entry);
        Ok(())
    }

    /// Tells the tins which hosts are theirs, while no flow is backlogged.
    fn set_tins_of_entries(&mut self, tin_of_entry: impl Fn(u32) -> u8) {
        let has_level = self.isolation.level() != Level::None;
        for entry in 0..Hosted::hosts(&self.levels) {
            let tin = match u8::try_from(entry) {
                _ if has_level => tin_of_entry(entry),
                Ok(tin) if tin < self.tins => tin,
                _ => 0,
            };
            self.set_tin_of_entry(entry, tin);
        }
    }

    /// The rate and the ceiling of the host in `entry`, if there is room for them. With `is_back` this
    /// host was the last one there, and has the buckets that it left. Any other host begins with full
    /// buckets.
    pub(super) fn set_host_rates(
        &mut self,
        entry: u32,
        is_back: bool,
        rate: Option<CommittedRate>,
        ceiling: Option<Ceiling>,
    ) {
        let (flow, ceilings) = (FlowId(entry), self.levels.scheduler_mut());
        if flow.0 >= ceilings.room() {
            return;
        }
        let longest = self.link.wire_len(self.max_len).max(1);
        let rate = rate.map(|rate| rate.with_burst_of_at_least(longest));
        let ceiling = ceiling.map(|ceiling| ceiling.with_burst_of_at_least(longest));
        if !is_back {
            let _known = ceilings.set_ceiling(flow, None);
            let _known = ceilings.scheduler_mut().set_rate(flow, None);
        }
        // The rate first: a host that comes back below its ceiling is looked at once.
        let _in_range = ceilings.scheduler_mut().set_rate(flow, rate);
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

    /// Only where there is room for it.
    pub(super) const fn in_rounds(&self) -> bool {
        Self::MAY_HAVE_TRIPLE && matches!(self.isolation, Isolation::TripleIsolate)
    }

    /// Another isolation, while no flow is backlogged; all hosts have this quantum again, no rate and no ceiling.
    /// `tin_of_entry` says which tin the hosts are of that have a level then.
    pub(super) fn set_isolation(
        &mut self,
        isolation: Isolation,
        host_quantum: u32,
        tin_of_entry: impl Fn(u32) -> u8,
    ) {
        self.isolation = isolation;
        for host in 0..Hosted::hosts(&self.levels) {
            self.set_host_quantum(host, host_quantum);
            self.set_host_rates(host, false, None, None);
        }
        if self.tins > 1 {
            self.set_tins_of_entries(tin_of_entry);
        }
    }

    /// Makes `flow`, which is idle, one of these hosts and of this tin.
    pub(super) fn assign(&mut self, flow: FlowId, source: u32, destination: u32, tin: u8) {
        if let Some(hosts) = self.hosts.as_mut().get_mut(flow.index()) {
            *hosts = FlowHosts::new(source, destination, tin);
        }
        if self.has_triple() {
            // Refused for hosts or flows without room: the tables have been measured at construction.
            let _known = self.rounds.assign(flow, source, destination);
            debug_assert_eq!(_known, Ok(()), "the tables have room for {flow:?} and its hosts");
        }
        let host = match self.isolation.level() {
            Level::None => tin.into(),
            Level::Source => source,
            Level::Destination => destination,
        };
        let _known = self.levels.assign(flow, host);
        debug_assert_eq!(_known, Ok(()), "flow {flow:?} is idle, and host {host} exists");
    }

    /// A service in rounds. Apart, so that the other modes do not pay for its registers.
    #[inline(never)]
    fn serve_in_rounds(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.rounds.served(flow, len, next_head);
    }

    /// The entries of the source and destination host of `flow`.
    pub(super) fn assigned(&self, flow: FlowId) -> Option<(u32, u32)> {
        self.hosts.as_ref().get(flow.index()).map(FlowHosts::entries)
    }
}

impl<S: Storage, K: Storage, T: Storage> FlowScheduler for IsolationScheduler<S, K, T> {
    /// The quantum in bytes.
    type Config = u32;

    fn flows(&self) -> u32 {
        self.levels.flows().min(u32::try_from(self.hosts.as_ref().len()).unwrap_or(u32::MAX))
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
        self.levels.configure(flow, quantum, head_len)?;
        if !self.has_triple() {
            return Ok(());
        }
        // Both have the same flows and the same range.
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
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
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

    #[inline(always)] // for each packet, from one place
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.in_rounds() {
            self.serve_in_rounds(flow, len, next_head);
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

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let idle = |_| FlowState::default();
        let (levels, rounds): (&dyn Fn(FlowId) -> FlowState, &dyn Fn(FlowId) -> FlowState) =
            if self.in_rounds() { (&idle, flows) } else { (flows, &idle) };
        self.levels.recount(levels)?;
        Imbalance::check("tins", 0, self.host_tins().tins().into(), self.tins.into())?;
        for (flow, hosts) in (0..).zip(self.hosts.as_ref()) {
            let has_tin = hosts.tin() < self.tins;
            Imbalance::check("a tin that there is", flow, 1, has_tin.into())?;
        }
        self.rounds.recount(rounds)
    }
}

impl<S: Storage, K: Storage, T: Storage> Hosted for IsolationScheduler<S, K, T> {
    /// None, where hosts have no share of their own.
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        if self.in_rounds() {
            return self.rounds.host_of(flow);
        }
        match self.isolation.level() {
            Level::None => None,
            Level::Source | Level::Destination => self.levels.host_of(flow),
        }
    }

    fn hosts(&self) -> u32 {
        self.levels.hosts().max(self.rounds.hosts())
    }

    fn flows_of(&self, host: u32) -> u32 {
        if self.in_rounds() { self.rounds.flows_of(host) } else { self.levels.flows_of(host) }
    }
}
