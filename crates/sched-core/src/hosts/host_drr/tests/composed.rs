//! [`HostDrr`] against what it stands for: a flow scheduler of hosts and one [`Drr`] per host, told the same.

use super::*;

/// The flow scheduler `O` of hosts, and the flows of each in a [`Drr`] of their own.
struct Composed<O> {
    scheduler: O,
    inside: Vec<Drr<Vec<DrrFlow>>>,
    host_of: Vec<u32>,
}

impl<O: FlowScheduler> Composed<O> {
    fn inside(&mut self, flow: FlowId) -> &mut Drr<Vec<DrrFlow>> {
        &mut self.inside[self.host_of[flow.index()] as usize]
    }

    fn assign(&mut self, flow: FlowId, host: u32) {
        let before = self.inside(flow).config(flow);
        if self.host_of[flow.index()] != host {
            self.inside(flow).remove(flow);
            self.host_of[flow.index()] = host;
            if let Some(quantum) = before {
                self.inside(flow).configure(flow, quantum, None).unwrap();
            }
        }
    }

    fn left(&mut self, flow: FlowId) -> Option<u32> {
        self.inside(flow).select().map(|_| 1)
    }
}

impl<O: FlowScheduler> FlowScheduler for Composed<O> {
    type Config = u32;

    fn flows(&self) -> u32 {
        self.host_of.len() as u32
    }

    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.inside(flow).configure(flow, quantum, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        let host = FlowId(self.host_of[flow.index()]);
        let was_backlogged = self.inside(flow).select().is_some();
        self.inside(flow).remove(flow);
        let left = self.left(flow);
        if was_backlogged && left.is_none() {
            self.scheduler.lost(host, 0, left);
        }
        self.host_of[flow.index()] = 0;
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.inside[self.host_of[flow.index()] as usize].config(flow)
    }

    fn max_len(&self, _flow: FlowId) -> Option<u32> {
        Some(100)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let host = FlowId(self.host_of[flow.index()]);
        let was_idle = self.inside(flow).select().is_none();
        self.inside(flow).backlogged(flow, head_len);
        if was_idle {
            self.scheduler.backlogged(host, head_len);
        } else {
            self.scheduler.grew(host, head_len);
        }
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        self.inside(flow).grew(flow, len);
        self.scheduler.grew(FlowId(self.host_of[flow.index()]), len);
    }

    fn select(&self) -> Option<FlowId> {
        self.inside[self.scheduler.select()?.index()].select()
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.inside(flow).served(flow, len, next_head);
        let left = self.left(flow);
        self.scheduler.served(FlowId(self.host_of[flow.index()]), len, left);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.inside(flow).lost(flow, len, head);
        let left = self.left(flow);
        self.scheduler.lost(FlowId(self.host_of[flow.index()]), len, left);
    }

    fn advance(&mut self, _now: Nanos) {}

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: true, counts_bytes: true, common_max_len: 0 }
    }

    fn upcoming(&self, _ahead: &mut [FlowId]) -> usize {
        0
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
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

    fn recount(&self, _flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        Ok(())
    }
}

const FLOWS: u32 = 12;
const HOSTS: u32 = 4;

/// One random history under two equal flow schedulers of hosts, recounted after every operation.
/// `set` gives a host a random configuration.
fn compare<O: FlowScheduler + Clone>(
    scheduler: &O,
    sparse_first: bool,
    seed: u64,
    set: fn(&mut Xorshift) -> O::Config,
) {
    let none = vec![HostDrrFlow::EMPTY; FLOWS as usize];
    let rings = vec![HostRing::EMPTY; HOSTS as usize];
    let mut ours = HostDrr::new(scheduler.clone(), none, rings, 100).unwrap();
    let mut inside = drr(FLOWS as usize, 100);
    if sparse_first {
        (ours, inside) = (ours.sparse_first(), inside.sparse_first());
    }
    ours.add_all(100).unwrap();
    let host_of = vec![0; FLOWS as usize];
    let inside = vec![inside; HOSTS as usize];
    let theirs = Composed { scheduler: scheduler.clone(), inside, host_of };
    let (mut ours, mut theirs) =
        (Link::over(ours, FLOWS as usize), Link::over(theirs, FLOWS as usize));
    let mut random = Xorshift::new(seed);
    for operation in 0..3_000_u32 {
        // Every other time a flow of a few, so that host 0 is flooded; backlogs come and go.
        let bound = if operation & 1 == 0 { FLOWS } else { 3 };
        let (flow, host) = (random.below(bound), random.below(HOSTS));
        let filling = operation >> 7 & 1 == 0;
        match random.below(32) {
            0..4 => {
                let busy = !ours.queues[flow as usize].is_empty();
                let expected =
                    if busy { Err(ConfigError::Backlogged { flow: FlowId(flow) }) } else { Ok(()) };
                assert_eq!(ours.scheduler.assign(FlowId(flow), host), expected);
                if !busy {
                    theirs.scheduler.assign(FlowId(flow), host);
                }
            }
            choice @ 4..7 => {
                let from_head = choice == 4;
                ours.lose(flow, from_head);
                theirs.lose(flow, from_head);
            }
            7 => {
                ours.remove(flow);
                theirs.remove(flow);
                let quantum = 100 + random.below(200);
                ours.scheduler.configure(FlowId(flow), quantum, None).unwrap();
                theirs.scheduler.configure(FlowId(flow), quantum, None).unwrap();
            }
            8 => {
                let quantum = 100 + random.below(200);
                ours.scheduler.configure(FlowId(flow), quantum, None).unwrap();
                theirs.scheduler.configure(FlowId(flow), quantum, None).unwrap();
            }
            9 => {
                let config = set(&mut random);
                ours.scheduler.configure_host(host, config).unwrap();
                let backlogged = theirs.scheduler.inside[host as usize].select().map(|_| 1);
                theirs.scheduler.scheduler.configure(FlowId(host), config, backlogged).unwrap();
            }
            choice if (choice < 22) == filling => {
                let len = 1 + random.below(100);
                ours.enqueue(flow, len);
                theirs.enqueue(flow, len);
            }
            _ => assert_eq!(ours.dequeue(), theirs.dequeue(), "operation {operation} of {seed}"),
        }
        ours.recount().unwrap_or_else(|error| panic!("{error}, operation {operation} of {seed}"));
        for flow in 0..FLOWS {
            let host = theirs.scheduler.host_of[flow as usize];
            assert_eq!(ours.scheduler.host_of(FlowId(flow)), Some(host));
            assert_eq!(ours.scheduler.config(FlowId(flow)), theirs.scheduler.config(FlowId(flow)));
        }
        for host in 0..HOSTS {
            let is_backlogged = |flow: &usize| {
                !theirs.queues[*flow].is_empty() && theirs.scheduler.host_of[*flow] == host
            };
            let backlogged = (0..FLOWS as usize).filter(is_backlogged).count();
            assert_eq!(ours.scheduler.flows_of(host), backlogged as u32);
        }
    }
}

#[test]
fn over_drr_it_is_one_drr_for_each_host() {
    for seed in 1..=conformance::effort::effort(2, 20) {
        for (of_flows, of_hosts) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut scheduler = drr(HOSTS as usize, 100);
            if of_hosts {
                scheduler = scheduler.sparse_first();
            }
            compare(&scheduler, of_flows, seed, |random| 100 + random.below(300));
        }
    }
}

#[test]
fn over_qfq_it_is_one_drr_for_each_host() {
    let mut scheduler = Qfq::new(vec![QfqFlow::EMPTY; HOSTS as usize], 100).unwrap();
    let config = QfqConfig { weight: 1, max_len: 100 };
    for host in 0..HOSTS {
        scheduler.configure(FlowId(host), config, None).unwrap();
    }
    for seed in 1..=conformance::effort::effort(2, 20) {
        for sparse_first in [false, true] {
            compare(&scheduler, sparse_first, seed, |random| QfqConfig {
                weight: 1 + random.below(16),
                max_len: 100,
            });
        }
    }
}
