//! The tables that map flows to queues and hosts to entries.

use core::fmt;

use flowhash::{FlowTable, Lookup, Outcome, TagLine};
use sched_core::{FlowDirectory, FlowId, FlowScheduler, FlowState, Imbalance};

use super::mode::Level;
use super::serve::Serving;
use crate::labels::Labelled;
use crate::storage::Storage;

/// The table of flows and the table of hosts. A queue is claimed if and only if it holds packets,
/// and a host if and only if one of its queues does.
pub(super) struct Directory<S: Storage> {
    pub(super) queues: FlowTable<S::Of<TagLine>>,
    /// The spare queue of host `h` has the number `queues.queues() + h`.
    pub(super) hosts: FlowTable<S::Of<TagLine>>,
    /// Under `triple-isolate`, the hosts of the side that is not the local one, if tables exist.
    pub(super) far_hosts: Option<FlowTable<S::Rounds<TagLine>>>,
    /// The bytes of a turn of a host without a quantum of its own.
    pub(super) host_quantum: u32,
    /// A correction to the counts of the tables: a rebuild claims flows once more that were
    /// already backlogged.
    pub(super) activated: Activated,
}

/// Leaves out the tables.
impl<S: Storage> fmt::Debug for Directory<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// Returns the label of the near host.
pub(super) fn host_label(level: Level, labels: &(impl Labelled + ?Sized)) -> u32 {
    match level {
        Level::None | Level::Source => labels.source(),
        Level::Destination => labels.destination(),
    }
}

/// Activations of flows, new flows, sources, new sources, destinations, new destinations. Modulo
/// 2^64.
pub(super) type Activated = [u64; 6];

/// Returns the label of the host of the other side.
pub(super) fn far_label(level: Level, labels: &(impl Labelled + ?Sized)) -> u32 {
    match level {
        Level::None | Level::Source => labels.destination(),
        Level::Destination => labels.source(),
    }
}

/// Returns how often an entry of `table` was claimed, and how often by another label than its last.
fn claims<L: AsRef<[TagLine]> + AsMut<[TagLine]>>(table: &FlowTable<L>) -> (u64, u64) {
    let claims = table.counts().claims;
    (claims, claims.wrapping_sub(table.returns()))
}

impl<S: Storage> Directory<S> {
    /// Returns all activations since construction.
    pub(super) fn activated(&self, serving: &Serving<S>) -> Activated {
        let mut all = self.activated;
        let counted = self.counted(serving);
        all.iter_mut().zip(counted).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
        all
    }

    /// Continues from `all` activations, counted before the tables were rebuilt.
    pub(super) fn go_on_from(&mut self, all: Activated, serving: &Serving<S>) {
        self.activated = all;
        let counted = self.counted(serving);
        let sums = self.activated.iter_mut();
        sums.zip(counted).for_each(|(sum, count)| *sum = sum.wrapping_sub(count));
    }

    /// Returns the activations counted by the tables, of flows and of hosts of isolated sides.
    fn counted(&self, serving: &Serving<S>) -> Activated {
        let [(flows, new_flows), near] = [&self.queues, &self.hosts].map(claims);
        let far = self.far_hosts.as_ref().filter(|_| serving.is_in_rounds()).map_or((0, 0), claims);
        let [sources, destinations] = match serving.level {
            Level::None => [(0, 0); 2],
            Level::Source => [near, far],
            Level::Destination => [far, near],
        };
        [flows, new_flows, sources.0, sources.1, destinations.0, destinations.1]
    }

    /// Finds the queue of a packet whose flow has none yet, by the `label` of its flow in its tin,
    /// and assigns it to the turn of its host there.
    #[inline(always)]
    pub(super) fn claim(
        &mut self,
        serving: &mut Serving<S>,
        label: u32,
        labels: &(impl Labelled + ?Sized),
    ) -> Lookup {
        let Lookup { queue, outcome } = self.queues.lookup(label);
        if outcome == Outcome::Hit {
            return Lookup { queue, outcome };
        }
        let tin = serving.tin_of(labels);
        let level = serving.level;
        let host = match level {
            Level::None => 0,
            _ => self.claim_host(serving, host_label(level, labels), labels),
        };
        let turn = serving.turn_of(host, tin);
        let queue = match outcome {
            Outcome::Collision => self.shared(serving, queue, turn),
            _ => queue,
        };
        if serving.is_in_rounds() {
            let label = far_label(level, labels);
            self.assign_in_rounds(serving, FlowId(queue), turn, label);
        } else if !serving.is_backlogged(FlowId(queue)) {
            serving.assign(FlowId(queue), turn);
            if serving.turn(turn).is_some_and(|turn| turn.count == 0) {
                let quantum = match level {
                    Level::None => None,
                    _ => labels.host_terms().quantum,
                };
                serving.set_quantum(turn, quantum.unwrap_or(self.host_quantum));
            }
        }
        Lookup { queue, outcome }
    }

    /// Assigns `queue`, if it is idle, to `turn`, and to the host with this label on the far side.
    #[inline(never)]
    fn assign_in_rounds(&mut self, serving: &mut Serving<S>, queue: FlowId, turn: u32, label: u32) {
        if serving.is_backlogged(queue) {
            return;
        }
        let far = self.far_hosts.as_mut().map_or(0, |hosts| hosts.lookup(label).queue);
        let tin = u8::try_from(serving.tin_of_turn(turn)).unwrap_or(0);
        serving.assign_in_rounds(queue, turn, serving.turn_of(far, tin));
    }

    /// Returns the entry of the host with this label. A host that becomes backlogged gets the rate
    /// and the ceiling of `labels`, and full buckets unless it was the last one in this entry.
    #[inline(always)]
    fn claim_host(
        &mut self,
        serving: &mut Serving<S>,
        label: u32,
        labels: &(impl Labelled + ?Sized),
    ) -> u32 {
        if serving.is_in_rounds() || !serving.rates.has_room() {
            return self.hosts.lookup(label).queue;
        }
        serving.tell_time();
        let returns = self.hosts.returns();
        let lookup = self.lookup_sparing(serving, label);
        if lookup.outcome == Outcome::Claimed {
            let is_new = self.hosts.returns() == returns;
            serving.set_rates(lookup.queue, is_new, labels);
        }
        lookup.queue
    }

    /// Looks up `label` in the table of hosts. An idle host whose bucket is not full keeps its
    /// entry as long as others have an entry to share.
    fn lookup_sparing(&mut self, serving: &Serving<S>, label: u32) -> Lookup {
        let is_short = |host| serving.rates.is_short(host);
        match self.hosts.lookup_sparing(label, is_short) {
            Some(lookup) => lookup,
            None => self.lookup_among_spared(label),
        }
    }

    /// Looks up `label` in a set whose free entries are all spared: it shares the entry of a
    /// backlogged host, the first from its own way on.
    #[cold]
    fn lookup_among_spared(&mut self, label: u32) -> Lookup {
        let (own, ways) = (label & self.hosts.queues().wrapping_sub(1), self.hosts.ways());
        let within = ways.wrapping_sub(1);
        let set = (0..ways).map(|step| own & !within | own.wrapping_add(step) & within);
        match set.into_iter().find(|entry| self.hosts.is_used(*entry)) {
            Some(queue) => Lookup { queue, outcome: Outcome::Collision },
            None => self.hosts.lookup(label),
        }
    }

    /// Returns the queue for a flow of `turn` whose set is full: `own`, found by the table, if that
    /// is of the turn too, or else the spare queue of its host.
    fn shared(&self, serving: &Serving<S>, own: u32, turn: u32) -> u32 {
        if serving.turn_of_flow(FlowId(own)) == turn {
            return own;
        }
        // In modes without hosts, the turns are those of host 0, and each has a spare queue.
        let spare = match serving.level {
            Level::None => turn,
            _ => serving.host_of_turn(turn),
        };
        self.queues.queues().wrapping_add(spare)
    }

    /// Releases the queue of `flow`, which is idle, and its host, if no other flow of the host is
    /// backlogged. Idempotent.
    #[inline(always)]
    pub(super) fn let_go(&mut self, serving: &Serving<S>, flow: FlowId) {
        self.queues.release(flow.0);
        let host = serving.host_of_turn(serving.turn_of_flow(flow));
        if serving.is_idle(host) {
            self.hosts.release(host);
        }
        if serving.is_in_rounds() {
            self.let_far_go(serving, flow);
        }
    }

    /// Releases far hosts without flows: a rebuild may claim one for a packet that then shares a
    /// queue already assigned to other hosts.
    pub(super) fn release_far_hosts(&mut self, serving: &Serving<S>) {
        let Some(hosts) = &mut self.far_hosts else { return };
        for host in (0..hosts.queues()).filter(|host| serving.flows_of_far(*host) == 0) {
            hosts.release(host);
        }
    }

    /// Releases the far host of `flow`, if no other flow of the host is backlogged.
    #[inline(never)]
    fn let_far_go(&mut self, serving: &Serving<S>, flow: FlowId) {
        let host = serving.far_host_of(flow);
        if serving.flows_of_far(host) == 0
            && let Some(hosts) = &mut self.far_hosts
        {
            hosts.release(host);
        }
    }
}

impl<S: Storage> FlowDirectory<Serving<S>> for Directory<S> {
    fn room(&self) -> Option<u32> {
        Some(self.queues.queues().saturating_add(self.hosts.queues()))
    }

    #[inline]
    fn emptied(&mut self, serving: &Serving<S>, flow: FlowId) {
        self.let_go(serving, flow);
    }

    fn recount(
        &self,
        serving: &Serving<S>,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for queue in 0..self.queues.queues() {
            let holds = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.queues.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), holds.into())?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("claimed queues", 0, self.queues.occupied().into(), occupied)?;
        let counts_hosts = serving.isolation.counts_hosts();
        for host in 0..self.hosts.queues() {
            let claimed = self.hosts.is_used(host);
            let holds = counts_hosts && !serving.is_idle(host);
            Imbalance::check("a host is claimed", host, claimed.into(), holds.into())?;
            let spare = FlowId(self.queues.queues().wrapping_add(host));
            if counts_hosts && serving.is_backlogged(spare) {
                let of = serving.host_of_turn(serving.turn_of_flow(spare));
                Imbalance::check("a spare queue of its host", host, of.into(), host.into())?;
            }
        }
        if let Some(hosts) = &self.far_hosts {
            for host in 0..hosts.queues() {
                let holds = serving.is_in_rounds() && serving.flows_of_far(host) > 0;
                let claimed = hosts.is_used(host);
                Imbalance::check("a far host is claimed", host, claimed.into(), holds.into())?;
            }
        }
        let all = self.queues.queues().saturating_add(self.hosts.queues());
        Imbalance::check("queues", 0, (serving.flows() >= all).into(), 1)
    }
}
