//! Departure times: the link, the device, and the AQM configured for both.

use conformance::effort::effort;
use freeboard::sched_core::{
    AqmChoice, BlueParams, CoDelParams, ConfigError, Pi2Params, PieParams, RedParams,
};

use super::*;

/// Goal: the presets equal CAKE's, and a slow link raises the target. Method: the table of values,
/// and CoDel's own check of each on links of every speed.
#[test]
fn round_trip_times_set_the_aqm() {
    let micros = [
        ("datacentre", 100, 5),
        ("lan", 1_000, 50),
        ("metro", 10_000, 500),
        ("regional", 30_000, 1_500),
        ("internet", 100_000, 5_000),
        ("oceanic", 300_000, 15_000),
        ("satellite", 1_000_000, 50_000),
    ];
    for (word, span, target) in micros {
        let rtt: Rtt = word.parse().expect("a preset");
        assert_eq!(
            (rtt.span(), rtt.target()),
            (Nanos::from_micros(span), Nanos::from_micros(target))
        );
        let fast = rtt.codel(Rate::UNLIMITED, 1_514);
        assert_eq!((fast.target, fast.interval, fast.mtu), (rtt.target(), rtt.span(), 1_514));
        for rate in [Rate::STOPPED, mbit(1), mbit(1_000), Rate::UNLIMITED] {
            let mut queue = SmartQueue::upload(rate).rtt(rtt).descriptors().expect("in range");
            assert_eq!(queue.rtt(), rtt);
            queue.set_rtt(Rtt::LAN);
            queue.set_rate(Nanos(0), Rate::STOPPED);
        }
    }
    let slow = Rtt::INTERNET.codel(mbit(1), 1_514);
    assert_eq!(slow.target, Nanos::from_micros(24_224), "two frames of 12,112 µs");
    assert_eq!(slow.interval, Nanos::from_micros(119_224), "with what was added to the target");
    let near = Rtt::LAN.codel(mbit(1), 1_514);
    assert_eq!((near.target, near.interval), (slow.target, Nanos::from_micros(48_448)));
    let stopped = Rtt::INTERNET.codel(Rate::STOPPED, 1_514);
    assert_eq!((stopped.target, stopped.interval), (Nanos((1 << 32) - 1), Nanos((1 << 33) - 2)));
    assert_eq!(Rtt::default(), Rtt::INTERNET);
    let error = "mars".parse::<Rtt>().expect_err("no preset");
    let accepted = "internet oceanic satellite, or a time from 20480ns to 8589934591ns, as 45ms";
    assert!(error.to_string().ends_with(accepted));
    for word in ["1ms", "30000us", "45ms", "8s"] {
        assert!(word.parse::<Rtt>().is_ok(), "{word}");
    }
    assert!("9s".parse::<Rtt>().is_err() && "45".parse::<Rtt>().is_err());
    assert!(Rtt::new(Nanos(20_479)).is_err() && Rtt::new(Nanos(1 << 33)).is_err());
    assert!(Rtt::new(Nanos(20_480)).is_ok() && Rtt::new(Nanos((1 << 33) - 1)).is_ok());
}

/// Goal: on a link that is slow for its round-trip time, the AQM tolerates a standing queue of four
/// packets, or signals it only occasionally. A target below the time of a packet would drop
/// everything behind the second. Method: a sender keeps four packets queued for ten seconds, with
/// each preset and at four rates; at most one drop for five packets sent.
#[test]
fn a_line_that_is_slow_for_its_round_trip_time_loses_few_packets() {
    let bytes = frame(udp(1, 1, 1_472), 0);
    for &(word, rtt) in Rtt::PRESETS {
        for &kilobits in effort(&[256, 1_000, 5_000][..], &[256, 1_000, 5_000, 20_000]) {
            let rate = Rate::kilobits_per_second(kilobits).expect("in range");
            let mut queue = SmartQueue::upload(rate).rtt(rtt).frames(KEY).expect("a queue");
            let mut now = Nanos::from_secs(1);
            while now < Nanos::from_secs(11) {
                while queue.backlog().packets < 4 {
                    queue.push(now, &bytes).expect("there is room");
                }
                assert!(queue.pop(now).is_some());
                now = queue.poll_at(now).expect("packets are queued");
            }
            let counters = queue.counters();
            let lost = counters.dropped_for(DropReason::Aqm).packets;
            let sent = counters.delivered.packets;
            assert!(5 * lost <= sent, "{word}, {kilobits} kbit/s: {lost} lost, {sent} sent");
        }
    }
}

/// Goal: one timestamp far ahead does not block the link. Method: a frame leaves an hour ahead; the
/// next leaves after the correct time by the duration of the first, and after a reset at once; then
/// frames are spaced.
#[test]
fn a_reading_far_ahead_does_not_close_the_line() {
    let exact = SmartQueue::upload(mbit(10)).catch_up(Nanos::ZERO);
    let mut queue = exact.frames(KEY).expect("a queue");
    let (now, ahead) = (Nanos::from_secs(1), Nanos::from_secs(3_601));
    for number in 0..3 {
        queue.push(now, &frame(udp(1, 1, 1_208), number)).expect("there is room");
    }
    assert!(queue.pop(ahead).is_some());
    assert_eq!(queue.poll_at(now), Some(now), "a look sets the line right");
    assert!(queue.pop(now).is_none());
    assert_eq!(queue.poll_at(now), Some(now.plus(Nanos::from_millis(1))));
    queue.reset_line();
    assert_eq!(queue.poll_at(now), Some(now));
    assert!(queue.pop(now).is_some());
    assert_eq!(queue.poll_at(now), Some(now.plus(Nanos::from_millis(1))));
}

/// Goal: a rate spaces frames, and `poll_at` returns the times. Method: frames of 1,250 bytes at 10
/// Mbit/s leave one millisecond apart, also when the clock steps back; nothing leaves in between.
#[test]
fn a_rate_spaces_frames_out_whatever_the_clock_does() {
    let mut queue: FrameQueue = SmartQueue::upload(mbit(10)).frames(KEY).expect("a queue");
    let start = Nanos::from_secs(7);
    for number in 0..10 {
        queue.push(start, &frame(udp(1, 1, 1_208), number)).expect("there is room");
    }
    for turn in 0..10 {
        let due = start.plus(Nanos::from_millis(turn));
        assert_eq!(queue.poll_at(start), Some(due));
        for back in [start.since(Nanos::from_millis(900)), start, Nanos(due.0 - 1)] {
            assert!(turn == 0 || queue.pop(back).is_none());
        }
        assert_eq!(queue.pop(due).as_deref().map(<[u8]>::len), Some(1_250));
    }
    assert_eq!(queue.poll_at(start), None);
}

/// Goal: the device limits departures in addition to a rate or without one. Method: it accepts
/// nothing, some bytes, and everything; no more leaves than it accepts, and the rest stays queued
/// and is not lost.
#[test]
fn a_device_takes_no_more_than_it_says() {
    for rate in [Rate::UNLIMITED, mbit(1_000)] {
        let mut queue = SmartQueue::upload(rate).frames(KEY).expect("a queue");
        queue.set_device(DeviceRoom::Busy);
        for number in 0..20 {
            queue.push(Nanos(0), &frame(udp(1, 1, 958), number)).expect("there is room");
        }
        let late = Nanos::from_secs(1);
        assert_eq!((queue.poll_at(late), queue.pop(late)), (None, None));
        queue.set_device(DeviceRoom::Takes(2_999));
        let mut sent = 0;
        let mut now = late;
        while let Some(at) = queue.poll_at(now) {
            now = at;
            sent += queue.pop(now).as_deref().map_or(0, <[u8]>::len);
        }
        assert_eq!((sent, queue.device()), (2_000, DeviceRoom::Takes(999)));
        assert_eq!(queue.pop(now.plus(late)), None, "a frame of 1,000 bytes does not fit");
        queue.add_room(1);
        assert_eq!(queue.pop(now.plus(late)).as_deref().map(<[u8]>::len), Some(1_000));
        assert_eq!(queue.device(), DeviceRoom::Takes(0));
        queue.set_device(DeviceRoom::Ready);
        queue.set_rate(now, Rate::UNLIMITED);
        let left = core::iter::from_fn(|| queue.pop(now).as_deref().map(<[u8]>::len)).count();
        let dropped = queue.counters().dropped_total().packets as usize;
        assert_eq!(
            left + dropped,
            17,
            "what waited for the device, less what the AQM dropped of it"
        );
        queue.recount().expect("the counters are right");
    }
}

/// Goal: the keywords for framing take effect on the link, for frames and for packets. Method: VDSL
/// with a tag, compared with the figures in the shaper's documentation.
#[test]
fn the_words_of_the_link_reach_the_line() -> Result<(), ConfigError> {
    let builder = SmartQueue::upload(Rate::megabits_per_second(10)?);
    let builder = builder.framing("pppoe-ptm ether-vlan").expect("known words");
    let queue = builder.frames(KEY).expect("a queue");
    assert_eq!(queue.overhead().wire_len(1_514), 1_558);
    let queue = builder.raw_ip().frames(KEY).expect("a queue");
    assert_eq!(queue.overhead().wire_len(1_500), 1_558);
    Ok(())
}

/// Goal: the AQM is the selected one, at construction and later, for the current rate and
/// round-trip time.
#[test]
fn the_aqm_is_chosen_by_a_word_and_follows_the_rate() {
    let rate = mbit(1);
    let default = SmartQueue::upload(rate).descriptors().expect("in range");
    assert_eq!((default.aqm(), default.is_l4s()), (AqmKind::default(), true));
    for &(word, kind) in AqmKind::WORDS {
        assert_eq!((word.parse(), kind.word()), (Ok(kind), word));
        let builder = SmartQueue::upload(rate).aqm(kind).l4s(false);
        let mut queue = builder.descriptors().expect("in range");
        let chosen = |queue: &DescriptorQueue| queue.isolated().aqm().choice();
        assert_eq!((queue.aqm(), queue.is_l4s()), (kind, false));
        assert_eq!(chosen(&queue), Rtt::INTERNET.aqm(kind, rate, 1_522));
        queue.set_rtt(Rtt::OCEANIC);
        queue.set_rate(Nanos(0), mbit(50));
        assert_eq!(chosen(&queue), Rtt::OCEANIC.aqm(kind, mbit(50), 1_522));
        queue.set_l4s(true);
        assert!(queue.is_l4s());
        queue.set_rate(Nanos(0), mbit(10));
        let expected = Rtt::OCEANIC.l4s(mbit(10), 1_522);
        assert_eq!(queue.isolated().aqm().l4s(), Some(expected));
        for &(_, other) in AqmKind::WORDS {
            queue.set_aqm(other);
            assert_eq!((queue.aqm(), queue.is_l4s()), (other, true));
            assert_eq!(chosen(&queue), Rtt::OCEANIC.aqm(other, mbit(10), 1_522));
        }
        let params = CoDelParams::INTERNET.with_mtu(9_000);
        queue.set_aqm_params(AqmChoice::CoDel(params)).expect("in range");
        assert_eq!(chosen(&queue), AqmChoice::CoDel(params));
        let refused = AqmChoice::CoDel(params.with_mtu(0));
        assert!(queue.set_aqm_params(refused).is_err());
        assert_eq!(chosen(&queue), AqmChoice::CoDel(params));
    }
    let error = "fq_pie".parse::<AqmKind>().expect_err("no word");
    let accepted = "an AQM must be one of cobalt codel pie pi2 red blue none";
    assert_eq!(error.to_string(), accepted);
}

/// Goal: every AQM has valid parameters on every link, and the published ones on a fast link of 100
/// ms. Method: queues of each AQM and preset, at rates from none to unlimited, and with the longest
/// packets.
#[test]
fn every_aqm_is_in_range_for_every_line() {
    let spans = [20_480, (1 << 33) - 1].map(|span| Rtt::new(Nanos(span)).expect("in range"));
    let presets = Rtt::PRESETS.iter().map(|&(_, rtt)| rtt);
    for rtt in presets.chain(spans) {
        for bits in [1_000, 56_000, 1_000_000, 100_000_000, 400_000_000_000] {
            let limited = Rate::bits_per_second(bits).expect("in range");
            for rate in [Rate::STOPPED, limited, Rate::UNLIMITED] {
                for &(word, kind) in AqmKind::WORDS {
                    for max_len in [1_522, 1 << 20] {
                        let builder = SmartQueue::upload(rate).rtt(rtt).aqm(kind).max_len(max_len);
                        let queue = builder.buffers(4).descriptors();
                        let queue = queue.unwrap_or_else(|error| panic!("{word} {rtt}: {error}"));
                        assert_eq!((queue.aqm(), kind.word()), (kind, word));
                    }
                }
            }
        }
    }
    let fast = mbit(100);
    assert_eq!(Rtt::INTERNET.pie(fast, 1_514), PieParams::default());
    assert_eq!(Rtt::INTERNET.pi2(fast, 1_514), Pi2Params::default());
    let round_trip = Nanos::from_millis(100);
    let blue = BlueParams::DEFAULT.with_freeze(round_trip).with_longest_wait(round_trip);
    assert_eq!(Rtt::INTERNET.blue(fast, 1_514), blue);
    // A packet takes 1.2112 ms at 10 Mbit/s, and the rate carries 82 of them in a round-trip time.
    let red = RedParams::new(7_570, 22_710).gentle().adaptive().with_weight(6);
    let red = red.with_packet_time(Nanos(1_211_200));
    assert_eq!(Rtt::INTERNET.red(mbit(10), 1_514), red);
    // Two packets take 24 ms at 1 Mbit/s.
    assert_eq!(Rtt::INTERNET.pie(mbit(1), 1_514).target, Nanos::from_micros(24_224));
}

/// Goal: the L4S threshold is 1 ms, less if the target is lower, and more if two packets take
/// longer; with every preset it is accepted at every rate.
#[test]
fn the_threshold_of_l4s_is_in_range_for_every_line() {
    for &(word, rtt) in Rtt::PRESETS {
        for rate in [Rate::STOPPED, mbit(1), mbit(1_000), Rate::UNLIMITED] {
            let queue = SmartQueue::download(rate).rtt(rtt).descriptors().expect("in range");
            let l4s = queue.isolated().aqm().l4s().expect("on unless set");
            let two = rate.time_of(2 * 1_522).min(Nanos((1 << 33) - 1));
            let shallow = Nanos::from_millis(1).min(rtt.target());
            assert_eq!((l4s.threshold, l4s.mtu), (shallow.max(two), 1_522), "{word} {rate:?}");
        }
    }
}

/// Results of one unresponsive flow at 1.5 times the rate of the link, in 20 s.
struct Deaf {
    sent: u64,
    marked: u64,
    /// Packets dropped by the AQM, on departure or arrival.
    dropped: u64,
    /// Median wait of packets sent in the last 10 s, in ms.
    median_wait: u64,
}

fn deaf(kind: AqmKind, l4s: bool, ecn: u8) -> Deaf {
    let builder = SmartQueue::upload(mbit(10)).aqm(kind).l4s(l4s);
    let mut queue = builder.frames(KEY).expect("a queue");
    let shape = Shape { ecn, ..udp(1, 1, 1_000) };
    let (mut number, mut waits, mut refused) = (0_u32, Vec::new(), 0);
    // 1,042 bytes at 15 Mbit/s.
    let at = |number: u32| Nanos(555_733 * u64::from(number));
    let mut now = Nanos(0);
    while now < Nanos::from_secs(20) {
        while at(number) <= now {
            if let Err(error) = queue.push(at(number), &frame(shape, number)) {
                assert_eq!(error, PushError::Rejected(RejectReason::Aqm), "the oldest gives way");
                refused += 1;
            }
            number += 1;
        }
        if let Some(bytes) = queue.pop(now) {
            let sent = u32::from_be_bytes(bytes[42..46].try_into().expect("four bytes"));
            if now > Nanos::from_secs(10) {
                waits.push(now.since(at(sent)).0 / 1_000_000);
            }
        }
        now = queue.poll_at(now).map_or(at(number), |leaves| leaves.min(at(number))).max(now);
    }
    queue.recount().expect("the counters are right");
    waits.sort_unstable();
    let counters = queue.counters();
    Deaf {
        sent: counters.delivered.packets,
        marked: counters.marked,
        dropped: counters.dropped_for(DropReason::Aqm).packets + refused,
        median_wait: waits[waits.len() / 2],
    }
}

/// Goal: an unresponsive flow, ECN-capable or not, cannot fill the queue under an AQM that drops
/// arrivals, and the link is fully used except with BLUE; ECN-capable traffic is marked. Method: 15
/// Mbit/s on a 10 Mbit/s link.
#[test]
fn arrivals_are_turned_away_of_deaf_traffic() {
    for (kind, most, least) in [
        (AqmKind::Pie, 40, 23_980),
        (AqmKind::Pi2, 40, 23_980),
        (AqmKind::Red, 40, 23_980),
        // Its probability keeps rising until the queue is short.
        (AqmKind::Blue, 250, 18_000),
    ] {
        for ecn in [0, 1, 2] {
            let Deaf { sent, marked, dropped, median_wait } = deaf(kind, false, ecn);
            let what = format!("{kind} {ecn}: {median_wait} ms, {sent} {dropped} {marked}");
            assert!(median_wait <= most && sent > least && dropped > 10_000, "{what}");
            assert_eq!(marked > 0, ecn != 0, "{what}");
        }
    }
}

/// Goal: an unresponsive flow, ECN-capable or not, cannot fill the queue under COBALT, with or
/// without the L4S threshold, and the link is fully used. Under CoDel it fills the queue. Method:
/// 15 Mbit/s on a 10 Mbit/s link.
#[test]
fn cobalt_keeps_the_queue_of_deaf_traffic_short() {
    for (ecn, l4s) in [(0, true), (1, true), (1, false), (2, true)] {
        let cobalt = deaf(AqmKind::Cobalt, l4s, ecn);
        assert!(cobalt.median_wait <= 40, "{ecn} {l4s}: {} ms", cobalt.median_wait);
        assert!(cobalt.sent > 23_980 && cobalt.dropped > 11_000, "{ecn} {l4s}: {}", cobalt.sent);
        assert!(deaf(AqmKind::CoDel, l4s, ecn).median_wait > 150);
    }
    // Without an AQM nothing is dropped, and only ECT(1) is marked, by the threshold.
    for (ecn, l4s, marks) in
        [(0, true, false), (1, true, true), (1, false, false), (2, true, false)]
    {
        let none = deaf(AqmKind::None, l4s, ecn);
        assert_eq!((none.dropped, 10 * none.marked > 9 * none.sent), (0, marks), "{ecn} {l4s}");
        assert!(marks || none.marked == 0);
    }
}

/// Goal: a clock that is set back does not block the link, and does not affect the AQM. Method: a
/// load of nine tenths of the rate, each frame pushed and polled for with a clock that is set back
/// by three seconds, wraps after 2^32 ms, or returns one timestamp an hour ahead. All frames leave,
/// at most 5 ms apart, and none is dropped.
#[test]
fn a_clock_that_is_set_back_stops_no_line() {
    type Clock = fn(u64) -> u64;
    let clocks: [Clock; 3] = [
        |ms| if ms < 2_000 { 9_000 + ms } else { 6_000 + ms },
        |ms| ((1 << 32) - 2_000 + ms) % (1 << 32),
        |ms| if ms == 2_000 { 3_600_000 } else { ms },
    ];
    for (number, clock) in clocks.into_iter().enumerate() {
        let mut queue = SmartQueue::upload(mbit(10)).frames(KEY).expect("a queue");
        let (mut sent, mut latest) = (0, 0);
        for ms in 0..4_000 {
            let now = Nanos::from_millis(clock(ms));
            if ms % 10 < 9 {
                queue.push(now, &frame(udp(1, 1, 1_208), 1)).expect("there is room");
            }
            while queue.pop(now).is_some() {
                assert!(ms - latest <= 5, "clock {number}: nothing left for {} ms", ms - latest);
                (sent, latest) = (sent + 1, ms);
            }
        }
        assert_eq!(sent + queue.backlog().packets, 3_600, "clock {number}");
        assert!(queue.backlog().packets <= 3, "clock {number}: {:?}", queue.backlog());
    }
}

/// Goal: whichever methods a caller uses, a clock that was set back does not block the link.
/// Method: frames that keep the link busy for some milliseconds, a clock set back by an hour, and
/// callers that return at the time of `poll_at`, with and without a device.
#[test]
fn a_caller_that_comes_when_told_goes_on_after_a_step_back() {
    for (rooms, shows) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut queue: FrameQueue = SmartQueue::upload(mbit(10)).frames(KEY).expect("a queue");
        let before = Nanos::from_secs(3_600);
        for number in 0..4 {
            queue.push(before, &frame(udp(1, 1, 1_208), number)).expect("there is room");
        }
        assert!(queue.pop(before).is_some());
        if rooms {
            queue.set_device(DeviceRoom::Takes(1_300));
        }
        let (mut now, mut sent, mut looks) = (Nanos::ZERO, vec![], 0);
        while let Some(at) = queue.poll_at(now).filter(|_| looks < 20) {
            looks += 1;
            if at > now {
                now = at;
                continue;
            }
            let has_left =
                if shows { queue.pop_if(now, |_| true) } else { queue.pop(now).is_some() };
            if has_left {
                sent.push(now);
                if rooms {
                    queue.set_device(DeviceRoom::Takes(1_300));
                }
            }
        }
        assert_eq!(sent, [1, 2, 3].map(Nanos::from_millis), "{rooms} {shows}");
        queue.recount().expect("the counters are right");
    }
}
