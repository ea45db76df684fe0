//! How fast packets arrive that a line before this one has spaced.

use sched_core::Nanos;

use super::achieved;
use super::probe::Probe;
use crate::Rate;

/// The estimate falls by 1/128 of the way in a window, by 1/16 where readings stay, the mean gap by
/// 1/256.
const DECAY: u32 = 7;
const DECAY_WHERE_STEADY: u32 = 4;
const DECAY_OF_GAPS: u32 = 8;
/// Readings stay if so many in a row are within 1/16 of the first of them.
const STEADY: u32 = 32;

/// The rate of a line, estimated from packets that arrive over it: for a shaper behind the line, of
/// downloads.
///
/// Arrivals are counted in windows. A window ends behind the first gap longer than the mean gap,
/// when it is 40 ms long or more, and at 80 ms in any case. Packets that come at the same instant
/// are in one window, the one that ends with them: a caller that wakes up late reads at once all
/// that has arrived meanwhile, and what it reads belongs to the time before. A reading is the rate
/// over two windows, the last ones. The estimate is a mean of the readings that rises by a
/// quarter of the way and falls by 1/128, so that it stays near what the line gives when it is
/// full; by 1/16 once 32 readings were within 1/16 of each other. Mean gaps rise in the same way,
/// and fall by 1/256.
///
/// The rate is 15/16 of the estimate, so that the queue is here and not before the line. That alone
/// would be a loop that only goes down: what arrives follows the rate. So the rate is tried
/// upwards. While arrivals fill it (5 ms of them would wait), it rises each fourth window, by 1/64
/// of the estimate and from the seventh step on by more, up to 19/16. Where arrivals are near it
/// and do not fill it for 6 windows with readings within 1/64 of each other, or for 60 with any,
/// the line has no more: the rate is 15/16 at once, and the next step comes after 28 windows, so
/// that what has come to wait before the line comes here, to the AQM.
///
/// It is the estimate of CAKE's `autorate-ingress` with three departures, of which the rate that is
/// tried is one. Evenly spaced packets have no gap that is longer than the mean, so that windows
/// have a least and a greatest length. And the estimate follows the fullest readings: a sender that
/// was late and makes up for it, or a reader that was late, moves up to 10 ms of the line into a
/// window that is not its own. With windows of 10 ms, one by one, that was 40 % too much on a line
/// of 40 Mbit/s. Over two windows, of 80 ms at least, what one has too much the one before mostly
/// has too little.
///
/// It sees no delay, and takes bursts for a fast line. Where probes are possible,
/// [`Autorate`](super::Autorate) is the better choice, and this gives a ceiling to it.
///
/// Any sequence of times is right: a packet with a time before that of the last one begins a window
/// anew.
///
/// Cost: constant; a multiplication for a packet, four divisions when a window ends, at most once
/// in 40 ms.
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
/// // A little below what comes, or a little above to see whether there is more.
/// let bps = shaper.rate().as_bits_per_second().unwrap_or(0);
/// assert!((11_250_000..12_400_000).contains(&bps));
/// # Ok::<(), sched_core::ConfigError>(())
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
    /// A reading, and how many behind it are within 1/16 of it.
    anchor: u64,
    steady: u32,
    probe: Probe,
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
            anchor: 0,
            steady: 0,
            probe: Probe::new(),
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
                self.read(rate);
                self.before = (self.bytes, window);
                (self.since, self.bytes) = (last, 0);
            }
            self.is_behind_gap = gap > self.gap;
        }
        self.probe.arrived(gap, wire_len);
        self.gap = Nanos(towards(self.gap.0, gap.0, DECAY_OF_GAPS));
        // Those of the instant at which a window begins belong to the window before.
        if now > self.since {
            self.bytes = self.bytes.saturating_add(wire_len.into());
        }
    }

    /// A window has ended with this reading in bits per second.
    fn read(&mut self, reading: u64) {
        if reading.abs_diff(self.anchor) > self.anchor >> 4 {
            (self.anchor, self.steady) = (reading, 0);
        } else {
            self.steady = self.steady.saturating_add(1);
        }
        let decay = if self.steady >= STEADY { DECAY_WHERE_STEADY } else { DECAY };
        self.estimate = match self.estimate {
            0 => reading,
            estimate => towards(estimate, reading, decay),
        };
        self.probe.ended(reading, self.estimate);
    }

    /// The estimate in bits per second, if a window has ended.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        (self.estimate > 0).then_some(self.estimate)
    }

    /// The rate to shape to, or the nearest that is a [`Rate`]: 15/16 of the estimate, and up to
    /// 19/16 while arrivals fill it. Asking more often than a window ends tells nothing new; asking
    /// once in 250 ms is often enough.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let bps = self.probe.rate(self.estimate()?);
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
