//! Changes of isolation, tins and key while packets are queued: the state that moves with its flow,
//! and the state that is kept.

use std::collections::VecDeque;

use freeboard::sched_core::{
    Admission, AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, CoDelParams, ConfigError, FlowId,
    Head, Look, Offer, Verdict,
};

use freeboard::IsolatedError;

use super::*;

const FLOWS: u32 = 12;

/// State of an AQM for a queue: the flow of the first packet since the queue was empty or
/// forgotten, the number of arrivals since, whether all of them belonged to this flow, and the tin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    flow: Option<u32>,
    came: u32,
    is_mixed: bool,
    tin: u8,
}

/// An AQM that passes every packet and records a page for each queue.
struct Diary {
    pages: Vec<Page>,
    /// Page of the queue judged last, before the packet left.
    judged: Page,
}

impl Aqm for Diary {
    const MAX_DROPS: u32 = 0;

    fn admit(&mut self, queue: FlowId, offer: Offer, _: Look) -> Admission {
        let page = &mut self.pages[queue.index()];
        let flow = flow_of(offer.packet);
        page.is_mixed |= page.flow.replace(flow).is_some_and(|before| before != flow);
        page.came += 1;
        Admission::Accept
    }

    fn judge(&mut self, queue: FlowId, head: Head, _: Look) -> Verdict {
        let page = &mut self.pages[queue.index()];
        self.judged = *page;
        if head.bytes_behind == 0 {
            *page = Page { tin: page.tin, ..Page::default() };
        }
        Verdict::Pass
    }

    fn foresee(&self, _: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    fn overflowed(&mut self, _: FlowId) {}

    fn emptied(&mut self, queue: FlowId) {
        self.forget(queue);
    }

    fn forget(&mut self, queue: FlowId) {
        let page = &mut self.pages[queue.index()];
        *page = Page { tin: page.tin, ..Page::default() };
    }

    fn assign(&mut self, queue: FlowId, tin: u8) {
        self.pages[queue.index()].tin = tin;
    }

    fn swap(&mut self, queue: FlowId, other: FlowId) {
        self.pages.swap(queue.index(), other.index());
    }
}

/// Returns the flow of a packet, which is encoded in its length.
fn flow_of(packet: Packet) -> u32 {
    packet.len % FLOWS
}

/// Returns the labels of a flow under a key. Its tin, one of eight, does not depend on the key.
fn under(key: u32, flow: u32) -> InTin<Labels> {
    let hash = |of: u32| mix(of.wrapping_add(key.wrapping_mul(1_000)));
    let labels =
        Labels { flow: hash(flow), src_host: hash(100 + flow % 3), dst_host: hash(200 + flow % 5) };
    InTin { labels, tin: (flow % 8) as u8 }
}

/// Goal: a rebuild loses nothing. Where no flow shares a queue, packets leave in the order of their
/// flow, the bytes counted for each tin are those sent in it, and the AQM has its state of each
/// flow in the current tin. Method: random packets, interleaved with random isolation modes that
/// have a queue for each flow, numbers of tins and keys, compared with counts per flow and tin.
#[test]
fn what_an_aqm_knows_follows_its_flow() {
    let isolations = [Isolation::Flows, Isolation::DualSrcHost, Isolation::DualDstHost];
    let (mut checked, mut rebuilds) = (0, 0);
    for seed in 1..=effort(8, 80) as u64 {
        let mut random = Xorshift::new(seed);
        // Few queues, so that states swap positions.
        let memory = IsolatedMemory::<Heap>::allocate(32, 16, 8, 1_000);
        let diary =
            Diary { pages: vec![Page::default(); memory.queues()], judged: Page::default() };
        let mut config = IsolatedConfig::new(MTU, Limits::NONE);
        config.ways = 16;
        let mut queue = Isolated::with_aqm(memory, diary, config).expect("powers of two");
        let mut key = 0;
        let mut free: Vec<u32> = (0..1_000).collect();
        let mut queued: [VecDeque<u32>; FLOWS as usize] = Default::default();
        // Arrivals since each flow was idle.
        let mut came = [0; FLOWS as usize];
        let mut delivered = vec![0_u64];
        for step in 0..2_500_u32 {
            let now = Nanos::from_millis(step.into());
            match random.below(100) {
                0..=49 => {
                    let flow = random.below(FLOWS);
                    let handle = free.swap_remove(random.below(free.len() as u32) as usize);
                    let packet = Packet::new(handle, FLOWS * (1 + random.below(100)) + flow);
                    let labels = under(key, flow);
                    let outcome = queue.enqueue_labelled(now, &labels, packet, &mut no_drops);
                    assert_ne!(outcome, Ok(Outcome::Collision), "room for all");
                    queued[flow as usize].push_back(packet.handle);
                    came[flow as usize] += 1;
                }
                50..=96 => {
                    let Some(packet) = queue.dequeue(now, &mut no_drops) else { continue };
                    let flow = flow_of(packet);
                    let of = &mut queued[flow as usize];
                    assert_eq!(Some(packet.handle), of.pop_front(), "{seed}, {step}: the order");
                    let tin = flow % 8;
                    let tin = if tin < queue.tins().into() { tin as u8 } else { 0 };
                    let came = &mut came[flow as usize];
                    let page = Page { flow: Some(flow), came: *came, is_mixed: false, tin };
                    assert_eq!(queue.aqm().judged, page, "{seed}, {step}");
                    *came *= u32::from(!of.is_empty());
                    delivered[usize::from(tin)] += u64::from(packet.len);
                    free.push(packet.handle);
                    checked += 1;
                }
                change => {
                    let isolation = isolations[random.below(3) as usize];
                    let count = [1, 2, 4, 8][random.below(4) as usize];
                    let tins = vec![TinConfig::by_weight(2); count];
                    let tins = if change == 97 { Some(&tins[..]) } else { None };
                    key += u32::from(change == 98);
                    let before = (queue.counters(), queue.backlog());
                    let labels_of = |packet| under(key, flow_of(packet));
                    queue.rebuild(isolation, tins, labels_of).expect("there is room");
                    assert_eq!((queue.counters(), queue.backlog()), before);
                    let gone = delivered.split_off(delivered.len().min(queue.tins().into()));
                    delivered[0] += gone.iter().sum::<u64>();
                    delivered.resize(queue.tins().into(), 0);
                    rebuilds += u64::from(queue.backlog().packets > 10);
                }
            }
            queue.recount().expect("the books hold");
            for (tin, delivered) in (0..).zip(&delivered) {
                let found = queue.tin_counters(tin).expect("there is such a tin");
                assert_eq!(found.counters.delivered.bytes, *delivered, "tin {tin}");
            }
        }
    }
    assert!(checked > 5_000 && rebuilds > 100, "{checked} {rebuilds}");
}

/// Goal: CoDel marks and drops in a standing queue as if there had been no rebuild. Method: one
/// flow at twice the rate of the link, with and without occasional rebuilds that change key,
/// isolation and number of tins.
#[test]
fn a_standing_queue_is_told_as_without_a_rebuild() {
    let run = |rebuilds: bool| {
        let memory = IsolatedMemory::<Heap>::allocate(16, 4, 4, 4_000).with_triple(64);
        let states = vec![ChosenAqmState::EMPTY; memory.queues()];
        let aqm = ChosenAqm::new(
            states,
            [AqmSetting::EMPTY; 8],
            AqmChoice::CoDel(CoDelParams::INTERNET),
            1,
        )
        .unwrap();
        let mut config = IsolatedConfig::new(MTU, Limits::NONE);
        config.ways = 4;
        let mut queue = Isolated::with_aqm(memory, aqm, config).expect("powers of two");
        let (mut trace, mut gone, mut key) = (Vec::new(), Vec::new(), 0);
        for step in 0..4_000_u32 {
            let now = Nanos::from_millis(1_000 + u64::from(step));
            let ecn = if step % 4 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
            let packet = Packet { ecn, ..Packet::new(step, FLOWS * 100) };
            queue.enqueue_labelled(now, &under(key, 0), packet, &mut no_drops).unwrap();
            if step % 2 == 0 {
                let drops = &mut |packet: Packet, why| gone.push((step, packet, why));
                trace.push(queue.dequeue(now, drops));
            }
            if rebuilds && step % 37 == 0 {
                key += 1;
                let isolation = Isolation::ALL[key as usize % Isolation::ALL.len()];
                let tins = vec![TinConfig::by_weight(1); 1 + key as usize % 4];
                queue.rebuild(isolation, Some(&tins), |_| under(key, 0)).unwrap();
            }
        }
        (trace, gone)
    };
    let (plain, rebuilt) = (run(false), run(true));
    assert!(plain.1.len() > 20, "CoDel has dropped");
    assert_eq!(plain, rebuilt);
}

/// Goal: with tables that are much too small a rebuild loses nothing, and no packet is in them
/// twice. Method: two queues and two hosts for packets of twelve flows, in every isolation mode in
/// turn, with other keys and tins; all packets leave in the end.
#[test]
fn a_rebuild_in_tables_that_are_too_small_loses_nothing() {
    let memory = IsolatedMemory::<Heap>::allocate(2, 2, 2, 200).with_triple(8);
    let mut config = IsolatedConfig::new(MTU, Limits::NONE);
    config.ways = 1;
    let mut queue = Isolated::new(memory, config).expect("powers of two");
    let packets: Vec<_> = (0..200).map(|handle| Packet::new(handle, FLOWS + handle % 12)).collect();
    for &packet in &packets {
        let labels = under(0, flow_of(packet));
        queue.enqueue_labelled(Nanos(0), &labels, packet, &mut no_drops).expect("there is room");
    }
    for key in 1..40 {
        let isolation = Isolation::ALL[key as usize % Isolation::ALL.len()];
        let tins = vec![TinConfig::by_weight(1); 1 + key as usize / 7 % 2];
        let labels_of = |packet| under(key, flow_of(packet));
        queue.rebuild(isolation, Some(&tins), labels_of).expect("there is room");
        queue.recount().expect("the books hold");
        assert_eq!(queue.backlog().packets, 200);
    }
    let mut left: Vec<_> = core::iter::from_fn(|| queue.dequeue(Nanos(0), &mut no_drops)).collect();
    left.sort_by_key(|packet| packet.handle);
    assert_eq!(left, packets);
}

/// Goal: a rebuild leaves no entry for a far host without queued packets. Method: under the new key
/// a flow shares the spare queue of its host; its labels are looked up before another flow of this
/// host, with another far host, arrives there first.
#[test]
fn a_rebuild_leaves_no_far_host_without_flows() {
    let memory = IsolatedMemory::<Heap>::allocate(2, 8, 1, 8).with_triple(8);
    let mut config = IsolatedConfig::new(MTU, Limits::NONE);
    config.ways = 1;
    let mut queue = Isolated::new(memory, config).expect("powers of two");
    let [first, moves, shares] = [(0, 1, 1), (1, 2, 2), (2, 2, 3)]
        .map(|(flow, src_host, dst_host)| Labels { flow, src_host, dst_host });
    (0..).zip([first, moves, shares]).for_each(|(handle, labels)| put(&mut queue, &labels, handle));
    let moved = Labels { flow: 4, ..moves };
    let labels_of = |packet: Packet| [first, moved, shares][packet.handle as usize];
    queue.rebuild(Isolation::TripleIsolate, None, labels_of).expect("there is room");
    assert_eq!(queue.queue_backlog(2 + 2).packets, 2, "in the spare queue of host 2");
    queue.recount().expect("the books hold");
    assert_eq!(queue.backlogged_hosts(), (2, 2));
}

/// Goal: a rejected rebuild changes nothing. Method: every kind of rejection, one after another,
/// while packets are queued; they leave unchanged.
#[test]
fn a_refused_rebuild_changes_nothing() {
    let mut config = IsolatedConfig::new(MTU, Limits::NONE);
    config.ways = 2;
    let filled = || {
        let memory = IsolatedMemory::<Heap>::allocate(8, 2, 2, 64);
        let mut queue = Isolated::new(memory, config).expect("powers of two");
        queue.set_tins(&[TinConfig::by_weight(1); 2]).expect("there is room");
        for handle in 0..64 {
            put(&mut queue, &under(0, handle % FLOWS), handle);
        }
        queue
    };
    let (mut plain, mut queue) = (filled(), filled());
    let labels_of = |_| -> Labels { panic!("no packet is asked for") };
    let tin = TinConfig::by_weight(1);
    let memory = |what, given, needed| IsolatedError::Memory { what, given, needed };
    let out_of_range = |value| {
        let (what, min, max) = ("number of tins", 1, 8);
        IsolatedError::Config(ConfigError::OutOfRange { what, value, min, max })
    };
    let weight = TinConfig::by_weight(0).check().expect_err("no weight");
    let refused: [(Isolation, &[TinConfig], IsolatedError); 6] = [
        (Isolation::TripleIsolate, &[tin], IsolatedError::NoTriple),
        (Isolation::DualDstHost, &[], out_of_range(0)),
        (Isolation::DualDstHost, &[tin; 9], out_of_range(9)),
        (Isolation::DualDstHost, &[TinConfig::by_weight(0)], weight.into()),
        (Isolation::DualDstHost, &[tin; 3], memory("turns", 4, 8)),
        (Isolation::Flows, &[tin; 3], memory("turns", 4, 8)),
    ];
    for (isolation, tins, error) in refused {
        assert_eq!(queue.rebuild(isolation, Some(tins), labels_of), Err(error));
    }
    assert!(queue.set_tins(&[tin]).is_err(), "packets are queued");
    queue.recount().expect("the books hold");
    for _ in 0..64 {
        assert_eq!(take(&mut queue), take(&mut plain));
    }
}

/// Goal: counters move with their tins as specified. Method: packets delivered and queued in each
/// of four tins; then tins 2 and 3 become tin 1 of two.
#[test]
fn counters_move_with_their_tins() {
    let memory = IsolatedMemory::<Heap>::allocate(64, 16, 4, 64);
    let mut queue =
        Isolated::new(memory, IsolatedConfig::new(MTU, Limits::NONE)).expect("powers of two");
    let tins = [TinConfig::by_weight(1); 4];
    queue.set_tins(&tins).expect("there is room");
    for handle in 0..40 {
        put(&mut queue, &under(0, handle % 4), handle);
    }
    (0..16).for_each(|_| _ = take(&mut queue));
    let counted = |queue: &Isolated<Heap>| {
        let of = |tin| queue.tin_counters(tin).expect("there is such a tin");
        let of = (0..queue.tins()).map(of);
        let of = of.map(|of| (of.counters.delivered.packets, of.counters.accepted.packets));
        of.collect::<Vec<_>>()
    };
    assert_eq!(counted(&queue), [(4, 10); 4]);
    // In the tins in which they count from now on.
    let labels_of = |packet: Packet| {
        let InTin { labels, tin } = under(0, packet.handle % 4);
        InTin { labels, tin: tin / 2 }
    };
    let moved = (Some(&tins[..2]), |tin| tin / 2);
    queue.rebuild_and_move(Isolation::Flows, moved, labels_of).expect("there is room");
    assert_eq!(counted(&queue), [(8, 20); 2]);
    (0..24).for_each(|_| _ = take(&mut queue));
    assert_eq!(counted(&queue), [(20, 20); 2]);
}

/// Goal: one share of a host across all tins, set while there is one tin, takes effect once there
/// are several. Method: one host floods two tins while others use one tin each; departures are as
/// if the tins had been set first, and not as with a share in each.
#[test]
fn one_share_in_all_tins_holds_for_tins_that_come_later() {
    let tins = [TinConfig::by_weight(1); 2];
    let run = |set_up: &dyn Fn(&mut Isolated<Heap>)| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 2, 400);
        let config = IsolatedConfig::new(MTU, Limits::NONE);
        let mut queue = Isolated::new(memory, config).expect("powers of two");
        set_up(&mut queue);
        for handle in 0..400 {
            let (host, tin) = [(1, 0), (1, 1), (2, 0), (3, 1)][handle as usize % 4];
            put(&mut queue, &InTin { labels: labels(handle % 4, host, 1), tin }, handle);
        }
        (0..200).map(|_| take(&mut queue)).collect::<Vec<_>>()
    };
    let later = run(&|queue| {
        queue.set_hosts_across_tins(true);
        let labels_of = |_| -> Labels { panic!("nothing is queued") };
        queue.rebuild(Isolation::default(), Some(&tins), labels_of).unwrap();
    });
    let first = run(&|queue| {
        queue.set_tins(&tins).unwrap();
        queue.set_hosts_across_tins(true);
    });
    let in_each = run(&|queue| queue.set_tins(&tins).unwrap());
    assert_eq!(later, first);
    assert_ne!(later, in_each);
}
