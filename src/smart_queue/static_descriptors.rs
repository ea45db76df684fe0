//! Memory of a smart queue with descriptors as plain arrays, for a `static`, without an allocator.

use core::fmt;

use sched_core::{AqmSetting, ChosenAqmState};

use crate::isolation::{ALL, AqmMemory, IsolatedMemory, StaticTables};
use crate::storage::Slices;
use crate::tins::TinPlan;

/// Memory for a [`SmartQueue`](super::SmartQueue) with descriptors, without an allocator: `PACKETS`
/// handles, and tables of `GROUPS` groups of 32 queues and 8 hosts each, for up to `TINS` tins
/// ([`StaticTables`]; without the feature `tins` always one).
///
/// Memory: 16 bytes per packet, about 3.1 kB per group and 352 bytes for each tin of a group, 368
/// bytes per tin, and 1 kB. Compile errors: `PACKETS` of 0, and what [`StaticTables`] refuses.
///
/// ```
/// use freeboard::flowhash::Labels;
/// use freeboard::sched_core::{Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{SmartQueue, StaticDescriptors};
///
/// // In firmware it is a `static`: `new` is const.
/// let mut memory = StaticDescriptors::<256, 2>::new();
/// let (tables, aqm) = memory.memory();
/// let mut queue =
///     SmartQueue::upload(Rate::megabits_per_second(1)?).descriptors_in(tables, aqm)?;
/// assert_eq!(queue.handles(), 256);
/// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
/// queue.enqueue(Nanos(0), &labels, Packet::new(255, 60), &mut |_: Packet, _| {})?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StaticDescriptors<const PACKETS: usize, const GROUPS: usize, const TINS: usize = 1> {
    tables: StaticTables<PACKETS, GROUPS, TINS>,
    aqm: [[ChosenAqmState; ALL]; GROUPS],
    settings: [AqmSetting; TINS],
    plan: [TinPlan; 1],
}

/// Leaves out the tables.
impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize> fmt::Debug
    for StaticDescriptors<PACKETS, GROUPS, TINS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticDescriptors")
            .field("packets", &PACKETS)
            .field("groups", &GROUPS)
            .field("tins", &TINS)
            .finish_non_exhaustive()
    }
}

impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize>
    StaticDescriptors<PACKETS, GROUPS, TINS>
{
    /// Creates empty tables.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(PACKETS > 0, "PACKETS is out of range (expected 1 or more)") }
        Self {
            tables: StaticTables::new(),
            aqm: [[ChosenAqmState::EMPTY; ALL]; GROUPS],
            settings: [AqmSetting::EMPTY; TINS],
            plan: [TinPlan::EMPTY],
        }
    }

    /// Returns the tables, for one queue:
    /// [`descriptors_in`](super::SmartQueueBuilder::descriptors_in).
    #[inline]
    pub fn memory(&mut self) -> (IsolatedMemory<Slices<'_>>, AqmMemory<Slices<'_>>) {
        let Self { tables, aqm, settings, plan } = self;
        let states = aqm.as_flattened_mut();
        (tables.memory(), AqmMemory { states, settings, plan })
    }
}

impl<const PACKETS: usize, const GROUPS: usize, const TINS: usize> Default
    for StaticDescriptors<PACKETS, GROUPS, TINS>
{
    fn default() -> Self {
        Self::new()
    }
}
