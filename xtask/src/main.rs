//! The project's own commands: `cargo xtask check`.
fn main() {}
