//! Effect of the number of host slots with a thousand busy hosts and a few that send little.

use std::collections::BinaryHeap;

use core::cmp::Reverse;

use freeboard::flowhash::{HostKey, SipHash13};

use super::*;
use crate::config::DEFAULT_MAX_HOSTS;
use crate::config::handling::Late;
use freeboard::AqmKind;

/// Number of hosts that use their whole share, and their total load in percent of the link's rate.
const BUSY: u32 = 1_000;
const LOAD: u64 = 150;
/// Number of hosts that send a packet of 200 bytes every 20 ms.
const CALM: u32 = 20;
const EVERY: Nanos = Nanos(20_000_000);
/// Duration of the measurement, after a warm-up of the same length.
const SPAN: Nanos = Nanos(4_000_000_000);
const LONG: u32 = 1_514;

/// Outcome for the packets of calm hosts.
#[derive(Debug)]
struct Calm {
    /// Sorted, in milliseconds.
    delays: Vec<f64>,
    sent: usize,
}

impl Calm {
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.delays.len() * percent).div_ceil(100).max(1) - 1;
        self.delays.get(at).copied().unwrap_or(f64::INFINITY)
    }

    fn loss(&self) -> f64 {
        100.0 * (self.sent - self.delays.len()) as f64 / self.sent as f64
    }
}

/// The next packet of each host: time and host.
type Coming = BinaryHeap<Reverse<(Nanos, u32)>>;

fn play(max_hosts: u32, mbits: u64) -> Calm {
    let share = Sharing {
        kind: QueueKind::Drr,
        hosts: HostMode::Lan,
        max_hosts,
        limit: Limit::Bytes(4 << 20),
        flush_unserved: None,
        aqm: AqmKind::CoDel,
        l4s: true,
        rtt: freeboard::Rtt::INTERNET,
    };
    // The test has its own link. At these rates two packets take less than 5 ms, so the AQM has the
    // same parameters.
    let rate = Rate::UNLIMITED;
    let descriptors = FRAMES + 1;
    let treatment = Treatment { late: Late::CatchUp(Nanos::ZERO), ..Treatment::default() };
    let plan =
        Plan { share, heading: Heading::Up, descriptors, max_len: LONG + 8, rate, treatment };
    let mut queue = plan.build().unwrap();
    let hasher = SipHash13::new([9; 16]);
    let label = |host: u32| HostKey::V4(host.to_be_bytes()).label(&hasher);
    let line = |len: u32| Nanos(u64::from(len) * 8_000 / mbits);
    let busy_every = Nanos(line(LONG).0 * u64::from(BUSY) * 100 / LOAD);
    // Spread over the first round by a constant step.
    let begin = |host: u32, every: Nanos| {
        Nanos(u64::from(host) * 618_034 % 1_000_000 * every.0 / 1_000_000)
    };
    let mut coming: Coming = (0..BUSY + CALM)
        .map(|host| Reverse((begin(host, if host < BUSY { busy_every } else { EVERY }), host)))
        .collect();
    let mut free: Vec<u32> = (0..descriptors).collect();
    // Arrival time and host by handle.
    let mut held = vec![(Nanos::ZERO, 0); descriptors as usize];
    let mut calm = Calm { delays: Vec::new(), sent: 0 };
    let (from, to) = (SPAN, SPAN.plus(SPAN));
    let is_measured = |at: Nanos, host: u32| host >= BUSY && (from..to).contains(&at);
    let mut line_free = Nanos::ZERO;
    while let Some(mut next) = coming.peek_mut() {
        let Reverse((now, host)) = *next;
        if now >= to.plus(Nanos::from_secs(2)) {
            break;
        }
        // Departures before this arrival.
        while line_free <= now {
            let packet =
                queue.dequeue(line_free, &mut |packet: Packet, _| free.push(packet.handle));
            let Some(packet) = packet else { break };
            let (at, of) = held[packet.handle as usize];
            if is_measured(at, of) {
                calm.delays.push(line_free.since(at).0 as f64 / 1e6);
            }
            free.push(packet.handle);
            line_free = line_free.plus(line(packet.len));
        }
        line_free = line_free.max(now);
        let (every, len) = if host < BUSY { (busy_every, LONG) } else { (EVERY, 200) };
        // Dropping `next` restores the order of the heap.
        *next = Reverse((now.plus(every), host));
        drop(next);
        calm.sent += usize::from(is_measured(now, host));
        let of = PacketView {
            flow: label(host ^ 1 << 31),
            source: label(host),
            destination: label(u32::MAX),
            tin: 0,
            weight: 1,
            quantum: LONG + 8,
            rate: None,
            ceiling: None,
        };
        let handle = free.pop().unwrap();
        held[handle as usize] = (now, host);
        let drops = &mut |packet: Packet, _| free.push(packet.handle);
        if let Err(rejected) = queue.offer(now, &of, Packet::new(handle, len), drops) {
            free.push(rejected.packet.handle);
        }
    }
    calm.delays.sort_by(f64::total_cmp);
    calm
}

/// Goal: a thousand busy hosts do not harm a host that sends little, if there is a slot for each;
/// the page shows the figures.
///
/// Method: simulation of the gateway's own queue on a link that is always busy, in virtual time and
/// without frames.
#[test]
fn a_thousand_busy_hosts_are_told_apart() {
    println!("| line | --max-hosts | p50 | p99 | lost |");
    for &mbits in conformance::effort::effort(&[100][..], &[100, 1_000]) {
        let [few, many] = [128, DEFAULT_MAX_HOSTS].map(|max_hosts| {
            let calm = play(max_hosts, mbits);
            let [p50, p99] = [50, 99].map(|percent| calm.percentile(percent));
            let loss = calm.loss();
            println!("| {mbits} Mbit/s | {max_hosts} | {p50:.2} ms | {p99:.2} ms | {loss:.1} % |");
            (p99, loss)
        });
        // No packet waits longer than a turn of every other host, and none is lost.
        let round = f64::from(BUSY) * 2.0 * f64::from(LONG + 8) * 8e-3 / mbits as f64;
        assert!(many.1 == 0.0 && many.0 <= round, "{many:?} of {round}");
        assert!(few.0 > 2.0 * many.0, "{few:?} {many:?}");
    }
}
