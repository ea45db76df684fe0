//! The algorithms of AQMs, independent of where states are stored; shared by single AQMs and by
//! [`ChosenAqm`](super::ChosenAqm).

use super::{Admission, Head, Offer, Random, Verdict};
use crate::Nanos;

/// The algorithm of an AQM, with precomputed parameters. The provided methods accept every arrival,
/// pass every packet, and ignore losses.
pub(super) trait Law: Copy {
    /// The state of a queue.
    type State: Words;

    /// [`Aqm::admit`](super::Aqm::admit).
    #[inline]
    fn admit(&self, _state: &mut Self::State, _random: &mut Random, _offer: Offer) -> Admission {
        Admission::Accept
    }

    /// [`Aqm::judge`](super::Aqm::judge) with a glance.
    #[inline]
    fn glance(&self, _state: &mut Self::State, _head: Head) -> Verdict {
        Verdict::Unclear
    }

    /// Returns true if a close look would pass the packet and leave the state unchanged. False is
    /// always correct.
    #[inline]
    fn leaves(&self, _state: &Self::State, _head: Head) -> bool {
        false
    }

    /// [`Aqm::judge`](super::Aqm::judge) with a close look.
    #[inline]
    fn judge(&self, _state: &mut Self::State, _random: &mut Random, _head: Head) -> Verdict {
        Verdict::Pass
    }

    /// [`Aqm::overflowed`](super::Aqm::overflowed); `now` is the time of the last arrival.
    #[inline]
    fn overflowed(&self, _state: &mut Self::State, _now: Nanos) {}

    /// [`Aqm::emptied`](super::Aqm::emptied); `now` is the time of the last arrival.
    #[inline]
    fn emptied(&self, _state: &mut Self::State, _now: Nanos) {}
}

/// A state that fits into three words. The upper three bits of the last are 0.
pub(super) trait Words: Copy {
    /// Encodes the state.
    fn to_words(self) -> [u64; 3];

    /// Decodes the result of [`Self::to_words`], with instants near `now`.
    fn from_words(words: [u64; 3], now: Nanos) -> Self;
}

/// Returns `count` bits of a word from bit `from` on, at most 32.
#[expect(clippy::cast_possible_truncation, reason = "of as many bits")]
pub(super) const fn bits(word: u64, from: u32, count: u32) -> u32 {
    (word.wrapping_shr(from) & (1_u64.wrapping_shl(count)).wrapping_sub(1)) as u32
}

/// Bits of an instant where a word has no space for more.
pub(super) const TIME_BITS: u32 = 49;
/// The bits that are dropped.
const NOT_KEPT: u32 = u64::BITS - TIME_BITS;

/// Returns the low [`TIME_BITS`] of an instant.
pub(super) const fn time_in_bits(instant: Nanos) -> u64 {
    instant.0 << NOT_KEPT >> NOT_KEPT
}

/// Returns the instant nearest to `now` whose low bits, encoded by [`time_in_bits`], are those of
/// `word`: exact up to 2^48 ns (3.2 days) from `now`.
pub(super) const fn time_from_bits(word: u64, now: Nanos) -> Nanos {
    let since = (now.0.wrapping_sub(word) << NOT_KEPT).cast_signed() >> NOT_KEPT;
    Nanos(now.0.wrapping_sub(since.cast_unsigned()))
}

/// Defines a single AQM: the states of its queues, its parameters, its algorithm, a random
/// generator, and the time of the last arrival, because other events carry no time.
macro_rules! alone {
    ($(#[$doc:meta])* pub struct $aqm:ident<$state:ident>, $params:ident, $law:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $aqm<T> {
            states: T,
            params: $params,
            law: $law,
            random: Random,
            now: Nanos,
        }

        crate::debug::short_debug!($aqm<T> { params });

        impl<T: Table<$state>> $aqm<T> {
            /// Creates the AQM for `states.len()` queues, with a random generator seeded with
            /// `seed`. Cost: O(queues).
            ///
            /// # Errors
            /// [`ConfigError::OutOfRange`] for the first parameter out of range.
            pub fn new(mut states: T, params: $params, seed: u64) -> Result<Self, ConfigError> {
                let law = params.law()?;
                states.as_mut().fill($state::EMPTY);
                Ok(Self { states, params, law, random: Random::new(seed), now: Nanos::ZERO })
            }

            /// Returns the parameters.
            #[must_use]
            pub const fn params(&self) -> $params {
                self.params
            }

            /// Changes the parameters, with queues idle or backlogged. Their states stay, and the
            /// next packet is judged by the new parameters.
            ///
            /// # Errors
            /// [`ConfigError::OutOfRange`] for the first parameter out of range; nothing has
            /// changed then.
            pub fn set_params(&mut self, params: $params) -> Result<(), ConfigError> {
                self.law = params.law()?;
                self.params = params;
                Ok(())
            }
        }
    };
}
pub(super) use alone;

/// Implements [`Aqm`](super::Aqm) for an AQM that signals at arrival, with its algorithm, generator
/// and time of the last arrival as fields.
macro_rules! signals_arrivals {
    ($aqm:ident<$state:ident>) => {
        impl<T: Table<$state>> Aqm for $aqm<T> {
            /// Decides at arrival.
            const MAX_DROPS: u32 = 0;

            #[inline]
            fn admit(&mut self, flow: FlowId, offer: Offer, _look: Look) -> Admission {
                let Self { states, law, random, now, .. } = self;
                *now = offer.now;
                let state = states.as_mut().get_mut(flow.index());
                state.map_or(Admission::Accept, |state| law.admit(state, random, offer))
            }

            /// Passes every packet: the decision was made at arrival.
            #[inline]
            fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
                let Self { states, law, random, .. } = self;
                let Some(state) = states.as_mut().get_mut(flow.index()) else {
                    return Verdict::Pass;
                };
                match look {
                    Look::Glance => law.glance(state, head),
                    Look::Close => law.judge(state, random, head),
                }
            }

            #[inline]
            fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
                |_| Verdict::Pass
            }

            fn overflowed(&mut self, flow: FlowId) {
                let Self { states, law, now, .. } = self;
                if let Some(state) = states.as_mut().get_mut(flow.index()) {
                    law.overflowed(state, *now);
                }
            }

            fn emptied(&mut self, flow: FlowId) {
                let Self { states, law, now, .. } = self;
                if let Some(state) = states.as_mut().get_mut(flow.index()) {
                    law.emptied(state, *now);
                }
            }

            fn forget(&mut self, flow: FlowId) {
                if let Some(state) = self.states.as_mut().get_mut(flow.index()) {
                    *state = $state::EMPTY;
                }
            }

            #[inline]
            fn assign(&mut self, _flow: FlowId, _tin: u8) {}

            fn swap(&mut self, flow: FlowId, other: FlowId) {
                swap_states(self.states.as_mut(), flow, other, $state::EMPTY);
            }
        }
    };
}
pub(super) use signals_arrivals;
