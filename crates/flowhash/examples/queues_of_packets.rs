//! From bytes to a queue: parses packets, hashes their flows under a key, and looks their queues
//! up.
//!
//! ```sh
//! cargo run -p flowhash --example queues_of_packets
//! ```

use flowhash::{FlowTable, Labels, Outcome, SipHash13, TagLine, parse};

fn main() -> Result<(), flowhash::TableError> {
    let mut table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
    // In a product the key comes from the machine's source of random numbers, once per boot.
    let hasher = SipHash13::new([42; 16]);
    let packets = [udp(1, 5_004), udp(2, 5_004), udp(1, 5_004), udp(1, 5_006)];
    for packet in &packets {
        let (queue, outcome) = queue_of(packet, &hasher, &mut table);
        let key = parse::ip(packet).key;
        println!("queue {queue:>2} ({outcome:?}): {key:?}");
    }
    Ok(())
}

/// Returns the queue of a packet's flow, and how it was found.
fn queue_of(
    packet: &[u8],
    hasher: &SipHash13,
    table: &mut FlowTable<[TagLine; 8]>,
) -> (u32, Outcome) {
    let labels = Labels::new(&parse::ip(packet).key, hasher);
    let found = table.lookup(labels.flow);
    (found.queue, found.outcome)
}

/// A UDP datagram without payload from port `port` of 10.0.0.`host` to 192.0.2.1.
fn udp(host: u8, port: u16) -> [u8; 28] {
    let [high, low] = port.to_be_bytes();
    [
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, host, 192, 0, 2, 1, high, low, 0x13,
        0x8e, 0, 8, 0, 0,
    ]
}

#[test]
fn packets_of_a_flow_share_a_queue_and_other_flows_have_others() {
    let mut table = FlowTable::new([TagLine::EMPTY; 8], 64, 8).unwrap();
    let hasher = SipHash13::new([42; 16]);
    let mut queue = |host, port| queue_of(&udp(host, port), &hasher, &mut table);
    let (first, outcome) = queue(1, 5_004);
    assert_eq!(outcome, Outcome::Claimed);
    assert_eq!(queue(1, 5_004), (first, Outcome::Hit));
    assert_ne!(queue(2, 5_004).0, first);
    assert_ne!(queue(1, 5_006).0, first);
}
