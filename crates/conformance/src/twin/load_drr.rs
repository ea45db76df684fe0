//! Reference model of deficit round robin in rounds, with a map from rounds to lists: a flow whose
//! host has n backlogged flows gets a turn in every n-th round.

use std::collections::{BTreeMap, VecDeque};

use freeboard::sched_core::{ConfigError, FlowId, Nanos, Side, TinConfig};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use super::quanta::NaiveQuanta;
use super::tins::NaiveTins;
use crate::history::Setting;

/// Largest quantum in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

#[derive(Clone, Debug, Default)]
struct NaiveLoadDrrFlow {
    /// Quantum; `None` if the flow was not added.
    quantum: Option<u32>,
    /// Bytes sent beyond past turns.
    debt: i64,
    /// Bytes sent in the current turn, if one has begun and is not used up. An empty queue may
    /// interrupt it.
    sent: Option<i64>,
    /// Round of the next turn, as of the beginning of the last one; `None` if the flow was never
    /// served, which counts as long past.
    due: Option<u64>,
    /// Source and destination.
    hosts: [u32; 2],
    tin: usize,
}

impl NaiveLoadDrrFlow {
    /// Ends the current turn if it is used up; service beyond the quantum becomes debt.
    fn close(&mut self, max_len: u32) {
        let (Some(sent), Some(quantum)) = (self.sent, self.quantum) else { return };
        let overdraft = self.debt + sent - i64::from(quantum);
        if overdraft >= 0 {
            // Exceeds one packet only if the quantum was lowered during the turn.
            self.debt = overdraft.min(i64::from(max_len) - 1);
            self.sent = None;
        }
    }
}

/// Number of past rounds whose early turn may still be used.
const SAVED_UP: i64 = 15;

/// The rounds of a tin, numbered without wrapping, and a map of the rounds in which flows have
/// turns.
#[derive(Clone, Debug, Default)]
struct NaiveRounds {
    round: u64,
    new: VecDeque<FlowId>,
    lists: BTreeMap<u64, VecDeque<FlowId>>,
}

impl NaiveRounds {
    fn listed(&self) -> impl Iterator<Item = FlowId> {
        self.new.iter().chain(self.lists.values().flatten()).copied()
    }
}

/// Tins with rounds in each of them.
#[derive(Clone, Debug)]
pub(super) struct NaiveLoadDrr {
    max_len: u32,
    quanta: NaiveQuanta,
    /// Total number of rounds that all tins have space for.
    rounds: u32,
    flows: Vec<NaiveLoadDrrFlow>,
    tins: Vec<NaiveRounds>,
    /// Selects the tin to serve: each tin is a flow of this model, alone in its tin.
    choice: NaiveTins,
    /// Per host of the local side: latest round whose early turn was used. Rounds before the first
    /// have early turns too.
    early_turns: Vec<Option<i64>>,
    /// If true, hosts count their flows together; those numbered `8n` to `8n + 7` on a side are
    /// one host.
    is_across: bool,
    /// Side whose early turns are limited.
    local: Side,
}

impl NaiveLoadDrr {
    /// Creates the model with one tin and without flows, for at most `flows` flows between `hosts`
    /// hosts on either side, both of which count, and packets of at most `max_len` bytes. A turn is
    /// less than the largest power of two within `rounds` ahead. Early turns are limited for the
    /// hosts of the side `local`.
    pub(super) fn new(flows: u32, hosts: u32, rounds: u32, max_len: u32, local: Side) -> Self {
        let mut choice =
            NaiveTins::new(TinConfig::MAX_TINS, max_len, &[TinConfig::by_weight(1)], 64, false);
        for tin in (0..TinConfig::MAX_TINS).map(FlowId) {
            let setting = Setting { weight: max_len, max_len: 1 };
            choice.configure(tin, setting, None).expect("a quantum in range");
        }
        Self {
            max_len,
            quanta: NaiveQuanta::default(),
            rounds,
            flows: vec![NaiveLoadDrrFlow::default(); flows as usize],
            tins: vec![NaiveRounds::default()],
            choice,
            early_turns: vec![None; hosts as usize],
            is_across: false,
            local,
        }
    }

    /// Sets the cost of packets.
    pub(super) fn with_quanta(self, quanta: &NaiveQuanta) -> Self {
        Self { quanta: quanta.clone(), ..self }
    }

    /// Sets the tins; their number may change only while no flow is backlogged.
    ///
    /// # Panics
    /// If `tins` is empty.
    pub(super) fn set_tins(&mut self, tins: &[TinConfig]) {
        let count = tins.len();
        self.choice.set_tins(tins);
        if count == self.tins.len() {
            return;
        }
        self.tins.truncate(count);
        self.tins.resize_with(count, NaiveRounds::default);
        for tin in 0..count as u32 {
            self.choice.assign(FlowId(tin), tin as usize);
        }
        for flow in (0..self.flows.len() as u32).map(FlowId) {
            if self.flows[flow.index()].tin >= count {
                self.move_to(flow, 0);
            }
        }
    }

    /// Takes over the tins of `choice` with their credit and debt.
    pub(super) fn go_on_with(&mut self, choice: &NaiveTins) {
        self.tins.resize_with(choice.count(), NaiveRounds::default);
        self.choice.take_over(choice);
        for tin in 0..choice.count() as u32 {
            self.choice.assign(FlowId(tin), tin as usize);
        }
    }

    /// Resets all rounds, while no flow is backlogged, to the state after flows were added.
    pub(super) fn begin_anew(&mut self) {
        for flow in &mut self.flows {
            *flow = NaiveLoadDrrFlow { quantum: flow.quantum, ..NaiveLoadDrrFlow::default() };
        }
        self.tins.fill(NaiveRounds::default());
        self.early_turns.fill(None);
    }

    /// Assigns `flow`, which is not backlogged, to `tin`.
    pub(super) fn assign_tin(&mut self, flow: FlowId, tin: usize) {
        if self.flows[flow.index()].tin != tin {
            self.move_to(flow, tin);
        }
    }

    fn move_to(&mut self, flow: FlowId, tin: usize) {
        let NaiveLoadDrrFlow { quantum, hosts, .. } = self.flows[flow.index()];
        self.flows[flow.index()] =
            NaiveLoadDrrFlow { quantum, hosts, tin, ..NaiveLoadDrrFlow::default() };
    }

    /// Sets whether hosts count their flows together.
    pub(super) const fn set_across(&mut self, on: bool) {
        self.is_across = on;
    }

    /// Returns the host of `flow` on the side `local`.
    pub(super) fn host_of(&self, flow: FlowId) -> u32 {
        self.flows[flow.index()].hosts[self.local as usize]
    }

    /// Assigns `flow`, which is empty, to this pair of hosts.
    pub(super) fn assign(&mut self, flow: FlowId, hosts: [u32; 2]) {
        assert!(!self.listed().any(|listed| listed == flow), "{flow:?} holds packets");
        let NaiveLoadDrrFlow { quantum, hosts: before, tin, .. } = self.flows[flow.index()];
        if hosts != before {
            self.flows[flow.index()] =
                NaiveLoadDrrFlow { quantum, hosts, tin, ..NaiveLoadDrrFlow::default() };
        }
    }

    /// Returns the choice of the tin, with the credit and debt of each.
    pub(super) const fn choice_mut(&mut self) -> &mut NaiveTins {
        &mut self.choice
    }

    /// Returns the number of rounds in a tin.
    fn wheel(&self) -> u64 {
        let of_tin = self.rounds / self.tins.len() as u32;
        1 << of_tin.ilog2()
    }

    /// Returns the rounds of the tin of `flow`.
    fn of(&mut self, flow: FlowId) -> &mut NaiveRounds {
        &mut self.tins[self.flows[flow.index()].tin]
    }

    fn round(&self, flow: FlowId) -> u64 {
        self.tins[self.flows[flow.index()].tin].round
    }

    fn listed(&self) -> impl Iterator<Item = FlowId> {
        self.tins.iter().flat_map(NaiveRounds::listed)
    }

    /// Returns the number of backlogged flows of `host`; `side` is 0 for sources and 1 for
    /// destinations.
    fn count(&self, side: usize, host: u32) -> u64 {
        let of_host = |flow: &FlowId| self.flows[flow.index()].hosts[side] == host;
        self.listed().filter(of_host).map(|_| 1).sum()
    }

    /// Returns the number of rounds between two turns of `flow`, which is listed.
    fn load(&self, flow: FlowId) -> u64 {
        let together = |(side, host): (usize, u32)| match self.is_across {
            true => (host & !7..=host | 7).map(|host| self.count(side, host)).sum(),
            false => self.count(side, host),
        };
        let counts = (0..).zip(self.flows[flow.index()].hosts).map(together);
        counts.max().unwrap_or(1).max(1).min(self.wheel() - 1)
    }

    /// Returns the round in whose list `flow` is, or `None` for the new list.
    fn round_of(&self, flow: FlowId) -> Option<u64> {
        let lists = &self.tins[self.flows[flow.index()].tin].lists;
        let list = lists.iter().find(|(_, list)| list.contains(&flow));
        list.map(|(&round, _)| round)
    }

    fn unlist(&mut self, flow: FlowId) {
        let of = self.of(flow);
        of.new.retain(|&other| other != flow);
        for list in of.lists.values_mut() {
            list.retain(|&other| other != flow);
        }
        of.lists.retain(|_, list| !list.is_empty());
    }

    /// Returns the round of the turn after the current one: this round plus the load, or, if the
    /// current turn is the rest of an earlier one, the round determined then.
    fn next_turn(&self, flow: FlowId) -> u64 {
        let round = self.round(flow);
        let to_come = self.flows[flow.index()].due.filter(|&due| due > round);
        to_come.unwrap_or_else(|| round + self.load(flow)).min(round + self.wheel() - 1)
    }

    /// Ends or interrupts the turn of `flow` in this round and removes it from its list; returns
    /// the round of its next turn.
    fn finish(&mut self, flow: FlowId) -> u64 {
        let next_turn = self.next_turn(flow);
        self.flows[flow.index()].due = Some(next_turn);
        self.flows[flow.index()].close(self.max_len);
        self.unlist(flow);
        next_turn
    }

    fn enlist(&mut self, flow: FlowId, round: u64) {
        self.of(flow).lists.entry(round).or_default().push_back(flow);
    }
}

impl NaiveFlowScheduler for NaiveLoadDrr {
    fn advance(&mut self, now: Nanos) {
        self.choice.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let (flows, max_len) = (self.flows.len(), self.max_len);
        let is_listed = self.listed().any(|listed| listed == flow);
        let state = self.flows.get_mut(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        let quantum = setting.quantum();
        in_range("quantum in bytes", quantum, self.max_len, MAX_QUANTUM)?;
        state.quantum = Some(quantum);
        if !is_listed {
            state.close(max_len);
        }
        Ok(())
    }

    /// A removed flow has no assignment.
    fn remove(&mut self, flow: FlowId) {
        if let Some(state) = self.flows.get_mut(flow.index()) {
            *state = NaiveLoadDrrFlow::default();
        }
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        Some([self.flows.get(flow.index())?.quantum?, 0])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.setting(flow).map(|_| self.max_len)
    }

    /// An interrupted turn continues before standing ones until the next one is due. Then a new
    /// turn begins early, if the host has an unused early turn of a recent round, or of a round
    /// before the one given by the load. All other flows wait for the latter.
    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let NaiveLoadDrrFlow { due, sent, hosts, tin, .. } = self.flows[flow.index()];
        let (round, was_idle) = (self.round(flow), self.tins[tin].listed().next().is_none());
        if was_idle {
            self.choice.backlogged(FlowId(tin as u32), 1);
        }
        let is_due = due.is_none_or(|due| due <= round);
        if sent.is_some() && !is_due {
            self.of(flow).new.push_back(flow);
            return;
        }
        if sent.is_some() {
            // The rest of a turn is not added to the next one, and is not a debt either.
            (self.flows[flow.index()].sent, self.flows[flow.index()].debt) = (None, 0);
        }
        // Temporarily listed so that it counts; the position is irrelevant.
        self.enlist(flow, round);
        let by_load = self.next_turn(flow);
        self.unlist(flow);
        let now = i64::try_from(round).expect("few rounds");
        // The early turn used is that of the first recent round whose early turn is left.
        let host = hosts[self.local as usize] as usize;
        // A value further ahead than any turn belongs to the rounds of another tin.
        let most = now + self.wheel() as i64 - 2;
        let used = self.early_turns[host].filter(|&used| used <= most);
        let left = used.map_or(now - SAVED_UP, |used| (used + 1).max(now - SAVED_UP));
        let early = round.max(u64::try_from(left).unwrap_or(0));
        if !(is_due && (early == round || early < by_load)) {
            self.enlist(flow, by_load);
            return;
        }
        self.early_turns[host] = Some(left);
        if early == round {
            self.of(flow).new.push_back(flow);
        } else {
            self.enlist(flow, early);
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let tin = self.flows[flow.index()].tin;
        let turn = self.round_of(flow);
        let of = &mut self.tins[tin];
        of.round = turn.map_or(of.round, |round| round.max(of.round));
        let state = &mut self.flows[flow.index()];
        self.quanta.note(len);
        let sent = state.sent.unwrap_or(0) + self.quanta.cost(len);
        state.sent = Some(sent);
        let quantum = i64::from(state.quantum.expect("added"));
        if next_head.is_none() || state.debt + sent >= quantum {
            let next_turn = self.finish(flow);
            if next_head.is_some() {
                self.enlist(flow, next_turn);
            }
        }
        let is_idle = self.tins[tin].listed().next().is_none();
        self.choice.served(FlowId(tin as u32), len, Some(1).filter(|_| !is_idle));
    }

    /// In a turn that has begun, the loss counts as if service had emptied the queue. A turn that
    /// has not begun is treated as if it had never been due.
    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        let tin = self.flows[flow.index()].tin;
        if head.is_some() || !self.tins[tin].listed().any(|listed| listed == flow) {
            return;
        }
        if self.flows[flow.index()].sent.is_some() {
            self.finish(flow);
        }
        self.unlist(flow);
        if self.tins[tin].listed().next().is_none() {
            self.choice.lost(FlowId(tin as u32), None);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let tin = self.choice.select(queues)?.index();
        let first = || self.tins[tin].lists.values().next()?.front();
        self.tins[tin].new.front().or_else(first).copied()
    }
}
