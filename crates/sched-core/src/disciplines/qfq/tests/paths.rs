//! Paths of QFQ taken by the workloads of the paper's harness, compared with those of dummynet.
//!
//! The flow scheduler is observed from outside: the path of a call is derived from the state before
//! and after it, so that production code contains no counters.

use std::collections::VecDeque;
use std::vec::Vec;
use std::{println, vec};

use crate::disciplines::qfq::group::State;
use crate::disciplines::qfq::*;

use conformance::effort::effort;
use conformance::paper::{
    Controller, Load, MTU, NONE, Pool, Sizes, Subject, Traffic, Weights as Mix,
};

/// The columns of the peer's table. The first seven are fractions of the enqueues, the others of
/// the dequeues.
const COLUMNS: [&str; 17] = [
    "idle",       // the flow was idle
    "S=V",        // and starts at V,
    "S=F",        // at its stored finish,
    "shifted",    // or at the finish of a ready group above (eq. 17);
    "joins",      // its group is backlogged and starts no later,
    "rotates",    // or starts later and steps back;
    "V raised",   // V moves
    "stays",      // the flow stays in its slot,
    "moves",      // moves to another,
    "empties",    // or becomes idle;
    "gone",       // its group becomes idle,
    "same S",     // keeps its start though the flow has left the slot,
    "new S",      // or starts later,
    "unblocks",   // and no longer blocks others (Fig. 4, lines 32-36)
    "ineligible", // a group is ineligible then (lines 38-45),
    "V jumps",    // V is raised to its start,
    "V crosses",  // V enters another slot of the peer's narrowest group: sets are moved
];
const DEQUEUES: usize = 7;

/// The columns that must equal the peer's, to within [`SAME`] thousandths: how flows move between
/// slots and groups.
const SHAPE: [usize; 9] = [0, 4, 5, 9, 10, 12, 13, 7, 11];
const JUMPS: usize = 15;
const SAME: u32 = 10;
/// The limit in two cases. First, if flows of different weights come and go with packets that do
/// not fill a slot: the offset in a slot at which a flow starts decides how many of its five
/// packets stay in the slot. This offset differs, as the columns `S=V` and `S=F` do. Second, in the
/// column for which group blocks which: this follows from the progress of `V`.
const ALIKE: u32 = 60;

/// Flows, load, sizes, weights, and dummynet's fractions in thousandths.
type Row = (u32, Load, Sizes, Mix, [u32; COLUMNS.len()]);

#[rustfmt::skip]
const PEER: [Row; 14] = [
    (1, Load::Full, Sizes::Equal, Mix::Equal,
        [0, 0, 0, 0, 0, 0, 0, 268, 732, 0, 0, 0, 732, 732, 732, 732, 732]),
    (8, Load::Full, Sizes::Equal, Mix::Equal,
        [0, 0, 0, 0, 0, 0, 0, 268, 732, 0, 0, 641, 92, 92, 92, 92, 92]),
    (512, Load::Small, Sizes::Equal, Mix::Equal,
        [200, 3, 198, 0, 200, 0, 0, 215, 585, 200, 0, 783, 1, 2, 1, 1, 1]),
    (512, Load::Large, Sizes::Equal, Mix::Equal,
        [33, 2, 31, 0, 33, 0, 0, 249, 718, 33, 0, 750, 1, 1, 1, 1, 1]),
    (512, Load::Full, Sizes::Equal, Mix::Equal,
        [2, 2, 0, 0, 2, 0, 0, 269, 731, 0, 0, 729, 1, 1, 1, 1, 1]),
    (512, Load::Small, Sizes::Imix, Mix::Equal,
        [200, 196, 4, 0, 200, 0, 0, 748, 52, 200, 0, 251, 1, 1, 1, 1, 1]),
    (512, Load::Full, Sizes::Imix, Mix::Equal,
        [3, 2, 1, 0, 3, 0, 0, 824, 175, 1, 0, 175, 0, 0, 0, 0, 0]),
    (8, Load::Full, Sizes::Equal, Mix::Mixed,
        [17, 17, 0, 0, 0, 0, 0, 267, 716, 17, 17, 209, 507, 524, 973, 288, 973]),
    (512, Load::Small, Sizes::Equal, Mix::Mixed,
        [200, 46, 154, 0, 198, 0, 0, 255, 545, 200, 2, 736, 6, 8, 218, 4, 218]),
    (512, Load::Full, Sizes::Equal, Mix::Mixed,
        [8, 8, 0, 0, 8, 0, 0, 268, 726, 7, 1, 717, 14, 15, 935, 10, 935]),
    (512, Load::Small, Sizes::Imix, Mix::Mixed,
        [200, 193, 7, 0, 198, 0, 0, 748, 52, 200, 2, 248, 2, 5, 904, 2, 448]),
    (512, Load::Full, Sizes::Imix, Mix::Mixed,
        [10, 9, 1, 0, 9, 0, 0, 822, 170, 8, 1, 174, 4, 4, 948, 2, 469]),
    (32_768, Load::Small, Sizes::Equal, Mix::Mixed,
        [200, 70, 130, 0, 200, 0, 0, 233, 567, 200, 0, 767, 0, 0, 386, 0, 386]),
    (32_768, Load::Full, Sizes::Imix, Mix::Mixed,
        [16, 14, 1, 0, 16, 0, 0, 823, 168, 8, 0, 177, 0, 0, 984, 0, 486]),
];

/// A flow scheduler with queues of packets, and counters of its observed paths.
struct Watched {
    qfq: Qfq<Vec<QfqFlow>>,
    /// Handles and lengths of the packets of each flow.
    queues: Vec<VecDeque<(u32, u32)>>,
    enqueues: u64,
    dequeues: u64,
    seen: [u64; COLUMNS.len()],
}

/// State recorded before and after a call: `V`, the flow, its group.
#[derive(Clone, Copy)]
struct Look {
    now: Virtual,
    k: QfqFlow,
    group_start: Virtual,
    group_is_idle: bool,
}

impl Watched {
    fn new(traffic: &Traffic) -> Self {
        let flows = traffic.flows as usize;
        let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; flows], MTU).unwrap();
        let sets = traffic.sets();
        let weights = sets.iter().flat_map(|&(weight, count)| (0..count).map(move |_| weight));
        for (flow, weight) in (0..).zip(weights) {
            qfq.configure(FlowId(flow), QfqConfig { weight, max_len: MTU }, None).unwrap();
        }
        let queues = vec![VecDeque::new(); flows];
        Self { qfq, queues, enqueues: 0, dequeues: 0, seen: [0; COLUMNS.len()] }
    }

    fn look(&self, flow: u32) -> Look {
        let k = self.qfq.flows[flow as usize];
        let group = &self.qfq.core.groups[usize::from(k.group)];
        let (group_start, group_is_idle) = (group.start, group.full == 0);
        Look { now: self.qfq.core.now, k, group_start, group_is_idle }
    }

    fn note(&mut self, first: usize, seen: &[bool]) {
        for (count, &seen) in self.seen.iter_mut().skip(first).zip(seen) {
            *count += u64::from(seen);
        }
    }

    fn saw_enqueue(&mut self, flow: u32, before: Look) {
        let after = self.look(flow);
        let start = after.k.start;
        let fresh = start == before.k.start && start.is_after(before.now);
        let stale = start == before.now;
        let earlier = !before.group_is_idle && before.group_start.is_after(after.group_start);
        let seen = [
            true,
            stale,
            fresh,
            !fresh && !stale,
            !before.group_is_idle && !earlier,
            earlier,
            after.now != before.now,
        ];
        self.note(0, &seen);
    }

    /// Counts the path of a dequeue. `sets` are those before; the packet alone moved `V` to
    /// `stepped`.
    fn saw_dequeue(&mut self, flow: u32, before: Look, sets: Sets, stepped: Virtual) {
        let after = self.look(flow);
        let i = u32::from(after.k.group);
        let width = Width::of_group(i);
        let more = after.k.state == State::Backlogged;
        let stays = more && after.k.start.floor(width) == before.group_start;
        let gone = after.group_is_idle;
        let later = !gone && after.group_start != before.group_start;
        let finish = before.group_start.plus(width.interval());
        let mut above = sets.first_ready_above(i).into_iter();
        let unblocks = above.all(|b| self.qfq.core.finish(b).is_after(finish));
        let others = (sets.ineligible_ready | sets.ineligible_blocked) & !eligibility::bit(i);
        let ineligible = others != 0 || (later && after.group_start.is_after(stepped));
        // The advance of V when the last flow has gone is no jump.
        let jumps = ineligible && after.now != stepped && self.qfq.select().is_some();
        let crosses = before.now.0 >> 22 != after.now.0 >> 22;
        let seen = [
            stays,
            more && !stays,
            !more,
            gone,
            !stays && !gone && !later,
            later,
            (gone || later) && unblocks,
            ineligible,
            jumps,
            ineligible && crosses,
        ];
        self.note(DEQUEUES, &seen);
    }

    /// Returns the fractions in thousandths.
    fn fractions(&self) -> [u32; COLUMNS.len()] {
        core::array::from_fn(|column| {
            let of = if column < DEQUEUES { self.enqueues } else { self.dequeues };
            ((1_000 * self.seen[column] + of / 2) / of) as u32
        })
    }
}

impl Subject for Watched {
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32) {
        self.enqueues += 1;
        let queue = &mut self.queues[flow as usize];
        queue.push_back((handle, len));
        if queue.len() > 1 {
            return self.qfq.grew(FlowId(flow), len);
        }
        let before = self.look(flow);
        self.qfq.backlogged(FlowId(flow), len);
        self.saw_enqueue(flow, before);
    }

    fn dequeue(&mut self) -> u32 {
        let Some(flow) = self.qfq.select() else { return NONE };
        self.dequeues += 1;
        let queue = &mut self.queues[flow.index()];
        let (handle, len) = queue.pop_front().unwrap();
        let next = queue.front().map(|packet| packet.1);
        let (before, sets) = (self.look(flow.0), self.qfq.core.sets);
        let step = u64::from(len) * u64::from(self.qfq.core.weights.per_byte);
        self.qfq.served(flow, len, next);
        self.saw_dequeue(flow.0, before, sets, before.now.plus(step));
        handle
    }

    fn held(&self, flow: u32) -> u32 {
        self.queues[flow as usize].len() as u32
    }
}

/// Observes from the first packet on: as many cycles as 200,000 iterations take, at least two, and
/// as many again.
fn watch(traffic: &Traffic) -> Watched {
    let mut watched = Watched::new(traffic);
    let cycles = 2 * 200_000_u64.div_ceil(traffic.cycle()).max(2);
    let passed =
        Controller::new(traffic).run(&mut watched, traffic.bounds().0 + cycles * traffic.cycle());
    assert_eq!((passed.enqueued, passed.dequeued), (watched.enqueues, watched.dequeues));
    assert!(passed.bytes_dequeued >= 64 * passed.dequeued);
    let [idle, at_now, at_finish, shifted, ..] = watched.seen;
    assert_eq!(idle, at_now + at_finish + shifted, "{traffic:?}");
    let [.., stays, moves, empties, gone, same, new, _, _, _, _] = watched.seen;
    assert_eq!(stays + moves + empties, watched.dequeues, "{traffic:?}");
    assert_eq!(moves + empties, gone + same + new, "{traffic:?}");
    watched
}

/// Goal: QFQ does the same work as the one the paper's authors measured: under the same controller
/// its flows change slots and groups as often. Method: the fractions of calls that take each path,
/// beside dummynet's in its own harness, as counted by gcov.
///
/// Some differences are inherent. The weights in `V` are those that count, not the constant 2^17.
/// So with little total weight `V` does not lag and need not jump (732 of 1,000 dequeues of a
/// single flow there, none here), and `V` advances so far with each packet that it nearly always
/// enters another of the narrowest slots. When all flows are idle `V` passes every stored `F`, so
/// in SMALL flows start at `V` and not at their `F`. The number of groups that `V` has not reached
/// follows from both. Slots are FIFO, which changes which flow is next, and no fraction.
#[test]
fn the_workloads_of_the_paper_take_the_paths_of_the_papers_own_harness() {
    println!("flows\tload\tsizes\tweights\twhose\t{}", COLUMNS.join("\t"));
    let mut differences = Vec::new();
    for (flows, load, sizes, weights, theirs) in PEER.into_iter().take(effort(6, 14)) {
        let traffic = Traffic { flows, load, sizes, weights, pool: Pool::Sequential };
        let ours = watch(&traffic).fractions();
        for (whose, fractions) in [("freeboard", ours), ("dummynet", theirs)] {
            let cells = fractions.map(|fraction| std::format!("\t.{fraction:03}")).concat();
            println!("{flows}\t{load}\t{sizes}\t{weights}\t{whose}{cells}");
        }
        let comes_and_goes = load == Load::Small && sizes == Sizes::Equal && weights == Mix::Mixed;
        for column in SHAPE {
            let alike = match COLUMNS[column] {
                "stays" | "same S" => comes_and_goes,
                name => name == "unblocks",
            };
            let most = if alike { ALIKE } else { SAME };
            if ours[column].abs_diff(theirs[column]) > most {
                differences.push((traffic, COLUMNS[column], ours[column], theirs[column]));
            }
        }
        if ours[JUMPS] > theirs[JUMPS] {
            differences.push((traffic, COLUMNS[JUMPS], ours[JUMPS], theirs[JUMPS]));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Checks that the numbers of flows of each weight, and the packets, are those of the harness.
#[test]
fn the_workloads_are_those_of_the_papers_harness() {
    let sum = |flows| {
        let weights = Mix::Mixed;
        let traffic =
            Traffic { flows, load: Load::Large, sizes: Sizes::Imix, weights, pool: Pool::Shuffled };
        let sets = traffic.sets();
        assert_eq!(sets.iter().map(|set| set.1).sum::<u32>(), flows);
        sets.iter().map(|set| set.0 * set.1).sum::<u32>()
    };
    let sums = [1, 8, 64, 512, 4_096, 32_768, 131_072].map(sum);
    assert_eq!(sums, [8, 19, 225, 1_934, 7_549, 53_231, 209_855]);

    let traffic = Traffic {
        flows: 8,
        load: Load::Full,
        sizes: Sizes::Imix,
        weights: Mix::Equal,
        pool: Pool::Shuffled,
    };
    let lengths = traffic.lengths();
    let of = |len| lengths.iter().filter(|&&other| other == len).count();
    assert_eq!(lengths.len(), 4_093);
    assert_eq!([64, 576, 1_500].map(of), [2_392, 1_349, 352]);
    let mut packets = traffic.packets();
    assert_ne!(packets, (0..240).collect::<Vec<u32>>());
    packets.sort_unstable();
    assert_eq!(packets, (0..240).collect::<Vec<u32>>());
}
