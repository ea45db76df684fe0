//! The tables of an isolated queue, by owner: packets, flows, hosts, their rates, and `triple-isolate`.

use core::fmt;

use flowhash::TagLine;
use sched_core::{
    CeilingFlow, CeilingReturn, CommittedFlow, CommittedReturn, Descriptor, DrrFlow, HeldFlow,
    HeldHost, HostDrrFlow, HostRing, LoadDrrFlow, LoadDrrHost, Queue, RoundList, TinFlow,
};

use super::IsolatedError;
use super::flow_scheduler::FlowHosts;
use crate::storage::{Allocate, NoRoom, Storage};

/// The tables of an [`Isolated`](crate::Isolated) queue; what they contain does not matter.
///
/// There are queues, and behind them a spare queue for each entry of a host. Queues and entries of hosts are powers
/// of two. Memory: 16 bytes a packet, 72 a queue, and 197 for each entry of a host, its spare queue included. An entry
/// stands for one host of either side. The queue itself contains 1 kB of classes of hosts and 3.2 kB for tins and rounds. An AQM takes
/// room for each queue beside this, spare ones included: 24 bytes for [`ChosenAqm`](sched_core::ChosenAqm).
///
/// Two groups of tables are there only if they are wanted:
///
/// - `K`: the rates of hosts, 144 bytes an entry ([`with_rates`](Self::with_rates)). A packet costs more
///   with them, whether a rate is set or not.
/// - `T`: `triple-isolate`, 32 bytes a queue, 16 an entry and 8 a round ([`with_triple`](Self::with_triple)). Without them
///   the mode is refused.
///
/// With [`NoRoom`], which both are unless chosen, nothing of them is left in the code.
pub struct IsolatedMemory<S: Storage, K: Storage = NoRoom, T: Storage = NoRoom> {
    /// One for each handle.
    pub(super) packets: S::Of<Descriptor>,
    pub(super) flows: FlowTables<S>,
    pub(super) hosts: HostTables<S>,
    pub(super) rates: RateTables<K>,
    pub(super) triple: TripleTables<T>,
}

/// Without the tables.
impl<S: Storage, K: Storage, T: Storage> fmt::Debug for IsolatedMemory<S, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolatedMemory")
            .field("queues", &self.flows.queues.as_ref().len())
            .field("packets", &self.packets.as_ref().len())
            .finish_non_exhaustive()
    }
}

/// What belongs to a flow: as long as there are queues, spare ones included, but for the lines.
#[derive(Debug)]
pub(super) struct FlowTables<S: Storage> {
    /// One for eight queues; none for spare ones.
    pub(super) lines: S::Of<TagLine>,
    pub(super) queues: S::Of<Queue>,
    pub(super) turns: S::Of<HostDrrFlow>,
    pub(super) hosts: S::Of<FlowHosts>,
    /// For the flow that gives way.
    pub(super) held: S::Of<HeldFlow>,
}

/// What belongs to a host. Each table has an element for each entry, but for the tag lines.
#[derive(Debug)]
pub(super) struct HostTables<S: Storage> {
    pub(super) turns: S::Of<TinFlow>,
    /// For the turns of the flows of each.
    pub(super) rings: S::Of<HostRing>,
    pub(super) sources: SideTables<S>,
    pub(super) destinations: SideTables<S>,
    /// Which spare queues are claimed.
    pub(super) spares: S::Of<bool>,
    /// For the host that gives way.
    pub(super) held: S::Of<HeldHost>,
    /// For one that sends in several tins.
    pub(super) holders: S::Of<u32>,
    pub(super) holders_of_entries: S::Of<u32>,
}

/// What belongs to a host of one side.
#[derive(Debug)]
pub(super) struct SideTables<S: Storage> {
    /// One tag line for eight entries.
    pub(super) lines: S::Of<TagLine>,
    /// How many backlogged flows each entry has.
    pub(super) flows: S::Of<u32>,
}

/// Rates of hosts. Each table has an element for each entry, or all are empty.
#[derive(Debug)]
pub(super) struct RateTables<K: Storage> {
    /// Turns of hosts in excess.
    pub(super) excess: K::Of<DrrFlow>,
    pub(super) committed: K::Of<CommittedFlow>,
    /// When hosts in excess conform again.
    pub(super) returns: K::Of<CommittedReturn>,
    pub(super) ceilings: K::Of<CeilingFlow>,
    /// When hosts above their ceilings may send.
    pub(super) waiting: K::Of<CeilingReturn>,
}

/// `triple-isolate`. The tables have an element for each queue, entry or round, or all are empty.
#[derive(Debug)]
pub(super) struct TripleTables<T: Storage> {
    pub(super) flows: T::Of<LoadDrrFlow>,
    pub(super) sources: T::Of<LoadDrrHost>,
    pub(super) destinations: T::Of<LoadDrrHost>,
    pub(super) rounds: T::Of<RoundList>,
}

impl RateTables<NoRoom> {
    const NONE: Self = Self { excess: [], committed: [], returns: [], ceilings: [], waiting: [] };
}

impl TripleTables<NoRoom> {
    const NONE: Self = Self { flows: [], sources: [], destinations: [], rounds: [] };
}

/// Lines for `queues` queues of a [`flowhash::FlowTable`].
const fn lines(queues: usize) -> usize {
    queues.div_ceil(8)
}

impl<S: Allocate> IsolatedMemory<S> {
    /// Tables for `queues` queues, spare ones not counted, for `hosts` entries of hosts, and for packets whose
    /// handles are below `packets`.
    #[must_use]
    pub fn allocate(queues: usize, hosts: usize, packets: usize) -> Self {
        let all = queues.saturating_add(hosts);
        let side = || SideTables {
            lines: S::table(TagLine::EMPTY, lines(hosts)),
            flows: S::table(0, hosts),
        };
        let flows = FlowTables {
            lines: S::table(TagLine::EMPTY, lines(queues)),
            queues: S::table(Queue::EMPTY, all),
            turns: S::table(HostDrrFlow::EMPTY, all),
            hosts: S::table(FlowHosts::NONE, all),
            held: S::table(HeldFlow::EMPTY, all),
        };
        let hosts = HostTables {
            turns: S::table(TinFlow::EMPTY, hosts),
            rings: S::table(HostRing::EMPTY, hosts),
            sources: side(),
            destinations: side(),
            spares: S::table(false, hosts),
            held: S::table(HeldHost::EMPTY, hosts),
            holders: S::table(0, hosts),
            holders_of_entries: S::table(0, hosts),
        };
        Self::of(S::table(Descriptor::EMPTY, packets), flows, hosts)
    }
}

impl<S: Storage> IsolatedMemory<S> {
    /// Without room for rates, and without `triple-isolate`.
    pub(super) const fn of(
        packets: S::Of<Descriptor>,
        flows: FlowTables<S>,
        hosts: HostTables<S>,
    ) -> Self {
        Self { packets, flows, hosts, rates: RateTables::NONE, triple: TripleTables::NONE }
    }
}

impl<S: Storage, T: Storage> IsolatedMemory<S, NoRoom, T> {
    /// The same with room for a committed rate and a ceiling of every host: 144 bytes an entry.
    #[must_use]
    pub fn with_rates(self) -> IsolatedMemory<S, S, T>
    where
        S: Allocate,
    {
        let hosts = self.hosts.turns.as_ref().len();
        self.with_rate_tables(RateTables {
            excess: S::table(DrrFlow::EMPTY, hosts),
            committed: S::table(CommittedFlow::EMPTY, hosts),
            returns: S::table(CommittedReturn::EMPTY, hosts),
            ceilings: S::table(CeilingFlow::EMPTY, hosts),
            waiting: S::table(CeilingReturn::EMPTY, hosts),
        })
    }

    pub(super) fn with_rate_tables<K: Storage>(
        self,
        rates: RateTables<K>,
    ) -> IsolatedMemory<S, K, T> {
        let Self { packets, flows, hosts, rates: _, triple } = self;
        IsolatedMemory { packets, flows, hosts, rates, triple }
    }
}

impl<S: Storage, K: Storage> IsolatedMemory<S, K> {
    /// The same with room for `triple-isolate`: 32 bytes a queue, 16 an entry of hosts, 8 a round. `rounds` is two or
    /// more for each tin, and 4,096 at most. The tins have equal parts of it, the largest powers of two: in a tin with `r` rounds,
    /// the flows of a host beyond `r − 1` are not told apart in that mode.
    #[must_use]
    pub fn with_triple(self, rounds: usize) -> IsolatedMemory<S, K, S>
    where
        S: Allocate,
    {
        let (queues, hosts) = (self.flows.queues.as_ref().len(), self.hosts.turns.as_ref().len());
        self.with_triple_tables(TripleTables {
            flows: S::table(LoadDrrFlow::EMPTY, queues),
            sources: S::table(LoadDrrHost::EMPTY, hosts),
            destinations: S::table(LoadDrrHost::EMPTY, hosts),
            rounds: S::table(RoundList::EMPTY, rounds),
        })
    }

    /// The same with a place for the tables of `triple-isolate`, which are not there.
    #[cfg(feature = "alloc")]
    pub(crate) fn with_empty_triple(self) -> IsolatedMemory<S, K, S>
    where
        S: Allocate,
    {
        self.with_triple_tables(TripleTables {
            flows: S::table(LoadDrrFlow::EMPTY, 0),
            sources: S::table(LoadDrrHost::EMPTY, 0),
            destinations: S::table(LoadDrrHost::EMPTY, 0),
            rounds: S::table(RoundList::EMPTY, 0),
        })
    }

    pub(super) fn with_triple_tables<T: Storage>(
        self,
        triple: TripleTables<T>,
    ) -> IsolatedMemory<S, K, T> {
        let Self { packets, flows, hosts, rates, triple: _ } = self;
        IsolatedMemory { packets, flows, hosts, rates, triple }
    }
}

impl<S: Storage, K: Storage, T: Storage> IsolatedMemory<S, K, T> {
    /// How many queues there are, spare ones included: as many states an AQM needs.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.flows.queues.as_ref().len()
    }

    /// How many packets there are descriptors for.
    pub(crate) fn packets(&self) -> usize {
        self.packets.as_ref().len()
    }

    /// Whether every table is as long as the queues or hosts ask for; lines are measured by their tables.
    pub(super) fn check(&self) -> Result<(), IsolatedError> {
        let (flows, hosts) = (&self.flows, &self.hosts);
        let (queues, entries) = (flows.queues.as_ref().len(), hosts.turns.as_ref().len());
        let at_least = |needed: usize| {
            move |&(what, given): &(&'static str, usize)| {
                if given < needed {
                    return Err(IsolatedError::Memory { what, given, needed });
                }
                Ok(())
            }
        };
        let of_flows = [
            ("turns of flows", flows.turns.as_ref().len()),
            ("hosts of flows", flows.hosts.as_ref().len()),
            ("bytes of flows", flows.held.as_ref().len()),
        ];
        let of_hosts = [
            ("rings", hosts.rings.as_ref().len()),
            ("flows of sources", hosts.sources.flows.as_ref().len()),
            ("flows of destinations", hosts.destinations.flows.as_ref().len()),
            ("spares", hosts.spares.as_ref().len()),
            ("bytes of hosts", hosts.held.as_ref().len()),
            ("holders", hosts.holders.as_ref().len()),
            ("holders of entries", hosts.holders_of_entries.as_ref().len()),
        ];
        of_flows.iter().try_for_each(at_least(queues))?;
        of_hosts.iter().try_for_each(at_least(entries))?;
        // There is room for the rates of all entries, or of none: the label of a host decides which
        // entry it gets.
        let rates = [
            ("excess", self.rates.excess.as_ref().len()),
            ("committed", self.rates.committed.as_ref().len()),
            ("returns", self.rates.returns.as_ref().len()),
            ("ceilings", self.rates.ceilings.as_ref().len()),
            ("waiting", self.rates.waiting.as_ref().len()),
        ];
        if rates.iter().any(|(_, given)| *given > 0) {
            rates.iter().try_for_each(at_least(entries))?;
        }
        let loads = [
            ("loads of sources", self.triple.sources.as_ref().len()),
            ("loads of destinations", self.triple.destinations.as_ref().len()),
        ];
        let turns = ("turns in triple-isolate", self.triple.flows.as_ref().len());
        if self.has_triple() {
            at_least(queues)(&turns)?;
            loads.iter().try_for_each(at_least(entries))?;
        }
        Ok(())
    }

    /// Whether there is any table of `triple-isolate`.
    pub(super) fn has_triple(&self) -> bool {
        !self.triple.flows.as_ref().is_empty() || !self.triple.rounds.as_ref().is_empty()
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::{Heap, Isolated, IsolatedConfig, Isolation};
    use sched_core::Limits;

    type Memory = IsolatedMemory<Heap, Heap, Heap>;

    /// Goal: no table may be shorter than its flows or hosts ask for. Method: each table in turn lacks its last
    /// element; the error names it.
    #[test]
    fn a_table_that_is_too_short_is_named() {
        type Cut = fn(&mut Memory);
        let cut: [(&str, usize, Cut); 18] = [
            ("turns of flows", 80, |memory| shorten(&mut memory.flows.turns)),
            ("hosts of flows", 80, |memory| shorten(&mut memory.flows.hosts)),
            ("bytes of flows", 80, |memory| shorten(&mut memory.flows.held)),
            ("rings", 16, |memory| shorten(&mut memory.hosts.rings)),
            ("flows of sources", 16, |memory| shorten(&mut memory.hosts.sources.flows)),
            ("flows of destinations", 16, |memory| shorten(&mut memory.hosts.destinations.flows)),
            ("spares", 16, |memory| shorten(&mut memory.hosts.spares)),
            ("bytes of hosts", 16, |memory| shorten(&mut memory.hosts.held)),
            ("holders", 16, |memory| shorten(&mut memory.hosts.holders)),
            ("holders of entries", 16, |memory| shorten(&mut memory.hosts.holders_of_entries)),
            ("excess", 16, |memory| shorten(&mut memory.rates.excess)),
            ("committed", 16, |memory| shorten(&mut memory.rates.committed)),
            ("returns", 16, |memory| shorten(&mut memory.rates.returns)),
            ("ceilings", 16, |memory| shorten(&mut memory.rates.ceilings)),
            ("waiting", 16, |memory| shorten(&mut memory.rates.waiting)),
            ("turns in triple-isolate", 80, |memory| shorten(&mut memory.triple.flows)),
            ("loads of sources", 16, |memory| shorten(&mut memory.triple.sources)),
            ("loads of destinations", 16, |memory| shorten(&mut memory.triple.destinations)),
        ];
        for (what, needed, cut) in cut {
            let mut memory = Memory::with_all();
            cut(&mut memory);
            let given = needed - 1;
            assert_eq!(built(memory), Err(IsolatedError::Memory { what, given, needed }));
        }
        assert_eq!(built(Memory::with_all()), Ok(()));
    }

    /// What the tables take but for the packets, in bytes.
    fn bytes(queues: usize, hosts: usize) -> usize {
        let IsolatedMemory { flows, hosts, .. } =
            IsolatedMemory::<Heap>::allocate(queues, hosts, 0);
        let FlowTables { lines, queues, turns, hosts: of_flows, held } = flows;
        let of_flows = [
            size_of_val(&lines[..]),
            size_of_val(&queues[..]),
            size_of_val(&turns[..]),
            size_of_val(&of_flows[..]),
            size_of_val(&held[..]),
        ];
        let HostTables {
            turns,
            rings,
            sources,
            destinations,
            spares,
            held,
            holders,
            holders_of_entries,
        } = hosts;
        let side =
            |side: SideTables<Heap>| size_of_val(&side.lines[..]) + size_of_val(&side.flows[..]);
        let of_hosts = [
            size_of_val(&turns[..]),
            size_of_val(&rings[..]),
            side(sources),
            side(destinations),
            size_of_val(&spares[..]),
            size_of_val(&held[..]),
            size_of_val(&holders[..]),
            size_of_val(&holders_of_entries[..]),
        ];
        of_flows.iter().sum::<usize>() + of_hosts.iter().sum::<usize>()
    }

    /// Goal: the pages of the memory, of the static tables and of the performance are right. Method: the difference that a
    /// queue or an entry makes; and the whole of a smart queue as a user builds it.
    #[test]
    fn tables_take_what_the_pages_say() {
        use crate::{Descriptors, SmartQueue, StaticTables};
        use sched_core::ChosenAqmState;

        let whole = bytes(1_024, 64);
        assert_eq!(bytes(2_048, 64), whole + 1_024 * 72);
        assert_eq!(bytes(1_024, 128), whole + 64 * 197);
        assert_eq!(size_of::<ChosenAqmState>(), 24);
        let of_groups = size_of::<StaticTables<0, 16>>() - size_of::<StaticTables<0, 8>>();
        assert_eq!((of_groups, of_groups + 8 * 40 * 24), (8 * 3_880, 8 * 4_840));

        let with_aqm = whole + (1_024 + 64) * 24;
        assert_eq!(with_aqm, 112_448);
        let most = with_aqm + size_of::<SmartQueue<Heap, Descriptors, NoRoom, Heap>>();
        assert!(most <= 120_192, "{most}");
    }

    fn shorten<E>(table: &mut alloc::vec::Vec<E>) {
        table.truncate(table.len() - 1);
    }

    impl Memory {
        fn with_all() -> Self {
            IsolatedMemory::<Heap>::allocate(64, 16, 64).with_rates().with_triple(64)
        }
    }

    fn built(memory: Memory) -> Result<(), IsolatedError> {
        let config = IsolatedConfig::new(1_500, Limits::NONE);
        Isolated::new(memory, config.isolated_by(Isolation::TripleIsolate)).map(|_| ())
    }

    #[test]
    fn an_error_says_what_is_needed() {
        use alloc::string::ToString;

        let error = IsolatedError::Memory { what: "rings", given: 0, needed: 16 };
        assert_eq!(error.to_string(), "rings: 0 elements, at least 16 are needed");
    }
}
