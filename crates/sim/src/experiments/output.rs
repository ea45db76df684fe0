//! Files of a report: charts as SVG, and the data of tables and charts as CSV and JSON lines.
//!
//! CSV follows RFC 4180 with line ends of LF. Each JSON line is an object; cells of tables that are
//! numbers become numbers, an empty cell or `–` becomes null.

use core::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Picture, Report, Table};

/// Returns names and contents of the files of a report: `name-table.csv`, `name-table.jsonl`, and
/// for each picture `.svg`, `.csv` and `.jsonl`.
#[must_use]
pub fn files(name: &str, report: &Report) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for table in report.tables() {
        let file = format!("{name}-{}", table.name);
        files.push((format!("{file}.csv"), csv(&table.headings, table.rows.iter().cloned())));
        files.push((format!("{file}.jsonl"), json_lines(table)));
    }
    for picture in report.pictures() {
        let points = points(picture);
        files.push((format!("{}.svg", picture.name), picture.to_svg()));
        files.push((
            format!("{}.csv", picture.name),
            csv(&points.headings, points.rows.iter().cloned()),
        ));
        files.push((format!("{}.jsonl", picture.name), json_lines(&points)));
    }
    files
}

/// Returns the points of all series of a picture as a table.
fn points(picture: &Picture) -> Table {
    let headings = ["chart", "series", "x", "y"].map(str::to_owned).to_vec();
    let rows = picture.charts.iter().flat_map(|chart| {
        chart.points().map(|(series, (x, y))| {
            vec![chart.title().to_owned(), series.to_owned(), x.to_string(), y.to_string()]
        })
    });
    Table { name: picture.name.clone(), headings, rows: rows.collect() }
}

/// Formats CSV: a field with a comma, a quote or a line end is quoted.
fn csv(headings: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    for row in core::iter::once(headings.to_vec()).chain(rows) {
        let fields: Vec<String> = row.iter().map(|field| quoted(field)).collect();
        let _always_ok = writeln!(text, "{}", fields.join(","));
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn json_lines(table: &Table) -> String {
    let mut text = String::new();
    for row in &table.rows {
        let cells = table.headings.iter().zip(row);
        let object: Map<String, Value> =
            cells.map(|(heading, cell)| (heading.clone(), value(cell))).collect();
        let _always_ok = writeln!(text, "{}", Value::Object(object));
    }
    text
}

fn value(cell: &str) -> Value {
    if matches!(cell, "" | "–" | "NaN") {
        return Value::Null;
    }
    // The text of a number stays as it is: "2.50" is 2.50.
    match serde_json::from_str(cell) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::String(cell.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Chart, Column, Mark, TextTable};

    #[test]
    fn tables_and_charts_become_files() {
        let mut table = TextTable::new([Column::Left("queue"), Column::Right("p99, ms")]);
        table.row([&"fifo, \"long\"", &"431.20"]);
        table.row([&"sqf", &"–"]);
        let chart = Chart::new("delay").series("sqf", Mark::Line, [(0.0, 1.5), (1.0, f64::NAN)]);
        let report = Report::new("text\n").table("delays", &table).picture("fig", chart);
        let files = files("demo", &report);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["demo-delays.csv", "demo-delays.jsonl", "fig.svg", "fig.csv", "fig.jsonl"];
        assert_eq!(names, expected);
        let csv = "queue,\"p99, ms\"\n\"fifo, \"\"long\"\"\",431.20\nsqf,–\n";
        assert_eq!(files[0].1, csv);
        let json = "{\"p99, ms\":431.2,\"queue\":\"fifo, \\\"long\\\"\"}\n{\"p99, ms\":null,\"queue\":\"sqf\"}\n";
        assert_eq!(files[1].1, json);
        assert_eq!(files[3].1, "chart,series,x,y\ndelay,sqf,0,1.5\ndelay,sqf,1,NaN\n");
        let point = "{\"chart\":\"delay\",\"series\":\"sqf\",\"x\":0,\"y\":1.5}\n";
        assert!(files[4].1.starts_with(point), "{}", files[4].1);
    }
}
