//! Flow-level model of one link without round-trip times: all bytes of a flow are queued when it
//! begins, and the flow scheduler alone decides who sends next. Queueing theory has formulas for
//! this model with random flow sizes.
//!
//! The flow schedulers are those of the library, with packets of a tenth of the shortest flow,
//! which is close to a fluid because a turn is one packet.

use serde::{Deserialize, Serialize};

use crate::sizes::{BoundedPareto, FlowSizes};
use conformance::rng::Streams;
use freeboard::sched_core::{
    AgeDrr, AgeFlow, AgeParams, Drr, DrrFlow, FlowId, FlowScheduler, ThresholdRange,
};

/// Packets of the shortest flow. Its size is the unit of sizes.
const UNIT: u32 = 10;
/// Size of the longest flow, in units.
const LONGEST: f64 = 10_000.0;
/// Index of the Pareto distribution.
const SHAPE: f64 = 1.5;
/// Distribution of sizes in packets.
const PACKETS: BoundedPareto =
    BoundedPareto::new(SHAPE, UNIT as f64, UNIT as f64 * LONGEST).unwrap();
/// Distribution of sizes in units.
const UNITS: BoundedPareto = BoundedPareto::new(SHAPE, 1.0, LONGEST).unwrap();
/// Maximum number of concurrent flows. The number of flows under processor sharing is geometric: at
/// a load of 0.9 there are 4,096 with a probability of 10^-187.
const ROOM: usize = 4_096;

/// Scheduling of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Processor sharing: DRR.
    Equal,
    /// Two-level processor sharing with this threshold in units: `AgeDrr`.
    TwoLevels(u32),
    /// 16 levels that end at 1, 2, 4, … units: `AgeDrr`.
    Least,
    /// Two levels with a learned threshold, from 100 units on: `AgeDrr`.
    Learned,
}

/// Results of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Mean time of a flow from beginning to end, in transmission times of a unit.
    pub mean: f64,
    /// Mean of a flow's time divided by its size.
    pub slowdown: f64,
    /// Mean slowdown of flows of more than 100 units.
    pub of_long: f64,
    /// Last threshold, in units; 0 without one.
    pub threshold: f64,
}

/// Runs `flows` flows to their end, with exponential interarrival times at this load. The first
/// tenth is not counted.
///
/// # Panics
/// If there are more than 4,096 flows at once, or the threshold of two levels is out of range.
#[must_use]
pub fn run(sharing: Sharing, load: f64, flows: u32, seed: u64) -> Outcome {
    let one = |params| {
        let mut scheduler = AgeDrr::new(vec![AgeFlow::EMPTY; ROOM], 1, params).expect("in range");
        scheduler.add_all(1).expect("a quantum in range");
        let outcome = play(&mut scheduler, load, flows, seed);
        let threshold = f64::from(scheduler.threshold()) / f64::from(UNIT);
        Outcome { threshold, ..outcome }
    };
    match sharing {
        Sharing::Equal => {
            let mut scheduler = Drr::new(vec![DrrFlow::EMPTY; ROOM], 1).expect("in range");
            scheduler.add_all(1).expect("a quantum in range");
            play(&mut scheduler, load, flows, seed)
        }
        Sharing::TwoLevels(threshold) => one(AgeParams::two_levels(threshold * UNIT)),
        Sharing::Least => one(AgeParams::least_attained(UNIT)),
        Sharing::Learned => {
            let range = ThresholdRange { least: UNIT, most: 10_000 * UNIT };
            one(AgeParams::two_levels(100 * UNIT).with_learned_threshold(range))
        }
    }
}

/// A flow in progress.
#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u32,
    began: f64,
    packets: u32,
    left: u32,
}

fn play<S>(scheduler: &mut S, load: f64, flows: u32, seed: u64) -> Outcome
where
    S: FlowScheduler<Config = u32>,
{
    let streams = Streams::new(seed);
    let sizes = FlowSizes::BoundedPareto(PACKETS);
    let sizes = sizes.draw_from_each_part(&mut streams.stream("sizes"), flows);
    let mut distances = streams.stream("distances");
    // In units of time of one packet.
    let distance = mean_size() * f64::from(UNIT) / load;
    let mut present: Vec<Option<Flow>> = vec![None; ROOM];
    let mut free: Vec<u32> = (0..ROOM as u32).rev().collect();
    let (mut now, mut begun, mut ended) = (0.0_f64, 0_u32, 0_u32);
    let mut next = -libm::log(distances.unit()) * distance;
    let warm = flows / 10;
    let (mut sum, mut slowdowns) = (0.0, 0.0);
    let (mut long, mut of_long) = (0.0, 0.0);
    while ended < flows {
        let selected = scheduler.select();
        if begun < flows && (next <= now || selected.is_none()) {
            now = now.max(next);
            let flow = free.pop().expect("fewer flows at once than there is room for");
            let packets = sizes[begun as usize] as u32;
            present[flow as usize] =
                Some(Flow { number: begun, began: next, packets, left: packets });
            scheduler.backlogged(FlowId(flow), 1);
            begun += 1;
            next -= libm::log(distances.unit()) * distance;
            continue;
        }
        let flow = selected.expect("a flow is there, or another begins");
        now += 1.0;
        let here = present[flow.index()].as_mut().expect("a backlogged flow is there");
        here.left -= 1;
        if here.left > 0 {
            scheduler.served(flow, 1, Some(1));
            continue;
        }
        scheduler.served(flow, 1, None);
        let Flow { number, began, packets, .. } = *here;
        present[flow.index()] = None;
        free.push(flow.0);
        // The next flow with this number is new.
        scheduler.remove(flow);
        scheduler.configure(flow, 1, None).expect("a quantum in range");
        ended += 1;
        if number < warm {
            continue;
        }
        let (time, size) = (now - began, f64::from(packets));
        sum += time;
        slowdowns += time / size;
        if packets > 100 * UNIT {
            long += 1.0;
            of_long += time / size;
        }
    }
    let counted = f64::from(flows - warm);
    Outcome {
        mean: sum / counted / f64::from(UNIT),
        slowdown: slowdowns / counted,
        of_long: if long > 0.0 { of_long / long } else { 0.0 },
        threshold: 0.0,
    }
}

/// Returns the mean size in units.
fn mean_size() -> f64 {
    UNITS.mean()
}

/// Returns `E[min(S, x)^n]`: `∫₀ˣ n·t^(n−1)·P(S > t) dt` in closed form.
fn moment(n: u32, x: f64) -> f64 {
    let end = libm::pow(LONGEST, -SHAPE);
    let n = f64::from(n);
    // P(S > t) = (t^−α − H^−α)/(1 − H^−α) from 1 on, and 1 below.
    let power = |t: f64| n * libm::pow(t, n - SHAPE) / (n - SHAPE) - end * libm::pow(t, n);
    if x <= 1.0 { libm::pow(x, n) } else { 1.0 + (power(x) - power(1.0)) / (1.0 - end) }
}

/// Returns the mean time under processor sharing: `E[S]/(1 − ρ)`.
#[must_use]
pub fn equal(load: f64) -> f64 {
    mean_size() / (1.0 - load)
}

/// Returns the mean time under least attained service: the mean of `T(x) = λ·m₂(x)/(2(1 − ρ_x)²) +
/// x/(1 − ρ_x)` over the sizes.
#[must_use]
pub fn least(load: f64) -> f64 {
    let rate = load / mean_size();
    let time = |x: f64| {
        let rest = 1.0 - rate * moment(1, x);
        rate * moment(2, x) / (2.0 * rest * rest) + x / rest
    };
    // Integrated at the midpoints of 20,000 parts of equal probability.
    let parts = 20_000;
    let of_part = |part: u32| time(UNITS.quantile((f64::from(part) + 0.5) / f64::from(parts)));
    (0..parts).map(of_part).sum::<f64>() / f64::from(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::transfers::transfer_sizes;

    /// Goal: the mean of the distribution and the truncated moments are right. Method: compare with
    /// sums over the quantiles.
    #[test]
    fn moments_are_those_of_the_distribution() {
        let parts = conformance::effort::effort(200_000, 1_000_000);
        for (n, x) in [(1, 1.0), (1, 5.0), (2, 5.0), (1, 100.0), (2, 100.0), (2, 0.5)] {
            let sum: f64 = (0..parts)
                .map(|part| {
                    let quantile = (f64::from(part) + 0.5) / f64::from(parts);
                    libm::pow(UNITS.quantile(quantile).min(x), f64::from(n))
                })
                .sum();
            let found = moment(n, x);
            assert!((found - sum / f64::from(parts)).abs() < 1e-3 * found, "{n}, {x}: {found}");
        }
        assert!((mean_size() - 2.970).abs() < 0.001);
    }

    /// Goal: a short version of the experiment: processor sharing and least attained service are
    /// close to theory, and two levels lie between them. Method: 40,000 flows at a load of 0.5,
    /// within 5 %.
    #[test]
    fn few_flows_come_near_to_theory() {
        let mean = |sharing| run(sharing, 0.5, 40_000, 1).mean;
        let [ps, two, las] = [Sharing::Equal, Sharing::TwoLevels(5), Sharing::Least].map(mean);
        assert!((ps / equal(0.5) - 1.0).abs() < 0.05, "{ps}");
        assert!((las / least(0.5) - 1.0).abs() < 0.05, "{las}");
        assert!(las < two && two < 0.95 * ps, "{las} {two} {ps}");
    }

    /// Goal: the sizes of a run have the right mean and are not ordered.
    #[test]
    fn sizes_have_their_mean() {
        let sizes = FlowSizes::BoundedPareto(PACKETS);
        let sizes = sizes.draw_from_each_part(&mut Streams::new(1).stream("sizes"), 100_000);
        let mean = |sizes: &[u64]| {
            let below = sizes.iter().map(|&size| size.min(100 * u64::from(UNIT))).sum::<u64>();
            below as f64 / sizes.len() as f64 / f64::from(UNIT)
        };
        let exact = moment(1, 100.0);
        assert!((mean(&sizes) - exact).abs() < 0.002, "{}", mean(&sizes));
        for part in sizes.chunks(10_000) {
            assert!((mean(part) - exact).abs() < 0.25, "{}", mean(part));
        }
        for (shape, shortest) in [(1.1, 18_216.0), (1.3, 26_397.0), (1.5, 34_421.0)] {
            let transfers = transfer_sizes(shape);
            let parts = 100_000;
            let of_part =
                |part: u32| transfers.quantile((f64::from(part) + 0.5) / f64::from(parts));
            let mean = (0..parts).map(of_part).sum::<f64>() / f64::from(parts);
            assert!((mean - 100_000.0).abs() < 50.0, "{mean}");
            assert!((transfers.smallest() - shortest).abs() < 1.0, "{transfers:?}");
        }
        assert!((UNITS.mean() - moment(1, LONGEST)).abs() < 1e-9);
    }
}
