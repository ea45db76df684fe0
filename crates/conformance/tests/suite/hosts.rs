//! What hosts above flows are for: shares, and whose packets give way.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{Contestant, Match, Operation, Setting, check, pair};
use conformance::sides::{self, HOSTS, MAX_LEN, hosts};
use freeboard::sched_core::{DropFrom, DropReason, FlowId, Limits, Nanos, Packet, Side, Sides};

/// Adds flows with a quantum of 1,500 bytes, each with its hosts.
fn add(queues: &mut dyn Contestant, flows: &[[u32; 2]]) {
    for (flow, &[source, destination]) in (0..).map(FlowId).zip(flows) {
        queues.configure(flow, Setting { weight: 3, max_len: MAX_LEN }).unwrap();
        queues.housing_mut().unwrap().assign(flow, source, destination).unwrap();
    }
}

/// The shares of the bytes that flows 0, 1, … get while each always holds two packets, over so many
/// departures; the lengths are random.
fn shares(queues: &mut dyn Contestant, flows: usize, departures: u32) -> Vec<f64> {
    let mut random = Xorshift::new(7);
    let mut packet = move |handle| Packet::new(handle, 1 + random.below(MAX_LEN));
    let flow_of = |handle: u32| FlowId(handle / 2);
    for handle in 0..2 * flows as u32 {
        let packet = packet(handle);
        queues.enqueue(Nanos(0), flow_of(handle), packet, &mut no_drops).unwrap();
    }
    let mut sent = vec![0_u64; flows];
    for _ in 0..departures {
        let Packet { handle, len, .. } = queues.dequeue(Nanos(0), &mut no_drops).unwrap();
        sent[flow_of(handle).index()] += u64::from(len);
        queues.enqueue(Nanos(0), flow_of(handle), packet(handle), &mut no_drops).unwrap();
    }
    let all: u64 = sent.iter().sum();
    sent.iter().map(|&bytes| bytes as f64 / all as f64).collect()
}

fn no_drops(packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {}", reason.name());
}

fn assert_close(shares: &[f64], expected: &[f64]) {
    assert_eq!(shares.len(), expected.len());
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share / expected - 1.0).abs() < 0.01, "{shares:?}");
    }
}

/// Goal: CAKE Fig. 3, in every mode that one load DRR can have.
/// Method: the flows a1→A, a1→B, a1→C, a1→C, b→C and b→D of the figure, always backlogged, in the
/// discipline and in its twin.
#[test]
fn load_drr_gives_the_shares_of_cake_fig_3() {
    let (a1, b) = (0, 1);
    let flows = [[a1, 0], [a1, 1], [a1, 2], [a1, 2], [b, 2], [b, 3]];
    let modes = [
        (Sides::Neither, [1.0 / 6.0; 6]),
        (Sides::Source, [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]),
        (Sides::Destination, [0.25, 0.25, 0.25 / 3.0, 0.25 / 3.0, 0.25 / 3.0, 0.25]),
        (Sides::Both, [3.0 / 22.0, 3.0 / 22.0, 3.0 / 22.0, 3.0 / 22.0, 2.0 / 11.0, 3.0 / 11.0]),
    ];
    for sparse_first in [false, true] {
        for (sides, expected) in modes {
            let both = hosts::load_drr::<8, 16, HOSTS>(
                MAX_LEN,
                16,
                Side::Source,
                sparse_first,
                Limits::NONE,
            );
            let played = |queues: &mut dyn Contestant| {
                add(queues, &flows);
                queues.housing_mut().unwrap().count(sides);
                assert_close(&shares(queues, 6, effort(15_000, 50_000)), &expected);
            };
            hosts::each(both, played);
        }
    }
}

/// Method: the mode goes through all four and back while all flows are backlogged.
#[test]
fn a_change_of_mode_changes_the_shares_of_backlogged_flows() {
    let both = hosts::load_drr::<8, 16, HOSTS>(MAX_LEN, 16, Side::Destination, true, Limits::NONE);
    hosts::each(both, |queues| {
        add(queues, &[[0, 0], [0, 1], [0, 2], [1, 0]]);
        let by_source = [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 0.5];
        let by_destination = [1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0];
        for (sides, expected) in [
            (Sides::Source, by_source),
            (Sides::Destination, by_destination),
            (Sides::Neither, [0.25; 4]),
            (Sides::Source, by_source),
        ] {
            queues.housing_mut().unwrap().count(sides);
            assert_close(&shares(queues, 4, effort(15_000, 50_000)), &expected);
            queues.drain(&mut |_, _| ());
        }
    });
}

/// Goal: what a host gets does not depend on how many flows it has; its flows share it alike.
#[test]
fn a_host_with_one_flow_gets_as_much_as_one_with_eight() {
    let flows: Vec<[u32; 2]> = core::iter::once([0, 0]).chain([[1, 0]; 8]).collect();
    let mut expected = [1.0 / 16.0; 9];
    expected[0] = 0.5;
    for sparse_first in [false, true] {
        let both = hosts::over_drr::<9, 18, HOSTS>(MAX_LEN, sparse_first, false, Limits::NONE);
        hosts::each(both, |queues| {
            add(queues, &flows);
            assert_close(&shares(queues, 9, effort(15_000, 50_000)), &expected);
        });
        let both = hosts::over_qfq::<9, 18, HOSTS>(MAX_LEN, sparse_first, Limits::NONE);
        hosts::each(both, |queues| {
            add(queues, &flows);
            assert_close(&shares(queues, 9, effort(15_000, 50_000)), &expected);
        });
    }
}

#[test]
fn hosts_share_by_their_weight_and_flows_of_a_host_by_theirs() {
    let both = hosts::over_drr::<4, 8, HOSTS>(MAX_LEN, false, false, Limits::NONE);
    hosts::each(both, |queues| {
        add(queues, &[[0, 0], [1, 0], [1, 0], [3, 0]]);
        let weighted = |weight| Setting { weight, max_len: MAX_LEN };
        queues.housing_mut().unwrap().configure_host(1, weighted(9)).unwrap();
        queues.configure(FlowId(2), weighted(6)).unwrap();
        assert_close(&shares(queues, 4, effort(15_000, 50_000)), &[0.2, 0.2, 0.4, 0.2]);
    });
}

/// The grain, as `LongestHostDrop` promises it: a quarter of a part of `limit` bytes, or the power of two below.
fn grain(limit: u32) -> u32 {
    let quarter = limit / 4 / HOSTS as u32;
    (1..=13).map(|bits| 1 << bits).filter(|power| *power <= quarter.max(2)).max().unwrap()
}

/// What of `most` bytes a host holds at least that loses a packet, where `most` is what the longest host holds.
fn least(most: u32, grain: u32) -> u32 {
    most.saturating_sub(grain.max((2 * most).div_ceil(9)))
}

/// Goal: a host below its share of the limit loses nothing: with H hosts that hold packets, one that
/// holds less than B/H − L, and than B/H less the larger of the grain and 2/9·B/H. The host that loses holds more than is
/// promised of the most that a host holds.
/// Method: random arrivals, of which one host in three sends most, against a limit of 20,000 bytes.
/// What each host holds and how many hold something is counted by hand.
#[test]
fn a_host_that_holds_less_than_its_share_of_the_limit_loses_nothing() {
    let limit = 20_000;
    let grain = grain(limit);
    let both =
        hosts::over_drr_lhd::<8, 64, HOSTS>(MAX_LEN, true, DropFrom::Head, Limits::bytes(limit));
    hosts::each(both, |queues| {
        let of_flow = [0, 0, 1, 2, 2, 2, 3, 3];
        add(queues, &of_flow.map(|host| [host, 0]));
        let mut random = Xorshift::new(3);
        let mut free: Vec<u32> = (0..64).collect();
        let mut out = [(0, 0_u32); 64];
        let mut held = [0_u32; 4];
        let mut losses = 0;
        for _ in 0..effort(30_000, 100_000) {
            if random.below(5) < 2 {
                if let Some(packet) = queues.dequeue(Nanos(0), &mut no_drops) {
                    let (host, len) = out[packet.handle as usize];
                    held[host] -= len;
                    free.push(packet.handle);
                }
                continue;
            }
            let Some(handle) = free.pop() else { continue };
            let flow = if random.below(3) == 0 { random.below(8) } else { 3 + random.below(3) };
            let packet = Packet::new(handle, 1 + random.below(MAX_LEN));
            let host = of_flow[flow as usize] as usize;
            let mut dropped = Vec::new();
            let outcome =
                queues.enqueue(Nanos(0), FlowId(flow), packet, &mut |packet: Packet, _| {
                    dropped.push(packet);
                });
            // As it was when room was made: with the arrival, and before any flow lost anything.
            held[host] += packet.len;
            out[handle as usize] = (host, packet.len);
            let lost = dropped.into_iter().chain(outcome.err().map(|rejected| rejected.packet));
            for Packet { handle, len, .. } in lost {
                let hosts = held.iter().filter(|&&held| held > 0).count() as u32;
                let host = out[handle as usize].0;
                assert!(held[host] >= limit / hosts - MAX_LEN, "{held:?}: {host} lost a packet");
                assert!(held[host] > least(limit / hosts, grain), "{held:?}: {host} lost a packet");
                let most = *held.iter().max().unwrap();
                assert!(held[host] > least(most, grain), "{held:?}: {host} lost one");
                held[host] -= len;
                free.push(handle);
                losses += 1;
            }
        }
        assert!(losses > 1_000, "only {losses} packets were lost");
    });
}

/// Flow 0 always holds packets of 20 bytes, and is sent `MAX_LEN` bytes a turn. Flow 1 sends `MAX_LEN − 1`
/// bytes and then `MAX_LEN` whenever it is its turn; it is then in debt, and before it comes again it loses a
/// packet for want of room, the only one that it holds. Returns the part of the line that flow 0 gets.
fn share_beside_a_host_that_loses_its_last_packet(queues: &mut dyn Contestant) -> f64 {
    let mut sent = [0_u64; 2];
    // Flow 0 has as many handles as there is room for packets, and its own again and again.
    let mut get = |queues: &mut dyn Contestant| {
        let packet = queues.dequeue(Nanos(0), &mut no_drops).unwrap();
        sent[usize::from(packet.handle >= 24)] += u64::from(packet.len);
        packet.handle
    };
    let put = |queues: &mut dyn Contestant, handle: u32, len: u32| {
        let flow = FlowId(u32::from(handle >= 24));
        queues.enqueue(Nanos(0), flow, Packet::new(handle, len), &mut no_drops).unwrap();
    };
    queues.set_limits(Limits::packets(24), &mut no_drops);
    (0..24).for_each(|handle| put(queues, handle, 20));
    for _ in 0..effort(300, 2_000) {
        let mut lost = Vec::new();
        let packet = Packet::new(24, MAX_LEN);
        let mut drops = |packet: Packet, _| lost.push(packet.handle);
        let outcome = queues.enqueue(Nanos(0), FlowId(1), packet, &mut drops);
        lost.extend(outcome.err().map(|rejected| rejected.packet.handle));
        assert_eq!(lost, [24], "its own");
        let gone = [get(queues), get(queues)];
        put(queues, 24, MAX_LEN - 1);
        put(queues, 25, MAX_LEN);
        for handle in gone {
            let mut next = get(queues);
            while next < 24 {
                put(queues, next, 20);
                next = get(queues);
            }
            put(queues, handle, 20);
        }
    }
    sent[0] as f64 / (sent[0] + sent[1]) as f64
}

/// Goal: a debtor of a turn still owes it after losing a packet, and not more: two hosts, or two flows of one
/// host, share alike whatever one of them loses.
#[test]
fn debts_outlive_a_loss() {
    let fair = |queues: &mut dyn Contestant| {
        let share = share_beside_a_host_that_loses_its_last_packet(queues);
        assert!((share - 0.5).abs() < 0.001, "{share:.3} of the line");
    };
    let limits = Limits::NONE;
    for of in [[0, 1], [0, 0]] {
        let both = hosts::over_drr_lhd::<2, 32, HOSTS>(MAX_LEN, false, DropFrom::Tail, limits);
        hosts::each(both, |queues| {
            add(queues, &of.map(|host| [host, 0]));
            fair(queues);
        });
    }
    let both =
        hosts::load_drr_lhd::<2, 32, HOSTS>(MAX_LEN, 8, Side::Source, DropFrom::Tail, limits);
    hosts::each(both, |queues| {
        add(queues, &[[0, 0], [1, 1]]);
        fair(queues);
    });
    let both = sides::drr_lqd::<2, 32>(MAX_LEN, false, DropFrom::Tail, limits);
    hosts::each(both, |queues| {
        add(queues, &[[0, 0]; 2]);
        fair(queues);
    });
    let both = sides::qfq_plus_lqd::<2, 32>(MAX_LEN, 8, DropFrom::Tail, limits);
    hosts::each(both, |queues| {
        add(queues, &[[0, 0]; 2]);
        fair(queues);
    });
}

/// Goal: turns far apart, on calendars of one word of bits, of two and of the most there can be.
/// Method: 200 flows of few hosts come and go, so that loads reach 200 and rounds are skipped.
#[test]
fn load_drr_agrees_with_its_twin_when_hosts_have_hundreds_of_flows() {
    const FLOWS: u32 = 200;
    for (seed, wheel) in [(1, 64), (2, 128), (3, 4_096)] {
        let sides = hosts::load_drr::<{ FLOWS as usize }, 256, HOSTS>(
            MAX_LEN,
            wheel,
            Side::Source,
            true,
            Limits::NONE,
        );
        let mut both = Match::with_descriptors(sides.0, sides.1, 256).watching(&[0, 1, 2, 3, 150]);
        let mut random = Xorshift::new(seed);
        for flow in 0..FLOWS {
            let setting = Setting { weight: 3, max_len: MAX_LEN };
            both.step(Operation::Configure { flow, setting }, false).unwrap();
        }
        let (mut arrivals, mut spread) = (0, FLOWS);
        for step in 0..effort(10_000, 60_000) {
            if step % 500 == 0 {
                arrivals = 20 + random.below(200);
                spread = [1, 2, 8, FLOWS][random.below(4) as usize];
            }
            let flow = random.below(spread);
            let operation = match random.below(256) {
                0 => {
                    let sides = [Sides::Neither, Sides::Source, Sides::Destination, Sides::Both];
                    Operation::Count { sides: sides[random.below(4) as usize] }
                }
                1..16 => {
                    let host = |byte: u32| [0, 0, 0, 0, 1, 1, 2, 3][byte as usize];
                    let (source, destination) = (host(random.below(8)), host(random.below(8)));
                    Operation::Assign { flow: random.below(FLOWS), source, destination }
                }
                byte if byte < arrivals => {
                    Operation::Enqueue { flow, len: 1 + random.below(MAX_LEN) }
                }
                _ => Operation::Dequeue,
            };
            let thorough = step % 64 == 0;
            both.step(operation, thorough).unwrap_or_else(|what| panic!("{what}, seed {seed}"));
        }
    }
}

/// What the twins have found.
#[test]
fn removal_forgets_the_host_of_a_flow_that_was_never_added() {
    let history =
        [Operation::Assign { flow: 0, source: 1, destination: 1 }, Operation::Remove { flow: 0 }];
    let hosts = || pair(hosts::over_drr::<2, 32, HOSTS>(MAX_LEN, false, false, Limits::NONE));
    check(&hosts, &history).unwrap_or_else(|difference| panic!("{difference}"));
    let load_drr =
        || pair(hosts::load_drr::<2, 32, HOSTS>(MAX_LEN, 16, Side::Source, false, Limits::NONE));
    check(&load_drr, &history).unwrap_or_else(|difference| panic!("{difference}"));
}
