//! Shares by weights at the edges of eight and sixteen bits.
//!
//! DPDK 8dc7bf943f kept what a weight is worth in eight bits: a weight of 256 was one of nothing.

use conformance::effort::effort;
use freeboard::sched_core::{
    Drr, DrrFlow, FlowId, FlowScheduler, HostDrr, HostDrrFlow, HostRing, Nanos, Qfq, QfqConfig,
    QfqFlow, TinConfig, TinDrr, TinFlow, Wf2q, Wf2qConfig, Wf2qFlow,
};

/// Weights beside each other.
const WEIGHTS: [&[u32]; 6] =
    [&[1, 255], &[1, 256], &[255, 256, 257], &[256, 65_535], &[1, 65_535], &[65_535, 65_535]];
const LEN: u32 = 64;

/// Each of the flows, all of which stay backlogged, is sent its share by `weights`, within a packet and a hundredth. `tick` tells the time before a packet.
fn share_by_weight<O: FlowScheduler>(
    name: &str,
    mut scheduler: O,
    weights: &[u32],
    tick: impl Fn(&mut O, u64),
) {
    let sum: u64 = weights.iter().copied().map(u64::from).sum();
    let least = u64::from(*weights.iter().min().expect("two flows"));
    // Whole rounds of DRR, in which the least has 10 and, at full depth, 100.
    let packets = sum * (effort(10, 100) as u64).div_ceil(least);
    let mut sent = vec![0_u64; weights.len()];
    (0..weights.len() as u32).for_each(|flow| scheduler.backlogged(FlowId(flow), LEN));
    for packet in 0..packets {
        tick(&mut scheduler, packet);
        let flow = scheduler.select().expect("all are backlogged");
        scheduler.served(flow, LEN, Some(LEN));
        sent[flow.index()] += 1;
    }
    for (weight, sent) in weights.iter().zip(&sent) {
        let expected = packets * u64::from(*weight) / sum;
        let off = sent.abs_diff(expected);
        assert!(
            100 * off <= 100 + expected,
            "{name}, {weights:?}: {sent} for {weight}, not {expected}"
        );
    }
}

fn still<O>(_: &mut O, _: u64) {}

fn tins(weights: &[u32], config: impl Fn(u32) -> TinConfig) -> TinDrr<Vec<TinFlow>> {
    let mut tins = TinDrr::new(vec![TinFlow::EMPTY; weights.len()], LEN).expect("in range");
    tins.add_all(LEN).expect("in range");
    let configs: Vec<_> = weights.iter().map(|&weight| config(weight)).collect();
    tins.set_tins(&configs).expect("in range");
    // Tins above the least weight would be served by the floor.
    let mut tins = tins.with_floor(1_024);
    (0..weights.len() as u32).for_each(|flow| tins.assign(FlowId(flow), flow).expect("a tin"));
    tins
}

#[test]
fn drr_shares_by_quantum() {
    for weights in WEIGHTS {
        let mut drr = Drr::new(vec![DrrFlow::EMPTY; weights.len()], LEN).expect("in range");
        for (flow, weight) in (0..).map(FlowId).zip(weights) {
            drr.configure(flow, weight * LEN, None).expect("in range");
        }
        share_by_weight("DRR", drr, weights, still);
    }
}

#[test]
fn hosts_share_by_quantum() {
    for weights in WEIGHTS {
        let count = weights.len();
        let hosts = Drr::new(vec![DrrFlow::EMPTY; count], LEN).expect("in range");
        let (nodes, rings) = (vec![HostDrrFlow::EMPTY; count], vec![HostRing::EMPTY; count]);
        let mut hosts = HostDrr::new(hosts, nodes, rings, LEN).expect("in range");
        for (host, weight) in (0..).zip(weights) {
            hosts.configure_host(host, weight * LEN).expect("in range");
            hosts.configure(FlowId(host), LEN, None).expect("in range");
            hosts.assign(FlowId(host), host).expect("idle");
        }
        share_by_weight("hosts", hosts, weights, still);
    }
}

#[test]
fn qfq_and_wf2q_share_by_weight() {
    for weights in WEIGHTS {
        let count = weights.len();
        let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; count], LEN).expect("in range");
        let mut wf2q = Wf2q::new(vec![Wf2qFlow::EMPTY; count], LEN).expect("in range");
        for (flow, &weight) in (0..).map(FlowId).zip(weights) {
            qfq.configure(flow, QfqConfig { weight, max_len: LEN }, None).expect("in range");
            wf2q.configure(flow, Wf2qConfig { weight, max_len: LEN }, None).expect("in range");
        }
        share_by_weight("QFQ", qfq, weights, still);
        // A packet costs as much as ten of the others.
        if weights.iter().sum::<u32>() < effort(1_000, 200_000) as u32 {
            share_by_weight("WF2Q+", wf2q, weights, still);
        }
    }
}

#[test]
fn tins_share_by_weight() {
    for weights in WEIGHTS {
        share_by_weight("tins", tins(weights, TinConfig::by_weight), weights, still);
    }
}

/// Goal: rates of tins are kept where they are far apart. Method: rates that fill the line together, each a million bits per second for
/// each unit of weight. The floor serves a tin that waits for longer than 1,024 packets: no tin is that slow here.
#[test]
fn tins_share_by_rate() {
    for weights in WEIGHTS.into_iter().filter(|weights| **weights != [1, 65_535]) {
        let rate = |weight: u32| u64::from(weight) * 1_000_000;
        let of = |weight| TinConfig::by_weight(1).with_rate(rate(weight));
        let line: u64 = weights.iter().map(|&weight| rate(weight)).sum();
        let tick = |tins: &mut TinDrr<_>, packet| {
            let bits = u128::from(packet) * u128::from(LEN) * 8;
            tins.advance(Nanos((bits * 1_000_000_000 / u128::from(line)) as u64));
        };
        share_by_weight("rates of tins", tins(weights, of), weights, tick);
    }
}
