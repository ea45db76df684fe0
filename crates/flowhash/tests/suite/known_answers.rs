//! Published test vectors of the hashes, and the labels of fixed packets.
//!
//! A change of any number here changes the queue of every flow in every recorded trace.

use std::collections::BTreeSet;

use flowhash::{
    FlowHasher, FlowKey, HalfSipHash, HalfSipHash13, Labels, SipHash13, Transport, mix,
};

/// Returns `[0, 1, 2, …]`, the key and the input of all published vectors.
fn count<const N: usize>() -> [u8; N] {
    core::array::from_fn(|i| i as u8)
}

/// SipHash-1-3 of the first 0 to 63 bytes of `0, 1, 2, …` under the key `00 … 0f`: the test vectors
/// of the Rust standard library and the `siphasher` crate.
const SIPHASH_1_3: [u64; 64] = [
    0xabac_0158_050f_c4dc,
    0xc9f4_9bf3_7d57_ca93,
    0x82cb_9b02_4dc7_d44d,
    0x8bf8_0ab8_e7dd_f7fb,
    0xcf75_5760_88d3_8328,
    0xdef9_d52f_4953_3b67,
    0xc50d_2b50_c59f_22a7,
    0xd392_7d98_9bb1_1140,
    0x3690_9511_8d29_9a8e,
    0x25a4_8eb3_6c06_3de4,
    0x79de_85ee_92ff_097f,
    0x70c1_18c1_f94d_c352,
    0x78a3_84b1_57b4_d9a2,
    0x306f_760c_1229_ffa7,
    0x605a_a111_c0f9_5d34,
    0xd320_d86d_2a51_9956,
    0xcc4f_dd1a_7d90_8b66,
    0x9cf2_6890_63db_d80c,
    0x8ffc_389c_b473_e63e,
    0xf21f_9de5_8d29_7d1c,
    0xc0dc_2f46_a6cc_e040,
    0xb992_abfe_2b45_f844,
    0x7ffe_7b9b_a320_872e,
    0x525a_0e7f_dae6_c123,
    0xf464_aeb2_6734_9c8c,
    0x45cd_5928_705b_0979,
    0x3a3e_35e3_ca99_13a5,
    0xa91d_c74e_4ade_3b35,
    0xfb0b_ed02_ef6c_d00d,
    0x88d9_3cb4_4ab1_e1f4,
    0x540f_11d6_43c5_e663,
    0x2370_dd1f_8c21_d1bc,
    0x8115_7b6c_16a7_b60d,
    0x4d54_b9e5_7a8f_f9bf,
    0x759f_1278_1f2a_753e,
    0xcea1_a3be_bf18_6b91,
    0x2cf5_08d3_ada2_6206,
    0xb610_1c2d_a3c3_3057,
    0xb3f4_7496_ae3a_36a1,
    0x626b_5754_7b10_8392,
    0xc1d2_3632_99e4_1531,
    0x667c_c192_3f1a_d944,
    0x6570_4ffe_c813_8825,
    0x24f2_80d1_c289_49a6,
    0xc2ca_1ced_faf8_876b,
    0xc216_4bfc_9f04_2196,
    0xa16e_9c93_68b1_d623,
    0x49fb_169c_8b51_14fd,
    0x9f31_43f8_df07_4c46,
    0xc6fd_af24_12cc_86b3,
    0x7eaf_49d1_0a52_098f,
    0x1cf3_1355_9d29_2f9a,
    0xc44a_30dd_a2f4_1f12,
    0x36fa_e989_43a7_1ed0,
    0x318f_b34c_73f0_bce6,
    0xa27a_bf36_70a7_e980,
    0xb4bc_c0db_243c_6d75,
    0x23f8_d852_fdb7_1513,
    0x8f03_5f4d_a67d_8a08,
    0xd89c_d0e5_b7e8_f148,
    0xf6f4_e6bc_f7a6_44ee,
    0xaec5_9ad8_0f18_37f2,
    0xc3b2_f615_4b66_94e0,
    0x9d19_9062_b7bb_b3a8,
];

/// HalfSipHash-2-4, 32-bit output, of the first 0 to 11 bytes of `0, 1, 2, …` under the key
/// `00 … 07`, in the byte order of the reference implementation's `vectors.h`.
const HALFSIPHASH_2_4: [[u8; 4]; 12] = [
    [0xa9, 0x35, 0x9f, 0x5b],
    [0x27, 0x47, 0x5a, 0xb8],
    [0xfa, 0x62, 0xa6, 0x03],
    [0x8a, 0xfe, 0xe7, 0x04],
    [0x2a, 0x6e, 0x46, 0x89],
    [0xc5, 0xfa, 0xb6, 0x69],
    [0x58, 0x63, 0xfc, 0x23],
    [0x8b, 0xcf, 0x63, 0xc5],
    [0xd0, 0xb8, 0x84, 0x8f],
    [0xf8, 0x06, 0xe7, 0x79],
    [0x94, 0xb0, 0x79, 0x34],
    [0x08, 0x08, 0x30, 0x50],
];

#[test]
fn siphash_1_3_gives_the_published_vectors() {
    let (hasher, input) = (SipHash13::new(count()), count::<64>());
    for (length, expected) in SIPHASH_1_3.into_iter().enumerate() {
        assert_eq!(hasher.hash_u64(&input[..length]), expected, "{length} bytes");
        assert_eq!(hasher.hash(&input[..length]), expected as u32, "{length} bytes, low half");
    }
}

#[test]
fn halfsiphash_2_4_gives_the_published_vectors() {
    let (hasher, input) = (HalfSipHash::<2, 4>::new(count()), count::<12>());
    for (length, expected) in HALFSIPHASH_2_4.into_iter().enumerate() {
        assert_eq!(hasher.hash(&input[..length]).to_le_bytes(), expected, "{length} bytes");
    }
}

/// Second implementation of Sip rounds, for any word, as half rounds, with the rotations and
/// constants that distinguish SipHash from HalfSipHash.
macro_rules! reference {
    ($name:ident, $word:ty, $rotations:expr, $start:expr) => {
        fn $name(c: u32, d: u32, key: [$word; 2], input: &[u8], last_xor: $word) -> [$word; 4] {
            const BYTES: usize = <$word>::BITS as usize / 8;
            let rotations: [u32; 6] = $rotations;
            let start: [$word; 4] = $start;
            let mut v: Vec<$word> = (0..4).map(|i| start[i] ^ key[i % 2]).collect();
            let half_round = |v: &mut [$word], a: usize, b: usize, s: u32| {
                v[a] = v[a].wrapping_add(v[b]);
                v[b] = v[b].rotate_left(s) ^ v[a];
            };
            let round = |v: &mut [$word]| {
                half_round(v, 0, 1, rotations[0]);
                half_round(v, 2, 3, rotations[1]);
                v[0] = v[0].rotate_left(rotations[4]);
                half_round(v, 2, 1, rotations[2]);
                half_round(v, 0, 3, rotations[3]);
                v[2] = v[2].rotate_left(rotations[5]);
            };
            let mut padded = input.to_vec();
            padded.resize(input.len() / BYTES * BYTES + BYTES - 1, 0);
            padded.push(input.len() as u8);
            for word in padded.chunks(BYTES) {
                let m = <$word>::from_le_bytes(word.try_into().unwrap());
                v[3] ^= m;
                (0..c).for_each(|_| round(&mut v));
                v[0] ^= m;
            }
            v[2] ^= last_xor;
            (0..d).for_each(|_| round(&mut v));
            v.try_into().unwrap()
        }
    };
}

reference!(
    sip,
    u64,
    [13, 16, 17, 21, 32, 32],
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573]
);
reference!(half_sip, u32, [5, 8, 13, 7, 16, 16], [0, 0, 0x6c79_6765, 0x7465_6462]);

/// Goal: the 1-3 variants are correct for every input length up to 300 (beyond 255, where the
/// length is absorbed modulo 256); HalfSipHash-1-3 has no published vectors. Method: compare with a
/// second implementation from the paper, itself checked with the published 2-4 vectors.
#[test]
fn both_hashes_agree_with_the_definition_at_every_length() {
    let key64 = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    let key32 = [0x0302_0100, 0x0706_0504];
    // The paper's example: SipHash-2-4 of 15 bytes.
    let paper = sip(2, 4, key64, &count::<15>(), 0xff);
    assert_eq!(paper.into_iter().fold(0, |x, v| x ^ v), 0xa129_ca61_49be_45e5);
    let input = count::<300>();
    for length in 0..=input.len() {
        let input = &input[..length];
        let expected = sip(1, 3, key64, input, 0xff).into_iter().fold(0, |x, v| x ^ v);
        assert_eq!(SipHash13::new(count()).hash_u64(input), expected, "{length} bytes");
        for (c, d) in [(1, 3), (2, 4)] {
            let [_, v1, _, v3] = half_sip(c, d, key32, input, 0xff);
            let found = match c {
                1 => HalfSipHash13::new(count()).hash(input),
                _ => HalfSipHash::<2, 4>::new(count()).hash(input),
            };
            assert_eq!(found, v1 ^ v3, "{c}-{d} of {length} bytes");
            if let (2, Some(published)) = (c, HALFSIPHASH_2_4.get(length)) {
                assert_eq!((v1 ^ v3).to_le_bytes(), *published);
            }
        }
    }
}

fn udp4(src_port: u16) -> FlowKey {
    FlowKey::V4 {
        src: [10, 0, 0, 1],
        dst: [192, 0, 2, 1],
        transport: Transport { protocol: 17, src_port, dst_port: 5006 },
    }
}

/// Goal: labels hash exactly the serialized keys. Method: the bytes are written out here.
#[test]
fn labels_are_the_hashes_of_the_serialised_keys() {
    let hasher = SipHash13::new(count());
    let labels = Labels::new(&udp4(5004), &hasher);
    let flow = [10, 0, 0, 1, 192, 0, 2, 1, 17, 0x13, 0x8c, 0x13, 0x8e];
    assert_eq!(labels.flow, hasher.hash(&flow));
    assert_eq!(labels.src_host, hasher.hash(&[10, 0, 0, 1]));
    assert_eq!(labels.dst_host, hasher.hash(&[192, 0, 2, 1]));
    let v6 = FlowKey::V6 {
        src: [0x11; 16],
        dst: [0x22; 16],
        transport: Transport { protocol: 6, src_port: 0x0102, dst_port: 0x0304 },
    };
    let labels = Labels::new(&v6, &hasher);
    let flow = [[0x11; 16].as_slice(), &[0x22; 16], &[6, 1, 2, 3, 4]].concat();
    assert_eq!(labels.flow, hasher.hash(&flow));
    assert_eq!(labels.src_host, hasher.hash(&[0x11; 16]));
    assert_eq!(labels.dst_host, hasher.hash(&[0x22; 16]));
}

/// Goal: the label of a host pair spreads like a hash of both, also for related pairs. Method: all
/// ordered pairs of 64 hosts, including a host with itself: 4,096 labels, all different (by chance
/// all but 1 in 512), and their low 10 bits take 1,024 (1 − e^−4) = 1,005 ± 4 values.
#[test]
fn the_pair_of_hosts_is_directed_and_spreads() {
    let hasher = SipHash13::new(count());
    let host = |i: u8| hasher.hash(&[10, 0, 0, i]);
    let pairs: Vec<u32> = (0..64 * 64_u16)
        .map(|i| (host((i >> 6) as u8), host((i & 63) as u8)))
        .map(|(src_host, dst_host)| Labels { flow: 9, src_host, dst_host }.host_pair())
        .collect();
    let distinct = |mask: u32| pairs.iter().map(|p| p & mask).collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(u32::MAX), 4096);
    assert!((990..=1020).contains(&distinct(1023)), "{}", distinct(1023));
    let own: BTreeSet<u32> = (0..64).map(|i| pairs[i * 65] & 63).collect();
    assert!((32..=50).contains(&own.len()), "hosts with themselves: {}", own.len());
}

/// Goal: flows chosen to collide under one key are separated under another, for both hashes.
/// Method: 64 flows in one of 128 sets (1,024 queues of 8 ways) under the first key must spread
/// over many sets under the second. 64 balls in 128 bins fill 50.5 ± 2.8 on average.
#[test]
fn a_new_key_parts_flows_that_collided_under_the_old() {
    fn sets_after_rotation(old: &impl FlowHasher, new: &impl FlowHasher) -> usize {
        let set =
            |hasher: &dyn FlowHasher, port| hasher.hash(udp4(port).to_bytes().as_ref()) % 1024 / 8;
        let attack: Vec<u16> =
            (0..=u16::MAX).filter(|port| set(old, *port) == 5).take(64).collect();
        assert_eq!(attack.len(), 64);
        attack.iter().map(|port| set(new, *port)).collect::<BTreeSet<_>>().len()
    }
    let sip = sets_after_rotation(&SipHash13::new([1; 16]), &SipHash13::new([2; 16]));
    let half = sets_after_rotation(&HalfSipHash13::new([1; 8]), &HalfSipHash13::new([2; 8]));
    assert!((40..=61).contains(&sip), "{sip}");
    assert!((40..=61).contains(&half), "{half}");
}

#[test]
fn debug_output_shows_no_key() {
    let sip = format!("{:?}", SipHash13::new([0xab; 16]));
    let half = format!("{:?}", HalfSipHash13::new([0xab; 8]));
    assert_eq!((sip.as_str(), half.as_str()), ("SipHash13 { .. }", "HalfSipHash<1, 3> { .. }"));
}

/// Goal: `mix` is a bijection and moves high bits down. Method: invert both xor-shifts and both odd
/// multiplications; 128 numbers with the same low 7 bits, as in one core's receive queue, must fill
/// most of the low bits of 128 sets.
#[test]
fn mixing_is_one_to_one_and_frees_the_low_bits() {
    fn inverse(odd: u32) -> u32 {
        (0..5).fold(odd, |x, _| x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x))))
    }
    let unmix = |hash: u32| {
        let hash = (hash ^ (hash >> 16)).wrapping_mul(inverse(0xc2b2_ae35));
        let hash = (hash ^ (hash >> 13) ^ (hash >> 26)).wrapping_mul(inverse(0x85eb_ca6b));
        hash ^ (hash >> 16)
    };
    for i in 0..1_000_000_u32 {
        let hash = i.wrapping_mul(0x9e37_79b9);
        assert_eq!(unmix(mix(hash)), hash);
    }
    let low: BTreeSet<u32> = (0..128).map(|i| mix(i << 7 | 3) & 127).collect();
    // 128 balls in 128 bins fill 128 (1 − 1/e) = 81 ± 4 of them.
    assert!((69..=93).contains(&low.len()), "{}", low.len());
}
