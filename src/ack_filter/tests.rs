//! The rules one by one, and selections in queues given as lists.

use super::*;
use flowhash::{FlowKey, SackBlocks, Timestamps, Transport};

fn connection(port: u16) -> FlowKey {
    let transport = Transport { protocol: 6, src_port: port, dst_port: 443 };
    FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport }
}

/// An acknowledgement of `number`, with timestamps and these blocks.
fn ack(number: u32, blocks: &[(u32, u32)]) -> Ack {
    let mut ack = Ack::new(connection(1), 1, number);
    ack.timestamps = Some(Timestamps { value: 500, echo: 400 });
    ack.sack = SackBlocks::new(blocks.iter().copied());
    ack
}

/// Goal: each rule alone keeps an acknowledgement. Method: a superseded acknowledgement with one
/// change to it or its successor; a missing rule fails its case here.
#[test]
fn each_rule_keeps_what_it_is_for() {
    type Change = fn(&mut Ack, &mut Ack);
    let changes: [(&str, Change); 13] = [
        ("another connection", |_, older| older.connection = connection(2)),
        ("data, FIN or a probe between", |_, older| older.seq -= 1),
        ("acknowledges more", |newer, older| older.number = newer.number + 1),
        ("a duplicate", |newer, older| older.number = newer.number),
        ("a mark of its own", |_, older| older.marked = true),
        ("ECE ends", |_, older| older.ece = true),
        ("ECE begins", |newer, _| newer.ece = true),
        ("CWR", |_, older| older.cwr = true),
        ("a later timestamp", |_, older| {
            older.timestamps = Some(Timestamps { value: 501, echo: 400 })
        }),
        ("a later echo", |_, older| older.timestamps = Some(Timestamps { value: 500, echo: 401 })),
        ("timestamps end", |newer, _| newer.timestamps = None),
        ("timestamps begin", |_, older| older.timestamps = None),
        ("data that the later one does not report", |_, older| {
            older.sack = SackBlocks::new([(3_000, 3_001)])
        }),
    ];
    let (newer, older) = (ack(2_000, &[]), ack(1_000, &[]));
    assert!(supersedes(&newer, &older));
    assert!(!supersedes(&older, &newer));
    for (what, change) in changes {
        let (mut newer, mut older) = (newer, older);
        change(&mut newer, &mut older);
        assert!(!supersedes(&newer, &older), "{what}");
    }
    // Changes that carry less information, or as much, keep nothing.
    let kept: [Change; 5] = [
        |newer, _| newer.window = 0,
        |newer, _| newer.marked = true,
        |newer, older| (newer.ece, older.ece) = (true, true),
        |_, older| older.sack = SackBlocks::new([(1_400, 2_000)]),
        |newer, _| newer.sack = SackBlocks::new([(3_000, 4_000)]),
    ];
    for change in kept {
        let (mut newer, mut older) = (newer, older);
        change(&mut newer, &mut older);
        assert!(supersedes(&newer, &older));
    }
}

/// Goal: SACK rules case by case, for one acknowledged number and for two. Source: RFC 2018 §4, RFC
/// 2883 §4.
#[test]
fn sack_is_superseded_by_more_sack_only() {
    let none: &[(u32, u32)] = &[];
    for (newer, older, expected) in [
        // As much is acknowledged: more has to be reported.
        (&[(20, 30)][..], none, true),
        (none, none, false),
        (&[(20, 30)], &[(20, 30)][..], false),
        (&[(20, 40)], &[(20, 30)], true),
        (&[(20, 30)], &[(20, 40)], false),
        (&[(50, 60), (20, 30)], &[(20, 30)], true),
        (&[(50, 60)], &[(20, 30)], false),
        (&[(20, 30), (40, 50), (60, 70)], &[(40, 50), (60, 70), (80, 90)], false),
        // A duplicate reports no more, and is sent only once.
        (&[(5, 8), (20, 30)], &[(20, 30)], false),
        (&[(22, 24), (20, 30)], &[(20, 30)], false),
        (&[(20, 40)], &[(5, 8), (20, 30)], false),
        (&[(20, 40)], &[(22, 24), (20, 30)], false),
        (&[(5, 8), (20, 40)], &[(20, 30)], true),
        // No data, and an end before its beginning.
        (&[(20, 40)], &[(30, 30)], false),
        (&[(20, 40)], &[(30, 25)], false),
    ] {
        assert_eq!(supersedes(&ack(10, newer), &ack(10, older)), expected, "{newer:?} {older:?}");
    }
    // More is acknowledged, up to the middle of a block.
    for (newer, older, expected) in [
        (none, &[(15, 20)][..], true),
        (none, &[(15, 21)], false),
        (&[(20, 30)][..], &[(15, 30)], false),
        (&[(25, 30)], &[(25, 30)], true),
        (none, &[(5, 8)], false),
        (none, &[(9, 12)], false),
    ] {
        assert_eq!(supersedes(&ack(20, newer), &ack(10, older)), expected, "{newer:?} {older:?}");
    }
}

#[test]
fn numbers_and_clocks_wrap() {
    let (newer, older) = (ack(5, &[(10, 20)]), ack(u32::MAX - 5, &[(u32::MAX - 2, 3)]));
    assert!(supersedes(&newer, &older));
    let with = |mut ack: Ack, value, echo| {
        ack.timestamps = Some(Timestamps { value, echo });
        ack
    };
    let (at, early) = (|value, echo| with(newer, value, echo), with(older, u32::MAX, u32::MAX));
    assert!(supersedes(&at(0, 3), &early));
    assert!(!supersedes(&at(u32::MAX - 1, 3), &early));
    // At half the range neither is ahead.
    let half = ack(older.number.wrapping_add(1 << 31), &[]);
    assert!(!supersedes(&half, &ack(older.number, &[])));
}

/// Goal: the right packet is selected in given queues. Method: numbers, newest first, with the
/// selected position in either mode.
#[test]
fn the_older_of_two_goes_or_the_only_one_right_before() {
    let place = |filter: AckFilter, newest: u32, older: &[Option<u32>]| {
        let older = older.iter().map(|number| number.map(|number| ack(number, &[])));
        filter.superseded(&ack(newest, &[]), older)
    };
    for (newest, older, conservative, aggressive) in [
        (9, &[][..], None, None),
        (9, &[Some(8)][..], None, Some(1)),
        (9, &[None, Some(8)], None, None),
        (9, &[Some(8), Some(7)], Some(2), Some(2)),
        (9, &[Some(8), Some(7), Some(6)], Some(2), Some(2)),
        (9, &[Some(8), None, None, Some(7)], Some(4), Some(4)),
        (9, &[None, Some(8), None, Some(7)], Some(4), Some(4)),
        // Duplicates, and what they repeat.
        (9, &[Some(9)], None, None),
        (9, &[Some(8), Some(8)], None, None),
        (9, &[Some(8), Some(8), Some(7)], None, None),
        (9, &[Some(8), Some(8), Some(7), Some(6)], Some(4), Some(4)),
        (8, &[Some(8), Some(7)], None, None),
        // Out of order.
        (7, &[Some(8)], None, None),
        (9, &[Some(7), Some(8)], None, Some(1)),
        // The limit of its reach.
        (9, &[Some(8), None, None, None, None, None, None, Some(7)], Some(8), Some(8)),
        (9, &[Some(8), None, None, None, None, None, None, None, Some(7)], None, Some(1)),
    ] {
        let both = [AckFilter::Conservative, AckFilter::Aggressive];
        let [first, second] = both.map(|filter| place(filter, newest, older));
        assert_eq!((first, second), (conservative, aggressive), "{newest} {older:?}");
        assert_eq!(place(AckFilter::Off, newest, older), None);
    }
}

/// Goal: other connections in the queue are skipped. Method: every second packet belongs to another
/// connection.
#[test]
fn connections_that_share_a_queue_are_apart() {
    let other = |number| {
        let mut ack = ack(number, &[]);
        ack.connection = connection(2);
        ack
    };
    let older = [other(8), ack(7, &[]), other(6), ack(5, &[])].map(Some);
    assert_eq!(AckFilter::Conservative.superseded(&ack(9, &[]), older), Some(4));
    assert_eq!(AckFilter::Conservative.superseded(&other(9), older), Some(3));
    assert_eq!(AckFilter::Aggressive.superseded(&other(9), older[2..].iter().copied()), Some(1));
}

#[test]
fn the_modes_have_words() {
    use alloc::string::ToString;

    for &filter in AckFilter::ALL {
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
    let error = "on".parse::<AckFilter>().map_err(|error| error.to_string());
    assert_eq!(error, Err("an ACK filter must be one of off conservative aggressive".into()));
}
