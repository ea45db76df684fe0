//! Control law of CoDel and COBALT.

use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, Ecn, FlowId, Head,
    Look, Nanos, Verdict,
};

use super::{Line, MS, Source};
use crate::plot::{Column, TextTable, fixed, percent};

/// Times of the signals of a standing queue, in ms after the first: the sums of `100 ms / √n`.
const INSTANTS: [f64; 12] = [
    0.0, 100.0, 170.711, 228.446, 278.446, 323.167, 363.992, 401.788, 437.144, 470.477, 502.1,
    532.251,
];

/// Maximum relative error of `interval / √n`.
const NEAR: f64 = 0.005;
/// Largest `n` examined.
const MOST: u32 = 65_535;

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
/// signals.
fn instants(mut aqm: impl Aqm, count: u32) -> Vec<u64> {
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

fn codel(interval: u64) -> CoDel<[CoDelState; 1]> {
    let params = CoDelParams::new(Nanos(interval / 20), Nanos(interval));
    CoDel::new([CoDelState::EMPTY], params).expect("in range")
}

fn cobalt(interval: u64) -> Cobalt<[CobaltState; 1]> {
    let params = CobaltParams::new(Nanos(interval / 20), Nanos(interval));
    Cobalt::new([CobaltState::EMPTY], params, 1).expect("in range")
}

/// Returns the maximum relative error of the spacing: the n-th distance of `instants` belongs to
/// `n`.
fn error(instants: &[u64], interval: u64) -> f64 {
    let distances = (1_u32..).zip(instants.windows(2));
    let off = distances.map(|(n, pair)| {
        let exact = interval as f64 / libm::sqrt(f64::from(n));
        ((pair[1] - pair[0]) as f64 / exact - 1.0).abs()
    });
    off.fold(0.0, f64::max)
}

/// Returns the maximum difference of `instants` from those of the table, in ns.
fn off_the_table(instants: &[u64]) -> f64 {
    let pairs = instants.iter().zip(INSTANTS);
    let off = pairs.map(|(&at, table)| ((at - instants[0]) as f64 - table * 1e6).abs());
    off.fold(0.0, f64::max)
}

/// Returns CoDel's times from its first signal on, and COBALT's from the start of the standing
/// queue: the signals that the table describes. CoDel's schedule begins with its first signal, one
/// interval after the start of the standing queue.
fn both() -> [Vec<u64>; 2] {
    let interval = 100 * MS;
    [instants(codel(interval), 12).split_off(1), instants(cobalt(interval), 11)]
}

/// Returns the table of times, as published and as calculated.
pub(super) fn table() -> String {
    let mut table = TextTable::new([
        Column::Right("signal"),
        Column::Right("printed, ms"),
        Column::Right("CoDel"),
        Column::Right("COBALT"),
    ]);
    let [of_codel, of_cobalt] = both();
    let ms = |instants: &[u64], at: usize| fixed((instants[at] - instants[0]) as f64 / 1e6, 3);
    for (at, printed) in INSTANTS.into_iter().enumerate() {
        table.row([&at, &fixed(printed, 3), &ms(&of_codel, at), &ms(&of_cobalt, at)]);
    }
    table.to_string()
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    let whats =
        ["CoDel: 12 signals, after the first", "COBALT: 11 signals, after the queue stands"];
    for (what, instants) in whats.into_iter().zip(both()) {
        let off = off_the_table(&instants);
        // The table is rounded to a microsecond, a time to a nanosecond.
        let holds = instants.len() == INSTANTS.len() && off <= 501.0;
        let ours = format!("within {} µs", fixed(off / 1e3, 1));
        lines.push(Line::judged(Source::Rfc8289, what, "within 0.5 µs", ours, holds));
    }
    for interval in [MS, 100 * MS, (1 << 33) - 1] {
        let of_codel = instants(codel(interval), MOST + 1).split_off(1);
        let of_cobalt = instants(cobalt(interval), MOST);
        for (name, instants) in [("CoDel", of_codel), ("COBALT", of_cobalt)] {
            let (ms, n) = (fixed(interval as f64 / 1e6, 0), instants.len() - 1);
            let what = format!("{name}: n = 1 to {n}, interval {ms} ms");
            let off = error(&instants, interval);
            let expected = format!("interval/√n within {} %", percent(NEAR, 1));
            let ours = format!("within {} %", percent(off, 5));
            let holds = off <= NEAR && n == MOST as usize;
            lines.push(Line::judged(Source::Rfc8289, what, &expected, ours, holds));
        }
    }
    lines
}
