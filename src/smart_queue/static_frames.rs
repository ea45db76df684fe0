//! Memory of a smart queue with frames as plain arrays, for a `static`, without an allocator.

use core::fmt;

use sched_core::{Limits, Packet};

use super::pool::Pool;
use super::{
    BufferState, Frames, SmartQueue, SmartQueueBuilder, SmartQueueError, StaticDescriptors,
};
use crate::storage::Slices;

/// A [`SmartQueue`] with frames in [`StaticFrames`].
pub type StaticFrameQueue<'a> = SmartQueue<Slices<'a>, Frames<Slices<'a>>>;

/// Memory for a [`SmartQueue`] with frames, without an allocator: `FRAMES` buffers of `LEN` bytes
/// each, and tables of `GROUPS` groups of 32 queues and 8 hosts each, for up to `TINS` tins
/// ([`StaticTables`](crate::StaticTables); without the feature `tins` always one).
///
/// Memory: `FRAMES` times `LEN + 24` bytes, about 3.1 kB per group and 352 bytes for each tin of a
/// group, 368 bytes per tin, and 1 kB. Compile errors: `FRAMES` of 0, `LEN` of 0 or above
/// [`Packet::MAX_LEN`], `GROUPS` that is not a power of two, `TINS` other than 1, 2, 4 or 8.
///
/// `StaticFrames<32, 1_514, 1>` has 32 buffers of 1,514 bytes (an untagged Ethernet frame) and one
/// group, that is 32 queues and 8 hosts, in about 54 kB. Use more frames for fast or long links,
/// and more groups to isolate more flows and hosts.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
/// use freeboard::{SmartQueue, StaticFrames};
///
/// // In firmware it is a `static`: `new` is const.
/// let mut memory = StaticFrames::<32, 1_514, 1>::new();
/// let rate = Rate::kilobits_per_second(500)?;
/// let mut queue = SmartQueue::upload(rate).frames_in(&mut memory, [42; 16])?;
/// queue.push(Nanos(0), &[0; 60])?;
/// assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&[0; 60][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StaticFrames<
    const FRAMES: usize,
    const LEN: usize,
    const GROUPS: usize,
    const TINS: usize = 1,
> {
    tables: StaticDescriptors<FRAMES, GROUPS, TINS>,
    bytes: [[u8; LEN]; FRAMES],
    states: [BufferState; FRAMES],
}

/// Leaves out the bytes and the tables.
impl<const FRAMES: usize, const LEN: usize, const GROUPS: usize, const TINS: usize> fmt::Debug
    for StaticFrames<FRAMES, LEN, GROUPS, TINS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticFrames")
            .field("frames", &FRAMES)
            .field("len", &LEN)
            .field("groups", &GROUPS)
            .finish_non_exhaustive()
    }
}

impl<const FRAMES: usize, const LEN: usize, const GROUPS: usize, const TINS: usize>
    StaticFrames<FRAMES, LEN, GROUPS, TINS>
{
    /// Creates memory with empty buffers and tables.
    #[must_use]
    pub const fn new() -> Self {
        const {
            assert!(FRAMES > 0, "FRAMES is out of range (expected 1 or more)");
            assert!(
                LEN > 0 && LEN <= Packet::MAX_LEN as usize,
                "LEN is out of range (expected 1 to 1048576)"
            );
        }
        Self {
            tables: StaticDescriptors::new(),
            bytes: [[0; LEN]; FRAMES],
            states: [BufferState::EMPTY; FRAMES],
        }
    }
}

impl<const FRAMES: usize, const LEN: usize, const GROUPS: usize, const TINS: usize> Default
    for StaticFrames<FRAMES, LEN, GROUPS, TINS>
{
    fn default() -> Self {
        Self::new()
    }
}

impl SmartQueueBuilder {
    /// Builds a queue with frames in your own memory, such as a `static`. `key` is 16 random bytes,
    /// drawn at each start. Keep it secret: a sender who knows the key can force hash collisions
    /// with other flows.
    ///
    /// The longest frame is `LEN`; [`max_len`](Self::max_len) is ignored. Unless limits are set,
    /// only the number of buffers limits the queue.
    ///
    /// # Errors
    /// [`SmartQueueError`] for `triple-isolate`, which needs other tables, and for more tins than
    /// `TINS`.
    #[inline(never)] // its stack frame is freed before the caller goes on
    pub fn frames_in<
        const FRAMES: usize,
        const LEN: usize,
        const GROUPS: usize,
        const TINS: usize,
    >(
        self,
        memory: &mut StaticFrames<FRAMES, LEN, GROUPS, TINS>,
        key: [u8; 16],
    ) -> Result<StaticFrameQueue<'_>, SmartQueueError> {
        let StaticFrames { tables, bytes, states } = memory;
        let (tables, aqm) = tables.memory();
        let pool = Pool::new(bytes.as_flattened_mut(), &mut states[..], LEN);
        let frames = Frames::new(pool, self.wash, self.reader(key));
        let limits = self.limits.unwrap_or(Limits::NONE);
        let max_len = u32::try_from(LEN).unwrap_or(Packet::MAX_LEN);
        self.build(tables, aqm, limits, false, max_len, frames)
    }
}
