//! A new key never takes a flow away from its packets.

use std::collections::{HashMap, VecDeque};

use conformance::Xorshift;
use flowhash::{FlowHasher, FlowTable, Outcome, SipHash13, TagLine};

/// A packet: its flow, which one of the flow's it is, and how the flow came by the queue.
#[derive(Clone, Copy)]
struct Sent {
    flow: u64,
    number: u64,
    /// The key under which the flow was sent to share a full set's queue.
    guest: Option<u64>,
    /// The key under which the queue was found.
    key: u64,
}

/// What became of a run.
#[derive(Debug, Default)]
struct Found {
    delivered: u64,
    /// Packets overtaken as the documentation of `FlowTable` allows: left in a shared queue when their
    /// flow got one of its own, under the same key.
    left_behind: u64,
    /// Packets overtaken in any other way.
    reordered: u64,
    rotations: u64,
    refused: u64,
    /// Lookups from the first rotation to the end of the last.
    longest: u64,
}

/// Queues filled through a table and served at random; keys that change.
struct Queues {
    table: FlowTable<Box<[TagLine]>>,
    queues: Vec<VecDeque<Sent>>,
    /// Whether a queue has not been empty since the last rotation.
    since_before: Vec<bool>,
    /// Whether a flow has come to share the queue since it was last empty; whether before the rotation.
    shared: Vec<bool>,
    shared_before: Vec<bool>,
    key: u64,
    sent: HashMap<u64, u64>,
    /// Of each flow, the packets delivered that have earlier ones still queued.
    last_out: HashMap<u64, Sent>,
    found: Found,
    during: u64,
}

fn hash(flow: u64, key: u64) -> u32 {
    let mut secret = [7; 16];
    secret[..8].copy_from_slice(&key.to_le_bytes());
    SipHash13::new(secret).hash(&flow.to_le_bytes())
}

impl Queues {
    fn new(queues: u32, ways: u32) -> Self {
        let lines = vec![TagLine::EMPTY; queues.div_ceil(8) as usize].into_boxed_slice();
        Self {
            table: FlowTable::new(lines, queues, ways).unwrap(),
            queues: vec![VecDeque::new(); queues as usize],
            since_before: vec![false; queues as usize],
            shared: vec![false; queues as usize],
            shared_before: vec![false; queues as usize],
            key: 1,
            sent: HashMap::new(),
            last_out: HashMap::new(),
            found: Found::default(),
            during: 0,
        }
    }

    fn enqueue(&mut self, flow: u64, forgetful: bool) {
        let (old, new) = (hash(flow, self.key - 1), hash(flow, self.key));
        let rotating = self.table.is_rotating();
        let lookup = match rotating && !forgetful {
            true => self.table.lookup_rotating(old, new),
            false => self.table.lookup(new),
        };
        self.during = if rotating { self.during + 1 } else { 0 };
        self.found.longest = self.found.longest.max(self.during);
        // Under the old key: the queue was the flow's before, or the flow may have been among
        // the flows that shared it.
        let queue = lookup.queue as usize;
        let by_old = rotating
            && match lookup.outcome {
                Outcome::Hit => self.since_before[queue],
                Outcome::Claimed => false,
                Outcome::Collision => {
                    self.shared_before[queue] && old & (self.table.queues() - 1) == lookup.queue
                }
            };
        self.shared[queue] |= lookup.outcome == Outcome::Collision;
        let key = self.key - u64::from(by_old);
        let guest = (lookup.outcome == Outcome::Collision).then_some(key);
        let number = self.sent.entry(flow).or_default();
        *number += 1;
        let packet = Sent { flow, number: *number, guest, key };
        self.queues[queue].push_back(packet);
    }

    fn dequeue(&mut self, queue: usize) {
        let Some(packet) = self.queues[queue].pop_front() else { return };
        if self.queues[queue].is_empty() {
            assert!(self.table.release(queue as u32));
            self.since_before[queue] = false;
            self.shared[queue] = false;
            self.shared_before[queue] = false;
        }
        self.found.delivered += 1;
        let last = self.last_out.entry(packet.flow).or_insert(packet);
        if packet.number < last.number {
            match packet.guest == Some(last.key) {
                true => self.found.left_behind += 1,
                false => self.found.reordered += 1,
            }
        } else {
            *last = packet;
        }
    }

    fn rotate(&mut self) {
        if self.table.rotate().is_err() {
            self.found.refused += 1;
            return;
        }
        self.found.rotations += 1;
        self.key += 1;
        for (since_before, queue) in self.since_before.iter_mut().zip(&self.queues) {
            *since_before = !queue.is_empty();
        }
        self.shared_before.clone_from(&self.shared);
    }
}

/// `standing` flows send again and again, `flood` in a hundred packets are of flows never seen
/// before; the link is a little faster than what is sent, so that queues empty now and then.
fn run(queues: u32, ways: u32, standing: u64, flood: u64, forgetful: bool) -> Found {
    let mut link = Queues::new(queues, ways);
    let (mut random, mut stranger) = (Xorshift::new(0), 1 << 32);
    for step in 0..400_000 {
        let draw = random.next_u64();
        let phase = step / 500 % 2;
        if draw % 100 < 40 + 15 * phase {
            let flow = match (draw >> 8) % 100 < flood {
                true => {
                    // The flood's flows send up to four packets each.
                    stranger += u64::from((draw >> 16).is_multiple_of(4));
                    stranger
                }
                false => (draw >> 32) % standing,
            };
            link.enqueue(flow, forgetful);
        } else {
            // From a random place on, the first queue that has packets.
            let from = (draw >> 32) as usize % link.queues.len();
            let backlogged =
                |place: &usize| !link.queues[(from + place) % link.queues.len()].is_empty();
            let place = (0..link.queues.len()).find(backlogged).unwrap_or(0);
            link.dequeue((from + place) % link.queues.len());
        }
        if random.next_u64().is_multiple_of(400) {
            link.rotate();
        }
    }
    link.found
}

/// Goal: with one rotation after another, from light load to a flood of new flows that keeps all sets
/// full, no packet is overtaken by a later one of its flow because of a new key.
/// Method: queues served in random order, so that being in two queues shows; a packet's key and
/// whether it came to share decide whose fault an overtaking is.
#[test]
fn no_flow_is_reordered_by_a_rotation() {
    let mut total = Found::default();
    for (queues, ways) in [(16, 1), (32, 4), (64, 8), (64, 16), (8, 8)] {
        for (standing, flood) in [(4, 0), (40, 0), (200, 0), (20, 50), (40, 90)] {
            let found = run(queues, ways, standing, flood, false);
            let at = format!("{ways} ways, {queues} queues, {standing} flows, flood {flood}");
            println!("{at}: {found:?}");
            assert_eq!(found.reordered, 0, "{at}: {found:?}");
            assert!(found.rotations > 5, "{at}: {found:?}");
            total.rotations += found.rotations;
            total.left_behind += found.left_behind;
            total.refused += found.refused;
        }
    }
    assert!(total.rotations > 1_000 && total.refused > 1_000, "{total:?}");
}

/// Goal: the test above would see a rotation that reorders.
#[test]
fn to_forget_the_old_key_at_once_reorders() {
    let found = run(64, 8, 40, 0, true);
    assert!(found.reordered > 100, "{found:?}");
}

#[test]
fn a_transition_ends_with_the_last_old_claim() {
    let mut table = FlowTable::new([TagLine::EMPTY; 4], 32, 8).unwrap();
    assert!(!table.is_rotating());
    let (a, b) = (table.lookup(hash(1, 1)).queue, table.lookup(hash(2, 1)).queue);
    table.rotate().unwrap();
    assert_eq!((table.is_rotating(), table.old_claims()), (true, 2));
    assert_eq!(
        table.rotate().unwrap_err().to_string(),
        "2 queues are claimed under the key before: must be 0"
    );
    assert!(table.release(a));
    for flow in 100..140 {
        // Each comes, is looked up, and goes.
        let lookup = table.lookup_rotating(hash(flow, 1), hash(flow, 2));
        assert_eq!(lookup.outcome, Outcome::Claimed);
        assert!(table.is_rotating() && table.release(lookup.queue));
    }
    // The one that stays is found by its old label as long as its queue is claimed.
    assert_eq!(table.lookup_rotating(hash(2, 1), hash(2, 2)).queue, b);
    assert!(table.release(b));
    let lines = 4;
    for flow in 0..lines {
        table.lookup_rotating(hash(flow, 1), hash(flow, 2));
    }
    assert!(!table.is_rotating());
    assert_eq!((table.old_claims(), table.finish_rotation()), (0, 0));
}

#[test]
fn a_transition_can_be_cut_short() {
    let mut table = FlowTable::new([TagLine::EMPTY; 4], 32, 8).unwrap();
    let before = table.lookup(hash(1, 1)).queue;
    table.rotate().unwrap();
    assert_eq!(table.finish_rotation(), 1);
    assert!(!table.is_rotating());
    // The queue stays claimed until it is released, and of no flow.
    let after = table.lookup_rotating(hash(1, 1), hash(1, 2));
    assert_eq!((after.outcome, table.occupied()), (Outcome::Claimed, 2));
    assert_ne!(after.queue, before);
    assert!(table.release(before));
    table.rotate().unwrap();
    table.clear();
    assert_eq!((table.is_rotating(), table.old_claims()), (false, 0));
}
