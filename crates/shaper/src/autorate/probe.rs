//! What is tried above the rate that is known.

use core::num::NonZeroU64;

use sched_core::Nanos;

use super::{BIT_NANOS_PER_BYTE_SECOND, scale};

/// What is told of the estimate, in 64th: 15/16 at first, so that the queue is here and not before
/// the line; then more, a step at a time, while arrivals fill the rate.
const SHARES: [u64; 10] = [60, 61, 62, 63, 64, 65, 66, 68, 72, 76];
const OF: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// Windows from one step to the next, and from a fall to the first step.
const STEP: u32 = 4;
const REST: u32 = 28;
/// Windows in which arrivals are near the rate and do not fill it, until it falls: with readings
/// within 1/64 of each other, and with any.
const FLAT: u32 = 6;
const ANY: u32 = 60;

/// What waits here fills the rate from 5 ms on, what AQMs accept; more than 6 ms is not remembered.
const FILLED: Nanos = Nanos::from_millis(5);
const MOST: Nanos = Nanos::from_millis(6);
/// Bits of a fraction of a nanosecond that a byte takes.
const FRACTION: u32 = 16;

/// The part of an estimate that is the rate, and what that rate would let wait.
///
/// While arrivals fill the rate, the senders would send more, and the line may have more: the rate
/// rises a step. A line that has no more gives what it has, evenly, and nothing waits here: then
/// the rate falls below the line at once, and stays there until what has come to wait before the
/// line has come here, where an AQM sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Which of the shares.
    step: usize,
    /// Windows until the next step may come.
    rest: u32,
    /// Windows in a row near the rate that did not fill it, and the least and the greatest of
    /// their readings.
    unfilled: u32,
    least: u64,
    greatest: u64,
    /// Nanoseconds that the rate needs for what would wait.
    waits: u64,
    /// Nanoseconds that the rate needs for a byte, with a fraction.
    per_byte: u64,
    /// Whether arrivals have filled the rate in this window.
    is_filled: bool,
}

impl Probe {
    /// A probe of a rate that is not known yet.
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

    /// The rate in bits per second, with this estimate of the line.
    pub(super) fn rate(&self, estimate: u64) -> u64 {
        let [first, ..] = SHARES;
        scale(estimate, SHARES.get(self.step).copied().unwrap_or(first), OF)
    }

    /// A packet came, so long after the last one.
    pub(super) fn arrived(&mut self, gap: Nanos, wire_len: u32) {
        let takes = u64::from(wire_len).saturating_mul(self.per_byte) >> FRACTION;
        self.waits = self.waits.saturating_sub(gap.0).saturating_add(takes).min(MOST.0);
        self.is_filled |= self.waits >= FILLED.0;
    }

    /// A window has ended with a reading, in bits per second, which has made the estimate what it
    /// is.
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
            // Senders that have less to send, or a line that has become slower: the estimate falls.
            self.unfilled = 0;
        }
        let rate = NonZeroU64::new(self.rate(estimate)).unwrap_or(NonZeroU64::MIN);
        self.per_byte = scale(BIT_NANOS_PER_BYTE_SECOND << FRACTION, 1, rate);
    }
}
