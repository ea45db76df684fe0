//! Probing for a rate above the current estimate.

use core::num::NonZeroU64;

use sched_core::Nanos;

use super::{BIT_NANOS_PER_BYTE_SECOND, scale};

/// Shares of the estimate used as the rate, in units of 1/64: 15/16 first, so that the queue builds
/// up here and not before the link; then more, one step at a time, while arrivals fill the rate.
const SHARES: [u64; 10] = [60, 61, 62, 63, 64, 65, 66, 68, 72, 76];
const OF: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// Windows from one step to the next, and from a fall to the first step.
const STEP: u32 = 4;
const REST: u32 = 28;
/// Windows in which arrivals are near the rate without filling it, after which it falls: with
/// readings within 1/64 of each other, and with any readings.
const FLAT: u32 = 6;
const ANY: u32 = 60;

/// The rate is filled from 5 ms of queue on, which AQMs accept; the queue is capped at 6 ms.
const FILLED: Nanos = Nanos::from_millis(5);
const MOST: Nanos = Nanos::from_millis(6);
/// Fractional bits in the nanoseconds per byte.
const FRACTION: u32 = 16;

/// The share of the estimate that is used as the rate, and the queue that this rate would cause.
///
/// While arrivals fill the rate, senders would send more and the link may have more: the rate rises
/// by a step. A link without more capacity delivers evenly, and nothing queues here: then the rate
/// falls below the link's at once, and stays there until the queue before the link has moved here,
/// where an AQM sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Index into the shares.
    step: usize,
    /// Windows until the next step is allowed.
    rest: u32,
    /// Consecutive windows near the rate that did not fill it, and the minimum and maximum of
    /// their readings.
    unfilled: u32,
    least: u64,
    greatest: u64,
    /// Length of the virtual queue: nanoseconds to send it at the rate.
    waits: u64,
    /// Nanoseconds per byte at the rate, with fractional bits.
    per_byte: u64,
    /// True if arrivals have filled the rate in this window.
    is_filled: bool,
}

impl Probe {
    /// Creates a probe for an unknown rate.
    pub(super) const fn new() -> Self {
        Self {
            step: 0,
            rest: STEP,
            unfilled: 0,
            least: 0,
            greatest: 0,
            waits: 0,
            per_byte: 0,
            is_filled: false,
        }
    }

    /// Returns the rate in bits per second for this estimate of the link.
    pub(super) fn rate(&self, estimate: u64) -> u64 {
        let [first, ..] = SHARES;
        scale(estimate, SHARES.get(self.step).copied().unwrap_or(first), OF)
    }

    /// Counts a packet that arrived `gap` after the one before.
    pub(super) fn arrived(&mut self, gap: Nanos, wire_len: u32) {
        let takes = u64::from(wire_len).saturating_mul(self.per_byte) >> FRACTION;
        self.waits = self.waits.saturating_sub(gap.0).saturating_add(takes).min(MOST.0);
        self.is_filled |= self.waits >= FILLED.0;
    }

    /// Ends a window with `reading`, in bits per second; `estimate` already includes it.
    pub(super) fn ended(&mut self, reading: u64, estimate: u64) {
        self.rest = self.rest.saturating_sub(1);
        let near = self.rate(estimate).min(estimate);
        if core::mem::take(&mut self.is_filled) {
            self.unfilled = 0;
            if self.rest == 0 {
                self.step = self.step.saturating_add(1).min(SHARES.len().saturating_sub(1));
                self.rest = STEP;
            }
        } else if reading >= near.saturating_sub(near >> 4) {
            if self.unfilled == 0 {
                (self.least, self.greatest) = (reading, reading);
            }
            self.unfilled = self.unfilled.saturating_add(1);
            self.least = self.least.min(reading);
            self.greatest = self.greatest.max(reading);
            let is_flat = self.greatest.saturating_sub(self.least) <= reading >> 6;
            let enough = if is_flat { FLAT } else { ANY };
            if self.unfilled >= enough {
                (self.step, self.rest, self.unfilled) = (0, REST, 0);
            }
        } else {
            // Senders offer less, or the link has become slower: the estimate falls.
            self.unfilled = 0;
        }
        let rate = NonZeroU64::new(self.rate(estimate)).unwrap_or(NonZeroU64::MIN);
        self.per_byte = scale(BIT_NANOS_PER_BYTE_SECOND << FRACTION, 1, rate);
    }
}
