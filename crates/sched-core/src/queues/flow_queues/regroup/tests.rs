use super::*;
use crate::{
    Admission, Descriptor, DropReason, Drr, DrrFlow, FlowDirectory, FlowState, Head, Imbalance,
    Limits, LongestFlow, LongestQueueDrop, Look, Nanos, Offer, Scheduler, Verdict,
};
use conformance::Xorshift;
use std::vec::Vec;

const OWNED: u32 = 4;
const FLOWS: usize = 6;

/// An AQM state per queue that records its owner and passes every packet.
struct Names([Option<u32>; FLOWS]);

impl Aqm for Names {
    const MAX_DROPS: u32 = 0;

    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Accept
    }

    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        Verdict::Pass
    }

    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, _flow: FlowId) {}

    fn forget(&mut self, flow: FlowId) {
        self.0[flow.index()] = None;
    }

    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.0.swap(flow.index(), other.index());
    }
}

/// The label that claimed each of the owned queues.
#[derive(Default)]
struct Homes([Option<u32>; OWNED as usize]);

impl Homes {
    /// Returns the queue with this label, or else the first free one from its own position on, or
    /// else a shared one; and true if it was free.
    fn home(&mut self, label: u32) -> (FlowId, bool) {
        if let Some(at) = self.0.iter().position(|of| *of == Some(label)) {
            return (FlowId(at as u32), false);
        }
        let mut ways = (0..OWNED).map(|step| (label + step) % OWNED);
        match ways.find(|way| self.0[*way as usize].is_none()) {
            Some(way) => {
                self.0[way as usize] = Some(label);
                (FlowId(way), true)
            }
            None => (FlowId(OWNED + label % 2), false),
        }
    }
}

impl<O: FlowScheduler> FlowDirectory<O> for Homes {
    fn room(&self) -> Option<u32> {
        None
    }

    fn emptied(&mut self, _: &O, _: FlowId) {}

    fn recount(&self, _: &O, _: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        Ok(())
    }
}

type Queues = FlowQueues<
    Drr<[DrrFlow; FLOWS]>,
    ([Queue; FLOWS], [Descriptor; 16], [crate::FlowRecord; 0], Homes),
    Names,
    LongestQueueDrop<[LongestFlow; FLOWS]>,
>;

fn queues() -> Queues {
    let mut drr = Drr::new([DrrFlow::EMPTY; FLOWS], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    let names = Names([None; FLOWS]);
    let (queues, packets) = ([Queue::EMPTY; FLOWS], [Descriptor::EMPTY; 16]);
    let queues = FlowQueues::with_parts(drr, names, queues, packets, [], Limits::NONE);
    let drops = LongestQueueDrop::new([LongestFlow::EMPTY; FLOWS]);
    queues.with_drop_policy(drops).with_directory(Homes::default())
}

/// Returns the handles in `flow`, oldest first.
fn handles(queues: &Queues, flow: u32) -> Vec<u32> {
    let mut handles: Vec<u32> =
        queues.newest_first(FlowId(flow)).map(|packet| packet.handle).collect();
    handles.reverse();
    handles
}

fn no_drops(packet: Packet, why: DropReason) {
    panic!("{packet:?}: {why:?}");
}

/// Goal: every packet is in its new queue; packets of one label keep their order if they were in
/// one queue; AQM states follow the labels of the oldest packets. Nothing else changes. Method:
/// random packets in random queues, with random labels for as many queues or for more.
#[test]
fn packets_and_states_go_to_their_new_queues() {
    let (mut random, mut moved, mut forgotten, mut shared) = (Xorshift::new(1), 0, 0, 0);
    for _ in 0..4_000 {
        let mut queues = queues();
        let most = 1 + random.below(7);
        let labels: [u32; 16] = core::array::from_fn(|_| random.below(most));
        let mut before: [Vec<u32>; FLOWS] = Default::default();
        for handle in 0..random.below(17) {
            let flow = random.below(FLOWS as u32);
            let packet = Packet::new(handle, 60 + handle);
            let now = Nanos(u64::from(handle) << 20);
            queues.enqueue(now, FlowId(flow), packet, &mut no_drops).unwrap();
            before[flow as usize].push(handle);
        }
        queues.aqm_mut().0 = core::array::from_fn(|flow| Some(flow as u32));
        let counters = queues.counters();
        queues.regroup(
            OWNED,
            |_, homes| *homes = Homes::default(),
            |_, homes, packet| homes.home(labels[packet.handle as usize]),
        );
        queues.recount().unwrap();
        assert_eq!(queues.counters(), counters);
        let after: Vec<Vec<u32>> = (0..FLOWS as u32).map(|flow| handles(&queues, flow)).collect();
        let mut all: Vec<u32> = after.concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..all.len() as u32), "none lost: {all:?}");
        assert_eq!(all.len(), before.concat().len());
        for (flow, after) in (0..).zip(&after) {
            for handle in after {
                let label = labels[*handle as usize];
                assert_eq!(queues.directory.home(label), (FlowId(flow), false));
                // Packets of this label that were behind it in one queue are behind it now.
                let was = before.iter().find(|was| was.contains(handle)).unwrap();
                let behind = |of: &Vec<u32>| {
                    let at = of.iter().position(|of| of == handle).unwrap();
                    let mine = of[at..].iter().filter(|of| was.contains(of));
                    mine.copied().filter(|of| labels[*of as usize] == label).collect::<Vec<_>>()
                };
                assert_eq!(behind(after), behind(was));
            }
            // The state is that of an owned queue whose oldest packet is here, or of none.
            let heads = before[..OWNED as usize].iter().map(|was| was.first());
            let here = |head: Option<&u32>| head.is_some_and(|head| after.contains(head));
            let states: Vec<Option<u32>> =
                (0..).zip(heads).filter(|of| here(of.1)).map(|of| Some(of.0)).collect();
            let found = queues.aqm().0[flow as usize];
            match flow < OWNED && !states.is_empty() {
                true => assert!(states.contains(&found), "{found:?} in {flow}: {states:?}"),
                false => assert_eq!(found, None),
            }
            moved += u32::from(found.is_some_and(|of| of != flow));
            forgotten += u32::from(found.is_none());
            shared += u32::from(flow >= OWNED && !after.is_empty());
        }
        for handle in all {
            let came = u64::from(handle) << 20;
            assert_eq!(queues.waited(handle, Nanos(1 << 30)), Nanos((1 << 30) - came));
        }
        while queues.dequeue(Nanos(1 << 30), &mut no_drops).is_some() {}
        assert_eq!((queues.backlog().packets, queues.recount()), (0, Ok(())));
    }
    assert!(moved > 1_000 && forgotten > 1_000 && shared > 500, "{moved} {forgotten} {shared}");
}

/// Goal: a `home` that returns invalid queues, or claims queues that it must not, loses no packet.
/// Method: every queue up to one beyond the last, claimed and not.
#[test]
fn a_wrong_home_loses_nothing() {
    let homes = (0..=FLOWS as u32).flat_map(|flow| [(flow, false), (flow, true)]);
    for ((flow, claims), owned) in
        homes.flat_map(|home| [0, OWNED, u32::MAX].map(|owned| (home, owned)))
    {
        let mut queues = queues();
        for handle in 0..16 {
            let (to, packet) = (FlowId(handle % FLOWS as u32), Packet::new(handle, 60));
            queues.enqueue(Nanos(0), to, packet, &mut no_drops).unwrap();
        }
        queues.regroup(owned, |_, _| (), |_, _, _| (FlowId(flow), claims));
        let to = if flow < FLOWS as u32 { flow } else { 0 };
        assert_eq!(queues.flow_backlog(FlowId(to)).packets, 16);
        queues.recount().unwrap();
    }
}
