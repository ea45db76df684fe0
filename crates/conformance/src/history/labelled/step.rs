//! Operations on the isolated queue with labelled packets.

use freeboard::flowhash::Labels;
use freeboard::sched_core::{Limits, Nanos, TinConfig, TokenBucket};
use freeboard::shaper::{Framing, Layer, Overhead, OverheadError};
use freeboard::{HostTerms, Isolation, Labelled};

use crate::history::operation::pick;

/// Number of handles.
pub(super) const HANDLES: u32 = 48;
pub(super) const MAX_LEN: u32 = 1_500;

/// Labels of a packet and terms of its hosts.
#[derive(Clone, Copy, Debug)]
pub struct WithTerms {
    /// Labels under the current key.
    pub labels: Labels,
    /// Terms of both the source and the destination host.
    pub terms: HostTerms,
    /// Tin; may be out of range.
    pub tin: u8,
}

impl Labelled for WithTerms {
    fn flow(&self) -> u32 {
        self.labels.flow
    }

    fn source(&self) -> u32 {
        self.labels.src_host
    }

    fn destination(&self) -> u32 {
        self.labels.dst_host
    }

    fn tin(&self) -> u8 {
        self.tin
    }

    fn host_terms(&self) -> HostTerms {
        self.terms
    }
}

impl WithTerms {
    /// Applies a key; key 0 leaves the labels unchanged. The number of possible labels is small, so
    /// flows share tags.
    pub(super) fn under(self, key: u32) -> Self {
        let bits = key.wrapping_mul(0x9e37_79b1) >> 27;
        let labels = Labels {
            flow: self.labels.flow ^ bits,
            src_host: self.labels.src_host ^ bits & 7,
            dst_host: self.labels.dst_host ^ bits & 7,
        };
        Self { labels, ..self }
    }
}

/// An operation on an isolated queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Enqueue {
        of: WithTerms,
        len: u32,
    },
    EnqueueAs {
        of: WithTerms,
        len: u32,
        handle: u32,
    },
    Dequeue,
    Update(WithTerms),
    SetIsolation(Isolation),
    /// Sets the number of tins and their configuration.
    SetTins(u8, u8),
    /// Sets whether a host has one share across all tins.
    SetAcross(bool),
    SetLimits(Limits),
    /// Sets the overhead of packets on the link.
    SetOverhead(Overhead),
    Evict,
    /// Changes the key.
    Rotate,
    /// Resets all records and keeps the settings.
    Rebuild,
    Drain,
    Wait(Nanos),
    Back(Nanos),
}

const LENGTHS: [u32; 8] = [1, 60, 64, 500, 700, 1_000, 1_500, 1_500];
const ODD_LENGTHS: [u32; 8] = [0, 1_501, 65_536, u32::MAX, 3_000, 7_000, 20_000, 60_000];
const QUANTA: [Option<u32>; 8] =
    [None, None, None, None, Some(0), Some(3_000), Some(7_500), Some(u32::MAX)];
/// Isolation modes; half of them have a level of hosts that may have rates.
const ISOLATIONS: [Isolation; 10] = [
    Isolation::DualSrcHost,
    Isolation::DualDstHost,
    Isolation::Flows,
    Isolation::DualSrcHost,
    Isolation::SrcHost,
    Isolation::TripleIsolate,
    Isolation::DualDstHost,
    Isolation::DstHost,
    Isolation::DualSrcHost,
    Isolation::Hosts,
];
/// Rate in Mbit/s and burst in bytes. The link has 8 Gbit/s, one byte per nanosecond.
const RATES: [Option<(u64, u32)>; 8] = [
    None,
    None,
    None,
    Some((100, 1)),
    Some((800, 3_000)),
    Some((800, 3_000)),
    Some((2_999, 1_700)),
    Some((399_999, 20_000)),
];
const CEILINGS: [Option<(u64, u32)>; 8] =
    [None, Some((800, 3_000)), None, None, Some((1_500, 9_000)), None, Some((2_999, 1)), None];
const PACKETS: [u32; 8] = [u32::MAX, HANDLES, 40, 24, 12, 6, 2, 0];
const BYTES: [u32; 8] = [u32::MAX, 40_000, 20_000, 9_000, 6_000, 3_000, 1_500, 99];

/// Overheads: none, small and large ones, with padding, with a minimum, and negative.
const LINKS: [Overhead; 8] = [
    Overhead::RAW,
    Overhead::PPPOE_LLCSNAP,
    Overhead::ETHERNET,
    Overhead::RAW,
    Overhead::PPPOE_PTM.for_frames(14),
    Overhead::CONSERVATIVE,
    checked(Overhead::new(Framing::None, -64, 0)),
    checked(checked(Overhead::new(Framing::Xgem, 100, 256)).carrying(Layer::WIREGUARD)),
];

/// Unwraps a valid overhead.
const fn checked(link: Result<Overhead, OverheadError>) -> Overhead {
    match link {
        Ok(link) => link,
        Err(_) => panic!("out of range"),
    }
}

impl Step {
    /// Decodes a step; all byte sequences are valid. Half of the values of the first byte are
    /// arrivals, more than a third departures.
    pub(super) fn decode(next: &mut impl FnMut() -> Option<u8>) -> Option<Self> {
        Some(match next()? {
            0..=127 => Self::Enqueue { of: labels(next)?, len: pick(&LENGTHS, next()?) },
            128..=221 => Self::Dequeue,
            222..=229 => {
                let (of, byte, handle) = (labels(next)?, next()?, next()?);
                let len = if byte < 128 { pick(&ODD_LENGTHS, byte) } else { pick(&LENGTHS, byte) };
                Self::EnqueueAs { of, len, handle: u32::from(handle) % (HANDLES + 2) }
            }
            230..=232 => Self::SetIsolation(pick(&ISOLATIONS, next()?)),
            233..=234 => Self::SetTins(next()?, next()?),
            235..=240 => Self::SetLimits(limits(next()?, next()?)),
            241..=242 => Self::SetOverhead(pick(&LINKS, next()?)),
            243..=245 => Self::Evict,
            246..=248 => Self::Rotate,
            249 => Self::Rebuild,
            250 => Self::Drain,
            251 => Self::Update(labels(next)?),
            252 => Self::SetLimits(Limits::NONE),
            253 => Self::SetAcross(next()? % 4 > 0),
            254 => Self::Wait(Nanos(1 << (next()? % 20))),
            255 => Self::Back(Nanos(1 << (next()? % 20))),
        })
    }
}

/// Decodes one of 32 flows, usually with the hosts of its other packets.
fn labels(next: &mut impl FnMut() -> Option<u8>) -> Option<WithTerms> {
    let (flow, hosts) = (next()?, next()?);
    let (source, destination) = match hosts {
        0..224 => (flow % 5, flow / 5 % 6),
        _ => (hosts % 11, hosts / 3 % 11),
    };
    let quantum = if hosts < 224 { flow / 32 } else { 0 };
    let labels =
        Labels { flow: (flow % 32).into(), src_host: source.into(), dst_host: destination.into() };
    // Derived from the source, so that a host usually has the same rates when it returns.
    let of_host = source.wrapping_add(hosts / 200);
    let bits = |mbit: u64| mbit * 1_000_000;
    let rate = pick(&RATES, of_host);
    let rate = rate.map(|(mbit, burst)| TokenBucket::new(bits(mbit), burst).expect("in range"));
    let rate = rate.map(|rate| if hosts % 4 == 3 { rate.with_free_borrowing() } else { rate });
    let ceiling = pick(&CEILINGS, of_host);
    let ceiling =
        ceiling.map(|(mbit, burst)| TokenBucket::new(bits(mbit), burst).expect("in range"));
    let terms = HostTerms { quantum: pick(&QUANTA, quantum), committed_rate: rate, ceiling };
    // A flow uses two tins; one packet in eight uses another one.
    let tin = if hosts % 8 < 7 { flow % 4 + hosts / 8 % 2 } else { hosts / 16 };
    Some(WithTerms { labels, terms, tin })
}

/// Returns the configuration of one to eight tins. The link has 8 Gbit/s.
pub(super) fn tins(count: u8, plan: u8) -> Vec<TinConfig> {
    let count = [1, 2, 3, 4, 4, 5, 8, 8][usize::from(count % 8)];
    let part = |tin: u64| 8_000_000_000 >> ((u64::from(plan / 4) % 5 + tin) % 7);
    let tin = |tin| match plan % 4 {
        0 => TinConfig::by_weight(1 + tin as u32 * u32::from(plan / 4)),
        1 if tin == 1 => TinConfig::by_weight(3),
        _ => TinConfig::by_weight(2).with_rate(part(tin)),
    };
    (0..count).map(tin).collect()
}

fn limits(packets: u8, bytes: u8) -> Limits {
    // Usually one limit at a time.
    let packets = if packets < 128 { u32::MAX } else { pick(&PACKETS, packets) };
    let bytes = if bytes < 96 { u32::MAX } else { pick(&BYTES, bytes) };
    Limits { packets, bytes }
}
