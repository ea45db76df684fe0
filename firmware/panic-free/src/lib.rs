//! Every public operation of the `no_std` crates on concrete types, exported from one static library
//! whose panic handler calls a function that does not exist. A library that can panic has an
//! undefined symbol more; `cargo xtask panic-free` looks for it.
//!
//! Left out: the texts of errors and of `Debug`. The number formatting of `core::fmt` keeps checks of
//! its own that the compiler cannot prove, and the library formats nothing by itself.
//!
//! Each operation is an arm of its own in a `match` on a number that the compiler does not know, on objects that the
//! compiler must take for changed. So the compiler can conclude nothing from one call for the next.
#![no_std]

mod buffers;
mod by_host;
mod catalog;
mod flowhash;
mod hierarchy;
mod labelled;
mod orders;
mod schedulers;
mod shaper;
mod smart_queue;
mod wfi;

unsafe extern "C" {
    safe fn __panic_reached__() -> !;
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    __panic_reached__()
}

/// An index without a check.
#[cfg(feature = "positive-control")]
#[unsafe(no_mangle)]
extern "C" fn positive_control(index: usize) -> u8 {
    static TABLE: [u8; 4] = [1, 2, 3, 4];
    TABLE[core::hint::black_box(index)]
}

/// A number that the compiler knows nothing of.
fn any() -> u32 {
    core::hint::black_box(0)
}

/// Keeps what an operation gives, so that it is computed.
fn seen<T>(value: T) {
    core::hint::black_box(value);
}

/// The functions named, for tables of 1 to 65,536 flows or packets.
macro_rules! sizes {
    ($($function:ident)*) => {
        &[$($function::<1>, $function::<2>, $function::<16>, $function::<100>, $function::<1024>, $function::<65536>),*]
    };
}
use sizes;

/// One of the operations, on an object in any state.
macro_rules! one_of {
    ($object:ident; $($operation:expr;)*) => {{
        let $object = core::hint::black_box($object);
        let chosen = crate::any();
        let mut number = 0;
        $(
            if chosen == number {
                return crate::seen($operation);
            }
            number += 1;
        )*
        crate::seen(number);
    }};
}
use one_of;
