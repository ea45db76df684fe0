//! Tests of the limit on the headers read, and of the fast path.

use core::cell::Cell;
use std::vec::Vec;

use super::*;

std::thread_local! {
    pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
}

fn steps(parser: Parser, frame: &[u8]) -> (usize, Parsed) {
    STEPS.set(0);
    let parsed = parser.ethernet(frame);
    (STEPS.get(), parsed)
}

const ALL: Parser = Parser { tunnels: Tunnels::ALL, flow_labels: FlowLabels::WithoutPorts };
const PPPOE: [u8; 8] = [0x11, 0, 0, 1, 0xff, 0xff, 0, 0x57];

/// Returns the maximum headers of a link, an IPv6 header and all its extensions.
fn longest(last: u8) -> Vec<u8> {
    let mut bytes = std::vec![2; 12];
    bytes.extend([0x81, 0, 0, 1].repeat(MAX_VLAN_TAGS));
    bytes.extend([0x88, 0x64]);
    bytes.extend(PPPOE);
    bytes.extend([0x60, 0, 0, 0, 0xff, 0xff, 60, 64]);
    bytes.extend([0x20; 32]);
    bytes.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(MAX_EXTENSION_HEADERS - 1));
    bytes.extend([last, 0, 1, 4, 0, 0, 0, 0]);
    bytes
}

/// Goal: the limit equals the longest chain of headers, and no chain exceeds it. Method: every
/// layer has its maximum of headers, VXLAN inside VXLAN; then one tunnel more, and each prefix.
/// and each prefix.
#[test]
fn the_longest_chain_reads_as_many_headers_as_the_bound_says() {
    let vxlan = [1, 2, 0x12, 0xb5, 0xff, 0xff, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0];
    for tunnels in 0..MAX_TUNNELS + 3 {
        let layer = [&longest(17)[..], &vxlan].concat();
        let frame = [layer.repeat(tunnels), longest(17), std::vec![9; 8]].concat();
        let (count, parsed) = steps(ALL, &frame);
        let expected = if tunnels == 0 {
            LINK + NETWORK + 1
        } else {
            MAX_HEADERS - MAX_TUNNELS.saturating_sub(tunnels) * (1 + LINK + NETWORK + 1)
        };
        assert_eq!(count, expected, "{tunnels} tunnels");
        let ending = if tunnels > MAX_TUNNELS { Ending::TooManyHeaders } else { Ending::Ports };
        assert_eq!(parsed.ending, ending, "{tunnels} tunnels");
        for length in 0..frame.len() {
            assert!(steps(ALL, &frame[..length]).0 <= MAX_HEADERS);
            assert!(steps(Parser::OUTER, &frame[..length]).0 < LINK + NETWORK + 2);
        }
    }
}

/// Goal: no bytes make the parser exceed the limit. Method: 200,000 frames, each a chain of random
/// parts of headers, including valid protocol numbers.
#[test]
fn no_chain_of_pieces_takes_more_steps_than_the_bound() {
    let mut numbers_from = conformance::Xorshift::new(0);
    let mut random = |bound: usize| numbers_from.below(bound as u32) as usize;
    let numbers = [4, 41, 47, 17, 60, 51, 44, 0, 43];
    let mut most = 0;
    for _ in 0..200_000 {
        let mut frame = std::vec![2; 12];
        for _ in 0..random(16) {
            let number = numbers[random(numbers.len())];
            match random(7) {
                0 => frame.extend([0x81, 0, 0, 1]),
                1 => frame.extend([&[0x88, 0x64][..], &PPPOE].concat()),
                2 => {
                    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0xff, 0xff, number, 64]);
                    frame.extend([0x20; 32]);
                }
                3 => {
                    frame.extend([8, 0, 0x45, 0, 0xff, 0xff, 0, 0, 0, 0, 64, number]);
                    frame.extend([1; 10]);
                }
                4 => frame.extend([number, 0, 0, 0, 0, 0, 0, 0]),
                5 => frame.extend([0, 0, 0x65, 0x58]),
                _ => frame.extend([1, 2, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0]),
            }
            if random(8) == 0 {
                frame.truncate(random(frame.len()) + 1);
            }
        }
        most = most.max(steps(ALL, &frame).0);
    }
    assert!((12..=MAX_HEADERS).contains(&most), "{most}");
}

/// Goal: the fast path gives the result of the walk, and takes no packet that it should not.
/// Method: UDP and TCP over IPv4 and IPv6, truncated at every byte, each header byte with every
/// value, with all options.
#[test]
fn a_plain_packet_has_the_answer_of_the_walk() {
    let link = |ethertype: [u8; 2]| [&[2; 12][..], &ethertype].concat();
    let v4 = [0x45, 3, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let v6 = [&[0x60, 0x12, 3, 4, 0, 9, 17, 64][..], &[0x20; 16], &[0x30; 16]].concat();
    let upper = [0x13, 0x8c, 0x12, 0xb5, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    let frames = [
        [&link([8, 0])[..], &v4, &upper].concat(),
        [&link([0x86, 0xdd])[..], &v6, &upper].concat(),
    ];
    for mut frame in frames {
        for tunnels in [Tunnels::NONE, Tunnels::VISIBLE, Tunnels::ALL] {
            for flow_labels in [FlowLabels::Ignored, FlowLabels::WithoutPorts, FlowLabels::Always] {
                let parser = Parser { tunnels, flow_labels };
                for at in 0..frame.len() - 12 {
                    let before = frame[at];
                    for value in 0..=u8::MAX {
                        frame[at] = value;
                        for length in [frame.len(), 58, 57, 38, 37, at] {
                            let bytes = &frame[..length.min(frame.len())];
                            assert_eq!(parser.ethernet(bytes), parser.ethernet_slow(bytes));
                            let packet = bytes.get(14..).unwrap_or_default();
                            assert_eq!(parser.ip(packet), parser.ip_slow(packet));
                        }
                    }
                    frame[at] = before;
                }
            }
        }
    }
}
