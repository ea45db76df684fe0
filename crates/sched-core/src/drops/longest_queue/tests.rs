use super::*;
use crate::tests::link::Beside;
use crate::{ConfigError, Descriptor, FlowQueues, Limits, Nanos, Needs, Packet, Queue, Scheduler};
use conformance::Xorshift;
use conformance::effort::effort;
use std::vec;
use std::vec::Vec;

const FLOWS: u32 = 5;

/// Serves the lowest number first; accepts packets of at most 99 bytes times the configured factor.
struct Lowest {
    factor: [Option<u32>; FLOWS as usize],
    backlogged: [bool; FLOWS as usize],
}

impl FlowScheduler for Lowest {
    type Config = u32;

    fn flows(&self) -> u32 {
        FLOWS
    }

    fn configure(
        &mut self,
        flow: FlowId,
        factor: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        if factor == 0 {
            let what = "factor";
            return Err(ConfigError::OutOfRange { what, value: 0, min: 1, max: 9 });
        }
        self.factor[flow.index()] = Some(factor);
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        self.factor[flow.index()] = None;
        self.backlogged[flow.index()] = false;
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        *self.factor.get(flow.index())?
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.config(flow).map(|factor| 99 * factor)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.backlogged[flow.index()] = true;
    }

    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    fn select(&self) -> Option<FlowId> {
        (0..FLOWS).map(FlowId).find(|flow| self.backlogged[flow.index()])
    }

    fn served(&mut self, flow: FlowId, _len: u32, next_head: Option<u32>) {
        self.backlogged[flow.index()] = next_head.is_some();
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        self.backlogged[flow.index()] = head.is_some();
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: true, counts_bytes: true, common_max_len: 0 }
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for at in 0..FLOWS {
            let counted = flows(FlowId(at)).backlog.packets > 0;
            let booked = self.backlogged[FlowId(at).index()];
            Imbalance::check("lowest", at, booked.into(), counted.into())?;
        }
        Ok(())
    }
}

type Longest = LongestQueueDrop<[LongestFlow; FLOWS as usize]>;

fn longest() -> Longest {
    LongestQueueDrop::new([LongestFlow::EMPTY; FLOWS as usize])
}

fn lowest() -> Lowest {
    Lowest { factor: [None; FLOWS as usize], backlogged: [false; FLOWS as usize] }
}

/// Checks the documented bounds, given what each flow holds and whether it is single.
fn promises_hold(held: &[(u32, bool)], victim: Option<FlowId>) {
    let backlogged = || held.iter().filter(|(bytes, _)| *bytes > 0);
    let Some(victim) = victim else {
        return assert_eq!(backlogged().count(), 0);
    };
    let (bytes, _) = held[victim.index()];
    assert!(bytes > 0);
    let listed = backlogged().filter(|(_, single)| !single).map(|(bytes, _)| u64::from(*bytes));
    let longest = listed.max().unwrap_or(0);
    assert!(4 * u64::from(bytes) > longest, "{bytes} of {longest}");
    let least = longest.saturating_sub(4_096.max(longest / 16));
    assert!(longest == 0 || u64::from(bytes) > least, "{bytes} of {longest}");
    // With at most eight flows all single ones are examined.
    let single = backlogged().filter(|(_, single)| *single).map(|(bytes, _)| *bytes).max();
    assert!(held.len() > 8 || single.is_none_or(|single| bytes >= single));
}

/// Goal: after any operations, the victim holds more than a quarter of what each flow in a class
/// holds, and at least as much as each single flow if there are at most eight; the flow scheduler
/// next to it receives every notification. Method: 100,000 random operations on a full buffer; byte
/// counts come from the queues, and the recount of the flow scheduler is part of the recount.
#[test]
fn the_victim_is_about_the_longest_queue_whatever_happened() {
    let limits = Limits { packets: 24, bytes: 4_000 };
    let mut queues =
        FlowQueues::with_own_victim(lowest(), [Queue::EMPTY; 5], [Descriptor::EMPTY; 64], limits)
            .with_drop_policy(longest());
    let mut seed = 7_u32;
    let mut single = [true; FLOWS as usize];
    let mut free: Vec<u32> = (0..64).collect();
    for step in 0..100_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let flow = FlowId((seed >> 8) % FLOWS);
        let len = 1 + (seed >> 13) % 6 * 99;
        let mut back = Vec::new();
        let sink = &mut |packet: Packet, _| back.push(packet.handle);
        let before = queues.flow_backlog(flow).packets;
        match seed >> 28 {
            0..9 => {
                let packet = Packet::new(free.pop().unwrap(), len);
                let outcome = queues.enqueue(Nanos(0), flow, packet, sink);
                let was_full = matches!(
                    outcome,
                    Err(crate::Rejected { reason: crate::RejectReason::Full { .. }, .. })
                );
                // An arriving packet that is itself the victim was queued for a moment.
                single[flow.index()] &= before == 0 || outcome.is_err() && !was_full;
                if let Err(rejected) = outcome {
                    back.push(rejected.packet.handle);
                }
            }
            9..14 => {
                let packet = queues.dequeue(Nanos(0), sink);
                back.extend(packet.map(|packet| packet.handle));
            }
            14 => {
                let known = queues.config(flow).is_some();
                let factor = seed >> 20 & 7;
                assert_eq!(queues.configure(flow, factor).is_ok(), factor > 0);
                assert_eq!(queues.config(flow).is_some(), known || factor > 0);
            }
            _ => queues.remove_flow(flow, sink),
        }
        free.extend(back);
        let mut held = [(0, true); FLOWS as usize];
        for flow in 0..FLOWS as usize {
            let backlog = queues.flow_backlog(FlowId(flow as u32));
            single[flow] |= backlog.packets == 0;
            held[flow] = (backlog.bytes, single[flow]);
        }
        let victim = queues.victim().map(|(flow, end)| {
            assert_eq!(end, DropFrom::Head);
            flow
        });
        promises_hold(&held, victim);
        assert_eq!(queues.recount(), Ok(()), "step {step}");
    }
}

/// Goal: if a fair share of the limit is at least a longest packet, a flow within the documented
/// bounds loses nothing to an arrival of another flow: at most a quarter of the share, or the share
/// minus 4 KiB or a sixteenth. Method: random arrivals and departures of 2 to 40 flows, some of
/// which send much, at limits of 1 to 12 longest packets per flow; for each dropped packet the
/// backlogged flows are counted.
#[test]
fn a_flow_that_holds_what_is_promised_loses_nothing() {
    let closest = fair_parts(99);
    assert!((17..40).contains(&closest), "no history comes near to the bound: {closest}");
    // Where a share is many packets, some flow holds much more than its share.
    fair_parts(4_000);
}

/// Runs with packets of up to `longest` bytes. Returns the largest ratio of a fair share to a
/// victim's backlog, in tenths.
fn fair_parts(longest: u32) -> u32 {
    let (mut lost, mut closest) = (0_u32, 0);
    for seed in 1..=effort(24_u32, 2_000) {
        let mut random = Xorshift::new(seed.into());
        let flows = 2 + random.below(39);
        let limit = flows * longest * (1 + random.below(12));
        let mut drr =
            crate::Drr::new(vec![crate::DrrFlow::EMPTY; flows as usize], longest).unwrap();
        drr.add_all(longest).unwrap();
        let policy = LongestQueueDrop::new(vec![LongestFlow::EMPTY; flows as usize]);
        let (table, room) = (vec![Queue::EMPTY; flows as usize], 1 << 15);
        let descriptors = vec![Descriptor::EMPTY; room];
        let queues = FlowQueues::with_own_victim(drr, table, descriptors, Limits::bytes(limit));
        let mut queues = queues.with_drop_policy(policy);
        let mut free: Vec<u32> = (0..room as u32).collect();
        let mut of = vec![(0, 0); room];
        let greedy = 1 + random.below(flows);
        for _ in 0..3_000 {
            if random.below(5) < 2 {
                let packet = queues.dequeue(Nanos(0), &mut |_: Packet, _| panic!("no drop"));
                free.extend(packet.map(|packet| packet.handle));
                continue;
            }
            let any = random.below(4) == 0;
            let flow = random.below(if any { flows } else { greedy });
            let packet = Packet::new(free.pop().unwrap(), 1 + random.below(longest));
            of[packet.handle as usize] = (flow, packet.len);
            let held = |flow: u32, queues: &FlowQueues<_, (_, _), _, _>| {
                queues.flow_backlog(FlowId(flow)).bytes
            };
            let before: Vec<u32> = (0..flows).map(|flow| held(flow, &queues)).collect();
            let mut gone = Vec::new();
            let sink = &mut |packet: Packet, _| gone.push(packet);
            if let Err(rejected) = queues.enqueue(Nanos(0), FlowId(flow), packet, sink) {
                free.push(rejected.packet.handle);
            }
            let mut left = before;
            left[flow as usize] += packet.len;
            for packet in gone {
                free.push(packet.handle);
                let (victim, len) = of[packet.handle as usize];
                if victim != flow {
                    let holds = left[victim as usize];
                    let backlogged = left.iter().filter(|&&bytes| bytes > 0).count() as u32;
                    assert!(4 * holds * backlogged > limit, "{holds} of {limit}");
                    let part = limit / backlogged;
                    assert!(holds > part.saturating_sub(4_096.max(part / 16)), "{holds} of {part}");
                    closest = closest.max(10 * limit / (holds * backlogged));
                    lost += 1;
                }
                left[victim as usize] -= len;
            }
        }
        assert_eq!(queues.recount(), Ok(()));
    }
    assert!(lost > 1_000, "{lost}");
    closest
}

/// Goal: the victim is as close to the longest flow as documented, at any length. Method: random
/// arrivals, services and losses of 12 flows, with packets of up to 64 bytes to 16 MiB; the bounds
/// are checked after each.
#[test]
fn the_victim_is_close_to_the_longest_at_any_length() {
    const FLOWS: u32 = 12;
    let scheduler = lowest();
    // Largest error of the victim: the longest in tenths of the victim, in bytes, and in
    // thousandths of the longest.
    let (mut short, mut middle, mut long) = (0_u64, 0_u32, 0_u64);
    for seed in 1..=effort(100_u32, 4_000) {
        let mut random = Xorshift::new(seed.into());
        let mut policy = LongestQueueDrop::new([LongestFlow::EMPTY; FLOWS as usize]);
        let policy: &mut dyn DropPolicy<Lowest> = &mut policy;
        let mut queues: [Vec<u32>; FLOWS as usize] = Default::default();
        let mut single = [true; FLOWS as usize];
        let scale = 64 << (seed % 19);
        for _ in 0..1_000 {
            let flow = random.below(FLOWS);
            let at = flow as usize;
            let held: u32 = queues[at].iter().sum();
            if queues[at].is_empty() || random.below(2) == 0 && held < 1 << 30 {
                let len = 1 + random.below(scale);
                queues[at].push(len);
                single[at] = held == 0;
                if held == 0 {
                    policy.backlogged(&scheduler, FlowId(flow), len);
                } else {
                    policy.grew(FlowId(flow), len, held + len);
                }
            } else {
                let len = queues[at].remove(0);
                if random.below(4) == 0 {
                    policy.lost(FlowId(flow), len, held - len);
                } else {
                    policy.served(FlowId(flow), len, held - len);
                }
            }
            let bytes = |flow: FlowId| queues[flow.index()].iter().sum::<u32>();
            let held: Vec<(u32, bool)> =
                (0..FLOWS).map(|flow| (bytes(FlowId(flow)), single[flow as usize])).collect();
            let victim = policy.victim(&scheduler, &bytes).map(|(flow, _)| flow);
            promises_hold(&held, victim);
            let most = held.iter().filter(|(_, single)| !single).map(|(bytes, _)| *bytes).max();
            let (Some(victim), Some(most)) = (victim, most) else { continue };
            let holds = bytes(victim);
            if most > 200_000 {
                long = long.max(1_000 * u64::from(most.saturating_sub(holds)) / u64::from(most));
            } else if most > 4_096 {
                middle = middle.max(most.saturating_sub(holds));
            } else {
                short = short.max(10 * u64::from(most) / u64::from(holds));
            }
            if random.below(16) > 0 {
                continue;
            }
            let state = |flow: FlowId| {
                let packets = queues[flow.index()].len() as u32;
                let backlog = crate::Backlog { packets, bytes: bytes(flow) };
                FlowState { backlog, head_len: queues[flow.index()].first().copied() }
            };
            assert_eq!(
                policy.recount(&scheduler, &|flow| {
                    if flow.0 < FLOWS { state(flow) } else { FlowState::default() }
                }),
                Ok(())
            );
        }
    }
    assert!(short > 30 && middle > 3_500 && long > 30, "{short} {middle} {long}");
}

/// Goal: a packet that crosses no mark leaves all lists unchanged; at the marks it moves its flow,
/// and no sooner.
#[test]
fn a_flow_moves_at_the_marks_of_its_class_and_no_sooner() {
    let mut both = Beside::new(lowest(), longest());
    both.scheduler.configure(FlowId(0), 9, None).unwrap();
    let marks = |both: &Beside<Lowest, Longest>| both.policy.flows[0].marks();
    both.backlogged(FlowId(0), 400);
    assert_eq!(marks(&both), (400, 0), "single");
    both.grew(FlowId(0), 200);
    assert_eq!(marks(&both), (256, 1_024), "600 bytes");
    both.grew(FlowId(0), 423);
    assert_eq!(marks(&both), (256, 1_024), "1,023 bytes");
    both.grew(FlowId(0), 1);
    assert_eq!(marks(&both), (512, 2_048), "1,024 bytes");
    both.served(FlowId(0), 512, Some(1));
    assert_eq!(marks(&both), (512, 2_048), "512 bytes");
    both.served(FlowId(0), 1, Some(1));
    assert_eq!(marks(&both), (256, 1_024), "511 bytes");
    both.grew(FlowId(0), 5_632);
    assert_eq!(marks(&both), (4_096, 8_192), "6,143 bytes");
    both.served(FlowId(0), 2_047, Some(1));
    assert_eq!(marks(&both), (4_096, 8_192), "4,096 bytes");
    both.served(FlowId(0), 1, Some(1));
    assert_eq!(marks(&both), (2_048, 6_144), "4,095 bytes");
    both.grew(FlowId(0), 0xFFFF_0000);
    assert_eq!(marks(&both), (62 << 26, u32::MAX), "the last class");
    both.served(FlowId(0), 0xFFFF_0000, Some(1));
    assert_eq!(marks(&both), (2_048, 6_144));
    both.served(FlowId(0), 4_095, None);
    assert_eq!((marks(&both), both.victim()), ((0, 0), None));
}

/// Goal: flows of one class are dropped from in turn, and a flow that is served in its class keeps
/// its position.
#[test]
fn the_flows_of_a_class_give_way_in_turn() {
    let mut both = Beside::new(lowest(), longest());
    for flow in (0..3).map(FlowId) {
        both.scheduler.configure(flow, 9, None).unwrap();
        both.backlogged(flow, 300);
        both.grew(flow, 300);
    }
    let mut victims = Vec::new();
    for _ in 0..6 {
        let (victim, _) = both.victim().unwrap();
        victims.push(victim.0);
        both.lost(victim, 10, Some(1));
        both.served(FlowId(1), 10, Some(1));
    }
    assert_eq!(victims, [0, 1, 2, 0, 1, 2]);
}

/// Goal: a single flow is the victim if it holds more than the flow of the highest class and is one
/// of the newest eight.
#[test]
fn the_newest_single_flows_are_looked_at() {
    let mut policy = LongestQueueDrop::new([LongestFlow::EMPTY; 12]);
    let scheduler = lowest();
    let policy: &mut dyn DropPolicy<Lowest> = &mut policy;
    let victim = |policy: &dyn DropPolicy<Lowest>| {
        policy.victim(&scheduler, &|flow| if flow.0 == 0 { 200 } else { 0 }).map(|(flow, _)| flow.0)
    };
    policy.backlogged(&scheduler, FlowId(0), 100);
    policy.grew(FlowId(0), 100, 200);
    assert_eq!(victim(policy), Some(0));
    policy.backlogged(&scheduler, FlowId(1), 201);
    assert_eq!(victim(policy), Some(1));
    for flow in 2..9 {
        policy.backlogged(&scheduler, FlowId(flow), 150);
    }
    assert_eq!(victim(policy), Some(1), "the eighth");
    policy.backlogged(&scheduler, FlowId(9), 150);
    assert_eq!(victim(policy), Some(0), "the ninth is not looked at");
    policy.lost(FlowId(5), 150, 0);
    assert_eq!(victim(policy), Some(1));
    policy.served(FlowId(0), 200, 0);
    policy.removed(FlowId(1));
    assert_eq!(victim(policy), Some(9), "of equals the newest");
}

/// Goal: `recount` detects every fault. Method: two single flows, three of one class and one of
/// another; one field broken at a time.
#[test]
fn a_recount_sees_damage() {
    let (lens, scheduler) = ([40, 50, 3_000, 3_000, 3_000, 70_000, 0], lowest());
    let mut policy = LongestQueueDrop::new([LongestFlow::EMPTY; 7]);
    for (flow, len) in (0..).map(FlowId).zip(lens).take(6) {
        DropPolicy::<Lowest>::backlogged(&mut policy, &scheduler, flow, len.min(100));
        if len > 100 {
            DropPolicy::<Lowest>::grew(&mut policy, flow, len - 100, len);
        }
    }
    let truth = |flow: FlowId| {
        let bytes = lens[flow.index()];
        let backlog = crate::Backlog { packets: bytes.div_ceil(100).min(2), bytes };
        FlowState { backlog, head_len: None }
    };
    let recount = |policy: &LongestQueueDrop<_>| policy.recount(&scheduler, &truth);
    assert_eq!(recount(&policy), Ok(()));
    let found = Lists::damages().map(|damage| {
        let mut bad = policy.clone();
        damage(&mut bad.lists, &mut bad.flows);
        recount(&bad).expect_err("damage").what
    });
    let named = [
        "a flow is backlogged",
        "a flow is backlogged",
        "bytes of a single flow",
        "packets of a single flow beside the first",
        "bytes between the marks",
        "the marks of a class",
        "a word of classes is used",
        "a class is used",
        "a flow on the list of single ones",
        "links point both ways",
        "the class of a flow",
        "the oldest of a class",
        "flows on lists",
        "the oldest of a class",
    ];
    assert_eq!(found, named);
}

#[test]
fn a_flow_takes_16_bytes_and_the_rest_little() {
    assert_eq!(size_of::<LongestFlow>(), 16);
    assert!(size_of::<LongestQueueDrop<[LongestFlow; 0]>>() <= 2_304);
}

#[test]
fn a_flow_beyond_the_room_for_books_is_unknown() {
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 8]);
    let queues = FlowQueues::with_own_victim(lowest(), queues, descriptors, Limits::NONE);
    let mut queues = queues.with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; 2]));
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(queues.configure(FlowId(2), 1), Err(unknown));
    assert_eq!(queues.configure(FlowId(1), 1), Ok(()));
    // A flow unknown to the scheduler is not accounted either.
    queues.scheduler_mut().configure(FlowId(2), 1, None).unwrap();
    assert_eq!((queues.config(FlowId(1)), queues.config(FlowId(2))), (Some(1), None));
    let drops = &mut |_: Packet, _| panic!("there is room");
    assert!(queues.enqueue(Nanos(0), FlowId(1), Packet::new(0, 99), drops).is_ok());
    let rejected = queues.enqueue(Nanos(0), FlowId(2), Packet::new(1, 99), drops).unwrap_err();
    let unknown = crate::RejectReason::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!((rejected.reason, queues.recount()), (unknown, Ok(())));
}

/// Goal: a policy that is added while packets are queued accounts them.
#[test]
fn a_policy_that_comes_later_knows_what_is_queued() {
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 8]);
    let mut queues = FlowQueues::with_own_victim(lowest(), queues, descriptors, Limits::NONE);
    let drops = &mut |_: Packet, _| panic!("there is room");
    for (handle, flow) in (0..).zip([0, 3, 3, 1]) {
        queues.configure(FlowId(flow), 1).unwrap();
        queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 60), drops).unwrap();
    }
    let queues = queues.with_drop_policy(longest());
    assert_eq!(queues.victim(), Some((FlowId(3), DropFrom::Head)));
    assert_eq!(queues.recount(), Ok(()));
}

/// A policy that records the latest limits, and how many it received.
struct Hears(Limits, u32);

impl DropPolicy<Lowest> for Hears {
    fn room(&self) -> Option<u32> {
        None
    }

    fn limits_changed(&mut self, limits: Limits) {
        *self = Self(limits, self.1 + 1);
    }

    fn backlogged(&mut self, _: &Lowest, _: FlowId, _len: u32) {}

    fn grew(&mut self, _: FlowId, _len: u32, _held: u32) {}

    fn served(&mut self, _: FlowId, _len: u32, _left: u32) {}

    fn lost(&mut self, _: FlowId, _len: u32, _left: u32) {}

    fn removed(&mut self, _: FlowId) {}

    /// `None` until the policy has received the limit of one packet.
    fn victim(&self, _: &Lowest, _: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)> {
        (self.0.packets == 1).then_some((FlowId(3), DropFrom::Tail))
    }

    fn recount(&self, _: &Lowest, _: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        Ok(())
    }
}

/// Goal: a policy receives the limits from the beginning, and lower ones before it selects a victim
/// because of them.
#[test]
fn a_policy_hears_of_limits_before_packets_give_way_to_them() {
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 8]);
    let queues = FlowQueues::with_own_victim(lowest(), queues, descriptors, Limits::packets(4));
    let mut queues = queues.with_drop_policy(Hears(Limits::NONE, 0));
    assert_eq!((queues.policy().0, queues.policy().1), (queues.limits(), 1));
    let mut dropped = Vec::new();
    for (handle, flow) in (0..).zip([0, 3]) {
        queues.configure(FlowId(flow), 1).unwrap();
        let drops = &mut |_: Packet, _| panic!("there is room");
        queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 60), drops).unwrap();
    }
    queues.set_limits(Limits::packets(1), &mut |packet: Packet, _| dropped.push(packet.handle));
    assert_eq!((dropped, queues.policy().1), (vec![1], 2));
    // As the queues keep them, with at most as many packets as there are descriptors.
    queues.set_limits(Limits::NONE, &mut |_: Packet, _| panic!("there is room"));
    let limits = Limits { packets: 8, ..queues.limits() };
    assert_eq!((queues.policy().0, queues.policy().1), (limits, 3));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut both = Beside::new(lowest(), longest());
    both.scheduler.configure(FlowId(0), 1, None).unwrap();
    let policy: &mut dyn DropPolicy<Lowest> = &mut both.policy;
    policy.grew(FlowId(0), 500, 500);
    policy.lost(FlowId(0), 500, 1);
    policy.served(FlowId(4_000), 1, 0);
    policy.backlogged(&both.scheduler, FlowId(4_000), 1);
    policy.removed(FlowId(4_000));
    assert_eq!(both.victim(), None);
    both.backlogged(FlowId(0), 10);
    both.policy.backlogged(&both.scheduler, FlowId(0), 90);
    both.grew(FlowId(0), 5);
    let state = FlowState { backlog: crate::Backlog { packets: 2, bytes: 15 }, head_len: Some(10) };
    let truth = |flow: FlowId| if flow.0 == 0 { state } else { FlowState::default() };
    assert_eq!(both.recount(&truth), Ok(()));
}
