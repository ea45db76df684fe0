//! Errors, callbacks and bursts.

use core::ffi::c_void;
use core::ptr;
use std::vec::Vec;

use super::{Queue, config, text};
use crate::*;

static LABELS: fb_labels = fb_labels { flow: 1, source: 1, destination: 2, tin: 0, ecn: 2 };

/// Returns an IPv4 packet of UDP, ECN-capable, with this last byte of the source.
const fn udp(last: u8) -> [u8; 60] {
    let mut bytes = [0; 60];
    // IPv4 with ECT(0), 60 bytes, UDP, from 10.0.0.`last` to 192.0.2.1.
    (bytes[0], bytes[1], bytes[3], bytes[8], bytes[9]) = (0x45, 2, 60, 64, 17);
    (bytes[12], bytes[15], bytes[16], bytes[18], bytes[19]) = (10, last, 192, 2, 1);
    (bytes[20], bytes[21], bytes[22], bytes[23]) = (0x13, 0x88, 0x01, 0xbb);
    bytes
}

/// Goal: a NULL pointer is an error in each function. Method: each function with each of its
/// pointers NULL.
#[test]
fn null_pointers_are_errors() {
    let queue = Queue::new(config()).unwrap();
    let (no_queue, mut at) = (ptr::null_mut(), 0);
    let mut departure = fb_departure { cookie: ptr::null_mut(), len: 0, mark_ce: 0 };
    let mut stats = fb_stats { size: size_of::<fb_stats>() as u32, ..fb_stats::default() };
    let packet = fb_packet {
        cookie: ptr::null_mut(),
        bytes: ptr::null(),
        bytes_len: 0,
        len: 60,
        mark: 0,
        labels: ptr::null(),
    };
    let labelled = fb_packet { labels: &raw const LABELS, ..packet };
    let mut taken = 7;
    // SAFETY: what is not NULL is valid for its call.
    let codes = unsafe {
        [
            fb_enqueue(no_queue, 0, &raw const labelled),
            fb_enqueue(queue.queue, 0, ptr::null()),
            fb_enqueue(queue.queue, 0, &raw const packet),
            fb_enqueue_burst(queue.queue, 0, ptr::null(), 1, &raw mut taken),
            fb_dequeue(no_queue, 0, &raw mut departure),
            fb_dequeue(queue.queue, 0, ptr::null_mut()),
            fb_dequeue_burst(no_queue, 0, &raw mut departure, 1),
            fb_dequeue_burst(queue.queue, 0, ptr::null_mut(), 1),
            fb_poll_at(no_queue, 0, &raw mut at),
            fb_poll_at(queue.queue, 0, ptr::null_mut()),
            fb_set(no_queue, 0, c"".as_ptr(), ptr::null_mut()),
            fb_set_rate(no_queue, 0, 0),
            fb_set_device(no_queue, 0),
            fb_set_limits(no_queue, 0, 0),
            fb_rekey(no_queue, [0; 16].as_ptr()),
            fb_rekey(queue.queue, ptr::null()),
            fb_evict(no_queue),
            fb_drain(no_queue),
            fb_get_stats(no_queue, &raw mut stats),
            fb_get_stats(queue.queue, ptr::null_mut()),
            fb_mark_ce(FB_IP, ptr::null_mut(), 20),
        ]
    };
    assert_eq!(codes, [FB_E_NULL; 21]);
    assert_eq!((taken, queue.stats().accepted), (0, fb_volume::default()));

    let mut block = [0_u8; 64];
    let (at, len) = (block.as_mut_ptr().cast(), block.len());
    let (config, mut built) = (config(), ptr::null_mut());
    let mut error = fb_error::NONE;
    let mut init = |at: *mut c_void, config: *const fb_config, built: *mut *mut fb_queue| {
        // SAFETY: as above.
        unsafe { fb_init(at, len, config, built, &raw mut error) };
        (error.code, text(&error))
    };
    let null = |what: &str| (FB_E_NULL, what.into());
    let own = "block or queue is NULL";
    assert_eq!(init(ptr::null_mut(), &raw const config, &raw mut built), null(own));
    assert_eq!(init(at, &raw const config, ptr::null_mut()), null(own));
    assert_eq!(init(at, ptr::null(), &raw mut built), null("config is NULL"));
    assert_eq!(init(at, &raw const config, &raw mut built), null("drop is NULL"));
    assert!(built.is_null());
    // SAFETY: as above.
    assert_eq!(unsafe { fb_bytes(ptr::null()) }, 0);
}

/// Goal: a wrong configuration names the value and what was expected, and builds nothing. Method:
/// each number, the size, and settings.
#[test]
fn wrong_configurations_are_named() {
    let wrong = |config| Queue::new(config).map(|_| ()).map_err(|error| (error.code, text(&error)));
    let range = |what: &str| Err((FB_E_RANGE, what.into()));
    let base = config();
    assert_eq!(wrong(base), Ok(()));
    let queues = "queues or hosts: 60 (expected a power of two, 8 or more)";
    assert_eq!(wrong(fb_config { queues: 60, ..base }), range(queues));
    let hosts = "queues or hosts: 4 (expected a power of two, 8 or more)";
    assert_eq!(wrong(fb_config { hosts: 4, ..base }), range(hosts));
    assert_eq!(wrong(fb_config { packets: 0, ..base }), range("packets: 0 (expected 1 or more)"));
    let tins = "tins 9 is out of range (expected 1 to 8)";
    assert_eq!(wrong(fb_config { tins: 9, ..base }), range(tins));
    let rounds = "rounds of the calendar 1 is out of range (expected 2 to 4096)";
    assert_eq!(wrong(fb_config { rounds: 1, ..base }), range(rounds));
    let direction = "direction 2 is out of range (expected 0 to 1)";
    assert_eq!(wrong(fb_config { direction: 2, ..base }), range(direction));
    let layer = "layer 3 is out of range (expected 0 to 1)";
    assert_eq!(wrong(fb_config { layer: 3, ..base }), range(layer));
    let settings = c"triple-isolate".as_ptr();
    let triple =
        "triple-isolate: `rounds` is 0 (expected 2 or more for each tin, or another isolation)";
    assert_eq!(wrong(fb_config { settings, ..base }), range(triple));
    let settings = c"diffserv4".as_ptr();
    let tins = "tins (for the settings): 1 (expected 4 or more)";
    assert_eq!(wrong(fb_config { settings, ..base }), range(tins));
    assert_eq!(wrong(fb_config { settings, tins: 3, ..base }), Ok(()));
    let settings = c"memlimit 100b".as_ptr();
    let limit = "memory limit in bytes: 100 (expected 1500 or more)";
    assert_eq!(wrong(fb_config { settings, ..base }), range(limit));
    let settings = c"ack-filter".as_ptr();
    let read = Err((FB_E_READ, "the ACK filter needs a function `read`".into()));
    assert_eq!(wrong(fb_config { settings, ..base }), read);

    let size = size_of::<fb_config>() as u32;
    for given in [0, size - 1, size + 8] {
        // Not built by `Queue`, which asks for the bytes of a block first.
        let (config, mut block) = (fb_config { size: given, ..base }, [0_u8; 8]);
        let (mut built, mut error) = (ptr::null_mut(), fb_error::NONE);
        // SAFETY: no field but the size is read.
        unsafe {
            let at = block.as_mut_ptr().cast();
            assert_eq!(fb_bytes(&raw const config), 0);
            fb_init(at, 8, &raw const config, &raw mut built, &raw mut error);
        }
        assert_eq!(error.code, FB_E_SIZE);
        assert_eq!(text(&error), std::format!("size of fb_config: {given} (expected {size})"));
    }
}

/// Goal: a wrong keyword is named with its offset and what was expected, at start and at run time,
/// and changes nothing. Method: one error of each kind.
#[test]
fn wrong_keywords_are_named() {
    let queue = Queue::new(config()).unwrap();
    for (words, offset, said) in [
        (c"bandwidth 20mbit difserv4", 17, "no such word; did you mean `diffserv4`?"),
        (c"xyzzyxyzzy", 0, "no such word (expected a keyword of tc for CAKE)"),
        (c"bandwidth", 0, "needs a rate from 1kbit to 400gbit, `unlimited` or `stopped` after it"),
        (c"no-aqm rtt soon", 11, "expected a time from 20480ns to 8589934591ns, as 30ms"),
        (c"share 1/2", 0, "expected after `tin NAME`"),
        (c"flowblind", 0, "not supported; "),
        (c"tin a tin a", 6, "two tins have this name (expected different names)"),
        (c"overhead x", 0, "expected "),
    ] {
        let error = queue.set(0, words);
        assert_eq!((error.code, error.offset), (FB_E_KEYWORD, offset), "{words:?}");
        assert!(text(&error).contains(said), "{words:?}: {}", text(&error));
        assert!(text(&error).starts_with(&std::format!("at byte {offset}, `")));
        let started = Queue::new(fb_config { settings: words.as_ptr(), ..config() });
        assert_eq!(started.err().map(|error| error.code), Some(FB_E_KEYWORD));
    }
    let latin = c"bandwidth \xe4".as_ptr();
    let started = Queue::new(fb_config { settings: latin, ..config() });
    assert_eq!(started.err().map(|error| (error.code, error.offset)), Some((FB_E_KEYWORD, 10)));
    assert_eq!(queue.stats().rate, FB_UNLIMITED);
}

/// Goal: a block works at any address, one byte less than `fb_bytes` is refused, and the header's
/// macro gives enough. Method: several configurations at each offset; nothing around the block is
/// written.
#[test]
fn any_block_of_enough_bytes_does() {
    for (queues, hosts, tins, packets, rounds) in
        [(8, 8, 0, 1, 0), (64, 16, 1, 256, 2), (64, 64, 3, 7, 100), (128, 8, 8, 33, 64)]
    {
        let settings = if rounds > 0 { c"triple-isolate".as_ptr() } else { ptr::null() };
        let config = fb_config { queues, hosts, tins, packets, rounds, settings, ..config() };
        let config = fb_config { drop: Some(ignored), ..config };
        // SAFETY: the configuration is whole.
        let bytes = unsafe { fb_bytes(&raw const config) };
        let tables = u32::max(1, tins).next_power_of_two() as usize;
        let promised = FB_BYTES_FIXED
            + FB_BYTES_PER_QUEUE * queues as usize
            + (FB_BYTES_PER_HOST + FB_BYTES_PER_HOST_IN_TIN * tables) * hosts as usize
            + FB_BYTES_PER_TIN * tables
            + FB_BYTES_PER_PACKET * packets as usize
            + FB_BYTES_PER_ROUND * rounds as usize;
        assert!(bytes <= promised, "{bytes} > {promised}");
        for offset in [0, 1, 4, 8, 63] {
            let mut memory = std::vec![0xa5_u8; bytes + 128];
            let at = memory[offset..].as_mut_ptr();
            let (mut queue, mut error) = (ptr::null_mut(), fb_error::NONE);
            let mut init = |len| {
                let (queue, error) = (&raw mut queue, &raw mut error);
                // SAFETY: the memory is not used otherwise until the queue is no longer used.
                unsafe { fb_init(at.cast(), len, &raw const config, queue, error) }
            };
            assert_eq!(init(bytes - 1), FB_E_MEMORY);
            assert_eq!(init(bytes), FB_OK);
            assert_eq!(init(bytes - 1), FB_E_MEMORY);
            assert!(!queue.is_null());
            let (given, what) = (bytes - 1, "bytes of the block");
            assert_eq!(text(&error), std::format!("{what}: {given} (expected {bytes} or more)"));
            let around = memory[..offset].iter().chain(&memory[offset + bytes..]);
            assert!(around.copied().all(|byte| byte == 0xa5));
        }
    }
}

unsafe extern "C" fn ignored(_: *mut c_void, _: *mut c_void, _: u32) {}

/// Goal: every cookie comes out once, and a call that fails has changed nothing. Method: more
/// packets than there is place for, packets out of range, limits, the reasons of all drops, and a
/// drain.
#[test]
fn every_cookie_comes_out_once() {
    let queue = Queue::new(config()).unwrap();
    for (len, code) in [(0, FB_E_LENGTH), (1_501, FB_E_LENGTH), (1_500, FB_OK), (1, FB_OK)] {
        assert_eq!(queue.enqueue(0, &LABELS, len, len as usize), code, "{len}");
    }
    // A light host; then the heavy one fills the queue of eight.
    let light = fb_labels { flow: 2, source: 2, ..LABELS };
    assert_eq!(queue.enqueue(0, &light, 100, 2), FB_OK);
    assert_eq!(queue.drops(), []);
    for cookie in 10..17 {
        assert_eq!(queue.enqueue(0, &LABELS, 1_000, cookie), FB_OK);
    }
    assert_eq!(queue.drops(), [(1_500, FB_DROP_OVERFLOW), (1, FB_DROP_OVERFLOW)]);
    let stats = queue.stats();
    assert_eq!((stats.queued.packets, stats.capacity), (8, 8));
    assert_eq!((stats.accepted.packets, stats.rejected.packets), (10, 2));
    assert_eq!(stats.dropped[FB_DROP_OVERFLOW as usize].packets, 2);
    assert_eq!((stats.sources, stats.destinations), (2, 0));

    let mut cookies: Vec<usize> = Vec::new();
    for departure in core::iter::from_fn(|| queue.dequeue(1_000)).take(4) {
        cookies.push(departure.cookie.addr());
        let len = if departure.cookie.addr() == 2 { 100 } else { 1_000 };
        assert_eq!((departure.len, departure.mark_ce), (len, 0));
    }
    assert!(cookies.contains(&2), "the light host is served in its turn: {cookies:?}");
    // SAFETY: the queue has its block.
    unsafe {
        assert_eq!(fb_set_limits(queue.queue, 3, u32::MAX), FB_OK);
        assert_eq!(queue.drops().len(), 1);
        assert_eq!(fb_set_limits(queue.queue, 0, 100), FB_OK);
        assert_eq!(queue.drops().iter().map(|drop| drop.1).collect::<Vec<_>>(), [FB_DROP_LIMIT; 3]);
    }
    assert_eq!(queue.enqueue(0, &LABELS, 60, 99), FB_E_FULL);
    // SAFETY: the queue has its block.
    unsafe {
        assert_eq!(fb_evict(queue.queue), 0);
        assert_eq!(fb_set_limits(queue.queue, 8, u32::MAX), FB_OK);
    }
    assert_eq!(queue.enqueue(0, &LABELS, 60, 20), FB_OK);
    assert_eq!(queue.enqueue(0, &LABELS, 60, 21), FB_OK);
    // SAFETY: the queue has its block.
    unsafe {
        assert_eq!(fb_evict(queue.queue), 1);
        assert_eq!(queue.drops(), [(20, FB_DROP_OVERFLOW)]);
        assert_eq!(fb_drain(queue.queue), FB_OK);
        assert_eq!(queue.drops(), [(21, FB_DROP_DRAINED)]);
    }
}

/// Goal: a function that calls the queue back gets an error and changes nothing. Method: a `drop`
/// function that calls each function.
#[test]
fn calls_from_a_callback_are_refused() {
    struct Caller {
        queue: *mut fb_queue,
        codes: Vec<i32>,
    }
    unsafe extern "C" fn calling(user: *mut c_void, cookie: *mut c_void, _: u32) {
        // SAFETY: `user` is the caller, which nothing else borrows meanwhile.
        let caller = unsafe { &mut *user.cast::<Caller>() };
        let (queue, mut at) = (caller.queue, 0);
        let mut departure = fb_departure { cookie, len: 0, mark_ce: 0 };
        let mut stats = fb_stats { size: size_of::<fb_stats>() as u32, ..fb_stats::default() };
        let packet = fb_packet {
            cookie,
            bytes: ptr::null(),
            bytes_len: 0,
            len: 60,
            mark: 0,
            labels: &raw const LABELS,
        };
        // SAFETY: the queue has its block.
        caller.codes.extend(unsafe {
            [
                fb_enqueue(queue, 0, &raw const packet),
                fb_enqueue_burst(queue, 0, &raw const packet, 1, ptr::null_mut()),
                fb_dequeue(queue, 0, &raw mut departure),
                fb_dequeue_burst(queue, 0, &raw mut departure, 1),
                fb_poll_at(queue, 0, &raw mut at),
                fb_set(queue, 0, c"flows".as_ptr(), ptr::null_mut()),
                fb_set_rate(queue, 0, 0),
                fb_set_device(queue, 0),
                fb_set_limits(queue, 0, 0),
                fb_rekey(queue, [0; 16].as_ptr()),
                fb_evict(queue),
                fb_drain(queue),
                fb_get_stats(queue, &raw mut stats),
            ]
        });
    }
    let mut caller = Caller { queue: ptr::null_mut(), codes: Vec::new() };
    let user = &raw mut caller;
    let config = fb_config { drop: Some(calling), user: user.cast(), packets: 2, ..config() };
    // SAFETY: the configuration is whole, and the block is not used otherwise. What `user` points
    // to is borrowed here only between calls.
    unsafe {
        let mut block = std::vec![0_u8; fb_bytes(&raw const config)];
        let (at, len) = (block.as_mut_ptr().cast(), block.len());
        let built = &raw mut (*user).queue;
        assert_eq!(fb_init(at, len, &raw const config, built, ptr::null_mut()), FB_OK);
        let queue = (*user).queue;
        let packet = fb_packet {
            cookie: ptr::null_mut(),
            bytes: ptr::null(),
            bytes_len: 0,
            len: 60,
            mark: 0,
            labels: &raw const LABELS,
        };
        for _ in 0..3 {
            assert_eq!(fb_enqueue(queue, 0, &raw const packet), FB_OK);
        }
        assert_eq!((*user).codes, [FB_E_BUSY; 13]);
        let mut stats = fb_stats { size: size_of::<fb_stats>() as u32, ..fb_stats::default() };
        assert_eq!(fb_get_stats(queue, &raw mut stats), FB_OK);
        assert_eq!((stats.queued.packets, stats.rate), (2, FB_UNLIMITED));
    }
}

/// Goal: flows and hosts are read from bytes, congestion marks are reported and written, and both
/// layers are parsed. Method: packets of two hosts behind a slow link.
#[test]
fn headers_are_read_and_marks_are_written() {
    let settings = c"bandwidth 1mbit codel rtt 20ms".as_ptr();
    let queue = Queue::new(fb_config { settings, packets: 600, ..config() }).unwrap();
    for number in 0..500 {
        assert_eq!(queue.enqueue_bytes(0, &udp(number as u8 % 2), number), FB_OK);
    }
    assert_eq!(queue.stats().sources, 2);
    let (mut now, mut marked) = (0, 0);
    for _ in 0..500 {
        let mut at = 0;
        // SAFETY: the queue has its block.
        if unsafe { fb_poll_at(queue.queue, now, &raw mut at) } == 0 {
            break;
        }
        now = at;
        marked += queue.dequeue(now).map_or(0, |departure| departure.mark_ce);
    }
    assert!(marked > 0);
    assert_eq!(queue.stats().marked, marked.into());

    let mut bytes = udp(1);
    let mut frame = [0; 74];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..].copy_from_slice(&bytes);
    // SAFETY: the bytes are borrowed for the calls.
    unsafe {
        assert_eq!(fb_mark_ce(FB_IP, bytes.as_mut_ptr(), bytes.len()), 1);
        assert_eq!(fb_mark_ce(FB_ETHERNET, frame.as_mut_ptr(), frame.len()), 1);
        assert_eq!((bytes[1], frame[15]), (3, 3));
        bytes[1] = 0;
        assert_eq!(fb_mark_ce(FB_IP, bytes.as_mut_ptr(), bytes.len()), 0);
        assert_eq!(fb_mark_ce(FB_IP, bytes.as_mut_ptr(), 3), 0);
    }
}

/// Goal: bursts are as single calls: all up to the first that fails, in order. Method: a burst with
/// a packet that is too long, and one out that is longer than the queue.
#[test]
fn bursts_end_at_the_first_failure() {
    let queue = Queue::new(fb_config { packets: 100, settings: c"no-aqm".as_ptr(), ..config() });
    let queue = queue.unwrap();
    let packets: Vec<fb_packet> = (0..60)
        .map(|number: usize| fb_packet {
            cookie: ptr::without_provenance_mut(number),
            bytes: ptr::null(),
            bytes_len: 0,
            len: if number == 50 { 9_000 } else { 100 },
            mark: 0,
            labels: &raw const LABELS,
        })
        .collect();
    let mut taken = 0;
    let mut out = [fb_departure { cookie: ptr::null_mut(), len: 0, mark_ce: 0 }; 64];
    // SAFETY: the packets and their labels outlive the calls, and there are 64 departures.
    unsafe {
        let (count, taken) = (packets.len(), &raw mut taken);
        assert_eq!(fb_enqueue_burst(queue.queue, 0, packets.as_ptr(), count, taken), FB_E_LENGTH);
        assert_eq!(*taken, 50);
        let rest = &packets[51..];
        assert_eq!(fb_enqueue_burst(queue.queue, 0, rest.as_ptr(), rest.len(), taken), FB_OK);
        assert_eq!(*taken, 9);
        assert_eq!(fb_dequeue_burst(queue.queue, 0, out.as_mut_ptr(), 40), 40);
        assert_eq!(fb_dequeue_burst(queue.queue, 0, out[40..].as_mut_ptr(), 24), 19);
    }
    let cookies: Vec<usize> = out[..59].iter().map(|departure| departure.cookie.addr()).collect();
    assert!(cookies.iter().copied().eq((0..60).filter(|&number| number != 50)));
}

/// Goal: rate and device decide when a packet leaves. Method: a stopped link, a busy device, and
/// one that takes as many bytes as a packet has.
#[test]
fn the_rate_and_the_device_are_heeded() {
    let queue = Queue::new(config()).unwrap();
    for cookie in 0..3 {
        assert_eq!(queue.enqueue(0, &LABELS, 1_000, cookie), FB_OK);
    }
    let mut at = 7;
    // SAFETY: the queue has its block.
    unsafe {
        assert_eq!(fb_set_rate(queue.queue, 0, 1), FB_E_RANGE);
        assert_eq!(fb_set_rate(queue.queue, 0, 0), FB_OK);
        assert_eq!((fb_poll_at(queue.queue, 0, &raw mut at), at), (0, 7));
        assert_eq!(fb_set_rate(queue.queue, 0, 8_000_000), FB_OK);
        assert_eq!(queue.stats().rate, 8_000_000);
        assert!(queue.dequeue(0).is_some() && queue.dequeue(0).is_none());
        assert_eq!((fb_poll_at(queue.queue, 0, &raw mut at), at), (1, 1_000_000));
        assert_eq!(fb_set_rate(queue.queue, 0, FB_UNLIMITED), FB_OK);
        assert_eq!(fb_set_device(queue.queue, 0), FB_OK);
        assert!(queue.dequeue(0).is_none());
        assert_eq!(fb_set_device(queue.queue, 1_000), FB_OK);
        assert!(queue.dequeue(0).is_some() && queue.dequeue(0).is_none());
        assert_eq!(fb_set_device(queue.queue, FB_READY), FB_OK);
    }
    assert!(queue.dequeue(0).is_some());
}

/// Goal: isolation, tins and key change while packets are queued only if they can be read, and no
/// packet is lost by that. Method: changes with and without a `read` function.
#[test]
fn queued_packets_are_read_again() {
    unsafe extern "C" fn read(_: *mut c_void, cookie: *mut c_void, packet: *mut fb_packet) {
        static PACKETS: [[u8; 60]; 4] = [udp(0), udp(1), udp(2), udp(3)];
        let bytes = &PACKETS[cookie.addr()];
        // SAFETY: the queue lends the packet for this call.
        let packet = unsafe { &mut *packet };
        (packet.bytes, packet.bytes_len) = (bytes.as_ptr(), bytes.len());
    }
    let key = [9; 16];
    let blind = Queue::new(fb_config { tins: 8, ..config() }).unwrap();
    let reading = Queue::new(fb_config { tins: 8, read: Some(read), ..config() }).unwrap();
    for queue in [&blind, &reading] {
        assert_eq!(queue.set(0, c"dual-dsthost").code, FB_OK, "nothing is queued");
        // SAFETY: the key has 16 bytes.
        assert_eq!(unsafe { fb_rekey(queue.queue, key.as_ptr()) }, FB_OK);
        for cookie in 0..4 {
            assert_eq!(queue.enqueue_bytes(0, &udp(cookie), cookie.into()), FB_OK);
        }
    }
    for words in [c"dual-srchost", c"diffserv4", c"ack-filter", c"flows diffserv8"] {
        let error = blind.set(0, words);
        assert_eq!(error.code, FB_E_READ, "{words:?}");
        assert!(text(&error).ends_with("needs a function `read`"), "{}", text(&error));
        assert_eq!(reading.set(0, words).code, FB_OK, "{words:?}");
    }
    assert_eq!(blind.set(0, c"dual-dsthost bandwidth 5mbit no-aqm").code, FB_OK);
    // SAFETY: the key has 16 bytes.
    unsafe {
        assert_eq!(fb_rekey(blind.queue, key.as_ptr()), FB_E_READ);
        assert_eq!(fb_rekey(reading.queue, key.as_ptr()), FB_OK);
    }
    assert_eq!(reading.set(0, c"dual-srchost").code, FB_OK);
    assert_eq!((blind.stats().destinations, reading.stats().sources), (1, 4));
    assert_eq!(reading.set(0, c"triple-isolate").code, FB_E_RANGE);
    let mut cookies: Vec<usize> = core::iter::from_fn(|| reading.dequeue(0))
        .map(|departure| departure.cookie.addr())
        .collect();
    cookies.sort_unstable();
    assert_eq!(cookies, [0, 1, 2, 3]);
    // A packet longer than the new limit goes to `drop`.
    assert_eq!(blind.set(0, c"memlimit 1500b").code, FB_OK);
    assert_eq!((blind.stats().queued.packets, blind.drops()), (4, Vec::new()));
}

/// Goal: texts exist for every code and reason, and the ABI is that of the header.
#[test]
fn codes_have_texts() {
    let text = |text: *const core::ffi::c_char| {
        // SAFETY: the functions return static strings.
        unsafe { core::ffi::CStr::from_ptr(text) }.to_str().unwrap()
    };
    let mut seen: Vec<&str> = (FB_E_READ..=FB_OK).map(|code| text(fb_error_text(code))).collect();
    assert_eq!(
        (text(fb_error_text(FB_E_READ - 1)), text(fb_error_text(1))),
        ("unknown code", "unknown code")
    );
    for reason in [FB_DROP_OVERFLOW, FB_DROP_AQM, FB_DROP_LIMIT, FB_DROP_DRAINED, FB_DROP_FILTERED]
    {
        let name = freeboard::sched_core::DropReason::ALL[reason as usize].name();
        assert_eq!(text(fb_drop_text(reason)), name);
        seen.push(name);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((seen.len(), text(fb_drop_text(3))), (16, "unknown reason"));
    assert_eq!((fb_abi(), fb_mix(7)), (FB_ABI, freeboard::flowhash::mix(7)));
    assert_eq!(FB_DROPS, freeboard::sched_core::DropReason::COUNT);
}
