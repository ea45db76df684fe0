//! Collision rates of the keyed hashes for keys of attackers and of households.

use conformance::effort::effort;
use flowhash::{
    FlowHasher, FlowKey, FlowTable, HalfSipHash13, Outcome, SipHash13, TagLine, Transport,
};

/// Returns the `i`-th flow of a run: one host pair, with increasing ports.
fn flow(i: u32) -> FlowKey {
    FlowKey::V4 {
        src: [10, 0, 0, (i >> 20) as u8],
        dst: [192, 0, 2, 1],
        transport: Transport { protocol: 6, src_port: i as u16, dst_port: (i >> 16) as u16 & 15 },
    }
}

/// Returns the share of runs, each with its own key, in which flow `n` finds no free way after
/// flows `0..n` have each sent a packet.
fn collision_probability<H: FlowHasher>(new: impl Fn(u64) -> H, n: u32, ways: u32) -> f64 {
    const PROBES: u32 = 64;
    let mut table = FlowTable::new([TagLine::EMPTY; 128], 1024, ways).unwrap();
    let (runs, mut collisions) = (effort(1_000, 4_000_u64), 0);
    for run in 0..runs {
        let hasher = new(run);
        table.clear();
        for i in 0..n {
            table.lookup(hasher.hash(flow(i).to_bytes().as_ref()));
        }
        for probe in n..n + PROBES {
            let lookup = table.lookup(hasher.hash(flow(probe).to_bytes().as_ref()));
            match lookup.outcome {
                Outcome::Collision => collisions += 1,
                // Release the way, so that each probe is the (n + 1)-th flow.
                Outcome::Claimed => assert!(table.release(lookup.queue)),
                Outcome::Hit => {}
            }
        }
    }
    f64::from(collisions) / (runs as f64 * f64::from(PROBES))
}

/// Returns P[Bin(n, k/N) ≥ k] with N = 1,024.
fn formula(n: u32, ways: u32) -> f64 {
    let p = f64::from(ways) / 1024.0;
    let mut term = (1.0 - p).powi(n as i32);
    let mut below = 0.0;
    for i in 0..ways {
        below += term;
        term *= f64::from(n - i) / f64::from(i + 1) * p / (1.0 - p);
    }
    1.0 - below
}

#[test]
fn the_formula_gives_the_tabulated_values() {
    for (n, ways, value) in [
        (128, 1, 0.118),
        (256, 1, 0.221),
        (512, 1, 0.394),
        (1024, 1, 0.632),
        (256, 8, 0.001),
        (512, 8, 0.050),
        (1024, 8, 0.548),
    ] {
        assert!((formula(n, ways) - value).abs() < 0.000_6, "{n} flows, {ways} ways");
    }
    assert!((formula(128, 8) - 8.6e-6).abs() < 1e-7, "{}", formula(128, 8));
}

/// Goal: a table with the real hashes has the collision rate of random hashes. Method: 4,000 keys
/// at full depth, otherwise 1,000, with 64 probes each; the standard error is below 0.001 or 0.002.
#[test]
fn collisions_are_as_rare_as_the_formula_says() {
    let sip =
        |run: u64| SipHash13::new([run.to_le_bytes(), [0x5a; 8]].concat().try_into().unwrap());
    let half = |run: u64| HalfSipHash13::new(run.to_le_bytes());
    for (n, ways) in [(512, 1), (1024, 1), (512, 8), (1024, 8), (400, 8), (512, 4), (1024, 16)] {
        let expected = formula(n, ways);
        for (name, found) in [
            ("SipHash-1-3", collision_probability(sip, n, ways)),
            ("HalfSipHash-1-3", collision_probability(half, n, ways)),
        ] {
            assert!((found - expected).abs() < 0.005, "{name}, {n}/{ways}: {found} {expected}");
        }
    }
}

/// Goal: an attacker who fills the table at random, without the key, fills a victim's set no more
/// often than by chance: P(full) within 3 σ of the formula. Method: 10,000 tables per row at full
/// depth, otherwise 1,000, each with its own key and one victim, so that the trials are independent
/// and σ² = p(1 − p) divided by their number.
#[test]
fn random_filling_shuts_the_set_of_a_victim_as_often_as_chance() {
    let tables = effort(1_000, 10_000_u64);
    for (n, ways, rough) in [
        (400, 8, 0.015),
        (500, 8, 0.046),
        (1_000, 8, 0.52),
        (400, 1, 0.32),
        (500, 1, 0.39),
        (1_000, 1, 0.62),
    ] {
        let mut table = FlowTable::new([TagLine::EMPTY; 128], 1_024, ways).unwrap();
        let mut shut = 0_u32;
        for run in 0..tables {
            let run = run + u64::from(n * 100 + ways) * 10_000;
            let hasher = SipHash13::new(u128::from(run).to_le_bytes());
            table.clear();
            for i in 1..=n {
                table.lookup(hasher.hash(flow(i).to_bytes().as_ref()));
            }
            let victim = hasher.hash(flow(0).to_bytes().as_ref());
            shut += u32::from(table.lookup(victim).outcome == Outcome::Collision);
        }
        let (found, expected) = (f64::from(shut) / tables as f64, formula(n, ways));
        let sigma = (expected * (1.0 - expected) / tables as f64).sqrt();
        println!("{n} flows, {ways} ways: {found:.4}, chance {expected:.4} (sigma {sigma:.4})");
        assert!((found - expected).abs() < 3.0 * sigma, "{n}/{ways}: {found} {expected} {sigma}");
        assert!((expected - rough).abs() < 0.006, "{n}/{ways}: {expected}");
    }
}

/// A sequence of keys by index.
type Sequence = fn(u32) -> FlowKey;

/// Returns keys that count up like a port scan, an address scan and a scan of an IPv6 subnet.
fn sequences() -> [(&'static str, Sequence); 3] {
    const T: Transport = Transport { protocol: 17, src_port: 40_000, dst_port: 53 };
    [
        ("sequential ports", |i| FlowKey::V4 {
            src: [10, 0, 0, 1],
            dst: [192, 0, 2, 1],
            transport: Transport { src_port: i as u16, ..T },
        }),
        ("sequential addresses", |i| FlowKey::V4 {
            src: (0x0a00_0000 + i).to_be_bytes(),
            dst: [192, 0, 2, 1],
            transport: T,
        }),
        ("a scan of an IPv6 /64", |i| FlowKey::V6 {
            src: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
            dst: ((0x2001_0db8_0000_0002_u128 << 64) + u128::from(i)).to_be_bytes(),
            transport: T,
        }),
    ]
}

/// Returns the distance of Pearson's χ² from its mean in standard deviations, over 16 keys:
/// occupancy of 1,024 queues by 65,536 sequential flows, with queues taken from the hash by `bits`.
fn chi_square<H: FlowHasher>(
    new: impl Fn(u64) -> H,
    key_of: Sequence,
    bits: fn(u32) -> u32,
) -> f64 {
    const KEYS: u64 = 16;
    const FLOWS: u32 = 65_536;
    let expected = f64::from(FLOWS) / 1_024.0;
    let mut sum = 0.0;
    for run in 0..KEYS {
        let hasher = new(run);
        let mut occupancy = [0_u32; 1_024];
        for i in 0..FLOWS {
            occupancy[bits(hasher.hash(key_of(i).to_bytes().as_ref())) as usize] += 1;
        }
        sum += occupancy.map(|n| (f64::from(n) - expected).powi(2) / expected).iter().sum::<f64>();
    }
    // The sum of χ² of independent keys is χ² with as many times the degrees of freedom, here 16 ·
    // 1,023, which is close to normal.
    let freedom = KEYS as f64 * 1_023.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Two-sided quantile of the normal distribution for 0.1 %.
const SIGNIFICANCE: f64 = 3.29;
const LOW: fn(u32) -> u32 = |hash| hash & 1_023;
const HIGH: fn(u32) -> u32 = |hash| hash >> 22;

/// Goal: sequences of keys fill the queues neither less nor more evenly than chance. Method:
/// Pearson's χ² of the low bits, which choose the queue, and of the highest, which only the tag
/// has; twelve two-sided tests at a significance of 0.1 %, with fixed keys.
#[test]
fn sequences_of_keys_occupy_the_queues_as_chance_does() {
    for (name, key_of) in sequences() {
        for (part, bits) in [("low", LOW), ("high", HIGH)] {
            let sip = |run: u64| SipHash13::new(u128::from(run * 0x9e37_79b9).to_le_bytes());
            let half = |run: u64| HalfSipHash13::new((run * 0x9e37_79b9).to_le_bytes());
            for (hash, sigmas) in [
                ("SipHash-1-3", chi_square(sip, key_of, bits)),
                ("HalfSipHash-1-3", chi_square(half, key_of, bits)),
            ] {
                println!("{hash}, {name}, {part} bits: {sigmas:+.2} standard deviations");
                assert!(sigmas.abs() < SIGNIFICANCE, "{hash}, {name}, {part} bits: {sigmas}");
            }
        }
    }
}

/// Goal: the test above detects bad hashes, both too uneven and too even ones.
#[test]
fn a_hash_that_is_none_is_seen() {
    struct Sum;
    impl FlowHasher for Sum {
        fn hash(&self, bytes: &[u8]) -> u32 {
            bytes.iter().map(|byte| u32::from(*byte)).sum()
        }
    }
    /// Counts up with the key, so that each queue gets exactly its share.
    struct Even(core::cell::Cell<u32>);
    impl FlowHasher for Even {
        fn hash(&self, _bytes: &[u8]) -> u32 {
            self.0.replace(self.0.get() + 1)
        }
    }
    for (name, key_of) in sequences() {
        assert!(chi_square(|_| Sum, key_of, LOW) > 50.0, "{name}: too uneven");
        assert!(chi_square(|_| Even(0.into()), key_of, LOW) < -50.0, "{name}: too even");
    }
}
