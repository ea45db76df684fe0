//! The published vectors of receive-side scaling, and the definition bit by bit.

use core::net::{Ipv4Addr, Ipv6Addr};

use flowhash::{FlowKey, Toeplitz, Transport};

type Vector4 = (&'static str, u16, &'static str, u16, u32, u32);

/// Destination, source, hash of the addresses, hash with the ports: "Verifying the RSS Hash
/// Calculation", Microsoft.
const V4: [Vector4; 5] = [
    ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
];

const V6: [Vector4; 3] = [
    ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
    ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
    (
        "fe80::200:f8ff:fe21:67cf",
        38024,
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

fn keys() -> impl Iterator<Item = (FlowKey, u32, u32)> {
    let transport = |src_port, dst_port| Transport { protocol: 6, src_port, dst_port };
    let v4 = V4.map(|(dst, dst_port, src, src_port, addresses, all)| {
        let [src, dst] = [src, dst].map(|text| text.parse::<Ipv4Addr>().unwrap().octets());
        (FlowKey::V4 { src, dst, transport: transport(src_port, dst_port) }, addresses, all)
    });
    let v6 = V6.map(|(dst, dst_port, src, src_port, addresses, all)| {
        let [src, dst] = [src, dst].map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
        (FlowKey::V6 { src, dst, transport: transport(src_port, dst_port) }, addresses, all)
    });
    v4.into_iter().chain(v6)
}

#[test]
fn the_published_vectors_come_out() {
    let card = Toeplitz::new(Toeplitz::MICROSOFT);
    for (key, addresses, all) in keys() {
        assert_eq!(card.addresses(&key), Some(addresses), "{key:?}");
        assert_eq!(card.addresses_and_ports(&key), Some(all), "{key:?}");
        let bytes = key.to_bytes();
        let bytes = bytes.as_ref();
        let (hosts, ports) = (&bytes[..bytes.len() - 5], &bytes[bytes.len() - 4..]);
        assert_eq!(card.hash(hosts), addresses);
        assert_eq!(card.hash(&[hosts, ports].concat()), all);
    }
}

#[test]
fn keys_without_addresses_or_ports_have_no_such_hash() {
    let card = Toeplitz::new(Toeplitz::MICROSOFT);
    let ethernet = FlowKey::Ethernet { src: [1; 6] };
    for key in [ethernet, FlowKey::Unknown] {
        assert_eq!((card.addresses(&key), card.addresses_and_ports(&key)), (None, None));
    }
    for protocol in 0..=255 {
        let transport = Transport { protocol, src_port: 1, dst_port: 2 };
        let key = FlowKey::V4 { src: [1; 4], dst: [2; 4], transport };
        let has_ports = [6, 17, 33, 132, 136].contains(&protocol);
        assert_eq!(card.addresses_and_ports(&key).is_some(), has_ports, "protocol {protocol}");
        assert!(card.addresses(&key).is_some());
    }
}

/// Goal: the definition, for keys and inputs of other lengths, and what lies beyond the key.
/// Method: the key as a string of bits that is shifted left by one for each bit of the input.
#[test]
fn each_bit_of_the_input_adds_the_key_from_its_place_on() {
    fn check<const N: usize>() {
        let key: [u8; N] = core::array::from_fn(|i| (i * i * 37 + 11) as u8);
        let input: Vec<u8> = (0..N + 10).map(|i| (i * 91 + 5) as u8).collect();
        let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
        for length in 0..=input.len() {
            let mut hash = 0;
            for at in 0..8 * length.min(N - 4) {
                let window = (0..32).fold(0, |word, i| word << 1 | bit(&key, at + i));
                hash ^= window * bit(&input, at);
            }
            assert_eq!(Toeplitz::new(key).hash(&input[..length]), hash, "{N}, {length} bytes");
        }
    }
    check::<5>();
    check::<16>();
    check::<40>();
    check::<52>();
    let shown = format!("{:?}", Toeplitz::new([0xab; 40]));
    assert_eq!(shown, "Toeplitz<40> { .. }");
}
