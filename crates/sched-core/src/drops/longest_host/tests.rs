use super::*;
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

type Longest = LongestHostDrop<Vec<HeldFlow>, Vec<HeldHost>, [HostClasses; 1]>;

/// The host of each flow, of four.
#[derive(Clone, Debug, PartialEq)]
struct Houses(Vec<u32>);

impl Hosted for Houses {
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        self.0.get(flow.index()).copied()
    }

    fn hosts(&self) -> u32 {
        4
    }
}

fn bytes_of(policy: &Longest, host: u32) -> u32 {
    policy.hosts.get(host).map_or(0, |host| host.bytes)
}

/// Returns the bound that a victim host's backlog must exceed, where `most` is the most that a host
/// holds.
fn least(most: u32, grain: u32) -> u32 {
    most.saturating_sub(grain.max((2 * u64::from(most)).div_ceil(9) as u32))
}

/// The drop policy, and the queues of the flows.
#[derive(Clone, Debug, PartialEq)]
struct World {
    houses: Houses,
    policy: Longest,
    queues: Vec<Vec<u32>>,
    /// The flow that was served last.
    served: usize,
}

impl World {
    /// Creates flows of the given hosts, four of which share `limit` bytes.
    fn of(hosts: &[u32], limit: u32) -> Self {
        let houses = Houses(hosts.to_vec());
        let flows = vec![HeldFlow::EMPTY; hosts.len()];
        let (held, classes) = (vec![HeldHost::EMPTY; 4], [HostClasses::EMPTY]);
        let policy =
            LongestHostDrop::new(houses.hosts(), Limits::bytes(limit), flows, held, classes);
        let (policy, queues) = (policy.unwrap(), vec![Vec::new(); hosts.len()]);
        Self { houses, policy, queues, served: 0 }
    }

    fn limits_changed(&mut self, limits: Limits) {
        DropPolicy::<Houses>::limits_changed(&mut self.policy, limits);
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.policy.victim(&self.houses, &|_| panic!("the policy has books of its own"))
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.policy.recount(&self.houses, &|flow| {
            let queue = &self.queues[flow.index()];
            let backlog = Backlog { packets: queue.len() as u32, bytes: queue.iter().sum() };
            FlowState { backlog, head_len: queue.first().copied() }
        })
    }

    fn bytes(&self, flow: u32) -> u32 {
        self.queues[flow as usize].iter().sum()
    }

    fn host(&self, flow: u32) -> u32 {
        self.houses.host_of(FlowId(flow)).unwrap()
    }

    /// Returns the bytes of each flow of `host`.
    fn held(&self, host: u32) -> impl Iterator<Item = u32> {
        let flows = (0..self.queues.len() as u32).filter(move |&flow| self.host(flow) == host);
        flows.map(|flow| self.bytes(flow))
    }

    /// Checks the accounting, and the victim against its documented bounds.
    fn check(&self) {
        assert_eq!(self.recount(), Ok(()), "{:?}", self.queues);
        let held = [0, 1, 2, 3].map(|host| self.held(host).sum::<u32>());
        assert_eq!(held, [0, 1, 2, 3].map(|host| bytes_of(&self.policy, host)));
        let most = held.into_iter().max().unwrap();
        let Some((flow, _)) = self.victim() else {
            return assert!(most < self.policy.hosts.least, "{held:?}");
        };
        let of_host = held[self.host(flow.0) as usize];
        let what = (flow, held, self.policy.grain());
        assert!(of_host > least(most, what.2) && of_host > most / 8, "{what:?}");
        let (longest, of_flow) = (self.held(self.host(flow.0)).max().unwrap(), self.bytes(flow.0));
        let is_told_apart = longest >= 1 << 9 && of_flow < 1 << 20;
        assert!(of_flow > if is_told_apart { longest / 8 } else { 0 }, "{:?}", self.queues);
    }

    fn enqueue(&mut self, flow: u32, len: u32) {
        self.queues[flow as usize].push(len);
        let held = self.bytes(flow);
        if held == len {
            self.policy.backlogged(&self.houses, FlowId(flow), len);
        } else {
            DropPolicy::<Houses>::grew(&mut self.policy, FlowId(flow), len, held);
        }
        self.check();
    }

    /// Serves the flows in turn.
    fn dequeue(&mut self) {
        let flows = self.queues.len();
        let mut behind = (1..=flows).map(|ahead| (self.served + ahead) % flows);
        let Some(flow) = behind.find(|flow| !self.queues[*flow].is_empty()) else { return };
        self.served = flow;
        let len = self.queues[flow].remove(0);
        let (flow, left) = (FlowId(flow as u32), self.bytes(flow as u32));
        DropPolicy::<Houses>::served(&mut self.policy, flow, len, left);
        self.check();
    }

    fn lose(&mut self, flow: u32) {
        let Some(len) = self.queues[flow as usize].pop() else { return };
        let left = self.bytes(flow);
        DropPolicy::<Houses>::lost(&mut self.policy, FlowId(flow), len, left);
        self.check();
    }

    fn remove(&mut self, flow: u32) {
        let held = self.bytes(flow);
        self.queues[flow as usize].clear();
        if held > 0 {
            DropPolicy::<Houses>::lost(&mut self.policy, FlowId(flow), held, 0);
        }
        DropPolicy::<Houses>::removed(&mut self.policy, FlowId(flow));
        self.check();
    }
}

/// Goal: the bounds hold after every short sequence of operations. Method: three flows of two
/// hosts; each step is a packet of 1 or 7 bytes to one of the flows, a service, or the loss of the
/// victim's last packet. All sequences of six steps, with units of 1, 2 and 4 bytes.
#[test]
fn the_promises_hold_after_every_short_history() {
    fn go(world: &World, depth: u32) {
        if depth == 0 {
            return;
        }
        for step in 0..8 {
            let mut world = world.clone();
            match step {
                0..6 => world.enqueue(step % 3, if step < 3 { 1 } else { 7 }),
                6 => world.dequeue(),
                _ => world.victim().into_iter().for_each(|(flow, _)| world.lose(flow.0)),
            }
            go(&world, depth - 1);
        }
    }
    for unit in [1, 2, 4] {
        go(&World::of(&[0, 0, 1], 32 * unit), conformance::effort::effort(5, 6));
    }
}

/// Goal: the bounds hold in long sequences of operations, with more flows, all magnitudes of bytes,
/// flows that are removed and change their hosts, and limits that change.
#[test]
fn the_promises_hold_whatever_happened() {
    for seed in 1..5 {
        let mut random = Xorshift::new(seed);
        let mut world = World::of(&[0, 1, 2, 3, 0, 1, 0, 0], 1 << 14);
        for operation in 0..10_000_u32 {
            let flow = random.below(8);
            let filling = operation >> 6 & 1 == 0;
            if operation % 1_024 == 1_023 {
                world.limits_changed(Limits::bytes(1 << random.below(24)));
            }
            match random.below(16) {
                0 => world.lose(flow),
                1 => {
                    world.remove(flow);
                    world.houses.0[flow as usize] = random.below(4);
                }
                choice if (choice < 10) == filling => {
                    world.enqueue(flow, 1 + random.magnitude(8 + 4 * seed as u32));
                }
                _ => world.dequeue(),
            }
        }
    }
}

/// Goal: a host that holds at most its share of a limit in bytes, minus the grain, loses nothing to
/// another's overflow. So it keeps three quarters of its share. Method: four hosts with one, two,
/// three and ten flows send more than the link takes, with bursts; each dropped packet is checked
/// against what its host held.
#[test]
fn a_host_below_its_share_never_loses_to_anothers_overflow() {
    const LIMIT: u32 = 20_000;
    let mut world = World::of(&[0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3], LIMIT);
    let grain = world.policy.grain();
    assert!((LIMIT / 32..=LIMIT / 16).contains(&grain), "{grain}");
    let mut random = Xorshift::new(5);
    let (mut others, mut own, mut lowest) = (0, 0, u32::MAX);
    for operation in 0..20_000_u32 {
        if random.below(16) < 7 {
            world.dequeue();
            continue;
        }
        // Sometimes one host alone.
        let flow = if operation >> 10 & 1 == 0 { random.below(16) } else { operation >> 12 & 15 };
        world.enqueue(flow, 1 + random.below(1_500));
        loop {
            let held = [0, 1, 2, 3].map(|host| bytes_of(&world.policy, host));
            if held.iter().sum::<u32>() <= LIMIT {
                break;
            }
            let (victim, _) = world.victim().unwrap();
            let host = world.host(victim.0);
            let share = LIMIT / held.iter().filter(|&&bytes| bytes > 0).count() as u32;
            let held = held[host as usize];
            assert!(held > least(share, grain) && held > share * 3 / 4, "{held} of {share}");
            // Percent of its share.
            lowest = lowest.min(100 * held / share);
            *(if host == world.host(flow) { &mut own } else { &mut others }) += 1;
            world.lose(victim.0);
        }
    }
    assert!(others > 500 && own > 500, "drops of others {others}, of the arrival's host {own}");
    assert!(lowest < 100, "a host below its part loses a packet: at least {lowest} percent");
}

/// Goal: the purpose of the policy. Method: one host holds one queue of three packets, another 31
/// of one each.
#[test]
fn many_short_queues_do_not_push_out_a_longer_one() {
    let mut hosts = [1; 32];
    hosts[0] = 0;
    let mut world = World::of(&hosts, 33);
    for flow in [0, 0, 0].into_iter().chain(1..32) {
        world.enqueue(flow, 1);
    }
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)), "of the other host");
}

#[test]
fn the_victim_holds_more_than_an_eighth_of_the_longest() {
    let mut world = World::of(&[0, 0, 0], 1 << 12);
    world.enqueue(0, 1_500);
    world.enqueue(1, 2_047);
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Head)), "both short, and first");
    world.enqueue(1, 1);
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)), "2,048");
    for len in [549, 6_142] {
        world.enqueue(0, len);
    }
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)), "8,192 would be a class more");
    world.lose(1);
    world.enqueue(1, 1);
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Head)), "flow 1 had its turn");
    world.enqueue(0, 1);
    world.policy = world.policy.drop_from(DropFrom::Tail);
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Tail)), "8,192");
    for _ in 0..3 {
        world.lose(0);
    }
    assert_eq!(world.bytes(0), 1_500);
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Tail)), "of its old class no more");
}

/// Goal: similar flows of a host are dropped from in turn. Method: three flows of 3,000 bytes in
/// packets of 500; the victim loses a packet, six times. Without the rule flow 0 loses four in a
/// row, until it leaves its class.
#[test]
fn alike_flows_of_a_host_give_way_in_turn() {
    let mut world = World::of(&[0, 0, 0, 1], 1 << 17);
    for packet in 0..18 {
        world.enqueue(packet % 3, 500);
    }
    let mut gave_way = Vec::new();
    while gave_way.len() < 6 {
        let (flow, _) = world.victim().unwrap();
        gave_way.push(flow.0);
        world.lose(flow.0);
    }
    assert_eq!(gave_way, [0, 1, 2, 0, 1, 2]);
    assert_eq!([0, 1, 2].map(|flow| world.bytes(flow)), [2_000; 3]);
}

#[test]
fn of_hosts_in_a_class_the_first_gives_way_and_keeps_its_place() {
    let mut world = World::of(&[0, 1], 1 << 17);
    world.enqueue(1, 9_000);
    world.enqueue(0, 12_000);
    assert_eq!(world.policy.grain(), 8_192);
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)), "in one class, and first");
    world.enqueue(0, 288);
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Head)), "three units");
    world.lose(0);
    world.enqueue(1, 3_288);
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Head)), "12,000 is above the lower mark");
}

/// Goal: there is a victim whenever a limit in bytes is exceeded, even one below a byte per host.
/// Method: up to 16 packets of a byte or two, to all hosts in turn.
#[test]
fn there_is_a_victim_over_any_limit_in_bytes() {
    for limit in 0..16 {
        for len in [1, 2] {
            let mut world = World::of(&[0, 1, 2, 3], limit);
            for sent in 1..=16 {
                world.enqueue(sent % 4, len);
                assert!(sent * len <= limit || world.victim().is_some(), "{sent} of {limit}");
            }
        }
    }
}

/// Goal: a host that holds little is no victim, and becomes one again. Method: two hosts around the
/// least, which is two units here, and one around that of a limit in packets.
#[test]
fn a_host_below_the_least_is_no_victim() {
    let mut world = World::of(&[0, 1], 1 << 17);
    world.enqueue(0, 8_191);
    assert_eq!(world.victim(), None);
    world.enqueue(1, 8_192);
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)));
    world.enqueue(1, 1);
    world.lose(1);
    assert_eq!(world.victim(), Some((FlowId(1), DropFrom::Head)), "above the lower mark");
    world.lose(1);
    assert_eq!(world.victim(), None);
    world.limits_changed(Limits { packets: 64, bytes: 1 << 17 });
    assert_eq!(world.victim(), Some((FlowId(0), DropFrom::Head)), "320 are enough");
}

/// Goal: a change of limits preserves the turns of similar hosts. Method: two hosts of one class;
/// the one that has just lost a packet is behind the other, and stays there with unchanged limits,
/// with others of the same unit, and with those of another unit.
#[test]
fn other_limits_leave_hosts_their_turns() {
    let mut world = World::of(&[0, 1], 3_200);
    for flow in [0, 1, 0, 1] {
        world.enqueue(flow, 80);
    }
    let victim = |world: &World| world.victim().map(|(flow, _)| flow.0);
    assert_eq!(victim(&world), Some(0));
    world.enqueue(0, 20);
    world.lose(0);
    assert_eq!((world.bytes(0), world.bytes(1), victim(&world)), (160, 160, Some(1)));
    for limit in [3_200, 3_300] {
        world.limits_changed(Limits::bytes(limit));
        assert_eq!(victim(&world), Some(1));
    }
    // A unit of half the size: hosts are listed again, in the order in which they would have been
    // dropped from.
    world.limits_changed(Limits::bytes(1_600));
    assert_eq!(victim(&world), Some(1));
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut world = World::of(&[0, 1], 3_200);
    world.remove(1);
    let before = world.clone();
    let policy: &mut dyn DropPolicy<Houses> = &mut world.policy;
    policy.backlogged(&before.houses, FlowId(2), 50);
    policy.backlogged(&before.houses, FlowId(0), 0);
    for flow in [FlowId(0), FlowId(4_000)] {
        policy.grew(flow, 50, 50);
        policy.lost(flow, 50, 50);
        policy.lost(flow, 50, 0);
        policy.served(flow, 50, 50);
        policy.served(flow, 50, 0);
    }
    policy.removed(FlowId(4_000));
    assert_eq!((&world, world.victim()), (&before, None));
    world.enqueue(0, 10);
    let before = world.clone();
    world.policy.backlogged(&world.houses, FlowId(0), 90);
    assert_eq!(world, before);
}

#[test]
fn too_little_room_is_refused_or_hides_flows() {
    let houses = Houses(vec![0; 3]);
    let make = |flows, hosts, classes| {
        let (flows, hosts) = (vec![HeldFlow::EMPTY; flows], vec![HeldHost::EMPTY; hosts]);
        let classes = vec![HostClasses::EMPTY; classes];
        LongestHostDrop::new(houses.hosts(), Limits::NONE, flows, hosts, classes)
    };
    let (what, max) = ("host entries", HeldFlow::NO_HOST.into());
    let refused = ConfigError::OutOfRange { what, value: 3, min: 4, max };
    assert_eq!(make(3, 3, 1), Err(refused));
    let (what, max) = ("host class tables", u64::MAX);
    let refused = ConfigError::OutOfRange { what, value: 0, min: 1, max };
    assert_eq!(make(3, 4, 0), Err(refused));
    let (what, max) = ("flow entries", u16::MAX.into());
    let refused = ConfigError::OutOfRange { what, value: 65_536, min: 0, max };
    assert_eq!(make(65_536, 4, 1), Err(refused));
    assert!(make(65_535, 65_535, 1).is_ok() && make(3, 65_536, 1).is_err());
    let policy = make(2, 4, 1).unwrap();
    assert_eq!(DropPolicy::<Houses>::room(&policy), Some(2));
}

/// Goal: `recount` detects every fault. Method: break one field at a time.
#[test]
fn a_recount_sees_damage() {
    let mut world = World::of(&[0, 0, 0, 1, 1], 1 << 20);
    for (flow, len) in [(0, 40), (1, 50), (2, 3_000), (3, 70)] {
        world.enqueue(flow, len);
    }
    assert_eq!(world.recount(), Ok(()));
    /// Returns `now` with the links of `before`.
    fn listed(before: HeldFlow, mut now: HeldFlow) -> HeldFlow {
        now.links = before.links;
        now
    }
    let damages: [fn(&mut Longest); 8] = [
        |d| d.flows[0] = HeldFlow::IDLE,
        |d| d.flows[0] = listed(d.flows[0], HeldFlow::of(1, 40)),
        |d| d.flows[2] = listed(d.flows[2], HeldFlow::of(0, 40)),
        |d| d.flows[4] = HeldFlow::EMPTY,
        |d| d.hosts.raise(0, 1),
        |d| d.hosts.lower(0, 3_080),
        |d| *d.hosts.list_of(HeldFlow::of(0, 40)).unwrap() = Head::EMPTY,
        |d| {
            d.hosts.list_of(HeldFlow::of(1, 70)).unwrap().unlink(
                &mut d.flows,
                3,
                ring::Links::EMPTY,
            )
        },
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut bad = world.clone();
        damage(&mut bad.policy);
        assert!(bad.recount().is_err(), "damage {at}");
    }
}

#[test]
fn a_flow_is_8_bytes_and_a_host_32() {
    assert_eq!(
        (size_of::<HeldFlow>(), size_of::<HeldHost>(), size_of::<HostClasses>()),
        (8, 32, 512)
    );
}

/// Goal: `recount` detects faults in the lists of flows without a host. Method: three flows that
/// the flow scheduler does not know, in two classes; one list broken at a time.
#[test]
fn a_recount_sees_damage_to_flows_without_a_host() {
    let (scheduler, held) = (Houses(Vec::new()), [40, 50, 3_000]);
    let (hosts, classes) = (vec![HeldHost::EMPTY; 4], [HostClasses::EMPTY]);
    let flows = vec![HeldFlow::EMPTY; 3];
    let policy = LongestHostDrop::new(scheduler.hosts(), Limits::NONE, flows, hosts, classes);
    let mut policy: Longest = policy.unwrap();
    for (flow, len) in (0..).zip(held) {
        policy.backlogged(&scheduler, FlowId(flow), len);
    }
    assert_eq!([0, 1, 2, 3].map(|host| bytes_of(&policy, host)), [0; 4]);
    assert_eq!(policy.victim(&scheduler, &|_| 0), Some((FlowId(2), DropFrom::Head)));
    let truth = |flow: FlowId| {
        let backlog = Backlog { packets: 1, bytes: held[flow.index()] };
        FlowState { backlog, head_len: Some(held[flow.index()]) }
    };
    assert_eq!(policy.recount(&scheduler, &truth), Ok(()));
    let damages: [fn(&mut Longest); 4] = [
        |d| *d.hosts.list_of(HeldFlow::of(HeldFlow::NO_HOST, 40)).unwrap() = Head::EMPTY,
        |d| *d.hosts.list_of(HeldFlow::of(HeldFlow::NO_HOST, 3_000)).unwrap() = Head::EMPTY,
        |d| d.hosts.list_of(HeldFlow::of(HeldFlow::NO_HOST, 512)).unwrap().append(&mut d.flows, 0),
        |d| d.flows[1] = HeldFlow::IDLE,
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut bad = policy.clone();
        damage(&mut bad);
        assert!(bad.recount(&scheduler, &truth).is_err(), "damage {at}");
    }
}
