//! Tests of the table of translations with lines of a kernel (Linux 6.18) and with malformed ones.

use freeboard::flowhash::Nat as _;

use super::*;

/// A connection from a host with its port kept; one with another port outside; an echo; a DNS
/// query.
const TCP: &str = "ipv4     2 tcp      6 431999 ESTABLISHED src=10.8.0.1 dst=10.9.0.2 sport=40000 dport=80 \
                   src=10.9.0.2 dst=10.9.0.254 sport=80 dport=40000 [ASSURED] mark=0 zone=0 use=2";
const OTHER_PORT: &str = "ipv4     2 tcp      6 119 SYN_SENT src=10.8.0.3 dst=10.9.0.2 sport=40000 dport=80 \
                          [UNREPLIED] src=10.9.0.2 dst=10.9.0.254 sport=80 dport=1024 mark=0 zone=0 use=2";
const UDP: &str = "ipv4     2 udp      17 29 src=10.8.0.1 dst=10.9.0.2 sport=46490 dport=99 [UNREPLIED] \
                   src=10.9.0.2 dst=10.9.0.254 sport=99 dport=46490 mark=0 zone=0 use=2";
const ECHO: &str = "ipv4     2 icmp     1 29 src=10.8.0.1 dst=10.9.0.2 type=8 code=0 id=13769 src=10.9.0.2 \
                    dst=10.9.0.254 type=0 code=0 id=13770 mark=0 zone=0 use=2";
/// A port of this machine forwarded to a host.
const FORWARDED: &str = "ipv4     2 tcp      6 300 ESTABLISHED src=10.9.0.2 dst=10.9.0.254 sport=5555 dport=8080 \
                         src=10.8.0.7 dst=10.9.0.2 sport=80 dport=5555 [ASSURED] mark=0 zone=0 use=2";
const V6: &str = "ipv6     10 udp      17 29 src=fd00:0000:0000:0000:0000:0000:0000:0001 \
                  dst=2001:0db8:0000:0000:0000:0000:0000:0002 sport=5000 dport=53 \
                  src=2001:0db8:0000:0000:0000:0000:0000:0002 dst=2001:0db8:0000:0000:0000:0000:0000:00fe sport=53 \
                  dport=5000 mark=0 zone=0 use=2";
/// A connection of this machine itself.
const OWN: &str = "ipv4     2 tcp      6 300 ESTABLISHED src=10.9.0.254 dst=10.9.0.2 sport=1 dport=2 \
                   src=10.9.0.2 dst=10.9.0.254 sport=2 dport=1 [ASSURED] mark=0 zone=0 use=2";

const BOX: [u8; 4] = [10, 9, 0, 254];
const FAR: [u8; 4] = [10, 9, 0, 2];

fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, src_port: u16, dst_port: u16) -> FlowKey {
    FlowKey::V4 { src, dst, transport: Transport { protocol, src_port, dst_port } }
}

fn pass(table: &mut Translations, lines: &[&str]) {
    lines.iter().for_each(|line| table.take_in(line.as_bytes()));
    table.turn();
}

/// Goal: a packet on the outer side is attributed to its host, in both directions, for every
/// protocol with ports or identifiers.
#[test]
fn packets_outside_are_of_their_hosts() {
    let mut table = Translations::default();
    pass(&mut table, &[TCP, OTHER_PORT, UDP, ECHO, FORWARDED, V6, OWN]);
    assert_eq!(table.len(), 6);
    let all = [
        ([10, 8, 0, 1], (6, 40_000, 80), (40_000, 80)),
        ([10, 8, 0, 3], (6, 1_024, 80), (40_000, 80)),
        ([10, 8, 0, 1], (17, 46_490, 99), (46_490, 99)),
        ([10, 8, 0, 7], (6, 8_080, 5_555), (80, 5_555)),
    ];
    for (host, (protocol, local, remote), inner) in all {
        let up = table.of(Heading::Up).inner(&v4(BOX, FAR, protocol, local, remote));
        assert_eq!(up, Some(v4(host, FAR, protocol, inner.0, inner.1)));
        let down = table.of(Heading::Down).inner(&v4(FAR, BOX, protocol, remote, local));
        assert_eq!(down, Some(v4(FAR, host, protocol, inner.1, inner.0)));
    }
    // An echo and its reply; another ICMP message has this machine's address.
    let up = table.of(Heading::Up).inner(&v4(BOX, FAR, 1, 13_770, 0x800));
    assert_eq!(up, Some(v4([10, 8, 0, 1], FAR, 1, 13_769, 0x800)));
    let down = table.of(Heading::Down).inner(&v4(FAR, BOX, 1, 13_770, 0));
    assert_eq!(down, Some(v4(FAR, [10, 8, 0, 1], 1, 13_769, 0)));
    assert_eq!(table.of(Heading::Down).inner(&v4(FAR, BOX, 1, 13_770, 0x303)), None);

    let v6 = |text: &str| text.parse::<core::net::Ipv6Addr>().unwrap().octets();
    let transport = Transport { protocol: 17, src_port: 5_000, dst_port: 53 };
    let key = |src: &str| FlowKey::V6 { src: v6(src), dst: v6("2001:db8::2"), transport };
    assert_eq!(table.of(Heading::Up).inner(&key("2001:db8::fe")), Some(key("fd00::1")));
}

/// Goal: packets not in the table keep their address: another port or direction, this machine's
/// own, a fragment.
#[test]
fn other_packets_are_as_they_are() {
    let mut table = Translations::default();
    assert_eq!(table.of(Heading::Up).inner(&v4(BOX, FAR, 6, 40_000, 80)), None);
    pass(&mut table, &[TCP, OTHER_PORT, UDP, ECHO, OWN]);
    let keys = [
        v4(BOX, FAR, 6, 40_001, 80),
        v4(BOX, FAR, 17, 40_000, 80),
        v4(FAR, BOX, 6, 80, 40_000),
        v4(BOX, FAR, 6, 1, 2),
        v4(BOX, FAR, 6, 0, 0),
        v4([10, 8, 0, 1], FAR, 6, 40_000, 80),
        FlowKey::Unknown,
        FlowKey::Ethernet { src: [2; 6] },
    ];
    for key in keys {
        assert_eq!(table.of(Heading::Up).inner(&key), None, "{key:?}");
    }
}

/// Goal: a connection is known once it was read, and forgotten by the first pass without it.
#[test]
fn what_goes_away_is_forgotten() {
    let mut table = Translations::default();
    let is_known =
        |table: &Translations| table.of(Heading::Up).inner(&v4(BOX, FAR, 6, 40_000, 80)).is_some();
    table.take_in(TCP.as_bytes());
    assert!(is_known(&table), "before the pass is over");
    table.turn();
    assert!(is_known(&table));
    table.take_in(UDP.as_bytes());
    assert!(is_known(&table), "while the next pass is on");
    table.turn();
    assert!(!is_known(&table));
    pass(&mut table, &[]);
    assert_eq!(table.len(), 0);
}

/// Goal: the table does not exceed its bound, and its entries stay correct: the first ones of a
/// pass, whatever follows.
#[test]
fn the_table_is_bounded() {
    let mut table = Translations::default();
    let line = |at: usize| {
        let (port, last) = (at % 60_000, at / 60_000);
        format!(
            "ipv4 2 tcp 6 9 ESTABLISHED src=10.8.0.1 dst=10.9.1.{last} sport={port} dport=80 \
             src=10.9.1.{last} dst=10.9.0.254 sport=80 dport={port} use=1"
        )
    };
    for _ in 0..2 {
        for at in 0..MOST + 40_000 {
            table.take_in(line(at).as_bytes());
            assert!(table.known.len() <= MOST && table.read.len() <= MOST);
        }
        table.turn();
        assert_eq!(table.len(), MOST);
    }
    let up = |port| table.of(Heading::Up).inner(&v4(BOX, [10, 9, 1, 0], 6, port, 80));
    assert!(up(0).is_some() && up(32_767).is_some() && up(32_768).is_none());
}

/// Goal: a malformed line is ignored: truncated anywhere, or with a field changed, it never becomes
/// another connection. Method: each line truncated after every byte, and each field after the
/// protocols replaced.
#[test]
fn malformed_lines_are_left_out() {
    for line in [TCP, OTHER_PORT, UDP, ECHO, FORWARDED, V6] {
        let whole = Connection::parse(line.as_bytes()).unwrap();
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let tuples: Vec<usize> = (0..words.len())
            .filter(|&at| words[at].contains("port=") || words[at].contains("id="))
            .collect();
        let last_of_tuples = *tuples.last().unwrap();
        for at in 4..words.len() {
            let until = words[..at].join(" ");
            let parsed = Connection::parse(until.as_bytes());
            assert_eq!(parsed.is_some(), at > last_of_tuples, "{until}");
            for other in ["", "src=", "dst=10.9.0.256", "sport=65536", "dport=-1", "id=x", "\u{fe}"]
            {
                let mut words = words.clone();
                words[at] = other;
                let text = words.join(" ");
                if let Some(parsed) = Connection::parse(text.as_bytes()) {
                    assert_eq!(parsed, whole, "{text}");
                }
            }
        }
        for at in 0..line.len() {
            let _ = Connection::parse(&line.as_bytes()[..at]);
        }
    }
    for line in [
        &b""[..],
        b"\xff\xff 2 tcp 6 1",
        b"arp 2 tcp 6 1 src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 src=2.2.2.2 dst=3.1.1.1 sport=2 dport=1",
        b"ipv4 2 6 119 src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 src=2.2.2.2 dst=3.1.1.1 sport=2",
        b"ipv4 2 gre 47 29 timeout=30, stream_timeout=180 src=10.8.0.1 dst=10.9.0.2 srckey=0x1 dstkey=0x2",
        b"ipv4 2 tcp 999 1 src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 src=2.2.2.2 dst=1.1.1.1 sport=2 dport=1",
    ] {
        assert_eq!(Connection::parse(line), None);
    }
}
