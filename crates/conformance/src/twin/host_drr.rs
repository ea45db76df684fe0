//! Hosts above flows: a flow scheduler of hosts, and a deficit round robin of each host's own.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{Ceiling, CommittedRate, ConfigError, FlowId, Nanos};

use super::drr::NaiveDrr;
use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, unknown};
use crate::history::{HostBooks, Housing, Setting};

/// What one host holds.
#[derive(Clone, Debug)]
struct House {
    /// Its flows, by number; it knows no others.
    ring: NaiveDrr,
    backlogged: BTreeSet<FlowId>,
}

/// The flow scheduler `O` of hosts over one [`NaiveDrr`] per host.
#[derive(Clone, Debug)]
pub struct NaiveHostDrr<O> {
    scheduler: O,
    houses: BTreeMap<u32, House>,
    /// The host of each flow that is not of host 0.
    moved: BTreeMap<FlowId, u32>,
    /// What the flows that were added were given.
    settings: BTreeMap<FlowId, Setting>,
    flows: u32,
}

impl<O: NaiveFlowScheduler> NaiveHostDrr<O> {
    /// No flow added yet, of `flows` at most, in `hosts` hosts under `scheduler`; no packet is longer than
    /// `max_len` bytes. Every host has sparse flows first, or none has.
    #[must_use]
    pub fn new(scheduler: O, hosts: u32, flows: u32, max_len: u32, sparse_first: bool) -> Self {
        let ring = NaiveDrr::new(flows, max_len, sparse_first);
        let house = House { ring, backlogged: BTreeSet::new() };
        Self {
            scheduler,
            houses: (0..hosts).map(|host| (host, house.clone())).collect(),
            moved: BTreeMap::new(),
            settings: BTreeMap::new(),
            flows,
        }
    }

    /// The flow scheduler of hosts.
    pub(super) const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// The flow scheduler of hosts, for what is its own.
    pub(super) const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// `flow`, which holds nothing, is as if it had just been added.
    pub(super) fn renew(&mut self, flow: FlowId) {
        self.house_mut(flow).ring.remove(flow);
        if let Some(&setting) = self.settings.get(&flow) {
            self.house_mut(flow).ring.configure(flow, setting, None).expect("as before");
        }
    }

    fn host_of(&self, flow: FlowId) -> u32 {
        self.moved.get(&flow).copied().unwrap_or(0)
    }

    fn house(&self, flow: FlowId) -> &House {
        &self.houses[&self.host_of(flow)]
    }

    fn house_mut(&mut self, flow: FlowId) -> &mut House {
        let host = self.host_of(flow);
        self.houses.get_mut(&host).expect("a flow is only assigned to a host that exists")
    }
}

impl<O: NaiveFlowScheduler> Housing for NaiveHostDrr<O> {
    fn hosts(&self) -> u32 {
        u32::try_from(self.houses.len()).expect("as constructed")
    }

    fn assign(&mut self, flow: FlowId, host: u32, _destination: u32) -> Result<(), ConfigError> {
        if flow.0 >= self.flows {
            return Err(unknown(flow, self.flows as usize));
        }
        if !self.houses.contains_key(&host) {
            return Err(ConfigError::UnknownHost { host, hosts: self.hosts() });
        }
        if self.house(flow).backlogged.contains(&flow) {
            return Err(ConfigError::Backlogged { flow });
        }
        if self.host_of(flow) == host {
            return Ok(());
        }
        self.house_mut(flow).ring.remove(flow);
        self.moved.insert(flow, host);
        if let Some(&setting) = self.settings.get(&flow) {
            self.house_mut(flow).ring.configure(flow, setting, None)?;
        }
        Ok(())
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        let Some(house) = self.houses.get(&host) else {
            return Err(ConfigError::UnknownHost { host, hosts: self.hosts() });
        };
        // Of any length: no flow scheduler of hosts looks ahead.
        let head_len = (!house.backlogged.is_empty()).then_some(1);
        self.scheduler.configure(FlowId(host), setting, head_len)
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.scheduler.rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        self.scheduler.ceiling(host, ceiling)
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let backlogged = self.houses.get(&number).map_or(0, |house| house.backlogged.len());
        HostBooks {
            of_flow: [(number < self.flows).then(|| self.host_of(flow)), None],
            backlogged: [u32::try_from(backlogged).expect("no more than flows"), 0],
            setting: self.houses.get(&number).and_then(|_| self.scheduler.setting(flow)),
            ..self.scheduler.books(number)
        }
    }
}

impl<O: NaiveFlowScheduler> NaiveFlowScheduler for NaiveHostDrr<O> {
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
        if first {
            self.scheduler.backlogged(host, head_len);
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
        self.scheduler.lost(host, left);
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
