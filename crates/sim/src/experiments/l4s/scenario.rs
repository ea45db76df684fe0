//! A scalable sender beside classic ones, calls, and an unresponsive source, over one link.
//!
//! ```text
//! hosts A, B, C, D ─▶ queue under test ─▶ 40 Mbit/s, 10 ms ─▶ servers
//!                  ◀─ FIFO ◀─ 1 Gbit/s, 10 ms, for acknowledgements ◀─
//! ```
//!
//! The call is NQB traffic (RFC 9956, DSCP 45): 160 bytes every 20 ms, headers included, from host
//! A. Queues without tins ignore its code point, and a queue that isolates flows does not need it.
//! RFC 9956 lets it share the L4S queue if there are two queues; `DualPi2` classifies by ECN, so
//! the call has ECT(1) there.

use core::fmt;
use core::num::NonZeroU64;

use freeboard::sched_core::{
    ConfigError, Descriptor, DualPi2, DualPi2Params, Ecn, Fifo, Imbalance, Limits, Nanos,
};
use freeboard::shaper::{Framing, Overhead, Rate, Shaped, Shaper};
use freeboard::{AqmKind, Dscp, Isolation};

use crate::discipline::{Bottleneck, isolated_smart};
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use crate::source::Cbr;
use crate::tcp::congestion::{Controller, Cubic, Prague};
use crate::tcp::network::{Naming, TcpNetwork, Way};
use crate::tcp::{Config, Data};
use conformance::rng::Streams;

/// Queue in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Flow and host isolation, with COBALT in each queue.
    Cobalt,
    /// Flow and host isolation, with COBALT and the threshold for ECT(1) in each queue.
    CobaltL4s,
    /// Flow and host isolation, with `CoDel` and the threshold in each queue.
    CoDelL4s,
    /// Two coupled queues (RFC 9332).
    DualPi2,
}

impl Queueing {
    /// All queues, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Cobalt, Self::CobaltL4s, Self::CoDelL4s, Self::DualPi2];

    /// Returns true if each flow has a queue of its own.
    #[must_use]
    pub const fn isolates(self) -> bool {
        !matches!(self, Self::DualPi2)
    }

    fn before(self, rate: Rate) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let line = Shaper::new(rate);
        let link = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
        let (aqm, l4s) = match self {
            Self::Cobalt => (AqmKind::Cobalt, false),
            Self::CobaltL4s => (AqmKind::Cobalt, true),
            Self::CoDelL4s => (AqmKind::CoDel, true),
            Self::DualPi2 => {
                let descriptors = vec![Descriptor::EMPTY; LIMITS.packets as usize + 1];
                let queue = DualPi2::new(descriptors, DualPi2Params::default(), LIMITS)?;
                return Ok(Box::new(Shaped::new(queue, line, link)));
            }
        };
        Ok(isolated_smart(Isolation::DualSrcHost, aqm, l4s, line, link, LIMITS, Data::LEN))
    }
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cobalt => "isolated, COBALT",
            Self::CobaltL4s => "isolated, COBALT, L4S",
            Self::CoDelL4s => "isolated, CoDel, L4S",
            Self::DualPi2 => "DualPI2",
        })
    }
}

/// Traffic beside the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name in tables.
    pub name: &'static str,
    /// Number of Prague-like senders of host A.
    pub prague: u8,
    /// Number of CUBIC senders.
    pub cubic: u8,
    /// True if the CUBIC senders are also on host A; otherwise they are on host B.
    pub shares_host: bool,
    /// True if host C sends unresponsive ECT(1) traffic at 1.5 times the rate of the link.
    pub deaf: bool,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: Queueing,
    /// Traffic beside the call.
    pub load: Load,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of one kind of traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficReport {
    /// Queueing delay of each packet, without its transmission time and the propagation delay.
    pub added: Delays,
    /// Payload that arrived in order, of TCP senders.
    pub bytes: u64,
    /// Loss of the call and of the unresponsive source.
    pub loss: Loss,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// All Prague-like senders.
    pub prague: TrafficReport,
    /// All CUBIC senders.
    pub cubic: TrafficReport,
    /// The call.
    pub call: TrafficReport,
    /// The unresponsive source.
    pub deaf: TrafficReport,
    /// Segments that arrived at the scalable receivers, and the number of marked ones.
    pub marks: [u64; 2],
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Rate of the link in Mbit/s.
pub const MEGABITS: u32 = 40;
/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(5);
/// Bytes that the link adds to a packet.
pub const HEADER: u32 = 14;
/// Round-trip time without queueing.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(20);
/// Limit of queued packets.
pub const LIMITS: Limits = Limits { packets: 1_000, bytes: u32::MAX };
/// UDP payload of the call and of the unresponsive source.
const CALL: u32 = 132;
const DEAF: u32 = 1_472;
const DEAF_RATE: NonZeroU64 = NonZeroU64::new(MEGABITS as u64 * 1_500_000).unwrap();
/// Time to send the packets that are queued when the measurement ends.
const DRAIN: Nanos = Nanos::from_secs(2);

/// Runs the scenario once.
///
/// # Errors
/// [`ConfigError`] if the queue cannot be built.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let Setup { queueing, load, measured, seed } = *setup;
    let end = WARM_UP.plus(measured);
    let streams = Streams::new(seed);
    let rate = Rate::megabits_per_second(MEGABITS.into()).expect("a rate that lines have");
    let mut keys = streams.stream("flow-hash");
    let mut key = || (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
    let half = Nanos(ROUND_TRIP.0 / 2);
    let up = Link::new(queueing.before(rate)?, LIMITS.packets + 1, key(), half);
    let back = Rate::megabits_per_second(1_000).expect("a rate that lines have");
    let descriptors = vec![Descriptor::EMPTY; LIMITS.packets as usize + 1];
    let fifo = Shaped::new(Fifo::tail_drop(descriptors, LIMITS), Shaper::new(back), Overhead::RAW);
    let down = Link::new(Box::new(fifo), LIMITS.packets + 1, key(), half);
    let mut network = TcpNetwork::new(up, down, Naming::Key, (WARM_UP, end));

    let mut starts = streams.stream("starts");
    let mut connect = |host, count, control: fn() -> Box<dyn Controller>| {
        let one = |number: u8| {
            let begins = Nanos(starts.below(1_000_000_000));
            network.connect(Way::Up, [host, number], begins, Config::new(control()))
        };
        (0..count).map(one).collect::<Vec<_>>()
    };
    let prague = connect(A, load.prague, || Box::new(Prague::new()));
    let cubic_host = if load.shares_host { A } else { B };
    let cubic = connect(cubic_host, load.cubic, || Box::new(Cubic::new(Ecn::NotEct)));
    for &id in prague.iter().chain(&cubic) {
        network.measure_delays(id);
    }
    let mut phases = streams.stream("phases");
    let call = Cbr::new(Nanos(phases.below(20_000_000)), Nanos::from_millis(20), CALL);
    let ecn = if queueing.isolates() { Ecn::NotEct } else { Ecn::Ect1 };
    let call = network.add_source_with_ecn(Way::Up, [A, 201], ecn, call);
    network.mark_source(call, Dscp::NQB);
    let deaf = load.deaf.then(|| {
        let source = Cbr::at_rate(Nanos(phases.below(2_000_000)), DEAF_RATE, DEAF);
        network.add_source_with_ecn(Way::Up, [C, 202], Ecn::Ect1, source)
    });
    network.run_until(end.plus(DRAIN));

    let beyond = |delays: &Delays, len| {
        let alone = half.plus(rate.time_of(len + HEADER));
        delays.samples().iter().map(|delay| delay.since(alone)).collect::<Delays>()
    };
    let transfers = |ids: &[_]| TrafficReport {
        added: ids
            .iter()
            .flat_map(|&id| beyond(network.segment_delays(id), Data::LEN).samples().to_vec())
            .collect(),
        bytes: ids.iter().map(|&id| network.goodput(id).bytes()).sum(),
        loss: Loss::default(),
    };
    let datagrams = |id, payload: u32| {
        let (added, loss) = (beyond(network.delays(id), payload + 28), network.loss(id));
        TrafficReport { added, bytes: (loss.sent - loss.lost) * u64::from(payload), loss }
    };
    let marks = prague.iter().map(|&id| network.receiver(id)).fold([0; 2], |[all, marked], end| {
        [all + u64::from(end.in_order()), marked + u64::from(end.marks())]
    });
    Ok(Outcome {
        prague: transfers(&prague),
        cubic: transfers(&cubic),
        call: datagrams(call, CALL),
        deaf: deaf.map(|id| datagrams(id, DEAF)).unwrap_or_default(),
        marks,
        recount: network.recount(),
    })
}

/// Last bytes of the home addresses.
const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
