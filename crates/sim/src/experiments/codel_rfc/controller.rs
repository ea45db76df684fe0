//! PIE: drop probability at constant delay, and its effect on traffic.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Admission, Aqm, Backlog, Descriptor, Drr, DrrFlow, Ecn, FlowId, FlowQueues, Head, Limits, Look,
    Nanos, Offer, Packet, Pie, PieParams, PieState, Probability, Queue, Scheduler,
};

use super::{Line, MS, Source};
use crate::plot::{Column, TextTable, fixed};

/// Probability after each update for a queue whose delay is 50 ms.
const AT_50_MS: [f64; 12] = [
    0.000032654,
    0.000066833,
    0.000101013,
    0.000237732,
    0.000374451,
    0.000511169,
    0.000647888,
    0.000784607,
    0.000921326,
    0.001058044,
    0.001604919,
    0.002151794,
];
/// Probability for 300 ms, and 0.04 more in each update after these.
const AT_300_MS: [f64; 4] = [0.020201, 0.058013, 0.095826, 0.133638];

/// Resolution of the library's probability.
const STEP: f64 = 1.0 / 4_294_967_296.0;

fn as_float(probability: Probability) -> f64 {
    f64::from(probability.raw()) * STEP
}

fn offer(now: u64, packets: u32) -> Offer {
    let held = Backlog { packets, bytes: packets * 1_500 };
    Offer { now: Nanos(now), packet: Packet::new(0, 1_500), held }
}

const fn head(now: u64, delay: u64) -> Head {
    let (now, sojourn) = (Nanos(now), Nanos(delay));
    Head { now, sojourn, bytes_behind: 1 << 20, packets: 1 << 10, ecn: Ecn::NotEct }
}

/// Creates PIE with the defaults of the RFC, for a queue that is not empty from 0 on.
fn begun(seed: u64) -> Pie<[PieState; 1]> {
    let mut aqm = Pie::new([PieState::EMPTY], PieParams::default(), seed).expect("in range");
    assert_eq!(aqm.admit(FlowId(0), offer(0, 0), Look::Close), Admission::Accept);
    aqm
}

/// Returns the probability after each update while the delay is `delay`.
fn updates(delay: u64, count: u64) -> Vec<f64> {
    let mut aqm = begun(1);
    let mut all = Vec::new();
    for update in 0..=count {
        let _passes = aqm.judge(FlowId(0), head(1 + update * 15 * MS, delay), Look::Close);
        all.push(as_float(aqm.probability(FlowId(0))));
    }
    all.split_off(1)
}

/// Returns the twelve probabilities for a delay of 300 ms.
fn at_300_ms() -> [f64; 12] {
    core::array::from_fn(|at| {
        let more = at.saturating_sub(AT_300_MS.len() - 1) as f64;
        AT_300_MS[at.min(AT_300_MS.len() - 1)] + 0.04 * more
    })
}

/// Returns the table of both series, as published and as calculated.
pub(super) fn table() -> String {
    let mut table = TextTable::new([
        Column::Right("update"),
        Column::Right("50 ms, printed"),
        Column::Right("PIE"),
        Column::Right("300 ms, printed"),
        Column::Right("PIE"),
    ]);
    let (at_50, at_300) = (updates(50 * MS, 12), updates(300 * MS, 12));
    for (at, (one, other)) in AT_50_MS.into_iter().zip(at_300_ms()).enumerate() {
        table.row([
            &(at + 1),
            &fixed(one, 9),
            &fixed(at_50[at], 9),
            &fixed(other, 6),
            &fixed(at_300[at], 6),
        ]);
    }
    table.to_string()
}

/// Returns the lines for both series of constant delays, and for the spacing.
pub(super) fn series() -> Vec<Line> {
    let line = |what: &str, delay: u64, printed: [f64; 12], decimals: usize| {
        let ours = updates(delay, printed.len() as u64);
        let half = 0.5 / libm::pow(10.0, decimals as f64) + STEP;
        let far =
            ours.iter().zip(printed).filter(|(ours, printed)| (**ours - printed).abs() > half);
        let far = far.count();
        let ours = format!("{} of 12", ours.len() - far);
        let expected = format!("12 of 12 to {decimals} digits");
        Line::judged(Source::Rfc8033, what, &expected, ours, far == 0)
    };
    vec![
        line("PIE: p of a delay of 50 ms", 50 * MS, AT_50_MS, 9),
        line("PIE: p of a delay of 300 ms", 300 * MS, at_300_ms(), 6),
        spacing(),
    ]
}

/// Spacing of the marked or dropped arrivals while the probability is constant.
fn spacing() -> Line {
    let mut aqm = begun(2);
    let mut now = 0;
    for update in 0..40 {
        now = 1 + update * 15 * MS;
        let _passes = aqm.judge(FlowId(0), head(now, 50 * MS), Look::Close);
    }
    let p = as_float(aqm.probability(FlowId(0)));
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
    let (closest, farthest) = (libm::ceil(0.85 / p), libm::ceil(8.5 / p));
    let holds = f64::from(least) >= closest && f64::from(most) <= farthest && least < most;
    let expected = format!("{} to {}", fixed(closest, 0), fixed(farthest, 0));
    let what = format!("PIE: arrivals to the next one told, p = {}", fixed(p, 4));
    Line::judged(Source::Rfc8033, what, &expected, format!("{least} to {most}"), holds)
}

/// Results for 400 packets of 1,000 bytes, one each 10 ms.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    marked: u64,
    refused: u64,
    forced: u64,
    /// Largest increase of the probability above 10 %.
    step: f64,
    /// Minimum probability at which an arrival was rejected.
    refused_at: f64,
}

/// Runs the traffic; one packet leaves each `out` ms.
fn run(params: PieParams, out: u64, ecn: Ecn, seed: u64) -> Outcome {
    let mut scheduler = Drr::new([DrrFlow::EMPTY], 10_000).expect("in range");
    scheduler.add_all(10_000).expect("in range");
    let pie = Pie::new([PieState::EMPTY], params, seed).expect("in range");
    let descriptors = vec![Descriptor::EMPTY; 512];
    let mut line =
        FlowQueues::with_parts(scheduler, pie, [Queue::EMPTY], descriptors, [], Limits::NONE);
    let mut outcome = Outcome { refused_at: 1.0, ..Outcome::default() };
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

fn params(target: u64, period: u64) -> PieParams {
    PieParams::new(Nanos::from_millis(target)).with_period(Nanos::from_millis(period))
}

/// Returns lines for the sums over the seeds of the values that ns-3's PIE tests examine.
pub(super) fn traffic(seeds: u32) -> Vec<Line> {
    let sum = |params: PieParams, out: u64, ecn: Ecn| {
        let each = (1..=u64::from(seeds)).map(|seed| run(params, out, ecn, seed));
        each.fold(Outcome { refused_at: 1.0, ..Outcome::default() }, |all, one| Outcome {
            marked: all.marked + one.marked,
            refused: all.refused + one.refused,
            forced: all.forced + one.forced,
            step: all.step.max(one.step),
            refused_at: all.refused_at.min(one.refused_at),
        })
    };
    let plain = |target, period, out| sum(params(target, period), out, Ecn::NotEct);
    let [two, three, four, five] =
        [plain(20, 30, 12), plain(80, 30, 12), plain(20, 30, 15), plain(20, 90, 15)];
    let mut marking = params(20, 30);
    marking.mark_up_to = Probability::ratio(3, 10).expect("a probability");
    let mut without = marking;
    without.mark_up_to = Probability::NEVER;
    let capable = sum(marking, 14, Ecn::Ect0);
    let others = [sum(marking, 14, Ecn::NotEct), sum(without, 14, Ecn::Ect0)];
    let forced = [two, three, four, five, capable].map(|one| one.forced).into_iter().sum::<u64>();
    let unmarked = others.map(|one| one.marked).into_iter().sum::<u64>();
    let ns3 = |what: &str, expected: &str, ours: String, holds| {
        Line::judged(Source::Ns3, what, expected, ours, holds)
    };
    vec![
        ns3("PIE 2: drops, out each 12 ms", "some", two.refused.to_string(), two.refused > 0),
        ns3(
            "PIE 3: the same, reference 80 ms",
            &format!("fewer than {}", two.refused),
            three.refused.to_string(),
            three.refused < two.refused,
        ),
        ns3(
            "PIE 4: drops, out each 15 ms",
            &format!("more than {}", two.refused),
            four.refused.to_string(),
            four.refused > two.refused,
        ),
        ns3(
            "PIE 5: the same, an update each 90 ms",
            &format!("fewer than {}", four.refused),
            five.refused.to_string(),
            five.refused < four.refused,
        ),
        ns3("PIE: forced drops", "0", forced.to_string(), forced == 0),
        ns3(
            "PIE: marks up to p = 0.3, then drops, ECT",
            "marks; drops above 0.3",
            format!("{} marks; drops from {}", capable.marked, fixed(capable.refused_at, 3)),
            capable.marked > 0 && capable.refused > 0 && capable.refused_at > 0.3,
        ),
        ns3(
            "PIE: marks of Not-ECT, and without marking",
            "0",
            unmarked.to_string(),
            unmarked == 0 && others.iter().all(|one| one.refused > 0),
        ),
        Line::departs(
            Source::Ns3,
            "PIE: largest step above p = 0.1",
            "0.02",
            fixed(capable.step, 2),
            "0.04",
            "above a delay of 250 ms the RFC adds 0.02 after its cap, as in its series above",
        ),
        Line::not_compared(
            Source::Ns3,
            "PIE: without the cap",
            "more than 0.02",
            "the cap cannot be switched off here",
        ),
        Line::not_compared(
            Source::Ns3,
            "PIE: accumulator −0.16 and 8.6",
            "0 drops; each eligible packet",
            "an accumulator cannot be set from outside; its bounds are the line of distances above, and the tests of \
             `aqm/pie.rs` set it",
        ),
        Line::not_compared(
            Source::Ns3,
            "PIE: active threshold 1 s and 1 ms",
            "0 drops; some",
            "there is no such option: a queue whose probability is zero begins anew with each first packet",
        ),
    ]
}
