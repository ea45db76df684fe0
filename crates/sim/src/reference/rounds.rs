//! Deficit round robin in rounds, as a map from rounds to lists: a flow whose host is loaded with n flows
//! has a turn in every n-th.

use std::collections::{BTreeMap, VecDeque};

use freeboard::sched_core::{ConfigError, FlowId, Sides};

use super::order::{NaiveOrder, QueuesView, in_range, unknown};
use crate::history::{HostBooks, Housing, Setting};

/// The largest quantum, in bytes.
const MAX_QUANTUM: u32 = 1 << 28;

#[derive(Clone, Debug, Default)]
struct Flow {
    /// What it was given; `None` if it was not added.
    quantum: Option<u32>,
    /// What it has been sent beyond the turns it has had, in bytes.
    debt: i64,
    /// What it has been sent in the turn under way, if one is.
    sent: Option<i64>,
    /// The round in which its next turn is due; `None` if it was never served, which is long past.
    due: Option<u64>,
    /// Source and destination.
    hosts: [u32; 2],
}

/// Rounds counted without end, in a map of those in which somebody has a turn.
#[derive(Clone, Debug)]
pub struct NaiveRounds {
    max_len: u32,
    /// How many rounds there are places for.
    wheel: u64,
    sparse_first: bool,
    sides: Sides,
    flows: Vec<Flow>,
    round: u64,
    new: VecDeque<FlowId>,
    lists: BTreeMap<u64, VecDeque<FlowId>>,
    /// For each side, the hosts and the round in which one of their flows had its first turn last.
    first_turns: [Vec<Option<u64>>; 2],
}

impl NaiveRounds {
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
            flows: vec![Flow::default(); flows as usize],
            round: 0,
            new: VecDeque::new(),
            lists: BTreeMap::new(),
            first_turns: [sources, destinations].map(|hosts| vec![None; hosts as usize]),
        }
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

    /// The turn of `flow` is over, in this round; it is on no list then. Returns the round of the next one.
    fn finish(&mut self, flow: FlowId) -> u64 {
        let next_turn = self.round + self.load(flow);
        let state = &mut self.flows[flow.index()];
        let quantum = i64::from(state.quantum.expect("added"));
        let overdraft = state.debt + state.sent.take().unwrap_or(0) - quantum;
        // More than a packet only if the quantum was lowered in the turn.
        state.debt = overdraft.clamp(0, i64::from(self.max_len) - 1);
        state.due = Some(next_turn);
        self.unlist(flow);
        next_turn
    }

    fn enlist(&mut self, flow: FlowId, round: u64) {
        self.lists.entry(round).or_default().push_back(flow);
    }

    fn is_known(&self, side: usize, host: u32) -> Result<(), ConfigError> {
        let hosts = u32::try_from(self.first_turns[side].len()).expect("as constructed");
        if host < hosts { Ok(()) } else { Err(ConfigError::UnknownHost { host, hosts }) }
    }
}

impl Housing for NaiveRounds {
    fn hosts(&self) -> u32 {
        let [sources, destinations] = [0, 1].map(|side| self.first_turns[side].len());
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
        let Flow { quantum, hosts, .. } = self.flows[flow.index()];
        if hosts != [source, destination] {
            let hosts = [source, destination];
            self.flows[flow.index()] = Flow { quantum, hosts, ..Flow::default() };
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

impl NaiveOrder for NaiveRounds {
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        let state = self.flows.get_mut(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        let quantum = setting.quantum();
        in_range("quantum in bytes", quantum, self.max_len, MAX_QUANTUM)?;
        state.quantum = Some(quantum);
        Ok(())
    }

    /// What is forgotten was never assigned.
    fn remove(&mut self, flow: FlowId) {
        if let Some(state) = self.flows.get_mut(flow.index()) {
            *state = Flow::default();
        }
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        Some([self.flows.get(flow.index())?.quantum?, 0])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.setting(flow).map(|_| self.max_len)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        let round = self.round;
        let Flow { due, hosts, .. } = self.flows[flow.index()];
        let is_due = due.is_none_or(|due| due <= round);
        let counting = self.counting();
        let first_turns = &mut self.first_turns;
        let had_one = |side: usize| first_turns[side][hosts[side] as usize] == Some(round);
        if self.sparse_first && is_due && !counting.iter().copied().any(had_one) {
            for &side in counting {
                first_turns[side][hosts[side] as usize] = Some(round);
            }
            self.new.push_back(flow);
        } else {
            // Where it is put does not count, that it is put somewhere does.
            self.enlist(flow, round);
            let load = self.load(flow);
            self.unlist(flow);
            let turn = due.unwrap_or(0).max(round + load).min(round + self.wheel - 1);
            self.enlist(flow, turn);
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

    /// The rest of a turn that has begun counts as sent. One that has not is as if it had never been due.
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
