//! Reference model of the shaper's clock, written from its definition as a debt that time pays off,
//! and a lock-step comparison of both over any sequence of operations. It is slow and uses no
//! reciprocals, fractions or carries.

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Rate, Shaper};

/// The debt of a link in units of 10⁻⁹ bit at a certain time: a packet adds to it, and each
/// nanosecond subtracts the rate. Negative debt is lateness that may be caught up.
///
/// Range: times below 2⁶⁵ ns (the maximum time plus one packet) × 4·10¹¹ < 2¹⁰⁴.
struct Twin {
    rate: Rate,
    debt: i128,
    /// Time of `debt`; at rates that are not finite, the time when everything was paid.
    at: i128,
    /// Latest departure or change.
    since: i128,
    catch_up: i128,
    /// Beginning of the backlog; after the maximum time if there was none yet.
    backlog_since: i128,
}

const END: i128 = u64::MAX as i128;

impl Twin {
    fn new(rate: Rate, catch_up: u64) -> Self {
        let catch_up = catch_up.into();
        Self { rate, debt: 0, at: 0, since: 0, catch_up, backlog_since: END }
    }

    /// Returns the rate in bit/s; `None` if stopped or unlimited.
    fn bps(&self) -> Option<i128> {
        self.rate.as_bits_per_second().filter(|&bps| bps > 0).map(i128::from)
    }

    /// Returns the first whole nanosecond without debt.
    fn paid_at(&self) -> i128 {
        let up = |debt: i128, bps: i128| -((-debt).div_euclid(bps));
        self.bps().map_or(self.at, |bps| self.at + up(self.debt, bps))
    }

    /// Returns the time of the next departure; the maximum time stands for never.
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

    /// Returns the time before which nothing is caught up at `now`.
    fn earliest(&self, now: i128) -> i128 {
        (now - self.catch_up).max(self.backlog_since.min(now)).max(0)
    }

    /// Clears the debt at time `at`.
    fn clear(&mut self, at: i128) {
        (self.debt, self.at) = (0, at);
    }

    fn charge(&mut self, now: i128, len: u32) {
        if self.rate == Rate::UNLIMITED {
            return;
        }
        if self.bps().is_some() && self.paid_at() <= now {
            // A time before the last packet or change means that the clock stepped back; it counts
            // as no time passing.
            let now = now.max(self.since);
            self.backlog_since = self.backlog_since.min(now);
            // Late by at least a whole nanosecond, not by a fraction.
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
            // No time is negative, not even by a fraction of a nanosecond.
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

/// Runs the operations encoded in `history` on the shaper and on its reference model and compares
/// them after each; returns the number of packets sent. All byte sequences are valid.
///
/// The first bytes select rate and catch-up. Each operation is one byte followed by its arguments;
/// missing bytes at the end are read as zero. Times cover all values of `u64`, and may go back.
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

/// Returns stopped, unlimited, or a rate with a uniform magnitude.
fn some_rate(seed: u64) -> Rate {
    match seed {
        0x0100 => Rate::STOPPED,
        0x0200 => Rate::UNLIMITED,
        _ => {
            // (1,000 to 1,999) · 2^(0..=29): exceeds the maximum, so that the clamp is reached
            // often.
            let bps = (1_000 + (seed >> 5) % 1_000) << (seed % 32).min(29);
            Rate::bits_per_second(bps.min(400_000_000_000)).expect("in range")
        }
    }
}
