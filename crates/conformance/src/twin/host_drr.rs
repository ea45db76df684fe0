//! Turns above flows: what says which turn is next, and a deficit round robin of each turn's own.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{ConfigError, FlowId, Nanos};

use super::drr::NaiveDrr;
use super::flow_scheduler::{NaiveFlowScheduler, QueuesView};
use super::host_rates::NaiveHostRates;
use super::quanta::NaiveQuanta;
use crate::history::Setting;

/// What one host holds.
#[derive(Clone, Debug)]
struct House {
    /// Its flows, by number; it knows no others.
    ring: NaiveDrr,
    backlogged: BTreeSet<FlowId>,
}

/// One [`NaiveDrr`] per turn. A turn is a host here.
#[derive(Clone, Debug)]
pub(super) struct NaiveHostDrr {
    scheduler: NaiveHostRates,
    houses: BTreeMap<u32, House>,
    /// The host of each flow that is not of host 0.
    moved: BTreeMap<FlowId, u32>,
    /// What the flows that were added were given.
    settings: BTreeMap<FlowId, Setting>,
}

impl NaiveHostDrr {
    /// No flow added yet, of `flows` at most, in `hosts` hosts under `scheduler`; no packet is
    /// longer than `max_len` bytes. Packets cost what `quanta` say.
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

    /// The flow scheduler of hosts.
    pub(super) const fn scheduler(&self) -> &NaiveHostRates {
        &self.scheduler
    }

    /// The flow scheduler of hosts, for what is its own.
    pub(super) const fn scheduler_mut(&mut self) -> &mut NaiveHostRates {
        &mut self.scheduler
    }

    /// `flow`, which holds nothing, is as if it had just been added.
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

    /// `flow`, which holds nothing, is of `host` from now on.
    pub(super) fn assign(&mut self, flow: FlowId, host: u32) {
        assert!(!self.house(flow).backlogged.contains(&flow), "{flow:?} holds packets");
        if self.host_of(flow) == host {
            return;
        }
        self.house_mut(flow).ring.remove(flow);
        self.moved.insert(flow, host);
        self.renew(flow);
    }

    /// Passes on to the scheduler of hosts whether a sparse flow of `host` holds packets.
    fn tell_sparse(&mut self, host: FlowId) {
        let is_sparse = self.houses[&host.0].ring.has_new();
        self.scheduler.tins_mut().set_sparse(host, is_sparse);
    }

    pub(super) fn configure_host(&mut self, host: u32, setting: Setting) {
        // Of any length: no scheduler of turns looks ahead.
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

    /// What is forgotten was never assigned.
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
