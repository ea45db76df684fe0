//! An index of flows by queued bytes, which finds the shortest and the longest to within one part
//! in 2^S.
//!
//! Flows are listed by *length class*. Each length below `2^(S + 1)` has a class of its own. Above,
//! each power of two is divided into `2^S` classes of equal width. One bit per class is set if the
//! class contains a flow. One bit per word of 32 classes is set if any of the 32 is in use. So two
//! find-first-set operations find the lowest class in use, and two find-last-set operations the
//! highest.
//!
//! **Guarantees.** Let `min` and `max` be the fewest and the most bytes of any listed flow. Then
//! [`LengthIndex::shortest`] holds less than `(1 + 2^-S)·min` bytes, and [`LengthIndex::longest`]
//! more than `max/(1 + 2^-S)`. Reason: a class of more than one length is `m·2^k..(m + 1)·2^k`,
//! with `m` at least `2^S`. Two lengths in it differ by less than `2^k`, and `2^k` is at most one
//! part in `2^S` of either.
//!
//! **Order within a class.** The flow that entered the class or was served in it least recently
//! comes first. A flow that loses packets without service, and stays in its class, keeps its
//! position.
//!
//! Cost: constant, independent of the number of flows: a change touches the flow, three neighbours
//! and two classes. Memory: 16 bytes per flow, 132 bytes of bits, and 4 bytes per class: 3,584 with
//! `S` = 5, 1,856 with 4, 960 with 3. Source: search by bitmaps, Saeed et al., Eiffel, NSDI 2019;
//! the classes are ours.

use crate::flow_scheduler::{ConfigError, FlowState, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// Default number of bits `S`: a power of two is divided into `2^5` length classes, which
/// distinguish lengths to 1/32.
pub const SUB_CLASS_BITS: u32 = 5;

/// Memory for one flow in an index of lengths: 16 bytes, all zero until the flow is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthFlow {
    /// Bytes that the flow holds; zero if and only if it is idle.
    bytes: u32,
    /// The class of `bytes`. Like `older` and `newer`, stale while the flow is idle.
    class: u16,
    /// True if the flow has been added to the scheduler.
    is_added: bool,
    /// The flow that entered the class immediately before this one; for the oldest of the class,
    /// the newest.
    older: u32,
    /// The flow that entered the class immediately after this one; [`NONE`] for the newest of the
    /// class.
    newer: u32,
}

impl LengthFlow {
    /// A flow that has not been added, to fill a table with.
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

/// Memory for one length class, of which a power of two has `2^S`: 4 bytes, all zero while the
/// class is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthClass<const S: u32 = SUB_CLASS_BITS> {
    /// The number of the flow that entered the class first, plus 1; 0 if and only if the class is
    /// empty.
    oldest: u32,
}

impl<const S: u32> LengthClass<S> {
    /// A class without flows.
    pub const EMPTY: Self = Self { oldest: 0 };

    /// Number of classes that cover all lengths: 896 with `S` = 5, 464 with 4, 240 with 3. `S` must
    /// be in 1 to 5.
    pub const COUNT: usize = {
        assert!(S >= 1 && S <= 5, "S is in 1 to 5: 32 words have a bit for each class");
        ((33 - S) << S) as usize
    };
}

/// Returns the class of a flow that holds `bytes` bytes. No flow is in class 0.
#[inline]
pub(crate) const fn class_of<const S: u32>(bytes: u32) -> u32 {
    let shift = 31_u32.wrapping_sub((bytes | 1 << S).leading_zeros()).wrapping_sub(S);
    (shift << S).wrapping_add(bytes >> (shift % 32))
}

/// Number of words with one bit per class.
const WORDS: usize = 32;

/// Returns the index of the word that contains the bit of `class`, and the bit.
#[inline]
const fn place_of(class: u32) -> (u32, u32) {
    (class >> u32::BITS.ilog2(), 1 << (class % u32::BITS))
}

/// An index of the flows in `N` by queued bytes, with length classes in `C`.
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
    /// Creates an index for `flows.len()` flows, none of them added.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `classes` is shorter than [`LengthClass::COUNT`].
    pub(crate) fn new(flows: N, classes: C) -> Result<Self, ConfigError> {
        let (count, least) = (classes.as_ref().len() as u64, LengthClass::<S>::COUNT as u64);
        ConfigError::check_range("classes of length", count, least, u64::MAX)?;
        Ok(Self::with_all_classes(flows, classes))
    }

    /// Creates an index without checking the number of classes: the type of `classes` must have at
    /// least [`LengthClass::COUNT`]. With fewer, a flow whose class is missing would be neither the
    /// shortest nor the longest.
    pub(crate) fn with_all_classes(mut flows: N, mut classes: C) -> Self {
        flows.as_mut().fill(LengthFlow::EMPTY);
        classes.as_mut().fill(LengthClass::EMPTY);
        Self { flows, classes, used: [0; WORDS], used_words: 0 }
    }

    /// Capacity in flows.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Returns the entry of `flow`.
    #[inline]
    pub(crate) fn flow(&self, flow: FlowId) -> Option<&LengthFlow> {
        self.flows.as_ref().get(flow.index())
    }

    /// Iterates over all entries by flow number.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (FlowId, &LengthFlow)> {
        (0..).map(FlowId).zip(self.flows.as_ref())
    }

    /// Marks `flow` as added. Returns false if its number is out of range.
    pub(crate) fn add(&mut self, flow: FlowId) -> bool {
        let entry = self.flows.as_mut().get_mut(flow.index());
        entry.map(|entry| entry.is_added = true).is_some()
    }

    /// Removes `flow`, listed or not. Returns true if it was listed.
    pub(crate) fn remove(&mut self, flow: FlowId) -> bool {
        let was_listed = self.lost(flow, 0, true);
        if let Some(entry) = self.flows.as_mut().get_mut(flow.index()) {
            *entry = LengthFlow::EMPTY;
        }
        was_listed
    }

    /// Lists the idle `flow` with `bytes`, more than 0. Returns true if it was idle and its number
    /// is in range.
    #[inline]
    pub(crate) fn list(&mut self, flow: FlowId, bytes: u32) -> bool {
        let entry = self.flows.as_mut().get_mut(flow.index());
        let Some(entry) = entry.filter(|entry| !entry.is_backlogged()) else { return false };
        // A flow that is not idle holds at least one byte.
        let bytes = bytes.max(1);
        entry.bytes = bytes;
        self.enter(flow, class_of::<S>(bytes));
        true
    }

    /// Adds `len` bytes to `flow`, if it is listed.
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

    /// Subtracts `len` bytes that `flow` lost without service, if it is listed. If `is_idle`,
    /// nothing is left of it. Returns true if it was listed.
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

    /// Subtracts `len` bytes that `flow` sent, if it is listed. Like [`Self::lost`], except that
    /// the flow becomes the newest of its class even if the class does not change.
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

    /// Subtracts `len` bytes, or all, from `flow`, if it is listed. Returns the entry with the new
    /// bytes and still with the old class and neighbours.
    #[inline]
    fn shrink(&mut self, flow: FlowId, len: u32, is_idle: bool) -> Option<&LengthFlow> {
        let entry = self.flows.as_mut().get_mut(flow.index());
        let entry = entry.filter(|entry| entry.is_backlogged())?;
        // A flow that is not idle holds at least one byte.
        entry.bytes = if is_idle { 0 } else { entry.bytes.saturating_sub(len).max(1) };
        Some(entry)
    }

    /// Appends `flow`, which is in no class, to `class` as the newest.
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

    /// Removes `flow` from its class; `before` is its entry with class and neighbours.
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
            // The oldest flow links to the newest; every other flow is linked to by the next newer
            // one.
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

    /// Returns the flow of `class`, which is in use, that entered it or was served in it least
    /// recently.
    #[inline]
    fn oldest(&self, class: u32) -> Option<FlowId> {
        self.classes.as_ref().get(class as usize).map(|place| FlowId(place.oldest.wrapping_sub(1)))
    }

    /// Returns the first flow of the lowest class in use.
    #[inline]
    pub(crate) fn shortest(&self) -> Option<FlowId> {
        let word = self.used_words.trailing_zeros();
        let used = self.used.get(word as usize)?;
        self.oldest((word * u32::BITS).wrapping_add(used.trailing_zeros()))
    }

    /// Returns the first flow of the highest class in use.
    #[inline]
    pub(crate) fn longest(&self) -> Option<FlowId> {
        self.oldest(self.highest()?)
    }

    /// Returns the highest class in use.
    #[inline]
    fn highest(&self) -> Option<u32> {
        let word = self.used_words.checked_ilog2()?;
        let used = self.used.get(word as usize)?;
        Some((word * u32::BITS).wrapping_add(used.checked_ilog2()?))
    }

    /// Compares bytes with `truth`, and walks all classes. O(flows + classes).
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
                    break; // a cycle, or a miscount: in both cases the last check fails
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
