//! The set-associative table against a reference model made of lists.
//!
//! `FLOWHASH_OPERATIONS=100000000 cargo test --release -p flowhash table_model` sets the number of
//! operations; the default is a few million.

use std::time::Instant;

use conformance::{Xorshift, scramble};
use flowhash::{Counts, FlowTable, Lookup, MAX_QUEUES, Outcome, TagLine};

/// State of a queue in the model.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Claimed, and not released since.
    is_used: bool,
    /// Last flow that claimed the queue.
    last: Option<u32>,
}

/// A table written from the documentation of `lookup`, `lookup_sparing` and `release`.
struct Model {
    queues: u32,
    ways: u32,
    way: Vec<Way>,
    counts: Counts,
    occupied: u32,
}

impl Model {
    fn new(queues: u32, ways: u32) -> Self {
        let way = vec![Way::default(); queues as usize];
        Self { queues, ways, way, counts: Counts::default(), occupied: 0 }
    }

    /// Returns the queues of a hash in search order: its group of up to eight cyclically from its
    /// own way, then with 16 ways the other eight, starting at the same position.
    fn order(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let own = hash % self.queues;
        let group = self.ways.min(8);
        (0..self.ways).map(move |step| {
            let base = ((own / group) ^ (step / group)) * group;
            (base + (own + step) % group) as usize
        })
    }

    fn lookup(&mut self, hash: u32) -> Lookup {
        if let Some(queue) = self.claimed(hash) {
            self.counts.hits += 1;
            return Lookup { queue, outcome: Outcome::Hit };
        }
        if let Some(queue) = self.former(hash).or_else(|| self.first_free(hash, |_| false)) {
            return self.claim(queue, hash);
        }
        self.counts.collisions += 1;
        Lookup { queue: hash % self.queues, outcome: Outcome::Collision }
    }

    fn claim(&mut self, queue: usize, hash: u32) -> Lookup {
        self.counts.claims += 1;
        self.occupied += 1;
        self.way[queue] = Way { is_used: true, last: Some(hash) };
        Lookup { queue: queue as u32, outcome: Outcome::Claimed }
    }

    /// Returns the free queue that the flow with this hash had last.
    fn former(&self, hash: u32) -> Option<usize> {
        let is_former = |way: &Way| !way.is_used && way.last == Some(hash);
        self.order(hash).find(|&queue| is_former(&self.way[queue]))
    }

    fn first_free(&self, hash: u32, is_spared: impl Fn(u32) -> bool) -> Option<usize> {
        let is_free = |&queue: &usize| !self.way[queue].is_used && !is_spared(queue as u32);
        self.order(hash).find(is_free)
    }

    /// Looks up like `lookup`, but only in queues that are not spared, unless the flow returns or
    /// the set is full.
    fn lookup_sparing(&mut self, hash: u32, is_spared: impl Fn(u32) -> bool) -> Option<Lookup> {
        let is_full = self.first_free(hash, |_| false).is_none();
        if self.remembers(hash) || is_full {
            return Some(self.lookup(hash));
        }
        let queue = self.first_free(hash, is_spared)?;
        Some(self.claim(queue, hash))
    }

    fn release(&mut self, queue: u32) -> bool {
        let way = self.way.get_mut(queue as usize);
        let was_used = way.is_some_and(|way| core::mem::take(&mut way.is_used));
        self.occupied -= u32::from(was_used);
        was_used
    }

    fn claimed(&self, hash: u32) -> Option<u32> {
        let mine = |way: &usize| self.way[*way].is_used && self.way[*way].last == Some(hash);
        self.order(hash).find(mine).map(|queue| queue as u32)
    }

    /// A way that was never claimed has its own number as tag.
    fn remembers(&self, hash: u32) -> bool {
        self.order(hash).any(|queue| self.way[queue].last.unwrap_or(queue as u32) == hash)
    }
}

/// A table, its model, and the flows that use both.
struct Pair {
    table: FlowTable<Box<[TagLine]>>,
    model: Model,
    flows: u32,
    /// Exclusive bound on hashes: with few of them, flows and keys share tags.
    hashes: u64,
    /// Key of the hashes, incremented at times.
    key: u64,
}

impl Pair {
    fn new(queues: u32, ways: u32, flows: u32, hashes: u64) -> Self {
        let lines = vec![TagLine::EMPTY; queues.div_ceil(8) as usize].into_boxed_slice();
        let table = FlowTable::new(lines, queues, ways).unwrap();
        Self { table, model: Model::new(queues, ways), flows, hashes, key: 1 }
    }

    /// Flow 0 has hash 0 under every key.
    fn hash(&self, flow: u64, key: u64) -> u32 {
        if flow == 0 { 0 } else { (scramble(flow << 20 | key) % self.hashes) as u32 }
    }

    /// Runs one operation on both; a rare one about every `rare` operations.
    fn step(&mut self, random: u64, rare: u64) {
        let flow = (random >> 32) % u64::from(self.flows);
        let (old, new) = (self.hash(flow, self.key - 1), self.hash(flow, self.key));
        match random % 100 {
            0..50 => self.lookup(new),
            50..57 => {
                let is_spared = |queue: u32| random >> 40 >> (queue % 16) & 1 == 1;
                let found = self.table.lookup_sparing(new, is_spared);
                assert_eq!(found, self.model.lookup_sparing(new, is_spared));
            }
            57..60 => {
                assert_eq!(self.table.find(new), self.model.claimed(new));
                assert_eq!(self.table.remembers(new), self.model.remembers(new));
            }
            60..99 => {
                // Sometimes a queue that does not exist; half of the time one that is in use.
                let any = (random >> 32) as u32 % (self.model.queues + 2);
                let of_flow = self.model.claimed(if random & 256 == 0 { old } else { new });
                let queue = if random & 128 == 0 { any } else { of_flow.unwrap_or(any) };
                let found = self.table.release(queue);
                assert_eq!(found, self.model.release(queue));
                assert!(!self.table.release(queue), "released twice");
                assert!(!self.table.is_used(queue));
            }
            _ if (random >> 16).is_multiple_of(rare) => self.rare(random),
            _ => {}
        }
        assert_eq!(self.table.counts(), self.model.counts);
        assert_eq!(self.table.occupied(), self.model.occupied);
    }

    /// Calls `hit` first half of the time: `None` must change nothing. Half of the lookups are the
    /// inlined ones.
    fn lookup(&mut self, hash: u32) {
        let asked = hash & 64 == 0;
        let before = self.table.counts();
        if asked && let Some(queue) = self.table.hit(hash) {
            let found = Lookup { queue, outcome: Outcome::Hit };
            return assert_eq!(found, self.model.lookup(hash));
        }
        assert_eq!(self.table.counts(), before);
        let in_line = hash & 128 == 0;
        let found = if in_line { self.table.lookup_in_line(hash) } else { self.table.lookup(hash) };
        assert_eq!(found, self.model.lookup(hash));
        let in_line = found.queue / 8 == hash % self.model.queues / 8;
        assert!(!(asked && found.outcome == Outcome::Hit && in_line), "{found:?} was overlooked");
    }

    /// Changes the key, or runs an operation on the whole table.
    fn rare(&mut self, random: u64) {
        match (random >> 12) % 16 {
            0 => {
                self.table.clear();
                let Model { queues, ways, counts, .. } = self.model;
                self.model = Model { counts, ..Model::new(queues, ways) };
            }
            _ => self.key += 1,
        }
    }

    /// Compares the counts of the table with those of its single queues.
    fn recount(&self) {
        let queues = 0..self.model.queues + 9;
        let used = queues.filter(|queue| self.table.is_used(*queue)).count();
        let claims = self.model.way.iter().filter(|way| way.is_used).count();
        assert_eq!((used, claims as u32), (claims, self.model.occupied));
        let shape = (self.model.queues, self.model.ways);
        assert_eq!((self.table.queues(), self.table.ways()), shape);
    }
}

/// Goal: exact queue and outcome for any sequence of operations, with changing keys. Method: every
/// number of ways, sizes from the smallest to the largest, numbers of flows that keep sets half
/// full, full, or overfull. Hashes of 32 bits, and few enough that flows and keys share tags;
/// compare all counts after every operation.
#[test]
fn agrees_with_the_model_over_millions_of_operations() {
    let asked = std::env::var("FLOWHASH_OPERATIONS").ok().map(|text| text.parse::<u64>());
    let operations = asked.map_or(4_000_000, |asked| asked.expect("a number of operations"));
    let largest = MAX_QUEUES;
    let shapes = [1_u32, 2, 4, 8, 16].into_iter().flat_map(|ways| {
        let sets = [(1, 1), (1, 3), (2, 3), (2, 12), (4, 48), (8, 8), (8, 200), (128, 64)];
        let scaled = sets.map(|(sets, flows)| (sets * ways, flows * ways));
        scaled.into_iter().chain([(largest, largest)]).map(move |shape| (ways, shape))
    });
    let shapes: Vec<_> = shapes.collect();
    let each = operations.div_ceil(2 * shapes.len() as u64);
    let (start, mut random, mut done) = (Instant::now(), Xorshift::new(1), 0_u64);
    let (mut total, mut keys) = (Counts::default(), 0);
    for (ways, (queues, flows)) in shapes {
        for hashes in [1 << 32, u64::from(queues) * 4 + 1] {
            let mut pair = Pair::new(queues, ways, flows, hashes);
            // Operations on the whole of a large table are slow, so make them rare.
            let rare = if queues > 10_000 { 4_096 } else { 4 };
            for step in 0..each {
                let draw = random.next_u64();
                if step == 0 {
                    println!("{ways} ways, {queues} queues, {flows} flows, {hashes} hashes");
                }
                pair.step(draw, rare);
                done += 1;
            }
            pair.recount();
            total.hits += pair.model.counts.hits;
            total.claims += pair.model.counts.claims;
            total.collisions += pair.model.counts.collisions;
            keys += pair.key - 1;
        }
    }
    println!("{done} operations in {:.1} s; {total:?}, {keys} new keys", {
        start.elapsed().as_secs_f64()
    });
    // Each outcome must be frequent enough for the comparison to be meaningful.
    let Counts { hits, claims, collisions } = total;
    assert!(hits.min(claims).min(collisions) > 100_000, "{total:?}");
    assert!(keys > 500, "{keys}");
}
