//! The packets of the victim, and of each of the attacks.

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
/// A key that is not the one in use.
const GUESSED_KEY: u128 = 0x6120_6775_6573_7320_6f66_2068_6973_2e2e;

/// What the attackers do. Where nothing else is said it is one host, and it sends one and a half
/// times what the link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attack {
    /// Nothing.
    None,
    /// Every packet, of this length in bytes, is the first of a flow (J01, J02).
    FreshFlows(u32),
    /// A thousand flows in turn, all of this many hosts, packets of 1,514 bytes (J03, J05: they
    /// fill the sets of the table at random).
    ThousandFlows(u32),
    /// Sixteen flows whose labels lie in the set of the victim's sparse flow: the key is known
    /// (J04).
    KnownKey,
    /// The same headers, with labels from another key (J04).
    SecretKey,
    /// Every packet has another source address and comes in by the same port (J06).
    Spoofed,
    /// Every frame is a question of ARP from another address of Ethernet, read by the parser.
    ArpFlood,
    /// One flow that says it understands marks, and does not, under CoDel (J07).
    FalseEct,
    /// One flow that says each of the 64 DSCPs in turn, EF among them, read by the parser (J08).
    EveryDscp,
    /// Two hundred flows, none as long as the victim's (J09).
    ManyMedium,
    /// Under CoDel: every 90 ms a burst that at half the link is gone after 80 ms (J10).
    TimedBursts,
    /// Packets of one byte and of 65,535 in turn, in one flow (J11).
    OneByteAndLongest,
    /// Fragments of packets with ever new identifications, ever new protocol numbers, and headers
    /// of zeros, read by the parser: two hosts, one of them zero (J12).
    OddHeaders,
    /// Two hundred flows that send a packet of 1,513 bytes each time they are empty, as much as the
    /// link carries.
    UnderQuantum,
    /// A hundred flows that come in turn with three packets, as much as the link carries.
    OnOff,
}

impl Attack {
    /// All of them, in the order of tables.
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

    /// The name in tables.
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

    /// Hosts that send, the victim included, as their true addresses are.
    #[must_use]
    pub const fn hosts(self) -> u32 {
        match self {
            Self::None => 1,
            Self::ThousandFlows(hosts) => 1 + hosts,
            Self::OddHeaders => 3,
            _ => 2,
        }
    }

    /// The longest packet of all flows, in bytes: also the quantum.
    #[must_use]
    pub const fn max_len(self) -> u32 {
        match self {
            Self::OneByteAndLongest => 65_535,
            _ => ETHERNET,
        }
    }

    /// Whether every queue has CoDel.
    #[must_use]
    pub const fn has_codel(self) -> bool {
        matches!(self, Self::FalseEct | Self::TimedBursts)
    }

    /// Whether the sources of packets are what they say.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        !matches!(self, Self::Spoofed)
    }

    /// What the attackers send, in order of time.
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

/// The victim's flow that always has packets, and its sparse one.
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

/// The flow of this number of an attacker.
fn udp(src: [u8; 4], flow: u32) -> FlowKey {
    let [_, third, high, low] = flow.to_be_bytes();
    let transport =
        Transport { protocol: 17, src_port: u16::from_be_bytes([high, low]), dst_port: 9 };
    FlowKey::V4 { src, dst: [198, 51, 100, third], transport }
}

/// Packet after packet at `hundredths` of the link's rate, each of a flow and a host, a port and a
/// length that its number decides.
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

/// Sixteen flows of one host in the set of the victim's sparse flow, if labels come from `hasher`.
fn colliding(hasher: SipHash13) -> Vec<FlowKey> {
    let set = |key: &FlowKey| key.label(&hasher) % QUEUES / 8;
    let of_victim = set(&victim_key(SPARSE_PORT));
    let keys = (0..).map(|flow| udp([10, 0, 0, 1], flow));
    keys.filter(|key| set(key) == of_victim).take(16).collect()
}

/// A datagram of one flow with the DSCP of its turn.
fn marked_frame(n: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let dscp = (n % 64) as u8;
    let first = [0x45, dscp << 2, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0];
    let header = [first.as_slice(), &[10, 0, 0, 1], &SERVER, &[0, 7, 0, 9]];
    frame[14..38].copy_from_slice(&header.concat());
    frame
}

/// A question of ARP, from the address of Ethernet that ends so, to all.
fn arp_frame(device: [u8; 4]) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..8].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0]);
    frame[8..12].copy_from_slice(&device);
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame
}

/// In turn: a fragment that is not the first, of a packet of its own; a packet of an unknown
/// protocol; zeros.
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

    /// Goal: the odd headers are what they are called, and each kind has one defined flow or one
    /// for each protocol number, and one host. Method: the parser's own word for each.
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
