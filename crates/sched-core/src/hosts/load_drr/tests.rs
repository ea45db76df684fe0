use super::hosts::SAVED_UP;
use super::*;
use crate::Packet;
use crate::test_link::Link;
use conformance::Xorshift;
use core::cell::Cell;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

/// Memory that counts how often it is looked at.
#[derive(Debug, Clone)]
struct Counting<T> {
    cells: Vec<T>,
    looks: Cell<u32>,
}

impl<T: Clone> Counting<T> {
    fn of(len: usize, empty: T) -> Self {
        Self { cells: vec![empty; len], looks: Cell::new(0) }
    }
}

impl<T> AsRef<[T]> for Counting<T> {
    fn as_ref(&self) -> &[T] {
        self.looks.set(self.looks.get() + 1);
        &self.cells
    }
}

impl<T> AsMut<[T]> for Counting<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self.looks.set(self.looks.get() + 1);
        &mut self.cells
    }
}

type InVec = LoadDrr<Vec<LoadDrrFlow>, Vec<LoadDrrHost>, Vec<LoadDrrHost>, Vec<RoundList>>;

const MAX_LEN: u32 = 100;

/// Flows of the source and destination hosts named, with a quantum of `MAX_LEN`.
fn rounds(hosts: &[(u32, u32)], calendar: usize) -> InVec {
    let sides = || vec![LoadDrrHost::EMPTY; 8];
    let nodes = vec![LoadDrrFlow::EMPTY; hosts.len()];
    let lists = vec![RoundList::EMPTY; calendar];
    let mut rounds = LoadDrr::new(nodes, sides(), sides(), lists, MAX_LEN).unwrap();
    rounds.add_all(MAX_LEN).unwrap();
    for (flow, &(source, destination)) in (0..).zip(hosts) {
        rounds.assign(FlowId(flow), source, destination).unwrap();
    }
    rounds
}

/// Takes from all hosts the early turns that they have saved up.
fn spend(scheduler: &mut InVec) {
    let before = scheduler.tins[0].round.wrapping_sub(1);
    for host in 0..8 {
        scheduler.sources.use_early_turn(host, before);
        scheduler.destinations.use_early_turn(host, before);
    }
}

/// Gives one packet of `len` bytes to each flow named: `a` is flow 0.
fn put(link: &mut Link<InVec>, letters: &str, len: u32) {
    for letter in letters.bytes() {
        link.enqueue((letter - b'a').into(), len);
        link.recount().unwrap();
    }
}

/// The flows that are served next, `count` of them; `.` where no flow is.
fn get(link: &mut Link<InVec>, count: usize) -> String {
    let next = |_| {
        let served = link.dequeue();
        link.recount().unwrap();
        served.map_or('.', |(flow, _)| char::from(b'a' + flow as u8))
    };
    (0..count).map(next).collect()
}

/// The bytes that each flow sends, of `packets` packets of these lengths, while all flows are backlogged.
fn sent(mut scheduler: InVec, packets: u32, len: &mut dyn FnMut() -> u32) -> Vec<u64> {
    let mut sent = vec![0_u64; scheduler.flows() as usize];
    for flow in 0..scheduler.flows() {
        scheduler.backlogged(FlowId(flow), 1);
    }
    for _ in 0..packets {
        let (flow, len) = (scheduler.select().unwrap(), len());
        scheduler.served(flow, len, Some(1));
        sent[flow.index()] += u64::from(len);
    }
    sent
}

/// Whether `sent` is in the ratio of `shares`, within one hundredth of each.
#[track_caller]
fn check_shares(sent: &[u64], shares: &[u64]) {
    let (sum, whole) = (sent.iter().sum::<u64>(), shares.iter().sum::<u64>());
    for (flow, (bytes, share)) in sent.iter().zip(shares).enumerate() {
        let (got, due) = (bytes * whole, sum * share);
        assert!(100 * got.abs_diff(due) <= due, "flow {flow}: {got} of {due}");
    }
}

/// CAKE Fig. 3: a1 -> A, B, C, C; b -> C, D.
const FIG_3: [(u32, u32); 6] = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];

/// Goal: the shares of CAKE Fig. 3 in all four modes. Method: a saturated link, packets of one length
/// and of all lengths; within 1 %.
#[test]
fn the_shares_are_those_of_cake() {
    let modes = [
        (Sides::Neither, [1, 1, 1, 1, 1, 1]),
        (Sides::Source, [1, 1, 1, 1, 2, 2]),
        (Sides::Destination, [3, 3, 1, 1, 1, 3]),
        // Quanta of 1/4 four times, 1/3 and 1/2: .1364, .1364, .1364, .1364, .1818, .2727.
        (Sides::Both, [3, 3, 3, 3, 4, 6]),
    ];
    for (mode, shares) in modes {
        for sparse_first in [false, true] {
            let mut random = Xorshift::new(3);
            let lengths: [&mut dyn FnMut() -> u32; 2] =
                [&mut || MAX_LEN, &mut || 1 + random.below(MAX_LEN)];
            for len in lengths {
                let mut scheduler = rounds(&FIG_3, 8);
                scheduler.set_mode(mode);
                scheduler.sparse_first = sparse_first;
                check_shares(&sent(scheduler, 100_000, len), &shares);
            }
        }
    }
}

/// Goal: backlogged hosts send the same, however many flows they have. Method: 100 flows against one,
/// where the source counts, in a calendar that is long enough.
#[test]
fn a_host_gains_nothing_by_opening_flows() {
    let mut hosts = [(0, 0); 101];
    hosts[100] = (1, 0);
    let mut scheduler = rounds(&hosts, 128);
    scheduler.set_mode(Sides::Source);
    let mut shares = [1; 101];
    shares[100] = 100;
    check_shares(&sent(scheduler, 100_000, &mut || MAX_LEN), &shares);
}

/// Goal: siblings are one host in the loads of their flows, on the side where they are siblings, and hosts by themselves again
/// when they part. Method: hosts 0 and 1 have two flows and one, host 2 one; then the ends of the range.
#[test]
fn siblings_divide_one_share_among_their_flows() {
    let shares_are = |join: fn(&mut InVec), shares: [u64; 4]| {
        let mut scheduler = rounds(&[(0, 0), (0, 0), (1, 0), (2, 0)], 16);
        scheduler.set_mode(Sides::Source);
        join(&mut scheduler);
        check_shares(&sent(scheduler, 100_000, &mut || MAX_LEN), &shares);
    };
    shares_are(|_| (), [1, 1, 2, 2]);
    shares_are(|r| r.join(Side::Source, 1, 0), [1, 1, 1, 3]);
    shares_are(|r| r.join(Side::Destination, 1, 0), [1, 1, 2, 2]);
    shares_are(
        |r| {
            r.join(Side::Source, 1, 0);
            r.join(Side::Source, 2, 1);
        },
        [1; 4],
    );
    shares_are(
        |r| {
            r.join(Side::Source, 1, 0);
            r.part(Side::Source, 0);
        },
        [1, 1, 2, 2],
    );
    shares_are(
        |r| {
            r.join(Side::Source, 2, 0);
            r.part_all();
            r.join(Side::Source, 8, 0);
            r.join(Side::Source, 0, 8);
            r.join(Side::Source, 0, 0);
        },
        [1, 1, 2, 2],
    );
}

/// Goal: beyond the calendar a load counts as its length less one. Method: 20 flows against one in a
/// calendar of 8 rounds: the turns of the 20 are 7 rounds apart.
#[test]
fn a_load_counts_as_at_most_the_calendar_less_one() {
    let mut hosts = [(0, 0); 21];
    hosts[20] = (1, 0);
    let mut shares = [1; 21];
    shares[20] = 7;
    for length in [8, 15] {
        let mut scheduler = rounds(&hosts, length);
        scheduler.set_mode(Sides::Source);
        check_shares(&sent(scheduler, 100_000, &mut || MAX_LEN), &shares);
    }
}

#[test]
fn a_flow_of_a_shared_host_has_a_turn_every_other_round() {
    // a and b share a source; c is alone.
    let mut link = Link::over(rounds(&[(0, 0), (0, 1), (1, 2)], 4), 3);
    put(&mut link, "aaaabbbb", 100);
    put(&mut link, "cccccccc", 100);
    // a came when it was alone: in round 1. b: in round 2. c: in round 1, and then in every round.
    assert_eq!(get(&mut link, 16), "acbcacbcacbcacbc");
}

/// Goal: a turn that is placed keeps its place when the mode changes, and the next one follows the new
/// mode. Method: a and b share a source host; c does not. All modes before and after, by hand.
#[test]
fn a_new_mode_counts_from_the_next_turn() {
    let started = |mode| {
        let mut link = Link::over(rounds(&[(0, 0), (0, 1), (1, 2)], 8), 3);
        link.scheduler.set_mode(mode);
        put(&mut link, "abcaaaabbbbcccccccc", 100);
        link
    };
    let mut link = started(Sides::Source);
    assert_eq!(get(&mut link, 2), "ac", "round 1: a and c");
    link.scheduler.set_mode(Sides::Neither);
    link.recount().unwrap();
    // a waits in round 3, b and behind it c in 2; then c has a turn in 3 behind a, and so has b.
    assert_eq!(get(&mut link, 9), "bcabcabca");
    link.scheduler.set_mode(Sides::Both);
    link.recount().unwrap();
    // b and c are in this round still, a in the next; from now on those of a and b are two apart.
    assert_eq!(get(&mut link, 8), "bcacbccc", "a and b send their last");
    assert_eq!(link.queues.iter().map(|queue| queue.len()).sum::<usize>(), 0);

    let mut link = started(Sides::Neither);
    assert_eq!(get(&mut link, 3), "abc");
    link.scheduler.set_mode(Sides::Source);
    // All three have a turn in round 2; then a and b in 4, c in every round.
    assert_eq!(get(&mut link, 9), "abccabcca");
}

/// Goal: emptying a queue does not bring the next turn closer. Method: a and b share a host, a sends its
/// only packet in round 1 and would have its next turn in round 3; b leaves, so that the load is 1.
#[test]
fn a_flow_that_empties_waits_as_long_as_one_that_stays() {
    let mut link = Link::over(rounds(&[(0, 0), (0, 0), (1, 1)], 8), 3);
    put(&mut link, "abcccccc", 100);
    assert_eq!(get(&mut link, 1), "a");
    link.lose(1, true);
    link.recount().unwrap();
    put(&mut link, "aa", 100);
    // c has turns in rounds 1, 2, 3 and so on, a in 3 and 4.
    assert_eq!(get(&mut link, 7), "ccacacc");
}

#[test]
fn a_debt_is_paid_back_in_later_turns() {
    let mut link = Link::over(rounds(&[(0, 0), (1, 1)], 4), 2);
    put(&mut link, "aaaaaaaaaaaa", 70);
    put(&mut link, "bbbbbb", 100);
    // The turns of a, its deficit at their start: 100 | 60 | 90 | 50 | 80 | 40, as in DRR.
    assert_eq!(get(&mut link, 14), "aababaababaaba");

    for (before, expected) in [(10, "abaab"), (0, "aabab")] {
        let mut link = Link::over(rounds(&[(0, 0), (1, 1)], 4), 2);
        if before > 0 {
            put(&mut link, "a", before);
        }
        put(&mut link, "a", 100);
        assert_eq!(get(&mut link, if before > 0 { 2 } else { 1 }).trim_matches('a'), "");
        put(&mut link, "aa", 90);
        put(&mut link, "a", 10);
        put(&mut link, "bb", 100);
        assert_eq!(get(&mut link, 5), expected, "debt {before}: it outlives the queue");
    }
}

/// Goal: to lose the last packet pays no debt, makes none, and makes no flow sparse. Method: what a owes and
/// when it is sparse, after losses before its turn, in it and behind it.
#[test]
fn a_loss_leaves_debt_and_due_as_they_were() {
    let mut link = Link::over(rounds(&[(0, 0), (1, 1)], 4), 2);
    let state = |link: &Link<InVec>| (link.scheduler.nodes[0].charged, link.scheduler.nodes[0].due);
    let lose = |link: &mut Link<InVec>| {
        link.lose(0, true);
        link.recount().unwrap();
    };
    put(&mut link, "a", 10);
    put(&mut link, "a", 100);
    assert_eq!((get(&mut link, 2).as_str(), state(&link)), ("aa", (10, 2)));
    put(&mut link, "a", 100);
    lose(&mut link);
    assert_eq!(state(&link), (10, 2), "its turn had not come");
    put(&mut link, "aa", 50);
    assert_eq!(get(&mut link, 1), "a");
    assert_eq!(state(&link), (60, 2), "10 owed, and 50 sent");
    lose(&mut link);
    assert_eq!(state(&link), (60, 3), "the turn may go on until the next one is due");
    put(&mut link, "aaa", 70);
    // Where nothing is served out of turn, what was left of the turn is gone, and no debt.
    assert_eq!(state(&link), (0, 3));
    assert_eq!((get(&mut link, 2).as_str(), state(&link)), ("aa", (40, 4)));
    lose(&mut link);
    assert_eq!(state(&link), (40, 4), "served since it came: no other turn before round 4");
}

fn sparse(hosts: &[(u32, u32)]) -> Link<InVec> {
    Link::over(rounds(hosts, 8).sparse_first(), hosts.len())
}

#[test]
fn a_sparse_flow_goes_first_and_then_takes_turns() {
    let mut link = sparse(&[(0, 0), (1, 1), (2, 2)]);
    put(&mut link, "aaaaaa", 100);
    assert_eq!(get(&mut link, 2), "aa", "a first turn, and one in round 1");
    put(&mut link, "bbbc", 100);
    // b and c are new; then b stands behind a in round 2.
    assert_eq!(get(&mut link, 8), "bcababaa");
}

/// Goal: a flow that empties keeps its turn. Method: a and c stand; b sends packets of 20 bytes one at a time,
/// five to a quantum. The sixth waits for the next turn, which begins a new one.
#[test]
fn a_flow_that_empties_before_its_turn_is_used_up_goes_on_before_the_others() {
    let mut link = sparse(&[(0, 0), (1, 1), (2, 2)]);
    put(&mut link, "aaaaaaaacccccccc", 100);
    assert_eq!(get(&mut link, 2), "ac");
    for _ in 0..5 {
        put(&mut link, "b", 20);
        assert_eq!(get(&mut link, 1), "b");
    }
    put(&mut link, "b", 20);
    assert_eq!(get(&mut link, 3), "acb");
    // Flow b has had the first piece of its turn in round 1. The rest of it is gone when round 2 begins.
    for _ in 0..2 {
        put(&mut link, "b", 20);
        assert_eq!(get(&mut link, 1), "b");
    }
    assert_eq!(get(&mut link, 1), "a", "round 2 has begun");
    let mut trace = String::new();
    for _ in 0..6 {
        put(&mut link, "b", 20);
        trace += &get(&mut link, 1);
    }
    assert_eq!(trace, "bbbbbc", "a whole turn, and the sixth in round 3");
}

/// Goal: a flow of a host with many does not wait for all of them each time. Method: a to f of one host stand, of
/// load 7 with g; g sends 25 bytes after every three packets of others, a quarter of its turn. Were
/// its turn not kept, three of four packets would wait for the others.
#[test]
fn a_sparse_flow_beside_many_of_its_host_does_not_wait() {
    let mut link = sparse(&[(0, 0); 7]);
    put(&mut link, &"abcdef".repeat(20), 100);
    assert_eq!(get(&mut link, 12).len(), 12);
    for packet in 0..16 {
        put(&mut link, "g", 25);
        assert_eq!(get(&mut link, 1), "g", "packet {packet}");
        let others = get(&mut link, 3);
        assert!(!others.contains('g'), "packet {packet}: {others}");
    }
}

/// Goal: pieces of a turn are charged to it: with debt, none is left. Method: b sends 99 of 100 bytes, empties,
/// and sends 99 more with the byte that is left.
#[test]
fn a_flow_that_leaves_a_byte_of_its_turn_owes_what_it_sends_with_it() {
    let mut link = sparse(&[(0, 0), (1, 1)]);
    put(&mut link, &"a".repeat(40), 100);
    assert_eq!(get(&mut link, 1), "a");
    let mut sent = 0;
    for _ in 0..30 {
        if link.queues[1].is_empty() {
            put(&mut link, "b", 99);
        }
        sent += u32::from(get(&mut link, 1) == "b");
    }
    // One a round, and one ahead.
    assert!((15..=16).contains(&sent), "{sent} of 30");
}

/// Goal: a flow that keeps emptying and returning gets no more than `(n + 2)·Q + L − 1` bytes in any interval
/// in which another flow has `n` whole turns. In the long run it gets no more than the other. Without sparse
/// flows first it is `n + 1` in place of `n + 2`. Method: a stands. The others come back after pauses and in
/// sizes drawn at random, all of load 1; every interval of each history.
#[test]
fn what_keeps_returning_gets_two_turns_more_than_what_stays() {
    for (sparse_first, more) in [(true, 2), (false, 1)] {
        let (mut nearest, mut gain) = (0.0_f64, 0.0_f64);
        for seed in 1..=conformance::effort::effort(40, 400) {
            let (ratio, long) = returning(sparse_first, more, seed);
            (nearest, gain) = (nearest.max(ratio), gain.max(long));
        }
        assert!(nearest > 0.9, "the bound is not loose: {nearest}");
        // Two turns more of a history of at least forty.
        assert!(gain <= 1.0 + 3.0 / 40.0, "{gain}");
        std::println!(
            "sparse first {sparse_first}: {nearest:.3} of the bound, long-run gain {gain:.3}"
        );
    }
}

/// A history in which flow 0 stands; how near another came to the bound, and what it had in all by what
/// flow 0 had.
#[expect(clippy::float_arithmetic, reason = "how near a bound is, for people to read")]
fn returning(sparse_first: bool, more: u64, seed: u64) -> (f64, f64) {
    let mut random = Xorshift::new(seed);
    let flows = 2 + random.below(4);
    let hosts: Vec<(u32, u32)> = (0..flows).map(|flow| (flow, flow)).collect();
    let mut scheduler = rounds(&hosts, 8);
    scheduler.sparse_first = sparse_first;
    let quantum = u64::from(MAX_LEN + random.below(3) * 50);
    scheduler.add_all(quantum as u32).unwrap();
    let mut link = Link::over(scheduler, flows as usize);
    let lens: Vec<u32> = (0..flows).map(|_| [100, 99, 51, 20][random.below(4) as usize]).collect();
    let often: Vec<u32> = (0..flows).map(|_| 1 + random.below(4)).collect();
    // For each packet: its flow, its length, whether a turn of flow 0 ended with it, and whether flow 0 is in one
    // behind it.
    let mut sent: Vec<(u32, u64, bool, bool)> = Vec::new();
    let mut ends = 0;
    while ends < 45 {
        while link.queues[0].len() < 2 {
            link.enqueue(0, lens[0]);
        }
        for flow in 1..flows {
            if link.queues[flow as usize].is_empty() && random.below(often[flow as usize]) == 0 {
                for _ in 0..=random.below(2) {
                    link.enqueue(flow, lens[flow as usize]);
                }
            }
        }
        let (flow, len) = link.dequeue().unwrap();
        let begun = link.scheduler.nodes[0].standing.has_begun();
        let ended = flow == 0 && !begun;
        ends += u32::from(ended);
        sent.push((flow, len.into(), ended, begun));
    }
    let mut nearest = 0.0_f64;
    for other in 1..flows {
        for from in 0..sent.len() {
            let (mut bytes, mut turns) = (0, 0_u64);
            // The end of a turn that had begun before is not that of a whole one.
            let mut whole = from == 0 || !sent[from - 1].3;
            for &(flow, len, ended, _) in &sent[from..] {
                bytes += if flow == other { len } else { 0 };
                if ended {
                    turns += u64::from(whole);
                    whole = true;
                }
                let bound = (turns + more) * quantum + u64::from(MAX_LEN) - 1;
                assert!(bytes <= bound, "seed {seed}: {bytes} of {bound} with {turns} turns");
                nearest = nearest.max(bytes as f64 / bound as f64);
            }
        }
    }
    let total =
        |of: u32| sent.iter().filter(|packet| packet.0 == of).map(|packet| packet.1).sum::<u64>();
    let most = (1..flows).map(total).max().unwrap();
    (nearest, most as f64 / total(0) as f64)
}

/// Goal: a sparse flow beside many does not wait for all of them because another of its host was early in the
/// same round. Method: a to f of one host stand, of load 8 with g and h, which come together. The place of h by its
/// load is behind all of them.
#[test]
fn the_next_early_turn_of_a_host_is_in_the_next_round() {
    let mut link = sparse(&[(0, 0); 8]);
    put(&mut link, &"abcdef".repeat(20), 100);
    assert_eq!(get(&mut link, 12).len(), 12);
    put(&mut link, "gh", 25);
    let served = get(&mut link, 4);
    let at = |flow| served.find(flow);
    assert_eq!((at('g'), at('h').is_some()), (Some(0), true), "{served}");
}

/// Goal: a host that has used up its early turns has one a round, whatever it opens; where both sides count, that is a
/// host of the side that is set. Method: a stands; b and c are of one host, and d of one that shares no more than c's
/// destination.
#[test]
fn a_host_has_one_early_turn_a_round() {
    let hosts = [(0, 0), (1, 1), (1, 2), (2, 2)];
    for (mode, local, expected) in [
        (Sides::Both, Side::Source, "bdaca"), // b goes first, and c in round 1; d shares no source with c.
        (Sides::Both, Side::Destination, "bcada"), // d shares its destination with c.
        (Sides::Source, Side::Destination, "bdaca"),
        (Sides::Destination, Side::Source, "bcada"),
        (Sides::Neither, Side::Source, "bcdaa"),
    ] {
        let mut link = sparse(&hosts);
        link.scheduler = link.scheduler.with_hosts_of(local);
        link.scheduler.set_mode(mode);
        put(&mut link, "aaa", 100);
        assert_eq!(get(&mut link, 1), "a");
        spend(&mut link.scheduler);
        put(&mut link, "bcd", 100);
        assert_eq!(get(&mut link, 5), expected, "{mode:?}, {local:?}");
    }
}

/// Goal: a host has an early turn for the round and one for each before it in which it had none, 15 at most. Method: a
/// stands; some rounds after the other host has used up its early turns, 40 of its flows come together.
#[test]
fn a_host_saves_up_fifteen_early_turns() {
    let hosts: Vec<_> = (0..=40).map(|flow| (u32::from(flow > 0), u32::from(flow > 0))).collect();
    for (rounds, early) in [(0, 1), (1, 2), (5, 6), (14, 15), (15, 16), (16, 16), (90, 16)] {
        let mut link = Link::over(self::rounds(&hosts, 64).sparse_first(), hosts.len());
        (0..200).for_each(|_| link.enqueue(0, 100));
        assert_eq!(link.dequeue(), Some((0, 100)));
        spend(&mut link.scheduler);
        // One packet a round.
        (0..rounds).for_each(|_| assert_eq!(link.dequeue(), Some((0, 100))));
        (1..=40).for_each(|flow| link.enqueue(flow, 100));
        link.recount().unwrap();
        let others = core::iter::from_fn(|| link.dequeue()).take_while(|&(flow, _)| flow != 0);
        assert_eq!(others.count(), early, "after {rounds} rounds");
        // The others in the rounds that follow, one in each.
        for round in 0..20 {
            let others = core::iter::from_fn(|| link.dequeue()).take_while(|&(flow, _)| flow != 0);
            assert!(others.count() <= 2, "{round}: one early turn, and one by load");
        }
    }
    assert_eq!(InVec::SAVED_UP, 15);
}

/// Goal: what is not limited: the rests of turns that flows of one host have begun. Each is kept until the next turn of
/// its flow is due, as many rounds later as the host has flows. Flows that return together go on with their rests
/// together, but once, and then not again before their next turns. Method: a stands; n flows of another host
/// send a short packet each, and return when the last of them was served.
#[test]
fn rests_of_one_host_go_on_together_once() {
    for flows in [5_u32, 10, 20] {
        let hosts: Vec<_> =
            (0..=flows).map(|flow| (u32::from(flow > 0), u32::from(flow > 0))).collect();
        let mut link = Link::over(rounds(&hosts, 64).sparse_first(), hosts.len());
        spend(&mut link.scheduler);
        let arrive =
            |link: &mut Link<InVec>, len| (1..=flows).for_each(|flow| link.enqueue(flow, len));
        (0..400).for_each(|_| link.enqueue(0, 100));
        // How many bytes of the others go before the next packet of a.
        let before_a = |link: &mut Link<InVec>| {
            let others = core::iter::from_fn(|| link.dequeue()).take_while(|&(flow, _)| flow != 0);
            others.map(|(_, len)| len).sum::<u32>()
        };
        arrive(&mut link, 20);
        while (1..=flows).any(|flow| !link.queues[flow as usize].is_empty()) {
            assert!(before_a(&mut link) <= 2 * 20, "one early turn a round, and one by load");
        }
        arrive(&mut link, 79);
        assert_eq!(before_a(&mut link), 79 * flows, "the rests of all");
        arrive(&mut link, 79);
        for round in 0..flows {
            assert!(
                before_a(&mut link) <= 2 * 79,
                "{round}: one early turn a round, and one by load"
            );
        }
    }
}

/// Goal: a flow that is always fresh cannot starve those that stand: its host has one such turn a round.
#[test]
fn a_flow_that_keeps_emptying_does_not_starve_the_standing_ones() {
    let mut link = sparse(&[(0, 0), (1, 1), (2, 2)]);
    put(&mut link, "aaaaaaaacccccccc", 100);
    assert_eq!(get(&mut link, 2), "ac");
    let mut trace = String::new();
    for _ in 0..12 {
        if link.queues[1].is_empty() {
            put(&mut link, "b", 100);
        }
        trace += &get(&mut link, 1);
    }
    // In round 0 a first turn of b; its second packet is due in round 1 behind the others; at the end of
    // round 1 it is due in 2.
    assert_eq!(trace, "bacbacbacbac");
}

/// Goal: what a random history leaves behind is in balance after every operation. Method: arrivals,
/// services, losses, flows that are removed, added, changed, assigned to hosts or refused to be; modes
/// that change; short and long calendars.
#[test]
fn every_count_is_right_after_every_operation() {
    for (seed, calendar) in [(1, 2), (2, 3), (3, 8), (4, 64), (5, 256)] {
        for sparse_first in [false, true] {
            let mut scheduler = rounds(&[(0, 0); 12], calendar);
            scheduler.sparse_first = sparse_first;
            history(scheduler, seed, 20_000);
        }
    }
}

/// A random history; returns the flows that were served.
fn history(scheduler: InVec, seed: u64, operations: u32) -> Vec<(u32, u32)> {
    let mut random = Xorshift::new(seed);
    let mut link = Link::over(scheduler, 12);
    let mut served = Vec::new();
    for operation in 0..operations {
        let flow = random.below(12);
        let filling = operation >> 7 & 1 == 0;
        match random.below(64) {
            0 | 1 => link.lose(flow, operation & 1 == 0),
            2 => link.remove(flow),
            3..6 => {
                let quantum = MAX_LEN + random.below(3) * 77;
                link.scheduler.configure(FlowId(flow), quantum, None).unwrap();
            }
            6 => {
                let modes = [Sides::Neither, Sides::Source, Sides::Destination, Sides::Both];
                let mode = modes[random.below(4) as usize];
                link.scheduler.set_mode(mode);
                assert_eq!(link.scheduler.mode(), mode);
            }
            7..12 => {
                let hosts = (random.below(4), random.below(4));
                let idle = link.queues[flow as usize].is_empty();
                let before = link.scheduler.assigned(FlowId(flow)).unwrap();
                let assigned = link.scheduler.assign(FlowId(flow), hosts.0, hosts.1);
                let refused = Err(ConfigError::Backlogged { flow: FlowId(flow) });
                assert_eq!(assigned, if idle { Ok(()) } else { refused });
                let expected = if idle { hosts } else { before };
                assert_eq!(link.scheduler.assigned(FlowId(flow)), Some(expected));
            }
            choice if (choice < 48) == filling => {
                if link.scheduler.config(FlowId(flow)).is_some() {
                    link.enqueue(flow, 1 + random.below(MAX_LEN));
                }
            }
            _ => served.extend(link.dequeue()),
        }
        if let Err(imbalance) = link.recount() {
            panic!("seed {seed}, operation {operation}: {imbalance}");
        }
        let backlogged = link.queues.iter().any(|queue| !queue.is_empty());
        assert_eq!(link.scheduler.select().is_some(), backlogged);
    }
    while let Some(last) = link.dequeue() {
        served.push(last);
        assert_eq!(link.recount(), Ok(()));
    }
    assert!((0..8).all(|host| link.scheduler.flows_of_source(host) == 0));
    assert!((0..8).all(|host| link.scheduler.flows_of_destination(host) == 0));
    served
}

/// Goal: nothing depends on the number of the round. Method: the same histories from round 0 on and
/// across the wrap of the counter.
#[test]
fn the_number_of_the_round_may_wrap() {
    for sparse_first in [false, true] {
        let from = |round: u32| {
            let mut scheduler = rounds(&[(0, 0); 12], 16);
            scheduler.sparse_first = sparse_first;
            scheduler.tins[0].round = round;
            for node in &mut scheduler.nodes {
                node.due = round;
            }
            // 0 has not begun in any round.
            for host in 0..8 {
                scheduler.sources.use_early_turn(host, round.wrapping_sub(1 + SAVED_UP));
                scheduler.destinations.use_early_turn(host, round.wrapping_sub(1 + SAVED_UP));
            }
            scheduler
        };
        let expected = history(from(0), 7, 20_000);
        assert!(expected.len() > 5_000);
        for round in [0_u32.wrapping_sub(16), 0_u32.wrapping_sub(500), 1 << 31, (1 << 31) - 500] {
            assert_eq!(history(from(round), 7, 20_000), expected, "from round {round}");
        }
    }
}

/// Goal: the work of a call is bounded by a constant, and is the same with one flow and with 1,000
/// flows of a host. Method: every look at memory is counted, over bursts of arrivals, services and losses;
/// the most that any call took.
#[test]
fn the_work_of_a_call_does_not_grow() {
    let most = |flows: u32, hosts: u32| {
        let nodes = Counting::of(flows as usize, LoadDrrFlow::EMPTY);
        let sides = || Counting::of(hosts as usize, LoadDrrHost::EMPTY);
        let lists = Counting::of(2_048, RoundList::EMPTY);
        let scheduler = LoadDrr::new(nodes, sides(), sides(), lists, MAX_LEN);
        let mut scheduler = scheduler.unwrap().sparse_first();
        scheduler.add_all(MAX_LEN).unwrap();
        for flow in 0..flows {
            scheduler.assign(FlowId(flow), flow % hosts, flow * 7 % hosts).unwrap();
        }
        let mut link = Link::over(scheduler, flows as usize);
        let (mut random, mut most) = (Xorshift::new(9), 0);
        for operation in 0..60_000_u32 {
            let flow = random.below(flows);
            for looks in looks(&link.scheduler) {
                looks.set(0);
            }
            match random.below(16) {
                0 => link.lose(flow, true),
                choice if (choice < 8) == (operation >> 12 & 1 == 0) => link.enqueue(flow, 60),
                _ => drop(link.dequeue()),
            }
            most = most.max(looks(&link.scheduler).iter().map(|looks| looks.get()).sum());
        }
        most
    };
    let counts = [most(1, 1), most(1_000, 1), most(1_000, 32), most(1_000, 1_000)];
    // Flows that share no host, or all of them, look at fewer.
    assert_eq!(counts, [8, 9, 9, 8]);
}

type Counted = LoadDrr<
    Counting<LoadDrrFlow>,
    Counting<LoadDrrHost>,
    Counting<LoadDrrHost>,
    Counting<RoundList>,
>;

fn looks(scheduler: &Counted) -> [&Cell<u32>; 4] {
    [
        &scheduler.nodes.looks,
        &scheduler.sources.memory().looks,
        &scheduler.destinations.memory().looks,
        &scheduler.calendar.memory().looks,
    ]
}

#[test]
fn what_is_out_of_range_is_refused_and_changes_nothing() {
    let with = |sources, destinations, lists, max_len| {
        let side = |hosts| vec![LoadDrrHost::EMPTY; hosts];
        let nodes = vec![LoadDrrFlow::EMPTY; 2];
        let lists = vec![RoundList::EMPTY; lists];
        LoadDrr::new(nodes, side(sources), side(destinations), lists, max_len).map(|_| ())
    };
    let refused = |what, value, min, max| Err(ConfigError::OutOfRange { what, value, min, max });
    assert_eq!(with(1, 1, 2, 1), Ok(()));
    assert_eq!(with(1, 1, 4_096, Packet::MAX_LEN), Ok(()));
    for lists in [0, 1, 4_097] {
        let error = refused("rounds of the calendar", lists as u64, 2, 4_096);
        assert_eq!(with(1, 1, lists, 1), error);
    }
    assert_eq!(with(0, 1, 2, 1), refused("source hosts", 0, 1, (1 << 29) - 1));
    assert_eq!(with(1, 0, 2, 1), refused("destination hosts", 0, 1, (1 << 29) - 1));
    let nothing = LoadDrr::new([], [], [], [], 1).expect("without flows nothing else is needed");
    assert_eq!((nothing.flows(), nothing.select()), (0, None));
    assert_eq!(nothing.recount(&|_| FlowState::default()), Ok(()));
    for len in [0, Packet::MAX_LEN + 1] {
        let error = refused("longest packet in bytes", len.into(), 1, Packet::MAX_LEN.into());
        assert_eq!(with(1, 1, 2, len), error);
    }

    let mut scheduler = rounds(&FIG_3, 8);
    scheduler.backlogged(FlowId(0), 1);
    let before = scheduler.clone();
    for quantum in [0, 99, (1 << 28) + 1] {
        let error = refused("quantum in bytes", quantum.into(), 100, 1 << 28);
        assert_eq!(scheduler.configure(FlowId(0), quantum, Some(1)), error);
        assert_eq!(scheduler.add_all(quantum), error);
    }
    let unknown = Err(ConfigError::UnknownFlow { flow: FlowId(6), flows: 6 });
    assert_eq!(scheduler.configure(FlowId(6), 100, None), unknown);
    assert_eq!(scheduler.assign(FlowId(6), 0, 0), unknown);
    let unknown = Err(ConfigError::UnknownHost { host: 8, hosts: 8 });
    assert_eq!(scheduler.assign(FlowId(1), 8, 0), unknown);
    assert_eq!(scheduler.assign(FlowId(1), 0, 8), unknown);
    let backlogged = Err(ConfigError::Backlogged { flow: FlowId(0) });
    assert_eq!(scheduler.assign(FlowId(0), 1, 1), backlogged);
    assert_eq!(scheduler, before);
    scheduler.configure(FlowId(0), 1 << 28, Some(1)).unwrap();
    assert_eq!(scheduler.config(FlowId(0)), Some(1 << 28));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut scheduler = rounds(&[(0, 0); 5], 8).sparse_first();
    scheduler.remove(FlowId(3));
    scheduler.backlogged(FlowId(0), 100);
    scheduler.backlogged(FlowId(1), 100);
    scheduler.served(FlowId(0), 100, Some(100));
    let before = scheduler.clone();
    scheduler.backlogged(FlowId(0), 100);
    scheduler.backlogged(FlowId(3), 100);
    scheduler.backlogged(FlowId(5), 100);
    for flow in [2, 3, 4, 5, u32::MAX] {
        scheduler.served(FlowId(flow), 100, Some(100));
        scheduler.served(FlowId(flow), 100, None);
        scheduler.lost(FlowId(flow), 100, Some(100));
        scheduler.lost(FlowId(flow), 100, None);
    }
    let other = if scheduler.select() == Some(FlowId(0)) { 1 } else { 0 };
    scheduler.served(FlowId(other), 100, None); // the other is selected
    scheduler.served(FlowId(other), 100, Some(1));
    scheduler.lost(FlowId(0), 100, Some(100));
    scheduler.grew(FlowId(0), 100);
    scheduler.remove(FlowId(3));
    scheduler.remove(FlowId(5));
    assert_eq!(scheduler, before);
    scheduler.served(FlowId(1 - other), u32::MAX, Some(1));
    let backlog = crate::Backlog { packets: 1, bytes: 100 };
    let truth = |flow: FlowId| FlowState {
        backlog: if flow.0 < 2 { backlog } else { crate::Backlog::default() },
        head_len: None,
    };
    assert_eq!(scheduler.recount(&truth), Ok(()));
}

#[test]
fn a_flow_that_changes_its_host_is_as_if_just_added() {
    let mut link = sparse(&[(0, 0), (1, 1)]);
    put(&mut link, "a", 10);
    put(&mut link, "a", 100);
    assert_eq!(get(&mut link, 2), "aa");
    let used = link.scheduler.nodes[0];
    assert_eq!((used.charged, used.due), (10, 1));
    link.scheduler.assign(FlowId(0), 0, 0).unwrap();
    assert_eq!(link.scheduler.nodes[0], used, "the same hosts change nothing");
    link.scheduler.assign(FlowId(0), 0, 2).unwrap();
    let changed = link.scheduler.nodes[0];
    assert_eq!((changed.charged, changed.due, changed.destination), (0, 0, 2));
    assert_eq!(link.scheduler.config(FlowId(0)), Some(MAX_LEN));
}

#[test]
fn hosts_are_those_of_the_side_that_is_set() {
    let mut source = rounds(&FIG_3, 8);
    let mut destination = rounds(&FIG_3, 8).with_hosts_of(Side::Destination);
    for scheduler in [&mut source, &mut destination] {
        (0..6).for_each(|flow| scheduler.backlogged(FlowId(flow), 1));
        assert_eq!(
            (scheduler.hosts(), scheduler.host_of(FlowId(6)), scheduler.flows_of(8)),
            (8, None, 0)
        );
    }
    let hosts =
        |scheduler: &InVec| (0..6).map(|flow| scheduler.host_of(FlowId(flow)).unwrap()).collect();
    let flows = |scheduler: &InVec| (0..4).map(|host| scheduler.flows_of(host)).collect();
    let (of, has): (Vec<_>, Vec<_>) = (hosts(&source), flows(&source));
    assert_eq!((of, has), (vec![0, 0, 0, 0, 1, 1], vec![4, 2, 0, 0]));
    let (of, has): (Vec<_>, Vec<_>) = (hosts(&destination), flows(&destination));
    assert_eq!((of, has), (vec![0, 1, 2, 2, 2, 3], vec![1, 1, 3, 1]));
}

/// Goal: `recount` sees every kind of damage. Method: break one field at a time.
#[test]
fn a_recount_sees_damage() {
    let mut link = sparse(&[(0, 0), (0, 1), (1, 1), (1, 0), (2, 2)]);
    spend(&mut link.scheduler);
    put(&mut link, "aaabbbcccddd", 100);
    assert_eq!(get(&mut link, 3).len(), 3);
    put(&mut link, "e", 100);
    let good = link.scheduler.clone();
    let recount = |scheduler: &InVec| {
        scheduler.recount(&|flow| {
            let packets = link.queues[flow.index()].len() as u32;
            FlowState { backlog: crate::Backlog { packets, bytes: packets }, head_len: None }
        })
    };
    assert_eq!(recount(&good), Ok(()));
    assert_eq!(good.tins[0].first_turns.head(), 4, "one has a first turn");
    let damages: [fn(&mut InVec); 15] = [
        |r| r.nodes[0].charged = 100,
        |r| r.nodes[3].charged = 100,
        |r| r.nodes[0].standing = Standing::new(Place::Turn, 99),
        |r| r.nodes[0].standing = Standing::new(Place::Idle, 100),
        |r| r.nodes[0].standing = Standing::new(Place::New, 100),
        |r| r.nodes[0].turn = r.nodes[0].turn.wrapping_add(1),
        |r| r.nodes[4].turn = r.tins[0].round.wrapping_add(1),
        |r| r.nodes[0].set_source(1),
        |r| r.nodes[0].destination = 3,
        |r| r.tins[0].front = NONE,
        |r| assert_eq!(r.sources.join(3), 1),
        |r| assert!(r.destinations.leave(1) > 0),
        |r| r.sources.set_next(3, 4),
        |r| {
            // Siblings that know nothing of each other's flows.
            r.sources.set_next(0, 1);
            r.sources.set_next(1, 0);
        },
        |r| r.tins[0].round = r.tins[0].round.wrapping_add(1),
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut bad = good.clone();
        damage(&mut bad);
        assert!(recount(&bad).is_err(), "damage {at}");
    }
}

#[test]
fn a_flow_is_32_bytes_a_host_16_and_a_round_8() {
    let sizes = (size_of::<LoadDrrFlow>(), size_of::<LoadDrrHost>(), size_of::<RoundList>());
    assert_eq!(sizes, (32, 16, 8));
    assert_eq!(format!("{:?}", Sides::default()), "Both");
}
