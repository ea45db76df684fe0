//! How often flows collide, with the keyed hashes on keys as attackers and households make them.

use flowhash::{FlowHasher, FlowKey, HalfSipHash13, Line, Outcome, SipHash13, Table, Transport};

/// The `i`-th flow of a run: one host pair, ports counting up.
fn flow(i: u32) -> FlowKey {
    FlowKey::V4 {
        src: [10, 0, 0, (i >> 20) as u8],
        dst: [192, 0, 2, 1],
        transport: Transport { protocol: 6, src_port: i as u16, dst_port: (i >> 16) as u16 & 15 },
    }
}

/// The share of runs, each with a key of its own, in which flow `n` meets no free way after flows
/// `0..n` have each sent a packet.
fn collision_probability<H: FlowHasher>(new: impl Fn(u64) -> H, n: u32, ways: u32) -> f64 {
    const RUNS: u64 = 4_000;
    const PROBES: u32 = 64;
    let mut table = Table::new([Line::EMPTY; 128], 1024, ways).unwrap();
    let mut collisions = 0;
    for run in 0..RUNS {
        let hasher = new(run);
        table.clear();
        for i in 0..n {
            table.lookup(hasher.hash(flow(i).to_bytes().as_ref()));
        }
        for probe in n..n + PROBES {
            let lookup = table.lookup(hasher.hash(flow(probe).to_bytes().as_ref()));
            match lookup.outcome {
                Outcome::Collision => collisions += 1,
                // Gives the way back, so that each probe is the (n + 1)-th flow.
                Outcome::Claimed => assert!(table.release(lookup.queue)),
                Outcome::Hit => {}
            }
        }
    }
    f64::from(collisions) / (RUNS as f64 * f64::from(PROBES))
}

/// P[Bin(n, k/N) ≥ k] with N = 1,024.
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

/// Goal: a table driven by the real hashes collides as one driven by chance.
/// Method: 4,000 keys with 64 probes each; the standard error is below 0.001.
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
