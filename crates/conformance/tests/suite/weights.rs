//! Shares by weights at the limits of eight and sixteen bits.
//!
//! DPDK 8dc7bf943f stored the value of a weight in eight bits: a weight of 256 counted as zero.

use conformance::effort::effort;
use freeboard::sched_core::{
    AsBooked, Drr, DrrFlow, FlowId, FlowScheduler, Nanos, Qfq, QfqConfig, QfqFlow, TinChoice,
    TinConfig, TinState, Wf2q, Wf2qConfig, Wf2qFlow,
};

/// Weights of competing flows.
const WEIGHTS: [&[u32]; 6] =
    [&[1, 255], &[1, 256], &[255, 256, 257], &[256, 65_535], &[1, 65_535], &[65_535, 65_535]];
const LEN: u32 = 64;

/// Checks that each of the flows, all of which stay backlogged, receives its share by `weights` of
/// the packets, within one packet and one percent. `next` returns the flow of the packet with this
/// number.
fn share_by_weight(name: &str, weights: &[u32], mut next: impl FnMut(u64) -> usize) {
    let sum: u64 = weights.iter().copied().map(u64::from).sum();
    let least = u64::from(*weights.iter().min().expect("two flows"));
    // Whole rounds of DRR, in which the lightest flow has 10 packets, or 100 in a full run.
    let packets = sum * (effort(10, 100) as u64).div_ceil(least);
    let mut sent = vec![0_u64; weights.len()];
    (0..packets).for_each(|packet| sent[next(packet)] += 1);
    for (weight, sent) in weights.iter().zip(&sent) {
        let expected = packets * u64::from(*weight) / sum;
        let off = sent.abs_diff(expected);
        assert!(
            100 * off <= 100 + expected,
            "{name}, {weights:?}: {sent} for {weight}, not {expected}"
        );
    }
}

fn flows_share_by_weight<O: FlowScheduler>(name: &str, mut scheduler: O, weights: &[u32]) {
    (0..weights.len() as u32).for_each(|flow| scheduler.backlogged(FlowId(flow), LEN));
    share_by_weight(name, weights, |_| {
        let flow = scheduler.select().expect("all are backlogged");
        scheduler.served(flow, LEN, Some(LEN));
        flow.index()
    });
}

/// Creates one tin per weight, all of them backlogged.
fn tins(weights: &[u32], config: impl Fn(u32) -> TinConfig) -> TinChoice<[TinState; 8]> {
    // Large enough that the floor does not serve tins of larger weights.
    let mut choice =
        TinChoice::new([TinState::EMPTY; 8], LEN, AsBooked).expect("in range").with_floor(1_024);
    let tins: Vec<_> = weights.iter().map(|&weight| config(weight)).collect();
    choice.set_tins(&tins, 0).expect("in range");
    (0..choice.tins()).for_each(|tin| choice.backlogged(tin));
    choice
}

#[test]
fn drr_shares_by_quantum() {
    for weights in WEIGHTS {
        let mut drr = Drr::new(vec![DrrFlow::EMPTY; weights.len()], LEN).expect("in range");
        for (flow, weight) in (0..).map(FlowId).zip(weights) {
            drr.configure(flow, weight * LEN, None).expect("in range");
        }
        flows_share_by_weight("DRR", drr, weights);
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
        flows_share_by_weight("QFQ", qfq, weights);
        // A packet costs as much as ten of the others.
        if weights.iter().sum::<u32>() < effort(1_000, 200_000) as u32 {
            flows_share_by_weight("WF2Q+", wf2q, weights);
        }
    }
}

#[test]
fn tins_share_by_weight() {
    for weights in WEIGHTS {
        let mut choice = tins(weights, TinConfig::by_weight);
        share_by_weight("tins", weights, |_| {
            let tin = choice.front() as usize;
            choice.served(LEN, false);
            tin
        });
    }
}

/// Goal: rates of tins are kept even if they differ widely. Method: rates that add up to the rate
/// of the link, each a million bits per second per unit of weight. The floor serves a tin that
/// waits for more than 1,024 packets; no tin here is that slow.
#[test]
fn tins_share_by_rate() {
    for weights in WEIGHTS.into_iter().filter(|weights| **weights != [1, 65_535]) {
        let rate = |weight: u32| u64::from(weight) * 1_000_000;
        let of = |weight| TinConfig::by_weight(1).with_rate(rate(weight));
        let line: u64 = weights.iter().map(|&weight| rate(weight)).sum();
        let mut choice = tins(weights, of);
        share_by_weight("rates of tins", weights, |packet| {
            let bits = u128::from(packet) * u128::from(LEN) * 8;
            choice.advance(Nanos((bits * 1_000_000_000 / u128::from(line)) as u64));
            let tin = choice.front() as usize;
            choice.served(LEN, false);
            tin
        });
    }
}
