use super::*;
use crate::test_link::Link;
use crate::{Drr, DrrFlow, LengthFlow, Qfq, QfqConfig, QfqFlow, ShortestQueue, Wf2q, Wf2qFlow};
use conformance::Xorshift;
use std::collections::VecDeque;
use std::string::String;
use std::vec;
use std::vec::Vec;

type OverDrr = HostDrr<Drr<Vec<DrrFlow>>, Vec<HostDrrFlow>, Vec<HostRing>>;

fn drr(flows: usize, quantum: u32) -> Drr<Vec<DrrFlow>> {
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; flows], 100).unwrap();
    drr.add_all(quantum).unwrap();
    drr
}

/// Packets of up to 100 bytes, every flow with a quantum of 100 bytes; `of[flow]` is its host.
fn over<O: FlowScheduler>(scheduler: O, of: &[u32]) -> HostDrr<O, Vec<HostDrrFlow>, Vec<HostRing>> {
    let hosts = scheduler.flows() as usize;
    let (nodes, rings) = (vec![HostDrrFlow::EMPTY; of.len()], vec![HostRing::EMPTY; hosts]);
    let mut scheduler = HostDrr::new(scheduler, nodes, rings, 100).unwrap();
    scheduler.add_all(100).unwrap();
    for (flow, &host) in (0..).zip(of) {
        scheduler.assign(FlowId(flow), host).unwrap();
    }
    scheduler
}

/// Flows by letters, hosts of quantum 100.
struct Letters(Link<OverDrr>);

impl Letters {
    fn of(hosts: usize, of: &[u32]) -> Self {
        Self(Link::over(over(drr(hosts, 100), of), of.len()))
    }

    fn sparse_first(self) -> Self {
        Self(Link { scheduler: self.0.scheduler.sparse_first(), queues: self.0.queues })
    }

    fn put(&mut self, letters: &str, len: u32) {
        for letter in letters.bytes() {
            self.0.enqueue(u32::from(letter - b'a'), len);
            self.0.recount().unwrap();
        }
    }

    fn get(&mut self, count: usize) -> String {
        let mut next = || {
            let sent = self.0.dequeue();
            self.0.recount().unwrap();
            sent.map_or('.', |(flow, _)| char::from(b'a' + flow as u8))
        };
        (0..count).map(|_| next()).collect()
    }

    fn assign(&mut self, letter: char, host: u32) -> Result<(), ConfigError> {
        let assigned = self.0.scheduler.assign(FlowId(letter as u32 - 'a' as u32), host);
        self.0.recount().unwrap();
        assigned
    }
}

#[test]
fn hosts_take_turns_and_inside_each_its_flows() {
    let mut line = Letters::of(2, &[0, 0, 0, 1]);
    line.put("aabbccdddddd", 100);
    assert_eq!(line.get(13), "adbdcdadbdcd.");
}

/// Goal: a host's turn may take in several flows, and a flow's several turns of its host. Method: hosts
/// of quantum 100, flows of quantum 100; a, b send 50 bytes at a time.
#[test]
fn the_quanta_of_the_levels_are_independent() {
    let mut line = Letters::of(2, &[0, 0, 1]);
    line.put("aaaabbbb", 50);
    line.put("cccc", 100);
    assert_eq!(line.get(12), "aacbbcaacbbc");
    let mut line = Letters::of(2, &[0, 0, 1]);
    line.0.scheduler.configure(FlowId(0), 200, None).unwrap();
    line.0.scheduler.configure_host(1, 300).unwrap();
    assert_eq!(
        (line.0.scheduler.host_config(0), line.0.scheduler.host_config(1)),
        (Some(100), Some(300))
    );
    line.put("aaaabbcccccc", 100);
    assert_eq!(line.get(12), "acccacccbaab");
}

/// Goal: debts of both levels are kept while idle. Method: a sends 10 and 100 of a quantum of 100, so
/// both a and its host owe 10; the host's next turn is worth 90, and one packet of 90 ends it.
#[test]
fn debts_are_kept_on_both_levels() {
    let mut line = Letters::of(2, &[0, 0, 1]);
    line.put("a", 10);
    line.put("a", 100);
    assert_eq!(line.get(2), "aa");
    line.put("aa", 90);
    line.put("bb", 90);
    line.put("cc", 100);
    // Host 0 has 90: a, and a's turn is over with it. Then 100 and 10: b, b's turn has 10 left: b.
    assert_eq!(line.get(6), "acbbca");
}

/// Goal: an idle flow that changes its host comes without debt, and one that keeps it with.
/// Method: as above; a's own quantum decides, the only host being that of b as well.
#[test]
fn a_flow_that_changes_its_host_is_as_if_just_added() {
    for (moves, expected) in [(false, "aba"), (true, "aab")] {
        let mut line = Letters::of(2, &[0, 1]);
        line.0.scheduler.configure_host(1, 1_000).unwrap();
        line.0.scheduler.configure_host(0, 1_000).unwrap();
        if !moves {
            line.assign('a', 1).unwrap();
        }
        line.put("a", 10);
        line.put("a", 100);
        assert_eq!(line.get(2), "aa", "10 in debt");
        line.assign('a', 1).unwrap();
        line.assign('a', 1).unwrap();
        line.put("a", 95);
        line.put("a", 100);
        line.put("b", 100);
        assert_eq!(line.get(3), expected, "moves: {moves}");
    }
}

#[test]
fn a_backlogged_flow_keeps_its_host() {
    let mut line = Letters::of(2, &[0, 0, 1]);
    line.put("abc", 100);
    let backlogged = Err(ConfigError::Backlogged { flow: FlowId(0) });
    assert_eq!((line.assign('a', 1), line.assign('a', 0)), (backlogged, backlogged));
    let scheduler = &line.0.scheduler;
    assert_eq!(
        (scheduler.host_of(FlowId(0)), scheduler.flows_of(0), scheduler.flows_of(1)),
        (Some(0), 2, 1)
    );
    assert_eq!(line.get(1), "a");
    assert_eq!(line.assign('a', 1), Ok(()));
    line.put("ab", 100);
    let scheduler = &line.0.scheduler;
    assert_eq!(
        (scheduler.host_of(FlowId(0)), scheduler.flows_of(0), scheduler.flows_of(1)),
        (Some(1), 1, 2)
    );
    assert_eq!(
        (scheduler.host_of(FlowId(3)), scheduler.flows_of(2), scheduler.hosts()),
        (None, 0, 2)
    );
    assert_eq!(line.get(5), "cbab.");
}

#[test]
fn what_is_out_of_range_is_refused_and_changes_nothing() {
    for len in [0, Packet::MAX_LEN + 1] {
        let refused = HostDrr::new(drr(1, 100), [HostDrrFlow::EMPTY; 1], [HostRing::EMPTY; 1], len);
        assert!(matches!(refused, Err(ConfigError::OutOfRange { min: 1, .. })));
    }
    let wf2q = Wf2q::new([Wf2qFlow::EMPTY; 2], 100).unwrap();
    let refused = HostDrr::new(wf2q, [HostDrrFlow::EMPTY; 2], [HostRing::EMPTY; 2], 100);
    assert_eq!(refused.map(drop), Err(ConfigError::LooksAhead));

    let mut line = Letters::of(2, &[0, 1]);
    line.put("ab", 100);
    let before = line.0.scheduler.clone();
    let scheduler = &mut line.0.scheduler;
    let (flow, range) = (FlowId(2), |value| ConfigError::OutOfRange {
        what: "quantum in bytes",
        value,
        min: 100,
        max: 1 << 28,
    });
    let unknown = ConfigError::UnknownFlow { flow, flows: 2 };
    assert_eq!(scheduler.assign(flow, 0), Err(unknown));
    assert_eq!(scheduler.configure(flow, 100, None), Err(unknown));
    let unknown = ConfigError::UnknownHost { host: 2, hosts: 2 };
    assert_eq!(scheduler.assign(FlowId(0), 2), Err(unknown));
    assert_eq!(scheduler.configure_host(2, 100), Err(unknown));
    let unknown = ConfigError::UnknownHost { host: u32::MAX, hosts: 2 };
    assert_eq!(scheduler.configure_host(u32::MAX, 100), Err(unknown));
    assert_eq!(scheduler.configure(FlowId(0), 99, None), Err(range(99)));
    assert_eq!(scheduler.add_all((1 << 28) + 1), Err(range((1 << 28) + 1)));
    assert_eq!(scheduler.configure_host(0, 99), Err(range(99)));
    assert_eq!(scheduler.host_config(2), None);
    assert_eq!(*scheduler, before);
}

/// Hosts that are not in the flow scheduler of hosts: too few rings, or not added.
#[test]
fn a_flow_of_a_host_that_was_not_added_takes_no_packets() {
    let of_hosts = Drr::new([DrrFlow::EMPTY; 3], 60).unwrap();
    let (nodes, rings) = ([HostDrrFlow::EMPTY; 2], [HostRing::EMPTY; 2]);
    let mut scheduler = HostDrr::new(of_hosts, nodes, rings, 100).unwrap();
    scheduler.add_all(100).unwrap();
    scheduler.assign(FlowId(1), 1).unwrap();
    scheduler.configure_host(1, 100).unwrap();
    assert_eq!(scheduler.hosts(), 2);
    assert_eq!(scheduler.assign(FlowId(0), 2), Err(ConfigError::UnknownHost { host: 2, hosts: 2 }));
    assert_eq!((scheduler.max_len(FlowId(0)), scheduler.max_len(FlowId(1))), (None, Some(60)));
    assert_eq!(scheduler.needs().common_max_len, 60);
    let before = scheduler;
    scheduler.backlogged(FlowId(0), 10);
    assert_eq!((scheduler, scheduler.select()), (before, None));
    scheduler.backlogged(FlowId(1), 10);
    assert_eq!(scheduler.select(), Some(FlowId(1)));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut line = Letters::of(3, &[0, 0, 1, 2]).sparse_first();
    line.put("aabc", 100);
    assert_eq!(line.get(1), "a");
    let scheduler = &mut line.0.scheduler;
    let before = scheduler.clone();
    for flow in [3, 4, u32::MAX] {
        scheduler.served(FlowId(flow), 100, Some(100));
        scheduler.served(FlowId(flow), 100, None);
        scheduler.lost(FlowId(flow), 100, Some(100));
        scheduler.lost(FlowId(flow), 100, None);
        scheduler.grew(FlowId(flow), 100);
    }
    for flow in [0, 1, 2, 4, u32::MAX] {
        scheduler.backlogged(FlowId(flow), 100);
    }
    scheduler.served(FlowId(0), 100, None); // c is selected
    scheduler.served(FlowId(1), 100, Some(1));
    scheduler.remove(FlowId(4));
    assert_eq!(*scheduler, before);
}

#[test]
fn a_removed_flow_takes_its_host_with_it_if_it_was_the_last() {
    let mut line = Letters::of(2, &[0, 0, 1]);
    line.put("abcabc", 100);
    line.0.remove(0);
    line.0.recount().unwrap();
    assert_eq!(line.0.scheduler.config(FlowId(0)), None);
    assert_eq!(line.get(1), "b");
    line.0.remove(2);
    line.0.remove(2);
    line.0.recount().unwrap();
    assert_eq!(line.0.scheduler.host_of(FlowId(2)), Some(0), "no call has assigned it");
    assert_eq!(line.get(2), "b.");
}

/// Goal: a new flow overtakes flows of its own host, and of no other.
#[test]
fn sparse_flows_are_first_in_their_host() {
    let mut line = Letters::of(2, &[0, 0, 1]).sparse_first();
    line.put("aaaaacccc", 100);
    assert_eq!(line.get(2), "ac");
    line.put("b", 100);
    assert_eq!(line.get(4), "bcac");
}

/// Goal: with sparse hosts first too, a new host overtakes those that stand, and its flows are in the
/// order of their own ring.
#[test]
fn sparse_hosts_and_flows_first_on_both_levels() {
    let of_hosts = drr(3, 100).sparse_first();
    let scheduler = over(of_hosts, &[0, 0, 1, 2]).sparse_first();
    let mut line = Letters(Link::over(scheduler, 4));
    line.put("aaaaacccc", 100);
    assert_eq!(line.get(2), "ac", "both hosts stand");
    line.put("bdd", 100);
    assert_eq!(line.get(7), "dbcdaca", "host 2 is new; b is in host 0, where a stands");
}

/// Goal: what one host opens does not change what another gets. Method: a flood of 500 flows of host 0
/// beside one flow of host 1: it is served every other time, as beside a single flow.
#[test]
fn a_flood_of_one_host_leaves_the_others_their_turns() {
    for flood in [1, 500] {
        let mut of = vec![0; flood + 1];
        of[flood] = 1;
        let victim = flood as u32;
        let mut link = Link::over(over(drr(2, 100), &of), flood + 1);
        (0..victim).for_each(|flow| (0..3).for_each(|_| link.enqueue(flow, 100)));
        (0..100).for_each(|_| link.enqueue(victim, 100));
        assert_eq!((link.scheduler.flows_of(0), link.scheduler.flows_of(1)), (flood as u32, 1));
        let sent = if flood == 1 { 6 } else { 200 };
        let of_victim = (0..sent).filter(|_| link.dequeue().unwrap().0 == victim).count();
        assert_eq!(of_victim, sent / 2, "{flood} flows");
        link.recount().unwrap();
    }
}

/// Goal: hosts over hosts are a flow scheduler too. Method: two subscribers, the first with two hosts of which
/// one has two flows; turns of 100 bytes everywhere.
#[test]
fn levels_nest() {
    let subscribers = over(drr(2, 100), &[0, 0, 1]);
    let mut link = Link::over(over(subscribers, &[0, 0, 1, 2]), 4);
    for flow in (0..4).cycle().take(32) {
        link.enqueue(flow, 100);
    }
    let sent: Vec<u32> = (0..8).map(|_| link.dequeue().unwrap().0).collect();
    assert_eq!(sent, [0, 3, 2, 3, 1, 3, 2, 3]);
    link.recount().unwrap();
}

/// Goal: the flow scheduler of hosts hears of every byte, once. Method: shortest queue first counts them,
/// and its recount compares them with what the flows of each host hold.
#[test]
fn the_flow_scheduler_of_hosts_is_told_of_every_byte() {
    let mut shortest = ShortestQueue::new(vec![LengthFlow::EMPTY; 3]);
    for host in 0..3 {
        shortest.configure(FlowId(host), (), None).unwrap();
    }
    let mut link = Link::over(over(shortest, &[0, 0, 1, 1, 2]), 5);
    let mut random = Xorshift::new(3);
    for operation in 0..2_000_u32 {
        let flow = random.below(5);
        match random.below(8) {
            0 => link.lose(flow, operation & 1 == 0),
            choice if (choice < 5) == (operation >> 6 & 1 == 0) => {
                link.enqueue(flow, 1 + random.below(100));
            }
            _ => drop(link.dequeue()),
        }
        link.recount().unwrap();
    }
}

#[test]
fn the_first_flows_of_the_next_hosts_are_upcoming() {
    let mut line = Letters::of(3, &[0, 0, 1, 2]);
    line.put("aabbccdd", 100);
    assert_eq!(line.get(1), "a");
    let mut ahead = [FlowId(9); 8];
    assert_eq!(line.0.scheduler.upcoming(&mut ahead), 3);
    assert_eq!(ahead[..3], [FlowId(2), FlowId(3), FlowId(1)]);
    assert_eq!(line.0.scheduler.upcoming(&mut []), 0);
}

/// Goal: `recount` sees every kind of damage. Method: break one field at a time.
#[test]
fn a_recount_sees_damage() {
    let mut line = Letters::of(3, &[0, 0, 1, 1]).sparse_first();
    line.put("aabbcc", 100);
    assert_eq!(line.get(1), "a");
    let good = line.0.scheduler.clone();
    let damages: [fn(&mut OverDrr); 9] = [
        |d| d.nodes[0].host = 1,
        |d| d.nodes[3].host = 3,
        |d| d.hosts[0].flows = 1,
        |d| d.hosts[0] = HostRing::EMPTY,
        |d| d.hosts.swap(0, 1),
        |d| d.hosts[2] = d.hosts[1],
        |d| d.nodes[0].flow = d.nodes[3].flow,
        |d| d.scheduler.lost(FlowId(0), 100, None),
        |d| d.scheduler.backlogged(FlowId(2), 100),
    ];
    for (at, damage) in damages.iter().enumerate() {
        line.0.scheduler = good.clone();
        line.0.recount().unwrap();
        damage(&mut line.0.scheduler);
        assert!(line.0.recount().is_err(), "damage {at}");
    }
}

#[test]
fn a_flow_is_twenty_four_bytes_and_a_host_sixteen() {
    assert_eq!((size_of::<HostDrrFlow>(), size_of::<HostRing>()), (24, 16));
}

/// Goal: the promise inside a host is that of a `Drr` of its flows, and composes with the host's.
#[test]
fn a_host_promises_what_a_drr_of_its_flows_does() {
    let mut scheduler = over(drr(3, 200), &[0, 1, 0, 0]);
    scheduler.configure(FlowId(2), 250, None).unwrap();
    scheduler.remove(FlowId(3));
    let mut alone = Drr::new([DrrFlow::EMPTY; 2], 100).unwrap();
    alone.configure(FlowId(0), 100, None).unwrap();
    alone.configure(FlowId(1), 250, None).unwrap();
    assert_eq!(scheduler.guarantee_in_host(FlowId(0)), alone.guarantee(FlowId(0)));
    assert_eq!(scheduler.guarantee_in_host(FlowId(2)), alone.guarantee(FlowId(1)));
    assert_eq!(scheduler.guarantee_in_host(FlowId(3)), None);
    let (flow, host) =
        (scheduler.guarantee_in_host(FlowId(0)), scheduler.scheduler().guarantee(FlowId(0)));
    let whole = flow.unwrap().in_class(&host.unwrap()).unwrap();
    assert_eq!((whole.share.numerator(), whole.share.denominator()), (100 * 200, 350 * 600));
    let (scheduler, alone) = (scheduler.sparse_first(), alone.sparse_first());
    assert_eq!(scheduler.guarantee_in_host(FlowId(0)), alone.guarantee(FlowId(0)));
    assert!(scheduler.guarantee_in_host(FlowId(0)) != flow);
}

mod composed;
mod promises;
