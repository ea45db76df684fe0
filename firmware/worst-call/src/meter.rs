//! Instructions and stack of a single call.

use core::hint::black_box;

use crate::board;

/// Value with which the stack is filled before a call.
const PAINT: u32 = 0xa5a5_5a5a;
/// Words of the stack that are filled; a call must take fewer.
const WORDS: usize = 1_250;

/// Cost of a call.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub instructions: u32,
    /// Stack in bytes, from the return address on.
    pub stack: u32,
}

/// Counts the instructions of calls, without those of the measurement.
pub struct Meter {
    overhead: u32,
}

impl Meter {
    /// Calibrates the meter, and checks it with a loop of known length.
    pub fn new() -> Self {
        board::start_counter();
        let mut meter = Self { overhead: 0 };
        meter.overhead = meter.measure(|| ()).1.instructions;
        let loops = |iterations| meter.measure(|| board::two_instructions(iterations)).1;
        let [short, long] = [1, 10_001].map(|iterations| loops(iterations).instructions);
        assert_eq!(long - short, 20_000, "instructions of 10,000 iterations of a loop of two");
        meter
    }

    #[inline(never)]
    pub fn measure<R>(&self, call: impl FnOnce() -> R) -> (R, Cost) {
        let top = board::stack_pointer();
        for word in 1..=WORDS {
            // SAFETY: aligned words of RAM below the stack pointer, which nothing uses: no
            // interrupt is enabled, and this loop calls no function.
            unsafe { top.wrapping_sub(word).write_volatile(PAINT) };
        }
        let start = board::counter();
        let result = run(call);
        let end = board::counter();
        // Otherwise the compiler could leave out a call whose result is not used.
        black_box(&result);
        let mut word = WORDS;
        // SAFETY: the same words, which hold no Rust value.
        while word > 0 && unsafe { top.wrapping_sub(word).read_volatile() } == PAINT {
            word -= 1;
        }
        assert!(word < WORDS, "stack of a call (expected less than {WORDS} words)");
        let instructions = board::instructions(start, end).wrapping_sub(self.overhead);
        (result, Cost { instructions, stack: 4 * word as u32 })
    }
}

/// A function of its own, so that the stack of `call` is below that of the meter.
#[inline(never)]
fn run<R>(call: impl FnOnce() -> R) -> R {
    call()
}
