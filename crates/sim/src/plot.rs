//! Tables as text and charts as SVG.
//!
//! Both are a function of their input to the byte: numbers have fixed decimals, floats are used
//! only with basic operations and `libm`, and nothing depends on locale, fonts or the time of day.

mod axis;
mod chart;
mod table;

pub use chart::{Chart, Mark};
pub use table::{CellOf, Column, TextTable, aligned, decimal, fixed, millis, percent};
