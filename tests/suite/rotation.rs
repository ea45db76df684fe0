//! A new key for the labels while packets are queued: no flow is reordered, hosts keep their entries.

use std::collections::{BTreeMap, BTreeSet};

use conformance::effort::effort;
use freeboard::flowhash::{FlowHasher, FlowTable, Labels, Outcome, Rotating, SipHash13, TagLine};
use freeboard::sched_core::{
    Descriptor, DropSink, Drr, DrrFlow, Limits, Nanos, NoAqm, Packet, Queue, Rejected, Scheduler,
};
use freeboard::{
    Hashed, Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation, NoRoom, Rekeyed,
};

const NOW: Nanos = Nanos::ZERO;
const QUEUES: usize = 64;
const HOSTS: usize = 256;
const DESCRIPTORS: usize = 4_096;
const LEN: u32 = 1_000;

/// How often the key changes.
fn rounds() -> u32 {
    effort(3, 20)
}

/// The labels of a flow and its two hosts under a key.
fn labels(key: u8, flow: u32, host: u32) -> Labels {
    let hasher = SipHash13::new([key; 16]);
    let hash = |number: u32| hasher.hash(&number.to_le_bytes());
    Labels { flow: hash(flow), src_host: hash(host | 1 << 30), dst_host: hash(1 << 31) }
}

/// What is common to the queues whose labels can change.
trait Rotates: Scheduler {
    fn offer(
        &mut self,
        of: &Rekeyed<Labels, Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected>;
    fn begin(&mut self) -> Result<(), Rotating>;
    fn goes_on(&self) -> bool;
    /// Entries of source hosts in use, if there are any.
    fn hosts(&self) -> u32;
}

impl Rotates for Isolated<Heap, NoAqm, NoRoom, Heap> {
    fn offer(
        &mut self,
        of: &Rekeyed<Labels, Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        self.enqueue_labelled(NOW, of, packet, drops)
    }

    fn begin(&mut self) -> Result<(), Rotating> {
        self.rotate()
    }

    fn goes_on(&self) -> bool {
        self.is_rotating()
    }

    fn hosts(&self) -> u32 {
        self.backlogged_hosts().0
    }
}

type ByHash = Hashed<Drr<Vec<DrrFlow>>, Vec<TagLine>, Vec<Queue>, Vec<Descriptor>>;

impl Rotates for ByHash {
    fn offer(
        &mut self,
        of: &Rekeyed<Labels, Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        self.enqueue_rehashed(NOW, of.before.flow, of.after.flow, packet, drops)
    }

    fn begin(&mut self) -> Result<(), Rotating> {
        self.rotate()
    }

    fn goes_on(&self) -> bool {
        self.is_rotating()
    }

    fn hosts(&self) -> u32 {
        0
    }
}

fn isolated(isolation: Isolation) -> Isolated<Heap, NoAqm, NoRoom, Heap> {
    let memory = IsolatedMemory::allocate(QUEUES, HOSTS, DESCRIPTORS).with_triple(64);
    let config = IsolatedConfig::new(LEN, Limits::NONE).isolated_by(isolation);
    Isolated::new(memory, config).expect("sizes are powers of two")
}

fn hashed() -> ByHash {
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; QUEUES], LEN).expect("a length");
    drr.add_all(LEN).expect("a quantum");
    let table =
        FlowTable::new(vec![TagLine::EMPTY; QUEUES / 8], QUEUES as u32, 8).expect("eight lines");
    Hashed::with_own_victim(
        drr,
        table,
        vec![Queue::EMPTY; QUEUES],
        vec![Descriptor::EMPTY; DESCRIPTORS],
        Limits::NONE,
    )
}

/// What became of a run.
#[derive(Debug, Default)]
struct Found {
    delivered: u32,
    /// Packets that another of their flow overtook.
    reordered: u32,
    /// Packets of flows that had to share since all was idle: those may be overtaken.
    of_guests: u32,
    rotations: u32,
    /// Packets during which a rotation went on after the old claims were gone, at most.
    longest_end: u32,
    /// Times that more entries of hosts were in use than there were hosts with packets.
    too_many_hosts: u32,
}

struct Labelling<'a, S> {
    queue: &'a mut S,
    key: u8,
    /// Labels under the last key are not given.
    forgetful: bool,
    free: Vec<u32>,
    /// Flow, host and number of the packet with this handle.
    packets: Vec<(u32, u32, u32)>,
    sent: u32,
    last_out: BTreeMap<u32, u32>,
    guests: BTreeSet<u32>,
    /// Packets queued of each host.
    held: BTreeMap<u32, u32>,
    found: Found,
}

impl<S: Rotates> Labelling<'_, S> {
    fn send(&mut self, flow: u32, host: u32) {
        let handle = self.free.pop().expect("fewer are queued than there are handles");
        self.packets[handle as usize] = (flow, host, self.sent);
        self.sent += 1;
        let after = labels(self.key, flow, host);
        let before = if self.forgetful { after } else { labels(self.key - 1, flow, host) };
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let of = Rekeyed { before, after };
        let outcome = self.queue.offer(&of, Packet::new(handle, LEN), drops);
        if outcome.expect("there is room") == Outcome::Collision {
            self.guests.insert(flow);
        }
        *self.held.entry(host).or_default() += 1;
    }

    /// The flow and the host whose packet left.
    fn receive(&mut self) -> Option<(u32, u32)> {
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let packet = self.queue.dequeue(NOW, drops)?;
        let (flow, host, number) = self.packets[packet.handle as usize];
        self.free.push(packet.handle);
        let last = self.last_out.insert(flow, number);
        if last.is_some_and(|last| last > number) {
            if self.guests.contains(&flow) {
                self.found.of_guests += 1;
            } else {
                self.found.reordered += 1;
            }
        }
        self.found.delivered += 1;
        let held = self.held.get_mut(&host).expect("it held the packet");
        *held -= 1;
        if *held == 0 {
            self.held.remove(&host);
        }
        Some((flow, host))
    }

    fn check(&mut self) {
        assert_eq!(self.queue.recount(), Ok(()));
        self.found.too_many_hosts += u32::from(self.queue.hosts() as usize > self.held.len());
    }
}

/// The host of a flow of the flood: for one in four, one of those of the standing flows.
fn host_of(stranger: u32) -> u32 {
    if stranger.is_multiple_of(4) { stranger / 4 % 4 } else { 100 + stranger % 60 }
}

/// Twelve flows of four hosts keep three packets each queued, and one packet each of flows never seen before,
/// of these and 60 other hosts, floods the table. In each round the key changes once while all that goes on; then all
/// queues are left to empty, and the flood alone brings the rotation to its end.
fn run(queue: &mut impl Rotates, forgetful: bool) -> Found {
    let (free, packets) = ((0..DESCRIPTORS as u32).collect(), vec![(0, 0, 0); DESCRIPTORS]);
    let mut link = Labelling {
        queue,
        key: 1,
        forgetful,
        free,
        packets,
        sent: 0,
        last_out: BTreeMap::new(),
        guests: BTreeSet::new(),
        held: BTreeMap::new(),
        found: Found::default(),
    };
    let mut stranger = 1_000;
    for _ in 0..rounds() {
        for flow in (0..12).cycle().take(36) {
            link.send(flow, flow % 4);
        }
        for step in 0..600 {
            stranger += 1;
            link.send(stranger, host_of(stranger));
            for _ in 0..3 {
                if let Some((flow, host)) = link.receive()
                    && flow < 12
                {
                    link.send(flow, host);
                }
            }
            if step == 200 {
                assert_eq!(link.queue.begin(), Ok(()), "the last one has ended");
                link.key += 1;
                link.found.rotations += 1;
                link.check();
            }
            if step % 25 == 24 {
                link.check();
            }
            if step == 300 && !forgetful {
                assert!(link.queue.begin().is_err(), "flows have been backlogged since before");
                assert!(link.queue.goes_on());
            }
        }
        while link.receive().is_some() {}
        link.check();
        link.guests.clear();
        let mut packets = 0;
        while link.queue.goes_on() {
            stranger += 1;
            packets += 1;
            link.send(stranger, host_of(stranger));
            link.receive();
        }
        link.found.longest_end = link.found.longest_end.max(packets);
    }
    link.found
}

/// Goal: whatever floods the table, a change of the key takes no flow away from its packets and no host from
/// its entry, and ends by itself; the books hold throughout.
#[test]
fn a_new_key_reorders_no_flow() {
    let modes = [Isolation::DualSrcHost, Isolation::TripleIsolate, Isolation::Flows];
    let mut runs: Vec<Found> = modes.map(|mode| run(&mut isolated(mode), false)).into();
    runs.push(run(&mut hashed(), false));
    for found in runs {
        assert_eq!((found.reordered, found.too_many_hosts), (0, 0), "{found:?}");
        assert_eq!(found.rotations, rounds());
        assert!(found.delivered > 1_000 * rounds() && found.of_guests < 10 * rounds(), "{found:?}");
        // One line a packet, of the longest table.
        assert!(found.longest_end <= HOSTS as u32 / 8 + 1, "{found:?}");
    }
}

/// Goal: the test above can fail. Method: the labels under the last key are withheld.
#[test]
fn a_new_key_alone_reorders_flows_and_splits_hosts() {
    let found = run(&mut isolated(Isolation::DualSrcHost), true);
    assert!(found.reordered > 5 * rounds() && found.too_many_hosts > rounds() / 2, "{found:?}");
    let found = run(&mut hashed(), true);
    assert!(found.reordered > 5 * rounds(), "{found:?}");
}

/// Goal: a host keeps its entry for the flows it opens during a rotation; ended early, it counts twice until
/// its old flows are idle. Method: one host, one packet a flow.
#[test]
fn a_host_keeps_its_entry_until_the_rotation_is_ended() {
    let mut queue = isolated(Isolation::DualSrcHost);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let mut open = |queue: &mut Isolated<Heap, NoAqm, NoRoom, Heap>, key: u8, flow: u32| {
        let of = Rekeyed { before: labels(key - 1, flow, 7), after: labels(key, flow, 7) };
        queue.enqueue_labelled(NOW, &of, Packet::new(flow, LEN), drops).expect("there is room");
    };
    open(&mut queue, 1, 0);
    assert_eq!((queue.rotate(), queue.old_claims()), (Ok(()), 3), "a flow and two hosts");
    open(&mut queue, 2, 1);
    assert_eq!(queue.backlogged_hosts(), (1, 1));
    assert_eq!(queue.rotate(), Err(Rotating { queues: 3 }));
    assert_eq!((queue.finish_rotation(), queue.is_rotating()), (3, false));
    assert_eq!((queue.finish_rotation(), queue.old_claims()), (0, 0));
    open(&mut queue, 2, 2);
    assert_eq!((queue.backlogged_hosts(), queue.recount()), ((2, 2), Ok(())));
    assert_eq!(queue.rotate(), Ok(()), "under the third key the first is forgotten");
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let out: Vec<u32> =
        core::iter::from_fn(|| queue.dequeue(NOW, drops)).map(|packet| packet.handle).collect();
    assert_eq!(out.len(), 3);
    assert_eq!((queue.backlogged_hosts(), queue.recount()), ((0, 0), Ok(())));
}

/// Goal: during a key rotation a host is found by its labels in whichever entry it stands, on
/// either side. Method: the flow of host 1 stands under the first key, that of host 2 comes under
/// the second one.
#[test]
fn entries_of_hosts_are_found_during_a_rotation() {
    let mut queue = isolated(Isolation::DualSrcHost);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    queue
        .enqueue_labelled(NOW, &labels(1, 1, 1), Packet::new(0, LEN), drops)
        .expect("there is room");
    let stood = queue.entries_of(&labels(1, 1, 1));
    assert!(stood.0.is_some() && stood.1.is_some());
    queue.rotate().expect("it is the first");
    let of = |host| Rekeyed { before: labels(1, host, host), after: labels(2, host, host) };
    queue.enqueue_labelled(NOW, &of(2), Packet::new(1, LEN), drops).expect("there is room");
    assert_eq!(queue.entries_of(&of(1)), stood);
    let (came, to) = queue.entries_of(&of(2));
    assert!(came.is_some() && came != stood.0);
    assert_eq!(to, stood.1, "both send to one host");
    assert_eq!(queue.entries_of(&of(3)).0, None);
}
