//! The arguments of a search.

/// For how many seconds to search and the seed, 1 if none is given. `None` if the arguments are
/// others: what is accepted has been said then.
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
