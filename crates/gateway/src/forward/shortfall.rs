//! Detects a link that is slower than the minimum rate of a direction: the rate is at its minimum
//! and used, and the delay remains.

use freeboard::sched_core::Nanos;

/// Number of decisions with delay that make an episode: five seconds.
const DECISIONS: u32 = 25;
/// Time without delay that ends an episode. It is long because a rate at its minimum keeps growing
/// for short times: the delay becomes the baseline.
const OVER: Nanos = Nanos::from_secs(10);

/// The state of a direction at a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) is_at_floor: bool,
    /// True if a significant part of the rate is used.
    pub(super) is_used: bool,
    /// The last delay; `None` without a reply.
    pub(super) delay: Option<Nanos>,
    /// Delay of the path without a queue, if known.
    pub(super) baseline: Option<Nanos>,
    /// Delay above the baseline that indicates a queue.
    pub(super) threshold: Nanos,
}

/// Episodes of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shortfall {
    /// Baseline before the rate was at its minimum.
    path: Option<Nanos>,
    /// True once a reply has been received.
    was_heard: bool,
    /// Number of decisions with delay at the minimum rate, and the time of the last.
    late: Option<(u32, Nanos)>,
}

impl Shortfall {
    /// Processes a decision; returns true if an episode begins.
    pub(super) fn decided(&mut self, now: Nanos, decision: Decision) -> bool {
        let Decision { is_at_floor, is_used, delay, baseline, threshold } = decision;
        if self.late.is_some_and(|(_, last)| now.since(last) >= OVER) {
            self.late = None;
        }
        if self.late.is_none() && !is_at_floor {
            self.path = baseline;
        }
        self.was_heard |= baseline.is_some();
        let path = self.path.or(baseline);
        let is_late = match (delay, path) {
            (Some(delay), Some(path)) => delay > path.plus(threshold),
            // Replies stopped.
            (None, _) => self.was_heard,
            (Some(_), None) => false,
        };
        if !(is_at_floor && is_used && is_late) {
            return false;
        }
        let count = self.late.map_or(0, |(count, _)| count).saturating_add(1);
        self.late = Some((count, now));
        count == DECISIONS
    }

    /// Forgets the baseline after a change of the path.
    pub(super) fn forget_path(&mut self) {
        self.path = None;
    }

    /// Returns true during an episode.
    pub(super) fn is_short(&self) -> bool {
        self.late.is_some_and(|(count, _)| count >= DECISIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which an episode begins in two minutes of decisions, five per second,
    /// each as `at` gives it for its second.
    fn begins(at: impl Fn(u64) -> Decision) -> Vec<u64> {
        let mut shortfall = Shortfall::default();
        let decisions = (0..600).map(|number| (number / 5, Nanos::from_millis(number * 200)));
        decisions
            .filter(|&(second, now)| shortfall.decided(now, at(second)))
            .map(|(second, _)| second)
            .collect()
    }

    const ABOVE: Decision = Decision {
        is_at_floor: false,
        is_used: true,
        delay: Some(Nanos::from_millis(20)),
        baseline: Some(Nanos::from_millis(20)),
        threshold: Nanos::from_millis(15),
    };
    const SHORT: Decision =
        Decision { is_at_floor: true, delay: Some(Nanos::from_millis(400)), ..ABOVE };

    /// Goal: an episode is reported once, even if the delay becomes the baseline and the rate
    /// leaves its minimum for seconds; the next one is reported again.
    #[test]
    fn an_episode_is_reported_once() {
        assert_eq!(begins(|second| if second < 10 { ABOVE } else { SHORT }), [14]);
        let learned = Decision { baseline: SHORT.delay, ..SHORT };
        let grown = Decision { is_at_floor: false, ..learned };
        let wavers = |second| match second {
            0..10 => ABOVE,
            _ if second % 8 < 6 => learned,
            _ => grown,
        };
        assert_eq!(begins(wavers).len(), 1);
        let twice = |second| if (10..30).contains(&second) || second > 60 { SHORT } else { ABOVE };
        assert_eq!(begins(twice), [14, 65]);
    }

    #[test]
    fn a_link_that_gives_enough_is_no_episode() {
        // At the minimum without delay, without load, for moments, and before any reply.
        let floor = Decision { is_at_floor: true, ..ABOVE };
        assert!(begins(|_| floor).is_empty());
        let idle = Decision { is_used: false, ..SHORT };
        assert!(begins(|second| if second < 10 { ABOVE } else { idle }).is_empty());
        assert!(begins(|second| if second % 20 == 3 { SHORT } else { ABOVE }).is_empty());
        let silent = Decision { delay: None, baseline: None, ..SHORT };
        assert!(begins(|_| silent).is_empty());
        assert_eq!(begins(|second| if second < 10 { ABOVE } else { silent }), [14]);
    }
}
