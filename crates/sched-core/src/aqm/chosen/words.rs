//! The state of one queue in 20 bytes, whichever AQM has written it.

/// What an AQM has to say of a queue, as parts of which each has its bits.
///
/// An instant has all 64. A second instant is told from the first one, in what the other parts leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::aqm) struct Words {
    /// Below 4. Together with `extra` it is 0 if and only if the AQM has nothing to say of the queue while it is short.
    pub(in crate::aqm) phase: u32,
    /// Below 2^[`Self::EXTRA_BITS`].
    pub(in crate::aqm) extra: u32,
    pub(in crate::aqm) instant: u64,
    pub(in crate::aqm) whole: u32,
    /// Below 2^[`Self::SMALL_BITS`].
    pub(in crate::aqm) small: u32,
}

/// The low bits of the first word.
const PHASE_BITS: u32 = 2;
const PHASE: u32 = (1 << PHASE_BITS) - 1;
const SMALL: u32 = (1 << Words::SMALL_BITS) - 1;

impl Words {
    pub(in crate::aqm) const EXTRA_BITS: u32 = 30;
    pub(in crate::aqm) const SMALL_BITS: u32 = 29;
}

/// What [`ChosenAqm`](super::ChosenAqm) remembers of one queue: 20 bytes, which only the AQM that was chosen can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenAqmState {
    /// Phase and extra: 0 if and only if the AQM has nothing to say of the queue while it is short.
    first: u32,
    /// Low word first. Not a `u64`, which would be aligned to 8 bytes.
    instant: [u32; 2],
    whole: u32,
    /// The small part, and above it the tin, which no AQM reads.
    last: u32,
}

impl ChosenAqmState {
    /// A queue without a history: all zero.
    pub const EMPTY: Self = Self::empty_in(0);

    /// Tins are below this.
    pub(super) const TINS: usize = 8;

    #[inline]
    pub(super) const fn is_quiet(&self) -> bool {
        self.first == 0
    }

    /// Below [`Self::TINS`].
    pub(super) const fn tin(&self) -> usize {
        (self.last >> Words::SMALL_BITS) as usize
    }

    /// A queue without a history, of `tin` modulo [`Self::TINS`].
    pub(super) const fn empty_in(tin: u32) -> Self {
        Self { first: 0, instant: [0; 2], whole: 0, last: tin << Words::SMALL_BITS }
    }

    /// The state is what `words` say from now on, in the tin that it is in. Of each part the bits above its own are lost.
    pub(super) const fn set_words(&mut self, words: Words) {
        let Words { phase, extra, instant, whole, small } = words;
        let [a, b, c, d, e, f, g, h] = instant.to_le_bytes();
        self.first = extra << PHASE_BITS | phase & PHASE;
        self.instant = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
        self.whole = whole;
        self.last = self.last & !SMALL | small & SMALL;
    }

    /// Without the tin.
    pub(super) const fn words(&self) -> Words {
        let [low, high] = self.instant;
        let instant = (high as u64) << u32::BITS | low as u64;
        let (phase, extra) = (self.first & PHASE, self.first >> PHASE_BITS);
        Words { phase, extra, instant, whole: self.whole, small: self.last & SMALL }
    }

    /// Forgets all but the tin.
    pub(super) const fn clear(&mut self) {
        *self = Self { last: self.last & !SMALL, ..Self::EMPTY };
    }
}

impl Default for ChosenAqmState {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_twenty_bytes() {
        assert_eq!((size_of::<ChosenAqmState>(), align_of::<ChosenAqmState>()), (20, 4));
    }

    /// Goal: no part of the words changes another, nor the tin. Method: one part at the most that it may be, the others at
    /// 0, and all at the most, in every tin.
    #[test]
    fn each_part_has_bits_of_its_own() {
        let none = Words::default();
        let all = Words {
            phase: 3,
            extra: (1 << 30) - 1,
            instant: u64::MAX,
            whole: u32::MAX,
            small: SMALL,
        };
        let single = [
            Words { phase: all.phase, ..none },
            Words { extra: all.extra, ..none },
            Words { instant: all.instant, ..none },
            Words { instant: 1 << 32, ..none },
            Words { instant: u32::MAX.into(), ..none },
            Words { whole: all.whole, ..none },
            Words { small: all.small, ..none },
        ];
        for tin in 0..8 {
            let mut state = ChosenAqmState::empty_in(tin);
            for words in single.into_iter().chain([all, none]) {
                state.set_words(words);
                assert_eq!((state.words(), state.tin()), (words, tin as usize));
                assert_eq!(state.is_quiet(), words.phase == 0 && words.extra == 0);
            }
            state.set_words(all);
            state.clear();
            assert_eq!(state, ChosenAqmState::empty_in(tin));
        }
    }
}
