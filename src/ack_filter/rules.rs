//! The rules by which a later acknowledgement makes an earlier one redundant.

use flowhash::{Ack, Timestamps};

/// Returns true if `newer`, queued behind `older`, carries all information of `older` for the
/// sender of the data, so that `older` may be dropped.
///
/// All of these must hold, with sequence numbers and timestamps compared modulo 2^32 (RFC 9293
/// §3.4, RFC 7323 §5.2):
///
/// - Both belong to one connection and have equal sequence numbers of their own: no data, FIN,
///   keep-alive or window probe lies between them.
/// - `older` has no congestion mark in its IP header.
/// - ECE and CWR of both agree, so that each change of them arrives.
/// - Both have timestamps, and those of `newer` are not before those of `older`; or neither has
///   any.
/// - `newer` acknowledges more; or as much, and has a SACK block that `older` has not: a plain
///   duplicate supersedes nothing.
/// - Each SACK block of `older` is acknowledged by `newer` or lies in one of its blocks, and the
///   first is no duplicate SACK (RFC 2883 §4), which no later segment repeats.
///
/// The relation is transitive. Cost: O(1), at most sixteen comparisons of blocks each way.
#[must_use]
pub fn supersedes(newer: &Ack, older: &Ack) -> bool {
    newer.connection == older.connection
        && newer.seq == older.seq
        && !older.marked
        && (newer.ece, newer.cwr) == (older.ece, older.cwr)
        && not_before(newer.timestamps, older.timestamps)
        && at_or_before(older.number, newer.number)
        && covers(newer, older)
        && (newer.number != older.number || !covers(older, newer))
        && !has_duplicate_sack(older)
}

/// Returns true if `newer` is a duplicate of `older`: a sender counts those (RFC 5681 §3.2).
pub(super) fn repeats(newer: &Ack, older: &Ack) -> bool {
    newer.number == older.number
}

/// Returns true if `earlier` is at or before `later` modulo 2^32.
const fn at_or_before(earlier: u32, later: u32) -> bool {
    later.wrapping_sub(earlier) < 1 << 31
}

fn not_before(newer: Option<Timestamps>, older: Option<Timestamps>) -> bool {
    match (newer, older) {
        (Some(newer), Some(older)) => {
            at_or_before(older.value, newer.value) && at_or_before(older.echo, newer.echo)
        }
        (None, None) => true,
        _ => false,
    }
}

/// Returns true if all data that `other` reports by SACK is reported or acknowledged by `ack`. A
/// block that ends before it begins is covered by nothing.
fn covers(ack: &Ack, other: &Ack) -> bool {
    other.sack.as_slice().iter().all(|&(start, end)| {
        let is_within =
            |&(from, to): &(u32, u32)| at_or_before(from, start) && at_or_before(end, to);
        start != end
            && at_or_before(start, end)
            && (at_or_before(end, ack.number) || ack.sack.as_slice().iter().any(is_within))
    })
}

/// Returns true if the first SACK block reports data that arrived twice: it begins below the
/// acknowledgement number or lies in the second block (RFC 2883 §4).
fn has_duplicate_sack(ack: &Ack) -> bool {
    let is_old = |start| start != ack.number && at_or_before(start, ack.number);
    match *ack.sack.as_slice() {
        [(start, end), (from, to), ..] => {
            is_old(start) || (at_or_before(from, start) && at_or_before(end, to))
        }
        [(start, _)] => is_old(start),
        [] => false,
    }
}
