//! Proven bounds, tested with random and adversarial arrivals.
//!
//! 120 trials for each flow scheduler, 10,000 with `FREEBOARD_TESTS=full`; `FREEBOARD_TRIALS` sets
//! another number.

use conformance::bounds::{
    Bound, Burst, Changeable, Changing, Depth, FlowPlan, Histories, Outcome, Promising,
    SparseFirst, Trial, Trials, Worst, counterexample, play, play_changing,
};
use conformance::effort::effort;
use freeboard::sched_core::{
    Aggregate, Drr, DrrFlow, FlowId, FlowScheduler, PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus,
    Wf2q, Wf2qFlow,
};

/// Returns the number of sequences of operations for each flow scheduler.
fn how_many() -> u64 {
    effort(120, 10_000)
}

fn never_exceeded<O: Promising>(seed: u64) -> Outcome {
    never_exceeded_in::<O>(Trials::new(seed))
}

fn never_exceeded_in<O: Promising>(trials: impl Iterator<Item = Trial>) -> Outcome {
    let count = std::env::var("FREEBOARD_TRIALS")
        .map_or(how_many(), |count| count.parse().expect("FREEBOARD_TRIALS is a number"));
    let mut worst = Outcome::default();
    for (number, trial) in (0..count).zip(trials) {
        // Checks after each arrival cost as much as everything else.
        let depth = if number % 16 == 0 { Depth::Steps } else { Depth::Packets };
        let outcome = match play::<O>(&trial, depth) {
            Ok(outcome) => outcome,
            Err(imbalance) => panic!("trial {number}: {imbalance}\n{trial}"),
        };
        for bound in Bound::ALL {
            let found = outcome.of(bound);
            let name = bound.name();
            assert!(found.ratio() <= 1.0, "trial {number}: {name} {found:?}\n{trial}");
        }
        worst.merge(&outcome);
    }
    for bound in Bound::ALL {
        show(bound.name(), worst.of(bound));
    }
    println!("{count} trials, {} packets", worst.packets);
    worst
}

/// Returns the minimum ratio of the worst trial to its bound; half of it if fewer trials run. A
/// bound that no trial approaches is not tested.
fn near(ratio: f64) -> f64 {
    effort(ratio / 2.0, ratio)
}

fn show(what: &str, worst: Worst) {
    println!("{what}: {:.4} {worst:?}", worst.ratio());
}

/// Goal: QFQ+ keeps the bound of QFQ with a budget for a packet, and three packets more at its
/// share. Method: random trials with flows in classes of two to eight; the longest packet
/// determines how many may share an aggregate, one to eight.
#[test]
fn qfq_plus_keeps_its_wfi_bounds() {
    let trials = Trials::new(3)
        .zip(0_u32..)
        .map(|(trial, number)| trial.with_classes(2 + number as usize % 7, number / 7 % 8));
    let worst = never_exceeded_in::<QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>>>(trials);
    assert!(worst.of(Bound::AnyInstant).ratio() > near(0.6), "the trials are hard: {worst:?}");
}

/// Goal: each term of the bound of QFQ+ is as documented. Method: four flows of weight 1 in
/// aggregates of two, so `φ` is 1/4 and `φ'` 1/2, calculated manually for longest packets at which
/// either term of the maximum is the larger.
#[test]
fn the_bound_of_qfq_plus_is_the_one_computed_by_hand() {
    let promised = |longest, max_len| {
        let (flows, aggregates) = ([PlusFlow::EMPTY; 4], [Aggregate::EMPTY; 2]);
        let mut plus =
            QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; 2], longest, 2).expect("in range");
        for flow in (0..4).map(FlowId) {
            plus.configure(flow, QfqConfig { weight: 1, max_len }, None).expect("in range");
        }
        let promise = plus.guarantee(FlowId(3)).expect("all are added");
        assert_eq!((promise.share.link_of(1), promise.fairness), (4, u64::MAX));
        promise.latency
    };
    // B = 2,000, s = 128: 384 + 1,000 + 50 and 256 + 1,500, and (298 + 100)/2 for the turns, of a
    // quarter
    assert_eq!(promised(1_000, 100), 4 * (1_756 + 199));
    // B = 200: 384 + 100 + 50 and 256 + 150
    assert_eq!(promised(100, 100), 4 * (534 + 199));
}

#[test]
fn qfq_keeps_its_wfi_bounds() {
    let worst = never_exceeded::<Qfq<Vec<QfqFlow>>>(1);
    show("3φσ + 2φL, one length, at completion", worst.one_length);
    show("3φσ + 2φL", worst.any_length);
    show("B-WFI as if all flows counted", worst.all_count);
    assert!(worst.one_length.ratio() <= 1.0, "it holds for flows of one packet length");
    assert!(worst.any_length.ratio() > 1.2, "it does not hold for all, and the trials are hard");
}

/// Goal: with many flows of all kinds eq. 17, the limit of `V` and the idle weights interact.
/// Method: the flows of seven random trials at one link, 35 on average.
#[test]
fn qfq_keeps_its_wfi_bounds_in_a_crowd() {
    let mut trials = Trials::new(4);
    let crowds = core::iter::from_fn(|| {
        let mut crowd = trials.next()?;
        for more in trials.by_ref().take(6) {
            crowd.max_len = crowd.max_len.max(more.max_len);
            crowd.flows.extend(more.flows);
        }
        Some(crowd)
    });
    never_exceeded_in::<Qfq<Vec<QfqFlow>>>(crowds.take(effort(10, 500)));
}

#[test]
fn wf2q_keeps_its_wfi_bounds() {
    let worst = never_exceeded::<Wf2q<Vec<Wf2qFlow>>>(3);
    show("L_k + φ(L − L_k), one length, at completion", worst.one_length);
    assert!(worst.one_length.ratio() > near(1.99), "V grows by whole packets: {worst:?}");
    let hard = |bound| worst.of(bound).ratio() > near(0.9);
    assert!(Bound::ALL.into_iter().all(hard), "the trials are hard: {worst:?}");
}

#[test]
fn drr_keeps_its_wfi_bounds() {
    let worst = never_exceeded::<Drr<Vec<DrrFlow>>>(2);
    let hard = |bound| worst.of(bound).ratio() > near(0.9);
    assert!(Bound::ALL.into_iter().all(hard), "the trials are hard: {worst:?}");
}

/// Runs a quarter as many random sequences of operations, in which flows are reconfigured, added
/// and removed and lose packets. Returns the worst over intervals that begin with the last change,
/// and over those that begin when all bounds are claimed to hold again.
fn never_exceeded_while_flows_change<O: Changeable>(
    histories: impl Iterator<Item = Changing>,
) -> [Outcome; 2] {
    let mut worst = [Outcome::default(); 2];
    for (number, history) in (0..how_many() / 4).zip(histories) {
        let depth = if number % 16 == 0 { Depth::Steps } else { Depth::Packets };
        let outcomes = match play_changing::<O>(&history, depth) {
            Ok(outcomes) => outcomes,
            Err(imbalance) => panic!("history {number}: {imbalance}\n{history}"),
        };
        for (worst, outcome) in worst.iter_mut().zip(&outcomes) {
            for bound in Bound::ALL {
                let (found, name) = (outcome.of(bound), bound.name());
                assert!(found.ratio() <= 1.0, "history {number}: {name} {found:?}\n{history}");
            }
            worst.merge(outcome);
        }
    }
    for (when, worst) in ["at once", "settled"].into_iter().zip(&worst) {
        Bound::ALL.into_iter().for_each(|bound| {
            show(&format!("{when}, {}", bound.name()), worst.of(bound));
        });
    }
    worst
}

/// Goal: WF²Q+ keeps its bounds for reconfigured flows, both at once and after its bounds hold
/// without change.
#[test]
fn wf2q_keeps_what_it_says_of_flows_that_change() {
    let [at_once, settled] =
        never_exceeded_while_flows_change::<Wf2q<Vec<Wf2qFlow>>>(Histories::new(5));
    assert!(at_once.of(Bound::AnyInstant).ratio() > near(0.7), "{at_once:?}");
    assert!(settled.of(Bound::AnyInstant).ratio() > near(0.9), "{settled:?}");
}

/// Goal: the bounds of QFQ hold again once no flow is backlogged.
#[test]
fn qfq_keeps_its_wfi_bounds_again_once_idle() {
    let [_, settled] = never_exceeded_while_flows_change::<Qfq<Vec<QfqFlow>>>(Histories::new(6));
    assert!(settled.of(Bound::AnyInstant).ratio() > near(0.9), "{settled:?}");
}

/// Goal: the bounds of QFQ+ hold again once no flow is backlogged. Method: as without changes,
/// flows in classes of two to eight.
#[test]
fn qfq_plus_keeps_its_wfi_bounds_again_once_idle() {
    let histories = Histories::new(7).zip(0_u32..).map(|(mut history, number)| {
        history.trial = history.trial.with_classes(2 + number as usize % 7, number / 7 % 8);
        history
    });
    let [_, settled] = never_exceeded_while_flows_change::<
        QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>>,
    >(histories);
    assert!(settled.of(Bound::AnyInstant).ratio() > near(0.4), "{settled:?}");
}

/// Goal: the bounds of DRR hold at once.
#[test]
fn drr_keeps_its_wfi_bounds_while_flows_change() {
    let [_, settled] = never_exceeded_while_flows_change::<Drr<Vec<DrrFlow>>>(Histories::new(8));
    assert!(settled.of(Bound::AnyInstant).ratio() > near(0.8), "{settled:?}");
}

/// Goal: with sparse flows first, flows that start and stop are at most one more turn ahead.
#[test]
fn drr_with_sparse_flows_first_keeps_its_wfi_bounds() {
    let worst = never_exceeded::<SparseFirst>(5);
    // Flows that gain the second quantum, and their victim, are rare by chance; the search comes
    // closer.
    let hard = |bound, ratio| worst.of(bound).ratio() > near(ratio);
    assert!(hard(Bound::AnyInstant, 0.65) && hard(Bound::Fairness, 0.85), "hard: {worst:?}");
}

/// The bound `3φσ + 2φL` quoted for QFQ does not hold if packet lengths vary; the proven bound
/// does, and is reached to within 0.1 %.
#[test]
fn the_bound_quoted_for_qfq_is_exceeded_by_a_third() {
    let trial = counterexample(4_096, 1_024, 8_191, 1_024);
    let depth = effort(Depth::Packets, Depth::Steps);
    let outcome = play::<Qfq<Vec<QfqFlow>>>(&trial, depth).unwrap();
    let (quoted, proven) = (outcome.any_length, outcome.of(Bound::AnyInstant));
    assert_eq!((quoted.flows[0], quoted.measured, quoted.bound), (0, 4_095, 3_076));
    assert_eq!((proven.flows[0], proven.measured, proven.bound), (0, 4_095, 4_098));
}

/// Goal: the bound of DRR must include the packet on the wire. Method: flow 1 becomes empty with a
/// packet, returns, and has a whole turn and its overdraft, all before the first turn of flow 0: 94
/// bytes of the packet on the wire and two packets of 255. Flow 0 lags by 486.3 bytes, while the
/// bound without the packet on the wire is 460.2.
#[test]
fn drr_falls_behind_by_the_packet_on_the_wire_as_well() {
    let burst = |at, packets, len| Burst { at, packets, first: len, second: len };
    let flow = |weight, max_len, bursts| FlowPlan { weight, max_len, bursts };
    let others = vec![burst(443, 1, 255), burst(448, 3, 255)];
    let flows = vec![flow(803, 63, vec![burst(604, 27, 63)]), flow(2, 255, others)];
    let outcome = play::<Drr<Vec<DrrFlow>>>(&Trial { max_len: 255, flows }, Depth::Steps).unwrap();
    let worst = outcome.of(Bound::AnyInstant);
    assert_eq!((worst.flows[0], worst.measured, worst.bound), (0, 487, 666));
}
