//! What is promised, and meters that hold the promises against what was sent.

pub(crate) mod guarantee;
pub(crate) mod wfi;
