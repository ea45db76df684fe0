//! Another isolation, other tins or another key while packets are queued: all records are begun
//! anew, and each packet is offered again under its labels.

use flowhash::{FlowTable, Outcome};
use sched_core::{Aqm, Counters, FlowId, FlowScheduler, Packet, Siblings, TinConfig};

use super::calendar::FEWEST;
use super::memory::is_long_enough;
use super::mode::Isolation;
use super::quanta::Quanta;
use super::queue::Isolated;
use super::records::{Flow, Host, Tin, Turn};
use super::serve::{Choice, Serving, TINS};
use crate::IsolatedError;
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Sets another isolation, other tins, or labels under another key, at any time. `labels_of`
    /// returns the labels of a queued packet as they are from now on, its tin included; where
    /// `tins` is `None` the tins stay.
    ///
    /// No packet is lost, no counter changes, and each packet keeps its time of arrival. Of the
    /// [counters of tins](Self::tin_counters) those of tins that are gone are of tin 0, and what is
    /// queued counts as accepted in the tin that it is in. The packets of a flow stay in order if
    /// they were in one queue; a flow that had found its set full, and a queue of its own since
    /// then, may have had two. What an AQM has learned in a queue goes with the flow of its oldest
    /// packet, and is forgotten of flows that hold nothing and in shared queues. What is left of
    /// turns, and what flows and hosts owe, is lost. The quantum, the rate and the ceiling of a
    /// host are those of one of its packets, and the buckets of rate and ceiling are full.
    ///
    /// Cost: O(tables + packets). `labels_of` is called about once for each packet and twice more
    /// for each queue.
    ///
    /// ```
    /// use freeboard::flowhash::{Labels, mix};
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler};
    /// use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::NONE))?;
    /// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    /// // Four flows of one source, to a destination each.
    /// let labels_of = |packet: Packet| {
    ///     let flow = mix(packet.handle % 4);
    ///     Labels { flow, src_host: 1, dst_host: flow }
    /// };
    /// for packet in (0..200).map(|handle| Packet::new(handle, 1_500)) {
    ///     queue.enqueue_labelled(Nanos(0), &labels_of(packet), packet, drops)?;
    /// }
    /// assert_eq!(queue.backlogged_hosts(), (1, 0));
    /// queue.rebuild(Isolation::DualDstHost, None, labels_of)?;
    /// assert_eq!((queue.backlogged_hosts(), queue.backlog().packets), ((0, 4), 200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`IsolatedError::NoTriple`] for [`Isolation::TripleIsolate`] without [its
    ///   tables](crate::IsolatedMemory::with_triple);
    /// - [`IsolatedError::Config`] for no tins, more than eight, and what [`TinConfig::check`]
    ///   refuses;
    /// - [`IsolatedError::Memory`] without room for the turns of every host, where hosts do not
    ///   count also for more tins than there are spare queues, and under `triple-isolate` for more
    ///   tins than half the rounds.
    pub fn rebuild<L: Labelled>(
        &mut self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        self.rebuild_and_move(isolation, (tins, |tin| tin), labels_of)
    }

    /// As [`Self::rebuild`], where the counters of tin `t` are of tin `to(t)` from now on, or of
    /// tin 0 if that is not there.
    ///
    /// # Errors
    /// As [`Self::rebuild`].
    pub fn rebuild_and_move<L: Labelled>(
        &mut self,
        isolation: Isolation,
        (tins, to): (Option<&[TinConfig]>, impl Fn(u8) -> u8),
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        self.queues.scheduler().check_layout(isolation, tins)?;
        self.regroup(isolation, (tins, to), labels_of);
        Ok(())
    }

    /// Goes over to labels under another key, at any time: [`Self::rebuild`] with the same
    /// isolation and the same tins. `labels_of` returns the labels of a queued packet under the new
    /// key.
    pub fn relabel<L: Labelled>(&mut self, labels_of: impl FnMut(Packet) -> L) {
        self.regroup(self.isolation(), (None, |tin| tin), labels_of);
    }

    /// [`Self::rebuild_and_move`], once the layout is checked.
    fn regroup<L: Labelled>(
        &mut self,
        isolation: Isolation,
        (tins, to): (Option<&[TinConfig]>, impl Fn(u8) -> u8),
        mut labels_of: impl FnMut(Packet) -> L,
    ) {
        let counters = self.counters_after(to);
        let directory = self.queues.directory();
        let owned = directory.queues.queues();
        let activated = directory.activated(self.queues.scheduler());
        self.queues.regroup(
            owned,
            |serving, directory| {
                directory.queues.clear();
                directory.hosts.clear();
                directory.far_hosts.iter_mut().for_each(FlowTable::clear);
                serving.begin_anew(isolation, tins, directory.host_quantum);
            },
            |serving, directory, packet| {
                let labels = labels_of(packet);
                let lookup = directory.claim(serving, serving.queue_label(&labels), &labels);
                (FlowId(lookup.queue), lookup.outcome == Outcome::Claimed)
            },
        );
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        directory.release_far_hosts(scheduler);
        directory.go_on_from(activated, scheduler);
        self.follow_tins(&counters);
    }

    /// Sets another number of tins; nothing is queued, and the layout is checked. What is known of
    /// idle flows and hosts stays.
    pub(super) fn begin_tins(&mut self, tins: &[TinConfig]) {
        let counters = self.counters_after(|tin| tin);
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        scheduler.begin_anew(scheduler.isolation, Some(tins), directory.host_quantum);
        self.follow_tins(&counters);
    }

    /// The AQM knows the tin of each queue, and the tins go on from `counters`.
    fn follow_tins(&mut self, counters: &[Counters; TINS - 1]) {
        let Siblings { scheduler, aqm, .. } = self.queues.siblings();
        for flow in (0..scheduler.flows()).map(FlowId) {
            aqm.assign(flow, scheduler.tin_of_flow(flow));
        }
        self.go_on_from(counters);
    }
}

impl<S: Storage> Serving<S> {
    /// Returns an error unless there may be these tins under this isolation.
    pub(super) fn check_layout(
        &self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
    ) -> Result<(), IsolatedError> {
        let tins = tins.map_or(Ok(self.choice.tins()), Choice::<S>::check)?;
        let sizes = [self.turns.as_ref().len(), self.hosts.as_ref().len(), self.rounds.count()];
        check_layout(isolation, tins, sizes)
    }

    /// Sets up the records anew, with `host_quantum` for each turn. Nothing is queued. What tins
    /// owe or have to their credit stays.
    pub(super) fn begin_anew(
        &mut self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
        host_quantum: u32,
    ) {
        if let Some(tins) = tins {
            let _checked = self.choice.set_tins(tins, 0);
            debug_assert_eq!(_checked, Ok(()), "the caller has checked the tins");
        }
        self.tins = [Tin::EMPTY; TINS];
        self.begin(isolation, host_quantum);
        self.note_selected();
    }

    /// [`Self::begin_anew`], where the tins are set and no turn is selected.
    #[inline(always)]
    pub(super) fn begin(&mut self, isolation: Isolation, host_quantum: u32) {
        self.isolation = isolation;
        self.level = isolation.spares_of(self.local_side);
        self.tin_bits = tin_bits(self.choice.tins());
        for flow in self.flows.as_mut() {
            *flow = Flow { place: flow.place.renewed(), turn: 0 };
        }
        let (mut turn, quantum) = (Turn::IDLE, self.bytes_of_turn(host_quantum));
        turn.place.set_quantum(quantum, self.most_debt());
        self.turns.as_mut().fill(turn);
        self.hosts.as_mut().fill(Host::EMPTY);
        self.rounds.begin(self.choice.tins());
        self.rates.begin(quantum, self.max_len);
        self.quanta = Quanta::new(self.max_len);
        self.was_across = self.is_across && !self.choice.is_one();
        self.serves_early = isolation.counts_hosts() && !self.was_across;
        self.note_charged();
    }
}

/// The bits of the number of a turn that say which tin it is in.
const fn tin_bits(tins: u32) -> u32 {
    u32::BITS.wrapping_sub(tins.saturating_sub(1).leading_zeros()) & 7
}

/// Returns an error unless there may be so many tins under this isolation.
pub(super) fn check_layout(
    isolation: Isolation,
    tins: u32,
    [turns, hosts, rounds]: [usize; 3],
) -> Result<(), IsolatedError> {
    let count = tins as usize;
    let enough = |what, given, needed| is_long_enough((what, given, needed));
    enough("turns", turns, hosts << tin_bits(tins))?;
    if !isolation.counts_hosts() {
        enough("hosts", hosts, count)?;
    }
    if isolation == Isolation::TripleIsolate {
        if rounds == 0 {
            return Err(IsolatedError::NoTriple);
        }
        enough("rounds", rounds, FEWEST.saturating_mul(count))?;
    }
    Ok(())
}
