//! A queue of packets: a linked list of descriptors, oldest first.
//!
//! All packets of a scheduler are in one table of [`Descriptor`]s, 16 bytes each, indexed by
//! handle. A queue consists of the two ends of a list through that table and its backlog. Every
//! operation is O(1).

use crate::{Backlog, Ecn, Imbalance, Nanos, Packet, RejectReason};

/// No handle: the end of a list, or the predecessor of its head.
pub(crate) const NONE: u32 = u32::MAX;

/// Memory for one queued packet; its index is the packet's handle.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The next packet of the queue; [`NONE`] at the tail. Stale unless queued.
    next: u32,
    /// The packet that preceded this one when it was appended. Stale at the head of a queue, where
    /// it is not read.
    prev: u32,
    /// ECN in the low two bits, the length above. Zero if and only if the handle is not queued: no
    /// packet has length 0.
    len_ecn: u32,
    /// Arrival time, in ticks.
    arrival: u32,
}

const LEN_SHIFT: u32 = 2;

impl Descriptor {
    /// A descriptor without a packet: all zero.
    pub const EMPTY: Self = Self { next: 0, prev: 0, len_ecn: 0, arrival: 0 };

    /// Creates the descriptor of `packet`, which arrived at `now` behind `prev` and is the newest
    /// of its queue.
    #[inline(always)]
    const fn holding(packet: Packet, prev: u32, now: Nanos) -> Self {
        let len_ecn = packet.len << LEN_SHIFT | packet.ecn.bits() as u32;
        Self { next: NONE, prev, len_ecn, arrival: ticks(now) }
    }

    pub(crate) const fn is_used(&self) -> bool {
        self.len_ecn != 0
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len_ecn >> LEN_SHIFT
    }

    pub(crate) const fn next(&self) -> u32 {
        self.next
    }

    pub(crate) const fn ecn(&self) -> Ecn {
        let [low, ..] = self.len_ecn.to_le_bytes();
        Ecn::from_bits(low)
    }

    pub(crate) const fn packet(&self, handle: u32) -> Packet {
        Packet { handle, len: self.len(), ecn: self.ecn() }
    }

    /// Returns the sojourn time of the packet, to 1.024 µs. Zero if the clock stepped back by up to
    /// 64 minutes, or if the packet has been queued for longer than [`LONGEST_SOJOURN`].
    pub(crate) const fn sojourn(&self, now: Nanos) -> Nanos {
        if self.has_sojourn(now) {
            Nanos((self.ticks_since_arrival(now) as u64) << TICK_SHIFT)
        } else {
            Nanos::ZERO
        }
    }

    /// Returns true if [`Self::sojourn`] is valid and not replaced by zero.
    pub(crate) const fn has_sojourn(&self, now: Nanos) -> bool {
        self.ticks_since_arrival(now) < LONGEST_SOJOURN
    }

    const fn ticks_since_arrival(&self, now: Nanos) -> u32 {
        ticks(now).wrapping_sub(self.arrival)
    }
}

/// Returns true if the descriptor of `packet` is free and its length is in
/// `1..=`[`Packet::MAX_LEN`]: the fast form of [`obstacle`].
#[inline]
pub(crate) fn is_acceptable(packet: Packet, descriptors: &[Descriptor]) -> bool {
    is_length(packet.len, Packet::MAX_LEN) && is_free(packet.handle, descriptors)
}

/// Returns true if `len` is in `1..=max`.
#[inline]
pub(crate) const fn is_length(len: u32, max: u32) -> bool {
    // Zero wraps to the largest number.
    len.wrapping_sub(1) < max
}

/// Returns true if `handle` has a descriptor and is not queued.
#[inline]
pub(crate) fn is_free(handle: u32, descriptors: &[Descriptor]) -> bool {
    descriptors.get(handle as usize).is_some_and(|descriptor| !descriptor.is_used())
}

/// Returns why `packet` cannot be accepted if `max` is the longest length; `None` if it can.
pub(crate) fn obstacle(
    packet: Packet,
    max: u32,
    descriptors: &[Descriptor],
) -> Option<RejectReason> {
    let Packet { handle, len, .. } = packet;
    if len == 0 || len > max {
        return Some(RejectReason::Length { len, max });
    }
    match descriptors.get(handle as usize) {
        None => {
            let descriptors = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
            Some(RejectReason::UnknownHandle { handle, descriptors })
        }
        Some(descriptor) if descriptor.is_used() => Some(RejectReason::HandleInUse { handle }),
        Some(_) => None,
    }
}

/// A tick is 2^10 ns.
const TICK_SHIFT: u32 = 10;

/// 2^29 ticks, 9 minutes. Ticks wrap around at 2^32, so a longer sojourn cannot be distinguished
/// from a clock that stepped back. Larger differences, up to 64 minutes, count as steps back:
/// clocks are set back by an hour, and no packet is worth sending after minutes.
const LONGEST_SOJOURN: u32 = 1 << 29;

#[expect(clippy::cast_possible_truncation, reason = "sojourn is a difference modulo 2^32 ticks")]
const fn ticks(now: Nanos) -> u32 {
    (now.0 >> TICK_SHIFT) as u32
}

/// The ends of one flow's list, and its backlog: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The oldest packet; [`NONE`] if and only if the queue is empty.
    head: u32,
    /// The newest packet; [`NONE`] if and only if the queue is empty.
    tail: u32,
    held: Backlog,
}

impl Queue {
    /// Memory for a queue: all zero. The scheduler that takes the table initialises the queue.
    pub const EMPTY: Self = Self { head: 0, tail: 0, held: Backlog { packets: 0, bytes: 0 } };

    /// An empty queue.
    pub(crate) const IDLE: Self =
        Self { head: NONE, tail: NONE, held: Backlog { packets: 0, bytes: 0 } };

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns the handle of the newest packet, `None` if the queue is empty. Has the bounds check
    /// of [`Self::append_behind`], so the compiler does it once.
    #[inline]
    pub(crate) fn tail_among(&self, descriptors: &[Descriptor]) -> Option<u32> {
        descriptors.get(self.tail as usize).map(|_| self.tail)
    }

    /// Returns the handle of the oldest packet.
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the handle of the newest packet.
    pub(crate) const fn tail(&self) -> u32 {
        self.tail
    }

    pub(crate) const fn backlog(&self) -> Backlog {
        self.held
    }

    /// Returns the length of the oldest packet.
    #[inline]
    pub(crate) fn head_len(&self, descriptors: &[Descriptor]) -> Option<u32> {
        descriptors.get(self.head as usize).map(Descriptor::len)
    }

    /// Appends `packet`, for which [`is_acceptable`] must have returned true.
    #[inline]
    pub(crate) fn append(&mut self, descriptors: &mut [Descriptor], packet: Packet, now: Nanos) {
        self.append_behind(self.tail, descriptors, packet, now);
    }

    /// [Appends](Self::append) to an empty queue.
    #[inline(always)]
    pub(crate) fn append_first(
        &mut self,
        descriptors: &mut [Descriptor],
        packet: Packet,
        now: Nanos,
    ) {
        if let Some(descriptor) = descriptors.get_mut(packet.handle as usize) {
            *descriptor = Descriptor::holding(packet, NONE, now);
        }
        (self.head, self.tail) = (packet.handle, packet.handle);
        self.held = Backlog { packets: 1, bytes: packet.len };
    }

    /// [Appends](Self::append) for a caller that has already read this queue's `tail`.
    #[inline(always)]
    pub(crate) fn append_behind(
        &mut self,
        tail: u32,
        descriptors: &mut [Descriptor],
        packet: Packet,
        now: Nanos,
    ) {
        match descriptors.get_mut(tail as usize) {
            Some(tail) => tail.next = packet.handle,
            None => self.head = packet.handle,
        }
        if let Some(descriptor) = descriptors.get_mut(packet.handle as usize) {
            debug_assert!(!descriptor.is_used(), "the caller checked the handle");
            *descriptor = Descriptor::holding(packet, tail, now);
        }
        self.tail = packet.handle;
        self.held.add(packet.len);
    }

    /// Appends the packets of `other` in order: O(1), however many.
    pub(crate) fn append_all(&mut self, descriptors: &mut [Descriptor], other: Self) {
        let Some(first) = descriptors.get_mut(other.head as usize) else { return };
        first.prev = self.tail;
        match descriptors.get_mut(self.tail as usize) {
            Some(tail) => tail.next = other.head,
            None => self.head = other.head,
        }
        self.tail = other.tail;
        self.held.packets = self.held.packets.wrapping_add(other.held.packets);
        self.held.bytes = self.held.bytes.wrapping_add(other.held.bytes);
    }

    /// Removes the oldest packet.
    #[inline]
    pub(crate) fn pop_head(&mut self, descriptors: &mut [Descriptor]) -> Option<Packet> {
        let packet = self.take_head(descriptors)?;
        if self.head_len(descriptors).is_none() {
            self.close();
        }
        Some(packet)
    }

    /// Removes the oldest packet. The caller must call [`Self::close`] if it was the last one.
    #[inline]
    pub(crate) fn take_head(&mut self, descriptors: &mut [Descriptor]) -> Option<Packet> {
        let descriptor = descriptors.get_mut(self.head as usize)?;
        Some(self.take(descriptor))
    }

    /// [Removes the oldest packet](Self::take_head) for a caller that already has its descriptor.
    #[inline]
    pub(crate) const fn take(&mut self, descriptor: &mut Descriptor) -> Packet {
        let packet = descriptor.packet(self.head);
        descriptor.len_ecn = 0;
        self.head = descriptor.next;
        self.held.sub(packet.len);
        packet
    }

    /// Marks the queue as empty after the last packet was removed.
    pub(crate) const fn close(&mut self) {
        self.tail = NONE;
    }

    /// Removes the newest packet.
    pub(crate) fn pop_tail(&mut self, descriptors: &mut [Descriptor]) -> Option<Packet> {
        if self.is_empty() {
            return None;
        }
        let handle = self.tail;
        let descriptor = descriptors.get_mut(handle as usize)?;
        let packet = descriptor.packet(handle);
        descriptor.len_ecn = 0;
        let before = descriptor.prev;
        if handle == self.head {
            (self.head, self.tail) = (NONE, NONE);
        } else if let Some(descriptor) = descriptors.get_mut(before as usize) {
            descriptor.next = NONE;
            self.tail = before;
        }
        self.held.sub(packet.len);
        Some(packet)
    }

    /// Moves the oldest packet to the tail of `other`; returns its length.
    pub(crate) fn move_head(
        &mut self,
        descriptors: &mut [Descriptor],
        other: &mut Self,
    ) -> Option<u32> {
        let handle = self.head;
        let descriptor = descriptors.get_mut(handle as usize)?;
        let (len, behind) = (descriptor.len(), core::mem::replace(&mut descriptor.next, NONE));
        let alone = Self { head: handle, tail: handle, held: Backlog { packets: 1, bytes: len } };
        self.head = behind;
        self.held.sub(len);
        if behind == NONE {
            self.close();
        }
        other.append_all(descriptors, alone);
        Some(len)
    }

    /// Returns the handle of the packet before `handle`, which is in this queue; `None` if it is
    /// the oldest.
    pub(crate) fn before(&self, descriptors: &[Descriptor], handle: u32) -> Option<u32> {
        if handle == self.head {
            return None;
        }
        descriptors.get(handle as usize).map(|descriptor| descriptor.prev)
    }

    /// Removes the packet with `younger` packets behind it: 0 is the newest. Returns `None` if
    /// there are not that many. O(`younger`).
    pub(crate) fn take_nth_newest(
        &mut self,
        descriptors: &mut [Descriptor],
        younger: u32,
    ) -> Option<Packet> {
        if younger >= self.held.packets {
            return None;
        }
        let mut handle = self.tail;
        for _ in 0..younger {
            crate::steps::step();
            handle = self.before(descriptors, handle)?;
        }
        if handle == self.tail {
            return self.pop_tail(descriptors);
        }
        let Some(before) = self.before(descriptors, handle) else {
            return self.pop_head(descriptors);
        };
        let descriptor = descriptors.get_mut(handle as usize)?;
        let (packet, behind) = (descriptor.packet(handle), descriptor.next);
        descriptor.len_ecn = 0;
        if let Some(descriptor) = descriptors.get_mut(before as usize) {
            descriptor.next = behind;
        }
        if let Some(descriptor) = descriptors.get_mut(behind as usize) {
            descriptor.prev = before;
        }
        self.held.sub(packet.len);
        Some(packet)
    }

    /// Walks the list and compares it with the backlog; returns the number of packets found.
    /// O(packets).
    pub(crate) fn recount(&self, at: u32, descriptors: &[Descriptor]) -> Result<u32, Imbalance> {
        let (mut packets, mut bytes, mut last) = (0_u32, 0_u32, NONE);
        let mut here = self.head;
        while let Some(descriptor) = descriptors.get(here as usize) {
            Imbalance::check(
                "a queued descriptor is in use",
                here,
                1,
                descriptor.is_used().into(),
            )?;
            if last != NONE {
                Imbalance::check(
                    "links point both ways",
                    here,
                    descriptor.prev.into(),
                    last.into(),
                )?;
            }
            packets = packets.wrapping_add(1);
            bytes = bytes.wrapping_add(descriptor.len());
            if packets > self.held.packets {
                break; // a cycle or a wrong count: the checks below report both
            }
            last = here;
            here = descriptor.next;
        }
        Imbalance::check("packets of a queue", at, self.held.packets.into(), packets.into())?;
        Imbalance::check("bytes of a queue", at, self.held.bytes.into(), bytes.into())?;
        Imbalance::check("tail of a queue", at, self.tail.into(), last.into())?;
        Ok(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Goal: both ends of the list behave like a deque. Method: every sequence of nine operations
    /// out of append, pop head, pop tail.
    #[test]
    fn agrees_with_a_deque_on_every_short_history() {
        for history in 0..3_u32.pow(9) {
            let (mut descriptors, mut queue) = ([Descriptor::EMPTY; 9], Queue::IDLE);
            let mut model = VecDeque::new();
            let mut rest = history;
            for step in 0..9 {
                let packet =
                    Packet { handle: step, len: 64 + step, ecn: Ecn::from_bits(step as u8) };
                match rest % 3 {
                    0 => {
                        queue.append(&mut descriptors, packet, Nanos(0));
                        model.push_back(packet);
                    }
                    1 => {
                        assert_eq!(queue.pop_head(&mut descriptors), model.pop_front(), "{history}")
                    }
                    _ => {
                        assert_eq!(queue.pop_tail(&mut descriptors), model.pop_back(), "{history}")
                    }
                }
                rest /= 3;
                assert_eq!(
                    queue.recount(0, &descriptors),
                    Ok(model.len() as u32),
                    "{history} at {step}"
                );
                assert_eq!(queue.head_len(&descriptors), model.front().map(|p| p.len));
                assert_eq!(queue.backlog().bytes, model.iter().map(|p| p.len).sum::<u32>());
            }
        }
    }

    /// Goal: a packet is found by its position from the tail, and no other packet leaves. Method:
    /// every sequence of six operations, each an append, a pop from the head, or the removal at one
    /// of four positions from the tail, compared with a deque.
    #[test]
    fn a_packet_is_taken_out_by_its_place_from_the_newest() {
        for history in 0..6_u32.pow(6) {
            let (mut descriptors, mut queue) = ([Descriptor::EMPTY; 6], Queue::IDLE);
            let (mut model, mut rest) = (VecDeque::new(), history);
            for step in 0..6 {
                let packet = Packet::new(step, 64 + step);
                match rest % 6 {
                    0 => {
                        queue.append(&mut descriptors, packet, Nanos(0));
                        model.push_back(packet);
                    }
                    1 => assert_eq!(queue.pop_head(&mut descriptors), model.pop_front()),
                    place => {
                        let younger = place - 2;
                        let index = model.len().checked_sub(1 + younger as usize);
                        let expected = index.and_then(|index| model.remove(index));
                        let taken = queue.take_nth_newest(&mut descriptors, younger);
                        assert_eq!(taken, expected, "{history} at {step}");
                    }
                }
                rest /= 6;
                assert_eq!(queue.recount(0, &descriptors), Ok(model.len() as u32), "{history}");
                let mut here = (!queue.is_empty()).then(|| queue.tail());
                for expected in model.iter().rev() {
                    assert_eq!(here, Some(expected.handle), "{history} at {step}");
                    here = here.and_then(|handle| queue.before(&descriptors, handle));
                }
                assert_eq!(here, None, "{history} at {step}");
            }
        }
    }

    /// Goal: a list appended to another forms one list, seen from both ends. Method: append lists
    /// of length 0 to 3 to each other, then pop from alternate ends.
    #[test]
    fn a_chain_can_be_put_behind_another() {
        for (front, back) in (0..4).flat_map(|front| (0..4).map(move |back| (front, back))) {
            let (mut descriptors, mut queues) = ([Descriptor::EMPTY; 6], [Queue::IDLE; 2]);
            for handle in 0..front + back {
                let queue = &mut queues[usize::from(handle >= front)];
                queue.append(&mut descriptors, Packet::new(handle, 64 + handle), Nanos(0));
            }
            let [mut queue, behind] = queues;
            queue.append_all(&mut descriptors, behind);
            assert_eq!(queue.recount(0, &descriptors), Ok(front + back), "{front} {back}");
            let mut left: VecDeque<u32> = (0..front + back).collect();
            while !left.is_empty() {
                assert_eq!(queue.pop_tail(&mut descriptors).map(|p| p.handle), left.pop_back());
                assert_eq!(queue.pop_head(&mut descriptors).map(|p| p.handle), left.pop_front());
                assert_eq!(queue.recount(0, &descriptors), Ok(left.len() as u32));
            }
            assert!(queue.is_empty());
        }
    }

    /// Goal: packets move from queue to queue one by one, in order, with their arrival times, and
    /// the emptied queue can be used again. Method: three packets move, then two move back.
    #[test]
    fn the_oldest_packet_moves_to_another_queue() {
        let (mut descriptors, mut from, mut to) =
            ([Descriptor::EMPTY; 4], Queue::IDLE, Queue::IDLE);
        for handle in 0..3 {
            from.append(&mut descriptors, Packet::new(handle, 64 + handle), Nanos(1 << 20));
        }
        for handle in 0..3 {
            assert_eq!(from.move_head(&mut descriptors, &mut to), Some(64 + handle));
            assert_eq!(from.recount(0, &descriptors), Ok(2 - handle));
            assert_eq!(to.recount(0, &descriptors), Ok(handle + 1));
        }
        assert_eq!(from.move_head(&mut descriptors, &mut to), None);
        assert_eq!(descriptors[2].sojourn(Nanos(3 << 20)), Nanos(2 << 20));
        from.append(&mut descriptors, Packet::new(3, 64), Nanos(0));
        assert_eq!(to.move_head(&mut descriptors, &mut from), Some(64));
        assert_eq!(from.pop_head(&mut descriptors).map(|packet| packet.handle), Some(3));
        assert_eq!(from.pop_head(&mut descriptors).map(|packet| packet.handle), Some(0));
        assert_eq!((from.recount(0, &descriptors), from.is_empty()), (Ok(0), true));
    }

    #[test]
    fn sojourn_is_exact_to_a_tick_at_every_epoch_and_never_negative() {
        for epoch in [0, 1 << 31, u64::from(u32::MAX) << TICK_SHIFT, 1 << 53, u64::MAX >> 1] {
            let (mut descriptors, mut queue) = ([Descriptor::EMPTY; 1], Queue::IDLE);
            queue.append(&mut descriptors, Packet::new(0, 1), Nanos(epoch));
            for ms in [0, 1, 5, 100, 60_000] {
                let sojourn = descriptors[0].sojourn(Nanos(epoch).plus(Nanos::from_millis(ms)));
                assert!(sojourn.0.abs_diff(ms * 1_000_000) <= 1 << TICK_SHIFT, "{epoch} {ms}");
            }
            for back in [1 << TICK_SHIFT, 1 << 30, 3_600_000_000_000] {
                let back = Nanos(epoch.saturating_sub(back));
                assert_eq!(descriptors[0].sojourn(back), Nanos::ZERO, "{epoch} {back:?}");
            }
        }
    }

    #[test]
    fn a_descriptor_is_sixteen_bytes_and_so_is_a_queue() {
        assert_eq!((size_of::<Descriptor>(), size_of::<Queue>()), (16, 16));
    }
}
