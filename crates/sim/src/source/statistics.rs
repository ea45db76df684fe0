//! Comparison of samples with the distributions that they are drawn from, for tests.

/// Checks that the mean of `samples` is within four standard errors of `mean`: one seed in 16,000
/// fails, and the seeds are fixed. The standard error is taken from the samples.
///
/// # Panics
/// If it is not.
pub(crate) fn assert_near(samples: &[f64], mean: f64) {
    let count = samples.len() as f64;
    let found = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - found) * (sample - found)).sum();
    let error = libm::sqrt(squares / count / count);
    assert!((found - mean).abs() <= 4.0 * error, "mean {found} ± {error} (expected {mean})");
}

/// Sorts the samples and returns their Kolmogorov–Smirnov distance from a distribution function,
/// which may have jumps. It exceeds 1.95/√n with one seed in a thousand.
pub(crate) fn distance(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    let count = samples.len() as f64;
    let mut furthest = 0.0_f64;
    let mut below = 0;
    for equal in samples.chunk_by(|a, b| a == b) {
        let value = equal[0];
        // Just below a jump the function is that of the next smaller number.
        let (before, at) = (cdf(value.next_down()), cdf(value));
        let upto = below + equal.len();
        furthest = furthest.max((before - f64::from(below as u32) / count).abs());
        furthest = furthest.max((at - f64::from(upto as u32) / count).abs());
        below = upto;
    }
    furthest
}
