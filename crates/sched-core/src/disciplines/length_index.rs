//! Which flow holds the fewest bytes, and which the most, to within one part in 2^S.
//!
//! Flows are listed by *classes of length*. A length below `2^(S + 1)` has a class of its own. From
//! there on, each power of two is cut into `2^S` classes of equal width. One bit a class says
//! whether a flow is in it. One bit a word of 32 classes says whether any of these 32 is used. So
//! two searches for a set bit find the lowest class in use, and two the highest.
//!
//! **What is promised.** Let `min` and `max` be the fewest and the most bytes that a listed flow
//! holds. Then [`LengthIndex::shortest`] holds less than `(1 + 2^-S)·min` bytes, and
//! [`LengthIndex::longest`] more than `max/(1 + 2^-S)`. The reason: a class of more than one length
//! is `m·2^k..(m + 1)·2^k`, with `m` at least `2^S`. Two lengths in it differ by less than `2^k`,
//! and `2^k` is at most one part in `2^S` of either.
//!
//! **Order within a class.** The flow comes first that entered the class or was served in it least
//! recently. A flow that loses packets without service, and stays in its class, keeps its place.
//!
//! Cost: constant, whatever is listed: a change touches the flow, three neighbours and two classes.
//! Memory: 16 bytes a flow, 132 bytes of bits, and 4 bytes a class: 3,584 with `S` = 5, 1,856 with
//! 4, 960 with 3. Source: search by bitmaps, Saeed et al., Eiffel, NSDI 2019; the classes are ours.

use crate::flow_scheduler::{ConfigError, FlowState, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// A power of two is cut into `2^5` classes of length, unless another number is given: lengths are
/// told apart to 1/32.
pub const SUB_CLASS_BITS: u32 = 5;

/// Room for one flow in an index of lengths: 16 bytes, all zero while the flow was not added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthFlow {
    /// What the flow holds; zero if and only if it is idle.
    bytes: u32,
    /// The class of `bytes`. Stale while the flow is idle, as are `older` and `newer`.
    class: u16,
    /// Whether the owner of the index knows the flow.
    is_added: bool,
    /// The flow that entered the class next before this one; for the oldest of the class, the
    /// newest.
    older: u32,
    /// The flow that entered the class next after this one; [`NONE`] for the newest of the class.
    newer: u32,
}

impl LengthFlow {
    /// What a table is filled with.
    pub const EMPTY: Self = Self { bytes: 0, class: 0, is_added: false, older: 0, newer: 0 };

    #[inline]
    pub(crate) const fn is_backlogged(&self) -> bool {
        self.bytes != 0
    }

    #[inline]
    pub(crate) const fn is_added(&self) -> bool {
        self.is_added
    }
}

/// Room for one class of length, where a power of two has `2^S` of them: 4 bytes, all zero while no
/// flow is in the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthClass<const S: u32 = SUB_CLASS_BITS> {
    /// One more than the number of the flow that entered the class first; 0 if and only if no flow
    /// is in it.
    oldest: u32,
}

impl<const S: u32> LengthClass<S> {
    /// A class without flows.
    pub const EMPTY: Self = Self { oldest: 0 };

    /// How many classes all lengths have: 896 with `S` = 5, 464 with 4, 240 with 3. `S` is in 1 to
    /// 5.
    pub const COUNT: usize = {
        assert!(S >= 1 && S <= 5, "S is in 1 to 5: 32 words have a bit for each class");
        ((33 - S) << S) as usize
    };
}

/// The class of a flow that holds `bytes` bytes; 0 is the class of no flow.
#[inline]
pub(crate) const fn class_of<const S: u32>(bytes: u32) -> u32 {
    let shift = 31_u32.wrapping_sub((bytes | 1 << S).leading_zeros()).wrapping_sub(S);
    (shift << S).wrapping_add(bytes >> (shift % 32))
}

/// Words that hold a bit for each class.
const WORDS: usize = 32;

/// The word that has the bit of `class`, and this bit.
#[inline]
const fn place_of(class: u32) -> (u32, u32) {
    (class >> u32::BITS.ilog2(), 1 << (class % u32::BITS))
}

/// The flows in the memory `N`, by the bytes they hold, in classes in the memory `C`.
#[derive(Clone, Debug)]
pub(crate) struct LengthIndex<N, C, const S: u32> {
    flows: N,
    classes: C,
    /// Bit `c` of word `w` is set if and only if a flow is in class `32·w + c`.
    used: [u32; WORDS],
    /// Bit `w` is set if and only if word `w` of `used` is not zero.
    used_words: u32,
}

impl<N: Table<LengthFlow>, C: Table<LengthClass<S>>, const S: u32> LengthIndex<N, C, S> {
    /// An index of as many flows as `flows` is long, none of them added.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there are fewer than [`LengthClass::COUNT`] classes.
    pub(crate) fn new(flows: N, classes: C) -> Result<Self, ConfigError> {
        let (count, least) = (classes.as_ref().len() as u64, LengthClass::<S>::COUNT as u64);
        ConfigError::check_range("classes of length", count, least, u64::MAX)?;
        Ok(Self::with_all_classes(flows, classes))
    }

    /// As [`Self::new`], where the type of `classes` has room for [`LengthClass::COUNT`] or more.
    /// With fewer, a flow whose class is missing would be neither the shortest nor the longest.
    pub(crate) fn with_all_classes(mut flows: N, mut classes: C) -> Self {
        flows.as_mut().fill(LengthFlow::EMPTY);
        classes.as_mut().fill(LengthClass::EMPTY);
        Self { flows, classes, used: [0; WORDS], used_words: 0 }
    }

    /// Flows there is room for.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// What is known of `flow`.
    #[inline]
    pub(crate) fn flow(&self, flow: FlowId) -> Option<&LengthFlow> {
        self.flows.as_ref().get(flow.index())
    }

    /// Flows by their numbers.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (FlowId, &LengthFlow)> {
        (0..).map(FlowId).zip(self.flows.as_ref())
    }

    /// Notes that `flow` is known. `false` if there is no room for it.
    pub(crate) fn add(&mut self, flow: FlowId) -> bool {
        let entry = self.flows.as_mut().get_mut(flow.index());
        entry.map(|entry| entry.is_added = true).is_some()
    }

    /// Forgets `flow`, listed or not. Returns whether it was listed.
    pub(crate) fn remove(&mut self, flow: FlowId) -> bool {
        let was_listed = self.lost(flow, 0, true);
        if let Some(entry) = self.flows.as_mut().get_mut(flow.index()) {
            *entry = LengthFlow::EMPTY;
        }
        was_listed
    }

    /// Lists `flow`, idle, with `bytes`, more than 0. Returns whether it was idle and there is room
    /// for it.
    #[inline]
    pub(crate) fn list(&mut self, flow: FlowId, bytes: u32) -> bool {
        let entry = self.flows.as_mut().get_mut(flow.index());
        let Some(entry) = entry.filter(|entry| !entry.is_backlogged()) else { return false };
        // A flow that is not idle holds a byte.
        let bytes = bytes.max(1);
        entry.bytes = bytes;
        self.enter(flow, class_of::<S>(bytes));
        true
    }

    /// `flow` holds `len` bytes more, if it is listed.
    #[inline]
    pub(crate) fn grew(&mut self, flow: FlowId, len: u32) {
        let entry = self.flows.as_mut().get_mut(flow.index());
        let Some(entry) = entry.filter(|entry| entry.is_backlogged()) else { return };
        entry.bytes = entry.bytes.saturating_add(len);
        let (class, before) = (class_of::<S>(entry.bytes), *entry);
        if class != before.class.into() {
            self.leave(flow, before);
            self.enter(flow, class);
        }
    }

    /// `flow`, if it is listed, has `len` bytes fewer, and was not served. `is_idle` says that it
    /// holds nothing more. Returns whether it was listed.
    pub(crate) fn lost(&mut self, flow: FlowId, len: u32, is_idle: bool) -> bool {
        let Some(entry) = self.shrink(flow, len, is_idle) else { return false };
        let before = *entry;
        if is_idle {
            self.leave(flow, before);
            return true;
        }
        let class = class_of::<S>(before.bytes);
        if class != before.class.into() {
            self.leave(flow, before);
            self.enter(flow, class);
        }
        true
    }

    /// As [`Self::lost`], by service: also in the class in which the flow stays, the flow is the
    /// newest now.
    #[inline]
    pub(crate) fn served(&mut self, flow: FlowId, len: u32, is_idle: bool) -> bool {
        let Some(entry) = self.shrink(flow, len, is_idle) else { return false };
        let before = *entry;
        self.leave(flow, before);
        if !is_idle {
            self.enter(flow, class_of::<S>(before.bytes));
        }
        true
    }

    /// Takes `len` bytes, or all, from what `flow` holds, if it is listed. Returns the entry with
    /// the new bytes, and still with the old class and neighbours.
    #[inline]
    fn shrink(&mut self, flow: FlowId, len: u32, is_idle: bool) -> Option<&LengthFlow> {
        let entry = self.flows.as_mut().get_mut(flow.index());
        let entry = entry.filter(|entry| entry.is_backlogged())?;
        // A flow that is not idle holds a byte.
        entry.bytes = if is_idle { 0 } else { entry.bytes.saturating_sub(len).max(1) };
        Some(entry)
    }

    /// Puts `flow`, in no class, into `class` as the newest.
    #[inline]
    fn enter(&mut self, flow: FlowId, class: u32) {
        let Some(place) = self.classes.as_mut().get_mut(class as usize) else { return };
        let flows = self.flows.as_mut();
        let older = if let Some(oldest) = flows.get_mut(place.oldest.wrapping_sub(1) as usize) {
            let newest = core::mem::replace(&mut oldest.older, flow.0);
            if let Some(newest) = flows.get_mut(newest as usize) {
                newest.newer = flow.0;
            }
            newest
        } else {
            place.oldest = flow.0.wrapping_add(1);
            let (word, bit) = place_of(class);
            if let Some(used) = self.used.get_mut(word as usize) {
                let was_used = *used != 0;
                *used |= bit;
                if !was_used {
                    self.used_words |= 1 << (word % u32::BITS);
                }
            }
            flow.0
        };
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        (entry.older, entry.newer) = (older, NONE);
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 896 classes")]
        {
            entry.class = class as u16;
        }
    }

    /// Takes `flow` out of the class that `before` names, from between the neighbours that `before`
    /// names.
    #[inline]
    fn leave(&mut self, flow: FlowId, before: LengthFlow) {
        let LengthFlow { older, newer, .. } = before;
        let Some(place) = self.classes.as_mut().get_mut(usize::from(before.class)) else { return };
        let oldest = place.oldest.wrapping_sub(1);
        let flows = self.flows.as_mut();
        if oldest != flow.0 {
            if let Some(other) = flows.get_mut(older as usize) {
                other.newer = newer;
            }
            // The newest flow is named by the oldest; every other flow is named by the one that is
            // next newer.
            let names_it = if newer == NONE { oldest } else { newer };
            if let Some(other) = flows.get_mut(names_it as usize) {
                other.older = older;
            }
            return;
        }
        place.oldest = newer.wrapping_add(1);
        if let Some(other) = flows.get_mut(newer as usize) {
            other.older = older;
        } else {
            let (word, bit) = place_of(before.class.into());
            let Some(used) = self.used.get_mut(word as usize) else { return };
            *used &= !bit;
            if *used == 0 {
                self.used_words &= !(1 << (word % u32::BITS));
            }
        }
    }

    /// The flow that entered `class`, which is in use, or was served in it least recently.
    #[inline]
    fn oldest(&self, class: u32) -> Option<FlowId> {
        self.classes.as_ref().get(class as usize).map(|place| FlowId(place.oldest.wrapping_sub(1)))
    }

    /// Of the flows in the lowest class in use, the first.
    #[inline]
    pub(crate) fn shortest(&self) -> Option<FlowId> {
        let word = self.used_words.trailing_zeros();
        let used = self.used.get(word as usize)?;
        self.oldest((word * u32::BITS).wrapping_add(used.trailing_zeros()))
    }

    /// Of the flows in the highest class in use, the first.
    #[inline]
    pub(crate) fn longest(&self) -> Option<FlowId> {
        self.oldest(self.highest()?)
    }

    /// The highest class in use.
    #[inline]
    fn highest(&self) -> Option<u32> {
        let word = self.used_words.checked_ilog2()?;
        let used = self.used.get(word as usize)?;
        Some((word * u32::BITS).wrapping_add(used.checked_ilog2()?))
    }

    /// Compares bytes with the truth about the flows, and walks all classes. O(flows + classes).
    pub(crate) fn recount(&self, truth: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut listed = 0_usize;
        for (flow, entry) in self.flows() {
            let state = truth(flow).backlog;
            Imbalance::check("bytes of a flow", flow.0, entry.bytes.into(), state.bytes.into())?;
            listed = listed.wrapping_add(entry.is_backlogged().into());
        }
        for (word, used) in (0_u32..).zip(&self.used) {
            let bit = self.used_words.checked_shr(word).unwrap_or(0) & 1;
            Imbalance::check("a word of classes is used", word, bit.into(), (*used != 0).into())?;
        }
        let mut found = 0_usize;
        for (class, place) in (0_u32..).zip(self.classes.as_ref()) {
            let (word, bit) = place_of(class);
            let used = self.used.get(word as usize).is_some_and(|used| used & bit != 0);
            Imbalance::check("a class is used", class, used.into(), (place.oldest != 0).into())?;
            let oldest = place.oldest.wrapping_sub(1);
            let (mut here, mut older) = (oldest, NONE);
            while let Some(entry) = self.flows.as_ref().get(here as usize) {
                let booked = if entry.bytes == 0 { NONE } else { class_of::<S>(entry.bytes) };
                Imbalance::check("the class of a flow", here, booked.into(), class.into())?;
                Imbalance::check("the class booked", here, entry.class.into(), class.into())?;
                if here != oldest {
                    let known = entry.older.into();
                    Imbalance::check("links point both ways", here, known, older.into())?;
                }
                found = found.wrapping_add(1);
                if found > listed {
                    break; // a cycle, or a miscount: either way the last check says so
                }
                older = here;
                here = entry.newer;
            }
            let known = self.flow(FlowId(oldest)).map_or(NONE, |oldest| oldest.older);
            Imbalance::check("the newest of a class", class, known.into(), older.into())?;
        }
        Imbalance::check("flows in classes", 0, found as u64, listed as u64)
    }
}

#[cfg(test)]
mod tests;
