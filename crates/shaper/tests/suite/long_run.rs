//! The shaper does not drift, at more than two hundred rates.

use conformance::effort::effort;
use sched_core::Nanos;
use shaper::{Rate, Shaper};

/// A reproducible sequence of packet lengths, 40 to 1,567 bytes.
struct Lengths(u64);

impl Lengths {
    fn next(&mut self) -> u32 {
        // Knuth's 64-bit linear congruential generator (MMIX); use the high bits, which are the
        // good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        40 + ((self.0 >> 40) % 1_528) as u32
    }
}

fn line(bps: u64) -> Shaper {
    Shaper::new(Rate::bits_per_second(bps).unwrap())
}

/// Returns ⌈bytes · 8·10⁹ / bps⌉.
fn exact_nanos(bytes: u128, bps: u64) -> u64 {
    u64::try_from((bytes * 8_000_000_000).div_ceil(bps.into())).unwrap()
}

/// Rates at which shapers have failed (whole nanoseconds per byte, 32-bit rates), and both ends of
/// the range.
const NOTORIOUS: [u64; 10] = [
    1_000,
    750_000_000,
    999_999_937,
    4_290_000_000,
    4_294_967_296,
    4_300_000_000,
    8_000_000_001,
    10_000_000_000,
    100_000_000_000,
    400_000_000_000,
];

/// Returns the notorious rates, primes and neighbours of round numbers, and the range in steps of
/// 10 %.
fn rates() -> Vec<u64> {
    let mut rates = NOTORIOUS.to_vec();
    rates.extend([
        1_009,
        8_000,
        64_000,
        1_000_003,
        799_999_999,
        2_488_320_000,
        4_294_967_291,
        4_294_967_295,
        4_294_967_297,
        7_999_999_999,
        8_000_000_000,
        25_000_000_019,
        99_999_999_977,
        399_999_999_959,
        399_999_999_999,
    ]);
    let mut rate = 1_001;
    while rate < 400_000_000_000 {
        rates.push(rate);
        rate += rate / 10 + 1;
    }
    rates
}

/// Checks after each of the first 1,000 packets, every 2¹⁶th and the last that the link is due at
/// the exact time of all bytes, computed in 128 bits and rounded up.
fn run_backlogged(bps: u64, packets: u32) {
    let (mut line, mut lengths, mut bytes) = (line(bps), Lengths(bps), 0_u64);
    for packet in 1..=packets {
        let len = lengths.next();
        line.charge(line.due(), len);
        bytes += u64::from(len);
        if packet <= 1_000 || packet % 65_536 == 0 || packet == packets {
            let exact = exact_nanos(bytes.into(), bps);
            assert_eq!(line.due(), Nanos(exact), "{bps} bit/s, {packet} packets");
        }
    }
}

/// Goal: no rate drifts, and none is a nanosecond early. Method: a backlogged link is polled at
/// `due`. The notorious rates run ten million packets at full depth, otherwise half a million. The
/// others run a hundred thousand, because a wrong remainder shows within a few packets, or
/// `FREEBOARD_PACKETS`: with ten million the test takes half a minute.
#[test]
fn a_backlogged_line_ends_on_the_exact_nanosecond_at_any_rate() {
    let rates = rates();
    assert!(rates.len() >= 200);
    let others = std::env::var("FREEBOARD_PACKETS").map_or(100_000, |packets| {
        packets.parse().expect("FREEBOARD_PACKETS: a number of packets")
    });
    for (index, &bps) in rates.iter().enumerate() {
        run_backlogged(
            bps,
            if index < NOTORIOUS.len() { effort(500_000, 10_000_000) } else { others },
        );
    }
}

/// Goal: an idle link saves nothing and loses nothing, also over gaps in which 32-bit clocks wrap.
/// Method: bursts of 100 packets between gaps; each burst takes its exact time from its start.
#[test]
fn every_busy_period_starts_anew() {
    for bps in [1_000_000, 750_000_000, 4_294_967_291, 400_000_000_000] {
        let (mut line, mut lengths) = (line(bps), Lengths(7));
        for gap in
            [1, 999, 4_294_967_295, 4_294_967_296, 4_294_967_297, 8_589_934_592, 12_884_901_888]
        {
            let start = line.due().plus(Nanos(gap));
            let mut bytes = 0_u128;
            for packet in 0..100 {
                let len = lengths.next();
                line.charge(if packet == 0 { start } else { line.due() }, len);
                bytes += u128::from(len);
                assert_eq!(line.due(), start.plus(Nanos(exact_nanos(bytes, bps))));
            }
        }
    }
}

/// Goal: a caller that polls every microsecond gets exactly the rate. Method: 20 simulated seconds
/// at full depth, otherwise one, with a full queue, at rates at which a packet takes many polls,
/// about one, and less than one; bytes sent = rate · t, to within one packet.
#[test]
fn a_coarse_timer_costs_no_rate_if_the_line_may_catch_up() {
    const LEN: u32 = 1_514;
    let poll = Nanos::from_micros(1);
    let seconds = effort(1, 20);
    let end = Nanos::from_secs(seconds);
    for bps in [8_000, 1_000_000, 999_999_937, 10_000_000_000, 12_112_000_000, 40_000_000_000] {
        let mut line = line(bps).with_catch_up(poll);
        let (mut now, mut bytes) = (Nanos::ZERO, 0_u64);
        line.wake(now);
        while now < end {
            while line.is_open(now) {
                line.charge(now, LEN);
                bytes += u64::from(LEN);
            }
            now = now.plus(poll);
        }
        // The last poll is one microsecond before the end.
        let exact = (bps * seconds).div_ceil(8);
        let off = bytes.abs_diff(exact);
        assert!(off <= u64::from(LEN) + bps / 8_000_000, "{bps} bit/s: {off} bytes off");
    }
}
