use super::*;
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

type Link = crate::tests::link::Link<Wf2q<Vec<Wf2qFlow>>>;

impl Link {
    fn new(weights: &[u32], max_len: u32) -> Self {
        let wf2q = Wf2q::new(vec![Wf2qFlow::EMPTY; weights.len()], max_len).unwrap();
        let mut link = Self::over(wf2q, weights.len());
        for (flow, &weight) in (0..).zip(weights) {
            link.reweigh(flow, weight).unwrap();
        }
        link
    }

    fn reweigh(&mut self, flow: u32, weight: u32) -> Result<(), ConfigError> {
        let head = self.queues[flow as usize].front().copied();
        let max_len = self.scheduler.core.max_len;
        self.scheduler.configure(FlowId(flow), Wf2qConfig { weight, max_len }, head)
    }

    fn drain(&mut self) -> Vec<u32> {
        let mut scheduler = Vec::new();
        while let Some((flow, _)) = self.dequeue() {
            scheduler.push(flow);
            assert_eq!(self.recount(), Ok(()));
        }
        scheduler
    }

    /// Checks `V ≤ F + L` (QFQ Theorem 2; its proof also holds without rounding).
    fn check_lag(&self) -> Result<(), Imbalance> {
        let core = &self.scheduler.core;
        let longest = u128::from(core.max_len) * u128::from(core.inverse_sum);
        for (at, k) in (0..).zip(&self.scheduler.flows).filter(|(_, k)| k.is_backlogged()) {
            holds("V <= F + L", at, core.now <= k.finish + longest)?;
        }
        Ok(())
    }
}

/// The example of Bennett and Zhang: one flow with half of the link and eleven packets, ten with a
/// twentieth and one packet each. WFQ sends ten packets of the first flow in a row. At 18 two flows
/// finish together, and the one that started first goes first.
#[test]
fn a_heavy_flow_with_a_burst_alternates_with_ten_light_ones() {
    let mut link = Link::new(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1);
    for flow in [0; 11].into_iter().chain(1..=10) {
        link.enqueue(flow, 1);
    }
    let alternating = (1..=9).flat_map(|light| [0, light]).chain([10, 0, 0]);
    assert_eq!(link.drain(), alternating.collect::<Vec<_>>());
}

/// Goal: the finish of a flow follows its first packet. Method: flow 1 holds a packet of 900 bytes
/// and one of 100; with the first at its head it finishes after flow 0, with the second before.
#[test]
fn losing_its_first_packet_changes_when_a_flow_finishes() {
    let with = |lose: &dyn Fn(&mut Link)| {
        let mut link = Link::new(&[1, 1], 1_000);
        link.enqueue(0, 500);
        link.enqueue(1, 900);
        link.enqueue(1, 100);
        lose(&mut link);
        assert_eq!(link.recount(), Ok(()));
        link.drain()
    };
    assert_eq!(with(&|_| ()), [0, 1, 1]);
    assert_eq!(with(&|link| link.lose(1, true)), [1, 0]);
    assert_eq!(with(&|link| link.lose(1, false)), [0, 1]);
    assert_eq!(with(&|link| link.lose(0, true)), [1, 1]);
}

#[test]
fn a_new_weight_tells_at_once_when_the_first_packet_finishes() {
    let mut link = Link::new(&[1, 1, 1], 1_000);
    for (flow, len) in [(0, 500), (1, 900), (2, 600)] {
        link.enqueue(flow, len);
    }
    link.reweigh(1, 2).unwrap();
    assert_eq!(link.recount(), Ok(()));
    assert_eq!(link.drain(), [1, 0, 2]);
}

/// Flow 0 is changed before every packet and still gets its share.
#[test]
fn a_flow_that_is_configured_again_and_again_keeps_its_share() {
    for weights in [[5, 5], [4, 6], [1, 7]] {
        let mut link = Link::new(&[5, 15], 1_500);
        let mut sent = [0_u32; 2];
        for flow in 0..2 {
            link.enqueue(flow, 1_500);
        }
        for step in 0..8_000 {
            link.reweigh(0, weights[step % 2]).unwrap();
            let flow = link.scheduler.select().unwrap();
            link.scheduler.served(flow, 1_500, Some(1_500));
            sent[flow.index()] += 1;
            assert_eq!(link.recount(), Ok(()));
        }
        // Between the shares of its two weights; which of the two applies to a packet depends on
        // the turns.
        let share = |weight| 8_000 * weight / (15 + weight);
        assert!(share(weights[0]) <= sent[0] && sent[0] <= share(weights[1]) + 1, "{sent:?}");
    }
}

/// Goal: a new weight changes the start of the next packet, not only its finish. Method: a flow of
/// weight 1 has sent a packet, which is far ahead at its share, and then gets the weight of the
/// other flow, once backlogged and once idle. At its old start it would wait for 98,298,000 bytes.
#[test]
fn a_flow_that_gets_a_larger_weight_waits_no_longer_than_is_promised() {
    for stays in [true, false] {
        let mut link = Link::new(&[1, 65_536], 1_500);
        link.enqueue(0, 1_500);
        for _ in 0..100 {
            link.enqueue(1, 1_500);
        }
        if stays {
            link.enqueue(0, 1_500);
        }
        while link.dequeue().is_some_and(|(flow, _)| flow == 1) {}
        link.reweigh(0, 65_536).unwrap();
        assert_eq!(link.recount(), Ok(()));
        if !stays {
            link.enqueue(0, 1_500);
        }
        let mut waited = 0;
        while link.dequeue().is_some_and(|(flow, _)| flow == 1) {
            waited += 1_500;
        }
        let promise = link.scheduler.guarantee(FlowId(0)).unwrap();
        assert_eq!((waited, promise.latency), (3_000, 6_000), "{stays}");
    }
}

/// Goal: removed flows leave no virtual time that the other flows must make up. Method: half of 64
/// flows of weight 1 have sent a packet and are removed; the others stay, and several rounds later,
/// in the middle of one, a flow of weight 64 arrives. If `V` were not corrected, the others would
/// lag behind it permanently, and the flow would wait for 16 of their packets.
#[test]
fn flows_that_are_removed_put_no_flow_behind() {
    let mut link = Link::new(&[1; 65], 1_500);
    link.remove(64);
    for flow in 0..64 {
        for _ in 0..40 {
            link.enqueue(flow, 1_500);
        }
    }
    let served: Vec<_> = (0..32).filter_map(|_| link.dequeue()).collect();
    for (flow, _) in served {
        link.remove(flow);
        assert_eq!(link.recount(), Ok(()));
    }
    for _ in 0..10 * 64 + 16 {
        link.dequeue();
    }
    link.reweigh(64, 64).unwrap();
    link.enqueue(64, 1_500);
    let waited = (0..).take_while(|_| link.dequeue().is_some_and(|(flow, _)| flow != 64)).count();
    assert!(waited <= 4, "{waited} packets");
}

/// Goal: no debt remains in an idle system. Method: flow 0 has sent ten packets alone, and `F` of
/// the last is 20; without the reset it would be served ten packets after flow 1.
#[test]
fn flows_that_meet_in_an_idle_system_owe_each_other_nothing() {
    let mut link = Link::new(&[1, 1], 1);
    for _ in 0..10 {
        link.enqueue(0, 1);
    }
    assert_eq!(link.drain(), [0; 10]);
    for flow in [1, 1, 1, 0, 0, 0] {
        link.enqueue(flow, 1);
    }
    assert_eq!(link.drain(), [0, 1, 0, 1, 0, 1]);
}

/// While flow 2 keeps the system busy, flow 0 becomes idle with `F = 8`, `V = 2`: it returns at 8.
#[test]
fn a_flow_that_comes_back_early_starts_where_its_last_packet_finished() {
    let mut link = Link::new(&[1, 1, 2], 2);
    link.enqueue(0, 2);
    link.enqueue(2, 2);
    link.enqueue(2, 2);
    link.enqueue(2, 2);
    let mut next = || link.dequeue().map(|(flow, _)| flow);
    assert_eq!((next(), next()), (Some(2), Some(0)));
    link.enqueue(0, 2);
    link.enqueue(1, 2);
    // V = 4: flow 2 has S = 4, F = 8; flow 1 S = 4, F = 12; flow 0 S = 8.
    assert_eq!(link.drain(), [2, 1, 2, 0]);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut link = Link::new(&[7; 2], 1_000);
    let before = std::format!("{:?}", link.scheduler);
    let mut try_config = |flow, weight, max_len| {
        link.scheduler.configure(FlowId(flow), Wf2qConfig { weight, max_len }, None).unwrap_err()
    };
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(try_config(2, 1, 1), unknown);
    for (weight, max_len, what, value, max) in [
        (0, 1_000, "weight", 0, 65_536),
        (65_537, 1_000, "weight", 65_537, 65_536),
        (7, 0, "max_len in bytes", 0, 1_000),
        (7, 1_001, "max_len in bytes", 1_001, 1_000),
    ] {
        let refused = ConfigError::OutOfRange { what, value, min: 1, max };
        assert_eq!(try_config(0, weight, max_len), refused);
    }
    assert_eq!(std::format!("{:?}", link.scheduler), before);
    for max_len in [0, 65_536] {
        assert!(Wf2q::new([Wf2qFlow::EMPTY], max_len).is_err());
    }
}

#[test]
fn the_sum_of_the_weights_has_a_limit_and_flows_that_leave_make_room() {
    let mut link = Link::new(&[1 << 16; 256], 1);
    let mut more = Link::new(&[], 1);
    core::mem::swap(&mut more.scheduler, &mut link.scheduler);
    let mut flows = more.scheduler.flows.clone();
    flows.push(Wf2qFlow::EMPTY);
    more.scheduler.flows = flows;
    let one = Wf2qConfig { weight: 1, max_len: 1 };
    let what = "sum of the weights";
    let refused = ConfigError::OutOfRange { what, value: (1 << 24) + 1, min: 1, max: 1 << 24 };
    assert_eq!(more.scheduler.configure(FlowId(256), one, None), Err(refused));
    more.scheduler.remove(FlowId(3));
    assert_eq!(more.scheduler.configure(FlowId(256), one, None), Ok(()));
    assert_eq!(more.scheduler.config(FlowId(256)), Some(one));
    assert_eq!((more.scheduler.config(FlowId(3)), more.scheduler.max_len(FlowId(3))), (None, None));
}

#[test]
fn calls_that_contradict_the_contract_change_nothing() {
    let mut link = Link::new(&[1, 2, 3], 100);
    link.enqueue(0, 50);
    link.enqueue(1, 60);
    let before = std::format!("{:?}", link.scheduler);
    let wf2q = &mut link.scheduler;
    for flow in [FlowId(2), FlowId(3), FlowId(u32::MAX)] {
        wf2q.served(flow, 1, Some(1));
        wf2q.lost(flow, 1, Some(1));
        wf2q.grew(flow, 1);
    }
    wf2q.backlogged(FlowId(0), 1);
    wf2q.backlogged(FlowId(3), 1);
    wf2q.remove(FlowId(3));
    assert_eq!(std::format!("{:?}", link.scheduler), before);
}

/// Goal: neither the shares nor their sum exceed the configured ones. Method: over a common
/// denominator, for all sets of up to three weights.
#[test]
fn shares_never_add_up_to_more_than_the_link_and_miss_little() {
    const WEIGHTS: [u32; 10] = [1, 2, 3, 5, 750, 32_769, 40_000, 60_000, 65_535, 65_536];
    for a in WEIGHTS {
        for b in WEIGHTS {
            for c in WEIGHTS {
                let all = [a, b, c];
                let per_byte = u128::from(inverse_sum(all.iter().sum()));
                for weight in all {
                    // φ = per_byte / inverse against weight / sum.
                    let asked = u128::from(inverse(weight)) * u128::from(weight);
                    let sum: u128 = all.map(u128::from).iter().sum();
                    let got = per_byte * sum;
                    assert!(got <= asked && asked - got <= asked >> 23, "{weight} of {all:?}");
                }
            }
        }
    }
    assert_eq!((inverse(1), inverse_sum(1)), (UNIT, UNIT));
    assert!(u64::from(MAX_LEN).checked_mul(UNIT).is_some());
    for exact in [3, 20, 1_000, 1 << 16] {
        assert_eq!(inverse(exact), inverse_sum(exact), "{exact} divides the unit");
    }
    assert_eq!(inverse_sum(1 << 24) + 1, UNIT.div_ceil(1 << 24));
}

/// Plays random weights, lengths and arrivals; with `churn` also losses, and flows that come, go
/// and change.
fn random_run(seed: u64, operations: u32, churn: bool) -> Result<(), Imbalance> {
    let mut random = Xorshift::new(seed);
    let count = 2 + random.below(60);
    let longest = 64 << random.below(10);
    let weights: Vec<_> = (0..count).map(|_| 1 + random.magnitude(15)).collect();
    let mut link = Link::new(&weights, longest);
    for operation in 0..operations {
        let flow = random.below(count);
        // Bursts and pauses: backlogs build up, and the system is sometimes idle.
        let filling = operation >> 9 & 1 == 0;
        match random.below(64) {
            0 if churn => link.lose(flow, operation & 1 == 0),
            1 if churn => link.reweigh(flow, 1 + random.magnitude(15)).unwrap(),
            2 if churn => {
                link.remove(flow);
                link.reweigh(flow, 1 + random.magnitude(15)).unwrap();
            }
            choice if (choice < 36) == filling => {
                link.enqueue(flow, 1 + random.magnitude(16).min(longest));
            }
            _ => drop(link.dequeue()),
        }
        if operation % 16 == 0 {
            link.recount()?;
            if !churn {
                link.check_lag()?;
            }
        }
    }
    Ok(())
}

#[test]
fn the_books_balance_and_virtual_time_is_bounded_over_a_long_random_run() {
    for seed in 1..=60 {
        assert_eq!(random_run(seed, 10_000, false), Ok(()), "{seed}");
    }
}

#[test]
fn the_books_balance_while_flows_come_and_go_and_change() {
    for seed in 1..=60 {
        assert_eq!(random_run(seed, 10_000, true), Ok(()), "{seed}");
    }
}

/// Goal: the work of a call is bounded by the height, which is that of an AVL tree. Method:
/// ascending, descending and equal starts; each flow is then removed, in an order that unbalances
/// one side.
#[test]
fn the_tree_is_never_higher_than_an_avl_tree_of_its_flows() {
    const FLOWS: u32 = 4_096;
    // A tree of height h has at least fib(h + 2) - 1 flows.
    let allowed = |flows: u64| {
        let (mut height, mut fewest, mut next) = (0, 1, 2);
        while fewest <= flows {
            (height, fewest, next) = (height + 1, next, fewest + next);
        }
        height
    };
    for start in [|flow| u128::from(flow), |flow| u128::from(FLOWS - flow), |_| 7] {
        let mut flows = vec![Wf2qFlow::EMPTY; FLOWS as usize];
        let mut tree = Tree::EMPTY;
        let root_height = |tree: &mut Tree, flows: &mut Vec<Wf2qFlow>, flow: u32, add: bool| {
            if add {
                (flows[flow as usize].start, flows[flow as usize].finish) = (start(flow), 9);
                tree.insert(flows, flow);
            } else {
                tree.remove(flows, flow);
            }
            flows.iter().map(|node| node.height).max().unwrap_or(0)
        };
        for flow in 0..FLOWS {
            let height = root_height(&mut tree, &mut flows, flow, true);
            assert!(u32::from(height) <= allowed(u64::from(flow) + 1), "{height} at {flow}");
        }
        for flow in 0..FLOWS - 1 {
            let height = root_height(&mut tree, &mut flows, flow, false);
            assert!(u32::from(height) <= allowed(u64::from(FLOWS - 1 - flow)), "{height}");
        }
        assert_eq!(tree.first(&flows), FLOWS - 1);
    }
}

#[test]
fn a_flow_takes_one_cache_line() {
    assert_eq!((size_of::<Wf2qFlow>(), align_of::<Wf2qFlow>()), (64, 64));
    assert!(size_of::<Wf2q<[Wf2qFlow; 0]>>() <= 128);
}
