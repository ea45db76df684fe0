//! Command-line arguments of a search.

/// Returns the number of seconds to search and the seed, 1 by default. Prints the usage and returns
/// `None` if the arguments are invalid.
pub(crate) fn seconds_and_seed(search: &str) -> Option<(u64, u64)> {
    let numbers: Option<Vec<u64>> =
        std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[seconds @ 1..=1_000_000]) => Some((seconds, 1)),
        Some(&[seconds @ 1..=1_000_000, seed]) => Some((seconds, seed)),
        _ => {
            eprintln!("usage: {search} SECONDS (1..=1000000) [SEED]");
            None
        }
    }
}
