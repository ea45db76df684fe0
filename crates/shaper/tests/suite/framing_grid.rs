//! Length on the wire over the whole grid of settings, compared with its definition.

use conformance::effort::effort;
use shaper::{Framing, Layer, Overhead};

const FRAMINGS: [Framing; 6] =
    [Framing::None, Framing::Atm, Framing::Ptm, Framing::PtmPaper, Framing::Gem, Framing::Xgem];

/// Returns the length on the wire of `len` bytes, in signed arithmetic with divisions; `layers`
/// from the inside out.
fn defined(
    framing: Framing,
    (overhead, mpu, header): (i32, u32, u8),
    layers: &[Layer],
    len: u32,
) -> i64 {
    let mut size = i64::from(len) - i64::from(header);
    for layer in layers {
        size += i64::from(layer.inside);
        if layer.multiple > 1 || layer.least > 0 {
            let (least, multiple) = (i64::from(layer.least), i64::from(layer.multiple));
            size = (size.max(least) + multiple - 1).div_euclid(multiple) * multiple;
        }
        size += i64::from(layer.outside);
    }
    let net = (size + i64::from(overhead)).max(mpu.into()).max(1);
    match framing {
        Framing::None => net,
        Framing::Atm => (net + 47) / 48 * 53,
        Framing::Ptm => net + (net + 63) / 64,
        Framing::PtmPaper => (net + 63) / 64 * 65,
        Framing::Gem => net + 5,
        Framing::Xgem => (net + 3) / 4 * 4 + 8,
        other => panic!("{other:?} has no definition here"),
    }
}

/// Goal: no setting wraps, shrinks a longer packet, or exceeds the bounds. Method: overhead ×
/// minimum × framing × header × layers × length. Full depth covers all overheads, minimums and
/// lengths to 1,600 (10⁹ lengths on the wire, 20 s); otherwise a sample with both ends of each
/// range.
#[test]
fn every_setting_in_range_is_monotone_and_bounded() {
    let minimum = Layer { inside: 3, least: 60, multiple: 1, outside: 1 };
    let inside: [&[Layer]; 4] = [
        &[],
        &[Layer::WIREGUARD],
        &[Layer::GRE, Layer::ESP, Layer::PPPOE],
        &[minimum, Layer::ESP_UDP, Layer::WIREGUARD6, Layer::VLAN],
    ];
    let (overheads, minima) = (effort(20, 1), effort(32, 1));
    let mut lengths = 0_u64;
    for (framing, layers) in FRAMINGS.into_iter().flat_map(|f| inside.map(|layers| (f, layers))) {
        // Coarser with layers, except in what layers change.
        let coarse = if layers.is_empty() { 1 } else { 8 };
        for overhead in
            (Overhead::MIN_OVERHEAD..=Overhead::MAX_OVERHEAD).step_by(overheads * coarse)
        {
            for mpu in (0..=Overhead::MAX_MPU).step_by(minima * coarse) {
                let header = if (overhead + mpu as i32) % 2 == 0 { 14 } else { 0 };
                let link = Overhead::new(framing, overhead, mpu).unwrap().for_frames(header);
                let carried = layers.iter().rev().try_fold(link, |l, layer| l.carrying(*layer));
                // No such link: the overhead is out of range.
                let Ok(link) = carried else { continue };
                let mut previous = 0;
                for len in 0..=1_600 {
                    let wire = link.wire_len(len);
                    let exact = defined(framing, (overhead, mpu, header), layers, len);
                    assert_eq!(i64::from(wire), exact, "{link:?} {len}");
                    assert!(wire >= previous && wire >= mpu && wire >= 1, "{link:?} {len}");
                    assert!(wire < 2_500, "{link:?} {len}");
                    previous = wire;
                    lengths += 1;
                }
            }
        }
    }
    assert!(lengths > 1_000_000, "{lengths}");
}

/// Goal: lengths that no link carries saturate and stay monotone. Method: powers of two and their
/// neighbours, up to the maximum.
#[test]
fn every_framing_saturates_and_stays_monotone() {
    for framing in FRAMINGS {
        for (overhead, layer) in [(-64, Layer::NONE), (0, Layer::WIREGUARD), (200, Layer::PPPOE)] {
            let link = Overhead::new(framing, overhead, 0).and_then(|link| link.carrying(layer));
            let link = link.unwrap();
            let mut previous = 0;
            for len in
                (0..32).flat_map(|power| [(1_u32 << power) - 1, 1 << power, (1 << power) + 1])
            {
                let wire = link.wire_len(len);
                assert!(wire >= previous || len < 3, "{link:?} {len}");
                let exact = defined(framing, (overhead, 0, 0), &[layer], len);
                assert_eq!(i64::from(wire), exact.min(u32::MAX.into()), "{link:?} {len}");
                previous = wire;
            }
            assert!(link.wire_len(u32::MAX) >= u32::MAX - 64);
        }
    }
}
