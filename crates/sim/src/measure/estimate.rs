//! Means over independent runs and their confidence intervals; spreads.

use core::fmt;

/// Mean of a quantity over runs with different seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval by Student's distribution; `None` for a
    /// single run.
    pub margin: Option<f64>,
}

impl Estimate {
    /// Estimates from one value of each run; `None` without runs.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = mean(values)?;
        let margin = STUDENT.get(count.saturating_sub(2).min(STUDENT.len() - 1));
        let margin = margin.filter(|_| count > 1).map(|factor| {
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            factor * libm::sqrt(squares / (count - 1) as f64 / count as f64)
        });
        Some(Self { mean, margin })
    }

    /// Returns `mean ±margin` with numbers as `number` formats them; the mean alone if there is no
    /// margin.
    #[must_use]
    pub fn text(self, number: impl Fn(f64) -> String) -> String {
        let mean = number(self.mean);
        self.margin.map_or(mean.clone(), |margin| format!("{mean} ±{}", number(margin)))
    }
}

/// Number, extremes and averages of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// The minimum; infinite without values.
    pub least: f64,
    /// The arithmetic mean; not a number without values.
    pub mean: f64,
    /// The median, by nearest rank; not a number without values.
    pub median: f64,
    /// The maximum; infinite and negative without values.
    pub most: f64,
}

impl Spread {
    /// Returns the spread of `values`. O(n·log n).
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        let mean = mean(&values).unwrap_or(f64::NAN);
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len().div_ceil(2).saturating_sub(1);
        Self {
            count: values.len(),
            least: values.first().copied().unwrap_or(f64::INFINITY),
            mean,
            median: values.get(middle).copied().unwrap_or(f64::NAN),
            most: values.last().copied().unwrap_or(f64::NEG_INFINITY),
        }
    }

    /// Returns true if no value is less than `least` or more than `most`.
    #[must_use]
    pub fn is_within(&self, least: f64, most: f64) -> bool {
        self.least >= least && self.most <= most
    }

    /// Returns true if `value` is not less than the minimum and not more than the maximum.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

/// Writes the extremes, `1.20 to 3.45`, with the decimals of the format and 2 by default.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        write!(f, "{:.decimals$} to {:.decimals$}", self.least, self.most)
    }
}

/// Returns the arithmetic mean; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the geometric mean of positive values; `None` without values.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    mean(&values.iter().map(|&value| libm::log(value)).collect::<Vec<_>>()).map(libm::exp)
}

/// Returns the correlation coefficient of pairs of values; not a number if either is constant.
#[must_use]
pub fn correlation(points: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let points: Vec<(f64, f64)> = points.into_iter().collect();
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let sum = |value: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|&(x, y)| value(x - mean_x, y - mean_y)).sum::<f64>()
    };
    sum(&|x, y| x * y) / libm::sqrt(sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

/// The 97.5 % quantile of Student's distribution for 1, 2, … 30 degrees of freedom. Above 30 it
/// falls from 2.042 to 1.960; the last is used for all, which errs towards a wider interval.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::rng::Streams;

    /// Calculated manually: mean 4, variance (9 + 1 + 4 + 4) / 3 = 6, standard error √(6/4), 3
    /// degrees of freedom.
    #[test]
    fn an_interval_is_students() {
        let estimate = Estimate::of(&[1.0, 3.0, 6.0, 6.0]).unwrap();
        assert_eq!(estimate.mean, 4.0);
        assert!((estimate.margin.unwrap() - 3.182 * 1.224_745).abs() < 1e-5, "{estimate:?}");
        assert_eq!(Estimate::of(&[5.0]), Some(Estimate { mean: 5.0, margin: None }));
        assert_eq!(Estimate::of(&[]), None);
        let rounded = |value: f64| format!("{value:.1}");
        assert_eq!(estimate.text(rounded), "4.0 ±3.9");
        assert_eq!(Estimate::of(&[5.0]).map(|of| of.text(rounded)), Some("5.0".to_owned()));
    }

    #[test]
    fn a_spread_has_the_decimals_of_the_format() {
        let spread = Spread::of([2.0, -1.0, 7.25]);
        assert_eq!(format!("{spread:.1} {spread}"), "-1.0 to 7.2 -1.00 to 7.25");
    }

    #[test]
    fn a_spread_has_the_extremes_and_the_averages() {
        let spread = Spread::of([9.0, 1.0, 4.0, 2.0]);
        let expected = Spread { count: 4, least: 1.0, mean: 4.0, median: 2.0, most: 9.0 };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of([9.0, 1.0, 4.0]).median, 4.0);
        let within = [(1.0, 9.0), (1.1, 9.0), (1.0, 8.9)];
        assert_eq!(within.map(|(least, most)| spread.is_within(least, most)), [true, false, false]);
        assert_eq!([0.9, 1.0, 9.0, 9.1].map(|at| spread.contains(at)), [false, true, true, false]);
        let none = Spread::of([]);
        assert!(none.count == 0 && none.mean.is_nan() && none.median.is_nan());
        assert!(!none.contains(0.0));
    }

    #[test]
    fn a_geometric_mean_is_a_root_of_a_product() {
        assert!((geometric_mean(&[2.0, 4.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn points_on_a_line_are_correlated() {
        let line = |slope: f64| correlation((0..9).map(|x| (f64::from(x), slope * f64::from(x))));
        assert!((line(3.0) - 1.0).abs() < 1e-12 && (line(-0.5) + 1.0).abs() < 1e-12);
        assert_eq!(correlation([(-1.0, 0.0), (0.0, 1.0), (1.0, 0.0)]), 0.0);
        assert!(line(0.0).is_nan());
    }

    /// Of many intervals from ten values each, about 95 in 100 contain the true mean. The sum of
    /// twelve uniform numbers is close enough to normal; 10,000 intervals have a standard error of
    /// 0.22 %.
    #[test]
    fn an_interval_holds_the_mean_nineteen_times_in_twenty() {
        let mut stream = Streams::new(1).stream("estimate");
        let mut value = || (0..12).map(|_| stream.unit()).sum::<f64>();
        let hits = (0..10_000).filter(|_| {
            let values: Vec<f64> = (0..10).map(|_| value()).collect();
            let Estimate { mean, margin } = Estimate::of(&values).unwrap();
            (mean - 6.0).abs() <= margin.unwrap()
        });
        let hits = hits.count();
        assert!((9_400..=9_600).contains(&hits), "{hits}");
    }
}
