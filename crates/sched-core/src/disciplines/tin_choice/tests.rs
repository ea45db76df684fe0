use super::*;
use crate::Rate;
use conformance::Xorshift;
use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Maximum number of tins.
const TINS: usize = TinConfig::MAX_TINS as usize;

type Choice = TinChoice<[TinState; TINS]>;

/// The longest packet.
const L: u32 = 1_000;
/// Nanoseconds per byte on the link: 8 Mbit/s.
const BYTE: u64 = 1_000;

/// Rate of the link in bits per second.
const LINE: u64 = 8_000_000;

fn share(thousandths: u64) -> TinConfig {
    TinConfig::by_weight(1).with_rate(LINE * thousandths / 1_000)
}

/// A link of 8 Mbit/s, with one queue of lengths per tin.
struct Line {
    choice: Choice,
    queues: Vec<VecDeque<u32>>,
    now: u64,
    /// Packets sent: start, tin and length.
    sent: Vec<(u64, u32, u32)>,
}

impl Line {
    fn of(tins: &[TinConfig]) -> Self {
        let mut choice = Choice::new([TinState::EMPTY; TINS], L, AsBooked).unwrap();
        choice.set_tins(tins, 0).unwrap();
        Self { choice, queues: vec![VecDeque::new(); tins.len()], now: 0, sent: Vec::new() }
    }

    /// Returns the tins that hold packets, one bit each.
    fn held(&self) -> u32 {
        let tins = (0..).zip(&self.queues);
        tins.fold(0, |held, (tin, queue)| held | u32::from(!queue.is_empty()) << tin)
    }

    fn put(&mut self, tin: u32, len: u32) {
        self.choice.advance(Nanos(self.now));
        self.enqueue(tin, len);
    }

    fn enqueue(&mut self, tin: u32, len: u32) {
        let queue = &mut self.queues[tin as usize];
        queue.push_back(len);
        if queue.len() == 1 {
            self.choice.backlogged(tin);
        }
    }

    /// Dequeues the next packet and returns its tin and length.
    fn dequeue(&mut self) -> Option<(u32, u32)> {
        let tin = self.choice.front();
        let queue = &mut self.queues[tin as usize];
        let len = queue.pop_front()?;
        self.choice.served(len, queue.is_empty());
        Some((tin, len))
    }

    /// Sends a packet; a nanosecond passes if there is none.
    fn step(&mut self) {
        self.choice.advance(Nanos(self.now));
        match self.dequeue() {
            Some((tin, len)) => {
                self.sent.push((self.now, tin, len));
                self.now += u64::from(len) * BYTE;
            }
            None => self.now += 1,
        }
        self.choice.recount(self.held()).unwrap();
    }

    fn set_tins(&mut self, tins: &[TinConfig]) {
        self.choice.set_tins(tins, self.held()).unwrap();
    }

    /// Keeps packets of `len` bytes queued in each of `tins`, for `packets` packets.
    fn flood(&mut self, tins: &[u32], len: u32, packets: u32) {
        for _ in 0..packets {
            for &tin in tins {
                while self.queues[tin as usize].len() < 2 {
                    self.put(tin, len);
                }
            }
            self.step();
        }
    }

    /// Returns the tins of the last `packets` packets.
    fn last(&self, packets: usize) -> String {
        let sent = &self.sent[self.sent.len() - packets..];
        sent.iter().map(|(_, tin, _)| char::from(b'0' + *tin as u8)).collect()
    }

    /// Returns the bytes of `tin` since `from`.
    fn bytes(&self, tin: u32, from: usize) -> u64 {
        let sent = self.sent[from..].iter().filter(|sent| sent.1 == tin);
        sent.map(|sent| u64::from(sent.2)).sum()
    }
}

/// Returns the share of the link of each tin, in thousandths.
fn shares(line: &Line) -> Vec<u64> {
    let all: u64 = line.sent.iter().map(|sent| u64::from(sent.2)).sum();
    let tins = 0..line.choice.tins();
    tins.map(|tin| (line.bytes(tin, 0) * 1_000 + all / 2) / all).collect()
}

/// Goal: the shares of CAKE's tins if every tin is flooded. Method: one flow per tin, long packets.
#[test]
fn tins_that_are_all_flooded_have_their_shares_from_the_top() {
    let mut diffserv4 = Line::of(&[share(1_000), share(62), share(500), share(250)]);
    diffserv4.flood(&[0, 1, 2, 3], L, 20_000);
    assert_eq!(shares(&diffserv4), [188, 62, 500, 250]);
    let mut without_voice = Line::of(&[share(1_000), share(62), share(500), share(250)]);
    without_voice.flood(&[0, 1, 2], L, 20_000);
    assert_eq!(shares(&without_voice), [438, 62, 500, 0]);
    // More than the rate of the link: the tins at the top get their share, the next gets the rest,
    // and the others the floor.
    let mut overbooked = Line::of(&[share(1_000), share(875), share(600), share(500)]);
    overbooked.flood(&[0, 1, 2, 3], L, 20_000);
    let shares = shares(&overbooked);
    assert!(shares[0] >= 7 && shares[1] >= 7 && shares[0] + shares[1] <= 17, "{shares:?}");
    assert!(shares[2] >= 480 && shares[3] == 500, "{shares:?}");
}

/// Goal: borrowing beyond the share: the tin that was first to exceed it goes first, and a tin
/// alone gets the whole link.
#[test]
fn tins_that_are_all_beyond_their_shares_borrow_in_turn() {
    let mut line = Line::of(&[share(100), share(100), share(200)]);
    line.flood(&[1], L, 50);
    assert_eq!(line.bytes(1, 0), 50 * u64::from(L), "alone");
    assert_eq!(line.now, 50 * u64::from(L) * BYTE, "without a pause");
    let from = line.sent.len();
    line.flood(&[0, 1, 2], L, 10_000);
    // Unused shares are lent to the tin that returns within its share first, most often that of the
    // highest rate: a packet moves its clock by 5 packets of the link, and those of the others by
    // 10.
    let sent: Vec<u64> = (0..3).map(|tin| line.bytes(tin, from) / 100_000).collect();
    assert_eq!(sent, [14, 14, 71]);
}

#[test]
fn a_packet_of_the_highest_tin_waits_for_the_packet_on_the_wire_only() {
    let mut line = Line::of(&[share(1_000), share(62), share(500), share(250)]);
    for round in 0..500_u32 {
        line.flood(&[0, 1, 2], L, 3 + round % 3);
        // 50 bytes after 3,000 or more are 13 of 1,000 at most.
        line.put(3, 50);
        line.step();
        if line.last(1) != "3" {
            assert!(line.choice.is_floor_due() || round % 16 < 2, "at {round}");
            line.step();
        }
        assert_eq!(line.last(1), "3");
    }
}

/// Goal: by weight, tins share in the ratio of their weights, whatever the lengths of their
/// packets.
#[test]
fn without_rates_tins_share_by_weight() {
    let weights = [1_024, 64, 512, 256];
    let mut line = Line::of(&weights.map(TinConfig::by_weight));
    let mut random = Xorshift::new(3);
    for _ in 0..60_000 {
        for tin in 0..4 {
            while line.queues[tin as usize].len() < 2 {
                let len = 1 + random.below([L, 64, 300, L][tin as usize]);
                line.put(tin, len);
            }
        }
        line.step();
    }
    let shares = shares(&line);
    for (share, weight) in shares.iter().zip(weights) {
        let expected = u64::from(weight) * 1_000 / 1_856;
        assert!(share.abs_diff(expected) <= 5, "{share} of {expected}");
    }
    // A turn of tin 0 is 16 packets, that of tin 1 one.
    line.flood(&[0, 1], L, 64);
    let turns = line.last(51);
    assert!(turns.contains("10000000000000000100000"), "{turns}");
}

#[test]
fn another_plan_takes_effect_at_once_and_loses_nothing() {
    let mut line = Line::of(&[share(1_000), share(62), share(500), share(250)]);
    line.flood(&[0, 1, 2, 3], L, 100);
    line.set_tins(&[share(1_000), share(10), share(10), share(500)]);
    let from = line.sent.len();
    line.flood(&[0, 1, 2, 3], L, 2_000);
    assert!((985..=1_005).contains(&(line.bytes(3, from) / 1_000)));
    // By weight from now on.
    line.set_tins(&[1, 1, 1, 1].map(TinConfig::by_weight));
    let from = line.sent.len();
    line.flood(&[0, 1, 2, 3], L, 400);
    for tin in 0..4 {
        assert!((99..=101).contains(&(line.bytes(tin, from) / 1_000)));
    }
}

#[test]
fn what_is_out_of_range_is_refused_with_the_range() {
    let mut tins = Choice::new([TinState::EMPTY; TINS], L, AsBooked).unwrap();
    let refused =
        |tins: &mut Choice, all: &[TinConfig]| tins.set_tins(all, 0).unwrap_err().to_string();
    assert_eq!(refused(&mut tins, &[]), "number of tins 0 is out of range (expected 1 to 8)");
    assert_eq!(
        refused(&mut tins, &[share(1); 9]),
        "number of tins 9 is out of range (expected 1 to 8)"
    );
    let weight = TinConfig::by_weight(0);
    assert_eq!(
        refused(&mut tins, &[weight]),
        "weight of a tin 0 is out of range (expected 1 to 65535)"
    );
    let slow = share(1_000).with_rate(999);
    let text = "rate in bits per second 999 is out of range (expected 1000 to 400000000000)";
    assert_eq!(refused(&mut tins, &[share(1), slow]), text);
    assert_eq!((tins.tins(), tins.tin(0)), (1, Some(TinConfig::by_weight(1))));
    assert_eq!((size_of::<TinState>(), size_of::<Choice>()), (72, 680));
}

/// Goal: a change of the rate gains no bandwidth. Method: a clock is ahead by an equal number of
/// bytes at every rate.
#[test]
fn another_rate_finds_the_clock_as_many_bytes_ahead() {
    let mut line = Line::of(&[share(1_000), share(100)]);
    line.put(1, L);
    line.put(1, L);
    line.step();
    let ahead = |line: &Line| line.choice.tins[1].clock().since(Elapsed::FIRST).0;
    assert_eq!(ahead(&line), 10_000_000, "a packet at a tenth of the line");
    for (thousandths, nanos) in [(200, 5_000_000), (50, 20_000_000), (100, 10_000_000)] {
        line.set_tins(&[share(1_000), share(thousandths)]);
        assert_eq!(ahead(&line), nanos);
    }
}

/// Goal: a link that is stopped for a day gives no tin more credit than is guaranteed. Method: all
/// tins hold packets; then the highest sends its credit, four packets, and no more before the
/// others.
#[test]
fn a_line_that_stood_still_gives_no_more_credit_than_is_promised() {
    for pause in [1_000_000_000, 86_400_000_000_000, 1 << 62] {
        let mut line = Line::of(&[share(500), share(250), share(250)]);
        (0..3).for_each(|tin| (0..40).for_each(|_| line.put(tin, L)));
        line.step();
        line.now = pause;
        (0..24).for_each(|_| line.step());
        // The first one was chosen before the pause.
        let sent = line.last(23);
        let first = sent.find(|tin| tin != '2').unwrap();
        assert!((3..=6).contains(&first), "{sent} after {pause}");
    }
}

/// Goal: only time that passes counts. Method: shifted timestamps, and a clock that steps back, do
/// not change the result.
#[test]
fn a_shift_of_the_clock_and_steps_back_change_nothing() {
    let play = |epoch: u64, jitter: u64| {
        let mut line = Line::of(&[share(600), share(100), share(300)]);
        let mut random = Xorshift::new(9);
        let mut sent = String::new();
        for _ in 0..2_000 {
            let tin = random.below(3);
            let len = 1 + random.below(L);
            let told = epoch.wrapping_add(line.now);
            line.choice.advance(Nanos(told));
            line.enqueue(tin, len);
            if random.below(3) > 0 {
                // Backwards, and then to where the clock was.
                line.choice.advance(Nanos(told.saturating_sub(jitter)));
                line.choice.advance(Nanos(told));
                if let Some((tin, len)) = line.dequeue() {
                    sent.push(char::from(b'0' + tin as u8));
                    line.now += u64::from(len) * BYTE;
                }
            }
        }
        sent
    };
    let expected = play(0, 0);
    for epoch in [0, 1, 1 << 40, u64::MAX - (1 << 40)] {
        for jitter in [0, 1_000, 1_000_000_000] {
            assert_eq!(play(epoch, jitter), expected, "{epoch} {jitter}");
        }
    }
}

/// Goal: the guarantees of the module, for random plans and random competing traffic. Method: one
/// tin stays backlogged, the others come and go; all intervals between packets are checked.
#[test]
fn no_tin_exceeds_its_bound_nor_falls_below_its_share() {
    let mut random = Xorshift::new(17);
    let (mut nearest_share, mut nearest_priority) = (i64::MIN, i64::MIN);
    for run in 0..conformance::effort::effort(60, 3_000) {
        let count = 2 + random.below(7);
        let rates: Vec<u64> = (0..count).map(|_| 10 + u64::from(random.below(500))).collect();
        let mut line = Line::of(&rates.iter().map(|&rate| share(rate)).collect::<Vec<_>>());
        let kept = random.below(count);
        // True for packets sent while their tin is within its share.
        let mut within = Vec::new();
        let mut mood = vec![true; count as usize];
        for _ in 0..400 {
            for tin in 0..count {
                if tin != kept && random.below(32) == 0 {
                    mood[tin as usize] = random.below(3) > 0;
                }
                let most = if tin == kept || mood[tin as usize] { 3 } else { 0 };
                while line.queues[tin as usize].len() < most {
                    let len = if run % 2 == 0 { L } else { 1 + random.below(L) };
                    line.put(tin, len);
                }
            }
            let has_priority = line.choice.within >> line.choice.front() & 1 == 1;
            let before = line.sent.len();
            line.step();
            within.push(has_priority && line.sent.len() > before);
        }
        let slack = |tin: u32| (2_i64 << (count - tin)) * i64::from(L);
        let span = |first: usize, last: usize| {
            let nanos =
                line.sent[last].0 + u64::from(line.sent[last].2) * BYTE - line.sent[first].0;
            i64::try_from(nanos / BYTE).unwrap()
        };
        for first in 0..line.sent.len() {
            let (mut of_tin, mut kept_bytes) = (vec![0_i64; count as usize], 0_i64);
            for (last, &(_, tin, len)) in line.sent.iter().enumerate().skip(first) {
                let bytes = span(first, last);
                if within[last] {
                    of_tin[tin as usize] += i64::from(len);
                    let most = bytes * rates[tin as usize].cast_signed() / 1_000 + slack(tin);
                    let over = of_tin[tin as usize] - most;
                    assert!(over <= 0, "tin {tin} of {rates:?}: {over} bytes beyond");
                    nearest_priority = nearest_priority.max(over * 1_000 / slack(tin));
                }
                kept_bytes += i64::from(if tin == kept { len } else { 0 });
                let above: u64 = rates.iter().skip(kept as usize + 1).sum();
                let line_rate = 1_000 - 1_000_i64.div_ceil_of(i64::from(Choice::FLOOR));
                let least =
                    (line_rate - above.cast_signed()).min(rates[kept as usize].cast_signed());
                let short = bytes * least / 1_000 - slack(kept) - kept_bytes;
                assert!(short <= 0, "tin {kept} of {rates:?}: {short} bytes short");
                nearest_share = nearest_share.max(short * 1_000 / slack(kept));
            }
        }
    }
    // Distance from the bounds, in thousandths of the constant term. With full effort, 0.9 and 0.35
    // of it are used; the sequence below uses 0.98 of the second.
    assert!(nearest_priority >= -700, "{nearest_priority}");
    assert!(nearest_share >= -700, "{nearest_share}");
}

/// Goal: the guarantee of a share is used up to nearly its constant term. Method: the link is
/// stopped until each of the seven tins above has its maximum credit; then the lowest becomes
/// backlogged, and they go first.
#[test]
fn the_bound_of_a_share_is_nearly_reached() {
    const FLOOR: u32 = 1_024;
    let (own, above) = (992, 1);
    let mut tins = vec![share(own)];
    tins.extend([share(above); 7]);
    let mut line = Line::of(&tins);
    line.choice = line.choice.with_floor(FLOOR);
    line.flood(&[1, 2, 3, 4, 5, 6, 7], L, 20);
    // The credit of the second lowest is 255 packets; its rate sends one per second.
    line.now += 1_000_000_000_000;
    let first = line.sent.len();
    line.flood(&[0, 1, 2, 3, 4, 5, 6, 7], L, 700);
    let least = own.min(1_000 - 1_000_u64.div_ceil(FLOOR.into()) - 7 * above);
    let (slack, mut span, mut kept, mut most) = (512 * u64::from(L), 0, 0, 0);
    for &(_, tin, len) in &line.sent[first..] {
        span += u64::from(len);
        kept += if tin == 0 { u64::from(len) } else { 0 };
        let short = (span * least / 1_000).saturating_sub(kept);
        assert!(short <= slack, "{short} of {slack}");
        most = most.max(short);
    }
    // This figure is quoted in `docs/proofs/tins.md`.
    assert_eq!(most * 100 / slack, 98, "{most} of {slack}");
}

/// Division that rounds up.
trait DivCeilOf {
    fn div_ceil_of(self, by: Self) -> Self;
}

impl DivCeilOf for i64 {
    fn div_ceil_of(self, by: Self) -> Self {
        (self + by - 1) / by
    }
}

/// Goal: no tin starves, whatever the rates. Method: tins that each claim the whole link are
/// flooded; the longest time without a packet of a tin is near its bound.
#[test]
fn no_tin_starves_beyond_the_floor() {
    for count in 2..=8_u32 {
        let mut line = Line::of(&vec![share(1_000); count as usize]);
        let all: Vec<u32> = (0..count).collect();
        line.flood(&all, L, 6_000);
        let bound = u64::from(count) * (64 + 1) * u64::from(L);
        let mut worst = 0;
        for tin in 0..count {
            let mut since = 0;
            for &(_, of, len) in &line.sent {
                since = if of == tin { 0 } else { since + u64::from(len) };
                worst = worst.max(since);
            }
        }
        assert!(worst <= bound, "{worst} of {bound}");
        assert!(worst * 10 >= u64::from(count - 1) * 64 * u64::from(L) * 9, "{worst} of {bound}");
    }
}

/// Goal: no tin starves, however long the packets and the configured floor: the bytes that a tin
/// waits for never exceed the range of the counter. Method: eight tins, of which one takes all that
/// the floor leaves.
#[test]
fn the_floor_of_the_longest_packets_ends_at_2_to_the_28() {
    const LONGEST: u32 = Packet::MAX_LEN;
    for floor in [200, 256, 257, 1_024] {
        let mut choice =
            Choice::new([TinState::EMPTY; TINS], LONGEST, AsBooked).unwrap().with_floor(floor);
        let of_rate = |rate| TinConfig::by_weight(1).with_rate(rate);
        let mut tins = [of_rate(Rate::MIN_BITS_PER_SECOND); 8];
        tins[7] = of_rate(Rate::MAX_BITS_PER_SECOND);
        choice.set_tins(&tins, 0xff).unwrap();
        let (mut waited, mut worst) = ([0_u64; 8], 0);
        for _ in 0..20_000 {
            let served = choice.front() as usize;
            choice.served(LONGEST, false);
            waited = waited.map(|bytes| bytes + u64::from(LONGEST));
            waited[served] = 0;
            worst = worst.max(waited.into_iter().max().unwrap());
        }
        let bytes = u64::from(floor.min(256) * LONGEST);
        let bound = 8 * (bytes + u64::from(LONGEST));
        assert!(worst <= bound, "{floor} packets: {worst} of {bound}");
        assert!(worst * 10 >= 7 * bytes * 9, "{floor} packets: {worst} of {bound}");
    }
}

/// Goal: the fast path for most packets of a saturated link selects like the full path. Method: two
/// choices in step, of which one never takes the fast path; clock steps from zero to ten hours, so
/// that recorded times of idle tins become old.
#[test]
fn the_short_way_chooses_as_the_long_one() {
    let mut random = Xorshift::new(1);
    let mut short_ways = [0_u32; 9];
    for tins in 2..=8_u32 {
        for history in 0..32 {
            let slow = history % 4 == 0;
            let rate = |random: &mut Xorshift| {
                let rate = if slow { 1_000 } else { 1_000_000 + u64::from(random.below(9)) };
                TinConfig::by_weight(1).with_rate(rate)
            };
            let configs: Vec<_> = (0..tins).map(|_| rate(&mut random)).collect();
            let mut short =
                Choice::new([TinState::EMPTY; TINS], L, AsBooked).unwrap().with_floor(16);
            short.set_tins(&configs, 0).unwrap();
            let mut long = short;
            let (mut held, mut now) = (0_u32, 0_u64);
            for _ in 0..2_000 {
                now += match random.below(64) {
                    0 => 1 << random.below(46),
                    1 => 0,
                    _ => u64::from(random.below(2_000)) * BYTE,
                };
                let told = if random.below(64) == 0 { now.saturating_sub(1 << 20) } else { now };
                short.advance(Nanos(told));
                long.advance(Nanos(told));
                let (tin, len) = (random.below(tins), 1 + random.below(L));
                match random.below(8) {
                    0..2 if held >> tin & 1 == 0 => {
                        held |= 1 << tin;
                        short.backlogged(tin);
                        long.backlogged(tin);
                    }
                    0 if held.count_ones() > 1 => {
                        held &= !(1 << tin);
                        short.emptied(tin);
                        long.emptied(tin);
                    }
                    _ if held != 0 => {
                        let front = short.front();
                        let is_idle = random.below(32) == 0;
                        held &= !(u32::from(is_idle) << front);
                        if is_idle || !short.borrowed(front, len, len) {
                            short.served_in_full(len, len, is_idle);
                        } else {
                            short_ways[tins as usize] += 1;
                        }
                        long.served_in_full(len, len, is_idle);
                    }
                    _ => {}
                }
                assert_eq!((short.recount(held), long.recount(held)), (Ok(()), Ok(())));
                assert_eq!((short.front(), short.within), (long.front(), long.within));
            }
        }
    }
    assert!(short_ways[2..=4].iter().all(|ways| *ways > 1_000), "{short_ways:?}");
}

/// Goal: moving time back before it overflows does not change the selection. Method: two choices in
/// step, one of which is a little before the time from which all is moved back; both flooded, with
/// tins that come and go, changes of rates, and steps of up to hours.
#[test]
fn time_that_is_moved_back_changes_no_choice() {
    let mut random = Xorshift::new(3);
    for history in 0..64_u64 {
        let tins = 2 + random.below(7);
        let rate = |random: &mut Xorshift| {
            TinConfig::by_weight(1).with_rate(1_000_000 + u64::from(random.below(1_000_000)))
        };
        let mut configs: Vec<_> = (0..tins).map(|_| rate(&mut random)).collect();
        let mut young = Choice::new([TinState::EMPTY; TINS], L, AsBooked).unwrap().with_floor(16);
        young.set_tins(&configs, 0).unwrap();
        let mut old = young;
        old.age_by(LATEST.since(Elapsed::FIRST).0 - history * (1 << 20));
        let (mut held, mut now, mut before) = (0_u32, 0_u64, old.time.now());
        let mut has_moved = false;
        for _ in 0..2_000 {
            now += match random.below(64) {
                0 => 1 << random.below(44),
                _ => u64::from(random.below(2_000)) * BYTE,
            };
            let (tin, len) = (random.below(tins), 1 + random.below(L));
            let what = random.below(512);
            if what == 511 {
                configs[tin as usize] = rate(&mut random);
            }
            for choice in [&mut young, &mut old] {
                choice.advance(Nanos(now));
                match what {
                    511 => choice.set_tins(&configs, held).unwrap(),
                    0..128 if held >> tin & 1 == 0 => choice.backlogged(tin),
                    0..64 if held.count_ones() > 1 => choice.emptied(tin),
                    _ if held != 0 => choice.served(len, what == 510),
                    _ => {}
                }
            }
            let front = young.front();
            assert_eq!(front, old.front());
            held = young.backlogged;
            assert_eq!((young.recount(held), old.recount(held)), (Ok(()), Ok(())));
            assert_eq!(
                (young.within, young.tins.map(|tin| tin.served())),
                (old.within, old.tins.map(|tin| tin.served()))
            );
            let time = old.time.now();
            has_moved |= time < before;
            before = time;
        }
        assert!(has_moved, "history {history} ends at {before:?}");
    }
}

impl Choice {
    /// Ages the choice by `span`.
    fn age_by(&mut self, span: u64) {
        self.time.age_by(span);
        self.tins.iter_mut().for_each(|tin| tin.age_by(span));
        self.note_all_due();
        self.next_within = LATEST.min(self.next_within.plus(Nanos(span)));
        if self.borrowing_until > Nanos::ZERO {
            self.borrowing_until = LATEST.min(self.borrowing_until.plus(Nanos(span)));
        }
    }
}
