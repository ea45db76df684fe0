//! RED with a queue of constant length.

use freeboard::sched_core::{
    Admission, Aqm, Backlog, FlowId, Look, Nanos, Offer, Packet, Probability, Red, RedParams,
    RedState,
};

/// Bytes of a packet.
const LEN: u32 = 1_000;

fn offer(packets: u32, bytes: u32) -> Offer {
    let held = Backlog { packets, bytes };
    Offer { now: Nanos(0), packet: Packet::new(0, LEN), held }
}

/// Returns the average, in packets, after `burst` packets into an empty queue, with a weight of
/// 1/`2^weight`.
///
/// # Panics
/// If the burst comes near to the minimum threshold of 1 MiB.
#[must_use]
pub fn average_after(burst: u32, weight: u32) -> f64 {
    let params = RedParams::new(1 << 20, 1 << 21).with_weight(weight);
    let mut red = Red::new([RedState::EMPTY], params, 1).expect("in range");
    for held in 0..=burst {
        let told = red.admit(FlowId(0), offer(held, held * LEN), Look::Close);
        assert_eq!(told, Admission::Accept, "far below the thresholds");
    }
    f64::from(red.average(FlowId(0))) / f64::from(LEN)
}

/// Returns the average after such a burst by the paper's formula: `L + 1 + ((1 − w)^(L + 1) −
/// 1)/w`.
#[must_use]
pub fn published_average(burst: u32, weight: u32) -> f64 {
    let (l, w) = (f64::from(burst), libm::pow(0.5, f64::from(weight)));
    l + 1.0 + (libm::pow(1.0 - w, l + 1.0) - 1.0) / w
}

/// Numbers of arrivals from one congestion signal to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distances {
    /// The minimum.
    pub least: u32,
    /// The maximum.
    pub most: u32,
    /// The arithmetic mean.
    pub mean: f64,
}

/// Returns the distances between the signals to `arrivals` arrivals, a few thousand at least, with
/// a probability of 1 %: the average stays in the middle between the thresholds, at half of the
/// maximum probability.
///
/// # Panics
/// If there are fewer than 11 signals.
#[must_use]
pub fn distances(arrivals: u32) -> Distances {
    let params = RedParams::new(10_000, 30_000)
        .with_weight(1)
        .with_max_probability(Probability::ratio(1, 50).expect("a probability"));
    let mut red = Red::new([RedState::EMPTY], params, 1).expect("in range");
    let (mut distances, mut distance) = (Vec::new(), 0_u32);
    for _ in 0..arrivals {
        distance += 1;
        if red.admit(FlowId(0), offer(20, 20_001), Look::Close) != Admission::Accept {
            distances.push(distance);
            distance = 0;
        }
    }
    // During the first distances the average is still rising.
    let steady = &distances[10..];
    let sum: u64 = steady.iter().copied().map(u64::from).sum();
    let (least, most) = (steady.iter().min(), steady.iter().max());
    Distances {
        least: *least.expect("more than ten signals"),
        most: *most.expect("more than ten signals"),
        mean: sum as f64 / steady.len() as f64,
    }
}
