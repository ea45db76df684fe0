//! The complete queue of [`freeboard`] for programs in C and C++: a [`SmartQueue`] with descriptors
//! in one block of the caller's memory, with a parser and the table of the packets behind its
//! handles ([`Cookies`]).
//!
//! The interface is one header, `include/freeboard.h`, which `cargo xtask c --renew` writes from
//! the documentation of this crate. `examples` has programs in C11 and C++17, and a
//! `CMakeLists.txt` that builds them with the files in `cmake`.
//!
//! # Build
//!
//! ```text
//! cargo build --package freeboard-c --profile c --no-default-features \
//!   --features ack-filter,aqms,tins
//! ```
//!
//! builds `libfreeboard_c.a` and `libfreeboard_c.so`; with `--target`, for a microcontroller. The
//! features are those of [`freeboard`]: without one of them, the library is smaller, and its
//! keywords are errors. Without the feature `std`, the library needs no allocator and nothing of an
//! operating system: only `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` and `strlen`.
//!
//! No panic is reachable: the library refers to no panic handler, which `cargo xtask panic-free`
//! checks in the linked library.
//!
//! # Guarantees
//!
//! - A cookie goes in with a packet and comes out exactly once: from `fb_dequeue`, or to the `drop`
//!   function.
//! - A call that fails has changed no setting, and its packet stays the caller's. With
//!   [`FB_E_FULL`], other packets may have gone to the `drop` function.
//! - A `drop` or `read` function that calls the queue again gets [`FB_E_BUSY`].
//! - Headers are read in the call that enqueues, and not kept.
//!
//! # Unsafe code
//!
//! Three modules contain it: `block` divides the caller's memory, `hooks` calls the caller's
//! functions, and `calls` are the functions of the header, which read and write what the caller's
//! pointers point to.
//!
//! [`SmartQueue`]: freeboard::SmartQueue
//! [`Cookies`]: freeboard::Cookies
#![no_std]
#![expect(clippy::result_large_err, reason = "an error has its text, and nothing to allocate it")]

#[cfg(feature = "std")]
extern crate std;

mod block;
mod calls;
mod hooks;
mod interface;
mod queue;
#[cfg(test)]
mod tests;
mod text;

pub use calls::*;
pub use interface::*;
pub use queue::fb_queue;

#[cfg(not(feature = "std"))]
mod panicking {
    unsafe extern "C" {
        /// Is nowhere defined: no panic is reachable, so that nothing refers to it.
        safe fn fb_panic_reached() -> !;
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        fb_panic_reached()
    }
}
