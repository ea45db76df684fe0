//! Reference model of the isolated queue: maps from flows to queues and from hosts to entries, on
//! top of the naive flow schedulers. These call a turn a host.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::flowhash::{FlowTable, Lookup, Outcome, TagLine};
use freeboard::sched_core::{
    Backlog, ConfigError, DropFrom, DropSink, FlowId, Limits, Nanos, Packet, Rejected, Scheduler,
    Side, TinConfig,
};
use freeboard::shaper::Overhead;
use freeboard::{Isolation, Labelled};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView};
use super::host_drr::NaiveHostDrr;
use super::host_rates::NaiveHostRates;
use super::load_drr::NaiveLoadDrr;
use super::longest_host::{NaiveHosted, NaiveLongestHostDrop};
use super::quanta::NaiveQuanta;
use super::queues::NaiveQueues;
use super::tins::NaiveTins;
use crate::history::Setting;

/// Sizes and parameters of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Queues in the flow table.
    pub queues: u32,
    /// Host entries, and also the number of spare queues.
    pub hosts: u32,
    /// Ways in a set.
    pub ways: u32,
    /// Number of handles.
    pub packets: u32,
    /// Rounds of the calendar.
    pub rounds: u32,
    /// Longest packet in bytes.
    pub max_len: u32,
    /// Quantum of a queue in bytes, a multiple of 500.
    pub quantum: u32,
    /// Quantum of a host in bytes, a multiple of 500.
    pub host_quantum: u32,
    /// True if there are tables for host rates.
    pub rates: bool,
    /// The side used for decisions based on one side in [`Isolation::TripleIsolate`].
    pub local_side: Side,
}

/// Converts a quantum to the setting of a flow in the reference models.
const fn setting(quantum: u32) -> Setting {
    Setting { weight: quantum / 500, max_len: 1 }
}

/// Returns true if the isolation mode has a level of hosts.
const fn counts_hosts(isolation: Isolation) -> bool {
    matches!(isolation, Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate)
}

/// Maximum number of tins; the turn of host `h` in tin `t` is `8h + t`.
const TINS: u32 = 8;
/// Largest quantum in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

/// The turns with their flows, or the rounds of `triple-isolate`, where a turn is also a host. For
/// drops on overflow, a host includes all its turns.
#[derive(Clone, Debug)]
struct NaiveTurns {
    levels: NaiveHostDrr,
    rounds: NaiveLoadDrr,
    isolation: Isolation,
    hosts: u32,
}

impl NaiveTurns {
    fn is_in_rounds(&self) -> bool {
        self.isolation == Isolation::TripleIsolate
    }
}

/// Evaluates `$call` on the scheduler in use.
macro_rules! serving {
    ($of:ident, $one:ident => $call:expr) => {
        match &mut *$of {
            NaiveTurns { isolation: Isolation::TripleIsolate, rounds: $one, .. } => $call,
            NaiveTurns { levels: $one, .. } => $call,
        }
    };
}

impl NaiveHosted for NaiveTurns {
    fn hosts(&self) -> u32 {
        self.hosts
    }

    fn host_of(&self, flow: u32) -> Option<u32> {
        let turn = match self.is_in_rounds() {
            true => self.rounds.host_of(FlowId(flow)),
            false => self.levels.host_of(FlowId(flow)),
        };
        counts_hosts(self.isolation).then_some(turn / TINS)
    }
}

impl NaiveFlowScheduler for NaiveTurns {
    fn advance(&mut self, now: Nanos) {
        self.levels.advance(now);
        self.rounds.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        serving!(self, one => one.configure(flow, setting, head_len))
    }

    fn remove(&mut self, flow: FlowId) {
        serving!(self, one => one.remove(flow));
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
        match self.is_in_rounds() {
            true => self.rounds.select(queues),
            false => self.levels.select(queues),
        }
    }

    fn waiting(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.levels.waiting(queues)
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.levels.opens_at(now)
    }

    fn open(&mut self) {
        self.levels.open();
    }
}

/// A reference model of [`Isolated`](freeboard::Isolated) without an AQM.
///
/// It uses the library's tables (`flowhash`) to find the way of a label in its set, but determines
/// from scratch each time which flow owns a queue, which host owns an entry, and for how long.
#[derive(Debug)]
pub struct NaiveIsolated {
    sizes: Sizes,
    queues: NaiveQueues<NaiveLongestHostDrop<NaiveTurns>>,
    flows: FlowTable<Vec<TagLine>>,
    hosts: FlowTable<Vec<TagLine>>,
    /// Table of the hosts on the side that is not local.
    far_hosts: FlowTable<Vec<TagLine>>,
    /// Queues that hold packets, with their turns.
    held: BTreeMap<u32, u32>,
    /// Hosts in `far_hosts` of the queues that hold packets, in rounds.
    far: BTreeMap<u32, u32>,
    /// Number of tins, and its maximum.
    tins: [u32; 2],
    across: bool,
    costs: NaiveQuanta,
    /// Quantum of each turn in bytes, if hosts have a separate share in each tin.
    quanta: Vec<u32>,
}

impl NaiveIsolated {
    /// Creates an empty queue with one tin and tables for `tins`.
    ///
    /// # Panics
    /// If the queue does not support the sizes.
    #[must_use]
    pub fn new(sizes: Sizes, tins: u32, isolation: Isolation, limits: Limits) -> Self {
        let Sizes { queues, hosts, ways, packets, max_len, .. } = sizes;
        let (all, turns, within) = (queues + hosts, hosts * TINS, "sizes that are accepted");
        let costs = NaiveQuanta::new(max_len);
        let of_turns = NaiveTins::new(turns, max_len, &[TinConfig::by_weight(1)], 64, true);
        let mut of_turns = of_turns.with_quanta(&costs);
        for turn in (0..turns).map(FlowId) {
            of_turns.configure(turn, setting(sizes.host_quantum), None).expect(within);
        }
        let of_hosts = NaiveHostRates::new(of_turns, TINS, max_len);
        let mut levels = NaiveHostDrr::new(of_hosts, turns, all, max_len, &costs);
        for flow in (0..all).map(FlowId) {
            levels.configure(flow, setting(sizes.quantum), None).expect(within);
        }
        let rounds = NaiveLoadDrr::new(all, turns, sizes.rounds, max_len, sizes.local_side);
        let mut rounds = rounds.with_quanta(&costs);
        for flow in (0..all).map(FlowId) {
            rounds.configure(flow, setting(sizes.quantum), None).expect(within);
        }
        levels.scheduler_mut().tins_mut().serve_early(counts_hosts(isolation));
        let scheduler = NaiveTurns { levels, rounds, isolation, hosts };
        let scheduler = NaiveLongestHostDrop::new(scheduler, limits, packets, DropFrom::Head);
        let table = |entries: u32| {
            FlowTable::new(vec![TagLine::EMPTY; entries.div_ceil(8) as usize], entries, ways)
                .expect(within)
        };
        Self {
            sizes,
            queues: NaiveQueues::new(scheduler, all, packets, 0, limits),
            flows: table(queues),
            hosts: table(hosts),
            far_hosts: table(hosts),
            held: BTreeMap::new(),
            far: BTreeMap::new(),
            tins: [1, tins],
            across: false,
            costs,
            quanta: vec![sizes.host_quantum; turns as usize],
        }
    }

    fn isolation(&self) -> Isolation {
        self.queues.scheduler().scheduler().isolation
    }

    fn counts_hosts(&self) -> bool {
        counts_hosts(self.isolation())
    }

    fn is_in_rounds(&self) -> bool {
        self.queues.scheduler().scheduler().is_in_rounds()
    }

    /// Returns the label of the host on the side that counts or is local, and of the other host.
    fn host_labels(&self, labels: &impl Labelled) -> [u32; 2] {
        let of = [labels.source(), labels.destination()];
        let side = match self.isolation() {
            Isolation::TripleIsolate => self.sizes.local_side as usize,
            isolation => usize::from(isolation == Isolation::DualDstHost),
        };
        [of[side], of[1 - side]]
    }

    /// Corresponds to [`Isolated::enqueue_labelled`](freeboard::Isolated::enqueue_labelled).
    ///
    /// # Errors
    /// Those of [`Isolated::enqueue_labelled`](freeboard::Isolated::enqueue_labelled).
    pub fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &impl Labelled,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        self.queues.scheduler_and_queues().0.advance(now);
        let Lookup { queue, outcome } = self.claim(labels);
        let accepted = self.queues.enqueue(now, FlowId(queue), packet, drops);
        self.let_go();
        accepted.map(|()| outcome)
    }

    fn is_backlogged(&self, queue: u32) -> bool {
        self.queues.flow_backlog(FlowId(queue)).packets > 0
    }

    /// Returns the queue for a packet with these labels; if the queue is empty, it is assigned to
    /// the turn of the packet's host.
    fn claim(&mut self, labels: &impl Labelled) -> Lookup {
        let tin = Some(u32::from(labels.tin())).filter(|&tin| tin < self.tins[0]).unwrap_or(0);
        let label = match self.isolation() {
            Isolation::SrcHost => labels.source(),
            Isolation::DstHost => labels.destination(),
            Isolation::Hosts => labels.host_pair(),
            _ => labels.flow(),
        };
        let Lookup { mut queue, outcome } =
            self.flows.lookup(label ^ tin.wrapping_mul(0x9e37_79b9));
        if outcome != Outcome::Hit {
            let host = match self.counts_hosts() {
                true => self.claim_host(labels),
                false => 0,
            };
            let turn = host * TINS + tin;
            if outcome == Outcome::Collision && self.held[&queue] != turn {
                queue = self.sizes.queues + if self.counts_hosts() { host } else { tin };
            }
            if !self.is_backlogged(queue) {
                let is_of_turn =
                    |(flow, of): (&u32, &u32)| *of == turn && self.is_backlogged(*flow);
                if !self.held.iter().any(is_of_turn) {
                    let quantum = labels.host_terms().quantum.filter(|_| self.counts_hosts());
                    self.set_quantum(turn, quantum.unwrap_or(self.sizes.host_quantum));
                }
                self.held.insert(queue, turn);
                if self.is_in_rounds() {
                    let far = self.far_hosts.lookup(self.host_labels(labels)[1]).queue;
                    self.far.insert(queue, far);
                    let mut hosts = [turn, far * TINS + tin];
                    hosts.rotate_right(self.sizes.local_side as usize);
                    let rounds = &mut self.turns().rounds;
                    rounds.assign(FlowId(queue), hosts);
                    rounds.assign_tin(FlowId(queue), tin as usize);
                } else {
                    self.turns().levels.assign(FlowId(queue), turn);
                }
            }
        }
        Lookup { queue, outcome }
    }

    /// Returns the entry of the host. An idle host keeps its entry while one of its buckets is not
    /// full, as long as the set has an entry that another host can share.
    fn claim_host(&mut self, labels: &impl Labelled) -> u32 {
        let [label, _] = self.host_labels(labels);
        if !self.sizes.rates || self.is_in_rounds() {
            return self.hosts.lookup(label).queue;
        }
        self.rates().tell_time();
        let rates = self.queues.scheduler().scheduler().levels.scheduler();
        let short: Vec<bool> = (0..self.sizes.hosts).map(|host| rates.is_short(host)).collect();
        let is_back = self.hosts.remembers(label);
        let lookup = match self.hosts.lookup_sparing(label, |host| short[host as usize]) {
            Some(lookup) => lookup,
            None => {
                let (ways, own) = (self.sizes.ways, label % self.sizes.hosts);
                let mut set = (0..ways).map(|step| own / ways * ways + (own + step) % ways);
                let held = |host: u32| self.held.values().any(|turn| turn / TINS == host);
                match set.find(|&host| held(host)) {
                    Some(queue) => Lookup { queue, outcome: Outcome::Collision },
                    None => self.hosts.lookup(label),
                }
            }
        };
        if lookup.outcome == Outcome::Claimed {
            let rates = self.rates();
            if !is_back {
                rates.forget(lookup.queue);
            }
            let terms = labels.host_terms();
            rates.set(lookup.queue, terms.committed_rate, terms.ceiling);
        }
        lookup.queue
    }

    fn rates(&mut self) -> &mut NaiveHostRates {
        self.turns().levels.scheduler_mut()
    }

    fn turns(&mut self) -> &mut NaiveTurns {
        self.queues.scheduler_and_queues().0.scheduler_mut()
    }

    fn tins_of_turns(&mut self) -> &mut NaiveTins {
        self.rates().tins_mut()
    }

    fn set_quantum(&mut self, turn: u32, quantum: u32) {
        let (turns, most) = match self.tins[0] {
            tins if self.across && tins > 1 => (tins, MAX_QUANTUM / TINS),
            _ => (1, MAX_QUANTUM),
        };
        let quantum = quantum.clamp(self.sizes.max_len, most);
        self.quanta[turn as usize] = quantum;
        let levels = &mut self.turns().levels;
        levels.configure_host(turn, setting(quantum * turns));
    }

    /// Releases the queues of empty flows and the entries of idle hosts.
    fn let_go(&mut self) {
        let queues = self.queues.scheduler_and_queues().1;
        self.held.retain(|&queue, _| !queues[queue as usize].is_empty());
        self.far.retain(|&queue, _| !queues[queue as usize].is_empty());
        for queue in (0..self.sizes.queues).filter(|queue| !self.held.contains_key(queue)) {
            self.flows.release(queue);
        }
        for host in 0..self.sizes.hosts {
            if !self.held.values().any(|turn| turn / TINS == host) {
                self.hosts.release(host);
            }
            if !self.far.values().any(|far| *far == host) {
                self.far_hosts.release(host);
            }
        }
    }

    /// Corresponds to [`Isolated::update_host`](freeboard::Isolated::update_host).
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        self.queues.scheduler_and_queues().0.advance(now);
        if !self.counts_hosts() || self.is_in_rounds() {
            return false;
        }
        let Some(host) = self.hosts.find(self.host_labels(labels)[0]) else { return false };
        let quantum = labels.host_terms().quantum.unwrap_or(self.sizes.host_quantum);
        for tin in 0..self.tins[0] {
            self.set_quantum(host * TINS + tin, quantum);
        }
        if self.sizes.rates {
            let terms = labels.host_terms();
            self.rates().set(host, terms.committed_rate, terms.ceiling);
        }
        true
    }

    /// Corresponds to [`Isolated::set_tins`](freeboard::Isolated::set_tins); returns true if
    /// possible.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> bool {
        if tins.len() as u32 == self.tins[0] {
            self.set_tins_of_all(tins);
            return true;
        }
        let is_possible = self.held.is_empty() && self.has_room(self.isolation(), tins);
        if is_possible {
            self.begin_anew(self.isolation(), Some(tins));
        }
        is_possible
    }

    fn set_tins_of_all(&mut self, tins: &[TinConfig]) {
        self.tins_of_turns().set_tins(tins);
        self.turns().rounds.set_tins(tins);
    }

    fn has_room(&self, isolation: Isolation, tins: &[TinConfig]) -> bool {
        let count = tins.len() as u32;
        let is_crowded = !counts_hosts(isolation) && count > self.sizes.hosts;
        let has_turns = count.next_power_of_two() <= self.tins[1];
        let lacks_rounds = isolation == Isolation::TripleIsolate && 2 * count > self.sizes.rounds;
        has_turns && !is_crowded && !lacks_rounds
    }

    /// Corresponds to [`Isolated::rebuild`](freeboard::Isolated::rebuild); returns true if
    /// possible.
    pub fn rebuild<L: Labelled>(
        &mut self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
        labels_of: impl Fn(Packet) -> L,
    ) -> bool {
        let stay = vec![TinConfig::by_weight(1); self.tins[0] as usize];
        if !self.has_room(isolation, tins.unwrap_or(&stay)) {
            return false;
        }
        let mut chains = self.queues.take_all();
        self.flows.clear();
        self.hosts.clear();
        self.far_hosts.clear();
        self.begin_anew(isolation, tins);
        // A queue in the table is claimed by the flow of its oldest packet. Queues for which that
        // fails are requeued before the others, and shared queues before those.
        let mut order = chains.split_off(self.sizes.queues as usize);
        let mut placed = BTreeSet::new();
        for at in 0..chains.len() {
            while !placed.contains(&(at as u32))
                && let Some(&head) = chains[at].first()
            {
                let Lookup { queue, outcome } = self.claim(&labels_of(head));
                if outcome == Outcome::Claimed {
                    chains.swap(at, queue as usize);
                    placed.insert(queue);
                } else {
                    order.push(core::mem::take(&mut chains[at]));
                }
            }
        }
        order.append(&mut chains);
        for packet in order.into_iter().flatten() {
            let queue = self.claim(&labels_of(packet)).queue;
            self.queues.put_back(FlowId(queue), packet);
        }
        self.let_go();
        true
    }

    /// Resets all records; nothing is queued. The credit and debt of tins are kept.
    fn begin_anew(&mut self, isolation: Isolation, tins: Option<&[TinConfig]>) {
        let (was_in_rounds, turns) = (self.is_in_rounds(), self.turns());
        turns.isolation = isolation;
        let is_in_rounds = turns.is_in_rounds();
        let of_levels = turns.levels.scheduler_mut();
        match (was_in_rounds, is_in_rounds) {
            (false, true) => turns.rounds.go_on_with(of_levels.tins_mut()),
            (true, false) => of_levels.tins_mut().take_over(turns.rounds.choice_mut()),
            _ => {}
        }
        self.costs.begin_anew();
        self.held.clear();
        self.far.clear();
        if let Some(tins) = tins {
            self.tins[0] = tins.len() as u32;
            self.set_tins_of_all(tins);
        }
        self.turns().rounds.begin_anew();
        self.quanta.fill(self.sizes.host_quantum);
        let count = self.tins[0];
        let (turns, flows) = (self.sizes.hosts * TINS, self.sizes.queues + self.sizes.hosts);
        let quantum = setting(self.sizes.host_quantum);
        self.rates().forget_all();
        for turn in (0..turns).map(FlowId) {
            self.rates().renew(turn, quantum);
            let of_turns = self.tins_of_turns();
            let tin = Some(turn.0 % TINS).filter(|tin| *tin < count).unwrap_or(0);
            of_turns.assign(turn, tin as usize);
        }
        let levels = &mut self.turns().levels;
        for flow in (0..flows).map(FlowId) {
            levels.assign(flow, 0);
            levels.renew(flow);
        }
        self.tins_of_turns().begin_across();
        self.set_across(self.across);
        self.tins_of_turns().serve_early(counts_hosts(isolation));
    }

    /// Corresponds to
    /// [`Isolated::set_hosts_across_tins`](freeboard::Isolated::set_hosts_across_tins).
    pub fn set_across(&mut self, on: bool) {
        self.across = on;
        self.tins_of_turns().set_across(on);
        self.turns().rounds.set_across(on);
        for (turn, quantum) in (0..).zip(self.quanta.clone()) {
            self.set_quantum(turn, quantum);
        }
    }

    /// Corresponds to [`Isolated::set_overhead`](freeboard::Isolated::set_overhead).
    pub fn set_overhead(&mut self, link: Overhead) {
        self.rates().set_link(link);
        self.turns().rounds.choice_mut().set_link(link);
    }

    /// Returns the number of backlogged hosts in excess of their rates, and of those waiting.
    #[must_use]
    pub fn places(&self) -> [u64; 2] {
        self.queues.scheduler().scheduler().levels.scheduler().places()
    }

    /// Returns the number of turns on early lists, and of those used up in advance.
    #[must_use]
    pub fn in_advance(&self) -> [u64; 2] {
        self.queues.scheduler().scheduler().levels.scheduler().tins().in_advance()
    }

    /// Returns the numbers of backlogged sources and destinations, on the side that counts.
    #[must_use]
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        let hosts = self.hosts.occupied();
        match self.isolation() {
            Isolation::DualDstHost => (0, hosts),
            Isolation::TripleIsolate => {
                let mut both = [hosts, self.far_hosts.occupied()];
                both.rotate_right(self.sizes.local_side as usize);
                (both[0], both[1])
            }
            _ => (hosts, 0),
        }
    }

    /// Returns the backlog of a queue; spare queues follow those of the table.
    #[must_use]
    pub fn queue_backlog(&self, queue: FlowId) -> Backlog {
        self.queues.flow_backlog(queue)
    }

    /// Returns the queues, for inspection.
    #[must_use]
    pub const fn queues(&self) -> &impl Scheduler {
        &self.queues
    }

    /// Corresponds to [`Scheduler::dequeue`].
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let packet = self.queues.dequeue(now, drops);
        self.let_go();
        packet
    }

    /// Corresponds to [`Scheduler::set_limits`].
    pub fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.queues.set_limits(limits, drops);
        self.let_go();
    }

    /// Corresponds to [`Scheduler::evict`].
    pub fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let found = self.queues.evict(drops);
        self.let_go();
        found
    }

    /// Corresponds to [`Scheduler::drain`].
    pub fn drain(&mut self, drops: &mut dyn DropSink) {
        self.queues.drain(drops);
        self.let_go();
    }
}
