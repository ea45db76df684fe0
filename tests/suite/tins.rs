//! Targets and intervals of an AQM by rate, against what a deployed shaper sets.

use freeboard::Rtt;
use freeboard::sched_core::{Cobalt, CobaltState, Nanos};
use freeboard::shaper::Rate;

/// Bytes of the longest packet that the table is for: an Ethernet frame.
const MTU: u32 = 1_514;

/// A tin of a mode at a bandwidth.
struct Tin {
    line: &'static str,
    rtt: Rtt,
    rate: Rate,
    target_us: u64,
    interval_us: u64,
}

/// `golden/tins.tsv` holds what Linux 6.1's CAKE sets for each tin of five modes at ten bandwidths and round-trip times.
fn tins() -> Vec<Tin> {
    let table = include_str!("../golden/tins.tsv");
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let tin = |line: &'static str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, _tin, bytes, target, interval, _quantum] = fields[..].try_into().unwrap();
        let number = |field: &str| field.parse::<u64>().unwrap();
        let rtt = name.split_once(" rtt ").map_or(Rtt::INTERNET, |(_, rtt)| {
            Rtt::new(Nanos::from_millis(number(rtt.strip_suffix("ms").unwrap()))).unwrap()
        });
        let rate = Rate::bits_per_second(8 * number(bytes)).unwrap();
        Tin { line, rtt, rate, target_us: number(target), interval_us: number(interval) }
    };
    lines.map(tin).collect()
}

fn micros(time: Nanos) -> u64 {
    time.0 / 1_000
}

/// Goal: COBALT for a rate has the target and the interval of CAKE, to the microsecond, in every line of the table.
#[test]
fn cobalt_has_the_target_and_the_interval_of_every_recorded_tin() {
    let tins = tins();
    assert_eq!(tins.len(), 240);
    for tin in tins {
        let params = tin.rtt.cobalt(tin.rate, MTU);
        let ours = (micros(params.target_on_line()), micros(params.interval_on_line()));
        assert_eq!(ours, (tin.target_us, tin.interval_us), "{}", tin.line);
        assert!(Cobalt::new([CobaltState::EMPTY; 1], params, 1).is_ok(), "{}", tin.line);
    }
}

/// Goal: CoDel for a rate departs from the table by its one rule, two packets in place of one and a half: where that
/// raises the target, it is at most four thirds of the recorded one, and the interval grows by as much.
#[test]
fn codel_departs_from_the_recorded_tins_by_its_two_packets_alone() {
    let mut as_recorded = 0;
    for tin in tins() {
        let params = tin.rtt.codel(tin.rate, MTU);
        let two = tin.rate.time_of(2 * MTU);
        if two <= tin.rtt.target() {
            as_recorded += 1;
            let ours = (micros(params.target), micros(params.interval));
            assert_eq!(ours, (tin.target_us, tin.interval_us), "{}", tin.line);
            continue;
        }
        assert_eq!(params.target, two, "{}", tin.line);
        assert!(micros(two) >= tin.target_us, "{}", tin.line);
        assert!(3 * micros(two) <= 4 * (tin.target_us + 1), "{}", tin.line);
        let grown = micros(params.interval) - tin.interval_us;
        let more = micros(two) - tin.target_us;
        assert!((more.saturating_sub(1)..=2 * more + 1).contains(&grown), "{}", tin.line);
    }
    assert_eq!(as_recorded, 132, "of 240");
}

/// Goal: a line that stands still or has no limit has parameters in range, and COBALT takes them.
#[test]
fn the_ends_of_the_rates_are_in_range() {
    for (rate, longest) in [(Rate::UNLIMITED, 0), (Rate::STOPPED, (1 << 33) - 1)] {
        for (_, rtt) in Rtt::PRESETS {
            let params = rtt.cobalt(rate, MTU);
            assert_eq!(params.mtu_time, Nanos(longest));
            assert_eq!((params.target, params.interval), (rtt.target(), rtt.span()));
            assert!(Cobalt::new([CobaltState::EMPTY; 1], params, 1).is_ok());
        }
    }
}
