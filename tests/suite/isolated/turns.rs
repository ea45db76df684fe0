//! Size of turns, which follows the longest packet sent.

use super::*;
use freeboard::HostTerms;

const PERMITTED: u32 = 65_535;
const FRAME: u32 = 1_514;

/// Modes with both levels, and with flows alone.
const MODES: [Isolation; 3] = [Isolation::Flows, Isolation::DualSrcHost, Isolation::TripleIsolate];

fn permitting(isolation: Isolation) -> Isolated<Heap> {
    let memory = IsolatedMemory::allocate(64, 16, 1, 4_096).with_triple(64);
    let config = IsolatedConfig::new(PERMITTED, Limits::NONE).isolated_by(isolation);
    Isolated::new(memory, config).expect("powers of two")
}

/// Returns the labels of a flow of its own host.
fn of_host(host: u32) -> Labels {
    labels(host, host, host)
}

/// A flow of a host with this quantum in bytes.
struct Worth(Labels, u32);

impl Labelled for Worth {
    fn flow(&self) -> u32 {
        self.0.flow
    }

    fn source(&self) -> u32 {
        self.0.src_host
    }

    fn destination(&self) -> u32 {
        self.0.dst_host
    }

    fn host_terms(&self) -> HostTerms {
        HostTerms { quantum: Some(self.1), ..HostTerms::default() }
    }
}

fn enqueue(queue: &mut Isolated<Heap>, labels: &impl Labelled, handle: u32, len: u32) {
    let packet = Packet::new(handle, len);
    queue.enqueue_labelled(Nanos(0), labels, packet, &mut no_drops).expect("there is room");
}

fn dequeue(queue: &mut Isolated<Heap>) -> Packet {
    queue.dequeue(Nanos(0), &mut no_drops).expect("more are queued")
}

/// Returns the longest run of packets of one host, in 100 frames of two backlogged hosts.
fn longest_run(queue: &mut Isolated<Heap>) -> usize {
    for handle in 0..400 {
        enqueue(queue, &of_host(handle % 2), handle, FRAME);
    }
    let all: Vec<u32> = (0..200).map(|_| dequeue(queue).handle % 2).collect();
    let runs = all.get(100..).unwrap_or_default().chunk_by(|a, b| a == b);
    queue.drain(&mut |_: Packet, _| {});
    runs.map(<[u32]>::len).max().unwrap_or(0)
}

/// Goal: permitting long packets does not lengthen turns; sending one does, until the records are
/// reset. Method: hosts with frames where 65,535 bytes are permitted, before and after packets of
/// 60,000.
#[test]
fn turns_are_of_the_longest_packet_sent() {
    for isolation in MODES {
        let mut queue = permitting(isolation);
        assert_eq!(longest_run(&mut queue), 1, "{isolation}: 1,525 bytes");
        (0..2).for_each(|handle| enqueue(&mut queue, &of_host(0), handle, 60_000));
        (0..2).for_each(|_| assert_eq!(dequeue(&mut queue).len, 60_000));
        let run = longest_run(&mut queue);
        assert!((43..=44).contains(&run), "{isolation}: {run} frames in a turn of 65,535");
        queue.relabel(|packet| of_host(packet.handle % 2));
        assert_eq!(longest_run(&mut queue), 1, "{isolation}");
        assert_eq!(queue.recount(), Ok(()));
    }
}

/// Goal: the shares of hosts follow their quanta, whatever packets cost. Method: a host with three
/// times the quantum of another, before and after long packets.
#[test]
fn weights_of_hosts_do_not_change() {
    let of = |host| Worth(of_host(host), PERMITTED * (1 + 2 * host));
    let mut queue = permitting(Isolation::DualSrcHost);
    for len in [FRAME, 30_000, FRAME] {
        let count = if len == FRAME { 1_200 } else { 120 };
        (0..count).for_each(|handle| enqueue(&mut queue, &of(handle % 2), handle, len));
        let mut sent = [0_u32; 2];
        for _ in 0..count / 2 {
            let packet = dequeue(&mut queue);
            sent[packet.handle as usize % 2] += packet.len;
        }
        let share = f64::from(sent[1]) / f64::from(sent[0]);
        assert!((2.6..3.4).contains(&share), "{len}: {share}");
        queue.drain(&mut |_: Packet, _| {});
        assert_eq!(queue.recount(), Ok(()));
    }
}

/// Goal: turns in progress survive every change of the cost of packets. Method: random lengths
/// while packets come and go; the counters are consistent after each step, and all packets leave.
#[test]
fn turns_under_way_outlive_longer_packets() {
    for isolation in MODES {
        let (mut random, mut queue) = (Xorshift::new(7), permitting(isolation));
        for step in 0..20_000_u32 {
            match random.below(20) {
                0..=9 if queue.backlog().packets > 0 => {
                    dequeue(&mut queue);
                }
                _ => {
                    let long = random.below(500) == 0;
                    let len =
                        if long { random.below(PERMITTED) + 1 } else { random.below(1_514) + 1 };
                    let host = random.below(5);
                    let labels = labels(random.below(9), host, host);
                    if queue.backlog().packets < 3_000 {
                        let handle = step % 4_096;
                        let packet = Packet::new(handle, len);
                        let _busy =
                            queue.enqueue_labelled(Nanos(0), &labels, packet, &mut no_drops);
                    }
                }
            }
            if step % 16 == 0 {
                assert_eq!(queue.recount(), Ok(()), "{isolation}");
            }
        }
        while queue.backlog().packets > 0 {
            dequeue(&mut queue);
        }
        assert_eq!(queue.recount(), Ok(()), "{isolation}");
    }
}

/// Goal: changes of quanta leave every list correct while packets are sent in advance of turns.
/// Method: four hosts of six flows, with random packets and quanta of one packet or four, which
/// change; a recount after each step.
#[test]
fn quanta_change_while_packets_are_sent_in_advance() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    let mut random = Xorshift::new(9);
    let mut free: Vec<u32> = (0..HANDLES).collect();
    for step in 0..effort(20_000, 400_000) {
        let host = random.below(4);
        let quantum = if random.below(2) == 0 { MTU } else { 4 * MTU };
        let of = Worth(labels(6 * host + random.below(6), host, 0), quantum);
        match random.below(16) {
            0 => {
                queue.update_host(Nanos(0), &of);
            }
            1..9 => {
                let Some(handle) = free.pop() else { continue };
                let packet = Packet::new(handle, [60, 100, 1_000, MTU][random.below(4) as usize]);
                let accepted = queue.enqueue_labelled(Nanos(0), &of, packet, &mut no_drops);
                assert!(accepted.is_ok());
            }
            _ => {
                let packet = queue.dequeue(Nanos(0), &mut no_drops);
                assert_eq!(packet.is_none(), free.len() == HANDLES as usize, "step {step}");
                free.extend(packet.map(|packet| packet.handle));
            }
        }
        assert_eq!(queue.recount(), Ok(()), "step {step}");
    }
}
