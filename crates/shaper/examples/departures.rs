//! Departures of ten packets on an ADSL uplink of 1 Mbit/s: bytes on the wire by the framing of the
//! link, and the time each one leaves.
//!
//! ```sh
//! cargo run -p freeboard-shaper --example departures
//! cargo run -p freeboard-shaper --example departures -- "ethernet"
//! ```

use sched_core::Nanos;
use shaper::{Overhead, Rate, Shaper};

/// Lengths of the packets, in bytes from the IP header on.
const LENGTHS: [u32; 10] = [1_500, 1_500, 40, 160, 1_500, 40, 576, 40, 160, 1_500];

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let keywords = std::env::args().nth(1).unwrap_or("pppoe-llcsnap".into());
    let framing = Overhead::from_keywords(&keywords, 0)?;
    println!("{:>6} {:>7} {:>12}", "bytes", "on wire", "leaves at");
    for (len, wire_len, at) in departures(framing, Rate::megabits_per_second(1)?) {
        println!("{len:>6} {wire_len:>7} {:>9.3} ms", at.0 as f64 / 1e6);
    }
    Ok(())
}

/// Length, bytes on the wire and time of departure of each packet; all are there from the
/// beginning.
fn departures(framing: Overhead, rate: Rate) -> Vec<(u32, u32, Nanos)> {
    let mut link = Shaper::new(rate);
    LENGTHS
        .map(|len| {
            // A caller waits until then; `due` is when the link has sent what it was charged.
            let at = link.due();
            let wire_len = framing.wire_len(len);
            link.charge(at, wire_len);
            (len, wire_len, at)
        })
        .to_vec()
}

#[test]
fn a_packet_leaves_when_the_cells_before_it_are_sent() {
    let framing = Overhead::from_keywords("pppoe-llcsnap", 0).unwrap();
    let all = departures(framing, Rate::megabits_per_second(1).unwrap());
    // 33 cells of 53 bytes, 8 µs a byte.
    assert_eq!(all[1], (1_500, 33 * 53, Nanos::from_micros(33 * 53 * 8)));
}
