//! The waiting list behind the service floor and flushes: backlogged flows by time without service.
//!
//! A flow is appended when it becomes backlogged and when it is served, and removed when it becomes
//! idle, so the front has waited longest. Cost: O(1). Memory: 16 bytes per flow.

use crate::flow_scheduler::{ConfigError, Table};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos, Packet};

/// Memory for one flow in the waiting list: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct WaitingFlow {
    /// The flow behind this one; [`NONE`] at the end of the list. Like the other fields, stale
    /// unless the flow is backlogged.
    behind: u32,
    /// The flow ahead of this one; [`NONE`] at the front.
    ahead: u32,
    /// Time at which the flow became backlogged or was last served as the shortest, in ticks.
    since: u32,
    /// Value of [`Floor::sent`] at that time.
    from: u32,
}

impl WaitingFlow {
    /// An entry that is not in the list.
    pub const EMPTY: Self = Self { behind: 0, ahead: 0, since: 0, from: 0 };
}

/// The share of the bytes for the [service floor](super::ShortestQueue::service_floor), and the
/// number of bytes after which a flow may use it.
///
/// The share is one in 2^n bytes, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloorShare {
    /// The exponent n, at most [`Self::MAX_EXPONENT`]; 0 for no floor.
    exponent: u8,
    after: u32,
}

impl FloorShare {
    /// No floor.
    pub const NONE: Self = Self { exponent: 0, after: Self::AFTER };
    /// One in eight bytes: enough for every TCP flow of a saturated link, and small enough for
    /// calls and video that take two thirds of it.
    pub const EIGHTH: Self = Self { exponent: 3, after: Self::AFTER };
    /// Exponent of the smallest share, one in 1,024 bytes.
    pub const MAX_EXPONENT: u32 = 10;
    /// Default of [`Self::after`], in bytes.
    ///
    /// While bulk flows start, all queues are short: one more packet ahead of a stream's may cost
    /// the stream its preference permanently. No flow starves meanwhile, since each in turn is the
    /// shortest.
    pub const AFTER: u32 = 1 << 16;

    /// Creates a share of one in `2^exponent` bytes.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `exponent` is in `1..=10`: an exponent of 0 would leave
    /// no bytes for the shortest queue.
    #[expect(clippy::cast_possible_truncation, reason = "checked: at most 10")]
    pub const fn one_of_2_to(exponent: u32) -> Result<Self, ConfigError> {
        let max = Self::MAX_EXPONENT as u64;
        match ConfigError::check_range("exponent of the floor's share", exponent as u64, 1, max) {
            Ok(()) => Ok(Self { exponent: exponent as u8, after: Self::AFTER }),
            Err(error) => Err(error),
        }
    }

    /// Sets the number of bytes that must have been sent before a flow may use the share.
    ///
    /// Bytes are counted from when the flow became backlogged or was last served as the shortest.
    /// With 0 the share is available at once.
    #[must_use]
    pub const fn after(self, bytes: u32) -> Self {
        Self { after: bytes, ..self }
    }
}

impl Default for FloorShare {
    /// Returns [`FloorShare::EIGHTH`].
    fn default() -> Self {
        Self::EIGHTH
    }
}

/// A tick is 2^20 ns, 1.05 ms: a 32-bit wait in ticks wraps after 52 days.
const TICK_SHIFT: u32 = 20;

/// Upper bound of a packet's length; a share of it fits into 31 bits.
const MAX_LEN: i32 = Packet::MAX_LEN.cast_signed();

/// The waiting list of backlogged flows and the accounting of the floor. Without memory the list
/// stays empty and the floor serves nothing.
#[derive(Clone, Debug)]
pub(super) struct Floor<W> {
    waiting: W,
    /// [`NONE`] if and only if no flow is backlogged.
    front: u32,
    back: u32,
    share: FloorShare,
    /// Bytes sent, minus `2^exponent` for each byte sent by the floor: above 0 if and only if the
    /// floor is behind its share. Any part that the floor cannot use expires, so this is at most
    /// one packet above 0, and less than `2^exponent` packets below.
    arrears: i32,
    /// Bytes sent, modulo 2^32; not counted without a floor.
    sent: u32,
    /// The latest timestamp. Initially [`Nanos::MAX`], so that the first call counts as no time
    /// passing and a shift of all timestamps changes nothing.
    now: Nanos,
    /// Time that has passed: the sum of all forward steps of the clock.
    elapsed: u64,
    /// Shortest wait in ticks that is too long; 0 if no wait is too long.
    patience: u32,
}

impl<W: Table<WaitingFlow>> Floor<W> {
    /// Largest accepted time without service.
    const MAX_PATIENCE: Nanos = Nanos::from_secs(3_600);

    /// Creates an empty list for `flows` flows.
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

    /// Sets the wait after which a flow counts as neglected: `after`, rounded up to ticks.
    #[expect(clippy::cast_possible_truncation, reason = "checked: an hour is 2^22 ticks")]
    pub(super) fn set_patience(&mut self, after: Nanos, flows: u32) -> Result<(), ConfigError> {
        self.has_room(flows)?;
        let max = Self::MAX_PATIENCE.0;
        ConfigError::check_range("nanoseconds without service", after.0, 1, max)?;
        self.patience = (after.0.div_ceil(1 << TICK_SHIFT)) as u32;
        Ok(())
    }

    /// Takes over the time state of `other`, whose memory this list replaces.
    pub(super) fn of_patience_of<V>(self, other: &Floor<V>) -> Self {
        let Floor { now, elapsed, patience, .. } = *other;
        Self { now, elapsed, patience, ..self }
    }

    /// Sets the current time. A step back counts as no time passing.
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

    /// Returns true if `flow`, which is backlogged, has waited too long.
    pub(super) fn is_neglected(&self, flow: FlowId) -> bool {
        let waiting = self.waiting.as_ref().get(flow.index());
        let waited = waiting.map_or(0, |entry| self.ticks().wrapping_sub(entry.since));
        self.patience != 0 && waited >= self.patience
    }

    /// Returns the flow that has waited longest, if the next packet belongs to the floor.
    #[inline]
    pub(super) fn due(&self) -> Option<FlowId> {
        // Without a floor `arrears` is 0; the check for memory is decided at compile time.
        if self.waiting.as_ref().is_empty() || self.arrears <= 0 {
            return None;
        }
        let front = self.waiting.as_ref().get(self.front as usize)?;
        (self.sent.wrapping_sub(front.from) >= self.share.after).then_some(FlowId(self.front))
    }

    /// Accounts `len` bytes sent by `flow`, which is in the list, and moves it to the end, or
    /// removes it unless it `stays` backlogged.
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
            // Service by the floor does not count: the flow still waits for service as the
            // shortest.
            let (from, since) = if is_of_floor { (from, since) } else { (self.sent, self.ticks()) };
            self.join_from(flow, from, since);
        }
    }

    /// Accounts `len` bytes sent, by the floor or not.
    #[inline]
    fn charge(&mut self, len: u32, is_of_floor: bool) {
        let len = len.min(Packet::MAX_LEN);
        self.sent = self.sent.wrapping_add(len);
        let len = len.cast_signed();
        // No overflow: a length is at most 2^20, an exponent at most 10, and the sum of both bounds
        // of `arrears` is below 2^31.
        let arrears = if is_of_floor {
            self.arrears.wrapping_add(len).wrapping_sub(len << self.share.exponent)
        } else {
            self.arrears.wrapping_add(len).min(len)
        };
        self.arrears = arrears;
    }

    /// Appends `flow`, which has become backlogged and is not in the list.
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

    /// Removes `flow`, which is in the list.
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

    /// Checks that the list contains exactly the flows for which `is_backlogged` holds,
    /// `backlogged` of them. O(flows).
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
                break; // a cycle, or a miscount: in both cases the next check fails
            }
            ahead = here;
            here = entry.behind;
        }
        Imbalance::check("flows that wait", 0, found, backlogged)?;
        Imbalance::check("the end of the line", 0, self.back.into(), ahead.into())
    }
}

/// No list: for a flow scheduler without a floor and without flushes.
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
