//! A new key while packets are queued.

use core::fmt;

use super::set::{LANES, OLD, OLD_SHARED, index};
use super::{FlowTable, Lookup, Outcome, TagLine};

/// A refused rotation: flows still hold their queues by labels of the key before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rotating {
    /// How many queues.
    pub queues: u32,
}

impl fmt::Display for Rotating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queues are claimed under the key before: must be 0", self.queues)
    }
}

impl core::error::Error for Rotating {}

impl<S: AsRef<[TagLine]> + AsMut<[TagLine]>> FlowTable<S> {
    /// Begins the transition to another key: from here on the claims are *old*.
    ///
    /// Until [`is_rotating`](Self::is_rotating) is false, hash each packet under both keys and call
    /// [`lookup_rotating`](Self::lookup_rotating); then drop the old key and call
    /// [`lookup`](Self::lookup) with the new one.
    ///
    /// Cost: the whole table.
    ///
    /// # Errors
    ///
    /// [`Rotating`], and nothing has changed, if claims are left of an earlier rotation: with a third
    /// key they could not be found.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowhash::{FlowHasher, TagLine, Outcome, SipHash13, FlowTable};
    ///
    /// let (old, new) = (SipHash13::new([1; 16]), SipHash13::new([2; 16]));
    /// let mut table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
    /// let queue = table.lookup(old.hash(b"flow")).queue;
    ///
    /// table.rotate()?;
    /// // While the flow's packets are queued it stays where they are …
    /// let during = table.lookup_rotating(old.hash(b"flow"), new.hash(b"flow"));
    /// assert_eq!((during.queue, during.outcome), (queue, Outcome::Hit));
    /// // … and when they have left it begins anew.
    /// table.release(queue);
    /// let after = table.lookup_rotating(old.hash(b"flow"), new.hash(b"flow"));
    /// assert_eq!(after.outcome, Outcome::Claimed);
    /// assert_eq!(table.find(new.hash(b"flow")), Some(after.queue));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn rotate(&mut self) -> Result<(), Rotating> {
        let queues = self.old_claims();
        if queues > 0 {
            return Err(Rotating { queues });
        }
        let lines = index(self.used_lines());
        for line in self.lines.as_mut().iter_mut().take(lines) {
            line.age();
        }
        self.swept = 0;
        Ok(())
    }

    /// Whether old claims may be left.
    ///
    /// Turns false some lookups after the last of them has been released: each
    /// [`lookup_rotating`](Self::lookup_rotating) looks at one line on its way through the table.
    #[inline]
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.swept < self.used_lines()
    }

    /// The queue of the flow that is `old` under the key before [`rotate`](Self::rotate) and `new`
    /// under the key after. While no rotation is under way this is [`lookup`](Self::lookup) of `new`.
    ///
    /// In this order:
    /// 1. the queue claimed by `old` before the rotation and not released since:
    ///    [`Hit`](Outcome::Hit);
    /// 2. the own way of `old`, if flows of a full set came to share it before the rotation, of
    ///    which this may be one, and it has not been released since: [`Collision`](Outcome::Collision);
    /// 3. the [`lookup`](Self::lookup) of `new`.
    ///
    /// So the rotation takes no flow away from its packets. New flows get no old claims, however
    /// many they are; the transition lasts as long as the longest-lived of the old ones.
    ///
    /// Cost: that of [`lookup`](Self::lookup) twice, and a line more.
    pub fn lookup_rotating(&mut self, old: u32, new: u32) -> Lookup {
        self.lookup_old(old).unwrap_or_else(|| self.lookup(new))
    }

    /// Looks a flow up under the previous key: steps 1 and 2 of
    /// [`lookup_rotating`](Self::lookup_rotating). Returns `None` for a flow that has to be looked
    /// up by its new hash.
    pub fn lookup_old(&mut self, old: u32) -> Option<Lookup> {
        if !self.is_rotating() {
            return None;
        }
        let line = self.lines.as_ref().get(index(self.swept));
        if line.is_none_or(|line| line.count(OLD) == 0) {
            // No line gets old claims later: those behind stay without.
            self.swept += 1;
        }
        if let Some(queue) = self.claimed(old, OLD) {
            self.counts.hits += 1;
            return Some(Lookup { queue, outcome: Outcome::Hit });
        }
        let queue = old & self.shape.queue_mask;
        if !self.is(queue, OLD_SHARED) {
            return None;
        }
        self.counts.collisions += 1;
        Some(Lookup { queue, outcome: Outcome::Collision })
    }

    /// Ends the transition at once; returns how many queues were still claimed under the old key.
    ///
    /// A flow that never lets its queue empty would keep the transition going: this is the caller's
    /// bound. Flows that still hold packets in those queues go where the new key sends them, and
    /// may be reordered, once. Cost: the whole table.
    pub fn finish_rotation(&mut self) -> u32 {
        let queues = self.old_claims();
        let lines = index(self.used_lines());
        for line in self.lines.as_mut().iter_mut().take(lines) {
            line.renew();
        }
        self.swept = self.used_lines();
        queues
    }

    /// The queues claimed before the rotation under way and not released since. Cost: what is left of
    /// the table to look at.
    #[must_use]
    pub fn old_claims(&self) -> u32 {
        let left = index(self.used_lines().saturating_sub(self.swept));
        let lines = self.lines.as_ref().iter().skip(index(self.swept)).take(left);
        lines.fold(0, |sum, line| sum + line.count(OLD))
    }

    /// Whether `queue` was claimed before the rotation under way and not released since.
    #[must_use]
    pub fn is_old(&self, queue: u32) -> bool {
        self.is(queue, OLD)
    }

    /// The lines that hold the table's queues; storage may be longer.
    #[inline]
    pub(super) fn used_lines(&self) -> u32 {
        (self.shape.queue_mask >> LANES.trailing_zeros()) + 1
    }
}
