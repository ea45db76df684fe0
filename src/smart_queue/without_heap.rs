//! Compile errors that name the feature `alloc` to a caller who wants a queue on the heap.

use super::{SmartQueueBuilder, SmartQueueError, StaticFrameQueue};

/// Implemented by nothing: the methods below do not compile where they are called, and the compiler
/// says why.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue on the heap needs the feature `alloc` of `freeboard`",
    label = "is there with the feature `alloc`",
    note = "with an allocator: `cargo add freeboard --features alloc`",
    note = "without one: `frames_in` and `descriptors_in` build the queue in memory of yours, as `StaticFrames`"
)]
pub trait FeatureAlloc {}

/// Not to be called: with the feature `alloc` these methods are there.
impl SmartQueueBuilder {
    /// Needs the feature `alloc`; without it see [`frames_in`](Self::frames_in).
    ///
    /// # Errors
    /// Does not compile.
    #[doc(hidden)]
    pub fn frames(self, _key: [u8; 16]) -> Result<StaticFrameQueue<'static>, SmartQueueError>
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        Err(SmartQueueError::NoBuffers)
    }

    /// Needs the feature `alloc`; without it see [`descriptors_in`](Self::descriptors_in).
    ///
    /// # Errors
    /// Does not compile.
    #[doc(hidden)]
    pub fn descriptors(self) -> Result<StaticFrameQueue<'static>, SmartQueueError>
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        Err(SmartQueueError::NoBuffers)
    }

    /// Needs the feature `alloc`: in memory of the caller's there are as many as it has room for.
    #[doc(hidden)]
    #[must_use]
    pub fn buffers(self, _count: u32) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }

    /// Needs the feature `alloc`: in memory of the caller's there are as many as it has room for.
    #[doc(hidden)]
    #[must_use]
    pub fn tables(self, _queues: usize, _hosts: usize) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }

    /// Needs the feature `alloc`: in memory of the caller's there are as many as it has room for.
    #[doc(hidden)]
    #[must_use]
    pub fn max_tins(self, _tins: u8) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }
}
