//! Labels of parsed packets: hosts in tunnels, and translation.

use std::collections::{BTreeMap, BTreeSet};

use flowhash::{
    FlowHasher, FlowKey, Labeller, Labels, Nat, Parser, SipHash13, Transport, mix, parse,
};

fn hasher() -> SipHash13 {
    SipHash13::new([6; 16])
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
}

/// Hosts 10.0.0.0/24 behind 192.0.2.33, with one outer port per connection.
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

/// Goal: with a translation, every host and flow has the labels of the inner packets. Method:
/// compare 256 connections of 16 hosts, in both directions, translated, with the inner packets.
#[test]
fn translated_packets_have_the_labels_of_the_inner_ones() {
    let server = [198, 51, 100, 7];
    let inner = |i: u16| ([10, 0, 0, (i % 16) as u8], 40_000 + i / 16);
    let nat = Connections((0..256).map(|i| (i, inner(i))).collect());
    let plain = Labeller::new(hasher());
    let translating = Labeller::new(hasher()).with_nat(&nat);
    for i in 0..256 {
        let (host, port) = inner(i);
        let out = translating.labels(&parse::ip(&udp(OUTSIDE, i, server, 443)));
        let back = translating.labels(&parse::ip(&udp(server, 443, OUTSIDE, i)));
        assert_eq!(out, plain.labels(&parse::ip(&udp(host, port, server, 443))));
        assert_eq!(back, plain.labels(&parse::ip(&udp(server, 443, host, port))));
        assert_ne!(out.flow, back.flow);
        assert_eq!(out.src_host, back.dst_host);
    }
    let unknown = parse::ip(&udp(OUTSIDE, 999, server, 443));
    assert_eq!(translating.labels(&unknown), plain.labels(&unknown));
}

/// Goal: a host cannot count as many by what it writes inside a tunnel, nor share another's flow.
/// Method: one sender forges 1,000 inner senders; then the inner header is a victim's own.
#[test]
fn an_inner_address_is_no_host() {
    let (sender, gateway, victim) = ([192, 0, 2, 66], [192, 0, 2, 1], [10, 0, 0, 1]);
    let labeller = Labeller::new(hasher());
    let (mut flows, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for i in 0..1_000_u16 {
        let [high, low] = i.to_be_bytes();
        let forged = udp([10, 1, high, low], 5004, [10, 0, 0, 2], 53);
        let parsed = Parser::new().ip(&packet(sender, gateway, 4, &forged));
        let labels = labeller.labels(&parsed);
        flows.insert(labels.flow);
        hosts.insert((labels.src_host, labels.dst_host));
    }
    assert_eq!((flows.len(), hosts.len()), (1_000, 1));

    let own = udp(victim, 5004, [10, 0, 0, 2], 53);
    let forged = Parser::new().ip(&packet(sender, gateway, 4, &own));
    assert_eq!(forged.key, parse::ip(&own).key);
    let elsewhere = Parser::new().ip(&packet([192, 0, 2, 67], gateway, 4, &own));
    let labels = [parse::ip(&own), forged, elsewhere].map(|parsed| labeller.labels(&parsed).flow);
    assert_eq!(BTreeSet::from(labels).len(), 3);
}

/// Goal: labels computed one by one equal those computed together. Method: packets outside and
/// inside tunnels, translated or not.
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
        let labeller = Labeller::new(hasher()).with_nat(&nat);
        let (flow, src_host) = (labeller.flow(&parsed), labeller.src_host(&parsed));
        let single = Labels { flow, src_host, dst_host: labeller.dst_host(&parsed) };
        assert_eq!(single, labeller.labels(&parsed), "{parsed:?}");
    }
}

/// Goal: an array has the hash of its bytes, for every length.
#[test]
fn arrays_have_the_hashes_of_their_bytes() {
    fn check<const LENGTH: usize>() {
        let input: [u8; LENGTH] = core::array::from_fn(|j| mix(j as u32) as u8);
        assert_eq!(hasher().hash_array(&input), hasher().hash(&input), "{LENGTH} bytes");
    }
    macro_rules! lengths {
        ($($length:literal)*) => { $(check::<$length>();)* };
    }
    lengths!(0 1 2 3 4 5 6 7 8 9 12 13 14 15 16 17 31 32 36 37 38 39 40 255 256 300);
}
