//! A CE threshold added to any AQM: packets that waited longer than a threshold are marked.
//!
//! A scalable sender (RFC 9331) needs a mark on every packet above a shallow threshold, whereas a
//! classic AQM marks occasionally. The threshold is independent of the AQM of a queue: the AQM sees
//! every packet and behaves as without it, and a packet that both would mark is marked once.
//!
//! **Promises.** A packet without the codepoint that the threshold requires is treated by the inner
//! AQM alone. No packet is dropped because of the threshold. Packets that the inner AQM drops stay
//! dropped.
//!
//! **Cost.** One comparison for a packet below the threshold. Memory: none per queue.
//!
//! **Source.** RFC 9331 §4.3 and RFC 9332 §2.4 for a shallow threshold on ECT(1); RFC 8290 §5.2.2
//! and §6.2 for CoDel's marks.

use super::{Admission, Aqm, Head, Look, Offer, SHORTEST, Verdict};
use crate::flow_scheduler::ConfigError;
use crate::{Ecn, FlowId, Nanos};

/// Adds a CE threshold to the AQM `A`: packets that waited longer are marked.
///
/// ```
/// use sched_core::{CeThreshold, CoDel, CoDelParams, CoDelState, Nanos};
///
/// let codel = CoDel::new([CoDelState::EMPTY; 16], CoDelParams::INTERNET)?;
/// let l4s = CeThreshold::new(codel, Nanos::from_millis(1))?.for_ect1_only();
/// assert_eq!(l4s.threshold(), Nanos::from_millis(1));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CeThreshold<A> {
    inner: A,
    threshold: Nanos,
    ect1_only: bool,
}

impl<A> CeThreshold<A> {
    /// Wraps `inner`, and marks every ECN-capable packet that waited longer than `threshold`: 1,024
    /// ns, the resolution of sojourn times, to 2^33 − 1 ns (8.6 s).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if the threshold is out of range.
    pub fn new(inner: A, threshold: Nanos) -> Result<Self, ConfigError> {
        Self::check(threshold)?;
        Ok(Self { inner, threshold, ect1_only: false })
    }

    /// Restricts the threshold to packets with ECT(1), which a scalable sender sets (RFC 9331);
    /// packets with ECT(0) are left to the inner AQM.
    #[must_use]
    pub fn for_ect1_only(self) -> Self {
        Self { ect1_only: true, ..self }
    }

    /// Returns the threshold.
    #[must_use]
    pub const fn threshold(&self) -> Nanos {
        self.threshold
    }

    /// Returns the inner AQM.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Returns the inner AQM, to change it.
    pub const fn inner_mut(&mut self) -> &mut A {
        &mut self.inner
    }

    fn check(threshold: Nanos) -> Result<(), ConfigError> {
        let longest = super::control_law::MAX_INTERVAL.0;
        ConfigError::check_range("CE threshold in ns", threshold.0, SHORTEST, longest)
    }

    /// Combines the inner AQM's `verdict` with the mark of the threshold.
    #[inline]
    fn with_threshold(&self, verdict: Verdict, head: Head) -> Verdict {
        if verdict == Verdict::Pass && self.marks(head) { Verdict::Signal } else { verdict }
    }

    /// Returns true if the packet waited too long and has a codepoint that allows the mark. A
    /// signal for another codepoint would be a drop.
    #[inline]
    fn marks(&self, head: Head) -> bool {
        head.sojourn > self.threshold
            && match head.ecn {
                Ecn::Ect1 => true,
                Ecn::Ect0 => !self.ect1_only,
                Ecn::NotEct | Ecn::Ce => false,
            }
    }
}

impl<A: Aqm> Aqm for CeThreshold<A> {
    const MAX_DROPS: u32 = A::MAX_DROPS;

    #[inline]
    fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission {
        self.inner.admit(flow, offer, look)
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        if head.sojourn <= self.threshold {
            return self.inner.judge(flow, head, look);
        }
        if look == Look::Glance {
            return Verdict::Unclear;
        }
        let verdict = self.inner.judge(flow, head, look);
        self.with_threshold(verdict, head)
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let mut inner = self.inner.foresee(flow);
        move |head| {
            let verdict = inner(head);
            self.with_threshold(verdict, head)
        }
    }

    #[inline]
    fn overflowed(&mut self, flow: FlowId) {
        self.inner.overflowed(flow);
    }

    #[inline]
    fn emptied(&mut self, flow: FlowId) {
        self.inner.emptied(flow);
    }

    #[inline]
    fn forget(&mut self, flow: FlowId) {
        self.inner.forget(flow);
    }

    #[inline]
    fn assign(&mut self, flow: FlowId, tin: u8) {
        self.inner.assign(flow, tin);
    }

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.inner.swap(flow, other);
    }
}

#[cfg(test)]
mod tests;
