//! Smart queues on the heap.

use sched_core::ChosenAqmState;

use super::pool::Pool;
use super::{BufferState, Descriptors, Frames, SmartQueue, SmartQueueBuilder, SmartQueueError};
use crate::isolated::IsolatedMemory;
use crate::isolation::Isolation;
use crate::storage::{Allocate, Heap, NoRoom};

/// A [`SmartQueue`] with frames on the heap.
pub type FrameQueue = SmartQueue<Heap, Frames<Heap>, NoRoom, Heap>;

/// A [`SmartQueue`] by descriptor on the heap.
pub type DescriptorQueue = SmartQueue<Heap, Descriptors, NoRoom, Heap>;

/// Rounds of `triple-isolate`, shared by the tins: 64 for each of four, 32 for each of eight.
const ROUNDS: usize = 256;

impl SmartQueueBuilder {
    /// A queue with frames, on the heap. `key` is 16 random bytes, drawn anew at each start and told no one: a
    /// sender that knows them can build flows that share the queue of another's.
    ///
    /// # Errors
    /// [`SmartQueueError`], with what was given and what is accepted.
    pub fn frames(self, key: [u8; 16]) -> Result<FrameQueue, SmartQueueError> {
        let (count, limits, sizes) = self.sized()?;
        let (count, len) = (count as usize, self.longest() as usize);
        let bytes = Heap::table(0_u8, count.saturating_mul(len));
        let pool = Pool::new(bytes, Heap::table(BufferState::EMPTY, count), len);
        let (memory, aqm) = self.allocate(count);
        let frames = Frames::new(pool, self.frame_config(), key);
        self.build(memory, aqm, limits, sizes, self.longest(), frames)
    }

    /// A queue by descriptor, on the heap: handles are below [`buffers`](Self::buffers).
    ///
    /// # Errors
    /// [`SmartQueueError`], with what was given and what is accepted.
    pub fn descriptors(self) -> Result<DescriptorQueue, SmartQueueError> {
        let (count, limits, sizes) = self.sized()?;
        let (memory, aqm) = self.allocate(count as usize);
        self.build(memory, aqm, limits, sizes, self.longest(), Descriptors)
    }

    /// Tables for `packets` descriptors; those of `triple-isolate` if it is asked for.
    fn allocate(
        &self,
        packets: usize,
    ) -> (IsolatedMemory<Heap, NoRoom, Heap>, alloc::vec::Vec<ChosenAqmState>) {
        let memory = IsolatedMemory::<Heap>::allocate(self.queues, self.hosts, packets);
        let aqm = Heap::table(ChosenAqmState::EMPTY, memory.queues());
        let memory = match self.isolation {
            Isolation::TripleIsolate => memory.with_triple(ROUNDS),
            _ => memory.with_empty_triple(),
        };
        (memory, aqm)
    }
}
