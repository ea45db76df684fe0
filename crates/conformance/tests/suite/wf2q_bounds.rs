//! Compares measured service with the bounds of WF²Q+.

use std::collections::VecDeque;

use conformance::Xorshift;
use conformance::wfi::{WfiFlow, WfiMeter};
use sched_core::{FlowId, FlowScheduler, Wf2q, Wf2qConfig, Wf2qFlow};

/// Goal: the guarantees hold and are not far above the worst case. Method: random weights and loads
/// with a meter; the largest ratio to each bound.
#[test]
fn what_is_promised_is_kept_and_not_far_from_being_broken() {
    let mut used = [0; 3];
    for seed in 1..=200 {
        let mut random = Xorshift::new(seed);
        let count = 2 + random.below(6);
        let longest = 64 << random.below(5);
        let bits = random.below(12);
        let weights: Vec<_> = (0..count).map(|_| 1 + random.magnitude(bits)).collect();
        let mut scheduler = Wf2q::new(vec![Wf2qFlow::EMPTY; weights.len()], longest).unwrap();
        for (flow, &weight) in (0..).zip(&weights) {
            let max_len = 1 + random.below(longest);
            scheduler.configure(FlowId(flow), Wf2qConfig { weight, max_len }, None).unwrap();
        }
        let mut meter = WfiMeter::new(vec![WfiFlow::EMPTY; weights.len()]);
        let mut queues = vec![VecDeque::new(); weights.len()];
        for flow in (0..count).map(FlowId) {
            meter.add(flow, scheduler.guarantee(flow).unwrap().share).unwrap();
        }
        let fixed = random.below(2) == 0;
        for _ in 0..3_000 {
            for _ in 0..random.below(3) {
                let flow = FlowId(random.below(count));
                let most = scheduler.max_len(flow).unwrap();
                let len = if fixed { most } else { 1 + random.below(most) };
                let queue = &mut queues[flow.index()];
                queue.push_back((meter.arrived(flow, len), len));
                if queue.len() == 1 {
                    scheduler.backlogged(flow, len);
                }
            }
            let Some(flow) = scheduler.select() else {
                meter.transmitted(u32::MAX);
                continue;
            };
            let queue = &mut queues[flow.index()];
            let (arrival, len) = queue.pop_front().unwrap();
            meter.dequeued(arrival, len);
            scheduler.served(flow, len, queue.front().map(|head| head.1));
        }
        for flow in (0..count).map(FlowId) {
            let compared = meter.report(flow).unwrap().against(&scheduler.guarantee(flow).unwrap());
            for (compared, used) in compared.into_iter().zip(&mut used) {
                assert!(compared.holds(), "{seed}: {compared:?}");
                *used = compared.per_mille().max(*used);
            }
        }
    }
    assert!(used.iter().all(|&used| used >= 850), "{used:?}");
}
