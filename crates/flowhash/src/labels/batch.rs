//! The flow labels of a burst.

use crate::{FlowHasher, FlowKey, KeyBytes};

/// Keys hashed side by side.
const LANES: usize = 4;

/// Writes the flow label of each key, [`FlowKey::label`], to its place in `labels`; returns how many
/// were written, the length of the shorter of the two.
///
/// Made for bursts of 32: neighbours of one IP version are hashed four at a time by
/// [`FlowHasher::hash_each`], which lets the processor work on several chains of dependent
/// additions at once.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowKey, SipHash13, label_batch};
///
/// let hasher = SipHash13::new([42; 16]);
/// let keys = [FlowKey::Unknown; 32];
/// let mut labels = [0; 32];
/// assert_eq!(label_batch(&keys, &hasher, &mut labels), 32);
/// assert_eq!(labels[31], keys[31].label(&hasher));
/// ```
pub fn label_batch<H: FlowHasher>(keys: &[FlowKey], hasher: &H, labels: &mut [u32]) -> usize {
    let (fours, rest) = keys.as_chunks::<LANES>();
    let mut places = labels.iter_mut();
    let mut filled = 0;
    let mut fill = |values: &[u32]| {
        for (value, place) in values.iter().zip(&mut places) {
            *place = *value;
            filled += 1;
        }
    };
    for four in fours {
        fill(&four_labels(four, hasher));
    }
    for key in rest {
        fill(&[key.label(hasher)]);
    }
    filled
}

#[inline(always)]
fn four_labels<H: FlowHasher>(keys: &[FlowKey; LANES], hasher: &H) -> [u32; LANES] {
    let bytes = keys.each_ref().map(FlowKey::to_bytes);
    if let [Some(a), Some(b), Some(c), Some(d)] = bytes.each_ref().map(KeyBytes::as_v4) {
        return hasher.hash_each(&[*a, *b, *c, *d]);
    }
    if let [Some(a), Some(b), Some(c), Some(d)] = bytes.each_ref().map(KeyBytes::as_v6) {
        return hasher.hash_each(&[*a, *b, *c, *d]);
    }
    keys.map(|key| key.label(hasher))
}
