//! The packets behind the handles of a queue with descriptors.
//!
//! A queue with descriptors knows packets by number. [`Cookies`] gives each packet that you own, or
//! point to, a free number and takes it back when the packet leaves or is dropped. Cost: O(1) per
//! operation.

use core::fmt;
use core::marker::PhantomData;

use sched_core::{DropReason, DropSink, Nanos, Packet, RejectReason, Rejected, Scheduler, Table};

/// A table of the packets behind the handles of one queue. A *cookie* is the value by which you
/// know a packet: an owned `Vec<u8>`, a reference or a pointer. Each cookie that goes in comes out
/// exactly once.
///
/// `T` is a table of [`CookieSlot`]s: an array, a slice or a box. Use as many slots as the queue
/// has [handles](crate::SmartQueue::handles); with more, the queue rejects the handles that it does
/// not have. One slot stays free for the next packet: when the last one is taken, the queue drops a
/// packet ([`Scheduler::evict`]). [`Isolated`](crate::Isolated) drops it from the host with
/// (approximately) the longest backlog. So no limit has to be set for the table. A queue of `n`
/// handles then holds up to `n - 1` packets.
///
/// ```
/// use freeboard::flowhash::Labels;
/// use freeboard::sched_core::{Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{CookieSlot, Cookies, SmartQueue, StaticDescriptors};
///
/// // In firmware, `memory` and the array of slots are statics: `EMPTY` and its `new` are const.
/// let mut memory = StaticDescriptors::<64, 1>::new();
/// let mut cookies = Cookies::new([const { CookieSlot::EMPTY }; 64]);
///
/// let (tables, aqm) = memory.memory();
/// let mut queue =
///     SmartQueue::upload(Rate::megabits_per_second(1)?).descriptors_in(tables, aqm)?;
/// let drops = &mut |frame: Vec<u8>, why| println!("{} bytes dropped: {why:?}", frame.len());
///
/// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
/// let frame = vec![1; 60];
/// let len = frame.len() as u32;
/// cookies.enqueue(&mut queue, frame, drops, |queue, handle, drops| {
///     queue.enqueue(Nanos(0), &labels, Packet::new(handle, len), drops)
/// })?;
///
/// let (packet, frame) = cookies.dequeue(&mut queue, Nanos(0), drops).expect("a free link");
/// assert_eq!((packet.len, frame), (60, vec![1; 60]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cookies<C, T> {
    slots: T,
    /// The first free slot; no slot if all are taken.
    free: u32,
    len: u32,
    cookie: PhantomData<C>,
}

/// A slot of [`Cookies`], with or without a cookie.
#[derive(Clone, Copy)]
pub struct CookieSlot<C>(Slot<C>);

#[derive(Clone, Copy)]
enum Slot<C> {
    /// The next free slot.
    Free(u32),
    Taken(C),
}

impl<C> CookieSlot<C> {
    /// A slot without a cookie.
    pub const EMPTY: Self = Self(Slot::Free(0));
}

/// Leaves out the cookie.
impl<C> fmt::Debug for CookieSlot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.0, Slot::Free(_)) { "Free" } else { "Taken" })
    }
}

/// Leaves out the cookies.
impl<C, T: AsRef<[CookieSlot<C>]>> fmt::Debug for Cookies<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.as_ref().len();
        f.debug_struct("Cookies").field("slots", &slots).field("len", &self.len).finish()
    }
}

/// Error for a cookie that was not enqueued, with the cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RejectedCookie<C> {
    /// The cookie; the caller owns it again.
    pub cookie: C,
    /// The reason.
    pub reason: RejectReason,
}

/// Leaves out the cookie.
impl<C> fmt::Debug for RejectedCookie<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedCookie").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<C> fmt::Display for RejectedCookie<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet rejected: {}", self.reason)
    }
}

impl<C> core::error::Error for RejectedCookie<C> {}

impl<C, T: Table<CookieSlot<C>>> Cookies<C, T> {
    /// Creates a table without cookies; those in `slots` are lost. Cost: O(slots).
    #[must_use]
    pub fn new(mut slots: T) -> Self {
        for (next, slot) in (1..u32::MAX).zip(slots.as_mut().iter_mut()) {
            *slot = CookieSlot(Slot::Free(next));
        }
        Self { slots, free: 0, len: 0, cookie: PhantomData }
    }

    /// Returns the number of cookies in the table.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if there are no cookies in the table.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives `cookie` a free handle and calls `enqueue`, which has to enqueue one packet into
    /// `queue` with this handle and this drop sink, once, and to return the result. Cookies of
    /// packets that are dropped go to `drops`.
    ///
    /// If that takes the last free slot, the queue drops a packet, which can be this one.
    ///
    /// # Errors
    /// [`RejectedCookie`], with the cookie, if `enqueue` returns an error, or if the table has no
    /// free slot: one without slots, or one that the caller has filled from another queue.
    pub fn enqueue<Q, F>(
        &mut self,
        queue: &mut Q,
        cookie: C,
        drops: &mut F,
        enqueue: impl FnOnce(&mut Q, u32, &mut CookieSink<'_, C, T, F>) -> Result<(), Rejected>,
    ) -> Result<(), RejectedCookie<C>>
    where
        Q: Scheduler + ?Sized,
        F: FnMut(C, DropReason),
    {
        let handle = self.put(cookie).map_err(|cookie| {
            let reason = RejectReason::Full { limits: queue.limits() };
            RejectedCookie { cookie, reason }
        })?;
        let sink = &mut self.sink(drops);
        match enqueue(queue, handle, sink) {
            Ok(()) => {
                if sink.cookies.is_full() {
                    queue.evict(sink);
                }
                Ok(())
            }
            Err(Rejected { reason, .. }) => match self.take(handle) {
                Some(cookie) => Err(RejectedCookie { cookie, reason }),
                None => Ok(()),
            },
        }
    }

    /// Returns the next packet and its cookie, if one may leave at `now`; `None` also for a packet
    /// that was not enqueued by this table. Cookies of packets that are dropped go to `drops`.
    pub fn dequeue<Q: Scheduler + ?Sized>(
        &mut self,
        queue: &mut Q,
        now: Nanos,
        drops: &mut impl FnMut(C, DropReason),
    ) -> Option<(Packet, C)> {
        let packet = queue.dequeue(now, &mut self.sink(drops))?;
        let cookie = self.take(packet.handle)?;
        Some((packet, cookie))
    }

    /// Returns a drop sink for other calls of the queue, which hands cookies to `drops`.
    ///
    /// ```
    /// use freeboard::sched_core::Scheduler;
    /// use freeboard::sched_core::{Descriptor, DropReason, Fifo, FlowId, Limits, Nanos, Packet};
    /// use freeboard::{CookieSlot, Cookies};
    ///
    /// let mut cookies = Cookies::new([CookieSlot::EMPTY; 8]);
    /// let mut fifo = Fifo::tail_drop([Descriptor::EMPTY; 8], Limits::NONE);
    /// let mut gone = Vec::new();
    /// let drops = &mut |name: &str, _why: DropReason| gone.push(name.to_owned());
    /// cookies.enqueue(&mut fifo, "first", drops, |fifo, handle, drops| {
    ///     fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, 60), drops)
    /// })?;
    /// fifo.drain(&mut cookies.sink(drops));
    /// assert_eq!(gone, ["first"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn sink<'a, F: FnMut(C, DropReason)>(
        &'a mut self,
        drops: &'a mut F,
    ) -> CookieSink<'a, C, T, F> {
        CookieSink { cookies: self, drops }
    }

    /// Returns the cookie of the queued packet with this handle.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&C> {
        match self.slots.as_ref().get(handle as usize) {
            Some(CookieSlot(Slot::Taken(cookie))) => Some(cookie),
            _ => None,
        }
    }

    /// Returns a mutable reference to the cookie of the queued packet with this handle.
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut C> {
        match self.slots.as_mut().get_mut(handle as usize) {
            Some(CookieSlot(Slot::Taken(cookie))) => Some(cookie),
            _ => None,
        }
    }

    /// Removes the cookie of a packet that has left the queue by other means than
    /// [`dequeue`](Self::dequeue), such as a burst.
    pub fn take(&mut self, handle: u32) -> Option<C> {
        let slot = self.slots.as_mut().get_mut(handle as usize)?;
        match core::mem::replace(&mut slot.0, Slot::Free(self.free)) {
            Slot::Taken(cookie) => {
                self.free = handle;
                self.len = self.len.wrapping_sub(1);
                Some(cookie)
            }
            free => {
                slot.0 = free;
                None
            }
        }
    }

    fn is_full(&self) -> bool {
        self.slots.as_ref().get(self.free as usize).is_none()
    }

    /// Puts `cookie` into a free slot, or returns it if there is none.
    fn put(&mut self, cookie: C) -> Result<u32, C> {
        let handle = self.free;
        let slot = self.slots.as_mut().get_mut(handle as usize);
        let Some(CookieSlot(slot @ Slot::Free(_))) = slot else { return Err(cookie) };
        if let Slot::Free(next) = core::mem::replace(slot, Slot::Taken(cookie)) {
            self.free = next;
        }
        self.len = self.len.wrapping_add(1);
        Ok(handle)
    }
}

/// A drop sink that frees the slots of dropped packets and hands their cookies to the caller:
/// [`Cookies::sink`].
pub struct CookieSink<'a, C, T, F> {
    cookies: &'a mut Cookies<C, T>,
    drops: &'a mut F,
}

/// Leaves out the cookies.
impl<C, T, F> fmt::Debug for CookieSink<'_, C, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieSink").field("len", &self.cookies.len).finish_non_exhaustive()
    }
}

impl<C, T: Table<CookieSlot<C>>, F> CookieSink<'_, C, T, F> {
    /// Returns the cookie of the queued packet with this handle.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&C> {
        self.cookies.get(handle)
    }
}

impl<C, T, F> DropSink for CookieSink<'_, C, T, F>
where
    T: Table<CookieSlot<C>>,
    F: FnMut(C, DropReason),
{
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        let cookie = self.cookies.take(packet.handle);
        debug_assert!(cookie.is_some(), "a scheduler gives a handle back once");
        if let Some(cookie) = cookie {
            (self.drops)(cookie, reason);
        }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    use flowhash::Labels;
    use sched_core::{Descriptor, Fifo, FlowId, Limits};
    use shaper::Rate;

    use super::*;
    use crate::{LabelledScheduler, SmartQueue};

    /// A cookie of its own type, with a number.
    type Owned = Box<u32>;

    /// A small generator of random numbers.
    struct Random(u32);

    impl Random {
        fn below(&mut self, bound: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 17;
            self.0 ^= self.0 << 5;
            self.0 % bound
        }
    }

    fn slots(count: usize) -> Vec<CookieSlot<Owned>> {
        (0..count).map(|_| CookieSlot::EMPTY).collect()
    }

    /// Performs random operations on a queue of as many handles as slots, and checks each against a
    /// model: the lengths of the packets inside, by cookie. Returns the number of evictions.
    fn every_cookie_comes_out_once(queue: &mut impl LabelledScheduler, handles: u32) -> u64 {
        let mut cookies = Cookies::new(slots(handles as usize));
        let inside = RefCell::new(BTreeMap::new());
        let mut random = Random(handles + 1);
        let came_out = |cookie: Owned| {
            let len = inside.borrow_mut().remove(&*cookie);
            assert!(len.is_some(), "{cookie} comes out a second time");
            len
        };
        let mut evicted = 0;
        let mut now = Nanos(0);
        for number in 0..20_000 {
            now = now.plus(Nanos(u64::from(random.below(1 << 20))));
            let drops = &mut |cookie: Owned, why| {
                came_out(cookie);
                evicted += u64::from(why == DropReason::Overflow);
            };
            match random.below(16) {
                0..9 => {
                    let len = random.below(1_600);
                    let flow = random.below(6);
                    let labels = Labels { flow, src_host: flow >> 1, dst_host: 0 };
                    inside.borrow_mut().insert(number, len);
                    let outcome =
                        cookies.enqueue(queue, Box::new(number), drops, |queue, handle, drops| {
                            let packet = Packet::new(handle, len);
                            queue.enqueue_labelled(now, &labels, packet, drops)
                        });
                    if let Err(RejectedCookie { cookie, .. }) = outcome {
                        assert_eq!(*cookie, number);
                        came_out(cookie);
                    }
                }
                9..14 => {
                    if let Some((packet, cookie)) = cookies.dequeue(queue, now, drops) {
                        assert_eq!(came_out(cookie), Some(packet.len));
                    }
                }
                14 => {
                    let packets = random.below(2 * handles);
                    queue.set_limits(Limits::packets(packets), &mut cookies.sink(drops));
                }
                _ if random.below(32) == 0 => queue.drain(&mut cookies.sink(drops)),
                _ => {
                    let handle = random.below(handles + 1);
                    let cookie = cookies.get(handle).map(|cookie| **cookie);
                    assert_eq!(cookies.get_mut(handle).map(|cookie| **cookie), cookie);
                    assert!(cookie.is_none_or(|cookie| inside.borrow().contains_key(&cookie)));
                }
            }
            let (held, books) = (inside.borrow().len(), queue.backlog().packets as usize);
            assert_eq!((cookies.len() as usize, books), (held, held));
            assert!(held < handles as usize);
        }
        assert!(queue.counters().delivered.packets > 100 || handles == 1);
        evicted
    }

    /// Goal: every cookie comes out exactly once with its packet, and one slot stays free. Method:
    /// random operations against a model, on a smart queue and on a FIFO, with few and more slots.
    #[test]
    fn cookies_come_out_once_from_any_queue() -> Result<(), Box<dyn core::error::Error>> {
        for handles in [1, 2, 3, 16, 64] {
            let builder = SmartQueue::upload(Rate::megabits_per_second(4)?).max_len(1_514);
            let mut smart = builder.buffers(handles).limits(Limits::NONE).descriptors()?;
            assert_eq!(smart.handles(), handles);
            assert!(every_cookie_comes_out_once(&mut smart, handles) > 100, "{handles}");
            let descriptors = alloc::vec![Descriptor::EMPTY; handles as usize];
            let mut fifo = Fifo::head_drop(descriptors, Limits::NONE);
            assert!(every_cookie_comes_out_once(&mut fifo, handles) > 100, "{handles}");
        }
        Ok(())
    }

    /// Goal: a packet that finds the table full costs the host with the longest backlog one, and
    /// nothing is lost of the others. Method: 12 packets of a host that sends too much, then one of
    /// each of six others, in 16 slots.
    #[test]
    fn the_longest_host_makes_place() -> Result<(), Box<dyn core::error::Error>> {
        let mut queue = SmartQueue::upload(Rate::STOPPED).buffers(16).descriptors()?;
        let mut cookies = Cookies::new([CookieSlot::EMPTY; 16]);
        let mut dropped = Vec::new();
        let drops = &mut |host: u32, why: DropReason| dropped.push((host, why));
        for host in (0..12).map(|_| 0).chain(1..7) {
            let labels = Labels { flow: host, src_host: host, dst_host: 0 };
            cookies.enqueue(&mut queue, host, drops, |queue, handle, drops| {
                queue.enqueue(Nanos(0), &labels, Packet::new(handle, 100), drops)
            })?;
        }
        assert_eq!((queue.backlog().packets, cookies.len()), (15, 15));
        assert_eq!(dropped, [(0, DropReason::Overflow); 3]);
        Ok(())
    }

    /// Goal: a packet that the queue rejects costs no other its slot and gives its own back, and a
    /// table without slots rejects. Method: a packet that is too long for a full table.
    #[test]
    fn a_rejected_cookie_changes_nothing() -> Result<(), Box<dyn core::error::Error>> {
        let mut fifo = Fifo::tail_drop([Descriptor::EMPTY; 3], Limits::bytes(200));
        let mut cookies = Cookies::new([CookieSlot::EMPTY; 3]);
        let mut dropped = Vec::new();
        let drops = &mut |cookie: u32, why: DropReason| dropped.push((cookie, why));
        let mut offer = |cookies: &mut Cookies<u32, _>, cookie, len| {
            cookies.enqueue(&mut fifo, cookie, drops, |fifo, handle, drops| {
                fifo.enqueue(Nanos(0), FlowId(0), Packet::new(handle, len), drops)
            })
        };
        offer(&mut cookies, 1, 90)?;
        offer(&mut cookies, 2, 90)?;
        let reason = RejectReason::Length { len: 0, max: Packet::MAX_LEN };
        assert_eq!(offer(&mut cookies, 3, 0), Err(RejectedCookie { cookie: 3, reason }));
        let reason = RejectReason::Full { limits: Limits::bytes(200) };
        assert_eq!(offer(&mut cookies, 3, 90), Err(RejectedCookie { cookie: 3, reason }));
        assert_eq!((cookies.len(), cookies.is_empty(), cookies.take(2)), (2, false, None));
        assert_eq!((cookies.take(0), cookies.take(0), cookies.len()), (Some(1), None, 1));

        let mut none = Cookies::new([CookieSlot::EMPTY; 0]);
        let enqueue = |_: &mut _, _, _: &mut CookieSink<'_, u32, _, _>| Ok(());
        let rejected = none.enqueue(&mut fifo, 4, drops, enqueue);
        assert_eq!(rejected, Err(RejectedCookie { cookie: 4, reason }));
        assert_eq!(dropped, []);
        Ok(())
    }
}
