//! How fast packets arrive that a line before this one has spaced.

use core::num::NonZeroU64;

use sched_core::Nanos;

use super::{achieved, scale};
use crate::Rate;

/// What is told of the estimate: 15/16, so that the queue is here and not before the line.
const SHARE: u64 = 15;
const OF: NonZeroU64 = NonZeroU64::new(16).unwrap();

/// The estimate falls by 1/64 of the way, the mean gap by 1/256.
const DECAY: u32 = 6;
const DECAY_OF_GAPS: u32 = 8;

/// The rate of a line, estimated from packets that arrive over it: for a shaper behind the line, of downloads.
///
/// Arrivals are counted in windows. A window ends behind the first gap longer than the mean gap, when it is 40 ms
/// long or more, and at 80 ms in any case. Packets that come at the same instant are in one window, the one that ends with
/// them: a caller that wakes up late reads at once all that has arrived meanwhile, and what it reads belongs to the time
/// before. A reading is the rate over two windows, the last ones. The estimate is a mean of the readings that rises by a
/// quarter of the way and falls by 1/64, so that it stays near what the line gives when it is full. Mean gaps rise in the
/// same way, and fall by 1/256.
///
/// It is the estimate of CAKE's `autorate-ingress` with two departures. Evenly spaced packets have no gap that is longer than the
/// mean, so that windows have a least and a greatest length. And the estimate follows the fullest readings: a sender that was late and
/// makes up for it, or a reader that was late, moves up to 10 ms of the line into a window that is not its own. With windows of 10 ms, one by one,
/// that was 40 % too much on a line of 40 Mbit/s. Over two windows, of 80 ms at least, what one has too much the one before mostly
/// has too little.
///
/// It sees no delay, and takes bursts for a fast line. Where probes are possible, [`Autorate`](super::Autorate) is
/// the better choice, and this gives a ceiling to it.
///
/// Any sequence of times is right: a packet with a time before that of the last one begins a window anew.
///
/// Cost: constant; a division when a window ends, at most once in 40 ms.
///
/// ```
/// use sched_core::Nanos;
/// use shaper::{ArrivalRate, Rate, Shaper};
///
/// let mut arrivals = ArrivalRate::new();
/// let mut shaper = Shaper::new(Rate::UNLIMITED);
/// // 12 Mbit/s: 1,500 bytes each millisecond.
/// for ms in 0..3_000 {
///     arrivals.arrived(Nanos::from_millis(ms), 1_500);
///     // Often enough.
///     if ms % 250 == 249 && let Some(rate) = arrivals.rate() {
///         shaper.set_rate(Nanos::from_millis(ms), rate);
///     }
/// }
/// assert_eq!(shaper.rate(), Rate::kilobits_per_second(11_250)?);
/// # Ok::<(), shaper::RateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalRate {
    /// When the last packet came; `None` before the first.
    last: Option<Nanos>,
    /// The mean gap.
    gap: Nanos,
    since: Nanos,
    /// Bytes of the packets that came after `since`.
    bytes: u64,
    /// Bytes and length of the window before.
    before: (u64, Nanos),
    /// Whether the last gap was longer than the mean.
    is_behind_gap: bool,
    /// Bits per second; 0 before the first window has ended.
    estimate: u64,
}

impl ArrivalRate {
    /// The least length of a window.
    pub const SHORTEST: Nanos = Nanos::from_millis(40);
    /// The length at which a window ends without a gap.
    pub const LONGEST: Nanos = Nanos::from_millis(80);

    /// An estimate that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            last: None,
            gap: Nanos::ZERO,
            since: Nanos::ZERO,
            bytes: 0,
            before: (0, Nanos::ZERO),
            is_behind_gap: false,
            estimate: 0,
        }
    }

    /// A packet of `wire_len` bytes came at `now`.
    pub fn arrived(&mut self, now: Nanos, wire_len: u32) {
        let Some(last) = self.last.replace(now).filter(|&last| last <= now) else {
            (self.since, self.bytes, self.is_behind_gap) = (now, 0, false);
            self.before = (0, Nanos::ZERO);
            return;
        };
        let gap = now.since(last);
        if gap > Nanos::ZERO {
            // All packets of the last instant have come.
            let window = last.since(self.since);
            if window >= Self::LONGEST || self.is_behind_gap && window >= Self::SHORTEST {
                let (bytes, span) = self.before;
                let rate = achieved(bytes.saturating_add(self.bytes), span.plus(window));
                self.estimate = match self.estimate {
                    0 => rate,
                    estimate => towards(estimate, rate, DECAY),
                };
                self.before = (self.bytes, window);
                (self.since, self.bytes) = (last, 0);
            }
            self.is_behind_gap = gap > self.gap;
        }
        self.gap = Nanos(towards(self.gap.0, gap.0, DECAY_OF_GAPS));
        // Those of the instant at which a window begins belong to the window before.
        if now > self.since {
            self.bytes = self.bytes.saturating_add(wire_len.into());
        }
    }

    /// The estimate in bits per second, if a window has ended.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        (self.estimate > 0).then_some(self.estimate)
    }

    /// The rate to shape to: 15/16 of the estimate, or the nearest that is a [`Rate`]. Asking more often than a
    /// window ends tells nothing new.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let bps = scale(self.estimate()?, SHARE, OF);
        Rate::bits_per_second(bps.clamp(Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND)).ok()
    }
}

impl Default for ArrivalRate {
    fn default() -> Self {
        Self::new()
    }
}

/// A quarter of the way up, a part of 2 to the power of `decay` of it down.
const fn towards(mean: u64, value: u64, decay: u32) -> u64 {
    if value > mean {
        mean.saturating_add(value.saturating_sub(mean) >> 2)
    } else {
        mean.saturating_sub(mean.saturating_sub(value) >> decay)
    }
}
