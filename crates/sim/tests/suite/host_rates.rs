//! Rates and ceilings of hosts, with TCP and with random sequences of operations.

use core::net::{Ipv4Addr, SocketAddrV4};

use conformance::effort::effort;
use conformance::rng::Streams;
use freeboard::flowhash::{self, mix};
use freeboard::sched_core::{
    Backlog, CoDel, CoDelParams, CoDelState, DropSink, FlowId, Limits, Nanos, Packet, Rejected,
    Scheduler, TokenBucket,
};
use freeboard::shaper::{Framing, Overhead, Rate, Shaped, Shaper};
use freeboard::{
    Heap, HostTerms, Isolated, IsolatedConfig, IsolatedMemory, Labelled, LabelledScheduler,
};
use proptest::prelude::*;
use sim::app::{BulkReceiver, BulkSender};
use sim::discipline::{Bottleneck, Discipline};
use sim::host::{Buffers, Host};
use sim::link::Link;
use sim::measure::goodput::Goodput;
use sim::network::{Application, Network, Side};

const HOSTS: usize = 2;
/// Number of flows of each host.
const FLOWS: u32 = 4;
const MTU: u32 = 1_500;
const LIMITS: Limits = Limits { packets: 4_096, bytes: 600_000 };
const WINDOW: Buffers = Buffers { send: 1 << 18, receive: 1 << 18 };
const WARM_UP: Nanos = Nanos::from_secs(5);
const END: Nanos = Nanos::from_secs(35);

enum App {
    Sender(BulkSender),
    Receiver(BulkReceiver),
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        match self {
            Self::Sender(app) => app.act(now, host),
            Self::Receiver(app) => app.act(now, host),
        }
    }
}

/// The third byte of an address is the host number, the fourth the flow number.
fn flow_of(packet: &[u8]) -> FlowId {
    FlowId(u32::from(packet[14]) * FLOWS + u32::from(packet[15]))
}

type Queue = Isolated<Heap, CoDel<Vec<CoDelState>>>;

/// A queue in which a number identifies flow and host; host 0 has a rate and a ceiling, or none.
struct Numbered {
    queue: Shaped<Queue>,
    rate: Option<TokenBucket>,
    ceiling: Option<TokenBucket>,
}

impl Numbered {
    fn behind(line: Shaper, rate: Option<TokenBucket>, ceiling: Option<TokenBucket>) -> Self {
        let packets = LIMITS.packets as usize + 1;
        let memory = IsolatedMemory::<Heap>::allocate(16, 8, 1, packets).with_rates();
        let codel =
            CoDel::new(vec![CoDelState::EMPTY; memory.queues()], CoDelParams::INTERNET).unwrap();
        let queue = Isolated::with_aqm(memory, codel, IsolatedConfig::new(MTU, LIMITS)).unwrap();
        Self { queue: Shaped::new(queue, line, Overhead::RAW), rate, ceiling }
    }
}

impl Scheduler for Numbered {
    fn enqueue(
        &mut self,
        now: Nanos,
        FlowId(number): FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let (host, flow) = (number / FLOWS, number % FLOWS);
        let (rate, ceiling) = if host == 0 { (self.rate, self.ceiling) } else { (None, None) };
        let of = Of { host, flow, rate, ceiling };
        self.queue.enqueue_labelled(now, &of, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }

    conformance::forward_all_but_packets!(queue);
}

impl Bottleneck for Numbered {
    fn line(&self) -> &Shaper {
        self.queue.line()
    }

    fn overhead(&self) -> Overhead {
        self.queue.overhead()
    }

    fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.queue.set_rate(now, rate);
    }

    fn lookups(&self) -> Option<flowhash::Counts> {
        None
    }

    fn flow_backlog(&self, _flow: FlowId) -> Option<Backlog> {
        None
    }
}

/// Returns Mbit/s on the wire of each host, with `flows` TCP transfers each through a link of
/// `line` Mbit/s.
fn megabits(
    (rate, ceiling): (Option<TokenBucket>, Option<TokenBucket>),
    line: u64,
    flows: [u32; HOSTS],
    seed: u64,
) -> [f64; HOSTS] {
    let shaper = |mbit| Shaper::new(Rate::megabits_per_second(mbit).unwrap());
    let up = Box::new(Numbered::behind(shaper(line), rate, ceiling));
    let down = Discipline::Fifo.behind(shaper(1_000), Overhead::RAW, LIMITS, MTU);
    let link = |queue| Link::new(queue, LIMITS.packets + 1, [0; 16], Nanos::from_millis(10));
    let mut network = Network::new(link(up).naming(flow_of), link(down));
    let streams = Streams::new(seed);
    for (host, count) in (0..).zip(flows) {
        for flow in 0..count as u8 {
            let [here, there] = [1, 2].map(|side| Ipv4Addr::new(10, side, host, flow));
            let name = |what: &str| streams.stream(&format!("{what} {host} {flow}"));
            let start = Nanos(name("start").below(1_000_000_000));
            let sender = BulkSender::new(SocketAddrV4::new(there, 80), start, WINDOW);
            let sends = Host::new(here, name("sender").bits());
            network.add(Side::Home, sends, App::Sender(sender));
            let receiver = BulkReceiver::new(80, WINDOW, Goodput::over(WARM_UP, END));
            let receives = Host::new(there, name("receiver").bits());
            network.add(Side::Internet, receives, App::Receiver(receiver));
        }
    }
    let mut carried = [0_u64; HOSTS];
    network.run_until(END, &mut |now, packet| {
        // Packets of the senders, not acknowledgements
        if now >= WARM_UP && packet[13] == 1 {
            carried[usize::from(packet[14])] += packet.len() as u64;
        }
    });
    network.recount().unwrap();
    carried.map(|bytes| bytes as f64 * 8e-6 / END.since(WARM_UP).0 as f64 * 1e9)
}

/// A rate with a burst of 100 ms.
fn rate(kbit: u64) -> TokenBucket {
    TokenBucket::new(kbit * 1_000, 3_000.max((kbit * 1_000 / 80) as u32)).unwrap()
}

/// A ceiling with a burst of 20 ms.
fn ceiling(kbit: u64) -> TokenBucket {
    TokenBucket::new(kbit * 1_000, 3_000.max((kbit * 1_000 / 400) as u32)).unwrap()
}

/// Goal: beside busy TCP flows under CoDel, a host with a TCP flow gets its rate if borrowing is
/// charged, and more if it is free. Method: rates of 3 Mbit/s, and 4 with full effort, on 10
/// Mbit/s, round trip 20 ms, beside two flows, which seldom pause, and beside one, which often
/// does. Results for lower rates are printed: there TCP sometimes has less than its rate.
#[test]
fn beside_tcp_under_an_aqm_a_charged_host_has_its_rate() {
    for &kbit in effort(&[2_000, 3_000][..], &[1_000, 2_000, 3_000, 4_000]) {
        for rivals in [2, 1] {
            let of_rate =
                |rate| megabits((Some(rate), None), 10, [1, rivals], 1)[0] * 1e3 / kbit as f64;
            let charged = of_rate(rate(kbit));
            let free = of_rate(rate(kbit).with_free_borrowing());
            println!("{kbit} kbit/s beside {rivals}: charged {charged:.3}, free {free:.3}");
            assert!(charged < free, "{charged} {free}");
            if kbit >= 3_000 {
                assert!((0.98..1.02).contains(&charged), "{charged}");
                assert!(rivals == 2 || free > 1.1, "{free}");
            }
        }
    }
}

/// Goal: alone on an idle link a host gets 0.98 of its ceiling and never more, with one flow and
/// with four. If one TCP flow does not fill a link of that rate under an equal AQM, the host gets
/// what the flow gets there.
#[test]
fn alone_on_an_idle_line_a_host_has_its_ceiling() {
    for kbit in [500, 1_000, 2_000, 5_000, 20_000] {
        for flows in [1, 4] {
            let of_ceiling =
                |terms, line| megabits(terms, line, [flows, 0], 2)[0] * 1e3 / kbit as f64;
            let below = of_ceiling((None, Some(ceiling(kbit))), 50);
            let alone = if kbit == 20_000 { of_ceiling((None, None), 20) } else { 1.0 };
            println!("{kbit} kbit/s, {flows} flows: {below:.3}, wanted {:.3}", 0.98_f64.min(alone));
            assert!((0.98_f64.min(alone)..=1.001).contains(&below), "{below}");
        }
    }
}

/// Goal: a host with a rate and a ceiling gets at least the rate and at most the ceiling, and a
/// host beside it gets the rest.
#[test]
fn beside_another_a_host_has_its_rate_and_less_than_its_ceiling() {
    let both = megabits((Some(rate(1_000)), Some(ceiling(2_000))), 50, [4, 4], 3);
    println!("rate 1, ceiling 2, beside another: {both:.3?}");
    assert!(both[0] <= 2.002 && both[0] >= 0.98 && both[1] > 46.0, "{both:?}");
}

/// A packet of one of four flows of one of three hosts.
#[derive(Clone, Copy, Debug)]
struct Of {
    host: u32,
    flow: u32,
    rate: Option<TokenBucket>,
    ceiling: Option<TokenBucket>,
}

impl Labelled for Of {
    fn flow(&self) -> u32 {
        mix(self.host * 4 + self.flow)
    }

    fn source(&self) -> u32 {
        mix(100 + self.host)
    }

    fn destination(&self) -> u32 {
        0
    }

    fn host_terms(&self) -> HostTerms {
        HostTerms { quantum: None, committed_rate: self.rate, ceiling: self.ceiling }
    }
}

/// Without an AQM, and so not a [`SmartQueue`](freeboard::SmartQueue): only the ceilings determine
/// departures.
type Limited = Isolated<Heap>;

fn limited(link: Overhead) -> Limited {
    let memory = IsolatedMemory::<Heap>::allocate(16, 8, 1, 256).with_rates();
    let mut queue = Isolated::new(memory, IsolatedConfig::new(MTU, Limits::packets(200))).unwrap();
    queue.set_overhead(link);
    queue
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Goal: no interval has more than `ceiling·t + burst` bytes of a host on the wire, for any
    /// arrivals. Method: arrivals of random hosts and lengths at random times, by a caller that is
    /// sometimes late, over links with and without cells; every interval.
    #[test]
    fn no_interval_has_more_than_ceiling_and_burst(
        arrivals in prop::collection::vec((0_u32..3, 0_u32..4, 1_u32..=MTU, 0_u64..3_000_000), 1..250),
        kbit in prop::collection::vec((200_u64..20_000, 1_u32..20_000), 2),
        late in prop::collection::vec(0_u64..400_000, 8),
        atm in any::<bool>(),
    ) {
        let link = if atm { Overhead::new(Framing::Atm, 32, 0).unwrap() } else { Overhead::RAW };
        let longest = link.wire_len(MTU);
        let ceilings: Vec<_> = kbit.iter()
            .map(|&(kbit, burst)| TokenBucket::new(kbit * 1_000, burst.max(longest)).unwrap())
            .collect();
        let mut queue = limited(link);
        let mut sent: Vec<(u64, u32, u32)> = Vec::new();
        let (mut now, mut free, mut owner) = (0_u64, (0..256).collect::<Vec<u32>>(), [0; 256]);
        let mut late = late.iter().cycle();
        let mut take = |queue: &mut Limited, now, free: &mut Vec<u32>, owner: &[u32; 256]| {
            while let Some(packet) = queue.dequeue(Nanos(now), &mut |packet: Packet, _| free.push(packet.handle)) {
                sent.push((now, owner[packet.handle as usize], link.wire_len(packet.len)));
                free.push(packet.handle);
            }
        };
        for (host, flow, len, gap) in arrivals {
            let next = now + gap;
            while let Some(at) = queue.poll_at(Nanos(now)).filter(|at| at.0 < next) {
                prop_assert!(at.0 >= now);
                now = (at.0 + late.next().unwrap()).min(next).max(at.0);
                let before = queue.backlog().packets;
                take(&mut queue, now, &mut free, &owner);
                prop_assert!(queue.backlog().packets < before, "nothing left at {now}, after poll_at");
            }
            now = next.max(now);
            let of = Of { host, flow, rate: None, ceiling: ceilings.get(host as usize).copied() };
            let Some(handle) = free.pop() else { continue };
            owner[handle as usize] = host;
            let mut back = Vec::new();
            let packet = Packet::new(handle, len);
            let result = queue.enqueue_labelled(Nanos(now), &of, packet, &mut |packet: Packet, _| back.push(packet.handle));
            if result.is_err() {
                back.push(handle);
            }
            free.extend(back);
            queue.recount().unwrap();
        }
        for (host, ceiling) in (0..).zip(&ceilings) {
            let own: Vec<_> = sent.iter().filter(|&&(_, of, _)| of == host).collect();
            for (first, &&(from, ..)) in own.iter().enumerate() {
                let mut bytes = 0;
                for &&(until, _, len) in &own[first..] {
                    bytes += u128::from(len);
                    let time = u128::from(until - from) * u128::from(ceiling.bits_per_second());
                    let most = time + u128::from(ceiling.burst()) * 8_000_000_000;
                    prop_assert!(bytes * 8_000_000_000 <= most, "{} bytes of {host} in {from}..{until}", bytes);
                }
            }
        }
    }
}

/// Goal: a new ceiling takes effect at once for a backlogged host, and so does its removal.
#[test]
fn a_host_that_stays_backlogged_is_updated_at_once() {
    let mut queue = limited(Overhead::RAW);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let of = |ceiling| Of { host: 0, flow: 0, rate: None, ceiling };
    for handle in 0..150 {
        queue.enqueue_labelled(Nanos(0), &of(None), Packet::new(handle, MTU), drops).unwrap();
    }
    let now = Nanos::from_secs(1);
    assert!(queue.dequeue(now, drops).is_some());
    assert!(queue.update_host(now, &of(Some(TokenBucket::new(1_000_000, MTU).unwrap()))));
    assert!(queue.dequeue(now, drops).is_some(), "the first ceiling has a full bucket");
    assert_eq!((queue.dequeue(now, drops), queue.peek(now)), (None, None));
    let next = now.plus(Nanos::from_millis(12));
    assert_eq!(queue.poll_at(now), Some(next));
    assert!(queue.peek(next).is_some());
    // Ten times the rate: the debt is paid ten times as fast.
    assert!(queue.update_host(now, &of(Some(TokenBucket::new(10_000_000, MTU).unwrap()))));
    assert_eq!(queue.poll_at(now), Some(now.plus(Nanos(1_200_000))));
    assert!(queue.update_host(now, &of(None)));
    let sent = (0..20).filter(|_| queue.dequeue(now, drops).is_some());
    assert_eq!(sent.count(), 20);
    assert!(
        !queue.update_host(now, &Of { host: 1, flow: 0, rate: None, ceiling: None }),
        "not backlogged"
    );
    queue.recount().unwrap();
}
