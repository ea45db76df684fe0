//! What the fuzzer runs, and `cargo test` on the fuzzer's corpus: functions of any bytes that
//! return or panic. That of captures is `sim::capture::check_reading`.
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

/// A target: the name of its folder in `fuzz/corpus` and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
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

/// Whole ticks of a descriptor, at which counters of 31, 32, 53 and 63 bits wrap.
const SHIFTS: [u64; 4] = [1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)];

/// The first byte of a history says how both sides are built, the rest is what happens to them.
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

    /// None, or so few that a short history reaches them.
    fn limits(&self) -> Limits {
        if self.bit(1) { Limits { packets: 6, bytes: 4_000 } } else { Limits::NONE }
    }

    /// Both sides agree. Unless the history adds flows itself, two of different weights are there.
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

    /// Looks change nothing, nor does the epoch, and the ledger of handles and the books are right.
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

/// FIFO with head drop and tail drop against its twin.
pub fn ops_fifo(bytes: &[u8]) {
    let history = History::of(bytes);
    history.agree(|| sides::fifo::<S>(history.end(), history.limits()));
}

/// DRR, plain and with sparse flows first, with and without longest-queue drop, against its twin.
pub fn ops_drr(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits, sparse_first) = (history.end(), history.limits(), history.bit(2));
    if history.bit(3) {
        history.agree(|| sides::drr_lqd::<F, S>(MAX_LEN, sparse_first, end, limits));
    } else {
        history.agree(|| sides::drr::<F, S>(MAX_LEN, sparse_first, limits));
    }
}

/// SQF with longest-queue drop at either end, with a floor, flushes, both repairs or none, against
/// its twin.
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

/// QFQ, with and without longest-queue drop, against its twin.
pub fn ops_qfq(bytes: &[u8]) {
    let history = History::of(bytes);
    let (end, limits) = (history.end(), history.limits());
    if history.bit(2) {
        history.agree(|| sides::qfq_lqd::<F, S>(MAX_LEN, end, limits));
    } else {
        history.agree(|| sides::qfq::<F, S>(MAX_LEN, limits));
    }
}

/// QFQ+, with and without longest-queue drop, with one to eight flows in an aggregate, against its
/// twin.
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

/// WF²Q+, with and without longest-queue drop, against its twin.
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

/// Any entry of the catalogue against its twin, or one without a twin against itself, looked at and
/// at another time; the second byte says which entry.
pub fn ops_catalog(bytes: &[u8]) {
    let mut history = History::of(bytes);
    let (&entry, rest) = history.rest.split_first().unwrap_or((&0, &[]));
    history.rest = rest;
    let plays = CATALOG.concat();
    plays[usize::from(entry) % plays.len()](&history);
}

/// An AQM alone, with any parameters, times and sojourn times, beside itself at another time;
/// `DualPI2` beside its twin too.
pub fn aqm(bytes: &[u8]) {
    let _told = play_aqm(bytes);
}

/// The isolated queue by labels, under changing isolations, tins and keys, against its twin of
/// maps.
pub fn isolated(bytes: &[u8]) {
    let (&tables, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let tables = Shape::ALL[usize::from(tables) % Shape::ALL.len()];
    if let Err(difference) = play_labelled(tables, bytes) {
        panic!("{difference}");
    }
}

/// Acknowledgements with any options in a queue with the filter, beside the naive one.
pub fn ack_filter(bytes: &[u8]) {
    crate::acks::play(bytes);
}

/// With each option the parser answers whatever it is given as its twin does. A prefix has the same
/// answer or says that it is cut. An IP packet has the same answer without what stands before it.
/// What follows the packets changes nothing.
pub fn parse(bytes: &[u8]) {
    let longer = [bytes, &[0x99; 40]].concat();
    for tunnels in [Tunnels::PPPOE, Tunnels::VISIBLE, Tunnels::ALL, Tunnels::NONE] {
        for flow_labels in [FlowLabels::WithoutPorts, FlowLabels::Always, FlowLabels::Ignored] {
            let parser = Parser { tunnels, flow_labels };
            for framed in [true, false] {
                let read = |bytes| if framed { parser.ethernet(bytes) } else { parser.ip(bytes) };
                let whole = read(bytes);
                assert_eq!(whole, parser::read(parser, bytes, framed), "{parser:?}");
                // Extension headers can be longer, 8 · 2,048 bytes, but then they are so by one
                // long one.
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

/// What the places of the IP headers in an answer owe each other.
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
    // A fragment is one even if its options are cut off; nothing is said of what follows.
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
        // PPPoE says how long its packet is, and cut it.
        assert!(parser.tunnels.contains(Tunnels::PPPOE), "{whole:?}");
    }
}

/// The first two bytes are the size of a segment, the rest is a frame of any bytes. The segmenter
/// cuts the frame as its twin does, or refuses it where the twin does. A place that is a byte too
/// short takes no segment and loses none.
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

/// The shaper's clock against its definition.
pub fn shaper_clock(bytes: &[u8]) {
    clock::compare(bytes);
}

/// A smart queue with frames of any bytes, whatever setting changes under load, with and without
/// rates of hosts, beside a list of the frames.
pub fn smart_queue(bytes: &[u8]) {
    play_frames(bytes);
}
