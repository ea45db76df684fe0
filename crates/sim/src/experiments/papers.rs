//! Every figure, table and algorithm of the five papers, and where its result is.

use super::find;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Key in the documents.
    pub key: &'static str,
    /// Its figures, tables, algorithms and theorems.
    pub items: &'static [Item],
}

/// A figure, table, algorithm or theorem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name in the paper.
    pub name: &'static str,
    /// Its content.
    pub about: &'static str,
    /// Where it is reproduced.
    pub by: Source,
}

/// Place of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `sim reproduce NAME`.
    Experiment(&'static str),
    /// A file of tests, from the root of the repository.
    Test(&'static str),
    /// A command.
    Command(&'static str),
    /// Not reproduced, for this reason.
    None(&'static str),
}

impl Source {
    /// Returns the place in words.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Experiment(name) => format!("sim reproduce {name}"),
            Self::Test(path) => format!("test {path}"),
            Self::Command(command) => command.to_owned(),
            Self::None(why) => format!("not reproduced: {why}"),
        }
    }
}

const fn item(name: &'static str, about: &'static str, by: Source) -> Item {
    Item { name, about, by }
}

const QFQ_CODE: Source = Source::Test("crates/conformance/tests/suite/qfq_rules.rs");
const QFQ_RECOUNT: Source = Source::Test("crates/sched-core/src/disciplines/qfq/recount.rs");
const QFQ_BOUNDS: Source = Source::Test("crates/sim/tests/suite/guarantees.rs");
const RUN_TIME: Source = Source::Command("cargo bench --bench paper");
const DRAWING: Source = Source::None("a drawing without a result");

/// The papers, in the order in which the project began with them.
pub const PAPERS: [Paper; 5] = [
    Paper {
        key: "SQF-ADSL",
        items: &[
            item(
                "§2",
                "rules of SQF: bytes, N virtual queues, longest queue drop",
                Source::Test("crates/sim/src/discipline/virtual_queues.rs"),
            ),
            item("Table 1", "download times of pages", Source::Experiment("sqf-adsl")),
            item("Fig. 1", "quality of calls", Source::Experiment("sqf-adsl")),
        ],
    },
    Paper {
        key: "QFQ",
        items: &[
            item("Table I", "symbols", Source::None("a list of symbols")),
            item("Fig. 1", "the data structures", QFQ_CODE),
            item("Fig. 2", "bucket lists", QFQ_RECOUNT),
            item("Fig. 3", "enqueue and the state of a group", QFQ_CODE),
            item("Fig. 4", "dequeue", QFQ_CODE),
            item("Fig. 5", "group sets after a flow was served", QFQ_CODE),
            item("Fig. 6", "eligibility of groups", QFQ_CODE),
            item("Lemmas 1–4, Theorems 1–6", "invariants of groups and slots", QFQ_RECOUNT),
            item("Theorem 7", "bit worst-case fair index", QFQ_BOUNDS),
            item("Theorem 8", "time worst-case fair index", QFQ_BOUNDS),
            item("eqs. 27–28", "relative fairness bound", QFQ_BOUNDS),
            item("Fig. 7, Table II", "end-to-end delays", Source::Experiment("qfq-fig7")),
            item("Fig. 8", "the testing environment", RUN_TIME),
            item("Fig. 9, Table III", "run time against the number of flows", RUN_TIME),
        ],
    },
    Paper {
        key: "CAKE",
        items: &[
            item("Algorithm 1", "shaping and overhead", Source::Experiment("cake-alg1")),
            item("Algorithm 2", "host isolation", Source::Experiment("cake-fig3")),
            item("Fig. 1", "hash collisions", Source::Experiment("cake-fig1")),
            item("Fig. 2", "baseline throughput and latency", Source::Experiment("cake-fig2")),
            item("Fig. 3", "host isolation of six flows", Source::Experiment("cake-fig3")),
            item("Fig. 4", "flows with DiffServ code points", Source::Experiment("cake-fig4")),
            item("Fig. 5", "latency of a fixed-rate flow", Source::Experiment("cake-fig5")),
            item("Fig. 6", "ACK filtering", Source::Experiment("cake-fig6")),
        ],
    },
    Paper {
        key: "AGE",
        items: &[
            item(
                "abstract",
                "mean flow completion time 3 to 20 % shorter, as fair",
                Source::Experiment("age-based"),
            ),
            item(
                "abstract",
                "CPU load not higher",
                Source::Command("cargo xtask instructions age"),
            ),
            item(
                "figures",
                "completion times at 1 and 10 Gbit/s",
                Source::None("only the abstract is at hand"),
            ),
        ],
    },
    Paper {
        key: "SQF-VBR",
        items: &[
            item("Fig. 1", "congestion on the last mile", DRAWING),
            item(
                "Fig. 2",
                "enqueue and dequeue of SQF",
                Source::Test("crates/conformance/tests/suite/exhaustive.rs"),
            ),
            item(
                "Fig. 3",
                "probability of loss of priority",
                Source::Experiment("sqf-video-theory"),
            ),
            item("Fig. 4", "mean time to loss of priority", Source::Experiment("sqf-video-theory")),
            item("rule (3)", "several streams", Source::Experiment("sqf-video-theory")),
            item("Fig. 5", "the test-bed", Source::Experiment("sqf-video-testbed")),
            item("Fig. 6", "loss", Source::Experiment("sqf-video-testbed")),
            item("§V", "loss by the video's peak rate", Source::Experiment("sqf-video-peak")),
            item("Fig. 7", "jitter", Source::Experiment("sqf-video-testbed")),
            item("Table I", "bandwidth and fairness", Source::Experiment("sqf-video-testbed")),
            item("Fig. 8", "loss with a jittered sender", Source::Experiment("sqf-video-jitter")),
        ],
    },
];

/// Returns a line for each item: paper, item, content, and where it is reproduced.
#[must_use]
pub fn list() -> String {
    let mut lines = String::new();
    for paper in &PAPERS {
        for item in paper.items {
            let name = format!("{} {}", paper.key, item.name);
            lines += &format!("  {name:<30}  {}: {}\n", item.about, item.by.describe());
        }
    }
    lines
}

/// Returns the items that an experiment reproduces, with their papers: `CAKE Fig. 2`.
#[must_use]
pub fn items_of(experiment: &str) -> Vec<String> {
    let of = |paper: &'static Paper| {
        let items =
            paper.items.iter().filter(|item| item.by == Source::Experiment(find_name(experiment)));
        items.map(|item| format!("{} {}", paper.key, item.name)).collect::<Vec<_>>()
    };
    PAPERS.iter().flat_map(of).collect()
}

/// Returns the static name of an experiment; empty if there is none.
fn find_name(name: &str) -> &'static str {
    find(name).map_or("", |experiment| experiment.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_exists() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for item in PAPERS.iter().flat_map(|paper| paper.items) {
            match item.by {
                Source::Experiment(name) => assert!(find(name).is_some(), "{name}"),
                Source::Test(path) => {
                    assert!(std::fs::exists(format!("{root}{path}")).unwrap(), "{path}")
                }
                Source::Command(_) | Source::None(_) => {}
            }
        }
        assert_eq!(items_of("cake-fig3"), ["CAKE Algorithm 2", "CAKE Fig. 3"]);
        assert_eq!(items_of("attacks"), [""; 0]);
    }
}
