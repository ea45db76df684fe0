//! A victim host under attack, behind every discipline: the value of isolation.
//!
//! The scenario and its assumptions are in [`crate::experiments::attacks::scenario`]; the bound is
//! derived in `docs/isolation.md`.

pub mod scenario;

use std::thread;

use super::{Check, Experiment, Report};
use crate::plot::{Column, TextTable, fixed, percent};
use crate::progress::Progress;
use scenario::{Attack, BYTE_NS, Candidate, Outcome, Setup, run, wait_bound};

/// The experiment `sim reproduce attacks`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attacks",
    quick: 2,
    about: "a victim host under sixteen attacks, behind FIFO, DRR, DRR++, SQF and Isolated",
    runs: super::Runs::Whole(report),
};

/// Rate of the link, in Mbit/s.
const LINE: f64 = 8e3 / BYTE_NS as f64;

/// One attack on one candidate, with every seed.
#[derive(Clone, Debug)]
struct Cell {
    attack: Attack,
    candidate: Candidate,
    outcomes: Vec<Outcome>,
}

impl Cell {
    /// Returns the minimum of all seeds.
    fn least(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    fn sum(&self, of: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }

    /// Returns a percentile of the waits of delivered packets, of all seeds, in ms.
    fn wait_ms(&self, per_mille: u32) -> Option<f64> {
        let waits = self.outcomes.iter().flat_map(|outcome| outcome.waits.samples().to_vec());
        let waits: crate::measure::delay::Delays = waits.collect();
        Some(waits.quantile(per_mille)?.0 as f64 / 1e6)
    }

    /// Returns the bound of the wait, in ms.
    fn bound_ms(&self) -> f64 {
        wait_bound(self.attack.hosts(), self.attack.max_len()).0 as f64 / 1e6
    }

    fn keeps_wait(&self) -> bool {
        let bound = wait_bound(self.attack.hosts(), self.attack.max_len());
        self.outcomes.iter().all(|outcome| outcome.waits_at_most(bound))
    }

    /// Returns the victim host's throughput relative to its share.
    fn of_share(&self) -> f64 {
        self.least(Outcome::victim_mbit) * f64::from(self.attack.hosts()) / LINE
    }
}

fn report(seeds: u32, progress: &Progress) -> Report {
    let cells = Candidate::ALL.len() * Attack::ALL.len();
    progress.expect(cells as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let cells: Vec<Cell> = thread::scope(|scope| {
        let runs: Vec<_> = Candidate::ALL
            .map(|candidate| {
                scope.spawn(move || {
                    Attack::ALL.map(|attack| play(candidate, attack, seeds, progress))
                })
            })
            .into_iter()
            .collect();
        runs.into_iter().flat_map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(seeds), tables(&cells));
    Report::new(text).checks(checks(&cells))
}

fn play(candidate: Candidate, attack: Attack, seeds: u32, progress: &Progress) -> Cell {
    let seeds = 1..=u64::from(seeds);
    let one = |seed| {
        let outcome = run(candidate, attack, &Setup::new(seed));
        progress.done();
        outcome
    };
    let outcomes = seeds.map(one).collect();
    Cell { attack, candidate, outcomes }
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

fn tables(cells: &[Cell]) -> String {
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| fixed(ms, 2));
    let mean = |cell: &Cell, of: fn(&Outcome) -> u64| {
        (cell.sum(of) / cell.outcomes.len() as u64).to_string()
    };
    let fewest = |cell: &Cell| fixed(cell.least(|outcome| outcome.sparse_delivered.into()), 0);
    [
        table("bulk, Mbit/s", cells, |cell| fixed(cell.least(Outcome::bulk_mbit), 2)),
        table("delivered of 100 sparse", cells, fewest),
        table("wait of sparse, p99, ms", cells, |cell| ms(cell.wait_ms(990))),
        table("wait of sparse, longest, ms", cells, |cell| ms(cell.wait_ms(1_000))),
        table("victim's packets lost", cells, |cell| mean(cell, |outcome| outcome.lost)),
        table("robbed", cells, |cell| mean(cell, |outcome| outcome.robbed)),
    ]
    .join("\n")
}

/// Returns a table with a row for each attack and a column for each candidate.
fn table(what: &'static str, cells: &[Cell], of: impl Fn(&Cell) -> String) -> String {
    let names = Candidate::ALL.map(|candidate| Column::Right(candidate.name()));
    let [a, b, c, d, e, f] = names;
    let mut table = TextTable::new([Column::Left(what), a, b, c, d, e, f, Column::Right("G1, ms")]);
    for attack in Attack::ALL {
        let found = |candidate| {
            cells.iter().find(|cell| (cell.attack, cell.candidate) == (attack, candidate))
        };
        let [a, b, c, d, e, f] = Candidate::ALL.map(|c| found(c).map_or_else(String::new, &of));
        let bound = found(Candidate::Isolated).map_or(f64::NAN, Cell::bound_ms);
        table.row([&attack.name(), &a, &b, &c, &d, &e, &f, &fixed(bound, 2)]);
    }
    table.to_string()
}

fn checks(cells: &[Cell]) -> Vec<Check> {
    let of = |candidate: Candidate, attack: Attack| {
        let found = cells.iter().find(|c| (c.candidate, c.attack) == (candidate, attack));
        found.expect("every attack is played against every candidate")
    };
    let honest = || {
        cells.iter().filter(|cell| cell.candidate == Candidate::Ports).chain(
            cells.iter().filter(|c| c.candidate == Candidate::Isolated && c.attack.is_honest()),
        )
    };
    let named = |cell: &Cell| format!("{}, {}", cell.attack.name(), cell.candidate.name());
    let wait = honest().max_by(|a, b| use_of(a).total_cmp(&use_of(b))).expect("some are honest");
    let share = honest()
        .filter(|cell| cell.attack != Attack::None)
        .min_by(|a, b| a.of_share().total_cmp(&b.of_share()))
        .expect("some attack");
    let robbed: u64 = honest().map(|cell| cell.sum(|outcome| outcome.robbed)).sum();
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
        Check {
            claim: "G1: behind Isolated no sparse packet is lost or waits longer than ((H-1)(3Q+L)+(H-2)Q+L)/C in any \
                    attack but by forged sources, and by port in none"
                .to_owned(),
            measured: format!(
                "at most {} % of it ({}: {} of {} ms)",
                percent(use_of(wait), 1),
                named(wait),
                ms(wait.wait_ms(1_000)),
                fixed(wait.bound_ms(), 3)
            ),
            holds: honest().all(Cell::keeps_wait),
        },
        Check {
            claim: "G2: there the victim's host gets at least 0.98 C/H".to_owned(),
            measured: format!("at least {} ({})", fixed(share.of_share(), 4), named(share)),
            holds: share.of_share() >= 0.98,
        },
        Check {
            claim: "G4: there it loses no packet for want of room while it holds less than 7/9 of its share"
                .to_owned(),
            measured: format!("{robbed} packets"),
            holds: robbed == 0,
        },
        Check {
            claim: "forged sources break G1 and G2, and the port for a host restores both (J06)".to_owned(),
            measured: format!(
                "bulk {} Mbit/s and {} of 100 by source, {} Mbit/s and {} of 100 by port",
                fixed(spoofed.least(Outcome::bulk_mbit), 2),
                fixed(spoofed.least(|outcome| outcome.sparse_delivered.into()), 0),
                fixed(by_port.least(Outcome::bulk_mbit), 2),
                fixed(by_port.least(|outcome| outcome.sparse_delivered.into()), 0),
            ),
            holds: !spoofed.keeps_wait()
                && spoofed.of_share() < 0.5
                && by_port.keeps_wait()
                && by_port.of_share() >= 0.98,
        },
        Check {
            claim: "frames that are not IP are one host, whatever addresses of Ethernet they have".to_owned(),
            measured: format!(
                "bulk {} Mbit/s, {} of 100 and at most {} ms behind Isolated",
                fixed(arp.least(Outcome::bulk_mbit), 2),
                fixed(arp.least(|outcome| outcome.sparse_delivered.into()), 0),
                ms(arp.wait_ms(1_000))
            ),
            holds: arp.keeps_wait() && arp.of_share() >= 0.98,
        },
        Check {
            claim: "a thousand flows of one host starve DRR++ and take half from Isolated, no more (J03)"
                .to_owned(),
            measured: format!(
                "bulk {} behind DRR++, {} Mbit/s behind Isolated",
                fixed(starved.least(Outcome::bulk_mbit), 2),
                fixed(guarded.least(Outcome::bulk_mbit), 2)
            ),
            holds: starved.least(Outcome::bulk_mbit) < 1.0
                && guarded.least(Outcome::bulk_mbit) > 0.98 * LINE / 2.0,
        },
        Check {
            claim: "a flow a packet of 64 bytes starves the standing flow behind SQF (J02)".to_owned(),
            measured: format!("bulk {} Mbit/s", fixed(sqf.least(Outcome::bulk_mbit), 2)),
            holds: sqf.least(Outcome::bulk_mbit) < 1.0,
        },
        Check {
            claim: "longest-queue drop by flow takes from a victim that holds less than 7/9 of its share (J09)"
                .to_owned(),
            measured: format!("{} packets behind DRR", gamed.sum(|outcome| outcome.robbed)),
            holds: gamed.sum(|outcome| outcome.robbed) > 0,
        },
        Check {
            claim: "an attacker that knows the key makes the sparse flow of a DRR wait longer than one that \
                    guesses (J04)"
                .to_owned(),
            measured: format!(
                "{} ms and {} of 100 delivered, {} ms and {} with a guess",
                ms(known.wait_ms(1_000)),
                fixed(known.least(|outcome| outcome.sparse_delivered.into()), 0),
                ms(secret.wait_ms(1_000)),
                fixed(secret.least(|outcome| outcome.sparse_delivered.into()), 0),
            ),
            holds: known.wait_ms(1_000).unwrap_or(f64::INFINITY)
                > 2.0 * secret.wait_ms(1_000).unwrap_or(f64::INFINITY),
        },
        Check {
            claim: "bursts timed to CoDel's interval are never signalled, and hurt only themselves (J10)"
                .to_owned(),
            measured: format!(
                "{} of the attacker's packets dropped by CoDel; bulk {} Mbit/s, longest wait {} ms",
                bursts.sum(|outcome| outcome.aqm_drops),
                fixed(bursts.least(Outcome::bulk_mbit), 2),
                ms(bursts.wait_ms(1_000))
            ),
            holds: bursts.sum(|outcome| outcome.aqm_drops) == 0 && bursts.keeps_wait(),
        },
    ]
}

/// Returns the longest wait divided by its bound; infinity if nothing was delivered.
fn use_of(cell: &Cell) -> f64 {
    cell.wait_ms(1_000).map_or(f64::INFINITY, |wait| wait / cell.bound_ms())
}
