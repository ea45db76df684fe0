//! Any AQM: in one queue, or in each queue of flows by hash with sparse flows first.

use core::fmt;

use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, ConfigError, DualPi2,
    DualPi2Params, Limits, OwnVictim, Packet, Pie, PieParams, PieState,
};
use freeboard::shaper::{Overhead, Shaped, Shaper};
use freeboard::{AqmKind, Isolation};

use super::isolated::{isolated_smart, isolated_with};
use super::{Bottleneck, Discipline, QUEUES, by_hash, by_number, descriptors, drr, longest};

/// Creates one queue for all packets. They arrive as flow 0, whose state in `aqm` is used. A full
/// queue drops its oldest packet.
///
/// # Errors
/// [`ConfigError`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`].
pub fn one_queue<A: Aqm + 'static>(
    aqm: A,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let queue = by_number(drr(1, max_len)?, OwnVictim, aqm, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Creates [`QUEUES`] queues for flows by hash under deficit round robin, sparse flows first, with
/// `aqm` in each queue: the structure of FQ-CoDel (RFC 8290). `aqm` must have as many states. A
/// full buffer drops from the longest queue.
///
/// # Errors
/// [`ConfigError`] if the scheduler rejects `max_len`.
pub fn fair_queues<A: Aqm + 'static>(
    aqm: A,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let drr = drr(QUEUES, max_len.clamp(1, Packet::MAX_LEN))?.sparse_first();
    let queue = by_hash(drr, longest(QUEUES), aqm, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Creates [`fair_queues`] with CoDel and its parameters for the Internet: FQ-CoDel.
///
/// # Errors
/// [`ConfigError`] if the scheduler rejects `max_len`.
pub fn fq_codel(
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let states = vec![CoDelState::EMPTY; QUEUES as usize];
    fair_queues(CoDel::new(states, CoDelParams::INTERNET)?, line, link, limits, max_len)
}

/// A queue as it is compared with Linux's: with the limits and the default parameters of its AQM
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// FIFO with a limit of this many packets.
    Fifo(u32),
    /// One queue with CoDel.
    CoDel,
    /// A queue for each flow, sparse flows first, with CoDel in each.
    FqCoDel,
    /// One queue with PIE.
    Pie,
    /// A queue for each flow, sparse flows first, with PIE in each.
    FqPie,
    /// A queue for each flow, sparse flows first, with COBALT in each.
    FqCobalt,
    /// The isolated queue in the mode `triple-isolate`, with COBALT in each queue: the structure of
    /// CAKE.
    Isolated,
    /// The isolated queue with this AQM, as [`freeboard::SmartQueue`] configures it.
    Smart(AqmKind),
    /// The isolated queue with PIE.
    IsolatedPie,
    /// The isolated queue in the mode `dual-srchost` with this AQM in each queue.
    Hosts(AqmKind),
    /// Like `Hosts`, with the threshold for ECT(1) in each queue.
    HostsL4s(AqmKind),
    /// Two coupled queues (RFC 9332).
    DualPi2,
}

impl Managed {
    /// Returns true if there is one queue for all flows, which arrive as flow 0.
    #[must_use]
    pub const fn is_one_queue(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::CoDel | Self::Pie)
    }

    /// Returns the limit of queued packets: that of the FIFO, 1,000 for one queue with an AQM and
    /// for queues that are compared with `DualPi2`, and FQ-CoDel's default.
    #[must_use]
    pub const fn limits(self) -> Limits {
        let packets = match self {
            Self::Fifo(packets) => packets,
            Self::CoDel | Self::Pie | Self::DualPi2 | Self::Hosts(_) | Self::HostsL4s(_) => 1_000,
            _ => 10_240,
        };
        Limits { packets, bytes: u32::MAX }
    }

    /// Creates an empty queue in front of `line` for packets of at most `max_len` bytes. `seed` is
    /// that of the AQM's random numbers.
    ///
    /// # Errors
    /// [`ConfigError`] if `max_len` is not the length of a packet.
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        max_len: u32,
        seed: u64,
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        const TRIPLE: Isolation = Isolation::TripleIsolate;
        let limits = self.limits();
        let mtu_time = line.rate().time_of(link.wire_len(max_len));
        let pie = |queues| Pie::new(vec![PieState::EMPTY; queues], PieParams::default(), seed);
        let cobalt = |queues| {
            let params = CobaltParams::INTERNET.with_mtu_time(mtu_time);
            Cobalt::new(vec![CobaltState::EMPTY; queues], params, seed)
        };
        let queues = QUEUES as usize;
        match self {
            Self::Fifo(_) => Ok(Discipline::Fifo.behind(line, link, limits, max_len)),
            Self::CoDel => {
                let aqm = CoDel::new(vec![CoDelState::EMPTY], CoDelParams::INTERNET)?;
                one_queue(aqm, line, link, limits, max_len)
            }
            Self::FqCoDel => fq_codel(line, link, limits, max_len),
            Self::Pie => one_queue(pie(1)?, line, link, limits, max_len),
            Self::FqPie => fair_queues(pie(queues)?, line, link, limits, max_len),
            Self::FqCobalt => fair_queues(cobalt(queues)?, line, link, limits, max_len),
            Self::Isolated => isolated_with(TRIPLE, cobalt, line, link, limits, max_len),
            Self::Smart(aqm) => Ok(isolated_smart(TRIPLE, aqm, true, line, link, limits, max_len)),
            Self::IsolatedPie => isolated_with(TRIPLE, pie, line, link, limits, max_len),
            Self::Hosts(aqm) | Self::HostsL4s(aqm) => {
                let (isolation, l4s) = (Isolation::DualSrcHost, matches!(self, Self::HostsL4s(_)));
                Ok(isolated_smart(isolation, aqm, l4s, line, link, limits, max_len))
            }
            Self::DualPi2 => {
                let queue = DualPi2::new(descriptors(limits), DualPi2Params::default(), limits)?;
                Ok(Box::new(Shaped::new(queue, line, link)))
            }
        }
    }
}

impl fmt::Display for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(packets) => write!(f, "FIFO, {packets} packets"),
            Self::CoDel => f.pad("CoDel"),
            Self::FqCoDel => f.pad("FQ-CoDel"),
            Self::Pie => f.pad("PIE"),
            Self::FqPie => f.pad("FQ-PIE"),
            Self::FqCobalt => f.pad("FQ-COBALT"),
            Self::Isolated => f.pad("isolated (CAKE)"),
            Self::Smart(aqm) => f.pad(name(*aqm)),
            Self::IsolatedPie => f.pad("PIE"),
            Self::Hosts(aqm) => write!(f, "isolated, {}", name(*aqm)),
            Self::HostsL4s(aqm) => write!(f, "isolated, {}, L4S", name(*aqm)),
            Self::DualPi2 => f.pad("DualPI2"),
        }
    }
}

const fn name(aqm: AqmKind) -> &'static str {
    match aqm {
        AqmKind::None => "none",
        AqmKind::CoDel => "CoDel",
        _ => "COBALT",
    }
}
