//! *Shortest queue first* for audio and video: Figs. 3, 4 and 6 to 8, rule (3) and Table I.
//!
//! - [`theory`]: Figs. 3 and 4 by formula and by simulation of the queue, and rule (3)
//! - [`testbed`]: Fig. 6, Fig. 7 and Table I
//! - [`peak`]: the peak rate from which on SQF fails the video
//! - [`jitter`]: Fig. 8

pub mod formulas;
pub mod jitter;
mod overtaking;
pub mod peak;
pub mod saturated;
pub mod scenario;
pub mod testbed;
pub mod theory;

use super::harness::Row;
use crate::measure::estimate::mean;

impl<C, R> Row<C, R> {
    /// Returns the mean of a quantity over all runs.
    fn mean(&self, value: impl Fn(&R) -> f64) -> f64 {
        mean(&self.runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }

    /// Returns the maximum of a quantity over all runs.
    fn most(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the minimum of a quantity over all runs.
    fn least(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::INFINITY, f64::min)
    }
}
