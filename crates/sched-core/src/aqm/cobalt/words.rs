//! The state of a queue in words: one instant whole, and the other as how much later it is.
//!
//! BLUE's instant is told from that of the schedule in 43 bits, from 34 s before it to 146 minutes after it. Beyond that
//! nothing of it matters:
//!
//! - No schedule is further ahead than an interval, 8.6 s. So a thaw 34 s before it is long over, and says no more than that
//!   BLUE's probability may change. It is not asked for how long a queue was idle: a queue that becomes idle with a
//!   probability has a thaw that is not over.
//! - A thaw is at most two intervals ahead. So a schedule 146 minutes before it is so late that nothing of any count is
//!   left: all of 65,535 places take 73 minutes at the longest interval.

use super::{CobaltState, Phase};
use crate::Nanos;
use crate::aqm::chosen::Words;
use crate::aqm::random::Probability;

/// Bits of the difference between the two instants.
const APART_BITS: u32 = 43;
const APART: u64 = (1 << APART_BITS) - 1;
/// So much and more before the schedule a thaw is long over.
const LONG_OVER: u64 = 1 << 35;
/// So much after the schedule a thaw is at most.
const MOST_AFTER: u64 = APART - LONG_OVER;

/// Of the difference, the low bits stand above the count, and the others by themselves.
const COUNT_BITS: u32 = u16::BITS;
const LOW_BITS: u32 = Words::EXTRA_BITS - COUNT_BITS;
const _: () = assert!(LOW_BITS + Words::SMALL_BITS == APART_BITS);

/// How much later `thaw` is than `next`, modulo 2^43, as far as it matters.
const fn apart(next: Nanos, thaw: Nanos) -> u64 {
    if thaw.0 >= next.0 {
        let after = thaw.0.wrapping_sub(next.0);
        return if after < MOST_AFTER { after } else { MOST_AFTER };
    }
    let before = next.0.wrapping_sub(thaw.0);
    let before = if before < LONG_OVER { before } else { LONG_OVER };
    before.wrapping_neg() & APART
}

/// The instant that is `apart` later than `next`.
const fn thaw_of(next: u64, apart: u64) -> Nanos {
    if apart <= MOST_AFTER {
        return Nanos(next.saturating_add(apart));
    }
    let before = apart.wrapping_neg() & APART;
    Nanos(if before == LONG_OVER { 0 } else { next.saturating_sub(before) })
}

/// The low bits of a difference, and the others.
const fn parts(apart: u64) -> [u32; 2] {
    let [a, b, ..] = apart.to_le_bytes();
    let [c, d, e, f, ..] = (apart >> LOW_BITS).to_le_bytes();
    [u32::from_le_bytes([a, b, 0, 0]) & ((1 << LOW_BITS) - 1), u32::from_le_bytes([c, d, e, f])]
}

impl CobaltState {
    /// The state in words, whose phase and extra are 0 if and only if the queue is without a history.
    pub(in crate::aqm) fn to_words(self) -> Words {
        let Self { next, thaw, chance, count, phase } = self;
        let phase = phase as u32;
        if count == 0 {
            // `next` has no meaning then.
            return Words { phase, instant: thaw.0, whole: chance.raw(), ..Words::default() };
        }
        let apart = apart(next, thaw);
        // As it is, unless it is so late that nothing of the count is left.
        let instant = if apart == MOST_AFTER { thaw.0.wrapping_sub(apart) } else { next.0 };
        let [low, small] = parts(apart);
        let extra = low << COUNT_BITS | u32::from(count);
        Words { phase, extra, instant, whole: chance.raw(), small }
    }

    /// The state of which [`Self::to_words`] made these.
    pub(in crate::aqm) const fn from_words(words: Words) -> Self {
        let Words { phase, extra, instant, whole, small } = words;
        let [c0, c1, _, _] = extra.to_le_bytes();
        let apart = (small as u64) << LOW_BITS | (extra >> COUNT_BITS) as u64;
        let phase = match phase {
            0 => Phase::Quiet,
            1 => Phase::Idle,
            2 => Phase::Below,
            _ => Phase::Standing,
        };
        Self {
            next: Nanos(instant),
            thaw: thaw_of(instant, apart),
            chance: Probability::from_raw(whole),
            count: u16::from_le_bytes([c0, c1]),
            phase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every state comes back, with its instants as they are where they matter. Method: instants on both sides of each
    /// edge, counts and probabilities at theirs, every phase.
    #[test]
    fn a_state_comes_back_but_for_instants_that_do_not_matter() {
        let day = 86_400_000_000_000;
        let edges = [0, 1, (1 << 14) - 1, 1 << 14, LONG_OVER - 1, MOST_AFTER - 1];
        for next in [0, 1, day, (1 << 61) + 7, u64::MAX - 1, u64::MAX].map(Nanos) {
            let thaws = edges.map(|apart| next.0.saturating_add(apart));
            let thaws = thaws
                .into_iter()
                .chain(edges.map(|apart| next.0.saturating_sub(apart.min(LONG_OVER - 1))));
            for (thaw, count) in thaws.flat_map(|thaw| [0, 1, u16::MAX].map(|count| (thaw, count)))
            {
                for (chance, phase) in
                    [(0, Phase::Idle), (1, Phase::Below), (u32::MAX, Phase::Standing)]
                {
                    let chance = Probability::from_raw(chance);
                    let state = CobaltState { next, thaw: Nanos(thaw), chance, count, phase };
                    let back = CobaltState::from_words(state.to_words());
                    let expected =
                        if count == 0 { CobaltState { next: Nanos(thaw), ..state } } else { state };
                    assert_eq!(back, expected);
                }
            }
        }
    }

    #[test]
    fn a_thaw_long_over_is_over_and_a_schedule_long_late_is_late() {
        let state = |next, thaw| CobaltState {
            next: Nanos(next),
            thaw: Nanos(thaw),
            chance: Probability::NEVER,
            count: 9,
            phase: Phase::Idle,
        };
        let back = |state: CobaltState| CobaltState::from_words(state.to_words());
        let next = 1 << 50;
        for over in [LONG_OVER, LONG_OVER + 1, next] {
            assert_eq!(back(state(next, next - over)), state(next, 0));
        }
        for late in [MOST_AFTER, MOST_AFTER + 1, u64::MAX - next] {
            let thaw = next + late;
            assert_eq!(back(state(next, thaw)), state(thaw - MOST_AFTER, thaw));
        }
    }

    #[test]
    fn a_queue_without_a_history_keeps_its_thaw() {
        let state = CobaltState { thaw: Nanos(77), ..CobaltState::EMPTY };
        let words = state.to_words();
        assert_eq!((words.phase, words.extra), (0, 0));
        assert_eq!(CobaltState::from_words(words).thaw, Nanos(77));
        assert_eq!(CobaltState::EMPTY.to_words(), Words::default());
    }
}
