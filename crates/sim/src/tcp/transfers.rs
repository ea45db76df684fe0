//! Transfers of model TCP over one link, with sizes of which a few are long: the time of each
//! behind one queue, behind a queue for each flow, and if the least served flows go first. Each
//! queue has CoDel or PIE.
//!
//! ```text
//! servers ─▶ queue under test ─▶ link of 1 or 10 Gbit/s, half the round trip ─▶ clients
//!         ◀─ FIFO ◀─ the same link, for acknowledgements ◀─
//! ```
//!
//! Each connection is a flow of its own, as in a connection table: flows that share a queue by hash
//! would share its age. Bands are two queues for all connections, selected by a byte counter per
//! connection. The time of a transfer ends when its sender knows that everything has arrived.
//! Transfers have an even number of segments, so that the last acknowledgement is never delayed.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{
    AgeDrr, AgeFlow, AgeParams, Aqm, CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, Ecn,
    Fifo, FlowId, FlowScheduler, Limits, Nanos, Pie, PieParams, PieState, ThresholdRange,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

use super::congestion::Cubic;
use super::network::{Naming, TcpNetwork, Way};
use super::{Config, Data, PAYLOAD};
use crate::discipline::{Bottleneck, by_number, descriptors, longest, one_queue};
use crate::link::Link;
use crate::sizes::{BoundedPareto, FlowSizes};
use conformance::rng::Streams;

/// AQM of each queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAqm {
    /// CoDel, 5 ms and 100 ms (RFC 8289).
    CoDel,
    /// PIE, 15 ms (RFC 8033).
    Pie,
}

/// Queueing in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One queue.
    One,
    /// Two queues, one for transfers that have sent fewer bytes than the first number and one for
    /// the others. The second queue gets one byte in the other number; without that number the
    /// first has strict priority.
    Bands(u32, Option<u32>),
    /// A queue for each flow, sparse flows first.
    Fair,
    /// A queue for each flow, on two levels with this threshold in bytes, and one byte in the other
    /// number for the old level.
    Levels(u32, Option<u32>),
    /// A queue for each flow, on two levels with a learned threshold and strict priority.
    Learned,
    /// 16 levels from this many bytes on.
    Least(u32),
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// AQM of each queue.
    pub aqm: QueueAqm,
    /// Queueing in front of the link.
    pub form: Form,
    /// Rate of the link in Gbit/s.
    pub gigabits: u32,
    /// Mean rate of the transfers' bytes, relative to the link's.
    pub load: f64,
    /// Round-trip time without queueing, in milliseconds.
    pub round_trip: u32,
    /// Index of the Pareto distribution of sizes.
    pub shape: f64,
    /// Capacity of the queue in packets.
    pub room: u32,
}

/// Queue capacity in packets, as in FQ-CoDel (RFC 8290 §5.2.4).
pub const ROOM: u32 = 10_240;
/// Capacity in packets of the link for acknowledgements, whose rate is that of the data and many
/// times what they need.
const ACKS: u32 = 1 << 16;
/// Maximum size of short transfers in bytes.
pub const SHORT: u64 = 100_000;
/// Transfers of more bytes are long.
pub const LONG: u64 = 1_000_000;

/// Sums over the transfers of one size class.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Class {
    /// Number of transfers.
    pub count: f64,
    /// Sum of times in seconds.
    pub time: f64,
}

impl Class {
    fn add(&mut self, time: f64) {
        self.count += 1.0;
        self.time += time;
    }

    /// Returns the mean time in seconds; 0 without transfers.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count > 0.0 { self.time / self.count } else { 0.0 }
    }
}

/// Results of one run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// All transfers.
    pub all: Class,
    /// Short, medium and long transfers.
    pub classes: [Class; 3],
    /// Jain's index of the rates of long transfers.
    pub fairness: f64,
    /// Number of transfers that did not end.
    pub left: u32,
    /// Data packets lost in the queue, divided by the number of data packets of all transfers.
    pub lost: f64,
    /// Segments retransmitted, divided by the number of data packets of all transfers.
    pub resent: f64,
}

/// Returns sizes of transfers in bytes: the longest is a thousand times the shortest, the mean is
/// 100,000.
pub(crate) fn transfer_sizes(shape: f64) -> BoundedPareto {
    BoundedPareto::with_mean(shape, 100_000.0, 1_000.0).expect("in range")
}

/// Runs `count` transfers to their end, at most 60 s after the last one begins. The first tenth is
/// not counted.
///
/// # Panics
/// If a parameter is out of range.
#[must_use]
pub fn run(setup: &Setup, seed: u64, count: u32) -> Outcome {
    let rate = Rate::megabits_per_second(u64::from(setup.gigabits) * 1_000)
        .expect("a rate that lines have");
    let (streams, sizes) = (Streams::new(seed), transfer_sizes(setup.shape));
    let bytes = FlowSizes::BoundedPareto(sizes);
    let bytes = bytes.draw_from_each_part(&mut streams.stream("transfers"), count);
    let mut distances = streams.stream("begins");
    let bits = f64::from(setup.gigabits) * 1e9;
    let distance = sizes.mean() * 8.0 / bits / setup.load;
    let round_trip = Nanos::from_millis(setup.round_trip.into());
    let delay = Nanos(round_trip.0 / 2);
    let key = *b"age-based levels";
    let naming = match setup.form {
        Form::One => Naming::One,
        Form::Bands(young, _) => Naming::Sent(young.into()),
        _ => Naming::Connection,
    };
    let data = Link::new(queue(setup, rate, count as usize), setup.room + 1, key, delay);
    let limits = Limits::packets(ACKS);
    let descriptors = vec![Descriptor::EMPTY; limits.packets as usize];
    let fifo = Shaped::new(Fifo::tail_drop(descriptors, limits), Shaper::new(rate), Overhead::RAW);
    let acks = Link::new(Box::new(fifo), ACKS, key, delay);
    let mut network = TcpNetwork::new(acks, data, naming, (Nanos(0), Nanos::MAX));
    let mut at = 0.0;
    let transfers: Vec<_> = bytes
        .into_iter()
        .map(|bytes| {
            at -= libm::log(distances.unit()) * distance;
            let segments = (bytes.div_ceil(u64::from(PAYLOAD)) as u32).next_multiple_of(2);
            let control = Box::new(Cubic::new(Ecn::NotEct));
            let config = Config { segments, ..Config::new(control) };
            let begins = Nanos((at * 1e9) as u64);
            (network.connect(Way::Down, [1, 1], begins, config), segments)
        })
        .collect();
    let end = Nanos((at * 1e9) as u64).plus(Nanos::from_secs(60));
    network.run_until(end);
    network.recount().expect("the books are right");
    let mut outcome = Outcome::default();
    let repeated = |&(id, _): &_| network.sender(id).events().repeated;
    let repeated: u64 = transfers.iter().map(repeated).sum();
    let mut rates = [0.0_f64; 3];
    for (id, segments) in transfers.into_iter().skip(count as usize / 10) {
        let Some(time) = network.completion(id) else {
            outcome.left += 1;
            continue;
        };
        let time = time.0 as f64 / 1e9;
        let bytes = u64::from(segments) * u64::from(PAYLOAD);
        let class = usize::from(bytes > SHORT) + usize::from(bytes > LONG);
        outcome.all.add(time);
        outcome.classes[class].add(time);
        if class == 2 {
            let rate = bytes as f64 / time;
            rates = [rates[0] + 1.0, rates[1] + rate, rates[2] + rate * rate];
        }
    }
    outcome.fairness = rates[1] * rates[1] / (rates[0] * rates[2]);
    let books = network.link(Way::Down).books();
    let packets = books.entered as f64;
    (outcome.lost, outcome.resent) = (books.lost() as f64 / packets, repeated as f64 / packets);
    outcome
}

fn queue(setup: &Setup, rate: Rate, flows: usize) -> Box<dyn Bottleneck> {
    let within = "in range";
    let codel = |count| CoDel::new(vec![CoDelState::EMPTY; count], CoDelParams::INTERNET);
    let pie = |count| Pie::new(vec![PieState::EMPTY; count], PieParams::default(), 1);
    match setup.aqm {
        QueueAqm::CoDel => with(setup, |count| codel(count).expect(within), rate, flows),
        QueueAqm::Pie => with(setup, |count| pie(count).expect(within), rate, flows),
    }
}

/// Builds a queue. `aqm` creates the AQM for the given number of queues.
fn with<A: Aqm + 'static>(
    setup: &Setup,
    aqm: impl Fn(usize) -> A,
    rate: Rate,
    flows: usize,
) -> Box<dyn Bottleneck> {
    let (line, limits) = (Shaper::new(rate), Limits::packets(setup.room));
    let (within, len) = ("in range", Data::LEN);
    let turns = |quanta: &[u32]| {
        let mut scheduler = Drr::new(vec![DrrFlow::EMPTY; quanta.len()], len).expect(within);
        for (flow, &quantum) in (0..).map(FlowId).zip(quanta) {
            scheduler.configure(flow, quantum, None).expect(within);
        }
        scheduler
    };
    let params = match setup.form {
        Form::One => {
            let queue = one_queue(aqm(1), line, Overhead::RAW, limits, len);
            return queue.expect(within);
        }
        // A turn of 256 MB amounts to priority: no queue here is backlogged for as long.
        Form::Bands(_, floor) => {
            let young = floor.map_or(Drr::<Vec<DrrFlow>>::MAX_QUANTUM, |one_in| (one_in - 1) * len);
            return behind(turns(&[young, len]), aqm(2), line, limits);
        }
        Form::Fair => {
            let scheduler = turns(&vec![len; flows]).sparse_first();
            return behind(scheduler, aqm(flows), line, limits);
        }
        Form::Levels(threshold, floor) => {
            let params = AgeParams::two_levels(threshold);
            floor.map_or(params, |one_in| params.with_floor(one_in))
        }
        Form::Learned => {
            let range = ThresholdRange { least: 15_000, most: 10_000_000 };
            AgeParams::two_levels(100_000).with_learned_threshold(range)
        }
        Form::Least(first) => AgeParams::least_attained(first),
    };
    let mut scheduler = AgeDrr::new(vec![AgeFlow::EMPTY; flows], len, params).expect(within);
    scheduler.add_all(len).expect(within);
    behind(scheduler, aqm(flows), line, limits)
}

fn behind<S: FlowScheduler + 'static, A: Aqm + 'static>(
    scheduler: S,
    aqm: A,
    line: Shaper,
    limits: Limits,
) -> Box<dyn Bottleneck> {
    let policy = longest(scheduler.flows());
    let queues = by_number(scheduler, policy, aqm, descriptors(limits), limits);
    Box::new(Shaped::new(queues, line, Overhead::RAW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::effort::effort;

    const BUSY: Setup = Setup {
        aqm: QueueAqm::CoDel,
        form: Form::One,
        gigabits: 1,
        load: 0.9,
        round_trip: 10,
        shape: 1.3,
        room: ROOM,
    };

    /// Goal: a short version of the experiment: every transfer ends, and with two levels short ones
    /// take less time than behind one queue. Method: one seed at a load of 0.9 on 1 Gbit/s, both
    /// AQMs, bands and levels.
    #[test]
    fn short_transfers_gain_by_two_levels() {
        for aqm in [QueueAqm::CoDel, QueueAqm::Pie] {
            let of = |form| run(&Setup { aqm, form, ..BUSY }, 1, effort(1_000, 2_000));
            let one = of(Form::One);
            let short = |outcome: &Outcome| outcome.classes[0].mean();
            assert_eq!(one.left, 0);
            for form in [Form::Bands(SHORT as u32, None), Form::Levels(SHORT as u32, None)] {
                let two = of(form);
                assert_eq!(two.left, 0);
                assert!(short(&two) < 0.9 * short(&one), "{} {}", short(&two), short(&one));
            }
        }
    }
}
