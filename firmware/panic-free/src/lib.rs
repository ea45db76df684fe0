//! Exports every public operation of the `no_std` crates on concrete types from one static library,
//! whose panic handler calls a function that does not exist. If the library can panic, it has an
//! additional undefined symbol, which `cargo xtask panic-free` looks for.
//!
//! Excluded: the texts of errors and of `Debug`. The number formatting of `core::fmt` contains
//! checks that the compiler cannot prove, and the library itself does not format anything.
//!
//! Each operation is a separate arm of a `match` on a number unknown to the compiler, on objects
//! that the compiler must assume to be modified. So the compiler cannot draw conclusions from one
//! call about the next.
#![no_std]

// Excluded from the control, which must find exactly one panic.
#[cfg(not(feature = "positive-control"))]
mod operations;
mod tables;

unsafe extern "C" {
    safe fn __panic_reached__() -> !;
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    __panic_reached__()
}

/// Indexes without a check.
#[cfg(feature = "positive-control")]
#[unsafe(no_mangle)]
extern "C" fn positive_control(index: usize) -> u8 {
    static TABLE: [u8; 4] = [1, 2, 3, 4];
    TABLE[core::hint::black_box(index)]
}
