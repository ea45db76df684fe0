//! Random trials, and a counterexample to the bound quoted for QFQ.

use super::{Burst, FlowPlan, Trial};
use crate::rng::{Stream, Streams};

/// An endless iterator of random trials with 2 to 8 flows. Weights are equal, of all magnitudes, or
/// one heavy among light ones. Flows are backlogged, send bursts, send single packets during
/// transmissions of others, alternate the longest packet with the shortest, or play
/// [`counterexample`].
#[derive(Clone, Debug)]
pub struct Trials {
    random: Stream,
}

impl Trials {
    /// Creates the trials of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Streams::new(seed).stream("trials") }
    }
}

impl Iterator for Trials {
    type Item = Trial;

    fn next(&mut self) -> Option<Trial> {
        let random = &mut self.random;
        if random.chance(1, 8) {
            let sum = 8 << random.below(5);
            let max_len = 16 << random.below(4);
            return Some(counterexample(sum, max_len, 8 * max_len, 1 + below(random, 2 * max_len)));
        }
        let max_len = 64 << random.below(11);
        let max_len = if max_len > 65_535 { 65_535 } else { max_len - below(random, 2) };
        let count = 2 + random.below(7);
        let weights = random.below(4);
        // Long enough for a round or two of all flows.
        let horizon = u64::from(max_len) * (1 + random.below(30));
        let flows = (0..count)
            .map(|number| {
                let weight = match weights {
                    0 => 1,
                    1 => 1 + magnitude(random, 16),
                    2 => 1 << random.below(9),
                    _ if number == 0 => 1 << random.below(13),
                    _ => 1 + below(random, 3),
                };
                let longest = match random.below(3) {
                    0 => max_len,
                    1 => (max_len >> random.below(6)).max(1),
                    _ => 1 + below(random, max_len),
                };
                FlowPlan { weight, max_len: longest, bursts: bursts(random, longest, horizon) }
            })
            .collect();
        Some(Trial { max_len, flows })
    }
}

pub(super) fn below(random: &mut Stream, limit: u32) -> u32 {
    random.below(limit.into()) as u32
}

/// Draws a number below `2^bits` whose magnitude is uniform.
fn magnitude(random: &mut Stream, bits: u64) -> u32 {
    let bits = random.below(bits + 1);
    random.below(1 << bits) as u32
}

/// Draws a length at or near a limit, or any length.
pub(super) fn length(random: &mut Stream, longest: u32) -> u32 {
    let len = match random.below(6) {
        0 | 1 => longest,
        2 => 1,
        3 => longest.saturating_sub(1 + below(random, 2)),
        4 => 1 + magnitude(random, 16),
        _ => 1 + below(random, longest),
    };
    len.clamp(1, longest)
}

fn bursts(random: &mut Stream, longest: u32, horizon: u64) -> Vec<Burst> {
    let burst = |at, packets, first, second| Burst { at, packets, first, second };
    let late = |random: &mut Stream| if random.chance(1, 2) { 0 } else { random.below(horizon) };
    match random.below(5) {
        // Backlogged, with packets of one length.
        0 => vec![burst(late(random), 1 + below(random, 60), longest, longest)],
        // Backlogged, with long and short packets in turn.
        1 => {
            let (first, second) = (length(random, longest), length(random, longest));
            vec![burst(late(random), 1 + below(random, 60), first, second)]
        }
        // Intermittent bursts.
        2 => {
            let count = 1 + random.below(8);
            let mut one = || {
                let (at, packets) = (random.below(horizon), 1 + below(random, 8));
                burst(at, packets, length(random, longest), length(random, longest))
            };
            (0..count).map(|_| one()).collect()
        }
        // Single packets.
        3 => {
            let count = 1 + random.below(40);
            let len = length(random, longest);
            (0..count).map(|_| burst(random.below(horizon), 1, len, len)).collect()
        }
        // One short packet, then a backlog, as in the counterexample.
        _ => {
            let first = burst(0, 1, longest.saturating_sub(1).max(1), 1);
            vec![first, burst(late(random), 1 + below(random, 60), longest, 1)]
        }
    }
}

/// Returns a trial that exceeds `3φσ + 2φL`, quoted for QFQ, where packet lengths vary.
///
/// Flow 0, with weight 1 of `sum`, sends a packet one byte shorter than its longest, then one of
/// full length. This moves its start to just below two slots while `V` has hardly advanced. It then
/// sends short and long packets. At that moment flow 2 becomes backlogged, with all of the weight
/// but two units. Flow 1 has one of those and sends long packets, which prevents `V` from jumping.
/// Flow 0 now waits until `V` reaches the next slot and is served as late in it as possible, less
/// one byte; then this happens once more.
#[must_use]
pub fn counterexample(sum: u32, max_len: u32, longest: u32, other_len: u32) -> Trial {
    let other_len = other_len.min(longest);
    // Until `V` has passed four slots, each as wide as the longest packet at the share of flow 0.
    let packets =
        5 * u64::from(sum) * u64::from(max_len.next_power_of_two()) / u64::from(other_len);
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    let burst = |at, packets, first, second| Burst { at, packets, first, second };
    let flow = |weight, max_len, bursts| FlowPlan { weight, max_len, bursts };
    // End of the second packet of flow 0.
    let late = 2 * u64::from(max_len) - 1;
    Trial {
        max_len: longest,
        flows: vec![
            flow(1, max_len, vec![burst(0, 1, max_len - 1, 1), burst(0, 8, max_len, 1)]),
            flow(1, longest, vec![burst(0, 8, longest, longest)]),
            flow(sum - 2, other_len, vec![burst(late, packets, other_len, other_len)]),
        ],
    }
}
