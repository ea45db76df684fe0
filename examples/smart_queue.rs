//! A queue with host isolation, an AQM and a rate in eight lines.

use freeboard::SmartQueue;
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames(rand::random())?;
    queue.push(Nanos(0), &[0; 1_000])?;
    while let Some(frame) = queue.pop(Nanos(0)) {
        println!("{} bytes leave now", frame.len());
    }
    Ok(())
}
