//! Constant bit rate.

use core::num::NonZeroU64;

use freeboard::sched_core::Nanos;

use super::{Pace, Sent};

/// Source with constant bit rate: equal payloads, equally spaced.
///
/// ```
/// # use sim::source::{Cbr, Sent};
/// # use freeboard::sched_core::Nanos;
/// let mut call = Cbr::g711(Nanos::from_millis(5));
/// assert_eq!(call.next(), Some(Sent { at: Nanos::from_millis(5), payload: 160 }));
/// assert_eq!(call.next(), Some(Sent { at: Nanos::from_millis(25), payload: 160 }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cbr {
    start: Nanos,
    payload: u32,
    pace: Pace,
}

impl Cbr {
    /// Creates a source of `payload` bytes every `period`, first at `start`. A zero period sends
    /// all payloads at once.
    #[must_use]
    pub fn new(start: Nanos, period: Nanos, payload: u32) -> Self {
        Self { start, payload, pace: Pace::every(period) }
    }

    /// Creates a source of `bits_per_second` in payloads of `payload` bytes, first at `start`. The
    /// k-th leaves at `k · payload · 8 / rate`, rounded down to nanoseconds, for every k: the rate
    /// is exact.
    #[must_use]
    pub fn at_rate(start: Nanos, bits_per_second: NonZeroU64, payload: u32) -> Self {
        Self { start, payload, pace: Pace::at_rate(bits_per_second, payload) }
    }

    /// Creates one direction of a G.711 call: 64 kbit/s in 160 bytes every 20 ms (RFC 3551
    /// §4.5.14).
    #[must_use]
    pub fn g711(start: Nanos) -> Self {
        Self::new(start, Nanos::from_millis(20), 160)
    }

    /// Creates one direction of a G.729 call: 8 kbit/s in two frames of 10 bytes every 20 ms (RFC
    /// 3551 §4.5.6).
    #[must_use]
    pub fn g729(start: Nanos) -> Self {
        Self::new(start, Nanos::from_millis(20), 20)
    }

    /// Returns the payload of each packet in bytes.
    #[must_use]
    pub const fn payload(&self) -> u32 {
        self.payload
    }

    /// Returns the time of the next packet.
    pub(super) fn due(&self) -> Nanos {
        self.start.plus(self.pace.peek())
    }
}

impl Iterator for Cbr {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let at = self.due();
        self.pace.advance();
        Some(Sent { at, payload: self.payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_64_kbit_per_second() {
        let second: Vec<Sent> =
            Cbr::g711(Nanos(7)).take_while(|s| s.at < Nanos(1_000_000_007)).collect();
        assert_eq!(second.len(), 50);
        assert_eq!(second.iter().map(|s| s.payload * 8).sum::<u32>(), 64_000);
        assert_eq!(second[49], Sent { at: Nanos(980_000_007), payload: 160 });
    }

    /// 1,000 bytes at 30 Mbit/s are 266,666.6… ns apart: the third packet is on a whole number
    /// again, and so is the three-millionth.
    #[test]
    fn a_rate_that_does_not_divide_drifts_by_nothing() {
        let rate = NonZeroU64::new(30_000_000).unwrap();
        let mut source = Cbr::at_rate(Nanos::ZERO, rate, 1_000);
        let first: Vec<u64> = source.by_ref().take(4).map(|s| s.at.0).collect();
        assert_eq!(first, [0, 266_666, 533_333, 800_000]);
        assert_eq!(source.nth(3_000_000 - 4).unwrap().at, Nanos::from_secs(800));
    }
}
