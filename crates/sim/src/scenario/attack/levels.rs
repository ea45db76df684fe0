//! Hosts above flows behind tables: where a full set of one table must not join two hosts.

use freeboard::flowhash::{Line, Outcome, Table as HashTable};
use freeboard::sched_core::{
    Aqm, ConfigError, DropFrom, Drr, DrrFlow, FlowId, FlowQueues, FlowScheduler, FlowState,
    HeldFlow, HostClasses, HostRing, Hosted, HostedFlow, Hosts, Imbalance, Limits, LongestHost,
    LongestHostDrop, Queue, Slot,
};

use crate::discipline::QUEUES;

/// Hosts that can be told apart.
pub(super) const HOSTS: u32 = 256;

type Order = LongestHostDrop<
    Hosts<Drr<Vec<DrrFlow>>, Vec<HostedFlow>, Vec<HostRing>>,
    Vec<HeldFlow>,
    Vec<LongestHost>,
    Vec<HostClasses>,
>;

/// The order of hosts and their flows with both tables. A queue and a slot of a host are given back in the
/// moment they are empty.
///
/// A flow that finds the ways of its set taken goes to a queue that its host keeps for such flows, behind
/// those of the table: it shares with flows of its own host only.
#[derive(Debug)]
pub(super) struct Levels {
    order: Order,
    queues: HashTable<Vec<Line>>,
    hosts: HashTable<Vec<Line>>,
}

pub(super) type Queues<A> = FlowQueues<Levels, Vec<Queue>, Vec<Slot>, A>;

impl Levels {
    pub(super) fn queues<A: Aqm>(max_len: u32, slots: usize, limits: Limits, aqm: A) -> Queues<A> {
        let within = "the sizes are constants and the length is one of a packet";
        let all = (QUEUES + HOSTS) as usize;
        let hosts = HOSTS as usize;
        let mut of_hosts = Drr::new(vec![DrrFlow::EMPTY; hosts], max_len).expect(within);
        of_hosts.add_all(max_len).expect(within);
        let nodes = vec![HostedFlow::EMPTY; all];
        let order = Hosts::new(of_hosts, nodes, vec![HostRing::EMPTY; hosts], max_len);
        let mut order = order.expect(within).sparse_first();
        order.add_all(max_len).expect(within);
        for host in 0..HOSTS {
            order.assign(FlowId(QUEUES + host), host).expect(within);
        }
        let held = vec![HeldFlow::EMPTY; all];
        let (longest, classes) = (vec![LongestHost::EMPTY; hosts], vec![HostClasses::EMPTY; hosts]);
        let order = LongestHostDrop::new(order, held, longest, classes).expect(within);
        let table = |slots: u32| {
            HashTable::new(vec![Line::EMPTY; slots.div_ceil(8) as usize], slots, 8).expect(within)
        };
        let levels = Self { order, queues: table(QUEUES), hosts: table(HOSTS) };
        let queues = vec![Queue::EMPTY; all];
        FlowQueues::with_parts(levels, aqm, queues, vec![Slot::EMPTY; slots], [], limits)
    }

    /// The queue for a packet of a flow and a host.
    pub(super) fn claim(&mut self, flow: u32, host: u32) -> FlowId {
        let lookup = self.queues.lookup(flow);
        let queue = FlowId(lookup.queue);
        if lookup.outcome == Outcome::Hit {
            return queue;
        }
        let host = self.hosts.lookup(host).queue;
        if lookup.outcome == Outcome::Collision {
            return FlowId(QUEUES + host);
        }
        self.order.order_mut().assign(queue, host).expect("a queue just claimed is empty");
        queue
    }

    /// `flow` is empty: its queue is free, and the slot of its host if nobody of it is left.
    pub(super) fn let_go(&mut self, flow: FlowId) {
        if flow.0 < QUEUES {
            self.queues.release(flow.0);
        }
        if let Some(host) = self.order.host_of(flow)
            && self.order.flows_of(host) == 0
        {
            self.hosts.release(host);
        }
    }
}

impl FlowScheduler for Levels {
    type Config = u32;

    fn flows(&self) -> u32 {
        self.order.flows()
    }

    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        head: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.order.configure(flow, quantum, head)
    }

    fn remove(&mut self, flow: FlowId) {
        self.let_go(flow);
        self.order.remove(flow);
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.order.config(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow)
    }

    fn common_max_len(&self) -> u32 {
        self.order.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.order.backlogged(flow, head_len);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        self.order.grew(flow, len);
    }

    fn select(&self) -> Option<FlowId> {
        self.order.select()
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.order.served(flow, len, next_head);
        if next_head.is_none() {
            self.let_go(flow);
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.order.lost(flow, len, head);
        if head.is_none() {
            self.let_go(flow);
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.order.victim()
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for queue in 0..QUEUES {
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.queues.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
        }
        for host in 0..HOSTS {
            let (claimed, has) = (self.hosts.is_used(host), self.order.flows_of(host) > 0);
            Imbalance::check("a slot of a host is used", host, claimed.into(), has.into())?;
        }
        self.order.recount(flows)
    }
}
