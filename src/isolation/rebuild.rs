//! Changing isolation, tins or key under load: all records are reset, and each packet is enqueued
//! once more under its labels.

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
    /// Sets the isolation, the tins, or labels under another key, at any time. `labels_of` returns
    /// the labels that a queued packet has from now on, its tin included; `tins` of `None` keeps
    /// the tins. There are at most eight tins, one without the feature `tins`.
    ///
    /// No packet is lost, no counter changes, and each packet keeps its time of arrival.
    /// [Counters](Self::tin_counters) of removed tins move to tin 0, and queued packets count as
    /// accepted in their new tin. The packets of a flow stay in order if they were in one queue; a
    /// flow that found its set full, and has had a queue of its own since then, may have had two.
    /// The AQM's state of a queue goes with the flow of its oldest packet, and is lost for idle
    /// flows and in shared queues. Remainders of turns, and debts of flows and hosts, are lost.
    /// Quantum, rate and ceiling of a host are those of one of its packets, and its token buckets
    /// are full.
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
    /// - [`IsolatedError::Config`] for no tins, more than [`TinConfig::MAX_TINS`], and settings
    ///   refused by [`TinConfig::check`];
    /// - [`IsolatedError::Memory`] if the turns of every host do not fit, in modes without hosts
    ///   also for more tins than there are spare queues, and under `triple-isolate` for more tins
    ///   than half the rounds.
    pub fn rebuild<L: Labelled>(
        &mut self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        self.rebuild_and_move(isolation, (tins, |tin| tin), labels_of)
    }

    /// Rebuilds like [`Self::rebuild`], and moves the counters of each tin `t` to tin `to(t)`, or
    /// to tin 0 if there is no such tin.
    ///
    /// # Errors
    /// See [`Self::rebuild`].
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

    /// Switches to labels under another key at any time, like [`Self::rebuild`] with isolation and
    /// tins unchanged. `labels_of` returns the labels of a queued packet under the new key.
    pub fn relabel<L: Labelled>(&mut self, labels_of: impl FnMut(Packet) -> L) {
        self.regroup(self.isolation(), (None, |tin| tin), labels_of);
    }

    /// Rebuilds as [`Self::rebuild_and_move`] does, after the layout is checked.
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

    /// Sets another number of tins while nothing is queued, after the layout is checked. The state
    /// of idle flows and hosts stays.
    #[inline(never)] // or `set_tins` takes its 1.3 kB of stack even for tins of the same number
    pub(super) fn begin_tins(&mut self, tins: &[TinConfig]) {
        let counters = self.counters_after(|tin| tin);
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        scheduler.begin_anew(scheduler.isolation, Some(tins), directory.host_quantum);
        self.follow_tins(&counters);
    }

    /// Gives the AQM the tin of each queue, and continues the tins from `counters`.
    fn follow_tins(&mut self, counters: &[Counters; TINS - 1]) {
        let Siblings { scheduler, aqm, .. } = self.queues.siblings();
        for flow in (0..scheduler.flows()).map(FlowId) {
            aqm.assign(flow, scheduler.tin_of_flow(flow));
        }
        self.go_on_from(counters);
    }
}

impl<S: Storage> Serving<S> {
    /// Checks that these tins are possible under this isolation.
    pub(super) fn check_layout(
        &self,
        isolation: Isolation,
        tins: Option<&[TinConfig]>,
    ) -> Result<(), IsolatedError> {
        let tins = tins.map_or(Ok(self.choice.tins()), Choice::<S>::check)?;
        let sizes = [self.turns.as_ref().len(), self.hosts.as_ref().len(), self.rounds.count()];
        check_layout(isolation, tins, sizes)
    }

    /// Resets the records, with `host_quantum` for each turn; nothing may be queued. Debts and
    /// credits of tins stay.
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

    /// Resets the records after the tins are set and no turn is selected.
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

/// Returns the number of bits in a turn's number that hold the tin.
const fn tin_bits(tins: u32) -> u32 {
    u32::BITS.wrapping_sub(tins.saturating_sub(1).leading_zeros()) & 7
}

/// Checks that this number of tins is possible under this isolation.
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
