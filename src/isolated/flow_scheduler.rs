//! The flow scheduler under each isolation.

use core::fmt;

use sched_core::{
    Ceiling, CeilingFlow, CeilingReturn, Ceilings, CommittedFlow, CommittedRate, CommittedRates,
    CommittedReturn, ConfigError, DropFrom, Drr, DrrFlow, FlowId, FlowScheduler, FlowState,
    HostDrr, HostDrrFlow, HostRing, Hosted, Imbalance, LoadDrr, LoadDrrFlow, LoadDrrHost, Nanos,
    Needs, RoundList, Side, TinChoice, TinConfig, TinDrr, TinFlow, TinRings, Volume,
};

use shaper::Overhead;

use super::host_table::InTins;
use crate::isolation::{Isolation, Level};
use crate::labels::Labelled;
use crate::storage::Storage;

/// Tins, and the hosts of each by deficit round robin.
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
pub(crate) const fn label_in(tin: u8, label: u32) -> u32 {
    label ^ (tin as u32).wrapping_mul(SPREAD)
}

/// Tins, and the flows of each by deficit round robin, thinned out by the loads of their hosts.
pub(super) type Turns<S> = LoadDrr<
    <S as Storage>::Of<LoadDrrFlow>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<LoadDrrHost>,
    <S as Storage>::Of<RoundList>,
    Overhead,
>;

/// The tin of a flow and the entries of its hosts, as of the last time that the flow became backlogged.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowHosts {
    /// The entry of the source; above it [`Self::IN_TINS`], [`Self::COUNTS`] and [`Self::UNNAMED`]; above [`Self::TIN_SHIFT`] the tin.
    source_and_tin: u32,
    destination: u32,
}

impl FlowHosts {
    /// A flow that has not been backlogged.
    pub(super) const NONE: Self = Self { source_and_tin: 0, destination: 0 };
    /// Entries are below 2^20.
    const ENTRY: u32 = (1 << 20) - 1;
    /// Set if the flow, while it holds packets, counts in the entries.
    const COUNTS: u32 = 1 << 22;
    /// Set if the entries are those of hosts without a name.
    const UNNAMED: u32 = 1 << 23;
    /// Set if there are several tins.
    const IN_TINS: u32 = 1 << 21;
    const TIN_SHIFT: u32 = 24;

    pub(super) const fn new((source, destination): (u32, u32), of: InTins) -> Self {
        Self { source_and_tin: source | Self::COUNTS, destination }.in_tin(of)
    }

    /// Of a flow whose hosts do not count.
    pub(super) const fn without(tin: u8) -> Self {
        Self { source_and_tin: (tin as u32) << Self::TIN_SHIFT, destination: 0 }
    }

    /// The same, where no packet has named the hosts.
    pub(super) const fn unnamed(self) -> Self {
        Self { source_and_tin: self.source_and_tin | Self::UNNAMED, ..self }
    }

    /// Whether the flow counts in entries of hosts that a packet has named.
    #[inline]
    pub(super) const fn has_names(&self) -> bool {
        self.source_and_tin & (Self::COUNTS | Self::UNNAMED) == Self::COUNTS
    }

    /// Whether the flow [has names](Self::has_names), and there is one tin.
    #[inline]
    pub(super) const fn is_plain(&self) -> bool {
        self.source_and_tin & (Self::COUNTS | Self::UNNAMED | Self::IN_TINS) == Self::COUNTS
    }

    /// Whether the flow is of one of several tins.
    pub(super) const fn is_in_tins(&self) -> bool {
        self.source_and_tin & Self::IN_TINS != 0
    }

    /// The entries in which the flow counts while it holds packets.
    pub(super) const fn entries(&self) -> Option<(u32, u32)> {
        if self.source_and_tin & Self::COUNTS == 0 { None } else { Some(self.numbers()) }
    }

    /// The numbers of the entries; zero if the flow counts in none.
    #[inline]
    pub(super) const fn numbers(&self) -> (u32, u32) {
        (self.source_and_tin & Self::ENTRY, self.destination)
    }

    #[inline]
    const fn tin(&self) -> u8 {
        let [_, _, _, tin] = self.source_and_tin.to_le_bytes();
        tin
    }

    const fn in_tin(self, InTins { tin, tins }: InTins) -> Self {
        let rest = self.source_and_tin & ((1 << Self::TIN_SHIFT) - 1) & !Self::IN_TINS;
        let several = if tins > 1 { Self::IN_TINS } else { 0 };
        Self { source_and_tin: rest | several | (tin as u32) << Self::TIN_SHIFT, ..self }
    }
}

/// What serves, by the isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Hosts, and the flows of each.
    Levels,
    /// Flows by their tins.
    Flows,
    /// Flows by the loads of their hosts.
    Rounds,
}

impl Service {
    const fn of(isolation: Isolation) -> Self {
        match isolation {
            Isolation::TripleIsolate => Self::Rounds,
            Isolation::DualSrcHost | Isolation::DualDstHost => Self::Levels,
            _ => Self::Flows,
        }
    }
}

/// The flow scheduler of an [`Isolated`](super::Isolated) queue.
///
/// Three flow schedulers: [`HostDrr`] in two levels, [`TinRings`] where hosts do not count, and [`LoadDrr`] for
/// `triple-isolate`. The isolation says which one serves, and the others are idle. The first two have their flows and tins
/// in common.
pub struct IsolationScheduler<S: Storage, K: Storage, T: Storage> {
    isolation: Isolation,
    service: Service,
    /// The side that decides what goes by one side, where the isolation names none.
    local: Side,
    levels: Levels<S, K>,
    /// The flows of `levels`, where hosts do not count.
    flows: TinRings,
    /// The tin and the hosts of every flow.
    hosts: S::Of<FlowHosts>,
    /// The [holder](super::holders) of each entry that is claimed, where there are several tins.
    holders: S::Of<u32>,
    /// Without flows, unless there is room for `triple-isolate`.
    rounds: Turns<T>,
    /// The longest packet, which is the least quantum.
    max_len: u32,
    /// What packets are on the wire, for rates and ceilings.
    link: Overhead,
    /// How many tins there are.
    tins: u8,
    /// What the label of a packet is XORed with in its tin: nothing in tin 0, nor in one that there is not.
    spreads: [u32; TinConfig::MAX_TINS as usize],
    /// Whether a host has one share in all tins together.
    hosts_across_tins: bool,
}

/// Without the tables.
impl<S: Storage, K: Storage, T: Storage> fmt::Debug for IsolationScheduler<S, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolationScheduler")
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

impl<S: Storage, K: Storage, T: Storage> IsolationScheduler<S, K, T> {
    pub(super) fn new(
        isolation: Isolation,
        local: Side,
        levels: Levels<S, K>,
        mut hosts: S::Of<FlowHosts>,
        holders: S::Of<u32>,
        rounds: Turns<T>,
        max_len: u32,
    ) -> Self {
        hosts.as_mut().fill(FlowHosts::NONE);
        let mut scheduler = Self {
            isolation,
            service: Service::of(isolation),
            local,
            levels,
            flows: TinRings::new(max_len).sparse_first(),
            hosts,
            holders,
            rounds,
            max_len,
            link: Overhead::RAW,
            tins: 1,
            spreads: [0; TinConfig::MAX_TINS as usize],
            hosts_across_tins: false,
        };
        scheduler.lend_tins();
        scheduler
    }

    /// Whether the storage may hold tables of `triple-isolate`: nothing of the mode is compiled if not.
    const MAY_HAVE_TRIPLE: bool = size_of::<T::Of<LoadDrrFlow>>() > 0;

    /// Whether there is room for `triple-isolate`.
    pub(super) fn has_triple(&self) -> bool {
        Self::MAY_HAVE_TRIPLE && self.rounds.flows() > 0
    }

    /// Sets the quantum of a host's level, or the nearest that is in range; where a host has one share in all tins, as many
    /// quanta as there are tins.
    pub(super) fn set_host_quantum(&mut self, host: u32, quantum: u32) {
        let turn = self.quanta_of_a_turn();
        // With one share over tins a turn of the most quanta stays in range. Not `clamp`, which could panic were
        // `max_len` above `most`.
        let most = HostTins::<S>::MAX_QUANTUM >> if turn > 1 { 3 } else { 0 };
        let quantum = quantum.min(most).max(self.max_len).wrapping_mul(turn);
        // Most hosts come with the quantum that their entry has. With room for rates there are two that have to know of it.
        if !self.has_room_for_rates() && self.levels.host_config(host) == Some(quantum) {
            return;
        }
        let _in_range = self.levels.configure_host(host, quantum);
        debug_assert_eq!(_in_range, Ok(()), "a quantum of {quantum} for host {host}");
    }

    /// How many quanta a turn of a host is worth. What the host is sent in other tins is taken from its turn: with one share
    /// over tins a quantum must be left even to a host that is backlogged in all of them.
    const fn quanta_of_a_turn(&self) -> u32 {
        if self.hosts_across_tins { self.tins as u32 } else { 1 }
    }

    /// Whether a host has one share in all tins together.
    pub(super) const fn hosts_across_tins(&self) -> bool {
        self.hosts_across_tins
    }

    /// From now on a host has one share in all tins together, or one in each. Cost: O(hosts).
    pub(super) fn set_hosts_across_tins(&mut self, on: bool) {
        if on == self.hosts_across_tins {
            return;
        }
        let before = self.quanta_of_a_turn();
        self.hosts_across_tins = on;
        self.part_all_entries();
        self.set_turns(before);
    }

    /// Turns of hosts, which were of `before` quanta, are of as many as there should be now.
    fn set_turns(&mut self, before: u32) {
        if before == self.quanta_of_a_turn() {
            return;
        }
        for host in 0..Hosted::hosts(&self.levels) {
            let Some(turn) = self.levels.host_config(host) else { continue };
            self.set_host_quantum(host, turn.checked_div(before).unwrap_or(turn));
        }
    }

    /// The host of this side in `entry` is the one in `other`, which is in another tin.
    pub(super) fn join_entries(&mut self, side: Side, entry: u32, other: u32) {
        match self.service() {
            Service::Levels => self.host_tins_mut().join(FlowId(entry), FlowId(other)),
            Service::Flows => {}
            Service::Rounds => self.rounds.join(side, entry, other),
        }
    }

    /// The host of this side in `entry` is in no other entry, as far as is known.
    pub(super) fn part_entry(&mut self, side: Side, entry: u32) {
        match self.service() {
            Service::Levels => self.host_tins_mut().part(FlowId(entry)),
            Service::Flows => {}
            Service::Rounds => self.rounds.part(side, entry),
        }
    }

    /// No host is in several entries, as far as is known.
    fn part_all_entries(&mut self) {
        self.host_tins_mut().part_all();
        self.rounds.part_all();
    }

    /// The holder of `entry`, which is claimed.
    pub(super) fn holder_of(&self, entry: u32) -> Option<u32> {
        if self.tins == 1 {
            Some(entry)
        } else {
            self.holders.as_ref().get(entry as usize).copied()
        }
    }

    /// `entry` is of `holder` while it is claimed.
    pub(super) fn set_holder(&mut self, entry: u32, holder: u32) {
        if let Some(of_entry) = self.holders.as_mut().get_mut(entry as usize) {
            *of_entry = holder;
        }
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
        self.rounds.set_link(link);
    }

    /// The tins and their hosts.
    pub(super) const fn host_tins(&self) -> &HostTins<S> {
        self.levels.scheduler().scheduler().conforming()
    }

    const fn host_tins_mut(&mut self) -> &mut HostTins<S> {
        self.levels.scheduler_mut().scheduler_mut().conforming_mut()
    }

    /// What `tin` has been sent since there are several, or since there is this one.
    pub(super) fn served_in(&self, tin: u8) -> Volume {
        let choice = match self.service() {
            Service::Levels | Service::Flows => self.host_tins().choice(),
            Service::Rounds => self.rounds.choice(),
        };
        choice.served_in(tin.into())
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
        self.queue_label_in(labels.tin(), labels)
    }

    /// The label by which a packet that names `tin` finds its queue.
    #[inline(always)]
    pub(super) fn queue_label_in(&self, tin: u8, labels: &(impl Labelled + ?Sized)) -> u32 {
        let spread = self.spreads.get(usize::from(tin)).copied().unwrap_or(0);
        self.isolation.queue_label(labels) ^ spread
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
        self.host_tins_mut().set_tins(tins)?;
        if !self.has_triple() {
            return Ok(());
        }
        // Without room for the rounds of all tins `triple-isolate` is refused.
        let in_room =
            if self.has_rounds_for(tins.len()) { tins } else { tins.get(..1).unwrap_or(tins) };
        self.rounds.set_tins(in_room)
    }

    /// How many rounds `tins` tins need under `triple-isolate`.
    pub(super) const fn rounds_for(tins: usize) -> usize {
        tins.saturating_mul(Turns::<T>::ROUNDS_PER_TIN as usize)
    }

    /// How many rounds there is room for.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.rounds() as usize
    }

    /// Whether there is room for the rounds of `tins` tins.
    fn has_rounds_for(&self, tins: usize) -> bool {
        self.rounds() >= Self::rounds_for(tins)
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
        let before = self.quanta_of_a_turn();
        self.tins = u8::try_from(tins.len()).unwrap_or(1);
        for (tin, spread) in (0..).zip(&mut self.spreads) {
            *spread = if tin < self.tins { label_in(tin, 0) } else { 0 };
        }
        self.set_turns(before);
        if self.tins == 1 {
            // While there is one tin, nothing parts an entry that another host claims from those of the host before.
            self.part_all_entries();
        }
        for (flow, hosts) in (0..).map(FlowId).zip(self.hosts.as_mut()) {
            let tin = to(hosts.tin());
            *hosts = hosts.in_tin(InTins { tin, tins: self.tins });
            if self.rounds.tins() > 1 {
                let _known = self.rounds.assign_tin(flow, tin.into());
                debug_assert_eq!(_known, Ok(()), "flow {flow:?} is idle, and tin {tin} exists");
            }
        }
        self.set_tins_of_entries(tin_of_entry);
        Ok(())
    }

    /// Tells the tins which hosts are theirs, while no flow is backlogged.
    fn set_tins_of_entries(&mut self, tin_of_entry: impl Fn(u32) -> u8) {
        if self.isolation.level() == Level::None {
            return;
        }
        for entry in 0..Hosted::hosts(&self.levels) {
            self.set_tin_of_entry(entry, tin_of_entry(entry));
        }
    }

    /// The host in `entry` is another than the last one there: it has neither rate nor ceiling, and none of its other entries is
    /// known.
    pub(super) fn clear_host_rates(&mut self, entry: u32) {
        self.part_host_rates(entry);
        let (flow, ceilings) = (FlowId(entry), self.levels.scheduler_mut());
        if flow.0 >= ceilings.room() {
            return;
        }
        let _known = ceilings.set_ceiling(flow, None);
        let _known = ceilings.scheduler_mut().set_rate(flow, None);
    }

    /// Whether a bucket of the host that had `entry` last is not full: with new ones the host would
    /// have more.
    pub(super) fn is_short(&self, entry: u32) -> bool {
        let ceilings = self.levels.scheduler();
        ceilings.is_short(FlowId(entry)) || ceilings.scheduler().is_short(FlowId(entry))
    }

    /// The quantum of the host in `entry`, in bytes.
    pub(super) fn host_quantum(&self, entry: u32) -> Option<u32> {
        let turn = self.levels.host_config(entry)?;
        turn.checked_div(self.quanta_of_a_turn())
    }

    /// `entry` has its rate, its ceiling and its buckets by itself, as they are.
    pub(super) fn part_host_rates(&mut self, entry: u32) {
        let ceilings = self.levels.scheduler_mut();
        ceilings.part(FlowId(entry));
        ceilings.scheduler_mut().part(FlowId(entry));
    }

    /// The host in `entry` is the one in `other`, which is in another tin: it has the rate, the ceiling and the buckets of that,
    /// together with it.
    pub(super) fn join_host_rates(&mut self, entry: u32, other: u32) {
        let ceilings = self.levels.scheduler_mut();
        // The rate first: one that returns below its ceiling is looked at once.
        // Refused without room for rates, where there is nothing to join, and beyond eight entries of one host.
        let _refused = ceilings.scheduler_mut().join(FlowId(entry), FlowId(other));
        let _refused = ceilings.join(FlowId(entry), FlowId(other));
    }

    /// The rate and the ceiling of the host in `entry`, and in the entries that are joined, if there is room for them. A first
    /// rate and a first ceiling have full buckets.
    pub(super) fn set_host_rates(
        &mut self,
        entry: u32,
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

    /// Whether `flow` holds packets and comes before those that stand.
    pub(super) fn is_sparse(&self, flow: FlowId) -> bool {
        match self.service() {
            // Both have the same flows.
            Service::Levels | Service::Flows => self.levels.is_sparse(flow),
            Service::Rounds => self.rounds.is_sparse(flow),
        }
    }

    /// Whether hosts count.
    #[inline]
    pub(super) fn counts_hosts(&self) -> bool {
        self.service != Service::Flows
    }

    /// What serves. Rounds only where there is room for them.
    #[inline(always)]
    fn service(&self) -> Service {
        match self.service {
            Service::Rounds if !Self::MAY_HAVE_TRIPLE => Service::Levels,
            service => service,
        }
    }

    /// Lets those have the tins who serve by them.
    fn lend_tins(&mut self) {
        let is_lent = self.service == Service::Flows;
        self.host_tins_mut().lend(is_lent);
    }

    /// The rings of flows, the flows, and the choice among tins.
    #[inline(always)]
    fn flows_parts(&mut self) -> (&mut TinRings, &mut [HostDrrFlow], &mut TinChoice<Overhead>) {
        let (hosts, nodes) = self.levels.parts_mut();
        (&mut self.flows, nodes, hosts.scheduler_mut().conforming_mut().choice_mut())
    }

    /// Another isolation, while no flow is backlogged; all hosts have this quantum again, no rate and no ceiling.
    /// `tin_of_entry` says which tin the hosts are of that have a level then.
    pub(super) fn set_isolation(
        &mut self,
        isolation: Isolation,
        host_quantum: u32,
        tin_of_entry: impl Fn(u32) -> u8,
    ) {
        let had_rounds = self.service() == Service::Rounds;
        (self.isolation, self.service) = (isolation, Service::of(isolation));
        self.lend_tins();
        // An entry is another host's if its side has the level.
        self.part_all_entries();
        for host in 0..Hosted::hosts(&self.levels) {
            self.set_host_quantum(host, host_quantum);
            self.clear_host_rates(host);
        }
        if self.tins > 1 {
            self.set_tins_of_entries(tin_of_entry);
        }
        if had_rounds != (self.service() == Service::Rounds) {
            // What a tin owes, and what it has to its credit, stays.
            if had_rounds {
                let choice = *self.rounds.choice();
                *self.host_tins_mut().choice_mut() = choice;
            } else {
                let choice = *self.host_tins().choice();
                self.rounds.go_on_with(&choice);
            }
        }
    }

    /// Notes the tin and the hosts of `flow`.
    pub(super) fn note_hosts(&mut self, flow: FlowId, hosts: FlowHosts) {
        if let Some(noted) = self.hosts.as_mut().get_mut(flow.index()) {
            *noted = hosts;
        }
    }

    /// Makes `flow`, which is idle, one of these hosts and of this tin.
    pub(super) fn assign(&mut self, flow: FlowId, hosts: FlowHosts) {
        self.note_hosts(flow, hosts);
        let (source, destination) = hosts.numbers();
        if !self.counts_hosts() {
            let (rings, nodes, _) = self.flows_parts();
            return rings.assign(nodes, flow, hosts.tin().into());
        }
        if self.has_triple() {
            // Refused for hosts or flows without room: the tables have been measured at construction.
            let _known = self.rounds.assign(flow, source, destination);
            debug_assert_eq!(_known, Ok(()), "the tables have room for {flow:?} and its hosts");
            if self.rounds.tins() > 1 {
                let _known = self.rounds.assign_tin(flow, hosts.tin().into());
                debug_assert_eq!(_known, Ok(()), "flow {flow:?} is idle, and its tin exists");
            }
        }
        let host = match self.isolation.level() {
            Level::None => hosts.tin().into(),
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

    /// The tin and the hosts of `flow`, as of the last time that the flow became backlogged.
    #[inline]
    pub(super) fn hosts_of(&self, flow: FlowId) -> Option<FlowHosts> {
        self.hosts.as_ref().get(flow.index()).copied()
    }

    /// The entries of the source and destination host of `flow`, where hosts count.
    pub(super) fn assigned(&self, flow: FlowId) -> Option<(u32, u32)> {
        self.hosts_of(flow)?.entries()
    }
}

impl<S: Storage, K: Storage, T: Storage> FlowScheduler for IsolationScheduler<S, K, T> {
    /// The quantum in bytes.
    type Config = u32;

    fn flows(&self) -> u32 {
        self.levels.flows().min(u32::try_from(self.hosts.as_ref().len()).unwrap_or(u32::MAX))
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.levels.advance(now);
        if Self::MAY_HAVE_TRIPLE {
            self.rounds.advance(now);
        }
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
        if self.service() == Service::Flows {
            let (rings, nodes, choice) = self.flows_parts();
            rings.lost(nodes, choice, flow, None);
        }
        self.levels.remove(flow);
        self.rounds.remove(flow);
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.levels.config(flow)
    }

    /// All flows and hosts accept the same.
    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.levels.config(flow).map(|_| self.max_len)
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        match self.service() {
            Service::Levels => self.levels.backlogged(flow, head_len),
            Service::Flows => {
                let (rings, nodes, choice) = self.flows_parts();
                rings.backlogged(nodes, choice, flow);
            }
            Service::Rounds => self.rounds.backlogged(flow, head_len),
        }
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        match self.service() {
            Service::Levels => self.levels.grew(flow, len),
            Service::Flows => {}
            Service::Rounds => self.rounds.grew(flow, len),
        }
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        match self.service() {
            Service::Levels => self.levels.select(),
            Service::Flows => self.flows.select(self.levels.nodes(), self.host_tins().choice()),
            Service::Rounds => self.rounds.select(),
        }
    }

    fn waits(&self) -> bool {
        self.levels.waits()
    }

    /// Only hosts wait, and in levels only.
    fn waiting(&self) -> Option<FlowId> {
        if self.service == Service::Levels { self.levels.waiting() } else { None }
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        if self.service == Service::Levels { self.levels.opens_at(now) } else { None }
    }

    fn open(&mut self) {
        self.levels.open();
    }

    /// Nothing but in levels.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        if self.service() == Service::Rounds { Nanos::ZERO } else { self.levels.pace(flow) }
    }

    #[inline(always)] // for each packet, from one place
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        match self.service() {
            Service::Levels => self.levels.served(flow, len, next_head),
            Service::Flows => {
                let (rings, nodes, choice) = self.flows_parts();
                rings.served(nodes, choice, flow, len, next_head);
            }
            Service::Rounds => self.serve_in_rounds(flow, len, next_head),
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        match self.service() {
            Service::Levels => self.levels.lost(flow, len, head),
            Service::Flows => {
                let (rings, nodes, choice) = self.flows_parts();
                rings.lost(nodes, choice, flow, head);
            }
            Service::Rounds => self.rounds.lost(flow, len, head),
        }
    }

    /// The first flow only, where hosts do not count.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        match self.service() {
            Service::Levels => self.levels.upcoming(ahead),
            Service::Flows => {
                let first = self.select().zip(ahead.first_mut());
                first.map(|(flow, place)| *place = flow).map_or(0, |()| 1)
            }
            Service::Rounds => self.rounds.upcoming(ahead),
        }
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
        let in_service = |service| -> &dyn Fn(FlowId) -> FlowState {
            if self.service() == service { flows } else { &idle }
        };
        if self.service() == Service::Flows {
            self.levels.recount_hosts_idle()?;
            self.flows.recount(self.levels.nodes(), self.host_tins().choice(), flows)?;
        } else {
            self.levels.recount(in_service(Service::Levels))?;
        }
        Imbalance::check("tins", 0, self.host_tins().tins().into(), self.tins.into())?;
        for (flow, hosts) in (0..).zip(self.hosts.as_ref()) {
            let has_tin = hosts.tin() < self.tins;
            Imbalance::check("a tin that there is", flow, 1, has_tin.into())?;
            let holds = flows(FlowId(flow)).backlog.packets > 0;
            let counts = hosts.entries().is_some();
            if holds {
                Imbalance::check("hosts count", flow, self.counts_hosts().into(), counts.into())?;
            }
        }
        if self.service() == Service::Rounds {
            Imbalance::check("tins in rounds", 0, self.rounds.tins().into(), self.tins.into())?;
        }
        self.rounds.recount(in_service(Service::Rounds))
    }
}

impl<S: Storage, K: Storage, T: Storage> Hosted for IsolationScheduler<S, K, T> {
    /// The host in all of its tins; none, where hosts do not count.
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        let entry = match self.service() {
            Service::Levels => self.levels.host_of(flow),
            Service::Flows => None,
            Service::Rounds => self.rounds.host_of(flow),
        };
        self.holder_of(entry?)
    }

    fn hosts(&self) -> u32 {
        self.levels.hosts().max(self.rounds.hosts())
    }

    fn flows_of(&self, host: u32) -> u32 {
        let of_entry = |entry| match self.service() {
            Service::Levels => self.levels.flows_of(entry),
            Service::Flows => 0,
            Service::Rounds => self.rounds.flows_of(entry),
        };
        if self.tins == 1 {
            return of_entry(host);
        }
        let of_host = (0..self.hosts()).filter(|entry| self.holder_of(*entry) == Some(host));
        of_host.fold(0, |sum, entry| sum.saturating_add(of_entry(entry)))
    }
}
