//! Every public operation of the `no_std` crates on concrete types, exported from one static library
//! whose panic handler calls a function that does not exist. A library that can panic has an
//! undefined symbol more; `cargo xtask panic-free` looks for it.
#![no_std]

mod schedulers;

unsafe extern "C" {
    safe fn __panic_reached__() -> !;
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    __panic_reached__()
}

/// An index that nobody checks.
#[cfg(feature = "positive-control")]
#[unsafe(no_mangle)]
extern "C" fn positive_control(index: usize) -> u8 {
    static TABLE: [u8; 4] = [1, 2, 3, 4];
    TABLE[core::hint::black_box(index)]
}
