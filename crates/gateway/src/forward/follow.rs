//! Autorate at run time.
//!
//! Replies of a reflector with timestamps give the delay of each direction. Other replies give the
//! round trip only. A direction with little load compared to the other then cannot have caused the
//! delay, and its controller gets the baseline instead: see [`is_bystander`].

use core::net::IpAddr;

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Autorate, AutoratePath, Rate};

use crate::config::follow::Follow;
use crate::config::keywords::rate_word;
use crate::forward::direction::Direction;
use crate::forward::shortfall::{Decision, Shortfall};
use crate::io::ping::{Answer, Pinger};
use crate::log::say;
use crate::stats::report::{Followed, Reflected};

/// Interval between requests: four per interval between decisions.
const REQUESTS: Nanos = Nanos::from_millis(50);
/// Time without replies after which the next reflector is used.
const SILENCE: Nanos = Nanos::from_secs(1);
/// Interval of arrival-based updates, the highest rate at which the estimate changes.
const ARRIVALS: Nanos = Nanos::from_millis(250);
/// Interval over which loads are compared: the interval between decisions.
const INTERVAL: Nanos = Nanos::from_millis(200);

/// Autorate state of both directions.
#[derive(Debug, Default)]
pub(crate) struct Following {
    follow: Follow,
    pinger: Option<Pinger>,
    /// Index of the current reflector.
    asked: usize,
    heard: Nanos,
    /// True if the current reflector has replied.
    has_answered: bool,
    /// State of the paths to the reflectors, upload and download, in their order.
    paths: Vec<[AutoratePath; 2]>,
    controllers: [Option<Autorate>; 2],
    /// Bytes on the wire.
    loads: [Load; 2],
    loads_at: Nanos,
    shortfalls: [Shortfall; 2],
    /// Delay of the last reply, and the delays given to the controllers.
    delay: Option<Nanos>,
    told: [Nanos; 2],
    due: Nanos,
    arrivals_due: Nanos,
}

/// Bytes sent by a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    told: u64,
    /// At the start of the current interval, and during the last one.
    begin: u64,
    last: u64,
}

impl Following {
    /// Creates the state. `pinger` is present if delay-based autorate is possible.
    pub(crate) fn new(follow: Follow, pinger: Option<Pinger>, now: Nanos) -> Self {
        let mut following = Self {
            follow: Follow::default(),
            pinger,
            asked: 0,
            heard: now,
            has_answered: false,
            paths: Vec::new(),
            controllers: [None, None],
            loads: [Load::default(); 2],
            loads_at: now,
            shortfalls: [Shortfall::default(); 2],
            delay: None,
            told: [Nanos::ZERO; 2],
            due: now,
            arrivals_due: now,
        };
        following.set(follow, now);
        following
    }

    /// Returns true if delay-based autorate is possible: its sockets are opened at the start only.
    pub(crate) fn has_sockets(&self) -> bool {
        self.pinger.is_some()
    }

    pub(crate) fn pinger(&self) -> Option<&Pinger> {
        self.pinger.as_ref()
    }

    /// Applies another configuration; what was learned is kept if the path is the same.
    pub(crate) fn set(&mut self, follow: Follow, now: Nanos) {
        let is_same_path = follow.reflectors == self.follow.reflectors;
        for (controller, params) in self.controllers.iter_mut().zip(follow.by_delay) {
            match (controller.as_mut(), params) {
                (Some(controller), Some(params)) => controller.set_params(params),
                (_, params) => *controller = params.map(Autorate::new),
            }
        }
        self.follow = follow;
        if !is_same_path {
            self.paths = vec![<[AutoratePath; 2]>::default(); self.follow.reflectors.len()];
            self.asked = 0;
            self.ask(now, 0);
        }
    }

    /// Switches to the reflector at index `place`, with what was learned about its path.
    fn ask(&mut self, now: Nanos, place: usize) {
        let next = self.paths.get(place).copied().unwrap_or_default();
        let mut last = <[AutoratePath; 2]>::default();
        for ((controller, next), last) in self.controllers.iter_mut().zip(next).zip(&mut last) {
            if let Some(controller) = controller {
                *last = controller.change_path(next);
            }
        }
        if let Some(path) = self.paths.get_mut(self.asked).filter(|_| self.asked != place) {
            *path = last;
        }
        self.shortfalls.iter_mut().for_each(Shortfall::forget_path);
        self.asked = place;
        (self.heard, self.delay, self.has_answered) = (now, None, false);
        let to = self.follow.reflectors.get(place).copied();
        if let Some(pinger) = &mut self.pinger {
            pinger.ask(to);
        }
    }

    /// Switches to the next reflector if the current one is silent.
    fn turn(&mut self, now: Nanos) {
        if now.since(self.heard) < SILENCE {
            return;
        }
        if let (Some(pinger), Some(of)) = (&mut self.pinger, self.follow.reflectors.get(self.asked))
        {
            pinger.forget_clock(*of);
        }
        let count = self.follow.reflectors.len();
        if count > 1 {
            self.ask(now, (self.asked + 1) % count);
        }
    }

    /// Handles a reply at this utilisation of both directions. A late reply from a former reflector
    /// makes it the current one again if the current one has not replied yet: a full modem delays
    /// the replies of all.
    fn heard(&mut self, now: Nanos, answer: Answer, used: [u64; 2]) {
        let Some(place) = self.follow.reflectors.iter().position(|of| *of == answer.from) else {
            return;
        };
        if place != self.asked {
            if self.has_answered {
                return;
            }
            self.ask(now, place);
        }
        (self.heard, self.delay, self.has_answered) = (now, Some(answer.delay), true);
        for (at, controller) in self.controllers.iter_mut().enumerate() {
            let Some(controller) = controller else { continue };
            let base = controller.baseline().filter(|_| is_bystander(used[at], used[1 - at]));
            self.told[at] = match (answer.ways, base) {
                (Some(ways), _) => ways[at],
                (None, Some(base)) => base.min(answer.delay),
                (None, None) => answer.delay,
            };
            controller.delay_sample(self.told[at]);
        }
    }

    /// Returns the time of the next action.
    pub(crate) fn poll_at(&self) -> Option<Nanos> {
        let by_delay = self.pinger.is_some() && !self.follow.reflectors.is_empty();
        let by_arrivals = self.follow.by_arrivals.map(|_| self.arrivals_due);
        by_delay.then_some(self.due).into_iter().chain(by_arrivals).min()
    }

    /// Reads replies.
    pub(crate) fn hear(&mut self, now: Nanos, directions: &[Direction; 2]) {
        let Self { pinger: Some(pinger), loads, .. } = self else { return };
        let mut answers = Vec::new();
        pinger.answers(now, |answer| answers.push(answer));
        let used = [0, 1].map(|at| {
            let bits = directions[at].plan().rate.as_bits_per_second().unwrap_or(u64::MAX);
            let load = &loads[at];
            let present = directions[at].wire_bytes().saturating_sub(load.begin);
            parts_of(present.max(load.last), bits)
        });
        for answer in answers {
            self.heard(now, answer, used);
        }
    }

    /// Sends requests and updates the rates if due.
    pub(crate) fn follow(&mut self, now: Nanos, directions: &mut [Direction; 2]) {
        if self.due <= now && !self.follow.reflectors.is_empty() && self.pinger.is_some() {
            self.hear(now, directions);
            for (at, direction) in directions.iter_mut().enumerate() {
                let (sent, load) = (direction.wire_bytes(), &mut self.loads[at]);
                if let Some(controller) = &mut self.controllers[at] {
                    let rate = controller.update(now, sent.saturating_sub(load.told));
                    let rate = self.follow.by_arrivals.filter(|_| at == 1).map_or(rate, |bounds| {
                        lesser(rate, estimate(direction, bounds).unwrap_or(rate))
                    });
                    direction.set_rate(now, rate);
                }
                load.told = sent;
            }
            if now.since(self.loads_at) >= INTERVAL {
                for (load, direction) in self.loads.iter_mut().zip(&*directions) {
                    let sent = direction.wire_bytes();
                    (load.last, load.begin) = (sent.saturating_sub(load.begin), sent);
                }
                self.loads_at = now;
                self.say_if_short(now, directions);
            }
            self.turn(now);
            if let Some(pinger) = &mut self.pinger {
                pinger.request(now);
            }
            self.due = now.plus(REQUESTS);
        }
        if let Some(bounds) = self.follow.by_arrivals.filter(|_| self.arrivals_due <= now) {
            let down = &mut directions[1];
            if self.controllers[1].is_none()
                && let Some(rate) = estimate(down, bounds)
            {
                down.set_rate(now, rate);
            }
            self.arrivals_due = now.plus(ARRIVALS);
        }
    }

    /// Logs once per episode that the link is slower than the minimum rate.
    fn say_if_short(&mut self, now: Nanos, directions: &[Direction; 2]) {
        // An eighth of the rate counts as used: senders slow down to the rate of the link.
        const USED: u64 = 128;
        let is_heard = self.has_answered && now.since(self.heard) < SILENCE;
        for (at, controller) in self.controllers.iter().enumerate() {
            let Some(controller) = controller else { continue };
            let (rate, params) = (bits(controller.rate()), controller.params());
            let begins = self.shortfalls[at].decided(
                now,
                Decision {
                    is_at_floor: rate <= params.floor_bps(),
                    is_used: parts_of(self.loads[at].last, rate) >= USED,
                    delay: Some(self.told[at]).filter(|_| is_heard),
                    baseline: controller.baseline(),
                    threshold: params.threshold(),
                },
            );
            if begins {
                let name = directions[at].heading().name();
                let least =
                    Rate::bits_per_second(params.floor_bps()).map_or(String::new(), rate_word);
                say(&format!(
                    "{name}: the link is slower than --{name}-min {least}: the delay remains at this rate; lower --{name}-min"
                ));
            }
        }
    }

    /// Returns the current rate of a direction, if autorate controls it.
    pub(crate) fn rate(&self, at: usize) -> Option<Rate> {
        self.controllers.get(at)?.as_ref().map(Autorate::rate)
    }

    /// Returns the autorate part of a direction's report.
    pub(crate) fn report(&self, at: usize, direction: &Direction) -> Option<Followed> {
        let bits = |rate: Rate| rate.as_bits_per_second().unwrap_or(0);
        let by_arrivals = self.follow.by_arrivals.filter(|_| at == 1);
        let controller = self.controllers.get(at)?.as_ref();
        let (least, most) = match (controller, by_arrivals) {
            (Some(of), _) => (of.params().floor_bps(), of.params().ceiling_bps()),
            (None, Some((least, most))) => (bits(least), bits(most)),
            (None, None) => return None,
        };
        let millis = |span: Nanos| span.0 as f64 / 1e6;
        Some(Followed {
            state: controller.map_or("arrivals", |of| of.state().name()).to_owned(),
            min_bits_per_second: least,
            max_bits_per_second: most,
            arrivals_bits_per_second: by_arrivals.and_then(|_| direction.arrivals()),
            baseline_ms: controller.and_then(Autorate::baseline).map(millis),
            is_below_min: self.shortfalls[at].is_short(),
        })
    }

    /// Returns the part of the report about the reflector.
    pub(crate) fn reflected(&self) -> Option<Reflected> {
        let pinger = self.pinger.as_ref().filter(|_| !self.follow.reflectors.is_empty())?;
        Some(Reflected {
            address: pinger.to().map_or(String::new(), |to: IpAddr| to.to_string()),
            delay_ms: self.delay.map(|delay| delay.0 as f64 / 1e6),
            requests: pinger.sent,
            answers: pinger.answered,
        })
    }
}

/// Returns the rate estimated from arrivals, within bounds.
fn estimate(direction: &Direction, (least, most): (Rate, Rate)) -> Option<Rate> {
    let rate = direction.arrivals_rate()?;
    Some(lesser(greater(rate, least), most))
}

fn bits(rate: Rate) -> u64 {
    rate.as_bits_per_second().unwrap_or(u64::MAX)
}

fn lesser(one: Rate, other: Rate) -> Rate {
    if bits(one) < bits(other) { one } else { other }
}

fn greater(one: Rate, other: Rate) -> Rate {
    if bits(one) > bits(other) { one } else { other }
}

/// Returns the utilisation of a rate by `bytes` per interval, in 1/1,024.
fn parts_of(bytes: u64, bits_per_second: u64) -> u64 {
    let in_interval = u128::from(bits_per_second) * u128::from(INTERVAL.0) / 8_000_000_000;
    u64::try_from(u128::from(bytes) * 1_024 / in_interval.max(1)).unwrap_or(u64::MAX)
}

/// Returns true if a direction at this utilisation cannot have caused a delay: less than a quarter,
/// and less than half of the other direction's.
const fn is_bystander(used: u64, by_other: u64) -> bool {
    used < 256 && used < by_other / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_without_load_has_no_part_in_a_delay() {
        let mbits = |bytes, rate: u64| parts_of(bytes, rate * 1_000_000);
        // 250 kB in 200 ms are 10 Mbit/s.
        assert_eq!((mbits(250_000, 10), mbits(250_000, 40), mbits(0, 40)), (1_024, 256, 0));
        assert!(is_bystander(mbits(10_000, 10), mbits(250_000, 10)));
        assert!(!is_bystander(mbits(250_000, 10), mbits(10_000, 10)));
        // The link may have become slower than both: neither is exempt.
        assert!(!is_bystander(100, 120));
        assert!(!is_bystander(300, 1_024));
        assert_eq!(parts_of(u64::MAX, 1), u64::MAX);
    }

    const MS: u64 = 1_000_000;
    const STEP: Nanos = Nanos(10 * MS);

    /// Creates the state for these rates and reflectors.
    fn following(up: [&str; 3], down: [&str; 3], reflectors: &str) -> Following {
        let [up_min, up, up_max] = up;
        let [down_min, down, down_max] = down;
        let text = format!(
            "lan = \"a\"\nwan = \"b\"\nup = \"{up}\"\ndown = \"{down}\"\nautorate = \"{reflectors}\"\n\
             up-min = \"{up_min}\"\nup-max = \"{up_max}\"\ndown-min = \"{down_min}\"\ndown-max = \"{down_max}\""
        );
        let path = std::path::Path::new("x");
        let config = crate::config::RawOptions::from_text(path, text).unwrap().check().unwrap();
        Following::new(config.follow, None, Nanos::ZERO)
    }

    /// A link with a FIFO per direction, and the replies on their way.
    struct Line {
        bps: [u64; 2],
        /// Capacity of a FIFO and their backlogs, in nanoseconds.
        fifo: u64,
        queued: [u64; 2],
        /// True if the reflector gives timestamps.
        gives: bool,
        now: Nanos,
        coming: Vec<(Nanos, Answer)>,
    }

    impl Line {
        /// Advances one step in which these percentages of the rates are sent; returns the bits
        /// that the link carried.
        fn step(&mut self, following: &mut Following, shares: [u64; 2]) -> [u64; 2] {
            self.now = self.now.plus(STEP);
            let mut carried = [0; 2];
            for at in 0..2 {
                let bps = bits(following.rate(at).unwrap());
                let offered = bps * shares[at] / 100 * STEP.0;
                let queued = self.queued[at] + offered / self.bps[at];
                carried[at] = queued.min(STEP.0) * self.bps[at] / 1_000_000_000;
                self.queued[at] = queued.saturating_sub(STEP.0).min(self.fifo);
                let controller = following.controllers[at].as_mut().unwrap();
                controller.update(self.now, offered / 8_000_000_000);
            }
            if self.now.0.is_multiple_of(REQUESTS.0) {
                // The path takes 40 ms.
                let ways = self.queued.map(|queued| Nanos(queued + 20 * MS));
                let from = following.follow.reflectors[following.asked];
                let delay = ways[0].plus(ways[1]);
                let ways = self.gives.then_some(ways);
                self.coming.push((self.now.plus(delay), Answer { from, delay, ways }));
                following.turn(self.now);
            }
            let (come, coming) = self.coming.drain(..).partition(|(at, _)| *at <= self.now);
            self.coming = coming;
            let used = shares.map(|share| share * 1_024 / 100);
            let come: Vec<(Nanos, Answer)> = come;
            come.into_iter().for_each(|(_, answer)| following.heard(self.now, answer, used));
            carried
        }
    }

    /// Goal: a start under load with a full modem is detected, with one reflector and with two,
    /// whose replies arrive seconds after the other one became current. Method: an upload over 3
    /// Mbit/s with a full FIFO of 3.8 s, at a rate of 12 Mbit/s.
    #[test]
    fn late_answers_of_a_full_modem_are_heard() {
        for reflectors in ["192.0.2.1", "192.0.2.1,192.0.2.2"] {
            let up = ["1mbit", "12mbit", "24mbit"];
            let mut following = following(up, up, reflectors);
            let queued = [3_800 * MS, 0];
            let bps = [3_000_000, 50_000_000];
            let (now, coming) = (Nanos::ZERO, Vec::new());
            let mut line = Line { bps, fifo: 3_800 * MS, queued, gives: false, now, coming };
            let mut carried = 0;
            for step in 0..6_000 {
                let bits = line.step(&mut following, [100, 0]);
                if step >= 3_000 {
                    carried += bits[0];
                    assert!(line.queued[0] < 200 * MS, "{reflectors}: {} ns", line.queued[0]);
                }
            }
            assert!(carried / 30 >= 2_500_000, "{reflectors}: {carried} in 30 s");
            let baseline = following.controllers[0].as_ref().unwrap().baseline();
            assert!(baseline < Some(Nanos(80 * MS)), "{reflectors}: {baseline:?}");
        }
    }

    /// Goal: with timestamps each direction is controlled by its own queue when both are full.
    /// Method: 6 Mbit/s up and 28 down, with maxima of 12 and 40, both full; with timestamps and
    /// without.
    #[test]
    fn of_two_full_directions_each_follows_its_own_queue() {
        let carried = |gives: bool| {
            let (up, down) = (["1mbit", "6mbit", "12mbit"], ["4mbit", "20mbit", "40mbit"]);
            let mut following = following(up, down, "192.0.2.1");
            let (now, coming) = (Nanos::ZERO, Vec::new());
            let bps = [6_000_000, 28_000_000];
            let mut line = Line { bps, fifo: 800 * MS, queued: [0; 2], gives, now, coming };
            let mut carried = [0; 2];
            for step in 0..12_000 {
                let shares = if step < 100 { [0; 2] } else { [100; 2] };
                let bits = line.step(&mut following, shares);
                if step >= 3_000 {
                    carried = [carried[0] + bits[0], carried[1] + bits[1]];
                }
            }
            carried.map(|bits| bits / 90)
        };
        let [by_ways, together] = [true, false].map(carried);
        assert!(by_ways[0] >= 5_000_000 && by_ways[1] >= 24_000_000, "{by_ways:?}");
        assert!(by_ways[1] > together[1], "{by_ways:?}, and {together:?} of both together");
    }
}
