//! The virtual clock written from its definition in rational arithmetic, and a lock-step
//! comparison of the two over any history. Slow, and knows no reciprocal, no carry, no saturation.

use sched_core::Nanos;
use shaper::{Rate, Shaper};

/// The clock as a fraction: `next / bps` is the instant from which the next packet may leave.
///
/// Room: instants below 2⁶⁵ ns (the end of time and one packet) × 4·10¹¹ < 2¹⁰⁴.
struct Twin {
    rate: Rate,
    next: u128,
    /// What was charged since the line was last open, and from when, in whole nanoseconds.
    owed: u128,
    owed_from: u128,
    catch_up: u128,
    backlog_since: Option<u128>,
}

const END: u128 = u64::MAX as u128;

impl Twin {
    fn new(rate: Rate, catch_up: u64) -> Self {
        let catch_up = catch_up.into();
        Self { rate, next: 0, owed: 0, owed_from: 0, catch_up, backlog_since: None }
    }

    /// `None` when stopped or unlimited; then `next` counts in nanoseconds.
    fn bps(&self) -> Option<u128> {
        self.rate.as_bits_per_second().filter(|&bps| bps > 0).map(u128::from)
    }

    /// Never is the end of time.
    fn due(&self) -> u128 {
        match self.bps() {
            Some(bps) => self.next.div_ceil(bps).min(END),
            None if self.rate == Rate::UNLIMITED => 0,
            None => END,
        }
    }

    fn is_open(&self, now: u128) -> bool {
        self.due() <= now && self.due() < END
    }

    fn charge(&mut self, now: u128, len: u32) {
        let Some(bps) = self.bps() else { return };
        // Paid up; at the end of time everything is.
        if self.due() <= now {
            let since = self.backlog_since.map_or(now, |since| since.min(now));
            self.backlog_since = Some(since);
            let start = now.saturating_sub(self.catch_up).max(since);
            // One nanosecond late, not a part of one.
            if start > self.next.div_ceil(bps) {
                self.next = start * bps;
            }
            (self.owed, self.owed_from) = (0, self.next.div_ceil(bps));
        }
        self.owed += u128::from(len.min(1 << 31));
        self.next += u128::from(len.min(1 << 31)) * 8_000_000_000;
        if self.next / bps > END {
            self.next = END * bps;
        }
    }

    fn wake(&mut self, now: u128) {
        self.backlog_since = Some(now);
    }

    fn set_rate(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        let end = self.next.div_ceil(self.bps().unwrap_or(1)).min(END);
        self.rate = rate;
        self.next = match self.bps() {
            Some(bps) if self.owed > 1 << 31 => end * bps,
            Some(bps) => {
                let owed = self.owed * 8_000_000_000;
                end.min(self.owed_from + owed.div_ceil(bps)) * bps
            }
            None => end,
        };
    }
}

/// Runs the operations that `history` encodes on the shaper and on its twin and compares them after
/// each; returns how many packets left. Any bytes are a history.
///
/// The first bytes choose rate and catch-up. Then each operation is one byte that says what to do
/// and the bytes of its argument; what is missing at the end reads as zero. Times reach every
/// `u64`, backwards too.
pub(crate) fn compare(history: &[u8]) -> usize {
    let mut bytes = history.iter().copied();
    let mut number = |width: u32| {
        (0..width).fold(0_u64, |sum, _| sum << 8 | u64::from(bytes.next().unwrap_or(0)))
    };
    let rate = some_rate(number(2));
    let catch_up = [0, 1, 1_000, 1_000_000, u64::MAX][(number(1) % 5) as usize];
    let mut shaper = Shaper::new(rate).with_catch_up(Nanos(catch_up));
    let mut twin = Twin::new(rate, catch_up);
    let (mut now, mut departures) = (0_u64, 0);

    for _ in 0..history.len() {
        let operation = number(1);
        match operation % 16 {
            0..=4 => {
                let len = number(2) as u32;
                if shaper.is_open(Nanos(now)) {
                    shaper.charge(Nanos(now), len);
                    twin.charge(now.into(), len);
                    departures += 1;
                }
            }
            5 => {
                let len = (number(4) as u32) >> (number(1) % 32);
                shaper.charge(Nanos(now), len);
                twin.charge(now.into(), len);
            }
            6..=8 => now = shaper.due().0.max(now),
            9 => now = now.saturating_add(number(1)),
            10 => now = now.saturating_add(number(4)),
            11 => now = now.saturating_sub(number(4)),
            12 => now = number(8) >> (number(1) % 64),
            13 => {
                shaper.wake(Nanos(now));
                twin.wake(now.into());
            }
            14 => {
                let rate = some_rate(number(2));
                shaper.set_rate(rate);
                twin.set_rate(rate);
            }
            _ => {
                shaper.set_rate(shaper.rate());
                twin.set_rate(twin.rate);
            }
        }
        assert_eq!(u128::from(shaper.due().0), twin.due(), "after {operation} at {now}");
        assert_eq!(shaper.is_open(Nanos(now)), twin.is_open(now.into()), "at {now}");
        assert_eq!(shaper.rate(), twin.rate);
    }
    departures
}

/// Stopped, unlimited, or a rate whose magnitude is spread evenly over the range.
fn some_rate(seed: u64) -> Rate {
    match seed {
        0x0100 => Rate::STOPPED,
        0x0200 => Rate::UNLIMITED,
        _ => {
            // (1,000 to 1,999) · 2^(0..=29): past the fastest, which the clamp then hits often.
            let bps = (1_000 + (seed >> 5) % 1_000) << (seed % 32).min(29);
            Rate::bits_per_second(bps.min(400_000_000_000)).expect("in range")
        }
    }
}
