//! Constants and structs of the header.

use core::ffi::{c_char, c_void};

/// Number of the binary interface; equal to that of `fb_abi()` if header and library fit.
pub const FB_ABI: u32 = 1;

/// Success.
pub const FB_OK: i32 = 0;
/// A pointer is NULL, or the packet has neither `bytes` nor `labels`.
pub const FB_E_NULL: i32 = -1;
/// The call comes from a `drop` or `read` function of this queue.
pub const FB_E_BUSY: i32 = -2;
/// The field `size` of a struct is not that of the library's version.
pub const FB_E_SIZE: i32 = -3;
/// The block of memory is too short.
pub const FB_E_MEMORY: i32 = -4;
/// A number, or a combination of settings, is out of range.
pub const FB_E_RANGE: i32 = -5;
/// A keyword of the settings is wrong.
pub const FB_E_KEYWORD: i32 = -6;
/// The packet has no bytes, or more than `max_len`.
pub const FB_E_LENGTH: i32 = -7;
/// The packet does not fit into the limits, even after drops of others.
pub const FB_E_FULL: i32 = -8;
/// The AQM has dropped the packet on arrival: its sender should slow down.
pub const FB_E_AQM: i32 = -9;
/// The settings need a `read` function.
pub const FB_E_READ: i32 = -10;

/// Reason of a drop: the queue was full, and this was a packet of a host with about the longest
/// backlog.
pub const FB_DROP_OVERFLOW: u32 = 0;
/// Reason of a drop: the AQM.
pub const FB_DROP_AQM: u32 = 1;
/// Reason of a drop: a limit was set below the backlog.
pub const FB_DROP_LIMIT: u32 = 2;
/// Reason of a drop: `fb_drain`.
pub const FB_DROP_DRAINED: u32 = 4;
/// Reason of a drop: an acknowledgement that a later one made redundant.
pub const FB_DROP_FILTERED: u32 = 6;
/// Number of reasons; others are not used.
pub const FB_DROPS: usize = 7;

/// Direction of a queue: the hosts that share the link are the sources of packets.
pub const FB_UPLOAD: u8 = 0;
/// Direction of a queue: the hosts that share the link are the destinations of packets.
pub const FB_DOWNLOAD: u8 = 1;

/// Layer of a queue: packets begin with an Ethernet header.
pub const FB_ETHERNET: u8 = 0;
/// Layer of a queue: packets begin with an IP header.
pub const FB_IP: u8 = 1;

/// Rate of `fb_set_rate` without a limit.
pub const FB_UNLIMITED: u64 = u64::MAX;
/// Capacity of `fb_set_device` if the device takes every packet.
pub const FB_READY: u32 = u32::MAX;

/// Length of the text of an `fb_error`.
pub const FB_TEXT: usize = 160;

/// Bytes of a block, whatever its numbers: see `FB_BYTES`.
pub const FB_BYTES_FIXED: usize = 2784;
/// Bytes of a block for each queue.
pub const FB_BYTES_PER_QUEUE: usize = 84;
/// Bytes of a block for each host, beside those in each tin.
pub const FB_BYTES_PER_HOST: usize = 128;
/// Bytes of a block for each host in each tin.
pub const FB_BYTES_PER_HOST_IN_TIN: usize = 52;
/// Bytes of a block for each tin.
pub const FB_BYTES_PER_TIN: usize = 416;
/// Bytes of a block for each packet.
pub const FB_BYTES_PER_PACKET: usize = 32;
/// Bytes of a block for each round.
pub const FB_BYTES_PER_ROUND: usize = 9;

/// Flow, hosts and tin of a packet, for packets that are not IP or that you have identified
/// yourself. All bits of a number matter: spread small numbers with `fb_mix`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct fb_labels {
    /// The flow.
    pub flow: u32,
    /// The source host.
    pub source: u32,
    /// The destination host.
    pub destination: u32,
    /// The tin (traffic class), below the number of tins; the first one if it is not.
    pub tin: u8,
    /// The ECN bits of the packet, 0 to 3: 0 if it cannot be marked.
    pub ecn: u8,
}

/// A packet that arrives.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fb_packet {
    /// Yours; comes out once, from `fb_dequeue` or to `drop`.
    pub cookie: *mut c_void,
    /// The packet, or its headers; read during the call only. NULL with `labels`.
    pub bytes: *const u8,
    /// Number of bytes at `bytes`.
    pub bytes_len: usize,
    /// Length of the whole packet in bytes.
    pub len: u32,
    /// Mark of a firewall that selects the tin (keyword `fwmark`), or 0.
    pub mark: u32,
    /// Flow, hosts and tin; NULL to read them from `bytes`.
    pub labels: *const fb_labels,
}

/// A packet that leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fb_departure {
    /// The cookie that it came with.
    pub cookie: *mut c_void,
    /// Its length in bytes.
    pub len: u32,
    /// 1 if the AQM has marked it: call `fb_mark_ce` before you send it.
    pub mark_ce: u32,
}

/// Configuration of a queue. Set all of it to 0 first, then `size` and what you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fb_config {
    /// `sizeof(fb_config)`.
    pub size: u32,
    /// Number of queues, which is that of flows without collisions: a power of two, 8 or more.
    /// Queues and hosts together: at most 65,535.
    pub queues: u32,
    /// Number of hosts: a power of two, 8 or more.
    pub hosts: u32,
    /// Number of packets that can be queued, 1 or more.
    pub packets: u32,
    /// Length of the longest packet in bytes, up to 1,048,576; 0 for 1,522 (Ethernet) or 1,500
    /// (IP).
    pub max_len: u32,
    /// Number of tins that can be set, 1 to 8; 0 for 1.
    pub tins: u32,
    /// Rounds of the calendar of `triple-isolate`, 2 for each tin to 4,096; 0 without this mode.
    pub rounds: u32,
    /// `FB_UPLOAD` or `FB_DOWNLOAD`.
    pub direction: u8,
    /// `FB_ETHERNET` or `FB_IP`.
    pub layer: u8,
    /// 16 random bytes, drawn at each start and kept secret: who knows them can force collisions
    /// with other flows.
    pub key: [u8; 16],
    /// Keywords of tc for CAKE, as `bandwidth 20mbit diffserv4 pppoe-ptm`; NULL for an unlimited
    /// rate and defaults. `nat`, `wash`, `autorate-ingress` and `split-gso` have no effect: they
    /// need the bytes, or a clock.
    pub settings: *const c_char,
    /// Passed to `drop` and `read`.
    pub user: *mut c_void,
    /// Takes back the cookie of a packet that is dropped after it was enqueued. It may not call
    /// this queue, and must return: no exception of C++, no `longjmp`.
    pub drop: Option<unsafe extern "C" fn(user: *mut c_void, cookie: *mut c_void, reason: u32)>,
    /// Fills in `bytes`, `bytes_len`, `mark` and `labels` of the packet with this cookie, which is
    /// queued or has just been passed to `fb_enqueue`, as at its arrival
    /// (`labels` with the tin under the new settings). NULL without the ACK filter, `fb_rekey`,
    /// and changes of isolation and tins while packets are queued. It may not call this queue, and
    /// must return.
    pub read: Option<
        unsafe extern "C" fn(user: *mut c_void, cookie: *mut c_void, packet: *mut fb_packet),
    >,
}

/// An error with text.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fb_error {
    /// `FB_OK`, or the error.
    pub code: i32,
    /// With `FB_E_KEYWORD`: the offset of the wrong word in the settings, in bytes.
    pub offset: u32,
    /// The value and what was expected; empty with `FB_OK`.
    pub text: [c_char; FB_TEXT],
}

/// A number of packets and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct fb_volume {
    /// Packets.
    pub packets: u64,
    /// Bytes, by `len`.
    pub bytes: u64,
}

/// Statistics since `fb_init`. Set `size` first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct fb_stats {
    /// `sizeof(fb_stats)`.
    pub size: u32,
    /// The number of packets that can be queued.
    pub capacity: u32,
    /// Source hosts with queued packets; 0 if sources are not isolated.
    pub sources: u32,
    /// Destination hosts with queued packets; 0 if destinations are not isolated.
    pub destinations: u32,
    /// The rate in bits per second; `FB_UNLIMITED` without a limit.
    pub rate: u64,
    /// Queued now.
    pub queued: fb_volume,
    /// The largest backlogs; packets and bytes at times of their own.
    pub peak: fb_volume,
    /// Enqueued.
    pub accepted: fb_volume,
    /// Not enqueued: `fb_enqueue` returned an error.
    pub rejected: fb_volume,
    /// Dequeued.
    pub delivered: fb_volume,
    /// Dropped, by reason.
    pub dropped: [fb_volume; FB_DROPS],
    /// Packets with a congestion mark of the AQM.
    pub marked: u64,
}
