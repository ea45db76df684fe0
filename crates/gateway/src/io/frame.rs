//! Frames in a pool, and the frames that wait to be filled: received bytes never move.
//!
//! A handle of the queues is the number of a frame in the [`Pool`]. The kernel writes into frames
//! without a handle; one that is accepted changes places with a free one of the pool.

/// Room before a frame, for a VLAN tag that the kernel has taken out.
pub(crate) const HEADROOM: usize = 4;
/// The bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// The tags that a frame may have beside what the MTU counts.
const TAGS: usize = 2 * 4;
/// What a frame may have beside what the MTU counts.
pub(crate) const AROUND: usize = ETHERNET_HEADER + TAGS;
/// The two addresses, behind which a tag is put.
const ADDRESSES: usize = 12;

/// What the kernel says of a checksum that it left to the network card: a `virtio_net_hdr`, zeros
/// where nothing was left.
pub(crate) type Offload = [u8; 10];

/// The checksum is to be completed.
const NEEDS_CHECKSUM: u8 = 1;

/// An Ethernet frame in a buffer as long as the longest.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    buffer: Box<[u8]>,
    start: usize,
    len: usize,
    offload: Offload,
    /// What rules of the firewall marked it with.
    mark: u32,
}

impl Frame {
    /// Room for a frame of at most `longest` bytes and, to notice a longer one, a byte more.
    fn with_room(longest: usize) -> Self {
        let buffer = vec![0; HEADROOM + longest + 1].into_boxed_slice();
        Self { buffer, start: HEADROOM, len: 0, offload: Offload::default(), mark: 0 }
    }

    /// Room for a frame of several packets.
    pub(crate) fn for_uncut() -> Self {
        Self::with_room(crate::io::uncut::LONGEST)
    }

    /// Where the next frame is received.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[HEADROOM..]
    }

    /// Whether a frame of `len` bytes is whole in [`Self::room`].
    pub(crate) fn takes(&self, len: usize) -> bool {
        HEADROOM + len < self.buffer.len()
    }

    /// `len` bytes were received into [`Self::room`].
    pub(crate) fn received(&mut self, len: usize) {
        (self.start, self.len, self.offload) = (HEADROOM, len, Offload::default());
        self.mark = 0;
    }

    /// Its checksum was left to the card.
    pub(crate) fn set_offload(&mut self, offload: Offload) {
        // The sender is told of the checksum only.
        self.offload = if offload[0] & NEEDS_CHECKSUM == 0 { Offload::default() } else { offload };
        self.offload[0] &= NEEDS_CHECKSUM;
    }

    /// Puts back a VLAN tag that the kernel has taken out. The checksum begins four bytes later
    /// then.
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

/// The frames of both directions, by handle.
#[derive(Debug)]
pub(crate) struct Pool {
    frames: Vec<Frame>,
    free: Vec<u32>,
    /// By handle, whether it is out of `free`.
    is_taken: Vec<bool>,
    /// Handles that are given out are below it.
    wanted: u32,
    longest: usize,
}

impl Pool {
    /// `count` frames for devices of this MTU.
    pub(crate) fn new(count: u32, mtu: usize) -> Self {
        let longest = AROUND + mtu;
        let frames = (0..count).map(|_| Frame::with_room(longest)).collect();
        let (free, is_taken) = ((0..count).rev().collect(), vec![false; count as usize]);
        Self { frames, free, is_taken, wanted: count, longest }
    }

    /// What a frame takes at most, with what the allocator adds to its buffer, in bytes.
    pub(crate) const fn bytes_of_frame(mtu: usize) -> usize {
        let buffer = (HEADROOM + AROUND + mtu + 1).next_multiple_of(16) + 16;
        buffer + size_of::<Frame>() + size_of::<u32>() + size_of::<bool>()
    }

    /// The MTU that the frames are made for.
    pub(crate) fn mtu(&self) -> usize {
        self.longest - AROUND
    }

    /// `count` frames from now on. Those that are taken stay until [`Self::settle`], and handles
    /// from `count` on are to be exchanged until then: see [`Self::renumber`].
    pub(crate) fn resize(&mut self, count: u32) {
        self.wanted = count;
        self.free.retain(|&handle| handle < count);
        let first = self.count();
        for _ in first..count {
            self.frames.push(Frame::with_room(self.longest));
            self.is_taken.push(false);
        }
        // The lowest of them is the next, so that few have to be exchanged when they are fewer
        // again.
        self.free.extend((first..count).rev());
    }

    /// Another handle of the frame that is `handle`, if it cannot stay the one it is. `None` if
    /// there is no place for it.
    pub(crate) fn renumber(&mut self, handle: u32) -> Option<u32> {
        if handle < self.wanted {
            return Some(handle);
        }
        let other = self.free.pop()?;
        self.frames.swap(handle as usize, other as usize);
        self.is_taken.swap(handle as usize, other as usize);
        Some(other)
    }

    /// Every handle from the count on has been exchanged or given back: their frames are memory
    /// again. True if there were any.
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

    /// The longest frame, in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// How many frames there are; handles are below it.
    pub(crate) fn count(&self) -> u32 {
        self.frames.len() as u32
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// A frame to receive into, beside those of the pool.
    pub(crate) fn spare(&self) -> Frame {
        Frame::with_room(self.longest)
    }

    /// Gives the frame in `spare` a handle; `spare` is a free one of the pool then. `None` if none
    /// is free.
    pub(crate) fn take_in(&mut self, spare: &mut Frame) -> Option<u32> {
        let handle = self.free.pop()?;
        core::mem::swap(spare, &mut self.frames[handle as usize]);
        self.is_taken[handle as usize] = true;
        Some(handle)
    }

    /// `handle` is free again.
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
        // There is room for one, and a stub of a frame has no place for it.
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

    /// Goal: fewer frames are those that are held, under handles that there are.
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
        // Of three that are held one has to go.
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
