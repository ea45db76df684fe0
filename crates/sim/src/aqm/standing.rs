//! Times of an AQM's signals to a standing queue.

use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, Ecn, FlowId, Head,
    Look, Nanos, Verdict,
};

/// Times of the signals to a standing queue as RFC 8289 prints them, for an interval of 100 ms, in
/// ms after the first: the sums of `100 ms / √n`.
pub const PUBLISHED: [f64; 12] = [
    0.0, 100.0, 170.711, 228.446, 278.446, 323.167, 363.992, 401.788, 437.144, 470.477, 502.1,
    532.251,
];

/// A packet of a long queue, with a sojourn time above any target here.
const fn standing(now: u64) -> Head {
    let sojourn = Nanos(1 << 33);
    let (bytes_behind, packets) = (1 << 20, 1 << 10);
    Head { now: Nanos(now), sojourn, bytes_behind, packets, ecn: Ecn::NotEct }
}

/// Returns the first time from `from` on at which the departing packet is signalled.
fn next_signal(aqm: &impl Aqm, from: u64) -> u64 {
    let signals = |at| aqm.foresee(FlowId(0))(standing(at)) == Verdict::Signal;
    let mut step = 1 << 10;
    while step < 1 << 40 && !signals(from + step) {
        step *= 2;
    }
    let (mut low, mut high) = (from, from + step);
    while low < high {
        let middle = low.midpoint(high);
        if signals(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

/// Returns the times for a standing queue that starts at 0: 0, and those of the first `count`
/// signals. A binary search per signal.
fn signals(mut aqm: impl Aqm, count: u32) -> Vec<u64> {
    let flow = FlowId(0);
    assert_eq!(
        aqm.judge(flow, standing(0), Look::Close),
        Verdict::Pass,
        "the queue begins to stand"
    );
    let mut all = vec![0];
    for _ in 0..count {
        let at = next_signal(&aqm, all.last().copied().unwrap_or(0));
        assert_eq!(aqm.judge(flow, standing(at), Look::Close), Verdict::Signal);
        all.push(at);
    }
    all
}

/// Returns the times in nanoseconds of the first `n + 1` signals of CoDel, and the start of the
/// standing queue and the first `n` signals of COBALT, with names: both have the distances
/// `interval / √1`, `interval / √2`, …, `interval / √n`. The target is a twentieth of `interval`.
///
/// # Panics
/// If the interval is out of range.
#[must_use]
pub fn schedules(interval: Nanos, n: u32) -> [(&'static str, Vec<u64>); 2] {
    let target = Nanos(interval.0 / 20);
    let codel = CoDel::new([CoDelState::EMPTY], CoDelParams::new(target, interval));
    let cobalt = Cobalt::new([CobaltState::EMPTY], CobaltParams::new(target, interval), 1);
    // CoDel's schedule begins with its first signal, an interval after the queue begins to stand.
    let of_codel = signals(codel.expect("in range"), n + 1).split_off(1);
    [("CoDel", of_codel), ("COBALT", signals(cobalt.expect("in range"), n))]
}

/// Returns the maximum difference of a schedule from [`PUBLISHED`] in nanoseconds.
#[must_use]
pub fn off_published(schedule: &[u64]) -> f64 {
    let pairs = schedule.iter().zip(PUBLISHED);
    let off = pairs.map(|(&at, printed)| ((at - schedule[0]) as f64 - printed * 1e6).abs());
    off.fold(0.0, f64::max)
}

/// Returns the maximum relative error of the distances of a schedule: the n-th should be
/// `interval / √n`.
#[must_use]
pub fn error(schedule: &[u64], interval: Nanos) -> f64 {
    let distances = (1_u32..).zip(schedule.windows(2));
    let off = distances.map(|(n, pair)| {
        let exact = interval.0 as f64 / libm::sqrt(f64::from(n));
        ((pair[1] - pair[0]) as f64 / exact - 1.0).abs()
    });
    off.fold(0.0, f64::max)
}
