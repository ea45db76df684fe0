//! The virtual clock written from its definition, as a debt that time pays, and a lock-step
//! comparison of the two over any history. Slow, and knows no reciprocal, no fraction, no carry.

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Rate, Shaper};

/// The debt of a line in units of 10⁻⁹ bit, as it was at one instant: a packet adds to it, each
/// nanosecond takes the rate from it. Below zero it is lateness that may be caught up.
///
/// Room: times below 2⁶⁵ ns (the end of time and one packet) × 4·10¹¹ < 2¹⁰⁴.
struct Twin {
    rate: Rate,
    debt: i128,
    /// When it was that; at rates that are not finite, when the line was paid up.
    at: i128,
    /// The latest departure or change.
    since: i128,
    catch_up: i128,
    /// After the end of time: never yet.
    backlog_since: i128,
}

const END: i128 = u64::MAX as i128;

impl Twin {
    fn new(rate: Rate, catch_up: u64) -> Self {
        let catch_up = catch_up.into();
        Self { rate, debt: 0, at: 0, since: 0, catch_up, backlog_since: END }
    }

    /// `None` when stopped or unlimited.
    fn bps(&self) -> Option<i128> {
        self.rate.as_bits_per_second().filter(|&bps| bps > 0).map(i128::from)
    }

    /// The first whole nanosecond without debt.
    fn paid_at(&self) -> i128 {
        let up = |debt: i128, bps: i128| -((-debt).div_euclid(bps));
        self.bps().map_or(self.at, |bps| self.at + up(self.debt, bps))
    }

    /// Never is the end of time.
    fn due(&self) -> i128 {
        match self.bps() {
            Some(_) => self.paid_at(),
            None if self.rate == Rate::UNLIMITED => 0,
            None => END,
        }
    }

    fn is_open(&self, now: i128) -> bool {
        self.due() <= now && self.due() < END
    }

    /// Time before this is not made up at `now`.
    fn earliest(&self, now: i128) -> i128 {
        (now - self.catch_up).max(self.backlog_since.min(now)).max(0)
    }

    /// No debt at `at`.
    fn clear(&mut self, at: i128) {
        (self.debt, self.at) = (0, at);
    }

    fn charge(&mut self, now: i128, len: u32) {
        if self.rate == Rate::UNLIMITED {
            return;
        }
        if self.bps().is_some() && self.paid_at() <= now {
            // Before the last packet or change, the clock has stepped back: it stands.
            let now = now.max(self.since);
            self.backlog_since = self.backlog_since.min(now);
            // One nanosecond late, not a part of one.
            if self.earliest(now) > self.paid_at() {
                self.clear(self.earliest(now));
            }
            self.since = now;
        }
        self.debt += i128::from(len.min(1 << 30)) * 8_000_000_000;
        self.stay_within_time();
    }

    fn stay_within_time(&mut self) {
        if self.bps().is_some() && self.paid_at() >= END {
            self.clear(END);
        }
    }

    fn wake(&mut self, now: i128) {
        self.backlog_since = now;
    }

    fn set_rate(&mut self, now: i128, rate: Rate) {
        let paid_at = self.paid_at();
        if rate == self.rate || paid_at == END && rate != Rate::UNLIMITED {
            self.rate = rate;
            self.stay_within_time();
            return;
        }
        let now = now.max(self.since);
        let debt = match self.bps() {
            Some(bps) if self.earliest(now) <= paid_at => Some(self.debt - (now - self.at) * bps),
            None if self.debt > 0 => Some(self.debt),
            _ => None,
        };
        self.rate = rate;
        if let (Some(_), Some(debt)) = (self.bps(), debt) {
            (self.debt, self.at) = (debt, now);
            let floor = (now - self.catch_up).max(0);
            if self.paid_at() < floor {
                self.clear(floor);
            }
            // No instant is before time began, not by a part of a nanosecond either.
            if self.bps().is_some_and(|bps| self.at * bps + self.debt < 0) {
                self.clear(0);
            }
            if self.backlog_since <= paid_at && paid_at <= now {
                self.backlog_since = self.backlog_since.min(self.paid_at());
            }
            self.stay_within_time();
        } else {
            self.clear(paid_at.min(now));
            self.backlog_since = self.backlog_since.max(now);
            if rate == Rate::STOPPED {
                self.debt = debt.unwrap_or(0).max(0);
            }
        }
        let paid_at = self.paid_at();
        self.since = if now - paid_at <= self.catch_up { now } else { paid_at };
    }
}

/// Runs the operations that `history` encodes on the shaper and on its twin and compares them after
/// each; returns how many packets left. Any bytes are a history.
///
/// The first bytes choose rate and catch-up. Then each operation is one byte that says what to do
/// and the bytes of its argument; what is missing at the end reads as zero. Times reach every
/// `u64`, backwards too.
pub fn compare(history: &[u8]) -> usize {
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
                shaper.set_rate(Nanos(now), rate);
                twin.set_rate(now.into(), rate);
            }
            _ => {
                shaper.set_rate(Nanos(now), shaper.rate());
                twin.set_rate(now.into(), twin.rate);
            }
        }
        assert_eq!(i128::from(shaper.due().0), twin.due(), "after {operation} at {now}");
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
