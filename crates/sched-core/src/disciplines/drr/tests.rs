use super::ring::Standing;
use super::*;
use crate::queues::queue::NONE;
use crate::tests::link::Link;
use crate::{Descriptor, DropReason, FlowQueues, Limits, Nanos, Queue, Scheduler};
use std::vec::Vec;

const NOW: Nanos = Nanos::ZERO;

type Tables = ([Queue; 4], [Descriptor; 256]);

/// Queues of four flows; each flow is named by a letter and handles are numbered consecutively.
struct Letters {
    queues: FlowQueues<Drr<[DrrFlow; 4]>, Tables>,
    sent: u32,
    flow_of: Vec<u32>,
}

impl Letters {
    fn of(scheduler: Drr<[DrrFlow; 4]>) -> Self {
        let descriptors = [Descriptor::EMPTY; 256];
        let queues =
            FlowQueues::with_own_victim(scheduler, [Queue::EMPTY; 4], descriptors, Limits::NONE);
        Self { queues, sent: 0, flow_of: Vec::new() }
    }

    fn plain(quantum: u32) -> Self {
        let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap();
        scheduler.add_all(quantum).unwrap();
        Self::of(scheduler)
    }

    fn sparse_first(quantum: u32) -> Self {
        let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
        scheduler.add_all(quantum).unwrap();
        Self::of(scheduler)
    }

    /// Enqueues one packet of `len` bytes for each letter: `a` is flow 0.
    fn put(&mut self, letters: &str, len: u32) {
        for letter in letters.bytes() {
            let flow = u32::from(letter - b'a');
            let packet = Packet::new(self.sent, len);
            let drops = &mut |_: Packet, _| panic!("nothing is dropped");
            self.queues.enqueue(NOW, FlowId(flow), packet, drops).unwrap();
            self.queues.recount().unwrap();
            self.sent += 1;
            self.flow_of.push(flow);
        }
    }

    /// Dequeues `count` packets; returns the letters of their flows, `.` for none.
    fn get(&mut self, count: usize) -> std::string::String {
        let drops = &mut |_: Packet, _| panic!("nothing is dropped");
        (0..count)
            .map(|_| {
                let packet = self.queues.dequeue(NOW, drops);
                self.queues.recount().unwrap();
                packet.map_or('.', |p| char::from(b'a' + self.flow_of[p.handle as usize] as u8))
            })
            .collect()
    }

    fn set(&mut self, letter: char, quantum: u32) {
        self.queues.configure(FlowId(letter as u32 - 'a' as u32), quantum).unwrap();
    }

    fn remove(&mut self, letter: char) -> Vec<u32> {
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, reason| {
            assert_eq!(reason, DropReason::FlowRemoved);
            gone.push(packet.handle);
        };
        self.queues.remove_flow(FlowId(letter as u32 - 'a' as u32), drops);
        self.queues.recount().unwrap();
        gone
    }
}

#[test]
fn flows_of_equal_packets_alternate() {
    let mut line = Letters::plain(100);
    line.put("aaabbbcc", 100);
    assert_eq!(line.get(9), "abcabcab.");
}

#[test]
fn a_turn_is_worth_the_quantum_of_the_flow() {
    let mut line = Letters::plain(100);
    line.set('a', 300);
    line.put("aaaaaaaabbb", 100);
    assert_eq!(line.get(12), "aaabaaabaab.");
}

/// Quantum 100; b sends 100 a turn and owes nothing. The turns of a, its deficit at their start:
/// 100 (two packets of 70) | 60 (one) | 90 (two) | 50 (one) | 80 (two) | 40 (one).
#[test]
fn a_debt_is_paid_back_in_later_turns() {
    let mut line = Letters::plain(100);
    line.put("aaaaaaaaaaaa", 70);
    line.put("bbbbbb", 100);
    assert_eq!(line.get(14), "aababaababaaba");
}

/// Goal: emptying the queue does not cancel the debt. Method: a has sent 10 + 100 of a quantum of
/// 100 and is idle, 10 in debt. Its next turn is worth 90, and one packet of 90 ends it; a flow
/// without debt sends a second.
#[test]
fn a_flow_that_empties_in_debt_comes_back_in_debt() {
    for (before, expected) in [(10, "abaab"), (0, "aabab")] {
        let mut line = Letters::plain(100);
        if before > 0 {
            line.put("a", before);
        }
        line.put("a", 100);
        assert_eq!(line.get(if before > 0 { 2 } else { 1 }).trim_matches('a'), "");
        line.put("aa", 90);
        line.put("a", 10);
        line.put("bb", 100);
        // In debt: a 90 → 0+100 | b | a 100 → 10 → 0 | b.
        // Without: a 100 → 10 → −80+100 = 20 | b | a 20 → 10, idle | b.
        assert_eq!(line.get(5), expected, "debt {before}");
    }
}

/// Bytes charged to flow 0, and whether it is empty and keeps its turn or debt.
fn state(scheduler: &Drr<[DrrFlow; 4]>) -> (u32, bool) {
    let flow = scheduler.nodes[0].flow;
    (flow.charged, flow.place() == Place::Spent)
}

/// Goal: a loss of the last packet neither pays a debt nor creates one. Method: the debt of flow 0
/// after a loss, in each place that it can be in; quantum and longest packet are 100.
#[test]
fn a_loss_leaves_the_debt_as_it_was() {
    let scheduler = |sparse: bool| {
        let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap();
        scheduler.add_all(100).unwrap();
        if sparse { scheduler.sparse_first() } else { scheduler }
    };
    for sparse in [false, true] {
        // Two packets of 70, one of them in debt; the third waits behind flow 1.
        let mut drr = scheduler(sparse);
        drr.backlogged(FlowId(0), 70);
        drr.backlogged(FlowId(1), 70);
        drr.served(FlowId(0), 70, Some(70));
        drr.served(FlowId(0), 70, Some(70));
        assert_eq!((drr.select(), state(&drr)), (Some(FlowId(1)), (40, false)));
        drr.lost(FlowId(0), 70, None);
        assert_eq!(state(&drr), (40, true), "its turn had not come");
        // Flow 0 returns and loses again, any number of times, at the front as well as behind.
        drr.backlogged(FlowId(0), 70);
        drr.lost(FlowId(0), 70, None);
        assert_eq!(state(&drr).0, 40);
        drr.served(FlowId(1), 70, None);
        drr.backlogged(FlowId(0), 70);
        assert_eq!(drr.select(), Some(FlowId(0)));
        drr.lost(FlowId(0), 70, None);
        assert_eq!(state(&drr).0, 40);
        // 60 bytes end the turn that is worth 60.
        drr.backlogged(FlowId(0), 50);
        drr.served(FlowId(0), 50, Some(50));
        assert_eq!(state(&drr).0, 90, "40 owed, and 50 sent");
        drr.lost(FlowId(0), 50, None);
        assert_eq!(state(&drr), (90, true), "10 are left of the turn, until the round is over");
        drr.backlogged(FlowId(0), 50);
        assert_eq!(state(&drr).0, 0, "it is over: a new turn, and nothing is owed");
        drr.remove(FlowId(0));
        assert_eq!(state(&drr), (0, false));
    }
}

/// Goal: the loss of a packet changes no flow's sparse status.
#[test]
fn a_loss_leaves_a_flow_as_sparse_as_it_was() {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 3], 100).unwrap().sparse_first();
    scheduler.add_all(100).unwrap();
    let mut link = Link::over(scheduler, 3);
    (0..8).for_each(|packet| link.enqueue(1 + packet % 2, 100));
    let get = |link: &mut Link<_>, count: u32| -> Vec<u32> {
        (0..count).map(|_| link.dequeue().unwrap().0).collect()
    };
    assert_eq!(get(&mut link, 2), [1, 2], "both stand on the old list");
    link.enqueue(0, 100);
    link.lose(0, true);
    link.enqueue(0, 100);
    link.enqueue(0, 100);
    assert_eq!(get(&mut link, 1), [0], "still new, and now behind them");
    link.lose(0, true);
    link.enqueue(0, 100);
    assert_eq!(get(&mut link, 2), [1, 2], "not new again before they have had their turns");
    link.lose(0, true);
    link.enqueue(0, 100);
    assert_eq!(get(&mut link, 1), [0], "they have had theirs: new again");
    link.recount().unwrap();
}

#[test]
fn credit_of_a_turn_is_lost_with_the_last_packet() {
    let mut line = Letters::plain(100);
    line.put("a", 1);
    assert_eq!(line.get(1), "a");
    line.put("aaab", 50);
    // With the 99 bytes left over, a would send all three first.
    assert_eq!(line.get(4), "aaba");
}

#[test]
fn a_sparse_flow_goes_first_and_then_joins_the_others() {
    let mut line = Letters::sparse_first(100);
    line.put("aaaa", 100);
    assert_eq!(line.get(1), "a", "new, and now old");
    line.put("bbbb", 100);
    line.put("bbc", 100);
    // b and c are new and each has one turn; then b is behind a, and c is gone.
    assert_eq!(line.get(6), "bcabab");
}

/// Goal: a flow that empties on either list and returns at once has one turn per round, like flows
/// that stay backlogged. Method: b sends a packet whenever it is empty, while a and c stay
/// backlogged. Each packet is a whole turn.
#[test]
fn a_flow_that_keeps_emptying_does_not_starve_the_old_ones() {
    let mut line = Letters::sparse_first(100);
    line.put("aaaaaaaacccccccc", 100);
    assert_eq!(line.get(2), "ac", "both stand on the old list");
    let mut trace = std::string::String::new();
    for _ in 0..12 {
        if line.queues.flow_backlog(FlowId(1)).packets == 0 {
            line.put("b", 100);
        }
        trace += &line.get(1);
    }
    assert_eq!(trace, "bacbacbacbac");
}

/// Goal: the ticket of a flow that used up its turn on the new list lasts for one rotation of the
/// old list.
#[test]
fn a_spent_flow_is_sparse_again_after_one_rotation() {
    for (turns, served_next) in [(0, 'a'), (1, 'c'), (2, 'b'), (3, 'b')] {
        let mut line = Letters::sparse_first(100);
        line.put("aaaaaaaacccccccc", 100);
        assert_eq!(line.get(2), "ac");
        line.put("b", 100);
        assert_eq!(line.get(1), "b");
        let _standing = line.get(turns);
        line.put("b", 100);
        assert_eq!(line.get(1), std::format!("{served_next}"), "after {turns} turns");
    }
}

#[test]
fn a_spent_flow_is_sparse_again_where_no_flow_stands() {
    let mut line = Letters::sparse_first(100);
    line.put("b", 100);
    assert_eq!(line.get(1), "b");
    line.put("bb", 100);
    line.put("a", 100);
    // b is new: its turn ends on the old list, so a, new, goes before its second packet.
    assert_eq!(line.get(3), "bab");
}

/// Goal: tickets compare correctly across their wrap-around.
#[test]
fn tickets_may_wrap() {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
    scheduler.add_all(100).unwrap();
    scheduler.ring.next_old = Standing::new(Place::Old, 0_u32.wrapping_sub(4 * TICKET));
    let mut line = Letters::of(scheduler);
    line.put("aaaaaaaacccccccc", 100);
    assert_eq!(line.get(2), "ac");
    let mut trace = std::string::String::new();
    for _ in 0..12 {
        if line.queues.flow_backlog(FlowId(1)).packets == 0 {
            line.put("b", 100);
        }
        trace += &line.get(1);
    }
    assert_eq!(trace, "bacbacbacbac");
    assert!(line.queues.scheduler().ring.ticket() < 100 * TICKET, "it has wrapped");
}

#[test]
fn what_is_out_of_range_is_refused_and_changes_nothing() {
    for len in [0, Packet::MAX_LEN + 1] {
        let refused = Drr::new([DrrFlow::EMPTY; 4], len).map(|_| ());
        let (value, max) = (len.into(), Packet::MAX_LEN.into());
        let what = "longest packet in bytes";
        assert_eq!(refused, Err(ConfigError::OutOfRange { what, value, min: 1, max }));
    }
    let mut line = Letters::plain(300);
    line.put("aaabbb", 100);
    let before = *line.queues.scheduler();
    let flow = FlowId(4);
    let unknown = ConfigError::UnknownFlow { flow, flows: 4 };
    assert_eq!(line.queues.configure(flow, 300), Err(unknown));
    for quantum in [0, 99, (1 << 28) + 1] {
        let (value, what) = (u64::from(quantum), "quantum in bytes");
        let error = ConfigError::OutOfRange { what, value, min: 100, max: 1 << 28 };
        assert_eq!(line.queues.configure(FlowId(0), quantum), Err(error));
        let mut scheduler = *line.queues.scheduler();
        assert_eq!(scheduler.add_all(quantum), Err(error));
        assert_eq!(scheduler, before);
    }
    assert_eq!(*line.queues.scheduler(), before);
    assert_eq!(line.get(6), "aaabbb");
    line.set('a', 100);
    line.set('a', 1 << 28);
    assert_eq!(line.queues.config(FlowId(0)), Some(1 << 28));
}

/// Goal: a flow can be removed from any position of a list, and the other flows keep their order.
/// Method: four flows on the old list, or on the new one; remove each in turn, twice.
#[test]
fn a_flow_can_be_removed_from_every_place_of_a_list() {
    for make in [Letters::plain as fn(u32) -> Letters, Letters::sparse_first] {
        for (gone, rest) in [('a', "bcdbcd"), ('b', "acdacd"), ('c', "abdabd"), ('d', "abcabc")] {
            let mut line = make(100);
            line.put("abcdabcd", 100);
            let at = gone as u32 - 'a' as u32;
            assert_eq!(line.remove(gone), [at, at + 4]);
            assert_eq!(line.remove(gone), []);
            assert_eq!(line.queues.config(FlowId(at)), None);
            assert_eq!(line.get(7), std::format!("{rest}."));
        }
        let mut line = make(100);
        line.put("abcd", 100);
        for letter in ['c', 'a', 'd', 'b'] {
            assert_eq!(line.remove(letter).len(), 1);
        }
        assert_eq!(line.get(1), ".");
    }
}

#[test]
fn a_removed_flow_comes_back_without_debt_or_mark() {
    let mut line = Letters::sparse_first(100);
    line.put("aaaa", 100);
    assert_eq!(line.get(1), "a");
    line.put("b", 50);
    line.put("b", 100);
    assert_eq!(line.get(2), "bb", "spent, and 50 in debt");
    assert_eq!(line.remove('b'), []);
    line.set('b', 100);
    line.put("bbb", 60);
    assert_eq!(line.get(4), "bbab", "new, and with a whole quantum");
}

/// Goal: a new quantum of a backlogged flow applies at once, even to the current turn, and a turn
/// is overdrawn by at most a packet however low the quantum is.
#[test]
fn a_new_quantum_counts_at_once() {
    let mut line = Letters::plain(100);
    line.set('a', 300);
    line.put("aaaaaaaabbbbbb", 100);
    assert_eq!(line.get(1), "a");
    line.set('a', 200);
    assert_eq!(line.get(5), "abaab", "one more in the turn under way");
    line.set('a', 300);
    assert_eq!(line.get(2), "aa");
    line.set('a', 100);
    assert_eq!(line.get(1), "a");
    assert_eq!(line.queues.scheduler().nodes[0].flow.charged, 99, "200 more than its turn");
    assert_eq!(line.get(5), "babbb");
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap().sparse_first();
    for flow in 0..3 {
        scheduler.configure(FlowId(flow), 100, None).unwrap();
    }
    scheduler.backlogged(FlowId(0), 100);
    scheduler.backlogged(FlowId(1), 100);
    scheduler.served(FlowId(0), 100, Some(100));
    let before = scheduler;
    scheduler.backlogged(FlowId(0), 100);
    scheduler.backlogged(FlowId(3), 100);
    scheduler.backlogged(FlowId(4), 100);
    scheduler.backlogged(FlowId(u32::MAX), 100);
    for flow in [2, 3, 4, u32::MAX] {
        scheduler.served(FlowId(flow), 100, Some(100));
        scheduler.served(FlowId(flow), 100, None);
        scheduler.lost(FlowId(flow), 100, Some(100));
        scheduler.lost(FlowId(flow), 100, None);
    }
    scheduler.served(FlowId(0), 100, None); // flow 1 is selected
    scheduler.lost(FlowId(0), 100, Some(100));
    scheduler.grew(FlowId(0), 100);
    scheduler.remove(FlowId(3));
    scheduler.remove(FlowId(4));
    assert_eq!(scheduler, before);
    scheduler.served(FlowId(1), u32::MAX, Some(1));
    let backlog = crate::Backlog { packets: 1, bytes: 100 };
    let truth = |flow: FlowId| FlowState {
        backlog: if flow.0 < 2 { backlog } else { crate::Backlog::default() },
        head_len: None,
    };
    assert_eq!(scheduler.recount(&truth), Ok(()));
}

/// Goal: `recount` detects every kind of damage. Method: corrupt one field at a time.
#[test]
fn a_recount_sees_damage() {
    let mut line = Letters::sparse_first(100);
    line.put("aabbcc", 100);
    assert_eq!(line.get(2), "ab");
    let good = *line.queues.scheduler();
    let truth = |flow: FlowId| line.queues_state(flow);
    assert_eq!(good.recount(&truth), Ok(()));
    let damages: [fn(&mut Drr<[DrrFlow; 4]>); 12] = [
        |d| d.nodes[0].flow.next = 3,
        |d| d.nodes[0].flow.prev = 3,
        |d| d.nodes[0].flow.next = 0,
        |d| d.nodes[0].flow.charged = 100,
        |d| d.nodes[2].flow.charged = 1 << 28,
        |d| d.nodes[0].flow.quantum = 99,
        |d| d.nodes[0].flow.standing = Standing::new(Place::New, 0),
        |d| d.nodes[2].flow.standing = Standing::new(Place::Spent, 0),
        |d| d.nodes[0].flow.standing = d.nodes[1].flow.standing,
        |d| d.nodes[3].flow.charged = 100,
        |d| d.ring.front = NONE,
        |d| d.ring.last_new = NONE,
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut bad = good;
        damage(&mut bad);
        assert!(bad.recount(&truth).is_err(), "damage {at}");
    }
}

impl Letters {
    fn queues_state(&self, flow: FlowId) -> FlowState {
        FlowState { backlog: self.queues.flow_backlog(flow), head_len: None }
    }
}

#[test]
fn a_flow_is_twenty_four_bytes() {
    assert_eq!(size_of::<DrrFlow>(), 24);
}

mod pieces;
mod worst_lag;

/// Goal: a note belongs to its table entry, not to the flow of that entry.
#[test]
fn a_flow_that_is_removed_takes_no_note_with_it() {
    let mut drr = Drr::new([DrrFlow::EMPTY; 4], 100).unwrap();
    drr.add_all(100).unwrap();
    for flow in [2, 3, 0] {
        drr.backlogged(FlowId(flow), 100);
    }
    // Flow 1 is idle; its entry notes that flow 3 is second.
    drr.remove(FlowId(1));
    let mut ahead = [FlowId(9); 4];
    assert_eq!(drr.upcoming(&mut ahead), 3);
    assert_eq!(ahead[..3], [2, 3, 0].map(FlowId));
}
