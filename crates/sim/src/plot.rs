//! A table as text, for the diff; a chart as SVG, for the eye.
//!
//! Both are a function of their input to the byte: numbers have fixed decimals, floats meet only
//! the basic operations and `libm`, and nothing depends on a locale, a font or the time of day.

mod axis;
mod chart;
mod table;

pub use chart::{Chart, Mark};
pub use table::{Column, TextTable, decimal, fixed, millis, percent};
