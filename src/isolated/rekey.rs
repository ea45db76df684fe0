//! A new key for the labels, while packets are queued.

use flowhash::{FlowTable, Lookup, Rotating, TagLine};
use sched_core::{Aqm, Imbalance, Siblings, Table};

use super::Isolated;
use super::directory::HostDirectory;
use super::flow_scheduler::IsolationScheduler;
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage, A: Aqm, K: Storage, T: Storage> Isolated<S, A, K, T> {
    /// Begins the transition to labels under another key, for flows and hosts.
    ///
    /// Until [`is_rotating`](Self::is_rotating) is false, give packets both labels ([`Rekeyed`]); then drop the
    /// old key. A flow stays in the queue that holds its packets, and a host in the entry in which its flows
    /// count; a flow or host that has nothing queued begins under the new key. So no flow is reordered, but those
    /// that may be without a transition as well: a flow that found its set full, when it comes to another queue.
    ///
    /// A packet whose labels are given under the new key only goes where that sends it. Cost: the tables; during
    /// the transition, a second hash and lookup a packet, and two more for a flow that becomes backlogged.
    ///
    /// # Errors
    /// [`Rotating`], and nothing has changed, if claims are left of an earlier rotation.
    ///
    /// ```
    /// use freeboard::flowhash::{FlowKey, SipHash13, Transport};
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler};
    /// use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, OnDemand, Rekeyed, Storage};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
    /// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    /// let transport = Transport { protocol: 6, src_port: 5_000, dst_port: 443 };
    /// let key = &FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
    ///
    /// let (old, new) = (SipHash13::new([1; 16]), SipHash13::new([2; 16]));
    /// let before = OnDemand { key, hasher: &old };
    /// queue.enqueue_labelled(Nanos(0), &before, Packet::new(0, 1_000), drops)?;
    /// queue.rotate()?;
    /// let labels = Rekeyed { before, after: OnDemand { key, hasher: &new } };
    /// queue.enqueue_labelled(Nanos(0), &labels, Packet::new(1, 1_000), drops)?;
    /// assert_eq!(queue.backlogged_hosts(), (1, 1), "one flow of one host");
    /// # assert_eq!(queue.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Rekeyed`]: crate::Rekeyed
    pub fn rotate(&mut self) -> Result<(), Rotating> {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        directory.rotate(scheduler.counts_hosts())
    }

    /// Whether flows or hosts may have claims under the key before.
    ///
    /// Turns false by itself, some packets after the last of them has been given back: each packet looks at a
    /// part of the table of flows, and each flow that becomes backlogged at one of those of hosts. A host that
    /// never has nothing queued prolongs it: [`finish_rotation`](Self::finish_rotation) is the bound.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.queues.directory().rotating
    }

    /// How many queues, entries of sources and entries of destinations are claimed under the key before.
    /// Cost: the tables.
    #[must_use]
    pub fn old_claims(&self) -> u32 {
        self.queues.directory().old_claims()
    }

    /// Ends the transition at once; returns the [old claims](Self::old_claims) that were left.
    ///
    /// Flows that hold packets in those queues go where the new key sends them, and may be reordered, once; a
    /// host in such an entry counts as two until its flows there are idle. Cost: the tables.
    pub fn finish_rotation(&mut self) -> u32 {
        self.queues.siblings().directory.finish_rotation()
    }
}

impl<S: Storage> HostDirectory<S> {
    fn rotate(&mut self, counts_hosts: bool) -> Result<(), Rotating> {
        let queues = self.old_claims();
        if queues > 0 {
            return Err(Rotating { queues });
        }
        self.queues.rotate()?;
        // Where hosts do not count, no packet looks at their tables, and there is nothing in them to wait for.
        if counts_hosts {
            self.sources.table.rotate()?;
            self.destinations.table.rotate()?;
        }
        self.rotating = true;
        self.note_closeness();
        Ok(())
    }

    /// Ends the transition of the tables of hosts, in which no entry is claimed.
    pub(super) fn finish_rotation_of_hosts(&mut self) {
        let _none_left = self.sources.table.finish_rotation();
        let _none_left = self.destinations.table.finish_rotation();
        self.rotating = self.is_in_transition();
        self.note_closeness();
    }

    fn is_in_transition(&self) -> bool {
        self.queues.is_rotating()
            || self.sources.table.is_rotating()
            || self.destinations.table.is_rotating()
    }

    fn old_claims(&self) -> u32 {
        let hosts = [&self.sources.table, &self.destinations.table];
        hosts
            .iter()
            .fold(self.queues.old_claims(), |sum, table| sum.saturating_add(table.old_claims()))
    }

    fn finish_rotation(&mut self) -> u32 {
        let hosts = [&mut self.sources.table, &mut self.destinations.table];
        let left = hosts.into_iter().fold(self.queues.finish_rotation(), |sum, table| {
            sum.saturating_add(table.finish_rotation())
        });
        self.rotating = false;
        self.note_closeness();
        left
    }

    /// The lookup of a packet with this label while a table is in transition.
    #[cold]
    #[inline(never)]
    pub(super) fn lookup_rotating<K: Storage, T: Storage>(
        &mut self,
        scheduler: &IsolationScheduler<S, K, T>,
        label: u32,
        labels: &(impl Labelled + ?Sized),
    ) -> Lookup {
        let in_tin = |old| scheduler.queue_label_in(labels.tin(), old);
        let before = labels.before().map_or(label, in_tin);
        let lookup = self.queues.lookup_rotating(before, label);
        self.rotating = self.is_in_transition();
        self.note_closeness();
        lookup
    }

    /// Old claims are claims, and where no transition is under way there are none.
    pub(super) fn recount_rotation(&self) -> Result<(), Imbalance> {
        let transition = self.is_in_transition() && !self.rotating;
        Imbalance::check("a transition to another key", 0, 0, transition.into())?;
        let closely = self.rotating || self.unnamed > 0;
        Imbalance::check("looks closely", 0, closely.into(), self.looks_closely.into())?;
        recount_old(&self.queues)?;
        recount_old(&self.sources.table)?;
        recount_old(&self.destinations.table)
    }
}

pub(crate) fn recount_old<L: Table<TagLine>>(table: &FlowTable<L>) -> Result<(), Imbalance> {
    let mut old = 0_u64;
    for queue in (0..table.queues()).filter(|&queue| table.is_old(queue)) {
        Imbalance::check("an old claim is one", queue, 1, table.is_used(queue).into())?;
        old += 1;
    }
    Imbalance::check("old claims", 0, table.old_claims().into(), old)
}
