//! From parsed packets to labels: both directions, hosts in tunnels, translation, bursts.

use std::collections::{BTreeMap, BTreeSet};

use flowhash::{
    FlowHasher, FlowKey, HalfSipHash13, Labeller, Labels, Nat, Parser, SipHash13, Symmetry,
    Transport, TunnelHosts, label_batch, mix, parse,
};

fn hasher() -> SipHash13 {
    SipHash13::new([6; 16])
}

fn key(src: [u8; 4], dst: [u8; 4], protocol: u8, src_port: u16, dst_port: u16) -> FlowKey {
    FlowKey::V4 { src, dst, transport: Transport { protocol, src_port, dst_port } }
}

fn packet(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
    [&[0x45, 0, l0, l1, 0, 0, 0, 0, 64, protocol, 0, 0][..], &src, &dst, payload].concat()
}

fn udp(src: [u8; 4], src_port: u16, dst: [u8; 4], dst_port: u16) -> Vec<u8> {
    let ports = [src_port.to_be_bytes(), dst_port.to_be_bytes(), [0, 8], [0, 0]];
    packet(src, dst, 17, ports.as_flattened())
}

#[test]
fn without_options_the_labels_are_those_of_the_key() {
    let parsed = parse::ip(&udp([10, 0, 0, 1], 5004, [10, 0, 0, 2], 53));
    let labels = Labels::new(&parsed.key, &hasher());
    assert_eq!(Labeller::new(hasher()).labels(&parsed), labels);
    assert_eq!(Labels::from_parts(labels.flow, labels.src_host, labels.dst_host), labels);
}

/// Goal: with `Symmetric` a packet and its answer are one flow, and no two flows become one.
/// Method: all ordered pairs of four endpoints on three hosts, for every protocol number.
#[test]
fn both_directions_of_a_flow_are_one_label_and_no_more() {
    let ends = [([1; 4], 1), ([1; 4], 2), ([2; 4], 1), ([3; 4], 0xffff)];
    for protocol in 0..=255_u8 {
        let has_ports = [6, 17, 33, 132, 136].contains(&protocol);
        let mut flows = BTreeMap::<FlowKey, BTreeSet<FlowKey>>::new();
        for (src, src_port) in ends {
            for (dst, dst_port) in ends {
                let there = key(src, dst, protocol, src_port, dst_port);
                let back = if has_ports {
                    key(dst, src, protocol, dst_port, src_port)
                } else {
                    key(dst, src, protocol, src_port, dst_port)
                };
                assert_eq!(there.undirected(), back.undirected());
                assert_eq!(there.undirected().undirected(), there.undirected());
                flows.entry(there.undirected()).or_default().extend([there, back]);
            }
        }
        assert!(flows.values().all(|flow| flow.len() <= 2), "protocol {protocol}");
    }
    let v6 = |src, dst, transport| FlowKey::V6 { src: [src; 16], dst: [dst; 16], transport };
    let there = Transport { protocol: 6, src_port: 9, dst_port: 3 };
    let back = Transport { protocol: 6, src_port: 3, dst_port: 9 };
    assert_eq!(v6(1, 2, there).undirected(), v6(2, 1, back).undirected());
    assert_ne!(v6(1, 2, there).undirected(), v6(1, 2, back).undirected());
    let ethernet = FlowKey::Ethernet { src: [1; 6] };
    assert_eq!(ethernet.undirected(), ethernet);
    assert_eq!(FlowKey::Unknown.undirected(), FlowKey::Unknown);
}

#[test]
fn an_echo_and_its_reply_are_one_flow() {
    let (host, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let symmetric = Labeller::new(hasher()).with_symmetry(Symmetry::Symmetric);
    let label = |src, dst, kind, id| {
        let echo = packet(src, dst, 1, &[kind, 0, 0, 0, 0, id, 0, 1]);
        symmetric.labels(&parse::ip(&echo)).flow
    };
    assert_eq!(label(host, other, 8, 7), label(other, host, 0, 7));
    assert_ne!(label(host, other, 8, 7), label(other, host, 0, 8));
    assert_ne!(label(host, other, 8, 7), label(other, host, 13, 7));
    let v6 = |src, dst, dst_port| {
        let transport = Transport { protocol: 58, src_port: 7, dst_port };
        FlowKey::V6 { src: [src; 16], dst: [dst; 16], transport }.undirected()
    };
    assert_eq!(v6(1, 2, 0x8000), v6(2, 1, 0x8100));
}

/// Hosts 10.0.0.0/24 behind 192.0.2.33, each connection at a port of its own.
struct Connections(BTreeMap<u16, ([u8; 4], u16)>);

const OUTSIDE: [u8; 4] = [192, 0, 2, 33];

impl Nat for Connections {
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        let FlowKey::V4 { src, dst, transport } = *key else { return None };
        if src == OUTSIDE {
            let (src, src_port) = *self.0.get(&transport.src_port)?;
            return Some(FlowKey::V4 { src, dst, transport: Transport { src_port, ..transport } });
        }
        let (host, dst_port) = *self.0.get(&transport.dst_port).filter(|_| dst == OUTSIDE)?;
        let transport = Transport { dst_port, ..transport };
        Some(FlowKey::V4 { src, dst: host, transport })
    }
}

/// Goal: behind a translation every host and flow has the labels it would have without.
/// Method: 256 connections of 16 hosts, there and back, translated, against the inner packets.
#[test]
fn translated_packets_have_the_labels_of_the_inner_ones() {
    let server = [198, 51, 100, 7];
    let inner = |i: u16| ([10, 0, 0, (i % 16) as u8], 40_000 + i / 16);
    let nat = Connections((0..256).map(|i| (i, inner(i))).collect());
    let plain = Labeller::new(hasher());
    for symmetry in [Symmetry::Asymmetric, Symmetry::Symmetric] {
        let plain = plain.with_symmetry(symmetry);
        let translating = Labeller::new(hasher()).with_nat(&nat).with_symmetry(symmetry);
        for i in 0..256 {
            let (host, port) = inner(i);
            let out = translating.labels(&parse::ip(&udp(OUTSIDE, i, server, 443)));
            let back = translating.labels(&parse::ip(&udp(server, 443, OUTSIDE, i)));
            assert_eq!(out, plain.labels(&parse::ip(&udp(host, port, server, 443))));
            assert_eq!(back, plain.labels(&parse::ip(&udp(server, 443, host, port))));
            assert_eq!(out.flow == back.flow, symmetry == Symmetry::Symmetric);
            assert_eq!(out.src_host, back.dst_host);
        }
        let unknown = parse::ip(&udp(OUTSIDE, 999, server, 443));
        assert_eq!(translating.labels(&unknown), plain.labels(&unknown));
    }
}

/// Goal: a host cannot become many by what it writes inside a tunnel, nor meet another's flow.
/// Method: one sender forges 1,000 inner senders; then the inner header is a victim's own.
#[test]
fn an_inner_address_is_no_host_unless_asked_for() {
    let (sender, gateway, victim) = ([192, 0, 2, 66], [192, 0, 2, 1], [10, 0, 0, 1]);
    let outer_hosts = Labeller::new(hasher());
    let inner_hosts = outer_hosts.with_tunnel_hosts(TunnelHosts::Inner);
    let (mut flows, mut hosts, mut inner) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for i in 0..1_000_u16 {
        let [high, low] = i.to_be_bytes();
        let forged = udp([10, 1, high, low], 5004, [10, 0, 0, 2], 53);
        let parsed = Parser::new().ip(&packet(sender, gateway, 4, &forged));
        let labels = outer_hosts.labels(&parsed);
        flows.insert(labels.flow);
        hosts.insert((labels.src_host, labels.dst_host));
        let labels = inner_hosts.labels(&parsed);
        assert_eq!(labels.flow, outer_hosts.labels(&parsed).flow);
        assert_eq!(labels.src_host, parsed.key.src_host().label(&hasher()));
        inner.insert(labels.src_host);
    }
    assert_eq!((flows.len(), hosts.len(), inner.len()), (1_000, 1, 1_000));

    let own = udp(victim, 5004, [10, 0, 0, 2], 53);
    let forged = Parser::new().ip(&packet(sender, gateway, 4, &own));
    assert_eq!(forged.key, parse::ip(&own).key);
    let elsewhere = Parser::new().ip(&packet([192, 0, 2, 67], gateway, 4, &own));
    let labels =
        [parse::ip(&own), forged, elsewhere].map(|parsed| outer_hosts.labels(&parsed).flow);
    assert_eq!(BTreeSet::from(labels).len(), 3);
}

#[test]
fn a_tunnel_there_and_back_is_one_flow_if_asked_for() {
    let (a, b) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let there = packet(a, b, 4, &udp([10, 0, 0, 1], 5004, [10, 0, 0, 2], 53));
    let back = packet(b, a, 4, &udp([10, 0, 0, 2], 53, [10, 0, 0, 1], 5004));
    let [there, back] = [there, back].map(|packet| Parser::new().ip(&packet));
    for symmetry in [Symmetry::Asymmetric, Symmetry::Symmetric] {
        let labeller = Labeller::new(hasher()).with_symmetry(symmetry);
        let [there, back] = [there, back].map(|parsed| labeller.labels(&parsed));
        assert_eq!(there.flow == back.flow, symmetry == Symmetry::Symmetric);
        assert_eq!((there.src_host, there.dst_host), (back.dst_host, back.src_host));
    }
}

/// Goal: asked for one by one, labels are what they are together. Method: packets outside and inside of
/// tunnels, translated or not, through every choice of symmetry and of the hosts of tunnels.
#[test]
fn labels_asked_for_one_by_one_are_those_of_all_three() {
    let nat = Connections(BTreeMap::from([(7, ([10, 0, 0, 9], 40_000))]));
    let (server, gateway) = ([198, 51, 100, 7], [192, 0, 2, 1]);
    let packets = [
        udp(OUTSIDE, 7, server, 443),
        udp(server, 443, OUTSIDE, 7),
        udp(server, 443, OUTSIDE, 8),
        packet(OUTSIDE, gateway, 4, &udp([10, 0, 0, 1], 5004, [10, 0, 0, 2], 53)),
        vec![],
    ];
    for bytes in packets {
        let parsed = Parser::new().ip(&bytes);
        for symmetry in [Symmetry::Asymmetric, Symmetry::Symmetric] {
            for hosts in [TunnelHosts::Outer, TunnelHosts::Inner] {
                let labeller = Labeller::new(hasher()).with_nat(&nat);
                let labeller = labeller.with_symmetry(symmetry).with_tunnel_hosts(hosts);
                let (flow, src_host) = (labeller.flow(&parsed), labeller.src_host(&parsed));
                let single = Labels { flow, src_host, dst_host: labeller.dst_host(&parsed) };
                assert_eq!(single, labeller.labels(&parsed), "{parsed:?}");
            }
        }
    }
}

/// Goal: a burst has the labels its packets have one by one, for every mix of kinds.
/// Method: all sequences of four kinds of key in a group of four, behind each other; every length up
/// to 40 of keys and of room.
#[test]
fn a_burst_has_the_labels_of_its_keys() {
    fn check<H: FlowHasher>(hasher: &H) {
        let kinds = |kind: u32, i: u32| match kind {
            0 => key(i.to_be_bytes(), [9; 4], 6, i as u16, 443),
            1 => FlowKey::V6 {
                src: [i as u8; 16],
                dst: [7; 16],
                transport: Transport { protocol: 17, src_port: 1, dst_port: i as u16 },
            },
            2 => FlowKey::Ethernet { src: [i as u8; 6] },
            _ => FlowKey::Unknown,
        };
        let keys: Vec<_> = (0..4 * 256).map(|i| kinds(((i / 4) >> (2 * (i % 4))) & 3, i)).collect();
        let alone: Vec<u32> = keys.iter().map(|key| key.label(hasher)).collect();
        let mut labels = vec![0; keys.len()];
        assert_eq!(label_batch(&keys, hasher, &mut labels), keys.len());
        assert_eq!(labels, alone);
        for count in 0..=40 {
            for room in 0..=40 {
                let mut labels = vec![1; room];
                let filled = label_batch(&keys[..count], hasher, &mut labels);
                assert_eq!(filled, count.min(room));
                assert_eq!(labels[..filled], alone[..filled]);
                assert!(labels[filled..].iter().all(|label| *label == 1));
            }
        }
    }
    check(&hasher());
    check(&HalfSipHash13::new([6; 8]));
}

/// Goal: hashing side by side is hashing, at every length of input and number of lanes.
#[test]
fn inputs_side_by_side_have_their_own_hashes() {
    fn check<const N: usize, const LENGTH: usize>() {
        let inputs: [[u8; LENGTH]; N] =
            core::array::from_fn(|i| core::array::from_fn(|j| mix((i * 301 + j) as u32) as u8));
        let one_by_one = inputs.map(|input| hasher().hash(&input));
        assert_eq!(hasher().hash_each(&inputs), one_by_one, "{N} times {LENGTH}");
    }
    macro_rules! lengths {
        ($($length:literal)*) => { $(
            check::<1, $length>();
            check::<2, $length>();
            check::<5, $length>();
        )* };
    }
    lengths!(0 1 2 3 4 5 6 7 8 9 12 13 14 15 16 17 31 32 36 37 38 39 40 255 256 300);
}
