//! Frames in a pool, and spare frames to receive into; received bytes stay in their buffers.
//!
//! A handle of the queues is the index of a frame in the [`Pool`]. The kernel writes into frames
//! without a handle; a frame that is accepted is swapped with a free one of the pool.

/// Space before a frame for a VLAN tag that the kernel has removed.
pub(crate) const HEADROOM: usize = 4;
/// Length of an Ethernet header in bytes.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Length of the VLAN tags that a frame may have in addition to its MTU.
const TAGS: usize = 2 * 4;
/// Length of the headers that a frame may have in addition to its MTU.
pub(crate) const AROUND: usize = ETHERNET_HEADER + TAGS;
/// Length of the two MAC addresses, after which a tag is inserted.
const ADDRESSES: usize = 12;

/// A `virtio_net_hdr`, which describes a checksum left to the network card; zeros if there is none.
pub(crate) type Offload = [u8; 10];

/// Flag: the checksum has to be completed.
const NEEDS_CHECKSUM: u8 = 1;

/// An Ethernet frame in a buffer of maximum length.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    buffer: Box<[u8]>,
    start: usize,
    len: usize,
    offload: Offload,
    /// Firewall mark.
    mark: u32,
}

impl Frame {
    /// Allocates a frame of at most `longest` bytes, and one more byte to detect longer ones.
    fn with_room(longest: usize) -> Self {
        let buffer = vec![0; HEADROOM + longest + 1].into_boxed_slice();
        Self { buffer, start: HEADROOM, len: 0, offload: Offload::default(), mark: 0 }
    }

    /// Allocates a frame for several packets.
    pub(crate) fn for_uncut() -> Self {
        Self::with_room(crate::io::uncut::LONGEST)
    }

    /// Returns the buffer for the next frame.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[HEADROOM..]
    }

    /// Returns true if a frame of `len` bytes fits into [`Self::room`].
    pub(crate) fn takes(&self, len: usize) -> bool {
        HEADROOM + len < self.buffer.len()
    }

    /// Sets the frame to the first `len` bytes of [`Self::room`].
    pub(crate) fn received(&mut self, len: usize) {
        (self.start, self.len, self.offload) = (HEADROOM, len, Offload::default());
        self.mark = 0;
    }

    /// Stores the checksum offload.
    pub(crate) fn set_offload(&mut self, offload: Offload) {
        // Only the checksum is passed on when sending.
        self.offload = if offload[0] & NEEDS_CHECKSUM == 0 { Offload::default() } else { offload };
        self.offload[0] &= NEEDS_CHECKSUM;
    }

    /// Inserts a VLAN tag that the kernel has removed. The offsets of an open checksum move by four
    /// bytes.
    pub(crate) fn insert_tag(&mut self, protocol: u16, control: u16) {
        if self.start < HEADROOM || self.len < ADDRESSES {
            return;
        }
        self.buffer.copy_within(self.start..self.start + ADDRESSES, 0);
        self.buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
        self.buffer[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&control.to_be_bytes());
        (self.start, self.len) = (0, self.len + HEADROOM);
        if self.offload[0] & NEEDS_CHECKSUM != 0 {
            let begins = u16::from_ne_bytes([self.offload[6], self.offload[7]]);
            let begins = begins.saturating_add(HEADROOM as u16);
            self.offload[6..8].copy_from_slice(&begins.to_ne_bytes());
        }
    }

    pub(crate) fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    pub(crate) fn mark(&self) -> u32 {
        self.mark
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn offload(&self) -> &Offload {
        &self.offload
    }
}

/// Frames of both directions, by handle.
#[derive(Debug)]
pub(crate) struct Pool {
    frames: Vec<Frame>,
    free: Vec<u32>,
    /// By handle: true if it is not in `free`.
    is_taken: Vec<bool>,
    /// Upper bound of handles that are handed out.
    wanted: u32,
    longest: usize,
}

impl Pool {
    /// Allocates `count` frames for devices with this MTU.
    pub(crate) fn new(count: u32, mtu: usize) -> Self {
        let longest = AROUND + mtu;
        let frames = (0..count).map(|_| Frame::with_room(longest)).collect();
        let (free, is_taken) = ((0..count).rev().collect(), vec![false; count as usize]);
        Self { frames, free, is_taken, wanted: count, longest }
    }

    /// Returns the maximum size of a frame in bytes, with the allocator's overhead for its buffer.
    pub(crate) const fn bytes_of_frame(mtu: usize) -> usize {
        let buffer = (HEADROOM + AROUND + mtu + 1).next_multiple_of(16) + 16;
        buffer + size_of::<Frame>() + size_of::<u32>() + size_of::<bool>()
    }

    /// Returns the MTU that the frames are made for.
    pub(crate) fn mtu(&self) -> usize {
        self.longest - AROUND
    }

    /// Sets the number of frames. Frames in use stay until [`Self::settle`], by which handles from
    /// `count` on have to be exchanged: see [`Self::renumber`].
    pub(crate) fn resize(&mut self, count: u32) {
        self.wanted = count;
        self.free.retain(|&handle| handle < count);
        let first = self.count();
        for _ in first..count {
            self.frames.push(Frame::with_room(self.longest));
            self.is_taken.push(false);
        }
        // The lowest one is used next, so that few have to be exchanged when the number shrinks
        // again.
        self.free.extend((first..count).rev());
    }

    /// Returns a handle below the new count for the frame of `handle`, which may be the same;
    /// `None` if none is free.
    pub(crate) fn renumber(&mut self, handle: u32) -> Option<u32> {
        if handle < self.wanted {
            return Some(handle);
        }
        let other = self.free.pop()?;
        self.frames.swap(handle as usize, other as usize);
        self.is_taken.swap(handle as usize, other as usize);
        Some(other)
    }

    /// Frees the frames from the count on, whose handles have all been exchanged or returned.
    /// Returns true if there were any.
    pub(crate) fn settle(&mut self) -> bool {
        let count = self.wanted as usize;
        let is_less = count < self.frames.len();
        let is_taken = self.is_taken.iter().skip(count).any(|&is_taken| is_taken);
        assert!(!is_taken, "no frame behind the last is held");
        self.frames.truncate(count);
        self.frames.shrink_to_fit();
        self.is_taken.truncate(count);
        self.is_taken.shrink_to_fit();
        self.free.shrink_to(count);
        is_less
    }

    /// Returns the maximum length of a frame in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the number of frames; handles are below it.
    pub(crate) fn count(&self) -> u32 {
        self.frames.len() as u32
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// Allocates a frame to receive into, in addition to those of the pool.
    pub(crate) fn spare(&self) -> Frame {
        Frame::with_room(self.longest)
    }

    /// Swaps the frame in `spare` with a free one and returns its handle; `None` if none is free.
    pub(crate) fn take_in(&mut self, spare: &mut Frame) -> Option<u32> {
        let handle = self.free.pop()?;
        core::mem::swap(spare, &mut self.frames[handle as usize]);
        self.is_taken[handle as usize] = true;
        Some(handle)
    }

    /// Returns `handle` to the free ones.
    pub(crate) fn give_back(&mut self, handle: u32) {
        let was_taken = core::mem::replace(&mut self.is_taken[handle as usize], false);
        assert!(was_taken, "frame {handle} is given back once");
        if handle < self.wanted {
            self.free.push(handle);
        }
    }

    pub(crate) fn frame(&self, handle: u32) -> &Frame {
        &self.frames[handle as usize]
    }

    pub(crate) fn frame_mut(&mut self, handle: u32) -> &mut Frame {
        &mut self.frames[handle as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &Pool, bytes: &[u8]) -> Frame {
        let mut frame = pool.spare();
        frame.room()[..bytes.len()].copy_from_slice(bytes);
        frame.received(bytes.len());
        frame
    }

    #[test]
    fn a_tag_stands_behind_the_addresses_and_moves_the_checksum() {
        let pool = Pool::new(1, 100);
        let bytes: Vec<u8> = (0..60).collect();
        let mut frame = filled(&pool, &bytes);
        let mut offload = Offload::default();
        (offload[0], offload[6]) = (1, 34);
        frame.set_offload(offload);
        frame.insert_tag(0x8100, 0x2007);
        let mut tagged = bytes[..12].to_vec();
        tagged.extend([0x81, 0x00, 0x20, 0x07]);
        tagged.extend(&bytes[12..]);
        assert_eq!(frame.bytes(), tagged);
        assert_eq!(u16::from_ne_bytes([frame.offload()[6], frame.offload()[7]]), 38);
        // There is space for one tag, and a frame without both addresses takes none.
        frame.insert_tag(0x8100, 1);
        assert_eq!(frame.bytes(), tagged);
        let mut stub = filled(&pool, &bytes[..11]);
        stub.insert_tag(0x8100, 1);
        assert_eq!(stub.bytes(), &bytes[..11]);
    }

    #[test]
    fn only_an_open_checksum_is_handed_on() {
        let pool = Pool::new(1, 100);
        let mut frame = filled(&pool, &[7; 60]);
        frame.set_offload([2, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(frame.offload(), &Offload::default());
        frame.set_offload([3, 0, 0, 0, 0, 0, 34, 0, 16, 0]);
        assert_eq!(frame.offload()[0], 1);
    }

    #[test]
    fn frames_change_places_and_handles_come_home() {
        let mut pool = Pool::new(2, 100);
        let mut spare = filled(&pool, b"first");
        let first = pool.take_in(&mut spare).unwrap();
        spare.received(0);
        spare.room()[..6].copy_from_slice(b"second");
        spare.received(6);
        let second = pool.take_in(&mut spare).unwrap();
        assert_eq!(pool.take_in(&mut spare), None);
        assert_eq!(
            (pool.frame(first).bytes(), pool.frame(second).bytes()),
            (&b"first"[..], &b"second"[..])
        );
        pool.give_back(first);
        assert_eq!(pool.in_use(), 1);
        assert_eq!(pool.take_in(&mut spare), Some(first));
        pool.resize(3);
        assert_eq!(pool.take_in(&mut spare), Some(2));
    }

    /// Goal: after a reduction, held frames are kept, under valid handles.
    #[test]
    fn frames_that_are_held_move_below_the_new_count() {
        let mut pool = Pool::new(4, 100);
        let mut spare = pool.spare();
        let mut take = |pool: &mut Pool, bytes: &[u8]| {
            spare.room()[..bytes.len()].copy_from_slice(bytes);
            spare.received(bytes.len());
            pool.take_in(&mut spare)
        };
        for bytes in [b"0", b"1", b"2", b"3"] {
            take(&mut pool, bytes);
        }
        pool.give_back(1);
        pool.resize(2);
        // One of three held frames has to go.
        assert_eq!([0, 3, 2].map(|handle| pool.renumber(handle)), [Some(0), Some(1), None]);
        pool.give_back(2);
        let _ = pool.settle();
        assert_eq!(
            (pool.count(), pool.frame(0).bytes(), pool.frame(1).bytes()),
            (2, &b"0"[..], &b"3"[..])
        );
        assert_eq!(take(&mut pool, b"4"), None);
        pool.give_back(1);
        assert_eq!(take(&mut pool, b"5"), Some(1));
    }
}
