//! The smart queue with frames: translated addresses, terms of single hosts, another key, limits, and frames written in
//! place.

use core::cell::Cell;

use conformance::effort::effort;
use freeboard::flowhash::{FlowKey, HostBy, HostKey, HostMap, HostMember, Nat, PrefixLengths};
use freeboard::sched_core::{
    Ceiling, ChosenAqmState, CommittedRate, DropReason, Limits, Nanos, RejectReason,
};
use freeboard::shaper::Rate;
use freeboard::{
    BufferState, FrameQueue, Heap, HostRules, HostTerms, IsolatedError, IsolatedMemory, PushError,
    SmartQueue, SmartQueueError,
};

const KEY: [u8; 16] = *b"sixteen of these";
const LEN: usize = 1_000;

/// A frame of UDP over IPv4: from this port of host 10.0.0.`host`; the number is in its last byte.
fn frame(host: u8, port: u8, number: u8) -> [u8; LEN] {
    let mut frame = [2; LEN];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 3, 0xda, 0, 0, 0, 0, 64, 17]);
    frame[26..38].copy_from_slice(&[10, 0, 0, host, 192, 0, 2, 1, 0x13, port, 1, 0xbb]);
    frame[LEN - 1] = number;
    frame
}

const fn host(last: u8) -> HostKey {
    HostKey::V4([10, 0, 0, last])
}

fn unlimited() -> FrameQueue {
    SmartQueue::upload(Rate::UNLIMITED).frames(KEY).expect("a queue")
}

/// Port `n` of 10.0.0.9 is host 10.0.1.`n` on the inner side.
struct ByPort;

impl Nat for ByPort {
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        match *key {
            FlowKey::V4 { src: [10, 0, 0, 9], dst, transport } => {
                let [_, port] = transport.src_port.to_be_bytes();
                Some(FlowKey::V4 { src: [10, 0, 1, port], dst, transport })
            }
            _ => None,
        }
    }
}

/// Goal: hosts behind a translation are hosts. Method: ten ports of one address; nine are one host each, the tenth
/// too, and its terms are asked for by the inner address.
#[test]
fn hosts_behind_a_translation_are_told_apart() {
    let (mut plain, asked) = (unlimited(), Cell::new(0));
    let rules = |host| {
        let is_inner = matches!(host, HostKey::V4([10, 0, 1, _]));
        asked.set(asked.get() + u32::from(is_inner));
        HostTerms::default()
    };
    let mut queue = unlimited().with_nat(ByPort).with_host_rules(rules);
    for port in 0..10 {
        plain.push(Nanos(0), &frame(9, port, 0)).expect("there is room");
        queue.push(Nanos(0), &frame(9, port, 0)).expect("there is room");
    }
    assert_eq!((plain.backlogged_hosts(), queue.backlogged_hosts()), ((1, 1), (10, 1)));
    assert!(asked.get() >= 10, "{}", asked.get());
    queue.recount().expect("the books are right");
}

/// A frame that comes from this card and, behind a tag, this VLAN.
fn from_card(host: u8, port: u8, card: u8, vlan: u8) -> Vec<u8> {
    let mut frame = frame(host, port, 0).to_vec();
    frame[11] = card;
    frame.splice(12..12, [0x81, 0, 0, vlan]);
    frame.truncate(LEN);
    frame
}

/// Goal: a host is what its identity says, for shares, terms and the way down alike; a change of the identity counts for
/// flows that begin after it. Method: addresses of two cards in two VLANs under each identity, the backlogged hosts
/// counted; a rule for a list.
#[test]
fn hosts_are_what_the_operator_calls_one() {
    let byte = HostBy::Prefix(PrefixLengths::new(24, 64).expect("in range"));
    let listed = || [HostMember::v4([10, 0, 0, 1], 7), HostMember::mac([2, 2, 2, 2, 2, 9], 7)];
    for (by, members, hosts) in [
        (HostBy::Address, vec![], 6),
        (byte, vec![], 1),
        (HostBy::Mac, vec![], 2),
        (HostBy::Vlan, vec![], 3),
        // The three of card 9 with address 1, and three more.
        (HostBy::Address, listed().to_vec(), 4),
        (byte, listed().to_vec(), 2),
    ] {
        let named = Cell::new(0);
        let rules = |host| {
            named.set(named.get() + u32::from(host == HostKey::Named(7)));
            HostTerms::default()
        };
        let map = HostMap::new(by, members.clone()).expect("no overlap");
        let mut queue = unlimited().with_host_identity(map).with_host_rules(rules);
        for number in 0..6 {
            let frame = from_card(number + 1, number, 9 - number / 3, number % 3);
            queue.push(Nanos(0), &frame).expect("there is room");
        }
        assert_eq!(queue.backlogged_hosts(), (hosts, 1), "{by:?} {members:?}");
        assert_eq!(named.get() > 0, !members.is_empty(), "{by:?} {members:?}");
        // A flow that is queued keeps its host; one that begins is of the new one.
        *queue.host_identity_mut() = HostMap::new(byte, vec![]).expect("no overlap");
        queue.push(Nanos(0), &from_card(1, 0, 9, 0)).expect("there is room");
        assert_eq!(queue.backlogged_hosts(), (hosts, 1), "{by:?} {members:?}");
        let begins = from_card(99, 99, 99, 99);
        queue.push(Nanos(0), &begins).expect("there is room");
        let more = u32::from(by != byte);
        assert_eq!(queue.backlogged_hosts(), (hosts + more, 1), "{by:?} {members:?}");
        queue.recount().expect("the books are right");
    }
    // The far side is told apart by address, whatever its cards: one far host here, and one card.
    let map = HostMap::unlisted(HostBy::Mac);
    let queue = SmartQueue::download(Rate::UNLIMITED).frames(KEY).expect("a queue");
    let mut queue = queue.with_host_identity(map);
    for number in 0..6 {
        queue.push(Nanos(0), &from_card(number, number, 9, 0)).expect("there is room");
    }
    assert_eq!(queue.backlogged_hosts(), (6, 1));
}

/// How many of the first `count` frames are of host 1, which has 4 flows beside one of host 2.
fn of_host_1(pop: &mut impl FnMut() -> Option<u8>, count: usize) -> usize {
    (0..count).filter(|_| pop().expect("a frame") == 1).count()
}

/// What a host weighs, against the others.
struct Weighted(u32);

impl HostRules for Weighted {
    fn terms(&self, of: HostKey) -> HostTerms {
        let quantum = (of == host(1)).then_some(self.0 * 1_600);
        HostTerms { quantum: Some(quantum.unwrap_or(1_600)), ..HostTerms::default() }
    }
}

/// Goal: a weight is honoured either way, and a new one at once. Method: three against one, then one against one, of
/// hosts that stay backlogged.
#[test]
fn weights_of_hosts_hold_and_change_while_frames_are_queued() {
    for download in [false, true] {
        let rate = Rate::UNLIMITED;
        let builder = if download { SmartQueue::download(rate) } else { SmartQueue::upload(rate) };
        let queue = builder.buffers(400).frames(KEY).expect("a queue");
        let mut queue = queue.with_host_rules(Weighted(3));
        for number in 0..180 {
            for host in [1, 2] {
                let mut frame = frame(host, if host == 1 { number % 4 } else { 0 }, number);
                if download {
                    let (source, destination) = frame[26..34].split_at_mut(4);
                    source.swap_with_slice(destination);
                }
                queue.push(Nanos(0), &frame).expect("there is room");
            }
        }
        let at = if download { 33 } else { 29 };
        let mut pop = || queue.pop(Nanos(0)).map(|frame| frame[at]);
        // A first round begins with sparse flows.
        of_host_1(&mut pop, 16);
        let three = of_host_1(&mut pop, 160);
        assert!((116..=124).contains(&three), "{three} of 160");
        queue.host_rules_mut().0 = 1;
        assert!(queue.update_host(Nanos(0), host(1)));
        assert!(!queue.update_host(Nanos(0), host(7)), "it sends nothing");
        let mut pop = || queue.pop(Nanos(0)).map(|frame| frame[at]);
        of_host_1(&mut pop, 8);
        let even = of_host_1(&mut pop, 60);
        assert!((28..=32).contains(&even), "{even} of 60");
        queue.recount().expect("the books are right");
    }
}

/// Goal: during a key rotation a backlogged host gets new terms at once, under whichever key it stands. Method: as above, with
/// a rotation before the terms change; then a ceiling of the host that stays backlogged.
#[test]
fn terms_of_a_host_change_during_a_key_rotation() {
    let memory = IsolatedMemory::<Heap>::allocate(64, 16, 400).with_rates();
    let aqm = vec![ChosenAqmState::EMPTY; memory.queues()];
    let (bytes, states) = (vec![0; 400 * LEN], vec![BufferState::EMPTY; 400]);
    let builder = SmartQueue::upload(Rate::UNLIMITED).max_len(LEN as u32);
    let queue = builder.frames_over(memory, aqm, bytes, states, KEY).expect("a queue");
    let weight = Cell::new((3, None));
    let rules = |of| {
        let (quantum, ceiling) = if of == host(1) { weight.get() } else { (1, None) };
        HostTerms { quantum: Some(quantum * 1_600), ceiling, ..HostTerms::default() }
    };
    let mut queue = queue.with_host_rules(rules);
    for number in 0..180 {
        for host in [1, 2] {
            let frame = frame(host, if host == 1 { number % 4 } else { 0 }, number);
            queue.push(Nanos(0), &frame).expect("there is room");
        }
    }
    of_host_1(&mut || queue.pop(Nanos(0)).map(|frame| frame[29]), 16);
    queue.rotate([7; 16]).expect("it is the first");

    weight.set((1, None));
    assert!(queue.update_host(Nanos(0), host(1)), "host 1 stands under the key before");
    assert!(!queue.update_host(Nanos(0), host(7)), "it sends nothing");
    of_host_1(&mut || queue.pop(Nanos(0)).map(|frame| frame[29]), 8);
    let even = of_host_1(&mut || queue.pop(Nanos(0)).map(|frame| frame[29]), 60);
    assert!((28..=32).contains(&even), "{even} of 60");

    weight.set((1, Some(Ceiling::new(8_000_000, LEN as u32).expect("in range"))));
    assert!(queue.update_host(Nanos(0), host(1)));
    let bound = of_host_1(&mut || queue.pop(Nanos(0)).map(|frame| frame[29]), 60);
    assert!(bound <= 1, "{bound} of 60 at one instant");
    assert!(queue.is_rotating());
    queue.recount().expect("the books are right");
}

/// Goal: rates and ceilings of hosts bind with frames as they do by descriptor, where the memory has room. Method: a
/// ceiling of 8 Mbit/s, 1 ms a frame, on a line without a rate, alone and with a committed rate above it; a committed rate
/// beside a host without one.
#[test]
fn ceilings_and_rates_of_hosts_bind() {
    let queue = |terms: HostTerms| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 100).with_rates();
        let aqm = vec![ChosenAqmState::EMPTY; memory.queues()];
        let (bytes, states) = (vec![0; 100 * 1_000], vec![BufferState::EMPTY; 100]);
        let builder = SmartQueue::upload(Rate::UNLIMITED).max_len(1_000);
        let queue = builder.frames_over(memory, aqm, bytes, states, KEY).expect("a queue");
        let rules = move |of| if of == host(1) { terms } else { HostTerms::default() };
        queue.with_host_rules(rules)
    };
    let ceiling = Some(Ceiling::new(8_000_000, 2_000).expect("in range"));
    // Of a rate ten times the ceiling, the ceiling is what the host gets.
    let above = CommittedRate::new(80_000_000, 2_000).expect("in range");
    for committed_rate in [None, Some(above)] {
        let mut bound = queue(HostTerms { ceiling, committed_rate, ..HostTerms::default() });
        for number in 0..20 {
            bound.push(Nanos(0), &frame(1, 1, number)).expect("there is room");
        }
        let mut now = Nanos(0);
        let mut at = Vec::new();
        while bound.pop(now).is_some() {
            at.push(now);
            now = bound.poll_at(now).unwrap_or(now);
        }
        assert_eq!(at.len(), 20);
        let span = at[19].since(at[3]);
        assert!(span >= Nanos::from_millis(15) && span <= Nanos::from_millis(17), "{span:?}");
        bound.recount().expect("the books are right");
    }

    let committed_rate = Some(CommittedRate::new(8_000, 1_000).expect("in range"));
    let mut shared = queue(HostTerms { committed_rate, ..HostTerms::default() });
    for number in 0..40 {
        shared.push(Nanos(0), &frame(1 + number % 2, 1, number)).expect("there is room");
    }
    let first = (0..20).filter(|_| shared.pop(Nanos(0)).expect("a frame")[29] == 1).count();
    assert!(first <= 3, "{first} of host 1 above its rate before the other's 20");
    shared.recount().expect("the books are right");
}

/// Goal: another key splits no host, reorders no flow and loses no frame. Method: four flows of two hosts, each with a
/// standing queue, over three keys; each frame has the next number of its flow.
#[test]
fn another_key_while_frames_are_queued_reorders_nothing() {
    let mut queue = unlimited();
    let (mut pushed, mut popped) = ([0_u8; 4], [0_u8; 4]);
    let flow_of = |frame: &[u8]| usize::from(frame[29] * 2 + frame[35]);
    let mut rotations = 0;
    for step in 0..effort(260, 800_u32) {
        let now = Nanos(u64::from(step) * 1_000);
        let flow = (step % 4) as usize;
        let frame = frame(flow as u8 / 2, flow as u8 % 2, pushed[flow]);
        queue.push(now, &frame).expect("there is room");
        pushed[flow] = pushed[flow].wrapping_add(1);
        // Queues stand, and are empty for three steps of ten, in which flows and hosts come back under the new key.
        let down_to = if step % 10 > 6 { 0 } else { 5 };
        while queue.backlog().packets > down_to {
            let frame = queue.pop(now).expect("a frame");
            let flow = flow_of(frame);
            assert_eq!(frame[LEN - 1], popped[flow], "in order");
            popped[flow] = popped[flow].wrapping_add(1);
        }
        if step % 100 == 50 && !queue.is_rotating() {
            let key = [rotations + 1; 16];
            queue.rotate(key).expect("no claim is left");
            assert!(queue.rotate(key).is_err(), "frames are queued under the key before");
            rotations += 1;
        }
        assert!(queue.backlogged_hosts().0 <= 2, "two hosts, whatever the key");
        if step % effort(10, 1) == 0 {
            queue.recount().expect("the books are right");
        }
    }
    assert!(rotations >= effort(2, 3), "{rotations}");
    queue.finish_rotation();
    assert!(!queue.is_rotating());
    assert_eq!(queue.counters().dropped_total().packets, 0);
}

#[test]
fn other_limits_drop_what_exceeds_them_and_stay() {
    let mut queue = SmartQueue::upload(Rate::UNLIMITED).buffers(20).frames(KEY).expect("a queue");
    for number in 0..20 {
        queue.push(Nanos(0), &frame(1, 1, number)).expect("there is room");
    }
    queue.set_limits(Limits::packets(5));
    assert_eq!(queue.backlog().packets, 5);
    assert_eq!(queue.counters().dropped_for(DropReason::LimitLowered).packets, 15);
    queue.recount().expect("the buffers of what was dropped are free");
    queue.set_rate(Nanos(0), Rate::megabits_per_second(900).expect("in range"));
    assert_eq!(queue.limits(), Limits::packets(5));
    queue.push(Nanos(0), &frame(2, 1, 0)).expect("the longest gives way");
    assert_eq!((queue.backlog().packets, queue.backlogged_hosts().0), (5, 2));
}

/// Goal: a frame that is popped is the caller's to change, and what it writes there disturbs no other frame. Method: every
/// byte of each frame overwritten, with frames queued behind it.
#[test]
fn a_popped_frame_is_the_callers_to_change() {
    let mut queue = SmartQueue::upload(Rate::UNLIMITED).buffers(4).frames(KEY).expect("a queue");
    for number in 0..4 {
        queue.push(Nanos(0), &[number; 60]).expect("there is room");
    }
    for number in 0..4 {
        let popped = queue.pop(Nanos(0)).expect("a frame");
        assert_eq!(popped, [number; 60]);
        popped.fill(0xff);
        queue.recount().expect("the books are right");
    }
}

/// Goal: a frame that is written in place is as one that is copied, and nothing is asked for in vain. Method: the same
/// history both ways, over few buffers, so that frames give way; lengths out of range.
#[test]
fn a_frame_that_is_written_in_place_is_as_one_that_is_copied() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).buffers(4).max_len(LEN as u32);
    let mut copied = builder.frames(KEY).expect("a queue");
    let mut written = builder.frames(KEY).expect("a queue");
    for number in 0..60_u8 {
        let bytes = &frame(number % 3, number % 5, number)[..LEN - usize::from(number)];
        copied.push(Nanos(0), bytes).expect("there is room");
        let fill = |place: &mut [u8]| place.copy_from_slice(bytes);
        written.push_with(Nanos(0), bytes.len(), fill).expect("there is room");
        if number % 3 == 2 {
            assert_eq!(copied.pop(Nanos(0)), written.pop(Nanos(0)));
        }
        assert_eq!(copied.counters(), written.counters());
        if number % effort(6, 1) == 0 {
            written.recount().expect("the books are right");
        }
    }
    for len in [0, LEN + 1, usize::MAX] {
        let refused = written.push_with(Nanos(0), len, |_| panic!("for {len} bytes"));
        assert_eq!(refused, Err(PushError::Length { len, max: LEN }));
    }
    let limits = Limits::bytes(500);
    written.set_limits(limits);
    let mut asked = false;
    let refused = written.push_with(Nanos(0), LEN, |_| asked = true);
    assert_eq!(refused, Err(PushError::Rejected(RejectReason::Full { limits })));
    written.recount().expect("the buffer is free again");
    assert_eq!(written.counters().rejected.packets, 4);
}

#[test]
fn tables_that_are_too_short_are_refused_with_what_is_needed() {
    let build = |packets: usize, bytes: usize, states: usize| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, packets);
        let aqm = vec![ChosenAqmState::EMPTY; memory.queues()];
        let builder = SmartQueue::upload(Rate::UNLIMITED).max_len(100);
        let states = vec![BufferState::EMPTY; states];
        builder.frames_over(memory, aqm, vec![0; bytes], states, KEY).map(|_| ())
    };
    let lacks = |what, given, needed| {
        Err(SmartQueueError::Isolated(IsolatedError::Memory { what, given, needed }))
    };
    assert_eq!(build(8, 800, 8), Ok(()));
    assert_eq!(build(8, 800, 0), Err(SmartQueueError::NoBuffers));
    assert_eq!(build(7, 800, 8), lacks("packets", 7, 8));
    assert_eq!(build(8, 799, 8), lacks("bytes", 799, 800));
}
