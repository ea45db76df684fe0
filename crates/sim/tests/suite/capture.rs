//! Captures: packets read equal those written, those the kernel sent, and those another reader
//! reads; every broken file causes an error with the right offset.

use freeboard::sched_core::Nanos;
use pcap_parser::{Block, parse_block_le, parse_pcap_frame, parse_pcap_header};
use sim::capture::{CaptureError, LinkType, Packet, Problem, Reader, Resolution, Writer};

const PCAP: &[u8] = include_bytes!("../data/kernel.pcap");
const PCAPNG: &[u8] = include_bytes!("../data/kernel.pcapng");

fn read(file: &[u8]) -> Result<Vec<Packet<'_>>, CaptureError> {
    Reader::new(file)?.collect()
}

fn error(file: &[u8]) -> CaptureError {
    read(file).expect_err("a broken file")
}

// ---- real traffic ------------------------------------------------------------------------------

/// The counts are from tcpdump with its own filters: see `data/README.md`.
#[test]
fn the_kernels_packets_are_all_there() {
    let packets = read(PCAP).unwrap();
    let kinds = packets.iter().map(|packet| {
        assert_eq!(packet.link, LinkType::Ethernet);
        match (&packet.bytes[12..14], packet.bytes[23], packet.bytes[20]) {
            ([0x08, 0x06], ..) => "arp",
            ([0x08, 0x00], 6, _) => "tcp and ip",
            ([0x86, 0xdd], _, 6) => "tcp and ip6",
            ([0x08, 0x00], 17, _) => "udp and ip",
            ([0x86, 0xdd], _, 17) => "udp and ip6",
            ([0x08, 0x00], 1, _) => "icmp",
            ([0x86, 0xdd], _, 58) => "icmp6",
            _ => "other",
        }
    });
    let mut counts = std::collections::BTreeMap::new();
    kinds.for_each(|kind| *counts.entry(kind).or_insert(0) += 1);
    let expected = [
        ("arp", 2),
        ("icmp", 8),
        ("icmp6", 14),
        ("other", 7),
        ("tcp and ip", 1434),
        ("tcp and ip6", 258),
        ("udp and ip", 33),
        ("udp and ip6", 31),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
    assert!(packets.iter().all(|packet| packet.bytes.len() <= 96 && packet.original_len <= 1514));
    assert!(packets.is_sorted_by_key(|packet| packet.at));
    // 2026-11-21 18:24:59.040141389 UTC, according to capinfos.
    assert_eq!(packets.last().unwrap().at, Nanos(1_795_285_499_040_141_389));
}

/// Goal: packets equal those of an independent reader. Method: the nom parsers of `pcap-parser`.
#[test]
fn another_reader_reads_the_same_pcap() {
    let (mut rest, header) = parse_pcap_header(PCAP).unwrap();
    assert!(header.is_nanosecond_precision());
    let packets = read(PCAP).unwrap();
    for packet in &packets {
        assert_eq!(packet.offset, PCAP.len() - rest.len());
        let (after, frame) = parse_pcap_frame(rest).unwrap();
        let at = u64::from(frame.ts_sec) * 1_000_000_000 + u64::from(frame.ts_usec);
        assert_eq!((packet.at, packet.original_len), (Nanos(at), frame.origlen));
        assert_eq!(packet.bytes, frame.data);
        rest = after;
    }
    assert!(rest.is_empty() && !packets.is_empty());
}

#[test]
fn another_reader_reads_the_same_pcapng() {
    let (mut rest, mut resolutions) = (PCAPNG, Vec::new());
    let mut packets = read(PCAPNG).unwrap().into_iter();
    while !rest.is_empty() {
        let offset = PCAPNG.len() - rest.len();
        let (after, block) = parse_block_le(rest).unwrap();
        rest = after;
        match block {
            Block::InterfaceDescription(description) => {
                resolutions.push(description.ts_resolution().unwrap());
            }
            Block::EnhancedPacket(theirs) => {
                let ours = packets.next().unwrap();
                let ticks = u64::from(theirs.ts_high) << 32 | u64::from(theirs.ts_low);
                let tick = 1_000_000_000 / resolutions[theirs.if_id as usize];
                let data = &theirs.data[..theirs.caplen as usize];
                assert_eq!((ours.offset, ours.at), (offset, Nanos(ticks * tick)));
                assert_eq!((ours.bytes, ours.original_len), (data, theirs.origlen));
            }
            _ => {}
        }
    }
    assert_eq!((packets.next(), resolutions), (None, vec![1_000_000_000, 1_000_000]));
    assert_eq!(read(PCAPNG).unwrap().len(), 300);
}

// ---- round trips -------------------------------------------------------------------------------

const SAMPLES: [(u64, &[u8], u32); 4] = [
    (0, b"", 0),
    (1, b"abc", 1514),
    (999_999_999, b"abcd", 4),
    (4_294_967_295_999_999_999, b"e", u32::MAX),
];

fn written(link: LinkType, resolution: Resolution) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), link, resolution).unwrap();
    for (at, bytes, original_len) in SAMPLES {
        writer.write(Nanos(at), bytes, original_len).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_was_written_is_read() {
    for link in [LinkType::Ethernet, LinkType::RawIp] {
        for (resolution, unit) in [(Resolution::Nanos, 1), (Resolution::Micros, 1_000)] {
            let file = written(link, resolution);
            let packets = read(&file).unwrap();
            for (packet, (at, bytes, original_len)) in packets.iter().zip(SAMPLES) {
                assert_eq!((packet.at, packet.link), (Nanos(at / unit * unit), link));
                assert_eq!((packet.bytes, packet.original_len), (bytes, original_len));
            }
            assert_eq!(packets.len(), SAMPLES.len());
        }
    }
}

/// Writing the kernel's packets reproduces its file byte for byte, except for the snapshot length,
/// which is the writer's.
#[test]
fn the_kernels_file_written_again_is_the_same_file() {
    let mut writer = Writer::new(Vec::new(), LinkType::Ethernet, Resolution::Nanos).unwrap();
    for packet in read(PCAP).unwrap() {
        writer.write(packet.at, packet.bytes, packet.original_len).unwrap();
    }
    let again = writer.finish().unwrap();
    assert!(again[..16] == PCAP[..16] && again[20..] == PCAP[20..]);
}

#[test]
fn the_writer_refuses_what_the_format_cannot_hold() {
    let mut writer = Writer::new(Vec::new(), LinkType::RawIp, Resolution::Nanos).unwrap();
    assert!(writer.write(Nanos::from_secs(1 << 32), b"", 0).is_err());
    assert!(writer.write(Nanos::ZERO, &[0; 262_145], 0).is_err());
    assert!(writer.write(Nanos::ZERO, &[0; 262_144], 0).is_ok());
    let file = writer.finish().unwrap();
    assert_eq!(file.len(), 24 + 16 + 262_144);
    assert_eq!(read(&file).unwrap()[0].original_len, 262_144);
}

// ---- assembled files, in both byte orders ------------------------------------------------------

/// Encodes 32-bit words in one byte order; block structure consists of these only.
fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| if big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
}

/// Combines two halves of a word, in the order of a file with that byte order.
fn halves(big: bool, first: u16, second: u16) -> u32 {
    let (first, second) = (u32::from(first), u32::from(second));
    if big { first << 16 | second } else { second << 16 | first }
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32 + 12;
    [words(big, &[kind, len]), body.to_vec(), words(big, &[len])].concat()
}

fn section(big: bool) -> Vec<u8> {
    let all = u32::MAX;
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, halves(big, 1, 0), all, all]))
}

/// Builds an interface description; `options` are whole words.
fn interface(big: bool, link: u16, snapshot: u32, options: &[u8]) -> Vec<u8> {
    let fixed = words(big, &[halves(big, link, 0), snapshot]);
    block(big, 1, &[&fixed, options].concat())
}

/// Builds `if_tsresol`, padded.
fn resolution(big: bool, value: u8) -> Vec<u8> {
    [words(big, &[halves(big, 9, 1)]), vec![value, 0, 0, 0]].concat()
}

/// Builds a packet of four bytes on interface `number`, of which 60 were on the wire.
fn enhanced(big: bool, number: u32, ticks: u64) -> Vec<u8> {
    let (high, low) = ((ticks >> 32) as u32, ticks as u32);
    block(big, 6, &[words(big, &[number, high, low, 4, 60]), b"data".to_vec()].concat())
}

fn times(file: &[u8]) -> Vec<u64> {
    read(file).unwrap().iter().map(|packet| packet.at.0).collect()
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_resolutions() {
    for big in [false, true] {
        for (magic, at) in [(0xa1b2_c3d4, 7_000_005_000), (0xa1b2_3c4d, 7_000_000_005)] {
            // The upper half of the link type declares a frame check sequence of four bytes.
            let header = words(big, &[magic, halves(big, 2, 4), 0, 0, 65_535, 0x4400_0001]);
            let file = [header, words(big, &[7, 5, 3, 60]), b"abc".to_vec()].concat();
            let packets = read(&file).unwrap();
            let (link, bytes) = (LinkType::Ethernet, &b"abc"[..]);
            assert_eq!(
                packets,
                [Packet { offset: 24, at: Nanos(at), link, bytes, original_len: 60 }]
            );
        }
    }
}

/// Every clock an interface may have. Values calculated manually: 2^-20 s · 3 · 2^20 = 3 s; 10^-10
/// s · 15 is 1.5 ns; a tick of 10^-127 s is nothing.
#[test]
fn a_tick_is_what_its_interface_says() {
    for big in [false, true] {
        let offset = |seconds: i64| {
            let bytes = if big { seconds.to_be_bytes() } else { seconds.to_le_bytes() };
            [words(big, &[halves(big, 14, 8)]), bytes.to_vec(), vec![0; 4]].concat()
        };
        let clocks = [
            (vec![], 5, 5_000),
            (resolution(big, 9), 5, 5),
            (resolution(big, 0), 5, 5_000_000_000),
            (resolution(big, 10), 15, 1),
            (resolution(big, 127), u64::MAX, 0),
            (resolution(big, 0x80 | 20), 3 << 20, 3_000_000_000),
            (resolution(big, 0x80 | 127), u64::MAX, 0),
            (offset(2), 5, 2_000_005_000),
            (offset(-2), 2_000_001, 1_000),
            // An unknown option of three bytes and its padding come first.
            ([words(big, &[halves(big, 2, 3), 0]), resolution(big, 3)].concat(), 5, 5_000_000),
            // Options after the end of options are ignored.
            ([vec![0; 4], resolution(big, 3)].concat(), 5, 5_000),
        ];
        for (options, ticks, nanos) in clocks {
            let description = interface(big, 101, 0, &options);
            let file = [section(big), description, enhanced(big, 0, ticks)].concat();
            assert_eq!(times(&file), [nanos], "{options:?} in order {big}");
        }
    }
}

#[test]
fn interfaces_belong_to_their_section() {
    let first = [
        section(true),
        interface(true, 1, 0, &[]),
        interface(true, 228, 0, &resolution(true, 9)),
        enhanced(true, 1, 8),
        enhanced(true, 0, 8),
    ];
    let second = [section(false), interface(false, 101, 0, &[]), enhanced(false, 0, 9)];
    let file = [first.concat(), second.concat()].concat();
    assert_eq!(times(&file), [8, 8_000, 9_000]);
    let links: Vec<LinkType> = read(&file).unwrap().iter().map(|packet| packet.link).collect();
    assert_eq!(links, [LinkType::RawIp, LinkType::Ethernet, LinkType::RawIp]);

    let forgotten = [file.clone(), enhanced(false, 1, 9)].concat();
    let CaptureError { offset, problem } = error(&forgotten);
    assert_eq!(offset, file.len());
    assert!(matches!(problem, Problem::Invalid { what: "interface", found: 1, .. }), "{problem:?}");
}

#[test]
fn simple_and_obsolete_packets_are_packets_too() {
    for big in [false, true] {
        let simple = block(big, 3, &[words(big, &[60]), b"abcde\0\0\0".to_vec()].concat());
        let old = [words(big, &[halves(big, 0, 9), 0, 4, 2, 60]), b"xy\0\0".to_vec()].concat();
        let unknown = block(big, 0xbad, b"skip");
        let description = interface(big, 1, 5, &[]);
        let file = [section(big), description, unknown, block(big, 2, &old), simple].concat();
        let packets = read(&file).unwrap();
        let found: Vec<_> = packets.iter().map(|p| (p.at.0, p.bytes, p.original_len)).collect();
        assert_eq!(found, [(4_000, &b"xy"[..], 60), (4_000, &b"abcde"[..], 60)]);
    }
}

// ---- broken files ------------------------------------------------------------------------------

/// Goal: a file truncated anywhere gives every whole record, then either its end or an error at
/// exactly the first byte of the truncated record. Method: all truncations of four files, compared
/// with the record boundaries of the whole file.
#[test]
fn a_file_cut_anywhere_has_an_error_at_the_record_that_was_cut() {
    for big in [false, true] {
        let description = interface(big, 1, 0, &resolution(big, 9));
        let packet = enhanced(big, 0, 7);
        let pcapng = [section(big), description, packet.clone(), packet].concat();
        check_cuts(&pcapng, &[0, 28, 56, 92, 128]);
    }
    for resolution in [Resolution::Micros, Resolution::Nanos] {
        let pcap = written(LinkType::RawIp, resolution);
        check_cuts(&pcap, &[0, 24, 40, 59, 79, 96]);
    }
}

fn check_cuts(file: &[u8], boundaries: &[usize]) {
    let whole = read(file).unwrap();
    for cut in 0..=file.len() {
        let begun = *boundaries.iter().rfind(|&&boundary| boundary <= cut).unwrap();
        let cut_file = &file[..cut];
        let mut found = Vec::new();
        let end = Reader::new(cut_file).and_then(|reader| {
            for packet in reader {
                found.push(packet?);
            }
            Ok(())
        });
        let expected: Vec<_> = whole.iter().filter(|packet| packet.offset < begun).collect();
        assert!(found.iter().eq(expected), "cut at {cut}");
        if begun == cut && cut > 0 {
            assert_eq!(end, Ok(()), "cut at {cut}, between records");
            continue;
        }
        let CaptureError { offset, problem } = end.unwrap_err();
        assert_eq!(offset, begun, "cut at {cut}: {problem:?}");
        let Problem::Truncated { needed, found, .. } = problem else { panic!("{problem:?}") };
        assert_eq!(found, (cut - begun) as u64);
        assert!(needed > found, "cut at {cut}");
    }
}

/// Goal: no input makes the reader panic or loop forever. Method: each byte of real files replaced
/// by four values; the file's length bounds the packet count.
#[test]
fn a_damaged_file_ends() {
    let description = interface(false, 1, 96, &resolution(false, 9));
    let small =
        [section(false), description, enhanced(false, 0, 7), enhanced(false, 0, 8)].concat();
    for file in [&PCAP[..400], &PCAPNG[..600], &small] {
        for place in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = file.to_vec();
                damaged[place] = value;
                let Ok(reader) = Reader::new(&damaged) else { continue };
                assert!(reader.count() <= file.len() / 12);
            }
        }
    }
}

#[test]
fn a_foreign_file_is_named_by_its_first_bytes() {
    let zip = error(b"PK\x03\x04 and so on");
    assert_eq!(
        zip,
        CaptureError { offset: 0, problem: Problem::Foreign { magic: *b"PK\x03\x04" } }
    );
    assert_eq!(
        zip.to_string(),
        "at byte 0: not a capture: begins with 50 4b 03 04; expected a1b2c3d4 or a1b23c4d in either \
         byte order (pcap), or 0a0d0d0a (pcapng)"
    );
    let empty = error(b"");
    assert_eq!(
        empty.to_string(),
        "at byte 0: the file ends in the magic number: 4 bytes needed, 0 there"
    );
}

fn message(file: &[u8]) -> String {
    error(file).to_string()
}

#[test]
fn a_broken_field_of_pcap_is_named_with_what_is_accepted() {
    let header = |version, link| words(false, &[0xa1b2_c3d4, version, 0, 0, 0, link]);
    assert_eq!(message(&header(3, 1)), "at byte 0: major version is 3 (expected 2)");
    let with = |record: [u32; 4]| message(&[header(2, 1), words(false, &record)].concat());
    assert_eq!(
        with([0, 1_000_000, 0, 0]),
        "at byte 24: fraction of a second is 1000000 (expected 0 to 999999 microseconds)"
    );
    assert_eq!(
        with([0, 0, 262_145, u32::MAX]),
        "at byte 24: captured length is 262145 (expected 0 to 262144)"
    );
}

#[test]
fn a_broken_block_of_pcapng_is_named_with_what_is_accepted() {
    let start = [section(false), interface(false, 1, 0, &[])].concat();
    let at = start.len();
    let with = |block: Vec<u8>| message(&[start.clone(), block].concat());
    let expect = |problem: &str| format!("at byte {at}: {problem}");

    let mut closing = enhanced(false, 0, 0);
    *closing.last_mut().unwrap() = 1;
    let long = 1 << 24 | closing.len();
    let accepted = "(expected the length at the start of the block)";
    assert_eq!(with(closing), expect(&format!("closing block length is {long} {accepted}")));

    let lengths = "(expected multiples of 4 from 12)";
    assert_eq!(with(words(false, &[6, 8, 8])), expect(&format!("block length is 8 {lengths}")));
    assert_eq!(
        with(words(false, &[6, 14, 0, 0])),
        expect(&format!("block length is 14 {lengths}"))
    );

    assert_eq!(
        with(block(false, 6, &[0; 16])),
        expect("block length is 28 (expected 32 and above for a packet)")
    );
    let captured = "(expected 0 to 262144 and at most what its block holds)";
    let overlong = block(false, 6, &words(false, &[0, 0, 0, 5, 60, 0]));
    assert_eq!(with(overlong), expect(&format!("captured length is 5 {captured}")));

    let body = [words(false, &[0, 0, 0, 262_145, 262_145]), vec![0; 262_148]].concat();
    let huge = block(false, 6, &body);
    assert_eq!(with(huge), expect(&format!("captured length is 262145 {captured}")));

    let magic = block(false, 0x0a0d_0d0a, &words(false, &[0x0102_0304, 0, 0, 0]));
    assert!(with(magic).starts_with(&expect("byte-order magic is 67305985 (expected 439041101")));

    // A tick before the epoch: one second back, at tick 0.
    let back = [words(false, &[halves(false, 14, 8)]), (-1_i64).to_le_bytes().to_vec()].concat();
    let file = [section(false), interface(false, 1, 0, &back), enhanced(false, 0, 0)].concat();
    assert!(message(&file).contains("time in ticks is 0"));
}

/// An unsupported link type is not an error: its packets are read, and the caller decides.
#[test]
fn packets_of_any_link_are_read() {
    let start =
        [section(false), interface(false, 147, 0, &[]), interface(false, 1, 0, &[])].concat();
    let file = [start, enhanced(false, 0, 3), enhanced(false, 1, 4)].concat();
    let links: Vec<_> = read(&file).unwrap().iter().map(|packet| packet.link).collect();
    assert_eq!(links, [LinkType::Other(147), LinkType::Ethernet]);
    assert!((0..=u16::MAX).all(|number| {
        let link = LinkType::from_number(number);
        LinkType::from_number(link.number()) == link
    }));
}

/// Some writers store 0 as the original length.
#[test]
fn a_packet_is_at_least_as_long_as_what_was_captured() {
    let file = [
        words(false, &[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 0, 1]),
        words(false, &[0, 0, 4, 0]),
        b"abcd".to_vec(),
        words(false, &[0, 0, 4, 5]),
        b"abcd".to_vec(),
    ]
    .concat();
    let lengths: Vec<_> = read(&file)
        .unwrap()
        .iter()
        .map(|packet| (packet.original_len, packet.wire_len()))
        .collect();
    assert_eq!(lengths, [(0, 4), (5, 5)]);
}
