//! The buffers behind the handles of a smart queue.

use core::fmt;

use sched_core::{DropReason, DropSink, Packet};

use crate::storage::Storage;

/// The state of one buffer, without its bytes: 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct BufferState {
    /// Length of the frame in bytes; 0 if and only if the buffer is free.
    len: u32,
    /// For a free buffer, the next free buffer. Otherwise the offset of the frame's outermost IP
    /// header, which takes a mark, or [`NO_HEADER`]; the frame's tin is stored above
    /// [`TIN_SHIFT`].
    next: u32,
}

impl BufferState {
    /// A buffer without a frame.
    pub const EMPTY: Self = Self { len: 0, next: 0 };
}

/// Marks the absence of a buffer.
const NONE: u32 = u32::MAX;
/// Marks a frame without an IP header.
const NO_HEADER: u32 = u16::MAX as u32;
/// The tin is stored above the offset of the header.
const TIN_SHIFT: u32 = 16;

/// Buffers of one length, with a list of the free ones.
pub(super) struct Pool<S: Storage> {
    /// The bytes of buffer `n` begin at `n * buffer_len`.
    bytes: S::Of<u8>,
    states: S::Of<BufferState>,
    buffer_len: usize,
    free: u32,
    in_use: u32,
}

impl<S: Storage> fmt::Debug for Pool<S> {
    /// Leaves out the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, len) = (self.count(), self.buffer_len);
        f.debug_struct("Pool").field("buffers", &count).field("len", &len).finish_non_exhaustive()
    }
}

impl<S: Storage> Pool<S> {
    /// Creates a pool with all buffers free. Cost: O(buffers).
    pub(super) fn new(bytes: S::Of<u8>, mut states: S::Of<BufferState>, buffer_len: usize) -> Self {
        for (next, state) in (1..NONE).zip(states.as_mut().iter_mut()) {
            *state = BufferState { len: 0, next };
        }
        Self { bytes, states, buffer_len, free: 0, in_use: 0 }
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.states.as_ref().len()).unwrap_or(NONE)
    }

    pub(super) const fn in_use(&self) -> u32 {
        self.in_use
    }

    pub(super) const fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Returns the first `len` bytes of the buffer that is taken next; `None` if there is none or
    /// it is shorter.
    pub(super) fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        self.states.as_ref().get(self.free as usize)?;
        part(self.bytes.as_mut(), self.free, self.buffer_len)?.get_mut(..len)
    }

    /// Takes the next free buffer, whose first `len` bytes are a frame; `None` if there is none or
    /// `len` is 0.
    pub(super) fn take(&mut self, len: usize) -> Option<u32> {
        let handle = self.free;
        let len = u32::try_from(len).ok().filter(|&len| len > 0)?;
        let state = self.states.as_mut().get_mut(handle as usize)?;
        self.free = state.next;
        *state = BufferState { len, next: NO_HEADER };
        self.in_use = self.in_use.wrapping_add(1);
        Some(handle)
    }

    /// Returns the frame in buffer `handle`; empty if there is none.
    pub(super) fn frame(&self, handle: u32) -> &[u8] {
        let len = self.states.as_ref().get(handle as usize).map_or(0, |state| state.len);
        let start = (handle as usize).saturating_mul(self.buffer_len);
        let end = start.saturating_add(len as usize);
        self.bytes.as_ref().get(start..end).unwrap_or_default()
    }

    /// Returns a mutable reference to the frame in buffer `handle`; empty if there is none.
    pub(super) fn frame_mut(&mut self, handle: u32) -> &mut [u8] {
        let len = self.states.as_ref().get(handle as usize).map_or(0, |state| state.len);
        let bytes = part(self.bytes.as_mut(), handle, self.buffer_len);
        bytes.and_then(|bytes| bytes.get_mut(..len as usize)).unwrap_or_default()
    }

    /// Records that the outermost IP header of the frame in buffer `handle`, which is in use,
    /// begins at `offset`.
    pub(super) fn set_header(&mut self, handle: u32, offset: usize) {
        if let Some(state) = self.states.as_mut().get_mut(handle as usize) {
            state.next = u16::try_from(offset).map_or(NO_HEADER, u32::from);
        }
    }

    /// Returns the offset of the outermost IP header of the frame in buffer `handle`, which is in
    /// use; `None` if it has none.
    pub(super) fn header(&self, handle: u32) -> Option<usize> {
        let state = self.states.as_ref().get(handle as usize)?;
        let offset = state.next & NO_HEADER;
        (offset != NO_HEADER).then_some(offset as usize)
    }

    /// Records the tin of the frame in buffer `handle`, which is in use; 0 by default.
    pub(super) fn set_tin(&mut self, handle: u32, tin: u8) {
        if let Some(state) = self.states.as_mut().get_mut(handle as usize) {
            state.next = state.next & NO_HEADER | u32::from(tin) << TIN_SHIFT;
        }
    }

    /// Returns the tin of the frame in buffer `handle`, which is in use.
    pub(super) fn tin(&self, handle: u32) -> u8 {
        let next = self.states.as_ref().get(handle as usize).map_or(0, |state| state.next);
        let [_, _, tin, _] = next.to_le_bytes();
        tin
    }

    /// Moves all frames of each tin `t` to tin `to(t)`. Cost: O(buffers).
    pub(super) fn move_tins(&mut self, to: impl Fn(u8) -> u8) {
        for handle in 0..self.count() {
            if !self.frame(handle).is_empty() {
                self.set_tin(handle, to(self.tin(handle)));
            }
        }
    }

    /// Frees buffer `handle`, if it is in use.
    pub(super) fn give_back(&mut self, handle: u32) {
        let Some(state) = self.states.as_mut().get_mut(handle as usize) else { return };
        if state.len > 0 {
            *state = BufferState { len: 0, next: self.free };
            self.free = handle;
            self.in_use = self.in_use.wrapping_sub(1);
        }
    }

    /// Counts the buffers in use one by one. Cost: O(buffers).
    pub(super) fn recounted(&self) -> u64 {
        self.states.as_ref().iter().filter(|state| state.len > 0).count() as u64
    }
}

/// Returns the bytes of buffer `handle`.
fn part(bytes: &mut [u8], handle: u32, len: usize) -> Option<&mut [u8]> {
    let start = (handle as usize).checked_mul(len)?;
    bytes.get_mut(start..start.checked_add(len)?)
}

/// Frees the buffers of dropped packets.
impl<S: Storage> DropSink for Pool<S> {
    fn dropped(&mut self, packet: Packet, _reason: DropReason) {
        self.give_back(packet.handle);
    }
}
