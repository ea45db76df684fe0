//! Figures of a load, and their comparison with those of another system.

use crate::plot::{fixed, percent};

/// Maximum relative difference of goodputs that are near each other.
pub const GOODPUT: f64 = 0.03;
/// Maximum difference of median delays that are near each other: relative, or else in milliseconds.
pub const DELAY: f64 = 0.3;
/// See [`DELAY`].
pub const DELAY_MILLIS: f64 = 1.0;

/// Median, 95th and 99th percentile in milliseconds.
pub type Quantiles = [f64; 3];

/// Figures of one direction, as far as there is such traffic or, for another system, as far as they
/// are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Goodput of all connections, in Mbit/s.
    pub goodput: Option<f64>,
    /// Queueing delay of the probe, or of the video if there is one.
    pub added: Option<Quantiles>,
    /// Loss of its packets, in percent.
    pub loss: Option<f64>,
}

impl Figures {
    /// No figures.
    pub const NONE: Self = Self { goodput: None, added: None, loss: None };

    /// Creates figures of connections beside a probe whose loss is not known.
    #[must_use]
    pub const fn of(goodput: f64, added: Quantiles) -> Self {
        Self { goodput: Some(goodput), added: Some(added), loss: None }
    }

    /// Creates figures of a probe whose loss and connections are not known.
    #[must_use]
    pub const fn added(added: Quantiles) -> Self {
        Self { goodput: None, added: Some(added), loss: None }
    }

    /// Adds the loss in percent.
    #[must_use]
    pub const fn lost(self, loss: f64) -> Self {
        Self { loss: Some(loss), ..self }
    }

    /// Returns goodput, quantiles and loss for a table.
    #[must_use]
    pub fn cells(&self) -> [String; 5] {
        let cell =
            |value: Option<f64>, decimals| value.map_or(String::new(), |v| fixed(v, decimals));
        let added = |at: usize| cell(self.added.map(|added| added[at]), 2);
        [cell(self.goodput, 3), added(0), added(1), added(2), cell(self.loss, 2)]
    }

    /// Returns true if goodput and median delay are close to those of Linux, or Linux's are
    /// unknown.
    #[must_use]
    pub fn is_near(&self, linux: &Self) -> bool {
        let goodput = self.goodput.zip(linux.goodput);
        let median = self.added.zip(linux.added);
        goodput.is_none_or(|(found, linux)| (found - linux).abs() <= GOODPUT * linux)
            && median.is_none_or(|([found, ..], [linux, ..])| {
                (found - linux).abs() <= (DELAY * linux).max(DELAY_MILLIS)
            })
    }

    /// Describes how goodput and median delay differ from those of Linux.
    #[must_use]
    pub fn differences(&self, linux: &Self) -> String {
        let goodput = self.goodput.zip(linux.goodput);
        let goodput = goodput.map(|(found, linux)| difference("goodput", found, linux));
        let median = self.added.zip(linux.added);
        let median = median.map(|(found, linux)| difference("median", found[0], linux[0]));
        goodput.into_iter().chain(median).collect::<Vec<_>>().join(", ")
    }
}

fn difference(of: &str, found: f64, linux: f64) -> String {
    let part = (found - linux) / linux;
    let sign = if part < 0.0 { "" } else { "+" };
    format!("{of} {sign}{} %", percent(part, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_near_by_goodput_and_by_median() {
        let linux = Figures::of(10.0, [10.0, 20.0, 30.0]);
        assert!(Figures::of(10.29, [12.9, 99.0, 99.0]).is_near(&linux));
        assert!(Figures::of(9.71, [7.1, 0.0, 0.0]).is_near(&linux));
        assert!(!Figures::of(10.31, [10.0, 20.0, 30.0]).is_near(&linux));
        assert!(!Figures::of(9.69, [10.0, 20.0, 30.0]).is_near(&linux));
        assert!(!Figures::of(10.0, [13.1, 20.0, 30.0]).is_near(&linux));
        assert!(!Figures::of(10.0, [6.9, 20.0, 30.0]).is_near(&linux));
        let short = Figures::added([1.0, 2.0, 3.0]);
        assert!(Figures::of(5.0, [1.9, 2.0, 3.0]).is_near(&short), "within a millisecond");
        assert!(!Figures::of(5.0, [2.1, 2.0, 3.0]).is_near(&short));
        assert!(Figures::NONE.is_near(&linux) && linux.is_near(&Figures::NONE));
    }
}
