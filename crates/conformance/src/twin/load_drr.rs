//! Deficit round robin in rounds, as a map from rounds to lists: a flow whose host is loaded with n flows
//! has a turn in every n-th.

use std::collections::{BTreeMap, VecDeque};

use freeboard::sched_core::{ConfigError, FlowId, Side, Sides};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};
use crate::history::{HostBooks, Housing, Setting};

/// The largest quantum, in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

#[derive(Clone, Debug, Default)]
struct NaiveLoadDrrFlow {
    /// What it was given; `None` if it was not added.
    quantum: Option<u32>,
    /// What it has been sent beyond the turns it has had, in bytes.
    debt: i64,
    /// What it has been sent in the turn under way, if one is: it has begun and is not used up. It may be
    /// broken off by an empty queue.
    sent: Option<i64>,
    /// The round in which its next turn is due, as of the beginning of its last; `None` if it was never served,
    /// which is long past.
    due: Option<u64>,
    /// Source and destination.
    hosts: [u32; 2],
}

impl NaiveLoadDrrFlow {
    /// Ends the turn under way if it is used up: what it sent too much is debt.
    fn close(&mut self, max_len: u32) {
        let (Some(sent), Some(quantum)) = (self.sent, self.quantum) else { return };
        let overdraft = self.debt + sent - i64::from(quantum);
        if overdraft >= 0 {
            // More than a packet only if the quantum was lowered in the turn.
            self.debt = overdraft.min(i64::from(max_len) - 1);
            self.sent = None;
        }
    }
}

/// How many rounds back the early turn of a round may be used.
const SAVED_UP: i64 = 15;

/// Rounds counted without end, in a map of those in which a flow has a turn.
#[derive(Clone, Debug)]
pub struct NaiveLoadDrr {
    max_len: u32,
    /// How many rounds there are places for.
    wheel: u64,
    sparse_first: bool,
    sides: Sides,
    flows: Vec<NaiveLoadDrrFlow>,
    round: u64,
    new: VecDeque<FlowId>,
    lists: BTreeMap<u64, VecDeque<FlowId>>,
    /// For each side, the hosts and the latest round whose early turn they have used; rounds before the first have
    /// one as well.
    early_turns: [Vec<Option<i64>>; 2],
    /// The side whose early turns are limited where both count.
    local: Side,
}

impl NaiveLoadDrr {
    /// No flow added yet, of `flows` at most, between `sources` and `destinations`, of which both sides
    /// count; no packet is longer than `max_len` bytes. A turn is at most `wheel − 1` rounds ahead.
    #[must_use]
    pub fn new(
        flows: u32,
        [sources, destinations]: [u32; 2],
        wheel: u32,
        max_len: u32,
        sparse_first: bool,
    ) -> Self {
        Self {
            max_len,
            wheel: wheel.into(),
            sparse_first,
            sides: Sides::Both,
            flows: vec![NaiveLoadDrrFlow::default(); flows as usize],
            round: 0,
            new: VecDeque::new(),
            lists: BTreeMap::new(),
            early_turns: [sources, destinations].map(|hosts| vec![None; hosts as usize]),
            local: Side::Source,
        }
    }

    /// Where both sides count, early turns are limited for the hosts of this one.
    #[must_use]
    pub fn with_hosts_of(self, local: Side) -> Self {
        Self { local, ..self }
    }

    fn listed(&self) -> impl Iterator<Item = FlowId> {
        self.new.iter().chain(self.lists.values().flatten()).copied()
    }

    /// How many flows of `host` are backlogged; `side` is 0 for sources and 1 for destinations.
    fn count(&self, side: usize, host: u32) -> u64 {
        let of_host = |flow: &FlowId| self.flows[flow.index()].hosts[side] == host;
        self.listed().filter(of_host).map(|_| 1).sum()
    }

    /// The sides that count.
    fn counting(&self) -> &'static [usize] {
        match self.sides {
            Sides::Neither => &[],
            Sides::Source => &[0],
            Sides::Destination => &[1],
            Sides::Both => &[0, 1],
        }
    }

    /// How many rounds are between two turns of `flow`, which is listed.
    fn load(&self, flow: FlowId) -> u64 {
        let hosts = self.flows[flow.index()].hosts;
        let counts = self.counting().iter().map(|&side| self.count(side, hosts[side]));
        counts.max().unwrap_or(1).max(1).min(self.wheel - 1)
    }

    /// The list of `flow`: that of a round, or `None` for the new list.
    fn round_of(&self, flow: FlowId) -> Option<u64> {
        let list = self.lists.iter().find(|(_, list)| list.contains(&flow));
        list.map(|(&round, _)| round)
    }

    fn unlist(&mut self, flow: FlowId) {
        self.new.retain(|&other| other != flow);
        for list in self.lists.values_mut() {
            list.retain(|&other| other != flow);
        }
        self.lists.retain(|_, list| !list.is_empty());
    }

    /// When the turn behind that under way is: as many rounds after this one as the load says, or if that under
    /// way is the rest of an earlier one, when that one said.
    fn next_turn(&self, flow: FlowId) -> u64 {
        let to_come = self.flows[flow.index()].due.filter(|&due| due > self.round);
        to_come.unwrap_or_else(|| self.round + self.load(flow)).min(self.round + self.wheel - 1)
    }

    /// The turn of `flow` is over or broken off, in this round; it is on no list then. Returns the round of the
    /// next one.
    fn finish(&mut self, flow: FlowId) -> u64 {
        let next_turn = self.next_turn(flow);
        self.flows[flow.index()].due = Some(next_turn);
        self.flows[flow.index()].close(self.max_len);
        self.unlist(flow);
        next_turn
    }

    fn enlist(&mut self, flow: FlowId, round: u64) {
        self.lists.entry(round).or_default().push_back(flow);
    }

    fn is_known(&self, side: usize, host: u32) -> Result<(), ConfigError> {
        let hosts = u32::try_from(self.early_turns[side].len()).expect("as constructed");
        if host < hosts { Ok(()) } else { Err(ConfigError::UnknownHost { host, hosts }) }
    }
}

impl Housing for NaiveLoadDrr {
    fn hosts(&self) -> u32 {
        let [sources, destinations] = [0, 1].map(|side| self.early_turns[side].len());
        u32::try_from(sources.max(destinations)).expect("as constructed")
    }

    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        if flow.index() >= self.flows.len() {
            return Err(unknown(flow, self.flows.len()));
        }
        self.is_known(0, source)?;
        self.is_known(1, destination)?;
        if self.listed().any(|listed| listed == flow) {
            return Err(ConfigError::Backlogged { flow });
        }
        let NaiveLoadDrrFlow { quantum, hosts, .. } = self.flows[flow.index()];
        if hosts != [source, destination] {
            let hosts = [source, destination];
            self.flows[flow.index()] =
                NaiveLoadDrrFlow { quantum, hosts, ..NaiveLoadDrrFlow::default() };
        }
        Ok(())
    }

    fn count(&mut self, sides: Sides) {
        self.sides = sides;
    }

    fn books(&self, number: u32) -> HostBooks {
        let hosts = self.flows.get(number as usize).map(|flow| flow.hosts);
        HostBooks {
            of_flow: [0, 1].map(|side| hosts.map(|hosts| hosts[side])),
            backlogged: [0, 1].map(|side| {
                u32::try_from(Self::count(self, side, number)).expect("no more than flows")
            }),
            ..HostBooks::default()
        }
    }
}

impl NaiveFlowScheduler for NaiveLoadDrr {
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

    /// What is forgotten was never assigned.
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

    /// A turn that was broken off goes on before those that stand, until the next one is due. Then a new one
    /// begins early, if its host has an early turn left from the last rounds or in one before that which the load says.
    /// All others wait for that.
    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let round = self.round;
        let NaiveLoadDrrFlow { due, sent, hosts, .. } = self.flows[flow.index()];
        let is_due = due.is_none_or(|due| due <= round);
        if self.sparse_first && sent.is_some() && !is_due {
            self.new.push_back(flow);
            return;
        }
        if sent.is_some() {
            // What is left of a turn is not added to the next; nor is it a debt.
            (self.flows[flow.index()].sent, self.flows[flow.index()].debt) = (None, 0);
        }
        // Where it is put does not count, that it is put somewhere does.
        self.enlist(flow, round);
        let by_load = self.next_turn(flow);
        self.unlist(flow);
        let limited = match self.sides {
            Sides::Both => Some(self.local as usize),
            _ => self.counting().first().copied(),
        };
        let now = i64::try_from(round).expect("few rounds");
        // The early turn that is used: that of the first round, not too long ago, whose turn is left.
        let left = limited.map(|side| {
            let used = self.early_turns[side][hosts[side] as usize];
            used.map_or(now - SAVED_UP, |used| (used + 1).max(now - SAVED_UP))
        });
        let early = left.map_or(round, |left| round.max(u64::try_from(left).unwrap_or(0)));
        if !(self.sparse_first && is_due && (early == round || early < by_load)) {
            self.enlist(flow, by_load);
            return;
        }
        if let Some(side) = limited {
            self.early_turns[side][hosts[side] as usize] = left;
        }
        if early == round {
            self.new.push_back(flow);
        } else {
            self.enlist(flow, early);
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.round = self.round_of(flow).map_or(self.round, |round| round.max(self.round));
        let state = &mut self.flows[flow.index()];
        let sent = state.sent.unwrap_or(0) + i64::from(len);
        state.sent = Some(sent);
        let quantum = i64::from(state.quantum.expect("added"));
        if next_head.is_none() || state.debt + sent >= quantum {
            let next_turn = self.finish(flow);
            if next_head.is_some() {
                self.enlist(flow, next_turn);
            }
        }
    }

    /// In a turn that has begun, it is as if the queue had been emptied by service. One that has not is as if
    /// it had never been due.
    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_some() {
            return;
        }
        if self.flows[flow.index()].sent.is_some() {
            self.finish(flow);
        }
        self.unlist(flow);
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        let first = || self.lists.values().next()?.front();
        self.new.front().or_else(first).copied()
    }
}
