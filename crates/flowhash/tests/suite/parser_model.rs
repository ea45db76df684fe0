//! The parser on packets whose result is known from their construction, whole and truncated.

use crate::common::{Built, Extension, FLOW_LABEL, Network, Packet, Upper, build};
use flowhash::parse::{self, MAX_EXTENSION_HEADERS, MAX_VLAN_TAGS};
use flowhash::{Ending, FlowKey, Parsed};
use proptest::prelude::*;

fn read(packet: &Packet, bytes: &[u8]) -> Parsed {
    if packet.link.is_some() { parse::ethernet(bytes) } else { parse::ip(bytes) }
}

fn upper(v6: bool) -> impl Strategy<Value = Upper> {
    let with_ports = prop::sample::select(vec![6, 17, 33, 50, 132, 136]);
    let icmp =
        (prop::sample::select(vec![1, 58]), prop::sample::select(vec![0, 3, 8, 128, 129, 135]));
    let other: Vec<u8> = (0..=255)
        .filter(|n| ![1, 6, 17, 33, 50, 51, 58, 132, 136].contains(n))
        .filter(|n| !v6 || ![0, 43, 44, 60].contains(n))
        .collect();
    prop_oneof![
        4 => (with_ports, any::<u16>(), any::<u16>()).prop_map(|(p, s, d)| Upper::Ports(p, s, d)),
        2 => (icmp, any::<u8>(), any::<u16>()).prop_map(|((p, t), c, w)| Upper::Icmp(p, t, c, w)),
        1 => prop::sample::select(other).prop_map(Upper::Other),
        2 => (prop::sample::select(vec![6, 17, 58, 60]), 0..1_u16 << 13, any::<bool>())
            .prop_map(|(p, place, more)| Upper::Fragment(p, place, more || place == 0)),
    ]
}

fn extensions(v6: bool) -> BoxedStrategy<Vec<Extension>> {
    let ah = (0..4_u8).prop_map(Extension::Authentication);
    if !v6 {
        return prop_oneof![
            3 => Just(Vec::new()),
            1 => prop::collection::vec(ah, 1..=MAX_EXTENSION_HEADERS)
        ]
        .boxed();
    }
    let one = prop_oneof![
        4 => (prop::sample::select(vec![0, 43, 60]), 0..3_u8).prop_map(|(n, l)| Extension::Options(n, l)),
        1 => Just(Extension::Options(60, 255)),
        1 => ah,
        1 => Just(Extension::Atomic),
    ];
    // A fragment header counts as one of the headers.
    prop::collection::vec(one, 0..MAX_EXTENSION_HEADERS).boxed()
}

fn network(v6: bool) -> BoxedStrategy<Network> {
    if v6 {
        any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| Network::V6 { src, dst }).boxed()
    } else {
        (any::<([u8; 4], [u8; 4])>(), 0..=10_u8)
            .prop_map(|((src, dst), options)| Network::V4 { src, dst, options })
            .boxed()
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let tag = prop::sample::select(vec![0x8100, 0x88a8, 0x9100]);
    let tags = prop::collection::vec(tag, 0..=MAX_VLAN_TAGS);
    let link = prop::option::of(
        any::<([u8; 6], [u8; 6])>()
            .prop_flat_map(move |(src, dst)| tags.clone().prop_map(move |tags| (src, dst, tags))),
    );
    any::<bool>().prop_flat_map(move |v6| {
        (link.clone(), network(v6), any::<u8>(), extensions(v6), upper(v6), any::<u8>()).prop_map(
            |(link, network, traffic_class, extensions, upper, payload)| Packet {
                link,
                network,
                traffic_class,
                extensions,
                upper,
                payload,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Goal: the exact result for every packet that the model can build, truncated at every byte.
    /// Method: while building, the model records which header each byte completes.
    #[test]
    fn every_prefix_of_every_packet_has_the_answer_its_construction_gives(packet in packet()) {
        let built = build(&packet);
        for length in 0..=built.bytes.len() {
            let found = read(&packet, &built.bytes[..length]);
            prop_assert_eq!(found, built.answer(length), "first {} bytes", length);
        }
    }

    /// Goal: all fragments of one packet are one flow, with the packet's hosts. Method: the same
    /// packet as a first, a middle and a last fragment, for any contents of the first and any next
    /// header in the later ones (IPv6 allows others).
    #[test]
    fn all_fragments_of_a_packet_have_one_key(packet in packet(), place in 1..1_u16 << 13) {
        let claimed = if matches!(packet.network, Network::V6 { .. }) { 60 } else { 17 };
        let fragments = [
            Upper::Fragment(17, 0, true),
            Upper::Fragment(claimed, place, true),
            Upper::Fragment(claimed, place, false),
        ];
        let answers = fragments.map(|upper| {
            read(&packet, &build(&Packet { upper, ..packet.clone() }).bytes)
        });
        prop_assert_eq!(answers[0].ending, Ending::Fragment);
        prop_assert_eq!([answers[0]; 3], answers);
        let transport = answers[0].key.transport().unwrap();
        let v6 = matches!(packet.network, Network::V6 { .. });
        let label = if v6 { FLOW_LABEL } else { [0, 0] };
        prop_assert_eq!([transport.src_port, transport.dst_port], label);
        let whole = build(&packet).whole;
        prop_assert_eq!(answers[0].key.src_host(), whole.key.src_host());
        prop_assert_eq!(answers[0].key.dst_host(), whole.key.dst_host());
    }

    /// Goal: damaged packets keep the guarantees that hold for every result. Method: overwrite up
    /// to four bytes of a valid packet, then truncate it anywhere.
    #[test]
    fn damage_never_breaks_the_promises(
        packet in packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..=4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = build(&packet).bytes;
        let head = bytes.len().min(120);
        for (place, value) in damage {
            bytes[place.index(head)] = value;
        }
        promises(&bytes[..cut.index(bytes.len())])?;
        promises(&bytes)?;
    }

    /// Goal: random bytes keep the guarantees that hold for every result. Method: noise, half of it
    /// after a plausible beginning.
    #[test]
    fn noise_never_breaks_the_promises(mut bytes in prop::collection::vec(any::<u8>(), 0..200), start in 0..5_usize) {
        let start: &[u8] = [&[0_u8][..0], &[0x45], &[0x60], &[0x4f], &[0x60, 0, 0, 0, 0, 0, 0]][start];
        for (byte, value) in bytes.iter_mut().zip(start) {
            *byte = *value;
        }
        promises(&bytes)?;
    }
}

/// Checks the guarantees of every result, as raw IP and after an Ethernet header.
fn promises(bytes: &[u8]) -> Result<(), TestCaseError> {
    let raw = parse::ip(bytes);
    let version = bytes.first().map_or(0, |first| first >> 4);
    for (ethertype, expected) in [(0x0800_u16, 4), (0x86dd, 6)] {
        let link = [[2; 6], [4; 6]].concat();
        let frame = [&link[..], &ethertype.to_be_bytes(), bytes].concat();
        let framed = parse::ethernet(&frame);
        if let (true, Some(ip)) = (version == expected, raw.ip) {
            prop_assert_eq!((framed.key, framed.ending), (raw.key, raw.ending));
            prop_assert_eq!(framed.ip.unwrap().offset, 14);
            prop_assert_eq!(framed.ip.unwrap().upper_offset, ip.upper_offset + 14);
        } else {
            let key = FlowKey::Ethernet { src: [4; 6] };
            prop_assert_eq!((framed.key, framed.ip), (key, None));
            let wrong = version != expected && bytes.len() >= if expected == 4 { 20 } else { 40 };
            let ending = if wrong { Ending::Malformed } else { Ending::Truncated };
            prop_assert_eq!(framed.ending, ending);
        }
    }
    match (raw.key, raw.ip) {
        (FlowKey::Unknown, None) => prop_assert_ne!(raw.ending, Ending::Ports),
        (FlowKey::V4 { transport, .. } | FlowKey::V6 { transport, .. }, Some(ip)) => {
            if raw.ending != Ending::Ports {
                let label =
                    if version == 6 { [bytes[1] & 0xf, bytes[2], bytes[3]] } else { [0; 3] };
                let ports = [0, label[0], label[1], label[2]];
                let found = [transport.src_port.to_be_bytes(), transport.dst_port.to_be_bytes()];
                prop_assert_eq!(found.as_flattened(), ports);
            }
            if matches!(raw.ending, Ending::Ports | Ending::NoPorts) {
                prop_assert!(ip.upper_offset <= bytes.len());
            }
        }
        other => return Err(TestCaseError::fail(format!("raw IP gave {other:?}"))),
    }
    Ok(())
}

/// Goal: one packet of each kind, deterministically, truncated at every byte. Method: all
/// combinations of tags, versions, options and one extension of each kind with every kind of upper
/// layer.
#[test]
fn every_kind_of_packet_is_read_whole_and_cut() {
    let uppers = [
        Upper::Ports(6, 1, 2),
        Upper::Ports(50, 0xdead, 0xbeef),
        Upper::Icmp(1, 8, 0, 77),
        Upper::Icmp(1, 3, 1, 77),
        Upper::Icmp(58, 128, 0, 77),
        Upper::Icmp(58, 135, 0, 77),
        Upper::Other(2),
        Upper::Other(59),
        Upper::Fragment(17, 0, true),
        Upper::Fragment(17, 185, true),
        Upper::Fragment(17, 370, false),
    ];
    let options = [0, 43, 60].map(|number| Extension::Options(number, 1));
    let mut kinds = 0;
    for tags in 0..=MAX_VLAN_TAGS + 1 {
        let link = tags.checked_sub(1).map(|tags| ([2; 6], [4; 6], vec![0x8100; tags]));
        let v4 = (0..=10).map(|options| Network::V4 { src: [1; 4], dst: [3; 4], options });
        for network in v4.chain([Network::V6 { src: [1; 16], dst: [3; 16] }]) {
            let v6 = matches!(network, Network::V6 { .. });
            let mut chains = vec![vec![], vec![Extension::Authentication(4)]];
            if v6 {
                chains.extend(options.map(|extension| vec![extension]));
                chains.push(vec![Extension::Atomic]);
                chains.push([&options[..], &[Extension::Atomic]].concat());
            }
            for extensions in &chains {
                for upper in uppers {
                    let packet = Packet {
                        link: link.clone(),
                        network: network.clone(),
                        traffic_class: 0xb9,
                        extensions: extensions.clone(),
                        upper,
                        payload: 3,
                    };
                    let built: Built = build(&packet);
                    for length in 0..=built.bytes.len() {
                        let found = read(&packet, &built.bytes[..length]);
                        assert_eq!(found, built.answer(length), "{packet:?}, {length} bytes");
                    }
                    kinds += 1;
                }
            }
        }
    }
    assert_eq!(kinds, 6 * (11 * 2 + 7) * 11);
}
