//! Calls of the functions of the header.
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "sequences of calls with one reason")]

mod calls;
mod golden;

use core::ffi::{CStr, c_void};
use core::ptr;
use std::vec::Vec;

use crate::*;

/// A block and its queue, with a list of drops.
struct Queue {
    queue: *mut fb_queue,
    drops: *mut Vec<(usize, u32)>,
    block: Vec<u8>,
}

/// Adds a drop to the list behind `user`.
unsafe extern "C" fn drop_to_list(user: *mut c_void, cookie: *mut c_void, reason: u32) {
    // SAFETY: `user` is the list of the queue, which outlives it and is not borrowed in calls.
    let drops = unsafe { &mut *user.cast::<Vec<(usize, u32)>>() };
    drops.push((cookie.addr(), reason));
}

/// Returns a configuration of 64 queues, 16 hosts and 8 packets, without functions.
fn config() -> fb_config {
    fb_config {
        size: size_of::<fb_config>() as u32,
        queues: 64,
        hosts: 16,
        packets: 8,
        max_len: 0,
        tins: 0,
        rounds: 0,
        direction: FB_UPLOAD,
        layer: FB_IP,
        key: [7; 16],
        settings: ptr::null(),
        user: ptr::null_mut(),
        drop: None,
        read: None,
    }
}

impl Queue {
    /// Builds a queue that lists its drops, in a block of exactly the bytes that it takes.
    fn new(config: fb_config) -> Result<Self, fb_error> {
        let drops = std::boxed::Box::into_raw(std::boxed::Box::<Vec<_>>::default());
        let config = fb_config { user: drops.cast(), drop: Some(drop_to_list), ..config };
        let mut queue = ptr::null_mut();
        let mut error = fb_error::NONE;
        // SAFETY: the configuration is whole.
        let mut block = std::vec![0xa5_u8; unsafe { fb_bytes(&raw const config) }];
        let (at, len) = (block.as_mut_ptr().cast(), block.len());
        // SAFETY: the block is not used otherwise until the queue is dropped.
        let code = unsafe { fb_init(at, len, &raw const config, &raw mut queue, &raw mut error) };
        let built = Self { queue, drops, block };
        assert_eq!(code, error.code);
        if code == FB_OK { Ok(built) } else { Err(error) }
    }

    /// Returns the drops since the last call.
    fn drops(&self) -> Vec<(usize, u32)> {
        // SAFETY: no call of the queue is running.
        core::mem::take(unsafe { &mut *self.drops })
    }

    /// Enqueues a packet by labels.
    fn enqueue(&self, now: u64, labels: &fb_labels, len: u32, cookie: usize) -> i32 {
        let packet = fb_packet {
            cookie: ptr::without_provenance_mut(cookie),
            bytes: ptr::null(),
            bytes_len: 0,
            len,
            mark: 0,
            labels,
        };
        // SAFETY: the packet and its labels outlive the call.
        unsafe { fb_enqueue(self.queue, now, &raw const packet) }
    }

    /// Enqueues a packet by its bytes.
    fn enqueue_bytes(&self, now: u64, bytes: &[u8], cookie: usize) -> i32 {
        let packet = fb_packet {
            cookie: ptr::without_provenance_mut(cookie),
            bytes: bytes.as_ptr(),
            bytes_len: bytes.len(),
            len: bytes.len() as u32,
            mark: 0,
            labels: ptr::null(),
        };
        // SAFETY: the packet and its bytes outlive the call.
        unsafe { fb_enqueue(self.queue, now, &raw const packet) }
    }

    fn dequeue(&self, now: u64) -> Option<fb_departure> {
        let mut departure = fb_departure { cookie: ptr::null_mut(), len: 0, mark_ce: 0 };
        // SAFETY: the queue has its block.
        let found = unsafe { fb_dequeue(self.queue, now, &raw mut departure) };
        (found == 1).then_some(departure)
    }

    fn stats(&self) -> fb_stats {
        let mut stats = fb_stats { size: size_of::<fb_stats>() as u32, ..fb_stats::default() };
        // SAFETY: the queue has its block.
        assert_eq!(unsafe { fb_get_stats(self.queue, &raw mut stats) }, FB_OK);
        stats
    }

    /// Changes settings; returns the error.
    fn set(&self, now: u64, words: &CStr) -> fb_error {
        let mut error = fb_error::NONE;
        // SAFETY: the queue has its block.
        let code = unsafe { fb_set(self.queue, now, words.as_ptr(), &raw mut error) };
        assert_eq!(code, error.code);
        error
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.block.clear();
        // SAFETY: the list was made by `Box::into_raw`, and the queue is gone.
        drop(unsafe { std::boxed::Box::from_raw(self.drops) });
    }
}

/// Returns the text of an error.
fn text(error: &fb_error) -> std::string::String {
    let bytes = error.text.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
    std::string::String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}
