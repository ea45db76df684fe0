//! PIE and PI2 under every flow scheduler.

use crate::aqm::{Play, booked, live, queues, with_every_flow_scheduler};
use conformance::catalog::entry::{QUICK_PI2, QUICK_PIE};
use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Dial, Match, Operations, Peeked, Shifted};
use conformance::sides::FLOWS;
use freeboard::sched_core::{
    Aqm, DropPolicy, DropReason, FlowId, FlowScheduler, Pi2, Pi2State, Pie, PieState, Probability,
    Scheduler, Volume,
};

/// Compares sequences at any times with queues that receive additional peeks and run at shifted
/// times, up to the maximum time and past it; then plays small steps in which the AQM acts on every
/// flow.
struct Kept<A>(A);

impl<A: Aqm + Clone> Play for Kept<A> {
    fn play<O, D>(&self, seed: u64, scheduler: O, policy: D)
    where
        O: FlowScheduler<Config: Dial> + Clone,
        D: DropPolicy<O> + Clone,
    {
        let subject = || queues(scheduler.clone(), self.0.clone()).with_drop_policy(policy.clone());
        let play = |by: u64, twin: &mut dyn FnMut() -> Box<dyn ConfigurableScheduler>| {
            let mut both = Match::new(Shifted::new(subject(), by), twin()).marking_arrivals();
            for (step, operation) in Operations::new(seed).take(effort(2_000, 100_000)).enumerate()
            {
                both.step(operation, step % 16 == 0).unwrap();
            }
            assert_eq!(both.subject.counters().dropped_for(DropReason::Aqm), Volume::ZERO);
        };
        play(0, &mut || Box::new(Peeked::new(subject())));
        for by in [1 << 31, (1 << 32) - 1024, 1 << 53] {
            play(0, &mut || Box::new(Shifted::new(subject(), by)));
        }
        let late = u64::MAX - (1 << 33);
        play(late, &mut || Box::new(Peeked::new(Shifted::new(subject(), late))));

        let mut queues = subject();
        let pool = live(seed, &mut queues);
        for (flow, told) in pool.told.into_iter().enumerate() {
            booked(&queues, flow, told);
            assert!(told.refused >= 5 && told.marked >= 5, "flow {flow}: {told:?}");
        }
        let dropped = queues.counters().dropped_for(DropReason::Aqm);
        assert_eq!(dropped, Volume::ZERO, "told at arrival only");
        queues.remove_flow(FlowId(0), &mut |_, _| {});
    }
}

/// Goal: with PIE in each queue every handle is returned once, the counters are correct, `peek`
/// predicts the next packet, shifted times have no effect, and ECN-capable packets are marked.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_pie() {
    let mut params = QUICK_PIE;
    params.mark_up_to = Probability::ALWAYS; // the probability of these short queues is seldom low
    with_every_flow_scheduler(&Kept(Pie::new([PieState::EMPTY; FLOWS], params, 7).unwrap()));
}

/// Goal: the contract holds with PI2.
#[test]
fn every_flow_scheduler_keeps_the_contract_under_pi2() {
    with_every_flow_scheduler(&Kept(Pi2::new([Pi2State::EMPTY; FLOWS], QUICK_PI2, 7).unwrap()));
}
