//! Changes of tins while packets are queued: new packets go to the tin in their labels, whatever is
//! queued from before.

use freeboard::flowhash::{Labels, mix};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, Scheduler, TinConfig};
use freeboard::{Heap, InTin, Isolated, IsolatedConfig, IsolatedMemory, Isolation};

fn labels(tin: u8, host: u32, flow: u32) -> InTin<Labels> {
    let (flow, src_host) = (mix(host * 100 + flow), mix(host));
    InTin { labels: Labels { flow, src_host, dst_host: mix(7) }, tin }
}

fn tins(count: usize) -> Vec<TinConfig> {
    (0..count).map(|_| TinConfig::by_weight(1).with_rate(1_000_000_000)).collect()
}

struct Line {
    queue: Isolated<Heap>,
    handle: u32,
    /// Labels of each packet by its handle, with the tin that it is in.
    labels: Vec<InTin<Labels>>,
}

impl Line {
    fn new(isolation: Isolation, count: usize) -> Self {
        let memory = IsolatedMemory::allocate(64, 16, 8, 256);
        let mut config = IsolatedConfig::new(1_500, Limits::packets(256));
        config.isolation = isolation;
        let mut queue = Isolated::new(memory, config).expect("in range");
        queue.set_tins(&tins(count)).expect("there is room");
        Self { queue, handle: 0, labels: vec![labels(0, 0, 0); 256] }
    }

    fn put(&mut self, labels: &InTin<Labels>) -> u32 {
        let drops = &mut |packet: Packet, why: DropReason| panic!("{packet:?}: {why:?}");
        let (packet, handle) = (Packet::new(self.handle, 1_000), self.handle);
        self.queue.enqueue_labelled(Nanos(0), labels, packet, drops).expect("there is room");
        self.labels[handle as usize] = *labels;
        self.queue.recount().expect("the counters are right");
        self.handle += 1;
        handle
    }

    /// Sets `count` tins; packets in tin `t` move to tin `to(t)`, or to tin 0 if that does not
    /// exist.
    fn set_tins(&mut self, count: usize, to: impl Fn(u8) -> u8) {
        let to = |tin| Some(to(tin)).filter(|tin| usize::from(*tin) < count).unwrap_or(0);
        self.labels.iter_mut().for_each(|labels| labels.tin = to(labels.tin));
        let labels_of = |packet: Packet| self.labels[packet.handle as usize];
        let (isolation, tins) = (self.queue.isolation(), tins(count));
        self.queue
            .rebuild_and_move(isolation, (Some(&tins[..]), to), labels_of)
            .expect("there is room");
    }

    fn next(&mut self) -> Option<u32> {
        let drops = &mut |packet: Packet, why: DropReason| panic!("{packet:?}: {why:?}");
        self.queue.dequeue(Nanos(0), drops).map(|packet| packet.handle)
    }

    fn held(&self) -> Vec<u32> {
        let tins = (0..8).map_while(|tin| self.queue.tin_counters(tin));
        tins.map(|tin| tin.backlog.packets).collect()
    }
}

fn modes() -> impl Iterator<Item = Isolation> {
    Isolation::ALL.iter().copied().filter(|mode| *mode != Isolation::TripleIsolate)
}

/// Goal: a flow whose tin is removed and restored is served in it from its next packet on, and so
/// is its host, although packets of both are still queued in the tin that held them in the
/// meantime.
#[test]
fn a_tin_that_comes_back_has_its_flows_and_hosts() {
    for mode in modes() {
        for is_same_flow in [true, false] {
            let mut line = Line::new(mode, 4);
            line.put(&labels(3, 1, 0));
            line.put(&labels(3, 1, 0));
            line.set_tins(1, |tin| tin);
            line.put(&labels(0, 2, 0));
            line.put(&labels(0, 3, 0));
            line.set_tins(4, |tin| tin);
            let voice = line.put(&labels(3, 1, if is_same_flow { 0 } else { 1 }));
            assert_eq!(line.held(), [4, 0, 0, 1], "{mode} {is_same_flow}");
            assert_eq!(line.next(), Some(voice), "{mode} {is_same_flow}");
        }
    }
}

/// Goal: if a tin gets another number, its old number belongs to another tin: new flows and hosts
/// of that tin do not join packets queued under the old number.
#[test]
fn a_tin_of_another_number_leaves_the_number_to_others() {
    for mode in modes() {
        for is_same_flow in [true, false] {
            let mut line = Line::new(mode, 4);
            let flow = if is_same_flow { 0 } else { 1 };
            // The lowest tin becomes the highest, and the one below the highest the lowest.
            line.put(&labels(0, 1, 0));
            line.put(&labels(2, 1, 0));
            let to = |tin: u8| if tin == 0 { 3 } else { 0 };
            line.set_tins(4, to);
            assert_eq!(line.held(), [1, 0, 0, 1], "{mode}");
            let low = line.put(&labels(0, 1, flow));
            let video = line.put(&labels(2, 1, flow));
            assert_eq!(line.held(), [2, 0, 1, 1], "{mode} {is_same_flow}");
            assert_eq!(line.next(), Some(0), "{mode} {is_same_flow}");
            assert_eq!(line.next(), Some(video), "{mode} {is_same_flow}");
            let last = [line.next(), line.next()];
            assert!(last.contains(&Some(low)) && last.contains(&Some(1)), "{mode}: {last:?}");
        }
    }
}

/// Goal: with repeated changes, each packet counts in the tin in its labels.
#[test]
fn tins_that_change_again_and_again_keep_their_packets_apart() {
    for mode in modes() {
        let mut line = Line::new(mode, 8);
        for round in 0..20 {
            for tin in 0..8 {
                let mut expected = line.held();
                expected[usize::from(tin)] += 1;
                line.put(&labels(tin, 1, 0));
                assert_eq!(line.held(), expected, "{mode} in round {round}");
            }
            let to = |tin: u8| if round % 2 == 1 { tin ^ 1 } else { (tin + 1) % 8 };
            let before = line.held();
            line.set_tins(8, to);
            let moved = |at: u8| {
                let of = (0..8_u8).filter(|tin| to(*tin) == at);
                of.map(|tin| before[usize::from(tin)]).sum::<u32>()
            };
            assert_eq!(line.held(), (0..8).map(moved).collect::<Vec<_>>(), "{mode}");
            // So that no set is full.
            let is_drained = round % 4 == 3;
            (0..if is_drained { 64 } else { 7 }).for_each(|_| _ = line.next());
        }
        while line.next().is_some() {}
        line.queue.recount().expect("the counters are right");
    }
}

/// Goal: hosts receive equal shares although one of them claimed its entry, while there was one
/// tin, from a host that had one share across two. Method: host 0 sends in two tins and becomes
/// idle; eight hosts flood the only tin, then one of two.
#[test]
fn an_entry_taken_over_while_there_is_one_tin_inherits_no_share_in_two() {
    let of = |tin, host: u32| {
        let (flow, src_host) = (mix(64 * u32::from(tin) + host), 8 * host);
        InTin { labels: Labels { flow, src_host, dst_host: 0 }, tin }
    };
    let memory = IsolatedMemory::<Heap>::allocate(64, 8, 2, 256);
    let mut config = IsolatedConfig::new(1_500, Limits::packets(256));
    config.isolation = Isolation::DualSrcHost;
    config.host_quantum = 4_500;
    let queue = Isolated::new(memory, config).expect("in range");
    let mut line = Line { queue, handle: 0, labels: vec![of(0, 0); 256] };
    line.queue.set_tins(&tins(2)).expect("there is room");
    line.queue.set_hosts_across_tins(true);
    (0..2).for_each(|tin| _ = line.put(&of(tin, 0)));
    let entry = line.queue.entries_of(&of(0, 0)).0;
    while line.next().is_some() {}
    line.handle = 0;
    line.queue.set_tins(&tins(1)).expect("one");
    (0..16).for_each(|handle| _ = line.put(&of(0, handle % 8)));
    let held: Vec<_> = (0..8).map(|host| line.queue.entries_of(&of(0, host)).0).collect();
    assert!(held.contains(&entry), "{held:?} {entry:?}");
    for count in [1, 2] {
        line.set_tins(count, |tin| tin);
        let mut sent = [0_u32; 8];
        for _ in 0..8_000 {
            let handle = line.next().expect("all flood");
            sent[handle as usize % 8] += 1;
            line.handle = handle;
            line.put(&of(0, handle % 8));
        }
        assert!(sent.iter().all(|packets| packets.abs_diff(1_000) <= 10), "{count} tins: {sent:?}");
    }
}
