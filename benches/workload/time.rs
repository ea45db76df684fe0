//! Comparable times: subjects alternate in one run.

use std::time::Instant;

use super::subjects::Subject;

/// Returns nanoseconds per pair of each of `subjects` in each of `passes`, in ascending order. They
/// run twice as long before the first pass, for warm-up.
pub(crate) fn times_in_turns<const N: usize>(
    mut subjects: [Box<dyn Subject>; N],
    pairs: usize,
    passes: usize,
) -> [Vec<f64>; N] {
    for subject in &mut subjects {
        subject.run(2 * pairs);
    }
    let mut times = [const { Vec::new() }; N];
    for _ in 0..passes {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let done = subject.run(pairs);
            times.push(start.elapsed().as_nanos() as f64 / done as f64);
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    times
}
