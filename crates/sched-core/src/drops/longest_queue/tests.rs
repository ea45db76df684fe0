use super::*;
use crate::{Descriptor, FlowQueues, Limits, Nanos, Packet, Queue, Scheduler};
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

    /// It knows no time.
    #[inline]
    fn advance(&mut self, _now: Nanos) {}

    /// Says nothing.
    #[inline]
    fn common_max_len(&self) -> u32 {
        0
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

    fn looks_ahead(&self) -> bool {
        true
    }

    fn counts_bytes(&self) -> bool {
        true
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

fn order() -> LongestQueueDrop<Lowest, [LongestFlow; FLOWS as usize]> {
    let lowest = Lowest { factor: [None; FLOWS as usize], backlogged: [false; FLOWS as usize] };
    LongestQueueDrop::new(lowest, [LongestFlow::EMPTY; FLOWS as usize])
}

/// Goal: the victim is the flow that a scan finds, whatever happened, and the order inside sees
/// everything.
/// Method: 100,000 random operations on a full buffer; stamps are kept here, byte counts come from
/// the queues, and the recount of the order inside is part of the recount.
#[test]
fn the_victim_is_the_longest_queue_whatever_happened() {
    let limits = Limits { packets: 24, bytes: 4_000 };
    let mut queues = FlowQueues::new(order(), [Queue::EMPTY; 5], [Descriptor::EMPTY; 64], limits);
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
                if let Some(flow) = queues.order().select() {
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
        assert_eq!(queues.order().victim(), victim, "step {step}");
        assert_eq!(queues.recount(), Ok(()), "step {step}");
    }
}

#[test]
fn a_flow_beyond_the_room_for_books_is_unknown() {
    let inner = order();
    let mut outer = LongestQueueDrop::new(inner, [LongestFlow::EMPTY; 2]);
    assert_eq!(outer.flows(), 2);
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(outer.configure(FlowId(2), 1, None), Err(unknown));
    assert_eq!(outer.configure(FlowId(1), 1, None), Ok(()));
    assert_eq!((outer.max_len(FlowId(1)), outer.max_len(FlowId(2))), (Some(99), None));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut order = order();
    order.configure(FlowId(0), 1, None).unwrap();
    order.backlogged(FlowId(1), 500);
    order.grew(FlowId(0), 500);
    order.lost(FlowId(0), 500, Some(1));
    order.served(FlowId(4_000), 1, None);
    assert_eq!(order.victim(), None);
    order.backlogged(FlowId(0), 10);
    order.backlogged(FlowId(0), 90);
    order.grew(FlowId(0), 5);
    let state = FlowState { backlog: crate::Backlog { packets: 2, bytes: 15 }, head_len: Some(10) };
    let truth = |flow: FlowId| if flow.0 == 0 { state } else { FlowState::default() };
    assert_eq!(order.recount(&truth), Ok(()));
}
