//! The isolated queue as maps: which flow has which queue and which entries, and behind them the naive flow schedulers.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::flowhash::{FlowTable, Lookup, Outcome, Rotating, TagLine};
use freeboard::sched_core::{
    Backlog, Ceiling, CommittedRate, ConfigError, DropFrom, DropSink, FlowId, Limits, Nanos,
    Packet, Rejected, Scheduler, Side, TinConfig,
};
use freeboard::shaper::Overhead;
use freeboard::{Isolation, Labelled};

use super::ceilings::NaiveCeilings;
use super::committed_rates::NaiveCommittedRates;
use super::flow_scheduler::{NaiveFlowScheduler, QueuesView};
use super::host_drr::NaiveHostDrr;
use super::load_drr::NaiveLoadDrr;
use super::longest_host::NaiveLongestHostDrop;
use super::queues::NaiveQueues;
use super::tins::NaiveTins;
use super::token_bucket::wire_len;
use crate::history::{HostBooks, Housing, Setting};

/// How many there are of what, and what they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Queues of the table of flows.
    pub queues: u32,
    /// Entries for hosts of each side; as many spare queues.
    pub hosts: u32,
    /// The ways of a set.
    pub ways: u32,
    /// Handles.
    pub packets: u32,
    /// Rounds of the calendar.
    pub rounds: u32,
    /// The longest packet in bytes.
    pub max_len: u32,
    /// Quantum of a queue in bytes, a multiple of 500.
    pub quantum: u32,
    /// Quantum of a host in bytes, a multiple of 500.
    pub host_quantum: u32,
    /// Whether there is room for rates of hosts.
    pub rates: bool,
    /// The side that decides what goes by one side in [`Isolation::TripleIsolate`].
    pub local_side: Side,
}

/// Returns a quantum as the setting of a flow of the reference models.
pub(super) const fn setting(quantum: u32) -> Setting {
    Setting { weight: quantum / 500, max_len: 1 }
}

/// What labels are XORed with in a tin.
const fn spread(tin: u8) -> u32 {
    (tin as u32).wrapping_mul(0x9e37_79b9)
}

/// Whether there are two rounds for each tin.
fn has_room(rounds: u32, tins: u8) -> bool {
    rounds >= 2 * u32::from(tins)
}

/// Which side of a packet's hosts has a share of its own, 0 for sources.
const fn level(isolation: Isolation) -> Option<usize> {
    match isolation {
        Isolation::DualSrcHost => Some(0),
        Isolation::DualDstHost => Some(1),
        _ => None,
    }
}

/// Whether a host with these labels has a rate or a ceiling.
fn has_rates(labels: &impl Labelled) -> bool {
    labels.host_committed_rate().is_some() || labels.host_ceiling().is_some()
}

/// Whether hosts count.
pub(super) const fn counts_hosts(isolation: Isolation) -> bool {
    level(isolation).is_some() || matches!(isolation, Isolation::TripleIsolate)
}

/// The label of the hosts of flows that were queued when hosts began to count.
const UNNAMED: u32 = 0x6e6f_6e65;

/// The flow schedulers of the isolated queue. One of them has all flows.
#[derive(Clone, Debug)]
struct NaiveIsolationScheduler {
    isolation: Isolation,
    local_side: Side,
    levels: NaiveHostDrr<NaiveCeilings<NaiveCommittedRates<NaiveTins>>>,
    /// For flows without hosts: a host for each tin, which is the only one there.
    flows: NaiveHostDrr<NaiveTins>,
    rounds: NaiveLoadDrr,
    /// The tin of each flow that is not of tin 0.
    tins: BTreeMap<FlowId, u8>,
    /// Where there are several tins, the number under which the host of an entry gives way, the same for all of its entries.
    holders: BTreeMap<u32, u32>,
}

impl NaiveIsolationScheduler {
    fn is_in_rounds(&self) -> bool {
        self.isolation == Isolation::TripleIsolate
    }

    fn counts_hosts(&self) -> bool {
        counts_hosts(self.isolation)
    }

    /// The tins, and which host is in which.
    fn host_tins(&mut self) -> &mut NaiveTins {
        self.levels.scheduler_mut().scheduler_mut().conforming_mut()
    }

    /// No host is known in several tins.
    fn part_all(&mut self) {
        self.host_tins().part_all();
        self.rounds.part_all();
    }

    /// Other tins, for those that serve by them, and for those that may. Without room for two rounds each there is one in rounds.
    fn set_tins(&mut self, tins: &[TinConfig], rounds: u32) {
        self.host_tins().set_tins(tins);
        self.flows.scheduler_mut().set_tins(tins);
        let in_room = if has_room(rounds, tins.len() as u8) { tins } else { &tins[..1] };
        self.rounds.set_tins(in_room);
        self.settle_tins();
    }

    /// Rates and ceilings count what packets are on this wire.
    fn set_link(&mut self, link: Overhead) {
        let ceilings = self.levels.scheduler_mut();
        ceilings.set_link(link);
        ceilings.scheduler_mut().set_link(link);
        ceilings.scheduler_mut().conforming_mut().set_link(link);
        self.flows.scheduler_mut().set_link(link);
        self.rounds.choice_mut().set_link(link);
    }

    /// Each tin has a host of its own.
    fn settle_tins(&mut self) {
        let of_flows = self.flows.scheduler_mut();
        for host in 0..of_flows.hosts() {
            // One that is backlogged is there.
            let _is_there = of_flows.assign(FlowId(host), host, 0);
        }
    }

    /// Another isolation, while no flow is backlogged.
    fn set_isolation(&mut self, isolation: Isolation) {
        let before = self.serving_tins().clone();
        let kind = |this: &Self| (this.is_in_rounds(), this.counts_hosts());
        let kind_before = kind(self);
        self.isolation = isolation;
        if kind(self) != kind_before {
            self.serving_tins().take_over(&before);
            self.settle_tins();
        }
    }

    /// The tins of those that serve.
    fn serving_tins(&mut self) -> &mut NaiveTins {
        if self.is_in_rounds() {
            self.rounds.choice_mut()
        } else if self.counts_hosts() {
            self.host_tins()
        } else {
            self.flows.scheduler_mut()
        }
    }

    /// Makes `flow` one of no host, in its tin.
    fn assign_to_tin(&mut self, flow: FlowId) {
        self.levels.renew(flow);
        let tin = self.tins.get(&flow).copied().unwrap_or(0);
        self.flows.assign(flow, tin.into(), 0).expect("it holds nothing");
    }
}

impl Housing for NaiveIsolationScheduler {
    fn hosts(&self) -> u32 {
        self.levels.hosts()
    }

    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        self.rounds.assign(flow, source, destination)?;
        self.flows.renew(flow);
        let tin: u32 = self.tins.get(&flow).copied().unwrap_or(0).into();
        if self.rounds.tins() > 1 {
            self.rounds.assign_tin(flow, tin as usize);
        }
        let host = level(self.isolation).map_or(tin, |side| [source, destination][side]);
        self.levels.assign(flow, host, 0)
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        self.levels.configure_host(host, setting)
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.levels.rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        self.levels.ceiling(host, ceiling)
    }

    /// The host of a flow is the one that counts where one side does, in all of its tins.
    fn books(&self, number: u32) -> HostBooks {
        let holder = |entry: u32| self.holders.get(&entry).copied().unwrap_or(entry);
        if !self.is_in_rounds() {
            let books = self.levels.books(number);
            let of_flow = if self.counts_hosts() { books.of_flow } else { [None; 2] };
            return HostBooks { of_flow: of_flow.map(|of| of.map(holder)), ..books };
        }
        let books = self.rounds.books(number);
        let of_flow = [books.of_flow[self.local_side as usize].map(holder), None];
        HostBooks { of_flow, ..books }
    }
}

/// What `$call` says of the one that serves.
macro_rules! serving {
    ($of:ident, $one:ident => $call:expr) => {
        match $of.isolation {
            Isolation::TripleIsolate => {
                let $one = &mut $of.rounds;
                $call
            }
            isolation if counts_hosts(isolation) => {
                let $one = &mut $of.levels;
                $call
            }
            _ => {
                let $one = &mut $of.flows;
                $call
            }
        }
    };
}

impl NaiveFlowScheduler for NaiveIsolationScheduler {
    fn advance(&mut self, now: Nanos) {
        self.levels.advance(now);
        self.flows.advance(now);
        self.rounds.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.levels.configure(flow, setting, head_len)?;
        self.flows.configure(flow, setting, head_len)?;
        self.rounds.configure(flow, setting, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.levels.remove(flow);
        self.flows.remove(flow);
        self.rounds.remove(flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.levels.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.levels.max_len(flow)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        serving!(self, one => one.backlogged(flow, head_len));
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        serving!(self, one => one.served(flow, len, next_head));
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        serving!(self, one => one.lost(flow, head));
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        match self.isolation {
            Isolation::TripleIsolate => self.rounds.select(queues),
            isolation if counts_hosts(isolation) => self.levels.select(queues),
            _ => self.flows.select(queues),
        }
    }

    fn waiting(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        if level(self.isolation).is_some() { self.levels.waiting(queues) } else { None }
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.levels.opens_at(now)
    }

    fn open(&mut self) {
        self.levels.open();
    }
}

/// The entry of a host, whether the host claims it, and an entry that remembers the host although it did not get it.
type Entered = (u32, bool, Option<u32>);

/// What [`Isolated`](freeboard::Isolated) should do, without an AQM.
///
/// The twin asks the same tables which way of its set a label has, because the tables have a twin of their own
/// (`flowhash`). Which flow holds a queue or an entry, and for how long, the twin counts anew each time.
#[derive(Clone, Debug)]
pub struct NaiveIsolated {
    sizes: Sizes,
    isolation: Isolation,
    queues: NaiveQueues<NaiveLongestHostDrop<NaiveIsolationScheduler>>,
    flows: FlowTable<Vec<TagLine>>,
    /// Of sources and of destinations.
    hosts: [FlowTable<Vec<TagLine>>; 2],
    /// The queues that hold packets, each with the entries of its source and of its destination, if hosts count.
    held: BTreeMap<u32, Option<[u32; 2]>>,
    /// Those of them whose hosts no packet has named.
    unnamed: BTreeSet<u32>,
    /// How many tins there are.
    tins: u8,
    /// Whether a host has one share in all tins together.
    across: bool,
    /// What packets are on the wire.
    link: Overhead,
    /// How often flows, sources and destinations have become backlogged, and how often new ones.
    activations: [[u64; 2]; 3],
    /// What each host's turn is for each tin that it is of, in bytes.
    quanta: Vec<u32>,
    /// The tin of each entry of sources and of destinations, as of the last host that claimed it.
    tin_of_entry: [Vec<u8>; 2],
}

impl NaiveIsolated {
    /// An empty queue.
    ///
    /// # Panics
    /// If the sizes are none that [`Isolated`](freeboard::Isolated) accepts.
    #[must_use]
    pub fn new(sizes: Sizes, isolation: Isolation, limits: Limits) -> Self {
        let Sizes { queues, hosts, ways, packets, rounds, max_len, .. } = sizes;
        let (all, within) = (queues + hosts, "sizes that are accepted");
        let mut turns = NaiveTins::new(hosts, max_len, &[TinConfig::by_weight(1)], 64, true);
        for host in (0..hosts).map(FlowId) {
            turns.configure(host, setting(sizes.host_quantum), None).expect(within);
        }
        let turns = NaiveCeilings::new(NaiveCommittedRates::new(turns, hosts), hosts);
        let levels = NaiveHostDrr::new(turns, hosts, all, max_len, true);
        let rounds = NaiveLoadDrr::new(all, [hosts; 2], rounds, max_len, true)
            .with_hosts_of(sizes.local_side);
        let local_side = sizes.local_side;
        let tins = BTreeMap::new();
        let mut of_tins = NaiveTins::new(8, max_len, &[TinConfig::by_weight(1)], 64, true);
        for host in (0..8).map(FlowId) {
            of_tins.configure(host, setting(sizes.host_quantum), None).expect(within);
        }
        let flows = NaiveHostDrr::new(of_tins, 8, all, max_len, true);
        let holders = BTreeMap::new();
        let mut scheduler =
            NaiveIsolationScheduler { isolation, local_side, levels, flows, rounds, tins, holders };
        for flow in (0..all).map(FlowId) {
            scheduler.configure(flow, setting(sizes.quantum), None).expect(within);
        }
        let table = |entries: u32| {
            FlowTable::new(vec![TagLine::EMPTY; entries.div_ceil(8) as usize], entries, ways)
                .expect(within)
        };
        let scheduler = NaiveLongestHostDrop::new(scheduler, limits.bytes, DropFrom::Head);
        Self {
            sizes,
            isolation,
            queues: NaiveQueues::new(scheduler, all, packets, 0, limits),
            flows: table(queues),
            hosts: [table(hosts), table(hosts)],
            held: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            tins: 1,
            across: false,
            link: Overhead::RAW,
            activations: [[0; 2]; 3],
            quanta: vec![sizes.host_quantum; hosts as usize],
            tin_of_entry: [vec![0; hosts as usize], vec![0; hosts as usize]],
        }
    }

    /// As [`Isolated::enqueue_labelled`](freeboard::Isolated::enqueue_labelled).
    ///
    /// # Errors
    /// The same.
    pub fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &impl Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let tin = self.tin_of(labels);
        let label = self.queue_label(labels) ^ spread(tin);
        let before = labels.before().map_or(label, |before| self.queue_label(before) ^ spread(tin));
        let is_back = self.flows.remembers(label);
        // While no transition is under way that is the lookup of `label`.
        let lookup = self.flows.lookup_rotating(before, label);
        let queue = match lookup.outcome {
            Outcome::Hit => {
                self.name_hosts(lookup.queue, labels);
                lookup.queue
            }
            Outcome::Claimed => {
                self.count(0, is_back);
                self.place(lookup.queue, false, labels)
            }
            Outcome::Collision => self.place(lookup.queue, true, labels),
        };
        let accepted = self.queues.enqueue(now, FlowId(queue), packet, drops);
        self.let_go();
        accepted.map(|()| lookup.outcome)
    }

    fn queue_label(&self, labels: &(impl Labelled + ?Sized)) -> u32 {
        match self.isolation {
            Isolation::SrcHost => labels.source(),
            Isolation::DstHost => labels.destination(),
            Isolation::Hosts => labels.host_pair(),
            _ => labels.flow(),
        }
    }

    fn tin_of(&self, labels: &impl Labelled) -> u8 {
        Some(labels.tin()).filter(|&tin| tin < self.tins).unwrap_or(0)
    }

    /// The entry for a host of `tin` on this side with this label and that under the key before. Whether it claims the entry;
    /// and an entry that remembers the host although it did not get it, if there is one.
    fn enter(&mut self, side: usize, labels: [u32; 2], tin: u8) -> Entered {
        let [before, label] = labels;
        let is_back = self.hosts[side].remembers(label);
        let found = match self.hosts[side].lookup_old(before) {
            Some(found) => found,
            None => self.enter_anew(side, label, tin),
        };
        let (entry, claims) = (found.queue, found.outcome == Outcome::Claimed);
        if claims {
            self.count(1 + side, is_back);
        }
        if self.tins == 1 || found.outcome == Outcome::Hit {
            return (entry, claims, None);
        }
        let ways = self.sizes.ways;
        let is_held = |entry: u32| self.held.values().flatten().any(|of| of[side] == entry);
        let tin_of = |entry: u32| self.tin_of_entry[side][entry as usize];
        let behind = (0..ways).map(|step| entry / ways * ways + (entry + step) % ways);
        let held: Vec<u32> = behind.clone().filter(|&entry| is_held(entry)).collect();
        if claims {
            let is_there = |tin| held.iter().any(|&other| tin_of(other) == tin);
            let absent = (0..self.tins).filter(|&other| other != tin && !is_there(other)).count();
            let free = ways as usize - 1 - held.len();
            if !is_there(tin) || free >= absent {
                self.tin_of_entry[side][entry as usize] = tin;
                return (entry, true, None);
            }
            self.hosts[side].release(entry);
        }
        let own = held.into_iter().find(|&other| tin_of(other) == tin);
        (own.unwrap_or(entry), false, claims.then_some(entry))
    }

    /// The entry that the table names for a host by its label in force. An idle host keeps its
    /// entry while one of its buckets is not full, as long as the newcomer has an entry of its tin
    /// to share.
    fn enter_anew(&mut self, side: usize, label: u32, tin: u8) -> Lookup {
        let ceilings = &self.queues.scheduler().scheduler().levels.scheduler();
        let has_buckets = self.sizes.rates && level(self.isolation) == Some(side);
        let short: Vec<bool> = (0..self.sizes.hosts)
            .map(FlowId)
            .map(|host| ceilings.is_short(host) || ceilings.scheduler().is_short(host))
            .map(|is_short| is_short && has_buckets)
            .collect();
        if let Some(found) = self.hosts[side].lookup_sparing(label, |entry| short[entry as usize]) {
            return found;
        }
        let (ways, own) = (self.sizes.ways, label % self.sizes.hosts);
        let is_held = |entry: u32| self.held.values().flatten().any(|of| of[side] == entry);
        let mut set = (0..ways).map(|step| own / ways * ways + (own + step) % ways);
        let is_own = |entry: u32| self.tins == 1 || self.tin_of_entry[side][entry as usize] == tin;
        match set.find(|&entry| is_held(entry) && is_own(entry)) {
            Some(queue) => Lookup { queue, outcome: Outcome::Collision },
            None => self.hosts[side].lookup(label),
        }
    }

    /// A flow, a source or a destination has become backlogged.
    fn count(&mut self, what: usize, is_back: bool) {
        let [all, new] = &mut self.activations[what];
        (*all, *new) = (*all + 1, *new + u64::from(!is_back));
    }

    /// As [`Isolated::activations`](freeboard::Isolated::activations): of flows, sources and destinations all, and new ones.
    #[must_use]
    pub const fn activations(&self) -> [[u64; 2]; 3] {
        self.activations
    }

    /// The tin of the packets in `queue`.
    fn tin_of_queue(&self, queue: u32) -> u8 {
        self.queues.scheduler().scheduler().tins.get(&FlowId(queue)).copied().unwrap_or(0)
    }

    /// The queue for a flow that has none and was named `queue`, free or, in a full set, another's.
    fn place(&mut self, queue: u32, is_full: bool, labels: &impl Labelled) -> u32 {
        let tin = self.tin_of(labels);
        let Some(sharing) = self.sharing() else {
            return self.place_without_hosts(queue, is_full, tin);
        };
        let (entered, are_back) = self.enter_both(labels, tin);
        let entries = entered.map(|(entry, ..)| entry);
        let mut chosen = queue;
        if is_full {
            let spare = self.sizes.queues + entries[sharing];
            let is_ours = |queue: &u32| {
                let of = self.held.get(queue).copied().flatten();
                of.is_some_and(|of| of[sharing] == entries[sharing])
            };
            if let Some(ours) = [queue, spare].into_iter().find(is_ours) {
                return ours;
            }
            if self.held.contains_key(&spare) {
                // The flow joins others: its host has the entry, and has left it, with a bucket of its own.
                if let Some(side) = level(self.isolation).filter(|_| self.sizes.rates)
                    && entered[side].1
                    && !are_back[side]
                {
                    self.clear_rates(entries[side]);
                }
                return queue;
            }
            chosen = spare;
        }
        self.give(chosen, entered, are_back, labels, tin);
        chosen
    }

    /// The side whose hosts share queues of their own, and give way.
    fn sharing(&self) -> Option<usize> {
        match self.isolation {
            Isolation::TripleIsolate => Some(self.sizes.local_side as usize),
            other => level(other),
        }
    }

    /// Which host gives way by which entry.
    fn holders(&mut self) -> &mut BTreeMap<u32, u32> {
        &mut self.queues.scheduler_and_queues().0.scheduler_mut().holders
    }

    /// `entry` gives way as `other` does, or by itself.
    fn hold(&mut self, entry: u32, other: Option<u32>) {
        let hosts = self.sizes.hosts;
        let holders = self.holders();
        let of_other = other.map(|other| holders[&other]);
        let mut free = (0..hosts).filter(|number| holders.values().all(|used| used != number));
        let holder = of_other.or_else(|| free.next()).expect("no more than entries");
        holders.insert(entry, holder);
    }

    /// `entry` was claimed by the host of these labels.
    fn hold_by_labels(&mut self, side: usize, entry: u32, labels: &impl Labelled) {
        let others = self.labels_in_tins(side, labels);
        let mut found = others.into_iter().filter_map(|label| self.hosts[side].find(label));
        let other = found.find(|other| *other != entry);
        self.hold(entry, other);
    }

    /// The labels of a host in each tin: of the key before, then of this one.
    fn labels_in_tins(&self, side: usize, labels: &impl Labelled) -> Vec<u32> {
        let of = |labels: &dyn Labelled| [labels.source(), labels.destination()][side];
        let before = labels.before().filter(|_| self.hosts[side].is_rotating()).map(of);
        let now = [labels.source(), labels.destination()][side];
        let of_tin = |tin| before.into_iter().chain([now]).map(move |label| label ^ spread(tin));
        (0..self.tins).flat_map(of_tin).collect()
    }

    /// Entries that are claimed give way together if their labels are those of one host.
    fn hold_anew(&mut self) {
        self.holders().clear();
        let Some(side) = self.sharing().filter(|_| self.tins > 1) else { return };
        for entry in (0..self.sizes.hosts)
            .filter(|entry| self.hosts[side].is_used(*entry))
            .collect::<Vec<_>>()
        {
            let table = &self.hosts[side];
            let in_tin = table.hash_of(entry).expect("it is an entry");
            let label = in_tin ^ spread(self.tin_of_entry[side][entry as usize]);
            let mut found = (0..self.tins).filter_map(|tin| table.find(label ^ spread(tin)));
            let other = found.find(|other| *other < entry);
            self.hold(entry, other);
        }
    }

    /// [`Self::place`], where hosts do not count.
    fn place_without_hosts(&mut self, queue: u32, is_full: bool, tin: u8) -> u32 {
        let mut chosen = queue;
        if is_full {
            let spare = self.sizes.queues + u32::from(tin);
            let is_ours =
                |&queue: &u32| self.held.contains_key(&queue) && self.tin_of_queue(queue) == tin;
            if let Some(ours) = [queue, spare].into_iter().find(is_ours) {
                return ours;
            }
            if self.held.contains_key(&spare) {
                return queue;
            }
            chosen = spare;
        }
        self.held.insert(chosen, None);
        let scheduler = self.queues.scheduler_and_queues().0.scheduler_mut();
        scheduler.tins.insert(FlowId(chosen), tin);
        scheduler.assign_to_tin(FlowId(chosen));
        chosen
    }

    /// The entries of both hosts, as [`Self::enter`] has them, and whether each was the last there.
    fn enter_both(&mut self, labels: &impl Labelled, tin: u8) -> ([Entered; 2], [bool; 2]) {
        let found = [labels.source(), labels.destination()].map(|label| label ^ spread(tin));
        let before = labels.before().map(|old| [old.source(), old.destination()]);
        let before = before.map_or(found, |old| old.map(|label| label ^ spread(tin)));
        let are_back: [_; 2] = core::array::from_fn(|side| self.hosts[side].remembers(found[side]));
        let entered: [_; 2] =
            core::array::from_fn(|side| self.enter(side, [before[side], found[side]], tin));
        let side = level(self.isolation);
        if let Some(passed_over) = side.and_then(|side| entered[side].2.filter(|_| !are_back[side]))
            && self.sizes.rates
        {
            self.clear_rates(passed_over);
        }
        (entered, are_back)
    }

    /// `queue`, which is not known to the flow schedulers, is of these hosts.
    fn give(
        &mut self,
        queue: u32,
        entered: [Entered; 2],
        are_back: [bool; 2],
        labels: &impl Labelled,
        tin: u8,
    ) {
        let entries = entered.map(|(entry, ..)| entry);
        self.held.insert(queue, Some(entries));
        let [source, destination] = entries;
        let scheduler = self.queues.scheduler_and_queues().0;
        scheduler.scheduler_mut().tins.insert(FlowId(queue), tin);
        scheduler.assign(FlowId(queue), source, destination).expect("it holds nothing");
        if let Some(side) = self.sharing().filter(|side| self.tins > 1 && entered[*side].1) {
            self.hold_by_labels(side, entries[side], labels);
        }
        for side in [0, 1] {
            let counts =
                self.isolation == Isolation::TripleIsolate || level(self.isolation) == Some(side);
            if counts && self.tins > 1 && self.across {
                let (entry, is_new, _) = entered[side];
                self.join_shares(side, entry, is_new, labels, tin);
            }
        }
        if let Some(side) = level(self.isolation)
            && entered[side].1
        {
            if self.tins > 1 {
                let scheduler = self.queues.scheduler_and_queues().0;
                let tins = scheduler.scheduler_mut().host_tins();
                tins.assign(FlowId(entries[side]), tin.into(), 0).expect("it is idle");
            }
            if self.sizes.rates && !are_back[side] {
                self.clear_rates(entries[side]);
            }
            self.tell(entries[side], labels);
            if self.sizes.rates && self.tins > 1 && has_rates(labels) {
                self.join_rates(side, entries[side], labels);
            }
        }
    }

    /// The host that has `entry` has one ceiling and one rate with the other entries that it has. Of those that it had last, it has what
    /// they lack.
    fn join_rates(&mut self, side: usize, entry: u32, labels: &impl Labelled) {
        let found: Vec<u32> = self
            .labels_in_tins(side, labels)
            .into_iter()
            .filter_map(|label| self.hosts[side].remembered(label))
            .filter(|other| *other != entry)
            .collect();
        let (rate, ceiling) = (labels.host_committed_rate(), labels.host_ceiling());
        let (held, left): (Vec<u32>, Vec<u32>) =
            found.into_iter().partition(|other| self.hosts[side].is_used(*other));
        for other in left {
            self.part(other);
            self.set_rates(other, rate, ceiling);
            self.join(other, entry);
            self.part(other);
        }
        for (at, other) in held.into_iter().enumerate() {
            self.set_rates(other, rate, ceiling);
            let (joins, to) = if at == 0 { (entry, other) } else { (other, entry) };
            self.join(joins, to);
        }
    }

    /// What the host that has `entry` is sent there counts for its turns in other tins, or where there are rounds its flows there
    /// for its load.
    fn join_shares(
        &mut self,
        side: usize,
        entry: u32,
        is_new: bool,
        labels: &impl Labelled,
        tin: u8,
    ) {
        let labels = self.labels_in_tins(side, labels);
        let of_each_tin = labels.chunks(labels.len() / usize::from(self.tins));
        let find = |label: &u32| self.hosts[side].find(*label);
        let found: Vec<Vec<u32>> =
            of_each_tin.map(|labels| labels.iter().filter_map(find).collect()).collect();
        let is_by_load = self.isolation == Isolation::TripleIsolate;
        let scheduler = self.queues.scheduler_and_queues().0.scheduler_mut();
        if is_new && is_by_load {
            scheduler.rounds.part(side, entry);
        } else if is_new {
            scheduler.host_tins().part(FlowId(entry));
        } else if !found[usize::from(tin)].contains(&entry) {
            return;
        }
        let others = found.into_iter().enumerate().filter(|(at, _)| *at != usize::from(tin));
        for other in others.flat_map(|(_, other)| other) {
            if is_by_load {
                scheduler.rounds.join(side, other, entry);
            } else {
                scheduler.host_tins().join(FlowId(other), FlowId(entry));
            }
        }
    }

    /// As [`Isolated::set_hosts_across_tins`](freeboard::Isolated::set_hosts_across_tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        if on == self.across {
            return;
        }
        self.across = on;
        self.queues.scheduler_and_queues().0.scheduler_mut().part_all();
        self.set_turns();
    }

    /// As [`Isolated::set_overhead`](freeboard::Isolated::set_overhead).
    pub fn set_overhead(&mut self, link: Overhead) {
        self.link = link;
        self.queues.scheduler_and_queues().0.scheduler_mut().set_link(link);
    }

    /// The turns of all hosts are as long as they should be.
    fn set_turns(&mut self) {
        for (host, quantum) in (0..).zip(self.quanta.clone()) {
            self.set_turn(host, quantum);
        }
    }

    fn set_turn(&mut self, host: u32, quantum: u32) {
        let (turn, most) = match self.tins {
            tins if self.across && tins > 1 => (u32::from(tins), (1 << 28) / 8),
            _ => (1, 1 << 28),
        };
        let quantum = quantum.clamp(self.sizes.max_len, most);
        self.quanta[host as usize] = quantum;
        let scheduler = self.queues.scheduler_and_queues().0;
        scheduler.configure_host(host, setting(quantum * turn)).expect("in range");
    }

    fn part(&mut self, entry: u32) {
        let scheduler = self.queues.scheduler_and_queues().0.scheduler_mut();
        let ceilings = scheduler.levels.scheduler_mut();
        ceilings.part(FlowId(entry));
        ceilings.scheduler_mut().part(FlowId(entry));
    }

    fn join(&mut self, entry: u32, other: u32) {
        let scheduler = self.queues.scheduler_and_queues().0.scheduler_mut();
        let ceilings = scheduler.levels.scheduler_mut();
        ceilings.scheduler_mut().join(FlowId(entry), FlowId(other));
        ceilings.join(FlowId(entry), FlowId(other));
    }

    /// A packet has come to `queue`: if its hosts have no name, they are those of the packet. The queue loses what it holds, and
    /// comes with all of it under its hosts.
    fn name_hosts(&mut self, queue: u32, labels: &impl Labelled) {
        if !self.unnamed.remove(&queue) {
            return;
        }
        let tin = self.tin_of_queue(queue);
        let (scheduler, queues) = self.queues.scheduler_and_queues();
        scheduler.lost(FlowId(queue), None);
        let mut without = queues.to_vec();
        without[queue as usize].clear();
        scheduler.settle(&without);
        self.held.insert(queue, None);
        self.release_hosts();
        let (entered, are_back) = self.enter_both(labels, tin);
        self.give(queue, entered, are_back, labels, tin);
        let (scheduler, queues) = self.queues.scheduler_and_queues();
        scheduler.backlogged(FlowId(queue), 1);
        scheduler.settle(queues);
    }

    /// What `labels` say of the host in `entry`, from now on.
    fn tell(&mut self, entry: u32, labels: &impl Labelled) {
        let quantum = labels.host_quantum().unwrap_or(self.sizes.host_quantum);
        self.set_turn(entry, quantum);
        if self.sizes.rates {
            self.set_rates(entry, labels.host_committed_rate(), labels.host_ceiling());
        }
    }

    /// Another host than the last of the entry has buckets of its own, full ones.
    fn clear_rates(&mut self, entry: u32) {
        self.part(entry);
        self.set_rates(entry, None, None);
    }

    fn set_rates(&mut self, entry: u32, rate: Option<CommittedRate>, ceiling: Option<Ceiling>) {
        let (longest, within) = (wire_len(self.link, self.sizes.max_len), "in range");
        let scheduler = self.queues.scheduler_and_queues().0;
        let rate = rate.map(|rate| rate.with_burst_of_at_least(longest));
        scheduler.rate(entry, rate).expect(within);
        let ceiling = ceiling.map(|ceiling| ceiling.with_burst_of_at_least(longest));
        scheduler.ceiling(entry, ceiling).expect(within);
    }

    /// As [`Isolated::update_host`](freeboard::Isolated::update_host).
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        self.queues.scheduler_and_queues().0.advance(now);
        let Some(side) = level(self.isolation) else { return false };
        let found: Vec<u32> = self
            .labels_in_tins(side, labels)
            .into_iter()
            .filter_map(|label| self.hosts[side].find(label))
            .collect();
        for &entry in &found {
            self.tell(entry, labels);
            if self.sizes.rates && entry != found[0] && has_rates(labels) {
                self.join(entry, found[0]);
            }
        }
        !found.is_empty()
    }

    /// A flow or host that holds nothing has no queue and no entry.
    fn let_go(&mut self) {
        let queues = self.queues.scheduler_and_queues().1;
        self.held.retain(|&queue, _| !queues[queue as usize].is_empty());
        self.unnamed.retain(|queue| self.held.contains_key(queue));
        for queue in (0..self.sizes.queues).filter(|queue| !self.held.contains_key(queue)) {
            self.flows.release(queue);
        }
        self.release_hosts();
    }

    /// A host whose flows hold nothing has no entry.
    fn release_hosts(&mut self) {
        let sharing = self.sharing();
        for side in [0, 1] {
            for entry in 0..self.sizes.hosts {
                if self.held.values().flatten().all(|of| of[side] != entry) {
                    self.hosts[side].release(entry);
                    if sharing == Some(side) {
                        self.holders().remove(&entry);
                    }
                }
            }
        }
    }

    /// As [`Isolated::set_isolation`](freeboard::Isolated::set_isolation): all flows lose what they hold
    /// under the one isolation, and come with all of it, one after another, under the other.
    /// Whether it is possible.
    pub fn set_isolation(&mut self, isolation: Isolation) -> bool {
        if isolation == self.isolation {
            return true;
        }
        let lacks_rounds = !has_room(self.sizes.rounds, self.tins);
        if isolation == Isolation::TripleIsolate && lacks_rounds {
            return false;
        }
        let (had_hosts, has_hosts) = (counts_hosts(self.isolation), counts_hosts(isolation));
        self.isolation = isolation;
        if had_hosts && !has_hosts {
            self.unnamed.clear();
            self.held.values_mut().for_each(|of| *of = None);
            self.release_hosts();
            self.hosts.iter_mut().for_each(|table| {
                table.finish_rotation();
            });
        }
        if has_hosts && !had_hosts {
            for queue in self.held.keys().copied().collect::<Vec<_>>() {
                let tin = self.tin_of_queue(queue);
                let label = UNNAMED ^ spread(tin);
                let entries = [0, 1].map(|side| self.enter(side, [label; 2], tin).0);
                self.held.insert(queue, Some(entries));
                self.unnamed.insert(queue);
            }
        }
        self.hold_anew();
        let (hosts, quantum) = (self.sizes.hosts, self.sizes.host_quantum);
        self.quanta.fill(quantum);
        let turn = if self.across { u32::from(self.tins) } else { 1 };
        self.put_anew(|scheduler| {
            scheduler.set_isolation(isolation);
            scheduler.part_all();
            for host in 0..hosts {
                scheduler.configure_host(host, setting(quantum * turn)).expect("as before");
                let ceilings = scheduler.levels.scheduler_mut();
                ceilings.part(FlowId(host));
                ceilings.scheduler_mut().part(FlowId(host));
                scheduler.rate(host, None).expect("as before");
                scheduler.ceiling(host, None).expect("as before");
            }
        });
        true
    }

    /// As [`Isolated::set_tins_and_move`](freeboard::Isolated::set_tins_and_move); whether it is possible.
    pub fn set_tins(&mut self, tins: &[TinConfig], to: impl Fn(u8) -> u8) -> bool {
        let count = tins.len() as u8;
        let rounds = self.sizes.rounds;
        let lacks_rounds = !has_room(rounds, count);
        if lacks_rounds && self.isolation == Isolation::TripleIsolate
            || u32::from(count) > self.sizes.ways
        {
            return false;
        }
        let scheduler = self.queues.scheduler_and_queues().0.scheduler_mut();
        let to = |tin: u8| Some(to(tin)).filter(|to| *to < count).unwrap_or(0);
        if count == self.tins && (0..count).all(|tin| to(tin) == tin) {
            scheduler.set_tins(tins, rounds);
            return true;
        }
        let before = core::mem::replace(&mut self.tins, count);
        for (hosts, tins) in self.hosts.iter_mut().zip(&mut self.tin_of_entry) {
            (0..)
                .zip(&*tins)
                .filter(|(_, tin)| to(**tin) != **tin)
                .for_each(|(entry, _)| hosts.disown(entry));
            tins.iter_mut().for_each(|tin| *tin = to(*tin));
        }
        let queues = (0..self.sizes.queues + self.sizes.hosts).map(FlowId);
        let tin_of = queues.map(|queue| (queue, to(self.tin_of_queue(queue.0))));
        let tin_of: BTreeMap<_, _> = tin_of.collect();
        for (queue, tin) in &tin_of {
            if queue.0 < self.sizes.queues && self.tin_of_queue(queue.0) != *tin {
                self.flows.disown(queue.0);
            }
        }
        if before == 1 || count == 1 {
            self.hold_anew();
        }
        let turn = if self.across { u32::from(count) } else { 1 };
        let most = (1 << 28) / if turn > 1 { 8 } else { 1 };
        self.quanta.iter_mut().for_each(|quantum| *quantum = (*quantum).min(most));
        let quanta = self.quanta.clone();
        self.put_anew(|scheduler| {
            scheduler.set_tins(tins, rounds);
            if count == 1 {
                scheduler.part_all();
            }
            for (host, quantum) in (0..).zip(quanta) {
                scheduler.configure_host(host, setting(quantum * turn)).expect("as before");
            }
            scheduler.tins = tin_of;
            if scheduler.rounds.tins() > 1 {
                for (&flow, &tin) in &scheduler.tins {
                    scheduler.rounds.assign_tin(flow, tin.into());
                }
            }
        });
        true
    }

    /// All flows lose what they hold, `change` is done, and they come with all of it, one after another.
    fn put_anew(&mut self, change: impl FnOnce(&mut NaiveIsolationScheduler)) {
        let (scheduler, queues) = self.queues.scheduler_and_queues();
        for &queue in self.held.keys() {
            scheduler.lost(FlowId(queue), None);
        }
        let inside = scheduler.begin_anew();
        change(inside);
        for host in 0..self.sizes.hosts {
            if let Some(side) = level(inside.isolation) {
                let tin = self.tin_of_entry[side][host as usize].into();
                inside.host_tins().assign(FlowId(host), tin, 0).expect("it is idle");
            }
        }
        let mut come = queues.to_vec();
        come.iter_mut().for_each(|queue| queue.clear());
        for (&queue, hosts) in &self.held {
            match *hosts {
                Some([source, destination]) => {
                    scheduler.assign(FlowId(queue), source, destination).expect("it was taken out");
                }
                None => scheduler.scheduler_mut().assign_to_tin(FlowId(queue)),
            }
            scheduler.backlogged(FlowId(queue), 1);
            come[queue as usize].clone_from(&queues[queue as usize]);
            scheduler.settle(&come);
        }
    }

    /// As [`Isolated::rotate`](freeboard::Isolated::rotate).
    ///
    /// # Errors
    /// The same.
    ///
    /// # Panics
    /// If a table refuses although no flow or host has an old claim.
    pub fn rotate(&mut self) -> Result<(), Rotating> {
        let queues = self.old_claims();
        if queues > 0 {
            return Err(Rotating { queues });
        }
        let [sources, destinations] = &mut self.hosts;
        let count = if counts_hosts(self.isolation) { 3 } else { 1 };
        for table in [&mut self.flows, sources, destinations].into_iter().take(count) {
            table.rotate().expect("no flow or host has an old claim");
        }
        Ok(())
    }

    /// As [`Isolated::old_claims`](freeboard::Isolated::old_claims).
    #[must_use]
    pub fn old_claims(&self) -> u32 {
        let [sources, destinations] = &self.hosts;
        [&self.flows, sources, destinations].map(FlowTable::old_claims).iter().sum()
    }

    /// As [`Isolated::finish_rotation`](freeboard::Isolated::finish_rotation).
    pub fn finish_rotation(&mut self) -> u32 {
        let [sources, destinations] = &mut self.hosts;
        [&mut self.flows, sources, destinations].map(FlowTable::finish_rotation).iter().sum()
    }

    /// What shares the line.
    #[must_use]
    pub const fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// As [`Isolated::backlogged_hosts`](freeboard::Isolated::backlogged_hosts).
    #[must_use]
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        let count = |side: usize| {
            let counts = |entry: &u32| self.held.values().flatten().any(|of| of[side] == *entry);
            (0..self.sizes.hosts).filter(counts).map(|_| 1).sum()
        };
        (count(0), count(1))
    }

    /// How many hosts are backlogged and in excess of their rates, and how many wait below their ceilings.
    #[must_use]
    pub fn borrowing_and_waiting_hosts(&self) -> (usize, usize) {
        let scheduler = self.queues.scheduler();
        let count = |what: fn(HostBooks) -> bool| {
            (0..self.sizes.hosts).filter(|&host| what(scheduler.books(host))).count()
        };
        (count(|books| books.borrows), count(|books| books.waits))
    }

    /// What the queue of this number holds, spare ones behind those of the table.
    #[must_use]
    pub fn queue_backlog(&self, queue: FlowId) -> Backlog {
        self.queues.flow_backlog(queue)
    }

    /// What is behind the tables, to be looked at.
    #[must_use]
    pub const fn queues(&self) -> &impl Scheduler {
        &self.queues
    }

    /// As [`Scheduler::dequeue`].
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let packet = self.queues.dequeue(now, drops);
        self.let_go();
        packet
    }

    /// As [`Scheduler::set_limits`].
    pub fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.queues.set_limits(limits, drops);
        self.let_go();
    }

    /// As [`Scheduler::evict`].
    pub fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let found = self.queues.evict(drops);
        self.let_go();
        found
    }

    /// As [`Scheduler::drain`].
    pub fn drain(&mut self, drops: &mut dyn DropSink) {
        self.queues.drain(drops);
        self.let_go();
    }
}
