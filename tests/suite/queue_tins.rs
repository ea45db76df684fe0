//! Tins of the smart queue: shares under floods, hosts within each tin, voice during floods, and
//! changes of tins and rates under load.

use std::collections::BTreeMap;

use conformance::effort::effort;
use freeboard::flowhash::{Labels, mix};
use freeboard::sched_core::{
    AqmChoice, Counters, DropReason, Limits, Nanos, Packet, Scheduler, TinConfig,
};
use freeboard::shaper::Rate;
use freeboard::{
    DescriptorQueue, Dscp, FrameQueue, Fwmark, Heap, InTin, Isolated, IsolatedConfig,
    IsolatedError, IsolatedMemory, Isolation, QueueSettings, SmartQueue, TinBy, TinMode, TinPlan,
};

const LEN: u32 = 1_000;

/// Configuration string for custom tins.
const OWN_TINS: &str =
    "tin rest tin video share 1/4 tin calls share 1/8 map EF,VA calls map AF41 video";

fn mbit(rate: u64) -> Rate {
    Rate::megabits_per_second(rate).expect("in range")
}

/// A sender that is always backlogged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    tin: u8,
    host: u32,
    flow: u32,
    /// The sender's own server, or 0 for the common one.
    server: u32,
}

impl Sender {
    fn labels(self) -> InTin<Labels> {
        let (flow, src_host) = (mix(self.host * 100 + self.flow), mix(self.host));
        let dst_host = if self.server == 0 { 7 } else { mix(1_000 + self.server) };
        InTin { labels: Labels { flow, src_host, dst_host }, tin: self.tin }
    }

    /// Directs the sender to a server that only its host sends to.
    fn to_own_server(self) -> Self {
        Self { server: 1 + self.host, ..self }
    }
}

/// A queue, the handles in use, and the service so far.
struct Line {
    queue: DescriptorQueue,
    now: Nanos,
    /// Sender and arrival time of each queued handle.
    queued: BTreeMap<u32, (Sender, Nanos)>,
    /// Tin of each handle.
    tins: BTreeMap<u32, u8>,
    /// Bytes sent per sender.
    sent: BTreeMap<Sender, u64>,
    dropped: BTreeMap<Sender, u64>,
    longest_wait: BTreeMap<u8, Nanos>,
}

impl Line {
    fn new(queue: DescriptorQueue) -> Self {
        let (now, queued, sent) = (Nanos::from_secs(1), BTreeMap::new(), BTreeMap::new());
        let (dropped, longest_wait) = (BTreeMap::new(), BTreeMap::new());
        Self { queue, now, queued, tins: BTreeMap::new(), sent, dropped, longest_wait }
    }

    fn put(&mut self, sender: Sender, len: u32) {
        let handle = (0..).find(|handle| !self.queued.contains_key(handle)).expect("there is one");
        self.queued.insert(handle, (sender, self.now));
        self.tins.insert(handle, sender.tin);
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
        let taken = self.queue.enqueue(self.now, &sender.labels(), Packet::new(handle, len), drops);
        gone.extend(taken.err().map(|rejected| rejected.packet.handle));
        self.lose(gone);
    }

    /// Sets the isolation mode; queued packets stay in their tins.
    fn set_isolation(&mut self, isolation: Isolation) {
        let (queued, tins) = (&self.queued, &self.tins);
        let labels_of = |Packet { handle, .. }: Packet| {
            Sender { tin: tins[&handle], ..queued[&handle].0 }.labels()
        };
        self.queue.set_isolation(isolation, labels_of).expect("there is room");
    }

    /// Sets the tins; queued packets move to the tin with the same name, or to the default tin.
    fn set_tins(&mut self, plan: TinPlan) {
        let before = *self.queue.tins();
        for tin in self.tins.values_mut() {
            let named = before.tin(*tin).and_then(|tin| plan.number_of(tin.name()));
            // A tin that did not exist counted as tin 0.
            let of_none = || before.tin(0).and_then(|tin| plan.number_of(tin.name()));
            let is_there = *tin < before.count();
            let to = if is_there { named } else { of_none() };
            *tin = to.unwrap_or(plan.default_tin());
        }
        let (queued, tins) = (&self.queued, &self.tins);
        let labels_of = |Packet { handle, .. }: Packet| {
            Sender { tin: tins[&handle], ..queued[&handle].0 }.labels()
        };
        self.queue.set_tins(plan, labels_of).expect("there is room");
    }

    fn lose(&mut self, gone: Vec<u32>) {
        for handle in gone {
            let (sender, _) = self.queued.remove(&handle).expect("it was queued");
            *self.dropped.entry(sender).or_default() += 1;
        }
    }

    /// Sends all packets that may leave now.
    fn send(&mut self) {
        loop {
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
            let packet = self.queue.dequeue(self.now, drops);
            self.lose(gone);
            let Some(packet) = packet else { return };
            let (sender, since) = self.queued.remove(&packet.handle).expect("it was queued");
            *self.sent.entry(sender).or_default() += u64::from(packet.len);
            let wait = self.longest_wait.entry(sender.tin).or_default();
            *wait = self.now.since(since).max(*wait);
        }
    }

    /// Keeps at least two packets of each of `senders` queued for `millis`.
    fn flood(&mut self, senders: &[Sender], millis: u64) {
        let end = self.now.plus(Nanos::from_millis(millis));
        while self.now < end {
            for &sender in senders {
                let held = self.queued.values().filter(|(of, _)| *of == sender).count();
                (held..2).for_each(|_| self.put(sender, LEN));
            }
            self.send();
            self.now = self.queue.poll_at(self.now).expect("packets are queued").max(self.now);
        }
    }

    fn bytes(&self, counts: impl Fn(&Sender) -> bool) -> u64 {
        self.sent.iter().filter(|(sender, _)| counts(sender)).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the share of each tin in thousandths of all bytes sent.
    fn shares(&self) -> Vec<u64> {
        let all = self.bytes(|_| true);
        let tins = 0..self.queue.tins().count();
        tins.map(|tin| self.bytes(|sender| sender.tin == tin) * 1_000 / all).collect()
    }

    /// Checks the counters of each tin, and their sum.
    fn check(&self) {
        Scheduler::recount(&self.queue).expect("the counters are right");
        let tins = (0..self.queue.tins().count()).filter_map(|tin| self.queue.tin_counters(tin));
        let tins: Vec<_> = tins.collect();
        let sum =
            |count: fn(&Counters) -> u64| tins.iter().map(|tin| count(&tin.counters)).sum::<u64>();
        let all = self.queue.counters();
        let counts: [fn(&Counters) -> u64; 4] = [
            |counters| counters.accepted.packets,
            |counters| counters.delivered.bytes,
            |counters| counters.dropped_total().packets,
            |counters| counters.rejected.packets,
        ];
        counts.iter().for_each(|&count| assert_eq!(count(&all), sum(count)));
        let held: u32 = tins.iter().map(|tin| tin.backlog.packets).sum();
        assert_eq!(held as usize, self.queued.len());
    }
}

/// Returns hosts 0 to 2 in each of four tins; host 0 has five flows, the others one.
fn floods() -> Vec<Sender> {
    let flows = |host| if host == 0 { 0..5 } else { 0..1 };
    let of_tin = |tin| {
        (0..3).flat_map(move |host| {
            flows(host).map(move |flow| Sender { tin, host, flow, server: 0 })
        })
    };
    (0..4).flat_map(of_tin).collect()
}

fn diffserv4(rate: Rate) -> DescriptorQueue {
    let builder = SmartQueue::upload(rate).tins(TinMode::Diffserv4);
    builder.catch_up(Nanos::ZERO).descriptors().expect("it is in range")
}

/// Goal: with every tin flooded each tin receives its share, and hosts within a tin receive equal
/// shares, regardless of their numbers of flows. In every isolation mode.
#[test]
fn floods_in_every_tin_have_their_shares_and_hosts_within_them() {
    for &isolation in Isolation::ALL {
        let builder = SmartQueue::upload(mbit(10)).tins(TinMode::Diffserv4).isolation(isolation);
        let mut line = Line::new(builder.catch_up(Nanos::ZERO).descriptors().unwrap());
        line.flood(&floods(), effort(5_000, 10_000));
        let shares = line.shares();
        for (share, part) in shares.iter().zip([187, 62, 500, 250]) {
            assert!(share.abs_diff(part) <= 4, "{isolation}: {shares:?}");
        }
        // In `triple-isolate`, all flows share the common server.
        if isolation == Isolation::DualSrcHost {
            for (tin, host) in (0..4).flat_map(|tin| (0..3).map(move |host| (tin, host))) {
                let ours = line.bytes(|sender| (sender.tin, sender.host) == (tin, host));
                let fair = line.bytes(|sender| sender.tin == tin) / 3;
                assert!(ours.abs_diff(fair) * 50 <= fair, "host {host} of tin {tin}: {ours}");
            }
        }
        line.check();
    }
}

/// Returns four hosts: host 0 floods all tins of `diffserv4`; each of the others floods one of the
/// tins 0, 2 and 3, and the bulk tin 1 is used by host 0 alone.
fn one_host_in_all_tins() -> Vec<Sender> {
    let of_host = |host: u32, tin: u8| Sender { tin, host, flow: u32::from(tin), server: 7 };
    let everywhere = (0..4).map(|tin| of_host(0, tin));
    everywhere.chain([(1, 0), (2, 2), (3, 3)].map(|(host, tin)| of_host(host, tin))).collect()
}

/// Goal: a host that floods every tin has a share in each, or with the option about one across all.
/// On a link with shares of 187, 62, 500 and 250 thousandths, without the option the host receives
/// half of three tins and all of one, 531, and the others 94, 250 and 125. The fairest shares would
/// be 281, 187, 281 and 250; the difference is one packet per turn that the host keeps in tins 0
/// and 3. Tins keep their shares.
#[test]
fn a_host_in_all_tins_has_one_share() {
    for across in [false, true] {
        let builder = SmartQueue::upload(mbit(10)).tins(TinMode::Diffserv4);
        let builder = builder.hosts_across_tins(across).isolation(Isolation::DualSrcHost);
        let mut line = Line::new(builder.catch_up(Nanos::ZERO).descriptors().unwrap());
        line.flood(&one_host_in_all_tins(), 10_000);
        for (share, part) in line.shares().iter().zip([187, 62, 500, 250]) {
            assert!(share.abs_diff(part) <= 4, "{across}: {:?}", line.shares());
        }
        let all = line.bytes(|_| true);
        let hosts: Vec<_> =
            (0..4).map(|host| line.bytes(|sender| sender.host == host) * 1_000 / all).collect();
        let expected = if across { [317, 160, 307, 214] } else { [531, 94, 250, 125] };
        for (share, part) in hosts.iter().zip(expected) {
            assert!(share.abs_diff(part) <= 10, "{across}: {hosts:?}");
        }
        line.check();
    }
}

/// Goal: one share across all tins works with three tins, eight and custom ones: a host that floods
/// all tins while one other host uses each receives half of the link without the option, and much
/// less with it; tins keep their shares, and the counters are correct.
#[test]
fn one_share_holds_in_every_plan() {
    let own = QueueSettings::from_words(OWN_TINS).unwrap().tins.expect("it names tins");
    let plans = [TinMode::Diffserv3.plan(), TinMode::Diffserv8.plan(), own];
    for plan in plans {
        let tins = plan.count();
        let everywhere = (0..tins).map(|tin| Sender { tin, host: 0, flow: tin.into(), server: 7 });
        let one = |tin: u8| Sender { tin, host: 1 + u32::from(tin), flow: 0, server: 7 };
        let senders: Vec<_> = everywhere.chain((0..tins).map(one)).collect();
        let shares = |across: bool| {
            let builder = SmartQueue::upload(mbit(10)).tins(plan).hosts_across_tins(across);
            let builder = builder.isolation(Isolation::DualSrcHost).catch_up(Nanos::ZERO);
            let mut line = Line::new(builder.descriptors().unwrap());
            line.flood(&senders, effort(5_000, 10_000));
            line.check();
            let all = line.bytes(|_| true);
            let of_host = line.bytes(|sender| sender.host == 0) * 1_000 / all;
            (of_host, line.shares())
        };
        let ((each, tins_each), (one, tins_one)) = (shares(false), shares(true));
        assert!(each.abs_diff(500) <= 10, "half of each tin: {each}");
        assert!(one < each * 9 / 10, "{plan}: {one} of {each}");
        for (before, after) in tins_each.iter().zip(&tins_one) {
            assert!(before.abs_diff(*after) <= 6, "{plan}: {tins_each:?} {tins_one:?}");
        }
    }
}

/// Goal: in a tin that receives only the service floor, because the shares above it add up to the
/// whole link, a host waits for one packet of each other host there, with and without one share
/// across all tins. Method: three hosts in all tins, three in the lowest alone, which receives
/// about one packet in 500.
#[test]
fn one_share_starves_no_host_in_a_tin_that_has_the_floor_alone() {
    for mode in [TinMode::Diffserv8, TinMode::Precedence] {
        for across in [false, true] {
            let builder = SmartQueue::upload(mbit(10)).tins(mode).hosts_across_tins(across);
            let builder = builder.isolation(Isolation::DualSrcHost).catch_up(Nanos::ZERO);
            let mut line = Line::new(builder.descriptors().unwrap());
            let everywhere =
                |host| (0..8).map(move |tin| Sender { tin, host, flow: tin.into(), server: 0 });
            let mut senders: Vec<_> = (0..3).flat_map(everywhere).collect();
            senders.extend((3..6).map(|host| Sender { tin: 0, host, flow: 0, server: 0 }));
            line.flood(&senders, 5_600);
            let of = |host| line.bytes(|of| of.host == host && of.tin == 0) / u64::from(LEN);
            let sent = [0, 1, 2, 3, 4, 5].map(of);
            let even = sent.iter().all(|packets| (1..=4).contains(packets));
            assert!(even, "{mode} {across}: {sent:?}");
            line.check();
        }
    }
}

/// Goal: in `triple-isolate` the hosts of a tin receive equal shares, whatever flows they open
/// there and in other tins. Method: each host has its own destination.
#[test]
fn hosts_share_alike_in_every_tin_under_triple_isolate() {
    let builder = SmartQueue::upload(mbit(10)).isolation(Isolation::TripleIsolate);
    let queue = builder.tins(TinMode::Diffserv4).catch_up(Nanos::ZERO).descriptors().unwrap();
    let mut line = Line::new(queue);
    let senders: Vec<Sender> = floods().into_iter().map(Sender::to_own_server).collect();
    line.flood(&senders, 10_000);
    for (share, part) in line.shares().iter().zip([187, 62, 500, 250]) {
        assert!(share.abs_diff(part) <= 4, "{:?}", line.shares());
    }
    for (tin, host) in (0..4).flat_map(|tin| (0..3).map(move |host| (tin, host))) {
        let ours = line.bytes(|sender| (sender.tin, sender.host) == (tin, host));
        let fair = line.bytes(|sender| sender.tin == tin) / 3;
        assert!(ours.abs_diff(fair) * 50 <= fair, "host {host} of tin {tin}: {ours} of {fair}");
    }
    line.check();
}

/// Goal: in `triple-isolate` with the option, a host that floods every tin divides one share among
/// its flows in all of them. On a link with shares of 187, 62, 500 and 250 thousandths, without the
/// option host 0 receives half of three tins and all of one. With it the host has a quarter of a
/// share in each tin: a fifth of each of the three, next to a host whose single flow has a whole
/// share. Method: each host has its own destination.
#[test]
fn a_host_in_all_tins_divides_one_share_under_triple_isolate() {
    for (across, expected) in [(false, [531, 94, 250, 125]), (true, [250, 150, 400, 200])] {
        let builder = SmartQueue::upload(mbit(10)).tins(TinMode::Diffserv4);
        let builder = builder.hosts_across_tins(across).isolation(Isolation::TripleIsolate);
        let mut line = Line::new(builder.catch_up(Nanos::ZERO).descriptors().unwrap());
        let senders: Vec<Sender> =
            one_host_in_all_tins().into_iter().map(Sender::to_own_server).collect();
        line.flood(&senders, 10_000);
        for (share, part) in line.shares().iter().zip([187, 62, 500, 250]) {
            assert!(share.abs_diff(part) <= 4, "{across}: {:?}", line.shares());
        }
        let all = line.bytes(|_| true);
        let hosts: Vec<_> =
            (0..4).map(|host| line.bytes(|sender| sender.host == host) * 1_000 / all).collect();
        for (share, part) in hosts.iter().zip(expected) {
            assert!(share.abs_diff(part) <= 10, "{across}: {hosts:?}");
        }
        line.check();
    }
}

/// Goal: changes of the isolation mode under load lose nothing with several tins, and the tins keep
/// their shares. Method: repeated changes to `triple-isolate` and back.
#[test]
fn another_isolation_under_load_leaves_tins_their_shares() {
    let builder = SmartQueue::upload(mbit(10)).isolation(Isolation::TripleIsolate);
    let queue = builder.tins(TinMode::Diffserv4).catch_up(Nanos::ZERO).descriptors().unwrap();
    let mut line = Line::new(queue);
    for round in 0..20 {
        let modes = [Isolation::DualSrcHost, Isolation::TripleIsolate, Isolation::Flows];
        line.flood(&floods(), 500);
        let (queued, lost) = (line.queued.len(), line.dropped.values().sum::<u64>());
        line.set_isolation(modes[round % 3]);
        line.set_isolation(Isolation::TripleIsolate);
        assert_eq!((line.queued.len(), line.dropped.values().sum()), (queued, lost));
        line.check();
    }
    for (share, part) in line.shares().iter().zip([187, 62, 500, 250]) {
        assert!(share.abs_diff(part) <= 4, "{:?}", line.shares());
    }
}

/// Goal: one share across all tins can be enabled and disabled under load, together with changes of
/// tins and isolation: nothing is lost, the counters are correct after each change, and in the end
/// the shares are those of a queue that had the option from the start.
#[test]
fn one_share_is_set_under_load() {
    // Allocates the tables for this mode, too.
    let builder = SmartQueue::upload(mbit(10)).isolation(Isolation::TripleIsolate);
    let queue = builder.tins(TinMode::Diffserv4).catch_up(Nanos::ZERO).descriptors().unwrap();
    let mut line = Line::new(queue);
    let modes = [TinMode::Diffserv8, TinMode::BestEffort, TinMode::Diffserv3, TinMode::Diffserv4];
    let isolations = [
        Isolation::DualDstHost,
        Isolation::Flows,
        Isolation::TripleIsolate,
        Isolation::DualSrcHost,
        Isolation::TripleIsolate,
    ];
    for round in 0..60 {
        line.flood(&one_host_in_all_tins(), 100);
        let (queued, lost) = (line.queued.len(), line.dropped.values().sum::<u64>());
        line.queue.set_hosts_across_tins(round % 3 != 2);
        assert_eq!(line.queue.hosts_across_tins(), round % 3 != 2);
        line.check();
        line.set_tins(modes[round % 4].plan());
        line.check();
        line.set_isolation(isolations[round % 5]);
        line.check();
        assert_eq!((line.queued.len(), line.dropped.values().sum()), (queued, lost));
    }
    line.set_tins(TinMode::Diffserv4.plan());
    line.set_isolation(Isolation::DualSrcHost);
    line.queue.set_hosts_across_tins(true);
    while let Some(at) = line.queue.poll_at(line.now) {
        line.now = at.max(line.now);
        line.send();
    }
    assert!(line.queued.is_empty(), "all have come out");
    line.sent.clear();
    line.flood(&one_host_in_all_tins(), 10_000);
    let all = line.bytes(|_| true);
    let hosts: Vec<_> =
        (0..4).map(|host| line.bytes(|sender| sender.host == host) * 1_000 / all).collect();
    for (share, part) in hosts.iter().zip([317_u64, 160, 307, 214]) {
        assert!(share.abs_diff(part) <= 10, "{hosts:?}");
    }
    line.check();
}

/// Goal: voice loses nothing during floods of twelve hosts in each other tin, and waits for a
/// packet or two; without tins it shares with all hosts.
#[test]
fn voice_loses_nothing_beside_floods_in_other_tins() {
    let mut line = Line::new(diffserv4(mbit(2)));
    let floods: Vec<Sender> = (0..3)
        .flat_map(|tin| (0..12).map(move |host| Sender { tin, host, flow: 0, server: 0 }))
        .collect();
    let tin = line.queue.tins().of_dscp(Dscp::EF);
    let voice = Sender { tin, host: 77, flow: 0, server: 0 };
    let packets = 200;
    for _ in 0..packets {
        line.put(voice, 200);
        line.flood(&floods, 20);
    }
    line.flood(&floods, 20);
    assert_eq!(line.bytes(|sender| *sender == voice), packets * 200);
    assert_eq!(line.dropped.get(&voice), None);
    // A packet of 1,000 bytes takes 4 ms.
    assert!(line.longest_wait[&tin] <= Nanos::from_millis(8), "{:?}", line.longest_wait);
    let counted = line.queue.tin_counters(tin).expect("there is such a tin").counters;
    assert_eq!((counted.delivered.packets, counted.dropped_total().packets), (packets, 0));
    line.check();
}

/// Goal: changes of the number and names of tins under load lose no packet; all leave, the counters
/// are correct, and the configured tins can be read back.
#[test]
fn other_tins_under_load_lose_nothing() {
    for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate] {
        check_other_tins_under(isolation);
    }
}

fn check_other_tins_under(isolation: Isolation) {
    let builder = SmartQueue::upload(mbit(10)).tins(TinMode::Diffserv4).isolation(isolation);
    let mut line = Line::new(builder.catch_up(Nanos::ZERO).descriptors().expect("in range"));
    let plans = [
        TinMode::Diffserv3,
        TinMode::Diffserv8,
        TinMode::BestEffort,
        TinMode::Precedence,
        TinMode::Diffserv4,
    ];
    for mode in plans {
        line.flood(&floods(), 100);
        let (queued, lost) = (line.queued.len(), line.dropped.values().sum::<u64>());
        let named = |queue: &DescriptorQueue, name: &str| {
            let tin = (0..8)
                .find(|&tin| queue.tins().tin(tin).is_some_and(|tin| tin.name().as_str() == name));
            tin.and_then(|tin| queue.tin_counters(tin)).map(|tin| tin.backlog.packets)
        };
        let voice = named(&line.queue, "voice");
        line.set_tins(mode.plan());
        if let (Some(before), Some(after)) = (voice, named(&line.queue, "voice")) {
            assert_eq!(before, after, "voice stays voice");
        }
        assert_eq!(*line.queue.tins(), mode.plan());
        assert_eq!((line.queued.len(), line.dropped.values().sum()), (queued, lost));
        line.check();
        line.flood(&floods(), 100);
        line.check();
    }
    while let Some(at) = line.queue.poll_at(line.now) {
        line.now = at;
        line.send();
    }
    assert!(line.queued.is_empty(), "all have come out");
    line.check();
}

/// Returns the counters of each tin by its name.
fn counters_by_name(queue: &DescriptorQueue) -> BTreeMap<String, Counters> {
    let counters = |tin| queue.tin_counters(tin).expect("there is such a tin").counters;
    let tins = (0..).zip(queue.tins().tins());
    tins.map(|(at, tin)| (tin.name().to_string(), counters(at))).collect()
}

/// Goal: counters follow the name of a tin to its number in another plan, and those of a removed
/// name go to the default tin; nothing is counted twice or lost. Method: floods with losses under
/// several plans in turn; in the last ones the default tin is not the lowest.
#[test]
fn counters_follow_the_name_of_a_tin() {
    let own = "tin bulk tin video share 1/4 tin best-effort share 1/2 default-tin best-effort";
    let own = QueueSettings::from_words(own).unwrap().tins.expect("it names tins");
    let plans = [
        TinMode::Diffserv3.plan(),
        TinMode::Diffserv4.plan(),
        TinMode::BestEffort.plan(),
        own,
        TinMode::Precedence.plan(),
        own,
    ];
    for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate] {
        let builder =
            SmartQueue::upload(mbit(10)).tins(TinMode::Diffserv4).isolation(isolation).buffers(32);
        let mut line = Line::new(builder.catch_up(Nanos::ZERO).descriptors().expect("in range"));
        for plan in plans {
            line.flood(&floods(), 200);
            let lost: u64 = line.dropped.values().sum();
            assert!(lost > 0, "a pool of 32 packets is full");
            let before = counters_by_name(&line.queue);
            line.set_tins(plan);
            let after = counters_by_name(&line.queue);
            let default = plan.tin(plan.default_tin()).expect("it is there").name().to_string();
            for (name, counters) in &after {
                let came =
                    |of: &&String| *of == name || *name == default && !after.contains_key(*of);
                let moved = before.iter().filter(|(of, _)| came(of)).map(|(_, counters)| counters);
                let moved = moved.fold(Counters::default(), |sum, counters| sum.plus(counters));
                assert_eq!(*counters, moved, "{name} of {plan}, {isolation}");
            }
            line.check();
        }
        line.flood(&floods(), 200);
        line.check();
    }
}

/// Goal: the shares of all tins follow the rate at once, and on an unlimited link they go by
/// weight.
#[test]
fn shares_follow_the_rate() {
    let mut line = Line::new(diffserv4(mbit(100)));
    line.flood(&floods(), 200);
    for rate in [mbit(4), Rate::STOPPED, mbit(10)] {
        line.queue.set_rate(line.now, rate);
        if rate == Rate::STOPPED {
            assert_eq!(line.queue.poll_at(line.now), None);
            continue;
        }
        line.sent.clear();
        line.flood(&floods(), effort(5_000, 8_000));
        let shares = line.shares();
        for (share, part) in shares.iter().zip([187, 62, 500, 250]) {
            assert!(share.abs_diff(part) <= 8, "{rate:?}: {shares:?}");
        }
        line.check();
    }
    line.queue.set_rate(line.now, Rate::UNLIMITED);
    let weights = |tin| line.queue.isolated().tin(tin).map(|tin| (tin.bits_per_second, tin.weight));
    assert_eq!([0, 1, 2, 3].map(weights), [1_024, 64, 512, 256].map(|weight| Some((None, weight))));
}

/// Goal: each tin has an AQM for its part of the rate, also after the rate has changed.
#[test]
fn each_tin_has_an_aqm_for_its_part_of_the_rate() {
    let mut queue = diffserv4(mbit(100));
    for rate in [mbit(1), mbit(20)] {
        queue.set_rate(Nanos(0), rate);
        for tin in 0..4 {
            let part = queue.tins().rate(tin, rate);
            let expected = AqmChoice::Cobalt(queue.rtt().cobalt(part, 1_522));
            assert_eq!(queue.isolated().aqm().choice_in(tin), Some(expected));
            let l4s = queue.isolated().aqm().l4s_in(tin);
            assert_eq!(l4s, Some(queue.rtt().l4s(part, 1_522)));
        }
    }
}

/// Goal: `triple-isolate` accepts as many tins as it has rounds for, and the error names the
/// required number. Method: 8 tins need 16 rounds.
#[test]
fn tins_under_triple_isolate_need_two_rounds_each() {
    let shares = [TinConfig::by_weight(1); 8];
    let set = |rounds, isolation, tins: &[TinConfig]| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 8, 64).with_triple(rounds);
        let config = IsolatedConfig::new(1_500, Limits::NONE);
        let mut queue = Isolated::new(memory, config).expect("powers of two");
        let labels_of = |_| -> Labels { panic!("nothing is queued") };
        let result = queue.rebuild(isolation, Some(tins), labels_of);
        assert_eq!(usize::from(queue.tins()), if result.is_ok() { tins.len() } else { 1 });
        result
    };
    let refused = IsolatedError::Memory { what: "rounds", given: 15, needed: 16 };
    assert_eq!(set(15, Isolation::TripleIsolate, &shares), Err(refused));
    assert_eq!(set(15, Isolation::TripleIsolate, &shares[..7]), Ok(()));
    assert_eq!(set(15, Isolation::Flows, &shares), Ok(()));
    assert_eq!(set(16, Isolation::TripleIsolate, &shares), Ok(()));
}

/// Goal: the keywords of a plan take effect in the running queue, and a frame of every code point
/// goes to the tin of the plan.
#[test]
fn a_frame_goes_to_the_tin_of_its_code_point() {
    for words in ["besteffort", "precedence", "diffserv3", "diffserv4 map NQB voice", "diffserv8"] {
        let plan = QueueSettings::from_words(words).unwrap().tins.expect("it names tins");
        let builder = SmartQueue::upload(mbit(10)).tins(plan).raw_ip();
        let mut queue = builder.frames([42; 16]).expect("it is in range");
        assert_eq!(queue.tins().to_string(), words);
        for dscp in Dscp::all() {
            let tos = dscp.get() << 2;
            let frame = [0x45, tos, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let held = |queue: &freeboard::FrameQueue, tin| {
                queue.tin_counters(tin).map_or(0, |tin| tin.backlog.packets)
            };
            let tin = plan.of_dscp(dscp);
            let before = held(&queue, tin);
            queue.push(Nanos(0), &frame).expect("there is room");
            assert_eq!(held(&queue, tin), before + 1, "{dscp} of {words}");
            // A mark takes precedence over the code point.
            let marked = plan.shown()[0];
            let before = held(&queue, marked);
            queue.push_marked(Nanos(0), 1, &frame).expect("there is room");
            assert_eq!(held(&queue, marked), before + 1, "{dscp} of {words}");
        }
        queue.recount().expect("the counters are right");
    }
}

/// Goal: the tin is selected by the configured header from the next frame on; a mark with the
/// configured bits takes precedence. Method: a frame with priority 1 in its tag, AF41 in its IP
/// header and EF in the inner one; and one without a tag and without a tunnel.
#[test]
fn a_tin_is_named_by_the_header_that_was_asked_for() {
    let ip = |dscp: u8, protocol: u8, len: u8| {
        let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        [&[0x45, dscp << 2, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0][..], &src, &dst].concat()
    };
    let link = [0; 12];
    let tunnel =
        [&link[..], &[0x81, 0, 1 << 5, 7, 0x08, 0], &ip(34, 4, 48), &ip(46, 17, 28), &[0; 8]];
    let plain = [&link[..], &[0x08, 0], &ip(8, 17, 28), &[0; 8]];
    let [tunnel, plain] = [tunnel.concat(), plain.concat()];
    let builder = SmartQueue::upload(Rate::UNLIMITED).tins(TinMode::Diffserv4);
    let mut queue = builder.fwmark(Fwmark::new(0xf0)).frames([42; 16]).unwrap();
    let names = ["best-effort", "bulk", "video", "voice"];
    let tin_of = |queue: &mut FrameQueue, mark, frame: &[u8]| {
        queue.push_marked(Nanos(0), mark, frame).unwrap();
        let is_there = |&tin: &u8| queue.tin_counters(tin).unwrap().backlog.packets == 1;
        let tin = (0..4).find(is_there).unwrap();
        assert!(queue.pop(Nanos(0)).is_some());
        names[usize::from(tin)]
    };
    for (by, of_tunnel) in
        [(TinBy::Dscp, "video"), (TinBy::InnerDscp, "voice"), (TinBy::Priority, "bulk")]
    {
        queue.set_tin_by(by);
        assert_eq!(queue.tin_by(), by);
        // A mark with other bits is ignored.
        let found = [0, 0x0f, 0x1_00, 0x20].map(|mark| tin_of(&mut queue, mark, &tunnel));
        assert_eq!(found, [of_tunnel, of_tunnel, of_tunnel, "best-effort"], "{by}");
        assert_eq!(tin_of(&mut queue, 0, &plain), "bulk", "{by}");
    }
    queue.set_fwmark(Fwmark::NONE);
    assert_eq!(tin_of(&mut queue, 0x20, &plain), "bulk");
    queue.set_fwmark(Fwmark::ALL);
    assert_eq!([0x20, 3].map(|mark| tin_of(&mut queue, mark, &plain)), ["bulk", "video"]);
}
