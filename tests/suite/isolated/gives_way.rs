//! Selection of the host to drop from: the one with the longest backlog over all tins.

use super::*;

const LEN: u32 = 1_000;

/// A flow of a host in a tin. The host is both source and destination, so that hosts can be
/// distinguished by either.
#[derive(Clone, Copy, Debug)]
struct Of {
    host: u32,
    tin: u8,
    flow: u32,
}

impl Labelled for Of {
    fn flow(&self) -> u32 {
        mix(self.host * 64 + self.flow)
    }

    fn source(&self) -> u32 {
        8 * self.host
    }

    fn destination(&self) -> u32 {
        8 * self.host
    }

    fn tin(&self) -> u8 {
        self.tin
    }
}

const WITH_HOSTS: [Isolation; 2] = [Isolation::DualSrcHost, Isolation::DualDstHost];

type Queue = Isolated<Heap>;

fn queue_in_tins(isolation: Isolation, tins: usize, limit: u32) -> Queue {
    let memory = IsolatedMemory::allocate(256, 64, 8, 4_096);
    let config = IsolatedConfig::new(LEN, Limits::bytes(limit)).isolated_by(isolation);
    let mut queue = Isolated::new(memory, config).unwrap();
    queue.set_tins(&vec![TinConfig::by_weight(1); tins]).unwrap();
    queue
}

/// Goal: a host below its part of the limit loses nothing, although another floods every tin with
/// little. Method: one host holds ten packets in tin 0, half of its part; another sends
/// continuously in one to eight tins. In a comparison per tin, the first would have the longest
/// backlog from three tins on.
#[test]
fn a_host_that_floods_every_tin_pushes_out_no_smaller_one() {
    for (isolation, tins) in WITH_HOSTS.into_iter().flat_map(|by| [1, 2, 4, 8].map(|of| (by, of))) {
        for across in [false, true] {
            let mut queue = queue_in_tins(isolation, tins, 40 * LEN);
            queue.set_hosts_across_tins(across);
            let mut lost = Vec::new();
            for handle in 0..400 {
                let flooding =
                    Of { host: 1, tin: (handle as usize % tins) as u8, flow: handle % 16 };
                let of = if handle < 10 { Of { host: 0, tin: 0, flow: 0 } } else { flooding };
                let drops = &mut |packet: Packet, _| lost.push(packet.handle);
                queue.enqueue_labelled(Nanos(0), &of, Packet::new(handle, LEN), drops).unwrap();
            }
            let of_the_smaller = lost.iter().filter(|handle| **handle < 10).count();
            assert_eq!(of_the_smaller, 0, "{isolation}, {tins} tins, across {across}: {lost:?}");
            assert_eq!(lost.len(), 360, "{isolation}, {tins} tins");
            queue.recount().unwrap();
        }
    }
}

/// Returns the minimum backlog of a victim if the largest backlog is `most`, with the tolerance of
/// the guarantee.
fn least(most: u32, grain: u32) -> u32 {
    most.saturating_sub(grain.max((2 * u64::from(most)).div_ceil(9) as u32))
}

/// Hosts in several tins, and the backlog of each.
struct World {
    queue: Queue,
    /// Host and length of each handle in use.
    packets: Vec<Option<(u32, u32)>>,
    held: [u32; 4],
}

impl World {
    fn new(queue: Queue, handles: usize) -> Self {
        Self { queue, packets: vec![None; handles], held: [0; 4] }
    }

    fn home(&mut self, handle: u32) {
        let (host, len) = self.packets[handle as usize].take().expect("it was out");
        self.held[host as usize] -= len;
    }

    /// Enqueues a packet. For each drop, calls `judge` with the backlogs of all hosts, including
    /// the arrival, and the host dropped from.
    fn enqueue(&mut self, of: Of, len: u32, judge: &mut dyn FnMut([u32; 4], u32)) {
        let handle = self.packets.iter().position(Option::is_none).expect("there is a free one");
        self.packets[handle] = Some((of.host, len));
        self.held[of.host as usize] += len;
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, why| {
            assert_eq!(why, DropReason::Overflow);
            gone.push(packet.handle);
        };
        let packet = Packet::new(handle as u32, len);
        if let Err(rejected) = self.queue.enqueue_labelled(Nanos(0), &of, packet, drops) {
            gone.push(rejected.packet.handle);
        }
        for handle in gone {
            judge(self.held, self.packets[handle as usize].expect("it is out").0);
            self.home(handle);
        }
    }

    fn dequeue(&mut self) {
        let drops = &mut |packet, why| panic!("{packet:?}: {why:?}");
        if let Some(packet) = self.queue.dequeue(Nanos(0), drops) {
            self.home(packet.handle);
        }
    }
}

/// Goal: the guarantee for hosts that send in several tins: a host whose backlog is at most its
/// part of the limit, less the tolerance of the grain, loses nothing to another's overflow and none
/// of its own arrivals. Method: four hosts with one, two, four and all tins send more than the link
/// takes, with bursts, with and without one share across all tins. Each drop is checked against the
/// backlog of its host over all tins.
#[test]
fn a_host_below_its_part_in_all_tins_loses_nothing() {
    const LIMIT: u32 = 20_000;
    let (mut others, mut own, mut lowest) = (0, 0, u32::MAX);
    for seed in 1..=effort(3, 12) {
        let mut random = Xorshift::new(seed);
        let tins = [2, 4, 8][seed as usize % 3];
        let mut world =
            World::new(queue_in_tins(WITH_HOSTS[seed as usize % 2], tins, LIMIT), 4_096);
        // A quarter of a host's part with 64 hosts, as a power of two.
        let grain = 64;
        for operation in 0..40_000_u32 {
            if operation % 1_024 == 1_023 {
                world.queue.set_hosts_across_tins(random.below(2) == 0);
            }
            if random.below(16) < 7 {
                world.dequeue();
                continue;
            }
            // Occasionally one host alone.
            let any = random.below(4);
            let host = if operation >> 10 & 1 == 0 { any } else { operation >> 12 & 3 };
            let tin = random.below((tins as u32).min(1 << host));
            let of = Of { host, tin: tin as u8, flow: tin + 8 * random.below(3) };
            world.enqueue(of, 1 + random.below(LEN), &mut |held, loser| {
                let part = LIMIT / held.iter().filter(|bytes| **bytes > 0).count() as u32;
                let of_loser = held[loser as usize];
                assert!(of_loser > least(part, grain), "seed {seed}: {loser} of {held:?}");
                lowest = lowest.min(100 * of_loser / part);
                *if loser == host { &mut own } else { &mut others } += 1;
            });
            if operation % 256 == 0 {
                world.queue.recount().unwrap();
            }
        }
    }
    assert!(others > 1_000 && own > 1_000, "drops of others {others}, of the arrival's host {own}");
    assert!(lowest < 100, "a host below its part loses a packet: at least {lowest} percent");
}

/// Goal: the victim has about the longest backlog over all tins, after every short sequence.
/// Method: two hosts in two tins; each step is a packet of 1 or 7 bytes, a service, or the loss of
/// the victim's packet. All sequences of five steps, with units of 1, 2 and 4 bytes.
#[test]
fn the_host_that_gives_way_holds_about_the_most_after_every_short_history() {
    const STEPS: u32 = 10;
    for unit in [1, 2, 4] {
        for mut history in 0..STEPS.pow(effort(4, 5) as u32) {
            let memory = IsolatedMemory::allocate(8, 8, 2, 8);
            let config = IsolatedConfig::new(8, Limits::bytes(64 * unit));
            let mut world = World::new(Isolated::new(memory, config).unwrap(), 8);
            world.queue.set_tins(&[TinConfig::by_weight(1); 2]).unwrap();
            // A quarter of a host's part with eight hosts.
            let grain = 2 * unit;
            while history > 0 {
                match history % STEPS {
                    step @ 0..8 => {
                        let (host, tin) = (step % 2, step as u8 / 2 % 2);
                        let of = Of { host, tin, flow: tin.into() };
                        let len = if step < 4 { 1 } else { 7 };
                        world.enqueue(of, len, &mut |held, _| panic!("there is room: {held:?}"));
                    }
                    8 => world.dequeue(),
                    _ => {
                        let mut gone = None;
                        let drops = &mut |packet: Packet, _| gone = Some(packet.handle);
                        world.queue.evict(drops);
                        let Some(handle) = gone else { break };
                        let (host, _) = world.packets[handle as usize].unwrap();
                        let (held, most) = (world.held, world.held.into_iter().max().unwrap());
                        let of_host = held[host as usize];
                        let enough = of_host > least(most, grain) && of_host > most / 8;
                        assert!(enough, "host {host} of {held:?}, unit {unit}");
                        world.home(handle);
                    }
                }
                history /= STEPS;
            }
            world.queue.recount().unwrap();
        }
    }
}

/// Goal: the host with the longest backlog is dropped from with one tin, too. Method: a flood of
/// single packets of one host, then ten packets of one flow of another.
#[test]
fn the_host_that_holds_most_gives_way() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::bytes(30 * MTU));
    let mut lost = Vec::new();
    for handle in 0..100 {
        let victim = handle >= 90;
        let labels = labels(if victim { 1_000 } else { handle }, victim.into(), 0);
        let drops = &mut |packet: Packet, why| lost.push((packet.handle, why));
        let _full = queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops);
    }
    assert!(lost.iter().all(|&(handle, why)| handle < 90 && why == DropReason::Overflow));
    let sent = (0..30).map(|_| take(&mut queue));
    assert_eq!(sent.filter(|handle| *handle >= 90).count(), 10);
}

/// Goal: the documented behaviour of `LongestHostDrop` with a limit in packets: if at most two
/// hosts hold all packets, of 64 bytes each, their packets are dropped, and a third host that sends
/// little loses nothing. Method: the third sends one packet for 40 of the others; the link takes
/// one in three. When the queue is full, a packet is evicted first, as for a buffer, or the arrival
/// causes a drop.
#[test]
fn two_hosts_that_flood_a_limit_in_packets_take_nothing_from_a_third() {
    const QUIET: u32 = 9;
    for packets in [8, 16, 64, 256] {
        for (floods, evicts) in [(1, false), (1, true), (2, false), (2, true)] {
            let mut queue = queue(Isolation::DualSrcHost, Limits::packets(packets));
            let mut free: Vec<u32> = (0..512).collect();
            let (mut host_of, mut lost) = ([0; 512], Vec::new());
            for step in 0..10_000 {
                let host = if step % 41 == 40 { QUIET } else { step % floods };
                let labels = labels(4 * host + step / 7 % 3, host, 0);
                let drops = &mut |packet: Packet, _| lost.push(packet.handle);
                if evicts && queue.backlog().packets == packets {
                    assert!(queue.evict(drops));
                }
                let handle = free.pop().expect("no more are queued than the limit says");
                host_of[handle as usize] = host;
                let result =
                    queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 64), drops);
                lost.extend(result.err().map(|rejected| rejected.packet.handle));
                let of_quiet = lost.iter().any(|handle| host_of[*handle as usize] == QUIET);
                assert!(!of_quiet, "{packets} packets, {floods} floods, {evicts}: step {step}");
                free.append(&mut lost);
                if step % 3 == 0 {
                    free.push(take(&mut queue));
                }
            }
            queue.recount().unwrap();
        }
    }
}
