//! A victim host under attack, behind every discipline: the value of isolation.
//!
//! The scenario and its assumptions are in [`crate::attack`]; the bound is
//! derived in `docs/isolation.md`.

use freeboard::sched_core::Nanos;

use super::{Check, Experiment, Report, Row, Study};
use crate::attack::{self, Attack, BYTE_NS, Candidate, Outcome, Setup, wait_bound};
use crate::measure::delay::Delays;
use crate::plot::{CellOf, Column, TextTable, fixed, percent};

/// The experiment `sim reproduce attacks`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attacks",
    quick: 2,
    about: "a victim host under sixteen attacks, behind FIFO, DRR, DRR++, SQF and Isolated",
    runs: &Attacks,
};

/// Rate of the link, in Mbit/s.
const LINE: f64 = 8e3 / BYTE_NS as f64;

struct Attacks;

type Cell = (Candidate, Attack);

/// Name of a table, its heading, and its cells.
type Figure<'a> = (&'a str, &'static str, CellOf<'a, Row<Cell, Outcome>>);

impl Row<Cell, Outcome> {
    fn sum(&self, of: impl Fn(&Outcome) -> u64) -> u64 {
        self.runs.iter().map(of).sum()
    }

    /// Returns a percentile of the waits of delivered packets, of all seeds, in ms.
    fn wait_ms(&self, per_mille: u32) -> Option<f64> {
        let waits = self.runs.iter().flat_map(|run| run.waits.samples());
        let waits: Delays = waits.copied().collect();
        Some(waits.quantile(per_mille)?.0 as f64 / 1e6)
    }

    /// Returns the fewest delivered sparse packets of all seeds.
    fn fewest(&self) -> String {
        fixed(self.least(|run| run.sparse_delivered.into()), 0)
    }

    /// Returns the least throughput of the bulk flow of all seeds, in Mbit/s.
    fn bulk(&self) -> f64 {
        self.least(Outcome::bulk_mbit)
    }

    fn bound(&self) -> Nanos {
        wait_bound(self.1.hosts(), self.1.max_len())
    }

    /// Returns the bound of the wait, in ms.
    fn bound_ms(&self) -> f64 {
        self.bound().0 as f64 / 1e6
    }

    fn keeps_wait(&self) -> bool {
        self.runs.iter().all(|run| run.waits_at_most(self.bound()))
    }

    /// Returns the victim host's throughput relative to its share.
    fn of_share(&self) -> f64 {
        self.least(Outcome::victim_mbit) * f64::from(self.1.hosts()) / LINE
    }
}

impl Study for Attacks {
    type Cell = Cell;
    type Run = Outcome;

    fn cells(&self) -> Vec<Cell> {
        let attacks = |candidate| Attack::ALL.map(|attack| (candidate, attack));
        Candidate::ALL.into_iter().flat_map(attacks).collect()
    }

    fn run(&self, &(candidate, attack): &Cell, seed: u64) -> Outcome {
        attack::run(candidate, attack, &Setup::new(seed))
    }

    fn report(&self, rows: &[Row<Cell, Outcome>], seeds: u32) -> Report {
        let mean = |row: &Row<Cell, Outcome>, of: fn(&Outcome) -> u64| {
            (row.sum(of) / u64::from(seeds)).to_string()
        };
        let wait = |row: &Row<Cell, Outcome>, per_mille| {
            row.wait_ms(per_mille).map_or("-".to_owned(), |ms| fixed(ms, 2))
        };
        let figures: [Figure<'_>; 6] = [
            ("bulk", "bulk, Mbit/s", &|row| fixed(row.bulk(), 2)),
            ("delivered", "delivered of 100 sparse", &|row| row.fewest()),
            ("p99", "wait of sparse, p99, ms", &|row| wait(row, 990)),
            ("longest", "wait of sparse, longest, ms", &|row| wait(row, 1_000)),
            ("lost", "victim's packets lost", &|row| mean(row, |run| run.lost)),
            ("robbed", "robbed", &|row| mean(row, |run| run.robbed)),
        ];
        let report = figures.into_iter().fold(Report::new(heading(seeds)), |report, figure| {
            let (name, heading, of) = figure;
            report.with_text("\n").table(name, &table(heading, rows, of))
        });
        report.checks(checks(rows))
    }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
A victim host under attack at a link of 100 Mbit/s with memory for 100 ms
the victim sends 100 Mbit/s in packets of 1,514 bytes in one flow, and in another a packet of 200 bytes
every 10 ms; attackers send 150 Mbit/s together, or 100 where their flows are to run empty; no sender reacts
1,024 queues in sets of eight, in Isolated entries for 256 hosts; quanta of the longest packet, 1,514 bytes, J11 65,535
{seeds} seeds of a second each: the least bulk, the fewest sparse packets delivered; the wait of those
delivered until their first bit is sent; lost packets of the victim in a second, and robbed: those of
them for want of room, while the victim held less than 7/9 of its share of the memory. G1 is the bound of the
wait for both columns of Isolated, if hosts are distinguished
"
    )
}

/// Returns a table with a row for each attack and a column for each candidate.
fn table(
    heading: &'static str,
    rows: &[Row<Cell, Outcome>],
    of: CellOf<'_, Row<Cell, Outcome>>,
) -> TextTable<8> {
    let behind = |attack, number: usize| of(find(rows, Candidate::ALL[number], attack));
    let column = |number: usize| Column::Right(Candidate::ALL[number].name());
    let bound = |attack| find(rows, Candidate::Isolated, attack).bound_ms();
    TextTable::of(
        &Attack::ALL,
        [
            (Column::Left(heading), &|attack| attack.name()),
            (column(0), &|&attack| behind(attack, 0)),
            (column(1), &|&attack| behind(attack, 1)),
            (column(2), &|&attack| behind(attack, 2)),
            (column(3), &|&attack| behind(attack, 3)),
            (column(4), &|&attack| behind(attack, 4)),
            (column(5), &|&attack| behind(attack, 5)),
            (Column::Right("G1, ms"), &|&attack| fixed(bound(attack), 2)),
        ],
    )
}

fn find(rows: &[Row<Cell, Outcome>], candidate: Candidate, attack: Attack) -> &Row<Cell, Outcome> {
    let found = rows.iter().find(|row| row.cell == (candidate, attack));
    found.expect("every attack is played against every candidate")
}

fn checks(rows: &[Row<Cell, Outcome>]) -> Vec<Check> {
    let of = |candidate, attack| find(rows, candidate, attack);
    let honest = || {
        let isolated =
            |row: &&Row<Cell, Outcome>| row.0 == Candidate::Isolated && row.1.is_honest();
        let by_port = rows.iter().filter(|row| row.0 == Candidate::Ports);
        by_port.chain(rows.iter().filter(isolated))
    };
    let named = |row: &Row<Cell, Outcome>| format!("{}, {}", row.1.name(), row.0.name());
    let wait = honest().max_by(|a, b| use_of(a).total_cmp(&use_of(b))).expect("some are honest");
    let share = honest()
        .filter(|row| row.1 != Attack::None)
        .min_by(|a, b| a.of_share().total_cmp(&b.of_share()))
        .expect("some attack");
    let robbed: u64 = honest().map(|row| row.sum(|run| run.robbed)).sum();
    let spoofed = of(Candidate::Isolated, Attack::Spoofed);
    let by_port = of(Candidate::Ports, Attack::Spoofed);
    let arp = of(Candidate::Isolated, Attack::ArpFlood);
    let starved = of(Candidate::SparseFirst, Attack::ThousandFlows(1));
    let guarded = of(Candidate::Isolated, Attack::ThousandFlows(1));
    let sqf = of(Candidate::Sqf, Attack::FreshFlows(64));
    let gamed = of(Candidate::Drr, Attack::ManyMedium);
    let known = of(Candidate::Drr, Attack::KnownKey);
    let secret = of(Candidate::Drr, Attack::SecretKey);
    let bursts = of(Candidate::Isolated, Attack::TimedBursts);
    let ms = |value: Option<f64>| value.map_or("none delivered".to_owned(), |ms| fixed(ms, 3));
    vec![
        Check::new(
            "G1: behind Isolated no sparse packet is lost or waits longer than ((H-1)(4Q+L)+L)/C in any \
                    attack but by forged sources, and by port in none",
            format!(
                "at most {} % of it ({}: {} of {} ms)",
                percent(use_of(wait), 1),
                named(wait),
                ms(wait.wait_ms(1_000)),
                fixed(wait.bound_ms(), 3)
            ),
            honest().all(Row::keeps_wait),
        ),
        Check::new(
            "G2: there the victim's host gets at least 0.98 C/H",
            format!("at least {} ({})", fixed(share.of_share(), 4), named(share)),
            share.of_share() >= 0.98,
        ),
        Check::new(
            "G4: there it loses no packet for want of room while it holds less than 7/9 of its share",
            format!("{robbed} packets"),
            robbed == 0,
        ),
        Check::new(
            "forged sources break G1 and G2, and the port for a host restores both (J06)",
            format!(
                "bulk {} Mbit/s and {} of 100 by source, {} Mbit/s and {} of 100 by port",
                fixed(spoofed.bulk(), 2),
                spoofed.fewest(),
                fixed(by_port.bulk(), 2),
                by_port.fewest(),
            ),
            !spoofed.keeps_wait()
                && spoofed.of_share() < 0.5
                && by_port.keeps_wait()
                && by_port.of_share() >= 0.98,
        ),
        Check::new(
            "frames that are not IP are one host, whatever addresses of Ethernet they have",
            format!(
                "bulk {} Mbit/s, {} of 100 and at most {} ms behind Isolated",
                fixed(arp.bulk(), 2),
                arp.fewest(),
                ms(arp.wait_ms(1_000))
            ),
            arp.keeps_wait() && arp.of_share() >= 0.98,
        ),
        Check::new(
            "a thousand flows of one host starve DRR++ and take half from Isolated, no more (J03)",
            format!(
                "bulk {} behind DRR++, {} Mbit/s behind Isolated",
                fixed(starved.bulk(), 2),
                fixed(guarded.bulk(), 2)
            ),
            starved.bulk() < 1.0 && guarded.bulk() > 0.98 * LINE / 2.0,
        ),
        Check::new(
            "a flow a packet of 64 bytes starves the standing flow behind SQF (J02)",
            format!("bulk {} Mbit/s", fixed(sqf.bulk(), 2)),
            sqf.bulk() < 1.0,
        ),
        Check::new(
            "longest-queue drop by flow takes from a victim that holds less than 7/9 of its share (J09)",
            format!("{} packets behind DRR", gamed.sum(|run| run.robbed)),
            gamed.sum(|run| run.robbed) > 0,
        ),
        Check::new(
            "an attacker that knows the key makes the sparse flow of a DRR wait longer than one that \
                    guesses (J04)",
            format!(
                "{} ms and {} of 100 delivered, {} ms and {} with a guess",
                ms(known.wait_ms(1_000)),
                known.fewest(),
                ms(secret.wait_ms(1_000)),
                secret.fewest(),
            ),
            known.wait_ms(1_000).unwrap_or(f64::INFINITY)
                > 2.0 * secret.wait_ms(1_000).unwrap_or(f64::INFINITY),
        ),
        Check::new(
            "bursts timed to CoDel's interval are never signalled, and hurt only themselves (J10)",
            format!(
                "{} of the attacker's packets dropped by CoDel; bulk {} Mbit/s, longest wait {} ms",
                bursts.sum(|run| run.aqm_drops),
                fixed(bursts.bulk(), 2),
                ms(bursts.wait_ms(1_000))
            ),
            bursts.sum(|run| run.aqm_drops) == 0 && bursts.keeps_wait(),
        ),
    ]
}

/// Returns the longest wait divided by its bound; infinity if nothing was delivered.
fn use_of(row: &Row<Cell, Outcome>) -> f64 {
    row.wait_ms(1_000).map_or(f64::INFINITY, |wait| wait / row.bound_ms())
}
