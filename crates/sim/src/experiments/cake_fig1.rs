//! CAKE Fig. 1: probability that a new flow meets a full set, with plain and set-associative
//! hashing.
//!
//! The real table is filled with flows by the real keyed hash, with a fresh key each time, and new
//! flows are looked up in it. The results are compared with the formula P[Bin(n, k/N) ≥ k], and,
//! for the number of flows that share a queue, with two queueing disciplines of Linux 6.1.

use serde::{Deserialize, Serialize};

use freeboard::flowhash::{FlowHasher, FlowKey, FlowTable, Outcome, SipHash13, TagLine, Transport};

use super::{Check, Experiment, Report, Row, Study};
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use conformance::rng::{Stream, Streams};

/// The experiment `sim reproduce cake-fig1`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig1",
    quick: 3,
    about: "CAKE Fig. 1: probability that a new flow collides, by the ways of a set",
    runs: &Fig1,
};

const QUEUES: u32 = 1_024;
/// Numbers of ways; the plain hash comes first.
const WAYS: [u32; 3] = [1, 4, 8];
/// Tables filled for each seed and number of ways.
const TABLES: u32 = 1_000;
/// New flows looked up in a table at each of [`loads`].
const PROBES: u32 = 16;
/// Recorded by another tool, which is described in the first line.
const LINUX: &str = include_str!("../../tests/golden/hash_collisions.tsv");
const LINUX_TRIALS: f64 = 40.0;

/// Returns the numbers of active flows at which measurements are made.
fn loads() -> Vec<u32> {
    let mut loads: Vec<u32> = (1..=40).map(|step| 50 * step).collect();
    loads.extend(linux().iter().map(|row| row.flows));
    loads.extend([256, 512]);
    loads.sort_unstable();
    loads.dedup();
    loads
}

/// A line of the golden file: the number of flows, and the mean number of those that share a queue.
struct Linux {
    flows: u32,
    set8: f64,
    direct: f64,
}

fn linux() -> Vec<Linux> {
    let rows = LINUX.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let number = |cell: &str| cell.parse().expect("the golden file has numbers");
    rows.map(|row| {
        let cells: Vec<f64> = row.split('\t').map(number).collect();
        Linux { flows: cells[0] as u32, set8: cells[1], direct: cells[2] }
    })
    .collect()
}

struct Fig1;

/// Results of the tables with one number of ways at one load.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Counts {
    tables: u32,
    /// Number of new flows that met a full set.
    collided: u32,
    /// Sums over all tables of the flows that share a queue, and of their squares.
    sharing: u64,
    squares: u64,
}

impl Counts {
    fn probability(&self) -> f64 {
        f64::from(self.collided) / (f64::from(self.tables) * f64::from(PROBES))
    }

    fn sharing(&self) -> f64 {
        self.sharing as f64 / f64::from(self.tables)
    }

    /// Returns the standard deviation of the number of sharing flows in a table.
    fn deviation(&self) -> f64 {
        let mean = self.sharing();
        libm::sqrt((self.squares as f64 / f64::from(self.tables) - mean * mean).max(0.0))
    }

    fn add(self, other: Self) -> Self {
        Self {
            tables: self.tables + other.tables,
            collided: self.collided + other.collided,
            sharing: self.sharing + other.sharing,
            squares: self.squares + other.squares,
        }
    }
}

/// P[Bin(n, k/N) ≥ k]: the k ways of a new flow's set belong to at least k flows.
fn formula(flows: u32, ways: u32) -> f64 {
    let p = f64::from(ways) / f64::from(QUEUES);
    let mut term = libm::pow(1.0 - p, f64::from(flows));
    let mut fewer = 0.0;
    for i in 0..ways {
        fewer += term;
        term *= f64::from(flows) - f64::from(i);
        term *= p / (1.0 - p) / f64::from(i + 1);
    }
    1.0 - fewer
}

/// Returns a flow from one of 16 hosts behind a gateway to a random server.
fn flow(random: &mut Stream) -> FlowKey {
    let server = (random.below(1 << 32) as u32).to_be_bytes();
    let web = random.chance(3, 4);
    FlowKey::V4 {
        src: [192, 168, 1, 10 + random.below(16) as u8],
        dst: server,
        transport: Transport {
            protocol: if web { 6 } else { 17 },
            src_port: 49_152 + random.below(16_384) as u16,
            dst_port: if web { 443 } else { 53 },
        },
    }
}

/// Returns the results of all loads for tables with sets of `ways`.
fn fill(ways: u32, seed: u64) -> Vec<Counts> {
    let mut random = Streams::new(seed).stream(&format!("{ways} ways"));
    let lines = vec![TagLine::EMPTY; QUEUES as usize / 8];
    let mut table = FlowTable::new(lines, QUEUES, ways).expect("1,024 queues in sets of 1 to 16");
    let loads = loads();
    let mut counts = vec![Counts::default(); loads.len()];
    for _ in 0..TABLES {
        table.clear();
        let key = u128::from(random.bits()) << 64 | u128::from(random.bits());
        let hasher = SipHash13::new(key.to_le_bytes());
        let label = |random: &mut Stream| hasher.hash(flow(random).to_bytes().as_ref());
        let (mut flows, mut sharing) = (0, 0);
        for (&load, count) in loads.iter().zip(&mut counts) {
            while flows < load {
                let lookup = table.lookup(label(&mut random));
                sharing += u64::from(lookup.outcome != Outcome::Claimed);
                flows += 1;
            }
            let mut collided = 0;
            for _ in 0..PROBES {
                let lookup = table.lookup(label(&mut random));
                match lookup.outcome {
                    Outcome::Collision => collided += 1,
                    // The way is released, so that each probe is the flow after `load` others.
                    Outcome::Claimed => _ = table.release(lookup.queue),
                    Outcome::Hit => {}
                }
            }
            let squares = sharing * sharing;
            *count = count.add(Counts { tables: 1, collided, sharing, squares });
        }
    }
    counts
}

/// Sums of all runs at one load, in the order of [`WAYS`].
struct Load {
    flows: u32,
    counts: [Counts; WAYS.len()],
}

impl Study for Fig1 {
    /// Number of ways.
    type Cell = u32;
    /// Results for each of [`loads`].
    type Run = Vec<Counts>;

    fn cells(&self) -> Vec<u32> {
        WAYS.to_vec()
    }

    fn run(&self, &ways: &u32, seed: u64) -> Vec<Counts> {
        fill(ways, seed)
    }

    fn report(&self, rows: &[Row<u32, Vec<Counts>>], seeds: u32) -> Report {
        let sum = |row: &Row<u32, Vec<Counts>>, at: usize| {
            row.runs.iter().map(|run| run[at]).fold(Counts::default(), Counts::add)
        };
        let [plain, four, eight] = rows else { unreachable!("one row for each number of ways") };
        let all = |at| [plain, four, eight].map(|row| sum(row, at));
        let load = |(at, flows)| Load { flows, counts: all(at) };
        let loads: Vec<Load> = loads().into_iter().enumerate().map(load).collect();
        Report::new(heading(seeds) + "\n")
            .table("collisions", &probabilities(&loads))
            .with_text("\n")
            .table("linux", &shared(&loads))
            .picture("cake-fig1", chart(&loads))
            .checks(checks(&loads))
    }
}

fn heading(seeds: u32) -> String {
    let trials = u64::from(seeds) * u64::from(TABLES * PROBES);
    format!(
        "\
CAKE Fig. 1: probability that a new flow meets a full set, 1,024 queues
labels by SipHash-1-3 under a new random key for each table; flows of 16 hosts to servers anywhere;
{trials} new flows on {} tables for each number; chance: P[Bin(n, k/N) >= k]
",
        seeds * TABLES
    )
}

fn probabilities(loads: &[Load]) -> TextTable<7> {
    let shown = [50, 100, 200, 256, 300, 400, 512, 700, 1_000, 1_024, 1_100, 1_200, 1_500, 2_000];
    let shown: Vec<&Load> = loads.iter().filter(|load| shown.contains(&load.flows)).collect();
    let measured = |load: &Load, number: usize| fixed(load.counts[number].probability(), 4);
    let chance = |load: &Load, number: usize| fixed(formula(load.flows, WAYS[number]), 4);
    TextTable::of(
        &shown,
        [
            (Column::Right("flows"), &|load| load.flows.to_string()),
            (Column::Right("plain"), &|load| measured(load, 0)),
            (Column::Right("chance"), &|load| chance(load, 0)),
            (Column::Right("4 ways"), &|load| measured(load, 1)),
            (Column::Right("chance"), &|load| chance(load, 1)),
            (Column::Right("8 ways"), &|load| measured(load, 2)),
            (Column::Right("chance"), &|load| chance(load, 2)),
        ],
    )
}

/// Returns a table that compares the golden file with our results.
fn shared(loads: &[Load]) -> TextTable<5> {
    let both: Vec<(&Load, Linux)> = beside_linux(loads).collect();
    let sharing = |load: &Load, number: usize| fixed(load.counts[number].sharing(), 2);
    TextTable::of(
        &both,
        [
            (Column::Right("flows without a queue of their own, of"), &|(load, _)| {
                load.flows.to_string()
            }),
            (Column::Right("plain"), &|(load, _)| sharing(load, 0)),
            (Column::Right("Linux fq_codel"), &|(_, linux)| fixed(linux.direct, 2)),
            (Column::Right("8 ways"), &|(load, _)| sharing(load, 2)),
            (Column::Right("Linux cake"), &|(_, linux)| fixed(linux.set8, 2)),
        ],
    )
}

fn beside_linux(loads: &[Load]) -> impl Iterator<Item = (&Load, Linux)> {
    linux().into_iter().map(|linux| (at(loads, linux.flows), linux))
}

fn at(loads: &[Load], flows: u32) -> &Load {
    loads.iter().find(|load| load.flows == flows).expect("a load that is measured")
}

/// Returns the interpolated number of flows above which 8 ways collide more often than a plain
/// hash.
fn crossover(loads: &[Load], gap: impl Fn(&Load) -> f64) -> Option<f64> {
    // Below 200 flows both are so rare that random variation dominates.
    let loads: Vec<&Load> = loads.iter().filter(|load| load.flows >= 200).collect();
    loads.windows(2).find_map(|pair| {
        let (before, after) = (gap(pair[0]), gap(pair[1]));
        let (from, to) = (f64::from(pair[0].flows), f64::from(pair[1].flows));
        (before < 0.0 && after >= 0.0).then(|| from + (to - from) * before / (before - after))
    })
}

fn checks(loads: &[Load]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (number, ways) in WAYS.into_iter().enumerate() {
        let off =
            |load: &Load| (load.counts[number].probability() - formula(load.flows, ways)).abs();
        let worst = loads.iter().max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are rows");
        checks.push(Check::new(
            format!("{ways} ways: from 50 to 2,000 flows within 0.01 of P[Bin(n, k/N) >= k]"),
            format!("at most {} off, at {} flows", fixed(off(worst), 4), worst.flows),
            off(worst) <= 0.01,
        ));
    }
    let measured =
        crossover(loads, |load| load.counts[2].probability() - load.counts[0].probability());
    let chance = crossover(loads, |load| formula(load.flows, 8) - formula(load.flows, 1));
    let near = measured.zip(chance).is_some_and(|(measured, chance)| {
        [measured, chance].iter().all(|at| (1_050.0..=1_150.0).contains(at))
            && (measured - chance).abs() <= 10.0
    });
    checks.push(Check::new("8 ways beat the plain hash until flows exceed queues: the lines cross at 1,050 to 1,150 flows, \
                the measured ones within 10 of those of chance", format!(
            "at {} flows, by chance at {}",
            fixed(measured.unwrap_or(f64::NAN), 1),
            fixed(chance.unwrap_or(f64::NAN), 1)
        ), near));
    let [plain, _, eight] = at(loads, 512).counts.map(|count| count.probability());
    checks.push(Check::new(
        "with half as many flows as queues, 8 ways collide at most a seventh as often",
        format!("{} against {}", fixed(eight, 4), fixed(plain, 4)),
        7.0 * eight <= plain,
    ));
    let against = |name: &str, number: usize, of: fn(&Linux) -> f64| {
        // Standard errors of both means; a number without variation is not compared.
        let off = |(load, linux): &(&Load, Linux)| {
            let counts = &load.counts[number];
            let errors = 1.0 / LINUX_TRIALS + 1.0 / f64::from(counts.tables);
            let error = counts.deviation() * libm::sqrt(errors);
            (of(linux) - counts.sharing()).abs() / error.max(0.01)
        };
        let all: Vec<_> = beside_linux(loads).map(|pair| (off(&pair), pair.0.flows)).collect();
        let worst = all.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("the file has rows");
        Check::new(
            format!(
                "as many flows share a queue as in {name}: all {} means within 4 standard errors",
                all.len()
            ),
            format!("at most {} of them, at {} flows", fixed(worst.0, 2), worst.1),
            worst.0 <= 4.0,
        )
    };
    checks.push(against("Linux fq_codel (plain)", 0, |linux| linux.direct));
    checks.push(against("Linux cake (8 ways)", 2, |linux| linux.set8));
    checks
}

fn chart(loads: &[Load]) -> Chart {
    let chart = Chart::new("A new flow meets a full set")
        .subtitle("1,024 queues, SipHash-1-3; dots: measured, lines: chance; CAKE Fig. 1")
        .x("active flows")
        .y("probability");
    let named = WAYS.into_iter().enumerate();
    let chart = named.clone().fold(chart, |chart, (number, ways)| {
        let name = if ways == 1 { "plain".to_owned() } else { format!("{ways} ways") };
        let points =
            loads.iter().map(|load| (f64::from(load.flows), load.counts[number].probability()));
        chart.series(&name, Mark::Dots, points)
    });
    named.fold(chart, |chart, (_, ways)| {
        let flows = (0..=200).map(|step| 10 * step);
        let points = flows.map(|flows| (f64::from(flows), formula(flows, ways)));
        chart.series(&format!("chance, k = {ways}"), Mark::Line, points)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the source's table of its formula, and the limits.
    #[test]
    fn the_formula_gives_known_values() {
        for (flows, ways, value) in [
            (512, 1, 0.394),
            (1_024, 1, 0.632),
            (2_000, 1, 0.858),
            (400, 4, 0.073),
            (1_200, 4, 0.689),
            (512, 8, 0.050),
            (1_024, 8, 0.548),
            (2_000, 8, 0.988),
        ] {
            assert!((formula(flows, ways) - value).abs() < 0.000_6, "{flows} flows, {ways} ways");
        }
        assert_eq!((formula(0, 1), formula(0, 8)), (0.0, 0.0));
        assert!((formula(7, 8)).abs() < 1e-12);
    }

    #[test]
    fn the_golden_file_is_read_whole() {
        let rows = linux();
        assert_eq!((rows.len(), rows[0].flows, rows[14].flows), (15, 64, 2_000));
        assert_eq!((rows[14].set8, rows[14].direct), (978.65, 1_120.075));
    }
}
