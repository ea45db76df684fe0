use super::*;
use crate::test_link::Beside;
use crate::{ConfigError, Descriptor, FlowQueues, Limits, Nanos, Needs, Packet, Queue, Scheduler};
use std::vec::Vec;

const FLOWS: u32 = 5;

/// The lowest number first; accepts packets of at most 99 bytes times the configured factor.
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

    /// Does nothing: the scheduler knows no time.
    #[inline]
    fn advance(&mut self, _now: Nanos) {}

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: true, counts_bytes: true, common_max_len: 0 }
    }

    /// Names no flow.
    #[inline]
    fn upcoming(&self, _ahead: &mut [FlowId]) -> usize {
        0
    }

    /// The arrival gives way.
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    /// A backlogged flow is always selected: none waits.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// No flow waits.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// No flow waits.
    #[inline]
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// No flow waits.
    #[inline]
    fn open(&mut self) {}

    /// No flow has a ceiling.
    #[inline]
    fn pace(&self, _flow: FlowId) -> Nanos {
        Nanos::ZERO
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

/// Goal: the victim is the flow that a scan finds, whatever happened, and the flow scheduler beside
/// it hears everything.
/// Method: 100,000 random operations on a full buffer; stamps are kept here, byte counts come from
/// the queues, and the recount of the flow scheduler is part of the recount.
#[test]
fn the_victim_is_the_longest_queue_whatever_happened() {
    let limits = Limits { packets: 24, bytes: 4_000 };
    let mut queues = FlowQueues::new(lowest(), [Queue::EMPTY; 5], [Descriptor::EMPTY; 64], limits)
        .with_drop_policy(longest());
    let (mut stamps, mut clock, mut seed) = ([0_u64; FLOWS as usize], 0, 7_u32);
    let mut free: Vec<u32> = (0..64).collect();
    for step in 0..100_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let flow = FlowId((seed >> 8) % FLOWS);
        let len = 1 + (seed >> 13) % 6 * 99;
        let mut back = Vec::new();
        let sink = &mut |packet: Packet, _| back.push(packet.handle);
        match seed >> 28 {
            0..9 => {
                let packet = Packet::new(free.pop().unwrap(), len);
                if let Err(rejected) = queues.enqueue(Nanos(0), flow, packet, sink) {
                    back.push(rejected.packet.handle);
                }
            }
            9..14 => {
                if let Some(flow) = queues.scheduler().select() {
                    clock += 1;
                    stamps[flow.index()] = clock;
                }
                let packet = queues.dequeue(Nanos(0), sink);
                back.extend(packet.map(|packet| packet.handle));
            }
            14 => {
                let known = queues.config(flow).is_some();
                let factor = seed >> 20 & 7;
                assert_eq!(queues.configure(flow, factor).is_ok(), factor > 0);
                assert_eq!(queues.config(flow).is_some(), known || factor > 0);
            }
            _ => {
                queues.remove_flow(flow, sink);
                stamps[flow.index()] = 0;
            }
        }
        free.extend(back);
        let longest = (0..FLOWS)
            .filter(|&flow| queues.flow_backlog(FlowId(flow)).packets > 0)
            .min_by_key(|&flow| {
                let bytes = queues.flow_backlog(FlowId(flow)).bytes;
                (!bytes, stamps[flow as usize], flow)
            });
        let victim = longest.map(|flow| (FlowId(flow), DropFrom::Head));
        assert_eq!(queues.policy().victim(queues.scheduler()), victim, "step {step}");
        assert_eq!(queues.recount(), Ok(()), "step {step}");
    }
}

#[test]
fn a_flow_beyond_the_room_for_books_is_unknown() {
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 8]);
    let queues = FlowQueues::new(lowest(), queues, descriptors, Limits::NONE);
    let mut queues = queues.with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; 2]));
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(queues.configure(FlowId(2), 1), Err(unknown));
    assert_eq!(queues.configure(FlowId(1), 1), Ok(()));
    // Of a flow that the scheduler knows nothing can be booked either.
    queues.scheduler_mut().configure(FlowId(2), 1, None).unwrap();
    assert_eq!((queues.config(FlowId(1)), queues.config(FlowId(2))), (Some(1), None));
    let drops = &mut |_: Packet, _| panic!("there is room");
    assert!(queues.enqueue(Nanos(0), FlowId(1), Packet::new(0, 99), drops).is_ok());
    let rejected = queues.enqueue(Nanos(0), FlowId(2), Packet::new(1, 99), drops).unwrap_err();
    let unknown = crate::RejectReason::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!((rejected.reason, queues.recount()), (unknown, Ok(())));
}

/// Goal: a policy that comes when packets are queued knows of them.
#[test]
fn a_policy_that_comes_later_knows_what_is_queued() {
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 8]);
    let mut queues = FlowQueues::new(lowest(), queues, descriptors, Limits::NONE);
    let drops = &mut |_: Packet, _| panic!("there is room");
    for (handle, flow) in (0..).zip([0, 3, 3, 1]) {
        queues.configure(FlowId(flow), 1).unwrap();
        queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 60), drops).unwrap();
    }
    let queues = queues.with_drop_policy(longest());
    assert_eq!(queues.policy().victim(queues.scheduler()), Some((FlowId(3), DropFrom::Head)));
    assert_eq!(queues.recount(), Ok(()));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut both = Beside { scheduler: lowest(), policy: longest() };
    both.scheduler.configure(FlowId(0), 1, None).unwrap();
    let policy: &mut dyn DropPolicy<Lowest> = &mut both.policy;
    policy.grew(FlowId(0), 500);
    policy.lost(FlowId(0), 500, false);
    policy.served(FlowId(4_000), 1, true);
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
