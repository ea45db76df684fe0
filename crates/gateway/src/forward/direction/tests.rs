use super::*;
use crate::config::Sharing;
use crate::config::handling::{Late, Treatment};
use crate::config::keywords::{HostMode, Limit};
use crate::config::memory::frames_for;
use crate::forward::follow::Following;
use crate::forward::queue::limits;
use crate::io::uncut::tests::uncut;
use freeboard::Isolation;
use freeboard::shaper::Rate;

fn share(kind: QueueKind, hosts: HostMode, limit: Limit) -> Sharing {
    Sharing {
        kind,
        hosts,
        max_hosts: 256,
        limit,
        flush_unserved: None,
        aqm: freeboard::AqmKind::CoDel,
        l4s: true,
        rtt: freeboard::Rtt::INTERNET,
    }
}

/// Frame handling without catch-up.
fn exact() -> Treatment {
    Treatment { late: Late::CatchUp(Nanos::ZERO), ..Treatment::default() }
}

/// Returns the number of frames for both directions with this limit.
fn frames_of(limit: Limit) -> u32 {
    let share = share(QueueKind::Drr, HostMode::Lan, limit);
    frames_for([limits(&share, &Treatment::default(), 1_500); 2])
}

/// Plan for an upload by DRR over flows with at most `packets` packets, enough handles (a different
/// number for each limit), and an unlimited rate.
fn drr_of_flows(packets: u32, max_len: u32) -> Plan {
    let limit = Limit::Packets(packets);
    Plan {
        share: share(QueueKind::Drr, HostMode::By(Isolation::Flows), limit),
        heading: Heading::Up,
        descriptors: frames_of(limit),
        max_len,
        rate: Rate::UNLIMITED,
        treatment: exact(),
    }
}

/// Creates a direction without configured hosts, on a link without overhead.
fn made(plan: Plan, watched: Option<Watched>) -> Direction {
    Direction::new(plan, Overhead::RAW, Hosts::none(), [0; 16], watched).unwrap()
}

/// Goal: a frame that finds the pool empty is counted, and its buffer is reused for the next one.
/// Method: a pool with fewer frames than the queue may hold, which no configuration creates.
#[test]
fn frames_without_a_place_in_the_pool_are_counted() {
    let mut pool = Pool::new(3, 1_500);
    let plan = Plan {
        share: share(QueueKind::Fifo, HostMode::Lan, Limit::Packets(10)),
        heading: Heading::Up,
        descriptors: 10,
        max_len: pool.longest() as u32,
        rate: Rate::UNLIMITED,
        treatment: exact(),
    };
    let mut direction = made(plan, None);
    let mut spare = pool.spare();
    let mut arrive = |len: usize, arrival, direction: &mut Direction| {
        spare.received(len);
        direction.arrive(Nanos(0), arrival, &mut spare, &mut pool, &Translations::default());
        assert_eq!(direction.unaccounted(), 0);
        (direction.outside(), direction.held())
    };
    for held in 1..=3 {
        assert_eq!(arrive(100, Arrival::Whole, &mut direction).1, held);
    }
    for no_room in 1..=4 {
        let (outside, held) = arrive(100, Arrival::Whole, &mut direction);
        assert_eq!((outside.received, outside.no_room, held), (3 + no_room, no_room, 3));
    }
    let (outside, held) = arrive(13, Arrival::Whole, &mut direction);
    assert_eq!((outside.too_short, outside.no_room, held), (1, 4, 3));
    arrive(100, Arrival::TooLong, &mut direction);
    let (outside, held) = arrive(100, Arrival::Merged(64_000), &mut direction);
    assert_eq!((outside.too_long, outside.merged, outside.no_room, held), (1, 1, 4, 3));
}

/// Goal: a frame of several packets becomes these packets, and one that cannot be segmented counts
/// as one dropped frame.
#[test]
fn frames_of_several_packets_arrive_as_these() {
    let plan = drr_of_flows(10, 1_522);
    let mut pool = Pool::new(plan.descriptors, 1_500);
    let mut direction = made(plan, None);
    let mut spare = pool.spare();
    let mut arrive = |direction: &mut Direction, whole: &Frame| {
        direction.arrive_uncut(Nanos(0), whole, &mut spare, &mut pool, &Translations::default());
        assert_eq!(direction.unaccounted(), 0);
        let outside = direction.outside();
        let UnqueuedFrames { received, cut, merged, too_long, .. } = outside;
        ([received, cut, merged, too_long], direction.held())
    };
    assert_eq!(arrive(&mut direction, &uncut(|_, _| {})), ([2, 1, 0, 0], 2));
    assert_eq!(direction.queued_bytes(), 2 * 154);
    let tunnel = uncut(|_, offload| offload[6] ^= 8);
    assert_eq!(arrive(&mut direction, &tunnel), ([3, 1, 1, 0], 2));
    let long = uncut(|bytes, offload| {
        bytes.resize(14 + 4_040, 7);
        bytes[16..18].copy_from_slice(&4_040_u16.to_be_bytes());
        offload[4..6].copy_from_slice(&2_000_u16.to_ne_bytes());
    });
    assert_eq!(arrive(&mut direction, &long), ([4, 1, 1, 1], 2));
}

/// Goal: after any sequence of operations there are as many frames as the current limit takes, held
/// frames are unchanged under valid handles, and every frame is accounted for. Method: a pool for
/// both directions, full and with frames that wait for the device; limits that grow and shrink
/// while the queue is replaced or kept. Each frame contains its number.
#[test]
fn limits_that_grow_and_shrink_keep_what_is_held() {
    let share = |kind, hosts, packets| share(kind, hosts, Limit::Packets(packets));
    let flows = HostMode::By(Isolation::Flows);
    let plan = |share: Sharing, heading, max_len| {
        let (descriptors, rate) = (frames_of(share.limit), Rate::UNLIMITED);
        Plan { share, heading, descriptors, max_len, rate, treatment: exact() }
    };
    let first = share(QueueKind::Drr, HostMode::Lan, 50);
    let mut pool = Pool::new(frames_of(first.limit), 1_500);
    let max_len = pool.longest() as u32;
    let mut directions = [Heading::Up, Heading::Down].map(|heading| {
        let plan = plan(first, heading, max_len);
        let each = Some(Watched::Each);
        made(plan, each)
    });
    let mut spare = pool.spare();
    let (mut number, mut before) = (0_u32, 50);
    for (kind, hosts, packets) in [
        (QueueKind::Drr, HostMode::Lan, 400),
        (QueueKind::Drr, HostMode::Lan, 7),
        (QueueKind::Sqf, HostMode::UsersSqf, 300),
        (QueueKind::Qfq, flows, 20),
        (QueueKind::Fifo, flows, 200),
        (QueueKind::Sqf, flows, 1),
        (QueueKind::Drr, flows, 90),
        (QueueKind::Fifo, flows, 3),
        (QueueKind::Fifo, flows, 2),
    ] {
        for direction in &mut directions {
            // More than fit, some of them waiting for the device.
            for at in 0..500 {
                spare.room()[..200].fill(2);
                // UDP of some flows over IPv4, whose last bytes are the number.
                spare.room()[12..24].copy_from_slice(&[8, 0, 69, 0, 0, 186, 0, 0, 0, 0, 64, 17]);
                spare.room()[34] = at as u8 & 31;
                spare.room()[196..200].copy_from_slice(&number.to_be_bytes());
                spare.received(200);
                number += 1;
                direction.arrive(
                    Nanos(number.into()),
                    Arrival::Whole,
                    &mut spare,
                    &mut pool,
                    &Translations::default(),
                );
                if at == 250 {
                    direction.fill(Nanos(number.into()), &mut pool);
                }
            }
            direction.fill(Nanos(number.into()), &mut pool);
        }
        let next = share(kind, hosts, packets);
        for direction in &mut directions {
            direction.set_limits(limits(&next, &Treatment::default(), 1_500), &mut pool);
        }
        pool.resize(frames_of(next.limit));
        for direction in &mut directions {
            let held = direction.held();
            let plan = plan(next, direction.heading(), max_len);
            let another = direction.build_another(&plan).unwrap();
            direction.change(Nanos(0), (plan, another), Overhead::RAW, Hosts::none(), &mut pool);
            // The limit has already dropped the excess.
            assert_eq!((direction.unaccounted(), direction.held()), (0, held), "{next:?}");
        }
        let _ = pool.settle();
        assert_eq!(pool.count(), frames_of(next.limit), "{next:?}");
        let held: u64 = directions.iter().map(Direction::held).sum();
        assert_eq!(pool.in_use() as u64, held, "{next:?}");
        for direction in &mut directions {
            assert!(direction.held() >= u64::from(packets.min(before)), "{next:?}");
            // Half of them leave, to no effect, since there is no device.
            for _ in 0..packets.div_ceil(2 * BATCH as u32) {
                direction.fill(Nanos(number.into()), &mut pool);
                for packet in &direction.leaving {
                    let bytes = pool.frame(packet.handle).bytes();
                    let said = u32::from_be_bytes(bytes[196..].try_into().unwrap());
                    assert_eq!(u64::from(said), serial_of(direction, packet), "{next:?}");
                }
                direction.give_up(&mut pool);
            }
            assert_eq!(direction.unaccounted(), 0, "{next:?}");
        }
        before = packets;
    }
}

/// Goal: packets that move into another queue keep their age: CoDel counts their earlier sojourn
/// time, and the shaper catches up the time lost meanwhile. Method: frames wait for a second and
/// move. One CoDel interval after the first delay is observed it drops, an interval earlier than if
/// all had arrived when they moved. At 8 Mbit/s a second is more than all of them take.
#[test]
fn what_moves_into_another_queue_is_as_old_as_it_was() {
    let after_a_second = |rate, catch_up| {
        let treatment = Treatment { late: Late::CatchUp(catch_up), ..Treatment::default() };
        let mut pool = Pool::new(2_000, 1_500);
        let max_len = pool.longest() as u32;
        let plan = |packets| Plan { rate, treatment, ..drr_of_flows(packets, max_len) };
        let each = Some(Watched::Each);
        let mut direction = made(plan(500), each);
        let mut spare = pool.spare();
        for at in 0..400 {
            spare.room()[..200].fill(2);
            spare.received(200);
            direction.arrive(
                Nanos(at),
                Arrival::Whole,
                &mut spare,
                &mut pool,
                &Translations::default(),
            );
        }
        let plan = plan(600);
        let another = direction.build_another(&plan).unwrap();
        assert!(another.is_some(), "it has to move");
        direction.change(Nanos(0), (plan, another), Overhead::RAW, Hosts::none(), &mut pool);
        let mut left = Vec::new();
        for millis in [1_000, 1_090, 1_110] {
            direction.fill(Nanos::from_millis(millis), &mut pool);
            left.push(direction.leaving.len());
            direction.give_up(&mut pool);
        }
        (left, direction.counters().dropped_for(DropReason::Aqm).packets)
    };
    assert_eq!(after_a_second(Rate::UNLIMITED, Nanos::ZERO), (vec![BATCH; 3], 1));
    let rate = Rate::megabits_per_second(8).unwrap();
    assert_eq!(after_a_second(rate, Nanos::from_secs(1)).0, [BATCH; 3]);
}

/// Goal: marks are counted where they are set, separately from packets that arrived with one; both
/// counters are kept when the queue is replaced. Method: 40 ECN-capable IPv4 frames, 60 that
/// arrived marked and 10 that are not ECN-capable wait for a second, so that CoDel acts on them;
/// they move twice.
#[test]
fn marks_are_those_set_here_and_moving_counts_nothing_twice() {
    let mut pool = Pool::new(2_000, 1_500);
    let max_len = pool.longest() as u32;
    let mut direction = made(drr_of_flows(500, max_len), None);
    let mut spare = pool.spare();
    for at in 0..110_u8 {
        let class = [2, 3, 3, 2, 3, 2, 3, 3, 2, 3, 0][usize::from(at % 11)];
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, class, 0, 186, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 192, 0, 2, 1, 0, 9, 0, 9, 0, 166, 0, 0]);
        frame.resize(200, 0);
        spare.room()[..200].copy_from_slice(&frame);
        spare.received(200);
        direction.arrive(
            Nanos(at.into()),
            Arrival::Whole,
            &mut spare,
            &mut pool,
            &Translations::default(),
        );
    }
    let report = |direction: &Direction| {
        let report = crate::stats::report::Report::new(
            Nanos(0),
            &crate::stats::report::Reloads::new(),
            &[(direction, 0)],
            &Following::default(),
            None,
        );
        (report.directions[0].marked, report.directions[0].came_marked)
    };
    assert_eq!(report(&direction), (0, 60));
    let mut set_here = 0;
    for (round, packets) in (1..).zip([600, 700, 800]) {
        let plan = drr_of_flows(packets, max_len);
        let another = direction.build_another(&plan).unwrap();
        assert!(another.is_some(), "it has to move");
        direction.change(Nanos(0), (plan, another), Overhead::RAW, Hosts::none(), &mut pool);
        assert_eq!(report(&direction), (set_here, 60));
        for millis in 0..20 {
            let now = Nanos::from_millis(1_000 * round + 30 * millis);
            if let Some(packet) = direction.queue.dequeue(now, &mut |_, _| {}) {
                let came = pool.frame(packet.handle).bytes()[15] & 3;
                set_here += u64::from(packet.ecn == Ecn::Ce && came != 3);
                pool.give_back(packet.handle);
            }
        }
        assert_eq!(report(&direction), (set_here, 60));
    }
    assert!(set_here > 3, "{set_here}");
}

/// Goal: drops keep their reasons and counts when the queue is replaced. Method: a queue of ten
/// packets is offered thirty, and is replaced twice, by one with a higher and one with a lower
/// limit.
#[test]
fn drops_keep_their_reasons_in_another_queue() {
    let mut pool = Pool::new(2_000, 1_500);
    let max_len = pool.longest() as u32;
    let mut direction = made(drr_of_flows(10, max_len), None);
    let mut spare = pool.spare();
    for at in 0..30 {
        spare.room()[..200].fill(2);
        spare.received(200);
        let translations = Translations::default();
        direction.arrive(Nanos(at), Arrival::Whole, &mut spare, &mut pool, &translations);
    }
    let drops = |direction: &Direction| {
        assert_eq!(direction.unaccounted(), 0);
        let drops = crate::stats::report::drops(direction);
        drops.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    let expected = [("overflow".to_owned(), 20)];
    assert_eq!(drops(&direction), expected);
    for packets in [600, 20] {
        let plan = drr_of_flows(packets, max_len);
        let another = direction.build_another(&plan).unwrap();
        assert!(another.is_some(), "it has to move");
        direction.change(Nanos(0), (plan, another), Overhead::RAW, Hosts::none(), &mut pool);
        assert_eq!((drops(&direction).as_slice(), direction.lost()), (&expected[..], 20));
        assert_eq!(direction.held(), 10);
    }
}

/// Goal: a frame that the device refused is counted with that reason, for its flow and host and for
/// the direction. Method: a frame that waits for a device that has disappeared.
#[test]
fn a_frame_that_the_device_refused_is_not_one_that_the_queue_rejected() {
    let mut pool = Pool::new(600, 1_500);
    let plan = drr_of_flows(500, pool.longest() as u32);
    let each = Some(Watched::Each);
    let mut direction = made(plan, each);
    let mut spare = pool.spare();
    spare.received(60);
    direction.arrive(Nanos(0), Arrival::Whole, &mut spare, &mut pool, &Translations::default());
    direction.fill(Nanos(0), &mut pool);
    direction.give_up(&mut pool);
    let reloads = crate::stats::report::Reloads::new();
    let report = crate::stats::report::Report::new(
        Nanos(0),
        &reloads,
        &[(&direction, 0)],
        &Following::default(),
        None,
    );
    let direction = &report.directions[0];
    let expected = [("device".to_owned(), 1)];
    assert_eq!(direction.drops, expected);
    assert_eq!(
        (&direction.hosts_seen[0].drops[..], &direction.flows_seen[0].drops[..]),
        (&expected[..], &expected[..])
    );
}

/// Returns the number stored in this packet's frame.
fn serial_of(direction: &Direction, packet: &Packet) -> u64 {
    direction.held[packet.handle as usize].arrived.0 - 1
}

/// Returns a frame with an IPv4 packet of this protocol between two addresses that end in `from`
/// and `to`.
fn v4(protocol: u8, [from, to]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
    packet.extend(payload);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

/// Goal: a call inside a tunnel does not wait behind an upload inside the same tunnel, for each
/// kind of tunnel that can be parsed, while the ends of the tunnel remain the hosts: another sender
/// gets half of the link beside four uploads inside.
#[test]
fn flows_inside_a_tunnel_are_apart_and_its_ends_are_the_hosts() {
    type Carried<'a> = &'a dyn Fn(u16) -> Vec<u8>;
    let udp = |port: u16| {
        let mut datagram = [[0x13, 0x88], port.to_be_bytes(), [2, 0x58], [0, 0]].concat();
        datagram.resize(600, 0);
        datagram
    };
    let inside = |port| v4(17, [101, 102], &udp(port));
    let gre = |port| [vec![0, 0, 8, 0], inside(port)].concat();
    let in_6 = |port: u16| {
        let mut packet = vec![0x60, 0, 0, 0, 2, 0x58, 17, 64];
        packet.extend([[0x20; 16], [0x30; 16]].concat());
        packet.extend(udp(port));
        packet
    };
    let kinds: [(u8, Carried<'_>); 3] = [(4, &inside), (41, &in_6), (47, &gre)];
    for (protocol, carried) in kinds {
        let plan = Plan {
            share: share(QueueKind::Drr, HostMode::Lan, Limit::Packets(200)),
            heading: Heading::Up,
            descriptors: frames_of(Limit::Packets(200)),
            max_len: 1_522,
            rate: Rate::megabits_per_second(1).unwrap(),
            treatment: exact(),
        };
        let mut pool = Pool::new(plan.descriptors, 1_500);
        let mut direction = made(plan, Some(Watched::Each));
        let mut spare = pool.spare();
        let mut arrive = |packet: &[u8]| {
            let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], packet].concat();
            spare.room()[..frame.len()].copy_from_slice(&frame);
            spare.received(frame.len());
            let translations = Translations::default();
            direction.arrive(Nanos(0), Arrival::Whole, &mut spare, &mut pool, &translations);
        };
        // Four uploads inside the tunnel, one of another host, and the call, which arrives last.
        for number in 0..80 {
            arrive(&v4(protocol, [1, 2], &carried(7_000 + number % 4)));
            arrive(&v4(17, [3, 2], &udp(9)));
        }
        arrive(&v4(protocol, [1, 2], &carried(5_060)));
        let mut order = Vec::new();
        let mut now = Nanos(0);
        while let Some(at) = direction.queue.poll_at(now) {
            now = now.max(at);
            let Some(packet) = direction.queue.dequeue(now, &mut |_, _| {}) else { break };
            order.push(pool.frame(packet.handle).bytes().to_vec());
        }
        let is_call = |frame: &Vec<u8>| frame.ends_with(&udp(5_060));
        let call = order.iter().position(is_call).unwrap();
        assert!(call < 40, "protocol {protocol}: the call left as number {call}");
        let others = order[..80].iter().filter(|frame| frame[29] == 3).count();
        assert!((36..=60).contains(&others), "protocol {protocol}: {others} of 80");
        let watch = direction.watch().unwrap();
        let hosts: Vec<&str> = watch.hosts().map(|host| host.name.as_str()).collect();
        assert_eq!(hosts, ["10.0.0.1", "10.0.0.3"]);
        let name = format!(":5060 udp in 10.0.0.1 > 10.0.0.2 protocol {protocol}");
        assert_eq!(watch.flows().filter(|flow| flow.name.ends_with(&name)).count(), 1);
    }
}

/// Goal: above 24 Mbit/s long frames leave several at a time, so that the loop wakes up once for
/// them, and at most half a millisecond late; below, and without catch-up, each leaves when it is
/// due. After an arrival the next frames leave within a tenth of a millisecond. The rate is met in
/// all cases.
#[test]
fn frames_of_a_fast_line_leave_together_and_those_of_a_slow_line_when_they_are_due() {
    const FRAMES: u32 = 120;
    let run = |megabits: u64, late: Late, arrivals: bool| {
        let limit = Limit::Packets(200);
        let plan = Plan {
            share: Sharing {
                aqm: freeboard::AqmKind::None,
                l4s: false,
                ..share(QueueKind::Drr, HostMode::Lan, limit)
            },
            heading: Heading::Up,
            descriptors: frames_of(limit),
            max_len: 1_522,
            rate: Rate::megabits_per_second(megabits).unwrap(),
            treatment: Treatment { late, ..exact() },
        };
        let mut pool = Pool::new(plan.descriptors, 1_500);
        let mut direction = made(plan, None);
        let mut spare = pool.spare();
        let mut arrive = |direction: &mut Direction, pool: &mut Pool, now: Nanos| {
            spare.received(1_500);
            direction.arrive(now, Arrival::Whole, &mut spare, pool, &Translations::default());
        };
        (0..FRAMES).for_each(|_| arrive(&mut direction, &mut pool, Nanos(0)));
        let frame = 12_000_000 / megabits;
        let (mut now, mut left, mut wakes) = (Nanos(0), 0, 0);
        while left < FRAMES {
            let at = direction.poll_at(now).unwrap();
            now = now.max(at);
            direction.fill(now, &mut pool);
            let count = direction.leaving.len() as u32;
            assert!(count > 0, "{megabits} Mbit/s: woken for nothing");
            let first_due = u64::from(left) * frame;
            assert!(now.0 <= first_due + 500_001, "{megabits} Mbit/s: at {now:?}, {first_due}");
            direction.leaving.drain(..).for_each(|packet| pool.give_back(packet.handle));
            (left, wakes) = (left + count, wakes + 1);
            direction.rest(now);
            if arrivals {
                arrive(&mut direction, &mut pool, now);
            }
        }
        assert!(now.0.abs_diff(u64::from(FRAMES - 1) * frame) <= 500_001, "{megabits} Mbit/s");
        wakes
    };
    let usual = Late::default();
    assert!(run(300, usual, false) <= 2 + FRAMES / 12);
    assert!(run(100, usual, false) <= 2 + FRAMES / 4);
    for megabits in [1, 20] {
        assert_eq!(run(megabits, usual, false), FRAMES);
    }
    assert_eq!(run(100, Late::CatchUp(Nanos::ZERO), false), FRAMES);
    assert_eq!(run(100, usual, true), FRAMES, "a frame takes longer than a rest with arrivals");
    assert!(run(300, usual, true) >= FRAMES / 4);
}

/// Goal: a machine with sixty addresses has the share of one machine beside another, in both
/// directions, and is reported as a router, once, if the addresses are IPv4. Alone, its addresses
/// are hosts.
#[test]
fn addresses_of_one_card_share_as_one_host() {
    for heading in [Heading::Up, Heading::Down] {
        let limit = Limit::Packets(400);
        let plan = Plan {
            share: share(QueueKind::Drr, HostMode::Lan, limit),
            heading,
            descriptors: frames_of(limit),
            max_len: 1_522,
            rate: Rate::megabits_per_second(1).unwrap(),
            treatment: exact(),
        };
        let mut pool = Pool::new(plan.descriptors, 1_500);
        let mut names = Names::new(HostBy::Auto);
        names.finish().unwrap();
        let (identity, terms) = (names.map().unwrap(), TermsByHost::default());
        let hosts = Hosts { names, identity, terms };
        let each = Some(Watched::Each);
        let mut direction = Direction::new(plan, Overhead::RAW, hosts, [0; 16], each).unwrap();
        let mut spare = pool.spare();
        let mut arrive = |direction: &mut Direction, card: u8, address: u8| {
            let (local, far) = ([2, 0, 0, 0, 0, card], [2, 0, 0, 0, 0, 9]);
            let (ends, macs) = match heading {
                Heading::Up => ([address, 250], [far, local]),
                Heading::Down => ([250, address], [local, far]),
            };
            let packet = v4(17, ends, &[0; 800]);
            let frame = [macs.as_flattened(), &[8, 0], &packet].concat();
            spare.room()[..frame.len()].copy_from_slice(&frame);
            spare.received(frame.len());
            let translations = Translations::default();
            direction.arrive(Nanos(0), Arrival::Whole, &mut spare, &mut pool, &translations);
        };
        arrive(&mut direction, 1, 1);
        arrive(&mut direction, 1, 2);
        let totals = |direction: &Direction| direction.totals().unwrap().1;
        assert_eq!((totals(&direction), direction.router()), (2, None));
        for number in 0..120 {
            arrive(&mut direction, 2, 200);
            arrive(&mut direction, 1, number % 60);
        }
        // The two hosts from before, and two cards.
        assert_eq!(totals(&direction), 4);
        let router = (heading == Heading::Up).then_some([2, 0, 0, 0, 0, 1]);
        assert_eq!((direction.router(), direction.router()), (router, None));
        let (mut now, mut of_other) = (Nanos(0), 0);
        for _ in 0..100 {
            now = now.max(direction.queue.poll_at(now).unwrap());
            let packet = direction.queue.dequeue(now, &mut |_, _| {}).unwrap();
            let frame = pool.frame(packet.handle).bytes();
            of_other += u32::from(frame[if heading == Heading::Up { 11 } else { 5 }] == 2);
        }
        assert!((45..=52).contains(&of_other), "{heading:?}: {of_other} of 100");
        let seen = direction.watch().unwrap().hosts().any(|host| host.name == "02:00:00:00:00:02");
        assert!(seen, "{heading:?}");
    }
}
