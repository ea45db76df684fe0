//! The state of a queue in words: one instant whole, and the other, where there are two that matter, as how much later it
//! is.

use super::{BELOW, CoDelState, MAX_COUNT, SIGNALLING};
use crate::Nanos;
use crate::aqm::chosen::Words;

/// The phases by number.
const IS_BELOW: u32 = 0;
const IS_STANDING: u32 = 1;
const IS_SIGNALLING: u32 = 2;

/// Bits of the difference between the two instants of a queue that stands.
const APART_BITS: u32 = u32::BITS + Words::EXTRA_BITS;
/// The instants are taken to be no further apart: 73 years. It matters only whether they are 137 s apart.
const MOST_APART: u64 = (1 << (APART_BITS - 1)) - 1;
const _: () = assert!(MAX_COUNT < 1 << Words::SMALL_BITS);

impl CoDelState {
    /// The state in words, whose phase and extra are 0 if and only if the last packet seen was below the target. Before
    /// signals begin, what counts of the signals before is how many they were: that, and the count at the start is 0.
    pub(in crate::aqm) const fn to_words(self) -> Words {
        let Self { phase, next, count, count_at_start } = self;
        let reached = count.wrapping_sub(count_at_start);
        match phase {
            BELOW => Words { phase: IS_BELOW, extra: 0, instant: next.0, whole: 0, small: reached },
            SIGNALLING => Words {
                phase: IS_SIGNALLING,
                extra: 0,
                instant: next.0,
                whole: count,
                small: count_at_start,
            },
            Nanos(from) => {
                let apart = if next.0 >= from {
                    least(next.0.wrapping_sub(from), MOST_APART)
                } else {
                    least(from.wrapping_sub(next.0), MOST_APART).wrapping_neg()
                };
                let [low, high] = halves(apart);
                let extra = high & ((1 << Words::EXTRA_BITS) - 1);
                Words { phase: IS_STANDING, extra, instant: from, whole: low, small: reached }
            }
        }
    }

    /// The state of which [`Self::to_words`] made these.
    pub(in crate::aqm) const fn from_words(words: Words) -> Self {
        let Words { phase, extra, instant, whole, small } = words;
        match phase {
            IS_BELOW => {
                Self { phase: BELOW, next: Nanos(instant), count: small, count_at_start: 0 }
            }
            IS_STANDING => {
                let apart = (extra as u64) << u32::BITS | whole as u64;
                let next = if apart <= MOST_APART {
                    instant.saturating_add(apart)
                } else {
                    instant.saturating_sub((1_u64 << APART_BITS).wrapping_sub(apart))
                };
                Self { phase: Nanos(instant), next: Nanos(next), count: small, count_at_start: 0 }
            }
            _ => {
                let (phase, next) = (SIGNALLING, Nanos(instant));
                Self { phase, next, count: whole, count_at_start: small }
            }
        }
    }
}

const fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// The low word of `of`, and the high one.
const fn halves(of: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = of.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every state comes back, but for what does not matter in its phase. Method: instants near and far from each
    /// other in both directions, at both ends of the clock, and counts at theirs, in every phase.
    #[test]
    fn a_state_comes_back_but_for_what_does_not_matter() {
        let edges = [0, 1, u32::MAX.into(), 1 << 32, MOST_APART - 1, MOST_APART];
        for from in [1, 1 << 20, 1 << 61, (1 << 63) + 5, u64::MAX - 1] {
            let later = edges.map(|apart| from.saturating_add(apart));
            let earlier = edges.map(|apart| from.saturating_sub(apart));
            for next in later.into_iter().chain(earlier).map(Nanos) {
                for (count, count_at_start) in
                    [(0, 0), (9, 4), (MAX_COUNT, 1), (MAX_COUNT, MAX_COUNT)]
                {
                    for phase in [BELOW, Nanos(from), SIGNALLING] {
                        let state = CoDelState { phase, next, count, count_at_start };
                        let words = state.to_words();
                        let is_below = phase == BELOW;
                        assert_eq!((words.phase, words.extra) == (0, 0), is_below, "{state:?}");
                        let mut expected = state;
                        if phase != SIGNALLING {
                            (expected.count, expected.count_at_start) = (count - count_at_start, 0);
                        }
                        assert_eq!(CoDelState::from_words(words), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn instants_beyond_all_measure_are_73_years_apart() {
        let state =
            |from, next| CoDelState { phase: Nanos(from), next: Nanos(next), ..CoDelState::EMPTY };
        let back = |state: CoDelState| CoDelState::from_words(state.to_words());
        let far = u64::MAX - 1;
        assert_eq!(back(state(far, 0)), state(far, far - MOST_APART));
        assert_eq!(back(state(1, far)), state(1, 1 + MOST_APART));
    }

    #[test]
    fn a_queue_that_was_never_above_its_target_is_all_zero() {
        assert_eq!(CoDelState::EMPTY.to_words(), Words::default());
    }
}
