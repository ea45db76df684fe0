//! A queue with host isolation, an AQM and a rate on a Cortex-M, in static memory: fifteen lines.
//! `cargo xtask smart-queue` runs it in QEMU; `board` stands for the driver of a network card.
#![no_std]
#![no_main]
mod board;
use cortex_m_rt::entry;
use freeboard::shaper::Rate;
use freeboard::{SmartQueue, StaticFrames};
use panic_semihosting as _;

#[entry]
fn main() -> ! {
    static mut MEMORY: StaticFrames<16, 1_514, 2> = StaticFrames::new();
    let uplink = SmartQueue::upload(Rate::kilobits_per_second(500).unwrap());
    let Ok(queue) = &mut uplink.frames_in(MEMORY, board::random_key()) else { panic!() };
    loop {
        board::receive(|frame| queue.push(board::now(), frame));
        if let Some(frame) = queue.pop(board::now()) {
            board::send(frame);
        }
    }
}
