//! What the module promises, under floods.

use super::*;

/// Goal: the wait of a packet that finds its host idle is never above the bound, and reaches it.
/// Method: `(H − 1)(Q + L̄)` bytes of others are the most that leave before; three hosts each send 99
/// and 100 bytes in a turn of 100, the most there is. Then random floods of many flows.
#[test]
fn a_packet_of_an_idle_host_waits_for_one_turn_of_each_other_host() {
    let mut line = Letters::of(4, &[0, 1, 2, 3]);
    for letter in ["a", "b", "c"] {
        for len in [99, 100, 100] {
            line.put(letter, len);
        }
    }
    line.put("d", 100);
    assert_eq!(line.get(7), "aabbccd", "3 · (100 + 99) bytes before d");

    let mut random = Xorshift::new(7);
    for _ in 0..200 {
        let (hosts, flows) = (2 + random.below(5), 200);
        let quantum = 100 + random.magnitude(9);
        let (victim, last) = (flows - 1, hosts - 1);
        let mut of: Vec<u32> = (0..flows).map(|_| random.below(last)).collect();
        of[victim as usize] = last;
        let mut scheduler = over(drr(hosts as usize, quantum), &of);
        if random.below(2) == 0 {
            scheduler = scheduler.sparse_first();
        }
        let mut link = Link::over(scheduler, flows as usize);
        let bound = (hosts - 1) * (quantum + 99);
        for _ in 0..20 {
            for _ in 0..random.below(300) {
                link.enqueue(random.below(victim), 1 + random.below(100));
            }
            for _ in 0..random.below(100) {
                link.dequeue();
            }
            link.enqueue(victim, 1 + random.below(100));
            let mut waited = 0;
            loop {
                let (flow, len) = link.dequeue().unwrap();
                if flow == victim {
                    break;
                }
                waited += len;
                // The hosts that flood go on.
                link.enqueue(random.below(victim), 1 + random.below(100));
            }
            assert!(waited <= bound, "{waited} of {bound}");
            link.recount().unwrap();
        }
    }
}

/// Goal: in a host that stands, a flow that is sparse in it waits as long at most. Method: as above, but
/// another flow of the host always stands, and long enough passes for the sparse one to be new again.
#[test]
fn a_sparse_flow_of_a_standing_host_waits_no_longer() {
    let mut random = Xorshift::new(9);
    let (hosts, flows) = (4, 100_u32);
    let (sparse, standing) = (flows - 1, flows - 2);
    let mut of: Vec<u32> = (0..flows).map(|_| random.below(hosts - 1)).collect();
    of[sparse as usize] = hosts - 1;
    of[standing as usize] = hosts - 1;
    let mut link = Link::over(over(drr(hosts as usize, 150), &of).sparse_first(), flows as usize);
    let bound = (hosts - 1) * (150 + 99);
    (0..flows).for_each(|flow| (0..5).for_each(|_| link.enqueue(flow, 100)));
    for _ in 0..1_000 {
        // The standing flow has had a turn since, so the other is new.
        let mut of_standing = 0;
        while of_standing < 300 || !link.queues[sparse as usize].is_empty() {
            let (flow, len) = link.dequeue().unwrap();
            of_standing += if flow == standing { len } else { 0 };
            let next = if flow == standing { standing } else { random.below(standing) };
            link.enqueue(next, 1 + random.below(100));
            if flow != standing && link.queues[standing as usize].len() < 3 {
                link.enqueue(standing, 100);
            }
        }
        link.enqueue(sparse, 1 + random.below(100));
        let mut waited = 0;
        while let Some((flow, len)) = link.dequeue()
            && flow != sparse
        {
            waited += len;
            link.enqueue(flow, 1 + random.below(100));
        }
        assert!(waited <= bound, "{waited} of {bound}");
    }
    link.recount().unwrap();
}

/// Goal: over every interval of `50·((H − 1)(Q + 2L̄) + L)` bytes or a little more a host that stands
/// gets 0.98 of its share. Method: the others come and go with many flows; all intervals of that length
/// that begin with a packet.
#[test]
fn a_standing_host_gets_its_share() {
    let mut random = Xorshift::new(11);
    for hosts in [2_u32, 5] {
        let flows = 120_u32;
        let victim = flows - 1;
        let mut of: Vec<u32> = (0..flows).map(|_| random.below(hosts - 1)).collect();
        of[victim as usize] = hosts - 1;
        let mut link = Link::over(over(drr(hosts as usize, 100), &of), flows as usize);
        let least = u64::from(50 * ((hosts - 1) * (100 + 2 * 99) + 100));
        let (mut window, mut all, mut own) = (VecDeque::new(), 0_u64, 0_u64);
        let mut checked = 0;
        (0..victim).for_each(|flow| link.enqueue(flow, 100));
        for _ in 0..40_000 {
            while link.queues[victim as usize].len() < 2 {
                link.enqueue(victim, 1 + random.below(100));
            }
            let (flow, len) = link.dequeue().unwrap();
            if link.queues.iter().take(victim as usize).filter(|queue| !queue.is_empty()).count()
                < 60
            {
                (0..3).for_each(|_| link.enqueue(random.below(victim), 1 + random.below(100)));
            }
            window.push_back((flow, len));
            all += u64::from(len);
            own += if flow == victim { u64::from(len) } else { 0 };
            while all - u64::from(window[0].1) >= least {
                let (flow, len) = window.pop_front().unwrap();
                all -= u64::from(len);
                own -= if flow == victim { u64::from(len) } else { 0 };
            }
            if all >= least {
                assert!(100 * own * u64::from(hosts) >= 98 * all, "{own} of {all}, {hosts} hosts");
                checked += 1;
            }
        }
        assert!(checked > 10_000, "{checked}");
    }
}

/// Goal: with sparse hosts first, hosts that stand cost a host that sends less than its share nothing, however
/// many flows they open. Method: 12 hosts of 20 flows each stand; the other sends 10 bytes after each third packet.
#[test]
fn a_sparse_host_waits_for_no_host_that_stands() {
    let mut of: Vec<u32> = (0..240).map(|flow| flow % 12).collect();
    of.push(12);
    let scheduler = over(drr(13, 100).sparse_first(), &of).sparse_first();
    let mut link = Link::over(scheduler, 241);
    (0..240).for_each(|flow| (0..10).for_each(|_| link.enqueue(flow, 100)));
    (0..24).for_each(|_| assert!(link.dequeue().is_some()));
    for packet in 0..200 {
        link.enqueue(240, 10);
        assert_eq!(link.dequeue(), Some((240, 10)), "packet {packet}");
        for _ in 0..3 {
            let (flow, _) = link.dequeue().unwrap();
            link.enqueue(flow, 100);
        }
        link.recount().unwrap();
    }
}

/// Goal: with sparse hosts first, a host that keeps emptying and returning has one turn a round. Beyond that it gains
/// at most two quanta and a packet less one byte, once. Method: host 1 sends through any of its ten flows, and loses
/// a packet now and then. Host 0 stands, and each of its packets is a turn; two more hosts come and go. A host that
/// had a turn on each list would get twice its share by sending a packet of a quantum whenever it holds none.
#[test]
fn a_host_that_keeps_returning_has_a_turn_a_round() {
    for way in 0..4 {
        let of: Vec<u32> = (0..40).map(|flow| flow / 10).collect();
        let scheduler = over(drr(4, 100).sparse_first(), &of).sparse_first();
        let (mut link, mut random) = (Link::over(scheduler, 40), Xorshift::new(3));
        let (mut turns, mut bytes, mut ahead, mut least, mut most) = (0_u32, 0_u64, 0_i64, 0, 0);
        while turns < 10_000 {
            while link.queues[0].len() < 2 {
                link.enqueue(0, 100);
            }
            for host in [2, 3] {
                if link.scheduler.flows_of(host) < 3 {
                    link.enqueue(10 * host + random.below(10), 1 + random.below(100));
                }
            }
            let flow = 10 + random.below(10);
            match (way, link.scheduler.flows_of(1)) {
                (0, 0) => link.enqueue(flow, 100),
                (1, 0) => link.enqueue(flow, 99),
                (2, 0) => link.enqueue(flow, 1 + random.below(100)),
                (3, held) if held == 0 || random.below(50) > 0 => {
                    link.enqueue(flow, 1 + random.below(100));
                }
                _ => {}
            }
            let (flow, len) = link.dequeue().unwrap();
            match link.scheduler.host_of(FlowId(flow)) {
                Some(0) => (turns, ahead) = (turns + 1, ahead - 100),
                Some(1) => (bytes, ahead) = (bytes + u64::from(len), ahead + i64::from(len)),
                _ => {}
            }
            least = ahead.min(least);
            most = most.max(ahead - least);
            if random.below(40) == 0 {
                link.lose(10 + random.below(10), true);
                link.recount().unwrap();
            }
        }
        assert!(most <= 299, "way {way}: {most}");
        assert!(bytes <= 1_000_299, "way {way}: {bytes} in 10,000 turns of 100");
        assert!(way != 0 || bytes >= 990_000, "it has its share: {bytes}");
    }
}
