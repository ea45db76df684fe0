//! Which flow has waited longest: the line behind the service floor and behind flushes.
//!
//! Backlogged flows stand in one line. A flow joins its end when it becomes backlogged and when it
//! is served, and leaves it when it is idle, so the front has waited longest. Cost: O(1). Memory:
//! 16 bytes a flow.

use crate::flow_scheduler::{ConfigError, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos, Packet};

/// Room for one flow in the line of those that wait: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct WaitingFlow {
    /// The flow behind this one; [`NONE`] at the end of the line. Stale unless the flow is
    /// backlogged, as are the others.
    behind: u32,
    /// The flow ahead of this one; [`NONE`] at the front.
    ahead: u32,
    /// When the flow became backlogged or was last served as the shortest, in ticks.
    since: u32,
    /// The bytes that had been sent then, modulo 2^32.
    from: u32,
}

impl WaitingFlow {
    /// A flow that does not wait.
    pub const EMPTY: Self = Self { behind: 0, ahead: 0, since: 0, from: 0 };
}

/// The part of the bytes that is the [service floor's](super::ShortestQueue::service_floor), one of
/// 2^n or none, and after how many bytes a flow may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloorShare {
    /// The n, at most [`Self::MAX_EXPONENT`]; 0 for no floor.
    exponent: u8,
    after: u32,
}

impl FloorShare {
    /// No floor.
    pub const NONE: Self = Self { exponent: 0, after: Self::AFTER };
    /// One of eight bytes: enough for every TCP flow of a full line, and little enough for calls
    /// and video that take two thirds of it.
    pub const EIGHTH: Self = Self { exponent: 3, after: Self::AFTER };
    /// One of 1,024 bytes is the least.
    pub const MAX_EXPONENT: u32 = 10;
    /// What [`Self::after`] is unless set. Where bulk flows start, all queues are short: another
    /// packet ahead of a stream's may cost the stream its preference for good, and no flow starves,
    /// since each is the shortest in turn.
    pub const AFTER: u32 = 1 << 16;

    /// One of `2^exponent` bytes.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `exponent` is in `1..=10`: with every byte the shortest
    /// queue would get none.
    #[expect(clippy::cast_possible_truncation, reason = "checked: at most 10")]
    pub const fn one_of_2_to(exponent: u32) -> Result<Self, ConfigError> {
        let max = Self::MAX_EXPONENT as u64;
        match ConfigError::check_range("exponent of the floor's share", exponent as u64, 1, max) {
            Ok(()) => Ok(Self { exponent: exponent as u8, after: Self::AFTER }),
            Err(error) => Err(error),
        }
    }

    /// The same share, which a flow may have once `bytes` bytes have been sent since it became
    /// backlogged or was last served as the shortest. 0 is from the beginning.
    #[must_use]
    pub const fn after(self, bytes: u32) -> Self {
        Self { after: bytes, ..self }
    }
}

impl Default for FloorShare {
    /// [`FloorShare::EIGHTH`].
    fn default() -> Self {
        Self::EIGHTH
    }
}

/// A tick is 2^20 ns, 1.05 ms: of the 2^32 of them a flow may wait 52 days before its wait is taken
/// for a shorter one.
const TICK_SHIFT: u32 = 20;

/// Any packet has a length below this, and a share of it fits.
const MAX_LEN: i32 = Packet::MAX_LEN.cast_signed();

/// The line of backlogged flows, and whose turn it is; without memory no flow stands in it and it
/// is never the line's turn.
#[derive(Clone, Debug)]
pub(super) struct Floor<W> {
    waiting: W,
    /// [`NONE`] if and only if no flow is backlogged.
    front: u32,
    back: u32,
    share: FloorShare,
    /// Bytes sent, less `2^exponent` for each byte of the floor: above 0 if and only if the floor
    /// is behind its share. The part that the floor cannot use lapses, so this is at most one
    /// packet above 0, and less than `2^exponent` packets below.
    arrears: i32,
    /// Bytes sent, modulo 2^32; not counted without a floor.
    sent: u32,
    /// The latest time told; [`Nanos::MAX`] before the first, so that the first counts as no time
    /// and a shift of all times changes nothing.
    now: Nanos,
    /// Time that has passed: the sum of all steps forward of the clock.
    elapsed: u64,
    /// The longest wait in ticks after which a flow is not too late; 0 if no wait is too long.
    patience: u32,
}

impl<W: Table<WaitingFlow>> Floor<W> {
    /// The longest time without service that is not too long.
    const MAX_PATIENCE: Nanos = Nanos::from_secs(3_600);

    /// An empty line with room for `flows`.
    pub(super) fn new(share: FloorShare, waiting: W, flows: u32) -> Result<Self, ConfigError> {
        let line = Self {
            waiting,
            front: NONE,
            back: NONE,
            share,
            arrears: 0,
            sent: 0,
            now: Nanos::MAX,
            elapsed: 0,
            patience: 0,
        };
        line.has_room(flows).map(|()| line)
    }

    fn has_room(&self, flows: u32) -> Result<(), ConfigError> {
        let room = self.waiting.as_ref().len() as u64;
        ConfigError::check_range("line of waiting flows", room, flows.into(), u64::MAX)
    }

    /// A wait of `after`, rounded up to ticks, is too long.
    #[expect(clippy::cast_possible_truncation, reason = "checked: an hour is 2^22 ticks")]
    pub(super) fn set_patience(&mut self, after: Nanos, flows: u32) -> Result<(), ConfigError> {
        self.has_room(flows)?;
        let max = Self::MAX_PATIENCE.0;
        ConfigError::check_range("nanoseconds without service", after.0, 1, max)?;
        self.patience = (after.0.div_ceil(1 << TICK_SHIFT)) as u32;
        Ok(())
    }

    /// Takes over what `other`, whose memory this line's replaces, knows of time.
    pub(super) fn of_patience_of<V>(self, other: &Floor<V>) -> Self {
        let Floor { now, elapsed, patience, .. } = *other;
        Self { now, elapsed, patience, ..self }
    }

    /// Tells the floor the time; a step back is no time.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos) {
        if !self.waiting.as_ref().is_empty() {
            self.elapsed = self.elapsed.wrapping_add(now.since(self.now).0);
            self.now = now;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "waits are differences modulo 2^32 ticks")]
    const fn ticks(&self) -> u32 {
        (self.elapsed >> TICK_SHIFT) as u32
    }

    /// Whether `flow`, backlogged, has waited too long.
    pub(super) fn is_neglected(&self, flow: FlowId) -> bool {
        let waiting = self.waiting.as_ref().get(flow.index());
        let waited = waiting.map_or(0, |entry| self.ticks().wrapping_sub(entry.since));
        self.patience != 0 && waited >= self.patience
    }

    /// The flow that has waited longest, if the next packet is its.
    #[inline]
    pub(super) fn due(&self) -> Option<FlowId> {
        // Without a floor the arrears are 0; without memory, known when compiled, there is nothing
        // to ask.
        if self.waiting.as_ref().is_empty() || self.arrears <= 0 {
            return None;
        }
        let front = self.waiting.as_ref().get(self.front as usize)?;
        (self.sent.wrapping_sub(front.from) >= self.share.after).then_some(FlowId(self.front))
    }

    /// `flow`, in the line, has sent `len` bytes: it leaves the line, and joins its end if it
    /// `stays` backlogged.
    #[inline]
    pub(super) fn served(&mut self, flow: FlowId, len: u32, stays: bool) {
        let Some(&WaitingFlow { from, since, .. }) = self.waiting.as_ref().get(flow.index()) else {
            return;
        };
        let is_of_floor = self.due() == Some(flow);
        if self.share.exponent != 0 {
            self.charge(len, is_of_floor);
        }
        self.leave(flow);
        if stays {
            // Service by the floor does not count: the flow goes on waiting for service as the
            // shortest.
            let (from, since) = if is_of_floor { (from, since) } else { (self.sent, self.ticks()) };
            self.join_from(flow, from, since);
        }
    }

    /// `len` bytes were sent, by the floor or not.
    #[inline]
    fn charge(&mut self, len: u32, is_of_floor: bool) {
        let len = len.min(Packet::MAX_LEN);
        self.sent = self.sent.wrapping_add(len);
        let len = len.cast_signed();
        // A length is at most 2^20, an exponent 10, and the sum of both sides of 0 below 2^31: no
        // overflow.
        let arrears = if is_of_floor {
            self.arrears.wrapping_add(len).wrapping_sub(len << self.share.exponent)
        } else {
            self.arrears.wrapping_add(len).min(len)
        };
        self.arrears = arrears;
    }

    /// `flow`, not in the line, has become backlogged and joins its end.
    #[inline]
    pub(super) fn join(&mut self, flow: FlowId) {
        self.join_from(flow, self.sent, self.ticks());
    }

    #[inline]
    fn join_from(&mut self, flow: FlowId, from: u32, since: u32) {
        let back = self.back;
        let Some(entry) = self.waiting.as_mut().get_mut(flow.index()) else { return };
        *entry = WaitingFlow { behind: NONE, ahead: back, since, from };
        self.back = flow.0;
        match self.waiting.as_mut().get_mut(back as usize) {
            Some(last) => last.behind = flow.0,
            None => self.front = flow.0,
        }
    }

    /// `flow`, in the line, leaves it.
    #[inline]
    pub(super) fn leave(&mut self, flow: FlowId) {
        let Some(&WaitingFlow { behind, ahead, .. }) = self.waiting.as_ref().get(flow.index())
        else {
            return;
        };
        match self.waiting.as_mut().get_mut(ahead as usize) {
            Some(other) => other.behind = behind,
            None => self.front = behind,
        }
        match self.waiting.as_mut().get_mut(behind as usize) {
            Some(other) => other.ahead = ahead,
            None => self.back = ahead,
        }
    }

    /// Walks the line: in it are the flows that `is_backlogged` says, `backlogged` of them.
    /// O(flows).
    pub(super) fn recount(
        &self,
        is_backlogged: &dyn Fn(u32) -> bool,
        backlogged: u64,
    ) -> Result<(), Imbalance> {
        if self.waiting.as_ref().is_empty() {
            return Ok(());
        }
        let least = -(MAX_LEN << self.share.exponent);
        let in_range = (least..=MAX_LEN).contains(&self.arrears);
        Imbalance::check("arrears of the floor", 0, 1, in_range.into())?;
        let (mut here, mut ahead, mut found) = (self.front, NONE, 0_u64);
        while let Some(entry) = self.waiting.as_ref().get(here as usize) {
            Imbalance::check(
                "a flow that waits is backlogged",
                here,
                1,
                is_backlogged(here).into(),
            )?;
            Imbalance::check(
                "a flow that waits knows the one ahead",
                here,
                entry.ahead.into(),
                ahead.into(),
            )?;
            found = found.wrapping_add(1);
            if found > backlogged {
                break; // a cycle, or a miscount: either way the next check says so
            }
            ahead = here;
            here = entry.behind;
        }
        Imbalance::check("flows that wait", 0, found, backlogged)?;
        Imbalance::check("the end of the line", 0, self.back.into(), ahead.into())
    }
}

/// No line: the flow scheduler without a floor and without flushes.
impl Floor<[WaitingFlow; 0]> {
    pub(super) const OFF: Self = Self {
        waiting: [],
        front: NONE,
        back: NONE,
        share: FloorShare::NONE,
        arrears: 0,
        sent: 0,
        now: Nanos::MAX,
        elapsed: 0,
        patience: 0,
    };
}

#[cfg(test)]
mod tests;
