//! The control law: the n-th signal follows the one before it by `interval / √n` (RFC 8289 §3.2).
//!
//! With this spacing the rate of signals grows with the square root of their number, which lowers
//! the throughput of a TCP flow linearly in time. No state, no division, no floating point: the
//! root is computed from the count each time, so no error accumulates from signal to signal.

use crate::Nanos;

/// The longest interval for which [`spacing`] is exact: 2^33 − 1 ns, 8.6 s. Longer ones count as
/// this.
pub(crate) const MAX_INTERVAL: Nanos = Nanos((1 << 33) - 1);

/// Fraction bits of the fixed-point numbers.
const FRAC: u32 = 30;
const ONE: u64 = 1 << FRAC;

/// The linear function `1.06638 − 0.15234·m` in fixed point: within 8.6 % of `1/√m` for m in [1,
/// 4), the best possible for a linear function.
const GUESS_AT_ZERO: u64 = 1_145_019_274;
const GUESS_SLOPE: u64 = 163_574_182;

/// Returns `interval / √count`, rounded down, with an error below 1 ns + 10^-7 of the exact value;
/// 0 counts as 1. Cost: some 25 instructions.
pub(crate) fn spacing(interval: Nanos, count: u32) -> Nanos {
    let count = count.max(1);
    // count = m · 4^k with m in [1, 4), so 1/√count = 1/√m / 2^k with 1/√m in (0.5, 1].
    let shift = count.leading_zeros() & !1;
    let m = u64::from(count << shift); // FRAC bits after the point, m < 2^32
    let k = 15_u32.wrapping_sub(shift >> 1); // shift <= 30

    // Newton's step for f(y) = 1/y² − m needs no division: y ← y·(3 − m·y²)/2. A relative error e
    // becomes 1.5·e², always too low: 8.6 % → 1.1 % → 0.02 % → 5·10^-8.
    let mut y = GUESS_AT_ZERO.wrapping_sub((GUESS_SLOPE.wrapping_mul(m)) >> FRAC);
    for _ in 0..3 {
        let square = y.wrapping_mul(y) >> FRAC; // y < 1.1: below 2^61 before the shift
        let product = square.wrapping_mul(m) >> FRAC; // m·y² < 1.2: below 2^61 before the shift
        y = y.wrapping_mul((3 * ONE).wrapping_sub(product)) >> (FRAC + 1); // below 2^62 before
    }
    // Below 2^33 · 2^30 before the shift.
    Nanos((interval.0.min(MAX_INTERVAL.0).wrapping_mul(y) >> FRAC) >> k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::float_arithmetic, reason = "the exact value to compare with")]
    fn exact(interval: u64, count: u32) -> f64 {
        interval as f64 / f64::from(count).sqrt()
    }

    #[expect(clippy::float_arithmetic, reason = "the exact value to compare with")]
    fn error(interval: u64, count: u32) -> f64 {
        let exact = exact(interval, count);
        ((spacing(Nanos(interval), count).0 as f64 - exact).abs() - 1.0) / exact
    }

    /// Goal: the documented error, 10^-7 plus the rounding to a nanosecond (the control law needs
    /// 0.5 %).
    #[test]
    fn the_law_is_exact_for_every_count_up_to_65535() {
        for interval in [1, 1_000, 30_000_000, 100_000_000, MAX_INTERVAL.0] {
            for count in 1..=65_535 {
                let error = error(interval, count);
                assert!(error <= 1e-7, "{interval} ns, count {count}: {error}");
            }
        }
    }

    #[test]
    fn the_law_is_exact_at_the_powers_of_two_and_their_neighbours() {
        for bit in 0..32 {
            for count in [(1_u32 << bit).saturating_sub(1).max(1), 1 << bit, (1 << bit) + 1] {
                let error = error(MAX_INTERVAL.0, count);
                assert!(error <= 1e-7, "count {count}: {error}");
            }
        }
        assert!(error(MAX_INTERVAL.0, u32::MAX) <= 1e-7);
    }

    #[test]
    fn no_signals_count_as_one_and_long_intervals_as_the_longest() {
        assert_eq!(spacing(Nanos(1 << 20), 0), spacing(Nanos(1 << 20), 1));
        assert_eq!(spacing(Nanos::MAX, 1), spacing(MAX_INTERVAL, 1));
    }
}
