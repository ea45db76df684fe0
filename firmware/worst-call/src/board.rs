//! The emulated boards: an instruction counter, the stack pointer, text output and the exit.
//! `cargo xtask worst-call` starts QEMU so that each instruction takes the same time.

#[cfg(target_arch = "arm")]
pub use cortex_m::*;
#[cfg(target_arch = "riscv32")]
pub use riscv_virt::*;

/// Arm MPS2 with the AN386 image.
#[cfg(target_arch = "arm")]
mod cortex_m {
    use core::arch::asm;
    use core::fmt;

    use cortex_m::peripheral::SYST;
    use cortex_m::peripheral::syst::SystClkSource;
    pub use cortex_m_rt::entry;
    use cortex_m_semihosting::{debug, hio};

    /// SysTick has 24 bits.
    const MAX: u32 = (1 << 24) - 1;
    /// Ticks of 40 ns in 5 instructions of 1,024 ns each (`-icount shift=10`).
    const TICKS: u32 = 128;

    pub fn start_counter() {
        let Some(mut devices) = cortex_m::Peripherals::take() else { return };
        devices.SYST.set_clock_source(SystClkSource::Core);
        devices.SYST.set_reload(MAX);
        devices.SYST.clear_current();
        devices.SYST.enable_counter();
    }

    #[inline(always)]
    pub fn counter() -> u32 {
        SYST::get_current()
    }

    /// Returns the number of instructions between two readings: fewer than 655,360.
    pub const fn instructions(start: u32, end: u32) -> u32 {
        let ticks = start.wrapping_sub(end) & MAX;
        (ticks * 5 + TICKS / 2) / TICKS
    }

    #[inline(always)]
    pub fn stack_pointer() -> *mut u32 {
        let pointer;
        // SAFETY: copies a register.
        unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
        pointer
    }

    /// Executes `2 * iterations` instructions and a constant number of others.
    pub fn two_instructions(iterations: u32) {
        // SAFETY: changes only the register of `iterations`, and the flags.
        unsafe {
            asm!("2: subs {0}, {0}, #1", "bne 2b", inout(reg) iterations => _, options(nomem, nostack));
        }
    }

    pub fn print(text: fmt::Arguments<'_>) {
        if let Ok(mut out) = hio::hstdout() {
            let _written = fmt::Write::write_fmt(&mut out, text);
        }
    }

    pub fn exit(success: bool) -> ! {
        loop {
            debug::exit(if success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
        }
    }
}

#[cfg(target_arch = "riscv32")]
mod riscv_virt {
    use core::arch::asm;
    use core::fmt;

    use riscv::register::minstret;
    pub use riscv_rt::entry;

    /// Transmit register of the UART, an NS16550A.
    const UART: *mut u8 = 0x1000_0000 as *mut u8;
    /// Register that ends QEMU.
    const FINISHER: *mut u32 = 0x10_0000 as *mut u32;

    pub const fn start_counter() {}

    #[inline(always)]
    pub fn counter() -> u32 {
        minstret::read() as u32
    }

    /// Returns the number of instructions between two readings.
    pub const fn instructions(start: u32, end: u32) -> u32 {
        end.wrapping_sub(start)
    }

    #[inline(always)]
    pub fn stack_pointer() -> *mut u32 {
        let pointer;
        // SAFETY: copies a register.
        unsafe { asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
        pointer
    }

    /// Executes `2 * iterations` instructions and a constant number of others.
    pub fn two_instructions(iterations: u32) {
        // SAFETY: changes only the register of `iterations`.
        unsafe {
            asm!("2: addi {0}, {0}, -1", "bnez {0}, 2b", inout(reg) iterations => _, options(nomem, nostack));
        }
    }

    struct Uart;

    impl fmt::Write for Uart {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for byte in text.bytes() {
                // SAFETY: a register of the machine, which takes any byte at any time.
                unsafe { UART.write_volatile(byte) };
            }
            Ok(())
        }
    }

    pub fn print(text: fmt::Arguments<'_>) {
        let _written = fmt::Write::write_fmt(&mut Uart, text);
    }

    pub fn exit(success: bool) -> ! {
        loop {
            // SAFETY: a register of the machine; these two values end it.
            unsafe { FINISHER.write_volatile(if success { 0x5555 } else { 0x1_3333 }) };
        }
    }
}
