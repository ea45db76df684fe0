use super::*;
use crate::Backlog;
use conformance::Xorshift;
use conformance::effort::effort;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

/// An index and its reference model: for each flow its bytes, and the number of the call with which
/// it entered its class or was served there.
struct Both<const S: u32> {
    index: LengthIndex<Vec<LengthFlow>, Vec<LengthClass<S>>, S>,
    held: Vec<(u32, u64)>,
    calls: u64,
}

/// Returns the least length of the class of `bytes`, by searching the classes one by one.
fn least_of_class<const S: u32>(bytes: u64) -> u64 {
    let (mut least, mut width) = (0, 1);
    loop {
        for _ in 0..1 << S {
            if (least..least + width).contains(&bytes) {
                return least;
            }
            least += width;
        }
        // The first 2^(S + 1) classes are of one byte each.
        if least > 1 << S {
            width *= 2;
        }
    }
}

impl<const S: u32> Both<S> {
    fn new(flows: usize) -> Self {
        let classes = vec![LengthClass::EMPTY; LengthClass::<S>::COUNT];
        let index = LengthIndex::new(vec![LengthFlow::EMPTY; flows], classes).unwrap();
        Self { index, held: vec![(0, 0); flows], calls: 0 }
    }

    fn change(&mut self, flow: u32, bytes: u32, is_service: bool) {
        let (before, since) = self.held[flow as usize];
        if (before, bytes) == (0, 0) {
            return;
        }
        self.calls += 1;
        let (id, fewer) = (FlowId(flow), before.saturating_sub(bytes));
        if before == 0 {
            assert!(self.index.list(id, bytes));
        } else if bytes >= before {
            self.index.grew(id, bytes - before);
        } else if is_service {
            assert!(self.index.served(id, fewer, bytes == 0));
        } else {
            assert!(self.index.lost(id, fewer, bytes == 0));
        }
        let class = |bytes: u32| least_of_class::<S>(bytes.into());
        let stays = before != 0 && class(bytes) == class(before);
        let enters = !stays || is_service && bytes < before;
        self.held[flow as usize] = (bytes, if enters { self.calls } else { since });
    }

    fn backlogged(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let flows = (0_u32..).zip(&self.held).filter(|(_, (bytes, _))| *bytes > 0);
        flows.map(|(flow, &(bytes, since))| (flow, least_of_class::<S>(bytes.into()), since))
    }

    /// Returns the flow of the lowest `rank`.
    fn first(&self, rank: impl Fn(u64) -> u64) -> Option<FlowId> {
        let first = self.backlogged().min_by_key(|&(_, class, since)| (rank(class), since));
        first.map(|(flow, ..)| FlowId(flow))
    }

    /// Checks the guarantees for the shortest and the longest, and their order by the definition.
    fn check(&self) {
        assert_eq!(self.index.shortest(), self.first(|class| class));
        assert_eq!(self.index.longest(), self.first(|class| u64::MAX - class));
        let bytes = |flow: FlowId| u64::from(self.held[flow.index()].0);
        let lengths = || self.backlogged().map(|(flow, ..)| bytes(FlowId(flow)));
        let (Some(min), Some(max)) = (lengths().min(), lengths().max()) else { return };
        let (shortest, longest) = (self.index.shortest().unwrap(), self.index.longest().unwrap());
        // Selected < (1 + 2^-S)·min and victim > max/(1 + 2^-S), both sides times 2^S.
        assert!(bytes(shortest) << S < ((1 << S) + 1) * min, "{} of {min}", bytes(shortest));
        assert!(bytes(longest) * ((1 << S) + 1) > max << S, "{} of {max}", bytes(longest));
    }

    fn recount(&self) {
        let truth = |flow: FlowId| {
            let bytes = self.held[flow.index()].0;
            FlowState { backlog: Backlog { packets: 1, bytes }, head_len: None }
        };
        assert_eq!(self.index.recount(&truth), Ok(()));
    }
}

fn classes_cover_all_lengths<const S: u32>() {
    let mut least = Vec::new();
    for bytes in 0..1_u64 << (S + 6) {
        let class = class_of::<S>(bytes as u32);
        if class as usize == least.len() {
            least.push(bytes);
        }
        assert_eq!(class as usize + 1, least.len(), "classes go up one by one");
        assert_eq!(*least.last().unwrap(), least_of_class::<S>(bytes));
    }
    assert_eq!(class_of::<S>(u32::MAX) as usize, LengthClass::<S>::COUNT - 1);
    assert!(LengthClass::<S>::COUNT <= WORDS * 32);
}

#[test]
fn every_length_has_a_class_and_the_last_is_that_of_the_longest() {
    classes_cover_all_lengths::<1>();
    classes_cover_all_lengths::<3>();
    classes_cover_all_lengths::<4>();
    classes_cover_all_lengths::<5>();
    assert_eq!([LengthClass::<3>::COUNT, LengthClass::<4>::COUNT], [240, 464]);
    assert_eq!(LengthClass::<5>::COUNT, 896);
    assert_eq!((size_of::<LengthFlow>(), size_of::<LengthClass>()), (16, 4));
}

/// Goal: two lengths of one class differ by less than one part in 2^S, at the ends of every class.
#[test]
fn lengths_of_one_class_are_alike() {
    for shift in 0..26 {
        for part in 32_u64..64 {
            let (first, last) = (part << shift, ((part + 1) << shift) - 1);
            let class = class_of::<5>(first as u32);
            assert_eq!((class_of::<5>(last as u32), class), (class, 32 * shift + part as u32));
            assert!((last - first) << 5 < first, "{first} to {last}");
        }
    }
}

fn random_changes<const S: u32>(flows: u32, range: u32, seed: u64, steps: u32) {
    let mut both = Both::<S>::new(flows as usize);
    let mut random = Xorshift::new(seed);
    for step in 0..steps {
        let flow = random.below(flows);
        let held = both.held[flow as usize].0;
        match random.below(8) {
            0..4 => both.change(flow, held.saturating_add(1 + random.below(range)), false),
            4 => both.change(flow, 0, random.below(2) == 0),
            5 => both.change(flow, random.below(held.max(1)), false),
            _ => both.change(flow, random.below(held.max(1)), true),
        }
        both.check();
        if step % 64 == 0 {
            both.recount();
        }
    }
}

/// Goal: the order and the error bound hold for all operations. Method: random sequences of
/// operations on few flows and on many, with lengths that share classes and with lengths up to 32
/// bits.
#[test]
fn the_index_is_its_definition() {
    let steps = effort(700, 200_000);
    for (seed, flows, range) in
        [(1, 1, 9), (2, 2, 100), (3, 7, 2_000), (4, 33, 70), (5, 100, 3_000), (6, 40, u32::MAX / 8)]
    {
        random_changes::<1>(flows, range, seed, steps);
        random_changes::<3>(flows, range, seed, steps);
        random_changes::<5>(flows, range, seed, steps);
    }
}

/// Goal: every state of three flows that a few changes lead to is correct. Method: all sequences of
/// up to three changes, four at full depth, between the lengths 0, 4, 5, 6 and 70, where 4 and 5
/// share a class and 6 and 70 do not.
#[test]
fn every_small_history_keeps_the_index() {
    const LENGTHS: [u32; 5] = [0, 4, 5, 6, 70];
    let choices: Vec<(u32, u32, bool)> = (0..3)
        .flat_map(|flow| LENGTHS.map(|bytes| (flow, bytes)))
        .flat_map(|(flow, bytes)| [(flow, bytes, false), (flow, bytes, true)])
        .collect();
    let depth = effort(3, 4);
    let mut histories = VecDeque::from([Vec::new()]);
    while let Some(history) = histories.pop_front() {
        let mut both = Both::<1>::new(3);
        for &(flow, bytes, is_service) in &history {
            both.change(flow, bytes, is_service);
        }
        both.check();
        both.recount();
        if history.len() < depth {
            histories.extend(choices.iter().map(|&choice| [&history[..], &[choice]].concat()));
        }
    }
}

/// Goal: the worst error comes near its bound, so the bound is tight.
#[test]
fn a_class_is_as_wide_as_its_bound_says() {
    let mut both = Both::<5>::new(2);
    both.change(0, 65_535, false);
    both.change(1, 64_512, false);
    both.check();
    assert_eq!(both.index.shortest(), Some(FlowId(0)), "1,023 bytes more, and there first");
    both.change(0, 65_536, false);
    assert_eq!((both.index.shortest(), both.index.longest()), (Some(FlowId(1)), Some(FlowId(0))));
}

#[test]
fn calls_that_contradict_the_index_change_nothing() {
    let mut both = Both::<3>::new(2);
    assert!(!both.index.served(FlowId(0), 10, false) && !both.index.lost(FlowId(0), 10, true));
    both.index.grew(FlowId(0), 10);
    assert_eq!((both.index.shortest(), both.index.longest()), (None, None));
    both.change(0, 100, false);
    assert!(!both.index.list(FlowId(0), 5) && !both.index.list(FlowId(2), 5));
    assert!(!both.index.served(FlowId(2), 10, false) && !both.index.remove(FlowId(1)));
    both.check();
    both.recount();
    assert!(both.index.remove(FlowId(0)) && !both.index.remove(FlowId(0)));
    assert_eq!(both.index.longest(), None);
}

#[test]
fn too_few_classes_are_refused() {
    let classes = vec![LengthClass::<5>::EMPTY; 895];
    let refused = LengthIndex::new(vec![LengthFlow::EMPTY; 2], classes);
    let error =
        ConfigError::OutOfRange { what: "classes of length", value: 895, min: 896, max: u64::MAX };
    assert_eq!(refused.err(), Some(error));
}
