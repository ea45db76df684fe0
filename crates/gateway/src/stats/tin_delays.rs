//! Delays of the packets of each tin.

use freeboard::TinPlan;
use freeboard::sched_core::Nanos;

/// Minimum time that the peak of the metrics covers, at most twice as long: a collector with an
/// interval of 15 s misses no peak.
const WINDOW: Nanos = Nanos::from_secs(20);

/// Number of packets, and the sum of their delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) packets: u64,
    pub(crate) nanos: u64,
}

impl Waits {
    fn add(&mut self, waited: Nanos) {
        self.packets += 1;
        self.nanos = self.nanos.saturating_add(waited.0);
    }

    /// Returns the mean in nanoseconds; `None` without a packet.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.nanos as f64 / self.packets as f64)
    }
}

/// Delays of one tin. A packet is sparse if no packet of its flow was held on arrival, which is
/// known for flows that are watched individually.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TinDelays {
    /// All packets, and the sparse ones, since the tins were set.
    pub(crate) total: Waits,
    pub(crate) total_sparse: Waits,
    /// All packets, the sparse ones and the maximum delay since the last report.
    pub(crate) recent: Waits,
    pub(crate) sparse: Waits,
    pub(crate) peak: Nanos,
    /// Maximum delays of the current window and of the previous one.
    peaks: [Nanos; 2],
}

impl TinDelays {
    /// Returns the maximum delay of the last 20 to 40 s.
    pub(crate) fn lasting_peak(&self) -> Nanos {
        self.peaks[0].max(self.peaks[1])
    }
}

/// Delays of all tins of a direction, by number.
#[derive(Debug, Default)]
pub(crate) struct Tins {
    delays: [TinDelays; TinPlan::MAX_TINS],
    /// Start of the current window.
    since: Nanos,
}

impl Tins {
    /// Counts a packet of a tin that leaves at `now`.
    pub(super) fn sent(&mut self, now: Nanos, tin: u8, waited: Nanos, is_sparse: bool) {
        self.turn(now);
        let Some(tin) = self.delays.get_mut(usize::from(tin)) else { return };
        tin.total.add(waited);
        tin.recent.add(waited);
        if is_sparse {
            tin.total_sparse.add(waited);
            tin.sparse.add(waited);
        }
        tin.peak = tin.peak.max(waited);
        tin.peaks[0] = tin.peaks[0].max(waited);
    }

    /// Starts a new window if the current one is over.
    fn turn(&mut self, now: Nanos) {
        let span = now.since(self.since);
        if span < WINDOW {
            return;
        }
        for tin in &mut self.delays {
            let last = if span < WINDOW.plus(WINDOW) { tin.peaks[0] } else { Nanos::ZERO };
            tin.peaks = [Nanos::ZERO, last];
        }
        self.since = now;
    }

    /// Resets what is counted per report.
    pub(super) fn looked(&mut self) {
        for tin in &mut self.delays {
            (tin.recent, tin.sparse, tin.peak) = (Waits::default(), Waits::default(), Nanos::ZERO);
        }
    }

    /// Returns the delays of tin `number`; zeros if there is no such tin.
    pub(crate) fn of(&self, number: u8) -> TinDelays {
        self.delays.get(usize::from(number)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: peak, mean and mean of sparse packets match manual computation; a report resets recent
    /// delays, and time the lasting peak.
    #[test]
    fn waits_are_those_of_the_tin() {
        let ms = Nanos::from_millis;
        let mut tins = Tins::default();
        tins.sent(ms(1), 2, ms(10), false);
        tins.sent(ms(2), 2, ms(2), true);
        tins.sent(ms(3), 2, ms(6), false);
        tins.sent(ms(3), 200, ms(6), false);
        let tin = tins.of(2);
        assert_eq!((tin.recent.mean(), tin.sparse.mean()), (Some(6e6), Some(2e6)));
        assert_eq!((tin.peak, tin.lasting_peak()), (ms(10), ms(10)));
        assert_eq!((tins.of(1).recent.mean(), tins.of(200).recent.packets), (None, 0));
        tins.looked();
        let tin = tins.of(2);
        assert_eq!((tin.recent, tin.sparse, tin.peak), (Waits::default(), Waits::default(), ms(0)));
        assert_eq!(
            (tin.total, tin.total_sparse.packets),
            (Waits { packets: 3, nanos: 18_000_000 }, 1)
        );
        tins.sent(ms(20_000), 2, ms(1), false);
        assert_eq!(tins.of(2).lasting_peak(), ms(10), "the window before counts");
        tins.sent(ms(40_000), 2, ms(1), false);
        assert_eq!(tins.of(2).lasting_peak(), ms(1));
        tins.sent(ms(200_000), 2, ms(3), false);
        assert_eq!(tins.of(2).lasting_peak(), ms(3));
    }
}
