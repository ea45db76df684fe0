//! Axes with round numbers at both ends, and their tick labels.

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Equal ratios are equally far apart. Values of zero and below cannot be shown.
    Log,
}

/// An axis over `low..=high`, with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Empty for a grid line between the labelled ones.
    pub(super) label: String,
}

impl Axis {
    /// Creates the axis for these values, with about `wanted` labelled ticks. The ends are round
    /// numbers at or beyond the outermost values; without values it is 0..1 (or 1..10).
    pub(super) fn over(scale: Scale, values: impl Iterator<Item = f64>, wanted: u32) -> Self {
        let shown = values.filter(|&value| scale.shows(value));
        let range = shown.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        match (scale, range) {
            (Scale::Linear, None) => Self::linear(0.0, 1.0, wanted),
            (Scale::Linear, Some((low, high))) if low == high => {
                let margin = if low == 0.0 { 1.0 } else { low.abs() };
                Self::linear(low, low + margin, wanted)
            }
            (Scale::Linear, Some((low, high))) => Self::linear(low, high, wanted),
            (Scale::Log, None) => Self::log(1.0, 10.0),
            (Scale::Log, Some((low, high))) => Self::log(low, high),
        }
    }

    fn linear(low: f64, high: f64, wanted: u32) -> Self {
        // Halved before subtracting: the difference of the two ends of f64 would overflow.
        let ideal = (high / 2.0 - low / 2.0) / f64::from(wanted.max(1)) * 2.0;
        let power = power_of_ten_at_most(ideal);
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|&step| step >= ideal)
            .unwrap_or(ideal);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let decimals = decimals_of(step);
        let ticks = (0..=(last - first) as u32)
            .map(|index| (first + f64::from(index)) * step)
            .map(|value| Tick { value, label: group(&super::fixed(value, decimals)) })
            .collect();
        Self { scale: Scale::Linear, low: first * step, high: last * step, ticks }
    }

    /// Whole decades; with one or two of them, 2 and 5 are labelled as well.
    fn log(low: f64, high: f64) -> Self {
        let low = power_of_ten_at_most(low);
        let mut ticks = Vec::new();
        let (mut power, mut decades) = (low, 0);
        while power < high || decades == 0 {
            ticks.extend((1..10).map(|factor| f64::from(factor) * power));
            power *= 10.0;
            decades += 1;
        }
        ticks.push(power);
        let labelled: &[usize] = if decades <= 2 { &[0, 1, 4] } else { &[0] };
        let ticks = ticks.into_iter().enumerate().map(|(index, value)| {
            let text = || group(&super::fixed(value, decimals_of(value)));
            let label = if labelled.contains(&(index % 9)) { text() } else { String::new() };
            Tick { value, label }
        });
        Self { scale: Scale::Log, low, high: power, ticks: ticks.collect() }
    }

    /// Returns the position of `value` along the axis, 0 at the low end and 1 at the high end;
    /// `None` for values that the scale cannot show.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => libm::log10(value),
        };
        let (low, high) = (place(self.low), place(self.high));
        self.scale.shows(value).then(|| (place(value) - low) / (high - low))
    }
}

impl Scale {
    /// Nothing measured here exceeds 10^±12, and tick labels would be unreadable.
    fn shows(self, value: f64) -> bool {
        match self {
            Self::Linear => value.abs() <= 1e12,
            Self::Log => (1e-12..=1e12).contains(&value),
        }
    }
}

/// Returns the largest power of ten that is at most `value`, for a `value` above 0.
///
/// Repeated multiplication, at most 25 times for values that [`Scale::shows`]: a logarithm is
/// inexact at the powers themselves, where it matters. Below 1 it divides 1 by an exact power, so
/// that 0.001 is the float of that literal.
fn power_of_ten_at_most(value: f64) -> f64 {
    let mut power = 1.0;
    if value >= 1.0 {
        while power * 10.0 <= value {
            power *= 10.0;
        }
        return power;
    }
    // A step below 10^-24 is invisible at any picture's resolution.
    while 1.0 / power > value && power < 1e24 {
        power *= 10.0;
    }
    1.0 / power
}

/// Returns the number of decimals that distinguish multiples of `step`.
fn decimals_of(step: f64) -> usize {
    let (mut decimals, mut unit) = (0, 1.0);
    // A tolerance of a thousandth: 0.3 may be slightly below 0.3.
    while unit > step * 1.001 && decimals < 12 {
        unit /= 10.0;
        decimals += 1;
    }
    decimals
}

/// Inserts commas between groups of three digits, from 10,000 up.
fn group(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.trim_start_matches('-');
    if digits.len() < 5 {
        return number.to_owned();
    }
    let mut grouped = whole[..whole.len() - digits.len()].to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64], wanted: u32) -> Vec<String> {
        let axis = Axis::over(scale, values.iter().copied(), wanted);
        axis.ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_that_enclose_the_values() {
        assert_eq!(
            labels(Scale::Linear, &[0.0, 60.0], 8),
            ["0", "10", "20", "30", "40", "50", "60"]
        );
        assert_eq!(labels(Scale::Linear, &[3.0, 71.0], 4), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(Scale::Linear, &[0.0, 0.3], 3), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(Scale::Linear, &[-1.0, 1.0], 2), ["-1", "0", "1"]);
        assert_eq!(labels(Scale::Linear, &[0.0, 20_000.0], 2), ["0", "10,000", "20,000"]);
        assert_eq!(labels(Scale::Linear, &[7.0, 7.0], 2), ["5", "10", "15"]);
    }

    #[test]
    fn a_log_axis_has_whole_decades() {
        assert_eq!(
            labels(Scale::Log, &[0.02, 300.0], 5),
            ["0.01", "0.1", "1", "10", "100", "1000"]
        );
        assert_eq!(labels(Scale::Log, &[3.0, 9.0], 5), ["1", "2", "5", "10"]);
        assert_eq!(labels(Scale::Log, &[10.0, 10.0], 5), ["10", "20", "50", "100"]);
    }

    #[test]
    fn values_the_scale_cannot_show_have_no_position() {
        let axis = Axis::over(Scale::Log, [0.0, -3.0, 1.0, 100.0, f64::NAN].into_iter(), 5);
        assert_eq!([0.0, -3.0, f64::NAN].map(|v| axis.position(v)), [None; 3]);
        assert_eq!([1.0, 10.0, 100.0].map(|v| axis.position(v)), [Some(0.0), Some(0.5), Some(1.0)]);
    }

    /// For any values there are few ticks and every value lies between the ends.
    #[test]
    fn any_values_have_an_axis() {
        let mut stream = conformance::rng::Streams::new(1).stream("axis");
        for _ in 0..10_000 {
            let mut value = || f64::from_bits(stream.bits());
            let values = [value(), value()];
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::over(scale, values.into_iter(), 6);
                assert!((2..=1_000).contains(&axis.ticks.len()), "{values:?}");
                for value in values.into_iter().filter(|&value| scale.shows(value)) {
                    let position = axis.position(value).unwrap();
                    assert!((-1e-9..=1.0 + 1e-9).contains(&position), "{values:?}: {position}");
                }
            }
        }
    }
}
