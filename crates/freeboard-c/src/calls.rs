//! The functions of the header.
//!
//! Each one checks its pointers for NULL, and enters the queue only if no other call is inside.

use core::cell::{Cell, UnsafeCell};
use core::ffi::{CStr, c_char, c_void};

use freeboard::QueueSettings;
use freeboard::flowhash::mix;
use freeboard::sched_core::Limits;

use crate::block::Divider;
use crate::hooks::{Arrival, Hooks};
use crate::interface::*;
use crate::queue::{Inner, bytes, fb_queue, mark_ce, rate_of};
use crate::text::of_block;

/// Enters `queue` unless another call is inside.
///
/// # Safety
/// `queue` is NULL or was returned by `fb_init` for a block that is still the queue's, and no other
/// thread is inside.
pub(crate) unsafe fn enter<R>(
    queue: *const fb_queue,
    act: impl FnOnce(&mut Inner) -> R,
) -> Result<R, i32> {
    // SAFETY: by the contract of this function.
    let queue = unsafe { queue.as_ref() }.ok_or(FB_E_NULL)?;
    if queue.is_busy.replace(true) {
        return Err(FB_E_BUSY);
    }
    // SAFETY: `is_busy` was false, so no other call has borrowed it, and none does until it is
    // false again.
    let inner = unsafe { &mut *queue.inner.get() };
    let result = act(inner);
    queue.is_busy.set(false);
    Ok(result)
}

/// Writes `value` unless `place` is NULL.
///
/// # Safety
/// `place` is NULL or valid for a write.
unsafe fn write<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: by the contract of this function; it is not NULL.
        unsafe { place.write(value) };
    }
}

/// Reports an error and returns its code.
///
/// # Safety
/// `place` is NULL or valid for a write.
unsafe fn report(place: *mut fb_error, outcome: Result<(), fb_error>) -> i32 {
    let error = outcome.err().unwrap_or(fb_error::NONE);
    // SAFETY: by the contract of this function.
    unsafe { write(place, error) };
    error.code
}

/// Reads settings; none if `words` is NULL.
///
/// # Safety
/// `words` is NULL or a string that ends with a zero.
unsafe fn settings(words: *const c_char) -> Result<QueueSettings, fb_error> {
    if words.is_null() {
        return Ok(QueueSettings::NONE);
    }
    // SAFETY: by the contract of this function; it is not NULL.
    let words = unsafe { CStr::from_ptr(words) };
    let words = words.to_str().map_err(|error| {
        let offset = u32::try_from(error.valid_up_to()).unwrap_or(u32::MAX);
        let text = fb_error::new(FB_E_KEYWORD, "the settings are not UTF-8 (expected keywords)");
        fb_error { offset, ..text }
    })?;
    Ok(QueueSettings::from_words(words)?)
}

/// Reads a configuration of this version.
///
/// # Safety
/// `config` is NULL or points to a `fb_config` of as many bytes as its `size` says.
unsafe fn configuration(config: *const fb_config) -> Result<fb_config, fb_error> {
    if config.is_null() {
        return Err(fb_error::new(FB_E_NULL, "config is NULL"));
    }
    // SAFETY: by the contract of this function; `size` is the first field of every version.
    let given = unsafe { config.cast::<u32>().read() };
    let size = size_of::<fb_config>();
    if given as usize != size {
        let text = fb_error::new(FB_E_SIZE, "size of fb_config: ").with_number(given.into());
        return Err(text.with(" (expected ").with_number(size as u64).with(")"));
    }
    // SAFETY: as above, and it has the size of this version.
    Ok(unsafe { config.read() })
}

/// Returns `FB_ABI` of the library; another number than that of the header means that they do not
/// fit.
#[unsafe(no_mangle)]
pub extern "C" fn fb_abi() -> u32 {
    FB_ABI
}

/// Returns a text for a code, such as "the packet does not fit into the limits".
#[unsafe(no_mangle)]
pub extern "C" fn fb_error_text(code: i32) -> *const c_char {
    let text = match code {
        FB_OK => c"no error",
        FB_E_NULL => c"a pointer is NULL",
        FB_E_BUSY => c"called from a function of the queue's configuration",
        FB_E_SIZE => c"a struct has another size than in this library",
        FB_E_MEMORY => c"the block of memory is too short",
        FB_E_RANGE => c"a number or a combination of settings is out of range",
        FB_E_KEYWORD => c"a keyword of the settings is wrong",
        FB_E_LENGTH => c"the length of the packet is out of range",
        FB_E_FULL => c"the packet does not fit into the limits",
        FB_E_AQM => c"the AQM has dropped the packet",
        FB_E_READ => c"the settings need a function `read`",
        _ => c"unknown code",
    };
    text.as_ptr()
}

/// Returns a text for the reason of a drop, such as "overflow".
#[unsafe(no_mangle)]
pub extern "C" fn fb_drop_text(reason: u32) -> *const c_char {
    let text = match reason {
        FB_DROP_OVERFLOW => c"overflow",
        FB_DROP_AQM => c"aqm",
        FB_DROP_LIMIT => c"limit lowered",
        FB_DROP_DRAINED => c"drained",
        FB_DROP_FILTERED => c"filtered",
        _ => c"unknown reason",
    };
    text.as_ptr()
}

/// Spreads a small number, such as that of a port, for `fb_labels`.
#[unsafe(no_mangle)]
pub extern "C" fn fb_mix(number: u32) -> u32 {
    mix(number)
}

/// Returns how many bytes a block of this configuration takes, at any address; 0 if `config` is
/// NULL or of another version.
///
/// # Safety
/// `config` is NULL or points to a `fb_config` of as many bytes as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_bytes(config: *const fb_config) -> usize {
    // SAFETY: by the contract of this function.
    unsafe { configuration(config) }.map_or(0, |config| bytes(&config))
}

/// Builds a queue in `block`, at any address, and writes a pointer to it to `queue`. The block is
/// the queue's until you stop using it; before that, `fb_drain` hands back all packets. `error` may
/// be NULL.
///
/// # Safety
/// The block is valid for `len` bytes and used by nothing else; `config` and the functions in it
/// are as the header says; the other pointers are NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_init(
    block: *mut c_void,
    len: usize,
    config: *const fb_config,
    queue: *mut *mut fb_queue,
    error: *mut fb_error,
) -> i32 {
    // SAFETY: by the contract of this function.
    let outcome = unsafe { build(block, len, config, queue) };
    // SAFETY: by the contract of this function.
    unsafe { report(error, outcome) }
}

/// Builds a queue in `block` and writes a pointer to it to `built`.
///
/// # Safety
/// As for `fb_init`.
unsafe fn build(
    block: *mut c_void,
    len: usize,
    config: *const fb_config,
    built: *mut *mut fb_queue,
) -> Result<(), fb_error> {
    if block.is_null() || built.is_null() {
        return Err(fb_error::new(FB_E_NULL, "block or queue is NULL"));
    }
    // SAFETY: by the contract of this function.
    let config = unsafe { configuration(config) }?;
    // SAFETY: by the contract of this function.
    let hooks = unsafe { Hooks::of(&config) };
    let hooks = hooks.ok_or_else(|| fb_error::new(FB_E_NULL, "drop is NULL"))?;
    // SAFETY: by the contract of this function.
    let settings = unsafe { settings(config.settings) }?;
    if len < bytes(&config) {
        return Err(of_block(len, bytes(&config)));
    }
    // SAFETY: by the contract of this function, nothing else uses the block.
    let mut block = unsafe { Divider::new(block.cast(), len) };
    let place = block.place::<fb_queue>(1);
    let place = place.map_err(|_| of_block(len, bytes(&config)))?;
    let inner = UnsafeCell::new(Inner::new(&config, &settings, hooks, &mut block)?);
    let queue = fb_queue { is_busy: Cell::new(false), inner };
    // SAFETY: `place` is aligned, inside the block, and used by nothing else.
    unsafe { place.write(queue) };
    // SAFETY: by the contract of this function; `built` is not NULL.
    unsafe { built.write(place) };
    Ok(())
}

/// Enqueues a packet at `now`, in nanoseconds of one monotonic clock. With `FB_OK` its cookie is
/// the queue's. Packets that are dropped for it go to `drop`; with a full queue, that can be this
/// one.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `packet` and its pointers are as the header
/// says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_enqueue(
    queue: *mut fb_queue,
    now: u64,
    packet: *const fb_packet,
) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(packet) = (unsafe { packet.as_ref() }) else { return FB_E_NULL };
    // SAFETY: by the contract of this function.
    let Some(arrival) = (unsafe { Arrival::of(packet) }) else { return FB_E_NULL };
    // SAFETY: by the contract of this function.
    unsafe { enter(queue, |inner| inner.enqueue(now, &arrival)) }.unwrap_or_else(|code| code)
}

/// Enqueues `count` packets in order, up to the first one that fails, and writes to `taken` how
/// many were enqueued. Returns `FB_OK`, or the code of the packet at `taken`. That one and those
/// after it stay yours.
///
/// # Safety
/// As for `fb_enqueue`, with `count` packets; `taken` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_enqueue_burst(
    queue: *mut fb_queue,
    now: u64,
    packets: *const fb_packet,
    count: usize,
    taken: *mut usize,
) -> i32 {
    let (mut done, mut code) = (0, FB_OK);
    while done < count && code == FB_OK {
        let packet = if packets.is_null() { packets } else { packets.wrapping_add(done) };
        // SAFETY: by the contract of this function.
        code = unsafe { fb_enqueue(queue, now, packet) };
        done += usize::from(code == FB_OK);
    }
    // SAFETY: by the contract of this function.
    unsafe { write(taken, done) };
    code
}

/// Takes the next packet that may leave at `now`. Returns 1 if there is one, or 0.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `departure` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dequeue(
    queue: *mut fb_queue,
    now: u64,
    departure: *mut fb_departure,
) -> i32 {
    if departure.is_null() {
        return FB_E_NULL;
    }
    // SAFETY: by the contract of this function.
    match unsafe { enter(queue, |inner| inner.dequeue(now)) } {
        Ok(None) => 0,
        Ok(Some(next)) => {
            // SAFETY: by the contract of this function.
            unsafe { write(departure, next) };
            1
        }
        Err(code) => code,
    }
}

/// Takes up to `count` packets that may leave at `now`. Returns their number.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `departures` is NULL or valid for `count`
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_dequeue_burst(
    queue: *mut fb_queue,
    now: u64,
    departures: *mut fb_departure,
    count: u32,
) -> i32 {
    if departures.is_null() {
        return FB_E_NULL;
    }
    let count = count.min(i32::MAX as u32) as usize;
    let each = |number: usize, departure| {
        // SAFETY: by the contract of this function; `number` is below `count`.
        unsafe { departures.wrapping_add(number).write(departure) };
    };
    // SAFETY: by the contract of this function.
    let done = unsafe { enter(queue, |inner| inner.dequeue_burst(now, count, each)) };
    done.map_or_else(|code| code, |done| done as i32)
}

/// Writes to `at` when to call `fb_dequeue` next, and returns 1. Returns 0 if nothing can leave
/// before the next call of another function: nothing is queued, or the link is stopped or the
/// device is full.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `at` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_poll_at(queue: *const fb_queue, now: u64, at: *mut u64) -> i32 {
    if at.is_null() {
        return FB_E_NULL;
    }
    // SAFETY: by the contract of this function.
    match unsafe { enter(queue, |inner| inner.poll_at(now)) } {
        Ok(None) => 0,
        Ok(Some(next)) => {
            // SAFETY: by the contract of this function.
            unsafe { write(at, next) };
            1
        }
        Err(code) => code,
    }
}

/// Changes the settings that `words` names, while packets stay queued. `error` may be NULL.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `words` is NULL or a string; `error` is NULL
/// or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_set(
    queue: *mut fb_queue,
    now: u64,
    words: *const c_char,
    error: *mut fb_error,
) -> i32 {
    // SAFETY: by the contract of this function.
    let outcome = unsafe { settings(words) }.and_then(|settings| {
        // SAFETY: by the contract of this function.
        let entered = unsafe { enter(queue, |inner| inner.set(now, &settings)) };
        entered.unwrap_or_else(|code| Err(fb_error::new(code, "not entered")))
    });
    // SAFETY: by the contract of this function.
    unsafe { report(error, outcome) }
}

/// Sets the rate in bits per second, from `now` on: 0 stops the link.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_set_rate(queue: *mut fb_queue, now: u64, rate: u64) -> i32 {
    let rate = match rate_of(rate) {
        Ok(rate) => rate,
        Err(error) => return error.code,
    };
    // SAFETY: by the contract of this function.
    code(unsafe { enter(queue, |inner| inner.set_rate(now, rate)) })
}

/// Sets how many bytes the device behind the queue takes from now on: 0 for none, `FB_READY` for
/// any. After less than `FB_READY`, call it again when the device has sent something.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_set_device(queue: *mut fb_queue, bytes: u32) -> i32 {
    // SAFETY: by the contract of this function.
    code(unsafe { enter(queue, |inner| inner.set_device(bytes)) })
}

/// Sets the most packets and bytes that are queued; those above are dropped.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_set_limits(queue: *mut fb_queue, packets: u32, bytes: u32) -> i32 {
    let limits = Limits { packets, bytes };
    // SAFETY: by the contract of this function.
    code(unsafe { enter(queue, |inner| inner.set_limits(limits)) })
}

/// Changes the key of 16 random bytes. Needs `read` while packets are queued.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `key` is NULL or points to 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_rekey(queue: *mut fb_queue, key: *const u8) -> i32 {
    if key.is_null() {
        return FB_E_NULL;
    }
    // SAFETY: by the contract of this function; arrays of bytes have no alignment.
    let key = unsafe { key.cast::<[u8; 16]>().read() };
    // SAFETY: by the contract of this function.
    let outcome = unsafe { enter(queue, |inner| inner.rekey(key)) };
    outcome.map_or_else(|code| code, |outcome| outcome.map_or_else(|error| error.code, |()| FB_OK))
}

/// Drops a packet of a host with about the longest backlog, if your buffers run out before the
/// queue is full. Returns 1, or 0 if nothing is queued.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_evict(queue: *mut fb_queue) -> i32 {
    // SAFETY: by the contract of this function.
    unsafe { enter(queue, Inner::evict) }.map_or_else(|code| code, i32::from)
}

/// Hands all packets back to `drop`. Call it before you reuse the block.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_drain(queue: *mut fb_queue) -> i32 {
    // SAFETY: by the contract of this function.
    code(unsafe { enter(queue, Inner::drain) })
}

/// Writes the statistics.
///
/// # Safety
/// `queue` is NULL or from `fb_init`, with its block; `stats` is NULL or valid for a write of as
/// many bytes as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_get_stats(queue: *const fb_queue, stats: *mut fb_stats) -> i32 {
    if stats.is_null() {
        return FB_E_NULL;
    }
    // SAFETY: by the contract of this function; `size` is the first field of every version.
    let size = unsafe { stats.cast::<u32>().read() };
    if size as usize != size_of::<fb_stats>() {
        return FB_E_SIZE;
    }
    // SAFETY: by the contract of this function.
    match unsafe { enter(queue, |inner| inner.stats()) } {
        Ok(current) => {
            // SAFETY: by the contract of this function; it has the size of this version.
            unsafe { write(stats, current) };
            FB_OK
        }
        Err(code) => code,
    }
}

/// Sets congestion experienced in the IP header of a packet that leaves with `mark_ce`. `layer` is
/// that of the queue. Returns 1, or 0 if the packet has no header that can be marked.
///
/// # Safety
/// `bytes` is NULL or points to `len` bytes that nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_mark_ce(layer: u8, bytes: *mut u8, len: usize) -> i32 {
    if bytes.is_null() {
        return FB_E_NULL;
    }
    // SAFETY: by the contract of this function; it is not NULL.
    let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, len) };
    mark_ce(layer, bytes).into()
}

/// Returns the code of a call without another result.
fn code(entered: Result<(), i32>) -> i32 {
    entered.err().unwrap_or(FB_OK)
}
