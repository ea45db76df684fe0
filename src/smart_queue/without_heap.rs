//! Methods that fail to compile with a message that names the feature `alloc`.

use super::{SmartQueueBuilder, SmartQueueError, StaticFrameQueue};

/// Bound that nothing implements: calling a method with it is a compile error with this message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue on the heap needs the feature `alloc` of `freeboard`",
    label = "available with the feature `alloc`",
    note = "with an allocator: `cargo add freeboard --features alloc`",
    note = "without one: `frames_in` and `descriptors_in` build the queue in your own memory, such as `StaticFrames`"
)]
pub trait FeatureAlloc {}

/// Placeholders for the methods that exist with the feature `alloc`.
impl SmartQueueBuilder {
    /// Builds a queue with frames on the heap; needs the feature `alloc`. Without it see
    /// [`frames_in`](Self::frames_in).
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

    /// Builds a queue with descriptors on the heap; needs the feature `alloc`. Without it see
    /// [`descriptors_in`](Self::descriptors_in).
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

    /// Sets the number of buffers on the heap; needs the feature `alloc`. In your own memory, the
    /// memory determines it.
    #[doc(hidden)]
    #[must_use]
    pub fn buffers(self, _count: u32) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }

    /// Sets the size of tables on the heap; needs the feature `alloc`. In your own memory, the
    /// memory determines it.
    #[doc(hidden)]
    #[must_use]
    pub fn tables(self, _queues: usize, _hosts: usize) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }

    /// Sets the number of tins on the heap; needs the feature `alloc`. In your own memory, the
    /// memory determines it.
    #[doc(hidden)]
    #[must_use]
    pub fn max_tins(self, _tins: u8) -> Self
    where
        for<'a> &'a Self: FeatureAlloc,
    {
        self
    }
}
