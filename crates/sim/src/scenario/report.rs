//! The report of a sweep: a table with confidence intervals, a chart, and the data.

use std::collections::{BTreeMap, BTreeSet};

use super::Sweep;
use super::run::{self, Metric, Run};
use crate::experiments::{Check, Report, Row, Study, Table};
use crate::measure::estimate::Estimate;
use crate::plot::{Chart, Mark, aligned, fixed};

impl Study for Sweep {
    /// Index of the cell.
    type Cell = usize;
    type Run = Run;

    fn cells(&self) -> Vec<usize> {
        (0..self.all().len()).collect()
    }

    fn run(&self, &cell: &usize, seed: u64) -> Run {
        run::run(&self.all()[cell].scenario, self.queues(), seed)
    }

    fn report(&self, rows: &[Row<usize, Run>], seeds: u32) -> Report {
        let groups = Group::all(rows);
        let heading = format!(
            "{}\n{} cells, {seeds} seeds; mean ± 95 % confidence interval of the mean\n\n",
            self.title(),
            rows.len()
        );
        let report = Report::new(heading)
            .with_text(&self.table(&groups))
            .data(self.data(&groups))
            .checks([Check::accounted_for(
                "runs",
                rows.iter().flat_map(|row| &row.runs).map(|run| run.balanced),
            )]);
        match self.charts(&groups) {
            charts if charts.is_empty() => report,
            charts => report.picture(&self.name(), charts),
        }
    }
}

/// Measurements of one kind of traffic in one cell.
struct Group<'a> {
    cell: usize,
    traffic: &'a str,
    /// A value of each metric for each seed in which there is one.
    metrics: BTreeMap<Metric, Vec<f64>>,
}

impl<'a> Group<'a> {
    /// Returns all groups, in order of the cells and of the traffic in the file.
    fn all(rows: &'a [Row<usize, Run>]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in rows {
            let first = all.len();
            for measured in row.runs.iter().flat_map(|run| &run.traffic) {
                let traffic = measured.name.as_str();
                let group = match all[first..].iter().position(|known| known.traffic == traffic) {
                    Some(known) => &mut all[first + known],
                    None => {
                        all.push_mut(Group { cell: row.cell, traffic, metrics: BTreeMap::new() })
                    }
                };
                for &(metric, value) in &measured.metrics {
                    group.metrics.entry(metric).or_default().push(value);
                }
            }
        }
        all
    }

    fn estimate(&self, metric: Metric) -> Option<Estimate> {
        Estimate::of(self.metrics.get(&metric)?)
    }
}

impl Sweep {
    /// Returns the names of the swept keys.
    fn keys(&self) -> Vec<&str> {
        let first = self.all().first();
        first.map_or_else(Vec::new, |cell| cell.keys.iter().map(|(key, _)| key.as_str()).collect())
    }

    /// Returns the values of the swept keys in a cell.
    fn key_values(&self, cell: usize) -> Vec<String> {
        self.all()[cell].keys.iter().map(|(_, value)| value.clone()).collect()
    }

    /// A row for each kind of traffic in each cell, and a column for each metric that one has.
    fn table(&self, groups: &[Group<'_>]) -> String {
        let metrics: BTreeSet<Metric> =
            groups.iter().flat_map(|of| of.metrics.keys()).copied().collect();
        let mut headings = self.keys();
        headings.push("traffic");
        let texts = headings.len();
        headings.extend(metrics.iter().map(|metric| metric.heading()));
        let right: Vec<bool> = (0..headings.len()).map(|column| column >= texts).collect();
        let row = |of: &Group<'_>| {
            let mut cells = self.key_values(of.cell);
            cells.push(of.traffic.to_owned());
            let value = |&metric: &Metric| of.estimate(metric).map(|found| shown(&found, metric));
            cells.extend(metrics.iter().map(|metric| value(metric).unwrap_or_default()));
            cells
        };
        aligned(&headings, &right, &groups.iter().map(row).collect::<Vec<_>>())
    }

    /// A row for each metric of each kind of traffic in each cell: tidy data.
    fn data(&self, groups: &[Group<'_>]) -> Table {
        let keys = self.keys().into_iter().map(str::to_owned);
        let own = ["traffic", "metric", "mean", "margin_95", "least", "most", "seeds"];
        let headings = keys.chain(own.map(str::to_owned)).collect();
        let row = |of: &Group<'_>, metric: Metric, values: &[f64]| {
            let Estimate { mean, margin } = Estimate::of(values).expect("a group has its values");
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut cells = self.key_values(of.cell);
            cells.extend([of.traffic.to_owned(), metric.name().to_owned(), mean.to_string()]);
            cells.push(margin.map_or_else(String::new, |margin| margin.to_string()));
            cells.extend([least.to_string(), most.to_string(), values.len().to_string()]);
            cells
        };
        let rows = groups
            .iter()
            .flat_map(|of| of.metrics.iter().map(move |(&metric, values)| row(of, metric, values)));
        Table { name: "results".to_owned(), headings, rows: rows.collect() }
    }

    /// Goodput and the 95th percentile of delays over the first swept key that is a number, a line
    /// for each kind of traffic and each value of the other keys.
    fn charts(&self, groups: &[Group<'_>]) -> Vec<Chart> {
        let numeric =
            |&column: &usize| self.all().iter().all(|cell| number(&cell.keys[column].1).is_some());
        let Some(axis) = (0..self.keys().len()).find(numeric) else { return Vec::new() };
        let panel = |metric: Metric, title: &str| {
            let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
            for of in groups {
                let Some(estimate) = of.estimate(metric) else { continue };
                let keys = &self.all()[of.cell].keys;
                let others = keys.iter().enumerate().filter(|&(column, _)| column != axis);
                let others: Vec<&str> = others.map(|(_, (_, value))| value.as_str()).collect();
                let name = [vec![of.traffic], others].concat().join(", ");
                let point = (number(&keys[axis].1).expect("a number"), estimate.mean);
                match lines.iter_mut().find(|line| line.0 == name) {
                    Some(line) => line.1.push(point),
                    None => lines.push((name, vec![point])),
                }
            }
            let chart = Chart::new(title).x(self.keys()[axis]).y(metric.heading()).height(320);
            let chart = lines.into_iter().fold(chart, |chart, (name, mut points)| {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                chart.series(&name, Mark::Line, points)
            });
            let is_empty = chart.points().next().is_none();
            (!is_empty).then_some(chart)
        };
        [
            panel(Metric::Goodput, "Goodput"),
            panel(Metric::Delay95, "Delay, 95th percentile"),
            panel(Metric::Time95, "Time of pages and transfers, 95th percentile"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Returns a value of a key as a number: a number, a rate in bits per second or a time in
/// milliseconds.
fn number(value: &str) -> Option<f64> {
    use freeboard::sched_core::Nanos;
    value
        .parse::<f64>()
        .ok()
        .or_else(|| value.parse::<Nanos>().ok().map(|time| time.0 as f64 / 1e6))
        .or_else(|| {
            let rate = crate::notation::rate(value).ok()?;
            Some(rate.as_bits_per_second()? as f64)
        })
}

fn shown(estimate: &Estimate, metric: Metric) -> String {
    let decimals = metric.decimals();
    let mean = fixed(estimate.mean, decimals);
    match estimate.margin {
        Some(margin) => format!("{mean} ± {}", fixed(margin, decimals)),
        None => mean,
    }
}
