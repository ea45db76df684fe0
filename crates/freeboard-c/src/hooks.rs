//! The caller's functions, and what the caller's pointers point to.

use core::ffi::c_void;
use core::ptr;

use freeboard::sched_core::DropReason;

use crate::interface::{fb_config, fb_labels, fb_packet};

/// The pointer by which the caller knows a packet. The library never dereferences it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookie(pub(crate) *mut c_void);

/// The functions of a queue's configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    user: *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void, *mut c_void, u32),
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut fb_packet)>,
}

impl Hooks {
    /// Returns the functions of `config`; `None` without `drop`.
    ///
    /// # Safety
    /// The functions may be called with the configuration's `user` and any cookie of the queue for
    /// as long as the queue is used. They return, and what `read` points to is as described for
    /// [`Arrival::of`] until it is called again.
    pub(crate) unsafe fn of(config: &fb_config) -> Option<Self> {
        let &fb_config { user, drop, read, .. } = config;
        Some(Self { user, drop: drop?, read })
    }

    /// Returns true if queued packets can be read.
    pub(crate) const fn can_read(&self) -> bool {
        self.read.is_some()
    }

    /// Hands the cookie of a dropped packet to the caller.
    pub(crate) fn dropped(&self, Cookie(cookie): Cookie, why: DropReason) {
        // SAFETY: by the contract of `of`. The queue is busy meanwhile, so that the function cannot
        // reach what this call has borrowed.
        unsafe { (self.drop)(self.user, cookie, why as u32) };
    }

    /// Reads a queued packet; `None` if it cannot be read.
    pub(crate) fn read(&self, Cookie(cookie): Cookie) -> Option<Arrival<'_>> {
        let mut packet = fb_packet {
            cookie,
            bytes: ptr::null(),
            bytes_len: 0,
            len: 0,
            mark: 0,
            labels: ptr::null(),
        };
        // SAFETY: as for `drop`, and `packet` outlives the call.
        unsafe { (self.read?)(self.user, cookie, &raw mut packet) };
        // SAFETY: by the contract of `Hooks::of`.
        unsafe { Arrival::of(&packet) }
    }
}

/// A packet of the caller's, as far as the queue reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) cookie: Cookie,
    pub(crate) len: u32,
    pub(crate) mark: u32,
    /// Empty if there are none.
    pub(crate) bytes: &'a [u8],
    pub(crate) labels: Option<fb_labels>,
}

impl<'a> Arrival<'a> {
    /// Returns the packet; `None` if it has neither bytes nor labels.
    ///
    /// # Safety
    /// `bytes` is NULL or points to `bytes_len` bytes, and `labels` is NULL or points to labels.
    /// Nothing writes or frees the bytes for `'a`, or until the cookie goes to `drop`: a packet is
    /// not read after that.
    pub(crate) unsafe fn of(packet: &fb_packet) -> Option<Self> {
        let &fb_packet { cookie, bytes, bytes_len, len, mark, labels } = packet;
        // SAFETY: by the contract of this function.
        let labels = unsafe { labels.as_ref() }.copied();
        if bytes.is_null() {
            let labels = Some(labels?);
            return Some(Self { cookie: Cookie(cookie), len, mark, bytes: &[], labels });
        }
        // SAFETY: by the contract of this function; `bytes` is not NULL.
        let bytes = unsafe { core::slice::from_raw_parts(bytes, bytes_len) };
        Some(Self { cookie: Cookie(cookie), len, mark, bytes, labels })
    }
}
