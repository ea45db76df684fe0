//! Amount of work in a test: fast, or complete.

/// Returns `full` if the environment has `FREEBOARD_TESTS=full`, which `cargo xtask check` sets,
/// and `quick` otherwise.
///
/// Both run the same code on the same first sequences. A test that asserts a minimum number of
/// occurrences asserts it for both.
#[must_use]
pub fn effort<T>(quick: T, full: T) -> T {
    let asked = std::env::var_os("FREEBOARD_TESTS");
    if asked.is_some_and(|word| word == "full") { full } else { quick }
}
