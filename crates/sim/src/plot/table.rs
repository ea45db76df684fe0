//! Text tables with aligned columns, and numbers with fixed decimals.

use core::fmt::{self, Display};
use core::num::NonZeroU64;

use freeboard::sched_core::Nanos;

/// A column: its header and its alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Left-aligned, for text.
    Left(&'static str),
    /// Right-aligned, for numbers with equal decimals.
    Right(&'static str),
}

/// Returns the cell of a row in one column.
pub type CellOf<'a, R> = &'a dyn Fn(&R) -> String;

/// A table of `N` columns.
///
/// ```
/// use sim::plot::{
///     Column::{Left, Right},
///     TextTable,
/// };
/// let mut table = TextTable::new([Left("queue"), Right("p99 ms")]);
/// table.row([&"fifo", &"431.20"]);
/// table.row([&"sqf", &"9.75"]);
/// assert_eq!(
///     table.to_string(),
///     "\
/// queue  p99 ms
/// -----  ------
/// fifo   431.20
/// sqf      9.75
/// "
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTable<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    /// Creates a table without rows.
    #[must_use]
    pub const fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [&dyn Display; N]) {
        self.rows.push(cells.map(ToString::to_string));
    }

    /// Creates a table with a row for each of `rows`: a column is its header and its cell of a row.
    ///
    /// ```
    /// use sim::plot::{
    ///     Column::{Left, Right},
    ///     TextTable,
    /// };
    /// let table = TextTable::of(
    ///     &[3, 12],
    ///     [(Left("n"), &|n| n.to_string()), (Right("square"), &|n| (n * n).to_string())],
    /// );
    /// assert_eq!(table.to_string(), "n   square\n--  ------\n3        9\n12     144\n");
    /// ```
    #[must_use]
    pub fn of<R>(rows: &[R], columns: [(Column, CellOf<'_, R>); N]) -> Self {
        let rows = rows.iter().map(|row| columns.map(|(_, cell)| cell(row))).collect();
        Self { columns: columns.map(|(column, _)| column), rows }
    }

    /// Returns the headings of the columns.
    #[must_use]
    pub fn headings(&self) -> [&'static str; N] {
        self.columns.map(Column::heading)
    }

    /// Returns the cells of all rows.
    #[must_use]
    pub fn rows(&self) -> &[[String; N]] {
        &self.rows
    }

    /// Returns the number of rows below the header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Column {
    const fn heading(self) -> &'static str {
        match self {
            Self::Left(heading) | Self::Right(heading) => heading,
        }
    }
}

impl<const N: usize> Display for TextTable<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = self.columns.map(|column| matches!(column, Column::Right(_)));
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.to_vec()).collect();
        f.write_str(&aligned(&self.headings(), &right, &rows))
    }
}

/// Formats a table whose number of columns is known at run time only. `right` are the columns that
/// are right-aligned.
#[must_use]
pub fn aligned(headings: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line =
        |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).zip(right);
            let padded = cells.map(|((cell, &width), &right)| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
        };
    let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut text = line(&mut headings.iter().copied());
    text += &line(&mut rules.iter().map(String::as_str));
    rows.iter().for_each(|row| text += &line(&mut row.iter().map(String::as_str)));
    text
}

/// Formats `value / unit` with `decimals` digits after the point, rounded half up, in integers
/// only. More than 18 decimals count as 18.
#[must_use]
pub fn decimal(value: u64, unit: NonZeroU64, decimals: u32) -> String {
    let scale = 10_u128.pow(decimals.min(18));
    let unit = u128::from(unit.get());
    let scaled = (u128::from(value) * scale + unit / 2) / unit;
    match decimals.min(18) as usize {
        0 => scaled.to_string(),
        digits => format!("{}.{:0digits$}", scaled / scale, scaled % scale),
    }
}

/// Formats a time in milliseconds with two decimals; `–` for `None`.
#[must_use]
pub fn millis(time: Option<Nanos>) -> String {
    const MILLISECOND: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
    time.map_or_else(|| "–".to_owned(), |time| decimal(time.0, MILLISECOND, 2))
}

/// Formats a float with fixed decimals; `–` if it is not finite. Zero has no sign.
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    // Rust prints the exact value of the float, rounded half to even once, on every platform.
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.chars().all(|c| matches!(c, '0' | '.')) => digits.to_owned(),
        _ => text,
    }
}

/// Formats a ratio as a percentage with fixed decimals and without the sign, for a column named
/// `%`.
#[must_use]
pub fn percent(ratio: f64, decimals: usize) -> String {
    fixed(ratio * 100.0, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            TextTable::new([Column::Left("queue"), Column::Right("loss %"), Column::Left("note")]);
        table.row([&"drr", &percent(0.5, 1), &""]);
        table.row([&"a longer name", &"–", &"≥ 3 µs"]);
        let expected = "\
queue          loss %  note
-------------  ------  ------
drr              50.0
a longer name       –  ≥ 3 µs
";
        assert_eq!(table.to_string(), expected);
        assert_eq!((table.len(), table.is_empty()), (2, false));
    }

    #[test]
    fn decimals_are_rounded_half_up_in_integers() {
        let unit = |unit| NonZeroU64::new(unit).unwrap();
        assert_eq!(decimal(1_999, unit(1_000), 2), "2.00");
        assert_eq!(decimal(1_994, unit(1_000), 2), "1.99");
        assert_eq!(decimal(5, unit(1_000), 2), "0.01");
        assert_eq!(decimal(4, unit(1_000), 2), "0.00");
        assert_eq!(decimal(2, unit(3), 0), "1");
        assert_eq!(decimal(u64::MAX, unit(1), 18).len(), 20 + 1 + 18);
        assert_eq!(millis(Some(Nanos(12_345_678))), "12.35");
        assert_eq!(millis(None), "–");
    }

    #[test]
    fn floats_have_no_negative_zero_and_no_nan() {
        let cells = [0.0, -0.0, -0.004, -0.006, 2.5, f64::NAN, f64::INFINITY];
        let text = cells.map(|value| fixed(value, 2));
        assert_eq!(text, ["0.00", "0.00", "0.00", "-0.01", "2.50", "–", "–"]);
    }
}
