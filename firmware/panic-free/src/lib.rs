//! Every public operation of the `no_std` crates on concrete types, exported from one static
//! library whose panic handler calls a function that does not exist. A library that can panic has
//! an undefined symbol more; `cargo xtask panic-free` looks for it.
//!
//! Left out: the texts of errors and of `Debug`. The number formatting of `core::fmt` keeps checks
//! of its own that the compiler cannot prove, and the library formats nothing by itself.
//!
//! Each operation is an arm of its own in a `match` on a number that the compiler does not know, on
//! objects that the compiler must take for changed. So the compiler can conclude nothing from one
//! call for the next.
#![no_std]

// Not beside the control: one panic is to be found, whatever else is in the library.
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

/// An index without a check.
#[cfg(feature = "positive-control")]
#[unsafe(no_mangle)]
extern "C" fn positive_control(index: usize) -> u8 {
    static TABLE: [u8; 4] = [1, 2, 3, 4];
    TABLE[core::hint::black_box(index)]
}
