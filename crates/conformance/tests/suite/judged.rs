//! AQMs alone, with times, sojourn times and parameters that do not occur on a link.

use conformance::effort::effort;
use conformance::history::{AQMS, Signals, play_aqm};
use conformance::{Xorshift, scramble};

/// Goal: for any clock and any sojourn time, an AQM returns the same verdicts at shifted times,
/// predicts its verdicts, changes nothing at a glance that turns out insufficient, and leaves other
/// queues alone; queues without state pass all packets. Method: sequences from random bytes, half
/// of them with parameters of any magnitude. Each AQM must act in the others.
#[test]
fn any_times_and_sojourn_times_leave_the_promises_of_every_aqm() {
    let trials = effort(32, 2_000);
    for aqm in 0..AQMS {
        let mut all = Signals::default();
        for trial in 0..trials {
            let mut random = Xorshift::new(scramble(u64::from(aqm) << 32 | trial));
            let mut bytes: Vec<u8> = (0..4_000).map(|_| random.byte()).collect();
            // The low bits select the shift and an option; below 64, the parameters are random too.
            let usual = if trial / 8 % 2 == 0 { 64 } else { 0 };
            (bytes[0], bytes[1]) = (aqm, (bytes[1] & 0b0011_1000) | usual | (trial as u8 % 8));
            let told = play_aqm(&bytes);
            all.at_arrival += told.at_arrival;
            all.at_departure += told.at_departure;
        }
        println!("{aqm}: {all:?}");
        assert!(all.at_arrival + all.at_departure > trials, "AQM {aqm}: {all:?}");
    }
}
