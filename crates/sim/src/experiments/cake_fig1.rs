//! CAKE Fig. 1: probability that a new flow meets a full set, with plain and set-associative
//! hashing.
//!
//! The real table is filled with flows by the real keyed hash, with a fresh key each time, and new
//! flows are looked up in it. The results are compared with the formula P[Bin(n, k/N) ≥ k], and,
//! for the number of flows that share a queue, with two queueing disciplines of Linux 6.1.

use std::thread;

use freeboard::flowhash::{FlowHasher, FlowKey, FlowTable, Outcome, SipHash13, TagLine, Transport};

use super::{Check, Experiment, Report};
use crate::plot::{self, Chart, Column, Mark, fixed};
use crate::progress::Progress;
use conformance::rng::{Stream, Streams};

/// The experiment `sim reproduce cake-fig1`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig1",
    quick: 3,
    about: "CAKE Fig. 1: probability that a new flow collides, by the ways of a set",
    runs: super::Runs::Whole(run),
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

/// Results of the tables with one number of ways at one load.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    tables: u32,
    /// Number of new flows that met a full set.
    collided: u32,
    /// Sums over all tables of the flows that share a queue, and of their squares.
    sharing: u64,
    squares: u64,
}

impl Cell {
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
fn fill(ways: u32, seed: u64) -> Vec<Cell> {
    let mut random = Streams::new(seed).stream(&format!("{ways} ways"));
    let lines = vec![TagLine::EMPTY; QUEUES as usize / 8];
    let mut table = FlowTable::new(lines, QUEUES, ways).expect("1,024 queues in sets of 1 to 16");
    let loads = loads();
    let mut cells = vec![Cell::default(); loads.len()];
    for _ in 0..TABLES {
        table.clear();
        let key = u128::from(random.bits()) << 64 | u128::from(random.bits());
        let hasher = SipHash13::new(key.to_le_bytes());
        let label = |random: &mut Stream| hasher.hash(flow(random).to_bytes().as_ref());
        let (mut flows, mut sharing) = (0, 0);
        for (&load, cell) in loads.iter().zip(&mut cells) {
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
            *cell = cell.add(Cell { tables: 1, collided, sharing, squares });
        }
    }
    cells
}

/// Results at one load, in the order of [`WAYS`].
struct Row {
    flows: u32,
    cells: [Cell; WAYS.len()],
}

fn run(seeds: u32, progress: &Progress) -> Report {
    progress.expect(WAYS.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let ways = WAYS.map(|ways| {
        thread::scope(|scope| {
            let one = |seed| {
                scope.spawn(move || {
                    let cells = fill(ways, seed);
                    progress.done();
                    cells
                })
            };
            let runs: Vec<_> = (1..=u64::from(seeds)).map(one).collect();
            let all = runs.into_iter().map(|run| run.join().expect("a run ends"));
            let added = all.reduce(|sum, cells| {
                sum.into_iter().zip(cells).map(|(sum, cell)| sum.add(cell)).collect()
            });
            added.expect("at least two seeds")
        })
    });
    let row = |(at, flows)| Row { flows, cells: ways.each_ref().map(|cells| cells[at]) };
    let rows: Vec<Row> = loads().into_iter().enumerate().map(row).collect();
    let text = format!("{}\n{}\n{}", heading(seeds), probabilities(&rows), shared(&rows));
    let charts = picture(&rows);
    Report::new(text).picture("cake-fig1", charts).checks(checks(&rows))
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

fn probabilities(rows: &[Row]) -> String {
    let mut table = plot::TextTable::new([
        Column::Right("flows"),
        Column::Right("plain"),
        Column::Right("chance"),
        Column::Right("4 ways"),
        Column::Right("chance"),
        Column::Right("8 ways"),
        Column::Right("chance"),
    ]);
    let shown = [50, 100, 200, 256, 300, 400, 512, 700, 1_000, 1_024, 1_100, 1_200, 1_500, 2_000];
    for Row { flows, cells } in rows.iter().filter(|row| shown.contains(&row.flows)) {
        let measured = cells.map(|cell| fixed(cell.probability(), 4));
        let chance = WAYS.map(|ways| fixed(formula(*flows, ways), 4));
        table.row([
            flows,
            &measured[0],
            &chance[0],
            &measured[1],
            &chance[1],
            &measured[2],
            &chance[2],
        ]);
    }
    table.to_string()
}

/// Returns a table that compares the golden file with our results.
fn shared(rows: &[Row]) -> String {
    let mut table = plot::TextTable::new([
        Column::Right("flows without a queue of their own, of"),
        Column::Right("plain"),
        Column::Right("Linux fq_codel"),
        Column::Right("8 ways"),
        Column::Right("Linux cake"),
    ]);
    for (row, linux) in beside_linux(rows) {
        table.row([
            &row.flows,
            &fixed(row.cells[0].sharing(), 2),
            &fixed(linux.direct, 2),
            &fixed(row.cells[2].sharing(), 2),
            &fixed(linux.set8, 2),
        ]);
    }
    table.to_string()
}

fn beside_linux(rows: &[Row]) -> impl Iterator<Item = (&Row, Linux)> {
    linux().into_iter().map(|linux| {
        let row = rows.iter().find(|row| row.flows == linux.flows);
        (row.expect("its loads are among those measured"), linux)
    })
}

/// Returns the interpolated number of flows above which 8 ways collide more often than a plain
/// hash.
fn crossover(rows: &[Row], gap: impl Fn(&Row) -> f64) -> Option<f64> {
    // Below 200 flows both are so rare that random variation dominates.
    let rows: Vec<&Row> = rows.iter().filter(|row| row.flows >= 200).collect();
    rows.windows(2).find_map(|pair| {
        let (before, after) = (gap(pair[0]), gap(pair[1]));
        let (from, to) = (f64::from(pair[0].flows), f64::from(pair[1].flows));
        (before < 0.0 && after >= 0.0).then(|| from + (to - from) * before / (before - after))
    })
}

fn checks(rows: &[Row]) -> Vec<Check> {
    let at = |flows| rows.iter().find(|row| row.flows == flows).expect("a load that is measured");
    let mut checks = Vec::new();
    for (number, ways) in WAYS.into_iter().enumerate() {
        let off = |row: &Row| (row.cells[number].probability() - formula(row.flows, ways)).abs();
        let worst = rows.iter().max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are rows");
        checks.push(Check {
            claim: format!(
                "{ways} ways: from 50 to 2,000 flows within 0.01 of P[Bin(n, k/N) >= k]"
            ),
            measured: format!("at most {} off, at {} flows", fixed(off(worst), 4), worst.flows),
            holds: off(worst) <= 0.01,
        });
    }
    let measured = crossover(rows, |row| row.cells[2].probability() - row.cells[0].probability());
    let chance = crossover(rows, |row| formula(row.flows, 8) - formula(row.flows, 1));
    let near = measured.zip(chance).is_some_and(|(measured, chance)| {
        [measured, chance].iter().all(|at| (1_050.0..=1_150.0).contains(at))
            && (measured - chance).abs() <= 10.0
    });
    checks.push(Check {
        claim: "8 ways beat the plain hash until flows exceed queues: the lines cross at 1,050 to 1,150 flows, \
                the measured ones within 10 of those of chance"
            .to_owned(),
        measured: format!(
            "at {} flows, by chance at {}",
            fixed(measured.unwrap_or(f64::NAN), 1),
            fixed(chance.unwrap_or(f64::NAN), 1)
        ),
        holds: near,
    });
    let [plain, _, eight] = at(512).cells.map(|cell| cell.probability());
    checks.push(Check {
        claim: "with half as many flows as queues, 8 ways collide at most a seventh as often"
            .to_owned(),
        measured: format!("{} against {}", fixed(eight, 4), fixed(plain, 4)),
        holds: 7.0 * eight <= plain,
    });
    let against = |name: &str, number: usize, of: fn(&Linux) -> f64| {
        // Standard errors of both means; a number without variation is not compared.
        let off = |(row, linux): &(&Row, Linux)| {
            let cell = &row.cells[number];
            let errors = 1.0 / LINUX_TRIALS + 1.0 / f64::from(cell.tables);
            let error = cell.deviation() * libm::sqrt(errors);
            (of(linux) - cell.sharing()).abs() / error.max(0.01)
        };
        let all: Vec<_> = beside_linux(rows).map(|pair| (off(&pair), pair.0.flows)).collect();
        let worst = all.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("the file has rows");
        Check {
            claim: format!(
                "as many flows share a queue as in {name}: all {} means within 4 standard errors",
                all.len()
            ),
            measured: format!("at most {} of them, at {} flows", fixed(worst.0, 2), worst.1),
            holds: worst.0 <= 4.0,
        }
    };
    checks.push(against("Linux fq_codel (plain)", 0, |linux| linux.direct));
    checks.push(against("Linux cake (8 ways)", 2, |linux| linux.set8));
    checks
}

fn picture(rows: &[Row]) -> Vec<Chart> {
    let chart = Chart::new("A new flow meets a full set")
        .subtitle("1,024 queues, SipHash-1-3; dots: measured, lines: chance; CAKE Fig. 1")
        .x("active flows")
        .y("probability");
    let named = WAYS.into_iter().enumerate();
    let chart = named.clone().fold(chart, |chart, (number, ways)| {
        let name = if ways == 1 { "plain".to_owned() } else { format!("{ways} ways") };
        let points = rows.iter().map(|row| (f64::from(row.flows), row.cells[number].probability()));
        chart.series(&name, Mark::Dots, points)
    });
    named
        .fold(chart, |chart, (_, ways)| {
            let flows = (0..=200).map(|step| 10 * step);
            let points = flows.map(|flows| (f64::from(flows), formula(flows, ways)));
            chart.series(&format!("chance, k = {ways}"), Mark::Line, points)
        })
        .into()
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
