//! Weights, committed rates and ceilings of hosts.

use conformance::history::WithTerms;
use freeboard::sched_core::{CoDel, CoDelParams, CoDelState, TokenBucket};
use freeboard::shaper::{Framing, Overhead, Rate, Shaped, Shaper};
use freeboard::{HostTerms, LabelledScheduler};

use super::*;

const LEN: u32 = 1_000;
/// Terms of a host without any.
const NONE: HostTerms = HostTerms { quantum: None, committed_rate: None, ceiling: None };

/// Returns terms with a committed rate in bit/s and a burst in bytes.
fn rate(bits: u64, burst: u32) -> HostTerms {
    HostTerms { committed_rate: Some(TokenBucket::new(bits, burst).expect("in range")), ..NONE }
}

fn ceiling(bits: u64, burst: u32) -> HostTerms {
    HostTerms { ceiling: Some(TokenBucket::new(bits, burst).expect("in range")), ..NONE }
}

/// Returns the labels of a flow of `host`, which is the same on both sides.
fn of(host: u32, tin: u8, terms: HostTerms) -> WithTerms {
    WithTerms { labels: labels(host * 16 + u32::from(tin), host, host), terms, tin }
}

/// Returns unmixed labels.
const fn raw(flow: u32, host: u32, terms: HostTerms) -> WithTerms {
    WithTerms { labels: Labels { flow, src_host: host, dst_host: host }, terms, tin: 0 }
}

/// Allocates tables with rates, for packets of [`LEN`] bytes and the hosts of two sets.
fn memory() -> IsolatedMemory<Heap> {
    IsolatedMemory::allocate(64, 16, 8, 1_200).with_rates().with_triple(64)
}

/// Creates a queue with rates and `tins` tins, of which the lowest has half of the link or more.
fn queue(isolation: Isolation, tins: usize, by_rate: bool) -> Isolated<Heap> {
    let config = IsolatedConfig::new(LEN, Limits::NONE).isolated_by(isolation);
    let mut queue = Isolated::new(memory(), config).expect("powers of two");
    let tin = |at| {
        let (weight, bits) = if at == 0 { (16, 20_000_000) } else { (1, 1_250_000) };
        let tin = TinConfig::by_weight(weight);
        if by_rate { tin.with_rate(bits) } else { tin }
    };
    queue.set_tins(&(0..tins).map(tin).collect::<Vec<_>>()).expect("there is room");
    queue
}

fn put(queue: &mut Isolated<Heap>, now: u64, of: &WithTerms, handle: u32) {
    let packet = Packet::new(handle, LEN);
    queue.enqueue_labelled(Nanos(now), of, packet, &mut no_drops).expect("there is room");
}

/// Advances to the time at which the next packet leaves, which must be exactly that of `poll_at`,
/// and dequeues it.
fn next(queue: &mut Isolated<Heap>, now: &mut u64) -> Option<u32> {
    let opens = queue.poll_at(Nanos(*now))?.0;
    if opens > *now {
        assert_eq!(queue.dequeue(Nanos(opens - 1), &mut no_drops), None);
        *now = opens;
    }
    let (first, packet) = (queue.peek(Nanos(*now)), queue.dequeue(Nanos(*now), &mut no_drops));
    assert!(packet.is_some() && packet == first, "{packet:?}, but peeked {first:?}");
    if packet.is_some_and(|packet| packet.handle % 8 == 0) {
        queue.recount().expect("the books hold");
    }
    packet.map(|packet| packet.handle)
}

/// Counts the packets that leave until `end`, on an infinitely fast link.
fn sent_until(queue: &mut Isolated<Heap>, now: &mut u64, end: u64) -> u64 {
    let mut sent = 0;
    while queue.poll_at(Nanos(*now)).is_some_and(|opens| opens.0 <= end) {
        sent += u64::from(next(queue, now).is_some());
    }
    *now = end;
    sent
}

/// Keeps four packets of each of `senders` queued until `end`, and then sends all; each packet
/// takes `nanos`. Returns the packets of each, and the time of the last departure.
fn flood(
    queue: &mut Isolated<Heap>,
    senders: &[WithTerms],
    end: u64,
    nanos: u64,
) -> (Vec<u64>, u64) {
    let (mut now, mut sent) = (1, vec![0; senders.len()]);
    let at = |handle: u32| handle as usize % senders.len();
    for handle in 0..4 * senders.len() as u32 {
        put(queue, now, &senders[at(handle)], handle);
    }
    while let Some(handle) = next(queue, &mut now) {
        sent[at(handle)] += 1;
        if now < end {
            put(queue, now, &senders[at(handle)], handle);
        }
        now += nanos;
    }
    (sent, now)
}

/// One millisecond, in which an 8 Mbit/s link sends one packet.
const MILLI: u64 = 1_000_000;

/// Goal: a host receives its weight, also one whose flow is in its spare queue because another host
/// has all ways of the set. Values out of range are clamped.
#[test]
fn hosts_have_weights() {
    for ways in [3, 8] {
        let memory = IsolatedMemory::allocate(8, 8, 1, 1_024);
        let mut queue =
            Isolated::new(memory, IsolatedConfig::new(LEN, Limits::NONE)).expect("powers of two");
        let of_host = |handle: u32| match handle {
            0..600 => raw(handle % ways, 0, HostTerms { quantum: Some(0), ..NONE }),
            _ => raw(8, 1, HostTerms { quantum: Some(3 * LEN), ..NONE }),
        };
        (0..800).for_each(|handle| put(&mut queue, 0, &of_host(handle), handle));
        assert_eq!(queue.queue_backlog(8 + 1).packets, if ways == 8 { 200 } else { 0 });
        assert_eq!((0..200).filter(|_| take(&mut queue) >= 600).count(), 150);
    }
}

/// Goal: the quantum of a host is reported in every tin, and those of the others are the configured
/// ones, also where a turn is worth several quanta.
#[test]
fn the_quantum_of_a_host_is_known_in_every_tin() {
    for across in [false, true] {
        let mut queue = queue(Isolation::DualSrcHost, 1, false);
        queue.set_hosts_across_tins(across);
        queue.set_tins(&[TinConfig::by_weight(1); 4]).expect("there is room");
        let quanta = |queue: &Isolated<Heap>| (0..16).map(|at| queue.host_quantum(at)).collect();
        let before: Vec<_> = quanta(&queue);
        assert_eq!(before, [Some(LEN); 16], "{across}");
        let host = of(1, 2, HostTerms { quantum: Some(3 * LEN), ..NONE });
        put(&mut queue, 0, &host, 0);
        let (entry, _) = queue.entries_of(&host);
        let mut expected = before;
        expected[entry.expect("it is backlogged") as usize] = Some(3 * LEN);
        assert_eq!(quanta(&queue), expected, "{across}");
        assert_eq!(queue.host_quantum(16), None);
    }
}

/// Goal: in the modes with a level of hosts, a host receives its rate when competing with another,
/// and the whole link when alone; in the other modes, and without tables for rates, a rate has no
/// effect. Method: three flows of a host with a tenth of the link, and one of another host.
#[test]
fn hosts_have_committed_rates() {
    let cases = Isolation::ALL.iter().map(|&isolation| (isolation, true));
    for (isolation, has_room) in cases.chain([(Isolation::DualSrcHost, false)]) {
        let mut queue = queue(isolation, 1, false);
        if !has_room {
            queue = super::queue(isolation, Limits::NONE);
        }
        for handle in 0..800 {
            let (host, flow) = if handle % 4 == 3 { (1, 0) } else { (2, handle as u8 % 4) };
            // A burst that is too small counts as the longest packet.
            let terms = if host == 1 { NONE } else { rate(800_000, 1) };
            put(&mut queue, 0, &WithTerms { tin: 0, ..of(host, flow, terms) }, handle);
        }
        let mut send = |millis: core::ops::Range<u64>| {
            let sent =
                millis.map(|at| next(&mut queue, &mut (at * MILLI)).expect("more are queued"));
            sent.filter(|handle| handle % 4 != 3).count()
        };
        let sent = send(0..200);
        match isolation {
            // One packet every ten milliseconds, and two at first: the burst, and one that
            // overdraws it.
            Isolation::DualSrcHost | Isolation::DualDstHost if has_room => {
                assert!((20..=22).contains(&sent), "{isolation}: {sent}");
                assert_eq!(send(200..800), 600 - sent, "{isolation}");
            }
            Isolation::Flows => assert_eq!(sent, 150),
            _ => assert!((100..=101).contains(&sent), "{isolation}: {sent}"),
        }
    }
}

/// Goal: what a host borrows is charged, up to a burst, unless borrowing is free. Method: a host
/// with a tenth of the link and a burst of 20 packets has the link for 400 packets, then it has a
/// competitor.
#[test]
fn what_a_host_borrows_is_charged_unless_it_is_free() {
    let charged = rate(800_000, 20 * LEN);
    let free = charged.committed_rate.map(TokenBucket::with_free_borrowing);
    for (committed_rate, expected) in [(charged.committed_rate, 0..=2), (free, 19..=22)] {
        let mut queue = queue(Isolation::DualSrcHost, 1, false);
        let host = of(1, 0, HostTerms { committed_rate, ..NONE });
        (0..800).for_each(|handle| put(&mut queue, 0, &host, handle));
        let send = |queue: &mut Isolated<Heap>, millis: core::ops::Range<u64>| {
            let sent = millis.map(|at| next(queue, &mut (at * MILLI)).expect("more are queued"));
            sent.filter(|handle| *handle < 800).count()
        };
        assert_eq!(send(&mut queue, 0..400), 400);
        (800..1_200).for_each(|handle| put(&mut queue, 400 * MILLI, &of(2, 0, NONE), handle));
        let sent = send(&mut queue, 400..600);
        assert!(expected.contains(&sent), "{sent} of {expected:?}");
        // Afterwards the host receives its rate.
        let sent = send(&mut queue, 600..790);
        assert!((17..=20).contains(&sent), "{sent}");
    }
}

/// Goal: the bucket belongs to the host, whether it comes and goes or stays.
#[test]
fn a_host_that_comes_and_goes_has_no_more_than_its_rate() {
    let mut queue = queue(Isolation::DualSrcHost, 1, false);
    (1..1_000).for_each(|handle| put(&mut queue, 0, &of(1, 0, NONE), handle));
    let (mut is_held, mut sent) = (false, 0);
    for mut now in (0..500).map(|millis| millis * MILLI) {
        if !is_held {
            put(&mut queue, now, &of(2, 0, rate(800_000, 1)), 0);
        }
        is_held = next(&mut queue, &mut now) != Some(0);
        sent += u32::from(!is_held);
    }
    assert!((50..=52).contains(&sent), "{sent}");
}

/// Goal: a host finds its own bucket again, and never the rate or the bucket of another; after a
/// rebuild its bucket is full. Method: hosts of one set, one of which has such a slow rate that it
/// amounts to one burst, each competing with a host without a rate.
#[test]
fn a_rate_is_left_to_no_other_host() {
    let memory = IsolatedMemory::<Heap>::allocate(8, 8, 1, 1_024).with_rates();
    let mut queue =
        Isolated::new(memory, IsolatedConfig::new(LEN, Limits::NONE)).expect("powers of two");
    // Its burst, and one packet that overdraws it; more is borrowed.
    let slow = rate(1_000, LEN);
    let fill = |queue: &mut Isolated<Heap>, host, terms| {
        (0..10).for_each(|handle| put(queue, 0, &raw(host, host, terms), handle));
        (100..110).for_each(|handle| put(queue, 0, &raw(1, 1, NONE), handle));
    };
    let sent = |queue: &mut Isolated<Heap>| {
        let first = (0..10).filter(|_| take(queue) < 100).count();
        (first, (0..10).filter(|_| take(queue) < 100).count())
    };
    for (host, terms, expected) in [
        (0, slow, (2, 8)),
        (0, slow, (0, 10)),
        (8, NONE, (5, 5)),
        (16, slow, (2, 8)),
        (16, slow, (0, 10)),
    ] {
        fill(&mut queue, host, terms);
        assert_eq!(sent(&mut queue), expected, "{host}");
    }
    fill(&mut queue, 16, slow);
    let labels_of = |packet: Packet| match packet.handle {
        0..100 => raw(16, 16, slow),
        _ => raw(1, 1, NONE),
    };
    for isolation in [Isolation::Flows, Isolation::DualSrcHost] {
        queue.rebuild(isolation, None, labels_of).expect("there is room");
        queue.recount().expect("the books hold");
    }
    assert_eq!(sent(&mut queue), (2, 8));
}

/// Goal: a host with a ceiling that floods every tin receives its ceiling in total, not in each
/// tin, and every tin receives some service. Method: by weight and by rate, with and without one
/// share across tins; alone, and on a busy link competing with a host without a ceiling in each
/// tin.
#[test]
fn a_ceiling_holds_over_all_tins() {
    let bits = 2_000_000;
    for (tins, by_rate) in [3_u8, 4, 8].into_iter().flat_map(|tins| [(tins, false), (tins, true)]) {
        for (across, beside) in [(false, false), (false, true), (true, false), (true, true)] {
            let isolation = if by_rate { Isolation::DualDstHost } else { Isolation::DualSrcHost };
            let mut queue = queue(isolation, tins.into(), by_rate);
            queue.set_hosts_across_tins(across);
            let of_host = (0..tins).map(|tin| of(1, tin, ceiling(bits, 4 * LEN)));
            let rivals = (0..tins).map(|tin| of(2, tin, NONE));
            let senders: Vec<_> = of_host.chain(rivals.filter(|_| beside)).collect();
            let nanos = if beside { 400_000 } else { 0 };
            let (sent, end) = flood(&mut queue, &senders, 500 * MILLI, nanos);
            let ours: u64 = sent[..tins.into()].iter().sum();
            let most = bits * end / 8_000_000_000 + 4;
            let least = if beside { 112 } else { 124 };
            let case = format!("{isolation} {tins} {across} {beside}: {ours} of {sent:?}");
            assert!((least..=most).contains(&ours), "{case}");
            let fair = ours / u64::from(tins);
            assert!(beside || sent.iter().all(|of| of.abs_diff(fair) <= 6), "{case}");
        }
    }
}

/// Goal: competing with conforming hosts, a host receives its committed rate in total, not in each
/// tin.
#[test]
fn a_committed_rate_holds_over_all_tins() {
    let bits = 2_000_000;
    for (tins, by_rate) in [3_u8, 4, 8].into_iter().flat_map(|tins| [(tins, false), (tins, true)]) {
        for across in [false, true] {
            let mut queue = queue(Isolation::DualSrcHost, tins.into(), by_rate);
            queue.set_hosts_across_tins(across);
            let of_host = (0..tins).map(|tin| of(1, tin, rate(bits, 8 * LEN)));
            let senders: Vec<_> = of_host.chain((0..tins).map(|tin| of(2, tin, NONE))).collect();
            let (sent, end) = flood(&mut queue, &senders, 1_000 * MILLI, 400_000);
            let ours: u64 = sent[..tins.into()].iter().sum();
            // At the end four packets per tin are borrowed.
            let most = bits * end / 8_000_000_000 + 9 + 4 * u64::from(tins);
            assert!((225..=most).contains(&ours), "{tins} {by_rate} {across}: {ours} of {sent:?}");
        }
    }
}

/// Goal: a host that moves from tin to tin, idle in between, does not find a full bucket in each.
/// Method: it sends a burst in each of four tins, then in each tin again. A packet takes 8 ms.
#[test]
fn a_bucket_is_kept_from_tin_to_tin() {
    let (mut queue, mut now) = (queue(Isolation::DualSrcHost, 4, false), 1);
    for round in 0..8 {
        (0..2).for_each(|at| {
            put(&mut queue, now, &of(1, round % 4, ceiling(1_000_000, 2 * LEN)), at)
        });
        assert_eq!([0; 2].map(|_| next(&mut queue, &mut now)), [Some(0), Some(1)]);
    }
    assert_eq!(now, 1 + 14 * 8 * MILLI);
}

/// Goal: setting, changing and removing a ceiling under load takes effect in all tins at once, and
/// a larger overhead counts from the next packet on. After a rebuild the bucket is full.
#[test]
fn a_ceiling_acts_in_all_tins_at_once() {
    let mut queue = queue(Isolation::DualSrcHost, 4, true);
    let told = |terms| of(1, 0, terms);
    let mut now = 0;
    for handle in 0..800 {
        put(&mut queue, now, &of(1, handle as u8 % 4, NONE), handle);
    }
    let at = |millis: u64| millis * MILLI;
    // One packet in 8 ms, and one at once; then one in 4 ms.
    assert!(queue.update_host(Nanos(now), &told(ceiling(1_000_000, LEN))));
    assert_eq!(sent_until(&mut queue, &mut now, at(80)), 11);
    assert!(queue.update_host(Nanos(now), &told(ceiling(2_000_000, LEN))));
    assert_eq!(sent_until(&mut queue, &mut now, at(160)), 20);
    // A packet then has 1,250 bytes, which take 5 ms.
    queue.set_overhead(Overhead::new(Framing::None, 250, 0).expect("in range"));
    assert!(queue.update_host(Nanos(now), &told(ceiling(2_000_000, 1))));
    assert_eq!(sent_until(&mut queue, &mut now, at(260)), 20);
    // With another key and other tins, the bucket is full.
    for (tins, from) in [(8, 260), (3, 380)] {
        let labels_of =
            |packet: Packet| of(5, packet.handle as u8 % tins, ceiling(2_000_000, 2_500));
        let shares = vec![TinConfig::by_weight(1); tins.into()];
        let isolation = queue.isolation();
        queue.rebuild(isolation, Some(&shares), labels_of).expect("there is room");
        assert_eq!(sent_until(&mut queue, &mut now, at(from + 20)), 6);
        assert_eq!(sent_until(&mut queue, &mut now, at(from + 120)), 20);
    }
    assert!(queue.update_host(Nanos(now), &of(5, 0, NONE)));
    let left = u64::from(queue.backlog().packets);
    assert_eq!(sent_until(&mut queue, &mut now, at(501)), left);
}

/// Returns hosts of one set, distributed over `tins` tins; the first has a ceiling of 1 Mbit/s, and
/// with `all` so do the others.
fn of_one_set(hosts: usize, tins: u8, all: bool) -> Vec<WithTerms> {
    let in_set = (0..).map(|host| of(host, 0, NONE)).filter(|of| of.labels.src_host & 8 == 0);
    let with_terms = |(at, of): (usize, WithTerms)| {
        let terms = if at == 0 || all { ceiling(1_000_000, LEN) } else { NONE };
        WithTerms { tin: at as u8 % tins, terms, ..of }
    };
    in_set.take(hosts).enumerate().map(with_terms).collect()
}

/// Goal: an idle host keeps the bucket of its ceiling, whatever other hosts use its set in the
/// meantime, with or without ceilings of their own, in one tin or in four. Method: up to twelve
/// other hosts of the set send at 240 Mbit/s as soon as the first is idle; 1 Mbit/s is 25 packets
/// in 200 ms. If the set is full, others share the entry of the first and use up a part.
#[test]
fn a_ceiling_is_not_evaded_by_displacement() {
    for (others, tins, all) in [1, 7, 8, 12]
        .into_iter()
        .flat_map(|n| [(n, 1, false), (n, 1, true), (n, 4, false), (n, 4, true)])
    {
        let hosts = of_one_set(1 + others, tins, all);
        let mut queue = queue(Isolation::DualSrcHost, tins.into(), false);
        let (mut now, mut sent, mut is_held) = (1, 0, vec![false; hosts.len()]);
        while now < 200 * MILLI {
            for part in [0..1, 1..hosts.len()] {
                for at in part.filter(|at| !is_held[*at]).collect::<Vec<_>>() {
                    put(&mut queue, now, &hosts[at], at as u32);
                    is_held[at] = true;
                }
                while let Some(packet) = queue.dequeue(Nanos(now), &mut no_drops) {
                    is_held[packet.handle as usize] = false;
                    sent += u32::from(packet.handle == 0);
                    now += 33_333;
                }
            }
            now += 33_333;
            queue.recount().expect("the books hold");
        }
        let least = if all || others <= 8 { 23 } else { 0 };
        assert!((least..=27).contains(&sent), "{others} others in {tins} tins, {all}: {sent}");
    }
}

/// Goal: the remaining evasion is as large as `SECURITY.md` says: a host whose set is full shares
/// an entry, and with a host without a ceiling it receives half of that host's share, a sixteenth
/// of 30,000 packets.
#[test]
fn a_host_whose_set_is_full_has_the_terms_of_another() {
    let hosts = of_one_set(9, 1, false);
    let (mut queue, mut sent) = (queue(Isolation::DualSrcHost, 1, false), 0);
    (0..18).rev().for_each(|handle| put(&mut queue, 0, &hosts[handle as usize % 9], handle));
    for _ in 0..30_000 {
        let handle = take(&mut queue);
        sent += u32::from(handle.is_multiple_of(9));
        put(&mut queue, 0, &hosts[handle as usize % 9], handle);
    }
    assert!((1_850..=1_900).contains(&sent), "{sent}");
}

/// Goal: the wait reported to an AQM excludes two rounds of the flows of a host at its ceiling, in
/// all tins together; only the wait beyond that counts. Method: CoDel with a target of 100 ms, and
/// three or eight packets queued in each of eight flows of a host; a round of them takes 64 ms.
#[test]
fn an_aqm_is_not_told_of_the_wait_for_a_ceiling() {
    for (depth, is_told) in [(3, false), (8, true)] {
        let (memory, mut drops) = (memory(), 0);
        let states = vec![CoDelState::EMPTY; memory.queues()];
        let mut params = CoDelParams::INTERNET;
        (params.target, params.interval) = (Nanos::from_millis(100), Nanos::from_millis(200));
        let aqm = CoDel::new(states, params).expect("in range");
        let config = IsolatedConfig::new(LEN, Limits::NONE);
        let mut queue = Isolated::with_aqm(memory, aqm, config).expect("powers of two");
        queue.set_tins(&[TinConfig::by_weight(1); 4]).expect("there is room");
        let put = |queue: &mut Isolated<Heap, _>, now, handle| {
            let flow = handle as u8 % 8;
            let of = WithTerms { tin: flow % 4, ..of(1, flow, ceiling(1_000_000, LEN)) };
            let packet = Packet::new(handle, LEN);
            queue.enqueue_labelled(now, &of, packet, &mut no_drops).expect("there is room");
        };
        let mut now = Nanos(0);
        (0..8 * depth).for_each(|handle| put(&mut queue, now, handle));
        while now < Nanos::from_secs(4) {
            now = queue.poll_at(now).expect("more are queued");
            let mut out = Vec::new();
            let sent = queue.dequeue(now, &mut |packet: Packet, _| out.push(packet.handle));
            drops += out.len();
            out.extend(sent.map(|packet| packet.handle));
            out.into_iter().for_each(|handle| put(&mut queue, now, handle));
        }
        assert_eq!(drops > 0, is_told, "{drops} of {depth}");
    }
}

/// Enqueues a packet of `host`, which takes a millisecond at 8 Mbit/s, behind a shaper.
fn put_behind(
    line: &mut Shaped<Isolated<Heap>>,
    now: u64,
    (host, terms): (u32, HostTerms),
    handle: u32,
) {
    let packet = Packet::new(handle, LEN);
    line.enqueue_labelled(Nanos(now), &raw(host, host, terms), packet, &mut no_drops).unwrap();
}

/// Goal: time in which all hosts wait for their ceilings is idle time: no burst follows it for a
/// punctual caller. Method: a host that waits until 8 ms, and one without a ceiling that arrives
/// before that, at that time, or with a caller that is 0.1 ms late, on a link with 10 ms of
/// catch-up.
#[test]
fn time_in_which_hosts_wait_above_their_ceilings_earns_no_burst() {
    for (arrival, late) in [(7_900_000, 0), (8_000_000, 0), (8_100_000, 100_000)] {
        let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
        let queue = queue(Isolation::DualSrcHost, 1, false);
        let mut shaped = Shaped::new(queue, line, Overhead::RAW);
        let slow = (1, ceiling(1_000_000, LEN));
        (0..2).for_each(|handle| put_behind(&mut shaped, 0, slow, handle));
        assert!(shaped.dequeue(Nanos(0), &mut no_drops).is_some());
        assert_eq!(shaped.poll_at(Nanos(0)), Some(Nanos(8 * MILLI)));
        (2..9).for_each(|handle| put_behind(&mut shaped, arrival, (2, NONE), handle));
        // One packet per millisecond, and the lateness of the caller.
        for at in 0..8 {
            let due = Nanos(arrival - late + MILLI * at);
            let now = due.max(Nanos(arrival));
            assert_eq!(shaped.poll_at(now), Some(now));
            assert!(shaped.dequeue(now, &mut no_drops).is_some());
            assert_eq!(shaped.line().due(), due.plus(Nanos(MILLI)));
        }
        assert_eq!(shaped.backlog().packets, 0);
    }
}

/// Goal: a change that makes waiting packets eligible earns no burst. Method: a ceiling is removed
/// while its host waits.
#[test]
fn a_ceiling_that_is_lifted_earns_no_burst() {
    let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
    let mut shaped = Shaped::new(queue(Isolation::DualSrcHost, 1, false), line, Overhead::RAW);
    for handle in 0..4 {
        put_behind(&mut shaped, 0, (1, ceiling(1_000_000, LEN)), handle);
    }
    assert!(shaped.dequeue(Nanos(0), &mut no_drops).is_some());
    let now = Nanos(5 * MILLI);
    assert!(shaped.inner_mut().update_host(now, &raw(1, 1, NONE)));
    assert!(shaped.dequeue(now, &mut no_drops).is_some());
    assert_eq!(shaped.line().due(), now.plus(Nanos(MILLI)));
}
