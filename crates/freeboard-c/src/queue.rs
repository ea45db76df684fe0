//! The queue behind the header, without pointers: a smart queue, its parser and its cookies.

use core::cell::{Cell, RefCell, UnsafeCell};
use core::fmt;

use freeboard::flowhash::{Ack, Labels, parse};
use freeboard::sched_core::{
    DropReason, DropSink, Ecn, Limits, Nanos, Packet, RejectReason, Scheduler, Table,
};
use freeboard::shaper::Rate;
use freeboard::{
    AckFilter, Acks, CookieSink, CookieSlot, Cookies, Descriptors, DeviceRoom, FrameReader, InTin,
    IsolatedMemory, Labelled, QueueSettings, SmartQueue, TinPlan, mark_congestion,
};

use crate::block::{Block, Divider, TooShort};
use crate::hooks::{Arrival, Cookie, Hooks};
use crate::interface::*;
use crate::text::of_block;

/// A queue, in the block of memory passed to `fb_init`.
#[expect(non_camel_case_types, reason = "the name of the header")]
pub struct fb_queue {
    /// True during a call, in which the caller's functions may run.
    pub(crate) is_busy: Cell<bool>,
    /// Borrowed by the call that has set `is_busy`.
    pub(crate) inner: UnsafeCell<Inner>,
}

/// Leaves out the queue, which a call may have borrowed.
impl fmt::Debug for fb_queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("fb_queue").field("is_busy", &self.is_busy).finish_non_exhaustive()
    }
}

type Slots = &'static mut [CookieSlot<Cookie>];

/// The queue and what belongs to it.
pub(crate) struct Inner {
    queue: SmartQueue<Block, Descriptors>,
    cookies: Cookies<Cookie, Slots>,
    reader: FrameReader,
    hooks: Hooks,
}

/// The numbers of a configuration.
#[derive(Clone, Copy)]
struct Sizes {
    queues: usize,
    hosts: usize,
    tins: usize,
    /// One more than packets: `Cookies` keeps one free.
    slots: usize,
    rounds: usize,
}

impl Sizes {
    const fn of(config: &fb_config) -> Self {
        Self {
            queues: config.queues as usize,
            hosts: config.hosts as usize,
            tins: config.tins as usize,
            slots: (config.packets as usize).saturating_add(1),
            rounds: config.rounds as usize,
        }
    }

    /// Returns the bytes of a block that suffice wherever it begins.
    const fn bytes(self) -> usize {
        let Self { queues, hosts, tins, slots, rounds } = self;
        let own = size_of::<fb_queue>().saturating_add(align_of::<fb_queue>());
        let cookies = slots.saturating_mul(size_of::<CookieSlot<Cookie>>());
        let cookies = cookies.saturating_add(align_of::<CookieSlot<Cookie>>());
        let tables = IsolatedMemory::<Block>::bytes(queues, hosts, tins, slots);
        let triple = match rounds {
            0 => 0,
            _ => IsolatedMemory::<Block>::triple_bytes(queues, hosts, tins, rounds),
        };
        own.saturating_add(cookies).saturating_add(tables).saturating_add(triple)
    }

    /// Returns what the header's macro `FB_BYTES` promises to suffice.
    const fn promised(self) -> usize {
        let Self { queues, hosts, tins, slots, rounds } = self;
        let tins = if tins < 1 { 1 } else { tins.next_power_of_two() };
        FB_BYTES_FIXED
            + FB_BYTES_PER_QUEUE * queues
            + FB_BYTES_PER_HOST * hosts
            + FB_BYTES_PER_HOST_IN_TIN * hosts * tins
            + FB_BYTES_PER_TIN * tins
            + FB_BYTES_PER_PACKET * (slots - 1)
            + FB_BYTES_PER_ROUND * rounds
    }
}

/// The header's macro suffices on this target: for the smallest numbers, and for one more of each.
/// The numbers of queues, hosts and tins are powers of two, so that all else is linear.
const _: () = {
    const fn of(queues: usize, hosts: usize, tins: usize, slots: usize, rounds: usize) -> Sizes {
        Sizes { queues, hosts, tins, slots, rounds }
    }
    const fn more(fewer: Sizes, more: Sizes) -> usize {
        more.bytes() - fewer.bytes()
    }
    let least = of(8, 8, 1, 2, 2);
    assert!(least.promised() >= least.bytes());
    assert!(FB_BYTES_PER_QUEUE * 8 >= more(least, of(16, 8, 1, 2, 2)));
    let hosts = more(least, of(8, 16, 1, 2, 2));
    let hosts_in_two = more(of(8, 8, 2, 2, 2), of(8, 16, 2, 2, 2));
    assert!(FB_BYTES_PER_HOST_IN_TIN * 8 >= hosts_in_two - hosts);
    assert!((FB_BYTES_PER_HOST + FB_BYTES_PER_HOST_IN_TIN) * 8 >= hosts);
    let tins = more(least, of(8, 8, 2, 2, 2));
    assert!(FB_BYTES_PER_TIN + FB_BYTES_PER_HOST_IN_TIN * 8 >= tins);
    assert!(FB_BYTES_PER_PACKET * 8 >= more(least, of(8, 8, 1, 10, 2)));
    assert!(FB_BYTES_PER_ROUND * 64 >= more(least, of(8, 8, 1, 2, 66)));
};

/// Returns the bytes of a block for this configuration.
pub(crate) const fn bytes(config: &fb_config) -> usize {
    Sizes::of(config).bytes()
}

/// Returns the rate of `bits` per second; 0 stops the link.
pub(crate) fn rate_of(bits: u64) -> Result<Rate, fb_error> {
    match bits {
        0 => Ok(Rate::STOPPED),
        FB_UNLIMITED => Ok(Rate::UNLIMITED),
        _ => Rate::bits_per_second(bits).map_err(|_| {
            let (min, max) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
            fb_error::range("rate in bits per second", bits, min, max)
        }),
    }
}

/// Sets congestion experienced in the IP header of a packet that begins with this layer.
pub(crate) fn mark_ce(layer: u8, bytes: &mut [u8]) -> bool {
    let parsed = if layer == FB_IP { parse::ip(bytes) } else { parse::ethernet(bytes) };
    parsed.ip.is_some_and(|ip| mark_congestion(bytes, &ip))
}

impl Inner {
    /// Builds a queue in the block.
    pub(crate) fn new(
        config: &fb_config,
        settings: &QueueSettings,
        hooks: Hooks,
        block: &mut Divider,
    ) -> Result<Self, fb_error> {
        let sizes = Sizes::of(config);
        let builder = match config.direction {
            FB_UPLOAD => SmartQueue::upload(Rate::UNLIMITED),
            FB_DOWNLOAD => SmartQueue::download(Rate::UNLIMITED),
            other => return Err(fb_error::range("direction", other.into(), 0, 1)),
        };
        let builder = match config.layer {
            FB_ETHERNET => builder,
            FB_IP => builder.raw_ip(),
            other => return Err(fb_error::range("layer", other.into(), 0, 1)),
        };
        if config.packets == 0 {
            return Err(fb_error::too_few(FB_E_RANGE, "packets", 0, 1));
        }
        if config.tins > TinPlan::MAX_TINS as u32 {
            return Err(fb_error::range("tins", config.tins.into(), 1, TinPlan::MAX_TINS as u64));
        }
        let (tins, needed) = (config.tins.max(1), settings.tins.map_or(1, |plan| plan.count()));
        if u32::from(needed) > tins.next_power_of_two() {
            let what = "tins (for the settings)";
            return Err(fb_error::too_few(FB_E_RANGE, what, tins.into(), needed.into()));
        }
        let builder = match config.max_len {
            0 => builder,
            bytes => builder.max_len(bytes),
        };
        if settings.ack_filter.is_some_and(is_on) && !hooks.can_read() {
            return Err(no_read("the ACK filter"));
        }
        // One less than there are slots, so that the table is never full.
        let builder = builder.settings(settings).limits(Limits::packets(config.packets));
        let short = |TooShort| of_block(0, sizes.bytes());
        let Sizes { queues, hosts, tins, slots, rounds } = sizes;
        let memory = IsolatedMemory::allocate_in(block, queues, hosts, tins, slots);
        let memory = memory.map_err(short)?;
        let memory = match rounds {
            0 => memory,
            _ => memory.with_triple_in(block, rounds).map_err(short)?,
        };
        let aqm = memory.aqm_in(block).map_err(short)?;
        let cookies = Cookies::new(block.table(&CookieSlot::EMPTY, slots).map_err(short)?);
        let queue = builder.descriptors_in(memory, aqm)?;
        Ok(Self { queue, cookies, reader: builder.reader(config.key), hooks })
    }

    /// Enqueues a packet; returns a code.
    pub(crate) fn enqueue(&mut self, now: u64, arrival: &Arrival<'_>) -> i32 {
        let Arrival { bytes, mark, .. } = *arrival;
        if let Some(labels) = arrival.labels {
            let ecn = Ecn::from_bits(labels.ecn);
            return self.enqueue_as(now, arrival, &in_tin(labels), ecn);
        }
        let parsed = self.reader.parse(bytes);
        let read = self.reader.read(bytes, &parsed, mark, self.queue.tins());
        let reader = &self.reader;
        let labels = InTin { labels: reader.labels(&read, reader.labeller()), tin: read.tin };
        let Self { queue, cookies, hooks, .. } = self;
        put(queue, cookies, (hooks, reader), (now, arrival, read.ecn()), &labels)
    }

    fn enqueue_as(
        &mut self,
        now: u64,
        arrival: &Arrival<'_>,
        labels: &impl Labelled,
        ecn: Ecn,
    ) -> i32 {
        let Self { queue, cookies, hooks, reader } = self;
        put(queue, cookies, (hooks, reader), (now, arrival, ecn), labels)
    }

    /// Offers a packet with a handle that the queue does not have; returns a code.
    #[cfg(test)]
    pub(crate) fn offer_unknown(&mut self, now: Nanos, labels: fb_labels, packet: Packet) -> i32 {
        let packet = Packet { handle: u32::MAX, ..packet };
        let drops = &mut |_: Packet, _| unreachable!("nothing is queued for it");
        code_of(self.queue.enqueue(now, &in_tin(labels), packet, drops).map_err(|all| all.reason))
    }

    /// Returns the next packet that may leave.
    pub(crate) fn dequeue(&mut self, now: u64) -> Option<fb_departure> {
        let Self { queue, cookies, hooks, .. } = self;
        let drops = &mut |cookie, why| hooks.dropped(cookie, why);
        let (packet, cookie) = cookies.dequeue(queue, Nanos(now), drops)?;
        Some(departure(packet, cookie))
    }

    /// Hands up to `count` packets that may leave to `each`, by its number; returns their number.
    pub(crate) fn dequeue_burst(
        &mut self,
        now: u64,
        count: usize,
        mut each: impl FnMut(usize, fb_departure),
    ) -> usize {
        let Self { queue, cookies, hooks, .. } = self;
        let mut done = 0_usize;
        while done < count {
            let mut packets = [Packet::new(0, 0); 32];
            let wanted = count.saturating_sub(done).min(packets.len());
            let place = packets.get_mut(..wanted).unwrap_or_default();
            let drops = &mut |cookie, why| hooks.dropped(cookie, why);
            let found = queue.dequeue_burst(Nanos(now), place, &mut cookies.sink(drops));
            for packet in packets.iter().take(found) {
                if let Some(cookie) = cookies.take(packet.handle) {
                    each(done, departure(*packet, cookie));
                    done = done.saturating_add(1);
                }
            }
            if found < wanted {
                break;
            }
        }
        done
    }

    /// Returns when to dequeue next, in nanoseconds.
    pub(crate) fn poll_at(&self, now: u64) -> Option<u64> {
        self.queue.poll_at(Nanos(now)).map(|at| at.0)
    }

    /// Applies settings; all packets stay queued except those above a lower memory limit.
    pub(crate) fn set(&mut self, now: u64, settings: &QueueSettings) -> Result<(), fb_error> {
        let Self { queue, cookies, reader, hooks } = self;
        let is_held = queue.backlog().packets > 0;
        let isolation = settings.isolation.filter(|&isolation| isolation != queue.isolation());
        let tins = settings.tins.filter(|plan| plan != queue.tins());
        if !hooks.can_read() {
            if settings.ack_filter.is_some_and(is_on) {
                return Err(no_read("the ACK filter"));
            }
            if is_held && (isolation.is_some() || tins.is_some()) {
                return Err(no_read("another isolation or other tins, while packets are queued,"));
            }
        }
        let mut changed = reader.clone();
        if let Some(tin_by) = settings.tin_by {
            changed.set_tin_by(tin_by);
        }
        if let Some(mask) = settings.fwmark {
            changed.set_fwmark(freeboard::Fwmark::new(mask));
        }
        let plan = settings.tins.unwrap_or(*queue.tins());
        // Read by the labels and changed by the drops, never at once.
        let cookies = RefCell::new(cookies);
        let labels_of = |packet: Packet| {
            let cookie = cookies.try_borrow().ok().and_then(|all| all.get(packet.handle).copied());
            labels_of(&mut changed, hooks, &plan, cookie)
        };
        let drops = &mut |packet: Packet, why: DropReason| {
            let cookie = cookies.try_borrow_mut().ok().and_then(|mut all| all.take(packet.handle));
            if let Some(cookie) = cookie {
                hooks.dropped(cookie, why);
            }
        };
        queue.apply(Nanos(now), settings, labels_of, drops)?;
        *reader = changed;
        Ok(())
    }

    pub(crate) fn set_rate(&mut self, now: u64, rate: Rate) {
        self.queue.set_rate(Nanos(now), rate);
    }

    pub(crate) const fn set_device(&mut self, bytes: u32) {
        self.queue.set_device(match bytes {
            FB_READY => DeviceRoom::Ready,
            0 => DeviceRoom::Busy,
            _ => DeviceRoom::Takes(bytes),
        });
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        let Self { queue, cookies, hooks, .. } = self;
        let limits = limits.within_pool(queue.handles());
        let drops = &mut |cookie, why| hooks.dropped(cookie, why);
        queue.set_limits(limits, &mut cookies.sink(drops));
    }

    /// Switches to another key. Packets that are queued are read again.
    pub(crate) fn rekey(&mut self, key: [u8; 16]) -> Result<(), fb_error> {
        let Self { queue, cookies, reader, hooks } = self;
        if !hooks.can_read() && queue.backlog().packets > 0 {
            return Err(no_read("another key, while packets are queued,"));
        }
        reader.rekey(key);
        let plan = *queue.tins();
        queue
            .relabel(|packet| labels_of(reader, hooks, &plan, cookies.get(packet.handle).copied()));
        Ok(())
    }

    /// Drops one packet; returns false if none is queued.
    pub(crate) fn evict(&mut self) -> bool {
        let Self { queue, cookies, hooks, .. } = self;
        let drops = &mut |cookie, why| hooks.dropped(cookie, why);
        queue.evict(&mut cookies.sink(drops))
    }

    pub(crate) fn drain(&mut self) {
        let Self { queue, cookies, hooks, .. } = self;
        let drops = &mut |cookie, why| hooks.dropped(cookie, why);
        queue.drain(&mut cookies.sink(drops));
    }

    /// Returns the statistics, with the size of this version.
    pub(crate) fn stats(&self) -> fb_stats {
        let counters = self.queue.counters();
        let (sources, destinations) = self.queue.backlogged_hosts();
        let volume = |of: freeboard::sched_core::Volume| {
            let freeboard::sched_core::Volume { packets, bytes } = of;
            fb_volume { packets, bytes }
        };
        let mut dropped = [fb_volume::default(); FB_DROPS];
        for (place, &why) in dropped.iter_mut().zip(DropReason::ALL) {
            *place = volume(counters.dropped_for(why));
        }
        let rate = match self.queue.line().rate() {
            Rate::UNLIMITED => FB_UNLIMITED,
            rate => rate.as_bits_per_second().unwrap_or(FB_UNLIMITED),
        };
        fb_stats {
            size: size_of::<fb_stats>() as u32,
            capacity: self.queue.handles().saturating_sub(1),
            sources,
            destinations,
            rate,
            queued: volume(self.queue.backlog().into()),
            peak: volume(counters.peak.into()),
            accepted: volume(counters.accepted),
            rejected: volume(counters.rejected),
            delivered: volume(counters.delivered),
            dropped,
            marked: counters.marked,
        }
    }
}

fn is_on(filter: AckFilter) -> bool {
    filter != AckFilter::Off
}

/// Creates the error of a change that needs to read packets.
fn no_read(what: &str) -> fb_error {
    fb_error::new(FB_E_READ, what).with(" needs a function `read`")
}

fn in_tin(labels: fb_labels) -> InTin<Labels> {
    let fb_labels { flow, source: src_host, destination: dst_host, tin, .. } = labels;
    InTin { labels: Labels { flow, src_host, dst_host }, tin }
}

fn departure(packet: Packet, Cookie(cookie): Cookie) -> fb_departure {
    fb_departure { cookie, len: packet.len, mark_ce: (packet.ecn == Ecn::Ce).into() }
}

/// Returns the labels of a queued packet, read again.
fn labels_of(
    reader: &mut FrameReader,
    hooks: &Hooks,
    plan: &TinPlan,
    cookie: Option<Cookie>,
) -> InTin<Labels> {
    let Some(Arrival { bytes, mark, labels, .. }) = cookie.and_then(|cookie| hooks.read(cookie))
    else {
        return in_tin(fb_labels::default());
    };
    if let Some(labels) = labels {
        return in_tin(labels);
    }
    let parsed = reader.parse(bytes);
    let read = reader.read(bytes, &parsed, mark, plan);
    let labels = reader.labels(&read, reader.labeller());
    let (flow, src_host, dst_host) = (labels.flow(), labels.source(), labels.destination());
    InTin { labels: Labels { flow, src_host, dst_host }, tin: read.tin }
}

/// Enqueues a packet with these labels; returns a code.
fn put(
    queue: &mut SmartQueue<Block, Descriptors>,
    cookies: &mut Cookies<Cookie, Slots>,
    (hooks, reader): (&Hooks, &FrameReader),
    (now, arrival, ecn): (u64, &Arrival<'_>, Ecn),
    labels: &impl Labelled,
) -> i32 {
    let drops = &mut |cookie, why| hooks.dropped(cookie, why);
    let (now, len) = (Nanos(now), arrival.len);
    let outcome = cookies.enqueue(queue, arrival.cookie, drops, |queue, handle, sink| {
        let packet = Packet { handle, len, ecn };
        if is_on(queue.ack_filter()) {
            queue.enqueue_from(now, labels, packet, &mut Read { sink, hooks, reader })
        } else {
            queue.enqueue(now, labels, packet, sink)
        }
    });
    code_of(outcome.map_err(|rejected| rejected.reason))
}

const fn code_of(outcome: Result<(), RejectReason>) -> i32 {
    match outcome {
        Ok(()) => FB_OK,
        Err(RejectReason::Length { .. }) => FB_E_LENGTH,
        Err(RejectReason::Aqm) => FB_E_AQM,
        Err(_) => FB_E_FULL,
    }
}

/// Takes back dropped packets, and reads the acknowledgements of queued ones.
struct Read<'a, 'b, T, F> {
    sink: &'a mut CookieSink<'b, Cookie, T, F>,
    hooks: &'a Hooks,
    reader: &'a FrameReader,
}

impl<T: Table<CookieSlot<Cookie>>, F: FnMut(Cookie, DropReason)> DropSink for Read<'_, '_, T, F> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self.sink.dropped(packet, reason);
    }
}

impl<T: Table<CookieSlot<Cookie>>, F> Acks for Read<'_, '_, T, F> {
    fn ack(&self, packet: Packet) -> Option<Ack> {
        let Arrival { bytes, .. } = self.hooks.read(*self.sink.get(packet.handle)?)?;
        Ack::read(bytes, &self.reader.parse(bytes))
    }
}
