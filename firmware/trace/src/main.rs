//! Prints on a Cortex-M4 the report that the crate `golden` prints on the host. `cargo xtask trace`
//! runs both and compares.
#![no_std]
#![no_main]

// For its panic handler, which prints the panic and ends QEMU with a failure status.
use panic_semihosting as _;

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hio};

#[entry]
fn main() -> ! {
    let status = match hio::hstdout().map(|mut out| golden::report(&mut out)) {
        Ok(Ok(golden::Outcome::AsPinned)) => debug::EXIT_SUCCESS,
        _ => debug::EXIT_FAILURE,
    };
    loop {
        debug::exit(status);
    }
}
