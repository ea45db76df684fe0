//! Sender and receiver together: sequences calculated manually, and invariants under random loss.

use freeboard::sched_core::{Ecn, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};

use super::congestion::{Bbr, Controller, Cubic, NewReno, Prague};
use super::network::{Naming, TcpNetwork, Way};
use super::{Ack, Config, Data, PAYLOAD, Receiver, Recovery, Sender};
use crate::discipline::Discipline;
use crate::event::EventQueue;
use crate::link::Link;
use conformance::rng::Streams;

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn reno() -> Sender {
    Sender::new(Config::new(Box::new(NewReno::new(Ecn::NotEct))))
}

/// Returns the numbers of the segments sent at `now`.
fn numbers(sender: &mut Sender, now: Nanos) -> Vec<u32> {
    core::iter::from_fn(|| sender.poll(now)).map(|(data, _)| data.number).collect()
}

fn ack(next: u32, blocks: &[(u32, u32)]) -> Ack {
    let mut ack = Ack { next, ..Ack::default() };
    ack.blocks[..blocks.len()].copy_from_slice(blocks);
    ack
}

/// RFC 6928, RFC 5681: ten segments, then two for each acknowledged one.
#[test]
fn slow_start_doubles_a_window_of_ten() {
    let mut sender = reno();
    assert_eq!(numbers(&mut sender, ms(0)), (0..10).collect::<Vec<_>>());
    sender.on_ack(ms(100), &ack(2, &[]));
    assert_eq!(numbers(&mut sender, ms(100)), [10, 11, 12, 13]);
    sender.on_ack(ms(100), &ack(10, &[]));
    assert_eq!(numbers(&mut sender, ms(100)), (14..30).collect::<Vec<_>>());
    assert_eq!((sender.window().size, sender.in_flight()), (20.0, 20));
}

/// Calculated manually: of segments 0 to 9 the first is lost. RFC 6937 (used by Linux) and RFC 6675
/// differ in the segments sent while the others arrive: half of the arrivals, or nothing until half
/// has left the network.
///
/// | arrives | pipe | RFC 6937, half of ten | RFC 6675 |
/// |---|---|---|---|
/// | 1 | 9 | 10 (limited transmit) | 10 |
/// | 2 | 9 | 11 | 11 |
/// | 3 | 0 is lost: 8 | 0 | 0 |
/// | 4 | 8 | – (⌈2 · 5 / 12⌉ is 1, sent) | – |
/// | 5 | 7 | 12 (⌈3 · 5 / 12⌉ is 2) | – |
/// | 6 | 7, 6 | – | – |
/// | 7 | 6, 5 | – (⌈5 · 5 / 12⌉ is 3: 13) | – |
#[test]
fn a_loss_is_repaired_and_the_window_is_reduced_once() {
    let expected: [[&[u32]; 7]; 2] =
        [[&[10], &[11], &[0], &[], &[12], &[], &[13]], [&[10], &[11], &[0], &[], &[], &[], &[]]];
    for (recovery, expected) in [Recovery::Proportional, Recovery::AtOnce].into_iter().zip(expected)
    {
        let control = Box::new(NewReno::new(Ecn::NotEct));
        let mut sender = Sender::new(Config { recovery, ..Config::new(control) });
        numbers(&mut sender, ms(0));
        for (arrives, expected) in (1..).zip(expected) {
            sender.on_ack(ms(100), &ack(0, &[(1, arrives + 1)]));
            assert_eq!(numbers(&mut sender, ms(100)), expected, "{recovery:?} {arrives}");
        }
        assert_eq!((sender.window().threshold, sender.events().losses), (5.0, 1));
        sender.on_ack(ms(200), &ack(14, &[]));
        assert_eq!(sender.window().size, 5.0, "{recovery:?}");
    }
}

/// RFC 5681 §4.3: the loss of a retransmission is another indication of congestion.
#[test]
fn a_lost_retransmission_reduces_the_window_again() {
    let mut sender = reno();
    numbers(&mut sender, ms(0));
    sender.on_ack(ms(100), &ack(0, &[(1, 10)]));
    assert!(numbers(&mut sender, ms(100)).starts_with(&[0]));
    let first_new = 10;
    assert_eq!(sender.window().threshold, 5.0);
    numbers(&mut sender, ms(101));
    // Segments sent before the retransmission carry no information about it.
    sender.on_ack(ms(150), &ack(0, &[(1, 10)]));
    assert_eq!(sender.events().losses, 1);
    let mut now = 200;
    while sender.events().repeated < 2 && now < 1_000 {
        sender.on_ack(ms(now), &ack(0, &[(first_new, first_new + 2), (1, 10)]));
        numbers(&mut sender, ms(now));
        now += 1;
    }
    assert_eq!((sender.events().losses, sender.events().timeouts), (2, 0));
    assert!(sender.window().threshold < 5.0, "{:?}", sender.window());
}

/// RFC 8985 §6.2: segment 0 is lost and two others arrive, too few for the threshold. It is
/// declared lost a quarter of the minimum round-trip time after a segment sent with it has arrived.
#[test]
fn a_gap_below_few_segments_is_found_by_time() {
    let control = Box::new(NewReno::new(Ecn::NotEct));
    let mut sender = Sender::new(Config { segments: 3, ..Config::new(control) });
    assert_eq!(numbers(&mut sender, ms(0)), [0, 1, 2]);
    sender.on_ack(ms(100), &ack(0, &[(1, 3)]));
    assert_eq!((numbers(&mut sender, ms(100)), sender.due()), (vec![], Some(ms(125))));
    sender.on_timer(ms(125));
    assert_eq!((numbers(&mut sender, ms(125)), sender.events().timeouts), (vec![0], 0));
}

/// RFC 8985 §7: the last segment is lost, and nothing after it shows that. A probe repeats it after
/// two round trips.
#[test]
fn a_lost_tail_is_probed() {
    let control = Box::new(NewReno::new(Ecn::NotEct));
    let mut sender = Sender::new(Config { segments: 4, ..Config::new(control) });
    numbers(&mut sender, ms(0));
    sender.on_ack(ms(100), &ack(2, &[]));
    assert_eq!(sender.due(), Some(ms(300)), "two segments are in flight");
    sender.on_timer(ms(300));
    assert_eq!(numbers(&mut sender, ms(300)), [3]);
    sender.on_ack(ms(400), &ack(4, &[]));
    assert!(sender.is_done() && sender.events().timeouts == 0);
}

/// RFC 6298 §5: without an acknowledgement the timer expires after 1, 3 and 7 seconds, and one
/// segment is sent each time.
#[test]
fn timeouts_double() {
    let mut sender = reno();
    numbers(&mut sender, ms(0));
    for at in [1_000, 3_000, 7_000] {
        assert_eq!(sender.due(), Some(ms(at)));
        sender.on_timer(ms(at));
        assert_eq!(numbers(&mut sender, ms(at)), [0]);
    }
    // RFC 5681, equation 4: half of ten, once.
    assert_eq!((sender.window().size, sender.window().threshold), (1.0, 5.0));
    sender.on_ack(ms(7_100), &Ack { at: ms(7_000), ..ack(1, &[]) });
    assert_eq!(sender.smoothed(), Some(ms(100)), "by timestamp");
    assert_eq!(numbers(&mut sender, ms(7_100)), [1, 2]);
}

/// RFC 3168 §6.1.2: one reduction for the marks of a window, reported in the next new segment.
#[test]
fn a_window_is_reduced_once_for_its_marks() {
    let mut sender = Sender::new(Config::new(Box::new(NewReno::new(Ecn::Ect0))));
    let poll = |sender: &mut Sender, now| core::iter::from_fn(|| sender.poll(now)).collect();
    let first: Vec<(Data, Ecn)> = poll(&mut sender, ms(0));
    assert!(first.iter().all(|(data, ecn)| *ecn == Ecn::Ect0 && !data.reduced));
    let echo = |next| Ack { next, echo: true, marks: 1, ..Ack::default() };
    let mut told = 0;
    for next in (2..=10).step_by(2) {
        sender.on_ack(ms(100), &echo(next));
        let sent: Vec<(Data, Ecn)> = poll(&mut sender, ms(100));
        told += sent.iter().filter(|(data, _)| data.reduced).count();
    }
    assert_eq!((sender.events().marks, told, sender.window().size), (1, 1, 5.0));
    sender.on_ack(ms(200), &echo(12));
    assert_eq!(sender.events().marks, 2, "another window");
    assert_eq!(sender.events().repeated, 0);
}

fn controls(ecn: Ecn) -> [Box<dyn Controller>; 4] {
    [
        Box::new(NewReno::new(ecn)),
        Box::new(Cubic::new(ecn)),
        Box::new(Prague::new()),
        Box::new(Bbr::new()),
    ]
}

#[derive(Debug)]
enum Event {
    Data(Data, bool),
    Ack(Ack),
    Timers,
}

/// Goal: all segments arrive, once and in order, and no sender waits forever. Method: segments and
/// acknowledgements are lost, and segments marked, at random, up to a fifth of each, over a round
/// trip of 20 ms. The event queue never empties before the transfer is done, and 400 segments take
/// less than an hour.
#[test]
fn everything_arrives_under_random_loss() {
    for seed in 0..40 {
        for (which, control) in controls(Ecn::Ect0).into_iter().enumerate() {
            let mut rng = Streams::new(seed).stream(&format!("loss {which}"));
            let (loss, marks) = (rng.below(200), rng.below(200));
            let segments = 1 + rng.below(400) as u32;
            let recovery = if seed % 2 == 0 { Recovery::Proportional } else { Recovery::AtOnce };
            let paced = seed % 3 == 0;
            let window = if seed % 5 == 0 { 7 } else { u32::MAX };
            let mut sender =
                Sender::new(Config { segments, window, recovery, paced, ..Config::new(control) });
            let (mut receiver, mut events) = (Receiver::new(), EventQueue::new());
            events.schedule(Nanos::ZERO, Event::Timers);
            while !sender.is_done() {
                let Some((now, event)) = events.pop() else {
                    panic!("seed {seed}, control {which}: nothing happens\n{sender:?}");
                };
                assert!(now < Nanos::from_secs(3_600), "seed {seed}, control {which}: {sender:?}");
                let answer = match event {
                    Event::Data(data, marked) => receiver.receive(now, data, marked),
                    Event::Ack(ack) => {
                        sender.on_ack(now, &ack);
                        None
                    }
                    Event::Timers => {
                        if sender.due().is_some_and(|due| due <= now) {
                            sender.on_timer(now);
                        }
                        receiver.on_timer(now)
                    }
                };
                if let Some(ack) = answer
                    && !rng.chance(loss, 1_000)
                {
                    events.schedule(now.plus(ms(10)), Event::Ack(ack));
                }
                while let Some((data, ecn)) = sender.poll(now) {
                    if !rng.chance(loss, 1_000) {
                        let marked = ecn.is_capable() && rng.chance(marks, 1_000);
                        // In order, as in a queue.
                        let wait = Nanos(10_000_000 + rng.below(1_000));
                        events.schedule(now.plus(wait), Event::Data(data, marked));
                    }
                }
                let dues = [sender.due(), sender.paced_until(now), receiver.due()];
                if let Some(due) = dues.into_iter().flatten().min() {
                    events.schedule(due, Event::Timers);
                }
            }
            assert_eq!(receiver.in_order(), segments);
        }
    }
}

/// Goal: no connection exceeds the rate of the link, and every packet is accounted for. Method:
/// each congestion control alone and all together through a short FIFO at 10 Mbit/s.
#[test]
fn goodput_is_at_most_the_lines() {
    let rate = Rate::megabits_per_second(10).unwrap();
    let link = || {
        let limits = Limits::packets(40);
        let queue = Discipline::Fifo.behind(Shaper::new(rate), Overhead::RAW, limits, 1_500);
        Link::new(queue, 41, [0; 16], ms(20))
    };
    let measured = (Nanos::from_secs(2), Nanos::from_secs(12));
    for which in 0..5 {
        let mut network = TcpNetwork::new(link(), link(), Naming::One, measured);
        let mut ids = Vec::new();
        for (at, control) in controls(Ecn::NotEct).into_iter().enumerate() {
            if which == 4 || at == which {
                ids.push(network.connect(Way::Up, [1, 1], ms(0), Config::new(control)));
            }
        }
        for step in 0..=120 {
            network.run_until(ms(100 * step));
            assert_eq!(network.recount(), Ok(()));
        }
        let goodput: u64 = ids.iter().map(|&id| network.goodput(id).bits_per_second()).sum();
        let most = 10_000_000 * u64::from(PAYLOAD) / u64::from(Data::LEN);
        // The window begins and ends within a packet.
        assert!(goodput <= most + 2 * 8 * u64::from(PAYLOAD) / 10, "{which}: {goodput}");
        assert!(goodput >= most * 8 / 10, "{which}: {goodput}");
    }
}

/// A short transfer over an idle link takes one round trip per window: 10, 20 and 5 of 35 segments.
#[test]
fn a_transfer_ends_when_its_last_acknowledgement_arrives() {
    let link = || {
        let line = Shaper::new(Rate::megabits_per_second(1_000).unwrap());
        let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(99), 1_500);
        Link::new(queue, 100, [0; 16], ms(20))
    };
    let mut network = TcpNetwork::new(link(), link(), Naming::One, (ms(0), ms(999)));
    let control = Box::new(Cubic::new(Ecn::NotEct));
    let config = Config { segments: 35, ..Config::new(control) };
    let id = network.connect(Way::Down, [1, 1], ms(5), config);
    network.run_until(ms(999));
    let took = network.completion(id).unwrap();
    // The last of an odd number of segments waits for the receiver's timer, 40 ms.
    assert!((ms(160)..ms(162)).contains(&took), "{took:?}");
    assert_eq!(network.goodput(id).bytes(), 35 * u64::from(PAYLOAD));
    assert_eq!(network.sender(id).events().repeated, 0);
}
