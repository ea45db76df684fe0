//! Runs of the scenario with one queue and one filter mode.

use std::thread;

use freeboard::AckFilter;

use super::scenario::{self, MEASURED, Outcome, Probe, Queueing, Setup};
use crate::measure::estimate::mean;
use crate::progress::Progress;

/// All runs with one queue and one mode.
pub(crate) struct Measured {
    pub(crate) queue: (Queueing, Probe),
    pub(crate) filter: AckFilter,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Measured {
    /// Runs each of `queues` in each filter mode, with an uplink in kbit/s and the seeds 1 to
    /// `seeds`.
    pub(crate) fn all(
        queues: &[(Queueing, Probe)],
        uplink: u64,
        seeds: u32,
        progress: &Progress,
    ) -> Vec<Self> {
        progress.expect((queues.len() * AckFilter::ALL.len()) as u64 * u64::from(seeds));
        let one = |(queueing, probe), filter, seed| {
            let outcome = scenario::run(&Setup { queueing, probe, uplink, filter, seed });
            progress.done();
            outcome
        };
        let variants =
            queues.iter().flat_map(|&queue| AckFilter::ALL.iter().map(move |&of| (queue, of)));
        // Runs are independent of each other.
        thread::scope(|scope| {
            let begin = |(queue, filter)| {
                scope.spawn(move || {
                    let outcomes = (1..=u64::from(seeds)).map(|seed| one(queue, filter, seed));
                    Self { queue, filter, outcomes: outcomes.collect() }
                })
            };
            let runs: Vec<_> = variants.map(begin).collect();
            runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
        })
    }

    /// Returns the mean of a value over all runs.
    pub(crate) fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.outcomes.iter().map(value).collect::<Vec<_>>()).expect("there are runs")
    }

    /// Returns the goodput of the downloads in Mbit/s.
    pub(crate) fn down(&self) -> f64 {
        self.mean(|outcome| megabits(outcome.bytes[1]))
    }

    /// Returns the goodput of the uploads in Mbit/s.
    pub(crate) fn up(&self) -> f64 {
        self.mean(|outcome| megabits(outcome.bytes[0]))
    }

    /// Returns the mean queueing delay of a probe up and down, in milliseconds.
    pub(crate) fn waits(&self) -> [f64; 2] {
        [0, 1].map(|way| self.mean(|outcome| outcome.added[way].0 as f64 / 1e6))
    }

    /// Returns the mean queueing delay of a probe in both directions together, in milliseconds.
    pub(crate) fn latency(&self) -> f64 {
        self.waits().iter().sum()
    }

    /// Returns an event count since the start as a rate per second.
    pub(crate) fn per_second(&self, count: impl Fn(&Outcome) -> u64) -> f64 {
        self.mean(|outcome| count(outcome) as f64 / (outcome.lasted.0 as f64 / 1e9))
    }
}

/// Converts bytes of a run to Mbit/s.
pub(crate) fn megabits(bytes: u64) -> f64 {
    bytes as f64 * 8.0 / (MEASURED.0 as f64 / 1_000.0)
}
