//! Means over independent runs and their confidence intervals.

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

/// Returns the arithmetic mean; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
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
