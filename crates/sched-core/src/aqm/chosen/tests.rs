use super::*;
use crate::{
    Blue, BlueState, CeThreshold, CoDel, CoDelState, Cobalt, NoAqm, Pi2, Pi2State, Pie, PieState,
    Probability, Red, RedState,
};
use conformance::Xorshift;
use conformance::effort::effort;

const MS: u64 = 1_000_000;
const FLOWS: usize = 3;

fn chosen(choice: AqmChoice) -> ChosenAqm<[ChosenAqmState; FLOWS], [AqmSetting; 8]> {
    ChosenAqm::new([ChosenAqmState::EMPTY; FLOWS], [AqmSetting::EMPTY; 8], choice, 5).unwrap()
}

fn codel_params() -> CoDelParams {
    CoDelParams::new(Nanos::from_millis(2), Nanos::from_millis(40)).with_mtu(300)
}

/// Steps of BLUE so large that every sequence of operations has draws.
fn cobalt_params() -> CobaltParams {
    let steps = [1 << 28, 1 << 26].map(Probability::from_raw);
    let params = CobaltParams::new(Nanos::from_millis(2), Nanos::from_millis(40));
    params.with_mtu_time(Nanos(100_000)).with_mtu(300).with_steps(steps[0], steps[1])
}

fn red_params() -> RedParams {
    let params = RedParams::new(2_000, 8_000).with_weight(2).gentle().adaptive();
    params.with_max_probability(Probability::from_raw(1 << 29)).with_packet_time(Nanos(100_000))
}

fn blue_params() -> BlueParams {
    let steps = [1 << 28, 1 << 26].map(Probability::from_raw);
    let params = BlueParams::DEFAULT.with_steps(steps[0], steps[1]).with_freeze(Nanos(10 * MS));
    params.with_longest_wait(Nanos(4 * MS))
}

fn pie_params() -> PieParams {
    let params =
        PieParams::new(Nanos(MS)).with_period(Nanos(3 * MS)).with_max_burst(Nanos(20 * MS));
    params.with_gains(10_000, 100_000).with_mtu(300)
}

fn pi2_params() -> Pi2Params {
    let params = Pi2Params::new(Nanos(MS)).with_period(Nanos(3 * MS));
    params.with_gains(10_000, 100_000).with_mtu(300)
}

fn l4s() -> L4sParams {
    L4sParams::new(Nanos::from_millis(1)).with_mtu(1)
}

fn head(now: u64, sojourn: u64, bytes_behind: u32, ecn: Ecn) -> Head {
    let (now, sojourn) = (Nanos(now), Nanos(sojourn));
    Head { now, sojourn, bytes_behind, packets: 1 + bytes_behind, ecn }
}

/// Runs both AQMs through one random sequence of arrivals, heads, overflows, emptied queues and
/// removed flows, and compares verdicts and foreseen verdicts; a glance must not pass where a close
/// look does not. Queues are short and long in turn, with pauses, and the clock sometimes steps
/// back. Returns passes, signals and drops, passes at a glance, signalled arrivals, and packets
/// that leave the state of a queue that is not clean unchanged.
fn lockstep<A: Aqm>(
    mut alone: A,
    mut chosen: ChosenAqm<[ChosenAqmState; FLOWS], [AqmSetting; 8]>,
    seed: u64,
) -> [u32; 6] {
    let (mut rng, mut now, mut seen) = (Xorshift::new(seed), 0_u64, [0; 6]);
    // The first packet of a flow finds its queue empty.
    let mut is_first = [true; FLOWS + 1];
    for step in 0..effort(20_000, 400_000_u32) {
        now += u64::from(rng.below(4_000_000));
        if rng.below(2_000) == 0 {
            now += u64::from(rng.below(1 << 30)) << rng.below(19);
        }
        if rng.below(500) == 0 {
            now = now.saturating_sub(u64::from(rng.below(1 << 30)));
        }
        // The last flow has no state.
        let flow = FlowId(rng.below(FLOWS as u32 + 1));
        let packets = match core::mem::take(&mut is_first[flow.index()]) {
            true => 0,
            false => rng.below(if step % 2_000 < 1_000 { 30 } else { 3 }),
        };
        let held = crate::Backlog { packets, bytes: packets * 400 };
        let packet = Packet { ecn: Ecn::from_bits(rng.byte()), ..Packet::new(0, 100) };
        let offer = Offer { now: Nanos(now), packet, held };
        let glance = chosen.admit(flow, offer, Look::Glance);
        let [one, other] =
            [alone.admit(flow, offer, Look::Close), chosen.admit(flow, offer, Look::Close)];
        assert_eq!(one, other, "step {step}: {offer:?}");
        assert!(glance == Admission::Unclear || glance == other, "step {step}: {offer:?}");
        seen[4] += u32::from(one != Admission::Accept);
        match rng.below(64) {
            0 => {
                alone.forget(flow);
                chosen.forget(flow);
                is_first[flow.index()] = true;
            }
            1 | 2 => {
                alone.overflowed(flow);
                chosen.overflowed(flow);
            }
            3 => {
                alone.emptied(flow);
                chosen.emptied(flow);
            }
            _ => {}
        }
        let long = if step % 2_000 < 1_000 { 3 * MS } else { 0 };
        let sojourn = (long + u64::from(rng.below(2_500_000))) & !1_023;
        let head = head(now, sojourn, rng.below(20) * 100, Ecn::from_bits(rng.byte()));
        let (mut first, mut second) = (alone.foresee(flow), chosen.foresee(flow));
        for _ in 0..3 {
            assert_eq!(first(head), second(head), "step {step}: {head:?}");
        }
        drop((first, second));
        let glance = chosen.judge(flow, head, Look::Glance);
        if chosen.leaves(flow, head) && !chosen.states[flow.index()].is_quiet() {
            let mut judged = chosen.clone();
            let verdict = judged.judge_closely(flow, head);
            let passes = (Verdict::Pass, chosen.states);
            assert_eq!((verdict, judged.states), passes, "step {step}: {head:?}");
            seen[5] += 1;
        }
        let (one, other) =
            (alone.judge(flow, head, Look::Close), chosen.judge(flow, head, Look::Close));
        assert_eq!(one, other, "step {step}: {head:?}");
        assert!(glance == Verdict::Unclear || glance == other, "step {step}: {head:?}");
        seen[3] += u32::from(glance != Verdict::Unclear);
        let kinds = [Verdict::Pass, Verdict::Signal, Verdict::Drop];
        seen[kinds.iter().position(|&kind| kind == one).unwrap()] += 1;
    }
    seen
}

/// Goal: a selected AQM equals the AQM alone, in every verdict and draw.
#[test]
fn each_judges_as_it_does_alone() {
    let codel = CoDel::new([CoDelState::EMPTY; FLOWS], codel_params()).unwrap();
    let seen = lockstep(codel, chosen(AqmChoice::CoDel(codel_params())), 1);
    assert!(seen[2] == 0 && [0, 1, 3, 5].iter().all(|&at| seen[at] > 200), "{seen:?}");
    let cobalt = Cobalt::new([CobaltState::EMPTY; FLOWS], cobalt_params(), 5).unwrap();
    let seen = lockstep(cobalt, chosen(AqmChoice::Cobalt(cobalt_params())), 2);
    assert!(seen[4] == 0 && [0, 1, 2, 3, 5].iter().all(|&at| seen[at] > 200), "{seen:?}");
    let seen = lockstep(NoAqm, chosen(AqmChoice::None), 3);
    assert!(seen[1..3] == [0; 2] && 4 * seen[3] > 2 * seen[0] && seen[4] == 0, "{seen:?}");
    let red = Red::new([RedState::EMPTY; FLOWS], red_params(), 5).unwrap();
    let seen = lockstep(red, chosen(AqmChoice::Red(red_params())), 4);
    assert!(seen[1..3] == [0; 2] && seen[4] > 500, "{seen:?}");
    let blue = Blue::new([BlueState::EMPTY; FLOWS], blue_params(), 5).unwrap();
    let seen = lockstep(blue, chosen(AqmChoice::Blue(blue_params())), 5);
    assert!(seen[1..3] == [0; 2] && seen[4] > 500, "{seen:?}");
    let pie = Pie::new([PieState::EMPTY; FLOWS], pie_params(), 5).unwrap();
    let seen = lockstep(pie, chosen(AqmChoice::Pie(pie_params())), 6);
    assert!(seen[1..3] == [0; 2] && seen[4] > 500, "{seen:?}");
    let pi2 = Pi2::new([Pi2State::EMPTY; FLOWS], pi2_params(), 5).unwrap();
    let seen = lockstep(pi2, chosen(AqmChoice::Pi2(pi2_params())), 7);
    assert!(seen[1..3] == [0; 2] && seen[4] > 500, "{seen:?}");
}

/// Goal: the threshold equals [`CeThreshold`] around an AQM, except for packets with few bytes
/// behind. Method: both over one sequence of operations; a head has 100 bytes behind or none, and
/// where it has none, only `CeThreshold` marks it.
#[test]
fn the_threshold_marks_as_one_beside_the_aqm_does() {
    struct ButForLast<A>(CeThreshold<A>);
    impl<A: Aqm> Aqm for ButForLast<A> {
        const MAX_DROPS: u32 = A::MAX_DROPS;
        fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission {
            self.0.admit(flow, offer, look)
        }
        fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
            if head.bytes_behind > 1 {
                return self.0.judge(flow, head, look);
            }
            self.0.inner_mut().judge(flow, head, look)
        }
        fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
            let mut inner = self.0.inner().foresee(flow);
            move |head| match inner(head) {
                Verdict::Pass
                    if head.bytes_behind > 1
                        && head.ecn == Ecn::Ect1
                        && head.sojourn > Nanos(MS) =>
                {
                    Verdict::Signal
                }
                verdict => verdict,
            }
        }
        fn overflowed(&mut self, flow: FlowId) {
            self.0.overflowed(flow);
        }
        fn emptied(&mut self, flow: FlowId) {
            self.0.emptied(flow);
        }
        fn forget(&mut self, flow: FlowId) {
            self.0.forget(flow);
        }

        #[inline]
        fn assign(&mut self, flow: FlowId, tin: u8) {
            self.0.assign(flow, tin);
        }

        fn swap(&mut self, flow: FlowId, other: FlowId) {
            self.0.swap(flow, other);
        }
    }
    fn beside<A: Aqm>(inner: A) -> ButForLast<A> {
        ButForLast(CeThreshold::new(inner, Nanos(MS)).unwrap().for_ect1_only())
    }
    fn with_l4s(choice: AqmChoice) -> ChosenAqm<[ChosenAqmState; FLOWS], [AqmSetting; 8]> {
        let mut aqm = chosen(choice);
        aqm.set_l4s(Some(l4s())).unwrap();
        aqm
    }
    let codel = CoDel::new([CoDelState::EMPTY; FLOWS], codel_params()).unwrap();
    let seen = lockstep(beside(codel), with_l4s(AqmChoice::CoDel(codel_params())), 4);
    assert!(seen[1] > 2_000 && seen[3] > 500, "{seen:?}");
    let cobalt = Cobalt::new([CobaltState::EMPTY; FLOWS], cobalt_params(), 5).unwrap();
    let seen = lockstep(beside(cobalt), with_l4s(AqmChoice::Cobalt(cobalt_params())), 6);
    assert!(seen[1] > 2_000 && seen[2] > 200, "{seen:?}");
    let seen = lockstep(beside(NoAqm), with_l4s(AqmChoice::None), 7);
    assert!(seen[1] > 2_000 && seen[2] == 0, "{seen:?}");
}

/// Goal: marks require ECT(1), a wait above the threshold, and more than a packet behind. Method:
/// each condition at its edge.
#[test]
fn each_condition_of_a_mark_is_needed() {
    for choice in [AqmChoice::None, AqmChoice::CoDel(CoDelParams::INTERNET)] {
        let mut aqm = chosen(choice);
        let mut judge = |l4s, head| {
            aqm.set_l4s(l4s).unwrap();
            let glance = aqm.judge(FlowId(0), head, Look::Glance);
            let verdict = aqm.judge(FlowId(0), head, Look::Close);
            assert!(glance == verdict || glance == Verdict::Unclear);
            verdict
        };
        let on = Some(L4sParams::new(Nanos(MS)));
        let marked = head(9 * MS, MS + 1, 1_515, Ecn::Ect1);
        assert_eq!(judge(on, marked), Verdict::Signal);
        assert_eq!(judge(None, marked), Verdict::Pass);
        assert_eq!(judge(on, Head { sojourn: Nanos(MS), ..marked }), Verdict::Pass);
        assert_eq!(judge(on, Head { bytes_behind: 1_514, ..marked }), Verdict::Pass);
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce] {
            assert_eq!(judge(on, Head { ecn, ..marked }), Verdict::Pass, "{ecn:?}");
        }
    }
}

/// Goal: other parameters keep the state, another AQM starts clean, and an invalid value changes
/// nothing.
#[test]
fn another_choice_begins_without_a_history() {
    let late = head(1_000 * MS, 9 * MS, 9_000, Ecn::NotEct);
    let mut aqm = chosen(AqmChoice::CoDel(CoDelParams::INTERNET));
    assert_eq!(aqm.judge(FlowId(1), late, Look::Close), Verdict::Pass);
    let stands = aqm.states[1];
    assert_ne!(stands, ChosenAqmState::EMPTY);
    aqm.set_choice(AqmChoice::CoDel(codel_params())).unwrap();
    assert_eq!((aqm.states[1], aqm.choice()), (stands, AqmChoice::CoDel(codel_params())));

    let refused = AqmChoice::Cobalt(CobaltParams::new(Nanos(0), Nanos(MS)));
    let error = aqm.set_choice(refused).unwrap_err();
    let range = ("COBALT target in ns", 0, SHORTEST, MS);
    let (what, value, min, max) = range;
    assert_eq!(error, ConfigError::OutOfRange { what, value, min, max });
    assert_eq!((aqm.states[1], aqm.choice()), (stands, AqmChoice::CoDel(codel_params())));
    let refused = AqmChoice::CoDel(CoDelParams::new(Nanos(MS), Nanos(0)));
    assert!(aqm.set_choice(refused).is_err());
    assert!(ChosenAqm::new([ChosenAqmState::EMPTY], [AqmSetting::EMPTY], refused, 1).is_err());

    let l4s = Some(L4sParams::new(Nanos(MS)));
    aqm.set_l4s(l4s).unwrap();
    for bad in [SHORTEST - 1, MAX_INTERVAL.0 + 1].map(|ns| L4sParams::new(Nanos(ns))) {
        assert!(aqm.set_l4s(Some(bad)).is_err());
    }
    let long = Packet::MAX_LEN + 1;
    for mtu in [0, long] {
        let (what, value) = ("L4S MTU in bytes", mtu.into());
        let (min, max) = (1, Packet::MAX_LEN.into());
        let error = aqm.set_l4s(Some(L4sParams::new(Nanos(MS)).with_mtu(mtu))).unwrap_err();
        assert_eq!(error, ConfigError::OutOfRange { what, value, min, max });
    }
    assert_eq!(aqm.l4s(), l4s);

    aqm.set_choice(AqmChoice::Cobalt(cobalt_params())).unwrap();
    assert_eq!(aqm.states, [ChosenAqmState::EMPTY; FLOWS]);
    assert_eq!(aqm.l4s(), l4s);
    assert_eq!(size_of::<ChosenAqmState>(), size_of::<CoDelState>());
}

/// Goal: the words of both states decode to them, and the first word is 0 as documented.
#[test]
fn states_come_back_from_their_words() {
    let mut rng = Xorshift::new(9);
    let mut quiet = [0; 2];
    let mut codel = CoDel::new([CoDelState::EMPTY], codel_params()).unwrap();
    let mut cobalt = Cobalt::new([CobaltState::EMPTY], cobalt_params(), 5).unwrap();
    let (mut of_codel, mut of_cobalt) =
        (chosen(AqmChoice::CoDel(codel_params())), chosen(AqmChoice::Cobalt(cobalt_params())));
    for step in 0..20_000_u64 {
        let long = if step % 512 < 256 { 3 * MS } else { 0 };
        let now = step * MS;
        let head = head(now, long, rng.below(9) * 100, Ecn::NotEct);
        if rng.below(99) == 0 {
            cobalt.overflowed(FlowId(0));
            of_cobalt.overflowed(FlowId(0));
        }
        let _ =
            (codel.judge(FlowId(0), head, Look::Close), cobalt.judge(FlowId(0), head, Look::Close));
        let _ = (
            of_codel.judge(FlowId(0), head, Look::Close),
            of_cobalt.judge(FlowId(0), head, Look::Close),
        );
        // Short and below the target, the AQM alone passes at a glance if and only if the first
        // word is 0.
        let short = Head { sojourn: Nanos(0), ..head };
        let glances = [
            codel.judge(FlowId(0), short, Look::Glance),
            cobalt.judge(FlowId(0), short, Look::Glance),
        ];
        let states = [of_codel.states[0], of_cobalt.states[0]];
        for (at, (glance, state)) in glances.into_iter().zip(states).enumerate() {
            assert_eq!(glance == Verdict::Pass, state.words[0] == 0, "step {step}: {state:?}");
            quiet[at] += u32::from(state.words[0] == 0);
        }
    }
    assert!(quiet.iter().all(|&of| (100..19_900).contains(&of)), "{quiet:?}");
}
