//! A board with a clock and a network card that receives from two hosts: one sends continuously
//! from nine ports, the other a frame of 100 bytes every 40 ms. Prints the frames sent of each and
//! ends after four seconds of its clock.

use core::cell::Cell;
use core::fmt::Write as _;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cortex_m::interrupt::{self, Mutex};
use cortex_m_semihosting::{debug, hio};
use freeboard::PushError;
use freeboard::sched_core::{Nanos, TickClock};

/// Initial value of the millisecond counter, which wraps after two seconds.
const START: u32 = u32::MAX - 1_999;
/// The counter advances by 1 ms each time the program looks for a frame.
static MILLIS: AtomicU32 = AtomicU32::new(START);
static CLOCK: Mutex<Cell<TickClock>> =
    Mutex::new(Cell::new(TickClock::new(NonZeroU32::new(1_000).unwrap())));
/// Frames per host received, rejected and sent, and bytes sent.
static CAME: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static REFUSED: AtomicU32 = AtomicU32::new(0);
static SENT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static BYTES: AtomicU32 = AtomicU32::new(0);

/// Memory that leaves too little for the stack.
#[cfg(feature = "positive-control")]
#[used]
static mut MORE: freeboard::StaticFrames<16, 1_514, 1> = freeboard::StaticFrames::new();

/// End of the run in milliseconds.
const END: u32 = 4_000;

/// Stands for the output of a random number generator.
pub fn random_key() -> [u8; 16] {
    *b"random as can be"
}

pub fn now() -> Nanos {
    interrupt::free(|section| {
        let mut clock = CLOCK.borrow(section).get();
        let now = clock.now(MILLIS.load(Relaxed));
        CLOCK.borrow(section).set(clock);
        now
    })
}

/// Passes each received frame to `take`.
pub fn receive(mut take: impl FnMut(&[u8]) -> Result<(), PushError>) {
    MILLIS.store(MILLIS.load(Relaxed).wrapping_add(1), Relaxed);
    let millis = MILLIS.load(Relaxed).wrapping_sub(START);
    if millis == END {
        report();
    }
    let mut put = |host: u8, port: u8, len: usize| {
        let mut frame = [0; 1_000];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..38].copy_from_slice(&[10, 0, 0, host, 192, 0, 2, 1, 0x13, port, 1, 0xbb]);
        CAME[usize::from(host)].fetch_add(1, Relaxed);
        if take(&frame[..len]).is_err() {
            REFUSED.fetch_add(1, Relaxed);
        }
    };
    put(0, (millis % 9) as u8, 1_000);
    if millis % 40 == 0 {
        put(1, 0, 100);
    }
}

pub fn send(frame: &[u8]) {
    SENT[usize::from(frame[29])].fetch_add(1, Relaxed);
    BYTES.fetch_add(frame.len() as u32, Relaxed);
}

fn report() -> ! {
    let of = |counts: &[AtomicU32; 2]| [0, 1].map(|host: usize| counts[host].load(Relaxed));
    let ([heavy, light], [heavy_sent, light_sent]) = (of(&CAME), of(&SENT));
    let (refused, bits) = (REFUSED.load(Relaxed), BYTES.load(Relaxed) * 8 / (END / 1_000));
    let status = match hio::hstdout() {
        Ok(mut out) => {
            let _written = writeln!(
                out,
                "heavy {heavy_sent} of {heavy}, light {light_sent} of {light}, refused {refused}, {bits} bit/s\n\
                 stack {} bytes",
                deepest_stack()
            );
            debug::EXIT_SUCCESS
        }
        Err(()) => debug::EXIT_FAILURE,
    };
    loop {
        debug::exit(status);
    }
}

/// Returns the maximum stack use so far in bytes. `cortex-m-rt` fills all memory above the tables
/// with one value before `main`.
fn deepest_stack() -> usize {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    let (bottom, top) = (&raw const _stack_end, &raw const _stack_start);
    let mut place = bottom;
    // SAFETY: aligned words of the RAM between two symbols of the linker script. No Rust value is
    // read while it changes: the first word that differs from the fill value ends the search below
    // all stack frames in use.
    while place < top && unsafe { place.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        place = place.wrapping_add(1);
    }
    top as usize - place as usize
}
