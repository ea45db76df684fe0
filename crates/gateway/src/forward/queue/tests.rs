use super::*;
use crate::config::handling::Late;
use freeboard::sched_core::{DropReason, Ecn, RejectReason};
use freeboard::{AqmKind, Rtt};

fn plan(kind: QueueKind, hosts: HostMode, heading: Heading) -> Plan {
    let share = Sharing {
        kind,
        hosts,
        max_hosts: 256,
        limit: Limit::Packets(200),
        flush_unserved: None,
        aqm: AqmKind::CoDel,
        l4s: true,
        rtt: freeboard::Rtt::INTERNET,
    };
    let rate = Rate::UNLIMITED;
    let treatment = Treatment { late: Late::CatchUp(Nanos::ZERO), ..Treatment::default() };
    Plan { share, heading, descriptors: 400, max_len: 1_514, rate, treatment }
}

fn seen(host: u32, flow: u32, heading: Heading) -> PacketView {
    let (host, far) = (flowhash::mix(host), flowhash::mix(99));
    let (source, destination) = match heading {
        Heading::Up => (host, far),
        Heading::Down => (far, host),
    };
    PacketView {
        flow: flowhash::mix(host ^ flow),
        source,
        destination,
        tin: 0,
        weight: 1,
        quantum: 1_514,
        rate: None,
        ceiling: None,
    }
}

fn every() -> Vec<(QueueKind, HostMode)> {
    let by = Isolation::ALL.iter().copied().map(HostMode::By);
    let mut all: Vec<(QueueKind, HostMode)> = by.map(|hosts| (QueueKind::Drr, hosts)).collect();
    for isolation in [Isolation::Flows, Isolation::SrcHost, Isolation::DstHost, Isolation::Hosts] {
        all.extend([
            (QueueKind::Sqf, HostMode::By(isolation)),
            (QueueKind::Qfq, HostMode::By(isolation)),
        ]);
    }
    all.extend([(QueueKind::Drr, HostMode::Lan), (QueueKind::Sqf, HostMode::UsersSqf)]);
    all.push((QueueKind::Fifo, HostMode::By(Isolation::Flows)));
    all
}

/// Goal: in every kind of queue, every handle is returned exactly once, and the counters agree.
/// Method: 3,000 calls, or 1,200 where 3,000 take too long: packets of 12 hosts with 30 flows each
/// into a queue of 200 packets, every third call a dequeue; returned handles are used again. The
/// counters are recounted at every 500th call.
#[test]
fn every_queue_gives_back_every_handle_once() {
    for (kind, hosts) in every() {
        for heading in [Heading::Up, Heading::Down] {
            let mut queue = plan(kind, hosts, heading).build().unwrap();
            let mut free: Vec<u32> = (0..400).collect();
            let mut random = 1_u32;
            for step in 0..conformance::effort::effort(1_200, 3_000_u64) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let now = Nanos(step * 200_000);
                let mut home = Vec::new();
                let drops = &mut |packet: Packet, _| home.push(packet.handle);
                if step % 3 == 2 {
                    let packet = queue.dequeue(now, drops);
                    home.extend(packet.map(|packet| packet.handle));
                } else {
                    let handle = free.pop().unwrap();
                    let len = 60 + random % 1_455;
                    let of = seen(random >> 8 & 11, random >> 16 & 29, heading);
                    if let Err(rejected) = queue.offer(now, &of, Packet::new(handle, len), drops) {
                        home.push(rejected.packet.handle);
                    }
                }
                free.extend(home);
                assert_eq!(
                    free.len() + queue.backlog().packets as usize,
                    400,
                    "{kind:?} {hosts:?}"
                );
                if step % 500 == 0 {
                    assert_eq!(queue.recount(), Ok(()), "{kind:?} {hosts:?}");
                }
            }
            let drops = &mut |packet: Packet, _| free.push(packet.handle);
            queue.set_limits(Limits::packets(50), drops);
            queue.drain(drops);
            free.sort_unstable();
            assert_eq!(free, (0..400).collect::<Vec<u32>>(), "{kind:?} {hosts:?}");
        }
    }
}

/// Returns the number of packets of the first host among the first `sent`, of two backlogged hosts
/// with 1 and 8 flows.
fn share_of_one_flow(
    kind: QueueKind,
    hosts: HostMode,
    heading: Heading,
    weights: [u32; 2],
    sent: usize,
) -> usize {
    let mut queue = plan(kind, hosts, heading).build().unwrap();
    let drops = &mut |packet: Packet, _| panic!("{packet:?}");
    for handle in 0..180 {
        let (host, flow) = if handle < 90 { (0, 0) } else { (1, handle % 8) };
        let weight = weights[host as usize];
        let of = PacketView { weight, quantum: 1_514 * weight, ..seen(host, flow, heading) };
        queue.offer(Nanos(0), &of, Packet::new(handle, 1_000), drops).unwrap();
    }
    let sent = (0..sent).map(|_| queue.dequeue(Nanos(0), drops).unwrap());
    sent.filter(|packet| packet.handle < 90).count()
}

#[test]
fn hosts_on_the_lan_side_share_the_line_in_both_directions() {
    let flows = HostMode::By(Isolation::Flows);
    for heading in [Heading::Up, Heading::Down] {
        let share = |kind, hosts| share_of_one_flow(kind, hosts, heading, [1, 1], 90);
        assert_eq!(share(QueueKind::Drr, flows), 10);
        assert!((9..=11).contains(&share(QueueKind::Qfq, flows)));
        assert!((44..=46).contains(&share(QueueKind::Drr, HostMode::Lan)));
        assert!((44..=46).contains(&share(QueueKind::Sqf, HostMode::UsersSqf)));
    }
    // CAKE's modes use source and destination as in the packet.
    let by_source = HostMode::By(Isolation::DualSrcHost);
    assert!((44..=46).contains(&share_of_one_flow(
        QueueKind::Drr,
        by_source,
        Heading::Up,
        [1, 1],
        90
    )));
    assert_eq!(share_of_one_flow(QueueKind::Drr, by_source, Heading::Down, [1, 1], 90), 10);
}

#[test]
fn weights_are_those_of_the_hosts() {
    let share = share_of_one_flow(QueueKind::Drr, HostMode::Lan, Heading::Up, [3, 1], 80);
    assert!((58..=62).contains(&share), "{share}");
    // Eight flows of weight 1 against one of weight 8: half each.
    let share = share_of_one_flow(
        QueueKind::Qfq,
        HostMode::By(Isolation::Flows),
        Heading::Down,
        [8, 1],
        80,
    );
    assert!((38..=42).contains(&share), "{share}");
}

/// Goal: above its rate a host gets only what other hosts leave, which is the whole link if no
/// other host sends. In both directions the host is the one on the LAN side. Method: a host with a
/// rate of 1 Mbit/s against one without a rate, both backlogged at 8 Mbit/s for a second; then the
/// first alone. Packets dropped by the AQM are sent again.
#[test]
fn a_rate_is_that_of_the_host_on_the_lan_side() {
    for heading in [Heading::Up, Heading::Down] {
        let mut queue = plan(QueueKind::Drr, HostMode::Lan, heading).build().unwrap();
        let rate = Some(TokenBucket::new(1_000_000, 3_000).unwrap());
        let offer = |queue: &mut Box<dyn Queue>, now, handle| {
            let host = handle % 2;
            let of = PacketView { rate: rate.filter(|_| host == 0), ..seen(host, 0, heading) };
            let drops = &mut |packet: Packet, why| panic!("{packet:?} {why:?}");
            queue.offer(now, &of, Packet::new(handle, 1_000), drops).unwrap();
        };
        (0..20).for_each(|handle| offer(&mut queue, Nanos(0), handle));
        let mut sent_in = |millis: core::ops::Range<u64>, hosts: u32| {
            let mut sent = [0_u32; 2];
            for now in millis.map(Nanos::from_millis) {
                let mut home = Vec::new();
                let packet = queue.dequeue(now, &mut |packet: Packet, _| home.push(packet.handle));
                let handle = packet.expect("a backlogged queue sends whenever it is asked").handle;
                sent[handle as usize % 2] += 1;
                home.push(handle);
                for handle in home.into_iter().filter(|handle| handle % 2 < hosts) {
                    offer(&mut queue, now, handle);
                }
            }
            sent
        };
        let both = sent_in(0..1_000, 2);
        assert!((120..=130).contains(&both[0]), "{heading:?} {both:?}");
        let alone = sent_in(1_000..2_000, 1);
        assert!(alone[0] >= 990, "{heading:?} {alone:?}");
    }
}

#[test]
fn a_user_without_packets_gives_its_entry_back() {
    let mut queue =
        Users::new(&plan(QueueKind::Sqf, HostMode::UsersSqf, Heading::Up), Limits::packets(200))
            .unwrap();
    let drops = &mut |_: Packet, _| ();
    for host in 0..500 {
        queue
            .offer(Nanos(0), &seen(host, 0, Heading::Up), Packet::new(host % 400, 100), drops)
            .unwrap();
        assert!(queue.dequeue(Nanos(0), drops).is_some());
    }
    assert_eq!(queue.backlog().packets, 0);
    queue.offer(Nanos(0), &seen(7, 0, Heading::Up), Packet::new(7, 100), drops).unwrap();
    queue.drain(drops);
    assert_eq!(queue.entries_in_use(), 0);
}

#[test]
fn the_target_follows_the_line() {
    let slow = Rate::kilobits_per_second(512).unwrap();
    let codel = |rate, max_len| {
        let plan = plan(QueueKind::Qfq, HostMode::By(Isolation::Flows), Heading::Up);
        match (Plan { rate, max_len, ..plan }).aqm() {
            (AqmChoice::CoDel(params), Some(_)) => params,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(codel(slow, 1_500).target, Nanos(46_875_000));
    assert_eq!(codel(Rate::UNLIMITED, 1_500).target, Nanos::from_millis(5));
    // The interval grows with the target, so that a sender has a round trip to react.
    assert_eq!(codel(slow, 1_500).interval, Nanos(141_875_000));
    // 24 s for two packets: the maximum target of CoDel. Two packets may be queued nevertheless,
    // whatever their sojourn time.
    let longest = Nanos((1 << 32) - 1);
    assert_eq!(codel(Rate::kilobits_per_second(1).unwrap(), 1_500).target, longest);
}

/// Goal: the round-trip time sets the AQM of every queue and tin, at the start and later. Method:
/// an unresponsive flow whose packets wait up to 10 ms. CoDel for 100 ms signals congestion within
/// a second, CoDel for a second does not, and CoDel for 1 ms does often.
#[test]
fn every_queue_has_the_round_trip_time_that_was_asked_for() {
    let rate = Rate::megabits_per_second(10).unwrap();
    for (kind, hosts) in every().into_iter().filter(|(kind, _)| *kind != QueueKind::Fifo) {
        let with = |rtt| {
            let plan = plan(kind, hosts, Heading::Up);
            Plan {
                rate,
                share: Sharing { rtt, l4s: false, limit: Limit::Packets(12), ..plan.share },
                ..plan
            }
        };
        let [near, usual, far] = [Rtt::LAN, Rtt::INTERNET, Rtt::SATELLITE].map(with);
        let what = format!("{kind:?} {hosts:?}");
        let marked = |plan, later| deaf(plan, Ecn::Ect0, later)[1];
        assert_eq!(marked(far, None), 0, "{what}");
        let (of_usual, of_near) = (marked(usual, None), marked(near, None));
        assert!(of_usual > 0 && of_near > 2 * of_usual, "{what}: {of_usual} {of_near}");
        let later = marked(far, Some(near));
        assert!(later > 0 && later < of_near, "{what}: {later} of {of_near}");
    }
}

/// Returns an SQF queue for 21 packets that holds 20 packets of 1,000 bytes of a host's bulk flow.
fn with_bulk(hosts: HostMode, flush_unserved: Option<Nanos>) -> Box<dyn Queue> {
    let mut plan = plan(QueueKind::Sqf, hosts, Heading::Up);
    plan.share.flush_unserved = flush_unserved;
    plan.share.limit = Limit::Packets(21);
    let mut queue = plan.build().unwrap();
    let drops = &mut |packet: Packet, why| panic!("{packet:?} {why:?}");
    for handle in 0..20 {
        queue.offer(Nanos(0), &seen(0, 1, Heading::Up), Packet::new(handle, 1_000), drops).unwrap();
    }
    queue
}

const BY_SQF: [HostMode; 2] = [HostMode::By(Isolation::Flows), HostMode::UsersSqf];

/// Goal: SQF as offered by the gateway starves no flow, whatever is preferred. Method: another flow
/// of the same host always has one packet of 200 bytes queued, and so the shortest queue; bulk
/// packets that were sent are enqueued again.
#[test]
fn a_bulk_flow_gets_an_eighth_beside_a_flow_that_is_always_shorter() {
    for hosts in BY_SQF {
        let mut queue = with_bulk(hosts, None);
        let mut sent = [0; 2];
        // All at one time: the AQM sees no delay.
        let drops = &mut |packet: Packet, why| panic!("{packet:?} {why:?}");
        queue.offer(Nanos(0), &seen(0, 0, Heading::Up), Packet::new(20, 200), drops).unwrap();
        for _ in 0..720 {
            let packet = queue.dequeue(Nanos(0), drops).unwrap();
            let flow = u32::from(packet.handle < 20);
            sent[flow as usize] += packet.len;
            let again = Packet::new(packet.handle, packet.len);
            queue.offer(Nanos(0), &seen(0, flow, Heading::Up), again, drops).unwrap();
        }
        // After 328 packets of the short flow, 65,600 bytes, one byte of eight is the bulk flow's.
        assert_eq!(sent, [141_800, 11_000], "{hosts:?}");
    }
}

/// Goal: the option reaches the queue, and all packets are returned with the reason. Method: bulk
/// packets that have waited for a second overflow, with the option and without.
#[test]
fn a_queue_that_was_not_served_is_dropped_whole_if_asked_for() {
    for hosts in BY_SQF {
        let overflow = |flush_unserved| {
            let mut queue = with_bulk(hosts, flush_unserved);
            let mut why = Vec::new();
            for handle in 20..22 {
                let (now, of) = (Nanos::from_secs(1), seen(0, 1, Heading::Up));
                let drops = &mut |_: Packet, reason| why.push(reason);
                queue.offer(now, &of, Packet::new(handle, 1_000), drops).unwrap();
            }
            assert_eq!(queue.recount(), Ok(()));
            why
        };
        assert_eq!(overflow(None), [DropReason::Overflow], "{hosts:?}");
        let flush = Some(Nanos::from_millis(500));
        assert_eq!(overflow(flush), [DropReason::Unserved; 21], "{hosts:?}");
        assert_eq!(overflow(Some(Nanos::from_secs(2))), [DropReason::Overflow], "{hosts:?}");
    }
}

/// Goal: `triple-isolate` isolates hosts on the LAN side in both directions, and not those on the
/// other side. Method: one LAN host has one packet from each of 400 other hosts, a second one 20
/// from a single other host; the limit is 200 packets.
#[test]
fn a_full_queue_takes_from_the_longest_host_of_the_lan() {
    let hosts = HostMode::By(Isolation::TripleIsolate);
    for heading in [Heading::Up, Heading::Down] {
        let plan = Plan { descriptors: 500, ..plan(QueueKind::Drr, hosts, heading) };
        let mut queue = plan.build().unwrap();
        let mut lost = Vec::new();
        for handle in 0..420 {
            let light = handle % 21 == 20;
            let (near, far) = if light { (2, 1_000) } else { (1, 2_000 + handle) };
            let (near, far) = (flowhash::mix(near), flowhash::mix(far));
            let mut seen = PacketView { flow: near ^ far, ..seen(0, 0, heading) };
            (seen.source, seen.destination) = match heading {
                Heading::Up => (near, far),
                Heading::Down => (far, near),
            };
            let drops = &mut |packet: Packet, _| lost.push(packet.handle);
            let _full = queue.offer(Nanos(0), &seen, Packet::new(handle, 1_514), drops);
        }
        assert_eq!(lost.len(), 220, "{heading:?}");
        assert!(lost.iter().all(|handle| handle % 21 != 20), "{heading:?}: {lost:?}");
    }
}

/// Returns the number of packets that the AQM drops or rejects, and marks, of 3,000 packets of
/// 1,000 bytes, one per 555 µs, of one flow with this codepoint on a link of 10 Mbit/s. `later` is
/// the plan for the second half.
fn deaf(plan: Plan, ecn: Ecn, later: Option<Plan>) -> [u64; 2] {
    let mut queue = plan.build().unwrap();
    let mut gone = Vec::new();
    let mut free: Vec<u32> = (0..plan.descriptors).rev().collect();
    let mut now = Nanos(0);
    queue.set_rate_and_aqm(now, &plan);
    for number in 0..3_000_u64 {
        now = Nanos(555_000 * number);
        if let Some(later) = later.filter(|_| number == 1_500) {
            queue.set_rate_and_aqm(now, &later);
        }
        let drops = &mut |packet: Packet, _| gone.push(packet.handle);
        if let Some(handle) = free.pop() {
            let packet = Packet { ecn, ..Packet::new(handle, 1_000) };
            if let Err(rejected) = queue.offer(now, &seen(1, 1, plan.heading), packet, drops) {
                assert_eq!(rejected.reason, RejectReason::Aqm);
                gone.push(rejected.packet.handle);
            }
        }
        while let Some(packet) =
            queue.dequeue(now, &mut |packet: Packet, _| gone.push(packet.handle))
        {
            free.push(packet.handle);
        }
        free.append(&mut gone);
    }
    queue.recount().unwrap();
    let counters = queue.counters();
    let dropped = counters.dropped_for(DropReason::Aqm).packets + counters.rejected.packets;
    [dropped, counters.marked]
}

/// Goal: every queue except the FIFO has the configured AQM, and another one can replace it while
/// packets are queued. Method: an unresponsive flow. CoDel only marks ECN-capable packets, COBALT
/// and AQMs that act on arrival also drop some, `none` does neither; the threshold marks ECT(1)
/// only.
#[test]
fn every_queue_has_the_aqm_that_was_asked_for() {
    let rate = Rate::megabits_per_second(10).unwrap();
    for (kind, hosts) in every().into_iter().filter(|(kind, _)| *kind != QueueKind::Fifo) {
        let with = |aqm, l4s| {
            let plan = plan(kind, hosts, Heading::Up);
            Plan {
                rate,
                share: Sharing { aqm, l4s, limit: Limit::Packets(100), ..plan.share },
                ..plan
            }
        };
        let [none, codel, cobalt] =
            [AqmKind::None, AqmKind::CoDel, AqmKind::Cobalt].map(|aqm| with(aqm, false));
        let what = format!("{kind:?} {hosts:?}");
        assert_eq!(deaf(none, Ecn::Ect0, None), [0; 2], "{what}");
        let [dropped, marked] = deaf(codel, Ecn::Ect0, None);
        assert!(dropped == 0 && marked > 10, "{what}: {dropped} {marked}");
        let [dropped, marked] = deaf(cobalt, Ecn::Ect0, None);
        assert!(dropped > 50 && marked > 10, "{what}: {dropped} {marked}");
        for aqm in [AqmKind::Pie, AqmKind::Pi2, AqmKind::Red, AqmKind::Blue] {
            // Capacity for arrivals until PIE has adapted its probability.
            let plan = with(aqm, false);
            let share = Sharing { limit: Limit::Packets(1_000), ..plan.share };
            let plan = Plan { share, descriptors: 1_001, ..plan };
            let [dropped, marked] = deaf(plan, Ecn::Ect0, None);
            // The average exceeds RED's thresholds before a packet is marked, and BLUE's
            // probability stays below a tenth, up to which it only marks.
            let is_told = match aqm {
                AqmKind::Red => dropped > 50,
                AqmKind::Blue => dropped == 0 && marked > 50,
                _ => dropped > 50 && marked > 5,
            };
            assert!(is_told, "{aqm} {what}: {dropped} {marked}");
            let [dropped, marked] = deaf(
                Plan { share: Sharing { aqm: AqmKind::None, ..share }, ..plan },
                Ecn::NotEct,
                Some(plan),
            );
            assert!(dropped > 15 && marked == 0, "{aqm} {what}: {dropped} {marked}");
        }
        let [dropped, marked] = deaf(none, Ecn::Ect0, Some(cobalt));
        assert!(dropped > 20 && marked > 5, "{what}: {dropped} {marked}");
        let [dropped, marked] = deaf(with(AqmKind::None, true), Ecn::Ect1, None);
        assert!(dropped == 0 && marked > 1_000, "{what}: {dropped} {marked}");
        let [_, marked] = deaf(none, Ecn::Ect1, Some(with(AqmKind::None, true)));
        assert!(marked > 500, "{what}: {marked}");
    }
}

/// Enqueues 12 acknowledgements of each of two connections of a host, alternating, with this
/// filter: returns the number filtered and the sequence numbers that leave, by connection.
fn acknowledged(kind: QueueKind, hosts: HostMode, filter: AckFilter) -> (u64, [Vec<u32>; 2]) {
    use freeboard::flowhash::{Ack, FlowKey, Transport};
    let connection = |src_port| FlowKey::V4 {
        src: [10, 0, 0, 1],
        dst: [192, 0, 2, 1],
        transport: Transport { protocol: 6, src_port, dst_port: 443 },
    };
    let acks = |packet: Packet| {
        let (flow, number) = (packet.handle % 2, packet.handle / 2);
        Some(Ack::new(connection(50_000 + flow as u16), 1, 1_500 * (number + 1)))
    };
    let mut queue = plan(kind, hosts, Heading::Up).build().unwrap();
    queue.treat(&Treatment { ack_filter: filter, ..Treatment::default() });
    let mut home = Vec::new();
    for handle in 0..24 {
        let drops = &mut |packet: Packet, reason| {
            assert_eq!(reason, DropReason::Filtered);
            home.push(packet.handle);
        };
        let of = seen(1, handle % 2, Heading::Up);
        queue.offer_ack(Nanos(0), &of, Packet::new(handle, 66), &acks, drops).unwrap();
        assert_eq!(queue.recount(), Ok(()), "{kind:?} {hosts:?}");
    }
    let filtered = queue.counters().dropped_for(DropReason::Filtered).packets;
    assert_eq!(filtered, home.len() as u64);
    let mut left = [Vec::new(), Vec::new()];
    while let Some(packet) = queue.dequeue(Nanos(0), &mut |_: Packet, why| panic!("{why:?}")) {
        left[packet.handle as usize % 2].push(packet.handle / 2 + 1);
        home.push(packet.handle);
    }
    home.sort_unstable();
    assert_eq!(home, (0..24).collect::<Vec<u32>>(), "{kind:?} {hosts:?}");
    (filtered, left)
}

/// Goal: every queue except the FIFO filters acknowledgements: the last two of each waiting
/// connection stay, or the last one, in order. Where connections share the queue of their host, the
/// aggressive mode keeps two as well, because the arriving one directly follows one of the other
/// connection.
#[test]
fn every_queue_filters_acknowledgements() {
    for (kind, hosts) in every() {
        let what = format!("{kind:?} {hosts:?}");
        let of = |filter| acknowledged(kind, hosts, filter);
        let all: Vec<u32> = (1..=12).collect();
        assert_eq!(of(AckFilter::Off), (0, [all.clone(), all.clone()]), "{what}");
        let share_a_queue = matches!(
            hosts,
            HostMode::By(Isolation::SrcHost | Isolation::DstHost | Isolation::Hosts)
        );
        let two = (20, [vec![11, 12], vec![11, 12]]);
        let one = (22, [vec![12], vec![12]]);
        if kind == QueueKind::Fifo {
            assert_eq!(of(AckFilter::Aggressive), (0, [all.clone(), all]), "{what}");
        } else {
            assert_eq!(of(AckFilter::Conservative), two, "{what}");
            let least = if share_a_queue { two } else { one };
            assert_eq!(of(AckFilter::Aggressive), least, "{what}");
        }
    }
}
