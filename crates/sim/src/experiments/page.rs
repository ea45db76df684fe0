//! A report of experiments as one page: paper, expectation and measurement side by side. In HTML
//! with each experiment's text and charts, without further files; in Markdown the table alone.

use core::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped};

use super::papers::{self, PAPERS, Source};
use super::{Report, Verdict};

/// A part of the page: the report of an experiment.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name of the experiment.
    pub name: String,
    /// Description in one line.
    pub about: String,
    /// Its report.
    pub report: Report,
}

impl Section {
    /// Returns the items of the papers that it reproduces, or its name.
    fn items(&self) -> String {
        let items = papers::items_of(&self.name).join(", ");
        if items.is_empty() { self.name.clone() } else { items }
    }
}

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 0 auto; padding: 1rem 2rem 4rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
th { background: #f3f3f3; position: sticky; top: 0; } td:first-child { white-space: nowrap; }
pre { background: #f7f7f7; padding: .8rem; overflow-x: auto; font-size: 13px; line-height: 1.35; }
svg { max-width: 100%; height: auto; }
.passes { color: #00664a; } .differs { color: #8a5200; } .fails { color: #a8001c; font-weight: bold; }
";

/// Returns the page in HTML.
#[must_use]
pub fn html(sections: &[Section]) -> String {
    let checks = || sections.iter().flat_map(|section| section.report.results());
    let count = |verdict| checks().filter(|check| check.verdict() == verdict).count();
    let page = maud::html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Reproduced results" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Reproduced results" }
                p {
                    (checks().count()) " checks: "
                    span.passes { (count(Verdict::Passes)) " pass" } ", "
                    span.differs { (count(Verdict::Differs)) " differ from the paper for a known reason" } ", "
                    span.fails { (count(Verdict::Fails)) " fail" } "."
                }
                (summary(sections))
                (elsewhere())
                @for section in sections { (one(section)) }
            }
        }
    };
    page.into_string()
}

fn summary(sections: &[Section]) -> Markup {
    maud::html! {
        table {
            thead { tr { th { "paper" } th { "expectation" } th { "measurement" } th { "result" } } }
            tbody {
                @for section in sections {
                    @let items = section.items();
                    @for check in section.report.results() {
                        tr {
                            td { a href={ "#" (section.name) } { (items) } }
                            td { (check.claim()) }
                            td { (check.measured()) }
                            td class=(check.verdict().name()) { (check.verdict().name()) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the table of the checks in Markdown.
#[must_use]
pub fn markdown(sections: &[Section]) -> String {
    let mut text = "| paper | expectation | measurement | result |\n|---|---|---|---|\n".to_owned();
    for section in sections {
        let items = section.items();
        for check in section.report.results() {
            let [claim, measured] =
                [check.claim(), check.measured()].map(|of| of.replace('|', "\\|"));
            let verdict = check.verdict().name();
            let _always_ok = writeln!(text, "| {items} | {claim} | {measured} | {verdict} |");
        }
    }
    text
}

/// Items of the papers that no experiment of the simulator reproduces.
fn elsewhere() -> Markup {
    maud::html! {
        h2 { "Results that are not simulated" }
        table {
            thead { tr { th { "paper" } th { "content" } th { "place" } } }
            tbody {
                @for paper in &PAPERS {
                    @for item in paper.items.iter().filter(|item| !matches!(item.by, Source::Experiment(_))) {
                        tr {
                            td { (paper.key) " " (item.name) }
                            td { (item.about) }
                            td { (item.by.describe()) }
                        }
                    }
                }
            }
        }
    }
}

fn one(section: &Section) -> Markup {
    maud::html! {
        h2 id=(section.name) { (section.name) }
        p { (section.about) }
        @for picture in section.report.pictures() { (PreEscaped(picture.to_svg())) }
        pre { (section.report.text().trim_end()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Check;
    use crate::plot::{Chart, Mark};

    #[test]
    fn the_page_has_every_check_and_needs_no_other_file() {
        let check = |claim: &str, holds| Check::new(claim, "1 < 2 & \"3\"", holds);
        let other = Check::differs("the delay", "another TCP", "5 ms".to_owned(), false);
        let chart = Chart::new("delay").series("a", Mark::Line, [(0.0, 1.0), (1.0, 2.0)]);
        let report = Report::new("<text>\n").picture("fig", chart).checks([
            check("a < b", true),
            check("c < d", false),
            other,
        ]);
        let (name, about) = ("cake-fig2".to_owned(), "CAKE Fig. 2: goodput".to_owned());
        let sections = [Section { name, about, report }];
        let table = "| CAKE Fig. 2 | c < d | 1 < 2 & \"3\" | fails |\n";
        assert!(markdown(&sections).contains(table), "{}", markdown(&sections));
        let page = html(&sections);
        for text in [
            "3 checks: ",
            "1 pass",
            "1 differ from",
            "1 fail",
            "a &lt; b",
            "1 &lt; 2 &amp; &quot;3&quot;",
            "<a href=\"#cake-fig2\">CAKE Fig. 2</a>",
            "<pre>&lt;text&gt;</pre>",
            "<svg",
            "QFQ Fig. 9, Table III",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org").count()
        );
        assert!(!page.contains("<script") && !page.contains("<link"));
    }
}
