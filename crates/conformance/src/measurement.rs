//! Timing measurements on a machine that is shared with others.
//!
//! The host of a virtual machine, or other programs, may take the processors away for tens of
//! milliseconds at a time. A queue served there loses that time: its rate drops and its delays
//! rise, and a test cannot distinguish that from a bug. The time taken is the larger of what Linux
//! counts for the host (`steal` in `/proc/stat`) and of what a thread that only sleeps wakes late.
//! Measurements are evaluated as follows:
//!
//! - A correct measurement is accepted, regardless of the time taken.
//! - A wrong measurement counts if little time was taken during it. [`ATTEMPTS`] of them fail the
//!   test.
//! - A wrong measurement during which more time was taken is repeated. After [`PATIENCE`] of such
//!   attempts the test reports on stderr that it was not judged, and continues.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Instant;

/// Number of wrong measurements that fail a test.
pub const ATTEMPTS: usize = 5;

/// Fraction of time taken by others above which a wrong measurement does not count.
pub const MOST_TAKEN: f64 = 0.05;

/// Total time that one program may spend on measurements that do not count, over all its tests.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Remaining patience of this program.
static LEFT: Mutex<Duration> = Mutex::new(PATIENCE);

/// Repeats a measurement until it is correct, by the rules of the module. `try_once` prints the
/// measured values.
///
/// # Panics
///
/// If [`ATTEMPTS`] measurements that count are wrong.
pub fn attempts(what: &str, try_once: impl FnMut() -> Result<(), String>) {
    if let Err(failed) = tried(what, try_once) {
        panic!("{failed}");
    }
}

/// Repeats a measurement like [`attempts`], for tests that have to clean up before they fail.
///
/// # Errors
///
/// Returns a description if [`ATTEMPTS`] measurements that count are wrong.
pub fn tried(what: &str, try_once: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    conclude(what, judge(ATTEMPTS, taken_while(try_once), repeat))
}

/// Takes readings until the medians of five consecutive ones are `right`. A reading has one number
/// for each quantity measured. Readings count by the rules for measurements; at most 20 that count
/// are taken.
///
/// # Panics
///
/// If there are 20 readings that count and no five consecutive ones were right.
pub fn settles(what: &str, mut read: impl FnMut() -> Vec<f64>, right: impl Fn(&[f64]) -> bool) {
    let mut readings: Vec<Vec<f64>> = Vec::new();
    let mut try_once = || {
        readings.push(read());
        let Some(last) = readings.last_chunk::<5>() else {
            return Err(format!("{:.3?}", readings.last()));
        };
        let medians: Vec<f64> = (0..last[0].len())
            .map(|column| {
                let mut found = last.each_ref().map(|reading| reading[column]);
                found.sort_by(f64::total_cmp);
                found[2]
            })
            .collect();
        if right(&medians) {
            println!("{what}: {medians:.3?} of {readings:.3?}");
            return Ok(());
        }
        Err(format!("{:.3?}", last[4]))
    };
    if let Err(failed) = conclude(what, judge(20, taken_while(&mut try_once), repeat)) {
        panic!("{failed}");
    }
}

/// Result of a series of attempts.
#[derive(Debug, PartialEq)]
enum Verdict {
    Right,
    Wrong(String),
    NotJudged(String),
}

/// Repeats `attempt`, which returns its error, the fraction of time taken by others, and its
/// duration. Ends when an attempt is correct, when `most` wrong ones count, or when `may_repeat`
/// returns false for one that does not count.
fn judge(
    most: usize,
    mut attempt: impl FnMut() -> (Result<(), String>, f64, Duration),
    mut may_repeat: impl FnMut(Duration) -> bool,
) -> Verdict {
    let (mut counted, mut failed) = (0, String::new());
    loop {
        let (outcome, taken, time) = attempt();
        let Err(why) = outcome else { return Verdict::Right };
        failed += &format!("\n  {why} (others took {:.0} % of the time)", taken * 100.0);
        if taken <= MOST_TAKEN {
            counted += 1;
            if counted == most {
                return Verdict::Wrong(failed);
            }
        } else if !may_repeat(time) {
            return Verdict::NotJudged(failed);
        }
    }
}

/// Deducts `time` from the patience of this program; returns true while any is left.
fn repeat(time: Duration) -> bool {
    let mut left = LEFT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *left = left.saturating_sub(time);
    !left.is_zero()
}

fn conclude(what: &str, verdict: Verdict) -> Result<(), String> {
    match verdict {
        Verdict::Right => Ok(()),
        Verdict::Wrong(failed) => Err(format!("{what}:{failed}")),
        Verdict::NotJudged(failed) => {
            // Written to stderr directly, because the test harness captures `eprintln`: a test that
            // was not judged must be visible.
            let _ =
                writeln!(std::io::stderr(), "{what}: NOT JUDGED, others took the time:{failed}");
            Ok(())
        }
    }
}

/// Wraps `try_once` to also return the fraction of time that others took and the duration.
fn taken_while<T>(mut try_once: impl FnMut() -> T) -> impl FnMut() -> (T, f64, Duration) {
    move || {
        let (begin, before) = (Instant::now(), taken());
        let (outcome, late) = late_while(&mut try_once);
        let time = begin.elapsed();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let host = (taken() - before) / (time.as_secs_f64() * processors as f64);
        (outcome, host.max(late.as_secs_f64() / time.as_secs_f64()), time)
    }
}

/// Length of each sleep of the watching thread.
const NAP: Duration = Duration::from_millis(1);

/// Returns how much too late, in total, a thread woke that slept for [`NAP`] at a time meanwhile.
/// Up to another [`NAP`] is the timer's.
fn late_while<T>(try_once: impl FnOnce() -> T) -> (T, Duration) {
    /// Ends the watch, even if the attempt panics.
    struct End<'a>(&'a AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                std::thread::sleep(NAP);
                late += begin.elapsed().saturating_sub(2 * NAP);
            }
            late
        });
        let end = End(&is_over);
        let outcome = try_once();
        drop(end);
        (outcome, watch.join().unwrap_or_default())
    })
}

/// Returns the processor time taken by the host since boot in seconds, over all processors; 0 where
/// this is unknown.
fn taken() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    taken_of(&stat).unwrap_or(0) as f64 / TICKS_A_SECOND
}

/// Unit of Linux's counters (`USER_HZ`), 100 on all architectures used here.
const TICKS_A_SECOND: f64 = 100.0;

/// Parses the eighth number of the first line: `cpu  user nice system idle iowait irq softirq steal
/// …`.
fn taken_of(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the verdict on attempts that are wrong while the host takes these fractions of the
    /// time, followed by a correct one.
    fn verdict(taken: &[f64], repeats: usize) -> Verdict {
        let mut taken = taken.iter();
        let attempt = || match taken.next() {
            Some(&share) => (Err("wrong".into()), share, SECOND),
            None => (Ok(()), 0.0, SECOND),
        };
        let mut left = repeats;
        judge(ATTEMPTS, attempt, |time| {
            assert_eq!(time, SECOND);
            left = left.saturating_sub(1);
            left > 0
        })
    }

    #[test]
    fn wrong_measurements_on_a_quiet_machine_fail() {
        assert!(matches!(verdict(&[0.0; 5], 9), Verdict::Wrong(_)));
        assert!(matches!(verdict(&[MOST_TAKEN; 5], 9), Verdict::Wrong(_)));
        assert_eq!(verdict(&[0.0; 4], 9), Verdict::Right);
    }

    #[test]
    fn a_measurement_that_the_host_disturbed_is_tried_again_while_there_is_patience() {
        assert_eq!(verdict(&[0.2; 8], 9), Verdict::Right);
        assert!(matches!(verdict(&[0.2; 9], 9), Verdict::NotJudged(_)));
        assert!(matches!(
            verdict(&[0.2, 0.0, 0.2, 0.0, 0.0, 0.2, 0.0, 0.2, 0.0], 9),
            Verdict::Wrong(_)
        ));
    }

    /// Goal: the watch ends with the attempt, also if it panics, and never counts more than passed.
    #[test]
    fn the_watch_ends_with_the_attempt() {
        let begin = Instant::now();
        let (outcome, late) = late_while(|| {
            std::thread::sleep(20 * NAP);
            7
        });
        assert_eq!(outcome, 7);
        assert!(late < begin.elapsed());
        let broken = std::panic::catch_unwind(|| late_while(|| panic!("as the test wants")));
        assert!(broken.is_err());
    }

    #[test]
    fn readings_settle_by_the_medians_of_five() {
        let mut readings = [9.0, 1.0, 5.0, 2.0, 2.0, 2.0, 7.0].into_iter();
        settles("medians", || vec![readings.next().unwrap()], |medians| medians[0] == 2.0);
        // 9 1 5 2 2 has the median 2.
        assert_eq!(readings.len(), 2);
    }

    #[test]
    fn the_time_taken_is_the_eighth_number() {
        let stat =
            "cpu  8283916 513616 460741 2708086 15455 0 35719 554533 0 0\ncpu0 1 2 3 4 5 6 7 8 9\n";
        assert_eq!(taken_of(stat), Some(554_533));
        assert_eq!(taken_of("cpu  1 2 3"), None);
        assert_eq!(taken_of(""), None);
    }
}
