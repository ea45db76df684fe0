use super::*;
use crate::test_link::Beside;
use crate::{
    Descriptor, DropReason, FlowQueues, Limits, LoadDrr, LoadDrrFlow, LoadDrrHost, LongestFlow,
    LongestQueueDrop, Nanos, Packet, Queue, RoundList, Scheduler, Sides,
};
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

const NOW: Nanos = Nanos(0);

type ByLoad = LoadDrr<Vec<LoadDrrFlow>, Vec<LoadDrrHost>, Vec<LoadDrrHost>, Vec<RoundList>>;
type Longest = LongestHostDrop<Vec<HeldFlow>, Vec<LongestHost>, Vec<HostClasses>>;
type ByHost = Beside<ByLoad, Longest>;

/// Flows of the source hosts named.
fn rounds(hosts: &[u32], max_len: u32) -> ByLoad {
    let side = || vec![LoadDrrHost::EMPTY; 4];
    let nodes = vec![LoadDrrFlow::EMPTY; hosts.len()];
    let mut rounds =
        LoadDrr::new(nodes, side(), side(), vec![RoundList::EMPTY; 8], max_len).unwrap();
    rounds.set_mode(Sides::Source);
    rounds.add_all(max_len).unwrap();
    for (flow, &host) in (0..).zip(hosts) {
        rounds.assign(FlowId(flow), host, 0).unwrap();
    }
    rounds
}

fn by_host(hosts: &[u32], max_len: u32) -> ByHost {
    let flows = vec![HeldFlow::EMPTY; hosts.len()];
    let (ranks, classes) = (vec![LongestHost::EMPTY; 4], vec![HostClasses::EMPTY; 4]);
    let scheduler = rounds(hosts, max_len);
    let policy = LongestHostDrop::new(&scheduler, flows, ranks, classes).unwrap();
    Beside { scheduler, policy }
}

/// Flow scheduler and drop policy, their queues, and what the rules are about: when each flow entered its class.
#[derive(Clone)]
struct World {
    both: ByHost,
    queues: Vec<Vec<u32>>,
    entered: Vec<u64>,
    clock: u64,
}

impl World {
    fn of(hosts: &[u32], max_len: u32) -> Self {
        let flows = hosts.len();
        let (queues, entered) = (vec![Vec::new(); flows], vec![0; flows]);
        Self { both: by_host(hosts, max_len), queues, entered, clock: 0 }
    }

    fn bytes(&self, flow: u32) -> u32 {
        self.queues[flow as usize].iter().sum()
    }

    fn host(&self, flow: u32) -> u32 {
        self.both.scheduler.host_of(FlowId(flow)).unwrap()
    }

    /// The victim by the rules alone.
    fn scan(&self) -> Option<u32> {
        let flows = || (0..self.queues.len() as u32).filter(|&flow| self.bytes(flow) > 0);
        let held = |host| -> u32 {
            flows().filter(|&flow| self.host(flow) == host).map(|flow| self.bytes(flow)).sum()
        };
        let host = (0..4).filter(|&host| held(host) > 0).min_by_key(|&host| (!held(host), host))?;
        flows()
            .filter(|&flow| self.host(flow) == host)
            .min_by_key(|&flow| (u32::MAX - self.bytes(flow).ilog2(), self.entered[flow as usize]))
    }

    /// Notes when the class of `flow` changed, and compares the victim and the books.
    fn check(&mut self, flow: u32, before: u32) {
        self.clock += 1;
        if self.bytes(flow).checked_ilog2() != before.checked_ilog2() {
            self.entered[flow as usize] = self.clock;
        }
        let victim = self.both.victim().map(|(flow, _)| flow.0);
        assert_eq!(victim, self.scan(), "{:?}", self.queues);
        let recount = self.both.recount(&|flow| {
            let queue = &self.queues[flow.index()];
            let backlog = Backlog { packets: queue.len() as u32, bytes: queue.iter().sum() };
            FlowState { backlog, head_len: queue.first().copied() }
        });
        assert_eq!(recount, Ok(()));
        for host in 0..4 {
            let flows = (0..self.queues.len() as u32).filter(|&flow| self.host(flow) == host);
            let held: u32 = flows.map(|flow| self.bytes(flow)).sum();
            assert_eq!(self.both.policy.bytes_of(host), held);
        }
    }

    fn enqueue(&mut self, flow: u32, len: u32) {
        let before = self.bytes(flow);
        self.queues[flow as usize].push(len);
        if before == 0 {
            self.both.backlogged(FlowId(flow), len);
        } else {
            self.both.grew(FlowId(flow), len);
        }
        self.check(flow, before);
    }

    fn dequeue(&mut self) {
        let Some(flow) = self.both.scheduler.select() else { return };
        let before = self.bytes(flow.0);
        let len = self.queues[flow.index()].remove(0);
        self.both.served(flow, len, self.queues[flow.index()].first().copied());
        self.check(flow.0, before);
    }

    fn lose(&mut self, flow: u32) {
        let before = self.bytes(flow);
        let Some(len) = self.queues[flow as usize].pop() else { return };
        let head = self.queues[flow as usize].first().copied();
        self.both.lost(FlowId(flow), len, head);
        self.check(flow, before);
    }

    fn remove(&mut self, flow: u32) {
        let before = self.bytes(flow);
        self.queues[flow as usize].clear();
        self.both.remove(FlowId(flow));
        self.check(flow, before);
    }
}

/// Goal: the victim is the one a scan finds, after every short history. Method: three flows of two hosts;
/// each step is one of: a packet of 1 or 3 bytes to one of the flows, a service, the loss of the victim's
/// last packet. All histories of six steps.
#[test]
fn the_victim_is_the_one_a_scan_finds_after_every_short_history() {
    fn go(world: &World, depth: u32) {
        if depth == 0 {
            return;
        }
        for step in 0..8 {
            let mut world = world.clone();
            match step {
                0..6 => world.enqueue(step % 3, if step < 3 { 1 } else { 3 }),
                6 => world.dequeue(),
                _ => world.both.victim().into_iter().for_each(|(flow, _)| world.lose(flow.0)),
            }
            go(&world, depth - 1);
        }
    }
    go(&World::of(&[0, 0, 1], 4), conformance::effort::effort(5, 6));
}

/// Goal: the same in long histories, with more flows, all magnitudes of bytes, and flows that are removed
/// and change their hosts.
#[test]
fn the_victim_is_the_one_a_scan_finds_whatever_happened() {
    for seed in 1..5 {
        let mut random = Xorshift::new(seed);
        let mut world = World::of(&[0, 1, 2, 3, 0, 1, 0, 0], Packet::MAX_LEN);
        for operation in 0..10_000_u32 {
            let flow = random.below(8);
            let filling = operation >> 6 & 1 == 0;
            match random.below(16) {
                0 => world.lose(flow),
                1 => {
                    world.remove(flow);
                    world.both.scheduler.configure(FlowId(flow), Packet::MAX_LEN, None).unwrap();
                    let assigned = world.both.scheduler.assign(FlowId(flow), random.below(4), 0);
                    assert_eq!(assigned, Ok(()));
                }
                choice if (choice < 10) == filling => {
                    world.enqueue(flow, 1 + random.magnitude(14));
                }
                _ => world.dequeue(),
            }
        }
    }
}

/// Goal: a host that holds no more than its share of a limit in bytes loses nothing to another's
/// overflow. Method: four hosts with one, two, three and ten flows send more than the link takes, with
/// bursts; each dropped packet of another host than the arrival's is judged by what its host held.
#[test]
fn a_host_below_its_share_never_loses_to_anothers_overflow() {
    const LIMIT: u32 = 20_000;
    let hosts = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3];
    let limits = Limits { packets: u32::MAX, bytes: LIMIT };
    let queues = vec![Queue::EMPTY; hosts.len()];
    let descriptors = vec![Descriptor::EMPTY; 4_096];
    let Beside { scheduler, policy } = by_host(&hosts, 1_500);
    let mut queues =
        FlowQueues::new(scheduler, queues, descriptors, limits).with_drop_policy(policy);
    let (mut random, mut free): (_, Vec<u32>) = (Xorshift::new(5), (0..4_096).collect());
    let (mut packets, mut held) = (vec![(0, 0); 4_096], [0_u32; 4]);
    let (mut others, mut own) = (0, 0);
    for operation in 0..200_000_u32 {
        if random.below(16) < 7 {
            let drops = &mut |_: Packet, _| panic!("nothing is dropped without an AQM");
            if let Some(packet) = queues.dequeue(NOW, drops) {
                held[packets[packet.handle as usize].0] -= packet.len;
                free.push(packet.handle);
            }
            continue;
        }
        // Now and then one host alone.
        let flow = if operation >> 10 & 1 == 0 { random.below(16) } else { operation >> 12 & 15 };
        let (from, len) = (hosts[flow as usize] as usize, 1 + random.below(1_500));
        let packet = Packet::new(free.pop().unwrap(), len);
        packets[packet.handle as usize] = (from, len);
        held[from] += len;
        let mut gone = Vec::new();
        let drops = &mut |dropped: Packet, reason| {
            assert_eq!(reason, DropReason::Overflow);
            let (host, len) = packets[dropped.handle as usize];
            let active = held.iter().filter(|&&bytes| bytes > 0).count() as u32;
            if host == from {
                own += 1;
            } else {
                others += 1;
            }
            assert!(held[host] * active > LIMIT, "host {host} of {active}: {held:?}");
            held[host] -= len;
            gone.push(dropped.handle);
        };
        if let Err(rejected) = queues.enqueue(NOW, FlowId(flow), packet, drops) {
            let active = held.iter().filter(|&&bytes| bytes > 0).count() as u32;
            assert!(held[from] * active > LIMIT, "rejected of {from}: {held:?}");
            held[from] -= len;
            gone.push(rejected.packet.handle);
        }
        free.extend(gone);
        if operation % 64 == 0 {
            assert_eq!(queues.recount(), Ok(()));
        }
    }
    assert!(others > 1_000 && own > 1_000, "drops of others {others}, of the arrival's host {own}");
}

/// Goal: what the module is for. Method: one host holds one queue of three packets, another 30 of one
/// each; with one packet more, longest-queue drop by flow takes from the first, by host from the other.
#[test]
fn many_short_queues_do_not_push_out_a_longer_one() {
    fn victim<D: DropPolicy<ByLoad>>(scheduler: ByLoad, policy: D) -> u32 {
        let limits = Limits { packets: u32::MAX, bytes: 33 };
        let (queues, descriptors) = (vec![Queue::EMPTY; 32], vec![Descriptor::EMPTY; 64]);
        let mut queues =
            FlowQueues::new(scheduler, queues, descriptors, limits).with_drop_policy(policy);
        let mut dropped = Vec::new();
        for (handle, flow) in (0..).zip([0, 0, 0].into_iter().chain(1..32)) {
            let drops = &mut |packet: Packet, _| dropped.push(packet.handle);
            queues.enqueue(NOW, FlowId(flow), Packet::new(handle, 1), drops).unwrap();
        }
        assert_eq!(dropped.len(), 1);
        dropped[0]
    }
    let mut hosts = [1; 32];
    hosts[0] = 0;
    let flows = vec![LongestFlow::EMPTY; 32];
    assert_eq!(victim(rounds(&hosts, 1), LongestQueueDrop::new(flows)), 0, "of flow 0");
    let Beside { scheduler, policy } = by_host(&hosts, 1);
    assert_eq!(victim(scheduler, policy), 3, "of flow 1, of the other host");
}

#[test]
fn the_victim_holds_more_than_half_of_the_longest() {
    let mut world = World::of(&[0, 0, 0], 100);
    world.enqueue(0, 64);
    world.enqueue(1, 100);
    world.enqueue(1, 27);
    assert_eq!(world.both.victim(), Some((FlowId(0), DropFrom::Head)), "64 of 127, and first");
    world.enqueue(1, 1);
    assert_eq!(world.both.victim(), Some((FlowId(1), DropFrom::Head)), "128");
    world.enqueue(0, 64);
    world.both.policy = world.both.policy.drop_from(DropFrom::Tail);
    assert_eq!(world.both.victim(), Some((FlowId(1), DropFrom::Tail)), "both 128: longer there");
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut both = by_host(&[0, 1], 100);
    both.remove(FlowId(1));
    let before = both.clone();
    let policy: &mut dyn DropPolicy<ByLoad> = &mut both.policy;
    policy.backlogged(&both.scheduler, FlowId(2), 50);
    policy.grew(FlowId(0), 50);
    policy.lost(FlowId(0), 50, false);
    policy.served(FlowId(4_000), 1, true);
    policy.removed(FlowId(4_000));
    assert_eq!((&both, both.victim()), (&before, None));
    both.backlogged(FlowId(0), 10);
    let before = both.clone();
    both.policy.backlogged(&both.scheduler, FlowId(0), 90);
    assert_eq!(both, before);
    let backlogged = ConfigError::Backlogged { flow: FlowId(0) };
    assert_eq!(both.scheduler.assign(FlowId(0), 2, 0), Err(backlogged));
}

#[test]
fn too_little_room_is_refused_or_hides_flows() {
    let make = |flows, ranks, classes| {
        let (flows, ranks) = (vec![HeldFlow::EMPTY; flows], vec![LongestHost::EMPTY; ranks]);
        let classes = vec![HostClasses::EMPTY; classes];
        LongestHostDrop::new(&rounds(&[0, 0, 0], 1), flows, ranks, classes)
    };
    let refused = |what| ConfigError::OutOfRange { what, value: 3, min: 4, max: u32::MAX.into() };
    assert_eq!(make(3, 3, 4), Err(refused("room for hosts")));
    assert_eq!(make(3, 4, 3), Err(refused("room for classes of hosts")));
    let (queues, descriptors) = (vec![Queue::EMPTY; 3], vec![Descriptor::EMPTY; 4]);
    let queues = FlowQueues::new(rounds(&[0, 0, 0], 1), queues, descriptors, Limits::NONE);
    let mut queues = queues.with_drop_policy(make(2, 4, 5).unwrap());
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(queues.configure(FlowId(2), 1), Err(unknown));
    assert_eq!((queues.config(FlowId(1)), queues.config(FlowId(2))), (Some(1), None));
    let drops = &mut |_: Packet, _| panic!("there is room");
    assert!(queues.enqueue(NOW, FlowId(2), Packet::new(0, 1), drops).is_err());
    assert!(queues.enqueue(NOW, FlowId(1), Packet::new(0, 1), drops).is_ok());
    assert_eq!(queues.policy().bytes_of(0), 1);
}

/// Goal: `recount` sees every kind of damage. Method: break one field at a time.
#[test]
fn a_recount_sees_damage() {
    let mut world = World::of(&[0, 0, 0, 1], 100);
    for (flow, len) in [(0, 40), (1, 50), (2, 60), (3, 70)] {
        world.enqueue(flow, len);
    }
    let truth = |flow: FlowId| {
        let bytes = world.bytes(flow.0);
        FlowState { backlog: Backlog { packets: 1, bytes }, head_len: None }
    };
    assert_eq!(world.both.recount(&truth), Ok(()));
    let damages: [fn(&mut Longest); 9] = [
        |d| d.flows[0].bytes = 41,
        |d| d.flows[0].host = 1,
        |d| LongestHost::lower(&mut d.hosts, 0, 1),
        |d| d.hosts[1] = LongestHost::EMPTY,
        |d| d.hosts[0] = LongestHost::EMPTY,
        |d| d.classes[0] = HostClasses::EMPTY,
        |d| d.classes[1] = d.classes[0],
        |d| {
            let mut held = d.flows[0];
            held.bytes = 64;
            d.classes[0].reclass(&mut d.flows, 0, 40, held);
        },
        |d| {
            let mut held = d.flows[1];
            held.bytes = 0;
            d.classes[0].reclass(&mut d.flows, 1, 50, held);
        },
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut bad = world.both.clone();
        damage(&mut bad.policy);
        assert!(bad.recount(&truth).is_err(), "damage {at}");
    }
}

#[test]
fn a_flow_is_16_bytes_and_a_host_140() {
    let host = size_of::<LongestHost>() + size_of::<HostClasses>();
    assert_eq!((size_of::<HeldFlow>(), host), (16, 140));
}
