//! Hosts that are one in the loads of their flows, as rounds have them: joined, parted, in rings that are full, and in several tins.

use std::collections::VecDeque;

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{Housing, Setting};
use conformance::twin::{Held, NaiveFlowScheduler, NaiveLoadDrr};
use freeboard::sched_core::{
    Backlog, FlowId, FlowScheduler, FlowState, LoadDrr, LoadDrrFlow, LoadDrrHost, Packet,
    RoundList, Side, Sides, TinConfig,
};

const MAX_LEN: u32 = 500;

type Rounds = LoadDrr<Vec<LoadDrrFlow>, Vec<LoadDrrHost>, Vec<LoadDrrHost>, Vec<RoundList>>;

/// Something done to rounds; flows and hosts by their numbers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(u32, u32),
    Serve,
    /// The flow loses its first packet.
    Lose(u32),
    Assign(u32, u32, u32),
    AssignTin(u32, u32),
    Remove(u32),
    Count(Sides),
    Join(Side, u32, u32),
    Part(Side, u32),
    PartAll,
    /// So many tins, if no flow is backlogged or there are as many.
    SetTins(u32, u32),
}

/// Rounds, their twin, and the queues of both.
#[derive(Clone)]
struct Both {
    rounds: Rounds,
    twin: NaiveLoadDrr,
    queues: Vec<VecDeque<Held>>,
}

impl Both {
    fn new(flows: u32, hosts: u32, calendar: u32, sparse_first: bool) -> Self {
        let side = || vec![LoadDrrHost::EMPTY; hosts as usize];
        let nodes = vec![LoadDrrFlow::EMPTY; flows as usize];
        let lists = vec![RoundList::EMPTY; calendar as usize];
        let rounds = LoadDrr::new(nodes, side(), side(), lists, MAX_LEN).expect("in range");
        let rounds = if sparse_first { rounds.sparse_first() } else { rounds };
        let twin = NaiveLoadDrr::new(flows, [hosts; 2], calendar, MAX_LEN, sparse_first);
        let queues = vec![VecDeque::new(); flows as usize];
        let mut both = Self { rounds, twin, queues };
        for flow in 0..flows {
            both.add(FlowId(flow));
        }
        both
    }

    fn add(&mut self, flow: FlowId) {
        self.rounds.configure(flow, MAX_LEN, None).expect("in range");
        let setting = Setting { weight: 1, max_len: MAX_LEN };
        self.twin.configure(flow, setting, None).expect("in range");
    }

    fn head(&self, flow: u32) -> Option<u32> {
        self.queues[flow as usize].front().map(|held| held.packet.len)
    }

    fn is_idle(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(flow, len) => {
                let was_idle = self.head(flow).is_none();
                let (number, packet) = (FlowId(flow), Packet::new(0, len));
                self.queues[flow as usize].push_back(Held { flow: number, packet });
                if was_idle {
                    self.rounds.backlogged(number, len);
                    self.twin.backlogged(number, len);
                }
            }
            Step::Serve => {
                let Some(flow) = self.rounds.select() else { return };
                let sent = self.queues[flow.index()].pop_front().expect("one that holds packets");
                let next = self.head(flow.0);
                self.rounds.served(flow, sent.packet.len, next);
                self.twin.served(flow, sent.packet.len, next);
            }
            Step::Lose(flow) => {
                let Some(lost) = self.queues[flow as usize].pop_front() else { return };
                let next = self.head(flow);
                self.rounds.lost(FlowId(flow), lost.packet.len, next);
                self.twin.lost(FlowId(flow), next);
            }
            Step::Assign(flow, source, destination) => {
                let assigned = self.rounds.assign(FlowId(flow), source, destination);
                assert_eq!(assigned, self.twin.assign(FlowId(flow), source, destination));
            }
            Step::AssignTin(flow, tin) => {
                if self.head(flow).is_none() && tin < self.rounds.tins() {
                    self.rounds.assign_tin(FlowId(flow), tin).expect("it is idle");
                    self.twin.assign_tin(FlowId(flow), tin as usize);
                }
            }
            Step::Remove(flow) => {
                if self.head(flow).is_none() {
                    self.rounds.remove(FlowId(flow));
                    self.twin.remove(FlowId(flow));
                    self.add(FlowId(flow));
                }
            }
            Step::Count(sides) => {
                self.rounds.set_mode(sides);
                self.twin.count(sides);
            }
            Step::Join(side, host, other) => {
                self.rounds.join(side, host, other);
                self.twin.join(side as usize, host, other);
            }
            Step::Part(side, host) => {
                self.rounds.part(side, host);
                self.twin.part(side as usize, host);
            }
            Step::PartAll => {
                self.rounds.part_all();
                self.twin.part_all();
            }
            Step::SetTins(count, weight) => {
                if self.is_idle() || count == self.rounds.tins() {
                    let tin = |tin| TinConfig::by_weight(1 + tin * weight);
                    let tins: Vec<_> = (0..count).map(tin).collect();
                    self.rounds.set_tins(&tins).expect("in range");
                    self.twin.set_tins(&tins);
                }
            }
        }
        self.twin.settle(&self.queues);
    }

    /// The books are right, and both select the same flow.
    fn check(&self) -> Result<(), String> {
        let state = |flow: FlowId| {
            let mut backlog = Backlog::default();
            for held in &self.queues[flow.index()] {
                backlog.packets += 1;
                backlog.bytes += held.packet.len;
            }
            FlowState { backlog, head_len: self.head(flow.0) }
        };
        self.rounds.recount(&state).map_err(|imbalance| imbalance.to_string())?;
        let (selected, expected) = (self.rounds.select(), self.twin.select(&self.queues));
        if selected == expected {
            return Ok(());
        }
        Err(format!("{selected:?} is selected, but the twin says {expected:?}"))
    }

    /// Every packet comes out, in the order of the twin.
    fn drain(&mut self) -> Result<(), String> {
        while !self.is_idle() {
            self.check()?;
            self.step(Step::Serve);
        }
        self.check()
    }
}

/// All histories of `letters` of this length, and of each of their beginnings.
fn play_all(both: &Both, letters: &[Step], length: u32, before: &mut Vec<Step>) {
    for letter in letters {
        let mut both = both.clone();
        both.step(*letter);
        before.push(*letter);
        both.check().unwrap_or_else(|what| panic!("{before:?}: {what}"));
        if length > 1 {
            play_all(&both, letters, length - 1, before);
        } else {
            both.drain().unwrap_or_else(|what| panic!("{before:?}, to the end: {what}"));
        }
        before.pop();
    }
}

/// Goal: loads count the flows of siblings, and of those that are siblings now, after every short history. Method: three flows of
/// three hosts; hosts join a ring of two and of three, leave it at either end, and change rings while they are backlogged.
#[test]
fn every_short_history_of_hosts_that_join_and_part() {
    for (mode, side) in [(Sides::Source, Side::Source), (Sides::Both, Side::Destination)] {
        let mut both = Both::new(4, 3, 8, true);
        both.step(Step::Count(mode));
        // The side without siblings has a host for each flow.
        for flow in 0..4 {
            let host = flow % 3;
            both.step(Step::Assign(flow, host, host));
        }
        let letters = [
            Step::Arrive(0, 500),
            Step::Arrive(1, 300),
            Step::Arrive(2, 500),
            Step::Arrive(3, 500),
            Step::Serve,
            Step::Lose(1),
            Step::Join(side, 1, 0),
            Step::Join(side, 2, 1),
            Step::Part(side, 0),
            Step::PartAll,
        ];
        play_all(&both, &letters, effort(4, 6), &mut Vec::new());
    }
}

const FLOWS: u32 = 24;
const HOSTS: u32 = 12;

fn any_side(random: &mut Xorshift) -> Side {
    [Side::Source, Side::Destination][random.below(2) as usize]
}

fn any_step(random: &mut Xorshift, filling: bool) -> Step {
    let (flow, host) = (random.below(FLOWS), random.below(HOSTS));
    match random.below(128) {
        0 => Step::PartAll,
        1 => Step::Remove(flow),
        2 => {
            let modes = [Sides::Source, Sides::Both, Sides::Destination, Sides::Neither];
            Step::Count(modes[random.below(4) as usize])
        }
        3 => Step::SetTins([1, 2, 3, 8][random.below(4) as usize], random.below(3)),
        4..7 => Step::Part(any_side(random), host),
        // Hosts there are not are among them.
        7 => Step::Join(any_side(random), HOSTS + random.below(2), host),
        8 => Step::Part(any_side(random), HOSTS + random.below(2)),
        9..19 => Step::Join(any_side(random), host, random.below(HOSTS)),
        19..25 => Step::Lose(flow),
        25..33 => Step::Assign(flow, host, random.below(HOSTS)),
        33..41 => Step::AssignTin(flow, random.below(8)),
        choice if (choice < 105) == filling => Step::Arrive(flow, 1 + random.below(MAX_LEN)),
        _ => Step::Serve,
    }
}

/// Goal: the same in long histories, with rings that are full, hosts and flows that are not there, and several tins. Method: 24
/// flows of twelve hosts, by spells that fill queues and that empty them. After each step the books are counted anew.
#[test]
fn hosts_that_join_and_part_in_full_rings_and_several_tins() {
    for seed in 1..=effort(12, 80) {
        let mut random = Xorshift::new(seed);
        let calendar = [16, 16, 64, 256][random.below(4) as usize];
        let mut both = Both::new(FLOWS, HOSTS, calendar, seed % 2 == 0);
        for step in 0..3_000 {
            let done = any_step(&mut random, step / 150 % 2 == 0);
            both.step(done);
            let checked = both.check();
            checked.unwrap_or_else(|what| panic!("seed {seed}, step {step}, {done:?}: {what}"));
            // Other numbers of tins are set where nothing is queued.
            if step % 300 == 299 {
                both.drain().unwrap_or_else(|what| panic!("seed {seed}, step {step}: {what}"));
                both.step(Step::SetTins([8, 1, 4, 2][random.below(4) as usize], 1));
                (0..FLOWS).for_each(|flow| both.step(Step::AssignTin(flow, random.below(8))));
            }
        }
        both.drain().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
