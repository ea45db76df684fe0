//! Tins of an isolated queue: which there are, and others while packets are queued.

use core::array;

use sched_core::{
    Aqm, Backlog, ConfigError, Counters, FlowId, FlowScheduler, Imbalance, Scheduler, Siblings,
    TinConfig, Volume,
};

use super::Isolated;
use super::config::IsolatedError;
use super::flow_scheduler::IsolationScheduler;
use super::tin_records::{TINS, without_peak};
use crate::isolation::{Isolation, TinCounters};
use crate::storage::Storage;

impl<S: Storage, A: Aqm, K: Storage, T: Storage> Isolated<S, A, K, T> {
    /// Other tins, at any time: `tins[t]` is tin `t`, and the highest goes first within its share
    /// ([`TinDrr`](sched_core::TinDrr)). All packets stay in their queues. Flows that are queued in a tin that there is no
    /// longer are of tin 0; until they are idle, their host has an entry there beside its own. Such a flow goes to
    /// another queue with its next packet, and so does one whose tin has another number: once, its packets may leave out of
    /// order.
    ///
    /// From the next packet on, a packet goes by the tin that it names. Two cases wait until what is queued has left: in a set
    /// of hosts whose entries are all taken, a host of a tin that has none there is served in an entry of another tin; and
    /// where hosts have no level, a flow whose set is full may share a queue of another tin.
    ///
    /// Where as many tins stay, only their rates and weights change: what is queued, what is left of a turn and what a tin
    /// owes stay. Cost: O(hosts). With another number of tins what is left of a turn is lost. Cost: O(queues + hosts).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`IsolatedError::Config`] for no tins, more than eight, and what [`TinConfig::check`] refuses.
    /// - [`IsolatedError::Ways`] for more tins than the tables have ways.
    /// - [`IsolatedError::Memory`] under `triple-isolate` for more tins than half the rounds there is room for
    ///   ([`IsolatedMemory::with_triple`](crate::IsolatedMemory::with_triple)).
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler, TinConfig};
    /// use freeboard::{Heap, InTin, Isolated, IsolatedConfig, IsolatedMemory};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
    /// // Of 10 Mbit/s, tin 1 goes first up to 1 Mbit/s.
    /// let share = |rate| TinConfig::by_weight(1).with_rate(rate);
    /// queue.set_tins(&[share(10_000_000), share(1_000_000)])?;
    ///
    /// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// for handle in 0..8 {
    ///     let labels = InTin { labels, tin: u8::from(handle == 7) };
    ///     queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 1_000), drops)?;
    /// }
    /// assert_eq!(queue.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), IsolatedError> {
        self.set_tins_and_move(tins, |tin| tin)
    }

    /// As [`Self::set_tins`], where flows and counters of tin `t` are of tin `to(t)` from now on,
    /// or of tin 0 if that is not there.
    ///
    /// # Errors
    /// As [`Self::set_tins`].
    pub fn set_tins_and_move(
        &mut self,
        tins: &[TinConfig],
        to: impl Fn(u8) -> u8,
    ) -> Result<(), IsolatedError> {
        let most = TinConfig::MAX_TINS.into();
        let count =
            u8::try_from(tins.len()).ok().filter(|count| (1..=most).contains(&(*count).into()));
        let Some(count) = count else {
            let (what, value) = ("number of tins", tins.len() as u64);
            return Err(ConfigError::OutOfRange { what, value, min: 1, max: most }.into());
        };
        self.check_tins(self.isolation(), count)?;
        tins.iter().try_for_each(TinConfig::check)?;
        let before = self.tins();
        let to = |tin| Some(to(tin)).filter(|to| *to < count).unwrap_or(0);
        if count == before && (0..count).all(|tin| to(tin) == tin) {
            return Ok(self.queues.siblings().scheduler.change_tins(tins)?);
        }
        self.take_out();
        for flow in (0..self.queues.scheduler().flows()).map(FlowId) {
            let tin = self.queues.scheduler().tin_of_flow(flow);
            if to(tin) != tin {
                // What has its label from now on is in another tin.
                self.queues.siblings().directory.queues.disown(flow.0);
            }
        }
        let counters = self.counters_after(to);
        let level = self.isolation().level();
        let Siblings { scheduler, directory, aqm, .. } = self.queues.siblings();
        directory.had_tins |= count > 1;
        directory.sources.move_tins(to);
        directory.destinations.move_tins(to);
        let entries = directory.level(level);
        let result = scheduler.set_tins(tins, to, |entry| entries.tin_of(entry));
        debug_assert_eq!(result, Ok(()), "the tins were checked, and no flow is backlogged");
        if before == 1 || count == 1 {
            directory.renew_holders(scheduler);
        }
        for flow in (0..scheduler.flows()).map(FlowId) {
            aqm.assign(flow, scheduler.tin_of_flow(flow));
        }
        let served: [_; TINS] = array::from_fn(|tin| {
            self.queues.scheduler().served_in(u8::try_from(tin).unwrap_or(u8::MAX))
        });
        let served = |tin: u8| served.get(usize::from(tin)).copied().unwrap_or(Volume::ZERO);
        self.queues.records_mut().go_on_from(&counters, served);
        self.put_back();
        Ok(result?)
    }

    /// The counters of each tin from 1 on, if what was counted in tin `t` so far is of tin `to(t)`
    /// from now on.
    fn counters_after(&self, to: impl Fn(u8) -> u8) -> [Counters; TINS - 1] {
        let mut after = [Counters::default(); TINS - 1];
        for tin in 0..self.tins() {
            let place = usize::from(to(tin)).checked_sub(1).and_then(|place| after.get_mut(place));
            if let (Some(sum), Some(TinCounters { counters, .. })) = (place, self.tin_counters(tin))
            {
                *sum = sum.plus(&counters);
            }
        }
        after
    }

    /// Whether so many tins are possible under `isolation`.
    pub(super) fn check_tins(&self, isolation: Isolation, tins: u8) -> Result<(), IsolatedError> {
        let ways = self.queues.directory().sources.ways();
        let scheduler = self.queues.scheduler();
        if isolation == Isolation::TripleIsolate && scheduler.has_triple() {
            let needed = IsolationScheduler::<S, K, T>::rounds_for(tins.into());
            let (what, given) = ("rounds of all tins", scheduler.rounds());
            if given < needed {
                return Err(IsolatedError::Memory { what, given, needed });
            }
        }
        if u32::from(tins) > ways {
            return Err(IsolatedError::Ways { tins, ways });
        }
        Ok(())
    }

    /// With `on`, a host has one share in all tins together. Off unless set. Where hosts do not count it changes nothing.
    ///
    /// Under `dual-srchost` and `dual-dsthost` what a host is sent in one tin counts for its turns in the others, while it is
    /// backlogged there:
    ///
    /// - A turn of a host is of as many quanta as there are tins, and what the host is sent elsewhere is taken from it; of every
    ///   turn one packet is left. So a host that floods `n` tins of the same rate, beside others that flood one each, is sent as
    ///   much as each of them. Where tins differ, it has in each tin a packet at least where another is sent a whole turn.
    /// - Hosts stand for longer turns: the wait of one that floods grows by the number of tins. Sparse ones go first, as without.
    /// - What a host is sent [in excess](sched_core::CommittedRates) of a committed rate is not counted.
    ///
    /// Under `triple-isolate` the load of a flow counts the flows of its hosts in all tins: a host divides one share among
    /// all its flows. A host that floods `n` tins with a flow in each has in each of them the `n`-th part of what another host
    /// has there with one flow in this tin alone.
    ///
    /// In all three:
    ///
    /// - A host is known in several tins by its label. One that shares an entry with another host, because its set is full, has a
    ///   share of its own there.
    /// - Set under load, it counts for a host as soon as a flow of the host becomes backlogged.
    ///
    /// When room is made, a host counts with what it holds in all tins, with this and without. Cost: O(hosts).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.queues.siblings().scheduler.set_hosts_across_tins(on);
    }

    /// Whether a host has [one share in all tins together](Self::set_hosts_across_tins).
    pub fn hosts_across_tins(&self) -> bool {
        self.queues.scheduler().hosts_across_tins()
    }

    /// How many tins there are: 1 unless [set](Self::set_tins).
    pub fn tins(&self) -> u8 {
        self.queues.scheduler().tins()
    }

    /// What has happened in `tin`, and what is queued in it; `None` if there is no such tin. Cost: O(queues).
    pub fn tin_counters(&self, tin: u8) -> Option<TinCounters> {
        (tin < self.tins()).then(|| {
            if tin > 0 {
                let backlog = self.held_in(tin);
                let counters = self.counters_in(tin, backlog);
                return TinCounters { counters, backlog };
            }
            let mut rest = TinCounters {
                counters: without_peak(self.queues.counters()),
                backlog: self.queues.backlog(),
            };
            for other in 1..self.tins() {
                let held = self.held_in(other);
                rest.counters = rest.counters.minus(&self.counters_in(other, held));
                rest.backlog.packets = rest.backlog.packets.wrapping_sub(held.packets);
                rest.backlog.bytes = rest.backlog.bytes.wrapping_sub(held.bytes);
            }
            rest
        })
    }

    /// What has happened in `tin`, which is not tin 0 and holds `held`.
    fn counters_in(&self, tin: u8, held: Backlog) -> Counters {
        let delivered = self.queues.scheduler().served_in(tin);
        self.queues.records().counters(tin, delivered, held)
    }

    /// What the flows of `tin` hold.
    fn held_in(&self, tin: u8) -> Backlog {
        let scheduler = self.queues.scheduler();
        let flows = (0..scheduler.flows()).map(FlowId);
        let of_tin = flows.filter(|flow| scheduler.tin_of_flow(*flow) == tin);
        of_tin.fold(Backlog::default(), |sum, flow| {
            let held = self.queues.flow_backlog(flow);
            Backlog {
                packets: sum.packets.wrapping_add(held.packets),
                bytes: sum.bytes.wrapping_add(held.bytes),
            }
        })
    }

    /// Checks that no tin has delivered less than nothing, and that tin 0 has what no other tin has.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        let total = self.queues.counters();
        for tin in 0..self.tins() {
            let Some(TinCounters { counters, backlog }) = self.tin_counters(tin) else { continue };
            let left = counters.dropped_total().plus(backlog.into());
            let (packets, bytes) = (counters.accepted.packets, counters.accepted.bytes);
            let is_whole = left.packets <= packets && packets <= total.accepted.packets;
            Imbalance::check("packets of a tin", tin.into(), 1, is_whole.into())?;
            let is_whole = left.bytes <= bytes && bytes <= total.accepted.bytes;
            Imbalance::check("bytes of a tin", tin.into(), 1, is_whole.into())?;
        }
        Ok(())
    }

    /// What is set for `tin`; `None` if there is no such tin.
    pub fn tin(&self, tin: u8) -> Option<TinConfig> {
        self.queues.scheduler().host_tins().tin(tin.into())
    }
}
