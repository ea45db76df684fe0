//! Packets of the victim and of the attacks.

use core::num::NonZeroU64;

use freeboard::flowhash::{FlowKey, Labels, SipHash13, Transport, parse};
use freeboard::sched_core::{Ecn, Nanos};

use super::{Arrival, BYTE_NS, ETHERNET, SPARSE, SPARSE_EVERY, Whose};
use crate::discipline::QUEUES;
use crate::source::Cbr;
use conformance::rng::Stream;

type Arrivals = Box<dyn Iterator<Item = Arrival>>;

const VICTIM: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 1];
const SPARSE_PORT: u16 = 5_060;
/// A key different from the one in use.
const GUESSED_KEY: u128 = 0x6120_6775_6573_7320_6f66_2068_6973_2e2e;

/// Attacker behaviour. Unless stated otherwise there is one attacking host, which sends 1.5 times
/// the rate of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attack {
    /// No attack.
    None,
    /// Every packet, of this length in bytes, is the first of a flow (J01, J02).
    FreshFlows(u32),
    /// A thousand flows in turn from this many hosts, packets of 1,514 bytes (J03, J05: they fill
    /// the sets of the table at random).
    ThousandFlows(u32),
    /// Sixteen flows with labels in the set of the victim's sparse flow: the key is known (J04).
    KnownKey,
    /// The headers of `KnownKey` with labels from another key (J04).
    SecretKey,
    /// Every packet has another source address and arrives at one port (J06).
    Spoofed,
    /// Every frame is an ARP request from another Ethernet address, read by the parser.
    ArpFlood,
    /// One flow that falsely declares ECN support, with CoDel (J07).
    FalseEct,
    /// One flow with each of the 64 DSCPs in turn, including EF, read by the parser (J08).
    EveryDscp,
    /// Two hundred flows, none with a queue as long as the victim's (J09).
    ManyMedium,
    /// With CoDel: every 90 ms a burst that is drained after 80 ms at half the link's rate (J10).
    TimedBursts,
    /// Packets of 1 byte and of 65,535 bytes in turn, in one flow (J11).
    OneByteAndLongest,
    /// Fragments with ever new identifications, ever new protocol numbers, and all-zero headers,
    /// read by the parser: two hosts, one of them zero (J12).
    OddHeaders,
    /// Two hundred flows that send a packet of 1,513 bytes each time they are empty, at the rate of
    /// the link.
    UnderQuantum,
    /// A hundred flows that send three packets each in turn, at the rate of the link.
    OnOff,
}

impl Attack {
    /// All attacks, in the order of tables.
    pub const ALL: [Self; 17] = [
        Self::None,
        Self::FreshFlows(64),
        Self::FreshFlows(ETHERNET),
        Self::ThousandFlows(1),
        Self::ThousandFlows(7),
        Self::KnownKey,
        Self::SecretKey,
        Self::Spoofed,
        Self::ArpFlood,
        Self::FalseEct,
        Self::EveryDscp,
        Self::ManyMedium,
        Self::TimedBursts,
        Self::OneByteAndLongest,
        Self::OddHeaders,
        Self::UnderQuantum,
        Self::OnOff,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::None => "no attack".to_owned(),
            Self::FreshFlows(len) => format!("J01 J02 a flow a packet, {len} B"),
            Self::ThousandFlows(1) => "J03 J05 1,000 flows".to_owned(),
            Self::ThousandFlows(hosts) => format!("J03 J05 {hosts} hosts, 1,000 flows"),
            Self::KnownKey => "J04 key known".to_owned(),
            Self::SecretKey => "J04 key secret".to_owned(),
            Self::Spoofed => "J06 a source a packet".to_owned(),
            Self::ArpFlood => "ARP, a MAC a frame, 60 B".to_owned(),
            Self::FalseEct => "J07 ECT, deaf; CoDel".to_owned(),
            Self::EveryDscp => "J08 every DSCP in turn".to_owned(),
            Self::ManyMedium => "J09 200 medium queues".to_owned(),
            Self::TimedBursts => "J10 timed bursts; CoDel".to_owned(),
            Self::OneByteAndLongest => "J11 1 and 65,535 B".to_owned(),
            Self::OddHeaders => "J12 odd headers".to_owned(),
            Self::UnderQuantum => "a byte under the quantum".to_owned(),
            Self::OnOff => "on and off, 3 packets".to_owned(),
        }
    }

    /// Returns the number of sending hosts by true address, including the victim.
    #[must_use]
    pub const fn hosts(self) -> u32 {
        match self {
            Self::None => 1,
            Self::ThousandFlows(hosts) => 1 + hosts,
            Self::OddHeaders => 3,
            _ => 2,
        }
    }

    /// Returns the length of the longest packet of all flows, in bytes, which is also the quantum.
    #[must_use]
    pub const fn max_len(self) -> u32 {
        match self {
            Self::OneByteAndLongest => 65_535,
            _ => ETHERNET,
        }
    }

    /// Returns true if every queue has CoDel.
    #[must_use]
    pub const fn has_codel(self) -> bool {
        matches!(self, Self::FalseEct | Self::TimedBursts)
    }

    /// Returns true if packets have their true source addresses.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        !matches!(self, Self::Spoofed)
    }

    /// Returns the attackers' packets in order of time.
    pub(super) fn arrivals(self, hasher: SipHash13, mut random: Stream) -> Arrivals {
        const HALF_MORE: u64 = 150;
        let key = |host: u8, flow: u32| udp([10, 0, 0, host], flow);
        let labels = move |key: FlowKey| Labels::new(&key, &hasher);
        let one_host = move |flow: u32| (labels(key(1, flow)), 1);
        match self {
            Self::None => Box::new(core::iter::empty()),
            Self::FreshFlows(len) => paced(HALF_MORE, move |n| (one_host(n), len)),
            Self::ThousandFlows(hosts) => paced(HALF_MORE, move |n| {
                let host = n % hosts;
                ((labels(key(1 + host as u8, n / hosts % 1_000)), 1 + host), ETHERNET)
            }),
            Self::KnownKey => {
                let found = colliding(hasher);
                paced(HALF_MORE, move |n| ((labels(found[n as usize % found.len()]), 1), ETHERNET))
            }
            Self::SecretKey => {
                let found = colliding(SipHash13::new(GUESSED_KEY.to_be_bytes()));
                paced(HALF_MORE, move |n| ((labels(found[n as usize % found.len()]), 1), ETHERNET))
            }
            Self::Spoofed => paced(HALF_MORE, move |n| {
                let source = (random.bits() as u32).to_be_bytes();
                ((labels(udp(source, n)), 1), ETHERNET)
            }),
            Self::ArpFlood => paced(HALF_MORE, move |_| {
                let frame = arp_frame((random.bits() as u32).to_be_bytes());
                ((labels(parse::ethernet(&frame).key), 1), frame.len() as u32)
            }),
            Self::FalseEct => {
                let plain = paced(HALF_MORE, move |_| (one_host(0), ETHERNET));
                Box::new(plain.map(|arrival| Arrival { ecn: Ecn::Ect0, ..arrival }))
            }
            Self::EveryDscp => paced(HALF_MORE, move |n| {
                ((labels(parse::ethernet(&marked_frame(n)).key), 1), ETHERNET)
            }),
            Self::ManyMedium => paced(HALF_MORE, move |n| (one_host(n % 200), ETHERNET)),
            Self::TimedBursts => {
                let (every, lasts) = (Nanos::from_millis(90), Nanos::from_millis(80));
                let burst = lasts.0 / (2 * BYTE_NS * u64::from(ETHERNET));
                let attacker = one_host(0);
                Box::new((0_u64..).flat_map(move |n| {
                    let at = Nanos(n * every.0);
                    (0..burst).map(move |_| attacker_packet(at, attacker, ETHERNET))
                }))
            }
            Self::OneByteAndLongest => {
                paced(HALF_MORE, move |n| (one_host(0), if n % 2 == 0 { 1 } else { 65_535 }))
            }
            Self::OddHeaders => paced(HALF_MORE, move |n| {
                let frame = odd_frame(n);
                let port = if n % 3 == 2 { 2 } else { 1 };
                ((labels(parse::ethernet(&frame).key), port), ETHERNET)
            }),
            Self::UnderQuantum => paced(100, move |n| (one_host(n % 200), ETHERNET - 1)),
            Self::OnOff => paced(100, move |n| (one_host(n / 3 % 100), ETHERNET)),
        }
    }
}

/// Returns the packets of the victim's bulk flow and of its sparse flow.
pub(super) fn victim(hasher: SipHash13, mut random: Stream) -> (Arrivals, Arrivals) {
    let of = |key: FlowKey| Labels::new(&key, &hasher);
    let (bulk, sparse) = (of(victim_key(443)), of(victim_key(SPARSE_PORT)));
    let packet =
        |at, whose, labels, len| Arrival { at, whose, labels, port: 0, len, ecn: Ecn::NotEct };
    let line = NonZeroU64::new(8_000_000_000 / BYTE_NS).expect("a link has a rate");
    let bulk = Cbr::at_rate(Nanos::ZERO, line, ETHERNET)
        .map(move |sent| packet(sent.at, Whose::Bulk, bulk, ETHERNET));
    let sparse = Cbr::new(Nanos::ZERO, SPARSE_EVERY, SPARSE).map(move |sent| {
        let at = sent.at.plus(Nanos(random.below(SPARSE_EVERY.0)));
        packet(at, Whose::Sparse, sparse, SPARSE)
    });
    (Box::new(bulk), Box::new(sparse))
}

fn victim_key(src_port: u16) -> FlowKey {
    let transport = Transport { protocol: 17, src_port, dst_port: src_port };
    FlowKey::V4 { src: VICTIM, dst: SERVER, transport }
}

/// Returns the key of an attacker's flow with this number.
fn udp(src: [u8; 4], flow: u32) -> FlowKey {
    let [_, third, high, low] = flow.to_be_bytes();
    let transport =
        Transport { protocol: 17, src_port: u16::from_be_bytes([high, low]), dst_port: 9 };
    FlowKey::V4 { src, dst: [198, 51, 100, third], transport }
}

/// Returns packets at `hundredths` of the link's rate, whose flow, host, port and length are
/// functions of their number.
fn paced(
    hundredths: u64,
    mut packet: impl FnMut(u32) -> ((Labels, u32), u32) + 'static,
) -> Arrivals {
    let mut sent_bytes = 0_u64;
    Box::new((0..u32::MAX).map(move |n| {
        let at = Nanos(sent_bytes * BYTE_NS * 100 / hundredths);
        let (of, len) = packet(n);
        sent_bytes += u64::from(len);
        attacker_packet(at, of, len)
    }))
}

fn attacker_packet(at: Nanos, (labels, port): (Labels, u32), len: u32) -> Arrival {
    Arrival { at, whose: Whose::Attacker, labels, port, len, ecn: Ecn::NotEct }
}

/// Returns sixteen flows of one host in the set of the victim's sparse flow, if labels come from
/// `hasher`.
fn colliding(hasher: SipHash13) -> Vec<FlowKey> {
    let set = |key: &FlowKey| key.label(&hasher) % QUEUES / 8;
    let of_victim = set(&victim_key(SPARSE_PORT));
    let keys = (0..).map(|flow| udp([10, 0, 0, 1], flow));
    keys.filter(|key| set(key) == of_victim).take(16).collect()
}

/// Builds a datagram of one flow; the DSCP follows from its number.
fn marked_frame(n: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let dscp = (n % 64) as u8;
    let first = [0x45, dscp << 2, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0];
    let header = [first.as_slice(), &[10, 0, 0, 1], &SERVER, &[0, 7, 0, 9]];
    frame[14..38].copy_from_slice(&header.concat());
    frame
}

/// Builds a broadcast ARP request from the Ethernet address with this ending.
fn arp_frame(device: [u8; 4]) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..8].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0]);
    frame[8..12].copy_from_slice(&device);
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame
}

/// Builds in turn: a non-first fragment of a packet of its own; a packet of an unknown protocol;
/// zeros.
fn odd_frame(n: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    if n % 3 == 2 {
        return frame;
    }
    let [_, _, high, low] = n.to_be_bytes();
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let is_fragment = n.is_multiple_of(3);
    let offset = if is_fragment { [0x20, 0xb9] } else { [0, 0] };
    let protocol = if is_fragment { 17 } else { 143 + (n / 3 % 100) as u8 };
    let header = [
        [0x45, 0, 0, 50].as_slice(),
        &[high, low],
        &offset,
        &[64, protocol, 0, 0],
        &[10, 0, 0, 1],
        &SERVER,
    ];
    frame[14..34].copy_from_slice(&header.concat());
    frame
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use conformance::rng::Streams;
    use freeboard::flowhash::Ending;

    /// Goal: odd headers are parsed as intended, each kind having one defined flow or one for each
    /// protocol number, and one host. Method: compare with the parser's result for each.
    #[test]
    fn odd_headers_end_where_they_should() {
        for n in 0..600 {
            let parsed = parse::ethernet(&odd_frame(n));
            let expected = [Ending::Fragment, Ending::NoPorts, Ending::NotIp][n as usize % 3];
            assert_eq!(parsed.ending, expected, "{n}");
            let same = parse::ethernet(&odd_frame(n + 300));
            assert_eq!(parsed.key, same.key, "fragments of all packets are one flow: {n}");
        }
    }

    #[test]
    fn a_flood_of_arp_is_a_flow_for_each_device_and_one_host() {
        let keys = [[1, 2, 3, 4], [1, 2, 3, 5]].map(|device| {
            let parsed = parse::ethernet(&arp_frame(device));
            assert_eq!(parsed.ending, Ending::Arp);
            parsed.key
        });
        assert_ne!(keys[0], keys[1]);
        assert_eq!(keys[0].src_host(), keys[1].src_host());
    }

    #[test]
    fn every_dscp_is_said_in_one_flow() {
        let dscps: BTreeSet<u8> = (0..64)
            .map(|n| {
                let parsed = parse::ethernet(&marked_frame(n));
                assert_eq!(parsed.key, parse::ethernet(&marked_frame(0)).key);
                assert_eq!(parsed.ending, Ending::Ports);
                parsed.ip.map(|ip| ip.dscp()).unwrap()
            })
            .collect();
        assert!(dscps.iter().copied().eq(0..64));
    }

    #[test]
    fn a_known_key_leads_to_one_set_and_a_secret_one_does_not() {
        let (known, guessed) = (SipHash13::new([1; 16]), SipHash13::new([2; 16]));
        let sets = |keys: &[FlowKey]| {
            let mut sets: Vec<u32> =
                keys.iter().map(|key| key.label(&known) % QUEUES / 8).collect();
            sets.sort_unstable();
            sets.dedup();
            sets.len()
        };
        assert_eq!(sets(&colliding(known)), 1);
        assert!(sets(&colliding(guessed)) > 8);
    }

    #[test]
    fn attackers_send_in_order_of_time_and_as_fast_as_they_should() {
        let hasher = SipHash13::new([3; 16]);
        for attack in Attack::ALL {
            let stream = Streams::new(1).stream("attackers");
            let sent: Vec<Arrival> = attack.arrivals(hasher, stream).take(20_000).collect();
            assert!(sent.is_sorted_by_key(|arrival| arrival.at), "{attack:?}");
            let Some(last) = sent.last() else {
                assert_eq!(attack, Attack::None);
                continue;
            };
            let bytes: u64 = sent.iter().map(|arrival| u64::from(arrival.len)).sum();
            let load = (bytes * BYTE_NS) as f64 / last.at.0 as f64;
            let expected = match attack {
                Attack::UnderQuantum | Attack::OnOff => 1.0,
                Attack::TimedBursts => 0.44,
                _ => 1.5,
            };
            assert!((load / expected - 1.0).abs() < 0.03, "{attack:?}: {load}");
            assert!(sent.iter().all(|arrival| (1..=attack.max_len()).contains(&arrival.len)));
        }
    }
}
