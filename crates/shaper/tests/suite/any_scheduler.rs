//! Guarantees of a scheduler behind a link, checked on random operations.

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::{Descriptor, DropReason, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};
use shaper::{Framing, Layer, Overhead, Rate, Shaped, Shaper};

fn ignore(_: Packet, _: DropReason) {}

proptest! {
    #![proptest_config(ProptestConfig { cases: conformance::effort::effort(250, 2_000), failure_persistence: None, ..Default::default() })]

    /// Goal: an open link with packets queued returns a packet; a closed one names the exact
    /// nanosecond at which the next packet leaves, also after a clock step once a dequeue has seen
    /// it; `peek` equals the next dequeue; the counters do not depend on rate and overhead. Method:
    /// random arrivals, times, rates and overheads around a FIFO, mirrored in a list.
    #[test]
    fn a_shaped_queue_gives_the_next_packet_exactly_when_it_said(
        steps in vec((0_u8..12, any::<u64>()), 1..200),
        catch_up in prop_oneof![Just(0_u64), 0_u64..10_000_000],
    ) {
        let rate = |seed: u64| Rate::bits_per_second(1_000 << (seed % 28)).unwrap();
        let line = Shaper::new(rate(10)).with_catch_up(Nanos(catch_up));
        let fifo = Fifo::tail_drop([Descriptor::EMPTY; 8], Limits::NONE);
        let mut shaped = Shaped::new(fifo, line, Overhead::RAW);
        let mut mirror = std::collections::VecDeque::new();
        let mut now = Nanos::from_secs(1);
        let mut latest = now;
        for (what, argument) in steps {
            latest = latest.max(now);
            match what {
                0..=3 => {
                    let len = 1 + (argument >> 8) as u32 % 2_000;
                    let packet = Packet::new(argument as u32 % 8, len);
                    if shaped.enqueue(now, FlowId(0), packet, &mut ignore).is_ok() {
                        mirror.push_back(packet);
                    }
                }
                4 => now = now.plus(Nanos(argument >> (20 + argument % 40))),
                5 => now = Nanos(now.since(Nanos(argument >> (20 + argument % 40))).0),
                6 => shaped.set_rate(now, rate(argument)),
                7 => {
                    let framing = [Framing::None, Framing::Atm, Framing::Ptm, Framing::Xgem];
                    let overhead = (argument % 321) as i32 - 64;
                    let mpu = (argument >> 16) as u32 % 257;
                    let framing = framing[(argument >> 32) as usize % 4];
                    let link = Overhead::new(framing, overhead, mpu).unwrap();
                    let tunnel = link.carrying(Layer::WIREGUARD).unwrap_or(link);
                    shaped.set_overhead(if argument >> 40 & 1 == 1 { tunnel } else { link });
                }
                _ => {
                    let (peeked, poll) = (shaped.peek(now), shaped.poll_at(now));
                    let taken = shaped.dequeue(now, &mut ignore);
                    prop_assert_eq!(peeked, taken);
                    match taken {
                        Some(packet) => {
                            prop_assert_eq!(poll, Some(now));
                            prop_assert_eq!(mirror.pop_front(), Some(packet));
                        }
                        None if mirror.is_empty() => prop_assert_eq!(poll, None),
                        None => {
                            let at = shaped.poll_at(now).expect("a line that opens");
                            let has_stepped_back = latest.since(now) > Nanos::from_secs(1);
                            prop_assert!(poll == Some(at) || poll == Some(now) && has_stepped_back);
                            prop_assert!(at > now && at < Nanos::MAX);
                            let before = at.since(Nanos(1));
                            prop_assert_eq!(shaped.dequeue(before, &mut ignore), None);
                            prop_assert_eq!(shaped.peek(at), mirror.front().copied());
                            prop_assert_eq!(shaped.dequeue(at, &mut ignore), mirror.pop_front());
                            now = at;
                        }
                    }
                }
            }
            let bytes: u32 = mirror.iter().map(|packet: &Packet| packet.len).sum();
            prop_assert_eq!(shaped.backlog().bytes, bytes);
            prop_assert_eq!(shaped.backlog().packets as usize, mirror.len());
            prop_assert_eq!(shaped.recount(), Ok(()));
        }
    }
}
