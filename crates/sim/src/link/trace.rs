//! Links whose rate changes, generated from seeds in the manner of mobile, satellite and cable
//! links.
//!
//! They are not recordings. Each has one property that makes a fixed rate wrong.

use freeboard::sched_core::Nanos;

use conformance::rng::Streams;

/// A kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// LTE, with fading: the rate changes by factors within seconds.
    Lte,
    /// Starlink: a handover every 15 s stops the link for 120 ms and changes rate and path.
    Starlink,
    /// DOCSIS: a segment shared with neighbours, with slow drifts and a few milliseconds of waiting
    /// for a grant.
    Docsis,
}

/// State of the link from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Start of this state.
    pub at: Nanos,
    /// Rate in bits per second; 0 if stopped.
    pub bps: u64,
    /// One-way delay without queueing.
    pub delay: Nanos,
}

const MS: u64 = 1_000_000;

impl Trace {
    /// All kinds, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Lte, Self::Starlink, Self::Docsis];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lte => "LTE",
            Self::Starlink => "Starlink",
            Self::Docsis => "DOCSIS",
        }
    }

    /// Returns a description in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Lte => {
                "4 to 40 Mbit/s, a random walk of up to 21 % each 100 ms, path 25 to 33 ms"
            }
            Self::Starlink => "each 15 s a gap of 120 ms, then 8 to 24 Mbit/s and 20 to 30 ms",
            Self::Docsis => "12 to 28 Mbit/s in 60 s and back, path 12 to 18 ms",
        }
    }

    /// Returns a rate that the link never falls below while it is not stopped, a usual rate, and
    /// the maximum rate, in Mbit/s.
    #[must_use]
    pub const fn megabits(self) -> [u64; 3] {
        match self {
            Self::Lte => [3, 12, 40],
            Self::Starlink => [4, 12, 24],
            Self::Docsis => [6, 20, 28],
        }
    }

    /// Returns the states of the link for `lasts`, in order of time, from time zero on.
    #[must_use]
    pub fn capacities(self, lasts: Nanos, seed: u64) -> Vec<Capacity> {
        let mut draws = Streams::new(seed).stream("capacity");
        // Between -1 and 1, most often near 0.
        let mut bell = move || (draws.unit() + draws.unit() + draws.unit()) / 1.5 - 1.0;
        let mut line = Vec::new();
        match self {
            Self::Lte => {
                let [low, high] = [4e6_f64, 40e6];
                let mut bps = 14e6_f64;
                for at in (0..lasts.0).step_by(100 * MS as usize) {
                    bps = (bps * (1.0 + 0.21 * bell())).clamp(low, high);
                    let delay = Nanos((29.0e6 + 4.0e6 * bell()) as u64);
                    line.push(Capacity { at: Nanos(at), bps: bps as u64, delay });
                }
            }
            Self::Starlink => {
                for at in (0..lasts.0).step_by(15_000 * MS as usize) {
                    let share = (bell() + 1.0) / 2.0;
                    let delay = Nanos((25.0e6 + 5.0e6 * bell()) as u64);
                    if at > 0 {
                        line.push(Capacity { at: Nanos(at), bps: 0, delay });
                    }
                    let bps = 8e6 + 16e6 * share;
                    // The rate of one-second slots varies by 5 %.
                    for slot in 0..15 {
                        let bps = (bps * (1.0 + 0.05 * bell())).clamp(8e6, 24e6) as u64;
                        let begins = if slot == 0 && at > 0 { 120 } else { slot * 1_000 };
                        line.push(Capacity { at: Nanos(at + begins * MS), bps, delay });
                    }
                }
            }
            Self::Docsis => {
                let phase = (bell() + 1.0) * 60.0;
                for at in (0..lasts.0).step_by(100 * MS as usize) {
                    // A triangle wave of 60 s up and 60 s down.
                    let turn = (at as f64 / 1e9 + phase) % 120.0;
                    let part = if turn < 60.0 { turn / 60.0 } else { 2.0 - turn / 60.0 };
                    let bps = (12e6 + 16e6 * part) as u64;
                    let delay = Nanos((15.0e6 + 3.0e6 * bell()) as u64);
                    line.push(Capacity { at: Nanos(at), bps, delay });
                }
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_function_of_its_seed_and_keeps_to_its_range() {
        let lasts = Nanos::from_secs(60);
        for trace in Trace::ALL {
            let line = trace.capacities(lasts, 1);
            assert_eq!(line, trace.capacities(lasts, 1));
            assert_ne!(line, trace.capacities(lasts, 2));
            assert!(line.is_sorted_by_key(|capacity| capacity.at));
            let [floor, _, ceiling] = trace.megabits().map(|megabits| megabits * 1_000_000);
            for capacity in &line {
                assert!(capacity.bps == 0 || (floor..=ceiling).contains(&capacity.bps));
            }
            let gaps = line.iter().filter(|capacity| capacity.bps == 0).count();
            assert_eq!(gaps, if trace == Trace::Starlink { 3 } else { 0 });
        }
    }
}
