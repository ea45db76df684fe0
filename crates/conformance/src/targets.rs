//! Fuzz targets, also run by `cargo test` on the fuzzer's corpus: functions that accept any bytes
//! and return or panic. The target for captures is `sim::capture::check_reading`.
use crate::history::{
    ConfigurableScheduler, DESCRIPTORS, FLOWS, Match, Operation, Pair, Peeked, Setting, Shape,
    Shifted, check, operations, pair, play_aqm, play_frames, play_labelled,
};
use crate::sides::{self, MAX_LEN};
use crate::twin::{parser, segments as naive, shaper_clock as clock};
use freeboard::Segmenter;
use freeboard::flowhash::parse;
use freeboard::flowhash::parse::MAX_TUNNELS;
use freeboard::flowhash::{Ending, FlowLabels, Inner, Ip, Parsed, Parser, Tunnels};
use freeboard::sched_core::{DropFrom, Limits};

/// The name of a target, which is its folder in `fuzz/corpus`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const ALL: [Target; 14] = [
    ("ops_fifo", ops_fifo),
    ("ops_drr", ops_drr),
    ("ops_sqf", ops_sqf),
    ("ops_qfq", ops_qfq),
    ("ops_qfq_plus", ops_qfq_plus),
    ("ops_wf2q", ops_wf2q),
    ("ops_catalog", ops_catalog),
    ("aqm", aqm),
    ("isolated", isolated),
    ("ack_filter", ack_filter),
    ("parse", parse),
    ("segments", segments),
    ("shaper_clock", shaper_clock),
    ("smart_queue", smart_queue),
];

const F: usize = FLOWS as usize;
const S: usize = DESCRIPTORS as usize;

/// Whole ticks of a descriptor at which counters of 31, 32, 53 and 63 bits wrap.
const SHIFTS: [u64; 4] = [1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)];

/// Fuzzer input: the first byte selects the configuration of both sides, the rest encodes
/// operations.
struct History<'a> {
    variant: u8,
    rest: &'a [u8],
}

impl<'a> History<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let (&variant, rest) = bytes.split_first().unwrap_or((&0, &[]));
        Self { variant, rest }
    }

    fn bit(&self, bit: u32) -> bool {
        self.variant >> bit & 1 == 1
    }

    fn end(&self) -> DropFrom {
        if self.bit(0) { DropFrom::Tail } else { DropFrom::Head }
    }

    /// Returns no limits, or limits so low that a short sequence reaches them.
    fn limits(&self) -> Limits {
        if self.bit(1) { Limits { packets: 6, bytes: 4_000 } } else { Limits::NONE }
    }

    /// Asserts that both sides agree. Adds two flows of different weights first, unless bit 7 is
    /// set.
    fn agree<A, B>(&self, sides: impl Fn() -> (A, B))
    where
        A: ConfigurableScheduler + Send + 'static,
        B: ConfigurableScheduler + Send + 'static,
    {
        self.agree_in_any_pair(&|| pair(sides()));
    }

    fn agree_in_any_pair(&self, sides: &dyn Fn() -> Pair) {
        if let Err(difference) = check(sides, &self.operations()) {
            panic!("{difference}");
        }
    }

    /// Asserts that additional peeks and a shift of time have no effect, and that handles and
    /// counters are correct.
    fn keeps<A: ConfigurableScheduler>(&self, side: impl Fn() -> A) {
        let late = SHIFTS[usize::from(self.variant >> 3 & 3)];
        let twin = Peeked::new(Shifted::new(side(), late));
        let mut both = Match::new(side(), twin).marking_arrivals();
        let history = self.operations();
        for (at, &operation) in history.iter().enumerate() {
            if let Err(difference) = both.step(operation, true) {
                panic!("{difference}, {late} ns later, after {:#?}", &history[..=at]);
            }
        }
    }

    fn operations(&self) -> Vec<Operation> {
        let added = if self.bit(7) { 0 } else { 2 };
        let add = |flow| {
            let setting = Setting { weight: 3 + 4 * flow, max_len: MAX_LEN };
            Operation::Configure { flow, setting }
        };
        (0..added).map(add).chain(operations(self.rest)).collect()
    }
}

/// Compares FIFO with head drop and tail drop with its reference model.
pub fn ops_fifo(bytes: &[u8]) {
    let history = History::of(bytes);
    history.agree(|| sides::fifo::<S>(history.end(), history.limits()));
}

/// Compares DRR, with and without sparse flows first and longest-queue drop, with its reference
/// model.
pub fn ops_drr(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits, sparse_first) = (history.end(), history.limits(), history.bit(2));
    if history.bit(3) {
        history.agree(|| sides::drr_lqd::<F, S>(MAX_LEN, sparse_first, end, limits));
    } else {
        history.agree(|| sides::drr::<F, S>(MAX_LEN, sparse_first, limits));
    }
}

/// Compares SQF, dropping at either end, with and without a service floor and flushes, with its
/// reference model.
pub fn ops_sqf(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits) = (history.end(), history.limits());
    match (history.bit(2), history.bit(3)) {
        (false, false) => history.agree(|| sides::sqf::<F, S>(end, limits)),
        (true, false) => {
            history.agree(|| sides::sqf_flushing::<F, S>(end, sides::MILLISECOND, limits))
        }
        (false, true) => history.agree(|| sides::sqf_with_floor::<F, S>(end, 3, limits)),
        (true, true) => {
            history.agree(|| sides::sqf_repaired::<F, S>(end, 3, sides::MILLISECOND, limits))
        }
    }
}

/// Compares QFQ, with and without longest-queue drop, with its reference model.
pub fn ops_qfq(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits) = (history.end(), history.limits());
    if history.bit(2) {
        history.agree(|| sides::qfq_lqd::<F, S>(MAX_LEN, end, limits));
    } else {
        history.agree(|| sides::qfq::<F, S>(MAX_LEN, limits));
    }
}

/// Compares QFQ+, with and without longest-queue drop and with one to eight flows per aggregate,
/// with its reference model.
pub fn ops_qfq_plus(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits) = (history.end(), history.limits());
    let members = 1 + u32::from(history.variant >> 3 & 7);
    if history.bit(2) {
        history.agree(|| sides::qfq_plus_lqd::<F, S>(MAX_LEN, members, end, limits));
    } else {
        history.agree(|| sides::qfq_plus::<F, S>(MAX_LEN, members, limits));
    }
}

/// Compares WF²Q+, with and without longest-queue drop, with its reference model.
pub fn ops_wf2q(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits) = (history.end(), history.limits());
    if history.bit(2) {
        history.agree(|| sides::wf2q_lqd::<F, S>(MAX_LEN, end, limits));
    } else {
        history.agree(|| sides::wf2q::<F, S>(MAX_LEN, limits));
    }
}

type Play = fn(&History<'_>);

macro_rules! plays {
    ([$sides:ident] $($name:ident: $recipe:expr,)*) => {
        &[$(|history: &History<'_>| {
            history.agree(|| sides::$sides::<F, S, _>($recipe, MAX_LEN, history.limits()));
        }),*]
    };
}

macro_rules! plays_alone {
    ([] $($name:ident: $recipe:expr,)*) => {
        &[$(|history: &History<'_>| {
            history.keeps(|| sides::composition::<F, S, _>($recipe, MAX_LEN, history.limits()));
        }),*]
    };
}

const CATALOG: [&[Play]; 3] = [
    crate::flow_schedulers!(plays, [flows]),
    crate::schedulers!(plays, [packets]),
    crate::compositions!(plays_alone, []),
];

/// Compares an entry of the catalogue, selected by the second byte, with its reference model. An
/// entry without one is compared with a copy of itself that is peeked at and runs at shifted times.
pub fn ops_catalog(bytes: &[u8]) {
    let mut history = History::of(bytes);
    let (&entry, rest) = history.rest.split_first().unwrap_or((&0, &[]));
    history.rest = rest;
    let plays = CATALOG.concat();
    plays[usize::from(entry) % plays.len()](&history);
}

/// Compares an AQM alone, with arbitrary parameters, times and sojourn times, with a copy at
/// shifted times, and `DualPI2` also with its reference model.
pub fn aqm(bytes: &[u8]) {
    let _told = play_aqm(bytes);
}

/// Compares the isolated queue, with changing isolation modes, tins and keys, with its reference
/// model.
pub fn isolated(bytes: &[u8]) {
    let (&tables, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let tables = Shape::ALL[usize::from(tables) % Shape::ALL.len()];
    if let Err(difference) = play_labelled(tables, bytes) {
        panic!("{difference}");
    }
}

/// Compares a queue of acknowledgements with arbitrary options and the filter with the naive
/// filter.
pub fn ack_filter(bytes: &[u8]) {
    crate::acks::play(bytes);
}

/// Compares the parser, with all options, with its reference model. Also checks that a prefix has
/// the same result or is reported as truncated, that an IP packet has the same result without the
/// headers in front of it, and that trailing bytes change nothing.
pub fn parse(bytes: &[u8]) {
    let longer = [bytes, &[0x99; 40]].concat();
    for tunnels in [Tunnels::PPPOE, Tunnels::VISIBLE, Tunnels::ALL, Tunnels::NONE] {
        for flow_labels in [FlowLabels::WithoutPorts, FlowLabels::Always, FlowLabels::Ignored] {
            let parser = Parser { tunnels, flow_labels };
            for framed in [true, false] {
                let read = |bytes| if framed { parser.ethernet(bytes) } else { parser.ip(bytes) };
                let whole = read(bytes);
                assert_eq!(whole, parser::read(parser, bytes, framed), "{parser:?}");
                // Extension headers can be longer, 8 · 2,048 bytes, but only by one long header.
                for cut in 0..bytes.len().min(256) {
                    let part = read(&bytes[..cut]);
                    let is_cut = part.ending == Ending::Truncated || part == whole;
                    assert!(is_cut, "cut at {cut}: {part:?}");
                }
                if whole.ending != Ending::Truncated {
                    assert_eq!(whole, read(&longer), "with more behind it");
                }
                consistent(parser, bytes, whole);
            }
        }
    }
    assert_eq!(parse::ethernet(bytes), Parser::OUTER.ethernet(bytes));
    assert_eq!(parse::ip(bytes), Parser::OUTER.ip(bytes));
}

/// Checks relations between the positions of the IP headers in a result.
fn consistent(parser: Parser, bytes: &[u8], whole: Parsed) {
    let Some(outer) = whole.ip else {
        assert_eq!(whole.inner, None, "an inner header without an outer one");
        return;
    };
    let moved = |ip: Ip| {
        Ip::new(ip.offset - outer.offset, ip.traffic_class, ip.upper_offset - outer.offset)
    };
    let innermost = whole.inner.map_or(outer, |inner| inner.ip);
    assert!(innermost.offset + 20 <= bytes.len(), "an IP header in {} bytes", bytes.len());
    // A fragment is recognised even if its options are truncated; the upper offset is then
    // unspecified.
    let complete = matches!(whole.ending, Ending::Ports | Ending::NoPorts);
    assert!(!complete || innermost.upper_offset <= bytes.len(), "{whole:?}");
    assert!(innermost.offset <= innermost.upper_offset, "{whole:?}");
    if let Some(Inner { ip, depth, .. }) = whole.inner {
        assert!((1..=MAX_TUNNELS).contains(&usize::from(depth)), "{depth} tunnels");
        assert!(outer.offset < outer.upper_offset && outer.upper_offset <= ip.offset, "{whole:?}");
    }
    let inner = whole.inner.map(|inner| Inner::new(moved(inner.ip), inner.outer, inner.depth));
    if parser.ip(&bytes[outer.offset..]).ending == whole.ending {
        let expected = Parsed::new(whole.key, Some(moved(outer)), inner, whole.ending);
        assert_eq!(parser.ip(&bytes[outer.offset..]), expected);
    } else {
        // PPPoE has its own length field, which truncated the packet.
        assert!(parser.tunnels.contains(Tunnels::PPPOE), "{whole:?}");
    }
}

/// Compares the segmenter with its reference model: both produce the same segments or reject the
/// frame. The first two bytes are the segment size, the rest is an arbitrary frame. An output
/// buffer that is one byte too short receives no segment, and none is lost.
pub fn segments(bytes: &[u8]) {
    let Some((&size, frame)) = bytes.split_first_chunk() else { return };
    let size = u16::from_be_bytes(size);
    for framed in [true, false] {
        let read = if framed { Segmenter::ethernet } else { Segmenter::ip };
        for accurate_ecn in [false, true] {
            let expected = naive::cut(frame, framed, size, accurate_ecn);
            let segmenter = read(frame, size).map(|segmenter| match accurate_ecn {
                true => segmenter.with_accurate_ecn(),
                false => segmenter,
            });
            let (Ok(mut segmenter), Some(expected)) = (segmenter.clone(), &expected) else {
                assert!(segmenter.is_err() && expected.is_none(), "{segmenter:?}, {expected:?}");
                continue;
            };
            assert_eq!(segmenter.segments().count() as usize, expected.len());
            for segment in expected {
                let len = segmenter.next_len().expect("a segment that the twin has");
                let mut place = vec![0xaa; len];
                assert_eq!(segmenter.write_next(&mut place[1..]), None, "too short a place");
                assert_eq!(segmenter.write_next(&mut place), Some(len));
                assert_eq!(&place, segment);
            }
            assert_eq!((segmenter.next_len(), segmenter.write_next(&mut [0; 99])), (None, None));
        }
    }
}

/// Compares the shaper's clock with its definition.
pub fn shaper_clock(bytes: &[u8]) {
    clock::compare(bytes);
}

/// Compares a smart queue, with arbitrary frames, settings that change under load, and with or
/// without host rates, with a list of the frames.
pub fn smart_queue(bytes: &[u8]) {
    play_frames(bytes);
}
