//! How much a test tries: little enough to wait for, or everything.

/// `full` where the environment has `FREEBOARD_TESTS=full`, as `cargo xtask check` sets it; `quick`
/// elsewhere.
///
/// Both run the same code on the same first histories. A test that asserts how often something came
/// up asserts it for both.
#[must_use]
pub fn effort<T>(quick: T, full: T) -> T {
    let asked = std::env::var_os("FREEBOARD_TESTS");
    if asked.is_some_and(|word| word == "full") { full } else { quick }
}
