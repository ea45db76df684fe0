//! RED: its average after a burst, and the spacing of its congestion signals.

use freeboard::sched_core::{
    Admission, Aqm, Backlog, FlowId, Look, Nanos, Offer, Packet, Probability, Red, RedParams,
    RedState,
};

use super::{Line, Source};
use crate::plot::fixed;

/// Number of packets in a burst into an empty queue.
const BURST: u32 = 50;
/// Bytes of a packet.
const LEN: u32 = 1_000;

fn offer(packets: u32, bytes: u32) -> Offer {
    let held = Backlog { packets, bytes };
    Offer { now: Nanos(0), packet: Packet::new(0, LEN), held }
}

/// Returns the average, in packets, after a burst of [`BURST`] packets, with a weight of
/// 1/`2^weight`.
fn after_a_burst(weight: u32) -> f64 {
    let params = RedParams::new(1 << 20, 1 << 21).with_weight(weight);
    let mut red = Red::new([RedState::EMPTY], params, 1).expect("in range");
    for held in 0..=BURST {
        let told = red.admit(FlowId(0), offer(held, held * LEN), Look::Close);
        assert_eq!(told, Admission::Accept, "far below the thresholds");
    }
    f64::from(red.average(FlowId(0))) / f64::from(LEN)
}

/// Returns the published sum: `L + 1 + ((1 − w)^(L + 1) − 1)/w`.
fn formula(weight: u32) -> f64 {
    let (l, w) = (f64::from(BURST), libm::pow(0.5, f64::from(weight)));
    l + 1.0 + (libm::pow(1.0 - w, l + 1.0) - 1.0) / w
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for weight in [7, 8, 9] {
        let what = format!("RED: average after a burst of {BURST}, w = 2^-{weight}");
        let (exact, ours) = (formula(weight), after_a_burst(weight));
        let holds = (ours - exact).abs() <= 0.005;
        lines.push(Line::judged(Source::Red, what, &fixed(exact, 2), fixed(ours, 2), holds));
    }
    // The average stays in the middle between the thresholds: half of the maximum probability.
    let params = RedParams::new(10_000, 30_000)
        .with_weight(1)
        .with_max_probability(Probability::ratio(1, 50).expect("a probability"));
    let mut red = Red::new([RedState::EMPTY], params, 1).expect("in range");
    let (mut distances, mut distance) = (Vec::new(), 0_u32);
    for _ in 0..10_000_000 {
        distance += 1;
        if red.admit(FlowId(0), offer(20, 20_001), Look::Close) != Admission::Accept {
            distances.push(distance);
            distance = 0;
        }
    }
    // During the first distances the average is still rising.
    let steady = distances.get(10..).unwrap_or_default();
    let (least, most) = (steady.iter().min().copied(), steady.iter().max().copied());
    let sum: u64 = steady.iter().copied().map(u64::from).sum();
    let mean = sum as f64 / steady.len() as f64;
    let ours = format!("{} to {}, mean {}", least.unwrap_or(0), most.unwrap_or(0), fixed(mean, 1));
    let holds = least == Some(1) && most == Some(100) && (mean - 50.5).abs() <= 0.2;
    lines.push(Line::judged(
        Source::Red,
        "RED: arrivals to the next one told, p = 0.01",
        "1 to 100, mean 50.5",
        ours,
        holds,
    ));
    lines
}
