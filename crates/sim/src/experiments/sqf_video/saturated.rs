//! The queue that the model of §IV describes: streams beside flows that fill the buffer.
//!
//! Packets have one size. Each flow sends 1.1 times the rate of the link without end: what SQF
//! takes from the shortest queue is replaced at once, and the queues stay equal, as the model
//! assumes. (Flows that send less do not: SQF drains some of them, and they stay as short as the
//! stream.) Without flows it is the M/D/1 queue.

use core::num::NonZeroU64;

use freeboard::sched_core::{FlowId, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use serde::{Deserialize, Serialize};

use super::formulas::Link as Model;
use crate::discipline::Discipline;
use crate::link::Link;
use crate::path::{LinkId, Parcel, Paths, Watch};
use crate::source::{Cbr, Jittered, Lengths, Poisson};
use conformance::rng::Streams;

/// Bytes of each packet.
pub const PACKET: u32 = 1_250;
/// Rate of the link: 1,000 packets a second.
pub const MEGABITS: u64 = 10;
/// Packets that the buffer holds.
pub const BUFFER: u32 = 200;

/// Arrivals of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Poisson.
    Poisson,
    /// Constant rate, delayed at the sender by Gaussian times of this standard deviation.
    Late(Nanos),
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of flows in the model, which sets the threshold.
    pub flows: u32,
    /// True if they are there, behind SQF; otherwise the streams have a FIFO for themselves.
    pub present: bool,
    /// Number of streams.
    pub streams: u32,
    /// Rate of each stream in kbit/s.
    pub kbit: u64,
    /// Their arrivals.
    pub timing: Timing,
    /// Duration.
    pub lasts: Nanos,
    /// True if the run begins anew, with an empty queue, whenever the threshold is reached.
    pub renews: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number of times that the threshold was reached; at most one unless the run begins anew.
    pub reached: u32,
    /// Seconds with streams.
    pub seconds: f64,
    /// Packets that the streams sent.
    pub sent: u64,
    /// Number of these that had not been sent over the link at the end.
    pub lost: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

impl Setup {
    /// Returns the model of this link.
    #[must_use]
    pub fn model(&self) -> Model {
        let capacity = (MEGABITS * 1_000_000 / u64::from(8 * PACKET)) as f64;
        Model { capacity, buffer: BUFFER.into(), flows: self.flows.into() }
    }

    /// Returns the packets per second of all streams.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.kbit * 1_000 * u64::from(self.streams)) as f64 / f64::from(8 * PACKET)
    }
}

/// Counts the packets of streams in the buffer and on the link.
struct Occupancy {
    streams: u32,
    queued: u32,
    /// Last bit of the packet of a stream that is being sent.
    busy: Nanos,
    threshold: u32,
    /// Time at which the threshold was reached first.
    reached: Option<Nanos>,
    left: u64,
}

impl Watch for Occupancy {
    fn enters(&mut self, now: Nanos, _: LinkId, parcel: &Parcel) {
        if parcel.flow.0 < self.streams {
            self.queued += 1;
            let present = self.queued + u32::from(now < self.busy);
            if self.reached.is_none() && present >= self.threshold {
                self.reached = Some(now);
            }
        }
    }

    fn leaves(&mut self, _: Nanos, _: LinkId, last_bit: Nanos, parcel: &Parcel) {
        if parcel.flow.0 < self.streams {
            self.left += 1;
            self.queued -= 1;
            self.busy = last_bit;
        }
    }
}

/// Streams begin when the buffer is full.
const FILLED: Nanos = Nanos::from_millis(500);
/// Interval at which a run looks whether it begins anew.
const LOOK: Nanos = Nanos::from_millis(20);

/// Runs the queue once.
#[must_use]
pub fn run(setup: &Setup, seed: u64) -> Run {
    let streams = Streams::new(seed);
    let mut run = Run { reached: 0, seconds: 0.0, sent: 0, lost: 0, balanced: true };
    let mut left = setup.lasts;
    for episode in 0.. {
        let lasted = run_once(setup, &streams, episode, left, &mut run);
        left = left.since(lasted);
        if left == Nanos::ZERO {
            break;
        }
    }
    run
}

/// Runs from an empty queue until the threshold is reached, if that ends the run, or for `left`.
/// Returns the time that streams had.
fn run_once(setup: &Setup, streams: &Streams, episode: u32, left: Nanos, run: &mut Run) -> Nanos {
    let mut paths = Paths::new();
    let (discipline, flows) =
        if setup.present { (Discipline::Sqf, setup.flows) } else { (Discipline::Fifo, 0) };
    let line = Shaper::new(Rate::megabits_per_second(MEGABITS).expect("a rate that lines have"));
    let queue = discipline.behind(line, Overhead::RAW, Limits::packets(BUFFER), PACKET);
    let link = paths.add_link(Link::new(queue, BUFFER + 1, [0; 16], Nanos::ZERO));
    let rate = NonZeroU64::new(setup.kbit * 1_000).expect("streams send");
    for stream in 0..setup.streams {
        let mut draws = streams.stream(&format!("stream {stream} of {episode}"));
        match setup.timing {
            Timing::Poisson => paths
                .add_flow(Poisson::at_rate(FILLED, rate, Lengths::fixed(PACKET), draws), &[link]),
            Timing::Late(deviation) => {
                let period = u64::from(PACKET) * 8_000_000 / setup.kbit;
                let start = FILLED.plus(Nanos(draws.below(period)));
                let source = Cbr::at_rate(start, rate, PACKET);
                paths.add_flow(Jittered::new(source, deviation, draws), &[link])
            }
        };
    }
    let each = NonZeroU64::new(MEGABITS * 1_100_000).expect("not zero");
    let mut starts = streams.stream(&format!("flows of {episode}"));
    for _ in 0..flows {
        let start = Nanos(starts.below(u64::from(PACKET) * 8_000_000_000 / each.get()));
        paths.add_flow(Cbr::at_rate(start, each, PACKET), &[link]);
    }
    let threshold = setup.model().threshold().ceil() as u32;
    let mut seen = Occupancy {
        streams: setup.streams,
        queued: 0,
        busy: Nanos::ZERO,
        threshold,
        reached: None,
        left: 0,
    };
    let (mut now, end) = (FILLED, FILLED.plus(left));
    while now < end && !(setup.renews && seen.reached.is_some()) {
        now = now.plus(LOOK).min(end);
        paths.run_until(now, &mut seen);
    }
    let lasted = seen.reached.filter(|_| setup.renews).unwrap_or(end).since(FILLED);
    run.reached += u32::from(seen.reached.is_some());
    run.seconds += lasted.0 as f64 / 1e9;
    let sent: u64 = (0..setup.streams).map(|stream| paths.sent(FlowId(stream))).sum();
    run.sent += sent;
    run.lost += sent - seen.left;
    run.balanced &= paths.recount().is_ok();
    lasted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sqf_video::formulas::first_passage;

    /// Goal: the simulated M/D/1 queue has the mean first passage time of the formula. Method: some
    /// 450 passages, whose mean has a standard error of 5 %.
    #[test]
    fn the_queue_alone_agrees_with_its_formula() {
        let setup = Setup {
            flows: 20,
            present: false,
            streams: 1,
            kbit: 6_500,
            timing: Timing::Poisson,
            lasts: Nanos::from_secs(2_000),
            renews: true,
        };
        let Run { reached, seconds, balanced, .. } = run(&setup, 1);
        let exact = first_passage(10, 650.0, 1_000.0);
        let found = seconds / f64::from(reached);
        assert!(balanced && (found / exact - 1.0).abs() < 0.15, "{found} instead of {exact}");
    }

    /// A constant rate below that of the link never has two packets in the buffer.
    #[test]
    fn a_stream_of_constant_rate_keeps_its_priority() {
        let setup = Setup {
            flows: 20,
            present: true,
            streams: 1,
            kbit: 9_000,
            timing: Timing::Late(Nanos::ZERO),
            lasts: Nanos::from_secs(10),
            renews: false,
        };
        let run = run(&setup, 1);
        assert_eq!((run.reached, run.balanced), (0, true));
        assert!(run.lost <= 2, "{run:?}");
    }
}
