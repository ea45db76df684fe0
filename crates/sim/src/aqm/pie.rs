//! PIE at a constant delay, and with traffic of a constant rate.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{
    Admission, Aqm, Backlog, Descriptor, Drr, DrrFlow, Ecn, FlowId, FlowQueues, Head, Limits, Look,
    Nanos, Offer, Packet, Pie, PieParams, PieState, Probability, Queue, Scheduler,
};

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;

/// Resolution of the library's probability.
const STEP: f64 = 1.0 / 4_294_967_296.0;

fn as_float(probability: Probability) -> f64 {
    f64::from(probability.raw()) * STEP
}

fn offer(now: u64, packets: u32) -> Offer {
    let held = Backlog { packets, bytes: packets * 1_500 };
    Offer { now: Nanos(now), packet: Packet::new(0, 1_500), held }
}

const fn head(now: u64, delay: Nanos) -> Head {
    let now = Nanos(now);
    Head { now, sojourn: delay, bytes_behind: 1 << 20, packets: 1 << 10, ecn: Ecn::NotEct }
}

/// Creates PIE with the defaults of the RFC, for a queue that is not empty from 0 on.
fn begun(seed: u64) -> Pie<[PieState; 1]> {
    let mut aqm = Pie::new([PieState::EMPTY], PieParams::default(), seed).expect("in range");
    assert_eq!(aqm.admit(FlowId(0), offer(0, 0), Look::Close), Admission::Accept);
    aqm
}

/// Series of the probability after each update while the delay is constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Queueing delay.
    pub delay: Nanos,
    /// Number of decimals with which the series is printed.
    pub decimals: usize,
    digits: [u32; 12],
}

impl Series {
    /// The series of RFC 8033's formulas.
    pub const PUBLISHED: [Self; 2] = [
        Self {
            delay: Nanos::from_millis(50),
            decimals: 9,
            digits: [
                32_654, 66_833, 101_013, 237_732, 374_451, 511_169, 647_888, 784_607, 921_326,
                1_058_044, 1_604_919, 2_151_794,
            ],
        },
        Self {
            delay: Nanos::from_millis(300),
            decimals: 6,
            digits: [
                20_201, 58_013, 95_826, 133_638, 173_638, 213_638, 253_638, 293_638, 333_638,
                373_638, 413_638, 453_638,
            ],
        },
    ];

    /// Returns the printed probabilities.
    #[must_use]
    pub fn printed(&self) -> Vec<f64> {
        self.digits.iter().map(|&digits| self.value(digits)).collect()
    }

    fn value(&self, digits: u32) -> f64 {
        f64::from(digits) / libm::pow(10.0, self.decimals as f64)
    }

    /// Returns the probabilities of the library's PIE.
    ///
    /// # Panics
    /// Never: the parameters are in range.
    #[must_use]
    pub fn measured(&self) -> Vec<f64> {
        let mut aqm = begun(1);
        let mut all = Vec::new();
        for update in 0..=self.digits.len() as u64 {
            let head = head(1 + update * 15 * MS, self.delay);
            let _passes = aqm.judge(FlowId(0), head, Look::Close);
            all.push(as_float(aqm.probability(FlowId(0))));
        }
        all.split_off(1)
    }

    /// Returns the number of measured probabilities that are equal to the printed digits.
    #[must_use]
    pub fn near(&self) -> usize {
        let half = self.value(1) / 2.0 + STEP;
        let pairs = self.measured().into_iter().zip(self.printed());
        pairs.filter(|(measured, printed)| (measured - printed).abs() <= half).count()
    }
}

/// Numbers of arrivals from one congestion signal to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distances {
    /// Probability of a signal, which is constant.
    pub probability: f64,
    /// The minimum.
    pub least: u32,
    /// The maximum.
    pub most: u32,
}

/// Returns the distances between the signals to a million arrivals, after 40 updates with a delay
/// of 50 ms.
///
/// # Panics
/// Never: the parameters are in range.
#[must_use]
pub fn distances() -> Distances {
    let mut aqm = begun(2);
    let mut now = 0;
    for update in 0..40 {
        now = 1 + update * 15 * MS;
        let _passes = aqm.judge(FlowId(0), head(now, Nanos(50 * MS)), Look::Close);
    }
    let probability = as_float(aqm.probability(FlowId(0)));
    let (mut least, mut most, mut distance) = (u32::MAX, 0, 0_u32);
    let mut first = true;
    for _ in 0..1_000_000 {
        distance += 1;
        if aqm.admit(FlowId(0), offer(now, 40), Look::Close) == Admission::Accept {
            continue;
        }
        if !first {
            (least, most) = (least.min(distance), most.max(distance));
        }
        (first, distance) = (false, 0);
    }
    Distances { probability, least, most }
}

/// Results of traffic, of one run or of several.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of marked packets.
    pub marked: u64,
    /// Number of rejected arrivals.
    pub refused: u64,
    /// Number of packets dropped from the queue.
    pub forced: u64,
    /// Largest increase of the probability above 10 %.
    pub step: f64,
    /// Minimum probability at which an arrival was rejected.
    pub refused_at: f64,
}

impl Outcome {
    /// The results of no traffic.
    pub const NONE: Self = Self { marked: 0, refused: 0, forced: 0, step: 0.0, refused_at: 1.0 };

    /// Adds the results of another run: sums, the larger step and the smaller probability.
    pub const fn add(&mut self, other: &Self) {
        self.marked += other.marked;
        self.refused += other.refused;
        self.forced += other.forced;
        self.step = self.step.max(other.step);
        self.refused_at = self.refused_at.min(other.refused_at);
    }
}

/// Offers 400 packets of 1,000 bytes, one each 10 ms; one packet leaves each `out` ms. This is the
/// traffic of ns-3's tests of PIE.
///
/// # Panics
/// If the parameters are out of range.
#[must_use]
pub fn traffic(params: PieParams, out: u64, ecn: Ecn, seed: u64) -> Outcome {
    let mut scheduler = Drr::new([DrrFlow::EMPTY], 10_000).expect("in range");
    scheduler.add_all(10_000).expect("in range");
    let pie = Pie::new([PieState::EMPTY], params, seed).expect("in range");
    let descriptors = vec![Descriptor::EMPTY; 512];
    let mut line =
        FlowQueues::with_parts(scheduler, pie, [Queue::EMPTY], descriptors, [], Limits::NONE);
    let mut outcome = Outcome::NONE;
    let (mut free, mut before): (VecDeque<u32>, f64) = ((0..512).collect(), 0.0);
    for ms in 0..8_000 {
        let now = Nanos(ms * MS);
        let p =
            |line: &FlowQueues<_, (_, _, _), Pie<_>>| as_float(line.aqm().probability(FlowId(0)));
        if ms % 10 == 0 && ms < 4_000 {
            let handle = free.pop_front().expect("512 handles are enough");
            let packet = Packet { ecn, ..Packet::new(handle, 1_000) };
            if line.enqueue(now, FlowId(0), packet, &mut |_: Packet, _| {}).is_err() {
                outcome.refused += 1;
                outcome.refused_at = outcome.refused_at.min(p(&line));
                free.push_back(handle);
            }
        }
        if ms % out == 0 {
            let packet = line.dequeue(now, &mut |_: Packet, _| {});
            free.extend(packet.map(|packet| packet.handle));
        }
        let now_p = p(&line);
        if before > 0.1 {
            outcome.step = outcome.step.max(now_p - before);
        }
        before = now_p;
    }
    outcome.marked = line.counters().marked;
    outcome.forced = line.counters().dropped_total().packets;
    outcome
}
