//! Pinned traces through the functions of the header.
//!
//! Runs of other schedulers cannot be expressed in C, which has one queue. Handles that are unknown
//! or in use cannot be either, since the queue assigns them: such a packet is offered to the queue
//! behind the header, with a handle that it does not have.

use core::ffi::c_void;
use core::ptr;
use std::ffi::CString;
use std::string::ToString as _;
use std::vec::Vec;

use freeboard::flowhash::{Ack, Labels};
use freeboard::sched_core::{
    Backlog, Books, Counters, DropReason, DropSink, Ecn, FlowId, Imbalance, Limits, Nanos, Packet,
    RejectReason, Rejected, Scheduler, Volume,
};
use freeboard::{InTin, QueueSettings};
use golden::{Assembled, Change};

use super::config;
use crate::calls::enter;
use crate::*;

/// The caller's side: its packets by handle, and drops since the last call.
struct Caller {
    packets: [Option<Packet>; golden::PACKETS],
    labels: [fb_labels; golden::PACKETS],
    drops: Vec<(u32, u32)>,
    /// The bytes that `read` returned last.
    bytes: Vec<u8>,
}

unsafe extern "C" fn dropped(user: *mut c_void, cookie: *mut c_void, reason: u32) {
    // SAFETY: `user` is the caller of the queue, which is not borrowed during calls.
    let caller = unsafe { &mut *user.cast::<Caller>() };
    caller.drops.push((cookie.addr() as u32, reason));
}

unsafe extern "C" fn read(user: *mut c_void, cookie: *mut c_void, packet: *mut fb_packet) {
    // SAFETY: as for `dropped`.
    let caller = unsafe { &mut *user.cast::<Caller>() };
    let handle = cookie.addr();
    let queued = caller.packets.get(handle).copied().flatten();
    caller.bytes = queued.and_then(golden::ack).map_or_else(Vec::new, |ack| written(&ack));
    // SAFETY: the queue lends the packet for this call.
    let packet = unsafe { &mut *packet };
    packet.labels = caller.labels.get(handle).map_or(ptr::null(), ptr::from_ref);
    (packet.bytes, packet.bytes_len) = (caller.bytes.as_ptr(), caller.bytes.len());
}

/// Writes an acknowledgement of a run as an IPv4 packet.
fn written(ack: &Ack) -> Vec<u8> {
    let blocks = ack.sack.as_slice();
    let options = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() };
    let mut bytes = std::vec![0x45, 0, 0, (40 + options) as u8, 0, 0, 0, 0, 64, 6, 0, 0];
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2]);
    bytes.extend(ack.seq.to_be_bytes());
    bytes.extend(ack.number.to_be_bytes());
    bytes.extend([((20 + options) as u8 / 4) << 4, 0x10]);
    bytes.extend(ack.window.to_be_bytes());
    bytes.extend([0; 4]);
    if !blocks.is_empty() {
        bytes.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            bytes.extend(left.to_be_bytes());
            bytes.extend(right.to_be_bytes());
        }
    }
    bytes
}

/// A queue behind the functions of the header.
struct ThroughC {
    queue: *mut fb_queue,
    caller: *mut Caller,
    /// The longest packet.
    max_len: u32,
    /// Labels of a packet, by its flow.
    label: fn(u32) -> fb_labels,
    _block: Vec<u8>,
}

impl ThroughC {
    fn new(config: fb_config, settings: &str, label: fn(u32) -> fb_labels) -> Self {
        let packets = [None; golden::PACKETS];
        let labels = [fb_labels::default(); golden::PACKETS];
        let caller = Caller { packets, labels, drops: Vec::new(), bytes: Vec::new() };
        let caller = std::boxed::Box::into_raw(std::boxed::Box::new(caller));
        let settings = CString::new(settings).unwrap();
        let config = fb_config {
            queues: 8,
            hosts: 8,
            packets: golden::PACKETS as u32,
            settings: settings.as_ptr(),
            user: caller.cast(),
            drop: Some(dropped),
            read: Some(read),
            ..config
        };
        // SAFETY: the configuration is whole.
        let mut block = std::vec![0_u8; unsafe { fb_bytes(&raw const config) }];
        let (at, len) = (block.as_mut_ptr().cast(), block.len());
        let (mut queue, mut error) = (ptr::null_mut(), fb_error::NONE);
        // SAFETY: the block is not used otherwise.
        let code = unsafe { fb_init(at, len, &raw const config, &raw mut queue, &raw mut error) };
        assert_eq!(code, FB_OK, "{}", super::text(&error));
        Self { queue, caller, max_len: config.max_len, label, _block: block }
    }

    fn caller(&mut self) -> &mut Caller {
        // SAFETY: no call of the queue is running while this is borrowed.
        unsafe { &mut *self.caller }
    }

    fn stats(&self) -> fb_stats {
        let mut stats = fb_stats { size: size_of::<fb_stats>() as u32, ..fb_stats::default() };
        // SAFETY: the queue has its block.
        assert_eq!(unsafe { fb_get_stats(self.queue, &raw mut stats) }, FB_OK);
        stats
    }

    /// Hands the drops of the last call to `drops`.
    fn hand_drops_to(&mut self, drops: &mut dyn DropSink) {
        for (handle, why) in core::mem::take(&mut self.caller().drops) {
            let packet = self.caller().packets[handle as usize].take().expect("it was queued");
            let why = DropReason::ALL[why as usize];
            drops.dropped(packet, why);
        }
    }

    fn offer(
        &mut self,
        now: Nanos,
        labels: fb_labels,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Packet { handle, len, ecn } = packet;
        let is_valid = (1..=self.max_len).contains(&len);
        let obstacle = match self.caller().packets.get(handle as usize) {
            Some(None) => None,
            Some(Some(_)) => Some(RejectReason::HandleInUse { handle }),
            None => Some(RejectReason::UnknownHandle { handle, descriptors: 0 }),
        };
        let labels = fb_labels { ecn: ecn.bits(), ..labels };
        if let Some(reason) = obstacle.filter(|_| is_valid) {
            // SAFETY: the queue has its block.
            let code =
                unsafe { enter(self.queue, |inner| inner.offer_unknown(now, labels, packet)) };
            assert_eq!(code, Ok(FB_E_FULL));
            return Err(Rejected { packet, reason });
        }
        if is_valid {
            self.caller().packets[handle as usize] = Some(packet);
            self.caller().labels[handle as usize] = labels;
        }
        let marked = self.stats().marked;
        let offered = fb_packet {
            cookie: ptr::without_provenance_mut(handle as usize),
            bytes: ptr::null(),
            bytes_len: 0,
            len,
            mark: 0,
            labels: &raw const labels,
        };
        // SAFETY: the packet and its labels outlive the call.
        let outcome = match unsafe { fb_enqueue(self.queue, now.0, &raw const offered) } {
            FB_OK => Ok(()),
            FB_E_LENGTH => Err(RejectReason::Length { len, max: self.max_len }),
            FB_E_FULL => Err(RejectReason::Full { limits: Limits::NONE }),
            code => {
                assert_eq!(code, FB_E_AQM);
                Err(RejectReason::Aqm)
            }
        };
        if is_valid && outcome.is_err() {
            self.caller().packets[handle as usize] = None;
        } else if is_valid && self.stats().marked > marked {
            // Marked on arrival.
            self.caller().packets[handle as usize] = Some(Packet { ecn: Ecn::Ce, ..packet });
        }
        self.hand_drops_to(drops);
        outcome.map_err(|reason| Rejected { packet, reason })
    }
}

impl Scheduler for ThroughC {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, (self.label)(flow.0), packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let mut departure = fb_departure { cookie: ptr::null_mut(), len: 0, mark_ce: 0 };
        // SAFETY: the queue has its block.
        let found = unsafe { fb_dequeue(self.queue, now.0, &raw mut departure) };
        let left = (found == 1).then(|| {
            let place = &mut self.caller().packets[departure.cookie.addr()];
            let packet = place.take().expect("it was queued");
            assert_eq!(departure.len, packet.len);
            if departure.mark_ce == 1 { Packet { ecn: Ecn::Ce, ..packet } } else { packet }
        });
        self.hand_drops_to(drops);
        left
    }

    fn peek(&self, _: Nanos) -> Option<Packet> {
        unreachable!("no run peeks")
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        let mut at = 0;
        // SAFETY: the queue has its block.
        let found = unsafe { fb_poll_at(self.queue, now.0, &raw mut at) };
        (found == 1).then_some(Nanos(at))
    }

    fn books(&self) -> Books {
        let stats = self.stats();
        let volume = |of: fb_volume| Volume { packets: of.packets, bytes: of.bytes };
        let held = |of: fb_volume| Backlog { packets: of.packets as u32, bytes: of.bytes as u32 };
        let mut counters = Counters::default();
        counters.accepted = volume(stats.accepted);
        counters.rejected = volume(stats.rejected);
        counters.delivered = volume(stats.delivered);
        counters.marked = stats.marked;
        counters.peak = held(stats.peak);
        for (&why, of) in DropReason::ALL.iter().zip(stats.dropped) {
            // All bytes with the first packet.
            for number in 0..of.packets {
                counters.count_dropped(why, if number == 0 { of.bytes as u32 } else { 0 });
            }
        }
        Books { backlog: held(stats.queued), counters, limits: Limits::NONE }
    }

    fn backlog(&self) -> Backlog {
        let queued = self.stats().queued;
        Backlog { packets: queued.packets as u32, bytes: queued.bytes as u32 }
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        // SAFETY: the queue has its block.
        let code = unsafe { fb_set_limits(self.queue, limits.packets, limits.bytes) };
        assert_eq!(code, FB_OK);
        self.hand_drops_to(drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        // SAFETY: the queue has its block.
        let is_done = unsafe { fb_evict(self.queue) } == 1;
        self.hand_drops_to(drops);
        is_done
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        // SAFETY: the queue has its block.
        assert_eq!(unsafe { fb_drain(self.queue) }, FB_OK);
        self.hand_drops_to(drops);
    }

    fn recount(&self) -> Result<(), Imbalance> {
        unreachable!("no run recounts")
    }
}

fn in_c(labels: InTin<Labels>) -> fb_labels {
    let InTin { labels: Labels { flow, src_host: source, dst_host: destination }, tin } = labels;
    fb_labels { flow, source, destination, tin, ecn: 0 }
}

impl Assembled for ThroughC {
    fn enqueue_with_labels(
        &mut self,
        now: Nanos,
        labels: InTin<Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, in_c(labels), packet, drops)
    }

    fn change(
        &mut self,
        now: Nanos,
        change: Change,
        labels_of: impl Fn(u32) -> InTin<Labels>,
    ) -> bool {
        for (handle, labels) in (0..).zip(&mut self.caller().labels) {
            *labels = in_c(labels_of(handle));
        }
        let mut settings = QueueSettings::NONE;
        match change {
            Change::Rate(rate) => settings.rate = Some(rate),
            Change::Tins(mode) => settings.tins = Some(mode.plan()),
            Change::Isolation(mode) => settings.isolation = Some(mode),
            Change::Filter(filter) => settings.ack_filter = Some(filter),
            Change::Aqm(kind) => settings.aqm = Some(kind),
            Change::Rtt(rtt) => settings.rtt = Some(rtt),
            Change::Link(link) => settings.framing = Some((link, link)),
            Change::Ingress(on) => settings.ingress = Some(on),
            Change::L4s(on) => settings.l4s = Some(on),
        }
        let words = CString::new(settings.to_string()).expect("no zero");
        // SAFETY: the queue has its block.
        unsafe { fb_set(self.queue, now.0, words.as_ptr(), ptr::null_mut()) == FB_OK }
    }
}

impl Drop for ThroughC {
    fn drop(&mut self) {
        // SAFETY: it was made by `Box::into_raw`, and no call of the queue comes after this.
        drop(unsafe { std::boxed::Box::from_raw(self.caller) });
    }
}

/// Returns the labels of a flow by its number, as the catalog does with `TINS` tins.
fn shared<const TINS: u32>(flow: u32) -> fb_labels {
    let (source, destination, tin) = (flow >> 1, flow % 3, (flow % TINS) as u8);
    fb_labels { flow, source, destination, tin, ecn: 0 }
}

/// Goal: the queue behaves through C as it does in Rust. Method: the pinned runs of smart queues,
/// with the same hashes of every packet, drop, rejection and counter.
#[test]
fn every_pinned_run_of_a_smart_queue_is_equal_through_c() {
    let own = |flow| fb_labels { flow, source: flow, destination: flow, tin: 0, ecn: 0 };
    let one = fb_config { max_len: golden::ENTRY_MAX_LEN, ..config() };
    let several = fb_config { tins: 8, rounds: 16, ..one };
    type Label = fn(u32) -> fb_labels;
    let (three, four, eight): (Label, Label, Label) = (shared::<3>, shared::<4>, shared::<8>);
    let entries: &[(&str, fb_config, &str, Label)] = &[
        ("smart", one, "cobalt datacentre", own),
        ("smart_pie", one, "pie datacentre", own),
        ("smart_pi2", one, "pi2 datacentre", own),
        ("smart_red", one, "red datacentre", own),
        ("smart_blue", one, "blue datacentre", own),
        ("smart_tins", several, "dual-srchost diffserv4", four),
        ("smart_triple_tins", several, "triple-isolate diffserv3", three),
        ("smart_triple_tins_across", several, "triple-isolate diffserv4 hosts-across-tins", four),
        ("smart_tins_across", several, "dual-srchost diffserv8 hosts-across-tins", eight),
    ];
    let all = golden::CATALOG.into_iter().flatten().map(|entry| entry.name);
    assert!(all.filter(|name| name.starts_with("smart")).eq(entries.iter().map(|entry| entry.0)));
    let mut wrong = Vec::new();
    for &(name, config, settings, label) in entries {
        let hash = golden::run_entry(&mut ThroughC::new(config, settings, label), name);
        if golden::pinned(name) != Some(hash) {
            wrong.push(name);
        }
    }
    let settings = "bandwidth 2mbit diffserv4 dual-srchost pppoe-llcsnap metro ack-filter";
    let config = fb_config { max_len: golden::MAX_LEN, ..several };
    let hash = golden::run_assembled(ThroughC::new(config, settings, own));
    let is_smart = |run: &&golden::Run| run.name.starts_with("smart queue");
    let runs: Vec<_> = golden::ALL.iter().filter(is_smart).collect();
    assert_eq!(runs.len(), 1);
    wrong.extend(runs.iter().filter(|run| run.pinned != hash).map(|run| run.name));
    assert!(wrong.is_empty(), "{wrong:?}");
}
