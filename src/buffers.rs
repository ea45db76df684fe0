//! Numbered buffers in static memory, to be used as packet handles.
//!
//! A scheduler works with the numbers of your buffers. [`Buffers`] is the simplest set of them: an
//! array of frames and a stack of free numbers, without an allocator. It takes back what a
//! scheduler drops, and detects a buffer that is given back twice. Cost: O(1) per operation.

use core::fmt;

use sched_core::{DropReason, DropSink, Packet};

/// A set of `COUNT` buffers of `LEN` bytes each.
///
/// ```
/// use freeboard::Buffers;
/// use freeboard::sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
///
/// let mut buffers = Buffers::<4, 1_514>::new();
/// let mut fifo = Fifo::head_drop([Descriptor::EMPTY; 4], Limits::packets(1));
/// for frame in [[1; 60], [2; 60]] {
///     let handle = buffers.store(&frame).expect("a free buffer");
///     // The second frame displaces the first, which goes back to `buffers`.
///     fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 60), &mut buffers)?;
/// }
/// let packet = fifo.dequeue(Nanos(0), &mut buffers).expect("the second frame");
/// assert_eq!(buffers.frame(packet.handle), Some(&[2; 60][..]));
/// assert!(buffers.give_back(packet.handle));
/// assert_eq!(buffers.free(), 4);
/// # Ok::<(), freeboard::sched_core::Rejected>(())
/// ```
pub struct Buffers<const COUNT: usize, const LEN: usize> {
    frames: [Frame<LEN>; COUNT],
    /// Numbers that were taken and given back, each once: the first `returned_len`, as a stack.
    returned: [u32; COUNT],
    /// At most `COUNT`.
    returned_len: usize,
    /// Numbers from here on were never taken.
    untouched: u32,
}

/// Leaves out the bytes.
impl<const COUNT: usize, const LEN: usize> fmt::Debug for Buffers<COUNT, LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers")
            .field("count", &COUNT)
            .field("len", &LEN)
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame<const LEN: usize> {
    bytes: [u8; LEN],
    /// Length of the frame; `None` if and only if the buffer is free.
    len: Option<usize>,
}

impl<const COUNT: usize, const LEN: usize> Buffers<COUNT, LEN> {
    /// Creates a set with all buffers free.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(COUNT <= u32::MAX as usize, "buffers are numbered by u32") };
        let frame = Frame { bytes: [0; LEN], len: None };
        Self { frames: [frame; COUNT], returned: [0; COUNT], returned_len: 0, untouched: 0 }
    }

    /// Returns the number of free buffers.
    #[must_use]
    pub fn free(&self) -> usize {
        COUNT.saturating_sub(self.untouched as usize).saturating_add(self.returned_len)
    }

    /// Copies `frame` into a free buffer and returns its number; `None` if no buffer is free or the
    /// frame is longer than a buffer.
    pub fn store(&mut self, frame: &[u8]) -> Option<u32> {
        self.fill(frame.len(), |buffer| {
            for (place, &byte) in buffer.iter_mut().zip(frame) {
                *place = byte;
            }
        })
    }

    /// Lets `write` fill the first `len` bytes of a free buffer and returns its number. Returns
    /// `None`, without calling `write`, if no buffer is free or `len` is longer than a buffer.
    pub fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> Option<u32> {
        if len > LEN {
            return None;
        }
        let top = self.returned_len.wrapping_sub(1);
        let handle = match self.returned.get(top) {
            Some(&handle) if self.returned_len > 0 => {
                self.returned_len = top;
                handle
            }
            _ => self.untouched,
        };
        let frame = self.frames.get_mut(handle as usize)?;
        if handle == self.untouched {
            self.untouched = handle.wrapping_add(1);
        }
        frame.len = Some(len);
        write(frame.bytes.get_mut(..len)?);
        Some(handle)
    }

    /// Returns the frame in buffer `handle`; `None` if the buffer is free or does not exist.
    #[must_use]
    pub fn frame(&self, handle: u32) -> Option<&[u8]> {
        let frame = self.frames.get(handle as usize)?;
        frame.bytes.get(..frame.len?)
    }

    /// Returns a mutable reference to the frame in buffer `handle`, for instance to set a mark in
    /// its header.
    pub fn frame_mut(&mut self, handle: u32) -> Option<&mut [u8]> {
        let frame = self.frames.get_mut(handle as usize)?;
        frame.bytes.get_mut(..frame.len?)
    }

    /// Frees buffer `handle`. Returns `false`, without a change, if the buffer is free or does not
    /// exist.
    pub fn give_back(&mut self, handle: u32) -> bool {
        let Some(frame) = self.frames.get_mut(handle as usize) else { return false };
        if frame.len.take().is_none() {
            return false;
        }
        // No number is returned twice, so the stack never holds more than `COUNT`.
        let Some(place) = self.returned.get_mut(self.returned_len) else { return false };
        *place = handle;
        self.returned_len = self.returned_len.wrapping_add(1);
        true
    }

    /// Copies the oldest frame of a ring between an interrupt and the main loop into a free buffer,
    /// and returns the buffer's number. Returns `None` if the ring is empty or no buffer is free;
    /// then the frame stays in the ring.
    ///
    /// The interrupt puts frames into the ring and the main loop takes them out; neither waits for
    /// the other or disables interrupts. A ring of `n` slots holds `n - 1` frames; if the main loop
    /// falls behind, the ring fills up and the interrupt has to drop. Cost: O(1), and one copy of
    /// the frame.
    ///
    /// ```
    /// use freeboard::Buffers;
    /// use heapless::{Vec, spsc::Queue};
    ///
    /// const LEN: usize = 1_514;
    /// // In firmware both are statics: see `Queue::split_const`.
    /// let mut ring = Queue::<Vec<u8, LEN>, 9>::new();
    /// let mut buffers = Buffers::<32, LEN>::new();
    /// let (mut interrupt, mut main_loop) = ring.split();
    ///
    /// // The receive interrupt: `enqueue` hands the frame back if the ring is full.
    /// let received: &[u8] = &[1; 60];
    /// if let Ok(frame) = Vec::from_slice(received) {
    ///     let _dropped = interrupt.enqueue(frame).is_err();
    /// }
    ///
    /// // The main loop: every received frame, as long as there are buffers.
    /// while let Some(handle) = buffers.store_received(&mut main_loop) {
    ///     assert_eq!(buffers.frame(handle), Some(received));
    /// }
    /// ```
    #[cfg(feature = "heapless")]
    pub fn store_received(
        &mut self,
        received: &mut heapless::spsc::Consumer<'_, heapless::Vec<u8, LEN>>,
    ) -> Option<u32> {
        let handle = self.store(received.peek()?)?;
        drop(received.dequeue());
        Some(handle)
    }
}

impl<const COUNT: usize, const LEN: usize> Default for Buffers<COUNT, LEN> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const COUNT: usize, const LEN: usize> DropSink for Buffers<COUNT, LEN> {
    fn dropped(&mut self, packet: Packet, _reason: DropReason) {
        let was_taken = self.give_back(packet.handle);
        debug_assert!(was_taken, "a scheduler gives a handle back once");
    }
}
