//! Reference model of the ACK filter: sequence numbers are 64-bit distances, data are sets of
//! ranges, and every acknowledgement of a queue is evaluated before one is chosen.

use core::cmp::Ordering;

use freeboard::AckFilter;
use freeboard::flowhash::{Ending, FlowKey, Parsed};

/// Information in an acknowledgement for the sender of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Addresses and ports.
    pub connection: FlowKey,
    /// Sequence number of the segment itself.
    pub seq: u32,
    /// Acknowledgement number.
    pub number: u32,
    /// Window in the header.
    pub window: u16,
    /// ECE and CWR.
    pub echoes: (bool, bool),
    /// True if the packet itself has a congestion mark.
    pub marked: bool,
    /// TSval and TSecr.
    pub stamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub blocks: Vec<(u32, u32)>,
}

/// Reads the segment that the parser found in `frame`; `None` unless it is a pure acknowledgement.
#[must_use]
pub fn read(frame: &[u8], parsed: &Parsed) -> Option<Feedback> {
    let is_tcp = parsed.key.transport().is_some_and(|transport| transport.protocol == 6);
    if frame.len() > 256 || parsed.ending != Ending::Ports || !is_tcp {
        return None;
    }
    // With three headers, the middle one may be marked but is not read.
    if parsed.inner.is_some_and(|inner| inner.depth > 1) {
        return None;
    }
    let ip = parsed.inner.map(|inner| inner.ip).or(parsed.ip)?;
    let word =
        |at: usize| Some(usize::from(*frame.get(at)?) * 256 + usize::from(*frame.get(at + 1)?));
    let (field, behind) = if frame[ip.offset] >> 4 == 4 {
        (word(ip.offset + 2)?, ip.offset)
    } else {
        (word(ip.offset + 4)?, ip.offset + 40)
    };
    let end = behind + field;
    if field == 0 || end > frame.len() || ip.upper_offset + 20 > end {
        return None;
    }
    let tcp = &frame[ip.upper_offset..end];
    let number = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let has_only_a_header = usize::from(tcp[12] / 16) * 4 == tcp.len();
    // Of all flags only ACK, ECE and CWR may be set; the bits between length and flags are
    // reserved.
    if !has_only_a_header || tcp[12] & 15 != 0 || tcp[13] & 0b0011_1111 != 0b0001_0000 {
        return None;
    }
    let (mut stamps, mut blocks) = (None, None);
    let mut at = 20;
    while at < tcp.len() && tcp[at] != 0 {
        if tcp[at] == 1 {
            at += 1;
            continue;
        }
        let len = usize::from(*tcp.get(at + 1)?);
        if at + len > tcp.len() {
            return None;
        }
        match (tcp[at], len) {
            (8, 10) if stamps.is_none() => stamps = Some((number(at + 2), number(at + 6))),
            (5, 10 | 18 | 26 | 34) if blocks.is_none() => {
                let starts = (at + 2..at + len).step_by(8);
                blocks = Some(starts.map(|at| (number(at), number(at + 4))).collect());
            }
            (19, 18) => {}
            _ => return None,
        }
        at += len;
    }
    Some(Feedback {
        connection: parsed.key,
        seq: number(4),
        number: number(8),
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        echoes: (tcp[13] & 64 != 0, tcp[13] & 128 != 0),
        // The end of a tunnel preserves the mark of either header.
        marked: [parsed.ip, parsed.inner.map(|inner| inner.ip)]
            .iter()
            .flatten()
            .any(|ip| ip.ecn() == 3),
        stamps,
        blocks: blocks.unwrap_or_default(),
    })
}

/// Returns the distance from `from` to `to`, less than 2^31 in either direction; `None` at exactly
/// 2^31, where neither is ahead.
fn distance(from: u32, to: u32) -> Option<i64> {
    let ahead = (i64::from(to) - i64::from(from)).rem_euclid(1 << 32);
    match ahead.cmp(&(1 << 31)) {
        Ordering::Less => Some(ahead),
        Ordering::Equal => None,
        Ordering::Greater => Some(ahead - (1 << 32)),
    }
}

/// Returns true if the numbers are in ascending order modulo 2^32; neighbours may be equal.
fn ordered(numbers: &[u32]) -> bool {
    numbers.windows(2).all(|pair| distance(pair[0], pair[1]).is_some_and(|ahead| ahead >= 0))
}

impl Feedback {
    /// Returns true if the first block reports a duplicate (RFC 2883 §4).
    fn has_duplicate(&self) -> bool {
        let Some(&(start, end)) = self.blocks.first() else { return false };
        let lies_in = |&(from, to): &(u32, u32)| ordered(&[from, start]) && ordered(&[end, to]);
        let is_old = distance(start, self.number).is_some_and(|ahead| ahead > 0);
        is_old || self.blocks.get(1).is_some_and(lies_in)
    }

    /// Returns true if everything that `other` reports is reported or acknowledged here.
    fn reports_all_of(&self, other: &Self) -> bool {
        let known = |&(start, end): &(u32, u32)| {
            let has_data = distance(start, end).is_some_and(|ahead| ahead > 0);
            let lies_in = |&(from, to): &(u32, u32)| ordered(&[from, start]) && ordered(&[end, to]);
            has_data && (ordered(&[end, self.number]) || self.blocks.iter().any(lies_in))
        };
        other.blocks.iter().all(known)
    }

    /// Returns true if `older` has no information for the sender that is not in this one.
    #[must_use]
    pub fn makes_superfluous(&self, older: &Self) -> bool {
        let ahead = distance(older.number, self.number).unwrap_or(-1);
        let stamps = match (self.stamps, older.stamps) {
            (None, None) => true,
            (Some(new), Some(old)) => ordered(&[old.0, new.0]) && ordered(&[old.1, new.1]),
            _ => false,
        };
        let is_forward = ahead > 0 || (ahead == 0 && !older.reports_all_of(self));
        let says_the_same = self.connection == older.connection
            && self.seq == older.seq
            && self.echoes == older.echoes;
        let is_special = older.marked || older.has_duplicate();
        says_the_same && stamps && is_forward && self.reports_all_of(older) && !is_special
    }
}

/// Selects the packet to drop from a queue, given oldest first, after its last one arrived; returns
/// its position counted from the newest.
#[must_use]
pub fn choose(filter: AckFilter, queue: &[Option<Feedback>]) -> Option<usize> {
    let newest = queue.last()?.as_ref()?;
    let from = queue.len().saturating_sub(1 + AckFilter::REACH);
    let same = |told: &&Feedback| told.connection == newest.connection;
    // The acknowledgements of the connection with their positions, newest first.
    let all: Vec<(usize, &Feedback)> = queue[from..]
        .iter()
        .rev()
        .enumerate()
        .filter_map(|(place, told)| Some((place, told.as_ref().filter(same)?)))
        .collect();
    let goes = |at: usize| all[at - 1].1.makes_superfluous(all[at].1);
    let may_go: Vec<usize> = (1..all.len())
        .filter(|&at| goes(at))
        .filter(|&at| {
            // A sender counts duplicate acknowledgements, so one is kept if the one before it
            // stays.
            let repeats = at + 1 < all.len() && all[at + 1].1.number == all[at].1.number;
            !repeats || goes(at + 1)
        })
        .map(|at| all[at].0)
        .collect();
    match (filter, may_go.as_slice()) {
        (AckFilter::Conservative | AckFilter::Aggressive, [_, second, ..]) => Some(*second),
        (AckFilter::Aggressive, [1]) => Some(1),
        _ => None,
    }
}
