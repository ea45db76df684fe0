//! Hill climbing on measured/bound, to find violations of the bounds.

use super::draw::{below, length};
use super::{Bound, Burst, Depth, Outcome, Promising, Trial, Trials, play};
use crate::rng::{Stream, Streams};

/// Limits that keep trials fast (packets) and readable (flows, bursts).
pub(super) const MOST_PACKETS: u64 = 1_500;
const MOST_FLOWS: u64 = 6;
const MOST_BURSTS: usize = 6;
/// Minimum of `max_len`. Bounds are rounded up to bytes; with shorter packets the rounding alone
/// would bring a measure close to its bound.
const SHORTEST_MAX_LEN: u32 = 256;
/// Unsuccessful changes after which the search restarts from another random trial.
const PATIENCE: u32 = 800;

/// The worst trial that a search has found.
#[derive(Clone, Debug)]
pub struct Climb {
    /// Target of the search.
    pub bound: Bound,
    /// Outcome of the worst trial.
    pub outcome: Outcome,
    /// The worst trial.
    pub trial: Trial,
    /// Number of trials played.
    pub trials: u64,
}

/// Varies random trials step by step to bring `O` closer to `bound`, while `go_on` returns true.
///
/// # Errors
/// Returns a violated invariant of the flow scheduler and the trial that violates it, if that trial
/// came closer to the bound than those before it.
pub fn climb<O: Promising>(
    bound: Bound,
    seed: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<Climb, String> {
    let mut starts = Trials::new(seed);
    let mut random = Streams::new(seed).stream("changes");
    let mut best: Option<Climb> = None;
    let mut trials = 0;
    let evaluate = |trial: &Trial, depth| {
        play::<O>(trial, depth).map_err(|imbalance| format!("{imbalance}\n{trial}"))
    };
    while go_on() {
        let Some(mut trial) = starts.next() else { break };
        fit(&mut trial);
        let mut outcome = evaluate(&trial, Depth::Steps)?;
        let mut in_vain = 0;
        while in_vain < PATIENCE && go_on() {
            let mut next = trial.clone();
            for _ in 0..=random.below(3) {
                change(&mut next, &mut random);
            }
            if next.packets() > MOST_PACKETS {
                continue;
            }
            trials += 1;
            let found = evaluate(&next, Depth::Bounds)?;
            let (old, new) = (outcome.of(bound).ratio(), found.of(bound).ratio());
            in_vain = if new > old { 0 } else { in_vain + 1 };
            if new > old {
                evaluate(&next, Depth::Packets)?;
            }
            if new >= old {
                (trial, outcome) = (next, found);
            }
        }
        let better = |best: &Climb| outcome.of(bound).ratio() > best.outcome.of(bound).ratio();
        if best.as_ref().is_none_or(better) {
            best = Some(Climb { bound, outcome, trial, trials });
        }
    }
    let mut best = best.ok_or("there was no time for a single trial")?;
    best.trials = trials;
    Ok(best)
}

/// Reduces a trial to the limits of the search.
pub(super) fn fit(trial: &mut Trial) {
    trial.flows.truncate(MOST_FLOWS as usize);
    trial.max_len = trial.max_len.max(SHORTEST_MAX_LEN);
    for flow in &mut trial.flows {
        flow.bursts.truncate(MOST_BURSTS);
        flow.max_len = flow.max_len.max(SHORTEST_MAX_LEN);
    }
}

/// Makes one random change.
pub(super) fn change(trial: &mut Trial, random: &mut Stream) {
    let count = trial.flows.len() as u64;
    let at = random.below(count) as usize;
    let longest = trial.max_len;
    match random.below(12) {
        0 => trial.flows[at].weight = vary(random, trial.flows[at].weight, 1 << 16),
        1 => {
            let varied = vary(random, trial.flows[at].max_len, longest);
            trial.flows[at].max_len = varied.max(SHORTEST_MAX_LEN);
        }
        2 => {
            trial.max_len = vary(random, longest, 65_535).max(SHORTEST_MAX_LEN);
            for flow in &mut trial.flows {
                flow.max_len = flow.max_len.min(trial.max_len);
            }
        }
        3 if count < MOST_FLOWS => {
            let mut copy = trial.flows[at].clone();
            copy.weight = vary(random, copy.weight, 1 << 16);
            trial.flows.push(copy);
        }
        4 if count > 2 => drop(trial.flows.remove(at)),
        5 => {
            let flow = &mut trial.flows[at];
            if flow.bursts.len() >= MOST_BURSTS {
                return;
            }
            let (first, second) = (length(random, flow.max_len), length(random, flow.max_len));
            let base = flow.bursts.last().map_or(0, |burst| burst.at);
            let (at, packets) = (shift(random, base, longest), 1 + below(random, 16));
            flow.bursts.push(Burst { at, packets, first, second });
        }
        6 => {
            let bursts = &mut trial.flows[at].bursts;
            if bursts.len() > 1 {
                bursts.remove(random.below(bursts.len() as u64) as usize);
            }
        }
        _ => {
            let flow = &mut trial.flows[at];
            let (count, max_len) = (flow.bursts.len() as u64, flow.max_len);
            let Some(burst) = flow.bursts.get_mut(random.below(count) as usize) else { return };
            match random.below(5) {
                0 => burst.packets = vary(random, burst.packets, 1_000),
                1 => burst.first = length(random, max_len),
                2 => burst.second = length(random, max_len),
                3 => burst.first = vary(random, burst.first, max_len),
                _ => burst.at = shift(random, burst.at, longest),
            }
        }
    }
}

/// Draws a number near `value`, or its double or half, in `1..=most`.
pub(super) fn vary(random: &mut Stream, value: u32, most: u32) -> u32 {
    let step = 1 + below(random, 4);
    let varied = match random.below(5) {
        0 => value.saturating_mul(2),
        1 => value / 2,
        2 => value.saturating_add(step),
        3 => value.saturating_sub(step),
        _ => 1 + below(random, most),
    };
    varied.clamp(1, most)
}

/// Draws a time near `value`, within two bytes or within a packet of `longest`.
fn shift(random: &mut Stream, value: u64, longest: u32) -> u64 {
    let step = if random.chance(1, 2) { 1 + random.below(2) } else { random.below(longest.into()) };
    if random.chance(1, 2) { value + step } else { value.saturating_sub(step) }
}
