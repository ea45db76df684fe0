//! Charts as SVG: lines, steps and dots over two axes.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use super::axis::{Axis, Scale};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 500.0;
/// Space left of the plot for tick labels and the axis label, and right of it for half a label.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 28.0;
const BOTTOM: f64 = 58.0;
/// Position of the first row of the legend, and the distance between rows.
const LEGEND: f64 = 80.0;
const ROW: f64 = 20.0;
/// Mean width of a sans-serif character at size 1, estimated generously.
const CHARACTER: f64 = 0.58;

/// Colours of Okabe and Ito, distinguishable with any common colour vision. Yellow is omitted
/// because it is barely visible on white.
const COLOURS: [&str; 7] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];
const GUIDE: &str = "#555555";

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Points joined by straight lines.
    Line,
    /// Steps: each value holds until the next point, as for a backlog or a rate.
    Step,
    /// Separate points, for example one per packet.
    Dots,
}

/// A chart under construction: labels first, then one or more series.
///
/// A point that is not finite (or, on a log axis, not above zero) is omitted and interrupts the
/// line. Long series are thinned and keep their shape: of the points in one pixel column the first,
/// lowest, highest and last remain.
///
/// ```
/// use sim::plot::{Chart, Mark};
/// let svg = Chart::new("Delay of a call")
///     .x("time (s)")
///     .y("delay (ms)")
///     .series("fifo", Mark::Line, [(0.0, 20.0), (1.0, 250.0), (2.0, 410.0)])
///     .to_svg();
/// assert!(svg.starts_with("<svg") && svg.contains("Delay of a call"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    subtitle: String,
    x_label: String,
    y_label: String,
    x_scale: Scale,
    y_scale: Scale,
    series: Vec<Series>,
    guides: Vec<(f64, String)>,
    height: f64,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    mark: Mark,
    points: Vec<(f64, f64)>,
}

impl From<Chart> for Vec<Chart> {
    fn from(chart: Chart) -> Self {
        vec![chart]
    }
}

impl Chart {
    /// Creates a chart with this title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            series: Vec::new(),
            guides: Vec::new(),
            height: HEIGHT,
        }
    }

    /// Returns the title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns all points with the names of their series, in order of addition.
    pub fn points(&self) -> impl Iterator<Item = (&str, (f64, f64))> {
        self.series.iter().flat_map(|series| {
            series.points.iter().map(move |&point| (series.name.as_str(), point))
        })
    }

    /// Sets the height of the picture, for a panel of several; 500 by default, at least 250.
    #[must_use]
    pub fn height(mut self, height: u32) -> Self {
        self.height = f64::from(height.max(250));
        self
    }

    /// Sets a second, smaller line, for the scenario or the seed.
    #[must_use]
    pub fn subtitle(mut self, text: &str) -> Self {
        text.clone_into(&mut self.subtitle);
        self
    }

    /// Sets the label of the horizontal axis, with its unit.
    #[must_use]
    pub fn x(mut self, label: &str) -> Self {
        label.clone_into(&mut self.x_label);
        self
    }

    /// Sets the label of the vertical axis, with its unit.
    #[must_use]
    pub fn y(mut self, label: &str) -> Self {
        label.clone_into(&mut self.y_label);
        self
    }

    /// Makes the horizontal axis logarithmic.
    #[must_use]
    pub const fn log_x(mut self) -> Self {
        self.x_scale = Scale::Log;
        self
    }

    /// Makes the vertical axis logarithmic.
    #[must_use]
    pub const fn log_y(mut self) -> Self {
        self.y_scale = Scale::Log;
        self
    }

    /// Adds a series. Colours follow the order of addition and repeat after seven.
    #[must_use]
    pub fn series(
        mut self,
        name: &str,
        mark: Mark,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.to_owned(), mark, points });
        self
    }

    /// Adds a dashed horizontal line at `y`, named in the legend, for a bound or a threshold.
    #[must_use]
    pub fn guide(mut self, y: f64, name: &str) -> Self {
        self.guides.push((y, name.to_owned()));
        self
    }

    /// Draws several charts below one another in one picture.
    #[must_use]
    pub fn stacked(charts: &[Self]) -> String {
        let height: f64 = charts.iter().map(|chart| chart.height).sum();
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">"#
        );
        svg.push('\n');
        let mut top = 0.0;
        for chart in charts {
            let _ = writeln!(svg, r#"<g transform="translate(0 {top})">"#);
            svg.push_str(&chart.to_svg());
            svg.push_str("</g>\n");
            top += chart.height;
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws the chart, 900 wide and 500 high or [the height set](Chart::height), on white.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let ys = points().map(|point| point.1).chain(self.guides.iter().map(|guide| guide.0));
        // A linear axis starts at zero so that lengths can be compared; a log axis has no zero.
        let floor = (self.y_scale == Scale::Linear).then_some(0.0);
        let (legend, rows) = self.legend();
        let plot = Plot {
            x: Axis::over(self.x_scale, points().map(|point| point.0), 10),
            y: Axis::over(self.y_scale, ys.chain(floor), 6),
            top: LEGEND + ROW * rows,
            floor: self.height - BOTTOM,
        };
        let mut svg = String::new();
        self.frame(&mut svg);
        svg.push_str(&legend);
        plot.grid(&mut svg);
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            plot.series(&mut svg, series, colour);
        }
        for (y, _) in &self.guides {
            plot.guide(&mut svg, *y);
        }
        if points().all(|&point| plot.place(point).is_none()) {
            let (x, y) = (f64::midpoint(LEFT, WIDTH - RIGHT), f64::midpoint(plot.top, plot.floor));
            text(&mut svg, x, y, "no data", r##"text-anchor="middle" fill="#888""##);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn frame(&self, svg: &mut String) {
        let height = self.height;
        let _ = writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13">"#
        );
        let _ = writeln!(svg, "<title>{}</title>", escape(&self.title));
        let _ = writeln!(svg, r##"<rect width="{WIDTH}" height="{height}" fill="#fff"/>"##);
        text(svg, 24.0, 32.0, &self.title, r##"font-size="18" font-weight="bold" fill="#222""##);
        text(svg, 24.0, 53.0, &self.subtitle, r##"fill="#666""##);
        let (middle, low) = (f64::midpoint(LEFT, WIDTH - RIGHT), height - 14.0);
        text(svg, middle, low, &self.x_label, r##"text-anchor="middle" fill="#444""##);
        let middle = f64::midpoint(LEGEND, height - BOTTOM);
        let turned =
            format!(r##"text-anchor="middle" fill="#444" transform="rotate(-90 20 {middle:.1})""##);
        text(svg, 20.0, middle, &self.y_label, &turned);
    }

    /// Returns the legend in as many rows as needed, and their number.
    fn legend(&self) -> (String, f64) {
        let series = self.series.iter().zip(COLOURS.iter().cycle());
        let series = series.map(|(series, colour)| {
            let dots = series.mark == Mark::Dots;
            let (swatch, width) = if dots { ("m11 0h0", 8.0) } else { ("h22", 3.0) };
            (series.name.as_str(), swatch, *colour, width)
        });
        let dashes = "h5m4 0h5m4 0h4";
        let guides = self.guides.iter().map(|guide| (guide.1.as_str(), dashes, GUIDE, 1.0));
        let (mut svg, mut x, mut row) = (String::new(), 24.0, 0.0);
        for (name, swatch, colour, wide) in series.chain(guides) {
            let width = 30.0 + name.chars().count() as f64 * 13.0 * CHARACTER + 18.0;
            if x > 24.0 && x + width > WIDTH - RIGHT {
                (x, row) = (24.0, row + 1.0);
            }
            let y = LEGEND + row * ROW;
            stroke(&mut svg, &format!("M{x:.1} {:.1}{swatch}", y - 4.5), colour, wide);
            text(&mut svg, x + 30.0, y, name, r##"fill="#222""##);
            x += width;
        }
        (svg, if x > 24.0 { row + 1.0 } else { 0.0 })
    }
}

/// The area between the axes.
struct Plot {
    x: Axis,
    y: Axis,
    top: f64,
    floor: f64,
}

impl Plot {
    fn column(&self, x: f64) -> Option<f64> {
        Some(LEFT + self.x.position(x)? * (WIDTH - RIGHT - LEFT))
    }

    fn height(&self, y: f64) -> Option<f64> {
        Some(self.floor - self.y.position(y)? * (self.floor - self.top))
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.column(x)?, self.height(y)?))
    }

    fn grid(&self, svg: &mut String) {
        let (right, floor, top) = (WIDTH - RIGHT, self.floor, self.top);
        for tick in &self.y.ticks {
            let Some(y) = self.height(tick.value) else { continue };
            let shade = if tick.label.is_empty() { "#f2f2f2" } else { "#e2e2e2" };
            let _ = writeln!(svg, r#"<path d="M{LEFT} {y:.1}H{right}" stroke="{shade}"/>"#);
            let side = r##"text-anchor="end" fill="#444""##;
            text(svg, LEFT - 8.0, y + 4.5, &tick.label, side);
        }
        for tick in &self.x.ticks {
            let Some(x) = self.column(tick.value) else { continue };
            let _ = writeln!(svg, r##"<path d="M{x:.1} {top:.1}V{floor}" stroke="#f2f2f2"/>"##);
            let _ = writeln!(svg, r##"<path d="M{x:.1} {floor}v5" stroke="#888"/>"##);
            let below = r##"text-anchor="middle" fill="#444""##;
            // Keeps a long number at the right end inside the picture.
            let half = tick.label.chars().count() as f64 * 6.5 * CHARACTER;
            text(svg, x.min(WIDTH - half), floor + 20.0, &tick.label, below);
        }
        let _ = writeln!(svg, r##"<path d="M{LEFT} {floor}H{right}" stroke="#888"/>"##);
    }

    fn series(&self, svg: &mut String, series: &Series, colour: &str) {
        let mut path = String::new();
        for run in series.points.split(|&point| self.place(point).is_none()) {
            let placed = run.iter().filter_map(|&point| self.place(point));
            match series.mark {
                Mark::Dots => dots(&mut path, placed),
                Mark::Line => line(&mut path, &thin(placed), false),
                Mark::Step => line(&mut path, &thin(placed), true),
            }
        }
        stroke(svg, &path, colour, if series.mark == Mark::Dots { 4.0 } else { 1.8 });
    }

    fn guide(&self, svg: &mut String, y: f64) {
        let Some(y) = self.height(y) else { return };
        let right = WIDTH - RIGHT;
        let dashes = format!(r#"stroke="{GUIDE}" stroke-dasharray="6 4""#);
        let _ = writeln!(svg, r#"<path d="M{LEFT} {y:.1}H{right}" {dashes}/>"#);
    }
}

/// Returns the first, lowest, highest and last of the points in each pixel column, in order.
fn thin(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let points: Vec<_> = points.collect();
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let by_height = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let extremes = [(0..column.len()).min_by(by_height), (0..column.len()).max_by(by_height)];
        let mut wanted: Vec<usize> = extremes.into_iter().flatten().collect();
        wanted.extend([0, column.len() - 1]);
        wanted.sort_unstable();
        wanted.dedup();
        kept.extend(wanted.into_iter().map(|index| column[index]));
    }
    kept
}

/// A single point is drawn as a dot: a path of zero length still shows its round cap.
fn line(path: &mut String, points: &[(f64, f64)], steps: bool) {
    let Some((&(x, y), rest)) = points.split_first() else { return };
    let _ = write!(path, "M{x:.1} {y:.1}");
    if rest.is_empty() {
        path.push_str("h0");
    }
    for (x, y) in rest {
        let _ = if steps { write!(path, "H{x:.1}V{y:.1}") } else { write!(path, "L{x:.1} {y:.1}") };
    }
}

/// Dots within half a pixel of one another are drawn once.
fn dots(path: &mut String, points: impl Iterator<Item = (f64, f64)>) {
    let places: BTreeSet<(u32, u32)> =
        points.map(|(x, y)| ((x * 2.0).round() as u32, (y * 2.0).round() as u32)).collect();
    for (x, y) in places {
        let _ = write!(path, "M{:.1} {:.1}h0", f64::from(x) / 2.0, f64::from(y) / 2.0);
    }
}

fn stroke(svg: &mut String, path: &str, colour: &str, width: f64) {
    if !path.is_empty() {
        let _ = writeln!(
            svg,
            r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round" stroke-linecap="round"/>"#
        );
    }
}

fn text(svg: &mut String, x: f64, y: f64, words: &str, attributes: &str) {
    if !words.is_empty() {
        let words = escape(words);
        let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{words}</text>"#);
    }
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart::new("t").series("s", Mark::Line, points)
    }

    #[test]
    fn a_point_lies_where_its_axes_say() {
        let svg = chart(vec![(0.0, 0.0), (10.0, 6.0)]).to_svg();
        // From the corner at (LEFT, HEIGHT − BOTTOM) to that at (WIDTH − RIGHT, LEGEND + ROW).
        assert!(svg.contains(r#"d="M78.0 442.0L872.0 100.0""#), "{svg}");
    }

    #[test]
    fn a_point_that_cannot_be_shown_breaks_the_line() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
        let svg = chart(points).to_svg();
        let drawn = svg.lines().find(|line| line.contains('L')).unwrap();
        assert_eq!((drawn.matches('M').count(), drawn.matches('L').count()), (2, 2), "{drawn}");
        assert!(!svg.contains("NaN"));
        let log = chart(vec![(0.0, 0.0), (1.0, 1.0), (2.0, 10.0)]).log_y().to_svg();
        let drawn = log.lines().find(|line| line.contains('L')).unwrap();
        assert!(drawn.contains(r#"d="M475.0 442.0L872.0 100.0""#), "{drawn}");
    }

    #[test]
    fn on_two_log_axes_a_decade_is_as_wide_as_the_next() {
        let svg = chart(vec![(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)]).log_x().log_y().to_svg();
        assert!(svg.contains(r#"d="M78.0 442.0L475.0 271.0L872.0 100.0""#), "{svg}");
    }

    /// Goal: 100,000 packets make a picture of bounded size that still shows the one spike.
    #[test]
    fn a_long_series_keeps_its_extremes() {
        let points = (0..100_000).map(|i| (f64::from(i), if i == 77_777 { 50.0 } else { 1.0 }));
        let placed: Vec<_> = points.clone().collect();
        let thinned = thin(placed.iter().map(|&(x, y)| (78.0 + x / 126.0, y)));
        assert!(thinned.len() <= 4 * 795, "{}", thinned.len());
        assert!(thinned.iter().any(|point| point.1 == 50.0));
        let svg = Chart::new("t").series("s", Mark::Line, points).to_svg();
        assert!(svg.len() < 60_000, "{}", svg.len());
    }

    #[test]
    fn a_column_keeps_its_first_lowest_highest_and_last_point() {
        let column = [5.0, 6.0, 9.0, 4.0, 1.0, 2.0, 3.0];
        let points = column.into_iter().zip(0..).map(|(y, i)| (78.0 + f64::from(i) / 10.0, y));
        let heights: Vec<f64> = thin(points).into_iter().map(|point| point.1).collect();
        assert_eq!(heights, [5.0, 9.0, 1.0, 3.0]);
    }

    #[test]
    fn stacked_charts_stand_below_one_another() {
        let low = chart(vec![(0.0, 0.0), (10.0, 6.0)]).height(300);
        assert!(low.to_svg().contains(r#"d="M78.0 242.0L872.0 100.0""#), "{}", low.to_svg());
        let both = Chart::stacked(&[low.clone(), low]);
        assert!(
            both.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 600""#)
        );
        assert_eq!(both.matches("translate(0 0)").count(), 1);
        assert_eq!(both.matches("translate(0 300)").count(), 1);
    }

    #[test]
    fn names_are_escaped() {
        let svg = Chart::new("a < b & c > d").series("<x>", Mark::Dots, [(1.0, 1.0)]).to_svg();
        assert!(svg.contains("a &lt; b &amp; c &gt; d") && svg.contains(">&lt;x&gt;<"));
    }

    #[test]
    fn an_empty_chart_says_so() {
        assert!(Chart::new("t").to_svg().contains("no data"));
        assert!(chart(vec![(f64::INFINITY, 1.0)]).to_svg().contains("no data"));
        assert!(!chart(vec![(1.0, 1.0)]).to_svg().contains("no data"));
    }

    #[test]
    fn a_long_legend_takes_more_rows_and_leaves_the_plot_below_it() {
        let mut chart = Chart::new("t");
        for _ in 0..8 {
            chart = chart.series(
                "a series with a rather long name",
                Mark::Line,
                [(0.0, 0.0), (1.0, 1.0)],
            );
        }
        // 24 + 2 · (30 + 32 · 7.54 + 18) fits into 872, a third entry does not.
        assert_eq!(chart.legend().1, 4.0);
        assert!(chart.to_svg().contains(&format!("L872.0 {:.1}", LEGEND + 4.0 * ROW)));
    }
}
