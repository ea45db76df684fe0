//! Estimate of the rate of an upstream link from the packets that arrive over it.

use sched_core::Nanos;

use super::achieved;
use super::probe::Probe;
use crate::Rate;

/// Shares by which averages fall, as powers of two: the estimate by 1/128 per window, by 1/16 where
/// readings are steady; the mean gap by 1/256.
const DECAY: u32 = 7;
const DECAY_WHERE_STEADY: u32 = 4;
const DECAY_OF_GAPS: u32 = 8;
/// Readings are steady if this many in a row are within 1/16 of the first of them.
const STEADY: u32 = 32;

/// An estimate of a link's rate from the packets that arrive over it, for a shaper of downloads.
///
/// # Estimate
/// Arrivals are counted in windows. A window ends after the first gap that is longer than the mean
/// gap, once it is 40 ms long, and at 80 ms in any case. Packets that arrive at the same instant
/// are counted in the window that ends with them: a caller that wakes up late reads everything that
/// has arrived meanwhile at once, and it belongs to the time before. A reading is the rate over the
/// last two windows. The estimate is a mean of the readings that rises by 1/4 and falls by 1/128 of
/// the difference, so that it stays near the rate of the link when it is full; it falls by 1/16
/// once 32 readings were within 1/16 of each other. The mean gap rises in the same way, and falls
/// by 1/256.
///
/// # Rate
/// The rate is 15/16 of the estimate, so that the queue builds up here and not before the link. On
/// its own, this would be a loop that only goes down, since arrivals follow the rate. So higher
/// rates are probed. While arrivals fill the rate (5 ms of them would be queued), it rises every
/// fourth window: by 1/64 of the estimate, and by more from the seventh step on, up to 19/16.
/// Arrivals that are near the rate and do not fill it, for 6 windows with readings within 1/64 of
/// each other or for any 60 windows, mean that the link has no more: the rate falls to 15/16 at
/// once, and the next step comes after 28 windows, so that the queue before the link moves here, to
/// the AQM.
///
/// # Departures from CAKE
/// The estimate is that of CAKE's `autorate-ingress` with three departures. Higher rates are
/// probed. Windows have a minimum and a maximum length, because evenly spaced packets have no gap
/// above the mean. And the estimate follows the fullest readings, over two windows: a sender that
/// catches up, or a late reader, moves up to 10 ms of arrivals into the wrong window. With single
/// windows of 10 ms, that gave 40 % too much on a link of 40 Mbit/s. Over two windows, of at least
/// 80 ms, an excess in one mostly cancels with the deficit in the other.
///
/// # Limits
/// It does not measure delay, and takes bursts for a fast link. Where probes are possible, use
/// [`Autorate`](super::Autorate), with this estimate as its ceiling.
///
/// Any sequence of timestamps is valid: one earlier than that of the last packet restarts the
/// window.
///
/// # Cost
/// Constant: a multiplication per packet; four divisions per window, at most once in 40 ms.
///
/// # Examples
/// ```
/// use sched_core::Nanos;
/// use shaper::{ArrivalRate, Rate, Shaper};
///
/// let mut arrivals = ArrivalRate::new();
/// let mut shaper = Shaper::new(Rate::UNLIMITED);
/// // 12 Mbit/s: 1,500 bytes per millisecond.
/// for ms in 0..3_000 {
///     arrivals.arrived(Nanos::from_millis(ms), 1_500);
///     // Once in 250 ms is often enough.
///     if ms % 250 == 249
///         && let Some(rate) = arrivals.rate()
///     {
///         shaper.set_rate(Nanos::from_millis(ms), rate);
///     }
/// }
/// // A little below the arrival rate, or a little above while probing.
/// let bps = shaper.rate().as_bits_per_second().unwrap_or(0);
/// assert!((11_250_000..12_400_000).contains(&bps));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalRate {
    /// Time of the last packet; `None` before the first.
    last: Option<Nanos>,
    /// Mean gap.
    gap: Nanos,
    since: Nanos,
    /// Bytes of the packets that arrived after `since`.
    bytes: u64,
    /// Bytes and length of the previous window.
    before: (u64, Nanos),
    /// True if the last gap was longer than the mean.
    is_behind_gap: bool,
    /// Bits per second; 0 before the end of the first window.
    estimate: u64,
    /// A reading, and the number of readings after it that are within 1/16 of it.
    anchor: u64,
    steady: u32,
    probe: Probe,
}

impl ArrivalRate {
    /// Minimum length of a window.
    pub const SHORTEST: Nanos = Nanos::from_millis(40);
    /// Length at which a window ends without a gap.
    pub const LONGEST: Nanos = Nanos::from_millis(80);

    /// Creates an estimate without any arrivals.
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

    /// Counts a packet of `wire_len` bytes that arrived at `now`.
    pub fn arrived(&mut self, now: Nanos, wire_len: u32) {
        let Some(last) = self.last.replace(now).filter(|&last| last <= now) else {
            (self.since, self.bytes, self.is_behind_gap) = (now, 0, false);
            self.before = (0, Nanos::ZERO);
            return;
        };
        let gap = now.since(last);
        if gap > Nanos::ZERO {
            // All packets of the last instant have arrived.
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
        // Packets of the instant at which a window starts belong to the previous window.
        if now > self.since {
            self.bytes = self.bytes.saturating_add(wire_len.into());
        }
    }

    /// Ends a window with this reading, in bits per second.
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

    /// Returns the estimate in bits per second; `None` before the end of the first window.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        (self.estimate > 0).then_some(self.estimate)
    }

    /// Returns the rate to shape to: 15/16 of the estimate, up to 19/16 while arrivals fill it,
    /// clamped to a valid [`Rate`].
    ///
    /// It changes at most once per window; calling it once in 250 ms is often enough.
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

/// Moves `mean` towards `value`: by 1/4 of the difference upwards, by 1/2^`decay` of it downwards.
const fn towards(mean: u64, value: u64, decay: u32) -> u64 {
    if value > mean {
        mean.saturating_add(value.saturating_sub(mean) >> 2)
    } else {
        mean.saturating_sub(mean.saturating_sub(value) >> decay)
    }
}
