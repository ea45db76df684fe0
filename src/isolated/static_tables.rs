//! Tables of an isolated queue in arrays: for static memory, without an allocator.

use core::fmt;

use flowhash::TagLine;
use sched_core::{
    CeilingFlow, CeilingReturn, CommittedFlow, CommittedReturn, Descriptor, DrrFlow, HeldFlow,
    HeldHost, HostDrrFlow, HostRing, LoadDrrFlow, LoadDrrHost, Queue, RoundList, TinFlow,
};

use super::flow_scheduler::FlowHosts;
use super::memory::{FlowTables, HostTables, IsolatedMemory, RateTables, SideTables, TripleTables};
use crate::storage::{NoRoom, Slices, Storage};

/// Entries of hosts in a group: one set of eight ways.
pub(crate) const HOSTS: usize = 8;
/// Queues in a group: four for each entry, so that few flows find their set full.
pub(crate) const QUEUES: usize = 4 * HOSTS;
/// Queues in a group, the spare one of each entry included.
pub(crate) const ALL: usize = QUEUES + HOSTS;
/// Lines of queues in a group.
const LINES: usize = QUEUES >> 3;

/// The tables of an [`Isolated`](crate::Isolated) queue in arrays: `PACKETS` handles, and `GROUPS` groups of 32 queues
/// and 8 entries of hosts each.
///
/// One number says how many queues and hosts there are, so that no length has to be derived from another.
/// `GROUPS` is a power of two; anything else does not compile. Memory: 16 bytes a packet and about 3.8 kB a group.
///
/// ```
/// use freeboard::sched_core::Limits;
/// use freeboard::{Isolated, IsolatedConfig, StaticTables};
///
/// // In firmware it is a `static`: `new` is const.
/// let mut tables = StaticTables::<256, 2>::new(); // 64 queues, 16 entries of hosts
/// let queue = Isolated::new(tables.memory(), IsolatedConfig::new(1_514, Limits::NONE))?;
/// assert_eq!(queue.backlogged_hosts(), (0, 0));
/// # Ok::<(), freeboard::IsolatedError>(())
/// ```
///
/// ```compile_fail
/// let tables = freeboard::StaticTables::<256, 3>::new();
/// ```
pub struct StaticTables<const PACKETS: usize, const GROUPS: usize> {
    packets: [Descriptor; PACKETS],
    lines: [[TagLine; LINES]; GROUPS],
    queues: [[Queue; ALL]; GROUPS],
    flow_turns: [[HostDrrFlow; ALL]; GROUPS],
    flow_hosts: [[FlowHosts; ALL]; GROUPS],
    held_flows: [[HeldFlow; ALL]; GROUPS],
    host_turns: [[TinFlow; HOSTS]; GROUPS],
    rings: [[HostRing; HOSTS]; GROUPS],
    sources: StaticSide<GROUPS>,
    destinations: StaticSide<GROUPS>,
    spares: [[bool; HOSTS]; GROUPS],
    held_hosts: [[HeldHost; HOSTS]; GROUPS],
    holders: [[u32; HOSTS]; GROUPS],
    holders_of_entries: [[u32; HOSTS]; GROUPS],
}

/// Without the tables.
impl<const PACKETS: usize, const GROUPS: usize> fmt::Debug for StaticTables<PACKETS, GROUPS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTables")
            .field("packets", &PACKETS)
            .field("groups", &GROUPS)
            .finish_non_exhaustive()
    }
}

/// The hosts of one side.
#[derive(Debug)]
struct StaticSide<const GROUPS: usize> {
    lines: [TagLine; GROUPS],
    flows: [[u32; HOSTS]; GROUPS],
}

impl<const GROUPS: usize> StaticSide<GROUPS> {
    const EMPTY: Self = Self { lines: [TagLine::EMPTY; GROUPS], flows: [[0; HOSTS]; GROUPS] };

    fn tables(&mut self) -> SideTables<Slices<'_>> {
        SideTables { lines: &mut self.lines, flows: self.flows.as_flattened_mut() }
    }
}

impl<const PACKETS: usize, const GROUPS: usize> StaticTables<PACKETS, GROUPS> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(GROUPS.is_power_of_two(), "the groups of static tables are a power of two") };
        Self {
            packets: [Descriptor::EMPTY; PACKETS],
            lines: [[TagLine::EMPTY; LINES]; GROUPS],
            queues: [[Queue::EMPTY; ALL]; GROUPS],
            flow_turns: [[HostDrrFlow::EMPTY; ALL]; GROUPS],
            flow_hosts: [[FlowHosts::NONE; ALL]; GROUPS],
            held_flows: [[HeldFlow::EMPTY; ALL]; GROUPS],
            host_turns: [[TinFlow::EMPTY; HOSTS]; GROUPS],
            rings: [[HostRing::EMPTY; HOSTS]; GROUPS],
            sources: StaticSide::EMPTY,
            destinations: StaticSide::EMPTY,
            spares: [[false; HOSTS]; GROUPS],
            held_hosts: [[HeldHost::EMPTY; HOSTS]; GROUPS],
            holders: [[0; HOSTS]; GROUPS],
            holders_of_entries: [[0; HOSTS]; GROUPS],
        }
    }

    /// The tables, for one queue.
    pub fn memory(&mut self) -> IsolatedMemory<Slices<'_>> {
        let flows = FlowTables {
            lines: self.lines.as_flattened_mut(),
            queues: self.queues.as_flattened_mut(),
            turns: self.flow_turns.as_flattened_mut(),
            hosts: self.flow_hosts.as_flattened_mut(),
            held: self.held_flows.as_flattened_mut(),
        };
        let hosts = HostTables {
            turns: self.host_turns.as_flattened_mut(),
            rings: self.rings.as_flattened_mut(),
            sources: self.sources.tables(),
            destinations: self.destinations.tables(),
            spares: self.spares.as_flattened_mut(),
            held: self.held_hosts.as_flattened_mut(),
            holders: self.holders.as_flattened_mut(),
            holders_of_entries: self.holders_of_entries.as_flattened_mut(),
        };
        let packets: &mut [Descriptor] = &mut self.packets;
        IsolatedMemory::of(packets, flows, hosts)
    }
}

impl<const PACKETS: usize, const GROUPS: usize> Default for StaticTables<PACKETS, GROUPS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Room for the rates of hosts in arrays, for [`StaticTables`] of as many groups: 1,152 bytes a group.
pub struct StaticRates<const GROUPS: usize> {
    excess: [[DrrFlow; HOSTS]; GROUPS],
    committed: [[CommittedFlow; HOSTS]; GROUPS],
    returns: [[CommittedReturn; HOSTS]; GROUPS],
    ceilings: [[CeilingFlow; HOSTS]; GROUPS],
    waiting: [[CeilingReturn; HOSTS]; GROUPS],
}

/// Without the tables.
impl<const GROUPS: usize> fmt::Debug for StaticRates<GROUPS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticRates").field("groups", &GROUPS).finish_non_exhaustive()
    }
}

impl<const GROUPS: usize> StaticRates<GROUPS> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            excess: [[DrrFlow::EMPTY; HOSTS]; GROUPS],
            committed: [[CommittedFlow::EMPTY; HOSTS]; GROUPS],
            returns: [[CommittedReturn::EMPTY; HOSTS]; GROUPS],
            ceilings: [[CeilingFlow::EMPTY; HOSTS]; GROUPS],
            waiting: [[CeilingReturn::EMPTY; HOSTS]; GROUPS],
        }
    }
}

impl<const GROUPS: usize> Default for StaticRates<GROUPS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Room for `triple-isolate` in arrays, for [`StaticTables`] of as many groups: 1,408 bytes a group, and 8 a round.
/// Flows of a host beyond `ROUNDS`, two or more, are not told apart.
pub struct StaticTriple<const GROUPS: usize, const ROUNDS: usize> {
    flows: [[LoadDrrFlow; ALL]; GROUPS],
    sources: [[LoadDrrHost; HOSTS]; GROUPS],
    destinations: [[LoadDrrHost; HOSTS]; GROUPS],
    rounds: [RoundList; ROUNDS],
}

/// Without the tables.
impl<const GROUPS: usize, const ROUNDS: usize> fmt::Debug for StaticTriple<GROUPS, ROUNDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTriple")
            .field("groups", &GROUPS)
            .field("rounds", &ROUNDS)
            .finish_non_exhaustive()
    }
}

impl<const GROUPS: usize, const ROUNDS: usize> StaticTriple<GROUPS, ROUNDS> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            flows: [[LoadDrrFlow::EMPTY; ALL]; GROUPS],
            sources: [[LoadDrrHost::EMPTY; HOSTS]; GROUPS],
            destinations: [[LoadDrrHost::EMPTY; HOSTS]; GROUPS],
            rounds: [RoundList::EMPTY; ROUNDS],
        }
    }
}

impl<const GROUPS: usize, const ROUNDS: usize> Default for StaticTriple<GROUPS, ROUNDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: Storage> IsolatedMemory<Slices<'a>, NoRoom, T> {
    /// The same with room for a committed rate and a ceiling of every host. Tables for fewer hosts are refused
    /// at construction of the queue.
    #[must_use]
    pub fn with_rates_in<const GROUPS: usize>(
        self,
        rates: &'a mut StaticRates<GROUPS>,
    ) -> IsolatedMemory<Slices<'a>, Slices<'a>, T> {
        self.with_rate_tables(RateTables {
            excess: rates.excess.as_flattened_mut(),
            committed: rates.committed.as_flattened_mut(),
            returns: rates.returns.as_flattened_mut(),
            ceilings: rates.ceilings.as_flattened_mut(),
            waiting: rates.waiting.as_flattened_mut(),
        })
    }
}

impl<'a, K: Storage> IsolatedMemory<Slices<'a>, K> {
    /// The same with room for `triple-isolate`. Tables for fewer flows or hosts are refused at construction of
    /// the queue.
    #[must_use]
    pub fn with_triple_in<const GROUPS: usize, const ROUNDS: usize>(
        self,
        triple: &'a mut StaticTriple<GROUPS, ROUNDS>,
    ) -> IsolatedMemory<Slices<'a>, K, Slices<'a>> {
        self.with_triple_tables(TripleTables {
            flows: triple.flows.as_flattened_mut(),
            sources: triple.sources.as_flattened_mut(),
            destinations: triple.destinations.as_flattened_mut(),
            rounds: &mut triple.rounds,
        })
    }
}
