//! QEMU's RISC-V board `virt`: clock, timer, interrupts, serial port, virtio slots, device tree and
//! power switch.
//!
//! Interrupts are never taken: the processor sleeps in `wfi`, which a pending interrupt ends even
//! if interrupts are off.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use freeboard::sched_core::Nanos;
use riscv::register::{mie, time};
use virtio_drivers::transport::mmio::{MmioError, MmioTransport};

/// Nanoseconds of a tick of the clock.
const TICK: u64 = 100;
/// Interrupt of the serial port at the interrupt controller.
const UART_INTERRUPT: usize = 10;
/// Bytes between the slots for virtio devices.
const SLOT: usize = 0x1000;
/// Number of these slots. The interrupt of slot `n` is `n + 1`.
const SLOTS: usize = 8;

const POWER: Register<u32> = Register(0x10_0000 as *mut _);
const TIMER: Register<u64> = Register(0x200_4000 as *mut _);
/// Priorities of all interrupts, four bytes each.
const PLIC_PRIORITIES: usize = 0xc00_0000;
const PLIC_ENABLED: Register<u32> = Register(0xc00_2000 as *mut _);
const PLIC_THRESHOLD: Register<u32> = Register(0xc20_0000 as *mut _);
const PLIC_CLAIM: Register<u32> = Register(0xc20_0004 as *mut _);
const UART_DATA: Register<u8> = Register(0x1000_0000 as *mut _);
const UART_INTERRUPTS: Register<u8> = Register(0x1000_0001 as *mut _);
const UART_STATE: Register<u8> = Register(0x1000_0005 as *mut _);
const VIRTIO: usize = 0x1000_1000;

/// A device register at a fixed address.
struct Register<T>(*mut T);

impl<T: Copy> Register<T> {
    fn read(&self) -> T {
        // SAFETY: every address in this module is an aligned register of this width on this board,
        // and reading it does not affect memory.
        unsafe { self.0.read_volatile() }
    }

    fn write(&self, value: T) {
        // SAFETY: as for `read`.
        unsafe { self.0.write_volatile(value) }
    }
}

/// Enables the interrupts of the timer, of the serial port and of all virtio slots, to end `wfi`.
pub fn start() {
    let mut enabled = 0;
    for interrupt in (1..=SLOTS).chain([UART_INTERRUPT]) {
        Register((PLIC_PRIORITIES + 4 * interrupt) as *mut u32).write(1);
        enabled |= 1 << interrupt;
    }
    PLIC_THRESHOLD.write(0);
    PLIC_ENABLED.write(enabled);
    UART_INTERRUPTS.write(1);
    // SAFETY: these interrupts are only waited for: they are off in `mstatus`.
    unsafe {
        mie::set_mext();
        mie::set_mtimer();
    }
}

/// Returns the time since the start.
pub fn now() -> Nanos {
    Nanos(time::read64().wrapping_mul(TICK))
}

/// Sleeps until `at` or until a device interrupts; calls `acknowledge` if one did. It must make
/// all devices withdraw their interrupts.
pub fn sleep_until(at: Option<Nanos>, mut acknowledge: impl FnMut()) {
    TIMER.write(at.map_or(u64::MAX, |at| at.0.div_ceil(TICK)));
    riscv::asm::wfi();
    loop {
        let interrupt = PLIC_CLAIM.read();
        if interrupt == 0 {
            return;
        }
        acknowledge();
        PLIC_CLAIM.write(interrupt);
    }
}

/// Returns the device in virtio slot `slot`.
///
/// # Errors
/// [`MmioError`] if the slot is empty.
pub fn virtio(slot: usize) -> Result<MmioTransport<'static>, MmioError> {
    assert!(slot < SLOTS, "virtio slot {slot} is out of range (expected 0 to 7)");
    let header = NonNull::new((VIRTIO + SLOT * slot) as *mut _).unwrap();
    // SAFETY: the slot is a virtio register block of this length. `main` takes each slot once.
    unsafe { MmioTransport::new(header, SLOT) }
}

/// Returns the device tree at the address that the boot loader passes.
///
/// # Safety
/// `address` is aligned and in RAM. If the first word there is that of a device tree, the whole
/// tree is outside of the program's memory and never changes.
pub unsafe fn device_tree(address: usize) -> &'static [u8] {
    const MAGIC: u32 = 0xd00d_feed;
    let header = address as *const u32;
    // SAFETY: these are the first two words of the tree.
    let [magic, len] = unsafe { [header.read(), header.add(1).read()] }.map(u32::from_be);
    assert!(magic == MAGIC, "no device tree at {address:#x} (expected one: {MAGIC:#x})");
    // SAFETY: the tree has this length.
    unsafe { core::slice::from_raw_parts(header.cast(), len as usize) }
}

/// The serial port.
pub struct Uart;

impl Uart {
    /// Discards what was typed; returns true if there was something.
    pub fn take_typed() -> bool {
        let mut is_typed = false;
        while UART_STATE.read() & 1 != 0 {
            UART_DATA.read();
            is_typed = true;
        }
        is_typed
    }
}

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while UART_STATE.read() & 0x20 == 0 {}
            UART_DATA.write(byte);
        }
        Ok(())
    }
}

/// Prints why the program cannot go on, and ends QEMU with exit code 1.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Uart, "router: {}", info.message());
    loop {
        POWER.write(0x1_3333);
    }
}

/// Reports an access to memory that is not there, or the like.
// SAFETY: `riscv-rt` calls this name for every exception, with this signature.
#[unsafe(export_name = "ExceptionHandler")]
extern "C" fn exception(_: &riscv_rt::TrapFrame) -> ! {
    let (cause, at) = (riscv::register::mcause::read().bits(), riscv::register::mepc::read());
    panic!("exception {cause} at {at:#x} (expected none)");
}
