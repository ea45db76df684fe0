//! Invariants of QFQ+: those of QFQ over the aggregates, and the membership of flows. For tests.

use core::num::NonZeroU32;

use super::super::group::State;
use super::super::recount::holds;
use super::super::virtual_time::{Width, group_of, weight_of};
use super::{Aggregate, PlusFlow, QfqFlow, QfqPlus};
use crate::flow_scheduler::{FlowState, Table};
use crate::queues::queue::NONE;
use crate::{Backlog, FlowId, Imbalance};

impl<N: Table<PlusFlow>, A: Table<Aggregate>, Q: Table<QfqFlow>> QfqPlus<N, A, Q> {
    /// Checks invariants that hold while no flow is added, removed or re-configured.
    ///
    /// For tests: O(aggregates). These are the invariants of
    /// [`Qfq::check_lag`](crate::Qfq::check_lag), applied to aggregates, with the longest possible
    /// budget in place of the longest packet.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn check_lag(&self) -> Result<(), Imbalance> {
        self.core.check_lag(self.nodes.as_ref())?;
        self.core.check_starts(self.nodes.as_ref())
    }

    pub(super) fn recount_all(&self, truth: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        self.recount_members(truth)?;
        let aggregates = self.aggregates.as_ref();
        let mut free = 0_u64;
        for (at, (aggregate, node)) in (0..).zip(aggregates.iter().zip(self.nodes.as_ref())) {
            free += u64::from(aggregate.members == 0);
            self.recount_aggregate(at, aggregate, node)?;
        }
        let (mut here, mut found) = (self.free, 0);
        while let Some(aggregate) = aggregates.get(here as usize) {
            holds("a free aggregate has no members", here, aggregate.members == 0)?;
            found += 1;
            holds("the free aggregates end", here, found <= free)?;
            here = aggregate.ring.first;
        }
        Imbalance::check("free aggregates", 0, free, found)?;
        self.recount_service()?;
        let backlogged = |at: FlowId| {
            let backlogged = self.ring(at.0).is_some_and(|ring| ring.first != NONE);
            let packets = u32::from(backlogged);
            FlowState { backlog: Backlog { packets, bytes: packets }, head_len: None }
        };
        // The group is that of a single member, with its inverse.
        let group = |at: u32, node: &QfqFlow| {
            let inverse = aggregates.get(at as usize).map_or(0, |aggregate| aggregate.inverse);
            group_of(self.core.effective_len(node.max_len.into()), inverse)
        };
        // The sets are as of the last update.
        self.core.recount(self.service.told, self.nodes.as_ref(), &backlogged, &group)
    }

    /// Checks each flow against its aggregate.
    fn recount_members(&self, truth: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut weights = 0_u64;
        for (at, k) in (0..).zip(self.flows.as_ref()) {
            let packets = truth(FlowId(at)).backlog.packets;
            holds("a flow is on a ring iff it holds packets", at, k.backlogged == (packets > 0))?;
            holds(
                "a flow has an aggregate iff it was added",
                at,
                (k.max_len == 0) == (k.aggregate == NONE),
            )?;
            if k.max_len == 0 {
                continue;
            }
            let Some(aggregate) = self.aggregates.as_ref().get(k.aggregate as usize) else {
                return holds("the aggregate of a flow exists", at, false);
            };
            let node = self.nodes.as_ref().get(k.aggregate as usize);
            let max_len = node.map_or(0, |node| node.max_len);
            Imbalance::check("longest packet of a member", at, k.max_len.into(), max_len.into())?;
            holds("a deficit in range", at, (1..=k.max_len.into()).contains(&k.deficit))?;
            weights += u64::from(NonZeroU32::new(aggregate.inverse).map_or(0, weight_of));
        }
        Imbalance::check("sum of the weights of flows", 0, self.weight_sum.into(), weights)
    }

    fn recount_aggregate(
        &self,
        at: u32,
        aggregate: &Aggregate,
        node: &QfqFlow,
    ) -> Result<(), Imbalance> {
        let members = || self.flows.as_ref().iter().filter(|k| k.aggregate == at);
        let count = members().count() as u64;
        Imbalance::check("members of an aggregate", at, aggregate.members.into(), count)?;
        holds("room for the members", at, aggregate.members <= self.most_members)?;
        if aggregate.members == 0 {
            return holds("an aggregate without members is nothing", at, node.inverse == 0);
        }
        let inverse = aggregate.inverse.checked_div(aggregate.members.into()).unwrap_or(0);
        Imbalance::check("inverse weight", at, node.inverse.into(), inverse.into())?;
        let Some(ring) = self.ring(at) else { return Ok(()) };
        let (mut here, mut found) = (ring.first, 0);
        while let Some(k) = self.flows.as_ref().get(here as usize) {
            Imbalance::check("aggregate on the ring", here, at.into(), k.aggregate.into())?;
            holds("a flow on the ring is backlogged", here, k.backlogged)?;
            found += 1;
            if here == ring.last {
                Imbalance::check("the ring closes", at, ring.first.into(), k.next.into())?;
                break;
            }
            holds("the ring ends", at, found <= count)?;
            here = k.next;
        }
        let backlogged = members().filter(|k| k.backlogged).count() as u64;
        Imbalance::check("members on the ring", at, backlogged, found)
    }

    fn recount_service(&self) -> Result<(), Imbalance> {
        let service = &self.service;
        let Some(node) = self.nodes.as_ref().get(service.aggregate as usize) else {
            holds("nothing is in service: nothing is backlogged", 0, self.core.sets.ready == 0)?;
            return holds("no flow is next then", 0, service.ring.first == NONE);
        };
        let at = service.aggregate;
        holds("in service is one that is backlogged", at, node.state == State::Backlogged)?;
        holds("a member is next", at, service.ring.first != NONE)?;
        let max_len = node.max_len.into();
        Imbalance::check("longest packet in service", at, service.max_len.into(), max_len)?;
        let in_range = (service.max_len..=service.budget).contains(&service.left);
        holds("what is left of a budget", at, in_range)?;
        if service.left == service.budget {
            holds("selected is the one that QFQ selects", at, self.core.select() == Some(at))?;
            holds("the sets know V between two services", at, service.told == self.core.now)?;
        }
        let group = self.core.groups.get(usize::from(node.group));
        let first = group.map_or(NONE, |group| group.first(Width::of_group(node.group.into())));
        Imbalance::check(
            "the aggregate in service is first of its group",
            at,
            at.into(),
            first.into(),
        )
    }

    /// Returns the ring of the aggregate `at`, or `None` without members.
    fn ring(&self, at: u32) -> Option<super::Ring> {
        let aggregate = self.aggregates.as_ref().get(at as usize)?;
        if aggregate.members == 0 {
            return None;
        }
        let in_service = at == self.service.aggregate;
        Some(if in_service { self.service.ring } else { aggregate.ring })
    }
}
