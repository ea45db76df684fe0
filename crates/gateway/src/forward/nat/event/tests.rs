//! Tests of reports of connections with those of a kernel (Linux 6.18) and with malformed ones.

use freeboard::flowhash::{FlowKey, Nat as _, Transport};
use proptest::prelude::*;

use super::super::{Heard, MOST, Nat, Translations};
use super::*;
use crate::forward::queue::Heading;
use freeboard::sched_core::Nanos;

/// Reports as read, header included, each with the line of the same kernel's table for the
/// connection.
const GOLDEN: [(&str, &str); 5] = [
    // An echo.
    (
        "a4000000000100060000000000000000020000003c00018014000180080001000a080001080002000a090002\
         2400028005000100010000000600040063670000050005000800000005000600000000003c00028014000180\
         080001000a090002080002000a0900fe24000280050001000100000006000400636700000500050000000000\
         050006000000000008000c0007f495700800030000000198080007000000001e",
        "ipv4     2 icmp     1 24 src=10.8.0.1 dst=10.9.0.2 type=8 code=0 id=25447 src=10.9.0.2 \
         dst=10.9.0.254 type=0 code=0 id=25447 mark=0 zone=0 use=2",
    ),
    // An ICMPv6 echo after its reply, in an update.
    (
        "d40000000001000000000000000000000a000000540001802c00018014000300fd000000000000000000000000\
         0000011400040020010db800000000000000000000000224000280050001003a00000006000700636c00000500\
         0800800000000500090000000000540002802c0001801400030020010db8000000000000000000000002140004\
         0020010db80000000000000000000000fe24000280050001003a00000006000700636c00000500080081000000\
         050009000000000008000c0062fb3606080003000000019a080007000000001e",
        "ipv6     10 icmpv6   58 24 src=fd00:0000:0000:0000:0000:0000:0000:0001 \
         dst=2001:0db8:0000:0000:0000:0000:0000:0002 type=128 code=0 id=25452 \
         src=2001:0db8:0000:0000:0000:0000:0000:0002 dst=2001:0db8:0000:0000:0000:0000:0000:00fe \
         type=129 code=0 id=25452 mark=0 zone=0 use=2",
    ),
    // A datagram.
    (
        "94000000000100060000000000000000020000003400018014000180080001000a080001080002000a090002\
         1c000280050001001100000006000200b59a000006000300006300003400028014000180080001000a090002\
         080002000a0900fe1c0002800500010011000000060002000063000006000300b59a000008000c00395b4004\
         0800030000000198080007000000001e",
        "ipv4     2 udp      17 24 src=10.8.0.1 dst=10.9.0.2 sport=46490 dport=99 [UNREPLIED] \
         src=10.9.0.2 dst=10.9.0.254 sport=99 dport=46490 mark=0 zone=0 use=2",
    ),
    // An IPv6 datagram with another port outside.
    (
        "c40000000001000600000000000000000a0000004c0001802c00018014000300fd000000000000000000000000\
         0000011400040020010db80000000000000000000000021c0002800500010011000000060002001388000006\
         000300003500004c0002802c0001801400030020010db80000000000000000000000021400040020010db800\
         00000000000000000000fe1c0002800500010011000000060002000035000006000300 07d5000008000c0023\
         c41e600800030000000198080007000000001e",
        "ipv6     10 udp      17 24 src=fd00:0000:0000:0000:0000:0000:0000:0001 \
         dst=2001:0db8:0000:0000:0000:0000:0000:0002 sport=5000 dport=53 [UNREPLIED] \
         src=2001:0db8:0000:0000:0000:0000:0000:0002 dst=2001:0db8:0000:0000:0000:0000:0000:00fe \
         sport=53 dport=2005 mark=0 zone=0 use=2",
    ),
    // A TCP connection to a forwarded port, with the protocol's state at the end.
    (
        "c4000000000100060000000000000000020000003400018014000180080001000a090002080002000a0900fe\
         1c00028005000100060000000600020015b30000060003001f9000003400028014000180080001000a080001\
         080002000a0900021c000280050001000600000006000200005000000600030015b3000008000c00c67a6aa0\
         08000300000001a80800070000000078300004802c0001800500010001000000050002000a00000005000300\
         0000000006000400030000000600050000000000",
        "ipv4     2 tcp      6 115 TIME_WAIT src=10.9.0.2 dst=10.9.0.254 sport=5555 dport=8080 \
         src=10.8.0.1 dst=10.9.0.2 sport=80 dport=5555 [ASSURED] mark=0 zone=0 use=2",
    ),
];

/// Returns the body after the header of a message.
fn body(golden: &str) -> Vec<u8> {
    let digits: Vec<u8> = golden
        .bytes()
        .filter_map(|byte| (byte as char).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    assert_eq!(u32::from_ne_bytes(*bytes.first_chunk().unwrap()) as usize, bytes.len());
    bytes[16..].to_vec()
}

/// Returns where the attributes of kind [`FIRST`] and [`ANSWER`] end, in the body.
fn end_of_tuples(body: &[u8]) -> usize {
    let first = usize::from(u16::from_ne_bytes([body[4], body[5]]));
    let answer = usize::from(u16::from_ne_bytes([body[4 + first], body[5 + first]]));
    4 + first + answer
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Goal: a report gives the same connection as the line of the table.
#[test]
fn an_event_says_what_the_line_says() {
    for (event, line) in GOLDEN {
        let told = Connection::of_event(&body(event));
        assert_eq!(told, Connection::parse(line.as_bytes()), "{line}");
        assert!(told.is_some(), "{line}");
    }
}

/// Goal: a truncated report is the original connection or none, never another one.
#[test]
fn an_event_that_is_cut_is_none() {
    for (event, _) in GOLDEN {
        let body = body(event);
        let whole = Connection::of_event(&body);
        let end = end_of_tuples(&body);
        for len in 0..body.len() {
            let told = Connection::of_event(&body[..len]);
            assert_eq!(told, whole.filter(|_| len >= end), "{len} of {}", body.len());
        }
    }
}

/// Goal: nested tuples, values of another length, two protocols and addresses of two families are
/// no connection.
#[test]
fn what_is_nested_wrongly_is_none() {
    let addresses = |family: usize| match family {
        4 => [attribute(1, &[10, 8, 0, 1]), attribute(2, &[10, 9, 0, 2])].concat(),
        _ => [attribute(3, &[1; 16]), attribute(4, &[2; 16])].concat(),
    };
    let ports = |protocol: &[u8], port: &[u8]| {
        [attribute(1, protocol), attribute(2, port), attribute(3, &[0, 80])].concat()
    };
    let tuple = |addresses: &[u8], ports: &[u8]| {
        [attribute(ADDRESSES | 0x8000, addresses), attribute(PORTS | 0x8000, ports)].concat()
    };
    let event = |first: &[u8], answer: &[u8]| {
        let attributes = [attribute(FIRST | 0x8000, first), attribute(ANSWER | 0x8000, answer)];
        Connection::of_event(&[&[2, 0, 0, 0][..], &attributes.concat()].concat())
    };
    let good = tuple(&addresses(4), &ports(&[6], &[1, 2]));
    assert!(event(&good, &good).is_some());
    let with_zone = [good.clone(), attribute(3, &[0, 7])].concat();
    assert!(event(&with_zone, &good).is_some());
    let wrong = [
        vec![],
        attribute(FIRST, &good),
        attribute(ADDRESSES, &addresses(4)),
        attribute(PORTS, &ports(&[6], &[1, 2])),
        tuple(&[], &ports(&[6], &[1, 2])),
        tuple(&addresses(4), &[]),
        tuple(&addresses(6), &ports(&[6], &[1, 2])),
        tuple(&addresses(4), &ports(&[17], &[1, 2])),
        tuple(&addresses(4), &ports(&[], &[1, 2])),
        tuple(&addresses(4), &ports(&[6, 0], &[1, 2])),
        tuple(&addresses(4), &ports(&[6], &[1])),
        tuple(&addresses(4), &ports(&[6], &[1, 2, 3, 4])),
        tuple(&addresses(4), &ports(&[1], &[1, 2])),
        tuple(&attribute(1, &[10, 8, 0, 1]), &ports(&[6], &[1, 2])),
        tuple(&attribute(1, &[10, 8, 0, 1, 0]), &ports(&[6], &[1, 2])),
        tuple(&[attribute(1, &[1; 4]), attribute(4, &[2; 16])].concat(), &ports(&[6], &[1, 2])),
    ];
    for tuple in &wrong {
        assert_eq!(event(tuple, &good), None, "{tuple:?}");
        assert_eq!(event(&good, tuple), None, "{tuple:?}");
    }
}

proptest! {
    /// Goal: parsing arbitrary bytes does not panic.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Connection::of_event(&bytes);
    }

    /// Goal: parsing a report with changed bytes does not panic, and the addresses are of one
    /// family.
    #[test]
    fn changed_events_are_read(
        which in 0..GOLDEN.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut body = body(GOLDEN[which].0);
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        for bytes in [&body[..], &body[..cut.index(body.len())]] {
            if let Some(Connection { first, answer, .. }) = Connection::of_event(bytes) {
                let families = [first.source, first.destination, answer.source, answer.destination]
                    .map(|end| end.address.is_ipv4());
                prop_assert!(families.iter().all(|is_v4| *is_v4 == families[0]), "{families:?}");
            }
        }
    }
}

/// Goal: a reported connection is known at once, even during a pass that does not contain it, and
/// is forgotten by a pass that begins later.
#[test]
fn what_is_told_is_known_at_once() {
    let transport = Transport { protocol: 17, src_port: 46_490, dst_port: 99 };
    let key = FlowKey::V4 { src: [10, 9, 0, 254], dst: [10, 9, 0, 2], transport };
    let host = |table: &Translations| match table.of(Heading::Up).inner(&key) {
        Some(FlowKey::V4 { src, .. }) => Some(src),
        _ => None,
    };
    let mut table = Translations::default();
    assert_eq!(host(&table), None);
    table.hear(&body(GOLDEN[2].0));
    assert_eq!(host(&table), Some([10, 8, 0, 1]));
    table.turn();
    assert_eq!(host(&table), Some([10, 8, 0, 1]), "the pass had begun before");
    table.turn();
    assert_eq!(host(&table), None);
    for (event, _) in GOLDEN {
        table.hear(&body(event));
        table.hear(b"nothing");
    }
    assert_eq!(table.len(), GOLDEN.len());
}

/// Goal: the table is read rarely while the kernel reports connections, and often if it does not,
/// if reports were lost, or if the table is full.
#[test]
fn the_table_is_read_often_where_the_kernel_does_not_tell() {
    let ms = Nanos::from_millis;
    let mut nat = Nat { due: ms(5_000), began: ms(3_000), earliest: ms(3_100), ..Nat::default() };
    assert_eq!(nat.every(ms(3_000)), ms(100));
    nat.heard(Heard { count: 1, is_overrun: false }, ms(3_000));
    assert_eq!((nat.every(ms(3_001)), nat.due), (ms(2_000), ms(5_000)));
    assert_eq!(nat.every(ms(13_000)), ms(100), "it may have ceased to tell");
    nat.heard(Heard { count: 1, is_overrun: true }, ms(3_050));
    assert_eq!((nat.every(ms(3_051)), nat.due), (ms(100), ms(3_100)));
    // Nothing changes for the current pass: the next one follows soon.
    nat.is_reading = true;
    nat.due = ms(3_100);
    nat.heard(Heard { count: 1, is_overrun: true }, ms(3_200));
    assert_eq!((nat.every(ms(3_201)), nat.due), (ms(100), ms(3_100)));
    nat.is_overrun = false;
    assert_eq!(nat.every(ms(3_201)), ms(2_000));
    for at in 0..MOST {
        let line = format!(
            "ipv4 2 tcp 6 9 ESTABLISHED src=10.8.0.1 dst=10.9.{}.1 sport={} dport=80 src=10.9.{}.1 \
             dst=10.9.0.254 sport=80 dport={} use=1",
            at >> 8,
            at & 255,
            at >> 8,
            at & 255,
        );
        nat.translations.take_in(line.as_bytes());
    }
    assert_eq!((nat.translations.len(), nat.every(ms(3_201))), (MOST, ms(100)));
}
