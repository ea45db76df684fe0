//! Tables of an isolated queue as arrays, for static memory without an allocator.

use core::fmt;

use flowhash::TagLine;
use sched_core::{Descriptor, FlowRecord, HeldFlow, HeldHost, HostClasses, Queue, TinState};

use super::memory::{IsolatedMemory, RoundTables};
use super::records::{Flow, Host, Turn};
use super::serve::TINS as MOST_TINS;
use crate::storage::{NoTable, Slices};

/// Entries of hosts in a group: one set of eight ways.
pub(crate) const HOSTS: usize = 8;
/// Queues in a group: four for each entry, so that few flows find their set full.
pub(crate) const QUEUES: usize = 4 * HOSTS;
/// Queues in a group, including the spare queue of each entry.
pub(crate) const ALL: usize = QUEUES + HOSTS;
/// Tag lines of queues in a group.
const LINES: usize = QUEUES >> 3;

/// The tables of an [`Isolated`](super::Isolated) queue as arrays: `PACKETS` handles, and `GROUPS`
/// groups of 32 queues and 8 hosts each, for up to `TINS` tins.
///
/// One parameter determines the numbers of queues and hosts, so that no length has to be derived
/// from another. `GROUPS` is a power of two; `TINS` is 1, 2, 4 or 8, or 1 without the feature
/// `tins`; anything else does not compile. Memory: 512 bytes, 16 per packet, 240 per tin, and per
/// group 2,184 bytes and 352 for each tin.
///
/// ```
/// use freeboard::sched_core::Limits;
/// use freeboard::{Isolated, IsolatedConfig, StaticTables};
///
/// // In firmware it is a `static`: `new` is const. 64 queues, 16 hosts.
/// let mut tables = StaticTables::<256, 2>::new();
/// let queue = Isolated::new(tables.memory(), IsolatedConfig::new(1_514, Limits::NONE))?;
/// assert_eq!(queue.backlogged_hosts(), (0, 0));
/// # Ok::<(), freeboard::IsolatedError>(())
/// ```
///
/// ```compile_fail
/// let tables = freeboard::StaticTables::<256, 3>::new();
/// ```
///
/// ```compile_fail
/// let tables = freeboard::StaticTables::<256, 2, 3>::new();
/// ```
pub struct StaticTables<const PACKETS: usize, const GROUPS: usize, const TINS: usize = 1> {
    packets: [Descriptor; PACKETS],
    lines: [[TagLine; LINES]; GROUPS],
    queues: [[Queue; ALL]; GROUPS],
    flows: [[Flow; ALL]; GROUPS],
    held_flows: [[HeldFlow; ALL]; GROUPS],
    host_lines: [TagLine; GROUPS],
    hosts: [[Host; HOSTS]; GROUPS],
    held_hosts: [[HeldHost; HOSTS]; GROUPS],
    classes: [HostClasses; 1],
    turns: [[[Turn; TINS]; HOSTS]; GROUPS],
    tins: [TinState; TINS],
    /// The first is the record of all tins, in place of one for tin 0.
    records: [FlowRecord; TINS],
}

/// Leaves out the tables.
impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize> fmt::Debug
    for StaticTables<PACKETS, GROUPS, TINS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTables")
            .field("packets", &PACKETS)
            .field("groups", &GROUPS)
            .field("tins", &TINS)
            .finish_non_exhaustive()
    }
}

impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize>
    StaticTables<PACKETS, GROUPS, TINS>
{
    /// Creates empty tables.
    #[must_use]
    pub const fn new() -> Self {
        const {
            assert!(GROUPS.is_power_of_two(), "GROUPS is out of range (expected a power of two)");
            assert!(
                TINS.is_power_of_two() && TINS <= MOST_TINS,
                "TINS is out of range (expected 1, 2, 4 or 8, or 1 without the feature `tins`)"
            );
        }
        Self {
            packets: [Descriptor::EMPTY; PACKETS],
            lines: [[TagLine::EMPTY; LINES]; GROUPS],
            queues: [[Queue::EMPTY; ALL]; GROUPS],
            flows: [[Flow::EMPTY; ALL]; GROUPS],
            held_flows: [[HeldFlow::EMPTY; ALL]; GROUPS],
            host_lines: [TagLine::EMPTY; GROUPS],
            hosts: [[Host::EMPTY; HOSTS]; GROUPS],
            held_hosts: [[HeldHost::EMPTY; HOSTS]; GROUPS],
            classes: [HostClasses::EMPTY],
            turns: [[[Turn::EMPTY; TINS]; HOSTS]; GROUPS],
            tins: [TinState::EMPTY; TINS],
            records: [FlowRecord::EMPTY; TINS],
        }
    }

    /// Returns the tables, for one queue.
    pub fn memory(&mut self) -> IsolatedMemory<Slices<'_>> {
        let (totals, records) = self.records.split_at_mut(1);
        IsolatedMemory {
            packets: &mut self.packets,
            lines: self.lines.as_flattened_mut(),
            queues: self.queues.as_flattened_mut(),
            flows: self.flows.as_flattened_mut(),
            held_flows: self.held_flows.as_flattened_mut(),
            host_lines: &mut self.host_lines,
            hosts: self.hosts.as_flattened_mut(),
            held_hosts: self.held_hosts.as_flattened_mut(),
            classes: &mut self.classes,
            turns: self.turns.as_flattened_mut().as_flattened_mut(),
            tins: &mut self.tins,
            records,
            totals,
            rates: NoTable::NEW,
            excess: NoTable::NEW,
            rounds: RoundTables::NONE,
        }
    }
}

impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize> Default
    for StaticTables<PACKETS, GROUPS, TINS>
{
    fn default() -> Self {
        Self::new()
    }
}
