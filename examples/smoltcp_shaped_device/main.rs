//! A smoltcp device with a smart queue in front of it: two TCP uploads of smoltcp through a 2
//! Mbit/s uplink, and a call of a second host, whose frames are forwarded through the same device.
//! Simulated time, so it does not sleep.
//!
//! ```text
//! cargo run --release --example smoltcp_shaped_device
//! ```
//!
//! The queue and the device are a `ShapedDevice` of the crate `freeboard-smoltcp`. Rates and
//! lengths are those of Ethernet frames. The wait of a call's frame is the time from its forwarding
//! until the link has sent it.

mod scenario;
#[cfg(test)]
mod test;
mod wire;

use core::error::Error;

use freeboard::shaper::Rate;
use freeboard::{FrameQueue, SmartQueue, SmartQueueError};
use freeboard_smoltcp::ShapedDevice;
use scenario::{Outcome, run};
use wire::Wire;

/// Rate of the uplink in bits per second.
const UPLINK: u64 = 2_000_000;
/// Slots in the ring of the device: a modem with far too large a buffer, and a network card with a
/// small one.
const LARGE: usize = 64;
const SMALL: usize = 2;
/// Key for the flow hash. A real device draws 16 random bytes at each start.
const KEY: [u8; 16] = *b"not for real use";

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:32} uploads' shares  call: arrived  median ms   max ms  refused", "");
    print("ring of 64 frames, no queue", &without_queue());
    print("ring of 64, queue of 2 Mbit/s", &by_rate()?);
    print("ring of 2, queue without a rate", &by_back_pressure()?);
    Ok(())
}

/// Runs the device alone; it refuses frames when its ring is full.
fn without_queue() -> Outcome {
    run(Wire::new(LARGE, UPLINK))
}

/// Runs a queue with the rate of the link, so that the ring stays empty.
fn by_rate() -> Result<Outcome, Box<dyn Error>> {
    let rate = Rate::bits_per_second(UPLINK)?;
    Ok(run(ShapedDevice::new(Wire::new(LARGE, UPLINK), queue(rate)?)?))
}

/// Runs a queue without a rate; the device reports when its ring is full.
fn by_back_pressure() -> Result<Outcome, Box<dyn Error>> {
    Ok(run(ShapedDevice::new(Wire::new(SMALL, UPLINK), queue(Rate::UNLIMITED)?)?))
}

fn queue(rate: Rate) -> Result<FrameQueue, SmartQueueError> {
    SmartQueue::upload(rate).frames(KEY)
}

fn print(what: &str, outcome: &Outcome) {
    let [first, second] = outcome.shares();
    println!(
        "{what:32} {first:5.1} % {second:5.1} % {:9} of {:3} {:10.1} {:8.1} {:8}",
        outcome.waits.len(),
        outcome.calls,
        outcome.wait(50),
        outcome.wait(100),
        outcome.refused,
    );
}
