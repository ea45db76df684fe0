//! Goodput, loss and fairness.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::Nanos;

/// Counter of bytes delivered within a window of time, for a rate without warm-up and drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodput {
    from: Nanos,
    to: Nanos,
    bytes: u64,
}

impl Goodput {
    /// Creates a counter for arrivals in `[from, to)`.
    #[must_use]
    pub const fn over(from: Nanos, to: Nanos) -> Self {
        Self { from, to, bytes: 0 }
    }

    /// Records the arrival of `bytes` of useful data at `at`.
    pub fn record(&mut self, at: Nanos, bytes: u64) {
        if self.from <= at && at < self.to {
            self.bytes += bytes;
        }
    }

    /// Returns the bytes counted.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the mean rate over the whole window, rounded down; 0 for an empty window.
    #[must_use]
    pub fn bits_per_second(&self) -> u64 {
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000;
        let span = u128::from(self.to.since(self.from).0);
        u64::try_from(bits.checked_div(span).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// Packets sent and how many of them never arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Packets sent.
    pub sent: u64,
    /// Number of these that were lost.
    pub lost: u64,
}

impl Loss {
    /// Returns the fraction lost, in [0, 1]; 0 if nothing was sent.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}

impl core::iter::Sum for Loss {
    fn sum<I: Iterator<Item = Self>>(losses: I) -> Self {
        losses.fold(Self::default(), |sum, next| Self {
            sent: sum.sent + next.sent,
            lost: sum.lost + next.lost,
        })
    }
}

/// Returns each amount relative to its share of their sum; shares are proportional to `weights`.
///
/// ```
/// use sim::measure::goodput::relative_to_shares;
/// assert_eq!(
///     relative_to_shares(&[20, 20, 20], &[1.0, 1.0, 2.0]),
///     [4.0 / 3.0, 4.0 / 3.0, 2.0 / 3.0]
/// );
/// ```
#[must_use]
pub fn relative_to_shares(amounts: &[u64], weights: &[f64]) -> Vec<f64> {
    let sum = amounts.iter().sum::<u64>() as f64;
    let weight: f64 = weights.iter().sum();
    let part = |(&amount, own): (&u64, &f64)| amount as f64 * (weight / own) / sum;
    amounts.iter().zip(weights).map(part).collect()
}

/// Returns Jain's fairness index (Jain, Chiu and Hawe 1984): (Σy)² / (n·Σy²).
///
/// 1 if all shares are equal, 1/n if one has everything. `None` without shares or if all are zero.
#[must_use]
pub fn jain(shares: &[u64]) -> Option<f64> {
    // Shares are bytes or bits per second, below 2^53, so each is exact as a float.
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| share as f64 * share as f64).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_counts_the_window_and_nothing_else() {
        let mut goodput = Goodput::over(Nanos::from_secs(5), Nanos::from_secs(7));
        for (second, bytes) in [(4, 1), (5, 1_000), (6, 500), (7, 4)] {
            goodput.record(Nanos::from_secs(second), bytes);
        }
        assert_eq!((goodput.bytes(), goodput.bits_per_second()), (1_500, 6_000));
    }

    #[test]
    fn an_empty_window_has_no_rate() {
        let mut goodput = Goodput::over(Nanos(9), Nanos(9));
        goodput.record(Nanos(9), 1);
        assert_eq!((goodput.bytes(), goodput.bits_per_second()), (0, 0));
        let mut full = Goodput::over(Nanos(0), Nanos(1));
        full.record(Nanos(0), u64::MAX);
        assert_eq!(full.bits_per_second(), u64::MAX);
    }

    #[test]
    fn jain_is_one_over_n_for_a_flow_that_takes_all() {
        assert_eq!(jain(&[7, 7, 7, 7]), Some(1.0));
        assert_eq!(jain(&[0, 0, 5, 0]), Some(0.25));
        // (1+2+3)² / (3 · (1+4+9)) = 36 / 42.
        assert_eq!(jain(&[1, 2, 3]), Some(36.0 / 42.0));
        assert_eq!((jain(&[]), jain(&[0, 0])), (None, None));
    }

    #[test]
    fn loss_is_a_part_of_what_was_sent() {
        assert_eq!(Loss { sent: 8, lost: 2 }.ratio(), 0.25);
        assert_eq!(Loss::default().ratio(), 0.0);
        let all = [Loss { sent: 8, lost: 2 }, Loss { sent: 1, lost: 1 }];
        assert_eq!(all.into_iter().sum::<Loss>(), Loss { sent: 9, lost: 3 });
    }
}
