//! The fluid server compared with manually computed examples and proven properties, and WF²Q+
//! compared with it and with the order in exact arithmetic.

use std::collections::VecDeque;

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::twin::{BigRational, ExactWf2q, Gps};
use freeboard::sched_core::{FlowId, FlowScheduler, Wf2q, Wf2qConfig, Wf2qFlow};

/// A packet that arrives at `flow` at time `at`, in bytes of the link.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    flow: usize,
    len: u32,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Number of the arrival.
    number: usize,
    started: u64,
    ended: u64,
}

/// Sends one byte per unit of time. `select` receives the time and the queues of arrivals; the
/// server is informed of each arrival at an idle flow and of each packet sent.
fn transmit(flows: usize, arrivals: &[Arrival], server: &mut dyn Server) -> Vec<Sent> {
    let mut queues = vec![VecDeque::new(); flows];
    let (mut sent, mut now) = (Vec::new(), 0);
    let mut coming = arrivals.iter().enumerate().peekable();
    loop {
        while let Some((number, arrival)) = coming.next_if(|(_, arrival)| arrival.at <= now) {
            let queue: &mut VecDeque<usize> = &mut queues[arrival.flow];
            queue.push_back(number);
            if queue.len() == 1 {
                server.backlogged(arrival.flow, arrival.len);
            }
        }
        let Some(flow) = server.select(&queues) else {
            let Some((_, next)) = coming.peek() else { return sent };
            now = next.at;
            continue;
        };
        let number = queues[flow].pop_front().expect("a selected flow holds packets");
        let len = arrivals[number].len;
        let next = queues[flow].front().map(|&next| arrivals[next].len);
        server.served(flow, len, next);
        sent.push(Sent { number, started: now, ended: now + u64::from(len) });
        now += u64::from(len);
    }
}

trait Server {
    fn backlogged(&mut self, _flow: usize, _len: u32) {}
    fn served(&mut self, _flow: usize, _len: u32, _next: Option<u32>) {}
    fn select(&self, queues: &[VecDeque<usize>]) -> Option<usize>;
}

/// Selects the packet that leaves the fluid server first.
struct Wfq(Vec<BigRational>);

impl Server for Wfq {
    fn select(&self, queues: &[VecDeque<usize>]) -> Option<usize> {
        let heads = (0..queues.len()).filter_map(|flow| Some((flow, *queues[flow].front()?)));
        heads.min_by_key(|&(_, head)| &self.0[head]).map(|(flow, _)| flow)
    }
}

impl Server for ExactWf2q {
    fn backlogged(&mut self, flow: usize, len: u32) {
        self.backlogged(flow, len);
    }

    fn served(&mut self, flow: usize, len: u32, next: Option<u32>) {
        self.served(flow, len, next);
    }

    fn select(&self, _queues: &[VecDeque<usize>]) -> Option<usize> {
        self.select()
    }
}

impl Server for Wf2q<Vec<Wf2qFlow>> {
    fn backlogged(&mut self, flow: usize, len: u32) {
        FlowScheduler::backlogged(self, FlowId(flow as u32), len);
    }

    fn served(&mut self, flow: usize, len: u32, next: Option<u32>) {
        FlowScheduler::served(self, FlowId(flow as u32), len, next);
    }

    fn select(&self, _queues: &[VecDeque<usize>]) -> Option<usize> {
        FlowScheduler::select(self).map(FlowId::index)
    }
}

fn wf2q(weights: &[u32]) -> Wf2q<Vec<Wf2qFlow>> {
    let mut scheduler = Wf2q::new(vec![Wf2qFlow::EMPTY; weights.len()], 65_535).unwrap();
    for (flow, &weight) in (0..).map(FlowId).zip(weights) {
        scheduler.configure(flow, Wf2qConfig { weight, max_len: 65_535 }, None).unwrap();
    }
    scheduler
}

fn ratio(numerator: u64, denominator: u64) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// Returns the time at which each arrival leaves the fluid server.
fn fluid(weights: &[u32], arrivals: &[Arrival]) -> Vec<BigRational> {
    let mut gps = Gps::new(weights);
    for arrival in arrivals {
        gps.advance(arrival.at);
        gps.arrive(arrival.flow, arrival.len);
    }
    gps.drain();
    (0..arrivals.len()).map(|packet| gps.departure(packet).unwrap().clone()).collect()
}

fn packets(list: &[(u64, usize, u32)]) -> Vec<Arrival> {
    list.iter().map(|&(at, flow, len)| Arrival { at, flow, len }).collect()
}

/// Computed manually: a flow that is alone gets the whole link, otherwise its share.
#[test]
fn the_fluid_server_serves_in_the_ratio_of_the_weights_of_backlogged_flows() {
    // Two halves.
    let halves = fluid(&[1, 1], &packets(&[(0, 0, 4), (0, 1, 4)]));
    assert_eq!(halves, [ratio(8, 1), ratio(8, 1)]);
    // Flow 0 is alone until 2, has half until 6, and is alone again.
    let alone = fluid(&[1, 1], &packets(&[(0, 0, 8), (2, 1, 2)]));
    assert_eq!(alone, [ratio(10, 1), ratio(6, 1)]);
    // Rates 1/6, 1/3, 1/2 until 2; then 1/3, 2/3 until 5/2; then 1.
    let three = fluid(&[1, 2, 3], &packets(&[(0, 0, 1), (0, 1, 1), (0, 2, 1)]));
    assert_eq!(three, [ratio(3, 1), ratio(5, 2), ratio(2, 1)]);
    // The second packet of a flow waits for the first; a pause in between.
    let pause = fluid(&[5, 7], &packets(&[(0, 0, 3), (1, 0, 3), (10, 1, 2), (11, 0, 7)]));
    // At 11 flow 1 has 1 left, at 7/12 until 11 + 12/7; flow 0 then has 7 - 5/7 left.
    assert_eq!(pause, [ratio(3, 1), ratio(6, 1), ratio(89, 7), ratio(19, 1)]);
}

/// The example of Bennett and Zhang, Fig. 1 of 1996: half of the link for eleven packets, a
/// twentieth for one packet of each of ten flows.
#[test]
fn the_fluid_server_and_wfq_and_wf2q_plus_on_the_example_of_their_authors() {
    let mut list = vec![(0, 0, 1); 11];
    list.extend((1..=10).map(|flow| (0, flow, 1)));
    let weights = [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let arrivals = packets(&list);
    let departures = fluid(&weights, &arrivals);
    let first: Vec<_> = (1..=10).map(|k| ratio(2 * k, 1)).chain([ratio(21, 1)]).collect();
    assert_eq!(departures[..11], first);
    assert!(departures[11..].iter().all(|at| *at == ratio(20, 1)));
    let order = |server: &mut dyn Server| {
        let sent = transmit(11, &arrivals, server);
        sent.iter().map(|sent| arrivals[sent.number].flow).collect::<Vec<_>>()
    };
    assert_eq!(order(&mut Wfq(departures))[..10], [0; 10], "a burst of half a round");
    let alternating = (1..=9).flat_map(|light| [0, light]).chain([10, 0, 0]);
    assert_eq!(order(&mut wf2q(&weights)), alternating.collect::<Vec<_>>());
}

/// Returns on–off arrivals: bursts of packets of any length to some of the flows, then a pause.
fn random_arrivals(random: &mut Xorshift, flows: u32, longest: u32, count: usize) -> Vec<Arrival> {
    let (mut list, mut at) = (Vec::new(), 0);
    let busy = 1 + random.below(4);
    while list.len() < count {
        for _ in 0..random.below(5) {
            let len = if random.below(2) == 0 { longest } else { 1 + random.below(longest) };
            list.push(Arrival { at, flow: random.below(flows) as usize, len });
        }
        at += u64::from(random.below(longest * busy));
    }
    list
}

/// Goal: the fluid server conserves work, and no packet leaves WFQ more than one packet later than
/// the fluid server (Parekh and Gallager 1993, Theorem 1).
#[test]
fn no_packet_leaves_wfq_more_than_one_packet_after_the_fluid_server() {
    let mut worst = ratio(0, 1);
    for seed in 0..150 {
        let mut random = Xorshift::new(seed);
        let flows = 2 + random.below(4);
        let weights: Vec<_> = (0..flows).map(|_| 1 + random.below(9)).collect();
        let longest = 10 + random.below(100);
        let arrivals = random_arrivals(&mut random, flows, longest, 60);
        let departures = fluid(&weights, &arrivals);
        let sent = transmit(weights.len(), &arrivals, &mut Wfq(departures.clone()));
        let whole: Vec<_> = sent.iter().map(|sent| ratio(sent.ended, 1)).collect();
        // Both are work-conserving, so they are idle at the same times.
        assert_eq!(departures.iter().max(), whole.iter().max());
        for (sent, ended) in sent.iter().zip(&whole) {
            let late = (ended - &departures[sent.number]) / ratio(longest.into(), 1);
            assert!(late <= ratio(1, 1), "{seed}: {sent:?} {late}");
            worst = worst.max(late);
        }
    }
    assert!(worst > ratio(4, 5), "{worst}");
}

/// Goal: while all flows stay backlogged, no flow is ahead of the fluid server by more than its own
/// packet less its share of this packet, and no packet is later than in the fluid server by more
/// than one packet of the link. Method: enqueue more at time 0 than is sent; check at the end of
/// every packet.
///
/// Ahead: a packet starts at `S ≤ V`, the bytes sent, of which `φV` belong to the flow in the fluid
/// server, so the flow may be ahead by `(1 − φ)l`. Late: `docs/disciplines/wf2q.md`, with nothing
/// on the wire at time 0.
#[test]
fn wf2q_plus_stays_beside_the_fluid_server_while_all_flows_are_backlogged() {
    let (mut latest, mut furthest) = (0.0_f64, 0.0_f64);
    for seed in 0..effort(6, 60) {
        let mut random = Xorshift::new(seed);
        let flows = 2 + random.below(7);
        let weights: Vec<_> = (0..flows).map(|_| 1 + random.below(9)).collect();
        let sum: u32 = weights.iter().sum();
        let longest = 1 + random.below(1_500);
        let end = u64::from(longest) * 100;
        let mut arrivals = Vec::new();
        let mut own_longest = Vec::new();
        for (flow, &weight) in weights.iter().enumerate() {
            let own = 1 + random.below(longest);
            own_longest.push(own);
            let enough = end * u64::from(weight) / u64::from(sum) + 4 * u64::from(longest);
            let mut queued = 0;
            while queued < enough {
                let len = if random.below(2) == 0 { own } else { 1 + random.below(own) };
                queued += u64::from(len);
                arrivals.push(Arrival { at: 0, flow, len });
            }
        }
        let departures = fluid(&weights, &arrivals);
        let mut gps = Gps::new(&weights);
        for arrival in &arrivals {
            gps.arrive(arrival.flow, arrival.len);
        }
        let mut served = vec![0; weights.len()];
        let mut exact = ExactWf2q::new(&weights).unwrap();
        for sent in transmit(weights.len(), &arrivals, &mut exact) {
            if sent.ended > end {
                break;
            }
            let Arrival { flow, len, .. } = arrivals[sent.number];
            served[flow] += u64::from(len);
            let late = ratio(sent.ended, 1) - &departures[sent.number];
            assert!(late <= ratio(longest.into(), 1), "{seed}: {sent:?} is late by {late}");
            latest = latest.max(approximately(&late) / f64::from(longest));
            gps.advance(sent.ended);
            assert!((0..weights.len()).all(|flow| gps.is_backlogged(flow)));
            let ahead = ratio(served[flow], 1) - gps.served(flow);
            let own = u64::from(own_longest[flow]);
            let most = ratio(own * u64::from(sum - weights[flow]), sum.into());
            assert!(ahead <= most, "{seed}: {sent:?} is ahead by {ahead}");
            furthest = furthest.max(approximately(&ahead) / approximately(&most));
        }
    }
    assert!(latest > 0.6 && furthest > 0.99, "{latest} {furthest}");
}

fn approximately(ratio: &BigRational) -> f64 {
    let (numerator, denominator) = (ratio.numer().to_string(), ratio.denom().to_string());
    numerator.parse::<f64>().unwrap() / denominator.parse::<f64>().unwrap()
}

/// Draws weights that, with their sum, divide the unit of the library's virtual time.
fn exact_weights(random: &mut Xorshift) -> Vec<u32> {
    const UNIT: u64 = 203_249_958_912_000;
    loop {
        let flows = 2 + random.below(7);
        let weights: Vec<_> = (0..flows).map(|_| 1 + random.below(22)).collect();
        let sum = weights.iter().sum();
        if weights.iter().chain([&sum]).all(|&number| UNIT.is_multiple_of(number.into())) {
            return weights;
        }
    }
}

/// Goal: with such weights the library's order equals the exact one, packet by packet. Each packet
/// leaves at most two packets of the link later than at the reserved rate alone, and within T-WFI
/// of its arrival (`docs/disciplines/wf2q.md`). Method: on–off arrivals; all values are integers,
/// multiplied by the weight.
#[test]
fn wf2q_plus_is_exact_and_keeps_its_delays_whatever_comes() {
    let (mut latest, mut slowest) = (0.0_f64, 0.0_f64);
    for seed in 0..400 {
        let mut random = Xorshift::new(seed);
        let weights = exact_weights(&mut random);
        let sum = u64::from(weights.iter().sum::<u32>());
        let longest = 10 + random.below(1_500);
        let arrivals = random_arrivals(&mut random, weights.len() as u32, longest, 400);
        let sent = transmit(weights.len(), &arrivals, &mut wf2q(&weights));
        let exact = transmit(weights.len(), &arrivals, &mut ExactWf2q::new(&weights).unwrap());
        let numbers = |sent: &[Sent]| sent.iter().map(|sent| sent.number).collect::<Vec<_>>();
        assert_eq!(numbers(&sent), numbers(&exact), "{seed}: {weights:?}");

        let mut ended = vec![(0, 0); arrivals.len()];
        for sent in &sent {
            ended[sent.number] = (sent.started, sent.ended);
        }
        let mut reserved = vec![0; weights.len()];
        let longest = u64::from(longest);
        for (number, &Arrival { at, flow, len }) in arrivals.iter().enumerate() {
            let weight = u64::from(weights[flow]);
            let (_, end) = ended[number];
            reserved[flow] = (at * weight).max(reserved[flow]) + u64::from(len) * sum;
            let late = (end * weight).saturating_sub(reserved[flow]);
            assert!(late <= 2 * longest * weight, "{seed}: {number} is late by {late} / {weight}");
            latest = latest.max(late as f64 / (longest * weight) as f64);

            // Backlog of the flow at the arrival, including this packet and the rest on the wire.
            let earlier = (0..=number).filter(|&other| arrivals[other].flow == flow);
            let left = |other: usize| ended[other].1 - ended[other].0.max(at);
            let held: u64 = earlier.filter(|&other| ended[other].1 > at).map(left).sum();
            let wait = ((end - at) * weight).saturating_sub(held * sum);
            let bound = ((sum - weight) * longest).max(longest * weight) + longest * weight;
            assert!(wait <= bound, "{seed}: {number} waits {wait} / {weight}, not {bound}");
            slowest = slowest.max(wait as f64 / bound as f64);
        }
    }
    assert!(latest > 1.0 && slowest > 0.9, "{latest} {slowest}");
}

/// Goal: bound the effect of rounding the shares. Let `φ'` be the rounded shares, `φ(1 - 2^-23) ≤
/// φ' ≤ φ`, and all flows backlogged. Of `W` bytes a flow receives at least `φ'W - L^k - φL`. As
/// `V` is at most `W / (1 - 2^-23)`, it receives at most `φW / (1 - 2^-23) + L^k`. So it never
/// differs from the exact order by more than `2L^k + φL + 2^-22 φW`. Method: arbitrary weights,
/// packets of one length.
#[test]
fn rounding_moves_a_flow_by_two_packets_and_a_few_millionths_of_its_service() {
    const LEN: u32 = 1_000;
    let mut furthest = 0;
    for seed in 0..effort(8, 40) {
        let mut random = Xorshift::new(seed);
        let weights: Vec<_> = (0..4)
            .map(|_| {
                let bits = 1 + random.below(16);
                1 + random.below(1 << bits)
            })
            .collect();
        let Some(mut exact) = ExactWf2q::new(&weights) else { continue };
        let mut rounded = wf2q(&weights);
        let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let mut sent = vec![[0_u128; 2]; weights.len()];
        for flow in 0..weights.len() {
            Server::backlogged(&mut exact, flow, LEN);
            Server::backlogged(&mut rounded, flow, LEN);
        }
        for packet in 1..=20_000 {
            let servers: [&mut dyn Server; 2] = [&mut exact, &mut rounded];
            for (which, server) in servers.into_iter().enumerate() {
                let flow = server.select(&[]).unwrap();
                server.served(flow, LEN, Some(LEN));
                sent[flow][which] += 1;
            }
            for (&weight, &[exact, rounded]) in weights.iter().zip(&sent) {
                // Times 2^22 · sum, in packets.
                let share = u128::from(weight);
                let apart = exact.abs_diff(rounded);
                let bound = ((2 * sum + share) << 22) + share * packet;
                assert!((apart * sum) << 22 <= bound, "{seed}: {weights:?} {sent:?}");
                furthest = furthest.max(apart);
            }
        }
    }
    assert!(furthest > 0, "rounding decides ties");
}

/// With flows that come and go, only the reserved rate is guaranteed, not that of the fluid server:
/// the fluid server distributes the unused shares of idle flows continuously, WF²Q+ does not.
///
/// Flow 2 is alone, so at time 0 `V` jumps to 32, where its second packet starts. Flow 1 arrives at
/// 1 with `S = 32`, `F = 34 2/3`, and its second packet has to wait for the second one of flow 2,
/// which is eligible. In the fluid server flow 1 has 3/4 from 1 on. At its reserved 3/8 the packet
/// would leave at 6 1/3; with `2L = 8` added, this is later than 10.
#[test]
fn wf2q_plus_can_be_more_than_a_packet_later_than_the_fluid_server() {
    let arrivals = packets(&[(0, 2, 4), (0, 2, 4), (1, 1, 1), (1, 1, 1)]);
    let departures = fluid(&[4, 3, 1], &arrivals);
    assert_eq!(departures[2..], [ratio(7, 3), ratio(11, 3)]);
    let sent = transmit(3, &arrivals, &mut wf2q(&[4, 3, 1]));
    let order: Vec<_> = sent.iter().map(|sent| (sent.number, sent.ended)).collect();
    assert_eq!(
        order,
        [(0, 4), (2, 5), (1, 9), (3, 10)],
        "19/3 later, and no packet is longer than 4"
    );
}
