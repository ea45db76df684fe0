//! Two levels of turns: a scheduler of hosts, and a deficit round robin over the flows of each.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{ConfigError, FlowId, Nanos};

use super::drr::NaiveDrr;
use super::flow_scheduler::{NaiveFlowScheduler, QueuesView};
use super::host_rates::NaiveHostRates;
use super::quanta::NaiveQuanta;
use crate::history::Setting;

/// Flows of one host.
#[derive(Clone, Debug)]
struct House {
    /// Scheduler of the host's flows; unaware of others.
    ring: NaiveDrr,
    backlogged: BTreeSet<FlowId>,
}

/// One [`NaiveDrr`] per turn. A turn is called a host here.
#[derive(Clone, Debug)]
pub(super) struct NaiveHostDrr {
    scheduler: NaiveHostRates,
    houses: BTreeMap<u32, House>,
    /// Host of each flow that does not belong to host 0.
    moved: BTreeMap<FlowId, u32>,
    /// Settings of the added flows.
    settings: BTreeMap<FlowId, Setting>,
}

impl NaiveHostDrr {
    /// Creates the model without flows, for at most `flows` flows in `hosts` hosts under
    /// `scheduler`, packets of at most `max_len` bytes and the costs of `quanta`.
    pub(super) fn new(
        scheduler: NaiveHostRates,
        hosts: u32,
        flows: u32,
        max_len: u32,
        quanta: &NaiveQuanta,
    ) -> Self {
        let ring = NaiveDrr::new(flows, max_len, true).with_quanta(quanta);
        let house = House { ring, backlogged: BTreeSet::new() };
        Self {
            scheduler,
            houses: (0..hosts).map(|host| (host, house.clone())).collect(),
            moved: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    /// Returns the flow scheduler of hosts.
    pub(super) const fn scheduler(&self) -> &NaiveHostRates {
        &self.scheduler
    }

    /// Returns the flow scheduler of hosts, for its own operations.
    pub(super) const fn scheduler_mut(&mut self) -> &mut NaiveHostRates {
        &mut self.scheduler
    }

    /// Resets `flow`, which is empty, to the state of a newly added flow.
    pub(super) fn renew(&mut self, flow: FlowId) {
        self.house_mut(flow).ring.remove(flow);
        if let Some(&setting) = self.settings.get(&flow) {
            self.house_mut(flow).ring.configure(flow, setting, None).expect("as before");
        }
    }

    pub(super) fn host_of(&self, flow: FlowId) -> u32 {
        self.moved.get(&flow).copied().unwrap_or(0)
    }

    fn house(&self, flow: FlowId) -> &House {
        &self.houses[&self.host_of(flow)]
    }

    fn house_mut(&mut self, flow: FlowId) -> &mut House {
        let host = self.host_of(flow);
        self.houses.get_mut(&host).expect("a flow is only assigned to a host that exists")
    }

    /// Assigns `flow`, which is empty, to `host`.
    pub(super) fn assign(&mut self, flow: FlowId, host: u32) {
        assert!(!self.house(flow).backlogged.contains(&flow), "{flow:?} holds packets");
        if self.host_of(flow) == host {
            return;
        }
        self.house_mut(flow).ring.remove(flow);
        self.moved.insert(flow, host);
        self.renew(flow);
    }

    /// Informs the scheduler of hosts whether a sparse flow of `host` is backlogged.
    fn tell_sparse(&mut self, host: FlowId) {
        let is_sparse = self.houses[&host.0].ring.has_new();
        self.scheduler.tins_mut().set_sparse(host, is_sparse);
    }

    pub(super) fn configure_host(&mut self, host: u32, setting: Setting) {
        // Any length will do: no scheduler of turns looks ahead.
        let head_len = (!self.houses[&host].backlogged.is_empty()).then_some(1);
        self.scheduler.configure(FlowId(host), setting, head_len).expect("in range");
    }
}

impl NaiveFlowScheduler for NaiveHostDrr {
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.house_mut(flow).ring.configure(flow, setting, head_len)?;
        self.settings.insert(flow, setting);
        Ok(())
    }

    /// A removed flow has no assignment.
    fn remove(&mut self, flow: FlowId) {
        self.house_mut(flow).ring.remove(flow);
        self.settings.remove(&flow);
        self.moved.remove(&flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.house(flow).ring.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        let of_host = self.scheduler.max_len(FlowId(self.host_of(flow)))?;
        Some(self.house(flow).ring.max_len(flow)?.min(of_host))
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let host = FlowId(self.host_of(flow));
        let house = self.house_mut(flow);
        let first = house.backlogged.is_empty();
        house.backlogged.insert(flow);
        house.ring.backlogged(flow, head_len);
        let is_new = house.ring.is_new(flow);
        self.tell_sparse(host);
        if first {
            self.scheduler.backlogged(host, head_len);
        } else if is_new {
            self.scheduler.tins_mut().come_early(host);
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let host = FlowId(self.host_of(flow));
        let house = self.house_mut(flow);
        house.ring.served(flow, len, next_head);
        if next_head.is_none() {
            house.backlogged.remove(&flow);
        }
        let next = (!house.backlogged.is_empty()).then_some(1);
        self.tell_sparse(host);
        self.scheduler.served(host, len, next);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        let host = FlowId(self.host_of(flow));
        let house = self.house_mut(flow);
        house.ring.lost(flow, head);
        if head.is_none() {
            house.backlogged.remove(&flow);
        }
        let left = (!house.backlogged.is_empty()).then_some(1);
        self.tell_sparse(host);
        match left {
            Some(_) => self.scheduler.tins_mut().note_early(host),
            None => self.scheduler.lost(host, None),
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let host = self.scheduler.select(&[])?;
        self.houses[&host.0].ring.select(queues)
    }

    fn waiting(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let host = self.scheduler.waiting(&[])?;
        self.houses[&host.0].ring.select(queues)
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.scheduler.opens_at(now)
    }

    fn open(&mut self) {
        self.scheduler.open();
    }
}
